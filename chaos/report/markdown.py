"""What CI shows of a run: a summary in Markdown, and annotations as GitHub's workflow commands.

Both are escaped: a name from a run can neither make markup nor a command of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from chaos.base import text
from chaos.checks import shown
from chaos.checks.models import FindingsFile
from chaos.checks.shown import CLEAR, Shown
from chaos.report import within
from chaos.report.answers import WORDS

FILE = "summary.md"
SIGNS: dict[str, str] = {
    Shown.PASS: "✅",
    Shown.KNOWN: "☑️",
    Shown.IMPROVED: "⬆️",
    Shown.WEAKNESS: "❌",
    Shown.INCONCLUSIVE: "❔",
    Shown.ABORTED: "⏹️",
    Shown.ERROR: "⚠️",
}
MARKS = {
    "pass": "✅",
    "weakness": "❌",
    "inconclusive": "❔",
    "relaxed": "🔸",
    "known_weakness": "⚠️",
    "unexpected_pass": "⬆️",
}
LEVELS = {
    "weakness": "error",
    "unexpected_pass": "error",
    "inconclusive": "warning",
    "known_weakness": "notice",
    "relaxed": "notice",
}
MOST = 50
"""Annotations of one run: GitHub shows no more of a job."""


def summary(findings: FindingsFile, answers: tuple[Any, ...] = ()) -> str:
    """The run in Markdown. ``answers``: those of the page's first screen (:func:`chaos.report.answers.answers`)."""
    return "\n".join(_lines(findings, answers)) + "\n"


def _lines(findings: FindingsFile, answers: tuple[Any, ...]) -> Iterator[str]:
    run = findings.get("run") or {}
    called = shown.of(findings)
    clean = {True: "clean", False: "**DIRTY**", None: "clean-up unknown"}[findings.get("clean")]
    named = escaped(run.get("experiment") or run.get("name") or "run")
    yield f"## {SIGNS[called]} {named}: {called.words}, {clean}"
    yield ""
    yield f"**{escaped(findings['headline'], 700)}**"
    yield ""
    if rest := findings["summary"].removeprefix(findings["headline"]).strip():
        yield escaped(rest, 700)
        yield ""
    if (repeats := within.second_of(findings)) is not None:
        yield f"**{escaped(repeats, 700)}**"
        yield ""
    if given := within.given(findings):
        yield from (f"- {escaped(says)}" for says in given)
        yield ""
    for answer in answers:
        details = "; ".join(answer.details)
        said = f"- **{escaped(answer.question)}** {escaped(answer.answer)}"
        yield f"{said} ({escaped(details, 400)})" if details else said
        for lane in answer.lanes:
            yield f"  - {escaped(lane.title)}: {escaped('; '.join(lane.lines), 400)}"
    if answers:
        yield ""
    if findings["findings"]:
        yield "| expectation | measured | verdict | why |"
        yield "|---|---|---|---|"
        for item in findings["findings"]:
            why = item["known_weakness"] if item["counts_as"] == "known_weakness" else item["says"]
            kind = item["counts_as"]
            cells = (item["title"], item["measured_text"], f"{MARKS[kind]} {WORDS[kind][1]}", why)
            yield "| " + " | ".join(escaped(cell) for cell in cells) + " |"
        yield ""
    table = [tuple(map(escaped, row)) for row in within.markdown(findings.get("tables") or {})]
    if table:
        yield "| " + " | ".join(table[0]) + " |"
        yield "|---|" + "---:|" * (len(table[0]) - 1)
        yield from ("| " + " | ".join(row) + " |" for row in table[1:])
        yield ""
        yield f"Shares of all scheduled arrivals; {within.MARK} is the objective, the one that is judged."
        yield ""
    outage = (findings.get("tables") or {}).get("outage") or {}
    if outage:
        lasted = ", ".join(f"{op}s {text.seconds(round(row['total'], 3))}" for op, row in outage.items())
        yield f"Outage-equivalent time: {escaped(lasted)}."
    abort = findings.get("abort") or {}
    if "load_seconds" in abort:
        yield (
            f"The load was stopped {text.seconds(abort['load_seconds'])} after the stop was asked for, and "
            f"{'everything was undone' if abort['complete'] else 'undoing was tried until'} "
            f"{text.seconds(abort['seconds'])} after it."
        )
    for says in unasked(findings)[:5]:
        yield f"- {escaped(says)}"
    yield ""
    yield f"Run `{_code(run.get('name'))}`, seed {escaped(run.get('seed'))}; the whole story is in `report.html`."


def unasked(findings: FindingsFile) -> list[str]:
    """What stands in the way of a pass and is no finding, in words; what decides comes first."""
    return [f"{reason['outcome']}: {reason['says']}" for reason in findings["reasons"] if not reason["finding"]]


def escaped(given: object, limit: int = 300) -> str:
    """Text as text: no markup, no table cell, no mention, no link, one line."""
    flat = re.sub(r"\s+", " ", text.clip(text.clean(str(given)), limit)).strip()
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    flat = re.sub(r"([\\`*_{}\[\]()#+!|~$])", r"\\\1", flat)
    flat = re.sub(r"@(?=\w)", "@\u200b", flat)
    return re.sub(r"(?i)\b(https?|ftp|www)(?=[:.])", "\\1\u200b", flat)


def _code(given: object) -> str:
    return re.sub(r"[`\s|<>]+", " ", text.clip(text.clean(str(given)), 160)).strip()


# -- GitHub ---------------------------------------------------------------------------------------


def workflow_commands(findings: FindingsFile, file: str | None = None) -> list[str]:
    """Workflow commands, one a line: ``::error file=…,title=…::message`` for every finding that did not hold.

    ``file``: the definition's path from the repository's root, where the annotation is shown. What fails the run
    without being a finding (error, abort, dirt) is one as well.
    """
    found: list[tuple[str, str, str]] = []
    experiment = str((findings.get("run") or {}).get("experiment") or "run")
    for item in findings["findings"]:
        level = LEVELS.get(item["counts_as"])
        if level:
            says = f"measured {item['measured_text']}, wanted {item['target']}: {item['says']}"
            if item["counts_as"] == "unexpected_pass":
                says += f"; improved: {CLEAR}"
            if item["known_weakness"]:
                says += f" (known: {item['known_weakness']})"
            found.append((level, f"{experiment}: {item['title']}", says))
    for reason in findings["reasons"]:
        if reason["finding"]:
            continue
        level = {"error": "error", "aborted": "error", "weakness": "error"}.get(reason["outcome"], "warning")
        found.append((level, f"{experiment}: {reason['outcome']}", reason["says"]))
    if findings.get("clean") is False:
        found.append(("error", f"{experiment}: dirty", "clean-up failed; run opensearch-chaos recover"))
    order = {"error": 0, "warning": 1, "notice": 2}
    found.sort(key=lambda item: order[item[0]])
    return [_command(level, title, says, file) for level, title, says in found[:MOST]]


def _command(level: str, title: str, says: str, file: str | None) -> str:
    properties = {"file": file, "title": text.clip(title, 200)}
    shown = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)
    return f"::{level} {shown}::{_data(text.clip(says, 1000))}"


def _data(given: str) -> str:
    """The message of a workflow command (escapeData of GitHub's actions/toolkit, packages/core/src/command.ts)."""
    return text.clean(given).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(given: str) -> str:
    """A property of a workflow command (escapeProperty, there)."""
    return _data(given).replace(":", "%3A").replace(",", "%2C")


def announce(run_folder: Path, findings: FindingsFile, environment: Mapping[str, str] | None = None) -> list[str]:
    """Tell the CI that runs us, if one does: append the summary to its page, and return the annotations to print.

    Nothing happens outside of CI. A summary file that cannot be written costs the summary, never the run.
    """
    given = os.environ if environment is None else environment
    lines: list[str] = []
    page = given.get("GITHUB_STEP_SUMMARY")
    summary_file = run_folder / FILE
    if page and summary_file.is_file():
        try:
            with open(page, "a", encoding="utf-8") as out:
                out.write(summary_file.read_text() + "\n")
        except OSError as error:
            lines.append(_command("warning", "summary", f"the summary could not be written: {error}", None))
    if given.get("GITHUB_ACTIONS") != "true":
        return []
    return lines + workflow_commands(findings, _definition(run_folder, given.get("GITHUB_WORKSPACE")))


def _definition(run_folder: Path, root: str | None) -> str | None:
    """The experiment's file as GitHub names files: from the repository's root; None when it lies elsewhere."""
    from chaos.history.reader import History

    if not (run_folder / "plan.json").is_file():
        return None
    file = (History(run_folder).plan.get("experiment") or {}).get("file")
    if not isinstance(file, str):
        return None
    path = Path(file)
    if not path.is_absolute():
        return path.as_posix()
    base = Path(root) if root else Path.cwd()
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else None
