"""A game day's page on paper, on a phone and on a screen, by a real browser: all of it is there, and nothing is cut
off, whatever names are in its record."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import days
import pytest
from browser.test_report_in_browser import CHROMIUM, browse
from unit.gamedays.test_page import RECORDS, hostile

from chaos.gamedays.page import page

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine: apt-get install chromium"),
]
PAPER = {"A4": 695, "Letter": 717}
"""Width between the margins in CSS pixels: 96 to the inch, 13 mm on either side."""
SECTIONS = ["todo", "experiments", "timeline", "touched", "stops", "gates", "alerts", "guards", "announced"]
SECTIONS += ["trend", "record"]
LANE = 196
"""Where the names of the timeline's lanes must end, for bands begin there."""
PROBE = """
<p id=said>none</p>
<script>
  const measured = (frame, wide, paper) => {
    const inside = frame.contentDocument, view = frame.contentWindow
    const called = each => each.tagName + "." + each.getAttribute("class") + " " + each.textContent.trim().slice(0, 40)
    const seen = each => each.checkVisibility({contentVisibilityAuto: true, visibilityProperty: true})
    const every = [...inside.querySelectorAll("main *")].filter(seen)
    const carries_on = each => !paper && each.closest(".scroll")  // nobody scrolls paper
    const beyond = each => {
      const box = each.getBoundingClientRect()
      return box.right > wide + 1 || box.left < -1
    }
    const cut = each => view.getComputedStyle(each).overflowX != "visible" && each.scrollWidth > each.clientWidth + 1
    const late = each => each.getBBox().x < 0 || each.getBBox().x + each.getBBox().width > LANE
    const wrong = {
      beyond: every.filter(each => !each.closest("svg") && !carries_on(each) && beyond(each)),
      cut: every.filter(each => !(each instanceof view.SVGElement) && !carries_on(each) && cut(each)),
      late: [...inside.querySelectorAll("figure .scroll text.label")].filter(late),
      empty: [...inside.querySelectorAll("section")].filter(each => each.innerText.trim().length < 20),
      hidden: paper ? [...inside.querySelectorAll("tbody tr")].filter(each => !seen(each)) : [],
    }
    return {
      wide: inside.documentElement.scrollWidth <= wide,
      sections: [...inside.querySelectorAll("section h2[id]")].filter(seen).map(each => each.id),
      wrong: Object.fromEntries(Object.entries(wrong).filter(([_, all]) => all.length)
        .map(([what, all]) => [what, all.slice(0, 5).map(called)])),
    }
  }
  const looked = CASES.map(([file, wide]) => new Promise(done => {
    const frame = document.createElement("iframe")
    frame.style = `width:${wide}px;height:1000px;border:0`
    frame.onload = () => done(measured(frame, wide, file.includes("printed")))
    frame.src = file
    document.body.append(frame)
  }))
  Promise.all(looked).then(all => { said.textContent = "found:" + JSON.stringify(all) + ":end" })
</script>"""


def written(folder: Path, names: str) -> None:
    """The pages of all records, on screens and as print; ``names``: those of a team, or hostile ones.

    No option gives a page on a screen the rules for print, so these hold for all media there."""
    for name, record in RECORDS.items():
        lines, runs, earlier = record(), days.runs(), [days.good("2026-11-10T09:00:00+00:00")]
        if names == "hostile":
            lines, runs, earlier = hostile(lines), hostile(runs), [hostile(each) for each in earlier]
        made = page(lines, runs, earlier, head="ab" * 32)
        assert "@media print" in made
        (folder / f"{name}.html").write_text(made, encoding="utf-8")
        (folder / f"{name}-printed.html").write_text(made.replace("@media print", "@media all"), encoding="utf-8")


def measured(folder: Path, cases: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """What a browser shows of files at widths."""
    probe = folder / "probe.html"
    probe.write_text(PROBE.replace("CASES", json.dumps(cases)).replace("LANE", str(LANE)), encoding="utf-8")
    options = ("--dump-dom", "--virtual-time-budget=8000", "--allow-file-access-from-files")
    shown = browse(folder / "profile", probe.as_uri(), *options)
    said = re.search(r"found:(\[.*?\]):end<", shown.stdout, re.S)
    assert said is not None, (shown.stdout[-500:], shown.stderr[-500:])
    return list(json.loads(html.unescape(said[1])))


WHOLE = {"wide": True, "sections": SECTIONS, "wrong": {}}


@pytest.mark.parametrize("names", ["a team's", "hostile"])
def test_on_paper_all_of_it_is_there_and_nothing_is_cut_off(names: str, tmp_path: Path) -> None:
    written(tmp_path, names)
    cases = [(f"{name}-printed.html", width) for name in RECORDS for width in PAPER.values()]
    for case, found in zip(cases, measured(tmp_path, cases), strict=True):
        assert found == WHOLE, case
    sheet = tmp_path / "sheet.pdf"
    browse(tmp_path / "profile", (tmp_path / "whole.html").as_uri(), f"--print-to-pdf={sheet}")
    assert sheet.read_bytes().startswith(b"%PDF") and sheet.stat().st_size > 10_000


@pytest.mark.parametrize("names", ["a team's", "hostile"])
def test_on_a_phone_and_on_a_screen_nothing_is_wider(names: str, tmp_path: Path) -> None:
    written(tmp_path, names)
    cases = [(f"{name}.html", width) for name in RECORDS for width in (390, 1280)]
    for case, found in zip(cases, measured(tmp_path, cases), strict=True):
        assert found == WHOLE, case
