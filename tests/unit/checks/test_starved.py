"""What the machine made late is neither a pass nor a weakness, and only that."""

from __future__ import annotations

import numpy as np
import pytest
import synthetic
from hypothesis import given
from hypothesis import strategies as st
from synthetic import T0, Chapter, S, Story, expect, mixed

from chaos.checks import Outcome, evaluate, failovers
from chaos.checks.forgiving import causes, without
from chaos.checks.record import Record
from chaos.checks.starved import Clock, share, slices
from chaos.history.format import Outcome as Arrival
from chaos.programs.failover.decide import Policy

LATE = mixed((3.0, 3.2, 1.0, Arrival.OK, 0.25))
"""A fifth of a second of reads at 250 ms, the objective being 100 ms: 20 of 3000."""


def story(behaviour: object = LATE, starved: tuple[tuple[float, float], ...] = ()) -> Story:
    made = synthetic.slow_zone()
    made.expect = [expect("read.good", ">=", 0.999, ("healthy",))]
    made.chapters[0].read = behaviour  # type: ignore[assignment]
    made.starved = starved
    return made


@pytest.mark.parametrize(
    ("behaviour", "starved", "verdict"),
    [
        (LATE, (), "fail"),
        (LATE, ((3.0, 3.5),), "inconclusive"),
        (LATE, ((5.0, 6.0),), "fail"),  # another time
        (LATE, ((3.0, 3.1),), "fail"),  # of 0.25 s at most 0.1 s were the machine's
        (mixed((3.0, 3.2, 1.0, Arrival.SERVER_ERROR, 0.01)), ((2.5, 4.0),), "fail"),  # an error is no lateness
        (mixed((3.0, 3.2, 1.0, Arrival.TIMEOUT, 5.0)), ((2.5, 9.0),), "fail"),
        (synthetic.healthy(), ((0.0, 15.0),), "pass"),  # good in spite of it is good
    ],
)
def test_only_what_had_been_in_time_with_a_free_processor_is_in_doubt(behaviour, starved, verdict) -> None:
    (finding,) = [f for f in evaluate(story(behaviour, starved).history()).findings if f.metric == "read.good"]
    assert finding.verdict.value == verdict, finding.says
    if verdict == "inconclusive":
        assert "none of this machine's processors was free" in finding.says


def test_a_fault_that_only_the_machine_made_bite_shows_nothing() -> None:
    made = synthetic.slow_zone()
    made.expect = [expect("read.good", "<", 0.999, ("healthy",))]
    made.chapters[0].read = LATE
    made.starved = ((3.0, 3.5),)
    assert evaluate(made.history()).outcome is Outcome.INCONCLUSIVE


def test_a_cluster_on_other_machines_is_not_excused() -> None:
    made = story(starved=((3.0, 3.5),))
    history = made.history()
    history.plan["lab"]["kind"] = "existing"
    assert evaluate(history).outcome is Outcome.WEAKNESS


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 9)), max_size=8))
def test_forgiving_never_makes_anything_worse_nor_touches_what_was_no_late_answer(windows) -> None:
    made = story(
        mixed((3.0, 4.0, 1.0, Arrival.OK, 0.25), (5.0, 5.5, 1.0, Arrival.RESET, 0.01)),
        tuple((start / 10, (start + length) / 10) for start, length in windows),
    )
    record = Record(made.history())
    other = without(record, causes(record)) or record
    for op, part in record.arrivals.items():
        after = other.arrivals[op]
        assert (after.good | ~part.good).all() and (after.latency <= part.latency).all()
        changed = after.good & ~part.good
        assert (part.outcome[changed] == int(Arrival.OK)).all()
        assert (part.outcome == after.outcome).all()


@given(
    st.lists(st.tuples(st.integers(0, 90), st.integers(0, 9)), max_size=8),
    st.lists(st.floats(0, 12), min_size=3, max_size=3).map(sorted),
)
def test_starved_time_adds_up_and_never_exceeds_the_time_itself(windows, times) -> None:
    made = story(starved=tuple((start / 10, (start + length) / 10) for start, length in windows))
    clock = Clock(Record(made.history()))
    a, b, c = (np.array([T0 + round(t * S)]) for t in times)
    ab, bc, ac = (clock.between(*pair)[0] for pair in ((a, b), (b, c), (a, c)))
    assert ab + bc == pytest.approx(ac, abs=1e-6)
    assert -1e-9 <= ab <= (b - a)[0] / S + 1e-6


def test_the_share_counts_the_phases_only_and_tells_what_was_not_measured() -> None:
    made = story(starved=((0.0, 5.0),))
    starved, measured = share(Record(made.history()))
    assert starved == pytest.approx(5.0 / made.seconds, rel=0.05) and measured > 0.95
    made.self_samples = False
    assert share(Record(made.history())) == (None, 0.0)


@pytest.mark.parametrize(
    ("processors", "busy", "sure"),
    [(2, 0.8, 0.6), (2, 0.7, 0.0), (2, 1.0, 1.0), (8, 0.8, 0.0), (8, 0.95, 0.6), (None, 0.9, 0.0), (None, 0.96, 1.0)],
)
def test_a_busy_machine_is_charged_with_the_time_in_which_certainly_nothing_was_free(processors, busy, sure) -> None:
    """Of two processors at 80 % one was free for 40 % of the time at most; of eight perhaps always."""
    history = story().history()
    history.plan["machine"] = {"processors": processors}
    record = Record(history)
    start, end, _ = slices(record)
    for event in history.driver:
        if event.get("processors"):
            event["processors"] = [[a, b, busy] for a, b, _ in event["processors"]]
    found = Clock(Record(history)).between(start[:1], end[-1:])[0]
    assert found == pytest.approx(sure * (end - start).sum() / S, rel=1e-6)


# ---- what a failover controller took for a bad zone ------------------------------------------------------------

LATE_READS = {"kind": "read", "seconds": 3.0, "paths": ["b-data"], "says": "b-data: HTTP 200 after 315 ms, late"}
NO_WRITES = {"kind": "write", "seconds": 2.6, "paths": ["canary"], "says": "canary: ReadTimeout after 502 ms"}
REFUSED = {"kind": "read", "seconds": 3.0, "paths": ["b-data"], "says": "b-data: NewConnection after 2 ms"}
STEP = {"controller": "controller-a", "step": "weights", "zone": "b"}


def failover(*evidence: dict[str, object], starved: tuple[tuple[float, float], ...], kind: str = "done") -> Story:
    """A controller leads reads away from zone b 10 s into a phase in which nothing is wrong with it."""
    calm = Chapter("calm", 30)
    if kind == "done":
        calm.event(10.0, "failover.step", **STEP, evidence=list(evidence))
        calm.event(12.5, "failover.done", **STEP, against="b", says="weights: done")
    else:
        calm.event(10.0, "failover.recommends", **STEP, evidence=list(evidence), because="zone b is bad")
    made = Story(chapters=[calm], expect=[expect("failovers", "==", 0, ("calm",))], controllers=("a",))
    made.starved = starved
    return made


BUSY = ((6.0, 13.0),)


@pytest.mark.parametrize("kind", ["done", "recommends"])
@pytest.mark.parametrize(
    ("evidence", "starved", "verdict"),
    [
        ((LATE_READS, NO_WRITES), BUSY, "inconclusive"),
        ((LATE_READS, NO_WRITES), (), "fail"),
        ((LATE_READS, NO_WRITES), ((12.6, 20.0),), "fail"),  # busy later
        ((LATE_READS, NO_WRITES), ((9.5, 13.0),), "fail"),  # busy for less than half of the time
        ((REFUSED, NO_WRITES), BUSY, "inconclusive"),  # one kind alone is too little for a step
        ((REFUSED, NO_WRITES | {"says": "canary: HTTP 503 after 20 ms"}), BUSY, "fail"),
        ((REFUSED, LATE_READS | {"kind": "peer"}, NO_WRITES | {"says": "canary: HTTP 503"}), BUSY, "fail"),
        ((), BUSY, "fail"),
    ],
)
def test_a_failover_on_late_answers_is_in_doubt_where_no_processor_was_free(
    kind: str, evidence: tuple[dict[str, object], ...], starved: tuple[tuple[float, float], ...], verdict: str
) -> None:
    if kind == "recommends" and not evidence:
        return  # a rotation
    (finding,) = evaluate(failover(*evidence, starved=starved, kind=kind).history()).findings
    assert finding.verdict == verdict, finding.says
    assert ("no processor" in finding.says or "none of this machine's processors" in finding.says) is (
        verdict == "inconclusive"
    )


def test_a_step_needs_as_many_kinds_as_the_controller_says() -> None:
    assert Policy.kinds == failovers.KINDS
