"""Sections that checks and instruments bring: in their order, drawn, and each with an anchor of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import synthetic
from pages import Page

from chaos.base.errors import InvalidInput
from chaos.checks import catalogue, evaluate, instruments
from chaos.checks.record import Record
from chaos.checks.section import Row, Section
from chaos.history import History
from chaos.report import render_html

CHECKS, INSTRUMENTS = catalogue.checks(), instruments.every()


def told(id: str) -> Callable[[Record, Mapping[str, Any]], Section | None]:
    """Makes a section of one row, with the number of the run's phases."""
    return lambda record, tables: Section(
        id,
        f"Title of {id}",
        f"Short {id}",
        f"Says {id}",
        head=("A", "B#"),
        rows=(Row("<b>", (f"{len(record.spans)}",)),),
    )


def page(monkeypatch: pytest.MonkeyPatch, checks: Mapping[str, str], of_instruments: Mapping[str, str]) -> Page:
    """The page of a run without an election, where these checks and instruments bring sections of these ids."""
    changed = {
        metric: replace(each, section=told(checks[metric]) if metric in checks else None)
        for metric, each in CHECKS.items()
    }
    others = tuple(
        replace(each, section=told(of_instruments[each.name]) if each.name in of_instruments else None)
        for each in INSTRUMENTS
    )
    monkeypatch.setattr(catalogue, "checks", lambda: changed)
    monkeypatch.setattr(instruments, "every", lambda: others)
    history: History = synthetic.slow_zone().history()
    return Page(render_html(history, evaluate(history).to_json()))


def test_those_of_checks_come_first_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = list(CHECKS)
    first, second = metrics[3], metrics[7]
    drawn = page(monkeypatch, {second: "theirs", first: "mine"}, {INSTRUMENTS[0].name: "observed"})
    heads = [a["id"] for tag, a in drawn.tags if tag == "h2" and a.get("id") in ("mine", "theirs", "observed")]
    links = [a["href"] for tag, a in drawn.tags if tag == "a" and a.get("href") in ("#mine", "#theirs", "#observed")]
    assert heads == ["mine", "theirs", "observed"] and links == [f"#{head}" for head in heads]
    words = " ".join(drawn.words.split())
    assert "Title of mine Says mine A B <b> 4 Title of theirs Says theirs A B <b> 4 Title of observed" in words


def test_an_anchor_that_is_there_twice_is_refused_with_who_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    metric, name = next(iter(CHECKS)), INSTRUMENTS[0].name
    with pytest.raises(InvalidInput) as caught:
        page(monkeypatch, {metric: "mine"}, {name: "mine"})
    assert str(caught.value) == (
        f"the instrument '{name}' brings a section of the report with the id 'mine', "
        f"which the check '{metric}' has already; "
        "give it another id, or uninstall the package that brings it, and draw the report again"
    )


@pytest.mark.parametrize("id", ["plan", "readback", "headroom", "overview-title"])
def test_an_anchor_of_the_page_itself_is_refused(monkeypatch: pytest.MonkeyPatch, id: str) -> None:
    with pytest.raises(InvalidInput, match=f"with the id '{id}', which the page itself has already"):
        page(monkeypatch, {next(iter(CHECKS)): id}, {})
