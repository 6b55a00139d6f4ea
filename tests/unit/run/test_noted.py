"""Notes of what a run is about to change, on the cluster itself; and the keeper."""

from __future__ import annotations

import os
import socket
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
from documents import INDEX, WithDocuments
from making import block

from chaos.base.errors import FaultError, InvalidInput, LabError
from chaos.base.paths import STATE_VARIABLE, ProcessIdentity, write_json
from chaos.faults.ledger import Ledger, standing
from chaos.faults.lifecycle import undo_entries
from chaos.faults.moves import Move, Reversible
from chaos.gamedays.board import Board
from chaos.history.controllers import LEDGER as CONTROLLERS
from chaos.history.controllers import NOTHING, SILENT_SECONDS
from chaos.instruments.controllers import BEAT_SECONDS
from chaos.run import commanding, keeper, noted, recovering_on
from chaos.run.noted import FORGET, HOLDERS, NotedLedger, Notes, NotesGone, opening
from chaos.run.on_target import LEASE_SECONDS, refused_beside
from chaos.targets.existing.target import folder_of, unreached


@pytest.fixture
def cluster() -> WithDocuments:
    return WithDocuments()


def opened(cluster: Any, folder: Path, run: str = "run-1") -> NotedLedger:
    ledger = NotedLedger(folder / f"{run}.jsonl", lambda says: None, run)
    notes = Notes(cluster, INDEX)
    both = opening(notes, run)
    ledger.intend("notes", [both])
    both.move.apply(cluster)
    ledger.notes = notes
    return ledger


def test_what_is_about_to_be_changed_stands_on_the_cluster_first_and_goes_when_it_is_undone(
    cluster: WithDocuments, tmp_path: Path
) -> None:
    ledger = opened(cluster, tmp_path)
    (entry,) = ledger.intend("f1", [block("a-data", "b-data")])
    assert cluster.noted == {"run", "run-1-1"}
    (noted,) = Notes(cluster, INDEX).standing()["run-1"]  # type: ignore[arg-type]
    assert noted == entry
    more = ledger.intend("f2", [block("a-data", "c-data"), block("c-data", "a-data")])
    assert cluster.noted == {"run", *(f"run-1-{n}" for n in (1, 2, 3))}
    for each in (entry, more[0]):
        ledger.note(each, "undone")
    ledger.settle()
    assert cluster.noted == {"run", "run-1-3"}
    ledger.note(more[1], "undone")  # nobody forgets it any more but what closes the notes
    ledger.settle()
    assert cluster.noted == {"run", "run-1-3"}


def test_what_is_done_to_this_machine_is_no_note_for_others(cluster: WithDocuments, tmp_path: Path) -> None:
    ledger = opened(cluster, tmp_path)
    inverse = Move(commanding.END, {"host": commanding.HERE})
    ledger.intend("during", [Reversible(Move(commanding.BEGIN, {"host": commanding.HERE}), inverse)])
    assert cluster.noted == {"run"} and len(standing(ledger.path)) == 2


def test_what_the_cluster_does_not_write_down_is_not_injected(cluster: WithDocuments, tmp_path: Path) -> None:
    ledger = opened(cluster, tmp_path)
    cluster.full = True
    with pytest.raises(FaultError, match=r"flood-stage.*nothing is injected"):
        ledger.intend("f1", [block("a-data", "b-data")])
    assert [each.fault for each in standing(ledger.path)] == ["notes"]


def test_of_two_runs_the_second_is_refused_and_takes_nothing_with_it(cluster: WithDocuments, tmp_path: Path) -> None:
    first = opened(cluster, tmp_path)
    with pytest.raises(InvalidInput, match=r"run run-1 of .* is under way"):
        opened(cluster, tmp_path, "run-2")
    for entry in standing(tmp_path / "run-2.jsonl"):
        assert entry.inverse is not None
        entry.inverse.apply(cluster)  # type: ignore[arg-type]
    assert cluster.noted == {"run"}
    Notes(cluster, INDEX).renew("run-1")  # type: ignore[arg-type]
    with pytest.raises(LabError, match="not this run's"):
        Notes(cluster, INDEX).renew("run-2")  # type: ignore[arg-type]
    (last,) = standing(first.path)
    assert last.inverse is not None and last.inverse.operation == FORGET
    last.inverse.apply(cluster)  # type: ignore[arg-type]
    assert cluster.noted == set() and INDEX in cluster.indices


@pytest.mark.parametrize("there", [True, False], ids=["was there", "made by the run"])
def test_the_index_of_notes_stays_with_all_that_others_wrote(
    cluster: WithDocuments, tmp_path: Path, there: bool
) -> None:
    """A stop and a consent, written while the run was under way: OpenSearch deletes no index on a condition."""
    if there:
        cluster.indices[INDEX] = {}
    (entry,) = standing(opened(cluster, tmp_path).path)
    assert entry.inverse is not None and entry.inverse.arguments["made"] is not there
    others = {"gameday-stop": {"reason": "no game day today please"}, "gameday-consent": {"by": "team-platform"}}
    cluster.documents.update(others)
    entry.inverse.apply(cluster)  # type: ignore[arg-type]
    assert INDEX in cluster.indices and cluster.documents == {**others, HOLDERS: {"number": 1}}


def test_a_lock_that_is_another_runs_by_now_is_not_given_back(cluster: WithDocuments, tmp_path: Path) -> None:
    """It changes hands between the look at it and the request that deletes it."""
    (entry,) = standing(opened(cluster, tmp_path).path)
    assert entry.inverse is not None

    def taken(method: str, path: str) -> None:
        if method == "DELETE":
            cluster.lies = lambda method, path: None
            cluster._keep("run", {"run": "run-2", "host": "other", "made": False})

    cluster.lies = taken
    entry.inverse.apply(cluster)  # type: ignore[arg-type]
    assert cluster.documents["run"]["run"] == "run-2"


def test_a_lock_that_moves_is_of_a_run_that_lives(
    cluster: WithDocuments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(cluster, tmp_path)
    notes = Notes(cluster, INDEX)  # type: ignore[arg-type]
    held = notes.lock()
    assert held is not None
    monkeypatch.setattr(recovering_on.time, "sleep", lambda _: None)
    assert recovering_on.is_dead(notes, held, 0.2)
    me = threading.current_thread()  # threads of other tests may sleep, too
    renew = lambda _: notes.renew("run-1") if threading.current_thread() is me else None  # noqa: E731
    monkeypatch.setattr(recovering_on.time, "sleep", renew)
    with pytest.raises(InvalidInput, match="is alive"):
        recovering_on.is_dead(notes, held, 0.2)


@pytest.fixture
def recovering(cluster: WithDocuments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WithDocuments:
    """``recover --on`` of a target's file is asked of this cluster."""
    target = SimpleNamespace(written=SimpleNamespace(notes=INDEX, kubernetes=None), file=tmp_path)
    monkeypatch.setattr(recovering_on, "load_existing", lambda file: target)
    monkeypatch.setattr(recovering_on, "refuse_another", lambda target: None)
    monkeypatch.setattr(recovering_on, "topology_of", lambda file: None)
    monkeypatch.setattr(recovering_on, "say_given_up", lambda cluster, says: None)
    monkeypatch.setattr(recovering_on.time, "sleep", lambda seconds: None)
    cluster.fis = None  # type: ignore[attr-defined]
    monkeypatch.setattr(recovering_on, "ExistingTarget", lambda target, topology: cluster)
    return cluster


def test_a_lock_that_is_given_back_meanwhile_is_of_a_run_that_has_ended(
    recovering: WithDocuments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its keeper did that: nothing has to be stopped, and its documents are gone."""
    (entry,) = standing(opened(recovering, tmp_path).path)
    notes = Notes(recovering, INDEX)  # type: ignore[arg-type]
    me = threading.current_thread()

    def given_back(_: float) -> None:
        if threading.current_thread() is me and notes.lock() is not None:
            assert entry.inverse is not None
            entry.inverse.apply(recovering)  # type: ignore[arg-type]

    monkeypatch.setattr(recovering_on.time, "sleep", given_back)
    said: list[str] = []
    assert recovering_on.recover_on(tmp_path, said.append) == (0, [])
    assert "run run-1 has given it back: it ended, or its keeper did that for it" in said


def test_recover_leaves_a_run_alone_that_began_after_the_dead_one_had_given_its_lock_back(
    recovering: WithDocuments, tmp_path: Path
) -> None:
    """It is under way when the notes are read, and its fault is its own to undo."""
    old = opened(recovering, tmp_path)
    old.intend("f1", [block("a-data", "c-data")])
    recovering.documents.pop("run")  # its lock is free, its note is left
    new = opened(recovering, tmp_path, "run-2")
    new.intend("f1", [block("a-data", "b-data")])
    BLOCK.apply(recovering)  # type: ignore[arg-type]
    effects = set(recovering.effects)
    held = Notes(recovering, INDEX).lock()  # type: ignore[arg-type]
    assert held is not None and held.run == "run-2"
    seen: list[str] = []
    real = recovering.documents.pop("run")  # free when it is looked at first ...

    def taken(method: str, path: str) -> None:
        seen.append(path)
        if path == f"/{INDEX}/_doc/run" and sum(each == path for each in seen) == 2:  # ... and held right afterwards
            recovering._keep("run", real)

    recovering.lies = taken
    count, problems = recovering_on.recover_on(tmp_path, lambda says: None)
    assert (count, problems) == (1, []), "what the dead run left"
    assert recovering.effects == effects and "run-2-1" in recovering.documents


def test_notes_that_are_deleted_while_they_are_read_are_named(recovering: WithDocuments, tmp_path: Path) -> None:
    opened(recovering, tmp_path).intend("f1", [block("a-data", "b-data")])
    recovering.documents.pop("run")

    def deleted(method: str, path: str) -> None:
        if path.endswith("/_refresh"):
            recovering.indices.pop(INDEX, None)

    recovering.lies = deleted
    count, (says,) = recovering_on.recover_on(tmp_path, lambda says: None)
    assert count == 0 and "the index .opensearch-chaos is gone" in says and "the machine of the run" in says


def test_a_run_with_controllers_counts_as_dead_only_when_these_have_ended(
    cluster: WithDocuments, tmp_path: Path
) -> None:
    """They live for as long as their runner is taken for alive, and until they notice its silence."""
    ledger = opened(cluster, tmp_path)
    notes = Notes(cluster, INDEX)  # type: ignore[arg-type]
    assert recovering_on.watched(notes.standing().get("run-1", ())) == recovering_on.WATCHED_SECONDS
    ledger.intend(CONTROLLERS, [Reversible(Move(NOTHING), Move("index.delete", {"index": ".failover-canary-0"}))])
    ledger.intend("controller a", [commanding.ending(commanding.Session(ProcessIdentity.me(), "t"), ["failover"])])
    (entry,) = notes.standing()["run-1"]  # their processes are nothing that another machine could end
    assert entry.fault == CONTROLLERS
    assert recovering_on.watched([entry]) > LEASE_SECONDS + SILENT_SECONDS + BEAT_SECONDS


def test_notes_that_cannot_be_read_are_an_error_in_words(cluster: WithDocuments, tmp_path: Path) -> None:
    opened(cluster, tmp_path)
    cluster.documents["run"] = {"nobody": "knows"}
    with pytest.raises(LabError, match=r"the lock in \.opensearch-chaos cannot be read"):
        Notes(cluster, INDEX).lock()  # type: ignore[arg-type]

    def dead(*_: Any) -> Any:
        raise urllib3.exceptions.ReadTimeoutError(None, "/", "no answer")  # type: ignore[arg-type]

    cluster.answer = dead  # type: ignore[method-assign]
    with pytest.raises(LabError):
        Notes(cluster, INDEX).exists()  # type: ignore[arg-type]


# ---- a manager that has not read its state ---------------------------------------------------------------------


HIDDEN = (404, {"error": {"type": "index_not_found_exception"}, "status": 404})


def hide(cluster: WithDocuments, requests: int) -> None:
    """A manager was elected a moment ago. For so many requests it has not read its state, and hides every index: names
    are resolved before blocks are looked at, so that is answered as if there were none."""
    cluster.forgetful = range(requests)
    cluster.lies = lambda method, path: HIDDEN if 0 in cluster.forgetful else None


def test_notes_that_a_new_manager_hides_are_there_once_it_has_read_its_state(
    cluster: WithDocuments, tmp_path: Path
) -> None:
    notes = Notes(cluster, INDEX)  # type: ignore[arg-type]
    assert not notes.exists()
    opened(cluster, tmp_path)
    hide(cluster, 2)
    assert notes.exists()


def test_while_a_manager_hides_the_notes_nothing_counts_as_undone_or_given_back(
    recovering: WithDocuments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for minutes with ``gateway.recover_after_nodes``."""
    monkeypatch.setattr(noted, "SECONDS", 0.05)
    ledger = opened(recovering, tmp_path)
    ledger.intend("f1", [block("a-data", "b-data")])
    before = dict(recovering.documents)
    hide(recovering, 10**6)
    unknown = r"whether there is an index \.opensearch-chaos cannot be known now: no cluster manager was elected"
    with pytest.raises(LabError, match=unknown):
        recovering_on.recover_on(tmp_path, lambda says: None)
    (last,) = [entry for entry in standing(ledger.path) if entry.fault == "notes"]
    assert last.inverse is not None and last.inverse.operation == FORGET
    with pytest.raises(LabError, match=unknown):
        last.inverse.apply(recovering)  # type: ignore[arg-type]
    with pytest.raises(LabError, match=unknown):
        noted.settle_open(recovering, ledger)  # type: ignore[arg-type]
    with pytest.raises(LabError, match=unknown):
        opening(Notes(recovering, INDEX), "run-2")  # type: ignore[arg-type]
    assert recovering.documents == before


def test_what_a_hidden_index_holds_is_not_said_to_be_absent(
    cluster: WithDocuments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop, a hold, or the lock of another run."""
    monkeypatch.setattr(noted, "SECONDS", 0.05)
    notes, board = Notes(cluster, INDEX), Board(cluster, INDEX)  # type: ignore[arg-type]
    assert notes.lock() is None and board.get("gameday-stop") is None and board.every("gameday") == {}
    with pytest.raises(NotesGone):
        notes.standing()
    opened(cluster, tmp_path)
    held = notes.lock()
    assert held is not None and board.get("gameday-stop") is None
    hide(cluster, 10**6)
    for ask in (notes.lock, notes.standing, lambda: board.get("gameday-stop"), lambda: board.every("gameday")):
        with pytest.raises(LabError, match="cannot be known now"):
            ask()
    hide(cluster, 1)
    with pytest.raises(LabError, match="is there, and a moment ago it was said not to be: ask once more"):
        notes.lock()
    assert notes.lock() == held


# ---- the keeper ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "ends", "farewell"), [(b"..q", False, True), (b"..", True, False), (b"", False, False)]
)
def test_the_keeper_goes_at_a_farewell_and_undoes_after_silence_or_an_end(
    said: bytes, ends: bool, farewell: bool
) -> None:
    ear, mouth = os.pipe()
    try:
        os.write(mouth, said) if said else None
        if ends:
            os.close(mouth)
        assert keeper.heard(ear, 0.2) is farewell
    finally:
        os.close(ear)
        if not ends:
            os.close(mouth)


def test_a_runner_that_speaks_in_time_is_left_alone() -> None:
    ear, mouth = os.pipe()
    heard: list[bool] = []
    listening = threading.Thread(target=lambda: heard.append(keeper.heard(ear, 5.0)))
    listening.start()
    for _ in range(5):
        os.write(mouth, keeper.BEAT)
    assert listening.is_alive()
    os.write(mouth, keeper.FAREWELL)
    listening.join(10)
    assert heard == [True]
    os.close(ear)
    os.close(mouth)


@pytest.mark.parametrize(("clean", "says"), [(True, b"told to go"), (False, b"left to undo")])
def test_the_keeper_is_told_to_go_only_where_nothing_is_left(tmp_path: Path, clean: bool, says: bytes) -> None:
    """A process of its own hears over the real pipe which of both it was."""
    heard = tmp_path / "heard"
    program = (
        "import pathlib, sys; from chaos.run.keeper import heard; print('ready', flush=True); "
        "pathlib.Path(sys.argv[1]).write_text('told to go' if heard(0, 60.0) else 'left to undo')"
    )
    kept = keeper.Keeper(tmp_path / "ledger.jsonl", "existing-x", tmp_path / "keeper.log", pytest.fail)
    kept._command = [sys.executable, "-c", program, str(heard)]
    kept.start()
    (kept.stop if clean else kept.leave)()
    assert kept.process is not None and kept.process.wait(30) == 0
    assert heard.read_bytes() == says and kept.commanded()
    kept.stop()  # once more is nothing


def test_the_keeper_tries_again_until_nothing_stands(
    cluster: WithDocuments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(cluster, tmp_path)
    ledger.intend("f1", [block("a-data", "b-data")])
    Move("neighbour.block", {"host": "a-data", "peer": "b-data"}).apply(cluster)  # type: ignore[arg-type]
    failing = [True, True]

    def fails(call: str, arguments: Any) -> None:
        if call == "restore" and failing:
            failing.pop()
            raise FaultError("no answer")

    cluster.fails = fails
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))  # no cluster of that name is written down
    monkeypatch.setattr("chaos.targets.labs.kinds.attach", lambda id: cluster)
    monkeypatch.setattr(keeper.time, "sleep", lambda _: None)
    said: list[str] = []
    assert keeper.undo(ledger.path, "existing-staging", said.append)
    assert failing == [] and len(said) == 1  # what is said twice is one line
    assert cluster.effects == set() and standing(ledger.path) == []
    assert cluster.noted == set()
    monkeypatch.setattr(keeper, "PATIENCE_SECONDS", -1.0)
    ledger = opened(cluster, tmp_path, "run-2")
    monkeypatch.setattr("chaos.targets.labs.kinds.attach", lambda id: (_ for _ in ()).throw(InvalidInput("no file")))
    assert keeper.undo(ledger.path, "existing-staging", said.append) is False


def test_the_keeper_begins_nothing_while_nobody_is_there_and_tries_once_more_after_a_try_that_took_long(
    cluster: WithDocuments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A try on a machine that is cut off takes longer than all of its patience, and would be the only one."""
    ledger = opened(cluster, tmp_path)
    ledger.intend("f1", [block("a-data", "b-data")])
    Move("neighbour.block", {"host": "a-data", "peer": "b-data"}).apply(cluster)  # type: ignore[arg-type]
    now, silent, cut = [0.0], ["nobody"] * 3, [True]
    tries: list[float] = []

    def fails(call: str, arguments: Any) -> None:
        if call == "restore":
            tries.append(now[0])
            if cut and cut.pop():
                now[0] += 10 * keeper.PATIENCE_SECONDS
                raise FaultError("timed out")

    cluster.fails = fails
    monkeypatch.setattr("chaos.targets.labs.kinds.attach", lambda id: cluster)
    monkeypatch.setattr(keeper, "unreached", lambda id: silent.pop() if silent else None)
    monkeypatch.setattr(keeper.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(keeper.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    said: list[str] = []
    assert keeper.undo(ledger.path, "existing-staging", said.append)
    assert tries == [3.0, 3.0 + 10 * keeper.PATIENCE_SECONDS + 1.0]
    assert len(said) == 2 and said[0] == "nobody" and "timed out" in said[1]
    assert cluster.effects == set() and standing(ledger.path) == []


def taken_over(cluster: WithDocuments, ledger: NotedLedger) -> None:
    """Another machine takes the run for dead, undoes what it noted, and a second run takes the lock."""
    notes = Notes(cluster, INDEX)  # type: ignore[arg-type]
    for entry in notes.standing()[ledger.run]:
        assert entry.inverse is not None
        entry.inverse.apply(cluster)  # type: ignore[arg-type]
    notes.forget(ledger.run)
    notes.take("run-2", made=False)


BLOCK = Move("neighbour.block", {"host": "a-data", "peer": "b-data"})


@pytest.mark.parametrize("who", ["runner", "keeper", "recover"])
def test_a_run_that_was_taken_over_leaves_the_fault_of_the_second_alone(
    cluster: WithDocuments, tmp_path: Path, who: str
) -> None:
    """It was frozen while another machine undid it; the second run's fault has the very same effect."""
    ledger: Ledger = opened(cluster, tmp_path)
    assert isinstance(ledger, NotedLedger)
    ledger.renewed = noted.now() - noted.SURE_SECONDS - 1.0
    ledger.intend("f1", [block("a-data", "b-data")])
    BLOCK.apply(cluster)  # type: ignore[arg-type]
    taken_over(cluster, ledger)
    assert cluster.effects == set()
    BLOCK.apply(cluster)  # type: ignore[arg-type]
    effects = set(cluster.effects)
    if who != "runner":
        ledger = noted.FencedLedger(ledger.path)
    (says,) = undo_entries(cluster, ledger, ledger.standing())  # type: ignore[arg-type]
    assert (
        "another process has undone it since, and run run-2 of" in says and "(holder 2) holds the cluster now" in says
    )
    assert cluster.effects == effects != set() and ledger.standing() == []
    assert cluster.documents["run"]["run"] == "run-2"


def test_what_recover_on_has_undone_from_elsewhere_is_no_problem_for_recover(
    cluster: WithDocuments, tmp_path: Path
) -> None:
    """Runner and keeper are dead: the notes were undone first, then the ledger on the run's own machine."""
    ledger = opened(cluster, tmp_path)
    ledger.intend("f1", [block("a-data", "b-data")])
    BLOCK.apply(cluster)  # type: ignore[arg-type]
    notes = Notes(cluster, INDEX)  # type: ignore[arg-type]
    for entry in notes.standing()[ledger.run]:
        assert entry.inverse is not None
        entry.inverse.apply(cluster)  # type: ignore[arg-type]
    notes.forget(ledger.run)
    again = noted.FencedLedger(ledger.path)
    told: list[str] = []
    assert undo_entries(cluster, again, again.standing(), by_others=told.append) == []  # type: ignore[arg-type]
    assert again.standing() == [] and cluster.effects == set()
    assert len(told) == 1 and "its note is gone" in told[0] and "no run holds the cluster now" in told[0]


def test_a_run_that_has_just_said_that_it_holds_the_cluster_asks_nothing_before_it_undoes(
    cluster: WithDocuments, tmp_path: Path
) -> None:
    ledger = opened(cluster, tmp_path)
    ledger.renewed = noted.now()
    ledger.intend("f1", [block("a-data", "b-data")])
    BLOCK.apply(cluster)  # type: ignore[arg-type]
    asked: list[str] = []
    cluster.lies = lambda method, path: asked.append(f"{method} {path}")  # type: ignore[func-returns-value]
    entry = next(each for each in ledger.standing() if each.fault == "f1")
    assert undo_entries(cluster, ledger, [entry]) == []  # type: ignore[arg-type]
    ledger.settle()
    assert cluster.effects == set() and [each for each in asked if "_bulk" not in each] == []


@pytest.mark.parametrize("how", ["no answer", "an error", "the index was deleted"])
def test_where_nothing_says_who_holds_the_cluster_the_fault_is_undone(
    cluster: WithDocuments, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault that stays does more harm than one that is undone twice."""
    monkeypatch.setattr(noted, "ASKED_SECONDS", 0.2)
    ledger = opened(cluster, tmp_path)
    ledger.renewed = noted.now() - noted.SURE_SECONDS - 1.0
    ledger.intend("f1", [block("a-data", "b-data")])
    BLOCK.apply(cluster)  # type: ignore[arg-type]
    over = threading.Event()
    if how == "no answer":
        cluster.lies = lambda method, path: over.wait(10.0) and None  # type: ignore[func-returns-value]
    elif how == "an error":
        cluster.lies = lambda method, path: (500, {"error": "x"})
    else:
        del cluster.indices[INDEX]
        cluster.documents.clear()
    entry = next(each for each in ledger.standing() if each.fault == "f1")
    assert undo_entries(cluster, ledger, [entry]) == []  # type: ignore[arg-type]
    over.set()
    assert cluster.effects == set()


def test_a_run_that_does_not_hold_the_cluster_any_more_injects_nothing(cluster: WithDocuments, tmp_path: Path) -> None:
    """It thaws right before its next phase: its lock is another's, and its own thread has not noticed yet."""
    ledger = opened(cluster, tmp_path)
    ledger.renewed = noted.now() - noted.SURE_SECONDS - 1.0
    taken_over(cluster, ledger) if ledger.intend("f1", [block("a-data", "b-data")]) else None
    with pytest.raises(FaultError, match=r"run run-2 of .* holds the cluster now.*nothing is injected"):
        ledger.intend("f2", [block("a-data", "c-data")])
    assert not any("f2" in str(each) for each in cluster.documents.values())


def test_holders_are_counted_over_runs_that_end(cluster: WithDocuments, tmp_path: Path) -> None:
    notes = Notes(cluster, INDEX)  # type: ignore[arg-type]
    notes.make()
    numbers = []
    for run in ("run-1", "run-2", "run-3"):
        notes.take(run, made=False)
        notes.renew(run)
        held = notes.lock()
        assert held is not None
        numbers.append(held.holder)
        notes.forget(run)
    assert numbers == [1, 2, 3] and notes.standing() == {}


def test_notes_and_lock_stay_while_anything_is_left_to_undo(cluster: WithDocuments, tmp_path: Path) -> None:
    """Else another machine could not undo it, and a second run would be let in."""
    ledger = opened(cluster, tmp_path)
    (entry,) = ledger.intend("f1", [block("a-data", "b-data")])
    BLOCK.apply(cluster)  # type: ignore[arg-type]

    def fails(call: str, arguments: Any) -> None:
        if call == "restore":
            raise FaultError("timed out")

    cluster.fails = fails
    assert len(undo_entries(cluster, ledger, ledger.standing())) == 1  # type: ignore[arg-type]
    assert cluster.noted == {"run", f"run-1-{entry.number}"}
    cluster.fails = lambda call, arguments: None
    assert undo_entries(cluster, ledger, ledger.standing()) == []  # type: ignore[arg-type]
    ledger.settle()
    assert cluster.noted == set() and cluster.effects == set()


def test_whether_anybody_is_there_is_asked_of_its_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    file, port = tmp_path / "staging.yaml", 0
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        file.write_text(
            "apiVersion: opensearch-chaos/v1\nkind: existing\nname: staging\nendpoints: [http://127.0.0.1:1]\n"
            "identity: {cluster_uuid: u, cluster_name: n}\nopensearch: 3.8.0\nzones: {names: {a: a}}\n"
            f"nodes: {{x: {{zone: a, roles: [data], url: 'http://127.0.0.1:{port}'}}}}\n"
        )
        assert unreached("existing-staging") is None  # nothing is written down, so nothing is known
        write_json(folder_of("staging") / "target.json", {"file": str(file)})
        assert unreached("existing-staging") is None
    assert unreached("existing-staging") == "none of its 1 nodes takes a connection"
    with socket.create_server(("127.0.0.1", 0)) as toxiproxy:  # where toxics are, though every node be dead
        api = f"http://127.0.0.1:{toxiproxy.getsockname()[1]}"
        passing = f"toxiproxies: [{{api: '{api}', proxies: {{p: {{from: clients of zone a, to: x}}}}}}]\n"
        file.write_text(file.read_text() + passing)
        assert unreached("existing-staging") is None
    assert unreached("existing-staging") == "none of its 1 nodes takes a connection"
    file.write_text("kind: existing\n")
    assert unreached("existing-staging") is None


# ---- before anything is changed --------------------------------------------------------------------------------


def test_a_run_that_is_under_way_there_or_has_left_something_keeps_another_away(
    cluster: WithDocuments, tmp_path: Path
) -> None:
    there: Any = cluster
    there.target = SimpleNamespace(written=SimpleNamespace(notes=INDEX, kubernetes=None), file="staging.yaml")
    assert refused_beside(there) == []
    ledger = opened(cluster, tmp_path)
    (row,) = refused_beside(there)
    assert "run run-1 of" in row.says and "recover --on staging.yaml" in row.remedy
    ledger.intend("f1", [block("a-data", "b-data")])
    del cluster.documents["run"]
    (row,) = refused_beside(there)
    assert row.says == "run run-1 has left something there"


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], None),
        ([{"index": "orders", "shard": "0", "state": "STARTED", "unassigned.reason": None}], None),
        ([{"index": "orders", "shard": "0", "state": "UNASSIGNED", "unassigned.reason": "NODE_LEFT"}], None),
        (
            [{"index": "orders", "shard": "0", "state": "UNASSIGNED", "unassigned.reason": "ALLOCATION_FAILED"}],
            "orders 0",
        ),
        ([{"index": "orders"}], None),
        ({"error": "x"}, None),
    ],
)
def test_copies_that_opensearch_gave_up_are_told(cluster: WithDocuments, rows: Any, says: str | None) -> None:
    answered = cluster.answer
    cluster.answer = lambda node, method, path, body: (  # type: ignore[method-assign]
        (200, rows) if path == recovering_on.COPIES else answered(node, method, path, body)
    )
    said: list[str] = []
    recovering_on.say_given_up(cluster, said.append)  # type: ignore[arg-type]
    assert (said == []) if says is None else (says in said[0] and "retry_failed" in said[1])
