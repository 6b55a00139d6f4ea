"""Room on disks: what is kept aside for the end of a run."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

MIB = 2**20
FOR_UNDO = 1 * MIB
"""Set free when the record breaks or the undo begins: ledger rows and events of an end are some 100 KiB."""
FOR_REPORT = 8 * MIB
"""Set free before judging: findings, summary and page are 0.5 to 2 MiB, and logs are copied before them."""


_PREFIX = ".room-for-"


class Reserve:
    """Room that a run takes at its beginning and gives back for its end.

    A disk that somebody fills up ends the run as an error; without room of its own, the run could neither write down
    what it takes back nor say in its report why it ended.
    """

    def __init__(self, folder: Path, purpose: str, size: int) -> None:
        """Take ``size`` bytes in ``folder``. Raises OSError when they are not there; nothing is then left."""
        self._file = folder / f"{_PREFIX}{purpose}"
        try:
            with open(self._file, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError:
            self.release()
            raise

    def release(self) -> None:
        """Give it back; idempotent, and never raises."""
        with suppress(OSError):
            self._file.unlink(missing_ok=True)


def release(folder: Path) -> None:
    """Give back whatever was kept aside in a run's folder, also by a runner that died."""
    for file in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            file.unlink()
