"""Processes that end unasked: by a third hand, by the kernel, of an error of their own. The run says which and ends."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import urllib3
from clusterkit import DATA, Cli, await_event, cli, events, findings, in_effect, nothing_left, run_folder

from chaos.history import ends
from chaos.observe.proof import problems
from chaos.opensearch.views import await_green
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until
from chaos.targets.limits import Limits

SLOW = DATA / "slow.yaml"
NODE = "b-all"


def ended(out: Path) -> dict:
    """The one end that nobody had asked for."""
    (fact,) = [event for event in events(out) if event["kind"] == ends.KIND and not event["commanded"]]
    return fact


def run_until(lab: LocalLab, out: Path, strike: Callable[[Cli], None], experiment: Path = SLOW) -> tuple[int, str]:
    """A run on ``lab`` with something done to it while its fault is in effect, which would be so for minutes.

    Its objectives are generous: nothing here is about latency, and a busy machine is to be warm soon.
    """
    held = out.parent / experiment.name
    text = experiment.read_text().replace("topology: tiny", f"topology: {DATA / 'tiny.yaml'}")
    text = text.replace("slow:     {for: 20s,", "slow:     {for: 5m,").replace("ok within 100ms", "ok within 4s")
    held.write_text(text)
    assert "for: 5m" in held.read_text()
    running = Cli("run", held, "--out", out, "--on", lab.id)
    await_event(running, out, in_effect)
    strike(running)
    return running.end(240)


def told_everywhere(out: Path, outcome: str, *words: str) -> dict:
    """The findings; what ended, and how, is in the headline, in the reasons and in every file."""
    found = findings(out)
    assert found["outcome"] == outcome, found["reasons"]
    files = [(run_folder(out) / name).read_text() for name in ("report.html", "junit.xml", "summary.md")]
    reasons = [reason["says"] for reason in found["reasons"] if reason["outcome"] == outcome]
    for word in words:
        assert word in found["summary"] and word in reasons[0], (found["summary"], reasons)
        assert all(word in file.replace("\\", "") for file in files), word
    return found


def ended_at_once(out: Path) -> None:
    """Nothing was begun after it, nothing was waited for, and what was there was read back."""
    stages = [event["name"] for event in events(out) if event["kind"] == "stage"]
    assert "settle" not in stages and stages[-2:] == ["read-back", "lab away"]
    assert [event["phase"] for event in events(out) if event["kind"] == "phase.start"][-1] == "slow"
    readback = json.loads((run_folder(out) / "history" / "readback.json").read_text())
    assert readback["lost_count"] == 0 and len(readback["copies"]) >= 2


def back(lab: LocalLab) -> None:
    """The lab as it was."""
    lab.start_node(NODE)
    assert await_green(lab, 120)[0]
    assert problems(lab) == [] and nothing_left() == []


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV], ids=lambda number: number.name)
def test_a_node_that_a_third_hand_ends(tiny, out, number):
    code, output = run_until(tiny, out, lambda _: os.kill(tiny.identity(NODE).pid, number))
    assert code == 3, output
    name = "SIGABRT" if number is signal.SIGSEGV else number.name  # the JVM writes its report and aborts
    found = told_everywhere(out, "inconclusive", f"ode {NODE} was ended from outside ({name}")
    assert found["clean"] is True
    fact = ended(out)
    assert (fact["signal"], fact["exit_code"], fact["oom_kill"]) == (name, None, False)
    assert (fact["report"] is not None) is (number is signal.SIGSEGV)
    assert fact["log_tail"]
    ended_at_once(out)
    back(tiny)


NO_BREAKERS = """
  slow:     {for: 20s, inject: {network.latency: {links: around zone c, delay: 200ms}, settings.change: {scope: cluster,
             settings: {indices.breaker.total.limit: 100gb, network.breaker.inflight_requests.limit: 100gb}}}}"""
"""Of the phase that lasts: the breakers must be off by the run's own hand, or a third one has changed settings."""


def too_much(lab: LocalLab) -> None:
    """More than a heap of 256 MiB holds, in requests of less than HTTP takes at most, and no breaker in the way."""
    body = '{}\n{"query": {"ids": {"values": ["' + "x" * (95 << 20) + '"]}}}\n'

    def ask() -> None:
        client = lab.client(NODE, timeout=60.0)
        with suppress(urllib3.exceptions.HTTPError):
            client.request("POST", "/_msearch", body=body)
        client.close()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.fixture
def without_breakers(tmp_path):
    """The slow experiment, in which no breaker is in the way."""
    text = re.sub(r"\n  slow: .*", lambda _: NO_BREAKERS, SLOW.read_text())
    file = tmp_path / "in" / SLOW.name
    file.parent.mkdir()
    file.write_text(text.replace("undo: network.latency", "undo: all"))
    return file


@pytest.mark.full
def test_a_node_that_dies_of_its_heap_is_a_weakness(tiny, out, without_breakers):
    """A fatal error of OpenSearch itself: nobody ends the node, it does."""
    code, output = run_until(tiny, out, lambda _: too_much(tiny), without_breakers)
    assert code == 1, output
    told_everywhere(
        out, "weakness", f"Node {NODE} ended by itself (exit code 127; fatal error in thread", "OutOfMemory"
    )
    assert any("OutOfMemoryError" in line for line in ended(out)["log_tail"])
    ended_at_once(out)
    back(tiny)


@pytest.mark.full
def test_a_fatal_error_of_the_jvm_is_a_weakness(tiny, out, without_breakers, monkeypatch):
    """The JVM itself gives up: its report goes with the run, and nobody sent the signal that it names."""
    command = tiny._command
    tiny.kill_node(NODE)
    monkeypatch.setattr(
        tiny, "_command", lambda node: [*command(node)[:1], "-XX:+CrashOnOutOfMemoryError", *command(node)[1:]]
    )
    tiny.start_node(NODE)
    monkeypatch.undo()
    assert await_green(tiny, 120)[0]
    code, output = run_until(tiny, out, lambda _: too_much(tiny), without_breakers)
    assert code == 1, output
    told_everywhere(out, "weakness", f"Node {NODE} ended by itself (SIGABRT")
    fact = ended(out)
    assert fact["report"] and "OutOfMemory" in fact["fatal"] and not fact["sent"]
    assert "OutOfMemory" in (run_folder(out) / "logs" / fact["report"]).read_text()
    ended_at_once(out)
    back(tiny)


@pytest.mark.full
def test_a_node_that_the_kernel_kills_for_memory_behind_our_back(tiny, out):
    """A limit that no fault of ours has set."""
    if lacking := tiny.lacks("memory"):
        pytest.skip(lacking)
    group = tiny._group_of(NODE)
    limits = Limits(tiny.groups)

    def strangle(_: Cli) -> None:
        alone = tiny.memory_use(NODE).held
        with tiny._consumers(NODE).take(256 << 20):
            assert wait_until(lambda: tiny.memory_use(NODE).held > alone + (250 << 20), 30)
            limits.strangle(tiny.memory_use(NODE).held + (8 << 20), *group)
            with tiny._consumers(NODE).take(64 << 20):
                tiny._await_gone(NODE, 30)
        limits.restore("memory", {}, *group)

    code, output = run_until(tiny, out, strangle)
    assert code == 3, output
    told_everywhere(out, "inconclusive", f"ode {NODE} was ended from outside (SIGKILL; the kernel, for want of memory)")
    assert ended(out)["oom_kill"] is True
    ended_at_once(out)
    back(tiny)


@pytest.mark.full
def test_a_toxiproxy_that_a_third_hand_kills(tiny, out):
    """One that no fault is on: the run ends, and the lab's links are not what they were."""
    identity = json.loads((tiny.folder / "run" / "toxiproxy-client-a.json").read_text())
    code, output = run_until(tiny, out, lambda _: os.kill(identity["pid"], signal.SIGKILL))
    assert code == 6, output
    found = told_everywhere(out, "inconclusive", "he Toxiproxy of client-a was ended from outside (SIGKILL)")
    assert found["clean"] is False
    ended_at_once(out)
    assert cli("recover")[0] == 0
    back(tiny)


@pytest.mark.full
def test_a_toxiproxy_that_does_not_take_its_toxics_back_is_started_anew(tiny, out):
    """It hangs while the fault is on it: what it holds goes with it, and no gone is proven."""

    def strike(running: Cli) -> None:
        identity = json.loads((tiny.folder / "run" / "toxiproxy-c-all.json").read_text())
        os.kill(identity["pid"], signal.SIGSTOP)
        os.kill(running.process.pid, signal.SIGINT)

    code, output = run_until(tiny, out, strike)
    assert code == 4, output
    assert "Toxiproxy of c-all did not take back what it was told to, and was started anew" in output
    found = findings(out)
    assert found["clean"] is True and found["outcome"] == "aborted"
    assert any("not proven to be gone" in reason["says"] for reason in found["reasons"]), found["reasons"]
    assert await_green(tiny, 120)[0] and problems(tiny) == [] and nothing_left() == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("word", "what", "experiment"),
    [
        ("locust", "load driver", SLOW),
        ("controller-b", "failover controller of zone b", DATA / "controlled.yaml"),
    ],
)
def test_a_process_of_the_run_that_a_third_hand_kills(tiny, out, word, what, experiment):
    def strike(running: Cli) -> None:
        (ours,) = [each for each in psutil.Process(running.process.pid).children() if word in each.cmdline()]
        ours.kill()

    code, output = run_until(tiny, out, strike, experiment)
    assert code == 3, output
    told_everywhere(out, "inconclusive", f"he {what} was ended from outside (SIGKILL)")
    ended_at_once(out)
    back(tiny)
