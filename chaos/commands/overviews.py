"""``suite`` and ``trend``: pages over many runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from chaos.base.errors import SEVERITY, Exit, InvalidInput
from chaos.commands.common import out

Runs = Annotated[list[Path], typer.Argument(help="Run folders, series, or folders of them.", metavar="RUN...")]


def suite(
    runs: Runs,
    file: Annotated[Path, typer.Option("-o", "--out", help="The page to write.")] = Path("suite.html"),
) -> None:
    """One page over many runs: experiments, versions, topologies; the worst run is the exit code."""
    from chaos.report.suite import suite_page

    loaded = _read(runs)
    _write(file, suite_page, loaded)
    out.print(f"{file}: {len(loaded)} runs", markup=False)
    codes = [Exit(int(run.findings.get("exit_code", Exit.ERROR))) for run in loaded]
    raise typer.Exit(int(min(codes, key=SEVERITY.index)))


def trend(
    runs: Runs,
    file: Annotated[Path, typer.Option("-o", "--out", help="The page to write.")] = Path("trend.html"),
) -> None:
    """One page of runs over time, per experiment and topology."""
    from chaos.report.trend import trend_page

    loaded = _read(runs)
    _write(file, trend_page, loaded)
    out.print(f"{file}: {len(loaded)} runs", markup=False)


def _read(paths: list[Path]) -> list[Any]:
    from chaos.statistics import facts, store

    return [facts.of_folder(folder) for folder in store.found(paths)]


def _write(file: Path, draw: Any, loaded: list[Any]) -> None:
    if file.suffix != ".html":
        raise InvalidInput(f"{file}: expected a name that ends in .html")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        draw(loaded, file)
    except OSError as error:
        raise InvalidInput(f"cannot write {file}: {error.strerror}") from error
