"""Half a page for who pays: what was promised, whether it was kept, how it was before, and how sure that is."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import synthetic
from negative import test_mutated
from pages import Page

from chaos.checks import plainly
from chaos.report import promises, render


def made(folder: Path, name: str, story: synthetic.Story) -> Path:
    """A judged run in a folder of runs."""
    run = story.write(folder / name)
    render(run)
    return run


def named(story: synthetic.Story) -> str:
    return str(story.plan()["experiment"]["name"])


def test_the_first_run_says_that_it_is_one_run(tmp_path: Path) -> None:
    run = made(tmp_path, "20260101T000000Z-zone-network-slowdown-0001", synthetic.slow_zone())
    promises.remember(run, "zone-network-slowdown")
    assert promises.earlier(run) is None and not (run / promises.FILE).exists()
    words = Page((run / "report.html").read_text()).words
    assert "No earlier run of this experiment is known here" in words
    assert "one run" in words and "no run before" in words


def test_a_later_run_is_set_beside_the_one_before(tmp_path: Path) -> None:
    story, broken = synthetic.slow_zone(), synthetic.slow_zone()
    broken.chapters[2].write = synthetic.constant(synthetic.Outcome.TIMEOUT, 5.0)
    assert named(story) == "zone-network-slowdown"
    for number, each in enumerate((story, broken)):
        made(tmp_path, f"20260101T00000{number}Z-zone-network-slowdown-000{number}", each)
    made(tmp_path, "20260101T000005Z-another-one-0005", synthetic.black_hole())
    run = made(tmp_path, "20260101T000009Z-zone-network-slowdown-0009", story)
    promises.remember(run, "zone-network-slowdown")
    last = promises.earlier(run)
    assert last is not None and last["runs"] == 2 and last["last"]["outcome"] == "weakness"
    section = promises.section(json.loads((run / "findings.json").read_text()), last)
    assert section is not None
    (row,) = [row for row in section["rows"] if row["promise"].startswith("Writes come back in “failover”")]
    assert row["word"] == "kept" and row["before"].startswith("broken, ") and row["sure"] == "kept in 2 of 3 runs"
    render(run)
    assert "Against the run before" in Page((run / "report.html").read_text()).words


def test_a_run_is_not_set_beside_later_ones_or_what_cannot_be_read(tmp_path: Path) -> None:
    run = made(tmp_path, "20260101T000001Z-zone-network-slowdown-0001", synthetic.slow_zone())
    made(tmp_path, "20260101T000002Z-zone-network-slowdown-0002", synthetic.slow_zone())
    (tmp_path / "20260101T000000Z-zone-network-slowdown-0000").mkdir()
    torn = tmp_path / "20250101T000000Z-zone-network-slowdown-0000"
    torn.mkdir()
    (torn / "findings.json").write_text('{"findings": [')
    promises.remember(run, "zone-network-slowdown")
    assert promises.earlier(run) is None


def test_a_redacted_page_says_nothing_of_other_runs(tmp_path: Path) -> None:
    for number in range(2):
        run = made(tmp_path, f"20260101T00000{number}Z-zone-network-slowdown-000{number}", synthetic.slow_zone())
    promises.remember(run, "zone-network-slowdown")
    page = render(run, redact=True).read_text()
    assert "20260101T000000Z" not in page
    words = Page(page).words
    assert "Earlier runs are left out of a redacted page" in words and "No earlier run" not in words


def replanned(run: Path, **more: Any) -> Path:
    plan = json.loads((run / "plan.json").read_text())
    (run / "plan.json").write_text(json.dumps(plan | more))
    return run


@pytest.mark.parametrize("more", [{"hash": "sha256:other"}, {"versions": {"opensearch": "3.9.0"}}, {"hash": None}])
def test_runs_of_another_setup_are_told_apart_and_not_counted(tmp_path: Path, more: dict[str, Any]) -> None:
    """Before a cluster was mended, and after: the one says nothing of the other."""
    replanned(made(tmp_path, "20260101T000000Z-zone-network-slowdown-0000", synthetic.slow_zone()), **more)
    run = made(tmp_path, "20260101T000001Z-zone-network-slowdown-0001", synthetic.slow_zone())
    promises.remember(run, "zone-network-slowdown")
    section = promises.section(json.loads((run / "findings.json").read_text()), promises.earlier(run))
    assert section is not None and "of another definition, topology or version" in section["against"]
    assert {row["sure"] for row in section["rows"]} == {"one run"}


def test_runs_that_decided_nothing_are_counted_too(tmp_path: Path) -> None:
    for number, story in enumerate((synthetic.slow_zone(), synthetic.unproven())):
        story.name = "zone-network-slowdown"
        made(tmp_path, f"20260101T00000{number}Z-zone-network-slowdown-000{number}", story)
    run = made(tmp_path, "20260101T000009Z-zone-network-slowdown-0009", synthetic.slow_zone())
    promises.remember(run, "zone-network-slowdown")
    section = promises.section(json.loads((run / "findings.json").read_text()), promises.earlier(run))
    assert section is not None
    assert "kept in 2 of 2 runs, undecided in 1" in {row["sure"] for row in section["rows"]}


def test_what_was_not_kept_stands_first_and_what_nobody_asked_about_before_it(tmp_path: Path) -> None:
    story = synthetic.slow_zone()
    story.expect = [synthetic.expect("read.p99", "<=", 5.0 + n) for n in range(promises.SHOWN)]
    story.expect.append(synthetic.expect("write.good", ">=", 1.0, ("slow",)))
    assert story.readback is not None
    story.readback |= {"unexpected": ["x-1"], "unexpected_count": 1}
    run = made(tmp_path, "20260101T000000Z-zone-network-slowdown-0000", story)
    section = promises.section(json.loads((run / "findings.json").read_text()), None)
    assert section is not None and section["more"] > 0
    words = [(row["promise"], row["word"]) for row in section["rows"]]
    assert words[0] == ("Only documents that somebody wrote are there", "broken")
    assert words[1][1] == "broken" and "“slow”" in words[1][0], words


@cache
def _every_metric() -> dict[str, dict[str, Any]]:
    findings = test_mutated._sound().copy().judged(*map(test_mutated.expected, test_mutated.METRICS)).findings
    return {finding.metric: finding.to_json() for finding in reversed(findings)}


@pytest.mark.parametrize("metric", test_mutated.METRICS)
def test_every_metric_is_a_promise_in_plain_words(metric: str) -> None:
    item = _every_metric()[metric]
    for words in (plainly.promise(item), plainly.question(item)):
        assert metric not in words and not any(sign in words for sign in (">=", "<=", "=="))
        assert "{" not in words
