"""Another cluster, which answers where a node of the box's was: with that node's name and a certificate that fits.

A process of its own in the node's host. It takes whatever it is asked to do, as a cluster would whose users have the
same passwords, and keeps (method, path) of each request: what a run does to it must be nothing.
"""

from __future__ import annotations

import json
import ssl
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PORT = 9209
UUID, NAME = "another-cluster-behind", "oschaos-another"


def answers(node: str, version: str) -> Mapping[str, Any]:
    """What it says, by path; of everything else an empty object."""
    who = {"cluster_name": NAME, "cluster_uuid": UUID}
    return {
        "/": {**who, "name": node, "version": {"distribution": "opensearch", "number": version}, "tagline": ""},
        "/_nodes/_local": {"nodes": {"another": {"name": node}}},
        "/_cat/cluster_manager": [{"node": node}],
        "/_cluster/health": {**who, "status": "green", "discovered_cluster_manager": True, "number_of_nodes": 1},
    }


class Impostor(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], node: str, version: str, certificates: Path, log: Path) -> None:
        super().__init__(address, Handler)
        self.said, self._log, self._lock = answers(node, version), log, threading.Lock()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificates / "node.pem", certificates / "node-key.pem")

    def finish_request(self, request: Any, client_address: Any) -> None:
        """In the request's own thread: a handshake that never ends keeps nobody away."""
        request.settimeout(30.0)
        super().finish_request(self._context.wrap_socket(request, server_side=True), client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who goes away in the middle is no news."""

    def keep(self, method: str, path: str) -> None:
        with self._lock, open(self._log, "a") as file:
            file.write(json.dumps([method, path]) + "\n")


class Handler(BaseHTTPRequestHandler):
    server: Impostor
    protocol_version = "HTTP/1.1"

    def answered(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.keep(self.command, self.path)
        done = {"acknowledged": True} if self.command != "GET" else {}
        said = json.dumps(self.server.said.get(self.path.partition("?")[0], done)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answered

    def log_message(self, *_: object) -> None:
        return


def impostor(host: str, node: str, version: str, certificates: Path, log: Path) -> None:
    """Serve for ever."""
    server = Impostor((host, PORT), node, version, certificates, log)
    print("ready", flush=True)
    sys.stdout.close()
    server.serve_forever()


def asked(log: Path) -> list[tuple[str, str]]:
    """What all of them have been asked, in order."""
    return [tuple(json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []
