"""What CI is told: a summary that stays text, workflow commands that cannot be forged, a workflow that is current."""

from __future__ import annotations

import itertools
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import synthetic
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from chaos.base.text import clean
from chaos.checks import evaluate
from chaos.report import announce, markdown, render

ROOT = Path(__file__).parents[3]


def findings_of(story: str) -> dict[str, Any]:
    return dict(json.loads(json.dumps(evaluate(synthetic.STORIES[story]().history()).to_json())))


def read(command: str) -> tuple[str, dict[str, str], str]:
    """A workflow command as GitHub's runner takes it apart: level, properties, message."""
    match = re.fullmatch(r"::(\w+) ([^:]*)::(.*)", command)
    assert match is not None, command

    def plain(given: str) -> str:
        for code, sign in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
            given = given.replace(code, sign)
        return given

    properties = dict(part.split("=", 1) for part in match[2].split(","))
    return match[1], {name: plain(value) for name, value in properties.items()}, plain(match[3])


def test_weaknesses_are_errors_and_known_ones_are_notices() -> None:
    found = [read(line) for line in markdown.workflow_commands(findings_of("black_hole"), "experiments/x.yaml")]
    levels = {properties["title"]: level for level, properties, _ in found}
    assert levels["zone-black-hole: write.regained <= 30s in dark"] == "error"
    assert levels["zone-black-hole: read.p99 <= 0.5s in dark"] == "notice"
    assert all(properties["file"] == "experiments/x.yaml" for _, properties, _ in found)
    assert markdown.workflow_commands(findings_of("slow_zone")) == []


@pytest.mark.parametrize(
    ("story", "level", "word"),
    [
        ("killed", "error", "runner died"),
        ("aborted", "error", "cluster was red"),
        ("unproven", "warning", "not"),
        ("lost_writes", "error", "clean-up failed"),
    ],
)
def test_what_fails_the_run_is_annotated(story: str, level: str, word: str) -> None:
    found = [read(line) for line in markdown.workflow_commands(findings_of(story))]
    assert any(at == level and word in says for at, _, says in found)
    assert found == sorted(found, key=lambda item: ("error", "warning", "notice").index(item[0]))


@given(st.text(), st.text(), st.text(min_size=1))
def test_an_annotation_is_one_command_and_is_read_back_whole(title: str, says: str, file: str) -> None:
    line = markdown._command("error", title, says, file)
    assert "\n" not in line and "\r" not in line
    level, properties, message = read(line) if "\x0b" not in line and line.isprintable() else (None, {}, "")
    if level:
        assert message == clean(says) if len(says) <= 1000 else True
        assert properties["file"] == clean(file)


@given(st.text(max_size=400))
def test_markdown_is_one_cell_of_text(words: str) -> None:
    shown = markdown.escaped(words)
    assert "\n" not in shown and "<" not in shown
    assert not re.search(r"(?<!\\)(?:\\\\)*[|`*\[\]]", shown)
    assert not re.search(r"@\w", shown) and not re.search(r"(?i)https?:", shown)


def test_a_hostile_run_makes_no_markup_in_the_summary(tmp_path: Path) -> None:
    folder = synthetic.hostile().write(tmp_path / "run")
    render(folder)
    said = (folder / "summary.md").read_text()
    assert "<" not in said and len(said) < 20_000
    bars = [line.count("|") - line.count("\\|") for line in said.splitlines() if line.startswith("|")]
    findings, shares = (list(group) for _, group in itertools.groupby(bars))  # two tables, each as wide as its head
    assert findings[0] == 5 and shares[0] == 7


def test_the_summary_answers_the_four_questions(tmp_path: Path) -> None:
    folder = synthetic.black_hole().write(tmp_path / "run")
    render(folder)
    said = (folder / "summary.md").read_text()
    for words in (
        "What was done?",
        "What happened to users?",
        "Why this verdict?",
        "What to do?",
        "❌ missed",
        "seed 7",
    ):
        assert words in said


def test_nothing_is_announced_outside_of_ci(tmp_path: Path) -> None:
    folder = synthetic.black_hole().write(tmp_path / "run")
    render(folder)
    assert announce(folder, findings_of("black_hole"), {}) == []


def test_in_ci_the_summary_is_appended_and_annotations_name_the_definition(tmp_path: Path) -> None:
    folder = synthetic.black_hole().write(tmp_path / "run")
    plan = json.loads((folder / "plan.json").read_text())
    plan["experiment"]["file"] = str(tmp_path / "experiments" / "zone-black-hole.yaml")
    (folder / "plan.json").write_text(json.dumps(plan))
    render(folder)
    page = tmp_path / "summary"
    page.write_text("before\n")
    given = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(page), "GITHUB_WORKSPACE": str(tmp_path)}
    lines = announce(folder, findings_of("black_hole"), given)
    assert read(lines[0])[1]["file"] == "experiments/zone-black-hole.yaml"
    assert page.read_text().startswith("before\n## ❌ zone-black-hole")
    given["GITHUB_WORKSPACE"] = str(tmp_path / "elsewhere")
    assert "file" not in read(announce(folder, findings_of("black_hole"), given)[0])[1]
    given["GITHUB_STEP_SUMMARY"] = str(tmp_path / "no" / "folder")
    warning, *others = announce(folder, findings_of("black_hole"), given)
    assert read(warning)[0] == "warning" and len(others) == len(lines)


def test_the_command_tells_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from chaos import cli

    folder = synthetic.black_hole().write(tmp_path / "run")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    monkeypatch.setattr(sys, "argv", ["opensearch-chaos", "report", str(folder), "--redact"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 1
    assert "\n::error title=" in capsys.readouterr().out
    assert "b-data" not in (tmp_path / "summary").read_text()
    assert (folder / "redacted" / "report.html").is_file() and not (folder / "report.html").exists()


# -- the documented workflow ---------------------------------------------------------------------


def test_the_workflow_is_the_documented_one_and_names_what_exists() -> None:
    written = (ROOT / "docs" / "github-actions.yml").read_text()
    assert f"```yaml\n{written}```" in (ROOT / "docs" / "ci.md").read_text()
    workflow = YAML(typ="safe").load(written)
    (job,) = workflow["jobs"].values()
    steps = job["steps"]
    used = [step["uses"].partition("@")[0] for step in steps if "uses" in step]
    for wanted in ("checkout", "setup-python", "cache", "upload-artifact"):
        assert f"actions/{wanted}" in used
    assert all("@v" in step["uses"] for step in steps if "uses" in step)
    runs = " ".join(step["run"] for step in steps if "run" in step)
    assert '-m "chaos and smoke"' in runs and "GITHUB_STEP_SUMMARY" in runs
    assert "make setup" in runs and re.search(r"^setup:", (ROOT / "Makefile").read_text(), re.M)
    upload = next(step for step in steps if step.get("uses", "").startswith("actions/upload-artifact"))
    assert upload["if"] == "always()"
