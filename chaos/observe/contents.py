"""Whether the documents of one copy are right: in their source, in their index, in their doc values.

A document lives three times in a copy, and a search or a get looks at one of them: the source that was sent, what was
indexed from it, and the columns by which one sorts and aggregates. What each must be follows from the id (and from
the value, for a key of compare-and-set). What is shown, on the very copy:

* **doc values**: of every document, all numbers, while all ids are enumerated.
* **source**: every field, with its type, and no field more. Of all documents, or of a sample.
* **index**, of the same documents: each is found by each word of its text and by no other word, known or not (a
  query for each word and one for all terms between them, asked of each document). It is found by its id, and by each
  of its numbers: counts are compared, and only where they differ the ids. Numbers are asked for in sets that differ in
  one bit of the value's rank, so that none can stand for another; of the workload's unique one all values at once,
  because none of them is any other document's. Two faults in numbers that make up for each other in every
  count would be overlooked.
* **positions**: the whole text of some documents of each copy, as a phrase.

Not shown: norms (how long a text is, for scores), frequencies and positions of the documents that were not asked for
as a phrase.

Numbers are asked for by one clause for each search and never beside another: OpenSearch answers further clauses, named
queries and aggregations from doc values when that is cheaper, and the points would not be looked at.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from chaos.base.ids import is_key
from chaos.load import workloads
from chaos.load.workload import Workload
from chaos.observe.copies import CopySearch, NotRead
from chaos.opensearch.routing import shard_of

WHOLE = 20_000
"""Documents of a shard that are all compared in full; of more, so many are drawn."""
PAGE = 2000
"""Sources in one answer: some 500 kB."""
PHRASES = 100
"""Documents of a copy that are looked for by their whole text."""
AT_ONCE = 40
"""Phrases in one search: with their words below the 1024 clauses that a search may have."""
WAYS = ("source", "index", "doc_values")
"""Where a document can be wrong."""
CLIPPED = 48
"""Characters that are shown of what was expected and of what was found."""
OTHER = "?"
"""The name of the query for terms that are no words of ours."""


@dataclass
class Contents:
    """What is inside the documents of one copy.

    ``values``: what each key of compare-and-set holds. ``held``: the numbers that the doc values hold, where they do
    not follow from the id. ``wanted``: of how many documents source and index were to be looked at. ``compared``: the
    ids of those that were. ``phrases``: how many were looked for by their whole text. ``wrong``: by id, by way (see
    :data:`WAYS`), in words. ``error``: why there is no more.
    """

    workload: Workload = field(default_factory=lambda: workloads.named(workloads.DEFAULT))
    values: dict[str, int] = field(default_factory=dict)
    held: dict[str, dict[str, Any]] = field(default_factory=dict)
    wanted: int = 0
    compared: set[str] = field(default_factory=set)
    phrases: int = 0
    wrong: dict[str, dict[str, str]] = field(default_factory=dict)
    error: str | None = None

    def blame(self, id: str, way: str, says: str) -> None:
        """Keep what is wrong with a document; the first of each way is told."""
        self.wrong.setdefault(id, {}).setdefault(way, says)

    def numbers(self, id: str, fields: Mapping[str, Any]) -> None:
        """Compare the doc values of a document: lists by field, as OpenSearch gives them."""
        held = {name: _only(fields[name]) for name in self.workload.fields if name in fields}
        if is_key(id) and type(value := held.get(self.workload.value)) is int:
            self.values[id] = value
        try:
            right = self.workload.numbers(id, self.values.get(id, 0))
        except ValueError:  # nobody's: there is nothing that it should be
            self.held[id] = held
            return
        if not same(right, held):
            self.held[id] = held
            self.blame(id, "doc_values", differs(right, held))

    def right(self, id: str) -> dict[str, Any]:
        """What a document must be. Raises ``ValueError`` when it is none of ours."""
        return self.workload.content(id, self.values.get(id, 0))

    def expected(self, id: str, name: str) -> Any:
        """The number by which a document must be found: the right one, or of others what the doc values hold."""
        try:
            return self.workload.numbers(id, self.values.get(id, 0))[name]
        except ValueError:
            return self.held[id].get(name)


def chosen(ours: Collection[str], shards: int, routing_shards: int, seed: int) -> dict[int, set[str]]:
    """The documents of each shard whose content is compared, the same on every copy: all of them, or a sample.

    A sample has all keys of compare-and-set, and of the others those whose hash with the ``seed`` comes first.
    """
    by_shard: dict[int, list[str]] = {shard: [] for shard in range(shards)}
    for id in ours:
        by_shard[shard_of(id, shards, routing_shards)].append(id)
    return {shard: set(drawn(ids, seed, WHOLE)) for shard, ids in by_shard.items()}


def drawn(ids: Collection[str], seed: int, most: int) -> list[str]:
    """At most so many of the ids: all, or those that come first."""
    if len(ids) <= most:
        return sorted(ids)
    salt = str(seed).encode()

    def place(id: str) -> tuple[bool, bytes]:
        return not is_key(id), hashlib.blake2b(id.encode(), digest_size=8, salt=salt[:16]).digest()

    return sorted(ids, key=place)[:most]


def look_inside(copy: CopySearch, ids: Collection[str], wanted: Collection[str], inside: Contents, seed: int) -> None:
    """Compare source and index of the documents ``wanted`` of a copy that holds ``ids``; adds to ``inside``.

    Doc values have been compared before (:meth:`Contents.numbers`). Never raises for what the cluster answers: what
    was found stands, and ``inside.error`` says why there is no more. A write that nobody has heard of since the faults
    may come while the copy is read; it is none of those that were there before, and is left alone.
    """
    here = [id for id in wanted if id in ids]
    known = set(here)
    inside.wanted = len(here)
    if not here:
        return
    try:
        for hit in _hits(copy, here, inside.workload, everything=2 * len(here) >= len(ids)):
            if hit["_id"] in known:
                _judge(hit, inside)
        if gone := len(here) - len(inside.compared):
            inside.error = f"{gone} documents did not come again when their source was asked for"
        _ids(copy, here, inside)
        for name in inside.workload.fields:
            _points(copy, ids, here, name, inside)
        _phrases(copy, drawn([id for id in here if inside.workload.text_of(inside.right(id))], seed, PHRASES), inside)
    except NotRead as error:
        inside.error = str(error)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        inside.error = f"an answer that cannot be read: {type(error).__name__} {error}"


# ---- source and words ------------------------------------------------------------------------------------------


def _by_words(workload: Workload) -> list[dict[str, Any]]:
    """A query for each word, named by it, and one for every term between them; none where there is no text."""
    if workload.text is None:
        return []
    edges = ["", *workload.words, ""]
    gaps = [
        {"range": {workload.text: ({"gt": low} if low else {}) | ({"lt": high} if high else {})}}
        for low, high in pairwise(edges)
    ]
    known: list[dict[str, Any]] = [{"term": {workload.text: {"value": word, "_name": word}}} for word in workload.words]
    return [*known, {"bool": {"should": gaps, "_name": OTHER}}]


def _hits(copy: CopySearch, here: list[str], workload: Workload, *, everything: bool) -> Iterator[dict[str, Any]]:
    """The documents with their source and the words that find them. ``everything``: by reading all of the copy."""
    parts = [here] if everything else list(_parts(sorted(here), PAGE))
    for part in parts:
        which: dict[str, Any] = {"match_all": {}} if everything else {"ids": {"values": part}}
        query = {"bool": {"filter": [which], "should": _by_words(workload)}}
        for page in copy.pages({"query": query, "_source": True}, PAGE):
            yield from page.hits


def _judge(hit: dict[str, Any], inside: Contents) -> None:
    """One document's source and words."""
    id, found = str(hit["_id"]), hit.get("_source")
    if is_key(id) and isinstance(found, dict):
        value, believed = inside.workload.believed(id, found), inside.values.get(id)
        doubtful = id in inside.wrong or believed is None
        if doubtful and value is not None and value != believed:
            # the source is at one with itself and the doc values are not: then that is the value
            inside.values[id] = value
            inside.wrong.pop(id, None)
            inside.blame(id, "doc_values", differs(inside.workload.numbers(id, value), inside.held.get(id)))
    right = inside.right(id)
    inside.compared.add(id)
    if not same(right, found):
        inside.blame(id, "source", differs(right, found))
    words, terms = set(inside.workload.text_of(right).split()), {str(name) for name in hit.get("matched_queries") or ()}
    if words != terms:
        inside.blame(id, "index", _by_which(words - terms, terms - words))


def _by_which(missing: set[str], more: set[str]) -> str:
    says = []
    if missing:
        says.append(f"not found by {' '.join(sorted(missing))}")
    if named := sorted(more - {OTHER}):
        says.append(f"found by {' '.join(named)}, which it does not have")
    if OTHER in more:
        says.append("found by a word that no text has")
    return "; ".join(says)


# ---- ids, numbers, phrases -------------------------------------------------------------------------------------


def _ids(copy: CopySearch, here: list[str], inside: Contents) -> None:
    """Every document is found by its id."""
    for part in _parts(sorted(here), WHOLE):
        query = {"ids": {"values": part}}
        if copy.count(query) != len(part):
            for id in set(part) - _found(copy, query):
                inside.blame(id, "index", "not found by its id")


def _points(copy: CopySearch, ids: Collection[str], here: list[str], name: str, inside: Contents) -> None:
    """Every document is found by its number, and none by a number that it has not."""
    values = sorted({inside.expected(id, name) for id in here})
    ranks = {value: rank for rank, value in enumerate(values, 1)}
    alone = name == inside.workload.unique
    holders = here if alone else ids
    numbered = {id: inside.expected(id, name) for id in holders}
    holds = {id: ranks[value] for id, value in numbered.items() if type(value) is int and value in ranks}
    for bit in range(1 if alone else len(values).bit_length()):
        asked = values if alone else [value for value, rank in ranks.items() if rank >> bit & 1]
        if not asked:
            continue
        query = {"terms": {name: asked}}
        wanted = set(holds) if alone else {id for id, rank in holds.items() if rank >> bit & 1}
        if copy.count(query) == len(wanted):
            continue
        found = _found(copy, query)
        for id in wanted - found:
            inside.blame(id, "index", f"not found by {name} {inside.expected(id, name)}")
        for id in (found - wanted) & set(holders):
            inside.blame(id, "index", f"found by another {name} than its own, {inside.expected(id, name)}")


def _phrases(copy: CopySearch, some: list[str], inside: Contents) -> None:
    """Each document is found by its whole text, word after word."""
    for part in _parts(some, AT_ONCE):
        each = [
            {
                "bool": {
                    "filter": [
                        {"ids": {"values": [id]}},
                        {"match_phrase": {str(inside.workload.text): inside.workload.text_of(inside.right(id))}},
                    ]
                }
            }
            for id in part
        ]
        found = _found(copy, {"bool": {"should": each}})
        inside.phrases += len(part)
        for id in set(part) - found:
            inside.blame(id, "index", "not found by its whole text")


def _parts(ids: list[str], size: int) -> Iterator[list[str]]:
    for first in range(0, len(ids), size):
        yield ids[first : first + size]


def _found(copy: CopySearch, query: dict[str, Any]) -> set[str]:
    """The ids that a query finds."""
    return {str(hit["_id"]) for page in copy.pages({"query": query, "_source": False}, PAGE) for hit in page.hits}


# ---- values ----------------------------------------------------------------------------------------------------


def same(right: Any, found: Any) -> bool:
    """Whether two JSON values are the same, types too: 5 is not 5.0, and not true."""
    if type(right) is not type(found):
        return False
    if isinstance(right, dict):
        return right.keys() == found.keys() and all(same(value, found[key]) for key, value in right.items())
    return bool(right == found)


def differs(right: Mapping[str, Any], found: Any) -> str:
    """In which field a document is not as it should be, what was expected there and what was found."""
    if not isinstance(found, Mapping):
        return f"expected a document, found {_shown(found)}"
    for key, value in right.items():
        if key not in found:
            return f"{key}: expected {_shown(value)}, found nothing"
        if not same(value, found[key]):
            return f"{key}: expected {_shown(value, found[key])}, found {_shown(found[key], value)}"
    return f"more fields than expected: {', '.join(sorted(_shown(key) for key in set(found) - set(right)))}"


def _shown(value: Any, beside: Any = None) -> str:
    """A value as JSON, clipped; of a long text what is around the place where it differs from ``beside``."""
    said = json.dumps(value, ensure_ascii=False)
    if len(said) <= CLIPPED:
        return said
    other = json.dumps(beside, ensure_ascii=False)
    first = next((at for at, (a, b) in enumerate(zip(said, other, strict=False)) if a != b), min(len(said), len(other)))
    start = max(0, min(first - CLIPPED // 2, len(said) - CLIPPED))
    end = start + CLIPPED
    return ("…" if start else "") + said[start:end] + ("…" if end < len(said) else "")


def _only(values: Any) -> Any:
    """The one value of a field; what is not one is returned as it came."""
    return values[0] if isinstance(values, list) and len(values) == 1 else values
