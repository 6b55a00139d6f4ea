"""What a line of ``expect`` may say against itself: a weakness that is known, with its bound, and a promise relaxed.

Every run promises, without a line, that what it measures of its data is right (:attr:`.Metric.promise`: each such count
is 0). A line about the same metric takes the promise's place. Where it allows more, it says why: ``because``. A promise
about data takes no ``known_weakness``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chaos.base.units import Malformed
from chaos.definitions.domains import DOMAINS, why_not
from chaos.definitions.expectations import Comparison, ExpectationFile, WeaknessBound
from chaos.definitions.source import Loc, Problem

UPWARDS, DOWNWARDS = (">=", ">"), ("<=", "<")


def bound_of(given: ExpectationFile) -> WeaknessBound | None:
    """The bound of a line's known weakness; None where there is none. Raises :class:`Malformed`."""
    if given.known_weakness is None or given.known_weakness.bound is None:
        return None
    bound = Comparison.parse(given.known_weakness.bound, given.wanted.unit)
    return WeaknessBound(comparison=bound.comparison, value=bound.value, text=bound.text)


def check(lines: Sequence[ExpectationFile]) -> Iterator[Problem]:
    """Every contradiction between a line and its note, or between a line and what every run promises."""
    for index, given in enumerate(lines):
        loc: Loc = ("expect", index)
        if given.known_weakness is not None and given.grammar.promise:
            says = f"{given.metric} is a promise about data, which takes no known_weakness: expected a bound that"
            yield Problem((*loc, "known_weakness"), f'{says} allows what is meant, and because: "why"', at_key=True)
        else:
            yield from _bound(given, loc)
        yield from _relaxed(given, loc)


def _relaxed(given: ExpectationFile, loc: Loc) -> Iterator[Problem]:
    wanted, more = given.wanted, given.grammar.promise and allows_more(given.wanted)
    if why_not(wanted) is not None:
        return  # refused for that, and no reason would mend it
    if more and given.because is None:
        says = f"{given.metric} {wanted.text} allows what every run promises not to happen ({given.metric}: 0)"
        remedy = f'expected because: "why" in this line, or {given.metric}: 0'
        yield Problem((*loc, given.metric), f"{says}: {remedy}", at_key=True)
    if not more and given.because is not None:
        promise = f"{given.metric} {wanted.text} allows no more than every run promises"
        other = f"no run promises anything about {given.metric} unless a line says so"
        says = promise if given.grammar.promise else other
        yield Problem((*loc, "because"), f"there is nothing to give a reason for: {says}; leave it out", at_key=True)


def allows_more(wanted: Comparison) -> bool:
    """Whether some count above 0 is as wanted."""
    if wanted.comparison in UPWARDS:
        return True
    return wanted.value > 1 if wanted.comparison == "<" else wanted.value >= 1


def _bound(given: ExpectationFile, loc: Loc) -> Iterator[Problem]:
    """The bound can be read, is worse than what is wanted, and not so bad that everything is within it."""
    where = (*loc, "known_weakness", "bound")
    try:
        bound = bound_of(given)
    except Malformed as error:
        yield Problem(where, f"bound: {error.message}")
        return
    if bound is None:
        return
    wanted = given.wanted
    upwards = wanted.comparison in UPWARDS
    signs = UPWARDS if upwards else DOWNWARDS
    worse = bound.value < wanted.value if upwards else bound.value > wanted.value
    if bound.comparison not in signs or not worse:
        side = "less" if upwards else "more"
        says = f"bound {bound.text} is not how bad {given.metric} {wanted.text} may be"
        yield Problem(where, f"{says}: expected {signs[0]} and {side} than {wanted.text.partition(' ')[2]}")
    elif DOMAINS[wanted.unit].never_fails(bound.comparison, bound.value):
        says = f"bound {bound.text} holds whatever happens: expected a bound that can be missed, or a note without one"
        yield Problem(where, says)
