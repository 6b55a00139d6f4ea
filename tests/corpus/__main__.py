"""``python tests/corpus``: take run folders and ledgers into the corpus, and say what it holds.

A run is kept as it was recorded: plan, history, ledger, read-back, clean-up and audit, without what is made from these
(report, findings) and without logs. Nothing of it is ever changed afterwards.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import corpuskit as kit

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="What the run is called in the corpus.")],
    run: Annotated[Path, typer.Argument(help="The run's folder.")],
    checkout: Annotated[Path | None, typer.Option(help="A path that is not to be kept: that of its checkout.")] = None,
) -> None:
    """Take a run in, judge it, and keep the judgement."""
    kit.pack(run, name, checkout)
    kit.write_verdicts(kit.verdicts() | {name: kit.judged(name)})
    print(f"{name}: {kit.verdicts()[name]['outcome']}, {kit.archive(name).stat().st_size:,} bytes")


@app.command()
def ledger(
    provider: Annotated[str, typer.Argument(help="The provider whose moves the ledger holds.")],
    file: Annotated[Path, typer.Argument(help="A run's ledger.jsonl.")],
) -> None:
    """Take a ledger in: each row as it was written."""
    kit.ledger(provider).write_bytes(file.read_bytes())


@app.command()
def page() -> None:
    """Write README.md: what each run is."""
    kit.README.write_text(kit.page())


if __name__ == "__main__":
    app()
