"""This machine, as one of a campaign's: one lab at a time, and none while it is dirty.

The lock is a flock whose descriptor the run's own process inherits. So it is held until the last of worker and run has
ended: a worker that is killed leaves a run that still undoes what it did, and no other begins beside it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from chaos.base import paths
from chaos.base.errors import Exit, Leftovers
from chaos.provision import doctor
from chaos.run import plan, recovery

LOCK, RETIRED = "campaign.lock", "campaign-retired.json"
REMEDY = "run: opensearch-chaos recover, then opensearch-chaos doctor"


class Retired(Leftovers):
    """A run left this machine dirty: it makes no more of a campaign until `recover` and `doctor` agree."""

    exit_code = Exit.DIRTY


def problems() -> list[str]:
    """What `recover` would undo and `doctor` lacks, in words."""
    missing = [f"{each.name}: {each.found}" for each in doctor.examine() if not each.ok and not each.optional]
    return [*(leftover.what for leftover in recovery.leftovers()), *missing]


class Machine:
    """``looks``: what is wrong with this machine (:func:`problems`)."""

    def __init__(self, looks: Callable[[], list[str]] = problems, folder: Path | None = None) -> None:
        self._looks = looks
        self.folder = folder or paths.state()

    @property
    def about(self) -> dict[str, Any]:
        """Processors, memory and kernel, as a run's plan says them."""
        return {**plan.machine(), "kernel": plan.versions()["kernel"]}

    @property
    def now(self) -> dict[str, Any]:
        """What a run finds here when it begins. ``busy``: load average of a minute; ``memory_bytes``: all there is."""
        return {"busy": round(os.getloadavg()[0], 2), "memory_bytes": psutil.virtual_memory().total}

    @contextmanager
    def held(self, waits: Callable[[], None]) -> Iterator[int]:
        """The lock, as a descriptor to be inherited. ``waits`` is called again and again while another holds it, takes
        its time, and may raise."""
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    waits()
            yield descriptor
        finally:
            os.close(descriptor)

    def retire(self, why: str) -> Retired:
        """No run of a campaign begins here until :meth:`refuse_dirty` finds the machine sound. Returns what says so."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        paths.write_json(self.folder / RETIRED, {"why": why, "at": at})
        return Retired(f"this machine is retired from campaigns: {why}", remedy=REMEDY)

    def refuse_dirty(self) -> None:
        """Raises Retired while a run's dirt is still here. A machine that is sound again is no longer retired."""
        file = self.folder / RETIRED
        try:
            why = str(json.loads(file.read_bytes())["why"])
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError):
            why = f"{file} cannot be read"
        if found := self._looks():
            raise Retired(
                f"this machine is retired from campaigns: {why}; still wrong: {'; '.join(found[:3])}",
                remedy=REMEDY,
            )
        file.unlink(missing_ok=True)

    def left(self) -> list[str]:
        """What is wrong with this machine right after a run."""
        return self._looks()
