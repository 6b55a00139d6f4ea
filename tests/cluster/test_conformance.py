"""The conformance suite: every kind of the catalogue, with each of its examples, alone on one real cluster.

Each shows its measured effect, on those links and no other, stands in the ledger while it holds, is known to be gone
when a third hand took it back, and is wholly gone afterwards: data path, proxies, processes, control groups, mounts,
settings and indices. ``make test`` runs one example a family, ``make test-full`` all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clusterkit import ROOT
from conformance import conforms

from chaos.definitions import FAULTS, load_topology
from chaos.faults.moves import Move
from chaos.lab import cgroups, supply
from chaos.lab.local import LocalLab
from chaos.observe.cluster import await_green
from chaos.run import new_lab_id

INDEX = "chaos"
"""As the load's index is called, so that kinds that act on data find some."""
LIMITS = re.compile(
    r"cpu\.(shares|cfs_quota_us|cfs_period_us|weight|max)|cpuset\.cpus|freezer\.state|cgroup\.freeze"
    r"|memory\.(limit_in_bytes|memsw\.limit_in_bytes|high|max|swap\.max)"
    r"|blkio\.throttle\.(read|write)_(bps|iops)_device|io\.max"
)
"""The files of a control group that a fault may write; the others count and never stand still."""


SHARED = "3az-standby"
"""The topology of the lab that most cluster tests share."""


def cases() -> list[Any]:
    """Every example, those of one topology together; all but one of each family only in make test-full.

    That one is the family's first on the shared lab, where it has one: every other topology costs a lab's start.
    """
    every = [(kind, number) for kind, fault in FAULTS.items() for number in range(len(fault.examples))]

    def place(case: tuple[str, int]) -> tuple[bool, str]:
        return FAULTS[case[0]].example_topology != SHARED, FAULTS[case[0]].example_topology

    every.sort(key=place)
    short: dict[str, tuple[str, int]] = {}
    for case in every:
        short.setdefault(FAULTS[case[0]].family, case)
    return [
        pytest.param(
            kind,
            FAULTS[kind].examples[number],
            id=f"{kind}-{number}",
            marks=[] if (kind, number) in short.values() else [pytest.mark.full],
        )
        for kind, number in every
    ]


@pytest.fixture(scope="module")
def labs(playground: LocalLab) -> Iterator[Callable[[str], LocalLab]]:
    """A lab of a topology, with an index: the shared one, or one more that lasts until another topology is asked."""
    there: dict[str, LocalLab] = {}

    def get(name: str) -> LocalLab:
        if name in there:
            return there[name]
        if name == SHARED:
            lab = playground
        else:
            close()
            topology = load_topology(name, near=ROOT / "experiments" / "x.yaml")
            lab = LocalLab.create(topology, supply.parts(topology), id=new_lab_id())
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


def footprint(lab: LocalLab) -> dict[str, Any]:
    """What faults may change beside processes and links: limits, mounts, settings and indices."""
    limits = {}
    for hierarchy in cgroups.hierarchies().values():
        for file in (hierarchy.root / f"oschaos-{lab.id}").rglob("*"):
            if LIMITS.fullmatch(file.name):
                limits[str(file)] = file.read_text()
        for file in hierarchy.root.glob("blkio.throttle.*_device"):  # a throttle of the root slows writing back
            ours = [line for line in file.read_text().splitlines() if line.split()[0] in devices(lab)]
            limits[str(file)] = "\n".join(ours)
    mounts = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if f"/{lab.id}/" in f"{fields[4]}/" or f"oschaos-{lab.id}" in line:
            mounts.append((fields[4], fields[5], fields[-1]))
    client = lab.client(lab.topology.nodes[0].name, timeout=30)
    asked = {}
    for what in ("/_cluster/settings?flat_settings=true", "/_all/_settings?flat_settings=true"):
        status, asked[what] = client.request("GET", what)
        assert status == 200, asked
    return {"limits": limits, "mounts": sorted(mounts), **asked}


def devices(lab: LocalLab) -> set[str]:
    """major:minor of every loop device whose file is in the lab's folder."""
    files = Path("/sys/block").glob("loop*/loop/backing_file")
    return {(f.parents[1] / "dev").read_text().strip() for f in files if f"/{lab.id}/" in f.read_text()}


@pytest.mark.parametrize(("kind", "example"), cases())
def test_a_fault_has_its_effect_and_no_other_and_is_then_wholly_gone(labs, tmp_path, kind, example):
    offers = LocalLab.offers(load_topology(FAULTS[kind].example_topology, near=ROOT / "experiments" / "x.yaml"))
    if lacking := [offers[need] for need in FAULTS[kind].needs if offers[need]]:
        pytest.skip(f"{kind}: {'; '.join(lacking)}")
    conforms(labs(FAULTS[kind].example_topology), tmp_path, kind, example, footprint)
