"""Toxiproxies that lie: the sabotage that evidence and checks must see through.

Answers 200 to everything on the API and does nothing of it, but forwards what the real one forwarded, so that the
cluster lives on. Arguments: a JSON file with the real one's proxies; how it lies on the way, if it does; and a file
that must be there for it to lie:

``acknowledge``: every 20th document that is written is kept from the cluster and answered "created".
``partial``: every 20th search is answered with status 200 and a failed shard.
``none found``: every 20th search is answered with status 200, all shards successful, and no hits: an old copy.
``garble NODE``: every 100th answer of this node to a search, and to a document that is written, is spoiled in one of
the forms of :data:`SPOILED`, by turns.
"""

import asyncio
import json
import re
import sys
from pathlib import Path

EVERY = 20
CREATED = {"result": "created", "_shards": {"total": 3, "successful": 3, "failed": 0}}
SHARDS = {"total": 2, "successful": 2, "skipped": 0, "failed": 0}


async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def message(reader):
    """One HTTP message: first line, all that was read. Raises IncompleteReadError at the end of the connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return head.split(b"\r\n")[0].decode(), head + await reader.readexactly(length)


def lie_to(first):
    """The answer to a request that is lied about; None for the others."""
    method, path = first.split()[:2]
    if LIE == "acknowledge" and method == "PUT" and "/_doc/w-" in path:
        return 201, CREATED
    if LIE == "partial" and "/_search" in path:
        return 200, {
            "timed_out": False,
            "_shards": {**SHARDS, "successful": 1, "failed": 1},
            "hits": {"total": {"value": 100, "relation": "eq"}, "hits": []},
        }
    if LIE == "none found" and "/_search" in path:
        return 200, {"timed_out": False, "_shards": SHARDS, "hits": {"total": {"value": 0, "relation": "eq"}}}
    return None


CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
SPOILED = (
    lambda head, body: head + body[:-1] + b"\xff",  # no UTF-8
    lambda head, body: head + body[:-1] + b",",  # no JSON
    lambda head, body: head + body[: len(body) // 2],  # cut short
    lambda head, body: re.sub(rb"(?i)(content-length: )\d+", rb"\1many", head) + body,
    lambda head, body: CHUNKED + b"so much\r\n" + body,
    lambda head, body: b"SSH-2.0-OpenSSH_9.6\r\n",
)


def spoiled(first, answer):
    """An answer as it is to be handed on; it is spoiled when its turn has come."""
    global turns
    kind = "read" if "/_search" in first else "write" if "/_doc/w-" in first else None
    if kind is None or not SWITCH.exists():
        return answer
    answers[kind] += 1
    if answers[kind] % 100:
        return answer
    turns += 1
    head, end, body = answer.partition(b"\r\n\r\n")
    return SPOILED[turns % len(SPOILED)](head + end, body)


async def liar(reader, writer, there, back, garbles):
    global seen
    try:
        while True:
            first, request = await message(reader)
            if (lie := lie_to(first)) is not None and SWITCH.exists():
                seen += 1
                if seen % EVERY == 0:
                    status, body = lie[0], json.dumps(lie[1]).encode()
                    head = f"HTTP/1.1 {status} OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
                    writer.write(head.encode() + b"\r\n\r\n" + body)
                    await writer.drain()
                    continue
            back.write(request)
            await back.drain()
            _, answer = await message(there)
            given = spoiled(first, answer) if garbles else answer
            writer.write(given)
            await writer.drain()
            if len(given) != len(answer):  # else the client may use the connection again
                break
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()
        back.close()


def forwarder(upstream, name):
    host, _, port = upstream.rpartition(":")

    async def serve(reader, writer):
        try:
            there, back = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        if LIE:
            await liar(reader, writer, there, back, LIE.startswith("garble ") and LIE.split()[1] in name)
        else:
            await asyncio.gather(pump(reader, back), pump(there, writer))

    return serve


async def api(reader, writer):
    while line := await reader.readline():
        length = 0
        while (header := await reader.readline()) not in (b"\r\n", b""):
            if header.lower().startswith(b"content-length:"):
                length = int(header.split(b":")[1])
        await reader.readexactly(length)
        path = line.split()[1].decode()
        body = json.dumps([] if path.endswith("/toxics") else PROXIES if path == "/proxies" else {"version": "2.12.0"})
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(f"{head}{body}".encode())
        await writer.drain()
    writer.close()


async def main():
    for proxy in PROXIES.values():
        host, _, port = proxy["listen"].rpartition(":")
        await asyncio.start_server(forwarder(proxy["upstream"], proxy["name"]), host, int(port))
    server = await asyncio.start_server(api, "127.0.0.1", 8474)
    await server.serve_forever()


PROXIES = json.loads(Path(sys.argv[1]).read_text())
LIE = sys.argv[2]
SWITCH = Path(sys.argv[3])
seen = turns = 0
answers = {"read": 0, "write": 0}
asyncio.run(main())
