"""The conformance suite: every kind of the catalogue, with each of its examples, alone on one real cluster.

Each shows its measured effect, on those links and no other, stands in the ledger while it holds, and is wholly gone
afterwards: data path, proxies, processes, control groups, mounts, settings and indices. ``make test`` runs one
example a family, ``make test-full`` all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clusterkit import ROOT, failed

from chaos.definitions import FAULTS, load_topology
from chaos.faults.catalogue.network import pairs_both, untouched
from chaos.faults.evidence import CONTROL_GROWTH_SECONDS
from chaos.faults.ledger import Ledger, standing
from chaos.faults.lifecycle import Lifecycle
from chaos.faults.moves import Move
from chaos.faults.probes import Echo, Line, Pair, together
from chaos.faults.select import ready
from chaos.history import EventWriter
from chaos.lab import cgroups, supply
from chaos.lab.local import LocalLab
from chaos.lab.processes import wait_until
from chaos.observe.cluster import await_green, elected
from chaos.observe.proof import problems
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
def labs(request: pytest.FixtureRequest) -> Iterator[Callable[[str], LocalLab]]:
    """A lab of a topology, with an index: the shared one, or one more that lasts until another topology is asked."""
    there: dict[str, LocalLab] = {}

    def get(name: str) -> LocalLab:
        if name in there:
            return there[name]
        if name == SHARED:
            lab = request.getfixturevalue("playground")
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


def changed(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """What is not as it was, flat: place → (before, now)."""
    flat_before, flat_now = _flat(before), _flat(now)
    keys = sorted(flat_before.keys() | flat_now.keys())
    return {k: (flat_before.get(k), flat_now.get(k)) for k in keys if flat_before.get(k) != flat_now.get(k)}


def _flat(value: Any, at: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {at: value}
    return {key: item for name, part in value.items() for key, item in _flat(part, f"{at} {name}").items()}


def measure(lab: LocalLab, pairs: list[Pair], timeout: float = 2.0) -> dict[Pair, Echo]:
    lines = [Line(lab, pair) for pair in pairs]
    try:
        return together(lines, timeout, pings=5)
    finally:
        for line in lines:
            line.close()


def disturbed(lab: LocalLab, pairs: list[Pair], base: dict[Pair, Echo], seconds: float = 10) -> list[str]:
    """Those that do not answer as before, each looked at until it does: noise only ever adds."""
    left = list(pairs)
    last: dict[Pair, Echo] = {}

    def calm() -> bool:
        nonlocal left
        last.update(measure(lab, left))
        left = [pair for pair in left if not as_before(base[pair], last[pair])]
        return not left

    wait_until(calm, seconds)
    return [f"{a} → {b}: {last[(a, b)]}, before {base[(a, b)]}" for a, b in left]


def as_before(base: Echo, now: Echo) -> bool:
    return now.seconds is not None and now.seconds - (base.seconds or 0.0) <= CONTROL_GROWTH_SECONDS


@pytest.mark.parametrize(("kind", "example"), cases())
def test_a_fault_has_its_effect_and_no_other_and_is_then_wholly_gone(labs, tmp_path, kind, example):
    offers = LocalLab.offers(load_topology(FAULTS[kind].example_topology, near=ROOT / "experiments" / "x.yaml"))
    if lacking := [offers[need] for need in FAULTS[kind].needs if offers[need]]:
        pytest.skip(f"{kind}: {'; '.join(lacking)}")
    lab = labs(FAULTS[kind].example_topology)
    everything = untouched(lab.wiring, [])
    before, base = footprint(lab), measure(lab, everything)
    assert all(echo.seconds is not None for echo in base.values()), base
    cycle = Lifecycle(lab, Ledger(tmp_path / "ledger.jsonl"), EventWriter(tmp_path / "events.jsonl"))
    fault = ready("f1", FAULTS[kind](**example), lab, seed=1, elected=elected(lab))

    try:
        assert cycle.inject(fault), failed(tmp_path, "effect") or failed(tmp_path, "before")
        held = standing(tmp_path / "ledger.jsonl")
        assert len(held) == len(fault.moves)
        if fault.links:  # exactly those links: its evidence has shown each of them, and every other one is as before
            others = untouched(lab.wiring, pairs_both(lab.wiring, frozenset(fault.links)))
            assert disturbed(lab, others, base) == []
        gone = cycle.undo("f1")
    finally:
        cycle.undo_all()

    assert gone, failed(tmp_path, "gone") or failed(tmp_path, "pulses")
    assert standing(tmp_path / "ledger.jsonl") == []
    # what recovery does: the inverses once more, from a lab that was found by its name alone
    found = LocalLab.attach(lab.id)
    for entry in held:
        if entry.inverse is not None:
            entry.inverse.apply(found)
    assert await_green(lab, 120)[0]
    assert problems(lab) == []
    assert changed(before, footprint(lab)) == {}
    assert disturbed(lab, everything, base) == []
