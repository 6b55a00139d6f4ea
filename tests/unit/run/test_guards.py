"""Guards: each trips when it must and not before; one that cannot be evaluated says so, and is never off in silence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.base.errors import InvalidInput
from chaos.definitions.experiment import Guards
from chaos.instruments.sampler import ClusterRed
from chaos.run import guards
from chaos.targets.labs.processes import wait_until


def wanted(**given: Any) -> Guards:
    return Guards.model_validate(given)


def floor(status: Any, **given: Any) -> guards.Floor:
    limits = wanted(**{"read.good": {"below": "50%", "for": "3s"} | given}).read_good
    assert limits is not None
    return guards.Floor("read", limits, status)


class Status:
    """The driver's status stream, a word a second."""

    def __init__(self) -> None:
        self.said: dict[str, Any] = {}

    def __call__(self) -> dict[str, Any]:
        return self.said

    def second(self, t: int, good: int, bad: int, in_flight: int = 0) -> None:
        counted = {"read": {"ok": good, "bad": bad, "good": good}}
        self.said = {"t": t * 10**9, "in_flight": in_flight, "operations": counted}


def heard(guard: guards.Guard, status: Status, seconds: list[tuple[int, int, int]]) -> list[str | None]:
    """What the guard says in each of these seconds: (good, bad, in flight)."""
    said = []
    for t, (good, bad, in_flight) in enumerate(seconds, 1):
        status.second(t, good, bad, in_flight)
        said.append(guard.tripped(float(t)))
        assert guard.tripped(t + 0.1) is None or said[-1] is not None  # the same second counts once
    return said


def test_a_floor_trips_after_its_time_below_and_not_before() -> None:
    status = Status()
    said = heard(floor(status), status, [(9, 1, 0), (4, 6, 0), (4, 6, 0), (4, 6, 0)])
    assert said[:3] == [None, None, None]
    assert said[3] == "less than 50% of the reads were good for 3s (in the last second 40%)"


def test_one_good_second_begins_the_count_anew() -> None:
    status = Status()
    bad, good = (0, 10, 0), (5, 5, 0)
    assert heard(floor(status), status, [bad, bad, good, bad, bad]) == [None] * 5


def test_requests_that_nobody_answers_are_below_any_floor_and_no_requests_say_nothing() -> None:
    status = Status()
    assert heard(floor(status), status, [(0, 0, 7)] * 3)[-1] is not None
    status = Status()
    assert heard(floor(status), status, [(0, 0, 0)] * 9) == [None] * 9


def test_requests_of_others_that_are_waiting_say_nothing_of_a_stream_of_which_none_is() -> None:
    """Of a stream of five a minute most seconds have none, and others always have some under way."""
    for waiting, trips in ((0, False), (1, True)):
        said: dict[str, Any] = {"in_flight": 20}
        guard, told = floor(lambda said=said: said), []
        for t in range(1, 13):
            answered = {"ok": 1, "bad": 0, "good": 1} if t == 12 else {"ok": 0, "bad": 0, "good": 0}
            said |= {"t": t * 10**9, "operations": {"read": {**answered, "waiting": waiting}}}
            told.append(guard.tripped(float(t)))
        assert (told[2] is not None) is trips and any(told) is trips


def test_slow_is_not_good() -> None:
    status = Status()
    guard = floor(status)
    for t in (1, 2, 3):
        status.said = {"t": t, "in_flight": 0, "operations": {"read": {"ok": 10, "bad": 0, "good": 1}}}
        said = guard.tripped(float(t))
    assert said is not None


def test_a_driver_that_falls_silent_ends_the_run() -> None:
    status = Status()
    guard = floor(status)
    assert guard.tripped(0.0) is None and guard.tripped(guards.SILENT_SECONDS - 0.1) is None
    assert "cannot be evaluated" in (guard.tripped(guards.SILENT_SECONDS + 0.1) or "")
    status.second(1, 10, 0)
    assert guard.tripped(7.0) is None
    assert "has said nothing" in (guard.tripped(7.0 + guards.SILENT_SECONDS + 0.1) or "")


def test_red_and_the_longest_run() -> None:
    since: list[float | None] = [None]
    red = ClusterRed(20.0, "20s", lambda: since[0])
    longest = guards.Longest(60.0, "1m", lambda: since[0])
    assert red.tripped(1e9) is None and longest.tripped(1e9) is None  # never red; the phases have not begun
    since[0] = 100.0
    assert red.tripped(120.0) is None and longest.tripped(160.0) is None
    assert red.tripped(120.1) == "the cluster was red for longer than 20s"
    assert longest.tripped(160.1) == "the run took longer than 1m"


def test_a_kill_switch_trips_when_it_appears_and_when_nobody_could_see_it(tmp_path: Path) -> None:
    folder = tmp_path / "switch"
    folder.mkdir()
    guard = guards.StopFile(folder / "stop")
    assert guard.tripped(0.0) is None
    (folder / "stop").touch()
    assert guard.tripped(0.0) == f"the file {folder / 'stop'} is there"
    (folder / "stop").unlink()
    folder.rmdir()
    assert "cannot be evaluated" in (guard.tripped(0.0) or "")


def command(tmp_path: Path, script: str, **options: str) -> guards.Command:
    given = {"run": [sys.executable, "-c", script], "every": "10ms", "timeout": "20s"} | options
    made = wanted(command=given).command
    assert made is not None
    return guards.Command(made)


def test_a_command_is_asked_until_it_says_no(tmp_path: Path) -> None:
    counter = tmp_path / "asked"
    script = (
        f"import sys,pathlib; p=pathlib.Path({str(counter)!r}); n=len(p.read_text()) if p.exists() else 0;"
        "p.write_text('x'*(n+1)); print('the pager rang'); sys.exit(3 if n else 0)"
    )
    guard = command(tmp_path, script)
    try:
        assert wait_until(lambda: guard.tripped(0.0) is not None, 60)
        assert guard.tripped(0.0) == f"{sys.executable} ended with exit code 3: the pager rang"
        assert counter.read_text() == "xx"
    finally:
        guard.close()


def test_a_command_that_hangs_or_vanishes_ends_the_run(tmp_path: Path) -> None:
    guard = command(tmp_path, "import time; time.sleep(600)", timeout="200ms")
    try:
        assert wait_until(lambda: guard.tripped(0.0) is not None, 60)
        assert "gave no answer within 200ms" in (guard.tripped(0.0) or "")
    finally:
        guard.close()
    made = wanted(command={"run": [str(tmp_path / "gone")]}).command
    assert made is not None
    guard = guards.Command(made)
    assert wait_until(lambda: guard.tripped(0.0) is not None, 60)
    assert "cannot be evaluated" in (guard.tripped(0.0) or "")
    guard.close()


def test_closing_does_not_wait_for_a_command_that_hangs(tmp_path: Path) -> None:
    guard = command(tmp_path, "import time; time.sleep(600)", timeout="10m")
    guard.close()
    assert guard.tripped(0.0) is None


def test_no_shell_is_between(tmp_path: Path) -> None:
    made = wanted(command={"run": ["echo", "; exit 1"]}).command
    assert made is not None
    assert guards.Command(made)._ask() is None


def test_what_cannot_be_evaluated_is_refused_before_anything_starts(tmp_path: Path) -> None:
    guards.refuse_unready(wanted(command={"run": [sys.executable]}, stop_file=str(tmp_path / "stop")))
    with pytest.raises(InvalidInput, match="no program 'no-such-program'"):
        guards.refuse_unready(wanted(command={"run": ["no-such-program"]}))
    with pytest.raises(InvalidInput, match="no folder"):
        guards.refuse_unready(wanted(stop_file=str(tmp_path / "nowhere" / "stop")))
    (tmp_path / "stop").touch()
    with pytest.raises(InvalidInput, match="is there already; remove it"):
        guards.refuse_unready(wanted(stop_file=str(tmp_path / "stop")))


def test_the_watch_names_the_first_guard_that_trips_and_a_broken_one_is_one() -> None:
    class Broken:
        name = "broken"

        def tripped(self, now: float) -> str | None:
            raise KeyError("operations")

    asked: list[tuple[str, str]] = []
    with guards.Watch([Broken()], lambda why, name: asked.append((why, name))):
        assert wait_until(lambda: bool(asked), 60)
    assert asked == [("it cannot be evaluated: KeyError: 'operations'", "broken")]


def test_an_experiment_gets_the_guards_that_it_asks_for(tmp_path: Path) -> None:
    given = {
        "cluster.red": "20s",
        "read.good": {"below": "50%", "for": "10s"},
        "write.good": {"below": "10%", "for": "5s"},
        "stop_file": str(tmp_path / "stop"),
    }
    nothing: dict[str, Any] = {}
    made = guards.guards_of(wanted(**given), phases_began=lambda: None, status=lambda: nothing)
    assert [guard.name for guard in made] == ["max", "read.good", "write.good", "stop_file"]
    assert [guard.name for guard in guards.guards_of(wanted(), phases_began=lambda: None, status=lambda: nothing)] == [
        "max"
    ]
    assert guards.asked_of_instruments(wanted(**given)) == ["cluster.red"]
