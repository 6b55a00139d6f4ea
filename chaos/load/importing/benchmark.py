"""A workload of OpenSearch Benchmark, rendered: which of its parts a load can have, and why not the others."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos.base.errors import InvalidInput
from chaos.definitions.experiment import MOST_CLIENTS, MOST_ITEMS, MOST_PAGED, MOST_PAGES, MOST_SIZE
from chaos.definitions.source import did_you_mean, shown
from chaos.load.importing import bodies, indices, reading
from chaos.load.importing.rendering import render
from chaos.load.importing.rows import Brought, Paged, Search, Stream

_NOT_NEEDED = {
    **dict.fromkeys(("create-index", "delete-index"), "a run makes its index and takes it away"),
    "cluster-health": "a run waits for a green cluster by itself",
    "refresh": "the index is refreshed at its interval",
    **dict.fromkeys(("index-stats", "node-stats"), "a run measures by itself"),
    "sleep": "phases of an experiment say how long what lasts",
}
_REFUSED = {
    "raw-request": "what a raw request does is not known, so neither is what is right",
    "force-merge": "a load does not merge: an experiment's action would",
    "bulk": "",
    "search": "",
    "composite": "a load sends no chains of requests",
    "vector-search": "vectors need a plugin",
    "bulk-vector-data-set": "vectors need a plugin",
    "update-concurrent-segment-search-settings": "a load changes no settings",
    **dict.fromkeys(("put-pipeline", "delete-pipeline"), "an ingest pipeline changes documents, and they are compared"),
    **dict.fromkeys(
        ("create-search-pipeline", "delete-search-pipeline"), "a search pipeline changes answers, and they are judged"
    ),
    "put-settings": "a load changes no settings: the topology says them",
    "reindex": "a load writes documents of its own, and copies none",
}
_WORDS = (
    (re.compile(r"^proto-|grpc"), "it speaks gRPC, and the load speaks REST"),
    (re.compile(r"vector|knn|k-nn|warmup-knn"), "vectors need a plugin"),
    (re.compile(r"ml-|-ml|model|connector|agent|neural|sparse"), "models need a plugin"),
    (re.compile(r"ppl|sql"), "PPL and SQL need a plugin"),
    (re.compile(r"snapshot|restore|repository"), "a load takes no snapshots"),
    (re.compile(r"template|data-stream|component"), "a run makes one index by its name"),
    (re.compile(r"transform|policy|ism"), "index management needs a plugin"),
    (re.compile(r"point-in-time"), "a search of the load has no point in time"),
)
_SEARCHES = ("search", "paginated-search", "scroll-search")
_DROPPED_TASK = {
    "warmup-iterations": "warm-up",
    "warmup-time-period": "warm-up",
    "ramp-up-time-period": "ramp-up",
    "iterations": "iterations",
    "time-period": "time-period",
    "schedule": "schedule",
    "ignore-response-error-level": "ignore-response-error-level",
}
_DROPPED_OPERATION = (
    "assertions",
    "request-params",
    "cache",
    "ingest-percentage",
    "response-compression-enabled",
    "detailed-results",
    "request-timeout",
    "profile-query",
)


def read(
    path: Path,
    brought: Brought,
    *,
    parameters: Mapping[str, Any],
    procedure: str | None,
    also: Sequence[Path],
    documents: list[Path],
) -> None:
    """Adds what a workload of OpenSearch Benchmark says. ``documents``: gets the files of its corpora that are there.

    Raises InvalidInput for one that cannot be rendered, and for a test procedure that is not there.
    """
    file = path / "workload.json" if path.is_dir() else path
    if not file.is_file():
        raise InvalidInput(f"{shown(path)}: there is no workload.json", remedy="name the folder of a workload")
    workload, files = render(file, parameters, also)
    brought.sources.append("a workload of OpenSearch Benchmark" + _described(workload))
    chosen = _index(brought, workload, files)
    _corpora(brought, workload, file.parent, documents)
    if (file.parent / "workload.py").exists():
        brought.add("program", "workload.py", "refused", "programs are not run: what needs it is refused by name below")
    for key in ("templates", "composable-templates", "component-templates", "data-streams", "dependencies"):
        if workload.get(key) and chosen != key:
            brought.add("section", key, "left out", "a run makes one index by its name")
    operations = {
        str(each["name"]): each
        for each in _listed(workload.get("operations"))
        if isinstance(each, Mapping) and isinstance(each.get("name"), str)
    }
    name, schedule = _schedule(workload, procedure)
    brought.add("test procedure", name, "taken")
    _Tasks(brought, operations, _names(workload)).all(schedule)


def _described(workload: Mapping[str, Any]) -> str:
    says = workload.get("description")
    return f": {' '.join(says.split())}" if isinstance(says, str) and says.strip() else ""


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _names(workload: Mapping[str, Any]) -> list[str]:
    return [str(each.get("name")) for each in _listed(workload.get("indices")) if isinstance(each, Mapping)]


def _index(brought: Brought, workload: Mapping[str, Any], files: Mapping[str, Any]) -> str:
    """One index of the workload: the first with a body, and with it all that are defined alike."""
    for key in ("indices", "templates", "composable-templates"):
        listed = [each for each in _listed(workload.get(key)) if isinstance(each, Mapping)]
        given: dict[str, Any] = {}
        for each in listed:
            body = each.get("body") or each.get("template")
            found = files.get(body) if isinstance(body, str) else body
            if isinstance(found, Mapping):
                given[str(each.get("name"))] = found
        if not given:
            continue
        first, body = next(iter(given.items()))
        indices.take(brought, body, "index", copies=False)
        alike = [name for name in given if json.dumps(given[name], sort_keys=True) == json.dumps(body, sort_keys=True)]
        one = "" if len(alike) == 1 else f"one index for {len(alike)} that are defined alike: {', '.join(alike)}"
        brought.add("index", first, "changed" if one else "taken", one)
        for name in given:
            if name not in alike:
                brought.add("index", name, "refused", f"a load has one index, and this differs from {first}")
        return key
    brought.add("index", "body", "left out", "none says how it is mapped: types follow from documents and searches")
    return ""


def _corpora(brought: Brought, workload: Mapping[str, Any], folder: Path, documents: list[Path]) -> None:
    for corpus in _listed(workload.get("corpora")):
        if not isinstance(corpus, Mapping):
            continue
        for each in _listed(corpus.get("documents")):
            source = each.get("source-file") if isinstance(each, Mapping) else None
            if not isinstance(source, str):
                continue
            plain = source.removesuffix(Path(source).suffix) if Path(source).suffix in reading.COMPRESSED else source
            there = next((folder / name for name in (plain, source) if _inside(folder, name)), None)
            if there is not None:
                documents.append(there)
                brought.add("documents", source, "changed", "a sample of them says what made-up documents are like")
            else:
                says = "the file is not there, and nothing is downloaded: bring it beside workload.json"
                brought.add("documents", source, "left out", says)


def _inside(folder: Path, name: str) -> bool:
    path = (folder / name).resolve()
    return path.is_file() and path.is_relative_to(folder.resolve())


def _schedule(workload: Mapping[str, Any], wanted: str | None) -> tuple[str, list[Any]]:
    for key in ("test_procedures", "test-procedures", "challenges"):
        listed = [each for each in _listed(workload.get(key)) if isinstance(each, Mapping)]
        if not listed:
            continue
        names = [str(each.get("name")) for each in listed]
        if wanted is not None:
            if wanted not in names:
                raise InvalidInput(f"there is no test procedure '{wanted}'", remedy=did_you_mean(wanted, names))
            return wanted, _listed(listed[names.index(wanted)].get("schedule"))
        found = next((each for each in listed if each.get("default")), listed[0])
        return str(found.get("name")), _listed(found.get("schedule"))
    if wanted is not None:
        raise InvalidInput(f"there is no test procedure '{wanted}': the workload names none")
    for key in ("test_procedure", "challenge"):
        if isinstance(only := workload.get(key), Mapping):
            return str(only.get("name", "default")), _listed(only.get("schedule"))
    return "default", _listed(workload.get("schedule"))


class _Tasks:
    """Goes through a schedule."""

    def __init__(self, brought: Brought, operations: Mapping[str, Any], names: Sequence[str]) -> None:
        self._brought, self._operations, self._indices = brought, operations, names
        self._clients: dict[Paged | None, int] = {}
        self._first = len(brought.searches)
        self._seen: set[str] = set()
        self._dropped: dict[str, None] = {}

    def all(self, schedule: Sequence[Any]) -> None:
        for task in self._every(schedule, {}):
            self._one(task)
        self._read()
        if self._dropped:
            says = f"without {', '.join(self._dropped)}: phases say how long a load lasts, and the run judges answers"
            self._brought.add("tasks", "all", "changed", says)

    def _every(self, schedule: Sequence[Any], above: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        for each in schedule:
            if not isinstance(each, Mapping):
                yield {"operation": each}
            elif isinstance(inner := each.get("parallel"), Mapping):
                common = {key: value for key, value in inner.items() if key != "tasks"}
                yield from self._every(_listed(inner.get("tasks")), {**above, **common})
            else:
                yield {**above, **each}

    def _one(self, task: Mapping[str, Any]) -> None:
        said = task.get("operation")
        operation = self._operations.get(said) if isinstance(said, str) else said
        if operation is None and isinstance(said, str):
            operation = {"operation-type": said}  # a task may name a type
        if not isinstance(operation, Mapping):
            self._brought.add("task", str(task.get("name", said)), "refused", "it names no operation")
            return
        kind = str(operation.get("operation-type", operation.get("type", operation.get("name", ""))))
        name = str(task.get("name") or operation.get("name") or kind)
        why = self._why_not(kind, operation)
        settings = operation.get("settings")
        if kind == "create-index" and isinstance(settings, Mapping) and settings:
            indices.take_settings(self._brought, settings, copies=False)
            self._brought.add("task", name, "changed", "a run makes its index; the settings are taken")
        elif why is not None:
            self._brought.add("task", name, *why)
        elif kind in _SEARCHES:
            self._search(name, task, operation)
        else:
            self._bulk(name, task, operation)

    def _why_not(self, kind: str, operation: Mapping[str, Any]) -> tuple[Any, str] | None:
        if kind in _NOT_NEEDED:
            return "left out", _NOT_NEEDED[kind]
        if says := _REFUSED.get(kind):
            return "refused", says
        for pattern, says in _WORDS:
            if pattern.search(kind):
                return "refused", says
        if kind not in ("bulk", *_SEARCHES):
            return "refused", f"an operation of type {kind or 'unknown'}, which a load does not have"
        if "param-source" in operation:
            return "refused", f"its requests are made by a program (param-source {operation['param-source']})"
        return None

    def _bulk(self, name: str, task: Mapping[str, Any], operation: Mapping[str, Any]) -> None:
        why = ""
        if operation.get("pipeline"):
            why = "an ingest pipeline changes documents, and they are compared"
        elif operation.get("conflicts"):
            why = "it changes documents that are there, and a load creates each of its own"
        elif self._brought.write is not None:
            why = "a load has one operation that writes"
        if why:
            self._brought.add("task", name, "refused", why)
            return
        items, clients = _whole(operation.get("bulk-size"), 1000), _whole(task.get("clients"), 1)
        self._note(task, operation)
        changes: list[str] = []
        if items > MOST_ITEMS:
            changes.append(f"{items} documents a bulk became {MOST_ITEMS}")
            items = MOST_ITEMS
        rate = _rate(task, items)
        if rate is None and clients > MOST_CLIENTS:
            changes.append(f"{clients} clients became {MOST_CLIENTS}")
            clients = MOST_CLIENTS
        says = f"task {name}"
        self._brought.write = Stream(rate, None if rate is not None else clients, items, says)
        changes.append("ids are explicit, so that each document is known again")
        self._brought.add("task", name, "changed", "; ".join(changes))

    def _search(self, name: str, task: Mapping[str, Any], operation: Mapping[str, Any]) -> None:
        body, index = operation.get("body"), str(operation.get("index") or "")
        if not isinstance(body, Mapping):
            self._brought.add("task", name, "refused", "it has no body")
            return
        if (
            index
            and self._indices
            and not any(fnmatch.fnmatch(each, one) for each in self._indices for one in index.split(","))
        ):
            self._brought.add(
                "task", name, "refused", f"it searches in {index}, which is none of the workload's indices"
            )
            return
        paged = _paged(operation, body)
        key = json.dumps([body, paged], sort_keys=True)
        if key in self._seen:
            self._brought.add("task", name, "left out", "a task before has the same search")
            return
        self._seen.add(key)
        rate = _rate(task, 1)
        self._note(task, operation)
        search = Search(bodies.word(name), [bodies.tidied(dict(body))], rate or 0.0, paged=paged)
        if rate is None:
            self._clients[paged] = max(self._clients.get(paged, 1), _whole(task.get("clients"), 1))
        if paged is not None:
            search.notes.append("all its pages are read by its query alone: no sort, and no aggregations")
            if paged.operation == "point-in-time" and "with-point-in-time-from" not in operation:
                search.notes.append("its pages are of one point in time")
            if str(operation.get("pages")) != str(paged.number):
                search.notes.append(f"{operation.get('pages', 'all')} pages became {paged.number} of {paged.size}")
        self._brought.searches.append(search)

    def _note(self, task: Mapping[str, Any], operation: Mapping[str, Any]) -> None:
        """Notes what of a task is dropped: it is the same for most, and said once."""
        self._dropped |= dict.fromkeys(says for key, says in _DROPPED_TASK.items() if key in task)
        self._dropped |= dict.fromkeys(key for key in _DROPPED_OPERATION if key in operation)

    def _read(self) -> None:
        """Reads as one stream for all searches of one page, and one for those that go through the same pages: open
        where one of its searches has a rate, closed where none has."""
        searches = self._brought.searches[self._first :]
        for paged in dict.fromkeys(each.paged for each in searches):
            self._brought.reading(self._stream(paged, [each for each in searches if each.paged == paged]))

    def _stream(self, paged: Paged | None, searches: Sequence[Search]) -> Stream:
        with_rate = [each for each in searches if each.weight > 0]
        if not with_rate:
            for each in searches:
                each.weight = 1.0
            clients = min(self._clients[paged], MOST_CLIENTS)
            return Stream(clients=clients, says="tasks without a target", paged=paged)
        least = min(each.weight for each in with_rate)
        for each in searches:
            if each.weight == 0:
                each.weight = least
                each.notes.append(
                    "it has no target-throughput, and one stream reads: it is drawn as the rarest of the others"
                )
        total = sum(each.weight for each in searches)
        says = "the target-throughput of all its tasks together; in the source one runs after another"
        return Stream(rate=total, says=says, paged=paged)


def _paged(operation: Mapping[str, Any], body: Mapping[str, Any]) -> Paged | None:
    """The pages that a task reads: at most what a read of the load remembers; None: it asks for one."""
    kind = operation.get("operation-type")
    if not operation.get("pages") and kind not in ("paginated-search", "scroll-search"):
        return None
    size = min(_whole(operation.get("results-per-page", body.get("size")), 10), MOST_SIZE)
    most = min(MOST_PAGES, MOST_PAGED // size)
    number = min(_whole(operation.get("pages"), most), most)  # "all" is no number
    return Paged("point-in-time" if kind == "paginated-search" else "scroll", number, size)


def _whole(value: Any, usual: int) -> int:
    try:
        return max(1, int(value))
    except (TypeError, ValueError):
        return usual


def _rate(task: Mapping[str, Any], items: int) -> float | None:
    """Requests per second that a task is to send; None: as fast as answers come."""
    said, interval = task.get("target-throughput"), task.get("target-interval")
    try:
        if said not in (None, ""):
            match = re.fullmatch(r"\s*([0-9.]+)\s*(?:(\w+)/s)?\s*", str(said))
            if match is None or float(match[1]) <= 0:
                return None
            return float(match[1]) / (items if match[2] == "docs" else 1)
        return 1 / float(interval) if interval not in (None, "") and float(interval) > 0 else None
    except (TypeError, ValueError):
        return None
