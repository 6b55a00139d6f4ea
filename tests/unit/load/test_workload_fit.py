"""A workload on which the read-back could not rest is refused before anything starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from chaos.base.errors import InvalidInput
from chaos.load import workloads
from chaos.load.workloads.documents import MAPPING, WORDS, Documents


def changed(**more: Any) -> Documents:
    return type("Theirs", (Documents,), {"name": "theirs", **more})()  # type: ignore[no-any-return]


def numbers(change: Callable[[dict[str, int], str], dict[str, int]]) -> dict[str, Any]:
    """The same documents with other numbers."""

    def theirs(self: Documents, doc_id: str, value: int = 0) -> dict[str, int]:
        return change(Documents.numbers(self, doc_id, value), doc_id)

    def content(self: Documents, doc_id: str, value: int = 0) -> dict[str, Any]:
        return Documents.content(self, doc_id, value) | self.numbers(doc_id, value)

    return {"numbers": theirs, "content": content}


def columns(change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Any:
    """The same documents, said otherwise for many at once than for each."""

    def theirs(self: Documents, *given: Any) -> dict[str, npt.NDArray[Any]]:
        found = Documents.columns(self, *given)
        return {**found, "seq": change(found["seq"])}

    return theirs


def failing(self: Documents, doc_id: str, value: int = 0) -> dict[str, Any]:
    raise KeyError(doc_id)


@pytest.mark.parametrize("name", workloads.every())
def test_what_comes_with_this_package_is_fit(name: str) -> None:
    workloads.named(name).refuse_unfit()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"words": WORDS[::-1]}, "order of the alphabet"),
        ({"words": (*WORDS, WORDS[-1])}, "each once"),
        ({"words": ("Amber", *WORDS[1:])}, "small letters"),
        ({"words": tuple(sorted(f"{a}{b}" for a in WORDS for b in WORDS))}, "576 words"),
        ({"words": WORDS[1:]}, "has other words than its words"),
        ({"mapping": {**MAPPING, "dynamic": True}}, "not strict"),
        ({"fields": ("seq", "group", "checked")}, "not all in its mapping"),
        ({"unique": "text"}, "none of its fields"),
        (numbers(lambda found, _: found | {"check": found["check"] % 7}), "is to be unique"),
        (numbers(lambda found, id: found | ({"seq": 1} if id.startswith("c-") else {})), "says 1 in seq"),
        ({"columns": columns(lambda found: found + 1)}, "its columns say another seq of the documents p-0 to p-49"),
        ({"columns": columns(lambda found: found.astype(np.float64))}, "its columns say another seq"),
        ({"numbers": Documents.numbers, "content": failing}, "its documents cannot be made: KeyError"),
    ],
)
def test_a_workload_on_which_the_read_back_could_not_rest_is_refused(more: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match="the workload 'theirs'") as caught:
        changed(**more).refuse_unfit()
    assert says in str(caught.value)
