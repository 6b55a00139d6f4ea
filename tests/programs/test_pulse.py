"""The driver's own beat, and the signs of life of others: what stood still is in the record, and how long."""

from __future__ import annotations

import itertools
import os
import signal
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from load_stub import serving
from programs.test_driver import config, drive, run, wait_for, wait_for_load  # noqa: F401 - two are fixtures

from chaos.base.paths import ProcessIdentity
from chaos.definitions import load_topology
from chaos.history import History
from chaos.load.config import ClientConfig, ClientHost, Instrument, ProbeConfig
from chaos.load.pulse import BEAT_S, EACH, LATE_NS
from chaos.run.execution import Execution
from chaos.targets.labs.base import Manifest
from chaos.targets.labs.local import LocalLab
from chaos.targets.wiring import TOXIPROXY

ROOT = Path(__file__).parents[2]
SECOND = 1_000_000_000
ASKED_EVERY_S = BEAT_S * EACH


@contextmanager
def stopped(pid: int, seconds: float):
    """SIGSTOP around the block and for so long at least; then the yielded list has its first and last moment (ns)."""
    moments: list[int] = []
    os.kill(pid, signal.SIGSTOP)
    try:
        moments.append(time.monotonic_ns())
        yield moments
        time.sleep(max(0.0, seconds - (time.monotonic_ns() - moments[0]) / SECOND))
        moments.append(time.monotonic_ns())
    finally:
        os.kill(pid, signal.SIGCONT)


def pulses(folder) -> list[dict]:
    return [event["pulse"] for event in History.open(folder).driver if "pulse" in event]


def instrument(name: str, server, client: str | None = None) -> Instrument:
    return Instrument(name=name, client=client, host=server.host, port=server.port)


@pytest.mark.parametrize("seconds", [0.3, 0.8, 3.0])
def test_a_driver_that_is_stopped_says_when_and_for_how_long(run, drive, seconds):  # noqa: F811
    with serving() as server:
        driver = drive(config(run, server, kind="pinned"))
        wait_for_load(driver)
        with stopped(driver.pid, seconds) as moments:
            pass
        begin, end = moments
        seen = driver.status["sent_total"]
        wait_for(lambda: driver.status["sent_total"] > seen + 50)
        assert driver.stop()
    found = [each for pulse in pulses(run) for each in pulse.get("own", ())]
    whole = [each for each in found if each[0] <= begin + LATE_NS and each[1] >= end]
    assert len(whole) == 1, (found, begin, end)
    assert whole[0][1] - whole[0][0] >= seconds * SECOND


def test_a_driver_whose_probes_time_out_because_it_was_stopped_takes_no_node_out(run, drive):  # noqa: F811
    """A health check in flight is over its deadline when the driver goes on, and nobody has looked for an answer."""
    probe = ProbeConfig(interval_s=0.05, timeout_s=2.0, down=1)
    with serving() as one, serving() as other:
        driver = drive(config(run, one, other, client=ClientConfig(timeout_s=5.0, probe=probe)))
        wait_for_load(driver)
        for _ in range(2):
            one.freeze()
            time.sleep(0.3)  # a health check is under way, and its time is not over
            with stopped(driver.pid, 2.3):
                one.thaw()
            wait_for(lambda seen=driver.status["t"]: driver.status["t"] > seen)
        assert driver.stop()
    assert [e for e in History.open(run).driver if e["kind"] == "balancer" and not e["healthy"]] == []


@pytest.mark.parametrize("seconds", [0.3, 0.8, 3.0])
def test_a_toxiproxy_that_is_stopped_is_named_with_the_time(run, drive, seconds):  # noqa: F811
    """The stub stands for its API: whatever answers HTTP there shows that the process runs."""
    with serving() as server, serving() as proxy, serving() as other:
        watched = (instrument("client-a", proxy, "a"), instrument("b-data", other))
        driver = drive(config(run, server, kind="pinned", instruments=watched))
        wait_for_load(driver)
        with stopped(proxy.process.pid, seconds) as moments:
            pass
        begin, end = moments
        seen = driver.status["t"]
        wait_for(lambda: driver.status["t"] > seen + SECOND)
        assert driver.stop()
    late = [each for pulse in pulses(run) for each in pulse.get("late", ()) if each[1] < end and each[3] > begin]
    mine = [each for each in late if each[0] == "client-a"]
    assert mine and min(each[1] for each in mine) <= begin + LATE_NS and max(each[3] for each in mine) >= end
    assert min(each[2] for each in mine) <= begin + (ASKED_EVERY_S + 0.1) * SECOND
    assert max(each[3] for each in mine) < end + SECOND
    # a whole machine that is busy keeps the other one waiting for a moment at most, not for as long
    assert not any(each[3] - each[2] > 0.7 * seconds * SECOND for each in late if each[0] == "b-data")


def test_a_toxiproxy_that_is_gone_stands_still_until_another_answers_in_its_place(run, drive):  # noqa: F811
    with serving() as server:
        with serving() as proxy:
            driver = drive(config(run, server, kind="pinned", instruments=(instrument("client-a", proxy, "a"),)))
            wait_for_load(driver)
        gone = time.monotonic_ns()
        wait_for(lambda: driver.status["t"] > gone + SECOND)
        with serving(port=proxy.port):
            back = time.monotonic_ns()
            wait_for(lambda: driver.status["t"] > back + 2 * SECOND)
            assert driver.stop()
    late = [each for pulse in pulses(run) for each in pulse.get("late", ())]
    assert min(each[1] for each in late) <= gone and max(each[3] for each in late) >= back - SECOND // 10
    assert max(each[3] for each in late) < back + SECOND


def test_pulses_are_taken_without_a_break_and_say_nothing_about_what_is_ordinary(run, drive):  # noqa: F811
    with serving() as server, serving() as proxy:
        watched = (instrument("client-a", proxy, "a"), instrument("a-data", proxy))
        driver = drive(config(run, server, clients=(ClientHost(zone="a"),), instruments=watched))
        wait_for_load(driver)
        begin = driver.status["t"]
        wait_for(lambda: driver.status["t"] > begin + 2 * SECOND)
        assert driver.stop()
    found = pulses(run)
    assert len(found) >= 3 and {pulse["of"] for pulse in found} == {2}
    assert all(one["until"] == other["since"] for one, other in itertools.pairwise(found))
    assert found[-1]["until"] > found[0]["since"] + 2 * SECOND
    assert sum(len(pulse.get("own", ())) + len(pulse.get("late", ())) for pulse in found) < 20


@pytest.mark.skipif(os.geteuid() != 0, reason="making a network namespace needs root")
def test_a_toxiproxy_is_asked_where_it_lives(run, drive):  # noqa: F811
    """In its host's network namespace, as in a local lab; nothing listens at that address anywhere else."""
    from pyroute2 import IPRoute, netns

    name = f"pulse-test-{os.getpid()}"  # not as labs are named: those of the dead are taken away
    netns.create(name)
    try:
        with IPRoute(netns=name) as ip:
            ip.link("set", index=1, state="up")
        with serving() as server, serving(netns=name) as proxy:
            there = Instrument(name="a-data", host=proxy.host, port=proxy.port, netns=f"/run/netns/{name}")
            driver = drive(config(run, server, kind="pinned", instruments=(there,)))
            wait_for_load(driver)
            with stopped(proxy.process.pid, 1.0) as moments:
                pass
            begin, end = moments
            wait_for(lambda: driver.status["t"] > end + SECOND)
            assert driver.stop()
    finally:
        netns.remove(name)
    late = [each for pulse in pulses(run) for each in pulse.get("late", ()) if each[1] < end and each[3] > begin]
    assert late and min(each[1] for each in late) <= begin + LATE_NS and max(each[3] for each in late) >= end
    silent = [each for pulse in pulses(run) for each in pulse.get("late", ()) if each[3] - each[2] > 2 * SECOND]
    assert silent == []  # it was reached all the other time


def test_a_run_has_every_toxiproxy_on_its_load_s_way_watched_where_it_lives():
    topology = load_topology("3az-standby", near=ROOT / "experiments" / "x.yaml")
    lab = LocalLab(Manifest("t1", "local", ProcessIdentity.me(), False, None, 0.0), topology)  # type: ignore[arg-type]
    fake = SimpleNamespace(lab=lab, there=None, experiment=SimpleNamespace(client_zones=("a", "b")))
    fake.pulsed = Execution.pulsed.fget(fake)
    nodes = {node.name: None for node in topology.nodes}
    assert fake.pulsed == nodes | {"client-a": "a", "client-b": "b"}
    for host, client in fake.pulsed.items():
        found = Execution.instrument(fake, host)  # type: ignore[arg-type]
        assert (found.name, found.client, found.host, found.port) == (host, client, *TOXIPROXY)
        assert found.netns == f"/run/netns/oschaos-t1-{host}"
