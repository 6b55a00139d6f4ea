"""The seal of a run: every file that changed since is named, and nothing else is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import synthetic

from chaos.base.errors import HistoryError
from chaos.history import History, compact, seal


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of rules 2 that has ended, with a ledger and an audit."""
    folder = synthetic.slow_zone().write(tmp_path / "run")
    (folder / "ledger.jsonl").write_text('{"entry": 0}\n')
    (folder / "audit.json").write_text("{}")
    seal.write(folder, "run", "the run ended: finished")
    return folder


def said(folder: Path) -> list[str]:
    look = seal.look(folder)
    assert look.sealed
    return list(look.broken)


def test_a_run_as_it_was_is_whole_and_every_file_of_its_record_is_sealed(run: Path) -> None:
    look = seal.look(run)
    assert look.sealed and not look.broken and not look.missing
    sealed = set(seal.expected(run))
    there = {str(file.relative_to(run)) for file in run.rglob("*") if file.is_file()}
    assert sealed == there - {"seal.json"} and "history/readback.json" in sealed


@pytest.mark.parametrize("name", ["plan.json", "clean.json", "audit.json", "ledger.jsonl", "history/readback.json"])
def test_a_file_that_was_edited_removed_or_cut_is_named(run: Path, name: str) -> None:
    file = run / name
    whole = file.read_bytes()
    file.write_bytes(whole[:-2] + b"~" + whole[-1:])
    assert said(run) == [f"{name} is not what the run wrote (SHA-256 differs)"]
    file.write_bytes(whole[: len(whole) // 2])
    (says,) = said(run)
    assert says.startswith(f"{name} is not what the run wrote (") and f"instead of {len(whole):,})" in says
    file.unlink()
    assert said(run) == [f"{name} is missing, and was there when the run ended"]
    file.write_bytes(whole)
    assert said(run) == []


def test_a_file_that_was_added_is_named_and_what_is_made_from_the_record_is_not(run: Path) -> None:
    (run / "history" / "cas.jsonl").write_text("")
    assert said(run) == ["history/cas.jsonl is not the run's: it was not there when the run ended"]
    (run / "history" / "cas.jsonl").unlink()
    (run / "logs").mkdir(exist_ok=True)
    for name in ("findings.json", "report.html", "last.json", "logs/runner.log", "history/.readback.json.7.tmp"):
        (run / name).write_text("x")
    assert said(run) == []


def test_a_history_that_is_gone_is_said_to_be_missing(run: Path) -> None:
    (run / "history").rename(run / "elsewhere")
    assert seal.look(run).missing == ("history",)
    (run / "history").mkdir()
    assert seal.look(run).missing == ("history/events.jsonl",)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"format": 2, "entries": [{}]}', '{"format": 1, "entries": []}'])
def test_a_seal_that_cannot_be_read_is_no_seal_that_holds(run: Path, content: str) -> None:
    (run / "seal.json").write_text(content)
    (says,) = said(run)
    assert says.startswith("seal.json cannot be read")


def test_a_ledger_may_grow_and_what_was_sealed_of_it_must_stay(run: Path) -> None:
    with open(run / "ledger.jsonl", "a") as ledger:
        ledger.write('{"entry": 0, "state": "undone"}\n')
    assert said(run) == []
    text = (run / "ledger.jsonl").read_text()
    (run / "ledger.jsonl").write_text(text.replace('"entry": 0}', '"entry": 1}'))
    assert [says.partition(" (")[0] for says in said(run)] == ["ledger.jsonl is not what the run wrote"]


def test_recover_adds_an_entry_with_its_reason_and_rewrites_none(run: Path) -> None:
    first = json.loads((run / "seal.json").read_text())["entries"][0]
    with (
        seal.going_on(run, "ledger.jsonl", "recover", "it undid what was left"),
        open(run / "ledger.jsonl", "a") as ledger,
    ):
        ledger.write("{}\n")
    entries = json.loads((run / "seal.json").read_text())["entries"]
    assert entries[0] == first and len(entries) == 2
    assert (entries[1]["by"], entries[1]["why"], list(entries[1]["files"])) == (
        "recover",
        "it undid what was left",
        ["ledger.jsonl"],
    )
    assert said(run) == []


def test_a_file_that_was_changed_before_is_not_sealed_again(run: Path) -> None:
    (run / "ledger.jsonl").write_text("edited\n")
    with (
        seal.going_on(run, "ledger.jsonl", "recover", "it undid what was left"),
        open(run / "ledger.jsonl", "a") as ledger,
    ):
        ledger.write("{}\n")
    assert len(json.loads((run / "seal.json").read_text())["entries"]) == 1
    assert len(said(run)) == 1


def test_rows_that_are_made_parquet_later_are_sealed_again_and_edited_ones_are_left(run: Path) -> None:
    arrivals = run / "history" / "arrivals.bin"
    whole = arrivals.read_bytes()
    arrivals.write_bytes(b"\1" * len(whole))
    with pytest.raises(HistoryError, match=r"history/arrivals\.bin is not what the run wrote"):
        compact(run)
    assert not (run / "history" / "arrivals.parquet").exists()
    arrivals.write_bytes(whole)
    before = len(History.open(run).arrivals)
    compact(run)
    assert said(run) == [] and not arrivals.exists() and len(History.open(run).arrivals) == before
    compact(run)
    assert len(json.loads((run / "seal.json").read_text())["entries"]) == 2


def test_the_digest_is_of_everything_that_is_sealed_and_of_the_seal(run: Path) -> None:
    whole = seal.look(run).digest
    (run / "report.html").write_text("a page")
    assert seal.look(run).digest == whole
    edits: list[Callable[[], object]] = [
        lambda: (run / "clean.json").write_text('{"clean": true}'),
        lambda: (run / "history" / "x.jsonl").write_text(""),
        lambda: (run / "seal.json").unlink(),
    ]
    seen = {whole}
    for edit in edits:
        edit()
        seen.add(seal.look(run).digest)
    assert len(seen) == 4


def test_a_file_that_cannot_be_read_is_not_what_the_run_wrote(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run / "history" / "readback.json").unlink()
    os.mkfifo(run / "history" / "pipe.jsonl")  # no regular file: it is none of the record's, and must not be waited for
    assert said(run) == ["history/readback.json is missing, and was there when the run ended"]
