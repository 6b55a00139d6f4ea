"""The first screen's answers, the optional tables, the lanes by zone and the heat map."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import report_tables
import synthetic
from hypothesis import given
from hypothesis import strategies as st
from pages import Page
from screens import flat

from chaos.checks import evaluate
from chaos.checks.record import Record
from chaos.history.format import Outcome
from chaos.report import figures, render_html, timeline
from chaos.report.answers import (
    Answer,
    _after,
    _in_window,
    _rank,
    advice,
    answers,
    badness,
    causes,
    margin,
    with_targets,
)

EVIL = '<script>document.title="owned"</script>"><img src=x onerror=alert(1)>{{7*7}}'


def asked(story: synthetic.Story) -> dict[str, Answer]:
    history = story.history()
    record = Record(history)
    findings = json.loads(json.dumps(evaluate(history).to_json()))
    findings["findings"] = with_targets(findings, record.plan)
    return {answer.question: answer for answer in answers(record, findings)}


def findings_of(story: synthetic.Story) -> dict[str, Any]:
    return dict(json.loads(json.dumps(evaluate(story.history()).to_json())))


@pytest.mark.parametrize("seconds", [1.0, 600.0])
def test_what_broke_users_is_the_command_nearest_to_it_however_wide_windows_are(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    record = Record(synthetic.slow_zone().history())
    injected = record.of_kind("fault.command")[0]
    monkeypatch.setattr(Record, "window", lambda *_: seconds)
    assert _after(record, int(injected["t"])) == f" at once with “{record.words(injected)}”"


# -- the four answers ----------------------------------------------------------------------------


def test_a_pass_names_the_closest_and_asks_for_nothing() -> None:
    found = asked(synthetic.slow_zone())
    assert re.fullmatch(r"(\d+) of \1 expectations held", found["Why this verdict?"].answer)
    assert found["Why this verdict?"].details[0].startswith("Closest: ")
    assert found["What was done?"].answer.startswith("+300ms on links to zone c")
    assert found["What happened to users?"].answer.startswith("42 s without writes")
    assert found["What happened to users?"].details[0].startswith("Writes stopped being good at once with “+300ms")
    assert found["What to do?"].answer.startswith("It held as was asked. Users bore 42 s without writes")


def test_what_was_late_before_anything_was_done_broke_nothing() -> None:
    story = synthetic.black_hole()
    story.chapters[0].write = synthetic.mixed((10, 13, 0.5, Outcome.OK, 0.4), base=synthetic.healthy(13))
    first = asked(story)["What happened to users?"]
    assert "“packets vanish on links around zone b”" in first.details[0]
    (broke,) = [lane for lane in first.lanes if lane.title == "What broke"]
    assert broke.lines[0].endswith("s: writes were not good, before anything was done")
    story.chapters[1:] = []
    assert asked(story)["What happened to users?"].answer.endswith(", before anything was done")


def test_a_weakness_says_by_how_much_what_broke_first_and_what_helps() -> None:
    found = asked(synthetic.black_hole())
    by = found["Why this verdict?"]
    assert " held, " in by.answer and by.answer.endswith(" missed") and by.kind == "weakness"
    assert "wanted" in by.details[0] and by.links[0].place.startswith("finding-")
    assert "“packets vanish on links around zone b”" in found["What happened to users?"].details[0]
    do = found["What to do?"]
    assert do.answer == "Detect dead nodes sooner" and do.links[0].place == "help-failure-detection"
    lanes = {lane.title: lane.lines for lane in found["What happened to users?"].lanes}
    assert list(lanes) == ["What broke", "What the cluster did"]
    lanes["What was done"] = found["What was done?"].details
    for lines in lanes.values():
        times = [int(line.split()[0]) for line in lines if line[0].isdigit()]
        assert times == sorted(times) and times
    assert any("b-data and b-cm left" in line for line in lanes["What the cluster did"])


def test_nothing_broke_before_what_broke_it() -> None:
    """A fault in the middle of a window spoils all of it; the window's begin is no moment at which anything broke."""
    story = synthetic.black_hole()
    record = Record(story.history())
    (inject,) = [int(e["t"]) for e in record.events if e.get("kind") == "fault.command"]
    width = round(record.window("write") * 1e9)
    assert _in_window(record, "write", inject - width // 2) == inject
    under_way = round(next(op.good_within for op in record.operations if op.name == "write") * 1e9)
    assert _in_window(record, "write", inject - width - under_way // 2) == inject, "requests at its end were under way"
    assert _in_window(record, "write", inject - width - under_way) == inject - width - under_way
    assert _in_window(record, "write", inject + width) == inject + width


def test_a_node_that_we_took_out_did_not_break() -> None:
    found = asked(synthetic.slow_zone())
    lanes = {lane.title: " ".join(lane.lines) for lane in found["What happened to users?"].lanes}
    assert "c-data and c-cm left, as it was asked to" in lanes["What the cluster did"]
    assert "left" not in lanes.get("What broke", "") and "decommission zone c" in " ".join(
        found["What was done?"].details
    )


def test_lost_writes_come_before_every_other_finding() -> None:
    story = synthetic.lost_writes()
    story.clean = {"clean": True, "detail": []}
    found = asked(story)
    assert found["Why this verdict?"].details[0].startswith("Acknowledged writes lost: 133")
    assert found["What to do?"].answer == "Stop and keep the evidence"


def test_dirt_comes_first_of_all() -> None:
    assert "recover" in asked(synthetic.lost_writes())["What to do?"].answer


@pytest.mark.parametrize(
    ("story", "words"),
    [
        ("unproven", "why the fault is not proven"),
        ("vanished", "who changed the fault"),
        ("aborted", "what stopped it"),
        ("killed", "what failed"),
    ],
)
def test_without_a_verdict_the_way_to_one_is_named(story: str, words: str) -> None:
    found = asked(synthetic.STORIES[story]())
    assert words in found["What to do?"].answer
    assert found["Why this verdict?"].answer in ("Not proven", "Stopped early", "No answer")


def test_a_run_in_which_nothing_broke_says_so() -> None:
    story = synthetic.Story(
        chapters=[synthetic.Chapter("healthy", 30)], expect=[synthetic.expect("read.good", ">=", 0.999, ("healthy",))]
    )
    assert asked(story)["What happened to users?"].answer == "Nothing that users would notice"


def test_what_was_bad_from_the_start_is_told_to_users_too() -> None:
    refused = synthetic.mixed((0, 30, 0.1, Outcome.REJECTED, 0.002))
    story = synthetic.Story(chapters=[synthetic.Chapter("steady", 30, read=refused)])
    told = asked(story)["What happened to users?"]
    assert told.kind == "hurt" and re.match(r"Only (8|9)\d\.\d % of reads were good, without an outage", told.answer)


def test_a_fault_that_did_not_bite_asks_for_no_setting() -> None:
    story = synthetic.slow_zone()
    story.chapters[1].write = synthetic.healthy(13)
    found = asked(story)
    assert found["Why this verdict?"].kind == "weakness"
    assert found["What to do?"].links[0].place == "evidence"


@given(
    value=st.floats(0, 1),
    target=st.floats(0.5, 0.9999),
    metric=st.sampled_from(["read.good", "write.good"]),
)
def test_a_share_is_bad_exactly_when_it_is_missed(value: float, target: float, metric: str) -> None:
    found = badness({"measured": value, "target_value": target, "metric": metric, "comparison": ">="})
    assert found is not None
    if abs(value - target) > 1e-9:
        assert (found > 1) == (value < target)


@given(value=st.floats(0, 1e4), target=st.floats(0, 1e4))
def test_an_upper_limit_is_bad_exactly_when_it_is_exceeded(value: float, target: float) -> None:
    found = badness({"measured": value, "target_value": target, "metric": "write.regained", "comparison": "<="})
    assert found is not None
    if abs(value - target) > 1e-9 * max(1.0, target):
        assert (found > 1) == (value > target)


def at_least(measured: float, target: float) -> Any:
    return {
        "metric": "read.user_uptime",
        "op": "read",
        "phase": None,
        "comparison": ">=",
        "measured": measured,
        "target_value": target,
    }


@given(value=st.floats(0, 1), target=st.floats(0.01, 1))
def test_a_lower_limit_is_bad_exactly_when_it_is_not_reached(value: float, target: float) -> None:
    found = badness(at_least(value, target))
    assert found is not None
    if abs(value - target) > 1e-9:
        assert (found > 1) == (value < target)


@pytest.mark.parametrize(
    ("measured", "target", "says"),
    [
        (0.5, 0.999, "50.0 % of what was wanted"),
        (0.9989, 0.999, "99.98 % of what was wanted"),
        (0.0, 0.999, "0 % of what was wanted"),
        (1.0, 0.99, ""),
        (0.99, 0.99, ""),
        (0.5, 0.0, ""),
        (0.0, 0.0, ""),
    ],
)
def test_of_a_lower_limit_it_is_said_which_part_of_it_was_reached(measured: float, target: float, says: str) -> None:
    assert margin(at_least(measured, target), {}) == says


def test_nothing_of_what_was_wanted_is_worse_than_a_little_too_much() -> None:
    late = {**at_least(1.01, 1.0), "metric": "read.p99", "comparison": "<="}
    assert max([late, at_least(0.0, 0.999)], key=_rank)["metric"] == "read.user_uptime"


def test_causes_are_those_that_the_phase_was_under() -> None:
    story = synthetic.slow_zone()
    history = story.history()
    record, findings = Record(history), findings_of(story)
    assert causes(record, findings, "healthy") == []
    assert causes(record, findings, "slow") == ["network.latency"]
    assert causes(record, findings, "failover") == ["decommission", "network.latency"]
    assert set(causes(record, findings, None)) == {"network.latency", "decommission", "recommission"}


@pytest.mark.parametrize(("link", "of_nodes"), [("c-data → store", False), ("c-data → a-data", True)])
def test_where_a_service_alone_is_cut_off_nothing_is_advised_about_nodes(link: str, of_nodes: bool) -> None:
    story = synthetic.black_hole()
    findings = findings_of(story)
    record = Record(story.history())
    record.plan["topology"] = {"services": {"store": {"kind": "s3"}}}
    findings["faults"] = [{**fault, "links": [link]} for fault in findings["faults"]]
    item = {"metric": "write.regained", "phase": None, "op": "write", "target": "<= 30s", "counts_as": "weakness"}
    offered = {each.id for each in advice(record, findings, item)}
    assert offered
    assert ({"failure-detection", "zone-failover"} <= offered) is of_nodes


# -- the optional tables -------------------------------------------------------------------------


def page_with(tables: dict[str, Any]) -> str:
    story = synthetic.black_hole()
    findings = findings_of(story)
    findings["tables"] |= tables
    return render_html(story.history(), findings)


@pytest.mark.parametrize(
    ("id", "head", "driver"),
    [
        ("lag", "The load driver is not to be trusted", False),
        ("schedule.read", "The load driver is not to be trusted", False),
        ("steady.read", "Reads were not good even before anything was done to the cluster", True),
        ("runner", "The runner looked at the cluster too late, or not at all", True),
    ],
)
def test_a_condition_that_failed_is_headed_by_whom_it_is_about(id: str, head: str, driver: bool) -> None:
    story = synthetic.black_hole()
    findings = findings_of(story)
    checks = {each["id"]: each for each in findings["validity"]["checks"]}
    checks.setdefault(id, {**checks["lag"], "id": id})
    checks[id] |= {"ok": False, "measured": "far too much"}
    findings["validity"] = {**findings["validity"], "checks": list(checks.values())}
    words = re.sub(r"\s+", " ", Page(render_html(story.history(), findings)).words)
    assert head in words and "far too much (limit: " in words
    assert ("The load driver kept its schedule" in words) is driver
    assert ("The load driver is not to be trusted" in words) is not driver


def test_every_optional_table_is_drawn_with_its_own_table() -> None:
    html = page_with(report_tables.tables())
    page = Page(html)
    assert page.open == []
    words = re.sub(r"\s+", " ", page.words)
    for expected in (
        "Availability, four ways",
        "90.9 %",
        "Worst availability in any window",
        "Projected over a year, writes: 99.98 %",
        "How copies of shards came back",
        "files reused",
        "weights a 1, b 0, c 1",
        "37 of 498",
        "4.2 MB",
        "Checks on data",
        "linearizable per key",
        "node left the cluster",
        "> 90 s",
        "≥ 34 s",
        "did not happen, or was not seen",
        "With 2 zones alike that is up to 40 %, 45 % at most",
        "share the 2 processors of one machine",
        "41.2 %",
        "85.0 % measured, ! warning",
        "12.3 %",
    ):
        assert expected in words, expected
    figures_ = [a for tag, a in page.tags if tag == "svg" and a.get("role") == "img"]
    assert len(figures_) == 5
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))


def test_hostile_tables_stay_text() -> None:
    page = Page(page_with(report_tables.tables(EVIL)))
    assert page.open == []
    names = [name for name, _ in page.tags]
    assert "img" not in names and names.count("script") == 3
    assert "{{7*7}}" in page.words


def test_empty_and_half_filled_tables_are_no_error() -> None:
    for tables in (
        {"availability": {}, "projection": {}, "ladder": {}, "returned": [], "data": {}},
        {"availability": {"read": {"request": {"share": None}}}, "ladder": {"dark": {"steps": []}}},
        {"availability": {"read": {"minimum": [{"window": 1, "availability": None}]}}, "data": {"copies": {}}},
        {"ladder": {"dark": {"steps": [{"name": "impact", "after": None}]}}},
        {"returned": [{"shard": 1, "node": None}]},
        {"swaps": [{"at": None, "says": None}]},
        {"cpu": {"zones": {"a": {"healthy": None}}, "loss": {"healthy": None}}},
    ):
        assert Page(page_with(tables)).open == []


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e5)), min_size=1, max_size=9))
def test_every_rung_lies_inside_the_ladder(afters: list[float | None]) -> None:
    steps = [{"name": f"s{i}", "after": after, "bound": "exact", "reached": True} for i, after in enumerate(afters)]
    found = figures.ladders({"ladder": {"p": {"steps": steps}}})
    assert bool(found) == any(after is not None for after in afters)
    for ladder in found:
        assert len(ladder.rungs) == len(afters) and 1 <= len(ladder.ticks) <= 9
        assert all(figures.LABELS <= rung.x <= figures.WIDTH - figures.RIGHT for rung in ladder.rungs)


# -- lanes and heat ------------------------------------------------------------------------------


def built(story: synthetic.Story) -> timeline.Timeline:
    history = story.history()
    made = timeline.build(Record(history), evaluate(history).faults)
    assert made is not None
    return made


def test_lanes_show_who_left_who_leads_and_which_copies_were_away() -> None:
    story = synthetic.slow_zone()
    story.chapters[3].events += [
        (15.0 + shard, "cluster.shard_started", dict(index="chaos", shard=shard, node="c-data", primary=False))
        for shard in range(3)
    ]
    lanes = {lane.name: [stretch.state for stretch in lane.stretches] for lane in built(story).lanes}
    assert lanes["c-cm"] == ["leader", "in", "out", "in"]
    assert lanes["a-cm"] == ["in", "leader"]
    assert lanes["c-data"] == ["in", "out", "in"]
    copies = next(lane for lane in built(story).lanes if lane.name == "shard copies of zone c")
    assert [stretch.title.split(" from")[0] for stretch in copies.stretches] == [
        "3 of 3 shard copies",
        "0 of 3 shard copies",
        "1 of 3 shard copies",
        "2 of 3 shard copies",
        "3 of 3 shard copies",
    ]


def test_lanes_fill_the_axis_without_overlap() -> None:
    for make in synthetic.STORIES.values():
        for lane in built(make()).lanes:
            at = timeline.LEFT
            for stretch in lane.stretches:
                assert abs(stretch.x - at) < 0.6
                at = stretch.x + stretch.width
            assert abs(at - (timeline.WIDTH - timeline.RIGHT)) < 0.6


def test_without_a_sampler_nothing_is_claimed_about_nodes() -> None:
    story = synthetic.slow_zone()
    story.mutate = lambda events: [event for event in events if not event["kind"].startswith(("cluster.", "sample"))]
    assert built(story).lanes == ()


def test_the_heat_map_holds_every_answered_second_and_stays_small() -> None:
    figure = built(synthetic.slow_zone()).figures[1]
    assert sum(map(len, figure.heat)) < 60_000 and figure.heat[-1]
    silent = synthetic.slow_zone()
    for chapter in silent.chapters:
        chapter.write = synthetic.constant(Outcome.TIMEOUT, 5.0)
    assert built(silent).figures[1].heat == ()


def test_the_fine_bins_add_up_to_the_arrivals() -> None:
    story = synthetic.black_hole()
    record = Record(story.history())
    for figure in built(story).figures:
        total = sum(sum(figure.fine[kind]) for kind in timeline.KINDS) * figure.fine["step"]
        assert np.isclose(total, len(record.arrivals[figure.op]), rtol=0.01)


def test_a_long_run_stays_small(tmp_path: Path) -> None:
    story = synthetic.slow_zone()
    story.rate = 20
    for chapter in story.chapters:
        chapter.seconds = 1800
    page = render_html(story.history(), findings_of(story))
    assert len(page.encode()) < 1_500_000


def page_of(story: synthetic.Story) -> str:
    history = story.history()
    return render_html(history, json.loads(json.dumps(evaluate(history).to_json())))


def test_what_the_wait_costs_stands_beside_what_the_cluster_costs_and_the_assumption_is_in_words() -> None:
    story = synthetic.slow_zone()
    story.chapters[1].scripted_wait = True
    words = flat(Page(page_of(story)).words)
    assert "while the test waits for somebody to act:" in words and "in all" in words
    assert "by the cluster's own outage" in words
    assert "The test assumes that somebody acts after" in words
    assert "For each minute that your people take, count" in words and "of a month's 43 min 12 s at" in words
    story.chapters[1].scripted_wait = False
    assert "assumes that somebody acts" not in flat(Page(page_of(story)).words)


def test_a_step_of_recovery_that_nobody_needed_is_grey_and_one_that_never_came_is_not() -> None:
    slow = page_of(synthetic.slow_zone())
    assert 'class="unneeded"' in slow and "not needed" in Page(slow).words
    never = synthetic.black_hole()
    never.chapters[-1].write = synthetic.constant(synthetic.Outcome.TIMEOUT, 5.0)
    assert "not while it was watched" in Page(page_of(never)).words


def test_the_load_before_the_first_phase_is_labelled() -> None:
    story = synthetic.slow_zone()
    story.mutate = lambda events: [
        event | ({"t": event["t"] - 30 * synthetic.S} if event["kind"] == "load.start" else {}) for event in events
    ]
    assert "warm-up, not judged" in page_of(story)
    assert "warm-up" not in page_of(synthetic.slow_zone())


def test_long_tables_are_folded_and_nothing_is_shown_as_raw_json() -> None:
    history = synthetic.slow_zone().history()
    row = {"id": "x", "status": "ok", "title": "Row", "value": "fine", "rule": "r", "remedy": "m", "nodes": []}
    for rows, folded in ((12, False), (13, True)):
        history.__dict__["audit"] = {
            "rows": [row | {"source": {"title": "s", "url": "https://opensearch.org"}}] * rows,
            "of": "x",
            "summary": "y",
            "workload": "search",
        }
        page = render_html(history, json.loads(json.dumps(evaluate(history).to_json())))
        assert ("rows of the checklist</summary>" in page) == folded
    shown = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.S)
    assert not re.search(r"\{(?:&#34;|&quot;|\")[a-z_]+(?:&#34;|&quot;|\"):", shown)
