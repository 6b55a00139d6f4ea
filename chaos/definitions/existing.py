"""A cluster that somebody else set up: how it is reached, who it is, which zone is which, how far it may be touched.

``topologies/existing/NAME.yaml``, ``kind: existing``. Everything in it is held against the cluster before it is used;
what is not in it is not allowed. Secrets stand in it by reference only.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, StrictInt, WithJsonSchema, model_validator

from chaos.base.access import REFERENCES, Access, Whose
from chaos.base.addresses import Address
from chaos.base.errors import InvalidInput
from chaos.base.sigv4 import SigV4
from chaos.base.units import (
    Duration,
    Factor,
    Malformed,
    Percent,
    PositiveDuration,
    PositivePercent,
    PositiveRate,
    at_least,
)
from chaos.definitions import domain, fis, hooks, kubernetes
from chaos.definitions.base import API_VERSION, OneOrMore, Setting, Strict
from chaos.definitions.domain import DomainFile
from chaos.definitions.fis import FisFile
from chaos.definitions.hooks import Hook
from chaos.definitions.kubernetes import KubernetesFile, ObjectName
from chaos.definitions.loading import validated
from chaos.definitions.source import Problem, Source, beside, did_you_mean, shown
from chaos.definitions.topology import ZONE_ATTRIBUTE, Name, Version

RUNGS = ("observe", "plan", "node", "zone")
"""How far a target may be touched, each with all before it: only looked at; planned on; one node; a whole zone."""
EXPIRING = ("node", "zone")
"""Rungs that must end on a day."""
LONGEST = timedelta(days=366)
"""How far off the last day of a rung above ``node`` may be: those who agreed on it must agree again."""
PRODUCTION = re.compile(r"(?<![a-z])(prod|prd|production|live)(?![a-z])", re.IGNORECASE)
"""Names that nothing above ``observe`` is allowed on, wherever they stand in a name or in a host's name."""
FOLDER = Path("topologies") / "existing"


def today() -> date:
    """The day by which rungs and acceptances end: in UTC."""
    return datetime.now(UTC).date()


def _address(text: Any) -> Any:
    if not isinstance(text, str):
        raise Malformed(f"cannot read {text!r}: expected an address such as https://search.example:9200")
    try:
        Address.parse(text)
    except InvalidInput as error:  # pydantic collects those that are a ValueError too
        raise Malformed(error.message, remedy=error.remedy) from None
    return text


def _day(value: Any) -> Any:
    try:
        return date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise Malformed(f"cannot read {value!r}: expected a day such as 2027-01-31") from None


Url = Annotated[str, BeforeValidator(_address)]
Day = Annotated[
    date, BeforeValidator(_day), WithJsonSchema({"type": "string", "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"})
]


def _reference(text: str) -> str:
    if text.partition(":")[0] not in ("env", "file") or not text.partition(":")[2]:
        raise Malformed(f"a secret is given by reference only: expected {REFERENCES}")
    return text


Readable = Annotated[str, Field(pattern=r"^[a-z0-9.][a-z0-9_.+-]*\*?$")]
"""One index, or those that begin so; never all."""


class SigV4File(Strict):
    """Requests are signed for AWS, for a domain of Amazon OpenSearch Service."""

    region: str = Field(min_length=1, description="of the domain, for example eu-west-1")
    profile: str | None = Field(
        default=None, min_length=1, description="whose credentials sign; default as boto3 finds them"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        try:
            SigV4(self.region, profile=self.profile)
        except InvalidInput as error:
            raise Malformed(error.message, remedy=error.remedy) from None
        return self


class AccessFile(Strict):
    """As whom, and whom to trust. Files are relative to the target's own."""

    user: str | None = Field(default=None, min_length=1, description="of basic authentication")
    password: Annotated[str, AfterValidator(_reference)] | None = Field(
        default=None, description=f"where it stands: {REFERENCES}"
    )
    ca: str | None = Field(default=None, description="PEM file of whom to trust; default the system's")
    tls_name: str | None = Field(
        default=None,
        min_length=1,
        description="the name that certificates must have, where addresses are others, as with ways into pods",
    )
    verify: bool = Field(default=True, description="false: no certificate is checked, and every report says so")
    certificate: str | None = Field(default=None, description="PEM file of a client certificate")
    key: str | None = Field(default=None, description="PEM file of its key")
    sigv4: SigV4File | None = Field(default=None, description="instead of a user, for example {region: eu-west-1}")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.user is None) != (self.password is None):
            raise Malformed("user and password belong together: expected both or none")
        if self.user is not None and self.sigv4 is not None:
            raise Malformed("a request is a user's or signed for AWS: expected user or sigv4")
        if self.key is not None and self.certificate is None:
            raise Malformed("a key without its certificate: expected the certificate too")
        if not self.verify and self.ca is not None:
            raise Malformed("verify: false checks no certificate, and ca says which to trust: expected one of them")
        if not self.verify and self.tls_name is not None:
            raise Malformed("verify: false checks no certificate, and tls_name says whose: expected one of them")
        return self


class Identity(Strict):
    """Who the cluster is. A copied machine keeps its UUID, so both must be right."""

    cluster_uuid: str = Field(min_length=1, description="of GET /, for example wIIGSa4PQIyKYzcvn_m1Ag")
    cluster_name: str = Field(min_length=1, description="of GET /")


class Zones(Strict):
    """Which zone of an experiment is which of the cluster's."""

    attribute: str = Field(default=ZONE_ATTRIBUTE, min_length=1, description="the node attribute that holds the zone")
    names: dict[Name, str] = Field(
        min_length=1, description="zone of experiments to the attribute's value, for example {a: eu-west-1a}"
    )


def _ip(text: Any) -> Any:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise Malformed(f"cannot read {text!r}: expected an address such as 10.0.0.7") from None


Ip = Annotated[str, BeforeValidator(_ip)]
Destination = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@:%+-]*$")]
"""As ``ssh`` takes it: a name of its configuration, or user@host; nothing that reads as an option."""


class ClientHost(Strict):
    """Where a zone's clients are."""

    addresses: OneOrMore[Ip] = Field(
        min_length=1, description="from which they come, as nodes see them, for example [10.0.9.4]"
    )
    ssh: Destination | None = Field(
        default=None, description="one of their hosts: what they meet is looked at from there (it needs no program)"
    )


class HostsFile(Strict):
    """How hosts are reached: by OpenSSH's own client, with the program of docs/hosts.md on hosts of nodes."""

    config: str | None = Field(
        default=None, min_length=1, description="configuration of ssh (its -F), beside this file; default as ssh does"
    )
    clients: dict[Name, ClientHost] = Field(
        default={}, description="zone → where its clients are: faults on their links need it"
    )


class Member(Strict):
    """One node of the cluster."""

    zone: Name = Field(description="as experiments call it")
    roles: tuple[str, ...] = Field(description="as the cluster says, for example [data, ingest]")
    url: Url | None = Field(
        default=None,
        description="where the node itself is reached; where no node has one, runs go through the endpoints",
    )
    ssh: Destination | None = Field(
        default=None, description="its host, as ssh takes it: faults on hosts need it (docs/hosts.md)"
    )
    addresses: OneOrMore[Ip] = Field(
        default=(), description="its host's, as other nodes see it: faults on links by its host need them"
    )
    pod: ObjectName | None = Field(
        default=None, description="its pod of Kubernetes, by name: faults on pods need it (docs/kubernetes.md)"
    )


class Reads(Strict):
    """What may be read of indices that are not ours, and how fast."""

    indices: tuple[Readable, ...] = Field(min_length=1, description="names, or their beginnings with *, such as logs-*")
    most: PositiveRate = Field(description="searches per second at most, for example 10/s")


ExactIndex = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.+-]*$")]
"""The name of one index, and none that begins with a dot: those are the system's own."""


ANY_ROW = "any"


class AuditFile(Strict):
    """What of the availability audit keeps a run from starting."""

    refuse: OneOrMore[Annotated[str, Field(pattern=r"^[a-z][a-z.-]*$")]] = Field(
        min_length=1,
        description="rows of `opensearch-chaos audit` that must neither fail nor be unknown before a run, for example "
        "[left.allocation, managers.votes]; any: no row at all may fail",
    )


class Accepted(Strict):
    """An index that may be without an active copy while a fault holds: somebody answers for it."""

    index: ExactIndex = Field(description="its exact name; never a system index, never a pattern")
    owner: str = Field(min_length=1, description="who has agreed, for example team-search")
    until: Day = Field(description="the last day, in UTC, on which this holds")


class Caps(Strict):
    """What a run may put on the cluster at most."""

    requests: PositiveRate = Field(description="per second, all operations together, for example 200/s")
    documents: StrictInt = Field(ge=1, description="that are there before the load begins, for example 10000")
    copies: StrictInt = Field(
        ge=1, description="of shards of the run's own index and canaries, replicas too, for example 9"
    )


PREFIX = "oschaos-"
"""How the names of all our indices on a cluster that exists begin where its file says nothing, but for notes and
canaries."""
CLIENTS = re.compile(r"clients of zone (\S+)")
"""Who opens connections and is no node, as a file says it."""


class Passage(Strict):
    """A proxy of a Toxiproxy, and whose connections pass it."""

    from_: OneOrMore[str] = Field(
        alias="from",
        min_length=1,
        description="who opens them: nodes by the cluster's own names, or clients of a zone, "
        "for example [es-a-1, es-a-2] or clients of zone a",
    )
    to: str = Field(description="to which node, for example es-c-1")
    url: Url | None = Field(
        default=None,
        description="where this proxy is reached from here: what clients' connections meet is asked there",
    )

    @property
    def clients(self) -> tuple[str, ...]:
        """The zones whose clients pass it."""
        return tuple(found[1] for each in self.from_ if (found := CLIENTS.fullmatch(each)))

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that pass it."""
        return tuple(each for each in self.from_ if not CLIENTS.fullmatch(each))


ProxyName = Annotated[str, Field(pattern=r"^[^/\s]+$")]


class TheirToxiproxy(Strict):
    """A Toxiproxy that the cluster's owners run in front of nodes, or between them."""

    api: Url = Field(description="where it is told what to do, for example http://10.0.1.9:8474")
    proxies: dict[ProxyName, Passage] = Field(
        min_length=1, description="those that faults may use, by the names that they have there"
    )

    @property
    def address(self) -> Address:
        return Address.parse(self.api)

    @property
    def label(self) -> str:
        """How ledger, plan and notes name it."""
        return f"{self.address.host}:{self.address.port}"


def _not_all(value: Percent) -> Percent:
    if value >= 1:
        raise Malformed(f"{value.text} is all of it, so nothing would ever be too little: expected less, such as 50%")
    return value


def _soon(value: Duration) -> Duration:
    if value > 60:
        raise Malformed(f"{value.text} is long for those who wait: expected 60s or less")
    return value


class TrafficLimits(Strict):
    """How much worse traffic that is not the run's own may become, held against how it was before the run did anything.

    Both are needed: requests that hang are in no mean time, and only their number tells of them.
    """

    slower: Annotated[Factor, at_least(Factor(1.2), "is what chance makes of any traffic")] = Field(
        description="how many times its mean time may become, for example 3x"
    )
    fewer: Annotated[PositivePercent, AfterValidator(_not_all)] = Field(
        description="by which share of its rate it may fall, for example 50%"
    )


class Foreign(Strict):
    """When a run ends because traffic that is not its own suffers; without it that is shown, and ends nothing."""

    search: TrafficLimits | None = Field(
        default=None, description="of searches of all other indices, for example {slower: 3x, fewer: 50%}"
    )
    indexing: TrafficLimits | None = Field(
        default=None, description="of documents indexed into them, for example {slower: 3x, fewer: 50%}"
    )
    for_: Annotated[
        PositiveDuration,
        AfterValidator(_soon),
        at_least(Duration(4), "is less than two samples take"),
    ] = Field(default=Duration(10), alias="for", description="the run ends when it is worse for so long, 60s at most")

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.search is None and self.indexing is None:
            raise Malformed("it limits nothing: expected search, indexing, or both")
        return self

    @property
    def limits(self) -> dict[str, TrafficLimits]:
        """Those that are given, by kind of traffic."""
        given = {"search": self.search, "indexing": self.indexing}
        return {name: each for name, each in given.items() if each is not None}

    @property
    def says(self) -> str:
        """In words."""
        each = [f"{name} {one.slower.text} slower or {one.fewer.text} fewer" for name, one in self.limits.items()]
        return f"{', '.join(each)}, for {self.for_.text}"


class ExistingFile(Strict):
    """A target as written."""

    api_version: Literal["opensearch-chaos/v1"] = Field(alias="apiVersion", description=API_VERSION)
    kind: Literal["existing"] = Field(description="existing")
    name: Name = Field(description="the file's name without suffix, for example staging")
    description: str = Field(default="", description="one line for people")
    endpoints: OneOrMore[Url] = Field(
        min_length=1, description="where its REST API is reached, for example https://search.example:9200"
    )
    access: AccessFile = Field(default_factory=AccessFile, description="as whom; default nobody")
    identity: Identity
    opensearch: Version = Field(description="the version of all its nodes")
    zones: Zones
    nodes: dict[str, Member] = Field(min_length=1, description="every node by the cluster's own name for it")
    load_balancers: dict[Name, Url] = Field(
        default={},
        description="zone → where its clients reach the cluster, for example {a: https://lb-a.example:9200}; "
        "without them the load goes to the nodes themselves, or where none has a url to the first endpoint",
    )
    toxiproxies: tuple[TheirToxiproxy, ...] = Field(
        default=(), description="of yours, between nodes or before them: faults on links need them"
    )
    hosts: HostsFile | None = Field(
        default=None, description="how the hosts of nodes are reached; without it there are no faults on hosts"
    )
    hooks: dict[str, Hook] = Field(
        default={}, description="kind of fault → programs of yours that carry it out (docs/hooks.md)"
    )
    fis: FisFile | None = Field(
        default=None,
        description="AWS FIS, where nodes are instances of EC2 (docs/fis.md); default none",
    )
    domain: DomainFile | None = Field(
        default=None,
        description="the domain of Amazon OpenSearch Service that it is (docs/domain.md); default none",
    )
    kubernetes: KubernetesFile | None = Field(
        default=None, description="where nodes are pods: whose, and how they are reached (docs/kubernetes.md)"
    )
    reads: Reads | None = Field(default=None, description="of indices that are not ours, by `observe --queries`")
    caps: Caps | None = Field(default=None, description="of load that is ours; without them there is none")
    foreign: Foreign | None = Field(
        default=None, description="when runs end because other traffic suffers; default never, it is only shown"
    )
    prefix: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,60}[_-]$")] = Field(
        default=PREFIX, description="how the names of indices that runs make begin; default oschaos-"
    )
    notes: Annotated[str, Field(pattern=r"^\.[a-z0-9][a-z0-9_-]*$")] | None = Field(
        default=None,
        description="a hidden index in which each run writes down what it is about to change, "
        "for example .opensearch-chaos; runs need it",
    )
    settings: tuple[Setting, ...] = Field(
        default=(), description="cluster settings that experiments may change; what others do cannot be computed"
    )
    accept_unavailable: tuple[Accepted, ...] = Field(
        default=(), description="indices that may be without an active copy meanwhile, by exact name"
    )
    audit: AuditFile | None = Field(
        default=None,
        description="what of the audit keeps a run from starting (docs/audit.md); default nothing, it is only shown",
    )
    rung: Literal["observe", "plan", "node", "zone"] = Field(
        default="observe", description="how far it may be touched, each with all before it"
    )
    until: Day | None = Field(default=None, description="the rung's last day, in UTC; then only observe is left")

    @property
    def addresses(self) -> tuple[Address, ...]:
        return tuple(map(Address.parse, self.endpoints))

    @property
    def of_balancers(self) -> dict[str, Address]:
        """Zone → where its clients reach the cluster."""
        return {zone: Address.parse(url) for zone, url in self.load_balancers.items()}

    @property
    def by_doors(self) -> bool:
        """Whether no node is reached by itself: then all that is asked of one goes through the endpoints."""
        return all(node.url is None for node in self.nodes.values())

    @property
    def ways_in(self) -> dict[str, Address]:
        """Zone → where its clients reach the cluster, where they do not go to the nodes themselves."""
        if self.by_doors and not self.load_balancers:
            return dict.fromkeys(self.zones.names, self.addresses[0])
        return self.of_balancers

    @property
    def of_nodes(self) -> dict[str, Address]:
        """Node → its own address, of those that have one."""
        return {name: Address.parse(node.url) for name, node in self.nodes.items() if node.url is not None}


class Existing(Strict):
    """A target with the file in which it stands."""

    file: str
    folder: Path
    written: ExistingFile

    @property
    def access(self) -> Access:
        """How it is spoken to; the files of it beside the target's own."""
        given = self.written.access
        return Access(
            tls=self.written.addresses[0].tls,
            ca=self._beside(given.ca),
            verify=given.verify,
            tls_name=given.tls_name,
            user=given.user,
            password=self._resolved(given.password),
            certificate=self._beside(given.certificate),
            key=self._beside(given.key),
            sigv4=None if given.sigv4 is None else SigV4(given.sigv4.region, profile=given.sigv4.profile),
        )

    @property
    def bound(self) -> Access:
        """:attr:`access`, for the cluster of the file alone: where another one answers, nothing more is sent."""
        who = self.written.identity
        return replace(self.access, whose=Whose(who.cluster_uuid, who.cluster_name))

    def rung_on(self, today: date) -> str:
        """The rung that holds on a day."""
        over = self.written.until is not None and today > self.written.until
        return RUNGS[0] if over else self.written.rung

    def too_far(self, today: date) -> bool:
        """Whether a rung above one node lasts for longer than a year from now."""
        file = self.written
        wide = RUNGS.index(file.rung) > RUNGS.index("node")
        return wide and file.until is not None and file.until > today + LONGEST

    def accepted_on(self, today: date) -> frozenset[str]:
        """The indices that may be unavailable on a day."""
        return frozenset(each.index for each in self.written.accept_unavailable if today <= each.until)

    @property
    def ssh_config(self) -> str | None:
        """ssh's configuration of this target; None: as ssh finds its own."""
        return None if self.written.hosts is None else self._beside(self.written.hosts.config)

    @property
    def kubeconfig(self) -> Path | None:
        """The file that the target's file names; None: as kubectl finds its own."""
        pods = self.written.kubernetes
        found = None if pods is None else self._beside(pods.kubeconfig)
        return None if found is None else Path(found)

    def hook(self, kind: str) -> Hook | None:
        """The programs of a kind of fault, where they are; None: the file names none."""
        given = self.written.hooks.get(kind)
        return None if given is None else given.beside(self.folder)

    def _beside(self, file: str | None) -> str | None:
        return None if file is None else str(beside(self.folder, file))

    def _resolved(self, reference: str | None) -> str | None:
        kind, _, name = (reference or "").partition(":")
        return f"file:{self._beside(name)}" if kind == "file" else reference


def load_existing(path: str | Path) -> Existing:
    """Read a target. Raises InvalidInput with file, line and column of every error."""
    path = Path(path)
    source = Source.read(path)
    file = validated(source, ExistingFile, "existing")
    if file is not None:
        source.add(_check(file, path))
    source.raise_if_wrong()
    assert file is not None
    # absolute: the load driver stands in another folder, and has to read a password there
    return Existing(file=shown(path), folder=path.parent.absolute(), written=file)


def is_existing(path: str | Path) -> bool:
    """Whether a file says that it is of this kind; what cannot be read does not."""
    try:
        return Source.read(Path(path)).data.get("kind") == "existing"
    except InvalidInput:
        return False


def _check(file: ExistingFile, path: Path) -> Iterator[Problem]:
    """What pydantic cannot see: contradictions between parts of the file, and what is allowed nowhere."""
    if file.name != path.stem:
        yield Problem(("name",), f"the name is {file.name} and the file is {path.name}: expected the same")
    schemes = {address.tls for address in file.addresses}
    if len(schemes) > 1:
        yield Problem(("endpoints",), "some of these are http and some https: expected all of one kind", at_key=True)
    for name, node in file.nodes.items():
        if node.url is not None and Address.parse(node.url).tls not in schemes:
            kind = "https" if True in schemes else "http"
            yield Problem(("nodes", name, "url"), f"the endpoints are {kind}: expected {kind} here too")
    if schemes == {False}:
        for key in ("ca", "tls_name", "certificate"):
            if getattr(file.access, key) is not None:
                yield Problem(("access", key), f"{key} means TLS: expected https endpoints", at_key=True)
        if not file.access.verify:
            yield Problem(("access", "verify"), "verify: false means TLS: expected https endpoints", at_key=True)
    values: dict[str, str] = {}
    for zone, value in file.zones.names.items():
        if value in values:
            yield Problem(
                ("zones", "names", zone), f"{value} is zone {values[value]} already: expected each value once"
            )
        values[value] = zone
    for name, node in file.nodes.items():
        if node.zone not in file.zones.names:
            says = f"zone {node.zone} is not in zones.names: {did_you_mean(node.zone, file.zones.names)}"
            yield Problem(("nodes", name, "zone"), says)
    yield from _ways(file, schemes)
    yield from _hosts(file)
    yield from hooks.check(file.hooks)
    yield from kubernetes.check(file.kubernetes, file.nodes)
    every = [each.host for each in (*file.addresses, *file.of_balancers.values(), *file.of_nodes.values())]
    if file.fis is not None:
        yield from fis.check(file.fis)
        if file.domain is None:
            yield from fis.check_hosts(every, signed=file.access.sigv4 is not None)
    if file.domain is not None:
        yield from domain.check(file.domain, every, by_doors=file.by_doors, fis=file.fis is not None)
    if file.rung in EXPIRING and file.until is None:
        yield Problem(
            ("rung",), f"rung {file.rung} has no end: expected until with its last day, for example until: 2027-01-31"
        )
    if file.rung != RUNGS[0]:
        for says in as_production(file):
            yield Problem(("rung",), f"{says}: expected rung observe, and nothing above")


def _hosts(file: ExistingFile) -> Iterator[Problem]:
    """Of hosts: what is said of one needs the other, and whom they name must be there."""
    zones = file.zones.names
    reached = [name for name, node in file.nodes.items() if node.ssh is not None]
    if file.hosts is None:
        for name, node in file.nodes.items():
            for key in ("ssh", "addresses"):
                if getattr(node, key):
                    says = (
                        f"{key} is of hosts, and the file says not how they are reached: expected hosts, if only {{}}"
                    )
                    yield Problem(("nodes", name, key), says, at_key=True)
        return
    if not reached and (file.kubernetes is None or file.kubernetes.helper is None):
        says = "no node says which host is its own: expected ssh at those nodes whose hosts may be touched"
        yield Problem(("hosts",), says, at_key=True)
    for zone in file.hosts.clients:
        if zone not in zones:
            says = f"zone {zone} is not in zones.names: {did_you_mean(zone, zones)}"
            yield Problem(("hosts", "clients", zone), says, at_key=True)


def as_production(file: ExistingFile) -> Iterator[str]:
    """What is called as production is, on which nothing above ``observe`` is allowed; in words."""
    for what, text in _named(file):
        if found := PRODUCTION.search(text):
            yield f"{what} {text} is called {found[0]}, as production is"


def _ways(file: ExistingFile, schemes: set[bool]) -> Iterator[Problem]:
    """Of load balancers and Toxiproxies: whom they name must be there, and a connection passes one proxy."""
    zones, kind = file.zones.names, "https" if True in schemes else "http"
    for zone, url in file.load_balancers.items():
        where: tuple[str | int, ...] = ("load_balancers", zone)
        if zone not in zones:
            yield Problem(where, f"zone {zone} is not in zones.names: {did_you_mean(zone, zones)}", at_key=True)
        if Address.parse(url).tls not in schemes:
            yield Problem(where, f"the endpoints are {kind}: expected {kind} here too")
    labels: dict[str, int] = {}
    through: dict[tuple[str, str], str] = {}
    for number, server in enumerate(file.toxiproxies):
        if server.label in labels:
            says = f"this Toxiproxy is toxiproxies.{labels[server.label]} already: expected each once"
            yield Problem(("toxiproxies", number, "api"), says)
        labels.setdefault(server.label, number)
        for name, passage in server.proxies.items():
            where = ("toxiproxies", number, "proxies", name)
            if passage.to not in file.nodes:
                yield Problem((*where, "to"), f"{passage.to} is not in nodes: {did_you_mean(passage.to, file.nodes)}")
            if passage.url is not None and Address.parse(passage.url).tls not in schemes:
                yield Problem((*where, "url"), f"the endpoints are {kind}: expected {kind} here too")
            for each in passage.from_:
                found = CLIENTS.fullmatch(each)
                if found and found[1] not in zones:
                    says = f"zone {found[1]} is not in zones.names: {did_you_mean(found[1], zones)}"
                    yield Problem((*where, "from"), says)
                elif not found and each not in file.nodes:
                    says = f"{each} is not in nodes: {did_you_mean(each, file.nodes)}, or: clients of zone NAME"
                    yield Problem((*where, "from"), says)
                elif each == passage.to:
                    yield Problem((*where, "from"), f"{each} is where it leads to: expected another")
                if (each, passage.to) in through:
                    known = through[each, passage.to]
                    says = f"connections of {each} to {passage.to} pass {known} already: expected one proxy for each"
                    yield Problem(where, says, at_key=True)
                through[each, passage.to] = f"{name} of {server.label}"


def _named(file: ExistingFile) -> Iterator[tuple[str, str]]:
    yield "the target", file.name
    yield "the cluster", file.identity.cluster_name
    passed = [each.url for server in file.toxiproxies for each in server.proxies.values() if each.url is not None]
    addresses = (
        *file.addresses,
        *file.of_balancers.values(),
        *file.of_nodes.values(),
        *(server.address for server in file.toxiproxies),
        *map(Address.parse, passed),
    )
    yield from dict.fromkeys(("the host", address.host) for address in addresses)
    clients = file.hosts.clients.values() if file.hosts is not None else ()
    reached = [each.ssh for each in (*file.nodes.values(), *clients) if each.ssh is not None]
    yield from dict.fromkeys(("the host", destination) for destination in reached)
    yield from (("the node", name) for name in file.nodes)
    if (pods := file.kubernetes) is not None:
        yield "the namespace", pods.namespace
        yield from (("the context", each) for each in [pods.context] if each is not None)
