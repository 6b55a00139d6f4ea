"""What became of a request, from its answer or its exception. Pure.

HTTP 200 is not success: a search answers 200 with the shards it could reach, a bulk with refused items in it,
and a write 201 although a replica failed. Such answers are ``partial``. A partial *write* is still
acknowledged: the primary holds it and has told the client so.

Partial is what a whole answer says of itself. Whether one that says it is whole is also what was asked for is judged in
:mod:`chaos.load.right`. One that cannot be read, or is JSON of another shape than the operation
must have, says nothing: it is ``garbled``, and a garbled write is acknowledged by nobody. Under other statuses than 2xx
the status alone decides, as it does for a gateway's page of HTML, unless not even HTTP's own rules were kept.
"""

from __future__ import annotations

import errno
import json
from http.client import HTTPException
from typing import Any

from opensearchpy.exceptions import ConnectionError as NoConnection
from opensearchpy.exceptions import ConnectionTimeout, TransportError
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, ProtocolError, ReadTimeoutError, SSLError

from chaos.base.access import distrust
from chaos.history.failures import Failure
from chaos.history.format import Outcome
from chaos.opensearch.rest import UNREADABLE, Garbled

_OWN_FAULT = {errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM, errno.EPERM}
"""The driver's own machine could not open a socket: no word on the cluster."""


def of_status(status: int) -> Outcome:
    """The outcome of an HTTP status alone; for 2xx the body decides further, see :func:`of_answer`.

    408 is no client's mistake: OpenSearch answers so where a health request waited in vain
    (``ClusterHealthResponse.status``).
    """
    if 200 <= status < 300:
        return Outcome.OK
    if status == 429:
        return Outcome.REJECTED
    if 400 <= status < 500 and status != 408:
        return Outcome.CLIENT_ERROR
    return Outcome.SERVER_ERROR


def of_answer(kind: str, status: int, text: str | bytes) -> Outcome:
    """The outcome of an answered request by what it says of itself; see :func:`answered`."""
    return answered(kind, status, text)[0]


def answered(kind: str, status: int, text: str | bytes) -> tuple[Outcome, Any]:
    """The outcome of an answered request by what it says of itself, and the decoded answer where it is one.

    ``kind``: ``search``, ``get``, ``index``, ``bulk`` or ``query``. A 2xx answer that is not the JSON it should be is
    garbled. The answer is None for that, and for every status but 2xx.
    """
    outcome = of_status(status)
    if outcome is not Outcome.OK:
        return outcome, None
    try:
        answer = json.loads(text)
        return whole(kind, answer), answer
    except UNREADABLE:
        return Outcome.GARBLED, None


def whole(kind: str, answer: Any) -> Outcome:
    """Whether a decoded answer says that it is whole: ok, or partial. Raises one of UNREADABLE for what is no such
    answer."""
    return Outcome.OK if _WHOLE[kind](answer) else Outcome.PARTIAL


def of_parts(outcomes: bytes) -> Outcome:
    """The outcome of several searches in one request by those of each: theirs where they are all the same; partial
    where a part of them was good."""
    kinds = set(outcomes)
    for worst in (Outcome.WRONG, Outcome.GARBLED):
        if worst in kinds:
            return worst
    return Outcome(kinds.pop()) if len(kinds) == 1 else Outcome.PARTIAL


def of_failed(part: dict[str, Any]) -> Outcome:
    """The outcome of one of several searches that was not done. Raises one of UNREADABLE for what does not say why."""
    status, error = part["status"], part["error"]
    if type(status) is not int or not isinstance(error, dict):
        raise TypeError("a failure that does not say why")
    if status == 403 and error.get("type") == "cluster_block_exception":
        return Outcome.SERVER_ERROR
    outcome = of_status(status)
    return Outcome.WRONG if outcome is Outcome.OK else outcome


# Whether an answer says that it is whole. Each raises one of UNREADABLE for one of another shape: null or "0" instead
# of a number would else pass for "none failed".


def _searched(answer: dict[str, Any]) -> bool:
    """Whether every shard that was asked has answered in time."""
    timed_out, shards = answer["timed_out"], answer["_shards"]
    total, successful, failed = shards["total"], shards["successful"], shards["failed"]
    if not (type(total) is type(successful) is type(failed) is int and type(timed_out) is bool):
        raise TypeError("a count that is no number")
    return not timed_out and failed == 0 and successful >= total


def _whole_query(answer: dict[str, Any]) -> bool:
    """A search whose hits nobody counts: it may ask for no total."""
    if type(answer["hits"]["hits"]) is not list:
        raise TypeError("hits that are no list")
    return _searched(answer)


def _whole_search(answer: dict[str, Any]) -> bool:
    found = answer["hits"]["total"]
    if type(found) is dict:
        found = found["value"]
    if type(found) is not int:
        raise TypeError("a count that is no number")
    return _searched(answer)


def _whole_write(answer: dict[str, Any]) -> bool:
    failed = answer["_shards"]["failed"]
    if type(failed) is not int or answer["result"] not in ("created", "updated"):
        raise TypeError("no answer to a write")
    # successful < total is normal here: a replica without a node is no failure of this write
    return failed == 0


def _whole_get(answer: dict[str, Any]) -> bool:
    found = answer["found"]
    if type(found) is not bool:
        raise TypeError("found neither true nor false")
    return found


def _whole_bulk(answer: dict[str, Any]) -> bool:
    errors = answer["errors"]
    if type(errors) is not bool:
        raise TypeError("errors neither true nor false")
    return not errors and all(
        item.get("_shards", {}).get("failed", 0) == 0 for entry in answer["items"] for item in entry.values()
    )


_WHOLE = {"search": _whole_search, "get": _whole_get, "index": _whole_write, "bulk": _whole_bulk, "query": _whole_query}


def of_error(error: BaseException) -> tuple[Outcome, int]:
    """Outcome and HTTP status (0 = none) of a request that raised.

    Understands what opensearch-py raises (:class:`TransportError` and below) and, inside or without it, what our own
    connections, urllib3 and the socket raise. Anything else is ``unknown``: an error of the driver.

    A conflict (409) is ``unknown``: ids are ours alone, so the write met an earlier try of its own, which nobody
    acknowledged. OpenSearch's ConcurrentSeqNoVersioningIT says why a 409 is no definite failure.

    A block (403 with ``cluster_block_exception``: OpenSearch's ClusterBlockException and ``IndexMetadata``'s blocks) is
    a server error. The cluster says that it takes no such request now, whoever asks; nothing is wrong with the request.
    """
    if isinstance(error, ConnectionTimeout):
        return Outcome.TIMEOUT, 0
    if isinstance(error, NoConnection):
        cause = error.info
        if isinstance(cause, Garbled):
            return Outcome.GARBLED, cause.status
        return (_of_connection(cause)[0] if isinstance(cause, BaseException) else Outcome.RESET), 0
    if isinstance(error, TransportError):
        status = error.status_code
        if not isinstance(status, int):
            return Outcome.UNKNOWN, 0
        if status == 409:
            return Outcome.UNKNOWN, status
        if status == 404 and isinstance(error.info, dict) and error.info.get("found") is False:
            return Outcome.PARTIAL, status  # the load asks only for documents that are there: this copy lacks one
        if status == 403 and error.error == "cluster_block_exception":
            return Outcome.SERVER_ERROR, status
        return of_status(status), status
    if isinstance(error, Garbled):
        return Outcome.GARBLED, error.status
    return _of_connection(error)[0], 0


def failure_of(error: BaseException) -> Failure:
    """Why a request without an answer that says it failed; see :func:`of_error`."""
    cause = error.info if isinstance(error, NoConnection) else error
    if isinstance(cause, Garbled):
        return Failure.GARBLED
    if isinstance(error, ConnectionTimeout) and not isinstance(cause, BaseException):
        return Failure.TIMEOUT
    return _of_connection(cause)[1] if isinstance(cause, BaseException) else Failure.CONNECTION_RESET


def _of_connection(error: BaseException) -> tuple[Outcome, Failure]:
    if isinstance(error, SSLError):  # whom the client does not trust it tells nothing
        if distrust(error):
            return Outcome.REFUSED, Failure.NOT_TRUSTED
        return Outcome.RESET, Failure.CONNECTION_RESET
    if isinstance(error, NewConnectionError):  # before ConnectTimeoutError: urllib3 makes it one of those
        return _not_made(_errno(error))
    if isinstance(error, ConnectTimeoutError):
        return Outcome.TIMEOUT, Failure.CONNECT_TIMEOUT
    if isinstance(error, ReadTimeoutError | TimeoutError):
        return Outcome.TIMEOUT, Failure.TIMEOUT
    if isinstance(error, ConnectionRefusedError):
        return Outcome.REFUSED, Failure.CONNECTION_REFUSED
    if isinstance(error, ProtocolError) and _errno(error) == errno.ETIMEDOUT:  # wraps the socket's own, if there is one
        return Outcome.TIMEOUT, Failure.TIMEOUT
    if isinstance(error, ProtocolError | OSError | HTTPException):
        return Outcome.RESET, Failure.CONNECTION_RESET
    return Outcome.UNKNOWN, Failure.OTHER


def _not_made(number: int | None) -> tuple[Outcome, Failure]:
    """Why no connection was made, by the errno of the socket."""
    if number in _OWN_FAULT:
        return Outcome.DROPPED, Failure.DRIVER
    if number == errno.ETIMEDOUT:
        return Outcome.TIMEOUT, Failure.CONNECT_TIMEOUT
    unreachable = number in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN)
    return Outcome.REFUSED, Failure.UNREACHABLE if unreachable else Failure.CONNECTION_REFUSED


def _errno(error: BaseException) -> int | None:
    """The errno of the socket's error behind a urllib3 error."""
    for inner in (error.__cause__, error.__context__, *error.args):
        if isinstance(inner, OSError) and inner.errno is not None:
            return inner.errno
    return None
