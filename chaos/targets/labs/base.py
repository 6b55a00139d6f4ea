"""What every kind of lab does alike: being written down, reaching its nodes and proxies, coming up, and its errors.

Everything that a lab makes carries its id and is written down (``lab.json``) before it is made, so another process can
find it and take it away: see :mod:`chaos.targets.labs.sweep`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import urllib3

from chaos.base import paths
from chaos.base.access import PLAIN, Access, distrust
from chaos.base.errors import InvalidInput, LabError
from chaos.base.netsock import Endpoint
from chaos.base.paths import ProcessIdentity, write_json
from chaos.definitions import NodeSpec, Topology
from chaos.definitions.existing import is_existing
from chaos.definitions.selectors import variable
from chaos.opensearch.cluster import Zoning
from chaos.opensearch.rest import NodeClient
from chaos.targets import keystore, security, services
from chaos.targets.labs import config, markers
from chaos.targets.labs.toxiproxy import ToxiproxyServer
from chaos.targets.parts import Parts
from chaos.targets.protocol import Disks, HttpRequests, Lab
from chaos.targets.wiring import HTTP, SERVICE, Wiring

ID = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
START_SECONDS = 180.0
"""How long a node may take until it answers HTTP; generous, because CI machines are shared."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Manifest:
    """What is written down before anything of a lab exists."""

    id: str
    kind: str
    owner: ProcessIdentity
    lease: bool
    """True for ``lab up``: it is meant to outlive the process that made it."""
    parts: Parts
    created: float

    def to_json(self) -> dict[str, Any]:
        return {
            "format": 1,
            "id": self.id,
            "kind": self.kind,
            "owner": self.owner.to_json(),
            "lease": self.lease,
            "parts": self.parts.to_json(),
            "created": self.created,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Manifest:
        return cls(
            data["id"],
            data["kind"],
            ProcessIdentity.from_json(data["owner"]),
            data["lease"],
            Parts.from_json(data["parts"]),
            data["created"],
        )


def read(id: str) -> tuple[Manifest, Topology]:
    """What is written down of a lab. Raises InvalidInput when there is none, or none that can be read."""
    folder = paths.labs() / id
    try:
        manifest = Manifest.from_json(json.loads((folder / "lab.json").read_text()))
        topology = Topology.from_json(json.loads((folder / "topology.json").read_text()))
    except (FileNotFoundError, NotADirectoryError):
        if is_existing(id):
            raise InvalidInput(
                f"{id} is of a cluster that exists, and this runs on labs alone today",
                remedy=f"plan on it with: opensearch-chaos plan EXPERIMENT --on {id}",
            ) from None
        there = ", ".join(sorted(p.name for p in paths.labs().glob("*"))) or "none"
        raise InvalidInput(f"there is no lab named '{id}' (labs here: {there})") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"the manifest of lab '{id}' cannot be read: {type(error).__name__}",
            remedy=f"run: opensearch-chaos lab down {id}",
        ) from error
    return manifest, topology


@dataclass(frozen=True)
class Resident:
    """A process that a lab's host has for as long as the lab lives.

    ``what``: node, toxiproxy, service or http (a layer).
    """

    what: str
    name: str
    """Of its host."""
    identity: ProcessIdentity

    @property
    def log(self) -> str:
        """As :meth:`BaseLab.log_lines` names it."""
        return self.name if self.what == "node" else f"{self.what}-{self.name}"


def refuse_name(id: str) -> None:
    """Raises InvalidInput when no lab may be made of this name: it is none, or it is taken."""
    if not ID.fullmatch(id):
        raise InvalidInput(
            f"'{id}' cannot name a lab: use up to 31 of a-z, 0-9 and '-'", remedy="choose another with --name"
        )
    if (paths.labs() / id).exists():
        raise _taken(id)
    markers.refuse(id)


def _taken(id: str) -> InvalidInput:
    return InvalidInput(
        f"a lab named '{id}' is already there", remedy=f"choose another name or run: opensearch-chaos lab down {id}"
    )


class BaseLab(Lab, ABC):
    """A running (or starting) lab. Make one with :meth:`create`, find one with :func:`.kinds.attach`."""

    kind: ClassVar[str]
    folders: ClassVar[tuple[str, ...]] = ("logs", "run")
    relayed: bool = False
    asks: bool = False
    zoning = Zoning()
    gateway: ClassVar[bool] = False
    """Whether a process of ours has to stand between the user and the nodes."""

    def __init__(self, manifest: Manifest, topology: Topology) -> None:
        self.manifest = manifest
        self.id = manifest.id
        self.topology = topology
        self.wiring = Wiring.of_topology(manifest.id, topology)
        self.folder = paths.labs() / manifest.id
        self._to_end: set[ProcessIdentity] = set()
        self._to_pause: dict[ProcessIdentity, float | None] = {}
        """Processes that our moves paused, and when they resumed them (``time.monotonic()``); None: not yet."""

    # ---- making and finding -------------------------------------------------------------------

    @classmethod
    def create(cls, topology: Topology, parts: Parts, *, id: str, lease: bool = False) -> Self:
        """Write the lab down; nothing runs yet. Raises InvalidInput when the id is taken or not a name."""
        refuse_name(id)
        folder = paths.labs() / id
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            raise _taken(id) from None
        except OSError as error:
            raise LabError(f"cannot make the lab folder {folder}: {error.strerror}") from error
        manifest = Manifest(id, cls.kind, ProcessIdentity.me(), lease, parts, time.time())
        lab = cls(manifest, topology)
        try:
            folder.chmod(0o755)
            for part in cls.folders:
                (folder / part).mkdir()
                (folder / part).chmod(0o755)
            lab._own()
            markers.claim(id)
            write_json(folder / "topology.json", topology.to_json())
            write_json(folder / "lab.json", manifest.to_json())
        except InvalidInput:  # another state folder was faster
            shutil.rmtree(folder, ignore_errors=True)
            raise
        except OSError as error:
            markers.release(id)
            shutil.rmtree(folder, ignore_errors=True)
            raise LabError(f"cannot write the lab down in {folder}: {error.strerror}") from error
        return lab

    def _own(self) -> None:
        """Give folders to whom they belong, where that is not us."""
        return

    @classmethod
    def attach(cls, id: str) -> Self:
        """A lab of this kind that another process made. Raises InvalidInput when there is none."""
        manifest, topology = read(id)
        if manifest.kind != cls.kind:
            raise InvalidInput(f"lab '{id}' is a {manifest.kind} lab, not a {cls.kind} lab")
        lab = cls(manifest, topology)
        lab.adopt()
        return lab

    def adopt(self) -> None:
        """Note what runs and is noted nowhere: who started it may have died before it could write it down."""
        return

    @abstractmethod
    def up(self, progress: Progress = lambda _: None, check: Callable[[], None] = lambda: None) -> None:
        """Start everything and wait until the cluster is complete and green.

        ``check`` is called often and may raise, to give up. Raises LabError naming the node that failed and its
        own last error. The caller takes the lab down.
        """

    @abstractmethod
    def down(self) -> list[str]:
        """Take everything away, logs excepted; returns what would not go (empty: clean). Of a lab this is
        :func:`chaos.targets.labs.sweep.destroy`, which needs its id alone."""

    def beside(self, node: str) -> AbstractContextManager[None]:
        """Programs that are started in this block are found by whoever sweeps the lab."""
        return nullcontext()

    def instrument(self, pid: int) -> None:
        """Let a measuring process have processor time before the nodes do, where that can be had."""
        return

    def has_places(self, zones: Iterable[str]) -> bool:
        """Whether a process of ours can be put beside the data nodes of these zones, in line for their processors."""
        return False

    def place(self, pid: int, zone: str) -> None:
        """Give a process a data node's share of a zone's processor time (:meth:`has_places`)."""
        raise LabError(f"there is no place beside the nodes of zone {zone}")

    @property
    @abstractmethod
    def disks(self) -> Disks:
        """Disks of its own for each node, where there are some."""

    def _configuration(self, node: NodeSpec, data: Path, logs: Path, **more: Any) -> dict[str, str | bytes]:
        """A node's configuration files, by path in their folder; ``more`` are settings. May hold secrets."""
        parts = self.manifest.parts.of(self.version(node.name))
        places = [self.service(name) for name in self.topology.services]
        settings = config.node_settings(self.topology, node, self.wiring, parts, data, logs, places) | more
        secured = security.files(self.folder, node.name) if self.topology.security else {}
        kept = {keystore.NAME: keystore.keystore(self._secrets)} if self._secrets else {}
        return {"opensearch.yml": config.text(settings), **secured, **kept}

    @cached_property
    def _secrets(self) -> dict[str, str]:
        """What nodes need, to use the lab's services: the same for all nodes. It is in their keystores and nowhere
        else, and goes with the lab."""
        kinds = [services.kind(each) for each in self.topology.services.values()]
        return {name: value for kind in kinds for name, value in kind.secrets().items()}

    def http_layer(self, host: str) -> HttpRequests:
        raise LabError(f"no HTTP layer is before {host}: a {self.kind} lab has none")

    def service(self, name: str) -> services.Place:
        """Where a service of this lab is."""
        reached = f"{self.wiring[name].loopback}:{SERVICE}" if name in self.topology.service_hosts else ""
        return services.Place(name, reached, self.folder / "services" / name)

    # ---- versions -----------------------------------------------------------------------------

    def _version_file(self, node: str) -> Path:
        return self.folder / "run" / f"version-{node}"

    @property
    def running(self) -> str:
        """The versions of all nodes in words."""
        return " and ".join(dict.fromkeys(self.version(node.name) for node in self.topology.nodes))

    def version(self, node: str) -> str:
        """The version of OpenSearch that a node runs, or will when it is started."""
        with suppress(FileNotFoundError):
            return self._version_file(node).read_text()
        return self.node(node).version or self.topology.version

    def set_version(self, node: str, version: str) -> None:
        """What a node will run when it is started next. Raises LabError while it runs, and without that version."""
        self.manifest.parts.of(version)
        if self.version(node) == version:
            return
        if self.process_state(node) is not None:
            raise LabError(f"the version of {node} cannot be changed: it runs")
        paths.write_atomically(self._version_file(node), version)

    # ---- reaching it --------------------------------------------------------------------------

    def node(self, name: str) -> NodeSpec:
        for node in self.topology.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    @abstractmethod
    def endpoint(self, host: str, address: tuple[str, int]) -> Endpoint:
        """Where this process connects to, to have a connection as that host's processes would open it."""

    def administration(self, node: str) -> Endpoint:
        """HTTP of a node, over a path of its own that no fault touches."""
        return self.endpoint(node, (self.wiring[node].loopback, HTTP))

    @cached_property
    def access(self) -> Access:
        return security.access(self.folder) if self.topology.security else PLAIN

    @cached_property
    def _dateless(self) -> Access:
        return replace(self.access, dates=False)

    def variables(self) -> dict[str, str]:
        """For a shell in one of its hosts: each node's URL and process, ``a_data`` and ``a_data_pid`` of a-data."""
        found = {}
        for node in self.topology.nodes:
            name = variable(node.name)
            found[name] = f"{self.access.scheme}://{self.wiring[node.name].loopback}:{HTTP}"
            if (identity := self.identity(node.name)) is not None:
                found[f"{name}_pid"] = str(identity.pid)
        return found

    def access_to(self, node: str) -> Access:
        """How the lab itself speaks to a node. As clients do, but for nodes whose certificate is meant to have expired:
        they are administered and read back all the same, and faults are proven there."""
        return self._dateless if node in self.topology.expired else self.access

    @cached_property
    def transport(self) -> Access:
        """How nodes are spoken to over their transport protocol."""
        return security.transport(self.folder) if self.topology.security else PLAIN

    @property
    def viewers(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.topology.nodes)

    def client(self, node: str, *, timeout: float = 5.0) -> NodeClient:
        return NodeClient(self.administration(node), access=self.access_to(node), timeout=timeout)

    def connect(self, host: str, address: tuple[str, int], timeout: float) -> socket.socket:
        ip, port = address
        if port == SERVICE:
            return self.endpoint(host, address).connect(timeout)
        node = next(each.name for each in self.wiring.nodes if each.loopback == ip)
        access = self.access_to(node) if port == HTTP else self.transport
        return access.secured(self.endpoint(host, address).connect(timeout), ip)

    @abstractmethod
    def toxiproxy(self, host: str) -> ToxiproxyServer:
        """The Toxiproxy that is that host's network card."""

    def add_toxic(self, host: str, proxy: str, toxic: str, kind: str, stream: str, attributes: dict[str, Any]) -> None:
        self.toxiproxy(host).add_toxic(proxy, toxic, kind, stream, attributes)

    def remove_toxic(self, host: str, proxy: str, toxic: str) -> bool:
        return self.toxiproxy(host).remove_toxic(proxy, toxic)

    def set_proxy(self, host: str, proxy: str, enabled: bool) -> bool:
        return self.toxiproxy(host).set_enabled(proxy, enabled)

    def proxies(self, host: str) -> dict[str, Any]:
        return self.toxiproxy(host).proxies()

    # ---- coming up ----------------------------------------------------------------------------

    def _secure(self) -> None:
        """Make what a secured lab's nodes and their clients need, once every address is known."""
        if self.topology.security:
            security.make(self.folder, self.wiring, self.topology.expired)

    @abstractmethod
    def process_state(self, node: str) -> str | None: ...

    # ---- how its processes end ----------------------------------------------------------------

    def _commanded(self, node: str) -> None:
        """The end of this node's present process is about to be asked for."""
        if (identity := self.identity(node)) is not None:
            self._to_end.add(identity)

    def was_commanded(self, resident: Resident) -> bool:
        """Whether a move of ours, in this process, asked for the end of that process."""
        return resident.identity in self._to_end

    def _pausing(self, node: str) -> None:
        """This node's present process is about to be paused."""
        if (identity := self.identity(node)) is not None:
            self._to_pause[identity] = None

    def _resumed(self, node: str) -> None:
        """A move of ours resumed it. Idempotent."""
        if (identity := self.identity(node)) is not None and identity in self._to_pause:
            self._to_pause[identity] = time.monotonic()

    def was_to_pause(self, resident: Resident, since: float) -> bool:
        """Whether a move of ours, in this process, kept that process paused at ``since`` (``time.monotonic()``) or
        later."""
        if resident.identity not in self._to_pause:
            return False
        until = self._to_pause[resident.identity]
        return until is None or until >= since

    @abstractmethod
    def paused(self, resident: Resident) -> str | None:
        """The kernel's letter of a paused process: T by a signal or its engine, t by a debugger. None: it is not
        paused, or gone."""

    @abstractmethod
    def residents(self) -> list[Resident]:
        """The processes of its hosts as last started; they may be dead."""

    @abstractmethod
    def pidfd(self, resident: Resident) -> int | None:
        """A descriptor by which the kernel tells its end; None where there is none. ProcessLookupError: it is dead."""

    @abstractmethod
    def lives(self, resident: Resident) -> bool: ...

    @abstractmethod
    def exit_code(self, resident: Resident) -> int | None:
        """How it ended, as a shell says it (128 and the signal); None while nobody can tell."""

    def is_silent(self, resident: Resident) -> bool:
        """Whether nobody is left who could still say how it ended."""
        return True

    @abstractmethod
    def oom_kills(self, resident: Resident) -> int | None:
        """The kernel's count of kills for want of memory where it lives; None where nobody counts."""

    def crash_report(self, resident: Resident) -> Path | None:
        """The file in which its JVM says what it died of, if there is one."""
        return None

    def await_complete(self, progress: Progress, check: Callable[[], None]) -> None:
        """Until every node has every other in its own view and the cluster is green."""
        expected = len(self.topology.nodes)
        deadline = time.monotonic() + START_SECONDS
        clients = {node.name: self.client(node.name, timeout=2.0) for node in self.topology.nodes}
        waiting = set(clients)
        while waiting:
            check()
            for name in sorted(waiting):
                if self.process_state(name) is None:
                    raise LabError(f"node {name} died at start: {self.last_error(name)}")
                try:
                    status, health = clients[name].request(
                        "GET", "/_cluster/health?local=true&filter_path=status,number_of_nodes"
                    )
                    complete = health["number_of_nodes"] == expected and health["status"] == "green"
                except (urllib3.exceptions.HTTPError, LookupError, TypeError):
                    continue
                if status == 200 and complete:
                    waiting.discard(name)
                    progress(f"{name} is up ({expected - len(waiting)} of {expected})")
            if waiting and time.monotonic() > deadline:
                errors = "; ".join(f"{name}: {self.last_error(name)}" for name in sorted(waiting))
                raise LabError(f"no complete green cluster after {START_SECONDS:g} s: {errors}")
            if waiting:
                time.sleep(0.1)
        for name in self.topology.expired:
            progress(f"waiting until the certificate of {name} has expired")
            while not self._has_expired(name):
                check()
                if time.monotonic() > deadline:
                    raise LabError(f"the certificate of {name} has not expired after {START_SECONDS:g} s")
                time.sleep(0.5)

    def _has_expired(self, node: str) -> bool:
        """Whether that is what a client finds."""
        try:
            self.access.secured(self.administration(node).connect(2.0), self.wiring[node].loopback).close()
        except OSError as error:
            return distrust(error) == "certificate has expired"
        return False

    def configure(self) -> None:
        """Put the topology's cluster settings and zone weights."""
        any_node = self.client(self.topology.nodes[0].name, timeout=30.0)
        if self.topology.settings.cluster:
            body = {"persistent": self.topology.settings.cluster}
            self._must(any_node, "/_cluster/settings", body)
        if self.topology.weights:
            weights = {zone: str(weight) for zone, weight in self.topology.weights.items()}
            path = "/_cluster/routing/awareness/zone/weights"
            self._must(any_node, path, {"weights": weights, "_version": -1})

    @staticmethod
    def _must(node: NodeClient, path: str, body: Mapping[str, Any]) -> None:
        try:
            status, answer = node.request("PUT", path, body=body)
        except urllib3.exceptions.HTTPError as error:
            raise LabError(f"the cluster did not take its topology's settings: PUT {path}: {error}") from error
        if status != 200:
            raise LabError(f"the cluster refused its topology's settings: {status} {answer}")

    @abstractmethod
    def execute(self, host: str, command: Sequence[str]) -> int:
        """Run a command in one of the hosts, with its output here; its exit code."""

    # ---- what it can do, and what was done to it ----------------------------------------------

    @classmethod
    @abstractmethod
    def offers(cls, topology: Topology) -> dict[str, str | None]:
        """Each of CAPABILITIES with None, or why a lab of this kind and topology would lack it; starts nothing."""

    @abstractmethod
    def mend(self) -> list[str]:
        """Start what has to be there before anything can be undone; says what."""

    @abstractmethod
    def limited(self, node: str) -> dict[str, str]:
        """What limits a node that nothing limited when it was made."""

    @abstractmethod
    def reaches_neighbour(self, host: str, peer: str) -> bool:
        """Whether packets of a directed pair go where they should."""

    # ---- what it says -------------------------------------------------------------------------

    def log(self, node: str) -> Path:
        return self.folder / "logs" / f"{node}.log"

    def write_logs(self) -> None:
        """Have all that nodes and proxies have said in the lab's folder."""
        return

    def log_lines(self, name: str, since: int = 0) -> list[str]:
        """The last lines of a node, or of ``toxiproxy-<host>``, that are not empty; written after :meth:`log_end`."""
        try:
            with open(self.folder / "logs" / f"{name}.log", "rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(since, file.tell() - 65536, 0))
                return [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        except FileNotFoundError:
            return []

    def log_end(self, name: str) -> int:
        """Where a log ends now, for :meth:`log_lines`."""
        try:
            return (self.folder / "logs" / f"{name}.log").stat().st_size
        except FileNotFoundError:
            return 0

    def last_error(self, node: str) -> str:
        """The node's own last error line, for people."""
        lines = self.log_lines(node)
        for line in reversed(lines):
            wrong = re.search(r"\[(ERROR|FATAL)|Exception|Error:|uncaught", line)
            if wrong and not line.startswith(("\t", "    at")):
                return line.strip()[:500]
        return lines[-1].strip()[:500] if lines else "it wrote nothing"

    def last_line(self, name: str) -> str:
        lines = self.log_lines(name)
        return lines[-1].strip()[:300] if lines else "it wrote nothing"
