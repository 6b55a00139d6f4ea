"""From a topology to the provisioned parts that its lab runs on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from chaos.base.errors import InvalidInput, MissingPrerequisite
from chaos.definitions import Topology
from chaos.definitions.loading import located
from chaos.definitions.source import Loc
from chaos.provision.cds import ensure_archive
from chaos.provision.java import ensure_java, runs_on
from chaos.provision.jvm import differences, node_java_flags
from chaos.provision.mitmproxy import ensure_mitmproxy
from chaos.provision.opensearch import ensure_opensearch
from chaos.provision.toxiproxy import ensure_toxiproxy
from chaos.targets import security, services
from chaos.targets.parts import Parts


def parts(
    topology: Topology,
    says: Callable[[str], None] = lambda _: None,
    *,
    opensearch_home: Path | None = None,
) -> Parts:
    """Find or fetch everything. Raises ProvisionError, MissingPrerequisite or InvalidInput, each with a remedy."""
    security.refuse_lacking(topology)
    first, *others = (_parts(version, topology, says, opensearch_home) for version in topology.versions)
    return replace(first, others=tuple(others))


def _parts(version: str, topology: Topology, says: Callable[[str], None], opensearch_home: Path | None) -> Parts:
    progress = sys.stderr.isatty()
    java = ensure_java(*runs_on(version), progress=progress)
    asked = {each: ("security",) for each in (security.PLUGIN,) if topology.security} | _of_services(topology)
    plugins = tuple(asked)
    try:
        home = ensure_opensearch(
            version, given=opensearch_home, without=java.without, plugins=plugins, progress=progress
        )
    except InvalidInput as error:
        raise located(topology, list(asked.values())[-1], error) if plugins else error from None
    toxiproxy = ensure_toxiproxy(progress=progress)
    says(f"OpenSearch {home.version} {home.source}, Java {java.full_version}, Toxiproxy {toxiproxy.version}")
    layer = ensure_mitmproxy(progress=progress) if topology.http_hosts else None
    archive = ensure_archive(home, java) if topology.profile == "fast" else None
    return Parts(
        home=str(home.path),
        opensearch_version=home.version,
        opensearch_source=home.source,
        classpath=home.classpath,
        java=str(java.java),
        java_version=java.full_version,
        java_flags=tuple(node_java_flags(home, java, archive, topology.profile)),
        agent=str(home.java_agent) if home.java_agent else None,
        toxiproxy=str(toxiproxy.path),
        toxiproxy_version=toxiproxy.version,
        mitmproxy=str(layer) if layer is not None else None,
        notes=(home.distribution_note, *differences(java, topology.profile)),
        security=security.PLUGIN in home.plugins,
    )


def _of_services(topology: Topology) -> dict[str, Loc]:
    """The plugins that nodes need for the topology's services, with the service that wants them."""
    found: dict[str, Loc] = {}
    for name, service in topology.services.items():
        kind = services.kind(service)
        if (lacking := kind.lacking()) is not None:
            why, remedy = lacking
            raise MissingPrerequisite(f"service {name} of {topology.name} cannot be started: {why}", remedy=remedy)
        found |= {plugin: ("services", name) for plugin in kind.plugins}
    return found
