"""Finding what dead owners left, and taking it away, from the names alone.

Nothing here needs the process that made a lab, its memory, or a complete manifest: namespaces carry the lab's id,
every process of a lab lives in one of them, and the folder carries the id too. So this works after a SIGKILL at any
moment and is safe to run twice or by two processes at once.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from chaos.base import paths
from chaos.base.paths import PREFIX, ProcessIdentity
from chaos.targets.kind import TargetKind
from chaos.targets.labs import cgroups, disks, kinds, markers, network, processes, traces

KEPT_LOGS = 20
"""How many dead labs' logs are kept."""


@dataclass(frozen=True)
class Leftover:
    """Something whose owner is dead and that no lease keeps."""

    what: str
    lab: str
    remedy: str = "run: opensearch-chaos recover"


@dataclass(frozen=True)
class LabRecord:
    """What the disk and the kernel say of one lab id."""

    id: str
    owner_alive: bool
    lease: bool
    namespaces: tuple[str, ...]
    folder: Path | None

    @property
    def orphaned(self) -> bool:
        """True when nobody will take it away: its owner is dead, and it was no ``lab up`` or one that never ended."""
        return not self.owner_alive and not self.lease


def logs() -> Path:
    """Where the logs of labs that are gone are kept."""
    return paths.state() / "logs"


def known() -> list[LabRecord]:
    """Every lab of which there is a folder, a namespace, a control group, a mount or a loop device."""
    ids: dict[str, list[str]] = {}
    folders, marked = {path.name for path in paths.labs().glob("*")}, markers.ids()
    for name in network.namespaces():
        fitting = [id for id in folders | marked if name.startswith(f"{PREFIX}{id}-")]
        # ids may hold dashes: the longest that fits; without any what made it, or took it away, died in between
        id = max(fitting, key=len, default=name.removeprefix(PREFIX).split("-")[0])
        if markers.elsewhere(id) is None and (id in folders or os.geteuid() == 0):
            ids.setdefault(id, []).append(name)
    for id in cgroups.ids():
        if (paths.labs() / id).is_dir() or (os.geteuid() == 0 and markers.elsewhere(id) is None):
            ids.setdefault(id, [])
    for id in disks.ids():
        ids.setdefault(id, [])
    for id in set().union(*(kind.known() for kind in kinds.every().values())):
        ids.setdefault(id, [])
    for folder in paths.labs().glob("*"):
        ids.setdefault(folder.name, [])
    records = []
    for id, names in sorted(ids.items()):
        folder = paths.labs() / id
        owner_alive = lease = False
        try:
            manifest = json.loads((folder / "lab.json").read_text())
            owner_alive = ProcessIdentity.from_json(manifest["owner"]).alive()
            lease = bool(manifest["lease"]) and (folder / "leased").exists()
        except (OSError, ValueError, KeyError, TypeError):
            owner_alive = _young(folder)
        records.append(LabRecord(id, owner_alive, lease, tuple(names), folder if folder.is_dir() else None))
    return records


def _young(folder: Path) -> bool:
    """A folder without a manifest belongs to someone who is about to write it, for a few seconds."""
    import time

    try:
        return time.time() - folder.stat().st_mtime < 5
    except FileNotFoundError:
        return False


def leftovers() -> list[Leftover]:
    """Everything that a dead owner left on this machine."""
    found = []
    for record in known():
        if not record.orphaned:
            continue
        found += [Leftover(what, record.id) for what in traces.held(record.id, list(record.namespaces))]
    return found


def destroy(id: str) -> list[str]:
    """Take the lab with this id away: processes, disks, namespaces, folder; keep its logs.

    Returns what would not go.
    """
    with paths.locked(paths.state() / f"destroy-{id}.lock"):
        problems = _destroy(id)
    (paths.state() / f"destroy-{id}.lock").unlink(missing_ok=True)
    return problems


def _destroy(id: str) -> list[str]:
    if (other := markers.elsewhere(id)) is not None:
        return [f"the lab {id} on this machine is of the state folder {other}: it is left alone"]
    problems = []
    names = traces.namespaces(id)
    disks.release(id)  # a process that waits for a frozen disk does not die
    for _ in range(3):  # a process may have been started while the first round looked
        living = network.processes_in(names)
        if not living:
            break
        stuck = processes.end(living)
        problems = [f"process {pid} in {living[pid]} does not die" for pid in stuck]
    if problems:
        return problems
    if unknown := _unknown_kind(id):
        return [unknown]
    problems = [problem for kind in kinds.every().values() for problem in _told(kind, id)]
    problems = problems or disks.remove(id)  # a container holds its disk
    if problems:
        return problems
    for name in names:
        network.remove(name)
    problems = cgroups.Groups(id).remove()
    markers.release(id)
    folder = paths.labs() / id
    if folder.is_dir():
        _keep_logs(folder)
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            problems.append(f"folder {folder} cannot be removed")
    return problems


def _unknown_kind(id: str) -> str | None:
    """Why a lab cannot be taken away whose kind nobody here knows: its manifest is all that says what there is of it.

    None where its kind is here, or where it has no manifest: then only what was ours had been made.
    """
    try:
        kind = str(json.loads((paths.labs() / id / "lab.json").read_text())["kind"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    there = kinds.every().get(kind)
    if there is not None and not isinstance(there, kinds.Broken):
        return None
    return f"lab {id} is of kind '{kind}', which is not here: install the package that brings it, then try again"


def _told(kind: TargetKind, id: str) -> list[str]:
    """What a kind could not take away; an error of another package's kind is such a thing, and stops no other."""
    try:
        return kind.remove(id)
    except Exception as error:
        return [f"labs of kind '{kind.name}' could not be looked through: {type(error).__name__}: {error}"]


def _keep_logs(folder: Path) -> None:
    if not (folder / "logs").is_dir():
        return
    kept = logs()
    kept.mkdir(parents=True, exist_ok=True)
    target = kept / folder.name
    shutil.rmtree(target, ignore_errors=True)
    try:
        os.replace(folder / "logs", target)
    except OSError:
        return
    with suppress(FileNotFoundError):  # another process may be thinning them out as well
        for path in sorted(kept.iterdir(), key=lambda p: p.stat().st_mtime, reverse=True)[KEPT_LOGS:]:
            shutil.rmtree(path, ignore_errors=True)
