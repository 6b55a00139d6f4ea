"""What every test without a cluster gets: no trace outside its own folder."""

from __future__ import annotations

import gc
import os
import socketserver
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from hypothesis import settings

from chaos.base import paths
from chaos.targets.labs import cgroups

command_of = cache(typer.main.get_command)
"""A process of ours builds its command line once, and hundreds of tests in one process need it no oftener."""


_told = socketserver.BaseServer.handle_error


def _quiet_about_clients_that_go(server: socketserver.BaseServer, request: Any, client_address: Any) -> None:
    """A server of one test that outlives it by a moment would print into the output of the next one."""
    if not isinstance(sys.exc_info()[1], ConnectionError):
        _told(server, request, client_address)


socketserver.StreamRequestHandler.disable_nagle_algorithm = True  # an answer in two parts would take 40 ms

socketserver.BaseServer.handle_error = _quiet_about_clients_that_go  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def markers_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "lab_markers", lambda: tmp_path / "run")
    monkeypatch.setattr(cgroups, "ids", lambda: set())
    monkeypatch.setattr(typer.main, "get_command", command_of)


def pytest_collection_finish() -> None:
    """What was imported stays: to look through it for garbage again and again took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def examples(number: int) -> int:
    """How many examples a law is tried on: all in make test-full (``HYPOTHESIS_ALL``), else a quarter."""
    return number if os.environ.get("HYPOTHESIS_ALL") else max(3, number // 4)


def some(values: Iterable[str]) -> list[str]:
    """Of a long list of alike cases every fourth, and all in make test-full."""
    return list(values)[:: 1 if os.environ.get("HYPOTHESIS_ALL") else 4]


# how long an example takes is no law
settings.register_profile("shared machine", deadline=None, max_examples=examples(100))
settings.load_profile("shared machine")
