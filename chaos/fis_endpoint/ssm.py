"""SSM's calls that moto lacks or answers wrongly: agents, commands and their invocations; all others are moto's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from chaos.fis_endpoint import documents
from chaos.fis_endpoint.commands import OVER, Command, Invocation
from chaos.fis_endpoint.documents import Unsupported, Wrong
from chaos.fis_endpoint.doing import Failed
from chaos.fis_endpoint.hands import LabHands
from chaos.fis_endpoint.mirror import Instance, tags_of
from chaos.fis_endpoint.routing import Reply
from chaos.fis_endpoint.server import Moto, Request

PREFIX = "AmazonSSM."
AGENT_VERSION = "3.3.0.0"
MOST_INSTANCES = 50
_EXPIRES_SECONDS = 3600
_CODES = {"Success": 0, "Failed": 1}
_UNTOLD = -1
"""``ResponseCode`` of a command that has not ended."""


class SsmError(Exception):
    """An error of SSM's model, by its code."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


class Ssm:
    """The handler of SSM (JSON 1.1). ``forward`` passes a request on to moto."""

    def __init__(self, hands: LabHands, forward: Moto) -> None:
        self._hands, self._commands, self._forward = hands, hands.commands, forward
        self._does: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "DescribeInstanceInformation": self._agents,
            "SendCommand": self._send,
            "ListCommands": self._list,
            "ListCommandInvocations": self._invocations,
            "GetCommandInvocation": self._invocation,
            "CancelCommand": self._cancel,
        }

    def __call__(self, request: Request) -> Reply:
        target = request.headers.get("x-amz-target", "")
        does = self._does.get(target.removeprefix(PREFIX)) if target.startswith(PREFIX) else None
        if does is None:
            return self._forward(request)
        try:
            given = json.loads(request.body or b"{}")
            if not isinstance(given, dict):
                raise ValueError
        except ValueError:
            return _answer(400, {"__type": "SerializationException", "message": "the body is no JSON object"})
        try:
            return _answer(200, does(given))
        except SsmError as error:
            return _answer(error.status, {"__type": error.code, "message": error.message})
        except Failed as failed:
            return _answer(500, {"__type": "InternalServerError", "message": failed.reason})

    # ---- agents -------------------------------------------------------------------------------

    def _agents(self, given: dict[str, Any]) -> dict[str, Any]:
        now = self._commands.clock()
        tags, there = self._tags(), list(self._hands.mirror.instances().values())
        online, rows = self._commands.heard(there), []
        for each in there:
            if each.state in ("terminated", "shutting-down"):
                continue
            status = "Online" if each.id in online else "ConnectionLost"
            rows.append(
                {
                    "InstanceId": each.id,
                    "PingStatus": status,
                    "LastPingDateTime": now,
                    "AgentVersion": AGENT_VERSION,
                    "IsLatestVersion": True,
                    "PlatformType": "Linux",
                    "PlatformName": "Amazon Linux",
                    "PlatformVersion": "2023",
                    "ResourceType": "EC2Instance",
                    "IPAddress": each.address,
                    "ComputerName": each.node,
                }
            )
        wanted = [(each["Key"], each["Values"]) for each in given.get("Filters", ())]
        wanted += [(each["key"], each["valueSet"]) for each in given.get("InstanceInformationFilterList", ())]
        for key, values in wanted:
            rows = [row for row in rows if _has(row, key, values, tags)]
        return _paged("InstanceInformationList", rows, given)

    def _tags(self) -> dict[str, dict[str, str]]:
        pages = self._hands.mirror.ec2.get_paginator("describe_instances").paginate()
        return {
            each["InstanceId"]: tags_of(each)
            for page in pages
            for reservation in page["Reservations"]
            for each in reservation["Instances"]
        }

    # ---- commands -----------------------------------------------------------------------------

    def _send(self, given: dict[str, Any]) -> dict[str, Any]:
        document = documents.name_of(str(given.get("DocumentName", "")))
        if not documents.known(document):
            raise SsmError("InvalidDocument", f"there is no document {document} here")
        if str(given.get("DocumentVersion", "$DEFAULT")) not in ("$DEFAULT", "$LATEST", "1"):
            raise SsmError("InvalidDocumentVersion", f"{document} has one version here, 1")
        instances = self._chosen(given)
        try:
            command = self._commands.send(
                document,
                given.get("Parameters", {}),
                instances,
                comment=str(given.get("Comment", "")),
                targets=given.get("Targets", ()),
            )
        except Wrong as error:
            raise SsmError("InvalidParameters", str(error)) from error
        except Unsupported as error:
            raise SsmError("UnsupportedPlatformType", str(error)) from error
        return {"Command": self._told(command)}

    def _chosen(self, given: dict[str, Any]) -> list[Instance]:
        """Instances by ids, or by targets. Raises SsmError for one by id that has no agent online."""
        there = self._hands.mirror.instances()
        ids = [str(each) for each in given.get("InstanceIds", ())]
        if len(set(ids)) != len(ids):
            raise SsmError("DuplicateInstanceId", "an instance is named twice")
        if len(ids) > MOST_INSTANCES:
            raise SsmError("InvalidParameters", f"at most {MOST_INSTANCES} instances are named by their ids")
        found = []
        if ids:
            online = self._commands.heard(there[id] for id in ids if id in there)
            deaf = [id for id in ids if id not in online]
            if deaf:
                raise SsmError("InvalidInstanceId", f"Instances {deaf} are not in a valid state for the account")
            found = [there[id] for id in ids]
        elif targets := given.get("Targets"):
            tags, online = self._tags(), self._commands.heard(there.values())
            found = [
                each
                for each in there.values()
                if each.id in online and all(_aimed(each.id, target, tags) for target in targets)
            ]
        else:
            raise SsmError("InvalidInstanceId", "neither instances nor targets are given")
        return found

    def _told(self, command: Command) -> dict[str, Any]:
        over = [each for each in command.invocations if each.status in OVER]
        return {
            "CommandId": command.id,
            "DocumentName": command.document,
            "DocumentVersion": "1",
            "Comment": command.comment[:100],
            "ExpiresAfter": command.requested + _EXPIRES_SECONDS,
            "Parameters": command.parameters,
            "InstanceIds": [] if command.targets else [each.instance for each in command.invocations],
            "Targets": command.targets,
            "RequestedDateTime": command.requested,
            "Status": command.status,
            "StatusDetails": command.status,
            "MaxConcurrency": "50",
            "MaxErrors": "0",
            "TargetCount": len(command.invocations),
            "CompletedCount": len(over),
            "ErrorCount": sum(each.status == "Failed" for each in over),
            "DeliveryTimedOutCount": 0,
            "TimeoutSeconds": _EXPIRES_SECONDS,
        }

    def _found(self, given: dict[str, Any]) -> list[Command]:
        commands = self._commands.all()
        if id := given.get("CommandId"):
            commands = [each for each in commands if each.id == id]
            if not commands:
                raise SsmError("InvalidCommandId", f"there is no command {id}")
        if instance := given.get("InstanceId"):
            commands = [each for each in commands if any(one.instance == instance for one in each.invocations)]
        for each in given.get("Filters", ()):
            commands = [command for command in commands if _passes(command, each["key"], each["value"])]
        return commands

    def _list(self, given: dict[str, Any]) -> dict[str, Any]:
        return _paged("Commands", [self._told(each) for each in self._found(given)], given)

    def _invocations(self, given: dict[str, Any]) -> dict[str, Any]:
        wanted = given.get("InstanceId")
        rows = [
            _invoked(command, each, details=bool(given.get("Details")))
            for command in self._found(given)
            for each in command.invocations
            if wanted in (None, each.instance)
        ]
        return _paged("CommandInvocations", rows, given)

    def _invocation(self, given: dict[str, Any]) -> dict[str, Any]:
        command = self._commands.get(str(given.get("CommandId")))
        for each in command.invocations if command else ():
            if command is not None and each.instance == given.get("InstanceId"):
                return {
                    "CommandId": command.id,
                    "InstanceId": each.instance,
                    "Comment": command.comment[:100],
                    "DocumentName": command.document,
                    "DocumentVersion": "1",
                    "PluginName": "aws:runShellScript",
                    "ResponseCode": _CODES.get(each.status, _UNTOLD),
                    "Status": each.status,
                    "StatusDetails": each.status,
                    "StandardOutputContent": "" if each.status == "Failed" else each.output,
                    "StandardErrorContent": each.output if each.status == "Failed" else "",
                }
        raise SsmError("InvocationDoesNotExist", "that instance was not given that command")

    def _cancel(self, given: dict[str, Any]) -> dict[str, Any]:
        command = self._commands.get(str(given.get("CommandId")))
        if command is None:
            raise SsmError("InvalidCommandId", f"there is no command {given.get('CommandId')}")
        ids = given.get("InstanceIds") or None
        there = {each.instance for each in command.invocations}
        if strange := set(ids or ()) - there:
            raise SsmError("InvalidInstanceId", f"{', '.join(sorted(strange))} was not given that command")
        self._commands.cancel(command, ids)
        return {}


def _invoked(command: Command, each: Invocation, *, details: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "CommandId": command.id,
        "InstanceId": each.instance,
        "InstanceName": each.node,
        "Comment": command.comment[:100],
        "DocumentName": command.document,
        "DocumentVersion": "1",
        "RequestedDateTime": command.requested,
        "Status": each.status,
        "StatusDetails": each.status,
        "CommandPlugins": [],
    }
    if details:
        row["CommandPlugins"] = [
            {
                "Name": "aws:runShellScript",
                "Status": each.status,
                "StatusDetails": each.status,
                "ResponseCode": _CODES.get(each.status, _UNTOLD),
                "ResponseStartDateTime": command.requested,
                "Output": each.output[:2500],
            }
        ]
    return row


def _aimed(id: str, target: Mapping[str, Any], tags: Mapping[str, Mapping[str, str]]) -> bool:
    key, values = str(target["Key"]), target.get("Values", ())
    if key.lower() == "instanceids":
        return id in values
    if key.startswith("tag:"):
        return tags.get(id, {}).get(key.removeprefix("tag:")) in values
    raise SsmError("InvalidParameters", f"targets are chosen by InstanceIds or tag:NAME here, and not by {key}")


def _has(row: Mapping[str, Any], key: str, values: Sequence[str], tags: Mapping[str, Mapping[str, str]]) -> bool:
    columns = {
        "InstanceIds": "InstanceId",
        "PingStatus": "PingStatus",
        "PlatformTypes": "PlatformType",
        "ResourceType": "ResourceType",
        "AgentVersion": "AgentVersion",
    }
    if key in columns:
        return row[columns[key]] in values
    if key.startswith("tag:"):
        return tags.get(row["InstanceId"], {}).get(key.removeprefix("tag:")) in values
    raise SsmError("InvalidFilterKey", f"agents cannot be filtered by {key} here")


def _passes(command: Command, key: str, value: str) -> bool:
    if key == "Status":
        return command.status == value
    if key == "DocumentName":
        return command.document == documents.name_of(value)
    raise SsmError("InvalidFilterKey", f"commands cannot be filtered by {key} here")


def _paged(name: str, rows: Iterable[dict[str, Any]], given: Mapping[str, Any]) -> dict[str, Any]:
    """One page, with a token where more follow."""
    every, token = list(rows), str(given.get("NextToken") or "0")
    if not token.isascii() or not token.isdigit():
        raise SsmError("InvalidNextToken", "that token is none of ours")
    first, size = int(token), int(given.get("MaxResults") or 50)
    page: dict[str, Any] = {name: every[first : first + size]}
    if first + size < len(every):
        page["NextToken"] = str(first + size)
    return page


def _answer(status: int, body: Mapping[str, Any]) -> Reply:
    return Reply(status, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps(body).encode())
