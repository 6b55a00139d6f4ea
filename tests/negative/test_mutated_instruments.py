"""What instruments let expectations ask: each check passes a sound record, fails a broken one, and is open without one.

Other checks are broken in ``test_mutated.py``. An instrument brings its own records (:class:`.Trial`), so that a new
one is one file and its test.
"""

from __future__ import annotations

from typing import Any

import pytest
import synthetic

from chaos.checks import evaluate, instruments
from chaos.checks.instrument import Instrument, Trial
from chaos.checks.verdict import Finding
from chaos.definitions.expectations import Comparison
from chaos.history import History
from chaos.registry import METRICS

TRIALS = [(each, trial) for each in instruments.every() for trial in each.trials]
PHASE = 1
"""The phase that is asked about: the fault holds in it."""


def tried(instrument: Instrument, trial: Trial, how: str) -> Finding:
    """The finding about a phase of a made-up run, whose lines before and after it are sound."""
    story = synthetic.slow_zone()
    metric = METRICS[trial.metric]
    comparison = Comparison.parse(trial.wanted, metric.unit)
    phase = None if metric.whole_run else story.chapters[PHASE].name
    story.expect = [expected(trial.metric, comparison, phase)]
    history: History = story.history()
    assert instrument.file is not None
    lines = []
    for number, span in enumerate(history.phases):
        kind = how if number == PHASE or metric.whole_run else "sound"
        lines += [] if kind == "none" else getattr(trial, kind)(span.start_ns, span.end_ns)
    history.give(instrument.file, lines)
    (found,) = [each for each in evaluate(history).findings if each.metric == trial.metric]
    return found


def expected(metric: str, comparison: Comparison, phase: str | None) -> dict[str, Any]:
    return {
        "metric": metric,
        "op": None,
        "quantity": metric,
        "unit": comparison.unit,
        "phases": [phase] if phase else [],
        "comparison": comparison.comparison,
        "value": comparison.value,
        "text": f"{metric} {comparison.text}",
        "known_weakness": None,
    }


def test_each_check_of_an_instrument_is_tried() -> None:
    for each in instruments.every():
        assert {check.metric for check in each.checks} == {trial.metric for trial in each.trials}, each.name
        assert all(check.meaning for check in each.checks), each.name


@pytest.mark.parametrize(("instrument", "trial"), TRIALS, ids=[trial.metric for _, trial in TRIALS])
@pytest.mark.parametrize(("how", "verdict"), [("sound", "pass"), ("broken", "fail"), ("none", "inconclusive")])
def test_it_passes_what_is_sound_fails_what_is_broken_and_is_open_without_data(
    instrument: Instrument, trial: Trial, how: str, verdict: str
) -> None:
    found = tried(instrument, trial, how)
    assert found.verdict.value == verdict, found.says
