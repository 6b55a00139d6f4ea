"""A file of ``chaos/instruments`` is taken away: ``no-fault`` still runs on a real cluster and is reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import without
from clusterkit import ROOT, nothing_left

from chaos.observe.proof import problems

SHORT = {"for: 30s": "for: 5s"}


def no_fault(folder: Path) -> Path:
    """The shipped experiment with shorter phases."""
    text = (ROOT / "experiments" / "no-fault.yaml").read_text()
    for long, short in SHORT.items():
        assert long in text
        text = text.replace(long, short)
    file = folder / "no-fault.yaml"
    file.write_text(text)
    return file


@pytest.mark.full
@pytest.mark.parametrize("taken", [("sampler",), without.NINE], ids=["sampler", "all nine"])
def test_no_fault_runs_and_is_reported_without(playground, tmp_path, out, taken):
    (tmp_path / "copy").mkdir()
    copy = without.copy(tmp_path / "copy", *taken)
    given = ["run", str(no_fault(tmp_path)), "--out", str(out), "--on", playground.id]
    ran = without.python(copy, "-m", "chaos", *given, timeout=280)
    assert ran.returncode in (0, 3), ran.stdout + ran.stderr  # open at most: nobody saw what was to be seen
    (folder,) = [each for each in out.iterdir() if (each / "plan.json").is_file()]
    found = json.loads((folder / "findings.json").read_text())
    assert found["outcome"] in ("pass", "inconclusive") and found["clean"] is True, found["summary"]
    assert {each["cause"] for each in found["reasons"]} <= {"instrument", "step", "finding", "data", "users"}
    written = [json.loads(line) for line in (folder / "history" / "events.jsonl").read_text().splitlines()]
    kinds = {event["kind"] for event in written}
    assert "sample" not in kinds and "cluster.status" not in kinds and "run.end" in kinds
    says = [event["says"] for event in written if event["kind"] == "note"]
    assert "the guard cluster.red is off: no instrument here answers it" in says
    assert json.loads((folder / "history" / "readback.json").read_text())["complete"] is True
    assert (folder / "report.html").stat().st_size > 10_000
    assert problems(playground) == [] and nothing_left() == []
