"""What the read-back says of the inside of documents: each of the three places where one lives, changed alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import urllib3
from fake_copy import Document, FakeCopy
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.load.workload import Workload
from chaos.load.workloads.documents import WORDS, WORKLOAD, Documents, cas_source, source
from chaos.observe import contents, readback
from chaos.observe.contents import WAYS, Wanted, chosen, differs, same
from chaos.observe.copies import Page
from chaos.observe.idsets import Ids
from chaos.observe.readback import Asked, CopyRead, compare
from chaos.observe.written import Written
from chaos.opensearch.routing import shard_of

IDS = [*(f"w-{n}" for n in range(40)), *(f"p-{n}" for n in range(20)), "v-3", "c-0", "c-1"]


@pytest.fixture(params=[False, True], ids=["one after the other", "at once"])
def at_once(request: pytest.FixtureRequest) -> bool:
    """Whether sources are read together with doc values."""
    return bool(request.param)


def read(copy: FakeCopy, ids: list[str] = IDS, seed: int = 0, *, at_once: bool = False) -> CopyRead:
    wanted = Wanted(Ids.of(ids), Ids.of(ids))
    return readback._read_copy(copy, copy.copy, Asked(WORKLOAD, {0: wanted}, seed, at_once=at_once))  # type: ignore[arg-type]


def test_a_right_copy_is_right_in_every_document(at_once: bool) -> None:
    found = read(FakeCopy.of(IDS), at_once=at_once)
    assert found.error is None and found.inside.error is None and found.inside.wrong == {}
    assert found.inside.compared == set(IDS) == found.ids
    assert found.inside.phrases == len(IDS) - 2  # keys have no text


def test_every_word_is_a_term_of_its_own_and_has_its_place() -> None:
    """Terms between two neighbours are no words of ours: that needs their order."""
    assert list(WORDS) == sorted(set(WORDS)) and all(word.isalpha() and word.islower() for word in WORDS)


# ---- all documents, page by page ---------------------------------------------------------------------------------


def listed(copy: FakeCopy, acknowledged: list[str], window: int, *, at_once: bool) -> CopyRead:
    """A copy as it was read in pages of so many documents."""
    mine = Ids.of(acknowledged)
    asked = Asked(WORKLOAD, {0: Wanted(mine)}, 0, window, at_once=at_once, acknowledged=lambda shard: mine)
    return readback._read_copy(copy, copy.copy, asked)  # type: ignore[arg-type]


def test_documents_of_others_are_all_listed_though_none_has_our_numbers(at_once: bool) -> None:
    """They have the same place in the order of value and unique number, and more of them than a page has room for."""
    ours, theirs = [f"w-{n}" for n in range(5)], [f"x-{n}" for n in range(9)]
    copy = FakeCopy([*map(Document.of, ours), *map(Document.of_others, theirs)])
    read = listed(copy, ours, 4, at_once=at_once)
    assert read.error is None and read.ids == {*ours, *theirs}
    found = compare([read], ours, 1, 1024, fates=Written(acknowledged=set(ours)))  # type: ignore[arg-type]
    assert [found[f"{name}_count"] for name in ("unexpected", "strangers", "duplicated", "lost")] == [9, 9, 0, 0]


def test_a_document_whose_content_another_has_before_it_at_a_pages_end_is_there(at_once: bool) -> None:
    ours = [f"w-{n}" for n in range(5)]
    again = Document.of("w-2")
    again.id = "w-2-again"
    copy = FakeCopy([again, *map(Document.of, ours)])
    read = listed(copy, ours, 3, at_once=at_once)
    assert read.ids == {*ours, "w-2-again"} and read.surplus == 0
    assert not [body for body in copy.asked if "ids" in body.get("query", {}) and body.get("docvalue_fields")]
    assert compare([read], ours, 1, 1024)["lost"] == []


def test_a_document_that_was_not_listed_is_asked_for_by_its_id_before_it_is_lost(at_once: bool) -> None:
    """Its copy counts more documents than it lists; of what it holds all is judged, as of the others."""
    ours = [f"w-{n}" for n in range(6)]
    copy = FakeCopy.of([*ours[:4], ours[5]])
    copy["w-3"].listed = False
    copy["w-3"].values["check"] ^= 1
    read = listed(copy, ours, 2, at_once=at_once)
    assert read.error is None and read.surplus == 0 and read.inside.error is None
    assert set(read.inside.wrong) == {"w-3"} and read.inside.compared == set(ours) - {"w-4"}
    assert compare([read], ours, 1, 1024)["lost"] == ["w-4"]
    assert [body["query"] for body in copy.asked if "query" in body and body.get("docvalue_fields")] == [
        {"ids": {"values": ["w-3", "w-4"]}}
    ]


def test_where_all_that_a_copy_counts_was_listed_nothing_is_asked_for_by_its_id() -> None:
    copy = FakeCopy.of(["w-0", "w-2"])
    assert listed(copy, ["w-0", "w-1", "w-2"], 2, at_once=False).ids == {"w-0", "w-2"}
    assert not [body for body in copy.asked if "query" in body and body.get("docvalue_fields")]


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
    way: str, change: Callable[[Document], None], says: str, at_once: bool
) -> None:
    copy = FakeCopy.of(IDS)
    change(copy["w-5"])
    found = read(copy, at_once=at_once)
    assert found.error is None and found.inside.error is None
    assert {id: list(ways) for id, ways in found.inside.wrong.items()} == {"w-5": [way]}
    assert says in found.inside.wrong["w-5"][way]


def test_two_numbers_that_make_up_for_each_other_are_overlooked_until_one_more_is_wrong(at_once: bool) -> None:
    """What the module says that it does not see: as many documents are found by each set of numbers as must be."""
    copy = FakeCopy.of(IDS)
    copy["w-5"].points["seq"], copy["w-6"].points["seq"] = 6, 5
    assert read(copy, at_once=at_once).inside.wrong == {}
    copy["w-9"].points["seq"] = 6  # in the place of a document of another set
    assert {"w-5", "w-6", "w-9"} <= set(read(copy, at_once=at_once).inside.wrong)


def test_a_document_that_the_load_did_not_write_spoils_no_other_content(at_once: bool) -> None:
    copy = FakeCopy.of([*IDS, "w-999"])
    alien = Document.of("w-1")
    alien.id, alien.values = "someone-elses", {"seq": 7}
    copy.documents.append(alien)
    found = read(copy, at_once=at_once)
    assert set(found.inside.wrong) - {"someone-elses", "w-999"} == set()
    assert found.inside.compared == set(IDS)


# ---- keys of compare-and-set -----------------------------------------------------------------------------------


def key(value: int) -> FakeCopy:
    copy = FakeCopy.of(IDS)
    copy.documents = [each for each in copy.documents if each.id != "c-0"] + [Document.of("c-0", value)]
    return copy


def test_a_key_is_held_against_the_value_that_it_has(at_once: bool) -> None:
    found = read(key(77), at_once=at_once)
    assert found.inside.wrong == {} and found.keys["c-0"][0] == 77


def test_a_key_whose_source_is_of_another_value_is_wrong_in_its_source(at_once: bool) -> None:
    copy = key(77)
    copy["c-0"].source = cas_source("c-0", 76)
    assert {id: list(ways) for id, ways in read(copy, at_once=at_once).inside.wrong.items()} == {"c-0": ["source"]}


@pytest.mark.parametrize("name", ["seq", "check"])
def test_a_key_with_another_doc_value_is_wrong_in_its_doc_values_alone(name: str, at_once: bool) -> None:
    copy = key(77)
    copy["c-0"].values[name] += 1
    wrong = read(copy, at_once=at_once).inside.wrong
    assert {id: list(ways) for id, ways in wrong.items()} == {"c-0": ["doc_values"]}
    assert f"{name}: expected" in wrong["c-0"]["doc_values"]


# ---- what could not be compared --------------------------------------------------------------------------------


@pytest.mark.parametrize("search", [2, 3, 4, 8])
def test_a_copy_that_stops_answering_keeps_what_was_found_and_says_that_there_is_no_more(
    search: int, at_once: bool
) -> None:
    copy = FakeCopy.of(IDS, fails=search)
    copy["w-5"].values["check"] ^= 1
    found = read(copy, at_once=at_once)
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


def test_sources_that_are_wanted_of_all_documents_come_with_their_doc_values_and_not_again() -> None:
    copy = FakeCopy.of(IDS)
    assert read(copy, at_once=True).inside.compared == set(IDS)
    assert [bool(body.get("docvalue_fields")) for body in copy.asked if body.get("_source")] == [True]
    copy = FakeCopy.of(IDS)
    read(copy)
    assert [bool(body.get("docvalue_fields")) for body in copy.asked if body.get("_source")] == [False]


def test_where_sources_cannot_be_had_with_doc_values_ids_are_read_all_the_same() -> None:
    copy = FakeCopy.of(IDS)
    answer = copy.request

    def without(method: str, path: str, *, body: Any) -> tuple[int, Any]:
        return (500, {"error": "no"}) if body.get("_source") else answer(method, path, body=body)

    copy.request = without  # type: ignore[method-assign]
    found = read(copy, at_once=True)
    assert found.error is None and found.ids == set(IDS)
    assert "status 500" in (found.inside.error or "") and found.inside.compared == set()


def test_a_node_without_an_answer_is_not_asked_in_another_way() -> None:
    copy = FakeCopy.of(IDS)
    asked: list[Any] = []

    def silent(method: str, path: str, *, body: Any) -> tuple[int, bytes]:
        asked.append(body)
        raise urllib3.exceptions.HTTPError("timed out")

    copy.fetch = silent  # type: ignore[method-assign]
    assert read(copy, at_once=True).error == "timed out" and len(asked) == 1


def test_an_odd_answer_is_no_traceback(at_once: bool) -> None:
    copy = FakeCopy.of(IDS)
    answer = copy.request
    for odd in ({"hits": {"total": 3}}, None, "text"):

        def broken(method: str, path: str, *, body: Any, odd: Any = odd) -> tuple[int, Any]:
            status, found = answer(method, path, body=body)
            return (status, odd) if body["size"] == 0 else (status, found)

        copy.request = broken  # type: ignore[method-assign]
        assert read(copy, at_once=at_once).inside.error


def test_documents_that_are_there_more_than_once_are_counted_so_and_not_looked_for_one_by_one(at_once: bool) -> None:
    copy = FakeCopy.of(IDS)
    read(copy, at_once=at_once)
    usual = len(copy.asked)
    copy = FakeCopy.of([*IDS, "w-3", "w-3", "w-5"])
    found = read(copy, at_once=at_once)
    assert found.twice == {"w-3", "w-5"} and found.inside.wrong == {}
    assert len(copy.asked) == usual

    copy.documents[-1].points["seq"] += 1
    assert {"index"} == set(read(copy, at_once=at_once).inside.wrong["w-5"])


# ---- samples ---------------------------------------------------------------------------------------------------


def test_of_too_many_documents_a_seeded_sample_is_compared_the_same_on_every_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contents, "SOURCES", 40)
    monkeypatch.setattr(contents, "WHOLE", 10)
    wanted = chosen(Ids.of(IDS), 2, 1024, 7)
    assert [(len(each.sources), len(each.indexed)) for each in wanted.values()] == [(20, 10), (20, 10)]
    assert all(shard_of(id, 2, 1024) == shard for shard, (source, _) in wanted.items() for id in source)
    assert all(each.indexed <= each.sources for each in wanted.values())
    assert {"c-0", "c-1"} <= set().union(*(each.indexed for each in wanted.values()))
    assert wanted == chosen(Ids.of(reversed(IDS)), 2, 1024, 7) != chosen(Ids.of(IDS), 2, 1024, 8)
    monkeypatch.setattr(contents, "SOURCES", 1000)
    whole = chosen(Ids.of(IDS), 2, 1024, 7)
    assert set().union(*(each.sources for each in whole.values())) == set(IDS)
    assert [len(each.indexed) for each in whole.values()] == [10, 10]
    monkeypatch.setattr(contents, "WHOLE", 1000)
    assert all(each.indexed == each.sources for each in chosen(Ids.of(IDS), 2, 1024, 7).values())


@pytest.mark.parametrize("most", [10, 40])  # by their ids, and by reading all of the copy
def test_a_sample_is_looked_into_and_no_document_more(
    monkeypatch: pytest.MonkeyPatch, most: int, at_once: bool
) -> None:
    monkeypatch.setattr(contents, "PAGE", 4)
    every = Ids.of(IDS)
    sample = every.drawn(7, most)
    copy = FakeCopy.of(IDS)
    missed, seen = (every - sample).first(1)[0], (sample - every.only("c")).first(1)[0]
    for id in (missed, seen):
        copy[id].source["text"] = "another"
    copy[missed].values["check"] ^= 1
    found = read(copy, list(sample), at_once=at_once)
    assert found.inside.compared == found.inside.indexed == sample
    assert {id: list(ways) for id, ways in found.inside.wrong.items()} == {
        seen: ["source"],
        missed: ["doc_values"],  # those are compared in all
    }
    content = compare([found], IDS, 1, 1024, seed=7)["content"]
    assert (content["documents"], content["indexed"], content["of"], content["seed"]) == (most, most, len(IDS), 7)


@pytest.mark.parametrize("most", [10, 40])
def test_sources_are_compared_of_more_documents_than_the_index(
    monkeypatch: pytest.MonkeyPatch, most: int, at_once: bool
) -> None:
    monkeypatch.setattr(contents, "PAGE", 4)
    every = Ids.of(IDS)
    sample = every.drawn(7, most)
    copy = FakeCopy.of(IDS)
    inside, outside = (sample - every.only("c")).first(1)[0], (every - sample).first(1)[0]
    for id in (inside, outside):
        copy[id].source["text"] = "another"
        copy[id].words = ["amber"]
    found = readback._read_copy(copy, copy.copy, Asked(WORKLOAD, {0: Wanted(every, sample)}, 7, at_once=at_once))  # type: ignore[arg-type]
    assert found.inside.compared == every and found.inside.indexed == sample and found.inside.error is None
    assert set(found.inside.wrong[outside]) == {"source"} and set(found.inside.wrong[inside]) == {"source", "index"}
    assert set(found.inside.wrong) == {inside, outside}
    content = compare([found], IDS, 1, 1024, seed=7)["content"]
    assert (content["documents"], content["indexed"], content["of"]) == (len(IDS), most, len(IDS))


def test_numbers_are_held_against_all_documents_of_a_copy_where_the_index_of_some_is_compared(at_once: bool) -> None:
    """A document outside the sample that is found by a number of one inside is seen."""
    every = Ids.of(IDS)
    sample = every.drawn(7, 10)
    outside = (every - sample).only("w").first(1)[0]
    copy = FakeCopy.of([*IDS, "someone-elses-1"][: len(IDS)])
    copy[outside].points["group"] = WORKLOAD.numbers(sample.only("wp").first(1)[0])["group"]
    found = readback._read_copy(copy, copy.copy, Asked(WORKLOAD, {0: Wanted(every, sample)}, 7, at_once=at_once))  # type: ignore[arg-type]
    assert set(found.inside.wrong) == {outside}
    assert "found by another group than its own" in found.inside.wrong[outside]["index"]


def test_what_is_wrong_with_too_many_documents_is_counted_and_told_of_some(
    monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    monkeypatch.setattr(contents, "TOLD", 5)
    copy = FakeCopy.of(IDS)
    for document in copy.documents:
        document.values["check"] ^= 1
    found = read(copy, at_once=at_once)
    assert found.inside.wrong_in("doc_values") == set(IDS)
    assert {id for id in found.inside.wrong} >= {"c-0", "c-1"} and len(found.inside.wrong) <= 5 + 2
    result = compare([found], IDS, 1, 1024)
    assert result["wrong_doc_values_count"] == result["wrong_content_count"] == len(IDS)
    says = [item["says"] for item in result["wrong_doc_values"]]
    assert sum("check: expected" in each for each in says) == len(found.inside.wrong) and len(says) == len(IDS)


def test_copies_share_what_was_made_of_an_answer_only_where_they_give_the_same(
    monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    """Each is judged by what it holds, also where the others have been judged before."""
    monkeypatch.setattr(contents, "PAGE", 7)
    monkeypatch.setattr(contents, "WHOLE", 5)
    monkeypatch.setattr(readback, "KEPT", 1000)
    whole, lacks, differs_, wrong = (FakeCopy.of(IDS) for _ in range(4))
    lacks.documents.remove(lacks["w-9"])
    differs_["w-30"].values["check"] ^= 1
    unseen = (Ids.of(IDS) - chosen(Ids.of(IDS), 1, 1024, 1)[0].indexed).only("w").first(1)[0]
    wrong[unseen].source["text"] = "another"
    made: list[str] = []

    class Noted(readback.Listed):
        def __init__(self, workload: Workload, found: Page) -> None:
            made.append(repr(found))
            super().__init__(workload, found)

    monkeypatch.setattr(readback, "Listed", Noted)
    asked = Asked(WORKLOAD, chosen(Ids.of(IDS), 1, 1024, 1), 1, window=7, at_once=at_once)
    reads = [readback._read_copy(copy, copy.copy, asked) for copy in (whole, lacks, differs_, wrong, whole)]  # type: ignore[arg-type]
    assert all(found.error is None and found.inside.error is None for found in reads)
    assert [found.ids for found in reads] == [set(IDS), set(IDS) - {"w-9"}, *[set(IDS)] * 3]
    assert [set(found.inside.wrong) for found in reads] == [set(), set(), {"w-30"}, {unseen}, set()]
    assert [len(found.inside.compared) for found in reads] == [len(IDS), len(IDS) - 1, *[len(IDS)] * 3]
    assert len(made) == len(set(made)) < 5 * (len(IDS) // 7 + 1)


# ---- pages compared as arrays, and one by one -----------------------------------------------------------------


class Alone(Documents):
    """The same documents, said one by one."""

    columns = Workload.columns


@given(
    st.lists(st.tuples(st.integers(0, len(IDS) - 1), st.integers(0, 8)), max_size=6),
)
@settings(max_examples=60, deadline=None)
def test_documents_of_a_page_are_judged_as_each_alone_is(changes: list[tuple[int, int]]) -> None:
    """Whatever a doc value is: another number, of another type, none, several, or of an id that is none of ours."""
    kinds: list[Callable[[Document], None]] = [
        lambda each: each.values.update(check=each.values.get("check", 0) ^ 1),
        lambda each: each.values.update(group=float(was) if isinstance(was := each.values.get("group"), int) else 0.5),
        lambda each: each.values.update(group=True),
        lambda each: each.values.update(group=2**70),
        lambda each: each.values.update(group=None),
        lambda each: each.values.update(group=str(each.values.get("group"))),
        lambda each: each.values.pop("group", None),
        lambda each: each.values.update(group=[1, 2]),
        lambda each: setattr(each, "id", f"{each.id}-stranger"),
    ]
    copy = FakeCopy.of(IDS)
    for place, kind in changes:
        kinds[kind](copy.documents[place])
    alone = contents.Contents(WORKLOAD)
    for document in copy.documents:
        alone.numbers(document.id, {name: [value] for name, value in document.values.items()})
    for workload in (WORKLOAD, Alone()):
        found = readback._read_copy(copy, copy.copy, Asked(workload))  # type: ignore[arg-type]
        assert found.error is None and found.ids == {document.id for document in copy.documents}
        assert found.inside.wrong == alone.wrong and found.inside.values == alone.values


class Rows(Documents):
    """Documents without a text: a float, a list and a keyword beside the numbers."""

    name = "rows"
    mapping: ClassVar[dict[str, Any]] = {"dynamic": "strict", "properties": {}}
    fields = ("seq", "check", "ratio", "host")
    text = None  # type: ignore[assignment]
    words = ()

    def numbers(self, doc_id: str, value: int = 0) -> dict[str, Any]:
        each = super().numbers(doc_id, value)
        return {"seq": each["seq"], "check": each["check"], "ratio": each["group"] / 4, "host": f"h{each['group']}"}

    def content(self, doc_id: str, value: int = 0) -> dict[str, Any]:
        return {**self.numbers(doc_id, value), "tags": [1, True, {"a": 2.0}, None]}

    columns = Workload.columns


def rows() -> FakeCopy:
    copy = FakeCopy([])
    for id in IDS:
        source = Rows().content(id)
        numbers = Rows().numbers(id)
        copy.documents.append(Document(id, source, [], dict(numbers), dict(numbers)))
    return copy


def test_a_workload_without_a_text_is_compared_in_the_rest_and_says_so() -> None:
    copy = rows()
    asked = Asked(Rows(), {0: Wanted(Ids.of(IDS), Ids.of(IDS))})
    found = readback._read_copy(copy, copy.copy, asked)  # type: ignore[arg-type]
    assert found.inside.error is None and found.inside.wrong == {} and found.inside.compared == set(IDS)
    assert not any("should" in str(each.get("query")) for each in copy.asked) and found.inside.phrases == 0
    content = compare([found], IDS, 1, 1024)["content"]
    assert content["text"] is False and content["documents"] == content["indexed"] == len(IDS)

    copy["w-5"].source["tags"][0] = 1.0  # a list is held against a list, value by value
    copy["w-6"].source["tags"][2]["a"] = 2
    copy["w-7"].values["ratio"] += 0.25
    copy["w-8"].values["host"] = "another"
    copy["w-9"].points["seq"] += 100
    copy["w-10"].by_id = False
    found = readback._read_copy(copy, copy.copy, asked)  # type: ignore[arg-type]
    assert {id: list(ways) for id, ways in found.inside.wrong.items()} == {
        "w-5": ["source"],
        "w-6": ["source"],
        "w-7": ["doc_values"],
        "w-8": ["doc_values"],
        "w-9": ["index"],
        "w-10": ["index"],
    }


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
