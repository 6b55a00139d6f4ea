"""A repository of a team's own: an experiment, a topology, pytest's settings, a CI workflow.

The files are those of ``files/``, written as they are; ``REQUIREMENT`` and ``SOURCE`` stand for where this package is
installed from.
"""

from __future__ import annotations

import shutil
from importlib.resources import files as resources
from pathlib import Path

from chaos.base.errors import InvalidInput
from chaos.commands.install_source import WHEELS, InstallSource

FILES = {
    "README.md": "README.md",
    "experiments/zone-goes-dark.yaml": "experiments/zone-goes-dark.yaml",
    "topologies/ours.yaml": "topologies/ours.yaml",
    "pytest.ini": "pytest.ini",
    "requirements.txt": "requirements.txt",
    ".gitignore": "gitignore",
    ".github/workflows/chaos.yml": "workflow/chaos.yml",
}
"""Where each file goes, and where its text is; a name with a dot would be left out of a wheel, or taken for our own."""


def refuse_taken(folder: Path) -> None:
    """Raise InvalidInput where one of the files is there already."""
    there = [name for name in FILES if (folder / name).exists()]
    if there:
        raise InvalidInput(
            f"{folder / there[0]} is there already, and nothing was written",
            remedy="name a folder without it, or move it away",
        )


def write(folder: Path, install: InstallSource) -> list[Path]:
    """Write all files into a folder, which is made where it is not there; returns them. ``install``: from where.

    Raises InvalidInput, and writes nothing, where one of them is there already or the folder cannot be made.
    """
    refuse_taken(folder)
    source = resources("chaos.commands.repository") / "files"
    written = []
    try:
        for name, place in FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            text = source.joinpath(place).read_text()
            (folder / name).write_text(text.replace("REQUIREMENT", install.requirement).replace("SOURCE", install.says))
            written.append(folder / name)
        if install.wheel is not None:
            (folder / WHEELS).mkdir(exist_ok=True)
            written.append(Path(shutil.copyfile(install.wheel, folder / WHEELS / install.wheel.name)))
    except OSError as error:
        for file in written:
            file.unlink(missing_ok=True)
        raise InvalidInput(
            f"cannot write {error.filename}: {error.strerror}", remedy="name a folder that you may write to"
        ) from error
    return written
