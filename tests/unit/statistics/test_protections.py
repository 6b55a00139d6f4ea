"""Does a protection protect? All words on made-up sides, and everything that must not be taken for protecting."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from pages import Page

from chaos.base.errors import InvalidInput
from chaos.checks import instruments
from chaos.definitions import vary
from chaos.report.sides import OF_PROTECTION, sides_page
from chaos.statistics.protections import HURTS, INERT, OPEN, PROTECTS, WITHOUT, Asked, of_run
from chaos.statistics.sides import Sides, SidesFile, compare_sides
from chaos.statistics.store import Group
from tests.unit.statistics.test_compare import group, share

COUNTER = "indexing_pressure.rejected"
GIVEN = {
    "counter": COUNTER,
    "provoked": ["stuck"],
    "answers": {"write": "429"},
    "protects": ["read.good"],
}
ASKED = Asked.of(GIVEN)
BAD, WELL = [0.50, 0.51, 0.52, 0.53, 0.54], [0.990, 0.991, 0.992, 0.993, 0.994]


def table(
    acted: int | None,
    *,
    before: int | None = 0,
    last: int | None = 0,
    answered: int | None = None,
    named: int | None = None,
    tries: int | None = None,
    **end: Any,
) -> dict[str, Any]:
    """``tables.protections`` of one run."""
    answers = {"429": {"write": acted if answered is None else answered}} if acted else {}
    values = {"healthy": before, "stuck": acted, "returned": 0, "after": last}
    phases = {name: {"metrics": {COUNTER: {"value": value, "bound": "exact"}}} for name, value in values.items()}
    phases["stuck"]["metrics"][COUNTER]["answers"] = answers  # type: ignore[assignment]
    if named is not None:
        told = {"429": {"write": named}} if named else {}
        phases["stuck"]["metrics"][COUNTER]["named"] = told  # type: ignore[assignment]
    if tries is not None:
        phases["stuck"]["metrics"][COUNTER]["tries"] = {"429": {"write": tries}} if tries else {}  # type: ignore[assignment]
    return {"phases": phases, "end": {"held": {}, "unheard": []} | end}


def side(label: str, good: Sequence[float], *tables: dict[str, Any] | None) -> Group:
    every = tables * len(good) if len(tables) == 1 else tables
    return group({"read.good@stuck": [share(value) for value in good]}, label, protections=tuple(every))


def compared(*groups: Group, **given: Any) -> Sides:
    names = [each.label for each in groups]
    file = SidesFile(
        experiment="indexing-pressure",
        times=5,
        first_seed=1,
        hashes={name: name for name in names},
        changes={name: {} for name in names},
        differences={name: ["a setting"] for name in names[1:]},
        decide=("read.good@stuck",),
        protection=GIVEN | given,
    )
    return compare_sides(groups, file)


def word(*groups: Group, **given: Any) -> tuple[str, str]:
    found = compared(*groups, **given).protection
    assert found is not None
    return found.word, "; ".join(found.why)


OFF = side("off", BAD, table(0))


def test_it_protects_where_it_acted_on_that_side_alone_helped_others_and_let_go() -> None:
    said, why = word(OFF, side("on", WELL, table(70)))
    assert said == PROTECTS
    assert why == "it acted in all 5 runs; read.good@stuck is better than off; it let go"


def test_it_acts_without_protecting_where_others_are_no_better_off() -> None:
    alike = [0.99] * 5
    said, why = word(side("off", alike, table(0)), side("on", alike, table(70)))
    assert said == WITHOUT and "no better than off" in why


@pytest.mark.parametrize(
    ("on", "why"),
    [
        pytest.param(side("on", [0.1, 0.11, 0.12, 0.13, 0.14], table(70)), "worse than off", id="others are worse"),
        pytest.param(side("on", WELL, table(70, before=2)), "before it was provoked", id="refuses what is usual"),
        pytest.param(side("on", WELL, table(70, last=1)), "in the last phase", id="does not let go"),
        pytest.param(
            side("on", WELL, table(70, held={"a-data": {"indexing_pressure.bytes": 9}})), "still hold", id="holds"
        ),
    ],
)
def test_it_hurts_where_it_refuses_what_need_not_be_refused(on: Group, why: str) -> None:
    said, says = word(OFF, on)
    assert said == HURTS and why in says


def test_it_is_inert_where_its_counter_never_grew_whatever_became_of_others() -> None:
    assert word(OFF, side("on", WELL, table(0))) == (INERT, "its counter grew in none of 5 runs")
    assert word(OFF, side("on", BAD, table(0)))[0] == INERT


@pytest.mark.parametrize(
    ("off", "on", "why"),
    [
        pytest.param(side("off", BAD, table(3)), side("on", WELL, table(70)), "another reason", id="off counts too"),
        pytest.param(
            side("off", BAD, *[table(0)] * 4, table(0, last=1)),
            side("on", WELL, table(70)),
            "in 1 of 5 runs of off too",
            id="off counts once, elsewhere",
        ),
        pytest.param(
            OFF, side("on", WELL, table(70, answered=0)), "no write was answered 429", id="clients see nothing of it"
        ),
        pytest.param(
            OFF, side("on", WELL, *[table(70, named=9)] * 4, table(70, named=0)), "something else refused it", id="told"
        ),
        pytest.param(
            OFF, side("on", WELL, *[table(70)] * 4, table(0)), "grew in 4 of 5 runs alone", id="not in all runs"
        ),
        pytest.param(OFF, side("on", WELL, *[table(70)] * 4, table(None)), "too little is known", id="unknown on"),
        pytest.param(side("off", BAD, *[table(0)] * 4, None), side("on", WELL, table(70)), "of off too", id="no table"),
        pytest.param(OFF, side("on", WELL, table(70, last=None)), "in the last phase", id="unknown at last"),
        pytest.param(OFF, side("on", WELL, table(70, unheard=["a-cm"])), "what nodes hold", id="unheard"),
        pytest.param(OFF, side("on", WELL[:2], table(70)), "read.good@stuck is open", id="too few runs"),
        pytest.param(OFF, side("on", [], table(70)), "no run that counts", id="no run"),
    ],
)
def test_what_is_not_known_or_grows_for_another_reason_is_open(off: Group, on: Group, why: str) -> None:
    said, says = word(off, on)
    assert said == OPEN and why in says


def test_what_was_not_measured_is_open_and_no_protection() -> None:
    said, says = word(OFF, side("on", WELL, table(70)), protects=["note.good"])
    assert said == OPEN and "note.good@stuck was not measured" in says


def test_off_never_counts_as_protecting() -> None:
    """Sides the wrong way round: what is off acts not, so whatever it does for others is not its doing."""
    said, _ = word(side("on", BAD, table(70)), side("off", WELL, table(0)))
    assert said == OPEN
    assert word(side("first", BAD, table(0)), side("second", WELL, table(0)))[0] == INERT


def test_the_error_that_clients_were_told_is_asked_where_it_was_kept() -> None:
    assert word(OFF, side("on", WELL, table(70, named=70)))[0] == PROTECTS
    assert word(OFF, side("on", WELL, table(70)))[0] == PROTECTS, "a run of before kept none"
    assert of_run(table(70), ASKED).named == {} and of_run(table(70, named=0), ASKED).named == {"write": 0}


def test_clients_that_send_again_until_they_are_taken_hide_no_refusal() -> None:
    assert word(OFF, side("on", WELL, table(70, answered=0, tries=12, named=12)))[0] == PROTECTS
    said, why = word(OFF, side("on", WELL, table(70, answered=0, tries=0, named=0)))
    assert said == OPEN and "no write was answered 429" in why
    said, why = word(OFF, side("on", WELL, table(70, answered=0, tries=12, named=0)))
    assert said == OPEN and "something else refused it" in why
    monitoring = side("monitoring", WELL, table(60, answered=0, tries=3))
    found = compared(OFF, monitoring, side("on", WELL, table(70))).protection
    assert found is not None and found.monitors == "clients were refused in 5 of 5 runs although it only monitors"
    assert of_run(table(70, answered=9, tries=4), ASKED).answered == {"write": 9}, "an arrival is a try"


def test_a_counter_that_clients_see_nothing_of_needs_no_answer() -> None:
    assert word(OFF, side("on", WELL, table(70, answered=0)), answers={})[0] == PROTECTS


@pytest.mark.parametrize(
    ("monitoring", "says"),
    [
        (table(60, answered=0), "counted in 5 of 5 runs, and refused no client"),
        (table(60), "clients were refused in 5 of 5 runs although it only monitors"),
        (table(0), "counted in 0 of 5 runs, and refused no client"),
        (table(None), "too little is known of it"),
    ],
)
def test_a_side_that_monitors_is_told_apart_and_gets_no_word(monitoring: dict[str, Any], says: str) -> None:
    found = compared(OFF, side("monitoring", WELL, monitoring), side("on", WELL, table(70))).protection
    assert found is not None and found.word == PROTECTS and found.monitors == says
    assert (found.off, found.on) == ("off", "on")


def test_what_was_seen_stands_where_other_phases_are_not_known() -> None:
    assert of_run(table(None, before=2), ASKED).ever == 2
    assert of_run(table(0, last=None), ASKED).ever is None
    assert of_run(None, ASKED).acted is None
    first = Asked.of(GIVEN | {"provoked": ["healthy"]})
    assert of_run(table(0), first).before == 0


def test_page_json_and_markdown_say_the_same(tmp_path: Path) -> None:
    found = compared(OFF, side("on", WELL, table(70)))
    data = json.loads(json.dumps(found.to_json()))["protection"]
    assert (data["word"], data["on"], data["sides"]["on"][0]["acted"]) == (PROTECTS, "on", 70)
    assert "indexing_pressure.rejected: side on protects: it acted in all 5 runs" in found.markdown()
    words = Page(sides_page(found, tmp_path / "compare.html").read_text()).words
    assert "Does the protection protect?" in words and "70; 70; 70; 70; 70" in words
    bare = compare_sides((OFF, side("on", WELL, table(70))), SidesFile("x", 5, 1, {"off": "", "on": ""}, {}, {}))
    assert "protection" not in bare.to_json() and bare.protection is None
    assert "Does the protection" not in Page(sides_page(bare, tmp_path / "bare.html").read_text()).words


def test_a_folder_of_before_is_read_and_one_that_says_nonsense_is_refused(tmp_path: Path) -> None:
    file = SidesFile("x", 5, 1, {"off": "", "on": ""}, {}, {})
    (tmp_path / "a").mkdir()
    file.write(tmp_path / "a")
    assert "protection" not in json.loads((tmp_path / "a" / "sides.json").read_text())
    file.protection = GIVEN
    file.write(tmp_path / "a")
    assert SidesFile.read(tmp_path / "a").protection == GIVEN
    file.protection = {"counter": COUNTER}
    file.write(tmp_path / "a")
    with pytest.raises(InvalidInput, match="KeyError"):
        SidesFile.read(tmp_path / "a")


def test_every_counter_that_acts_can_be_asked_and_no_other() -> None:
    (one,) = [each for each in instruments.every() if each.name == "protections"]
    counted = {check.metric for check in one.checks} - {"shard_indexing_pressure.would_reject"}
    assert set(vary.PROTECTIONS) == counted
    assert set(get_args(vary.ProtectionFile.model_fields["counter"].annotation)) == counted
    assert set(OF_PROTECTION) == {PROTECTS, WITHOUT, HURTS, INERT, OPEN}
