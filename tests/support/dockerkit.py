"""What the tests of docker labs share."""

from __future__ import annotations

from collections.abc import Iterable

from chaos.targets.labs.docker import images
from chaos.targets.labs.docker.engine import Engine


def build_missing(engine: Engine, versions: Iterable[str]) -> None:
    """Images without a registry, those that are not there yet."""
    for version in versions:
        if any(engine.image(choice.built) is None for choice in (images.opensearch(version), images.toxiproxy())):
            images.build(version, print)
