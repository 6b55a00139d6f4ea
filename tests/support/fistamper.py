"""A FIS endpoint that does not do what it should: negative controls are made where the client cannot see behind.

``Tampering`` decides by the name of each operation. What goes wrong in the work itself is a wrapper around the hands or
the resources.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from chaos.fis_endpoint.doing import Doing, Hands, Resources
from chaos.fis_endpoint.routing import Refused, refusal
from chaos.fis_endpoint.server import Answered, Connection, Endpoint, Request, Server, refused_otherwise
from chaos.fis_endpoint.targets import Resolve, resolved

What = Literal["throttle", "error", "hang", "hang after", "drop", "cut", "deny", "idle stop", "skip"]


@dataclass(frozen=True)
class Tamper:
    """What happens to one request.

    ``throttle`` 429, ``error`` 500, ``deny`` 403: instead of the work. ``hang``: no answer and no work. The work is
    done, and then: ``hang after`` no answer; ``drop`` the connection is closed instead of one; ``cut`` half of it is
    sent, which botocore takes for an answer without members. ``idle stop``: 200, the state ``stopping``,
    and nothing is stopped. ``skip``: an experiment is started with its actions skipped, and says run-all.
    """

    what: What


Tampering = Callable[[str], Tamper | None]
"""Operation (``StartExperiment``, ``DescribeInstances`` …) → what happens to this request of it."""


@dataclass
class Times:
    """The first ``left`` requests of these operations. ``seen``: all operations that were asked."""

    what: What
    operations: frozenset[str]
    left: int = 1
    seen: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, operation: str) -> Tamper | None:
        with self._lock:
            self.seen.append(operation)
            if operation not in self.operations or self.left <= 0:
                return None
            self.left -= 1
            return Tamper(self.what)


def tampering(tamper: Tampering) -> Callable[[Endpoint, str, int], Server]:
    """For ``Setup.serve``."""
    return partial(_TamperedServer, tamper)


class _TamperedServer(Server):
    def __init__(self, tamper: Tampering, endpoint: Endpoint, host: str, port: int) -> None:
        self.tamper = tamper
        self.closing = threading.Event()
        super().__init__(endpoint, host, port)

    def server_close(self) -> None:
        self.closing.set()
        super().server_close()


class _TamperedConnection(Connection):
    def deliver(self, endpoint: Endpoint, request: Request) -> None:
        server = self.server
        assert isinstance(server, _TamperedServer)
        tamper = server.tamper(endpoint.operation(request))
        what = None if tamper is None else tamper.what
        refused = {
            "throttle": "ThrottlingException",
            "error": "InternalServerException",
            "deny": "AccessDeniedException",
        }
        if what in refused:
            error = Refused(refused[str(what)], "tampered with")
            self.send(refusal(error) if request.service == "fis" else refused_otherwise(request, error))
        elif what == "hang":
            self._vanish(server.closing)
        elif what == "hang after":
            endpoint.respond(request)
            self._vanish(server.closing)
        elif what == "drop":
            endpoint.respond(request)
            self.close_connection = True
        elif what == "cut":
            self._cut(endpoint.respond(request))
        elif what == "idle stop":
            self.send(_idle_stop(endpoint, request))
        elif what == "skip":
            self.send(_skipped(endpoint, request))
        else:
            self.send(endpoint.respond(request))

    def _vanish(self, closing: threading.Event) -> None:
        closing.wait(60)
        self.close_connection = True

    def _cut(self, answer: Answered) -> None:
        self.send_response_only(answer.status)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body[: len(answer.body) // 2])
        self.close_connection = True


_TamperedServer.connection = _TamperedConnection


def _idle_stop(endpoint: Endpoint, request: Request) -> Answered:
    _, params = endpoint.routes.parse(request.method, request.path, request.body)
    answer = endpoint.service.call("GetExperiment", params)
    answer["experiment"]["state"] = {"status": "stopping", "reason": "Experiment is stopping"}
    return endpoint.routes.answer("StopExperiment", answer)


def _skipped(endpoint: Endpoint, request: Request) -> Answered:
    operation, params = endpoint.routes.parse(request.method, request.path, request.body)
    answer = endpoint.service.call(operation, {**params, "experimentOptions": {"actionsMode": "skip-all"}})
    answer["experiment"]["experimentOptions"] = {**answer["experiment"]["experimentOptions"], "actionsMode": "run-all"}
    return endpoint.routes.answer(operation, answer)


def elsewhere(other: str, *, more: bool = False) -> Resolve:
    """For ``Setup.resolve``: every target resolves to another resource, or with ``more`` to one more than it should."""

    def resolve(
        targets: Mapping[str, Mapping[str, Any]], resources: Resources, *, skip: bool, most: int
    ) -> dict[str, list[str]]:
        found = resolved(targets, resources, skip=skip, most=most)
        return {name: [*arns, other] if more else [other] for name, arns in found.items()}

    return resolve


@dataclass(frozen=True)
class AstrayHands:
    """Hits ``other`` in place of every target, behind the back of what was resolved."""

    hands: Hands
    other: str

    def unable(self, doing: Doing) -> str | None:
        return self.hands.unable(self._astray(doing))

    def begin(self, doing: Doing) -> None:
        self.hands.begin(self._astray(doing))

    def still(self, doing: Doing) -> str | None:
        return self.hands.still(self._astray(doing))

    def end(self, doing: Doing) -> None:
        self.hands.end(self._astray(doing))

    def _astray(self, doing: Doing) -> Doing:
        return replace(doing, targets={key: (self.other,) for key in doing.targets})


@dataclass(frozen=True)
class IdleHands:
    """Says that all was done. ``begins`` and ``ends``: whether it was."""

    hands: Hands
    begins: bool = False
    ends: bool = False

    def unable(self, doing: Doing) -> str | None:
        return None

    def begin(self, doing: Doing) -> None:
        if self.begins:
            self.hands.begin(doing)

    def still(self, doing: Doing) -> str | None:
        return None

    def end(self, doing: Doing) -> None:
        if self.ends:
            self.hands.end(doing)
