"""What the kernel still holds of one lab id: asked of the kernel itself, whatever the lab's own folder says.

For the scan after a run, and for what a dead owner left: a clean-up that believes its own bookkeeping would call clean
what it forgot.
"""

from __future__ import annotations

from pathlib import Path

from chaos.base import paths
from chaos.base.paths import PREFIX
from chaos.targets.labs import cgroups, disks, kinds, markers, network


def of(id: str) -> list[str]:
    """Everything that still carries this lab's id, in words: nothing may, once it has been taken away."""
    marker = paths.lab_markers() / id
    mine = marker.exists() and markers.elsewhere(id) is None
    return held(id, namespaces(id)) + ([f"marker {marker}"] if mine else [])


def held(id: str, names: list[str]) -> list[str]:
    """What a lab with these namespaces takes of the machine, in words; its marker takes nothing."""
    folder = paths.labs() / id
    found = [f"process {pid} in {name}" for pid, name in sorted(network.processes_in(names).items())]
    found += [f"network namespace {name}" for name in names]
    if id in cgroups.ids() and markers.elsewhere(id) is None:
        found.append(f"control groups {PREFIX}{id}")
    below = disks.describe(id)
    named = [f"mount {where}" for where in mounts(id, folder, Path("/proc/self/mounts").read_text())]
    found += below + [each for each in named if each not in below]
    found += [each for kind in kinds.every().values() for each in kind.held(id)]
    return found + ([f"lab folder {folder}"] if folder.exists() else [])


def namespaces(id: str) -> list[str]:
    """Of ids that begin alike the longest owns a name: ``my`` must not be blamed for ``my-lab``, of any state folder.

    Nothing where the id is a lab's of another state folder.
    """
    if markers.elsewhere(id) is not None:
        return []
    others = [path.name for path in paths.labs().glob(f"{id}-*")]
    others += [each for each in markers.ids() if each.startswith(f"{id}-")]
    names = network.namespaces(f"{PREFIX}{id}-")
    return [name for name in names if not any(name.startswith(f"{PREFIX}{other}-") for other in others)]


def mounts(id: str, folder: Path, table: str) -> list[str]:
    """Mount points of a lab in a table of mounts (fstab(5)): below its folder, or made from something of its name.

    Namespaces' own bind mounts go with the namespaces and are not told twice.
    """
    below = set(disks.mount_points(table, folder.resolve()))
    made = [
        mount for mount in disks.mounted(table) if f"{PREFIX}{id}-" in mount.source or mount.source == f"{PREFIX}{id}"
    ]
    return sorted(str(point) for point in below | {mount.point for mount in made})
