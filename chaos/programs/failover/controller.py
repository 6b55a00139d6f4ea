"""The zonal failover controller: sees, decides, acts if it may, and writes down why.

Several may run, one a zone say, without knowing of each other: a change of weights names the version that it is based
on, so that of two that decide at once one is refused; and what another one did is seen in the cluster and starts the
same cool-down. What was asked for holds when the cluster says so, whether the answer came or was lost.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from chaos.base.errors import said_by_opensearch
from chaos.history.writer import EventWriter
from chaos.opensearch.cluster import Zoning
from chaos.opensearch.requests import document_path, known_path, owner_of, write_alias
from chaos.programs.failover import cluster as api_of
from chaos.programs.failover.cluster import Reading, canary_settings, carry_out, pairs, took_effect
from chaos.programs.failover.decide import HOUR, Memory, Policy, Step, decide
from chaos.programs.failover.rest import Answer, Api, Node, discover
from chaos.programs.failover.signs import OF_ASKING, OF_MEMBERS, Signs
from chaos.programs.failover.watch import Pace, Watch

TICK_SECONDS = 0.1
READ_EVERY_SECONDS = 2.0
SUSPICIOUS_SECONDS = 0.25
"""How often the cluster is read while a zone is suspect."""
DISCOVER_EVERY_SECONDS = 30.0
PATIENCE = {"weights": 40.0, "decommission": 270.0, "recommission": 40.0, "retry": 40.0, "lead": 40.0}
"""Seconds until a step that has not taken effect counts as lost; OpenSearch gives a decommission 2 x 120 s."""
PAUSE_SECONDS = 2.0
"""After a step that was refused or lost."""
FORGET_AFTER_SECONDS = HOUR
"""A node that the cluster has not counted for so long, and that does not answer, was replaced, if its zone has another
one of its kind. Until then its silence counts as a sign that the zone is ill. The last of a kind is never forgotten."""
STEER_AFTER_SECONDS = 1.0
"""A node whose probe has been bad for so long gets no traffic, whatever becomes of its zone."""


@dataclass
class Pending:
    """A step that was asked for and has not been seen to hold yet."""

    step: Step
    began: float
    answer: Answer | None = None
    answered: float = 0.0
    failed_before: bool = False
    """Of a decommission: all that was read of its zone until now is FAILED, as an earlier try has left it."""

    @property
    def refused(self) -> bool:
        """For good: OpenSearch goes on with a decommission after a 503 or 504."""
        if self.answer is None or self.answer.status < 400:
            return False
        return self.step.do != "decommission" or self.answer.status not in (503, 504)

    def lost(self, now: float) -> bool:
        """Nothing more is to be expected: no answer came, or nothing came of it."""
        cut = self.answer is not None and self.answer.status == 0 and now - self.answered > PAUSE_SECONDS
        return cut or now - self.began > PATIENCE[self.step.do]


class FailoverController:
    """``acts`` False: it says what it would do. ``me`` is its name in events and canaries."""

    def __init__(
        self,
        api: Api,
        addresses: Sequence[str],
        *,
        me: str,
        zoning: Zoning,
        policy: Policy,
        pace: Pace,
        acts: bool,
        canaries: bool,
        log: Path,
        at: Mapping[str, str] | None = None,
        owner: str | None = None,
        says: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``canaries``: whether it may make indices of its own and write to them. ``owner``: what these are marked
        with; canaries that have another mark, or none, are somebody else's then, and are not used.

        ``at``: node → ``host:port`` where nodes are not reached where they publish.
        """
        self._api, self._addresses, self._me, self._zoning = api, list(addresses), me, zoning
        self._policy, self._pace, self._acts, self._at, self._says = policy, pace, acts, dict(at or {}), says
        self._canaries, self._owner = canaries, owner
        self._signs = Signs()
        self._watch = Watch(api, self._signs, pace, me)
        self._nodes: dict[str, Node] = {}
        self._gone_since: dict[str, float] = {}
        self._memory, known, self._owes = _remembered(log)
        self._events = EventWriter(log)
        self._reading: Reading | None = None
        self._read_at = self._discovered_at = float("-inf")
        self._pending: Pending | None = None
        self._not_before = 0.0
        self._said: dict[str, Any] = {}
        self._told: dict[str, set[str]] = {}
        self._ready = False
        self._stop = threading.Event()
        self._steered: tuple[str, ...] = ()
        self._weights_version: int | None = None
        self._out: frozenset[str] = frozenset()
        self._decommissioned = False
        self._learn(known)

    # ---- what others ask ----------------------------------------------------------------------

    def steering(self) -> dict[str, Any]:
        """The nodes that may take traffic now, and why just these."""
        names = set(self._steered)
        nodes = [node.to_json() for node in self._nodes.values() if node.name in names]
        return {"controller": self._me, "acts": self._acts, "nodes": nodes}

    def status(self) -> dict[str, Any]:
        """Everything that the next decision rests on."""
        now, reading = time.monotonic(), self._reading
        zones = self._zones
        return {
            **self.steering(),
            "cluster": None if reading is None else asdict(reading.cluster) | {"alone": sorted(reading.cluster.alone)},
            "evidence": {zone: [asdict(each) for each in self._signs.against(zone, now, 0.001)] for zone in zones},
            "pending": None if self._pending is None else asdict(self._pending.step),
            "last": self._said.get("decision"),
        }

    def ask_rotation(self) -> None:
        """Rotate the zones' roles as soon as all is well."""
        self._memory = replace(self._memory, rotation_asked=True)

    def stop(self) -> None:
        self._stop.set()

    # ---- the loop -----------------------------------------------------------------------------

    def run(self) -> None:
        """Until :meth:`stop`."""
        self._events.write("failover.start", controller=self._me, acts=self._acts, policy=asdict(self._policy))
        try:
            while not self._stop.is_set():
                self.turn()
                self._stop.wait(TICK_SECONDS)
        finally:
            self._watch.stop()
            self._tell_stops()
            self._events.write("failover.stop", controller=self._me)
            self._events.close()

    def turn(self) -> None:
        self._tell_stops()
        now = time.monotonic()
        if now - self._discovered_at >= DISCOVER_EVERY_SECONDS or not self._nodes:
            self._discover(now)
        zones = self._zones
        suspect = [zone for zone in zones if self._signs.against(zone, now, self._policy.read_sustained / 2)]
        often = SUSPICIOUS_SECONDS if suspect or self._pending else READ_EVERY_SECONDS
        if now - self._read_at >= often:
            self._read(now, suspect)
        self._tell_evidence(zones, now)
        now = time.monotonic()
        if self._pending is not None:
            self._follow(self._pending, now)
        elif now >= self._not_before:
            reading = self._reading
            known = reading.cluster if reading is not None else None
            held_up = self._watch.held_up(now - self._policy.write_sustained)
            step = decide(self._signs, known, self._memory, self._policy, now, held_up)
            self._handle(step, now)
        self._steer(now)

    def _discover(self, now: float) -> None:
        found, why = discover(
            self._api,
            [*(node.address for node in self._nodes.values()), *self._addresses],
            self._zoning,
            timeout=3.0,
        )
        self._discovered_at = now
        if not found:
            self._tell("trouble", f"nodes were not found: {why}")
            self._discovered_at = now - DISCOVER_EVERY_SECONDS + PAUSE_SECONDS
        self._learn(found)

    def _learn(self, found: Sequence[Node]) -> None:
        """Nodes that are not found any more stay known for long: it is the lost ones that have to be watched."""
        learnt = {node.name: replace(node, address=self._at.get(node.name, node.address)) for node in found}
        if self._nodes != (known := self._nodes | learnt):
            self._nodes = known  # another one: who serves requests may be reading the old one
            self._cover()

    def _read(self, now: float, suspect: Sequence[str]) -> None:
        self._read_at = now
        for informant in self._watch.informants(now, suspect, self._nodes.values())[:3]:
            reading, why = api_of.read(
                self._api, informant, list(self._nodes.values()), self._zoning, shards=bool(suspect)
            )
            if reading is None:
                self._tell("trouble", why)
                if time.monotonic() - now > api_of.READ_SECONDS:
                    break  # the cluster manager does not answer, whoever is asked; others would wait as long
                continue
            if self._reading is not None and reading.version < self._reading.version:
                continue  # it lags behind, or has been left behind
            self._told.pop("trouble", None)
            self._take_in(reading, now)
            if self._owes is not None and self._acts:
                self._pay(informant, self._owes)
            if not self._ready:
                least = self._policy.read_sustained / 2
                kinds = {each.kind for zone in suspect for each in self._signs.against(zone, now, least)}
                if kinds <= OF_ASKING:
                    self._make_ready(informant, reading)
            return
        self._reading = None

    def _take_in(self, reading: Reading, now: float) -> None:
        self._reading, cluster = reading, reading.cluster
        whole = all(node.name in reading.members for node in self._nodes.values())
        since = (self._memory.incomplete_since or now) if whole and not cluster.green else None
        self._memory = replace(self._memory, incomplete_since=since)
        out = frozenset(zone for zone, state in cluster.decommissioned.items() if state != "FAILED")
        if cluster.weights_version != self._weights_version:
            if self._weights_version is not None:
                self._memory = replace(self._memory, swapped_at=now, rotation_asked=False)
            self._weights_version = cluster.weights_version
            weights = dict(cluster.weights)
            self._events.write(
                "failover.weights", controller=self._me, weights=weights, version=cluster.weights_version
            )
        if self._decommissioned and not cluster.decommissioned:  # FAILED is no return
            returns = tuple(at for at in self._memory.returns if now - at < HOUR)
            self._memory = replace(self._memory, returns=(*returns, now))
        self._decommissioned = bool(cluster.decommissioned)
        for node in self._nodes.values() if out != self._out else ():
            if node.zone in out ^ self._out:  # what was asked of it until now was something else
                for kind in ("peer", "member", "read"):
                    self._signs.forget(node.name, kind)
        self._out = self._watch.out = out
        absent = {node.name for node in self._nodes.values() if node.zone not in out} - reading.members
        for name in absent - self._watch.absent:
            for kind in OF_MEMBERS:
                self._signs.forget(name, kind)
        self._watch.absent = frozenset(absent)
        for node in self._nodes.values():
            if node.zone not in out:
                self._watch.note_member(node, node.name in reading.members)
        self._forget(reading.members, now)
        self._watch.there = frozenset(reading.holders)
        for index, holders in reading.holders.items():
            for name in holders:
                self._watch.holds.setdefault(name, index)

    def _forget(self, members: Container[str], now: float) -> None:
        """Stop watching nodes that were replaced."""
        for node in list(self._nodes.values()):
            silent = self._signs.bad_for(node.zone, "probe", node.name, now) > 0
            if node.name in members or not silent:
                self._gone_since.pop(node.name, None)
                continue
            since = self._gone_since.setdefault(node.name, now)
            alike = [
                other
                for other in self._nodes.values()
                if other.name in members
                and (other.zone, other.is_data, other.eligible) == (node.zone, node.is_data, node.eligible)
            ]
            if now - since >= FORGET_AFTER_SECONDS and alike:
                self._nodes = {name: other for name, other in self._nodes.items() if name != node.name}
                self._gone_since.pop(node.name)
                self._signs.forget(node.name, "member")
                self._cover()

    def _cover(self) -> None:
        """Watch the nodes that are known now."""
        self._ready = False
        self._watch.cover(self._nodes.values(), pairs(self._zones))
        nodes = [node.to_json() for node in self._nodes.values()]
        self._events.write("failover.nodes", controller=self._me, nodes=nodes)

    def _pay(self, informant: Node, zone: str) -> None:
        """Give back the votes that an earlier controller with this log took and died over."""
        others = [node.name for node in self._nodes.values() if node.eligible and node.zone != zone]
        if trouble := api_of.give_back_votes(self._api, [informant], others):
            self._tell("trouble", trouble)
            return
        self._owes = None
        self._events.write(
            "failover.done", controller=self._me, step="lead", zone=zone, against=None, says="votes given back"
        )

    def _make_ready(self, informant: Node, reading: Reading) -> None:
        """Make the canaries, if it may; not while a zone is away, for one of their copies would be missing."""
        wanted = pairs(reading.cluster.zones)
        if reading.cluster.decommissioned or not reading.cluster.green:
            return
        if self._canaries and not self._make_canaries(informant, wanted, reading.holders):
            return
        self._ready = True
        self._events.write("failover.ready", controller=self._me, canaries=list(wanted) if self._canaries else [])

    def _is_mine(self, informant: Node, index: str) -> bool:
        """Whether a canary that is there was made by controllers of our owner; any is, where we have none."""
        if self._owner is None:
            return True
        said = self._api.ask(informant, "GET", known_path(index), timeout=30.0)
        known = said.body.get("metadata", {}).get("indices", {}) if said.ok and isinstance(said.body, dict) else {}
        mine = index in known and owner_of(known[index]) == self._owner
        if not mine:
            self._tell("trouble", f"canary {index} was made by others: it is not used")
        return mine

    def _make_canaries(self, informant: Node, wanted: Mapping[str, tuple[str, str]], there: Container[str]) -> bool:
        for index, pair in wanted.items():
            if index in there:  # perhaps of a version that had no alias
                path, body = f"/{index}/_alias/{write_alias(index)}", {"is_hidden": True}
            else:
                first, second = map(self._zoning.value, pair)
                path, body = f"/{index}", canary_settings(index, self._zoning.attribute, (first, second), self._owner)
            if index in there and not self._is_mine(informant, index):
                return False
            made = self._api.ask(informant, "PUT", path, body, timeout=30.0)
            exists = not made.ok and "resource_already_exists" in json.dumps(made.body)
            if exists and not self._is_mine(informant, index):
                return False
            if not made.ok and not exists:
                self._tell("trouble", f"canary {index}: {made.says} {json.dumps(made.body)[:200]}")
                return False
        documents = [
            self._api.ask(
                informant,
                "PUT",
                document_path(index, "read", "timeout=30s", write_alias(index)),
                {"by": self._me},
                timeout=30.0,
            )
            for index in wanted
        ]
        return all(made.status in (200, 201) for made in documents)

    @property
    def _zones(self) -> list[str]:
        """Those with data nodes."""
        return sorted({node.zone for node in self._nodes.values() if node.is_data})

    # ---- acting -------------------------------------------------------------------------------

    def _handle(self, step: Step, now: float) -> None:
        self._tell("decision", f"{step.do}: {step.because}" if step.do != "nothing" else step.because)
        if step.do in ("nothing", "wait") or self._stop.is_set():  # whoever ended it takes back what was done by then
            return
        assert self._reading is not None
        said: dict[str, Any] = {
            "controller": self._me,
            "step": step.do,
            "zone": step.zone,
            "weights": dict(step.weights),
            "because": step.because,
            "evidence": [asdict(each) for each in step.evidence],
        }
        if not self._acts:
            if self._said.get("recommends") != said:
                self._said["recommends"] = said
                self._events.write("failover.recommends", **said)
                self._says(f"would: {describe(step)}, because {step.because}")
            return
        informants = self._watch.informants(now, [step.zone] if step.zone else [], self._nodes.values())
        if not informants:
            return
        self._events.write("failover.step", through=informants[0].name, **said)
        self._says(f"{describe(step)}, because {step.because}")
        cluster = self._reading.cluster
        pending = self._pending = Pending(step, now, failed_before=took_effect(step, cluster) is None)

        def work() -> None:
            answer = carry_out(self._api, informants, step, cluster, self._zoning, list(self._nodes.values()))
            pending.answered, pending.answer = time.monotonic(), answer

        threading.Thread(target=work, name="step", daemon=True).start()

    def _follow(self, pending: Pending, now: float) -> None:
        answer, step = pending.answer, pending.step
        held = took_effect(step, self._reading.cluster) if self._reading is not None else False
        if step.do == "retry" and answer is not None and answer.ok:
            held = True
        if step.do == "lead" and answer is None:
            held = False  # votes are being given back
        if self._reading is not None and held is not None:
            pending.failed_before = False
        elif pending.failed_before and (answer is None or self._read_at < pending.answered):
            held = False  # that was an earlier try
        seconds = round(now - pending.began, 3)
        if held:
            says = f"{describe(step)}: done after {seconds:.1f} s"
            says += "" if answer is not None and answer.ok else ", before the answer came"
            self._end(pending, "failover.done", says, now)
        elif held is None:
            self._end(pending, "failover.failed", f"{describe(step)}: failed, as OpenSearch says", now)
        elif answer is not None and pending.refused:
            other = answer.status == 409 or (step.do == "decommission" and step.zone in self._out)
            why = "another was first" if other else (said_by_opensearch(answer.body) or json.dumps(answer.body))[:300]
            self._end(pending, "failover.failed", f"{describe(step)}: refused, {answer.says}: {why}", now)
        elif pending.lost(now):
            lost = "no answer came" if answer is None else answer.says
            self._end(pending, "failover.failed", f"{describe(step)}: not seen after {seconds:.0f} s, {lost}", now)

    def _end(self, pending: Pending, kind: str, says: str, now: float) -> None:
        self._pending = None
        if pending.step.do == "retry":
            self._memory = replace(self._memory, retried_at=now)
        if pending.step.do == "lead":
            self._memory = replace(self._memory, led_at=now)
        if kind != "failover.done":
            self._not_before = now + PAUSE_SECONDS
        self._events.write(
            kind,
            controller=self._me,
            step=pending.step.do,
            zone=pending.step.zone,
            against=pending.step.zone if pending.step.evidence else None,
            seconds=round(now - pending.began, 3),
            says=says,
        )
        self._says(says)

    # ---- saying -------------------------------------------------------------------------------

    def _tell(self, what: str, says: str) -> None:
        """A decision once until it changes (figures in it do not count), a trouble once until it is over."""
        same = "".join(letter for letter in says if not letter.isdigit())
        told = self._told.setdefault(what, set())
        if same not in told:
            if what == "decision":
                told.clear()
            told.add(same)
            self._events.write(f"failover.{what}", controller=self._me, says=says)
            self._says(says)
        self._said[what] = says

    def _tell_stops(self) -> None:
        """Write down when this process stood still: whoever judges what it did must know. ``start``, ``end``: ns."""
        for start, end in self._watch.stood_still():
            span = {"start": round(start * 1e9), "end": round(end * 1e9)}
            self._events.write("failover.still", controller=self._me, **span)

    def _tell_evidence(self, zones: Sequence[str], now: float) -> None:
        for zone in zones:
            found = self._signs.against(zone, now, self._policy.read_sustained / 2)
            kinds = tuple(each.kind for each in found)
            if self._said.get(f"evidence.{zone}", ()) != kinds:
                self._said[f"evidence.{zone}"] = kinds
                self._events.write(
                    "failover.evidence", controller=self._me, zone=zone, evidence=[asdict(each) for each in found]
                )

    def _steer(self, now: float) -> None:
        """Data nodes of active zones that answer; where there is none, those of active zones; else all."""
        reading = self._reading
        data = [node for node in self._nodes.values() if node.is_data]
        active = data
        if reading is not None:
            weights, out = reading.cluster.weights, reading.cluster.decommissioned
            active = [n for n in data if weights.get(n.zone, 1) > 0 and out.get(n.zone) in (None, "FAILED")]
        answers = [n for n in active if self._signs.bad_for(n.zone, "probe", n.name, now) < STEER_AFTER_SECONDS]
        names = tuple(sorted(node.name for node in answers or active or data))
        if names != self._steered:
            self._steered = names
            self._events.write("failover.steer", controller=self._me, nodes=list(names))


def describe(step: Step) -> str:
    """What a step does, in words."""
    if step.do == "weights":
        shared = ", ".join(f"{zone} {weight}" for zone, weight in step.weights.items())
        return f"weights {shared}"
    if step.do == "lead":
        return f"elect a cluster manager in zone {step.zone}"
    return "retry allocations that were given up" if step.do == "retry" else f"{step.do} zone {step.zone}"


def _remembered(log: Path) -> tuple[Memory, list[Node], str | None]:
    """What an earlier controller with this log knew: its last swap, its returns, the nodes; a cut line is skipped.

    And the zone to which it was moving the elected cluster manager when it died.
    """
    swapped: float | None = None
    version: int | None = None
    leading: str | None = None
    returns: list[float] = []
    nodes: list[Node] = []
    shift = time.monotonic() - time.time()
    try:
        lines = log.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        try:
            event = json.loads(line)
            kind, at = event["kind"], float(event["wall"]) + shift
            if kind == "failover.nodes":
                nodes = [Node(**each) for each in event["nodes"]]
            elif event.get("step") == "lead":
                leading = event["zone"] if kind == "failover.step" else None
            elif kind == "failover.weights":
                if version not in (None, event["version"]):  # else it is the first look of a process
                    swapped = at
                version = event["version"]
            elif kind == "failover.done" and event["step"] == "weights":
                swapped = at
            elif kind == "failover.done" and event["step"] == "recommission":
                returns.append(at)
        except (ValueError, KeyError, TypeError):
            continue
    return Memory(swapped_at=swapped, returns=tuple(returns)), nodes, leading
