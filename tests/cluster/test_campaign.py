"""A campaign of real runs: its worker is killed while a fault is in effect, and the next one goes on."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from clusterkit import DATA, Cli, cli, nothing_left

from chaos.base.waiting import wait_until


def campaign(folder: Path) -> Path:
    file = folder / "killed.yaml"
    file.write_text(
        "apiVersion: opensearch-chaos/v1\nkind: campaign\nname: killed\n"
        f"store: {folder / 'store'}\nmatrix: {{experiments: [{DATA / 'slow.yaml'}]}}\nrepeats: 1\n"
    )
    return file


@pytest.mark.full
def test_a_killed_worker_leaves_nothing_and_its_cell_is_made_by_the_next(out, spotless):
    out.mkdir()
    file, store = campaign(out), out / "store"
    running = Cli("campaign", "run", file, "--out", out / "runs")

    def fault_in_effect() -> bool:
        return any('"fault.in_effect"' in each.read_text() for each in out.glob("runs/*/*/history/events.jsonl"))

    assert wait_until(fault_in_effect, 180, every=0.2), running.end(5)
    running.signal(signal.SIGKILL)
    running.end(10)
    (ledger,) = out.glob("runs/*/*/ledger.jsonl")
    assert wait_until(lambda: (ledger.parent / "clean.json").is_file(), 180, every=0.2), "the run outlived its worker"
    assert json.loads((ledger.parent / "clean.json").read_text())["clean"]
    code, output = cli("campaign", "run", file, "--out", out / "runs")  # waits for the run of before, which reports yet
    assert code == 0 and "1 committed" in output, output
    assert nothing_left() == []
    code, output = cli("campaign", "status", file)
    assert code == 0 and "1 of 1 cells committed" in output and "workers lost 1" in output, output
    (commit,) = (json.loads(each.read_text()) for each in store.glob("cells/*.json"))
    assert commit["clean"] and commit["machine"]["kernel"] and "history/arrivals.parquet" in commit["manifest"]
    assert cli("campaign", "verify", file)[0] == 0
    code, output = cli("scorecard", file, "-o", out / "card.html")
    assert code in (1, 3), output  # one run proves nothing
    assert list((out / "runs").iterdir()) == []
