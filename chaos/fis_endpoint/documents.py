"""What SSM documents mean on a node of a lab: pure functions from a document's parameters to an effect.

A document that has a counterpart only in part has none: :class:`Unsupported` says exactly what is missing. What would
do nothing on AWS (another network card, an address that nobody has) does nothing here, and succeeds.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from chaos.faults.fault import Link
from chaos.faults.moves import Move, Reversible
from chaos.providers.toxiproxy import toxic
from chaos.targets.wiring import HTTP, TRANSPORT, Host, Wiring

SHELL = "AWS-RunShellScript"
CARDS = ("DEFAULT", "eth0")
"""Names of the network card that a host of a lab has."""
MOST_SECONDS = 43_200
PROCESS = "java"
_SYSTEMCTL = re.compile(r"systemctl (start|stop) ([\w@.:-]+)")


class Unsupported(Exception):
    """What a document asks for has no counterpart in the lab, or not all of it."""


class Wrong(Exception):
    """Parameters that the document does not take."""


class Fails(Exception):
    """What a document would fail with on the host itself."""


@dataclass(frozen=True)
class Place:
    """Where a document runs. ``zones``: name or id of an availability zone → zone of the lab."""

    node: str
    wiring: Wiring
    zones: Mapping[str, str]
    unit: str
    """The name of OpenSearch's unit of systemd on each instance."""
    command: str
    """The command that it runs for; names what is put into Toxiproxies."""

    @property
    def host(self) -> Host:
        return self.wiring[self.node]

    @property
    def others(self) -> tuple[Host, ...]:
        return tuple(host for host in self.wiring.hosts if host.name != self.node)


@dataclass(frozen=True)
class Effect:
    """What a document does. ``once``: a move for good. ``links``: whose packets vanish, and ``lasting``: moves that are
    taken back, both for ``seconds``, unscaled."""

    says: str
    once: Move | None = None
    links: frozenset[Link] = frozenset()
    lasting: tuple[Reversible, ...] = ()
    seconds: float | None = None
    silences: bool = False
    """Whether the agent of the instance is cut off by it."""


def name_of(document: str) -> str:
    """The name of a document, given by it or by its ARN."""
    return document.rpartition("document/")[2]


def flat(parameters: Mapping[str, object]) -> dict[str, str]:
    """Parameters with one text each: SendCommand has lists of texts, FIS's JSON lists or texts. Raises Wrong."""
    found = {}
    for name, value in parameters.items():
        values = value if isinstance(value, list) else [value]
        if len(values) != 1 and name not in ("commands", "Sources"):
            raise Wrong(f"{name} takes one value")
        found[name] = ("\n" if name == "commands" else ",").join(str(each) for each in values)
    return found


def of_json(text: str) -> dict[str, str]:
    """``documentParameters`` of an action. Raises Wrong."""
    try:
        read = json.loads(text or "{}")
    except ValueError as error:
        raise Wrong("documentParameters is no JSON") from error
    if not isinstance(read, dict):
        raise Wrong("documentParameters is no JSON object")
    return flat(read)


def known(document: str) -> bool:
    """Whether a document of this name exists here, be it that nothing of it can be done."""
    return document in _DOCUMENTS or document in _WITHOUT


def effect(document: str, parameters: Mapping[str, str], place: Place) -> Effect:
    """What a known document does on a node. Raises Wrong, Unsupported or Fails."""
    if document in _WITHOUT:
        raise Unsupported(f"{document} has no counterpart in a lab: {_WITHOUT[document]}")
    if document not in _DOCUMENTS:
        raise Unsupported(f"there is no document {document} here")
    make, defaults = _DOCUMENTS[document]
    if unknown := parameters.keys() - defaults.keys():
        raise Wrong(f"{document} takes no parameter {', '.join(sorted(unknown))}")
    given = {name: value for name, value in defaults.items() if value is not None} | dict(parameters)
    if missing := defaults.keys() - given.keys():
        raise Wrong(f"{document} needs {', '.join(sorted(missing))}")
    return make(given, place)


# ---- reading parameters -----------------------------------------------------------------------


def _number(given: Mapping[str, str], name: str, low: int, high: int) -> int:
    text = given[name]
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        raise Wrong(f"{name} is a whole number from {low} to {high}, and not '{text}'")
    return int(text)


def _one(given: Mapping[str, str], name: str, *values: str) -> str:
    if given[name] not in values:
        raise Wrong(f"{name} is one of {', '.join(values)}, and not '{given[name]}'")
    return given[name]


def _seconds(given: Mapping[str, str]) -> float:
    return float(_number(given, "DurationSeconds", 1, MOST_SECONDS))


def _peers(given: Mapping[str, str], place: Place) -> tuple[Host, ...]:
    """The hosts that ``Sources`` names. Raises Unsupported for a domain."""
    found: list[Host] = []
    for source in filter(None, (each.strip() for each in given["Sources"].split(","))):
        if source == "ALL":
            found += place.others
        elif source in place.zones:
            found += [host for host in place.others if host.zone == place.zones[source]]
        else:
            try:
                network = ipaddress.IPv4Network(source, strict=False)
            except ValueError:
                raise Unsupported(f"the source {source} is no IPv4 address, CIDR or availability zone") from None
            addresses = {host: (host.loopback, host.bridge_address) for host in place.others}
            found += [
                host for host, both in addresses.items() if any(ipaddress.IPv4Address(each) in network for each in both)
            ]
    return tuple(dict.fromkeys(found))


def _directed(traffic: str, peers: Iterable[Host], place: Place) -> frozenset[Link]:
    """The links between peers and the node: to it (``ingress``) or from it."""
    return frozenset((peer.name, place.node) if traffic == "ingress" else (place.node, peer.name) for peer in peers)


def _delays(links: Iterable[Link], milliseconds: int, place: Place) -> tuple[Reversible, ...]:
    places = dict.fromkeys(each for a, b in sorted(links) for each in place.wiring.toxified(a, b))
    name = f"fis-{place.command}"
    attributes = {"latency": milliseconds, "jitter": 0}
    return tuple(toxic(each, f"{name}-{each.stream}", "latency", each.stream, attributes) for each in places)


# ---- documents --------------------------------------------------------------------------------


def _kill_process(given: Mapping[str, str], place: Place) -> Effect:
    number = _one(given, "Signal", "SIGTERM", "SIGKILL")
    if given["ProcessName"] != PROCESS:
        raise Fails(f"{given['ProcessName']}: no process found")
    operation = "node.kill" if number == "SIGKILL" else "node.stop"
    return Effect(f"{number} to {PROCESS} of {place.node}", Move(operation, {"node": place.node}))


def _shell(given: Mapping[str, str], place: Place) -> Effect:
    read = _SYSTEMCTL.fullmatch(given["commands"].strip())
    if read is None:
        raise Unsupported(
            f"{SHELL} is carried out here for 'systemctl start UNIT' and 'systemctl stop UNIT' alone: the instances "
            "of a lab have no shell"
        )
    verb, unit = read.groups()
    if unit.removesuffix(".service") != place.unit.removesuffix(".service"):
        raise Fails(f"Failed to {verb} {unit}: Unit {unit} not found.")
    return Effect(f"systemctl {verb} {unit}", Move(f"node.{verb}", {"node": place.node}))


def _blackhole_port(given: Mapping[str, str], place: Place) -> Effect:
    traffic = _one(given, "TrafficType", "ingress", "egress")
    protocol, port = _one(given, "Protocol", "tcp", "udp"), _number(given, "Port", 1, 65535)
    seconds = _seconds(given)
    if protocol == "udp" or port not in (HTTP, TRANSPORT) or (port == HTTP and traffic == "egress"):
        return Effect(f"{traffic} of {protocol} port {port}: nobody here uses it", seconds=seconds)
    if port == TRANSPORT:
        raise Unsupported(
            f"{traffic} of port {port} alone cannot vanish in a lab: it drops all packets from one host to another, "
            f"and those between nodes belong to connections to port {port} of either"
        )
    # whatever clients send to a node goes to this port, and nothing else does
    clients = [host for host in place.others if host.kind == "client"]
    return Effect(f"packets to port {port} vanish", links=_directed("ingress", clients, place), seconds=seconds)


def _loses(given: Mapping[str, str], place: Place, peers: Iterable[Host], traffic: str, *, silences: bool) -> Effect:
    percent, seconds = _number(given, "LossPercent", 0, 100), _seconds(given)
    if given["Interface"] not in CARDS:
        return Effect(f"there is no network card {given['Interface']} here", seconds=seconds)
    if percent not in (0, 100):
        raise Unsupported(f"a lab loses all packets of a link or none, and not {percent} %")
    links = _directed(traffic, peers, place) if percent else frozenset()
    return Effect(f"{percent} % of {traffic} vanish", links=links, seconds=seconds, silences=silences and bool(percent))


def _delayed(given: Mapping[str, str], place: Place, peers: Iterable[Host], traffic: str) -> Effect:
    delay, seconds = _number(given, "DelayMilliseconds", 0, 60_000), _seconds(given)
    if given["Interface"] not in CARDS:
        return Effect(f"there is no network card {given['Interface']} here", seconds=seconds)
    moves = _delays(_directed(traffic, peers, place), delay, place) if delay else ()
    return Effect(f"{traffic} is {delay} ms late", lasting=moves, seconds=seconds)


def _all_flows(given: Mapping[str, str]) -> None:
    if _number(given, "FlowsPercent", 0, 100) != 100:
        raise Unsupported("a lab changes all connections between two hosts, and not a share of them: FlowsPercent 100")


def _packet_loss(given: Mapping[str, str], place: Place) -> Effect:
    return _loses(given, place, place.others, "egress", silences=True)


def _packet_loss_sources(given: Mapping[str, str], place: Place) -> Effect:
    _all_flows(given)
    traffic = _one(given, "TrafficType", "ingress", "egress")
    return _loses(given, place, _peers(given, place), traffic, silences="ALL" in given["Sources"].split(","))


def _latency(given: Mapping[str, str], place: Place) -> Effect:
    return _delayed(given, place, place.others, "egress")


def _latency_sources(given: Mapping[str, str], place: Place) -> Effect:
    _all_flows(given)
    if _number(given, "JitterMilliseconds", 0, 60_000):
        raise Unsupported("the delay of a lab's links does not vary as tc's does: JitterMilliseconds 0")
    return _delayed(given, place, _peers(given, place), _one(given, "TrafficType", "ingress", "egress"))


_COMMON: dict[str, str | None] = {"DurationSeconds": None, "InstallDependencies": "True"}
_SOURCES: dict[str, str | None] = {
    **_COMMON,
    "Sources": None,
    "Interface": "DEFAULT",
    "TrafficType": "ingress",
    "FlowsPercent": "100",
}
_DOCUMENTS: dict[str, tuple[Callable[[Mapping[str, str], Place], Effect], dict[str, str | None]]] = {
    SHELL: (_shell, {"commands": None, "executionTimeout": "3600", "workingDirectory": ""}),
    "AWSFIS-Run-Kill-Process": (_kill_process, {"ProcessName": None, "Signal": "SIGTERM"}),
    "AWSFIS-Run-Network-Blackhole-Port": (
        _blackhole_port,
        {**_COMMON, "Protocol": None, "Port": None, "TrafficType": "ingress"},
    ),
    "AWSFIS-Run-Network-Packet-Loss": (_packet_loss, {**_COMMON, "Interface": "eth0", "LossPercent": "7"}),
    "AWSFIS-Run-Network-Packet-Loss-Sources": (_packet_loss_sources, {**_SOURCES, "LossPercent": "7"}),
    "AWSFIS-Run-Network-Latency": (_latency, {**_COMMON, "Interface": "eth0", "DelayMilliseconds": "200"}),
    "AWSFIS-Run-Network-Latency-Sources": (
        _latency_sources,
        {**_SOURCES, "DelayMilliseconds": "200", "JitterMilliseconds": "10"},
    ),
}
"""Document → what it does, and each of its parameters with its default; None: it must be given."""
_WITHOUT = {
    "AWSFIS-Run-CPU-Stress": "it caps the processor time of a node, and nothing competes for it as stress-ng does",
    "AWSFIS-Run-Memory-Stress": "it limits the memory of a node, and nothing competes for it as stress-ng does",
    "AWSFIS-Run-IO-Stress": "its hosts have no disk of their own that stress-ng could load",
    "AWSFIS-Run-Disk-Fill": "it fills the root volume, and the hosts of a lab have none",
}
"""Documents that exist, with why nothing of them can be done."""
