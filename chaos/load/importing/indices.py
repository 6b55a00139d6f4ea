"""An index as somebody else defined it: its settings and its mapping, less what a load cannot have."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from chaos.base.errors import InvalidInput
from chaos.base.units import Malformed
from chaos.definitions.topology import setting
from chaos.definitions.workload import read_template, unfit_setting
from chaos.load.importing.rows import Brought

PLUGINS = frozenset(
    ("knn_vector", "murmur3", "annotated_text", "icu_collation_keyword", "sparse_vector", "semantic", "neural")
)
"""Types of a mapping that need a plugin, which nodes of a lab do not have."""
_OF_MANY = ("composed_of", "data_stream", "aliases")


def take(brought: Brought, data: Mapping[str, Any], shown: str, *, copies: bool = True) -> None:
    """Adds settings and mapping of an index or of an index template. ``copies`` False: without its number of replicas.

    Raises InvalidInput where it has none of the two.
    """
    data = {key: value for key, value in data.items() if not str(key).startswith("#")}
    inner = data.get("template") if isinstance(data.get("template"), Mapping) else data
    assert isinstance(inner, Mapping)
    for part in (data, inner) if inner is not data else (data,):
        for key in _OF_MANY:
            if part.get(key):
                brought.add(shown, key, "left out", _WHY[key])
    settings, mapping = inner.get("settings") or {}, inner.get("mappings") or {}
    if not isinstance(settings, Mapping) or not isinstance(mapping, Mapping):
        raise InvalidInput(f"{shown}: settings and mappings are no objects")
    take_settings(brought, settings, copies=copies)
    if len(mapping) == 1 and "properties" not in mapping:  # with a type, as it was long ago
        (only,) = mapping.values()
        mapping = only if isinstance(only, Mapping) and "properties" in only else mapping
    if mapping:
        brought.mapping = _mapping(brought, mapping, shown)


def take_settings(brought: Brought, settings: Mapping[str, Any], *, copies: bool = True) -> None:
    """Adds settings of an index that a load can have."""
    found, _ = read_template({"settings": settings, "mappings": {}})
    for key, value in found.settings.items():
        if says := _unfit(key, value, copies):
            brought.add("setting", key, "left out", says)
        else:
            brought.settings[key] = value


_WHY = {
    "composed_of": "component templates are not read: put their settings and mappings into the file",
    "data_stream": "an experiment says so of its index (load.data_stream)",
    "aliases": "the load's index has the alias of its writes alone",
}


def _unfit(key: str, value: Any, copies: bool) -> str:
    if key == "number_of_replicas" and not copies:
        return "a benchmark measures without copies, and experiments are about copies: the topology says how many"
    try:
        setting(value)
    except Malformed as error:
        return error.message
    return unfit_setting(key, value).removeprefix(f"index.{key}: ").removesuffix(": expected it left out")


def _mapping(brought: Brought, mapping: Mapping[str, Any], shown: str) -> dict[str, Any]:
    made: dict[str, Any] = _without_nulls(copy.deepcopy(dict(mapping)))
    source, routing = made.get("_source"), made.get("_routing")
    if isinstance(source, Mapping) and (
        source.get("enabled", True) is False or source.get("includes") or source.get("excludes")
    ):
        del made["_source"]
        brought.add("mapping", "_source", "changed", "it is kept whole, for the read-back compares it")
    if isinstance(routing, Mapping) and routing.get("required"):
        del made["_routing"]
        brought.add("mapping", "_routing", "changed", "none is required, for the load has none")
    properties = made.get("properties") or {}
    if not isinstance(properties, Mapping):
        raise InvalidInput(f"{shown}: properties of the mapping are no object")
    made["properties"] = _properties(brought, properties, shown, ())
    return made


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value if each is not None] if isinstance(value, list) else value


def _properties(
    brought: Brought, properties: Mapping[str, Any], shown: str, above: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    """Fields whose names have dots as objects; those of plugins left out."""
    made: dict[str, dict[str, Any]] = {}
    for name, said in properties.items():
        path = ".".join((*above, name))
        if not isinstance(said, Mapping):
            raise InvalidInput(f"{shown}: the mapping of {path} is no object")
        if said.get("type") in PLUGINS:
            brought.add("field", path, "left out", f"its type {said['type']} needs a plugin")
            continue
        first, dot, rest = name.partition(".")
        if dot and first and rest:
            inside = made.setdefault(first, {"properties": {}}).setdefault("properties", {})
            inside.update(_properties(brought, {rest: said}, shown, (*above, first)))
            continue
        whole = dict(said)
        if isinstance(inner := said.get("properties"), Mapping):
            whole["properties"] = _properties(brought, inner, shown, (*above, name))
        elif "properties" in said:
            raise InvalidInput(f"{shown}: properties of {path} are no object")
        made[name] = whole
    return made


def typed(mapping: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """The path and the type of each field of a mapping, with fields of fields."""
    for name, said in (mapping.get("properties") or {}).items():
        path = (*above, name)
        yield ".".join(path), str(said.get("type", "object"))
        fields = said.get("fields")
        for sub, each in fields.items() if isinstance(fields, Mapping) else ():
            yield ".".join((*path, sub)), str(each.get("type", "")) if isinstance(each, Mapping) else ""
        yield from typed(said, path)


def aliases(mapping: Mapping[str, Any], above: tuple[str, ...] = ()) -> dict[str, str]:
    """Fields of type alias, with the path of what each means."""
    found: dict[str, str] = {}
    for name, said in (mapping.get("properties") or {}).items():
        if said.get("type") == "alias":
            found[".".join((*above, name))] = str(said.get("path", ""))
        found |= aliases(said, (*above, name))
    return found
