"""Makes a workload's file of all that was brought, and says what became of each part."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from chaos.base.errors import InvalidInput
from chaos.definitions.base import API_VERSION
from chaos.definitions.source import Problem
from chaos.definitions.workload import QueryFile, WorkloadFile, check, unfound
from chaos.definitions.writing import flow
from chaos.load.importing import bodies, indices, points
from chaos.load.importing.fields import Maker, look, milliseconds
from chaos.load.importing.placing import Placing
from chaos.load.importing.rows import Brought, Row, Search, Stream, in_one_line

WIDTH = 118
WEIGHTS = 1000
"""All weights of a mix together, about."""
CONFIRM = "CONFIRM"
"""Stands for what the source does not say and the user has to."""


@dataclass
class Made:
    """A workload's file as text, the ``load`` of an experiment with it, and what became of each part."""

    name: str
    text: str
    rows: list[Row]
    brought: Brought
    queries: Collection[str]

    def load(self, path: str) -> list[str]:
        """The lines of ``load:``. ``path``: of the workload's file. Searches that go through pages are a stream."""
        return list(_load(self.brought, path, self.queries))


def make(brought: Brought, *, name: str | None = None, values: bool = True) -> Made:
    """The file. ``values`` False: no value of a document stands in it.

    Raises InvalidInput where nothing can be made.
    """
    name = name or brought.name
    maker, fields = _fields(brought, values)
    if not fields:
        raise InvalidInput(
            "no field can be made of it" + "".join(f"; {row.said()}" for row in brought.rows[:3]),
            remedy="bring documents, or an index with a mapping",
        )
    data: dict[str, Any] = {"apiVersion": API_VERSION, "kind": "workload", "name": name}
    data["description"] = in_one_line(f"Made of {', '.join(brought.sources)}")[:400]
    taken = {*fields, *((brought.mapping or {}).get("properties") or {})}
    for what, usual in (("number", "seq"), ("check", "check")):
        if usual in taken:
            data[what] = next(each for each in (f"{usual}_{n}" for n in range(2, 5000)) if each not in taken)
            brought.add("field", usual, "changed", f"it is the source's, so a document has its {what} in {data[what]}")
    if brought.settings:
        data["settings"] = brought.settings
    if brought.mapping is not None:
        data["mapping"] = brought.mapping
    data["fields"] = fields
    queries, weights = _queries(brought, fields, data)
    if queries:
        data["queries"], data["mix"] = queries, {key: weights[key] for key in queries}
    file = _sound(brought, data)
    _find(file, data)
    brought.rows.insert(0, Row("fields", f"{len(data['fields'])}: {', '.join(data['fields'])}", "taken"))
    return Made(
        name, "\n".join(_text(brought, maker, data)) + "\n", brought.rows, brought, tuple(data.get("queries") or ())
    )


# --------------------------------------------------------------------------------------------- fields


def _fields(brought: Brought, values: bool) -> tuple[Maker, dict[str, Any]]:
    uses = [use for search in brought.searches for body in search.bodies for use in bodies.used(body)]
    how: dict[str, set[str]] = {}
    for use in uses:
        how.setdefault(use.path, set()).add(use.how)
    asked: dict[str, list[points.Point]] = {}
    for use in uses:
        if use.how == "geo":
            asked.setdefault(use.path, []).extend(use.values)
    keyword = frozenset(path.removesuffix(".keyword") for path in how if path.endswith(".keyword"))
    maker = Maker(
        brought,
        values=values,
        nested=frozenset(path for path, ways in how.items() if "nested" in ways),
        also_keyword=keyword,
        exact=frozenset(path for path, ways in how.items() if ways & {"exact", "any"} and "words" not in ways),
        asked=asked,
    )
    if brought.documents:
        return maker, maker.all(look(brought.documents), brought.mapping)
    if brought.mapping is not None:
        return maker, maker.all(None, brought.mapping)
    brought.add(
        "fields", "all", "changed", "there is neither a mapping nor documents: types follow from how searches ask"
    )
    return maker, _of_uses(brought, uses, how, maker)


def _of_uses(brought: Brought, uses: Sequence[bodies.Use], how: Mapping[str, set[str]], maker: Maker) -> dict[str, Any]:
    """Fields as searches use them."""
    values: dict[str, list[Any]] = {}
    for use in uses:
        values.setdefault(use.path.removesuffix(".keyword"), []).extend(use.values)
    paths = sorted({path.removesuffix(".keyword") for path in how})
    root: dict[str, Any] = {}
    for path in paths:
        ways = how.get(path, set()) | ({"exact"} if f"{path}.keyword" in how else set())
        inside = any(other.startswith(f"{path}.") for other in paths)
        if ways == {"shape"}:
            brought.add("field", path, "left out", "no generator makes shapes")
        elif "geo" in ways:
            _put(root, path.split("."), maker.point(None, path), maker.nested)
        elif not inside and ways != {"nested"}:
            _put(root, path.split("."), _of_use(path, ways, values[path], f"{path}.keyword" in how), maker.nested)
    return root


def _put(root: dict[str, Any], path: Sequence[str], field: dict[str, Any], nested: Iterable[str]) -> None:
    at = root
    for place, part in enumerate(path[:-1]):
        kind = "nested" if ".".join(path[: place + 1]) in nested else "object"
        at = at.setdefault(part, {"type": kind, "fields": {}}).setdefault("fields", {})
    at[path[-1]] = field


def _of_use(path: str, ways: set[str], values: Sequence[Any], keyword: bool) -> dict[str, Any]:
    numbers = [each for each in values if isinstance(each, int | float) and not isinstance(each, bool)]
    dates = bool(values) and all(milliseconds(each) is not None or str(each).startswith("now") for each in values)
    if "date" in ways or (dates and not numbers):
        return {"type": "date"}
    if values and all(isinstance(each, bool) for each in values):
        return {"type": "boolean"}
    if "words" in ways or keyword:
        return {"type": "text"} | ({"mapping": {"fields": {"keyword": {"type": "keyword"}}}} if keyword else {})
    if numbers or "number" in ways:
        least, most = min(numbers, default=0), max(numbers, default=1000)
        whole = all(isinstance(each, int) for each in numbers)
        return {"type": "long" if whole else "double", "range": [least, max(most, least + 1)]}
    if "exact" in ways:
        return {"type": "keyword", "pool": max(100, min(10_000, len(set(map(str, values)))))}
    return {"type": "long"}


# ------------------------------------------------------------------------------------------- searches


def _paths(fields: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, each in fields.items():
        if "fields" in each:
            yield from _paths(each["fields"], f"{above}{name}.")
        else:
            yield f"{above}{name}", each


def _named(searches: Sequence[Search]) -> dict[str, Search]:
    return dict(zip(bodies.distinct([each.name for each in searches]), searches, strict=True))


class _Names:
    """Which names a search may use for a field, and which field's values stand under each."""

    def __init__(self, brought: Brought, fields: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        made = dict(_paths(fields))
        mapping = brought.mapping
        self.filled: dict[str, Mapping[str, Any]] = dict(made)
        self.places: dict[str, str] = {path: path for path in made}
        self.mapped: dict[str, str] = {}
        self.objects = {path.rpartition(".")[0] for path in made}
        self.own = {data.get("number", "seq"), data.get("check", "check")}
        if mapping is not None:
            self.mapped = dict(indices.typed(mapping))
            for path in list(made):
                for name in self.mapped:
                    if name.startswith(f"{path}."):
                        self.places[name] = path
            for name, path in indices.aliases(mapping).items():
                if path in made:
                    self.places[name] = path
        strict = mapping is not None and str(mapping.get("dynamic", "true")).lower() not in ("true", "runtime")
        for path, field in made.items():
            if mapping is not None and path not in self.mapped and not strict:
                self.places[f"{path}.keyword"] = path
            if "keyword" in ((field.get("mapping") or {}).get("fields") or {}):
                self.places[f"{path}.keyword"] = path

    def lacking(self, use: bodies.Use) -> str:
        """Why a search that uses this would find nothing; empty: it can find something."""
        name = use.path
        if name in self.places or name in self.own or name.startswith("_"):
            return ""
        if any(each == name or each.startswith(f"{name}.") for each in self.objects):
            return ""
        if name in self.mapped:
            return f"no document would have a value in {name} ({self.mapped[name] or 'a field of a field'})"
        return f"there is no field {name}"


_NOT_SENT = ("pit", "scroll", "slice", "indices_boost", "search_pipeline", "ext")
_REFUSED_KINDS = {
    **dict.fromkeys(("knn", "neural", "neural_sparse", "hybrid", "template", "agentic", "xy_shape"), "needs a plugin"),
    **dict.fromkeys(("has_child", "has_parent", "parent_id"), "finds nothing: documents of the load have no parents"),
    "percolate": "finds nothing: documents of the load hold no queries",
    "geo_shape": "finds nothing: no generator makes shapes",
}


def _queries(
    brought: Brought, fields: Mapping[str, Any], data: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, int]]:
    names = _Names(brought, fields, data)
    by_name = {name: names.filled[path] for name, path in names.places.items()}
    queries: dict[str, Any] = {}
    searches = _named(brought.searches)
    for name, search in searches.items():
        why = next((says for use in bodies.used(search.bodies[0]) if (says := names.lacking(use))), "")
        if "stats" in search.bodies[0]:
            search.bodies = [{key: each for key, each in body.items() if key != "stats"} for body in search.bodies]
        placing = Placing(search, by_name, names.places)
        body = placing.body()
        found = [key for key in _NOT_SENT if key in body]
        if not why and found:
            why = f"a search of the load has no {found[0]}"
        kinds = bodies.kinds([body.get("query"), body.get("post_filter")])
        if refused := next((kind for kind in kinds if kind in _REFUSED_KINDS), None):
            why = f"its query {refused} {_REFUSED_KINDS[refused]}"
        if not why and _has_null(body):
            why = "it says null, which a workload's file does not"
        if why:
            brought.add("search", name, "refused", why)
            continue
        queries[name] = {"body": body}
        notes = [*search.notes, *placing.changes]
        brought.add("search", name, "changed" if notes else "taken", "; ".join(notes))
    total = sum(searches[name].weight for name in queries) or 1.0
    return queries, {name: max(1, round(WEIGHTS * searches[name].weight / total)) for name in queries}


def _has_null(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_null, value.values()))
    return any(map(_has_null, value)) if isinstance(value, list) else value is None


# ------------------------------------------------------------------------------------- what holds together


def _sound(brought: Brought, data: dict[str, Any]) -> WorkloadFile:
    """The file, without what its own grammar refuses of it."""
    for _ in range(200):
        try:
            file = WorkloadFile.model_validate(data)
        except ValidationError as error:
            first = error.errors()[0]
            loc = tuple(each for each in first["loc"] if isinstance(each, str | int))
            problem = Problem(loc, str(first["msg"]).removeprefix("Value error, "))
        else:
            found = next(iter(check(file, file.mapping)), None)
            if found is None:
                return file
            problem = found
        _without(brought, data, problem)
    raise InvalidInput("too much of it is refused", remedy="bring less at once")


def _without(brought: Brought, data: dict[str, Any], problem: Problem) -> None:
    """Takes out what a problem is about. Raises InvalidInput where it is about the whole."""
    section = problem.loc[0] if problem.loc else ""
    name = str(problem.loc[1]) if len(problem.loc) > 1 else ""
    if section == "queries" and name in data.get("queries", {}):
        del data["queries"][name], data["mix"][name]
        if not data["queries"]:
            del data["queries"], data["mix"]
        brought.rows[:] = [row for row in brought.rows if (row.what, row.name) != ("search", name)]
        brought.add("search", name, "refused", problem.says)
    elif section == "fields" and name in data["fields"] and len(data["fields"]) > 1:
        del data["fields"][name]
        brought.add("field", name, "left out", problem.says)
    elif section == "settings" and name in data.get("settings", {}):
        del data["settings"][name]
        brought.add("setting", name, "left out", problem.says)
    else:
        where = ".".join(map(str, problem.loc))
        raise InvalidInput(f"no workload can be made of it: {where}: {problem.says}")


def _find(file: WorkloadFile, data: dict[str, Any]) -> None:
    """``find`` for each search whose hits follow from one field, so that its answers are judged by their number."""
    for query in (data.get("queries") or {}).values():
        for name in data["fields"]:
            if not unfound(file, QueryFile(body=query["body"], find=name), file.mapping):
                query["find"] = name
                break


# ---------------------------------------------------------------------------------------------- writing


def _text(brought: Brought, maker: Maker, data: Mapping[str, Any]) -> Iterator[str]:
    yield "# Made by: opensearch-chaos workload import. Read it before you use it."
    number = len(brought.documents)
    if number:
        which = f"the first {number:,} documents" if brought.more_documents else f"{number:,} documents"
        yield f"# Pools, ranges, lengths and shares of nulls are those of {which}."
        yield "# A field that a document lacks is null in made ones. Fields are drawn apart from each other."
    else:
        yield "# No documents were brought: pools, ranges and lengths are guesses."
    copied = [path for path in maker.copied if path.partition(".")[0] in data["fields"]]
    yield f"# Values of documents stand in this file: {', '.join(copied) or 'none'}."
    for row in brought.rows:
        if row.outcome != "taken":
            yield f"# {row.said()[:400]}"
    for key, value in data.items():
        if key in ("apiVersion", "kind", "name"):
            yield f"{key}: {flow(value)}"
        elif key == "queries":
            yield "queries:"
            for name, query in value.items():
                lines = list(_lines({"find": query["find"], "body": query["body"]} if "find" in query else query, 4))
                yield f"  {flow(name)}:"
                yield from lines
        elif key in ("fields", "mix"):
            yield f"{key}:"
            yield from _lines(value, 2)
        else:
            yield from _lines({key: value}, 0)


def _lines(value: Any, indent: int) -> Iterator[str]:
    """A mapping as YAML: what fits on a line on one line, the rest below."""
    space = " " * indent
    for key, each in value.items():
        line = f"{space}{flow(key)}: {flow(each)}"
        if len(line) <= WIDTH or not isinstance(each, dict | list) or not each:
            yield line
        elif isinstance(each, dict):
            yield f"{space}{flow(key)}:"
            yield from _lines(each, indent + 2)
        else:
            yield f"{space}{flow(key)}:"
            yield from (f"{space}  - {flow(it)}" for it in each)


def _load(brought: Brought, path: str, kept: Collection[str]) -> Iterator[str]:
    yield "load:"
    yield f"  workload: {path if re.fullmatch(r'[A-Za-z0-9_./-]+', path) else flow(path)}"
    yield "  documents: 2000"
    write = brought.write or Stream()
    good = f"good: ok within {CONFIRM}"
    bulk = f", operation: bulk, items: {write.items}" if write.items > 1 else ""
    if write.clients is not None:
        yield f"  write: {{clients: {write.clients}{bulk}}}  # a closed loop, as the source: {in_one_line(write.says)}"
    else:
        yield f"  write: {{rate: {_rate(write.rate)}, {good}{bulk}}}{_because(write)}"
    searches = {name: each for name, each in _named(brought.searches).items() if name in kept}
    if not searches:
        yield f"  read: {{rate: {CONFIRM}/s, {good}, operation: get}}"
        return
    reads = [each for each in brought.reads or [Stream()] if any(it.paged == each.paged for it in searches.values())]
    opened = write.clients is None or any(each.clients is None for each in reads)
    for place, stream in enumerate(reads):
        its = [name for name, each in searches.items() if each.paged == stream.paged]
        total = sum(each.weight for each in brought.searches if each.paged == stream.paged) or 1.0
        rate = None if stream.rate is None else stream.rate * sum(searches[name].weight for name in its) / total
        what, says = "", _because(stream) if rate else ""
        if stream.paged is not None:
            what += f", operation: {stream.paged.operation}, pages: {stream.paged.number}, size: {stream.paged.size}"
        elif place:
            what += ", operation: search"
        if len(reads) > 1:
            what += f", queries: {flow(its)}"
        how = f"rate: {_rate(rate)}, {good}"
        if stream.clients is not None and (opened or place):
            how, says = f"clients: {stream.clients}", f"  # a closed loop, as the source: {in_one_line(stream.says)}"
        elif stream.clients is not None:
            says = f"  # {stream.clients} clients in a closed loop in the source; one operation must have a rate"
        if place == 1:
            yield "  streams:"
        name = f"reads-{place + 1}" if place else "read"
        yield f"{'    ' if place else '  '}{name}: {{{how}{what}}}{says}"


def _rate(rate: float | None) -> str:
    if rate is None:
        return f"{CONFIRM}/s"
    return f"{rate:.3g}/s" if rate < 1000 else f"{rate:.0f}/s"


def _because(stream: Stream) -> str:
    return f"  # {in_one_line(stream.says)}" if stream.says else ""
