"""SLIs from a real Prometheus, which scrapes an exporter of ours: met, missed, gone; wrong queries; a frozen server."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import synthetic
from prometheuskit import PATIENCE, Monitoring, monitored, needed, stand_still
from unit.checks.test_slis import wanted

from chaos.base.errors import InvalidInput
from chaos.checks import catalogue
from chaos.checks.measure import Measure, Verdict, judge
from chaos.checks.record import Record, Span, _expectations
from chaos.definitions.experiment import Experiment
from chaos.history.reader import History
from chaos.instruments.slis import Slis, refuse_unready
from chaos.opensearch.prometheus import Asker
from chaos.targets.labs.processes import wait_until

pytestmark = needed
ANSWERS = 5
"""Of each phase."""


@pytest.fixture
def monitoring(tmp_path: Path) -> Iterator[Monitoring]:
    with monitored(tmp_path) as made:
        yield made


def phase(slis: Slis, name: str, ready: Callable[[float | None], bool]) -> tuple[int, int]:
    """From the first answer that is as it must be, over some answers more: the phase's edges (monotonic ns)."""

    def number() -> int:
        said = slis.said(name)
        return 0 if said is None else said.number

    assert wait_until(lambda: (said := slis.said(name)) is not None and ready(said.value), PATIENCE)
    start, before = time.monotonic_ns(), number()
    assert wait_until(lambda: number() >= before + ANSWERS, PATIENCE)
    return start, time.monotonic_ns()


def judged(folder: Path, experiment: Experiment, edges: tuple[int, int], name: str) -> tuple[Measure, Verdict]:
    """What the check says of the record that was written."""
    record = Record(synthetic.slow_zone().history())
    record._lines = History(folder).lines
    record.plan["experiment"] = experiment.to_json()
    expected = wanted("max", "<", 0.01, "1%")
    expected["metric"] = f"sli.{name}.max"
    (one,) = _expectations({"expect": [expected]})
    check = catalogue.of(one.metric)
    assert check is not None
    found = check.measure(record, one, Span("p", 0, *edges, False, "elapsed"))  # type: ignore[arg-type]
    return found, judge(found, one.comparison, one.value)


def test_below_passes_above_is_a_weakness_and_a_dead_exporter_is_no_data(
    monitoring: Monitoring, tmp_path: Path
) -> None:
    experiment = monitoring.experiment(tmp_path)
    refuse_unready(experiment)
    slis = Slis(experiment, tmp_path / "history", lambda says: None)
    slis.start()
    try:
        met = phase(slis, "checkout_errors", lambda value: value == 0.001)
        monitoring.exporter.ratio = 0.02
        missed = phase(slis, "checkout_errors", lambda value: value == 0.02)
        monitoring.exporter.shut()
        dead = phase(slis, "checkout_errors", lambda value: value is None)
    finally:
        slis.stop()
    measure, verdict = judged(tmp_path, experiment, met, "checkout_errors")
    assert (verdict, measure.value, measure.text) == (Verdict.PASS, 0.001, "0.1 %")
    measure, verdict = judged(tmp_path, experiment, missed, "checkout_errors")
    assert (verdict, measure.value) == (Verdict.FAIL, 0.02)
    measure, verdict = judged(tmp_path, experiment, dead, "checkout_errors")
    assert (verdict, measure.value) == (Verdict.INCONCLUSIVE, None) and "no series" in measure.says
    # a query that keeps old values answers all the time; only who asks how old they are knows better
    asker = Asker(monitoring.sli("last_over_time(checkout_errors_ratio[10m])"), tmp_path)
    assert asker.ask().value == 0.02
    asker.close()
    measure, verdict = judged(tmp_path, experiment, dead, "kept")
    assert verdict is Verdict.INCONCLUSIVE and "nobody knows how old its data is: no series" in measure.says


@pytest.mark.full  # test_outside.py stops a real one, too
def test_what_a_real_one_says_to_wrong_queries_and_when_it_stands_still(monitoring: Monitoring, tmp_path: Path) -> None:
    asker = Asker(monitoring.sli("checkout_requests"), tmp_path)
    asker.ask()
    asker.close()
    without = monitoring.experiment(tmp_path, fresh=False)
    if asker.looks_back:
        refuse_unready(without)
    else:  # 2.42 is one that takes no bound on age
        with pytest.raises(InvalidInput, match="it goes by no lookback_delta"):
            refuse_unready(without)

    def asked(query: str, **more: Any) -> tuple[float | None, str | None, str | None, bool]:
        asker = Asker(monitoring.sli(query, **more), tmp_path)
        found = asker.ask()
        asker.close()
        return found.value, found.why, found.said, found.wrong

    assert asked("sum(checkout_requests)")[0] == 1.0
    assert asked("scalar(checkout_requests) * 2")[0] == 2.0
    value, why, said, wrong = asked("sum(checkout_requests")
    assert (value, why, wrong) == (None, "the query is refused", True) and "parenthesis" in str(said)
    _, why, _, wrong = asked('{job="checkout"}')
    assert wrong and "series, and one number was expected" in str(why)
    assert asked('"words"')[1] == "the answer is a string: expected a scalar, or a vector of one element"
    assert str(asked("checkout_requests[10s]")[1]).startswith("the answer is a matrix")
    assert asked("nothing_of_that_name")[1] == "no series"
    assert asked("0 / 0")[1] == "the value is NaN" and asked("1 / 0")[1] == "the value is +Inf"
    assert asked("checkout_requests", fresh="61")[1] == "its data is older than 1m"
    stand_still(monitoring.process.pid)
    try:
        assert asked("checkout_requests")[1] == "no answer in time"
    finally:
        os.kill(monitoring.process.pid, signal.SIGCONT)
    assert wait_until(lambda: asked("sum(checkout_requests)")[0] == 1.0, PATIENCE)
    monitoring.process.kill()
    monitoring.process.wait()
    assert asked("checkout_requests")[1] == "it cannot be reached"
