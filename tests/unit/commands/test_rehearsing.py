"""``plan --on FILE --fis``: what is there already keeps a run away, so it keeps the plan from being OK."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from unit.run.test_reaching import by_fis

from chaos.base.errors import FaultError
from chaos.commands.rehearsing import rehearsed
from chaos.run import recovering_on

EXPORT = "the template EXT1 of FIS was made by hand from `fis export` and is no run's: delete it, aws fis … --id EXT1"


def fis(*left: str, unread: str | None = None) -> SimpleNamespace:
    """AWS FIS with these left; a call of any other method of it would fail."""

    def told() -> list[str]:
        if unread is not None:
            raise FaultError(unread)
        return list(left)

    return SimpleNamespace(left=told)


@pytest.mark.parametrize("there", [fis(EXPORT, "the experiment EXP1 of FIS is running"), fis(unread="AccessDenied")])
def test_what_is_left_refuses_the_plan_by_name_and_nothing_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: SimpleNamespace
) -> None:
    made = by_fis(tmp_path, "node.restart: {target: node c-data}")
    assert made.refused == []
    monkeypatch.setattr(recovering_on, "cluster_of", lambda target: SimpleNamespace(fis=there))
    found = rehearsed(made)
    rows = [row for where, row in found.refused if where == "AWS FIS"]
    try:
        expected = there.left()
    except FaultError as error:
        expected = [error.message]
    assert [row.says for row in rows] == expected and found.rehearsed == ()
    assert all("recover --on" in (row.remedy or "") for row in rows)
