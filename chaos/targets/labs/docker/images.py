"""The images that a Docker lab runs: the official ones, or equivalent ones built here from the provisioned parts.

A closed network reaches no registry. So an image can be built from what this machine has, on no base at all: see
:mod:`chaos.targets.labs.docker.packing`.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.base.errors import InvalidInput, LabError, MissingPrerequisite
from chaos.definitions import Topology
from chaos.definitions.loading import located
from chaos.provision import lock
from chaos.provision.jvm import FAITHFUL, FAST
from chaos.provision.toxiproxy import VERSION as TOXIPROXY_VERSION
from chaos.provision.toxiproxy import ensure_toxiproxy
from chaos.targets.labs.docker import packing
from chaos.targets.labs.docker.engine import Engine
from chaos.targets.labs.docker.packing import HOME, UID
from chaos.targets.parts import Parts
from chaos.targets.security import PLUGIN, refuse_lacking

OPENSEARCH_VARIABLE, TOXIPROXY_VARIABLE = "OPENSEARCH_CHAOS_OPENSEARCH_IMAGE", "OPENSEARCH_CHAOS_TOXIPROXY_IMAGE"
BUILT, PLUGINS = "opensearch-chaos.built", "opensearch-chaos.plugins"
"""Labels of an image that was built here: its version of Java, and its plugins."""


@dataclass(frozen=True)
class Choice:
    """The image of one part: what the user named, else the official one, else the one built here."""

    variable: str
    official: str
    built: str

    @property
    def names(self) -> tuple[str, ...]:
        given = os.environ.get(self.variable)
        return (given,) if given else (self.official, self.built)


def opensearch(version: str) -> Choice:
    return Choice(
        OPENSEARCH_VARIABLE, f"opensearchproject/opensearch:{version}", f"opensearch-chaos/opensearch:{version}"
    )


def toxiproxy(version: str = TOXIPROXY_VERSION) -> Choice:
    return Choice(TOXIPROXY_VARIABLE, f"ghcr.io/shopify/toxiproxy:{version}", f"opensearch-chaos/toxiproxy:{version}")


def found(engine: Engine, choice: Choice, says: Callable[[str], None]) -> tuple[str, dict[str, str]]:
    """An image that the engine has, or pulls, and its labels. Raises MissingPrerequisite."""
    for name in choice.names:
        if (image := engine.image(name)) is not None:
            return name, dict(image["Config"].get("Labels") or {})
    says(f"pulling {choice.names[0]}")
    try:
        image = engine.pull(choice.names[0])
    except LabError as error:
        raise MissingPrerequisite(
            f"image {choice.names[0]} is not here and cannot be pulled: {error.message}",
            remedy="build an equivalent one with: opensearch-chaos docker-image",
        ) from error
    return choice.names[0], dict(image["Config"].get("Labels") or {})


def parts(topology: Topology, says: Callable[[str], None] = lambda _: None) -> Parts:
    """What a Docker lab of this topology is made of. Raises MissingPrerequisite without an engine or an image."""
    refuse_lacking(topology)
    engine = Engine.open()
    first, *others = (_parts(engine, version, topology, says) for version in topology.versions)
    return replace(first, others=tuple(others))


def _parts(engine: Engine, version: str, topology: Topology, says: Callable[[str], None]) -> Parts:
    node, labels = found(engine, opensearch(version), says)
    proxy, _ = found(engine, toxiproxy(), says)
    says(f"images {node} and {proxy}")
    built, plugins = labels.get(BUILT), labels.get(PLUGINS) or ""
    security = PLUGIN in plugins
    if topology.security and built is not None and not security:
        raise located(
            topology, ("security",), InvalidInput(f"image {node} has no plugin {PLUGIN}", remedy=_remedy(version))
        )
    notes = ["zones are containers on one engine"]
    if built is not None:
        notes.append(f"the image was built here from the published jars: {plugins or 'no plugins (so no security)'}")
    if not topology.security and (built is None or security):
        notes.append("the security plugin of the image is switched off")
    if topology.profile == "fast":
        notes.append("C1 compiler only, serial garbage collector (profile fast)")
    return Parts(
        home=node,
        opensearch_version=version,
        opensearch_source=f"image {node}",
        classpath="",
        java="",
        java_version=built or "of the image",
        java_flags=tuple(FAST if topology.profile == "fast" else FAITHFUL),
        agent=None,
        toxiproxy=proxy,
        toxiproxy_version=TOXIPROXY_VERSION,
        notes=tuple(notes),
        security=security,
    )


def _remedy(version: str) -> str:
    if version in lock.versions() and PLUGIN in lock.read(version).plugins:
        return f"build it anew with: opensearch-chaos docker-image --opensearch {version}"
    return f"name one that has it with {OPENSEARCH_VARIABLE}"


# ---- building -------------------------------------------------------------------------------------------


def build(version: str, says: Callable[[str], None]) -> list[str]:
    """Build both images from this machine's parts, without a registry; their names."""
    engine = Engine.open()
    proxy = ensure_toxiproxy()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "opensearch.tar"
        packed = packing.opensearch(file, version, lock.read(version).plugins, says)
        node = opensearch(packed.home.version).built
        _import(
            engine,
            file,
            node,
            entry=packed.command,
            user=str(UID),
            work=HOME,
            labels={BUILT: packed.java.full_version, PLUGINS: ",".join(packed.home.plugins)},
        )
        says(f"packing Toxiproxy {proxy.version}")
        file = Path(folder) / "toxiproxy.tar"
        packing.program(file, proxy.path, "toxiproxy")
        other = toxiproxy(proxy.version).built
        _import(engine, file, other, entry=["/toxiproxy"], user=str(UID), work="/", labels={BUILT: "none"})
    return [node, other]


def _import(
    engine: Engine, file: Path, name: str, *, entry: list[str], user: str, work: str, labels: dict[str, str]
) -> None:
    repository, _, tag = name.rpartition(":")
    changes = [
        f"ENTRYPOINT {json.dumps(entry)}",
        f"USER {user}",
        f"WORKDIR {work}",
        *(f'LABEL "{key}"="{value}"' for key, value in labels.items()),
    ]
    engine.load(file, repository, tag, changes)
