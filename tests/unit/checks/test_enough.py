"""Whether the load wrote enough for a word about its writes: by what was due when, whatever became of it."""

from __future__ import annotations

import synthetic
from mutations import Stored
from synthetic import Chapter, Story, mixed

from chaos.checks import enough, evaluate
from chaos.checks.record import Record
from chaos.history.format import Outcome

WAITS = mixed((0, 2, 1.0, Outcome.TIMEOUT, 5.0), base=synthetic.healthy(13))


def two_faults() -> Story:
    """A fault of half a second under which every write waits, and then another: half of those writes count for that."""
    return Story(
        chapters=[
            Chapter("healthy", 30),
            Chapter("first", 0.5, write=WAITS).fault(fault="f1", says="pause a-data", effect=0.1),
            Chapter("second", 30).fault(fault="f2", says="pause b-data", at=0.001, effect=0.1),
            Chapter("returned", 30).lift("f1").lift("f2"),
        ]
    )


def test_writes_that_were_under_way_when_the_next_fault_came_were_sent_in_the_phase_in_which_they_were_due() -> None:
    history = two_faults().history()
    record = Record(history)
    first = record.span("first")
    assert first is not None
    assert (
        len(record.in_phase("write", first)) < enough.SENT * 0.5 * record.operations[1].rate
    )  # they count for the next
    assert enough.gaps(record) == ()
    assert not any("that were due" in reason.says for reason in evaluate(history).reasons)


def test_writes_that_were_not_sent_are_missed_wherever_they_count() -> None:
    run = Stored.of(two_faults().history())
    rows = run.rows("write", "first", share=0.2)
    run.answer(rows, Outcome.DROPPED)
    run.arrivals.loc[rows, ["start", "end"]] = 0
    (gap,) = enough.gaps(Record(run.history()))
    assert gap.says.startswith("in first only ")
