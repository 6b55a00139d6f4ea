"""The ways of one office: ports there, behind which bytes go into the box and back.

A process of its own. Its sockets belong to the office, or to a host of the cluster; it lives in neither, but beside the
lab's bridge, where whoever takes the lab away finds it. Where a way leads is read from its file again and again: from
the moment on in which that says another place, no byte more is sent to the one before.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from chaos.base.netsock import Endpoint, Namespace

CONNECT_SECONDS = 5.0
PIECE = 1 << 16


Address = tuple[str, int]


class Ways:
    """Where each port leads now, by the file that says so."""

    def __init__(self, file: Path) -> None:
        self._file, self._read = file, (-1, -1)
        self._to: dict[Address, Endpoint] = {}

    def __call__(self) -> dict[Address, Endpoint]:
        now = os.stat(self._file)
        if (stamp := (now.st_ino, now.st_mtime_ns)) != self._read:
            said = json.loads(self._file.read_text())
            self._to = {
                (way["listen"][0], way["listen"][1]): Endpoint(way["to"][0], way["to"][1], Namespace(way["namespace"]))
                for way in said
            }
            self._read = stamp
        return self._to


async def _pump(source: socket.socket, target: socket.socket, still: Callable[[], bool]) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(source, PIECE):
        if not still():
            raise ConnectionResetError
        await loop.sock_sendall(target, data)
    target.shutdown(socket.SHUT_WR)


def _reset(sock: socket.socket) -> None:
    """Close it so that the other side is told of an error."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def _serve(here: socket.socket, listen: Address, ways: Ways) -> None:
    loop = asyncio.get_running_loop()
    to = ways()[listen]

    def still() -> bool:
        return ways()[listen] == to

    with to.entered():
        there = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    pumps: list[asyncio.Task[None]] = []
    try:
        for each in (here, there):
            each.setblocking(False)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.wait_for(loop.sock_connect(there, to.address), CONNECT_SECONDS)
        pumps = [loop.create_task(_pump(here, there, still)), loop.create_task(_pump(there, here, still))]
        await asyncio.gather(*pumps)
    except (OSError, TimeoutError):
        _reset(here)
        _reset(there)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        here.close()
        there.close()


async def _listen(listener: socket.socket, listen: Address, ways: Ways) -> None:
    loop = asyncio.get_running_loop()
    under_way = set[asyncio.Task[None]]()
    while True:
        here, _ = await loop.sock_accept(listener)
        task = loop.create_task(_serve(here, listen, ways))
        under_way.add(task)
        task.add_done_callback(under_way.discard)


async def _all(listeners: dict[Address, socket.socket], ways: Ways) -> None:
    await asyncio.gather(*(_listen(listener, listen, ways) for listen, listener in listeners.items()))


def relay(office: Path, file: Path) -> None:
    """Serve for ever. ``office``: the namespace in which the ports are; ``file``: its ways."""
    ways, listeners = Ways(file), dict[Address, socket.socket]()
    for listen in ways():
        listener = Namespace(office).socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(listen)
        listener.listen(256)
        listener.setblocking(False)
        listeners[listen] = listener
    print("ready", flush=True)
    sys.stdout.close()
    asyncio.run(_all(listeners, ways))
