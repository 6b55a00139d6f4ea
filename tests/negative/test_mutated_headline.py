"""Of several broken promises the gravest for users is named first, with its number; the others are named beside it.

And nothing is said of all where nothing was read, served or asked.
"""

from __future__ import annotations

import pytest
from mutations import Mutation, Stored
from negative import test_mutated as made
from negative.test_mutated import _sound, expected

from chaos.checks import evaluate
from chaos.checks.data.cas import the_loser_was_acknowledged_too
from chaos.checks.trial import read_back
from chaos.checks.writes import a_refused_write_is_there
from chaos.history.format import Outcome


def lost(run: Stored) -> None:
    read_back(run, lost=[f"w-{n}" for n in range(27)], lost_count=27)


def judged(metrics: tuple[str, ...], *mutations: Mutation):  # type: ignore[no-untyped-def]
    run = _sound().changed(*mutations)
    run.plan["experiment"]["expect"] = [expected(metric) for metric in metrics]
    return evaluate(run.history())


BROKEN: dict[str, Mutation] = {
    "acknowledged.lost": lost,
    "documents.unexpected": a_refused_write_is_there,
    "dirty.reads": next(iter(made.BREAKS["dirty.reads"].values())),
    "stale.reads": next(iter(made.BREAKS["stale.reads"].values())),
    "cas.violations": the_loser_was_acknowledged_too,
}
"""In the order of what they mean for users."""
SAYS = ("27 acknowledged writes were lost", "should not be there", "dirty", "stale", "ompare-and-set")
FULL = ("were lost", "should not be there", "never", "did not show", "Compare-and-set broke")


def test_lost_writes_are_named_before_the_compare_and_set_that_witnessed_them() -> None:
    findings = judged(("cas.violations", "acknowledged.lost"), lost, the_loser_was_acknowledged_too)
    assert findings.headline.startswith("27 acknowledged writes were lost. Besides: ")
    assert "violation of compare-and-set" in findings.headline
    assert [reason.finding for reason in findings.reasons] == ["acknowledged.lost", "cas.violations"]


@pytest.mark.parametrize("first", range(len(BROKEN) - 1))
def test_the_graver_of_two_is_first_in_whatever_order_they_are_expected(first: int) -> None:
    one, other = list(BROKEN)[first], list(BROKEN)[first + 1]
    for order in ((one, other), (other, one)):
        findings = judged(order, BROKEN[one], BROKEN[other])
        headline = findings.headline.partition("Besides")
        assert FULL[first] in headline[0], headline
        assert SAYS[first + 1] in headline[2], headline


def test_documents_that_no_line_asks_about_stand_before_a_witness() -> None:
    findings = judged(("cas.violations",), a_refused_write_is_there, the_loser_was_acknowledged_too)
    assert findings.headline.startswith("1 document is there that should not be there. Besides: 1 violation of compare")


def test_lost_writes_that_no_line_asks_about_are_in_the_headline_of_a_pass() -> None:
    findings = judged(("documents.unexpected",), lost)
    assert findings.outcome == "pass"  # by rules 1 only a line that asks decides
    assert "27 acknowledged writes were lost" in findings.headline and "No expectation asks" in findings.headline


def test_lost_writes_are_in_the_headline_of_what_is_not_proven() -> None:
    def unproven(run: Stored) -> None:
        run.drop("fault.evidence", stage="effect")

    findings = judged(("read.good", "acknowledged.lost"), lost, unproven)
    assert "27 acknowledged writes were lost" in findings.headline


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (
            {"lost_count": 20, "diverged_count": 5, "wrong_content_count": 2},
            "20 were lost, 5 are not the same on every",
        ),
        ({"lost_count": 0, "diverged_count": 5, "wrong_content_count": 0}, "5 acknowledged writes are not the same on"),
        ({"lost_count": 1, "diverged_count": 0, "wrong_content_count": 0}, "1 acknowledged write was lost"),
        (
            {"lost_count": 0, "diverged_count": 0, "wrong_content_count": 75},
            "75 acknowledged writes have other content",
        ),
    ],
)
def test_each_way_in_which_writes_are_not_as_acknowledged_has_its_number(values: dict[str, int], says: str) -> None:
    assert says in judged(("acknowledged.lost",), lambda run: read_back(run, **values)).headline


# -- all of nothing --------------------------------------------------------------------------------


def nothing_read(run: Stored) -> None:
    """The index was deleted before the read-back."""
    nothing = {"documents": 0, "of": 0, "copies": 0, "phrases": 0, "most": 20_000, "seed": 7, "reason": None}
    read_back(run, copies=[], documents=0, content=nothing, recovered_count=0, unacknowledged_present=0)


def test_an_index_that_was_deleted_has_no_write_on_every_copy() -> None:
    findings = judged(("acknowledged.lost", "documents.unexpected"), nothing_read)
    for finding in findings.findings[:2]:
        assert finding.counts_as == "inconclusive"
        assert (
            " all " not in f" {finding.says}" and "0 documents" not in finding.says and "0 copies" not in finding.says
        )
    assert "nothing is known of the 21\u00a0480 acknowledged writes" in findings.findings[0].says
    assert "not one document was read back" in findings.findings[0].says


def test_no_write_acknowledged_is_not_all_of_them() -> None:
    findings = judged(("acknowledged.lost",), lambda run: read_back(run, acknowledged=0))
    assert "all 0" not in findings.findings[0].says and "no write was acknowledged" in findings.findings[0].says


def test_reads_that_were_never_sent_did_not_hold() -> None:
    run = _sound().copy()
    run.arrivals = run.arrivals[run.arrivals["op"] != "read"]
    run.plan["experiment"]["expect"] = [expected("acknowledged.lost")]
    findings = evaluate(run.history())
    assert "eads held" not in findings.summary and "eads and writes held" not in findings.summary


# -- what matters although it decides nothing --------------------------------------------------------


def test_garbled_answers_are_in_the_headline() -> None:
    def garbled(run: Stored) -> None:
        run.answer(run.rows("read", "dead", share=0.2), Outcome.GARBLED, 0.01)

    findings = judged(("acknowledged.lost",), garbled)
    assert "reads were answered with something that cannot be read (garbled)" in findings.headline
    few = judged(("acknowledged.lost",), lambda run: run.answer(run.rows("read", "dead")[:2], Outcome.GARBLED, 0.01))
    assert "garbled" not in few.headline


def test_a_known_weakness_is_the_headline_of_the_pass_and_all_is_not_said_to_have_held() -> None:
    def late(run: Stored) -> None:
        run.answer(run.rows("read", "dead", share=0.5), Outcome.TIMEOUT, 5.0)

    run = _sound().changed(late)
    run.plan["experiment"]["expect"] = [made.wanted("read.good", ">= 99%", "dead", "issue 17: a tuned one holds")]
    findings = evaluate(run.history())
    assert findings.outcome == "pass"
    assert findings.headline.startswith("Known weakness: only ") and "Everything" not in findings.summary
