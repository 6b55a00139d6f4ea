"""Programs beside the load, as real processes and without a cluster: what each end of one comes to."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from unit.run.test_asking import Lab
from unit.run.test_execution import execution

from chaos.base.errors import InvalidInput
from chaos.base.units import Duration
from chaos.definitions.programs import Program
from chaos.faults.ledger import standing
from chaos.run import beside
from chaos.run.stopping import Unproven
from chaos.targets.labs.processes import wait_until

OBEDIENT = "trap 'echo told; exit 0' TERM; echo on; while :; do sleep 0.05; done"


def program(script: str, within: float = 20, ready: tuple[str, ...] | None = None) -> Program:
    return Program(command=("sh", "-c", script), within=Duration(within), ready=ready)


def run_with(tmp_path: Path, **programs: Program) -> Any:
    (tmp_path / "logs").mkdir()
    made = execution(tmp_path, lab=Lab({}), folder=tmp_path, there=None)
    made.experiment = SimpleNamespace(programs=programs)
    made.instruments = SimpleNamespace(check=lambda: None, word=lambda: "")
    made.driver = SimpleNamespace(alive=True, status={})
    return made


def printed(tmp_path: Path, name: str) -> str:
    with suppress(FileNotFoundError):
        return (tmp_path / "logs" / f"program-{name}.log").read_text()
    return ""


def test_it_is_told_to_end_when_the_block_is_over_and_not_before(tmp_path: Path) -> None:
    made = run_with(tmp_path, shipper=program(OBEDIENT))
    with made.programs_on():
        assert wait_until(lambda: printed(tmp_path, "shipper") == "on\n", 20)
        made.tick("waiting")
        assert len(standing(made.ledger.path)) == 1 and made.events.of("program.over") == []
    assert printed(tmp_path, "shipper") == "on\ntold\n" and standing(made.ledger.path) == []
    (begun,), (over,) = made.events.of("program.begun"), made.events.of("program.over")
    assert begun["name"] == over["name"] == "shipper"
    assert (over["ok"], over["exit_code"], over["last"]) == (True, 0, ["on", "told"])


def test_one_that_has_done_its_work_before_is_well_and_what_it_left_in_its_session_is_ended(tmp_path: Path) -> None:
    made = run_with(tmp_path, job=program("sleep 600 >/dev/null 2>&1 & echo $!"))
    with made.programs_on():
        assert wait_until(lambda: printed(tmp_path, "job").strip().isdigit(), 20)

        def over() -> bool:
            made.tick("waiting")
            return bool(made.events.of("program.over"))

        assert wait_until(over, 20)
        state = Path(f"/proc/{printed(tmp_path, 'job').strip()}/stat")
        assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] in "ZX"
    assert [each["ok"] for each in made.events.of("program.over")] == [True]


def test_one_that_fails_meanwhile_ends_the_run_as_not_proven(tmp_path: Path) -> None:
    made = run_with(tmp_path, shipper=program("echo no room; exit 2"))
    with pytest.raises(Unproven, match="the program shipper: ended with exit code 2: no room"), made.programs_on():
        end = time.monotonic() + 20
        while time.monotonic() < end:
            made.tick("waiting")
            time.sleep(0.05)
    (over,) = made.events.of("program.over")
    assert (over["ok"], over["exit_code"], over["log"]) == (False, 2, "program-shipper.log")


@pytest.mark.parametrize(
    ("script", "within", "says"),
    [
        ("trap 'exit 3' TERM; echo on; while :; do sleep 0.05; done", 20.0, "ended with exit code 3"),
        ("trap 'kill -9 $$' TERM; echo on; while :; do sleep 0.05; done", 20.0, "ended with exit code 137"),
        ("trap '' TERM; echo on; while :; do sleep 0.05; done", 0.3, "did not end within 300ms, and was ended"),
    ],
)
def test_one_that_does_not_end_in_order_is_not_proven(tmp_path: Path, script: str, within: float, says: str) -> None:
    made = run_with(tmp_path, shipper=program(script, within))
    with pytest.raises(Unproven, match=says), made.programs_on():
        assert wait_until(lambda: printed(tmp_path, "shipper") == "on\n", 20)
    assert [each["ok"] for each in made.events.of("program.over")] == [False]
    assert standing(made.ledger.path) == []


def test_one_that_does_not_listen_for_the_signal_ends_by_it_and_that_is_well(tmp_path: Path) -> None:
    made = run_with(tmp_path, shipper=program("echo on; exec sleep 600"))
    with made.programs_on():
        assert wait_until(lambda: printed(tmp_path, "shipper") == "on\n", 20)
    assert [(each["ok"], each["exit_code"]) for each in made.events.of("program.over")] == [(True, 143)]


def test_by_that_signal_before_it_is_told_it_has_failed(tmp_path: Path) -> None:
    made = run_with(tmp_path, shipper=program("kill -TERM $$"))
    with pytest.raises(Unproven, match="ended with exit code 143"), made.programs_on():
        end = time.monotonic() + 20
        while time.monotonic() < end:
            made.tick("waiting")
            time.sleep(0.05)


def test_a_run_that_ends_early_ends_it_at_once_and_asks_nothing_of_it(tmp_path: Path) -> None:
    made = run_with(tmp_path, shipper=program(OBEDIENT, within=600))
    with pytest.raises(KeyboardInterrupt), made.programs_on():
        assert wait_until(lambda: printed(tmp_path, "shipper") == "on\n", 20)
        raise KeyboardInterrupt
    (over,) = made.events.of("program.over")
    assert (over["ok"], over["says"]) == (False, "it was ended by this run: told") and made.programs is None
    assert standing(made.ledger.path) == []


def test_it_finds_the_run_and_python_is_the_one_of_this_package(tmp_path: Path) -> None:
    script = "import json, os, sys; print(json.dumps([os.environ['OPENSEARCH_CHAOS_RUN'], sys.executable]))"
    made = run_with(tmp_path, job=Program(command=("python", "-c", script)))
    with made.programs_on():
        assert wait_until(lambda: printed(tmp_path, "job").endswith("]\n"), 20)
    assert json.loads(printed(tmp_path, "job")) == [str(tmp_path), sys.executable]


@pytest.mark.parametrize(
    ("ready", "says"),
    [
        (("sh", "-c", "echo get it: apt-get download x; exit 1"), "is not ready: get it: apt-get download x"),
        (("sh", "-c", "exit 3"), "is not ready: exit code 3"),
        (("true",), None),
        (None, None),
    ],
)
def test_one_that_is_not_ready_is_refused_with_its_own_words(ready: tuple[str, ...] | None, says: str | None) -> None:
    experiment: Any = SimpleNamespace(programs={"shipper": program("true", ready=ready)})
    if says is None:
        beside.refuse_unready(experiment)
    else:
        with pytest.raises(InvalidInput, match=says):
            beside.refuse_unready(experiment)
