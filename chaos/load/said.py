"""What OpenSearch said of requests that it did not answer well: the types of its errors, counted, each described once.

A status alone does not tell a wrong request from a cluster that refuses a right one, nor an overload from a search that
somebody cancelled; the body does. So the first answer of each operation, status and type of error is written down
(``answer.error`` in ``driver.jsonl``: ``op``, ``status``, ``type``, ``reason``, ``node``), and the ``self`` event of
each second counts them (``errors``: [operation, status, type, reason of a cancellation or null, how many]), each try of
a request for itself: what a client sends again is answered well at last, and was refused all the same. Each answer also
has one word of a small vocabulary (:mod:`chaos.history.failures`), which stands beside its arrival. Types are those of
OpenSearch (``error.root_cause``, ``failed_shards``, ``_shards.failures`` and their causes). Of a cancelled task the
reason counts too, because it says who cancelled it (:mod:`chaos.history.cancelled`).

Bounded: :data:`MOST` kinds are told apart, the others are counted as ``other``; a reason is cut at :data:`CHARACTERS`.
Names in it are replaced where a report is redacted, as everywhere in a history.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from opensearchpy.exceptions import TransportError

from chaos.history.cancelled import TYPE as CANCELLED
from chaos.history.cancelled import By, by
from chaos.history.failures import Failure, of_answer
from chaos.load import bulks
from chaos.load.outcomes import failure_of
from chaos.opensearch.rest import UNREADABLE

MOST = 40
"""Kinds (operation, status, type, reason of a cancellation) that are told apart in a run."""
EACH = 5
"""Types that are taken from one answer."""
CHARACTERS = 320
"""Of a reason; that of ``index.max_result_window`` has some 250, and names the setting at its end."""
DEEPEST = 6
"""Causes below causes that are looked at."""
OTHER = "other"
_NUMBERS = re.compile(r"\d+(?:\.\d+)?")

Kind = tuple[str, int, str, str | None]
"""(Operation, HTTP status, type of the error, reason of a cancellation)."""


class Said:
    """Of one load. ``write``: writes an event of the driver."""

    def __init__(self, write: Callable[..., Any]) -> None:
        self._write = write
        self._known: set[Kind] = set()
        self._second: Counter[Kind] = Counter()

    def raised(self, op: str, error: BaseException, node: str | None) -> Failure:
        """A request that opensearch-py raised for, and why; one without an answer says nothing."""
        if isinstance(error, TransportError) and isinstance(error.status_code, int):
            return self._note(op, error.status_code, error.info, node)
        return failure_of(error)

    def partial(self, op: str, status: int, text: str | bytes, node: str | None) -> Failure:
        """An answer of status 2xx that says of itself that something is missing, and why."""
        try:
            body = json.loads(text)
            if isinstance(body, dict) and isinstance(body.get("items"), list):
                items = body["items"]
                every = [self._note(op, of_item, item, node) for of_item, item in bulks.failures(items)]
                return _first(every) if every else _first(_of_whole(item) for each in items for item in each.values())
            if isinstance(body, dict) and isinstance(body.get("responses"), list):
                parts = body["responses"]
                return _first(self._note(op, int(part.get("status", status)), part, node) for part in parts)
            return self._note(op, status, body, node)
        except UNREADABLE:
            return Failure.OTHER

    def taken(self) -> list[list[Any]]:
        """What was counted since this was last asked for."""
        counted, self._second = self._second, Counter()
        return [[*kind, number] for kind, number in counted.items()]

    def _note(self, op: str, status: int, body: Any, node: str | None) -> Failure:
        errors = told(body)
        for type_, reason in errors:
            why = _NUMBERS.sub("#", reason)[:CHARACTERS] if type_ == CANCELLED else None
            kind: Kind = (op, status, type_, why)
            if kind not in self._known:
                if len(self._known) >= MOST:
                    kind = (op, status, CANCELLED if type_ == CANCELLED else OTHER, None)
                else:
                    self._known.add(kind)
                    self._write("answer.error", op=op, status=status, type=type_, reason=reason, node=node)
            self._second[kind] += 1
        if not errors and (status < 400 or _absent(body) or _waited(body)):
            return _of_whole(body)
        return of_answer(status, errors)


def _waited(body: Any) -> bool:
    """Whether it is of a health request that waited in vain: it has its usual shape, and status 408."""
    return isinstance(body, Mapping) and body.get("timed_out") is True and "number_of_nodes" in body


def _absent(body: Any) -> bool:
    """Whether a get found nothing: the one 404 that is an answer."""
    return isinstance(body, Mapping) and body.get("found") is False


def _of_whole(body: Any) -> Failure:
    """Why an answer that names no error is not whole; NONE where it is."""
    if not isinstance(body, Mapping):
        return Failure.OTHER
    if body.get("timed_out") is True:
        return Failure.CLUSTER_MANAGER_BUSY if _waited(body) else Failure.SEARCH_TIMED_OUT
    if body.get("found") is False:
        return Failure.DOCUMENT_MISSING
    shards = body.get("_shards")
    if isinstance(shards, Mapping) and "hits" in body:  # OpenSearch leaves out the failures of shards without a copy
        successful, total = shards.get("successful"), shards.get("total")
        if isinstance(successful, int) and isinstance(total, int) and successful < total:
            return Failure.NO_SHARD
    if isinstance(shards, Mapping) and shards.get("failed") and "hits" not in body:
        return Failure.COPY_FAILED
    return Failure.NONE


def _first(several: Iterable[Failure]) -> Failure:
    """The first that is known; all are looked at, because looking counts them."""
    return next(iter([each for each in several if each not in (Failure.NONE, Failure.OTHER)]), Failure.OTHER)


def told(body: Any) -> list[tuple[str, str]]:
    """The (type, reason) of the errors in a decoded body, each type once, those that cause others first.

    A body that is no error of OpenSearch's (a gateway's page) has the type ``""`` and begins with its own words; one
    that names no error at all (a get that found nothing) gives none.
    """
    if isinstance(body, str):
        return [("", _clipped(body))] if body.strip() else []
    if not isinstance(body, Mapping):
        return []
    error = body.get("error")
    if isinstance(error, str):
        return [("", _clipped(error))]
    shards = body.get("_shards")
    failures = shards.get("failures") if isinstance(shards, Mapping) else None
    found: dict[str, str] = {}
    for type_, reason in (*_types(error), *(each for one in _list(failures) for each in _types(_reason(one)))):
        vague = type_ == CANCELLED and by(found.get(type_)) is By.UNKNOWN
        if type_ not in found or vague:  # one shard may say who cancelled, where another only says that it was
            found[type_] = _clipped(reason)
    return list(islice(found.items(), EACH))


def _types(error: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """What caused an error first, then the error itself; a search as a whole (``all shards failed``) says least."""
    if not isinstance(error, Mapping) or depth > DEEPEST:
        return
    for one in (*_list(error.get("root_cause")), *map(_reason, _list(error.get("failed_shards")))):
        yield from _types(one, depth + 1)
    yield from _types(error.get("caused_by"), depth + 1)
    if isinstance(error.get("type"), str):
        yield error["type"], str(error.get("reason") or "")


def _reason(failure: Any) -> Any:
    """The error in a failure of a shard."""
    return failure.get("reason") if isinstance(failure, Mapping) else None


def _list(value: Any) -> list[Any]:
    return value[:EACH] if isinstance(value, list) else []


def _clipped(reason: str) -> str:
    return " ".join(reason.split())[:CHARACTERS]
