"""A Toxiproxy that answers 200 to everything and does nothing: the sabotage that evidence must see through.

Forwards what the real one forwarded, so that the cluster lives on. Arguments: a JSON file with the real one's proxies.
"""

import asyncio
import json
import sys
from pathlib import Path


async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def forwarder(upstream):
    host, _, port = upstream.rpartition(":")

    async def serve(reader, writer):
        try:
            there, back = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
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
        await asyncio.start_server(forwarder(proxy["upstream"]), host, int(port))
    server = await asyncio.start_server(api, "127.0.0.1", 8474)
    await server.serve_forever()


PROXIES = json.loads(Path(sys.argv[1]).read_text())
asyncio.run(main())
