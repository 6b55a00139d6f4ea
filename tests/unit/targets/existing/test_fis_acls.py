"""What an undo by FIS deletes: clones of network ACLs that FIS left of this fault, and none of other experiments."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.base.errors import FaultError
from chaos.definitions.fis import FisFile
from chaos.targets.existing.fis import Fis, Word

FILE = FisFile.model_validate(
    {"region": "eu-west-1", "account": "123456789012", "role": "arn:aws:iam::123456789012:role/chaos"}
    | {"longest": "10m", "alarms": ["arn:aws:cloudwatch:eu-west-1:123456789012:alarm:shop"]}
)
OWN, SUBNET = "acl-own", "subnet-ours"
RUN, FAULT = "20261126T1000Z-one-ab12", "f1"


class Vpc(Fis):
    """One VPC: a network ACL of ours and those that FIS made, each with the subnets that have it."""

    def __init__(self, **of_fis: list[str]) -> None:
        super().__init__(FILE, "staging")
        self.subnets_of: dict[str, list[str]] = {OWN: [SUBNET], **{f"acl-{id}": has for id, has in of_fis.items()}}
        self.under_way: list[dict[str, Any]] = []
        self.operators: set[str] = set()
        """Network ACLs that FIS has not made."""
        self.denied: set[str] = set()
        """Network ACLs that may not be deleted."""
        self.deleted_by_others: set[str] = set()
        """Those that are gone by the time when their deletion comes."""

    def _told_of(self, id: str) -> dict[str, Any]:
        tags = [] if id.startswith(OWN) or id in self.operators else [{"Key": "managedByFIS", "Value": "true"}]
        has = [{"SubnetId": each, "NetworkAclId": id, "NetworkAclAssociationId": each} for each in self.subnets_of[id]]
        return {"NetworkAclId": id, "VpcId": "vpc-1", "Tags": tags, "Associations": has}

    def _all(self, service: str, operation: str, key: str, **given: Any) -> list[dict[str, Any]]:
        return self.call(service, operation, **given)[key]

    def call(self, service: str, operation: str, **given: Any) -> dict[str, Any]:
        if operation == "describe_network_acls":
            return {"NetworkAcls": [self._told_of(id) for id in given.get("NetworkAclIds", self.subnets_of)]}
        if operation == "list_experiments":
            return {"experiments": self.under_way}
        if operation == "stop_experiment":
            return {}
        if operation == "replace_network_acl_association":
            for has in self.subnets_of.values():
                if given["AssociationId"] in has:
                    has.remove(given["AssociationId"])
            self.subnets_of[given["NetworkAclId"]].append(given["AssociationId"])
            return {}
        assert operation == "delete_network_acl"
        if given["NetworkAclId"] in self.denied:
            raise FaultError("ec2 delete_network_acl: UnauthorizedOperation: you are not authorized")
        if given["NetworkAclId"] in self.deleted_by_others:
            del self.subnets_of[given["NetworkAclId"]]
            raise FaultError("ec2 delete_network_acl: InvalidNetworkAclID.NotFound: it does not exist")
        del self.subnets_of[given["NetworkAclId"]]
        return {}

    def cut(self, clone: str = "acl-clone") -> None:
        """As FIS leaves our subnet: with its clone."""
        self.subnets_of[OWN].remove(SUBNET)
        self.subnets_of[clone] = [SUBNET]

    def gives_back(self) -> None:
        """As FIS does at the end of its experiment, and deletes its clone later, or never."""
        self.subnets_of["acl-clone"].clear()
        self.subnets_of[OWN] = [SUBNET]

    def _started(self, *given: Any) -> str:
        return "EXP1"

    def _refuse_others(self, *given: Any) -> None:
        return

    def _word(self, id: str) -> Word:
        """It runs until its stop was sent, and is over at the first look after it."""
        if (RUN, FAULT) not in self._stopped:
            return Word("running", "running")
        if self.subnets_of.get("acl-clone"):
            self.gives_back()
        return Word("stopped", "stopped")


def test_clones_that_others_had_before_the_fault_are_left_and_that_of_the_fault_goes() -> None:
    vpc = Vpc(theirs=[], busy=["subnet-theirs"])
    snapshot = vpc.before([SUBNET])
    vpc.cut()
    vpc.subnets_of["acl-busy"].clear()  # their experiment ends meanwhile, and FIS has not deleted it yet
    vpc._associate(snapshot)
    assert vpc.subnets_of == {OWN: [SUBNET], "acl-theirs": [], "acl-busy": []}


def test_a_clone_that_a_colleague_s_experiment_left_meanwhile_is_no_clone_of_ours() -> None:
    vpc = Vpc()
    snapshot = vpc.before([SUBNET])
    vpc.cut()
    vpc.subnets_of["acl-theirs"] = []  # made after the look before the fault, and not deleted yet
    vpc._associate(snapshot)
    assert vpc.subnets_of == {OWN: [SUBNET], "acl-theirs": []}


def test_a_clone_that_our_subnet_was_seen_with_goes_also_where_it_has_none_any_more() -> None:
    vpc = Vpc()
    snapshot = vpc.before([SUBNET])
    vpc.cut()
    vpc.start(RUN, FAULT, {"subnets-0": [f"arn:aws:ec2:eu-west-1:123456789012:subnet/{SUBNET}"]})
    vpc.gives_back()  # its duration is over
    vpc.subnets_of["acl-theirs"] = []
    vpc.end(RUN, FAULT, snapshot)
    assert vpc.subnets_of == {OWN: [SUBNET], "acl-theirs": []}


def test_another_machine_sees_it_right_after_the_stop() -> None:
    vpc = Vpc()
    snapshot = vpc.before([SUBNET])
    vpc.cut()
    vpc.subnets_of["acl-theirs"] = []
    vpc.under_way = [{"id": "EXP1", "state": {"status": "running"}, "tags": vpc.tags(RUN, FAULT)}]
    vpc.end(RUN, FAULT, snapshot)
    assert vpc.subnets_of == {OWN: [SUBNET], "acl-theirs": []}


def over(vpc: Vpc) -> None:
    """Its experiment is over, so that nothing of it is seen right after a stop."""
    vpc.under_way = [{"id": "EXP1", "state": {"status": "stopped"}, "tags": vpc.tags(RUN, FAULT)}]


def test_a_clone_that_could_not_be_deleted_is_deleted_by_the_next_undo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it was not seen before it was taken off its subnet: EC2 did not answer then."""
    vpc = Vpc()
    snapshot = vpc.before([SUBNET])
    vpc.cut()
    over(vpc)
    monkeypatch.setattr(vpc, "_remember", lambda *_: None)
    vpc.denied = {"acl-clone"}
    with pytest.raises(FaultError, match=r"acl-clone, which FIS made of this fault, is still there: .*not authorized"):
        vpc.end(RUN, FAULT, snapshot)
    assert vpc.subnets_of == {OWN: [SUBNET], "acl-clone": []}
    vpc.denied.clear()
    vpc.end(RUN, FAULT, snapshot)
    assert vpc.subnets_of == {OWN: [SUBNET]}


def test_one_that_may_not_be_deleted_keeps_no_other_from_it_and_both_are_told() -> None:
    vpc = Vpc()
    vpc.subnets_of["acl-own-2"] = ["subnet-2"]
    snapshot = {"acls": {SUBNET: OWN, "subnet-2": "acl-own-2", "subnet-3": OWN}, "others": []}
    vpc.subnets_of[OWN], vpc.subnets_of["acl-own-2"] = [], []
    vpc.subnets_of |= {"acl-clone": [SUBNET], "acl-clone-2": ["subnet-2"], "acl-operators": ["subnet-3"]}
    vpc.operators = {"acl-operators"}
    vpc.denied = {"acl-clone"}
    with pytest.raises(FaultError) as raised:
        vpc._associate(snapshot)
    assert vpc.subnets_of == {
        OWN: [SUBNET], "acl-own-2": ["subnet-2"], "acl-clone": [], "acl-operators": ["subnet-3"]
    }  # fmt: skip
    assert "subnet-3 has acl-operators" in str(raised.value)
    assert "aws ec2 delete-network-acl --network-acl-id acl-clone" in str(raised.value)


@pytest.mark.parametrize("when", ["before the undo", "while it goes on"])
def test_a_clone_that_an_operator_deleted_is_named_no_more(when: str) -> None:
    vpc = Vpc()
    snapshot = vpc.before([SUBNET])
    vpc.cut()
    vpc.denied = {"acl-clone"}
    with pytest.raises(FaultError, match="not authorized"):
        vpc._associate(snapshot, {})
    with pytest.raises(FaultError, match="whether it is of this fault is unknown"):
        vpc._associate(snapshot, {})  # another machine has not seen it on the subnet
    if when == "before the undo":
        del vpc.subnets_of["acl-clone"]
    else:
        vpc.denied, vpc.deleted_by_others = set(), {"acl-clone"}
    vpc._associate(snapshot, {SUBNET: "acl-clone"})
    assert vpc.subnets_of == {OWN: [SUBNET]}


@pytest.mark.parametrize("snapshot", [{"acls": {SUBNET: OWN}, "others": []}, {"acls": {SUBNET: OWN}}])
def test_where_none_was_seen_on_our_subnet_one_that_no_subnet_has_is_named_and_left(snapshot: Any) -> None:
    """As where the runner died, and FIS ended the experiment by itself. Ledgers of before have no ``others``."""
    vpc = Vpc(theirs=[])
    with pytest.raises(FaultError, match="acl-theirs is FIS's and no subnet has it, and whether it is of this fault"):
        vpc._associate(snapshot)
    assert vpc.subnets_of == {OWN: [SUBNET], "acl-theirs": []}


def test_by_a_snapshot_of_before_an_undo_is_clean_where_there_is_nothing_of_others() -> None:
    vpc = Vpc()
    vpc.cut()
    vpc._associate({"acls": {SUBNET: OWN}})
    assert vpc.subnets_of == {OWN: [SUBNET]}
