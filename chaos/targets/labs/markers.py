"""Markers of labs: a file for each lab of this machine, of every state folder, so that no two have the same id.

Namespaces and control groups carry a lab's id alone. So what takes a lab away, or makes one, asks here whose that id
is. Only root can write markers, and only root has namespaces.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from chaos.base import paths
from chaos.base.errors import InvalidInput


def ids() -> set[str]:
    """Ids that have a marker, whether the lab is still there or not."""
    return {marker.name for marker in paths.lab_markers().glob("[!.]*") if marker.is_file()}


def elsewhere(id: str) -> Path | None:
    """The state folder of another lab of this id that is still there; None when the id is ours, or free."""
    return _leads_elsewhere(paths.lab_markers() / id, id)


def _leads_elsewhere(marker: Path, id: str) -> Path | None:
    try:
        folder = marker.read_text()
    except (OSError, ValueError):
        return None
    return Path(folder) if paths.lives_elsewhere(folder, id) else None


def refuse(id: str) -> None:
    """Raises InvalidInput when another state folder has a lab of this id."""
    if (other := elsewhere(id)) is not None:
        raise taken(id, str(other))


def taken(id: str, state: str) -> InvalidInput:
    return InvalidInput(
        f"a lab named '{id}' is already on this machine, of the state folder {state}",
        remedy="choose another name with --name",
    )


def claim(id: str) -> None:
    """Make the marker of a lab of ours. Raises InvalidInput when another lab has it; nothing without the rights."""
    marker = paths.lab_markers() / id
    made, aside = (marker.with_name(f".{id}.{os.getpid()}.{part}") for part in ("new", "old"))
    try:
        paths.write_atomically(made, str(paths.state().absolute()))
    except PermissionError:
        return
    try:
        while True:
            try:
                os.link(made, marker)  # it is whole, or not there
                return
            except FileExistsError:
                refuse(id)
            if marker.is_dir():
                raise OSError(errno.EEXIST, "something that is no marker has its name", str(marker))
            with suppress(FileNotFoundError):
                os.rename(marker, aside)  # its lab is gone; another process may have claimed it just now
                if (other := _leads_elsewhere(aside, id)) is not None:
                    with suppress(FileExistsError):
                        os.link(aside, marker)
                    raise taken(id, str(other))
    finally:
        made.unlink(missing_ok=True)
        aside.unlink(missing_ok=True)


def release(id: str) -> None:
    """Take the marker away, unless it is another lab's."""
    with suppress(OSError):
        if elsewhere(id) is None:
            (paths.lab_markers() / id).unlink(missing_ok=True)
