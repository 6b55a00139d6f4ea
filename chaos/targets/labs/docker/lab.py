"""The Docker lab: for each host a Toxiproxy container owns the network namespace, and the node's container joins it.

The wiring is that of the local lab (:mod:`chaos.targets.wiring`), so every directed link has a proxy of its own and the
same faults mean the same. What differs is how this process gets in: it may run on another machine than the engine's
containers (a virtual one, on a Mac), so it enters no namespace. Each host publishes ports on loopback instead:

* a node's own HTTP port, for administration: it passes no Toxiproxy;
* for every node that the host speaks to, a port on which its Toxiproxy listens and dials just as a process of that
  host would: client hosts by the very proxy that clients use, node hosts by one more in front of it. So a connection
  is accepted before anybody was reached, and who is refused sees a close.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from docker.models.containers import Container

from chaos.base import paths
from chaos.base.errors import FaultError, InvalidInput, LabError
from chaos.base.netsock import Endpoint, Namespace
from chaos.base.paths import PREFIX, ProcessIdentity, write_json
from chaos.definitions import NodeSpec, Topology
from chaos.targets.labs import markers, network
from chaos.targets.labs.base import BaseLab, Manifest, Progress, Resident
from chaos.targets.labs.cgroups import usable
from chaos.targets.labs.consumers import EXHAUSTED_ROOM, Consumers
from chaos.targets.labs.disks import LocalDisks, empty_folder, holds_data, offered
from chaos.targets.labs.docker.engine import Engine
from chaos.targets.labs.docker.groups import ContainerGroups
from chaos.targets.labs.docker.packing import HOME, UID
from chaos.targets.labs.processes import PAUSED_STATES, wait_until
from chaos.targets.labs.sweep import destroy
from chaos.targets.labs.toxiproxy import ToxiproxyServer, environment
from chaos.targets.limits import PERIOD_MICROSECONDS, Limits, MemoryUse, ProcessorUse, untouched
from chaos.targets.parts import Parts
from chaos.targets.protocol import CAPABILITIES, NO_OWNERS
from chaos.targets.wiring import BLACK_HOLE, HTTP, TRANSPORT, Host, Proxy, Wiring

API = 8474
DIAL = 20_000
"""The first of the ports by which this process gets into a host; plus the number of the node that is meant."""
SETTLE_SECONDS = 20.0
MEMORY_BESIDE_HEAP = 768 << 20
"""Bytes that a node's container may use beside its heap."""


class DockerLab(BaseLab):
    """Containers of one Docker engine."""

    kind = "docker"
    folders = ("data", "logs", "run")
    relayed = True

    def __init__(self, manifest: Manifest, topology: Topology) -> None:
        super().__init__(manifest, topology)
        self._published: dict[tuple[str, int], int] = {}
        self._groups = ContainerGroups(self._running_pid)
        self._disks = LocalDisks(self, self._groups)
        with suppress(OSError, ValueError, KeyError):
            self._wire(json.loads((self.folder / "network.json").read_text())["prefix"])

    def _wire(self, prefix: str) -> None:
        self.wiring = Wiring.of(self.id, self.topology.nodes, self.topology.zones, network=prefix)

    @cached_property
    def engine(self) -> Engine:
        return Engine.open()

    @cached_property
    def _here(self) -> bool:
        """Whether its processes are this machine's."""
        return self.engine.shares_our_kernel()

    @classmethod
    def create(cls, topology: Topology, parts: Parts, *, id: str, lease: bool = False) -> Self:
        """Also refused where another user or machine of the engine has a lab of this id: names are the engine's."""
        engine = Engine.if_any()
        for each in engine.owned(id) if engine is not None else ():
            if not paths.is_this_machine(each.machine):
                raise InvalidInput(
                    f"a lab named '{id}' of another machine is on this Docker engine already",
                    remedy="choose another name with --name",
                )
            if paths.lives_elsewhere(each.state, id):
                raise markers.taken(id, each.state)
        return super().create(topology, parts, id=id, lease=lease)

    # ---- names --------------------------------------------------------------------------------

    @property
    def network_name(self) -> str:
        return f"{PREFIX}{self.id}"

    def proxy_name(self, host: str) -> str:
        return f"{PREFIX}{self.id}-{host}"

    def node_name(self, node: str) -> str:
        return f"{PREFIX}{self.id}-{node}-node"

    # ---- coming up ----------------------------------------------------------------------------

    def up(self, progress: Progress = lambda _: None, check: Callable[[], None] = lambda: None) -> None:
        progress(f"making {len(self.wiring.hosts)} hosts")
        prefix = self.engine.make_network(self.id, self.network_name)
        write_json(self.folder / "network.json", {"prefix": prefix})
        self._wire(prefix)
        self._secure()
        self.disks.build()
        for node in self.topology.nodes if self.topology.disks is not None else ():
            os.chown(self.disks.path(node.name), UID, UID)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self._make_host, self.wiring.hosts))
        progress(f"starting {len(self.topology.nodes)} nodes of OpenSearch {self.running}")
        for node in self.topology.nodes:
            check()
            self.start_node(node.name)
        self.await_complete(progress, check)
        self.configure()
        progress("cluster is green")

    def down(self) -> list[str]:
        return destroy(self.id)

    def _dials(self, host: Host) -> list[Proxy]:
        """Proxies of a node's host by which this process dials as that host would, its own node included."""
        if host.kind == "client":
            return []
        return [
            Proxy(f"dial-{peer.name}", f"0.0.0.0:{DIAL + peer.index}", f"{peer.loopback}:{TRANSPORT}")
            for peer in self.wiring.nodes
        ]

    def _proxies(self, host: Host) -> list[Proxy]:
        made = self.wiring.proxies(host)
        if host.kind == "client":  # nobody lives in this host: its proxies listen where they are published
            numbers = {f"to-{peer.name}-http": DIAL + peer.index for peer in self.wiring.nodes}
            made = [Proxy(each.name, f"0.0.0.0:{numbers[each.name]}", each.upstream) for each in made]
        return made + self._dials(host)

    def _make_host(self, host: Host) -> None:
        ports = [API, *(DIAL + peer.index for peer in self.wiring.nodes)]
        if host.kind == "node":
            ports.append(HTTP)
        container = self.engine.make_container(
            self.id,
            self.proxy_name(host.name),
            "proxy",
            host.name,
            self.manifest.parts.toxiproxy,
            command=["-host=0.0.0.0", f"-port={API}"],
            address=(self.network_name, host.bridge_address),
            ports=ports,
            hostname=host.name,
            environment=environment(len(self.wiring.hosts)),
            sysctls=_sysctls(),
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
        )
        self.engine.tell(container, "start")
        self._populate(host)

    def _populate(self, host: Host) -> None:
        self._published = {key: port for key, port in self._published.items() if key[0] != host.name}
        seen: list[FaultError] = []

        def answers() -> bool:
            try:
                self.toxiproxy(host.name).version()
            except FaultError as error:
                seen[:] = [error]
                return False
            return True

        if not wait_until(answers, SETTLE_SECONDS, every=0.1):
            raise LabError(f"Toxiproxy of {host.name} does not answer after {SETTLE_SECONDS:g} s: {seen[0]}")
        server = self.toxiproxy(host.name)
        server.started()
        server.populate(self._proxies(host))

    def _make_node(self, spec: NodeSpec) -> Container:
        name = self.node_name(spec.name)
        if self.topology.disks is not None:
            data = str(self.disks.path(spec.name))
        else:
            data = f"{name}-data"
            self.engine.make_volume(self.id, data, spec.name)
        heap = int(spec.heap) // 1024
        parts = self._parts(spec.name)
        options = " ".join([f"-Xms{heap}k", f"-Xmx{heap}k", *parts.java_flags])
        built = parts.java_version != "of the image"
        container = self.engine.make_container(
            self.id,
            name,
            "node",
            spec.name,
            parts.home,
            network_mode=f"container:{self.proxy_name(spec.name)}",
            volumes={data: {"bind": f"{HOME}/data", "mode": "rw"}},
            environment={
                "JDK_JAVA_OPTIONS" if built else "OPENSEARCH_JAVA_OPTS": options,
                **({} if self.topology.security else {"DISABLE_SECURITY_PLUGIN": "true"}),
                "DISABLE_INSTALL_DEMO_CONFIG": "true",
                "DISABLE_PERFORMANCE_ANALYZER_AGENT_CLI": "true",
            },
            mem_limit=int(spec.heap) + MEMORY_BESIDE_HEAP,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
        )
        reached = {"http.bind_host": "0.0.0.0", "http.publish_host": self.wiring[spec.name].loopback}
        files = self._configuration(spec, Path(f"{HOME}/data"), Path(f"{HOME}/logs"), **reached)
        self.engine.put(container, f"{HOME}/config", files, UID)
        return container

    # ---- reaching it --------------------------------------------------------------------------

    def _port(self, host: str, port: int) -> int:
        """Where a port of a host is published."""
        if (host, port) not in self._published:
            bound = self.engine.there(self.proxy_name(host)).ports
            for name, places in bound.items():
                if places:
                    self._published[host, int(name.partition("/")[0])] = int(places[0]["HostPort"])
        try:
            return self._published[host, port]
        except KeyError:
            raise LabError(f"port {port} of {host} is not published: its container does not run") from None

    def endpoint(self, host: str, address: tuple[str, int]) -> Endpoint:
        ip, port = address
        peer = next(each for each in self.wiring.nodes if each.loopback == ip)
        if self.wiring[host].kind == "node" and port == HTTP:
            if peer.name != host:
                raise LabError(f"{host} does not speak HTTP with {peer.name}")
            return self.administration(host)
        return Endpoint("127.0.0.1", self._port(host, DIAL + peer.index))

    def administration(self, node: str) -> Endpoint:
        return Endpoint("127.0.0.1", self._port(node, HTTP))

    def toxiproxy(self, host: str) -> ToxiproxyServer:
        return ToxiproxyServer(host, Endpoint("127.0.0.1", self._port(host, API)))

    # ---- processes ----------------------------------------------------------------------------

    def _node(self, node: str) -> Container | None:
        return self.engine.container(self.node_name(node))

    def process_state(self, node: str) -> str | None:
        container = self._node(node)
        if container is None:
            return None
        return {"running": "S", "paused": "T"}.get(container.status)

    def identity(self, node: str) -> ProcessIdentity | None:
        """The container's present process: its pid as the engine sees it, since when, and whose."""
        return self._identity_of(self._node(node))

    @staticmethod
    def _identity_of(container: Container | None) -> ProcessIdentity | None:
        if container is None:
            return None
        state = container.attrs["State"]
        digits = "".join(sign for sign in str(state.get("StartedAt")) if sign.isdigit())
        return ProcessIdentity(int(state.get("Pid") or 0), int(digits or 0), str(container.id))

    def start_node(self, node: str) -> None:
        """Its container is made first where there is none, or one of another image than the node's version wants."""
        if self.process_state(node) is not None:
            return
        self.disks.require(node)
        container = self._node(node)
        if container is not None and container.attrs["Config"]["Image"] != self._parts(node).home:
            self.engine.discard(self.node_name(node))
            container = None
        self.engine.tell(container or self._make_node(self.node(node)), "start")

    def _parts(self, node: str) -> Parts:
        return self.manifest.parts.of(self.version(node))

    def _ended(self, node: str, verb: str, seconds: float, **options: Any) -> None:
        container = self._node(node)
        if container is not None:
            self._commanded(node)
            self.engine.tell(container, verb, **options)
        self._await_gone(node, seconds)

    def _await_gone(self, node: str, seconds: float) -> None:
        if not wait_until(lambda: self.process_state(node) is None, seconds, every=0.02):
            raise LabError(f"the container of {node} still runs after {seconds:g} s")

    def kill_node(self, node: str) -> None:
        if self.process_state(node) is not None:
            self._ended(node, "kill", 10)

    def stop_node(self, node: str) -> None:
        if self.process_state(node) is not None:
            self._ended(node, "stop", 65, timeout=60)

    def pause_node(self, node: str) -> None:
        if self.process_state(node) == "S":
            self._pausing(node)
            self.engine.tell(self.engine.there(self.node_name(node)), "pause")

    def resume_node(self, node: str) -> None:
        if self.process_state(node) == "T":
            self.engine.tell(self.engine.there(self.node_name(node)), "unpause")
        self._resumed(node)

    def wipe_node(self, node: str) -> None:
        """Its container and volume go, the next start makes empty ones; a disk of its own is emptied."""
        if self.process_state(node) is not None:
            raise LabError(f"the data of {node} cannot be emptied: it runs")
        if self.topology.disks is not None:
            empty_folder(self.disks.path(node))
            return
        self.engine.discard(self.node_name(node), f"{self.node_name(node)}-data")

    def data_is_empty(self, node: str) -> bool:
        if self.topology.disks is not None:
            return not holds_data(self.disks.path(node))
        container = self._node(node)
        return container is None or not self.engine.has(container, f"{HOME}/data/nodes")

    # ---- how its processes end ----------------------------------------------------------------

    def _container_of(self, resident: Resident) -> Container | None:
        """The container of that very process: not started again since."""
        name = self.node_name(resident.name) if resident.what == "node" else self.proxy_name(resident.name)
        container = self.engine.container(name)
        now = self._identity_of(container)
        same = now is not None and (now.start_ticks, now.boot_id) == (
            resident.identity.start_ticks,
            resident.identity.boot_id,
        )
        return container if same else None

    def residents(self) -> list[Resident]:
        """Those that run: of a container that has ended the engine knows no process."""
        noted = [("node", node.name, self.node_name(node.name)) for node in self.topology.nodes]
        noted += [("toxiproxy", host.name, self.proxy_name(host.name)) for host in self.wiring.hosts]
        found = []
        for what, name, container in noted:
            identity = self._identity_of(self.engine.container(container))
            if identity is not None and identity.pid:
                found.append(Resident(what, name, identity))
        return found

    def pidfd(self, resident: Resident) -> int | None:
        """None: the engine, which may be on another kernel, is asked instead."""
        return None

    def lives(self, resident: Resident) -> bool:
        container = self._container_of(resident)
        return container is not None and container.status in ("running", "paused")

    def paused(self, resident: Resident) -> str | None:
        container = self._container_of(resident)
        if container is None or container.status == "paused":
            return None if container is None else "T"
        if not self._here:
            return None
        with suppress(ProcessLookupError):  # by a signal: the engine takes no notice of it
            state = ProcessIdentity.of(int(container.attrs["State"].get("Pid") or 0)).state()
            return state if state in PAUSED_STATES else None
        return None

    def exit_code(self, resident: Resident) -> int | None:
        container = self._container_of(resident)
        return int(container.attrs["State"]["ExitCode"]) if container is not None else None

    def oom_kills(self, resident: Resident) -> int | None:
        container = self._container_of(resident)
        return int(bool(container.attrs["State"].get("OOMKilled"))) if container is not None else None

    # ---- limits -------------------------------------------------------------------------------

    def _running_pid(self, node: str) -> int:
        """As this machine counts, where the engine is here. Raises LabError when the node does not run."""
        container = self._node(node)
        pid = int(container.attrs["State"].get("Pid") or 0) if container is not None else 0
        if not pid:
            raise LabError(f"the container of {node} does not run")
        return pid

    @cached_property
    def _memory(self) -> Limits:
        return Limits(self._groups)

    def limits(self, node: str, resource: str) -> dict[str, str]:
        if resource == "memory":
            return self._memory.values("memory", node)
        host = self.engine.there(self.node_name(node)).attrs["HostConfig"]
        return {"quota": str(max(0, host.get("CpuQuota") or 0))}

    def restore_limits(self, node: str, resource: str, values: Mapping[str, str]) -> None:
        if resource == "memory":
            if self.process_state(node) is not None:  # else its group is gone, and the next one has the container's
                self._memory.restore("memory", values, node)
            return
        container = self._node(node)
        if container is not None:
            quota = int(values.get("quota", "0"))
            self.engine.update(container, cpu_period=PERIOD_MICROSECONDS, cpu_quota=quota if quota > 0 else -1)

    def limited(self, node: str) -> dict[str, str]:
        container = self._node(node)
        if container is None:
            return {}
        host = container.attrs["HostConfig"]
        quota = int(host.get("CpuQuota") or 0)
        found = {"cpu quota": str(quota)} if quota > 0 else {}
        if self.lacks("memory") is None and self.process_state(node) is not None:
            given = {str(host.get(key)) for key in ("Memory", "MemorySwap")} | {str(int(host["Memory"]) * 2)}
            for file, text in self._memory.set_by_somebody("memory", node).items():
                if text not in given:
                    found[file] = text
        return found

    def limit_processors(self, node: str, processors: float) -> None:
        container = self.engine.there(self.node_name(node))
        quota = max(1000, round(processors * PERIOD_MICROSECONDS))
        self.engine.update(container, cpu_period=PERIOD_MICROSECONDS, cpu_quota=quota)

    def processor_use(self, node: str) -> ProcessorUse:
        use = self.engine.stats(self.engine.there(self.node_name(node)))["cpu_stats"]
        periods = int(use["throttling_data"]["throttled_periods"])
        return ProcessorUse(int(use["cpu_usage"]["total_usage"]) / 1e9, periods)

    def squeeze_memory(self, node: str, headroom: int) -> None:
        size = self.memory_use(node).held + untouched(self._running_pid(node)) + headroom
        self._memory.squeeze(size, node)

    def exhaust_memory(self, node: str) -> None:
        if self.process_state(node) is None:
            return
        self._commanded(node)
        self._memory.strangle(self.memory_use(node).held + EXHAUSTED_ROOM, node)
        with self._consumers(node).take(2 * EXHAUSTED_ROOM):
            self._await_gone(node, 30)

    def memory_use(self, node: str) -> MemoryUse:
        """Of a container that has ended, what the engine noted: its group is gone."""
        container = self._node(node)
        if container is not None and self.process_state(node) is None:
            return MemoryUse(0, 0, int(bool(container.attrs["State"].get("OOMKilled"))), 0)
        return self._memory.memory_use(node)

    def read_files(self, node: str, size: int) -> int:
        return self._consumers(node).read(self.folder / "run" / f"read-{node}", size)

    def _consumers(self, node: str) -> Consumers:
        return Consumers(lambda pid: self._groups.place(pid, node))

    # ---- links at layer 3 ---------------------------------------------------------------------

    def _namespace(self, host: str) -> Namespace:
        pid = int(self.engine.there(self.proxy_name(host)).attrs["State"]["Pid"])
        if not pid:
            raise LabError(f"the proxy of {host} does not run")
        return Namespace(f"/proc/{pid}/ns/net")

    def block_neighbour(self, host: str, peer: str) -> None:
        network.redirect(self._namespace(host), self.wiring[peer].bridge_address, BLACK_HOLE)

    def restore_neighbour(self, host: str, peer: str) -> None:
        network.forget(self._namespace(host), self.wiring[peer].bridge_address)

    def reaches_neighbour(self, host: str, peer: str) -> bool:
        if self.lacks("drop"):
            return True  # nothing of ours could have changed it
        return network.entry(self._namespace(host), self.wiring[peer].bridge_address) != BLACK_HOLE

    def execute(self, host: str, command: Sequence[str]) -> int:
        """In the container of the node. A client host has no programs but its Toxiproxy."""
        name = self.node_name(host) if self.wiring[host].kind == "node" else self.proxy_name(host)
        return self.engine.execute(self.engine.there(name), command)

    # ---- what it can do -----------------------------------------------------------------------

    @classmethod
    def offers(cls, topology: Topology) -> dict[str, str | None]:
        offers: dict[str, str | None] = dict.fromkeys(CAPABILITIES) | NO_OWNERS
        offers["closes"] = "a docker lab looks at connections through a relay, which ends them itself"
        elsewhere = _elsewhere(Engine.open())
        offers["memory"] = elsewhere or (
            None if usable("memory") else "control groups for 'memory' cannot be changed here"
        )
        offers["drop"] = elsewhere
        offers["http"] = "a docker lab has no layer for HTTP requests yet"
        offers |= {what: elsewhere or offered(topology, what) for what in ("disks", "throttle")}
        return offers

    @property
    def disks(self) -> LocalDisks:
        return self._disks

    def lacks(self, capability: str) -> str | None:
        if capability not in CAPABILITIES:
            return f"a docker lab has no '{capability}'"
        return self._offered[capability]

    @cached_property
    def _offered(self) -> dict[str, str | None]:
        return self.offers(self.topology)

    def mend(self) -> list[str]:
        mended = []
        for host in self.wiring.hosts:
            container = self.engine.container(self.proxy_name(host.name))
            if container is None:
                continue
            try:
                serves = self.toxiproxy(host.name).serves()
            except LabError:  # it runs nowhere
                serves = False
            if not serves:
                ran = host.kind == "node" and self.process_state(host.name) is not None
                if (identity := self._identity_of(container)) is not None:
                    self._to_end.add(identity)
                self.engine.tell(container, "kill")
                self.engine.tell(container, "start")
                self._populate(host)
                mended.append(f"Toxiproxy of {host.name}")
                if ran:  # its namespace went with its owner
                    self.kill_node(host.name)
                    self.start_node(host.name)
                    mended.append(f"node {host.name}")
        return mended

    # ---- what it says -------------------------------------------------------------------------

    def log_lines(self, name: str, since: int = 0) -> list[str]:
        """``since`` means nothing here: :meth:`log_end` cannot be told of a container."""
        is_proxy = name.startswith("toxiproxy-")
        container = self.proxy_name(name.removeprefix("toxiproxy-")) if is_proxy else self.node_name(name)
        found = self.engine.container(container)
        text = self.engine.logs(found, 400) if found is not None else ""
        return [line for line in text.splitlines() if line.strip()]

    def write_logs(self) -> None:
        self.engine.keep_logs(self.id, self.folder / "logs")


def _sysctls() -> dict[str, str]:
    """Those of the local lab's hosts that an engine lets a container have."""
    ours = {name: value for name, value in network.SYSCTLS.items() if name.startswith("ipv4/")}
    return {f"net.{name.replace('/', '.')}": value for name, value in ours.items()}


def _elsewhere(engine: Engine) -> str | None:
    """Why namespaces and control groups of the engine's containers are out of reach."""
    if os.geteuid() == 0 and engine.shares_our_kernel():
        return None
    return "only root on the engine's own machine can do that to a container"
