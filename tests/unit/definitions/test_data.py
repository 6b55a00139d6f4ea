"""Checks on data in a definition: off unless they are asked for, and what needs them says so."""

from __future__ import annotations

import json

import pytest
from unit.definitions.test_experiments import EXAMPLE, changed, here, load, says  # noqa: F401 ("here" is a fixture)

from chaos.registry import GRAMMAR
from chaos.run.plan import digest

READ = "  read:"
LOST = "acknowledged.lost: 0"


def with_(load_lines: str, expectation: str = LOST) -> str:
    text = changed((READ, f"{load_lines}\n{READ}")) if load_lines else EXAMPLE
    assert text.count(f"{{{LOST}}}") == 1
    return text.replace(f"{{{LOST}}}", f"{{{expectation}}}")


def test_they_are_read_and_written_back() -> None:
    experiment = load(
        with_("  cas: {rate: 10/s, keys: 3}\n  visibility: {rate: 2/s, within: 20s}", "cas.violations: 0")
    )
    assert experiment.load.cas is not None and experiment.load.visibility is not None
    assert (experiment.load.cas.rate, experiment.load.cas.keys) == (10.0, 3)
    assert (experiment.load.visibility.rate, experiment.load.visibility.within) == (2.0, 20.0)
    assert [operation.name for operation in experiment.load.operations] == ["read", "write"]
    assert experiment.expect[-1].metric == "cas.violations" and experiment.expect[-1].phases == ()
    assert GRAMMAR.experiment(json.loads(json.dumps(experiment.to_json()))) == experiment
    defaults = load(with_("  cas: {rate: 10/s}\n  visibility: {rate: 2/s}")).load
    assert defaults.cas and defaults.cas.keys == 5 and defaults.visibility and defaults.visibility.within == 30.0


def test_without_them_the_normal_form_and_the_hash_are_what_they_were() -> None:
    experiment = load(EXAMPLE)
    assert experiment.load.cas is None and experiment.load.visibility is None
    assert not {"cas", "visibility"} & set(experiment.to_json()["load"])
    assert digest(experiment) != digest(load(with_("  cas: {rate: 10/s}")))


def test_visibility_is_judged_in_phases_and_the_others_over_the_whole_run() -> None:
    experiment = load(with_("  visibility: {rate: 2/s}", 'phase: slow, visible.p99: "<= 2s"'))
    last = experiment.expect[-1]
    assert (last.metric, last.op, last.unit, last.phases, last.value) == ("visible.p99", None, "duration", ("slow",), 2)
    (said,) = says(with_("  visibility: {rate: 2/s}", "phase: slow, stale.reads: 0"))
    assert "of the whole run: expected no phase" in said


@pytest.mark.parametrize(
    ("lines", "expectation", "message"),
    [
        ("", "cas.violations: 0", "cas.violations needs what is not in the load: expected load.cas"),
        ("  visibility: {rate: 2/s}", "cas.violations: 0", "expected load.cas"),
        ("  cas: {rate: 2/s}", 'visible.p99: "<= 2s"', "expected load.visibility"),
        ("", "stale.reads: 0", "expected load.cas or load.visibility"),
        ("", "dirty.reads: 0", "expected load.cas or load.visibility"),
        ("  cas: {rate: 200/s}", LOST, "more than a check on data needs: expected at most 50/s"),
        ("  cas: {rate: 0/s}", LOST, "is nothing"),
        ("  cas: {rate: 5/s, keys: 0}", LOST, "keys: expected 1 or more, got 0"),
        ("  visibility: {rate: 5}", LOST, "5 has no unit"),
        ("  visibility: {rate: 5/s, within: 0s}", LOST, "is nothing"),
        ("  compare: {rate: 5/s}", LOST, "compare"),
    ],
)
def test_what_is_wrong_is_said(lines: str, expectation: str, message: str) -> None:
    assert any(message in said for said in says(with_(lines, expectation)))


def test_documents_that_should_not_be_there_can_always_be_asked_for() -> None:
    assert load(with_("", "documents.unexpected: 0")).expect[-1].metric == "documents.unexpected"
