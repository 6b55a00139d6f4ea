"""Toxiproxies that lie: the sabotage that evidence and checks must see through.

Answers 200 to everything on the API and does nothing of it, but forwards what the real one forwarded, so that the
cluster lives on. Arguments: a JSON file with the real one's proxies; how it lies on the way, if it does; a file that
must be there for it to lie; and, if it lies about one node only, the name of that node:

``acknowledge``: every 20th document that is written is kept from the cluster and answered "created".
``partial``: every 20th search is answered with status 200 and a failed shard.
``none found``: every 20th search is answered with status 200, all shards successful, and no hits: an old copy.
``garble``: every 100th answer to a search, and to a document that is written, is spoiled in one of the forms of
:data:`SPOILED`, by turns.
``hollow``: every answer to a search keeps its total and its shards, and loses its hits.
``elsewhere``: every get of a document is answered with the same document of another index.
``letter``: one letter of the text of every 20th document that is written is another one when it arrives.
``replica``: the same on the way from a primary to the copy on this host's node, and nowhere else.
``replay``: every get of a document for which it has an answer that is 5 s old gets that answer again: an old copy too.
``late``: a search by ids shows no document that it was first asked for less than 5 s ago: a copy that is behind.

The ids of documents that were changed are written to the file ``told`` beside the switch.
"""

import asyncio
import json
import re
import sys
import time
from pathlib import Path

EVERY = 20
AGE_S = 5.0
CREATED = {"result": "created", "_shards": {"total": 3, "successful": 3, "failed": 0}, "_seq_no": 1, "_primary_term": 1}
WRITTEN = re.compile(r"/(\S+)-writes/_doc/(w-\d+)")
"""The path of a write: the index behind its alias, and the id."""
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
        index, id = WRITTEN.search(path).groups()
        return 201, {"_index": index, "_id": id, **CREATED}
    if LIE == "partial" and "/_search" in path:
        return 200, {
            "timed_out": False,
            "_shards": {**SHARDS, "successful": 1, "failed": 1},
            "hits": {"total": {"value": 0, "relation": "eq"}, "hits": []},
        }
    if LIE == "none found" and "/_search" in path:
        return 200, {"timed_out": False, "_shards": SHARDS, "hits": {"total": {"value": 0, "relation": "eq"}}}
    return None


def replayed(first):
    """The newest answer to this get that is old enough; None: there is none, or it is no get of a document."""
    old = [answer for t, answer in heard.get(first, ()) if t <= time.monotonic() - AGE_S]
    return old[-1] if LIE == "replay" and old else None


def lies(node):
    """Whether the time has come to lie about this node."""
    try:
        return SWITCH.read_text() in ("", node)
    except FileNotFoundError:
        return False


def late(first, request, answer):
    """An answer to a search by ids as a copy would give it that is :data:`AGE_S` behind; others as they are."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if "/_search" not in first or b'"ids"' not in request or not head.startswith(b"HTTP/1.1 200"):
        return answer
    now = time.monotonic()
    ids = json.loads(request.partition(b"\r\n\r\n")[2])["query"]["ids"]["values"]
    young = {id for id in ids if now - sought.setdefault(id, now) < AGE_S}
    said = json.loads(body)
    kept = [hit for hit in said["hits"].get("hits", []) if hit["_id"] not in young]
    said["hits"]["total"]["value"] -= len(said["hits"].get("hits", [])) - len(kept)
    said["hits"]["hits"] = kept
    return framed(head, json.dumps(said).encode())


def framed(head, body):
    """A message with another body."""
    return re.sub(rb"(?i)(content-length: )\d+", rb"\g<1>%d" % len(body), head) + b"\r\n\r\n" + body


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
    if LIE in FORGED and SWITCH.exists():
        return forged(first, answer)
    kind = "read" if "/_search" in first else "write" if "/_doc/w-" in first else None
    if LIE != "garble" or kind is None or not SWITCH.exists():
        return answer
    answers[kind] += 1
    if answers[kind] % 100:
        return answer
    turns += 1
    head, end, body = answer.partition(b"\r\n\r\n")
    return SPOILED[turns % len(SPOILED)](head + end, body)


FORGED = {
    "hollow": ("/_search", lambda said: said["hits"].update(hits=[])),
    "elsewhere": ("/_doc/p-", lambda said: said.update(_index="orders")),
}
"""Which answers are forged, and how; each is well framed, and whole by its own count."""


def forged(first, answer):
    """An answer as it is to be handed on, forged where it is one of those."""
    about, change = FORGED[LIE]
    head, _, body = answer.partition(b"\r\n\r\n")
    if about not in first or not head.startswith(b"HTTP/1.1 200"):
        return answer
    said = json.loads(body)
    change(said)
    return framed(head, json.dumps(said).encode())


async def liar(node, reader, writer, there, back):
    global seen
    try:
        while True:
            first, request = await message(reader)
            if lies(node) and (answer := replayed(first)) is not None:
                writer.write(answer)
                await writer.drain()
                continue
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
            if LIE == "replay" and first.startswith("GET ") and "/_doc/" in first:
                heard.setdefault(first, []).append((time.monotonic(), answer))
            given = spoiled(first, answer)
            if LIE == "late" and lies(node):
                given = late(first, request, answer)
            writer.write(given)
            await writer.drain()
            if LIE == "garble" and len(given) != len(answer):  # else the client may use the connection again
                break
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
        elif LIE and (ABOUT is None or name == f"to-{ABOUT}-http"):
            await liar(name.removeprefix("to-").removesuffix("-http"), reader, writer, there, back)
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
ABOUT = sys.argv[4] if len(sys.argv) > 4 else None
seen = turns = 0
answers = {"read": 0, "write": 0}
heard = {}
sought = {}
asyncio.run(main())
