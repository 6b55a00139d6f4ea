"""A host of the box as a machine of its own: an sshd, and around it files, users and a name that no other host has.

A process of its own, in the host's network namespace. It makes a mount namespace, and in that becomes sshd: so all of
it ends with its last process, and whoever takes the lab away finds each of them by the network namespace.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from box import mounts
from chaos.base.errors import InvalidInput

ASIDE = Path("/run/machine")
"""Where a host finds what this machine has in folders in which the host has files of its own."""
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
KINDS = {"mnt": mounts.CLONE_NEWNS, "uts": mounts.CLONE_NEWUTS, "net": 0x40000000}
"""The namespaces that are a host's own, and their flags for setns(2)."""


def become(file: Path) -> NoReturn:
    """Make the host that is described there (``machine.Machine``), and become its sshd. Raises LabError."""
    made: dict[str, Any] = json.loads(file.read_text())
    mounts.apart(mounts.CLONE_NEWUTS)
    socket.sethostname(made["name"])
    for folder in made["detached"]:
        mounts.detach(Path(folder))
    mounts.empty(Path("/run"))
    mounts.empty(Path("/var/log"))
    (Path("/run") / "sshd").mkdir(mode=0o755)
    same = [Path(folder) for folder in made["same"]]
    for folder, files in made["files"].items():
        mounts.mixed(Path(folder), ASIDE / folder.strip("/"), files, same)
    for folder in made["folders"]:
        Path(folder).mkdir(mode=0o700)
    os.chdir("/")
    os.execve(made["command"][0], made["command"], {"PATH": PATH})


def enter(pid: int, command: Sequence[str]) -> NoReturn:
    """Become ``command``, run by root in the host of which this process is the sshd.

    Raises InvalidInput when there is no such program.
    """
    held = [(os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC), flag) for kind, flag in KINDS.items()]
    for descriptor, flag in held:
        if mounts.libc.setns(descriptor, flag) != 0:
            raise mounts.failed("setns")
    os.chdir("/")
    mine = {key: os.environ[key] for key in ("TERM", "LANG", "COLUMNS") if key in os.environ}
    try:
        os.execvpe(command[0], list(command), mine | {"PATH": PATH, "HOME": "/root", "USER": "root"})
    except FileNotFoundError:
        raise InvalidInput(f"there is no program '{command[0]}'") from None
    except OSError as error:
        raise InvalidInput(f"'{command[0]}' cannot be run: {error.strerror}") from None
