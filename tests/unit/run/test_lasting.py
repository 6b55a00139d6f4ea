"""Faults by programs of a cluster's owners in a plan: how long they are held, whom they hit, who carries them out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from seen import Seen
from unit.run.test_reaching import plan, refused

from chaos.commands.for_change import page
from chaos.faults import effects
from chaos.faults.ledger import Ledger
from chaos.faults.moves import Move, Reversible
from chaos.providers import hooks
from chaos.run.on_target import BY_HOOK, OnTarget

RUNG = "rung: zone\nuntil: 2027-01-31\n"
HOOK = "  %s: {inject: [sh], in_effect: [sh], undo: [sh], gone: [sh], within: 5s, ttl: 1m}\n"
SET = "inject: {settings.change: {scope: index, settings: {blocks.write: true}}}"
KILL = "  dead: {inject: {node.kill: {target: node c-data}}, for: %s}\n"


def planned(folder: Path, phases: str, *kinds: str, **changes: str) -> Any:
    text = RUNG + "hooks:\n" + "".join(HOOK % kind for kind in kinds or ("node.kill",))
    for old, new in changes.items():
        text = text.replace(old, new)
    return plan(folder, phases, more=text)


def test_what_is_over_before_the_ttl_may_be_and_says_who_carries_it_out(tmp_path: Path) -> None:
    made = planned(tmp_path, KILL % "30s")
    assert made.refused == [] and made.needs == "node" and made.reached[0].hit == ("c-data",)
    (step,) = [step for step in made.steps if "fault" in step]
    assert (step["provider"], step["grade"], step["targets"]) == ("hooks", "effect", ["c-data"])
    assert step["moves"][0].startswith("hook.inject") and step["inverse"][0].startswith("hook.undo")


@pytest.mark.parametrize(
    ("phases", "seconds"),
    [
        (KILL % "51s", 61),  # and five for the last look, and five for its own word
        (KILL % "20s" + "  more: {for: 31s}\n", 61),
        (KILL % "20s" + "  more: {until: {green: true, within: 31s}}\n", 61),
        (KILL % "20s" + f"  more: {{undo: [node.kill], {SET}, for: 5m}}\n", None),
        (
            KILL.replace("target:", "name: first, target:") % "20s" + f"  more: {{undo: [first], {SET}, for: 5m}}\n",
            None,
        ),
        (
            KILL % "20s" + f"  other: {{{SET}, for: 1s}}\n  more: {{undo: [settings.change], for: 31s}}\n",
            62,
        ),
    ],
    ids=["one phase", "two", "until green", "undone", "undone by name", "another undone"],
)
def test_what_would_still_be_held_when_the_program_undoes_it_is_refused(
    tmp_path: Path, phases: str, seconds: int | None
) -> None:
    made = planned(tmp_path, phases)
    rows = [row for where, row in made.refused if row.what == "node.kill"]
    if seconds is None:
        assert rows == []
        return
    (row,) = rows
    assert f"for up to {seconds} s" in row.says and "after 1m" in row.says and "ttl" in row.remedy


def test_a_ttl_that_is_longer_lets_it_be(tmp_path: Path) -> None:
    assert planned(tmp_path, KILL % "51s", **{"ttl: 1m": "ttl: 2m"}).refused == []


def test_a_program_that_is_not_here_forbids_the_run(tmp_path: Path) -> None:
    made = planned(tmp_path, KILL % "5s", **{"gone: [sh]": "gone: [./nowhere]"})
    assert refused(made) == ["the cluster: hooks"] and "./nowhere" in made.refused[0][1].says


def test_it_reaches_as_far_as_any_other_fault_of_its_kind(tmp_path: Path) -> None:
    zone = "  dark: {inject: {zone.power_loss: {zone: c}}, for: 5s}\n"
    made = planned(tmp_path, zone, "zone.power_loss")
    assert made.refused == [] and made.needs == "zone" and made.reached[0].hit == ("c-cm", "c-data")
    both = "  dark: {inject: {node.kill: [{target: node c-data}, {target: node b-data, name: other}]}, for: 5s}\n"
    assert "phase dark: zones hit" in refused(planned(tmp_path, both))
    cut = "  cut: {inject: {zone.partition: {zone: c}}, for: 5s}\n"
    made = planned(tmp_path, cut, "network.drop")
    assert made.refused == [] and made.reached[0].hit == ("c-cm", "c-data")
    assert [step["provider"] for step in made.steps if "fault" in step] == ["hooks"]


def test_those_who_decide_are_told_whose_program_it_is(tmp_path: Path) -> None:
    told = page(planned(tmp_path, KILL % "5s", "node.kill", "node.stop"), "run")
    assert "node.kill is made and undone by a program of yours, `sh`: each call takes at most 5 seconds" in told
    assert "by itself 1 minute after it made it" in told and "node.stop is made" not in told
    cut = planned(tmp_path, "  cut: {inject: {zone.partition: {zone: c}}, for: 5s}\n", "network.drop")
    assert "network.drop is made and undone by a program of yours" in page(cut, "run")
    assert "program of yours" not in page(planned(tmp_path, "  calm: {for: 5s}\n"), "run")


def test_what_clients_meet_nobody_sees_there(tmp_path: Path) -> None:
    cut = "  cut: {inject: {network.drop: {links: from clients of zone a to node c-data}}, for: 5s}\n"
    made = planned(tmp_path, cut, "network.drop")
    assert refused(made) == ["phase cut: network.drop"]
    assert "nothing would show what clients of zone a get from c-data" in made.refused[0][1].says


# ---- what is left ---------------------------------------------------------------------------------------------


def test_what_a_program_says_is_undone_is_looked_at_by_its_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effects, "out_of_it", lambda lab: frozenset())
    assert hooks.INJECT == BY_HOOK
    lab: Any = Seen()
    ledger = Ledger(tmp_path / "ledger.jsonl")
    beside: Any = SimpleNamespace(lab=lab, ledger=ledger)
    assert OnTarget.by_hooks(beside) is False and OnTarget.not_back(beside, 0.0) == []
    given = {"kind": "node.kill", "nodes": ["c-data"], "links": [["a-data", "c-data"], ["client-a", "c-data"]]}
    (entry,) = ledger.intend("f1", [Reversible(Move(BY_HOOK, given), Move(hooks.UNDO, given))])
    ledger.note(entry, "undone")
    assert OnTarget.by_hooks(beside) is True and OnTarget.not_back(beside, 0.0) == []
    lab.kill("c-data")
    dead, cut = OnTarget.not_back(beside, 0.0)
    assert "undone by its hook, and c-data is not back" in dead and "a-data gets no answer from c-data" in cut
