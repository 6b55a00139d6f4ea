"""Ways to the nodes of a lab as they are to those of an account: one port of loopback for each node's REST API.

What enters a subnet that is cut off vanishes, and comes when it is connected again, as TCP has it. An instance that is
stopped says nothing at all. Where only the process is gone, connections are closed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress

from chaos.base.netsock import Endpoint

CHUNK = 1 << 16
LOOK_SECONDS = 0.05
"""How often a door that is shut is looked at."""
CONNECT_SECONDS = 5.0


class Doors:
    """``to``: node → where its REST API is. ``silent``: whether nothing enters or leaves a node's host now; it is asked
    for each piece of bytes, so it must be quick, and it must not raise."""

    def __init__(self, to: Mapping[str, Callable[[], Endpoint]], silent: Callable[[str], bool]) -> None:
        self._to, self._silent = dict(to), silent
        self.ports: dict[str, int] = {}
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._served: set[asyncio.Task[None] | None] = set()
        """Connections under way: the loop itself holds them weakly."""
        self._thread = threading.Thread(target=self._loop.run_forever, name="doors", daemon=True)

    def open(self, ports: Mapping[str, int] | None = None) -> None:
        """``ports``: node → the port that it had before. Raises OSError where one is taken."""
        self._thread.start()
        opening: Future[None] = asyncio.run_coroutine_threadsafe(self._open(ports or {}), self._loop)
        opening.result(30)

    async def _open(self, ports: Mapping[str, int]) -> None:
        for node in self._to:

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: str = node) -> None:
                await self._serve(node, reader, writer)

            server = await asyncio.start_server(serve, "127.0.0.1", ports.get(node, 0))
            self._servers.append(server)
            self.ports[node] = server.sockets[0].getsockname()[1]

    async def _serve(self, node: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._served.add(task)
        try:
            await self._carry(node, reader, writer)
        finally:
            self._served.discard(task)

    async def _carry(self, node: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._awake(node, reader)
            raw = await asyncio.to_thread(self._to[node]().connect, CONNECT_SECONDS)
        except (OSError, asyncio.CancelledError):
            writer.close()
            return
        raw.setblocking(False)
        there, back = await asyncio.open_connection(sock=raw)
        try:
            await asyncio.gather(self._pump(node, reader, back), self._pump(node, there, writer))
        except OSError:
            pass
        finally:
            for each in (writer, back):
                each.close()

    async def _awake(self, node: str, reader: asyncio.StreamReader) -> None:
        """Wait while nothing comes through. Raises ConnectionResetError when whoever asked has gone by then."""
        while self._silent(node):
            if reader.at_eof():
                raise ConnectionResetError
            await asyncio.sleep(LOOK_SECONDS)

    async def _pump(self, node: str, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(CHUNK):
            await self._awake(node, source)
            sink.write(data)
            await sink.drain()
        with suppress(OSError):
            if sink.can_write_eof():
                sink.write_eof()

    def close(self) -> None:
        """End every connection. Idempotent."""
        if not self._thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        under_way = [task for task in self._served if task is not None]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
