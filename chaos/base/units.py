"""Quantities with their units: durations, rates, sizes, throughputs, percentages and factors.

A definition never holds a bare number where a unit is needed: ``20`` could be seconds or
milliseconds, so it is refused and the units are named. In Python each quantity is a plain ``float``
or ``int`` in one base unit (seconds, per second, bytes, bytes per second, fraction 0..1), with
``.text`` as people write it. ``X.parse(x.text) == x`` holds for every value.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import AfterValidator, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import core_schema

from chaos.base.errors import InvalidInput

NORMAL_FORM = "normal_form"
"""Key of pydantic's validation context under which bare numbers in base units are accepted: set only
when a run's own ``plan.json`` is read back, never for a file that a person wrote."""

_NUMBER = r"[0-9]+(?:\.[0-9]+)?"


class Malformed(InvalidInput, ValueError):
    """A text that does not follow its grammar. Also a ``ValueError``, so that pydantic collects it."""


class _Quantity:
    """The part that all quantities share. ``units`` maps a suffix to its worth in the base unit."""

    what: ClassVar[str]
    units: ClassVar[dict[str, Decimal]]
    examples: ClassVar[tuple[str, ...]]

    @classmethod
    def expected(cls) -> str:
        """What a person should have written, for messages."""
        names = list(cls.units)
        listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
        return f"{cls.what} is a number and {listed}, for example {' or '.join(cls.examples)}"

    @classmethod
    def pattern(cls) -> str:
        """The grammar as a regular expression without anchors, as published in the JSON Schema."""
        return rf"{_NUMBER} ?(?:{'|'.join(map(re.escape, cls.units))})"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what a person wrote. Raises :class:`Malformed`, which names the units."""
        match = re.fullmatch(rf"({_NUMBER}) ?(\S+)?", text.strip(), re.ASCII)
        if match is None:
            raise Malformed(f"cannot read {text!r}: {cls.expected()}")
        number, unit = match.groups()
        if unit is None:
            raise Malformed(f"{text.strip()} has no unit: {cls.expected()}")
        if unit not in cls.units:
            raise Malformed(f"unknown unit {unit!r} in {text!r}: {cls.expected()}")
        return cls._of(Decimal(number) * cls.units[unit], text)

    @classmethod
    def _of(cls, base: Decimal, text: str) -> Self:
        raise NotImplementedError

    @classmethod
    def _validate(cls, value: Any, info: ValidationInfo) -> Self:
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            if info.context and info.context.get(NORMAL_FORM):
                return cls(value)  # type: ignore[call-arg]
            raise Malformed(f"{value} has no unit: {cls.expected()}")
        raise Malformed(f"cannot read {value!r}: {cls.expected()}")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        number = int if issubclass(cls, int) else float
        return core_schema.with_info_plain_validator_function(
            cls._validate,
            serialization=core_schema.plain_serializer_function_ser_schema(number),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {
            "type": "string",
            "pattern": f"^{cls.pattern()}$",
            "description": cls.expected(),
            "examples": list(cls.examples),
        }


def _plain(number: Decimal) -> str:
    """Digits only: no exponent, no needless zeros."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


class _FloatQuantity(_Quantity, float):
    @classmethod
    def _of(cls, base: Decimal, text: str) -> Self:
        return cls(float(base))

    @property
    def _exact(self) -> Decimal:
        """The shortest decimal that is this very float; what makes the round trip exact."""
        return Decimal(float.__repr__(self))

    @property
    def text(self) -> str:
        raise NotImplementedError


class Duration(_FloatQuantity):
    """Seconds. Written ``300ms``, ``20s``, ``8m``, ``2h``."""

    what = "a duration"
    units: ClassVar = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600)}
    examples = ("300ms", "20s", "8m")

    @property
    def text(self) -> str:
        seconds = self._exact
        if seconds == seconds.to_integral_value() and 0 < seconds < 10**15:
            for unit, worth in (("h", 3600), ("m", 60)):
                if int(seconds) % worth == 0:
                    return f"{int(seconds) // worth}{unit}"
        if seconds == 0 or seconds >= 1:
            return f"{_plain(seconds)}s"
        return f"{_plain(seconds * 1000)}ms"


class Number(_FloatQuantity):
    """A plain number, or a share or a duration in Prometheus's base units. Written ``0.05``, ``5%``, ``250ms``."""

    what = "a number"
    units: ClassVar = {"": Decimal(1), "%": Decimal("0.01"), **Duration.units}
    examples = ("0.05", "5%", "250ms")

    @classmethod
    def expected(cls) -> str:
        return "a number stands alone, is a share or a duration, for example 0.05, 5% or 250ms"

    @classmethod
    def pattern(cls) -> str:
        units = "|".join(re.escape(unit) for unit in cls.units if unit)
        return rf"-?{_NUMBER}(?: ?(?:{units}))?"

    @classmethod
    def parse(cls, text: str) -> Self:
        match = re.fullmatch(rf"(-?{_NUMBER}) ?(\S*)", text.strip(), re.ASCII)
        if match is None or match[2] not in cls.units:
            raise Malformed(f"cannot read {text!r}: {cls.expected()}")
        return cls(float(Decimal(match[1]) * cls.units[match[2]]))

    @classmethod
    def _validate(cls, value: Any, info: ValidationInfo) -> Self:
        if isinstance(value, int | float) and not isinstance(value, bool):
            if value != value or value in (float("inf"), float("-inf")):
                raise Malformed(f"cannot compare with {value}: {cls.expected()}")
            return cls(value)
        return super()._validate(value, info)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        text = super().__get_pydantic_json_schema__(schema, handler)
        return {"anyOf": [{"type": "number"}, text], "description": text["description"]}

    @property
    def text(self) -> str:
        return _plain(self._exact)


class Rate(_FloatQuantity):
    """Events per second. Written ``100/s`` or ``6000/min``."""

    what = "a rate"
    units: ClassVar = {"/s": Decimal(1), "/min": Decimal(1) / 60}
    examples = ("100/s", "6000/min")

    @classmethod
    def _of(cls, base: Decimal, text: str) -> Self:
        # 1/60 has no finite decimal: divide the written number once, so that 6000/min is 100/s.
        number = text.strip().removesuffix("/min")
        return cls(float(Decimal(number) / 60) if text.strip().endswith("/min") else float(base))

    @property
    def text(self) -> str:
        per_second = _plain(self._exact)
        if len(per_second) > 6 and self < 10**6:
            minute = round(self * 60)
            if float(Decimal(minute) / 60) == self:
                return f"{minute}/min"
        return f"{per_second}/s"


class Frequency(_FloatQuantity):
    """Times a year, a year being 365.25 days. Written ``2/year``, ``1/month``, ``0.5/week``."""

    what = "a frequency"
    units: ClassVar = {
        "/year": Decimal(1),
        "/month": Decimal(12),
        "/week": Decimal("365.25") / 7,
        "/day": Decimal("365.25"),
    }
    examples = ("2/year", "1/month")

    @property
    def text(self) -> str:
        return f"{_plain(self._exact)}/year"


class Percent(_FloatQuantity):
    """A fraction 0..1. Written ``99.9%``."""

    what = "a percentage"
    units: ClassVar = {"%": Decimal("0.01")}
    examples = ("99.9%",)

    @classmethod
    def _of(cls, base: Decimal, text: str) -> Self:
        if base > 1:
            raise Malformed(f"{text.strip()} is more than 100%: {cls.expected()}")
        return cls(float(base))

    @property
    def text(self) -> str:
        return f"{_plain(self._exact * 100)}%"


class Factor(_FloatQuantity):
    """How many times as much. Written ``3x``."""

    what = "a factor"
    units: ClassVar = {"x": Decimal(1)}
    examples = ("3x", "1.5x")

    @property
    def text(self) -> str:
        return f"{_plain(self._exact)}x"


class _IntQuantity(_Quantity, int):
    @classmethod
    def _of(cls, base: Decimal, text: str) -> Self:
        if base != base.to_integral_value():
            raise Malformed(f"{text.strip()} is not a whole number of bytes: {cls.expected()}")
        return cls(int(base))

    @property
    def text(self) -> str:
        """In the largest unit that divides it."""
        names = list(self.units.items())
        for unit, worth in reversed(names):
            if int(self) and int(self) % int(worth) == 0:
                return f"{int(self) // int(worth)}{unit}"
        return f"{int(self)}{names[0][0]}"


class Size(_IntQuantity):
    """Bytes. Written ``512KiB``, ``256MiB``, ``1GiB``."""

    what = "a size"
    units: ClassVar = {
        "B": Decimal(1),
        "KiB": Decimal(2**10),
        "MiB": Decimal(2**20),
        "GiB": Decimal(2**30),
    }
    examples = ("256MiB", "1GiB")


class SizeRate(_IntQuantity):
    """Bytes per second. Written ``256KiB/s``."""

    what = "a throughput"
    units: ClassVar = {f"{unit}/s": worth for unit, worth in Size.units.items()}
    examples = ("256KiB/s", "1MiB/s")


_Q = TypeVar("_Q", Duration, Rate, Frequency, Percent, Factor, Size, SizeRate)


def positive(value: _Q) -> _Q:
    """Refuses 0 and less."""
    if value <= 0:
        raise Malformed(f"{value.text} is nothing: expected more than zero")
    return value


def at_least(least: _Q, why: str) -> AfterValidator:
    """Refuses less than ``least``; ``why``: what is wrong with less, after the given text."""

    def check(value: _Q) -> _Q:
        if value < least:
            raise Malformed(f"{value.text} {why}: expected {least.text} or more")
        return value

    return AfterValidator(check)


PositiveDuration = Annotated[Duration, AfterValidator(positive)]
PositivePercent = Annotated[Percent, AfterValidator(positive)]
PositiveRate = Annotated[Rate, AfterValidator(positive)]
PositiveFrequency = Annotated[Frequency, AfterValidator(positive)]
PositiveSize = Annotated[Size, AfterValidator(positive)]
PositiveSizeRate = Annotated[SizeRate, AfterValidator(positive)]
