"""What a team has beside its cluster, for a game day in an office of the box: a probe that Prometheus scrapes, and a
chat that keeps what it is told.

    python tests/support/shopwatch.py TARGET CHAT

``TARGET``: the target's file, as whose user searches are made through the load balancer of each zone. ``CHAT``: a file
that gets a line of JSON for each message to ``http://127.0.0.1:9099/``. Metrics are at ``/metrics`` there.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import urllib3

from chaos.base.errors import ChaosError
from chaos.base.netsock import Endpoint
from chaos.definitions.existing import load_existing
from chaos.opensearch.rest import NodeClient

PORT = 9099
SECONDS = 3.0


def asks(target: Any, at: Any, path: str) -> Any:
    """The answer, or None where none came that is one."""
    client = NodeClient(Endpoint(at.host, at.port), access=target.access, timeout=SECONDS, connect=SECONDS)
    try:
        status, answer = client.request("GET", path)
        return answer if status == 200 else None
    except (urllib3.exceptions.HTTPError, ChaosError):
        return None
    finally:
        client.close()


def main(file: str, chat: str) -> None:
    target = load_existing(file)
    zones = target.written.of_balancers
    seen: dict[str, float] = {}

    def probe(zone: str) -> None:
        while True:
            began = time.monotonic()
            seen[f'shop_search_ok{{zone="{zone}"}}'] = float(bool(asks(target, zones[zone], "/orders/_search?size=1")))
            time.sleep(max(0.0, 1.0 - (time.monotonic() - began)))

    def count() -> None:
        while True:
            found = [
                asks(target, at, "/_cluster/health?filter_path=number_of_nodes") for at in target.written.addresses
            ]
            seen["shop_nodes"] = max((each["number_of_nodes"] for each in found if each), default=0)
            time.sleep(1.0)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("".join(f"{name} {value}\n" for name, value in dict(seen).items()))

        def do_POST(self) -> None:
            said = self.rfile.read(int(self.headers["content-length"])).decode()
            with open(chat, "a", encoding="utf-8") as out:
                out.write(json.dumps(json.loads(said)) + "\n")
            self._answer("ok\n")

        def _answer(self, text: str) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/plain; version=0.0.4")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *given: Any) -> None: ...

    for work in (count, *(lambda zone=zone: probe(zone) for zone in zones)):
        threading.Thread(target=work, daemon=True).start()
    Path(chat).touch()
    ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
