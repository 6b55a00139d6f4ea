"""``hunt``: settings that a cluster accepts and cannot take back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from chaos.base.errors import Exit
from chaos.commands.common import Home, out


def hunt(
    topology: Annotated[str, typer.Argument(help="A topology's name or file.")] = "one-node",
    seed: Annotated[int, typer.Option(help="The same seed draws in the same order.", min=0)] = 1,
    duration: Annotated[str, typer.Option("--for", help="How long. The next call goes on from there.")] = "30m",
    journal: Annotated[Path, typer.Option(help="What was drawn, and what became of it.")] = Path(
        "reports/hunt/settings.jsonl"
    ),
    opensearch_home: Home = None,
) -> None:
    """Change settings at random, in labs of its own, and see whether the cluster can take them back."""
    from chaos.base.console import Reporter
    from chaos.base.units import Duration
    from chaos.campaign.settings_hunt import DEAF, Hunt, Journal
    from chaos.definitions import load_topology
    from chaos.run import space
    from chaos.run.pool import LabPool
    from chaos.run.stopping import Stop, signals
    from chaos.target.labs import kinds

    seconds = Duration.parse(duration)
    spec = load_topology(topology)
    space.refuse_scarce([space.in_state("the hunt", space.of_topology(spec, kinds.DEFAULT))])
    reporter, stop = Reporter(), Stop()
    pool = LabPool(reporter.line, opensearch_home=opensearch_home)
    kept = Journal(journal)
    hunting = Hunt(pool, spec, kept, seed, stop, reporter.line)
    try:
        with signals(stop, reporter):
            try:
                found = hunting.run(seconds)
            finally:
                pool.close()
    finally:
        reporter.close()
    counted = ", ".join(f"{number} {outcome}" for outcome, number in Counter(x["outcome"] for x in kept.lines).items())
    out.print(f"{len(kept.lines)} draws: {counted or 'none'}   {journal}", markup=False)
    for each in found:
        says = ", then ".join(f"{key}: {value}" for key, value in each["changes"])
        out.print(f"  {each['outcome']}: {says}", markup=False)
    if any(each["outcome"] == DEAF for each in found):
        raise typer.Exit(int(Exit.WEAKNESS))
