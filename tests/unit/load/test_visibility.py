"""The probes of visibility ask only what the replication type promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaos.load.config import VisibilityConfig
from chaos.load.visibility import Visibility


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
