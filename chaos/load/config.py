"""What the runner tells the load driver, as plain data: the same JSON goes to the child and into the plan."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from chaos.base.access import PLAIN, Access
from chaos.base.operations import OF_LIBRARY, Answer
from chaos.base.rates import Profile, Trace
from chaos.opensearch.requests import RolledKind

AFTER_FAILURE_S = 0.1
"""How long a client of a closed loop waits after a request that failed. Clients back off in many ways; without any
pause a node that refuses connections would be asked as fast as the driver can."""
FEWEST_AT_ONCE = 2000
"""Requests that the driver can have under way, at least."""


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RetryConfig(_Data):
    """How a client of bulks sends again what was rejected (429), ``times`` at most.

    Before the n-th time it waits ``wait_s``, or doubled each time (``exponential``), ``most_s`` at most. ``jitter``:
    any time from none to that, drawn.
    """

    times: int = Field(ge=1)
    wait_s: float = Field(ge=0)
    most_s: float = Field(gt=0)
    exponential: bool = True
    jitter: bool = False

    def wait(self, number: int, draw: float) -> float:
        """Seconds before the ``number``-th time (from 1). ``draw``: uniform in [0, 1)."""
        seconds = min(self.most_s, self.wait_s * (2 ** (number - 1) if self.exponential else 1))
        return seconds * draw if self.jitter else seconds

    @property
    def longest_s(self) -> float:
        """All waits together, at most."""
        return sum(self.model_copy(update={"jitter": False}).wait(n, 1.0) for n in range(1, self.times + 1))


class HelperConfig(_Data):
    """By which helper of a client library a stream of bulks is sent, with that helper's own arguments.

    ``kind``: the name of a helper (:mod:`chaos.load.clients`).
    """

    kind: str
    chunk_size: int = Field(default=500, ge=1)
    max_retries: int = Field(default=0, ge=0)
    initial_backoff_s: float = Field(default=2.0, ge=0)
    max_backoff_s: float = Field(default=600.0, gt=0)
    raise_on_error: bool = True
    raise_on_exception: bool = True

    def longest_s(self, items: int) -> float:
        """All waits of one call together, at most."""
        waits = (min(self.max_backoff_s, self.initial_backoff_s * 2.0**n) for n in range(self.max_retries))
        return math.ceil(items / self.chunk_size) * sum(waits)


_UNSAID: dict[str, Any] = {
    "helper": None,
    "queries": (),
    "place": None,
    "calls": (),
    "actions": None,
    "searches": 1,
    "pages": 1,
    "size": 0,
}
"""What is left out of operations that ask for nothing of it, so that they are what they always were."""


_RATES: dict[str, Any] = {"changes": (), "times": (), "before": 0.0}
"""The same of rates that never change."""


class OperationConfig(_Data):
    """One operation. ``rate``: arrivals per second over all clients together. ``kind``: of its requests.

    ``answer``: how its answers are judged; by default as the kind's name says.
    ``good_within_s``: for the status stream's count of good ones; None: every ok is good.
    ``items``: documents that each request writes. ``retry``: how what was rejected of a bulk is sent again; None: not
    at all. ``automatic``: OpenSearch gives documents of bulks their ids. ``helper``: what sends them, one call a
    request; None: each request is one bulk. ``queries``: which searches of the workload it sends; none: all.
    ``place``: of which of :attr:`DriverConfig.indices` it is; None: the load's first index. ``calls``: of monitoring,
    which are made; none: all. ``actions``: of the items of bulks, how often they create, update and delete; None: they
    only create. ``searches``: how many each request has. ``pages`` and ``size``: of a read that goes through pages, how
    many at most, of so many documents. ``changes``: how the rate changes (pieces of :mod:`chaos.base.rates`, from the
    begin of the first phase); or ``times``: when its arrivals come (s from then), at the rate ``before`` until then.
    ``rate`` is of both the highest, by which pools are made.
    """

    name: str
    kind: str
    answer: Answer
    rate: float = Field(gt=0)
    good_within_s: float | None = None
    items: int = Field(default=1, ge=1)
    retry: RetryConfig | None = None
    automatic: bool = False
    helper: HelperConfig | None = None
    queries: tuple[str, ...] = ()
    place: str | None = None
    calls: tuple[str, ...] = ()
    actions: tuple[int, int, int] | None = None
    searches: int = Field(default=1, ge=1)
    pages: int = Field(default=1, ge=1)
    size: int = Field(default=0, ge=0)
    changes: tuple[tuple[float, float, float], ...] = ()
    times: tuple[float, ...] = ()
    before: float = 0.0

    @model_validator(mode="before")
    @classmethod
    def _as_named(cls, data: Any) -> Any:
        return {"answer": data.get("kind"), **data} if isinstance(data, dict) else data

    @model_validator(mode="after")
    def _highest(self) -> OperationConfig:
        if self.changes or self.times:
            highest = (Trace(self.times, self.before) if self.times else Profile(self.changes)).highest
            if highest != self.rate:
                raise ValueError(f"the rate of {self.name} is {self.rate:g}/s at most, and it reaches {highest:g}/s")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        usual = {"answer": self.kind, "items": 1, "retry": None, "automatic": False, **_RATES, **_UNSAID}
        return {key: value for key, value in data.items() if usual.get(key, value) != value or key not in usual}


class ClosedConfig(_Data):
    """An operation of ``clients`` that each send their next request when the one before was answered.

    The other fields are those of :class:`OperationConfig`.
    """

    name: str
    kind: str
    answer: Answer
    clients: int = Field(ge=1)
    items: int = Field(default=1, ge=1)
    retry: RetryConfig | None = None
    automatic: bool = False
    helper: HelperConfig | None = None
    queries: tuple[str, ...] = ()
    place: str | None = None
    calls: tuple[str, ...] = ()
    actions: tuple[int, int, int] | None = None
    searches: int = Field(default=1, ge=1)
    pages: int = Field(default=1, ge=1)
    size: int = Field(default=0, ge=0)
    good_within_s: None = None

    @model_serializer(mode="wrap")
    def _without_what_is_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        return {key: value for key, value in data.items() if key not in _UNSAID or value != _UNSAID[key]}


class IndexConfig(_Data):
    """One index of the load. ``place``: its name in the experiment; None: the first. The other fields are those of
    :class:`DriverConfig`, for this index."""

    place: str | None = None
    index: str
    alias: str | None = None
    workload: str
    dataset: dict[str, Any] | None = None
    documents: int = Field(default=0, ge=0)
    shards: int | None = Field(default=None, ge=1)
    copies: int | None = Field(default=None, ge=1)
    visible_after_s: float | None = Field(default=None, ge=0)
    rolled: RolledKind | None = None

    @model_serializer(mode="wrap")
    def _without_what_is_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        return {key: value for key, value in data.items() if key != "rolled" or value is not None}


class ProbeConfig(_Data):
    """A load balancer's health check: anything but HTTP 200 within ``timeout_s`` is a failure.

    ``up`` and ``down`` are the numbers of equal results in a row that change its mind.
    """

    interval_s: float = Field(default=2.0, gt=0)
    timeout_s: float = Field(default=1.0, gt=0)
    up: int = Field(default=2, ge=1)
    down: int = Field(default=2, ge=1)
    path: str = "/_cluster/health?local=true"
    verify: bool = True
    """False: whatever certificate a node shows is taken, by health checks alone."""


class ClientConfig(_Data):
    """How requests find a node. ``timeout_s``: how long a client waits from the moment of sending.

    ``load-balancer``: rounds over healthy targets, no retries. ``pinned``: one node, no retries.
    ``opensearch-py``: one client per client host and kind of request over all targets with that library's default
    policy (three retries on another node after a connection error or 502/503/504, none after a timeout; ``timeout_s``
    then holds for each attempt).
    """

    kind: Literal["load-balancer", "pinned", "opensearch-py"] = "load-balancer"
    timeout_s: float = Field(default=5.0, gt=0)
    node: str | None = None
    probe: ProbeConfig = ProbeConfig()
    steered_s: float | None = Field(default=None, gt=0)
    """How often a load balancer asks its zone's failover controller which nodes to use; None: never."""
    compress: bool = False
    """Bodies are sent with gzip, and so are answers asked for (``http_compress`` of opensearch-py)."""

    @model_serializer(mode="wrap")
    def _without_what_is_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        return {key: value for key, value in data.items() if key != "compress" or value}


class ClientHost(_Data):
    """Where a client is: its zone and its network namespace (a path; None = this process's own).

    ``addresses``: node → where it is reached from here, for those that are not reached at their own address.
    ``through``: the one target that is asked from here, where that is somebody's own load balancer, which chooses nodes
    itself; None: all are.
    """

    zone: str
    netns: str | None = None
    addresses: dict[str, tuple[str, int]] = {}
    controller: int | None = None
    """The port on this host's loopback at which a failover controller says which nodes may take traffic."""
    through: str | None = None

    @model_serializer(mode="wrap")
    def _without_what_is_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        return {key: value for key, value in data.items() if key != "through" or value is not None}


class Target(_Data):
    """A node, or a load balancer, that takes client traffic, at the address by which client hosts reach it.

    ``itself``: the node of that name answers there, and no other; where the access is for one cluster, another node is
    as if nobody took a connection.
    """

    node: str
    zone: str
    host: str
    port: int
    itself: bool = False

    def reached_by(self, access: Access) -> Access:
        return access.only(self.node) if self.itself else access

    @model_serializer(mode="wrap")
    def _without_what_is_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        return {key: value for key, value in data.items() if key != "itself" or value}

    def seen_from(self, client: ClientHost) -> Target:
        host, port = client.addresses.get(self.node, (self.host, self.port))
        return self.model_copy(update={"host": host, "port": port})


class Instrument(_Data):
    """A Toxiproxy whose standing still would be taken for the cluster's: its host's name, and where its API listens.

    ``client``: the zone whose clients alone it stands before; None: a node's, which every request may pass.
    """

    name: str
    client: str | None = None
    host: str
    port: int
    netns: str | None = None


class CasConfig(_Data):
    """Compare-and-set beside the load. ``rate``: attempts per second over all ``keys``."""

    rate: float = Field(gt=0)
    keys: int = Field(ge=1)


class VisibilityConfig(_Data):
    """Probes of visibility beside the load. ``rate``: documents per second, each searched for ``within_s`` at most."""

    rate: float = Field(gt=0)
    within_s: float = Field(default=30.0, gt=0)
    most_looks: float | None = Field(default=None, gt=0)
    """Gets and searches per second, of all nodes together; they come later where there would be more. None: any."""
    primary_gets: bool = False
    """Each node passes its gets on to the primary, where replicas copy segments and no other get is realtime."""

    @model_serializer(mode="wrap")
    def _without_what_is_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        usual = {"most_looks": None, "primary_gets": False}
        return {key: value for key, value in data.items() if key not in usual or value != usual[key]}


class Part(_Data):
    """Which share of the load one of several driver processes sends (:class:`chaos.load.schedule.Share`).

    ``name``: of its folder in ``history/``; the first process has none. ``program``: what it is. ``operations``: their
    numbers; None: all.
    """

    name: str = ""
    program: Literal["gevent", "asyncio"] = "gevent"
    process: int = Field(default=0, ge=0)
    processes: int = Field(default=1, ge=1)
    first: int = Field(default=0, ge=0)
    of: int = Field(default=1, ge=1)
    operations: tuple[int, ...] | None = None


class DriverConfig(_Data):
    """Everything that the driver needs to know."""

    format: Literal[1] = 1
    seed: int
    out: Path
    """The run's ``history`` folder."""
    index: str = "chaos"
    alias: str | None = None
    """Another name of the index, by which writes go that must not make it anew (:func:`requests.write_alias`)."""
    workload: str = "documents"
    dataset: dict[str, Any] | None = None
    """Of a workload that is a file: its definition in normal form (:mod:`chaos.definitions.workload`)."""
    operations: tuple[OperationConfig, ...] = Field(min_length=1, max_length=200)
    closed: tuple[ClosedConfig, ...] = Field(default=(), max_length=50)
    arrivals: Literal["uniform", "poisson"] = "uniform"
    documents: int = Field(default=0, ge=0)
    shards: int | None = Field(default=None, ge=1)
    """Primary shards of the index as it was set up; a search that speaks of others is wrong. None: not known."""
    copies: int | None = Field(default=None, ge=1)
    """Copies of each shard, primaries too, so long as the load lasts. None: not known, or they are to change."""
    visible_after_s: float | None = Field(default=None, ge=0)
    """Seconds until an acknowledged document must be found by searches; None: not known."""
    rolled: RolledKind | None = None
    """The index is a name with several, each with a number; None: it is one."""
    indices: tuple[IndexConfig, ...] = ()
    """Those beside the first, of which the fields above are."""
    queries: Path | None = None
    """A file of searches that are sent instead of the workload's requests (:mod:`chaos.load.queries`) …"""
    readable: tuple[str, ...] = ()
    """… and the indices that these may read."""
    cas: CasConfig | None = None
    visibility: VisibilityConfig | None = None
    client: ClientConfig = ClientConfig()
    clients: tuple[ClientHost, ...] = Field(min_length=1, max_length=254)
    targets: tuple[Target, ...] = Field(min_length=1, max_length=254)
    instruments: tuple[Instrument, ...] = ()
    """The Toxiproxies between clients and nodes, whose signs of life are watched."""
    usable: tuple[tuple[int, ...], ...] = ()
    """Sets of processors (numbers) that some process of the run is held to: how busy each is, is measured apart."""
    access: Access = PLAIN
    """How targets are spoken to; holds references, never secrets."""
    pool: int | None = Field(default=None, ge=1)
    """How many requests may be under way at once; None: as many as can wait for an answer, with all attempts."""
    processes: int = Field(default=1, ge=1, le=16)
    """How many processes of the first driver share the load."""
    part: Part = Part()
    """Of one process: its share."""

    @model_serializer(mode="wrap")
    def _without_what_is_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        kept = ("shards", "copies", "visible_after_s", "dataset", "rolled")
        data = {key: value for key, value in data.items() if key not in ("closed", "indices") or value}
        alone = {"processes": 1, "part": Part().model_dump(mode="json")}
        data = {key: value for key, value in data.items() if key not in alone or value != alone[key]}
        return {key: value for key, value in data.items() if key not in kept or value is not None}

    @property
    def every(self) -> tuple[OperationConfig | ClosedConfig, ...]:
        """All operations in the order of their numbers: open loops first."""
        return (*self.operations, *self.closed)

    @property
    def stride(self) -> int:
        """The most documents that one request of the load writes: by it documents are numbered."""
        return max(operation.items for operation in self.every)

    @property
    def every_index(self) -> tuple[IndexConfig, ...]:
        """The first index, then the others."""
        names = IndexConfig.model_fields.keys() - {"place"}
        return (IndexConfig(**{name: getattr(self, name) for name in names}), *self.indices)

    def automatic(self, place: str | None = None) -> bool:
        """Whether OpenSearch gives documents that are written into an index their ids."""
        return any(operation.automatic for operation in self.every if operation.place == place)

    def _patience_s(self, operation: OperationConfig | ClosedConfig) -> float:
        """Seconds that one request of an operation may take. opensearch-py's own client, which helpers have too, waits
        for the timeout in each of its attempts."""
        of_library = self.client.kind == "opensearch-py" or operation.helper is not None
        return self.client.timeout_s * (OF_LIBRARY if of_library else 1)

    @property
    def patience_s(self) -> float:
        """Seconds that one request may take, of whatever operation."""
        return max(self._patience_s(operation) for operation in self.every)

    @property
    def at_once(self) -> int:
        """How many requests may be under way at once. An arrival that finds so many is ``dropped``."""
        under_way = sum(operation.rate * self._patience_s(operation) for operation in self.operations)
        waiting = sum(math.ceil(each.rate * each.retry.longest_s) for each in self.operations if each.retry)
        helped = [(each.rate, each.helper, each.items) for each in self.operations if each.helper is not None]
        waiting += sum(math.ceil(rate * helper.longest_s(items)) for rate, helper, items in helped)
        clients = sum(operation.clients for operation in self.closed)
        return self.pool or max(FEWEST_AT_ONCE, math.ceil(1.2 * under_way)) + clients + waiting

    @model_validator(mode="after")
    def _pinned_to_a_target(self) -> DriverConfig:
        nodes = [target.node for target in self.targets]
        if self.client.kind == "pinned" and self.client.node not in nodes:
            raise ValueError(f"the client is pinned to {self.client.node!r}, which is not among {nodes}")
        for client in self.clients:
            if client.through is not None and client.through not in nodes:
                raise ValueError(f"clients of zone {client.zone} go through {client.through!r}, not among {nodes}")
        empty = {each.place for each in self.every_index if each.documents == 0}
        if any(operation.answer == "get" and operation.place in empty for operation in self.every):
            raise ValueError("the operation get reads preloaded documents, and there are none")
        return self
