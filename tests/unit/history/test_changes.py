"""Which item of a bulk changes which document, as it stands on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chaos.history.changes import ROW, Changes
from chaos.history.format import Action


def test_what_was_written_is_read_and_half_a_row_is_none(tmp_path: Path) -> None:
    file = tmp_path / "changes.bin"
    file.write_bytes(ROW.pack(2**40, 7, Action.UPDATE) + ROW.pack(12, 2**33, Action.DELETE) + ROW.pack(1, 2, 1)[:-1])
    found = Changes.read(file)
    assert found.item.tolist() == [2**40, 12] and found.document.tolist() == [7, 2**33]
    assert found.action.tolist() == [Action.UPDATE, Action.DELETE]
    assert len(Changes.read(tmp_path / "none")) == 0


def test_the_changes_of_all_processes_and_of_some_arrivals(tmp_path: Path) -> None:
    """Bulks of ten: items 20 and 25 are of arrival 2."""
    one, other = tmp_path / "changes.bin", tmp_path / "other.bin"
    one.write_bytes(ROW.pack(20, 7, Action.UPDATE) + ROW.pack(40, 7, Action.DELETE) + b"half a row")
    other.write_bytes(ROW.pack(25, 13, Action.UPDATE))
    found = Changes.read(one, tmp_path / "none", other)
    assert found.item.tolist() == [20, 40, 25] and found.document.tolist() == [7, 7, 13]
    own = found.only(np.array([2, 3]), 10)
    assert own.item.tolist() == [20, 25] and own.document.tolist() == [7, 13] and own.last.tolist() == [0, 1]
    assert len(found.only(np.array([], np.int64), 10)) == 0


def test_the_last_change_of_each_document_is_the_one_that_was_sent_last() -> None:
    changes = Changes.of((9, 1, Action.UPDATE), (5, 2, Action.UPDATE), (7, 1, Action.DELETE), (8, 0, Action.UPDATE))
    assert changes.last.tolist() == [3, 2, 1]  # by document 0, 1, 2
