"""A workload: what the load's documents are, how they are asked for, and what the read-back may expect of them.

One file each, in :mod:`chaos.load.workloads` or in another package. Ids are the load's own (:mod:`chaos.base.ids`).
What a document must be follows from its id, and of a key of compare-and-set from the value that it holds: so the final
read-back tells a wrong document from a right one without having kept any.
"""

from __future__ import annotations

import functools
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import combinations
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from opensearchpy import OpenSearch
from opensearchpy.exceptions import OpenSearchException
from opensearchpy.helpers import bulk

from chaos.base.errors import InvalidInput, LabError
from chaos.base.ids import cas_id, is_key, preload_id, probe_id, write_id
from chaos.base.operations import USUAL, Answer, OperationKind
from chaos.opensearch.rest import UNREADABLE

MOST_WORDS = 500
"""Words of all texts: a search has a clause for each and one for each gap between, and 1,024 at most."""
MOST_IN_TEXT = 25
"""Words of one text: whole texts are asked for by forty in one search."""
TRIED = 50
"""Documents of each kind of id that are looked at before a workload is taken."""
SIZED = 200
"""Documents by whose sizes all are reckoned."""
PATIENT: Mapping[str, Any] = {"chunk_size": 500, "max_retries": 8, "initial_backoff": 0.5, "max_backoff": 8}
"""Bulks of documents before the load, and how they wait where a node refuses with 429, as a small heap does under many
of them: 0.5 s, then twice as long each time up to 8 s, some 40 s in all."""


Asked = str | int
"""What a search of the load asks for: a group, a word. Documents say by which of these they are found."""


class Request(NamedTuple):
    """One request of the load, as it goes over the wire. ``least_hits``: what a search must find at least.

    ``asks``: what a search asks for (:meth:`Workload.found_by`); None where it cannot be said which documents match it.
    Its answer is held against what its path and body ask for: the fields that ``filter_path`` names must be in each
    hit, ``size`` says how many hits there are (:mod:`chaos.load.right`). ``answer``: how it is judged, where that is
    another way than that of its operation: of a mix, each search has its own.
    """

    method: str
    path: str
    body: str | None
    least_hits: int = 0
    asks: Asked | None = None
    answer: Answer | None = None


def as_column(values: list[Any]) -> npt.NDArray[Any]:
    """An array that keeps the types of these: of integers or floats where all are of one kind and fit, else objects."""
    types = set(map(type, values))
    for kind, dtype in ((int, np.int64), (float, np.float64)):
        if types <= {kind}:
            with suppress(OverflowError):
                return np.array(values, dtype)
    column = np.empty(len(values), object)
    column[:] = values
    return column


def _same_keys(one: Any, other: Any) -> bool:
    """Whether two values have the same keys, and the objects in them too. Whatever is no object is replaced whole."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return True
    return one.keys() == other.keys() and all(_same_keys(value, other[key]) for key, value in one.items())


class Requests(Protocol):
    """Makes the request of each arrival from its number alone.

    One that has a method ``search(k, place)`` says by it the searches of an arrival that sends several in one request
    (:mod:`chaos.load.searches`); of others those of so many arrivals are taken.
    """

    def of(self, kind: str, k: int) -> Request:
        """The request of arrival ``k``. ``kind``: one of those that the workload's operations are made of. Of a write
        ``k`` is the number of its document (:mod:`chaos.base.ids`)."""


class Workload(ABC):
    """Documents with some numbers, often one text of known words, and requests for them.

    ``operations``: what a load of it may consist of; each is a stream of arrivals with a rate and an objective.
    Arrival ``k`` of the one that writes makes the document ``w-<k>``, or as many as a bulk has (:mod:`chaos.base.ids`).
    ``mapping``: of the index; strict, so that a document of another shape is refused. ``fields``: the numbers of every
    document, whose doc values the read-back compares. ``value``: the one of them in which a key of compare-and-set
    holds its value. ``unique``: the one that no two documents share, and by which a document can be told to be whole.
    ``text`` and ``words``: the field of text, and all the words that any text is made of, in alphabetical order; None
    and nothing where there is none: then the read-back cannot compare by which words documents are found.
    ``settings``: of the index, by short names, where the topology says nothing else.
    """

    name: ClassVar[str]
    says: ClassVar[str]
    operations: ClassVar[tuple[OperationKind, ...]] = USUAL
    mapping: ClassVar[Mapping[str, Any]]
    fields: ClassVar[tuple[str, ...]]
    value: ClassVar[str]
    unique: ClassVar[str]
    text: ClassVar[str | None] = None
    words: ClassVar[tuple[str, ...]] = ()
    settings: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    def answer(self, operation: str, kind: str) -> Answer:
        """How answers to an operation's requests of this kind are judged; a stream is none of the workload's, and has
        requests that one of these has. Raises ``KeyError`` for what is not there."""
        own = [each for each in self.operations if each.name == operation] or self.operations
        return {name: answer for each in reversed(own) for name, answer in each.requests.items()}[kind]

    @abstractmethod
    def requests(self, index: str, documents: int) -> Requests:
        """The requests of a run. ``documents``: how many were preloaded."""

    def strided(self, index: str, documents: int, stride: int) -> Requests:
        """The requests of a load whose largest one writes ``stride`` documents: arrival ``k`` writes from number
        ``k * stride`` on. By default those of :meth:`requests`, which need not know how far the load has come."""
        return self.requests(index, documents)

    def some(self, queries: Collection[str], index: str, documents: int, stride: int) -> Requests:
        """Those of :meth:`strided`, whose searches are these alone.

        Raises InvalidInput where searches have no names.
        """
        raise InvalidInput(f"the searches of the workload '{self.name}' have no names", remedy="leave queries out")

    @abstractmethod
    def numbers(self, doc_id: str, value: int = 0) -> dict[str, int]:
        """The :attr:`fields` of a document; of a key those with which it holds ``value``.

        Raises ``ValueError`` for an id that is none of ours.
        """

    def columns(self, kind: str, numbers: npt.NDArray[np.int64], names: Collection[str]) -> dict[str, npt.NDArray[Any]]:
        """Some of the :attr:`fields` of the documents ``<kind>-<number>``, none of which is a key, each field as one
        array: of 64 bit integers or floats where all are, else of Python objects.

        By default :meth:`numbers` is asked for each. The final read-back asks for every document of the run: a workload
        of millions says it in arrays.
        """
        rows = [self.numbers(f"{kind}-{number}") for number in numbers.tolist()]
        return {name: as_column([row[name] for row in rows]) for name in names}

    @abstractmethod
    def content(self, doc_id: str, value: int = 0) -> dict[str, Any]:
        """The whole content of a document; of a key the one with which it holds ``value``. Raises as above."""

    def found_by(self, doc_id: str) -> Collection[Asked]:
        """What the load's searches can ask for (:attr:`Request.asks`) and must then find this document, once it is
        visible, and must not find it where they ask for anything else. By default nothing is held against searches.

        Raises ``ValueError`` for an id that is none of ours.
        """
        return ()

    def body(self, doc_id: str) -> str:
        """A document as it goes over the wire."""
        return json.dumps(self.content(doc_id), separators=(",", ":"))

    @functools.cached_property
    def size(self) -> int:
        """Bytes of a document, on average of :data:`SIZED`."""
        return round(sum(len(self.body(write_id(n)).encode()) for n in range(SIZED)) / SIZED)

    def believed(self, doc_id: str, found: Mapping[str, Any]) -> int | None:
        """The value that the source of a key says it holds, where its unique number agrees with that; else None."""
        value = found.get(self.value)
        if type(value) is not int:
            return None
        return value if found.get(self.unique) == self.numbers(doc_id, value)[self.unique] else None

    def preload(
        self, client: OpenSearch, documents: int, index: str, *, keys: int = 0, alias: str | None = None
    ) -> None:
        """Write ``p-0`` to ``p-<documents - 1>`` and the ``keys`` of compare-and-set, each with the value 0; by the
        index's ``alias`` where it is said.

        Makes them visible and checks that they are all there. Raises :class:`LabError`.
        """
        if documents + keys == 0:
            return
        to = {"index": index} if alias is None else {"index": alias, "require_alias": True}
        actions = self._actions(str(to["index"]), documents, keys)
        documents += keys
        try:
            _, failures = bulk(client, actions, raise_on_error=False, request_timeout=60, **PATIENT, **to)
            client.indices.refresh(index=index, request_timeout=60)
            # of the primaries: a refresh makes documents visible there, and with segment replication nowhere else yet
            found = client.count(index=index, request_timeout=60, preference="_primary")["count"]
        except (OpenSearchException, *UNREADABLE) as error:
            raise LabError(f"the documents of the load could not be written: {type(error).__name__} {error}") from error
        if failures:
            raise LabError(f"{len(failures)} of {documents} documents were refused, the first: {failures[0]}")
        if found < documents:
            raise LabError(f"{documents} documents were written to {index}, but only {found} are found")

    def refuse_unfit(self) -> None:
        """Raises InvalidInput where the read-back could not rest on it, and would call right documents wrong.

        Looked at are its words, its mapping, and some documents of each kind of id.
        """
        try:
            wrong = next(self._unfit(), None)
        except Exception as error:
            wrong = f"its documents cannot be made: {type(error).__name__}: {error}"
        if wrong is not None:
            raise InvalidInput(f"the workload '{self.name}': {wrong}", remedy="see 'A workload' in CONTRIBUTING.md")

    def refuse_updates(self) -> None:
        """Raises InvalidInput where an update would not leave a document with its content. OpenSearch puts the objects
        of an update into those that are there, so a key that only the old content has would stay."""
        some = [json.loads(self.body(write_id(n))) for n in range(TRIED)]
        if not all(_same_keys(*pair) for pair in combinations(some, 2)):
            says = (
                f"documents of the workload '{self.name}' have other keys from one to the next, so none can be updated"
            )
            raise InvalidInput(says, remedy="leave update out of the load's actions, or take another workload")

    def _unfit(self) -> Iterator[str]:
        yield from self._unfit_mapping()
        yield from self._unfit_words()
        if {self.value, self.unique} - set(self.fields):
            yield "value and unique are none of its fields"
        seen: dict[int, str] = {}
        keys = [(cas_id(n), value) for n in range(TRIED) for value in (0, 7)]
        for doc_id, value in [(make(n), 0) for make in (preload_id, write_id, probe_id) for n in range(TRIED)] + keys:
            found, numbers = self.content(doc_id, value), self.numbers(doc_id, value)
            if {name: found.get(name) for name in self.fields} != numbers:
                yield f"the content of {doc_id} does not have its numbers"
            if not is_key(doc_id) and json.loads(self.body(doc_id)) != found:
                yield f"the body of {doc_id} is not its content"
            if is_key(doc_id) and numbers[self.value] != value:
                yield f"{doc_id} with the value {value} says {numbers[self.value]} in {self.value}"
            if (other := seen.setdefault(numbers[self.unique], f"{doc_id}={value}")) != f"{doc_id}={value}":
                yield f"{other} and {doc_id}={value} have the same {self.unique}, which is to be unique"
            text = str(found[self.text]).split() if self.text is not None else []
            if len(text) > MOST_IN_TEXT or set(text) - set(self.words):
                yield f"the text of {doc_id} has other words than its words, or more than {MOST_IN_TEXT}"
        for kind in ("p", "w", "v"):
            said = self.columns(kind, np.arange(TRIED), self.fields)
            right = Workload.columns(self, kind, np.arange(TRIED), self.fields)
            for name in self.fields:
                if said[name].dtype != right[name].dtype or said[name].tolist() != right[name].tolist():
                    some = f"the documents {kind}-0 to {kind}-{TRIED - 1}"
                    yield f"its columns say another {name} of {some} than its numbers"

    def _unfit_mapping(self) -> Iterator[str]:
        properties = self.mapping["properties"]
        if self.mapping.get("dynamic") != "strict":
            yield "its mapping is not strict, so a document of another shape would be taken"
        named = {*self.fields, self.text} if self.text is not None else set(self.fields)
        if named - set(properties):
            yield "its fields and its text are not all in its mapping"
        for doc_id in (preload_id(0), write_id(0), probe_id(0), cas_id(0)):
            if more := set(self.content(doc_id)) - set(properties):
                yield f"the content of {doc_id} has more than the mapping: {', '.join(sorted(more))}"

    def _unfit_words(self) -> Iterator[str]:
        words = list(self.words)
        if (self.text is None) != (not words):
            yield "it has a text without words, or words without a text"
        if words != sorted(set(words)) or not all(re.fullmatch("[a-z]+", word) for word in words):
            yield "its words are not small letters alone, each once, in the order of the alphabet"
        if len(words) > MOST_WORDS:
            yield f"it has {len(words)} words: expected 1 to {MOST_WORDS}, for one search asks for all of them"

    def _actions(self, index: str, documents: int, keys: int) -> Iterable[dict[str, Any]]:
        for doc_id in (*map(preload_id, range(documents)), *map(cas_id, range(keys))):
            yield {"_op_type": "create", "_index": index, "_id": doc_id, "_source": self.body(doc_id)}
