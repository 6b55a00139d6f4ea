"""A team's own searches, from a file as ``_msearch`` takes it: a line of header, a line of body, and so on.

Each is sent by itself, as ``POST INDEX/_search``, in turn, and only to indices that are allowed. Nothing but a search
can be made of such a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from chaos.base.errors import InvalidInput
from chaos.load.workload import Request

PARAMETERS = ("routing", "preference")
"""Of a header, beside the index; they become parameters of the request."""
NAME = re.compile(r"[a-z0-9.][a-z0-9_.+-]*\*?")
"""A name of an index, or the beginning of some; no exclusion, no other cluster, not all."""


def read(path: Path, allowed: Sequence[str]) -> list[Request]:
    """The requests of a file. ``allowed``: names of indices, or their beginnings with ``*``.

    Raises InvalidInput with file and line of the first thing that is wrong.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidInput(
            f"cannot read {path}: {why}", remedy="name a file of searches as _msearch takes it"
        ) from None
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not numbered or len(numbered) % 2:
        raise InvalidInput(
            f"{path}: {len(numbered)} lines: expected pairs, a header and a body each",
            remedy='for example {"index": "orders"} and below it {"query": {"match_all": {}}}',
        )
    pairs = zip(numbered[::2], numbered[1::2], strict=True)
    return [_request(path, header, body, allowed) for header, body in pairs]


def _request(path: Path, header: tuple[int, str], body: tuple[int, str], allowed: Sequence[str]) -> Request:
    said = _object(path, *header)
    if unknown := [key for key in said if key not in ("index", *PARAMETERS)]:
        raise InvalidInput(
            f"{path}:{header[0]}: unknown key '{unknown[0]}'", remedy=f"known are index, {', '.join(PARAMETERS)}"
        )
    named = said.get("index")
    names = named if isinstance(named, list) and named else str(named or "").split(",")  # no name would mean all
    for name in names:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise InvalidInput(
                f"{path}:{header[0]}: {name!r} is no name of an index", remedy="name each, or its beginning with *"
            )
        _refuse(path, header[0], name, allowed)
    for name in _named(_object(path, *body)):
        _refuse(path, body[0], name, allowed)
    parameters = {key: str(said[key]) for key in PARAMETERS if key in said}
    query = f"?{urlencode(parameters)}" if parameters else ""
    return Request("POST", f"/{quote(','.join(names), safe=',*')}/_search{query}", body[1].strip())


def _named(body: Any) -> Iterator[str]:
    """The indices that a body itself names: a terms lookup, documents that others are to be like, a stored shape."""
    if isinstance(body, dict):
        for key, value in body.items():
            if key in ("index", "_index"):
                yield str(value)
            yield from _named(value)
    elif isinstance(body, list):
        for each in body:
            yield from _named(each)


def _refuse(path: Path, line: int, name: str, allowed: Sequence[str]) -> None:
    if not any(_within(name, each) for each in allowed):
        raise InvalidInput(
            f"{path}:{line}: the target's file does not allow to read {name}",
            remedy=f"allowed are: {', '.join(allowed) or 'none'} (reads.indices)",
        )


def _within(name: str, allowed: str) -> bool:
    """Whether all that a name stands for is allowed: ``logs-2*`` is, by ``logs-*``; ``logs*`` is not."""
    return name == allowed or (allowed.endswith("*") and name.startswith(allowed[:-1]))


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise InvalidInput(f"{path}:{number}: this is no JSON object", remedy="write each header and body in one line")
    return said


class Requests:
    """One after the other, and again from the first."""

    def __init__(self, made: Sequence[Request]) -> None:
        self._made = tuple(made)

    def of(self, kind: str, k: int) -> Request:
        """The request of arrival ``k``; there is one ``kind``, a search."""
        return self._made[k % len(self._made)]
