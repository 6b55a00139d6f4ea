"""The command line, thin: options in, one line of error out, exit codes of :mod:`chaos.base.errors`."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

import chaos
from chaos.base.errors import SEVERITY, ChaosError, Exit, InvalidInput
from chaos.commands.auditing import audit
from chaos.commands.common import DEFAULT_LAB, Objectives, out, print_verdict, refuse_given
from chaos.commands.comparing import baseline, compare
from chaos.commands.exporting import export
from chaos.commands.failing_over import failover
from chaos.commands.judging import judge
from chaos.commands.overviews import suite, trend
from chaos.commands.starting import init

if TYPE_CHECKING:
    from chaos.checks.models import FindingsFile

app = typer.Typer(
    name="opensearch-chaos",
    help="Chaos experiments on real OpenSearch clusters, with verdicts that can be trusted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
lab_app = typer.Typer(help="A cluster to play with: up, status, exec, down.", no_args_is_help=True)
app.add_typer(lab_app, name="lab")

Definitions = Annotated[list[Path], typer.Argument(help="Experiment files.", metavar="EXPERIMENT...")]
Home = Annotated[
    Path | None,
    typer.Option("--opensearch-home", help="Use this OpenSearch home or .tar.gz instead of assembling one."),
]
LabKind = Annotated[
    str | None,
    typer.Option(
        "--lab", metavar="KIND", help="What a lab of its own is made of: local (default) or docker.", show_default=False
    ),
]
TopologyOption = Annotated[
    str | None, typer.Option("--topology", help="Run on this topology instead of the one the experiment names.")
]
Uncontrolled = Annotated[
    bool, typer.Option("--no-controller", help="Without the experiment's failover controllers, to compare.")
]


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        out.print(chaos.__version__)
        raise typer.Exit


@app.command()
def run(
    experiments: Definitions,
    out_folder: Annotated[Path, typer.Option("--out", help="Where run folders go.")] = Path("reports"),
    seed: Annotated[int | None, typer.Option(help="Instead of the experiment's own seed.", min=0)] = None,
    topology: TopologyOption = None,
    no_controller: Uncontrolled = False,
    on: Annotated[str | None, typer.Option("--on", help="Run on this lab (from `lab up`).", metavar="LAB")] = None,
    opensearch_home: Home = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the verdict only.")] = False,
    repeat: Annotated[
        int | None, typer.Option("--repeat", help="So many runs of each, judged together.", min=1, show_default=False)
    ] = None,
    of_kind: LabKind = None,
    objective: Objectives = None,
    retry: Annotated[
        str | None,
        typer.Option(
            "--retry-inconclusive",
            help="Run an experiment that ends inconclusive once more; such runs may take so long together.",
            metavar="DURATION",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run experiments; the worst outcome is the exit code. With --repeat: that of the series."""
    from chaos.base.console import Reporter
    from chaos.definitions import objectives
    from chaos.observe.proof import problems
    from chaos.registry import PROVIDERS, load_experiment
    from chaos.run import retrying, space
    from chaos.run.execution import refuse_lacking
    from chaos.run.execution import run as run_one
    from chaos.run.leftovers import refuse_leftovers, refuse_second_run
    from chaos.run.options import RunOptions
    from chaos.run.plan import again
    from chaos.target.labs import kinds

    kind = of_kind or DEFAULT_LAB
    if on is not None and of_kind is not None:
        raise InvalidInput("--lab is for a lab of its own, and --on names one that is there", remedy="leave one out")
    if on is not None and opensearch_home is not None:
        raise InvalidInput(f"lab '{on}' has its OpenSearch already: --opensearch-home is for a lab of its own")
    if dry_run and quiet:
        raise InvalidInput("--dry-run prints a plan and --quiet a verdict", remedy="leave one out")
    controlled = not no_controller
    good = objectives.parse(objective or ())
    loaded = _all(lambda file: load_experiment(file, topology=topology, controlled=controlled, good=good), experiments)
    if retry is not None and repeat is not None:
        raise InvalidInput(
            "--retry-inconclusive and --repeat: how many runs a series has is fixed before the first",
            remedy="leave one of them out",
        )
    retries = None if retry is None else retrying.Retries.parse(retry)
    lab = None
    if on is None:
        kinds.refuse_home(kind, opensearch_home)
    else:
        lab = kinds.attach(on)
        for experiment in loaded:
            needed = experiment.topology
            if needed.to_json() | {"file": None} != lab.topology.to_json() | {"file": None}:
                raise InvalidInput(
                    f"lab '{on}' runs topology {lab.topology.name}, but {experiment.name} needs {needed.name}",
                    remedy=f"start one with: opensearch-chaos lab up {needed.name}",
                )
        refuse_leftovers()
        refuse_second_run(lab)
        if found := problems(lab):
            raise InvalidInput(
                f"lab '{on}' is not as its topology says: {'; '.join(found[:3])}",
                remedy="run: opensearch-chaos recover, or take it down and start it again",
            )
    if dry_run:
        _plans(loaded, seed, lab=lab, kind=kind, repeat=repeat)
    _all(lambda experiment: refuse_lacking(experiment, PROVIDERS, lab, kind), loaded)
    space.refuse_scarce(space.wanted(loaded, out_folder, kind=kind, own_lab=lab is None, times=repeat or 1))
    if dry_run:
        if retries is not None:
            out.print(f"a run that ends inconclusive is repeated once: {retries.words}", markup=False)
        return
    codes: list[Exit] = []
    if repeat is not None:
        from chaos.commands.repeating import repeated

        given = (repeat, out_folder, seed, topology, lab, opensearch_home, quiet, kind, controlled)
        raise typer.Exit(int(repeated(loaded, *given)))
    for experiment in loaded:

        def one(second_of: dict[str, Any] | None, experiment: Any = experiment) -> Any:
            reporter = Reporter(quiet=quiet)
            reporter.line(f"experiment {experiment.name} on {experiment.topology.name}")
            first_seed = seed if seed is not None else experiment.seed
            given = objectives.options(experiment)
            options = RunOptions(
                out=out_folder,
                command=again(experiment.file, first_seed, topology, controlled=controlled, good=given),
                providers=PROVIDERS,
                seed=seed,
                lab=lab,
                opensearch_home=opensearch_home,
                kind=kind,
                second_of=second_of,
            )
            try:
                return run_one(experiment, options, reporter)
            finally:
                reporter.close()

        def unsound() -> str | None:
            found = problems(lab) if lab is not None else []
            return f"lab '{on}' is not as its topology says: {'; '.join(found[:3])}" if found else None

        result = None
        try:
            for result in retrying.runs(experiment.name, one, retries, _say, unsound):
                print_verdict(experiment.name, result.folder, result.findings)
        except ChaosError as error:
            _say_error(error)  # the verdicts before it still count for the exit code
            codes += [error.exit_code] + ([result.exit_code] if result is not None else [])
            break
        assert result is not None
        codes.append(result.exit_code)  # of two runs the second counts
        if result.exit_code in (Exit.ABORTED, Exit.DIRTY):
            break
    if retries is not None and retries.runs > 1:
        _say(retries.tally)
    raise typer.Exit(int(min(codes, key=SEVERITY.index)))


@app.command()
def validate(
    files: Annotated[list[Path], typer.Argument(help="Experiment or topology files, or folders of them.")],
) -> None:
    """Check definitions; needs no cluster. Errors name file, line and column."""
    from chaos.definitions import load_topology
    from chaos.registry import load_experiment

    found = [f for given in files for f in (sorted(given.rglob("*.yaml")) if given.is_dir() else [given])]
    if not found:
        raise InvalidInput(f"no definitions in {', '.join(map(str, files))}", remedy="name a .yaml file or a folder")

    def check(file: Path) -> str:
        if _is_topology(file):
            return f"topology {load_topology(file).name}"
        return f"experiment {load_experiment(file).name}"

    for file, what in zip(found, _all(check, found), strict=True):
        out.print(f"{file}: valid {what}", markup=False)


@app.command()
def plan(
    experiments: Definitions,
    seed: Annotated[int | None, typer.Option(help="Instead of the experiment's own seed.", min=0)] = None,
    topology: TopologyOption = None,
    no_controller: Uncontrolled = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    objective: Objectives = None,
) -> None:
    """Print every step with its inverse; needs no cluster and changes nothing."""
    from chaos.definitions import objectives
    from chaos.registry import PROVIDERS, load_experiment
    from chaos.run.execution import refuse_lacking

    controlled = not no_controller
    good = objectives.parse(objective or ())
    loaded = _all(lambda file: load_experiment(file, topology=topology, controlled=controlled, good=good), experiments)
    _plans(loaded, seed, as_json=as_json)
    _all(lambda experiment: refuse_lacking(experiment, PROVIDERS), loaded)


@app.command()
def faults(
    topology: Annotated[
        str | None, typer.Option("--topology", help="What can be had on it; default on each kind's own example.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="The page docs/faults.md.")] = False,
    of_kind: LabKind = None,
) -> None:
    """Print the catalogue of faults: parameters, mechanism, proof, undo, and what can be had here."""
    from chaos.definitions import load_topology
    from chaos.faults import documentation
    from chaos.registry import FAULTS, PROVIDERS
    from chaos.target.labs import kinds

    if as_markdown:
        if topology is not None or as_json or of_kind is not None:
            raise InvalidInput("--markdown is the same page everywhere", remedy="leave --topology, --json, --lab out")
        print(documentation.markdown(PROVIDERS), end="")
        return
    lab_kind = of_kind or DEFAULT_LAB
    offers = {}
    for name in {topology} if topology else {fault.example_topology for fault in FAULTS.values()}:
        offers[name] = kinds.of_kind(lab_kind).offers(load_topology(name))
    unavailable = {
        kind: why
        for kind, fault in FAULTS.items()
        if (why := PROVIDERS.on(offers[topology or fault.example_topology].get).reasons(kind))
    }
    if as_json:
        print(documentation.as_json(topology, unavailable, PROVIDERS))
        return
    for line in documentation.text(unavailable, PROVIDERS):
        out.print(line, markup=False)
    if lab_kind == DEFAULT_LAB and os.geteuid() != 0:
        out.print("A local lab needs root, which this is not.")


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders.", metavar="RUN...")],
    redact: Annotated[
        bool, typer.Option("--redact", help="Without names, addresses and paths, into RUN/redacted, to be mailed.")
    ] = False,
) -> None:
    """Judge runs again and redraw their reports, from their folders alone."""
    from chaos.commands.repeating import judged_again
    from chaos.report import render

    codes = []
    for folder in runs:
        if (folder / "series.json").is_file():
            if redact:
                raise InvalidInput(f"{folder} is a series", remedy="name the runs in it: they are redacted one by one")
            codes.append(judged_again(folder))
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


for command in (init, compare, baseline, judge, suite, trend, export, audit, failover):
    app.command()(command)


DRAWING = ("seed", "duration", "rate", "hold", "weights", "max_active", "quorum", "copies", "load", "name")
"""Parameters of ``nemesis`` that say what is drawn."""


@app.command()
def nemesis(
    context: typer.Context,
    topology: Annotated[str | None, typer.Argument(help="A topology's name or file.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed draws the same.", min=0)] = 1,
    duration: Annotated[str, typer.Option("--for", help="How long faults begin.")] = "5m",
    rate: Annotated[str, typer.Option(help="How many begin.")] = "4/min",
    hold: Annotated[str, typer.Option(help="How long each holds, at least and at most.")] = "10s..30s",
    weights: Annotated[
        str | None, typer.Option(help="kind=w,... instead of all that the lab can do alike.", show_default=False)
    ] = None,
    max_active: Annotated[int, typer.Option(help="At most so many at once.", min=1)] = 2,
    quorum: Annotated[bool, typer.Option("--allow-quorum-loss", help="Hit a majority of managers too.")] = False,
    copies: Annotated[bool, typer.Option("--allow-all-copies", help="Hit every copy of a shard too.")] = False,
    load: Annotated[str, typer.Option(help="Reads, and as many writes.")] = "50/s",
    name: Annotated[str | None, typer.Option(help="The experiment's name.", show_default=False)] = None,
    file: Annotated[Path | None, typer.Option("--out", help="Write the definition here.", show_default=False)] = None,
    run_it: Annotated[bool, typer.Option("--run", help="Write it and run it.")] = False,
    shrink: Annotated[
        Path | None,
        typer.Option("--shrink", help="Find the faults that a failing run, or definition, needs.", metavar="RUN"),
    ] = None,
    budget: Annotated[int, typer.Option(help="With --shrink: at most so many runs.", min=1)] = 20,
    reports: Annotated[Path, typer.Option("--reports", help="Where run folders go.")] = Path("reports"),
    opensearch_home: Home = None,
    objective: Objectives = None,
) -> None:
    """Draw an experiment at random and print, write or run it; or shrink one that failed."""
    from chaos.target.labs import kinds

    if (topology is None) == (shrink is None):
        raise InvalidInput(
            "nemesis takes a topology, or --shrink with a run or a definition",
            remedy="see: opensearch-chaos nemesis -h",
        )
    if shrink is not None and objective:
        raise InvalidInput("--objective is for a plan that is drawn: what failed is shrunk with its own objectives")
    if shrink is not None:
        refuse_given(context, (*DRAWING, "run_it"), "--shrink takes faults out of a plan and draws none")
        kinds.refuse_home(DEFAULT_LAB, opensearch_home)
        _shrink(shrink, budget, reports, file, opensearch_home)
        return
    refuse_given(context, ("budget",), "it is of --shrink")
    if run_it:
        kinds.refuse_home(DEFAULT_LAB, opensearch_home)
    else:
        refuse_given(context, ("reports", "opensearch_home"), "nothing is run without --run")
    from chaos.campaign import nemesis as drawing
    from chaos.definitions import Duration, Rate, load_topology, objectives
    from chaos.definitions.selectors import NAME
    from chaos.registry import FAULTS, PROVIDERS
    from chaos.target.labs.local import LocalLab

    assert topology is not None
    spec = load_topology(topology)
    if name is not None and not re.fullmatch(NAME, name):
        raise InvalidInput(f"--name {name}: expected small letters, digits, dashes, dots and underscores")
    options = drawing.Options(
        topology=spec,
        named=topology,
        seed=seed,
        duration=_positive("--for", Duration, duration),
        rate=_positive("--rate", Rate, rate),
        hold=drawing.parse_hold(hold),
        weights=None if weights is None else drawing.parse_weights(weights, FAULTS),
        limits=drawing.Limits(max_active, quorum_loss=quorum, all_copies=copies),
        load=_positive("--load", Rate, load),
        name=name,
        good=objectives.parse(objective or ()),
    )
    text = drawing.text(options, PROVIDERS.on(LocalLab.offers(spec).get))
    if file is None and not run_it:
        print(text, end="")
        return
    file = file or reports / f"{name or f'nemesis-{spec.name}-{seed}'}.yaml"
    _write_definition(file, text)
    if run_it:
        run([file], out_folder=reports, opensearch_home=opensearch_home)


def _positive(option: str, quantity: Any, text: str) -> Any:
    value = quantity.parse(text)
    if value <= 0:
        raise InvalidInput(f"{option} {text}: expected more than 0")
    return value


def _write_definition(file: Path, text: str) -> None:
    from chaos.registry import load_experiment

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    except OSError as error:
        raise InvalidInput(f"cannot write {file}: {error.strerror}", remedy="choose another with --out") from error
    load_experiment(file)  # what we write, we can read
    print(f"{file}: written", file=sys.stderr)


def _shrink(given: Path, budget: int, reports: Path, file: Path | None, opensearch_home: Path | None) -> None:
    from chaos.base.console import Reporter
    from chaos.base.errors import Aborted
    from chaos.campaign import shrink as shrinking
    from chaos.definitions import writing
    from chaos.registry import GRAMMAR, PROVIDERS
    from chaos.run.execution import run as run_one
    from chaos.run.options import RunOptions

    whole, failed = shrinking.opened(given, GRAMMAR)

    def one(experiment: Any) -> FindingsFile:
        reporter = Reporter(quiet=True)
        try:
            result = run_one(
                experiment,
                RunOptions(
                    reports,
                    f"opensearch-chaos nemesis --shrink {given}",
                    PROVIDERS,
                    opensearch_home=opensearch_home,
                ),
                reporter,
            )
        finally:
            reporter.close()
        out.print(f"  {result.folder / 'report.html'}", markup=False)
        if result.stopped or not result.clean:
            raise Aborted("shrinking ends here: " + ("stopped by a signal" if result.clean else "the lab is not clean"))
        return result.findings

    smallest, found, failed = shrinking.smallest(whole, failed, one, budget, lambda text: out.print(text, markup=False))
    how = (
        "no single fault of it can be left out"
        if found.minimal
        else f"the budget of {budget} runs ended before it was known whether less would do"
    )
    out.print(f"{len(found.kept)} faults are needed after {found.asked} smaller plans: {how}", markup=False)
    comments = [f"shrunk from {given.name}: {how}", f"the failure: {', '.join(sorted(failed))}"]
    file = file or reports / f"{smallest.name}.yaml"
    _write_definition(file, writing.experiment(smallest, _named(smallest.topology), comments))


def _named(topology: Any) -> str:
    """How a definition names this topology: by its name where that finds the same one, else by its file."""
    from chaos.definitions import load_topology

    try:
        found = load_topology(topology.name)
    except InvalidInput:
        found = None
    same = found is not None and found.to_json() | {"file": None} == topology.to_json() | {"file": None}
    return str(topology.name if same or topology.file is None else Path(topology.file).absolute())


@app.command()
def recover() -> None:
    """Undo and remove everything that dead runs left on this machine."""
    from chaos import providers
    from chaos.base import plugins
    from chaos.run.recovery import recover as recover_all

    plugins.modules(providers)  # they bring what undoes their moves
    try:
        providers.discover()
    except InvalidInput as error:
        out.print(f"going on without it: {error}", markup=False)
    result = recover_all(lambda text: out.print(text, markup=False))
    for problem in result.problems:
        out.print(f"could not: {problem}", markup=False)
    if not result.clean:
        raise typer.Exit(int(Exit.DIRTY))
    if not result.removed and not result.undone:
        out.print("nothing is left behind")
    else:
        out.print(f"clean: {len(result.removed)} labs removed, {len(result.undone)} runs undone")


@app.command()
def doctor() -> None:
    """List every prerequisite, what was found, and the remedy for what was not."""
    from chaos.provision.doctor import examine
    from chaos.run.recovery import leftovers

    table = Table("", "prerequisite", "found", "remedy", box=None, pad_edge=False)
    bad = False
    for item in examine():
        bad |= not item.ok and not item.optional
        sign = "ok" if item.ok else "optional" if item.optional else "MISSING"
        table.add_row(sign, item.name, escape(item.found), escape(item.remedy or ""))
    left = leftovers()
    bad |= bool(left)
    table.add_row(
        "ok" if not left else "LEFT",
        "leftovers of dead runs",
        f"{len(left)}" if left else "none",
        "opensearch-chaos recover" if left else "",
    )
    out.print(table)
    raise typer.Exit(int(Exit.USAGE) if bad else 0)


@app.command("docker-image")
def docker_image(
    version: Annotated[
        str | None, typer.Option("--opensearch", help="Which version; default the newest that is locked.")
    ] = None,
) -> None:
    """Build images for docker labs from what this machine has: no registry is asked."""
    from chaos.target.labs import kinds

    kinds.of_kind("docker")
    from chaos.provision import lock
    from chaos.target.labs.docker import images

    for name in images.build(version or lock.DEFAULT_VERSION, lambda text: out.print(text, markup=False)):
        out.print(f"image {name}", markup=False)


# ---- lab ----------------------------------------------------------------------------------------------


@lab_app.command("up")
def lab_up(
    topology: Annotated[str, typer.Argument(help="A topology's name or file.")] = "3az",
    name: Annotated[str | None, typer.Option("--name", help="The lab's name; default the topology's.")] = None,
    port: Annotated[int | None, typer.Option(help="Loopback port; default a free one.", min=1, max=65535)] = None,
    opensearch_home: Home = None,
    of_kind: LabKind = None,
) -> None:
    """Start a cluster that stays until `lab down`."""
    from chaos.base.console import Reporter
    from chaos.commands import leases
    from chaos.definitions import load_topology
    from chaos.run import space
    from chaos.target.labs import kinds

    kind = of_kind or DEFAULT_LAB
    spec = load_topology(topology)
    id = name or spec.name[:31].strip("-")
    leases.refuse(id, port, kind)
    space.refuse_scarce([space.in_state(f"lab '{id}'", space.of_topology(spec, kind))])
    kinds.refuse_home(kind, opensearch_home)
    kinds.require(kind)
    reporter = Reporter()
    try:
        parts = kinds.parts(kind, spec, reporter.line, opensearch_home=opensearch_home)
        where = leases.up(spec, parts, id=id, port=port, reporter=reporter, kind=kind)
    finally:
        reporter.close()
    out.print(f"lab {where.id}: {where.url}   (opensearch-chaos lab status {where.id})", markup=False)
    if where.login:
        out.print(where.login, markup=False, soft_wrap=True)


@lab_app.command("status")
def lab_status(name: Annotated[str | None, typer.Argument(help="A lab; default all.")] = None) -> None:
    """Show labs, their nodes and how they are."""
    from chaos.commands import leases

    labs = leases.status(name)
    if not labs:
        out.print("no labs")
    for lab in labs:
        out.print(f"lab {lab.id}: {lab.state}   {lab.url or ''}", markup=False)
        if lab.login:
            out.print(lab.login, markup=False, soft_wrap=True)
        table = Table("node", "zone", "roles", "process", "address", box=None, pad_edge=False)
        for row in lab.nodes:
            table.add_row(*map(escape, row))
        out.print(table)


@lab_app.command("exec", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def lab_exec(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A lab.")],
    host: Annotated[str, typer.Argument(help="A node, or client-<zone>.")],
) -> None:
    """Run a command in a host of a lab: opensearch-chaos lab exec 3az a-data -- curl 127.0.2.2:9200"""
    from chaos.commands import leases

    if not context.args:
        raise InvalidInput("no command is given", remedy="for example: opensearch-chaos lab exec 3az client-a -- bash")
    raise typer.Exit(leases.execute(name, host, context.args))


@lab_app.command("down")
def lab_down(
    name: Annotated[str | None, typer.Argument(help="A lab; may be left out when there is one.")] = None,
) -> None:
    """Take a lab away; its nodes' logs are kept."""
    from chaos.commands import leases

    id, logs, problems = leases.down(name)
    for problem in problems:
        out.print(f"could not: {problem}", markup=False)
    if problems:
        raise typer.Exit(int(Exit.DIRTY))
    out.print(f"lab {id} is gone; its logs are in {logs}", markup=False)


# ---- helpers ------------------------------------------------------------------------------------------


def _all(do: Any, files: list[Any]) -> list[Any]:
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


def _is_topology(file: Path) -> bool:
    try:
        return any(line.replace(" ", "").startswith("kind:topology") for line in file.read_text().splitlines())
    except (OSError, UnicodeDecodeError):
        return False


def _plans(
    experiments: list[Any],
    seed: int | None,
    *,
    as_json: bool = False,
    lab: Any = None,
    kind: str = DEFAULT_LAB,
    repeat: int | None = None,
) -> None:
    """Print them all. What cannot be had is refused after that, as a run would."""
    from chaos.registry import PROVIDERS
    from chaos.run import space
    from chaos.run.execution import offers_for

    for experiment in experiments:
        first = seed if seed is not None else experiment.seed
        records = space.of_record(experiment) * (repeat or 1)
        room = {"record": records.bytes} | ({} if lab else {"lab": space.of_lab(experiment, kind).bytes})
        _print_plan(experiment, first, room, offers_for(experiment, PROVIDERS, lab, kind), as_json=as_json)
        if repeat is not None:
            out.print(f"  a series of {repeat} runs, seeds {first} to {first + repeat - 1}", markup=False)


def _print_plan(experiment: Any, seed: int, room: dict[str, int], offers: Any, *, as_json: bool = False) -> None:
    """``room``: bytes that may be needed of the record's disk and of the state folder's, by what for."""
    from chaos.run import plan as planning
    from chaos.run.space import size

    steps = list(planning.steps(experiment, seed, offers))
    if as_json:
        plan = {"experiment": experiment.to_json(), "seed": seed, "steps": steps, "notes": planning.blunt(experiment)}
        print(json.dumps(plan | {"room_bytes": room}, indent=1))
        return
    out.print(f"{experiment.name} on {experiment.topology.name}, seed {seed}", markup=False)
    for operation in experiment.load.operations:
        stated = experiment.good_in_file.get(operation.name)
        whose = f" (given on the command line; the file says {stated.text})" if stated is not None else ""
        out.print(
            f"  load: {operation.name} {operation.operation} {operation.rate.text}, good within "
            f"{operation.good_within.text}{whose}, from zones {', '.join(experiment.client_zones)}",
            markup=False,
        )
    phase = None
    for step in steps:
        if step["phase"] != phase:
            phase = step["phase"]
            out.print(f"phase {phase}", markup=False)
        out.print(f"  {step['step']}", markup=False)
        if step.get("provider"):
            out.print(f"    provider: {step['provider']} (proof of grade {step['grade']})", markup=False)
        for key in ("mechanism", "resolved"):
            if step.get(key):
                out.print(f"    {key}: {step[key]}", markup=False)
        for move in step.get("moves", []):
            out.print(f"    move: {move}", markup=False)
        inverse = step.get("inverse")
        for line in inverse if isinstance(inverse, list) else [inverse] if inverse else []:
            out.print(f"    inverse: {line}", markup=False)
    for expectation in experiment.expect:
        known = f" (known weakness: {expectation.known_weakness})" if expectation.known_weakness else ""
        out.print(f"  expect: {expectation.text} in {', '.join(expectation.phases) or 'the run'}{known}", markup=False)
    for note in planning.blunt(experiment):
        out.print(f"  note: {note}", markup=False)
    needed = ", ".join(f"{size(count)} for the {what}" for what, count in room.items())
    out.print(f"  room on disk, at most: {needed}", markup=False)


def findings_name(folder: Path) -> str:
    return str(json.loads((folder / "plan.json").read_text())["experiment"]["name"])


def _say(text: str) -> None:
    out.print(text, markup=False)


def _say_error(error: ChaosError) -> None:
    print(f"opensearch-chaos: {error}", file=sys.stderr)


INTERRUPTED = 130
"""What typer makes of a Ctrl-C where no run has its own handler, as during a download."""


def main() -> None:
    """Entry point: one line for every failure that we know, never a traceback for a user's mistake."""
    try:
        code = app(standalone_mode=False)  # click hands an exit code back instead of raising it
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        raise SystemExit(code if isinstance(code, int) else 0)
    except ChaosError as error:
        _say_error(error)
        raise SystemExit(int(error.exit_code)) from None
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(int(Exit.ERROR)) from None
    except OSError as error:  # a folder that cannot be written, a full disk
        where = f": {error.filename}" if error.filename else ""
        print(f"opensearch-chaos: {error.strerror or error}{where}", file=sys.stderr)
        raise SystemExit(int(Exit.ERROR)) from None
    except (typer.Abort, KeyboardInterrupt):
        print("opensearch-chaos: interrupted", file=sys.stderr)
        raise SystemExit(int(Exit.ABORTED)) from None
    except Exception as error:
        if type(error).__module__.startswith(("click", "typer")) and hasattr(error, "format_message"):
            print(f"opensearch-chaos: {error.format_message()}", file=sys.stderr)
            raise SystemExit(int(Exit.USAGE)) from None
        raise


if __name__ == "__main__":
    main()
