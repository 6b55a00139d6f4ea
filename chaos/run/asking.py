"""Commands that expectations name: run once the load has settled and everything was read back, one after the other.

They run as those of phases do (:mod:`.commanding`): by argv, in a session of their own that stands in the ledger, with
no input. What one says goes into the record; what it prints, into ``logs/expect-N.log``.
"""

from __future__ import annotations

import time

from chaos.base.errors import ChaosError
from chaos.base.text import one_line
from chaos.checks.commands import FAILS, HOLDS, UNKNOWN
from chaos.definitions.expectations import Expectation
from chaos.history.events import CommandAsked
from chaos.run import commanding
from chaos.run.commanding import Command
from chaos.run.state import RunState
from chaos.run.surroundings import environment

TICK_SECONDS = 0.05


class Asking(RunState):
    """Of expectations that are commands."""

    def ask_commands(self) -> None:
        """Every one of them. Raises Aborted after a stop."""
        asked = [each for each in self.experiment.expect if each.command is not None]
        if not asked:
            return
        self.stage("commands")
        on = self.lab.id if self.there is None else str(self.there.lab.target.file)
        with environment(self.lab, self.folder, on) as more:
            for number, expectation in enumerate(asked, 1):
                self.stop.check()
                self._ask(expectation, f"expect-{number}.log", more)

    def _ask(self, expectation: Expectation, log: str, more: dict[str, str]) -> None:
        assert expectation.command is not None and expectation.within is not None
        name, began = commanding.program(expectation.command), time.monotonic()
        self.reporter.status(f"asking {name}, at most {expectation.within.text}")
        code, last = None, list[str]()
        try:
            command = Command(
                expectation.command, self.folder / "logs" / log, self.ledger, more, commanding.new_token()
            )
        except ChaosError as error:
            code, says = NEVER, str(error)
        else:
            try:
                code, says = self._await(command, float(expectation.within), expectation.within.text)
            finally:
                command.end()  # and what it left behind in its session
            last = command.last()
        if last and code not in (HOLDS, None):
            says = f"{says}: {one_line(last[-1])}"
        seconds = round(time.monotonic() - began, 3)
        known = None if code == NEVER else code
        CommandAsked(text=expectation.text, exit_code=known, seconds=seconds, says=says, log=log, last=last).write(
            self.events
        )
        self.reporter.line(f"  {expectation.text}: {says}")
        if code not in (HOLDS, FAILS, UNKNOWN, None):
            self.failed(f"{expectation.text}: {says}; expected 0 (holds), 1 (fails) or 3 (inconclusive)")

    def _await(self, command: Command, within: float, text: str) -> tuple[int | None, str]:
        """Its exit code, None where it was ended; and the same in words. Raises Aborted after a stop."""
        end = time.monotonic() + within
        while (code := command.code()) is None:
            self.stop.check()
            if time.monotonic() >= end:
                return None, f"not over within {text}, and was ended"
            if command.printed() > commanding.LOG_BYTES:
                return None, f"it printed more than {commanding.LOG_BYTES // 2**20} MiB, and was ended"
            time.sleep(TICK_SECONDS)
        return code, f"exit code {code}"


NEVER = -1
"""In the place of the exit code of a command that could not be started."""
