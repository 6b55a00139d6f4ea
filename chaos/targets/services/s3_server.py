"""The process of an S3 store: moto's application in gevent's server, with a bucket, and a log of requests.

``python -m chaos.targets.services.s3_server ADDRESS PORT BUCKET``. moto's own server answers ``100 Continue`` in a way
that half of OpenSearch's clients take for an error, so gevent's stands before it. Everything is in memory, and goes
with the process. The log has a line for each request: when (UTC), verb, status, bytes of request and answer,
milliseconds, and path; neither headers nor queries are in it, so no credential is. A request that takes keys away which
its body names has a line ``GONE`` for each before its own.
"""

from __future__ import annotations

from gevent import monkey

monkey.patch_all()

import html  # noqa: E402
import io  # noqa: E402
import re  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Iterable  # noqa: E402
from typing import Any  # noqa: E402

from gevent.pywsgi import WSGIHandler, WSGIServer  # noqa: E402
from moto.moto_server.werkzeug_app import create_backend_app  # noqa: E402

PING = "/_ping"
"""Answered here: no bucket can have this name."""
REGION = "us-east-1"


class Handler(WSGIHandler):  # type: ignore[misc]
    """Sends each part of an answer at once, and writes a line for each request that is not a ping."""

    def handle(self) -> None:
        # head and body are two writes: the second would wait 40 ms for the other side's acknowledgement of the first
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().handle()

    def log_request(self) -> None:
        if self.environ is None or self.environ.get("PATH_INFO") == PING:
            return
        took = (self.time_finish - self.time_start) * 1000 if self.time_finish else 0.0
        status = (self._orig_status or "000").split()[0]
        path, sent = self.environ["PATH_INFO"], self.environ.get("CONTENT_LENGTH") or 0
        print(f"{_now()} {self.command} {status} {sent} {self.response_length} {took:.1f} {path}", flush=True)


def application(bucket: str) -> Any:
    """A store with this bucket, as a WSGI application."""
    store = create_backend_app("s3")
    store.test_client().put(f"/{bucket}", headers={"Host": "s3", "Authorization": _of(REGION)})

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == PING:
            start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
            return [b"ok\n"]
        keys = _taken(environ)
        answered: Iterable[bytes] = store(environ, start_response)
        for key in keys:
            print(f"{_now()} GONE 204 0 0 0.0 {key}", flush=True)
        return answered

    return answer


def _now() -> str:
    return time.strftime("%H:%M:%S", time.gmtime()) + f".{int(time.time() * 1000) % 1000:03d}"


def _taken(environ: dict[str, Any]) -> list[str]:
    """The keys that a request takes away whose path does not name them: they are in its body."""
    if environ["REQUEST_METHOD"] != "POST" or "delete" not in environ.get("QUERY_STRING", "").split("&"):
        return []
    body = environ["wsgi.input"].read()
    environ["wsgi.input"] = io.BytesIO(body)
    return [html.unescape(key) for key in re.findall(r"<Key>(.*?)</Key>", body.decode(errors="replace"), re.DOTALL)]


def _of(region: str) -> str:
    """moto reads the region of a request from its signature, which it does not check."""
    return f"AWS4-HMAC-SHA256 Credential=none/20260101/{region}/s3/aws4_request, SignedHeaders=host, Signature=0"


def main() -> None:
    address, port, bucket = sys.argv[1:]
    WSGIServer((address, int(port)), application(bucket), handler_class=Handler, log=None).serve_forever()


if __name__ == "__main__":
    main()
