"""EC2's calls of clients that a lab has to hear of; all others are moto's alone.

Moto has the first word (it knows the instance, or refuses), and then the lab does it.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qsl, urlsplit
from xml.sax.saxutils import escape

from chaos.fis_endpoint.clients import error_code
from chaos.fis_endpoint.doing import Failed
from chaos.fis_endpoint.hands import LabHands
from chaos.fis_endpoint.machines import failure
from chaos.fis_endpoint.routing import Reply
from chaos.fis_endpoint.server import Moto, Request

_ON_TERMINATED = ("StartInstances", "StopInstances", "RebootInstances")


class Ec2:
    """The handler of EC2. ``forward`` passes a request on to moto."""

    def __init__(self, hands: LabHands, forward: Moto) -> None:
        self._hands, self._forward = hands, forward

    def __call__(self, request: Request) -> Reply:
        given = dict(parse_qsl(urlsplit(request.path).query, keep_blank_values=True))
        given |= dict(parse_qsl(request.body.decode(errors="replace"), keep_blank_values=True))
        action = given.get("Action", "")
        if given.get("DryRun", "").lower() == "true":
            return self._forward(request)
        if action == "ReplaceNetworkAclAssociation":
            return self._replace(request, given)
        machines = self._hands.machines
        hard = "true" in (given.get("Force", "").lower(), given.get("SkipOsShutdown", "").lower())
        does: dict[str, Callable[[list[str]], None]] = {
            "StartInstances": machines.start,
            "StopInstances": lambda ids: machines.stop(ids, force=hard),
            "RebootInstances": machines.reboot,
            "TerminateInstances": machines.terminate,
        }
        if action not in does:
            return self._forward(request)
        return self._instances(request, action, given, does[action])

    def _instances(
        self, request: Request, action: str, given: dict[str, str], act: Callable[[list[str]], None]
    ) -> Reply:
        asked = [value for key, value in given.items() if key.startswith("InstanceId.")]
        there = self._hands.mirror.instances()
        ours = [id for id in asked if id in there]
        if action in _ON_TERMINATED:
            for id in ours:
                if there[id].state in ("terminated", "shutting-down"):
                    return refused("IncorrectInstanceState", f"The instance '{id}' is not in a state for {action}.")
        if action == "RebootInstances":  # of AWS it is no error to reboot what is stopped; nothing happens then
            ours = [id for id in ours if there[id].state == "running"]
        answer = self._forward(request)
        if answer.status >= 300:
            return answer
        try:
            act(ours)
        except Failed as failed:
            return refused("InternalError", failed.reason, 500)
        return answer

    def _replace(self, request: Request, given: dict[str, str]) -> Reply:
        """Moto drops an association before it looks for the ACL; so both are looked for first."""
        mirror, connectivity = self._hands.mirror, self._hands.connectivity
        association, acl = given.get("AssociationId", ""), given.get("NetworkAclId", "")
        if association not in {each.id for each in mirror.associations()}:
            return refused("InvalidAssociationID.NotFound", f"The association ID '{association}' does not exist")
        try:
            mirror.ec2.describe_network_acls(NetworkAclIds=[acl])
        except Exception as error:
            if error_code(error) is None:
                raise
            return refused("InvalidNetworkAclID.NotFound", f"The network acl ID '{acl}' does not exist")
        with connectivity.lock:
            before = connectivity.by_acls()
            answer = self._forward(request)
            try:
                after = connectivity.by_acls()
                connectivity.hold(after - before)
                connectivity.release(before - after)
            except Failed as failed:
                return refused("InternalError", failed.reason, 500)
            except Exception as error:
                return refused("InternalError", failure(error).reason, 500)
        return answer


def refused(code: str, message: str, status: int = 400) -> Reply:
    """An error as EC2 answers it."""
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Response><Errors><Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error></Errors>"
        "<RequestID>00000000-0000-0000-0000-000000000000</RequestID></Response>"
    )
    return Reply(status, {"Content-Type": "text/xml;charset=UTF-8"}, body.encode())
