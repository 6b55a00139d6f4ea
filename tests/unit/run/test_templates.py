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
    monkeypatch: pytest.MonkeyPatch, *, new: dict[str, Any] | None = None, old: dict[str, Any] | None = None
) -> str | None:
    metadata: dict[str, Any] = {"index_template": {"index_template": new}} if new else {}
    metadata |= {"templates": old} if old else {}
    answer = {"metadata": metadata} if metadata else {}
    monkeypatch.setattr(on_target, "administer", lambda *_, **__: (200, answer))
    rows = on_target.refused_templates(None, INDEX, "oschaos-")  # type: ignore[arg-type]
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
