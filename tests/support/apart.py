"""What every test without a cluster gets: no trace outside its own folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from chaos.base import paths
from chaos.target.labs import cgroups

settings.register_profile("shared machine", deadline=None)  # how long an example takes is no law
settings.load_profile("shared machine")


@pytest.fixture(autouse=True)
def markers_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "lab_markers", lambda: tmp_path / "run")
    monkeypatch.setattr(cgroups, "ids", lambda: set())


def examples(number: int) -> int:
    """How many examples a costly law is tried on: all in make test-full (``HYPOTHESIS_ALL``), else a quarter."""
    return number if os.environ.get("HYPOTHESIS_ALL") else max(3, number // 4)
