"""Toxiproxies that lie: the sabotage that evidence and checks must see through.

Answers 200 to everything on the API and does nothing of it, but forwards what the real one forwarded, so that the
cluster lives on. Arguments: a JSON file with the real one's proxies; how it lies on the way, if it does; and a file
that must be there for it to lie:

``acknowledge``: every 20th document that is written is kept from the cluster and answered "created".
``partial``: every 20th search is answered with status 200 and a failed shard.
``none found``: every 20th search is answered with status 200, all shards successful, and no hits: an old copy.
``letter``: one letter of the text of every 20th document that is written is another one when it arrives.
``replica``: the same on the way from a primary to the copy on this host's node, and nowhere else.

The ids of documents that were changed are written to the file ``told`` beside the switch.
"""

import asyncio
import json
import re
import sys
from pathlib import Path

EVERY = 20
CREATED = {"result": "created", "_shards": {"total": 3, "successful": 3, "failed": 0}}
SHARDS = {"total": 2, "successful": 2, "skipped": 0, "failed": 0}


TEXT = re.compile(rb'\{"seq":(\d+),"group":\d+,"check":\d+,"text":"([a-z])')
"""A document as the load writes it, up to the first letter of its text."""
REPLICATED = b"indices:data/write/bulk[s][r]"


def changed(data):
    """A message with one letter changed in every 20th document; as it is where there is none."""
    global seen
    found = TEXT.search(data)
    if found is None or not SWITCH.exists():
        return data
    seen += 1
    if seen % EVERY:
        return data
    with SWITCH.with_name("told").open("a") as told:
        told.write(f"w-{found[1].decode()}\n")
    letter = bytes([ord("a") + (ord(found[2]) - ord("a") + 1) % 26])
    return data[: found.start(2)] + letter + data[found.end(2) :]


async def replicate(reader, writer):
    """Forward OpenSearch's transport message by message: two letters, the length (-1: a ping), the rest."""
    try:
        while True:
            head = await reader.readexactly(6)
            length = int.from_bytes(head[2:], "big", signed=True)
            rest = await reader.readexactly(max(0, length))
            writer.write(head + (changed(rest) if REPLICATED in rest else rest))
            await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


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


async def liar(reader, writer, there, back):
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
            if LIE == "letter" and first.startswith("PUT ") and "/_doc/w-" in first:
                request = changed(request)
            back.write(request)
            await back.drain()
            _, answer = await message(there)
            writer.write(answer)
            await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()
        back.close()


def forwarder(name, upstream):
    host, _, port = upstream.rpartition(":")

    async def serve(reader, writer):
        try:
            there, back = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        if LIE == "replica":
            forward = replicate if name == "in-transport" else pump
            await asyncio.gather(forward(reader, back), pump(there, writer))
        elif LIE:
            await liar(reader, writer, there, back)
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
    for name, proxy in PROXIES.items():
        host, _, port = proxy["listen"].rpartition(":")
        await asyncio.start_server(forwarder(name, proxy["upstream"]), host, int(port))
    server = await asyncio.start_server(api, "127.0.0.1", 8474)
    await server.serve_forever()


PROXIES = json.loads(Path(sys.argv[1]).read_text())
LIE = sys.argv[2]
SWITCH = Path(sys.argv[3])
seen = 0
asyncio.run(main())
