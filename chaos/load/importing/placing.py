"""Literals of searches become values that documents have: else a search of made-up documents would find nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from chaos.base.units import Duration
from chaos.load.importing import bodies
from chaos.load.importing.fields import milliseconds
from chaos.load.importing.rows import Search

_NOW = re.compile(r"now(?:([+-])(\d+)([smhHdwMy]))?(?:/[smhHdwMy])?")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "H": 3600, "d": 86_400, "w": 604_800, "M": 2_592_000, "y": 31_536_000}
MOST_SECONDS = 50 * 365 * 86_400
"""A window reaches back fifty years at most."""
DAY = 86_400.0
_LOWER, _UPPER = ("gte", "gt"), ("lte", "lt")


class Placing:
    """Puts placeholders into one search. ``fields``: the field whose values stand under each name that a search may
    use; ``places``: its path.

    ``changes``: what became another thing, for people.
    """

    def __init__(self, search: Search, fields: Mapping[str, Mapping[str, Any]], places: Mapping[str, str]) -> None:
        self._search, self._fields, self._places = search, fields, places
        self._aligned = list(zip(*map(bodies.leaves, search.bodies), strict=True))
        self._next = 0
        self.changes: dict[str, None] = {}

    def body(self) -> dict[str, Any]:
        """The body with placeholders."""
        self._next = 0
        return bodies.changed(self._search.bodies[0], self._leaf)

    def _leaf(self, kind: str, name: str | None, said: Any) -> Any:
        every = self._aligned[self._next]
        self._next += 1
        if name is None:
            return self._words_in_many(said)
        path, field = self._field(name)
        if field is None:
            return _commonest(every)
        if kind in bodies.OF_PLACES:
            return self._near(name, path) if kind == "geo_distance" else _commonest(every)
        if field["type"] == "date" and kind in ("range", "term", "match"):
            return self._dates(path, field, every) if kind == "range" else self._place(said, f"{{{{{path}}}}}")
        if kind == "range":
            return self._range(name, every)
        if kind == "terms" and isinstance(said, list):
            return self._terms(name, path, field, every)
        if kind in ("term", "match", "match_phrase", "match_bool_prefix", "terms_set"):
            return self._value(name, path, field, every)
        return _commonest(every)

    def _field(self, name: str) -> tuple[str, Mapping[str, Any] | None]:
        return self._places.get(name, name), self._fields.get(name)

    def _place(self, said: Any, text: str) -> Any:
        if isinstance(said, Mapping):
            key = "value" if "value" in said else "query"
            return {**said, key: text}
        return text

    def _value(self, name: str, path: str, field: Mapping[str, Any], every: Sequence[Any]) -> Any:
        said = _commonest(every)
        values = {_text(value) for each in every for value in bodies.literals(each)}
        known = {_text(value) for value in field.get("values", ())}
        if field["type"] == "boolean" or (len(values) == 1 and values <= known):
            return said
        words = field["type"] == "text" and name == path  # a field of it, as title.raw, has the whole text
        if words and "values" in field:
            return said
        if words and any(len(value.split()) > 1 for value in values):
            self._say(f"words that were looked for in {name} became one word that documents have")
        else:
            self._say(f"values of {name} became values that documents have")
        return self._place(said, f"{{{{{'word of ' if words else ''}{path}}}}}")

    def _terms(self, name: str, path: str, field: Mapping[str, Any], every: Sequence[Any]) -> Any:
        said = _commonest(every)
        known = {_text(value) for value in field.get("values", ())}
        if field["type"] == "boolean" or {_text(each) for each in said} <= known:
            return said
        self._say(f"a list of {len(said)} values of {path} became one value that documents have")
        word = "word of " if field["type"] == "text" and name == path and "values" not in field else ""
        return [f"{{{{{word}{path}}}}}"]

    def _near(self, name: str, path: str) -> str:
        """A point that documents have."""
        self._say(f"points of {name} became points that documents have")
        return f"{{{{{path}}}}}"

    def _range(self, name: str, every: Sequence[Any]) -> Any:
        """The middle of what was asked for."""
        said = _commonest(every)
        if not isinstance(said, Mapping):
            return said
        made = dict(said)
        for bound in (*_LOWER, *_UPPER):
            if (
                bound in said
                and len(numbers := sorted({each[bound] for each in every if _is_number(each.get(bound))})) > 1
            ):
                made[bound] = numbers[len(numbers) // 2]
                self._say(f"bounds of {name} became the middle of those that were asked for")
        return made

    def _dates(self, path: str, field: Mapping[str, Any], every: Sequence[Any]) -> Any:
        """A window before now, of the same length: documents are as old as their numbers."""
        said = every[0]
        if not isinstance(said, Mapping):
            return said
        if "pool" in field:
            return self._within_pool(path, field, said)
        windows = [self._window(each, at) for each, at in zip(every, self._times(len(every)), strict=True)]
        lowest = sorted(low for low, _ in windows if low is not None)
        highest = sorted(high for _, high in windows if high is not None)
        made = {key: each for key, each in said.items() if key not in (*_LOWER, *_UPPER, "format", "time_zone")}
        for bound in (*_LOWER, *_UPPER):
            if bound in said:
                known = lowest if bound in _LOWER else highest
                unknown = DAY if bound in _LOWER else 0.0
                made[bound] = _moved(path, known[len(known) // 2] if known else unknown)
                if not known and unknown:
                    self._say(f"how far back {path} is asked for is not known, and became a day")
        self._say(f"the window of {path} ends at the newest document")
        return {**{key: made[key] for key in (*_LOWER, *_UPPER) if key in made}, **made}

    def _times(self, number: int) -> list[datetime | None]:
        return self._search.at if len(self._search.at) == number else [None] * number

    def _window(self, said: Mapping[str, Any], at: datetime | None) -> tuple[float | None, float | None]:
        """Seconds before now at which a range begins and ends."""
        low = next((said[bound] for bound in _LOWER if said.get(bound) is not None), None)
        high = next((said[bound] for bound in _UPPER if said.get(bound) is not None), None)
        now = None if at is None else at.timestamp()
        ends = _ago(high, now) if high is not None else 0.0
        if ends is None or ends < 0:  # a time of its own: what counts is how long it is
            begin, end = (_milliseconds(each, said.get("format")) for each in (low, high))
            return (None if begin is None or end is None else max(0.0, (end - begin) / 1000)), 0.0
        return (_ago(low, now) if low is not None else None), ends

    def _within_pool(self, path: str, field: Mapping[str, Any], said: Mapping[str, Any]) -> Any:
        """Dates of a pool advance with nothing: a part of their span."""
        start = milliseconds(field["start"]) or 0
        span = 1000 * float(Duration.parse(field["step"])) * field["pool"]
        made = {key: each for key, each in said.items() if key not in ("format", "time_zone")}
        for bounds, share in ((_LOWER, 0.25), (_UPPER, 0.75)):
            for bound in bounds:
                if bound in said:
                    made[bound] = _written(start + span * share, field.get("format", "strict_date_optional_time"))
        self._say(f"the window of {path} became the middle half of its dates")
        return made

    def _words_in_many(self, said: Any) -> Any:
        if not isinstance(said, Mapping):
            return said
        named = said.get("fields")
        listed = named if isinstance(named, list) else [named] if isinstance(named, str) else []
        texts = [path for each in listed if (path := str(each).partition("^")[0]) in self._fields]
        texts = [path for path in texts if self._fields[path]["type"] == "text" and "values" not in self._fields[path]]
        query = said.get("query")
        if not texts or not isinstance(query, str) or not re.fullmatch(r"[\w\s]+", query):
            return said
        self._say(f"words that were looked for became a word of {texts[0]}")
        return {**said, "query": f"{{{{word of {texts[0]}}}}}"}

    def _say(self, text: str) -> None:
        self.changes[text] = None


def _written(ms: float, given: str | Sequence[str]) -> str | int:
    """A date in the first of a field's formats."""
    name = given if isinstance(given, str) else given[0]
    if name.startswith("epoch"):
        return round(ms) if name == "epoch_millis" else round(ms / 1000)
    patterns = {"yyyy-MM-dd": "%Y-%m-%d", "yyyy-MM-dd HH:mm:ss": "%Y-%m-%d %H:%M:%S"}
    return datetime.fromtimestamp(ms / 1000, UTC).strftime(patterns.get(name, "%Y-%m-%dT%H:%M:%SZ"))


def _commonest(every: Sequence[Any]) -> Any:
    if len(every) == 1:
        return every[0]
    often = Counter(map(_text, every)).most_common(1)[0][0]
    return next(each for each in every if _text(each) == often)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_LETTERS = {"yyyy": "%Y", "uuuu": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


def _milliseconds(value: Any, given: Any) -> int | None:
    """A date of a range, which may have a format of its own, as milliseconds since 1970."""
    if isinstance(given, str) and isinstance(value, str):
        pattern = re.sub("yyyy|uuuu|MM|dd|HH|mm|ss", lambda match: _LETTERS[match[0]], given)
        try:
            return round(datetime.strptime(value, pattern).replace(tzinfo=UTC).timestamp() * 1000)
        except ValueError:
            pass
    return milliseconds(value)


def _ago(value: Any, now: float | None) -> float | None:
    """Seconds before now, of ``now-15m`` or of a date, where it is known when that was asked."""
    if isinstance(value, str) and (match := _NOW.fullmatch(value)):
        seconds = int(match[2] or 0) * _SECONDS[match[3]] if match[3] else 0
        return float(-seconds if match[1] == "+" else seconds)
    ms = milliseconds(value)
    return None if ms is None or now is None else now - ms / 1000


def _moved(path: str, seconds: float) -> str:
    """The date of the newest document, or one so much before."""
    whole = min(round(seconds), MOST_SECONDS)
    if whole <= 0:
        return f"{{{{{path}}}}}"
    for unit, worth in (("h", 3600), ("m", 60)):
        if whole % worth == 0 or whole > 60 * worth:
            return f"{{{{{path} - {max(1, round(whole / worth))}{unit}}}}}"
    return f"{{{{{path} - {whole}s}}}}"
