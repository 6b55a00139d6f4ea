"""A closed loop of the real driver: as many requests under way as there are clients, and each on record."""

from __future__ import annotations

import numpy as np
from load_stub import serving
from programs.test_driver import config, drive, run, wait_for  # noqa: F401 - two are fixtures

from chaos.history import History
from chaos.load.config import AFTER_FAILURE_S, ClosedConfig, OperationConfig

READS = (OperationConfig(name="read", kind="search", rate=20),)


def most_at_once(frame) -> int:
    """The most requests that were under way at one moment."""
    moments = sorted([(int(t), 1) for t in frame.start] + [(int(t), -1) for t in frame.end])
    return int(np.cumsum([step for _, step in moments]).max())


def test_each_client_sends_its_next_request_when_the_one_before_was_answered(run, drive):  # noqa: F811
    closed = (ClosedConfig(name="write", kind="bulk", answer="bulk", clients=3, items=20),)
    with serving() as server:
        driver = drive(config(run, server, operations=READS, closed=closed))
        wait_for(lambda: driver.status.get("sent_total", 0) > 200)
        assert driver.status["operations"]["write"]["ok"] > 0
        assert driver.stop()
    history = History.open(run)
    writes = history.arrivals[history.arrivals.op == "write"]
    assert set(writes.outcome) == {"ok"} and most_at_once(writes) == 3
    assert len(set(history.arrivals.k)) == len(history.arrivals)
    assert writes.intended.is_monotonic_increasing and (writes.start >= writes.intended).all()
    assert history.items.counts() == {"created": 20 * len(writes)}
    assert set(history.arrivals.outcome[history.arrivals.op == "read"]) == {"ok"}


def test_a_server_that_refuses_everything_is_not_asked_without_a_pause(run, drive):  # noqa: F811
    closed = (ClosedConfig(name="write", kind="index", answer="index", clients=2),)
    with serving() as server:
        server.mode("503")
        driver = drive(config(run, server, operations=READS, closed=closed))
        wait_for(lambda: driver.status.get("sent_total", 0) > 60)
        assert driver.stop()
    writes = (frame := History.open(run).arrivals)[frame.op == "write"]
    seconds = (writes.end.max() - writes.start.min()) / 1e9
    assert set(writes.outcome) == {"server_error"} and 4 < len(writes) <= 2 * (seconds / AFTER_FAILURE_S + 1)
