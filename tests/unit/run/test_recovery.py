"""Recovery from the registry, the ledgers and the names: what dead runs left goes, what lives stays."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import PARTS, ROOT, FakeLab, topology
from making import OFFERED, block, built

from chaos.base import paths
from chaos.base.errors import InvalidInput, LabError
from chaos.base.paths import ProcessIdentity
from chaos.definitions import load_topology
from chaos.definitions.steps import Scene
from chaos.faults.ledger import Ledger, Registration, registrations, standing
from chaos.faults.moves import Reversible
from chaos.history import seal
from chaos.run import recovery as module
from chaos.run import space
from chaos.run.recovery import leftovers, recover
from chaos.targets.labs import kinds, network, sweep
from chaos.targets.labs.local import LocalLab
from chaos.targets.wiring import Wiring

DEAD = ProcessIdentity(1, 0, "another boot")
ME = ProcessIdentity.me()


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder of its own, and no namespaces: nothing of this machine is seen or touched."""
    monkeypatch.setenv("OPENSEARCH_CHAOS_STATE", str(tmp_path))
    monkeypatch.setattr(network, "namespaces", lambda prefix="": [])
    yield tmp_path


def registered(state: Path, run: str, lab: str, owner: ProcessIdentity, moves: int = 1) -> Registration:
    ledger = Ledger(state / "runs" / run / "ledger.jsonl")
    if moves:
        ledger.intend("f1", [block("a-data", f"peer-{n}") for n in range(moves)])
    ledger.close()
    made = Registration(run, ledger.path, lab, owner)
    made.write()
    return made


def lab_on_disk(id: str, owner: ProcessIdentity, *, lease: bool = False) -> Path:
    lab = LocalLab.create(topology("3az"), PARTS, id=id, lease=lease)
    manifest = json.loads((lab.folder / "lab.json").read_text()) | {"owner": owner.to_json()}
    (lab.folder / "lab.json").write_text(json.dumps(manifest))
    if lease:
        (lab.folder / "leased").touch()
    return lab.folder


@pytest.fixture
def living(monkeypatch: pytest.MonkeyPatch) -> FakeLab:
    """The lab `play` can be attached to; no other."""
    lab = FakeLab(id="play")

    def attach(id: str) -> Any:
        if id != "play":
            raise InvalidInput(f"there is no lab named '{id}'")
        return lab

    monkeypatch.setattr(module.kinds, "attach", attach)
    return lab


def test_nothing_left_is_clean() -> None:
    assert leftovers() == []
    result = recover()
    assert result.clean and not result.undone and not result.removed


def test_a_dead_runs_faults_are_undone_on_a_lab_that_lives_on(state: Path, living: FakeLab) -> None:
    dead = registered(state, "run-1", "play", DEAD, moves=2)
    space.Reserve(dead.ledger.parent, "undo", 1)
    living.effects = {("blocked", "a-data", "peer-0"), ("blocked", "a-data", "peer-1")}
    assert [each.what for each in leftovers()] == [
        "fault of run run-1: neighbour.block host=a-data peer=peer-1",
        "fault of run run-1: neighbour.block host=a-data peer=peer-0",
    ]
    result = recover()
    assert result.clean and result.undone == ["2 of 2 moves of run run-1"]
    assert living.effects == set() and [call[-1] for call in living.calls] == ["peer-1", "peer-0"]
    assert standing(dead.ledger) == [] and registrations() == [] and leftovers() == []
    assert recover().undone == []  # safe to run twice
    assert list(dead.ledger.parent.iterdir()) == [dead.ledger]  # the room that was kept for this is given back


def test_a_living_runs_faults_are_left_alone(state: Path, living: FakeLab) -> None:
    alive = registered(state, "run-1", "play", ME)
    assert leftovers() == []
    assert recover().clean and living.calls == [] and registrations() == [alive]


def test_an_undo_that_fails_is_said_and_can_be_tried_again(state: Path, living: FakeLab) -> None:
    registered(state, "run-1", "play", DEAD, moves=2)

    def fails(call: str, arguments: tuple[str, ...]) -> None:
        if arguments[-1] == "peer-1":
            raise LabError("no answer")

    living.fails = fails
    result = recover()
    assert not result.clean and result.undone == ["1 of 2 moves of run run-1"]
    assert len(registrations()) == 1 and len(leftovers()) == 1
    living.fails = lambda call, arguments: None
    assert recover().clean and leftovers() == []


def test_what_does_not_answer_is_mended_before_anything_is_undone(
    state: Path, living: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered(state, "run-1", "play", DEAD)
    monkeypatch.setattr(living, "mend", lambda: ["Toxiproxy of a-data"])
    said: list[str] = []
    assert recover(said.append).clean
    assert said[0] == "Toxiproxy of a-data did not answer and was started anew"


def test_what_cannot_be_mended_is_a_problem_and_the_rest_is_undone_all_the_same(
    state: Path, living: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered(state, "run-1", "play", DEAD)

    def fails() -> list[str]:
        raise LabError("Toxiproxy of a-data does not listen")

    monkeypatch.setattr(living, "mend", fails)
    result = recover()
    assert not result.clean and "does not listen" in result.problems[0]
    assert result.undone == ["1 of 1 moves of run run-1"] and len(registrations()) == 1
    monkeypatch.setattr(living, "mend", lambda: [])
    assert recover().clean and registrations() == []


def mended(lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which Toxiproxies of ``lab`` were started anew: the one that is dead, once."""
    dead, started = ["Toxiproxy of a-data"], []

    def mend() -> list[str]:
        started.extend(dead)
        dead.clear()
        return list(started)

    monkeypatch.setattr(lab, "mend", mend)
    return started


def test_a_dead_toxiproxy_of_a_lab_that_lives_on_is_started_anew_though_no_run_has_died(
    state: Path, living: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab_on_disk("play", DEAD, lease=True)
    started, said = mended(living, monkeypatch), []
    assert recover(said.append).clean and started == ["Toxiproxy of a-data"]
    assert said == ["Toxiproxy of a-data of lab play did not answer and was started anew"]


@pytest.mark.parametrize(("lease", "used"), [(True, True), (False, False)])
def test_a_lab_that_is_in_use_or_goes_away_is_not_mended(
    state: Path, living: FakeLab, monkeypatch: pytest.MonkeyPatch, lease: bool, used: bool
) -> None:
    lab_on_disk("play", DEAD, lease=lease)
    if used:
        registered(state, "run-1", "play", ME)
    started = mended(living, monkeypatch)
    assert recover().clean and started == []


def test_a_living_lab_that_cannot_be_mended_is_a_problem_and_one_that_cannot_be_read_is_told(
    state: Path, living: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab_on_disk("play", DEAD, lease=True)
    lab_on_disk("other", DEAD, lease=True)

    def fails() -> list[str]:
        raise LabError("Toxiproxy of a-data does not listen")

    monkeypatch.setattr(living, "mend", fails)
    said: list[str] = []
    result = recover(said.append)
    assert result.problems == ["lab play: Toxiproxy of a-data does not listen"]
    assert said == ["lab other was left as it is: there is no lab named 'other'"]


def test_faults_of_a_lab_that_is_gone_are_gone_with_it(state: Path, living: FakeLab) -> None:
    registered(state, "run-1", "vanished", DEAD)
    assert recover().clean and registrations() == [] and living.calls == []


@pytest.mark.parametrize("ledger", [True, False])
def test_a_run_on_a_cluster_that_is_written_down_here_no_more_is_not_forgotten(state: Path, ledger: bool) -> None:
    """A cluster lives on when our folder of it is removed."""
    dead = registered(state, "run-1", "existing-staging", DEAD)
    if not ledger:
        dead.ledger.unlink()
    for _ in range(2):
        (problem,) = recover().problems
        assert problem.startswith("run run-1: ") and problem.endswith(f"recover --on FILE, then delete {dead.file}")
        assert registrations() == [dead]


def test_faults_on_a_lab_whose_manifest_cannot_be_read_are_not_forgotten(state: Path) -> None:
    folder = lab_on_disk("play", DEAD, lease=True)
    (folder / "topology.json").write_text("{")
    registered(state, "run-1", "play", DEAD)
    result = recover()
    assert not result.clean and "run-1" in result.problems[0]
    assert len(registrations()) == 1


def test_a_registration_without_a_ledger_goes(state: Path) -> None:
    registered(state, "run-1", "r1", DEAD, moves=0).ledger.unlink()
    assert [each.what for each in leftovers()] == ["registry entry of run run-1"]
    assert recover().clean and leftovers() == []


def test_a_dead_owners_lab_goes_and_its_logs_are_kept(state: Path) -> None:
    folder = lab_on_disk("r1", DEAD)
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "logs" / "a-data.log").write_text("last words")
    assert [each.what for each in leftovers()] == [f"lab folder {folder}"]
    result = recover()
    assert result.clean and result.removed == ["r1"] and not folder.exists()
    assert (sweep.logs() / "r1" / "a-data.log").read_text() == "last words"


def test_labs_of_the_living_and_leased_labs_stay(state: Path) -> None:
    mine, leased = lab_on_disk("r1", ME), lab_on_disk("play", DEAD, lease=True)
    assert leftovers() == []
    assert recover().clean and mine.exists() and leased.exists()


def test_a_lab_up_that_never_finished_is_a_leftover(state: Path) -> None:
    folder = lab_on_disk("play", DEAD, lease=True)
    (folder / "leased").unlink()
    assert recover().removed == ["play"]


@pytest.mark.parametrize("junk", ["", "{", "null", "[]", '{"owner": {}}', '{"owner": null, "lease": true}'])
def test_a_manifest_that_cannot_be_read_is_a_leftover_once_it_is_not_young(state: Path, junk: str) -> None:
    import os

    folder = lab_on_disk("r1", ME)
    (folder / "lab.json").write_text(junk)
    assert leftovers() == []  # somebody may be about to write it
    os.utime(folder, (0, 0))
    assert [each.lab for each in leftovers()] == ["r1"]
    with pytest.raises(InvalidInput, match="r1"):
        LocalLab.attach("r1")
    assert recover().removed == ["r1"]


def test_one_lab_that_will_not_go_does_not_keep_the_next(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab_on_disk("r1", DEAD)
    lab_on_disk("r2", DEAD)
    real = sweep.destroy

    def destroy(id: str) -> list[str]:
        if id == "r1":
            raise LabError("cannot remove network namespace")
        return real(id)

    monkeypatch.setattr(sweep, "destroy", destroy)
    result = recover()
    assert result.removed == ["r2"] and result.problems == ["lab r1: cannot remove network namespace"]


def test_a_lab_of_a_kind_that_is_not_here_stays_and_is_told(state: Path) -> None:
    """What there is of it only its kind knows, and only its manifest says which kind that is."""
    folder = lab_on_disk("r1", DEAD)
    manifest = json.loads((folder / "lab.json").read_text())
    (folder / "lab.json").write_text(json.dumps(manifest | {"kind": "machines"}))
    result = recover()
    assert result.removed == [] and not result.clean and (folder / "lab.json").exists()
    assert "lab r1 is of kind 'machines', which is not here" in result.problems[0]
    (folder / "lab.json").write_text(json.dumps(manifest))
    assert recover().removed == ["r1"]


def test_a_kind_that_fails_while_it_looks_keeps_the_lab_and_raises_nothing(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = lab_on_disk("r1", DEAD)

    class Failing(type(kinds.named("local"))):  # type: ignore[misc]
        name = "failing"

        def remove(self, id: str) -> list[str]:
            raise RuntimeError("oh no")

    both = {"local": kinds.named("local"), "failing": Failing()}
    monkeypatch.setattr(kinds, "every", lambda: both)
    result = recover()
    assert not result.clean and folder.exists() and "labs of kind 'failing'" in result.problems[0]


def test_control_groups_without_anything_else_are_leftovers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.targets.labs.sweep.cgroups.ids", lambda: {"r7"})
    assert [(found.what, found.lab) for found in sweep.leftovers()] == [("control groups oschaos-r7", "r7")]


def test_namespaces_without_a_folder_are_leftovers_unless_a_marker_names_their_state_folder(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another state folder, or as another user, they may be somebody else's living lab."""
    monkeypatch.setattr(network, "namespaces", lambda prefix="": ["oschaos-r7-a-data"])
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert sweep.known() == []
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert [(record.id, record.orphaned) for record in sweep.known()] == [("r7", True)]

    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "labs" / "r7").mkdir(parents=True)
    paths.lab_markers().mkdir(parents=True, exist_ok=True)
    (paths.lab_markers() / "r7").write_text(str(elsewhere))
    assert sweep.known() == []
    (elsewhere / "labs" / "r7").rmdir()
    assert [record.id for record in sweep.known()] == ["r7"]


def test_the_longest_lab_name_that_fits_owns_a_namespace(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab_on_disk("my", ME)
    lab_on_disk("my-lab", ME)
    monkeypatch.setattr(network, "namespaces", lambda prefix="": ["oschaos-my-lab-a-data", "oschaos-my-a-data"])
    assert {record.id: record.namespaces for record in sweep.known()} == {
        "my": ("oschaos-my-a-data",),
        "my-lab": ("oschaos-my-lab-a-data",),
    }


def test_a_lab_that_cannot_be_written_down_leaves_no_folder(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("chaos.targets.labs.base.write_json", full)
    with pytest.raises(LabError, match="No space left"):
        LocalLab.create(topology("3az"), PARTS, id="r1")
    assert list((state / "labs").iterdir()) == []


def test_a_taken_name_and_a_name_that_is_none_are_refused(state: Path) -> None:
    lab_on_disk("play", ME)
    with pytest.raises(InvalidInput, match="already there"):
        LocalLab.create(topology("3az"), PARTS, id="play")
    for name in ("", "Play", "../up", "a" * 32, "-x"):
        with pytest.raises(InvalidInput, match="cannot name a lab"):
            LocalLab.create(topology("3az"), PARTS, id=name)


def test_a_lab_is_found_again_as_it_was_made(state: Path) -> None:
    made = LocalLab.create(topology("3az"), PARTS, id="r1")
    found = LocalLab.attach("r1")
    assert found.manifest == made.manifest and found.topology == made.topology and found.wiring == made.wiring


def test_the_dead_are_known_by_more_than_their_number() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = ProcessIdentity.of(child.pid)
    assert identity.alive()
    child.communicate(b"\n")
    assert not identity.alive() and identity.state() is None


def test_the_command_that_recovers_has_what_undoes_every_move() -> None:
    """In a process of its own: which modules are there must not hang on who else was imported."""
    undone = sorted({str(both.inverse.operation) for both in every_move() if both.inverse is not None})
    code = (
        "from chaos.run import recovery; recovery.recover = lambda says: recovery.Recovered(); "
        "from chaos.commands.preparing import recover; from chaos.faults.moves import known; recover(); "
        f"[known(each) for each in {undone!r}]"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(undone) > 10


def every_move() -> Iterator[Reversible]:
    """Those of every example of every kind."""
    for params in OFFERED.values():
        topology = load_topology(params.example_topology, near=ROOT / "experiments" / "x.yaml")
        wiring = Wiring.of("plan", topology.nodes, topology.zones)
        for example in params.examples:
            scene = Scene.of(topology, 1, "f1", topology.cluster_managers[0].name)
            yield from built(params(**example), scene, wiring).moves


def test_a_ledger_that_somebody_removed_is_a_problem_while_its_lab_lives_on(state: Path, living: FakeLab) -> None:
    """It is not nothing to undo: what was in effect still is, and nothing says what."""
    lab_on_disk("play", ME, lease=True)
    made = registered(state, "run-1", "play", DEAD)
    made.ledger.unlink()
    for _ in range(2):
        (problem,) = recover().problems
        assert f"run run-1: its ledger {made.ledger} is missing" in problem and "lab down play" in problem
        assert made.file.exists() and not made.ledger.exists()
    made.file.unlink()
    assert recover().clean


def test_a_ledger_that_is_gone_with_its_lab_is_no_problem(state: Path) -> None:
    made = registered(state, "run-1", "nowhere", DEAD)
    made.ledger.unlink()
    assert recover().clean and not made.file.exists()


def test_recover_seals_the_ledger_again_that_it_goes_on_with(state: Path, living: FakeLab) -> None:
    made = registered(state, "run-1", "play", DEAD)
    folder = made.ledger.parent
    seal.write(folder, "run", "the run ended: finished")
    assert recover().clean and standing(made.ledger) == []
    look = seal.look(folder)
    assert look.sealed and look.broken == ()
    entries = json.loads((folder / "seal.json").read_text())["entries"]
    assert [(each["by"], sorted(each["files"])) for each in entries] == [
        ("run", ["ledger.jsonl"]),
        ("recover", ["ledger.jsonl"]),
    ]
