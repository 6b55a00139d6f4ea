"""Making the runs of an experiment with sides (``vary:``), in rounds in which every side runs once.

The order within a round is drawn from the seed, and every second round is the reverse of the one before it (A B, B A):
so what drifts steadily with time favours no side. All sides of round i have the seed s + i. The lab is used again as
long as the next side's is made of the same (:func:`chaos.run.pool.made_of`), else it is made anew for each run.

The first run in a new lab finds cold code, and costs half as much again (docs/ab.md). Where one lab serves all sides, a
run more is made in each new lab, before any that counts. Else each run has a lab of its own, also where a side follows
itself, so that all are as cold.

What is to be made stands on disk before the first run (``sides.json``), and what was made after each. So a making that
was cut off goes on: runs that a signal ended, or that died with their runner, are set aside and made again.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from chaos.base.console import Reporter
from chaos.base.errors import InvalidInput
from chaos.base.paths import make_folder
from chaos.campaign import repeat as making
from chaos.campaign.repeat import Arm, BurnIn, Labs, Made, Turn
from chaos.definitions import varied
from chaos.definitions.varied import Side, Varied
from chaos.faults.offers import Providers
from chaos.run import plan
from chaos.run.options import RunResult
from chaos.run.pool import made_of
from chaos.run.spec import OfSide
from chaos.statistics.sides import BURN_IN, CUT_OFF, SideRun, SidesFile


def order(names: Sequence[str], times: int, seed: int) -> list[tuple[int, str]]:
    """(round, side) of every run in their order."""
    drawn = random.Random(f"sides {seed}")
    turns: list[tuple[int, str]] = []
    first: list[str] = []
    for number in range(times):
        first = first[::-1] if number % 2 else drawn.sample(list(names), len(names))
        turns += [(number, name) for name in first]
    return turns


def one_lab(experiment: Varied) -> bool:
    """Whether a lab serves all sides: they differ in nothing that a lab is made of, and new ones are not asked for."""
    if experiment.new_labs:
        return False
    first, *others = (made_of(plan.lab_topology(side.experiment)) for side in experiment.sides)
    return all(each == first for each in others)


def of_side(experiment: Varied, side: Side) -> OfSide:
    return OfSide(side.name, experiment.names, side.changes)


def planned(experiment: Varied, seed: int) -> SidesFile:
    """What is to be made, before anything was."""
    first = experiment.sides[0]
    return SidesFile(
        experiment=experiment.name,
        times=experiment.times,
        first_seed=seed,
        hashes={side.name: plan.digest(side.experiment) for side in experiment.sides},
        changes={side.name: side.changes for side in experiment.sides},
        differences={side.name: varied.difference(first, side) for side in experiment.rivals},
        decide=experiment.decide,
        tolerance=experiment.tolerance,
        protection=experiment.protection,
    )


def begin(experiment: Varied, out: Path, seed: int) -> tuple[Path, SidesFile]:
    """A new folder of sides in ``out``. Raises InvalidInput where it cannot be made."""
    folder = out / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{experiment.name}-sides-{secrets.token_hex(2)}"
    file = planned(experiment, seed)
    try:
        make_folder(folder, *experiment.names)
        file.write(folder)
        for arm in _arms(experiment, folder, file):
            arm.write()
    except OSError as error:
        raise InvalidInput(
            f"cannot make the folder {folder}: {error.strerror}", remedy="choose a folder with --out"
        ) from error
    return folder, file


def resume(experiment: Varied, folder: Path, seed: int | None) -> SidesFile:
    """What a folder of before says, its runs that were cut off set aside.

    Raises InvalidInput where it is of another experiment, other sides, or another seed.
    """
    file = SidesFile.read(folder)
    wanted = planned(experiment, file.first_seed if seed is None else seed)
    for name in ("experiment", "times", "first_seed", "hashes", "sides"):
        ours, theirs = getattr(wanted, name), getattr(file, name)
        if ours != theirs:
            differs = (
                [each for each in {**ours, **theirs} if ours.get(each) != theirs.get(each)] if name == "hashes" else []
            )
            says = (
                f"side {differs[0]}"
                if differs
                else f"{name.replace('_', ' ')} {_said(theirs)}, and {_said(ours)} is asked for"
            )
            raise InvalidInput(
                f"{folder} is of another plan: {says}",
                remedy="run the experiment as it was, or begin anew without --resume",
            )
    for name in ("decide", "tolerance", "protection"):  # they decide of runs that are made, and make none
        setattr(file, name, getattr(wanted, name))
    _set_aside(folder, file)
    file.write(folder)
    for arm in _arms(experiment, folder, file):
        arm.write()
    return file


def _said(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _set_aside(folder: Path, file: SidesFile) -> None:
    """Runs that say nothing because they were cut off leave their series, and are named."""
    why = {each.run: "a signal had ended it" for each in file.runs if each.stopped}
    known = {each.run for each in file.runs}
    for name in file.sides:
        for run in sorted(each.parent for each in (folder / name).glob("*/plan.json")):
            if run.name not in known:
                why[run.name] = "its runner had died"
            if run.name in why:
                if not (folder / CUT_OFF).is_dir():
                    make_folder(folder / CUT_OFF)
                run.rename(folder / CUT_OFF / run.name)
    file.cut_off += [{"run": run, "why": says} for run, says in why.items()]
    file.runs = [each for each in file.runs if each.run not in why]


def _arms(experiment: Varied, folder: Path, file: SidesFile) -> list[Arm]:
    return [
        Arm(
            side.experiment,
            folder / side.name,
            file.first_seed,
            planned=file.times,
            runs=[each.run for each in file.runs if each.side == side.name],
            side=of_side(experiment, side),
        )
        for side in experiment.sides
    ]


def make(
    experiment: Varied,
    folder: Path,
    file: SidesFile,
    labs: Labs,
    providers: Providers,
    reporter: Callable[[], Reporter],
    done: Callable[[str, RunResult, int], None],
    burnt_in: Callable[[RunResult], None],
    topology: str | None = None,
) -> Made:
    """Make every run that ``file`` does not have yet. ``done``: (side, result, how many are made by now). ``burnt_in``:
    told of runs that only warmed a lab."""
    arms = {arm.side.name: arm for arm in _arms(experiment, folder, file) if arm.side is not None}
    for arm in arms.values():
        arm.topology = topology
    there = {(each.number, each.side) for each in file.runs}
    turns = [
        Turn(arms[name], number, f"side {name}")
        for number, name in order(experiment.names, file.times, file.first_seed)
        if (number, name) not in there
    ]

    def made(turn: Turn, result: RunResult) -> None:
        assert turn.arm.side is not None
        name = turn.arm.side.name
        file.runs.append(SideRun(name, turn.number, result.folder.name, result.stopped))
        file.write(folder)
        done(name, result, len(file.runs))

    def warmed(result: RunResult) -> None:
        file.burn_in.append(result.folder.name)
        file.write(folder)
        burnt_in(result)

    one = one_lab(experiment)
    burn_in = BurnIn(folder / BURN_IN, warmed) if one else None
    return making.make_turns(turns, file.times, labs, providers, reporter, made, burn_in=burn_in, anew=not one)
