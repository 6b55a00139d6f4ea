"""Each check against made-up runs with a known truth: it passes, it fails, and without data it stays open."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import Chapter, Story, constant, expect, healthy, mixed

from chaos.base import text
from chaos.checks import good, latency, movement, outage, recovered, regained, validity, writes
from chaos.checks.measure import Bound, Measure, Verdict, judge
from chaos.checks.record import Record, windows
from chaos.history.format import Outcome


def one_fault(
    write: synthetic.Behaviour,
    seconds: float = 40,
    after: float = 0.0,
    rate: float = 100.0,
    fault_at: float = 0.0001,
) -> Record:
    """20 healthy seconds, then a fault at the very start of ``hit``; perhaps a calm phase behind it."""
    chapters = [
        Chapter("healthy", 20, write=constant()),
        Chapter("hit", seconds, read=constant(), write=write).fault(at=fault_at),
    ]
    if after:
        chapters.append(Chapter("calm", after, read=constant(), write=constant()))
    return Record(Story(chapters=chapters, rate=rate).history())


def measured(record: Record, phase: str = "hit") -> Measure:
    span = record.span(phase)
    assert span is not None
    return regained.measure(record, "write", span)


# -- comparison ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bound", "comparison", "target", "verdict"),
    [
        (Bound.EXACT, "<=", 10, Verdict.PASS),
        (Bound.EXACT, "<", 10, Verdict.FAIL),
        (Bound.EXACT, ">=", 10, Verdict.PASS),
        (Bound.EXACT, ">", 10, Verdict.FAIL),
        (Bound.EXACT, "==", 10, Verdict.PASS),
        (Bound.MORE_THAN, "<=", 10, Verdict.FAIL),
        (Bound.MORE_THAN, "<=", 9, Verdict.FAIL),
        (Bound.MORE_THAN, "<=", 11, Verdict.INCONCLUSIVE),
        (Bound.AT_LEAST, "<=", 10, Verdict.INCONCLUSIVE),
        (Bound.AT_LEAST, "<=", 9, Verdict.FAIL),
        (Bound.AT_LEAST, "<", 10, Verdict.FAIL),
        (Bound.AT_LEAST, "==", 0, Verdict.FAIL),
        (Bound.AT_LEAST, ">=", 10, Verdict.PASS),
        (Bound.AT_LEAST, ">", 10, Verdict.INCONCLUSIVE),
        (Bound.MORE_THAN, ">", 10, Verdict.PASS),
    ],
)
def test_a_censored_value_decides_only_what_every_truth_agrees_on(
    bound: Bound, comparison: str, target: float, verdict: Verdict
) -> None:
    assert judge(Measure(10.0, "seconds", "", bound), comparison, target) is verdict


@given(
    st.sampled_from([">=", ">", "<=", "<", "=="]),
    st.floats(0, 100),
    st.floats(0, 100),
    st.floats(0, 100),
)
def test_a_censored_verdict_never_contradicts_a_possible_truth(
    comparison: str, known: float, more: float, target: float
) -> None:
    verdict = judge(Measure(known, "seconds", "", Bound.AT_LEAST), comparison, target)
    truth = judge(Measure(known + more, "seconds", ""), comparison, target)
    assert verdict in (Verdict.INCONCLUSIVE, truth)


def test_no_value_is_never_a_pass() -> None:
    for comparison in (">=", ">", "<=", "<", "=="):
        assert judge(Measure.missing("count", "nothing"), comparison, 0) is Verdict.INCONCLUSIVE


def test_a_percentage_of_the_definition_compares_equal_to_the_same_share() -> None:
    assert judge(Measure(999 / 1000, "share", ""), ">=", 99.9 / 100) is Verdict.PASS


# -- words ---------------------------------------------------------------------------------------


@given(st.integers(1, 10**6), st.data())
def test_a_shown_percentage_never_rounds_up(scheduled: int, data: st.DataObject) -> None:
    share = data.draw(st.integers(0, scheduled)) / scheduled
    shown = text.percent(share)
    if shown.startswith("<"):
        assert 0 < share < 0.01
    else:
        assert float(shown.removesuffix(" %")) / 100 <= share + 1e-9
    assert (shown == "100 %") == (share >= 1)


def test_durations_read_well() -> None:
    assert [text.seconds(v) for v in (0, 0.0042, 0.087, 1, 3.44, 61.8, 725)] == [
        "0 s",
        "4.2 ms",
        "87 ms",
        "1 s",
        "3.4 s",
        "62 s",
        "12 min 5 s",
    ]


# -- good ----------------------------------------------------------------------------------------


def good_of(behaviour: synthetic.Behaviour, seconds: float = 20) -> Measure:
    record = Record(Story(chapters=[Chapter("only", seconds, write=behaviour)]).history())
    return good.measure(record, "write", record.spans[0], ">=", 0.99)


@pytest.mark.parametrize(
    ("outcome", "seconds", "share"),
    [
        (Outcome.OK, 0.1, 1.0),
        (Outcome.OK, 0.1001, 0.0),
        *[(outcome, 0.01, 0.0) for outcome in Outcome if outcome is not Outcome.OK],
    ],
)
def test_only_ok_within_the_objective_is_good(outcome: Outcome, seconds: float, share: float) -> None:
    assert good_of(constant(outcome, seconds)).value == share


def test_the_denominator_is_what_was_scheduled() -> None:
    half_unknown = mixed((0, 10, 1.0, Outcome.UNKNOWN, 0.01), base=constant())
    assert good_of(half_unknown).value == pytest.approx(0.5)


def test_too_few_arrivals_are_no_share() -> None:
    assert good_of(constant(), seconds=0.99).value is None
    assert good.needed(">=", 0.999) == 1000
    assert good.needed(">=", 0.9) == 100
    assert good.needed("<", 0.1) == 100
    record = Record(Story(chapters=[Chapter("only", 9.5)]).history())
    assert good.measure(record, "write", record.spans[0], ">=", 0.999).value is None
    assert good.measure(record, "write", record.spans[0], "<", 0.1).value is not None


def test_an_arrival_that_the_fault_caught_counts_for_the_faults_phase() -> None:
    # Intended 50 ms before the fault was commanded, never answered: the fault's, not the healthy phase's.
    slow_end = mixed((19.95, 20, 1.0, Outcome.TIMEOUT, 5.0), base=constant())
    chapters = [
        Chapter("healthy", 20, write=slow_end),
        Chapter("hit", 20, write=constant()).fault(at=0.0001),
    ]
    record = Record(Story(chapters=chapters).history())
    healthy_counts = good.table(record, "write", record.spans[0])
    assert healthy_counts["good"] == healthy_counts["scheduled"]
    assert good.table(record, "write", record.spans[1])["outcomes"]["timeout"] == 5  # type: ignore[index]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1999), st.sampled_from([o for o in Outcome if o is not Outcome.OK]))
def test_one_more_bad_arrival_never_raises_good_nor_lowers_the_outage(at: int, outcome: Outcome) -> None:
    def spoil(t: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        codes, seconds = constant()(t, rng)
        codes[at] = int(outcome)
        return codes, seconds

    before = one_fault(mixed((3, 6, 0.4, Outcome.TIMEOUT, 5.0), base=constant()), seconds=20)
    after = one_fault(mixed((3, 6, 0.4, Outcome.TIMEOUT, 5.0), base=spoil), seconds=20)
    shares = [good.measure(r, "write", r.spans[1]).value for r in (before, after)]
    seconds = [outage.in_phase(r, "write", r.spans[1]) for r in (before, after)]
    assert shares[1] is not None and shares[0] is not None and shares[1] <= shares[0]
    assert seconds[1] >= seconds[0] - 1e-9


# -- outage --------------------------------------------------------------------------------------


def test_a_total_outage_of_12_s_is_12_outage_seconds() -> None:
    record = one_fault(mixed((5, 17, 1.0, Outcome.REFUSED, 0.001), base=constant()))
    assert outage.in_phase(record, "write", record.spans[1]) == pytest.approx(12, abs=0.05)
    assert outage.in_phase(record, "write", record.spans[0]) == 0


def test_a_quarter_lost_for_8_s_is_2_outage_seconds() -> None:
    def quarter(t: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        codes, seconds = constant()(t, rng)
        codes[(t < 8) & (np.arange(len(t)) % 4 == 0)] = int(Outcome.SERVER_ERROR)
        return codes, seconds

    record = one_fault(quarter)
    assert outage.in_phase(record, "write", record.spans[1]) == pytest.approx(2, abs=0.02)


def test_what_is_lost_when_healthy_is_subtracted_and_nothing_gets_negative() -> None:
    lossy = mixed((0, 1e9, 0.05, Outcome.TIMEOUT, 5.0), base=constant())
    chapters = [Chapter("healthy", 20, write=lossy), Chapter("hit", 40, write=constant()).fault()]
    record = Record(Story(chapters=chapters).history())
    assert outage.in_phase(record, "write", record.spans[1]) == 0
    assert outage.in_phase(record, "write", record.spans[0]) == pytest.approx(0, abs=1e-4)


def test_scripted_seconds_are_apart_and_the_sums_add_up() -> None:
    record = Record(synthetic.slow_zone().history())
    out = outage.of_run(record, "write")
    assert out.scripted == pytest.approx(out.phases["slow"])
    assert out.total == pytest.approx(sum(out.phases.values()))
    assert outage.budget_shares(2592)["99.9 %"] == pytest.approx(1)
    assert outage.budget_shares(259.2)["99.99 %"] == pytest.approx(1)


@settings(max_examples=15, deadline=None)
@given(st.floats(5, 30), st.floats(0, 1))
def test_the_outage_is_additive_over_phases(cut: float, share: float) -> None:
    # The same arrivals, once as one phase and once cut in two at a whole second.
    cut = float(round(cut))
    bad = (np.random.default_rng(1).random(4000) < share).astype(int) * int(Outcome.TIMEOUT)

    def slice_of(start: float) -> synthetic.Behaviour:
        first = round(start * 100)
        return lambda t, rng: (bad[first : first + len(t)].copy(), np.full(len(t), 0.01))

    def lost(*chapters: Chapter) -> float:
        record = Record(Story(chapters=[Chapter("healthy", 10, write=constant()), *chapters]).history())
        return sum(outage.of_run(record, "write").phases.values())

    whole = lost(Chapter("hit", 40, write=slice_of(0)).fault(at=0.0))
    parts = lost(Chapter("hit", cut, write=slice_of(0)).fault(at=0.0), Chapter("rest", 40 - cut, write=slice_of(cut)))
    assert parts == pytest.approx(whole, abs=0.05)


# -- latency -------------------------------------------------------------------------------------


@given(st.lists(st.floats(0.001, 10), min_size=1, max_size=300), st.floats(0.01, 0.999))
def test_a_quantile_is_a_value_that_somebody_saw_with_enough_below_it(values: list[float], q: float) -> None:
    array = np.array(values)
    found = latency.quantile(array, q)
    assert found in values
    assert (array <= found).mean() >= q - 1e-9


def test_a_quantile_among_the_unanswered_is_censored_at_the_timeout() -> None:
    record = one_fault(mixed((0, 2, 1.0, Outcome.TIMEOUT, 5.0), base=constant()), seconds=40)
    span = record.spans[1]
    p50, p99 = (latency.measure(record, "write", span, name) for name in ("p50", "p99"))
    assert (p50.value, p50.bound) == (0.01, Bound.EXACT)
    assert (p99.value, p99.bound, p99.text) == (5.0, Bound.MORE_THAN, "> 5 s")
    assert judge(p99, "<=", 1) is Verdict.FAIL
    assert judge(p99, "<=", 8) is Verdict.INCONCLUSIVE
    assert "4.9 % without an answer" in p99.says


def test_a_fast_refusal_is_no_fast_answer() -> None:
    record = one_fault(constant(Outcome.REFUSED, 0.001))
    assert latency.measure(record, "write", record.spans[1], "p50").bound is Bound.MORE_THAN


def test_p999_needs_a_thousand_arrivals() -> None:
    record = one_fault(constant(), seconds=9)
    assert latency.measure(record, "write", record.spans[1], "p99.9").value is None
    assert latency.measure(record, "write", record.spans[1], "p99").value is not None


# -- regained ------------------------------------------------------------------------------------


@given(st.integers(1, 400), st.floats(1e-4, 0.3))
def test_the_tolerated_number_is_the_binomial_tails(n: int, p0: float) -> None:
    def tail(f: int) -> float:
        return sum(math.comb(n, i) * p0**i * (1 - p0) ** (n - i) for i in range(f, n + 1))

    most = regained.tolerated(n, p0)
    assert most == n or tail(most + 1) < regained.ALPHA + 1e-9
    assert tail(most) >= regained.ALPHA - 1e-9


def test_two_bad_in_a_hundred_are_chance_and_three_are_not() -> None:
    assert regained.tolerated(100, 0.001) == 2


def test_never_bad_is_zero() -> None:
    found = measured(one_fault(constant()))
    assert (found.value, found.bound) == (0.0, Bound.EXACT)


def test_a_hard_outage_of_12_s() -> None:
    found = measured(one_fault(mixed((0, 12, 1.0, Outcome.TIMEOUT, 5.0), base=constant())))
    assert (found.value, found.bound) == (pytest.approx(12, abs=1.01), Bound.EXACT)


def test_flapping_counts_to_the_last_bad_window_and_not_to_the_first_lull() -> None:
    # a flapping recovery: 12 s outage, 3 s lull, 25 % for 4 s, 2 s lull, 5 % for 3 s: 24 s.
    truth = mixed(
        (0, 12, 1.0, Outcome.TIMEOUT, 5.0),
        (15, 19, 0.25, Outcome.SERVER_ERROR, 0.02),
        (21, 24, 0.05, Outcome.TIMEOUT, 5.0),
        base=constant(),
    )
    found = []
    for seed in range(12):
        story = Story(
            chapters=[
                Chapter("healthy", 20, write=constant()),
                Chapter("hit", 45, write=truth).fault(at=0.0),
            ],
            seed=seed,
        )
        found.append(measured(Record(story.history())))
    assert {item.bound for item in found} == {Bound.EXACT}
    values = [item.value for item in found if item.value is not None]
    assert 23 <= np.median(values) <= 24.01 and max(values) <= 24.01 and min(values) >= 18.9


def test_still_bad_at_the_end_is_more_than_the_phase() -> None:
    found = measured(one_fault(mixed((0, 1e9, 1.0, Outcome.TIMEOUT, 5.0), base=constant()), seconds=20))
    assert found.bound is Bound.MORE_THAN and found.text == "> 20 s"
    assert judge(found, "<=", 10) is Verdict.FAIL
    assert judge(found, "<=", 60) is Verdict.INCONCLUSIVE


def test_good_for_less_than_10_s_is_at_least() -> None:
    found = measured(one_fault(mixed((0, 14, 1.0, Outcome.TIMEOUT, 5.0), base=constant()), seconds=20))
    assert found.bound is Bound.AT_LEAST and found.value == pytest.approx(14, abs=1.01)
    assert judge(found, "<=", 10) is Verdict.FAIL
    assert judge(found, "<=", 15.5) is Verdict.INCONCLUSIVE


def test_the_watch_goes_on_into_a_phase_in_which_nothing_is_commanded() -> None:
    bad = mixed((0, 14, 1.0, Outcome.TIMEOUT, 5.0), base=constant())
    assert measured(one_fault(bad, seconds=20, after=20)).bound is Bound.EXACT
    chapters = [
        Chapter("healthy", 20, write=constant()),
        Chapter("hit", 20, write=bad).fault(at=0.0),
        Chapter("next", 20, write=constant()).action("a1", "weights", "weights", 0.0, 0.1),
    ]
    assert measured(Record(Story(chapters=chapters).history())).bound is Bound.AT_LEAST


def test_windows_without_arrivals_are_bad() -> None:
    story = Story(chapters=[Chapter("healthy", 20), Chapter("hit", 40).fault(at=0.0)])
    history = story.history()
    frame = history.arrivals
    at = (frame["intended"] - synthetic.T0) / synthetic.S
    history.__dict__["arrivals"] = frame[(at < 25) | (at >= 30)].reset_index(drop=True)
    record = Record(history)
    assert measured(record).value == pytest.approx(10, abs=1.01)
    assert not next(c for c in validity.conditions(record) if c.id == "schedule.write").ok


def test_a_low_rate_gets_wider_windows() -> None:
    record = one_fault(constant(), rate=20)
    assert record.window("write") == 5
    assert measured(record).evidence["window_seconds"] == 5


@given(st.floats(0.1, 200), st.sampled_from([1.0, 2.0, 5.0]))
def test_windows_cover_the_span_once_and_none_is_tiny(length: float, width: float) -> None:
    frames = windows(7, 7 + int(length * 1e9), width)
    assert frames[0][0] == 7 and frames[-1][1] == 7 + int(length * 1e9)
    assert all(a[1] == b[0] for a, b in itertools.pairwise(frames))
    assert length < width or all(end - start >= width * 1e9 for start, end in frames)


# -- acknowledged writes -------------------------------------------------------------------------


def read_back(**changes: Any) -> Measure:
    story = Story(chapters=[Chapter("only", 5)])
    story.readback = None if changes.pop("missing", False) else {**synthetic.READBACK, **changes}
    return writes.measure(Record(story.history()))


def test_every_kind_of_loss_counts() -> None:
    assert read_back().value == 0
    found = read_back(lost_count=3, diverged_count=2, wrong_content_count=1, lost=["w-1", "w-2", "w-3"])
    assert found.value == 6 and found.evidence["lost"] == ["w-1", "w-2", "w-3"]
    assert judge(found, "==", 0) is Verdict.FAIL


@pytest.mark.parametrize(
    "changes",
    [
        {"missing": True},
        {"complete": False, "reason": "copy 1 on b-data could not be read"},
        {"complete": None},
        {"unavailable_count": 5},
        {"acknowledged": 0},
    ],
)
def test_an_incomplete_read_back_proves_nothing(changes: dict[str, Any]) -> None:
    assert judge(read_back(**changes), "==", 0) is Verdict.INCONCLUSIVE


def test_a_loss_stands_although_the_read_back_is_incomplete() -> None:
    found = read_back(complete=False, reason="x", lost_count=2)
    assert found.bound is Bound.AT_LEAST and judge(found, "==", 0) is Verdict.FAIL


def test_a_hundred_ids_are_named_and_all_are_counted() -> None:
    found = read_back(lost=[f"w-{n}" for n in range(1000)], lost_count=4321)
    assert len(found.evidence["lost"]) == 100 and found.value == 4321


def test_the_finding_says_how_much_was_compared() -> None:
    whole = read_back()
    assert "whole source and index were compared of all 21\u00a0492 documents on 9 copies" in whole.says
    sample = synthetic.READBACK["content"] | {"documents": 60_000, "of": 1_200_000}
    del sample["indexed"], sample["text"]  # as it was written before both were told apart
    says = read_back(content=sample).says
    assert "of a sample of 60\u00a0000 of 1\u00a0200\u00a0000 documents (5.0 %) on 9 copies" in says


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            {"documents": 1_000_000, "indexed": 60_000, "of": 1_000_000},
            "the whole source was compared of all 1 000 000 documents and their index of a sample of 60 000 of"
            " 1 000 000 documents (6.0 %), on 9 copies",
        ),
        (
            {"documents": 1_000_000, "indexed": 60_000, "of": 10_000_000},
            "the whole source was compared of a sample of 1 000 000 of 10 000 000 documents (10.0 %) and their index of"
            " a sample of 60 000 of 10 000 000 documents (0.60 %), on 9 copies",
        ),
        (
            {"documents": 500, "indexed": 500, "of": 500, "text": False},
            "whole source and index but for texts were compared of all 500 documents on 9 copies",
        ),
        (
            {"documents": 500, "indexed": 500, "of": 1000, "text": True},
            "whole source and index were compared of a sample of 500 of 1 000 documents (50.0 %) on 9 copies",
        ),
    ],
)
def test_the_finding_says_the_share_of_sources_and_of_the_index_apart(content: dict[str, Any], says: str) -> None:
    found = read_back(content=synthetic.READBACK["content"] | content)
    assert says in found.says.replace("\u00a0", " ") and found.value == 0


def test_an_index_that_was_not_looked_at_proves_nothing() -> None:
    found = read_back(content=synthetic.READBACK["content"] | {"indexed": 0})
    assert judge(found, "==", 0) is Verdict.INCONCLUSIVE and "not one document's index was compared" in found.says


def test_of_a_record_that_looked_at_two_numbers_no_source_is_claimed() -> None:
    """As it was judged when it was made, in words that say what was looked at."""
    story = Story(chapters=[Chapter("only", 5)])
    assert story.readback is not None
    for name in [
        name for name in story.readback if name == "content" or name.startswith(("wrong_s", "wrong_i", "wrong_d"))
    ]:
        del story.readback[name]
    for copy in story.readback["copies"]:
        for name in ("wanted", "compared", "indexed", "phrases", "content_error"):
            del copy[name]
    found = writes.measure(Record(story.history()))
    assert found.value == 0 and found.bound is Bound.EXACT and "content" not in found.evidence
    assert "two numbers of each were compared, its source was not" in found.says


def test_what_is_wrong_is_told_with_the_copies_on_which_it_is() -> None:
    item = {"id": "w-9", "on": ["c-data"], "right_on": ["a-data", "b-data"], "says": 'text: expected "x", found "y"'}
    found = read_back(
        wrong_content=["w-9"], wrong_content_count=1, wrong_index=[item], wrong_index_count=1, wrong_source_count=0
    )
    assert found.value == 1 and judge(found, "==", 0) is Verdict.FAIL
    assert "1 with other content (1 in their index), w-9 on c-data alone in its index (text: exp" in found.says
    assert found.evidence["wrong_index"] == [item]
    everywhere = read_back(wrong_source=[item | {"right_on": []}], wrong_source_count=4)
    assert everywhere.value == 4 and "4 in their source), w-9 on every copy in its source" in everywhere.says


# -- shards and recovery -------------------------------------------------------------------------


def cluster(samples: bool = True, mutate: Any = None, **fields: Any) -> Record:
    hit = Chapter("hit", 30).fault(at=0.0)
    back = Chapter("back", 40).lift(at=1.0)
    for at, kind, extra in fields.get("hit", []):
        hit.event(at, kind, **extra)
    for at, kind, extra in fields.get("back", []):
        back.event(at, kind, **extra)
    story = Story(chapters=[Chapter("healthy", 20), hit, back], samples=samples, mutate=mutate)
    return Record(story.history())


MOVE = ("cluster.shard_moved", {"index": "chaos", "shard": 1, "node": "a-data"})


def test_moves_are_counted_in_their_phase() -> None:
    record = cluster(hit=[(5.0, *MOVE), (6.0, *MOVE)])
    assert [movement.measure(record, span).value for span in record.spans] == [0, 2, 0]


def test_no_sample_no_count() -> None:
    record = cluster(samples=False)
    assert movement.measure(record, record.spans[1]).value is None


def test_a_blind_stretch_makes_zero_unknown_and_two_a_lower_bound() -> None:
    def blind(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        start, end = (synthetic.T0 + s * synthetic.S for s in (25, 40))
        return [event for event in events if event["kind"] != "sample" or not start < event["t"] < end]

    assert movement.measure(cluster(mutate=blind), cluster().spans[1]).value is None
    seen = cluster(mutate=blind, hit=[(2.0, *MOVE)])
    assert movement.measure(seen, seen.spans[1]).bound is Bound.AT_LEAST


def status(at: float, name: str) -> tuple[float, str, dict[str, str]]:
    return (at, "cluster.status", {"status": name})


def test_recovery_counts_from_the_undo_to_the_last_green() -> None:
    record = cluster(hit=[status(3, "yellow")], back=[status(9, "green"), status(12, "yellow"), status(18, "green")])
    found = recovered.measure(record, record.spans[2])
    assert (found.value, found.bound) == (pytest.approx(17), Bound.EXACT)


def test_green_all_the_time_is_zero_and_not_green_at_the_end_is_censored() -> None:
    assert recovered.measure(cluster(), cluster().spans[2]).value == 0
    red = cluster(hit=[status(3, "red")])
    found = recovered.measure(red, red.spans[2])
    assert found.bound is Bound.MORE_THAN and found.value == pytest.approx(39, abs=0.1)
    unknown = cluster(back=[status(20, "unknown")])
    assert recovered.measure(unknown, unknown.spans[2]).bound is Bound.MORE_THAN


def test_recovery_without_an_undo_or_without_samples_has_no_value() -> None:
    record = cluster()
    assert recovered.measure(record, record.spans[0]).value is None
    blind = cluster(samples=False)
    assert recovered.measure(blind, blind.spans[2]).value is None


def test_the_helpers_of_the_generator_agree_with_the_definitions() -> None:
    assert expect("read.good", ">=", 0.999, ("a",))["text"] == "read.good >= 99.9%"
    assert healthy()(np.zeros(3), np.random.default_rng(1))[0].tolist() == [0, 0, 0]
