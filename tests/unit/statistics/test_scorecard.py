"""Scorecards over made-up runs whose truth is known: what is kept, broken, not proven, and what changed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from unit.statistics.test_series import EXPECT, run

from chaos.checks.reasons import Outcome
from chaos.statistics.facts import Facts
from chaos.statistics.scorecard import Change, Group, LeftOut, Scorecard, State, evaluate

LOST, READ = "acknowledged.lost", "read.good@dark"
OLD, NEW = "2.19.6", "3.10.0"
"""In the order of releases, which is not that of letters."""


def group(
    version: str, *runs: Facts, experiment: str = "x", profile: str = "default", planned: int | None = None, **more: Any
) -> Group:
    """``tags``, ``phases``: of its experiment; ``machine`` of its plan."""
    told = [
        replace(each, name=f"{experiment}-{version}-{number}", plan=_plan(each, more))
        for number, each in enumerate(runs)
    ]
    return Group(experiment, experiment, profile, "3az", version, planned or len(runs), tuple(told))


def _plan(facts: Facts, more: dict[str, Any]) -> Any:
    experiment = {**facts.plan["experiment"], "tags": more.get("tags", []), "phases": more.get("phases", [])}
    machine = more.get("machine", {"processors": 2, "architecture": "x86_64", "memory_gb": 25})
    return {**facts.plan, "experiment": experiment, "machine": machine, "versions": {"kernel": "6.18.4-x"}}


def good(number: int = 5, **given: Any) -> list[Facts]:
    return [run(i, 0.9995 + i * 1e-5, 8 + i, **given) for i in range(number)]


def bad(number: int = 5, **given: Any) -> list[Facts]:
    return [run(i, 0.97 + i * 1e-5, 8 + i, **given) for i in range(number)]


def promised(card: Scorecard, id: str, version: str) -> Any:
    return next(each for each in card.promises if each.id == id).by_version[version]


def test_a_promise_that_was_kept_and_is_broken_comes_first() -> None:
    card = evaluate([group(NEW, *bad()), group(OLD, *good())])
    assert card.versions == (OLD, NEW) and card.outcome is Outcome.WEAKNESS
    (shift,) = card.shifts
    assert (shift.change, shift.promise.id, shift.before, shift.after) == (Change.REGRESSION, READ, OLD, NEW)
    assert shift.is_shown and "broken in 0 of 5 runs of 2.19.6, in 5 of 5 of 3.10.0" in shift.says
    assert card.sentence.startswith(
        "1 promise that 2.19.6 kept is broken. OpenSearch 3.10.0: 2 promises kept, 1 broken"
    )
    old, new = (promised(card, READ, version) for version in (OLD, NEW))
    assert (old.state, old.kept, old.broken, new.state, new.broken) == (State.KEPT, 5, 0, State.BROKEN, 5)
    assert old.bounds[0] == 0 and old.bounds[1] == pytest.approx(0.5218, abs=1e-4)  # 1 - 0.025^(1/5)


def test_the_same_in_both_releases_is_no_news() -> None:
    card = evaluate([group(OLD, *good()), group(NEW, *good())])
    assert card.shifts == () and card.outcome is Outcome.PASS
    assert card.sentence.startswith("No promise that 2.19.6 kept is seen broken. ")
    assert card.detectable[OLD, NEW][:2] == (5, 5) and card.detectable[OLD, NEW][2] == pytest.approx(0.834, abs=0.01)


def test_what_was_mended_is_said_and_is_no_regression() -> None:
    card = evaluate([group(OLD, *bad()), group(NEW, *good())])
    assert [shift.change for shift in card.shifts] == [Change.MENDED] and card.outcome is Outcome.PASS


def test_too_few_runs_prove_nothing_and_say_so() -> None:
    card = evaluate([group(OLD, *good()), group(NEW, *good(2))])
    assert {shift.change for shift in card.shifts} == {Change.NO_LONGER_PROVEN} and card.outcome is Outcome.INCONCLUSIVE
    ((what, how, _),) = card.told(Change.NO_LONGER_PROVEN)
    assert what == "x on 3az" and how.startswith("3 promises; 2 runs with a value that counts, and 5 are the fewest")
    assert card.sentence.startswith("No promise that 2.19.6 kept is seen broken, 3 of them are no longer proven.")
    assert card.detectable[OLD, NEW] == (5, 2, pytest.approx(0.894, abs=0.01))
    assert evaluate([group(OLD, *good(1)), group(NEW, *good(1))]).detectable[OLD, NEW] == (1, 1, None)


def test_one_lost_write_breaks_a_promise_that_runs_alone_do_not_show() -> None:
    card = evaluate([group(OLD, *good()), group(NEW, *good(4), run(9, lost=2.0))])
    (shift,) = card.of(Change.REGRESSION)
    assert shift.promise.id == LOST and not shift.is_shown and "which runs alone do not show" in shift.says
    assert card.outcome is Outcome.WEAKNESS  # what is lost is lost


def test_a_known_weakness_is_broken_and_told_apart() -> None:
    card = evaluate([group(OLD, *bad(known="#1")), group(NEW, *bad(known="#1"))])
    new = promised(card, READ, NEW)
    assert new.state is State.BROKEN and new.known and card.outcome is not Outcome.WEAKNESS
    (old_tally, new_tally) = card.tallies
    assert (new_tally.broken, new_tally.known, new_tally.whole, new_tally.runs) == (1, 1, 0, 5)
    assert old_tally.bounds == (0.0, pytest.approx(0.5218, abs=1e-4))


def test_missing_runs_never_keep_a_promise() -> None:
    card = evaluate([group(OLD, *good(), planned=6)])
    assert {promised(card, id, OLD).state for id in (READ, LOST)} == {State.OPEN}
    assert card.tallies[0].missing == 1 and card.outcome is Outcome.INCONCLUSIVE
    assert evaluate([group(OLD, planned=5)]).promises == ()


def test_an_experiment_without_a_run_of_the_newest_version_is_not_proven() -> None:
    card = evaluate([*(group(v, *good()) for v in (OLD, NEW)), group(OLD, *good(), experiment="y")])
    assert card.outcome is Outcome.PASS  # the campaign leaves it out there
    card = evaluate([*card.groups, group(NEW, experiment="y", planned=5)])
    assert card.outcome is Outcome.INCONCLUSIVE and card.not_run == ("y on 3az",)
    assert card.sentence.endswith("0 not proven. 1 experiment has no run of it.")


def test_runs_that_give_no_numbers_are_named_with_the_reason() -> None:
    card = evaluate([group(OLD, *good(), run(7, gap="no read-back"))], [LeftOut("y 3.8.0 seed 2", "not run")])
    assert [(each.what, each.why) for each in card.left_out] == [
        (f"x {OLD}, run x-{OLD}-5", "no read-back"),
        ("y 3.8.0 seed 2", "not run"),
    ]
    assert promised(card, READ, OLD).state is State.OPEN  # nothing passes over it
    assert card.tallies[0].left_out == 1


def test_machines_are_never_mixed_silently() -> None:
    other = {"processors": 8, "architecture": "arm64", "memory_gb": 64}
    card = evaluate([group(OLD, *good()), group(NEW, *bad(), machine=other)])
    assert card.shifts[0].other_machines and len(card.machines) == 2
    assert not evaluate([group(OLD, *good()), group(NEW, *bad())]).shifts[0].other_machines


def test_a_quota_makes_another_class_of_machines() -> None:
    usable = {"processors": [0, 1], "of": 2, "quota": None}
    machine = {"processors": 2, "architecture": "x86_64", "memory_gb": 25}
    held = {**machine, "usable": {**usable, "quota": 1.5}}
    card = evaluate([group(OLD, *good(), machine={**machine, "usable": usable}), group(NEW, *bad(), machine=held)])
    assert card.shifts[0].other_machines and "2 processors with a quota of 1.5" in card.machines[0]


MIDDLE = "3.8.0"


def test_a_promise_that_was_not_run_in_a_release_between_is_compared_all_the_same() -> None:
    others = [group(version, *good(), experiment="y") for version in (OLD, MIDDLE, NEW)]
    card = evaluate([group(OLD, *good()), *others, group(NEW, *bad())])
    (shift,) = card.of(Change.REGRESSION)
    assert (shift.before, shift.after) == (OLD, NEW) and card.outcome is Outcome.WEAKNESS
    assert card.sentence.startswith("1 promise that 2.19.6 kept is broken. ")
    assert card.detectable[OLD, NEW][:2] == (5, 5)


def test_a_regression_that_is_mended_since_is_told_and_decides_nothing() -> None:
    card = evaluate([group(OLD, *good()), group(MIDDLE, *bad()), group(NEW, *good())])
    assert [shift.change for shift in card.shifts] == [Change.REGRESSION, Change.MENDED]
    assert card.outcome is Outcome.PASS  # of the newest nothing is broken


def test_what_can_be_shown_is_of_the_experiment_that_shows_the_least() -> None:
    def card(before: int, after: int) -> Scorecard:
        pairs = [("x", 4, 4), ("y", before, after)]
        before_ = [group(OLD, *good(m), experiment=name) for name, m, _ in pairs]
        return evaluate([*before_, *(group(NEW, *good(n), experiment=name, planned=n or 5) for name, _, n in pairs)])

    assert card(1, 9).detectable[OLD, NEW] == (1, 9, None)  # ten runs, of which none shows anything
    m, n, share = card(5, 0).detectable[OLD, NEW]  # not run yet: it takes nothing from the other one
    assert (m, n) == (4, 4) and share == pytest.approx(0.946, abs=0.01)


def test_a_process_that_ended_by_itself_is_a_broken_promise() -> None:
    """A series has it as a reason of its own, and no finding."""

    def ending() -> list[Facts]:
        runs = good()
        runs[2].findings["tables"]["ends"] = [{"says": "b-data ended by itself (OutOfMemoryError)", "weakness": True}]
        return runs

    card = evaluate([group(OLD, *good()), group(NEW, *ending())])
    (shift,) = card.of(Change.REGRESSION)
    assert shift.promise.title == "no process of the cluster ends by itself" and card.outcome is Outcome.WEAKNESS
    old, new = (promised(card, "process.ended", version) for version in (OLD, NEW))
    assert (old.state, new.state, new.kept, new.broken) == (State.KEPT, State.BROKEN, 4, 1)
    assert "b-data ended by itself" in new.says
    few = evaluate([group(OLD, *good(4)), group(NEW, *ending())])
    assert promised(few, "process.ended", OLD).state is State.OPEN


def test_controls_must_fail_and_are_no_promises() -> None:
    planted = group(NEW, *bad(), experiment="planted", tags=["control"])
    card = evaluate([group(NEW, *good()), planted])
    assert [each.experiment for each in card.promises] == ["x"] * len(EXPECT)
    (control,) = card.controls
    assert (control.experiment, control.as_it_must, control.otherwise) == ("planted", 5, ())
    assert card.outcome is Outcome.PASS
    silent = evaluate([group(NEW, *good()), group(NEW, *good(1), *bad(4), experiment="planted", tags=["control"])])
    assert silent.controls[0].otherwise == (f"planted-{NEW}-0: pass",) and silent.outcome is Outcome.INCONCLUSIVE


def test_a_control_without_a_run_shows_nothing() -> None:
    planted = replace(group(NEW, experiment="planted", planned=5), tags=("control",))
    card = evaluate([group(NEW, *good()), planted])
    assert card.outcome is Outcome.INCONCLUSIVE and card.controls[0].runs == 0
    assert card.tallies[0].missing == 0  # it is no promise


def test_states_of_the_code_are_told_apart() -> None:
    one, two = group(OLD, *good()), group(NEW, *good())
    one, two = replace(one, origins=({"code": "aa"}, {"code": ""})), replace(two, origins=({"code": "bb"},))
    assert evaluate([one, two]).codes == ("aa", "bb")


def test_a_false_alarm_where_nothing_was_done_is_seen() -> None:
    phases = [{"name": "dark", "inject": [], "do": []}]
    card = evaluate([group(NEW, *good(4), run(9, lost=1.0), experiment="no-fault", phases=phases)])
    assert card.faultless[0].as_it_must == 4 and card.faultless[0].otherwise == (f"no-fault-{NEW}-4: weakness",)
    broken = [{"name": "dark", "inject": [{"kind": "node.kill"}]}]
    assert evaluate([group(NEW, *good(), phases=broken)]).faultless == ()
    led = group(NEW, *good(), phases=phases)
    for run_ in led.runs:
        run_.plan["experiment"]["controller"] = {"zones": ["a"]}  # it leads away and rotates
    assert evaluate([led]).faultless == ()


def test_data_read_back_is_summed_and_bounded() -> None:
    runs = good()
    for each in runs:
        each.findings["tables"]["writes"]["acknowledged"] = 6000
    runs[0].findings["tables"]["writes"] = {}
    (data,) = evaluate([group(NEW, *runs)]).data
    assert (data.runs, data.acknowledged, data.lost, data.unknown) == (5, 24_000, 0, 1)
    assert data.bound == pytest.approx(3 / 24_000)
    assert evaluate([group(NEW, run(1, lost=2.0))]).data[0].bound is None


def test_profiles_stand_apart() -> None:
    tuned = replace(group(NEW, *good(), experiment="x-tuned", profile="tuned"), of="x")
    card = evaluate([group(NEW, *bad()), tuned])
    assert [(each.profile, each.kept, each.broken) for each in card.tallies] == [("default", 2, 1), ("tuned", 3, 0)]


def test_it_is_json_and_has_no_single_number() -> None:
    data = evaluate([group(OLD, *good()), group(NEW, *bad())]).to_json()
    assert json.loads(json.dumps(data)) == data
    assert not {"score", "grade", "points"} & {*data}


def test_nothing_at_all() -> None:
    assert evaluate([]).outcome is Outcome.INCONCLUSIVE
