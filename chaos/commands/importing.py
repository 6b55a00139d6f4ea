"""``workload import``: a workload's file of what a team has."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from chaos.base.errors import InvalidInput
from chaos.commands.common import out
from chaos.load.importing.rows import OUTCOMES, Row, counted, in_one_line


def workload_import(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="An index or index template (JSON), documents (a line each; plain, .gz, .bz2, .zst), searches as "
            "_msearch takes them, a search slow log; or the folder of a workload of OpenSearch Benchmark.",
            metavar="PATH...",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The workload's file to make (x.yaml).", metavar="FILE")
    ],
    workload_params: Annotated[
        str, typer.Option(help="Parameters of a workload of OpenSearch Benchmark.", metavar="NAME:VALUE,...")
    ] = "",
    test_procedure: Annotated[
        str | None, typer.Option(help="Which of its test procedures; else its default.", metavar="NAME")
    ] = None,
    also_read: Annotated[
        list[Path] | None,
        typer.Option(
            help="A folder beside it that its templates may read, such as ../common_operations.", metavar="FOLDER"
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The workload's name; default that of the first PATH.")] = None,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print what became of each part as a table in Markdown.")
    ] = False,
    values: Annotated[
        bool, typer.Option("--values/--no-values", help="Whether frequent values of documents may stand in the file.")
    ] = True,
) -> None:
    """Make a workload's file of documents, searches and an index that you have. Nothing is downloaded or started."""
    from chaos.definitions.loading import SUFFIXES
    from chaos.definitions.selectors import NAME
    from chaos.definitions.source import shown
    from chaos.load.importing import making, sources

    if output.suffix not in SUFFIXES:
        raise InvalidInput(f"{output}: a workload's file ends with .yaml", remedy="name it so")
    if output.exists():
        raise InvalidInput(f"{shown(output)}: there is such a file", remedy="name another one, or remove it")
    if not output.parent.is_dir():
        raise InvalidInput(f"{shown(output.parent)}: there is no such folder")
    if name is not None and not re.fullmatch(NAME, name):
        raise InvalidInput(f"--name {name}: a name has small letters, digits and dashes")
    for folder in also_read or ():
        if not folder.is_dir():
            raise InvalidInput(f"--also-read {folder}: there is no such folder")
    brought = sources.bring(
        paths, parameters=sources.parameters(workload_params), procedure=test_procedure, also=also_read or ()
    )
    made = making.make(brought, name=name, values=values)
    _write(output, made.text)
    if as_markdown:
        print("\n".join(_table(made.rows)))
        return
    for row in made.rows:
        out.print(row.said(), markup=False)
    numbers = ", ".join(f"{number} {outcome}" for outcome, number in counted(made.rows) if number)
    out.print(f"\n{numbers}. {shown(output)} is made: opensearch-chaos workload check {shown(output)}", markup=False)
    out.print(f"\nFor an experiment beside it; set each {making.CONFIRM} (docs/objectives.md):\n", markup=False)
    for line in made.load(f"./{output.name}"):
        out.print(line, markup=False)


def _table(rows: Sequence[Row]) -> Iterator[str]:
    """A line for each outcome and reason: what shares both is told together."""
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        grouped.setdefault((row.outcome, row.what, row.why), []).append(row.name)
    yield "| outcome | what | which | why |"
    yield "|---|---|---|---|"
    for outcome in OUTCOMES:
        for (its, what, why), names in grouped.items():
            if its == outcome:
                cells = (its, what, ", ".join(f"`{name}`" for name in names), why)
                yield "| " + " | ".join(in_one_line(cell).replace("|", "\\|") for cell in cells) + " |"


def _write(output: Path, text: str) -> None:
    """Puts the file in its place, once it is one that an experiment can name."""
    from chaos.definitions.loading import load_workload
    from chaos.load.dataset import Dataset

    descriptor, draft = tempfile.mkstemp(prefix=f".{output.stem}-", suffix=output.suffix, dir=output.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Dataset(load_workload(draft)).refuse_unfit()
        os.chmod(draft, 0o666 & ~_umask())
        os.replace(draft, output)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
