"""What it takes to give nodes disks of their own: tools, and loop devices."""

from __future__ import annotations

import os
from pathlib import Path

TOOLS = {"losetup": "util-linux", "mount": "util-linux", "mkfs.ext4": "e2fsprogs", "fsck.ext4": "e2fsprogs"}
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/bin:/bin"


def lacking() -> str | None:
    """Why this machine can give nodes no disks of their own; None when it can."""
    folders = [Path(folder) for folder in PATH.split(":") if folder]
    if missing := [tool for tool in TOOLS if not any((folder / tool).exists() for folder in folders)]:
        packages = " and ".join(sorted({TOOLS[tool] for tool in missing}))
        return f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing: install {packages}"
    if not Path("/dev/loop-control").exists():
        return "there is no /dev/loop-control: load the kernel module (modprobe loop), or grant it to the container"
    return None
