"""``opensearch-chaos init``: a repository of a team's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chaos.commands.common import out


def init(
    folder: Annotated[Path, typer.Argument(help="Where; made if it is not there.")] = Path("."),
) -> None:
    """Write a repository of your own: experiment, topology, pytest's settings, CI workflow."""
    from chaos.commands import repository

    for file in repository.write(folder):
        out.print(f"wrote {file}", markup=False)
    here = "" if folder == Path(".") else f"cd {folder} && "
    out.print(f"next: {here}opensearch-chaos run experiments/zone-goes-dark.yaml", markup=False)
