"""Is there an order of these operations that a single copy of the object could have carried out? Pure.

The algorithm of Wing and Gong (1993) with the cache of Lowe (2017), as Knossos, Porcupine and OpenSearch's own
LinearizabilityChecker use it: walk the invocations and returns in the order of time; take any operation that has
begun before the first return of one that is still open, if the object allows it; go on from there, and go back when
stuck. A pair (operations taken, state) is never tried twice. Histories are checked object by object, which is enough
(Herlihy and Wing 1990: linearizability is local).

An operation of which nobody knows what became of it may take effect at any time after its invocation, or never: it
has no return, and nothing waits for it. The walk is bounded by a number of steps and not by a clock, so that a
history has the same verdict on every machine; when they are used up the verdict is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

State = TypeVar("State")

STEPS = 1_000_000
"""About two seconds."""


class Linearizable(Enum):
    """The answer. UNKNOWN: the steps were used up before there was one."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Call:
    """One operation. ``begin`` and ``end`` on any clock; ``end`` None: it may take effect at any later time, or never.

    Operations that touch in time (one ends when another begins) count as concurrent.
    """

    begin: float
    end: float | None
    operation: Any


@dataclass(frozen=True)
class Order:
    """``longest``: positions of the calls in the longest order that was found; ``steps``: walked."""

    verdict: Linearizable
    longest: tuple[int, ...]
    steps: int


Step = Callable[[State, Any], tuple[bool, State]]
"""(state, operation) -> whether the object allows it, and the state afterwards. States must be hashable."""


class _Line(Generic[State]):
    """Invocations and returns in time as a doubly linked list, from which a call can be lifted and put back.

    Entry 0 is the head; entry e of e > 0 is ``(call, is_return)`` in ``entries[e - 1]``; ``end`` is behind the last.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        moments: list[tuple[float, bool, int]] = [(call.begin, False, number) for number, call in enumerate(calls)]
        moments += [(call.end, True, number) for number, call in enumerate(calls) if call.end is not None]
        moments.sort()
        self.entries = [(number, is_return) for _, is_return, number in moments]
        self.end = len(moments) + 1
        self.next = list(range(1, self.end + 2))
        self.previous = list(range(-1, self.end + 1))
        self.places: list[list[int]] = [[] for _ in calls]
        for place, (number, _) in enumerate(self.entries, 1):
            self.places[number].append(place)

    def lift(self, number: int) -> None:
        for place in self.places[number]:
            before, after = self.previous[place], self.next[place]
            self.next[before], self.previous[after] = after, before

    def put_back(self, number: int) -> None:
        for place in reversed(self.places[number]):
            before, after = self.previous[place], self.next[place]
            self.next[before] = self.previous[after] = place


def check(calls: Sequence[Call], initial: State, step: Step[State], steps: int = STEPS) -> Order:
    """Look for an order in which every call with an end, and any of the others, is allowed one after the other."""
    line: _Line[State] = _Line(calls)
    state, taken = initial, 0
    stack: list[tuple[int, State]] = []
    seen = {(taken, state)}
    longest: tuple[int, ...] = ()
    entry, walked = line.next[0], 0
    while entry != line.end:
        walked += 1
        if walked > steps:
            return Order(Linearizable.UNKNOWN, longest, walked)
        number, is_return = line.entries[entry - 1]
        if not is_return:
            allowed, after = step(state, calls[number].operation)
            if allowed and (key := (taken | 1 << number, after)) not in seen:
                seen.add(key)
                stack.append((number, state))
                taken, state = key
                line.lift(number)
                entry = line.next[0]
            else:
                entry = line.next[entry]
            continue
        if len(stack) > len(longest):
            longest = tuple(place for place, _ in stack)
        if not stack:
            return Order(Linearizable.NO, longest, walked)
        number, state = stack.pop()  # it ends before anything else could be taken: the last choice was wrong
        taken ^= 1 << number
        line.put_back(number)
        entry = line.next[line.places[number][0]]
    return Order(Linearizable.YES, tuple(place for place, _ in stack), walked)


def register(state: int | None, operation: tuple[str, Any, Any]) -> tuple[bool, int | None]:
    """A compare-and-set register: ("read", value, None), ("write", value, None) or ("cas", expected, new)."""
    kind, first, second = operation
    if kind == "read":
        return state == first, state
    if kind == "write":
        return True, first
    return state == first, second if state == first else state
