"""The conformance suite: every kind of the catalogue, with each of its examples, alone on one real cluster.

Each shows its measured effect, on those links and no other, stands in the ledger while it holds, is known to be gone
when a third hand took it back, and is wholly gone afterwards: data path, proxies, processes, control groups, mounts,
settings and indices. ``make test`` runs one example a family, ``make test-full`` all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from conformance import INDEX, Case, cases, conforms_or_skips, every_case, footprint, labs_of

from chaos.registry import FAULTS
from chaos.run.options import new_lab_id
from chaos.targets.labs import provisioning
from chaos.targets.labs.local import LocalLab

ELSEWHERE = {"disk", "query", "http", "store"}
"""Families of which ``make test`` tries a fault in another file (test_disk_faults), or none: searches that run away
slow all that shares the lab, and HTTP faults need labs of their own, so ``make test-full`` alone tries them."""

DEAR = {"cluster_manager.task_storm"}
"""Takes twice as long as any other of its family: the manager has to work off what it was sent."""


def short() -> set[Case]:
    """The first of each family that is not dear, on the shared lab where it has one there; not of :data:`ELSEWHERE`."""
    found: dict[str, Case] = {}
    for case in [each for each in every_case() if each[0] not in DEAR]:
        found.setdefault(FAULTS[case[0]].family, case)
    return {case for family, case in found.items() if family not in ELSEWHERE}


@pytest.fixture(scope="module")
def labs(playground: LocalLab) -> Iterator[Callable[[str], LocalLab]]:
    with labs_of(
        lambda: playground, lambda t: LocalLab.create(t, provisioning.parts(t), id=new_lab_id()), INDEX
    ) as get:
        yield get


@pytest.mark.parametrize(("kind", "example"), cases(short()))
def test_a_fault_has_its_effect_and_no_other_and_is_then_wholly_gone(labs, tmp_path, kind, example):
    conforms_or_skips(labs, LocalLab, tmp_path, kind, example, footprint)
