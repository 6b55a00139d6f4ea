"""``report``: runs judged again and their pages redrawn, from their folders alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from chaos.base.errors import SEVERITY, Exit, InvalidInput
from chaos.commands.common import (
    findings_name,
    print_verdict,
)
from chaos.commands.observing import RECORD, concluded


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders.", metavar="RUN...")],
    redact: Annotated[
        bool, typer.Option("--redact", help="Without names, addresses and paths, into RUN/redacted, to be mailed.")
    ] = False,
) -> None:
    """Judge runs again and redraw their reports, from their folders alone."""
    from chaos.commands.repeating import judged_again
    from chaos.commands.sides import compared
    from chaos.report import render
    from chaos.statistics.sides import is_sides

    codes = []
    for folder in runs:
        if (folder / "series.json").is_file():
            if redact:
                raise InvalidInput(f"{folder} is a series", remedy="name the runs in it: they are redacted one by one")
            codes.append(judged_again(folder))
            continue
        if is_sides(folder):
            if redact:
                raise InvalidInput(f"{folder} has sides", remedy="name the runs in it: they are redacted one by one")
            codes += compared(folder, render)
            continue
        if (folder / RECORD).is_file():
            if redact:
                raise InvalidInput(f"{folder} is an observation, which cannot be redacted", remedy="leave out --redact")
            codes.append(concluded(folder))
            continue
        if not (folder / "plan.json").is_file():
            raise InvalidInput(
                f"{folder} is no run folder (it has no plan.json)", remedy="name a folder under reports/"
            )
        page = render(folder, redact=redact)
        findings = json.loads((page.parent / "findings.json").read_text())
        print_verdict(findings_name(folder), page.parent, findings)
        codes.append(Exit(findings["exit_code"]))
    raise typer.Exit(int(min(codes, key=SEVERITY.index)))
