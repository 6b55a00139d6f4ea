"""Helper pods: what their Jobs are, how they come and go, what is asked through them, and what refuses them."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from apiserver import SETS, Server
from fakes import ROOT, Shown
from podcluster import Cluster, with_helpers, written
from ruamel.yaml import YAML
from typer.testing import CliRunner

from chaos.base.errors import FaultError, InvalidInput, LabError, Lacking
from chaos.base.waiting import wait_until
from chaos.cli import app
from chaos.commands.on_kubernetes import Where
from chaos.definitions.existing import load_existing
from chaos.faults.fault import Fault
from chaos.faults.kinds.node import NamesEvidence
from chaos.faults.ledger import Entry, Ledger, standing
from chaos.faults.lifecycle import undo_entries
from chaos.faults.moves import Move, Reversible
from chaos.hosts import oschaos_host
from chaos.kubernetes import rights
from chaos.providers.helper import PROVIDER, OutOfMemory, Unready
from chaos.registry import FAULTS, PROVIDERS, load_experiment, ready
from chaos.run import keeper, on_target, recovering_on
from chaos.run.closing import Closing
from chaos.run.noted import NotedLedger
from chaos.run.on_target import OnTarget
from chaos.targets.existing import helpers, mapping
from chaos.targets.existing.compare import Sign
from chaos.targets.existing.helpers import CALL, DIGEST, LAUNCH, PYTHON
from chaos.targets.existing.hosts import PROGRAM, Hosts, digest, named
from chaos.targets.existing.seen import seen_of
from chaos.targets.existing.target import ExistingTarget

DATA, OTHER = f"{SETS[1]}-1", f"{SETS[1]}-2"
RUN = "20261128T220000Z-x-1a2b"
IMAGE = "registry.example/tools/net:1"


MANAGER = f"{SETS[0]}-1"


class Programs:
    """The program for faults in each helper, as far as its callers see it. ``standing``: intents by pod; ``refused``:
    why, by verb."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        self.standing: dict[str, list[str]] = {}
        self.refused: dict[str, str] = {}
        self.digest = digest()
        server.executes = self.run

    def run(self, pod: str, command: list[str]) -> tuple[int, bytes]:
        assert command[: len(PYTHON)] == list(PYTHON)
        if command[3] == DIGEST:
            return 0, f"{self.digest}\n".encode()
        assert command[3] == CALL
        verb, asked = command[4], json.loads(command[5])
        beside = self.server.pods[pod]["metadata"]["labels"][helpers.NODE]
        self.asked.append((verb, beside, asked))
        if verb in self.refused:
            return 0, json.dumps({"ok": False, "why": self.refused[verb]}).encode()
        active = [{"intent": each, "node": beside} for each in self.standing.get(beside, [])]
        told = {"ok": True, "token": 7, "steps": [], "active": active, "nodes": {beside: {"state": "S"}}}
        return 0, json.dumps(told).encode()


@pytest.fixture
def lab(cluster: Cluster, where: Where, state: Path) -> ExistingTarget:
    return with_helpers(where, state, IMAGE, RUN)


@pytest.fixture
def programs(there: Server) -> Programs:
    return Programs(there)


def fault(lab: ExistingTarget, kind: str, **given: Any) -> Fault:
    return ready("f1", FAULTS[kind].model_validate(given), lab, seed=1, elected=None)


def posts(there: Server) -> list[str]:
    return [each for each in there.asked if each.startswith("POST /apis/batch")]


def test_a_helper_is_privileged_short_lived_and_where_the_pod_is(
    lab: ExistingTarget, there: Server, programs: Programs
) -> None:
    assert lab.helpers is not None
    lab.helpers.make(RUN, [DATA, OTHER])
    lab.helpers.make(RUN, [DATA, OTHER])
    assert len(there.jobs) == 2 == len(posts(there))
    job = there.jobs[helpers.job_name(RUN, DATA)]
    spec, pod = job["spec"]["template"]["spec"], there.pods[DATA]
    (container,) = spec["containers"]
    assert spec["nodeName"] == pod["spec"]["nodeName"] and spec["hostPID"] and "hostNetwork" not in spec
    assert container["image"] == IMAGE and container["securityContext"]["privileged"]
    assert job["spec"]["activeDeadlineSeconds"] and job["spec"]["ttlSecondsAfterFinished"]
    assert job["spec"]["backoffLimit"] == 0 and not spec["automountServiceAccountToken"]
    assert spec["volumes"][0]["hostPath"]["path"].endswith(pod["metadata"]["uid"])
    *_, program, config, uid = container["command"]
    assert not any("$" in word for word in container["command"]), "Kubernetes would take it for a variable"
    assert zlib.decompress(base64.b64decode(program)) == Path(oschaos_host.__file__).read_bytes()
    said = json.loads(config)
    assert said["nodes"] == {DATA: {"pod": uid, "data": "/data"}} and uid == pod["metadata"]["uid"]
    assert set(said["intents"]) <= set(oschaos_host.INTENTS) and "node.kill" not in said["intents"]
    assert job["metadata"]["labels"] == {helpers.RUN: RUN.lower(), helpers.NODE: DATA}


def test_before_a_run_nothing_is_made_and_nobody_is_asked(lab: ExistingTarget, there: Server) -> None:
    asked = len(there.asked)
    assert lab.process_state(DATA) == "?" and not lab.hosts.ready(DATA) and lab.hosts.one_each() == []
    with pytest.raises(Lacking, match="before a run has begun"):
        lab.processor_use(DATA)
    with pytest.raises(LabError, match="made when a run begins"):
        lab.hosts.call(DATA, "facts", {})
    assert len(there.asked) == asked and not there.jobs


def test_an_undo_from_another_machine_uses_the_helper_that_there_is(
    lab: ExistingTarget, there: Server, programs: Programs
) -> None:
    assert lab.helpers is not None
    lab.helpers.make(RUN, [DATA])
    other = ExistingTarget(lab.target, lab.topology)
    other.hosts.undo(DATA, named(RUN), "f1-0")
    assert len(posts(there)) == 1 and programs.asked[0] == ("undo", DATA, {"run": RUN.lower(), "id": "f1-0"})


def test_a_helper_that_was_killed_is_made_anew_by_who_asks_next(
    lab: ExistingTarget, there: Server, programs: Programs
) -> None:
    assert lab.helpers is not None
    lab.helpers.make(RUN, [DATA])
    name = helpers.job_name(RUN, DATA)
    before = there.jobs[name]["metadata"]["uid"]
    there.fail_job(name)
    assert lab.hosts.process(DATA) == {"state": "S"}
    assert there.jobs[name]["metadata"]["uid"] != before and len(there.jobs) == 1


def test_a_helper_that_does_not_come_is_told_with_what_helps(
    lab: ExistingTarget, there: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lab.helpers is not None
    monkeypatch.setattr(helpers, "READY_SECONDS", 0.3)
    there.starts = False
    with pytest.raises(FaultError, match="ErrImagePull") as error:
        lab.helpers.make(RUN, [DATA])
    assert "kubernetes, helper" in str(error.value.remedy)


def test_the_end_takes_the_runs_own_away_and_nobody_elses(
    lab: ExistingTarget, there: Server, programs: Programs
) -> None:
    assert lab.helpers is not None
    lab.helpers.make("another-run-2", [DATA])
    lab.helpers._known.clear()
    lab.helpers.make(RUN, [DATA, OTHER])
    programs.standing[DATA] = ["network.drop"]
    with pytest.raises(FaultError, match=r"network\.drop beside .* still stands"):
        lab.helpers.end(RUN)
    assert len(there.jobs) == 3 and len(lab.helpers.left(RUN)) == 2
    programs.standing.clear()
    lab.helpers.end(RUN)
    assert list(there.jobs) == [helpers.job_name("another-run-2", DATA)] and lab.helpers.left(RUN) == []
    lab.helpers.end(RUN)


def test_jobs_of_others_that_have_a_name_or_a_label_of_ours_are_left_alone(
    lab: ExistingTarget, there: Server, programs: Programs
) -> None:
    assert lab.helpers is not None
    lab.helpers.make(RUN, [OTHER])
    name = helpers.job_name(RUN, OTHER)
    labelled = {**there.jobs[name], "metadata": {**there.jobs[name]["metadata"], "name": "backup", "uid": "b-1"}}
    there.jobs["backup"] = labelled
    theirs = {"metadata": {"name": helpers.job_name(RUN, DATA), "uid": "t-1"}, "spec": {}, "status": {}}
    for conditions in ([], [{"type": "Complete", "status": "True"}]):
        there.jobs[helpers.job_name(RUN, DATA)] = theirs | {"status": {"conditions": conditions}}
        with pytest.raises(FaultError, match="is there and is none of this run"):
            lab.helpers.make(RUN, [DATA])
    lab.helpers.end(RUN)
    assert set(there.jobs) == {"backup", helpers.job_name(RUN, DATA)} and lab.helpers.left(RUN) == []


def test_a_pod_of_others_that_has_the_name_of_our_job_in_a_label_is_asked_nothing(
    lab: ExistingTarget, there: Server, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lab.helpers is not None
    monkeypatch.setattr(helpers, "READY_SECONDS", 0.3)
    labels = {"job-name": helpers.job_name(RUN, DATA), helpers.NODE: DATA}
    status = {"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]}
    theirs = {"metadata": {"name": "theirs", "uid": "t-1", "labels": labels}, "spec": {}, "status": status}
    there.pods["theirs"], there.starts = theirs, False
    with pytest.raises(FaultError, match="is not ready"):
        lab.helpers.make(RUN, [DATA])
    assert not [each for each in there.asked if each.startswith("EXEC")]


def test_a_helper_is_looked_for_as_long_as_its_job_may_be_made(lab: ExistingTarget) -> None:
    late = Move("helpers.make", {"run": RUN, "nodes": [DATA]}).late(lab)
    assert late is not None and late > helpers.READY_SECONDS + 30


def test_helpers_of_ours_are_no_neighbours_of_a_machine_that_is_drained(
    lab: ExistingTarget, there: Server, programs: Programs
) -> None:
    assert lab.helpers is not None
    there.pods[MANAGER]["spec"]["nodeName"] = "node-c"
    lab.helpers.make(RUN, [DATA])
    made = fault(lab, "node.drain", target=f"node {DATA}")
    assert made.read is not None and len(made.read(lab)) == 2


def test_in_the_place_of_a_helper_that_is_dead_at_the_end_another_takes_its_folder_away(
    lab: ExistingTarget, there: Server, programs: Programs
) -> None:
    assert lab.helpers is not None
    lab.helpers.make(RUN, [DATA])
    there.fail_job(helpers.job_name(RUN, DATA))
    lab.helpers.end(RUN)
    assert not there.jobs and len(posts(there)) == 2
    assert [(verb, beside) for verb, beside, _ in programs.asked] == [("state", DATA)]


def test_a_helper_that_is_dead_and_whose_machine_is_gone_too_holds_nothing_up(
    lab: ExistingTarget, there: Server, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lab.helpers is not None
    lab.helpers.make(RUN, [DATA])
    monkeypatch.setattr(helpers, "READY_SECONDS", 0.3)
    there.fail_job(helpers.job_name(RUN, DATA))
    there.starts = False
    lab.helpers.end(RUN)
    assert not there.jobs and not programs.asked


def test_a_look_that_goes_on_after_the_end_of_helpers_makes_none(
    lab: ExistingTarget, there: Server, programs: Programs
) -> None:
    assert lab.helpers is not None
    lab.helpers.make(RUN, [DATA])
    lab.helpers.end(RUN)
    lab.hosts.of(DATA).join(RUN)
    with pytest.raises(LabError, match=f"no helper pod is made beside {DATA}: those of run {RUN} are ended"):
        lab.hosts.process(DATA)
    assert not there.jobs and len(posts(there)) == 1
    lab.helpers.make("another-run-2", [DATA])
    assert lab.hosts.process(DATA) == {"state": "S"}


def test_the_end_leaves_no_gap_in_which_a_look_makes_a_helper_anew(
    lab: ExistingTarget, there: Server, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look has seen the old Job go; the end comes before it makes the next one."""
    assert lab.helpers is not None
    lab.helpers.make(RUN, [DATA])
    there.fail_job(helpers.job_name(RUN, DATA))
    gap, go, delete = threading.Event(), threading.Event(), helpers.Helpers._delete
    said: list[str] = []

    def waits(self: Any, *given: Any, **named: Any) -> None:
        delete(self, *given, **named)
        if threading.current_thread() is look:
            gap.set()
            assert go.wait(30)

    def looks() -> None:
        try:
            lab.hosts.process(DATA)
        except LabError as error:
            said.append(error.message)

    monkeypatch.setattr(helpers.Helpers, "_delete", waits)
    look, end = threading.Thread(target=looks), threading.Thread(target=lab.helpers.end, args=(RUN,))
    look.start()
    assert gap.wait(30) and not there.jobs
    end.start()
    end.join(0.5)
    go.set()
    for each in (look, end):
        each.join(30)
        assert not each.is_alive()
    assert not there.jobs and len(posts(there)) == 1 and "are ended" in said[0]


def test_after_an_end_that_was_refused_a_helper_is_made_anew_as_before(
    lab: ExistingTarget, there: Server, programs: Programs
) -> None:
    """What stands is to be undone."""
    assert lab.helpers is not None
    lab.helpers.make(RUN, [DATA])
    programs.standing[DATA] = ["network.drop"]
    with pytest.raises(FaultError, match="still stands"):
        lab.helpers.end(RUN)
    there.fail_job(helpers.job_name(RUN, DATA))
    assert lab.hosts.process(DATA) == {"state": "S"} and len(posts(there)) == 2


def test_helpers_that_do_not_come_are_waited_for_at_the_same_time(
    lab: ExistingTarget, there: Server, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lab.helpers is not None
    lab.helpers.make(RUN, [DATA, OTHER])
    for pod in (DATA, OTHER):
        there.fail_job(helpers.job_name(RUN, pod))
    both = threading.Barrier(2)

    def never(self: Any, pod: str, **_: Any) -> str:
        both.wait(30)
        raise FaultError("it is not ready")

    monkeypatch.setattr(helpers.Helpers, "pod_beside", never)
    lab.helpers.end(RUN)
    assert not there.jobs and not both.broken


# ---- processes that do not know of each other --------------------------------------------------------------------


@pytest.fixture
def run(lab: ExistingTarget, programs: Programs, state: Path) -> OnTarget:
    """One whose helper is there."""
    made = of_run(lab, state)
    made._make_helpers()
    return made


def paused(token: int = 7) -> Reversible:
    """A node that is paused by its helper."""
    what = {"node": DATA, "run": named(RUN), "id": "f1-0"}
    begun = {**what, "token": token, "intent": "node.pause", "asked": {}}
    return Reversible(Move("host.begin", begun), Move("host.undo", what))


def by_the_keeper(run: OnTarget, monkeypatch: pytest.MonkeyPatch) -> bool:
    """The keeper undoes the run, in a process that knows nothing of its helpers."""
    other = ExistingTarget(run.lab.target, run.lab.topology)
    monkeypatch.setattr("chaos.targets.labs.kinds.attach", lambda id: other)
    monkeypatch.setattr(keeper, "unreached", lambda id: None)
    monkeypatch.setattr(keeper.time, "sleep", lambda _: None)
    return keeper.undo(run.ledger.path, run.lab.id, lambda says: None)


def test_a_runner_that_was_stopped_makes_no_helper_once_its_keeper_has_ended_them(
    run: OnTarget, there: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert by_the_keeper(run, monkeypatch) and not there.jobs
    with pytest.raises(LabError, match="are ended"):
        run.lab.hosts.process(DATA)
    assert not there.jobs and len(posts(there)) == 1
    run.ledger.close()
    with pytest.raises(LabError, match="are ended"):
        run.lab.hosts.process(DATA)


def test_at_the_end_of_a_run_no_helper_stays_whatever_its_ledger_says(run: OnTarget, there: Server) -> None:
    (entry,) = run.ledger.standing()
    run.ledger.note(entry, "undone")
    assert there.jobs and run.end_helpers() == [] and not there.jobs


def test_helpers_are_ended_before_it_is_looked_what_is_left() -> None:
    order: list[str] = []

    def step(name: str, answer: Any) -> Any:
        return lambda *_, **__: order.append(name) or answer

    target = SimpleNamespace(
        undone=step("undone", None), end_helpers=step("end helpers", ["a"]), marks=step("marks", ["b"]),
        by_hooks=lambda: False, end=step("end", None),
    )  # fmt: skip
    ledger = SimpleNamespace(standing=list, undone_by_others=lambda *_: {})
    closing = SimpleNamespace(
        stage=lambda _: None, end_instruments=lambda *_: None, keep_logs=lambda: None, identity=None, driver=None,
        lab=SimpleNamespace(write_logs=lambda: None), own_lab=False, there=target, ledger=ledger, dirt=[], indices=[],
    )  # fmt: skip
    Closing.lab_away(closing)  # type: ignore[arg-type]
    assert order == ["undone", "end helpers", "marks", "end"] and closing.dirt == ["a", "b"]


def test_a_keeper_that_undoes_what_stands_leaves_no_helper_that_it_made_for_that(
    run: OnTarget, there: Server, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = run.ledger.standing()
    run.ledger.intend("f1", [paused()])
    run.lab.helpers.end(RUN)  # type: ignore[union-attr]
    run.ledger.note(entry, "undone")
    assert by_the_keeper(run, monkeypatch)
    assert "undo" in [verb for verb, *_ in programs.asked] and len(posts(there)) == 2
    assert not there.jobs and run.ledger.standing() == []


def test_while_something_is_left_its_helper_stays_and_goes_when_the_keeper_gives_up(
    run: OnTarget, there: Server, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.ledger.intend("f1", [paused()])
    programs.refused["undo"] = "not undone yet"
    (failure,) = undo_entries(run.lab, run.ledger, run.ledger.standing())
    assert "not undone yet" in failure and there.jobs
    monkeypatch.setattr(keeper, "PATIENCE_SECONDS", -1.0)
    assert not by_the_keeper(run, monkeypatch)
    assert not there.jobs and {each.fault for each in run.ledger.standing()} == {"f1", "helpers"}


def noted(run: OnTarget, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[int], ExistingTarget]:
    """``recover --on`` on another machine: its problems, and the entries whose notes it forgets."""
    monkeypatch.setattr(recovering_on, "say_given_up", lambda *_: None)
    cluster, forgotten = ExistingTarget(run.lab.target, run.lab.topology), list[int]()
    notes = SimpleNamespace(
        exists=lambda: True, lock=lambda: None, index=".notes", undone=lambda run, numbers: forgotten.extend(numbers),
        standing=lambda: {RUN: [each for each in run.ledger.standing() if each.number not in forgotten]},
    )  # fmt: skip
    _, problems = recovering_on._undo_noted(cluster, notes, lambda _: None)  # type: ignore[arg-type]
    return problems, forgotten, cluster


def test_a_recovery_from_elsewhere_leaves_no_helper_for_what_it_cannot_undo_and_can_be_repeated(
    run: OnTarget, there: Server, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.ledger.answered(run.ledger.intend("f1", [paused()]))
    programs.refused["undo"] = "not undone yet"
    (problem,), forgotten, _ = noted(run, monkeypatch)
    assert "not undone yet" in problem and forgotten == [] and not there.jobs
    programs.refused.clear()
    assert noted(run, monkeypatch)[:2] == ([], [1, 0]) and not there.jobs


def test_nothing_is_begun_in_a_helper_that_was_made_for_it(
    lab: ExistingTarget, there: Server, programs: Programs
) -> None:
    """Another machine has undone the id and ended the helper; a new one knows nothing of that."""
    assert lab.helpers is not None
    lab.helpers.make(RUN, [DATA])
    there.end_job(helpers.job_name(RUN, DATA))
    begun = {"run": named(RUN), "id": "f1-0", "token": 7, "intent": "node.pause", "node": DATA}
    with pytest.raises(LabError):
        lab.hosts.begin(DATA, begun)
    lab.helpers._known.clear()
    with pytest.raises(LabError, match="none is made for what is to begin"):
        lab.hosts.begin(DATA, begun)
    assert not there.jobs and not programs.asked
    assert lab.hosts.process(DATA) == {"state": "S"}, "for a look one is made"
    lab.hosts.begin(DATA, begun)
    lab.hosts.close()
    assert programs.asked[-1][:2] == ("begin", DATA)


@pytest.mark.parametrize("who", ["keeper", "recover --on"])
def test_who_undoes_a_run_keeps_it_from_beginning_anything_more(
    run: OnTarget, programs: Programs, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    run.ledger.answered(run.ledger.intend("f1", [paused(token=9 << 40)]))
    assert by_the_keeper(run, monkeypatch) if who == "keeper" else noted(run, monkeypatch)[0] == []
    first, second, *_ = [(verb, asked.get("token")) for verb, _, asked in programs.asked]
    assert (first, second) == (("undo", None), ("extend", (9 << 40) + 1))


def test_a_run_that_undoes_its_own_faults_keeps_its_token(run: OnTarget, programs: Programs) -> None:
    run.ledger.intend("f1", [paused()])
    assert undo_entries(run.lab, run.ledger, run.ledger.standing()) == []
    assert "extend" not in [verb for verb, *_ in programs.asked]


def test_a_run_asks_whether_it_holds_the_cluster_before_it_begins_anything_beside_a_pod(
    lab: ExistingTarget, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = beginning(lab, state, monkeypatch)
    run.begin(state)
    run.undone()
    assert run.lab.hosts.may_begin == run.ledger.refuse_lost
    assert run.lab.pods is not None and run.lab.pods.may_begin == run.ledger.refuse_lost


class Undone(Ledger):
    """All of it was undone by another machine since, which has forgotten the notes."""

    def undone_by_others(self, lab: Any, entries: Any) -> dict[int, str]:
        return {entry.number: "its note is gone" for entry in entries}


def taken_over(run: OnTarget) -> tuple[Undone, list[Entry]]:
    run.ledger.intend("f1", [paused()])
    ledger = Undone(run.ledger.path)
    return ledger, ledger.standing()


def test_a_run_that_was_undone_by_others_takes_back_what_it_may_have_begun_late(
    run: OnTarget, there: Server, programs: Programs
) -> None:
    ledger, entries = taken_over(run)
    failures = undo_entries(run.lab, ledger, entries)
    assert len(failures) == 2 and all("its note is gone" in each for each in failures)
    assert programs.asked[0] == ("undo", DATA, {"run": named(RUN), "id": "f1-0"})
    assert not there.jobs and standing(ledger.path) == []


def test_what_a_run_may_have_begun_late_and_does_not_go_is_tried_again(
    run: OnTarget, there: Server, programs: Programs
) -> None:
    programs.refused["undo"] = "not undone yet"
    ledger, entries = taken_over(run)
    (failure,) = undo_entries(run.lab, ledger, entries)
    assert "not undone yet" in failure and standing(ledger.path) == entries


def test_a_recovery_asks_nothing_of_what_others_have_undone(run: OnTarget, there: Server, programs: Programs) -> None:
    """Its runner is dead, so nothing of it is extended."""
    ledger, entries = taken_over(run)
    told: list[str] = []
    assert undo_entries(run.lab, ledger, entries, by_others=told.append, fencing=True) == []
    assert len(told) == 2 and programs.asked == [] and standing(ledger.path) == []


def test_links_between_pods_are_hit_at_the_addresses_that_they_have_then(
    lab: ExistingTarget, there: Server, programs: Programs
) -> None:
    asked = len(there.asked)
    made = fault(lab, "network.drop", links="between (role data and zone b) and (role data and zone c)")
    assert made.provider == "helper" and len(there.asked) == asked, "a plan asks nobody"
    (both,) = made.moves
    assert both.move.arguments["asked"]["peers"] == [f"pod/{OTHER}"]
    assert lab.address_of(f"pod/{OTHER}") == there.pods[OTHER]["status"]["podIP"]
    assert lab.address_of("10.1.2.3") == "10.1.2.3"


@pytest.mark.parametrize(
    ("kind", "given", "provider"),
    [
        ("node.pause", {"target": "node b-data"}, "helper"),
        ("node.cpu_starvation", {"target": "node b-data", "quota": "10%"}, "helper"),
        ("node.kill", {"target": "node b-data"}, "kubernetes"),
        ("cluster_manager.quorum_loss", {"how": "pause"}, "helper"),
    ],
)
def test_each_kind_goes_by_what_can_hold_it(
    lab: ExistingTarget, kind: str, given: dict[str, Any], provider: str
) -> None:
    assert fault(lab, kind, **given).provider == provider


def test_a_quorum_that_is_killed_is_refused(lab: ExistingTarget) -> None:
    with pytest.raises(Lacking, match="started again by its kubelet"):
        fault(lab, "cluster_manager.quorum_loss", how="kill")


def test_without_an_image_none_of_it_can_be_had(cluster: Cluster, where: Where, state: Path) -> None:
    target = written(where, state)
    needed = load_experiment(ROOT / "experiments" / "data-node-kill.yaml").topology
    plain = ExistingTarget(target, mapping.mapped(needed, target.written, seen_of(target)).topology)
    offers = PROVIDERS.on(plain.lacks)
    for kind in PROVIDER.offers:
        if kind != "cluster_manager.quorum_loss":
            assert offers.meant(kind).provider != "helper" or offers.reasons(kind)
    assert "no image for helper pods" in str(plain.lacks("helpers"))


def test_a_policy_has_the_rights_and_a_namespace_without_privileged_pods_is_refused(
    lab: ExistingTarget, there: Server, state: Path
) -> None:
    file = Path(lab.target.file)
    experiment = state / "drop.yaml"
    experiment.write_text(
        (ROOT / "experiments" / "data-node-kill.yaml").read_text().replace("node.kill: {target", "node.pause: {target")
        .replace("undo: node.kill", "undo: node.pause")
    )  # fmt: skip
    done = CliRunner().invoke(app, ["kubernetes", "policy", str(experiment), "--on", str(file)])
    assert done.exit_code == 0, done.output
    rules = [rule for each in YAML(typ="safe").load_all(done.output) for rule in each.get("rules", ())]
    assert {"create", "get", "list", "delete"} == {
        verb for rule in rules if rule["resources"] == ["jobs"] for verb in rule["verbs"]
    }
    offers = PROVIDERS.on(lab.lacks)
    asked = load_experiment(experiment)
    asked = asked.model_copy(update={"topology": lab.topology})
    assert on_target.of_pods(asked, offers) == {rights.HELPER}
    assert on_target.refused_pods(lab, asked, 1, offers) == []
    assert on_target.hit_beside(lab, asked, 1, offers) == [DATA]
    there.labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    (row,) = on_target.refused_pods(lab, asked, 1, offers)
    assert row.sign is Sign.BLOCKS and "privileged" in row.says
    there.labels = {}
    there.denied.add(("create", "jobs"))
    (row,) = on_target.refused_pods(lab, asked, 1, offers)
    assert "create jobs.batch" in row.says


@pytest.mark.parametrize(
    ("selector", "taken"),
    [
        ({}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["dashboards"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "job-name", "operator": "Exists"}]}, True),
        ({"matchLabels": {helpers.NODE: DATA}}, True),
        ({"matchLabels": {helpers.NODE: OTHER}}, False),
        ({"matchLabels": {"app.kubernetes.io/name": "opensearch"}}, False),
        (None, False),
    ],
)
def test_a_budget_that_would_take_helper_pods_refuses_what_needs_them(
    lab: ExistingTarget, there: Server, state: Path, selector: dict[str, Any] | None, taken: bool
) -> None:
    offers, file = PROVIDERS.on(lab.lacks), state / "x.yaml"

    def rows(kind: str) -> list[str]:
        text = (ROOT / "experiments" / "data-node-kill.yaml").read_text()
        file.write_text(text.replace("node.kill: {target", f"{kind}: {{target").replace("node.kill", kind))
        asked = load_experiment(file).model_copy(update={"topology": lab.topology})
        found = on_target.refused_pods(lab, asked, 1, offers)
        assert all(row.what == "helper pods" and row.sign is Sign.BLOCKS for row in found)
        assert all("let its selector name OpenSearch's pods" in row.remedy for row in found)
        return [row.says for row in found]

    assert rows("node.pause") == []
    there.budgets["all-pdb"] = {"metadata": {"name": "all-pdb"}, "spec": {"maxUnavailable": 1, "selector": selector}}
    there.allowed = lambda budget: 1  # type: ignore[method-assign]
    assert [says.startswith("budget all-pdb would take the helper pods too") for says in rows("node.pause")] == (
        [True] if taken else []
    )
    assert rows("node.stop") == []


def test_the_labels_of_a_helpers_pod_are_those_of_its_job(lab: ExistingTarget, there: Server) -> None:
    assert lab.helpers is not None and lab.pods is not None
    made = there.begin_job(helpers.job("x", RUN, DATA, lab.pods.pod(DATA), IMAGE))
    (found,) = [each for name, each in there.pods.items() if name.startswith("x-")]
    labels = found["metadata"]["labels"]
    assert made["metadata"]["labels"] == helpers.labels_of(RUN, DATA)
    assert labels | {"job-name": helpers.job_name(RUN, DATA)} == {
        key: value for key, value in helpers.all_labels_of(RUN, DATA).items() if key in labels
    }


def of_run(lab: ExistingTarget, state: Path) -> OnTarget:
    """A run whose fault hits the pod of one data node, by a helper."""
    file, text = state / "x.yaml", (ROOT / "experiments" / "data-node-kill.yaml").read_text()
    file.write_text(text.replace("node.kill: {target", "node.pause: {target").replace("node.kill", "node.pause"))
    asked, offers = load_experiment(file).model_copy(update={"topology": lab.topology}), PROVIDERS.on(lab.lacks)
    return OnTarget(lab, asked, 1, offers, NotedLedger(state / "ledger", lambda _: None, RUN), lambda _: None)


def beginning(lab: ExistingTarget, state: Path, monkeypatch: pytest.MonkeyPatch) -> OnTarget:
    """Such a run that makes no helpers, and whose notes and keeper do nothing."""
    target = Path(lab.target.file)
    target.write_text(f"{target.read_text()}\nnotes: .notes\n")
    noted = ExistingTarget(load_existing(target), lab.topology)
    monkeypatch.setattr(on_target, "Keeper", lambda *_: SimpleNamespace(start=lambda: None))
    monkeypatch.setattr(on_target, "Notes", lambda *_: SimpleNamespace(renew=lambda _: None))
    nothing = Move("nothing", {})
    monkeypatch.setattr(on_target, "opening", lambda *_: Reversible(nothing, nothing))
    monkeypatch.setattr(OnTarget, "_make_helpers", lambda _: None)
    monkeypatch.setattr(Hosts, "take", lambda *_: None)
    run = of_run(noted, state)
    run.ledger.settle = lambda: None  # type: ignore[method-assign]
    return run


def test_while_helpers_are_made_the_run_says_that_it_is_alive(
    lab: ExistingTarget, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their image may have to be pulled, which takes longer than a lock may stand still."""
    run, alive = beginning(lab, state, monkeypatch), list[bool]()
    monkeypatch.setattr(OnTarget, "_make_helpers", lambda self: alive.append(self._thread.is_alive()))
    run.begin(state)
    run.undone()
    assert alive == [True]


@pytest.mark.parametrize("kind", ["node.dns_outage", "node.pause"])
def test_a_pod_in_the_network_of_its_machine_keeps_faults_from_that_network(
    lab: ExistingTarget, there: Server, state: Path, kind: str
) -> None:
    experiment = state / "x.yaml"
    text = (ROOT / "experiments" / "data-node-kill.yaml").read_text()
    experiment.write_text(text.replace("node.kill: {target", f"{kind}: {{target").replace("node.kill", kind))
    asked, offers = load_experiment(experiment).model_copy(update={"topology": lab.topology}), PROVIDERS.on(lab.lacks)
    assert on_target.refused_pods(lab, asked, 1, offers) == []
    there.pods[DATA]["spec"]["hostNetwork"] = True
    says = [row.says for row in on_target.refused_pods(lab, asked, 1, offers)]
    whole = f"pod {DATA} has no network of its own (hostNetwork): its whole machine's would be changed"
    assert says == ([whole] if kind == "node.dns_outage" else [])


def test_a_host_by_ssh_and_a_helper_are_one_too_many(lab: ExistingTarget, state: Path) -> None:
    file = Path(lab.target.file)
    text = file.read_text().replace("pod: opensearch-cluster-data-0", "ssh: host-1, pod: opensearch-cluster-data-0")
    file.write_text(f"{text}\nhosts: {{}}\n")
    with pytest.raises(InvalidInput, match="expected one of them"):
        load_existing(file)


# ---- the two programs that are run in a helper -----------------------------------------------------------------


def moved(text: str, folder: Path) -> str:
    """A program of a helper's with its paths below a folder."""
    for path in (PROGRAM, "/etc/oschaos-host.json", "/usr/sbin", "/run/oschaos-host", "/proc/1/root"):
        text = text.replace(f'"{path}', f'"{folder}{path}')
    return text


@pytest.fixture
def helper(tmp_path: Path) -> Callable[[str], subprocess.Popen[bytes]]:
    for part in ("usr/sbin", "etc", "run/oschaos-host", "proc/1/root/run/opensearch-chaos/u-1"):
        (tmp_path / part).mkdir(parents=True)
    program = base64.b64encode(zlib.compress(b"import sys; print(sys.argv[1], sys.stdin.read())")).decode()

    def begin(config: str) -> subprocess.Popen[bytes]:
        text = moved(LAUNCH, tmp_path)
        made = subprocess.Popen([sys.executable, "-IS", "-c", text, program, config, "u-1"])
        while not (tmp_path / PROGRAM.lstrip("/")).exists():
            assert made.poll() is None
        return made

    return begin


def test_the_launcher_puts_the_program_in_place_and_takes_its_folder_away(
    helper: Callable[[str], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    running = helper('{"nodes": 1}')
    assert (tmp_path / "etc" / "oschaos-host.json").read_text() == '{"nodes": 1}'
    done = subprocess.run(
        [sys.executable, "-IS", "-c", moved(CALL, tmp_path), "facts", '{"a": 1}'], capture_output=True, text=True
    )
    assert done.stdout.strip() == 'facts {"a": 1}', done.stderr
    running.terminate()
    assert running.wait(10) == 0
    assert not (tmp_path / "proc/1/root/run/opensearch-chaos").exists()


def test_the_launcher_leaves_what_is_still_written_down(
    helper: Callable[[str], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    running = helper("{}")
    (tmp_path / "run/oschaos-host/r_f.json").write_text("{}")
    running.terminate()
    assert running.wait(10) == 0
    assert (tmp_path / "proc/1/root/run/opensearch-chaos/u-1").is_dir()


def test_the_launcher_leaves_the_folder_to_another_helper_beside_the_same_pod(
    helper: Callable[[str], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """As where the helper of a run that died ends while the next run has one."""
    folder = tmp_path / "proc/1/root/run/opensearch-chaos/u-1"
    first = helper("{}")
    (tmp_path / PROGRAM.lstrip("/")).unlink()
    second = helper("{}")
    first.terminate()
    assert first.wait(10) == 0 and folder.is_dir()
    second.terminate()
    assert second.wait(10) == 0 and not folder.exists()


def has_opened(pid: int, file: Path) -> bool:
    with suppress(OSError):
        return str(file) in [os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()]
    return False


def test_a_launcher_does_not_begin_in_a_folder_that_goes_away(tmp_path: Path) -> None:
    (tmp_path / "run/oschaos-host").mkdir(parents=True)
    shared = tmp_path / "run/oschaos-host/.helpers"
    with shared.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # as the one that takes it away
        begun = subprocess.Popen([sys.executable, "-IS", "-c", moved(LAUNCH, tmp_path), "", "{}", "u-1"])
        assert wait_until(lambda: has_opened(begun.pid, shared), 10, every=0.01)
        shared.unlink()
    assert begun.wait(10) == 1


# ---- names ------------------------------------------------------------------------------------------------------


def judged(
    made: Fault, lab: ExistingTarget, monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], within: float
) -> tuple[bool, bool]:
    """Whether a fault is in effect, and whether all is well, where DNS servers answer so, each asked for so long."""

    def call(_: Any, node: str, verb: str, asked: dict[str, Any]) -> dict[str, Any]:
        assert (node, verb, asked["within"]) == (DATA, "lookup", within)
        return {"ok": True, "answers": answers}

    monkeypatch.setattr(Hosts, "call", call)
    evidence = made.evidence()
    hit = {evidence.in_effect(lab).proven, evidence.held(lab).proven}
    well = {evidence.before(lab).proven, evidence.gone(lab).proven}
    assert len(hit) == len(well) == 1
    return hit.pop(), well.pop()


def test_that_names_are_not_resolved_is_what_the_pods_own_servers_say(
    lab: ExistingTarget, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lab.helpers is not None
    lab.helpers.make(RUN, [DATA])
    made = fault(lab, "node.dns_outage", target=f"node {DATA}", how="refuse")
    (both,) = made.moves
    assert both.move.arguments["intent"] == "node.dns_outage" and both.move.arguments["asked"] == {"how": "refuse"}
    for answers, answered in (({"10.96.0.10": 0.01}, True), ({"10.96.0.10": None, "10.96.0.11": 0.2}, True),
                              ({"10.96.0.10": None}, False), ({}, False)):  # fmt: skip
        assert judged(made, lab, monkeypatch, answers, 1.0) == (not answered, answered)


def test_that_names_are_resolved_late_is_so_of_each_answer_and_takes_one(
    lab: ExistingTarget, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lab.helpers is not None
    lab.helpers.make(RUN, [DATA])
    made = fault(lab, "node.dns_slowness", target=f"node {DATA}", delay="2s")
    (both,) = made.moves
    assert both.move.arguments["intent"] == "node.dns_slowness" and both.move.arguments["asked"] == {"delay_ms": 2000}
    for answers, late, well in (({"10.96.0.10": 0.01}, False, True), ({"10.96.0.10": 2.02}, True, False),
                                ({"10.96.0.10": 2.02, "10.96.0.11": 0.2}, False, True),
                                ({"10.96.0.10": 2.02, "10.96.0.11": None}, True, False),
                                ({"10.96.0.10": None}, False, False), ({}, False, False)):  # fmt: skip
        assert judged(made, lab, monkeypatch, answers, 3.0) == (late, well), "it waits for longer than the delay"


def test_evidence_about_names_that_nobody_can_ask_for_proves_nothing(lab: ExistingTarget) -> None:
    evidence = NamesEvidence([DATA])
    assert not any(look(lab).proven for look in (evidence.before, evidence.in_effect, evidence.still, evidence.gone))


# ---- memory -----------------------------------------------------------------------------------------------------


def test_that_a_node_lacks_memory_takes_an_end_of_its_container_since_for_that_reason(
    lab: ExistingTarget, there: Server, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ExistingTarget, "on_hosts", lambda _, nodes: dict.fromkeys(nodes, can))
    assert lab.helpers is not None and lab.pods is not None
    lab.helpers.make(RUN, [DATA])
    can: dict[str, Any] = {"intents": {"node.out_of_memory": None}}
    pod = there.pods[DATA]
    container = pod["status"]["containerStatuses"][0]
    container["lastState"] = {"terminated": {"reason": "OOMKilled", "finishedAt": "2026-11-01T00:00:00Z"}}
    made = fault(lab, "node.out_of_memory", target=f"node {DATA}")
    assert made.read is not None
    (both,) = made.read(lab)
    assert both.move.arguments["intent"] == "node.out_of_memory" and both.move.arguments["asked"] == {}
    word = OutOfMemory(Shown(True), {DATA: lab.pods.pod(DATA)})  # type: ignore[arg-type, dict-item]

    def becomes(reason: str, when: str, *, ready: bool, state: str = "waiting") -> tuple[bool, bool]:
        container["state"] = {state: {"reason": "CrashLoopBackOff"} if state == "waiting" else {}}
        container["lastState"] = {"terminated": {"reason": reason, "finishedAt": when}}
        pod["status"]["conditions"] = [{"type": "Ready", "status": str(ready)}]
        lab.pods._last = None  # type: ignore[union-attr]
        return word.in_effect(lab).proven, word.gone(lab).proven

    assert becomes("OOMKilled", "2026-11-01T00:00:00Z", ready=False) == (False, False), "it ended so long before"
    assert becomes("Error", "2026-11-29T00:00:00Z", ready=False) == (False, False), "for another reason"
    assert becomes("OOMKilled", "2026-11-29T00:00:00Z", ready=False) == (True, False)
    assert becomes("OOMKilled", "2026-11-29T00:00:00Z", ready=False, state="running") == (True, False)
    assert becomes("OOMKilled", "2026-11-29T00:00:00Z", ready=True, state="running") == (False, True)
    alone = OutOfMemory(Shown(False), {DATA: lab.pods.pod(DATA)})  # type: ignore[arg-type, dict-item]
    assert not alone.gone(lab).proven, "the API server's word alone is none"
    pod["metadata"]["uid"] = "another"
    assert becomes("OOMKilled", "2026-11-29T00:00:01Z", ready=False) == (False, False), "another pod"
    nothing = OutOfMemory(Shown(True), {})  # type: ignore[arg-type]
    assert not nothing.in_effect(lab).proven and not nothing.gone(lab).proven


# ---- a machine that is cut off -----------------------------------------------------------------------------------


def test_a_machine_is_cut_off_once_all_on_it_are_named(
    lab: ExistingTarget, there: Server, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    can = {"intents": {"node.isolation": None}}
    monkeypatch.setattr(ExistingTarget, "on_hosts", lambda _, nodes: dict.fromkeys(nodes, can))
    asked: dict[str, Any] = {"target": f"node {DATA}"}
    there.lend("agent-1", "kube-system", "node-b", "DaemonSet")
    there.lend("web-2", "shop", "node-a", "ReplicaSet")
    made = fault(lab, "node.isolation", **asked)
    assert made.read is not None and lab.helpers is not None
    with pytest.raises(FaultError, match=f"{MANAGER} would be cut off with node-b too: name it as well"):
        made.read(lab)
    there.pods[MANAGER]["spec"]["nodeName"] = "node-c"
    lab.pods._last = None  # type: ignore[union-attr]
    with pytest.raises(FaultError, match=r"^agent-1 of namespace kube-system would be cut off with node-b: others: "):
        made.read(lab)
    there.machines["node-b"]["status"] = machine(ready=True)
    lab.helpers.make(RUN, [DATA])
    made = fault(lab, "node.isolation", others=["kube-system"], **asked)
    assert made.read is not None
    (both,) = made.read(lab)
    assert both.move.arguments["asked"] == {"spare": [10250]} and both.move.arguments["intent"] == "node.isolation"


def machine(*, ready: bool) -> dict[str, Any]:
    condition = {"type": "Ready", "status": str(ready) if ready else "Unknown"}
    return {"conditions": [condition], "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}


def test_that_it_is_cut_off_takes_both_words(lab: ExistingTarget, there: Server, programs: Programs) -> None:
    there.machines["node-b"]["status"] = machine(ready=True)
    word = Unready(Shown(True), {"node-b": DATA})  # type: ignore[arg-type]
    assert not word.in_effect(lab).proven and word.gone(lab).proven
    there.machines["node-b"]["status"] = machine(ready=False)
    assert word.in_effect(lab).proven and not word.gone(lab).proven
    assert not Unready(Shown(False), {"node-b": DATA}).in_effect(lab).proven  # type: ignore[arg-type]
    nothing = Unready(Shown(True), {})  # type: ignore[arg-type]
    assert not nothing.in_effect(lab).proven and not nothing.gone(lab).proven
    del there.machines["node-b"]["status"]
    assert word.in_effect(lab).proven, "a machine that says nothing is not ready"


def test_what_it_needs_is_printed_and_whom_it_hits_is_said_before_the_run(
    lab: ExistingTarget, there: Server, state: Path
) -> None:
    there.pods[MANAGER]["spec"]["nodeName"] = "node-c"
    there.lend("agent-1", "kube-system", "node-b", "DaemonSet")
    offers, file = PROVIDERS.on(lab.lacks), state / "cut.yaml"
    shipped = (
        (ROOT / "experiments" / "data-node-kill.yaml").read_text().replace("undo: node.kill", "undo: node.isolation")
    )

    def rows(inject: str) -> list[str]:
        file.write_text(shipped.replace("node.kill: {target: node b-data}", inject))
        asked = load_experiment(file).model_copy(update={"topology": lab.topology})
        assert on_target.of_pods(asked, offers) == {rights.HELPER, "node.isolation"}
        return [row.says for row in on_target.refused_pods(lab, asked, 1, offers)]

    assert rows("node.isolation: {target: node b-data}") == [
        "agent-1 of namespace kube-system would be cut off with node-b: others: [kube-system]"
    ]
    assert rows("node.isolation: {target: node b-data, others: [kube-system]}") == []
    control = "node-role.kubernetes.io/control-plane"
    there.machines["node-b"]["metadata"]["labels"][control] = ""
    says = rows("node.isolation: {target: node b-data, others: [kube-system]}")
    assert says == [f"Kubernetes itself would be cut off with node-b ({control}), and us from it"]
    del there.machines["node-b"]["metadata"]["labels"][control]
    there.denied.add(("list", "all pods"))
    assert rights.WHO_ELSE in rights.needed("search", ["node.isolation"], forward=True)
    assert "forbidden" in str(rows("node.isolation: {target: node b-data}"))
