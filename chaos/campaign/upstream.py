"""One attempt to see a bug of OpenSearch: a fresh lab, the case's steps as they are written, and what each printed.

Commands run by bash in the host of the first zone's clients, with the nodes' URLs in variables, as ``lab exec`` gives
them. A step whose ``must`` is missing, or that shows neither what is expected nor what was seen, makes the attempt
inconclusive. It never counts for or against anything.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import urllib3

import chaos
from chaos.base.console import Reporter
from chaos.base.errors import InvalidInput, LabError
from chaos.definitions.selectors import client_host
from chaos.definitions.upstream import ALL, KEPT, REPRODUCED, UNCLEAR, Case, StepFile
from chaos.run.pool import LabPool
from chaos.run.stopping import Stop
from chaos.targets.labs.base import BaseLab
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

SHOWN = 4000
"""So many characters of what a step printed are kept: the first and the last half."""
LOG_LINES = 10
"""Of what follows a line of a log that matches: the exception and where it was thrown."""
START_SECONDS = 120.0
SEEN, EXPECTED = "seen", "expected"


def attempt(
    case: Case, version: str, pool: LabPool, reporter: Reporter, stop: Stop, *, control: bool
) -> dict[str, Any]:
    """Run the steps once, in a lab that is made for it and taken away. Returns the record, JSON-able.

    Raises ChaosError when the lab cannot be had, or after a stop; nothing is left then.
    """
    file = case.written
    record: dict[str, Any] = {
        "series": "upstream",
        "what": case.file,
        "version": version,
        "control": control,
        "steps_hash": file.fingerprint,
        "suite": chaos.__version__,
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    lab = pool.get(case.on(version), check=stop.check)
    if not isinstance(lab, LocalLab):
        raise InvalidInput("the steps of a case need a local lab: its hosts have a shell", remedy="leave --lab out")
    try:
        began = time.monotonic()
        marks = {node.name: lab.log_end(node.name) for node in lab.topology.nodes}
        steps = list(_each(file.control.steps if control else file.steps, lab, reporter, stop))
        record |= {"steps": steps, "outcome": verdict(steps)}
        seen = [step["ended"] - began for step in steps if step.get("shows") == SEEN]
        record["seconds"] = round(max(seen), 1) if record["outcome"] == REPRODUCED else None
        if file.log is not None:
            record["log"] = _logged(lab, marks, file.log)
        if file.restart and not control and record["outcome"] == REPRODUCED:
            reporter.line("all nodes are stopped and started")
            _restart(lab, stop)
            after = list(_each(file.restart, lab, reporter, stop))
            record |= {"restart": after, "outlives_restart": _outlives(after)}
    finally:
        pool.close()
    for step in (*steps, *record.get("restart", ())):
        step.pop("ended")
    return record | {"ended": datetime.now(UTC).isoformat(timespec="seconds")}


def verdict(steps: Sequence[dict[str, Any]]) -> str:
    """What an attempt says: reproduced where every step that decides showed what was seen."""
    shown = {step["shows"] for step in steps if "shows" in step}
    if any(step.get("lacks") for step in steps) or not shown:
        return UNCLEAR
    return {frozenset({SEEN}): REPRODUCED, frozenset({EXPECTED}): KEPT}.get(frozenset(shown), UNCLEAR)


def _outlives(steps: Sequence[dict[str, Any]]) -> bool | None:
    """Whether it is still there after a restart; None where the steps do not tell."""
    return {REPRODUCED: True, KEPT: False}.get(verdict(steps))


def judge(step: StepFile, printed: str) -> dict[str, Any]:
    """What a command's output says: ``shows`` of a step that decides, ``lacks`` where a ``must`` is missing."""
    found: dict[str, Any] = {}
    if step.must is not None and not re.search(step.must, printed):
        found["lacks"] = f"it did not print {step.must!r}"
    if step.seen is not None and step.expected is not None:
        seen, expected = bool(re.search(step.seen, printed)), bool(re.search(step.expected, printed))
        found["shows"] = "neither" if seen == expected and not seen else "both" if seen == expected else None
        if found["shows"] is None:
            found["shows"] = SEEN if seen else EXPECTED
    return found


def _each(steps: Iterable[StepFile], lab: LocalLab, reporter: Reporter, stop: Stop) -> Iterator[dict[str, Any]]:
    for step in steps:
        stop.check()
        action, value = step.action
        shown = " and ".join(value) if action == "cut" else str(value)
        reporter.line(f"{action} {shown.strip().splitlines()[0]}"[:120])
        began = time.monotonic()
        done: dict[str, Any] = {action: shown}
        if action == "run":
            printed = _run(value, lab, step.within, stop)
            done |= {"printed": _trimmed(printed), **judge(step, printed)}
        elif action == "wait":
            wait_until(stop.was_asked, value)
            stop.check()
        else:
            _act(action, value, lab, stop)
        done |= {"seconds": round(time.monotonic() - began, 1), "ended": time.monotonic()}
        if said := done.get("lacks") or done.get("shows"):
            reporter.line(f"  {said}")
        yield done
        if "lacks" in done:
            return


def _run(script: str, lab: LocalLab, within: float, stop: Stop) -> str:
    """What the lines print, both streams; ended after ``within`` seconds with all that they started."""
    host = lab.wiring[client_host(lab.topology.zones[0])]
    with tempfile.TemporaryDirectory(prefix="opensearch-chaos-case-") as folder, tempfile.TemporaryFile() as out:
        with host.namespace.entered():
            process = subprocess.Popen(
                ["bash", "-c", script],
                cwd=folder,
                env={**os.environ, **lab.variables()},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            ended = wait_until(lambda: process.poll() is not None or stop.asked, within)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        stop.check()
        out.seek(0)
        printed = out.read().decode(errors="replace")
    return printed if ended else f"{printed}\n(no end within {within:g} s)\n"


def _act(action: str, value: Any, lab: LocalLab, stop: Stop) -> None:
    if action == "cut":
        one, other = value
        lab.block_neighbour(one, other)
        lab.block_neighbour(other, one)
        return
    names = [node.name for node in lab.topology.nodes] if value == ALL else [value]
    if action == "start":
        for name in names:
            lab.start_node(name)
        _await_http(lab, names, stop)
        return
    does = {"pause": lab.pause_node, "resume": lab.resume_node, "kill": lab.kill_node}[action]
    for name in names:
        does(name)


def _restart(lab: LocalLab, stop: Stop) -> None:
    names = [node.name for node in lab.topology.nodes]
    for name in names:
        lab.resume_node(name)
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lab.stop_node, names))
    _act("start", ALL, lab, stop)


def _await_http(lab: LocalLab, names: Sequence[str], stop: Stop) -> None:
    """Until each answers at all: a cluster that is broken on purpose may never be green again."""

    def answers(name: str) -> bool:
        client = lab.client(name, timeout=2.0)
        try:
            return client.request("GET", "/")[0] > 0
        except (urllib3.exceptions.HTTPError, LookupError):
            return False
        finally:
            client.close()

    for name in names:
        if not wait_until(lambda name=name: stop.asked or answers(name), START_SECONDS):  # type: ignore[misc]
            raise LabError(f"{name} does not answer {START_SECONDS:g} s after its start: {lab.last_line(name)}")
    stop.check()


def _trimmed(text: str) -> str:
    if len(text) <= SHOWN:
        return text
    return f"{text[: SHOWN // 2]}\n[...]\n{text[-SHOWN // 2 :]}"


def _logged(lab: BaseLab, marks: dict[str, int], expression: str) -> list[str]:
    """The first line of a log that matches, with what belongs to it; empty where no node wrote one."""
    for node in lab.topology.nodes:
        with open(lab.log(node.name), "rb") as file:
            file.seek(marks[node.name])
            lines = file.read().decode(errors="replace").splitlines()
        for number, line in enumerate(lines):
            if re.search(expression, line):
                rest = itertools.takewhile(lambda each: not each.startswith("["), lines[number + 1 :])
                return [_anonymous(each, lab) for each in (line, *itertools.islice(rest, LOG_LINES))]
    return []


def _anonymous(line: str, lab: BaseLab) -> str:
    return line.replace(str(lab.folder), "").replace(lab.id, "cluster")[:400]
