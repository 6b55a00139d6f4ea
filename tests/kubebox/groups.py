"""The control groups of a box: one for each machine, below one of the box, in each hierarchy that the kernel has."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from chaos.base.errors import LabError
from chaos.base.paths import write_json
from chaos.base.waiting import wait_until
from kubebox.plan import ZONES, Layout

GONE_SECONDS = 15.0
NOTED = "controllers.json"
"""In the box's folder: by root of a hierarchy the controllers that it did not give to what is below it."""


def hierarchies(mounts: str | None = None) -> dict[Path, str]:
    """Where control groups are mounted → ``cgroup`` or ``cgroup2``."""
    text = mounts if mounts is not None else Path("/proc/mounts").read_text()
    lines = [line.split() for line in text.splitlines()]
    return {Path(where): kind for _, where, kind, *_ in lines if kind in ("cgroup", "cgroup2")}


def build(layout: Layout) -> None:
    """Make them. kubelet wants its root to be there, and in version 1 processors and memory nodes in it."""
    try:
        for root, kind in hierarchies().items():
            for group in (root / layout.group, *(root / layout.group / zone for zone in ZONES)):
                if kind == "cgroup2":
                    if group.parent == root:
                        _note(layout, root)
                    _delegate(group.parent)
                group.mkdir(exist_ok=True)
                for name in ("cpuset.cpus", "cpuset.mems"):
                    if kind == "cgroup" and (group / name).exists():
                        (group / name).write_text((group.parent / name).read_text())
    except OSError as error:
        raise LabError(f"cannot make control groups: {error.strerror} ({error.filename})") from error


def _delegate(group: Path) -> None:
    """Version 2: what is below a group gets the controllers that the group has."""
    offered = (group / "cgroup.controllers").read_text().split()
    (group / "cgroup.subtree_control").write_text(" ".join(f"+{each}" for each in offered))


def _note(layout: Layout, root: Path) -> None:
    """Write down, before it is changed, which controllers a root has and does not give away."""
    offered, given = ((root / f"cgroup.{name}").read_text().split() for name in ("controllers", "subtree_control"))
    write_json(layout.folder / NOTED, {**_noted(layout), str(root): [each for each in offered if each not in given]})


def _noted(layout: Layout) -> dict[str, list[str]]:
    try:
        return dict(json.loads((layout.folder / NOTED).read_text()))
    except FileNotFoundError:
        return {}


def _give_back(layout: Layout) -> list[str]:
    """Roots give away no more than before, but for what others have come to use; what would not go."""
    problems = []
    for root, controllers in _noted(layout).items():
        for each in controllers:
            try:
                (Path(root) / "cgroup.subtree_control").write_text(f"-{each}")
            except OSError as error:
                if error.errno != errno.EBUSY:
                    problems.append(f"controller {each} of {root}: {error.strerror}")
    return problems


def _all(layout: Layout) -> Iterator[Path]:
    """Every group of the box that is there, the innermost first."""
    for root in hierarchies():
        for top, _, _ in os.walk(root / layout.group, topdown=False):
            yield Path(top)


def processes(layout: Layout) -> set[int]:
    """Who is in a group of the box."""
    found: set[int] = set()
    for group in _all(layout):
        with suppress(OSError):
            found |= {int(pid) for pid in (group / "cgroup.procs").read_text().split()}
    return found


def left(layout: Layout) -> list[Path]:
    return [root / layout.group for root in hierarchies() if (root / layout.group).is_dir()]


def remove(layout: Layout) -> list[str]:
    """Take them away once their processes are dead; those that would not go."""

    def gone() -> bool:
        for group in _all(layout):
            with suppress(OSError):
                group.rmdir()
        return not left(layout)

    if not wait_until(gone, GONE_SECONDS, every=0.1):
        return [f"control group {each}" for each in left(layout)]
    return _give_back(layout)
