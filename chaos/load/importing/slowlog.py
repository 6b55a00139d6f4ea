"""A search slow log of OpenSearch: plain text, or JSON; of shards, or of whole requests.

A line of a shard stands in the log of each shard that was slow, so a search is counted by one over its shards.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from chaos.base.errors import InvalidInput
from chaos.base.text import plural
from chaos.definitions.source import shown
from chaos.load.importing import bodies, reading
from chaos.load.importing.rows import Brought, Stream
from chaos.load.importing.shapes import Shapes

_PLAIN = re.compile(r"\[(?P<at>\d{4}-\d\d-\d\d[T ][^\]]+)\]\[(?P<level>\w+) *\]\[(?P<logger>[^\]]+)\]")
_INDEX = re.compile(r"\[([^\[\]]+)\]\[\d+\] took\[")
_SHARDS = re.compile(r"total_shards\[(\d+)\]")
_JSON = re.compile(r'"type"\s*:\s*"[a-z_]*search[a-z_]*slowlog"')


class Line(NamedTuple):
    """A search of the log. ``share``: of one search, as it stands there once for each shard."""

    body: dict[str, Any]
    at: datetime | None
    share: float


def is_log(text: str) -> bool:
    """Whether a line is of a log of OpenSearch's: a container has all its logs in one."""
    return _PLAIN.match(text) is not None


def is_one(text: str) -> bool:
    """Whether a line tells of a search that was slow. Lines of its fetch phase would count it twice."""
    if text.startswith("{"):
        return '"source"' in text and _JSON.search(text) is not None and "s.fetch" not in text
    found = _PLAIN.match(text)
    if found is None or found["logger"].strip().endswith("s.fetch"):
        return False
    return "source[" in text and "took[" in text


def read(path: Path, brought: Brought) -> None:
    """Adds the searches of a log to what was brought, each shape once, by how often it was sent."""
    shapes = Shapes()
    first = last = None
    total = other = cut = 0.0
    for where, text in reading.lines(path):
        if not is_one(text):
            other += 1
            continue
        line = _line(f"{shown(path)}:{where}", text)
        if line is None:
            cut += 1
            continue
        if line.at is not None:
            first, last = min(first or line.at, line.at), max(last or line.at, line.at)
        total += line.share
        shapes.add(line.body, line.at, line.share)
    if not shapes:
        raise InvalidInput(f"{shown(path)}: no search stands in this slow log")
    shapes.into(brought)
    if cut:
        brought.add("lines", f"{cut:g} of {shown(path)}", "left out", "their source is no whole JSON")
    if other:
        brought.add("lines", f"{other:g} of {shown(path)}", "left out", "they are of no search")
    seconds = (last - first).total_seconds() if first is not None and last is not None else 0.0
    if seconds > 0:
        says = f"{plural(round(total), 'search', 'searches')} in {seconds:.0f} s of the log, those that were slow"
        brought.reading(Stream(rate=total / seconds, says=says))


def _line(where: str, text: str) -> Line | None:
    """None for a line whose source was cut off."""
    if text.startswith("{"):
        said = reading.parsed(where, text)
        source, shards = said.get("source"), said.get("total_shards", 1)
        named = re.search(r"\[([^\[\]]+)\]\[\d+\]", str(said.get("message", "")))
        body = _body(where, source if isinstance(source, str) else json.dumps(source))
        at, index = _time(str(said.get("timestamp", ""))), named[1] if named else ""
    else:
        begin = text.index("source[") + len("source[")
        body, found = _body(where, text[begin:]), _PLAIN.match(text)
        at = _time(found["at"]) if found else None
        sharded, named = _SHARDS.search(text[:begin]), _INDEX.search(text[:begin])
        shards, index = sharded[1] if sharded else 1, named[1] if named else ""
    if body is None:
        return None
    share = 1 / max(1, int(shards)) if index and str(shards).isdecimal() else 1.0
    return Line(bodies.tidied(body), at, share)


def _body(where: str, text: str) -> dict[str, Any] | None:
    if text.startswith("]"):  # a search without a body
        return {}
    try:
        found, _ = json.JSONDecoder(parse_constant=reading.refuse_constant).raw_decode(text.strip() or "{}")
    except RecursionError:
        raise InvalidInput(f"{where}: a search of too many levels") from None
    except ValueError:
        return None
    reading.refuse_deep(where, found, 50)
    return found if isinstance(found, dict) else None


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text.replace(",", "."))
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
