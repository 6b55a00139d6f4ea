"""pytest as a user starts it in this repository: it collects, and what ships is among it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.full  # half a minute; make smoke and the series of it are this command
def test_the_command_that_the_readme_gives_collects_what_ships(tmp_path: Path) -> None:
    """All folders in one pytest: two test files of one name in two folders end it before anything runs."""
    command = ["-m", "pytest", "-m", "chaos and smoke", "--collect-only", "-q", f"--chaos-out={tmp_path}"]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert "experiments/zone-network-slowdown.yaml" in done.stdout
