"""Lines through what calls cost, their intervals, and what is said of clusters that no lab can be."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import manager_sizes as sizes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rates_picture import Panel, top_of

FILTERS = ("cluster-stats", "cluster-stats-filtered", "health-shards")
CALLS = (*sizes.PUBLISHED_CALLS, "mapping", "index-settings", "health", *FILTERS)


def row(call: str, entries: int, manager: float, **more: Any) -> dict[str, Any]:
    costs = {"manager": manager, "managers": 0.1, "asked": 2 * manager, "data": 0.0, "wall": 3 * manager}
    return {"call": call, "round": 1, "entries": entries, "shards": 3 * entries // 1000, "made": 9, "failed": 0} | (
        costs | {"bytes": 100 + 90 * entries} | more
    )


def record(data_nodes: int = 3, noise: float = 0.01, **more: Any) -> dict[str, Any]:
    """Every call costs the manager 0.5 ms, and 0.2 more for 1,000 entries."""
    rng = np.random.default_rng(data_nodes)
    calls = [
        row(call, entries, 0.5 + 0.2 * entries / 1000 + rng.normal(0, noise))
        for call in CALLS
        for entries in (0, 2000, 10_000)
        for _ in range(3)
    ]
    head = {"topology": "managers", "nodes": data_nodes + 4, "data_nodes": data_nodes, "opensearch": "3.8.0"}
    machine = {"date": "2026-11-28", "commit": "abc", "processors": 2, "load": 1.0}
    return {**head, **machine, "calls": calls, **more}


def at_rates(slopes: dict[str, float]) -> list[dict[str, Any]]:
    rng = np.random.default_rng(5)
    return [
        {"call": call, "rate": rate, "bad": 0, "manager": 0.01 + slope * rate * 0.3 / 100 + rng.normal(0, 1e-4)}
        for call, slope in slopes.items()
        for rate in (0, 10, 20, 30)
        for _ in range(3)
    ]


@given(st.floats(-5, 5), st.floats(-5, 5), st.lists(st.integers(0, 50), min_size=4, max_size=9, unique=True))
def test_a_line_without_noise_is_found(fixed: float, slope: float, places: list[int]) -> None:
    fit = sizes.fitted([(float(x),) for x in places], [fixed + slope * x for x in places])
    assert fit is not None
    assert fit.term(0)[0] == pytest.approx(fixed, abs=1e-6) and fit.term(1)[0] == pytest.approx(slope, abs=1e-6)
    assert fit.at(100.0)[0] == pytest.approx(fixed + 100 * slope, abs=1e-4)


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(400):
        x = np.repeat([0.0, 2.0, 10.0], 3)
        fit = sizes.fitted([(each,) for each in x], list(1 + 0.5 * x + rng.normal(0, 0.3, len(x))))
        assert fit is not None
        value, reach = fit.at(25.0)
        covered += abs(value - 13.5) <= reach
    assert 0.92 <= covered / 400 <= 0.98


def test_too_few_places_are_no_line() -> None:
    assert sizes.fitted([(1.0,), (1.0,), (1.0,)], [1.0, 2.0, 3.0]) is None, "one place alone"
    assert sizes.fitted([(1.0,), (2.0,)], [1.0, 2.0]) is None, "nothing is left over to judge it by"


def test_a_ratio_has_an_interval_where_what_is_below_is_not_zero() -> None:
    found = sizes.ratio((1.0, 0.1), (2.0, 0.2))
    assert found is not None and found[0] == 0.5 and found[1] < 0.5 < found[2]
    assert found[1] == pytest.approx(0.43, abs=0.01) and found[2] == pytest.approx(0.58, abs=0.01)
    assert sizes.ratio((1.0, 0.0), (2.0, 0.0)) == (0.5, 0.5, 0.5)
    assert sizes.ratio((1.0, 0.1), (0.1, 0.2)) is None


def test_the_published_ratio_of_slopes() -> None:
    without, checked = sizes.published_slopes()
    assert without[1] == pytest.approx(2.33, abs=0.01) and checked[1] == pytest.approx(0.83, abs=0.01)


def test_calls_that_failed_are_no_measurement() -> None:
    lost = record()
    lost["calls"][0]["failed"] = 1
    assert len(sizes.rows([lost])) == len(sizes.rows([record()])) - 1


def test_the_number_of_nodes_is_a_term_where_labs_differ_in_it() -> None:
    alone = sizes.line(sizes.rows([record(3)]), "state", "manager")
    both = sizes.line(sizes.rows([record(3), record(9)]), "state", "manager")
    assert alone is not None and not alone[1] and len(alone[0].terms) == 2
    assert both is not None and both[1] and len(both[0].terms) == 3
    assert both[0].term(2)[0] == pytest.approx(0, abs=0.01), "these calls do not depend on it"
    assert both[0].at(10.0, 9.0)[0] == pytest.approx(2.5, abs=0.05)


def test_what_a_manager_needs_follows_the_line_and_says_how_far() -> None:
    measured = sizes.rows([record()])
    found = sizes.predicted(measured, sizes.PUBLISHED_CALLS, 1000, 500_000)
    assert found is not None and found[0] == pytest.approx(100.5, rel=0.05) and 0 < found[1] < 10
    assert "50.0 x entries, 333.3 x nodes" in sizes.model(measured)
    assert sizes.ALIKE in sizes.model(measured) and sizes.ALIKE not in sizes.model(sizes.rows([record(3), record(9)]))
    assert sizes.predicted(measured, ("state", "no-such-call"), 1000, 500_000) is None


def test_the_page_says_what_is_claimed_beside_what_was_measured() -> None:
    rates = {"rates": at_rates({"mapping": 1.0, "index-settings": 4.0})}
    words = sizes.page([record(), record(**rates)])
    assert "Measured: `mapping` (with the check) 0.25 of `index-settings` (without), 0.2" in words
    assert "Published slopes: with the check 0.36 of those without" in words
    assert "**Inferred, not measured**" in words and "lies outside that interval" in words
    assert "| `state` | 0.5" in words


def test_filters_and_sizes_of_states_stand_beside_what_is_published() -> None:
    measured = sizes.rows([record(noise=0.0)])
    quick = [{**row, "wall": row["wall"] / 5} if row["call"] == "cluster-stats-filtered" else row for row in measured]
    words = sizes.filters_table(quick)
    assert "| `cluster-stats`, `cluster-stats-filtered` | 15 → 0.65 s | 23.1 | 7.5 → 1.5 ms | 5.0 |" in words
    assert "nodes-stats" not in words, "it was not measured"
    assert "| 500,000 | 250 MB | 45.0 ± 0.0 MB | 50.0 x |" in sizes.states(measured)


def test_the_newest_run_with_a_broken_manager_is_shown(tmp_path: Path) -> None:
    folder = tmp_path / "monitored-manager-paused"
    folder.mkdir()
    for began, outcome in (("2026-01-02", "pass"), ("2026-01-01", "weakness")):
        run = {"began": began, "ended": began, "outcome": outcome, "summary": "Reads held.", "commit": "abc"}
        (folder / f"{began}.json").write_text(json.dumps(run))
    (folder / "2026-01-03.json").write_text(json.dumps({"began": "2026-01-03"}))  # cut off
    words = sizes.matrix(tmp_path)
    assert "| `monitored-manager-paused` | pass | Reads held. | abc |" in words and "weakness" not in words
    assert "| `monitored-manager-slow` | not recorded yet |" in words


def test_without_records_the_page_says_so() -> None:
    words = sizes.page([])
    assert words.count("Not recorded yet") == 6 and "Measured: not recorded yet" in words


def test_what_protects_is_said_from_its_record() -> None:
    calls = {"calls": {"200": 10, "429": 90}, "health": {"200": 50}, "search": {"200": 40}}
    found = record(
        calls=[],
        entries=10_000,
        clients=40,
        pages={"walks": 15, "lasting": 12, "created": 40, "deleted": 37, "wrong_indices": 0, "wrong_shards": 2},
        leaving={"tasks_while_it_waited": 3, "seconds_until_gone": None, "looked_for": 60.0},
        timeout={"with": {"seconds": 2.1, "answer": "500 cancelled"}},
        coordinating={"asked": "a-coord", "tripped": {"a-coord": 90}, **calls},
    )
    words = sizes.protections([found])
    assert "2 times one was missing or there twice" in words and "ran on for 60 s" in words
    assert "Breakers tripped: a-coord 90" in words and "429 90 times" in words
    assert "The same node answered" not in words, "an older record does not say"
    own = {"limit": "70%", "own_health": {"200": 7}, "own_search": {"429": 3}}
    words = sizes.protections([found | {"data": found["coordinating"] | own}])
    assert "breakers at 70% of the heap: answered" in words
    assert "The same node answered for health 200 7 times, for a search 429 3 times. Another node" in words


def test_the_committed_page_is_made_of_the_committed_records() -> None:
    assert sizes.PAGE.read_text() == sizes.page(sizes.recorded()), "run: python benchmarks/manager_sizes.py"
    assert sizes.PICTURE.read_text() == sizes.rates_picture(sizes.recorded()), "run: python benchmarks/manager_sizes.py"


BAR = re.compile(r'y="([\d.]+)" width="[\d.]+" height="([\d.]+)" fill="[^"]+">\s*<title>([^:]+): ([\d.]+) %</title>')


def test_bars_of_the_picture_are_as_high_as_what_they_stand_for() -> None:
    rates = {"rates": at_rates({"mapping": 1.0, "index-settings": 4.0})}
    alone, both = sizes.rates_picture([]), sizes.rates_picture([record(**rates)])
    for words, panels in ((alone, 1), (both, 2)):
        ElementTree.fromstring(words)
        bars = [(float(y), float(height), name, float(value)) for y, height, name, value in BAR.findall(words)]
        assert len(bars) == 6 * panels
        for panel in (bars[:6], bars[6:]):
            feet = {round(y + height, 1) for y, height, _, _ in panel}
            assert len(feet) <= 1, "they stand on one line"
            scales = [height / value for _, height, _, value in panel]
            assert not panel or max(scales) == pytest.approx(min(scales), rel=0.02)
    assert "without the check, 3,000: 14.00 %" in alone and "with the check, 9,000: 12.00 %" in alone
    assert "with the check, 9,000: 10.0" in both and 'class="reach"' in both and 'class="reach"' not in alone
    without_one = {"rates": [row for row in rates["rates"] if row["rate"] != 20]}
    assert sizes.rates_picture([record(**without_one)]) == alone, "rates that were not all measured are not drawn"


@given(st.floats(0.01, 400))
def test_an_axis_ends_above_all_bars_and_not_far_above(most: float) -> None:
    top = Panel("", "", ["x"], {"a": [most / 2], "b": [most]}, {"a": [most / 4]})
    assert most <= top_of(top) + 1e-9 and (top_of(top) <= 2.6 * most or top_of(top) == pytest.approx(0.4))
