"""What a lab has beside its nodes: a file for each kind of service, found by the kind's name in a topology.

A service says what a lab has to do for it: which plugins nodes need, which settings and secrets they get, and, where it
is reached over the network, how its process is started in its host. Its process answers ``GET /_ping`` itself, by which
links to it are proven, and is not asked anything else by this suite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from chaos.definitions.topology import Service


@dataclass(frozen=True)
class Place:
    """Where a service of a lab is, as nodes see it."""

    name: str
    """In the topology."""
    address: str
    """Host and port; empty where no network leads to it."""
    folder: Path
    """Of its own in the lab's folder; nodes may write to it."""


class Kind(Protocol):
    """What each file of this folder has as ``KIND``."""

    says: str
    """What it is, for people: how it differs from what others have."""
    plugins: tuple[str, ...]
    """Of OpenSearch, which nodes need."""

    def lacking(self) -> tuple[str, str] | None:
        """Why there can be none on this machine, and the remedy; None where there can."""

    def repository(self, place: Place, under: str = "") -> dict[str, Any]:
        """What makes a repository of it: ``type`` and settings. ``under``: a path of its own in it."""

    def node_settings(self, place: Place) -> dict[str, Any]:
        """What each node needs, to use it as a repository."""

    def secrets(self) -> dict[str, str]:
        """Entries of the nodes' keystores, drawn anew."""

    def command(self, place: Place) -> Sequence[str]:
        """Starts its process, which listens at its host's own address; empty where it has none."""


def kind(service: Service) -> Kind:
    return cast(Kind, import_module(f"{__name__}.{service.kind.replace('-', '_')}").KIND)


def repository(place: Place, of: Kind, under: str) -> dict[str, Any]:
    """What ``PUT _snapshot/NAME`` takes, to make a repository under a path of its own in a service."""
    settings = of.repository(place, under)
    return {"type": settings.pop("type"), "settings": settings}


def repository_settings(place: Place, of: Kind, *, state: bool, publication: bool = False) -> dict[str, Any]:
    """The settings of a node whose segments and translogs are in this service: the repository has its name.

    ``state``: the cluster's state too; ``publication``: nodes fetch each new one from there.
    """
    store = "node.attr.remote_store"
    made = of.repository(place)
    found: dict[str, Any] = {f"{store}.{part}.repository": place.name for part in ("segment", "translog", "state")}
    found[f"{store}.repository.{place.name}.type"] = made.pop("type")
    found |= {f"{store}.repository.{place.name}.settings.{key}": value for key, value in made.items()}
    if publication:
        found[f"{store}.routing_table.repository"] = place.name
        found["cluster.remote_store.publication.enabled"] = True
    return found | ({"cluster.remote_store.state.enabled": True} if state else {})
