"""Fetching by SHA-256: parallel, resumable, verified, and one clear line when it does not work."""

from __future__ import annotations

import errno
import hashlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from chaos.base.errors import ProvisionError
from chaos.provision import fetch, say

BODY = bytes(range(256)) * 2000


class Server:
    """A file server on loopback that can drop a connection and notes what it was asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.ranges: list[str | None] = []
        self.drop_after: int | None = None
        self.status: int | None = None
        self.half, self.rest = threading.Event(), threading.Event()
        """The first half was sent, and the other one may be; it is not waited for unless a test clears it."""
        self.rest.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.ranges.append(self.headers.get("Range"))
                body = outer.files.get(self.path)
                if outer.status or body is None:
                    self.send_error(outer.status or 404)
                    return
                start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").split("-")[0])
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(body) - start))
                self.end_headers()
                if outer.drop_after is not None:
                    self.wfile.write(body[start : start + outer.drop_after])
                    outer.drop_after = None
                    self.close_connection = True
                    return
                middle = (start + len(body)) // 2
                self.wfile.write(body[start:middle])
                self.wfile.flush()
                outer.half.set()
                outer.rest.wait(10)
                self.wfile.write(body[middle:])

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/{name}"

    def wanted(self, name: str, body: bytes = BODY) -> fetch.Wanted:
        self.files[f"/{name}"] = body
        return fetch.Wanted(name, hashlib.sha256(body).hexdigest(), len(body), lambda: [self.address(name)])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    monkeypatch.setenv("OPENSEARCH_CHAOS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(fetch, "PAUSE_S", 0)
    running = Server()
    yield running
    running.server.shutdown()
    running.server.server_close()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(fetch, "say", lines.append)
    monkeypatch.setattr(say, "say", lines.append)
    return lines


def test_many_files_come_once_and_are_readable_by_others(server: Server) -> None:
    files = [server.wanted(f"{n}.jar", BODY + bytes([n])) for n in range(20)]
    fetch.fetch_all("test", files, progress=False)
    assert all(fetch.stored(f).read_bytes() == server.files[f"/{f.name}"] for f in files)
    assert all(fetch.stored(f).stat().st_mode & 0o777 == 0o644 for f in files)
    asked = len(server.ranges)
    fetch.fetch_all("test", files, progress=False)
    assert len(server.ranges) == asked


def test_a_dropped_connection_is_continued_with_a_range(server: Server) -> None:
    file = server.wanted("big.jar")
    server.drop_after = 300_000
    fetch.fetch_all("test", [file], progress=False)
    assert fetch.stored(file).read_bytes() == BODY
    first, second = server.ranges
    assert first is None and second is not None and second.startswith("bytes=")
    assert not list(fetch.store().glob("*.part"))


def test_what_two_ask_for_at_once_is_fetched_by_one_and_taken_by_both(server: Server) -> None:
    """Two versions of OpenSearch have most of their files in common, and each has a lock of its own."""
    file = server.wanted("big.jar")
    other = server.wanted("other.jar", BODY[::-1])
    server.rest.clear()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(fetch.fetch_all, "one", [file], progress=False)
        assert server.half.wait(10)
        second = pool.submit(fetch.fetch_all, "two", [file, other], progress=False)
        until = time.monotonic() + 10
        while len(server.ranges) < 2 and time.monotonic() < until:  # another file waits for nobody
            time.sleep(0.01)
        time.sleep(0.2)  # so that it asks for the first one too, if it does
        server.rest.set()
        first.result(10)
        second.result(10)
    assert server.ranges == [None, None]
    assert fetch.stored(file).read_bytes() == BODY and fetch.stored(other).read_bytes() == BODY[::-1]
    assert set(fetch.store().iterdir()) == {fetch.stored(file), fetch.stored(other)}


def test_a_part_file_of_an_earlier_process_is_continued(server: Server) -> None:
    file = server.wanted("big.jar")
    fetch.open_folder(fetch.store())
    fetch.stored(file).with_name(fetch.stored(file).name + ".part").write_bytes(BODY[:1000])
    fetch.fetch_all("test", [file], progress=False)
    assert server.ranges == ["bytes=1000-"]
    assert fetch.stored(file).read_bytes() == BODY


def test_a_part_file_with_wrong_bytes_is_begun_again(server: Server) -> None:
    file = server.wanted("big.jar")
    fetch.open_folder(fetch.store())
    fetch.stored(file).with_name(fetch.stored(file).name + ".part").write_bytes(b"x" * 1000)
    fetch.fetch_all("test", [file], progress=False)
    assert server.ranges == ["bytes=1000-", None]
    assert fetch.stored(file).read_bytes() == BODY


@pytest.mark.parametrize("damage", [b"", BODY[:-1], b"x" + BODY[1:]])
def test_a_damaged_cache_file_is_said_and_fetched_anew(server: Server, said: list[str], damage: bytes) -> None:
    file = server.wanted("a.jar")
    fetch.open_folder(fetch.store())
    fetch.stored(file).write_bytes(damage)
    fetch.fetch_all("test", [file], progress=False)
    assert fetch.stored(file).read_bytes() == BODY
    assert [line for line in said if "a.jar" in line and "damaged" in line]


def test_wrong_content_is_never_accepted(server: Server) -> None:
    file = server.wanted("a.jar")
    server.files["/a.jar"] = BODY[::-1]
    with pytest.raises(ProvisionError, match="another SHA-256"):
        fetch.fetch_all("test", [file], progress=False)
    assert not fetch.stored(file).exists()


@pytest.mark.parametrize(("status", "words"), [(404, "HTTP 404"), (503, "HTTP 503")])
def test_a_refusing_server_is_one_line_with_a_remedy(server: Server, status: int, words: str) -> None:
    file = server.wanted("a.jar")
    server.status = status
    with pytest.raises(ProvisionError, match=words) as caught:
        fetch.fetch_all("test", [file], progress=False)
    assert "\n" not in str(caught.value) and caught.value.remedy
    assert len(server.ranges) == (1 if status == 404 else fetch.TRIES)


def test_no_network_keeps_what_is_there(server: Server) -> None:
    file = server.wanted("a.jar")
    part = fetch.stored(file).with_name(fetch.stored(file).name + ".part")
    fetch.open_folder(fetch.store())
    part.write_bytes(BODY[:500])
    dead = fetch.Wanted(file.name, file.sha256, file.size, lambda: ["http://127.0.0.1:9/a.jar"])
    with pytest.raises(ProvisionError, match=r"a\.jar could not be fetched") as caught:
        fetch.fetch_all("test", [dead], progress=False)
    assert "\n" not in str(caught.value)
    assert part.read_bytes() == BODY[:500]


def test_a_full_disk_is_one_clear_line(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    file = server.wanted("a.jar")
    real = Path.open

    def full(path: Path, mode: str = "r", *rest: object, **more: object) -> object:
        if path.name.endswith(".part") and mode in ("wb", "ab"):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return real(path, mode, *rest, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(ProvisionError, match="no space left") as caught:
        fetch.fetch_all("test", [file], progress=False)
    assert caught.value.remedy and "OPENSEARCH_CHAOS_CACHE" in caught.value.remedy
    assert not fetch.stored(file).exists()


def test_a_copy_in_the_local_maven_repository_needs_no_network(server: Server, tmp_path: Path) -> None:
    local = tmp_path / "m2.jar"
    local.write_bytes(BODY)
    file = fetch.Wanted("a.jar", hashlib.sha256(BODY).hexdigest(), len(BODY), list, lambda: local)
    fetch.fetch_all("test", [file], progress=False)
    assert fetch.stored(file).read_bytes() == BODY
    assert server.ranges == []


def test_new_folders_are_traversable_whatever_the_umask(tmp_path: Path) -> None:
    import os

    before = os.umask(0o077)
    try:
        folder = fetch.open_folder(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o755 and folder.parent.stat().st_mode & 0o777 == 0o755
