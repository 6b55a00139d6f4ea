"""The read-back of documents that were updated and deleted: exactly the states that are allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_copy import Document, FakeCopy

from chaos.history.changes import Changes
from chaos.history.format import Action
from chaos.load.workloads.documents import WORKLOAD
from chaos.observe import readback
from chaos.observe.changed import Changed, Held, of_held
from chaos.observe.contents import Wanted
from chaos.observe.idsets import Ids
from chaos.observe.readback import Asked, CopyRead, compare
from chaos.observe.written import Writes, Written, _documents

UPDATE, DELETE = Action.UPDATE, Action.DELETE
CHANGES = Changes.of(
    (10, 0, UPDATE),  # acknowledged
    (11, 1, UPDATE),  # acknowledged, and then again
    (20, 1, UPDATE),
    (12, 2, DELETE),  # acknowledged
    (13, 3, UPDATE),  # no clear answer
    (21, 4, UPDATE),  # acknowledged; the delete after it has no clear answer
    (22, 4, DELETE),
    (14, 5, UPDATE),  # refused for sure
    (23, 6, DELETE),  # refused for sure
    (24, 7, UPDATE),  # acknowledged by what came after it: its outcome was not written down
    (25, 7, UPDATE),
)
ACKNOWLEDGED = np.array([*range(10), 10, 11, 12, 20, 21, 25])
REFUSED = np.array([14, 23])
OPEN = np.array([13, 22, 24])


def fates() -> Written:
    held = Held.of(CHANGES, ACKNOWLEDGED, REFUSED)
    writes = _documents(Writes(ACKNOWLEDGED, REFUSED, OPEN), held)
    ids = [Ids({"w": each}) for each in (*writes, held.deleted, held.doubtful)]
    return Written(ids[0], ids[1], ids[2], Ids(), ids[3], ids[4], held)


def test_the_fate_of_a_document_follows_from_its_last_change() -> None:
    written = fates()
    assert list(written.acknowledged) == ["w-0", "w-1", "w-3", "w-5", "w-6", "w-7", "w-8", "w-9"]
    assert list(written.deleted) == ["w-2"] and list(written.doubtful) == ["w-4"]
    assert not written.open and not written.refused  # items that changed a document made none of their own
    held = written.held
    assert held is not None
    assert held.content(np.arange(10)).tolist() == [10, 20, 2, 3, 21, 5, 6, 25, 8, 9]
    assert (held.undecided.tolist(), held.before.tolist(), held.after.tolist()) == ([3], [3], [13])
    assert held.counts() == {"changes": 11, "updated": 3, "undecided": 1, "deleted": 1, "doubtful": 1}


def document(id: str, content: str) -> Document:
    made = Document.of(content)
    made.id = id
    return made


RIGHT = {"w-0": 10, "w-1": 20, "w-3": 3, "w-4": 21, "w-5": 5, "w-6": 6, "w-7": 25, "w-8": 8, "w-9": 9}


def read(contents: dict[str, int], node: str = "a-data") -> CopyRead:
    written = fates()
    copy = FakeCopy([document(id, f"w-{content}") for id, content in contents.items()], node=node)
    ours = written.acknowledged | written.doubtful
    workload = of_held(WORKLOAD, written.held)
    return readback._read_copy(copy, copy.copy, Asked(workload, {0: Wanted(ours, ours)}, 0))  # type: ignore[arg-type]


def judged(*contents: dict[str, int]) -> dict[str, Any]:
    written = fates()
    reads = [read(each, node) for each, node in zip(contents, ("a-data", "b-data"), strict=False)]
    assert all(each.error is None and each.inside.error is None for each in reads)
    return compare(reads, written.acknowledged, 1, 1, fates=written)


def faults(found: dict[str, Any]) -> dict[str, int]:
    named = ("lost", "diverged", "wrong_content", "returned", "outdated", "unexpected", "resurrected", "recovered")
    return {name: found[f"{name}_count"] for name in named if found[f"{name}_count"]}


@pytest.mark.parametrize(
    "state",
    [
        RIGHT,
        RIGHT | {"w-3": 13},  # the update without an answer was done
        {id: n for id, n in RIGHT.items() if id != "w-4"},  # the delete without an answer was done
    ],
)
def test_every_state_that_the_answers_allow_is_right(state: dict[str, int]) -> None:
    found = judged(state, state)
    assert faults(found) == {} and found["content"]["reason"] is None
    assert found["content"]["documents"] == found["content"]["of"] == len(state)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"w-0": 0}, {"wrong_content": 1, "outdated": 1}),  # its one update is lost
        ({"w-1": 11}, {"wrong_content": 1, "outdated": 1}),  # its last one is
        ({"w-1": 1}, {"wrong_content": 1, "outdated": 1}),
        ({"w-7": 24}, {"wrong_content": 1, "outdated": 1}),
        ({"w-5": 14}, {"wrong_content": 1}),  # an update of which no node has heard
        ({"w-0": 20}, {"wrong_content": 1}),  # the update of another document
        ({"w-2": 2}, {"returned": 1}),  # deleted, and back
        ({"w-3": 10}, {"wrong_content": 1}),  # neither before nor after
        ({"w-4": 4}, {"wrong_content": 1, "outdated": 1}),  # there, as it was before its acknowledged update
        ({"w-13": 13}, {"unexpected": 1}),  # an update made a document of its own
        ({"w-8": 9}, {"wrong_content": 1}),  # never changed
    ],
)
def test_every_other_state_is_found_on_one_copy_and_on_all(change: dict[str, int], wanted: dict[str, int]) -> None:
    assert faults(judged(RIGHT | change, RIGHT | change)) == wanted
    one = faults(judged(RIGHT, RIGHT | change))
    assert {name: one[name] for name in wanted} == wanted


@pytest.mark.parametrize("gone", ["w-0", "w-3", "w-5", "w-6", "w-8"])
def test_what_was_changed_and_not_deleted_must_be_there(gone: str) -> None:
    state = {id: n for id, n in RIGHT.items() if id != gone}
    found = judged(state, state)
    assert faults(found) == {"lost": 1} and found["lost"] == [gone]


def test_copies_must_agree_on_an_update_without_an_answer() -> None:
    found = judged(RIGHT, RIGHT | {"w-3": 13})
    assert faults(found) == {"diverged": 1}
    assert [each["holds"] for each in found["diverged"][0]["values"]] == ["w-3", "w-13"]


def test_source_words_and_doc_values_must_be_of_one_content() -> None:
    written = fates()
    for part in ("source", "words"):
        copy = FakeCopy([document(id, f"w-{content}") for id, content in RIGHT.items()])
        setattr(copy["w-3"], part, getattr(Document.of("w-13"), part))
        workload = of_held(WORKLOAD, written.held)
        wanted = Wanted(written.acknowledged, written.acknowledged)
        found = readback._read_copy(copy, copy.copy, Asked(workload, {0: wanted}, 0))  # type: ignore[arg-type]
        assert set(found.inside.wrong) == {"w-3"}, part


def test_columns_say_what_single_documents_say() -> None:
    held = fates().held
    assert held is not None
    it = Changed(WORKLOAD, held)
    it.settle("w-3", WORKLOAD.numbers("w-13"))
    numbers = np.arange(10)
    columns = it.columns("w", numbers, WORKLOAD.fields)
    for row, n in enumerate(numbers.tolist()):
        assert {name: columns[name][row] for name in WORKLOAD.fields} == it.numbers(f"w-{n}")
    assert it.numbers("w-3") == WORKLOAD.numbers("w-13") and it.numbers("p-3") == WORKLOAD.numbers("p-3")
    assert it.apart().numbers("w-3") == WORKLOAD.numbers("w-3")  # another copy may hold the other


def test_a_load_that_changes_nothing_is_read_back_as_ever(tmp_path: Path) -> None:
    assert len(Changes.read(tmp_path / "changes.bin")) == 0
    assert of_held(WORKLOAD, None) is WORKLOAD
    assert not {"returned_count", "outdated_count", "changes"} & set(compare([], Ids(), 1, 1, fates=Written()))
