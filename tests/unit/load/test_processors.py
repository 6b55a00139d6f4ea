from __future__ import annotations

from collections import namedtuple

from chaos.load.processors import busy, busy_of, places

times = namedtuple("times", "user nice system idle iowait")


def test_idle_time_is_free_and_that_of_niced_processes_is_not():
    assert busy(times(0, 0, 0, 0, 0), times(1, 4, 1, 3, 1)) == 0.6


def test_no_time_has_no_share():
    assert busy(times(1, 1, 1, 1, 1), times(1, 1, 1, 1, 1)) is None


def test_of_some_processors_theirs_counts_alone():
    before = [times(0, 0, 0, 0, 0), times(0, 0, 0, 0, 0)]
    after = [times(10, 0, 0, 0, 0), times(0, 0, 0, 10, 0)]
    assert busy_of(before, after, [0]) == 1.0
    assert busy_of(before, after, [1]) == 0.0
    assert busy_of(before, after, [0, 1]) == 0.5
    assert busy_of(before, after, [2]) is None  # one that was taken away meanwhile
    assert busy_of(before, before, [0]) is None


def test_places_are_those_among_processors_that_work(tmp_path):
    online = tmp_path / "online"
    online.write_text("0,2-3\n")
    assert places([3, 0], online) == [2, 0]
    assert places([1], online) == []
