"""Workers of campaigns with real child processes: what is committed, whatever dies when. Each run is a stand-in that
starts no cluster (`standin_run.py`); all else is what `opensearch-chaos campaign` does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import campaignkit as kit
import pytest

from chaos.base.errors import Exit, InvalidInput
from chaos.base.waiting import wait_until
from chaos.campaign import progress
from chaos.campaign.folder_store import FolderStore
from chaos.campaign.machine import LOCK, Machine, Retired
from chaos.campaign.matrix import Shard
from chaos.campaign.progress import State
from chaos.campaign.records import Commit, Ended
from chaos.campaign.stores import StoreError
from chaos.run.stopping import Stop


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return tmp_path / "machine"


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Workers that a test started: none outlives it."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for each in started:
        if each.poll() is None:
            each.send_signal(signal.SIGCONT)
            each.kill()
        each.wait(10)


def runs(machine: Path, what: str = "begun") -> list[dict[str, Any]]:
    file = machine / "runs.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    return [line for line in lines if what in line]


def commits(store: Path) -> dict[str, Commit]:
    records = kit.records_at(store)
    return {key: records.of_cell(key) for key in records.committed()}


def assert_plan_is_committed(file: Path, store: Path) -> None:
    """Commits equal the plan, each key once, and each is what its manifest says."""
    matrix, records = kit.matrix_of(file), kit.records_at(store)
    found = commits(store)
    assert {*found} == {cell.key for cell in matrix.cells}
    assert len(list((store / "cells").glob("*.json"))) == len(matrix.cells)
    assert len({commit.attempt for commit in found.values()}) == len(matrix.cells)
    for commit in found.values():
        assert records.verify(commit, store / "unused") == []
        assert json.loads((records.folder(commit, store / "unused") / "plan.json").read_text())["stand_in"]


def state_of(file: Path, store: Path, number: int = 0) -> progress.CellProgress:
    matrix = kit.matrix_of(file)
    return progress.of_cell(matrix.cells[number], kit.records_at(store), matrix.file.retry)


def awaited(condition: Callable[[], Any], what: str, seconds: float = 60) -> None:
    assert wait_until(condition, seconds, every=0.02), what


# -- one worker


def test_every_cell_is_run_once_and_committed(tmp_path: Path, store: Path, machine: Path) -> None:
    file = kit.write_campaign(tmp_path, store, 1)
    done = kit.worker(file, store, machine).work()
    assert done.exit_code is Exit.PASS and len(done.made) == 2 and len(runs(machine)) == 2
    assert_plan_is_committed(file, store)
    for commit in commits(store).values():
        assert commit.outcome == "pass" and commit.clean and commit.seconds > 0
        assert {"processors", "memory_gb", "kernel"} <= {*commit.machine}
    assert list((machine / "out").iterdir()) == []
    again = kit.worker(file, store, machine).work()
    assert again.exit_code is Exit.PASS and again.made == [] and len(runs(machine)) == 2


@pytest.mark.parametrize("outcome", ["weakness", "inconclusive"])
def test_what_says_something_of_the_cluster_is_never_made_again(
    outcome: str, tmp_path: Path, store: Path, machine: Path
) -> None:
    file = kit.write_campaign(tmp_path, store, 1)
    kit.behave(machine, outcome=outcome)
    for _ in range(2):
        assert kit.worker(file, store, machine).work().exit_code is Exit.PASS
    assert len(runs(machine)) == 2
    assert {commit.outcome for commit in commits(store).values()} == {outcome}


@pytest.mark.parametrize(
    ("behaviour", "ended", "tries"),
    [
        ({"outcome": "error"}, Ended.ERROR, 3),
        ({"error": ["LabError", "the lab did not come up"]}, Ended.ERROR, 3),
        ({"dies": int(signal.SIGKILL)}, Ended.LOST, 3),
    ],
)
def test_failures_of_ours_are_tried_again_counted_and_shown(
    behaviour: dict[str, Any], ended: Ended, tries: int, tmp_path: Path, store: Path, machine: Path
) -> None:
    file = kit.write_campaign(tmp_path, store, 1, lost=2)
    kit.behave(machine, **behaviour)
    matrix = kit.matrix_of(file)
    done = kit.worker(file, store, machine, matrix=matrix).work(cells=matrix.cells[:1])
    assert done.exit_code is Exit.ERROR and done.left == 1 and done.failed == tries == len(runs(machine))
    found = state_of(file, store)
    assert found.state is State.GIVEN_UP and found.lost + found.errors == tries and found.why
    assert [each.ended for each in kit.records_at(store).attempts(matrix.cells[0].key)] == [ended] * tries
    kept = sorted((machine / "out").glob("*/why.txt"))
    assert len(kept) == tries  # for people; no later worker tidies them up
    kit.worker(file, store, tmp_path / "another-machine", matrix=matrix).work(cells=matrix.cells[1:])
    assert sorted((machine / "out").glob("*/why.txt")) == kept
    assert f"{'workers lost' if ended is Ended.LOST else 'errors'} {tries}" in progress.Progress([found]).tally


def test_a_run_that_hangs_is_ended_counted_and_given_up(
    tmp_path: Path, store: Path, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends in order, as if it had been stopped: it would be made again for ever."""
    monkeypatch.setattr("chaos.campaign.lasting.HANGS", 0)
    monkeypatch.setattr("chaos.campaign.lasting.END_SECONDS", 4.0)
    file, stop = kit.write_campaign(tmp_path, store, 1), Stop()
    kit.behave(machine, seconds=60)
    last = threading.Timer(60, stop.ask, ["it goes on and on"])
    last.start()
    matrix = kit.matrix_of(file)
    done = kit.worker(file, store, machine, matrix=matrix, stop=stop).work(cells=matrix.cells[:1])
    last.cancel()
    assert done.exit_code is Exit.ERROR and len(runs(machine)) == 3
    assert [line["asked"] for line in runs(machine, "ended")] == [True] * 3
    found = state_of(file, store)
    assert (found.state, found.errors) == (State.GIVEN_UP, 3) and "it took more than 4 s" in found.why


def test_a_machine_that_lacks_something_is_said_and_not_asked_twice(tmp_path: Path, store: Path, machine: Path) -> None:
    file = kit.write_campaign(tmp_path, store, 1)
    kit.behave(machine, error=["MissingPrerequisite", "no loop devices here"])
    done = kit.worker(file, store, machine).work()
    assert done.exit_code is Exit.INCONCLUSIVE and len(runs(machine)) == 2
    assert state_of(file, store).state is State.REFUSED and state_of(file, store).why == "no loop devices here"
    other = tmp_path / "another-machine"
    assert kit.worker(file, store, other).work().exit_code is Exit.PASS
    assert_plan_is_committed(file, store)


def test_a_dirty_machine_is_retired_until_it_is_sound(tmp_path: Path, store: Path, machine: Path) -> None:
    file = kit.write_campaign(tmp_path, store, 1)
    kit.behave(machine, outcome="weakness", clean=False)
    wrong = ["namespace oschaos-x"]
    done = kit.worker(file, store, machine, looks=lambda: wrong).work()
    assert done.exit_code is Exit.DIRTY and len(done.made) == 1  # what it saw of the cluster counts
    assert [commit.clean for commit in commits(store).values()] == [False]
    with pytest.raises(Retired, match="namespace oschaos-x") as refused:
        kit.worker(file, store, machine, looks=lambda: wrong).work()
    assert refused.value.exit_code is Exit.DIRTY and "recover" in str(refused.value)
    assert len(runs(machine)) == 1
    kit.behave(machine)
    wrong.clear()
    assert kit.worker(file, store, machine, looks=lambda: wrong).work().exit_code is Exit.PASS
    assert len(commits(store)) == 2


def test_leftovers_that_a_run_refuses_over_retire_the_machine(tmp_path: Path, store: Path, machine: Path) -> None:
    file = kit.write_campaign(tmp_path, store, 1)
    kit.behave(machine, error=["Leftovers", "1 leftovers of a dead run are here"])
    done = kit.worker(file, store, machine, looks=lambda: ["a lab"]).work()
    assert done.exit_code is Exit.DIRTY and len(runs(machine)) == 1


def test_artifacts_are_bounded(tmp_path: Path, store: Path, machine: Path) -> None:
    file = kit.write_campaign(tmp_path, store, 1)
    file.write_text(file.read_text().replace("machines: 9", "machines: 9, artifacts: 1KiB"))
    kit.behave(machine, bytes=5000)
    assert kit.worker(file, store, machine).work().exit_code is Exit.PASS
    for commit in commits(store).values():
        assert commit.left_out == ("logs/big.log",) and "logs/big.log" not in commit.manifest
    file.write_text(file.read_text().replace("1KiB", "10B").replace("repeats: 1", "repeats: 1\nseed: 7"))
    done = kit.worker(file, store, machine).work()
    assert done.exit_code is Exit.ERROR and "a cell may keep 10" in state_of(file, store).why


def test_a_stop_is_passed_on_and_what_was_stopped_is_made_again(
    tmp_path: Path, store: Path, machine: Path, processes: list[Any]
) -> None:
    file = kit.write_campaign(tmp_path, store, 1, lost=0)
    kit.behave(machine, seconds=60)
    processes.append(kit.started(file, store, machine, "1/1"))
    awaited(lambda: runs(machine), "no run began")
    processes[0].send_signal(signal.SIGTERM)
    assert processes[0].wait(60) == Exit.ABORTED
    assert [line["asked"] for line in runs(machine, "ended")] == [True]
    assert commits(store) == {} and state_of(file, store).state is State.WAITING
    kit.behave(machine)
    assert kit.worker(file, store, machine).work().exit_code is Exit.PASS
    assert_plan_is_committed(file, store)


def test_a_run_that_is_stopped_before_it_can_listen_is_not_lost(tmp_path: Path, store: Path, machine: Path) -> None:
    """Its process dies of the signal while it is still being loaded."""
    file, stop = kit.write_campaign(tmp_path, store, 1), Stop()
    worker = kit.worker(file, store, machine, stop=stop)
    worker.program = ("-c", "import time; time.sleep(60)")
    threading.Timer(1.5, stop.ask, ["stopped by SIGTERM"]).start()
    done = worker.work()
    assert done.exit_code is Exit.ABORTED and state_of(file, store, 0).state is State.WAITING
    records, cells = kit.records_at(store), kit.matrix_of(file).cells
    assert [each.ended for cell in cells for each in records.attempts(cell.key)] == [Ended.STOPPED]


def test_the_budget_of_time_ends_a_worker_between_runs(tmp_path: Path, store: Path, machine: Path) -> None:
    file = kit.write_campaign(tmp_path, store, 1)
    file.write_text(file.read_text().replace("machines: 9", "machines: 9, wall: 20s"))
    done = kit.worker(file, store, machine).work()
    assert done.exit_code is Exit.INCONCLUSIVE and runs(machine) == []  # a no-fault run may take minutes


# -- workers that die, freeze, and are there twice


def test_a_killed_worker_takes_its_run_with_it_and_its_cell_is_made_again(
    tmp_path: Path, store: Path, machine: Path, processes: list[Any]
) -> None:
    file = kit.write_campaign(tmp_path, store, 1)
    kit.behave(machine, seconds=60)
    processes.append(kit.started(file, store, machine, "1/1"))
    awaited(lambda: runs(machine), "no run began")
    pid = runs(machine)[0]["pid"]
    processes[0].kill()
    processes[0].wait(10)
    awaited(lambda: runs(machine, "ended"), "the run outlived its worker")
    assert runs(machine, "ended")[0]["asked"]  # in order: a real run undoes what it did
    awaited(lambda: not Path(f"/proc/{pid}").exists(), "its process is still here")
    assert commits(store) == {} and state_of(file, store).lost == 1
    kit.behave(machine)
    assert kit.worker(file, store, machine).work().exit_code is Exit.PASS
    assert_plan_is_committed(file, store)
    assert list((machine / "out").iterdir()) == []


def test_the_machine_is_locked_until_the_run_of_a_killed_worker_has_ended(
    tmp_path: Path, store: Path, machine: Path, processes: list[Any]
) -> None:
    file = kit.write_campaign(tmp_path, store, 1)
    kit.behave(machine, seconds=60)
    processes.append(kit.started(file, store, machine, "1/1"))
    awaited(lambda: runs(machine), "no run began")
    pid = runs(machine)[0]["pid"]
    os.kill(pid, signal.SIGSTOP)  # a run that takes its time to undo
    processes[0].kill()
    processes[0].wait(10)

    class Busy(Exception):
        pass

    def waits() -> None:
        raise Busy

    with pytest.raises(Busy), Machine(list, machine).held(waits):
        pass
    os.kill(pid, signal.SIGCONT)
    with Machine(list, machine).held(lambda: time.sleep(0.02)):
        assert runs(machine, "ended")
    assert (machine / LOCK).exists()


def test_a_kill_between_upload_and_commit_leaves_an_attempt_that_is_never_read(
    tmp_path: Path, store: Path, machine: Path
) -> None:
    file = kit.write_campaign(tmp_path, store, 1)

    class Died(BaseException):
        pass

    def dies(attempt: str) -> None:
        raise Died

    with pytest.raises(Died):
        kit.worker(file, store, machine, uploaded=dies).work()
    left = list(store.glob("attempts/*/*/run/plan.json"))
    assert len(left) == 1 and commits(store) == {}
    left[0].write_text("no plan at all")
    assert kit.worker(file, store, machine).work().exit_code is Exit.PASS
    assert_plan_is_committed(file, store)


def test_a_frozen_worker_that_thaws_makes_surplus_and_no_second_commit(
    tmp_path: Path, store: Path, machine: Path, processes: list[Any]
) -> None:
    file = kit.write_campaign(tmp_path, store, 1)
    kit.behave(machine, seconds=0.5)
    processes.append(kit.started(file, store, machine, "1/1"))
    awaited(lambda: runs(machine), "no run began")
    processes[0].send_signal(signal.SIGSTOP)
    assert state_of(file, store).state is State.OPEN
    other = tmp_path / "another-machine"
    assert kit.worker(file, store, other).work().exit_code is Exit.PASS  # it does not wait for ever
    first = commits(store)
    processes[0].send_signal(signal.SIGCONT)
    assert processes[0].wait(60) == Exit.PASS
    assert len(runs(machine)) == 1 and commits(store) == first
    assert_plan_is_committed(file, store)
    assert state_of(file, store).surplus == 1


@pytest.mark.full
def test_a_shard_that_is_run_twice_at_once(tmp_path: Path, store: Path, processes: list[Any]) -> None:
    file = kit.write_campaign(tmp_path, store, 2)
    machines = [tmp_path / "one", tmp_path / "two"]
    for each in machines:
        kit.behave(each, seconds=0.3)
        processes.append(kit.started(file, store, each, "1/1"))
    assert [each.wait(120) for each in processes] == [0, 0]
    assert_plan_is_committed(file, store)
    assert 4 <= sum(len(runs(each)) for each in machines) <= 5  # doubled work comes at the very end alone


@pytest.mark.full
def test_two_campaigns_at_once_on_one_machine_take_turns(tmp_path: Path, machine: Path, processes: list[Any]) -> None:
    kit.behave(machine, seconds=0.2)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        file = kit.write_campaign(tmp_path / name, tmp_path / name / "store", 1)
        processes.append(kit.started(file, tmp_path / name / "store", machine, "1/1"))
    assert [each.wait(120) for each in processes] == [0, 0]
    order = [next(iter(json.loads(line))) for line in (machine / "runs.jsonl").read_text().splitlines()]
    assert order == ["begun", "ended"] * 4  # never two labs at once
    for name in ("one", "two"):
        assert_plan_is_committed(tmp_path / name / "stand-in.yaml", tmp_path / name / "store")


# -- stores that fail


class Failing(FolderStore):
    """A store that fails, or is slow, at names with ``part`` for the first ``times``."""

    def __init__(self, folder: Path, part: str, times: int, slow: float = 0) -> None:
        super().__init__(folder)
        self.part, self.times, self.slow = part, times, slow

    def _trouble(self, name: str) -> None:
        if self.part in name and self.times > 0:
            self.times -= 1
            if self.slow:
                time.sleep(self.slow)
                return
            raise StoreError(f"store {self.address}: cannot write {name}: No space left on device")

    def create(self, name: str, data: bytes) -> bool:
        self._trouble(name)
        return super().create(name, data)

    def put(self, name: str, file: Path) -> None:
        self._trouble(name)
        super().put(name, file)


@pytest.mark.parametrize("part", ["cells/", "run/plan.json"])
def test_a_store_that_fails_for_a_moment(part: str, tmp_path: Path, store: Path, machine: Path) -> None:
    file = kit.write_campaign(tmp_path, store, 1)
    done = kit.worker(file, Failing(store, part, 1), machine).work()
    assert done.exit_code is Exit.PASS and len(runs(machine)) == 2
    assert_plan_is_committed(file, store)


def test_a_store_that_is_slow(tmp_path: Path, store: Path, machine: Path) -> None:
    file = kit.write_campaign(tmp_path, store, 1)
    assert kit.worker(file, Failing(store, "run/", 3, slow=0.5), machine).work().exit_code is Exit.PASS
    assert_plan_is_committed(file, store)


def test_a_store_that_fills_up_ends_the_worker_and_the_campaign_goes_on_later(
    tmp_path: Path, store: Path, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.campaign.worker.STORE_TRIES", 1)
    file = kit.write_campaign(tmp_path, store, 1)
    done = kit.worker(file, Failing(store, "run/history", 99), machine).work()
    assert done.exit_code is Exit.ERROR and done.left == 2 and len(runs(machine)) == 1
    assert commits(store) == {} and len(list((machine / "out").iterdir())) == 1  # the run itself is kept
    assert kit.worker(file, store, tmp_path / "another-machine").work().exit_code is Exit.PASS
    assert_plan_is_committed(file, store)


def test_a_store_that_cannot_be_used_is_refused_before_any_run(tmp_path: Path, store: Path, machine: Path) -> None:
    file = kit.write_campaign(tmp_path, store, 1)
    with pytest.raises(InvalidInput, match="No space left on device"):
        kit.worker(file, Failing(store, "probes/", 99), machine).work()
    assert runs(machine) == []


def test_an_answer_that_is_lost_is_no_second_commit(tmp_path: Path, store: Path, machine: Path) -> None:
    """The create succeeded, its answer never came, and its repeat is refused: the commit is ours all the same."""

    class Forgetful(FolderStore):
        def create(self, name: str, data: bytes) -> bool:
            made = super().create(name, data)
            return made and not name.startswith("cells/")

    file = kit.write_campaign(tmp_path, store, 1)
    done = kit.worker(file, Forgetful(store), machine).work()
    assert done.exit_code is Exit.PASS and len(done.made) == 2 and done.surplus == 0


def test_what_was_changed_in_the_store_is_found(tmp_path: Path, store: Path, machine: Path) -> None:
    file = kit.write_campaign(tmp_path, store, 1)
    kit.worker(file, store, machine).work()
    records, (one, other) = kit.records_at(store), commits(store).values()
    base = store / "attempts" / one.key / one.attempt / "run"
    (base / "history" / "events.jsonl").write_text("{}\n")
    (base / "added").write_text("x")
    (base / "logs" / "big.log").unlink()
    wrong = records.verify(one, store / "unused")
    assert [each.partition(":")[0].split()[0] for each in wrong] == ["added", "history/events.jsonl", "logs/big.log"]
    assert records.verify(other, store / "unused") == []
    with pytest.raises(StoreError, match="is not what was committed"):
        records.folder(one, store / "unused")
    (store / "cells" / f"{one.key}.json").write_text("{}")
    with pytest.raises(StoreError, match="no commit that can be read"):
        records.of_cell(one.key)


# -- a hundred cells


@pytest.mark.full
def test_a_hundred_cells_on_three_machines_whatever_is_killed(
    tmp_path: Path, store: Path, processes: list[Any]
) -> None:
    """Ten workers are killed in mid-run, others between upload and commit, one is frozen and thawed, one shard runs
    twice: the commits equal the plan, each key once."""
    file = kit.write_campaign(tmp_path, store, 25, experiments=2)
    assert len(kit.matrix_of(file).cells) == 100
    machines = [tmp_path / f"machine-{number}" for number in range(3)]
    for each in machines:
        kit.behave(each, seconds=0.5)

    def start(number: int, *kill: str) -> Any:
        made = kit.started(file, store, machines[number], f"{number + 1}/3", *kill)
        processes.append(made)
        return made

    living = [start(number) for number in range(3)]
    for kill in range(10):  # in mid-run: another run of this machine has begun
        number = kill % 3
        before = len(runs(machines[number]))
        awaited(lambda: len(runs(machines[number])) > before, "no run began")  # noqa: B023
        living[number].kill()
        living[number].wait(10)
        living[number] = start(number)
    for number in range(3):  # those that a third of the uploads kill, again and again
        living[number].send_signal(signal.SIGTERM)
        living[number].wait(60)
    died = 0
    for number in range(3):
        for _ in range(4):
            died += start(number, "upload").wait(600) == -signal.SIGKILL
    assert died >= 3
    frozen = start(0)
    before = len(runs(machines[0]))
    wait_until(lambda: len(runs(machines[0])) > before or frozen.poll() is not None, 60, every=0.02)
    frozen.send_signal(signal.SIGSTOP)
    other = tmp_path / "machine-3"
    kit.behave(other, seconds=0.2)
    twice = [
        kit.started(file, store, other, "1/3"),
        start(1),
        start(2),
        kit.started(file, store, tmp_path / "m-4", "2/3"),
    ]
    processes.extend(twice)
    assert [each.wait(900) for each in twice] == [0] * 4
    frozen.send_signal(signal.SIGCONT)
    assert frozen.wait(120) == 0
    assert_plan_is_committed(file, store)
    tally = progress.of_cells(kit.matrix_of(file).cells, kit.records_at(store), kit.matrix_of(file).file.retry)
    lost = sum(each.lost for each in tally.cells)
    assert lost >= 10 and Counter(each.state for each in tally.cells) == {State.COMMITTED: 100}


def test_shards_together_make_the_plan(tmp_path: Path, store: Path) -> None:
    file = kit.write_campaign(tmp_path, store, 2)
    matrix = kit.matrix_of(file)
    for number in (1, 2):
        machine = tmp_path / f"machine-{number}"
        done = kit.worker(file, store, machine, matrix=matrix, stop=Stop()).work(Shard(number, 2))
        assert done.exit_code is Exit.PASS and len(done.made) == 2
    assert_plan_is_committed(file, store)
