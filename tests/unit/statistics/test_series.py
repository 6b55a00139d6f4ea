"""Series over made-up runs whose truth is known: what counts, what is left out, and what may be concluded."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.base.errors import Exit, InvalidInput
from chaos.checks import evaluate as evaluate_run
from chaos.checks.measure import Verdict
from chaos.checks.validity import Condition
from chaos.checks.verdict import Counts, Outcome
from chaos.statistics import facts as reading
from chaos.statistics import series as judging
from chaos.statistics import store
from chaos.statistics.facts import Facts

EXPECT = [
    {"metric": "read.good", "unit": "percent", "phases": ["dark"], "comparison": ">=", "value": 0.999},
    {"metric": "write.regained", "unit": "duration", "phases": ["dark"], "comparison": "<=", "value": 30.0},
    {"metric": "acknowledged.lost", "unit": "count", "phases": [], "comparison": "==", "value": 0.0},
]
UNIT = {"read.good": "share", "write.regained": "seconds", "acknowledged.lost": "count"}


def run(
    number: int,
    good: float | None = 0.9999,
    regained: float | None = 10.0,
    lost: float = 0.0,
    *,
    bound: str = "exact",
    doubtful: tuple[str, ...] = (),
    unasked: tuple[str, ...] = (),
    gap: str | None = None,
    invalid: bool = False,
    outcome: str | None = None,
    clean: bool | None = True,
    known: str | None = None,
) -> Facts:
    """A run with these values, judged as :mod:`chaos.checks.verdict` would."""
    values = {"read.good": good, "write.regained": regained, "acknowledged.lost": lost}
    findings, reasons = [], []
    for item in EXPECT:
        metric = str(item["metric"])
        id = metric + "".join(f"@{phase}" for phase in item["phases"])  # type: ignore[attr-defined]
        row: dict[str, Any] = {
            "id": id,
            "title": f"{metric} {item['comparison']} {item['value']}",
            "metric": metric,
            "phase": next(iter(item["phases"]), None),  # type: ignore[call-overload]
            "target": f"{item['comparison']} {item['value']}",
            "measured": values[metric],
            "unit": UNIT[metric],
            "bound": bound if metric == "write.regained" else "exact",
            "verdict": "inconclusive",
            "says": "as measured",
        }
        raw = reading.raw_verdict(row, str(item["comparison"]), float(item["value"]))  # type: ignore[arg-type]
        stands = metric == "acknowledged.lost" and raw is Verdict.FAIL
        held = metric not in (*doubtful, *unasked) and not gap and not invalid and outcome is None
        row["verdict"] = raw.value if held or stands else "inconclusive"
        if metric in doubtful:
            row |= {"because": "no processor was free"}
        if metric in unasked:
            row |= {"may_be_worse": True, "because": "b-data was never asked in dark"}
        findings.append(row)
        if row["verdict"] == "inconclusive":
            reasons.append({"outcome": "inconclusive", "says": f"{row['title']}: {row['says']}"})
        elif row["verdict"] == "fail":
            reasons.append({"outcome": "weakness", "says": f"{row['title']}: {row['says']}"})
    check = {"id": "lag", "what": "lag", "measured": "93 ms", "limit": "50 ms", "ok": not invalid}
    if invalid:
        reasons.append(
            {"outcome": "inconclusive", "says": Condition("lag", "lag", "93 ms", "50 ms", ok=False).gap.says}
        )
    if gap:
        reasons.append({"outcome": "inconclusive", "says": gap})
    if outcome:
        reasons.insert(0, {"outcome": outcome, "says": f"it {outcome} by itself"})
    order = ("error", "aborted", "weakness", "inconclusive")
    worst = next((each for each in order if any(reason["outcome"] == each for reason in reasons)), "pass")
    data = {
        "outcome": worst,
        "clean": clean,
        "findings": findings,
        "reasons": reasons,
        "validity": {"checks": [check]},
        "tables": {"writes": {"value": lost, "bound": "exact"}},
    }
    expect = [item | {"known_weakness": known} for item in EXPECT]
    plan = {"hash": "h", "seed": number, "experiment": {"name": "x", "expect": expect, "phases": []}}
    return Facts(f"run-{number}", None, plan, data, reading.metrics(data))


def series(*runs: Facts, planned: int | None = None) -> judging.Series:
    return judging.evaluate(runs, planned if planned is not None else len(runs))


def by_id(found: judging.Series) -> dict[str, judging.Finding]:
    return {each.target.id: each for each in found.findings}


READ, WRITE, LOST = "read.good@dark", "write.regained@dark", "acknowledged.lost"


def test_five_good_runs_pass_and_say_what_they_prove() -> None:
    found = series(*(run(i, 0.9995 + i * 1e-5, 8 + i) for i in range(5)))
    assert (found.outcome, found.exit_code, found.clean) == (Outcome.PASS, Exit.PASS, True)
    says = {id: each.says for id, each in by_id(found).items()}
    assert says[READ].startswith("the mean is at least 99.95 %")
    assert says[WRITE] == "met in all 5 runs, and 5 runs bound the 55 % quantile"
    assert says[LOST] == "kept in all 5 runs: with 95 % confidence at most 45 % of runs miss it"
    figures = by_id(found)[WRITE].figures
    assert figures is not None and (figures.median.low, figures.least.low, figures.most.low) == (10, 8, 12)
    assert figures.interval is None  # a recovery has no mean


@pytest.mark.parametrize("runs", [1, 2, 3, 4])
def test_fewer_than_five_conclude_nothing_but_a_weakness_of_all(runs: int) -> None:
    assert series(*(run(i) for i in range(runs))).outcome is Outcome.INCONCLUSIVE
    found = series(*(run(i, good=0.97) for i in range(runs)))
    assert found.outcome is Outcome.WEAKNESS and by_id(found)[READ].verdict is Verdict.FAIL
    assert by_id(found)[WRITE].verdict is Verdict.INCONCLUSIVE


def test_the_same_value_in_every_run_claims_no_exact_mean() -> None:
    finding = by_id(series(*(run(i, 1.0) for i in range(6))))[READ]
    assert finding.verdict is Verdict.PASS
    assert finding.says == "100 % in every run, so ranks: met in all 6 runs, and 6 runs bound the 61 % quantile"
    assert finding.figures is not None and finding.figures.interval is None


def test_one_run_that_misses_does_not_decide_but_is_told() -> None:
    found = series(*(run(i, regained=10 if i else 50) for i in range(6)))
    finding = by_id(found)[WRITE]
    assert finding.verdict is Verdict.INCONCLUSIVE and finding.missed == ("run-0",)
    assert "met in 5 and missed in 1 of 6 runs" in finding.says and found.exit_code is Exit.INCONCLUSIVE


def test_many_that_miss_decide() -> None:
    """10 runs bound the 74 % quantile; with 6 that miss the fifth smallest, its lower bound, misses too."""
    assert by_id(series(*(run(i, regained=50 if i < 6 else 10) for i in range(10))))[WRITE].verdict is Verdict.FAIL
    assert (
        by_id(series(*(run(i, regained=50 if i < 5 else 10) for i in range(10))))[WRITE].verdict is Verdict.INCONCLUSIVE
    )


def test_a_mean_whose_bound_reaches_over_the_target_is_open_and_below_it_fails() -> None:
    wide = [0.9999, 0.9999, 0.9999, 0.9999, 0.9975]
    assert by_id(series(*(run(i, v) for i, v in enumerate(wide))))[READ].verdict is Verdict.INCONCLUSIVE
    low = [0.9990, 0.9970, 0.9972, 0.9971, 0.9969]
    assert by_id(series(*(run(i, v) for i, v in enumerate(low))))[READ].verdict is Verdict.FAIL


def test_a_loss_in_any_run_is_a_weakness_also_in_one_that_is_left_out() -> None:
    runs = [run(i) for i in range(9)]
    assert series(*runs, run(9, lost=3)).outcome is Outcome.WEAKNESS
    found = series(*runs, run(9, lost=3, gap="the fault f1 is not proven"))
    assert found.outcome is Outcome.WEAKNESS and by_id(found)[LOST].missed == ("run-9",)


def test_runs_without_numbers_are_named_and_only_broken_instruments_are_one_run_less() -> None:
    runs = [run(i) for i in range(6)]
    ill = series(*runs, run(6, good=0.5, invalid=True))
    assert ill.outcome is Outcome.PASS and len(ill.counted) == 6
    assert ill.to_json()["runs"][6]["why_not"] == "lag: 93 ms, and the limit is 50 ms"
    unproven = series(*runs, run(6, gap="the fault f1 is not proven"))
    assert unproven.outcome is Outcome.INCONCLUSIVE
    assert by_id(unproven)[READ].says.endswith("run run-6 gives no numbers: the fault f1 is not proven")
    few = series(*runs[:4], run(6, invalid=True))
    assert few.outcome is Outcome.INCONCLUSIVE and any("run-6" in reason for reason in few.reasons)


@pytest.mark.parametrize(("outcome", "code"), [("error", Exit.ERROR), ("aborted", Exit.ABORTED)])
def test_a_run_that_failed_by_itself_counts_for_the_exit_code(outcome: str, code: Exit) -> None:
    found = series(*(run(i) for i in range(6)), run(6, outcome=outcome))
    assert found.exit_code is code and f"run-6 ended as {outcome}" in found.reasons[0]


def test_dirt_wins_and_an_unknown_clean_up_is_no_pass() -> None:
    assert series(*(run(i, clean=i != 2) for i in range(5))).exit_code is Exit.DIRTY
    assert series(*(run(i, clean=None if i == 2 else True) for i in range(5))).exit_code is Exit.INCONCLUSIVE


def test_fewer_runs_than_planned_never_pass() -> None:
    found = series(*(run(i) for i in range(6)), planned=10)
    assert found.outcome is Outcome.INCONCLUSIVE and "only 6 of 10 runs were made" in found.reasons


def test_a_censored_value_keeps_its_rank_and_is_never_averaged() -> None:
    found = series(*(run(i, regained=10 + i) for i in range(4)), run(4, regained=62, bound="more_than"))
    finding = by_id(found)[WRITE]
    assert finding.figures is not None
    assert finding.figures.median.is_exact and finding.figures.median.low == 12
    assert math.isinf(finding.figures.most.high) and judging.shown(finding.figures.most, "seconds") == "≥ 62 s"
    assert finding.verdict is Verdict.INCONCLUSIVE and finding.missed == ("run-4",)
    undecided = series(*(run(i, regained=10 + i) for i in range(5)), run(5, regained=20, bound="at_least"))
    assert "1 run undecided" in by_id(undecided)[WRITE].says


def test_a_doubtful_value_counts_against_a_pass_and_not_towards_a_failure() -> None:
    sure = [run(i, 0.9999 - i * 1e-5) for i in range(5)]
    bad = [run(5 + i, good=0.95, doubtful=("read.good",)) for i in range(5)]
    assert by_id(series(*sure))[READ].verdict is Verdict.PASS
    finding = by_id(series(*sure, *bad))[READ]
    assert finding.verdict is Verdict.INCONCLUSIVE and len(finding.doubtful) == 5
    assert "5 values hang on the machine" in finding.says
    assert by_id(series(*bad))[READ].verdict is Verdict.INCONCLUSIVE
    lucky = run(5, good=0.9995, doubtful=("read.good",))  # would be no pass any more if it were better: unknown
    assert by_id(series(*sure, lucky))[READ].verdict is Verdict.INCONCLUSIVE


def test_a_missing_value_is_no_pass() -> None:
    finding = by_id(series(*(run(i) for i in range(6)), run(6, good=None)))[READ]
    assert finding.verdict is Verdict.INCONCLUSIVE and "no value in run-6" in finding.says


@pytest.mark.parametrize("bound", ["more_than", "at_least"])
def test_what_went_on_for_longer_than_was_watched_and_hangs_on_the_machine_is_missing(bound: str) -> None:
    """Without a processor that was free it may have come back long before: no miss, and no pass."""
    late = [run(i, regained=62.0, bound=bound, doubtful=("write.regained",)) for i in range(5)]
    found = series(*late)
    finding = by_id(found)[WRITE]
    assert found.outcome is Outcome.INCONCLUSIVE and finding.verdict is Verdict.INCONCLUSIVE and not finding.missed
    assert "write.regained@dark" not in late[0].metrics
    sure = series(*(run(i, regained=62.0, bound=bound) for i in range(5)))
    assert by_id(sure)[WRITE].verdict is Verdict.FAIL


def test_a_pass_of_which_a_node_was_not_asked_is_a_missing_value_and_not_a_doubtful_one() -> None:
    sure = [run(i, 0.9999 - i * 1e-5) for i in range(5)]
    one = run(5, good=0.9999, unasked=("read.good",))
    assert one.excluded is None and one.measured(READ) is None and READ not in one.metrics
    finding = by_id(series(*sure, one))[READ]
    assert finding.verdict is Verdict.INCONCLUSIVE and not finding.doubtful
    assert finding.says.endswith("no value in run-5 (b-data was never asked in dark)")
    assert finding.figures is not None and len(finding.figures.values) == 5


def test_a_number_of_a_table_is_missing_where_its_finding_may_be_worse() -> None:
    tables = {"good": {"read": {"dark": {"scheduled": 3000, "share": 0.9999}}}}
    found = run(1, good=0.9999, unasked=("read.good",)).findings
    assert READ in reading.metrics({"tables": tables})
    assert READ not in reading.metrics({**found, "tables": tables})


def test_a_doubtful_number_is_better_in_the_direction_of_its_own_metric() -> None:
    def of(metric: str, unit: str, measured: float) -> Any:
        item = {"metric": metric, "verdict": "inconclusive", "bound": "exact", "unit": unit, "measured": measured}
        return reading.metrics({"findings": [item]})[metric]  # type: ignore[list-item]

    busy = of("gc.share", "share", 0.2)
    assert (busy.low, busy.high, busy.measured, busy.text) == (0.0, 0.2, 0.2, "20.0 % or better")
    good = of("read.good", "share", 0.95)
    assert (good.low, good.high, good.measured, good.text) == (0.95, 1.0, 0.95, "95.0 % or better")
    documents = of("costs.goodput", "number", 120.0)
    assert (documents.low, documents.high, documents.text) == (120.0, math.inf, "120 or better")


def test_a_known_weakness_is_kept_as_in_a_single_run() -> None:
    def of(regained: float) -> judging.Series:
        runs = [run(i, regained=regained, known="issue 4711") for i in range(5)]
        for each in runs:  # only the second expectation has the note
            for number in (0, 2):
                each.plan["experiment"]["expect"][number]["known_weakness"] = None
        return series(*runs)

    assert by_id(of(60))[WRITE].counts_as is Counts.KNOWN_WEAKNESS and of(60).outcome is Outcome.PASS
    assert by_id(of(10))[WRITE].counts_as is Counts.UNEXPECTED_PASS and of(10).outcome is Outcome.WEAKNESS


@pytest.mark.parametrize(("weakness", "outcome"), [(True, Outcome.WEAKNESS), (False, Outcome.INCONCLUSIVE)])
def test_a_node_that_ended_by_itself_in_one_run_decides(weakness: bool, outcome: Outcome) -> None:
    """Also where the run itself gives no numbers, because its phases were cut short."""
    one = run(5, gap="the phase dark ended as aborted")
    one.findings["tables"]["ends"] = [{"says": "Node a-data ended by itself (exit code 127)", "weakness": weakness}]
    found = series(*(run(n) for n in range(5)), one)
    assert found.outcome is outcome
    assert any("Node a-data ended by itself" in says for says in found.reasons) is weakness


def test_nothing_expected_is_nothing_tested() -> None:
    empty = Facts("r", None, {"hash": "h", "experiment": {}}, {"outcome": "inconclusive", "clean": True}, {})
    assert series(empty).outcome is Outcome.INCONCLUSIVE
    assert judging.evaluate([], 5).outcome is Outcome.INCONCLUSIVE


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.95, 0.9985, 0.9995, 1.0]), st.sampled_from([5.0, 29.0, 31.0, 90.0])),
        min_size=1,
        max_size=9,
    ),
    st.data(),
)
def test_taking_runs_away_for_a_reason_never_makes_a_pass(
    values: list[tuple[float, float]], data: st.DataObject
) -> None:
    """Whatever becomes unproven, doubtful or missing: what was no pass is none after it."""
    before = series(*(run(i, good, back) for i, (good, back) in enumerate(values)))
    spoiled = data.draw(st.integers(0, len(values) - 1))
    how: dict[str, Any] = data.draw(
        st.sampled_from([{"gap": "not proven"}, {"doubtful": ("read.good", "write.regained")}, {"outcome": "aborted"}])
    )
    after = series(*(run(i, good, back, **(how if i == spoiled else {})) for i, (good, back) in enumerate(values)))
    for id, finding in by_id(after).items():
        if finding.verdict is Verdict.PASS:
            assert by_id(before)[id].verdict is Verdict.PASS


# ---- real findings -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told() -> dict[str, Facts]:
    """The facts of every synthetic story."""
    found = {}
    for name, make in synthetic.STORIES.items():
        history = make().history()
        data = json.loads(json.dumps(evaluate_run(history).to_json()))
        found[name] = Facts(name, None, history.plan, data, reading.metrics(data))
    return found


def test_which_stories_give_numbers(told: dict[str, Facts]) -> None:
    assert {name for name, facts in told.items() if facts.excluded is None} >= {"slow_zone", "black_hole"}
    for name in ("killed", "unproven", "aborted"):
        assert told[name].hides and told[name].excluded, name


def test_every_finding_has_its_target_and_its_metric(told: dict[str, Facts]) -> None:
    for name in ("slow_zone", "black_hole", "lost_writes"):
        facts = told[name]
        assert {target.id for target in reading.targets(facts.plan)} == set(facts.by_id)
        for target in reading.targets(facts.plan):
            item = facts.by_id[target.id]
            if item["measured"] is not None:
                assert facts.metrics[target.metric].low == pytest.approx(item["measured"]), target.id
    assert told["black_hole"].metrics["write.regained@dark"].low == pytest.approx(62, abs=1.5)


def test_a_steady_phase_has_an_exact_interval_and_no_other_has(told: dict[str, Facts]) -> None:
    steady = told["black_hole"].findings["tables"]["steady"]
    assert set(steady) == {"read", "write"} and set(steady["read"]) == {"healthy"}
    row = steady["read"]["healthy"]
    assert row["good"] == row["scheduled"] == 3000 and row["high"] == 1.0
    assert row["low"] == pytest.approx(0.025 ** (1 / 3000))  # no miss: the exact bound is a power


def test_a_series_of_stories_on_disk(tmp_path: Path) -> None:
    folder = store.new_series(tmp_path, "x", {"planned_runs": 2, "runs": []})
    synthetic.slow_zone().write(folder / "r1")
    (folder / "r1" / "findings.json").unlink(missing_ok=True)
    store.write_series(folder, {"planned_runs": 2, "runs": ["r1"]})
    runs, planned = store.series_of(folder)
    assert [each.name for each in runs] == ["r1"] and planned == 2
    assert not (folder / "r1" / "findings.json").exists()  # reading writes nothing


def broken(change: Callable[[Path], Any], folder: Path) -> str:
    change(folder)
    with pytest.raises(InvalidInput) as said:
        store.series_of(folder)
    return str(said.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda f: (f / "series.json").write_text("["), "cannot be read"),
        (lambda f: (f / "series.json").write_text("[]"), "is no series of format 1"),
        (lambda f: store.write_series(f, {"planned_runs": "x", "runs": []}), "does not say how many"),
        (lambda f: store.write_series(f, {"planned_runs": 3, "runs": []}), "holds no run yet"),
        (lambda f: store.write_series(f, {"planned_runs": 3, "runs": ["../../etc"]}), "outside its folder"),
        (lambda f: store.write_series(f, {"planned_runs": 3, "runs": ["gone"]}), "is no run that can be read"),
    ],
)
def test_a_broken_series_is_one_line(tmp_path: Path, change: Callable[[Path], Any], says: str) -> None:
    folder = store.new_series(tmp_path, "x", {"planned_runs": 2, "runs": []})
    assert says in broken(change, folder)


def test_runs_of_different_plans_are_no_series() -> None:
    other = run(1)
    with pytest.raises(InvalidInput, match="2 different plans"):
        store.refuse_mixed([run(0), Facts(other.name, None, other.plan | {"hash": "i"}, other.findings)])


def test_tables_of_other_checks_become_metrics_and_what_is_not_understood_is_missing() -> None:
    tables = {
        "availability": {
            "read": {
                "slices": {"theta": 0.99, "share": 0.98},
                "user_uptime": {"share": 0.97, "users": 2},
                "minimum": [{"window": 60.0, "availability": 0.5}],
            }
        },
        "ladder": {
            "dark": {
                "steps": [
                    {"name": "impact", "after": 1.5, "bound": "exact", "reached": True},
                    {"name": "green", "after": 90.0, "bound": "more_than", "reached": False},
                    {"name": "latency", "after": None, "bound": "exact", "reached": False},
                ]
            }
        },
        "data": {"copies": {"value": 0, "bound": "exact"}, "visibility": {"value": 1.2, "bound": "rather"}},
    }
    found = reading.metrics({"tables": tables})
    assert {name: value.text for name, value in found.items()} == {
        "read.slices": "98.0 %",
        "read.user_uptime": "97.0 %",
        "read.minimum.60s": "50.0 %",
        "ladder.impact@dark": "1.5 s",
        "ladder.green@dark": "> 90 s",
        "data.copies": "0",
    }
    assert reading.is_recovery("ladder.green@dark") and not reading.is_recovery("read.outage@dark")


def test_a_known_weakness_of_a_series_is_known_up_to_its_bound() -> None:
    def of(*regained: float) -> judging.Series:
        runs = [run(i, regained=each, known="issue 4711") for i, each in enumerate(regained)]
        for each in runs:
            for number in (0, 2):
                each.plan["experiment"]["expect"][number]["known_weakness"] = None
            each.plan["experiment"]["expect"][1]["known_bound"] = {"comparison": "<=", "value": 90.0, "text": "<= 90s"}
        return series(*runs)

    assert by_id(of(60, 60, 60, 60, 80))[WRITE].counts_as is Counts.KNOWN_WEAKNESS
    beyond = of(60, 60, 60, 60, 95)
    assert by_id(beyond)[WRITE].counts_as is Counts.WEAKNESS and beyond.outcome is Outcome.WEAKNESS
    assert "not within what is known (issue 4711)" in by_id(beyond)[WRITE].says


def test_a_count_beyond_what_is_known_is_a_weakness_also_in_a_run_that_is_left_out() -> None:
    def of(*runs: Facts) -> judging.Series:
        for each in runs:
            for number in (0, 1):
                each.plan["experiment"]["expect"][number]["known_weakness"] = None
            each.plan["experiment"]["expect"][2]["known_bound"] = {"comparison": "<=", "value": 4.0, "text": "<= 4"}
        return series(*runs)

    def left_out(lost: float) -> Facts:
        one = run(5, lost=lost, invalid=True, known="some are lost")
        assert one.excluded is not None and not one.hides and one.by_id[LOST]["verdict"] == "fail"
        return one

    known = [run(i, lost=3, known="some are lost") for i in range(5)]
    within, beyond = of(*known, left_out(4)), of(*known, left_out(60))
    assert by_id(within)[LOST].counts_as is Counts.KNOWN_WEAKNESS and within.outcome is Outcome.PASS
    assert by_id(beyond)[LOST].counts_as is Counts.WEAKNESS and beyond.outcome is Outcome.WEAKNESS
    assert "not within what is known (some are lost)" in by_id(beyond)[LOST].says


def test_a_time_beyond_what_is_known_in_a_run_that_is_left_out_says_nothing() -> None:
    runs = [run(i, regained=60, known="issue 4711") for i in range(5)]
    runs.append(run(5, regained=95, invalid=True, known="issue 4711"))
    for each in runs:
        each.plan["experiment"]["expect"][1]["known_bound"] = {"comparison": "<=", "value": 90.0, "text": "<= 90s"}
    assert by_id(series(*runs))[WRITE].counts_as is Counts.KNOWN_WEAKNESS
    runs[5].by_id[WRITE]["verdict"] = "fail"
    assert by_id(series(*runs))[WRITE].counts_as is Counts.KNOWN_WEAKNESS


def test_what_every_run_promises_decides_a_series_and_what_is_allowed_is_relaxed() -> None:
    def stale(number: int, found: int) -> Facts:
        one = run(number)
        item = dict(one.findings["findings"][-1], id="stale.reads", title="stale.reads = 0", metric="stale.reads")
        item |= {"measured": float(found), "verdict": "fail" if found else "pass", "default": True}
        one.findings["findings"].append(item)
        return Facts(one.name, None, one.plan, one.findings, one.metrics)

    assert by_id(series(*(stale(i, 0) for i in range(5))))["stale.reads"].counts_as is Counts.PASS
    found = series(*(stale(i, 0) for i in range(4)), stale(4, 2))
    assert by_id(found)["stale.reads"].counts_as is Counts.WEAKNESS and found.outcome is Outcome.WEAKNESS

    runs = [run(i) for i in range(5)]
    runs[2].by_id[LOST]["counts_as"] = "relaxed"
    for each in runs:
        each.plan["experiment"]["expect"][2]["because"] = "replication is asynchronous"
    relaxed = series(*runs)
    assert by_id(relaxed)[LOST].counts_as is Counts.RELAXED and relaxed.outcome is Outcome.PASS
    assert "allowed, because replication is asynchronous" in by_id(relaxed)[LOST].says


def test_what_a_run_that_is_left_out_broke_as_allowed_is_not_held() -> None:
    runs = [*(run(i) for i in range(5)), run(5, invalid=True)]
    runs[5].by_id[LOST] |= {"verdict": "pass", "counts_as": "relaxed"}
    found = series(*runs)
    assert runs[5].excluded is not None and not runs[5].hides
    assert by_id(found)[LOST].counts_as is Counts.RELAXED
