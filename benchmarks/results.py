"""Runs in a row, recorded one by one, and the page that is made of them.

    python benchmarks/results.py record demo --times 20      # goes on where the last call stopped
    python benchmarks/results.py record smoke --times 10
    python benchmarks/results.py record no-fault --times 20
    python benchmarks/results.py record no-fault --times 20 --of experiments/replication/segrep-no-fault.yaml
    python benchmarks/results.py record each                 # every shipped experiment without a run; the oldest first
    python benchmarks/results.py record each --again FILE    # one of them once more; its first run stays
    python benchmarks/results.py record full                 # every file that has tests marked full; the oldest first
    python benchmarks/results.py record sides                # every experiment with sides: all runs of all its sides
    python benchmarks/results.py page                        # writes docs/results.md

A row belongs to one state of what it runs: ``code`` is a hash over the package, the topologies, the lock and those
experiments or tests that it runs, and nothing of those may be uncommitted. Benchmarks, documents, other experiments
and other tests change no run. Each run has a file of its own, ``reports/results/NAME/BEGAN.json``, which is written
when it begins and again when it has ended, so that a run that was cut off is seen too; none is taken out. It holds what
was found, hashes of plan and history, versions and machine. What counts are the first runs of the newest row; the page
lists all of them.

The series ``each`` and ``no-fault`` can be run as campaigns, whose committed cells are rows as well: ``series.py``.

All runs of an experiment with sides are one row, which holds how far each metric that decides, and each cost, was moved
by each side. Where such a series was cut off the next call of the same code goes on with the runs that it made.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
import xml.etree.ElementTree as tree
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from chaos.base import text
from chaos.base.errors import ChaosError, Exit
from chaos.checks.reasons import Outcome
from chaos.checks.record import Record
from chaos.checks.shown import Shown, by_counts
from chaos.history.reader import History
from chaos.registry import load_experiment
from chaos.report import answers, in_force
from chaos.report.meanings import meanings
from chaos.statistics import sides as comparing
from chaos.statistics.compare import Comparison, Row, summary_of
from chaos.statistics.sides import Sides, SidesFile, is_sides, moved, word
from chaos.statistics.store import Group, is_run

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "reports" / "results"
PAGE = ROOT / "docs" / "results.md"
CODE = ("chaos/", "topologies/", "pyproject.toml", "requirements.lock", "Makefile")
"""What every run is made of; names that end in / are folders."""
DEMO = "experiments/zone-network-slowdown.yaml"
NO_FAULT = "experiments/no-fault.yaml"
CASES = "upstream"
"""The folder of cases, which are no experiments."""
ELSEWHERE = ("fis", "kubernetes")
"""Folders of experiments that no lab can carry out."""
LONG = ("noise-hour",)
"""Experiments that are not in ``each``."""
RETRY = "30m"
MOST_SAID = 300
"""Characters of what a failing test said that are kept."""
ENGINE = ("tests/docker/engine.py", "tests/docker/")
"""What finds a Docker engine, and whose tests need one."""
ANEW = ("each", "full", "sides")
"""Series of many things, each of which is run once."""
ASKED = (
    "visible.p99",
    "replicas.visible.p99",
    "replication.lag",
    "replication.bytes_behind",
    "read.p99",
    "documents.acknowledged",
    "documents.tries",
)
"""Metrics of sides that are kept beside those that decide and the costs."""
SERIES = {
    "demo": "make demo",
    "smoke": f"pytest -m 'chaos and smoke' --chaos-retry-inconclusive={RETRY}",
    "no-fault": "opensearch-chaos run experiments/no-fault.yaml",
    "each": "opensearch-chaos run EXPERIMENT",
    "full": "pytest -m full FILE",
    "sides": "opensearch-chaos run EXPERIMENT",
}
TITLES = {
    "demo": "The demo",
    "smoke": "The short experiments under pytest",
    "no-fault": "Nothing is done to the cluster",
    "each": "Every experiment",
    "full": "The long tests",
    "sides": "Experiments with sides",
}
COMPARED = {"pass": "no side is worse", "fail": "a side is worse", "inconclusive": "not enough is known"}
"""What outcomes of a comparison are called."""


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def is_code(path: str, experiments: str = "") -> bool:
    """Whether a file decides what a run does. ``experiments``: those that it runs, a file or a folder."""
    part = (*CODE, *([experiments] if experiments else []))
    return any(path == each or (each.endswith("/") and path.startswith(each)) for each in part)


def experiments_of(series: str, what: str = "") -> str:
    """What a series runs: an experiment, a file of tests, or the folder of all where a tag decides."""
    default = "tests/" if series == "full" else "experiments/"
    if series == "no-fault":
        return what or NO_FAULT
    return {"demo": DEMO, "smoke": default}.get(series, what or default)


def code(series: str, what: str = "", commit: str = "HEAD") -> str:
    """The hash of what one run of a series is made of, as it was committed."""
    part = experiments_of(series, what)
    listed = [line for line in git("ls-tree", "-r", commit).splitlines() if is_code(line.split("\t", 1)[1], part)]
    return hashlib.sha256("\n".join(listed).encode()).hexdigest()[:12]


def refuse_uncommitted(series: str, what: str = "") -> None:
    """Raises SystemExit when something that decides what a run does is not committed."""
    part = experiments_of(series, what)
    changed = [line[3:] for line in git("status", "--porcelain").splitlines() if is_code(line[3:], part)]
    if changed:
        raise SystemExit(f"uncommitted code: {', '.join(changed[:5])}; commit it first, a row belongs to one state")


def lines(series: str) -> list[dict[str, Any]]:
    """The runs of a series, as they began."""
    every = [json.loads(file.read_text()) for file in RESULTS.glob("*/*.json")]
    return sorted((each for each in every if each["series"] == series), key=lambda each: str(each["began"]))


def file_of(run: dict[str, Any]) -> Path:
    """Where a run is kept: under the experiment's name, or the series' where several are run."""
    what = Path(str(run["what"]))
    name = DEMO if run["series"] == "demo" else str(what) if what.suffix in (".yaml", ".py") else str(run["series"])
    began = datetime.fromisoformat(str(run["began"])).strftime("%Y%m%dT%H%M%SZ")
    return RESULTS / Path(name).stem / f"{began}-{run['series']}.json"


def keep(run: dict[str, Any]) -> None:
    file = file_of(run)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(run, sort_keys=True, indent=1, ensure_ascii=False) + "\n")


def fingerprint(folder: Path) -> str:
    """One hash over a run's history: names and bytes of its files."""
    digest = hashlib.sha256()
    for file in sorted((folder / "history").rglob("*")):
        if file.is_file():
            digest.update(f"{file.relative_to(folder)}\n".encode())
            with open(file, "rb") as opened:
                digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()[:16]


def machine() -> dict[str, Any]:
    """What this machine is and how busy it is before a run begins (load average of a minute)."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processors": os.cpu_count(),
        "memory_gib": round(memory),
        "kernel": platform.release(),
        "busy": round(os.getloadavg()[0], 2),
    }


# -- recording -----------------------------------------------------------------------------------


def verdict_of(folder: Path) -> dict[str, Any]:
    """What a run's folder says, in a line."""
    found = json.loads((folder / "findings.json").read_text())
    plan = json.loads((folder / "plan.json").read_text())
    return {
        "outcome": found["outcome"],
        "clean": found["clean"],
        "headline": found["headline"],
        "summary": found["summary"],
        "reasons": [reason["says"][:400] for reason in found["reasons"]][:4],
        "findings": [
            {name: item[name] for name in ("title", "measured_text", "counts_as")} for item in found["findings"]
        ],
        "helps": helps_of(folder, found),
        "decides": (found["tables"].get("echo") or {}).get("says"),
        "versions": plan["versions"],
        "plan": plan.get("hash"),
        "history": fingerprint(folder),
        "run": folder.name,
        **({"repeats": first["run"]} if (first := found["run"].get("second_of")) else {}),
    }


def helps_of(folder: Path, found: dict[str, Any]) -> dict[str, list[str]]:
    """Title of each known weakness that was seen → what the run's report says may help, by its titles."""
    record = Record(History.open(folder))
    findings = {**found, "findings": answers.with_targets(found, record.plan)}
    seen = [item for item in findings["findings"] if item["counts_as"] == "known_weakness"]
    return {item["title"]: [remedy.title for remedy in answers.advice(record, findings, item)] for item in seen}


def written(what: str) -> dict[str, Any]:
    """An experiment's file as it is written. With ``vary`` it has sides, so it is no run but a series of them; empty of
    a file that is no YAML."""
    return dict(yaml.safe_load((ROOT / what).read_text())) if what.endswith(".yaml") else {}


def is_of(series: str, file: dict[str, Any]) -> bool:
    """Whether a file of the folder of experiments is one, and of this series."""
    return file.get("kind", "experiment") == "experiment" and ("vary" in file) is (series == "sides")


def compared(folder: Path) -> dict[str, Any]:
    """What the folder of an experiment with sides says: each side's runs, and how far each metric was moved by each.

    Without an outcome where runs are missing that were to be made.
    """
    file = SidesFile.read(folder)
    groups = comparing.groups(folder, file)
    found = comparing.compare_sides(groups, file)
    plan = json.loads(next((folder / file.sides[0]).glob("*/plan.json")).read_text())
    made = len(file.runs)
    return {
        "outcome": found.outcome.value if made == file.times * len(file.sides) else "cut off",
        "summary": found.sentence,
        "level": found.level,
        "baseline": found.baseline,
        "times": file.times,
        "differences": {name: list(each) for name, each in file.differences.items()},
        "plans": file.hashes,
        "versions": plan["versions"],
        **opensearch_of(groups),
        "runs": {name: kept(folder / name) for name in file.sides},
        "counted": {group.label: group.counted for group in found.groups},
        "cut_off": len(file.cut_off),
        "run": folder.name,
        "metrics": [row for each in found.comparisons for row in shifts(found, each)],
    } | ({} if found.protection is None else {"protection": found.protection.to_json()})


def opensearch_of(groups: Sequence[Group]) -> dict[str, str]:
    """``opensearch`` of a row whose sides run different versions, in words; empty where all run one."""
    found = {group.label: str((group.about.get("versions") or {}).get("opensearch") or "unknown") for group in groups}
    if len(set(found.values())) == 1:
        return {}
    return {"opensearch": text.listed([f"{version} in {name}" for name, version in found.items()])}


def kept(folder: Path) -> list[dict[str, str]]:
    """The runs of a side, each with the hash of its history."""
    return [{"run": run.name, "history": fingerprint(run)} for run in sorted(folder.glob("*/")) if is_run(run)]


def shifts(found: Sides, comparison: Comparison) -> Iterator[dict[str, Any]]:
    """How far a side moved each metric that is kept, from the first side's."""
    for row in sorted(comparison.rows, key=lambda row: (not row.decides, row.metric)):
        if row.decides or row.metric.startswith("costs.") or row.metric.partition("@")[0] in ASKED:
            yield {"side": comparison.b.label, **shift_of(row)}


def shift_of(row: Row) -> dict[str, Any]:
    """One metric of one side. ``first``, ``value``: median, least and most; ``moved``: the shift with its interval."""
    names = ("metric", "unit", "decides", "verdict", "shift", "interval")
    data = {name: value for name, value in row.to_json().items() if name in names}
    return data | {"first": summary_of(row.a), "value": summary_of(row.b), "moved": moved(row), "word": word(row)}


def unfinished(out: Path, what: str, known: Sequence[dict[str, Any]], state: str) -> Path | None:
    """The folder of a series of sides that was cut off, was begun by a row of the same code, and can go on."""
    cut_off = [line for line in known if line["what"] == what and line["code"] == state and "ended" not in line]
    begun = [str(line["began"]) for line in cut_off]
    if not begun:
        return None
    since = f"{datetime.fromisoformat(min(begun)).astimezone(UTC):%Y%m%dT%H%M%SZ}"
    for folder in sorted(out.glob(f"*-{Path(what).stem}-sides-*/"), reverse=True):
        if folder.name >= since and is_sides(folder) and (file := SidesFile.read(folder)).experiment == Path(what).stem:
            return folder if len(file.runs) < file.times * len(file.sides) else None
    return None


def new_folders(out: Path, before: set[str]) -> list[Path]:
    return sorted(path for path in out.glob("*/") if path.name not in before and (path / "findings.json").exists())


def run_once(series: str, what: str, resume: Path | None = None) -> dict[str, Any]:
    """One run and what it says; never raises for what the run does. ``resume``: the folder of sides that it goes on
    with."""
    out = ROOT / "reports"
    before = {path.name for path in out.glob("*/")}
    python = [sys.executable, "-m"]
    junit = ROOT / "build" / "results-junit.xml"
    junit.parent.mkdir(exist_ok=True)
    junit.unlink(missing_ok=True)
    if series == "full":
        command = [*python, "pytest", "-q", "-m", "full", what, f"--junitxml={junit}", "-o", "junit_family=xunit2"]
        if what.startswith(ENGINE[1]):
            command = [sys.executable, ENGINE[0], *command]
    elif series == "demo":
        command = ["make", "--no-print-directory", "demo"]
    elif series == "smoke":
        command = [*python, "pytest", "-q", "-m", "chaos and smoke", f"--chaos-retry-inconclusive={RETRY}"]
        command += [f"--junitxml={junit}", "-o", "junit_family=xunit2", f"--chaos-out={out}"]
    else:
        command = [*python, "chaos", "run", what, "--out", str(out), *(["--resume", str(resume)] if resume else [])]
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    seconds = round(time.monotonic() - began)
    folders = new_folders(out, before)
    sides = [path for path in out.glob("*/") if path == resume or (path.name not in before and is_sides(path))]
    found: dict[str, Any] = {"exit_code": done.returncode, "seconds": seconds}
    if series == "smoke":
        found |= junit_of(junit) | {"runs": [verdict_of(folder) for folder in folders]}
        found["repeated"] = sorted(run["repeats"] for run in found["runs"] if "repeats" in run)
    elif series == "full":
        found |= junit_of(junit)
        if found["outcome"] == "green" and (done.returncode or found["known"] == found["items"]):
            found["outcome"] = "red" if done.returncode else "none"  # nothing but skipped tests shows nothing
        if found["outcome"] != "green":
            found["said"] = said(done.stdout + done.stderr)
    elif series == "sides" and sides:
        try:
            found |= compared(max(sides))
        except (ChaosError, StopIteration) as error:  # a side without a run, for example
            found |= {"outcome": "cut off" if done.returncode == Exit.ABORTED else "none", "said": said(str(error))}
    elif folders:
        found |= verdict_of(folders[-1])
    else:
        found |= {"outcome": "none", "said": said(done.stdout + done.stderr)}
    return found


def said(text: str) -> str:
    """The end of what a command printed, without the path of this machine's checkout."""
    return text.replace(f"{ROOT}/", "")[-400:]


def junit_of(file: Path) -> dict[str, Any]:
    """How many items pytest counted, which passed, and which were not well, with what they said."""
    if not file.exists():
        return {"outcome": "none"}
    cases = list(tree.parse(file).iter("testcase"))
    bad = {
        str(
            case.get("name")
        ): f"{kind}: {' '.join(str(what.get('message')).replace(f'{ROOT}/', '').split())[:MOST_SAID]}"
        for case in cases
        for kind in ("failure", "error")
        if (what := case.find(kind)) is not None
    }
    skipped = [str(case.get("name")) for case in cases if case.find("skipped") is not None]
    passed = sorted({str(case.get("name")) for case in cases} - {*bad, *skipped})
    counts = {"items": len(cases), "known": len(skipped)}
    return {"outcome": "red" if bad else "green", **counts, "passed": passed, "bad": bad}


def long_tests() -> list[Path]:
    """Every file that has tests marked full, as pytest finds them."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-m", "full", "tests"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted({ROOT / line.partition("::")[0] for line in listed.splitlines() if "::" in line})


def wanted(
    series: str, times: int, known: Sequence[dict[str, Any]], state: Callable[[str], str], of: str = ""
) -> Iterator[str]:
    """What is still to run. ``state``: what is run → its code now; lines of other code do not count.

    ``of``: the experiment of a series of runs without a fault.
    """
    ended = [line for line in known if "ended" in line and line["code"] == state(line["what"])]
    if series in ANEW:
        done = {line["what"] for line in ended}
        last = {line["what"]: line["ended"] for line in known if "ended" in line}
        files = (path for path in (ROOT / "experiments").rglob("*.yaml") if path.parent.name not in (CASES, *ELSEWHERE))
        every = [path for path in files if path.stem not in LONG and is_of(series, written(str(path)))]
        if series == "full":
            every = long_tests()
        names = sorted(str(path.relative_to(ROOT)) for path in every)
        yield from sorted((what for what in names if what not in done), key=lambda what: last.get(what, ""))
        return
    what = (of or NO_FAULT) if series == "no-fault" else SERIES[series]
    for _ in range(max(0, times - sum(line["what"] == what for line in ended))):
        yield what


def record(series: str, times: int, minutes: float, again: Sequence[str] = (), of: str = "") -> None:
    refuse_uncommitted(series, of)
    commit = git("rev-parse", "--short", "HEAD").strip()
    state = functools.cache(lambda what: code(series, what))
    deadline = time.monotonic() + 60 * minutes
    for what in again or wanted(series, times, lines(series), state, of):
        if time.monotonic() > deadline:
            print("time is over; the next call goes on here")
            return
        run = {"series": series, "code": state(what), "commit": commit, "what": what, "machine": machine()}
        run["began"] = datetime.now(UTC).isoformat(timespec="seconds")
        goes_on = unfinished(ROOT / "reports", what, lines(series), run["code"]) if series == "sides" else None
        keep(run)
        found = run_once(series, what, goes_on)
        if series == "no-fault" and found["exit_code"] == Exit.USAGE:
            file_of(run).unlink()  # nothing was started, so it is no run of the series; nor would the next one be
            raise SystemExit(f"{what} was refused: {found.get('said', '')}")
        over = {} if found["outcome"] == "cut off" else {"ended": datetime.now(UTC).isoformat(timespec="seconds")}
        keep(run | over | found)
        print(
            f"{series}: {what}: {found['outcome']} ({found['seconds']} s) {found.get('summary', '')}"[:300], flush=True
        )


# -- the page --------------------------------------------------------------------------------------


def rows(series: str) -> list[dict[str, Any]]:
    """The runs of the newest row: the lines of a begin and its end as one; a run without an end was cut off.

    Of each thing that is run the newest code counts: most series run one.
    """
    known = lines(series)
    newest = {line["what"]: line["code"] for line in known}
    found = [{"outcome": "cut off", **run} for run in known if run["code"] == newest[run["what"]]]
    if series not in ANEW:
        return found
    last = {run["what"]: run for run in found}  # the newest of each
    return [last[what] for what in sorted(last)]


def share(outcomes: Iterable[str]) -> str:
    counted = Counter(outcomes)
    return ", ".join(f"{number} {outcome}" for outcome, number in counted.most_common())


def cell(said: Any, most: int = 220) -> str:
    flat = " ".join(str(said).split()).replace("|", "\\|")
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def known_of(run: dict[str, Any]) -> int:
    """How many findings are known weaknesses; runs of before 2026-11-23 kept numbers only."""
    findings = run.get("findings") or []
    if isinstance(findings, dict):
        return int(findings.get("known_weakness", 0))
    return sum(each["counts_as"] == "known_weakness" for each in findings)


def called(run: dict[str, Any]) -> str:
    """What a recorded run's verdict is called: its outcome, or one of the two words beside the outcomes; and that it
    is not known to have left its machine clean, where it is not.

    Reasons are kept the worst first, and a known weakness that is gone is the least of a weakness: where it comes first
    nothing else made one.
    """
    clean = run.get("clean", True)
    left = "" if clean is True else "; clean-up unknown" if clean is None else "; not clean"
    if run.get("series") == "sides":
        said = COMPARED.get(str(run["outcome"]), str(run["outcome"]))
        return f"{said}; not clean" if run.get("exit_code") == Exit.DIRTY else said
    if run["outcome"] not in set(Outcome):
        return str(run["outcome"])
    findings = run.get("findings") or {}
    counts = list(findings) if isinstance(findings, dict) else [str(each["counts_as"]) for each in findings]
    first = str(next(iter(run.get("reasons") or ()), ""))
    gone = "unexpected_pass" in counts and "weakness" not in counts and ("note" in first or not first)
    return f"{by_counts(run['outcome'], counts, notes_alone=gone).words}{left}"


def is_control(run: dict[str, Any]) -> bool:
    """A planted weakness, which must fail."""
    return "/controls/" in run["what"]


def summary() -> list[str]:
    """What somebody can decide by: how the shipped experiments ended, each by its newest run, and what is known."""
    runs = rows("each")
    if not runs:
        return []
    controls = [run for run in runs if is_control(run)]
    others = [run for run in runs if not is_control(run)]
    caught = [run for run in controls if run["outcome"] == "weakness"]
    commits = Counter(run["commit"] for run in runs)
    made = ", ".join(f"{commit} ({number})" for commit, number in commits.most_common())
    head = [
        "## In short",
        "",
        f"{len(runs)} experiments, each by its newest run of the code that is named beside it; commits: {made}. "
        f"{len(controls)} of them are planted controls, which must fail.",
        "",
        "| verdict | experiments | which |",
        "|---|---|---|",
    ]
    by: dict[str, list[str]] = {}
    for run in others:
        by.setdefault(called(run), []).append(Path(run["what"]).stem)
    order = ["pass", "pass with known weaknesses", "improved", "weakness", "inconclusive", "aborted", "error"]
    for verdict in [*order, *sorted(set(by) - set(order))]:
        names = by.get(verdict, [])
        which = {"pass": "all others", "pass with known weaknesses": "see below"}.get(verdict, ", ".join(names))
        if verdict in order[:5] or names:
            head.append(f"| {verdict} | {len(names)} | {(which or '-') if names else '-'} |")
    missed = ", ".join(Path(run["what"]).stem for run in controls if run not in caught)
    head.append(
        f"| planted, and found | {len(caught)} of {len(controls)} | {f'not found: {missed}' if missed else 'all'} |"
    )
    head += ["", *(line for series in SERIES if series != "each" for line in _in_a_line(series)), ""]
    known = [run for run in others if called(run).partition(";")[0] == Shown.KNOWN.words]
    return [*head, *known_weaknesses(known)]


def _in_a_line(series: str) -> list[str]:
    """How a series ended, in one line."""
    runs = rows(series)
    if not runs:
        return []
    if series in ANEW:
        return [f"* {TITLES[series]}: {share(map(called, runs))}, of {len(runs)}; of the commits named below."]
    return [
        f"* {_title(series, what)}: {share(map(called, made))}, of {len(made)}; code {made[0]['code']} (commit "
        f"{made[0]['commit']})."
        for what, made in _by_what(runs).items()
    ]


def _by_what(runs: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """What was run → its runs."""
    found: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        found.setdefault(run["what"], []).append(run)
    return found


def _title(series: str, what: str) -> str:
    """What one table of a series is called: an experiment of its own is named."""
    own = what not in (NO_FAULT, DEMO, SERIES[series])
    return f"{TITLES[series]}: {Path(what).stem}" if own else TITLES[series]


def known_weaknesses(runs: Iterable[dict[str, Any]]) -> list[str]:
    """A table of what the experiments of these runs call known: the line, why it fails, and what usually helps.

    What helps is what the run's own report says. Of runs that do not have it, from before it was kept, it is what
    usually helps against the faults until that phase, less what the experiment has in force.
    """
    head = ["### Known weaknesses, and what helps", ""]
    lines = ["| experiment | expectation | why it is known to fail | what usually helps |", "|---|---|---|---|"]
    for run in runs:
        experiment, advised = load_experiment(ROOT / run["what"]), run.get("helps") or {}
        for line in experiment.expect:
            if line.known_weakness is not None:
                inside = f" in {text.listed(list(line.phases))}" if line.phases else ""
                why = " ".join(line.known_weakness.split())
                own = [title for name, titles in advised.items() if name.startswith(line.text) for title in titles]
                titles = list(dict.fromkeys(own)) or [remedy.title for remedy in remedies(experiment, line)]
                helps = "; ".join(titles[:3]) or "see its reason"
                cells = (experiment.name, f"`{line.text}`{inside}", why, helps)
                lines.append(f"| {' | '.join(cell(each, 600) for each in cells)} |")
    return [*head, *lines, ""] if lines[2:] else []


def remedies(experiment: Any, line: Any) -> list[Any]:
    """What may help against a known weakness, less what the experiment's own topology and actions have already."""
    data = experiment.to_json()
    names = [phase["name"] for phase in data["phases"]]
    until = max((names.index(phase) for phase in line.phases), default=len(names) - 1)
    steps = [step for phase in data["phases"][: until + 1] for step in (*phase["inject"], *phase["do"])]
    kinds = [str(step["kind"]) for step in reversed(steps)]
    had = in_force.planned({"topology": data["topology"], "experiment": data}, kinds)
    if data["load"]["client"]["kind"] == "load-balancer":
        had.add("balancer-probe")
    if data.get("controller"):
        had.update(("zone-failover", "weights-away"))
    return [each for each in meanings().advice(line.metric, kinds) if each.id not in had]


def section(series: str) -> list[str]:
    runs = rows(series)
    if not runs:
        return [f"## {TITLES[series]}", "", f"`{SERIES[series]}`: not run yet.", ""]
    if series in ANEW:
        return _table(series, runs, TITLES[series], SERIES[series])
    every = _by_what(runs).items()
    return [line for what, made in every for line in _table(series, made, _title(series, what), _command(series, what))]


def _command(series: str, what: str) -> str:
    return f"opensearch-chaos run {what}" if series == "no-fault" else SERIES[series]


def _table(series: str, runs: Sequence[dict[str, Any]], title: str, command: str) -> list[str]:
    """One table of the page, with its head."""
    first = runs[0]
    at = first["machine"]
    each = series in ANEW
    of = "" if each else f"code {first['code']} (commit {first['commit']}), "
    row = "the newest of each, of the commits that are named" if each else "in a row"
    head = [
        f"## {title}",
        "",
        f"`{command}`, {of}{at['processors']} processors, {at['memory_gib']} GiB: {len(runs)} runs, {row}: "
        f"{share(called(run) for run in runs)}.",
        "",
    ]
    if series == "full":
        head += ["| tests | outcome | items | skipped | minutes | commit | not well |", "|---|---|---|---|---|---|---|"]
        for run in runs:
            bad = cell(", ".join(run.get("bad") or {}) or "none")
            minutes = f"{run.get('seconds', 0) / 60:.0f}"
            name = f"`{run['what']}`"
            counts = (run.get("items", ""), run.get("known", ""))
            head.append(f"| {' | '.join(map(str, (name, run['outcome'], *counts, minutes, run['commit'], bad)))} |")
        return [*head, ""]
    if series == "smoke":
        without = sum(run["outcome"] == "green" and not run.get("repeated") for run in runs)
        head += [f"Green without a repeat: {without} of {len(runs)}.", ""]
        head += ["| run | pytest | items | known weaknesses | repeated | minutes | busy before | not well |"]
        head += ["|---|---|---|---|---|---|---|---|"]
        return (
            head
            + [
                f"| {number} | {run['outcome']} | {run.get('items', '')} | {run.get('known', '')} | "
                f"{', '.join(run.get('repeated') or []) or 'none'} | {run.get('seconds', 0) / 60:.0f} | "
                f"{run['machine']['busy']} | {cell(', '.join(run.get('bad') or {}) or 'none')} |"
                for number, run in enumerate(runs, 1)
            ]
            + [""]
        )
    head += ["| run | outcome | seconds | busy before | commit | what it says |", "|---|---|---|---|---|---|"]
    for number, run in enumerate(runs, 1):
        name = Path(run["what"]).stem if series in ANEW else str(number)
        known = known_of(run)
        outcome = called(run) + (f" ({known})" if known else "")
        if is_control(run) and run["outcome"] == "weakness":
            outcome += ", as planted"
        why = run.get("summary") or run.get("said") or ""
        cells = (name, outcome, run.get("seconds", ""), run["machine"]["busy"], run["commit"], cell(why))
        head.append(f"| {' | '.join(map(str, cells))} |")
    return [*head, ""]


def page() -> str:
    made = [
        "# Results",
        "",
        "Made by `python benchmarks/results.py page` from `reports/results/`; recorded by "
        "`python benchmarks/results.py record SERIES`, or of campaigns' committed cells (`benchmarks/series.py`). "
        "Nothing here is typed. *Busy before* is the load average of the minute before a run. A row is of one state of "
        "the code, and counts its first runs; all of them are listed.",
        "",
        *summary(),
    ]
    for series in SERIES:
        made += section(series)
    return "\n".join(made).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("series", choices=SERIES)
    recording.add_argument("--times", type=int, default=20)
    recording.add_argument("--minutes", type=float, default=1e6, help="begin no run after so many")
    again = "experiments, or files of tests, to run once more"
    recording.add_argument("--again", nargs="+", default=(), metavar="FILE", help=again)
    recording.add_argument("--of", default="", metavar="FILE", help="the experiment of a series without a fault")
    commands.add_parser("page")
    given = parser.parse_args()
    if given.command == "record":
        if given.again and given.series not in ANEW:
            parser.error(f"--again is for the series {' and '.join(ANEW)}")
        if given.of and given.series != "no-fault":
            parser.error("--of is for the series no-fault")
        named = [*given.again, *filter(None, [given.of])]
        if missing := [what for what in named if not (ROOT / what).is_file()]:
            parser.error(f"no such file: {', '.join(missing)}")
        record(given.series, given.times, given.minutes, given.again, given.of)
    else:
        PAGE.write_text(page())


if __name__ == "__main__":
    main()
