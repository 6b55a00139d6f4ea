"""Actions of AWS FIS carried out on a lab by its own moves, and told to moto: :class:`chaos.fis_endpoint.doing.Hands`.

Nothing that an undo needs is remembered here: it follows from the action itself, from moto's tags and from what
commands wrote down. So another process can end what this one began.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from chaos.fis_endpoint import documents
from chaos.fis_endpoint.commands import Commands
from chaos.fis_endpoint.connectivity import SCOPES, Connectivity
from chaos.fis_endpoint.documents import Fails, Unsupported, Wrong
from chaos.fis_endpoint.doing import Doing, Failed
from chaos.fis_endpoint.machines import Machines, failure
from chaos.fis_endpoint.mirror import Instance, Mirror, States, id_of
from chaos.providers import process  # noqa: F401 - the operations that moves of nodes name
from chaos.targets.protocol import Lab

SLACK_SECONDS = 0.25
"""An end this much before an action's time counts as its own end, and not as a stop: two clocks, two beginnings."""
_INSTANCES = ("aws:ec2:stop-instances", "aws:ec2:reboot-instances", "aws:ec2:terminate-instances")
_WITHOUT = {
    "aws:ec2:send-spot-instance-interruptions": "the lab has no spot instances",
    "aws:ec2:api-insufficient-instance-capacity-error": "the lab launches no instances",
    "aws:ec2:asg-insufficient-instance-capacity-error": "the lab has no Auto Scaling groups",
    "aws:ebs:volume-io-latency": "the lab limits the rate of a disk's writes, and cannot delay each read and write",
    "aws:ssm:start-automation-execution": "the lab runs no automation documents",
    "aws:arc:start-zonal-autoshift": "the lab has no managed resources that could be shifted away from a zone",
}


class LabHands:
    """The hands of one lab. ``folder`` is the endpoint's own; ``time_scale`` divides what documents last.

    ``unit``: the systemd unit that clients start and stop by AWS-RunShellScript. Use it as a context manager, or
    :meth:`start` and :meth:`close` it: between the two documents are rolled back at their time.
    """

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
        self.lab, self.mirror, self._clock = lab, mirror, clock
        self.commands = Commands(lab, mirror, folder, time_scale=time_scale, unit=unit, clock=clock)
        self.connectivity: Connectivity = self.commands.connectivity
        self.machines = Machines(lab, mirror, States(folder), self.commands)

    def start(self) -> None:
        self.commands.start()

    def close(self) -> None:
        self.commands.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- whether it can be done ---------------------------------------------------------------

    def unable(self, doing: Doing) -> str | None:
        """Why a lab has no counterpart of this, or not of all of it; None where it has."""
        with _translated():
            if doing.action in _INSTANCES:
                return self._lacks("process") or self._strangers(doing, "Instances", set(self.mirror.instances()))
            if doing.action == "aws:network:disrupt-connectivity":
                return self._unable_to_disrupt(doing)
            if doing.action == "aws:ebs:pause-volume-io":
                return self._unable_to_pause(doing)
            if doing.action == "aws:ssm:send-command":
                return self._unable_to_send(doing)
        why = _WITHOUT.get(doing.action)
        return f"{doing.action} has no counterpart in a lab{f': {why}' if why else ''}"

    def _lacks(self, capability: str) -> str | None:
        why = self.lab.lacks(capability)
        return f"this lab cannot do it: {why}" if why else None

    def _strangers(self, doing: Doing, key: str, ours: set[str]) -> str | None:
        """Targets that are in EC2 and are nothing of the lab's."""
        strange = [id for id in ids(doing, key) if id not in ours]
        return f"{', '.join(strange)} is nothing of lab {self.lab.id}" if strange else None

    def _unable_to_disrupt(self, doing: Doing) -> str | None:
        scope = doing.parameters.get("scope", "all")
        if scope not in SCOPES:
            return (
                f"scope {scope} of disrupt-connectivity has no counterpart: a lab has zones, and no S3, DynamoDB, "
                "prefix lists or other VPCs"
            )
        return self._lacks("drop") or self._strangers(doing, "Subnets", set(self.mirror.subnets()))

    def _unable_to_pause(self, doing: Doing) -> str:
        reason = self._lacks("disks") or self._strangers(doing, "Volumes", set(self.mirror.volumes()))
        return reason or (
            "pause-volume-io stops reads and writes, and a lab can stop the writes of a disk alone: reads go on"
        )

    def _unable_to_send(self, doing: Doing) -> str | None:
        document = documents.name_of(doing.parameters.get("documentArn", ""))
        there = self.mirror.instances()
        if reason := self._lacks("process") or self._strangers(doing, "Instances", set(there)):
            return reason
        if not documents.known(document):
            return f"there is no document {document} here"
        if doing.parameters.get("documentVersion", "$DEFAULT") not in ("$DEFAULT", "$LATEST", "1"):
            return f"{document} has one version here, 1"
        try:
            given = documents.of_json(doing.parameters.get("documentParameters", ""))
            for id in ids(doing, "Instances"):
                does = documents.effect(document, given, self.commands.place(there[id].node, "none"))
                needed = {"drop"} if does.links else set()
                needed |= {"links"} if does.lasting else set()
                for capability in sorted(needed):
                    if reason := self._lacks(capability):
                        return reason
        except Unsupported as error:
            return str(error)
        except Wrong as error:
            return f"{document}: {error}"
        except Fails:  # it can be sent, and fails as it would on AWS
            return None
        return None

    # ---- doing it -----------------------------------------------------------------------------

    def begin(self, doing: Doing) -> None:
        """Make it in the lab, and then in moto. Raises Failed, also for what :meth:`unable` refuses."""
        if reason := self.unable(doing):
            raise Failed("ConfigurationFailure", reason)
        with _translated():
            if doing.action == "aws:ec2:stop-instances":
                self.machines.stop(ids(doing, "Instances"))
            elif doing.action == "aws:ec2:reboot-instances":
                self.machines.reboot(ids(doing, "Instances"))
            elif doing.action == "aws:ec2:terminate-instances":
                self.machines.terminate(ids(doing, "Instances"))
            elif doing.action == "aws:network:disrupt-connectivity":
                self.connectivity.disrupt(doing.id, ids(doing, "Subnets"), doing.parameters.get("scope", "all"))
            elif doing.action == "aws:ssm:send-command":
                self._send(doing)

    def _send(self, doing: Doing) -> None:
        command = self.commands.of(doing.id)
        if command is None:
            there = self.mirror.instances()
            instances = [there[id] for id in ids(doing, "Instances")]
            online = self.commands.heard(instances)
            if deaf := [each.id for each in instances if each.id not in online]:
                raise Failed("DependentServiceFailure", f"no SSM agent is online on {', '.join(deaf)}")
            document = documents.name_of(doing.parameters["documentArn"])
            given = documents.of_json(doing.parameters.get("documentParameters", ""))
            lists = {name: [value] for name, value in given.items()}
            command = self.commands.send(document, lists, instances, doing=doing.id, comment=doing.experiment)
        self.commands.settled(command)
        if failed := [each for each in command.invocations if each.status == "Failed"]:
            raise Failed(
                "DependentServiceFailure",
                "; ".join(f"{command.document} failed on {each.instance}: {each.output}" for each in failed),
            )

    def still(self, doing: Doing) -> str | None:
        """Why it has failed meanwhile, None where it goes on."""
        with _translated():
            if doing.action == "aws:ec2:stop-instances" and not _completes(doing):
                if gone := self._terminated(doing):
                    return f"{', '.join(each.id for each in gone)} was terminated meanwhile"
            elif doing.action == "aws:ssm:send-command" and (command := self.commands.of(doing.id)) is not None:
                for each in command.invocations:
                    if each.status in ("Failed", "Cancelled"):
                        return f"{command.document} on {each.instance} is {each.status}: {each.output}"
        return None

    def _terminated(self, doing: Doing) -> list[Instance]:
        there = self.mirror.instances()
        return [there[id] for id in ids(doing, "Instances") if id in there and there[id].state == "terminated"]

    # ---- taking it back -----------------------------------------------------------------------

    def end(self, doing: Doing, *, stopped: bool | None = None) -> None:
        """Take back what AWS takes back. Idempotent, also in another process. Raises Failed.

        A document outlives an action that ends by itself, and is cancelled by a stop. ``stopped`` says which of the two
        it is; None: a stop, unless the action's time is over.
        """
        with _translated():
            if doing.action == "aws:ec2:stop-instances":
                self._start_again(doing)
            elif doing.action == "aws:ec2:reboot-instances":
                self.machines.rebooted(ids(doing, "Instances"))
            elif doing.action == "aws:network:disrupt-connectivity":
                self.connectivity.restore(doing.id, ids(doing, "Subnets"))
            elif doing.action == "aws:ssm:send-command":
                command = self.commands.of(doing.id)
                if command is not None and (self._is_early(doing, command.requested) if stopped is None else stopped):
                    self.commands.cancel(command)

    def _is_early(self, doing: Doing, began: float) -> bool:
        return doing.seconds is None or self._clock() - began < doing.seconds - SLACK_SECONDS

    def _start_again(self, doing: Doing) -> None:
        if "startInstancesAfterDuration" not in doing.parameters:
            return
        gone = {each.id for each in self._terminated(doing)} if _completes(doing) else set()
        self.machines.start(id for id in ids(doing, "Instances") if id not in gone)


def ids(doing: Doing, key: str) -> list[str]:
    """The ids of what an action is to hit."""
    return [id_of(arn) for arn in doing.targets.get(key, ())]


def _completes(doing: Doing) -> bool:
    return doing.parameters.get("completeIfInstancesTerminated", "").lower() == "true"


@contextmanager
def _translated() -> Iterator[None]:
    """What the lab and moto raise, as Failed."""
    try:
        yield
    except Failed:
        raise
    except Exception as error:
        raise failure(error) from error
