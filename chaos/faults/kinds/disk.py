"""Disk faults: a node's own small file system full, slow, stalled, read-only, broken or cut off from power.

They need a topology with ``disks``, or a service with a ``disk``: a store on a file system of its own breaks as that
breaks. What the node says of its disk is never asked: every proof is a measurement on that disk, by a process that does
what a database does there: write, fsync and wait.
"""

from __future__ import annotations

import errno
import itertools
import os
import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from chaos.base.errors import ChaosError, InvalidInput
from chaos.base.units import Malformed, Percent, SizeRate, at_least
from chaos.definitions.selectors import NAME, NodeSelector
from chaos.definitions.source import did_you_mean
from chaos.definitions.steps import Noticing, Scene
from chaos.definitions.topology import Topology
from chaos.faults.evidence import Evidence, Look, Others, Probe, ProcessEvidence, Simple
from chaos.faults.kind import Kind, process_claims
from chaos.faults.kinds.node import OnProcess
from chaos.faults.moves import said
from chaos.faults.offers import Aim, Means
from chaos.targets.protocol import DiskAnswer, Lab
from chaos.targets.wiring import Wiring

AMBER = "#b7791f"
PROMPT_SECONDS = 2.0
"""A disk that nothing is wrong with writes and fsyncs a block within this, on a busy machine too."""
STALL_SECONDS = 1.5
"""An fsync that takes longer, where it took milliseconds before, is stalled."""
GROWTH = 64 * 1024
STAGES = {"low": 0.85, "high": 0.90, "flood": 0.95}
"""OpenSearch's default watermarks: no new copies there, copies move away, indices there take no more writes."""
ABOVE = 0.02
"""How far above its watermark a stage fills: the node still writes, and merges give some back."""
GIVEN_BACK = 0.10
"""A node may give back so much of a disk that was filled (merges, copies that move away), and the fault still holds."""
BURST_SECONDS = 2.0
BURST_WRITES = 4
QUIET_SECONDS = 2.0
"""Between the last fsync of ours and a power loss: it put on disk what the node had appended by then, as any fsync of
any file may (ext4 commits one journal for all), and would make the loss smaller than it is without us."""
SLOWER = 1.15
"""A burst may be this much faster than the asked rate: a group that was idle has a tenth of a second in hand."""


def disk_claims(nodes: tuple[str, ...]) -> frozenset[str]:
    return frozenset(f"the disk of {node}" for node in nodes)


# ---- evidence -----------------------------------------------------------------------------------


_Work = Callable[[Lab, str], list[Probe]]
"""A look at one disk: (lab, node) → probes."""


class DiskEvidence(Simple):
    """Looks at the disks of some nodes at once. ``alive``: the nodes restart, so the end is proven by them too."""

    def __init__(self, nodes: Sequence[str], *, alive: bool = False, of_nodes: bool = True) -> None:
        """``of_nodes``: else the disks are services', and what runs on nodes' own disks is not looked at."""
        self._nodes = list(nodes)
        self._process = ProcessEvidence(self._nodes) if alive and of_nodes else None
        self.gone_deadline = self._process.gone_deadline if self._process else 30.0
        self._lab: Lab | None = None
        self.others = Others(self._nodes, disks=of_nodes)
        self._turns = itertools.count()

    def before(self, lab: Lab) -> Look:
        self._lab = lab
        self.others.remember(lab, self._beside_nodes)
        return self._look(lab, self._well, "take writes")

    def in_effect(self, lab: Lab) -> Look:
        return self._look(lab, self._shown, "show it")

    def held(self, lab: Lab) -> Look:
        return self.with_others(lab, self._look(lab, self._holds, "show it"))

    def still(self, lab: Lab) -> Look | None:
        """What the kernel tells of one disk in its turn."""
        node = self._nodes[next(self._turns) % len(self._nodes)]
        probes = self._told(lab, node) + self.others.cheap(lab, self._beside_nodes)
        return Look(all(probe.ok for probe in probes), f"the disk of {node} is as it must be", probes)

    def _holds(self, lab: Lab, node: str) -> list[Probe]:
        """A full look at whether it still is so; like the one that proved it."""
        return self._shown(lab, node)

    def _told(self, lab: Lab, node: str) -> list[Probe]:
        """What costs next to nothing to see of it."""
        raise NotImplementedError

    def gone(self, lab: Lab) -> Look:
        look = self._look(lab, self._well, "take writes again")
        if self._process is None or not look.proven:
            return look
        running = self._process.gone(lab)
        return Look(running.proven, f"{look.says}; {running.says}", look.probes + running.probes)

    def close(self) -> None:
        for node in self._nodes if self._lab is not None else ():
            assert self._lab is not None
            self._lab.disks.tidy(node)

    def _look(self, lab: Lab, work: _Work, what: str) -> Look:
        def tried(node: str) -> list[Probe]:
            try:
                return work(lab, node)
            except (ChaosError, OSError) as error:  # a disk that is not there at all is an answer too
                return [Probe(f"the disk of {node}", "can be measured", said(error), False)]

        with ThreadPoolExecutor(min(len(self._nodes), 16)) as pool:
            found = list(pool.map(tried, self._nodes))
        well = sum(all(probe.ok for probe in probes) for probes in found)
        probes = [probe for each in found for probe in each]
        return Look(well == len(found), f"{well} of {len(found)} disks {what} ({', '.join(self._nodes)})", probes)

    def _well(self, lab: Lab, node: str) -> list[Probe]:
        """Writes, fsyncs and reads at once."""
        return [wrote(lab, node), has_read(lab, node)]

    def _shown(self, lab: Lab, node: str) -> list[Probe]:
        raise NotImplementedError


def wrote(lab: Lab, node: str) -> Probe:
    answer = lab.disks.probe(node, "write", timeout=PROMPT_SECONDS)
    return Probe(f"fsync'd write on the disk of {node}", "done", str(answer), answer.seconds is not None, about=node)


def has_read(lab: Lab, node: str) -> Probe:
    answer = lab.disks.probe(node, "read", timeout=PROMPT_SECONDS)
    return Probe(f"read from the disk of {node}", "done", str(answer), answer.seconds is not None, about=node)


class StallEvidence(DiskEvidence):
    """An fsync'd write does not come back, a read does."""

    def _shown(self, lab: Lab, node: str) -> list[Probe]:
        answer = lab.disks.probe(node, "write", timeout=STALL_SECONDS)
        expected = f"no answer for {STALL_SECONDS:g} s"
        what = f"fsync'd write on the disk of {node}"
        return [Probe(what, expected, str(answer), answer.blocked, about=node), has_read(lab, node)]

    def _told(self, lab: Lab, node: str) -> list[Probe]:
        """The write that proved it still waits in the kernel: it would have ended with the stall."""
        waits = lab.disks.still_waits(node)
        what = f"an earlier write on the disk of {node}"
        return [Probe(what, "still waits", "still waits" if waits else "ended", waits, about=node)]


class RefusedEvidence(DiskEvidence):
    """An fsync'd write fails with this error; a read too, or just not."""

    def __init__(self, nodes: Sequence[str], number: int, *, reads: bool, of_nodes: bool = True) -> None:
        super().__init__(nodes, alive=True, of_nodes=of_nodes)
        self._number, self._reads = number, reads

    def _shown(self, lab: Lab, node: str) -> list[Probe]:
        expected = f"refused: {os.strerror(self._number)}"
        answer = lab.disks.probe(node, "write", timeout=PROMPT_SECONDS)
        ok = answer.errno == self._number
        write = Probe(f"fsync'd write on the disk of {node}", expected, str(answer), ok, about=node)
        return [write, has_read(lab, node) if self._reads else self._unread(lab, node)]

    def _unread(self, lab: Lab, node: str) -> Probe:
        answer = lab.disks.probe(node, "read", timeout=PROMPT_SECONDS)
        expected, ok = f"refused: {os.strerror(self._number)}", answer.errno == self._number
        return Probe(f"read from the disk of {node}", expected, str(answer), ok, about=node)

    def _told(self, lab: Lab, node: str) -> list[Probe]:
        """The mount says that it is read-only; of one that answers with errors it says nothing, so one read is made."""
        if not self._reads:
            return [self._unread(lab, node)]
        ok = lab.disks.is_read_only(node)
        said = "read-only" if ok else "takes writes"
        return [Probe(f"the mount of the disk of {node}", "read-only", said, ok, about=node)]


class FullEvidence(DiskEvidence):
    """The share of the disk that is used, as the node counts it; and whether a file can still grow."""

    def __init__(
        self, nodes: Sequence[str], least: float | None, below: float | None, *, of_nodes: bool = True
    ) -> None:
        super().__init__(nodes, of_nodes=of_nodes)
        self._least, self._below = least, below
        self._filled: dict[str, int] = {}
        """Bytes of the filler and …"""
        self._had: dict[str, float] = {}
        """… the share that was used, when it was proven."""

    def _used(self, lab: Lab, node: str) -> float:
        total, available = lab.disks.usage(node)
        return 1 - available / total

    def _well(self, lab: Lab, node: str) -> list[Probe]:
        used = self._used(lab, node)
        least = self._least if self._least is not None else 1.0
        return [
            Probe(f"used of the disk of {node}", f"less than {least:.1%}", f"{used:.1%}", used < least),
            self._growth(lab, node, fails=False),
        ]

    def in_effect(self, lab: Lab) -> Look:
        look = super().in_effect(lab)
        if look.proven:
            self._filled = {node: lab.disks.filled(node) for node in self._nodes}
            self._had = {node: self._used(lab, node) for node in self._nodes}
        return look

    def _holds(self, lab: Lab, node: str) -> list[Probe]:
        """The filler is as large as it was, and the disk no emptier than the node itself makes it: it goes on writing,
        deletes, and moves copies away from a disk beyond the high watermark."""
        least = max(self._had.get(node, 1.0) - GIVEN_BACK, 0.0)
        used, size, was = self._used(lab, node), lab.disks.filled(node), self._filled.get(node, 0)
        return [
            Probe(f"filler on the disk of {node}", f"{was} bytes", f"{size} bytes", 0 < was <= size, about=node),
            Probe(f"used of the disk of {node}", f"at least {least:.1%}", f"{used:.1%}", used >= least, about=node),
        ]

    def _told(self, lab: Lab, node: str) -> list[Probe]:
        return self._holds(lab, node)

    def _growth(self, lab: Lab, node: str, *, fails: bool) -> Probe:
        answer = lab.disks.probe(node, "grow", size=GROWTH, timeout=2 * PROMPT_SECONDS)
        expected = f"refused: {os.strerror(errno.ENOSPC)}" if fails else "done"
        ok = answer.errno == errno.ENOSPC if fails else answer.seconds is not None
        return Probe(f"a file on the disk of {node} grows", expected, str(answer), ok)

    def _shown(self, lab: Lab, node: str) -> list[Probe]:
        if self._least is None:
            return [self._growth(lab, node, fails=True)]
        used = self._used(lab, node)
        below = f", less than {self._below:.1%}" if self._below is not None else ""
        ok = used >= self._least and (self._below is None or used < self._below)
        return [
            Probe(f"used of the disk of {node}", f"at least {self._least:.1%}{below}", f"{used:.1%}", ok),
            self._growth(lab, node, fails=False),
        ]


class SlowEvidence(DiskEvidence):
    """Bursts of fsync'd writes take as long as the rate says, whoever submits them.

    The node writes too, so that a burst of ours may take longer than its bytes alone: then what the whole disk wrote
    meanwhile shows that it was no slower than asked.
    """

    by_others = True
    """Whether write-back by another process is limited too. Control groups of version 1 charge it to the root group,
    which is limited where all of a machine is ours."""

    def __init__(self, nodes: Sequence[str], rate: int) -> None:
        super().__init__(nodes)
        self._rate = rate
        self._limited_others: dict[str, bool] = {}
        """Where the kernel's own write-back has a limit too, which it has not in every version of control groups."""
        blocks = max(1, round(rate * BURST_SECONDS / BURST_WRITES / 4096))
        self._size = min(blocks * 4096, 16 * 2**20)
        self._expected = self._size * BURST_WRITES / rate

    def _well(self, lab: Lab, node: str) -> list[Probe]:
        answer = self._burst(lab, node, self._expected / 2)
        faster = answer.seconds is not None and answer.seconds < self._expected / 2
        expected = f"faster than {2 * self._rate / 1024:.0f} KiB/s"
        return [Probe(f"fsync'd writes on the disk of {node}", expected, self._said(answer, self._total), faster)]

    @property
    def _total(self) -> int:
        return self._size * BURST_WRITES

    def _burst(self, lab: Lab, node: str, timeout: float) -> DiskAnswer:
        return lab.disks.probe(node, "write", size=self._size, count=BURST_WRITES, timeout=timeout, whose="node")

    @staticmethod
    def _said(answer: DiskAnswer, size: int) -> str:
        if answer.seconds is None:
            return str(answer)
        seconds = max(answer.seconds, 1e-6)
        disk = answer.device_bytes / seconds / 1024
        return f"{size / seconds / 1024:.1f} KiB/s in {seconds:.2f} s, the whole disk {disk:.1f} KiB/s"

    def _shown(self, lab: Lab, node: str) -> list[Probe]:
        asked = f"{self._rate / 1024:.1f} KiB/s"
        probes = [self._writes(lab, node)]
        if not self.by_others:
            return probes
        # pages that somebody else writes back: version 1 charges them to the root group
        lab.disks.probe(node, "write", size=self._size, sync=False, timeout=PROMPT_SECONDS, whose="node")
        others = lab.disks.probe(node, "sync", timeout=self._expected * 4 + 5, whose="others")
        expected = self._size / self._rate
        # behind the journal of a node that writes all the time it may take longer still; that the disk is no slower
        # than asked, the burst above has shown
        slow = others.blocked or (others.seconds is not None and others.seconds * SLOWER >= expected)
        what = f"write-back of {node}'s pages by another process"
        return [*probes, Probe(what, f"at most {asked}", self._said(others, self._size), slow)]

    def _writes(self, lab: Lab, node: str) -> Probe:
        answer = self._burst(lab, node, self._expected * 4 + 5)
        asked, ok = f"{self._rate / 1024:.1f} KiB/s", self._as_asked(answer)
        return Probe(f"fsync'd writes of {node}", asked, self._said(answer, self._total), ok, about=node)

    def _holds(self, lab: Lab, node: str) -> list[Probe]:
        """The node's own writes, and what the kernel says of both limits: write-back is not waited for once more."""
        return [self._writes(lab, node), *self._told(lab, node)]

    def _told(self, lab: Lab, node: str) -> list[Probe]:
        probes = []
        for whose in ("node", "others"):
            limit = lab.disks.throttled(node, whose)
            if whose == "node" or limit is not None or self._limited_others.get(node):
                said = f"{limit} bytes/s" if limit is not None else "none"
                what = f"limit of writes to the disk of {node} ({whose})"
                probes.append(Probe(what, f"{self._rate} bytes/s", said, limit == self._rate, about=node))
        return probes

    def in_effect(self, lab: Lab) -> Look:
        look = super().in_effect(lab)
        if look.proven:
            self._limited_others = {node: lab.disks.throttled(node, "others") is not None for node in self._nodes}
        return look

    def _as_asked(self, answer: DiskAnswer) -> bool:
        """No faster than asked; and the whole disk no slower."""
        if answer.seconds is None:
            return False
        return answer.seconds * SLOWER >= self._expected and answer.device_bytes >= 0.7 * self._rate * answer.seconds


class PowerLossEvidence(DiskEvidence):
    """The process is gone; of a file, the part that was fsynced is there and the part that was not is not."""

    def __init__(self, nodes: Sequence[str]) -> None:
        super().__init__(nodes, alive=True)
        self._token = secrets.token_hex(8)
        self._dead = ProcessEvidence(self._nodes)

    def before(self, lab: Lab) -> Look:
        look = super().before(lab)
        self._look(lab, self._marked, "marked")
        time.sleep(QUIET_SECONDS)
        return look

    def _marked(self, lab: Lab, node: str) -> list[Probe]:
        answer = lab.disks.probe(node, "mark", token=self._token, timeout=PROMPT_SECONDS)
        return [Probe(f"mark on the disk of {node}", "written", str(answer), answer.seconds is not None)]

    def in_effect(self, lab: Lab) -> Look:
        look, dead = super().in_effect(lab), self._dead.in_effect(lab)
        return Look(look.proven and dead.proven, f"{look.says}; {dead.says}", look.probes + dead.probes)

    def held(self, lab: Lab) -> Look:
        look, dead = super().held(lab), self._dead.in_effect(lab)
        return Look(look.proven and dead.proven, f"{look.says}; {dead.says}", look.probes + dead.probes)

    def _told(self, lab: Lab, node: str) -> list[Probe]:
        look = self._dead.still(lab)
        return list(look.probes) if look is not None else []

    def _shown(self, lab: Lab, node: str) -> list[Probe]:
        answer = lab.disks.probe(node, "read", token=self._token, timeout=PROMPT_SECONDS)
        kept, lost = (f"{part} {self._token}" in answer.text.splitlines() for part in ("synced", "unsynced"))
        measured = f"{'there' if kept else 'gone'}" if answer.seconds is not None else str(answer)
        return [
            Probe(f"fsynced part of a file of {node}", "there", measured, kept, about=node),
            Probe(
                f"part never fsynced of a file of {node}",
                "gone",
                "there" if lost else "gone",
                answer.seconds is not None and not lost,
                about=node,
            ),
        ]


# ---- kinds --------------------------------------------------------------------------------------


class OnDisk(Kind):
    """A fault on the disks of some nodes, or on that of a service.

    ``stops``: it kills the nodes' processes, or freezes them in a write. ``of_nodes_alone``: why it is none of a
    service.
    """

    family = "disk"
    example_topology = "3az-disks"
    stops: ClassVar[bool] = False
    of_nodes_alone: ClassVar[str | None] = None
    holding = (
        "every two seconds what the kernel tells of one of its disks in turn; before the undo all of its proof, "
        "and a write on every other disk"
    )

    target: NodeSelector | None = Field(
        default=None,
        exclude_if=lambda target: target is None,
        description="the disks of which nodes, for example 'node b-data'",
    )
    service: Annotated[str, Field(pattern=f"^{NAME}$")] | None = Field(
        default=None,
        exclude_if=lambda service: service is None,
        description="instead of target: the service whose disk it is, for example store",
    )

    @model_validator(mode="after")
    def _whose(self) -> Self:
        if (self.target is None) == (self.service is None):
            raise ValueError("expected either target (for example 'node c-data') or service (for example store)")
        return self

    @property
    def owner(self) -> str:
        """Whose disk, in words."""
        return self.target.text if self.target is not None else f"service {self.service}"

    @property
    def noticed(self) -> Noticing:
        """A node's check of its own disk says nothing of a store's."""
        return self.noticing if self.target is not None else "hardly"

    def nodes(self, scene: Scene) -> tuple[str, ...]:
        return scene.nodes(self.target) if self.target is not None else ()

    def disks(self, aim: Aim) -> tuple[str, ...]:
        """The names of the disks that it hits: a node's, or a service's."""
        return (self.service,) if self.service is not None else aim.nodes

    def claims(self, scene: Scene) -> frozenset[str]:
        if self.service is not None:
            return disk_claims((self.service,))
        nodes = self.nodes(scene)
        return disk_claims(nodes) | (process_claims(nodes) if self.stops else frozenset())

    def check(self, topology: Topology) -> list[str]:
        if self.service is None:
            return no_disks(self.kind, topology)
        if self.of_nodes_alone is not None:
            return [f"{self.kind} is for disks of nodes: {self.of_nodes_alone}"]
        return no_service_disk(self.kind, self.service, topology)

    def aim(self, id: str, scene: Scene, wiring: Wiring) -> Aim:
        if self.service is not None and (wrong := self.check(scene.topology)):
            raise InvalidInput(wrong[0])
        return Aim(id, scene, wiring, self.nodes(scene))


def no_disks(kind: str, topology: Topology) -> list[str]:
    if topology.disks is not None:
        return []
    return [
        f"{kind} needs nodes with disks of their own, and topology {topology.name} gives them none: "
        "expected one with `disks`, for example 3az-disks"
    ]


def no_service_disk(kind: str, service: str, topology: Topology) -> list[str]:
    if service not in topology.services:
        known = did_you_mean(service, topology.services) if topology.services else "it has no service"
        return [f"{kind}: there is no service {service} in topology {topology.name}: {known}"]
    if service in topology.service_disks:
        return []
    return [
        f"{kind} needs a service with a disk of its own, and topology {topology.name} gives {service} none: "
        "expected services: {" + service + ": {kind: fs, disk: 256MiB}}, as 3az-remote-disk has it"
    ]


def _a_share(share: Percent) -> Percent:
    if not 0 < share < 1:
        raise Malformed(f"{share.text} is no share to fill: expected more than 0% and less than 100% (or to: enospc)")
    return share


class DiskFull(OnDisk):
    """Filled to a watermark of OpenSearch, to a share, or until nothing can be allocated.

    A file system refuses to grow, not to overwrite: writes in place still succeed on a full disk.
    """

    kind = "disk.full"
    noticing = "hardly"
    examples = (
        {"target": "node c-data", "to": "flood"},
        {"target": "node c-data", "to": "enospc"},
        {"target": "node c-data", "fill": "60%"},
    )
    proof = "the used share as the node counts it; growing a file works, or fails with ENOSPC where that is asked"
    holding = (
        "every two seconds, and before the undo: the filler as large as it was, and the disk no emptier than the node "
        "itself makes it (10 percentage points); before the undo a write on every other disk too"
    )

    to: Literal["low", "high", "flood", "enospc"] | None = Field(
        default=None, description="beyond this watermark of OpenSearch's defaults (85, 90, 95%), or to the last block"
    )
    fill: Annotated[Percent, AfterValidator(_a_share)] | None = Field(
        default=None, description="instead of `to`: this share of the disk, for example 92%"
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> DiskFull:
        if (self.to is None) == (self.fill is None):
            raise ValueError("expected either to (low, high, flood or enospc) or fill (for example 92%)")
        return self

    @property
    def share(self) -> float | None:
        """How much is to be used; None: all of it."""
        if self.fill is not None:
            return float(self.fill)
        return None if self.to == "enospc" else STAGES[str(self.to)] + ABOVE

    def describe(self) -> str:
        if self.fill is not None:
            return f"fill the disk of {self.owner} to {self.fill.text}"
        stage = "until nothing can be allocated" if self.to == "enospc" else f"beyond the {self.to} watermark"
        return f"fill the disk of {self.owner} {stage}"

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        least, below = None, None
        if self.fill is not None:
            least = float(self.fill) - 0.005
        elif self.to != "enospc":
            least = STAGES[str(self.to)]
            below = min([share for share in STAGES.values() if share > least], default=None)
        return FullEvidence(self.disks(aim), least, below, of_nodes=self.service is None)


class DiskSlow(OnDisk):
    """Writes reach the disk at this rate only; every fsync waits for its bytes. The grey failure of disks."""

    kind = "disk.slow"
    noticing = "hardly"
    examples = ({"target": "node c-data", "write": "64KiB/s"},)
    proof = "fsync'd bursts take as long as the rate says, and so does write-back by another process"
    holding = (
        "every two seconds the limits as the kernel has them; before the undo fsync'd bursts too, and a write on every "
        "other disk"
    )
    colour = AMBER
    of_nodes_alone = "its limit is of what one node writes, and all nodes write to a service's"
    write: Annotated[SizeRate, at_least(SizeRate(4096), "is less than one block a second")] = Field(
        description="for example 64KiB/s"
    )

    def describe(self) -> str:
        return f"the disk of {self.owner} takes {self.write.text} only"

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        return SlowEvidence(aim.nodes, int(self.write))


class DiskStall(OnDisk):
    """Writes do not come back; reads do. A process that writes waits in a sleep that no signal ends."""

    kind = "disk.stall"
    noticing = "by checks of the disk"
    examples = ({"target": "node c-data"},)
    proof = "an fsync'd write does not come back, a read does"
    holding = (
        "every two seconds whether the write that proved it still waits in the kernel; before the undo all of its "
        "proof, and a write on every other disk"
    )
    colour = AMBER
    stops = True

    def describe(self) -> str:
        return f"the disk of {self.owner} stalls"

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        return StallEvidence(self.disks(aim), of_nodes=self.service is None)


class DiskReadOnly(OnDisk):
    """The file system turns read-only, as ext4 does on an error of its own."""

    kind = "disk.read_only"
    noticing = "by checks of the disk"
    examples = ({"target": "node c-data"},)
    proof = "an fsync'd write fails with EROFS, a read returns"
    stops = True

    def describe(self) -> str:
        return f"the disk of {self.owner} turns read-only"

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        return RefusedEvidence(self.disks(aim), errno.EROFS, reads=True, of_nodes=self.service is None)


class DiskErrors(OnDisk):
    """Every read and write is an I/O error; what was written before is safe. Mapped pages in memory can be read."""

    kind = "disk.errors"
    noticing = "by checks of the disk"
    examples = ({"target": "node c-data"},)
    proof = "an fsync'd write and a read fail with EIO"
    stops = True

    def describe(self) -> str:
        return f"the disk of {self.owner} answers with I/O errors"

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        return RefusedEvidence(self.disks(aim), errno.EIO, reads=False, of_nodes=self.service is None)


class DiskPowerLoss(OnDisk):
    """Power goes: the process dies, and what was not fsynced is lost. Several targets lose it at the same time."""

    kind = "disk.power_loss"
    noticing = "at once"
    examples = ({"target": "node c-data"}, {"target": "role data"})
    proof = "the process is gone; of a file, the part that was fsynced is there and the part that was not is not"
    holding = OnProcess.holding
    stops = True
    lasting = True
    of_nodes_alone = "it kills the node whose disk it is, and nodes live on when a service's loses power"

    def describe(self) -> str:
        return f"{self.owner} loses power"

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        return PowerLossEvidence(aim.nodes)
