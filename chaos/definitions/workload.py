"""A workload in YAML: what its documents are made of, what their index is like, and which searches are sent.

:class:`WorkloadFile` is the shape that people write (and the published JSON Schema), :class:`WorkloadDefinition` what
everything else uses: it stands in the normal form of an experiment, so a plan needs no file elsewhere. How documents
and requests are made of it is in :mod:`chaos.load.dataset`.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationInfo,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from chaos.base.units import NORMAL_FORM, Duration, Malformed, PositiveDuration, PositivePercent
from chaos.definitions.base import API_VERSION, OneOrMore, Strict
from chaos.definitions.selectors import NAME
from chaos.definitions.source import Loc, Problem, did_you_mean
from chaos.definitions.topology import Setting, named_twice, setting, short_names

FIELD = r"[@A-Za-z][A-Za-z0-9_@-]*"
"""A field's name. It has no dot, for OpenSearch makes objects of those; its own begin with an underscore."""
MOST_VALUES = 100_000
"""Of a pool: it is held in memory."""
MOST_FOUND = 10_000
"""Values of a field that searches can be held against: each is counted apart."""
MOST_ELEMENTS = 100
MOST_WORDS = 10_000
MOST_WEIGHT = 10_000
"""All weights of a list together: a table has a place for each."""
DEPTH = 5
"""Fields in fields, at most."""
MOST_IN_DOCUMENT = 5000
"""Values of one document, with all elements of its lists."""

FieldName = Annotated[str, Field(pattern=f"^{FIELD}$")]
Word = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")]
Scalar = StrictBool | StrictInt | StrictFloat | StrictStr

Degrees = StrictInt | StrictFloat

DATE_FORMATS = (
    "strict_date_optional_time",
    "epoch_millis",
    "epoch_second",
    "yyyy-MM-dd HH:mm:ss",
    "yyyy-MM-dd",
)
"""Formats in which dates can be written, by OpenSearch's names."""
DateFormat = Literal["strict_date_optional_time", "epoch_millis", "epoch_second", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd"]
FieldType = Literal[
    "keyword",
    "text",
    "integer",
    "long",
    "float",
    "double",
    "boolean",
    "ip",
    "date",
    "geo_point",
    "object",
    "nested",
    "flat_object",
]
WITH_FIELDS = ("object", "nested", "flat_object")
WHOLE = {"integer": 31, "long": 63}
"""Bits of whole numbers."""
_NUMBERS = ("range", "values", "weights", "pool")
_FOR: dict[str, tuple[str, ...]] = {
    "keyword": ("values", "weights", "pool", "prefix", "hex"),
    "text": ("values", "weights", "pool", "words", "vocabulary"),
    "integer": _NUMBERS,
    "long": _NUMBERS,
    "float": (*_NUMBERS, "decimals"),
    "double": (*_NUMBERS, "decimals"),
    "boolean": ("values", "weights"),
    "ip": ("values", "weights", "pool", "net"),
    "date": ("start", "step", "format", "pool"),
    "geo_point": ("area", "pool"),
    "object": ("fields",),
    "nested": ("fields",),
    "flat_object": ("fields",),
}
"""What says how values of a type are made, beside ``array``, ``nulls`` and ``mapping``, which all types have."""
_OF_ALL = ("type", "array", "nulls", "mapping")
_FAMILIES = (
    {"keyword", "text", "wildcard", "match_only_text", "constant_keyword", "search_as_you_type", "ip"},
    {"integer", "long", "float", "double", "short", "byte", "half_float", "scaled_float", "unsigned_long", "date"},
    {"boolean", "keyword"},
    {"ip", "keyword"},
    {"date", "date_nanos", "keyword", "long"},
    {"object", "flat_object"},
    {"nested", "object"},
    {"flat_object", "object"},
)
_FAMILY: dict[str, set[str]] = {
    "keyword": _FAMILIES[0],
    "text": _FAMILIES[0],
    "integer": _FAMILIES[1],
    "long": _FAMILIES[1],
    "float": _FAMILIES[1] - {"date"},
    "double": _FAMILIES[1] - {"date"},
    "boolean": _FAMILIES[2],
    "ip": _FAMILIES[3],
    "date": _FAMILIES[4],
    "object": _FAMILIES[5],
    "nested": _FAMILIES[6],
    "flat_object": _FAMILIES[7],
    "geo_point": {"geo_point"},
}
"""Which types a mapping of the user's own may give to a field of a type of ours."""
EXACT = frozenset({"keyword", "integer", "long", "short", "byte", "boolean"})
"""Types of fields whose documents are found by exactly their values."""

REFUSED_SETTINGS = {
    "default_pipeline": "an ingest pipeline changes documents, and the read-back would call them wrong",
    "final_pipeline": "an ingest pipeline changes documents, and the read-back would call them wrong",
    "search.default_pipeline": "a search pipeline changes answers, which are judged by what was sent",
    "derived_source.enabled": "a source that is made from the index is not the one that was sent",
    "routing_partition_size": "it needs a routing of each request, and the load has none",
    "append_only.enabled": "it refuses the ids by which the read-back knows each document",
    "auto_expand_replicas": "the copies of a shard would follow the nodes, and answers are held against their number",
}
OF_ONE_INDEX = ("uuid", "creation_date", "provided_name", "version", "blocks", "resize", "history")
"""First words of settings that belong to an index that exists, and not to one that is to be made."""


def _pairs(value: Any, info: ValidationInfo) -> Any:
    """A normal form has lists of pairs: their order decides what is drawn, and JSON promises none."""
    if isinstance(value, list | tuple) and (info.context or {}).get(NORMAL_FORM):
        return dict(value)
    return value


def _as_pairs(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return list(value.items())


class _Lean(Strict):
    """In normal form without what is not given."""

    @model_serializer(mode="wrap")
    def _without_what_is_not_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        return {key: value for key, value in data.items() if value is not None}


def _span(value: Any) -> Any:
    return (value, value) if isinstance(value, int) and not isinstance(value, bool) else value


Span = Annotated[
    tuple[StrictInt, StrictInt],
    BeforeValidator(_span),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2},
            ]
        }
    ),
]
"""How many: a number, or least and most."""


def moment(text: str) -> datetime:
    """A date and time, in UTC where it names no zone. Raises :class:`Malformed`."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Malformed(f"cannot read {text!r}: expected a date and time such as 2026-01-31T08:00:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _moment(text: str) -> str:
    moment(text)
    return text


def _network(text: str) -> str:
    try:
        ipaddress.ip_network(text)
    except ValueError as error:
        raise Malformed(f"{error}: expected a network such as 10.0.0.0/16") from None
    return text


class FieldFile(_Lean):
    """One field: its type, and how its values are made. Which keys say that follows from the type."""

    type: FieldType = Field(description="the field's type in OpenSearch")
    values: tuple[Scalar, ...] | None = Field(
        default=None, min_length=1, max_length=MOST_VALUES, description="one of these is drawn, for example [GET, POST]"
    )
    weights: tuple[Annotated[StrictInt, Field(ge=1)], ...] | None = Field(
        default=None, description="how often each of values is drawn, for example [90, 10]; default all alike"
    )
    pool: Annotated[StrictInt, Field(ge=1, le=MOST_VALUES)] | None = Field(
        default=None, description="so many values are made up, and one of them is drawn"
    )
    prefix: str | None = Field(default=None, description="keyword with a pool: what each value begins with")
    hex: Annotated[StrictInt, Field(ge=1, le=64)] | None = Field(
        default=None,
        description="keyword: so many hexadecimal digits, other ones in each document unless there is a pool",
    )
    words: Span | None = Field(default=None, description="text: how many words, for example 12 or [5, 40]; default 12")
    vocabulary: Annotated[StrictInt, Field(ge=2, le=50_000)] | None = Field(
        default=None, description="text: how many different words there are; default 2000"
    )
    range: tuple[StrictInt | StrictFloat, StrictInt | StrictFloat] | None = Field(
        default=None, description="a number: least and most; default [0, 1000]"
    )
    decimals: Annotated[StrictInt, Field(ge=0, le=9)] | None = Field(
        default=None, description="float and double: digits after the point; default 3"
    )
    net: Annotated[str, AfterValidator(_network)] | None = Field(
        default=None, description="ip: the network that addresses are of; default 10.0.0.0/16"
    )
    area: tuple[Degrees, Degrees, Degrees, Degrees] | None = Field(
        default=None,
        description="geo_point: where points lie, as [south, west, north, east] in degrees; default the whole world",
    )
    start: Annotated[str, AfterValidator(_moment)] | None = Field(
        default=None, description="date: of the first document that the load writes; default 2026-01-01T00:00:00Z"
    )
    step: PositiveDuration | None = Field(
        default=None, description="date: from one document's number to the next, for example 20ms; default 1s"
    )
    format: OneOrMore[DateFormat] | None = Field(
        default=None, description="date: as it is written; of several each document has the next"
    )
    fields: Annotated[
        dict[FieldName, FieldFile] | None, BeforeValidator(_pairs), PlainSerializer(lambda it: it and _as_pairs(it))
    ] = Field(default=None, min_length=1, description="object, nested and flat_object: the fields in it")
    array: Span | None = Field(default=None, description="so many values instead of one, for example [0, 3]")
    nulls: PositivePercent | None = Field(
        default=None, description="the share of documents in which it is null, for example 10%"
    )
    mapping: dict[str, Any] | None = Field(default=None, description="more of its mapping, for example {index: false}")

    @model_validator(mode="after")
    def _fits_its_type(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        may = _FOR[self.type]
        for name in given:
            if name not in (*_OF_ALL, *may):
                raise ValueError(
                    f"a field of type {self.type} has no {name}: expected {', '.join((*may, *_OF_ALL[1:]))}"
                )
        self._one_way(given)
        self._in_bounds()
        if self.type in WITH_FIELDS and not self.fields:
            raise ValueError(
                f"a field of type {self.type} has fields in it: expected fields, for example "
                "{status: {type: integer}}"
            )
        if self.nulls is not None and self.nulls >= 1:
            raise ValueError("nulls in every document: expected a share below 100%")
        if self.mapping is not None and (owned := sorted({"type", "properties", "format"} & set(self.mapping))):
            raise ValueError(f"{', '.join(owned)} of the mapping follow from the field: expected other parameters")
        return self

    def _one_way(self, given: Sequence[str]) -> None:
        """One thing says where values come from."""
        sources = [name for name in ("values", "pool", "hex", "range", "net", "words") if name in given]
        if "values" in sources and len(sources) > 1:
            raise ValueError(f"{' and '.join(sources)} both say what is drawn: expected one of them")
        if self.type == "keyword" and not sources:
            raise ValueError("nothing says what its values are: expected values, pool or hex")
        if self.weights is not None:
            if self.values is None or len(self.weights) != len(self.values):
                raise ValueError(f"{len(self.weights)} weights for {len(self.values or ())} values: expected as many")
            if sum(self.weights) > MOST_WEIGHT:
                raise ValueError(f"the weights are {sum(self.weights)} together: expected at most {MOST_WEIGHT}")
        if self.prefix is not None and (self.pool is None or self.hex is not None):
            raise ValueError("a prefix is for the words of a pool: expected pool, and no hex")
        if self.hex is not None and self.pool is not None and self.pool > 16**self.hex / 2:
            raise ValueError(f"{self.hex} hexadecimal digits for a pool of {self.pool}: expected more of them")

    def _in_bounds(self) -> None:
        for name, most in (("array", MOST_ELEMENTS), ("words", MOST_WORDS)):
            if (span := getattr(self, name)) is not None and not 0 <= span[0] <= span[1] <= most:
                raise ValueError(f"{name} {span[0]} to {span[1]}: expected least and most, 0 to {most}")
        for name in ("array", "words"):
            if (span := getattr(self, name)) is not None and span[1] < 1:
                raise ValueError(f"{name} 0: expected 1 or more at most, or {name} left out")
        if self.array is not None and self.type == "flat_object":
            raise ValueError("a flat_object is one object: expected array left out, or arrays in it")
        if self.area is not None:
            south, west, north, east = self.area
            if not (-90 <= south <= north <= 90 and -180 <= west <= east <= 180):
                raise ValueError(
                    f"area {south:g} to {north:g} north and {west:g} to {east:g} east: expected [south, west, north, "
                    "east] within [-90, -180, 90, 180]"
                )
        if self.range is not None and self.range[0] > self.range[1]:
            raise ValueError(f"range {self.range[0]} to {self.range[1]}: expected the least first")
        for each in (*(self.values or ()), *(self.range or ())):
            self._takes(each)

    def _takes(self, value: Any) -> None:
        """Raises ValueError for a value that OpenSearch would refuse in a field of this type."""
        wanted: tuple[type, ...] = {"boolean": (bool,), "float": (int, float), "double": (int, float)}.get(
            self.type, (int,) if self.type in WHOLE else (str,)
        )
        if not isinstance(value, wanted) or (isinstance(value, bool) and self.type != "boolean"):
            names = {bool: "true or false", int: "whole numbers", float: "numbers", str: "text (in quotes)"}
            raise ValueError(f"{value!r} in a field of type {self.type}: expected {names[wanted[-1]]}")
        taken: Any = value
        if (bits := WHOLE.get(self.type)) is not None and not -(2**bits) <= taken < 2**bits:
            raise ValueError(f"{value} does not fit into {self.type}: expected {-(2**bits)} to {2**bits - 1}")
        if self.type in ("float", "double") and abs(taken) > 1e12:
            raise ValueError(f"{value}: expected -1e12 to 1e12")
        if self.type == "ip":
            try:
                ipaddress.ip_address(taken)
            except ValueError as error:
                raise ValueError(f"{error}: expected an address such as 10.0.0.1") from None

    @property
    def countable(self) -> int | None:
        """How many different values it has, where that is known; None: it is not."""
        if self.values is not None:
            return len(self.values)
        if self.type == "boolean":
            return 2
        return self.pool if self.type in ("keyword", *WHOLE) else None

    @property
    def most(self) -> int:
        """How many values it has in one document, at most; a text counts as one for eight words."""
        each = sum(field.most for field in self.fields.values()) if self.fields else 1
        each = max(each, self.words[1] // 8) if self.words is not None else each
        return each * (self.array[1] if self.array is not None else 1)

    def mapped(self) -> dict[str, Any]:
        """Its mapping."""
        made: dict[str, Any] = {"type": self.type}
        if self.type == "date":
            made["format"] = "||".join(self.format or DATE_FORMATS[:1])
        if self.fields and self.type != "flat_object":
            made["properties"] = {name: each.mapped() for name, each in self.fields.items()}
        return {**made, **(self.mapping or {})}


Fields = Annotated[dict[FieldName, FieldFile], BeforeValidator(_pairs), PlainSerializer(_as_pairs), Field(min_length=1)]


class QueryFile(_Lean):
    """One search: its body, and what it must find."""

    body: dict[str, Any] = Field(
        description='as _search takes it; a text "{{FIELD}}" becomes a value of that field, "{{word of FIELD}}" a '
        'word of a text, "{{FIELD - 15m}}" a date before the newest document\'s'
    )
    find: FieldName | None = Field(
        default=None,
        description="the one field whose value it filters on, so that what it must find is known",
    )
    description: str | None = Field(default=None, description="what it stands for")


Queries = Annotated[dict[Word, QueryFile], BeforeValidator(_pairs), PlainSerializer(_as_pairs)]
Mix = Annotated[dict[Word, Annotated[StrictInt, Field(ge=1, le=MOST_WEIGHT)]], BeforeValidator(_pairs)]


class _Common(Strict):
    """What a file says, and its normal form as well."""

    name: Annotated[str, Field(pattern=f"^{NAME}$")] = Field(description="small letters, digits and dashes")
    description: str = Field(default="", description="one or two lines for people")
    sources: tuple[str, ...] = Field(default=(), description="where documents and queries like these come from")
    seed: StrictInt = Field(default=1, ge=0, description="decides every value that is made up")
    fields: Fields = Field(description="of each document, beside its number and its check")
    number: FieldName = Field(default="seq", description="the field (long) that holds a document's number")
    check: FieldName = Field(default="check", description="the field (long) that no two documents share")
    settings: dict[str, Setting] = Field(
        default_factory=dict, description="of its index, where the topology says nothing else"
    )
    queries: Queries = Field(default_factory=dict, description="searches by name; reads are drawn from them")
    mix: Mix = Field(
        default_factory=dict, description="how often each query is drawn, for example {cheap: 20}; default all alike"
    )


class _Header(Strict):
    api_version: Literal["opensearch-chaos/v1"] = Field(alias="apiVersion", description=API_VERSION)
    kind: Literal["workload"] = Field(description="workload")


class WorkloadFile(_Common, _Header):  # the last base's fields come first
    """A workload as written."""

    mapping: dict[str, Any] | None = Field(
        default=None, description="the whole mapping of its index; default what follows from the fields"
    )
    template: str | None = Field(
        default=None,
        min_length=1,
        description="a file of yours with settings and mappings, as PUT _index_template takes it; its path from here",
    )

    @model_validator(mode="after")
    def _one_mapping(self) -> Self:
        if self.mapping is not None and self.template is not None:
            raise ValueError("mapping and template both say what the index is like: expected one of them")
        return self


class WorkloadDefinition(_Common):
    """A workload, resolved. ``mapping`` is whole, ``settings`` have short names (``codec``).

    ``file``: where it was written; it decides nothing. ``notes``: what a template says and this does not take.
    """

    mapping: dict[str, Any]
    file: str | None = None
    notes: tuple[str, ...] = Field(default=(), exclude=True)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """From its normal form."""
        return cls.model_validate(data, context={NORMAL_FORM: True})

    def to_json(self) -> dict[str, Any]:
        """The normal form, JSON-able. :meth:`from_json` reads it back."""
        return self.model_dump(mode="json")


# ------------------------------------------------------------------------------------------ placeholders

_PLACEHOLDER = re.compile(
    rf"\{{\{{ ?(?P<word>word of )?(?P<path>{FIELD}(?:\.{FIELD})*)(?: (?P<sign>[+-]) (?P<by>[^}}]+?))? ?\}}\}}"
)


class Placeholder(NamedTuple):
    """What stands in a query for a value: of which field, whether one word of it, seconds that a date is moved."""

    path: tuple[str, ...]
    word: bool = False
    moved: float = 0.0


def placeholder(text: str) -> Placeholder | None:
    """The placeholder that a text is; None for a plain text. Raises :class:`Malformed` for what is neither."""
    if "{{" not in text and "}}" not in text:
        return None
    match = _PLACEHOLDER.fullmatch(text)
    if match is None:
        raise Malformed(
            f'cannot read {text!r}: expected a whole text such as "{{{{FIELD}}}}", "{{{{word of FIELD}}}}" or '
            '"{{DATE - 15m}}"'
        )
    moved = 0.0
    if match["by"]:
        moved = float(Duration.parse(match["by"])) * (-1 if match["sign"] == "-" else 1)
    return Placeholder(tuple(match["path"].split(".")), match["word"] is not None, moved)


def texts(value: Any, loc: Loc = ()) -> Iterator[tuple[Loc, str]]:
    """Every text of a body with its place. Keys are no values: nothing is put into them."""
    if isinstance(value, str):
        yield loc, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from texts(each, (*loc, key))
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from texts(each, (*loc, index))


def field_at(fields: Mapping[str, FieldFile], path: Sequence[str]) -> FieldFile | None:
    """The field of a path of names."""
    found = fields.get(path[0])
    if found is None or len(path) == 1:
        return found
    return field_at(found.fields or {}, path[1:])


def paths(fields: Mapping[str, FieldFile], above: tuple[str, ...] = ()) -> Iterator[str]:
    """The paths of all fields that hold values."""
    for name, each in fields.items():
        if each.fields:
            yield from paths(each.fields, (*above, name))
        else:
            yield ".".join((*above, name))


# ------------------------------------------------------------------------------------- what does not fit


def check(given: _Common, mapping: Mapping[str, Any] | None) -> Iterator[Problem]:
    """What only the whole file can tell. ``mapping``: one of the user's own; None: that of the fields."""
    for what in ("number", "check"):
        if (name := getattr(given, what)) in given.fields:
            says = f"the field {name} is where each document has its {what}: expected another {what}, or another name"
            yield Problem(("fields", name), says, at_key=True)
    if given.number == given.check:
        yield Problem(("check",), f"number and check are both {given.check}: expected two fields")
    yield from _too_deep(given.fields, ("fields",), DEPTH)
    for name, field in given.fields.items():
        if (most := field.most) > MOST_IN_DOCUMENT:
            says = (
                f"{name} has up to {most} values in a document: expected at most {MOST_IN_DOCUMENT}, by shorter arrays"
            )
            yield Problem(("fields", name), says, at_key=True)
    yield from _settings(given.settings, ("settings",))
    if mapping is not None:
        yield from (Problem(("mapping",), says, at_key=True) for says in unfit_mapping(given, mapping))
        mapping = mapping if _sound(mapping) else None
    for name, query in given.queries.items():
        yield from _query(given, name, query, mapping)
    for name in given.mix:
        if name not in given.queries:
            says = f"there is no query {name}: {did_you_mean(name, given.queries)}"
            yield Problem(("mix", name), says, at_key=True)
    if given.mix and (never := [name for name in given.queries if name not in given.mix]):
        yield Problem(("mix",), f"{', '.join(never)} would never be sent: expected a weight of each query", at_key=True)
    if sum(given.mix.values()) > MOST_WEIGHT:
        says = f"the weights are {sum(given.mix.values())} together: expected at most {MOST_WEIGHT}"
        yield Problem(("mix",), says, at_key=True)


def _too_deep(fields: Mapping[str, FieldFile], loc: Loc, most: int) -> Iterator[Problem]:
    for name, each in fields.items():
        if most == 0:
            yield Problem((*loc, name), f"fields in fields in fields: expected at most {DEPTH} levels", at_key=True)
        elif each.fields:
            yield from _too_deep(each.fields, (*loc, name, "fields"), most - 1)
            if each.type == "flat_object":
                yield from _mapped_in_flat(each.fields, (*loc, name, "fields"))


def _mapped_in_flat(fields: Mapping[str, FieldFile], loc: Loc) -> Iterator[Problem]:
    for name, each in fields.items():
        if each.mapping is not None:
            yield Problem((*loc, name, "mapping"), "keys of a flat_object have no mapping: expected it left out", True)
        yield from _mapped_in_flat(each.fields or {}, (*loc, name, "fields"))


def _settings(settings: Mapping[str, Any], loc: Loc) -> Iterator[Problem]:
    yield from named_twice(settings, loc)
    for key, value in settings.items():
        if says := unfit_setting(key.removeprefix("index."), value):
            yield Problem((*loc, key), says, at_key=True)


def unfit_setting(key: str, value: Any) -> str:
    """Why an index with this setting (its short name) cannot be made, or not be judged; empty: it can."""
    if key in REFUSED_SETTINGS and str(value).lower() not in ("false", "_none"):
        return f"index.{key}: {REFUSED_SETTINGS[key]}: expected it left out"
    if key.partition(".")[0] in OF_ONE_INDEX:
        return f"index.{key} belongs to an index that exists: expected it left out"
    if key in ("number_of_shards", "number_of_replicas"):
        least = int(key == "number_of_shards")
        if type(value) is not int or value < least:
            return f"{key}: expected a whole number from {least}, got {value!r}"
    return ""


def unfit_mapping(given: _Common, mapping: Mapping[str, Any]) -> Iterator[str]:
    """Why documents of these fields would be refused under a mapping of the user's own, or could not be verified."""
    if not _sound(mapping):
        yield "it is no mapping as OpenSearch takes it: expected properties, a mapping of names to mappings"
        return
    source = mapping.get("_source") or {}
    if source.get("enabled", True) is False or source.get("includes") or source.get("excludes"):
        yield "its _source does not keep documents whole, and the read-back compares them: expected _source left out"
    if (mapping.get("_routing") or {}).get("required"):
        yield "it requires a routing of each request, and the load has none: expected _routing left out"
    properties = mapping.get("properties") or {}
    for what in ("number", "check"):
        name = getattr(given, what)
        said = properties.get(name, {"type": "long"})
        if said.get("type") != "long" or not said.get("index", True) or not said.get("doc_values", True):
            yield (
                f"its field {name} is to hold each document's {what}: expected {{type: long}}, or another name under "
                f"{what}"
            )
    yield from _unmapped(given.fields, mapping, ())


def _sound(mapping: Any) -> bool:
    """Whether it has the shape of a mapping, all the way down."""
    if not isinstance(mapping, Mapping):
        return False
    properties = mapping.get("properties") or {}
    special = all(isinstance(mapping.get(name) or {}, Mapping) for name in ("_source", "_routing"))
    return special and isinstance(properties, Mapping) and all(map(_sound, properties.values()))


def _unmapped(fields: Mapping[str, FieldFile], mapping: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[str]:
    properties = mapping.get("properties") or {}
    strict = str(mapping.get("dynamic", "true")).lower() == "strict"
    for name, each in fields.items():
        shown = ".".join((*above, name))
        said = properties.get(name)
        if said is None:
            if strict:
                yield f"it is strict and has no field {shown}, so every document would be refused: expected it there"
            continue
        theirs = str(said.get("type", "object"))
        if theirs not in _FAMILY[each.type]:
            yield f"its field {shown} is of type {theirs}, and its values of type {each.type}: expected {theirs}"
        elif each.fields and theirs != "flat_object":
            yield from _unmapped(each.fields, {"dynamic": mapping.get("dynamic", "true"), **said}, (*above, name))


def _query(given: _Common, name: str, query: QueryFile, mapping: Mapping[str, Any] | None) -> Iterator[Problem]:
    loc: Loc = ("queries", name, "body")
    sound = True
    for where, text in texts(query.body, loc):
        try:
            says = _placed(given, placeholder(text))
        except Malformed as error:
            says = error.message
        if says:
            sound = False
            yield Problem(where, says)
    for key in ("pit", "scroll", "slice", "stats", "indices_boost"):
        if key in query.body:
            yield Problem((*loc, key), f"a search of the load has no {key}: expected it left out", at_key=True)
    for where in _elsewhere(query.body, loc):
        says = "a search of the load reads its own index alone: expected no document of another one"
        yield Problem(where, says, at_key=True)
    try:
        json.dumps(query.body, allow_nan=False)
    except ValueError:
        yield Problem(loc, "infinity and not-a-number are no JSON: expected other numbers", at_key=True)
    if query.find is not None and sound and (says := unfound(given, query, mapping)):
        yield Problem(("queries", name, "find"), says)


def _elsewhere(value: Any, loc: Loc) -> Iterator[Loc]:
    """Where a body names an index: a terms lookup, a stored shape, documents that others are to be like."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            if key in ("index", "_index") and isinstance(each, str) and len(value) > 1:
                yield (*loc, key)
            yield from _elsewhere(each, (*loc, key))
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _elsewhere(each, (*loc, index))


def _placed(given: _Common, it: Placeholder | None) -> str:
    if it is None:
        return ""
    shown, field = ".".join(it.path), field_at(given.fields, it.path)
    if field is None:
        return f"there is no field {shown}: {did_you_mean(shown, paths(given.fields))}"
    if field.fields:
        return (
            f"{shown} has fields in it: expected one that holds values, for example {shown}.{next(iter(field.fields))}"
        )
    if it.word and field.type != "text":
        return f"{shown} is of type {field.type}: expected a text, to take a word of"
    if it.moved and field.type != "date":
        return f"{shown} is of type {field.type}: expected a date, to be moved by a duration"
    return ""


_BESIDE_FIND = ("post_filter", "min_score", "terminate_after", "timeout", "collapse", "rescore", "suggest", "knn")


def unfound(given: _Common, query: QueryFile, mapping: Mapping[str, Any] | None) -> str:
    """Why a query does not find exactly the documents whose field ``find`` has the drawn value; empty: it does."""
    name = query.find
    assert name is not None
    field = given.fields.get(name)
    if field is None:
        return f"there is no field {name}: {did_you_mean(name, given.fields)}"
    mapped = ((mapping or {}).get("properties") or {}).get(name) if mapping is not None else field.mapped()
    mapped = field.mapped() if mapped is None else mapped
    if mapped.get("type") not in EXACT or not mapped.get("index", True) or "normalizer" in mapped:
        return (
            f"documents are not found by exactly the values of {name}: expected an indexed {' or '.join(sorted(EXACT))}"
        )
    if "ignore_above" in mapped or "null_value" in mapped:
        return f"ignore_above or null_value of {name} change what is found by it: expected them left out"
    if (number := field.countable) is None or number > MOST_FOUND:
        many = "any number of" if number is None else number
        return f"{name} has {many} values: expected values, or a pool of at most {MOST_FOUND}"
    if wrong := [key for key in _BESIDE_FIND if key in query.body]:
        return f"{', '.join(wrong)} change what is found: expected find left out, or a query alone"
    if query.body.get("track_total_hits") is False:
        return "track_total_hits: false keeps from saying how many were found: expected it left out"
    term = _filters(query.body.get("query"))
    if len(term) != 1 or term[0] not in _terms(name):
        return (
            f"what it finds must follow from {name} alone: expected the query {{term: {{{name}: "
            f'"{{{{{name}}}}}"}}}}, or a bool with that one filter (and should)'
        )
    return ""


def _terms(name: str) -> tuple[dict[str, Any], ...]:
    text = f"{{{{{name}}}}}"
    return {"term": {name: text}}, {"term": {name: {"value": text}}}


def _filters(query: Any) -> list[Any]:
    """The clauses that a document must fulfil; what is no simple query gives none."""
    if not isinstance(query, Mapping):
        return []
    said = query.get("bool")
    if said is None:
        return [query]
    if not isinstance(said, Mapping) or set(said) - {"filter", "must", "should"}:
        return []
    found: list[Any] = []
    for key in ("filter", "must"):
        clauses = said.get(key, [])
        found += clauses if isinstance(clauses, list) else [clauses]
    return found


# ------------------------------------------------------------------------------------------- resolving


def whole_mapping(given: _Common, mapping: Mapping[str, Any] | None) -> dict[str, Any]:
    """The mapping of its index, with the fields of a document's number and check."""
    own = {given.number: {"type": "long"}, given.check: {"type": "long"}}
    if mapping is None:
        made = {name: each.mapped() for name, each in given.fields.items()}
        return {"dynamic": "strict", "properties": {**own, **made}}
    return {**mapping, "properties": {**own, **(mapping.get("properties") or {})}}


def resolve(
    file: WorkloadFile,
    shown_as: str,
    template: Template | None = None,
) -> WorkloadDefinition:
    """The workload that a valid file means."""
    mapping = file.mapping if template is None else template.mapping
    settings = {**(template.settings if template is not None else {}), **short_names(file.settings)}
    given = {name: getattr(file, name) for name in _Common.model_fields}
    return WorkloadDefinition(
        **{**given, "settings": settings},
        mapping=whole_mapping(file, mapping),
        file=shown_as,
        notes=template.notes if template is not None else (),
    )


class Template(NamedTuple):
    """What an index template says. ``settings`` by their short names; ``notes``: what of it is not taken."""

    settings: dict[str, Any]
    mapping: dict[str, Any]
    notes: tuple[str, ...] = ()


_PASSED_OVER = ("index_patterns", "priority", "version", "_meta", "order")
_REFUSED_PARTS = {
    "composed_of": "component templates are not read: expected their settings and mappings in this file",
    "data_stream": "an experiment says so of its index (load.data_stream): expected data_stream left out here",
    "aliases": "the load's index has the alias of its writes alone: expected aliases left out",
}


def read_template(data: Mapping[str, Any]) -> tuple[Template, list[str]]:
    """What an index template says, as ``PUT _index_template`` or ``_template`` takes it; and what is wrong with it."""
    wrong: list[str] = []
    inner = data.get("template", data)
    if not isinstance(inner, Mapping):
        return Template({}, {}), ["template: expected settings and mappings"]
    for part in (data, inner) if inner is not data else (data,):
        wrong += [f"{key}: {says}" for key, says in _REFUSED_PARTS.items() if part.get(key)]
    known = {"template", "settings", "mappings", *_PASSED_OVER, *_REFUSED_PARTS}
    wrong += [f"unknown key {key}: {did_you_mean(str(key), sorted(known))}" for key in data if key not in known]
    if inner is not data:
        more = sorted(set(inner) - {"settings", "mappings", "aliases"})
        wrong += [f"unknown key template.{key}: expected settings, mappings" for key in more]
    settings, mapping = inner.get("settings") or {}, inner.get("mappings") or {}
    if not isinstance(settings, Mapping) or not isinstance(mapping, Mapping):
        return Template({}, {}), [*wrong, "settings and mappings: expected a mapping each"]
    flat = {key: _number(key, value) for key, value in _flat(settings)}
    for key, value in flat.items():
        try:
            setting(value)
        except Malformed as error:
            wrong.append(f"index.{key}: {error.message}")
    wrong += [says for key, value in flat.items() if (says := unfit_setting(key, value))]
    notes = tuple(
        f"{key} of the template means nothing here: the index is made by its name"
        for key in _PASSED_OVER
        if key in data
    )
    return Template(flat, dict(mapping), notes), wrong


def _flat(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        elif value is not None:
            yield name.removeprefix("index."), value


def _number(key: str, value: Any) -> Any:
    """Templates as OpenSearch prints them have numbers as text."""
    plain = key in ("number_of_shards", "number_of_replicas") and isinstance(value, str) and value.isdecimal()
    return int(value) if plain else value
