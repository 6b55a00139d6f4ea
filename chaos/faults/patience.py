"""Waiting for an answer only as long as it is still wanted: what makes a stop prompt.

A look at the data path may take seconds (silence is proven by waiting), and whoever asks for a stop must not wait for
it. So a look is taken by a thread of its own, and is left alone when nobody wants its answer any more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
POLL_SECONDS = 0.02


def patiently(question: Callable[[], T], stopped: Callable[[], bool], grace: float) -> T | None:
    """The answer, or None when it was not there ``grace`` s after ``stopped`` became true.

    Raises what the question raises. A question that was left alone goes on until its own deadlines end it.
    """
    answers: list[T] = []
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            answers.append(question())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=ask, name="look", daemon=True)
    thread.start()
    until: float | None = None
    while thread.is_alive():
        if until is None and stopped():
            until = time.monotonic() + grace
        if until is not None and time.monotonic() >= until:
            return None
        thread.join(POLL_SECONDS)
    if failures:
        raise failures[0]
    return answers[0]
