"""Wrong answers in findings and tables: counted by kind of request, not good, and named with what came."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mutations import S, Stored
from synthetic import Chapter, Compared, Probed, Story, expect

from chaos.checks import Outcome as Run
from chaos.checks import semantics
from chaos.history.format import Outcome
from chaos.history.reader import OUTCOMES

SAYS = 'get of p-17 answered with the _id "x"'


def stored(*expectations: dict[str, Any]) -> Stored:
    dead = Chapter("dead", 30).fault(kind="node.kill", says="kill c-data", effect=0.4)
    chapters = [Chapter("healthy", 30), dead, Chapter("returned", 30).lift()]
    story = Story(chapters=chapters, cas=Compared(), visibility=Probed())
    story.expect = list(expectations)
    return Stored.of(story.history())


def answered(run: Stored, share: float, op: str = "read") -> int:
    """That share of an operation's answers in the phase is wrong, and the first are on record."""
    rows = run.rows(op, "dead", share=share)
    run.arrivals["outcome"] = run.arrivals["outcome"].cat.set_categories(OUTCOMES)
    run.answer(rows, Outcome.WRONG)
    at = run.moment("dead", 5)
    run.wrong += [{"t": at + n * S, "kind": "wrong", "op": op, "node": "a-data", "says": SAYS} for n in range(3)]
    return len(rows)


GOOD = expect("read.good", ">=", 0.99, ("dead",))


def test_they_are_not_good_and_the_finding_says_what_came() -> None:
    run = stored(GOOD)
    number = answered(run, 0.1)
    findings = run.judged()
    assert findings.outcome is Run.WEAKNESS
    (finding,) = [each for each in findings.findings if each.metric == "read.good"]
    assert finding.says.endswith(f"wrong answers: {number}, e.g. {SAYS} (a-data)")
    assert findings.tables["good"]["read"]["dead"]["outcomes"]["wrong"] == number
    row = findings.tables["data"]["wrong_answers"]
    assert row["value"] == number and row["operations"] == {"read": number} and row["nodes"] == {"a-data": 3}
    assert [each["says"] for each in row["shown"]] == [SAYS] * 3 and row["says"].endswith(f"e.g. {SAYS} (a-data)")
    assert findings.tables["availability"]["read"]["semantics"]["dead"]["wrong"] == number


def test_compare_and_set_and_probes_count_as_the_driver_counted_them() -> None:
    run = stored(GOOD)
    run.wrong = [{"t": run.moment("dead", 5), "kind": "wrong", "op": "cas.read", "node": None, "says": SAYS}]
    stop = {"t": run.moment("dead", 29), "kind": "driver.stop", "wrong": {"cas.read": 450, "probe.get": 2}}
    run.driver.append(stop)
    row = run.judged().tables["data"]["wrong_answers"]
    assert row["operations"] == {"cas.read": 450, "probe.get": 2} and row["text"] == "452 wrong answers"
    run.driver.remove(stop)  # a driver that was killed says nothing: what it had written down stands
    assert run.judged().tables["data"]["wrong_answers"]["operations"] == {"cas.read": 1}


def test_a_run_without_any_has_no_row_for_them() -> None:
    findings = stored(GOOD).judged()
    assert findings.outcome is not Run.WEAKNESS and "wrong_answers" not in findings.tables["data"]
    assert "wrong" not in str(findings.findings[0].says)


def test_wrong_writes_were_acknowledged_by_nobody() -> None:
    """The read-back knows of fewer acknowledged writes than there were arrivals, and none of them is missed."""
    run = stored(GOOD, expect("acknowledged.lost", "==", 0))
    answered(run, 0.5, "write")
    assert run.readback is not None
    written = run.arrivals[(run.arrivals["op"] == "write") & (run.arrivals["outcome"] == "ok")]
    run.readback["acknowledged"] = len(written)
    lost = next(each for each in run.judged().findings if each.metric == "acknowledged.lost")
    assert lost.measure.value == 0


def test_no_pause_of_an_instrument_excuses_them() -> None:
    """A late answer may be this machine's; one with another document is not."""
    run = stored(GOOD)
    answered(run, 0.1)
    for event in run.driver:
        if event["kind"] == "self":
            event["processors"] = [[start, end, 1.0] for start, end, _ in event["processors"]]
    assert next(each for each in run.judged().findings if each.metric == "read.good").counts_as == "weakness"


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_has_a_word_in_the_semantics_table(outcome: Outcome) -> None:
    run = stored(GOOD)
    run.arrivals["outcome"] = run.arrivals["outcome"].cat.set_categories(OUTCOMES)
    rows = run.rows("read", "dead", share=0.5)
    run.answer(rows, outcome)
    words = run.judged().tables["availability"]["read"]["semantics"]["dead"]
    name = {"ok": "full", "timeout": "timed_out"}.get(outcome.name.lower(), outcome.name.lower())
    assert name in semantics.NAMES and words[name] >= len(rows) * (outcome is not Outcome.OK)
    assert sum(words.values()) == int(np.sum(run.arrivals["op"].eq("read") & _inside(run)))


def _inside(run: Stored) -> Any:
    begin, end = run.span("dead")
    return (run.arrivals["intended"] >= begin) & (run.arrivals["intended"] < end)
