"""Availability in all its forms: by zone, in slices, by users' time, in windows; its cost, and a year of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import T0, Chapter, S, Story, constant, expect, mixed

from chaos.checks import availability, evaluate, good, outage, projection, semantics
from chaos.checks.measure import Bound
from chaos.checks.record import Record
from chaos.history.format import Outcome

OUTAGE = mixed((0, 12, 1.0, Outcome.TIMEOUT, 5.0), base=constant())


def hit(write: synthetic.Behaviour = OUTAGE, seconds: float = 40, rate: float = 100, **changes: Any) -> Story:
    chapters = [Chapter("healthy", 20, write=constant()), Chapter("hit", seconds, write=write).fault(at=0.0001)]
    chapters.append(Chapter("back", 30, write=constant()).lift())
    return Story(chapters=chapters, rate=rate, **changes)


def record(story: Story | None = None, **plan: Any) -> Record:
    history = (story or hit()).history()
    history.plan["experiment"].update(plan)
    return Record(history)


def tallied(found: Record, op: str) -> tuple[Record, Any]:
    return found, availability.tally(found, op)


# -- by zone and in words ------------------------------------------------------------------------


def test_zones_and_phases_add_up_to_all_that_was_scheduled() -> None:
    found = record(synthetic.black_hole())
    for op in ("read", "write"):
        zones = availability.by_zone(*tallied(found, op))
        for span in found.spans:
            whole = good.table(found, op, span)
            for key in ("good", "scheduled"):
                assert sum(zone[span.name][key] for zone in zones.values() if span.name in zone) == whole[key]  # type: ignore[misc]


def test_what_was_never_sent_belongs_to_its_clients_zone_and_what_nobody_knows_to_none() -> None:
    dropped = mixed((0, 2, 1.0, Outcome.DROPPED, 0.0), (2, 3, 1.0, Outcome.UNKNOWN, 0.0), base=constant())
    found = record(hit(dropped))
    zones = availability.by_zone(*tallied(found, "write"))
    assert zones["none"] == {"hit": {"good": 0, "scheduled": 100, "share": 0.0}}
    by_zone = semantics.by_zone(*tallied(found, "write"))
    assert sum(by_zone[zone]["hit"]["dropped"] for zone in ("a", "b")) == 200
    assert by_zone["none"] == {"hit": {"unknown": 100}}


@pytest.mark.parametrize("story", ["slow_zone", "black_hole", "killed"])
def test_every_scheduled_arrival_has_one_outcome_in_words_and_full_is_good(story: str) -> None:
    found = record(synthetic.STORIES[story]())
    for op in ("read", "write"):
        for span in found.spans:
            counts, whole = semantics.by_phase(*tallied(found, op))[span.name], good.table(found, op, span)
            assert sum(counts.values()) == whole["scheduled"] and counts.get("full", 0) == whole["good"]
            assert counts.get("late", 0) == whole["late"]


def test_each_recorded_outcome_has_a_name_of_its_own() -> None:
    names = set()
    for outcome in Outcome:
        counts = semantics.by_phase(*tallied(record(hit(constant(outcome, 0.01))), "write"))["hit"]
        name = max(counts, key=lambda each: counts[each])
        assert counts[name] >= 3990 and name not in names
        names.add(name)
    late = semantics.by_phase(*tallied(record(hit(constant(Outcome.OK, 0.2))), "write"))["hit"]
    assert late["late"] >= 3990 and names | {"late"} == set(semantics.NAMES)


# -- fail-open -----------------------------------------------------------------------------------


def served(*samples: tuple[float, dict[str, dict[str, int]]], weights: dict[str, int] | None = None) -> Any:
    story = hit()
    for at, nodes in samples:
        story.chapters[1].event(at, "nodes.served", nodes=nodes)
    if weights:
        story.chapters[1].do.append({"kind": "weights", "weights": weights})
    found = record(story)
    return semantics.fail_open(found, found.spans[1])


def counters(query: int, fail_open: int = 0, get: int = 0) -> dict[str, int]:
    return {"query": query, "get": get, "fail_open": fail_open}


def test_queries_on_a_node_without_weight_prove_who_served() -> None:
    found = served(
        (1, {"a-data": counters(500, 2), "c-data": counters(10)}),
        (9, {"a-data": counters(900, 5), "c-data": counters(17)}),
    )
    assert (found["zones"], found["shard_queries"], found["counter"], found["proven"]) == (["c"], 7, 3, True)
    assert (found["requests_at_least"], found["requests_at_most"]) == (3, 7)  # three shards


def test_a_standby_that_nobody_asked_served_nothing_and_a_restart_counts_anew() -> None:
    quiet = served((1, {"c-data": counters(10)}), (9, {"c-data": counters(10)}))
    assert quiet["proven"] is False and "no node of weight 0" in quiet["says"]
    again = served((1, {"c-data": counters(10)}), (5, {}), (9, {"c-data": counters(4)}))
    assert again["shard_queries"] == 4


def test_without_samples_or_with_new_weights_nothing_is_said() -> None:
    assert served() is None
    both = ((1, {"c-data": counters(1)}), (9, {"c-data": counters(9)}))
    assert served(*both, weights={"a": 1, "b": 1, "c": 1}) is None


# -- slices --------------------------------------------------------------------------------------


def test_slices_below_theta_are_down() -> None:
    found = record()
    measure = availability.measure_slices(found, "write", found.spans[1])
    assert measure.evidence["total"] - measure.evidence["good"] == 12
    assert measure.value == pytest.approx(28 / 40, abs=0.01)
    assert availability.measure_slices(found, "write", found.spans[1], ">=", 0.999).value is None


def test_a_low_rate_gets_wider_slices_and_a_slice_without_arrivals_is_down() -> None:
    assert availability.slice_seconds(record(hit(rate=5)), "write") == 4
    story = hit(constant())
    history = story.history()
    at = (history.arrivals["intended"] - T0) / S
    history.__dict__["arrivals"] = history.arrivals[(at < 25) | (at >= 30)].reset_index(drop=True)
    found = Record(history)
    measure = availability.measure_slices(found, "write", found.spans[1])
    assert measure.evidence["total"] - measure.evidence["good"] in (5, 6)


@settings(max_examples=20, deadline=None)
@given(st.floats(0, 1), st.floats(0.05, 1), st.floats(0.05, 1))
def test_a_higher_threshold_never_finds_more_slices_up(lost: float, one: float, other: float) -> None:
    found = record(hit(mixed((0, 40, lost, Outcome.TIMEOUT, 5.0), base=constant()), seconds=12))
    part, frames = found.in_phase("write", found.spans[1]), [(T0 + s * S, T0 + (s + 1) * S) for s in range(20, 32)]
    low, high = (availability.slices_up(part, frames, theta).sum() for theta in sorted((one, other)))
    assert high <= low


# -- user-uptime ---------------------------------------------------------------------------------

events = st.lists(st.tuples(st.integers(0, 29_999), st.booleans()), min_size=1, max_size=60)


def users_of(drawn: list[list[tuple[int, bool]]]) -> list[tuple[np.ndarray, np.ndarray]]:
    made = []
    for each in drawn:
        each = sorted(dict(each).items())
        t = np.array([at for at, _ in each], np.int64) * 1_000_000
        made.append((t, np.array([ok for _, ok in each], np.bool_)))
    return made


@given(st.lists(events, min_size=1, max_size=5))
def test_uptime_is_a_share_and_the_worst_of_longer_windows_is_never_worse(drawn: list[Any]) -> None:
    found = availability.of_users(users_of(drawn), 0, 30 * S, 1.0)
    assert found.share is not None and -1e-9 <= found.share <= 1 + 1e-9
    worst = {n: found.minimum(n) for n in (1, 2, 3, 6, 30)}
    for n, multiple in ((1, 2), (1, 3), (3, 6), (2, 6), (1, 30), (6, 30)):
        assert worst[multiple] >= worst[n] - 1e-9  # type: ignore[operator]
    assert worst[30] == pytest.approx(found.share, abs=1e-6)
    assert found.minimum(31) is None and found.minimum(0) is None


@given(st.lists(events, min_size=1, max_size=4))
def test_turning_every_answer_around_turns_the_uptime_around(drawn: list[Any]) -> None:
    users = users_of(drawn)
    one = availability.of_users(users, 0, 30 * S, 1.0).share
    other = availability.of_users([(t, ~ok) for t, ok in users], 0, 30 * S, 1.0).share
    assert one is not None and other is not None and one + other == pytest.approx(1)


@given(st.lists(events, min_size=1, max_size=4), st.integers(0, 3), st.integers(0, 59))
def test_one_more_bad_answer_never_raises_it(drawn: list[Any], user: int, at: int) -> None:
    users = users_of(drawn)
    t, ok = users[user % len(users)]
    worse = ok.copy()
    worse[at % len(ok)] = False
    spoilt = [(t, worse) if n == user % len(users) else each for n, each in enumerate(users)]
    before, after = (availability.of_users(each, 0, 30 * S, 1.0) for each in (users, spoilt))
    assert after.share <= before.share + 1e-9  # type: ignore[operator]


def test_with_uniform_users_it_is_close_to_request_availability() -> None:
    found = record()
    row = availability.table(found, "write", availability.tally(found, "write"))
    assert row["user_uptime"]["users"] == 2
    assert row["user_uptime"]["share"] == pytest.approx(row["request"]["share"], abs=0.005)
    assert row["request"]["share"] == pytest.approx(1 - 12 / 90, abs=0.001)
    curve = {each["window"]: each["availability"] for each in row["minimum"]}
    assert curve[10.0] == pytest.approx(0, abs=1e-6) and curve[30.0] == pytest.approx(18 / 30, abs=0.02)


def test_a_user_who_gives_up_counts_by_time_and_not_by_requests() -> None:
    """The reason for user-uptime: hardly anybody asks during the outage, which lasts a third of the time."""
    patient = np.arange(0, 300, dtype=np.int64) * (S // 10)
    gives_up = np.concatenate([patient[:100], patient[100:200:20], patient[200:]])
    ok = (gives_up < 10 * S) | (gives_up >= 20 * S)
    found = availability.of_users([(gives_up, ok)], 0, 30 * S, 1.0)
    assert ok.mean() > 0.97  # what requests say
    assert found.share == pytest.approx(2 / 3, abs=0.02) and found.minimum(5) == pytest.approx(0, abs=1e-6)


def test_the_worst_ten_seconds_and_the_uptime_are_metrics() -> None:
    story = hit()
    story.expect = [
        expect("write.worst_10s", ">=", 0.5, ("healthy", "hit")),
        expect("write.uptime", ">=", 0.9, ("healthy", "hit")),
        expect("write.slices", ">=", 0.9, ("healthy", "hit")),
    ]
    verdicts = {f.id: f.verdict.value for f in evaluate(story.history()).findings if f.metric != "until"}
    for metric in ("worst_10s", "uptime", "slices"):
        assert verdicts[f"write.{metric}@healthy"] == "pass" and verdicts[f"write.{metric}@hit"] == "fail"
    story.chapters[1].seconds = 0.9
    verdicts = {f.id: f.verdict.value for f in evaluate(story.history()).findings}
    for metric in ("worst_10s", "uptime", "slices"):
        assert verdicts[f"write.{metric}@hit"] == "inconclusive"


# -- cost, budget, projection --------------------------------------------------------------------


def test_a_fault_costs_what_is_lost_up_to_the_next_one() -> None:
    found = record()
    (row,) = projection.table(found, "write")
    assert (row["faults"], row["phases"]) == (["network.latency"], ["hit", "back"])
    assert row["lost_seconds"] == pytest.approx(12, abs=0.1)
    assert row["budget"]["99.9 %"] == pytest.approx(12 / 2592, abs=1e-3)
    assert row["lost_seconds"] == pytest.approx(sum(outage.of_run(found, "write").phases.values()), abs=1e-6)


def test_costs_add_up_over_faults() -> None:
    story = hit()
    story.chapters += [
        Chapter("again", 30, write=mixed((0, 5, 1.0, Outcome.RESET, 0.1), base=constant())).fault("f2", at=0.0001),
        Chapter("end", 20, write=constant()).lift("f2"),
    ]
    found = record(story, rates={"network.latency": 2.0})
    rows = projection.table(found, "write")
    assert [round(row["lost_seconds"]) for row in rows] == [12, 5]
    projected = projection.projection(found, "write")
    assert projected is not None
    (fault,) = projected["faults"]
    assert fault["occurrences"] == 2 and fault["lost_seconds"] == pytest.approx(8.5, abs=0.1)
    assert projected["availability"] == pytest.approx(1 - 2 * 8.5 / projection.YEAR, abs=1e-8)


def test_no_stated_rate_no_projection_and_no_proof_no_cost() -> None:
    assert projection.projection(record(), "write") is None
    assert "projection" not in evaluate(hit().history()).tables
    story = hit()
    story.chapters[1].events, story.chapters[1].inject = [], []
    story.chapters[1].fault(at=0.0001, proven=False)
    unproven = projection.projection(record(story, rates={"network.latency": 2.0}), "write")
    assert unproven is not None and unproven["availability"] is None and "not proven" in unproven["says"]
    other = projection.projection(record(rates={"node.kill": 2.0}), "write")
    assert other is not None and other["availability"] is None


def test_a_loss_that_was_not_seen_to_end_makes_it_at_most() -> None:
    story = hit()
    story.chapters[2].write = constant(Outcome.TIMEOUT, 5.0)
    found = record(story, rates={"network.latency": 2.0})
    assert projection.cost(found, "write", projection.events(found)[0]).bound is Bound.AT_LEAST
    projected = projection.projection(found, "write")
    assert projected is not None and projected["bound"] == "at_most" and "at most" in projected["says"]


costs = st.dictionaries(st.sampled_from("abcd"), st.tuples(st.floats(0.01, 365), st.floats(0, 1e5)), min_size=1)


@given(costs, st.floats(0, 1e5))
def test_more_loss_or_another_fault_never_projects_a_better_year(given_costs: Any, more: float) -> None:
    value = projection.project(given_costs)
    assert 0 <= value <= 1
    name, (rate, lost) = next(iter(given_costs.items()))
    assert projection.project({**given_costs, name: (rate, lost + more)}) <= value + 1e-12
    assert projection.project({**given_costs, "other": (1.0, more)}) <= value + 1e-12


def test_twice_a_year_one_hour_is_three_nines() -> None:
    assert projection.project({"zone loss": (2.0, 3600.0)}) == pytest.approx(0.999772, abs=1e-6)


def test_uptime_in_small_chunks_is_that_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found = record(hit(constant(Outcome.TIMEOUT, 1.0)))
    start, end = found.spans[0].start, found.spans[-1].end
    whole = availability.uptime(found, "write", start, end)
    monkeypatch.setattr(availability, "CHUNK", 100)
    parts = availability.uptime(found, "write", start, end)
    assert parts.users == whole.users and 0 < whole.share < 1
    np.testing.assert_allclose(parts.up, whole.up, atol=1e-6)
    np.testing.assert_allclose(parts.down, whole.down, atol=1e-6)
