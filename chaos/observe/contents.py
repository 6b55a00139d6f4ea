"""Whether the documents of one copy are right: in their source, in their index, in their doc values.

A document lives three times in a copy, and a search or a get looks at one of them: the source that was sent, what was
indexed from it, and the columns by which one sorts and aggregates. What each must be follows from the id (and from
the value, for a key of compare-and-set). What is shown, on the very copy:

* **doc values**: of every document, all fields that the workload names, while all ids are enumerated.
* **source**: every field, with its type, and no field more. Of all documents up to :data:`SOURCES` in all, of more of
  a sample of so many.
* **index**, of :data:`WHOLE` documents of each shard: each is found by each word of its text and by no other word,
  known or not (a query for each word and one for all terms between them, asked of each document). It is found by its
  id, and by each of its numbers: counts are compared, and only where they differ the ids. Numbers are asked for in sets
  that differ in one bit of the value's rank, so that none can stand for another; of the workload's unique one all
  values at once, because none of them is any other document's. Two faults in numbers that make up for each other in
  every count would be overlooked. A workload without a text has no words to ask for.
* **positions**: the whole text of some documents of each copy, as a phrase.

Not shown: norms (how long a text is, for scores), frequencies and positions of the documents that were not asked for
as a phrase; fields that are no whole numbers, and keywords, are not looked for in the index.

Numbers are asked for by one clause for each search and never beside another: OpenSearch answers further clauses, named
queries and aggregations from doc values when that is cheaper, and the points would not be looked at.

Documents of a page are compared as arrays, field by field. Where something is not as it should be, or of another shape,
the documents of that page are looked at one by one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chaos.base.ids import is_key
from chaos.load import workloads
from chaos.load.workload import Workload, as_column
from chaos.observe.changed import Changed, undecided
from chaos.observe.copies import CopySearch, NotRead, P, Page, odd_answer, page
from chaos.observe.idsets import KEY, KINDS, Collected, Ids, Ints, Numbers, parsed, parts
from chaos.opensearch.rest import UNREADABLE

SOURCES = 1_000_000
"""Documents in all whose sources are all compared; of more, so many are drawn."""
WHOLE = 20_000
"""Documents of a shard whose index is compared; of more, so many are drawn."""
PAGE = 2000
"""Documents in one answer that has their sources, at most."""
PAGE_BYTES = 4 << 20
"""What the sources in one answer may come to, by those of the first documents."""
FOUND = 5000
"""Ids in one answer, where a query is asked whom it finds."""
PHRASES = 100
"""Documents of a copy that are looked for by their whole text."""
AT_ONCE = 40
"""Phrases in one search: with their words below the 1024 clauses that a search may have."""
WAYS = ("source", "index", "doc_values")
"""Where a document can be wrong."""
TOLD = 10_000
"""Documents of a copy of which it is kept in words what is wrong; of more that they are."""
CLIPPED = 48
"""Characters that are shown of what was expected and of what was found."""
OTHER = "?"
"""The name of the query for terms that are no words of ours."""


class Wanted(NamedTuple):
    """The documents of a shard that are looked into, the same on each of its copies.

    ``indexed``: some of ``sources``, whose index is looked at too.
    """

    sources: Ids = Ids()
    indexed: Ids = Ids()


@dataclass
class Contents:
    """What is inside the documents of one copy.

    ``values``: what each key of compare-and-set holds. ``held``: the numbers that the doc values of keys and of ids
    that are none of ours hold, where they do not follow from the id. ``wanted``: of how many documents the source was
    to be looked at. ``compared``: the ids of those whose source was. ``indexed``: of those whose index was, the words
    at least. ``phrases``: how many were looked for by their whole text. ``wrong``: by id, by way (see :data:`WAYS`), in
    words, of the first :data:`TOLD` documents and all keys. ``outdated``: those whose doc values are of a content from
    before an update. ``error``: why there is no more.
    """

    workload: Workload = field(default_factory=lambda: workloads.named(workloads.DEFAULT))
    values: dict[str, int] = field(default_factory=dict)
    held: dict[str, dict[str, Any]] = field(default_factory=dict)
    wanted: int = 0
    compared: Ids = field(default_factory=Ids)
    indexed: Ids = field(default_factory=Ids)
    phrases: int = 0
    wrong: dict[str, dict[str, str]] = field(default_factory=dict)
    outdated: Collected = field(default_factory=Collected)
    error: str | None = None
    _untold: dict[str, Collected] = field(default_factory=dict)

    def blame(self, id: str, way: str, says: str) -> None:
        """Keep what is wrong with a document; the first of each way is told."""
        if id in self.wrong or len(self.wrong) < TOLD or is_key(id):
            self.wrong.setdefault(id, {}).setdefault(way, says)
        else:
            self._untold.setdefault(way, Collected()).add_one(id)

    def wrong_in(self, way: str) -> Ids:
        """The documents that are wrong in a way."""
        told = Ids.of([id for id, ways in self.wrong.items() if way in ways])
        return told | self._untold[way].ids() if way in self._untold else told

    def numbers(self, id: str, fields: Mapping[str, Any]) -> None:
        """Compare the doc values of a document: lists by field, as OpenSearch gives them."""
        held = {name: _only(fields[name]) for name in self.workload.fields if name in fields}
        if is_key(id) and type(value := held.get(self.workload.value)) is int:
            self.values[id] = value
        if isinstance(self.workload, Changed):
            self.workload.settle(id, held)
        try:
            right = self.workload.numbers(id, self.values.get(id, 0))
        except ValueError:  # nobody's: there is nothing that it should be
            self.held[id] = held
            return
        if not same(right, held):
            if is_key(id):
                self.held[id] = held
            if isinstance(self.workload, Changed) and self.workload.outdated(id, held):
                self.outdated.add_one(id)
            self.blame(id, "doc_values", differs(right, held))

    def right(self, id: str) -> dict[str, Any]:
        """What a document must be. Raises ``ValueError`` when it is none of ours."""
        return self.workload.content(id, self.values.get(id, 0))

    def text(self, id: str) -> str:
        """The text of a document; empty where the workload has none."""
        return str(self.right(id)[self.workload.text]) if self.workload.text else ""

    def expected(self, ids: Ids, name: str) -> Iterator[tuple[str, Ints, npt.NDArray[Any]]]:
        """The values of a field by which documents must be found, those of one kind that are of our making at a time:
        the kind, some numbers, the value of each."""
        for kind, numbers in ids.kinds():
            for first in range(0, len(numbers), AT_A_TIME):
                part = numbers[first : first + AT_A_TIME].astype(np.int64)
                yield kind, part, self.column(kind, part, name)

    def column(self, kind: str, numbers: Ints, name: str) -> npt.NDArray[Any]:
        """The values of a field by which documents of a kind of ours must be found."""
        if kind == KINDS[KEY]:
            return as_column([self.value(f"{kind}-{number}", name) for number in numbers.tolist()])
        return self.workload.columns(kind, numbers, (name,))[name]

    def value(self, id: str, name: str) -> Any:
        """The value by which a document must be found: the right one, or of others what the doc values hold."""
        try:
            return self.workload.numbers(id, self.values.get(id, 0))[name]
        except ValueError:
            return self.held.get(id, {}).get(name)


def odd(
    workload: Workload, hits: Sequence[Mapping[str, Any]], kinds: npt.NDArray[np.int8], numbers: Ints
) -> npt.NDArray[np.bool_]:
    """Which documents of a page have other doc values than they must have, or must be looked at one by one.

    ``kinds`` and ``numbers``: of their ids. Keys of compare-and-set, ids that are none of ours, and documents of which
    several contents are right are among them.
    """
    found: npt.NDArray[np.bool_] = (kinds == KEY) | (kinds < 0)
    for code, kind in enumerate(KINDS):
        rows = np.flatnonzero(kinds == code)
        if code != KEY and len(rows):
            some = hits if len(rows) == len(hits) else [hits[row] for row in rows.tolist()]
            found[rows] = _odd(workload, kind, numbers[rows], some) | undecided(workload, kind, numbers[rows])
    return found


def _odd(workload: Workload, kind: str, numbers: Ints, hits: Sequence[Mapping[str, Any]]) -> npt.NDArray[np.bool_]:
    """The same of documents of one kind."""
    found = np.zeros(len(numbers), np.bool_)
    try:
        each = [hit["fields"] for hit in hits]
        values = {name: _single([fields[name] for fields in each]) for name in workload.fields}
    except (LookupError, TypeError, ValueError):
        return ~found
    right = workload.columns(kind, numbers, workload.fields)
    for name, held in values.items():
        must = right[name]
        if held.dtype != must.dtype:
            return ~found
        if must.dtype == object:
            found |= np.array([not same(*pair) for pair in zip(must, held, strict=True)], np.bool_)
        else:
            found |= np.asarray(held != must, np.bool_)
    return found


AT_A_TIME = 1 << 17
"""Documents whose values are made at once."""


def chosen(ours: Ids, shards: int, routing_shards: int, seed: int) -> dict[int, Wanted]:
    """The documents of each shard whose content is compared, the same on every copy: all of them, or a sample.

    A sample has all keys of compare-and-set, and of the others those that come first in an order that follows from
    their ids and the ``seed``.
    """
    most = SOURCES if len(ours) <= SOURCES else SOURCES // shards
    found = {}
    for shard, mine in enumerate(ours.by_shard(shards, routing_shards)):
        source = mine.drawn(seed, most)
        found[shard] = Wanted(source, source.drawn(seed, WHOLE))
    return found


def reads_all(some: int, of: int) -> bool:
    """Whether ``some`` documents ``of`` a copy's are half or more: all are read then, which costs less than to ask for
    them by their ids."""
    return 2 * some >= of


def look_inside(
    copy: CopySearch,
    ids: Ids,
    wanted: Wanted,
    inside: Contents,
    seed: int,
    judged: Callable[[bytes], Sourced],
    already: Ids | None = None,
    repeats: Mapping[str, Numbers] | None = None,
) -> None:
    """Compare source and index of the documents ``wanted`` of a copy that holds ``ids``; adds to ``inside``.

    ``judged``: makes a :class:`Sourced` of an answer, which copies may share. ``already``: documents whose sources were
    compared when they were listed; of those only the index is asked. None: no source was. ``repeats``: of ``ids`` those
    that the copy holds more than once, see :class:`~chaos.observe.idsets.Collected`: each is found as often.

    Doc values have been compared before (:func:`odd`). Never raises for what the cluster answers: what
    was found stands, and ``inside.error`` says why there is no more. A write that nobody has heard of since the faults
    may come while the copy is read; it is none of those that were there before, and is left alone.
    """
    here, sources = wanted.indexed & ids, wanted.sources & ids
    rest = sources - here
    inside.wanted = len(sources)
    if not sources:
        return
    compared, indexed = Collected(), Collected()
    try:
        try:
            if already is not None and not inside.workload.text:
                indexed.add(list(here))  # by their ids and numbers, below
            else:
                for part in _searched(copy, here, ids, inside, page, words=True, source=already is None):
                    mine = [hit for hit in part.hits if hit["_id"] in here]
                    for hit in mine:
                        if already is None:
                            _judge(hit, inside)
                        _judge_words(hit, inside)
                    indexed.add([str(hit["_id"]) for hit in mine])
            if already is None:
                for sourced in _searched(copy, rest, ids, inside, judged, words=False):
                    compared.add_parts(*sourced.judge(rest, inside))
        finally:
            inside.indexed = indexed.ids()
            inside.compared = inside.indexed | compared.ids() if already is None else already
        if gone := len(sources) - len(inside.compared):
            inside.error = f"{gone} documents did not come again when their source was asked for"
        repeats = repeats or {}
        _ids(copy, list(here), inside, _among(here, repeats))
        for name in inside.workload.fields:
            _points(copy, ids, here, name, inside, repeats)
        if inside.workload.text:
            texts = Ids.of([id for id in here if inside.text(id)])
            _phrases(copy, list(texts.drawn(seed, PHRASES)), inside)
    except NotRead as error:
        inside.error = str(error)
    except UNREADABLE as error:
        inside.error = str(odd_answer(error))


# ---- source and words ------------------------------------------------------------------------------------------


def _by_words(workload: Workload) -> list[dict[str, Any]]:
    """A query for each word, named by it, and one for every term between them."""
    edges = ["", *workload.words, ""]
    gaps = [
        {"range": {workload.text: ({"gt": low} if low else {}) | ({"lt": high} if high else {})}}
        for low, high in pairwise(edges)
    ]
    known: list[dict[str, Any]] = [{"term": {workload.text: {"value": word, "_name": word}}} for word in workload.words]
    return [*known, {"bool": {"should": gaps, "_name": OTHER}}]


class Sourced:
    """A page of documents with their sources, as it was judged: what every copy with the same page has in common."""

    def __init__(self, workload: Workload, found: Page) -> None:
        """Raises :class:`NotRead` where documents have another shape than expected."""
        self.size, self.after = found.size, found.after
        try:
            self._ids = [str(hit["_id"]) for hit in found.hits]
            self._kinds, self._numbers = parsed(self._ids)
            alone = (self._kinds == KEY) | (self._kinds < 0)
            for code, kind in enumerate(KINDS):
                alone |= (self._kinds == code) & undecided(workload, kind, self._numbers)
            for row in np.flatnonzero(~alone).tolist():
                alone[row] = not same(workload.content(self._ids[row]), found.hits[row].get("_source"))
        except UNREADABLE as error:
            raise odd_answer(error) from error
        self._odd = {row: found.hits[row] for row in np.flatnonzero(alone).tolist()}

    def judge(self, some: Ids, inside: Contents) -> tuple[dict[str, Numbers], list[str]]:
        """Add what is wrong with those documents that are among ``some``. Returns which those are, as :func:`parts`."""
        mine = some.has(self._kinds, self._numbers)
        for row in self._odd:
            mine[row] = self._ids[row] in some
            if mine[row]:
                _judge(self._odd[row], inside)
        rows = np.flatnonzero(mine)
        return parts([self._ids[row] for row in rows.tolist()], self._kinds[rows], self._numbers[rows])


def _searched(
    copy: CopySearch,
    some: Ids,
    ids: Ids,
    inside: Contents,
    made: Callable[[bytes], P],
    *,
    words: bool,
    source: bool = True,
) -> Iterator[P]:
    """Answers that have some of the documents ``ids`` of a copy with their source, if asked, and others beside; where
    ``words``, with the words that find them.

    Where they are half of all or more, by reading all of the copy.
    """
    if not some:
        return
    size = sources_page(some, inside) if source else PAGE
    everything = reads_all(len(some), len(ids))
    groups: Iterator[list[str]] = iter([[]]) if everything else _parts(some, size)
    for named in groups:
        which: dict[str, Any] = {"match_all": {}} if everything else copy.named(named)
        query: dict[str, Any] = which
        if words and inside.workload.text:
            query = {"bool": {"filter": [which], "should": _by_words(inside.workload)}}
        yield from copy.pages({"query": query, "_source": source}, size, made)


def sources_page(some: Ids, inside: Contents) -> int:
    """How many documents' sources to ask for at once."""
    sizes = [len(json.dumps(inside.right(id), ensure_ascii=False).encode()) for id in some.first(20)]
    return max(1, min(PAGE, PAGE_BYTES // (max(sizes) + 100)))


def _judge(hit: dict[str, Any], inside: Contents) -> None:
    """One document's source."""
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
    if not same(right, found):
        inside.blame(id, "source", differs(right, found))


def _judge_words(hit: dict[str, Any], inside: Contents) -> None:
    """The words by which one document is found."""
    if not inside.workload.text:
        return
    id = str(hit["_id"])
    words, terms = set(inside.text(id).split()), {str(name) for name in hit.get("matched_queries") or ()}
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


def _among(ids: Ids, repeats: Mapping[str, Numbers]) -> dict[str, Ints]:
    """The repeats of ``ids`` alone."""
    found = {}
    for kind, numbers in repeats.items():
        wide = numbers.astype(np.int64)
        found[kind] = wide[ids.has(np.full(len(wide), KINDS.index(kind), np.int8), wide)]
    return found


def _ids(copy: CopySearch, here: list[str], inside: Contents, repeats: Mapping[str, Ints]) -> None:
    """Every document is found by its id, as often as the copy holds it."""
    again = Counter(f"{kind}-{number}" for kind, numbers in repeats.items() for number in numbers.tolist())
    for part in _parts(here, WHOLE):
        query = copy.named(part)
        if copy.count(query) != len(part) + sum(again[id] for id in part if id in again):
            for id in set(part) - _found(copy, query):
                inside.blame(id, "index", "not found by its id")


def _points(copy: CopySearch, ids: Ids, here: Ids, name: str, inside: Contents, repeats: Mapping[str, Numbers]) -> None:
    """Every document is found by its number, and none by a number that it has not.

    Asked for are the numbers of the documents ``here``. All of ``ids`` that have one of them must be found, and
    ``repeats`` once more each.
    """
    each = [values for _, _, values in inside.expected(here, name)]
    if not all(values.dtype == np.int64 for values in each):
        return  # no whole numbers
    values = np.unique(np.concatenate([*each, np.array([], np.int64)]))
    if not len(values):
        return
    alone = name == inside.workload.unique
    holders = here if alone else ids
    ranks = np.arange(1, len(values) + 1)
    sets = [np.ones(len(values), np.bool_)] if alone else _by_bits(ranks)
    counts = np.zeros(len(sets), np.int64)
    for _, _, part in inside.expected(holders, name):
        counts += _counted(part, values, sets)
    for kind, numbers in _among(holders, repeats).items():
        counts += _counted(inside.column(kind, numbers, name), values, sets)
    strangers = {} if alone else {id: inside.value(id, name) for id in holders.others}
    counts += _counted(as_column([each for each in strangers.values() if type(each) is int]), values, sets)
    for asked, count in zip(sets, counts.tolist(), strict=True):
        if not asked.any():
            continue
        query = {"terms": {name: values[asked].tolist()}}
        if copy.count(query) != count:
            _blame_points(copy, query, values[asked], holders, name, inside, strangers)


def _by_bits(ranks: Ints) -> list[npt.NDArray[np.bool_]]:
    """For each bit the ranks that have it: no two ranks are in the same sets."""
    return [(ranks >> bit & 1).astype(np.bool_) for bit in range(len(ranks).bit_length())]


def _counted(part: npt.NDArray[Any], values: Ints, sets: list[npt.NDArray[np.bool_]]) -> Ints:
    """How many of a part's values are in each of the sets of ``values``."""
    if part.dtype != np.int64 or not len(part):
        return np.zeros(len(sets), np.int64)
    at = np.minimum(np.searchsorted(values, part), len(values) - 1)
    each = np.bincount(at[values[at] == part], minlength=len(values))
    return np.array([each[asked].sum() for asked in sets], np.int64)


def _blame_points(
    copy: CopySearch,
    query: dict[str, Any],
    asked: Ints,
    holders: Ids,
    name: str,
    inside: Contents,
    strangers: Mapping[str, Any],
) -> None:
    """Which documents a query for some values of a field finds and should not, or does not find and should."""
    wanted = Collected()
    for kind, numbers, part in inside.expected(holders, name):
        if part.dtype == np.int64:
            wanted.add([f"{kind}-{number}" for number in numbers[np.isin(part, asked)].tolist()])
    here = asked.tolist()
    wanted.add([id for id, value in strangers.items() if type(value) is int and value in here])
    must, found = wanted.ids(), _found(copy, query)
    for id in must - found:
        inside.blame(id, "index", f"not found by {name} {inside.value(id, name)}")
    for id in (found - must) & holders:
        inside.blame(id, "index", f"found by another {name} than its own, {inside.value(id, name)}")


def _phrases(copy: CopySearch, some: list[str], inside: Contents) -> None:
    """Each document is found by its whole text, word after word."""
    for part in _parts(some, AT_ONCE):
        each = [
            {
                "bool": {
                    "filter": [
                        copy.named([id]),
                        {"match_phrase": {inside.workload.text: inside.text(id)}},
                    ]
                }
            }
            for id in part
        ]
        found = _found(copy, {"bool": {"should": each}})
        inside.phrases += len(part)
        for id in set(part) - found:
            inside.blame(id, "index", "not found by its whole text")


def _parts(ids: Collection[str], size: int) -> Iterator[list[str]]:
    each = iter(ids)
    while part := list(islice(each, size)):
        yield part


def _found(copy: CopySearch, query: dict[str, Any]) -> Ids:
    """The ids that a query finds."""
    found = Collected()
    for part in copy.pages({"query": query, "_source": False}, FOUND, page):
        found.add([str(hit["_id"]) for hit in part.hits])
    return found.ids()


# ---- values ----------------------------------------------------------------------------------------------------


def same(right: Any, found: Any) -> bool:
    """Whether two JSON values are the same, types too: 5 is not 5.0, and not true."""
    if type(right) is not type(found):
        return False
    if isinstance(right, dict):
        return right.keys() == found.keys() and all(same(value, found[key]) for key, value in right.items())
    if isinstance(right, list):
        return len(right) == len(found) and all(map(same, right, found))
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


def _single(values: list[Any]) -> npt.NDArray[Any]:
    """The one value of a field of each document. Raises ``ValueError`` where one has more or none."""
    if set(map(type, values)) != {list} or set(map(len, values)) != {1}:
        raise ValueError("not one value each")
    return as_column(list(chain.from_iterable(values)))
