"""The kinds of labs, by name: what makes a lab of a kind, and what finds one whatever its kind."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from chaos.base.errors import InvalidInput, MissingPrerequisite
from chaos.definitions import Topology
from chaos.target.labs import base, traces
from chaos.target.labs.base import BaseLab
from chaos.target.parts import Parts

KINDS = ("local", "docker")
DEFAULT = "local"


def of_kind(kind: str) -> type[BaseLab]:
    """The class of a kind of labs. Raises InvalidInput when there is none of that name."""
    if kind == "local":
        from chaos.target.labs.local import LocalLab

        return LocalLab
    if kind == "docker":
        need_docker()
        from chaos.target.labs.docker.lab import DockerLab

        return DockerLab
    raise InvalidInput(f"'{kind}' is no kind of lab", remedy=f"choose one of: {', '.join(KINDS)}")


def need_docker() -> None:
    """Raises MissingPrerequisite where the Python package that speaks to a Docker engine is not installed."""
    if not traces.has_docker_package():
        raise MissingPrerequisite(
            "Docker labs need the Python package docker", remedy="pip install 'opensearch-chaos[docker]'"
        )


def attach(id: str) -> BaseLab:
    """A lab that another process made. Raises InvalidInput when there is none, or none that can be read."""
    manifest, _ = base.read(id)
    return of_kind(manifest.kind).attach(id)


def parts(
    kind: str, topology: Topology, says: Callable[[str], None] = lambda _: None, *, opensearch_home: Path | None = None
) -> Parts:
    """Find or fetch what a lab is made of. Raises ProvisionError, MissingPrerequisite or InvalidInput."""
    refuse_home(kind, opensearch_home)
    if kind == "docker":
        need_docker()
        from chaos.target.labs.docker import images

        return images.parts(topology, says)
    from chaos.target.labs import supply

    return supply.parts(topology, says, opensearch_home=opensearch_home)


def refuse_home(kind: str, home: Path | None) -> None:
    """Raises InvalidInput for an OpenSearch, or a Java, that a lab of this kind cannot use; before any is fetched.

    ``home`` is the option's. What the environment names does not concern Docker labs; nobody asked for it there.
    """
    from chaos.provision import java, opensearch
    from chaos.provision.given import refuse_unusable

    if home is not None and kind == "docker":
        raise InvalidInput("a docker lab runs images: --opensearch-home is for local labs")
    if home is not None:
        refuse_unusable(home, "--opensearch-home")
    elif kind == "local" and (value := os.environ.get(opensearch.VARIABLE)):
        refuse_unusable(Path(value), opensearch.VARIABLE)
    if kind == "local" and (value := os.environ.get(java.VARIABLE)) and not (Path(value) / "bin" / "java").is_file():
        raise InvalidInput(
            f"{java.VARIABLE}={value} is no usable Java: it has no bin/java", remedy="name a JDK's home, or unset it"
        )


def require(kind: str) -> None:
    """Raises MissingPrerequisite when this user cannot make labs of a kind here; asked before anything is started."""
    if kind == "docker":
        need_docker()
        from chaos.target.labs.docker.engine import Engine

        Engine.open()
        return
    from chaos.target.labs import network

    network.require_root()
