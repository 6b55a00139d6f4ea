"""A few tests of the box at the end of CI: when they are left out, what is a failure, and that the box always goes."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import psutil
import pytest
from fakes import ROOT
from kubebox import making, parts, sample
from kubebox.sample import LeftOut

from chaos.base import paths
from chaos.base.errors import Exit, InvalidInput, MissingPrerequisite

PLAIN = dict(os.environ)


class Box:
    """One that is there from the first command on; ``problems``: why it does not go."""

    name = "ci"

    def __init__(self, *problems: str) -> None:
        self.there = False
        self.problems = list(problems)

    def is_left(self) -> bool:
        return self.there

    def down(self) -> list[str]:
        self.there = False
        return self.problems


class Calls:
    """Commands that end as they are told: by an exit code, with words, or by an exception."""

    def __init__(self, box: Box, **ends: int | tuple[int, str] | BaseException) -> None:
        self.box, self.ends = box, ends
        self.asked: list[tuple[str, float]] = []
        self.environment: Mapping[str, str] = {}

    def __call__(
        self,
        what: str,
        command: Sequence[str],
        seconds: float,
        environment: Mapping[str, str],
        *,
        stays: bool = False,
    ) -> tuple[int, str]:
        verb = "tests" if "pytest" in command else command[-1]
        assert stays is (verb == "up"), "the box's processes go on, and no others"
        self.box.there = True
        self.asked.append((verb, seconds))
        self.environment = environment
        end = self.ends.get(verb, 0)
        if isinstance(end, BaseException):
            raise end
        return end if isinstance(end, tuple) else (end, "")


def tried(box: Box, calls: Calls) -> int:
    return sample.in_box(box, time.monotonic() + 100, calls)  # type: ignore[arg-type]


@pytest.mark.parametrize(("minutes", "built", "begins"), [(35, True, True), (35, False, False), (25, False, True)])
def test_it_begins_where_it_will_end_before_ci_takes_an_hour(minutes: float, built: bool, begins: bool) -> None:
    if not begins:
        with pytest.raises(LeftOut, match=r"too little time: 35 of 60 minutes have passed, and the box is still to be"):
            sample.room(minutes * 60, built=built)
        return
    seconds = sample.room(minutes * 60, built=built)
    assert minutes * 60 + seconds + sample.AWAY_SECONDS == 3600
    assert sample.ORDERLY_SECONDS + making.ENDED_SECONDS < sample.AWAY_SECONDS


def test_the_last_second_at_which_it_begins_is_the_one_that_is_named() -> None:
    last = sample.LIMIT_SECONDS - sample.AWAY_SECONDS - sample.NEEDED_SECONDS
    assert sample.room(last, built=True) == sample.NEEDED_SECONDS
    with pytest.raises(LeftOut, match="they need 12"):
        sample.room(last + 1, built=True)


def test_tests_that_pass_are_a_pass_in_a_state_of_their_own_and_the_box_goes() -> None:
    box = Box()
    calls = Calls(box)
    assert tried(box, calls) == 0 and not box.there
    assert [verb for verb, _ in calls.asked] == ["parts", "up", "tests"]
    assert all(0 < seconds <= 100 for _, seconds in calls.asked)
    assert calls.environment[sample.GIVEN] == "ci"
    state = calls.environment[paths.STATE_VARIABLE]
    assert state != os.environ.get(paths.STATE_VARIABLE) and not Path(state).exists()


@pytest.mark.parametrize("ends", [{"tests": 1}, {"tests": 5}, {"up": (int(Exit.ERROR), "error: no")}, {"parts": 1}])
def test_a_failure_is_a_failure_and_the_box_goes(ends: dict[str, int]) -> None:
    box = Box()
    assert tried(box, Calls(box, **ends)) == 1 and not box.there


@pytest.mark.parametrize("verb", ["parts", "up", "tests"])
@pytest.mark.parametrize("raised", [LeftOut("the time was over"), KeyboardInterrupt()])
def test_the_box_goes_at_the_limit_and_after_a_signal(verb: str, raised: BaseException) -> None:
    box = Box()
    with pytest.raises(type(raised)):
        tried(box, Calls(box, **{verb: raised}))
    assert not box.there


@pytest.mark.parametrize(
    ("verb", "code"), [("parts", Exit.USAGE), ("parts", Exit.ERROR), ("up", Exit.USAGE)]
)  # fmt: skip
def test_what_cannot_be_had_is_left_out_with_the_words_that_the_box_found(verb: str, code: Exit) -> None:
    box = Box()
    said = "   0.1s  building\nerror: Kubernetes is built with Go 1.25 or newer\n"
    with pytest.raises(LeftOut, match=r"^Kubernetes is built with Go"):
        tried(box, Calls(box, **{verb: (int(code), said)}))
    assert not box.there


@pytest.mark.parametrize("ends", [{}, {"tests": LeftOut("the time was over")}])
def test_a_box_that_does_not_go_is_a_failure_whatever_else(
    ends: dict[str, BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    box = Box("folder /x cannot be removed")
    assert tried(box, Calls(box, **ends)) == 1
    assert "could not take the Kubernetes box away: folder /x cannot be removed" in capsys.readouterr().out


def test_one_plain_line_says_why_and_nothing_is_begun(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lacks() -> None:
        raise MissingPrerequisite("a box's volumes need loop devices: there is no /dev/loop-control")

    monkeypatch.setattr(making, "refuse_unready", lacks)
    assert sample.run(0.0) == sample.UNAVAILABLE
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("left out: the tests of the Kubernetes box: ") and "/dev/loop-control" in line
    assert sample.run(3500.0) == sample.UNAVAILABLE
    (line,) = capsys.readouterr().out.splitlines()
    assert "58 of 60 minutes have passed" in line


def test_a_box_of_that_name_that_is_up_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Up(Box):
        def clear(self) -> list[str]:
            raise InvalidInput("box 'ci' is up")

    up = Up()
    up.there = True
    monkeypatch.setattr(sample, "refuse", lambda: None)
    monkeypatch.setattr(parts, "are_built", lambda: True)
    monkeypatch.setattr(sample.paths, "locked", lambda *_, **__: nullcontext(True))
    monkeypatch.setattr(sample, "Box", lambda name: up)
    monkeypatch.setattr(sample, "in_box", lambda *_: pytest.fail("it is begun"))  # never a real one
    assert sample.run(0.0) == sample.UNAVAILABLE and up.there
    assert capsys.readouterr().out == "left out: the tests of the Kubernetes box: box 'ci' is up\n"


def test_whether_it_is_built_is_seen_in_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(parts, "folder", lambda: tmp_path)
    for name in parts.BUILT:
        assert not parts.are_built()
        place = parts._place(name)
        place.parent.mkdir()
        place.touch()
    assert parts.are_built()


# ---- processes -----------------------------------------------------------------------------------------------------

STUBBORN = """
trap "" INT
setsid sleep 60 &
echo "error: it hangs beside $!" >&2
while true; do sleep 1; done
"""


def test_a_command_tells_its_exit_code_and_its_last_error() -> None:
    code, told = sample.call(
        "x", [sys.executable, "-c", "import sys; sys.exit('error: one\\nerror: two\\nmore')"], 20, PLAIN
    )
    assert code == 1 and sample.reason(told) == "two"
    assert sample.reason("Traceback\n  x\n") == "Traceback x"


def test_at_the_limit_a_command_that_does_not_want_to_end_goes_with_all_that_it_has_started(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sample, "ORDERLY_SECONDS", 0.2)
    with (
        sample.owning(),
        pytest.raises(LeftOut, match="the time was over during the tests, and CI takes 60 minutes"),
    ):
        sample.call("the tests", ["sh", "-c", STUBBORN], 1.0, PLAIN)
    said = re.search(r"error: it hangs beside (\d+)", capfd.readouterr().err)
    assert said is not None and not psutil.pid_exists(int(said[1]))


LEAVING = "setsid sleep 60 & echo left $! >&2; exit {code}"


@pytest.mark.parametrize(("stays", "code", "there"), [(True, 0, True), (True, 1, False), (False, 0, False)])
def test_what_a_command_leaves_behind_stays_only_where_it_is_to_and_the_command_ended_well(
    stays: bool, code: int, there: bool
) -> None:
    with sample.owning():
        _, told = sample.call("x", ["sh", "-c", LEAVING.format(code=code)], 20, PLAIN, stays=stays)
        left = int(told.split()[1])
        try:
            assert psutil.pid_exists(left) is there
            # what another command leaves, it does not end either
            sample.call("y", ["sh", "-c", "true"], 20, PLAIN)
            assert psutil.pid_exists(left) is there
        finally:
            if there:
                os.kill(left, signal.SIGKILL)
                os.waitpid(left, 0)


def test_an_orphan_that_has_ended_is_gone_while_a_command_goes_on() -> None:
    """As where a machine's first process reaps it: tests look whether a process is gone."""
    look = "one=$(sh -c 'sleep 0.2 >/dev/null 2>&1 & echo $!'); test -e /proc/$one && sleep 1.5 && test ! -e /proc/$one"
    with sample.owning():
        assert sample.call("x", ["sh", "-c", look], 20, PLAIN)[0] == 0


def test_what_was_running_before_a_command_goes_on_after_it() -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        sample.call("x", [sys.executable, "-c", "pass"], 20, PLAIN)
        assert other.poll() is None
        other.kill()


def test_a_signal_interrupts_and_those_that_follow_are_for_nothing() -> None:
    assert threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    seen = []
    with pytest.raises(KeyboardInterrupt), sample.owning():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            seen.append("undone")
    assert seen == ["undone"] and signal.getsignal(signal.SIGTERM) is before


# ---- what is chosen ------------------------------------------------------------------------------------------------


def test_the_tests_that_are_chosen_are_there_and_use_the_box_that_is_given() -> None:
    file = ROOT / sample.SAMPLE[-1]
    functions = [each for each in ast.parse(file.read_text()).body if isinstance(each, ast.FunctionDef)]
    chosen = [each for each in functions if "pytest.mark.sample" in map(ast.unparse, each.decorator_list)]
    assert len(chosen) == 2 and all("box" in [each.arg for each in one.args.args] for one in chosen)
    (fixture,) = [each for each in functions if each.name == "box"]
    assert "sample.GIVEN" in ast.unparse(fixture)


def test_make_test_says_at_its_end_what_it_has_left_out() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "-n", "test"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    last = done.stdout.rstrip().rpartition("|| status=1;")[2]
    assert "left out: the tests of the Kubernetes box, because" in last and "make test-kubernetes" in last
    assert last.endswith("exit $status")
