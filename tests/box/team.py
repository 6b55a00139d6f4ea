"""What a team has beside its cluster, for a game day in an office: what its users see, and a chat.

A process of its own, like the relay's: its socket belongs to the office. ``GET /users`` says which share of the shop's
requests of the last seconds failed, by the logs of the box's own traffic, and when that was; ``POST`` is a message to
the chat, a line of JSON each.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from chaos.base.netsock import Namespace

PORT = 9099
SECONDS = 10.0
"""Requests of so long ago count."""
TAIL = 1 << 18
"""Bytes of a log that are read: far more than these seconds write."""
TOO_LATE_MS = 5000.0
"""An answer that took longer is none to a user."""


def lines(log: Path) -> list[dict[str, Any]]:
    """The last whole lines of a log of the box's traffic."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL))
            whole = file.read().rpartition(b"\n")[0].split(b"\n")
    except FileNotFoundError:
        return []
    found = []
    for line in whole:
        try:
            found.append(json.loads(line))
        except ValueError:  # the first one may be cut
            continue
    return found


def failing(said: Iterable[dict[str, Any]], now: float) -> float | None:
    """Which share of what was due of late failed or came too late; None where nothing was due."""
    due = [each for each in said if now - SECONDS <= each["at"] <= now]
    if not due:
        return None
    return sum(not each["ok"] or each.get("ms", 0.0) > TOO_LATE_MS for each in due) / len(due)


def team(office: Path, traffic: Path, chat: Path, owner: int) -> None:
    """Serve for ever. ``office``: the namespace of the port; ``chat``: the file of messages, of the user ``owner``."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            now = time.time()
            share = failing((line for log in sorted(traffic.glob("?*.jsonl")) for line in lines(log)), now)
            self._answer({"at": now} if share is None else {"failing": share, "at": now})

        def do_POST(self) -> None:
            said = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with open(chat, "a", encoding="utf-8") as file:
                file.write(json.dumps(said) + "\n")
            os.chown(chat, owner, owner)
            self._answer({})

        def _answer(self, body: dict[str, Any]) -> None:
            text = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *given: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = Namespace(office).socket()
    server.server_bind()
    server.server_activate()
    print("ready", flush=True)
    sys.stdout.close()
    server.serve_forever()
