"""What the client makes of answers that do not come, and of what workers say of themselves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from distributed import KilledWorker
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError

from chaos.base.errors import Exit
from chaos.campaign import dask_executor
from chaos.campaign.dask_order import Answer, Unfit


def future(answer: Any) -> Any:
    def result(timeout: float) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return SimpleNamespace(result=result)


@pytest.mark.parametrize(
    "error",
    [
        FutureCancelledError("k", "scheduler-connection-lost"),
        CommClosedError("gone"),
        TimeoutError(),
        KilledWorker("k", None, 3),
    ],
)
def test_an_answer_that_is_lost_is_none(error: Exception) -> None:
    """The scheduler may go between the end of a task and its answer: then the store says what was made."""
    assert dask_executor._fetched(future(error)) is None


def test_an_answer_that_came_is_read_and_a_mistake_of_ours_is_not_hidden() -> None:
    assert dask_executor._fetched(future(Answer("w", ("k",)).to_json())) == Answer("w", ("k",))
    with pytest.raises(ZeroDivisionError):
        dask_executor._fetched(future(ZeroDivisionError()))


@pytest.mark.parametrize(
    ("said", "unfit"),
    [
        (None, None),
        (Unfit("no root", Exit.USAGE).to_json(), Unfit("no root", Exit.USAGE)),
        (TimeoutError("it does not answer"), Unfit("TimeoutError: it does not answer", Exit.ERROR)),
        (CommClosedError("gone"), Unfit("CommClosedError: gone", Exit.ERROR)),
        (
            ModuleNotFoundError("No module named 'chaos'"),
            Unfit("opensearch-chaos cannot be loaded there (No module named 'chaos')", Exit.USAGE, True),
        ),
        (ValueError("x"), Unfit("ValueError: x", Exit.ERROR, True)),
    ],
)
def test_what_a_worker_said_of_itself(said: Any, unfit: Unfit | None) -> None:
    assert dask_executor._unfit(said) == unfit
