"""The local lab: a real cluster on this machine, each node in a network namespace with its own Toxiproxy.

Everything that it makes carries the lab's id in its name and is written down (``lab.json``) before it is made, so
another process can find it and take it away: see :mod:`chaos.lab.sweep`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from chaos import places
from chaos.definitions import NodeSpec, Topology
from chaos.errors import FaultError, InvalidInput, LabError
from chaos.lab import cgroups, config, demand, network, processes
from chaos.lab.disks import LocalDisks, empty_folder, holds_data, offered
from chaos.lab.limits import Limits, MemoryUse, ProcessorUse, untouched
from chaos.lab.parts import Parts
from chaos.lab.protocol import CAPABILITIES
from chaos.lab.toxiproxy import ToxiproxyServer
from chaos.lab.wiring import BLACK_HOLE, HTTP, TOXIPROXY, Wiring
from chaos.netsock import Client
from chaos.places import ProcessIdentity, write_json

ID = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
START_SECONDS = 180.0
"""How long a node may take until it answers HTTP; generous, because CI machines are shared."""
EXHAUSTED_ROOM = 32 << 20
"""Bytes between what a node holds and the limit that kills it; a process beside it takes twice as much."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Manifest:
    """What is written down before anything of a lab exists."""

    id: str
    owner: ProcessIdentity
    lease: bool
    """True for ``lab up``: it is meant to outlive the process that made it."""
    parts: Parts
    created: float

    def to_json(self) -> dict[str, Any]:
        return {
            "format": 1,
            "id": self.id,
            "kind": "local",
            "owner": self.owner.to_json(),
            "lease": self.lease,
            "parts": self.parts.to_json(),
            "created": self.created,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Manifest:
        return cls(
            data["id"],
            ProcessIdentity.from_json(data["owner"]),
            data["lease"],
            Parts.from_json(data["parts"]),
            data["created"],
        )


class LocalLab:
    """A running (or starting) local lab. Make one with :meth:`create`, find one with :meth:`attach`."""

    kind = "local"

    def __init__(self, manifest: Manifest, topology: Topology) -> None:
        self.manifest = manifest
        self.id = manifest.id
        self.topology = topology
        self.wiring = Wiring.of(manifest.id, topology.nodes, topology.zones)
        self.groups = cgroups.Groups(manifest.id)
        self._limits = Limits(self.groups)
        self.disks = LocalDisks(self)
        self.folder = places.labs() / manifest.id
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    # ---- making and finding -------------------------------------------------------------------

    @classmethod
    def create(cls, topology: Topology, parts: Parts, *, id: str, lease: bool = False) -> LocalLab:
        """Write the lab down; nothing runs yet. Raises InvalidInput when the id is taken or not a name."""
        if not ID.fullmatch(id):
            raise InvalidInput(f"'{id}' cannot name a lab: use up to 31 of a-z, 0-9 and '-'")
        folder = places.labs() / id
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            raise InvalidInput(
                f"a lab named '{id}' is already there",
                remedy=f"choose another name or run: opensearch-chaos lab down {id}",
            ) from None
        except OSError as error:
            raise LabError(f"cannot make the lab folder {folder}: {error.strerror}") from error
        manifest = Manifest(id, ProcessIdentity.me(), lease, parts, time.time())
        try:
            folder.chmod(0o755)
            for part in ("data", "logs", "config", "run"):
                (folder / part).mkdir()
                (folder / part).chmod(0o755)
            with suppress(PermissionError):  # not root: `up` says so
                os.chown(folder / "run", processes.NODE_UID, processes.NODE_UID)
            with suppress(PermissionError):
                places.write_atomically(places.lab_markers() / id, str(places.state().absolute()))
            write_json(folder / "topology.json", topology.to_json())
            write_json(folder / "lab.json", manifest.to_json())
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise LabError(f"cannot write the lab down in {folder}: {error.strerror}") from error
        return cls(manifest, topology)

    @classmethod
    def attach(cls, id: str) -> LocalLab:
        """A lab that another process made. Raises InvalidInput when there is none, or none that can be read."""
        folder = places.labs() / id
        try:
            manifest = Manifest.from_json(json.loads((folder / "lab.json").read_text()))
            topology = Topology.from_json(json.loads((folder / "topology.json").read_text()))
        except FileNotFoundError:
            there = ", ".join(sorted(p.name for p in places.labs().glob("*"))) or "none"
            raise InvalidInput(f"there is no lab named '{id}' (labs here: {there})") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidInput(
                f"the manifest of lab '{id}' cannot be read: {type(error).__name__}",
                remedy=f"run: opensearch-chaos lab down {id}",
            ) from error
        lab = cls(manifest, topology)
        lab.adopt()
        return lab

    def adopt(self) -> None:
        """Note nodes that run and are noted nowhere: who started them may have died before it could write them down.

        Without this a second process would be started on the same data, and no fault could reach the first.
        """
        unknown = {
            self.wiring[node.name].namespace_name: node.name
            for node in self.topology.nodes
            if self.process_state(node.name) is None
        }
        living = network.processes_in(list(unknown)) if unknown and os.geteuid() == 0 else {}
        for pid, namespace in living.items():
            node = unknown[namespace]
            if processes.command_line(pid) == self._command(node) and processes.note(pid, self._identity_file(node)):
                self.groups.place(pid, f"zone-{self.node(node).zone}", node)

    def up(self, progress: Progress = lambda _: None, check: Callable[[], None] = lambda: None) -> None:
        """Build the network, start everything and wait until the cluster is complete and green.

        ``check`` is called often and may raise, to give up. Raises LabError naming the node that failed and its
        own last error. The caller takes the lab down.
        """
        processes.raise_open_files_limit()
        progress(f"building {len(self.wiring.hosts)} hosts")
        network.build(self.wiring)
        self._group(progress)
        self.disks.build()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self._start_toxiproxy, [host.name for host in self.wiring.hosts]))
        progress(f"starting {len(self.topology.nodes)} OpenSearch {self.topology.version} nodes")
        for node in self.topology.nodes:
            check()
            self._prepare(node)
            self.start_node(node.name)
        self._await_complete(progress, check)
        self._configure()
        progress("cluster is green")

    def _group(self, progress: Progress) -> None:
        try:
            nodes = {(node.zone, node.name): cgroups.DATA_SHARES if node.is_data else 1 for node in self.topology.nodes}
            self.groups.build(self.topology.zones, nodes)
        except LabError as error:  # a container may not: the lab is usable, without the faults that need them
            self.groups.remove()
            progress(f"without control groups: {error}")

    def instrument(self, pid: int) -> None:
        """Let a measuring process have processor time before the nodes do."""
        self.groups.place(pid, cgroups.INSTRUMENTS)

    def down(self) -> list[str]:
        """Take everything away, logs excepted; returns what would not go (empty: clean)."""
        from chaos.lab.sweep import destroy

        problems = destroy(self.id)
        processes.reap(child.pid for child in self._children.values())
        return problems

    # ---- Toxiproxy ----------------------------------------------------------------------------

    def _start_toxiproxy(self, host_name: str) -> None:
        host = self.wiring[host_name]
        process = processes.spawn(
            host,
            [str(self.manifest.parts.toxiproxy), "-host", TOXIPROXY[0], "-port", str(TOXIPROXY[1])],
            log=self.folder / "logs" / f"toxiproxy-{host_name}.log",
            identity=self.folder / "run" / f"toxiproxy-{host_name}.json",
            cwd=self.folder / "run",
            env={"LOG_LEVEL": "warn", "PATH": "/usr/bin:/bin"},
        )
        self._children[f"toxiproxy-{host_name}"] = process
        self.groups.place(process.pid, cgroups.INSTRUMENTS)

        def answers() -> bool:
            if process.poll() is not None:
                raise LabError(f"Toxiproxy of {host_name} ended with {process.returncode}: {self._tail(process_log)}")
            try:
                host.namespace.connect(TOXIPROXY, 1.0).close()
            except OSError:
                return False
            return True

        process_log = self.folder / "logs" / f"toxiproxy-{host_name}.log"
        if not processes.wait_until(answers, 20):
            raise LabError(f"Toxiproxy of {host_name} does not listen after 20 s: {self._tail(process_log)}")
        server = ToxiproxyServer(host)
        server.started()
        server.populate(self.wiring.proxies(host))

    def mend(self) -> list[str]:
        """Start every Toxiproxy anew that ran and is dead or hangs, with all its proxies and no toxic; says which.

        For recovery: what a fault put into a server that does not answer can be taken back in no other way.
        """
        mended = []
        for host in self.wiring.hosts:
            file = self.folder / "run" / f"toxiproxy-{host.name}.json"
            if not file.exists():  # a lab that never came so far
                continue
            try:
                ToxiproxyServer(host).version()
            except FaultError:
                with suppress(OSError, ValueError, KeyError):
                    identity = ProcessIdentity.from_json(json.loads(file.read_text()))
                    if identity.alive():
                        processes.end([identity.pid])
                self._start_toxiproxy(host.name)
                mended.append(f"Toxiproxy of {host.name}")
        return mended

    # ---- nodes --------------------------------------------------------------------------------

    def node(self, name: str) -> NodeSpec:
        for node in self.topology.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def _prepare(self, node: NodeSpec) -> None:
        settings = config.node_settings(
            self.topology, node, self.wiring, self.folder / "data" / node.name, self.folder / "logs"
        )
        config.write(self.folder / "config" / node.name, settings)
        # the node writes its keystore into its configuration folder
        for folder in (self.folder / kind / node.name for kind in ("config", "data", "run")):
            folder.mkdir(exist_ok=True)
            os.chown(folder, processes.NODE_UID, processes.NODE_UID)

    def start_node(self, node: str) -> None:
        """Start a node's process; nothing to do when it runs. Does not wait for it to join."""
        if self.process_state(node) is not None:
            return
        self.disks.require(node)
        child = processes.spawn(
            self.wiring[node],
            self._command(node),
            log=self.log(node),
            identity=self._identity_file(node),
            cwd=self.folder / "run" / node,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder / "run" / node), "LANG": "C.UTF-8"},
        )
        self._children[node] = child
        self.groups.place(child.pid, f"zone-{self.node(node).zone}", node)

    def _command(self, node: str) -> list[str]:
        return self.manifest.parts.command(self.node(node), self.folder / "config" / node, self.folder / "run" / node)

    def log(self, node: str) -> Path:
        return self.folder / "logs" / f"{node}.log"

    def _identity_file(self, node: str) -> Path:
        return self.folder / "run" / f"node-{node}.json"

    def identity(self, node: str) -> ProcessIdentity | None:
        """The node's process as last started; it may be dead."""
        try:
            return ProcessIdentity.from_json(json.loads(self._identity_file(node).read_text()))
        except FileNotFoundError:
            return None

    def process_state(self, node: str) -> str | None:
        identity = self.identity(node)
        return identity.state() if identity is not None and identity.alive() else None

    def _signal(self, node: str, number: signal.Signals) -> bool:
        identity = self.identity(node)
        return identity is not None and processes.send(identity, number)

    def _await_gone(self, node: str, seconds: float) -> None:
        def gone() -> bool:
            identity = self.identity(node)
            if identity is not None:
                processes.reap([identity.pid])
            return self.process_state(node) is None

        if not processes.wait_until(gone, seconds, every=0.005):
            raise LabError(f"the process of {node} is still there after {seconds:g} s")

    def kill_node(self, node: str) -> None:
        self._signal(node, signal.SIGKILL)
        self._await_gone(node, 10)

    def stop_node(self, node: str) -> None:
        self._signal(node, signal.SIGTERM)
        self._await_gone(node, 60)

    def pause_node(self, node: str) -> None:
        self._signal(node, signal.SIGSTOP)

    def resume_node(self, node: str) -> None:
        self._signal(node, signal.SIGCONT)

    def wipe_node(self, node: str) -> None:
        if self.process_state(node) is not None:
            raise LabError(f"the data folder of {node} cannot be emptied: it runs")
        empty_folder(self.folder / "data" / node)

    def data_is_empty(self, node: str) -> bool:
        return not holds_data(self.folder / "data" / node)

    # ---- limits of a node ---------------------------------------------------------------------

    def _group_of(self, node: str) -> tuple[str, str]:
        return f"zone-{self.node(node).zone}", node

    def limits(self, node: str, resource: str) -> dict[str, str]:
        return self._limits.values(resource, *self._group_of(node))

    def restore_limits(self, node: str, resource: str, values: Mapping[str, str]) -> None:
        self._limits.restore(resource, values, *self._group_of(node))

    def limited(self, node: str) -> dict[str, str]:
        """What limits a node that nothing limited when it was made."""
        here = self._group_of(node)
        built = [resource for resource in ("cpu", "memory") if self.groups.built(resource)]
        return {k: v for resource in built for k, v in self._limits.set_by_somebody(resource, *here).items()}

    def limit_processors(self, node: str, processors: float) -> None:
        self._limits.quota(processors, *self._group_of(node))

    def squeeze_memory(self, node: str, headroom: int) -> None:
        identity = self.identity(node)
        if identity is None or not identity.alive():
            raise LabError(f"the memory of {node} cannot be squeezed: it does not run")
        size = self.memory_use(node).held + untouched(identity.pid) + headroom
        self._limits.squeeze(size, *self._group_of(node))

    def exhaust_memory(self, node: str) -> None:
        if self.process_state(node) is None:
            return
        self._limits.strangle(self.memory_use(node).held + EXHAUSTED_ROOM, *self._group_of(node))
        with self._demand(node, "take", str(2 * EXHAUSTED_ROOM)):
            self._await_gone(node, 30)

    def processor_use(self, node: str) -> ProcessorUse:
        return self._limits.processor_use(*self._group_of(node))

    def memory_use(self, node: str) -> MemoryUse:
        return self._limits.memory_use(*self._group_of(node))

    def read_files(self, node: str, size: int) -> int:
        with self._demand(node, "read", str(self.folder / "run" / node / "read"), str(size)) as child:
            assert child.stdout is not None
            answer = child.stdout.readline()
        try:
            return int(json.loads(answer)["second"])
        except (ValueError, KeyError) as error:
            raise LabError(f"reading files beside {node} failed: {answer[:200]!r}") from error

    @contextmanager
    def _demand(self, node: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """A process in the node's host and groups, for the time of the block; the kernel is asked to spare it.

        As root: the interpreter of a virtual environment may lie where others cannot read.
        """
        with self.wiring[node].namespace.entered():
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", demand.__file__, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self.folder / "run",
                env={"PATH": "/usr/bin:/bin"},
                start_new_session=True,
            )
        assert child.stdin is not None and child.stdout is not None
        try:
            self.groups.place(child.pid, *self._group_of(node))
            with suppress(OSError):  # needs CAP_SYS_RESOURCE; without, it is spared for being the smaller one
                Path(f"/proc/{child.pid}/oom_score_adj").write_text("-1000")
            with suppress(BrokenPipeError):
                child.stdin.write(b"go\n")
                child.stdin.flush()
            yield child
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
            with suppress(BrokenPipeError):
                child.stdin.close()

    # ---- reaching it --------------------------------------------------------------------------

    def client(self, node: str, *, timeout: float = 5.0) -> Client:
        host = self.wiring[node]
        return Client(host.loopback, HTTP, namespace=host.namespace, timeout=timeout)

    def connect(self, host: str, address: tuple[str, int], timeout: float) -> socket.socket:
        return self.wiring[host].namespace.connect(address, timeout)

    # ---- capabilities -------------------------------------------------------------------------

    @classmethod
    def offers(cls, topology: Topology) -> dict[str, str | None]:
        """Each capability with None, or with the reason why a lab of this topology would lack it on this machine.

        Asked before anything starts, so it looks at the machine and the topology only.
        """
        offers: dict[str, str | None] = dict.fromkeys(CAPABILITIES)
        for controller in ("cpu", "memory"):
            if not cgroups.usable(controller):
                offers[controller] = f"control groups for '{controller}' cannot be made here"
        offers |= {capability: offered(topology, capability) for capability in ("disks", "throttle")}
        return offers

    def lacks(self, capability: str) -> str | None:
        if capability in ("disks", "throttle"):
            return self.disks.lacks(capability)
        if capability in ("cpu", "memory"):
            return self._limits.lack(capability)
        return None if capability in CAPABILITIES else f"a local lab has no '{capability}'"

    def add_toxic(self, host: str, proxy: str, toxic: str, kind: str, stream: str, attributes: dict[str, Any]) -> None:
        ToxiproxyServer(self.wiring[host]).add_toxic(proxy, toxic, kind, stream, attributes)

    def remove_toxic(self, host: str, proxy: str, toxic: str) -> None:
        ToxiproxyServer(self.wiring[host]).remove_toxic(proxy, toxic)

    def set_proxy(self, host: str, proxy: str, enabled: bool) -> None:
        ToxiproxyServer(self.wiring[host]).set_enabled(proxy, enabled)

    def block_neighbour(self, host: str, peer: str) -> None:
        network.set_neighbour(self.wiring[host], self.wiring[peer], BLACK_HOLE)

    def restore_neighbour(self, host: str, peer: str) -> None:
        network.set_neighbour(self.wiring[host], self.wiring[peer], self.wiring[peer].mac)

    # ---- coming up ----------------------------------------------------------------------------

    def _await_complete(self, progress: Progress, check: Callable[[], None]) -> None:
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
                except urllib3.exceptions.HTTPError:
                    continue
                if status == 200 and health["number_of_nodes"] == expected and health["status"] == "green":
                    waiting.discard(name)
                    progress(f"{name} is up ({expected - len(waiting)} of {expected})")
            if waiting and time.monotonic() > deadline:
                errors = "; ".join(f"{name}: {self.last_error(name)}" for name in sorted(waiting))
                raise LabError(f"no complete green cluster after {START_SECONDS:g} s: {errors}")
            if waiting:
                time.sleep(0.1)

    def _configure(self) -> None:
        """Put the topology's cluster settings and zone weights."""
        any_node = self.client(self.topology.nodes[0].name, timeout=30.0)
        if self.topology.settings.cluster:
            body = {"persistent": self.topology.settings.cluster}
            self._must(any_node.request("PUT", "/_cluster/settings", body=body))
        if self.topology.weights:
            weights = {zone: str(weight) for zone, weight in self.topology.weights.items()}
            self._must(
                any_node.request(
                    "PUT",
                    "/_cluster/routing/awareness/zone/weights",
                    body={"weights": weights, "_version": -1},
                )
            )

    @staticmethod
    def _must(answer: tuple[int, Any]) -> None:
        if answer[0] != 200:
            raise LabError(f"the cluster refused its topology's settings: {answer[0]} {answer[1]}")

    def last_error(self, node: str) -> str:
        """The node's own last error line, for people."""
        lines = self._lines(self.log(node))
        for line in reversed(lines):
            wrong = re.search(r"\[(ERROR|FATAL)|Exception|Error:|uncaught", line)
            if wrong and not line.startswith(("\t", "    at")):
                return line.strip()[:500]
        return lines[-1].strip()[:500] if lines else "it wrote nothing"

    def _tail(self, path: Path) -> str:
        lines = self._lines(path)
        return lines[-1].strip()[:300] if lines else "it wrote nothing"

    @staticmethod
    def _lines(path: Path) -> list[str]:
        try:
            with open(path, "rb") as file:
                file.seek(max(0, path.stat().st_size - 65536))
                return [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        except FileNotFoundError:
            return []
