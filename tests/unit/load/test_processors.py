from __future__ import annotations

from collections import namedtuple

from chaos.load.processors import busy

times = namedtuple("times", "user nice system idle iowait")


def test_idle_time_is_free_and_that_of_niced_processes_is_not():
    assert busy(times(0, 0, 0, 0, 0), times(1, 4, 1, 3, 1)) == 0.6


def test_no_time_has_no_share():
    assert busy(times(1, 1, 1, 1, 1), times(1, 1, 1, 1, 1)) is None
