"""What protects from monitoring calls: pages that lose or repeat an index are found."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import admin_protections as module
import pytest

from chaos.base.errors import LabError

LASTING = {"a": 2, "b": 1}


class Pages:
    """One row a page; tokens that must be quoted. ``rows``: the indices of all rows, in their order."""

    def __init__(self, *rows: str) -> None:
        self.rows, self.asked = rows, 0

    def get(self, path: str) -> tuple[int, bytes]:
        self.asked += 1
        url = urlsplit(path)
        token = parse_qs(url.query).get("next_token", ["0+="])[0]
        assert token.endswith("+="), "as it was given"
        at = int(token[:-2])
        following = f"{at + 1}+=" if at + 1 < len(self.rows) else None
        table = url.path.rpartition("/")[2]
        return 200, json.dumps({"next_token": following, table: [{"index": self.rows[at]}]}).encode()

    def close(self) -> None:
        pass


def pages(monkeypatch: pytest.MonkeyPatch, indices: tuple[str, ...], shards: tuple[str, ...]) -> dict[str, Any]:
    class Both(Pages):
        def get(self, path: str) -> tuple[int, bytes]:
            self.rows = indices if "/indices" in path else shards
            return super().get(path)

    monkeypatch.setattr(module, "Asking", lambda lab, node: Both())
    monkeypatch.setattr(module, "churn", lambda lab, over, made: made.update(created=1))
    return module.pages(None, LASTING)  # type: ignore[arg-type]


def test_all_pages_are_walked() -> None:
    asking = Pages("a", "b", "c")
    assert module.walked(asking, "indices") == ["a", "b", "c"] and asking.asked == 3  # type: ignore[arg-type]


def test_a_page_that_is_refused_is_an_error() -> None:
    class Refused(Pages):
        def get(self, path: str) -> tuple[int, bytes]:
            return 400, b"size"

    with pytest.raises(LabError, match="answered 400"):
        module.walked(Refused(), "shards")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("indices", "shards", "wrong"),
    [
        (("a", "x", "b"), ("a", "a", "b", "x"), (0, 0)),
        (("a", "b", "b"), ("a", "b", "a"), (1, 0)),
        (("a", "x"), ("a", "b"), (1, 1)),
    ],
)
def test_an_index_that_stayed_and_is_missing_or_there_twice_is_wrong(
    monkeypatch: pytest.MonkeyPatch, indices: tuple[str, ...], shards: tuple[str, ...], wrong: tuple[int, int]
) -> None:
    found = pages(monkeypatch, indices, shards)
    assert (found["wrong_indices"], found["wrong_shards"]) == (module.WALKS * wrong[0], module.WALKS * wrong[1])
    assert found["created"] == 1 and found["walks"] == module.WALKS
