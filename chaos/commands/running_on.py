"""``run --on FILE``: experiments on a cluster that exists."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos.base.errors import SEVERITY, ChaosError, Exit, InvalidInput
from chaos.commands.common import print_verdict, say_error
from chaos.commands.planning_on import Planned, planned, show

if TYPE_CHECKING:
    from chaos.definitions import Experiment
    from chaos.definitions.existing import Existing


def runs_on(
    file: Path,
    experiments: Sequence[Experiment],
    seed: int | None,
    out: Path,
    *,
    dry_run: bool,
    quiet: bool,
    controlled: bool,
) -> Exit:
    """Run them one after the other; the worst outcome. Raises InvalidInput, before anything is changed there, with
    everything that forbids one of them."""
    from chaos.base.console import Reporter
    from chaos.definitions.existing import load_existing, today
    from chaos.registry import PROVIDERS
    from chaos.run import reaching
    from chaos.run.execution import run as run_one
    from chaos.run.leftovers import refuse_leftovers
    from chaos.run.options import RunOptions
    from chaos.run.plan import again
    from chaos.target.existing.seen import seen_of
    from chaos.target.existing.target import ExistingTarget

    codes: list[Exit] = []

    def planning(experiment: Experiment) -> tuple[Planned, Existing]:
        target = load_existing(file)
        seen = seen_of(target, shards=True)
        offers = reaching.offers_on(PROVIDERS, target.written)
        made = planned(experiment, target, seen, experiment.seed if seed is None else seed, offers, today())
        refuse(made, target)
        return made, target

    every = [planning(each)[0] for each in experiments]
    if dry_run:
        for each in every:
            show(each, each.experiment.seed if seed is None else seed)
        return Exit.PASS
    refuse_leftovers()
    for experiment in experiments:
        try:
            made, target = planning(experiment)  # once more: what was so before the run before need not be so now
        except InvalidInput as error:
            if not codes:
                raise
            say_error(error)
            codes.append(error.exit_code)
            break
        there = ExistingTarget.of(target, made.experiment.topology)
        reporter = Reporter(quiet=quiet)
        reporter.line(f"experiment {experiment.name} on {target.written.name}")
        first = seed if seed is not None else experiment.seed
        command = f"{again(experiment.file, first, controlled=controlled)} --on {target.file}"
        try:
            result = run_one(made.experiment, RunOptions(out, command, PROVIDERS, seed=seed, lab=there), reporter)
        except ChaosError as error:
            say_error(error)
            codes.append(error.exit_code)
            break
        finally:
            reporter.close()
        print_verdict(experiment.name, result.folder, result.findings)
        codes.append(result.exit_code)
        if result.exit_code in (Exit.ABORTED, Exit.DIRTY):
            break
    return min(codes, key=SEVERITY.index)


def refuse(made: Planned, target: Existing) -> None:
    """Raises InvalidInput with all that forbids a run there today."""
    from chaos.run import on_target
    from chaos.target.existing.target import ExistingTarget

    wrong: list[tuple[str, Any]] = list(made.refused)
    if not wrong:
        cluster = ExistingTarget(target, made.experiment.topology)
        index = f"{on_target.LOAD_PREFIX}0000-load"
        wrong += [("the cluster", row) for row in on_target.refused_templates(cluster, index)]
        wrong += [("the cluster", row) for row in on_target.refused_beside(cluster)]
    if wrong:
        said = [
            f"  {where}, {row.what}: {row.says}" + (f" ({row.remedy})" if row.remedy else "") for where, row in wrong
        ]
        raise InvalidInput(
            "\n".join([f"{made.experiment.name} may not run on {target.written.name}:", *said]),
            remedy=f"see: opensearch-chaos plan EXPERIMENT --on {target.file}",
        )
