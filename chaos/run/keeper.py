"""The keeper: a process of its own beside the runner that undoes what the runner cannot any more.

It hears the runner over a pipe. When it hears nothing for :data:`SILENCE_SECONDS`, or the pipe ends without a farewell,
it undoes what stands in the ledger, last first, and tries again until all of it is undone or PATIENCE_SECONDS are over.
What it does is idempotent, and a runner that was only slow finds it in its ledger. The process
is :mod:`chaos.commands.keeping`, which knows every move.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from chaos.base.errors import ChaosError
from chaos.faults.ledger import standing
from chaos.faults.lifecycle import MAY_ARRIVE, undo_entries
from chaos.run import commanding, noted
from chaos.run.helping import end_helpers
from chaos.targets.existing.target import unreached

BEAT_SECONDS = 0.5
SILENCE_SECONDS = 5.0
PATIENCE_SECONDS = 600.0
READY_SECONDS = 30.0
LOOK_SECONDS = 5.0
"""How often it looks for what may still arrive, once all else is undone."""
BEAT, FAREWELL = b".", b"q"
PROGRAM = "chaos.commands.keeping"


class Keeper:
    """The runner's side. ``lost`` is called once when the keeper is not there any more and was not told to go."""

    def __init__(self, ledger: Path, target: str, log: Path, lost: Callable[[str], None]) -> None:
        self._command = [sys.executable, "-m", PROGRAM, str(ledger.absolute()), target]
        self.log, self._lost = log, lost
        self.process: subprocess.Popen[bytes] | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="keeper", daemon=True)

    def start(self) -> None:
        """Returns when it keeps. Raises ChaosError when it does not come up."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], READY_SECONDS)
        if not ready or not self.process.stdout.readline():
            self.process.kill()
            self.process.wait()
            raise ChaosError(f"the keeper did not start (log: {self.log})")
        self._thread.start()

    def _beat(self) -> None:
        assert self.process is not None and self.process.stdin is not None
        while not self._over.wait(BEAT_SECONDS):
            try:
                os.write(self.process.stdin.fileno(), BEAT)
            except OSError:
                if not self._over.is_set():
                    self._lost("the keeper has ended: nobody would undo this run if the runner died")
                return

    def leave(self) -> None:
        """Something is left to undo: it goes on trying as if this process had died, and is not waited for."""
        if self._silenced() and self.process is not None and self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()

    def _silenced(self) -> bool:
        """No beat from here on; False where that was so already, or there is no keeper."""
        if self._over.is_set() or self.process is None:
            return False
        self._over.set()
        self._thread.join()
        return True

    def stop(self) -> None:
        """Tell it to go, once nothing is left to undo; idempotent."""
        if not self._silenced():
            return
        assert self.process is not None and self.process.stdin is not None
        with suppress(OSError):
            os.write(self.process.stdin.fileno(), FAREWELL)
            self.process.stdin.close()
        try:
            self.process.wait(10.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def commanded(self) -> bool:
        return self._over.is_set()


# ---- the process itself ------------------------------------------------------------------------------------


def heard(descriptor: int, silence: float) -> bool:
    """Listen until the farewell: True. False when it is silent for so many seconds, or ends."""
    while True:
        ready, _, _ = select.select([descriptor], [], [], silence)
        said = os.read(descriptor, 4096) if ready else b""
        if FAREWELL in said:
            return True
        if not said:
            return False


def undo(ledger: Path, target: str, says: Callable[[str], None]) -> bool:
    """Undo what stands; True when nothing is left."""
    for failure in commanding.end_commands(ledger, says):  # it needs no cluster, and must not go on
        says(failure)
    deadline = time.monotonic() + PATIENCE_SECONDS
    told: str | None = None
    while True:
        began = time.monotonic()
        failed = _undone_once(ledger, target, last=began > deadline)
        if not failed:
            return True
        if failed[0] != told:
            says(told := failed[0])
        if began > deadline:  # one that took long, and was cut off in between, is followed by another
            return False
        open_alone = all(MAY_ARRIVE in each for each in failed)
        time.sleep(LOOK_SECONDS if open_alone else 1.0)  # an inverse may be a program of others


def _undone_once(ledger: Path, target: str, *, last: bool) -> list[str]:
    """What failed. Each inverse waits for each node, for minutes where this machine is cut off: so none is begun while
    nobody is there, and all are begun soon after somebody is again. ``last``: it is not tried again, so helper pods do
    not stay for it."""
    from chaos.targets.labs import kinds

    if not ledger.is_file():
        return [f"the ledger {ledger} is not there any more: nothing here says what to undo"]
    if (silence := unreached(target)) is not None:
        return [silence]
    try:
        book = noted.FencedLedger(ledger)
        try:
            there = kinds.attach(target)
            with suppress(ChaosError):  # then they are looked for as before
                noted.settle_open(there, book)
            failed = undo_entries(there, book, standing(ledger), fencing=True)
            return failed if failed and not last else failed + end_helpers(there, book.moves())
        finally:
            book.close()
    except (ChaosError, OSError) as error:
        return [str(error)]
