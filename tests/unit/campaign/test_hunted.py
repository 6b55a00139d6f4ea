"""What hunts have found is explained, each by a case or as ours: nothing stays a riddle on the page."""

from __future__ import annotations

from shipped import ROOT

from chaos.commands.upstream import hunted
from chaos.report.upstream import page

HUNTS = hunted(ROOT / "reports" / "results")


def test_the_committed_hunts_drew_something_and_everything_found_has_its_case() -> None:
    assert {each.over for each in HUNTS} == {"settings", "faults"}
    assert all(sum(each.outcomes.values()) > 10 for each in HUNTS)
    assert [says for each in HUNTS for says, case in each.found if case is None] == []


def test_what_nothing_explains_is_said(tmp_path) -> None:
    (tmp_path / "hunt").mkdir()
    (tmp_path / "hunt" / "settings.jsonl").write_text(
        '{"changes": [["no.such.setting", "1"]], "outcome": "deaf"}\n{"changes": [["a", "1"]], "outcome": "undone"}\n'
    )
    (found,) = hunted(tmp_path)
    assert found.outcomes == {"deaf": 1, "undone": 1} and found.found == [("`no.such.setting: 1`", None)]
    assert "`no.such.setting: 1`: not explained" in page([], [], [found])
