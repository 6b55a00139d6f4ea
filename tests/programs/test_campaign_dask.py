"""Campaigns on Dask: its own scheduler and workers as programs, each run a stand-in (`standin_run.py`). Commits equal
the plan, each cell once, whatever dies or freezes when."""

from __future__ import annotations

import json
import signal
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import campaignkit as kit
import daskkit
import pytest
import tlskit
from daskkit import Cluster, Running
from programs.test_campaign import assert_plan_is_committed, awaited, commits, runs, state_of

from chaos.base.errors import ChaosError, Exit, InvalidInput
from chaos.campaign import dask_cluster, progress
from chaos.campaign.dask_cluster import Tls
from chaos.campaign.progress import State
from chaos.campaign.records import Ended
from chaos.run.stopping import Stop

TTL = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "6s"}
"""Dask asks a few workers for a heartbeat each half second, and takes at least ten of these for a ttl."""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.end()


@pytest.fixture
def impatient(cluster: Cluster) -> Cluster:
    """Its scheduler takes a worker that is silent for seconds as lost."""
    cluster.config = TTL
    return cluster


def machines(folder: Path, count: int, **how: Any) -> list[Path]:
    made = [folder / f"machine-{number}" for number in range(count)]
    for each in made:
        kit.behave(each, **how)
    return made


def campaign(folder: Path, store: Path, repeats: int, count: int = 3, **more: Any) -> Path:
    file = kit.write_campaign(folder, store, repeats, **more)
    file.write_text(file.read_text().replace("machines: 9", f"machines: {count}"))
    return file


def attempts_of(file: Path, store: Path) -> Counter[Any]:
    records = kit.records_at(store)
    return Counter(each.ended for cell in kit.matrix_of(file).cells for each in records.attempts(cell.key))


def told(running: Running) -> str:
    return "\n".join(running.lines)


# -- one machine


def test_a_cluster_in_this_process_makes_every_cell_once_and_has_a_dashboard(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine,) = machines(tmp_path, 1, seconds=1)
    monkeypatch.setenv(daskkit.MACHINE, str(machine))
    file = campaign(tmp_path, store, 1, count=5)
    with dask_cluster.local("one") as reached:
        running = daskkit.executor(file, store, reached.client, alone=True).start()
        awaited(lambda: runs(machine), "no run began")
        assert reached.dashboard and reached.dashboard.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(reached.dashboard, timeout=30) as page:
            assert b"Dask" in page.read()
        workers = reached.dashboard.replace("/status", "/info/main/workers.html")
        with urllib.request.urlopen(workers, timeout=30) as page:
            assert page.status == 200
        done = running.ended()
        listening = [each.laddr for each in _listening()]
        again = daskkit.executor(file, store, reached.client, alone=True).start().ended()
    assert {each.ip for each in listening} == {"127.0.0.1"}  # dashboards alone, for this machine alone
    assert done.exit_code is Exit.PASS and len(done.made) == 2 == len(runs(machine))
    assert again.exit_code is Exit.PASS and again.made == [] and len(runs(machine)) == 2
    assert_plan_is_committed(file, store)
    assert any(line.startswith("committed: no-fault") for line in running.lines)
    assert any(line.startswith("status: ") and "cells committed; no-fault" in line for line in running.lines)
    assert list((store / "probes").iterdir()) == []


def _listening() -> list[Any]:
    import psutil

    return [each for each in psutil.Process().net_connections("inet") if each.status == psutil.CONN_LISTEN]


def test_a_stop_ends_the_run_in_order_and_keeps_nothing_of_it(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine,) = machines(tmp_path, 1, seconds=60)
    monkeypatch.setenv(daskkit.MACHINE, str(machine))
    file, stop = campaign(tmp_path, store, 1), Stop()
    with dask_cluster.local("one") as reached:
        running = daskkit.executor(file, store, reached.client, stop=stop, alone=True).start()
        awaited(lambda: runs(machine), "no run began")
        stop.ask("stopped by SIGTERM")
        done = running.ended()
    assert done.exit_code is Exit.ABORTED and done.left == 2 and commits(store) == {}
    assert [line["asked"] for line in runs(machine, "ended")] == [True]
    assert attempts_of(file, store) == {Ended.STOPPED: 1}


@pytest.fixture
def commands(cluster: Cluster) -> list[subprocess.Popen[bytes]]:
    """Processes of the command line: none outlives its test."""
    return cluster.processes


def test_campaign_run_is_on_dask_where_it_is_installed(
    tmp_path: Path, store: Path, commands: list[subprocess.Popen[bytes]]
) -> None:
    """And a SIGTERM ends its run in order, with the exit code that a stop has; the same command goes on."""
    (machine,) = machines(tmp_path, 1, seconds=60)
    file = campaign(tmp_path, store, 1)
    commands.append(daskkit.started(file, machine))
    awaited(lambda: runs(machine), "no run began")
    commands[0].send_signal(signal.SIGTERM)
    assert commands[0].wait(60) == Exit.ABORTED
    assert [line["asked"] for line in runs(machine, "ended")] == [True] and commits(store) == {}
    kit.behave(machine)
    commands.append(daskkit.started(file, machine))
    assert commands[1].wait(120) == 0
    log = (machine / "command.log").read_text()
    assert "campaign stand-in: 2 committed, 0 attempts failed, 0 surplus, 0 left" in log
    assert log.count("Dask's dashboard: http://127.0.0.1:") == 2 and log.count("committed: no-fault 3az-standby") == 2
    assert_plan_is_committed(file, store)


@pytest.mark.full
def test_a_command_that_is_killed_takes_its_run_with_it(
    tmp_path: Path, store: Path, commands: list[subprocess.Popen[bytes]]
) -> None:
    (machine,) = machines(tmp_path, 1, seconds=60)
    file = campaign(tmp_path, store, 1)
    commands.append(daskkit.started(file, machine))
    awaited(lambda: runs(machine), "no run began")
    commands[0].kill()
    commands[0].wait(10)
    awaited(lambda: runs(machine, "ended"), "the run outlived its command")
    assert runs(machine, "ended")[0]["asked"] and commits(store) == {}
    assert state_of(file, store).lost == 1


@pytest.mark.full
def test_runs_under_way_outlive_a_client_that_is_killed(
    tmp_path: Path, store: Path, cluster: Cluster, commands: list[subprocess.Popen[bytes]]
) -> None:
    (machine,) = machines(tmp_path, 1, seconds=3)
    file = campaign(tmp_path, store, 2)
    cluster.start_scheduler()
    cluster.start_worker(machine)
    commands.append(daskkit.started(file, tmp_path / "client", "--scheduler", cluster.address))
    awaited(lambda: runs(machine), "no run began")
    commands[-1].kill()
    commands[-1].wait(10)
    awaited(lambda: len(commits(store)) == 2, "the block under way was not made to its end")
    commands.append(daskkit.started(file, tmp_path / "client", "--scheduler", cluster.address))
    assert commands[-1].wait(120) == 0
    assert_plan_is_committed(file, store)
    assert len(runs(machine)) == 4 and attempts_of(file, store) == {None: 4}


# -- many


def test_a_killed_worker_is_lost_and_another_makes_its_cell(tmp_path: Path, store: Path, cluster: Cluster) -> None:
    one, two = machines(tmp_path, 2, seconds=60)
    kit.behave(two, seconds=0.2)
    file = campaign(tmp_path, store, 1)
    cluster.start_scheduler()
    first = cluster.start_worker(one)
    with dask_cluster.at(cluster.address, Tls()) as reached:
        running = daskkit.executor(file, store, reached.client).start()
        awaited(lambda: runs(one), "no run began")
        cluster.start_worker(two)
        first.kill()
        done = running.ended()
    assert done.exit_code is Exit.PASS, told(running)
    assert_plan_is_committed(file, store)
    awaited(lambda: runs(one, "ended"), "the run outlived its worker")
    assert runs(one, "ended")[0]["asked"]  # in order: a real run undoes what it did
    assert attempts_of(file, store) == {Ended.LOST: 1, None: 2}
    found = progress.of_cells(kit.matrix_of(file).cells, kit.records_at(store), kit.matrix_of(file).file.retry)
    assert "workers lost 1, errors 0, surplus runs 0" in found.tally
    assert f"{two.name}: committed: no-fault" in told(running)


def test_workers_without_a_lab_or_with_another_store_are_refused_before_any_run(
    tmp_path: Path, store: Path, cluster: Cluster
) -> None:
    one, two = machines(tmp_path, 2)
    file = campaign(tmp_path, store, 1)
    cluster.start_scheduler()
    cluster.start_worker(one, lab=None)
    with dask_cluster.at(cluster.address, Tls()) as reached:
        with pytest.raises(InvalidInput, match="offers the resource lab; start one on each machine: dask worker"):
            daskkit.executor(file, store, reached.client).start().ended()
        cluster.start_worker(two, STANDIN_SEES=str(tmp_path / "elsewhere"))
        with pytest.raises(InvalidInput, match=r"does not see the client's store .*; nothing was started") as refused:
            daskkit.executor(file, store, reached.client).start().ended()
    assert refused.value.exit_code is Exit.USAGE
    assert runs(one) == runs(two) == [] and commits(store) == {}


def test_certificates_both_ways(tmp_path: Path, store: Path, cluster: Cluster) -> None:
    ours, others = (_certificates(tmp_path / name) for name in ("ours", "others"))
    (machine,) = machines(tmp_path, 1)
    file = campaign(tmp_path, store, 1)
    cluster.protocol, cluster.options = "tls", _options(ours)
    cluster.start_scheduler()
    cluster.start_worker(machine)
    with pytest.raises(ChaosError, match="cannot be reached"), dask_cluster.at(cluster.address, others):
        pass
    plain = cluster.address.replace("tls:", "tcp:")
    with pytest.raises(ChaosError, match="cannot be reached"), dask_cluster.at(plain, Tls()):
        pass
    with dask_cluster.at(cluster.address, ours) as reached:
        assert daskkit.executor(file, store, reached.client).start().ended().exit_code is Exit.PASS
    assert_plan_is_committed(file, store)


def _certificates(folder: Path) -> Tls:
    """An authority, and a certificate of it."""
    folder.mkdir()
    made = tlskit.authority(folder)
    return Tls(made.ca, made.folder / "c-data" / "node.pem", made.folder / "c-data" / "node-key.pem")


def _options(tls: Tls) -> tuple[str, ...]:
    return ("--tls-ca-file", str(tls.ca), "--tls-cert", str(tls.cert), "--tls-key", str(tls.key))


@pytest.mark.full
def test_a_dirty_machine_and_one_that_lacks_something_leave_the_rest_to_others(
    tmp_path: Path, store: Path, cluster: Cluster
) -> None:
    dirty, lacking, good = machines(tmp_path, 3, seconds=0.3)
    kit.behave(dirty, clean=False)
    (dirty / "wrong.txt").write_text("namespace oschaos-x\n")
    kit.behave(lacking, error=["MissingPrerequisite", "no loop devices here"])
    file = campaign(tmp_path, store, 3)
    cluster.start_scheduler()
    for each in (dirty, lacking, good):
        cluster.start_worker(each)
    with dask_cluster.at(cluster.address, Tls()) as reached:
        running = daskkit.executor(file, store, reached.client).start()
        done = running.ended()
        labs = {each["name"]: each["resources"]["lab"] for each in reached.client.scheduler_info()["workers"].values()}
    assert done.exit_code is Exit.DIRTY and done.left == 0, told(running)
    assert_plan_is_committed(file, store)
    assert len(runs(dirty)) == 1 and [each.clean for each in commits(store).values()].count(False) == 1
    assert "machine-0 gets no more cells: this machine is retired from campaigns" in told(running)
    assert labs == {dirty.name: 0, lacking.name: 1, good.name: 1}
    assert attempts_of(file, store)[Ended.REFUSED] == len(runs(lacking)) >= 1


@pytest.mark.full
def test_a_cluster_without_a_fit_worker_is_no_campaign(tmp_path: Path, store: Path, cluster: Cluster) -> None:
    (one,) = machines(tmp_path, 1)
    (one / "unfit.txt").write_text("no root here")
    file = campaign(tmp_path, store, 1)
    cluster.start_scheduler()
    cluster.start_worker(one)
    with dask_cluster.at(cluster.address, Tls()) as reached:
        with pytest.raises(InvalidInput, match="no root here"):
            daskkit.executor(file, store, reached.client).start().ended()
        (one / "unfit.txt").unlink()
        (one / "campaign-retired.json").write_text(json.dumps({"why": "a run of before"}))
        (one / "wrong.txt").write_text("a lab\n")
        running = daskkit.executor(file, store, reached.client).start()
        done = running.ended()
    assert done.exit_code is Exit.DIRTY and done.left == 2 and runs(one) == [], told(running)
    assert "retired from campaigns: a run of before" in told(running)


@pytest.mark.full
def test_a_cell_that_kills_its_workers_is_given_up_by_the_stores_rule(
    tmp_path: Path, store: Path, cluster: Cluster
) -> None:
    """Dask blames a task for the fourth worker that it lost; the campaign's file says two lost ones are enough."""
    file = campaign(tmp_path, store, 1, count=1, lost=2)
    cluster.start_scheduler()
    found = machines(tmp_path, 5, seconds=60)
    workers = [cluster.start_worker(found[0])]
    with dask_cluster.at(cluster.address, Tls()) as reached:
        running = daskkit.executor(file, store, reached.client).start()
        for number in range(6):
            machine = found[number % 5]
            awaited(lambda: len(runs(machine)) > (number >= 5) or running.done, "no run began")  # noqa: B023
            if running.done:
                break
            workers.append(cluster.start_worker(found[(number + 1) % 5]))
            workers[number].kill()
            workers[number].wait(10)
        done = running.ended()
    assert done.exit_code is Exit.ERROR and done.left == 2 and commits(store) == {}, told(running)
    states = progress.of_cells(kit.matrix_of(file).cells, kit.records_at(store), kit.matrix_of(file).file.retry)
    assert [each.state for each in states.cells] == [State.GIVEN_UP] * 2
    assert [each.lost for each in states.cells] == [3, 3]


@pytest.mark.full
def test_a_worker_frozen_past_its_ttl_and_thawed_makes_no_second_commit(
    tmp_path: Path, store: Path, impatient: Cluster
) -> None:
    one, two = machines(tmp_path, 2, seconds=0.5)
    cluster, file = impatient, campaign(tmp_path, store, 1, count=1)
    cluster.start_scheduler()
    frozen = cluster.start_worker(one)
    with dask_cluster.at(cluster.address, Tls()) as reached:
        running = daskkit.executor(file, store, reached.client).start()
        awaited(lambda: runs(one), "no run began")
        frozen.send_signal(signal.SIGSTOP)
        cluster.start_worker(two)
        done = running.ended()
        assert done.exit_code is Exit.PASS, told(running)
        first = commits(store)
        awaited(lambda: runs(one, "ended"), "its run did not end")  # the run was not frozen, only its worker
        frozen.send_signal(signal.SIGCONT)
        awaited(lambda: "uploaded" in _of_first_attempt(file, store), "the thawed worker did nothing")
        time.sleep(2)
    assert commits(store) == first
    assert_plan_is_committed(file, store)
    assert state_of(file, store).lost == 1


def _of_first_attempt(file: Path, store: Path) -> str:
    """``uploaded`` once the run of the first attempt at the first cell is in the store."""
    key = kit.matrix_of(file).cells[0].key
    first = min((store / "attempts" / key).iterdir())
    return "uploaded" if (first / "run" / "plan.json").is_file() else ""


@pytest.mark.full
def test_a_scheduler_that_dies_costs_the_runs_under_way_alone(tmp_path: Path, store: Path, cluster: Cluster) -> None:
    one, two = machines(tmp_path, 2, seconds=1)
    file = campaign(tmp_path, store, 3)
    scheduler = cluster.start_scheduler()
    workers = [cluster.start_worker(each) for each in (one, two)]
    with dask_cluster.at(cluster.address, Tls()) as reached:
        running = daskkit.executor(file, store, reached.client).start()
        awaited(lambda: commits(store), "nothing was committed")
        awaited(lambda: len(runs(one)) + len(runs(two)) > len(commits(store)), "no run is under way")
        scheduler.kill()
        done = running.ended()
        assert done.exit_code is Exit.ERROR and done.left > 0
        assert "the scheduler is gone; start the same command again" in told(running)
    for each in workers:
        each.wait(60)  # they go too
    begun, ended = (sum(len(runs(each, what)) for each in (one, two)) for what in ("begun", "ended"))
    assert begun == ended
    before = commits(store)
    cluster.start_scheduler()
    for each in (one, two):
        cluster.start_worker(each)
    with dask_cluster.at(cluster.address, Tls()) as reached:
        assert daskkit.executor(file, store, reached.client).start().ended().exit_code is Exit.PASS
    assert_plan_is_committed(file, store)
    assert before.items() <= commits(store).items()  # what was committed is not made again
    assert Ended.LOST not in attempts_of(file, store)  # they had time to end in order


@pytest.mark.full
def test_a_hundred_cells_on_three_workers_whatever_is_killed(tmp_path: Path, store: Path, impatient: Cluster) -> None:
    """Ten workers are killed in mid-run, one is frozen past its ttl and thawed, the scheduler is killed and the
    campaign started again: the commits equal the plan, each key once."""
    cluster, file = impatient, campaign(tmp_path, store, 25, experiments=2)
    matrix = kit.matrix_of(file)
    assert len(matrix.cells) == 100
    found = machines(tmp_path, 3, seconds=0.5)
    scheduler = cluster.start_scheduler()
    workers = [cluster.start_worker(each) for each in found]
    with dask_cluster.at(cluster.address, Tls()) as reached:
        running = daskkit.executor(file, store, reached.client, matrix=matrix).start()
        for kill in range(10):
            number = kill % 3
            before = len(runs(found[number]))
            awaited(lambda: len(runs(found[number])) > before, f"no run began: {told(running)}", 120)  # noqa: B023
            workers[number].kill()
            workers[number].wait(10)
            workers[number] = cluster.start_worker(found[number])
        before = len(runs(found[0]))
        awaited(lambda: len(runs(found[0])) > before, "no run began", 120)
        workers[0].send_signal(signal.SIGSTOP)
        awaited(lambda: len(reached.client.scheduler_info()["workers"]) == 2, "the frozen one is still there")
        workers[0].send_signal(signal.SIGCONT)
        assert len(commits(store)) < 95
        scheduler.kill()
        assert running.ended().exit_code is Exit.ERROR
    for each in workers:
        each.wait(90)
    cluster.start_scheduler()
    for each in found:
        cluster.start_worker(each)
    with dask_cluster.at(cluster.address, Tls()) as reached:
        done = daskkit.executor(file, store, reached.client, matrix=matrix).start().ended(900)
    assert done.exit_code is Exit.PASS
    assert_plan_is_committed(file, store)
    tally = progress.of_cells(matrix.cells, kit.records_at(store), matrix.file.retry)
    assert sum(each.lost for each in tally.cells) >= 10, tally.tally
    assert all(len(runs(each)) > 10 for each in found)  # each had its share
