"""One moto server for all tests of this folder, and in it a lab that the next test takes over, tidied."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fishands import Set, TinyLab, a_set, started

SPARE: list[TinyLab] = []


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    server = started()
    try:
        yield server.url
    finally:
        server.close()


@pytest.fixture
def made(moto: str, tmp_path: Path) -> Iterator[Set]:
    """A lab in moto, with hands."""
    made = a_set(moto, tmp_path / "endpoint", SPARE.pop() if SPARE else None)
    yield made
    made.hands.close()
    if made.tidied():
        SPARE.append(TinyLab(made.lab.id))


@pytest.fixture
def without_fsync() -> Iterator[None]:
    """Whoever dies in these tests is a thread and not the machine, so what was written is there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield
