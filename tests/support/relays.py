"""Doors to the nodes of a lab: a port of this machine for each, behind which bytes go to the node and back.

So a lab can be taken for a cluster that somebody else set up: by addresses alone.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from chaos.base.netsock import Endpoint
from chaos.target.labs.base import BaseLab


def _pipe(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def _serve(listener: socket.socket, to: Endpoint) -> None:
    while True:
        try:
            here, _ = listener.accept()
        except OSError:
            return
        here.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            there = to.connect(5.0)
            there.settimeout(None)
        except OSError:
            here.close()
            continue
        for pair in ((here, there), (there, here)):
            threading.Thread(target=_pipe, args=pair, daemon=True).start()


@contextmanager
def doors(lab: BaseLab) -> Iterator[dict[str, str]]:
    """Node → its URL, for as long as the block lasts."""
    listeners: list[socket.socket] = []
    urls = {}
    try:
        for node in lab.topology.nodes:
            listener = socket.create_server(("127.0.0.1", 0))
            listeners.append(listener)
            threading.Thread(target=_serve, args=(listener, lab.administration(node.name)), daemon=True).start()
            urls[node.name] = f"{lab.access.scheme}://127.0.0.1:{listener.getsockname()[1]}"
        yield urls
    finally:
        for listener in listeners:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
