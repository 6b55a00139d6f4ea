"""A small HTTP server that answers like OpenSearch, for tests of the load driver's accounting and its costs.

It stands in for a node only where the *driver* is under test: what a frozen, refusing or overloaded server
must look like in the history is arithmetic, and a real cluster would blur it. A process of its own, so that
it can be frozen with SIGSTOP. ``python load_stub.py <host> <port>`` prints its port and serves until its
parent is gone. ``GET /_stub/<mode>`` changes how it answers: ok, partial, timed_out, 429, 503, reset,
unhealthy.

Documents ``w-…`` are answered as they must be, and found by searches for their group; ``documents`` more, ``p-0`` and
on, were there before. Each shard of its index (three) has three copies. Answers that are wrong, one kind a mode:
``WRONG`` names them.

Documents ``v-…`` and ``c-…`` are kept, with seq_no and primary term; a key ``c-…`` holds 0 from the start. They are
visible to searches by id ``REFRESH`` seconds after they were written. Planted faults, one a mode: ``lost_update`` (the
condition of a write is not looked at), ``stale`` (gets and searches do as if nothing had been written since the mode
began, and searches of the load find little), ``forked`` (every conditional write is done, and answered with a
conflict), ``mumbling`` (every write is done, and answered with a page), ``hidden`` (searches by id find nothing),
``twice`` (they find everything twice), ``silent`` (a write is done and never answered), ``shut`` (every write is 503
and not done).

What the load asks is done and answered by what is no answer in these modes: ``html`` (a page), ``invalid_utf8`` (a byte
that cannot be), ``surrogate`` (half a character), ``empty`` (no body), ``list`` (JSON of another kind), ``object`` (an
empty one), ``mistyped`` (texts and nulls for numbers), ``nested`` (a hundred thousand brackets), ``truncated`` (half of
the body, then the end), ``shorter`` (a length below the body's), ``no_number`` (a length that is none), ``two_lengths``
(which differ), ``announced`` (a length of an exabyte), ``bad_chunk`` (a chunk of no size), ``negative_chunk`` (of less
than nothing), ``cut_chunk`` (half of one, then the end), ``no_http`` (the first words of another protocol),
``bad_header`` (a line without a colon), ``half_head`` (the end in the middle of the head), ``bad_gzip`` (said to be
compressed), ``bomb`` (64 MiB in 64 kB), ``endless`` (chunks as fast as they are taken). And so that they can be told
from these: ``longer`` (a length above the body's, and no end), ``trickle`` (a chunk of one byte now and then),
``closed`` (the end instead of an answer), ``torn`` (half of the body, then a reset), ``listed_error`` (status 500 with
a list).
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

_SHARDS = b'{"total":3,"successful":%d,"skipped":0,"failed":%d}'
_SEARCH = b'{"timed_out":%b,"_shards":%b,"hits":{"total":{"value":%d,"relation":"eq"},"hits":[%b]}}'
_HIT = b'{"_index":"chaos","_id":"%b","_score":1.0,"_source":%b}'
_WRITE = (
    b'{"_index":"chaos","_id":"%b","result":"created","_shards":{"total":3,"successful":%d,"failed":%d},'
    b'"_seq_no":%d,"_primary_term":1}'
)
_GET = b'{"_index":"chaos","_id":"%b","_seq_no":0,"_primary_term":1,"found":true,"_source":%b}'
_GROUP = re.compile(rb'"group": ?(\d+)')
_WRITTEN = re.compile(rb"/_doc/(w-(\d+))")
_READ = re.compile(rb"/_doc/(p-\d+)")
_KEPT = re.compile(rb"/_doc/([vc]-\d+)")
_SOUGHT = re.compile(rb'"ids": ?\{"values": ?(\[[^\]]+\])')
_CONDITION = re.compile(rb"if_seq_no=(\d+)&if_primary_term=(\d+)")
REFRESH = 0.3
COMPETE = 0.02
"""Seconds until a key ``c-…`` is answered: the two attempts that begin at one moment have both read it before one of
them writes, however slow the machine is with the second."""
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_OK = b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\n"
_CHUNKED = _OK + b"transfer-encoding: chunked\r\n\r\n"


def _with(body: bytes, length: object = None, more: bytes = b"") -> bytes:
    """An answer with this body; ``length``: what it says of it, if that is another."""
    said = str(len(body) if length is None else length).encode()
    return _OK + more + b"content-length: " + said + b"\r\n\r\n" + body


_BOMB = gzip.compress(bytes(64 << 20))
_KEEP: dict[str, Callable[[bytes], bytes]] = {
    "html": lambda _: _with(b"<html>502</html>"),
    "invalid_utf8": lambda body: _with(body[:-1] + b',"x":"\xff"}'),
    "surrogate": lambda body: _with(body[:-1] + b',"x":"\xed\xa0\x80"}'),
    "empty": lambda _: _with(b""),
    "list": lambda _: _with(b"[]"),
    "object": lambda _: _with(b"{}"),
    "mistyped": lambda body: _with(re.sub(rb": ?(\d+|true|false)", rb":null", body).replace(b'"created"', b"1")),
    "nested": lambda _: _with(b"[" * 100_000),
    "shorter": lambda body: _with(body, len(body) - 1),
    "longer": lambda body: _with(body, len(body) + 1),
    "no_number": lambda body: _with(body, "many"),
    "two_lengths": lambda body: _with(body, more=b"content-length: 7\r\n"),
    "announced": lambda body: _with(body, 10**18),
    "bad_chunk": lambda body: _CHUNKED + b"some\r\n" + body,
    "negative_chunk": lambda body: _CHUNKED + b"-1\r\n" + body,
    "no_http": lambda _: b"SSH-2.0-OpenSSH_9.6\r\n",
    "bad_header": lambda body: _OK + b"there is no colon\r\n" + _with(body)[len(_OK) :],
    "bad_gzip": lambda body: _with(body, more=b"content-encoding: gzip\r\n"),
    "bomb": lambda _: _with(_BOMB, more=b"content-encoding: gzip\r\n"),
    "endless": lambda _: _CHUNKED,
    "trickle": lambda _: _CHUNKED,
    "listed_error": lambda _: _with(b"[]").replace(b"200", b"500", 1),
}
"""What is sent instead of an answer with this body, on a connection that stays."""
_CLOSE: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda body: _with(body)[: -len(body) // 2],
    "cut_chunk": lambda body: _CHUNKED + b"%x\r\n" % (2 * len(body)) + body,
    "half_head": lambda _: _OK[:-10],
    "closed": lambda _: b"",
    "torn": lambda body: _with(body)[: -len(body) // 2],
}
"""The same, and then the connection is closed (``torn``: reset)."""


@dataclass
class Document:
    """One version of a document."""

    source: bytes
    seq_no: int
    written: float


def _documents(number: int) -> dict[int, list[bytes]]:
    """Of each group the hits that its first ten documents are."""
    if not number:
        return {}
    from chaos.load.workloads.documents import GROUPS, WORKLOAD

    first = range(min(number, 10 * GROUPS))
    found: dict[int, list[bytes]] = {}
    for n in first:
        found.setdefault(n % GROUPS, []).append(_HIT % (b"p-%d" % n, WORKLOAD.body(f"p-{n}").encode()))
    return found


def _content(doc_id: bytes) -> bytes:
    from chaos.load.workloads.documents import WORKLOAD

    return WORKLOAD.body(doc_id.decode()).encode()


def _first(doc_id: bytes) -> bytes:
    """What a key of compare-and-set holds before the load."""
    check = int.from_bytes(hashlib.blake2b(doc_id + b":0", digest_size=8).digest(), "big") >> 1
    return b'{"seq":0,"group":-1,"check":%d,"text":""}' % check


_BULK_ID = re.compile(rb'\{"index":\{"(_id|routing)":"(w-\d+)"\}\}')
_ITEM = b'"result":"created","_shards":{"total":3,"successful":%d,"failed":%d}'
_ERROR = b'"error":{"type":"%b","reason":"planted"}'
ITEM_ERRORS: dict[str, tuple[int, bytes]] = {
    "bulk_rejected": (429, _ERROR % b"rejected_execution_exception"),
    "bulk_blocked": (403, _ERROR % b"cluster_block_exception"),
    "bulk_conflict": (409, _ERROR % b"version_conflict_engine_exception"),
    "bulk_invalid": (400, _ERROR % b"mapper_parsing_exception"),
    "bulk_failed": (503, _ERROR % b"unavailable_shards_exception"),
    "bulk_hidden_errors": (429, _ERROR % b"rejected_execution_exception"),
}
"""Mode → how every fifth document of a bulk is refused, the third of the bulk first. ``bulk_degraded``: a copy did not
take it; ``bulk_drops``: it is acknowledged and thrown away."""
BULKS: dict[str, Callable[[bytes], bytes]] = {
    "bulk_hidden_errors": lambda body: body.replace(b'"errors":true', b'"errors":false'),
    "bulk_short": lambda body: re.sub(rb',\{"index":[^]]*\]', b"]", body, count=1),
    "bulk_swapped": lambda body: re.sub(rb'("_id":"w-\d+")(.*?)("_id":"w-\d+")', rb"\g<3>\g<2>\g<1>", body, count=1),
    "bulk_elsewhere": lambda body: body.replace(b'"_index":"chaos"', b'"_index":"other"', 1),
}
"""Mode → what becomes of the answer to a bulk: failed items under ``errors: false``, one item alone, two documents'
items changed with each other, another index in the first item."""
_AN_ID = re.compile(rb'"_id":"\w-\d+"')
WRONG: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "no_hits": ("search", lambda body: re.sub(rb'"hits":\[.*\]', b'"hits":[]', body)),
    "no_shards": ("search", lambda body: body.replace(_SHARDS % (3, 0), b'{"total":0,"successful":0,"failed":0}')),
    "one_shard": ("search", lambda body: body.replace(_SHARDS % (3, 0), b'{"total":1,"successful":1,"failed":0}')),
    "ten_equal": ("search", lambda body: re.sub(_AN_ID, _AN_ID.search(body)[0], body)),
    "another_group": ("search", lambda body: re.sub(rb'"_id":"(\w-\d+)"', rb'"_id":"\g<1>1"', body)),
    "other_hits": ("search", lambda body: body.replace(b'"seq":', b'"seq":1')),
    "hit_elsewhere": ("search", lambda body: body.replace(b'"_index":"chaos"', b'"_index":"other"', 1)),
    "too_many": ("search", lambda body: re.sub(rb'"value":\d+', b'"value":99999', body)),
    "unordered": ("search", lambda body: body.replace(b'"_score":1.0', b'"_score":0.5', 1)),
    "never_sent": ("search", lambda body: re.sub(rb'"_id":"\w-\d+"', b'"_id":"w-99999999"', body, count=1)),
    "elsewhere": ("get", lambda body: body.replace(b'"_index":"chaos"', b'"_index":"other"')),
    "another": ("get", lambda body: re.sub(rb'"_id":"p-\d+"', b'"_id":"x"', body)),
    "other_content": ("get", lambda body: body.replace(b'"seq":', b'"seq":1')),
    "not_found": ("get", lambda body: body.replace(b'"found":true', b'"found":false')),
    "no_copy": ("index", lambda body: body.replace(b'"successful":3', b'"successful":0')),
    "two_copies": ("index", lambda body: body.replace(b'"total":3,"successful":3', b'"total":2,"successful":2')),
    "another_write": ("index", lambda body: re.sub(rb'"_id":"w-\d+"', b'"_id":"w-0000"', body)),
    "write_elsewhere": ("index", lambda body: body.replace(b'"_index":"chaos"', b'"_index":"other"')),
    "updated": ("index", lambda body: body.replace(b"created", b"updated")),
    "no_term": ("index", lambda body: body.replace(b'"_primary_term":1', b'"_primary_term":0')),
}
"""Mode → the kind of request that it is about, and what becomes of its answer."""


class Stub(asyncio.Protocol):
    mode = "ok"
    hits: ClassVar[dict[int, list[bytes]]] = {}
    """Of each group the first ten documents, as hits …"""
    found: ClassVar[dict[int, int]] = {}
    """… and how many there are, …"""
    ids: ClassVar[set[bytes]] = set()
    before: ClassVar[dict[int, int]] = {}
    """… and were before the load, which searches show in the mode ``before``."""
    since = 0.0
    """When the mode began."""
    compressed = 0
    """Bodies that came with gzip."""
    seq_no = 0
    looks = 0
    """Gets of kept documents, and searches for ids."""
    given = 0
    """Ids that were given to documents of bulks."""
    documents: ClassVar[dict[bytes, list[Document]]] = {}
    """The versions of each kept document, oldest first."""
    floods: ClassVar[set[asyncio.Future[None]]] = set()

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
            body = self.pending[end + 4 : whole]
            self.pending = self.pending[whole:]
            method, path, _ = head.split(b" ", 2)
            if b"content-encoding: gzip" in head:
                Stub.compressed += 1
                body = gzip.decompress(body)
            self.answer(method, path, body)

    def answer(self, method: bytes, path: bytes, body: bytes) -> None:
        mode = Stub.mode
        if path == b"/_looks":
            self.whole(200, b"%d" % Stub.looks)
        elif path.startswith(b"/_stub/"):
            Stub.mode, Stub.since = path.rpartition(b"/")[2].decode(), time.monotonic()
            self.whole(200, b'{"compressed":%d}' % Stub.compressed)
        elif path.startswith(b"/_cluster/health"):
            self.whole(503 if mode == "unhealthy" else 200, b'{"status":"green"}')
        elif mode == "aliased" and (b"/chaos-writes/" in path and b"require_alias=true" in path) != (method == b"PUT"):
            self.send(404, b'{"error":{"type":"index_not_found_exception"},"status":404}')
        elif mode in ("429", "503"):
            self.send(int(mode), b'{"error":{"type":"rejected_execution_exception"},"status":%d}' % int(mode))
        elif mode == "reset":
            self.reset()
        elif kept := _KEPT.search(path):
            self.kept(method, path, kept[1], body)
        elif sought := _SOUGHT.search(body):
            self.search_by_ids([id.encode() for id in json.loads(sought[1])], routed=b"?routing=" in path)
        elif b"/_search" in path:
            failed = 1 if mode == "partial" else 0
            timed_out = b"true" if mode == "timed_out" else b"false"
            asked = _GROUP.search(body)
            group = int(asked[1]) if asked else 0
            total, hits = Stub.found.get(group, 0), Stub.hits.get(group, [])
            if mode == "stale":
                total, hits = 0, []
            elif mode == "before":
                total = Stub.before.get(group, 0)
                hits = hits[:total]
            self.answered("search", 200, _SEARCH % (timed_out, _SHARDS % (3 - failed, failed), total, b",".join(hits)))
        elif b"/_bulk" in path:
            self.bulk(body)
        elif written := _WRITTEN.search(path):
            failed = 1 if mode == "partial" else 0
            self.written(written[1], int(written[2]) % 100, body)
            self.answered("index", 201, _WRITE % (written[1], 3 - failed, failed, Stub.seq_no))
        elif read := _READ.search(path):
            if mode == "stale":
                self.send(404, b'{"_index":"chaos","_id":"%b","found":false}' % read[1])
            elif mode == "another_404":
                self.send(404, b'{"_index":"chaos","_id":"x","found":false}')
            else:
                self.answered("get", 200, _GET % (read[1], _content(read[1])))
        else:
            self.send(404, b"{}")

    def bulk(self, body: bytes) -> None:
        """Write the documents of a bulk; what is planted in it, see ``BULKS``."""
        named = _BULK_ID.findall(body)
        ids = [id for _, id in named]
        automatic = any(name == b"routing" for name, _ in named)
        documents = body.split(b"\n")[1::2]
        items = []
        for place, (id, document) in enumerate(zip(ids, documents, strict=True)):
            status, more = 201, _ITEM % (3, 0)
            if Stub.mode in ITEM_ERRORS and place % 5 == 2:
                status, more = ITEM_ERRORS[Stub.mode]
            elif Stub.mode == "bulk_degraded" and place % 5 == 2:
                more = _ITEM % (2, 1)
            if status == 201 and not (Stub.mode == "bulk_drops" and place % 5 == 2):
                self.written(id, int(id[2:]) % 100, document)
            Stub.given += 1
            given = b"given-%d" % Stub.given if automatic else id
            head = b'"_index":"chaos","_id":"%b","status":%d,' % (given, status)
            items.append(b'{"index":{' + head + more + b"}}")
        failed = Stub.mode in ITEM_ERRORS and len(ids) > 2
        answer = b'{"took":3,"errors":%b,"items":[%b]}'
        self.send(200, BULKS.get(Stub.mode, bytes)(answer % (b"true" if failed else b"false", b",".join(items))))

    def written(self, id: bytes, group: int, body: bytes) -> None:
        """Find it from now on, once, however often it was written."""
        Stub.seq_no += 1
        if id in Stub.ids:
            return
        Stub.ids.add(id)
        Stub.found[group] = Stub.found.get(group, 0) + 1
        if len(hits := Stub.hits.setdefault(group, [])) < 10:
            hits.append(_HIT % (id, body))

    def answered(self, kind: str, status: int, body: bytes) -> None:
        """An answer to this kind of request, right or as the mode makes it wrong."""
        about, change = WRONG.get(Stub.mode, ("", bytes))
        self.send(status, change(body) if about == kind else body)

    def kept(self, method: bytes, path: bytes, id: bytes, body: bytes) -> None:
        mode = Stub.mode
        first = [Document(_first(id), 0, 0.0)] if id.startswith(b"c-") else []
        versions = Stub.documents.setdefault(id, first)
        if method == b"GET":
            Stub.looks += 1
            seen = [each for each in versions if mode != "stale" or each.written < Stub.since]
            if not seen:
                self.send(404, b'{"found":false}')
            else:
                named = {"_index": "chaos", "_id": id.decode()}
                version = {**named, "found": True, "_seq_no": seen[-1].seq_no, "_primary_term": 1}
                body = json.dumps({**version, "_source": json.loads(seen[-1].source)}).encode()
                asyncio.get_running_loop().call_later(COMPETE if id.startswith(b"c-") else 0, self.send, 200, body)
            return
        condition = _CONDITION.search(path)
        missed = condition is not None and int(condition[1]) != versions[-1].seq_no
        if mode == "shut" or (missed and mode != "lost_update"):
            self.send(503 if mode == "shut" else 409, b'{"error":{"type":"version_conflict_engine_exception"}}')
            return
        Stub.seq_no += 1
        versions.append(Document(body, Stub.seq_no, time.monotonic()))
        if mode == "silent":
            return
        if mode == "mumbling":
            self.transport.write(_with(b"<html>done, I think</html>"))
            return
        if mode == "forked" and condition is not None:
            self.send(409, b'{"error":{"type":"version_conflict_engine_exception"}}')
            return
        status, result = (201, "created") if len(versions) == 1 else (200, "updated")
        shards = {"total": 3, "successful": 3, "failed": 0}
        named = {"_index": "chaos", "_id": id.decode(), "result": result, "_shards": shards}
        self.send(status, json.dumps({**named, "_seq_no": Stub.seq_no, "_primary_term": 1}).encode())

    def search_by_ids(self, ids: list[bytes], *, routed: bool) -> None:
        Stub.looks += 1
        hits = []
        for id in ids:
            versions = Stub.documents.get(id, [])
            visible = any(each.written + REFRESH <= time.monotonic() for each in versions) and Stub.mode != "hidden"
            found = (2 if Stub.mode == "twice" else 1) if visible else 0
            hits += [{"_index": "chaos", "_id": id.decode()}] * found
        total = 1 if routed else 3
        failed = 1 if Stub.mode == "partial" and not routed else 0
        shards = {"total": total, "successful": total - failed, "failed": failed}
        counted = {"total": {"value": len(hits)}, "hits": hits}
        self.send(200, json.dumps({"timed_out": False, "_shards": shards, "hits": counted}).encode())

    def reset(self) -> None:
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def send(self, status: int, body: bytes) -> None:
        """An answer, or in some modes what is none."""
        mode = Stub.mode
        if mode in _CLOSE:
            self.transport.write(_CLOSE[mode](body))
            if mode == "torn":  # what was sent is taken first: a reset throws away what nobody has read yet
                asyncio.get_running_loop().call_later(0.05, self.reset)
            else:
                self.transport.close()
        elif mode in _KEEP:
            self.transport.write(_KEEP[mode](body))
            if mode in ("endless", "trickle"):
                flood = asyncio.ensure_future(self.go_on(fast=mode == "endless"))
                Stub.floods.add(flood)
                flood.add_done_callback(Stub.floods.discard)
        else:
            self.whole(status, body)

    async def go_on(self, *, fast: bool) -> None:
        """Chunks without end."""
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n" if fast else b"1\r\nx\r\n"
        while not self.transport.is_closing():
            if self.transport.get_write_buffer_size() < 1 << 20:
                self.transport.write(chunk)
            await asyncio.sleep(0 if fast else 0.05)

    def whole(self, status: int, body: bytes) -> None:
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

    def looks(self) -> int:
        """Gets of kept documents and searches for ids, so far."""
        with urllib.request.urlopen(f"http://{self.host}:{self.port}/_looks", timeout=5) as answer:
            return int(answer.read())

    def compressed(self) -> int:
        """How many bodies came with gzip; the mode is ok from now on."""
        with urllib.request.urlopen(f"http://{self.host}:{self.port}/_stub/ok", timeout=5) as answer:
            return int(json.load(answer)["compressed"])

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def serving(
    host: str = "127.0.0.1", port: int = 0, *, netns: str | None = None, pem: str | None = None, documents: int = 0
) -> Iterator[Server]:
    """Run a stub. ``netns``: the name of a network namespace to run it in (needs root). ``pem``: its file for TLS."""
    place = [host, str(port), f"/run/netns/{netns}" if netns else "", pem or "", str(documents)]
    command = [sys.executable, __file__, *place]
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


async def _serve(host: str, port: int, pem: str) -> None:
    loop = asyncio.get_running_loop()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if pem else None
    if context is not None:
        context.load_cert_chain(pem)
    server = await loop.create_server(Stub, host, port, backlog=1024, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # until the parent is gone
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[3]:
        from pyroute2 import netns as namespaces

        namespaces.setns(sys.argv[3])
    preloaded = int(sys.argv[5])
    Stub.hits = _documents(preloaded)
    Stub.before = {group: len(range(group, preloaded, 100)) for group in Stub.hits}
    Stub.found = dict(Stub.before)
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2]), sys.argv[4]))
