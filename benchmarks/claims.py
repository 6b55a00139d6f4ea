"""What this project's sources claim, and what recorded runs say of each claim.

    python benchmarks/claims.py          # writes docs/claims.md

``docs/claims.yaml`` has the claims and the answers; the figures of an answer come from the runs that it names, as
``reports/results`` has them. An answer that names no recorded run, or a run that says otherwise, is an error. So is one
by an experiment with sides that does not say which of its metrics it rests on, or rests on one that is open. Claims
that a protection refuses work rest on ``protection.acted``, whatever that did for other traffic. Claims that have no
answer yet may be *asked*: experiments with sides are named that will answer them, and by which metrics.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import results
import yaml

ROOT = results.ROOT
CLAIMS = ROOT / "docs" / "claims.yaml"
PAGE = ROOT / "docs" / "claims.md"
SHOWN = ("reproduced", "contradicted")
"""Answers that runs give."""
PAGES = {"managers": "cluster-managers"}
"""Folder of experiments → the page that is about it, where that has another name."""
NOT_SHOWN = "cannot be shown here"
NOT_YET = "not yet"
NO_CLAIM = ("setup", "practice")
"""Kinds of entries that say how a figure was got."""
DECIDED = {"each": {"pass", "weakness"}, "full": {"green"}, "sides": {"pass", "fail", "inconclusive"}}
"""Series of runs that an answer may name, and the outcomes that decide anything. Of sides each metric decides."""
FIELDS = {"answer", "because", "by", "rests"}
ACTED = "protection.acted"
"""What a claim rests on that says that a protection refuses work: see :func:`acted`."""


class ClaimError(Exception):
    """The file of claims is wrong, or an answer has no recorded run."""


@dataclass(frozen=True)
class Evidence:
    """The newest recorded run of an experiment, or of a file of tests."""

    what: str
    command: str
    outcome: str
    commit: str
    opensearch: str
    summary: str


def read(file: Path = CLAIMS) -> dict[str, Any]:
    """The claims by source, and the answers. Raises ClaimError for what is not as the file's head says."""
    read = yaml.safe_load(file.read_text())
    known = {claim["id"]: claim for claims in read["claims"].values() for claim in claims}
    if len(known) != sum(map(len, read["claims"].values())):
        raise ClaimError("two claims have one id")
    for id, answer in read["answers"].items():
        if id not in known:
            raise ClaimError(f"{id}: there is no such claim")
        if known[id]["kind"] in NO_CLAIM:
            raise ClaimError(f"{id} is no claim: it says how a figure was got")
        if set(answer) - FIELDS or answer.get("answer") not in (*SHOWN, NOT_SHOWN) or not answer.get("because"):
            raise ClaimError(f"{id}: an answer is {', '.join((*SHOWN, NOT_SHOWN))}, and says because of what")
        if bool(answer.get("by")) is not (answer["answer"] in SHOWN):
            raise ClaimError(f"{id}: {answer['answer']} is said by runs, and only that")
    for id, asked in read["asked"].items():
        if id not in known or known[id]["kind"] in NO_CLAIM:
            raise ClaimError(f"{id}: there is no such claim to ask")
        if id in read["answers"]:
            raise ClaimError(f"{id} is answered: expected it under asked no more")
        if set(asked) != {"by", "rests"} or not asked["by"] or not asked["rests"]:
            raise ClaimError(f"{id}: what is asked says by which experiments, and on which of their metrics it rests")
        for what in asked["by"]:
            if series_of(what) != "sides":
                raise ClaimError(f"{what} has no sides")
            vary = results.written(what)["vary"]
            told = {ACTED} if "protection" in vary else set()
            refuse_undecided(id, asked["rests"], told | set(vary.get("decide") or ()))
    return dict(read)


def series_of(what: str) -> str:
    """The series of recorded runs that an experiment or a file of tests is in. Raises ClaimError: there is no such."""
    if not (ROOT / what).is_file():
        raise ClaimError(f"{what}: there is no such file")
    return "full" if what.startswith("tests/") else "sides" if "vary" in results.written(what) else "each"


def refuse_undecided(id: str, rests: Any, decided: set[str]) -> None:
    """Raises ClaimError where a claim rests on a metric that is not among those that are decided."""
    if missing := [metric for metric in rests or ("no metric",) if metric not in decided]:
        raise ClaimError(f"{id} rests on {', '.join(missing)}: expected one of {', '.join(sorted(decided)) or 'none'}")


def decided(run: dict[str, Any]) -> set[str]:
    """The metrics, with and without their phase, of which a recorded comparison knows enough for every side;
    ``METRIC of SIDE`` for each side of which it does; and ``protection.acted`` where it did."""
    words: dict[str, set[str]] = {}
    for row in run.get("metrics", ()):
        if row["decides"]:
            for name in (row["metric"], row["metric"].partition("@")[0]):
                words.setdefault(name, set()).add(row["word"])
                words.setdefault(f"{name} of {row['side']}", set()).add(row["word"])
    known = {name for name, said in words.items() if "open" not in said}
    return known | {ACTED} if acted(run.get("protection")) else known


def acted(protection: dict[str, Any] | None) -> bool:
    """Whether a recorded protection refused work in every run that has it on, and in none that has it off. Where it is
    to be told to clients, each of its runs had answers with its status and its text."""
    if protection is None:
        return False
    on, off = (protection["sides"].get(protection[side]) or () for side in ("on", "off"))
    told = all(each["named"].get(op) for each in on for op in each["answered"])
    return bool(on and off) and told and all(each["acted"] for each in on) and all(each["acted"] == 0 for each in off)


def evidence(what: str, rests: tuple[str, ...] = ()) -> Evidence:
    """What was recorded of an experiment or a file of tests. ``rests``: metrics of an experiment with sides that an
    answer rests on. Raises ClaimError where nothing was, or nothing that ended with a verdict."""
    series = series_of(what)
    runs = {run["what"]: run for run in results.rows(series)}
    run = runs.get(what)
    if run is None or "ended" not in run:
        raise ClaimError(
            f"{what}: no run of it is recorded (python benchmarks/results.py record {series} --again {what})"
        )
    if run["outcome"] not in DECIDED[series]:
        raise ClaimError(f"{what}: its newest recorded run ended with {run['outcome']}")
    if series == "sides":
        refuse_undecided(f"an answer by {what}", rests, decided(run))
    return Evidence(
        what,
        results.SERIES[series].replace("EXPERIMENT", what).replace("FILE", what),
        results.called(run),
        str(run["commit"]),
        str(run.get("opensearch") or (run.get("versions") or {}).get("opensearch") or "as pinned"),
        str(run.get("summary") or (f"{run['items']} tests" if "items" in run else "")),
    )


def page(read: dict[str, Any]) -> str:
    """The page, in Markdown. Raises ClaimError, as :func:`evidence` does."""
    answers = read["answers"]
    claims = [claim for each in read["claims"].values() for claim in each if claim["kind"] not in NO_CLAIM]
    counted = Counter(answers.get(claim["id"], {}).get("answer", NOT_YET) for claim in claims)
    used: dict[str, Evidence] = {}
    made = [
        "# What the sources claim, and what runs say of it",
        "",
        "Made by `python benchmarks/claims.py` from [claims.yaml](claims.yaml) and the recorded runs of "
        "[results](results.md). The claims are in our own words. *Reproduced* and *contradicted* are said by recorded "
        "runs on a lab of six to nine nodes on two cores; what needs other machines *cannot be shown here*.",
        "",
        "| answer | claims |",
        "|---|---|",
        *(f"| {answer} | {counted[answer]} |" for answer in (*SHOWN, NOT_SHOWN, NOT_YET)),
        f"| all | {len(claims)}, and {sum(map(len, read['claims'].values())) - len(claims)} entries that say how a "
        "figure was got |",
        "",
    ]
    for source, entries in read["claims"].items():
        about = read["sources"][source]
        title = f"[{about['title']}]({about['url']})" if "url" in about else about["title"]
        made += [f"## {about['title']}", "", *([f"Source: {title}", ""] if "url" in about else [])]
        made += ["| id | claim | answer | why | shown by |", "|---|---|---|---|---|"]
        for claim in entries:
            answer = answers.get(claim["id"])
            for what in (answer or {}).get("by", ()):
                used[what] = evidence(what, tuple((answer or {}).get("rests", ())))
            made.append(row(claim, answer, read["asked"].get(claim["id"])))
        made.append("")
    made += [
        "## The runs",
        "",
        "The newest recorded run of each, one each; all of them are in [results](results.md).",
        "",
        "| command | outcome | OpenSearch | commit | what it said |",
        "|---|---|---|---|---|",
    ]
    for what in sorted(used):
        run = used[what]
        made.append(
            f"| `{run.command}` | {run.outcome} | {run.opensearch} | {run.commit} | {results.cell(run.summary, 400)} |"
        )
    return "\n".join(made).rstrip() + "\n"


def row(claim: dict[str, Any], answer: dict[str, Any] | None, asked: dict[str, Any] | None = None) -> str:
    """A claim's line of the table."""
    says = claim["claim"]
    if "table" in claim:
        named = [zip(claim["columns"], line, strict=True) for line in claim["table"]]
        says = f"{says}: {' / '.join(', '.join(f'{name} {value}' for name, value in line) for line in named)}"
    if "note" in claim:
        says = f"{says} (*{claim['note']}*)"
    if claim["kind"] in NO_CLAIM:
        answered, why, by = "no claim", f"{claim['kind']}: how a figure was got", ""
    elif answer is None:
        answered, why, by = NOT_YET, "", ""
        if asked is not None:
            folder = Path(asked["by"][0]).parts[1]
            page = PAGES.get(folder, folder)
            why = f"asked by {', '.join(f'`{Path(what).stem}`' for what in asked['by'])} ([{page}]({page}.md))"
    else:
        answered, why = answer["answer"], answer["because"]
        by = ", ".join(f"`{Path(what).stem}`" for what in answer.get("by", ()))
    return f"| {claim['id']} | {' | '.join(results.cell(text, 2000) for text in (says, answered, why, by))} |"


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    try:
        PAGE.write_text(page(read()))
    except ClaimError as error:
        raise SystemExit(f"docs/claims.yaml: {error}") from None


if __name__ == "__main__":
    main()
