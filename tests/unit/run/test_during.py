"""A phase that waits for others, without a cluster: how it ends, what it lets happen, and what it says."""

from __future__ import annotations

import json
import os
import pty
import select
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import FakeLab, Log
from typer.testing import CliRunner

from chaos.base.console import Reporter
from chaos.base.errors import Aborted, FaultError, InvalidInput, LabError
from chaos.base.units import Duration
from chaos.checks.instrument import ClusterSight, Instrument, Observer, Permission
from chaos.definitions.during import During
from chaos.definitions.experiment import Phase
from chaos.definitions.selectors import NodeSelector
from chaos.faults.ledger import Ledger, standing
from chaos.history import during as words
from chaos.observe import restarted
from chaos.observe.restarted import Process, Processes
from chaos.run import during as module
from chaos.run.during import Waiting, say_done
from chaos.run.instruments import Instruments
from chaos.run.stopping import Stop, Unproven

NODES = ("a-data", "b-data", "c-data")
BEFORE: Processes = {node: Process(f"{node}-1", "3.8.0", 1000) for node in (*NODES, "a-cm")}


def anew(*nodes: str) -> Processes:
    return BEFORE | {node: Process(f"{node}-2", "3.8.1", 2000) for node in nodes}


INSTRUMENT = Instrument("told", "what it is told", lambda context: None)


class Told(Observer):
    """Says what it was told, in turn."""

    def __init__(self, name: str, order: list[str]) -> None:
        self._name, self._order = name, order

    def permit(self, permission: Permission) -> None:
        self._order.append(f"{self._name}: {permission.phase} {permission.nodes} {permission.settings}")

    def permit_no_more(self, *, patient: bool = True) -> None:
        self._order.append(f"{self._name}: no more")


class Seen(Observer, ClusterSight):
    """How the cluster was last seen."""

    def __init__(self, nodes: frozenset[str], heard: float) -> None:
        self._nodes, self.heard = nodes, heard

    @property
    def nodes(self) -> frozenset[str]:
        return self._nodes


class Bench:
    """A run with nothing but what a phase that waits needs. ``looks``: what the cluster says of its nodes, in turn; the
    last for good."""

    def __init__(self, folder: Path, looks: list[Any]) -> None:
        self.looks, self.order = looks, list[str]()
        (folder / "logs").mkdir()
        made: Any = object.__new__(Waiting)
        made.folder, made.stop, made.events = folder, Stop(), Log()
        made.reporter = Reporter(quiet=True)
        made.ledger = Ledger(folder / "ledger.jsonl")
        made.lab = FakeLab("3az")
        made.experiment = SimpleNamespace(topology=made.lab.topology)
        made.lifecycle = SimpleNamespace(active=[], vanished={})
        made.there = None

        made.instruments = Instruments(
            [(INSTRUMENT, Told("exits", self.order)), (INSTRUMENT, Told("settings", self.order))]
        )
        made.driver = SimpleNamespace(alive=True, status={}, error=None)
        self.run = made

    def read(self, cluster: Any) -> Processes:
        found = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[no-any-return]

    def sees(self, nodes: set[str], heard: float) -> None:
        """From now on the cluster was last seen so."""
        self.run.instruments = Instruments([(INSTRUMENT, Seen(frozenset(nodes), heard))])

    def hold(self, **given: Any) -> str:
        during = During(**{"within": Duration(30), **given})
        found: str = self.run.wait_for_others(Phase(name="roll", during=during))
        return found

    def event(self, kind: str) -> dict[str, Any]:
        (found,) = self.run.events.of(kind)
        return dict(found)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Bench]:
    monkeypatch.setattr(module, "TICK_SECONDS", 0.01)
    monkeypatch.setattr(module, "SAME_SECONDS", 0.1)
    monkeypatch.setattr(module, "KNOWN_SECONDS", 0.1)
    monkeypatch.setattr(module, "RETURN_SECONDS", 0.5)

    def make(*looks: Any) -> Bench:
        made = Bench(tmp_path, list(looks) or [BEFORE])
        monkeypatch.setattr(restarted, "read", made.read)
        return made

    return make


DATA = NodeSelector.parse("role data")


def test_a_command_that_restarts_what_it_names(bench: Callable[..., Bench]) -> None:
    away = {name: process for name, process in anew(*NODES).items() if name != "c-data"}
    at = bench(BEFORE, LabError("nobody answers"), away, anew(*NODES))
    assert at.hold(command=("sh", "-c", "echo done"), restarts=DATA, changes=("a.b",)) == "done"
    told = f"roll {NODES} ('a.b',)"
    assert at.order == [f"settings: {told}", f"exits: {told}", "exits: no more", "settings: no more"]
    begun, over, proof = (at.event(kind) for kind in (words.BEGUN, words.OVER, words.PROOF))
    assert (begun["nodes"], begun["settings"], begun["grade"]) == (list(NODES), ["a.b"], "path")
    assert (over["ok"], over["exit_code"], over["last"], over["log"]) == (True, 0, ["done"], "during-roll.log")
    assert proof["proven"] is True and proof["nodes"]["c-data"]["after"]["version"] == "3.8.1"
    assert standing(at.run.ledger.path) == []


def test_it_is_told_where_it_is(bench: Callable[..., Bench]) -> None:
    at = bench()
    at.hold(command=("sh", "-c", 'echo "$OPENSEARCH_CHAOS_RUN $OPENSEARCH_CHAOS_PHASE $OPENSEARCH_CHAOS_ON"'))
    assert at.event(words.OVER)["last"] == [f"{at.run.folder} roll fake"]


@pytest.mark.parametrize(
    ("looks", "says"),
    [
        ([BEFORE], "a-data is the process that it was; b-data is the process that it was; c-data is"),
        ([BEFORE, anew("a-data", "b-data")], "c-data is the process that it was"),
        ([BEFORE, anew(*NODES, "a-cm")], "a-cm, which was not named, is another process"),
        (
            [BEFORE, {name: each for name, each in anew(*NODES).items() if name != "a-cm"}],
            "a-cm, which was not named, is not there any more",
        ),
        # another id alone, or another start alone, is not enough
        ([BEFORE, anew(*NODES) | {"a-data": Process("a-data-1", "3.8.1", 2000)}], "a-data is the process that it was"),
        ([BEFORE, anew(*NODES) | {"a-data": Process("a-data-2", "3.8.1", 1000)}], "a-data is the process that it was"),
        (
            [{name: each for name, each in BEFORE.items() if name != "a-data"}, anew(*NODES)],
            "a-data was not there before, so nobody can tell whether it was restarted",
        ),
    ],
)
def test_what_is_not_shown_is_not_proven(bench: Callable[..., Bench], looks: list[Any], says: str) -> None:
    at = bench(*looks)
    with pytest.raises(Unproven) as raised:
        at.hold(command=("true",), restarts=DATA)
    assert says in str(raised.value)
    proof = at.event(words.PROOF)
    assert proof["proven"] is False and says in proof["says"]


def test_a_node_that_does_not_come_back_is_waited_for_and_then_not_proven(bench: Callable[..., Bench]) -> None:
    at = bench(BEFORE, {name: each for name, each in anew(*NODES).items() if name != "b-data"})
    with pytest.raises(Unproven, match="b-data is not there"):
        at.hold(command=("true",), restarts=DATA)


def test_nobody_who_says_who_the_nodes_are_proves_nothing(bench: Callable[..., Bench]) -> None:
    at = bench(LabError("nobody answers"))
    with pytest.raises(Unproven, match=r"not known before \(nobody answers\)"):
        at.hold(command=("true",), restarts=DATA)
    assert at.run.events.of(words.BEGUN) == [] and at.order == []  # nothing was begun
    at.looks = [BEFORE, LabError("nobody answers")]
    with pytest.raises(Unproven, match=r"not known afterwards \(nobody answers\)"):
        at.hold(command=("true",), restarts=DATA)


def test_one_that_names_no_node_claims_nothing_but_may_restart_none(bench: Callable[..., Bench]) -> None:
    at = bench()
    assert at.hold(command=("true",)) == "done" and at.run.events.of(words.PROOF) == []
    at.looks = [BEFORE, anew("a-cm")]
    with pytest.raises(Unproven, match="a-cm, which was not named, is another process"):
        at.hold(command=("true",))


def test_what_our_own_faults_hit_is_not_the_command_s_doing(bench: Callable[..., Bench]) -> None:
    at = bench(BEFORE, anew("a-cm"))
    at.run.lifecycle.active = [SimpleNamespace(targets=("a-cm",))]
    assert at.hold(command=("true",)) == "done"


@pytest.mark.parametrize(
    ("words_of_it", "within", "says"),
    [
        (("sh", "-c", "echo no such host; exit 4"), 30, r"ended with exit code 4: no such host"),
        (("sleep", "600"), 0.3, r"command: sleep 600: not over within 300ms"),
        (("sh", "-c", "yes; sleep 600"), 30, r"printed more than 0 MiB"),
    ],
)
def test_a_command_that_does_not_end_well_ends_the_run(
    bench: Callable[..., Bench],
    monkeypatch: pytest.MonkeyPatch,
    words_of_it: tuple[str, ...],
    within: float,
    says: str,
) -> None:
    monkeypatch.setattr(module.commanding, "LOG_BYTES", 100_000)
    at = bench()
    with pytest.raises(Unproven, match=says):
        at.hold(command=words_of_it, within=Duration(within), restarts=DATA)
    assert at.event(words.OVER)["ok"] is False and at.run.events.of(words.PROOF) == []
    assert standing(at.run.ledger.path) == [] and at.order[-2:] == ["exits: no more", "settings: no more"]


def test_a_stop_ends_it_before_anything_else_happens(bench: Callable[..., Bench]) -> None:
    at = bench()

    def started(text: str) -> None:
        if (standing(at.run.ledger.path)) and "at most" in text:
            at.run.stop.ask("the cluster is red", "cluster.red")
        at.run.stop.check()

    at.run.tick = started
    with pytest.raises(Aborted, match="the cluster is red"):
        at.hold(command=("sleep", "600"))
    over = at.event(words.OVER)
    assert (over["ok"], over["exit_code"], over["says"]) == (False, None, "it was ended by this run")
    assert standing(at.run.ledger.path) == []


def test_what_does_not_end_stays_written_down(bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    at = bench()

    def stays(self: Any, grace: float = 0) -> int:
        raise FaultError("processes 7 of a command do not end")

    monkeypatch.setattr(module.commanding.Session, "end", stays)
    with pytest.raises(Unproven):
        at.hold(command=("sleep", "600"), within=Duration(0.2))
    (entry,) = standing(at.run.ledger.path)
    monkeypatch.undo()
    assert entry.inverse is not None
    entry.inverse.apply(at.run.lab)  # the next who tries


def test_on_a_cluster_that_is_not_ours_two_nodes_away_at_once_end_the_run(bench: Callable[..., Bench]) -> None:
    at = bench()
    now = time.monotonic()
    at.run.there = SimpleNamespace(lab=SimpleNamespace(target=SimpleNamespace(file="staging.yaml")))
    at.sees({"c-data"}, now)
    with pytest.raises(Aborted, match="a-data and b-data are away at the same time"):
        at.hold(command=("sleep", "600"), restarts=DATA)
    assert at.run.stop.guard == "target"
    at.run.stop = Stop()
    at.sees(set(NODES), now - 31)
    with pytest.raises(Aborted, match="for 30 s nobody has said which nodes are away"):
        at.hold(command=("sleep", "600"), restarts=DATA)
    at.run.stop = Stop()
    at.sees({"b-data", "c-data"}, now)
    at.looks = [BEFORE, anew(*NODES)]
    assert at.hold(command=("true",), restarts=DATA) == "done"


# ---- a person ----------------------------------------------------------------------------------------------


def test_a_person_says_that_it_is_done_from_elsewhere(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "_foreground", lambda: False)
    at = bench()
    folder = at.run.folder

    def ticked(text: str) -> None:
        if (folder / module.WAITING).exists() and not (folder / module.DONE).exists():
            from chaos.cli import app

            said = CliRunner().invoke(app, ["done", str(folder), "--says", "ansible went well"])
            assert said.exit_code == 0 and "said to be done" in said.output, said.output

    at.run.tick = ticked
    assert at.hold(manual="upgrade a-data") == "done"
    over = at.event(words.OVER)
    assert over["ok"] is True and over["says"] == "ansible went well"
    assert not (folder / module.WAITING).exists()
    told = capsys.readouterr().err
    assert "roll waits for you, at most 30s: upgrade a-data" in told and "opensearch-chaos done" in told  # though quiet
    assert "press Enter" not in told
    with pytest.raises(InvalidInput, match="waits for nobody"):
        say_done(folder, "")


def test_an_answer_to_another_phase_is_none(bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_foreground", lambda: False)
    at = bench()
    (at.run.folder / module.DONE).write_text(json.dumps({"phase": "roll", "says": "of a phase before"}))

    def ticked(text: str) -> None:
        (at.run.folder / module.DONE).write_text(json.dumps({"phase": "other", "says": ""}))

    at.run.tick = ticked
    with pytest.raises(Unproven, match="nobody said within 200ms that it is done"):
        at.hold(manual="upgrade a-data", within=Duration(0.2))
    assert at.event(words.OVER)["ok"] is False


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The other end of a terminal in whose foreground the run is."""
    ours, theirs = pty.openpty()
    try:
        with open(theirs, closefd=False) as terminal:
            monkeypatch.setattr(sys, "stdin", terminal)
            monkeypatch.setattr(os, "tcgetpgrp", lambda descriptor: os.getpgrp())
            yield ours
    finally:
        os.close(ours)
        os.close(theirs)


def test_at_a_terminal_enter_is_enough(
    bench: Callable[..., Bench], keyboard: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = bench()
    told: list[str] = []
    monkeypatch.setattr(at.run.reporter, "demand", told.append)
    ticks = iter(range(1000))
    at.run.tick = lambda text: os.write(keyboard, b"two nodes\n") if next(ticks) == 3 else None
    assert at.hold(manual="upgrade a-data") == "done"
    assert at.event(words.OVER)["says"] == "two nodes" and "press Enter here, or run:" in told[0]


def test_what_was_typed_before_it_was_asked_for_ends_nothing(
    bench: Callable[..., Bench], keyboard: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = bench()
    monkeypatch.setattr(at.run.reporter, "demand", lambda says: None)
    os.write(keyboard, b"\n")
    assert select.select([sys.stdin], [], [], 10)[0]
    with pytest.raises(Unproven, match="nobody said within 200ms that it is done"):
        at.hold(manual="upgrade a-data", within=Duration(0.2))


def test_who_waits_no_more_cannot_be_answered(bench: Callable[..., Bench]) -> None:
    folder = bench().run.folder
    dead = {"pid": 1, "start_ticks": 0, "boot_id": "another"}
    (folder / module.WAITING).write_text(json.dumps({"phase": "roll", "says": "x", "runner": dead}))
    with pytest.raises(InvalidInput, match=r"the runner of .* is dead"):
        say_done(folder, "")
