"""What a load may consist of: the operations that a workload declares, by name.

A name in a definition (``load.read``), in metrics (``read.good``), guards (``read.good``) and records means the same
operation. Which names there are is up to the workloads; those of most are :data:`USUAL`. A stream
(``load.streams.NAME``) is an operation whose name the experiment makes up, of one kind of request that its workload
has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from chaos.base.errors import InvalidInput

STREAM = r"^[a-z][a-z0-9-]*$"
"""Names of streams, which an experiment makes up (``load.streams``)."""
ADMIN = "admin"
"""The kind of request of streams of monitoring calls, which asks for no documents: any workload has it."""
CALLS = ("state", "health", "stats", "nodes", "indices", "cat", "mappings", "settings", "tasks", "pending")
"""The monitoring calls that a stream makes where it names none (:mod:`chaos.load.admin`); a storm makes these alone."""
NAMED_CALLS = (
    "index-settings",
    "cat-indices",
    "cat-allocation",
    "list-indices",
    "list-shards",
    "stats-filtered",
    "nodes-filtered",
    "health-indices",
    "health-queue",
)
"""Those that a stream makes only where it names them: filtered, paged, of other costs to the cluster manager, and one
that waits in its queue."""
Answer = Literal["search", "get", "index", "bulk", "query", "msearch", "scroll", "pit", "admin"]
"""How an answer is judged (:mod:`chaos.load.outcomes`): as that of a search, of a get by id, of a write by id, of many
writes in one request; of a search whose right answer is not known; of several searches in one request; of all pages of
a search, by scroll or in a point in time; of a monitoring call."""
OF_LIBRARY = 4
"""HTTP requests that one of opensearch-py's own client may become: it tries three times more, each with the timeout."""
WRITING: frozenset[Answer] = frozenset(("index", "bulk"))
"""Answers to requests that write documents of their own: one each, or several."""


@dataclass(frozen=True)
class OperationKind:
    """One operation of a workload. ``says``: what it is, in a few words.

    ``requests``: kinds of request that it can be made of, each with how its answer is judged; the first is the usual.
    Raises InvalidInput when there is none, or when some write documents and some do not.
    """

    name: str
    says: str
    requests: Mapping[str, Answer]

    def __post_init__(self) -> None:
        if not self.requests or len({answer in WRITING for answer in self.requests.values()}) > 1:
            raise InvalidInput(
                f"the operation '{self.name}' is made of {', '.join(self.requests) or 'nothing'}",
                remedy="name at least one kind of request; either all of them write documents or none",
            )

    @property
    def writes(self) -> bool:
        """Whether each arrival writes documents of its own, which the final read-back then looks for."""
        return not WRITING.isdisjoint(self.requests.values())

    @property
    def usual(self) -> str:
        """The kind of request where a definition names none."""
        return next(iter(self.requests))


READ = OperationKind(
    "read",
    "searches or gets",
    {"search": "search", "get": "get", "msearch": "msearch", "scroll": "scroll", "point-in-time": "pit"},
)
PAGED: frozenset[Answer] = frozenset(("scroll", "pit"))
"""Answers to reads of several requests, which go through all pages of a search."""
SEARCHING: frozenset[Answer] = PAGED.union(("search", "msearch"))
"""Answers to requests that are made of a workload's searches."""
WRITE = OperationKind("write", "index requests", {"index": "index", "bulk": "bulk"})
USUAL = (READ, WRITE)


def names(workloads: Mapping[str, Iterable[OperationKind]]) -> tuple[str, ...]:
    """All names that some workload declares: the usual ones first, then others as they come."""
    found = [kind.name for kinds in workloads.values() for kind in kinds]
    usual = [kind.name for kind in USUAL if kind.name in found]
    return tuple(dict.fromkeys([*usual, *found]))


def requests_of(name: str, workloads: Mapping[str, Iterable[OperationKind]]) -> tuple[str, ...]:
    """The kinds of request that the operation of this name can be made of, in any workload."""
    found = [kind.requests for kinds in workloads.values() for kind in kinds if kind.name == name]
    return tuple(dict.fromkeys(request for requests in found for request in requests))


def stream(name: str, request: str, kinds: Iterable[OperationKind]) -> OperationKind | None:
    """The operation that a stream of this name is, whose requests are of one kind; None where none of the workload's
    operations (``kinds``) makes such requests. Monitoring calls can be made beside any."""
    if request == ADMIN:
        return OperationKind(name, "monitoring calls", {ADMIN: "admin"})
    found = next((kind.requests[request] for kind in kinds if request in kind.requests), None)
    return None if found is None else OperationKind(name, f"a stream of {request} requests", {request: found})


def refuse_wrong(workload: str, kinds: Iterable[OperationKind], taken: Container[str]) -> None:
    """Raises InvalidInput where the operations of a workload cannot stand in a definition.

    ``taken``: keys of the load, and first words of metrics, that mean something else.
    """
    kinds = list(kinds)
    twice = [name for name, number in Counter(kind.name for kind in kinds).items() if number > 1]
    other = [kind.name for kind in kinds for usual in USUAL if kind.name == usual.name and kind.writes != usual.writes]
    says = (
        ("none at all", [] if kinds else ["nothing"]),
        ("one name twice", twice),
        ("a name that is none or means something else", [k.name for k in kinds if not named(k.name, taken)]),
        ("a read that writes, or a write that does not", other),
        ("two that write documents, whose ids would be the same", [kind.name for kind in kinds if kind.writes][1:]),
    )
    for what, which in says:
        if which:
            raise InvalidInput(
                f"the workload '{workload}' declares {what}: {', '.join(which)}",
                remedy="see 'Add a workload' in CONTRIBUTING.md",
            )


def named(name: str, taken: Container[str]) -> bool:
    """Whether this can be an operation's name: small letters, and no other key of the load."""
    return re.fullmatch(r"[a-z]+", name) is not None and name not in taken
