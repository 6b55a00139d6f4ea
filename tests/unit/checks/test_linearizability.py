"""The search for a linearization: against trying every order, and against histories with a known answer."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.checks.data.linearizability import Call, Linearizable, check, register


def by_force(calls: list[Call], initial: Any) -> bool:
    """Every order of every choice of the calls that need not take effect."""
    sure = [n for n, call in enumerate(calls) if call.end is not None]
    maybe = [n for n, call in enumerate(calls) if call.end is None]
    for size in range(len(maybe) + 1):
        for chosen in itertools.combinations(maybe, size):
            for order in itertools.permutations([*sure, *chosen]):
                if _in_time(calls, order) and _allowed(calls, order, initial):
                    return True
    return False


def _in_time(calls: list[Call], order: tuple[int, ...]) -> bool:
    return all(
        calls[later].end is None or calls[later].end >= calls[earlier].begin  # type: ignore[operator]
        for earlier, later in itertools.combinations(order, 2)
    )


def _allowed(calls: list[Call], order: tuple[int, ...], state: Any) -> bool:
    for number in order:
        allowed, state = register(state, calls[number].operation)
        if not allowed:
            return False
    return True


VALUES = st.integers(0, 3)
OPERATIONS = st.one_of(
    st.tuples(st.just("read"), VALUES, st.none()),
    st.tuples(st.just("write"), VALUES, st.none()),
    st.tuples(st.just("cas"), VALUES, VALUES),
)
CALLS = st.builds(
    lambda begin, length, operation: Call(begin, None if length is None else begin + length, operation),
    st.integers(0, 12),
    st.one_of(st.none(), st.integers(0, 6)),
    OPERATIONS,
)


@given(st.lists(CALLS, max_size=6))
@settings(max_examples=600, deadline=None)
def test_it_says_what_trying_every_order_says(calls: list[Call]) -> None:
    order = check(calls, 0, register)
    assert order.verdict is (Linearizable.YES if by_force(calls, 0) else Linearizable.NO)
    if order.verdict is Linearizable.YES:  # and it shows one
        assert _in_time(calls, order.longest) and _allowed(calls, order.longest, 0)
        assert {n for n, call in enumerate(calls) if call.end is not None} <= set(order.longest)
    assert len(set(order.longest)) == len(order.longest)


@st.composite
def real(draw: st.DrawFn) -> list[Call]:
    """A history that a register really went through: operations with a moment of effect inside their span."""
    state, calls = 0, []
    for moment in range(draw(st.integers(0, 40))):
        operation = draw(OPERATIONS)
        if operation[0] == "read":
            operation = ("read", state, None)
        allowed, state = register(state, operation)
        begin, end = 10 * moment - draw(st.integers(0, 25)), 10 * moment + draw(st.integers(0, 25))
        sure = draw(st.booleans())
        if allowed or not sure:
            calls.append(Call(begin, end if sure else None, operation))
    return draw(st.permutations(calls))


@given(real())
@settings(max_examples=150, deadline=None)
def test_what_really_happened_is_linearizable(calls: list[Call]) -> None:
    assert check(calls, 0, register).verdict is Linearizable.YES


def cas(begin: float, end: float | None, before: int, after: int) -> Call:
    return Call(begin, end, ("cas", before, after))


def read(begin: float, end: float, value: int) -> Call:
    return Call(begin, end, ("read", value, None))


@pytest.mark.parametrize(
    ("what", "calls"),
    [
        ("a lost update", [cas(0, 1, 0, 1), cas(2, 3, 1, 2), read(4, 5, 1)]),
        ("a stale read", [cas(0, 1, 0, 1), read(2, 3, 0)]),
        ("a dirty read", [cas(0, None, 0, 1), read(2, 3, 1), cas(4, 5, 0, 2)]),
        ("two acknowledged changes of one value", [cas(0, 5, 0, 1), cas(1, 4, 0, 2)]),
        ("a value that nobody wrote", [cas(0, 1, 0, 1), read(2, 3, 7)]),
        ("reads that go back", [cas(0, None, 0, 1), read(1, 2, 1), read(3, 4, 0)]),
        ("an effect before its invocation", [read(0, 1, 1), cas(2, 3, 0, 1)]),
    ],
)
def test_planted_violations(what: str, calls: list[Call]) -> None:
    assert check(calls, 0, register).verdict is Linearizable.NO


@pytest.mark.parametrize(
    "calls",
    [
        [],
        [cas(0, None, 0, 1)],  # it never took effect, or nobody looked
        [cas(0, None, 0, 1), read(100, 101, 1)],  # it did, long after
        [cas(0, None, 0, 1), read(100, 101, 0), cas(102, 103, 0, 2)],  # it never did
        [cas(0, 10, 0, 1), read(1, 2, 0), read(3, 4, 1)],  # somewhere in between
        [cas(0, 5, 1, 2), cas(0, 5, 0, 1)],  # the order of the list means nothing
        [cas(0, 1, 0, 1), read(1, 2, 0)],  # they touch, so they are concurrent
    ],
)
def test_what_is_allowed(calls: list[Call]) -> None:
    assert check(calls, 0, register).verdict is Linearizable.YES


def test_a_long_history_takes_few_steps_and_one_change_of_it_is_found() -> None:
    calls = []
    for n in range(1500):  # a read beside each change
        calls += [cas(10 * n, 10 * n + 6, n, n + 1), read(10 * n, 10 * n + 9, n + 1)]
    order = check(calls, 0, register)
    assert order.verdict is Linearizable.YES and order.steps < 10 * len(calls)
    calls[-1] = read(14_990, 14_999, 700)
    order = check(calls, 0, register)
    assert order.verdict is Linearizable.NO and len(order.longest) == len(calls) - 1


def test_when_the_steps_are_used_up_the_answer_is_unknown() -> None:
    calls = [Call(0, 100, ("write", n, None)) for n in range(12)] + [read(101, 102, 99)]
    order = check(calls, 0, register, steps=5000)
    assert order.verdict is Linearizable.UNKNOWN and order.steps == 5001
