"""What it takes for a fault to conform, whatever the lab is made of: its effect, no other, and then nothing of it.

And it is known to hold: looked at again while it holds it is proven, and after a third hand took it back it is not.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
import urllib3
from clusterkit import ROOT, failed, look, told

from chaos.definitions import Topology, load_topology
from chaos.faults.evidence import CONTROL_GROWTH_SECONDS
from chaos.faults.fault import Fault
from chaos.faults.kinds.network import pairs_both, untouched
from chaos.faults.ledger import Ledger, standing
from chaos.faults.lifecycle import Lifecycle
from chaos.faults.moves import Move
from chaos.faults.probes import Echo, Line, Pair, together
from chaos.history import EventWriter
from chaos.observe.proof import problems
from chaos.opensearch.views import await_green, elected
from chaos.registry import FAULTS, PROVIDERS, ready
from chaos.targets.labs import cgroups, kinds
from chaos.targets.labs.base import BaseLab
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

SHARED = "3az-standby"
"""The topology of the lab that most cluster tests share."""
INDEX = "chaos"
"""As the load's index is called, so that kinds that act on data find some."""
LIMITS = re.compile(
    r"cpu\.(shares|cfs_quota_us|cfs_period_us|weight|max)|cpuset\.cpus|freezer\.state|cgroup\.freeze"
    r"|memory\.(limit_in_bytes|memsw\.limit_in_bytes|high|max|swap\.max)"
    r"|blkio\.throttle\.(read|write)_(bps|iops)_device|io\.max"
)
"""The files of a control group that a fault may write; the others count and never stand still."""


Case = tuple[str, int]
"""A kind and the number of one of its examples."""


def every_case() -> list[Case]:
    """Every example, those of one topology together, the shared lab's first: every other one costs a lab's start."""
    every = [(kind, number) for kind, fault in FAULTS.items() for number in range(len(fault.examples))]
    every.sort(key=lambda case: (FAULTS[case[0]].example_topology != SHARED, FAULTS[case[0]].example_topology))
    return every


def cases(short: Container[Case]) -> list[Any]:
    """Every example as parameters of a test; all but ``short`` only in make test-full."""
    return [
        pytest.param(
            kind,
            FAULTS[kind].examples[number],
            id=f"{kind}-{number}",
            marks=[] if (kind, number) in short else [pytest.mark.full],
        )
        for kind, number in every_case()
    ]


def topology(name: str) -> Topology:
    """One that ships, or of a path."""
    return load_topology(name, near=ROOT / "experiments" / "x.yaml")


@contextmanager
def labs_of(
    shared: Callable[[], BaseLab], make: Callable[[Topology], BaseLab], index: str | None = None
) -> Iterator[Callable[[str], Any]]:
    """Gives the lab of a topology: the shared one, or one more that lasts until another topology is asked for.

    ``make`` makes one that is not up yet. ``index``: each lab gets it.
    """
    there: dict[str, BaseLab] = {}

    def close() -> None:
        for name in [name for name in there if name != SHARED]:
            assert there.pop(name).down() == []

    def get(name: str) -> BaseLab:
        if name in there:
            return there[name]
        if name == SHARED:
            there[name] = shared()
        else:
            close()
            there[name] = make(topology(name))
            there[name].up()
        if index is not None:
            settings = dict(there[name].topology.settings.index)
            Move("index.create", {"index": index, "settings": settings}).apply(there[name])
            assert await_green(there[name], 60)[0]
        return there[name]

    try:
        yield get
    finally:
        close()
        if index is not None and SHARED in there:
            Move("index.delete", {"index": index}).apply(there[SHARED])


def conforms_or_skips(
    get: Callable[[str], Any], lab: type[BaseLab], out: Path, kind: str, example: dict[str, Any], seen: Any
) -> None:
    """:func:`conforms` on the lab of the kind's topology; skipped where labs of that class cannot have it."""
    wanted = FAULTS[kind].example_topology
    if reasons := PROVIDERS.on(kinds.lacks(lab.kind, topology(wanted))).reasons(kind):
        pytest.skip(f"{kind}: {'; '.join(reasons)}")
    conforms(get(wanted), out, kind, example, seen)


def changed(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """What is not as it was, flat: place → (before, now)."""
    flat_before, flat_now = _flat(before), _flat(now)
    keys = sorted(flat_before.keys() | flat_now.keys())
    return {k: (flat_before.get(k), flat_now.get(k)) for k in keys if flat_before.get(k) != flat_now.get(k)}


def _flat(value: Any, at: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {at: value}
    return {key: item for name, part in value.items() for key, item in _flat(part, f"{at} {name}").items()}


def measure(lab: BaseLab, pairs: list[Pair], timeout: float = 2.0) -> dict[Pair, Echo]:
    lines = [Line(lab, pair) for pair in pairs]
    try:
        return together(lines, timeout, pings=5)
    finally:
        for line in lines:
            line.close()


def disturbed(lab: BaseLab, pairs: list[Pair], base: dict[Pair, Echo], seconds: float = 10) -> list[str]:
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


RECORD = "OPENSEARCH_CHAOS_EFFECTS"
"""A file to which every effect that was measured is added: tests/support/effects.py makes a table of it."""


def _record(lab: BaseLab, kind: str, example: dict[str, Any], folder: Path) -> None:
    if name := os.environ.get(RECORD):
        look = [each for each in told(folder, "fault.evidence") if each["stage"] == "effect" and each["proven"]][-1]
        line = {"lab": lab.kind, "kind": kind, "example": example, "says": look["says"], "probes": look["probes"]}
        with open(name, "a") as file:
            file.write(json.dumps(line) + "\n")


def holds_until_a_third_hand(cycle: Lifecycle, lab: BaseLab, folder: Path, fault: Fault) -> None:
    """Cheap and full looks prove it; then its inverses are applied behind the lifecycle's back, and that is seen."""
    cheap = [cycle.glance("f1") for _ in range(5)]
    assert any(each is None or each.proven for each in cheap), cheap  # one may be unlucky, and is no accusation
    took = cycle.look_again(["f1"])
    assert cycle.vanished == {}, failed(folder, "held")
    print(f"{fault.kind}: a full look took {took:.2f} s")
    third_hand(lab, folder, fault)
    cycle.look_again(["f1"])
    assert set(cycle.vanished) == {"f1"}, look(folder, "held")
    held = look(folder, "held")
    assert held["proven"] is False and held["spread"] is False and held["since"] <= held["first"], held


def third_hand(lab: BaseLab, folder: Path, fault: Fault) -> None:
    """Take a fault back past everything that knows of it; what the runner itself does for it ends too."""
    if fault.worker is not None:
        fault.worker.stop()
    for entry in reversed(standing(folder / "ledger.jsonl")):
        if entry.inverse is not None:
            entry.inverse.apply(lab)


def conforms(
    lab: BaseLab, folder: Path, kind: str, example: dict[str, Any], footprint: Callable[[Any], dict[str, Any]]
) -> None:
    """Inject it, prove it, undo it, and compare what it may have changed. ``footprint``: of a lab, see above."""
    with writing(lab) if lab.topology.remote_store is not None else nullcontext():
        _conforms(lab, folder, kind, example, footprint)


@contextmanager
def writing(lab: BaseLab, index: str = INDEX) -> Iterator[None]:
    """A document in so many moments, so that nodes have something to say to their store. Refusals are part of it."""
    over = threading.Event()

    def write() -> None:
        client = lab.client(next(node.name for node in lab.topology.nodes if node.is_data), timeout=5)
        while not over.wait(0.2):
            with suppress(urllib3.exceptions.HTTPError):
                client.request("POST", f"/{index}/_doc?timeout=5s", body={"n": time.monotonic_ns()})

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)


def _conforms(
    lab: BaseLab, folder: Path, kind: str, example: dict[str, Any], footprint: Callable[[Any], dict[str, Any]]
) -> None:
    everything = untouched(lab.wiring, [])
    before, base = footprint(lab), measure(lab, everything)
    assert all(echo.seconds is not None for echo in base.values()), base
    cycle = Lifecycle(lab, Ledger(folder / "ledger.jsonl"), EventWriter(folder / "events.jsonl"))
    fault = ready("f1", FAULTS[kind](**example), lab, seed=1, elected=elected(lab))

    try:
        assert cycle.inject(fault), failed(folder, "effect") or failed(folder, "before")
        _record(lab, kind, example, folder)
        held = standing(folder / "ledger.jsonl")
        assert len(held) == len(fault.moves)
        if fault.links:  # exactly those links: its evidence has shown each of them, and every other one is as before
            others = untouched(lab.wiring, pairs_both(lab.wiring, frozenset(fault.links)))
            assert disturbed(lab, others, base) == []
        held_back = told(folder, "fault.command")[0]["held"]
        if held_back:
            holds_until_a_third_hand(cycle, lab, folder, fault)
        gone = cycle.undo("f1")
        if held_back and fault.worker is not None:  # stopped by that hand, it was not at work over its whole time
            gone = look(folder, "gone")["proven"]
    finally:
        cycle.undo_all()

    assert gone, failed(folder, "gone") or failed(folder, "pulses")
    assert standing(folder / "ledger.jsonl") == []
    # what recovery does: the inverses once more, from a lab that was found by its name alone
    found = kinds.attach(lab.id)
    for entry in held:
        if entry.inverse is not None:
            entry.inverse.apply(found)
    assert await_green(lab, 120)[0]
    assert problems(lab) == []
    assert changed(before, footprint(lab)) == {}
    assert disturbed(lab, everything, base) == []


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
