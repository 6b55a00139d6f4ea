"""``opensearch-chaos workload import``: a file that an experiment can name, and its ``load``."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from unit.load.importing.test_benchmark import folder
from unit.load.importing.test_data import documents, log_lines, ndjson, template

from chaos.base.errors import Exit, InvalidInput
from chaos.cli import app
from chaos.registry import load_experiment

EXPERIMENT = """\
apiVersion: opensearch-chaos/v1
name: orders
topology: 3az
{load}
phases: {{healthy: {{for: 30s}}}}
expect: [{{phase: all, read.good: ">= 99%"}}]
"""


def ran(*words: Any) -> Any:
    return CliRunner().invoke(app, ["workload", "import", *map(str, words)])


def test_what_is_printed_can_be_put_into_an_experiment(tmp_path: Path) -> None:
    (tmp_path / "slow.log").write_text(log_lines()[0])
    made = tmp_path / "orders.yaml"
    done = ran(template(tmp_path), tmp_path / "slow.log", ndjson(tmp_path / "d.ndjson", documents()), "-o", made)
    assert done.exit_code == 0, done.output
    assert "left out: field where: no document of the sample has a value in it" in done.output
    assert "1 taken, 3 changed, " in done.output
    checked = CliRunner().invoke(app, ["workload", "check", str(made), "--json"])
    assert checked.exit_code == 0 and json.loads(checked.output)["workload"] == "orders-template"
    load = done.output[done.output.index("\nload:") + 1 :]
    experiment = tmp_path / "experiment.yaml"
    experiment.write_text(EXPERIMENT.format(load=load))
    with pytest.raises(InvalidInput, match="CONFIRM"):  # nobody runs it without a decision
        load_experiment(experiment)
    experiment.write_text(EXPERIMENT.format(load=load.replace("CONFIRM/s", "20/s").replace("CONFIRM", "1s")))
    found = load_experiment(experiment)
    assert found.load.dataset is not None and found.load.operation("read").rate == 2.01  # type: ignore[union-attr]
    assert stat.S_IMODE(made.stat().st_mode) & 0o444 and [each.name for each in tmp_path.glob(".orders*")] == []


def test_a_closed_loop_of_bulks_can_be_put_into_an_experiment(tmp_path: Path) -> None:
    done = ran(folder(tmp_path / "parcels"), "-o", tmp_path / "parcels.yaml", "--workload-params", "clients:2")
    assert done.exit_code == 0, done.output
    load = done.output[done.output.index("\nload:") + 1 :].replace("CONFIRM", "1s")
    experiment = tmp_path / "experiment.yaml"
    experiment.write_text(EXPERIMENT.format(load=load))
    (write,) = [each for each in load_experiment(experiment).load.closed if each.writes]
    assert (write.clients, write.operation, write.items) == (2, "bulk", 500)


def test_the_table_as_markdown(tmp_path: Path) -> None:
    lines = ran(folder(tmp_path / "p"), "-o", tmp_path / "p.yaml", "--markdown").output.splitlines()
    assert lines[:2] == ["| outcome | what | which | why |", "|---|---|---|---|"]
    assert "| refused | task | `later` | a load has one operation that writes |" in lines
    assert all(line.startswith("| ") for line in lines[2:])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-o", "made.txt"], "a workload's file ends with .yaml"),
        (["-o", "there.yaml"], "there is such a file"),
        (["-o", "nowhere/made.yaml"], "there is no such folder"),
        (["-o", "made.yaml", "--name", "Not A Name"], "a name has small letters"),
        (["-o", "made.yaml", "--also-read", "nowhere"], "--also-read nowhere: there is no such folder"),
        (["-o", "made.yaml", "--workload-params", "x"], "write name:value"),
        (["-o", "made.yaml", "nothing.ndjson"], "nothing.ndjson: cannot be read: No such file"),
    ],
)
def test_bad_input_makes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], says: str) -> None:
    monkeypatch.chdir(tmp_path)
    ndjson(tmp_path / "d.ndjson", [{"a": 1}, {"a": 2}])
    (tmp_path / "there.yaml").write_text("mine")
    done = ran("d.ndjson", *words)
    assert isinstance(done.exception, InvalidInput) and done.exception.exit_code is Exit.USAGE
    assert says in str(done.exception)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["d.ndjson", "there.yaml"]
    assert (tmp_path / "there.yaml").read_text() == "mine"
