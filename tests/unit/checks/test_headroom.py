"""How busy the zones' data nodes were: figures with a known truth, and what leaves none."""

from __future__ import annotations

import pytest
import synthetic
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Chapter, Story

from chaos.checks import evaluate, headroom
from chaos.checks.record import Record
from chaos.report import headroom as section
from chaos.report.page import render_html

BUSY = {"a-data": 0.6, "b-data": 0.5, "c-data": 0.4}
"""Of two processors each: 30, 25 and 20 %."""


def story(dark: float = 30, **work: float) -> Story:
    """Zone c is lost after 9 s of the phase ``dark``."""
    lost = Chapter("dark", dark).fault().event(9, "cluster.node_left", node="c-data", zone="c")
    return Story(chapters=[Chapter("healthy", 20), lost], work=BUSY | work)


def record(told: Story) -> Record:
    return Record(told.history())


def test_a_zone_is_its_own_and_the_busiest_counts() -> None:
    seen = record(story())
    healthy, dark = seen.spans
    assert headroom.measure(seen, healthy).value == pytest.approx(0.3)
    measure = headroom.measure(seen, dark)
    assert measure.value == pytest.approx(0.3) and measure.evidence["zones"] == pytest.approx({"a": 0.3, "b": 0.25})
    assert "zone a, the busiest of 2" in measure.says


def test_the_loss_of_a_zone_is_reckoned_before_it_and_measured_after_it() -> None:
    seen = record(story())
    healthy, dark = seen.spans
    assert headroom.loss(seen, healthy) == {"share": pytest.approx(0.3 * 3 / 2), "measured": False}
    assert headroom.loss(seen, dark) == {"share": pytest.approx(0.3), "measured": True}


def test_a_larger_zone_leaves_more_work_and_a_single_one_nobody_to_do_it() -> None:
    history = story().history()
    next(event for event in history.events if event["kind"] == "nodes.processors")["nodes"]["b-data"] = 4
    seen = Record(history)
    found = headroom.loss(seen, seen.spans[0])
    assert found is not None and found["share"] == pytest.approx(0.3 * 8 / 4)
    for node in history.plan["topology"]["nodes"]:
        node["zone"] = "a"
    seen = Record(history)
    assert headroom.loss(seen, seen.spans[0]) is None and headroom.measure(seen, seen.spans[0]).value is not None
    assert section.rule(1).endswith("Here nothing would be left.")


@given(st.integers(2, 6), st.floats(0.01, 1))
def test_of_zones_alike_the_rule_is_n_by_n_minus_one(zones: int, share: float) -> None:
    names = [f"z{number}-data" for number in range(zones)]
    told = Story(chapters=[Chapter("healthy", 10)], work=dict.fromkeys(names, 2 * share))
    history = told.history()
    history.plan["topology"]["nodes"] = [{"name": n, "zone": n[:2], "roles": ["data"]} for n in names]
    for event in history.events:
        if event["kind"] == "nodes.processors":
            event["nodes"] = dict.fromkeys(names, 2)
    seen = Record(history)
    found = headroom.loss(seen, seen.spans[0])
    assert found is not None and found["share"] == pytest.approx(share * zones / (zones - 1), rel=0.01)


def test_a_zone_of_several_nodes_is_judged_by_those_that_stayed() -> None:
    history = story().history()
    for node in history.plan["topology"]["nodes"]:
        if node["name"] == "c-data":
            node["zone"] = "a"
    seen = Record(history)
    zones = headroom.by_zone(seen, seen.spans[0])
    assert zones["a"] == pytest.approx((1.0, 4.0)) and zones["b"] == pytest.approx((0.5, 2.0))
    assert headroom.by_zone(seen, seen.spans[1])["a"] == pytest.approx((0.6, 2.0))


def test_who_comes_back_in_a_phase_is_no_survivor_of_it_and_is_one_later() -> None:
    told = story()
    told.chapters += [
        Chapter("returned", 20).lift().event(3, "cluster.node_joined", node="c-data", zone="c"),
        Chapter("later", 20),
    ]
    seen = record(told)
    there = ["".join(sorted(headroom.by_zone(seen, span))) for span in seen.spans]
    assert there == ["abc", "ab", "ab", "abc"]
    assert [headroom.lost(seen, span) for span in seen.spans] == [[], ["c"], [], []]
    assert headroom.loss(seen, seen.spans[2]) is None
    shown = section.section(seen, evaluate(told.history()).to_json()["tables"])
    assert shown is not None and shown["zones"][2] == ("c", ["20.0 %", "out", "not all the time", "20.0 %"])


def test_a_sample_that_is_missing_in_between_changes_nothing() -> None:
    told = story()
    told.mutate = lambda events: [
        event for n, event in enumerate(events) if event["kind"] != "nodes.cpu" or n % 3 or event["t"] % 5
    ]
    seen = record(told)
    assert headroom.measure(seen, seen.spans[1]).value == pytest.approx(0.3, rel=0.01)


@pytest.mark.parametrize(("missing", "known"), [(3, True), (6, False)])
def test_who_does_not_tell_at_the_end_has_no_figure(missing: float, known: bool) -> None:
    told = story()
    end = synthetic.T0 + round((50 - missing) * synthetic.S)
    told.mutate = lambda events: [event for event in events if event["kind"] != "nodes.cpu" or event["t"] < end]
    seen = record(told)
    assert (headroom.measure(seen, seen.spans[1]).value is not None) is known


@pytest.mark.parametrize("seconds", [1, 2])
def test_a_phase_that_is_shorter_than_its_samples_has_no_figure(seconds: float) -> None:
    seen = record(Story(chapters=[Chapter("healthy", seconds)], work=BUSY))
    assert headroom.measure(seen, seen.spans[0]).value is None


def test_a_run_from_before_these_samples_is_judged_and_drawn_without_them() -> None:
    told = synthetic.slow_zone()
    findings = evaluate(told.history()).to_json()
    assert "cpu" not in findings["tables"]
    assert "room for the loss of a zone" not in render_html(told.history(), findings)


def test_the_page_says_what_the_rule_is_and_that_the_machine_is_shared() -> None:
    told = story()
    history = told.history()
    history.plan["machine"] = {"processors": 2}
    findings = evaluate(history).to_json()
    assert findings["tables"]["cpu"]["idle"] == pytest.approx({"healthy": 0.6, "dark": 0.6})
    shown = section.section(Record(history), findings["tables"])
    assert shown is not None
    assert shown["rule"].endswith("With 3 zones alike that is up to 53 %, 60 % at most, while all of them serve.")
    assert shown["shared"] == "The nodes of this lab share the 2 processors of one machine."
    assert shown["before"]["says"].endswith("used 30.0 % of its processors; without one zone that would be 45.0 %: ok")
    assert shown["zones"][2] == ("c", ["20.0 %", "out"])
    html = render_html(history, findings)
    assert "Processors: room for the loss of a zone" in html and "high-availability" in html
    history.plan["machine"] = {"processors": 12}
    assert evaluate(history).to_json()["tables"]["cpu"]["shared"] is False


@pytest.mark.parametrize(
    ("busy", "word"), [(1.06, "ok"), (1.07, "warning"), (1.19, "warning"), (1.21, "fails"), (1.5, "fails")]
)
def test_up_to_53_percent_of_three_zones_is_ok_and_up_to_60_a_warning(busy: float, word: str) -> None:
    history = story(**dict.fromkeys(BUSY, busy)).history()
    shown = section.section(Record(history), evaluate(history).to_json()["tables"])
    assert shown is not None and shown["before"]["word"] == word
