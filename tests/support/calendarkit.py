"""Game days that are made without files, and a server on loopback that answers with a calendar."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from chaos.definitions.gameday import GameDay, GameDayFile

WINDOW = {"zone": "Europe/Berlin", "days": ["tue", "thu"], "from": "10:00", "to": "12:30"}


def gameday(folder: Path, **changes: Any) -> GameDay:
    """A day whose file is ``NAME.yaml`` in ``folder``; ``changes`` replace its parts."""
    written = {
        "apiVersion": "opensearch-chaos/v1",
        "kind": "gameday",
        "name": "staging-tuesday",
        "owner": "team-search <search@example.com>",
        "hypothesis": "the loss of a node is not seen by users",
        "target": "staging.yaml",
        "experiments": [{"experiment": "node.yaml", "rung": "node"}],
        "window": WINDOW,
        "approval": {"allowed_signers": "allowed_signers"},
        "ladder": {"waived": "nothing of this is run"},
        "guards": {"users": {"counts": "outcome", "http": {"url": "http://127.0.0.1:1/"}}},
        "announce": [{"webhook": "http://127.0.0.1:1/"}],
        "bounds": {"day": "90m", "abort": "2m"},
        "stop": {"file": "/run/opensearch-chaos/staging.stop"},
        **changes,
    }
    file = GameDayFile.model_validate(written)
    return GameDay(file=f"{folder}/{file.name}.yaml", folder=folder, written=file)


@dataclass
class Answer:
    """What the server answers next; ``asked``: the headers of each request that it got."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    date: str | None = None
    length: int | None = None
    """Content-Length, where it is not that of the body."""
    before: Callable[[], object] = lambda: None
    """Called before anything is answered."""
    drips: threading.Event | None = None
    """Set: blanks are sent instead of the body, one by one, until it is set."""
    asked: list[dict[str, str]] = field(default_factory=list)
    url: str = ""


@contextmanager
def answering(tls: ssl.SSLContext | None = None) -> Iterator[Answer]:
    """A server on loopback. It sends no Date of its own but :attr:`Answer.date`, where the headers have none."""
    answer = Answer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer.asked.append({name.lower(): value for name, value in self.headers.items()})
            answer.before()
            self.send_response_only(answer.status)
            if answer.date is not None and "Date" not in answer.headers:
                self.send_header("Date", answer.date)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body) if answer.length is None else answer.length))
            self.send_header("Connection", "close")
            self.end_headers()
            if answer.drips is None:
                self.wfile.write(answer.body)
                return
            with suppress(OSError):  # who asks goes away
                while not answer.drips.wait(0.02):
                    self.wfile.write(b" ")

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    answer.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}/freezes.ics"
    try:
        yield answer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
