"""A stop is prompt: nobody waits for a look whose answer is no longer wanted."""

from __future__ import annotations

import threading

import pytest

from chaos.faults.patience import patiently


def test_an_answer_and_a_failure_come_through() -> None:
    assert patiently(lambda: 7, lambda: False, 0.0) == 7
    with pytest.raises(KeyError):
        patiently(lambda: {}["x"], lambda: False, 0.0)


def test_a_question_that_hangs_is_left_alone_after_a_stop() -> None:
    never = threading.Event()
    stop = threading.Event()
    threading.Timer(0.05, stop.set).start()
    assert patiently(never.wait, stop.is_set, 0.0) is None
    never.set()


def test_what_is_answered_within_the_grace_counts() -> None:
    answer = threading.Event()
    threading.Timer(0.05, answer.set).start()
    assert patiently(lambda: answer.wait(60), lambda: True, 60.0) is True
