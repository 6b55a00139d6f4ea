"""Evaluates alert rules against a Prometheus as its own ruler does, whether or not it has them loaded.

Each rule's expression is asked for again and again. An element of the answer makes its alert *pending*, and *firing*
once it was in every answer for as long as the rule's ``for`` says; without an answer for several questions, and at the
first, the time before is asked for by one range query, so an alert that has fired for an hour fires at once.

An empty answer means well only where there is something to be well: every selector of the rule names series whose
newest sample is young enough, and its operands answer (:mod:`chaos.definitions.promql`). Else there is no data, and no
number. What fires is a number all the same, whatever is not known of the other rules.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.base.ages import CLOCKS_SECONDS, untimely
from chaos.base.text import one_line
from chaos.definitions.rules import AlertRule
from chaos.definitions.slis import INTERVALS, ResolvedSli
from chaos.opensearch.prometheus import DEADLINE_SECONDS, Answer, Server, refused
from chaos.opensearch.rest import UNREADABLE

Labels = frozenset[tuple[str, str]]
STEPS = 1000
"""Of a range query at most."""
NO_DATA = "no data of a rule"


@dataclass
class Active:
    """An alert of one rule: since when its expression has held, and when it last did (``time.monotonic()``)."""

    since: float
    last: float
    fired: bool = False


@dataclass
class State:
    """The alerts of one rule, as a ruler keeps them."""

    rule: AlertRule
    active: dict[Labels, Active] = field(default_factory=dict)
    heard: float | None = None
    """When the expression was last answered."""

    def forget(self) -> None:
        """What was pending is not known to have held all along."""
        self.active = {}

    def hear(self, now: float, found: Mapping[Labels, float]) -> None:
        """The expression holds ``now`` for these, each since the moment given, or since it was first heard."""
        for labels, since in found.items():
            known = self.active.setdefault(labels, Active(since, now))
            known.last = now
            known.fired = known.fired or now - known.since >= self.rule.for_
        for labels in self.active.keys() - found.keys():
            known = self.active[labels]
            if not known.fired or now - known.last >= self.rule.keep_firing_for:
                del self.active[labels]
        self.heard = now

    @property
    def firing(self) -> int:
        return sum(each.fired for each in self.active.values())


class AlertAsker:
    """How many alerts of an SLI's rules fire, asked again and again. For one thread; raises as :class:`Server` does."""

    looks_back: bool | None = None
    """Of a query alone: here each selector is asked for the moment of its newest sample."""

    def __init__(
        self,
        sli: ResolvedSli,
        folder: Path,
        *,
        deadline: float = DEADLINE_SECONDS,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``folder``: beside which its access's files are. ``deadline``: seconds for all that one question asks."""
        self._sli, self._server, self._deadline = sli, Server(sli, folder), deadline
        self._clock, self._monotonic = clock, monotonic
        self._states = [State(rule) for rule in sli.alerts]
        self._last: float | None = None
        self._ages: dict[str, Answer] = {}

    def ask(self) -> Answer:
        """Evaluate every rule once. Never raises what a server may cause."""
        try:
            return self._asked()
        except UNREADABLE as error:
            return _unreadable(error)

    def _asked(self) -> Answer:
        until = time.monotonic() + min(float(self._sli.every), self._deadline)
        clock = self._scalar("time()", until)
        if clock.value is None or clock.at is None:
            return clock
        if (elsewhen := untimely(clock.at, self._clock())) is not None:
            return Answer(at=clock.at, reached=True, why=f"it was evaluated {elsewhen}: a clock is wrong, or a cache")
        if clock.at == self._last:
            return Answer(at=clock.at, reached=True, why="the same answer as before, evaluated at the same moment")
        self._last, self._ages = clock.at, {}
        turns = [(state, self._turn(state, clock.at, until)) for state in self._states]
        lacking = [(state.rule, why) for state, why in turns if why is not None]
        fires = [state for state, why in turns if why is None and state.firing]
        firing, names = sum(state.firing for state in fires), tuple(dict.fromkeys(each.rule.alert for each in fires))
        if firing or not lacking:
            return Answer(float(firing), clock.at, reached=True, alerts=names)
        return _without(lacking, clock.at)

    def close(self) -> None:
        self._server.close()

    # ------------------------------------------------------------------------------------ one rule

    def _turn(self, state: State, at: float, until: float) -> Answer | None:
        """Evaluate one rule; why nothing is known of it, or None."""
        now, needs = self._monotonic(), state.rule.needs
        found = self._elements(state.rule.expr, until)
        if isinstance(found, Answer):
            return found
        for selector in needs.selectors:
            age = self._age(selector, until)
            if age.value is None and not (found and age.why == _nothing(selector)):
                return age  # what fires by another selector fires; old data says nothing of now
        if not found:
            for operand in needs.operands:
                answers = self._elements(operand, until)
                if isinstance(answers, Answer):
                    return answers
                if not answers:
                    return Answer(why="there are series, and this has no answer", said=operand, reached=True)
        known = state.heard is not None and now - state.heard <= INTERVALS * float(self._sli.every)
        since = dict.fromkeys(found, now)
        if not known:
            state.forget()
            if found and state.rule.for_:
                before = self._before(state.rule, at, until)
                if isinstance(before, Answer):
                    return before
                since |= {labels: now - before[labels] for labels in found if labels in before}
        state.hear(now, since)
        return None

    def _before(self, rule: AlertRule, at: float, until: float) -> dict[Labels, float] | Answer:
        """For how many seconds each element has been in every answer up to now."""
        step = max(float(self._sli.every), rule.for_ / STEPS)
        times = {"start": f"{at - rule.for_ - step:.3f}", "end": f"{at:.3f}", "step": f"{step:.3f}"}
        got = self._server.get("query_range", until, query=rule.expr, **times)
        result = _result(got, "matrix")
        if isinstance(result, Answer):
            return result
        found: dict[Labels, float] = {}
        for series in result:
            moments = [float(moment) for moment, _ in series["values"]]
            first = moments[-1]
            for moment in reversed(moments):
                if first - moment > 1.5 * step:
                    break
                first = moment
            if at - moments[-1] <= 1.5 * step:
                found[_labels(series)] = at - first
        return found

    def _age(self, selector: str, until: float) -> Answer:
        """The age (s) of the newest sample of a selector's series, or why there is none that counts."""
        if selector not in self._ages:
            self._ages[selector] = self._aged(selector, until)
        return self._ages[selector]

    def _aged(self, selector: str, until: float) -> Answer:
        newest = self._scalar(f"max(timestamp({selector}))", until)
        if newest.value is None or newest.at is None:
            return newest if newest.why != NOTHING else Answer(why=_nothing(selector), reached=True)
        age = newest.at - newest.value
        if age < -CLOCKS_SECONDS:
            return Answer(why=f"{selector} is of the future", said=f"{-age:.0f} s from now", reached=True)
        if age > self._sli.oldest:
            return Answer(why=f"{selector} is older than {self._sli.oldest.text}", said=f"{age:.0f} s", reached=True)
        return Answer(age, newest.at, reached=True)

    # ------------------------------------------------------------------------------------ one question

    def _elements(self, query: str, until: float) -> list[Labels] | Answer:
        """The labels of each element of a vector; a scalar is one without labels."""
        result = _result(self._server.get("query", until, query=query), "vector", "scalar")
        if isinstance(result, Answer):
            return result
        return [_labels(each) if isinstance(each, Mapping) else frozenset() for each in _each(result)]

    def _scalar(self, query: str, until: float) -> Answer:
        result = _result(self._server.get("query", until, query=query), "vector", "scalar")
        if isinstance(result, Answer):
            return result
        for each in _each(result):
            at, value = each["value"] if isinstance(each, Mapping) else each
            return Answer(float(value), float(at), reached=True)
        return Answer(why=NOTHING, reached=True)


NOTHING = "no series"


def _nothing(selector: str) -> str:
    return f"nothing there is {selector}"


def _result(got: tuple[int, Any] | Answer, *kinds: str) -> list[Any] | Answer:
    """The result of an answer of one of these kinds, or why there is none."""
    if isinstance(got, Answer):
        return got
    try:
        if (why := refused(*got)) is not None:
            return why
        data = got[1]["data"]
        if data["resultType"] not in kinds:
            return Answer(why=f"the answer is a {data['resultType']}: expected a vector", wrong=True, reached=True)
        return list(data["result"])
    except UNREADABLE as error:
        return _unreadable(error)


def _unreadable(error: Exception) -> Answer:
    return Answer(why="its answer cannot be read", said=type(error).__name__)


def _each(result: list[Any]) -> Iterable[Any]:
    """The elements of a vector, or a scalar as one: [moment, text]."""
    return [result] if result and not isinstance(result[0], Mapping) else result


def _labels(element: Mapping[str, Any]) -> Labels:
    return frozenset((str(name), str(value)) for name, value in element["metric"].items() if name != "__name__")


def _without(lacking: list[tuple[AlertRule, Answer]], at: float) -> Answer:
    """The answer that is none: of which rules nothing is known, and why."""
    rule, first = lacking[0]
    others = f"{len(lacking)} rules, one of them " if len(lacking) > 1 else ""
    whys = [why for _, why in lacking]
    return Answer(
        at=at,
        why=NO_DATA,
        said=one_line(f"{others}{rule.alert}: {first.sentence}"),
        wrong=any(why.wrong for why in whys),
        reached=all(why.reached for why in whys),
    )
