"""``export``: a run's history in a form that other checkers read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chaos.base.errors import InvalidInput
from chaos.commands.common import out


def export(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    file: Annotated[Path, typer.Option("-o", "--out", help="The file to write.")],
    format: Annotated[str, typer.Option("--format", help="The form: elle.")] = "elle",
) -> None:
    """Export a run's history for elle-cli and Knossos."""
    if not (run / "plan.json").is_file():
        raise InvalidInput(f"{run} is no run folder (it has no plan.json)", remedy="name a folder under reports/")
    try:
        from chaos.checks.data import export as exporting  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise InvalidInput(f"this version cannot export histories: {error}") from None
    try:
        exporting.export(run, file, format)
    except OSError as error:
        raise InvalidInput(f"cannot write {file}: {error.strerror or error}") from error
    out.print(f"{file}: written ({format})", markup=False)
