"""One call of a helper of opensearch-py: what each of its requests came to, and what it told its caller.

A helper cuts the documents of a call into bulks, sends some again, and at last tells its caller something. Both sides
are noted for each document: what the cluster answered, by the same judge as any other bulk's, and what the caller was
told (:class:`~chaos.history.format.CallerTold`). Where they differ the caller is misled: about a document that is lost,
or about one that is there. Nothing of the helper is changed: it is given documents, a client whose connections note
what they send, and an object that hears what it tells.

The bytes of a request say which documents it holds. Answers and errors are told apart by objects: what the helper
hands out of an answer is the very object that was read, and bears its document's number.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from opensearchpy.serializer import JSONSerializer

from chaos.base.ids import write_id
from chaos.history.failures import Failure
from chaos.history.format import ACKNOWLEDGED_ITEMS, CallerTold, ItemOutcome, Outcome
from chaos.load.bulks import of_items
from chaos.load.config import HelperConfig
from chaos.load.outcomes import of_error
from chaos.load.right import Judge, Judged, Sent
from chaos.load.workload import Workload
from chaos.opensearch.requests import BULK_FIELDS
from chaos.opensearch.rest import UNREADABLE

CURRENT: ContextVar[Call] = ContextVar("CURRENT")
"""The call that the running greenlet or task makes."""
_ACTION = re.compile(rb'\{"index":\{"(?:_id|routing)":"w-(\d+)"')
_NOTHING_DONE = (Outcome.REFUSED, Outcome.REJECTED)
"""Ends of a request after which none of its documents is there by it: nothing was sent, or all of it was refused."""


class Stopped(Exception):
    """The load is over, so that the call sends nothing more."""


class Source(str):
    """A document's text, which knows its number."""

    __slots__ = ("number",)
    number: int


class Item(dict[str, Any]):
    """What an answer says of one document, with that document's number."""

    __slots__ = ("number",)
    number: int


class BulkJson(JSONSerializer):
    """opensearch-py's own reading and writing of JSON; the call is shown each answer before the helper has it."""

    def loads(self, s: str) -> Any:
        answer = super().loads(s)
        CURRENT.get().reads(answer)
        return answer


def options(config: HelperConfig, workload: Workload, index: str, *, alias: bool, automatic: bool) -> dict[str, Any]:
    """What a helper is given beside its client and the numbers of its documents. ``alias``: whether ``index`` must be
    one; ``automatic``: OpenSearch gives documents their ids."""
    names = "routing" if automatic else "_id"

    def expand(number: int) -> tuple[dict[str, Any], Source]:
        doc_id = write_id(number)
        source = Source(workload.body(doc_id))
        source.number = number
        return {"index": {names: doc_id}}, source

    return {
        "expand_action_callback": expand,
        "chunk_size": config.chunk_size,
        "max_retries": config.max_retries,
        "initial_backoff": config.initial_backoff_s,
        "max_backoff": config.max_backoff_s,
        "raise_on_error": config.raise_on_error,
        "raise_on_exception": config.raise_on_exception,
        "index": index,
        "filter_path": BULK_FIELDS.partition("=")[2],
        **({"require_alias": True} if alias else {}),
    }


class Call:
    """``numbers``: the documents. ``stopped``: whether the load is over. ``partial``, ``raised``, ``wrong``: told of an
    answer that is no success, of an error, and of an answer that was not what was asked for, with the node; the first
    two say why it failed."""

    def __init__(
        self,
        numbers: range,
        judge: Judge,
        stopped: Callable[[], bool],
        *,
        partial: Callable[[int, str, int], Failure],
        raised: Callable[[Exception, int], Failure],
        wrong: Callable[[str, int], None],
    ) -> None:
        self._first, self._judge, self._stopped = numbers.start, judge, stopped
        self._partial, self._raised, self._wrong = partial, raised, wrong
        size = len(numbers)
        self._outcomes = bytearray([ItemOutcome.UNKNOWN]) * size
        self._sent, self._open = bytearray(size), bytearray(size)
        self._told: list[CallerTold | None] = [None] * size
        self._answered = False
        self._last = Outcome.UNKNOWN
        self._numbers: Sequence[int] = ()
        self._asked: Sent | None = None
        self.attempts = self.length = self.status = 0
        self.node: int | None = None
        self.failure = Failure.NONE
        """Why its last request that failed did."""
        self.idle = False
        """Whether no request is under way, after the first: the helper may be waiting before it sends again."""

    # -- what goes over the wire -----------------------------------------------------------------------------------

    def begins(self, node: int, path: str, body: bytes) -> None:
        """A request of these bytes is about to be sent. Raises :class:`Stopped` when the load is over, unless it is the
        first, which was due."""
        if self.attempts and self._stopped():
            raise Stopped
        found = (_ACTION.match(line) for line in body.split(b"\n")[:-1:2])
        self._numbers = [int(each[1]) for each in found if each is not None]
        again = all(self._sent[n - self._first] for n in self._numbers)
        self._asked = self._judge.sent_bulk(path, self._numbers, again=again)
        for n in self._numbers:
            self._sent[n - self._first] = True
        self.node, self.idle = node, False
        self.attempts += 1

    def answered(self, status: int, text: str) -> None:
        """It was answered by a status 2xx."""
        assert self._asked is not None and self.node is not None
        self.status = status
        self.length += len(text)
        judged: Judged = self._judge.of(self._asked, status, text, time.monotonic_ns())
        self._last = Outcome(judged.outcome)
        if judged.items is None:
            self._leave_open()
        else:
            self._answered = True
            for n, item in zip(self._numbers, judged.items, strict=True):
                self._take(n - self._first, item)
        if judged.outcome is Outcome.PARTIAL or (judged.items is not None and judged.outcome is not Outcome.OK):
            self.failure = self._partial(status, text, self.node)
        elif judged.outcome is Outcome.GARBLED:
            self.failure = Failure.GARBLED
        if judged.says:
            self.failure = Failure.WRONG
            self._wrong(judged.says, self.node)
        self.idle = True  # not before: judging lets others on, and who ends idle calls would lose what was answered

    def _take(self, place: int, item: int) -> None:
        """The last word on a document stands, but for one that was acknowledged before; and a refusal does not close
        what an earlier request left open."""
        if self._outcomes[place] not in ACKNOWLEDGED_ITEMS:
            refused = item not in ACKNOWLEDGED_ITEMS
            self._outcomes[place] = ItemOutcome.UNKNOWN if refused and self._open[place] else item

    def fails(self, error: Exception) -> None:
        """It ended otherwise."""
        assert self.node is not None
        outcome, self.status = of_error(error)
        self._last = outcome
        if outcome not in _NOTHING_DONE:
            self._leave_open()
        self.failure = self._raised(error, self.node)
        self.idle = True

    def _leave_open(self) -> None:
        for n in self._numbers:
            self._open[n - self._first] = True
            if self._outcomes[n - self._first] not in ACKNOWLEDGED_ITEMS:
                self._outcomes[n - self._first] = ItemOutcome.UNKNOWN

    def reads(self, answer: Any) -> None:
        """The helper is about to be given this answer: each of its items bears a number from now on."""
        with suppress(*UNREADABLE):
            for n, entry in zip(self._numbers, answer["items"], strict=False):
                for action, details in entry.items():
                    item = Item(details)
                    item.number = n
                    entry[action] = item

    # -- what the caller is told -----------------------------------------------------------------------------------

    def told(self, ok: bool, item: Mapping[str, Any]) -> None:
        """Of one document, as ``{action: details}``."""
        for details in item.values():
            number = getattr(details, "number", None)
            if number is None:
                number = getattr(details.get("data"), "number", None)
            if number is not None:
                self._told[number - self._first] = CallerTold.STORED if ok else CallerTold.FAILED

    def counted(self, stored: int) -> None:
        """Of all that were not named: how many were stored. Where that is not all of them, it is not told which are."""
        places = [place for place, told in enumerate(self._told) if told is None]
        for place in places:
            sure = stored == len(places) or self._outcomes[place] in ACKNOWLEDGED_ITEMS
            self._told[place] = CallerTold.STORED if sure else CallerTold.NOTHING

    def ended(self, error: BaseException | None) -> None:
        """The helper returned, or raised."""
        for place, told in enumerate(self._told):
            if told is None:
                self._told[place] = self._silence(place, error)

    def _silence(self, place: int, error: BaseException | None) -> CallerTold:
        if error is None:
            return CallerTold.NOTHING
        if isinstance(error, Stopped):
            return CallerTold.CUT_SHORT
        return CallerTold.RAISED if self._sent[place] else CallerTold.NEVER_SENT

    # -- what came of it -------------------------------------------------------------------------------------------

    @property
    def items(self) -> bytes | None:
        """The outcome of each document by the cluster's word; None where no request was answered for each."""
        return bytes(self._outcomes) if self._answered else None

    @property
    def heard(self) -> bytes:
        """What the caller was told of each document."""
        return bytes(CallerTold.CUT_SHORT if told is None else told for told in self._told)

    @property
    def outcome(self) -> Outcome:
        """That of the call as a whole: of its documents, where its last request was answered for each."""
        told = self._last in (Outcome.OK, Outcome.PARTIAL, Outcome.REJECTED) and self._answered
        return of_items(self._outcomes) if told else self._last
