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

    def _told_of(self, id: str) -> dict[str, Any]:
        tags = [] if id == OWN else [{"Key": "managedByFIS", "Value": "true"}]
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
