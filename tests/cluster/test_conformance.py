"""The conformance suite: every kind of the catalogue, with each of its examples, alone on one real cluster.

Each shows its measured effect, on those links and no other, stands in the ledger while it holds, is known to be gone
when a third hand took it back, and is wholly gone afterwards: data path, proxies, processes, control groups, mounts,
settings and indices. ``make test`` runs one example a family, ``make test-full`` all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from clusterkit import ROOT
from conformance import INDEX, conforms, footprint

from chaos.definitions import FAULTS, load_topology
from chaos.faults.moves import Move
from chaos.lab import supply
from chaos.lab.local import LocalLab
from chaos.observe.cluster import await_green
from chaos.run import new_lab_id

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


@pytest.mark.parametrize(("kind", "example"), cases())
def test_a_fault_has_its_effect_and_no_other_and_is_then_wholly_gone(labs, tmp_path, kind, example):
    offers = LocalLab.offers(load_topology(FAULTS[kind].example_topology, near=ROOT / "experiments" / "x.yaml"))
    if lacking := [offers[need] for need in FAULTS[kind].needs if offers[need]]:
        pytest.skip(f"{kind}: {'; '.join(lacking)}")
    conforms(labs(FAULTS[kind].example_topology), tmp_path, kind, example, footprint)
