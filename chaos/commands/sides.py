"""``run`` of an experiment with sides: every side's runs in rounds, each side compared with the first, one page.

The exit code is the worst of clean or dirty, of runs that ended in an error or were aborted, and of the comparisons, as
``compare`` has it: 0 no side is worse than the first, 1 one is, 3 not enough is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.base import text
from chaos.base.errors import SEVERITY, Exit, InvalidInput
from chaos.base.paths import write_atomically, write_json
from chaos.commands.common import DEFAULT_LAB, out, print_verdict, say_error
from chaos.commands.repeating import ended, judged
from chaos.definitions.varied import Varied, difference
from chaos.definitions.writing import flow

ABOUT_SECONDS, ABOUT_NEW_SECONDS = 20.0, 50.0
"""What a run takes beside its phases, about: warm-up, read-back and report; and with a lab of its own. Measured on two
processors with four nodes: 10 s and 30 s; with more nodes it is more."""

OF_RUNS = (Exit.DIRTY, Exit.ERROR, Exit.ABORTED)
"""What of runs and series counts for the exit code, beside the comparison."""


@dataclass(frozen=True)
class Asked:
    """How sides are to be run. ``lab``: one that is up; None: labs of this ``kind``."""

    folder: Path
    seed: int | None = None
    topology: str | None = None
    lab: Any = None
    opensearch_home: Path | None = None
    quiet: bool = False
    kind: str = DEFAULT_LAB
    resume: Path | None = None


def seconds(experiment: Varied) -> float:
    """About how long all runs take."""
    from chaos.campaign.sides import one_lab

    phases = sum(float(phase.longest) for phase in experiment.phases)
    runs = len(experiment.sides) * experiment.times
    if one_lab(experiment):
        return (runs + 1) * (phases + ABOUT_SECONDS) + ABOUT_NEW_SECONDS - ABOUT_SECONDS
    return runs * (phases + ABOUT_NEW_SECONDS)


def lines(experiment: Varied, seed: int | None = None) -> list[str]:
    """The sides for people: what each changes, in which order they run, and how long that takes."""
    from chaos.campaign.sides import one_lab, order

    first = experiment.seed if seed is None else seed
    base = experiment.sides[0]
    said = [f"side {base.name}, with which the others are compared: {_changes(base.changes)}"]
    for side in experiment.rivals:
        said.append(f"side {side.name}: {'; '.join(difference(base, side))}")
    names = [name for _, name in order(experiment.names, experiment.times, first)]
    count = len(names)
    labs = "in one lab" if one_lab(experiment) else "each in a lab of its own"
    said.append(
        f"{text.plural(experiment.times, 'run')} of each of {len(experiment.sides)} sides, seeds {first} to "
        f"{first + experiment.times - 1}, {labs}: {', '.join(names[:8])}{', …' if count > 8 else ''}"
    )
    said.append(f"{count} runs take about {text.seconds(seconds(experiment))}, where nothing has to be fetched")
    if one_lab(experiment):
        said.append("and one first, which warms the lab and counts for nothing")
    decide = ", ".join(experiment.decide) or "what is expected, outages and lost writes"
    said.append(f"decided by: {decide}; intervals of {_level(experiment)} each")
    if (few := _too_few(experiment)) is not None:
        said.append(few)
    return said


def _changes(changes: Any) -> str:
    return flow(changes) if changes else "the experiment as it is"


def _level(experiment: Varied) -> str:
    from chaos.statistics.sides import level_of

    return f"{100 * level_of(len(experiment.sides)):.3g} %"


def _too_few(experiment: Varied) -> str | None:
    """That so few runs cannot decide, whatever they show; None where they can."""
    from chaos.base.intervals import cut
    from chaos.statistics.sides import level_of

    level = level_of(len(experiment.sides))
    if cut(experiment.times, experiment.times, level)[0]:
        return None
    needed = next(times for times in range(1, 100) if cut(times, times, level)[0])
    runs = "1 run of a side decides" if experiment.times == 1 else f"{experiment.times} runs of a side decide"
    return f"note: {runs} nothing: no interval reaches that level below {needed}"


def refuse_wrong(experiment: Varied) -> None:
    """Raises InvalidInput, with its place in the file, for a tolerance that cannot be read."""
    from chaos.definitions.loading import located_in
    from chaos.statistics.compare import parse_tolerance

    for metric, amount in experiment.tolerance.items():
        try:
            parse_tolerance(metric, amount)
        except InvalidInput as error:
            raise located_in(experiment.file, ("vary", "tolerance", metric), error) from None


def refuse_unavailable(experiment: Varied, labs: Any) -> None:
    """Where sides run different versions: find or fetch all of them before anything is begun.

    Raises ChaosError; InvalidInput, for a version that cannot be had or that the given OpenSearch is not, with its
    place in the file.
    """
    from chaos.definitions.loading import located_in

    topologies = [side.experiment.topology for side in experiment.sides]
    if len({each.versions for each in topologies}) == 1:
        return
    for side, topology in zip(experiment.sides, topologies, strict=True):
        try:
            labs.parts(topology)
        except InvalidInput as error:
            says = InvalidInput(f"side {side.name}: {error.message}", remedy=error.remedy)
            raise located_in(experiment.file, ("vary", "sides", side.name), says) from None


def run_sides(experiment: Varied, asked: Asked) -> Exit:
    """Make and compare all runs of an experiment with sides, or go on with them."""
    from chaos.base.console import Reporter
    from chaos.run.leftovers import refuse_leftovers
    from chaos.run.pool import LabPool
    from chaos.run.ready import refuse_unready
    from chaos.targets.labs.kinds import require

    if asked.lab is None:
        require(asked.kind)
    refuse_leftovers()
    for side in experiment.sides:
        refuse_unready(side.experiment)
    reporter = Reporter(quiet=asked.quiet)
    labs = LabPool(
        reporter.line,
        opensearch_home=asked.opensearch_home,
        given=asked.lab,
        report=reporter.line,
        kind=asked.kind,
    )
    try:
        refuse_unavailable(experiment, labs)
        return _begun(experiment, asked, labs)
    finally:
        reporter.close()


def _begun(experiment: Varied, asked: Asked, labs: Any) -> Exit:
    """Make a new folder and its runs, or go on with those of one that is there."""
    from chaos.base.paths import locked
    from chaos.campaign import sides as making
    from chaos.statistics.sides import is_sides

    if asked.resume is None:
        folder, file = making.begin(experiment, asked.folder, experiment.seed if asked.seed is None else asked.seed)
    else:
        folder = asked.resume
        if not is_sides(folder):
            raise InvalidInput(f"{folder} has no sides.json", remedy="name a folder that `run` of this file has made")
    with locked(folder / "sides.lock", blocking=False) as mine:
        if not mine:
            raise InvalidInput(f"the runs of {folder} are being made right now", remedy="wait for their end")
        if asked.resume is not None:
            file = making.resume(experiment, folder, asked.seed)
            for each in file.cut_off:
                out.print(f"  set aside: {each['run']}: {each['why']}", markup=False)
        return _run(experiment, asked, folder, file, labs)


def _run(experiment: Varied, asked: Asked, folder: Path, file: Any, labs: Any) -> Exit:
    from chaos.base.console import Reporter
    from chaos.campaign import sides as making
    from chaos.registry import PROVIDERS

    total = file.times * len(file.sides)

    def done(side: str, result: Any, number: int) -> None:
        print_verdict(f"{experiment.name}, side {side} ({number} of {total})", result.folder, result.findings)
        if number == 1:
            _say_unknown(file, result.findings)

    early: list[Exit] = []

    def burnt_in(result: Any) -> None:
        print_verdict(f"{experiment.name}, to warm the lab", result.folder, result.findings)
        early.extend([result.exit_code] if result.exit_code in OF_RUNS else [])

    made = making.make(
        experiment,
        folder,
        file,
        labs,
        PROVIDERS,
        lambda: Reporter(quiet=asked.quiet),
        done,
        burnt_in,
        asked.topology,
    )
    codes = [*early, *ended(made)]
    if len(file.runs) < total:
        out.print(f"  go on with: opensearch-chaos run {experiment.file} --resume {folder}", markup=False)
    codes += compared(folder)
    return min(codes, key=SEVERITY.index)


def _say_unknown(file: Any, findings: Any) -> None:
    """After the first of many runs: names that decide, or have a tolerance, and that it did not measure."""
    from chaos.statistics.facts import metrics

    known = {key for name in metrics(findings) for key in (name, name.partition("@")[0])}
    for name in (*file.decide, *file.tolerance):
        if name not in known:
            out.print(f"  note: vary names {name}, which this run did not measure", markup=False)


def compared(folder: Path, again: Callable[[Path], object] | None = None) -> list[Exit]:
    """Judge the sides' series, compare them, and write compare.json, compare.md and compare.html. ``again``: how each
    run is judged first. The exit codes of all that counts."""
    from chaos.report.sides import sides_page
    from chaos.statistics import sides as comparing
    from chaos.statistics.store import is_run

    file = comparing.SidesFile.read(folder)
    codes: list[Exit] = []
    for name in file.sides:
        runs = sorted(each for each in (folder / name).iterdir() if is_run(each))
        for run in runs if again is not None else ():
            again(run)  # type: ignore[misc]
        if not runs:
            out.print(f"  side {name} has no run yet: nothing is compared", markup=False)
            return [*codes, Exit.INCONCLUSIVE]
        # the verdicts on the series are told; what counts here is the comparison, dirt and our errors
        code = judged(folder / name).exit_code
        codes += [code] if code in OF_RUNS else []
    try:
        found = comparing.compare_sides(comparing.groups(folder, file), file)
    except InvalidInput as error:  # what the runs came to still counts for the exit code
        say_error(error)
        return [*codes, error.exit_code]
    write_json(folder / "compare.json", found.to_json())
    write_atomically(folder / "compare.md", found.markdown())
    page = sides_page(found, folder / "compare.html")
    _print(found)
    out.print(f"  page: {page}", markup=False)
    return [*codes, found.exit_code]


def _print(found: Any) -> None:
    from chaos.statistics.compare import summary_of
    from chaos.statistics.sides import moved, word

    out.print(f"sides: {found.outcome.upper()}  {found.sentence}", markup=False)
    if found.protection is not None:
        out.print(f"  {found.protection.sentence}", markup=False)
    for comparison in found.comparisons:
        name = comparison.b.label
        for row in comparison.rows:
            if row.decides:
                out.print(
                    f"  {word(row):9}  {name}: {row.metric}: {summary_of(row.a)} -> {summary_of(row.b)}, shift "
                    f"{moved(row)}, tolerance {row.tolerance_text}: {row.says}",
                    markup=False,
                )
    for group in found.groups:
        for run, why in group.left_out:
            out.print(f"  left out of {group.label}: {run}: {why}", markup=False)


def refuse_options(experiments: Sequence[Any], given: Sequence[str]) -> None:
    """Raises InvalidInput for options that an experiment with sides leaves no room for. ``given``: their names."""
    varied = [each for each in experiments if isinstance(each, Varied)]
    if varied and given:
        raise InvalidInput(
            f"{' and '.join(given)}: {varied[0].name} has sides, which say what is run and how often",
            remedy="leave it out, or take `vary` out of the file",
        )
