"""The whole way of a stoppage: real driver, real Toxiproxies, a stub for the node; stopped, recorded, judged."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from load_stub import serving
from programs.test_driver import drive, run, wait_for, wait_for_load  # noqa: F401 - two are fixtures
from programs.test_pulse import stopped

from chaos.base.netsock import Endpoint
from chaos.checks import good, standing
from chaos.checks.forgiving import Doubt
from chaos.checks.measure import Verdict, judge
from chaos.checks.record import Record
from chaos.history import EventWriter, History
from chaos.load.config import ClientConfig, ClientHost, DriverConfig, Instrument, OperationConfig, Target
from chaos.provision.toxiproxy import find_toxiproxy
from chaos.targets.labs.toxiproxy import ToxiproxyServer, environment
from chaos.targets.wiring import Proxy

SECOND = 1_000_000_000
TARGET = 0.995
FOUND = find_toxiproxy()
pytestmark = [
    pytest.mark.full,  # who stands still for how long is shown on a machine that is not busy
    pytest.mark.skipif(FOUND is None, reason="Toxiproxy has not been built here yet"),
]
WHO = {
    "driver": "the load driver",
    "client-a": "the Toxiproxy of client zone a",
    "a-data": "the Toxiproxy of node a-data",
    "node": None,
}


def free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@contextmanager
def toxiproxy(listen: int, upstream: int) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """One with one proxy; its process and the port of its API."""
    assert FOUND is not None
    (api,) = free_ports(1)
    command = [str(FOUND.path), "-host", "127.0.0.1", "-port", str(api)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            server = ToxiproxyServer("test", Endpoint("127.0.0.1", api))
            wait_for(lambda: answers(server))
            server.populate([Proxy("way", f"127.0.0.1:{listen}", f"127.0.0.1:{upstream}")])
            yield process, api
        finally:
            process.kill()


def answers(server: ToxiproxyServer) -> bool:
    try:
        return bool(server.version())
    except Exception:
        return False


def plan(folder: Path) -> None:
    load = {"read": {"rate": 100, "good_within": 0.2, "operation": "search"}, "client": {"timeout": 5.0}}
    pulsed = {"client-a": "a", "a-data": None}
    # elsewhere: on a lab of this machine its processors could be what decides, where other tests run beside this one
    content = {"experiment": {"load": load, "phases": []}, "lab": {"kind": "elsewhere", "pulsed": pulsed}}
    (folder / "plan.json").write_text(json.dumps(content))


FULL = pytest.mark.full


@pytest.mark.parametrize("seconds", [pytest.param(0.3, marks=FULL), 0.8, pytest.param(3.0, marks=FULL)])
@pytest.mark.parametrize("faulty", [pytest.param(True, marks=FULL, id="fault"), pytest.param(False, id="no fault")])
@pytest.mark.parametrize("who", WHO)
def test_whoever_is_stopped_is_found_and_a_node_is_not_excused(run, drive, who, faulty, seconds):  # noqa: F811
    """``faulty``: a toxic of 60 ms is on the way all the time, which answers that are on time do not mind."""
    plan(run)
    inner, outer = free_ports(2)
    with serving() as node, toxiproxy(inner, node.port) as (ingress, api), toxiproxy(outer, inner) as (egress, api_out):
        if faulty:
            slow = ToxiproxyServer("test", Endpoint("127.0.0.1", api_out))
            slow.add_toxic("way", "slow", "latency", "downstream", {"latency": 60})
        driver = drive(configured(run, outer, api, api_out))
        wait_for_load(driver)
        with EventWriter(run / "history" / "events.jsonl") as events:
            events.write("load.start")
            events.write("phase.start", phase="stopped", index=0)
            time.sleep(0.5)
            pids = {"driver": driver.pid, "client-a": egress.pid, "a-data": ingress.pid, "node": node.process.pid}
            with stopped(pids[who], seconds) as moments:
                pass
            gone_on = time.monotonic_ns()
            wait_for(lambda: driver.status["t"] > gone_on + round((seconds + 2) * SECOND), 60)
            events.write("phase.end", phase="stopped", reason="elapsed")
        assert driver.stop()
    record = Record(History.open(run))
    (span,) = record.spans
    unless_too_busy(record, moments[0], gone_on + round((seconds + 1) * SECOND), who)

    def measured(some: Record):
        return good.measure(some, "read", span, ">=", TARGET)

    found = measured(record)
    assert judge(found, ">=", TARGET) is Verdict.FAIL, found  # else the stop was not felt, and nothing is shown
    hangs = Doubt(record).decides(measured, lambda other: judge(other, ">=", TARGET) is Verdict.FAIL, span)
    name = WHO[who]
    if name is None:
        assert hangs is None, hangs
    else:
        assert hangs is not None, (found, record.driver)
        assert f"{name} stood still" in hangs[1], hangs
        assert judge(hangs[0], ">=", TARGET) is Verdict.PASS


def unless_too_busy(record: Record, begin: int, end: int, who: str) -> None:
    """Skip where nothing can be shown: reads were not good without any stop, or the driver stood still by itself."""
    rest = record.arrivals["read"]
    good_ones = np.concatenate([part.good for part in (rest.between(0, begin - SECOND // 5), rest.between(end, 2**62))])
    own = [each for each in standing.stoppages(record) if each.who == standing.DRIVER and begin < each.end < end]
    busy = 0.0 if who == "driver" else sum(each.seconds for each in own)
    if not len(good_ones) or good_ones.mean() < 0.95 or busy > 0.1:
        pytest.skip(
            f"this machine is too busy: {good_ones.mean():.0%} good without a stop, {busy:.1f} s without a turn"
        )


def configured(folder: Path, port: int, api: int, api_out: int) -> DriverConfig:
    return DriverConfig(
        seed=1,
        out=folder / "history",
        operations=(OperationConfig(name="read", kind="search", rate=100, good_within_s=0.2),),
        client=ClientConfig(kind="pinned", node="a-data"),
        clients=(ClientHost(zone="a"),),
        targets=(Target(node="a-data", zone="a", host="127.0.0.1", port=port),),
        instruments=(
            Instrument(name="client-a", client="a", host="127.0.0.1", port=api_out),
            Instrument(name="a-data", host="127.0.0.1", port=api),
        ),
    )


@pytest.mark.parametrize(("processors", "servers", "share"), [(2, 9, "1"), (64, 9, "7"), (4, 1, "4"), (1, 0, "1")])
def test_toxiproxies_share_the_processors(
    monkeypatch: pytest.MonkeyPatch, processors: int, servers: int, share: str
) -> None:
    monkeypatch.setattr("chaos.targets.labs.usable.here", lambda: processors)
    assert environment(servers)["GOMAXPROCS"] == share
