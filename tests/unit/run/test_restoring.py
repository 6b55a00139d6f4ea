"""The read-back from the store: on whose clusters it is refused, and what of several indices it makes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from chaos.base.errors import InvalidInput, LabError
from chaos.definitions.experiment import Rolled
from chaos.observe.restored import Restored
from chaos.run import restoring
from chaos.targets.existing.target import ExistingTarget

DURABLE: Any = SimpleNamespace(durable=True, name="kept")


def lab(*, lease: bool) -> Any:
    return SimpleNamespace(id="play", manifest=SimpleNamespace(lease=lease))


def test_a_cluster_that_is_to_live_on_is_not_emptied() -> None:
    with pytest.raises(InvalidInput, match=r"kept is tagged durable.*lab 'play' is meant to live on"):
        restoring.refuse_others(DURABLE, lab(lease=True))
    with pytest.raises(InvalidInput, match="a cluster that exists is never emptied"):
        restoring.refuse_others(DURABLE, object.__new__(ExistingTarget))
    restoring.refuse_others(DURABLE, lab(lease=False))  # of a series: made for its runs
    restoring.refuse_others(DURABLE, None)
    restoring.refuse_others(SimpleNamespace(durable=False, name="x"), lab(lease=True))  # type: ignore[arg-type]


def index(name: str) -> Any:
    return SimpleNamespace(index=name, rolled=Rolled())


READ = {"complete": True, "reason": None, "acknowledged": 5, "lost_count": 0, "unavailable_count": 0, "copies": []}


def read(monkeypatch: pytest.MonkeyPatch, found: Restored, *indices: Any) -> dict[str, Any]:
    asked: list[list[str]] = []
    monkeypatch.setattr(restoring.restored, "restore", lambda lab, names, *_: asked.append(names) or found)
    result = restoring.read_back_from_store(
        lab(lease=False), indices, lambda each: {**READ, "index": each.index}, lambda says: None, lambda: False
    )
    assert asked == [[each.index for each in indices]]
    return result


def test_every_index_is_restored_and_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    result = read(monkeypatch, Restored(emptied=["a"], green_after_s=9.0), index("chaos"), index("chaos-logs"))
    assert result["complete"] and result["acknowledged"] == 10 and result["not_restored_count"] == 0
    assert result["restored"]["green_after_s"] == 9.0


def test_an_index_that_is_gone_is_lost_beside_one_that_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    result = read(monkeypatch, Restored(missing=["chaos-logs"]), index("chaos"), index("chaos-logs"))
    assert result["lost_count"] == 5 and not result["complete"]


def test_what_did_not_come_back_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    result = read(monkeypatch, Restored(reason="service store is gone"), index("chaos"))
    assert result["complete"] is False and result["reason"] == "service store is gone" and "lost_count" not in result


def test_a_name_whose_indices_cannot_be_told_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(lab: Any, name: str) -> list[str]:
        raise LabError("no node answers")

    monkeypatch.setattr(restoring.rollover, "indices", unknown)
    rolled: Any = SimpleNamespace(index="logs", rolled=SimpleNamespace(rolled="alias"))
    result = restoring.read_back_from_store(
        lab(lease=False), [rolled], lambda each: READ, lambda says: None, lambda: False
    )
    assert result["complete"] is False and "no node answers" in result["reason"]
