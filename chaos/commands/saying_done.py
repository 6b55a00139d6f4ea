"""``done``: tells a run that what it waits for, and a person does, is done."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chaos.commands.common import out


def done(
    run: Annotated[Path, typer.Argument(help="The run's folder, as the run itself says it.", metavar="RUN")],
    says: Annotated[str, typer.Option("--says", help="A line for the record, for example what was done.")] = "",
) -> None:
    """Say that what a run waits for (during: manual) is done."""
    from chaos.run.during import say_done

    phase, what = say_done(run, " ".join(says.split()))
    out.print(f"{phase}: {what}: said to be done", markup=False)
