"""Phases that wait for something that is not ours (``during``): a command, or what a person does.

It is judged like a fault. What it is to do to the cluster is allowed while the phase lasts, and nothing else. What did
not come to its end, or is not shown to have happened, ends the run early as inconclusive.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import sys
import termios
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from chaos.base import surroundings
from chaos.base.errors import ChaosError, InvalidInput, LabError
from chaos.base.paths import ProcessIdentity, write_json
from chaos.checks.instrument import ClusterSight, Permission
from chaos.definitions import Phase
from chaos.definitions.during import During
from chaos.definitions.selectors import candidates
from chaos.history.events import DuringBegun, DuringOver, DuringProof
from chaos.observe import restarted
from chaos.observe.restarted import Processes, Shown
from chaos.run import commanding
from chaos.run.commanding import Command
from chaos.run.loading import TICK_SECONDS
from chaos.run.state import TARGET_GUARD, RunState
from chaos.run.stopping import Unproven
from chaos.run.surroundings import environment

KNOWN_SECONDS = 20.0
"""How long it may take until the cluster says who its nodes are, before anything is begun."""
SAME_SECONDS = 5.0
"""For how long a node that is still the process that it was may be a word that is out of date."""
RETURN_SECONDS = 180.0
"""How long a node may take to be back once it is said to be done, as long as a lab's own may (``START_SECONDS``)."""
SILENT_SECONDS = 30.0
"""So long a cluster that is not ours may have nobody who says who is there, while others restart its nodes."""
WAITING, DONE = "waiting.json", "done.json"
"""In the run's folder: what a person is waited for, and the answer (:mod:`chaos.commands.saying_done`)."""


class Waiting(RunState):
    """Of phases with ``during``."""

    def wait_for_others(self, phase: Phase) -> str:
        """Until it is over and shown to have happened. Raises Unproven where it is not, and what a tick raises."""
        during = phase.during
        assert during is not None
        named = () if during.restarts is None else candidates(during.restarts, self.experiment.topology.nodes)
        before = self.processes(phase)
        self.instruments.permit(Permission(phase.name, tuple(named), tuple(during.changes)))
        DuringBegun(
            phase=phase.name,
            says=during.describe(),
            how="manual" if during.command is None else "command",
            nodes=list(named),
            settings=list(during.changes),
            grade=during.grade,
        ).write(self.events)
        try:
            told = self._command(phase, during, named) if during.command else self._person(phase, during, named)
            self.reporter.line(f"  {during.describe()}: {told}")
            self._prove(phase, before, named)
        finally:
            self.instruments.permit_no_more(patient=not self.stop.is_over())
        self.stop.check()
        return "done"

    def processes(self, phase: Phase) -> Processes:
        """Who the nodes are before anything is begun. Raises Unproven where the cluster does not say."""
        end = time.monotonic() + KNOWN_SECONDS
        while True:
            try:
                return restarted.read(self.lab)
            except LabError as error:
                if time.monotonic() >= end:
                    raise Unproven(f"{phase.name}: who the nodes are is not known before ({error})") from error
            self._pause(f"{phase.name}: asking who the nodes are", ())

    # ---- a command ----------------------------------------------------------------------------------

    def _command(self, phase: Phase, during: During, named: tuple[str, ...]) -> str:
        """How it ended, in words. Raises Unproven unless with 0, within its deadline."""
        on = self.lab.id if self.there is None else str(self.there.lab.target.file)
        with environment(self.lab, self.folder, on) as more:
            return self._run_command(phase, during, named, {**more, surroundings.PHASE: phase.name})

    def _run_command(self, phase: Phase, during: During, named: tuple[str, ...], more: Mapping[str, str]) -> str:
        assert during.command is not None
        name, began = commanding.program(during.command), time.monotonic()
        log = self.folder / "logs" / f"during-{phase.name}.log"
        command = Command(during.command, log, self.ledger, more, commanding.new_token())
        told: dict[str, Any] = {"exit_code": None, "says": "it was ended by this run"}
        try:
            while (code := command.code()) is None:
                left = float(during.within) - (time.monotonic() - began)
                self._pause(f"{phase.name}: waiting for {name}, at most {left:.0f} s", named)
                if left <= 0:
                    told["says"] = f"it was not over within {during.within.text}, and was ended"
                    raise Unproven(f"{during.describe()}: not over within {during.within.text}")
                if command.printed() > commanding.LOG_BYTES:
                    told["says"] = "it printed too much, and was ended"
                    raise Unproven(f"{during.describe()}: printed more than {commanding.LOG_BYTES // 2**20} MiB")
            command.over()
            last = command.last()
            told = {"exit_code": code, "says": f"ended with exit code {code}"}
            if code != 0:
                said = f": {last[-1]}" if last else ""
                raise Unproven(f"{during.describe()}: ended with exit code {code}{said}")
            return str(told["says"])
        finally:
            self._end(command, name)
            over = DuringOver(
                phase=phase.name,
                ok=told["exit_code"] == 0,
                seconds=round(time.monotonic() - began, 3),
                log=log.name,
                last=command.last(),
                **told,
            )
            self.note(over)

    def _end(self, command: Command, name: str) -> None:
        """Before anything is undone. What does not end stays in the ledger, and is tried again there."""
        try:
            count = command.end()
        except ChaosError as error:
            self.reporter.line(f"  {name}: {error}")
            return
        if count:
            self.reporter.line(f"  {name}: ended before its time, {count} process{'es' * (count > 1)} of its session")

    # ---- a person -----------------------------------------------------------------------------------

    def _person(self, phase: Phase, during: During, named: tuple[str, ...]) -> str:
        """What was answered. Raises Unproven where nobody says within the deadline that it is done."""
        assert during.manual is not None
        began = time.monotonic()
        waiting, answer = self.folder / WAITING, self.folder / DONE
        answer.unlink(missing_ok=True)
        _forget_typed()
        about = {"phase": phase.name, "says": during.manual, "runner": ProcessIdentity.me().to_json()}
        write_json(waiting, about)
        here = "press Enter here, or run" if _foreground() else "run"
        self.reporter.demand(
            f"{phase.name} waits for you, at most {during.within.text}: {during.manual}\n"
            f"when it is done, {here}: opensearch-chaos done {shlex.quote(str(self.folder))}"
        )
        told: str | None = None
        try:
            while told is None:
                left = float(during.within) - (time.monotonic() - began)
                if left <= 0:
                    raise Unproven(f"{during.describe()}: nobody said within {during.within.text} that it is done")
                self._pause(f"{phase.name}: waiting for {during.manual}, at most {left:.0f} s", named)
                told = _said_in(answer, phase.name)
                told = _typed() if told is None else told
            return f"said to be done{f': {told}' if told else ''}"
        finally:
            waiting.unlink(missing_ok=True)
            over = DuringOver(
                phase=phase.name,
                ok=told is not None,
                seconds=round(time.monotonic() - began, 3),
                says="nobody said that it is done" if told is None else told or "said to be done",
            )
            self.note(over)

    # ---- what it did --------------------------------------------------------------------------------

    def _prove(self, phase: Phase, before: Processes, named: tuple[str, ...]) -> None:
        """That each node that was to be restarted is another process, and no other node is. Raises Unproven."""
        spared = {node for fault in self.lifecycle.active for node in fault.targets}
        began = time.monotonic()
        after: Processes = {}
        found = Shown((), {}, (), waits=False)
        while True:
            why = None
            try:
                after = restarted.read(self.lab)
                found = restarted.shown(before, after, named, spared)
            except LabError as error:
                why = str(error)
            waited = time.monotonic() - began
            patience = RETURN_SECONDS if why is not None or found.waits else SAME_SECONDS
            if (why is None and found.proven) or waited >= patience:
                break
            self._pause(f"{phase.name}: looking whether it happened", named)
        proven = why is None and found.proven
        says = found.says() if why is None else f"who the nodes are is not known afterwards ({why})"
        nodes = {
            node: {
                key: None if (seen := at.get(node)) is None else seen.to_json()
                for key, at in (("before", before), ("after", after))
            }
            for node in sorted({*named, *(node for node in before if before.get(node) != after.get(node))})
        }
        if named or not proven:
            DuringProof(phase=phase.name, proven=proven, says=says, nodes=nodes).write(self.events)
            self.reporter.line(f"  {says}{', proven' if proven else ': NOT PROVEN'}")
        if not proven:
            assert phase.during is not None
            raise Unproven(f"{phase.during.describe()}: {says}")

    def _pause(self, text: str, named: tuple[str, ...]) -> None:
        """A moment, in which whatever ends a run is heard."""
        self.tick(text)
        if self.there is not None and self.sight is not None and (why := _too_many(self.sight, named)):
            self.stop.ask(why, TARGET_GUARD)
            self.stop.check()
        time.sleep(TICK_SECONDS)


def _too_many(sight: ClusterSight, named: tuple[str, ...]) -> str | None:
    """Why more may be away than what a cluster that is not ours was said to bear; None: nothing says so."""
    if named and time.monotonic() - sight.heard > SILENT_SECONDS:
        return f"for {SILENT_SECONDS:.0f} s nobody has said which nodes are away"
    away = sorted(set(named) - sight.nodes) if sight.nodes is not None else []
    return f"{' and '.join(away)} are away at the same time, and it was planned that one is" if len(away) > 1 else None


def say_done(folder: Path, says: str) -> tuple[str, str]:
    """Answer the run of this folder: its phase, and what it waits for. Raises InvalidInput where it waits for none."""
    try:
        waiting = json.loads((folder / WAITING).read_text())
        phase, what = str(waiting["phase"]), str(waiting["says"])
        lives = ProcessIdentity.from_json(waiting["runner"]).alive()
    except (OSError, ValueError, KeyError, TypeError):
        raise InvalidInput(
            f"{folder} waits for nobody", remedy="name the folder of a run that waits; it says so itself"
        ) from None
    if not lives:
        raise InvalidInput(f"the runner of {folder} is dead", remedy="run: opensearch-chaos recover")
    try:
        write_json(folder / DONE, {"phase": phase, "says": says})
    except OSError as error:
        raise InvalidInput(f"{folder / DONE} cannot be written: {error.strerror}") from None
    return phase, what


def _said_in(file: Path, phase: str) -> str | None:
    """What was answered for this phase by ``opensearch-chaos done``; None: nothing."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        answer = json.loads(file.read_text())
        if answer["phase"] == phase:
            return str(answer["says"])
    return None


def _foreground() -> bool:
    """Whether somebody sits at our terminal who may press a key."""
    try:
        return sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return False


def _forget_typed() -> None:
    """What was typed before it was asked for answers nothing."""
    if _foreground():
        with suppress(termios.error):
            termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _typed() -> str | None:
    """The line that was typed; None: none yet."""
    if not _foreground() or not select.select([sys.stdin], [], [], 0)[0]:
        return None
    line = os.read(sys.stdin.fileno(), 4096).decode(errors="replace")
    return line.strip() if line else None
