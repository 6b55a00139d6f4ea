"""Generators that mimic documents: what was seen of each field, in a sample, becomes the parameters of its generator.

Where there is a mapping, types are those of the mapping. Where there is none, they follow from all values of the
sample.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from pydantic import ValidationError

from chaos.base.errors import InvalidInput
from chaos.definitions.workload import DATE_FORMATS, DEPTH, FIELD, MOST_ELEMENTS, FieldFile
from chaos.load.importing import points
from chaos.load.importing.rows import Brought

MOST_FIELDS = 1000
"""Of an index, by OpenSearch's default (``index.mapping.total_fields.limit``)."""
FEW = 20
"""A field of at most so many values, each of them seen often, is drawn from those values."""
OFTEN = 5
POOL = 10_000
"""Made-up values of a field, at most: of more no search can be held against what it must find."""

OURS = {
    **dict.fromkeys(("keyword", "constant_keyword", "wildcard"), "keyword"),
    **dict.fromkeys(("text", "match_only_text", "search_as_you_type"), "text"),
    **dict.fromkeys(("integer", "short", "byte"), "integer"),
    **dict.fromkeys(("long", "unsigned_long"), "long"),
    **dict.fromkeys(("float", "half_float"), "float"),
    **dict.fromkeys(("double", "scaled_float"), "double"),
    **dict.fromkeys(("date", "date_nanos"), "date"),
    **{name: name for name in ("boolean", "ip", "geo_point", "object", "nested", "flat_object")},
}
"""The type of our field for each type of a mapping."""
_MOST = {"byte": 127, "short": 32_767, "half_float": 60_000}
_ISO = frozenset(
    (
        "strict_date_optional_time",
        "date_optional_time",
        "dateOptionalTime",
        "strict_date_optional_time_nanos",
        "date_time",
        "strict_date_time",
    )
)
_TIMES = re.compile(r"(?:^|_)(?:at|ts|time|date|timestamp|created|updated|modified)(?:_|$)|time|date", re.IGNORECASE)
_LOOKS = (
    ("yyyy-MM-dd", re.compile(r"\d{4}-\d\d-\d\d")),
    ("yyyy-MM-dd HH:mm:ss", re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")),
    ("strict_date_optional_time", re.compile(r"\d{4}-\d\d-\d\dT\d\d(?::?\d\d){0,2}(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?")),
)


@dataclass
class Seen:
    """A field in a sample. ``documents``: objects in which it stood, with a value that is not null."""

    documents: int = 0
    least: int = 1
    most: int = 1
    lists: bool = False
    objects: int = 0
    values: list[Any] = field(default_factory=list)
    fields: dict[str, Seen] = field(default_factory=dict)

    def kinds(self) -> set[type]:
        return {type(value) for value in self.values}


def look(documents: Iterable[Mapping[str, Any]]) -> Seen:
    """What is in a sample. Raises InvalidInput for documents of more fields than an index takes."""
    root, places = Seen(), [0]
    for each in documents:
        _object(root, each, places)
    return root


def _object(seen: Seen, value: Mapping[str, Any], places: list[int]) -> None:
    seen.objects += 1
    for name, each in _without_dots(value).items():
        if name not in seen.fields:
            places[0] += 1
            if places[0] > MOST_FIELDS:
                raise InvalidInput(
                    f"the documents have more than {MOST_FIELDS} fields, and an index takes no more",
                    remedy="bring documents of one kind",
                )
            seen.fields[name] = Seen()
        _value(seen.fields[name], each, places)


def _without_dots(value: Mapping[str, Any]) -> dict[str, Any]:
    """``{"a.b": 1}`` means ``{"a": {"b": 1}}``."""
    if not any("." in name for name in value):
        return dict(value)
    found: dict[str, Any] = {}
    for name, each in value.items():
        first, dot, rest = name.partition(".")
        if not dot or not first or not rest:
            found[name] = each
        elif isinstance(found.get(first), dict):
            found[first] = {**found[first], rest: each}
        else:
            found[first] = {rest: each}
    return found


def _value(seen: Seen, value: Any, places: list[int]) -> None:
    if value is None:
        return
    elements = [each for each in _flat(value) if each is not None] if isinstance(value, list) else [value]
    number = len(elements)
    seen.least = number if seen.documents == 0 else min(seen.least, number)
    seen.most = number if seen.documents == 0 else max(seen.most, number)
    seen.documents += 1
    seen.lists |= isinstance(value, list)
    for each in elements:
        if isinstance(each, dict):
            _object(seen, each, places)
        else:
            seen.values.append(each)


def _flat(values: Sequence[Any]) -> Iterator[Any]:
    """Lists in lists are one list for OpenSearch."""
    for each in values:
        if isinstance(each, list):
            yield from _flat(each)
        else:
            yield each


# ------------------------------------------------------------------------------------------ generators


class Left(Exception):
    """Nothing can be made of a field; why."""


@dataclass
class Maker:
    """Makes fields of a mapping, of a sample, or of both. ``copied``: paths of fields whose values are the sample's.

    ``values`` False: no value of a document gets into the file. ``nested``: objects that searches ask for as nested;
    ``also_keyword``: texts that searches ask for as ``FIELD.keyword``; ``exact``: fields that searches ask for by whole
    values alone. These are for documents without a mapping. ``asked``: of each field in which searches look for places,
    the corners of their boxes.
    """

    brought: Brought
    values: bool = True
    nested: frozenset[str] = frozenset()
    also_keyword: frozenset[str] = frozenset()
    exact: frozenset[str] = frozenset()
    asked: Mapping[str, Sequence[points.Point]] = field(default_factory=dict)
    copied: list[str] = field(default_factory=list)
    guessed: list[str] = field(default_factory=list)

    def all(self, seen: Seen | None, mapping: Mapping[str, Any] | None) -> dict[str, Any]:
        """Every field that can be made, as it is written in a workload's file."""
        dynamic = "strict" if mapping is not None and str(mapping.get("dynamic", True)).lower() == "strict" else "true"
        return self._fields(seen, mapping, (), dynamic, 1)

    def _fields(
        self, seen: Seen | None, mapping: Mapping[str, Any] | None, above: tuple[str, ...], dynamic: str, level: int
    ) -> dict[str, Any]:
        properties = (mapping or {}).get("properties") or {}
        if mapping is not None and "dynamic" in mapping:
            dynamic = str(mapping["dynamic"]).lower()
        found: dict[str, Any] = {}
        for name in dict.fromkeys([*properties, *(seen.fields if seen is not None else ())]):
            path = ".".join((*above, name))
            said = properties.get(name)
            its = seen.fields.get(name) if seen is not None else None
            if said is not None and said.get("type") == "alias":
                continue  # another name of a field, and nothing to write
            try:
                found[name] = self._one(name, its, said, seen, (*above, name), dynamic, level)
            except Left as why:
                self.brought.add("field", path, "left out", str(why))
        return found

    def _one(
        self,
        name: str,
        seen: Seen | None,
        said: Mapping[str, Any] | None,
        parent: Seen | None,
        path: tuple[str, ...],
        dynamic: str,
        level: int,
    ) -> dict[str, Any]:
        if not re.fullmatch(FIELD, name):
            raise Left("a field's name here has letters, digits, _, @ and -, and begins with a letter or @")
        if level > DEPTH:
            raise Left(f"it is in more than {DEPTH} levels of objects")
        if said is None and dynamic == "strict" and parent is not None:
            raise Left("the mapping is strict and does not have it, so OpenSearch would refuse such documents")
        if parent is not None and (seen is None or seen.documents == 0 or seen.most == 0):
            raise Left("no document of the sample has a value in it")
        made = self._typed(seen, said, path, dynamic, level)
        kind = made["type"]
        if seen is not None and parent is not None:
            of_numbers = kind == "geo_point" and bool(seen.values) and not isinstance(seen.values[0], str)
            if seen.lists and seen.most and not of_numbers:  # [lon, lat] is one point
                if kind == "flat_object":
                    raise Left("lists of objects in a flat_object are not there yet")
                made["array"] = [min(seen.least, MOST_ELEMENTS), min(seen.most, MOST_ELEMENTS)]
            missing = (parent.objects - seen.documents) / parent.objects
            if missing > 0:
                made["nulls"] = f"{min(max(round(100 * missing, 1), 0.1), 99):g}%"
        try:
            FieldFile.model_validate(made)
        except ValidationError as error:
            raise Left(error.errors()[0]["msg"].removeprefix("Value error, ")) from None
        return made

    def _typed(
        self, seen: Seen | None, said: Mapping[str, Any] | None, path: tuple[str, ...], dynamic: str, level: int
    ) -> dict[str, Any]:
        shown = ".".join(path)
        if said is not None:
            theirs = str(said.get("type", "object"))
            if theirs not in OURS:
                raise Left(f"no generator makes values of type {theirs}")
            kind = OURS[theirs]
        else:
            assert seen is not None
            theirs = kind = self._guess(path[-1], seen, shown)
        values = seen.values if seen is not None else []
        if kind in ("object", "nested", "flat_object"):
            return self._with_fields(kind, seen, said, path, dynamic, level)
        if kind == "geo_point":
            return self.point(seen, shown)
        if seen is not None and seen.objects:
            raise Left(f"documents have objects in it, and it is of type {theirs}")
        if seen is None:
            self.guessed.append(shown)
        makers = {"boolean": self._boolean, "date": self._date, "ip": self._ip, "keyword": self._keyword}
        if kind in makers:
            made = makers[kind](values, said, shown)
        elif kind == "text":
            made = self._text(values, shown)
        else:
            made = self._number(kind, theirs, values, shown)
        if said is None and shown in self.also_keyword:
            made["mapping"] = {"fields": {"keyword": {"type": "keyword"}}}
        return {"type": kind, **made}

    def _with_fields(
        self,
        kind: str,
        seen: Seen | None,
        said: Mapping[str, Any] | None,
        path: tuple[str, ...],
        dynamic: str,
        level: int,
    ) -> dict[str, Any]:
        if seen is not None and seen.values:
            raise Left("some documents have objects in it and others values, and OpenSearch refuses one of them")
        if said is not None and said.get("enabled") is False and seen is None:
            raise Left("it is not indexed, and no documents say what is in it")
        inside = said if said is not None else None
        fields = self._fields(seen, inside, path, "true" if kind == "flat_object" else dynamic, level + 1)
        if not fields:
            raise Left("nothing in it can be made" if seen is not None else "no documents say what is in it")
        return {"type": kind, "fields": fields}

    def _guess(self, name: str, seen: Seen, shown: str) -> str:
        """The type that all values of the sample fit."""
        if shown in self.asked:
            return "geo_point"
        if seen.objects:
            return "nested" if shown in self.nested else "object"
        kinds, values = seen.kinds(), seen.values
        if kinds == {bool}:
            return "boolean"
        if kinds == {int}:
            if _TIMES.search(name) and all(_moment(each, True) for each in values):
                return "date"
            return "integer" if all(-(2**31) <= each < 2**31 for each in values) else "long"
        if kinds <= {int, float}:
            return "double"
        if bool in kinds or float in kinds:
            return "keyword"
        texts = list(map(str, values))
        if all(_moment(each, bool(_TIMES.search(name))) for each in values):
            return "date"
        if kinds == {int, str}:
            return "keyword"
        if all(_address(each) for each in texts):
            return "ip"
        return "text" if _is_prose(texts) and shown not in self.exact else "keyword"

    # ---- of one type

    def point(self, seen: Seen | None, shown: str) -> dict[str, Any]:
        """Points where those of the sample lie; without one in the boxes that searches ask for, else everywhere."""
        if seen is None:
            found = points.area(self.asked.get(shown, ()))
            if found:
                says = "its points lie where searches look for them: no documents say where"
                self.brought.add("field", shown, "changed", says)
        else:
            lats, lons = (seen.fields[each].values if each in seen.fields else () for each in ("lat", "lon"))
            found = points.area(points.of_sample(seen.values, lats, lons))
        return {"type": "geo_point", **({"area": found} if found else {})}

    def _few(self, values: Sequence[Any], shown: str) -> dict[str, Any] | None:
        """The values themselves, where they are few and each was seen often."""
        often = Counter(values)
        if not self.values or not values or len(often) > FEW or len(values) < OFTEN * len(often):
            return None
        self.copied.append(shown)
        common = often.most_common()
        made: dict[str, Any] = {"values": [value for value, _ in common]}
        if len(common) > 1:
            made["weights"] = [max(1, round(1000 * number / len(values))) for _, number in common]
        return made

    def _boolean(self, values: Sequence[Any], said: Any, shown: str) -> dict[str, Any]:
        if not values:
            return {}
        true = sum(str(each).lower() == "true" for each in values)
        if true in (0, len(values)):
            return {"values": [bool(true)]}
        return {
            "values": [True, False],
            "weights": [max(1, round(100 * n / len(values))) for n in (true, len(values) - true)],
        }

    def _number(self, kind: str, theirs: str, values: Sequence[Any], shown: str) -> dict[str, Any]:
        whole = kind in ("integer", "long")
        numbers = [number for each in values if (number := _as_number(each)) is not None]
        if len(numbers) < len(values):
            raise Left(f"documents have values in it that are no numbers, and it is of type {theirs}")
        if not numbers:
            return {"range": [0, min(1000, _MOST.get(theirs, 1000))]}
        if whole:
            numbers = [int(each) for each in numbers]
        if few := self._few(numbers, shown):
            return few
        if whole:
            made: dict[str, Any] = {"range": [min(numbers), max(numbers)]}
            if 1 < (distinct := len(set(numbers))) <= min(len(numbers) / 4, POOL):
                made["pool"] = distinct
            return made
        decimals = max((_decimals(each) for each in numbers), default=0)
        least, most = (max(-1e12, min(1e12, each)) for each in (min(numbers), max(numbers)))
        return {"range": [_tidy(least), _tidy(most)], "decimals": decimals}

    def _ip(self, values: Sequence[Any], said: Any, shown: str) -> dict[str, Any]:
        found = [_address(str(each)) for each in values]
        if not found:
            return {}
        known = [each for each in found if each is not None]
        first = [each for each in known if each.version == known[0].version]
        if not first:
            raise Left("documents have values in it that are no addresses")
        made: dict[str, Any] = {"net": str(_network(first))}
        if 1 < (distinct := len(set(first))) <= len(first) / 4:
            made["pool"] = min(distinct, POOL)
        return made

    def _keyword(self, values: Sequence[Any], said: Mapping[str, Any] | None, shown: str) -> dict[str, Any]:
        if said is not None and said.get("type") == "constant_keyword":
            if "value" not in said and values and self.values:
                self.copied.append(shown)
                return {"values": [str(values[0])]}
            return {"values": [str(said.get("value", "constant"))]}
        texts = [str(each).lower() if isinstance(each, bool) else str(each) for each in values]
        if not texts:
            return {"pool": 1000}
        if few := self._few(texts, shown):
            return few
        distinct = len(set(texts))
        length = round(sum(map(len, texts)) / len(texts))
        apart = distinct > 0.9 * len(texts) and len(texts) >= 20
        if apart or (length >= 8 and all(re.fullmatch(r"[0-9a-fA-F-]{8,64}", each) for each in texts)):
            digits = max(8, min(64, length))
            return {"hex": digits} if apart else {"hex": digits, "pool": min(max(distinct, 2), POOL)}
        return {"pool": min(max(distinct, 2), POOL)}

    def _text(self, values: Sequence[Any], shown: str) -> dict[str, Any]:
        if not values:
            return {"words": [5, 30]}
        counts = sorted(max(1, len(str(each).split())) for each in values)
        least, most = counts[len(counts) // 20], counts[-1 - len(counts) // 20]
        words = {word.lower() for each in values for word in re.findall(r"\w+", str(each))}
        made: dict[str, Any] = {
            "words": [min(least, 2000), min(most, 2000)] if least != most else min(most, 2000),
            "vocabulary": max(2, min(50_000, len(words))),
        }
        if 1 < (distinct := len(set(map(str, values)))) <= len(values) / 4:
            made["pool"] = min(distinct, POOL)
        return made

    def _date(self, values: Sequence[Any], said: Mapping[str, Any] | None, shown: str) -> dict[str, Any]:
        allowed = _writable(said)
        if not allowed:
            assert said is not None
            raise Left(
                f"its format {said.get('format')} is none of those that dates are written in: {', '.join(DATE_FORMATS)}"
            )
        found = [_moment(each, True) for each in values]
        known = [each for each in found if each is not None]
        if len(known) < len(found):
            odd = next(value for value, each in zip(values, found, strict=True) if each is None)
            if said is not None and not known:
                return {"format": allowed[0]} if allowed[0] != DATE_FORMATS[0] else {}
            if said is None:
                raise Left(f"some of its values are dates and others are not, for example {str(odd)[:40]!r}")
        seen = [name for name, _ in Counter(name for name, _ in known).most_common() if name in allowed]
        formats = seen or allowed[:1]
        made: dict[str, Any] = {}
        if formats != [DATE_FORMATS[0]]:
            made["format"] = formats if len(formats) > 1 else formats[0]
        times = [ms for _, ms in known]
        if len(times) < 2 or min(times) == max(times):
            return made
        day = all(name == "yyyy-MM-dd" for name, _ in known)
        steps = [b - a for a, b in pairwise(times)]
        ahead = sum(step >= 0 for step in steps) / len(steps)
        if max(ahead, sum(step <= 0 for step in steps) / len(steps)) >= 0.8:
            step = max(1, round((max(times) - min(times)) / (len(times) - 1)))
            return {**made, "start": _iso(max(times) + step), "step": _step(step)}
        distinct = min(len(set(times)), POOL)
        step = max(86_400_000 if day else 1, round((max(times) - min(times)) / max(1, distinct - 1)))
        return {**made, "start": _iso(min(times)), "step": _step(step), "pool": distinct}


def _is_prose(texts: Sequence[str]) -> bool:
    """Whether a fifth of the values have four words or more."""
    return sum(len(each.split()) >= 4 for each in texts) >= 0.2 * len(texts)


def _as_number(value: Any) -> float | int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    if not math.isfinite(number):
        return None
    return int(number) if number == int(number) and re.fullmatch(r"-?\d+", str(value)) else number


def _decimals(number: float) -> int:
    _, _, digits = f"{number:.9f}".partition(".")
    return len(digits.rstrip("0"))


def _tidy(number: float) -> float | int:
    rounded = round(float(number), 9)
    return int(rounded) if rounded == int(rounded) else rounded


Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _network(addresses: Sequence[Address]) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """The smallest network with all of them."""
    least, most = min(map(int, addresses)), max(map(int, addresses))
    bits = addresses[0].max_prefixlen
    return (
        ipaddress.ip_network((least, max(bits - (least ^ most).bit_length(), 0)), strict=False)
        if bits == 32
        else (ipaddress.IPv6Network((least, bits - (least ^ most).bit_length()), strict=False))
    )


def _writable(said: Mapping[str, Any] | None) -> list[str]:
    """Formats in which dates of a mapping can be written."""
    if said is None:
        return list(DATE_FORMATS)
    given = str(said.get("format") or "strict_date_optional_time||epoch_millis").split("||")
    allowed = {DATE_FORMATS[0] if name in _ISO else name for name in given}
    return [name for name in DATE_FORMATS if name in allowed]


def _moment(value: Any, numbers: bool) -> tuple[str, int] | None:
    """The format of a date and its milliseconds since 1970. ``numbers``: whether a number may be one."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and numbers and re.fullmatch(r"\d{10}|\d{13}", value):
        value = int(value)
    if isinstance(value, int):
        if numbers and 10**11 <= value < 10**13:
            return "epoch_millis", value
        return ("epoch_second", value * 1000) if numbers and 10**8 <= value < 10**10 else None
    if not isinstance(value, str) or len(value) > 40:
        return None
    for name, pattern in _LOOKS:
        if pattern.fullmatch(value):
            try:
                found = datetime.fromisoformat(value.replace(",", "."))
            except ValueError:
                return None
            aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
            return name, round(aware.timestamp() * 1000)
    return None


def milliseconds(value: Any) -> int | None:
    """A date as milliseconds since 1970; None for what is none."""
    found = _moment(value, True)
    return None if found is None else found[1]


def _step(ms: int) -> str:
    return f"{ms}ms" if ms % 1000 else f"{ms // 1000}s"


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"
