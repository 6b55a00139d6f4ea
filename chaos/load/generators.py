"""Values of fields, made from draws: the same draws give the same value, in any process and at any time.

A document's draws are 16-bit numbers that follow from its id and the workload's seed (:class:`Draws`). Each generator
is given its places among them when it is made, and gives its value as JSON text: what a document costs is a lookup in
a table for most fields, and one join.
"""

from __future__ import annotations

import functools
import hashlib
import ipaddress
import json
import random
import struct
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from chaos.definitions.workload import DATE_FORMATS, FieldFile, moment

Drawn = Sequence[int]
"""The draws of one document, 0 to 65535 each."""
Value = Callable[[Drawn, int], str]
"""Makes a value, as JSON text, from the draws and the number of a document."""

BLOCK = 32
"""Draws of one hash."""
HASH = 4
"""The first draws, which no field takes: the document's own hash (:meth:`Draws.check`)."""
ONE_DRAW = 2048
"""Of so many values one is chosen by one draw."""
PHRASE = 8
"""A text is made of phrases of so many words; the last may be shorter."""
PHRASES = 1024
"""Different phrases of a field: a text of 24 words is one of 10^9."""
WORDS = 2000
"""Different words of a text, where a field says nothing else."""
START = "2026-01-01T00:00:00Z"
_UNPACK = struct.Struct(f"<{BLOCK}H").unpack
_CONSONANTS, _VOWELS = "bcdfghklmnprstvz", "aeiou"


class Draws:
    """The draws of each document. ``places`` are handed out to generators before the first is made."""

    def __init__(self, seed: int) -> None:
        self._salt = hashlib.blake2b(str(seed).encode(), digest_size=16).digest()
        self.places = HASH
        """How many are taken."""

    def take(self, number: int = 1) -> int:
        """The first of so many places in a row."""
        first = self.places
        self.places += number
        return first

    def of(self, what: str, places: int | None = None) -> Drawn:
        """The draws of what bears this name: all, or as many as are needed at least."""
        text, salt = what.encode(), self._salt
        found: tuple[int, ...] = _UNPACK(hashlib.blake2b(text, digest_size=64, salt=salt).digest())
        for block in range(1, -(-(places or self.places) // BLOCK)):
            person = block.to_bytes(4, "little")
            found += _UNPACK(hashlib.blake2b(text, digest_size=64, salt=salt, person=person).digest())
        return found

    def checks(self, names: Iterable[bytes]) -> npt.NDArray[np.int64]:
        """:meth:`check` of many at once."""
        hashed, salt = hashlib.blake2b, self._salt
        first = b"".join([hashed(name, digest_size=64, salt=salt).digest()[: 2 * HASH] for name in names])
        return (np.frombuffer(first, "<u8") >> np.uint64(1)).astype(np.int64)

    @staticmethod
    def check(drawn: Drawn) -> int:
        """63 bits of hash."""
        return (drawn[0] | drawn[1] << 16 | drawn[2] << 32 | drawn[3] << 48) >> 1


def chance(seed: int, path: str) -> random.Random:
    """What makes up the tables of a field. Only its ``random()`` is used: Python promises that for ever."""
    return random.Random(f"{seed}/{path}")


def some(rng: random.Random, number: int) -> int:
    return int(rng.random() * number)


@functools.lru_cache(64)
def vocabulary(seed: int, path: str, number: int) -> tuple[str, ...]:
    """So many different words that can be said, of small letters."""
    rng, found = chance(seed, f"{path}/words"), dict[str, None]()
    while len(found) < number:
        syllables = 2 + some(rng, 3)
        found[
            "".join(
                _CONSONANTS[some(rng, len(_CONSONANTS))] + _VOWELS[some(rng, len(_VOWELS))] for _ in range(syllables)
            )
        ] = None
    return tuple(found)


def dumped(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


# ------------------------------------------------------------------------------------------ of one value


class Table:
    """Values of which one is drawn, as JSON text."""

    def __init__(self, texts: Sequence[str], draws: Draws) -> None:
        self.texts = tuple(texts)
        self._place = draws.places
        self.index = index(len(self.texts), draws)

    def value(self) -> Value:
        texts, which, place, number = self.texts, self.index, self._place, len(self.texts)
        if number <= ONE_DRAW:  # the same, without a call: it is what most of a document is made of
            return lambda drawn, _: texts[drawn[place] % number]
        return lambda drawn, _: texts[which(drawn)]


def index(number: int, draws: Draws) -> Callable[[Drawn], int]:
    """Which of so many: by one draw where that makes none more frequent by more than one in 32."""
    if number <= ONE_DRAW:
        place = draws.take()
        return lambda drawn: drawn[place] % number
    low = draws.take(2)
    high = low + 1
    return lambda drawn: (drawn[low] | drawn[high] << 16) % number


def table(field: FieldFile, seed: int, path: str, draws: Draws) -> Table | None:
    """The table of a field that has one: of its values, or of a pool that is made up; None: it has none."""
    if field.values is not None:
        weights = field.weights or (1,) * len(field.values)
        texts = [dumped(each) for each in field.values]
        return Table([text for text, weight in zip(texts, weights, strict=True) for _ in range(weight)], draws)
    if field.type == "boolean":
        return Table(("false", "true"), draws)
    if field.pool is None or field.type == "date":
        return None
    return Table(pool(field, seed, path), draws)


def several(first: Table | None, number: int, draws: Draws) -> list[Table]:
    """So many tables of the same values, each with draws of its own; the first is there."""
    if first is None or number == 0:
        return []
    return [first, *(Table(first.texts, draws) for _ in range(number - 1))]


def pool(field: FieldFile, seed: int, path: str) -> list[str]:
    """The values of a pool, as JSON text."""
    number = field.pool or 1
    if field.type == "keyword" and field.hex is None:
        return [dumped(f"{field.prefix or ''}{word}") for word in vocabulary(seed, path, number)]
    apart = Draws(seed)
    make = _made(field, seed, path, apart)
    return [make(apart.of(f"{path}/{n}"), n) for n in range(number)]


def _made(field: FieldFile, seed: int, path: str, draws: Draws) -> Value:
    """The generator of a value that comes from no table."""
    makers: dict[str, Callable[[FieldFile, int, str, Draws], Value]] = {
        "keyword": _hex,
        "text": _text,
        "integer": _whole,
        "long": _whole,
        "float": _decimal,
        "double": _decimal,
        "ip": _address,
        "date": _date,
        "geo_point": _point,
    }
    return makers[field.type](field, seed, path, draws)


def _hex(field: FieldFile, seed: int, path: str, draws: Draws) -> Value:
    digits = field.hex or 32
    number = -(-digits // 4)
    first = draws.take(number)
    template = '"' + "%04x" * number
    end, rest = first + number, 1 + digits
    return lambda drawn, _: (template % drawn[first:end])[:rest] + '"'


def _text(field: FieldFile, seed: int, path: str, draws: Draws) -> Value:
    least, most = field.words or (12, 12)
    words = vocabulary(seed, path, field.vocabulary or WORDS)
    rng = chance(seed, f"{path}/phrases")
    made = [[words[some(rng, len(words))] for _ in range(PHRASE)] for _ in range(PHRASES)]
    phrases = [[" ".join(each[:length]) for each in made] for length in range(PHRASE + 1)]
    long, spread = phrases[PHRASE], most - least + 1
    length_at = draws.take() if spread > 1 else 0
    first = draws.take(-(-most // PHRASE) or 1)

    def value(drawn: Drawn, _: int) -> str:
        length = least + drawn[length_at] % spread if spread > 1 else least
        whole, rest = divmod(length, PHRASE)
        end = first + whole
        parts = [long[each % PHRASES] for each in drawn[first:end]]
        if rest:
            parts.append(phrases[rest][drawn[end] % PHRASES])
        return f'"{" ".join(parts)}"'

    return value


def _whole(field: FieldFile, seed: int, path: str, draws: Draws) -> Value:
    least, most = field.range or (0, 1000)
    spread, first = int(most) - int(least) + 1, draws.take(4)

    def value(drawn: Drawn, _: int) -> str:
        a, b, c, d = drawn[first : first + 4]
        return str(least + (a | b << 16 | c << 32 | d << 48) % spread)

    return value


def _decimal(field: FieldFile, seed: int, path: str, draws: Draws) -> Value:
    least, most = field.range or (0, 1000)
    parts = 10 ** (3 if field.decimals is None else field.decimals)
    low, first = round(least * parts), draws.take(4)
    spread = round(most * parts) - low + 1

    def value(drawn: Drawn, _: int) -> str:
        a, b, c, d = drawn[first : first + 4]
        return repr((low + (a | b << 16 | c << 32 | d << 48) % spread) / parts)

    return value


def _point(field: FieldFile, seed: int, path: str, draws: Draws) -> Value:
    """A place on earth; a metre apart at best."""
    south, west, north, east = field.area or (-90, -180, 90, 180)
    first = draws.take(4)

    def value(drawn: Drawn, _: int) -> str:
        a, b, c, d = drawn[first : first + 4]
        lat = round(south + (a | b << 16) / 0xFFFFFFFF * (north - south), 5)
        lon = round(west + (c | d << 16) / 0xFFFFFFFF * (east - west), 5)
        return f'{{"lat":{lat:.5f},"lon":{lon:.5f}}}'

    return value


def _address(field: FieldFile, seed: int, path: str, draws: Draws) -> Value:
    net = ipaddress.ip_network(field.net or "10.0.0.0/16")
    base, number = int(net.network_address), net.num_addresses
    if isinstance(net, ipaddress.IPv4Network):
        low = draws.take(2)

        def plain(drawn: Drawn, _: int) -> str:
            at = base + (drawn[low] | drawn[low + 1] << 16) % number
            return f'"{at >> 24}.{at >> 16 & 255}.{at >> 8 & 255}.{at & 255}"'

        return plain
    first = draws.take(8)

    def value(drawn: Drawn, _: int) -> str:
        at = 0
        for each in drawn[first : first + 8]:
            at = at << 16 | each
        return f'"{ipaddress.IPv6Address(base + at % number)}"'

    return value


# ---- dates


def _date(field: FieldFile, seed: int, path: str, draws: Draws) -> Value:
    write = writer(field)
    if field.pool is None:
        return write
    which = index(field.pool, draws)
    return lambda drawn, _: write(drawn, which(drawn))


def writer(field: FieldFile, moved_s: float = 0.0) -> Value:
    """Writes the date of a document by its number."""
    start = moment(field.start or START)
    begin = round(start.timestamp() * 1000) + round(moved_s * 1000)
    step = round(float(field.step or 1) * 1000) or 1
    ways = [_WRITTEN[name] for name in field.format or DATE_FORMATS[:1]]
    if len(ways) == 1:
        (only,) = ways
        return lambda _, number: only(begin + number * step)
    return lambda _, number: ways[number % len(ways)](begin + number * step)


_DAY_MS = 86_400_000


@functools.lru_cache(64)
def _day(days: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=days)).strftime("%Y-%m-%d")


@functools.lru_cache(64)
def _second(seconds: int, between: str) -> str:
    """Neighbours in number are often in one second."""
    days, rest = divmod(seconds, _DAY_MS // 1000)
    minutes, second = divmod(rest, 60)
    return f'"{_day(days)}{between}{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}'


def _iso(ms: int) -> str:
    return f'{_second(ms // 1000, "T")}.{ms % 1000:03d}Z"'


def _spaced(ms: int) -> str:
    return f'{_second(ms // 1000, " ")}"'


_WRITTEN: dict[str, Callable[[int], str]] = {
    "strict_date_optional_time": _iso,
    "epoch_millis": str,
    "epoch_second": lambda ms: str(ms // 1000),
    "yyyy-MM-dd HH:mm:ss": _spaced,
    "yyyy-MM-dd": lambda ms: f'"{_day(ms // _DAY_MS)}"',
}


# ------------------------------------------------------------------------------------------ of a field


def share_of(share: float) -> int:
    """Below this a draw falls in so many of all cases."""
    return round(float(share) * 65536)


def one(field: FieldFile, seed: int, path: str, draws: Draws) -> Value:
    """The generator of one value of a field: neither null nor a list."""
    if field.fields:
        return whole({f'"{name}":': value(each, seed, f"{path}.{name}", draws) for name, each in field.fields.items()})
    found = table(field, seed, path, draws)
    return found.value() if found is not None else _made(field, seed, path, draws)


def whole(parts: dict[str, Value]) -> Value:
    """An object of fields: their names as JSON text, with the colon."""
    made = tuple(parts.items())
    return lambda drawn, number: f"{{{','.join([name + value(drawn, number) for name, value in made])}}}"


def value(field: FieldFile, seed: int, path: str, draws: Draws) -> Value:
    """The generator of a field: a value, a list of them, or null."""
    made = one(field, seed, path, draws) if field.array is None else _array(field, seed, path, draws)
    if field.nulls is None:
        return made
    place, below = draws.take(), share_of(field.nulls)
    return lambda drawn, number: "null" if drawn[place] < below else made(drawn, number)


def _array(field: FieldFile, seed: int, path: str, draws: Draws) -> Value:
    assert field.array is not None
    least, most = field.array
    place, spread = draws.take(), most - least + 1
    tables = several(None if field.fields or most == 0 else table(field, seed, path, draws), most, draws)
    elements = [each.value() for each in tables] or [one(field, seed, path, draws) for _ in range(most)]

    def value(drawn: Drawn, number: int) -> str:
        many = least + drawn[place] % spread
        return f"[{','.join([each(drawn, number) for each in elements[:many]])}]"

    return value
