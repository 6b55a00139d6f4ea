"""Real clusters for the integration tests: one that most tests share, and the command line as users call it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusterkit import DATA, ROOT, cli, kept_lab_id, nothing_left, tidy

from chaos.definitions import load_topology
from chaos.lab import network, supply, traces
from chaos.lab.local import LocalLab
from chaos.run import new_lab_id


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.cluster)
            if os.geteuid() != 0:
                item.add_marker(pytest.mark.skip(reason="needs root: network namespaces"))


@pytest.fixture(scope="session", autouse=True)
def machine() -> None:
    """Runs refuse to start over what a killed run of these tests left here; that is no fault of theirs."""
    if os.geteuid() == 0:
        tidy()


@pytest.fixture(scope="session")
def playground() -> Iterator[LocalLab]:
    """The three-zone cluster with a standby zone that most tests share."""
    topology = load_topology("3az-standby", near=ROOT / "experiments" / "x.yaml")
    lab = LocalLab.create(topology, supply.parts(topology), id=new_lab_id())
    try:
        lab.up()
        yield lab
    finally:
        assert lab.down() == []


@pytest.fixture(scope="module")
def tiny() -> Iterator[LocalLab]:
    """A small lab of ``lab up``, which is to live on whatever happens to runs on it."""
    name = kept_lab_id()
    code, output = cli("lab", "up", DATA / "tiny.yaml", "--name", name)
    assert code == 0, output
    yield LocalLab.attach(name)
    code, output = cli("lab", "down", name)
    assert code == 0, output
    assert traces.of(name) == []


@pytest.fixture
def out(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "reports"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def spotless() -> Iterator[None]:
    """Nothing was left before the test, and nothing is after it."""
    assert nothing_left() == []
    before = set(network.namespaces())
    yield
    assert nothing_left() == []
    assert set(network.namespaces()) <= before
