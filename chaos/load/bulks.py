"""Bulk requests: many documents in one, made from the number of its arrival; and the answer, judged for each of them.

HTTP 200 means that the bulk was read. What became of each document stands in ``items``, one for each in their order
(OpenSearch: *Bulk API*), so a 200 with errors in it is no success. Every item must speak of the document in its place,
and ``errors`` must say whether one failed. An answer that contradicts itself, or has another number of items, is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from chaos.base.ids import write_id
from chaos.history.format import Action, ItemOutcome, Outcome
from chaos.load.changes import Planned
from chaos.load.workload import Request, Workload
from chaos.opensearch.requests import BULK_FIELDS, RolledKind, belongs

T = TypeVar("T")
CREATED, UPDATED, DEGRADED, REJECTED, BLOCKED, CONFLICT, INVALID, FAILED, UNKNOWN, WRONG, *_ = map(int, ItemOutcome)
MISSING, CHANGED, DELETED = map(int, (ItemOutcome.MISSING, ItemOutcome.CHANGED, ItemOutcome.DELETED))
FIRST_FAILED, LAST_FAILED = REJECTED, FAILED
"""Outcomes that the cluster itself calls failures."""
_NAMES = {Action.CREATE: "index", Action.UPDATE: "update", Action.DELETE: "delete"}
_RESULTS = {
    "create": {201: ("created", CREATED)},
    "index": {201: ("created", CREATED), 200: ("updated", UPDATED)},
    "update": {200: ("updated", CHANGED)},
    "delete": {200: ("deleted", DELETED)},
}
"""By action and status what a good item says, and what it then comes to."""


PIECE = 500
"""Documents that are made, or judged, before other requests get their turn: some 5 ms of work."""
Pause = Callable[[], None]
"""Lets others on."""


def in_pieces(values: Sequence[T], pause: Pause) -> Iterator[Sequence[T]]:
    """All of them, :data:`PIECE` at a time, with a pause between two."""
    for first in range(0, len(values), PIECE):
        if first:
            pause()
        yield values[first : first + PIECE]


def no_pause() -> None:
    """For callers without other requests under way."""


def creating(rolled: RolledKind | None) -> str:
    """The action by which new documents are written."""
    return "create" if rolled == "data_stream" else "index"


class Bulks:
    """Makes the bulks of one operation. ``index``: where they go, an alias where that must be there.

    ``items``: documents in each; ``stride``: the most that any request of the load has (:mod:`chaos.base.ids`).
    ``automatic``: OpenSearch gives each document its id, and ours is only what it is routed by. So what it is, and to
    which shard it belongs, is known as if it were its id, and what was sent twice is there twice.
    """

    def __init__(
        self,
        workload: Workload,
        index: str,
        items: int,
        stride: int,
        pause: Pause = no_pause,
        *,
        automatic: bool = False,
        rolled: RolledKind | None = None,
    ) -> None:
        self._pause, self._action = pause, creating(rolled)
        self._names = "routing" if automatic else "_id"
        self._workload = workload
        self._path = f"/{index}/_bulk?{BULK_FIELDS}"
        self._items, self._stride = items, stride

    def numbers(self, k: int) -> range:
        """The documents of arrival ``k``."""
        return range(k * self._stride, k * self._stride + self._items)

    def of(self, numbers: Sequence[int], plan: Planned | None = None) -> Request:
        """The bulk of these items. ``plan``: what each does; None: each writes a new document."""
        body = self._workload.body
        if plan is not None:
            done = [self._line(n, plan) for piece in in_pieces(numbers, self._pause) for n in piece]
            return Request("POST", self._path, "".join(done))
        names, action = self._names, self._action
        lines = [
            f'{{"{action}":{{"{names}":"{doc_id}"}}}}\n{body(doc_id)}\n'
            for piece in in_pieces(numbers, self._pause)
            for doc_id in map(write_id, piece)
        ]
        return Request("POST", self._path, "".join(lines))

    def _line(self, n: int, plan: Planned) -> str:
        """An item as it goes over the wire. An update brings the whole content, and is done even where that is there
        already: an update that changes nothing goes to no replica, and would be no acknowledgement."""
        action, document, _ = plan.of(n)
        id = write_id(document)
        if action == Action.DELETE:
            return f'{{"delete":{{"_id":"{id}"}}}}\n'
        content = self._workload.body(write_id(n))
        if action == Action.UPDATE:
            return f'{{"update":{{"_id":"{id}"}}}}\n{{"doc":{content},"detect_noop":false}}\n'
        return f'{{"index":{{"{self._names}":"{id}"}}}}\n{content}\n'


class Fates:
    """What becomes of the documents of one bulk over its tries, where what was rejected is sent again.

    Only what was rejected for want of room (429) is, the whole bulk or single documents of it: so do opensearch-py's
    ``streaming_bulk`` and its relatives. Everything else is told to who called, as it is.
    """

    def __init__(self, numbers: range) -> None:
        self._numbers = numbers
        self._outcomes = bytearray([UNKNOWN]) * len(numbers)
        self._places: Sequence[int] = range(len(numbers))
        self._answered = False
        self._last = Outcome.UNKNOWN

    @property
    def due(self) -> Sequence[int]:
        """The documents that the next try sends."""
        first = self._numbers.start
        return [first + place for place in self._places]

    def told(self, outcome: Outcome | int, items: bytes | None) -> bool:
        """What came of a try; whether there is something to be sent again."""
        self._last = Outcome(outcome)
        if items is None:
            for place in self._places if self._answered else ():
                self._outcomes[place] = UNKNOWN
            return self._last is Outcome.REJECTED
        self._answered = True
        for place, item in zip(self._places, items, strict=True):
            self._outcomes[place] = item
        self._places = [place for place, item in zip(self._places, items, strict=True) if item == REJECTED]
        return bool(self._places) and self._last is not Outcome.WRONG

    @property
    def items(self) -> bytes | None:
        """The outcome of each document; None where no try was answered for each."""
        return bytes(self._outcomes) if self._answered else None

    @property
    def outcome(self) -> Outcome:
        """That of the bulk as a whole: of its documents, where the last try was answered for each."""
        told = self._last in (Outcome.OK, Outcome.PARTIAL, Outcome.REJECTED) and self._answered
        return of_items(self._outcomes) if told else self._last


def judge(
    answer: Mapping[str, Any],
    numbers: Sequence[int],
    index: str,
    copies: int | None,
    pause: Pause = no_pause,
    *,
    automatic: bool = False,
    plan: Planned | None = None,
    rolled: RolledKind | None = None,
) -> tuple[Outcome, str, bytes]:
    """What became of a bulk of these documents: the request's outcome, what is wrong with the answer (or nothing), and
    the outcome of each document (:class:`~chaos.history.format.ItemOutcome`).

    ``index``: the concrete one; ``copies``: of each shard, None where that is not known. ``automatic``: ids are
    OpenSearch's, so answers that were swapped cannot be told, and only one id that comes twice is wrong. ``plan``: what
    each item does; None: each writes a new document. ``rolled``: ``index`` is a name with several, and any of them may
    have taken a document.
    Raises one of :data:`chaos.opensearch.rest.UNREADABLE` for what is no answer to a bulk.
    """
    errors, items = answer["errors"], answer["items"]
    if type(errors) is not bool or type(items) is not list:
        raise TypeError("no answer to a bulk")
    number = len(numbers)
    if len(items) != number:
        return Outcome.WRONG, f"a bulk of {number} documents answered for {len(items)}", bytes([UNKNOWN]) * number
    outcomes, says = bytearray(number), ""
    place, given, failed = 0, set[str](), 0
    action, document = int(Action.CREATE), 0
    new = creating(rolled)
    for piece in in_pieces(numbers, pause):
        for n in piece:
            document = n
            if plan is not None:
                action, document, _ = plan.of(n)
            named = new if action == Action.CREATE else _NAMES[Action(action)]
            outcomes[place], wrong = _item(
                items[place], named, write_id(document), index, copies, given if automatic else None, rolled is not None
            )
            says = says or wrong
            failed += FIRST_FAILED <= outcomes[place] <= LAST_FAILED
            # OpenSearch counts an update of what is not there as a failure, and a delete of it not
            failed += outcomes[place] == MISSING and action == Action.UPDATE
            place += 1
    if not says and errors is not bool(failed):
        says = f"a bulk of {number} documents answered errors: {str(errors).lower()}, and {failed} of them failed"
        return Outcome.WRONG, says, bytes(outcomes)
    return of_items(outcomes), says, bytes(outcomes)


def of_items(outcomes: bytes | bytearray) -> Outcome:
    """The outcome of a bulk that was answered, by those of its documents.

    One that failed as a whole for one reason is what a single write would be; one of which a part failed is partial.
    """
    kinds = set(outcomes)
    if WRONG in kinds:
        return Outcome.WRONG
    if kinds <= {CREATED, UPDATED, CHANGED, DELETED}:
        return Outcome.OK
    if kinds == {REJECTED}:
        return Outcome.REJECTED
    if kinds == {INVALID}:
        return Outcome.CLIENT_ERROR
    if kinds <= {BLOCKED, FAILED}:
        return Outcome.SERVER_ERROR
    return Outcome.PARTIAL


def failures(items: list[Mapping[str, Any]]) -> list[tuple[int, Mapping[str, Any]]]:
    """(Status, item) of one failed item of each status and type of error, in their order."""
    found: dict[tuple[int, str], Mapping[str, Any]] = {}
    for entry in items:
        for item in entry.values():
            if "error" in item:
                found.setdefault((int(item.get("status", 0)), _type(item)), item)
    return [(status, item) for (status, _), item in found.items()]


def _item(
    entry: Mapping[str, Any],
    action: str,
    doc_id: str,
    index: str,
    copies: int | None,
    given: set[str] | None,
    rolled: bool = False,
) -> tuple[int, str]:
    """What one item says became of a document, and what is wrong with it. ``given``: the ids that OpenSearch gave to
    documents before it in this bulk; None: ids are ours. ``rolled``: there are several indices of this name."""
    item = entry.get(action)
    if item is None:
        return WRONG, f"bulk answered for {doc_id} with {', '.join(map(str, entry)) or 'nothing'}, not with {action}"
    if given is not None:
        if type(item["_id"]) is str and item["_id"] in given:
            return WRONG, f"bulk answered with the id {item['_id']!r} twice"
        given.add(str(item["_id"]))
    elif item["_id"] != doc_id:
        return WRONG, f"bulk answered for {item['_id']!r} in the place of {doc_id}"
    status = item["status"]
    if type(status) is not int:
        raise TypeError("a status that is no number")
    if status == 404 and action not in ("index", "create"):
        return _missing(item, action, doc_id)
    if status >= 300:
        return _failed(status, item), ""
    if item["_index"] != index and not (rolled and belongs(item["_index"], index)):
        return WRONG, f"bulk answered for {doc_id} with the index {item['_index']!r}"
    result, outcome = _RESULTS[action].get(status, ("", WRONG))
    if item["result"] != result or "error" in item:
        return WRONG, f"bulk answered for {doc_id} with status {status} and {item['result']}"
    shards = item["_shards"]
    total, successful, failed = shards["total"], shards["successful"], shards["failed"]
    if not (type(total) is type(successful) is type(failed) is int):
        raise TypeError("a count of copies that is no number")
    if successful < 1 or failed < 0 or successful + failed > total:
        return WRONG, f"bulk answered for {doc_id} {result} and {successful} of {total} copies took it, {failed} failed"
    if copies is not None and not copies <= total <= 2 * copies:  # one that moves counts twice
        return DEGRADED, f"bulk answered for {doc_id} {result} and {total} copies, and each shard has {copies}"
    return (DEGRADED if failed else outcome), ""


def _missing(item: Mapping[str, Any], action: str, doc_id: str) -> tuple[int, str]:
    """Of a change that was answered with 404: whether the document is not there, or the index."""
    if action == "delete" and "error" not in item:
        result = item["result"]
        return (MISSING, "") if result == "not_found" else (WRONG, f"bulk answered for {doc_id} 404 and {result}")
    return (MISSING if _type(item) == "document_missing_exception" else INVALID), ""


def _failed(status: int, item: Mapping[str, Any]) -> int:
    if status == 429:
        return REJECTED
    if status == 409:
        return CONFLICT
    if status >= 500:
        return FAILED
    return BLOCKED if status == 403 and _type(item) == "cluster_block_exception" else INVALID


def _type(item: Mapping[str, Any]) -> str:
    error = item.get("error")
    return str(error.get("type", "")) if isinstance(error, Mapping) else ""
