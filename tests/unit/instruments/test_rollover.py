"""Rollovers by the suite: what fails is tried again, what was done without an answer is not done twice."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_rolled import RolledCluster

from chaos.base.units import Duration
from chaos.definitions.experiment import Load, LoadIndex, Rollover
from chaos.faults.moves import Move
from chaos.instruments import rollover as module
from chaos.instruments.rollover import DONE, FILE, GIVEN_UP, INSTRUMENT, Rolling


@pytest.fixture
def cluster() -> Any:
    made = RolledCluster()
    named = {"name": "chaos", "kind": "data_stream", "owner": "0wner", "timestamp": "@timestamp"}
    Move("rolled.create", {**named, "settings": {}, "mapping": {}}).apply(made)  # type: ignore[arg-type]
    return made


def rolling(cluster: Any, folder: Path, **when: Any) -> Rolling:
    return Rolling(cluster, {"chaos": Rollover(**when)}, folder / FILE, lambda says: None)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / FILE).read_text().splitlines()]


def once(cluster: Any, folder: Path, documents: int | None = None) -> list[dict[str, Any]]:
    made = rolling(cluster, folder, every=Duration(900))
    made.start()
    made.roll("chaos", documents)
    made.stop()
    return lines(folder)


def test_one_is_written_down_with_the_new_index(cluster: Any, tmp_path: Path) -> None:
    (line,) = once(cluster, tmp_path)
    assert line["kind"] == DONE and line["name"] == "chaos" and line["tries"] == 1 and line["because"] is None
    assert (line["old"], line["index"]) == (".ds-chaos-000001", ".ds-chaos-000002")
    assert line["asked"] <= line["t"]


def test_what_fails_is_tried_again(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.01)
    cluster.refuse = 2
    (line,) = once(cluster, tmp_path)
    assert line["kind"] == DONE and line["tries"] == 3 and "answered 503" in line["because"]
    assert cluster.streams["chaos"] == [".ds-chaos-000001", ".ds-chaos-000002"]


def test_what_was_done_and_not_answered_is_not_done_twice(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.01)
    cluster.lose = 1
    (line,) = once(cluster, tmp_path)
    assert line["index"] == ".ds-chaos-000002" and line["tries"] == 2 and "read timed out" in line["because"]
    assert cluster.streams["chaos"] == [".ds-chaos-000001", ".ds-chaos-000002"]


def test_with_too_few_documents_nothing_is_said(cluster: Any, tmp_path: Path) -> None:
    assert once(cluster, tmp_path, 10) == []
    assert cluster.streams["chaos"] == [".ds-chaos-000001"]


def test_it_comes_as_often_as_was_asked_until_the_undo(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rolling(cluster, tmp_path, every=Duration(0.05))
    made.start()
    deadline = time.monotonic() + 10
    while len(cluster.streams["chaos"]) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    made.stop()
    number = len(cluster.streams["chaos"])
    assert number >= 4 and len([line for line in lines(tmp_path) if line["kind"] == DONE]) == number - 1
    time.sleep(0.2)
    assert len(cluster.streams["chaos"]) == number


def test_one_that_never_comes_is_given_up_with_the_load(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.01)
    cluster.refuse = 10**6
    made = rolling(cluster, tmp_path, every=Duration(0.01))
    made.start()
    deadline = time.monotonic() + 10
    while not cluster.bodies[2:] and time.monotonic() < deadline:
        time.sleep(0.01)
    made.stop()
    (line,) = lines(tmp_path)
    assert line["kind"] == GIVEN_UP and "index" not in line and "503" in line["because"]


def test_what_is_answered_after_the_end_is_not_written_into_a_sealed_record(cluster: Any, tmp_path: Path) -> None:
    made = rolling(cluster, tmp_path, every=Duration(900))
    made.start()
    made.stop(patient=False)
    made.stop()
    made._write(DONE, name="chaos")
    assert lines(tmp_path) == []


def test_it_watches_the_names_that_are_to_be_rolled_over(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    load = Load(
        data_stream="@timestamp",
        indices=(
            LoadIndex(name="a", workload="search", alias=True, rollover=Rollover(documents=5)),
            LoadIndex(name="b", workload="search"),
        ),
    )
    context: Any = SimpleNamespace(
        experiment=SimpleNamespace(load=load), indices=("chaos", "chaos-a", "chaos-b"), existing=None, lab=None
    )
    context.folder, context.broken = tmp_path, print
    observer = INSTRUMENT.observe(context)
    assert isinstance(observer, Rolling) and list(observer._names) == ["chaos-a"]
    context.experiment.load = Load()
    context.indices = ("chaos",)
    assert INSTRUMENT.observe(context) is None
