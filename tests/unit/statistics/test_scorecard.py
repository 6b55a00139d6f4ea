"""Scorecards over made-up runs whose truth is known: what is kept, broken, not proven, and what changed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.statistics.test_series import EXPECT, run

from chaos.checks.reasons import Outcome
from chaos.report.scorecard import scorecard_page
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


def test_a_release_between_that_is_not_proven_hides_no_regression() -> None:
    card = evaluate([group(OLD, *good()), group(MIDDLE, *good(2)), group(NEW, *bad(known="#1"))])
    (shift,) = card.of(Change.REGRESSION)
    assert (shift.promise.id, shift.before, shift.after) == (READ, OLD, NEW)
    assert "broken in 0 of 5 runs of 2.19.6, in 5 of 5 of 3.10.0" in shift.says
    assert card.outcome is Outcome.WEAKNESS  # though it is known
    assert card.sentence.startswith("1 promise that 2.19.6 kept is broken. ")
    assert card.of(Change.NEWLY_BROKEN) == [] and card.detectable[OLD, NEW][:2] == (5, 5)
    open_ = card.of(Change.NO_LONGER_PROVEN)
    assert {(each.before, each.after) for each in open_} == {(OLD, MIDDLE)}  # the neighbours


@pytest.mark.parametrize(
    ("first", "last", "changes"),
    [
        (bad(), good(), [(Change.MENDED, OLD, NEW)]),
        (good(2), bad(), [(Change.NEWLY_BROKEN, MIDDLE, NEW)]),
        (bad(), bad(), []),
    ],
)
def test_over_a_release_that_is_not_proven_the_last_one_that_decided_is_compared(
    first: list[Facts], last: list[Facts], changes: list[tuple[Change, str, str]]
) -> None:
    shifts = evaluate([group(OLD, *first), group(MIDDLE, *good(2)), group(NEW, *last)]).shifts
    found = [(each.change, each.before, each.after) for each in shifts if each.promise.id == READ]
    assert found == changes


def test_what_a_run_that_is_left_out_broke_is_said_beside_the_runs_that_count(tmp_path: Path) -> None:
    card = evaluate([group(OLD, *good()), group(NEW, *good(), run(9, lost=2.0, invalid=True))])
    (shift,) = card.of(Change.REGRESSION)
    new = promised(card, LOST, NEW)
    assert (new.state, new.broken, new.decided, new.left_out) == (State.BROKEN, 0, 5, 1)
    assert shift.says == (
        "broken in 0 of 5 runs of 2.19.6, in 0 of 5 of 3.10.0; of 3.10.0 also in 1 run that was left out"
    )
    assert (card.tallies[1].whole, card.tallies[1].left_out, card.tallies[1].missed) == (5, 1, 1)
    page = scorecard_page(card, tmp_path / "card.html", "make it").read_text()
    assert "broken in 0 of 5 runs (0 % to 52.1 %); <b>also in 1 left out</b>" in page
    assert "1 (1 missed something)" in page


def test_a_process_that_ended_in_a_run_that_is_left_out_is_said_beside_the_others() -> None:
    ended = run(9, invalid=True)
    ended.findings["tables"]["ends"] = [{"says": "b-data ended by itself", "weakness": True}]
    card = evaluate([group(NEW, *good(), ended)])
    new = promised(card, "process.ended", NEW)
    assert (new.state, new.broken, new.decided, new.left_out) == (State.BROKEN, 0, 5, 1)


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


ALLOWED = {"comparison": "<=", "value": 5.0, "because": "replication is asynchronous"}


def allowed(number: int = 5, lost: float = 3.0, **given: Any) -> list[Facts]:
    """Runs of a line that allows up to five lost writes, as :mod:`chaos.checks.verdict` judges them."""
    made = good(number, lost=lost, **given)
    for each in made:
        each.plan["experiment"]["expect"][2] |= ALLOWED
        each.by_id[LOST] |= {"verdict": "pass", "counts_as": "relaxed" if lost else "pass"}
        each.findings["reasons"] = [one for one in each.findings["reasons"] if one["outcome"] != "weakness"]
    return made


def test_what_is_broken_as_the_file_allows_is_broken_and_known() -> None:
    card = evaluate([group(NEW, *allowed())])
    new = promised(card, LOST, NEW)
    assert (new.state, new.known, new.kept, new.broken) == (State.BROKEN, True, 0, 5)
    assert new.word == "broken, as allowed" and "allowed, because replication is asynchronous" in new.says
    (tally,) = card.tallies
    assert (tally.broken, tally.known, tally.whole) == (1, 1, 0) and card.outcome is Outcome.PASS


def test_from_nothing_lost_to_what_is_allowed_is_a_regression() -> None:
    card = evaluate([group(OLD, *allowed(lost=0.0)), group(NEW, *allowed())])
    assert promised(card, LOST, OLD).state is State.KEPT
    (shift,) = card.shifts
    assert (shift.change, shift.promise.id) == (Change.REGRESSION, LOST) and card.outcome is Outcome.WEAKNESS
    assert "broken in 0 of 5 runs of 2.19.6, in 5 of 5 of 3.10.0" in shift.says


def test_one_run_that_lost_what_is_allowed_is_counted_alone() -> None:
    new = promised(evaluate([group(NEW, *allowed(4, lost=0.0), *allowed(1))]), LOST, NEW)
    assert (new.state, new.kept, new.broken) == (State.BROKEN, 4, 1)


def test_the_page_says_broken_as_allowed(tmp_path: Path) -> None:
    page = scorecard_page(evaluate([group(NEW, *allowed())]), tmp_path / "card.html", "make it").read_text()
    assert '<span class="state">broken, as allowed</span>' in page


UPGRADED = f"{OLD} to {NEW}"


def upgrade(*runs: Facts, version: str = UPGRADED, **given: Any) -> Group:
    return group(version, *runs, experiment="upgrade", **given)


def test_nodes_of_several_versions_count_for_the_newest_of_them() -> None:
    plain = [group(version, *good()) for version in (OLD, NEW)]
    assert evaluate([*plain, upgrade(*good())]).outcome is Outcome.PASS
    card = evaluate([*plain, upgrade(*bad())])
    assert card.outcome is Outcome.WEAKNESS and f"OpenSearch {NEW}: 5 promises kept, 1 broken" in card.sentence
    assert evaluate([*plain, upgrade(planned=5)]).not_run == ("upgrade on 3az",)


def test_nodes_whose_newest_version_is_an_older_one_do_not_count_for_the_newest() -> None:
    plain = [group(version, *good()) for version in (OLD, NEW)]
    card = evaluate([*plain, upgrade(*bad(), version="1.3.0 to 2.19.6")])
    assert card.outcome is Outcome.PASS and card.versions == (OLD, "1.3.0 to 2.19.6", NEW)


def test_nodes_of_several_versions_have_a_row_of_their_own_and_are_not_between_releases() -> None:
    card = evaluate([upgrade(*bad()), *(group(version, *good()) for version in (OLD, NEW))])
    assert card.versions == (OLD, NEW, UPGRADED) and card.releases == (OLD, NEW)
    assert [(each.version, each.kept, each.broken) for each in card.tallies] == [
        (OLD, 3, 0),
        (NEW, 3, 0),
        (UPGRADED, 2, 1),
    ]
    assert card.shifts == () and list(card.detectable) == [(OLD, NEW)]


def test_nodes_of_several_versions_alone_are_judged_too() -> None:
    card = evaluate([upgrade(*bad())])
    assert card.outcome is Outcome.WEAKNESS and card.sentence.startswith(f"OpenSearch {NEW}: 2 promises kept, 1 broken")
    assert not card.is_compared


def test_two_sides_that_each_have_several_classes_of_machines_are_marked(tmp_path: Path) -> None:
    other = {"processors": 8, "architecture": "arm64", "memory_gb": 64}

    def mixed(version: str, runs: list[Facts]) -> Group:
        one, two = group(version, *runs[:3]), group(version, *runs[3:], machine=other)
        return replace(one, planned=5, runs=(*one.runs, *two.runs))

    card = evaluate([mixed(OLD, good()), mixed(NEW, bad())])
    page = scorecard_page(card, tmp_path / "card.html", "make it").read_text()
    assert card.shifts[0].other_machines and "The two were run on other or several machines." in page


def test_a_control_that_lacks_runs_proves_nothing() -> None:
    planted = group(NEW, *bad(1), experiment="planted", tags=["control"], planned=5)
    card = evaluate([group(NEW, *good()), planted])
    assert card.controls[0].missing == 4 and card.outcome is Outcome.INCONCLUSIVE


def test_what_is_no_longer_proven_is_told_of_each_profile() -> None:
    tuned = [replace(group(version, *good(n)), profile="tuned") for version, n in ((OLD, 5), (NEW, 2))]
    told = evaluate([group(OLD, *good()), group(NEW, *good(2)), *tuned]).told(Change.NO_LONGER_PROVEN)
    assert [(how[:10], shift.promise.profile) for _, how, shift in told] == [
        ("3 promises", "default"),
        ("3 promises", "tuned"),
    ]


@pytest.mark.parametrize(("writes", "says"), [(2, None), (3, None), (4, "at most 75.0 %"), (9, "at most 1 in 3")])
def test_a_few_writes_bound_nothing_or_little(writes: int, says: str | None, tmp_path: Path) -> None:
    one = good(1)
    one[0].findings["tables"]["writes"]["acknowledged"] = writes
    card = evaluate([group(NEW, *one)])
    page = scorecard_page(card, tmp_path / "card.html", "make it").read_text()
    assert (card.data[0].bound is None) is (says is None)
    assert "at most 1 in 0" not in page and "at most 1 in 1<" not in page and (says is None or says in page)
