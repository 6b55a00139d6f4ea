"""What a run asks of a cluster before its load begins: of a lab more than of a cluster of others."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.load import drivers
from chaos.run import loading


@pytest.mark.parametrize(("there", "asked"), [(None, 1), (object(), 0)], ids=["a lab", "a cluster of others"])
def test_only_a_lab_is_told_to_try_again_where_allocation_gave_up(
    there: Any, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[tuple[Any, ...]] = []
    monkeypatch.setattr(loading, "administer", lambda *what: requests.append(what))
    run: Any = SimpleNamespace(there=there, lab="lab")
    loading.Loading.allocate_again(run)
    assert requests == [("lab", "POST", "/_cluster/reroute?retry_failed=true&metric=none")] * asked


class Words:
    """A load whose ``processes`` speak once a second each, in turn, as ``good`` says for the time (s) of each word; and
    the clock that goes on while it is looked at."""

    def __init__(self, processes: int, good: Callable[[float], bool]) -> None:
        self.now, self.good = 100.0, good
        self.began = [100.0 + number / processes for number in range(processes)]

    @property
    def status(self) -> dict[str, Any]:
        return drivers.merged([self.word(began) for began in self.began]) if len(self.began) > 1 else self.word(100.0)

    def word(self, began: float) -> dict[str, Any]:
        at = began + (self.now - began) // 1
        if at < began + 1:
            return {}
        figures = {"ok": 5, "bad": 0 if self.good(at) else 1, "good": 5, "waiting": 0, "p50_ms": 1.0, "p99_ms": 2.0}
        rest = {**dict.fromkeys(drivers.SUMS, 0), **dict.fromkeys(drivers.WORST, 0.0)}
        return {"t": round(at * 1e9), **rest, "operations": {"write": figures}}

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def warm(monkeypatch: pytest.MonkeyPatch, load: Words) -> tuple[float, bool]:
    """Seconds from the first word on until it is warm, and whether it was steady then."""
    clock = SimpleNamespace(monotonic=lambda: load.now, sleep=load.sleep)
    monkeypatch.setattr(loading, "time", clock)
    said: list[dict[str, Any]] = []
    run: Any = SimpleNamespace(
        driver=load,
        experiment=SimpleNamespace(load=SimpleNamespace(operations=[SimpleNamespace(name="write", good_within=1.0)])),
        events=SimpleNamespace(write=lambda kind, **event: said.append(event)),
        reporter=SimpleNamespace(line=lambda says: None),
        stage=lambda name: None,
        tick=lambda says: None,
        say_what_can_be_decided=lambda: None,
    )
    loading.Loading.warm_up(run)
    (told,) = said
    return load.now - load.began[-1] - 1, told["steady"]


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_five_seconds_in_a_row_are_five_however_many_processes_speak(
    processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each word is of the second before it, so of one process the fifth word ends them."""
    after, steady = warm(monkeypatch, Words(processes, lambda at: True))
    assert steady and 3.9 <= after <= (4.2 if processes == 1 else 5.0)


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_one_bad_word_begins_them_anew(processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    load = Words(processes, lambda at: at != 104.0)
    after, steady = warm(monkeypatch, load)
    assert steady and load.now >= 109.0 - 0.1 and after < 10.0
    assert warm(monkeypatch, Words(processes, lambda at: at % 4))[1] is False
