"""What is kept of kills at random moments: each with its verdict, none taken out."""

from __future__ import annotations

import json

import kills
import pytest

NAME = "tests/cluster/test_on_hosts.py::test_killed_at_a_random_moment_hosts_are_as_before"
LOG = f"""\
{NAME}[0] seed 0, runner, cut off, fault.command of f1: nothing of it active after 50.0 s
PASSED
{NAME}[1] ERROR
{NAME}[2] seed 2, ssh, fault.undo of f3: nothing of it active after 14.5 s
FAILED
{NAME}[3] seed 3, ssh, fault.undo of f3: nothing of it active after 1.0 s
"""


def test_a_kill_without_a_verdict_is_none() -> None:
    found = kills.read(LOG, "abc")
    assert [(each["seed"], each["passed"]) for each in found] == [(0, True), (1, False), (2, False)]
    assert found[0] == {
        "seed": 0,
        "commit": "abc",
        "passed": True,
        "way": "runner, cut off",
        "moment": "fault.command of f1",
        "undone_after": 50.0,
    }


def test_one_after_which_something_was_left_did_not_pass() -> None:
    one = f"{NAME}[4] seed 4, ssh, fault.undo of f3: nothing of it active after 1.0 s\nPASSED\n"
    (found,) = kills.read(f"{one}{NAME}[4] ERROR\n", "abc")
    assert found["passed"] is False and found["undone_after"] == 1.0
    assert [each["passed"] for each in kills.read(f"{one}{NAME}[5] ERROR\n", "abc")] == [True, False]


def test_what_failed_stays_beside_what_passed_later() -> None:
    first = kills.read(LOG, "abc")
    later = kills.read(f"{NAME}[2] seed 2, ssh, fault.undo of f3: nothing of it active after 3.0 s\nPASSED\n", "def")
    every = kills.merged(first, later)
    assert kills.merged(every, later) == every and len(every) == 4
    said = kills.table(every)
    assert "Kills passed at 2 moments, 2 in all, on commits abc, def" in said
    assert "Failed at first and passed later: seeds 2." in said and "not passed since: seeds 1." in said
    assert "| ssh | 1 | 3 | 3 |" in said and "| runner, cut off | 1 | 50 | 50 |" in said


def test_ways_and_moments_may_have_many_words() -> None:
    day = "tests/cluster/test_gameday.py::test_stopped_at_a_random_moment_all_is_undone[3]"
    said = "seed 3, SIGTERM, nobody takes it, rest and host.begin of node-kill: nothing of it active after"
    (found,) = kills.read(f"{day} exit -9, ended after 21.5 s\n{said} 4.0 s\nPASSED\n", "abc")
    assert (found["way"], found["moment"]) == (
        "SIGTERM, nobody takes it",
        "rest and host.begin of node-kill",
    )
    assert found["ended_after"] == 21.5 and "| 1 | 4 | 4 | 22 |" in kills.table([found])


def test_a_series_has_kills_of_two_tests_by_seeds_of_their_own() -> None:
    """As tests/cluster/test_store_kills.py says them."""
    name = "tests/cluster/test_store_kills.py::test_a"
    log = f"""\
{name}_runner_killed_at_a_random_moment_leaves_nothing_of_its_store[3] seed 3, runner, store s3, second 7.4 of slow: \
nothing of it active after 6.1 s
PASSED
{name}_store_killed_at_a_random_moment_ends_its_run_without_a_verdict[13] seed 13, store s3, second 2.0 of slow: \
nothing of it active after 41.0 s
PASSED
"""
    found = kills.merged([], kills.read(log, "abc"))
    assert [(each["seed"], each["way"], each["moment"]) for each in found] == [
        (3, "runner, store s3", "second 7.4 of slow"),
        (13, "store s3", "second 2.0 of slow"),
    ]
    said = kills.table(found, kills.SERIES["store"])
    assert "| what was killed | kills |" in said
    assert "| runner, store s3 | 1 | 6 | 6 |" in said and "| store s3 | 1 | 41 | 41 |" in said


def test_of_a_series_that_nobody_ran_the_page_says_so() -> None:
    assert kills.table([], kills.SERIES["store"]) == "Not recorded yet."


@pytest.mark.parametrize("of", kills.SERIES)
def test_the_page_is_made_of_what_is_kept(of: str) -> None:
    series = kills.SERIES[of]
    page = series.page.read_text()
    kept = json.loads(series.kept.read_text()) if series.kept.exists() else []
    assert kept or of != "hosts"
    if kept or kills.BEGIN in page:
        assert f"{kills.BEGIN}\n{kills.table(kept, series)}\n{kills.END}" in page
