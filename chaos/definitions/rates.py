"""How often requests are sent: a rate, one that changes in steps or evenly, or a list of arrivals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo, model_validator
from pydantic_core import core_schema

from chaos.base.errors import InvalidInput
from chaos.base.rates import Piece, Trace, ramp
from chaos.base.text import clip, listed
from chaos.base.units import Duration, PositiveDuration, PositiveRate, Rate, positive
from chaos.definitions.base import Strict
from chaos.definitions.source import shown

MOST_STEPS = 1000
MOST_TIMES = 100_000
"""Of a list: they stand in the plan of each run."""
LONGEST = 86_400.0
"""Seconds after which no listed arrival comes: a day."""
_DIGITS = 9
"""Of seconds after the point: what adding them up may leave beyond is no time."""


class RateStep(Strict):
    """From when on a rate holds."""

    at: Duration = Field(description="from the begin of the first phase, for example 60s; the first is at 0s")
    rate: PositiveRate = Field(description="arrivals per second from then on, for example 80/s")
    over: PositiveDuration | None = Field(
        default=None, description="how long it takes to get there evenly, for example 30s; default at once"
    )

    @property
    def until(self) -> float:
        """When it is there (s)."""
        return round(self.at + (self.over or 0.0), _DIGITS)


def _forms(schema: dict[str, Any]) -> None:
    schema["oneOf"] = [{"required": ["steps"]}, {"required": ["from", "to", "over"]}, {"required": ["times"]}]


class ChangingRate(Strict, json_schema_extra=_forms):
    """A rate that changes, in ``steps``, evenly ``from`` one ``to`` another ``over`` a time, or arrivals at listed
    ``times``.

    Times count from the begin of the first phase; the load warms up with the first rate, or with the one ``before``.
    """

    steps: tuple[RateStep, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_STEPS,
        description="from when on which rate holds, for example [{at: 0s, rate: 20/s}, {at: 60s, rate: 80/s}]",
    )
    from_: PositiveRate | None = Field(default=None, alias="from", description="the first rate, for example 20/s")
    to: PositiveRate | None = Field(default=None, description="the last rate, which then stays, for example 100/s")
    over: PositiveDuration | None = Field(default=None, description="how long it takes to get there, for example 2m")

    times: Annotated[str, Field(min_length=1)] | tuple[Duration, ...] | None = Field(
        default=None,
        union_mode="left_to_right",
        description="when requests arrive, ascending, for example [0s, 0.4s, 1.2s]; or a file beside this one with a "
        "number of seconds in each line",
    )
    before: PositiveRate | None = Field(
        default=None, description="the rate before the first phase, of a list of times; default its mean"
    )

    @model_validator(mode="after")
    def _changes(self) -> ChangingRate:
        if self.times is not None:
            others = [name for name in ("steps", "from_", "to", "over") if getattr(self, name) is not None]
            if others:
                raise ValueError(
                    f"a list of times says when all requests arrive: expected times without "
                    f"{listed([name.rstrip('_') for name in others])}"
                )
            if not isinstance(self.times, str):
                _refuse_times([float(at) for at in self.times])
            return self
        if self.before is not None:
            raise ValueError("before is the rate before a list of times: expected it with times, or not at all")
        evenly = {"from": self.from_, "to": self.to, "over": self.over}
        given = [name for name, value in evenly.items() if value is not None]
        if self.steps is not None:
            if given:
                raise ValueError(
                    f"a rate changes either in steps or evenly: expected steps without {listed(given)}, or from, "
                    "to and over"
                )
            _refuse(self.steps)
        elif missing := [name for name in evenly if name not in given]:
            raise ValueError(
                f"{listed(missing)} {'is' if len(missing) == 1 else 'are'} missing: expected for example "
                "{from: 20/s, to: 100/s, over: 2m}, or steps, or times"
            )
        if len({rate for _, *rates in self.pieces for rate in rates}) == 1:
            raise ValueError(f"this rate never changes: expected {Rate(self.pieces[0][1]).text} alone, or another rate")
        return self

    def trace(self, times: Sequence[float] | None = None) -> Trace:
        """The listed arrivals. ``times``: those of the file that it names."""
        if times is None:
            assert self.times is not None and not isinstance(self.times, str)
            times = [float(at) for at in self.times]
        return Trace(times, self.before)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """As pieces of straight lines; not of listed times."""
        if self.steps is None:
            assert self.from_ is not None and self.to is not None and self.over is not None
            return ramp(float(self.from_), float(self.to), float(self.over))
        made: list[Piece] = []
        now = float(self.steps[0].rate)
        ends = [float(step.at) for step in self.steps[1:]]
        for place, step in enumerate(self.steps):
            rate = float(step.rate)
            if step.over is not None:
                made.append((float(step.at), now, rate))
            if step.over is None or place == len(ends) or step.until < ends[place]:
                made.append((step.until, rate, rate))
            now = rate
        return tuple(made)


def _refuse(steps: Sequence[RateStep]) -> None:
    """Raises ValueError for steps that make no rate."""
    first = steps[0]
    if first.at > 0:
        raise ValueError(
            f"the first step is at {first.at.text}: expected one at 0s, the rate with which the load begins"
        )
    if first.over is not None:
        raise ValueError("the first step is the rate with which the load begins: expected it without over")
    for earlier, later in pairwise(steps):
        if later.at <= earlier.at:
            raise ValueError(
                f"the step at {later.at.text} stands after the one at {earlier.at.text}: expected each later than the "
                "one before"
            )
        if earlier.until > later.at:
            raise ValueError(
                f"the step at {earlier.at.text} takes until {Duration(earlier.until).text}, and the next is at "
                f"{later.at.text}: expected that one later, or a shorter over"
            )


def _refuse_times(times: Sequence[float]) -> None:
    """Raises ValueError for times that make no list."""
    if not times:
        raise ValueError("this list has no times: expected one at least, or a rate")
    if len(times) > MOST_TIMES:
        raise ValueError(f"{len(times):,} times: expected {MOST_TIMES:,} at most")
    for number, (earlier, later) in enumerate(pairwise(times), start=2):
        if later < earlier:
            raise ValueError(
                f"time {number} is {later:g} s, earlier than the one before it ({earlier:g} s): expected them in order"
            )
    if times[-1] > LONGEST:
        raise ValueError(
            f"the last time is {times[-1]:,.0f} s: expected seconds from the begin of the first phase, a day at most"
        )


def read_times(path: Path) -> tuple[float, ...]:
    """The times (s) of a file: a number in each line, ascending; empty lines and what follows a ``#`` are passed over.

    Raises InvalidInput with file and line.
    """
    times: list[float] = []
    name = shown(path)
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if word := line.partition("#")[0].strip():
                    times.append(_time_in(word, times[-1] if times else 0.0, f"{name}:{number}"))
                if len(times) > MOST_TIMES:
                    raise InvalidInput(f"{name}:{number}: more than {MOST_TIMES:,} times: expected a shorter list")
    except UnicodeDecodeError:
        raise InvalidInput(f"{name}: it is not UTF-8 text: expected a number of seconds in each line") from None
    except OSError as error:
        raise InvalidInput(f"{name}: cannot be read: {error.strerror}") from None
    try:
        _refuse_times(times)
    except ValueError as error:
        raise InvalidInput(f"{name}: {error}") from None
    return tuple(times)


def _time_in(word: str, earlier: float, where: str) -> float:
    """The seconds of one line."""
    try:
        seconds = float(word)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds) or seconds < 0:
        raise InvalidInput(f'{where}: "{clip(word, 40)}" is no time: expected a number of seconds, for example 12.345')
    if seconds < earlier:
        raise InvalidInput(
            f"{where}: {seconds:g} s is earlier than the line before it ({earlier:g} s): expected them in order"
        )
    return seconds


def written_times(times: Sequence[float], before: float) -> dict[str, Any]:
    """A list of times, as people write it."""
    return {"times": [Duration(at) for at in times], "before": Rate(before)}


def written(pieces: Sequence[Piece]) -> dict[str, Any]:
    """A rate that changes, as people write it."""
    if len(pieces) == 2 and pieces[0][1] != pieces[0][2]:
        (_, first, last), (over, *_) = pieces
        return {"from": Rate(first), "to": Rate(last), "over": Duration(over)}
    steps: list[dict[str, Any]] = []
    for place, (at, first, last) in enumerate(pieces):
        if first != last:
            over = Duration(round(pieces[place + 1][0] - at, _DIGITS))
            steps.append({"at": Duration(at), "rate": Rate(last), "over": over})
        elif not place or first != pieces[place - 1][2] or pieces[place - 1][1] == pieces[place - 1][2]:
            steps.append({"at": Duration(at), "rate": Rate(first)})
    return {"steps": steps}


class _Either:
    """Reads a mapping as a :class:`ChangingRate` and all else as a rate, and says what is wrong with that one alone."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        def read(value: Any, changing: core_schema.ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
            if isinstance(value, dict | ChangingRate):
                return changing(value)
            return constant(value, info)

        def constant(value: Any, info: ValidationInfo) -> Rate:
            return positive(Rate._validate(value, info))

        return core_schema.with_info_wrap_validator_function(read, handler.generate_schema(ChangingRate))

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        constant = Rate.__get_pydantic_json_schema__(schema, handler)
        return {"anyOf": [constant, handler(schema)]}


AnyRate = Annotated[Rate | ChangingRate, _Either]
"""``50/s``, or a :class:`ChangingRate`."""
