"""A loopback port in the user's own namespace that leads to a lab's nodes, from ``lab up`` to ``lab down``.

It listens where the user is, then moves into the lab's bridge namespace, so that whoever takes the lab away finds it
there like every other process of the lab. Each connection goes to the next node that accepts one, over the path that
no fault touches.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from contextlib import suppress
from itertools import count

from chaos.base.netsock import Namespace
from chaos.targets.labs import kinds
from chaos.targets.labs.base import BaseLab
from chaos.targets.wiring import HTTP, NETNS_FOLDER

CONNECT_SECONDS = 1.0


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _serve(lab: BaseLab, client: socket.socket, start: int) -> None:
    nodes = [node.name for node in lab.topology.nodes if node.is_data]
    with client:
        for offset in range(len(nodes)):
            name = nodes[(start + offset) % len(nodes)]
            host = lab.wiring[name]
            try:
                node = host.namespace.connect((host.loopback, HTTP), CONNECT_SECONDS)
            except OSError:
                continue
            node.settimeout(None)
            with node:
                up = threading.Thread(target=_pump, args=(client, node), daemon=True)
                up.start()
                _pump(node, client)
                up.join()
            return


def main() -> None:
    """Arguments: lab id, descriptor of the listening socket. Prints nothing; ends with the lab."""
    lab = kinds.attach(sys.argv[1])
    listener = socket.socket(fileno=int(sys.argv[2]))
    home = Namespace(NETNS_FOLDER / lab.wiring.bridge_namespace)
    entered = home.entered()
    entered.__enter__()  # for good: this is the process's own namespace from now on
    turn = count()
    os.close(0)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=_serve, args=(lab, client, next(turn)), daemon=True).start()


if __name__ == "__main__":
    main()
