"""A systemd in namespaces and a control group of its own, which knows the units of one folder and no others.

As a program: ``systemdkit.py UNITS WRITABLE GROUP``: the parent of such a systemd, and ended with it. All of this
machine is read-only to it but for the folder WRITABLE.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

import psutil
from box import host, hosts, machine, mounts

from chaos.base.errors import MissingPrerequisite
from chaos.targets.labs.cgroups import Groups, Hierarchy

ROOT = Path(__file__).parents[2]


def lacking() -> str:
    """Why no systemd can be started here; empty where one can."""
    try:
        hosts.groups_of_systemd()
    except MissingPrerequisite as error:
        return error.message
    return ""


@contextmanager
def systemd(name: str, units: Path, wants: str, writable: Path) -> Iterator[psutil.Process]:
    """One that starts the unit ``wants`` of the folder ``units``; with its end all ends that it started."""
    for each in machine.NEEDED:
        (units / f"{each}.target").write_text("[Unit]\nDefaultDependencies=no\n")
    (units / machine.TARGET).write_text(f"[Unit]\nDefaultDependencies=no\nWants={wants}\n")
    above = hosts.groups_of_systemd()
    group = above / f"oschaos-{name}"
    with open(writable / "systemd.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, __file__, str(units), str(writable), str(group)], stdout=log, stderr=log
        )
    mine = psutil.Process(process.pid)
    try:
        yield mine
    finally:
        started = mine.children(recursive=True)
        process.kill()
        process.wait()
        assert psutil.wait_procs(started, 30)[1] == []
        assert Groups(name, {"": Hierarchy(above, 2)}).remove() == []


def main() -> None:
    units, writable, group = map(Path, sys.argv[1:])
    mounts.apart()
    mounts.empty(Path("/run"), size=mounts.SMALL)
    mounts.empty(Path("/var/log"), size=mounts.SMALL)
    mounts.mount(str(writable), writable, None, mounts.MS_BIND)
    environment = {"PATH": host.PATH, "container": "other", "SYSTEMD_UNIT_PATH": str(units)}
    host.boot(group, machine.SYSTEMD_COMMAND, environment)


if __name__ == "__main__":
    main()
