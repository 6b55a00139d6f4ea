"""Tables of five pages of docs/ (:data:`PAGES`, :data:`PROTECTIONS`): what experiments ask, and what their runs found.

    python benchmarks/asked.py          # writes the tables into each page

The first table is made of the files alone, the second of the rows that ``python benchmarks/results.py record sides``
has kept: of each experiment the newest. Where there is none, or its series was cut off, it says *not yet measured*.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import results

from chaos.definitions.varied import Varied
from chaos.definitions.writing import flow
from chaos.opensearch import protections as catalogue
from chaos.registry import load_experiment

ROOT = results.ROOT
PAGES = {
    ROOT / "docs" / f"{name}.md": ROOT / "experiments" / name
    for name in ("ingestion", "replication", "remote-store", "graviton")
}
"""Page → the folder of experiments that it is about; of those the ones with sides."""
PROTECTIONS = ROOT / "docs" / "protections.md"
PROTECTED = ROOT / "experiments" / "protections"
"""Experiments whose sides are a protection off, (monitoring,) and on."""
ACT = "tests/cluster/test_protections_act.py"
"""Tests that provoke protections alone."""
WINDOW = ROOT / "reports" / "results" / "admission-window.json"
PARTS = ("advices", "figures")
"""Tables of the page, each between ``<!-- NAME: … -->`` and ``<!-- NAME end -->``."""
CLAIM = re.compile(r"\b[a-z]{2}-\d+\b")
NOT_YET = "not yet measured"
HEADS = {
    "advices": ("| advice | claims | command | sides | decided by |", "|---|---|---|---|---|"),
    "figures": (
        "| experiment | side | metric | first side | this side | shift with its interval | is |",
        "|---|---|---|---|---|---|---|",
    ),
    "catalogue": (
        "| protection | setting | modes, default first | counted by nodes | metric | clients get | needs | did here | "
        "cost here |",
        "|---|---|---|---|---|---|---|---|---|",
    ),
    "window": (
        "| data node | first searched, s after its start | searches that it took | first refusal, s after its start |",
        "|---|---|---|---|",
    ),
    "protections": (
        "| counter | command | sides | it is to be better | verdict | why | runs that count |",
        "|---|---|---|---|---|---|---|",
    ),
}


def files(folder: Path) -> list[Path]:
    """Experiments with sides: those of the folder, then those of its folder ``faults``."""
    every = [*sorted(folder.glob("*.yaml")), *sorted((folder / "faults").glob("*.yaml"))]
    return [file for file in every if "vary" in results.written(str(file))]


def load(file: Path) -> Varied:
    found = load_experiment(file, sides=True)
    assert isinstance(found, Varied)
    return found


def advice(experiment: Varied) -> str:
    """What is asked, as the description begins: without the claims, and without the word before it."""
    first = " ".join(experiment.description.split()).partition("Decided by")[0]
    said = re.split(r" \((?:claims? |advice of |the ingestion )", first)[0].removeprefix("Advice: ")
    return said if "." in said.split()[0] else said[0].upper() + said[1:]


def sides(experiment: Varied) -> str:
    """The sides, each with what it changes as it is written."""
    said = []
    for side in experiment.sides:
        changed = [f"`{name}: {value}`" for name, value in leaves(side.changes)]
        said.append(f"{side.name}: {', '.join(changed)}" if changed else f"{side.name}: the file as it is")
    return "; ".join(said)


def leaves(changes: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What an overlay sets, by the innermost keys; how a client retries is one thing."""
    for name, value in changes.items():
        if isinstance(value, dict) and name != "retry":
            yield from leaves(value)
        else:
            yield name, flow(value)


def advices(folder: Path) -> Iterator[str]:
    """A line for each experiment."""
    for file in files(folder):
        experiment = load(file)
        what = str(file.relative_to(ROOT))
        claims = ", ".join(dict.fromkeys(CLAIM.findall(experiment.description))) or "none"
        cells = (
            advice(experiment),
            claims,
            f"`opensearch-chaos run {what}`",
            sides(experiment),
            ", ".join(experiment.decide),
        )
        yield f"| {' | '.join(results.cell(each, 600) for each in cells)} |"


def figures(folder: Path, rows: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Lines of each metric of each side, of those that were recorded. ``rows``: experiment → its newest row."""
    for file in files(folder):
        row = rows.get(str(file.relative_to(ROOT)))
        if row is None or "ended" not in row or not row.get("metrics"):
            yield f"| {file.stem} | {NOT_YET} |  |  |  |  |  |"
            continue
        name = file.stem
        for each in row["metrics"]:
            metric = f"**{each['metric']}**" if each["decides"] else each["metric"]
            cells = (name, each["side"], metric, each["first"], each["value"], each["moved"], each["word"])
            yield f"| {' | '.join(results.cell(cell) for cell in cells)} |"
            name = ""
        counted = ", ".join(f"{number} of {side}" for side, number in row["counted"].items())
        made = f"of {row['times']} a side count: {counted}; commit {row['commit']}, level {100 * row['level']:.3g} %"
        made += f"; OpenSearch {row['opensearch']}" if "opensearch" in row else ""
        yield f"|  | runs | {results.cell(made)} |  |  |  |  |"


def verdict(file: Path, rows: dict[str, dict[str, Any]]) -> tuple[str, str, str]:
    """The word of an experiment's newest whole series, why, and of which runs."""
    row = rows.get(str(file.relative_to(ROOT))) or {}
    found = row.get("protection") if "ended" in row and row["outcome"] != "cut off" else None
    if found is None:
        return NOT_YET, "", ""
    counted = ", ".join(f"{number} of {side}" for side, number in row["counted"].items())
    return f"**{found['word']}**", "; ".join(found["why"]), f"{counted}; commit {row['commit']}"


def protections(folder: Path, rows: dict[str, dict[str, Any]]) -> Iterator[str]:
    """A line for each protection. ``rows``: experiment → its newest row."""
    for file in files(folder):
        experiment = load(file)
        asked, what = experiment.protection, str(file.relative_to(ROOT))
        assert asked is not None  # all of the folder have one; a test holds that
        traffic = ", ".join(f"{metric}@{phase}" for metric in asked["protects"] for phase in asked["provoked"])
        cells = (
            f"`{asked['counter']}`",
            f"`opensearch-chaos run {what}`",
            sides(experiment),
            traffic,
            *verdict(file, rows),
        )
        yield f"| {' | '.join(results.cell(each, 600) for each in cells)} |"


def acted(test: str, rows: dict[str, dict[str, Any]]) -> str:
    """What came of a protection that is provoked alone. ``rows``: file of tests → its newest row."""
    row = rows.get(ACT) or {}
    if not row or "ended" not in row or row.get("outcome") in ("none", "cut off"):
        return "provoked alone: not run yet"
    if (failed := (row.get("bad") or {}).get(test)) is not None:
        return f"provoked alone it did not do what is said here (commit {row['commit']}): {failed}"
    if test not in passed(row):
        return f"provoked alone: not run (commit {row['commit']})"
    return f"**acts and lets go**, provoked alone (commit {row['commit']})"


def passed(row: dict[str, Any]) -> set[str]:
    """The tests of :data:`ACT` that passed, by a recorded run of it. One of before names none: then all of the file or
    none, for all were well, none was skipped, and there are as many as it ran."""
    if "passed" in row:
        return set(row["passed"])
    there = written()
    return there if row.get("outcome") == "green" and not row.get("known") and row.get("items") == len(there) else set()


def written() -> set[str]:
    """The names of the tests in :data:`ACT`."""
    return set(re.findall(r"^def (test_\w+)", (ROOT / ACT).read_text(), re.MULTILINE))


def cost(file: Path, rows: dict[str, dict[str, Any]]) -> str:
    """What was more costly or less with a protection on than off; nothing of a series that is not whole."""
    row = rows.get(str(file.relative_to(ROOT))) or {}
    if verdict(file, rows)[0] == NOT_YET:
        return ""
    on = list(row["counted"])[-1]
    moved = [each for each in row.get("metrics", ()) if each["side"] == on and each["metric"].startswith("costs.")]
    return "; ".join(f"{each['metric']} {each['moved']}, {each['word']}" for each in moved) or "not measured"


def window(file: Path = WINDOW) -> Iterator[str]:
    """How long admission control does nothing on a node that came back, and on one beside it; a note after it."""
    if not file.exists():
        yield f"| {NOT_YET}: `python benchmarks/admission_window.py --record` |  |  |  |"
        return
    found = json.loads(file.read_text())
    for name, key in (("killed and started again", "came_back"), ("there all along", "beside")):
        row = found[key]
        yield f"| {name} | {row['first_search_s']} | {row['searches']} | {row['refused_s']} |"
    yield f"| OpenSearch {found['opensearch']}, {found['topology']}, commit {found['commit']} |  |  |  |"


def every_protection(folder: Path, rows: dict[str, dict[str, Any]], tests: dict[str, dict[str, Any]]) -> Iterator[str]:
    """A line for each protection of the catalogue: what it is, the verdict of each experiment on it, or why there is
    none, and what it cost. ``rows``: experiment → its newest row; ``tests``: file of tests → its newest row."""
    asked_by: dict[str, list[Path]] = {}
    for file in files(folder):
        experiment = load(file)
        assert experiment.protection is not None  # as in `protections`
        asked_by.setdefault(experiment.protection["counter"], []).append(file)
    for each in catalogue.EVERY:
        mine = asked_by.get(each.metric or "", [])
        error = "nothing that is told apart" if each.error is None else told(each.error)
        did = [f"{file.stem}: {verdict(file, rows)[0]}" for file in mine]
        did += [acted(each.test, tests)] if each.test else []
        did += [each.open] if each.open else []
        cells = (
            f"**{each.name}**",
            f"`{each.setting}`",
            each.modes,
            "none" if each.counter.startswith("none") else f"`{each.counter}`",
            "" if each.metric is None else f"`{each.metric}`",
            error,
            each.needs,
            "; ".join(did),
            "; ".join(filter(None, (cost(file, rows) for file in mine))),
        )
        yield f"| {' | '.join(results.cell(cell, 400) for cell in cells)} |"


def told(error: catalogue.Error) -> str:
    """What clients get, as a cell."""
    return f'{error.status} `{error.type}` "{error.text}"'


def protections_page(text: str) -> str:
    """docs/protections.md with its tables made anew. Raises ValueError where a mark of one is missing."""
    newest, tests = ({str(row["what"]): row for row in results.rows(series)} for series in ("sides", "full"))
    text = put(text, "catalogue", every_protection(PROTECTED, newest, tests))
    text = put(text, "window", window())
    return put(text, "protections", protections(PROTECTED, newest))


def put(text: str, part: str, lines: Iterator[str]) -> str:
    """A page with one table made anew. Raises ValueError where its mark is missing."""
    begin = text.index("-->", text.index(f"<!-- {part}:")) + len("-->")
    end = text.index(f"<!-- {part} end -->")
    return f"{text[:begin]}\n{grid(part, lines)}\n{text[end:]}"


def grid(part: str, lines: Iterator[str]) -> str:
    """A table with its head."""
    return "\n".join((*HEADS[part], *lines))


def tables(folder: Path) -> dict[str, str]:
    """What a folder's experiments with sides ask, and what was found, for a page that is made as a whole."""
    newest = {str(row["what"]): row for row in results.rows("sides")}
    return {"advices": grid("advices", advices(folder)), "figures": grid("figures", figures(folder, newest))}


def page(text: str, folder: Path) -> str:
    """The page on a folder, its tables made anew. Raises ValueError where a mark of one is missing."""
    newest = {str(row["what"]): row for row in results.rows("sides")}
    lines = {"advices": advices(folder), "figures": figures(folder, newest)}
    for part in PARTS:
        text = put(text, part, lines[part])
    return text


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for file, folder in PAGES.items():
        file.write_text(page(file.read_text(), folder))
    PROTECTIONS.write_text(protections_page(PROTECTIONS.read_text()))


if __name__ == "__main__":
    main()
