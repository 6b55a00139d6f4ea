"""Programs of the experiment's own beside the load (``programs``): begun before the first phase, ended after the last.

Each runs as commands of phases do (:mod:`.commanding`): by argv, in a session of its own that stands in the ledger,
with no input. Once the last phase is over the program itself is sent SIGTERM, and has its deadline to end with 0; then
all of its session is ended. That SIGTERM ends it is well, too. One that ends otherwise was no client of a whole run.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from chaos.base.console import Reporter
from chaos.base.errors import ChaosError, InvalidInput
from chaos.base.text import one_line, printable
from chaos.definitions import Experiment
from chaos.definitions.programs import Program
from chaos.faults.ledger import Ledger
from chaos.history import EventWriter
from chaos.history.events import ProgramBegun, ProgramOver
from chaos.run import commanding
from chaos.run.commanding import Command
from chaos.run.stopping import Unproven

PAUSE_SECONDS = 0.1
BY_SIGTERM = 128 + signal.SIGTERM
READY_SECONDS = 20.0
"""How long a program may take to say whether it is ready."""
REASON = 1000
"""Characters of why it is not: a command that mends it may be long."""


def refuse_unready(experiment: Experiment) -> None:
    """Raises InvalidInput for a program whose ``ready`` says that it is not, with the last line that it printed."""
    for name, program in experiment.programs.items():
        if program.ready is None:
            continue
        try:
            asked = subprocess.run(
                commanding.meant(program.ready), stdin=subprocess.DEVNULL, capture_output=True, timeout=READY_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise InvalidInput(
                f"the program {name} has not said within {READY_SECONDS:.0f} s that it is ready"
            ) from None
        except OSError as error:
            raise InvalidInput(f"the program {name} cannot be asked whether it is ready: {error.strerror}") from None
        if asked.returncode != 0:
            said = (asked.stdout + b"\n" + asked.stderr).decode(errors="replace").split("\n")
            lines = [line for line in said if line.strip()]
            why = printable(lines[-1].strip())[:REASON] if lines else f"exit code {asked.returncode}"
            raise InvalidInput(f"the program {name} is not ready: {why}")


class _One:
    """One program that runs."""

    def __init__(self, name: str, program: Program, folder: Path, ledger: Ledger, more: Mapping[str, str]) -> None:
        self.name, self.program, self._began = name, program, time.monotonic()
        self.log = folder / "logs" / f"program-{name}.log"
        self._command = Command(program.command, self.log, ledger, more, commanding.new_token())
        self.noted = self.told = False

    def ended(self) -> int | None:
        return self._command.code()

    def talks(self) -> bool:
        """Whether it printed more than it may."""
        return self._command.printed() > commanding.LOG_BYTES

    def tell(self) -> None:
        self.told = True
        self._command.tell()

    def end(self) -> None:
        """With all of its session; idempotent. Raises FaultError where a process stays."""
        self._command.end()

    def over(self, code: int | None, says: str) -> ProgramOver:
        self.noted = True
        last = self._command.last()
        ok = code == 0 or (self.told and code == BY_SIGTERM)
        if not ok and last:
            says = f"{says}: {one_line(last[-1])}"
        seconds = round(time.monotonic() - self._began, 3)
        return ProgramOver(
            name=self.name, ok=ok, exit_code=code, seconds=seconds, says=says, log=self.log.name, last=last
        )


class Programs:
    """Those of one run, from :meth:`begin` to :meth:`end`."""

    def __init__(self, folder: Path, ledger: Ledger, events: EventWriter, reporter: Reporter) -> None:
        self._folder, self._ledger, self._events, self._reporter = folder, ledger, events, reporter
        self._running: list[_One] = []

    def begin(self, programs: Mapping[str, Program], more: Mapping[str, str]) -> None:
        """Raises Unproven where one cannot be started."""
        for name, program in programs.items():
            try:
                self._running.append(_One(name, program, self._folder, self._ledger, more))
            except ChaosError as error:
                raise Unproven(f"the program {name}: {error}") from error
            ProgramBegun(name=name, says=program.describe()).write(self._events)
            self._reporter.line(f"  {name} runs beside the load, {program.describe()}")

    def check(self) -> None:
        """Raises Unproven where one has ended with another code than 0, or prints too much."""
        for one in self._running:
            if one.noted:
                continue
            code = one.ended()
            if code is not None:
                self._over(one, code, f"ended with exit code {code}")
            elif one.talks():
                self._over(one, None, f"printed more than {commanding.LOG_BYTES // 2**20} MiB, and was ended")

    def finish(self, pause: Callable[[str], object]) -> None:
        """The phases are over: tell each to end, and wait. ``pause`` raises what ends a run.

        Raises Unproven where one ends with another code than 0, or not in time.
        """
        for one in self._running:
            one.tell()
        began = time.monotonic()
        while left := [one for one in self._running if not one.noted]:
            pause(f"waiting for {' and '.join(one.name for one in left)} to end")
            time.sleep(PAUSE_SECONDS)
            self.check()
            for one in left:
                within = one.program.within
                if not one.noted and time.monotonic() - began > float(within):
                    self._over(one, None, f"did not end within {within.text}, and was ended")

    def end(self) -> None:
        """Whatever runs still is ended, with all of its session. Idempotent. What stays, stays in the ledger."""
        for one in self._running:
            try:
                one.end()
            except ChaosError as error:
                self._reporter.line(f"  {one.name}: {error}")
            if not one.noted:
                with suppress(OSError):  # the instrument that watches the record reports a lost one
                    one.over(None, "it was ended by this run").write(self._events)

    def _over(self, one: _One, code: int | None, says: str) -> None:
        one.end()
        over = one.over(code, says)
        over.write(self._events)
        self._reporter.line(f"  {one.name}: {over.says}")
        if not over.ok:
            raise Unproven(f"the program {one.name}: {over.says}")
