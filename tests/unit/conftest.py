"""No trace of a test outside its own folder (tests/support/apart.py), and a rarer search for garbage."""

import gc

from apart import markers_of_its_own  # noqa: F401 - a fixture


def pytest_collection_finish() -> None:
    """What was imported stays: to look through it for garbage again and again took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
