"""The tutorial as a newcomer follows it: from the wheel, in an empty folder, command by command."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import wheelkit

pytestmark = [pytest.mark.cluster, pytest.mark.full]

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
RETRY = "15m"
"""Two cores may be too few in one run. A weakness is never run again."""


def commands() -> list[tuple[str, frozenset[int]]]:
    """Each command of the page, and the exit codes that it says."""
    found = []
    for block in re.findall(r"```sh\n(.*?)```", TUTORIAL.read_text(), re.S):
        for line in block.strip().splitlines():
            command, _, said = line.partition("  # exit code ")
            found.append((command, frozenset(map(int, re.findall(r"\d", said))) or frozenset({0})))
    return found


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty virtual environment with the wheel and what it needs, and nothing of this checkout's."""
    where = tmp_path_factory.mktemp("wheel")
    return wheelkit.installed(where / "venv", wheelkit.wheelhouse(where / "wheels")).parent


def test_the_tutorial_finds_the_weakness_and_its_remedy_mends_it(environment: Path, tmp_path: Path) -> None:
    path = f"{environment / 'bin'}:{os.environ['PATH']}"
    folder = tmp_path
    for command, codes in commands():
        if command.startswith("cd "):
            folder = folder / command.removeprefix("cd ")
            continue
        if " run " in command:
            command += f" --retry-inconclusive {RETRY}"
        if "pytest" in command:
            command += f" --chaos-retry-inconclusive={RETRY}"
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True
        )
        assert done.returncode in codes, (command, done.returncode, done.stdout[-3000:], done.stderr[-3000:])
    runs = sorted(path for path in (folder / "reports").glob("2*") if (path / "findings.json").exists())
    found = [json.loads((run / "findings.json").read_text()) for run in runs]
    assert "came back only after" in found[0]["headline"] or "not seen to come back" in found[0]["headline"]
    assert found[-1]["outcome"] == "pass"
    shutil.rmtree(folder)


def test_the_page_has_commands_and_their_exit_codes() -> None:
    said = dict(commands())
    assert said["opensearch-chaos run experiments/zone-goes-dark.yaml  # exit code 1".partition("  #")[0]] in (
        frozenset({0}),
        frozenset({1}),
    )
    assert any(codes == {1} for _, codes in commands()) and len(commands()) >= 8
