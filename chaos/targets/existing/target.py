"""A cluster that somebody else set up, as runs need it: nodes that are spoken to at their own addresses.

It has its REST API, and Toxiproxies, hosts and programs where its file names some; its disks are its owners', and its
hosts tell of them. It is never started and never taken away. What a run has to find again (which file, whose nodes) is
written down in the state folder before the run begins.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import urllib3

from chaos.base import paths
from chaos.base.access import Access, Whose
from chaos.base.addresses import Address
from chaos.base.errors import ChaosError, FaultError, InvalidInput, LabError
from chaos.base.netsock import Endpoint
from chaos.base.paths import ProcessIdentity, write_json
from chaos.definitions import Topology
from chaos.definitions.existing import Existing, load_existing
from chaos.definitions.hooks import Hook
from chaos.opensearch.cluster import Zoning
from chaos.opensearch.rest import NodeClient
from chaos.targets.existing import offered, pods
from chaos.targets.existing.domain import Domain
from chaos.targets.existing.door import DoorClient
from chaos.targets.existing.fis import Fis
from chaos.targets.existing.helpers import Helpers
from chaos.targets.existing.hosts import UNASKED, Hosts, unlike
from chaos.targets.existing.inside import TheirDisks, TheirGroups
from chaos.targets.existing.passages import BESIDE, TheirWiring, beside_pods, client_host, clients_of, openings
from chaos.targets.existing.pods import FRESH_SECONDS, Pods
from chaos.targets.existing.seen import refuse_another
from chaos.targets.labs.base import BaseLab, Manifest, Progress, Resident
from chaos.targets.labs.toxiproxy import ToxiproxyServer
from chaos.targets.limits import MemoryUse, ProcessorUse
from chaos.targets.parts import Parts
from chaos.targets.protocol import CAPABILITIES
from chaos.targets.wiring import HTTP

KIND = "existing"
PREFIX = "existing-"
"""Of the ids by which runs name such targets."""
WHOSE_PROCESS = "/_nodes/_local/process?filter_path=nodes.*.name,nodes.*.process.id"
ITS_AGE = "/_nodes/_local/stats/jvm?filter_path=nodes.*.timestamp,nodes.*.jvm.timestamp,nodes.*.jvm.uptime_in_millis"
NOT_OURS = "this cluster is not ours"


def folder_of(name: str) -> Path:
    """Where is written down what runs on a target need to be found again."""
    return paths.state() / "targets" / name


def names_target(id: str) -> bool:
    """Whether an id is one of a cluster that exists, by its name alone."""
    return id.startswith(PREFIX)


def is_target(id: str) -> bool:
    """Whether an id is one of a cluster that exists, and where that is is written down here."""
    return names_target(id) and (folder_of(id.removeprefix(PREFIX)) / "target.json").is_file()


def unreached(id: str, seconds: float = 3.0) -> str | None:
    """Why there is no use in asking a run's cluster anything: in words where nobody takes a connection within so many
    seconds, none of its nodes and none of its Toxiproxies, which can be told to let go while all nodes are dead, and no
    host lets us in. None where somebody does, or where its file does not say them."""
    try:
        said = json.loads((folder_of(id.removeprefix(PREFIX)) / "target.json").read_text())
        target = load_existing(said["file"])
    except (InvalidInput, OSError, ValueError, KeyError, TypeError):
        return None

    def taken(address: Address) -> bool:
        try:
            Endpoint(address.host, address.port).connect(seconds).close()
        except OSError:
            return False
        return True

    file = target.written
    try:
        pods.open_ways(target)
    except LabError as error:
        return error.message
    nodes = list(file.of_nodes.values())
    addresses = [*(nodes or file.addresses), *(server.address for server in file.toxiproxies)]
    whom = f"none of its {len(nodes)} nodes takes" if nodes else "none of its endpoints takes"
    with ThreadPoolExecutor(min(len(addresses), 32)) as pool:
        if any(pool.map(taken, addresses)):
            return None
    hosts = hosts_of(target)  # where all nodes are dead it is their hosts that start them
    try:
        return None if hosts.any_reached() else f"{whom} a connection"
    finally:
        hosts.close()


def hosts_of(target: Existing, helpers: Helpers | None = None) -> Hosts:
    """The hosts that a file names, and the pods beside which ``helpers`` are; there may be none."""
    file = target.written
    machines = {name: node.ssh for name, node in file.nodes.items() if node.ssh is not None}
    if helpers is not None:
        machines |= beside_pods(file)
    others = (lambda _: None) if helpers is None else helpers.way
    return Hosts(machines, target.ssh_config, folder_of(file.name) / "ssh", others)


class ExistingTarget(BaseLab):
    """One cluster, with the nodes that a run means. Make one with :meth:`of`, find one with :meth:`found`."""

    kind = KIND
    folders = ()
    asks = True
    relayed = True  # for all we know: what stands before its nodes is its owners' affair
    run = ""

    def __init__(self, target: Existing, topology: Topology) -> None:
        file = target.written
        manifest = Manifest(PREFIX + file.name, KIND, ProcessIdentity.me(), True, _parts(file.opensearch), time.time())
        super().__init__(manifest, topology)
        self.target = target
        self.wiring = TheirWiring.there(self.id, topology.nodes, topology.zones, file)
        self.lacking = offered.by(file)
        self.folder = folder_of(file.name)
        self.zoning = Zoning(file.zones.attribute, dict(file.zones.names))
        self._addresses = file.of_nodes
        self._doors = {str(address): address for address in file.addresses} if file.by_doors else {}
        self._proxied = openings(file)
        self._toxiproxies = {server.label: server.address for server in file.toxiproxies}
        self.pods = None if file.kubernetes is None else Pods(target)
        image = None if file.kubernetes is None else file.kubernetes.helper
        self.helpers = None if image is None or self.pods is None else Helpers(self.pods, image)
        self.hosts = hosts_of(target, self.helpers)
        self.fis = None if file.fis is None else Fis(file.fis, file.name)
        self.domain = None if file.domain is None else Domain(file.domain)
        self._groups = TheirGroups(self.hosts)
        self._disks = TheirDisks(self.hosts)
        self._clients = {client_host(zone): each.ssh for zone, each in clients_of(file).items() if each.ssh is not None}
        self._by_loopback = {host.loopback: host.name for host in self.wiring.nodes}

    @classmethod
    def of(cls, target: Existing, topology: Topology) -> ExistingTarget:
        """Written down. Raises InvalidInput where only some nodes have an address of their own, LabError where
        the disk refuses."""
        made = cls(target, topology)
        if not made._doors and (without := [node.name for node in topology.nodes if node.name not in made._addresses]):
            raise InvalidInput(
                f"{target.file}: {', '.join(without)} {'has' if len(without) == 1 else 'have'} no url",
                remedy="write under nodes where each is reached, for example url: https://10.0.0.7:9200",
            )
        try:
            made.folder.mkdir(parents=True, exist_ok=True)
            found = {"file": str(Path(target.file).absolute()), "topology": topology.to_json()}
            write_json(made.folder / "target.json", found)
        except OSError as error:
            raise LabError(f"cannot write the target down in {made.folder}: {error.strerror}") from error
        return made

    @classmethod
    def found(cls, id: str) -> ExistingTarget:
        """The target of a run that may be dead. Raises InvalidInput when its file is not there, or says no target, or
        where another cluster answers by now."""
        where = folder_of(id.removeprefix(PREFIX)) / "target.json"
        try:
            said = json.loads(where.read_text())
            target, topology = load_existing(said["file"]), Topology.from_json(said["topology"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"{where} cannot be read: {type(error).__name__}") from error
        refuse_another(target)
        return cls(target, topology)

    # ---- reaching it --------------------------------------------------------------------------

    @cached_property
    def access(self) -> Access:
        """It is for this cluster alone: addresses are given to other machines while a run is under way, and what a run
        sends, changes or takes back must not be sent there."""
        return self.target.bound

    def access_to(self, node: str) -> Access:
        """For this node alone where it has an address of its own. ``node``: or the name of a door."""
        return self._only.get(node, self.access)

    @cached_property
    def _only(self) -> Mapping[str, Access]:
        return {node: self.access.only(node) for node in self._addresses}

    def endpoint(self, host: str, address: tuple[str, int]) -> Endpoint:
        """By the address that a lab would have: there is one way to a node, from wherever it is asked. Where the
        connections of ``host`` to it pass a proxy that is reached from here, it is through that."""
        node = self._by_loopback.get(address[0])
        at = None if node is None else self._proxied.get((host, node))
        if at is None and node is not None and address[1] == HTTP:
            at = self._addresses.get(node)
        if at is None:
            raise LabError(f"{NOT_OURS}: nothing but its nodes' REST API is reached")
        return Endpoint(at.host, at.port)

    @property
    def viewers(self) -> tuple[str, ...]:
        return tuple(self._doors) or super().viewers

    @property
    def identities(self) -> Mapping[Address, Whose]:
        """Who must answer at each address that a run uses: the cluster, and where a node is meant that very node.

        ``GET /`` is asked there: of the proxies those of clients, since between nodes it is not HTTP.
        """
        whose = self.access.whose
        assert whose is not None
        file = self.target.written
        found = dict.fromkeys((*file.addresses, *file.of_balancers.values()), whose)
        found |= {at: replace(whose, node=node) for node, at in self._addresses.items()}
        clients = {client_host(zone) for zone in self.topology.zones}
        passed = {at: node for (host, node), at in self._proxied.items() if host in clients}
        return found | {at: replace(whose, node=node) for at, node in passed.items()}

    @property
    def ways_in(self) -> Mapping[str, Address]:
        """Zone → where its clients reach the cluster, where they do not go to the nodes themselves."""
        return self.target.written.ways_in

    def administration(self, node: str) -> Endpoint:
        """Of a node, or of a door by its name. Nodes that have no address share the doors out among them, so that who
        asks one after the other comes to every door."""
        at = self._doors.get(node) or self._addresses.get(node)
        if at is None:
            doors = list(self._doors.values())
            at = doors[[each.name for each in self.topology.nodes].index(node) % len(doors)]
        return Endpoint(at.host, at.port)

    def client(self, node: str, *, timeout: float = 5.0) -> NodeClient:
        if not self._doors:
            return super().client(node, timeout=timeout)
        meant = None if node in self._doors else node
        return DoorClient(self.administration(node), meant, access=self.access_to(node), timeout=timeout)

    def connect(self, host: str, address: tuple[str, int], timeout: float) -> socket.socket:
        node = self._by_loopback.get(address[0])
        if host in self._clients and node is not None and (host, node) not in self._proxied:
            at = self._addresses[node]  # as its clients have it
            where = Endpoint(at.host, at.port)
            made = self.hosts.ssh(self._clients[host]).connect(at.host, at.port, timeout)
        else:
            where = self.endpoint(host, address)
            made = where.connect(timeout)
        return self.access.secured(made, where.host) if address[1] == HTTP else made

    # ---- what it has, which is its REST API ---------------------------------------------------

    @classmethod
    def offers(cls, topology: Topology) -> dict[str, str | None]:
        return dict.fromkeys(CAPABILITIES, "what a cluster that exists has, its file says")

    def lacks(self, capability: str) -> str | None:
        return self.lacking(capability)

    def process_state(self, node: str) -> str | None:
        """Its host says. Where the file names none, or none that can be asked now, it is not known (``?``); whether a
        node is there, the cluster says."""
        if not self.hosts.ready(node):
            return "?"
        try:
            found = self.hosts.process(node)
        except ChaosError:
            return UNASKED
        return None if found is None else str(found["state"])

    def limits(self, node: str, resource: str) -> dict[str, str]:
        return self._groups.limits(node, resource)

    def processor_use(self, node: str) -> ProcessorUse:
        return self._groups.processor_use(node)

    def memory_use(self, node: str) -> MemoryUse:
        return self._groups.memory_use(node)

    @property
    def disks(self) -> TheirDisks:
        return self._disks

    def on_host(self, node: str) -> dict[str, Any]:
        """What the program on a node's host says of the node, and for how long a fault may last there (``longest``, s).

        The node is the one that the cluster means: its process is the one that the node itself calls its own. Raises
        FaultError where it is not, or nobody says; LabError where the host cannot be asked.
        """
        facts = self.hosts.facts(node)
        host = self.hosts.of_nodes[node]
        if node not in facts["nodes"]:
            raise FaultError(
                f"{host}: its configuration names {', '.join(facts['nodes']) or 'no node'}, and not {node}",
                remedy="correct ssh of this node in the target's file, or /etc/oschaos-host.json there",
            )
        told: dict[str, Any] = facts["nodes"][node]
        try:
            asked = self._says_of_itself(node)
            why = unlike(node, told, asked) if asked["name"] == node else f"at its url is {asked['name']}"
        except (urllib3.exceptions.HTTPError, StopIteration, LookupError, TypeError, AttributeError) as error:
            why = f"{node} does not say which process it is ({type(error).__name__})"
        if why is not None:
            raise FaultError(f"{host} does not prove that {node} runs on it: {why}")
        return {**told, "longest": facts["longest"]}

    def _says_of_itself(self, node: str) -> dict[str, Any]:
        """Its name; its process and the age of its JVM, unless something else answers there."""
        client = self.client(node, timeout=5.0)
        found: dict[str, Any] = {}
        for path in (WHOSE_PROCESS, ITS_AGE):
            status, answer = client.request("GET", path)
            if status != 200:
                return {"name": f"status {status}"}
            found |= next(iter(answer["nodes"].values()))
        return found

    def address_of(self, peer: str) -> str:
        """The address that a peer's packets have now; a pod, behind :data:`BESIDE`, has another one after each restart.
        Raises FaultError where it has none, LabError."""
        if self.pods is None or not peer.startswith(BESIDE):
            return peer
        pod = self.pods.look(fresh=FRESH_SECONDS).pods.get(peer.removeprefix(BESIDE))
        if pod is None or pod.ip is None:
            raise FaultError(f"{peer} has no address now")
        return pod.ip

    def on_hosts(self, nodes: Iterable[str]) -> dict[str, dict[str, Any]]:
        """:meth:`on_host` of each of these nodes, at the same time."""
        every = sorted(nodes)
        if not every:
            return {}
        with ThreadPoolExecutor(min(len(every), 16)) as pool:
            return dict(zip(every, pool.map(self.on_host, every), strict=True))

    def identity(self, node: str) -> ProcessIdentity | None:
        """On its host. Raises LabError or FaultError where that gives no answer."""
        found = self.hosts.process(node)
        return None if found is None else ProcessIdentity(found["pid"], found["start"], self.hosts.of_nodes[node])

    def version(self, node: str) -> str:
        return self.topology.version

    def residents(self) -> list[Resident]:
        return []

    def paused(self, resident: Resident) -> str | None:
        return None  # it has no residents

    def mend(self) -> list[str]:
        return []

    def limited(self, node: str) -> dict[str, str]:
        return {}

    def reaches_neighbour(self, host: str, peer: str) -> bool:
        return True

    def down(self) -> list[str]:
        self._none()

    def up(self, progress: Progress = lambda _: None, check: Callable[[], None] = lambda: None) -> None:
        self._none()

    def toxiproxy(self, host: str) -> ToxiproxyServer:
        """``host``: its label in the file (:attr:`TheirToxiproxy.label`)."""
        at = self._toxiproxies.get(host)
        if at is None:
            raise LabError(f"{NOT_OURS}: its file names no Toxiproxy {host}")
        return ToxiproxyServer(host, Endpoint(at.host, at.port))

    def proxies(self, host: str) -> dict[str, Any]:
        """Those that the file names: the others are none of our business."""
        named = {name for server in self.target.written.toxiproxies if server.label == host for name in server.proxies}
        return {name: proxy for name, proxy in super().proxies(host).items() if name in named}

    def hook(self, kind: str) -> Hook:
        found = self.target.hook(kind)
        if found is None:
            raise LabError(f"{self.target.file} names no hook for {kind}")
        return found

    @property
    def hooks_folder(self) -> Path:
        return self.target.folder

    def execute(self, host: str, command: Sequence[str]) -> int:
        self._none()

    def pidfd(self, resident: Resident) -> int | None:
        self._none()

    def lives(self, resident: Resident) -> bool:
        self._none()

    def exit_code(self, resident: Resident) -> int | None:
        self._none()

    def oom_kills(self, resident: Resident) -> int | None:
        self._none()

    def _none(self) -> NoReturn:
        raise LabError(f"{NOT_OURS}: it is reached by its REST API alone")

    def _refused(self, *_: Any, **__: Any) -> NoReturn:
        """Whatever else a lab can have done to it."""
        self._none()

    kill_node = stop_node = start_node = pause_node = resume_node = wipe_node = _refused
    data_is_empty = set_version = _refused
    block_neighbour = restore_neighbour = _refused
    restore_limits = limit_processors = squeeze_memory = exhaust_memory = read_files = _refused


def _parts(version: str) -> Parts:
    """Nothing of it is known, and nothing of it is ours, but the version."""
    return Parts("", version, "a cluster that exists", "", "", "not known", (), None, "", "none")
