"""Each fault that a docker lab can have, with each of its examples, has the same measured effect as in a local lab."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from clusterkit import ROOT
from conformance import conforms
from dockerkit import build_missing

from chaos.definitions import FAULTS, load_topology
from chaos.faults.moves import Move
from chaos.lab.docker import images
from chaos.lab.docker.engine import Engine
from chaos.lab.docker.lab import DockerLab
from chaos.observe.cluster import await_green
from chaos.run import new_lab_id

INDEX = "chaos"
SHARED = "3az-standby"
SHORT = (
    ("network.latency", 0),
    ("network.drop", 0),
    ("network.refuse", 0),
    ("node.kill", 0),
    ("node.pause", 0),
    ("zone.isolation", 0),
)
"""What CI runs; one for each way in which this lab differs from the local one."""


def cases() -> list[Any]:
    every = [(kind, number) for kind, fault in FAULTS.items() for number in range(len(fault.examples))]
    # those of one topology together: every other one costs a lab's start
    every.sort(key=lambda case: (FAULTS[case[0]].example_topology != SHARED, FAULTS[case[0]].example_topology))
    return [
        pytest.param(
            kind,
            FAULTS[kind].examples[number],
            id=f"{kind}-{number}",
            marks=[] if (kind, number) in SHORT else [pytest.mark.full],
        )
        for kind, number in every
    ]


@pytest.fixture(scope="module")
def labs(request: pytest.FixtureRequest, engine: Engine) -> Iterator[Callable[[str], DockerLab]]:
    """A lab of a topology, with an index: the shared one, or one more that lasts until another topology is asked."""
    there: dict[str, DockerLab] = {}

    def get(name: str) -> DockerLab:
        if name in there:
            return there[name]
        if name == SHARED:
            lab = request.getfixturevalue("docked")
        else:
            close()
            topology = load_topology(name, near=ROOT / "experiments" / "x.yaml")
            build_missing(engine, topology.versions)
            lab = DockerLab.create(topology, images.parts(topology), id=new_lab_id())
            there[name] = lab
            lab.up()
        there[name] = lab
        Move("index.create", {"index": INDEX, "settings": dict(lab.topology.settings.index)}).apply(lab)
        assert await_green(lab, 60)[0]
        return lab

    def close() -> None:
        for name in [name for name in there if name != SHARED]:
            assert there.pop(name).down() == []

    try:
        yield get
    finally:
        close()
        if SHARED in there:
            Move("index.delete", {"index": INDEX}).apply(there[SHARED])


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


@pytest.mark.parametrize(("kind", "example"), cases())
def test_a_fault_has_its_effect_and_no_other_and_is_then_wholly_gone(labs, tmp_path, kind, example):
    wanted = FAULTS[kind].example_topology
    offers = DockerLab.offers(load_topology(wanted, near=ROOT / "experiments" / "x.yaml"))
    if lacking := [reason for need in FAULTS[kind].needs if (reason := offers[need])]:
        pytest.skip("; ".join(lacking))
    conforms(labs(wanted), tmp_path, kind, example, footprint)
