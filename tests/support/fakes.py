"""A lab in memory, an event log in memory, and evidence that says what it is told to: for tests of the pure parts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from chaos.base.access import PLAIN
from chaos.base.netsock import Endpoint
from chaos.base.paths import ProcessIdentity
from chaos.definitions import Topology, load_topology
from chaos.faults.evidence import Look, Probe
from chaos.faults.fault import Fault
from chaos.faults.moves import Reversible
from chaos.opensearch.cluster import Zoning
from chaos.targets.parts import Parts
from chaos.targets.protocol import DiskAnswer
from chaos.targets.wiring import Wiring

ROOT = Path(__file__).parents[2]
PARTS = Parts("/home", "3.8.0", "assembled", "lib/*", "/java", "21", (), None, "/toxiproxy", "2.12.0")

UNLIMITED = {"limit": "none"}


@cache  # a topology is frozen
def topology(name: str = "3az-standby") -> Topology:
    return load_topology(ROOT / "topologies" / f"{name}.yaml")


class FakeDisks:
    """``answers``: by node and what is asked; ``used``: shares by node. Moves are remembered by the lab."""

    def __init__(self, lab: FakeLab) -> None:
        self._lab = lab
        self.answers: dict[tuple[str, str], DiskAnswer] = {}
        self.used: dict[str, float] = {}
        self.limits: dict[tuple[str, str], int] = {}

    def _do(self, call: str, node: str, effect: str, there: bool) -> None:
        self._lab._do(call, (node,), (effect, node), there)

    def freeze(self, node: str) -> None:
        self._do("freeze", node, "frozen", True)

    def thaw(self, node: str) -> None:
        self._do("thaw", node, "frozen", False)

    def throttle(self, node: str, whose: str, rate: int) -> None:
        self._do("throttle", node, f"slow for {whose}", True)
        self.limits[node, whose] = rate

    def unthrottle(self, node: str, whose: str) -> None:
        self._do("unthrottle", node, f"slow for {whose}", False)
        self.limits.pop((node, whose), None)

    def fill(self, node: str, share: float | None) -> None:
        self._do("fill", node, "full", True)

    def empty(self, node: str) -> None:
        self._do("empty", node, "full", False)

    def make_read_only(self, node: str) -> None:
        self._do("make_read_only", node, "broken", True)

    def fail(self, node: str) -> None:
        self._do("fail", node, "broken", True)

    def cut_power(self, node: str) -> None:
        self._do("cut_power", node, "broken", True)

    def restore(self, node: str) -> None:
        self._do("restore", node, "broken", False)

    def usage(self, node: str) -> tuple[int, int]:
        return 1000, round(1000 * (1 - self.used.get(node, 0.1)))

    def filled(self, node: str) -> int:
        return 500 if ("full", node) in self._lab.effects else 0

    def throttled(self, node: str, whose: str) -> int | None:
        return self.limits.get((node, whose))

    def is_read_only(self, node: str) -> bool:
        return ("broken", node) in self._lab.effects

    def still_waits(self, node: str) -> bool:
        return ("frozen", node) in self._lab.effects

    def probe(self, node: str, do: str, **given: Any) -> DiskAnswer:
        return self.answers.get((node, do), DiskAnswer(seconds=0.001))

    def tidy(self, node: str) -> None:
        return


class FakeLab:
    """Remembers what is in effect and every call. ``fails(call, arguments)`` may raise instead."""

    kind = "local"  # whose order of providers it has
    relayed = False
    asks = False
    access = PLAIN
    zoning = Zoning()

    def __init__(self, name: str = "3az-standby", id: str = "fake") -> None:
        self.id = id
        self.topology = topology(name)
        self.wiring = Wiring.of_topology(id, self.topology)
        self.effects: set[tuple[str, ...]] = set()
        self.calls: list[tuple[str, ...]] = []
        self.fails: Callable[[str, tuple[str, ...]], None] = lambda call, arguments: None
        self.missing: dict[str, str] = {}
        self.states: dict[str, str | None] = {}
        self.pids: dict[str, int] = {}
        self.versions: dict[str, str] = {}
        self.limited: dict[tuple[str, str], dict[str, str]] = {}
        self.disks = FakeDisks(self)
        self._lock = threading.Lock()

    def mend(self) -> list[str]:
        return []

    def lacks(self, capability: str) -> str | None:
        return self.missing.get(capability)

    def node(self, name: str) -> Any:
        return self.topology.node(name)

    @property
    def viewers(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.topology.nodes)

    def administration(self, node: str) -> Endpoint:
        """Nobody answers there."""
        return Endpoint("127.0.0.1", 1)

    def process_state(self, node: str) -> str | None:
        return self.states.get(node, "S")

    def version(self, node: str) -> str:
        return self.versions.get(node, self.topology.version)

    def set_version(self, node: str, version: str) -> None:
        self._do("version", (node, version), ("version", node), True)
        self.versions[node] = version

    def data_is_empty(self, node: str) -> bool:
        return ("wiped", node) in self.effects

    def identity(self, node: str) -> ProcessIdentity | None:
        return ProcessIdentity(self.pids.setdefault(node, 1000), 1, "boot")

    def limits(self, node: str, resource: str) -> dict[str, str]:
        return dict(self.limited.get((node, resource), UNLIMITED))

    def restore_limits(self, node: str, resource: str, values: Mapping[str, str]) -> None:
        self._do("restore_limits", (node, resource), ("limited", node, resource), False)
        self.limited[node, resource] = dict(values) or UNLIMITED

    def limit_processors(self, node: str, processors: float) -> None:
        self._do("limit_processors", (node,), ("limited", node, "cpu"), True)
        self.limited[node, "cpu"] = {"limit": str(processors)}

    def squeeze_memory(self, node: str, headroom: int) -> None:
        self._do("squeeze_memory", (node,), ("limited", node, "memory"), True)
        self.limited[node, "memory"] = {"limit": str(headroom)}

    def exhaust_memory(self, node: str) -> None:
        self._do("exhaust_memory", (node,), ("limited", node, "memory"), True)
        self._do("kill", (node,), ("dead", node), True)

    def _do(self, call: str, arguments: tuple[str, ...], effect: tuple[str, ...], there: bool) -> None:
        self.fails(call, arguments)
        with self._lock:
            self.calls.append((call, *arguments))
            (self.effects.add if there else self.effects.discard)(effect)

    def add_toxic(self, host: str, proxy: str, toxic: str, kind: str, stream: str, attributes: dict[str, Any]) -> None:
        self._do("add_toxic", (host, proxy, toxic), ("toxic", host, proxy, toxic), True)

    def remove_toxic(self, host: str, proxy: str, toxic: str) -> None:
        self._do("remove_toxic", (host, proxy, toxic), ("toxic", host, proxy, toxic), False)

    def proxies(self, host: str) -> dict[str, Any]:
        self.fails("proxies", (host,))
        here = [effect for effect in self.effects if effect[0] in ("toxic", "disabled") and effect[1] == host]
        return {
            proxy.name: {
                "enabled": ("disabled", host, proxy.name) not in here,
                "toxics": [{"name": e[3]} for e in here if e[0] == "toxic" and e[2] == proxy.name],
            }
            for proxy in self.wiring.proxies(self.wiring[host])
        }

    def set_proxy(self, host: str, proxy: str, enabled: bool) -> None:
        self._do("enable" if enabled else "disable", (host, proxy), ("disabled", host, proxy), not enabled)

    def block_neighbour(self, host: str, peer: str) -> None:
        self._do("block", (host, peer), ("blocked", host, peer), True)

    def restore_neighbour(self, host: str, peer: str) -> None:
        self._do("restore", (host, peer), ("blocked", host, peer), False)

    def kill_node(self, node: str) -> None:
        self._do("kill", (node,), ("dead", node), True)

    def stop_node(self, node: str) -> None:
        self._do("stop", (node,), ("dead", node), True)

    def start_node(self, node: str) -> None:
        self._do("start", (node,), ("dead", node), False)

    def pause_node(self, node: str) -> None:
        self._do("pause", (node,), ("paused", node), True)

    def resume_node(self, node: str) -> None:
        self._do("resume", (node,), ("paused", node), False)

    def wipe_node(self, node: str) -> None:
        self._do("wipe", (node,), ("wiped", node), True)


class Log:
    """Events in memory."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def write(self, kind: str, *, t: int | None = None, **fields: Any) -> int:
        self.events.append({"kind": kind, **fields})
        return 0

    @property
    def kinds(self) -> list[str]:
        return [event["kind"] for event in self.events]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["kind"] == kind]


class FakeEvidence:
    """Says what it was told to, without waiting."""

    effect_deadline = 0.0
    gone_deadline = 0.0
    held_deadline = 0.0
    holds = True

    def __init__(self, before: bool = True, effect: bool = True, gone: bool = True, held: bool = True) -> None:
        self._before, self._effect, self._gone, self._held = before, effect, gone, held
        self.still_says: Look | None = None
        self.suspected: list[Any] = []
        self.closed = False

    def held(self, lab: Any) -> Look:
        return Look(self._held, "held")

    def still(self, lab: Any) -> Look | None:
        return self.still_says

    def suspect(self, pairs: Any) -> None:
        self.suspected += pairs

    def beside(self, links: Any, nodes: Any) -> None:
        return

    def before(self, lab: Any) -> Look:
        return Look(self._before, "before")

    def in_effect(self, lab: Any) -> Look:
        return Look(self._effect, "effect")

    def gone(self, lab: Any) -> Look:
        return Look(self._gone, "gone")

    def close(self) -> None:
        self.closed = True


def a_fault(id: str, moves: list[Reversible], evidence: Any = None, needs: tuple[str, ...] = ()) -> Fault:
    made = evidence or FakeEvidence()
    return Fault(id, "network.latency", f"fault {id}", "as told", (), (), tuple(moves), lambda: made, needs, "#000")


class Shown:
    """Evidence that always says the same."""

    effect_deadline = gone_deadline = held_deadline = 1.0
    holds = True

    def __init__(self, proven: bool) -> None:
        self.look = Look(proven, "seen", [Probe("it", "x", "x", proven)])

    def before(self, lab: Any) -> Look:
        return self.look

    in_effect = held = still = gone = before
