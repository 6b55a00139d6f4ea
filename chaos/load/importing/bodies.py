"""Bodies of searches: walked, without what OpenSearch adds, with the fields that they use, and by their shape."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from chaos.load.importing import points

ONE_FIELD = (
    "term",
    "terms",
    "match",
    "match_phrase",
    "match_phrase_prefix",
    "match_bool_prefix",
    "prefix",
    "wildcard",
    "regexp",
    "fuzzy",
    "range",
    "terms_set",
    "intervals",
)
"""Queries of one field, under whose name the rest stands."""
OF_PLACES = ("geo_distance", "geo_bounding_box", "geo_polygon")
"""Queries of one field, which is named beside other words of theirs: by a point, a box or a polygon."""
MANY_FIELDS = ("multi_match", "query_string", "simple_query_string", "combined_fields")
_INSIDE: dict[str, tuple[str, ...]] = {
    "bool": ("must", "filter", "should", "must_not"),
    "constant_score": ("filter",),
    "nested": ("query",),
    "dis_max": ("queries",),
    "boosting": ("positive", "negative"),
    "function_score": ("query",),
    "script_score": ("query",),
}
_BESIDE = (
    "boost",
    "_name",
    "distance",
    "distance_type",
    "unit",
    "validation_method",
    "ignore_unmapped",
    "type",
    "relation",
)
_META = frozenset(
    ("_id", "_doc", "_score", "_index", "_shard_doc", "_script", "_geo_distance", "_count", "_key", "*", "_all")
)

Leaf = Callable[[str, str | None, Any], Any]
"""Takes the kind of a query, its field, and what is said of it; returns what stands there instead."""


def changed(body: Mapping[str, Any], leaf: Leaf) -> dict[str, Any]:
    """The same body, with another thing in the place of each leaf of its queries."""
    made = dict(body)
    for key in ("query", "post_filter"):
        if key in body:
            made[key] = _query(body[key], leaf)
    if "aggs" in body:
        made["aggs"] = _aggregations(body["aggs"], leaf)
    return made


def _query(query: Any, leaf: Leaf) -> Any:
    if isinstance(query, list):
        return [_query(each, leaf) for each in query]
    if not isinstance(query, Mapping):
        return query
    made: dict[str, Any] = {}
    for kind, said in query.items():
        if not isinstance(said, Mapping):
            made[kind] = said
        elif kind in _INSIDE:
            made[kind] = {key: _query(each, leaf) if key in _INSIDE[kind] else each for key, each in said.items()}
            if kind == "function_score" and isinstance(said.get("functions"), list):
                made[kind]["functions"] = [
                    {**each, "filter": _query(each["filter"], leaf)}
                    if isinstance(each, Mapping) and "filter" in each
                    else each
                    for each in said["functions"]
                ]
        elif kind in ONE_FIELD:
            made[kind] = {name: each if name in _BESIDE else leaf(kind, name, each) for name, each in said.items()}
        elif kind in OF_PLACES:
            made[kind] = {
                name: leaf(kind, name, each) if _is_place(name, each) else each for name, each in said.items()
            }
        elif kind in MANY_FIELDS:
            made[kind] = leaf(kind, None, said)
        else:
            made[kind] = said
    return made


def _aggregations(given: Any, leaf: Leaf) -> Any:
    if not isinstance(given, Mapping):
        return given
    made: dict[str, Any] = {}
    for name, each in given.items():
        if not isinstance(each, Mapping):
            made[name] = each
            continue
        made[name] = dict(each)
        if "aggs" in each:
            made[name]["aggs"] = _aggregations(each["aggs"], leaf)
        if "filter" in each:
            made[name]["filter"] = _query(each["filter"], leaf)
        filters = each.get("filters")
        if isinstance(filters, Mapping) and isinstance(inner := filters.get("filters"), Mapping):
            made[name]["filters"] = {**filters, "filters": {key: _query(it, leaf) for key, it in inner.items()}}
    return made


# -------------------------------------------------------------------------------------- what is added

_DEFAULTS: dict[str, Any] = {
    "boost": 1.0,
    "adjust_pure_negative": True,
    "operator": "OR",
    "prefix_length": 0,
    "max_expansions": 50,
    "fuzzy_transpositions": True,
    "lenient": False,
    "zero_terms_query": "NONE",
    "auto_generate_synonyms_phrase_query": True,
    "ignore_unmapped": False,
    "shard_min_doc_count": 0,
    "show_term_doc_count_error": False,
    "slop": 0,
}
_ORDER = [{"_count": "desc"}, {"_key": "asc"}]


def tidied(body: Any) -> Any:
    """A body as people write it, of one as OpenSearch logs it: every default stands there."""
    if isinstance(body, list):
        return [tidied(each) for each in body]
    if not isinstance(body, Mapping):
        return body
    made: dict[str, Any] = {}
    for key, value in body.items():
        if key in _DEFAULTS and _same(value, _DEFAULTS[key]):
            continue
        if key == "order" and value == _ORDER:
            continue
        name = "aggs" if key == "aggregations" else key
        said = tidied(value)
        if name == "range" and isinstance(said, Mapping):
            said = {field: _bounds(each) for field, each in said.items()}
        if name in ("term", "match", "match_phrase", "prefix", "wildcard") and isinstance(said, Mapping):
            said = {field: _alone(each) for field, each in said.items()}
        made[name] = said
    return made


def _same(value: Any, default: Any) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return value is default
    return isinstance(value, str | int | float) and value == default


def _bounds(said: Any) -> Any:
    """``from`` and ``to`` with ``include_lower`` and ``include_upper`` as ``gte`` or ``gt``, ``lte`` or ``lt``."""
    if not isinstance(said, Mapping) or not {"from", "to"} & set(said):
        return said
    made = {key: each for key, each in said.items() if key not in ("from", "to", "include_lower", "include_upper")}
    for key, bound, inclusive in (("to", "lt", "include_upper"), ("from", "gt", "include_lower")):
        if said.get(key) is not None:
            made = {bound + ("e" if said.get(inclusive, True) else ""): said[key], **made}
    return made


def _alone(said: Any) -> Any:
    return next(iter(said.values())) if isinstance(said, Mapping) and set(said) in ({"value"}, {"query"}) else said


# ------------------------------------------------------------------------------------- which fields


class Use(NamedTuple):
    """That a search uses a field, and how: ``exact``, ``words``, ``date``, ``number``, ``nested``, ``geo``,
    ``shape``, ``any``.

    ``values``: literals that it is held against; of ``geo`` the corners of a box.
    """

    path: str
    how: str
    values: tuple[Any, ...] = ()


_WORDS = ("match", "match_phrase", "match_phrase_prefix", "match_bool_prefix", "intervals")
_AGGREGATED = {
    **dict.fromkeys(("date_histogram", "auto_date_histogram", "date_range"), "date"),
    **dict.fromkeys(
        (
            "histogram",
            "avg",
            "sum",
            "min",
            "max",
            "stats",
            "extended_stats",
            "percentiles",
            "percentile_ranks",
            "range",
            "variable_width_histogram",
        ),
        "number",
    ),
    **dict.fromkeys(("terms", "cardinality", "significant_terms", "rare_terms"), "exact"),
    **dict.fromkeys(("geo_distance", "geohash_grid", "geotile_grid", "geo_bounds", "geo_centroid"), "geo"),
    "significant_text": "words",
}
_DOC = re.compile(r"""doc\[\s*['"]([^'"]+)['"]\s*\]""")


def used(body: Mapping[str, Any]) -> list[Use]:
    """The fields that a body names."""
    found: list[Use] = []

    def leaf(kind: str, name: str | None, said: Any) -> Any:
        if name is not None:
            if kind in OF_PLACES:
                found.append(Use(name, "geo", tuple(points.corners(said))))
            else:
                found.append(Use(name, _how(kind, said), tuple(literals(said))))
        return said

    changed(body, leaf)
    found += _named(body, "")
    for entry in _listed(body.get("sort")):
        if isinstance(entry, str | Mapping):
            found += [Use(name, "any") for name in ([entry] if isinstance(entry, str) else entry)]
    for key in ("docvalue_fields", "fields"):
        for entry in _listed(body.get(key)):
            name = entry.get("field") if isinstance(entry, Mapping) else entry
            found.append(Use(str(name), "any"))
    return [
        each._replace(path=each.path.partition("^")[0])
        for each in found
        if each.path.partition("^")[0] not in _META and "*" not in each.path
    ]


def kinds(query: Any) -> Iterator[str]:
    """The kinds of all queries in a query."""
    if isinstance(query, list):
        for each in query:
            yield from kinds(each)
    if isinstance(query, Mapping):
        for kind, said in query.items():
            yield kind
            if isinstance(said, Mapping):
                for key in _INSIDE.get(kind, ()):
                    yield from kinds(said.get(key))


def _how(kind: str, said: Any) -> str:
    if kind in _WORDS:
        return "words"
    if kind != "range":
        return "exact"
    values = list(literals(said))
    numbers = values and all(isinstance(each, int | float) and not isinstance(each, bool) for each in values)
    return "number" if numbers and not all(10**11 <= abs(each) < 10**13 for each in values) else "date"


def literals(said: Any) -> Iterator[Any]:
    """The values in what is said of a field in a query."""
    if isinstance(said, Mapping):
        for key in ("value", "query", "gte", "gt", "lte", "lt", "from", "to"):
            if key in said and said[key] is not None:
                yield said[key]
    elif isinstance(said, list):
        yield from (each for each in said if not isinstance(each, Mapping | list))
    elif said is not None:
        yield said


def _named(value: Any, key: str) -> Iterator[Use]:
    if isinstance(value, list):
        for each in value:
            yield from _named(each, key)
    if isinstance(value, str) and key in ("source", "inline", "script"):
        yield from (Use(name, "any") for name in _DOC.findall(value))
    if not isinstance(value, Mapping):
        return
    if isinstance(name := value.get("field"), str):
        yield Use(name, _AGGREGATED.get(key, "any"))
    if key == "nested" and isinstance(path := value.get("path"), str):
        yield Use(path, "nested")
    if key in (*MANY_FIELDS, "more_like_this"):
        default = value.get("default_field")
        for each in [*_listed(value.get("fields")), *([default] if isinstance(default, str) else [])]:
            if isinstance(each, str):
                yield Use(each, "words")
    if key in ("gauss", "linear", "exp"):
        yield from (Use(name, "any") for name, each in value.items() if isinstance(each, Mapping))
    if key == "geo_shape":
        yield from (Use(name, "shape") for name, each in value.items() if _is_place(name, each))
    for inner, each in value.items():
        yield from _named(each, inner)


def _is_place(name: str, value: Any) -> bool:
    """Whether this is a field with where to look, and no other word of the query."""
    return name not in _BESIDE and (isinstance(value, Mapping | list) or (isinstance(value, str) and "," in value))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


# ------------------------------------------------------------------------------------------- shapes


def shape(body: Mapping[str, Any]) -> str:
    """The same text for all bodies that differ in literals alone."""
    return json.dumps(changed(body, lambda kind, name, said: _skeleton(said)), sort_keys=True)


def _skeleton(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _skeleton(each) for key, each in value.items()}
    if isinstance(value, list):
        return ["…"]
    return value if isinstance(value, bool) else "…"


def leaves(body: Mapping[str, Any]) -> list[Any]:
    """What is said in each leaf, in the order of :func:`changed`."""
    found: list[Any] = []

    def leaf(kind: str, name: str | None, said: Any) -> Any:
        found.append(said)
        return said

    changed(body, leaf)
    return found


def name_of(body: Mapping[str, Any]) -> str:
    """A name that says what a search is: its conditions, and whether it aggregates."""
    parts: list[str] = []

    def leaf(kind: str, name: str | None, said: Any) -> Any:
        parts.append(f"{kind.split('_')[0]}-{name}" if name else kind.replace("_", "-"))
        return said

    changed(body, leaf)
    named = list(dict.fromkeys(parts))[:3] or ["all"]
    if body.get("aggs"):
        named.append("aggs")
    return word("-".join(named))


def word(text: str) -> str:
    """A text as a name of a query."""
    made = re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_")[:60].rstrip("-_")
    return made if made[:1].isalpha() else f"q-{made}" if made else "search"


def distinct(names: Sequence[str]) -> list[str]:
    """The same names, each once: a second one gets a number."""
    seen: dict[str, int] = {}
    made: list[str] = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        made.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return made if len(set(made)) == len(made) else [f"{name}-{place}" for place, name in enumerate(made)]
