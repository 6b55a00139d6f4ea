"""Which kind of thing a file is that somebody brings, and what it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from chaos.base.errors import InvalidInput
from chaos.definitions.source import shown
from chaos.load import queries
from chaos.load.importing import benchmark, bodies, indices, reading, slowlog
from chaos.load.importing.rows import Brought
from chaos.load.importing.shapes import Shapes

SAMPLE = 20_000
"""Documents that are looked at, of all files together."""
WHOLE = 4 * 2**20
"""Bytes of a file that is one JSON object."""

Kind = Literal["benchmark", "index", "searches", "slow log", "documents"]
_SAID: dict[Kind, str] = {
    "benchmark": "a workload of OpenSearch Benchmark",
    "index": "an index or an index template",
    "searches": "searches as _msearch takes them",
    "slow log": "a search slow log",
    "documents": "documents",
}
_OF_AN_INDEX = frozenset(("mappings", "settings", "template", "index_patterns", "index_templates"))
_OF_A_SEARCH = frozenset(
    (
        "query",
        "size",
        "from",
        "aggs",
        "aggregations",
        "sort",
        "_source",
        "track_total_hits",
        "fields",
        "docvalue_fields",
    )
)
_ACTIONS = ({"index"}, {"create"})


def bring(
    paths: Sequence[Path], *, parameters: Mapping[str, Any], procedure: str | None, also: Sequence[Path]
) -> Brought:
    """All that files hold. Raises InvalidInput for one that is none of what is known, or cannot be read."""
    brought = Brought(name=bodies.word(paths[0].resolve().name.partition(".")[0]))
    if paths[0].name == "workload.json":
        brought.name = bodies.word(paths[0].resolve().parent.name)
    documents: list[Path] = []
    kinds = [(path, kind_of(path)) for path in paths]
    for only in ("benchmark", "index"):
        if len(several := [shown(path) for path, kind in kinds if kind == only]) > 1:
            raise InvalidInput(f"{' and '.join(several)} both are {_SAID[only]}", remedy="bring one")
    if {"benchmark", "index"} <= {kind for _, kind in kinds}:
        raise InvalidInput(
            "a workload of OpenSearch Benchmark says what its index is like", remedy="bring no other index"
        )
    if procedure is not None and "benchmark" not in {kind for _, kind in kinds}:
        raise InvalidInput("a test procedure is of a workload of OpenSearch Benchmark, and none was brought")
    for path, kind in kinds:
        if kind == "benchmark":
            benchmark.read(path, brought, parameters=parameters, procedure=procedure, also=also, documents=documents)
            continue
        brought.sources.append(f"{path.name} ({_SAID[kind]})")
        if kind == "index":
            indices.take(brought, _index(path), shown(path))
        elif kind == "searches":
            _searches(path, brought)
        elif kind == "slow log":
            slowlog.read(path, brought)
        else:
            documents.append(path)
    for path in documents:
        _sample(path, brought, SAMPLE // len(documents))
    return brought


def kind_of(path: Path) -> Kind:
    """What a file holds, by its first lines."""
    if path.is_dir() or path.name == "workload.json":
        return "benchmark"
    first = [text for _, text in islice(reading.lines(path), 20)]
    if not first:
        raise InvalidInput(f"{shown(path)}: the file is empty")
    if first[0].lstrip().startswith("{%"):
        return "benchmark"
    if slowlog.is_log(first[0]) or any(map(slowlog.is_one, first)):
        return "slow log"
    if first[0].lstrip().startswith("["):
        raise InvalidInput(
            f"{shown(path)}: it begins with a list, and one document a line was expected", remedy="try: jq -c '.[]'"
        )
    head = _maybe(first[0])
    if head is None or (len(first) == 1 and _index_in(head)):
        _index(path)  # says what is wrong with it
        return "index"
    second = _maybe(first[1]) if len(first) > 1 else None
    if set(head) <= {"index", *queries.PARAMETERS} and second is not None and "index" in head:
        searched = not second or bool(set(second) & _OF_A_SEARCH)
        if searched and isinstance(head["index"], str | list):
            return "searches"
    return "documents"


def _maybe(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _index_in(data: Mapping[str, Any]) -> bool:
    if set(data) & _OF_AN_INDEX:
        return True
    return len(data) == 1 and all(isinstance(each, Mapping) and set(each) & _OF_AN_INDEX for each in data.values())


def _index(path: Path) -> Mapping[str, Any]:
    """An index template, or an index as ``GET INDEX`` prints it."""
    text, size = [], 0
    for _, line in reading.lines(path):
        text.append(line)
        size += len(line)
        if size > WHOLE:
            raise InvalidInput(f"{shown(path)}: an index of more than {WHOLE >> 20} MiB")
    data = reading.parsed(shown(path), "\n".join(text))
    reading.refuse_deep(shown(path), data, 60)
    if not _index_in(data):
        raise InvalidInput(
            f"{shown(path)}: neither an index, documents, searches nor a slow log",
            remedy="one document a line, pairs of lines as _msearch takes them, or settings and mappings of an index",
        )
    listed = data.get("index_templates")
    if isinstance(listed, list):
        if len(listed) != 1 or not isinstance(listed[0], Mapping):
            raise InvalidInput(f"{shown(path)}: {len(listed)} index templates", remedy="bring one")
        data = listed[0].get("index_template", listed[0])
    if not set(data) & _OF_AN_INDEX:
        (data,) = data.values()
    return data


def _searches(path: Path, brought: Brought) -> None:
    for _ in reading.lines(path):  # refuses lines that are too long, and what is no file
        pass
    if path.suffix in reading.COMPRESSED:
        raise InvalidInput(f"{shown(path)}: a compressed file of searches", remedy="decompress it first")
    shapes, routed = Shapes(), 0
    for request in queries.read(path, ("*",)):
        body = _maybe(request.body or "") or {}
        reading.refuse_deep(shown(path), body, 50)
        routed += "?" in request.path
        shapes.add(bodies.tidied(body))
    shapes.into(brought)
    if routed:
        brought.add("header", "routing, preference", "left out", f"searches of the load have none ({routed} had)")


def _sample(path: Path, brought: Brought, most: int) -> None:
    """Documents, one a line, with or without lines of actions between them."""
    taken = unwrapped = 0
    for number, text in reading.lines(path):
        if taken == most:
            brought.more_documents = True
            break
        said = reading.parsed(f"{shown(path)}:{number}", text)
        if (
            set(said) in _ACTIONS
            and isinstance(next(iter(said.values())), dict)
            and set(next(iter(said.values()))) <= {"_index", "_id", "_type", "routing", "require_alias", "pipeline"}
        ):
            continue
        if isinstance(inner := said.get("_source"), dict) and "_index" in said:
            said, unwrapped = inner, unwrapped + 1
        reading.refuse_deep(f"{shown(path)}:{number}", said)
        brought.documents.append(said)
        taken += 1
    if not taken:
        raise InvalidInput(f"{shown(path)}: there is no document in it")
    if unwrapped:
        brought.add("documents", shown(path), "changed", "hits of a search: their _source was taken")


def parameters(text: str) -> dict[str, Any]:
    """``name:value,name:value`` as OpenSearch Benchmark takes it. Raises InvalidInput."""
    found: dict[str, Any] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, colon, value = part.partition(":")
        if not colon or not re.fullmatch(r"[A-Za-z_]\w*", name.strip()):
            raise InvalidInput(f"--workload-params: cannot read {part!r}", remedy="write name:value,name:value")
        found[name.strip()] = _typed(value.strip())
    return found


def _typed(text: str) -> Any:
    if re.fullmatch(r"-?\d+", text):
        return int(text[:20])
    if re.fullmatch(r"-?\d+\.\d+", text):
        return float(text)
    return {"true": True, "false": False}.get(text.lower(), text.strip("'\""))
