"""Commands of SSM on the nodes of a lab: written down before anything is done, rolled back at their time.

A document's effect lasts as long as its own parameters say, whatever becomes of the action that sent it; a cancelled
command rolls it back at once, where the instance's agent can be told. Commands are one file each, so that another
process goes on with them.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.base import paths
from chaos.base.errors import ChaosError, InvalidInput
from chaos.base.logs import LOG
from chaos.faults.fault import Link
from chaos.faults.moves import Move, apply_moves, said
from chaos.fis_endpoint import documents
from chaos.fis_endpoint.connectivity import Connectivity
from chaos.fis_endpoint.documents import Effect, Fails, Place
from chaos.fis_endpoint.doing import Failed
from chaos.fis_endpoint.mirror import Instance, Mirror
from chaos.targets.protocol import Lab

RETRY_SECONDS = 1.0
"""Until what could not be rolled back is tried again."""
OVER = ("Success", "Failed", "Cancelled")


@dataclass
class Invocation:
    """A command on one instance. ``status``: as SSM has it. ``ends``: when its effect is rolled back (unix time)."""

    instance: str
    node: str
    status: str = "InProgress"
    output: str = ""
    once: dict[str, Any] | None = None
    links: list[list[str]] = field(default_factory=list)
    inverses: list[dict[str, Any]] = field(default_factory=list)
    moves: list[dict[str, Any]] = field(default_factory=list)
    silences: bool = False
    ends: float | None = None
    stands: bool = False
    """Whether something of it is to be rolled back."""


@dataclass
class Command:
    """One SendCommand. ``doing``: the action that sent it, empty for a client's."""

    id: str
    document: str
    parameters: dict[str, list[str]]
    requested: float
    doing: str = ""
    comment: str = ""
    targets: list[dict[str, Any]] = field(default_factory=list)
    invocations: list[Invocation] = field(default_factory=list)

    @property
    def status(self) -> str:
        states = {each.status for each in self.invocations}
        return next((each for each in ("InProgress", "Failed", "Cancelled") if each in states), "Success")

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "invocations": [vars(each) for each in self.invocations]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Command:
        return cls(**{**data, "invocations": [Invocation(**each) for each in data["invocations"]]})


class Commands:
    """All commands of one endpoint on one lab. ``clock``: unix time in seconds."""

    def __init__(
        self,
        lab: Lab,
        mirror: Mirror,
        folder: Path,
        *,
        time_scale: float = 1.0,
        unit: str = "opensearch",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._lab, self.mirror, self._folder = lab, mirror, folder / "commands"
        self._scale, self._unit, self.clock = time_scale, unit, clock
        self.connectivity = Connectivity(lab, mirror, self.links)
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._running: dict[str, list[Future[None]]] = {}
        self._turns: defaultdict[tuple[str, str], threading.RLock] = defaultdict(threading.RLock)
        """By command and instance: what is done at once and its rolling back wait for each other."""
        self._pool = ThreadPoolExecutor(8, thread_name_prefix="ssm")
        self._watch: threading.Thread | None = None
        self._closed = False
        self._commands = {each.id: each for each in self._read()}

    def _read(self) -> list[Command]:
        self._folder.mkdir(parents=True, exist_ok=True)
        found = []
        for file in sorted(self._folder.glob("[!.]*.json")):
            try:
                found.append(Command.from_json(json.loads(file.read_text())))
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise InvalidInput(
                    f"the command in {file} cannot be read: {type(error).__name__}",
                    remedy="take the lab down, or remove the file: nothing that it did is rolled back then",
                ) from error
        return found

    def _write(self, command: Command) -> None:
        paths.write_json(self._folder / f"{command.id}.json", command.to_json())

    # ---- looking ------------------------------------------------------------------------------

    def all(self) -> list[Command]:
        """Every command, the newest first."""
        with self._lock:
            return sorted(self._commands.values(), key=lambda each: each.requested, reverse=True)

    def get(self, id: str) -> Command | None:
        return self._commands.get(id)

    def of(self, doing: str) -> Command | None:
        """The command that an action sent."""
        return next((each for each in self.all() if each.doing == doing), None)

    def links(self, without: str | None = None) -> frozenset[Link]:
        """Links whose packets vanish by documents. ``without``: ``COMMAND/INSTANCE``, which does not count."""
        with self._lock:
            return frozenset(
                (a, b)
                for command in self._commands.values()
                for each in command.invocations
                if each.stands and f"{command.id}/{each.instance}" != without
                for a, b in each.links
            )

    def heard(self, instances: Iterable[Instance]) -> frozenset[str]:
        """Ids of those whose agent is heard of."""
        isolated = self.connectivity.isolated()
        with self._lock:
            silent = {each.instance for _, each in self._standing() if each.silences}
        return frozenset(
            each.id
            for each in instances
            if each.state == "running" and each.subnet not in isolated and each.id not in silent
        )

    def online(self, instance: Instance) -> bool:
        """Whether the agent of an instance is heard of."""
        return instance.id in self.heard([instance])

    def place(self, node: str, command: str) -> Place:
        zones = {each: zone for zone, both in self.mirror.availability_zones().items() for each in both}
        return Place(node, self._lab.wiring, zones, self._unit, command)

    # ---- sending ------------------------------------------------------------------------------

    def send(
        self,
        document: str,
        parameters: Mapping[str, Sequence[str]],
        instances: Sequence[Instance],
        *,
        doing: str = "",
        comment: str = "",
        targets: Sequence[dict[str, Any]] = (),
    ) -> Command:
        """Begin a command; :meth:`settled` awaits what is done at once.

        Raises documents.Wrong or documents.Unsupported, and nothing is done then.
        """
        now = self.clock()
        given = {name: list(values) for name, values in parameters.items()}
        command = Command(str(uuid.uuid4()), document, given, now, doing, comment, list(targets))
        flat = documents.flat(parameters)
        for instance in instances:
            command.invocations.append(self._invocation(command, instance, flat, now))
        with self._changed:
            self._write(command)
            self._commands[command.id] = command
            self._changed.notify_all()
            self._running[command.id] = [
                self._pool.submit(self._do, command, each) for each in command.invocations if each.status not in OVER
            ]
        return command

    def _invocation(self, command: Command, instance: Instance, flat: Mapping[str, str], now: float) -> Invocation:
        made = Invocation(instance.id, instance.node)
        try:
            does: Effect = documents.effect(command.document, flat, self.place(instance.node, command.id))
            if does.once is not None and command.document != documents.SHELL:
                self._refuse_dead(instance.node)
        except Fails as error:
            made.status, made.output = "Failed", str(error)
            return made
        made.output, made.silences = does.says, does.silences
        made.once = does.once.to_json() if does.once is not None else None
        made.links = [list(link) for link in sorted(does.links)]
        made.moves = [each.move.to_json() for each in does.lasting]
        made.inverses = [each.inverse.to_json() for each in does.lasting if each.inverse is not None]
        if does.seconds is not None:
            made.ends, made.stands = now + does.seconds / self._scale, True
        return made

    def _refuse_dead(self, node: str) -> None:
        if self._lab.process_state(node) is None:
            raise Fails(f"{documents.PROCESS}: no process found")

    def _do(self, command: Command, each: Invocation) -> None:
        """What is done at once; what lasts goes on in progress. Nothing of what was rolled back before its turn."""
        with self._turn(command, each):
            if each.ends is None or each.stands:
                self._make(command, each)

    def _turn(self, command: Command, each: Invocation) -> threading.RLock:
        with self._lock:
            return self._turns[command.id, each.instance]

    def _make(self, command: Command, each: Invocation) -> None:
        try:
            if each.once is not None:
                Move.from_json(each.once).apply(self._lab)
            self.connectivity.hold((a, b) for a, b in each.links)
            if failures := apply_moves(self._lab, [Move.from_json(move) for move in each.moves]):
                raise Failed("DependentServiceFailure", "; ".join(failures[:3]))
            status, output = ("InProgress" if each.stands else "Success"), each.output
        except Failed as error:
            status, output = "Failed", error.reason
        except Exception as error:
            status, output = "Failed", said(error)
        with self._lock:
            if each.status == "InProgress":
                each.status, each.output = status, output
            self._write(command)
            self._changed.notify_all()
        if status == "Failed" and each.stands:
            self._roll_back(command, each, "Failed")

    def settled(self, command: Command, seconds: float | None = None) -> Command:
        """Wait until what a command does at once is done."""
        wait(self._running.get(command.id, ()), seconds)
        return command

    # ---- ending -------------------------------------------------------------------------------

    def cancel(self, command: Command, instances: Iterable[str] | None = None) -> None:
        """Roll a command back on these instances, or on all.

        An instance whose agent cannot be reached does not hear of it: there the document ends at its own time.
        Raises Failed where rolling back failed.
        """
        self.settled(command)
        there, failures = self.mirror.instances(), []
        for each in command.invocations:
            if instances is not None and each.instance not in instances:
                continue
            instance = there.get(each.instance)
            if each.stands and instance is not None and not self.online(instance):
                self._over(command, each, "Cancelled")
                continue
            if each.stands and (failure := self._roll_back(command, each, "Cancelled")):
                failures.append(failure)
            elif each.status not in OVER:
                self._over(command, each, "Cancelled")
        if failures:
            raise Failed("DependentServiceFailure", f"{command.document} was not rolled back: {'; '.join(failures)}")

    def cleared(self, instance: str) -> None:
        """An instance was stopped or rebooted: nothing is left of what its documents did to its network.

        Raises Failed where the lab did not take it back.
        """
        failures = []
        for command, each in self._standing():
            if each.instance == instance:
                status = each.status if each.status in OVER else "Failed"
                failures.append(self._roll_back(command, each, status) or "")
        if any(failures):
            raise Failed("DependentServiceFailure", "; ".join(filter(None, failures)))

    def _standing(self) -> list[tuple[Command, Invocation]]:
        with self._lock:
            return [(c, each) for c in self._commands.values() for each in c.invocations if each.stands]

    def tick(self) -> bool:
        """Roll back what is due; False when something could not be."""
        now = self.clock()
        due = [(c, each) for c, each in self._standing() if each.ends is not None and each.ends <= now]
        done = [self._roll_back(c, each, each.status if each.status in OVER else "Success") for c, each in due]
        return not any(done)

    def _left(self) -> float | None:
        """Seconds until the next is due, None when there is none."""
        ends = [each.ends for _, each in self._standing() if each.ends is not None]
        return max(min(ends) - self.clock(), 0.0) if ends else None

    def _over(self, command: Command, each: Invocation, status: str) -> None:
        with self._lock:
            each.status = status
            self._write(command)

    def _roll_back(self, command: Command, each: Invocation, status: str) -> str | None:
        """Returns why it could not be; then it stands, and is tried again when it is due."""
        with self._turn(command, each):
            return self._rolled_back(command, each, status)

    def _rolled_back(self, command: Command, each: Invocation, status: str) -> str | None:
        try:
            failures = apply_moves(self._lab, [Move.from_json(move) for move in each.inverses])
            self.connectivity.release(((a, b) for a, b in each.links), without=f"{command.id}/{each.instance}")
        except Failed as error:
            failures = [error.reason]
        except ChaosError as error:
            failures = [said(error)]
        with self._lock:
            if failures:
                each.output = "; ".join(failures)[:2500]
            else:
                each.status, each.stands = status, False
            self._write(command)
            self._changed.notify_all()
        if failures:
            LOG.warning("%s on %s was not rolled back: %s", command.document, each.node, "; ".join(failures))
            return "; ".join(failures)
        return None

    # ---- in the course of time ----------------------------------------------------------------

    def start(self) -> None:
        """Go on with what an earlier process left, and roll back at their times what is sent from now on."""
        for command in self.all():
            for each in command.invocations:
                if each.status == "InProgress" and each.ends is None and command.id not in self._running:
                    self._over(command, each, "Failed")
        self.tick()
        self._watch = threading.Thread(target=self._keep, name="ssm-ends", daemon=True)
        self._watch.start()

    def _keep(self) -> None:
        while True:
            try:
                done = self.tick()
            except Exception as error:  # moto may be gone for a moment; what is due stays due
                LOG.warning("commands: %s", said(error))
                done = False
            with self._changed:
                if self._closed:
                    return
                self._changed.wait(self._left() if done else RETRY_SECONDS)

    def close(self) -> None:
        """Stop keeping time; what stands stays, for :meth:`start` of another process."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._watch is not None:
            self._watch.join()
        self._pool.shutdown(wait=True)
