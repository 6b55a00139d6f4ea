"""Two runs on one cluster of somebody else, one after the other: what each of them may take back, and what stays."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from box.office import give
from boxkit import Boxed
from clusterkit import await_event, findings, in_effect, keepers_of, run_folder

from chaos.opensearch.administration import explicit_settings
from chaos.opensearch.views import administer

pytestmark = pytest.mark.full
ENABLE = "cluster.routing.allocation.enable"
HELD = f"""apiVersion: opensearch-chaos/v1
name: held
topology: 3az
load:
  read:  {{rate: 10/s, good: ok within 4s}}
  write: {{rate: 10/s, good: ok within 4s}}
  documents: 50
phases:
  healthy: {{for: 2s}}
  held:
    for: 10m
    inject: {{settings.change: {{scope: cluster, settings: {{{ENABLE}: none}}}}}}
expect:
  - {{acknowledged.lost: 0}}
"""


@pytest.fixture
def out(boxed: Boxed, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    with boxed.reports(request.node.name, tmp_path) as folder:
        yield folder


def enabled(boxed: Boxed) -> str | None:
    with boxed.owned() as lab:
        found = explicit_settings(lab, None)
    assert found is not None
    return found.get(ENABLE)  # type: ignore[return-value]


def test_a_run_that_thaws_leaves_the_same_fault_of_the_run_that_took_over_alone(
    boxed: Boxed, before: Path, out: Path
) -> None:
    file, others = boxed.written("held", HELD), boxed.box.home(2) / "reports"
    first = boxed.inside("opensearch-chaos", "run", file, "--on", boxed.target, "--out", out / "first")
    await_event(first, out / "first", in_effect, 180)
    (keeper,) = keepers_of(first.process.pid)
    frozen = (first.process.pid, keeper.pid)
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        code, output = boxed.chaos("recover", "--on", boxed.target)
        assert code == 0 and "undone of run" in output, output
        assert enabled(boxed) is None
        give(boxed.box.home(2) / "experiments" / "held.yaml", HELD, 2)
        office = ("opensearch-chaos", "run", "experiments/held.yaml", "--on", boxed.target, "--out", others)
        second = boxed.inside(*office, office=2)
        await_event(second, others, in_effect, 180)
        assert enabled(boxed) == "none"
    finally:
        for pid in reversed(frozen):
            os.kill(pid, signal.SIGCONT)
    code, output = first.end(240)
    print(output)
    assert enabled(boxed) == "none", "the second run's fault is its own"
    found = findings(out / "first")
    assert code == 6 and found["clean"] is False, (code, found["headline"])
    clean = json.loads((run_folder(out / "first") / "clean.json").read_text())
    name = run_folder(others).name
    assert any("left alone" in says and f"run {name} of" in says for says in clean["detail"]), clean
    second.process.send_signal(signal.SIGINT)
    code, output = second.end(240)
    assert code == 4 and findings(others)["clean"] is True, output
    assert enabled(boxed) is None and boxed.differs(before) == ""


def test_a_stop_that_a_person_writes_outlives_a_run_that_created_the_index_of_notes(
    boxed: Boxed, before: Path, out: Path
) -> None:
    with boxed.owned() as lab:
        administer(lab, "DELETE", "/.opensearch-chaos")
    short = HELD.replace("10m", "6s").replace("expect:", "  back: {undo: all, for: 2s}\nexpect:")
    file = boxed.written("short", short)
    running = boxed.inside("opensearch-chaos", "run", file, "--on", boxed.target, "--out", out)
    await_event(running, out, in_effect, 180)
    stop = {"reason": "no game day today please"}
    with boxed.owned() as lab:
        assert administer(lab, "PUT", "/.opensearch-chaos/_doc/gameday-stop", stop)[0] == 201
    code, output = running.end(240)
    assert code in (0, 1, 3) and findings(out)["clean"] is True, output
    clean = json.loads((run_folder(out) / "clean.json").read_text())
    assert any(".opensearch-chaos" in each for each in clean["stays"]), clean
    with boxed.owned() as lab:
        status, answer = administer(lab, "GET", "/.opensearch-chaos/_doc/gameday-stop")
        assert (status, answer["_source"]) == (200, stop)
        assert administer(lab, "GET", "/.opensearch-chaos/_doc/run")[0] == 404
        administer(lab, "DELETE", "/.opensearch-chaos/_doc/gameday-stop")
    assert boxed.differs(before) == ""
