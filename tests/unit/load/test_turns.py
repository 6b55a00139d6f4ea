"""No lock step: in every shipped topology and experiment everything that is chosen meets everything else.

Pure functions only, in the order in which the load would call them: which client zone an arrival comes from, which node
gets it, which zones compete for a key, what a read asks for.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shipped import EXPERIMENTS, ROOT, TOPOLOGIES

from chaos.definitions import load_topology
from chaos.load.balancer import Balancer
from chaos.load.cas import key_of, turn_of, zone_of
from chaos.load.schedule import SECOND, Schedule
from chaos.load.turns import at, client_of, mixed, order
from chaos.load.visibility import looker_of, writer_of
from chaos.load.workloads.documents import GROUPS, Requests
from chaos.opensearch.routing import shard_of
from chaos.registry import load_experiment

SECONDS = 100


@given(st.sets(st.integers(0, 300), min_size=1, max_size=12), st.integers(0, 2**64 - 1), st.integers(0, 50))
def test_an_order_is_a_pure_function_of_its_seed_and_leaves_nobody_out(members, seed, number):
    found = order(members, seed, number)
    assert sorted(found) == sorted(members) and found == order(sorted(members), seed, number)
    turns = [at(n, sorted(members), seed) for n in range(3 * len(members))]
    assert set(Counter(turns).values()) == {3}


def test_all_orders_come_equally_often():
    orders = Counter(tuple(order(range(3), 7, number)) for number in range(6000))
    assert len(orders) == 6 and all(abs(count - 1000) < 150 for count in orders.values())


# -- everything that ships --------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """What decides who asks whom. ``nodes``: of the data nodes, those in service, by number."""

    name: str = field(compare=False)
    zones: tuple[str, ...]
    nodes: tuple[int, ...]
    all_nodes: tuple[str, ...]
    read: float
    write: float
    law: str
    shards: int
    documents: int
    seed: int = 1


def shapes() -> Iterator[Shape]:
    for file in EXPERIMENTS:
        experiment = load_experiment(file)
        rates = {op.name: float(op.rate) for op in experiment.load.operations}
        yield _shape(file.stem, experiment.topology, experiment.client_zones, rates, experiment.load)
    load = load_experiment(ROOT / "experiments" / "data-promises.yaml").load
    for file in TOPOLOGIES:
        topology = load_topology(file.stem, near=ROOT / "experiments" / "x.yaml")
        for zones in dict.fromkeys((topology.active_zones, topology.zones, topology.zones[:1])):
            yield _shape(f"{file.stem} from {','.join(zones)}", topology, zones, {"read": 20.0, "write": 20.0}, load)


def _shape(name, topology, zones, rates, load) -> Shape:
    data = topology.data_nodes
    serving = tuple(number for number, node in enumerate(data) if node.zone in topology.active_zones)
    shards = int(topology.settings.index.get("number_of_shards", 1))
    return Shape(
        name=name,
        zones=tuple(zones),
        nodes=serving,
        all_nodes=tuple(node.zone for node in data),
        read=rates.get("read", 0.0) or 20.0,
        write=rates.get("write", 0.0) or 20.0,
        law=load.arrivals,
        shards=shards,
        documents=load.documents or 2000,
    )


ALL = list({shape: shape for shape in shapes()}.values())
"""Each once: many experiments are alike in this."""


class Counted:
    """The load balancer as it was: a counter for each operation, one for reads and writes of compare-and-set."""

    def __init__(self, nodes, *, seed):
        self.in_use, self._turn = tuple(nodes), {}

    def choose(self, op: int) -> int:
        op = min(op, CAS)
        turn = self._turn.get(op, op)
        self._turn[op] = turn + 1
        return self.in_use[turn % len(self.in_use)]


READ, WRITE, PROBE, CAS = 0, 1, 1000, 2000
Seen = dict[str, Counter]


def walked(shape: Shape, made: Callable[..., Balancer] = Balancer, cas: float = 10.0, keys: int = 5) -> Seen:
    """Who met whom in ``SECONDS`` of load, with compare-and-set and probes as in data-promises."""
    balancers = [made(shape.nodes, seed=mixed(shape.seed, zone)) for zone in range(len(shape.zones))]
    rows = Schedule([shape.read, shape.write], shape.law, shape.seed).until(SECONDS * SECOND).tolist()
    events = [
        ((intended, 0, k, op) for k, op, intended in rows),
        ((int((n - n % 2) / cas * SECOND), 1, n, 0) for n in range(int(SECONDS * cas))),
        ((int(n / 2 * SECOND), 2, n, 0) for n in range(SECONDS * 2)),
    ]
    requests = Requests("chaos", shape.documents)
    bodies = {request.body: group for group, request in enumerate(requests._searches)}
    routing = {1: 1024, 2: 1024, 3: 768, 6: 768, 24: 768, 200: 800}[shape.shards]
    found: Seen = {}

    def met(what: str, *whom: int) -> None:
        found.setdefault(what, Counter())[whom] += 1

    last: dict[int, int] = {}
    for _, kind, n, op in heapq.merge(*events):
        if kind == 0:
            zone = client_of(n, op, len(shape.zones), shape.seed)
            node = balancers[zone].choose(op)
            name = ("read", "write")[op]
            met(f"{name}: zone, node", zone, node)
            if op == WRITE:
                met("write: shard, node", shard_of(f"w-{n}", shape.shards, routing), node)
                met("write: shard, zone", shard_of(f"w-{n}", shape.shards, routing), zone)
                if READ in last:
                    met("load: node of the read before, node of this write", last[READ], node)
            else:
                asked = bodies[requests.of("search", n).body]
                met("read: tenth of what is asked, node", asked * 10 // GROUPS, node)
                met("read: tenth of what is asked, zone", asked * 10 // GROUPS, zone)
            last[op] = node
        elif kind == 1:
            key, zone = key_of(n, keys), zone_of(n, len(shape.zones), shape.seed)
            read, write = (balancers[zone].choose(turn_of(f, n)) for f in ("read", "cas"))
            met("cas: key, zone", key, zone)
            met("cas: key, node read", key, read)
            met("cas: key, node written", key, write)
            met("cas: zone, node read", zone, read)
            met("cas: zone, node written", zone, write)
            met("cas: node read, node written", read, write)
            if n % 2:
                met("cas: node of the other of a pair, node read", last[CAS], read)
            last[CAS] = read
        else:
            zone = writer_of(n, len(shape.zones), shape.seed)
            met("probe: zone, node written", zone, balancers[zone].choose(PROBE))
            met("probe: shard, zone", shard_of(f"v-{n}", shape.shards, routing), zone)
            for number, home in enumerate(shape.all_nodes):
                looker = looker_of(n, number, home, shape.zones, shape.seed)
                if home not in shape.zones:
                    met("probe: zone that writes, zone that asks a node without clients", zone, looker)
    return found


def locks(found: Seen, shape: Shape, keys: int = 5) -> list[str]:
    """Pairs that met less than a third of what they would by chance: by chance alone not once in 50,000."""
    all_of = {
        "node": shape.nodes,
        "zone": range(len(shape.zones)),
        "key": range(keys),
        "shard": range(shape.shards),
        "tenth": range(10),
    }
    wrong = []
    for what, pairs in found.items():
        sides = [all_of[side.split()[0]] for side in what.partition(": ")[2].split(", ")]
        expected = sum(pairs.values()) / (len(sides[0]) * len(sides[1]))
        wrong += [
            f"{what}: {a} and {b} met {pairs[a, b]} times, {expected:.0f} expected"
            for a in sides[0]
            for b in sides[1]
            if expected >= 30 and pairs[a, b] < expected / 3
        ]
    return wrong


@pytest.mark.parametrize("shape", ALL, ids=lambda shape: shape.name)
def test_nothing_that_ships_is_in_step(shape: Shape):
    found = walked(shape)
    assert locks(found, shape) == []
    for what in ("read: zone, node", "write: zone, node", "cas: zone, node read", "cas: zone, node written"):
        met = {zone: {node for z, node in found[what] if z == zone} for zone in range(len(shape.zones))}
        assert met == {zone: set(shape.nodes) for zone in range(len(shape.zones))}
    assert {key for key, _ in found["cas: key, node read"]} == set(range(5))


@pytest.mark.parametrize("keys", [1, 2, 3, 6])
@pytest.mark.parametrize("zones", [1, 2, 3])
@pytest.mark.parametrize("nodes", [1, 2, 3, 6])
def test_nor_is_any_number_of_keys_with_zones_and_nodes(keys: int, zones: int, nodes: int):
    homes = tuple("abcabc"[:nodes])
    shape = Shape("any", tuple("abc"[:zones]), tuple(range(nodes)), homes, 5, 5, "uniform", 3, 2000)
    assert locks(walked(shape, cas=20.0, keys=keys), shape, keys) == []


def test_the_plain_counter_was_in_step_and_is_found():
    """The control: with it half of the copies of 3az-standby were never read."""
    standby = next(shape for shape in shapes() if shape.name == "3az-standby from a,b")
    wrong = locks(walked(standby, Counted), standby)
    assert any(each.startswith("cas: node read, node written: 0 and 0 met 0 times") for each in wrong), wrong


def test_both_of_a_pair_come_from_different_zones():
    for zones in (2, 3):
        pairs = [{zone_of(n, zones, 1), zone_of(n + 1, zones, 1)} for n in range(0, 200, 2)]
        assert all(len(pair) == 2 for pair in pairs)
    assert {zone_of(n, 1, 1) for n in range(10)} == {0}
