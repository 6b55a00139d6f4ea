"""The corpus: what old runs were judged to be, and whether old ledgers still undo. See tests/corpus/README.md."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import corpuskit as kit
import pytest

import chaos.registry
import chaos.run.execution  # noqa: F401
from chaos.checks.rules import RULES
from chaos.faults import ledger
from chaos.faults.moves import known
from chaos.report.page import render
from chaos.statistics import facts


def test_the_corpus_has_all_that_it_must_have() -> None:
    found = kit.verdicts()
    assert sorted(found) == kit.names()
    assert len(found) >= 25
    assert {each["outcome"] for each in found.values()} == {"pass", "weakness", "inconclusive", "aborted", "error"}
    assert {each["clean"] for each in found.values()} >= {True, False}
    assert {each["target"] for each in found.values()} >= {"local", "existing"}
    families = {kind.partition(".")[0] for each in found.values() for kind in each["faults of"]}
    assert families >= {"network", "node", "disk", "zone", "cluster_manager", "settings"}
    assert sum(kit.archive(name).stat().st_size for name in found) < kit.MOST_BYTES


@pytest.mark.parametrize("name", kit.names())
def test_a_stored_run_is_judged_as_it_was(name: str) -> None:
    assert kit.judged(name) == kit.verdicts()[name]


@pytest.mark.parametrize("name", kit.names())
def test_its_page_can_be_drawn_and_says_what_newer_rules_would_add(name: str) -> None:
    with kit.unpacked(name) as folder:
        page = render(folder).read_text()
        rules = json.loads((folder / "findings.json").read_text())["rules"]
    assert rules["newest"] == RULES
    if rules["judged_by"] == RULES:
        assert "would_add" not in rules
    else:
        assert "record" not in {each["cause"] for each in rules["would_add"]}  # it could not have been sealed then
        assert f"is judged by rules {rules['judged_by']}" in page


def test_a_run_without_rules_is_judged_by_its_history_and_not_by_what_is_stored() -> None:
    name = next(name for name, each in kit.verdicts().items() if each["rules"] == 1 and each["outcome"] == "weakness")
    with kit.unpacked(name) as folder:
        stored = {"format": 1, "outcome": "pass", "findings": [], "reasons": []}
        (folder / "findings.json").write_text(json.dumps(stored))
        assert facts.of_folder(folder).outcome == "weakness"


@pytest.mark.parametrize("provider", kit.providers())
def test_an_old_ledger_can_still_be_undone(provider: str, tmp_path: Path) -> None:
    """As if the runner had died before its first undo: what undoes each move is known, and takes what was written."""
    rows = [json.loads(line) for line in kit.ledger(provider).read_text().splitlines()]
    intents = [row for row in rows if row["state"] == "intent"]
    assert intents
    file = tmp_path / "ledger.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows if row["state"] != "undone"))
    standing = ledger.standing(file)
    assert [entry.number for entry in standing] == [row["entry"] for row in reversed(intents)]
    for entry in standing:
        for move in (entry.move, entry.inverse):
            if move is not None:
                inspect.signature(known(move.operation)).bind(None, **move.arguments)
