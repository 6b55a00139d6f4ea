"""Two state folders of one machine: no lab takes another's id, and none is taken away from the other folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import PARTS, topology

from chaos.base import paths
from chaos.base.errors import InvalidInput
from chaos.targets.labs import base, markers, network, processes, sweep, traces
from chaos.targets.labs.local import LocalLab


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The namespaces of a machine that is made up; none can be removed and no process be ended."""
    found: list[str] = []

    def never(*given: object) -> None:
        raise AssertionError(f"something of another state folder is taken away: {given}")

    monkeypatch.setattr(network, "namespaces", lambda prefix="": [name for name in found if name.startswith(prefix)])
    monkeypatch.setattr(network, "processes_in", lambda names: dict(enumerate(names, 7)))
    monkeypatch.setattr(network, "remove", never)
    monkeypatch.setattr(processes, "end", never)
    return found


def use(state: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENSEARCH_CHAOS_STATE", str(state))
    return state


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state folder of others, with a lab ``3az-disks`` in it; the environment names ours."""
    folder = use(tmp_path / "theirs", monkeypatch)
    LocalLab.create(topology("3az"), PARTS, id="3az-disks")
    use(tmp_path / "ours", monkeypatch)
    return folder


def marker(id: str) -> str:
    return (paths.lab_markers() / id).read_text()


@pytest.mark.parametrize("refused", [base.refuse_name, lambda id: LocalLab.create(topology("3az"), PARTS, id=id)])
def test_the_id_of_a_lab_of_another_state_folder_is_taken(theirs: Path, refused) -> None:
    with pytest.raises(InvalidInput, match=rf"already on this machine, of the state folder {theirs}"):
        refused("3az-disks")
    assert marker("3az-disks") == str(theirs) and not (paths.labs() / "3az-disks").exists()


def test_one_that_another_takes_between_the_look_and_the_marker_is_left_to_it(
    theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "refuse_name", lambda id: None)
    with pytest.raises(InvalidInput, match="already on this machine"):
        LocalLab.create(topology("3az"), PARTS, id="3az-disks")
    assert marker("3az-disks") == str(theirs) and not (paths.labs() / "3az-disks").exists()
    assert [each.name for each in paths.lab_markers().iterdir()] == ["3az-disks"]


def test_a_marker_that_changes_hands_while_it_is_replaced_is_put_back(
    theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markers, "refuse", lambda id: None)  # when it was looked at, their lab had not been made
    with pytest.raises(InvalidInput, match="already on this machine"):
        markers.claim("3az-disks")
    assert marker("3az-disks") == str(theirs)
    assert [each.name for each in paths.lab_markers().iterdir()] == ["3az-disks"]


def test_the_marker_of_a_lab_that_is_gone_is_taken_over(theirs: Path) -> None:
    (theirs / "labs").rename(theirs / "gone")
    LocalLab.create(topology("3az"), PARTS, id="3az-disks")
    assert marker("3az-disks") == str(paths.state().absolute())


def test_a_lab_of_another_state_folder_is_not_taken_away(theirs: Path, names: list[str]) -> None:
    names += ["oschaos-3az-disks-a-data"]
    (problem,) = sweep.destroy("3az-disks")
    assert f"of the state folder {theirs}: it is left alone" in problem
    assert marker("3az-disks") == str(theirs)


def test_a_longer_id_of_another_state_folder_is_no_part_of_ours(theirs: Path, names: list[str]) -> None:
    names += ["oschaos-3az-disks-a-data"]
    lab = LocalLab.create(topology("3az"), PARTS, id="3az")
    assert traces.namespaces("3az") == []
    assert [(each.id, each.namespaces) for each in sweep.known()] == [("3az", ())]
    assert sweep.destroy("3az") == [] and not lab.folder.exists()


def test_what_is_left_of_a_lab_whose_state_folder_is_gone_goes_by_its_whole_id(
    theirs: Path, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names += ["oschaos-3az-disks-a-data"]
    (theirs / "labs").rename(theirs / "gone")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert [(each.id, each.orphaned) for each in sweep.known()] == [("3az-disks", True)]
    monkeypatch.setattr(processes, "end", lambda living: [])
    monkeypatch.setattr(network, "remove", names.remove)
    assert sweep.destroy("3az-disks") == [] and not names
    assert list(paths.lab_markers().iterdir()) == []


def test_a_state_folder_that_may_not_be_looked_into_still_has_its_lab(
    theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(path: object, **more: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("chaos.base.paths.os.stat", closed)
    assert paths.lives_elsewhere(theirs, "3az-disks")
    monkeypatch.undo()
    assert not paths.lives_elsewhere(theirs, "3az")


def test_our_own_state_folder_by_another_name_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(tmp_path / "ours", monkeypatch)
    (paths.labs() / "r1").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "ours")
    assert not paths.lives_elsewhere(tmp_path / "link", "r1")
