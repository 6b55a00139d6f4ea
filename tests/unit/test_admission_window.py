"""How long a node takes every search: what is counted until it refuses one, and what is no refusal."""

from __future__ import annotations

from typing import Any

import admission_window as module
import pytest
import urllib3

from chaos.base.errors import LabError

REFUSAL = {
    "error": {
        "root_cause": [
            {
                "type": "rejected_execution_exception",
                "reason": "CPU usage admission controller rejected the request for action [x] as CPU limit reached",
            }
        ],
        "type": "search_phase_execution_exception",
        "reason": "all shards failed",
    },
    "status": 429,
}
FULL = {"error": {"type": "rejected_execution_exception", "reason": "rejected execution of x on y[queue capacity = 1"}}


def told(monkeypatch: pytest.MonkeyPatch, answers: list[tuple[int, Any]]) -> None:
    """Each second one answer."""
    moments = iter(range(1, 100))
    monkeypatch.setattr(module, "searched", lambda *_: answers.pop(0))
    monkeypatch.setattr(module, "uptime", lambda *_: (float(next(moments)), 1))
    monkeypatch.setattr(module, "EVERY_SECONDS", 0.0)


def test_searches_are_counted_until_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, [(200, {}), (200, {}), (429, REFUSAL)])
    found = module.until_refused(None, "a", "b")  # type: ignore[arg-type]
    assert found == {"first_search_s": 1.0, "searches": 2, "refused_s": 3.0, "counted": 1}


@pytest.mark.parametrize("answer", [(429, FULL), (503, {"error": "no"})])
def test_what_something_else_refuses_is_no_measurement(
    monkeypatch: pytest.MonkeyPatch, answer: tuple[int, Any]
) -> None:
    told(monkeypatch, [(200, {}), answer])
    with pytest.raises(LabError, match=f"answered {answer[0]}"):
        module.until_refused(None, "a", "b")  # type: ignore[arg-type]


def test_a_node_that_refuses_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, [(200, {})] * 90)
    monkeypatch.setattr(module, "GIVEN_UP_SECONDS", 0.0)
    with pytest.raises(LabError, match="refused no search"):
        module.until_refused(None, "a", "b")  # type: ignore[arg-type]


def test_a_node_is_back_once_it_answers_for_its_own_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, [(503, {}), (200, {})])
    assert not module.is_back(None, "a", "b")  # type: ignore[arg-type]
    assert module.is_back(None, "a", "b")  # type: ignore[arg-type]

    def dead(*_: Any) -> Any:
        raise urllib3.exceptions.ReadTimeoutError(None, "/", "no answer")  # type: ignore[arg-type]

    monkeypatch.setattr(module, "uptime", dead)
    assert not module.is_back(None, "a", "b")  # type: ignore[arg-type]
