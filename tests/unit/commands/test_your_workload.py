"""The page that leads from an index template and a slow log to an experiment: its commands that start nothing."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from fakes import ROOT
from typer.testing import CliRunner

from chaos.cli import app

PAGE = (ROOT / "docs" / "your-workload.md").read_text()
COMMANDS = [block.rstrip("\n") for block in re.findall(r"```sh\n(.*?)```", PAGE, re.S)]


def test_there_are_six() -> None:
    assert len(COMMANDS) == 6 and len(re.findall(r"^## \d\.", PAGE, re.M)) == 6


def test_they_do_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (template,) = re.findall(r"```json\n(.*?)```", PAGE, re.S)
    (log,) = re.findall(r"```text\n(\[.*?)```", PAGE, re.S)
    Path("orders-template.json").write_text(template)
    Path("slow.log").write_text(log)
    said = []
    for command in COMMANDS[:-1]:  # the last one starts a cluster
        if command.startswith("cat "):
            subprocess.run(["bash", "-c", command], check=True)
            continue
        program, *words = shlex.split(command)
        assert program == "opensearch-chaos"
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, (command, done.output, done.exception)
        said.append(done.output)
    imported, checked, _, planned = said
    assert "term-customer" in checked and "orders" in planned and "node.kill" in planned
    assert COMMANDS[-1] == "opensearch-chaos run orders-node-dies.yaml"
    shown = PAGE[PAGE.index("```text\ntaken:") :].split("```")[1].removeprefix("text\n").splitlines()
    printed = [line for line in imported.splitlines() if line.startswith(("taken", "changed", "left out", "refused"))]
    assert printed == [line for line in shown if line.startswith(("taken", "changed", "left out", "refused"))]
