"""Guards: what ends a run early, from the warm-up to the last phase's end.

What a guard is: :mod:`chaos.base.guarding`. Here are those that need no instrument; an instrument brings its own
(:meth:`chaos.checks.instrument.Observer.guards`). A guard that cannot be evaluated at the start is the user's to mend
(:func:`refuse_unready`, before anything is started).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from chaos.base.errors import InvalidInput
from chaos.base.guarding import TICK_SECONDS, Guard, Lasting, Watch, reason
from chaos.definitions.experiment import GoodFloor, GuardCommand, Guards

__all__ = ["TICK_SECONDS", "Guard", "Lasting", "Watch", "reason"]

SILENT_SECONDS = 6.0
"""The load driver speaks every second; a floor that hears nothing for this long cannot be evaluated."""
SAID_CHARACTERS = 160


class Longest(Lasting):
    """``max``: the phases took longer."""

    name = "max"
    says = "the run took longer than {}"


class Floor:
    """``read.good``, ``write.good``: the share of good answers stayed below a floor, second by second.

    A second in which nothing was answered although requests of that operation were waiting is below any floor; one in
    which none was due says nothing. ``status``: the load driver's last word, see
    :attr:`chaos.load.driver.Driver.status`.
    """

    def __init__(self, operation: str, floor: GoodFloor, status: Callable[[], Mapping[str, Any]]) -> None:
        self.name = f"{operation}.good"
        self._operation, self._floor, self._status = operation, floor, status
        self._heard: float | None = None
        self._last = -1
        self._below_since: float | None = None

    def tripped(self, now: float) -> str | None:
        said = self._status()
        if said.get("t", -1) == self._last or not said:
            self._heard = self._heard if self._heard is not None else now
            if now - self._heard > SILENT_SECONDS:
                return f"it cannot be evaluated: the load driver has said nothing for {SILENT_SECONDS:g} s"
            return None
        self._last, self._heard = said["t"], now
        counted = said["operations"].get(self._operation) or {}
        answered = counted.get("ok", 0) + counted.get("bad", 0)
        if answered == 0 and not counted.get("waiting", said.get("in_flight")):
            return None
        share = counted.get("good", 0) / answered if answered else 0.0
        if share >= float(self._floor.below):
            self._below_since = None
            return None
        if self._below_since is None:
            self._below_since = now - 1.0  # the driver speaks of the second that is over
        if now - self._below_since < float(self._floor.for_):
            return None
        return (
            f"less than {self._floor.below.text} of the {self._operation}s were good for {self._floor.for_.text}"
            f" (in the last second {share:.0%})"
        )


class StopFile:
    """``stop_file``: a kill switch, which is a file that appears."""

    name = "stop_file"

    def __init__(self, path: Path) -> None:
        self._path = path

    def tripped(self, now: float) -> str | None:
        try:
            os.stat(self._path)
        except FileNotFoundError:
            if self._path.parent.is_dir():
                return None
            return f"it cannot be evaluated: the folder of {self._path} is gone"
        except OSError as error:
            return f"it cannot be evaluated: {self._path}: {error.strerror}"
        return f"the file {self._path} is there"


class Command:
    """``command``: the user's program, run every few seconds in a thread of its own, never by a shell."""

    name = "command"

    def __init__(self, command: GuardCommand) -> None:
        self._command = command
        self._over = threading.Event()
        self._why: str | None = None
        self._thread = threading.Thread(target=self._run, name="guard command", daemon=True)
        self._thread.start()

    def tripped(self, now: float) -> str | None:
        if self._why is None and not self._thread.is_alive() and not self._over.is_set():
            return "it cannot be evaluated: its thread ended"
        return self._why

    def close(self) -> None:
        """End it. A command that is under way is killed."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while self._why is None:
            began = time.monotonic()
            self._why = self._ask()
            if self._over.wait(max(0.0, float(self._command.every) - (time.monotonic() - began))):
                return

    def _ask(self) -> str | None:
        """One call; its whole process group ends with it."""
        command = self._command
        try:
            process = subprocess.Popen(
                list(command.run),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return f"it cannot be evaluated: {command.run[0]}: {error.strerror}"
        try:
            output = self._output(process)
        except TimeoutError:
            return f"it cannot be evaluated: {command.run[0]} gave no answer within {command.timeout.text}"
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if process.returncode == 0 or self._over.is_set():
            return None
        lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
        said = f": {lines[-1][:SAID_CHARACTERS]}" if lines else ""
        return f"{command.run[0]} ended with exit code {process.returncode}{said}"

    def _output(self, process: subprocess.Popen[bytes]) -> bytes:
        """What it printed. Raises TimeoutError; ends early, with nothing, when the watch is over."""
        end = time.monotonic() + float(self._command.timeout)
        while True:
            try:
                return process.communicate(timeout=0.1)[0]
            except subprocess.TimeoutExpired:
                if self._over.is_set():
                    return b""
                if time.monotonic() >= end:
                    raise TimeoutError from None


def refuse_unready(guards: Guards) -> None:
    """Raises InvalidInput for a guard that cannot be evaluated here, or that has tripped already."""
    if guards.stop_file is not None:
        path = Path(guards.stop_file)
        if os.path.lexists(path):
            raise InvalidInput(f"the kill switch {path} is there already", remedy=f"remove it: rm {path}")
        if not path.parent.is_dir():
            raise InvalidInput(
                f"the guard stop_file cannot be evaluated: there is no folder {path.parent}",
                remedy="make it, or name another file",
            )
    refuse_absent(guards)


def refuse_absent(guards: Guards) -> None:
    """Raises InvalidInput for a guard whose program is not on this machine."""
    if guards.command is not None and shutil.which(guards.command.run[0]) is None:
        raise InvalidInput(
            f"the guard command cannot be evaluated: there is no program '{guards.command.run[0]}'",
            remedy="name one that is there and may be executed",
        )


def guards_of(
    wanted: Guards,
    *,
    phases_began: Callable[[], float | None],
    status: Callable[[], Mapping[str, Any]],
) -> list[Guard]:
    """The guards that an experiment asks for, but for those of instruments. A command is run from now on."""
    made: list[Guard] = [Longest(float(wanted.max), wanted.max.text, phases_began)]
    made += [Floor(operation, floor, status) for operation, floor in wanted.floors.items()]
    if wanted.stop_file is not None:
        made.append(StopFile(Path(wanted.stop_file).absolute()))
    if wanted.command is not None:
        made.append(Command(wanted.command))
    return made


def asked_of_instruments(wanted: Guards) -> list[str]:
    """The names of the guards that an instrument must bring."""
    return ["cluster.red"] * (wanted.cluster_red is not None) + [f"sli.{name}" for name in wanted.sli]
