"""The rooms of the house: what may know what, by their imports as written and as they happen; each tells of itself."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib

import pytest
from fakes import ROOT

LAYERS = next(
    contract["layers"]
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    if contract["type"] == "layers"
)
FLOOR = {room.strip(): floor for floor, rooms in enumerate(LAYERS) for room in rooms.split("|")}
"""Room → its floor, 0 at the top."""
ROOMS = sorted(room for room in FLOOR if (ROOT / room.replace(".", "/")).is_dir())
FINDS = {
    "chaos.faults": "from chaos.faults import kinds; kinds.discover()",
    "chaos.targets": "from chaos.targets.labs import kinds; kinds.every()",
    "chaos.checks": "from chaos.checks import catalogue; catalogue.discover()",
}
"""What a room finds at runtime, by folders and entry points: no tool that reads imports sees that."""
ABOVE = {"chaos.checks": {"chaos.instruments"}}
"""What it finds of a room above it, by the folder's name: what observes a run judges what it observed."""
SEEN = """
import importlib, json, pkgutil, sys
if {room!r} == "chaos.load":
    import locust  # it patches ssl, before anybody else imports that
room = importlib.import_module({room!r})
for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
    if not module.name.startswith({without!r}):
        importlib.import_module(module.name)
{finds}
print(json.dumps(sorted(name for name in sys.modules if name.startswith("chaos.") or name in {slow!r})))
"""
WITHOUT = ("chaos.load.locustfile", "chaos.targets.labs.docker", "chaos.report.__main__")
"""Programs, and what needs an extra."""
SLOW = ("pandas", "arro3", "nanoarrow")
"""They take 0.4 s of a processor to load, and 60 MB: only what reads arrivals loads them, when it does."""


def room_of(module: str) -> str | None:
    """The room of a module; None for what is in none (``chaos`` itself)."""
    found = [room for room in FLOOR if module == room or module.startswith(f"{room}.")]
    return max(found, key=len, default=None)


def test_the_command_line_starts_without_what_judges_and_draws() -> None:
    """Each command pays for what all of them load; judging, drawing and numpy take two thirds of a second."""
    code = "import json, sys, chaos.cli; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    heavy = {*SLOW, "numpy", "chaos.checks", "chaos.report", "chaos.instruments"}
    assert not heavy & set(json.loads(done.stdout))


def test_every_module_is_in_a_room() -> None:
    modules = {f"chaos.{path.stem}" for path in (ROOT / "chaos").iterdir() if not path.name.startswith(("_", "."))}
    assert modules == set(FLOOR)


def test_the_contracts_between_rooms_are_kept() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    done = subprocess.run([*command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "0 broken" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_brings_nothing_from_above_when_it_runs(room: str) -> None:
    code = SEEN.format(room=room, without=WITHOUT, finds=FINDS.get(room, ""), slow=SLOW)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert not {*SLOW} & {*seen}, f"{room} loads what few need"
    others = {found for name in seen if (found := room_of(name)) is not None} - {room}
    above = {other for other in others if FLOOR[other] <= FLOOR[room]} - ABOVE.get(room, set())
    assert above == set(), f"{room} brings {', '.join(sorted(above))}"


@pytest.mark.parametrize("readme", sorted((ROOT / "chaos").glob("*/README.md")), ids=lambda path: path.parent.name)
def test_what_a_room_says_of_its_files_is_so(readme: object) -> None:
    from pathlib import Path

    assert isinstance(readme, Path)
    folder = readme.parent
    rows = re.findall(r"^\| `([^`]+)` \|", readme.read_text(), re.MULTILINE)
    named = {name for row in rows for name in row.split(", ")}
    assert all((folder / name).exists() for name in named), named
    if rows:
        there = {path.name for path in folder.glob("*.py")} - {"__init__.py", "__main__.py"}
        told = {name for name in named if name.endswith(".py")}
        assert there <= told, f"not told of: {', '.join(sorted(there - told))}"
    for path in re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)`", readme.read_text()):
        assert any((base / path).exists() for base in (folder, ROOT / "chaos", ROOT)), path
