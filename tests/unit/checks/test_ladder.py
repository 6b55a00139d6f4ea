"""The ladder of recovery: each step reached, not reached, not needed and not known, and none of them averaged."""

from __future__ import annotations

from typing import Any

import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import T0, Chapter, S, Story, constant, expect, mixed

from chaos.checks import evaluate, failovers, ladder, regained, timeline
from chaos.checks.measure import Bound, Measure, Verdict, judge
from chaos.checks.record import Record
from chaos.checks.timeline import Ladder
from chaos.history.format import Outcome
from chaos.opensearch.routing import shard_of

DARK = mixed((0.2, 12, 1.0, Outcome.TIMEOUT, 5.0), base=constant())


def story(write: synthetic.Behaviour = DARK, targets: tuple[str, ...] = ("c-cm", "c-data"), **changes: Any) -> Story:
    hit = Chapter("hit", 60, read=constant(), write=write).fault(at=0.0, targets=targets)
    chapters = [Chapter("healthy", 20, read=constant(), write=constant()), hit]
    return Story(chapters=chapters, **changes)


def told(*events: tuple[float, str, dict[str, Any]], **changes: Any) -> Record:
    made = story(**changes)
    for at, kind, fields in events:
        made.chapters[1].event(at, kind, **fields)
    return Record(made.history())


def step(record: Record, name: str, phase: int = 1) -> Measure:
    return ladder.measure(record, record.spans[phase], name)


def leader(at: float, name: str | None) -> tuple[float, str, dict[str, Any]]:
    return at, "cluster.leader", {"leader": name}


def primary(at: float, shard: int, node: str | None) -> tuple[float, str, dict[str, Any]]:
    return at, "cluster.primary", {"index": "chaos", "shard": shard, "node": node}


LEFT = (6.6, "cluster.node_left", {"node": "c-data", "zone": "c"})


def close(measure: Measure, seconds: float) -> bool:
    return measure.value is not None and abs(measure.value - seconds) <= 0.05 and measure.bound is Bound.EXACT


def censored(measure: Measure) -> bool:
    """Known from below only: it decides a "<= 30s" to fail and a "<= 2m" not at all."""
    assert measure.value is not None
    limits = (judge(measure, "<=", 30), judge(measure, "<=", 120))
    return measure.bound is Bound.MORE_THAN and limits == (Verdict.FAIL, Verdict.INCONCLUSIVE)


def blind(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Nobody answered the sampler from second 22 to 42, two to twenty-two seconds after the fault."""
    return [e for e in events if e["kind"] != "sample" or not T0 + 22 * S < e["t"] < T0 + 42 * S]


# -- the whole -----------------------------------------------------------------------------------


def test_a_black_hole_is_told_in_order() -> None:
    tables = evaluate(synthetic.black_hole().history()).tables["ladder"]
    assert set(tables) == {"dark", "returned"}  # nothing is commanded in the healthy phase
    steps = tables["dark"]["steps"]
    names = [name for name in ladder.NAMES if name not in failovers.STEPS]  # there were no controllers
    assert [each["name"] for each in steps] == names and list(ladder.NAMES) == list(ladder.TITLES)
    after = {each["name"]: each["after"] for each in steps}
    reached = [name for name in names if next(e for e in steps if e["name"] == name)["reached"]]
    assert reached == [name for name in names if name != "green"]
    assert after["leader_elected"] < after["node_left"] == after["primaries_promoted"] < after["first_writes"]
    assert after["first_writes"] == pytest.approx(62.1, abs=0.2)
    assert after["regained"] == pytest.approx(63, abs=1)
    green = steps[names.index("green")]
    assert (green["at"], green["reached"], green["bound"]) == (None, False, "more_than")
    assert green["after"] == pytest.approx(90, abs=0.1)


@pytest.mark.parametrize("name", ladder.NAMES)
def test_every_step_can_be_expected_and_without_a_command_it_has_no_value(name: str) -> None:
    made = synthetic.black_hole()
    made.controllers = ("a", "b")
    made.chapters[1].event(3.0, "failover.evidence", controller="controller-a", zone="c", evidence=[{"kind": "probe"}])
    made.chapters[1].event(4.0, "failover.step", controller="controller-a", step="weights", zone="c", because="bad")
    made.chapters[1].event(5.0, "failover.done", controller="controller-a", step="weights", against="c", says="done")
    made.expect = [expect(f"recovery.{name}", "<=", 0.0001 if name != "green" else 30, ("dark",))]
    (found,) = [f for f in evaluate(made.history()).findings if f.metric != "until"]
    assert found.verdict is Verdict.FAIL, found.says
    record = told()
    assert step(record, name, phase=0).value is None


def test_a_controllers_step_that_was_refused_is_named_unless_another_controller_took_it() -> None:
    def did(kind: str, step: str, at: float, by: str, says: str) -> None:
        made.chapters[1].event(at, f"failover.{kind}", controller=f"controller-{by}", step=step, zone="c", says=says)

    made = synthetic.black_hole()
    made.controllers = ("a", "b")
    did("failed", "decommission", 9.0, "a", "decommission zone c: refused, HTTP 400: its managers have left")
    found = step(Record(made.history()), "acted")
    assert found.bound is Bound.MORE_THAN
    assert found.says == "no controller's step came into effect; " + (
        "decommission zone c: refused, HTTP 400: its managers have left"
    )
    did("done", "weights", 3.0, "a", "weights: done")
    did("failed", "weights", 3.5, "b", "another was first")
    found = step(Record(made.history()), "acted")
    assert found.value is not None and found.value < 9
    assert found.says == "weights: done; decommission zone c: refused, HTTP 400: its managers have left"


def test_a_run_without_samples_or_with_too_few_arrivals_knows_nothing() -> None:
    record = told(samples=False)
    for name in ("node_left", "leader_elected", "primaries_promoted", "green"):
        assert step(record, name).value is None, name
    made = story()
    made.chapters[1].seconds = 0.9
    short = Record(made.history())
    for name in ("impact", "first_writes", "regained", "latency"):
        assert step(short, name).value is None, name


# -- the steps -----------------------------------------------------------------------------------


def test_in_effect_needs_every_fault_proven() -> None:
    assert close(step(told(), "in_effect"), 1.2)
    made = story()
    made.chapters[1].fault("f2", at=0.5, effect=3.0)
    assert close(step(Record(made.history()), "in_effect"), 3.5)  # though nobody saw it gone yet
    made.chapters[1].fault("f3", at=0.5, effect=3.0, proven=False)
    assert step(Record(made.history()), "in_effect").value is None


def test_in_effect_of_an_undo_is_gone_and_of_an_action_done() -> None:
    record = Record(synthetic.slow_zone().history())
    assert close(step(record, "in_effect", 2), 2.1) and close(step(record, "in_effect", 3), 0.8)
    failed = Chapter("hit", 30).action("a1", "weights", "weights", 0.0, 1.0, ok=False)
    made = Story(chapters=[Chapter("healthy", 20), failed])
    assert step(Record(made.history()), "in_effect").value is None


def test_impact_is_the_first_that_was_not_good_and_nobody_hurt_is_not_reached() -> None:
    assert close(step(told(), "impact"), 0.2)
    later = mixed((7.25, 12, 1.0, Outcome.RESET, 0.1), base=constant())
    assert close(step(told(write=later), "impact"), 7.25)
    assert censored(step(told(write=constant()), "impact"))


def test_the_first_node_that_left_and_none() -> None:
    found = step(told(LEFT, (8.6, "cluster.node_left", {"node": "c-cm", "zone": "c"})), "node_left")
    assert close(found, 6.6) and found.evidence["nodes"] == ["c-data", "c-cm"]
    assert found.evidence["last"] == pytest.approx(8.6) and found.evidence["resolution"] <= 1.1
    assert censored(step(told(), "node_left"))


def test_harm_that_a_phase_of_giving_back_did_not_do_is_nothing_that_is_still_awaited() -> None:
    tables = evaluate(synthetic.slow_zone().history()).tables["ladder"]
    shown = {phase: {each["name"]: each for each in item["steps"]} for phase, item in tables.items()}
    assert shown["slow"]["node_left"]["bound"] == "more_than"  # the fault may still cost a node
    assert shown["returned"]["node_left"]["after"] is None
    assert shown["returned"]["node_left"]["says"] == "no node left the cluster"
    expected = step(Record(synthetic.slow_zone().history()), "node_left", 3)  # whoever expects it is told as before
    assert expected.value is not None and expected.bound is Bound.MORE_THAN


def test_what_happened_while_nobody_answered_is_not_dated() -> None:
    late = (22.55, *LEFT[1:])
    assert step(told(late, mutate=blind), "node_left").value is None
    for name in ("node_left", "leader_elected", "primaries_promoted", "green"):
        assert step(told(mutate=blind), name).value is None, name
    # before the gap it is known
    assert close(step(told((1.55, *LEFT[1:]), mutate=blind), "node_left"), 1.55)


def test_a_leader_that_the_fault_does_not_hit_stays_after_no_time() -> None:
    assert close(step(told(targets=("a-data",)), "leader_elected"), 0)
    assert censored(step(told(), "leader_elected"))  # c-cm leads and is hit


def test_the_last_election_counts_and_none_at_the_end_is_not_reached() -> None:
    assert close(step(told(leader(2.1, None), leader(5.1, "a-cm")), "leader_elected"), 5.1)
    flapping = [leader(2.1, None), leader(5.1, "a-cm"), leader(9.1, None), leader(14.1, "b-cm")]
    assert close(step(told(*flapping), "leader_elected"), 14.1)
    assert censored(step(told(*flapping[:3]), "leader_elected"))


def test_a_leader_that_was_only_out_of_sight_was_not_elected_anew() -> None:
    def unseen(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [e | {"ok": 0} if e["kind"] == "sample" and T0 + 22 * S < e["t"] < T0 + 24 * S else e for e in events]

    # as the sampler writes it: a sample at each half second, what it changed at once after it
    away = [leader(2.501, None), leader(4.501, "c-cm")]
    assert close(step(told(*away, targets=("a-data",), mutate=unseen), "leader_elected"), 0)
    assert close(step(told(*away, targets=("a-data",)), "leader_elected"), 4.5)  # seen without one
    assert close(step(told(away[0], leader(3.501, "c-cm"), targets=("a-data",)), "leader_elected"), 3.5)


def test_every_lost_primary_counts_and_one_that_is_missing_is_not_reached() -> None:
    assert close(step(told(primary(6.6, 2, "a-data")), "primaries_promoted"), 6.6)
    both = [primary(6.6, 2, "a-data"), primary(3.6, 1, None), primary(9.6, 1, "a-data")]
    assert close(step(told(*both), "primaries_promoted"), 9.6)
    assert censored(step(told(*both[:2]), "primaries_promoted"))
    assert close(step(told(targets=("a-cm",)), "primaries_promoted"), 0)
    stayed = step(told(), "primaries_promoted")
    assert censored(stayed) and "shard 2" in stayed.says


def test_a_primary_of_an_index_that_is_made_meanwhile_is_no_promotion_until_it_moves() -> None:
    def of_new(at: float, node: str | None) -> Any:
        return (*primary(at, 0, node)[:2], {**primary(at, 0, node)[2], "index": "chaos-000002"})

    born = [of_new(5.6, None), of_new(6.6, "c-data")]
    assert close(step(told(*born, targets=("a-cm",)), "primaries_promoted"), 0)
    assert close(step(told(primary(3.6, 2, "a-data"), *born), "primaries_promoted"), 3.6)
    assert close(step(told(*born, of_new(9.6, "a-data"), targets=("a-cm",)), "primaries_promoted"), 9.6)


def test_an_old_history_does_not_say_where_primaries_are() -> None:
    def without(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [e for e in events if e["kind"] not in ("cluster.primary", "index.routing")]

    record = told(mutate=without)
    assert step(record, "primaries_promoted").value is None
    assert close(step(record, "first_writes"), 12)  # the routing follows from the number of shards


def only_shard(shard: int, begin: float, end: float) -> synthetic.Behaviour:
    """Writes of one shard fail from begin to end; k follows from the order of arrivals (synthetic.py)."""

    def behave(t: Any, rng: Any) -> Any:
        outcome, latency = constant()(t, rng)
        for place, at in enumerate(t):
            k = 2 * (2000 + place) + 1  # 20 s before at 100/s; reads and writes alternate, reads first
            if begin <= at < end and shard_of(f"w-{k}", 3, 768) == shard:
                outcome[place], latency[place] = int(Outcome.TIMEOUT), 5.0
        return outcome, latency

    return behave


def test_one_shard_that_cannot_be_written_is_named_with_its_gap() -> None:
    found = step(told(write=only_shard(1, 3.0, 9.5)), "first_writes")
    assert close(found, 9.53) or (found.value is not None and 9.5 <= found.value <= 9.9)
    (row,) = found.evidence["shards"]
    assert row["shard"] == 1 and row["gap"] == pytest.approx(6.5, abs=0.4)
    assert "1 of 3 shards" in found.says


def test_a_shard_without_a_good_write_at_the_end_is_not_reached() -> None:
    found = step(told(write=only_shard(1, 3.0, 1e9)), "first_writes")
    assert censored(found) and "shard 1" in found.says
    assert step(told(write=only_shard(1, 3.0, 59.5)), "first_writes").bound is Bound.AT_LEAST


def test_scattered_failures_are_no_shards_gap() -> None:
    assert close(step(told(write=mixed((0, 60, 0.3, Outcome.RESET, 0.1), base=constant())), "first_writes"), 0)
    assert close(step(told(write=constant()), "first_writes"), 0)


@given(st.integers(1, 200), st.floats(1, 1000), st.floats(0.01, 2))
def test_more_shards_or_fewer_writes_never_make_a_shorter_gap_count(shards: int, rate: float, objective: float) -> None:
    gap = ladder.gap_that_counts(shards, rate, objective)
    assert gap >= ladder.GAP + objective
    assert ladder.gap_that_counts(shards + 1, rate, objective) >= gap - 1e-9
    assert ladder.gap_that_counts(shards, rate / 2, objective) >= gap - 1e-9


def test_regained_is_that_of_the_operation_that_came_back_last() -> None:
    record = told()
    own = regained.measure(record, "write", record.spans[1])
    assert step(record, "regained").value == own.value == pytest.approx(12, abs=1.1)
    assert step(told(write=mixed((0, 1e9, 1.0, Outcome.TIMEOUT, 5.0), base=constant())), "regained").bound is (
        Bound.MORE_THAN
    )


def test_green_after_the_last_lapse() -> None:
    lapse = [(3.6, "cluster.status", {"status": "yellow"}), (17.6, "cluster.status", {"status": "green"})]
    assert close(step(told(*lapse), "green"), 17.6)
    assert close(step(told(), "green"), 0)
    assert censored(step(told(lapse[0]), "green"))


def test_latency_is_back_when_the_tail_is() -> None:
    slow = mixed((0, 23, 0.2, Outcome.OK, 0.05), base=constant())  # good all the time, but five times as slow
    record = told(write=slow)
    assert close(step(record, "regained"), 0)
    found = step(record, "latency")
    assert found.bound is Bound.EXACT and found.value == pytest.approx(23, abs=1.1)
    assert close(step(told(write=constant()), "latency"), 0)
    assert censored(step(told(write=mixed((0, 1e9, 0.2, Outcome.OK, 0.05), base=constant())), "latency"))


def test_without_a_healthy_phase_there_is_no_baseline() -> None:
    made = Story(chapters=[Chapter("hit", 40).fault(at=0.0)])
    assert step(Record(made.history()), "latency", 0).value is None


# -- laws ----------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(0.5, 59), st.sampled_from([None, "a-cm", "b-cm", "c-cm"])), max_size=6))
def test_a_step_is_never_negative_nor_longer_than_the_watch(changes: list[tuple[float, str | None]]) -> None:
    record = told(*[leader(at, name) for at, name in sorted(changes, key=lambda each: each[0])])
    span = record.spans[1]
    watched = Ladder.of(record, span).watch
    longest = (watched.horizon - watched.trigger) / S
    for name in ladder.NAMES:
        found = ladder.measure(record, span, name)
        assert found.value is None or 0 <= found.value <= longest + 1e-6


def test_the_nodes_that_a_fault_hits_follow_from_its_links_where_it_names_no_targets() -> None:
    made = story()
    around = [[x, y] for x in ("c-cm", "c-data") for y in ("a-cm", "a-data", "b-cm", "b-data", "client-a")]
    for _, kind, fields in made.chapters[1].events:
        if kind == "fault.command":
            fields |= {"targets": [], "links": around + [link[::-1] for link in around]}
    record = Record(made.history())
    assert timeline.concerned(record, record.spans[1]) == {"c-cm", "c-data"}
    for _, kind, fields in made.chapters[1].events:
        if kind == "fault.command":
            fields["links"] = [["a-cm", "c-cm"], ["c-cm", "a-cm"]]
    record = Record(made.history())
    assert timeline.concerned(record, record.spans[1]) == frozenset()
