"""``export``: runs in forms that other programs read: OpenSearch Dashboards, Prometheus and Grafana, checkers."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chaos.base.errors import InvalidInput
from chaos.base.paths import write_atomically
from chaos.commands.common import out

if TYPE_CHECKING:
    from chaos.report.exported.source import Run

WRITTEN = ("ndjson", "openmetrics")
CHECKERS = ("elle", "elle-reads")


def export(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs.", metavar="RUN...")],
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="ndjson (for POST _bulk), openmetrics (for promtool), elle or elle-reads (for elle-cli).",
            metavar="FORM",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="The file to write; of elle a folder. Default: standard output."),
    ] = None,
    template: Annotated[
        Path | None,
        typer.Option("--template", help="With ndjson: write the index template of the documents to this file."),
    ] = None,
    redact: Annotated[bool, typer.Option("--redact", help="Without names, addresses and paths of your own.")] = False,
    format: Annotated[str | None, typer.Option("--format", help="An older name of --to.", hidden=True)] = None,
) -> None:
    """Export runs: documents for OpenSearch, time-stamped metrics for Prometheus, histories for elle-cli.

    Fields, metrics and how to load them: docs/export.md.
    """
    form = to or format or "elle"
    _refuse(runs, form, to, format, template)
    if form in WRITTEN:
        _export(runs, form, file, template, redact=redact)
    else:
        _for_checkers(runs, form, file, redact=redact)


def _refuse(runs: Sequence[Path], form: str, to: str | None, format: str | None, template: Path | None) -> None:
    if to is not None and format is not None:
        raise InvalidInput("--to and --format are the same option", remedy="say --to alone")
    if form not in (*WRITTEN, *CHECKERS):
        raise InvalidInput(
            f"unknown export format '{form}'", remedy=f"say --to with one of {', '.join((*WRITTEN, *CHECKERS))}"
        )
    if template is not None and form != "ndjson":
        raise InvalidInput(f"--template goes with --to ndjson, not with {form}", remedy="leave it out")
    for run in runs:
        if not (run / "plan.json").is_file():
            raise InvalidInput(f"{run} is no run folder (it has no plan.json)", remedy="name a folder under reports/")


def _export(runs: Sequence[Path], form: str, file: Path | None, template: Path | None, *, redact: bool) -> None:
    from chaos.report.exported import catalogue
    from chaos.report.exported.source import Run

    sources = [Run(folder, redact=redact) for folder in runs]
    twice = [name for name, number in Counter(each.name for each in sources).items() if number > 1]
    if twice:
        raise InvalidInput(f"the run {twice[0]} is named twice", remedy="name each run once: its name is its label")
    if template is not None:
        _write(template, [json.dumps(catalogue.template(), indent=2), "\n"])
    lines = _lines(form, sources)
    if file is None:
        sys.stdout.writelines(lines)
        return
    _write(file, lines)
    out.print(f"{file}: written ({form})", markup=False)


def _lines(form: str, sources: Sequence[Run]) -> Iterable[str]:
    from chaos.report.exported import ndjson, openmetrics

    return {"ndjson": ndjson.lines, "openmetrics": openmetrics.lines}[form](sources)


def _write(file: Path, lines: Iterable[str]) -> None:
    try:
        write_atomically(file, "".join(lines))
    except OSError as error:
        raise InvalidInput(f"cannot write {file}: {error.strerror or error}") from error


def _for_checkers(runs: Sequence[Path], form: str, folder: Path | None, *, redact: bool) -> None:
    from chaos.checks.data import export as exporting

    if len(runs) != 1:
        raise InvalidInput(f"{form} takes one run", remedy="export the others each to a folder of their own")
    if folder is None:
        raise InvalidInput(f"{form} writes several files", remedy="name the folder for them: -o FOLDER")
    if redact:
        raise InvalidInput(f"{form} has no names, so there is nothing to redact", remedy="leave --redact out")
    exporting.export(runs[0], folder, form)
    out.print(f"{folder}: written ({form})", markup=False)
