"""Fixtures of targets whose nodes are pods: an API server and a cluster on loopback, and the file that is drafted."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from apiserver import Server, serving
from podcluster import Cluster, answering

from chaos.base import paths
from chaos.commands.on_kubernetes import Where
from chaos.kubernetes import forwarding


@pytest.fixture
def there() -> Iterator[Server]:
    with serving() as server:
        server.uids["search"] = str(uuid.uuid4())  # others run these tests at the same time
        yield server


@pytest.fixture
def cluster(there: Server) -> Iterator[Cluster]:
    with answering(Cluster(there)) as made:
        yield made


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder of its own; the ways into pods that were opened end with the test."""
    monkeypatch.setenv(paths.STATE_VARIABLE, str(tmp_path / "state"))
    monkeypatch.setattr(forwarding, "_held", {})
    yield tmp_path
    for held in forwarding._held.values():
        held.close()


@pytest.fixture
def where(there: Server, state: Path) -> Where:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
    return Where(kubeconfig=there.kubeconfig(state), namespace="search", port=port)
