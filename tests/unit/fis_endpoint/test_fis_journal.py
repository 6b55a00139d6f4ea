"""The endpoint's ledger as a file: what is read back, what is tolerated, what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from fiskit import PLACE, Stepped, World, arn, journal_in, rows

from chaos.base.errors import InvalidInput
from chaos.fis_endpoint.doing import Doing
from chaos.fis_endpoint.engine import recover
from chaos.fis_endpoint.journal import Journal, JournalBroken

DOING = Doing("EXP1/stop", "EXP1", "aws:ec2:stop-instances", {"a": "b"}, {"Instances": (arn(0),)}, 1.5)


def opened_again(journal: Journal) -> Journal:
    journal.close()
    return journal_in(journal.file.parent)


def test_what_began_is_read_back_as_it_was(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    journal.begins(DOING)
    [found] = opened_again(journal).unended()
    assert (found.id, found.action, found.parameters, found.seconds) == (DOING.id, DOING.action, {"a": "b"}, 1.5)
    assert {key: list(arns) for key, arns in found.targets.items()} == {"Instances": [arn(0)]}


def test_what_ended_is_not(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    journal.begins(DOING)
    journal.ended(DOING)
    journal.ended(DOING)
    assert opened_again(journal).unended() == []


def test_templates_experiments_tokens_and_the_lever_are_read_back(tmp_path: Path) -> None:
    stepped = Stepped(journal_in(tmp_path), World())
    name = stepped.start("one")
    stepped.advance(4000)
    stepped.service.call(
        "UpdateSafetyLeverState", {"id": "default", "state": {"status": "engaged", "reason": "sales day"}}
    )
    journal = opened_again(stepped.journal)
    recover(journal, World().hands)
    again = Stepped(journal, World())
    assert again.document(name) == stepped.document(name) and again.status(name) == "completed"
    template = again.document(name)["experimentTemplateId"]
    params = {"clientToken": "one", "experimentTemplateId": template}
    assert again.service.call("StartExperiment", params)["experiment"]["id"] == name
    lever = again.service.call("GetSafetyLever", {"id": "default"})["safetyLever"]["state"]
    assert lever == {"status": "engaged", "reason": "sales day"}
    later = again.service.call("StartExperiment", {**params, "clientToken": "two"})["experiment"]["id"]
    again.advance()
    assert again.status(later) == "cancelled" and again.document(later)["sequence"] > again.document(name)["sequence"]


def test_every_beginning_of_a_file_can_be_read(tmp_path: Path) -> None:
    stepped = Stepped(journal_in(tmp_path / "whole"), World())
    stepped.start()
    stepped.advance(5)
    stepped.engine.stop_all("enough")
    stepped.advance()
    stepped.journal.close()
    data = stepped.journal.file.read_bytes()
    for length in range(0, len(data), 97):
        folder = tmp_path / str(length)
        folder.mkdir()
        (folder / "journal.jsonl").write_bytes(data[:length])
        journal = journal_in(folder)
        whole = data[:length].rfind(b"\n") + 1
        kept = journal.file.read_bytes()
        assert kept == data[:whole] or (whole == 0 and len(rows(journal.file)) == 1)
        journal.write({"kind": "opened", "time_scale": 1})
        assert opened_again(journal).past == journal.past


@pytest.mark.parametrize(
    "line",
    [
        "no JSON",
        "[]",
        "{}",
        '{"kind": "unheard of"}',
        '{"kind": "end", "id": "EXP1/never"}',
        '{"kind": "begin", "doing": {"id": "EXP1/stop"}}',
        '{"kind": "template deleted", "id": "EXTnone"}',
        '{"kind": "template", "template": {}}',
    ],
)
def test_a_damaged_line_is_refused_with_its_place(tmp_path: Path, line: str) -> None:
    journal = journal_in(tmp_path)
    journal.close()
    with open(journal.file, "a") as file:
        file.write(f"{line}\n")
    with pytest.raises(InvalidInput, match=r"journal\.jsonl:2 is no line of a journal"):
        journal_in(tmp_path)
    assert journal.file.read_text().endswith(f"{line}\n"), "evidence is not thrown away"


@pytest.mark.parametrize(("name", "value"), [("format", 2), ("account", "999999999999"), ("region", "us-east-1")])
def test_a_journal_of_something_else_is_refused(tmp_path: Path, name: str, value: object) -> None:
    journal = journal_in(tmp_path)
    journal.close()
    [header] = rows(journal.file)
    journal.file.write_text(json.dumps({**header, name: value}) + "\n")
    with pytest.raises(InvalidInput, match=name):
        journal_in(tmp_path)


def test_two_endpoints_do_not_share_a_journal(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    with pytest.raises(InvalidInput, match="another endpoint"):
        journal_in(tmp_path)
    opened_again(journal).close()


def test_a_folder_is_no_journal(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="as a journal"):
        Journal(tmp_path, account=PLACE.account, region=PLACE.region)


def test_a_line_is_on_disk_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = journal_in(tmp_path)
    before = journal.file.read_bytes()

    def failing(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(JournalBroken, match="Input/output error"):
        journal.begins(DOING)
    assert journal.unended() == [] and journal.file.read_bytes() == before


def test_a_line_that_contradicts_the_file_is_not_written(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    journal.begins(DOING)
    with pytest.raises(JournalBroken, match="has begun already"):
        journal.begins(DOING)
    assert [doing.id for doing in opened_again(journal).unended()] == [DOING.id]
