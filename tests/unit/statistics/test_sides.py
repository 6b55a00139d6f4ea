"""Sides compared: each with the first, at a level at which all intervals hold together; and what is said of it."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pages import Page

from chaos.base.errors import Exit, InvalidInput
from chaos.base.intervals import LEVEL, Range, shift
from chaos.checks.measure import Verdict
from chaos.report.sides import sides_page
from chaos.statistics.facts import Known
from chaos.statistics.sides import Sides, SidesFile, compare_sides, is_better, level_of, moved, word
from chaos.statistics.store import Group
from tests.unit.statistics.test_compare import group, seconds, share

FEW, MANY = [3.0, 3.1, 3.2, 3.3, 3.4], [1.0, 1.1, 1.2, 1.3, 1.4]


def number(value: float) -> Known:
    return Known("number", value, value)


def side(label: str, cpu: Sequence[float], **more: Any) -> Group:
    values: dict[str, Sequence[Known | None]] = {
        "costs.processor": [seconds(value) for value in cpu],
        "write.good": [share(1.0)] * len(cpu),
        "costs.goodput": [number(20 * value) for value in cpu],
    }
    return group(values, label, **more)


def file(*names: str, **given: Any) -> SidesFile:
    return SidesFile(
        experiment="ab",
        times=5,
        first_seed=1,
        hashes={name: f"hash of {name}" for name in names},
        changes={names[0]: {}, **{name: {"load": {"documents": 5}} for name in names[1:]}},
        differences={name: ["load.documents: 2000 → 5"] for name in names[1:]},
        **{"decide": ("costs.processor",), **given},
    )


def compared(*groups: Group, **given: Any) -> Sides:
    return compare_sides(groups, file(*(each.label for each in groups), **given))


def test_the_level_of_each_interval_makes_them_hold_together() -> None:
    assert level_of(2) == LEVEL
    assert [round(level_of(sides), 4) for sides in (3, 4)] == [0.975, 0.9833]


def test_intervals_of_all_sides_cover_together() -> None:
    """Of four sides that are alike all three intervals hold no shift in 95 % of the experiments, at least."""
    drawn, held, tries = random.Random(7), 0, 2000
    for _ in range(tries):
        first, *others = ([Range.exact(drawn.expovariate(1)) for _ in range(5)] for _ in range(4))
        found = [shift(first, other, level_of(4)).interval for other in others]
        held += all(each is not None and each.low <= 0 <= each.high for each in found)
    assert held / tries > 0.95


def test_worse_better_no_worse_and_open() -> None:
    found = compared(side("default", FEW), side("advice", MANY), side("same", FEW), side("few", FEW[:3]))
    by_name = {each.b.label: found.row("costs.processor", each) for each in found.comparisons}
    assert {name: word(row) for name, row in by_name.items()} == {"advice": "better", "same": "no worse", "few": "open"}
    assert (
        found.of(found.comparisons[0])
        == "side advice is no worse than default in any metric that decides; it is better in costs.processor"
    )
    assert (found.outcome, found.exit_code) == (Verdict.INCONCLUSIVE, Exit.INCONCLUSIVE)
    worse = compared(side("default", MANY), side("dear", FEW))
    assert (worse.outcome, worse.exit_code) == (Verdict.FAIL, Exit.WEAKNESS)
    assert worse.sentence.startswith("Side dear is worse than default in costs.processor")
    assert moved(None) == "no data" and word(None) == "open"
    assert "96.4 % only" in moved(found.row("costs.processor", found.comparisons[2])), (
        "5 and 3 runs: 1 - 2 / 56 is 96.4 %"
    )


def test_the_worst_side_decides_and_one_that_is_no_worse_passes() -> None:
    alike = compared(side("default", [3.0] * 5), side("same", [3.0] * 5))
    assert (alike.outcome, alike.exit_code) == (Verdict.PASS, Exit.PASS)
    assert compared(side("default", MANY), side("same", MANY), side("dear", FEW)).outcome is Verdict.FAIL


def test_of_goodput_more_is_better() -> None:
    less = compared(side("default", FEW), side("less", MANY), decide=("costs.goodput",))
    assert less.outcome is Verdict.FAIL
    more = compared(side("default", MANY), side("more", FEW), decide=("costs.goodput",))
    assert more.outcome is Verdict.PASS and is_better(more.comparisons[0].rows[0])


def test_loads_of_sides_may_differ() -> None:
    other = {"load": {"documents": 5}, "phases": [{"name": "dark", "duration": 60.0}], "targets": {}}
    assert compared(side("default", MANY), side("x", MANY, conditions=other)).comparisons


def test_texts_name_the_sides_and_no_a_and_b() -> None:
    bare = group({"write.good": [share(1.0)] * 5}, "bare")
    found = compared(side("default", MANY, planned=9), bare)
    (comparison,) = found.comparisons
    row = found.row("costs.processor", comparison)
    assert row is not None and row.says == "bare has no value" and row.verdict is Verdict.INCONCLUSIVE
    assert "default: only 5 of 9 runs were made" in comparison.differences


def test_what_no_run_measured_is_open_and_no_pass() -> None:
    """Also where no run counts: a making that was cut off after its first run is no wrong input."""
    found = compared(side("default", FEW), side("x", FEW), decide=("write.p98", "costs.processor"))
    assert found.outcome is Verdict.INCONCLUSIVE
    assert {row.metric: row.says for row in found.comparisons[0].rows if row.decides} == {
        "write.p98": "default has no value",
        "costs.processor": "no worse than tolerated",
    }
    bare = compared(group({}, "default"), group({}, "x"), tolerance={"write.p98": "5ms"})
    assert bare.outcome is Verdict.INCONCLUSIVE and "write.p98" not in bare.metrics


def test_a_tolerance_of_the_file_decides() -> None:
    near = [value * 1.05 for value in FEW]
    assert compared(side("default", FEW), side("x", near), tolerance={"costs.processor": "50%"}).outcome is Verdict.PASS
    assert (
        compared(side("default", FEW), side("x", near), tolerance={"costs.processor": "1%"}).outcome is not Verdict.PASS
    )


def test_json_markdown_and_page_say_the_same(tmp_path: Path) -> None:
    found = compared(side("default", FEW), side("advice", MANY), side("other", FEW))
    data = json.loads(json.dumps(found.to_json()))
    assert (data["baseline"], list(data["comparisons"])) == ("default", ["advice", "other"])
    assert data["level"] == pytest.approx(0.975) and data["exit_code"] == 0
    lines = found.markdown().splitlines()
    (row,) = [line for line in lines if line.startswith("| costs.processor")]
    assert row.split(" | ")[1:6] == [
        "yes",
        "3.2 s (3 s to 3.4 s)",
        "1.2 s (1 s to 1.4 s)",
        moved(found.row("costs.processor", found.comparisons[0])),
        "better",
    ]
    assert {line.count("|") for line in lines if line.startswith("|")} == {10}
    page = Page(sides_page(found, tmp_path / "compare.html").read_text())
    assert page.open == [] and "load.documents: 2000 → 5" in page.words and "better" in page.words
    assert sum(name == "svg" for name, _ in page.tags) >= 2


def test_what_was_set_aside_is_told(tmp_path: Path) -> None:
    given = {"cut_off": [{"run": "r<1>", "why": "its runner had died"}]}
    found = compared(side("default", FEW), side("x", FEW), **given)
    assert "Set aside and made again: r<1>, its runner had died." in found.markdown()
    html = sides_page(found, tmp_path / "compare.html").read_text()
    assert "r&lt;1&gt;" in html and "r<1>" not in html


@pytest.mark.parametrize(
    "change",
    [{"kind": "series"}, {"format": 2}, {"hashes": {"../x": "h"}}, {"runs": [{"side": "a"}]}, {"more": 1}],
)
def test_a_broken_file_is_one_line(tmp_path: Path, change: dict[str, Any]) -> None:
    file("default", "x").write(tmp_path)
    assert SidesFile.read(tmp_path) == file("default", "x")
    data = json.loads((tmp_path / "sides.json").read_text())
    (tmp_path / "sides.json").write_text(json.dumps(data | change))
    with pytest.raises(InvalidInput, match="cannot be read"):
        SidesFile.read(tmp_path)


def test_a_censored_cost_can_be_worse_and_never_no_worse() -> None:
    """Of a node that was not heard it is only known that it used so much at least."""
    more = [Known("seconds", value, math.inf) for value in FEW]
    low = side("default", MANY)
    found = compared(low, group({**low.values, "costs.processor": more}, "cut"))
    assert found.outcome is Verdict.FAIL
    less = [Known("seconds", value, math.inf) for value in MANY]
    assert compared(low, group({**low.values, "costs.processor": less}, "cut")).outcome is Verdict.INCONCLUSIVE
