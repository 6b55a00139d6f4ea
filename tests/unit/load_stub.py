"""A small HTTP server that answers like OpenSearch, for tests of the load driver's accounting and its costs.

It stands in for a node only where the *driver* is under test: what a frozen, refusing or overloaded server
must look like in the history is arithmetic, and a real cluster would blur it. A process of its own, so that
it can be frozen with SIGSTOP. ``python load_stub.py <host> <port>`` prints its port and serves until its
parent is gone. ``GET /_stub/<mode>`` changes how it answers: ok, partial, timed_out, 429, 503, reset,
unhealthy.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_SHARDS = b'{"total":3,"successful":%d,"skipped":0,"failed":%d}'
_SEARCH = b'{"timed_out":%b,"_shards":%b,"hits":{"total":{"value":9999,"relation":"eq"},"hits":[%b]}}'
_HITS = b",".join(b'{"_id":"p-%d"}' % n for n in range(10))
_WRITE = b'{"result":"created","_shards":{"total":3,"successful":%d,"failed":%d}}'
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class Stub(asyncio.Protocol):
    mode = "ok"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.pending = b""

    def data_received(self, data: bytes) -> None:
        self.pending += data
        while (end := self.pending.find(b"\r\n\r\n")) >= 0:
            head = self.pending[:end]
            length = _LENGTH.search(head)
            whole = end + 4 + (int(length[1]) if length else 0)
            if len(self.pending) < whole:
                return
            self.pending = self.pending[whole:]
            self.answer(head.split(b" ", 2)[1])

    def answer(self, path: bytes) -> None:
        mode = Stub.mode
        if path.startswith(b"/_stub/"):
            Stub.mode = path.rpartition(b"/")[2].decode()
            self.send(200, b"{}")
        elif path.startswith(b"/_cluster/health"):
            self.send(503 if mode == "unhealthy" else 200, b'{"status":"green"}')
        elif mode in ("429", "503"):
            self.send(int(mode), b'{"error":{"type":"rejected_execution_exception"},"status":%d}' % int(mode))
        elif mode == "reset":
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        elif b"/_search" in path:
            failed = 1 if mode == "partial" else 0
            timed_out = b"true" if mode == "timed_out" else b"false"
            self.send(200, _SEARCH % (timed_out, _SHARDS % (3 - failed, failed), _HITS))
        elif b"/_doc/w-" in path:
            failed = 1 if mode == "partial" else 0
            self.send(201, _WRITE % (3 - failed, failed))
        elif b"/_doc/" in path:
            self.send(200, b'{"found":true}')
        else:
            self.send(404, b"{}")

    def send(self, status: int, body: bytes) -> None:
        head = b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        self.transport.write(head % (status, len(body)) + body)


@dataclass
class Server:
    """A running stub."""

    host: str
    port: int
    process: subprocess.Popen[str]

    def mode(self, mode: str) -> None:
        urllib.request.urlopen(f"http://{self.host}:{self.port}/_stub/{mode}", timeout=5).close()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def serving(host: str = "127.0.0.1", port: int = 0, *, netns: str | None = None) -> Iterator[Server]:
    """Run a stub. ``netns``: the name of a network namespace to run it in (needs root)."""
    command = [sys.executable, __file__, host, str(port)]
    if netns is not None:
        command.append(f"/run/netns/{netns}")
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Server(host, int(process.stdout.readline()), process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


async def _serve(host: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Stub, host, port, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # until the parent is gone
    os._exit(0)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        from pyroute2 import netns as namespaces

        namespaces.setns(sys.argv[3])
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2])))
