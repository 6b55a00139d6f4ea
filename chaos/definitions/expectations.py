"""What users want, as data: a metric, a comparison, and the phases that it is judged in."""

from __future__ import annotations

import operator
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    create_model,
    model_serializer,
    model_validator,
)
from pydantic_core import core_schema

from chaos.base.units import Duration, Malformed, Number, Percent, PositiveDuration
from chaos.definitions.base import OneOrMore, Strict

Unit = Literal["percent", "duration", "count", "number"]


@dataclass(frozen=True)
class Metric:
    """What an expectation may name. ``whole_run``: of the run and no phase.

    ``needs``: operations of their own, one of which must be in the load. ``operation``: the one that it is of; None
    for a metric of the cluster. ``of_writes``: it is about documents that the load writes; ``of_controllers``: about
    failover controllers, ``of_acting`` about what they do; ``of_replicas``: about replicas that copy segments;
    ``of_store``: about what a remote store alone gives back; ``of_uploads``: about what nodes send to a remote store;
    ``of_service``: about a service with a host, an object store; ``of_rollover``: about rollovers of the load's
    indices; ``actions``: about what one of these actions of a phase does. ``promise``: every run that
    measures it wants it to be 0, with or without a line. ``command``: what a line names is a program with its
    arguments, and the value is its exit code, which is to be 0.
    """

    name: str
    unit: Unit
    whole_run: bool = False
    needs: tuple[str, ...] = ()
    operation: str | None = None
    of_writes: bool = False
    of_controllers: bool = False
    of_replicas: bool = False
    of_store: bool = False
    of_acting: bool = False
    of_uploads: bool = False
    of_service: bool = False
    of_rollover: bool = False
    actions: tuple[str, ...] = ()
    promise: bool = False
    command: bool = False


_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
}
SAYS_SOMETHING = r"\S"
"""A pattern for text that is not empty and no mere space."""
_SIGN = r"(?:>=|<=|==|=|<|>)"
_UNITS: dict[Unit, tuple[str, str]] = {
    "percent": ("a percentage", '">= 99.9%"'),
    "duration": ("a duration", '"<= 10s"'),
    "count": ("a count", '0 or "<= 3"'),
    "number": ("a number, a share or a duration", '"< 0.01", "< 1%" or "<= 250ms"'),
}


class Comparison(Strict):
    """``>= 99.9%`` taken apart. ``value`` is in the unit's base: fraction, seconds or a number."""

    unit: Unit
    comparison: Literal[">=", "<=", "<", ">", "=="]
    value: float
    text: str

    @classmethod
    def parse(cls, given: Any, unit: Unit) -> Comparison:
        """Read an expectation's value. Raises :class:`Malformed`."""
        if isinstance(given, Comparison):
            return given
        what, example = _UNITS[unit]
        wanted = f"expected {what} with a comparison, for example {example}"
        if isinstance(given, bool) or not isinstance(given, str | int):
            raise Malformed(f"cannot read {given!r}: {wanted}")
        match = re.fullmatch(rf"({_SIGN})?\s*(\S.*)", str(given).strip())
        if match is None:
            raise Malformed(f"cannot read {given!r}: {wanted}")
        sign, amount = match.groups()
        if unit != "count" and not sign:
            raise Malformed(f"{given!r} has no comparison: {wanted}")
        try:
            value, text = _amount(amount, unit)
        except Malformed as error:
            raise Malformed(f"cannot compare with {amount!r}: {wanted} ({error.message})") from None
        exactly = sign in (None, "=", "==")
        return cls(
            unit=unit,
            comparison="==" if exactly else sign,  # type: ignore[arg-type]
            value=value,
            text=f"{'=' if exactly else sign} {text}",
        )


def _amount(text: str, unit: Unit) -> tuple[float, str]:
    if unit == "percent":
        percent = Percent.parse(text)
        return float(percent), percent.text
    if unit == "duration":
        duration = Duration.parse(text)
        return float(duration), duration.text
    if unit == "number":
        return float(Number.parse(text)), "".join(text.split())
    if not re.fullmatch(r"[0-9]+", text, re.ASCII):
        raise Malformed("a count is a whole number without a unit")
    return float(text), str(int(text))


class _ComparisonSchema:
    """Publishes a comparison as the string (or, for a count, also the integer) that people write."""

    unit: ClassVar[Unit]
    pattern: ClassVar[str]

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return cls.published()

    @classmethod
    def published(cls) -> dict[str, Any]:
        text = {"type": "string", "pattern": cls.pattern}
        what, example = _UNITS[cls.unit]
        note = {"description": f"{what} with a comparison, for example {example}"}
        if cls.unit == "count":
            return {"anyOf": [{"type": "integer", "minimum": 0}, text], **note}
        return {**text, **note}


class _OfPercent(_ComparisonSchema):
    unit = "percent"
    pattern = rf"^{_SIGN}\s*{Percent.pattern()}$"


class _OfDuration(_ComparisonSchema):
    unit = "duration"
    pattern = rf"^{_SIGN}\s*{Duration.pattern()}$"


class _OfNumber(_ComparisonSchema):
    unit = "number"
    pattern = rf"^{_SIGN}\s*{Number.pattern()}$"


class _OfCount(_ComparisonSchema):
    unit = "count"
    pattern = rf"^{_SIGN}?\s*[0-9]+$"


class CommandLine(Comparison):
    """A program with its arguments, whose exit code is to be 0."""

    words: tuple[str, ...] = ()

    @classmethod
    def read(cls, given: Any) -> CommandLine:
        """Raises :class:`Malformed`."""
        if isinstance(given, CommandLine):
            return given
        if (
            not isinstance(given, list | tuple)
            or not given
            or not all(isinstance(word, str) and word for word in given)
        ):
            raise Malformed(
                f"cannot read {given!r}: expected a program and its arguments, for example [./check.sh, -v]"
            )
        return cls(unit="count", comparison="==", value=0.0, text=shlex.join(given), words=tuple(given))


class _OfCommand:
    """Publishes a command as the list of words that people write."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "minItems": 1,
            "description": "a program and its arguments, run without a shell once the load has settled: exit code 0 "
            "holds, 1 fails, 3 is inconclusive, anything else is an error",
        }


def _field(schema: type[_ComparisonSchema]) -> Any:
    return Annotated[Comparison, BeforeValidator(lambda given: Comparison.parse(given, schema.unit)), schema]


_PUBLISHED: dict[Unit, type[_ComparisonSchema]] = {
    "percent": _OfPercent,
    "duration": _OfDuration,
    "count": _OfCount,
    "number": _OfNumber,
}
_TYPES: dict[Unit, Any] = {
    "percent": _field(_OfPercent),
    "duration": _field(_OfDuration),
    "count": _field(_OfCount),
    "number": _field(_OfNumber),
}


_COMMAND: Any = Annotated[Comparison, BeforeValidator(CommandLine.read), _OfCommand]
COMMAND_WITHIN = Duration(30)
"""How long a command may take where a line says nothing."""


class KnownWeakness(Strict):
    """Why an expectation is known to fail, and how bad it may be. Text alone is a reason without a bound."""

    why: str = Field(pattern=SAYS_SOMETHING, description="why this is known to fail, and what was seen")
    bound: Any = Field(
        default=None,
        json_schema_extra={"anyOf": [{"type": "string"}, {"type": "integer"}]},
        description="how bad it may be, in the metric's unit, for example '<= 15s'; what is worse is a weakness",
    )


def _read_note(given: Any) -> Any:
    """A note as people write it: text, or a mapping."""
    if isinstance(given, str):
        if not given.strip():
            raise ValueError(f"expected some text: why this is known to fail; got {given!r}")
        return {"why": given}
    if given is not None and not isinstance(given, dict | KnownWeakness):
        raise ValueError(f"expected text, or a mapping with why and bound; got {given!r}")
    return given


class _NoteSchema:
    """Publishes a note as text, or as a mapping with its bound."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "pattern": SAYS_SOMETHING}, handler(schema)]}


Note = Annotated[KnownWeakness, BeforeValidator(_read_note), _NoteSchema]


class ExpectationFile(Strict):
    """One line of `expect`: exactly one metric, where it is judged, a note if it is known to fail."""

    metrics: ClassVar[Mapping[str, Metric]] = {}
    """Those that it may name."""

    phase: OneOrMore[str] = Field(
        default=("all",), description="a phase, a list of phases, or all; each is judged on its own"
    )
    known_weakness: Note | None = Field(
        default=None,
        description="why this is known to fail: text, or {why, bound}; the run fails when it passes, so that the note "
        "goes, and when it is worse than the bound",
    )
    because: str | None = Field(
        default=None,
        pattern=SAYS_SOMETHING,
        description="why more is allowed here than every run promises about its data (acknowledged.lost: '<= 5')",
    )

    within: PositiveDuration | None = Field(
        default=None,
        description=f"of a command: how long it may take, else it is inconclusive; default {COMMAND_WITHIN:g}s",
    )

    @model_validator(mode="after")
    def _one_metric(self) -> ExpectationFile:
        named = self.named
        if len(named) != 1:
            got = f"got {len(named)}: {', '.join(named)}" if named else "got none"
            raise ValueError(f"expected exactly one metric, {got}; the metrics are {', '.join(self.metrics)}")
        if self.metrics[named[0]].whole_run and "phase" in self.model_fields_set:
            raise ValueError(f"{named[0]} is of the whole run: expected no phase")
        if not self.metrics[named[0]].command and self.within is not None:
            raise ValueError(f"within is of a command, and this line is of {named[0]}: expected no within")
        if self.metrics[named[0]].command and self.known_weakness is not None and self.known_weakness.bound is not None:
            raise ValueError("a command holds or fails, and has no bound: expected known_weakness with text alone")
        return self

    @property
    def named(self) -> list[str]:
        """The metrics that were written."""
        fields = type(self).model_fields
        return [str(fields[name].alias) for name in fields if fields[name].alias and getattr(self, name)]

    @property
    def metric(self) -> str:
        return self.named[0]

    @property
    def grammar(self) -> Metric:
        """What its metric is."""
        return self.metrics[self.metric]

    @property
    def wanted(self) -> Comparison:
        fields = type(self).model_fields
        found = next(name for name in fields if fields[name].alias and getattr(self, name))
        comparison: Comparison = getattr(self, found)
        return comparison


def expectation_file(metrics: Mapping[str, Metric], named: Mapping[str, Unit]) -> type[ExpectationFile]:
    """The model of a line of `expect` that may name these metrics.

    ``named``: patterns of metrics whose names are up to the experiment, and their units, for the published schema.
    """
    open_ = [{"not": {"propertyNames": {"not": {"pattern": each}}}} for each in named]

    def exactly_one(schema: dict[str, Any]) -> None:
        schema["oneOf"] = [*({"required": [metric]} for metric in metrics), *open_]
        schema["patternProperties"] = {pattern: _PUBLISHED[unit].published() for pattern, unit in named.items()}
        for metric in sorted(name for name, each in metrics.items() if each.whole_run):
            schema.setdefault("dependentSchemas", {})[metric] = {"not": {"required": ["phase"]}}

    fields: dict[str, Any] = {
        re.sub(r"[^a-z0-9]", "_", metric): (
            (_COMMAND if each.command else _TYPES[each.unit]) | None,
            Field(default=None, alias=metric),
        )
        for metric, each in metrics.items()
    }
    made = create_model("ExpectationFile", __base__=ExpectationFile, __doc__=ExpectationFile.__doc__, **fields)
    made.metrics = metrics
    made.model_config["json_schema_extra"] = exactly_one
    return made


_NEW = ("known_bound", "because", "command", "within")
"""Keys of an expectation's normal form that stand in it only where they are given."""


class WeaknessBound(Strict):
    """How bad a known weakness may be. ``value`` in the unit of its expectation; ``text``: ``<= 15s``."""

    comparison: Literal[">=", "<=", "<", ">", "=="]
    value: float
    text: str


class Expectation(Strict):
    """An expectation, resolved: every phase that it is judged in by name.

    ``op`` is an operation of the load, or None for a metric of the cluster; ``quantity`` is the metric
    without the operation. ``value`` is a fraction, seconds or a count, as ``unit`` says.
    ``command``: its words, of a line that names one, and ``within`` its deadline (s); its value is its exit code.
    ``phases`` is empty for a metric of the whole run. ``known_bound``: how bad a known weakness may be; None for one
    without a note, or whose note has no bound. ``because``: why it allows more than every run promises about its data.
    """

    metric: str
    op: str | None
    quantity: str
    unit: Unit
    phases: tuple[str, ...]
    comparison: Literal[">=", "<=", "<", ">", "=="]
    value: float
    text: str
    known_weakness: str | None = None
    known_bound: WeaknessBound | None = None
    because: str | None = None
    command: tuple[str, ...] | None = None
    within: Duration | None = None

    @model_serializer(mode="wrap")
    def _without_what_is_not_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """So that experiments without these keep the normal form, and the hash, that they always had."""
        data: dict[str, Any] = handler(self)
        return {name: value for name, value in data.items() if name not in _NEW or value is not None}

    @property
    def note(self) -> str | None:
        """The note on a known weakness in one line, with its bound; None without a note."""
        if self.known_weakness is None:
            return None
        bound = f"bound {self.known_bound.text}" if self.known_bound is not None else "unbounded"
        return f"known weakness, {bound}: {' '.join(self.known_weakness.split())}"

    def holds(self, value: float) -> bool:
        """Whether a measured value, in the same unit, is as wanted. NaN never is."""
        return _COMPARE[self.comparison](value, self.value)
