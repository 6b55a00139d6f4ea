"""An experiment: topology, load, phases with faults and actions, expectations, guards.

The classes named ``…File`` are the shape that people write (and the published JSON Schema);
the others are what everything else uses: phases in order, selectors parsed, "all" expanded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    StrictBool,
    StrictInt,
    ValidationInfo,
    WithJsonSchema,
    field_serializer,
    model_serializer,
    model_validator,
)

from chaos.base.operations import CALLS, NAMED_CALLS, OF_LIBRARY, STREAM, USUAL, WRITE, OperationKind
from chaos.base.rates import Piece, Profile, Trace
from chaos.base.units import (
    NORMAL_FORM,
    Duration,
    Malformed,
    Percent,
    PositiveDuration,
    PositiveFrequency,
    PositiveRate,
    Rate,
)
from chaos.definitions import durable, notes
from chaos.definitions.actions import ActionParams
from chaos.definitions.base import API_VERSION, OneOrMore, Strict
from chaos.definitions.during import During, WaitsFor
from chaos.definitions.expectations import COMMAND_WITHIN, CommandLine, Expectation, ExpectationFile
from chaos.definitions.programs import Program
from chaos.definitions.rates import AnyRate, ChangingRate
from chaos.definitions.rules import AlertRule
from chaos.definitions.selectors import NAME
from chaos.definitions.slis import ResolvedSli, Sli, SliLimit, SliName
from chaos.definitions.steps import FaultParams, Step
from chaos.definitions.topology import Setting, Topology, has_replicas
from chaos.definitions.vary import VaryFile
from chaos.definitions.workload import WorkloadDefinition

# ------------------------------------------------------------------------------------------------ load

_GOOD = r"ok within"


def _good(value: Any) -> Any:
    if isinstance(value, Duration):
        return value
    match = re.fullmatch(rf"{_GOOD}\s+(\S.*)", str(value).strip())
    if match is None:
        raise Malformed(f"cannot read {value!r}: expected 'ok within' and a duration, for example 'ok within 100ms'")
    return match[1]


Objective = Annotated[
    PositiveDuration,
    BeforeValidator(_good),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": rf"^{_GOOD} {Duration.pattern()}$",
            "description": "answered fully and within this time of its intended start",
            "examples": ["ok within 100ms"],
        }
    ),
]

_RATE = Field(
    default=None,
    description="arrivals per second, open loop, for example 100/s; one that changes is "
    "{steps: [{at: 0s, rate: 20/s}, {at: 60s, rate: 80/s}]}, or {from: 20/s, to: 100/s, over: 2m}",
)
_WHAT_IS_GOOD = Field(default=None, description="for example 'ok within 100ms'")
MOST_CLIENTS = 64
MOST_PROCESSES = 16


MOST_ITEMS = 10_000
"""Documents of one bulk. OpenSearch limits bytes (``http.max_content_length``, 100 MB), and advises 5 to 15 MiB."""


MOST_PAGES, MOST_SIZE = 1000, 10_000
"""Pages of one read that goes through them, and documents of each page, at most."""
MOST_PAGED = 50_000
"""Documents of one read that goes through pages, at most: it remembers which it has had."""


class Retry(Strict):
    """How the client of bulks sends again what was rejected (429), the whole bulk or single documents of it."""

    times: StrictInt = Field(default=3, ge=1, le=20, description="at most, for example 3")
    wait: Duration = Field(default=Duration(2), description="before the first time, for example 2s")
    most: PositiveDuration = Field(default=Duration(60), description="the longest wait, for example 60s")
    backoff: Literal["exponential", "fixed"] = Field(
        default="exponential", description="exponential: each wait is twice the one before; fixed: all are as long"
    )
    jitter: StrictBool = Field(default=False, description="true: each wait is drawn, from none to its length")


class Helper(Strict):
    """By which call of a client library the documents of a bulk stream are sent: one call for each request of the load.

    The helper cuts them into bulks, sends some again and tells its caller something, all as that library does it. The
    defaults are the library's own.
    """

    kind: str = Field(description="the helper, for example helpers.bulk")
    chunk_size: StrictInt = Field(default=500, ge=1, le=MOST_ITEMS, description="documents of one bulk")
    max_retries: StrictInt = Field(
        default=0, ge=0, le=20, description="how often what was rejected (429) is sent again, for example 5"
    )
    initial_backoff: Duration = Field(default=Duration(2), description="before the first time; then twice as long each")
    max_backoff: PositiveDuration = Field(default=Duration(600), description="the longest wait, for example 60s")
    raise_on_error: StrictBool = Field(
        default=True,
        description="an exception after the first bulk in which a document failed, and before what was rejected of it "
        "is sent again; false: it goes on, and tells at the end",
    )
    raise_on_exception: StrictBool = Field(
        default=True, description="false: a request without an answer is told as the failure of its documents"
    )

    @model_validator(mode="after")
    def _grows(self) -> Helper:
        if self.max_backoff < self.initial_backoff:
            raise ValueError(
                f"max_backoff {self.max_backoff.text} is less than initial_backoff {self.initial_backoff.text}: "
                "expected as much or more"
            )
        return self


class Actions(Strict):
    """What the items of bulks do, by weight: write a new document, update an earlier one, delete an earlier one."""

    create: StrictInt = Field(default=1, ge=1, le=1000, description="new documents, for example 8")
    update: StrictInt = Field(default=0, ge=0, le=1000, description="updates of earlier documents, for example 1")
    delete: StrictInt = Field(default=0, ge=0, le=1000, description="deletes of earlier documents, for example 1")

    @model_validator(mode="after")
    def _changes(self) -> Actions:
        if not self.update and not self.delete:
            raise ValueError(
                "actions that only create are what bulks do anyway: expected update or delete, or no actions"
            )
        if self.delete > self.create:
            raise ValueError("no more can be deleted than is created: expected delete to be at most create")
        return self

    @property
    def weights(self) -> tuple[int, int, int]:
        return self.create, self.update, self.delete


class OperationFile(Strict):
    """One operation of the load as written: an open loop with a rate and an objective, or a closed loop of clients.

    The grammar makes one of each that a workload declares.
    """

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["rate", "good"]}, {"required": ["clients"]}]})

    rate: AnyRate | None = _RATE
    good: Objective | None = _WHAT_IS_GOOD
    clients: StrictInt | None = Field(
        default=None,
        ge=1,
        le=MOST_CLIENTS,
        description="instead of rate and good: a closed loop of so many clients, each of which sends its next request "
        "when the one before was answered; it gives throughput and costs, and neither availability nor latency",
    )
    operation: str | None = Field(default=None, description="the kind of request; default the workload's usual one")
    items: StrictInt | None = Field(
        default=None, ge=2, le=MOST_ITEMS, description="of bulk requests: how many documents each has, for example 500"
    )

    ids: Literal["explicit", "automatic"] = Field(
        default="explicit",
        description="of bulk requests; explicit: the load names each document, so what is sent twice is there once; "
        "automatic: OpenSearch gives each document an id",
    )
    retry: Retry | None = Field(
        default=None, description="of bulk requests: send again what was rejected (429); default never"
    )
    client: Helper | None = Field(
        default=None,
        description="of bulk requests: the helper of a client library that sends them, with its own retries, for "
        "example {kind: helpers.bulk, max_retries: 5}",
    )
    queries: tuple[str, ...] | None = Field(
        default=None,
        min_length=1,
        description="of searches: which of the workload's queries are sent, by the weights of its mix; default all",
    )
    searches: StrictInt | None = Field(
        default=None,
        ge=2,
        le=100,
        description="of operation: msearch: how many searches each request has, for example 5",
    )
    pages: StrictInt | None = Field(
        default=None,
        ge=1,
        le=MOST_PAGES,
        description="of operation: scroll or point-in-time: how many pages each read has at most, for example 20",
    )
    size: StrictInt | None = Field(
        default=None, ge=1, le=MOST_SIZE, description="of these reads: how many documents a page has, for example 100"
    )
    actions: Actions | None = Field(
        default=None,
        description="of bulk requests: how often their items create, update and delete, for example "
        "{create: 8, update: 1, delete: 1}; default they only create",
    )

    @model_validator(mode="after")
    def _open_or_closed(self) -> OperationFile:
        if self.clients is None:
            for name, example in (("rate", "rate: 100/s"), ("good", "good: ok within 1s")):
                if getattr(self, name) is None:
                    raise ValueError(f"{name} is missing: expected for example {example}")
        elif self.rate is not None or self.good is not None:
            raise ValueError(
                "clients make a closed loop, which has neither rate nor objective: expected clients, or rate and good"
            )
        return self


class StreamFile(OperationFile):
    """One stream of the load: an operation under a name of the experiment's own, of one kind of request."""

    operation: str = Field(description="the kind of request, for example search or bulk")
    index: str | None = Field(default=None, description="of load.indices; default the load's first index")
    calls: tuple[Literal[CALLS + NAMED_CALLS], ...] | None = Field(  # type: ignore[valid-type]
        default=None,
        min_length=1,
        description=f"of admin: which monitoring calls are made; default {', '.join(CALLS)}, each as often. Only where "
        f"they are named: {', '.join(NAMED_CALLS)}",
    )


class Rollover(Strict):
    """When an index of the load is rolled over by the suite: the next documents go to a new one."""

    every: PositiveDuration | None = Field(default=None, description="so often, from the load's begin, for example 20s")
    documents: StrictInt | None = Field(
        default=None, ge=1, description="or once the newest index has so many that are refreshed, for example 10000"
    )

    @model_validator(mode="after")
    def _one_condition(self) -> Rollover:
        if (self.every is None) == (self.documents is None):
            raise ValueError("an index is rolled over by time or by its documents: expected either every or documents")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_off(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        return {key: value for key, value in data.items() if value is not None}


TIMESTAMP = "@timestamp"


class DataStream(Strict):
    """A data stream whose time is in another field."""

    timestamp_field: Annotated[str, Field(min_length=1)] = Field(
        default=TIMESTAMP, description="the field with the time of a document, a date; default @timestamp"
    )


_DATA_STREAM = Field(
    default=False,
    description="true: it is a data stream, whose documents are only created; its workload needs a date @timestamp, or "
    "{timestamp_field: NAME}",
)
_ALIAS = Field(
    default=False, description="true: an alias through which documents go to its newest index, NAME-000001 first"
)
_ROLLOVER = Field(
    default=None,
    description="of a data stream or an alias: when it goes on to a new index, for example {every: 20s}; default never",
)


class IndexFile(Strict):
    """One more index of the load, with documents of its own. Streams that name it read and write it."""

    workload: Annotated[str, Field(min_length=1)] = Field(
        description="what its documents are and how they are asked for: a name, or the path of a file from here",
    )
    documents: StrictInt = Field(default=0, ge=0, description="how many are there before the load starts")
    settings: dict[str, Setting] = Field(
        default_factory=dict,
        description="of this index, by short names, before those of the topology and of its workload",
    )
    data_stream: StrictBool | DataStream = _DATA_STREAM
    alias: StrictBool = _ALIAS
    rollover: Rollover | None = _ROLLOVER


StreamName = Annotated[str, Field(pattern=STREAM)]


class Client(Strict):
    """How the load's clients behave. ``timeout`` in seconds; ``zones`` None: where weights are above 0."""

    kind: Literal["load-balancer", "pinned", "opensearch-py"] = "load-balancer"
    timeout: PositiveDuration = Field(default=Duration(5), description="of one request, for example 5s")
    zones: tuple[str, ...] | None = Field(
        default=None,
        min_length=1,
        description="where the clients are; default the zones with a weight above 0",
    )
    node: str | None = Field(default=None, description="the one node that a pinned client talks to")
    verify_health_checks: StrictBool = Field(
        default=True,
        description="false: a load balancer's health checks take any certificate, as many do; requests never do",
    )
    compress: StrictBool = Field(
        default=False, description="true: bodies are sent with gzip (http_compress of opensearch-py), and so answered"
    )

    @property
    def attempts(self) -> int:
        """HTTP requests that one request of the load may become: opensearch-py tries again three times."""
        return OF_LIBRARY if self.kind == "opensearch-py" else 1

    def unseen(self, good: Duration, operation: OperationFile | Operation) -> str | None:
        """Why no request of an operation is good as late as that, in words: it was given up before. None where it may
        be, as where the load or a helper sends it again."""
        longest = self.timeout * self.attempts
        if good <= longest or operation.retry is not None or operation.client is not None:
            return None
        times = "" if self.attempts == 1 else f" {self.attempts} times"
        return (
            f"nothing can be good after {good.text}: clients wait {self.timeout.text}{times} for an answer. Expected "
            f"at most {longest:g}s, or load.client.timeout of {good / self.attempts:g}s or more"
        )

    @model_validator(mode="after")
    def _node_if_pinned(self) -> Client:
        if not self.verify_health_checks and self.kind != "load-balancer":
            raise ValueError(f"only a load balancer has health checks, and this one is {self.kind}")
        if self.kind == "pinned" and self.node is None:
            raise ValueError("a pinned client talks to one node: expected node, for example a-data")
        if self.kind != "pinned" and self.node is not None:
            raise ValueError(f"only a pinned client has a node, and this one is a {self.kind}")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """So that experiments without it keep the normal form, and the hash, that they always had."""
        data: dict[str, Any] = handler(self)
        usual = {"verify_health_checks": True, "compress": False}
        return {key: value for key, value in data.items() if key not in usual or value != usual[key]}


def _gentle(value: Rate) -> Rate:
    if value > 50:
        raise Malformed(f"{value.text} is more than a check on data needs: expected at most 50/s")
    return value


GentleRate = Annotated[PositiveRate, AfterValidator(_gentle)]


class CompareAndSet(Strict):
    """Attempts to change one of a few documents if nobody else has: read it, then write with if_seq_no.

    Attempts come in pairs, two clients at once for one document, so that they really compete.
    """

    rate: GentleRate = Field(description="attempts per second over all keys, at most 50/s, for example 10/s")
    keys: StrictInt = Field(default=5, ge=1, le=100, description="how many documents are competed for")


class Visibility(Strict):
    """Documents written beside the load, and looked for on every data node by get and search until they are found."""

    rate: GentleRate = Field(description="documents per second, at most 50/s, for example 2/s")
    within: PositiveDuration = Field(default=Duration(30), description="how long one is searched for, for example 30s")


Arrivals = Literal["uniform", "poisson"]


DOCUMENTS = "documents"
"""The workload of every experiment that names no other."""
WORKLOAD_FILE = r"\.ya?ml$"
"""A workload that ends so is a file."""


class LoadFile(Strict):
    """The load as written."""

    cas: CompareAndSet | None = Field(
        default=None, description="compare-and-set on a few documents, for example {rate: 10/s, keys: 5}"
    )
    visibility: Visibility | None = Field(
        default=None, description="how soon written documents are found, for example {rate: 2/s}"
    )
    arrivals: Arrivals = Field(default="uniform", description="uniform or poisson")
    workload: Annotated[str, Field(min_length=1)] = Field(
        default=DOCUMENTS,
        description="what the documents are and how they are asked for: a name, or the path of a file from here",
    )
    documents: StrictInt = Field(default=2000, ge=0, description="how many are there before the load starts")
    client: Client = Field(default_factory=Client, description="default a load balancer")
    processes: StrictInt = Field(
        default=1,
        ge=1,
        le=MOST_PROCESSES,
        description="how many driver processes share the load, each on a core of its own; default 1",
    )
    streams: dict[StreamName, StreamFile] = Field(
        default_factory=dict,
        description="more operations, each under a name of its own (in the singular: sentences say `dashboards were "
        "good` of `dashboard`), for example {dashboard: {operation: search, rate: 5/s, good: ok within 2s}}",
    )

    indices: dict[StreamName, IndexFile] = Field(
        default_factory=dict,
        description="more indices for streams to read and write, for example {events: {workload: logs}}",
    )
    data_stream: StrictBool | DataStream = _DATA_STREAM
    alias: StrictBool = _ALIAS
    rollover: Rollover | None = _ROLLOVER

    @property
    def operations(self) -> dict[str, OperationFile]:
        """Those in an open loop, by name, in the order in which workloads declare them; then streams."""
        return {name: given for name, given in self._given.items() if given.clients is None}

    @property
    def closed(self) -> dict[str, OperationFile]:
        """Those in a closed loop, by name."""
        return {name: given for name, given in self._given.items() if given.clients is not None}

    @property
    def _given(self) -> dict[str, OperationFile]:
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: given for name, given in fields.items() if isinstance(given, OperationFile)} | self.streams

    @property
    def every(self) -> dict[str, OperationFile]:
        """Open loops, then closed ones, by name."""
        return {**self.operations, **self.closed}

    def index_of(self, name: str) -> str | None:
        """The index that an operation of this name reads or writes; None: the load's first."""
        stream = self.streams.get(name)
        return None if stream is None else stream.index

    def of_place(self, index: str | None) -> LoadFile | IndexFile:
        """What says how an index is: its own part, or of the load's first (None) the load."""
        return self if index is None else self.indices[index]

    def place(self, name: str) -> tuple[str, ...]:
        """Where an operation of this name stands in a file."""
        return ("load", "streams", name) if name in self.streams else ("load", name)

    @model_validator(mode="after")
    def _something(self) -> LoadFile:
        if self.closed and not self.operations:
            raise ValueError(
                "a load of closed loops alone, in which outages hide: expected an operation with a rate beside it, "
                "for example read: {rate: 5/s, good: ok within 1s}"
            )
        if not self.operations:
            raise ValueError("a load without operations: expected read, write or both, or streams")
        return self


_UNSAID: dict[str, Any] = {
    "client": None,
    "queries": [],
    "stream": False,
    "index": None,
    "calls": [],
    "actions": None,
    "searches": 1,
    "pages": 0,
    "size": 0,
    "changes": [],
    "times": [],
    "before": 0.0,
}
"""What a normal form leaves out of operations that ask for nothing of it, so that they keep the one they had."""


class Operation(Strict):
    """One open-loop stream of requests. ``rate`` per second, ``good_within`` in seconds.

    ``operation``: the kind of request. ``writes``: whether each arrival writes documents of its own; ``items``: how
    many. ``automatic``: OpenSearch gives them their ids. ``queries``: which of the workload's searches it sends; none:
    all. ``stream``: its name is the experiment's own. ``index``: of :attr:`Load.indices`; None: the load's first.
    ``calls``: of monitoring, which are made; none: all. ``actions``: what the items of bulks do; None: they create.
    ``searches``: how many each request has. ``pages`` of ``size`` documents: of reads that go through pages, else 0.
    ``changes``: how the rate changes, from the begin of the first phase on; none: it never does. ``rate`` is then the
    lowest. ``times``: when its arrivals come, listed (s from the begin of the first phase); at the rate ``before``
    until then. ``rate`` is then the mean.
    """

    name: str
    rate: Rate
    good_within: Duration
    operation: str
    writes: bool = False
    items: int = 1
    retry: Retry | None = None
    automatic: bool = False
    client: Helper | None = None
    queries: tuple[str, ...] = ()
    stream: bool = False
    index: str | None = None
    calls: tuple[str, ...] = ()
    actions: Actions | None = None
    searches: int = 1
    pages: int = 0
    size: int = 0
    changes: tuple[Piece, ...] = ()
    times: tuple[float, ...] = ()
    before: float = 0.0

    @property
    def varies(self) -> bool:
        """Whether its rate changes."""
        return bool(self.changes or self.times)

    @cached_property
    def profile(self) -> Profile | Trace:
        """Its rate, whether it changes or not."""
        if self.times:
            return Trace(self.times, self.before)
        return Profile(self.changes or ((0.0, float(self.rate), float(self.rate)),))

    @property
    def most(self) -> float:
        """The highest rate, per second."""
        return self.profile.highest if self.varies else float(self.rate)

    @property
    def rate_text(self) -> str:
        """The rate in words."""
        return self.profile.text if self.varies else self.rate.text

    @property
    def documents(self) -> float:
        """Documents written per second, at most."""
        return self.most * self.items if self.writes else 0.0

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, data: Any) -> Any:
        """In a normal form only an operation whose name does not say it says whether it writes."""
        return {"writes": data.get("name") == WRITE.name, **data} if isinstance(data, dict) else data

    @model_serializer(mode="wrap")
    def _without_what_is_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        usual = {"writes": self.name == WRITE.name, "items": 1, "retry": None, "automatic": False, **_UNSAID}
        return {key: value for key, value in data.items() if key not in usual or value != usual[key]}


class ClosedLoop(Strict):
    """An operation of ``clients`` that each send their next request when the one before was answered. The other fields
    are those of :class:`Operation`."""

    name: str
    clients: int
    operation: str
    writes: bool
    items: int = 1
    retry: Retry | None = None
    automatic: bool = False
    client: Helper | None = None
    queries: tuple[str, ...] = ()
    stream: bool = False
    index: str | None = None
    calls: tuple[str, ...] = ()
    actions: Actions | None = None
    searches: int = 1
    pages: int = 0
    size: int = 0

    @model_serializer(mode="wrap")
    def _without_what_is_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        return {key: value for key, value in data.items() if key not in _UNSAID or value != _UNSAID[key]}


class Rolled(Strict):
    """Whether an index of the load is a name with several indices, and when it goes on to the next one.

    ``data_stream``: the field with the time, where it is a data stream; ``alias``: it is one.
    """

    data_stream: str | None = None
    alias: bool = False
    rollover: Rollover | None = None

    @property
    def rolled(self) -> Literal["data_stream", "alias"] | None:
        """By what it is rolled over; None: it is one index."""
        return "data_stream" if self.data_stream is not None else "alias" if self.alias else None


_PLAIN = Rolled().model_dump()
"""What a normal form leaves out of an index that is one."""


def rolled(given: LoadFile | IndexFile) -> dict[str, Any]:
    """What a file says of it, as :class:`Rolled` has it."""
    stream = given.data_stream
    field = stream.timestamp_field if isinstance(stream, DataStream) else TIMESTAMP if stream else None
    return {"data_stream": field, "alias": given.alias, "rollover": given.rollover}


class LoadIndex(Rolled):
    """One more index of the load. ``dataset``: of a workload that is a file, all of it. ``settings``: all of its own,
    those of topology and workload too."""

    name: str
    workload: str
    dataset: WorkloadDefinition | None = None
    documents: int = 0
    settings: dict[str, Any] = Field(default_factory=dict)

    @model_serializer(mode="wrap")
    def _without_what_is_off(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        return {key: value for key, value in data.items() if key not in _PLAIN or value != _PLAIN[key]}

    @property
    def copies(self) -> int:
        """Copies of all its shards."""
        return int(self.settings.get("number_of_shards", 1)) * (int(self.settings.get("number_of_replicas", 1)) + 1)


class Load(Rolled):
    """The load, resolved. In its normal form each operation stands under its name, and the usual ones always do.

    ``operations`` are open loops: what is said of availability and latency is said of these alone. What it has of
    :class:`Rolled` is of its first index.
    """

    operations: tuple[Operation, ...] = ()
    closed: tuple[ClosedLoop, ...] = ()
    cas: CompareAndSet | None = None
    visibility: Visibility | None = None
    arrivals: Arrivals = "uniform"
    workload: str = DOCUMENTS
    dataset: WorkloadDefinition | None = None
    """Of a workload that is a file, all of it; ``workload`` is then its name."""
    documents: int = 2000
    client: Client = Field(default_factory=Client)
    processes: int = 1
    indices: tuple[LoadIndex, ...] = ()

    @property
    def places(self) -> dict[str | None, Rolled]:
        """Its indices by name; the first one's is None."""
        return {None: self, **{each.name: each for each in self.indices}}

    def operation(self, name: str) -> Operation | None:
        """The operation of this name; None when the load has none."""
        return next((operation for operation in self.operations if operation.name == name), None)

    @property
    def datasets(self) -> tuple[tuple[str, WorkloadDefinition | None], ...]:
        """Of each index, the first one's first: its workload's name, and all of that where it is a file."""
        return ((self.workload, self.dataset), *((each.workload, each.dataset) for each in self.indices))

    @property
    def every(self) -> tuple[Operation | ClosedLoop, ...]:
        """Open loops, then closed ones."""
        return (*self.operations, *self.closed)

    @property
    def writers(self) -> tuple[Operation | ClosedLoop, ...]:
        """The operations that write documents. A workload declares one at most; streams may be more."""
        return tuple(operation for operation in self.every if operation.writes)

    def automatic(self, index: str | None = None) -> bool:
        """Whether OpenSearch gives documents of an index their ids: of all that write there, or of none."""
        return any(operation.automatic for operation in self.writers if operation.index == index)

    @property
    def stride(self) -> int:
        """The most documents that one request writes: by it documents are numbered (:mod:`chaos.base.ids`)."""
        return max((operation.items for operation in self.every), default=1)

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, data: Any) -> Any:
        """Reads a normal form back: what is no field of the load is an operation."""
        if not isinstance(data, dict) or "operations" in data:
            return data
        named = [key for key in data if key not in cls.model_fields]
        rest = {key: value for key, value in data.items() if key in cls.model_fields}
        return {**rest, "operations": [data[key] for key in named if data[key] is not None]}

    @model_serializer(mode="wrap")
    def _without_what_is_off(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """An experiment without checks on data, on the usual documents, keeps the normal form that it always had.

        So it keeps its hash.
        """
        data: dict[str, Any] = handler(self)
        operations = {operation["name"]: operation for operation in data.pop("operations")}
        data = {**dict.fromkeys(kind.name for kind in USUAL), **operations, **data}
        off = {key for key in ("cas", "visibility", "dataset") if data.get(key) is None}
        off |= {"workload"} if self.workload == DOCUMENTS else set()
        off |= set() if self.closed else {"closed"}
        off |= {"processes"} if self.processes == 1 else set()
        off |= set() if self.indices else {"indices"}
        off |= {key for key, value in _PLAIN.items() if data[key] == value}
        return {key: value for key, value in data.items() if key not in off}


# ---------------------------------------------------------------------------------------------- phases


class Until(Strict):
    """A phase that ends by a condition: green, and green for ``stable``, at the latest ``within``."""

    green: Literal[True] = Field(default=True, description="true: every copy of every shard is there")
    stable: Duration = Field(default=Duration(0), description="for this long without a break, for example 10s")
    within: PositiveDuration = Field(description="the deadline, for example 180s")

    @model_validator(mode="after")
    def _can_be_met(self) -> Until:
        if self.stable >= self.within:
            raise ValueError(
                f"stable {self.stable.text} cannot be seen within {self.within.text}: "
                "expected a deadline that is longer"
            )
        return self


class Ordered(Strict):
    """A mapping of kind to parameters that remembers the order in which the kinds were written."""

    _order: tuple[str, ...] = PrivateAttr(())

    @model_validator(mode="wrap")
    @classmethod
    def _remember(cls, value: Any, handler: ModelWrapValidatorHandler[Ordered]) -> Ordered:
        made = handler(value)
        if isinstance(value, dict):
            if not value:
                raise ValueError("nothing is named here: expected at least one kind, or leave the key out")
            made._order = tuple(value)
        return made

    def in_order(self) -> tuple[tuple[str, int, Any], ...]:
        """Kind, index within the kind, parameters (FaultParams of faults, ActionParams of actions); as written."""
        fields = {field.alias: name for name, field in type(self).model_fields.items()}
        steps = []
        for kind in self._order:
            given = getattr(self, fields[kind])
            listed = given if isinstance(given, tuple) else (given,)
            steps += [(kind, index, step) for index, step in enumerate(listed)]
        return tuple(steps)


ENDS = ("for", "until", "during")
"""What a phase may end by."""


def _one_of_ends(schema: dict[str, Any]) -> None:
    schema["oneOf"] = [{"required": [end]} for end in ENDS]


class PhaseFile(Strict):
    """A phase as written: exactly one of ``for``, ``until`` and ``during``; steps run as undo, inject, do."""

    model_config = ConfigDict(json_schema_extra=_one_of_ends)

    for_: PositiveDuration | None = Field(default=None, alias="for", description="how long, for example 30s")
    until: Until | None = Field(default=None, description="a condition with a deadline, instead of for")
    during: WaitsFor | None = Field(
        default=None,
        description="something that is not ours, instead of for: {command: [program, argument]}, {manual: what a "
        "person does}, or manual",
    )
    undo: OneOrMore[str] = Field(default=(), description="fault kinds or names to undo, or all")
    inject: Ordered | None = Field(None, description="faults, for example {node.kill: {target: zone c}}")
    do: Ordered | None = Field(None, description="actions, for example {recommission: {zone: c}}")
    scripted_wait: StrictBool = Field(
        default=False, description="this phase waits on purpose; its outage seconds are shown apart"
    )

    @model_validator(mode="after")
    def _one_end(self) -> PhaseFile:
        given = [name for name, end in zip(ENDS, (self.for_, self.until, self.during), strict=True) if end is not None]
        if len(given) != 1:
            raise ValueError(
                "a phase ends by time, by a condition, or when something else is over: expected one of for, until and "
                f"during, got {' and '.join(given) or 'none'}"
            )
        return self


KINDS = "kinds"
"""In the context of a validation: kind → class of every step, to read a normal form back."""


def _read(value: Any, info: ValidationInfo) -> Any:
    """Reads a step's normal form back into the class of its kind."""
    kinds = (info.context or {}).get(KINDS, {})
    if isinstance(value, dict) and value.get("kind") in kinds:
        rest = {key: item for key, item in value.items() if key != "kind"}
        return kinds[value["kind"]].model_validate(rest, context={NORMAL_FORM: True})
    return value


class Phase(Strict):
    """A phase, resolved. Exactly one of ``duration`` (seconds), ``until`` and ``during`` is set."""

    name: str
    duration: Duration | None = None
    until: Until | None = None
    during: During | None = None
    undo: tuple[str, ...] = ()
    inject: tuple[Annotated[SerializeAsAny[FaultParams], BeforeValidator(_read)], ...] = ()
    do: tuple[Annotated[SerializeAsAny[ActionParams], BeforeValidator(_read)], ...] = ()
    scripted_wait: bool = False

    @model_serializer(mode="wrap")
    def _without_what_is_off(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """So that experiments without it keep the normal form, and the hash, that they always had."""
        data: dict[str, Any] = handler(self)
        return {key: value for key, value in data.items() if key != "during" or value is not None}

    @property
    def longest(self) -> Duration:
        """How long it may take at most, in seconds."""
        if self.duration is not None:
            return self.duration
        waits = self.until or self.during
        assert waits is not None
        return waits.within


# ---------------------------------------------------------------------------------------------- guards


class GoodFloor(Strict):
    """Too few good answers for too long."""

    below: Percent = Field(description="share of a second's arrivals that are good, for example 50%")
    for_: PositiveDuration = Field(alias="for", description="abort when it is less for this long, for example 10s")

    @model_validator(mode="after")
    def _can_be_missed(self) -> GoodFloor:
        if self.below <= 0:
            raise ValueError("nothing is below 0%: expected more, for example 50%")
        return self


class GuardCommand(Strict):
    """A command of the user's that is asked again and again whether the run may go on."""

    run: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        min_length=1, description="program and arguments, run without a shell; any exit code but 0 aborts"
    )
    every: PositiveDuration = Field(default=Duration(5), description="how often, for example 5s")
    timeout: PositiveDuration = Field(default=Duration(2), description="no answer for this long aborts too")


def _floors_of_streams(schema: dict[str, Any]) -> None:
    """In the published schema any stream may have a floor."""
    schema["patternProperties"] = {rf"^(?!(?:read|write)\.){STREAM[1:-1]}\.good$": GoodFloor.model_json_schema()}


class Guards(Strict):
    """What ends a run early. They hold from the warm-up to the last phase's end; ``max`` counts from the first phase.

    A guard that can no longer be evaluated ends the run too: it is never off without a word.
    """

    model_config = ConfigDict(json_schema_extra=_floors_of_streams)

    cluster_red: PositiveDuration | None = Field(
        default=None, alias="cluster.red", description="abort when red for longer, for example 20s"
    )
    read_good: GoodFloor | None = Field(
        default=None, alias="read.good", description="a floor for reads, for example {below: 50%, for: 10s}"
    )
    write_good: GoodFloor | None = Field(
        default=None, alias="write.good", description="a floor for writes, for example {below: 50%, for: 10s}"
    )
    stop_file: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="abort when this file appears (a path from where the command is run), for example /tmp/stop-chaos",
    )
    command: GuardCommand | None = Field(
        default=None, description="abort when a command says so, for example {run: [./may-go-on, --now], every: 5s}"
    )
    sli: dict[SliName, SliLimit] = Field(
        default_factory=dict,
        description="limits of SLIs by their names, for example {checkout_errors: {above: 5%, for: 30s}}",
    )
    max: PositiveDuration = Field(default=Duration(15 * 60), description="abort when the phases take longer")

    @model_serializer(mode="wrap")
    def _without_what_is_off(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A plan's hash does not change with a package that is installed and not used."""
        data: dict[str, Any] = handler(self)
        off = {name for name, value in data.items() if value is None and name not in Guards.model_fields}
        off |= {"sli"} if not self.sli else set()
        return {name: value for name, value in data.items() if name not in off}

    @property
    def floors(self) -> dict[str, GoodFloor]:
        """The floors that are asked for, by operation."""
        given = {field.alias or name: getattr(self, name) for name, field in type(self).model_fields.items()}
        return {key.partition(".")[0]: floor for key, floor in given.items() if isinstance(floor, GoodFloor)}


GUARDS = "guards"
"""In the context of a validation: the class of a grammar's guards, to read a normal form back."""


def _read_guards(value: Any, info: ValidationInfo) -> Any:
    made: type[Guards] = (info.context or {}).get(GUARDS, Guards)
    return made.model_validate(value, context=info.context) if isinstance(value, dict) else value


# ---------------------------------------------------------------------------------------- controller


class Controller(Strict):
    """A failover controller of ours in each of these zones (``opensearch-chaos failover``), from before the load on.

    Load balancers of the load take their nodes from the controller of their zone.
    """

    act: StrictBool = Field(default=True, description="false: it says what it would do, and does nothing")
    zones: tuple[str, ...] | None = Field(default=None, min_length=1, description="where one runs; default every zone")
    steer: StrictBool = Field(default=True, description="false: clients find nodes by their own probes alone")
    read_after: PositiveDuration = Field(default=Duration(2), description="evidence until reads leave a zone")
    write_after: PositiveDuration = Field(default=Duration(4), description="evidence until a zone is decommissioned")
    cool_down: PositiveDuration = Field(default=Duration(60), description="between two swaps of the zones' roles")
    return_after: PositiveDuration = Field(default=Duration(30), description="good answers until a zone is taken in")
    rotate_every: PositiveDuration | None = Field(
        default=None, description="rotate the roles so often, for example 60s"
    )
    lead_from_standby: StrictBool = Field(
        default=False, description="keep the elected cluster manager in the standby zone"
    )


# ------------------------------------------------------------------------------------------ experiment

WORD = r"^[a-z][a-z0-9_-]*$"
"""Names of phases and tags."""
Word = Annotated[str, Field(pattern=WORD)]


class ExperimentFile(Strict):
    """An experiment as written."""

    api_version: Literal["opensearch-chaos/v1"] = Field(alias="apiVersion", description=API_VERSION)
    kind: Literal["experiment"] = Field(default="experiment", description="may be left out")
    name: Annotated[str, Field(pattern=f"^{NAME}$")] = Field(
        description="small letters, digits and dashes, for example zone-network-slowdown"
    )
    description: str = Field(default="", description="one or two lines for people")
    tags: tuple[Word, ...] = Field(
        default=(),
        description="for choosing among experiments; with durable, what is acknowledged is read back from the remote "
        "store alone, too",
    )
    seed: StrictInt = Field(default=1, ge=0, description="decides everything that is drawn")
    topology: str = Field(min_length=1, description="a topology's name or its file's path")
    load: LoadFile = Field(description="read, write or both, for example {read: {rate: 100/s, good: ok within 100ms}}")
    phases: dict[Word, PhaseFile] = Field(min_length=1, description="at least one, in order")
    expect: tuple[ExpectationFile, ...] = Field(
        min_length=1, description="at least one, for example [{acknowledged.lost: 0}]"
    )
    slis: dict[SliName, Sli] = Field(
        default_factory=dict,
        description="what you measure already, by PromQL, each under a name that expectations and guards use",
    )
    guards: Guards = Field(default_factory=Guards, description="for example {cluster.red: 20s, max: 8m}")
    controller: Controller | None = Field(
        default=None, description="run our failover controller beside the load, for example {act: true}"
    )
    programs: dict[Word, Program] = Field(
        default_factory=dict,
        description="programs of yours that run beside the load, for example {shipper: {command: [./ship]}}; labs only",
    )
    rates: dict[str, PositiveFrequency] = Field(
        default_factory=dict,
        description="how often each fault (kind or name) happens to you, for the projected availability of a year, "
        "for example {network.drop: 2/year}; one rate for the faults of one phase, which are one event",
    )
    vary: VaryFile | None = Field(
        default=None, description="variants of this experiment, whose runs alternate and are compared"
    )


class Experiment(Strict):
    """An experiment, resolved: this is what a run is planned from."""

    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    seed: int = 1
    file: Path
    topology: Topology
    load: Load
    phases: tuple[Phase, ...]
    expect: tuple[Expectation, ...]
    slis: dict[str, ResolvedSli] = Field(default_factory=dict)
    guards: Annotated[SerializeAsAny[Guards], BeforeValidator(_read_guards)] = Field(default_factory=Guards)
    controller: Controller | None = None
    programs: dict[str, Program] = Field(default_factory=dict)
    rates: dict[str, PositiveFrequency] = Field(default_factory=dict)
    good_in_file: dict[str, Duration] = Field(default_factory=dict)
    """What the file says of objectives (s) that were given on the command line instead; ``load`` has those in force."""
    overrides: dict[str, str] = Field(default_factory=dict)
    """What ``--set`` says instead of the file, by path, as it was written; the values are in force in what is above."""

    @model_serializer(mode="wrap")
    def _without_what_is_off(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """An experiment without these keeps the normal form, and so the hash, that it always had."""
        data: dict[str, Any] = handler(self)
        off = ("controller", "good_in_file", "overrides", "programs", "slis")
        return {key: value for key, value in data.items() if value or key not in off}

    @property
    def controller_zones(self) -> tuple[str, ...]:
        """The zones in which a failover controller runs."""
        if self.controller is None:
            return ()
        return self.controller.zones or self.topology.zones

    @property
    def durable(self) -> bool:
        """Whether a run of it is read back from the remote store alone, too."""
        return durable.planned(self.tags, self.topology.remote_store)

    @property
    def segments(self) -> bool:
        """Whether replicas of an index of the load copy segments, as far as files tell."""
        every = [self.topology.settings.index, *(each.settings for each in self.load.indices)]
        return any(self.topology.segments(each) for each in every)

    @property
    def copies_segments(self) -> bool:
        """Whether such an index has replicas, as far as files tell."""
        every = [self.topology.settings.index, *(each.settings for each in self.load.indices)]
        return any(self.topology.segments(each) and has_replicas(each) for each in every)

    @field_serializer("file")
    def _file(self, file: Path) -> str:
        return str(file)

    @property
    def client_zones(self) -> tuple[str, ...]:
        """The zones that clients send from."""
        return self.load.client.zones or self.topology.active_zones

    def phase(self, name: str) -> Phase:
        """The phase of that name. Raises ``KeyError``."""
        for phase in self.phases:
            if phase.name == name:
                return phase
        raise KeyError(name)

    def to_json(self) -> dict[str, Any]:
        """The normal form, JSON-able: durations in seconds, rates per second, sizes in bytes, fractions
        0..1, selectors as text, each step with its ``kind``. :meth:`from_json` reads it back."""
        return self.model_dump(mode="json")

    @classmethod
    def from_json(
        cls, data: Mapping[str, Any], kinds: Mapping[str, type[Step]], guards: type[Guards] = Guards
    ) -> Experiment:
        """From :meth:`to_json`, as it stands in a run's ``plan.json``.

        ``kinds`` and ``guards`` are those of a grammar; :meth:`.Grammar.experiment` hands them in.
        """
        return cls.model_validate(data, context={NORMAL_FORM: True, KINDS: kinds, GUARDS: guards})


def resolve(
    file: ExperimentFile,
    topology: Topology,
    path: Path,
    declared: Mapping[str, OperationKind],
    dataset: WorkloadDefinition | None = None,
    indices: tuple[LoadIndex, ...] = (),
    times: Mapping[str, tuple[float, ...]] | None = None,
    alerts: Mapping[str, tuple[AlertRule, ...]] | None = None,
) -> Experiment:
    """The experiment that a valid file means, on this topology. ``declared``: the operations of its workload;
    ``dataset``: that workload, where it is a file; ``indices``: those of the load beside its first; ``times``: of the
    operations whose arrivals are listed in a file, by their names; ``alerts``: of the SLIs that are of alert rules."""

    def requests(name: str, given: OperationFile) -> dict[str, Any]:
        """What open and closed loops have in common."""
        return {
            "name": name,
            "operation": given.operation or declared[name].usual,
            "writes": declared[name].writes,
            "items": given.items or 1,
            "retry": given.retry,
            "automatic": given.ids == "automatic",
            "client": None if given.client is None else Helper(**dict(given.client)),  # of no grammar's own class
            "queries": given.queries or (),
            "stream": name in file.load.streams,
            "index": file.load.index_of(name),
            "calls": (given.calls or ()) if isinstance(given, StreamFile) else (),
            "actions": given.actions,
            "searches": given.searches or 1,
            "pages": given.pages or 0,
            "size": given.size or 0,
        }

    load = file.load
    operations = tuple(
        Operation(good_within=given.good, **_rates(given.rate, (times or {}).get(name)), **requests(name, given))  # type: ignore[arg-type]  # it has both
        for name, given in load.operations.items()
    )
    closed = tuple(
        ClosedLoop(clients=given.clients, **requests(name, given))  # type: ignore[arg-type]  # it has them
        for name, given in load.closed.items()
    )
    return Experiment(
        name=file.name,
        description=file.description,
        tags=file.tags,
        seed=file.seed,
        file=path,
        topology=topology,
        load=Load(
            operations=operations,
            closed=closed,
            cas=file.load.cas,
            visibility=file.load.visibility,
            arrivals=file.load.arrivals,
            workload=file.load.workload if dataset is None else dataset.name,
            dataset=dataset,
            documents=file.load.documents,
            client=file.load.client,
            processes=file.load.processes,
            indices=indices,
            **rolled(file.load),
        ),
        phases=tuple(_phase(name, phase) for name, phase in file.phases.items()),
        expect=tuple(expectation(given, file) for given in file.expect),
        slis={name: _sli(sli, (alerts or {}).get(name, ())) for name, sli in file.slis.items()},
        guards=file.guards,
        controller=file.controller,
        programs=file.programs,
        rates=file.rates,
    )


def _sli(given: Sli, alerts: tuple[AlertRule, ...]) -> ResolvedSli:
    carried = {"alerts": alerts} if alerts else {}
    return ResolvedSli.model_validate({name: getattr(given, name) for name in given.model_fields_set} | carried)


def _rates(given: Rate | ChangingRate | None, times: tuple[float, ...] | None) -> dict[str, Any]:
    """The rate as :class:`Operation` has it. ``times``: those of the file that it names."""
    if not isinstance(given, ChangingRate):
        return {"rate": given}
    if given.times is not None:
        trace = given.trace(times)
        return {"rate": Rate(trace.mean), "times": trace.times, "before": trace.first}
    return {"rate": Rate(Profile(given.pieces).lowest), "changes": given.pieces}


def _phase(name: str, file: PhaseFile) -> Phase:
    return Phase(
        name=name,
        duration=file.for_,
        until=file.until,
        during=file.during,
        undo=file.undo,
        inject=_steps(file.inject),
        do=_steps(file.do),
        scripted_wait=file.scripted_wait,
    )


def _steps(file: BaseModel | None) -> tuple[Any, ...]:
    return tuple(step for _, _, step in file.in_order()) if isinstance(file, Ordered) else ()


def judged_in(given: ExpectationFile, file: ExperimentFile) -> tuple[str, ...]:
    """The phases that an expectation means, by name: "all" expanded, in the experiment's order.

    ``cluster.recovered`` counts from a phase's undo, so "all" means those that undo something;
    ``recovery.*`` counts from a phase's first command, so "all" means those that command something.
    """
    metric, phases = given.metric, given.phase
    if given.grammar.whole_run:
        return ()
    if "all" not in phases:
        return phases
    return tuple(
        name
        for name, phase in file.phases.items()
        if (metric != "cluster.recovered" or phase.undo)
        and (not metric.startswith("recovery.") or phase.undo or phase.inject or phase.do or phase.during)
    )


def expectation(given: Any, file: ExperimentFile | None) -> Expectation:
    """The expectation that a valid line means. ``file`` None: of a line about the whole run, which needs no phases."""
    metric, wanted = given.metric, given.wanted
    op, _, quantity = metric.partition(".")
    if given.grammar.operation is None:
        op, quantity = None, metric
    return Expectation(
        metric=metric,
        op=op,
        quantity=quantity,
        unit=wanted.unit,
        phases=judged_in(given, file) if file is not None else (),
        comparison=wanted.comparison,
        value=wanted.value,
        text=f"{metric} {wanted.text}",
        known_weakness=given.known_weakness.why if given.known_weakness else None,
        known_bound=notes.bound_of(given),
        because=given.because,
        command=wanted.words if isinstance(wanted, CommandLine) else None,
        within=(given.within or COMMAND_WITHIN) if isinstance(wanted, CommandLine) else None,
    )
