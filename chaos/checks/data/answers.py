"""Answers of the load, of compare-and-set and of the probes that were not what was asked for: none is wanted.

What is counted and how it is named: :mod:`chaos.checks.wrong`. None counts only if every node that served was asked and
has answered enough.
"""

from __future__ import annotations

from chaos.base import text
from chaos.checks import coverage, wrong
from chaos.checks.check import Check, Rests, Scope
from chaos.checks.measure import Bound, Measure
from chaos.checks.record import OUTCOMES, Record
from chaos.checks.trial import Altered, Trial
from chaos.checks.words import Words, many
from chaos.history.format import Outcome

_ANSWERED = [OUTCOMES[name] for name in ("ok", "partial", "wrong")]


def measure(record: Record) -> Measure:
    """Wrong answers of the whole run."""
    row = wrong.table(record)
    number = int(row["value"]) if row else 0
    answered = sum(int(arrivals.counts[_ANSWERED].sum()) for arrivals in record.arrivals.values())
    rest = {key: row[key] for key in ("operations", "nodes", "shown")} if row else {}
    evidence = {"answers": answered, **rest}
    if not answered and not number:
        return Measure.missing("count", "nothing was answered, so no answer could be wrong", **evidence)
    if not wrong.looked(record) and not number:
        return Measure.missing(
            "count", "the load driver did not say whether answers were what was asked for", **evidence
        )
    says = str(row["says"]) if row else f"none of {text.plural(answered, 'answer')} was wrong"
    lacking = coverage.of_data(record, *(op.name for op in record.operations), *coverage.LOOKS)
    if lacking and not number:
        return Measure.missing("count", "; ".join([*lacking, says]), **evidence)
    bound = Bound.AT_LEAST if lacking else Bound.EXACT
    return Measure(float(number), "count", "; ".join([says, *lacking]), bound, evidence)


def one_answer_was_about_another_document(run: Altered) -> None:
    run.answer(run.rows("read", "dead", 5, 25)[:1], Outcome.WRONG, 0.01)


def a_key_was_shown_whose_fields_contradict_each_other(run: Altered) -> None:
    says = "get of c-1 answered with other content: {}"
    run.wrong.append({"t": run.moment("dead", 5), "kind": "wrong", "op": "cas.read", "node": "a-data", "says": says})


CHECKS = (
    Check(
        "wrong.answers",
        "count",
        lambda record, *_: measure(record),
        Words(
            lambda item, _: f"{many(item, 'answer was', 'answers were')} not what was asked for",
            lambda _: "answers were what was asked for",
            lambda _: "Answers are what was asked for",
            "wrong.answers",
        ),
        "data",
        scope=Scope.RUN,
        rests=Rests.DATA,
        promise=True,
        looked=wrong.looked,
        meaning=(
            "Answers with status 2xx that count themselves whole and are not what was asked for: another document "
            "or index, hits that do not match, are twice there or are fewer than counted, fewer shards than the "
            "index has, a write that no copy took. The row of the data checks says what came. Who sent it cannot be "
            "told from the client's end: look at what stands between clients and nodes first."
        ),
        helps=("manager-block", "balancer-probe"),
        order=120,
        trial=Trial(
            "0",
            None,
            (
                one_answer_was_about_another_document,
                a_key_was_shown_whose_fields_contradict_each_other,
            ),
        ),
    ),
)
