"""Experiments on a cluster that exists: ``run --on FILE``, and what pytest's ``--chaos-on FILE`` shares with it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.base.errors import SEVERITY, Aborted, ChaosError, Exit, InvalidInput, Lacking
from chaos.commands.common import ask_ready, on_known, print_verdict, say, say_error
from chaos.commands.planned import THE_CLUSTER, Planned
from chaos.commands.planning_on import planned, show

if TYPE_CHECKING:
    from chaos.definitions import Experiment
    from chaos.run.guards import Guard
    from chaos.run.options import Permits, RunResult
    from chaos.targets.existing.compare import Row


def runs_on(
    file: Path,
    experiments: Sequence[Experiment],
    seed: int | None,
    out: Path,
    *,
    dry_run: bool,
    quiet: bool,
    controlled: bool,
    topology: str | None = None,
    fail_on_known: bool = False,
    yes: bool = False,
) -> Exit:
    """Run them one after the other; the worst outcome. ``topology``: what they were loaded with instead of their own.
    ``yes``: without asking the person at the terminal first.

    Raises InvalidInput, before anything is changed there, with everything that forbids one of them; Aborted where the
    person at the terminal does not want it.
    """
    from chaos.run.leftovers import refuse_leftovers
    from chaos.run.ready import refuse_unready

    runs = Runs(file, out, seed, controlled=controlled, topology=topology)
    every = runs.plans(experiments)
    refuse(every)
    if dry_run:
        for each in every:
            show(each)
        ask_ready(experiments)
        return Exit.PASS
    refuse_leftovers()
    codes: list[Exit] = []
    for experiment in experiments:
        refuse_unready(experiment)
    if not yes:
        ask(every)
    for experiment in experiments:
        try:
            result = runs.run(experiment, quiet=quiet)
        except ChaosError as error:
            say_error(error)
            codes.append(error.exit_code)
            break
        print_verdict(experiment.name, result.folder, result.findings)
        codes.append(on_known(result.exit_code, result.findings, fail_on_known))
        if result.stopped:
            codes.append(Exit.ABORTED)
        if runs.over is not None:
            break
    return min(codes, key=SEVERITY.index)


def ask(every: Sequence[Planned]) -> None:
    """Above rung ``node`` the person at the terminal says yes first; elsewhere there is no question.

    Raises Aborted where the answer is another one.
    """
    from chaos.definitions.existing import RUNGS

    target, day = every[0].target, every[0].day
    if RUNGS.index(target.rung_on(day)) <= RUNGS.index("node") or not at_terminal():
        return
    file = target.written
    say(f"{target.file} allows rung {file.rung} until {file.until}.")
    for made in every:
        hit = sorted({name for each in made.reached for name in each.hit})
        say(f"  {made.experiment.name} hits at worst: {', '.join(hit) or 'no node'} (rung {made.needs} is needed)")
    who = file.identity
    sys.stderr.write(f"Run on {file.name}, which is cluster {who.cluster_name} ({who.cluster_uuid})? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Aborted("nothing was started: that was no yes", remedy="answer y, or give --yes")


def at_terminal() -> bool:
    """Whether somebody can answer who reads what is asked."""
    try:
        return sys.stdin.isatty()
    except (ValueError, AttributeError):  # it was closed
        return False


class Runs:
    """Runs on the cluster of one file, one at a time. ``seed`` None: each experiment's own.

    ``over``: why no further one begins there; None while they may. ``guards`` and ``permits``: as of
    :class:`chaos.run.options.RunOptions`, for each of them.
    """

    def __init__(
        self, file: Path, out: Path, seed: int | None, *, controlled: bool = True, topology: str | None = None
    ) -> None:
        self.file, self.out, self.seed, self.controlled, self.topology = file, out, seed, controlled, topology
        self.guards: Sequence[Guard] = ()
        self.permits: Permits | None = None
        self.over: str | None = None

    def plans(self, experiments: Sequence[Experiment]) -> list[Planned]:
        """What each would be there now, by one look. Raises InvalidInput where the file cannot be read, or nobody
        answers."""
        from chaos.definitions.existing import load_existing, today
        from chaos.registry import PROVIDERS
        from chaos.run import reaching
        from chaos.targets.existing.seen import seen_of

        target, day = load_existing(self.file), today()
        seen = seen_of(target, shards=True)
        offers = reaching.offers_on(PROVIDERS, target.written)
        return [
            planned(each, target, seen, each.seed if self.seed is None else self.seed, offers, day)
            for each in experiments
        ]

    def ready(self, experiments: Sequence[Experiment]) -> list[str | None]:
        """For each why it can never be there; None: it can, and nothing forbids it now. There is at least one of these.

        Raises InvalidInput with everything that forbids others than the first kind, before anything is changed.
        """
        from chaos.run import space
        from chaos.run.leftovers import refuse_leftovers
        from chaos.run.ready import refuse_unready

        every = self.plans(experiments)
        whys = [lacks(made) if made.never else None for made in every]
        able = [made for made in every if not made.never]
        if not able:
            said = "".join(f"\n  {why}" for why in whys)
            raise InvalidInput(
                f"{self.file}: none of the experiments that are selected ({len(every)}) can run there:{said}",
                remedy=f"see: opensearch-chaos plan EXPERIMENT --on {self.file}",
            )
        refuse(able)
        refuse_leftovers()
        for made in able:
            refuse_unready(made.experiment)
        space.refuse_scarce(space.wanted([made.experiment for made in able], self.out, own_lab=False))
        return whys

    def run(self, experiment: Experiment, *, quiet: bool) -> RunResult:
        """Run it once. The cluster is looked at once more: what was so before need not be so now.

        Raises Lacking where it can never be there; else ChaosError, after which no other begins, as after a run that
        was aborted or left something behind.
        """
        from chaos.base.console import Reporter
        from chaos.registry import PROVIDERS
        from chaos.run.spec import On, RunSpec, carry_out
        from chaos.targets.existing.target import ExistingTarget

        if self.over is not None:
            raise InvalidInput(f"{experiment.name} is not run: {self.over}")
        try:
            (made,) = self.plans([experiment])
            if made.never:
                raise Lacking(lacks(made))
            refuse([made])
            there = ExistingTarget.of(made.target, made.experiment.topology)
            on = On(there.kind, made.target.file)
            loaded = {"topology": self.topology, "controlled": self.controlled}
            reporter = Reporter(quiet=quiet)
            reporter.line(f"experiment {experiment.name} on {made.target.written.name}")
            result = carry_out(
                RunSpec.of(made.experiment, self.seed, on=on, **loaded),
                out=self.out,
                providers=PROVIDERS,
                reporter=reporter,
                lab=there,
                guards=self.guards,
                permits=self.permits,
            )
        except Lacking:
            raise
        except ChaosError as error:
            self.over = f"before it {experiment.name} could not be carried out: {error}"
            raise
        if result.exit_code in (Exit.ABORTED, Exit.DIRTY):
            self.over = f"before it {experiment.name} ended {result.exit_code.name.lower()} ({result.folder})"
        elif result.stopped:
            self.over = f"a signal came before {experiment.name} was over ({result.folder})"
        return result


def lacks(made: Planned) -> str:
    """Why an experiment can never be on this cluster, in one line."""
    said = "; ".join(dict.fromkeys(f"{row.what}: {row.says}" for row in made.never))
    return f"{made.experiment.name} cannot run on {made.target.written.name}: {said}"


def refuse(every: Sequence[Planned]) -> None:
    """Raises InvalidInput with all that forbids any of these now. They are of one target, at least one, and what holds
    for all of them is told once."""
    target = every[0].target
    common = [each for each in every[0].refused if all(each in made.refused for made in every)]
    if not any(made.refused for made in every):
        common = busy(every)
    elif any(where == THE_CLUSTER for where, _ in every[0].refused):
        common = [*_under_way(every[0]), *common]
    names = [f"{made.experiment.name} may not run on {target.written.name}:" for made in every]
    said = _told(names[0] if len(every) == 1 else f"no experiment may run on {target.written.name}:", common)
    for name, made in zip(names, every, strict=True):
        said += _told(name, [each for each in made.refused if each not in common])
    if said:
        raise InvalidInput("\n".join(said), remedy=f"see: opensearch-chaos plan EXPERIMENT --on {target.file}")


def _told(head: str, rows: Sequence[tuple[str, Row]]) -> list[str]:
    told = [f"  {where}, {row.what}: {row.says}" + (f" ({row.remedy})" if row.remedy else "") for where, row in rows]
    return [head, *told] if told else []


def _under_way(made: Planned) -> list[tuple[str, Row]]:
    """Another run, by which the cluster is not as its file says; nothing where that cannot be read."""
    from chaos.run import on_target
    from chaos.targets.existing.target import ExistingTarget

    try:
        rows = on_target.under_way(ExistingTarget(made.target, made.experiment.topology))
    except ChaosError:
        return []
    return [(THE_CLUSTER, row) for row in rows]


def busy(every: Sequence[Planned]) -> list[tuple[str, Row]]:
    """What a plan does not ask for, since it is more than a look: templates of others, and another run."""
    from chaos.registry import PROVIDERS
    from chaos.run import on_target, reaching
    from chaos.targets.existing.target import ExistingTarget

    made = every[0]
    cluster = ExistingTarget(made.target, made.experiment.topology)
    prefix = made.target.written.prefix
    rows = on_target.refused_templates(cluster, on_target.any_index(prefix), prefix)
    rows += on_target.refused_beside(cluster)
    if controlled := [each for each in every if each.experiment.controller is not None]:
        rows += on_target.refused_canaries(cluster, controlled[0].experiment.topology)
    rows += on_target.refused_instruments(made.target)
    offers = reaching.offers_on(PROVIDERS, made.target.written)
    for each in every:
        there = ExistingTarget(each.target, each.experiment.topology)
        rows += [row for row in on_target.refused_hosts(there, each.experiment, each.seed, offers) if row not in rows]
        rows += [row for row in on_target.refused_fis(there, each.experiment, offers) if row not in rows]
        rows += [row for row in on_target.refused_domain(there, each.experiment, offers) if row not in rows]
        rows += [row for row in on_target.refused_pods(there, each.experiment, each.seed, offers) if row not in rows]
    return [(THE_CLUSTER, row) for row in rows]
