"""Faults on a node's own small file system, or a store's: a loop device of its own, with ext4 on it."""

from __future__ import annotations

from chaos.faults.fault import Grade
from chaos.faults.kinds.disk import DiskErrors, DiskFull, DiskPowerLoss, DiskReadOnly, DiskSlow, DiskStall, OnDisk
from chaos.faults.moves import Move, Reversible, on_node, operation
from chaos.faults.offers import Aim, Means, Provider
from chaos.targets.protocol import WithDisks

PROVIDER = Provider(
    "disk", "fillers, limits, freezes, errors and power cuts on each node's own file system", grade=Grade.PATH
)
NEEDS = ("disks",)


@operation("disk.freeze")
def _freeze(lab: WithDisks, node: str) -> None:
    lab.disks.freeze(node)


@operation("disk.thaw")
def _thaw(lab: WithDisks, node: str) -> None:
    lab.disks.thaw(node)


@operation("disk.throttle")
def _throttle(lab: WithDisks, node: str, whose: str, rate: int) -> None:
    lab.disks.throttle(node, whose, rate)


@operation("disk.unthrottle")
def _unthrottle(lab: WithDisks, node: str, whose: str) -> None:
    lab.disks.unthrottle(node, whose)


@operation("disk.fill")
def _fill(lab: WithDisks, node: str, share: float | None) -> None:
    lab.disks.fill(node, share)


@operation("disk.empty")
def _empty(lab: WithDisks, node: str) -> None:
    lab.disks.empty(node)


@operation("disk.read_only")
def _read_only(lab: WithDisks, node: str) -> None:
    lab.disks.make_read_only(node)


@operation("disk.fail")
def _fail(lab: WithDisks, node: str) -> None:
    lab.disks.fail(node)


@operation("disk.power_loss")
def _power_loss(lab: WithDisks, node: str) -> None:
    lab.disks.cut_power(node)


@operation("disk.restore")
def _restore(lab: WithDisks, node: str) -> None:
    lab.disks.restore(node)


def repaired(operation: str, fault: OnDisk, aim: Aim) -> Means:
    """Moves after which a disk has to be mounted anew; undone last first: the disk, then the node whose it is."""
    disks = fault.disks(aim)
    starts = {node: (on_node("nothing", "node.start", node),) for node in aim.nodes}
    return Means(
        tuple(move for disk in disks for move in (*starts.get(disk, ()), on_node(operation, "disk.restore", disk)))
    )


@PROVIDER.carries_out(
    DiskFull,
    mechanism="a filler file on the node's disk (fallocate)",
    undoing="the filler goes; OpenSearch lifts what it blocked by itself",
    needs=NEEDS,
)
def full(fault: DiskFull, aim: Aim) -> Means:
    return Means(
        tuple(
            Reversible(Move("disk.fill", {"node": disk, "share": fault.share}), Move("disk.empty", {"node": disk}))
            for disk in fault.disks(aim)
        )
    )


@PROVIDER.carries_out(
    DiskSlow,
    mechanism="control groups: a limit on writes to the node's loop device, of the node's group and (version 1) of the "
    "root group, to which the kernel's own write-back belongs; so there each of the two has that rate",
    undoing="both limits become what they were before",
    needs=("disks", "throttle"),
)
def slow(fault: DiskSlow, aim: Aim) -> Means:
    return Means(
        tuple(
            Reversible(
                Move("disk.throttle", {"node": node, "whose": whose, "rate": int(fault.write)}),
                Move("disk.unthrottle", {"node": node, "whose": whose}),
            )
            for node in aim.nodes
            for whose in ("node", "others")
        )
    )


@PROVIDER.carries_out(
    DiskStall,
    mechanism="the file system is frozen (FIFREEZE); a process of its own thaws it when the runner dies",
    undoing="it is thawed; what waited goes on, nothing restarts",
    needs=NEEDS,
)
def stall(fault: DiskStall, aim: Aim) -> Means:
    return Means(tuple(on_node("disk.freeze", "disk.thaw", disk) for disk in fault.disks(aim)))


@PROVIDER.carries_out(
    DiskReadOnly,
    mechanism="ext4 trigger_fs_error with errors=remount-ro",
    undoing="kill the node (none for a service's disk), unmount, fsck, mount, start: a file system with errors takes "
    "no writes before that",
    needs=NEEDS,
)
def read_only(fault: DiskReadOnly, aim: Aim) -> Means:
    return repaired("disk.read_only", fault, aim)


@PROVIDER.carries_out(
    DiskErrors,
    mechanism="ext4 shutdown ioctl after everything was written back",
    undoing="kill the node (none for a service's disk), unmount, fsck, mount, start",
    needs=NEEDS,
)
def errors(fault: DiskErrors, aim: Aim) -> Means:
    return repaired("disk.fail", fault, aim)


@PROVIDER.carries_out(
    DiskPowerLoss,
    mechanism="ext4 shutdown ioctl without log flush, SIGKILL, unmount, mount",
    undoing="the node starts again on what its disk kept",
    needs=("disks", "process"),
)
def power_loss(fault: DiskPowerLoss, aim: Aim) -> Means:
    return repaired("disk.power_loss", fault, aim)
