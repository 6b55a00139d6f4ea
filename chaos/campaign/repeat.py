"""Making the runs of a series: R of one experiment, or of two in turn (A B A B ...), on a lab that is reused.

R is fixed before the first run and stands on disk (``series.json``). Run i has the seed s + i, so that what is
drawn (arrivals, "one of role data") varies from run to run; A and B share the seeds. The lab is used again as long as
it proves clean and green (:mod:`chaos.run.pool`). A signal, a lab that cannot be had, or dirt ends the making; a run
that ends in an error of its own does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from chaos.base.console import Reporter
from chaos.base.errors import ChaosError
from chaos.base.intervals import FEWEST
from chaos.definitions import Experiment
from chaos.faults.offers import Providers
from chaos.run import plan
from chaos.run.options import RunResult
from chaos.run.spec import OfSide, On, RunSpec, carry_out
from chaos.run.stopping import Stop, signals
from chaos.statistics.store import new_series, write_series
from chaos.targets.labs.base import BaseLab


class Labs(Protocol):
    """What gives labs: :class:`chaos.run.pool.LabPool`."""

    def parts(self, topology: Any) -> Any: ...
    def get(self, topology: Any, *, parts: Any = None, check: Callable[[], None] = lambda: None) -> BaseLab: ...
    def close(self) -> None: ...


@dataclass
class Arm:
    """One experiment of which runs are made, its series' folder and the runs so far."""

    experiment: Experiment
    folder: Path
    seed: int
    topology: str | None = None
    """The option ``--topology``, for the command that makes a run again."""
    planned: int = 0
    runs: list[str] = field(default_factory=list)
    controlled: bool = True
    """False: the option ``--no-controller``, for the same."""
    side: OfSide | None = None
    """Of an experiment with sides (:mod:`.sides`)."""

    def write(self) -> None:
        write_series(self.folder, _plan(self.experiment, self.planned, self.seed, self.runs))


@dataclass
class Made:
    """How the making ended. ``error`` is what ended it early, ``dirt`` what a lab left behind."""

    stopped: bool = False
    error: ChaosError | None = None
    dirt: str | None = None


def arm(
    experiment: Experiment,
    out: Path,
    repeat: int,
    seed: int | None,
    topology: str | None = None,
    *,
    controlled: bool = True,
) -> Arm:
    """A series that is about to be made, its folder on disk with R in it. Raises InvalidInput."""
    first = seed if seed is not None else experiment.seed
    folder = new_series(out, experiment.name, _plan(experiment, repeat, first, []))
    return Arm(experiment, folder, first, topology, repeat, [], controlled)


def _plan(experiment: Experiment, repeat: int, seed: int, runs: Sequence[str]) -> dict[str, Any]:
    return {
        "experiment": experiment.name,
        "hash": plan.digest(experiment),
        "planned_runs": repeat,
        "first_seed": seed,
        "runs": list(runs),
    }


def make(
    arms: Sequence[Arm],
    repeat: int,
    labs: Labs,
    providers: Providers,
    reporter: Callable[[], Reporter],
    done: Callable[[Arm, RunResult], None],
) -> Made:
    """Make ``repeat`` runs of every arm, interleaved. Whatever happens, the lab is taken away in the end.

    ``done`` is told of every run. Raises ChaosError only before anything was started.
    """
    turns = [Turn(each, number, each.experiment.name) for number in range(repeat) for each in arms]
    note = f"{repeat} runs can show a weakness; a pass over runs takes {FEWEST}" if repeat < FEWEST else None
    return make_turns(turns, repeat, labs, providers, reporter, lambda turn, result: done(turn.arm, result), note)


@dataclass(frozen=True)
class Turn:
    """One run that is to be made: the arm's ``number``-th, from 0."""

    arm: Arm
    number: int
    says: str


@dataclass(frozen=True)
class BurnIn:
    """Where runs go that only warm a new lab, and who is told of them."""

    folder: Path
    done: Callable[[RunResult], None]


def make_turns(
    turns: Sequence[Turn],
    repeat: int,
    labs: Labs,
    providers: Providers,
    reporter: Callable[[], Reporter],
    done: Callable[[Turn, RunResult], None],
    note: str | None = None,
    burn_in: BurnIn | None = None,
    anew: bool = False,
) -> Made:
    """Make these runs in their order, as :func:`make`. ``repeat``: how many runs an arm has in all. ``burn_in``: a run
    more in each new lab, before any that counts. ``anew``: no run finds the lab of another."""
    made, warm = Made(), set[str]()
    # before the signals are ours: a Ctrl-C may end a long download at once
    arms = {id(turn.arm): turn.arm for turn in turns}
    parts = {which: labs.parts(arm.experiment.topology) for which, arm in arms.items()}
    stop, outer = Stop(), reporter()
    if note is not None:
        outer.line(note)
    with signals(stop, outer):
        try:
            for turn in turns:
                each = turn.arm
                outer.line(f"run {turn.number + 1} of {repeat}: {turn.says}")
                stop.check()
                topology = plan.lab_topology(each.experiment)
                lab = labs.get(topology, parts=parts[id(each)], check=stop.check)
                if burn_in is not None and lab.id not in warm:
                    outer.line("first a run that warms the new lab, and counts for nothing")
                    result = _carried(each, turn.number, burn_in.folder, lab, providers, reporter())
                    burn_in.done(result)
                    if result.stopped or not result.clean:
                        made.stopped = result.stopped
                        return made
                    warm.add(lab.id)
                    lab = labs.get(topology, parts=parts[id(each)], check=stop.check)
                    warm.add(lab.id)
                result = _one(each, turn.number, lab, providers, reporter())
                done(turn, result)
                if result.stopped or not result.clean:
                    made.stopped = result.stopped
                    return made
                if anew and (left := _left_by(labs)) is not None:
                    made.dirt = left
                    return made
        except ChaosError as error:
            made.error, made.stopped = error, stop.asked
        finally:
            made.dirt = made.dirt or _left_by(labs)
            outer.close()
    return made


def _left_by(labs: Labs) -> str | None:
    """Take the lab away. What is left of it, in words; None where nothing is."""
    try:
        labs.close()
    except ChaosError as error:
        return error.message
    return None


def _one(each: Arm, number: int, lab: BaseLab, providers: Providers, reporter: Reporter) -> RunResult:
    result = _carried(each, number, each.folder, lab, providers, reporter)
    each.runs.append(result.folder.name)
    each.write()  # after every run: a killed series is one of fewer runs than planned
    return result


def _carried(each: Arm, number: int, out: Path, lab: BaseLab, providers: Providers, reporter: Reporter) -> RunResult:
    on = On(lab.kind)
    spec = RunSpec(
        each.experiment,
        each.seed + number,
        on,
        topology=each.topology,
        controlled=each.controlled,
        side=each.side,
    )
    return carry_out(spec, out=out, providers=providers, reporter=reporter, lab=lab)
