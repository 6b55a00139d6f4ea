"""What ``pytest -m chaos`` collects in the clone: all experiments, without reading the suite's own tests."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from fakes import ROOT
from shipped import EXPERIMENTS

TESTS = ROOT / "tests"


def marked(file: Path) -> bool:
    """Whether a module has the marker ``chaos`` in its code; in a string it is of a test that pytest is to run."""
    found = (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Attribute))
    return any(node.attr == "chaos" and ast.unparse(node.value).endswith("mark") for node in found)


def test_experiments_in_python_are_in_their_folder_and_nowhere_else() -> None:
    files = [file for file in TESTS.rglob("test_*.py") if "data" not in file.parts]
    assert len(files) > 300
    assert {file.parent for file in files if marked(file)} == {TESTS / "chaos"}


def test_all_are_collected_and_no_test_of_the_suite_is_read() -> None:
    words = [sys.executable, "-X", "importtime", "-m", "pytest", "--collect-only", "-q", "-m", "chaos"]
    done = subprocess.run([*words, "-p", "no:cacheprovider"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    collected = {line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line}
    assert "tests/chaos/test_slow_zone.py" in collected
    assert {each for each in collected if each.startswith("tests/")} == {"tests/chaos/test_slow_zone.py"}
    usual = [each for each in EXPERIMENTS if each.parent.name == "experiments" and "vary:" not in each.read_text()]
    assert {str(each.relative_to(ROOT)) for each in usual} <= collected
    assert "clusterkit" not in done.stderr, "a helper of the suite's own tests was loaded"
