"""What the commands share: the console, and how a verdict is printed."""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chaos.base.console import Console
from chaos.base.errors import ChaosError, Exit, InvalidInput

if TYPE_CHECKING:
    from chaos.checks.models import FindingsFile
    from chaos.definitions.overriding import Override

out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 160)


DEFAULT_LAB = "local"
"""What a lab is made of where nobody says (:mod:`chaos.targets.labs.kinds`, which takes longer to load)."""


def or_shipped(given: Path) -> Path:
    """A file as it was named, or the one of this name that comes with this package, which is said on standard error."""
    from chaos.definitions import shipped

    found = shipped.found(given)
    if found != given:
        typer.echo(f"{given}: the one that comes with opensearch-chaos", err=True)
    return found


def all_or_shipped(given: list[Path]) -> list[Path]:
    return [or_shipped(each) for each in given]


Definitions = Annotated[
    list[Path],
    typer.Argument(
        help="Experiment files, or names of those that come with this package.",
        metavar="EXPERIMENT...",
        callback=all_or_shipped,
    ),
]
Home = Annotated[
    Path | None,
    typer.Option("--opensearch-home", help="Use this OpenSearch home or .tar.gz instead of assembling one."),
]
LabKind = Annotated[
    str | None,
    typer.Option(
        "--lab",
        metavar="KIND",
        help="What a lab of its own is made of: local (default), docker, or one that another package brings.",
        show_default=False,
    ),
]
TopologyOption = Annotated[
    str | None, typer.Option("--topology", help="Run on this topology instead of the one the experiment names.")
]
FailOnKnown = Annotated[
    bool, typer.Option("--fail-on-known", help="A pass with known weaknesses fails: exit code 1 instead of 0.")
]
Uncontrolled = Annotated[
    bool, typer.Option("--no-controller", help="Without the experiment's failover controllers, to compare.")
]
Objectives = Annotated[
    list[str] | None,
    typer.Option(
        "--objective",
        help="What is good, instead of the experiment's: read=100ms, write=1s, or 100ms for both.",
        metavar="[OP=]DURATION",
        show_default=False,
    ),
]

Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="A value instead of the file's, by its path: load.write.rate=50/s, guards.cluster.red=40s, "
        "expect.read.good='>= 99%'. Again for another one.",
        metavar="PATH=VALUE",
        show_default=False,
    ),
]


def values_beside(
    given: Sequence[str] | None, *, seed: int | None, topology: str | None, no_controller: bool
) -> tuple[Override, ...]:
    """What ``--set`` gives. Raises InvalidInput for what is wrong with it, and for what one of the others says too."""
    from chaos.definitions import overriding

    found = overriding.parse(given or ())
    overriding.refuse_beside(
        found,
        ("--seed", overriding.SEED, seed),
        ("--topology", "topology", topology),
        ("--no-controller", "controller", no_controller),
    )
    return found


def refuse_given(context: typer.Context, names: Sequence[str], why: str) -> None:
    """Raises InvalidInput when one of these options stands on the command line, where it would do nothing.

    ``names``: of the command's parameters.
    """
    for parameter in context.command.params:
        if parameter.name in names:
            source = context.get_parameter_source(parameter.name)
            if source is not None and source.name == "COMMANDLINE":
                shown = parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.name.upper()
                raise InvalidInput(f"{shown}: {why}", remedy="leave it out")


def refuse_address(on: str | Path | None) -> None:
    """Raises InvalidInput where an address stands in the place of a lab's name, or of a cluster's file."""
    if on is not None and re.match(r"https?:/", str(on)):
        address = re.sub(r"^(https?):/+", r"\1://", str(on))
        raise InvalidInput(
            f"--on {address}: an address says not whose cluster it is, nor how far one may go there",
            remedy=f"write its file first: opensearch-chaos init --from {address}",
        )


SIGN = {
    "pass": "pass          ",
    "weakness": "WEAKNESS      ",
    "inconclusive": "inconclusive  ",
    "known_weakness": "known weakness",
    "relaxed": "relaxed       ",
    "unexpected_pass": "improved      ",
}


def print_verdict(name: str, folder: Path, findings: FindingsFile, *, report: bool = True) -> None:
    """A run's verdict, for the reader and the CI that runs us. ``report`` False: no page shows these findings."""
    from chaos.checks import shown
    from chaos.checks.shown import Shown
    from chaos.report import announce

    called = shown.of(findings)
    out.print(f"{name}: {called.words.upper()}  {findings['headline']}", markup=False)
    if called in (Shown.KNOWN, Shown.IMPROVED):
        out.print(f"  {shown.tally(findings)}", markup=False)
    if rest := findings["summary"].removeprefix(findings["headline"]).strip():
        out.print(f"  {rest}", markup=False)
    for reason in [each for each in findings["reasons"] if not each["finding"]][1:4]:
        out.print(f"  also            {reason['says']}", markup=False)
    for finding in findings["findings"]:
        line = f"  {SIGN[finding['counts_as']]}  {finding['title']}: {finding['measured_text']}"
        if finding["counts_as"] not in ("pass",):
            known = finding["known_weakness"] if finding["counts_as"] == "known_weakness" else None
            line += f"  ({known or finding['says']})"
        out.print(line, markup=False)
    clean = findings.get("clean")
    out.print(f"  clean-up: {'clean' if clean else 'DIRTY' if clean is False else 'unknown'}", markup=False)
    for what in left_behind(folder) if clean is False else ():
        out.print(f"    left behind: {what}", markup=False)
    if report:
        out.print(f"  report: {folder / 'report.html'}", markup=False)
    for line in announce(folder, findings):
        print(line)


def on_known(code: Exit, findings: FindingsFile, fail: bool) -> Exit:
    """The exit code of a run, where ``--fail-on-known`` may turn a pass with known weaknesses into a failure."""
    from chaos.checks import shown

    if code is not Exit.PASS or not shown.fails_on_known(findings, fail):
        return code
    say(f"  --fail-on-known: {shown.tally(findings)}, so this run fails")
    return Exit.WEAKNESS


def left_behind(folder: Path) -> list[str]:
    """What a run that ended dirty left, as it wrote it down."""
    try:
        return [str(each) for each in json.loads((folder / "clean.json").read_text())["detail"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def for_each(do: Any, files: list[Any]) -> list[Any]:
    """Do it for every file, or experiment, and report all errors at once."""
    results, errors = [], []
    for file in files:
        try:
            results.append(do(file))
        except InvalidInput as error:
            errors.append(str(error))
    if errors:
        raise InvalidInput("\n".join(errors))
    return results


def findings_name(folder: Path) -> str:
    return str(json.loads((folder / "plan.json").read_text())["experiment"]["name"])


def ask_ready(experiments: Sequence[Any]) -> None:
    """Ask what a run would ask of this machine and of the teams' own monitoring before it begins, and say what has no
    data.

    Raises InvalidInput as a run would.
    """
    from chaos.base.console import Reporter
    from chaos.run.ready import refuse_unready

    for_each(lambda experiment: refuse_unready(experiment, Reporter(console=out)), list(experiments))


def say(text: str) -> None:
    out.print(text, markup=False)


def say_error(error: ChaosError) -> None:
    """One line of what went wrong."""
    print(f"opensearch-chaos: {error}", file=sys.stderr)


def print_step(step: Any) -> None:
    """One step of a plan with its inverse. ``provider`` None: there is none for it there."""
    out.print(f"  {step['step']}", markup=False)
    if step.get("provider"):
        out.print(f"    provider: {step['provider']} (proof of grade {step['grade']})", markup=False)
    elif "provider" in step:
        out.print("    provider: none can do this there", markup=False)
    if step.get("proof"):
        out.print(f"    proof: {step['proof']} (grade {step['grade']})", markup=False)
    for key in ("mechanism", "resolved"):
        if step.get(key):
            out.print(f"    {key}: {step[key]}", markup=False)
    inverse = step.get("inverse")
    inverses = inverse if isinstance(inverse, list) else [inverse] if inverse else []
    for what, lines in (("move", step.get("moves", [])), ("inverse", inverses)):
        for line in folded(lines):
            out.print(f"    {what}: {line}", markup=False)


SHOWN, ALIKE = 3, 6
"""Of at least so many lines alike, that differ in one word each, so many are shown."""


def folded(lines: Sequence[str]) -> list[str]:
    """Lines of which many in a row do the same to others: the first of them, and how many more there are. ``plan
    --json`` has all."""
    found: list[str] = []
    for _, some in itertools.groupby(lines, key=lambda line: line.partition(" ")[0]):
        alike = list(some)
        found += alike if len(alike) < ALIKE else [*alike[:SHOWN], f"… and {len(alike) - SHOWN} more like these"]
    return found
