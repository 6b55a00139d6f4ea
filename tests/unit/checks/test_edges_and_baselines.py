"""What counts for which phase and for whom: arrivals in flight at a fault, pauses of listed arrivals, surges, drops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from synthetic import ARRIVAL, Chapter, Outcome, Story, constant, expect, healthy, mixed

from chaos.checks import availability, evaluate, ladder, outage, regained, validity
from chaos.checks.record import STEADY_BASELINE, Record
from chaos.history.reader import History
from chaos.observe.written import Written


class Planned(Story):
    """A run of a plan that says so."""

    def plan(self) -> dict[str, Any]:
        return super().plan() | {regained.BY_PHASE: True, STEADY_BASELINE: True}


def counted(told: Story) -> dict[str, str]:
    return {finding.id: str(finding.counts_as) for finding in evaluate(told.history()).findings}


def missed(told: Story) -> list[str]:
    return [each.id for each in validity.conditions(Record(told.history())) if not each.ok]


def test_writes_in_flight_when_a_node_is_killed_are_not_the_phase_before() -> None:
    base = constant(Outcome.OK, 0.3)
    before = mixed((29.8, 31, 1.0, Outcome.TIMEOUT, 5.0), base=base)
    dead = mixed((0, 3, 1.0, Outcome.TIMEOUT, 5.0), base=base)
    told = Planned(
        rate=100,
        good_within=1.0,
        chapters=[
            Chapter("healthy", 30.02, write=before),
            Chapter("dead", 60, write=dead).fault(kind="node.kill", says="kill b-data"),
            Chapter("returned", 60, write=base).lift(),
        ],
        expect=[
            expect("write.good", ">=", 0.999, ("healthy",)),
            expect("write.uptime", ">=", 0.999, ("healthy", "dead")),
            expect("write.worst_10s", ">=", 0.99, ("healthy",)),
        ],
    )
    found = counted(told)
    assert found["write.good@healthy"] == found["write.uptime@healthy"] == found["write.worst_10s@healthy"] == "pass"
    assert found["write.uptime@dead"] == "weakness"


def test_the_schedule_is_judged_by_when_arrivals_were_due() -> None:
    """All unanswered writes of a phase's last second count for the next one, whose fault met them in flight."""
    hang = constant(Outcome.TIMEOUT, 5.0)
    told = Story(
        good_within=2.0,
        chapters=[
            Chapter("healthy", 30),
            Chapter("one", 30.02, write=hang).fault("f1"),
            Chapter("two", 30, write=hang).fault("f2", says="more"),
            Chapter("returned", 40).lift("f1").lift("f2", at=0.03),
        ],
        expect=[expect("read.good", ">=", 0.99, ("healthy", "one", "two", "returned"))],
    )
    assert [each for each in missed(told) if each.startswith("schedule")] == []


def test_a_rate_that_changes_is_judged_by_when_arrivals_were_due() -> None:
    busy = constant(Outcome.OK, 0.15)
    told = Story(
        good_within=1.0,
        rate=100,
        changes={"read": ((0.0, 100.0, 100.0), (30.0, 100.0, 300.0), (40.0, 300.0, 300.0))},
        chapters=[
            Chapter("healthy", 30),
            Chapter("surge", 30.02, read=busy),
            Chapter("dead", 30, read=busy).fault("f1", at=0.05),
            Chapter("returned", 40).lift("f1"),
        ],
        expect=[expect("read.good", ">=", 0.99, ("healthy", "surge", "dead", "returned"))],
    )
    assert [each for each in missed(told) if each.startswith("offered")] == []


def replayed(quiet: bool) -> Record:
    """20 reads a second as they were listed, all answered well; in the second phase a pause of 12 s, or none."""
    times = tuple(n / 20 for n in range(120 * 20) if not (quiet and 40 <= n / 20 < 52))
    told = Story(
        good_within=1.0,
        times={"read": times},
        chapters=[Chapter("healthy", 30), Chapter("dead", 60).fault(), Chapter("returned", 30).lift()],
        expect=[expect("read.good", ">=", 0.99, ("healthy", "dead", "returned"))],
    )
    assert [each for each in missed(told) if each.startswith("schedule")] == []
    return Record(told.history())


@pytest.mark.parametrize("quiet", [True, False])
def test_a_pause_of_listed_arrivals_is_no_outage(quiet: bool) -> None:
    record = replayed(quiet)
    span = record.spans[1]
    assert outage.in_phase(record, "read", span) == pytest.approx(0.0)
    assert regained.measure(record, "read", span).value == 0
    assert availability.measure_slices(record, "read", span).value == 1.0


def listed(*pause: float, failing: tuple[float, float] | None = None, shards: int = 3) -> Record:
    """40 reads and 40 writes a second as they were listed, none from one to another second of the ``pause``; in the
    phase from 30 s to 100 s all writes fail that are due while they are ``failing``."""
    times = tuple(n / 40 for n in range(140 * 40) if not (pause and pause[0] <= n / 40 < pause[1]))
    begin, end = (at - 30.0 for at in failing or (0.0, 0.0))
    dead = mixed((begin, end, 1.0, Outcome.REFUSED, 0.01), base=healthy(13))
    told = Story(
        times={"read": times, "write": times},
        chapters=[
            Chapter("healthy", 30),
            Chapter("dead", 70, write=dead).fault(),
            Chapter("returned", 40).lift(),
        ],
        expect=[expect("read.good", ">=", 0.99, ("healthy", "dead", "returned"))],
    )

    def mutate(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [event | {"shards": shards} if event["kind"] == "index.routing" else event for event in events]

    told.mutate = mutate
    return Record(told.history())


def steps(record: Record) -> list[float | None]:
    return [ladder.measure(record, record.spans[1], name).value for name in ("latency", "first_writes")]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("pause", [(), (60.0, 85.0), (80.0, 100.0)])
def test_a_pause_of_listed_arrivals_leaves_no_shard_without_writes(shards: int, pause: tuple[float, ...]) -> None:
    record = listed(*pause, shards=shards)
    for op in ("read", "write"):
        assert availability.measure_worst(record, op, record.spans[1]).value == pytest.approx(1.0)
    assert steps(record) == [0, 0]


@pytest.mark.parametrize("shards", [1, 3])
def test_an_outage_beside_a_pause_of_listed_arrivals_is_one(shards: int) -> None:
    record = listed(60.0, 85.0, failing=(40.0, 52.0), shards=shards)
    assert availability.measure_worst(record, "write", record.spans[1]).value == pytest.approx(0.0)
    latency, writes = steps(record)
    assert latency == pytest.approx(22.0, abs=4.0)
    assert writes == pytest.approx(22.0, abs=0.5)
    (row,) = [row for row in availability.table(record, "write", counts(record))["minimum"] if row["window"] == 10]
    assert row["availability"] == pytest.approx(0.0)
    assert availability.table(record, "read", counts(record, "read"))["slices"]["share"] == 1.0


def test_few_arrivals_of_a_list_are_no_shard_without_writes() -> None:
    """40 writes a second but one in a second from 50 s to 80 s, of which one is refused: chance explains every gap."""
    times = tuple(n / 40 for n in range(140 * 40) if not 50 <= n / 40 < 80 or n % 40 == 0)
    dead = mixed((25.0, 26.0, 1.0, Outcome.REFUSED, 0.01), base=healthy(13))
    told = Story(
        times={"write": times},
        chapters=[Chapter("healthy", 30), Chapter("dead", 70, write=dead).fault(), Chapter("returned", 40).lift()],
        expect=[expect("read.good", ">=", 0.99, ("healthy",))],
    )
    record = Record(told.history())
    assert ladder.measure(record, record.spans[1], "first_writes").value == 0


def counts(record: Record, op: str = "write") -> Any:
    return availability.tally(record, op)


def surge(**changes: Any) -> Story:
    return (changes.pop("of", Planned))(
        good_within=1.0,
        rate=100,
        changes={"read": ((0.0, 100.0, 100.0), (60.0, 300.0, 300.0))},
        chapters=[
            Chapter("healthy", 60),
            Chapter("surge", 60, read=mixed((0, 20, 0.4, Outcome.REJECTED, 0.01), base=healthy())),
        ],
        expect=[expect("read.good", ">=", 0.999, ("healthy", "surge"))],
    )


def test_a_surge_that_the_cluster_does_not_bear_is_a_weakness() -> None:
    told = surge()
    assert evaluate(told.history()).outcome == "weakness"
    assert [span.name for span in Record(told.history()).healthy] == ["healthy"]


def test_a_run_of_before_keeps_its_baseline() -> None:
    assert [span.name for span in Record(surge(of=Story).history()).healthy] == ["healthy", "surge"]


def test_a_target_that_is_missed_by_the_drivers_own_drops_alone_is_open() -> None:
    def told(outcome: Outcome) -> Story:
        dead = mixed((10, 10.2, 0.5, outcome, 0.0), base=healthy())
        return Story(
            rate=100,
            good_within=0.1,
            chapters=[Chapter("healthy", 60), Chapter("dead", 60, read=dead).fault(), Chapter("returned", 60).lift()],
            expect=[expect("read.good", ">=", 0.999, ("healthy", "dead", "returned"))],
        )

    assert counted(told(Outcome.DROPPED))["read.good@dead"] == "inconclusive"
    assert counted(told(Outcome.REFUSED))["read.good@dead"] == "weakness"


def test_partial_writes_that_are_forgiven_count_once() -> None:
    """The driver stalls while writes answer in part; 200 other writes are rejected all the same."""
    dead = mixed((10, 14, 1.0, Outcome.PARTIAL, 0.02), (20, 22, 1.0, Outcome.REJECTED, 0.01), base=healthy(13))

    def told(still: tuple[Any, ...]) -> Story:
        return Story(
            rate=100,
            good_within=0.1,
            still=still,
            chapters=[Chapter("healthy", 30), Chapter("dead", 60, write=dead).fault(), Chapter("returned", 40).lift()],
            expect=[expect("documents.acknowledged", ">=", 0.98, ("dead",))],
        )

    for still in ((), (("driver", 40.0, 44.0),)):
        assert counted(told(still))["documents.acknowledged@dead"] == "weakness"


@pytest.mark.parametrize(("attempts", "open"), [(1, False), (2, True)])
def test_a_write_that_was_tried_before_it_was_dropped_may_have_been_done(
    tmp_path: Any, attempts: int, open: bool
) -> None:
    folder = Story(chapters=[Chapter("healthy", 2)]).write(tmp_path / "run")
    rows = np.fromfile(folder / "history" / "arrivals.bin", ARRIVAL)
    place = np.flatnonzero(rows["op"] == 1)[5]
    rows["outcome"][place], rows["attempts"][place] = int(Outcome.DROPPED), attempts
    rows.tofile(folder / "history" / "arrivals.bin")
    written = Written.of(History.open(folder), documents=10)
    id = f"w-{rows['k'][place]}"
    assert (id in written.open) is open
    assert id not in written.acknowledged and id not in written.refused
