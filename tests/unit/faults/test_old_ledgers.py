"""Ledgers of earlier versions: what they hold can still be undone.

``data/ledgers-of-COMMIT`` was written by the code of that commit, from the examples of every kind of fault; the first
eight moves of each fault.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from fakes import FakeLab

from chaos.faults.ledger import Ledger, standing
from chaos.faults.lifecycle import undo_entries
from chaos.faults.moves import known
from chaos.registry import FAULTS

FOLDERS = sorted((Path(__file__).parent / "data").glob("ledgers-of-*"))
LEDGERS = [pytest.param(path, id=f"{path.parent.name}-{path.stem}") for each in FOLDERS for path in each.iterdir()]
WRITTEN = {"ledgers-of-1f6303b": 33}
"""How many kinds each commit had."""
BY_REST = ("settings.", "index.", "indices.", "pressure.")
"""Moves that ask a cluster, which is not there."""
LASTING = ("wiped", "version")
"""What nothing takes back."""


def test_there_is_a_ledger_of_every_kind() -> None:
    assert {folder.name: len(list(folder.iterdir())) for folder in FOLDERS} == WRITTEN
    for folder in FOLDERS:
        assert {path.stem for path in folder.iterdir()} <= set(FAULTS)


@pytest.mark.parametrize("path", LEDGERS)
def test_every_inverse_is_known_and_takes_what_was_written_down(path: Path) -> None:
    entries = standing(path)
    assert entries
    for entry in entries:
        for move in (entry.move, entry.inverse):
            if move is not None:
                inspect.signature(known(move.operation)).bind(None, **move.arguments)


@pytest.mark.parametrize("path", LEDGERS)
def test_what_was_done_is_undone(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.providers.process.sleep", lambda seconds: None)
    (tmp_path / "ledger.jsonl").write_bytes(path.read_bytes())
    ledger, lab = Ledger(tmp_path / "ledger.jsonl"), FakeLab(FAULTS[path.stem].example_topology)
    entries = standing(ledger.path)
    here = [
        entry
        for entry in entries
        if not any(each and each.operation.startswith(BY_REST) for each in (entry.move, entry.inverse))
    ]
    for entry in reversed(here):
        if entry.move.operation != "node.await":
            entry.move.apply(lab)
    failed = undo_entries(lab, ledger, here)
    assert failed == []
    assert {effect for effect in lab.effects if effect[0] not in LASTING} == set()
    left = {entry.number for entry in standing(ledger.path)}
    assert left == {entry.number for entry in entries} - {entry.number for entry in here}
