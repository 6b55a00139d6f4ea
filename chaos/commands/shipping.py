"""``experiments``: those that this package brings: listed, and copied to be changed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from chaos.base.errors import InvalidInput
from chaos.commands.common import out


def experiments(
    chosen: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names, such as data-node-kill; none lists them all.", metavar="[NAME]...", show_default=False
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--copy-to", help="Copy the named ones into FOLDER/experiments.", metavar="FOLDER", show_default=False
        ),
    ] = None,
) -> None:
    """List the experiments that come with this package, or copy some to change them. `run NAME` runs one as it is."""
    from chaos.definitions import shipped

    if to is not None:
        if not chosen:
            raise InvalidInput(
                "--copy-to needs to know which", remedy="name some: opensearch-chaos experiments lists them"
            )
        for file in copied(chosen, to):
            out.print(f"wrote {file}", markup=False)
        return
    names = {file: name for name, file in shipped.files().items()}
    files = [shipped.named(name) for name in chosen] if chosen else list(names)
    width = max(len(names[file]) for file in files)
    for file in files:
        out.print(f"{names[file]:{width}}  {_says(file)}".rstrip(), markup=False, soft_wrap=True)


def copied(chosen: list[str], to: Path) -> list[Path]:
    """Copy shipped experiments, with the workloads that they name, below ``to``; returns the files that were written.

    Raises InvalidInput, and writes nothing, for a name that there is not and for a file that is there already.
    """
    from chaos.definitions import shipped

    place = shipped.folder()
    files = {file: to / shipped.FOLDER / file.relative_to(place) for name in chosen for file in _whole(name)}
    there = [target for target in files.values() if target.exists()]
    if there:
        raise InvalidInput(
            f"{there[0]} is there already, and nothing was written", remedy="move it away, or name another folder"
        )
    try:
        for file, target in files.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    except OSError as error:
        raise InvalidInput(
            f"cannot write {error.filename}: {error.strerror}", remedy="name a folder that you may write to"
        ) from error
    return list(files.values())


def _whole(name: str) -> list[Path]:
    from chaos.definitions import shipped

    return shipped.with_companions(shipped.named(name))


def _says(file: Path) -> str:
    """The first sentence of its description."""
    from chaos.definitions.source import Source

    data = Source.read(file).data
    text = " ".join(str(data.get("description") or data.get("title") or "").split())
    first, stop, _ = text.partition(". ")
    return f"{first}." if stop else first
