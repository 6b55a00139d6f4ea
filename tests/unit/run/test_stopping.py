"""A signal while a run is under way: it asks for an orderly end, and is remembered whatever ends the run."""

from __future__ import annotations

import signal

import pytest

from chaos.base.console import Reporter
from chaos.run.stopping import SIGNALS, Stop, signals


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_a_run(number: signal.Signals) -> None:
    stop = Stop()
    with signals(stop, Reporter(quiet=True)):
        signal.raise_signal(number)
    assert stop.signalled and stop.reason == f"stopped by {number.name}" and stop.guard is None


def test_a_signal_after_a_guard_or_a_failure_is_remembered_and_the_first_reason_stays() -> None:
    for first in (lambda stop: stop.ask("the file is there", "stop_file"), lambda stop: stop.fail("the driver died")):
        stop = Stop()
        with signals(stop, Reporter(quiet=True)):
            first(stop)
            reason, guard = stop.reason, stop.guard
            assert not stop.signalled
            signal.raise_signal(signal.SIGTERM)
        assert stop.signalled and (stop.reason, stop.guard) == (reason, guard)
