"""Each fault that a docker lab can have, with each of its examples, has the same measured effect as in a local lab."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conformance import INDEX, cases, conforms_or_skips, labs_of
from dockerkit import build_missing

from chaos.definitions import Topology
from chaos.run.options import new_lab_id
from chaos.targets.labs.docker import images
from chaos.targets.labs.docker.engine import Engine
from chaos.targets.labs.docker.lab import DockerLab

SHORT = (
    ("network.latency", 0),
    ("network.drop", 0),
    ("network.refuse", 0),
    ("node.kill", 0),
    ("node.pause", 0),
    ("zone.isolation", 0),
)
"""What CI runs; one for each way in which this lab differs from the local one."""


@pytest.fixture(scope="module")
def labs(request: pytest.FixtureRequest, engine: Engine) -> Iterator[Callable[[str], DockerLab]]:
    def make(topology: Topology) -> DockerLab:
        build_missing(engine, topology.versions)
        return DockerLab.create(topology, images.parts(topology), id=new_lab_id())

    with labs_of(lambda: request.getfixturevalue("docked"), make, INDEX) as get:
        yield get


def footprint(lab: DockerLab) -> dict[str, Any]:
    """What faults may change: containers' limits and states, settings and indices."""
    found: dict[str, Any] = {}
    for each in lab.engine.owned(lab.id):
        kind, _, name = each.what.partition(" ")
        if kind == "container":
            container = lab.engine.there(name)
            host = container.attrs["HostConfig"]
            limits = {key: host[key] for key in ("Memory", "MemorySwap", "NanoCpus", "Privileged")}
            limits["CpuQuota"] = max(0, host["CpuQuota"])  # -1 and 0 both mean none
            found[name] = limits | {"status": container.status}
        else:
            found[name] = kind
    if lab.lacks("memory") is None:
        found["memory"] = {node.name: lab.limits(node.name, "memory") for node in lab.topology.nodes}
    client = lab.client(lab.topology.nodes[0].name, timeout=30)
    for what in ("/_cluster/settings?flat_settings=true", "/_all/_settings?flat_settings=true"):
        status, found[what] = client.request("GET", what)
        assert status == 200, found
    return found


@pytest.mark.parametrize(("kind", "example"), cases(SHORT))
def test_a_fault_has_its_effect_and_no_other_and_is_then_wholly_gone(labs, tmp_path, kind, example):
    conforms_or_skips(labs, DockerLab, tmp_path, kind, example, footprint)
