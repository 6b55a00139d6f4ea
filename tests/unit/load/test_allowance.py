"""A cap on requests holds whoever asks for one and whenever."""

from __future__ import annotations

import heapq
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from chaos.load import exchange


class Clock:
    """Time that passes only where somebody waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(exchange.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(exchange.gevent, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@given(some.lists(some.floats(0, 3), min_size=2, max_size=60), some.floats(0.5, 50))
def test_no_more_begin_than_are_allowed_and_none_waits_without_need(pauses: list[float], rate: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock(patch)
        allowance = exchange.Allowance(rate)
        begun = []
        for pause in pauses:
            clock.now += pause
            asked = clock.now
            allowance.take()
            begun.append(clock.now)
            soonest = begun[-2] + 1 / rate if len(begun) > 1 else asked
            assert clock.now == pytest.approx(max(asked, soonest))
    assert all(later - earlier >= 1 / rate - 1e-6 for earlier, later in pairwise(begun))


def test_those_that_come_together_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several greenlets at the same moment: each is given a time of its own."""
    clock = Clock(monkeypatch)
    allowance, waits = exchange.Allowance(10.0), list[float]()
    monkeypatch.setattr(exchange.gevent, "sleep", lambda seconds: heapq.heappush(waits, round(seconds, 6)))
    for _ in range(5):
        allowance.take()
    assert [heapq.heappop(waits) for _ in range(4)] == [0.1, 0.2, 0.3, 0.4] and clock.now == 100.0


def test_without_a_rate_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    allowance = exchange.Allowance(None)
    monkeypatch.setattr(exchange.gevent, "sleep", lambda seconds: pytest.fail("it waited"))
    for _ in range(5):
        allowance.take()
