"""The environment of the user's commands: the run's folder, and URLs at which this machine reaches the nodes.

The nodes of a local lab listen in network namespaces of their own. So while a command runs a loopback port of this
machine leads to each of them, over the path that no fault touches; a node that is dead refuses there too. Nodes of
other labs, and of clusters that exist, are named by their own addresses.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Protocol

from chaos.base import surroundings
from chaos.base.access import Access
from chaos.base.errors import ChaosError
from chaos.base.netsock import Endpoint

CONNECT_SECONDS = 2.0
BYTES = 65536
HERE = "127.0.0.1"


class Reached(Protocol):
    """What is needed of a target."""

    @property
    def viewers(self) -> tuple[str, ...]: ...
    @property
    def access(self) -> Access: ...
    def administration(self, node: str) -> Endpoint: ...


class Forward:
    """A port of this machine that leads to a node, from :meth:`start` to :meth:`stop`."""

    def __init__(self, to: Endpoint) -> None:
        self._to = to
        self._listener = socket.create_server((HERE, 0))
        self._open: set[socket.socket] = set()
        self._over = False
        self._guard = threading.Lock()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def start(self) -> None:
        threading.Thread(target=self._accept, name="forward", daemon=True).start()

    def stop(self) -> None:
        """No connection is taken any more, and none that is open goes on."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._guard:
            left, self._open, self._over = list(self._open), set(), True
        for each in left:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), self._to.connect(CONNECT_SECONDS) as node:
            node.settimeout(None)
            with self._guard:
                if self._over:
                    return
                self._open |= {client, node}
            try:
                back = threading.Thread(target=_pump, args=(node, client), daemon=True)
                back.start()
                _pump(client, node)
                back.join()
            finally:
                with self._guard:
                    self._open -= {client, node}


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(BYTES):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def urls(lab: Reached) -> Iterator[dict[str, str]]:
    """Node to the URL at which this machine reaches it, while the block lasts. Raises ChaosError where it has no free
    port."""
    with ExitStack() as stack:
        found = {}
        for node in lab.viewers:
            at = lab.administration(node)
            if at.namespace is not None:
                try:
                    forward = Forward(at)
                except OSError as error:
                    raise ChaosError(f"no port of this machine can lead to {node}: {error.strerror}") from error
                stack.callback(forward.stop)
                forward.start()
                at = Endpoint(HERE, forward.port)
            host = f"[{at.host}]" if ":" in at.host else at.host
            found[node] = f"{lab.access.scheme}://{host}:{at.port}"
        yield found


@contextmanager
def environment(lab: Reached, folder: os.PathLike[str], on: str) -> Iterator[dict[str, str]]:
    """What a command finds, while the block lasts. ``on``: the lab's id, or the target's file."""
    with urls(lab) as nodes:
        yield {
            surroundings.RUN: os.path.abspath(folder),
            surroundings.ON: on,
            surroundings.URLS: " ".join(nodes.values()),
            surroundings.NODES: json.dumps(nodes),
            **_access(lab.access),
        }


def _access(access: Access) -> Mapping[str, str]:
    """As whom, and whom to trust: by reference, as it is written down everywhere."""
    given = {surroundings.CA: access.ca, surroundings.USER: access.user, surroundings.PASSWORD_FROM: access.password}
    return {name: value for name, value in given.items() if value is not None}
