"""A team's own searches: what a file may ask for, and how answers to them are judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from chaos.base.errors import InvalidInput
from chaos.history.format import Outcome
from chaos.load.outcomes import of_answer
from chaos.load.queries import Requests, read

ALL = '{"query": {"match_all": {}}}'


def written(folder: Path, *lines: str) -> Path:
    file = folder / "queries.ndjson"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_searches_are_sent_in_turn_and_each_by_itself(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        '{"index": "orders"}',
        ALL,
        "",
        '{"index": ["logs-2026", "logs-2025*"], "preference": "_local", "routing": "a b"}',
        ' {"size": 0} ',
    )
    made = read(file, ["orders", "logs-*"])
    assert [(each.method, each.path) for each in made] == [
        ("POST", "/orders/_search"),
        ("POST", "/logs-2026,logs-2025*/_search?routing=a+b&preference=_local"),
    ]
    requests = Requests(made)
    assert [requests.of("search", k).body for k in range(3)] == [ALL, '{"size": 0}', ALL]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (['{"index": "orders"}'], "1 lines: expected pairs"),
        ([], "0 lines: expected pairs"),
        (['{"index": "payments"}', ALL], ":1: the target's file does not allow to read payments"),
        (['{"index": "logs*"}', ALL], ":1: the target's file does not allow to read logs\\*"),
        (['{"index": "*"}', ALL], ":1: '\\*' is no name of an index"),
        (['{"index": "_all"}', ALL], ":1: '_all' is no name of an index"),
        (['{"index": "orders,-logs-1"}', ALL], ":1: '-logs-1' is no name of an index"),
        (['{"index": "other:orders"}', ALL], ":1: 'other:orders' is no name"),
        (['{"index": "orders/_doc/1"}', ALL], ":1: 'orders/_doc/1' is no name"),
        (['{"index": []}', ALL], ":1: '' is no name of an index"),
        (
            ['{"index": "orders"}', '{"query": {"terms": {"u": {"index": "people", "id": "1", "path": "u"}}}}'],
            ":2: .*people",
        ),
        (['{"index": "orders"}', '{"query": {"more_like_this": {"like": [{"_index": "people"}]}}}'], ":2: .*people"),
        (["{}", ALL], ":1: '' is no name of an index"),
        (['{"index": 3}', ALL], ":1: '3' is no name|does not allow to read 3"),
        (['{"index": "orders", "scroll": "1m"}', ALL], ":1: unknown key 'scroll'"),
        (['{"index": "orders"}', ALL, '{"index": "orders"}', "no"], ":4: this is no JSON object"),
        (['{"index": "orders"}', "[1]"], ":2: this is no JSON object"),
    ],
)
def test_what_may_not_be_asked_is_told_with_its_line(tmp_path: Path, lines: list[str], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        read(written(tmp_path, *lines), ["orders", "logs-*"])


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot read"):
        read(tmp_path / "none", ["orders"])


@given(some.text(max_size=12))
def test_whatever_stands_for_an_index_stays_within_what_is_allowed(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    file = written(tmp_path_factory.mktemp("q"), json.dumps({"index": name}), ALL)
    try:
        (made,) = read(file, ["orders", "logs-*"])
    except InvalidInput:
        return
    asked = made.path.removeprefix("/").removesuffix("/_search").split(",")
    assert all(each == "orders" or each.startswith("logs-") for each in asked)


WELL: dict[str, Any] = {
    "timed_out": False,
    "_shards": {"total": 3, "successful": 3, "failed": 0},
    "hits": {"hits": []},
}


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({}, Outcome.OK),
        ({"timed_out": True}, Outcome.PARTIAL),
        ({"_shards": {"total": 3, "successful": 2, "failed": 1}}, Outcome.PARTIAL),
        ({"_shards": {"total": 3, "successful": 2, "failed": 0}}, Outcome.PARTIAL),
        ({"hits": {}}, Outcome.GARBLED),
        ({"hits": None}, Outcome.GARBLED),
        ({"_shards": None}, Outcome.GARBLED),
    ],
)
def test_an_answer_needs_no_total_but_all_of_its_shards(change: dict[str, Any], outcome: Outcome) -> None:
    assert of_answer("query", 200, json.dumps(WELL | change)) is outcome
    assert of_answer("query", 503, "busy") is Outcome.SERVER_ERROR
