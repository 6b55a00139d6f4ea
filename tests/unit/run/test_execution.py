"""Parts of a run without a cluster: who may run on a lab, how a phase ends in the record, how late a stop is met."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from fakes import PARTS, ROOT, FakeLab, Log, a_fault, topology
from making import block

from chaos.base import paths
from chaos.base.console import Reporter
from chaos.base.errors import Aborted, ChaosError, Exit, FaultError, InvalidInput, LabError
from chaos.base.netsock import Endpoint
from chaos.base.paths import ProcessIdentity
from chaos.base.units import Duration, Rate
from chaos.commands import leases
from chaos.definitions.actions import Reindex
from chaos.definitions.experiment import Phase, Rolled
from chaos.definitions.varied import Varied
from chaos.faults.ledger import Ledger, Registration, registrations, standing
from chaos.faults.lifecycle import Lifecycle, undo_entries
from chaos.history import History, ends
from chaos.instruments.process_exits import telling
from chaos.load import workloads
from chaos.load.known import LATE_S
from chaos.registry import load_experiment
from chaos.run import closing, options, phases, space
from chaos.run.execution import Execution
from chaos.run.instruments import Instruments
from chaos.run.leftovers import sole_run
from chaos.run.options import new_folder
from chaos.run.shape import Shape
from chaos.run.stopping import Stop, Unasked, Unproven
from chaos.targets.labs import network, toxiproxy
from chaos.targets.labs.local import LocalLab
from chaos.targets.wiring import Wiring

DEAD = ProcessIdentity(1, 0, "another boot")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENSEARCH_CHAOS_STATE", str(tmp_path))
    monkeypatch.setattr(network, "namespaces", lambda prefix="": [])
    return tmp_path


def execution(tmp_path: Path, stop: Stop | None = None, **given: Any) -> Any:
    """An execution without a lab: only what the part under test needs."""
    made = object.__new__(Execution)
    made.driver = None
    made.stop, made.reporter, made.events = stop or Stop(), Reporter(quiet=True), Log()  # type: ignore[assignment]
    made.lab = FakeLab()  # type: ignore[assignment]
    made.ledger = Ledger(tmp_path / "ledger.jsonl")
    made.lifecycle = Lifecycle(made.lab, made.ledger, made.events, stopped=made.stop.was_asked)
    made.outcome, made.early, made.labels, made.action_count = "finished", False, {}, 0
    made.instruments = Instruments()
    made.for_undo = SimpleNamespace(release=lambda: None)  # type: ignore[assignment]
    made.workload = workloads.named(workloads.DEFAULT)
    for name, value in given.items():
        setattr(made, name, value)
    return made


def test_of_two_runs_on_one_lab_the_second_is_refused_even_before_either_is_registered(state: Path) -> None:
    lab = LocalLab.create(topology("3az"), PARTS, id="play")
    with sole_run(lab), pytest.raises(InvalidInput, match="under way on lab 'play'"), sole_run(lab):
        pass
    with sole_run(lab):
        pass
    with sole_run(None):
        pass


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ChaosError("the load driver died: x"), "error"),
        (Aborted("stopped by SIGINT"), "aborted"),
        (Unasked("node a-data was ended from outside (SIGKILL)"), "aborted"),
    ],
)
def test_a_phase_has_an_end_whatever_ended_it(tmp_path: Path, error: ChaosError, reason: str) -> None:
    def hold(phase: Phase, began: float) -> str:
        raise error

    made = execution(tmp_path, hold=hold)
    with pytest.raises(type(error)):
        made.phase(0, Phase(name="healthy", duration=Duration(3)))
    assert [event["reason"] for event in made.events.of("phase.end")] == [reason]


def test_clients_ask_data_nodes_and_the_one_that_they_are_pinned_to(tmp_path: Path) -> None:
    """A node that only coordinates serves only those that are pinned to it."""
    varied = load_experiment(ROOT / "experiments" / "managers" / "coordinating-node.yaml", sides=True)
    assert isinstance(varied, Varied)
    found = {}
    for side in varied.sides:
        wiring = Wiring.of_topology("x", side.experiment.topology)
        made = execution(tmp_path, experiment=side.experiment, there=None, lab=SimpleNamespace(wiring=wiring))
        found[side.name] = {target.node for target in made.load_targets}
    assert found == {
        "data": {"a-data", "b-data", "c-data"},
        "coordinating": {"a-data", "b-data", "c-data", "a-coord"},
    }


def test_an_action_that_failed_does_not_end_its_phase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge takes it for no pass (test_verdict.py). It is told which index is the load's."""
    asked: list[str] = []

    def perform(id: str, action: Any, lab: Any, ledger: Any, events: Any, index: str) -> bool:
        asked.append(index)
        return False

    monkeypatch.setattr("chaos.faults.actions.perform", perform)
    made = execution(
        tmp_path, hold=lambda *_: "finished", index="chaos", there=None, options=SimpleNamespace(permits=None)
    )
    made.look_step, made.refuse_vanished = lambda number: 0.0, lambda: None
    action = Reindex.model_validate({"settings": {"replication.type": "SEGMENT"}})
    made.phase(0, Phase(name="copied", duration=Duration(3), do=(action,)))
    assert asked == ["chaos"] and [event["reason"] for event in made.events.of("phase.end")] == ["finished"]


def test_the_time_from_the_stop_to_all_undone_is_written_down(tmp_path: Path) -> None:
    made = execution(tmp_path)
    assert made.lifecycle.inject(a_fault("f1", [block("a-data", "c-data")]))
    made.stop.ask("the file is there", "stop_file")
    with pytest.raises(Aborted):  # nobody else noticed: the closing does
        made.undo()
    (event,) = made.events.of("abort.undone")
    assert event["faults"] == ["f1"] and event["proven"] is True
    assert 0 < event["seconds"] <= event["proven_seconds"] and event["asked"] == made.stop.at
    assert made.lab.effects == set()


def test_a_failure_of_ours_ends_a_run_as_an_error_and_everything_is_undone(tmp_path: Path) -> None:
    made = execution(tmp_path)
    assert made.lifecycle.inject(a_fault("f1", [block("a-data", "c-data")]))
    made.driver_failed("the load driver has given no sign of life for 10 s")
    assert made.lifecycle.inject(a_fault("f2", [block("a-data", "b-data")])) is False  # nothing new is begun
    with pytest.raises(ChaosError, match="no sign of life") as raised:
        made.tick("holding")
    assert not isinstance(raised.value, Aborted) and made.stop.reason == made.stop.failure
    made.failed(str(raised.value))
    made.undo()
    (event,) = made.events.of("abort.undone")
    assert event["faults"] == ["f1"] and event["proven"] is True and made.lab.effects == set()


def test_a_record_that_breaks_while_an_abort_is_undone_is_the_worse_of_two(tmp_path: Path) -> None:
    nothing = lambda: None  # noqa: E731
    made = execution(tmp_path, settle_and_read_back=nothing, lab_away=nothing)
    made.stop.ask("stopped by SIGINT")
    made.driver_failed("the load driver died: it got the same SIGTERM")  # it is about to be ended anyway
    with pytest.raises(Aborted) as raised:
        made.stop.check()
    made.aborted(raised.value)
    made.broken("the record cannot be written: events.jsonl: No space left on device")
    made.close_down()
    assert made.outcome == "error" and made.stop.reason == "stopped by SIGINT"
    assert [event["says"] for event in made.events.of("error")] == [made.stop.failure]


def test_room_is_kept_aside_for_the_end_and_given_back_when_it_comes(tmp_path: Path) -> None:
    made = execution(tmp_path)
    made.for_undo = space.Reserve(tmp_path, "undo", space.FOR_UNDO)
    (file,) = tmp_path.glob(".room-for-*")
    assert file.stat().st_blocks * 512 >= space.FOR_UNDO  # taken, and no hole
    made.broken("the record cannot be written: events.jsonl: No space left on device")
    assert not file.exists()
    space.Reserve(tmp_path, "report", 1)
    space.release(tmp_path)
    assert not list(tmp_path.glob(".room-for-*"))


def test_a_run_that_was_made_and_cannot_be_reported_is_no_bad_input(tmp_path: Path) -> None:
    """Exit code 2 says that nothing was started."""
    assert options.Unreported(tmp_path, InvalidInput("no such template"), []).exit_code is Exit.ERROR


def test_no_stop_no_latency(tmp_path: Path) -> None:
    made = execution(tmp_path)
    made.undo()
    assert made.events.of("abort.undone") == []


def end(what: str = "node", **given: Any) -> dict[str, Any]:
    """An end as the watch tells it."""
    fact = {"what": what, "name": "a-data", "signal": "SIGKILL", "exit_code": None, **given}
    return fact | {"how": ends.how(fact)}


def test_an_end_that_nobody_asked_for_cuts_the_run(tmp_path: Path) -> None:
    made = execution(tmp_path)
    telling(made.cut)(end())
    telling(made.cut)(end(name="b-data"))
    with pytest.raises(Unasked, match=r"node a-data was ended from outside \(SIGKILL\)"):
        made.stop.check()
    assert made.stop.is_over() and not made.stop.was_asked()
    made.stop.ask("stopped by SIGINT")
    with pytest.raises(Aborted):  # somebody who asks for the end is heard all the same
        made.stop.check()


@pytest.mark.parametrize(
    ("says", "lives", "told"),
    [
        ("node a-data died at start: x", False, "service store had ended: node a-data died at start: x"),
        ("service store ended with 137: x", False, "service store ended with 137: x"),
        ("node a-data died at start: x", True, "node a-data died at start: x"),
    ],
)
def test_an_error_says_that_a_service_had_ended(tmp_path: Path, says: str, lives: bool, told: str) -> None:
    """Before the load nobody watches processes: what nodes could not do without it is said with its cause."""
    lab: Any = FakeLab("3az-remote-store")
    lab.residents = lambda: [SimpleNamespace(what="service", name="store"), SimpleNamespace(what="node", name="a-cm")]
    lab.lives = lambda resident: lives and resident.what == "service"
    made = execution(tmp_path, lab=lab)
    made.failed(says)
    assert [event["says"] for event in made.events.of("error")] == [told]


@pytest.mark.parametrize(
    ("topology", "lives", "asked", "over"),
    [
        ("3az-remote-store", True, False, False),
        ("3az-remote-store", False, False, True),
        ("3az-remote-store", True, True, True),
        ("3az", False, False, False),
        ("3az", False, True, True),
    ],
)
def test_replicas_are_not_awaited_once_their_store_has_ended(
    tmp_path: Path, topology: str, lives: bool, asked: bool, over: bool
) -> None:
    lab: Any = FakeLab(topology)
    lab.residents = lambda: [SimpleNamespace(what="service", name="store")]
    lab.lives = lambda resident: lives
    made = execution(tmp_path, lab=lab)
    if asked:
        made.stop.ask("stopped by SIGINT")
    assert made.nothing_to_copy_from() is over


@pytest.mark.parametrize("what", ["driver", "controller"])
def test_one_of_ours_that_failed_by_itself_is_an_error(tmp_path: Path, what: str) -> None:
    made = execution(tmp_path)
    telling(made.cut)(end(what, signal=None, exit_code=1))
    with pytest.raises(ChaosError) as raised:
        made.stop.check()
    assert not isinstance(raised.value, Unasked)
    with pytest.raises(ChaosError):
        made.check_late_stop()


def test_nothing_is_injected_once_a_process_has_ended(tmp_path: Path) -> None:
    made = execution(tmp_path)
    made.lifecycle = Lifecycle(made.lab, made.ledger, made.events, stopped=made.stop.is_over)
    telling(made.cut)(end())
    assert made.lifecycle.inject(a_fault("f1", [block("a-data", "c-data")])) is False
    assert made.lab.effects == set()


@pytest.mark.parametrize("way", ["it ends before", "a stop comes", "nobody answers"])
def test_what_is_written_down_for_a_phase_that_is_not_made_is_not_looked_for_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Nothing of it was sent, so nothing of it is on its way to a cluster that is not ours."""
    made = execution(tmp_path)
    made.lab.asks, made.there, made.options = True, SimpleNamespace(), SimpleNamespace(permits=None)
    params = SimpleNamespace(momentary=False, label="cut", describe=lambda: "cut", spoken=str)
    made.planned = {"next": [SimpleNamespace(params=params)]}
    phase = SimpleNamespace(name="next", inject=(params,))
    made.experiment = SimpleNamespace(phases=[phase])
    made.faults_of = lambda phase: [a_fault("f1", [block("a-data", "c-data")])]
    prepare = made.lifecycle.prepare

    def prepared(*faults: Any) -> Any:
        written = prepare(*faults)
        if way == "a stop comes":
            made.stop.ask("stopped by SIGINT")
        return written

    def unanswered(lab: Any) -> Any:
        raise LabError("no node answers")

    made.lifecycle.prepare = prepared
    monkeypatch.setattr(phases.noticing, "detection", unanswered)
    if way == "it ends before":
        made.prepare_step(0)
        made.ended_early(Unproven("f0 is not proven to be in effect any more"))
    elif way == "a stop comes":
        with pytest.raises(Aborted) as ended:
            made.prepare_step(0)
        made.aborted(ended.value)
    else:
        with pytest.raises(LabError) as failed:
            made.inject_step(phase)
        made.failed(str(failed.value))
    (entry,) = standing(made.ledger.path)
    assert entry.fault == "f1" and not entry.answered
    made.undo()
    assert standing(made.ledger.path) == [] and made.prepared is None
    assert made.lab.effects == set() and ("block", "a-data", "c-data") not in made.lab.calls


class One(list[Any]):
    """The one index of a run's load."""

    others = ()


@pytest.mark.parametrize("when", ["in a phase", "while it settles"])
def test_after_an_end_nothing_is_waited_for_and_what_is_there_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    waited: list[float] = []
    made = execution(tmp_path)

    def settling(lab: Any, seconds: float, *, stopped: Any, **_: Any) -> tuple[bool, float]:
        telling(made.cut)(end())
        waited.append(seconds)
        while not stopped():
            time.sleep(0.01)
        return False, 0.1

    (tmp_path / "history").mkdir()
    driver = SimpleNamespace(stop=lambda: True, error=None)
    made.driver, made.folder, made.index = driver, tmp_path, "chaos"
    made.seed = 1
    load = SimpleNamespace(cas=None, writers=(), stride=1, every=(), automatic=lambda place: False)
    made.experiment = SimpleNamespace(load=load, expect=[SimpleNamespace(command=("true",))])
    rest = {"workload": made.workload, "rolled": Rolled(), "shape": Shape()}
    index = SimpleNamespace(place=None, index="chaos", documents=1, **rest)
    made.indices = One([index])
    monkeypatch.setattr(closing, "await_green", settling)
    monkeypatch.setattr(closing.History, "open", lambda folder: None)
    monkeypatch.setattr(closing.Written, "of", lambda history, **_: None)
    monkeypatch.setattr(closing, "read_back", lambda *_, **__: {"complete": True})
    monkeypatch.setattr(Execution, "await_known_dead", lambda self: waited.append(0.0))
    if when == "in a phase":
        telling(made.cut)(end())
        made.ended_early(Unasked("node a-data was ended from outside (SIGKILL)"))
    made.settle_and_read_back()
    assert waited == ([0.0] if when == "in a phase" else [closing.SETTLE_SECONDS, 0.0])
    assert made.outcome == "finished" and made.events.of("cluster.settled") == []
    assert len(made.events.of("note")) == 1  # said once
    assert made.events.of("expect.command") == []  # what did not settle is asked nothing
    assert json.loads((tmp_path / "history" / "readback.json").read_text()) == {"complete": True}


@pytest.mark.parametrize(
    ("durable", "more", "restored"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"early": True}, False),
        (True, {"outcome": "aborted"}, False),
        (True, {"driver": None}, False),
    ],
)
def test_a_cluster_is_emptied_after_the_read_back_of_a_whole_run_tagged_durable_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool, more: dict[str, Any], restored: bool
) -> None:
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "readback.json").write_text('{"complete": true}')
    ended: list[Any] = []

    def from_store(lab: Any, indices: Any, read: Any, says: Any, stopped: Any) -> dict[str, Any]:
        assert ended == [("last",)]  # who watches the nodes is told first
        return {"complete": False, "reason": "a"}

    given = {"folder": tmp_path, "driver": SimpleNamespace(), "indices": One([]), "early": False}
    made = execution(tmp_path, **{**given, **more})
    made.experiment = SimpleNamespace(durable=durable)
    made.end_instruments = lambda *ends: ended.append(tuple(each.name.lower() for each in ends))
    monkeypatch.setattr(closing.History, "open", lambda folder: None)
    monkeypatch.setattr(closing, "read_back_from_store", from_store)
    made.read_back_from_store()
    assert json.loads((tmp_path / "history" / "readback.json").read_text()) == {"complete": True}  # sealed by then
    kept = History(tmp_path).readback
    assert kept == {"complete": True} | ({"store": {"complete": False, "reason": "a"}} if restored else {})
    assert [each["name"] for each in made.events.of("stage")] == (["restore from the store"] if restored else [])


@pytest.mark.parametrize("mends", [True, False])
def test_what_does_not_take_back_what_it_was_told_to_is_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mends: bool
) -> None:
    made = execution(tmp_path)
    made.lifecycle = Lifecycle(made.lab, made.ledger, made.events, stopped=made.stop.is_over)
    assert made.lifecycle.inject(a_fault("f1", [block("a-data", "c-data")]))
    hung = ["Toxiproxy of a-data"]

    def fails(call: str, arguments: Any) -> None:
        if hung and call == "restore":
            raise FaultError("it hangs")

    def mend() -> list[str]:
        started = list(hung)
        hung.clear()
        return started

    monkeypatch.setattr(made.lab, "fails", fails)
    if mends:
        monkeypatch.setattr(made.lab, "mend", mend)
    made.stop.ask("stopped by SIGINT")
    with pytest.raises(Aborted):
        made.undo()
    (undone,) = made.events.of("abort.undone")
    assert undone["complete"] is mends and undone["proven"] is False
    if not mends:
        assert made.lab.effects and made.events.of("note") == []
        return
    (note,) = made.events.of("note")
    assert "Toxiproxy of a-data" in note["says"] and "was started anew" in note["says"]
    assert made.events.of("fault.gone") == []
    assert undo_entries(made.lab, made.ledger, standing(made.ledger.path)) == [] and made.lab.effects == set()


def test_a_server_that_hangs_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    server = toxiproxy.ToxiproxyServer("a-cm", Endpoint("127.0.0.1", 8474))

    def hangs(path: str, timeout: float, **_: Any) -> Any:
        waited.append(timeout)
        raise requests.ReadTimeout

    monkeypatch.setattr(server, "_consumer", SimpleNamespace(get=hangs))
    for _ in range(3):
        with pytest.raises(FaultError, match="it hangs"):
            server.proxies()
    assert waited == [toxiproxy.TIMEOUT_SECONDS, toxiproxy.HUNG_TIMEOUT_SECONDS, toxiproxy.HUNG_TIMEOUT_SECONDS]
    answer = SimpleNamespace(status_code=200, json=dict)
    get = lambda path, timeout, **_: waited.append(timeout) or answer  # type: ignore[func-returns-value]  # noqa: E731
    monkeypatch.setattr(server, "_consumer", SimpleNamespace(get=get))
    server.proxies()
    server.proxies()
    assert waited[3:] == [toxiproxy.HUNG_TIMEOUT_SECONDS, toxiproxy.TIMEOUT_SECONDS]


def test_a_lab_that_is_taken_down_takes_what_dead_runs_did_to_it_along(state: Path) -> None:
    lab = LocalLab.create(topology("3az"), PARTS, id="play", lease=True)
    (lab.folder / "leased").touch()
    (lab.folder / "lab.json").write_text(
        (lab.folder / "lab.json").read_text().replace(ProcessIdentity.me().boot_id, "another boot")
    )
    for run, of in (("run-1", "play"), ("run-2", "other")):
        ledger = Ledger(state / run / "ledger.jsonl")
        ledger.intend("f1", [block("a-data", "b-data")])
        ledger.close()
        Registration(run, ledger.path, of, DEAD).write()
    assert leases.down("play")[2] == []
    assert [each.run for each in registrations()] == ["run-2"]
    assert not (paths.labs() / "play").exists()


def test_the_driver_is_told_of_the_checks_on_data_and_what_they_wrote_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = load_experiment(ROOT / "experiments" / "data-promises.yaml")
    assert experiment.load.cas is not None and experiment.load.visibility is not None
    checks = {  # of its own: what the shipped file asks for is for its runs to say
        "cas": experiment.load.cas.model_copy(update={"rate": Rate.parse("10/s"), "keys": 5}),
        "visibility": experiment.load.visibility.model_copy(update={"rate": Rate.parse("2/s"), "within": Duration(30)}),
    }
    experiment = experiment.model_copy(update={"load": experiment.load.model_copy(update=checks)})
    made = execution(tmp_path, experiment=experiment, seed=1, folder=tmp_path, index="chaos")
    made.lab = FakeLab("3az")
    told = made.driver_config(planned=True)
    assert (told.cas.rate, told.cas.keys, made.cas_keys) == (10.0, 5, 5)
    assert (told.visibility.rate, told.visibility.within_s) == (2.0, 30.0)

    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "history").mkdir()
    probe = {"t": 1, "kind": "write", "n": 0, "id": "v-0"}
    (tmp_path / "history" / "probes.jsonl").write_text(json.dumps(probe) + "\n")
    asked: list[Any] = []

    def read_back(
        lab: Any, index: str, written: Any, says: Any, *, seed: int, workload: Any, **rest: Any
    ) -> dict[str, Any]:
        assert rest.pop("stopped")() is False
        assert seed == made.seed == 1
        assert rest == {"automatic": False, "told": None, "rolled": False, "segments": False}
        asked.append(written)
        return {"complete": True}

    monkeypatch.setattr(closing, "read_back", read_back)
    monkeypatch.setattr(closing, "await_green", lambda *_, **__: (True, 0.1))
    monkeypatch.setattr(closing, "patiently", lambda work, *_: work())
    made.driver = SimpleNamespace(stop=lambda: True, error=None)
    made.settle_and_read_back()
    (written,) = asked
    assert {"c-0", "c-4", "p-0"} <= written.acknowledged and written.open == {"v-0"} == written.probes
    assert json.loads((tmp_path / "history" / "readback.json").read_text()) == {"complete": True}


def refused_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, began: bool) -> tuple[Any, list[str]]:
    """On a cluster that exists, by an execution whose notes are refused, or that is refused something later."""
    monkeypatch.setenv("OPENSEARCH_CHAOS_STATE", str(tmp_path / "state"))
    folder = new_folder(tmp_path / "reports", "zone-goes-dark")
    did: list[str] = []

    def end(*, clean: bool) -> None:
        did.append(f"keeper ended, clean {clean}")

    there = SimpleNamespace(
        began=began, undone=lambda: did.append("undone"), marks=list, end_helpers=list, by_hooks=lambda: False, end=end
    )
    registration = Registration(folder.name, folder / "ledger.jsonl", "existing-staging", ProcessIdentity.me())
    made = execution(folder, there=there, own_lab=False, folder=folder, index="oschaos-0123-load", dirt=[])
    nothing = SimpleNamespace(start=lambda: None, stop=lambda: None, release=lambda: None)
    made.registration, made.recording, made.for_report = registration, nothing, nothing
    made.events.close = lambda: None
    made.identity, made.indices = nothing, [SimpleNamespace(index=made.index, rolled=Rolled())]
    made.logged = lambda: nullcontext()
    made.keep_logs = lambda: None
    made.lab.write_logs = lambda: None
    monkeypatch.setattr(closing.proof, "index_there", lambda lab, index: [])
    registration.write()

    def load_on() -> None:
        raise InvalidInput("run 20261127T120000Z-other-0123 of ci-2 is under way on this cluster")

    made.begin, made.lab_up, made.load_on = registration.write, (lambda: None), load_on
    made.look_for_leftovers = lambda: None  # test_auditing.py has it
    return made, did


def test_of_two_runs_on_one_cluster_the_slower_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, did = refused_run(tmp_path, monkeypatch, began=False)
    with pytest.raises(InvalidInput, match="of ci-2 is under way on this cluster"):
        made.execute()
    assert list((tmp_path / "reports").iterdir()) == [] and registrations() == []
    assert did == ["undone", "keeper ended, clean True"]


def test_what_is_refused_once_it_began_is_an_error_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = refused_run(tmp_path, monkeypatch, began=True)
    made.report = lambda: made.outcome
    assert made.execute() == "error" and made.folder.is_dir()


def test_a_refused_run_that_left_something_says_so_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, did = refused_run(tmp_path, monkeypatch, began=False)
    made.there.marks = lambda: ["a toxic is still there"]
    made.report = lambda: made.dirt
    assert made.execute() == ["a toxic is still there"] and made.folder.is_dir()
    assert did[-1] == "keeper ended, clean False" and len(registrations()) == 1


def test_a_runs_folder_that_is_there_already_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = new_folder(tmp_path / "reports", "zone-goes-dark")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    monkeypatch.setattr(options.secrets, "token_hex", lambda size: "0123")
    noon = datetime(2026, 11, 27, 12, tzinfo=UTC)
    monkeypatch.setattr(options, "datetime", SimpleNamespace(now=lambda zone: noon))
    (tmp_path / "reports" / "20261127T120000Z-zone-goes-dark-0123").symlink_to(theirs)
    with pytest.raises(InvalidInput, match=r"cannot make the run folder .*: File exists; choose a folder with --out"):
        new_folder(tmp_path / "reports", "zone-goes-dark")
    assert list(theirs.iterdir()) == [] and first.is_dir()


@pytest.mark.parametrize(("kept", "begins"), [({"index.remote_store.enabled": "true"}, True), ({}, False)])
def test_an_index_that_is_not_kept_in_the_store_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: dict[str, str], begins: bool
) -> None:
    monkeypatch.setattr("chaos.run.loading.settings_of_oldest", lambda *_, **__: kept)
    monkeypatch.setattr("chaos.run.loading.setting_in_force", lambda *_, **__: None)
    monkeypatch.setattr("chaos.opensearch.replication.replication_type", lambda *_, **__: "SEGMENT")
    index = SimpleNamespace(index="chaos", rolled=SimpleNamespace(rolled=None), shape=None)
    experiment = load_experiment(ROOT / "experiments" / "remote-store" / "remote-store-no-fault.yaml")
    made = execution(tmp_path, indices=[index], experiment=experiment)
    with nullcontext() if begins else pytest.raises(LabError, match="chaos is not kept in the service store"):
        made.look_at_the_indices("a-data")
    assert (index.shape is not None) is begins


@pytest.mark.parametrize(
    ("own", "cluster", "after"), [({}, "60s", 60), ({"index.refresh_interval": "5s"}, "60s", 5), ({}, None, 1)]
)
def test_an_index_without_a_refresh_interval_of_its_own_has_the_clusters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: dict[str, str], cluster: str | None, after: float
) -> None:
    monkeypatch.setattr("chaos.run.loading.settings_of_oldest", lambda *_, **__: own)
    monkeypatch.setattr("chaos.opensearch.replication.replication_type", lambda *_, **__: "DOCUMENT")

    def administer(_: Any, method: str, path: str, **__: Any) -> tuple[int, Any]:
        assert (method, path) == ("GET", "/_cluster/settings?flat_settings=true&include_defaults=true")
        defaults = {} if cluster is None else {"cluster.default.index.refresh_interval": cluster}
        return 200, {"persistent": {}, "transient": {}, "defaults": defaults}

    monkeypatch.setattr("chaos.opensearch.administration.administer", administer)
    index = SimpleNamespace(index="chaos", rolled=SimpleNamespace(rolled=None), shape=None)
    made = execution(tmp_path, indices=[index], experiment=load_experiment(ROOT / "experiments" / "no-fault.yaml"))
    made.look_at_the_indices("a-data")
    assert index.shape.visible_after_s == after + LATE_S
