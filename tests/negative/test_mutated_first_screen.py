"""Every mutated history names what it broke on every first screen."""

from __future__ import annotations

import pytest
from negative.test_mutated import BREAKS, _sound, expected
from unit.report.test_first_screen import named

from chaos.checks.reasons import Cause


@pytest.mark.parametrize("metric", BREAKS)
def test_a_broken_promise_is_named_everywhere(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = _sound().changed(next(iter(BREAKS[metric].values())))
    run.plan["experiment"]["expect"] = [expected(metric)]
    decides, todo = named(run.history(), monkeypatch)
    assert decides["finding"] or decides["cause"] == Cause.DOCUMENTS
    assert "Nothing" not in todo and "note" not in todo
