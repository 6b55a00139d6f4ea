"""How fast a control group may write to one device: read, set, and put back; for versions 1 and 2.

Version 1 has no hierarchy here: a group's limit holds for what its own processes submit, and pages that another
process writes back (the kernel's flusher, a file system's journal, somebody's ``sync``) belong to the root group. So
there a disk is slow only when the root group is limited for that device too. Version 2 charges write-back to the
group that made the pages dirty, and its root group has no limits.
"""

from __future__ import annotations

import os
from pathlib import Path

FILES = {1: "blkio.throttle.write_bps_device", 2: "io.max"}


def limit(group: Path, version: int, device: str) -> int | None:
    """Bytes per second that ``device`` (``major:minor``) is limited to for this group; None: no limit."""
    for line in _lines(group / FILES[version]):
        name, *values = line.split()
        if name != device:
            continue
        if version == 1:
            return int(values[0]) or None
        given = dict(value.split("=") for value in values).get("wbps", "max")
        return None if given == "max" else int(given)
    return None


def set_limit(group: Path, version: int, device: str, rate: int | None) -> None:
    """None lifts it. Raises OSError; a device or group that is gone needs no lifting."""
    value = (rate or 0) if version == 1 else f"wbps={rate or 'max'}"
    try:
        _write(group / FILES[version], f"{device} {value}")
    except OSError:
        if rate is not None or limit(group, version, device) is not None:
            raise


def limited(group: Path, version: int) -> list[str]:
    """The devices that have a limit for this group."""
    devices = [line.split()[0] for line in _lines(group / FILES[version])]
    return [device for device in devices if limit(group, version, device) is not None]


def _lines(file: Path) -> list[str]:
    try:
        return [line for line in file.read_text().splitlines() if line.strip()]
    except OSError:
        return []


def _write(file: Path, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
