"""The read-backs of several indices as one."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.observe.readback import compare
from chaos.observe.several import merged


def result(lost: list[str], *, complete: bool = True, seconds: float = 1.5, acknowledged: int = 10) -> dict[str, Any]:
    """What the read-back of one index says, as :func:`read_back` makes it of copies that could not be reached."""
    found = compare([], lost, 1, 1, destroyed=[0])
    reason = None if complete else "1 copies could not be read: gone"
    copies = [{"shard": 0, "node": "a-data", "read": complete, "docs": 9, "state": "STARTED"}]
    return {**found, "format": 1, "index": "x", "acknowledged": acknowledged, "seconds": seconds} | {
        "complete": complete,
        "reason": reason,
        "copies": copies,
    }


def test_counts_are_added_and_what_is_lost_anywhere_is_lost() -> None:
    one, other = result([]), result(["w-3", "w-8"], acknowledged=7)
    found = merged({"chaos": one, "chaos-events": other})
    assert found["lost_count"] == 2 and found["lost"] == ["w-3", "w-8"]
    assert found["acknowledged"] == 17 and found["complete"] is True and found["reason"] is None
    assert [(each["index"], each["node"]) for each in found["copies"]] == [
        ("chaos", "a-data"),
        ("chaos-events", "a-data"),
    ]
    assert found["seconds"] == 3.0 and found["index"] == "x" and found["format"] == 1
    assert found["indices"] == {"chaos": one, "chaos-events": other}


@pytest.mark.parametrize("place", [0, 1])
def test_what_one_lacks_is_lacking(place: int) -> None:
    both = [result([], complete=place != 0), result([], complete=place != 1)]
    found = merged(dict(zip(("chaos", "events"), both, strict=True)))
    assert found["complete"] is False
    assert found["reason"] == f"{('chaos', 'events')[place]}: 1 copies could not be read: gone"


def test_an_index_that_could_not_be_asked_about_leaves_all_open() -> None:
    nothing = {"format": 1, "complete": False, "reason": "LabError: no", "index": "y", "acknowledged": 5}
    for results in ({"a": result([]), "b": nothing}, {"b": nothing, "a": result([])}):
        found = merged(results)
        assert found["complete"] is False and found["reason"] == "b: LabError: no" and found["acknowledged"] == 15


def test_contents_are_those_of_all() -> None:
    one, other = result([]), result([])
    one["content"] = {**one["content"], "documents": 4, "of": 4, "indexed": 4, "copies": 1, "text": True}
    other["content"] = {**other["content"], "documents": 5, "of": 9, "indexed": 2, "copies": 1, "reason": "500"}
    other["content"]["text"] = False
    found = merged({"a": one, "b": other})["content"]
    assert (found["documents"], found["of"], found["indexed"], found["copies"]) == (9, 13, 6, 2)
    assert found["text"] is False and found["reason"] == "b: 500"


def test_of_documents_that_changed_in_any_of_them_all_count() -> None:
    """The first index may be one in which nothing changes."""
    counts = {"changes": 3, "updated": 2, "undecided": 0, "deleted": 1, "doubtful": 0}
    changed = {"returned": ["w-5"], "returned_count": 1, "outdated": [], "outdated_count": 0, "changes": counts}
    found = merged({"a": result([]), "b": result([]) | changed, "c": result([]) | changed | {"returned": ["w-9"]}})
    assert found["changes"] == {"changes": 6, "updated": 4, "undecided": 0, "deleted": 2, "doubtful": 0}
    assert found["returned"] == ["w-5", "w-9"] and found["returned_count"] == 2 and found["outdated"] == []


def test_what_is_of_the_first_index_alone_is_its_own() -> None:
    one, other = result([]), result([])
    one["cas"], one["watched"] = {"c-0": []}, {"count": 2, "absent": ["v-1"], "unknown": []}
    found = merged({"a": one, "b": other})
    assert found["cas"] == {"c-0": []} and found["watched"]["count"] == 2


@pytest.mark.parametrize("first", [False, True])
def test_stale_replicas_are_those_of_the_indices_that_copy_segments(first: bool) -> None:
    behind = {"shard": 0, "node": "b-data", "lacks": 2, "checkpoints": 1, "bytes": 900, "seconds": 61.0}
    copying = result([]) | {"replicas_count": 6, "stale": [behind], "stale_count": 1, "stale_after_s": 60.0}
    results = {"events": copying, "chaos": result([])} if first else {"chaos": result([]), "events": copying}
    found = merged(results)
    assert (found["replicas_count"], found["stale_count"], found["stale_after_s"]) == (6, 1, 60.0)
    assert found["stale"] == [{"index": "events", **behind}]
