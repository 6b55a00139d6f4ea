"""Shares of runs: Fisher's exact test against counting every way, and what can be detected against drawing runs."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shipped import ROOT

from chaos.statistics.shares import chance_of_more, detectable, fewest_shown


def counted(bad_before: int, before: int, bad_after: int, after: int) -> float:
    """Every way to deal the bad runs to both sides."""
    bad, ways = bad_before + bad_after, 0
    deals = list(combinations(range(before + after), bad))
    for deal in deals:
        ways += sum(run >= before for run in deal) >= bad_after
    return ways / len(deals)


@given(st.integers(0, 6), st.integers(0, 6), st.data())
def test_the_chance_is_that_of_every_way_to_deal(before: int, after: int, data: st.DataObject) -> None:
    a, b = data.draw(st.integers(0, before)), data.draw(st.integers(0, after))
    assert chance_of_more(a, before, b, after) == pytest.approx(counted(a, before, b, after))


def test_a_known_table() -> None:
    """Fisher's lady tasting tea: all four of four right, by chance once in 70."""
    assert chance_of_more(0, 4, 4, 4) == pytest.approx(1 / 70)


def test_nothing_of_nothing_is_no_news() -> None:
    assert chance_of_more(0, 0, 0, 0) == 1 and chance_of_more(0, 5, 0, 5) == 1
    with pytest.raises(ValueError):
        chance_of_more(1, 0, 0, 5)


@pytest.mark.parametrize(("runs", "fewest"), [(1, None), (2, None), (3, 3), (5, 4), (20, 5)])
def test_the_fewest_bad_runs_that_show_something(runs: int, fewest: int | None) -> None:
    assert fewest_shown(runs, runs) == fewest
    assert (detectable(runs, runs) is None) == (fewest is None)


@pytest.mark.parametrize("runs", [3, 5, 10, 30])
def test_what_can_be_detected_is_so_often(runs: int) -> None:
    """Drawn from that very share, so many series show it; from half of it, clearly fewer."""
    share, drawn = detectable(runs, runs), random.Random(runs)
    assert share is not None

    def shown(p: float) -> float:
        bad = [sum(drawn.random() < p for _ in range(runs)) for _ in range(2000)]
        return sum(chance_of_more(0, runs, each, runs) <= 0.05 for each in bad) / len(bad)

    assert shown(share) == pytest.approx(0.8, abs=0.04)
    assert shown(share / 2) < 0.6


def test_more_runs_detect_less() -> None:
    found = [detectable(runs, runs) or 1.0 for runs in (3, 5, 10, 20, 50)]
    assert found == sorted(found, reverse=True) and found[1] == pytest.approx(0.834, abs=0.01)


@pytest.mark.parametrize("runs", [5, 10, 20])
def test_what_the_page_says_of_it(runs: int) -> None:
    said = (ROOT / "docs" / "statistics.md").read_text()
    assert f"{detectable(runs, runs):.0%}".replace("%", f" % with {runs}") in said
