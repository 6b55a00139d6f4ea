"""A node's opensearch.yml and environment, made from the topology. Pure but for writing the files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos.definitions import NodeSpec, Topology
from chaos.targets import security, services
from chaos.targets.labs import watermarks
from chaos.targets.parts import Parts
from chaos.targets.services import Place
from chaos.targets.wiring import HTTP, TRANSPORT, Wiring

LOG4J2 = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%c{1.}] [%node_name]%marker %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""


def node_settings(
    topology: Topology,
    node: NodeSpec,
    wiring: Wiring,
    parts: Parts,
    data: Path,
    logs: Path,
    places: Sequence[Place] = (),
) -> dict[str, Any]:
    """The settings of one node, made of ``parts``; the topology's last so that it can override every one of ours.
    ``places``: of the lab's services.

    Binding *and* publishing a loopback address keeps OpenSearch's bootstrap checks from being enforced, so a lab
    starts on machines that allow few open files.
    """
    managers = [n for n in topology.nodes if n.is_cluster_manager]
    settings: dict[str, Any] = {
        "cluster.name": f"oschaos-{wiring.lab}",
        "node.name": node.name,
        "node.roles": list(node.roles),
        "node.attr.zone": node.zone,
        "network.host": wiring[node.name].loopback,
        "http.port": HTTP,
        "transport.port": TRANSPORT,
        "discovery.seed_hosts": [f"{wiring[n.name].loopback}:{TRANSPORT}" for n in managers],
        "path.data": str(data),
        "path.logs": str(logs),
    }
    if node.is_cluster_manager:
        settings["cluster.initial_cluster_manager_nodes"] = [n.name for n in managers]
    if topology.security:
        settings.update(security.settings(wiring.lab, expired=node.name in topology.expired))
    elif parts.security:
        settings.update(security.OFF)
    settings.update(watermarks.settings(topology))
    for place in places:
        kind = services.kind(topology.services[place.name])
        settings.update(kind.node_settings(place))
        if topology.remote_store is not None and topology.remote_store.service == place.name:
            of_state = {"state": topology.remote_store.state, "publication": topology.remote_store.publication}
            settings.update(services.repository_settings(place, kind, **of_state))
    settings.update(topology.settings.node)
    settings.update(node.settings)
    return settings


def text(settings: dict[str, Any]) -> str:
    """opensearch.yml (JSON is YAML)."""
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in settings.items())


def write(folder: Path, files: Mapping[str, str | bytes], uid: int) -> None:
    """A node's configuration folder, which it may write to itself: its keystore. Nobody else may read the files."""
    for name, content in {"log4j2.properties": LOG4J2, **files}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, uid, uid)
