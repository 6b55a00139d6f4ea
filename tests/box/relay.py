"""The ways of one office: ports there, behind which bytes go into the box and back.

A process of its own. Its sockets belong to the office, or to a host of the cluster; it lives in neither, but beside the
lab's bridge, where whoever takes the lab away finds it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from chaos.base.netsock import Endpoint, Namespace

CONNECT_SECONDS = 5.0
PIECE = 1 << 16


async def _pump(source: socket.socket, target: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(source, PIECE):
        await loop.sock_sendall(target, data)
    target.shutdown(socket.SHUT_WR)


def _reset(sock: socket.socket) -> None:
    """Close it so that the other side is told of an error."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def _serve(here: socket.socket, to: Endpoint) -> None:
    loop = asyncio.get_running_loop()
    with to.entered():
        there = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    pumps: list[asyncio.Task[None]] = []
    try:
        for each in (here, there):
            each.setblocking(False)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.wait_for(loop.sock_connect(there, to.address), CONNECT_SECONDS)
        pumps = [loop.create_task(_pump(here, there)), loop.create_task(_pump(there, here))]
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


async def _listen(listener: socket.socket, to: Endpoint) -> None:
    loop = asyncio.get_running_loop()
    under_way = set[asyncio.Task[None]]()
    while True:
        here, _ = await loop.sock_accept(listener)
        task = loop.create_task(_serve(here, to))
        under_way.add(task)
        task.add_done_callback(under_way.discard)


async def _all(listeners: list[tuple[socket.socket, Endpoint]]) -> None:
    await asyncio.gather(*(_listen(listener, to) for listener, to in listeners))


def _to(way: dict[str, Any]) -> Endpoint:
    host, port = way["to"]
    return Endpoint(host, port, Namespace(way["namespace"]))


def relay(office: Path, ways: list[dict[str, Any]]) -> None:
    """Serve for ever. ``office``: the namespace in which the ports are."""
    listeners = []
    for way in ways:
        listener = Namespace(office).socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(tuple(way["listen"]))
        listener.listen(256)
        listener.setblocking(False)
        listeners.append((listener, _to(way)))
    print("ready", flush=True)
    sys.stdout.close()
    asyncio.run(_all(listeners))
