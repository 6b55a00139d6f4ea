"""The history's file format: what a run leaves on disk, readable with nothing but this package.

Times are absolute CLOCK_MONOTONIC nanoseconds of the machine that ran the driver (``time.monotonic_ns()``);
pairs with wall-clock time are sampled beside them (event ``clock``).

``history/scheduled.bin`` and ``history/arrivals.bin`` hold packed little-endian rows (below), appended and
flushed at least every second. ``scheduled.bin`` is written *before* its arrivals are due, so that an arrival
without an outcome row is a known unknown and never just absent. ``history/arrivals.json`` names the tables
behind the small integers. ``history/events.jsonl`` (the runner) and ``history/driver.jsonl`` (the driver)
hold one JSON object a line.

``history/items.bin`` is there where requests write several documents: what became of each (:mod:`chaos.history.items`).
``history/told.bin`` is there where a helper of a client library sent them: what it told its caller of each.
``history/parts.bin`` is there where requests have several searches: the :class:`Outcome` of each, laid out as items.
``history/changes.bin`` is there where some items update or delete earlier documents: which item is about which document
(:mod:`chaos.history.changes`).
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

HISTORY_VERSION = 1
RULES = 2
"""The number of the rules that a run is recorded and judged under (``rules`` of plan.json, outside the plan's hash).

What decides an outcome changes only with this number. Rules 1 are those of runs whose plan has none: they are judged as
they were, and their page lists what the newest rules would add. docs/trust.md says what each number brought.
"""

DRIVERS = "driver-*"
"""Folders in ``history/`` of further driver processes, where a load has several: each has files of the same names and
forms as the first, whose lie in ``history/`` itself. Arrival ``k`` is of process ``k`` modulo their number."""


class Outcome(IntEnum):
    """What became of one scheduled arrival. Exactly one each."""

    OK = 0
    PARTIAL = 1
    """Answered 2xx, but shards failed, it timed out inside, or a bulk item failed."""
    REJECTED = 2
    """429."""
    SERVER_ERROR = 3
    """5xx."""
    REFUSED = 4
    """No connection was made: nobody listens there, or who does is not to be trusted. Nothing was sent."""
    RESET = 5
    """The connection was closed before any answer began, or torn (reset) at any time after the request was sent."""
    TIMEOUT = 6
    DROPPED = 7
    """The driver itself could not send it: its pool was full. Never the cluster's fault."""
    UNKNOWN = 8
    """Scheduled, but no outcome was recorded (the driver died or was stopped)."""
    CLIENT_ERROR = 9
    """A 4xx other than 429: a fault of the request, so of this suite."""
    GARBLED = 10
    """Answered with something that is no answer: no HTTP, a body that is cut short or framed, encoded or decoded
    wrongly, one beyond all measure, or under status 2xx no JSON of the shape that the operation must have.

    From its first byte on it is an answer, so it is the server side's and never good; whether a write was done, it
    does not say. A body that ended in good order and too early is garbled as well. A process that is killed in the
    middle of an answer leaves the same bytes as a proxy that cuts answers short, and nobody at this end can tell them
    apart: the name says what came and not who did it. Only where TCP itself reports a torn connection it is a reset.
    """
    WRONG = 11
    """Answered 2xx, readable, whole by its own word, and not what was asked for: another document or another index,
    hits that do not match, are twice there or are fewer than it counts, fewer shards than the index has, a write that
    no copy took (:mod:`chaos.load.right`). Never good, and of a write no acknowledgement. It says what came, and not
    who sent it: a proxy that forges answers looks like a node that does. Runs under rules 1 have none."""


class ItemOutcome(IntEnum):
    """What became of one document of a bulk that was answered, by the item of the answer that stands for it."""

    CREATED = 0
    UPDATED = 1
    """Acknowledged, over a document of that id: a second try of our own, since ids are ours alone."""
    DEGRADED = 2
    """Acknowledged, and a copy that should have taken it did not."""
    REJECTED = 3
    """429."""
    BLOCKED = 4
    """403: the index takes no writes now (``cluster_block_exception``), as beyond the flood stage of a disk."""
    CONFLICT = 5
    """409: it met an earlier try of its own, which was not acknowledged."""
    INVALID = 6
    """Any other 4xx: a document that the mapping refuses, an index that is not there."""
    FAILED = 7
    """5xx."""
    UNKNOWN = 8
    """The answer has nothing that stands for it, or what stands for it cannot be read."""
    WRONG = 9
    """What stands for it speaks of another document, or contradicts itself. No acknowledgement."""
    MISSING = 10
    """404: the document that it was to update or to delete is not there. A delete that the cluster repeats by itself
    meets its own first try so; a document that was lost answers the same. No acknowledgement."""
    CHANGED = 11
    """Acknowledged: an update of an earlier document."""
    DELETED = 12
    """Acknowledged: a delete of an earlier document."""


class Action(IntEnum):
    """What an item of a bulk does: it writes a document of its own, or changes an earlier one of its stream."""

    CREATE = 0
    UPDATE = 1
    DELETE = 2


ACKNOWLEDGED_ITEMS = (
    ItemOutcome.CREATED,
    ItemOutcome.UPDATED,
    ItemOutcome.DEGRADED,
    ItemOutcome.CHANGED,
    ItemOutcome.DELETED,
)
"""Of these the cluster said that it has them."""


class CallerTold(IntEnum):
    """What a helper of a client library told its caller of one document: ``history/told.bin``, in the form of
    ``items.bin``. What the cluster said of it stands there."""

    STORED = 0
    FAILED = 1
    RAISED = 2
    """The call ended in an exception that does not name it."""
    NOTHING = 3
    """The call returned and said nothing of it, or a count alone that leaves open whether it is among them."""
    NEVER_SENT = 4
    """The call ended in an exception before the document was sent."""
    CUT_SHORT = 5
    """The load was over before the call had ended."""


NO_INDEX = 255
"""Stands for "none" in the one-byte columns ``client`` and ``node``."""

SCHEDULED = np.dtype([("k", "<u8"), ("op", "u1"), ("intended", "<i8")])
"""``k``: the arrival's number, from 0, over all operations. ``op``: index into ``operations``."""

ARRIVAL = np.dtype(
    [
        ("k", "<u8"),
        ("op", "u1"),
        ("outcome", "u1"),
        ("status", "<u2"),  # HTTP status, 0 when there was none
        ("client", "u1"),  # index into ``clients``: the client host (its zone) that sent it
        ("node", "u1"),  # index into ``nodes``: the node that it was sent to
        ("attempts", "u1"),  # HTTP requests made for it
        ("failure", "u1"),  # why it failed (chaos.history.failures); 0 = it did not, or a record of before that
        ("intended", "<i8"),  # ns: when the schedule wanted it sent. Latency counts from here
        ("start", "<i8"),  # ns: when the driver sent it; 0 = never (so is ``end``)
        ("end", "<i8"),  # ns: when the answer was there
    ]
)
"""One finished arrival. Latency = end - intended; schedule lag = start - intended."""
