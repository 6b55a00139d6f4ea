"""Helpers of opensearch-py in the driver, against a stub: what the cluster answered and what the caller was told."""

from __future__ import annotations

from collections import Counter

import pytest
from load_stub import serving
from programs.test_driver import config, drive, run, wait_for  # noqa: F401 - fixtures

from chaos.history import History
from chaos.history.format import CallerTold, ItemOutcome
from chaos.load.config import HelperConfig, OperationConfig

BULK, STREAMING = "helpers.bulk", "helpers.streaming_bulk"
BOTH = [BULK, pytest.param(STREAMING, marks=pytest.mark.full)]
CALLS = 4


def loaded(run, drive, mode, *, items=10, rate=10, timeout=1.0, automatic=False, **helper):  # noqa: F811
    """What was answered and what was told of each document, of the calls that ended in order."""
    kind = helper.pop("kind", BULK)
    with serving() as server:
        operation = OperationConfig(
            name="write",
            kind="bulk",
            rate=rate,
            items=items,
            automatic=automatic,
            helper=HelperConfig(kind=kind, initial_backoff_s=0.1, **helper),
        )
        server.mode(mode)
        made = config(run, server, operations=(operation,), kind="opensearch-py", timeout=timeout)
        driver = drive(made)
        wait_for(lambda: sum(driver.status.get("operations", {}).get("write", {}).get(k, 0) for k in ("ok", "bad")) > 0)
        wait_for(lambda: driver.status.get("sent_total", 0) > CALLS)
        assert driver.stop()
    return History.open(run)


def pairs(history: History) -> Counter[tuple[str, str]]:
    """(The cluster's word, what the caller was told) of each document; "none" where no request was answered for it."""
    words = dict(zip(history.items.numbers(100).tolist(), history.items.outcome.tolist(), strict=True))
    told = zip(history.told.numbers(100).tolist(), history.told.outcome.tolist(), strict=True)
    return Counter(
        (ItemOutcome(words[n]).name.lower() if n in words else "none", CallerTold(each).name.lower())
        for n, each in told
        if each != CallerTold.CUT_SHORT
    )


@pytest.mark.parametrize("kind", BOTH)
def test_a_caller_of_a_healthy_cluster_is_told_what_is_so(run, drive, kind):  # noqa: F811
    history = loaded(run, drive, "ok", kind=kind)
    assert set(pairs(history)) == {("created", "stored")}
    assert set(history.arrivals.outcome) == {"ok"} and set(history.arrivals.attempts) == {1}
    assert len(history.told) == len(history.arrivals) > CALLS
