"""What the kernel still holds of one lab id: asked of the kernel itself, whatever the lab's own folder says.

For the scan after a run: a clean-up that believes its own bookkeeping would call clean what it forgot.
"""

from __future__ import annotations

import os
from pathlib import Path

from chaos import places
from chaos.lab import cgroups, network
from chaos.places import PREFIX

LOOP_DEVICES = Path("/sys/block")


def of(id: str) -> list[str]:
    """Everything that still carries this lab's id, in words: nothing may, once it has been taken away."""
    folder = places.labs() / id
    found = [f"process {pid} in {name}" for pid, name in sorted(network.processes_in(_namespaces(id)).items())]
    found += [f"network namespace {name}" for name in _namespaces(id)]
    found += [f"mount {where}" for where in mounts(id, folder, _read("/proc/self/mountinfo"))]
    found += [f"loop device {device} on {file}" for device, file in loops(id, folder)]
    if id in cgroups.ids():
        found.append(f"control groups {PREFIX}{id}")
    found += [f"lab folder {folder}"] if folder.exists() else []
    marker = places.lab_markers() / id
    found += [f"marker {marker}"] if marker.exists() else []
    return found


def _namespaces(id: str) -> list[str]:
    """Of ids that begin alike the longest owns a name: ``my`` must not be blamed for ``my-lab``."""
    others = [path.name for path in places.labs().glob(f"{id}-*")]
    names = network.namespaces(f"{PREFIX}{id}-")
    return [name for name in names if not any(name.startswith(f"{PREFIX}{other}-") for other in others)]


def mounts(id: str, folder: Path, table: str) -> list[str]:
    """Mount points of a lab in a mountinfo table (proc(5)): below its folder, or made from something of its name.

    Namespaces' own bind mounts go with the namespaces and are not told twice.
    """
    found = []
    for line in table.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5:
            continue
        where = _unescaped(fields[4])
        source = _unescaped(after.split()[1]) if len(after.split()) > 1 else ""
        inside = Path(where) == folder or folder in Path(where).parents
        if inside or f"{PREFIX}{id}-" in source or source == f"{PREFIX}{id}":
            found.append(where)
    return sorted(set(found))


def loops(id: str, folder: Path, devices: Path = LOOP_DEVICES) -> list[tuple[str, str]]:
    """Loop devices whose file is a lab's: (device, file). A file that was removed is still named by the kernel."""
    found = []
    for device in sorted(devices.glob("loop*")):
        file = _read(device / "loop" / "backing_file").strip().removesuffix(" (deleted)")
        if file and (folder in Path(file).parents or f"{PREFIX}{id}-" in os.path.basename(file)):
            found.append((device.name, file))
    return found


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _unescaped(text: str) -> str:
    """mountinfo writes blanks and backslashes as octal."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
