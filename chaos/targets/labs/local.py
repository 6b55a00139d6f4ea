"""The local lab: a real cluster on this machine, each node in a network namespace with its own Toxiproxy."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import psutil

from chaos.base.errors import InvalidInput, LabError
from chaos.base.netsock import Endpoint
from chaos.base.paths import ProcessIdentity
from chaos.definitions import NodeSpec, Topology
from chaos.provision.unprivileged import NODE_UID
from chaos.targets import security, services
from chaos.targets.labs import cgroups, config, network, processes
from chaos.targets.labs.base import BaseLab, Manifest, Progress, Resident
from chaos.targets.labs.consumers import EXHAUSTED_ROOM, Consumers
from chaos.targets.labs.disks import LocalDisks, empty_folder, holds_data, offered
from chaos.targets.labs.http_layer import WHAT, HttpLayer
from chaos.targets.labs.sweep import destroy
from chaos.targets.labs.toxiproxy import ToxiproxyServer, environment
from chaos.targets.limits import Limits, MemoryUse, ProcessorUse, untouched
from chaos.targets.protocol import CAPABILITIES, NO_OWNERS
from chaos.targets.services.record import Expected, Record, listed
from chaos.targets.wiring import BLACK_HOLE, SERVICE, TOXIPROXY


def _no_layer(topology: Topology) -> str | None:
    """Why nothing can be done to HTTP requests in a lab of this topology; None where something can."""
    if topology.http_hosts:
        return None
    return (
        f"topology {topology.name} has no `http_layer`: use one with it, for example 3az-http or 3az-remote-store-http"
    )


class DiskGroups:
    """The lab's groups of block devices, by node."""

    def __init__(self, lab: LocalLab) -> None:
        self._lab = lab
        self.built, self.version, self.root = lab.groups.built, lab.groups.version, lab.groups.root

    def of(self, node: str) -> Path:
        return self._lab.groups.folder("io", f"zone-{self._lab.node(node).zone}", node)


class LocalLab(BaseLab):
    """Processes in network namespaces of this machine; needs root."""

    kind = "local"
    folders = ("data", "logs", "config", "run")
    gateway = True

    def __init__(self, manifest: Manifest, topology: Topology) -> None:
        super().__init__(manifest, topology)
        self.groups = cgroups.Groups(manifest.id)
        self._limits = Limits(self.groups)
        self._disks = LocalDisks(self, DiskGroups(self))
        self._children: dict[str, processes.Started] = {}

    def _own(self) -> None:
        with suppress(PermissionError):  # not root: `up` says so
            os.chown(self.folder / "run", NODE_UID, NODE_UID)

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
        self._secure()
        progress(f"building {len(self.wiring.hosts)} hosts")
        network.build(self.wiring)
        self._group(progress)
        self.disks.build()
        for name in self.topology.services:
            check()
            self._start_service(name, progress)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self._start_toxiproxy, [host.name for host in self.wiring.hosts]))
        for name in self.topology.http_hosts:
            check()
            self._start_layer(name)
        progress(f"starting {len(self.topology.nodes)} nodes of OpenSearch {self.running}")
        for name in self.topology.service_hosts:
            check()
            self._await_service(name)
        for node in self.topology.nodes:
            check()
            self._prepare(node)
            self.start_node(node.name)
        self.await_complete(progress, check)
        self.configure()
        progress("cluster is green")

    def _group(self, progress: Progress) -> None:
        try:
            nodes = {(node.zone, node.name): cgroups.DATA_SHARES if node.is_data else 1 for node in self.topology.nodes}
            nodes |= {(zone, cgroups.ECHO): cgroups.DATA_SHARES for zone in self.topology.zones}
            self.groups.build(self.topology.zones, nodes)
        except LabError as error:  # a container may not: the lab is usable, without the faults that need them
            self.groups.remove()
            progress(f"without control groups: {error}")

    def instrument(self, pid: int) -> None:
        """Let a process that measures or controls have processor time before the nodes do."""
        self.groups.place(pid, cgroups.INSTRUMENTS)

    def admit(self, node: str) -> list[Path]:
        """Let processes of a node's user join that node's groups: whoever starts it beside us. Returns the groups."""
        return self.groups.admit(NODE_UID, *self._group_of(node))

    def has_places(self, zones: Iterable[str]) -> bool:
        if not self.groups.built("cpu"):
            return False
        return all(self.groups.folder("cpu", f"zone-{zone}", cgroups.ECHO).is_dir() for zone in zones)

    def place(self, pid: int, zone: str) -> None:
        self.groups.place(pid, f"zone-{zone}", cgroups.ECHO)

    def down(self) -> list[str]:
        problems = destroy(self.id)
        processes.reap(child.shell.pid for child in self._children.values())
        return problems

    # ---- Toxiproxy ----------------------------------------------------------------------------

    def _start_toxiproxy(self, host_name: str) -> None:
        host, log = self.wiring[host_name], f"toxiproxy-{host_name}"
        process = processes.spawn(
            host,
            [str(self.manifest.parts.toxiproxy), "-host", TOXIPROXY[0], "-port", str(TOXIPROXY[1])],
            log=self.folder / "logs" / f"{log}.log",
            identity=self.folder / "run" / f"{log}.json",
            cwd=self.folder / "run",
            env={"PATH": "/usr/bin:/bin", **environment(len(self.wiring.hosts))},
        )
        self._children[log] = process
        self.groups.place(process.pid, cgroups.INSTRUMENTS)

        def answers() -> bool:
            if process.poll() is not None:
                raise LabError(f"Toxiproxy of {host_name} ended with {process.poll()}: {self.last_line(log)}")
            try:
                host.namespace.connect(TOXIPROXY, 1.0).close()
            except OSError:
                return False
            return True

        if not processes.wait_until(answers, 20):
            raise LabError(f"Toxiproxy of {host_name} does not listen after 20 s: {self.last_line(log)}")
        server = self.toxiproxy(host_name)
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
            if not self.toxiproxy(host.name).serves():
                with suppress(OSError, ValueError, KeyError):
                    identity = ProcessIdentity.from_json(json.loads(file.read_text()))
                    if identity.alive():
                        self._to_end.add(identity)
                        processes.end([identity.pid])
                self._start_toxiproxy(host.name)
                mended.append(f"Toxiproxy of {host.name}")
        return mended

    # ---- services -----------------------------------------------------------------------------

    def _start_service(self, name: str, progress: Progress) -> None:
        """Start it. One that lives in memory is never started anew: its data is gone.

        Toxiproxies are started meanwhile. Nodes are not: one that starts without its store ends.
        """
        place, log = self.service(name), f"service-{name}"
        kind = services.kind(self.topology.services[name])
        self.disks.require(name)
        place.folder.mkdir(parents=True, exist_ok=True)  # a service's disk is mounted there already
        os.chown(place.folder, NODE_UID, NODE_UID)
        if not (command := kind.command(place)):
            return
        progress(f"starting {name} ({self.topology.services[name].kind})")
        host = self.wiring[name]
        process = processes.spawn(
            host,
            list(command),
            log=self.folder / "logs" / f"{log}.log",
            identity=self.folder / "run" / f"{log}.json",
            cwd=self.folder / "run",
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            user=os.geteuid(),
        )
        self._children[log] = process
        self.groups.place(process.pid, cgroups.INSTRUMENTS)

    def _await_service(self, name: str) -> None:
        """Wait until its process answers. Raises LabError with the process's own last error."""
        log = f"service-{name}"
        process = self._children[log]

        def answers() -> bool:
            if process.poll() is not None:
                raise LabError(f"service {name} ended with {process.poll()}: {self.last_error(log)}")
            return self.answers(name, 2.0) is not None

        if not processes.wait_until(answers, 60):
            raise LabError(f"service {name} does not answer after 60 s: {self.last_error(log)}")

    # ---- layers for HTTP ------------------------------------------------------------------------

    def http_layer(self, host: str) -> HttpLayer:
        return HttpLayer(
            self.folder, self.wiring, host, self.folder / security.FOLDER if self.topology.security else None
        )

    def requests(self, service: str) -> Record:
        """What a service was asked: by the record of the layer before it, else by its own log."""
        if service in self.topology.http_hosts:
            return Record(self.http_layer(service).record, layered=True)
        return Record(self.folder / "logs" / f"service-{service}.log", layered=False)

    def expected(self, service: str) -> Expected:
        """Nothing yet: what must be in a store follows from the rows that it is given."""
        return Expected(service)

    def keys(self, service: str, seconds: float) -> set[str]:
        """What a store says it has, asked in its own host. Raises LabError."""
        return listed(self._inside(service), service, seconds)

    def _inside(self, service: str) -> Endpoint:
        return self.endpoint(service, (self.wiring[service].loopback, SERVICE))

    def answers(self, service: str, seconds: float) -> float | None:
        """Seconds until a service answered a ping in its own host, where no fault is on the way; None: it did not."""
        began = time.monotonic()
        try:
            with self._inside(service).connect(seconds) as sock:
                sock.settimeout(seconds)
                sock.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                return time.monotonic() - began if b" 200 " in sock.recv(64) else None
        except OSError:
            return None

    def service_time(self, service: str) -> int | None:
        """Milliseconds of processors that a service's process has used since it began; None: it is gone."""
        for each in self.residents():
            if each.what == "service" and each.name == service and each.identity.alive():
                with suppress(psutil.Error):
                    spent = psutil.Process(each.identity.pid).cpu_times()
                    return int((spent.user + spent.system) * 1000)
        return None

    def _start_layer(self, name: str) -> None:
        """Start it, and wait until it listens wherever requests to this host are sent."""
        layer, log, host = self.http_layer(name), f"{WHAT}-{name}", self.wiring[name]
        layer.prepare()
        process = processes.spawn(
            host,
            layer.command(),
            log=self.folder / "logs" / f"{log}-errors.log",
            identity=self.folder / "run" / f"{log}.json",
            cwd=self.folder / "run",
            env=layer.environment(self._mitmproxy()),
            user=os.geteuid(),
        )
        self._children[log] = process
        self.groups.place(process.pid, cgroups.INSTRUMENTS)

        def listens() -> bool:
            if process.poll() is not None:
                raise LabError(
                    f"the HTTP layer of {name} ended with {process.poll()}: {self.last_error(f'{log}-errors')}"
                )
            try:
                for port in self.wiring.entrances(name):
                    host.namespace.connect((host.bridge_address, port), 1.0).close()
            except OSError:
                return False
            return True

        if not processes.wait_until(listens, 60):
            raise LabError(f"the HTTP layer of {name} does not listen after 60 s: {self.last_error(f'{log}-errors')}")

    def _mitmproxy(self) -> str:
        if self.manifest.parts.mitmproxy is None:
            raise LabError(f"lab {self.id} was made without mitmproxy, and its topology has an http_layer")
        return self.manifest.parts.mitmproxy

    # ---- nodes --------------------------------------------------------------------------------

    def _prepare(self, node: NodeSpec) -> None:
        files = self._configuration(node, self.folder / "data" / node.name, self.folder / "logs")
        config.write(self.folder / "config" / node.name, files, NODE_UID)
        for folder in (self.folder / kind / node.name for kind in ("data", "run")):
            folder.mkdir(exist_ok=True)
            os.chown(folder, NODE_UID, NODE_UID)

    def start_node(self, node: str) -> None:
        """Start a node's process; nothing to do when it runs. Does not wait for it to join."""
        if self.process_state(node) is not None:
            return
        self.disks.require(node)
        how = self.launch(node)
        child = processes.spawn(
            self.wiring[node],
            how.command,
            log=how.log,
            identity=self._identity_file(node),
            cwd=how.cwd,
            env=how.env,
        )
        self._children[node] = child
        self.groups.place(child.pid, f"zone-{self.node(node).zone}", node)

    def launch(self, node: str) -> processes.Launch:
        """How a node's process is started. Whoever starts one so, as :data:`NODE_UID`, is adopted: :meth:`adopt`."""
        scratch = self.folder / "run" / node
        env = {"PATH": "/usr/bin:/bin", "HOME": str(scratch), "LANG": "C.UTF-8"}
        return processes.Launch(self._command(node), self.log(node), scratch, env)

    def _command(self, node: str) -> list[str]:
        parts = self.manifest.parts.of(self.version(node))
        return parts.command(self.node(node), self.folder / "config" / node, self.folder / "run" / node)

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
        self._commanded(node)
        self._signal(node, signal.SIGKILL)
        self._await_gone(node, 10)

    def stop_node(self, node: str) -> None:
        self._commanded(node)
        self._signal(node, signal.SIGTERM)
        self._await_gone(node, 60)

    def pause_node(self, node: str) -> None:
        self._pausing(node)
        self._signal(node, signal.SIGSTOP)

    def resume_node(self, node: str) -> None:
        self._signal(node, signal.SIGCONT)
        self._resumed(node)

    def wipe_node(self, node: str) -> None:
        if self.process_state(node) is not None:
            raise LabError(f"the data folder of {node} cannot be emptied: it runs")
        empty_folder(self.folder / "data" / node)

    def data_is_empty(self, node: str) -> bool:
        return not holds_data(self.folder / "data" / node)

    def beside(self, node: str) -> AbstractContextManager[None]:
        return self.wiring[node].namespace.entered()

    # ---- how its processes end ----------------------------------------------------------------

    def _noted(self, resident: Resident) -> Path:
        return self.folder / "run" / f"{resident.what}-{resident.name}.json"

    def residents(self) -> list[Resident]:
        noted = [("node", node.name) for node in self.topology.nodes]
        found = []
        noted += [("service", name) for name in self.topology.service_hosts]
        noted += [(WHAT, name) for name in self.topology.http_hosts]
        for what, name in [*noted, *(("toxiproxy", host.name) for host in self.wiring.hosts)]:
            with suppress(OSError, ValueError, KeyError):  # one that never came so far
                file = self.folder / "run" / f"{what}-{name}.json"
                found.append(Resident(what, name, ProcessIdentity.from_json(json.loads(file.read_text()))))
        return found

    def pidfd(self, resident: Resident) -> int | None:
        try:
            descriptor = os.pidfd_open(resident.identity.pid)
        except ProcessLookupError:
            raise
        except OSError:  # a kernel or a sandbox without
            return None
        if not resident.identity.alive():  # else it is another one by now
            os.close(descriptor)
            raise ProcessLookupError(resident.identity.pid)
        return descriptor

    def lives(self, resident: Resident) -> bool:
        return resident.identity.alive()

    def paused(self, resident: Resident) -> str | None:
        state = resident.identity.state()
        return state if state in processes.PAUSED_STATES else None

    def exit_code(self, resident: Resident) -> int | None:
        return processes.exit_code(resident.identity, self._noted(resident))

    def is_silent(self, resident: Resident) -> bool:
        return processes.is_silent(self._noted(resident))

    def oom_kills(self, resident: Resident) -> int | None:
        where = self._group_of(resident.name) if resident.what == "node" else (cgroups.INSTRUMENTS,)
        try:
            return self._limits.memory_use(*where).oom_kills
        except LabError:
            return None

    def crash_report(self, resident: Resident) -> Path | None:
        report = self.folder / "run" / resident.name / "hs_err.log"
        return report if resident.what == "node" and report.exists() else None

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
        self._commanded(node)
        self._limits.strangle(self.memory_use(node).held + EXHAUSTED_ROOM, *self._group_of(node))
        with self._consumers(node).take(2 * EXHAUSTED_ROOM):
            self._await_gone(node, 30)

    def processor_use(self, node: str) -> ProcessorUse:
        return self._limits.processor_use(*self._group_of(node))

    def memory_use(self, node: str) -> MemoryUse:
        return self._limits.memory_use(*self._group_of(node))

    def read_files(self, node: str, size: int) -> int:
        return self._consumers(node).read(self.folder / "run" / node / "read", size)

    def _consumers(self, node: str) -> Consumers:
        return Consumers(lambda pid: self.groups.place(pid, *self._group_of(node)))

    # ---- reaching it --------------------------------------------------------------------------

    def endpoint(self, host: str, address: tuple[str, int]) -> Endpoint:
        return Endpoint(*address, self.wiring[host].namespace)

    def toxiproxy(self, host: str) -> ToxiproxyServer:
        return ToxiproxyServer(host, Endpoint(*TOXIPROXY, self.wiring[host].namespace))

    def execute(self, host: str, command: Sequence[str]) -> int:
        space = self.wiring[host].namespace
        if not space.path.exists():
            raise InvalidInput(f"host '{host}' of lab '{self.id}' is gone", remedy="run: opensearch-chaos recover")
        try:
            with space.entered():
                return subprocess.call(list(command), env={**os.environ, **self.variables()})
        except FileNotFoundError:
            raise InvalidInput(f"there is no program '{command[0]}'") from None
        except OSError as error:
            raise InvalidInput(f"'{command[0]}' cannot be run in host '{host}': {error.strerror}") from None

    # ---- capabilities -------------------------------------------------------------------------

    @classmethod
    def offers(cls, topology: Topology) -> dict[str, str | None]:
        """Each capability with None, or with the reason why a lab of this topology would lack it on this machine.

        Asked before anything starts, so it looks at the machine and the topology only.
        """
        offers: dict[str, str | None] = dict.fromkeys(CAPABILITIES) | NO_OWNERS
        for controller in ("cpu", "memory"):
            if not cgroups.usable(controller):
                offers[controller] = f"control groups for '{controller}' cannot be made here"
        offers |= {capability: offered(topology, capability) for capability in ("disks", "throttle")}
        offers["http"] = _no_layer(topology)
        return offers

    @property
    def disks(self) -> LocalDisks:
        return self._disks

    def lacks(self, capability: str) -> str | None:
        if capability in ("disks", "throttle"):
            return self.disks.lacks(capability)
        if capability == "http":
            return _no_layer(self.topology)
        if capability in ("cpu", "memory"):
            return self._limits.lack(capability)
        if capability in NO_OWNERS:
            return NO_OWNERS[capability]
        return None if capability in CAPABILITIES else f"a local lab has no '{capability}'"

    def block_neighbour(self, host: str, peer: str) -> None:
        network.set_neighbour(self.wiring[host], self.wiring[peer], BLACK_HOLE)

    def restore_neighbour(self, host: str, peer: str) -> None:
        network.set_neighbour(self.wiring[host], self.wiring[peer], self.wiring[peer].mac)

    def reaches_neighbour(self, host: str, peer: str) -> bool:
        return network.neighbour(self.wiring[host], self.wiring[peer]) == self.wiring[peer].mac
