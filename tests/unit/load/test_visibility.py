"""The probes of visibility ask only what the replication type promises."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.load.config import VisibilityConfig
from chaos.load.visibility import Looked, Visibility


class Right:
    """Nothing is wrong with an answer."""

    def document(self, *_: Any) -> str:
        return ""


@pytest.mark.parametrize(("primary_gets", "local"), [(False, True), (True, False)])
def test_a_get_has_a_preference_only_where_it_is_realtime_all_the_same(
    tmp_path: Path, primary_gets: bool, local: bool
) -> None:
    """With segment replication one with a preference is answered from the segments that a replica has copied."""
    asked: list[str] = []

    def send(method: str, path: str, **_: Any) -> tuple[int, str]:
        asked.append(path)
        return 200, '{"_index": "chaos", "_id": "v-3", "found": true, "_source": {}}'

    config = VisibilityConfig(rate=1, primary_gets=primary_gets)
    probes: Any = Visibility(
        config,
        None,  # type: ignore[arg-type]
        index="chaos",
        alias=None,
        out=tmp_path,
        zones=["a"],
        nodes=[("a-data", "a")],
        sender=None,  # type: ignore[arg-type]
        direct=None,  # type: ignore[arg-type]
        timeout_s=1.0,
        seed=1,
        broken=lambda says: None,
        judge=Right(),  # type: ignore[arg-type]
        known=None,  # type: ignore[arg-type]
        told=None,  # type: ignore[arg-type]
    )
    where = {"n": 3, "node": "a-data", "zone": "a"}
    assert probes._get(send, where, only_found=False) is True
    assert ("preference=_local" in asked[0]) is local and asked[0].startswith("/chaos/_doc/v-3?")


def test_what_is_usual_stands_in_no_plan() -> None:
    assert "primary_gets" not in VisibilityConfig(rate=1).model_dump(mode="json")
    assert VisibilityConfig(rate=1, primary_gets=True).model_dump(mode="json")["primary_gets"] is True


def test_a_node_that_answers_without_a_document_and_then_no_more_is_silent_from_then_on() -> None:
    """It is killed before it has refreshed, and has the document when it is back."""
    start = time.monotonic_ns()
    answers = [Looked(start, 0), Looked(start + 1, None), Looked(start + 2, None), Looked(start + 3, 1)]
    noted: list[tuple[str, dict[str, Any]]] = []
    probe: Any = SimpleNamespace(
        _within_s=30, closed=False, given_up=False, note=lambda kind, **fields: noted.append((kind, fields))
    )
    rounds: Any = SimpleNamespace(look=lambda id: answers.pop(0))
    Visibility._search(probe, rounds, None, {"n": 1, "node": "c-data", "zone": "c"})  # type: ignore[arg-type]
    ((kind, fields),) = noted
    assert (kind, fields["missed"], fields["silent"]) == ("seen", start, start + 2)
