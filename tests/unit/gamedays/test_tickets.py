"""The change ticket, asked of a server on loopback: one clear yes, and everything else."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from signkit import day_in
from tlskit import authority

from chaos.definitions.gameday import Ticket
from chaos.gamedays import tickets
from chaos.gamedays.asking import moment_of
from chaos.gamedays.asking import pointed as at
from chaos.gamedays.tickets import Asked

NOW = datetime(2026, 11, 26, 9, 0, tzinfo=UTC)
CLOSES = NOW + timedelta(hours=2)
DIGEST = "0123456789abcdef" * 4
TOKEN = "s3cret-of-the-change-system"
Reply = Callable[["Server"], bytes | None]


class Server:
    """``reply``: the bytes of an answer, None hangs. ``asked``: every request's head."""

    def __init__(self, reply: Reply) -> None:
        self.reply, self.asked, self.over = reply, list[str](), threading.Event()
        self.url = ""


@contextmanager
def serving(reply: Reply, *, drips: bool = False, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """``drips``: it sends a byte at a time, and never the last."""
    it = Server(reply)
    listener = socket.create_server(("127.0.0.1", 0))
    it.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{listener.getsockname()[1]}"

    def serve() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with sock, suppress(OSError):
                if tls is not None:
                    sock = tls.wrap_socket(sock, server_side=True)
                head = b""
                while b"\r\n\r\n" not in head and (piece := sock.recv(65536)):
                    head += piece
                it.asked.append(head.decode())
                answer = it.reply(it)
                if answer is None:
                    it.over.wait(30)
                elif drips:
                    for byte in answer[:-1]:
                        sock.sendall(bytes([byte]))
                        if it.over.wait(0.02):
                            break
                    it.over.wait(30)
                else:
                    sock.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield it
    finally:
        it.over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def answer(body: Any, status: int = 200, *headers: str) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(data)}", "Connection: close", *headers]
    lines += (
        [] if any(each.startswith("Date: ") for each in headers) else [f"Date: {format_datetime(NOW, usegmt=True)}"]
    )
    lines += ["", ""]
    return "\r\n".join(lines).encode() + data


def change(**fields: Any) -> dict[str, Any]:
    """A change that permits it."""
    good = {
        "state": "implement",
        "start": "2026-11-26T09:30:00+01:00",
        "end": CLOSES.timestamp(),
        "description": f"zone dark on staging, plan {DIGEST}.",
    }
    return {"result": {**good, **fields}}


def without(name: str) -> dict[str, Any]:
    it = change()
    del it["result"][name]
    return it


def ticket(server: str, **fields: Any) -> Ticket:
    written = {
        "url": f"{server}/api/change/{{change}}?fields=all",
        "token": "env:CHANGE_TOKEN",
        "state": "/result/state",
        "approved": ["implement", "scheduled"],
        "begins": "/result/start",
        "ends": "/result/end",
        "digest": "/result/description",
    }
    return Ticket.model_validate({**written, **fields})


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHANGE_TOKEN", TOKEN)


def ask(it: Ticket, tmp_path: Path, **changes: Any) -> Asked:
    """Asked at NOW for DIGEST; no answer ever holds the token."""
    given_ = {"change": "CHG 12/3", "digest": DIGEST, "now": NOW, "closes": CLOSES, **changes}
    found = tickets.ask(it, day_in(tmp_path), **given_)
    assert TOKEN not in repr(found) and "\n" not in found.says
    return found


def refusal(reply: Reply, tmp_path: Path, **changes: Any) -> Asked:
    fields = changes.pop("fields", {})
    with serving(reply, drips=changes.pop("drips", False)) as server:
        found = ask(ticket(server.url, **fields), tmp_path, **changes)
    assert not found.ok
    return found


def test_a_change_that_permits_it(tmp_path: Path) -> None:
    with serving(lambda it: answer(change())) as server:
        found = ask(ticket(server.url), tmp_path)
    assert found == Asked(
        True,
        "the change is in state 'implement', holds until 2026-11-26 11:00:00 UTC, and is for this plan",
        "implement",
        f"{server.url}/api/change/CHG%2012%2F3?fields=all",
    )
    (head,) = server.asked
    assert head.startswith("GET /api/change/CHG%2012%2F3?fields=all HTTP/1.1\r\n")
    assert f"authorization: Bearer {TOKEN}\r\n" in head


def test_a_token_in_a_file_beside_the_day(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    with serving(lambda it: answer(change())) as server:
        assert ask(ticket(server.url, token="file:token"), tmp_path).ok
        assert ask(ticket(server.url, token=None), tmp_path).ok
    assert "authorization" not in server.asked[1]


@pytest.mark.parametrize(
    ("body", "says", "state"),
    [
        (change(state="closed"), "is in state 'closed': expected 'implement' or 'scheduled'", "closed"),
        (change(state="x\x1b[2J\n" + "y" * 300), "is in state 'x?[2J yy", "x?[2J " + "y" * 194),
        (change(state=3), "has no text at /result/state, where its state should be", None),
        (change(state=None), "has no text at /result/state, where its state should be", None),
        (change(state=["implement"]), "has no text at /result/state, where its state should be", None),
        (without("state"), "has nothing at /result/state, where its state should be", None),
        (without("start"), "has nothing at /result/start, where its beginning should be", "implement"),
        (without("end"), "has nothing at /result/end, where its end should be", "implement"),
        (without("description"), "has nothing at /result/description, where its digest should be", "implement"),
        ([change()], "has nothing at /result/state", None),
        ("implement", "has nothing at /result/state", None),
        (None, "has nothing at /result/state", None),
        (change(start="2026-11-26T09:00:01Z"), "begins at 2026-11-26 09:00:01 UTC only", "implement"),
        (change(end="2026-11-26T09:00:00Z"), "ended at 2026-11-26 09:00:00 UTC", "implement"),
        (
            change(end="2026-11-26T10:59:59Z"),
            "ends at 2026-11-26 10:59:59 UTC, before the window does (2026-11-26 11:00:00 UTC)",
            "implement",
        ),
        (
            change(start="2026-11-26 08:00:00"),
            "has at /result/start no time that is ISO 8601 with an offset",
            "implement",
        ),
        (change(start="soon"), "has at /result/start no time", "implement"),
        (change(end=True), "has at /result/end no time", "implement"),
        (change(end=float("inf")), "has at /result/end no time", "implement"),
        (change(end=float("nan")), "has at /result/end no time", "implement"),
        (change(end=CLOSES.timestamp() * 1000), "has at /result/end no time", "implement"),
        (change(end="9999-12-31T23:59:59-10:00"), "has at /result/end no time", "implement"),
        (change(end={"epoch": 1}), "has at /result/end no time", "implement"),
        (change(description="approved"), f"does not hold the plan's digest: expected {DIGEST}", "implement"),
        (change(description=DIGEST[:-1]), "does not hold the plan's digest", "implement"),
        (change(description=f"{DIGEST}0"), "does not hold the plan's digest", "implement"),
        (change(description=f"a{DIGEST}"), "does not hold the plan's digest", "implement"),
        (change(description=DIGEST.upper()), "does not hold the plan's digest", "implement"),
        (change(description="f" * 64), "is for another plan, ffffffffffff…: expected", "implement"),
        (change(description=[DIGEST]), "has no text at /result/description, where its digest should be", "implement"),
    ],
)
def test_a_change_that_does_not(tmp_path: Path, body: Any, says: str, state: str | None) -> None:
    found = refusal(lambda it: answer(body), tmp_path)
    assert found.says.startswith(f"the change {says}") and found.state == state


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (answer({}, 401), "cannot be read: the token is refused (401)"),
        (answer({}, 403), "cannot be read: the token is refused (403)"),
        (answer({}, 404), "is not there (404)"),
        (
            answer(change(), 302, "Location: http://elsewhere.example/"),
            "cannot be read: the server sends elsewhere (302)",
        ),
        (answer(change(), 500), "cannot be read: the server answers 500"),
        (answer(change(), 203), "cannot be read: the server answers 203"),
        (answer(b"<html>please log in</html>"), "cannot be read: its answer is no JSON"),
        (answer(b""), "cannot be read: its answer is no JSON"),
        (answer(b"\xff\xfe\x00"), "cannot be read: its answer is no JSON"),
        (answer(b"[" * 100_000), "cannot be read: its answer is no JSON"),
        (answer(json.dumps(change()).encode() + b" " * (1 << 20)), "cannot be read: its answer has more than 1048576"),
        (answer(change(), 200, "Content-Encoding: gzip"), "is in state 'implement'"),
        (answer(change())[:-10], "cannot be asked: "),
        (b"SSH-2.0-OpenSSH\r\n", "cannot be asked: "),
        (b"", "cannot be asked: "),
    ],
)
def test_an_answer_that_is_none(tmp_path: Path, reply: bytes, says: str) -> None:
    with serving(lambda it: reply) as server:
        found = ask(ticket(server.url), tmp_path)
    assert found.says.startswith(f"the change {says}")
    assert found.ok == ("implement" in says)
    assert len(server.asked) == 1  # it is asked once, and nobody else is


def test_a_server_that_says_nothing(tmp_path: Path) -> None:
    assert refusal(lambda it: None, tmp_path, deadline=0.3).says == "the change gave no answer within 0.3 s"


@pytest.mark.parametrize("body", [change(), b"x" * 100_000])
def test_a_server_that_says_it_byte_by_byte(tmp_path: Path, body: Any) -> None:
    found = refusal(lambda it: answer(body), tmp_path, drips=True, deadline=0.3)
    assert found.says == "the change gave no answer within 0.3 s"


def test_nobody_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    found = ask(ticket(f"http://127.0.0.1:{port}"), tmp_path)
    assert not found.ok and "Connection refused" in found.says


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ([f"Date: {format_datetime(NOW - timedelta(seconds=59), usegmt=True)}", "Age: 60"], None),
        ([f"Date: {format_datetime(NOW - timedelta(hours=1), usegmt=True)}"], "it says that it answered 3600 s ago"),
        (
            [f"Date: {format_datetime(NOW + timedelta(days=1), usegmt=True)}"],
            "it says that it answered 86400 s from now",
        ),
        (["Age: 61"], "a cache answered with what is 61 s old"),
        (["Age: soon"], "its Age is no number of seconds"),
        (["Date: yesterday"], "its Date is no date"),
    ],
)
def test_a_change_of_another_time_is_not_believed(headers: list[str], why: str | None, tmp_path: Path) -> None:
    with serving(lambda it: answer(change(), 200, *headers)) as server:
        found = ask(ticket(server.url), tmp_path)
    assert found.ok is (why is None), found
    assert why is None or found.says == f"the change cannot be believed: {why}"


def test_a_change_that_is_closed_meanwhile(tmp_path: Path) -> None:
    states = iter(["implement", "implement", "cancelled"])
    with serving(lambda it: answer(change(state=next(states)))) as server:
        answers = [ask(ticket(server.url), tmp_path) for _ in range(3)]
    assert [each.ok for each in answers] == [True, True, False]
    assert answers[2].state == "cancelled"


def test_a_token_that_the_server_repeats_is_not_written_down(tmp_path: Path) -> None:
    found = refusal(lambda it: answer(change(state=f"of {TOKEN}")), tmp_path)
    assert found.state == "of [token]" and "of [token]" in found.says


@pytest.mark.parametrize(
    ("token", "says"),
    [
        (None, "the environment has no CHANGE_TOKEN"),
        ("", "what stands in env:CHANGE_TOKEN is no bearer token"),
        (f"{TOKEN}\r\nx-evil: 1", "what stands in env:CHANGE_TOKEN is no bearer token"),
        (f"{TOKEN}ü", "what stands in env:CHANGE_TOKEN is no bearer token"),
    ],
)
def test_a_token_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str | None, says: str) -> None:
    monkeypatch.delenv("CHANGE_TOKEN") if token is None else monkeypatch.setenv("CHANGE_TOKEN", token)
    with serving(lambda it: answer(change())) as server:
        found = ask(ticket(server.url), tmp_path)
    assert not found.ok and found.says.startswith(f"the change cannot be asked: {says}") and not server.asked


def test_over_tls_only_one_with_a_certificate_that_holds_is_asked(tmp_path: Path) -> None:
    """And its token is sent to nobody else."""
    known = authority(tmp_path)
    with serving(lambda it: answer(change()), tls=known.served) as server:
        stranger = ask(ticket(server.url), tmp_path)
        assert not stranger.ok and "cannot be asked: the server's certificate is not trusted (" in stranger.says
        assert not server.asked
        assert ask(ticket(server.url, ca="security/ca.pem"), tmp_path).ok
        assert ask(ticket(server.url, ca=str(known.ca)), tmp_path / "elsewhere").ok


@pytest.mark.parametrize("ca", ["nowhere.pem", "text.pem", ".", "", "a\0b"])
def test_a_file_of_whom_to_trust_that_is_none_refuses(tmp_path: Path, ca: str) -> None:
    (tmp_path / "text.pem").write_text("trust me\n")
    with serving(lambda it: answer(change())) as server:
        found = ask(ticket(server.url.replace("http:", "https:"), ca=ca), tmp_path)
    assert not found.ok and found.says.startswith("the change cannot be asked: cannot use "), found
    assert "as CA certificates" in found.says and not server.asked


@pytest.mark.parametrize("name", [None, "", ".", ".."])
def test_a_change_must_be_named(tmp_path: Path, name: str | None) -> None:
    with serving(lambda it: answer(change())) as server:
        found = ask(ticket(server.url), tmp_path, change=name)
        assert not found.ok and found.says == "the change is not named: give it with --change" and not server.asked
        assert ask(ticket(server.url, url=f"{server.url}/api/change/7"), tmp_path, change=name).ok


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("../admin", "/api/change/..%2Fadmin"),
        ("a?b=c#d", "/api/change/a%3Fb%3Dc%23d"),
        ("ä%2F", "/api/change/%C3%A4%252F"),
    ],
)
def test_a_change_cannot_lead_elsewhere(tmp_path: Path, name: str, path: str) -> None:
    with serving(lambda it: answer(change())) as server:
        ask(ticket(server.url), tmp_path, change=name)
    assert server.asked[0].split()[1] == f"{path}?fields=all"


def test_a_change_is_no_part_of_a_hosts_name(tmp_path: Path) -> None:
    found = ask(ticket("", url="https://{change}/api"), tmp_path, change="evil.example")
    assert not found.ok and "stands in the host's name" in found.says


# ---- JSON pointers and times -----------------------------------------------------------------------------------

RFC = {"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, 'k"l': 6, " ": 7, "m~n": 8}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", RFC),
        ("/foo", ["bar", "baz"]),
        ("/foo/0", "bar"),
        ("/", 0),
        ("/a~1b", 1),
        ("/c%d", 2),
        ("/e^f", 3),
        ("/g|h", 4),
        ("/i\\j", 5),
        ('/k"l', 6),
        ("/ ", 7),
        ("/m~0n", 8),
    ],
)
def test_pointers_of_rfc_6901(pointer: str, value: Any) -> None:
    assert at(RFC, pointer) == value


@pytest.mark.parametrize(
    "pointer",
    ["foo", "/foo/2", "/foo/-", "/foo/01", "/foo/-1", "/foo/+1", "/foo/x", "/foo/0/0", "/nope", "/m~2n", "/m~"],
)
def test_what_no_pointer_finds(pointer: str) -> None:
    with pytest.raises(LookupError):
        at(RFC, pointer)


@given(st.lists(st.text(), min_size=1, max_size=4), st.integers())
def test_a_pointer_finds_any_key(keys: list[str], value: int) -> None:
    document: Any = value
    for key in reversed(keys):
        document = {key: document}
    pointer = "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys)
    assert at(document, pointer) == value


def test_times() -> None:
    for said in ("2026-11-26T09:00:00Z", "2026-11-26T10:00:00+01:00", "2026-11-26 09:00:00.000+00:00", NOW.timestamp()):
        assert moment_of(said) == NOW
    for wrong in ("", "2026-11-26", "2026-11-26T09:00:00", str(int(NOW.timestamp())), None, True, [], 1e30, -1e30):
        assert moment_of(wrong) is None
