"""What a test in Python reads of its run, and what the run says beside the test's own asserts.

A test's asserts are code, so their targets are not known beforehand. What YAML has as findings it has as numbers: each
knows what it would be without what was not the cluster's (:mod:`chaos.checks.forgiving`), and a comparison that comes
out otherwise then is refused, as a finding that hangs on it is inconclusive.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from pydantic import ValidationError

from chaos.base import text
from chaos.base.errors import InvalidInput
from chaos.checks import good, plainly, validity
from chaos.checks.evidence import Spoils
from chaos.checks.forgiving import Doubt
from chaos.checks.measure import Measure
from chaos.checks.models import FindingsFile
from chaos.checks.reasons import Cause, Outcome
from chaos.checks.record import Record, Span
from chaos.definitions import Topology, crosschecks
from chaos.definitions.base import API_VERSION
from chaos.definitions.expectations import Expectation, ExpectationFile
from chaos.definitions.experiment import expectation
from chaos.definitions.source import Problem
from chaos.registry import GRAMMAR

Refuse = Callable[[str], NoReturn]
Number = int | float


# ---- numbers --------------------------------------------------------------------------------------------


class Measured(float):
    """A number of a run with what it would be without what was not the cluster's: ``others``, why → value.

    It compares like a float where all of them compare alike; else ``refuse`` is called with the reason. What is made of
    it by arithmetic knows the same. Everything else sees the plain number, as it was measured.
    """

    others: Mapping[str, float]
    refuse: Refuse

    def __new__(cls, value: float, others: Mapping[str, float], refuse: Refuse) -> Measured:
        made = super().__new__(cls, value)
        made.others, made.refuse = others, refuse
        return made

    def _with(self, do: Callable[..., float], *numbers: Number, swapped: bool = False) -> Any:
        """The same arithmetic for the number and each of the others."""
        if any(not isinstance(number, int | float) for number in numbers):
            return NotImplemented
        whys = dict.fromkeys([*self.others, *(why for each in numbers for why in getattr(each, "others", ()))])

        def done(why: str | None) -> float:
            own = [_as(self, why), *(_as(number, why) for number in numbers)]
            return do(*(reversed(own) if swapped else own))

        return Measured(done(None), {why: done(why) for why in whys}, self.refuse)

    def _compared(self, compare: Callable[[float, float], bool], other: Any) -> Any:
        if not isinstance(other, int | float):
            return NotImplemented
        measured = compare(float(self), float(other))
        for why in dict.fromkeys([*self.others, *getattr(other, "others", ())]):
            if compare(_as(self, why), _as(other, why)) is not measured:
                told = f"{_shown(self)} was measured, and it would be {_shown(_as(self, why))} {why}"
                self.refuse(f"{told}: a comparison with {_shown(_as(other, None))} hangs on that")
        return measured

    def __lt__(self, other: Any) -> Any:
        return self._compared(operator.lt, other)

    def __le__(self, other: Any) -> Any:
        return self._compared(operator.le, other)

    def __gt__(self, other: Any) -> Any:
        return self._compared(operator.gt, other)

    def __ge__(self, other: Any) -> Any:
        return self._compared(operator.ge, other)

    def __eq__(self, other: object) -> Any:
        return self._compared(operator.eq, other)

    def __ne__(self, other: object) -> Any:
        return self._compared(operator.ne, other)

    __hash__ = float.__hash__

    def __add__(self, other: Any) -> Any:
        return self._with(operator.add, other)

    def __radd__(self, other: Any) -> Any:
        return self._with(operator.add, other)

    def __sub__(self, other: Any) -> Any:
        return self._with(operator.sub, other)

    def __rsub__(self, other: Any) -> Any:
        return self._with(operator.sub, other, swapped=True)

    def __mul__(self, other: Any) -> Any:
        return self._with(operator.mul, other)

    def __rmul__(self, other: Any) -> Any:
        return self._with(operator.mul, other)

    def __truediv__(self, other: Any) -> Any:
        return self._with(operator.truediv, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(operator.truediv, other, swapped=True)

    def __neg__(self) -> Any:
        return self._with(operator.neg)

    def __abs__(self) -> Any:
        return self._with(abs)

    def __round__(self, digits: Any = None) -> Any:
        return self._with(lambda value: round(value, digits))


def _as(number: Number, why: str | None) -> float:
    """A number as it would be for a reason; as it was measured where the reason does not touch it."""
    others: Mapping[str, float] = getattr(number, "others", {})
    return float(number) if why is None else others.get(why, float(number))


def _shown(value: float) -> str:
    return f"{float(value):.6g}"


# ---- what is read of a phase ----------------------------------------------------------------------------


class OperationResult:
    """One operation in one phase. ``good``: share 0..1 of scheduled; ``latency(q)``: seconds, inf if unanswered."""

    def __init__(self, record: Record, doubt: Doubt, name: str, span: Span, refuse: Refuse) -> None:
        table: Any = good.table(record, name, span)
        self.scheduled: int = table["scheduled"]
        self._share: float | None = table["share"]
        self._outcomes: dict[str, int] = table["outcomes"]
        self._record, self._doubt, self._name, self._span, self._refuse = record, doubt, name, span, refuse
        self.read = False
        """Whether the test looked at a number that depends on time."""

    @property
    def good(self) -> float | None:
        self.read = True
        return None if self._share is None else self._measured(self._good)

    @property
    def outcomes(self) -> dict[str, int]:
        """How many arrivals came to each end. Plain counts: a test that fails after it read them is not refused here
        but by :attr:`doubtful`."""
        self.read = True
        return self._outcomes

    def latency(self, quantile: float) -> float:
        """The nearest-rank quantile (0..1) from the intended start, in seconds."""
        self.read = True

        def of(record: Record) -> float:
            found = record.in_phase(self._name, self._span).latency
            return float(np.quantile(found, quantile, method="inverted_cdf"))

        return self._measured(of)

    @property
    def doubtful(self) -> str | None:
        """Why its counts are not the cluster's alone, where the test read any; None where they are."""
        share = self.good if self.read and self._share is not None else None
        if not isinstance(share, Measured):
            return None
        why, other = next(iter(share.others.items()))
        return f"{_shown(share)} of {self._name}s were good in {self._span.name}, and it would be {_shown(other)} {why}"

    def _good(self, record: Record) -> float:
        share: Any = good.table(record, self._name, self._span)["share"]
        return float(share)

    def _measured(self, of: Callable[[Record], float]) -> float:
        """A number with what it would be otherwise; a plain one where it would be the same."""
        value = of(self._record)
        others: dict[str, float] = {}

        def measure(record: Record) -> Measure:
            return Measure(of(record), "number", "")

        hangs = self._doubt.decides(measure, lambda other: other.value == value, self._span)
        if hangs is not None:
            alone, why = hangs
            others[why] = float(alone.value or 0.0)
            if (forgiven := self._doubt.forgiven) is not None:
                others.setdefault("without all that was not the cluster's", of(forgiven))
        if (hopeful := validity.hopeful(self._record)) is not None:
            others["if the arrivals were good that the driver dropped or recorded no outcome of"] = of(hopeful)
        others = {why: other for why, other in others.items() if other != value}
        return Measured(value, others, self._refuse) if others else value


class PhaseResult:
    """A phase of a load run: ``.read`` and ``.write``."""

    def __init__(self, operations: dict[str, OperationResult], seconds: float) -> None:
        self.seconds = seconds
        self.operations = operations

    def __getattr__(self, name: str) -> OperationResult:
        # called for what is no attribute; before __init__ nothing is
        operations: dict[str, OperationResult] = vars(self).get("operations", {})
        if name not in operations:
            raise AttributeError(f"no operation '{name}' in this phase")
        return operations[name]


def phases(record: Record, refuse: Refuse) -> dict[str, PhaseResult]:
    """Each phase by its name. ``refuse`` is called where a comparison hangs on what was not the cluster's."""
    doubt = Doubt(record)
    return {
        span.name: PhaseResult(
            {each.name: OperationResult(record, doubt, each.name, span, refuse) for each in record.operations},
            span.seconds,
        )
        for span in record.spans
    }


# ---- what the run says beside the asserts ---------------------------------------------------------------


def weaknesses(findings: FindingsFile) -> list[str]:
    """What the cluster broke that every run promises, or a line of the test: red, whatever the asserts say."""
    return list(_reasons(findings, Outcome.WEAKNESS))


def gaps(findings: FindingsFile, *, timed: bool) -> list[str]:
    """Why nothing can be concluded from the run. ``timed``: the test read numbers that depend on time.

    That the run has no expectation of its own is no gap: the test's asserts are.
    """
    found = list(_reasons(findings, Outcome.INCONCLUSIVE))
    spoiling = (Spoils.ALL, Spoils.TIME) if timed else (Spoils.ALL,)
    for check in (findings.get("validity") or {}).get("checks") or []:
        if not check["ok"] and check.get("spoils") in spoiling:
            found.append(validity.Condition(**{**check, "spoils": Spoils(check["spoils"])}).gap.says)
    return list(dict.fromkeys(found))


def _reasons(findings: FindingsFile, outcome: Outcome) -> Iterator[str]:
    for each in findings.get("reasons") or []:
        if each["outcome"] == outcome and each["cause"] != Cause.NOTHING_EXPECTED:
            plain = plainly.reason(each, findings["findings"], findings["tables"])
            yield plain if outcome is Outcome.WEAKNESS else each["says"]


# ---- lines of a test ------------------------------------------------------------------------------------


def lines(
    given: Sequence[Mapping[str, Any]], topology: Topology, operations: Collection[str] = ("read", "write")
) -> tuple[Expectation, ...]:
    """Expectations of a test in Python, written as lines of ``expect``. ``operations``: those of its load.

    They are of the whole run, since its phases are made as it runs. Raises InvalidInput for one that is wrong, or that
    would be refused in YAML.
    """
    model: Any = GRAMMAR.experiment_file.model_fields["expect"].annotation.__args__[0]  # type: ignore[union-attr]
    found = []
    for number, line in enumerate(given):
        try:
            read = model.model_validate(dict(line))
        except ValidationError as error:
            raise InvalidInput(f"expect[{number}] of the load: {error.errors()[0]['msg']}") from None
        if not read.grammar.whole_run or read.grammar.needs:
            says = f"expect[{number}] of the load: {read.metric} is of a phase, or of operations that it does not have"
            raise InvalidInput(says, remedy="assert on running.phases for that, or write the experiment in YAML")
        found.append(read)
    if wrong := [problem.says for problem in _as_in_yaml(found, topology, operations)]:
        raise InvalidInput(f"expect of the load: {text.listed(wrong)}")
    return tuple(expectation(each, None) for each in found)


def _as_in_yaml(found: Sequence[ExpectationFile], topology: Topology, operations: Collection[str]) -> Iterator[Problem]:
    """What would be wrong with these lines in an experiment that has this load, and no more."""
    if not found:
        return
    if not operations:
        raise InvalidInput("expect of a load that neither reads nor writes", remedy="give it read or write")
    loads = {name: {"rate": "1/s", "good": "ok within 1s"} for name in operations}
    bare = {"apiVersion": API_VERSION, "name": "test", "topology": topology.name, "phases": {"test": {"for": "1s"}}}
    file = GRAMMAR.experiment_file.model_validate({**bare, "load": loads, "expect": found})
    yield from (each for each in crosschecks.check(file, topology, GRAMMAR) if each.loc[0] == "expect")
