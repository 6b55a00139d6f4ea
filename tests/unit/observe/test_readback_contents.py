"""What the read-back says of the inside of documents: each of the three places where one lives, changed alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fake_copy import Document, FakeCopy
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.load.workloads.documents import WORDS, WORKLOAD, cas_source, source
from chaos.observe import contents, readback
from chaos.observe.contents import WAYS, chosen, differs, drawn, same
from chaos.observe.readback import CopyRead, compare
from chaos.opensearch.routing import shard_of

IDS = [*(f"w-{n}" for n in range(40)), *(f"p-{n}" for n in range(20)), "v-3", "c-0", "c-1"]


def read(copy: FakeCopy, ids: list[str] = IDS, seed: int = 0) -> CopyRead:
    return readback._read_copy(copy, copy.copy, WORKLOAD, set(ids), seed)  # type: ignore[arg-type]


def test_a_right_copy_is_right_in_every_document() -> None:
    found = read(FakeCopy.of(IDS))
    assert found.error is None and found.inside.error is None and found.inside.wrong == {}
    assert found.inside.compared == set(IDS) == found.ids
    assert found.inside.phrases == len(IDS) - 2  # keys have no text


def test_every_word_is_a_term_of_its_own_and_has_its_place() -> None:
    """Terms between two neighbours are no words of ours: that needs their order."""
    assert list(WORDS) == sorted(set(WORDS)) and all(word.isalpha() and word.islower() for word in WORDS)


# ---- one of three places, changed alone ------------------------------------------------------------------------


def _a_letter(document: Document) -> None:
    text = document.source["text"]
    document.source["text"] = text[:5] + chr((ord(text[5]) - 96) % 26 + 97) + text[6:]


def _a_number_as_text(document: Document) -> None:
    document.source["group"] = str(document.source["group"])


def _a_number_with_a_point(document: Document) -> None:
    document.source["seq"] = float(document.source["seq"])


def _a_field_more(document: Document) -> None:
    document.source["more"] = 1


def _a_field_less(document: Document) -> None:
    del document.source["check"]


def _no_source(document: Document) -> None:
    document.source = None  # type: ignore[assignment]


def _a_word_less(document: Document) -> None:
    document.words = [word for word in document.words if word != document.words[0]]


def _a_word_more(document: Document) -> None:
    document.words.append(next(word for word in WORDS if word not in document.words))


def _a_word_that_nobody_knows(document: Document) -> None:
    document.words.append("willox")


def _a_word_before_all_others(document: Document) -> None:
    document.words.append("aaa")


def _words_in_another_order(document: Document) -> None:
    document.words.reverse()


def _not_found_by_its_id(document: Document) -> None:
    document.by_id = False


def _another(name: str) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        document.points[name] += 1

    change.__name__ = f"_indexed_under_another_{name}"
    return change


def _no_point(document: Document) -> None:
    del document.points["seq"]


def _another_value(document: Document) -> None:
    document.values["check"] ^= 1


def _no_value(document: Document) -> None:
    del document.values["group"]


CHANGES: list[tuple[str, Callable[[Document], None], str]] = [
    ("source", _a_letter, "text: expected"),
    ("source", _a_number_as_text, 'found "'),
    ("source", _a_number_with_a_point, "found 5.0"),
    ("source", _a_field_more, "more fields than expected"),
    ("source", _a_field_less, "found nothing"),
    ("source", _no_source, "expected a document, found null"),
    ("index", _a_word_less, "not found by"),
    ("index", _a_word_more, "which it does not have"),
    ("index", _a_word_that_nobody_knows, "found by a word that no text has"),
    ("index", _a_word_before_all_others, "found by a word that no text has"),
    ("index", _words_in_another_order, "not found by its whole text"),
    ("index", _not_found_by_its_id, "not found by its id"),
    *[("index", _another(name), f" {name} ") for name in WORKLOAD.fields],
    ("index", _no_point, "not found by seq 5"),
    ("doc_values", _another_value, "check: expected"),
    ("doc_values", _no_value, "group: expected 5, found nothing"),
]


@pytest.mark.parametrize(("way", "change", "says"), CHANGES, ids=[change.__name__ for _, change, _ in CHANGES])
def test_what_is_changed_in_one_place_is_wrong_there_alone(
    way: str, change: Callable[[Document], None], says: str
) -> None:
    copy = FakeCopy.of(IDS)
    change(copy["w-5"])
    found = read(copy)
    assert found.error is None and found.inside.error is None
    assert {id: list(ways) for id, ways in found.inside.wrong.items()} == {"w-5": [way]}
    assert says in found.inside.wrong["w-5"][way]


def test_two_numbers_that_make_up_for_each_other_are_overlooked_until_one_more_is_wrong() -> None:
    """What the module says that it does not see: as many documents are found by each set of numbers as must be."""
    copy = FakeCopy.of(IDS)
    copy["w-5"].points["seq"], copy["w-6"].points["seq"] = 6, 5
    assert read(copy).inside.wrong == {}
    copy["w-9"].points["seq"] = 6  # in the place of a document of another set
    assert {"w-5", "w-6", "w-9"} <= set(read(copy).inside.wrong)


def test_a_document_that_nobody_wrote_spoils_nobody_elses_content() -> None:
    copy = FakeCopy.of([*IDS, "w-999"])
    alien = Document.of("w-1")
    alien.id, alien.values = "someone-elses", {"seq": 7}
    copy.documents.append(alien)
    found = read(copy)
    assert set(found.inside.wrong) - {"someone-elses", "w-999"} == set()
    assert found.inside.compared == set(IDS)


# ---- keys of compare-and-set -----------------------------------------------------------------------------------


def key(value: int) -> FakeCopy:
    copy = FakeCopy.of(IDS)
    copy.documents = [each for each in copy.documents if each.id != "c-0"] + [Document.of("c-0", value)]
    return copy


def test_a_key_is_held_against_the_value_that_it_has() -> None:
    found = read(key(77))
    assert found.inside.wrong == {} and found.keys["c-0"][0] == 77


def test_a_key_whose_source_is_of_another_value_is_wrong_in_its_source() -> None:
    copy = key(77)
    copy["c-0"].source = cas_source("c-0", 76)
    assert {id: list(ways) for id, ways in read(copy).inside.wrong.items()} == {"c-0": ["source"]}


@pytest.mark.parametrize("name", ["seq", "check"])
def test_a_key_with_another_doc_value_is_wrong_in_its_doc_values_alone(name: str) -> None:
    copy = key(77)
    copy["c-0"].values[name] += 1
    wrong = read(copy).inside.wrong
    assert {id: list(ways) for id, ways in wrong.items()} == {"c-0": ["doc_values"]}
    assert f"{name}: expected" in wrong["c-0"]["doc_values"]


# ---- what could not be compared --------------------------------------------------------------------------------


@pytest.mark.parametrize("search", [2, 3, 4, 8])
def test_a_copy_that_stops_answering_keeps_what_was_found_and_says_that_there_is_no_more(search: int) -> None:
    copy = FakeCopy.of(IDS, fails=search)
    copy["w-5"].values["check"] ^= 1
    found = read(copy)
    assert found.error is None and found.ids == set(IDS)  # nothing is lost for want of sources
    assert "status 503" in (found.inside.error or "")
    assert "w-5" in found.inside.wrong
    content = compare([found], IDS, 1, 1024)["content"]
    assert content["reason"].startswith("1 of 1 copies, the first shard 0 on a-data: status 503")


def test_documents_that_do_not_come_again_with_their_source_are_missed() -> None:
    copy = FakeCopy.of(IDS)
    answer = copy.request

    def forgets(method: str, path: str, *, body: Any) -> tuple[int, Any]:
        status, found = answer(method, path, body=body)
        if body.get("_source"):
            found["hits"]["hits"] = found["hits"]["hits"][1:]
        return status, found

    copy.request = forgets  # type: ignore[method-assign]
    assert "1 documents did not come again" in (read(copy).inside.error or "")


def test_a_write_that_comes_while_a_copy_is_read_is_left_alone() -> None:
    """It had been on its way since the fault: nobody was told that it is there."""
    late, copy = IDS[-1], FakeCopy.of(IDS[:-1])
    answer = copy.request

    def comes(method: str, path: str, *, body: Any) -> tuple[int, Any]:
        if body.get("_source") and len(copy.documents) < len(IDS):
            copy.documents.append(Document.of(late))
        return answer(method, path, body=body)

    copy.request = comes  # type: ignore[method-assign]
    inside = read(copy).inside
    assert inside.error is None and inside.compared == set(IDS[:-1]) and inside.wrong == {}


def test_an_odd_answer_is_no_traceback() -> None:
    copy = FakeCopy.of(IDS)
    answer = copy.request
    for odd in ({"hits": {"total": 3}}, None, "text"):

        def broken(method: str, path: str, *, body: Any, odd: Any = odd) -> tuple[int, Any]:
            status, found = answer(method, path, body=body)
            return (status, odd) if body["size"] == 0 else (status, found)

        copy.request = broken  # type: ignore[method-assign]
        assert read(copy).inside.error


# ---- samples ---------------------------------------------------------------------------------------------------


def test_of_too_many_documents_a_seeded_sample_is_compared_the_same_on_every_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contents, "WHOLE", 10)
    wanted = chosen(IDS, 2, 1024, 7)
    assert [len(ids) for ids in wanted.values()] == [10, 10]
    assert all(shard_of(id, 2, 1024) == shard for shard, ids in wanted.items() for id in ids)
    assert {"c-0", "c-1"} <= set().union(*wanted.values())
    assert wanted == chosen(list(reversed(IDS)), 2, 1024, 7) != chosen(IDS, 2, 1024, 8)
    monkeypatch.setattr(contents, "WHOLE", 1000)
    assert set().union(*chosen(IDS, 2, 1024, 7).values()) == set(IDS)


def test_a_sample_is_looked_into_and_no_document_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "PAGE", 4)
    sample = drawn(IDS, 7, 10)
    copy = FakeCopy.of(IDS)
    missed = next(id for id in IDS if id not in sample)
    for id in (missed, sample[-1]):
        copy[id].source["text"] = "another"
    copy[missed].values["check"] ^= 1
    found = read(copy, sample)
    assert found.inside.compared == set(sample)
    assert {id: list(ways) for id, ways in found.inside.wrong.items()} == {
        sample[-1]: ["source"],
        missed: ["doc_values"],  # those are compared in all
    }
    content = compare([found], IDS, 1, 1024, seed=7)["content"]
    assert (content["documents"], content["of"], content["seed"]) == (10, len(IDS), 7)


@given(st.sets(st.sampled_from(IDS)), st.integers(0, 2**40), st.integers(1, 60))
@settings(max_examples=50, deadline=None)
def test_a_sample_follows_from_ids_and_seed_alone(ids: set[str], seed: int, most: int) -> None:
    sample = drawn(sorted(ids), seed, most)
    assert set(sample) <= ids and len(sample) == min(most, len(ids))
    assert set(sample) == set(drawn(sorted(ids, reverse=True), seed, most))


# ---- values ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "found"),
    [(5, 5.0), (1, True), (0, False), ({"a": 1}, {"a": 1, "b": 2}), ({"a": 1}, {}), ("x", None), ({"a": 1}, [1])],
)
def test_values_of_another_type_or_shape_are_not_the_same(right: Any, found: Any) -> None:
    assert not same(right, found) and not same(found, right) and same(right, right)


def test_of_a_long_text_what_differs_is_shown() -> None:
    right = source("w-5")
    text = right["text"]
    at = len(text) - 3
    said = differs(right, {**right, "text": text[:at] + "#" + text[at + 1 :]})
    assert said.startswith("text: expected …") and "#" in said and len(said) < 140


def test_every_way_is_counted_in_the_record() -> None:
    found = compare([CopyRead(FakeCopy([]).copy)], set(), 1, 1024)
    assert all(found[f"wrong_{way}"] == [] and found[f"wrong_{way}_count"] == 0 for way in WAYS)
