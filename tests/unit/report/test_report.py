"""The report's files: self-contained, escaped, complete for every story, and what CI reads from them."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import synthetic
from pages import Page

from chaos.checks import evaluate
from chaos.checks.record import Record
from chaos.report import interactive, junit_xml, render, render_html, timeline


def page_of(story: synthetic.Story) -> str:
    history = story.history()
    return render_html(history, json.loads(json.dumps(evaluate(history).to_json())))


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {name: page_of(make()) for name, make in synthetic.STORIES.items()}


def test_the_window_in_which_a_fault_vanished_is_in_the_headline_the_figure_and_its_evidence(
    pages: dict[str, str],
) -> None:
    words = " ".join(Page(pages["vanished"]).words.split())
    assert "Nothing proven: +300ms on links to zone c: gone before its time, between 41.0 s and 43.0 s" in words
    assert "gone before its time between 41.0 s and 43.0 s: +300ms on links to zone c" in words
    assert "held until its undo" in words and "new connection a-data → c-data" in words
    assert "gone before its time" not in pages["slow_zone"]


@pytest.mark.parametrize("story", synthetic.STORIES)
def test_a_page_is_balanced_self_contained_and_small(story: str, pages: dict[str, str]) -> None:
    page = Page(pages[story])
    assert page.open == []
    names = {name for name, _ in page.tags}
    assert not names & {"img", "iframe", "object", "embed", "base", "form"}
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert sorted(map(str, ids)) == sorted(set(map(str, ids)))
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href", "action", "xlink:href"):
            if tag == "a" and name in attributes:
                place = attributes[name] or ""
                assert place.startswith("#") and place[1:] in ids, place
            elif name in attributes:
                assert (tag, attributes[name]) == ("link", "data:,")
    style = pages[story].split("<style>")[1].split("</style>")[0]
    assert "url(" not in style and "@import" not in style
    drawn = re.sub(r"<script.*?</script>", "", pages[story], flags=re.S)
    assert all(reference.startswith("#") for reference in re.findall(r"url\(([^)]*)\)", drawn))
    assert len(pages[story].encode()) < 1_500_000


@pytest.mark.parametrize("story", synthetic.STORIES)
def test_the_only_script_is_ours_and_the_page_allows_no_other(story: str, pages: dict[str, str]) -> None:
    page = Page(pages[story])
    *data, ours = page.scripts
    assert ours == str(interactive.script())
    kinds = [attributes.get("type") for tag, attributes in page.tags if tag == "script"]
    assert kinds == ["application/json"] * len(data) + [None]
    digest = base64.b64encode(hashlib.sha256(ours.encode()).digest()).decode()
    policy = next(a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy") or ""
    assert f"script-src 'sha256-{digest}';" in policy and "default-src 'none'" in policy
    for each in data:
        columns = json.loads(each)
        number = len(columns["good"])
        assert number <= timeline.MOST_FINE_BINS
        assert all(len(columns[name]) == number for name in (*timeline.KINDS, "p50", "p99"))


@pytest.mark.parametrize("story", [name for name in synthetic.STORIES if name != "hostile"])
def test_the_first_screen_says_what_happened(story: str, pages: dict[str, str]) -> None:
    findings = evaluate(synthetic.STORIES[story]().history())
    page = Page(pages[story])
    words = re.sub(r"\s+", " ", page.words)
    assert re.sub(r"\s+", " ", findings.summary) in words
    for expected in (
        "Good arrivals",
        "Outage-equivalent",
        "Error budget of a month",
        "Why to trust it",
        "Run it again",
    ):
        assert expected in words


def test_every_mark_has_its_word(pages: dict[str, str]) -> None:
    for word in ("missed", "held", "known weakness"):
        assert word in Page(pages["black_hole"]).words
    assert "not proven" in Page(pages["unproven"]).words


def test_lost_ids_and_dirt_are_named(pages: dict[str, str]) -> None:
    words = Page(pages["lost_writes"]).words
    assert "w-7" in words and "w-9 (not on c-data)" in words and "Dirty" in words
    assert "oschaos-k3v9-b-data could not be removed" in words


def test_documents_with_other_content_are_named_with_their_copies() -> None:
    story = synthetic.slow_zone()
    says = "not found by amber; found by a word that no text has"
    item = {"id": "w-9", "on": ["c-data"], "right_on": ["a-data", "b-data"], "says": says}
    assert story.readback is not None
    story.readback |= {"wrong_content": ["w-9"], "wrong_content_count": 1, "wrong_index": [item]}
    story.readback |= {"wrong_index_count": 1}
    words = Page(page_of(story)).words
    assert "1 acknowledged write has other content than was sent" in words
    assert "w-9 (index on c-data alone)" in words and says in words


def test_a_killed_run_says_what_is_missing(pages: dict[str, str]) -> None:
    words = Page(pages["killed"]).words
    for gap in ("the end of the run", "the read-back of acknowledged writes", "the record of clean-up", "never ran"):
        assert gap in words


def test_an_abort_says_how_long_it_took(pages: dict[str, str]) -> None:
    assert "Everything was undone 310 ms after the stop was asked for" in Page(pages["aborted"]).words
    assert "after the stop was asked for" not in Page(pages["slow_zone"]).words


def test_hostile_names_stay_text_and_stay_short(pages: dict[str, str]) -> None:
    page = Page(pages["hostile"])
    assert "document.title" in page.words
    assert "<script>" in page.words
    assert len(pages["hostile"]) < 2 * len(pages["slow_zone"])
    assert "y" * 1000 not in pages["hostile"]
    assert "{{7*7}}" in page.words


def test_every_figure_has_words_and_a_table(pages: dict[str, str]) -> None:
    page = Page(pages["slow_zone"])
    figures = [attributes for tag, attributes in page.tags if tag == "svg" and attributes.get("role") == "img"]
    assert len(figures) >= 3
    ids = {attributes.get("id") for _, attributes in page.tags}
    for figure in figures:
        labels = (figure["aria-labelledby"] or "").split()
        assert len(labels) == 2 and set(labels) <= ids
    assert sum(tag == "details" for tag, _ in page.tags) >= len(figures)
    all_ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(all_ids) == len(set(all_ids))


def test_an_empty_folder_still_renders(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(synthetic.slow_zone().plan()))
    page = render(tmp_path)
    assert "Nothing was recorded that could be drawn" in page.read_text()
    (tmp_path / "plan.json").write_text("{}")
    assert "Error" in render(tmp_path).read_text()


def test_render_writes_three_files(tmp_path: Path) -> None:
    folder = synthetic.killed().write(tmp_path / "run")
    assert render(folder) == folder / "report.html"
    assert json.loads((folder / "findings.json").read_text())["outcome"] == "error"
    assert ET.parse(folder / "junit.xml").getroot().tag == "testsuites"
    first = (folder / "report.html").read_bytes()
    assert render(folder).read_bytes() == first


# -- JUnit ---------------------------------------------------------------------------------------


def suite_of(story: synthetic.Story) -> ET.Element:
    suite = ET.fromstring(junit_xml(json.loads(json.dumps(evaluate(story.history()).to_json())))).find("testsuite")
    assert suite is not None
    return suite


def kinds_of(suite: ET.Element) -> dict[str, str]:
    return {case.get("name", ""): next((child.tag for child in case), "passed") for case in suite.findall("testcase")}


def test_a_weakness_is_a_failure_and_a_known_one_is_skipped_with_its_reason() -> None:
    suite = suite_of(synthetic.black_hole())
    kinds = kinds_of(suite)
    assert kinds["read.good >= 99.9% in healthy"] == "passed"
    assert kinds["write.regained <= 30s in dark"] == "failure"
    assert kinds["read.p99 <= 0.5s in dark"] == "skipped"
    assert "issue 4711" in ET.tostring(suite, encoding="unicode")
    assert int(suite.get("failures", "")) == sum(kind == "failure" for kind in kinds.values())
    assert int(suite.get("tests", "")) == len(suite.findall("testcase"))


@pytest.mark.parametrize("story", ["killed", "unproven", "aborted", "lost_writes"])
def test_what_fails_the_command_fails_the_suite(story: str) -> None:
    suite = suite_of(synthetic.STORIES[story]())
    assert int(suite.get("errors", "")) > 0
    kinds = kinds_of(suite)
    if story == "lost_writes":
        assert kinds["clean-up"] == "error"
    elif story == "unproven":
        assert kinds["faults, steps and instruments are proven"] == "error"
    else:
        assert kinds["the run reached its end"] == "error"


def test_a_pass_has_neither_failures_nor_errors() -> None:
    suite = suite_of(synthetic.slow_zone())
    assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == ("0", "0", "0")


def test_characters_that_xml_forbids_are_replaced() -> None:
    story = synthetic.slow_zone()
    story.name = "bell \x07 and \x1b[31m"
    assert "\x07" not in ET.tostring(suite_of(story), encoding="unicode")


# -- timeline ------------------------------------------------------------------------------------


def build(story: synthetic.Story) -> timeline.Timeline:
    history = story.history()
    made = timeline.build(Record(history), evaluate(history).faults)
    assert made is not None
    return made


def test_everything_is_drawn_inside_the_figure() -> None:
    for make in synthetic.STORIES.values():
        made = build(make())
        for figure in made.figures:
            for bar in figure.bars:
                assert bar.x >= timeline.LEFT - 0.1 and bar.x + bar.width <= timeline.WIDTH
                for _, y, height in bar.parts:
                    assert y >= timeline.BAR_TOP - 0.1 and y + height <= timeline.BAR_TOP + timeline.BAR_HEIGHT + 0.1
        for band in made.bands:
            assert band.x >= timeline.LEFT and band.x + band.width <= timeline.WIDTH


def test_the_bars_add_up_to_the_arrivals() -> None:
    story = synthetic.black_hole()
    record = Record(story.history())
    for figure in build(story).figures:
        shown = sum(sum(bar.counts.values()) for bar in figure.bars)
        assert shown == len(record.arrivals[figure.op])


def test_labels_in_a_row_do_not_overlap() -> None:
    story = synthetic.slow_zone()
    for n in range(40):
        story.chapters[1].event(5 + n * 0.7, "cluster.leader", leader=f"node-{n}" if n % 2 else None)
    for row in range(6):
        edges = []
        for tick in build(story).events:
            if tick.row == row and tick.label:
                wide = len(tick.label) * timeline.CHARACTER
                edges.append(
                    (tick.text_x, tick.text_x + wide) if tick.anchor == "start" else (tick.text_x - wide, tick.text_x)
                )
        edges.sort()
        assert all(a[1] <= b[0] + 1 for a, b in itertools.pairwise(edges))


def test_a_long_run_is_binned() -> None:
    story = synthetic.slow_zone()
    story.rate = 10
    for chapter in story.chapters:
        chapter.seconds = 900
    figure = build(story).figures[0]
    assert len(figure.bars) <= timeline.MOST_BINS and figure.bin_text == "30 s"


def test_only_a_plain_colour_is_taken_from_a_run() -> None:
    assert timeline.safe_colour("#0a9Bcd", 0) == "#0a9Bcd"
    for odd in ("red", "#12345", "url(http://x)", '"><script>', None, 7):
        assert timeline.safe_colour(odd, 1) == timeline.PALETTE[1]
