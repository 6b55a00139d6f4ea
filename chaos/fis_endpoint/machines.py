"""Instances that stop, start, reboot and terminate: the node's process in the lab, and then the instance in moto."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from chaos.base.errors import ChaosError
from chaos.faults.moves import Move, said
from chaos.fis_endpoint.clients import error_code
from chaos.fis_endpoint.commands import Commands
from chaos.fis_endpoint.doing import Failed
from chaos.fis_endpoint.mirror import Instance, Mirror, States
from chaos.targets.protocol import Lab


class Machines:
    """The instances of one lab. Each call is idempotent, tries all of them, and raises Failed for those that failed."""

    def __init__(self, lab: Lab, mirror: Mirror, states: States, commands: Commands) -> None:
        self._lab, self._mirror, self._states, self._commands = lab, mirror, states, commands

    def stop(self, ids: Iterable[str], *, force: bool = False) -> None:
        """In order (SIGTERM), as AWS shuts the operating system down; ``force``: SIGKILL."""

        def work(instance: Instance) -> None:
            _refuse_terminated(instance, "stopped")
            self._states.set(instance.node, "stopped")  # first: a restarted endpoint must not take it for running
            try:
                self._move("node.kill" if force else "node.stop", instance)
            except Exception:
                self._states.set(instance.node, None)
                raise
            self._commands.cleared(instance.id)
            self._mirror.ec2.stop_instances(InstanceIds=[instance.id])

        self._each(ids, work)

    def start(self, ids: Iterable[str]) -> None:
        """Does not wait for the node to join."""

        def work(instance: Instance) -> None:
            _refuse_terminated(instance, "started")
            self._move("node.start", instance)
            self._states.set(instance.node, None)
            self._mirror.ec2.start_instances(InstanceIds=[instance.id])

        self._each(ids, work)

    def reboot(self, ids: Iterable[str]) -> None:
        """Stopped in order and started again."""

        def work(instance: Instance) -> None:
            if instance.state != "running":
                raise Failed("ConfigurationFailure", f"{instance.id} is {instance.state}: it cannot be rebooted")
            self._states.set(instance.node, "rebooting")
            self._move("node.stop", instance)
            self._commands.cleared(instance.id)
            self._move("node.start", instance)
            self._states.set(instance.node, None)
            self._mirror.ec2.reboot_instances(InstanceIds=[instance.id])

        self._each(ids, work)

    def rebooted(self, ids: Iterable[str]) -> None:
        """Start those whose reboot was begun and not ended."""
        states = self._states.all()

        def work(instance: Instance) -> None:
            if states.get(instance.node) == "rebooting":
                self._move("node.start", instance)
                self._states.set(instance.node, None)

        self._each(ids, work)

    def terminate(self, ids: Iterable[str]) -> None:
        """SIGKILL; there is no way back."""

        def work(instance: Instance) -> None:
            self._states.set(instance.node, "terminated")
            self._move("node.kill", instance)
            self._commands.cleared(instance.id)
            self._mirror.ec2.terminate_instances(InstanceIds=[instance.id])

        self._each(ids, work)

    def _move(self, operation: str, instance: Instance) -> None:
        Move(operation, {"node": instance.node}).apply(self._lab)

    def _each(self, ids: Iterable[str], work: Callable[[Instance], None]) -> None:
        there: Mapping[str, Instance] = self._mirror.instances()

        def guarded(id: str) -> Failed | None:
            try:
                if id not in there:
                    raise Failed("InvalidTarget", f"{id} is no node of lab {self._lab.id}")
                work(there[id])
            except Failed as failed:
                return failed
            except Exception as error:
                return failure(error)
            return None

        wanted = list(ids)
        with ThreadPoolExecutor(max(1, min(len(wanted), 8))) as pool:
            failures = [each for each in pool.map(guarded, wanted) if each is not None]
        if failures:
            raise Failed(failures[0].code, "; ".join(each.reason for each in failures))


def failure(error: Exception) -> Failed:
    """What went wrong in the lab or in moto, in FIS's words; anything else is a mistake of ours."""
    known = isinstance(error, ChaosError) or error_code(error) is not None
    return Failed("DependentServiceFailure" if known else "InternalFailure", said(error))


def _refuse_terminated(instance: Instance, what: str) -> None:
    if instance.state in ("terminated", "shutting-down"):
        raise Failed("ConfigurationFailure", f"{instance.id} is terminated: it cannot be {what}")
