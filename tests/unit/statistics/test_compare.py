"""Comparisons and baselines: three outcomes, small R told as it is, and what cannot be compared refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.base.errors import Exit, InvalidInput
from chaos.checks.measure import Bound, Verdict
from chaos.statistics import compare as comparing
from chaos.statistics import store
from chaos.statistics.compare import Tolerance, compare, parse_tolerances, tolerance_of
from chaos.statistics.facts import Known
from chaos.statistics.store import Group

LOAD = {"read": {"rate": 50.0, "good_within": 0.1, "operation": "search"}, "arrivals": "uniform", "documents": 2000}
TARGETS = {"read.good@dark": [">=", 0.999], "write.good@dark": ["<", 0.1], "write.regained@dark": ["<=", 30.0]}


def share(value: float) -> Known:
    return Known("share", value, value)


def seconds(value: float) -> Known:
    return Known("seconds", value, value)


def test_a_machine_that_is_all_usable_is_the_machine_of_before() -> None:
    before = {"processors": 2, "memory_gb": 8}
    whole = {"processors": [0, 1], "of": 2, "quota": None}
    assert store._machine(None) is None
    assert store._machine(before) == store._machine(before | {"usable": whole}) == before
    for less in ({"processors": [0]}, {"quota": 1.5}, {"processors": None}):
        held = before | {"usable": whole | less}
        assert store._machine(held) == held


def group(values: dict[str, Sequence[Known | None]], label: str = "A", **changes: Any) -> Group:
    count = max((len(row) for row in values.values()), default=0)
    targets = {metric: target for metric, target in TARGETS.items() if metric in values}
    runs = tuple({"run": f"{label}{i}", "seed": i, "outcome": "pass", "why_not": None} for i in range(count))
    data: dict[str, Any] = {
        "label": label,
        "about": {"experiment": "x", "versions": {"opensearch": "3.8.0"}, "machine": {"processors": 2}},
        "conditions": {"load": LOAD, "phases": [{"name": "dark", "duration": 60.0}], "targets": targets},
        "runs": runs,
        "values": {name: tuple(row) for name, row in values.items()},
        "lost": 0.0,
    }
    return Group(**(data | changes))


def row_of(a: Sequence[Known | None], b: Sequence[Known | None], metric: str = "read.good@dark") -> comparing.Row:
    found = compare(group({metric: a}), group({metric: b}, "B"))
    return next(row for row in found.rows if row.metric == metric)


@pytest.mark.parametrize(
    ("b", "verdict"),
    [
        ([0.9995, 0.9996, 0.9997, 0.9998, 0.9999], Verdict.PASS),
        ([0.9999, 1.0, 1.0, 1.0, 1.0], Verdict.PASS),
        ([0.9975, 0.9977, 0.9974, 0.9976, 0.9973], Verdict.FAIL),
        ([0.9990, 0.9970, 0.9999, 0.9980, 0.9985], Verdict.INCONCLUSIVE),
    ],
)
def test_three_outcomes_of_a_share(b: list[float], verdict: Verdict) -> None:
    a = [0.9995, 0.9996, 0.9997, 0.9998, 0.9999]
    assert row_of([share(v) for v in a], [share(v) for v in b]).verdict is verdict


def test_seconds_are_worse_when_they_are_more() -> None:
    a, more = [seconds(v) for v in (4, 5, 6, 5, 4)], [seconds(v) for v in (14, 15, 16, 15, 14)]
    assert row_of(a, more, "write.regained@dark").verdict is Verdict.FAIL
    assert row_of(more, a, "write.regained@dark").verdict is Verdict.PASS


def test_three_runs_a_side_are_never_a_verdict() -> None:
    row = row_of([share(1.0)] * 3, [share(0.5)] * 3)
    assert row.verdict is Verdict.INCONCLUSIVE and row.interval is None
    assert row.says == "3 and 3 runs have no 95 % interval; all differences together (-50 points) are one with 90 %"


def test_a_recovery_that_was_not_reached_keeps_its_rank() -> None:
    a = [seconds(v) for v in (4, 5, 6, 5, 4)]
    never = [Known("seconds", 90, float("inf"), Bound.MORE_THAN)] * 5
    row = row_of(a, never, "write.regained@dark")
    assert row.verdict is Verdict.FAIL and row.interval is not None
    assert comparing.signed(row.interval, "seconds").endswith("to +∞")
    assert row.to_json()["interval"]["high"] is None and json.dumps(row.to_json())


def test_doubtful_values_make_it_open_not_worse() -> None:
    a = [share(1.0)] * 5
    row = row_of(a, [Known("share", 0.95, 1.0, doubtful=True)] * 5)
    assert row.verdict is Verdict.INCONCLUSIVE and "0.95" not in comparing.summary_of(row.b)


def test_an_expected_metric_that_no_run_measured_is_open() -> None:
    good = {"read.good@dark": [share(1.0)] * 5}
    conditions = group(good).conditions | {"targets": {"read.good@dark": [">=", 0.9], "gc.share@dark": ["<=", 0.05]}}
    found = compare(group(good, conditions=conditions), group(good, "B", conditions=conditions))
    assert (found.outcome, found.exit_code) == (Verdict.INCONCLUSIVE, Exit.INCONCLUSIVE)
    assert found.sentence.startswith("Not enough is known of gc.share@dark")


def test_an_expectation_that_a_fault_bites_is_not_owed_a_value() -> None:
    good = {"read.good@dark": [share(1.0)] * 5}
    conditions = group(good).conditions | {"targets": {"write.good@dark": ["<", 0.1]}}
    found = compare(group(good, conditions=conditions), group(good, "B", conditions=conditions))
    assert [row.metric for row in found.rows] == ["read.good@dark"]


def test_a_loss_in_b_alone_decides_whatever_is_chosen() -> None:
    none = {"acknowledged.lost": [Known("count", 0, 0)] * 5, "read.good@dark": [share(1.0)] * 5}
    assert compare(group(none), group(none, "B"), metrics=["read.good"]).outcome is Verdict.PASS
    found = compare(group(none), group(none, "B", lost=9.0), metrics=["read.good"])
    assert found.outcome is Verdict.FAIL and "acknowledged.lost" in found.sentence


def test_a_missing_value_is_no_pass() -> None:
    a = [share(1.0)] * 6
    assert row_of(a, [share(1.0)] * 6).verdict is Verdict.PASS
    assert row_of(a, [share(1.0)] * 5 + [None]).verdict is Verdict.INCONCLUSIVE
    assert row_of(a, []).says == "B has no value"


def test_a_loss_in_b_alone_fails_whatever_the_ranks_say() -> None:
    none = {"acknowledged.lost": [Known("count", 0, 0)] * 5}
    found = compare(group(none), group(none, "B", lost=9.0))
    assert (found.outcome, found.exit_code) == (Verdict.FAIL, Exit.WEAKNESS)
    assert "up to 9 lost in a run of B" in found.rows[0].says
    assert compare(group(none, lost=9.0), group(none, "B", lost=9.0)).outcome is Verdict.PASS


def loading(*names: str, expects: bool) -> dict[str, Any]:
    """Conditions of a load with these operations, and perhaps of a line about lost writes."""
    targets = TARGETS | ({"acknowledged.lost#2": ["==", 0.0]} if expects else {})
    return {"load": {name: LOAD["read"] for name in names}, "phases": [], "targets": targets}


@pytest.mark.parametrize(
    ("names", "expects", "outcome"),
    [
        (("read",), False, Verdict.PASS),
        (("read",), True, Verdict.INCONCLUSIVE),
        (("read", "write"), False, Verdict.INCONCLUSIVE),
    ],
)
def test_where_it_is_not_known_whether_writes_were_lost_nothing_passes(
    names: tuple[str, ...], expects: bool, outcome: Verdict
) -> None:
    good = {name: [share(1.0)] * 5 if ".good" in name else [seconds(4.0)] * 5 for name in TARGETS}
    same = {"conditions": loading(*names, expects=expects), "lost": None}
    found = compare(group(good, **same), group(good, "B", **same))
    lost = [row for row in found.rows if row.metric == "acknowledged.lost"]
    assert found.outcome is outcome
    assert [(row.verdict, row.decides) for row in lost] == [(outcome, True)] * (outcome is not Verdict.PASS)


def test_a_loss_in_b_is_told_where_it_is_not_known_of_a() -> None:
    good = {"read.good@dark": [share(1.0)] * 5}
    for metrics in ([], ["read.good"]):
        found = compare(group(good, lost=None), group(good, "B", lost=3.0), metrics=metrics)
        (row,) = [row for row in found.rows if row.metric == "acknowledged.lost"]
        assert (row.decides, row.says) == (True, "up to 3 lost in a run of B; not known in A")
        assert row.verdict is found.outcome is Verdict.INCONCLUSIVE


def test_runs_of_which_none_knows_of_losses_are_no_runs_without(tmp_path: Path) -> None:
    from unit.statistics.test_series import run

    runs = [run(number) for number in range(5)]
    assert store.group_of(runs, "A").lost == 0.0
    for each in runs:
        each.findings["tables"]["writes"]["value"] = None
    unknown = store.group_of(runs, "A")
    assert unknown.lost is None
    store.write_baseline(unknown, tmp_path / "a.json")
    assert store.read_baseline(tmp_path / "a.json").lost is None


def test_a_baseline_of_before_says_nothing_of_losses_where_no_run_has_a_value(tmp_path: Path) -> None:
    for values, lost, read in (
        ({"read.good@dark": [share(1.0)]}, 0.0, None),
        ({"read.good@dark": [share(1.0)]}, 2.0, 2.0),
        ({"acknowledged.lost": [Known("count", 0, 0)]}, 0.0, 0.0),
    ):
        store.write_baseline(group(values, lost=lost), tmp_path / "a.json")
        assert store.read_baseline(tmp_path / "a.json").lost == read


def test_a_pass_of_which_a_node_was_not_asked_has_no_value_to_compare(tmp_path: Path) -> None:
    from unit.statistics.test_series import run

    a = store.group_of([run(number) for number in range(5)], "A")
    b = store.group_of([run(number, unasked=("read.good",)) for number in range(5)], "B")
    assert compare(a, a).outcome is Verdict.PASS
    store.write_baseline(b, tmp_path / "b.json")
    for side in (b, store.read_baseline(tmp_path / "b.json")):
        found = compare(a, side)
        (row,) = [row for row in found.rows if row.metric == "read.good@dark"]
        assert (row.verdict, row.says, row.decides) == (Verdict.INCONCLUSIVE, "B has no value", True)
        assert found.outcome is Verdict.INCONCLUSIVE


def test_what_decides() -> None:
    """Expectations of users decide, those that want a fault to bite do not; outage and losses always do."""
    values = {
        name: [share(0.5)] * 5 if ".good" in name else [seconds(1.0)] * 5
        for name in ("read.good@dark", "write.good@dark", "write.regained@dark", "read.outage", "read.p99@dark")
    }
    found = compare(group(values), group(values, "B"))
    assert {row.metric for row in found.rows if row.decides} == {"read.good@dark", "write.regained@dark", "read.outage"}
    chosen = compare(group(values), group(values, "B"), metrics=["read.p99"])
    assert {row.metric for row in chosen.rows if row.decides} == {"read.p99@dark"}
    with pytest.raises(InvalidInput, match=r"neither side has the metric read\.p98"):
        compare(group(values), group(values, "B"), metrics=["read.p98"])


def test_nothing_compared_is_no_pass() -> None:
    assert compare(group({}), group({}, "B")).outcome is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"load": LOAD | {"documents": 9}}, "the load differs in documents: 2000 in A, 9 in B"),
        ({"load": LOAD | {"data_stream": "@timestamp"}}, "the load differs in data_stream"),
        ({"load": {**LOAD, "read": LOAD["read"] | {"rate": 60.0}}}, "the load differs in read"),  # type: ignore[operator]
        ({"phases": [{"name": "light", "duration": 60.0}]}, "the phases differ: dark in A, light in B"),
        ({"phases": [{"name": "dark", "duration": 9.0}]}, "phase dark differs: duration 60.0 in A, 9.0 in B"),
        ({"targets": TARGETS | {"read.good@dark": [">=", 0.9]}}, "the target of read.good@dark differs"),
    ],
)
def test_what_cannot_be_compared_is_refused(change: dict[str, Any], says: str) -> None:
    a = group({"read.good@dark": [share(1.0)]})
    b = group({"read.good@dark": [share(1.0)]}, "B", conditions=a.conditions | change)
    with pytest.raises(InvalidInput) as said:
        compare(a, b)
    assert says in str(said.value) and said.value.exit_code == 2


def test_what_may_differ_is_told() -> None:
    b = group({}, "B", about={"experiment": "x", "versions": {"opensearch": "3.9.0"}, "machine": None})
    assert store.differences(group({}), b) == [
        'machine: {"processors": 2} in A, null in B',
        'versions, opensearch: "3.8.0" in A, "3.9.0" in B',
        "machine: not recorded on both sides",
    ]


def test_a_side_of_several_classes_of_machines_says_so(tmp_path: Path) -> None:
    from unit.statistics.test_scorecard import NEW, good
    from unit.statistics.test_scorecard import group as runs_of

    other = {"processors": 8, "architecture": "arm64", "memory_gb": 64}
    mixed = [*runs_of(NEW, *good(2)).runs, *runs_of(NEW, *good(2), machine=other).runs]
    a, b = store.group_of(mixed, "mixed"), store.group_of(mixed[:2], "one")
    says = (
        "A: its runs were made on 2 classes of machines: arm64, 8 processors, 64 GB, kernel 6.18; x86_64, 2 processors"
    )
    assert [each.startswith(says) for each in store.differences(a, b)].count(True) == 1
    assert not any("classes of machines" in each for each in store.differences(b, b))
    store.write_baseline(a, tmp_path / "a.json")
    assert store.read_baseline(tmp_path / "a.json").machines == a.machines


# ---- does it keep its level? ---------------------------------------------------------------------------------


def test_b_that_is_as_a_is_seldom_called_worse_and_a_true_regression_is_found() -> None:
    """A/A with runs that differ from each other by more than the tolerance, and A/B with a regression of 3 points."""
    rng = np.random.default_rng(4)

    def side(mean: float, label: str) -> Group:
        return group({"read.good@dark": [share(float(v)) for v in rng.normal(mean, 0.004, 8)]}, label)

    same = [compare(side(0.97, "A"), side(0.97, "B"), metrics=["read.good"]).outcome for _ in range(300)]
    worse = [compare(side(0.97, "A"), side(0.94, "B"), metrics=["read.good"]).outcome for _ in range(100)]
    assert same.count(Verdict.FAIL) / 300 <= 0.025 and worse.count(Verdict.FAIL) >= 99
    edge = [compare(side(0.97, "A"), side(0.969, "B"), metrics=["read.good"]).outcome for _ in range(300)]
    assert edge.count(Verdict.FAIL) / 300 <= 0.025 + 0.036 and edge.count(Verdict.PASS) / 300 <= 0.025 + 0.036


# ---- tolerances ------------------------------------------------------------------------------------------------


def test_tolerances_are_read_and_the_nearest_name_wins(tmp_path: Path) -> None:
    file = tmp_path / "tolerances.yaml"
    file.write_text("read.good: 0.5%\nshards.moved: 2\nregained: 4s\n")
    found = parse_tolerances([str(file), "read.good@dark=0.2%", "read.p99=10ms or 25%", "write.p99=30%"])
    assert tolerance_of("read.good@dark", found) == Tolerance(0.002)
    assert tolerance_of("read.good@other", found) == Tolerance(0.005)
    assert tolerance_of("write.regained@dark", found) == Tolerance(4.0)
    assert tolerance_of("read.p99@dark", found) == Tolerance(0.010, 0.25)
    assert tolerance_of("write.p99@dark", found) == Tolerance(0.0, 0.3)
    assert tolerance_of("shards.moved@dark", found) == Tolerance(2.0)
    assert tolerance_of("write.good@dark", found) == Tolerance(0.001)  # the default: 0.1 points
    assert tolerance_of("acknowledged.lost", {}) == Tolerance()
    assert tolerance_of("documents.acknowledged@dark", {}) == Tolerance(0.001)
    assert parse_tolerances(["documents.acknowledged=1%"]) == {"documents.acknowledged": Tolerance(0.01)}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("read.good=3s", "a share takes percentage points"),
        ("read.good=", "read.good="),
        ("read.p99=fast", "read.p99=fast"),
        ("nowhere.yaml", "nowhere.yaml"),
    ],
)
def test_a_wrong_tolerance_is_one_line(given: str, says: str) -> None:
    with pytest.raises(InvalidInput) as said:
        parse_tolerances([given])
    assert says in str(said.value)


def test_a_tolerance_for_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"tolerance read\.god: neither side has that metric"):
        compare(group({"read.good@dark": []}), group({}, "B"), parse_tolerances(["read.god=1s"]))


# ---- baselines ---------------------------------------------------------------------------------------------------

VALUES = st.one_of(
    st.none(),
    st.builds(lambda v: Known("seconds", v, v), st.floats(0, 1e6)),
    st.builds(lambda v, b: Known("seconds", v, float("inf"), b), st.floats(0, 1e6), st.sampled_from(list(Bound)[1:])),
    st.builds(lambda v: Known("seconds", 0.0, v, doubtful=True), st.floats(0, 1e6)),
)


@given(st.lists(VALUES, min_size=1, max_size=6))
def test_a_baseline_reads_as_it_was_written(values: list[Known | None]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "deep" / "b.json"
        store.write_baseline(group({"read.p99@dark": values}), file)
        found = store.read_baseline(file)
        text = file.read_text()
    assert found.counted == len(values) and found.conditions == group({}).conditions
    for before, after in zip(values, found.values["read.p99@dark"], strict=True):
        if before is None or after is None:
            assert before is after
            continue
        assert (before.bound, before.doubtful) == (after.bound, after.doubtful)
        assert after.low == pytest.approx(before.low, rel=1e-5) and after.high == pytest.approx(before.high, rel=1e-5)
    assert sum("read.p99@dark" in line for line in text.splitlines()) == 1  # a metric is one line of a diff


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.pop("metrics"),
        lambda data: data.update(kind="series"),
        lambda data: data.update(format=99),
        lambda data: data["metrics"]["read.good@dark"].update(values=["~ 3"]),
        lambda data: data["metrics"]["read.good@dark"].update(values=[float("nan")]),
        lambda data: data["metrics"]["read.good@dark"].update(values=[1.0, 1.0]),
        lambda data: data["metrics"]["read.good@dark"].update(unit="parsecs"),
        lambda data: data.update(conditions={}),
        lambda data: data.update(runs=[3]),
    ],
)
def test_a_broken_baseline_is_one_line(tmp_path: Path, change: Any) -> None:
    data = json.loads(store.baseline(group({"read.good@dark": [share(1.0)]}), "b"))
    change(data)
    (tmp_path / "b.json").write_text(json.dumps(data))
    with pytest.raises(InvalidInput, match=r"b\.json"):
        store.read_baseline(tmp_path / "b.json")


def test_nothing_passes_over_a_run_of_b_that_hides_something() -> None:
    good = {"read.good@dark": [share(1.0)] * 5}
    a, b = group(good), group(good, "B")
    hidden = {"run": "B9", "outcome": "aborted", "why_not": "the guard cluster.red tripped", "hides": True}
    ill = hidden | {"why_not": "lag: 93 ms", "hides": False}
    assert compare(a, group(good, "B", runs=(*b.runs, ill))).outcome is Verdict.PASS
    found = compare(a, group(good, "B", runs=(*b.runs, hidden)))
    assert found.outcome is Verdict.INCONCLUSIVE and "cluster.red tripped" in found.rows[0].says
    assert any("B9 gives no numbers" in line for line in found.differences)
    assert compare(a, group(good, "B", planned=9)).outcome is Verdict.INCONCLUSIVE
    assert compare(group(good, runs=(*a.runs, hidden)), b).outcome is Verdict.PASS  # A without it is only stricter


def test_tries_for_an_acknowledged_request_are_a_metric_of_which_less_is_better() -> None:
    from chaos.statistics.facts import higher_is_better, metrics

    rows = {"steady": {"tries": 1.25}, "dark": {"tries": None}}  # nothing was acknowledged in dark
    found = metrics({"tables": {"documents": {"write": rows}}})
    assert {name: value.low for name, value in found.items()} == {"documents.tries@steady": 1.25}
    assert not higher_is_better(found["documents.tries@steady"].unit, "documents.tries@steady")


def test_of_shares_of_what_went_badly_less_is_better() -> None:
    from chaos.statistics.facts import higher_is_better

    assert higher_is_better("share", "read.good@slow") and higher_is_better("share", "documents.acknowledged@slow")
    assert not higher_is_better("share", "gc.share@slow") and not higher_is_better("share", "cpu.survivors@slow")
    assert higher_is_better("share") and not higher_is_better("seconds", "write.outage")


def test_lag_of_replicas_is_a_metric_by_phase_of_which_less_is_better() -> None:
    """As the checks have it; of runs on document replication there is none."""
    from chaos.statistics.compare import default_tolerance
    from chaos.statistics.facts import higher_is_better, metrics

    tables: Any = {
        "replication": {"steady": {"lag": {"value": 4.5, "bound": "at_least"}, "bytes_behind": {"value": 8e6}}},
        "data": {
            "visibility": {
                "quantile": "p99",
                "value": 20.5,
                "bound": "exact",
                "text": "20.5 s",
                "replicas": {"steady": {"looks": 9, "p99": {"value": 22.0, "bound": "exact"}, "p50": {"value": None}}},
            }
        },
    }
    found = metrics({"tables": tables})
    assert found["replication.lag@steady"] == Known("seconds", 4.5, float("inf"), Bound.AT_LEAST)
    assert found["replication.bytes_behind@steady"] == Known("number", 8e6, 8e6)
    assert found["replicas.visible.p99@steady"] == Known("seconds", 22.0, 22.0)
    assert "replicas.visible.p50@steady" not in found and found["visible.p99"].low == 20.5
    assert not any(higher_is_better(found[name].unit, name) for name in found)
    assert default_tolerance("replication.lag@steady") == Tolerance(1.0, 0.25)
    assert not {name for name in metrics({"tables": {"replication": {}}}) if name.startswith("replication")}
