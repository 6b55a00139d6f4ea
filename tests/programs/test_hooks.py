"""Faults by programs of a cluster's owners, as real programs: whatever such a program says, only its effect proves it.

The cluster is one in memory whose nodes are dead while a file is there; honest programs make that file and look at it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from fakes import ROOT, Log, topology
from seen import WithHooks

from chaos.base.errors import FaultError, Lacking
from chaos.base.paths import STATE_VARIABLE, ProcessIdentity
from chaos.definitions.steps import Scene
from chaos.faults import effects, evidence
from chaos.faults.effects import NodeEffects
from chaos.faults.evidence import LinkEvidence
from chaos.faults.fault import Fault
from chaos.faults.kind import built
from chaos.faults.ledger import Ledger, Registration, standing
from chaos.faults.lifecycle import Lifecycle, undo_entries
from chaos.faults.moves import Move
from chaos.providers import hooks
from chaos.registry import FAULTS, PROVIDERS
from chaos.targets.labs.processes import wait_until

HONEST = {
    "inject": "touch made",
    "in_effect": "test -e made",
    "undo": "rm -f made",
    "gone": "test ! -e made",
}
SHORT, USUAL = {"within": "1s", "ttl": "5m"}, {"within": "10s", "ttl": "5m"}


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is not seen at once will not be seen here."""
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    monkeypatch.setattr(effects, "out_of_it", lambda lab: frozenset())
    monkeypatch.setattr(evidence, "out_of_it", lambda lab: frozenset())
    for kind in (NodeEffects, LinkEvidence):
        for deadline in ("effect_deadline", "gone_deadline", "held_deadline"):
            monkeypatch.setattr(kind, deadline, 0.3)
    monkeypatch.setattr(hooks, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(hooks, "GLANCED_SECONDS", 0.0)


class Owners:
    """A cluster, its programs, and one fault by them from its beginning to its end."""

    def __init__(self, folder: Path, kind: str = "node.kill", **given: Any) -> None:
        given = given or {"target": "node c-data"}
        ends = {("a-data", "c-data"), ("c-data", "a-data")}
        on_links = kind.startswith("network")
        self.folder, self.log = folder, Log()
        self.lab = WithHooks(folder, () if on_links else ("c-data",), ends if on_links else None)
        self.lab.kills = kind != "node.pause"
        offer = PROVIDERS.on(order=("hooks",)).chosen(kind)
        scene = Scene.of(topology(), 1, "f1")
        self.fault: Fault = built(FAULTS[kind].model_validate(given), "f1", scene, self.lab.wiring, offer)
        self.ledger = Ledger(folder / "ledger.jsonl")
        self.lifecycle = Lifecycle(self.lab, self.ledger, self.log)  # type: ignore[arg-type]
        self.does(HONEST)

    def does(self, calls: dict[str, str]) -> None:
        program = self.folder / "hook"
        cases = "\n".join(f"{call}) {script};;" for call, script in calls.items())
        program.write_text(f'#!/bin/sh\ncat >> asked\necho "$1" >> called\ncase "$1" in\n{cases}\nesac\n')
        program.chmod(0o755)

    @property
    def called(self) -> list[str]:
        return (self.folder / "called").read_text().split()

    @property
    def asked(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "asked").read_text().splitlines()]

    def words(self, stage: str) -> list[str]:
        """What was recorded of the program's own word at a stage, the last time."""
        told = [event for event in self.log.of("fault.evidence") if event["stage"] == stage][-1]
        return [each["measured"] for each in told["probes"] if each["what"].startswith("reported by the hook")]


def test_an_honest_program_is_proven_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    owners = Owners(tmp_path)
    assert owners.lifecycle.inject(owners.fault)
    assert owners.lifecycle.look_again(["f1"]) > 0 and owners.lifecycle.vanished == {}
    assert owners.lifecycle.undo("f1") and standing(owners.ledger.path) == []
    assert [owners.words(stage) for stage in ("before", "effect", "held", "gone")] == [
        ["no"],
        ["yes"],
        ["yes"],
        ["yes"],
    ]
    assert list(dict.fromkeys(owners.called)) == ["in_effect", "inject", "undo", "gone"]
    (command,) = owners.log.of("fault.command")
    assert (command["provider"], command["grade"], command["targets"]) == ("hooks", "effect", ["c-data"])


def test_what_a_program_is_told(tmp_path: Path) -> None:
    owners = Owners(tmp_path)
    owners.lifecycle.inject(owners.fault)
    owners.lifecycle.undo("f1")
    told = next(each for each in owners.asked if each["call"] == "inject")
    assert told == {
        "call": "inject",
        "run": "run-1",
        "id": "f1",
        "kind": "node.kill",
        "nodes": ["c-data"],
        "links": [],
        "parameters": {},
        "ttl_seconds": 300.0,
    }
    assert {each["call"] for each in owners.asked} == {"inject", "in_effect", "undo", "gone"}
    assert all({**each, "call": "inject"} == told for each in owners.asked)


def test_links_are_told_as_the_file_calls_their_ends(tmp_path: Path) -> None:
    lab = WithHooks(tmp_path)
    given = {"run": "r", "id": "f", "kind": "network.drop", "nodes": [], "links": [["client-a", "c-data"]]}
    (tmp_path / "hook").write_text("#!/bin/sh\ncat > asked\n")
    (tmp_path / "hook").chmod(0o755)
    assert hooks.asked(lab, "inject", {**given, "parameters": {}}).yes
    assert json.loads((tmp_path / "asked").read_text())["links"] == [["clients of zone a", "c-data"]]


def test_a_zone_s_power_is_one_call_with_the_order_of_its_return(tmp_path: Path) -> None:
    offer = PROVIDERS.on(order=("hooks",)).chosen("zone.power_loss")
    params = FAULTS["zone.power_loss"].model_validate({"zone": "c", "return_order": ["data"], "return_gap": "5s"})
    made = built(params, "f1", Scene.of(topology(), 1, "f1"), WithHooks(tmp_path).wiring, offer)
    ((both,),) = (made.moves,)
    assert both.move.arguments["nodes"] == ["c-cm", "c-data"] and made.needs == ("hook:zone.power_loss",)
    assert both.move.arguments["parameters"] == {"returning": [["c-data"], ["c-cm"]], "return_gap_seconds": 5.0}
    assert both.inverse is not None and both.inverse.arguments == both.move.arguments
    assert "hook" not in json.dumps(both.move.arguments).replace("hook.", "")  # no words of a program in the ledger


RUNNER = """
import sys
from pathlib import Path
from seen import WithHooks
from chaos.faults.moves import Move
from chaos.providers import hooks
given = {"run": "run-1", "id": "f1", "kind": "node.kill", "nodes": ["c-data"], "links": [], "parameters": {}}
lab = WithHooks(Path(sys.argv[1]))
lab.written = {"within": "5m", "ttl": "10m"}
Move(hooks.INJECT, given).apply(lab)
"""
PYTHONPATH = os.pathsep.join(sys.path)
LIES = {
    "inject says done and does nothing": ({"inject": "true"}, (False, True)),
    "inject does nothing and in_effect says yes to that": ({"inject": "touch said", "in_effect": "test -e said"}, None),
    "in_effect always says yes": ({"in_effect": "true"}, (False, True)),
    "in_effect always says no": ({"in_effect": "exit 1"}, (False, True)),
    "in_effect fails": ({"in_effect": "echo broken >&2; exit 7"}, (False, True)),
    "undo says undone and is not": ({"undo": "true"}, (True, False)),
    "undo does nothing and gone says gone": ({"undo": "true", "gone": "true"}, (True, False)),
    "gone always says no": ({"gone": "exit 1"}, (True, False)),
    "gone fails": ({"gone": "exit 2"}, (True, False)),
    "in_effect hangs": ({"in_effect": "sleep 600"}, (False, True)),
    "gone hangs": ({"gone": "sleep 600"}, (True, False)),
}
"""What each does otherwise than an honest one, and what is then proven: that it is in effect, that it is gone."""


@pytest.mark.parametrize("kind", ["node.kill", "node.pause", "network.drop"])
@pytest.mark.parametrize("lie", LIES)
def test_whatever_it_says_what_is_not_seen_and_what_it_denies_is_not_proven(
    tmp_path: Path, lie: str, kind: str
) -> None:
    given = {"links": "between node a-data and node c-data"} if kind == "network.drop" else {}
    owners = Owners(tmp_path, kind, **given)
    changed, expected = LIES[lie]
    owners.does({**HONEST, **changed})
    owners.lab.written = SHORT if "hangs" in lie else USUAL
    began = time.monotonic()
    effect = owners.lifecycle.inject(owners.fault)
    gone = owners.lifecycle.undo("f1")
    assert (effect, gone) == (expected or (False, True))
    assert time.monotonic() - began < 90.0 and "undo" in owners.called
    assert standing(owners.ledger.path) == []  # each undo said that it is done


FAILS = {
    "inject fails": ("inject", "echo one >&2; echo no room >&2; exit 3", "did not inject: exit code 3: no room"),
    "inject says no": ("inject", "exit 1", "did not inject: exit code 1"),
    "inject hangs, half done": ("inject", "touch made; sleep 600", "did not inject: not over within 1 s"),
}


@pytest.mark.parametrize("how", FAILS)
def test_what_it_could_not_make_or_was_not_done_in_time_is_undone_all_the_same(tmp_path: Path, how: str) -> None:
    owners = Owners(tmp_path)
    call, script, says = FAILS[how]
    owners.does({**HONEST, call: script})
    owners.lab.written = SHORT
    with pytest.raises(FaultError, match=says):
        owners.lifecycle.inject(owners.fault)
    assert "undo" in owners.called and not (tmp_path / "made").exists() and standing(owners.ledger.path) == []
    assert not list((tmp_path / "target" / "calls").glob("*"))


@pytest.mark.parametrize("script", ["exit 1", "echo locked >&2; exit 9", "sleep 600"], ids=["no", "fails", "hangs"])
def test_what_it_could_not_undo_stands_until_it_can(tmp_path: Path, script: str) -> None:
    owners = Owners(tmp_path)
    owners.does({**HONEST, "undo": script})
    owners.lab.written = SHORT
    assert owners.lifecycle.inject(owners.fault) and not owners.lifecycle.undo("f1")
    (left,) = standing(owners.ledger.path)
    (failed,) = [event for event in owners.log.of("fault.failed") if event["stage"] == "undo"]
    assert "the hook for node.kill did not undo" in failed["says"]
    owners.does(HONEST)
    assert undo_entries(owners.lab, owners.ledger, [left]) == []  # type: ignore[arg-type]
    assert not (tmp_path / "made").exists() and standing(owners.ledger.path) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda owners: (owners.folder / "made").unlink(),  # it has undone it by itself
        lambda owners: owners.does({**HONEST, "in_effect": "exit 1"}),
        lambda owners: owners.lab.written.update(ttl="5001ms", within="5s"),
    ],
    ids=["the effect", "its word", "its ttl"],
)
def test_what_does_not_hold_any_more_is_noticed(tmp_path: Path, change: Callable[[Owners], None]) -> None:
    owners = Owners(tmp_path)
    assert owners.lifecycle.inject(owners.fault)
    glanced = owners.lifecycle.glance("f1")
    assert glanced is not None and glanced.proven
    (active,) = owners.lifecycle._active
    assert isinstance(active.evidence, hooks.Believed)
    assert active.evidence._began is not None
    active.evidence._began -= 5.0  # of its ttl
    change(owners)
    glanced = owners.lifecycle.glance("f1")
    assert glanced is not None and not glanced.proven
    owners.lifecycle.look_again(["f1"])
    assert list(owners.lifecycle.vanished) == ["f1"]
    owners.lifecycle.undo("f1")


def test_one_that_makes_it_late_and_elsewhere_makes_nothing(tmp_path: Path) -> None:
    """What it forks and leaves behind is ended with its call, so it makes nothing after the undo."""
    owners = Owners(tmp_path)
    owners.does(
        {**HONEST, "inject": "(echo waits > waiting; sleep 2; touch made) & while ! test -e waiting; do :; done"}
    )
    assert not owners.lifecycle.inject(owners.fault)
    owners.lifecycle.undo("f1")
    told = (tmp_path / "target" / "logs" / "hooks.log").read_text().splitlines()
    (made,) = [line for line in told if " inject " in line]
    assert "that it had left behind ended" in made
    assert not (tmp_path / "made").exists()


def test_its_word_is_asked_for_once_in_a_while_however_often_one_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "AGAIN_SECONDS", 600.0)
    monkeypatch.setattr(NodeEffects, "effect_deadline", 2.0)
    owners = Owners(tmp_path)
    owners.does({**HONEST, "inject": "true"})
    assert not owners.lifecycle.inject(owners.fault)
    assert owners.called.count("in_effect") == 2  # before, and once while it was looked for
    owners.lifecycle.undo("f1")


def test_what_it_prints_is_in_the_logs_of_its_run_where_that_is_here(tmp_path: Path) -> None:
    run = tmp_path / "run-1"
    (run / "logs").mkdir(parents=True)
    Registration("run-1", run / "ledger.jsonl", "x", ProcessIdentity.me()).write()
    owners = Owners(tmp_path)
    owners.does({**HONEST, "inject": "echo killing it; touch made"})
    owners.lifecycle.inject(owners.fault)
    owners.lifecycle.undo("f1")
    log = (run / "logs" / "hooks.log").read_text()
    assert "f1 inject node.kill: exit code 0, after" in log and "killing it" in log and " f1 undo node.kill" in log


def test_links_of_clients_that_nobody_could_look_at_are_refused(tmp_path: Path) -> None:
    offer = PROVIDERS.on(order=("hooks",)).chosen("zone.isolation")
    scene = Scene.of(topology(), 1, "f1")
    with pytest.raises(Lacking, match="nothing would show what clients of zone"):
        built(FAULTS["zone.isolation"].model_validate({"zone": "c"}), "f1", scene, WithHooks(tmp_path).wiring, offer)
    made = built(FAULTS["zone.partition"].model_validate({"zone": "c"}), "f1", scene, WithHooks(tmp_path).wiring, offer)
    (both,) = made.moves
    assert both.move.arguments["kind"] == "network.drop" and len(both.move.arguments["links"]) == 16


def test_a_call_of_a_dead_runner_is_ended_before_its_undo(tmp_path: Path) -> None:
    """Else it would make the fault after it was undone."""
    owners = Owners(tmp_path)
    owners.does({**HONEST, "inject": "sleep 600 & echo $! > child; wait; touch made"})
    runner = subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(tmp_path)], env={**os.environ, "PYTHONPATH": PYTHONPATH}
    )
    child = tmp_path / "child"
    assert wait_until(lambda: child.exists() and bool(child.read_text()), 60)
    runner.kill()
    runner.wait()
    pid = int(child.read_text())
    ((both,),) = (owners.fault.moves,)
    assert both.inverse is not None and psutil.pid_exists(pid)
    given = {**both.inverse.arguments, "run": "run-1"}
    Move(both.inverse.operation, given).apply(owners.lab)  # type: ignore[arg-type]
    assert wait_until(lambda: not psutil.pid_exists(pid), 10) and not (tmp_path / "made").exists()
    assert not list((tmp_path / "target" / "calls").glob("*"))


JQ = """#!{python}
import json, math, sys
asked = json.load(sys.stdin)
answers = {{".nodes[]": asked["nodes"], ".ttl_seconds | ceil": [math.ceil(asked["ttl_seconds"])]}}
print(*answers[sys.argv[2]], sep="\\n")
"""
SSH = """#!/bin/sh
if test -e unreached; then exit 255; fi
for word; do said=$word; done
echo "$said" >> commands
case "$said" in
  *--signal=KILL*) echo failed > state ;;
  *'systemctl start'*'chaos-undo.timer'*) echo active > state ;;
  *is-active*) cat state ;;
esac
"""


def test_the_example_of_the_page_keeps_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an ssh that answers as hosts with systemd do."""
    (example,) = re.findall(
        r"```sh\n(#!/bin/sh\n# hooks/node-kill.*?)```", (ROOT / "docs" / "hooks.md").read_text(), re.DOTALL
    )
    for name, text in (("hook", example), ("jq", JQ.format(python=sys.executable)), ("ssh", SSH)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "state").write_text("active\n")
    lab = WithHooks(tmp_path)
    given = {"run": "r", "id": "f", "kind": "node.kill", "nodes": ["es-1", "es-2"], "links": [], "parameters": {}}

    def codes(*calls: str) -> list[int | None]:
        return [hooks.asked(lab, call, given).code for call in calls]

    assert codes("undo", "in_effect", "gone") == [0, 1, 0]
    assert codes("inject", "in_effect", "gone") == [0, 0, 1]
    assert codes("undo", "undo", "in_effect", "gone") == [0, 0, 1, 0]
    commands = (tmp_path / "commands").read_text()
    assert commands.count("--on-active=300 --unit=chaos-undo") == commands.count("--signal=KILL") == 2
    (tmp_path / "unreached").touch()
    assert codes("inject", "in_effect", "undo", "gone") == [255] * 4
