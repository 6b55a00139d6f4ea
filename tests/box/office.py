"""Offices: from where those who test reach the cluster, and nothing else.

An office is a network namespace with a loopback device alone; a relay of the box listens there. Whoever works in one is
a user without rights. He sees his own folder, the suite and what it runs on; the folders of labs of this machine, of
the box and of other offices are hidden from him.
"""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from pyroute2 import IPRoute

import chaos
from box import mounts
from box.plan import OFFICE_UID
from chaos.base import paths
from chaos.base.errors import InvalidInput
from chaos.base.netsock import Namespace
from chaos.targets.wiring import NETNS_FOLDER

SUITE = Path(chaos.__file__).resolve().parents[1]
PR_SET_NO_NEW_PRIVS = 38
USER = "office"


def uid(number: int) -> int:
    """Of the user of an office: each has its own, as machines have their own disks."""
    return OFFICE_UID + number


@contextmanager
def _route(space: Namespace) -> Iterator[tuple[IPRoute, int]]:
    """Netlink there, and the number of the loopback device."""
    sock = space.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, socket.NETLINK_ROUTE)
    with IPRoute(fileno=sock.detach()) as route:
        yield route, route.link_lookup(ifname="lo")[0]


def link(space: Namespace, *, up: bool) -> None:
    """Join an office to the network, or cut it off, as by a cable: then nothing comes or goes, and nobody is told."""
    with _route(space) as (route, device):
        route.link("set", index=device, state="up" if up else "down")


# ---- going in ----------------------------------------------------------------------------------------------


def enter(space: Namespace, number: int, home: Path, hidden: Sequence[Path], command: Sequence[str]) -> NoReturn:
    """Become ``command``, run by the office's user in the office, with ``home`` as its folder.

    ``hidden``: folders whose content is not to be seen. Raises InvalidInput when there is no such program.
    """
    needed = [SUITE, *_interpreter(), home]
    for place in (*needed[:-1], Path(chaos.__file__), Path(sys.executable).resolve()):
        if not place.stat().st_mode & (stat.S_IXOTH if place.is_dir() else stat.S_IROTH):
            raise InvalidInput(f"an office could not read {place}", remedy=f"chmod -R o+rX {place}")
    space.join()  # exec keeps the namespace of the thread that calls it
    mounts.apart()
    mounts.leave_disks()
    mounts.see_only(needed, [Path("/tmp"), *hidden, *_closed(needed)])
    mounts.replace(Path("/etc/passwd"), Path("/etc/passwd").read_text() + _entry(number, home))
    os.setgroups([])
    os.setgid(uid(number))
    os.setuid(uid(number))
    mounts.libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.umask(0o077)
    os.chdir(home)
    try:
        os.execvpe(command[0], list(command), environment(home))
    except FileNotFoundError:
        raise InvalidInput(f"there is no program '{command[0]}'") from None
    except OSError as error:
        raise InvalidInput(f"'{command[0]}' cannot be run: {error.strerror}") from None


def _entry(number: int, home: Path) -> str:
    """A line of passwd(5): ssh refuses to be run by a user that has none."""
    return f"{USER}:x:{uid(number)}:{uid(number)}::{home}:/bin/sh\n"


def environment(home: Path) -> dict[str, str]:
    """What is known in an office: nothing of whoever went in."""
    mine = {key: os.environ[key] for key in ("TERM", "LANG", "COLUMNS") if key in os.environ}
    return mine | {
        "PATH": f"{Path(sys.prefix) / 'bin'}:/usr/bin:/bin",
        "HOME": str(home),
        "USER": USER,
        "LOGNAME": USER,
        "PYTHONPATH": str(SUITE),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def hidden(box: Path) -> list[Path]:
    """Folders in which labs and boxes keep what an office must not know of."""
    return [box, paths.lab_markers(), NETNS_FOLDER, *(Path(where) / paths.APP for where in ("/var/lib", "/var/cache"))]


def _interpreter() -> list[Path]:
    return list(dict.fromkeys((Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve())))


def _closed(needed: Sequence[Path]) -> list[Path]:
    """Folders on the way to these that only their owner may pass: they are covered, so that the way is open."""
    found = []
    for path in needed:
        for place in reversed(path.parents):
            if not place.stat().st_mode & stat.S_IXOTH:
                found.append(place)
                break
    return list(dict.fromkeys(found))


def give(file: Path, text: str, number: int, mode: int = 0o600) -> None:
    """Write a file that the office's user owns, and with it the folders that were not there."""
    made = [folder for folder in file.parents if not folder.exists()]
    file.parent.mkdir(parents=True, exist_ok=True)
    for folder in made:
        os.chown(folder, uid(number), uid(number))
    file.touch(mode=mode)
    file.write_text(text)
    os.chown(file, uid(number), uid(number))


def furnish(home: Path, number: int, files: Mapping[str, str]) -> None:
    """Make an office's folder with these files in it, by path."""
    home.mkdir(mode=0o700, parents=True)
    for name, text in files.items():
        give(home / name, text, number)
    for folder, _, _ in os.walk(home):
        os.chown(folder, uid(number), uid(number))
