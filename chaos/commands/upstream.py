"""``upstream``: bugs of OpenSearch as cases: run them, and print reports that can be filed as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chaos.base.errors import Exit, InvalidInput
from chaos.commands.common import Home, for_each, out

if TYPE_CHECKING:
    from chaos.definitions.upstream import Case
    from chaos.report.upstream import Hunted

RESULTS = Path("reports/results")
CASES = Path("experiments/upstream")


def upstream(
    name: Annotated[str | None, typer.Argument(help="A case's name or file; none lists them all.")] = None,
    run_it: Annotated[bool, typer.Option("--run", help="Run it and keep what it showed.")] = False,
    versions: Annotated[
        list[str] | None,
        typer.Option("--version", help="With --run: only on this version; default all that it names."),
    ] = None,
    control: Annotated[bool, typer.Option("--control", help="With --run: the steps that must not show it.")] = False,
    times: Annotated[int, typer.Option(help="With --run: how often, each in a lab of its own.", min=1)] = 1,
    results: Annotated[Path, typer.Option("--results", help="Where records are.")] = RESULTS,
    page: Annotated[bool, typer.Option("--page", help="Print the page of all cases, docs/upstream.md.")] = False,
    opensearch_home: Home = None,
) -> None:
    """Bugs of OpenSearch as steps: run one, or print it as a report that can be filed."""
    from chaos.report import upstream as reports

    if (versions or control or times > 1 or opensearch_home) and not run_it:
        raise InvalidInput("--version, --control, --times and --opensearch-home belong to --run")
    if page and (name or run_it):
        raise InvalidInput("--page prints all cases", remedy="leave the name and --run out")
    if run_it:
        if name is None:
            raise InvalidInput("--run takes one case", remedy="name it: opensearch-chaos upstream NAME --run")
        case = _case(name)
        raise typer.Exit(_run(case, versions or [], results, times, control=control, home=opensearch_home))
    records = recorded(results)
    if name is not None:
        print(reports.report(_case(name), records), end="")
        return
    cases = for_each(_load, shipped())
    if page:
        print(reports.page(cases, records, hunted(results)), end="")
        return
    if not cases:
        out.print(f"no cases in {CASES}", markup=False)
    for case in cases:
        out.print(f"{case.written.name}: {reports.state(case, records)}. {case.written.title}", markup=False)


def hunted(results: Path) -> list[Hunted]:
    """What the committed journals of hunts say (``hunt/*.jsonl`` among the results), with what explains it."""
    from collections import Counter

    from chaos.campaign.journal import Journal
    from chaos.programs.audit.accepted import case_of
    from chaos.report.upstream import Hunted

    found = []
    for over, topology in (("settings", "one-node"), ("faults", "3az")):
        file = results / "hunt" / f"{over}.jsonl"
        if not file.is_file():
            continue
        lines = Journal(file).lines
        told: list[tuple[str, str | None]] = []
        for line in lines:
            if line["outcome"] in ("deaf", "deaf once, not again"):
                says = ", then ".join(f"`{key}: {value}`" for key, value in line["changes"])
                told.append((says, next(filter(None, (case_of(*each) for each in line["changes"])), None)))
            elif line["outcome"] == "weakness":
                told.append((f"seed {line['seed']}: {line['says']}", None))
        command = f"opensearch-chaos hunt {topology} --over {over}"
        outcomes = Counter(line["outcome"] for line in lines)
        found.append(Hunted(over, command, dict(outcomes.most_common()), sorted(told)))
    return found


def shipped() -> list[Path]:
    """The files of all cases: of this folder, else those that come with this package."""
    from chaos.definitions import shipped

    folder = CASES if CASES.is_dir() else shipped.folder() / CASES.name
    return sorted(folder.glob("*.yaml"))


def recorded(results: Path) -> list[dict[str, Any]]:
    """Every record of an attempt, as they began."""
    found = [json.loads(file.read_text()) for file in results.glob("*/*-upstream.json")]
    return sorted(found, key=lambda each: str(each["began"]))


def _load(path: Path) -> Case:
    from chaos.definitions.upstream import load_case

    return load_case(path)


def _case(name: str) -> Case:
    from chaos.definitions.source import did_you_mean

    given = Path(name)
    if given.suffix in (".yaml", ".yml"):
        return _load(given)
    known = {path.stem: path for path in shipped()}
    if name not in known:
        raise InvalidInput(f"there is no case {name}: {did_you_mean(name, known)}")
    return _load(known[name])


def _run(case: Case, versions: list[str], results: Path, times: int, *, control: bool, home: Path | None) -> int:
    from chaos.base.console import Reporter
    from chaos.campaign import upstream as campaign
    from chaos.definitions.source import did_you_mean
    from chaos.run import space
    from chaos.run.pool import LabPool
    from chaos.run.stopping import Stop, signals
    from chaos.targets.labs import kinds

    file = case.written
    for version in versions:
        if version not in file.reproduces:
            raise InvalidInput(
                f"{file.name} says nothing of {version}: {did_you_mean(version, file.versions)}",
                remedy="add it to reproduces",
            )
    reporter, stop = Reporter(), Stop()
    space.refuse_scarce([space.in_state(file.name, space.of_topology(case.topology, kinds.DEFAULT))])
    worst = Exit.PASS
    try:
        with signals(stop, reporter):
            for version in versions or file.versions:
                for _ in range(times):
                    pool = LabPool(reporter.line, opensearch_home=home, report=reporter.line)
                    record = campaign.attempt(case, version, pool, reporter, stop, control=control)
                    kept = keep(results, record)
                    code = _code(file.reproduces[version], record["outcome"], control=control)
                    worst = max(worst, code, key=lambda each: (Exit.PASS, Exit.INCONCLUSIVE, Exit.WEAKNESS).index(each))
                    what = f"{file.name}, the control" if control else file.name
                    out.print(f"{what} on {version}: {record['outcome']}{_words(record)}   {kept}", markup=False)
    finally:
        reporter.close()
    return int(worst)


def _words(record: dict[str, Any]) -> str:
    if record["seconds"] is not None:
        outlives: bool | None = record.get("outlives_restart")
        restart = "" if outlives is None else ", outlives a restart" if outlives else ", gone after a restart"
        return f" after {record['seconds']:g} s{restart}"
    for number, step in enumerate(record["steps"], 1):
        if "lacks" in step:
            return f": step {number}: {step['lacks']}"
        if step.get("shows") in ("neither", "both"):
            return f": step {number} shows {step['shows']} of what is expected and what was seen"
    return ""


def _code(declared: str, outcome: str, *, control: bool) -> Exit:
    """Whether it was as the file says: always and never are held to, sometimes decides nothing."""
    from chaos.definitions.upstream import DECIDES_NOTHING, KEPT, REPRODUCED

    if outcome not in (REPRODUCED, KEPT):
        return Exit.INCONCLUSIVE
    wanted = "never" if control else declared
    if wanted == DECIDES_NOTHING:
        return Exit.PASS
    return Exit.PASS if (outcome == REPRODUCED) == (wanted == "always") else Exit.WEAKNESS


def keep(results: Path, record: dict[str, Any]) -> Path:
    """Write a record down under the case's name."""
    began = str(record["began"])[:19].replace("-", "").replace(":", "")
    file = results / Path(record["what"]).stem / f"{began}Z-upstream.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(record, sort_keys=True, indent=1, ensure_ascii=False) + "\n")
    return file
