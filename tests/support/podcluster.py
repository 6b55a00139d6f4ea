"""OpenSearch in the pods of :mod:`apiserver`: what each node answers when it is only looked at, on its own port."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from apiserver import SETS, Server
from fakes import ROOT

from chaos.commands.on_kubernetes import Where, drafted
from chaos.definitions.existing import Existing, load_existing
from chaos.registry import load_experiment
from chaos.targets.existing import mapping
from chaos.targets.existing.seen import seen_of
from chaos.targets.existing.target import ExistingTarget

UUID, NAME, VERSION = "wIIGSa4PQIyKYzcvn_m1Ag", "opensearch-cluster", "3.8.0"


@dataclass
class Cluster:
    """``attributes``: of each node, by pod; ``members``: the pods that are nodes of it; ``served``: it speaks TLS."""

    server: Server
    uuid: str = UUID
    attributes: dict[str, dict[str, str]] = field(default_factory=dict)
    members: list[str] = field(default_factory=list)
    served: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        self.members = self.members or list(self.server.pods)
        for name in self.members:
            self.attributes.setdefault(name, {"zone": self.server.pods[name]["spec"]["nodeName"][-1]})

    def node(self, name: str) -> dict[str, Any]:
        roles = ["cluster_manager"] if name.startswith(SETS[0]) else ["data", "ingest"]
        ip = self.server.pods[name]["status"]["podIP"]
        found = {"name": name, "roles": roles, "ip": ip, "host": ip, "version": VERSION}
        return {**found, "attributes": self.attributes[name]}

    def answer(self, pod: str, path: str) -> tuple[int, Any]:
        nodes = {f"id-{name}": self.node(name) for name in self.members}
        known = {
            "/": {
                "name": pod,
                "cluster_name": NAME,
                "cluster_uuid": self.uuid,
                "version": {"distribution": "opensearch", "number": VERSION},
                "tagline": "The OpenSearch Project",
            },
            "/_nodes": {"_nodes": {"total": len(nodes), "failed": 0}, "nodes": nodes},
            "/_nodes/_local": {"nodes": {f"id-{pod}": {"name": pod}}},
            "/_cluster/settings": {
                "persistent": {},
                "transient": {},
                "defaults": {
                    "cluster.routing.allocation.awareness.attributes": ["zone"],
                    "cluster.routing.allocation.awareness.force.zone.values": ["a", "b", "c"],
                },
            },
            "/_cluster/health": {
                "status": "green",
                "number_of_nodes": len(nodes),
                "relocating_shards": 0,
                "initializing_shards": 0,
                "unassigned_shards": 0,
                "discovered_cluster_manager": True,
            },
            "/_cluster/routing/awareness/zone/weights": {},
            "/_cluster/decommission/awareness/zone/_status": {},
            "/_cluster/state/metadata": {"metadata": {}},
        }
        return (200, known[path]) if path in known else (200, {})


@contextmanager
def answering(cluster: Cluster) -> Iterator[Cluster]:
    """A port for each pod of the cluster, known to the API server, until the block ends."""
    with ExitStack() as stack:
        for pod in list(cluster.server.pods):
            cluster.server.backends[pod] = stack.enter_context(_one(cluster, pod))
        yield cluster


@contextmanager
def _one(cluster: Cluster, pod: str) -> Iterator[tuple[str, int]]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            status, body = cluster.answer(pod, self.path.partition("?")[0])
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    if cluster.served is not None:
        server.socket = cluster.served.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield ("127.0.0.1", int(server.server_address[1]))
    finally:
        server.shutdown()
        server.server_close()


def written(where: Where, folder: Path) -> Existing:
    """The target as it is drafted."""
    return load_existing(drafted(where, folder, "box", None, {}))


def with_helpers(where: Where, folder: Path, image: str, run: str) -> ExistingTarget:
    """The target with an image for helper pods in its file, for a run of this name."""
    written(where, folder)
    file = next((folder / "topologies" / "existing").glob("*.yaml"))
    file.write_text(file.read_text().replace("\n  forward:", f"\n  helper: {image}\n  forward:", 1))
    target = load_existing(file)
    needed = load_experiment(ROOT / "experiments" / "data-node-kill.yaml").topology
    made = ExistingTarget(target, mapping.mapped(needed, target.written, seen_of(target)).topology)
    made.run = run
    return made
