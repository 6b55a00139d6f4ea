"""Where things live, who is alive, and writing so that nobody ever sees half."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.base import paths
from chaos.base.paths import ProcessIdentity, locked, write_atomically, write_json


def test_variables_move_cache_and_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENSEARCH_CHAOS_CACHE", str(tmp_path / "c"))
    monkeypatch.setenv("OPENSEARCH_CHAOS_STATE", str(tmp_path / "s"))
    assert paths.cache() == tmp_path / "c"
    assert (paths.labs(), paths.registry()) == (tmp_path / "s" / "labs", tmp_path / "s" / "registry")


def test_a_machine_is_known_by_its_id_or_its_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "machine-id"
    monkeypatch.setattr(paths, "MACHINE_ID", file)

    def on(id: str, boot: str, name: str = "vm") -> str:
        file.write_text(f"{id}\n")
        monkeypatch.setattr(paths, "_boot_id", lambda: boot)
        monkeypatch.setattr(paths.socket, "gethostname", lambda: name)
        return paths.machine()

    one, other = "a" * 32, "b" * 32
    first = on(one, "boot-1")
    assert one not in first and "boot-1" not in first and paths.is_this_machine("")
    on(one, "boot-2")
    assert paths.is_this_machine(first), "it was started again"
    on("", "boot-1", "f00dcafe")
    assert paths.is_this_machine(first), "a container on it"
    on(other, "boot-3")
    assert not paths.is_this_machine(first)
    named = on("uninitialized", "boot-3", "alpine")
    on("", "boot-4", "alpine")
    assert paths.is_this_machine(named), "one without an id, which was started again"
    file.unlink()
    assert paths.is_this_machine(named)


def test_root_has_the_systems_folders_and_users_have_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENSEARCH_CHAOS_CACHE", raising=False)
    monkeypatch.delenv("OPENSEARCH_CHAOS_STATE", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert str(paths.cache()) == "/var/cache/opensearch-chaos"
    assert str(paths.state()) == "/var/lib/opensearch-chaos"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_CACHE_HOME", "/home/u/cache")
    monkeypatch.setenv("XDG_STATE_HOME", "/home/u/state")
    assert str(paths.cache()) == "/home/u/cache/opensearch-chaos"
    assert str(paths.state()) == "/home/u/state/opensearch-chaos"


def test_an_identity_is_pid_start_and_boot() -> None:
    me = ProcessIdentity.me()
    assert me.alive() and me.state() == "R"
    assert ProcessIdentity.from_json(json.loads(json.dumps(me.to_json()))) == me
    assert not replace(me, start_ticks=me.start_ticks + 1).alive()  # the number was given to another
    assert replace(me, start_ticks=me.start_ticks + 1).state() is None
    assert not replace(me, boot_id="before the reboot").alive()


def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = ProcessIdentity.of(child.pid)
    assert child.stdin is not None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and not yet collected
    assert identity.state() == "Z" and not identity.alive()
    child.wait()
    with pytest.raises(ProcessLookupError):
        ProcessIdentity.of(child.pid)


def test_a_command_name_with_brackets_and_spaces_is_no_obstacle(tmp_path: Path) -> None:
    program = tmp_path / "a) R (b"
    program.symlink_to("/bin/sleep")
    child = subprocess.Popen([str(program), "60"])
    try:
        assert ProcessIdentity.of(child.pid).start_ticks >= ProcessIdentity.me().start_ticks
    finally:
        child.kill()
        child.wait()


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_written_is_what_was_given(tmp_path_factory: pytest.TempPathFactory, old: bytes, new: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "written" / "file"
    write_atomically(path, old)
    write_atomically(path, new)
    assert path.read_bytes() == new and list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_content_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    path = tmp_path / "file.json"
    write_json(path, {"old": 1})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, broken, full)
    with pytest.raises(OSError, match="No space"):
        write_json(path, {"new": 2})
    assert json.loads(path.read_text()) == {"old": 1} and list(tmp_path.iterdir()) == [path]


def test_a_lock_is_held_by_one_at_a_time_and_given_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lock"
    with locked(path) as mine:
        assert mine is True
        with locked(path, blocking=False) as theirs:
            assert theirs is False
        waited = threading.Event()

        def wait() -> None:
            with locked(path):
                waited.set()

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        assert not waited.wait(0.05)
    assert waited.wait(10)
    thread.join(10)
    with locked(path, blocking=False) as again:
        assert again is True


def test_a_lock_that_does_not_stay_is_held_by_one_at_a_time_too(tmp_path: Path) -> None:
    path, inside, most = tmp_path / "lock", [0], [0]

    def hold() -> None:
        for _ in range(50):
            with locked(path, stays=False):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.0005)
                inside[0] -= 1

    threads = [threading.Thread(target=hold) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1] and inside == [0] and list(tmp_path.iterdir()) == []
    with locked(path, stays=False), locked(path, blocking=False, stays=False) as theirs:
        assert theirs is False and path.exists()
    assert not path.exists()


def test_a_folder_of_ours_is_new_and_nobody_else_may_write_in_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        paths.make_folder(tmp_path / "reports" / "run", "history", "logs")
    finally:
        os.umask(before)
    for name in ("reports", "reports/run", "reports/run/history", "reports/run/logs"):
        assert (tmp_path / name).stat().st_mode & 0o022 == 0


@pytest.mark.parametrize("kind", ["folder", "link", "dangling link", "file"])
def test_a_folder_that_is_there_already_is_not_ours(tmp_path: Path, kind: str) -> None:
    theirs, folder = tmp_path / "theirs", tmp_path / "reports" / "run"
    theirs.mkdir()
    folder.parent.mkdir()
    if kind == "folder":
        folder.mkdir()
    elif kind == "file":
        folder.touch()
    else:
        folder.symlink_to(theirs if kind == "link" else tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        paths.make_folder(folder, "history")
    assert list(theirs.iterdir()) == [] and not (tmp_path / "nowhere").exists()
    assert kind != "folder" or list(folder.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to another user")
@pytest.mark.parametrize("kind", ["folder", "link"])
@pytest.mark.parametrize(("owner", "mode", "wrong"), [(65534, 0o1777, True), (65534, 0o755, False), (0, 0o1777, False)])
def test_what_another_user_planted_in_a_shared_folder_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, owner: int, mode: int, wrong: bool
) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    shared, theirs = tmp_path / "tmp", tmp_path / "theirs"
    shared.mkdir()
    shared.chmod(mode)
    theirs.mkdir()
    reports = shared / "reports"
    reports.mkdir() if kind == "folder" else reports.symlink_to(theirs)
    os.chown(reports, owner, owner, follow_symlinks=False)
    if wrong:
        with pytest.raises(PermissionError, match="is another user's"):
            paths.make_folder(reports / "deep" / "run")
        assert list(theirs.iterdir()) == [] and list(reports.iterdir()) == []
        monkeypatch.setenv("SUDO_UID", str(owner))
    paths.make_folder(reports / "deep" / "run")
    assert (reports / "deep" / "run").is_dir()


def test_no_link_is_followed_by_what_is_written_before_it_gets_its_name(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f".file.{os.getpid()}.tmp").symlink_to(victim)
    write_atomically(tmp_path / "file", "ours")
    assert victim.read_text() == "precious" and (tmp_path / "file").read_text() == "ours"
