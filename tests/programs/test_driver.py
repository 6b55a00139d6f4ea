"""The driver as a whole, against a stub that answers like OpenSearch: its accounting, its life, its death."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from load_stub import WRONG, Server, serving

from chaos.base.paths import ProcessIdentity
from chaos.base.rates import Profile, ramp, steps
from chaos.history import History
from chaos.history.failures import Failure
from chaos.history.format import ARRIVAL
from chaos.history.format import SCHEDULED as PLANNED
from chaos.history.writer import ARRIVALS, CAS, DRIVER_EVENTS, PROBES, SCHEDULED, STALE
from chaos.load import driver as driving
from chaos.load import drivers
from chaos.load.config import (
    CasConfig,
    ClientConfig,
    ClientHost,
    DriverConfig,
    OperationConfig,
    ProbeConfig,
    Target,
    VisibilityConfig,
)
from chaos.load.driver import Driver, DriverError
from chaos.load.examples import MOST
from chaos.observe.written import Written
from chaos.opensearch.rest import LARGEST

SECOND = 1_000_000_000
KINDS = ["load-balancer", pytest.param("opensearch-py", marks=pytest.mark.full)]
"""Both read answers by the same connections."""


def config(run: Path, *servers: Server, rate=100, kind="load-balancer", timeout=1.0, **more) -> DriverConfig:
    targets = tuple(
        Target(node=f"{zone}-data", zone=zone, host=server.host, port=server.port)
        for zone, server in zip("abc", servers, strict=False)
    )
    client = ClientConfig(
        kind=kind,
        timeout_s=timeout,
        node="a-data" if kind == "pinned" else None,
        probe=ProbeConfig(interval_s=0.2, timeout_s=0.5),
    )
    return DriverConfig(
        **{
            "seed": 1,
            "out": run / "history",
            "operations": (
                OperationConfig(name="read", kind="search", rate=rate),
                OperationConfig(name="write", kind="index", rate=rate),
            ),
            "client": client,
            "clients": (ClientHost(zone="a"),),
            "targets": targets,
            **more,
        }
    )


@pytest.fixture
def run(tmp_path):
    (tmp_path / "plan.json").write_text("{}")
    return tmp_path


@pytest.fixture
def drive(run):
    """Start a driver and let it go; it never outlives the test."""
    started = []

    def start(config: DriverConfig, begins: list[int] | None = None) -> Driver | drivers.Drivers:
        driver = drivers.of(config, run / "logs" / "driver.log")
        started.append(driver)
        driver.start()
        begin = driver.go()
        if begins is not None:
            begins.append(begin)
        return driver

    yield start
    for driver in started:
        driver.kill()


def wait_for(condition, seconds=15.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.05)


def wait_for_load(driver: Driver):
    wait_for(lambda: driver.status.get("sent_total", 0) > 0)


def during(frame, begin, end):
    """The arrivals that began and ended in between."""
    return frame[(frame.intended >= begin) & (frame.start >= begin) & (frame.end < end)]


@pytest.mark.parametrize("kind", ["load-balancer", "opensearch-py"])
def test_clients_that_go_through_a_load_balancer_of_others_ask_it_alone(run, drive, kind):
    """It chooses nodes itself: who is healthy is not our affair, so nothing is probed."""
    with serving() as one, serving() as other:
        clients = (ClientHost(zone="a", through="a-data"), ClientHost(zone="b", through="b-data"))
        driver = drive(config(run, one, other, kind=kind, clients=clients))
        wait_for(lambda: driver.status.get("sent_total", 0) > 50)
        assert driver.stop()
    arrivals = History.open(run).arrivals
    assert {(row.client, row.node) for row in arrivals.itertuples() if row.outcome == "ok"} == {
        ("a", "a-data"),
        ("b", "b-data"),
    }
    assert "balancer" not in {each["kind"] for each in History.open(run).driver}


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.full)])
def test_rates_that_change_are_sent_as_planned(run, drive, processes):
    """Until they are told to change they are as at first, then they are as their pieces say."""
    changes = {"read": ramp(10, 60, 3), "write": steps((0, 20), (1, 0))}
    operations = tuple(
        OperationConfig(name=name, kind=kind, rate=rate, changes=changes[name])
        for name, kind, rate in (("read", "search", 60), ("write", "index", 20))
    )
    with serving() as server:
        begins: list[int] = []
        driver = drive(config(run, server, operations=operations, processes=processes), begins)
        zero = begins[0] + int(2.5 * SECOND)  # two seconds are planned at once
        driver.begin(zero)
        wait_for(lambda: driver.status.get("t", 0) > zero + 4 * SECOND)
        assert driver.stop()
    history = History.open(run)
    told = [each for each in history.driver if each["kind"] == "rates.begin"]
    assert [(each["at"], each["late_ns"]) for each in told] == [(zero, 0)] * processes
    arrivals = history.arrivals
    assert set(arrivals.outcome) == {"ok"}
    for name, pieces in changes.items():
        profile, intended = Profile(pieces), (arrivals[arrivals.op == name].intended - zero) / SECOND
        for second in range(-2, 3):
            expected = profile.number(second + 1) - profile.number(second)
            assert abs(((intended >= second) & (intended < second + 1)).sum() - expected) <= 1


def test_listed_arrivals_are_sent_at_their_times_by_processes_that_share_them(run, drive):
    times = (0.0, 0.25, 0.25, 0.25, 1.5, 2.0)
    read = OperationConfig(name="read", kind="search", rate=20, times=times, before=20)
    with serving() as server:
        begins: list[int] = []
        driver = drive(config(run, server, operations=(read,), processes=2), begins)
        zero = begins[0] + int(2.5 * SECOND)
        driver.begin(zero)
        wait_for(lambda: driver.status.get("t", 0) > zero + 4 * SECOND)
        assert driver.stop()
    arrivals = History.open(run).arrivals
    assert set(arrivals.outcome) == {"ok"}
    since = sorted(arrivals.intended - zero)
    assert [at for at in since if at >= 0] == [round(at * SECOND) for at in times]
    assert abs(sum(-SECOND <= at < 0 for at in since) - 20) <= 1


def test_a_load_that_rests_is_not_planned_far_ahead(run, drive):
    """Where nothing is due for long the driver waits, instead of planning all seconds to come."""
    read = OperationConfig(name="read", kind="search", rate=40, changes=steps((0, 40), (1, 0), (60, 40)))
    with serving() as server:
        begins: list[int] = []
        driver = drive(config(run, server, operations=(read,)), begins)
        driver.begin(begins[0] + 2 * SECOND)
        wait_for(lambda: driver.status.get("t", 0) - begins[0] > 5 * SECOND)
        assert driver.stop()
    assert len(History.open(run).arrivals) == 3 * 40
    assert (run / "history" / SCHEDULED).stat().st_size == 3 * 40 * PLANNED.itemsize


def test_the_status_counts_as_good_what_came_in_time(run, drive):
    """What the guards' floors stand on: an answer that is late is ok, and not good."""
    operations = (
        OperationConfig(name="read", kind="search", rate=50, good_within_s=0.0),
        OperationConfig(name="write", kind="index", rate=50, good_within_s=1000.0),
    )
    with serving() as server:
        driver = drive(config(run, server, operations=operations))
        counted = lambda: driver.status.get("operations", {})  # noqa: E731
        wait_for(lambda: counted().get("read", {}).get("ok", 0) > 0 and counted()["write"]["ok"] > 0)
        said = counted()
        assert said["read"]["good"] == 0 and said["write"]["good"] == said["write"]["ok"]
        assert driver.stop()


def test_every_scheduled_arrival_has_one_outcome_and_each_answer_its_own(run, drive):
    windows = {}
    with serving() as server:
        driver = drive(config(run, server))
        wait_for_load(driver)
        for mode in ("ok", "partial", "429", "503", "reset", "timed_out", "refused"):
            if mode == "refused":
                server.kill()
            else:
                server.mode(mode)
            begin = time.monotonic_ns()
            time.sleep(0.4)
            windows[mode] = (begin, time.monotonic_ns())
        assert driver.stop()
    history = History.open(run)
    frame = history.arrivals
    seen = {mode: during(frame, *window) for mode, window in windows.items()}
    assert all(len(rows) > 20 for rows in seen.values())
    expected = {
        "ok": {("read", "ok", 200), ("write", "ok", 201)},
        "partial": {("read", "partial", 200), ("write", "partial", 201)},
        "429": {("read", "rejected", 429), ("write", "rejected", 429)},
        "503": {("read", "server_error", 503), ("write", "server_error", 503)},
        "reset": {("read", "reset", 0), ("write", "reset", 0)},
        "timed_out": {("read", "partial", 200), ("write", "ok", 201)},
        "refused": {("read", "refused", 0), ("write", "refused", 0)},
    }
    for mode, rows in seen.items():
        found = set(zip(rows.op, rows.outcome, rows.status, strict=True))
        assert found == expected[mode], mode
    assert set(frame.node) == {"a-data"} and set(frame.client) == {"a"} and set(frame.attempts) == {1}
    why = {mode: {(row.op, Failure(row.failure)) for row in rows.itertuples()} for mode, rows in seen.items()}
    assert why == {
        "ok": {("read", Failure.NONE), ("write", Failure.NONE)},
        "partial": {("read", Failure.NO_SHARD), ("write", Failure.COPY_FAILED)},
        "429": {("read", Failure.OTHER_REJECTION), ("write", Failure.OTHER_REJECTION)},
        "503": {("read", Failure.OTHER_REJECTION), ("write", Failure.OTHER_REJECTION)},
        "reset": {("read", Failure.CONNECTION_RESET), ("write", Failure.CONNECTION_RESET)},
        "timed_out": {("read", Failure.SEARCH_TIMED_OUT), ("write", Failure.NONE)},
        "refused": {("read", Failure.CONNECTION_REFUSED), ("write", Failure.CONNECTION_REFUSED)},
    }
    assert not frame.failure[frame.outcome == "ok"].any()
    assert frame.failure[frame.outcome != "ok"].all()

    stop = next(event for event in history.driver if event["kind"] == "driver.stop")
    assert stop["reason"] == "stopped"
    assert not (frame.outcome == "unknown").any()
    assert list(frame.k) == list(range(len(frame)))
    assert frame.intended.max() <= stop["stopped_ns"] < frame.intended.max() + SECOND // 50
    assert (frame.start >= frame.intended).all() and (frame.end >= frame.start).all()
    own = [event for event in history.driver if event["kind"] == "self"]
    assert own and all({"cpu", "lag_p99_ms", "in_flight", "dropped"} <= set(event) for event in own)
    first = [(event["op"], event["status"]) for event in history.driver if event["kind"] == "answer.error"]
    assert sorted(set(first)) == sorted(itertools.product(("read", "write"), (429, 503)))
    counted = {}
    for event in (*own, stop):
        for op, status, *_, number in event.get("errors", ()):
            counted[op, status] = counted.get((op, status), 0) + number
    for op, status in first:  # each answer once, whatever else became of its arrival
        assert counted[op, status] == int(((frame.op == op) & (frame.status == status)).sum())
    slices = [each for event in own for each in event["processors"]]
    assert all(start < end and 0 <= busy <= 1 for start, end, busy in slices)
    assert all(one[1] == other[0] for one, other in itertools.pairwise(slices))


GARBLED = {
    "html": 200,
    "invalid_utf8": 200,
    "surrogate": 200,
    "empty": 200,
    "list": 200,
    "object": 200,
    "mistyped": 200,
    "nested": 200,
    "truncated": 200,
    "shorter": 200,
    "no_number": 200,
    "two_lengths": 0,
    "announced": 200,
    "bad_chunk": 200,
    "negative_chunk": 200,
    "cut_chunk": 200,
    "no_http": 0,
    "bad_header": 200,
    "half_head": 200,
    "bad_gzip": 200,
}
"""Mode of the stub → the status on record; 0: none could be read."""
OTHERWISE = {"closed": ("reset", 0), "torn": ("reset", 0), "listed_error": ("server_error", 500)}
"""What must not be taken for it."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_form_of_a_garbled_answer_has_that_name(run, drive, kind):
    """And is answered, never good, never unknown; a garbled write is open: neither acknowledged nor refused."""
    windows = {}
    with serving() as server:
        driver = drive(config(run, server, rate=20, kind=kind, timeout=10))
        wait_for_load(driver)
        for mode in (*GARBLED, *OTHERWISE, "ok"):
            server.mode(mode)
            begin = time.monotonic_ns()
            wait_for(lambda begin=begin: min(recorded(run, begin)) >= 3, 60)
            windows[mode] = (begin, time.monotonic_ns())
        assert driver.stop()
    history = History.open(run)
    frame = history.arrivals
    seen = {mode: during(frame, *window) for mode, window in windows.items()}
    expected = {mode: ("garbled", status) for mode, status in GARBLED.items()} | OTHERWISE
    expected["two_lengths"] = ("garbled", 200)  # the load's parser has read the first line before it sees the two
    for mode, (outcome, status) in expected.items():
        rows = seen[mode]
        assert set(rows.op) == {"read", "write"}, mode
        assert set(zip(rows.outcome, rows.status, strict=True)) == {(outcome, status)}, mode
        assert rows.latency_ms.notna().all(), mode
    assert set(seen["ok"].outcome) == {"ok"}  # and no connection was spoiled for those who came later
    assert not (frame.outcome == "unknown").any()
    written = Written.of(history, documents=0)
    for k in frame[(frame.op == "write") & (frame.outcome == "garbled")].k:
        assert f"w-{k}" in written.open - written.acknowledged - written.refused
    assert not (run / "history" / "stale.jsonl").exists()


def one_after_the_other(run, server, *modes):
    """What became of a few reads and writes in each of these modes."""
    windows = {}
    for mode in modes:
        server.mode(mode)
        begin = time.monotonic_ns()
        wait_for(lambda begin=begin: min(recorded(run, begin)) >= 2, 90)
        windows[mode] = (begin, time.monotonic_ns())
    server.mode("ok")
    return windows


def test_an_answer_without_end_is_bounded_in_bytes(run, drive):
    with serving() as server:
        driver = drive(config(run, server, rate=2, timeout=30.0))
        wait_for_load(driver)
        before = memory(driver)
        windows = one_after_the_other(run, server, "endless", "bomb")
        assert memory(driver, peak=True) - before < 12 * LARGEST
        assert driver.stop()
    frame = History.open(run).arrivals
    for mode, window in windows.items():
        rows = during(frame, *window)
        assert set(zip(rows.outcome, rows.status, strict=True)) == {("garbled", 200)}, mode


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_without_end_is_bounded_in_time(run, drive, kind):
    """It might come yet, so it is no garbled one: only the time is over."""
    timeout = 2.0
    with serving() as server:
        driver = drive(config(run, server, rate=2, timeout=timeout, kind=kind))
        wait_for_load(driver)
        windows = one_after_the_other(run, server, "trickle", "longer")
        assert driver.stop()
    frame = History.open(run).arrivals
    for mode, window in windows.items():
        rows = during(frame, *window)
        assert set(zip(rows.outcome, rows.status, strict=True)) == {("timeout", 0)}, mode
        assert ((rows.end - rows.start) >= 0.9 * timeout * SECOND).all(), mode
    assert not (frame.outcome == "unknown").any()


def memory(driver: Driver, *, peak: bool = False) -> int:
    """Bytes that the driver has, or has had at most, in memory."""
    text = Path(f"/proc/{driver.pid}/status").read_text()
    return 1024 * int(re.search(rf"{'VmHWM' if peak else 'VmRSS'}:\s+(\d+)", text)[1])


def recorded(run: Path, begin: int, operations: int = 2) -> list[int]:
    """How many of each operation (reads and writes) that were sent since have an outcome on disk."""
    file = run / "history" / "arrivals.bin"
    rows = np.fromfile(file, ARRIVAL, file.stat().st_size // ARRIVAL.itemsize)
    return [int((rows["op"][rows["start"] >= begin] == op).sum()) for op in range(operations)]


def test_a_frozen_server_costs_exactly_the_arrivals_that_it_kept_waiting_too_long(run, drive):
    rate, timeout = 100, 1.0
    with serving() as server:
        driver = drive(config(run, server, rate=rate, timeout=timeout, kind="pinned"))
        wait_for_load(driver)
        server.freeze()
        frozen = time.monotonic_ns()
        time.sleep(3)
        server.thaw()
        thawed = time.monotonic_ns()
        time.sleep(0.3)
        assert driver.stop()
    frame = History.open(run).arrivals
    held = frame[(frame.intended >= frozen) & (frame.intended < thawed)]
    scheduled = 2 * rate * (thawed - frozen) / SECOND
    assert abs(len(held) - scheduled) <= 2  # a closed loop would have sent a handful
    hopeless = held[held.intended < thawed - 1.1 * timeout * SECOND]
    assert set(hopeless.outcome) == {"timeout"}  # whoever came more than a timeout before the thaw: all of them
    assert abs(len(hopeless) - 2 * rate * ((thawed - frozen) / SECOND - 1.1 * timeout)) <= 2
    bad = frame[frame.outcome != "ok"]
    assert set(bad.outcome) == {"timeout"}  # nothing else went wrong
    assert (bad.end > frozen).all()  # and nobody was hurt who was answered before the freeze
    waited = frame[(frame.outcome == "ok") & (frame.intended >= frozen) & (frame.intended < thawed)]
    assert waited.latency_ms.max() > 500  # and those that were answered late say so


def test_a_full_pool_drops_and_says_so(run, drive):
    with serving() as server:
        driver = drive(config(run, server, kind="pinned", pool=5))
        wait_for_load(driver)
        server.freeze()
        wait_for(lambda: driver.status["dropped_total"] > 20)
        waiting = lambda: sum(each["waiting"] for each in driver.status["operations"].values())  # noqa: E731
        wait_for(lambda: waiting() == driver.status["in_flight"] == 5)
        server.thaw()
        wait_for(lambda: waiting() == 0)
        assert driver.stop()
    frame = History.open(run).arrivals
    dropped = frame[frame.outcome == "dropped"]
    assert len(dropped) > 20
    assert dropped.latency_ms.isna().all() and dropped.node.isna().all() and (dropped.end == 0).all()
    assert not (frame.outcome == "unknown").any()


def test_the_balancer_takes_a_dead_node_out_and_back(run, drive):
    with serving() as steady:
        with serving() as shaky:
            driver = drive(config(run, steady, shaky))
            wait_for_load(driver)
            assert driver.status["in_use"] == {"a": ["a-data", "b-data"]}
        wait_for(lambda: driver.status["in_use"] == {"a": ["a-data"]})
        with serving(port=shaky.port):
            wait_for(lambda: driver.status["in_use"] == {"a": ["a-data", "b-data"]})
            assert driver.stop()
    history = History.open(run)
    changes = [
        (event["healthy"], event["says"])
        for event in history.driver
        if event["kind"] == "balancer" and event["node"] == "b-data"
    ]
    assert changes == [(True, "HTTP 200"), (False, "connection refused"), (True, "HTTP 200")]
    frame = history.arrivals
    assert set(frame[frame.outcome != "ok"].node) == {"b-data"}


def test_the_librarys_own_policy_hides_a_dead_node_and_its_attempts_are_counted(run, drive):
    with serving() as steady, serving() as dead:
        driver = drive(config(run, steady, dead, kind="opensearch-py"))
        wait_for_load(driver)
        dead.kill()
        time.sleep(0.5)
        assert driver.stop()
    frame = History.open(run).arrivals
    tail = frame[frame.intended > frame.intended.max() - SECOND // 4]
    assert set(tail.outcome) == {"ok"} and set(tail.node) == {"a-data"}
    assert (frame.attempts > 1).any()


def test_what_the_librarys_own_policy_sends_again_is_counted_by_each_of_its_tries(run, drive):
    with serving() as steady, serving() as busy:
        busy.mode("503")
        driver = drive(config(run, steady, busy, kind="opensearch-py"))
        wait_for_load(driver)
        assert driver.stop()
    history = History.open(run)
    frame = history.arrivals
    again = frame[frame.attempts > 1]
    assert len(again) and set(again.outcome) == {"ok"} and set(again.node) == {"a-data"}
    told = Counter()
    for event in history.driver:
        for op, status, type_, _, number in event.get("errors", ()):
            told[op, status, type_] += number
    assert {(status, type_) for _, status, type_ in told} == {(503, "rejected_execution_exception")}
    assert sum(told.values()) >= len(again)
    assert {each["node"] for each in history.driver if each["kind"] == "answer.error"} == {"b-data"}


def test_the_librarys_own_policy_asks_every_node_for_everything(run, drive):
    """Its round robin counts for each thread, which under gevent is each request: all went to the first node. And one
    counter for reads and writes that alternate would send all of the one here, and all of the other there."""
    with serving() as one, serving() as two:
        driver = drive(config(run, one, two, kind="opensearch-py"))
        wait_for_load(driver)
        assert driver.stop()
    asked = History.open(run).arrivals.groupby(["op", "node"], observed=True).size()
    assert len(asked) == 4 and asked.max() - asked.min() <= 4


def test_a_killed_driver_leaves_unknown_arrivals(run, drive):
    with serving() as server:
        driver = drive(config(run, server))
        wait_for_load(driver)
        driver.kill()
        assert not driver.alive and not driver.stop() and driver.error
    frame = History.open(run).arrivals
    unknown = frame[frame.outcome == "unknown"]
    assert len(unknown) >= 100  # the schedule is a second ahead
    assert (frame.outcome == "ok").sum() > 0
    assert unknown.latency_ms.isna().all() and (unknown.end == 0).all()


PARENT = """
import sys, threading, time
from pathlib import Path
from chaos.load.config import DriverConfig
from chaos.load.driver import Driver
driver = Driver(DriverConfig.model_validate_json(sys.argv[1]), Path(sys.argv[2]))
if sys.argv[3] == "thread":
    starter = threading.Thread(target=driver.start)
    starter.start()
    starter.join()
else:
    driver.start()
driver.go()
time.sleep(1.2)
print(driver.pid if driver.alive else 0, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("started_from", ["main", "thread"])
def test_the_driver_dies_with_its_parent(run, started_from):
    with serving() as server:
        parent = subprocess.Popen(
            [
                sys.executable,
                "-c",
                PARENT,
                config(run, server).model_dump_json(),
                str(run / "log"),
                started_from,
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        with parent:
            driver = ProcessIdentity.of(int(parent.stdout.readline()))
            parent.kill()
        wait_for(lambda: not driver.alive())
    history = History.open(run)
    stop = history.driver[-1]
    assert stop["kind"] == "driver.stop" and stop["reason"] in ("the parent is gone", "terminated")
    assert (history.arrivals.outcome == "ok").sum() > 50


def test_a_driver_that_cannot_start_says_why(run):
    broken = config(
        run, Server("127.0.0.1", 9, None), clients=(ClientHost(zone="a", netns="/run/netns/there-is-none"),)
    )
    driver = Driver(broken, run / "log")
    with pytest.raises(DriverError, match="there-is-none"):
        driver.start()
    assert not driver.alive


@pytest.mark.parametrize(
    ("name", "log"),
    [
        (ARRIVALS, "log"),
        *((name, "/dev/full") for name in (ARRIVALS, SCHEDULED, DRIVER_EVENTS, CAS)),
        # written as CAS is, by the same class
        *(pytest.param(name, "/dev/full", marks=pytest.mark.full) for name in (PROBES, STALE)),
    ],
)
def test_a_record_that_cannot_be_written_ends_the_driver_at_once_and_its_parent_hears_why(run, name, log):
    """Any file of it, and also where the driver can print nothing any more."""
    (run / "history").mkdir()
    (run / "history" / name).symlink_to("/dev/full")
    told: list[str] = []
    checks = {"cas": CasConfig(rate=10, keys=2), "visibility": VisibilityConfig(rate=5, within_s=1)}
    with serving() as server:
        driver = Driver(config(run, server, documents=100, **checks), run / log, told.append)
        try:
            if name == DRIVER_EVENTS:  # the first line of all
                with pytest.raises(DriverError, match=f"{name}: No space left"):
                    driver.start()
                return
            driver.start()
            if name == STALE:
                server.mode("stale")
            driver.go()
            wait_for(lambda: told and not driver.alive)
            assert told == [f"the load driver ended: the record cannot be written: {name}: No space left on device"]
            assert not driver.stop() and "No space left" in driver.error
        finally:
            driver.kill()
    if name != ARRIVALS:  # the other files are closed in order
        stop = next(event for event in History.open(run).driver if event["kind"] == "driver.stop")
        assert "No space left" in stop["reason"]


def test_a_driver_that_dies_is_told_once_and_one_that_is_stopped_never(run):
    told: list[str] = []
    with serving() as server:
        driver = Driver(config(run, server), run / "log", told.append)
        with driver:
            driver.go()
            wait_for_load(driver)
        assert not driver.alive and told == []
        driver = Driver(config(run, server), run / "log", told.append)
        with driver:
            os.kill(driver.pid, signal.SIGKILL)
            wait_for(lambda: told)
        assert len(told) == 1 and "the load driver died: exit code -9" in told[0]


def test_a_driver_that_stands_still_has_given_no_sign_of_life(run, monkeypatch):
    """It is told while it stands, and ended without being asked first."""
    monkeypatch.setattr(driving, "SILENT_SECONDS", 2.0)
    told: list[str] = []
    with serving() as server:
        driver = Driver(config(run, server), run / "log", told.append)
        try:
            driver.start()
            driver.go()
            wait_for_load(driver)
            time.sleep(2.5)
            assert told == []  # it speaks every second
            identity = ProcessIdentity.of(driver.pid)
            os.kill(driver.pid, signal.SIGSTOP)
            wait_for(lambda: told)
            assert told == ["the load driver has given no sign of life for 2 s (its process is stopped)"]
            assert not driver.stop() and not identity.alive()
            assert len(told) == 1
        finally:
            driver.kill()


LISTENER = """
import sys, time
from pathlib import Path
from chaos.load import driver as driving
from chaos.load import drivers
from chaos.load.config import DriverConfig
driving.SILENT_SECONDS = 2.0
told = []
driver = driving.Driver(DriverConfig.model_validate_json(sys.argv[1]), Path(sys.argv[2]), told.append)
driver.start()
driver.go()
print("going", flush=True)
sys.stdin.readline()
time.sleep(1.5)
print(told, driver.alive, flush=True)
driver.kill()
"""


def test_a_runner_that_stood_still_itself_does_not_take_its_driver_for_silent(run):
    with serving() as server:
        arguments = [sys.executable, "-c", LISTENER, config(run, server).model_dump_json(), str(run / "log")]
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as runner:
            assert runner.stdout.readline() == "going\n"
            os.kill(runner.pid, signal.SIGSTOP)
            time.sleep(4)
            os.kill(runner.pid, signal.SIGCONT)
            assert runner.communicate("\n", timeout=30)[0] == "[] True\n"


def test_ctrl_c_does_not_reach_it_and_the_users_locust_settings_neither(run, drive, monkeypatch):
    monkeypatch.setenv("LOCUST_USERS", "50")
    monkeypatch.setenv("LOCUST_RUN_TIME", "1s")
    monkeypatch.setenv("HOME", str(run))
    (run / ".locust.conf").write_text("users = 7\nrun-time = 1s\n")
    with serving() as server:
        driver = drive(config(run, server, rate=20))
        assert os.getpgid(driver.pid) != os.getpgid(0)
        time.sleep(2)
        assert driver.alive
        assert driver.stop()
    frame = History.open(run).arrivals
    assert frame.groupby("op", observed=True).k.count().max() <= 60


@pytest.mark.skipif(os.geteuid() != 0, reason="making a network namespace needs root")
def test_clients_live_in_their_network_namespaces(run, drive):
    from pyroute2 import IPRoute, netns

    names = [f"oschaos-test-{os.getpid()}-{zone}" for zone in "ab"]
    made = []
    try:
        for name in names:
            netns.create(name)
            made.append(name)
            with IPRoute(netns=name) as ip:
                ip.link("set", index=1, state="up")
        with serving(netns=names[0]) as server:
            clients = tuple(
                ClientHost(zone=zone, netns=f"/run/netns/{name}") for zone, name in zip("ab", names, strict=True)
            )
            driver = drive(config(run, server, clients=clients))
            time.sleep(1.2)
            assert driver.stop()
    finally:
        for name in made:
            netns.remove(name)
    frame = History.open(run).arrivals
    assert set(frame[frame.client == "a"].outcome) == {"ok"}  # where the server is
    assert set(frame[frame.client == "b"].outcome) == {"refused"}  # the same address in another namespace
    assert min(frame.groupby("client", observed=True).k.count()) > 50


def test_stopping_waits_for_requests_under_way(run, drive):
    with serving() as server:
        driver = drive(config(run, server, kind="pinned"))
        wait_for_load(driver)
        server.freeze()
        time.sleep(0.3)
        assert driver.stop()
    frame = History.open(run).arrivals
    assert not (frame.outcome == "unknown").any()
    assert (frame.outcome == "timeout").sum() > 20


OPERATIONS = {"search": "read", "get": "other", "index": "write"}


def test_every_wrong_answer_is_not_good_and_is_named(run, drive):
    """A node that answers in time, in full and in order, and not what was asked for: each kind by itself."""
    operations = tuple(OperationConfig(name=name, kind=kind, rate=20) for kind, name in OPERATIONS.items())
    windows = {}
    with serving(documents=2000) as server:
        driver = drive(config(run, server, operations=operations, documents=2000, shards=3, copies=3, timeout=10))
        wait_for_load(driver)
        for mode in ("ok", *WRONG, "another_404"):
            server.mode(mode)
            begin = time.monotonic_ns()
            wait_for(lambda begin=begin: min(recorded(run, begin, 3)) >= 3, 60)
            windows[mode] = (begin, time.monotonic_ns())
        assert driver.stop()
    history = History.open(run)
    frame = history.arrivals
    kinds = {mode: kind for mode, (kind, _) in WRONG.items()} | {"another_404": "get"}
    for mode, window in windows.items():
        rows = during(frame, *window)
        hit = rows.op == OPERATIONS.get(kinds.get(mode))
        outcome = "partial" if mode == "two_copies" else "wrong"
        assert set(rows[hit].outcome) == (set() if mode == "ok" else {outcome}), mode
        assert set(rows[~hit].outcome) == {"ok"}, mode
    (stop,) = [event for event in history.driver if event["kind"] == "driver.stop"]
    told = Counter(event["op"] for event in history.wrong)
    assert stop["wrong"].keys() == told.keys() == set(OPERATIONS.values())
    assert stop["wrong"]["read"] == (frame[frame.op == "read"].outcome == "wrong").sum()
    assert max(told.values()) <= MOST and all(event["node"] == "a-data" and event["says"] for event in history.wrong)
    said = " ".join(event["says"] for event in history.wrong)
    for words in ("0 hits of 20", "0 of 0 shards", "1 shards", "twice", 'the _id "x"', 'the _index "other"'):
        assert words in said, words
    fates = Written.of(history, documents=0)
    wrong = frame[(frame.op == "write") & (frame.outcome == "wrong")]
    assert {f"w-{k}" for k in wrong.k} <= fates.open, "nobody acknowledged them, and they may be there"


def test_a_node_that_shows_what_was_true_before_the_load_is_stale(run, drive):
    """Every shard answers, every hit is right, and no document that was acknowledged meanwhile is counted."""
    with serving(documents=2000) as server:
        driver = drive(config(run, server, documents=2000, shards=3, copies=3, visible_after_s=0.2, timeout=10))
        wait_for_load(driver)
        begin = time.monotonic_ns()
        wait_for(lambda: min(recorded(run, begin)) >= 20, 60)
        end = time.monotonic_ns()
        server.mode("before")
        since = time.monotonic_ns()
        wait_for(lambda: sum(1 for _ in History.open(run).stale) >= 5, 60)
        assert driver.stop()
    history = History.open(run)
    frame = history.arrivals
    assert set(during(frame, begin, end).outcome) == {"ok"} and not history.wrong
    late = frame[frame.outcome == "partial"]
    assert set(late.op) == {"read"} and len(late) == len(history.stale) >= 5
    assert (late.end > since).all() and {event["node"] for event in history.stale} == {"a-data"}
