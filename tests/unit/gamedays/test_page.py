"""The page of a game day and what stays to do: what they say of whole, refused, aborted, dead and hostile records."""

from __future__ import annotations

import copy
import re
from typing import Any

import days
import pytest
from days import Lines, Making
from hypothesis import given, settings
from hypothesis import strategies as st
from pages import Page

from chaos.gamedays import summary
from chaos.gamedays.page import link, markdown, page

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*7 }}\u202e\x1b[31m\x00' + "w" * 3000
RECORDS = {"whole": days.whole, "good": days.good, "refused": days.refused, "aborted": days.aborted, "dead": days.dead}


def flat(given: str) -> str:
    return re.sub(r"\s+", " ", given)


def drawn(lines: Lines, runs: Any = (), earlier: Any = (), **more: Any) -> tuple[Page, str]:
    """The page, balanced, and its words."""
    made = Page(page(lines, runs, earlier, **more))
    assert made.open == []
    return made, flat(made.words)


def without(lines: Lines, kind: str, **fields: Any) -> Lines:
    """The record without the lines of a kind that have these fields."""
    return [line for line in lines if line["kind"] != kind or any(line.get(k) != v for k, v in fields.items())]


def changed(lines: Lines, kind: str, **fields: Any) -> Lines:
    """The record with these fields in all lines of a kind."""
    return [{**line, **fields} if line["kind"] == kind else line for line in lines]


def sections(words: str) -> dict[str, str]:
    titles = ["What stays to do", "Experiments", "Timeline", "What was touched, and who approved it"]
    titles += ["The kill switch, and stops", "Gates", "What the team's own alerts did", "Guards from outside"]
    titles += ["Who was told", "Against the days before", "The record, and how to verify it"]
    body = words.split("Announced Trend Record", 1)[1]
    found, rest = {}, body
    for title, following in zip(titles, [*titles[1:], None], strict=True):
        _, _, rest = rest.partition(f" {title} ")
        found[title] = rest.partition(f" {following} ")[0] if following else rest
    return found


# -- did the hypothesis hold ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("whole", "weakness", f"zone-black-hole: {days.HEADLINE} And 1 more."),
        ("good", "pass", "data-node-kill: Reads and writes held. zone-black-hole: Reads and writes held."),
        ("refused", "inconclusive", "approval: 1 of 2 people signed this very plan."),
        ("aborted", "inconclusive", "it was stopped by stop file: /run/oschaos/staging.stop is there."),
        ("dead", "inconclusive", "the record has no end: its runner died, or the day is still under way."),
    ],
)
def test_the_first_line_says_whether_the_hypothesis_held_and_by_how_much(name: str, kind: str, says: str) -> None:
    lines = RECORDS[name]()
    assert summary.held(lines) == summary.Held(kind, says)
    _, words = drawn(lines)
    assert says in words.partition("Did the hypothesis hold?")[0]
    assert {"pass": "Yes", "weakness": "No", "inconclusive": "Not shown"}[kind] in words
    assert says[:40] in flat(markdown(lines)).replace("\\", "").replace("\u200b", "")


TAKEN_AWAY = {
    "no end": lambda lines: without(lines, "day.end"),
    "another outcome": lambda lines: changed(lines, "day.end", outcome="inconclusive"),
    "no outcome": lambda lines: changed(lines, "day.end", outcome=None),
    "an unknown outcome": lambda lines: changed(lines, "day.end", outcome="fine"),
    "dirty": lambda lines: changed(lines, "day.end", exit_code=6),
    "no exit code": lambda lines: changed(lines, "day.end", exit_code=None),
    "false for nought": lambda lines: changed(lines, "day.end", exit_code=0.5),
    "an experiment without an end": lambda lines: without(lines, "experiment.end", number=2),
    "an experiment that did not run": lambda lines: [
        line for line in lines if line.get("number") != 2 or "name" not in line
    ],
    "no experiment": lambda lines: without(without(lines, "experiment.begin"), "experiment.end"),
    "nobody knows whether it is clean": lambda lines: changed(lines, "experiment.end", clean=None),
    "an inconclusive alert": lambda lines: changed(lines, "expectation", verdict="inconclusive"),
    "an alert without a verdict": lambda lines: changed(lines, "expectation", verdict=None),
    "a gate that said nothing": lambda lines: changed(lines, "gate", ok=None),
    "a stop": lambda lines: [*lines, {"kind": "stop", "by": "SIGTERM", "why": "somebody"}],
}


@pytest.mark.parametrize("what", TAKEN_AWAY)
def test_whatever_is_missing_it_is_no_yes(what: str) -> None:
    assert summary.held(days.good()).kind == "pass"
    held = summary.held(TAKEN_AWAY[what](days.good()))
    assert held.kind == "inconclusive" and held.says


@given(st.data())
def test_dropping_lines_never_turns_another_answer_into_a_yes(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([each for each in RECORDS if each != "good"]))
    lines = RECORDS[name]()
    kept = [line for line in lines if data.draw(st.booleans())]
    shows = {line["kind"] for line in lines if line not in kept} & {"experiment.begin", "expectation"}
    if summary.held(lines).kind != "pass" and not shows:
        assert summary.held(kept).kind != "pass"


def test_a_guard_of_the_users_that_ended_the_day_is_a_no_and_another_is_not() -> None:
    for name, kind in (("users", "weakness"), ("payments", "inconclusive")):
        lines = days.opening().guards(10, 100).experiment(62, 400, 1, "data-node-kill", "aborted", "stopped")
        lines.add(390, "stop", by=f"guard.{name}", why="2 bad answers in a row")
        assert summary.held(lines.done()).kind == kind


# -- the page ------------------------------------------------------------------------------------


def test_of_one_that_was_planned_twice_and_ran_once_the_other_is_named() -> None:
    assert summary.not_run(days.good()) == []
    planned = ["data-node-kill", "zone-black-hole", "data-node-kill"]
    assert summary.not_run(changed(days.good(), "day.asked", experiments=planned)) == ["data-node-kill"]


def test_a_whole_day_is_told_from_its_outcome_to_its_head() -> None:
    made, words = drawn(days.whole(), days.runs(), [days.good()], head="ab" * 32)
    found = sections(words)
    first = words.partition("What stays to do ")[0]
    assert "staging-tuesday" in words and "One zone may go dark" in first
    assert "Approved by ada@example.com and grace@example.com" in words
    assert "2 experiments, up to a whole zone" in words and "Yes, it was drilled" in words
    assert "write.good >= 99% in dark: measured 93.1 %" in found["What stays to do"]
    assert "1 (weakness)" in found["Experiments"] and "775 s" not in found["Gates"]
    assert "zone c cut off" in found["What was touched, and who approved it"]
    assert "c-cm and c-data" in found["What was touched, and who approved it"]
    assert "14 s of 120 s" in found["Timeline"]
    assert "nightly-2026.11.24 ended 5 h ago" in found["Gates"]
    assert "never fired: a silent alert" in found["What the team's own alerts did"]
    assert "HighLatency" in found["What the team's own alerts did"].partition("Still firing")[2]
    assert "it answers 500" in found["Who was told"]
    assert "2026-11-17 09:00" in found["Against the days before"] and "this day" in found["Against the days before"]
    assert "ab" * 32 in found["The record, and how to verify it"]
    links = [attrs["href"] for tag, attrs in made.tags if tag == "a" and not str(attrs["href"]).startswith("#")]
    assert links == ["./runs/1-data-node-kill/report.html", "./runs/2-zone-black-hole/report.html"]


def test_every_link_within_the_page_has_its_place() -> None:
    made, _ = drawn(days.whole(), days.runs())
    places = {attrs.get("id") for _, attrs in made.tags}
    inner = {str(attrs["href"])[1:] for tag, attrs in made.tags if tag == "a" and str(attrs["href"]).startswith("#")}
    assert inner and inner <= places
    referred = {name for _, attrs in made.tags for name in str(attrs.get("aria-labelledby") or "").split()}
    assert referred <= places


@pytest.mark.parametrize("name", RECORDS)
def test_it_is_one_file_that_asks_nobody_for_anything(name: str) -> None:
    made, _ = drawn(RECORDS[name](), days.runs())
    assert not [tag for tag, _ in made.tags if tag in ("script", "img", "iframe", "object")]
    assert [attrs["href"] for tag, attrs in made.tags if tag == "link"] == ["data:,"]
    assert not [attrs for _, attrs in made.tags if any(key.startswith("on") for key in attrs)]
    assert ("meta", "Content-Security-Policy") in {(tag, attrs.get("http-equiv")) for tag, attrs in made.tags}


def test_a_refused_day_says_so_first_and_its_gates_refused_ones_first() -> None:
    _, words = drawn(days.refused())
    found = sections(words)
    assert (
        "The day was refused before its first experiment: approval: 1 of 2" in words.partition("Did the hypothesis")[0]
    )
    gates = found["Gates"]
    assert gates.index("1 of 2 people signed") < gates.index("10:00 to 12:00")
    assert "gameday approve staging-tuesday" in found["What stays to do"]
    assert "None began" in found["Experiments"] and "zone-black-hole" in found["Experiments"].partition("not run")[2]
    assert "Nobody approved it" in found["What was touched, and who approved it"]


def test_an_aborted_day_says_who_stopped_it_and_that_undoing_took_too_long() -> None:
    _, words = drawn(days.aborted())
    found = sections(words)
    assert "Not within its bound" in words and "A hold is left" in words
    assert "stopped by stop file" in found["The kill switch, and stops"]
    assert "160 s of 120 s" in found["The kill switch, and stops"]
    assert "Make an abort faster" in found["What stays to do"]
    assert "clear the hold" in found["What stays to do"]


def test_a_stop_without_an_undo_on_record_is_the_first_thing_that_is_seen() -> None:
    lines = without(days.aborted(), "undone")
    _, words = drawn(lines)
    assert "It was stopped, and no undo is on record" in words
    assert any(each.what == "See whether all is undone" for each in summary.to_do(lines))


@pytest.mark.parametrize("said", [False, None])
def test_an_undo_that_left_something_is_no_yes_however_fast(said: bool | None) -> None:
    lines = changed(changed(days.aborted(), "undone", seconds=3.0), "undone", all=said)
    _, words = drawn(lines)
    assert "Not all was undone at once" in words and "Yes, it was stopped" not in words
    assert "Not all undone: 3 s of 120 s" in words and "All undone" not in words
    assert any(each.what == "See whether all is undone" for each in summary.to_do(lines))


def test_an_undo_whose_end_nobody_waited_for_stays_to_be_looked_at() -> None:
    lines = changed(changed(days.aborted(), "undone", seconds=3.0), "undone", proven=False)
    _, words = drawn(lines)
    assert "It was stopped, and not seen to be back" in words and "Yes, it was stopped" not in words
    assert "All undone, its end not yet proven: 3 s of 120 s" in words
    assert any(each.what == "See that what was hit is back" for each in summary.to_do(lines))


def with_back(**fields: Any) -> list[dict[str, Any]]:
    """A day that was stopped before its run saw what it hit come back, which was then looked for."""
    lines = changed(changed(days.aborted(), "undone", seconds=0.3), "undone", proven=False)
    at = next(number for number, line in enumerate(lines) if line["kind"] == "undone")
    return [*lines[: at + 1], {**lines[at], "kind": "back", **fields}, *lines[at + 1 :]]


def test_what_is_not_seen_back_yet_is_named_and_is_no_yes() -> None:
    lines = with_back(ok=False, seconds=60.0, missing=["es-c-1 is not back", "the cluster is yellow"])
    _, words = drawn(lines)
    assert "It was stopped, and not seen to be back" in words and "Yes, it was stopped" not in words
    assert "Not seen back 60 s after the stop: es-c-1 is not back and the cluster is yellow" in words
    assert any(each.what == "See that what was hit is back" for each in summary.to_do(lines))


def test_the_last_word_is_that_it_is_back() -> None:
    lines = with_back(ok=True, seconds=38.2, missing=[])
    _, words = drawn(lines)
    assert "Yes, it was stopped" in words and "Seen back 38 s after the stop" in words
    assert not any(each.what == "See that what was hit is back" for each in summary.to_do(lines))


def test_a_stop_between_experiments_has_nothing_to_undo() -> None:
    lines = [
        {key: each[key] for key in each if key not in ("seconds", "bound", "all", "proven")} | {"nothing": True}
        if each["kind"] == "undone"
        else each
        for each in days.aborted()
    ]
    _, words = drawn(lines)
    assert "Yes, it was stopped" in words and "Nothing was under way then" in words
    assert "bound is not in the record" not in words
    assert not [each for each in summary.to_do(lines) if "undone" in each.what or "back" in each.what]


@pytest.mark.parametrize("missing", ["seconds", "bound"])
def test_an_undo_without_its_time_is_no_yes(missing: str) -> None:
    lines = changed(changed(days.aborted(), "undone", seconds=3.0), "undone", **{missing: None})
    _, words = drawn(lines)
    assert "Nobody knows whether within its bound" in words and "Yes, it was stopped" not in words


def test_of_a_dead_runner_all_that_is_missing_is_said_to_be_missing() -> None:
    _, words = drawn(days.dead())
    found = sections(words)
    assert "No end on record" in words and "Nothing that is on record" in words
    assert "See whether anything is still changed" in found["What stays to do"]
    for title, missing in {
        "Experiments": "None is on record",
        "Timeline": "too little for a figure",
        "What was touched, and who approved it": "no approval is in the record",
        "The kill switch, and stops": "no drill is in the record",
        "Gates": "Not asked: no gate is in the record",
        "What the team's own alerts did": "Not asked",
        "Guards from outside": "No data",
        "Who was told": "no announcement is in the record",
        "Against the days before": "No earlier day",
        "The record, and how to verify it": "not given to this page",
    }.items():
        assert missing in found[title], title
    assert "The hypothesis itself is not in the record" in words
    assert "✓" not in words


@pytest.mark.parametrize("lines", [[], [{}], [{"kind": "gate"}], [{"kind": "nonsense", "t": 5}]])
def test_records_with_nothing_in_them_are_drawn(lines: Lines) -> None:
    _, words = drawn(lines)
    assert "✓" not in words.replace("passed or told", "") and "hypothesis" in words
    assert markdown(lines)


@settings(max_examples=30)
@given(st.data())
def test_whatever_fields_are_missing_it_is_drawn(data: st.DataObject) -> None:
    lines = RECORDS[data.draw(st.sampled_from(list(RECORDS)))]()
    holes = [
        {key: value for key, value in line.items() if key == "kind" or data.draw(st.integers(0, 5)) > 0}
        for line in lines
    ]
    drawn(holes)
    markdown(holes)


def test_a_dirty_run_is_a_badge_a_note_and_the_first_thing_to_do() -> None:
    lines = changed(days.good(), "experiment.end", clean=False)
    _, words = drawn(changed(lines, "day.end", exit_code=6))
    assert "Dirty" in words.partition("Did the hypothesis")[0]
    assert "Clean-up failed after data-node-kill, zone-black-hole" in words
    assert summary.to_do(lines)[0].what == "Undo what data-node-kill left: opensearch-chaos recover --on TARGET"


def test_what_a_drill_left_is_said_as_what_an_experiment_left_is() -> None:
    lines = changed(days.whole(), "drill", ok=False, clean=False, says="something of the drill is left: an index")
    _, words = drawn(lines)
    assert "Dirty" in words.partition("Did the hypothesis")[0] and "Clean-up failed after the drill." in words
    assert summary.to_do(lines)[0].what == "Undo what the drill left: opensearch-chaos recover --on TARGET"
    assert not summary.dirty_drill(days.whole()), "records of before do not say whether it was clean"


@pytest.mark.parametrize(
    ("seconds", "says", "first"),
    [
        (4.0, "something of the drill is left: an index", "The drill of the kill switch failed"),
        (None, "the run ended by lock: it was lost", "The drill of the kill switch failed"),
        (200.0, "all was undone 200.0 s after the stop file stopped it; 120 s are allowed", "Not within its bound"),
    ],
)
def test_a_drill_that_failed_says_by_what(seconds: float | None, says: str, first: str) -> None:
    lines = changed(days.whole(), "drill", ok=False, seconds=seconds, bound=120.0, says=says)
    _, words = drawn(lines)
    answer = words.partition("Could it be stopped?")[2].partition("What stays to do?")[0]
    assert first in answer and f"by stop file; {says}" in answer, answer


def test_what_a_run_touched_is_not_known_without_its_findings() -> None:
    _, words = drawn(days.whole(), [{"folder": "runs/1-data-node-kill", "findings": None}])
    assert words.count("what it touched is not known") == 2
    unproven = copy.deepcopy(days.runs())
    unproven[1]["findings"]["faults"][0] |= {"proven": None, "gone": None}
    _, words = drawn(days.whole(), unproven)
    assert "not proven" in words and "not seen to be gone" in words


def test_the_timeline_has_a_lane_for_each_guard_and_alert_and_says_it_all_in_words_too() -> None:
    made, words = drawn(days.whole(), days.runs())
    kinds = [str(attrs.get("class")) for tag, attrs in made.tags if tag == "g"]
    for kind in ("weakness", "pass", "bad", "silent", "good", "pending", "firing"):
        assert kind in kinds, kind
    timeline = sections(words)["Timeline"]
    for said in ("guard users: bad, 0.931", "below 99%", "guard payments: no data", "alert ZoneDown: firing", "zone=c"):
        assert said in timeline.partition("In words")[2], said
    assert timeline.partition("In words")[2].count("guard users: good") == 2


def test_a_guard_that_falls_silent_is_not_drawn_as_good() -> None:
    made = Making().asked().guard(10, "users", "good", 1.0, 1)
    made.add(1000, "day.end", outcome="inconclusive", exit_code=3, says="x")
    bands = [(str(attrs.get("class"))) for tag, attrs in drawn(made.done())[0].tags if tag == "g"]
    assert bands[-3:].count("good") == 1 and "silent" in bands


def test_many_guards_and_happenings_are_left_out_in_words() -> None:
    made = Making().asked()
    for n in range(500):
        made.guard(n + 1, f"guard-{n}", "good", 1.0, 1)
    _, words = drawn(made.done())
    assert "488 more guards and alerts are in the table only" in words
    assert "And 101 more, in the record" in words


@pytest.mark.parametrize(
    ("folder", "where"),
    [
        ("runs/1-a b", "./runs/1-a%20b/report.html"),
        ("javascript:alert(1)", "./javascript%3Aalert%281%29/report.html"),
        ("/etc", None),
        ("//evil.example/x", None),
        ("../other", None),
        ("a/../../b", None),
        (None, None),
        ("", None),
    ],
)
def test_a_link_leads_to_a_report_beside_the_page_or_nowhere(folder: str | None, where: str | None) -> None:
    assert link(folder) == where


# -- hostile names -------------------------------------------------------------------------------


def hostile(value: Any) -> Any:
    """The same with a hostile text wherever there was a text, but for what is a fixed word or a time."""
    if isinstance(value, dict):
        fixed = ("kind", "t", "outcome", "state", "verdict", "counts_as")
        return {key: each if key in fixed else hostile(each) for key, each in value.items()}
    if isinstance(value, list):
        return [hostile(each) for each in value]
    return HOSTILE if isinstance(value, str) else value


@pytest.mark.parametrize("name", RECORDS)
def test_hostile_names_are_text_and_short(name: str) -> None:
    lines = hostile(RECORDS[name]())
    html = page(lines, hostile(days.runs()), [hostile(days.good())], head=HOSTILE)
    made = Page(html)
    assert made.open == [] and not made.scripts
    assert not [tag for tag, _ in made.tags if tag in ("script", "img")]
    assert not [attrs for _, attrs in made.tags if any(key.startswith("on") for key in attrs)]
    assert "{{ 7*7 }}" in html
    assert max(map(len, re.findall(r"w+", made.words))) <= 700
    for bad in ("\x1b", "\x00", "\u202e"):
        assert bad not in html


@pytest.mark.parametrize("name", RECORDS)
def test_hostile_names_make_no_markup_of_markdown(name: str) -> None:
    made = markdown(hostile(RECORDS[name]()), hostile(days.runs()))
    assert "<script" not in made and "\n<" not in made
    assert all(line == "" or line.startswith(("## ", "### ", "**", "- [ ] ", "Nothing")) for line in made.split("\n"))


# -- what stays to do, and the trend -------------------------------------------------------------


def test_markdown_is_a_list_to_tick() -> None:
    made = flat(markdown(days.whole(), days.runs()).replace("\\", "").replace("\u200b", ""))
    assert "## ❌ Game day staging-tuesday: weakness" in made
    assert "- [ ] Mend what zone-black-hole found, or accept it: write.good &gt;= 99% in dark: measured 93.1 %" in made
    assert "- [ ] Mend the alert WritesFailing: never fired: a silent alert" in made
    assert "- [ ] Mend the announcement by slack to env:SLACK: end was not told: it answers 500" in made
    assert "- [ ] See why the alert HighLatency is still firing" in made


def test_nothing_stays_to_do_only_where_all_held() -> None:
    assert summary.to_do(days.good()) == []
    assert markdown(days.good()).endswith("\nNothing.\n")
    for name, make in RECORDS.items():
        assert (summary.to_do(make()) == []) == (name == "good")
    quiet = changed(days.good(), "day.end", exit_code=3)
    assert "the hypothesis is open" in markdown(quiet)


def test_the_trend_is_in_the_order_of_time_and_names_what_did_not_run() -> None:
    past = [days.good("2026-11-17T09:00:00+00:00"), days.refused(), days.good("2026-11-10T09:00:00+00:00")]
    trend = summary.trend(past)
    assert trend.experiments == ("data-node-kill", "zone-black-hole")
    assert [each.when for each in trend.days] == ["2026-11-10 09:00", "2026-11-17 09:00", "2026-11-24 09:00"]
    assert [each.held for each in trend.days] == ["pass", "pass", "inconclusive"]
    assert trend.days[2].cells == (None, None) and trend.days[0].cells[1] == ("pass", days.HELD)
    assert summary.trend([days.good()] * 11).left_out == 3
    assert summary.trend([[], [{}]]).days[0].outcome == "none"
