"""The controller's own small HTTP: which nodes may take traffic, what it sees, and a rotation on demand.

``GET /nodes`` is for load balancers, as JSON, or as lines of ``host:port`` with ``Accept: text/plain``; ``GET /status``
is for people; ``POST /rotate`` asks for a rotation. It listens on loopback unless told otherwise.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from chaos.programs.failover.controller import FailoverController


class _Handler(BaseHTTPRequestHandler):
    controller: FailoverController
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a body waits up to 40 ms until its head is acknowledged

    def do_GET(self) -> None:
        if self.path == "/nodes":
            steering = self.controller.steering()
            if self.headers.get("accept", "").startswith("text/plain"):
                lines = "".join(f"{node['address']}\n" for node in steering["nodes"])
                return self._answer(200, "text/plain", lines)
            return self._answer(200, "application/json", json.dumps(steering))
        if self.path == "/status":
            return self._answer(200, "application/json", json.dumps(self.controller.status(), default=str))
        return self._answer(404, "text/plain", "GET /nodes, GET /status or POST /rotate\n")

    def do_POST(self) -> None:
        self.close_connection = True  # a body is not read
        if self.path != "/rotate":
            return self._answer(404, "text/plain", "POST /rotate\n")
        self.controller.ask_rotation()
        return self._answer(202, "application/json", json.dumps({"asked": "rotation"}))

    def _answer(self, status: int, kind: str, body: str) -> None:
        data = body.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Polls are no news."""


def serve(controller: FailoverController, host: str, port: int) -> ThreadingHTTPServer:
    """Serve in a thread of its own. Raises OSError when the address cannot be had."""

    class Handler(_Handler):
        pass

    Handler.controller = controller
    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="steering", daemon=True).start()
    return server
