"""What a store was asked, as rows: from the record of the layer before it, else from the store's own log.

Both name the key in the path, below the bucket. A row is ``t`` and ``end`` (CLOCK_MONOTONIC, ns), ``peer`` (whose
request; None in the store's log, which does not know), ``verb``, ``path``, ``sent``, ``got``, ``status`` (None: none
came), ``how`` (as in :mod:`chaos.targets.http_addon`) and ``keys`` (those that it takes away, where its path does not
name them). Requests of ours and pings are left out.
"""

from __future__ import annotations

import json
import time
import urllib.parse
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from chaos.base.errors import LabError
from chaos.base.netsock import Endpoint

Row = dict[str, Any]
GONE = "GONE"
"""As the store's log says that a request took a key away that its path does not name."""
PAGE = 1000
DAY = 86400.0


class Record:
    """A record that still grows. ``waiting``: since when the oldest request waits, as far as the record says it."""

    def __init__(self, path: Path, *, layered: bool) -> None:
        self._path, self.layered = path, layered
        self._at, self._rest = 0, b""
        self.ticked: int | None = None
        """When the layer last said that it is there (ns); of a store's log it stays None."""
        self.waiting: tuple[int, int | None] = (0, None)
        """How many requests waited then, and since when the oldest did (ns)."""

    def more(self) -> list[Row]:
        """What is new since it was last asked."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._at)
                data = self._rest + file.read()
                self._at = file.tell()
        except FileNotFoundError:
            return []
        *lines, self._rest = data.split(b"\n")
        read: Callable[[bytes], Row | None] = self._of_layer if self.layered else of_store
        return [row for line in lines if line and (row := read(line)) is not None]

    def _of_layer(self, line: bytes) -> Row | None:
        with suppress(ValueError):
            row: Row = json.loads(line)
            if row.get("kind") == "tick":
                self.ticked, self.waiting = row["t"], (row["waiting"], row["oldest"])
            elif not row.get("probe") and "kind" not in row:
                return {"keys": [], **row}
        return None


def of_store(line: bytes) -> Row | None:
    """A line of the store's log; None of what is none. Its times are of the day in UTC: our clock says of which."""
    words = line.decode(errors="replace").split(" ", 6)
    try:
        at, verb, status, sent, got, took, path = words
        hours, minutes, seconds = at.split(":")
        wall = int(hours) * 3600 + int(minutes) * 60 + float(seconds)
        ago = (time.time() - wall) % DAY
        end = time.monotonic_ns() - int(ago * 1e9)
        row: Row = {
            "t": end - int(float(took) * 1e6),
            "end": end,
            "peer": None,
            "path": path,
            "how": "answered",
            "keys": [],
        }
        if verb == GONE:
            return {**row, "verb": "POST", "path": "", "keys": [path], "sent": 0, "got": 0, "status": 204}
        return {**row, "verb": verb, "sent": int(sent), "got": int(got), "status": int(status) or None}
    except ValueError:
        return None


class Expected:
    """The keys that must be in a store, by what it was asked and how it answered."""

    def __init__(self, bucket: str) -> None:
        self._bucket = f"/{bucket}/"
        self.keys: set[str] = set()
        self.taken: set[str] = set()
        """Keys that were asked to be taken away, or written again, since :meth:`mark`."""

    def mark(self) -> None:
        self.taken.clear()

    def add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            for key in row["keys"]:
                self._take(key)
            path = urllib.parse.unquote(row["path"])
            if not path.startswith(self._bucket) or not (key := path.removeprefix(self._bucket)):
                continue
            if row["verb"] == "DELETE":
                self._take(key)
            elif row["verb"] in ("PUT", "POST") and row["how"] == "answered" and row["status"] == 200:
                self.keys.add(key)
                self.taken.discard(key)

    def _take(self, key: str) -> None:
        """Whatever became of the request: it may have been carried out."""
        self.keys.discard(key)
        self.taken.add(key)


def listed(endpoint: Endpoint, bucket: str, seconds: float) -> set[str]:
    """The keys that a store says it has. Raises LabError where it does not say it in time."""
    deadline, found, more = time.monotonic() + seconds, set[str](), ""
    while True:
        query = {"list-type": 2, "max-keys": PAGE, **({"continuation-token": more} if more else {})}
        page = _page(endpoint, f"/{bucket}?{urllib.parse.urlencode(query)}", deadline - time.monotonic())
        found |= {str(each.text) for each in page.iter() if each.tag.endswith("}Key")}
        more = next((str(each.text) for each in page.iter() if each.tag.endswith("}NextContinuationToken")), "")
        if not more:
            return found


def _page(endpoint: Endpoint, path: str, seconds: float) -> ElementTree.Element:
    try:
        with endpoint.connect(max(0.1, seconds)) as sock:
            sock.settimeout(max(0.1, seconds))
            sock.sendall(f"GET {path} HTTP/1.0\r\nHost: s3\r\n\r\n".encode())
            answer = b"".join(iter(lambda: sock.recv(65536), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise LabError(f"the store did not list its keys: {head[:60]!r}")
        return ElementTree.fromstring(body)
    except (OSError, ElementTree.ParseError) as error:
        raise LabError(f"the store did not list its keys: {type(error).__name__}") from error
