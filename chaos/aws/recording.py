"""Every call to AWS as it went: operation, status, seconds, and of FIS its whole answer against botocore's model."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chaos.aws.clients import Clients
from chaos.aws.shapes import Model

WHOLE = "fis"
"""The service whose answers are kept; of others they are the account's own business."""

BEGAN = "opensearch-chaos began"
"""In what botocore hands from one event of a call to the next (seconds, monotonic)."""


@dataclass(frozen=True)
class Call:
    """``status``: of HTTP; 0 without an answer. ``seconds``: with botocore's repeats. ``answer``: None of services
    other than FIS. ``unlike``: how it differs from the model, with members that the model does not know."""

    service: str
    operation: str
    status: int
    seconds: float
    answer: Any
    unlike: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        made: dict[str, Any] = {
            "service": self.service,
            "operation": self.operation,
            "status": self.status,
            "seconds": round(self.seconds, 3),
        }
        if self.service == WHOLE:
            made |= {"answer": self.answer, "unlike": list(self.unlike)}
        return made


@dataclass
class Recorder:
    """Notes the answers of a target's clients, from :meth:`watch` on. Thread-safe."""

    calls: list[Call] = field(default_factory=list)

    def watch(self, clients: Clients, services: tuple[str, ...]) -> None:
        for service in services:
            events = clients.client(service).meta.events
            name = clients.client(service).meta.service_model.service_id.hyphenize()
            events.register(f"before-call.{name}", self._before)
            events.register(f"after-call.{name}", self._after)
            events.register(f"after-call-error.{name}", self._silent(service))

    def _before(self, context: dict[str, Any], **_: Any) -> None:
        context[BEGAN] = time.monotonic()

    def _silent(self, service: str) -> Callable[..., None]:
        def noted(context: dict[str, Any], **_: Any) -> None:
            self.calls.append(Call(service, "no answer", 0, time.monotonic() - context[BEGAN], None, ()))

        return noted

    def _after(self, http_response: Any, model: Any, context: dict[str, Any], **_: Any) -> None:
        service = str(model.service_model.service_name)
        answer, unlike = None, tuple[str, ...]()
        if service == WHOLE:
            answer, unlike = _read(http_response.content, model.name, http_response.status_code)
        seconds = time.monotonic() - context[BEGAN]
        self.calls.append(Call(service, model.name, int(http_response.status_code), seconds, answer, unlike))


def _read(content: bytes, operation: str, status: int) -> tuple[Any, tuple[str, ...]]:
    try:
        answer = json.loads(content)
    except ValueError:
        return None, ("the answer is no JSON",)
    return answer, tuple(Model(WHOLE).problems_of_output(operation, answer)) if status < 300 else ()
