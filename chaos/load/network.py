"""The load's connections: made in the client host's network namespace, and cheap to use again.

Entering a namespace changes the calling thread alone, and making a socket waits for nothing, so no greenlet
switch can happen in between: one process serves all zones.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import gevent
from urllib3.connection import HTTPConnection

from chaos.base import netsock
from chaos.base.errors import LabError
from chaos.opensearch import rest


def namespace(path: Path | str | None) -> netsock.Namespace | None:
    """The client host's namespace, opened once and for good; None = where this process is.

    Raises :class:`LabError` when it cannot be entered, now rather than as a refused connection later.
    """
    if path is None:
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        opened = netsock.Namespace(f"/proc/self/fd/{descriptor}")
        opened.socket().close()
    except OSError as error:
        raise LabError(f"the client host's network namespace {path} cannot be entered: {error}") from error
    return opened


def connection_class(namespace: netsock.Namespace | None, *, tls: bool = False) -> type[HTTPConnection]:
    """urllib3's connection for the driver, making its sockets in ``namespace``."""

    class DriverConnection(rest.connection_class(namespace, tls=tls)):  # type: ignore[misc]
        def between_pieces(self) -> None:
            """A flood is always readable: without a pause no other request would go on, and no timer fire."""
            gevent.sleep(0)

        @property
        def is_connected(self) -> bool:
            """Whether an idle connection is still good: nothing has arrived on it, not even its end.

            urllib3 asks for each reuse, with ``poll``, which under gevent is a loop iteration of its own;
            one non-blocking peek says the same (20 of 130 µs per request).
            """
            inner = getattr(self.sock, "_sock", None)  # gevent's socket keeps the non-blocking one there
            if inner is None:
                return bool(super().is_connected)
            try:
                inner.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            except OSError:
                return False
            return False  # the end of the stream, or bytes that nobody asked for

    return DriverConnection


def named_by_controller(namespace: netsock.Namespace | None, port: int) -> list[str]:
    """The nodes that a failover controller on the loopback there wants used (``GET /nodes``).

    Waits for as long as it takes. Raises OSError, urllib3's HTTPError, http.client's HTTPException, or ValueError,
    LookupError or TypeError for an answer of another shape.
    """
    connection = connection_class(namespace)("127.0.0.1", port, timeout=None)
    try:
        connection.request("GET", "/nodes", headers={"connection": "close"})
        return sorted(node["name"] for node in json.loads(connection.getresponse().data)["nodes"])
    finally:
        connection.close()
