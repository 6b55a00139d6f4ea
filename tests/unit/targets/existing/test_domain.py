"""A domain of Amazon OpenSearch Service: its health, and the restart of a node that is asked for once, whatever comes.

The endpoint and boto3 are real; the lab behind them only remembers what was done to it, and its cluster is made up.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from fishands import TinyLab, needs_moto
from fistamper import Times, tampering

from chaos.base.errors import ChaosError, FaultError, InvalidInput
from chaos.definitions.domain import DomainFile
from chaos.fis_endpoint import domain as service
from chaos.fis_endpoint import standing
from chaos.fis_endpoint.clients import client
from chaos.fis_endpoint.standing import Standing
from chaos.opensearch.views import ShardCopy, View
from chaos.targets.existing import domain as ours
from chaos.targets.existing.domain import Domain
from chaos.targets.labs.processes import wait_until

NODE = "c-data"
LAB = TinyLab("domain-of-a-test")
NAMES = [node.name for node in LAB.topology.nodes]
IDS = {name: f"{name}-of-22-characters"[:22] for name in NAMES}
CALLS = ["describe_domain", "describe_domain_health", "list_domain_maintenances", "start_domain_maintenance"]


@dataclass
class Cluster:
    """What the cluster behind the control plane says of itself."""

    state: str = "STARTED"
    weights: dict[str, int] | None = None
    replicas: str = "2"
    away: set[str] = field(default_factory=set)
    gate: threading.Event = field(default_factory=threading.Event)

    def view(self, lab: Any) -> list[View]:
        there = frozenset(NAMES) - self.away - LAB.dead
        return [View("a-cm", 1, "a-cm", there, (ShardCopy("shop", 0, True, self.state, "a-data"),))]

    def ask(self, lab: Any, method: str, path: str, *_: Any, **__: Any) -> tuple[int, Any]:
        if path.startswith("/_cat/indices"):
            return 200, [{"index": "shop", "rep": self.replicas}]
        return 200, {"nodes": {IDS[name]: {"name": name} for name in NAMES if name not in self.away}}


@dataclass
class There:
    stands: Standing
    cluster: Cluster
    times: Times
    domain: Domain

    def ask(self, path: str) -> tuple[int, Any]:
        return self.cluster.ask(None, "GET", path)

    def restart(self) -> tuple[str, list[str]]:
        """Asked for, and where it is known."""
        id, before = self.domain.node_id(self.ask, NODE), self.domain.known()
        self.domain.maintain(id, before)
        return id, before

    def restarts(self) -> int:
        return LAB.calls.count(("stop", NODE))


@pytest.fixture(scope="module")
def stood(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Standing, Times]]:
    needs_moto()
    times = Times("deny", frozenset(), left=0)
    changed = lambda setup: replace(setup, serve=tampering(times))  # noqa: E731
    with standing.standing(LAB, folder=tmp_path_factory.mktemp("domain"), changed=changed) as stands:
        yield stands, times


@pytest.fixture
def there(stood: tuple[Standing, Times], monkeypatch: pytest.MonkeyPatch) -> Iterator[There]:
    stands, times = stood
    cluster = Cluster()
    monkeypatch.setattr(service, "views", cluster.view)
    monkeypatch.setattr(service, "administer", cluster.ask)
    monkeypatch.setattr(service.administration, "weights", lambda _: (cluster.weights, 1))
    monkeypatch.setattr(ours, "LOST_SECONDS", 1.0)
    times.left = 0
    LAB.calls.clear()
    made = There(stands, cluster, times, Domain(DomainFile.model_validate(stands.domain)))
    yield made
    times.left = 0
    assert wait_until(lambda: made.domain.under_way() == [], 30)


def test_a_node_is_restarted_and_aws_says_when_it_is_over(there: There) -> None:
    assert there.domain.not_ready() == []
    id, before = there.restart()
    there.domain.settle(id, before)
    word = there.domain.word(id, before)
    assert (word.status, word.over, word.denied) == ("COMPLETED", True, False)
    assert LAB.calls == [("stop", NODE), ("start", NODE)] and there.domain.not_ready() == []
    there.domain.settle(id, before)  # once more does no harm
    assert there.restarts() == 1


def test_its_health_is_told_as_aws_tells_it(there: There) -> None:
    there.cluster.weights, there.cluster.away = {"a": 1, "b": 1, "c": 0}, {"b-data"}
    there.cluster.state = "INITIALIZING"
    said = there.domain.health()
    assert (said["ClusterHealth"], said["MasterNode"], said["DataNodeCount"]) == ("Red", "Available", "3")
    zones = {name[-1]: (each["ZoneStatus"], each["AvailableDataNodeCount"]) for name, each in said["zones"].items()}
    assert zones == {"a": ("Active", "1"), "b": ("NotAvailable", "0"), "c": ("StandBy", "1")}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"weights": {"a": 1, "b": 1, "c": 0}}, "Multi-AZ with Standby"),
        ({"state": "INITIALIZING"}, "health is Red"),
    ],
)
def test_what_aws_would_not_maintain_is_refused_before_it_is_asked(there: There, change: Any, says: str) -> None:
    for name, value in change.items():
        setattr(there.cluster, name, value)
    assert says in "; ".join(there.domain.not_ready())
    with pytest.raises(FaultError, match="ValidationException"):
        there.restart()
    assert there.restarts() == 0 and there.domain.word(IDS[NODE], there.domain.known()).denied


def test_aws_refuses_where_an_index_has_no_replica(there: There) -> None:
    there.cluster.replicas = "0"
    with pytest.raises(FaultError, match="a replica of every index: shop"):
        there.restart()
    assert there.restarts() == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"DomainProcessingStatus": "Modifying"}, "AWS is changing the domain (Modifying)"),
        ({"Processing": True, "DomainProcessingStatus": None}, "AWS is changing the domain (Processing)"),
        ({"ClusterConfig": {"InstanceCount": 2}}, "AWS asks for 3 data nodes, and says that it has 2"),
        ({"ClusterConfig": {}}, "says that it has an unknown number"),
    ],
)
def test_what_is_not_known_or_not_so_keeps_a_run_away(
    there: There, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], says: str
) -> None:
    told = there.domain._call("describe_domain")["DomainStatus"] | change
    real = there.domain._call
    monkeypatch.setattr(
        there.domain, "_call", lambda name, **more: {"DomainStatus": told} if name == "describe_domain" else real(name)
    )
    assert [each for each in there.domain.not_ready() if says in each]


def test_only_data_nodes_that_aws_lists_once_are_restarted(there: There) -> None:
    with pytest.raises(FaultError, match="a-cm is a node of the type Master, and AWS restarts data nodes alone"):
        there.domain.node_id(there.ask, "a-cm")
    with pytest.raises(FaultError, match="AWS lists no nodes of the domain chaos-lab that are nobody"):
        there.domain.node_id(there.ask, "nobody")


def test_another_domain_is_not_found(there: There) -> None:
    other = Domain(DomainFile.model_validate(there.stands.domain | {"name": "another"}))
    with pytest.raises(FaultError, match="ResourceNotFoundException: Domain not found: another"):
        other.health()


def test_another_account_is_asked_nothing(there: There) -> None:
    other = Domain(DomainFile.model_validate(there.stands.domain | {"account": "210987654321"}))
    with pytest.raises(InvalidInput, match="answers for the account 123456789012, and the target is 210987654321"):
        other.health()


@pytest.mark.parametrize("what", ["drop", "cut", "hang after"])
def test_a_lost_answer_never_makes_a_second_restart(there: There, monkeypatch: pytest.MonkeyPatch, what: Any) -> None:
    monkeypatch.setattr("chaos.aws.clients.READ_TIMEOUT", 1)
    there.times.what, there.times.operations, there.times.left = what, frozenset({"StartDomainMaintenance"}), 1
    there.times.seen.clear()
    id, before = there.restart()
    there.domain.settle(id, before)
    assert there.times.seen.count("StartDomainMaintenance") == 1 and there.restarts() == 1
    assert there.domain.word(id, before).status == "COMPLETED"


@pytest.mark.parametrize("what", ["throttle", "error", "deny"])
def test_what_is_refused_is_not_asked_again_and_nothing_is_left(there: There, what: Any) -> None:
    there.times.what, there.times.operations, there.times.left = what, frozenset({"StartDomainMaintenance"}), 1
    there.times.seen.clear()
    id, before = there.domain.node_id(there.ask, NODE), there.domain.known()
    with pytest.raises(FaultError):
        there.domain.maintain(id, before)
    assert there.times.seen.count("StartDomainMaintenance") == 1
    there.domain.settle(id, before)
    assert there.restarts() == 0 and there.domain.word(id, before).status is None


@pytest.mark.parametrize("what", ["throttle", "error", "cut"])
def test_reading_is_asked_again(there: There, what: Any) -> None:
    there.times.what, there.times.operations, there.times.left = what, frozenset({"DescribeDomainHealth"}), 1
    if what == "cut":  # botocore takes it for an answer without members: nothing is known, and that is told
        assert there.domain.health()["ClusterHealth"] is None
    else:
        assert there.domain.health()["ClusterHealth"] == "Green"


def test_what_aws_took_and_does_not_list_is_not_known_to_be_over(there: There, monkeypatch: pytest.MonkeyPatch) -> None:
    id, before = there.domain.node_id(there.ask, NODE), there.domain.known()
    with monkeypatch.context() as silent:
        silent.setattr(there.domain, "_maintenances", list)
        with pytest.raises(FaultError, match="AWS took it, and does not list"):
            there.domain.maintain(id, before)
        with pytest.raises(FaultError, match=r"whether the maintenance .* is over is not known"):
            there.domain.settle(id, before)
    there.domain.settle(id, before)
    assert there.domain.word(id, before).over and there.restarts() == 1


def test_a_list_that_was_cut_short_is_no_list(there: There) -> None:
    """It would say that nothing of ours is under way."""
    there.times.what, there.times.operations, there.times.left = "cut", frozenset({"ListDomainMaintenances"}), 1
    with pytest.raises(FaultError, match="an answer without DomainMaintenances"):
        there.domain.under_way()


def test_maintenances_of_others_are_not_ours_and_keep_us_away(there: There, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = there.stands.service
    gate = threading.Event()
    monkeypatch.setattr(handler, "_restart", lambda node: gate.wait(30))
    aws = client("opensearch", there.stands.url)
    before = there.domain.known()
    aws.start_domain_maintenance(DomainName="chaos-lab", Action="REBOOT_NODE", NodeId=IDS[NODE])
    try:
        assert there.domain.word(IDS[NODE], before).status is None  # another action than ours
        (going,) = there.domain.under_way()
        assert going.startswith(f"REBOOT_NODE of {IDS[NODE]} is ") and going in there.domain.not_ready()
        with pytest.raises(FaultError, match="another maintenance is under way"):
            there.restart()
    finally:
        gate.set()


def test_one_that_does_not_end_is_said(there: There, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr(there.stands.service, "_restart", lambda node: gate.wait(30))
    id, before = there.restart()
    try:
        assert not there.domain.word(id, before).over
        with pytest.raises(FaultError, match=r"not over after 1 s: RESTART_SEARCH_PROCESS of .* is IN_PROGRESS"):
            there.domain.settle(id, before, within=1.0)
    finally:
        gate.set()
    there.domain.settle(id, before)


def test_one_that_failed_is_over_and_denied(there: There, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(node: str) -> None:
        raise ChaosError("no machine")

    monkeypatch.setattr(there.stands.service, "_restart", fails)
    id, before = there.restart()
    there.domain.settle(id, before)
    word = there.domain.word(id, before)
    assert (word.status, word.over, word.denied) == ("FAILED", True, True) and "no machine" in word.says


def test_two_that_could_be_ours_are_nobodys(there: There) -> None:
    id, before = there.restart()
    there.domain.settle(id, before)
    client("opensearch", there.stands.url).start_domain_maintenance(
        DomainName="chaos-lab", Action="RESTART_SEARCH_PROCESS", NodeId=id
    )
    there.domain.settle(id, before)
    assert there.domain.word(id, before).denied and "2 of them" in there.domain.word(id, before).says


def test_pages_are_read_to_the_end(there: There) -> None:
    """Of the endpoint a page has 100."""
    service_ = there.stands.service
    made = [service.Maintenance(f"old-{n}", IDS[NODE], "REBOOT_NODE", "COMPLETED", n, n) for n in range(150)]
    for each in made:
        service_._book._all[each.id] = each
    try:
        assert {each.id for each in made} <= set(there.domain.known())
    finally:
        for each in made:
            del service_._book._all[each.id]


def test_an_endpoint_that_died_meanwhile_says_that_it_failed(there: There) -> None:
    handler = there.stands.service
    file = handler._book._file
    handler._book.put(service.Maintenance("dead", IDS[NODE], "REBOOT_NODE", "IN_PROGRESS", 1.0, 1.0))
    again = service.DomainService(handler._lab, handler._hands, file.parent)
    (dead,) = [each for each in again._book.all() if each.id == "dead"]
    assert (dead.status, dead.message) == ("FAILED", "the endpoint died meanwhile")
    handler._book.put(dead)


def test_a_policy_of_iam_denies_by_operation(there: There) -> None:
    there.times.what, there.times.operations, there.times.left = "deny", frozenset({"DescribeDomain"}), 1
    with pytest.raises(FaultError, match="AccessDenied"):
        there.domain.not_ready()
