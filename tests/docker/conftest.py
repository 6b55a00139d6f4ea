"""A Docker engine and images that need no registry, for the tests of docker labs; skipped where there is no engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusterkit import ROOT, kept_lab_id, tidy
from dockerkit import build_missing

from chaos.base.errors import MissingPrerequisite
from chaos.definitions import load_topology
from chaos.targets.labs.docker import images
from chaos.targets.labs.docker.engine import Engine
from chaos.targets.labs.docker.lab import DockerLab


def _shares(item: pytest.Item) -> bool:
    """Whether a test uses the lab that is started once."""
    return not {"docked", "labs"}.isdisjoint(getattr(item, "fixturenames", ()))


def pytest_collection_modifyitems(items):
    mine = [item for item in items if Path(__file__).parent in item.path.parents]
    if not mine:
        return
    # runs with a lab of their own first: beside the lab that others share they had nine JVMs on two processors
    places = [place for place, item in enumerate(items) if item in mine]
    for place, item in zip(places, sorted(mine, key=_shares), strict=True):
        items[place] = item
    for item in mine:
        item.add_marker(pytest.mark.docker)
    try:
        Engine.open()
    except MissingPrerequisite:
        for item in mine:
            item.add_marker(pytest.mark.skip(reason="no Docker engine answers: make test-docker starts one"))


@pytest.fixture(scope="session", autouse=True)
def engine() -> Engine:
    tidy()
    engine = Engine.open()
    build_missing(engine, ["3.8.0"])
    return engine


@pytest.fixture(scope="session")
def docked(engine: Engine) -> Iterator[DockerLab]:
    """The three-zone cluster with a standby zone, of containers; started once."""
    topology = load_topology("3az-standby", near=ROOT / "experiments" / "x.yaml")
    lab = DockerLab.create(topology, images.parts(topology), id=kept_lab_id())
    try:
        lab.up()
        yield lab
    finally:
        assert lab.down() == []
        assert engine.owned(lab.id) == []
