"""What a verdict is called: known weaknesses and improvements are counted apart, on every page and in every count."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import synthetic
from rich.console import Console
from synthetic import expect

from chaos.base.errors import Exit
from chaos.checks import evaluate, shown
from chaos.checks.shown import Shown
from chaos.commands import common
from chaos.report import junit, markdown, render_html, suite, trend
from chaos.statistics.facts import Facts

KNOWN = expect("write.good", ">=", 0.999, ("slow",), known="issue 17")
GONE = expect("write.good", ">=", 0.999, ("healthy",), known="issue 17")
HELD = expect("read.good", ">=", 0.9, ("healthy",))
MISSED = expect("write.good", ">=", 0.999, ("slow",))


def run(*expected: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    story = synthetic.slow_zone()
    story.expect = list(expected)
    history = story.history()
    return history, json.loads(json.dumps(evaluate(history).to_json()))


CALLED = {
    Shown.PASS: (HELD,),
    Shown.KNOWN: (HELD, KNOWN),
    Shown.IMPROVED: (HELD, GONE),
    Shown.WEAKNESS: (GONE, MISSED),
}


@pytest.mark.parametrize("called", CALLED)
def test_each_verdict_has_its_word_on_every_screen(called: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    history, findings = run(*CALLED[called])
    assert shown.of(findings) is called
    printed = io.StringIO()
    monkeypatch.setattr(common, "out", Console(file=printed, width=10_000, highlight=False))
    common.print_verdict("run", Path("nowhere"), findings, report=False)
    assert printed.getvalue().startswith(f"run: {called.words.upper()}  ")
    assert f": {called.words}, clean" in markdown.summary(findings).splitlines()[0]
    properties = {
        each.get("name"): each.get("value") for each in ET.fromstring(junit.junit_xml(findings)).iter("property")
    }
    assert properties["verdict"] == called.words and properties["outcome"] == findings["outcome"]
    assert properties["count.known_weakness"] == str(int(called is Shown.KNOWN))
    page = render_html(history, findings)
    assert f'<div class="verdict {called.value}">' in page
    assert ("Weakness found" in page) is (called is Shown.WEAKNESS)
    assert ("Everything that was expected held" in page) is (called is Shown.PASS)


def test_outcome_and_exit_code_stay() -> None:
    codes = {
        called: (run(*expected)[1]["outcome"], run(*expected)[1]["exit_code"]) for called, expected in CALLED.items()
    }
    assert codes[Shown.KNOWN] == ("pass", 0) and codes[Shown.PASS] == ("pass", 0)
    assert codes[Shown.IMPROVED] == ("weakness", 1) and codes[Shown.WEAKNESS] == ("weakness", 1)


def test_what_is_improved_must_be_cleared_and_is_no_weakness_of_the_cluster() -> None:
    history, findings = run(HELD, GONE)
    assert findings["headline"].startswith("Improved: a known weakness is gone")
    page = render_html(history, findings)
    assert "clear its note before the next release" in page and "No weakness was found" in page
    (case,) = [case for case in ET.fromstring(junit.junit_xml(findings)).iter("failure")]
    assert case.get("type") == "improved" and "clear its note" in str(case.get("message"))


def test_a_switch_makes_a_pass_with_known_weaknesses_fail_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "out", Console(file=io.StringIO()))
    for called, expected in CALLED.items():
        findings = run(*expected)[1]
        code = Exit(findings["exit_code"])
        assert common.on_known(code, findings, False) is code
        assert common.on_known(code, findings, True) is (Exit.WEAKNESS if called is Shown.KNOWN else code)
    assert common.on_known(Exit.DIRTY, run(HELD, KNOWN)[1], True) is Exit.DIRTY  # the worst wins


def test_each_kind_is_counted_apart() -> None:
    _, findings = run(HELD, KNOWN, MISSED)
    assert shown.tally(findings) == "2 of 4 expectations held, 1 missed as known, 1 missed"  # with the phase's “until”
    findings["findings"][0]["counts_as"] = "relaxed"
    assert shown.tally(findings).startswith("1 of 4 expectations held, 1 relaxed")
    assert shown.tally({"findings": []}) == "nothing was expected"
    assert shown.counted([Shown.PASS, Shown.KNOWN, Shown.PASS]) == "1 pass with known weaknesses and 2 pass"


def test_pages_over_several_runs_count_known_weaknesses_apart(tmp_path: Path) -> None:
    runs = []
    for number, expected in enumerate((CALLED[Shown.PASS], CALLED[Shown.KNOWN], CALLED[Shown.KNOWN])):
        history, findings = run(*expected)
        runs.append(Facts(f"run-{number}", None, history.plan, findings))
    page = suite.suite_page(runs, tmp_path / "suite.html").read_text()
    assert "2 pass with known weaknesses and 1 pass" in page
    assert "pass with known weaknesses" in trend.trend_page(runs, tmp_path / "trend.html").read_text()
