"""The ids of the load's documents, whatever is in them: by them a read-back knows what became of each.

The document in place ``i`` of arrival ``k`` is ``w-<k * stride + i>``, where the load's *stride* is the most documents
that one of its requests writes. So with one document a request arrival ``k`` makes ``w-<k>``, and two operations that
write never make the same id. Preloaded documents are ``p-<n>``, those of the probes of visibility ``v-<n>``. Only the
documents ``c-<n>``, for compare-and-set, change.
"""

from __future__ import annotations

import re
from typing import Any


def write_id(n: int) -> str:
    """The id of the written document number ``n``: of arrival ``n`` where each writes one."""
    return f"w-{n}"


def arrival_of(n: Any, stride: int) -> tuple[Any, Any]:
    """The arrival that writes document number ``n``, and its place in that request (from 0). ``n``: a number, or an
    array of them."""
    return n // stride, n % stride


def is_write(doc_id: object) -> bool:
    """Whether it is the id of a document that an arrival wrote; of anything but text it is not."""
    return isinstance(doc_id, str) and doc_id.startswith("w-") and doc_id[2:].isdigit()


def preload_id(n: int) -> str:
    return f"p-{n}"


def probe_id(n: int) -> str:
    """The id of the document that probe ``n`` of visibility writes."""
    return f"v-{n}"


def cas_id(n: int) -> str:
    """The id of key ``n`` of compare-and-set."""
    return f"c-{n}"


def is_key(doc_id: str) -> bool:
    """Whether it is a key of compare-and-set: its content follows from its id and its value."""
    return doc_id.startswith("c-")


_OURS = re.compile(r"[wpvc]-(?:0|[1-9][0-9]*)")


def is_ours(doc_id: object) -> bool:
    """Whether an id is one that the load may make. Nothing of ours makes any other."""
    return isinstance(doc_id, str) and _OURS.fullmatch(doc_id) is not None


def number_of(doc_id: str) -> int:
    """The number in an id. Raises ``ValueError`` for one that is none of ours."""
    kind, _, number = doc_id.partition("-")
    if kind not in ("w", "p", "v", "c"):
        raise ValueError(f"{doc_id!r} is not the id of a document of the load")
    return int(number)
