"""What the runner did, line by line, in a file that can be attached to a bug report.

Nothing is decided by it, and nothing is judged from it: the record of a run is its history. Times are UTC.
"""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from chaos.base.text import clean

LOG = logging.getLogger("opensearch-chaos")
LOG.addHandler(logging.NullHandler())
LOG.propagate = False
"""Nothing of it goes to whoever else has a root logger: pytest, Locust, a team's own program."""
FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)-7s %(threadName)s: %(message)s"


class _Clean(logging.Formatter):
    """A log is read in a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return clean(super().format(record))


class _Patient(logging.FileHandler):
    """A line that cannot be written is left out: a disk that is full must not disturb an undo."""

    def handleError(self, record: logging.LogRecord) -> None:
        return


@contextmanager
def kept(path: Path, *about: str) -> Iterator[None]:
    """Keep what is logged in the block in ``path``. ``about``: its first lines, beside this machine's."""
    try:
        handler = _Patient(path, encoding="utf-8")
    except OSError:  # the run says so itself, by its record
        yield
        return
    formatter = _Clean(FORMAT, "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    before = LOG.level
    LOG.setLevel(logging.DEBUG)
    LOG.addHandler(handler)
    LOG.info("Python %s, %s %s", platform.python_version(), platform.system(), platform.release())
    for line in about:
        LOG.info("%s", line)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(before)
        with suppress(OSError):  # what is still to be written may not fit
            handler.close()
