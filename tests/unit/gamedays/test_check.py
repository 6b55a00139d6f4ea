"""Every gate of a day at once, as it is now; nothing is changed, recorded or told by it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from daykit import a_day
from documents import WithDocuments
from unit.gamedays import test_day as days
from unit.gamedays.test_day import Firing

from chaos.base.errors import Exit
from chaos.gamedays import check
from chaos.gamedays.board import LOCK, STOP, day_id, hold_id
from chaos.gamedays.gate import Gate

approved, cluster, firing = days.approved, days.cluster, days.firing


def looked(firing: Firing) -> tuple[dict[str, Gate], str | None, Exit]:
    """Gates that refuse, by name; what is said of a day that was held; the code."""
    before = dict(firing.cluster.documents)
    found, already = check.check(firing.day, firing.hands, lambda: firing.now, None)  # type: ignore[arg-type]
    assert firing.cluster.documents == before and firing.teller.told == [] and firing.hands.ran == []
    return {gate.name: gate for gate in found if not gate.ok}, already, check.code_of(found, already)


def test_a_day_that_would_be_held_passes_each(firing: Firing) -> None:
    found, already = check.check(firing.day, firing.hands, lambda: firing.now, None)  # type: ignore[arg-type]
    assert [gate for gate in found if not gate.ok] == [] and already is None
    names = {gate.name for gate in found}
    assert {"window", "stop file", "consent", "approval", "ladder", "health", "lock", "hold", "guard users"} <= names


def test_all_reasons_are_listed_at_once(firing: Firing) -> None:
    """Six refused firings, one reason each, before."""
    firing.now += timedelta(days=1)  # a Friday
    Path(firing.day.written.stop.file).touch()
    firing.cluster._keep(STOP, {"why": "no game day today please", "by": "ann"})
    firing.cluster._keep(LOCK, {"gameday": "other", "host": "h", "token": 1})
    del firing.cluster.documents["gameday-consent"]
    firing.hands.refused = [{"where": "phase dark", "what": "copies", "says": "none elsewhere"}]
    refused, already, code = looked(firing)
    assert {"window", "stop file", "stop", "lock", "consent", "plan"} <= {name.split(" ")[0] for name in refused} | set(
        refused
    ), refused
    assert already is None and code is Exit.USAGE


def test_what_only_a_person_opens_is_told_by_its_code(firing: Firing) -> None:
    firing.cluster._keep(hold_id("staging"), {"why": "dirty", "day": "2026-11-19"})
    refused, _, code = looked(firing)
    assert "on hold since the day of 2026-11-19: dirty" in refused["hold"].says and code is Exit.HELD


@pytest.mark.parametrize(("outcome", "code"), [("pass", Exit.PASS), ("aborted", Exit.HELD)])
def test_a_day_that_is_over_is_named(firing: Firing, outcome: str, code: Exit) -> None:
    over: Any = {"state": "over", "outcome": outcome, "host": "h"}
    firing.cluster._keep(day_id("staging", "2026-11-26"), over)
    refused, already, found = looked(firing)
    assert found is code
    assert (already is not None and "was held on h" in already) is (outcome == "pass")
    assert ("this day ended as aborted on h" in str(refused.get("hold"))) is (outcome == "aborted")


def test_a_cluster_that_is_silent_refuses_and_ends_nothing(firing: Firing, cluster: WithDocuments) -> None:
    cluster.lies = lambda method, path: (503, {})
    refused, _, code = looked(firing)
    assert refused and code is Exit.USAGE


@pytest.mark.parametrize(("frozen", "ok"), [("2026-11-28", True), ("2026-12-03", False)], ids=["before it", "in it"])
def test_calendars_are_asked_from_the_next_opening_on(firing: Firing, frozen: str, ok: bool) -> None:
    """As a firing then would ask them, and as `validate` does."""
    made = a_day(firing.folder / "frozen", window=days.OPEN, freezes=[{"yaml": "freezes.yaml"}])
    (made.folder / "freezes.yaml").write_text(f"freezes: [{{from: {frozen}, to: {frozen}, why: a sale}}]\n")
    firing.day = firing.hands.day = made
    firing.now += timedelta(days=1)  # a Friday; it opens next on Thursday, 2026-12-03
    found, _ = check.check(made, firing.hands, lambda: firing.now, None)  # type: ignore[arg-type]
    assert [gate.ok for gate in found if gate.name.startswith("freeze ")] == [ok], found
