"""A case's report: all that a maintainer would ask for, of recorded attempts alone, and no word about this suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from shipped import CASES, ROOT
from unit.definitions.test_upstream_files import case

from chaos.commands import upstream as command
from chaos.definitions.upstream import Case, load_case
from chaos.report import upstream as reports


@pytest.fixture
def deaf(tmp_path: Path) -> Case:
    return load_case(case(tmp_path))


def record(of: Case, outcome: str = "reproduced", **keys: Any) -> dict[str, Any]:
    steps = [{"run": "curl", "printed": "it is deaf\n", "shows": "seen", "seconds": 0.1}]
    return {
        "steps_hash": of.written.fingerprint,
        "version": "3.8.0",
        "control": False,
        "outcome": outcome,
        "began": "2026-11-25",
        "seconds": 2.5 if outcome == "reproduced" else None,
        "steps": steps,
    } | keys


def test_k_of_n_counts_attempts_at_these_steps_that_showed_anything(deaf: Case) -> None:
    others = [
        record(deaf, steps_hash="older"),
        record(deaf, "inconclusive"),
        record(deaf, control=True),
        record(deaf, version="3.4.0"),
        {**record(deaf), "outcome": None},
    ]
    assert reports.counted(deaf, [record(deaf), record(deaf, "not reproduced"), *others], "3.8.0") == (1, 2)
    assert reports.counted(deaf, others, "3.8.0", control=True) == (1, 1)


@pytest.mark.parametrize(
    ("records", "state"),
    [
        ([], "not run"),
        (["reproduced"], "seen once"),
        (["reproduced"] * 2, "confirmed"),
        (["not reproduced"], "not reproduced"),
    ],
)
def test_confirmed_takes_two_labs(deaf: Case, records: list[str], state: str) -> None:
    assert reports.state(deaf, [record(deaf, each) for each in records]) == state


def test_what_was_never_seen_has_a_bound() -> None:
    assert reports.how_often(0, 0) == "not tried"
    assert reports.how_often(0, 1).startswith("0 of 1 (at most 100%")
    assert reports.how_often(0, 30).startswith("0 of 30 (at most 10%")
    assert reports.how_often(2, 3) == "2 of 3"


def test_a_report_has_what_a_maintainer_asks_for(deaf: Case) -> None:
    text = reports.report(
        deaf, [record(deaf), record(deaf, began="2026-11-26", log=["[ERROR] deaf", "\tat org.opensearch.Ear"])]
    )
    for part in (
        "# it is deaf",
        "3.8.0: 2 of 2",
        'curl -s "$a_node"',
        "it listens",
        "2.5 s after",
        "org.opensearch.Ear",
    ):
        assert part in text, part
    assert "opensearch-chaos" not in text


def test_what_was_not_run_is_said(deaf: Case) -> None:
    text = reports.report(deaf, [])
    assert "Not seen yet." in text and "3.8.0: not tried" in text and "Not run yet." in text


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_no_report_that_is_filed_speaks_of_this_suite(path: Path) -> None:
    text = reports.report(load_case(path), command.recorded(ROOT / "reports" / "results"))
    assert "chaos" not in text.lower() and str(ROOT) not in text


def test_a_report_says_where_indices_are(deaf: Case) -> None:
    name = "full-store-stops-writes-for-good"
    text = reports.report(load_case(ROOT / "experiments" / "upstream" / f"{name}.yaml"), [])
    assert "on remote-backed storage: the repository `store` of type `fs`, on a disk of 256MiB of its own." in text
    assert "remote-backed" not in reports.report(deaf, [])


def test_the_committed_page_is_made_of_cases_and_records() -> None:
    results = ROOT / "reports" / "results"
    made = reports.page([load_case(path) for path in CASES], command.recorded(results), command.hunted(results))
    page = ROOT / "docs" / "upstream.md"
    assert page.read_text() == made, "run: opensearch-chaos upstream --page > docs/upstream.md"


def test_what_is_no_command_is_told_as_one(tmp_path: Path) -> None:
    actions = """steps:
  - kill: a-node
  - start: a-node
  - pause: all
  - cut: [a-node, a-node]
  - wait: 5s
"""
    text = reports.report(load_case(case(tmp_path, ("steps:\n  - run: curl", f"{actions}  - run: curl"))), [])
    for line in (
        "kill -KILL $a_node_pid",
        "# start a-node again, and wait until it answers",
        "# kill -STOP every node",
        "# drop all packets between a-node and a-node, both ways",
        "sleep 5",
    ):
        assert line in text, line
