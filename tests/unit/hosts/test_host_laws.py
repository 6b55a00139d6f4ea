"""Laws of oschaos-host over any sequence of requests, failures and times: tokens, deadlines, nothing left."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from apart import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from chaos.hosts import oschaos_host as program
from chaos.hosts.oschaos_host import Refused, Step

IDS = st.integers(0, 30)
"""Of a new fault its own id; else one of those that are active, if any is."""
OFFSETS = st.sampled_from([0, 0, 0, 0, 1, 2, -1, -2])
"""Of a token from the highest that was seen."""
SELDOM = st.sampled_from([False, False, False, True])
LONGEST = 100


class World:
    """What there is to be changed: names of things. ``fails`` says what the next makes and undos do."""

    def __init__(self) -> None:
        self.things: set[str] = set()
        self.clock = 1000.0
        self.make_fails = self.undo_fails = self.arming_fails = False
        self.armed: set[str] = set()
        self.wrong: list[str] = []

    def make(self, step: dict[str, Any]) -> None:
        if step["table"].partition("+")[0] not in self.armed:
            self.wrong.append(f"{step['table']} was made before its dead-man was armed")
        if self.make_fails and step["table"].endswith("+2"):
            raise Refused("made to fail")
        self.things.add(step["table"])

    def undo(self, step: dict[str, Any]) -> dict[str, Any]:
        if self.undo_fails:
            raise Refused("made to fail")
        self.things.discard(step["table"])
        return {"gone": "gone"}

    def measure(self, step: dict[str, Any]) -> dict[str, Any]:
        return {"there": step["table"] in self.things}

    def arm(self, record: dict[str, Any]) -> None:
        if program.load(record["name"]) is None:
            self.wrong.append(f"{record['name']} was armed before its undo was written")
        if not self.arming_fails:
            self.armed.add(record["name"])


class Requests(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        (self.folder / "etc").mkdir(mode=0o755)
        config = {"nodes": {"es": {"unit": "x.service"}}, "intents": ["node.pause"], "longest": LONGEST}
        path = self.folder / "etc" / "oschaos-host.json"
        path.write_text(json.dumps(config))
        path.chmod(0o644)
        self.world = World()
        self.patch = pytest.MonkeyPatch()
        world = self.world

        def plan(ask: Any, node: Any, config: Any) -> list[dict[str, Any]]:
            return [{"step": "table", "table": f"{ask['name']}+{k}"} for k in (1, 2)]

        for name, value in {
            "ROOT": str(self.folder),
            "now": lambda: world.clock,
            "arm": world.arm,
            "armed": lambda record: {"by": "test", "alive": record["name"] in world.armed},
            "disarm": lambda record: world.armed.discard(record["name"]),
            "by_systemd": lambda: False,
            "sleeper": lambda name: world.armed.add(name),
            "cannot": lambda *_: None,
        }.items():
            self.patch.setattr(program, name, value)
        self.patch.setitem(program.STEPS, "table", Step(world.make, world.undo, world.measure))
        self.patch.setitem(program.INTENTS, "node.pause", program.Intent("", "", plan, {}, {}))
        self.highest = 0
        self.deadlines: dict[str, tuple[float, float]] = {}  # began, deadline
        self.used: set[str] = set()
        self.stuck: set[str] = set()

    def teardown(self) -> None:
        self.patch.undo()
        shutil.rmtree(self.folder)

    def _known(self, k: int) -> str:
        active = sorted(self.deadlines)
        return active[k % len(active)][2:] if active and k < 28 else str(k)

    def _token(self, token: int, accepted: bool) -> None:
        """The law: what is accepted is no lower than anything that was seen, and is seen from now on."""
        assert not accepted or token >= self.highest
        self.highest = max(self.highest, token)

    @rule(k=IDS, offset=OFFSETS, ttl=st.floats(2, 110))
    def begin(self, k: int, offset: int, ttl: float) -> None:
        id, token = str(k), max(0, self.highest + offset)
        ask = {"run": "r", "id": id, "token": token, "ttl": ttl, "intent": "node.pause", "node": "es"}
        name = f"r_{id}"
        try:
            program.begin(ask)
        except Refused as error:
            self._token(token, False)
            if name not in self.deadlines and not self.world.undo_fails:
                assert not any(thing.startswith(f"{name}+") for thing in self.world.things)
            if "not undone yet" in error.why:
                self.deadlines[name] = (self.world.clock, self.world.clock + ttl)
            if program.load(name) is not None or (self.folder / f"run/oschaos-host/{name}.ended").exists():
                self.used.add(name)
            return
        self._token(token, True)
        assert name not in self.used and ttl <= LONGEST and not self.world.make_fails
        self.used.add(name)
        self.deadlines[name] = (self.world.clock, self.world.clock + ttl)
        assert {f"{name}+1", f"{name}+2"} <= self.world.things

    @precondition(lambda self: self.deadlines)
    @rule(k=IDS, offset=OFFSETS, ttl=st.floats(2, 150))
    def extend(self, k: int, offset: int, ttl: float) -> None:
        id, token = self._known(k), max(0, self.highest + offset)
        name = f"r_{id}"
        try:
            answer = program.extend({"run": "r", "id": id, "token": token, "ttl": ttl})
        except Refused:
            self._token(token, False)
            assert token < self.highest or name not in self.deadlines or self.deadlines[name][1] <= self.world.clock
            return
        self._token(token, True)
        began, deadline = self.deadlines[name]
        assert deadline > self.world.clock, "what is over was extended"
        self.deadlines[name] = (began, self.world.clock + answer["left"])
        assert self.world.clock + answer["left"] <= began + LONGEST + 0.01

    @rule(k=IDS)
    def undo(self, k: int) -> None:
        id = self._known(k)
        name = f"r_{id}"
        try:
            program.undo({"run": "r", "id": id})
        except Refused:
            assert self.world.undo_fails
            return
        self.used.add(name)
        self.deadlines.pop(name, None)
        assert not any(thing.startswith(f"{name}+") for thing in self.world.things)

    @rule(seconds=st.floats(0.1, 60))
    def time_passes(self, seconds: float) -> None:
        self.world.clock += seconds

    @rule()
    def dead_men_look(self) -> None:
        """One look of each, as in ``watch``."""
        for name in program.names():
            record = program.load(name)
            assert record is not None
            if record["deadline"] <= self.world.clock:
                results = program.finish(record, "its time was over")
                assert bool(program.failed(results)) == self.world.undo_fails
                if not self.world.undo_fails:
                    self.deadlines.pop(name, None)

    @rule(make=SELDOM, undo=SELDOM, arming=SELDOM)
    def fate(self, make: bool, undo: bool, arming: bool) -> None:
        self.world.make_fails, self.world.undo_fails, self.world.arming_fails = make, undo, arming

    @precondition(lambda self: not self.world.undo_fails)
    @rule()
    def sweep(self) -> None:
        self.patch.setattr(program, "strays", lambda remove_them: [])
        assert program.sweep({})["ok"]
        self.deadlines.clear()
        assert self.world.things == set() == set(program.names())

    @invariant()
    def the_order_was_kept(self) -> None:
        assert self.world.wrong == []

    @invariant()
    def nothing_is_there_without_a_record(self) -> None:
        known = set(program.names()) if (self.folder / "run").exists() else set()
        assert {thing.partition("+")[0] for thing in self.world.things} <= known

    @invariant()
    def what_is_recorded_will_end(self) -> None:
        if not (self.folder / "run").exists():
            return
        for record in program.every():
            assert record["deadline"] <= record["began"] + LONGEST + 1e-6

    @invariant()
    def the_highest_token_is_on_disk(self) -> None:
        assert program.highest_token() == self.highest


Requests.TestCase.settings = settings(max_examples=examples(120), stateful_step_count=30, deadline=None)
test_any_sequence_of_requests = Requests.TestCase
