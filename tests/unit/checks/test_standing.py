"""What an instrument that stood still made late or fail is neither a pass nor a weakness, and only that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import T0, Behaviour, Chapter, S, Story, expect, healthy

from chaos.checks import Findings, Outcome, clocks, evaluate, leaving, standing, validity
from chaos.checks.forgiving import causes, without
from chaos.checks.record import Record
from chaos.history import History
from chaos.history.format import Outcome as Arrival

FOR = (0.3, 0.8, 3.0)
WHO = {
    "driver": "the load driver",
    "client-a": "the Toxiproxy of client zone client-a",
    "b-data": "the Toxiproxy of node b-data",
}


def held_up(start: float, seconds: float, share: float = 1.0, base: Behaviour | None = None, by: str = "") -> Behaviour:
    """Whoever came from ``start`` on (in the phase) was answered when the stoppage was over, 20 ms later.

    ``by``: the client zone's Toxiproxy that stood still, so that every second arrival waited.
    """
    plain = base or healthy()

    def behave(t: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        outcome, latency = plain(t, rng)
        hit = (t >= start) & (t < start + seconds) & (rng.random(len(t)) < share)
        if by:
            # arrivals go to the clients in turn, reads and writes alternate: every second of both comes from one zone
            hit &= np.arange(len(t)) % 2 == 0
        latency[hit] = start + seconds - t[hit] + 0.02
        return outcome, latency

    return behave


def failing(start: float, seconds: float, outcome: Arrival, latency: float = 0.01) -> Behaviour:
    return synthetic.mixed((start, start + seconds, 1.0, outcome, latency))


BACK = 28.0
"""When (s after the load's start) the phase begins in which there is no fault any more."""


def beats(history: History) -> list[dict[str, Any]]:
    """The driver's lines that hold a pulse; others tell of health checks."""
    return [event for event in history.driver if "pulse" in event]


def story(read: Behaviour, *still: tuple[str, float, float], faulty: bool = False) -> Story:
    """Reads of the phase with a fault, or of the one after it; ``still`` is in seconds of that phase."""
    made = Story(chapters=[Chapter("healthy", 12), Chapter("hit", 16).fault(at=0.0), Chapter("back", 16).lift()])
    chapter = made.chapters[1 if faulty else 2]
    chapter.read = read
    made.expect = [expect("read.good", ">=", 0.999, (chapter.name,)), expect("read.regained", "<=", 0.2, ("hit",))]
    begin = BACK - (16.0 if faulty else 0.0)
    made.still = tuple((who, begin + start, begin + end) for who, start, end in still)
    return made


def of_reads(findings: Findings) -> dict[str, tuple[str, str]]:
    return {each.metric: (each.verdict.value, each.says) for each in findings.findings if each.op == "read"}


@pytest.mark.parametrize("faulty", [False, True], ids=["healthy", "fault"])
@pytest.mark.parametrize("seconds", FOR)
@pytest.mark.parametrize("who", ["driver", "b-data"])
def test_a_verdict_that_hangs_on_who_stood_still_is_inconclusive_and_says_so(who, seconds, faulty) -> None:
    late = held_up(3.0, seconds)
    weak = evaluate(story(late, faulty=faulty).history())
    assert weak.outcome is Outcome.WEAKNESS  # as if OpenSearch itself had stood still: nobody else did
    findings = evaluate(story(late, (who, 3.0, 3.0 + seconds), faulty=faulty).history())
    assert findings.outcome is Outcome.INCONCLUSIVE, findings.reasons
    verdict, says = of_reads(findings)["read.good" if not faulty else "read.regained"]
    assert verdict == "inconclusive" and f"{WHO[who]} stood still" in says, says
    assert WHO[who] in findings.summary + " ".join(reason.says for reason in findings.reasons)


@pytest.mark.parametrize("seconds", FOR)
def test_a_stoppage_at_another_time_excuses_nothing(seconds) -> None:
    made = story(held_up(3.0, seconds), ("driver", 8.0, 8.0 + seconds), ("b-data", 12.0, 12.0 + seconds))
    assert evaluate(made.history()).outcome is Outcome.WEAKNESS


@pytest.mark.parametrize("seconds", FOR)
def test_a_stoppage_that_explains_a_part_excuses_no_more_than_that(seconds) -> None:
    """The cluster stood still for twice as long as the Toxiproxy: without its part they are late all the same."""
    made = story(held_up(3.0, 2 * seconds + 0.5), ("b-data", 3.0, 3.0 + seconds))
    assert evaluate(made.history()).outcome is Outcome.WEAKNESS


def test_the_toxiproxy_of_a_client_zone_excuses_the_arrivals_of_that_zone_alone() -> None:
    rows = story(held_up(3.0, 1.5)).history().arrivals
    assert set(rows["client"]) == set(synthetic.CLIENTS)
    still = ("client-a", 3.0, 4.5)
    assert evaluate(story(held_up(3.0, 1.5), still).history()).outcome is Outcome.WEAKNESS  # those of b as well
    record = Record(story(held_up(3.0, 1.5), still).history())
    (only,) = [cause for cause in causes(record) if cause.who == WHO["client-a"]]
    other = without(record, (only,))
    assert other is not None
    part, after = record.arrivals["read"], other.arrivals["read"]
    changed = part.client[after.good & ~part.good]
    assert len(changed) and set(changed) == {record.clients.index("client-a")}


def test_late_reads_of_one_client_zone_hang_on_its_toxiproxy() -> None:
    made = story(healthy(), ("client-a", 3.0, 4.5))
    history = made.history()
    frame = history.arrivals
    t = (frame["intended"].to_numpy() - T0) / S - BACK
    mine = (frame["client"] == "client-a").to_numpy() & (t >= 3.0) & (t < 4.5) & (frame["op"] == "read").to_numpy()
    frame.loc[mine, "end"] = T0 + round((BACK + 4.52) * S)
    assert evaluate(made.history()).outcome is Outcome.PASS
    found = of_reads(evaluate(history))["read.good"]
    assert found[0] == "inconclusive" and "the Toxiproxy of client zone client-a stood still (1.5 s at 31 s" in found[1]
    for event in beats(history):
        event["pulse"]["late"] = []
    assert evaluate(history).outcome is Outcome.WEAKNESS


@pytest.mark.parametrize("outcome", [Arrival.TIMEOUT, Arrival.REFUSED, Arrival.RESET, Arrival.SERVER_ERROR])
def test_what_failed_while_the_driver_stood_still_is_undecided_unless_it_had_been_late_before(outcome) -> None:
    quick, stop = failing(3.0, 0.8, outcome, 0.85), ("driver", 3.0, 3.84)
    assert evaluate(story(quick).history()).outcome is Outcome.WEAKNESS
    # the first of them lived for 0.85 s, 0.84 of which were the driver's; those after them for less
    assert evaluate(story(quick, stop).history()).outcome is Outcome.INCONCLUSIVE
    waited = failing(2.0, 0.8, outcome, 1.9)  # sent a second before the stop, and nothing came in that second
    assert evaluate(story(waited, stop).history()).outcome is Outcome.WEAKNESS
    before = failing(2.0, 0.8, outcome, 0.01)  # came before it
    assert evaluate(story(before, stop).history()).outcome is Outcome.WEAKNESS


def test_a_busy_machine_still_forgives_no_failure() -> None:
    made = story(failing(3.0, 0.2, Arrival.RESET))
    made.starved = ((BACK + 2.5, BACK + 4.0),)
    assert evaluate(made.history()).outcome is Outcome.WEAKNESS


def test_a_fault_that_bites_only_because_an_instrument_stood_still_shows_nothing() -> None:
    made = story(held_up(3.0, 0.8), ("driver", 3.0, 3.8), faulty=True)
    made.expect = [expect("read.good", "<", 0.999, ("hit",))]
    assert evaluate(made.history()).outcome is Outcome.INCONCLUSIVE


def test_a_real_outage_stays_one_whoever_stood_still_in_it() -> None:
    made = story(failing(3.0, 9.0, Arrival.SERVER_ERROR), ("driver", 5.0, 5.8), ("b-data", 7.0, 7.8))
    assert evaluate(made.history()).outcome is Outcome.WEAKNESS


def test_what_was_held_up_comes_in_a_burst_that_is_not_the_cluster_s_either() -> None:
    """They are answered one after the other, 0.6 s after the stop at the latest; who came then waited in that line."""

    def behave(t: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        outcome, latency = healthy()(t, rng)
        hit = (t >= 3.0) & (t < 4.4)
        latency[hit] = np.minimum(3.8 + (t[hit] - 3.0) * 0.6 / 0.8, 4.4) - t[hit] + 0.02
        return outcome, latency

    late = evaluate(story(behave).history())
    assert late.outcome is Outcome.WEAKNESS
    assert evaluate(story(behave, ("driver", 3.0, 3.8)).history()).outcome is Outcome.INCONCLUSIVE


def test_what_was_held_up_excuses_for_no_longer_than_the_stoppage_lasted() -> None:
    made = story(held_up(3.0, 3.0), ("driver", 3.0, 3.3))
    (stoppage,) = standing.stoppages(Record(made.history()))
    assert stoppage.over == T0 + round((BACK + 3.6) * S)
    assert evaluate(made.history()).outcome is Outcome.WEAKNESS


def test_causes_that_only_together_explain_it_are_all_named() -> None:
    both = (("driver", 3.0, 3.4), ("b-data", 3.8, 4.2))
    for alone in both:
        assert evaluate(story(held_up(3.0, 1.2), alone).history()).outcome is Outcome.WEAKNESS
    verdict, says = of_reads(evaluate(story(held_up(3.0, 1.2), *both).history()))["read.good"]
    assert verdict == "inconclusive" and all(WHO[who] in says for who, _, _ in both), says


def test_lateness_of_sending_is_the_driver_s_arrival_by_arrival() -> None:
    """40 ms late and answered 70 ms after that, where 100 ms is the objective: the cluster needed 70."""
    made = story(synthetic.mixed((3.0, 3.2, 1.0, Arrival.OK, 0.11)))
    history = made.history()
    frame = history.arrivals
    assert evaluate(history).outcome is Outcome.WEAKNESS
    t = (frame["intended"].to_numpy() - T0) / S - BACK
    frame.loc[(t >= 3.0) & (t < 3.2), "start"] += 40_000_000
    found = of_reads(evaluate(history))["read.good"]
    assert found[0] == "inconclusive" and "because the load driver sent them late" in found[1]


def test_while_the_driver_stood_still_nobody_else_is_accused() -> None:
    """All signs of life come late then; what is left of a Toxiproxy's time must be late by itself."""
    everybody = [(name, 3.0, 3.81) for name in synthetic.PULSED]
    record = Record(story(healthy(), ("driver", 3.0, 3.8), *everybody).history())
    assert [each.who for each in standing.stoppages(record)] == [WHO["driver"]]
    longer = [("driver", 3.0, 3.8), ("client-b", 3.2, 4.2)]
    found = standing.stoppages(Record(story(healthy(), *longer).history()))
    assert [(each.who, each.seconds) for each in found] == [
        (WHO["driver"], pytest.approx(0.8)),
        ("the Toxiproxy of client zone client-b", pytest.approx(0.4)),
    ]


def test_a_toxiproxy_that_still_keeps_us_waiting_is_one_stoppage_however_often_it_is_noted() -> None:
    history = story(healthy()).history()
    begin = T0 + 3 * S
    for n, event in enumerate(beats(history)[3:6]):
        event["pulse"]["late"] = [["b-data", begin, begin + S // 10, begin + (n + 1) * S]]
    (found,) = standing.stoppages(Record(history))
    assert (found.start, found.end, found.node, found.client) == (begin, begin + 3 * S, "b-data", None)


@pytest.mark.parametrize(
    ("change", "measured"),
    [
        (lambda event: None, 1.0),
        (lambda event: event.pop("pulse"), 0.0),
        (lambda event: event["pulse"].update(of=7), 0.0),
        (lambda event: event["pulse"].update(since="x"), 0.0),
        (lambda event: event["pulse"].update(late=[["b-data"]]), 1.0),
        (lambda event: event.update(pulse=[1, 2]), 0.0),
    ],
)
def test_pulses_that_were_not_taken_leave_the_run_open(change, measured) -> None:
    history = story(healthy()).history()
    for event in beats(history):
        change(event)
    (condition,) = [each for each in validity.conditions(Record(history)) if each.id == "pulse"]
    assert standing.measured(Record(history)) == pytest.approx(measured, abs=0.02)
    assert condition.ok is (measured > 0.9)
    assert evaluate(history).outcome is (Outcome.PASS if condition.ok else Outcome.INCONCLUSIVE)


def test_a_runner_that_took_no_pulse_of_itself_leaves_the_run_open() -> None:
    made = story(healthy())
    made.mutate = lambda events: [{k: v for k, v in event.items() if k != "pulse"} for event in events]
    assert standing.measured(Record(made.history())) == 0.0
    assert evaluate(made.history()).outcome is Outcome.INCONCLUSIVE


def test_a_history_from_before_pulses_were_taken_is_judged_as_before() -> None:
    made = story(held_up(3.0, 0.8))
    made.pulsed = False
    history = made.history()
    del history.plan["lab"]["pulsed"]
    findings = evaluate(history)
    assert findings.outcome is Outcome.WEAKNESS
    assert "pulse" not in {each["id"] for each in findings.validity["checks"]}


def left(node: str, *still: tuple[str, float, float], kind: str = "cluster.node_left", at: float = 7.0) -> Story:
    """Something happened to a node in the first phase; ``still`` is in seconds after the load's start."""
    made = story(healthy())
    made.chapters[0].event(at, kind, **({"node": node} if kind == "cluster.node_left" else {"leader": node}))
    made.still = still
    return made


def test_a_node_that_left_because_its_toxiproxy_stood_still_is_not_the_cluster_s_doing() -> None:
    made = left("b-data", ("b-data", 3.0, 9.0))
    (gap,) = leaving.gaps(Record(made.history()))
    assert gap.since == T0 + 3 * S and gap.says.startswith("b-data left the cluster while the Toxiproxy of node b-data")
    assert evaluate(made.history()).outcome is Outcome.INCONCLUSIVE
    made.expect = [expect("shards.moved", "==", 0, ("hit",))]
    made.chapters[1].event(2.0, "cluster.shard_moved", index="chaos", shard=0, node="a-data")
    assert evaluate(made.history()).outcome is Outcome.INCONCLUSIVE
    made.still = ()
    assert leaving.gaps(Record(made.history())) == ()
    assert evaluate(made.history()).outcome is Outcome.WEAKNESS
    assert leaving.gaps(Record(left("b-data", ("a-data", 3.0, 9.0)).history())) == ()  # another one's


def test_a_leader_that_was_replaced_while_its_toxiproxy_stood_still_is_not_the_cluster_s_doing() -> None:
    (gap,) = leaving.gaps(Record(left("a-cm", ("c-cm", 3.0, 9.0), kind="cluster.leader").history()))
    assert "c-cm lost the leadership" in gap.says
    assert leaving.gaps(Record(left("a-cm", ("a-cm", 3.0, 9.0), kind="cluster.leader").history())) == ()


def test_a_node_that_a_fault_hit_left_by_the_fault() -> None:
    made = story(healthy(), ("c-data", 4.0, 5.0), faulty=True)
    made.chapters[1].event(6.0, "cluster.node_left", node="c-data", zone="c")
    assert leaving.gaps(Record(made.history())) == ()


# -- beside the path -----------------------------------------------------------------------------------


def seen_late(by: str, *, still: bool = True) -> Story:
    """A node left 4.2 s after the fault and was seen to have left at 6.5 s; ``by`` stood still from 4 s to 6.4 s."""
    made = story(healthy())
    made.chapters[1].event(6.52, "cluster.node_left", node="c-data", zone="c")
    made.expect = [expect("recovery.node_left", "<=", 5, ("hit",))]
    begin, end = (T0 + round((12 + t) * S) for t in (4.0, 6.4))

    def mutate(events: list[dict]) -> list[dict]:
        kept = [e for e in events if e["kind"] != "sample" or not begin <= e["t"] <= end]
        for event in kept:
            if event["kind"] == "sample":
                own = [[begin, end]] if still and end < event["t"] < end + S else []
                event["pulse"] = {"since": event["t"] - S, "until": event["t"], "own": own}
        return kept

    if by == "runner":
        made.mutate = mutate
    else:
        made.still = ((by, 16.0, 18.4),)
    return made


def test_what_a_runner_saw_late_because_it_stood_still_is_undecided() -> None:
    assert evaluate(seen_late("runner", still=False).history()).outcome is Outcome.WEAKNESS
    findings = evaluate(seen_late("runner").history())
    (found,) = [each for each in findings.findings if each.metric == "recovery.node_left"]
    assert found.verdict.value == "inconclusive"
    assert "had nothing been seen late while the runner stood still (2.4 s at 16 s of the run)" in found.says


@pytest.mark.parametrize(
    ("late_ms", "asking_ms", "outcome"),
    [
        (2.0, 3.0, Outcome.WEAKNESS),
        (90.0, 3.0, Outcome.WEAKNESS),
        (900.0, 3.0, Outcome.INCONCLUSIVE),
        (300.0, 3.0, Outcome.WEAKNESS),  # seen that much sooner it had been late all the same
        (900.0, 1500.0, Outcome.WEAKNESS),  # it was the cluster that took its time: the look had begun before
    ],
)
def test_what_a_look_saw_that_began_late_is_undecided_as_far_as_it_hangs_on_it(
    late_ms: float, asking_ms: float, outcome: Outcome
) -> None:
    """A processor that many want wakes the runner's pulse and not its look."""
    made = story(healthy())
    made.chapters[1].event(5.49, "cluster.node_left", node="c-data", zone="c")
    made.expect = [expect("recovery.node_left", "<=", 5, ("hit",))]

    def mutate(events: list[dict]) -> list[dict]:
        for event in events:
            if event["kind"] == "sample" and event["t"] == T0 + round(17.5 * S):
                event |= {"late_ms": late_ms, "answers": {"a-cm": asking_ms}}
        return events

    made.mutate = mutate
    assert evaluate(made.history()).outcome is outcome


def test_a_driver_that_stood_still_saw_nothing_of_the_cluster_late() -> None:
    assert evaluate(seen_late("driver").history()).outcome is Outcome.WEAKNESS


def led(*still: tuple[float, float]) -> Story:
    """Reads fail from the fault on until the controller of zone a leads them away 8 s later; it may stand still."""
    made = story(synthetic.healthy())
    made.controllers = ("a",)
    hit = made.chapters[1]
    hit.read = failing(0.0, 8.0, Arrival.SERVER_ERROR)
    done = dict(controller="controller-a", step="weights", zone="c", against="c", says="weights a 1, b 1, c 0")
    hit.event(7.9, "failover.done", **done)
    for start, end in still:
        span = dict(start=T0 + round((12 + start) * S), end=T0 + round((12 + end) * S))
        hit.event(end + 0.1, "failover.still", controller="controller-a", **span)
    made.expect = [expect("read.regained", "<=", 6, ("hit",)), expect("recovery.acted", "<=", 6, ("hit",))]
    return made


def test_what_a_failover_controller_did_late_because_it_stood_still_is_undecided() -> None:
    assert {verdict for verdict, _ in verdicts(led())} == {"fail"}
    both = verdicts(led((3.0, 6.0)))
    assert {verdict for verdict, _ in both} == {"inconclusive"}
    assert all("the failover controller of zone a stood still (3 s at 15 s of the run)" in says for _, says in both)
    assert {verdict for verdict, _ in verdicts(led((3.0, 3.8)))} == {"fail"}  # 0.8 s are not the two that lack
    assert {verdict for verdict, _ in verdicts(led((9.0, 12.0)))} == {"fail"}  # after it had acted


def verdicts(made: Story) -> list[tuple[str, str]]:
    return [(each.verdict.value, each.says) for each in evaluate(made.history()).findings]


times = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20)), max_size=6)


@given(times, times)
def test_two_clocks_joined_are_at_each_moment_the_larger_and_count_nothing_twice(one, other) -> None:
    a, b = (clocks.Clock.of((start, start + length) for start, length in each) for each in (one, other))
    seconds = np.arange(70)
    sets = [{t for start, length in each for t in range(start, start + length)} for each in (one, other)]
    both = a.joined(b)
    found = both.between(seconds, seconds + 1) * S
    assert np.allclose(found, [float(t in sets[0] | sets[1]) for t in seconds])


@given(times, times)
def test_what_is_taken_out_of_a_stretch_is_gone_and_nothing_else(one, other) -> None:
    taken = clocks.united((start, start + length) for start, length in other)
    for start, length in one:
        left = clocks.without((start, start + length), taken)
        gone = {t for a, b in taken for t in range(a, b)}
        assert {t for a, b in left for t in range(a, b)} == set(range(start, start + length)) - gone


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(WHO)), st.integers(0, 90), st.integers(1, 12)), max_size=5))
def test_standing_still_never_makes_anything_worse_nor_a_pass(still) -> None:
    made = story(held_up(3.0, 0.8), *((who, start / 20, (start + length) / 20) for who, start, length in still))
    record = Record(made.history())
    other = without(record, causes(record)) or record
    for op, part in record.arrivals.items():
        after = other.arrivals[op]
        assert (after.good | ~part.good).all() and (part.outcome == after.outcome).all()
    assert evaluate(made.history()).outcome in (Outcome.WEAKNESS, Outcome.INCONCLUSIVE)


def test_who_stood_still_the_longest_is_named_first_and_nobody_by_half_a_name() -> None:
    still = (
        ("a-data", 1.0, 1.2),
        ("c-data", 2.0, 2.3),
        ("driver", 3.0, 3.4),
        ("b-data", 5.0, 6.2),
        ("client-a", 8.0, 8.8),
    )
    checks = evaluate(story(healthy(), *still).history()).validity["checks"]
    (pulse,) = (each["measured"] for each in checks if each["id"] == "pulse")
    named = [words.partition(" stood still")[0] for words in pulse.partition(": ")[2].split("; ")]
    assert named == [WHO["b-data"], WHO["client-a"], WHO["driver"], "and 2 more, for less"], pulse
