"""What is kept of the search for acknowledged writes that a promoted replica skips, and its table."""

from __future__ import annotations

import promotion_loss

ROW = {"opensearch": "2.19.6", "seconds": 3601.0, "cycles": 200, "acknowledged": 60000, "lost": [], "commit": "abc"}


def test_a_search_that_found_nothing_says_so_and_one_that_did_says_how_much() -> None:
    none, some = promotion_loss.table([ROW, {**ROW, "lost": [[7, 3], [9, 1]]}]).splitlines()[2:]
    assert none == "| 2.19.6 | 60 | 200 | 60000 | none | abc |"
    assert "| 2 (4 writes) |" in some


def test_the_table_of_the_page_is_of_what_is_kept() -> None:
    page = promotion_loss.PAGE.read_text()
    assert promotion_loss.paged(page, promotion_loss.kept()) == page, "run: python benchmarks/promotion_loss.py --page"


def test_ids_are_asked_for_in_parts() -> None:
    assert list(promotion_loss.parts(["a", "b", "c"], 2)) == [["a", "b"], ["c"]]
