"""Helpers of opensearch-py in the driver, against a stub: what the cluster answered and what the caller was told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from load_stub import serving
from programs.test_driver import config, drive, run, wait_for  # noqa: F401 - fixtures

from chaos.history import History
from chaos.history.format import CallerTold, ItemOutcome
from chaos.load.config import ClientConfig, ClosedConfig, HelperConfig, OperationConfig

BULK, STREAMING, ASYNC = "helpers.bulk", "helpers.streaming_bulk", "helpers.async_bulk"
ALL = [BULK, pytest.param(STREAMING, marks=pytest.mark.full), ASYNC]
CALLS = 4
READ = OperationConfig(name="read", kind="search", rate=10)


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
        assert len(driver.processes) == (2 if kind == ASYNC else 1)
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


@pytest.mark.parametrize("kind", ALL)
def test_a_caller_of_a_healthy_cluster_is_told_what_is_so(run, drive, kind):  # noqa: F811
    history = loaded(run, drive, "ok", kind=kind)
    assert set(pairs(history)) == {("created", "stored")}
    assert set(history.arrivals.outcome) == {"ok"} and set(history.arrivals.attempts) == {1}
    assert len(history.told) == len(history.arrivals) > CALLS


@pytest.mark.full
@pytest.mark.parametrize("kind", [None, BULK, ASYNC])
def test_bodies_are_compressed_on_the_wire(run, drive, kind):  # noqa: F811
    helper = None if kind is None else HelperConfig(kind=kind)
    operation = OperationConfig(name="write", kind="bulk", rate=10, items=10, helper=helper)
    client = ClientConfig(kind="opensearch-py", timeout_s=2.0, compress=True)
    with serving() as server:
        driver = drive(config(run, server, operations=(operation,), client=client))
        wait_for(lambda: driver.status.get("sent_total", 0) > CALLS)
        assert driver.stop()
        assert server.compressed() == len(History.open(run).arrivals) > CALLS
    assert set(History.open(run).arrivals.outcome) == {"ok"}


@pytest.mark.full
def test_processes_share_one_load_and_leave_one_record(run, drive):  # noqa: F811
    operations = (READ, OperationConfig(name="write", kind="bulk", rate=20, items=10))
    loop = ClosedConfig(name="more", kind="bulk", answer="bulk", clients=3, items=5)
    with serving() as server:
        driver = drive(config(run, server, operations=operations, closed=(loop,), processes=2, timeout=5.0))
        wait_for(lambda: driver.status.get("operations", {}).get("more", {}).get("ok", 0) > 3)
        assert driver.stop()
    history = History.open(run)
    frame = history.arrivals
    assert set(frame.outcome) == {"ok"} and frame.k.is_unique
    assert all(set(frame.k[frame.op == op] % 2) == {0, 1} for op in ("read", "write", "more"))
    assert len(history.items) == int((frame.op != "read").sum())
    assert {event.get("process", 0) for event in history.driver if event["kind"] == "self"} == {0, 1}
    intended = np.sort(frame.intended[frame.op == "write"])
    assert np.allclose(np.diff(intended), 50e6, atol=1e3)  # 20 a second over both


@pytest.mark.full
@pytest.mark.parametrize(("client", "kind"), [("load-balancer", BULK), ("pinned", BULK), ("pinned", ASYNC)])
def test_helpers_run_on_other_clients_too(run, drive, client, kind):  # noqa: F811
    operation = OperationConfig(name="write", kind="bulk", rate=20, items=10, helper=HelperConfig(kind=kind))
    with serving() as one, serving() as other:
        driver = drive(config(run, one, other, operations=(operation,), kind=client, timeout=2.0))
        wait_for(lambda: driver.status.get("sent_total", 0) > 3 * CALLS)
        assert driver.stop()
    frame = History.open(run).arrivals
    assert set(frame.outcome) == {"ok"}
    assert set(frame.node) == ({"a-data", "b-data"} if client == "load-balancer" else {"a-data"})
    assert set(pairs(History.open(run))) == {("created", "stored")}


HARD = {
    "bulk_rejected": "partial",
    "429": "rejected",
    "503": "server_error",
    "reset": "reset",
    "closed": "reset",
    "truncated": "garbled",
    "html": "garbled",
    "bulk_swapped": "wrong",
}
"""Mode of the stub → what becomes of every request."""


@pytest.mark.full
@pytest.mark.parametrize("mode", HARD)
def test_both_drivers_say_the_same_of_what_the_cluster_does(run, drive, mode, tmp_path_factory):  # noqa: F811
    seen = []
    for kind in (BULK, ASYNC):
        folder = tmp_path_factory.mktemp("run")
        (folder / "plan.json").write_text("{}")
        history = loaded(folder, drive, mode, kind=kind, raise_on_error=False)
        ended = history.arrivals[history.arrivals.attempts > 0]
        seen.append((set(ended.outcome), set(pairs(history)), max(ended.attempts)))
    assert seen[0] == seen[1]
    assert HARD[mode] in seen[0][0]


@pytest.mark.full
def test_a_driver_in_asyncio_gives_up_in_time_and_says_so(run, drive):  # noqa: F811
    with serving() as server:
        helper = HelperConfig(kind=ASYNC, chunk_size=5)
        operation = OperationConfig(name="write", kind="bulk", rate=10, items=10, helper=helper)
        driver = drive(config(run, server, operations=(operation,), kind="opensearch-py", timeout=0.5))
        wait_for(lambda: driver.status.get("sent_total", 0) > CALLS)
        server.freeze()
        try:
            wait_for(lambda: driver.status.get("operations", {}).get("write", {}).get("bad", 0) > 0)
            assert driver.stop()
        finally:
            server.thaw()
    history = History.open(run)
    assert {"ok", "timeout"} <= set(history.arrivals.outcome)
    assert {("none", "raised"), ("none", "never_sent")} <= set(pairs(history))


@pytest.mark.full
def test_a_driver_in_asyncio_has_clients_of_a_closed_loop_too(run, drive):  # noqa: F811
    with serving() as server:
        loop = ClosedConfig(
            name="write", kind="bulk", answer="bulk", clients=3, items=10, helper=HelperConfig(kind=ASYNC)
        )
        driver = drive(
            config(run, server, operations=(READ,), closed=(loop,), kind="opensearch-py", documents=10, timeout=2.0)
        )
        wait_for(lambda: driver.status.get("operations", {}).get("write", {}).get("ok", 0) > 3)
        assert driver.stop()
    history = History.open(run)
    assert set(pairs(history)) == {("created", "stored")}
    frame = history.arrivals
    assert {"read", "write"} == set(frame.op) and set(frame.k[frame.op == "write"] % 2) == {1}


@pytest.mark.full
def test_the_death_of_one_process_is_told_and_leaves_the_others_record(run, drive):  # noqa: F811
    with serving() as server:
        helper = HelperConfig(kind=ASYNC)
        operation = OperationConfig(name="write", kind="bulk", rate=10, items=10, helper=helper)
        driver = drive(config(run, server, operations=(READ, operation), kind="opensearch-py", timeout=2.0))
        wait_for(lambda: driver.status.get("sent_total", 0) > CALLS)
        os.kill(driver.processes[1].pid, signal.SIGKILL)
        wait_for(lambda: not driver.alive)
        assert "driver-asyncio.log" in str(driver.error)
        assert not driver.stop()
    events = [event for event in History.open(run).driver if event["kind"] == "driver.stop"]
    assert [event.get("process", 0) for event in events] == [0]


@pytest.mark.full
def test_the_driver_in_asyncio_has_nothing_of_gevent():
    """Which would patch the standard library under it."""
    code = "import chaos.load.in_asyncio, sys; print({'gevent', 'locust'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
