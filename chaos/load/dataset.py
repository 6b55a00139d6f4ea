"""A workload that is written in YAML, carried out: its documents, and requests for them.

What a document is follows from its id and the workload's seed: :mod:`chaos.load.generators` makes it as JSON text, and
its content is that text read. Keys of compare-and-set hold number and check alone, so no query finds them by a field.
"""

from __future__ import annotations

import copy
import functools
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chaos.base.ids import is_key, number_of, preload_id, write_id
from chaos.base.operations import Answer
from chaos.definitions.workload import (
    FieldFile,
    Placeholder,
    QueryFile,
    WorkloadDefinition,
    field_at,
    placeholder,
)
from chaos.load.generators import (
    HASH,
    WORDS,
    Drawn,
    Draws,
    Table,
    Value,
    dumped,
    index,
    one,
    several,
    share_of,
    table,
    value,
    vocabulary,
    writer,
)
from chaos.load.workload import Asked, Request, Workload
from chaos.opensearch.requests import WRITE_FIELDS


class Dataset(Workload):
    """Documents and queries of a definition."""

    def __init__(self, definition: WorkloadDefinition) -> None:
        self.definition = definition
        vars(self).update(  # what other workloads say of their class
            name=definition.name,
            says=" ".join(definition.description.split()),
            mapping=definition.mapping,
            settings=definition.settings,
            fields=(definition.number, definition.check),
            value=definition.number,
            unique=definition.check,
        )
        self._draws = Draws(definition.seed)
        self._head = f'{{"{definition.number}":%d,"{definition.check}":%d'

    @functools.cached_property
    def _made(self) -> tuple[tuple[tuple[str, Value], ...], dict[str, Finder], int]:
        """Each field's name with its generator, the fields that queries filter on, and the draws that these need.

        Which fields those are changes no document: the draws of all are taken in the order of the fields.
        """
        wanted = {query.find for query in self.definition.queries.values()}
        parts: list[tuple[str, Value]] = []
        finders: dict[str, Finder] = {}
        needed = HASH
        for name, field in self.definition.fields.items():
            if name in wanted:
                finders[name] = finder(name, field, self.definition.seed, self._draws)
                made, needed = finders[name].value, self._draws.places
            else:
                made = value(field, self.definition.seed, name, self._draws)
            parts.append((f',"{name}":', made))
        return tuple(parts), finders, needed

    @property
    def finders(self) -> dict[str, Finder]:
        """The fields that queries filter on, by name."""
        return self._made[1]

    def requests(self, index: str, documents: int) -> Requests:
        return Requests(self, index, documents)

    def strided(self, index: str, documents: int, stride: int) -> Requests:
        return Requests(self, index, documents, stride)

    def some(self, queries: Collection[str], index: str, documents: int, stride: int) -> Requests:
        return self.strided(index, documents, stride).only(queries)

    def numbers(self, doc_id: str, value: int = 0) -> dict[str, int]:
        number, named = number_of(doc_id), doc_id
        if is_key(doc_id):
            number, named = value, f"{doc_id}:{value}"
        return {self.value: number, self.unique: Draws.check(self._draws.of(named, HASH))}

    def columns(self, kind: str, numbers: npt.NDArray[np.int64], names: Collection[str]) -> dict[str, npt.NDArray[Any]]:
        """As the base says; without a dictionary for each document."""
        made: dict[str, Callable[[], npt.NDArray[np.int64]]] = {
            self.value: lambda: numbers,
            self.unique: lambda: self._draws.checks(b"%b-%d" % (kind.encode(), each) for each in numbers.tolist()),
        }
        return {name: made[name]() for name in names}

    def body(self, doc_id: str) -> str:
        """A document as it goes over the wire."""
        number, (parts, _, _) = number_of(doc_id), self._made
        if is_key(doc_id):
            return json.dumps(self.numbers(doc_id), separators=(",", ":"))
        drawn, at = self._draws.of(doc_id), _at(doc_id, number)
        return f"{self._head % (number, Draws.check(drawn))}{''.join([a + b(drawn, at) for a, b in parts])}}}"

    def content(self, doc_id: str, value: int = 0) -> dict[str, Any]:
        if is_key(doc_id):
            return dict(self.numbers(doc_id, value))
        found: dict[str, Any] = json.loads(self.body(doc_id))
        return found

    def found_by(self, doc_id: str) -> Collection[Asked]:
        """``FIELD=VALUE`` of each field that a query filters on; no search asks for a key."""
        number_of(doc_id)
        _, finders, needed = self._made
        if is_key(doc_id) or not finders:
            return ()
        drawn = self._draws.of(doc_id, needed)
        return [asked for each in finders.values() for asked in each.asked(drawn)]

    def _unfit_mapping(self) -> Iterator[str]:
        """None: a definition whose mapping does not fit is refused where it is read."""
        return iter(())


def _at(doc_id: str, number: int) -> int:
    """The place of a document in time. Those that are there before the load come before its first."""
    return -1 - number if doc_id.startswith("p") else number


# ---------------------------------------------------------------------------------------- what finds what


@dataclass(frozen=True)
class Finder:
    """A field that queries filter on. ``values``: all that it can have, as JSON text; ``texts``: what asks for each.

    ``value``: its generator; ``asked``: what finds a document, from its draws.
    """

    values: tuple[str, ...]
    texts: tuple[str, ...]
    value: Value
    asked: Callable[[Drawn], Collection[str]]


def finder(name: str, field: FieldFile, seed: int, draws: Draws) -> Finder:
    """Of a field that queries may filter on. Its draws are those that :func:`generators.value` takes, in that order."""
    if field.array is None:
        found = table(field, seed, name, draws)
        assert found is not None  # a definition is refused where the field has no countable values
        tables = [found]
    else:
        many_at = draws.take()
        tables = several(table(field, seed, name, draws) if field.array[1] else None, field.array[1], draws)
    null_at, below = (draws.take(), share_of(field.nulls)) if field.nulls is not None else (0, 0)
    texts = tuple(f"{name}={each}" for each in tables[0].texts) if tables else ()

    if field.array is None and field.nulls is None:  # as most are: quick
        which = tables[0].index
        return Finder(tables[0].texts, texts, tables[0].value(), lambda drawn: (texts[which(drawn)],))

    def chosen(drawn: Drawn) -> list[int]:
        """Which values a document has."""
        if drawn[null_at] < below:
            return []
        if field.array is None:
            return [tables[0].index(drawn)]
        least, most = field.array
        return [each.index(drawn) for each in tables[: least + drawn[many_at] % (most - least + 1)]]

    def asked(drawn: Drawn) -> Collection[str]:
        # a value that is there twice finds its document once
        return dict.fromkeys([texts[each] for each in chosen(drawn)])

    def made(drawn: Drawn, _: int) -> str:
        if drawn[null_at] < below:
            return "null"
        values = [tables[0].texts[each] for each in chosen(drawn)]
        return values[0] if field.array is None else f"[{','.join(values)}]"

    return Finder(tables[0].texts if tables else (), texts, made, asked)


# ----------------------------------------------------------------------------------------------- requests


class Requests:
    """Makes the request of each arrival from its number alone. ``stride``: see :meth:`Workload.strided`."""

    def __init__(self, workload: Dataset, index: str, documents: int, stride: int = 1) -> None:
        self._workload, self._index, self._documents = workload, index, documents
        self._stride = stride
        definition = workload.definition
        self._draws = Draws(definition.seed)  # apart from those of documents, which cost by their number
        self.mix = [
            (Query(workload, name, query, self._draws), definition.mix.get(name, 1))
            for name, query in definition.queries.items()
        ]
        self._slots = [query for query, weight in self.mix for _ in range(weight)]
        self._path = f"/{index}/_search"

    def only(self, names: Collection[str]) -> Requests:
        """The same, whose searches are those of these names alone, by their weights."""
        other = copy.copy(self)
        other._slots = [each for each in self._slots if each.name in names]
        return other

    def of(self, kind: str, k: int) -> Request:
        """The request of arrival ``k``. ``kind``: ``search``, ``get`` or ``index``."""
        if kind == "index":
            doc_id = write_id(k)
            return Request("PUT", f"/{self._index}/_doc/{doc_id}?{WRITE_FIELDS}", self._workload.body(doc_id))
        if kind == "search":
            return self._search(f"q-{k}", k)
        scattered = (k * 2654435761) % 2**32 >> 7  # neighbours in time ask for different things
        return Request("GET", f"/{self._index}/_doc/{preload_id(scattered % self._documents)}", None)

    def search(self, k: int, place: int) -> Request:
        """Search ``place`` (from 0) of the several that arrival ``k`` sends in one request."""
        return self._search(f"q-{k}" if place == 0 else f"q-{k}-{place}", k)

    def _search(self, named: str, k: int) -> Request:
        drawn = self._draws.of(named)
        newest = k * self._stride  # the document by whose date searches say "now"
        return self._slots[Draws.check(drawn) % len(self._slots)].request(self._path, drawn, newest)


class Query:
    """One query of the mix, cut at its placeholders."""

    def __init__(self, workload: Dataset, name: str, query: QueryFile, draws: Draws) -> None:
        self.name, self.query, self._draws = name, query, draws
        self._finder = workload.finders.get(query.find or "")
        self._which = index(len(self._finder.texts), draws) if self._finder is not None else None
        makers: dict[Placeholder, Value] = {}
        self._parts: list[str | Value] = []
        for part in _cut(query.body):
            if isinstance(part, str):
                self._parts.append(part)
                continue
            if part not in makers:
                found = self._finder is not None and part.path == (query.find,)
                makers[part] = self._wanted if found else _placed(workload.definition, part, draws)
            self._parts.append(makers[part])
        self.answer: Answer | None = "query" if query.body.get("track_total_hits") is False else None

    def _wanted(self, drawn: Drawn, _: int) -> str:
        """The value that it filters on."""
        assert self._finder is not None and self._which is not None
        return self._finder.values[self._which(drawn)]

    def body(self, drawn: Drawn, number: int) -> str:
        return "".join([each if isinstance(each, str) else each(drawn, number) for each in self._parts])

    def example(self, number: int) -> str:
        """The body that arrival ``number`` would send if this were its query."""
        return self.body(self._draws.of(f"q-{number}"), number)

    def request(self, path: str, drawn: Drawn, number: int) -> Request:
        """The request with these draws. ``number``: of the newest document by then."""
        asks = None
        if self._finder is not None and self._which is not None:
            asks = self._finder.texts[self._which(drawn)]
        return Request("POST", path, self.body(drawn, number), asks=asks, answer=self.answer)

    @property
    def judged(self) -> str:
        """How its answers are judged, for people."""
        if self.answer is not None:
            return "whole; it counts no hits, so nothing else can be said of them"
        if self.query.find is not None:
            return f"every hit is right, and as many are found as have that {self.query.find}"
        return "every hit is right; how many must be found is not known"


_MARK = re.compile(r'"\\u0000([0-9]+)\\u0000"')


def _cut(body: Mapping[str, Any]) -> Iterator[str | Placeholder]:
    """A body as JSON text, in pieces: plain ones, and what stands for a value."""
    places: list[Placeholder] = []

    def marked(value: Any) -> Any:
        if isinstance(value, str) and (found := placeholder(value)) is not None:
            places.append(found)
            return f"\0{len(places) - 1}\0"
        if isinstance(value, Mapping):
            return {key: marked(each) for key, each in value.items()}
        return [marked(each) for each in value] if isinstance(value, list | tuple) else value

    plain, *rest = _MARK.split(dumped(marked(body)))
    yield plain
    for number, after in zip(rest[::2], rest[1::2], strict=True):
        yield places[int(number)]
        yield after


def _placed(definition: WorkloadDefinition, it: Placeholder, draws: Draws) -> Value:
    """The generator of what stands for a placeholder: one value of the field, from draws of its own."""
    field = field_at(definition.fields, it.path)
    assert field is not None
    path = ".".join(it.path)
    if it.word:
        return Table(list(map(dumped, vocabulary(definition.seed, path, field.vocabulary or WORDS))), draws).value()
    if field.type == "date":
        return writer(field, it.moved)
    return one(field.model_copy(update={"array": None, "nulls": None}), definition.seed, path, draws)
