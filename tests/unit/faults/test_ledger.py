"""The ledger: whatever dies, whenever, what stands in the file is a superset of what is in effect."""

from __future__ import annotations

import errno
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from making import block

from chaos.base.errors import FaultError
from chaos.base.paths import ProcessIdentity
from chaos.faults.ledger import Ledger, Registration, registrations, standing
from chaos.faults.moves import Move, Reversible

steps = st.lists(
    st.one_of(
        st.tuples(st.just("intend"), st.integers(1, 3)),
        st.tuples(st.just("undone"), st.integers(0, 9)),
        st.tuples(st.just("undo_failed"), st.integers(0, 9)),
        st.tuples(st.just("reopen"), st.just(0)),
    ),
    max_size=12,
)


def moves(count: int, start: int = 0) -> list[Reversible]:
    return [block("a-data", f"peer-{start + i}") for i in range(count)]


def played(path: Path, script: list[tuple[str, int]]) -> list[tuple[int, set[int]]]:
    """Play a script; for each row that reached the disk: the file's size, and which entries are in effect then."""
    ledger = Ledger(path)
    effect: dict[int, Any] = {}
    states = [(0, set[int]())]
    for word, number in script:
        if word == "intend":
            for entry in ledger.intend("f", moves(number, len(states))):
                effect[entry.number] = entry
        elif word == "reopen":
            ledger.close()
            ledger = Ledger(path)
        elif effect:
            entry = effect[sorted(effect)[number % len(effect)]]
            if word == "undone":
                del effect[entry.number]
            ledger.note(entry, word, "because" if word == "undo_failed" else None)
        states.append((path.stat().st_size, set(effect)))
    ledger.close()
    return states


@given(steps, st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_any_interleaving_cut_at_any_byte_stands_for_what_is_in_effect(
    script: list[tuple[str, int]], permille: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ledger.jsonl")
        states = played(path, script)
        assert {entry.number for entry in standing(path)} == states[-1][1]
        whole = path.read_bytes()
        cut = len(whole) * permille // 1000  # the rows' length varies with the clock
        path.write_bytes(whole[:cut])
        # a row is on disk before its move is tried, and an undo is over before it is noted
        in_effect = [effect for size, effect in states if size - 1 <= cut][-1]  # whole but for its line feed
        found = [entry.number for entry in standing(path)]
        assert set(found) >= in_effect
        assert found == sorted(found, reverse=True)

        again = Ledger(path)  # another process goes on with the cut file
        (entry,) = again.intend("f", moves(1, 100))
        assert entry.number not in found
        assert [e.number for e in standing(path)] == [entry.number, *found]
        again.note(entry, "undone")
        assert [e.number for e in standing(path)] == found
        again.close()


def test_an_entry_stands_with_its_fault_move_and_inverse(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    lasting = Reversible(Move("node.wipe", {"node": "a-data"}), None)
    written = ledger.intend("f1", [*moves(2), lasting])
    assert standing(ledger.path) == list(reversed(written))
    assert standing(ledger.path)[0].inverse is None


def test_a_ledger_that_is_not_there_stands_for_nothing(tmp_path: Path) -> None:
    assert standing(tmp_path / "none.jsonl") == []


class FullDisk:
    """A file that takes ``room`` bytes more, and then says ENOSPC or, as the kernel may, writes less than asked."""

    def __init__(self, file: Any, room: int, short: bool) -> None:
        self._file, self._room, self._short = file, room, short

    def write(self, data: bytes) -> int:
        if len(data) <= self._room:
            return int(self._file.write(data))
        if self._short and self._room:
            return int(self._file.write(data[: self._room]))
        raise OSError(errno.ENOSPC, "No space left on device")

    def fileno(self) -> int:
        return int(self._file.fileno())

    def close(self) -> None:
        self._file.close()


@given(st.integers(0, 400), st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_full_disk_means_no_injection_and_leaves_whole_rows_only(room: int, short: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        told: list[str] = []
        ledger = Ledger(Path(folder, "ledger.jsonl"), told.append)
        (first,) = ledger.intend("f1", moves(1))
        before, disk = ledger.path.read_bytes(), ledger._file
        ledger._file = FullDisk(disk, room, short)  # type: ignore[assignment]
        with pytest.raises(FaultError, match="nothing is injected"):
            ledger.intend("f2", moves(3))
        assert ledger.path.read_bytes() == before
        assert [f"{ledger.path} cannot be written (No space left on device)" in says for says in told] == [True]
        ledger._file = FullDisk(disk, min(room, 20), short)  # type: ignore[assignment]
        ledger.note(first, "undone")  # must not stop an undo: no exception
        assert len(told) == 2
        assert [e.number for e in standing(ledger.path)] == [first.number]
        ledger._file = disk
        (later,) = ledger.intend("f3", moves(1))
        rows = [json.loads(line) for line in ledger.path.read_text().splitlines()]
        assert [row["entry"] for row in rows] == [first.number, later.number]
        ledger.close()


def test_registrations_survive_junk_beside_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENSEARCH_CHAOS_STATE", str(tmp_path))
    assert registrations() == []
    mine = Registration("run-1", tmp_path / "ledger.jsonl", "r1", ProcessIdentity.me())
    mine.write()
    for name, junk in {"cut": '{"run": "x"', "list": "[]", "null": "null", "empty": ""}.items():
        (tmp_path / "registry" / f"{name}.json").write_text(junk)
    assert registrations() == [mine]
    mine.remove()
    mine.remove()
    assert registrations() == []
