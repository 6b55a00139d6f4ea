"""The tutorial as a newcomer follows it: from the wheel, in an empty folder, command by command.

It takes a quarter of an hour, so it is told in three parts, each of which begins in a folder of its own and runs one
experiment: what finds the weakness, what mends it, what keeps it mended. Together they are all commands of the page.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import wheelkit

pytestmark = [pytest.mark.cluster, pytest.mark.full]

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
RETRY = "15m"
"""Two cores may be too few in one run. A weakness is never run again."""


@dataclass(frozen=True)
class Typed:
    """A command of the page: in which of its sections, and the exit codes that it says."""

    section: int
    command: str
    codes: frozenset[int]

    @property
    def runs(self) -> bool:
        """Whether it takes a cluster."""
        return " run " in self.command or "pytest" in self.command


def commands() -> Iterator[Typed]:
    """All of the page, in order."""
    for section, text in re.findall(r"^## (\d)\. (.*?)(?=^## )", TUTORIAL.read_text(), re.S | re.M):
        for block in re.findall(r"```sh\n(.*?)```", text, re.S):
            for line in block.strip().splitlines():
                command, _, said = line.partition("  # exit code ")
                codes = frozenset(map(int, re.findall(r"\d", said))) or frozenset({0})
                yield Typed(int(section), command, codes)


def finds(each: Typed) -> bool:
    return each.section in (1, 2, 3)


def mends(each: Typed) -> bool:
    return each.section in (1, 4, 5)


def keeps(each: Typed) -> bool:
    return each.section in (1, 6) or (each.section == 5 and not each.runs)


@pytest.fixture(scope="module")
def environment() -> Path:
    """A virtual environment with the wheel and what it needs, and nothing of this checkout's."""
    return wheelkit.environment_of_ours() / "bin"


def typed(wanted: Any, environment: Path, folder: Path) -> list[dict[str, Any]]:
    """Type these commands. What the runs found, in order."""
    path = f"{environment}:{os.environ['PATH']}"
    at = folder
    for each in filter(wanted, commands()):
        command = each.command
        if command.startswith("cd "):
            at = at / command.removeprefix("cd ")
            continue
        if " run " in command:
            command += f" --retry-inconclusive {RETRY}"
        if "pytest" in command:
            command += f" --chaos-retry-inconclusive={RETRY}"
        done = subprocess.run(
            ["bash", "-c", command], cwd=at, env=os.environ | {"PATH": path}, capture_output=True, text=True
        )
        assert done.returncode in each.codes, (command, done.returncode, done.stdout[-3000:], done.stderr[-3000:])
    runs = sorted(path for path in (at / "reports").glob("2*") if (path / "findings.json").exists())
    return [json.loads((run / "findings.json").read_text()) for run in runs]


def test_it_finds_the_weakness(environment: Path, tmp_path: Path) -> None:
    first, *_ = typed(finds, environment, tmp_path)
    assert "came back only after" in first["headline"] or "not seen to come back" in first["headline"]


def test_its_remedy_mends_it(environment: Path, tmp_path: Path) -> None:
    assert typed(mends, environment, tmp_path)[-1]["outcome"] == "pass"


def test_its_tests_keep_it_mended(environment: Path, tmp_path: Path) -> None:
    assert typed(keeps, environment, tmp_path)[-1]["outcome"] == "pass"


def test_the_parts_are_all_commands_of_the_page_with_one_run_each() -> None:
    every = list(commands())
    parts = [[each for each in every if part(each)] for part in (finds, mends, keeps)]
    assert {each for part in parts for each in part} == set(every) and len(every) >= 8
    assert [sum(each.runs for each in part) for part in parts] == [1, 1, 1]
    lines = [
        line for block in re.findall(r"```sh\n(.*?)```", TUTORIAL.read_text(), re.S) for line in block.splitlines()
    ]
    assert len(lines) == len(every)
    assert [each.codes for each in every if each.runs] == [frozenset({1}), frozenset({0}), frozenset({0})]
