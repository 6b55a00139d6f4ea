"""Faults on hosts of others: which host does what for a link, and what a plan knows of the moves."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.base.errors import FaultError, Lacking
from chaos.definitions import load_topology
from chaos.definitions.existing import ExistingFile
from chaos.definitions.steps import Scene
from chaos.faults.fault import Fault
from chaos.faults.kind import built
from chaos.faults.loss import LossEvidence
from chaos.hosts import oschaos_host
from chaos.providers import ssh
from chaos.registry import FAULTS, PROVIDERS
from chaos.run.reaching import offers_on
from chaos.targets.existing.hosts import Hosts
from chaos.targets.existing.passages import TheirWiring

TOPOLOGY = load_topology("3az")
NODES = [node.name for node in TOPOLOGY.nodes]
ADDRESSES = {name: f"10.0.0.{n}" for n, name in enumerate(NODES, 1)}
CLIENTS = {"a": "10.0.9.1", "b": "10.0.9.2", "c": "10.0.9.3"}


def file(**changes: dict[str, Any]) -> ExistingFile:
    """Every node has a host of its own. ``changes``: node → what of its entry is otherwise."""
    members = {
        node.name: {
            "zone": node.zone,
            "roles": list(node.roles),
            "url": f"http://{node.name}:9200",
            "ssh": f"host-{node.name}",
            "addresses": [ADDRESSES[node.name]],
        }
        | changes.get(node.name.replace("-", "_"), {})
        for node in TOPOLOGY.nodes
    }
    return ExistingFile.model_validate(
        {
            "apiVersion": "opensearch-chaos/v1",
            "kind": "existing",
            "name": "staging",
            "endpoints": ["http://a-cm:9200"],
            "identity": {"cluster_uuid": "u", "cluster_name": "staging"},
            "opensearch": TOPOLOGY.version,
            "zones": {"names": {zone: zone for zone in TOPOLOGY.zones}},
            "nodes": members,
            "hosts": {"clients": {zone: {"addresses": [at], "ssh": f"app-{zone}"} for zone, at in CLIENTS.items()}},
        }
    )


def fault(kind: str, of: ExistingFile | None = None, **given: Any) -> Fault:
    of = of or file()
    wiring = TheirWiring.there("plan", TOPOLOGY.nodes, TOPOLOGY.zones, of)
    scene = Scene.of(TOPOLOGY, 1, "dark-1")
    return built(FAULTS[kind].model_validate(given), "dark-1", scene, wiring, offers_on(PROVIDERS, of).chosen(kind))


def asked(made: Fault) -> list[tuple[str, str, dict[str, Any]]]:
    moves = [each.move.arguments for each in made.moves if each.move.operation == "host.begin"]
    return [(each["node"], each["intent"], each["asked"]) for each in moves]


ENDS = st.sampled_from([*NODES, "client-a", "client-b"])
LINKS = st.sets(st.tuples(ENDS, ENDS).filter(lambda link: link[0] != link[1] and set(link) & set(NODES)), min_size=1)


@given(LINKS, st.sets(st.sampled_from(NODES)))
def test_each_link_is_cut_once_and_no_other(links: set[tuple[str, str]], machines: set[str]) -> None:
    reached = all(set(link) & machines for link in links)
    if not reached:
        with pytest.raises(Lacking, match="is reached by no host"):
            ssh.cuts(links, machines)
        return
    done: list[tuple[str, str]] = []
    for node, direction, peers in ssh.cuts(links, machines):
        assert node in machines and peers
        done += [(node, peer) for peer in peers if direction in ("out", "both")]
        done += [(peer, node) for peer in peers if direction in ("in", "both")]
    assert sorted(done) == sorted(links)


@given(LINKS)
def test_what_is_queued_is_queued_where_it_leaves(links: set[tuple[str, str]]) -> None:
    if any(a not in NODES for a, _ in links):
        with pytest.raises(Lacking, match="which its packets leave"):
            ssh.cuts(links, NODES, leaving=True)
        return
    found = ssh.cuts(links, NODES, leaving=True)
    assert sorted((node, peer) for node, _, peers in found for peer in peers) == sorted(links)
    assert {direction for _, direction, _ in found} == {"out"}


def test_a_zone_is_cut_off_on_its_own_hosts_and_its_clients_on_those_of_the_others() -> None:
    """Links between nodes of zone c and clients of zone c are inside it."""
    others = sorted([*(at for name, at in ADDRESSES.items() if name[0] != "c"), CLIENTS["a"], CLIENTS["b"]])
    for node, intent, what in asked(fault("zone.isolation", zone="c")):
        assert (intent, what["direction"]) == ("network.drop", "both")
        assert sorted(what["peers"]) == (others if node[0] == "c" else [CLIENTS["c"]])


def test_one_way_is_one_direction_at_one_end() -> None:
    ((node, _, what),) = asked(fault("network.drop", links="from node a-data to node c-data"))
    way = "out" if node == "a-data" else "in"
    assert what["direction"] == way and what["peers"] == [ADDRESSES["c-data" if node == "a-data" else "a-data"]]


def test_refusing_is_refusing_what_is_new_and_resetting_what_is_there() -> None:
    made = asked(fault("network.refuse", links="from node a-data to node c-data"))
    assert [intent for _, intent, _ in made] == ["network.refuse", "network.reset"]


def test_a_kill_has_its_undo_and_ids_are_of_their_own() -> None:
    made = fault("node.kill", target="zone c")
    assert [each.inverse.operation for each in made.moves if each.inverse] == ["host.undo", "host.undo"]
    assert [each.move.arguments["id"] for each in made.moves] == ["dark-1-0", "dark-1-1"]
    assert {each.move.where for each in made.moves} == {"c-cm", "c-data"}


def test_a_zone_s_power_comes_back_in_order() -> None:
    made = fault("zone.power_loss", zone="c", return_order=["cm", "data"], return_gap="5s")
    (back,) = [each.inverse for each in made.moves if each.inverse and each.inverse.operation == "host.return"]
    assert [[node for node, _ in group] for group in back.arguments["groups"]] == [["c-cm"], ["c-data"]]
    assert back.arguments["gap"] == 5.0


@pytest.mark.parametrize(
    ("kind", "given", "intent", "what"),
    [
        ("node.cpu_starvation", {"quota": "20%"}, "cpu.limit", {"processors": 0.2}),
        ("disk.full", {"fill": "60%"}, "disk.full", {"share": 0.6}),
        ("disk.full", {"to": "flood"}, "disk.full", {"share": 0.97}),
        ("disk.full", {"to": "enospc"}, "disk.full", {"leave_bytes": 0}),
        ("disk.slow", {"write": "64KiB/s"}, "disk.slow", {"rate": 65536, "reads": False}),
    ],
)
def test_processors_and_disks_are_asked_for_as_the_program_takes_them(
    kind: str, given: dict[str, Any], intent: str, what: dict[str, Any]
) -> None:
    made = fault(kind, target="zone c", **given)
    assert asked(made) == [("c-cm", intent, what), ("c-data", intent, what)]
    known = oschaos_host.INTENTS[intent]
    assert oschaos_host.checked(what, known.needed, known.optional) == what


def test_a_quota_that_the_program_does_not_take_is_refused_before_anything() -> None:
    known = oschaos_host.INTENTS["cpu.limit"]
    assert oschaos_host.checked({"processors": ssh.LEAST_PROCESSORS}, known.needed)
    with pytest.raises(oschaos_host.Refused):
        oschaos_host.checked({"processors": ssh.LEAST_PROCESSORS - 0.001}, known.needed)
    with pytest.raises(Lacking, match="no quota below 2% of a processor"):
        fault("node.cpu_starvation", target="node c-data", quota="1%")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"c_data": {"addresses": []}}, "does not say which addresses c-data"),
        ({"c_data": {"addresses": [ADDRESSES["b-data"]]}}, "have an address in common"),
        ({"a_data": {"ssh": "host-a-cm"}}, "a-cm is on the host of a-data too"),
        ({"a_data": {"ssh": None}, "c_data": {"ssh": None}}, "is reached by no host"),
    ],
)
def test_what_cannot_be_done_to_these_links_alone_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(Lacking, match=says):
        fault("network.drop", file(**changes), links="between node a-data and node c-data")


def test_a_node_without_a_host_is_not_killed() -> None:
    with pytest.raises(Lacking, match="the file names no host of c-data"):
        fault("node.kill", file(c_data={"ssh": None}), target="node c-data")


class There:
    """A target whose hosts say of each intent why it cannot be had."""

    def __init__(self, why: str | None) -> None:
        self.hosts, self._why = self, why
        self.run, self.token, self.of_nodes = "run-7", 65_599, {"c-data": "host-c-data"}

    def on_hosts(self, nodes: set[str]) -> dict[str, Any]:
        return {node: {"intents": {"node.kill": self._why}} for node in nodes}


def test_moves_are_of_the_run_that_has_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "there", lambda lab: lab)
    made = fault("node.kill", target="node c-data")
    assert made.read is not None
    (both,) = made.read(There(None))  # type: ignore[arg-type]
    assert (both.move.arguments["run"], both.move.arguments["token"]) == ("run-7", 65_599)
    assert both.inverse is not None and both.inverse.arguments == {"node": "c-data", "run": "run-7", "id": "dark-1-0"}
    with pytest.raises(FaultError, match=r"host-c-data: node\.kill of c-data cannot be had: it is not allowed"):
        made.read(There("it is not allowed"))  # type: ignore[arg-type]


class Counts:
    """Hosts that tell of so many packets."""

    of_nodes: ClassVar = {"a-data": "host-a"}
    run = "r1"

    def __init__(self, *steps: dict[str, Any]) -> None:
        self._steps = list(steps)

    def begun_as(self, node: str, id: str) -> str:
        return id

    def call(self, node: str, verb: str, given: dict[str, Any]) -> dict[str, Any]:
        assert (node, verb, given) == ("a-data", "state", {"run": "r1", "id": "dark-1-0"})
        return {"active": [{"steps": self._steps}] if self._steps else []}


def test_what_a_host_counted_of_a_loss_is_read_and_what_it_did_not_count_is_said() -> None:
    made = fault("network.loss", links="from node a-data to node c-data", share="20%")
    begun = made.moves[0].move
    step = {"step": "table", "there": True, "hit": 21, "met": 100, "spared": 0}
    found = ssh.counted(Counts(step), begun, 0.2)  # type: ignore[arg-type]
    assert (found.where, found.share, found.met, found.lost) == ("of a-data", 0.2, 100, 21)
    for steps in ([], [{"step": "table", "there": False}], [{"step": "table", "there": True, "hit": 1}]):
        with pytest.raises(FaultError, match="host-a counts no packets of dark-1-0"):
            ssh.counted(Counts(*steps), begun, 0.2)  # type: ignore[arg-type]
    looks = made.evidence()
    assert isinstance(looks, LossEvidence) and looks.counting is not None


def test_of_a_loss_that_comes_and_goes_the_packets_of_this_time_are_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A host takes each id once, so each time has one of its own, and tells nothing of one that is over."""
    begun = fault("network.loss", links="from node a-data to node c-data", share="20%").moves[0].move
    hosts, active = Hosts({"a-data": "host-a"}, None, tmp_path / "sockets"), dict[str, int]()

    def call(node: str, verb: str, given: Any, *, within: float = 0.0) -> dict[str, Any]:
        if verb == "begin":
            active[given["id"]] = 100 * len(given["id"])
        if verb == "undo":
            active.pop(given["id"])
        step = {"step": "table", "there": True, "hit": 20, "met": active.get(given.get("id", ""))}
        return {"ok": True, "active": [{"steps": [step]}] if step["met"] else [], "steps": []}

    monkeypatch.setattr(hosts, "call", call)
    monkeypatch.setattr(hosts, "verify", lambda node, anew=True: None)
    monkeypatch.setattr(hosts, "of", lambda node: SimpleNamespace(join=lambda run: None))
    for id in ("dark-1-0", "dark-1-0-x2", "dark-1-0-x3"):
        hosts.begin("a-data", begun.arguments["asked"] | {"id": "dark-1-0"})
        assert list(active) == [id]
        assert ssh.counted(hosts, begun, 0.2).met == 100 * len(id)
        hosts.undo("a-data", "r1", "dark-1-0")
    hosts.close()


@pytest.mark.parametrize("rolling", [True, False])
def test_a_restart_that_starts_nodes_in_order_is_refused_and_others_are_not(rolling: bool) -> None:
    made = fault("node.restart", target="zone c", rolling=rolling)
    assert [intent for _, intent, _ in asked(made)] == ["node.stop", "node.stop"] and made.in_order is rolling
    with pytest.raises(Lacking, match="leave start out"):
        fault("node.restart", target="zone c", rolling=False, start="in_order")


def test_a_lab_is_no_target_of_hosts() -> None:
    with pytest.raises(FaultError, match="only a cluster that exists"):
        ssh.there(object())  # type: ignore[arg-type]
