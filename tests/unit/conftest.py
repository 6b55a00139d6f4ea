"""No trace of a test outside its own folder (tests/support/apart.py)."""

from apart import markers_of_its_own  # noqa: F401 - a fixture
