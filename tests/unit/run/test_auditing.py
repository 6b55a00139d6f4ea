"""Before a run on a cluster that exists: what fails of its audit is shown, recorded, and refused where asked for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from audited import MISSING, PROBLEMS, healthy
from unit.run.test_execution import execution, refused_run

from chaos.base.errors import InvalidInput, LabError
from chaos.definitions.existing import AuditFile
from chaos.programs.audit import Sheet, audit
from chaos.run import auditing
from chaos.run import execution as module

PLANTED = PROBLEMS["allocation of primaries alone"][2](healthy())
UNREAD = MISSING["settings"][1](healthy())


def target(*refuse: str) -> Any:
    file = AuditFile(refuse=refuse) if refuse else None
    return SimpleNamespace(file="staging.yaml", written=SimpleNamespace(audit=file, name="staging"))


def test_what_fails_is_a_line_with_what_mends_it() -> None:
    (line,) = auditing.critical(audit(PLANTED))
    assert "cluster.routing.allocation.enable: primaries" in line and "mends it: curl -X PUT" in line
    assert auditing.critical(audit(healthy())) == []


@pytest.mark.parametrize(
    ("refuse", "sheet", "says"),
    [
        ((), PLANTED, None),
        (("left.allocation",), healthy(), None),
        (("left.allocation",), PLANTED, "left.allocation is fail"),
        (("managers.votes",), PLANTED, None),  # another row fails
        (("any",), PLANTED, "left.allocation is fail"),
        (("any",), healthy(), None),
        (("any",), UNREAD, None),  # some row is unknown on most clusters
        (("managers.votes", "left.allocation"), UNREAD, "left.allocation is unknown"),
    ],
)
def test_the_file_says_what_refuses(refuse: tuple[str, ...], sheet: Sheet, says: str | None) -> None:
    if says is None:
        auditing.refuse(target(*refuse), audit(sheet))
        return
    with pytest.raises(InvalidInput, match=says):
        auditing.refuse(target(*refuse), audit(sheet))


def test_a_row_that_there_is_not_is_bad_input() -> None:
    auditing.refuse_unknown_rows(target("any", "left.allocation"))
    auditing.refuse_unknown_rows(target())
    with pytest.raises(InvalidInput, match=r"left.alocation.*did you mean .left.allocation"):
        auditing.refuse_unknown_rows(target("left.alocation"))


def looking(folder: Path, monkeypatch: pytest.MonkeyPatch, sheet: Sheet | Exception, *refuse: str) -> Any:
    """A run on a cluster that exists, whose audit says this."""

    def read(*_: Any, **__: Any) -> Sheet:
        if isinstance(sheet, Exception):
            raise sheet
        return sheet

    monkeypatch.setattr(module.of_cluster, "of_lab", read)
    there = SimpleNamespace(lab=SimpleNamespace(target=target(*refuse)), began=False)
    return execution(folder, there=there, folder=folder)


def test_it_is_recorded_before_anything_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = looking(tmp_path, monkeypatch, PLANTED)
    made.look_for_leftovers()
    (note,) = made.events.of("note")
    assert "primaries" in note["says"]


def test_a_run_is_refused_where_the_file_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match=r"staging\.yaml refuses runs"):
        looking(tmp_path, monkeypatch, PLANTED, "left.allocation").look_for_leftovers()


def test_a_refused_run_changes_nothing_and_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = refused_run(tmp_path, monkeypatch, began=False)
    reached: list[str] = []
    made.load_on = lambda: reached.append("load")
    monkeypatch.setattr(module.of_cluster, "of_lab", lambda *_, **__: PLANTED)
    made.there.lab = SimpleNamespace(target=target("left.allocation"))
    del made.look_for_leftovers
    with pytest.raises(InvalidInput, match=r"left\.allocation is fail"):
        made.execute()
    assert reached == [] and not made.folder.exists()


def test_no_audit_ends_no_run_but_where_the_file_asks_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = looking(tmp_path, monkeypatch, LabError("no answer"))
    made.look_for_leftovers()
    assert "no audit before the run: no answer" in made.events.of("note")[0]["says"]
    with pytest.raises(InvalidInput, match="there was none: no answer"):
        looking(tmp_path / "more", monkeypatch, LabError("no answer"), "any").look_for_leftovers()


def test_a_lab_of_ours_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = looking(tmp_path, monkeypatch, PLANTED)
    made.there = None
    made.look_for_leftovers()
    assert made.events.of("note") == []
