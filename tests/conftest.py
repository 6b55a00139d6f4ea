"""``pytest -m chaos`` in the clone reads experiments and tests/chaos, and none of the suite's own tests: four hundred
modules with not one experiment among them. Whoever names a path or does not ask for chaos gets what he asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.pytest_plugin import MARKER, asks_for_chaos

HERE = Path(__file__).parent
EXPERIMENTS_IN_PYTHON = MARKER
"""The folder of tests in Python that are experiments (tests/unit/test_collecting.py holds that others have none)."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.args_source is pytest.Config.ArgsSource.ARGS or not asks_for_chaos(config):
        return None
    of_the_suite = collection_path.parent == HERE and collection_path.name != EXPERIMENTS_IN_PYTHON
    return True if of_the_suite and collection_path.is_dir() else None
