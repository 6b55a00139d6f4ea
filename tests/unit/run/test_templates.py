"""Which templates of others would catch an index of ours."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.base.errors import LabError
from chaos.run import on_target

INDEX = "oschaos-0000-load"
SETTINGS = {"template": {"settings": {"index": {"refresh_interval": "7s"}}}}


def new(*patterns: str, **more: Any) -> dict[str, Any]:
    return {"index_patterns": list(patterns), **more}


def refused(
    monkeypatch: pytest.MonkeyPatch,
    *,
    new: dict[str, Any] | None = None,
    old: dict[str, Any] | None = None,
    index: str = INDEX,
) -> str | None:
    metadata: dict[str, Any] = {"index_template": {"index_template": new}} if new else {}
    metadata |= {"templates": old} if old else {}
    answer = {"metadata": metadata} if metadata else {}
    monkeypatch.setattr(on_target, "administer", lambda *_, **__: (200, answer))
    rows = on_target.refused_templates(None, index, "oschaos-")  # type: ignore[arg-type]
    return rows[0].says.partition(": ")[2] if rows else None


def test_what_catches_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(monkeypatch) is None
    assert refused(monkeypatch, new={"orders": new("orders-*", **SETTINGS), "one": new("oschaos-*-store")}) is None
    assert refused(monkeypatch, new={"all": new("logs-*", "os*load", **SETTINGS)}) == "all"
    assert refused(monkeypatch, new={"parts": new("*", composed_of=["defaults"])}) == "parts"
    assert refused(monkeypatch, new={"streams": new("*", data_stream={"timestamp_field": {}})}) == "streams"
    assert refused(monkeypatch, old={"all": new("*"), "orders": new("orders-*"), "a": new("oschaos-*")}) == "a, all"


def test_an_empty_one_keeps_the_others_away(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, old = new("oschaos-*", priority=7, composed_of=[], template={"settings": {}}), {"all": new("*")}
    assert refused(monkeypatch, new={"ours": ours}, old=old) is None
    assert refused(monkeypatch, new={"ours": ours, "all": new("*", priority=1, **SETTINGS)}) is None
    assert refused(monkeypatch, new={"ours": ours, "all": new("*", priority=9, **SETTINGS)}) == "all"


def test_what_cannot_be_known_is_no_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    for status, answer in ((403, {}), (200, {"metadata": {"templates": {"all": {}}}})):
        monkeypatch.setattr(on_target, "administer", lambda *_, said=(status, answer), **__: said)
        with pytest.raises(LabError):
            on_target.refused_templates(None, INDEX, "oschaos-")  # type: ignore[arg-type]


def test_what_could_catch_the_name_of_a_run_that_has_none_yet_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As found: runs were asked about as ``oschaos-0000-load``, and ``oschaos-c*`` caught one in sixteen of them."""
    index = on_target.any_index("oschaos-")

    def could(*patterns: str, **more: Any) -> str | None:
        return refused(monkeypatch, new={"theirs": new(*patterns, **SETTINGS, **more)}, index=index)

    for caught in ("oschaos-c*", "oschaos-*f-load", "*-load", "oschaos-*ab*", f"oschaos-{'0f' * 8}-load", "o*c*l*d"):
        assert could(caught) == "theirs", caught
    for past in ("oschaos-c", "oschaos-g*", "oschaos-c*-store", "oschaos-*xyz*", f"oschaos-{'0' * 15}-load", "c*"):
        assert could(past) is None, past


def test_an_empty_one_that_catches_some_runs_keeps_the_others_away_from_those_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index, theirs = on_target.any_index("oschaos-"), new("oschaos-*", priority=1, **SETTINGS)
    some, every = new("oschaos-c*", priority=9), new("oschaos-*-load", priority=9)
    assert refused(monkeypatch, new={"some": some, "theirs": theirs}, index=index) == "theirs"
    assert refused(monkeypatch, new={"every": every, "theirs": theirs}, index=index) is None
    assert refused(monkeypatch, new={"some": some}, old={"old": new("*")}, index=index) == "old"


def test_the_name_of_a_run_has_no_sixteen_bits() -> None:
    digits = on_target.any_index("oschaos-").count(on_target.DIGIT)
    assert digits * 4 >= 64 and on_target.any_index("oschaos-") == f"oschaos-{on_target.DIGIT * digits}-load"
