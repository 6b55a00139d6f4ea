"""No trace of a test outside its folder, and no search for garbage in what was imported (tests/support/apart.py)."""

from apart import markers_of_its_own, pytest_collection_finish  # noqa: F401 - a fixture and a hook
