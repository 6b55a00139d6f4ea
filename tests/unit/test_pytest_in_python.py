"""Tests in Python, in pytest runs of their own: what their runs say beside their asserts, on made-up runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import ROOT, topology
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Story, mixed
from unit.checks.test_ends import ITSELF, fact
from unit.checks.test_standing import held_up, story
from unit.test_pytest_plugin import Run, ran, run  # noqa: F401 (fixtures)

import chaos.run.execution
import chaos.run.in_python  # noqa: F401 - what a run of pytest inside this one loads first, it forgets
from chaos import pytest_plugin as plugin
from chaos.base.errors import InvalidInput
from chaos.checks import evaluate
from chaos.commands import python_runs
from chaos.commands.python_runs import Measured
from chaos.history import History, ends, seal
from chaos.history.format import Outcome
from chaos.run.options import RunResult

pytest_plugins = ["pytester"]

ASSERTS = "assert running.phases['back'].read.good >= 0.999"
Case = Callable[..., pytest.RunResult]


class Execution:
    """A run that is over before it began: its record is a made-up one."""

    def __init__(self, folder: Path, clean: bool, signalled: bool = False) -> None:
        self.folder, self._clean = folder, clean
        self.events = SimpleNamespace(write=lambda *_, **__: None)
        self.outcome, self.dirt = None, ["a toxic is left"]
        self.stop = SimpleNamespace(ended=None, signalled=signalled)

    @contextmanager
    def in_python(self) -> Iterator[None]:
        yield

    def report(self) -> RunResult:
        return RunResult(self.folder, evaluate(History.open(self.folder)).to_json(), self._clean, False)


@pytest.fixture
def case(run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Case:  # noqa: F811
    """Run one test whose load leaves a made-up run: ``case(story, "assert …")``."""

    def call(
        told: Story,
        *asserts: str,
        clean: bool = True,
        expect: str = "()",
        junit: bool = False,
        in_a_fixture: bool = False,
        signalled: bool = False,
    ) -> pytest.RunResult:
        folder = told.write(pytester.path / "reports" / "made-up")
        plan = json.loads((folder / "plan.json").read_text())
        plan |= {"rules": 2, "judged_by": "its Python test says whether it passed"}
        plan["experiment"] |= {"phases": [], "expect": []}

        def execution(**given: Any) -> Execution:
            plan["experiment"]["expect"] = [each.model_dump(mode="json") for each in given["expect"]]
            (folder / "plan.json").write_text(json.dumps(plan))
            seal.write(folder, "run", "the run ended")
            return Execution(folder, clean, signalled)

        pool = SimpleNamespace(get=lambda topology: SimpleNamespace(topology=topology), close=int)
        monkeypatch.setattr(plugin, "_pool", lambda config: pool)
        monkeypatch.setattr("chaos.run.in_python.python_execution", execution)
        (pytester.path / "topologies").mkdir()
        standby = (ROOT / "topologies" / "3az-standby.yaml").read_text()
        (pytester.path / "topologies" / "3az-standby.yaml").write_text(standby)
        body = "".join(f"    {line}\n" for line in asserts) or "    pass\n"
        head = "import pytest\nfrom pytest import approx\n"
        if in_a_fixture:
            head += f"@pytest.fixture\ndef running(load):\n    with load(expect={expect}) as one: yield one\n"
            test = f"@pytest.mark.chaos\ndef test_it(running):\n{body}"
        else:
            test = f"@pytest.mark.chaos\ndef test_it(load):\n    with load(expect={expect}) as running: pass\n{body}"
        test += "@pytest.mark.chaos\ndef test_next(lab): pass\n" if signalled else ""
        pytester.makepyfile(test_marked=head + test)
        return run("-m", "chaos", "-rA", *(["--junitxml=junit.xml"] if junit else []))

    return call


def paused(seconds: float = 0.8) -> Story:
    """The load driver was paused in the last phase, and what was due meanwhile was answered late."""
    told = story(held_up(3.0, seconds), ("driver", 3.0, 3.0 + seconds))
    told.expect = []
    return told


def sound() -> Story:
    told = story(held_up(3.0, 0.0))
    told.expect = []
    return told


def lost(told: Story, number: int = 20) -> Story:
    """Documents were deleted by an external actor that nothing saw."""
    assert told.readback is not None
    told.readback |= {"lost": [f"w-{n}" for n in range(number)], "lost_count": number}
    return told


def test_a_sound_run_is_what_its_asserts_say(case: Case) -> None:
    case(sound(), ASSERTS, "assert running.phases['back'].read.latency(0.99) < 1").assert_outcomes(
        passed=1, deselected=1
    )


def test_a_failed_assert_on_a_sound_run_is_red(case: Case) -> None:
    told = story(mixed((3.0, 3.8, 1.0, Outcome.TIMEOUT, 5.0)))
    told.expect = []
    outcome = case(told, ASSERTS)
    outcome.assert_outcomes(failed=1, deselected=1)
    assert "AssertionError" in outcome.stdout.str()


@pytest.mark.parametrize(
    "asserts",
    [
        (ASSERTS,),
        ("assert 1 - running.phases['back'].read.good < 0.001",),
        ("assert running.phases['back'].read.good == approx(1.0, abs=0.001)",),
        ("assert running.phases['back'].read.latency(0.99) < 0.1",),
        ("assert running.phases['back'].read.good < 0.98",),  # it would pass, by nothing but the pause
        ("bad = 100 * (1 - running.phases['back'].read.good)", "assert round(bad, 1) <= 0.1"),
        ("read = running.phases['back'].read", "assert float(read.good) >= 0.999"),
    ],
)
def test_an_assert_that_hangs_on_a_paused_driver_is_inconclusive(case: Case, asserts: tuple[str, ...]) -> None:
    outcome = case(paused(), *asserts, junit=True)
    outcome.assert_outcomes(errors=1, deselected=1)
    text = outcome.stdout.str()
    assert "the load driver" in text and "report.html" in text
    assert "python_runs.py" not in text and "pytest_plugin.py" not in text  # the user's business is not our code
    assert "<error" in Path("junit.xml").read_text() and "<failure" not in Path("junit.xml").read_text()


def test_an_assert_that_the_pause_does_not_touch_stands(case: Case) -> None:
    asserts = "assert running.phases['back'].read.good >= 0.9"
    case(paused(), asserts, "assert running.phases['healthy'].read.good >= 0.999").assert_outcomes(
        passed=1, deselected=1
    )


def test_lost_documents_are_red_though_no_assert_asks(case: Case) -> None:
    outcome = case(lost(sound()), ASSERTS, junit=True)
    outcome.assert_outcomes(failed=1, deselected=1)
    assert "20 acknowledged writes were lost" in outcome.stdout.str()
    assert "<failure" in Path("junit.xml").read_text()


def test_lost_documents_are_red_on_a_run_whose_numbers_hang_on_the_driver(case: Case) -> None:
    outcome = case(lost(paused()), ASSERTS)
    outcome.assert_outcomes(failed=1, deselected=1)
    assert "20 acknowledged writes were lost; the test itself: " in outcome.stdout.str()


def test_an_assert_that_failed_keeps_its_words_beside_lost_documents(case: Case) -> None:
    outcome = case(lost(sound()), "assert running.phases['back'].read.scheduled == 7")
    outcome.assert_outcomes(failed=1, deselected=1)
    assert "== 7" in outcome.stdout.str() and "and the run: 20 acknowledged writes were lost" in outcome.stdout.str()


def test_after_a_signal_no_other_test_begins(case: Case) -> None:
    """It came while the load's run was undone, so the test itself saw nothing of it."""
    outcome = case(sound(), signalled=True)
    assert outcome.ret == pytest.ExitCode.INTERRUPTED and "stopped by a signal" in outcome.stdout.str()
    outcome.assert_outcomes(passed=1, deselected=1)


def test_a_load_that_a_fixture_holds_is_judged_when_it_ends(case: Case) -> None:
    outcome = case(lost(sound()), in_a_fixture=True, junit=True)
    outcome.assert_outcomes(passed=1, errors=1, deselected=1)
    text = outcome.stdout.str()
    assert "20 acknowledged writes were lost" in text and "report.html" in text and "pytest_plugin.py" not in text
    assert "<error" in Path("junit.xml").read_text() and outcome.ret == pytest.ExitCode.TESTS_FAILED


def test_a_load_that_a_fixture_holds_and_that_proves_nothing_is_no_pass(case: Case) -> None:
    told = sound()
    without_readback(told)
    outcome = case(told, in_a_fixture=True)
    outcome.assert_outcomes(passed=1, errors=1, deselected=1)
    assert "read-back" in outcome.stdout.str()


def test_a_sound_load_that_a_fixture_holds_passes(case: Case) -> None:
    case(sound(), in_a_fixture=True).assert_outcomes(passed=1, deselected=1)


def test_a_load_of_the_test_is_judged_once(case: Case) -> None:
    outcome = case(lost(sound()), ASSERTS)
    outcome.assert_outcomes(failed=1, errors=0, deselected=1)


def test_a_loss_that_is_meant_is_said_with_its_reason(case: Case) -> None:
    line = "[{'acknowledged.lost': '<= 20', 'because': 'it is asynchronous'}]"
    case(lost(sound()), "assert running.readback['lost_count'] == 20", expect=line).assert_outcomes(
        passed=1, deselected=1
    )


def test_more_than_what_is_meant_is_red(case: Case) -> None:
    line = "[{'acknowledged.lost': '<= 20', 'because': 'it is asynchronous'}]"
    case(lost(sound(), 21), ASSERTS, expect=line).assert_outcomes(failed=1, deselected=1)


def without_readback(told: Story) -> None:
    told.readback = None


def a_fault_that_is_not_proven(told: Story) -> None:
    told.mutate = lambda events: [each for each in events if each.get("stage") != "effect"]


def a_node_ended(told: Story) -> None:
    told.chapters[1].event(9.0, ends.KIND, **fact())


def a_driver_that_sent_late(told: Story) -> None:
    told.lag = 0.08


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (without_readback, "read-back"),
        (a_fault_that_is_not_proven, "not proven to be in effect"),
        (a_node_ended, "a-data"),
        (a_driver_that_sent_late, "schedule lag"),
    ],
)
@pytest.mark.parametrize("asserts", [ASSERTS, "assert running.phases['back'].read.good < 0.5"])
def test_a_run_that_proves_nothing_is_neither_green_nor_red(
    case: Case, spoil: Callable[[Story], None], says: str, asserts: str
) -> None:
    told = sound()
    spoil(told)
    outcome = case(told, asserts)
    outcome.assert_outcomes(errors=1, deselected=1)
    assert says in outcome.stdout.str()


def test_a_late_driver_does_not_touch_a_test_that_reads_no_times(case: Case) -> None:
    told = sound()
    a_driver_that_sent_late(told)
    case(told, "assert running.readback['lost_count'] == 0").assert_outcomes(passed=1, deselected=1)


def test_a_node_that_ended_by_itself_is_red(case: Case) -> None:
    told = sound()
    told.chapters[1].event(9.0, ends.KIND, **fact(**ITSELF))
    outcome = case(told, ASSERTS)
    outcome.assert_outcomes(failed=1, deselected=1)
    assert "a-data" in outcome.stdout.str()


def test_a_run_that_ended_in_an_error_is_no_verdict(case: Case) -> None:
    told = sound()
    told.chapters[1].event(9.0, "error", says="the sampler failed")
    outcome = case(told, ASSERTS)
    outcome.assert_outcomes(errors=1, deselected=1)
    assert "the sampler failed" in outcome.stdout.str()


def test_a_dirty_run_is_red(case: Case) -> None:
    outcome = case(sound(), ASSERTS, clean=False)
    outcome.assert_outcomes(failed=1, deselected=1)
    assert "a toxic is left" in outcome.stdout.str()


def test_what_a_test_does_wrong_itself_stays_its_own(case: Case) -> None:
    outcome = case(lost(paused()), "running.phases['nowhere']")
    outcome.assert_outcomes(failed=1, deselected=1)
    assert "KeyError: 'nowhere'" in outcome.stdout.str()


# -- numbers ---------------------------------------------------------------------------------------


def refuse(says: str) -> Any:
    raise LookupError(says)


def measured(value: float, other: float) -> Measured:
    return Measured(value, {"without it": other}, refuse)


@given(st.floats(-10, 10), st.floats(-10, 10), st.floats(-10, 10))
def test_a_comparison_is_what_both_numbers_say_or_refused(value: float, other: float, target: float) -> None:
    for name in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"):
        alike = getattr(value, name)(target) == getattr(other, name)(target)
        if alike:
            assert getattr(measured(value, other), name)(target) is getattr(value, name)(target)
        else:
            with pytest.raises(LookupError, match="without it"):
                getattr(measured(value, other), name)(target)


@given(st.floats(-10, 10), st.floats(-10, 10), st.floats(1, 10))
def test_arithmetic_goes_on_with_both(value: float, other: float, by: float) -> None:
    number = measured(value, other)
    made = [
        1 - number,
        number + by,
        by + number,
        number - by,
        number * by,
        by * number,
        number / by,
        -number,
        abs(number),
    ]
    for each, function in zip(
        made,
        [
            lambda x: 1 - x,
            lambda x: x + by,
            lambda x: by + x,
            lambda x: x - by,
            lambda x: x * by,
            lambda x: by * x,
            lambda x: x / by,
            lambda x: -x,
            abs,
        ],
        strict=True,
    ):
        assert (float(each), each.others["without it"]) == (function(value), function(other))
    both = number - measured(other, value)
    assert (float(both), both.others["without it"]) == (value - other, other - value)


def test_what_is_no_number_is_compared_as_ever() -> None:
    assert measured(0.9, 1.0) != "0.9" and (measured(0.9, 1.0) == None) is False  # noqa: E711
    assert f"{measured(0.944, 1.0):.1%}" == "94.4%" and hash(measured(0.9, 1.0)) == hash(0.9)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"acknowledged.lost": "<= 5"}, 'because: "why"'),
        ({"phase": "slow", "read.good": ">= 99%"}, "assert on running.phases"),
        ({"cas.violations": 0}, "operations that it does not have"),
        ({"acknowledged.lots": 0}, "expect\\[0\\] of the load"),
        ({"acknowledged.lost": 0, "known_weakness": "it is known"}, "takes no known_weakness"),
        ({"acknowledged.lost": ">= 0", "because": "any loss passes"}, "acknowledged.lost >= 0 can never fail"),
        ({"documents.stored_twice": ">= 0"}, "documents.stored_twice >= 0 can never fail"),
        ({"acknowledged.lost": "< 0"}, "acknowledged.lost < 0 can never hold"),
        ({"durable.lost": 0}, "durable.lost is of what a store alone gives back"),
        ({"restores.incomplete": 0}, "restores.incomplete is about the action restore"),
        ({"documents.lost_untold": 0}, "is about what a helper of a client library tells"),
        ({"replicas.stale": 0}, "is of replicas that copy segments"),
    ],
)
def test_a_wrong_line_of_a_load_is_refused(line: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        python_runs.lines([line], topology("3az-standby"))


@pytest.mark.parametrize(
    ("lines", "operations", "says"),
    [
        ([{"acknowledged.lost": 0}] * 2, ("write",), "acknowledged.lost = 0 is already expectation 1"),
        (
            [{"documents.stored_twice": 0}, {"documents.stored_twice": "> 3"}],
            ("read", "write"),
            "documents.stored_twice > 3 contradicts = 0",
        ),
        ([{"acknowledged.lost": 0}], ("read",), "is about documents that the load writes, and it writes none"),
    ],
)
def test_lines_of_a_load_are_held_against_each_other_and_against_the_load(
    lines: list[dict[str, Any]], operations: tuple[str, ...], says: str
) -> None:
    with pytest.raises(InvalidInput, match=says):
        python_runs.lines(lines, topology("3az-standby"), operations)


def test_lines_that_decide_something_are_expectations_of_the_whole_run() -> None:
    (lost,) = python_runs.lines(
        [{"acknowledged.lost": "<= 5", "because": "one copy is enough here"}], topology("3az-standby"), ("write",)
    )
    assert (lost.text, lost.phases, lost.because) == ("acknowledged.lost <= 5", (), "one copy is enough here")
    assert python_runs.lines([], topology("3az-standby"), ()) == ()
