"""docs/claims.md has every claim of the sources, and no answer without a recorded run."""

from __future__ import annotations

import copy
from pathlib import Path

import claims
import pytest
import yaml
from claims import ClaimError

NUMBERS = {"ha": 20, "standby": 30, "graviton": 10, "admin": 19, "or1": 23, "segrep": 29, "ingest": 18}
"""Entries of each source, as it was read; 149 together."""
PREFIX = {"standby": "st", "graviton": "gr", "admin": "ad", "or1": "or", "segrep": "se", "ingest": "in"}


def test_the_committed_page_is_made_of_the_committed_answers_and_runs() -> None:
    assert claims.PAGE.read_text() == claims.page(claims.read()), "run: python benchmarks/claims.py"


def test_no_claim_is_missing() -> None:
    read = claims.read()["claims"]
    wanted = {source: [f"{PREFIX.get(source, source)}-{n + 1}" for n in range(NUMBERS[source])] for source in NUMBERS}
    assert {source: [claim["id"] for claim in each] for source, each in read.items()} == wanted
    assert sum(NUMBERS.values()) == 149


@pytest.mark.parametrize(
    ("id", "change", "says"),
    [
        ("ha-2", {"by": ["experiments/none.yaml"]}, "no such file"),
        ("ha-2", {"by": []}, "is said by runs"),
        ("ha-1", {"by": ["experiments/no-fault.yaml"]}, "is said by runs"),
        ("ha-2", {"by": ["tests/unit/test_claims.py"]}, "no run of it is recorded"),
        ("ha-2", {"answer": "plausible"}, "an answer is"),
        ("ha-2", {"because": ""}, "because of what"),
        ("ha-2", {"figure": "3"}, "an answer is"),
        ("ha-99", {"answer": "reproduced"}, "no such claim"),
        ("gr-2", {"answer": "cannot be shown here", "because": "x"}, "is no claim"),
    ],
)
def test_an_answer_without_what_it_needs_is_refused(
    tmp_path: Path, id: str, change: dict[str, object], says: str
) -> None:
    read = copy.deepcopy(yaml.safe_load(claims.CLAIMS.read_text()))
    read["answers"][id] = {**read["answers"].get(id, {}), **change}
    file = tmp_path / "claims.yaml"
    file.write_text(yaml.safe_dump(read))
    with pytest.raises(ClaimError, match=says):
        claims.page(claims.read(file))


def test_an_answer_may_rest_on_one_side_where_another_is_open() -> None:
    row = {"metric": "read.p99@steady", "decides": True}
    run = {"metrics": [{**row, "side": "two", "word": "open"}, {**row, "side": "four", "word": "better"}]}
    assert claims.decided(run) == {"read.p99@steady of four", "read.p99 of four"}


@pytest.mark.parametrize("outcome", ["inconclusive", "error", "aborted", "none"])
def test_a_run_that_decided_nothing_answers_nothing(monkeypatch: pytest.MonkeyPatch, outcome: str) -> None:
    what = "experiments/no-fault.yaml"
    monkeypatch.setattr(claims.results, "rows", lambda series: [{"what": what, "outcome": outcome, "ended": "t"}])
    with pytest.raises(ClaimError, match=f"ended with {outcome}"):
        claims.evidence(what)


@pytest.mark.parametrize(
    ("id", "change", "says"),
    [
        ("in-18", {"by": ["experiments/none.yaml"]}, "no such file"),
        ("in-18", {"by": ["experiments/no-fault.yaml"]}, "has no sides"),
        ("in-18", {"by": []}, "by which experiments"),
        ("in-18", {"rests": []}, "by which experiments"),
        (
            "in-18",
            {"rests": ["visible.p99"]},
            r"in-18 rests on visible\.p99: expected one of acknowledged\.lost, costs",
        ),
        ("in-18", {"answer": "reproduced"}, "by which experiments"),
        ("in-99", {}, "no such claim"),
        ("or-4", {}, "no such claim"),
        ("ha-2", {}, "ha-2 is answered"),
    ],
)
def test_what_is_asked_is_asked_by_sides_that_decide_it(
    tmp_path: Path, id: str, change: dict[str, object], says: str
) -> None:
    read = copy.deepcopy(yaml.safe_load(claims.CLAIMS.read_text()))
    read["answers"].pop("in-18", None)
    read["asked"][id] = {"by": ["experiments/ingestion/bulk-size.yaml"], "rests": ["costs.goodput"], **change}
    file = tmp_path / "claims.yaml"
    file.write_text(yaml.safe_dump(read))
    with pytest.raises(ClaimError, match=says):
        claims.read(file)


def test_what_is_asked_is_not_answered_and_its_experiments_name_it() -> None:
    """An answer comes with a recorded row, and not before."""
    read = claims.read()
    lines = {line.split(" | ")[0].lstrip("| "): line for line in claims.page(read).splitlines() if line[:2] == "| "}
    for id, asked in read["asked"].items():
        assert f"| {claims.NOT_YET} | asked by `{Path(asked['by'][0]).stem}`" in lines[id]
        for what in asked["by"]:
            assert id in yaml.safe_load((claims.ROOT / what).read_text())["description"], f"{what} names not {id}"


def counted(acted: int | None, named: int | None = None) -> dict[str, object]:
    told: dict[str, int] = {} if named is None else {"write": named}
    return {"acted": acted, "answered": {"write": named or 0}, "named": told}


@pytest.mark.parametrize(
    ("on", "off", "expected"),
    [
        ([counted(7, 3), counted(9, 1)], [counted(0), counted(0)], True),
        ([counted(7, 3), counted(0, 0)], [counted(0), counted(0)], False),
        ([counted(7, 3), counted(None, 2)], [counted(0), counted(0)], False),
        ([counted(7, 3), counted(9, 0)], [counted(0), counted(0)], False),
        ([counted(7, 3), counted(9)], [counted(0), counted(0)], False),
        ([counted(7, 3), counted(9, 1)], [counted(0), counted(2)], False),
        ([counted(7, 3), counted(9, 1)], [counted(0), counted(None)], False),
        ([], [counted(0)], False),
        ([counted(7, 3)], [], False),
    ],
)
def test_a_protection_acted_where_each_run_has_it_refuse_and_tell_and_no_run_without_it(
    on: list[object], off: list[object], expected: bool
) -> None:
    protection = {"on": "yes", "off": "no", "sides": {"yes": on, "no": off}}
    assert claims.acted(protection) is expected
    assert (claims.ACTED in claims.decided({"metrics": [], "protection": protection})) is expected


def test_without_a_protection_nothing_acted() -> None:
    assert claims.ACTED not in claims.decided({"metrics": []})
