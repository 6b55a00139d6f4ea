"""Labs of containers of a Docker engine."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.base import paths
from chaos.base.errors import InvalidInput, MissingPrerequisite
from chaos.base.extras import DOCKER
from chaos.definitions import Topology
from chaos.targets.kind import TargetKind
from chaos.targets.parts import Parts
from chaos.targets.protocol import NO_OWNERS

if TYPE_CHECKING:
    from chaos.targets.labs.base import BaseLab


def has_package() -> bool:
    """Whether the Python package that speaks to a Docker engine is installed; it is an extra."""
    return not DOCKER.missing()


def need_package() -> None:
    """Raises MissingPrerequisite where it is not."""
    if not has_package():
        raise MissingPrerequisite("Docker labs need the Python package docker", remedy=DOCKER.install)


def likely() -> bool:
    """Whether it is worth asking for a Docker engine: to load its library takes a third of a second."""
    return has_package() and (bool(os.environ.get("DOCKER_HOST")) or Path("/var/run/docker.sock").exists())


def is_docker(id: str) -> bool:
    """Whether a lab was written down as one of containers."""
    try:
        return bool(json.loads((paths.labs() / id / "lab.json").read_text())["kind"] == "docker")
    except (OSError, ValueError, KeyError, TypeError):
        return False


class Docker(TargetKind):
    """Containers; needs a Docker engine. A lab's data is its engine's."""

    name = "docker"
    says = "containers of a Docker engine"
    keeps_data = False
    never = frozenset((*NO_OWNERS, "closes", "http"))  # its relay ends connections itself

    def lab(self) -> type[BaseLab]:
        need_package()
        from chaos.targets.labs.docker.lab import DockerLab

        return DockerLab

    def require(self) -> None:
        need_package()
        from chaos.targets.labs.docker.engine import Engine

        Engine.open()

    def refuse_home(self, home: Path | None) -> None:
        """What the environment names does not concern it; nobody asked for it there."""
        if home is not None:
            raise InvalidInput("a docker lab runs images: --opensearch-home is for local labs")

    def parts(self, topology: Topology, says: Callable[[str], None], *, opensearch_home: Path | None) -> Parts:
        need_package()
        from chaos.targets.labs.docker import images

        return images.parts(topology, says)

    def data_folder(self) -> Path | None:
        """Where an engine on this machine keeps volumes."""
        if not likely() or not os.environ.get("DOCKER_HOST", "unix:").startswith("unix:"):
            return None
        from chaos.targets.labs.docker.engine import Engine

        engine = Engine.if_any()
        folder = engine.folder() if engine is not None else None
        return folder if folder is not None and folder.is_dir() else None

    def known(self) -> set[str]:
        """Of which the Docker engine, where there is one, has anything; not those of other users and machines."""
        if not likely():
            return set()
        from chaos.targets.labs.docker.engine import Engine

        engine = Engine.if_any()
        return {each.lab for each in engine.ours()} if engine is not None else set()

    def of_other_machines(self) -> set[str]:
        """Of which another machine that shares the engine has made something."""
        if not likely():
            return set()
        from chaos.targets.labs.docker.engine import Engine

        engine = Engine.if_any()
        every = engine.owned() if engine is not None else []
        return {each.lab for each in every if not paths.is_this_machine(each.machine)}

    def held(self, id: str) -> list[str]:
        """Containers, networks and volumes."""
        if not likely():
            return []
        from chaos.targets.labs.docker.engine import Engine

        engine = Engine.if_any()
        return [each.what for each in engine.ours(id)] if engine is not None else []

    def remove(self, id: str) -> list[str]:
        """What the Docker engine has of a lab; a lab of this kind cannot go while no engine answers."""
        if not has_package() and is_docker(id):
            return [f"lab {id} is made of containers: {DOCKER.install} and run recover again"]
        if not likely() and not is_docker(id):
            return []
        from chaos.targets.labs.docker.engine import Engine

        engine = Engine.if_any()
        if engine is not None:
            if (paths.labs() / id / "logs").is_dir():
                engine.keep_logs(id, paths.labs() / id / "logs")
            return engine.remove(id)
        if not is_docker(id):
            return []
        return [f"lab {id} is made of containers, and no Docker engine answers: start it and run recover again"]


TARGET = Docker()
