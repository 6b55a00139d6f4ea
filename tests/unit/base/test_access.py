"""Secrets by reference, and what does not fit together."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import urllib3
from tlskit import authority

from chaos.base.access import PLAIN, Access, secret
from chaos.base.errors import InvalidInput
from chaos.base.netsock import Endpoint
from chaos.opensearch.rest import NodeClient


def test_plain_has_nothing() -> None:
    assert (PLAIN.scheme, PLAIN.headers(), PLAIN.context, PLAIN.to_json()) == ("http", {}, None, {})


def test_a_password_is_read_when_it_is_needed_and_never_written_down(monkeypatch, tmp_path) -> None:
    file = tmp_path / "password"
    for reference in ("env:SECRET_OF_TEST", f"file:{file}"):
        access = Access(tls=True, user="admin", password=reference)
        written = json.dumps(access.to_json()) + repr(access)
        monkeypatch.setenv("SECRET_OF_TEST", "öpen:sesame")
        file.write_text("öpen:sesame\n")
        assert base64.b64decode(access.headers()["authorization"].split()[1]).decode() == "admin:öpen:sesame"
        assert "sesame" not in written and Access.from_json(json.loads(json.dumps(access.to_json()))) == access


@pytest.mark.parametrize(
    "wrong",
    [
        {"user": "a"},
        {"password": "env:X"},
        {"user": "a", "password": "hunter2"},
        {"tls": True, "key": "k.pem"},
        {"ca": "ca.pem"},
        {"verify": False},
        {"dates": False},
        {"tls_name": "c-data"},
        {"tls": True, "tls_name": "c-data", "verify": False},
    ],
)
def test_what_does_not_fit_together_is_refused_without_telling_it(wrong) -> None:
    with pytest.raises(InvalidInput) as caught:
        Access(**wrong)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("reference", ["env:NO_SUCH_THING_HERE", "file:/no/such/file", "hunter2", "env:"])
def test_a_reference_to_nothing(reference) -> None:
    with pytest.raises(InvalidInput) as caught:
        secret(reference)
    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_no_certificate(tmp_path) -> None:
    bad = tmp_path / "ca.pem"
    bad.write_text("nothing")
    for access in (Access(tls=True, ca=str(bad)), Access(tls=True, certificate=str(tmp_path / "none.pem"))):
        with pytest.raises(InvalidInput, match="cannot use"):
            _ = access.context
    assert Access(tls=True, verify=False).context.verify_mode == 0


ELSEWHERE = "127.0.0.2"
"""An address that is in no certificate of these tests."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[int, str]]:
    """A server at ELSEWHERE whose certificate is of c-data, localhost and other addresses: its port and its CA."""
    made = authority(tmp_path)

    class Greeting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", "2")
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *words: object) -> None:
            return

    server = ThreadingHTTPServer((ELSEWHERE, 0), Greeting)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    server.socket = made.served.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1], str(made.ca)
    server.shutdown()
    server.server_close()


BY_ASYNCIO = """
import asyncio, sys
from chaos.base.access import Access
access = Access(tls=True, ca=sys.argv[2], tls_name=sys.argv[3])
asyncio.run(asyncio.open_connection("127.0.0.2", int(sys.argv[1]), ssl=access.context))
"""
BY_GEVENT = """
from gevent import monkey
monkey.patch_all()
import socket, sys
from chaos.base.access import Access
access = Access(tls=True, ca=sys.argv[2], tls_name=sys.argv[3])
access.secured(socket.create_connection(("127.0.0.2", int(sys.argv[1])), 10), "127.0.0.2")
"""


@pytest.mark.parametrize("program", [BY_ASYNCIO, BY_GEVENT])
def test_a_server_is_known_by_the_name_that_was_given_to_every_kind_of_client(served, program: str) -> None:
    port, ca = served
    for name, taken in (("c-data", True), ("b-data", False)):
        done = subprocess.run([sys.executable, "-c", program, str(port), ca, name], capture_output=True, text=True)
        assert (done.returncode == 0) is taken, done.stderr
        assert taken or "Hostname mismatch" in done.stderr


def test_without_its_name_a_server_at_another_address_is_refused_and_another_authority_is_with_it(
    served, tmp_path: Path
) -> None:
    port, ca = served

    def asked(access: Access) -> int:
        client = NodeClient(Endpoint(ELSEWHERE, port), access=access)
        try:
            return client.request("GET", "/")[0]
        finally:
            client.close()

    known = Access(tls=True, ca=ca, tls_name="c-data")
    assert asked(known) == 200 and asked(Access.from_json(json.loads(json.dumps(known.to_json())))) == 200
    (tmp_path / "other").mkdir()
    stranger = authority(tmp_path / "other").ca
    for wrong in (
        Access(tls=True, ca=ca),
        Access(tls=True, ca=ca, tls_name="b-data"),
        Access(tls=True, ca=str(stranger), tls_name="c-data"),
    ):
        with pytest.raises(urllib3.exceptions.HTTPError):
            asked(wrong)
