"""``judge``: an old history held against new expectations, or other objectives."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chaos.base.errors import Exit, InvalidInput
from chaos.commands.common import Objectives, out, print_verdict


def judge(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    experiment: Annotated[
        Path | None,
        typer.Option("--experiment", help="The file with the new expectations; default its own.", show_default=False),
    ] = None,
    objective: Objectives = None,
    file: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Write findings (.json) or the report (.html).", show_default=False),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Allow -o to replace the run's own findings or report.")
    ] = False,
) -> None:
    """Judge an old run by new expectations, or by other objectives; nothing of the run is changed."""
    from chaos.base.paths import write_atomically, write_json
    from chaos.commands.comparing import refuse_suffix
    from chaos.definitions import objectives
    from chaos.history.seal import BESIDE, SEAL
    from chaos.registry import GRAMMAR, load_experiment
    from chaos.report import render_html
    from chaos.statistics.rejudge import rejudge

    if experiment is None and not objective:
        raise InvalidInput(
            "judge holds a run against something else than its own experiment",
            remedy="name it: --experiment NEW.yaml, --objective read=100ms, or both",
        )
    good = objectives.parse(objective or (), GRAMMAR.operations, streams=True)
    refuse_suffix(file)
    if file is None and overwrite:
        raise InvalidInput("--overwrite says what -o may replace", remedy="leave it out, or say -o FILE")
    own = [(run / name).resolve() for name in ("findings.json", "report.html")]
    record = [(run / name).resolve() for name in (*BESIDE, SEAL)]
    if file is not None and (file.resolve() in record or (run / "history").resolve() in file.resolve().parents):
        raise InvalidInput(f"{file} is a record of the run, and no place for findings", remedy="choose another file")
    if file is not None and not overwrite and file.resolve() in own:
        raise InvalidInput(f"{file} is the run's own", remedy="choose another file, or say --overwrite")
    new = load_experiment(experiment, good=good) if experiment is not None else None
    history, findings, notes = rejudge(run, new, good)
    by = new.name if new is not None else "other objectives"
    print_verdict(f"{run.name} by {by}", run, findings, report=False)
    for note in notes:
        out.print(f"  note: {note}", markup=False)
    if file is not None:
        try:
            if file.suffix == ".json":
                write_json(file, {**findings, "judged_by": by, "notes": notes})
            else:
                write_atomically(file, render_html(history, findings))
        except OSError as error:
            raise InvalidInput(f"cannot write {file}: {error.strerror}") from error
        out.print(f"  written: {file}", markup=False)
    raise typer.Exit(int(Exit(findings["exit_code"])))
