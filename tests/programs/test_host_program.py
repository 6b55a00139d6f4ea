"""oschaos-host, for real: processes, disks, control groups, its dead-man, its tokens, and what it refuses."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from apart import some
from hostkit import CONTROL, PEER, PROGRAM, PYTHON, Host, eventually, needs_a_host

pytestmark = [needs_a_host, pytest.mark.full]
MIB = 1 << 20


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.close()


def _record(host: Host, id: str = "f1") -> Path:
    return host.root / "run" / "oschaos-host" / f"r1_{id}.json"


def _dead_man(answer: dict[str, object]) -> int:
    by = answer["dead_man"]
    assert isinstance(by, dict)
    return int(by["by"].split()[1])


# --- processes ---


def test_pause_stops_and_continues_the_same_process(host: Host) -> None:
    pid = host.pid
    host.begun("node.pause")
    assert host.letter(pid) == "T" and host.ends(host.peer, "10.77.1.1") == "timeout"
    host.undone()
    assert host.letter(pid) in "SR" and host.reaches(host.peer, "10.77.1.1")


def test_a_paused_process_that_is_gone_is_nobody_elses(host: Host) -> None:
    pid = host.pid
    host.begun("node.pause")
    record = json.loads(_record(host).read_text())
    assert record["steps"][0]["pid"] == pid
    # its pid with another start time: somebody else who has got the same pid
    record["steps"][0]["start"] -= 1
    _record(host).write_text(json.dumps(record))
    assert "the process is gone" in host.undone()["steps"][0]["gone"]
    assert host.letter(pid) == "T"
    os.kill(pid, signal.SIGCONT)


def test_kill_and_start(host: Host) -> None:
    pid = host.pid
    began = host.begun("node.kill")
    assert host.letter(pid) == "" and host.ends(host.peer, "10.77.1.1") == "refused"
    assert began["steps"][0] == {"step": "down", "there": True, "stopping": False, "pid": None}
    host.undone()
    assert host.pid != pid and host.reaches(host.peer, "10.77.1.1")
    status = Path(f"/proc/{host.pid}/status").read_text()
    assert "\nUid:\t65534\t" in status and os.getsid(host.pid) == host.pid  # as its own user, in a session of its own


def test_what_the_dead_man_starts_inherits_nothing_of_it(host: Host) -> None:
    before = host.pid
    host.begun("node.kill", ttl=2)
    eventually(lambda: host.pid != before and host.letter(host.pid))
    eventually(lambda: not _record(host).exists())
    process = Path(f"/proc/{host.pid}")
    assert (process / "oom_score_adj").read_text() == "0\n"
    ignored = next(line for line in (process / "status").read_text().splitlines() if line.startswith("SigIgn"))
    assert int(ignored.split()[1], 16) & 1 << (signal.SIGHUP - 1) == 0
    assert sorted(os.readlink(each) for each in (process / "fd").iterdir() if each.name in "012") == ["/dev/null"] * 3


def test_stop_and_somebody_starts_it_meanwhile(host: Host) -> None:
    pid = host.pid
    assert host.begin("node.stop")["ok"]
    eventually(lambda: not host.letter(pid))
    host.start_node()
    again = host.pid
    assert host.undone()["steps"][0]["gone"] == "somebody has started it already" and host.pid == again


def test_restart_comes_back_and_leaves_nothing(host: Host) -> None:
    pid = host.pid
    answer = host.begin("node.restart", ttl=30)
    assert answer["ok"] and not answer["active"] and answer["pid"] == host.pid != pid
    assert host.state()["active"] == [] and host.reaches(host.peer, "10.77.1.1")


def test_a_restart_that_does_not_come_back_is_refused(host: Host) -> None:
    host.config["nodes"]["es-1"]["start"] = ["/bin/false"]
    host.configure()
    answer = host.begin("node.restart", ttl=30)
    assert not answer["ok"] and "no process came of /bin/false (exit code 1)" in answer["why"], answer
    assert host.state()["active"][0]["dead_man"]["alive"]  # it goes on trying


def test_a_pid_file_cannot_point_at_others(host: Host) -> None:
    """Who may write the pid file, the node's own user, must not choose whom root kills."""
    victim = subprocess.Popen(["sleep", "60"])
    mine, node = host.pid, host.pidfile.read_text()
    host.pidfile.write_text(str(victim.pid))
    answer = host.begin("node.kill")
    assert not answer["ok"] and "not of user nobody" in answer["why"]
    assert victim.poll() is None and host.letter(mine) != ""
    host.pidfile.write_text(node)
    victim.kill()
    victim.wait()


def test_a_stale_pid_file_does_not_keep_the_node_down(host: Host) -> None:
    host.begun("node.kill")
    host.pidfile.write_text(str(os.getpid()))  # the pid was given again, to somebody else
    assert host.undone()["steps"][0]["gone"] == "it was started"
    assert host.pid != os.getpid() and host.reaches(host.peer, "10.77.1.1")


def test_no_second_fault_on_the_same_process(host: Host) -> None:
    host.begun("node.pause")
    answer = host.begin("node.pause", "f2")
    assert not answer["ok"] and "r1 f1 holds the same" in answer["why"]
    host.undone()


# --- disks ---


@pytest.fixture
def disk(host: Host) -> Path:
    """A small file system at the node's data folder; seen from here through the host's mount namespace."""
    host.sh("mount", "-t", "tmpfs", "-o", "size=16m,mode=0777", "disk", str(host.root / "data"))
    return Path(f"/proc/{host.inside[2]}/root{host.root}/data")


@pytest.fixture
def ext4(host: Host) -> Iterator[Path]:
    """The same on a loop device, with ext4, whose twentieth part is kept for root."""
    image, data = host.folder / "image", host.root / "data"
    with image.open("wb") as file:
        file.truncate(64 * MIB)
    mkfs = subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "5", str(image)], check=False, capture_output=True)
    if mkfs.returncode or subprocess.run([*host.inside, "mount", "-o", "loop", image, data], check=False).returncode:
        pytest.skip("no loop device with ext4 can be had here")
    host.sh("chmod", "0777", str(data))
    yield Path(f"/proc/{host.inside[2]}/root{data}")
    host.sh("umount", str(data))


def test_full_until_so_much_is_left_and_empty_again(host: Host, disk: Path) -> None:
    host.begun("disk.full", leave_bytes=MIB)
    free = os.statvfs(disk)
    assert free.f_bavail * free.f_frsize == MIB
    (disk / "some").write_bytes(b"x" * (MIB // 2))
    with pytest.raises(OSError, match="No space"):
        (disk / "more").write_bytes(b"x" * MIB)
    host.undone()
    (disk / "more").write_bytes(b"x" * MIB)
    assert sorted(file.name for file in disk.iterdir()) == ["more", "some"]


def test_full_to_a_share(host: Host, disk: Path) -> None:
    host.begun("disk.full", share=0.75)
    free = os.statvfs(disk)
    assert abs(free.f_bavail / free.f_blocks - 0.25) < 0.01
    host.undone()


def test_full_to_the_last_block_where_what_is_free_lies_in_pieces(host: Host, ext4: Path) -> None:
    for k in range(100):
        (ext4 / f"some{k}").write_bytes(b"x" * 200_000)
    for k in range(0, 100, 2):
        (ext4 / f"some{k}").unlink()
    before = os.statvfs(ext4).f_bavail
    host.begun("disk.full", leave_bytes=0)
    assert os.statvfs(ext4).f_bavail == 0
    host.undone()
    os.sync()
    assert os.statvfs(ext4).f_bavail >= before


def test_what_is_used_is_told_and_how_much_of_it_by_us(host: Host, disk: Path) -> None:
    before = host.call("probe", node="es-1", do="look", within=5)
    assert before == {"ok": True, "bytes": 16 * MIB, "free": before["free"], "filled": 0, "write_limit": None}
    host.begun("disk.full", leave_bytes=MIB)
    full = host.call("probe", node="es-1", do="look", within=5)
    assert full["free"] == MIB and full["filled"] == before["free"] - MIB
    host.undone()
    assert host.call("probe", node="es-1", do="look", within=5) == before


def test_a_write_is_measured_and_leaves_nothing(host: Host, disk: Path) -> None:
    before = os.statvfs(disk).f_bavail
    answer = host.call("probe", node="es-1", do="write", size=MIB, count=3, within=5)
    assert answer["ok"] and 0 < answer["seconds"] < 5, answer
    assert list(disk.iterdir()) == [] and os.statvfs(disk).f_bavail == before
    host.sh("mount", "-o", "remount,ro", str(host.root / "data"))
    assert host.call("probe", node="es-1", do="write", within=5)["errno"] == errno.EROFS


def test_what_is_kept_for_root_is_none_of_the_nodes(host: Host, ext4: Path) -> None:
    """A disk that is full for the node is full for the measurement too, though root made it."""
    assert "seconds" in host.call("probe", node="es-1", do="write", size=65536, within=5)
    host.begun("disk.full", leave_bytes=0)
    assert host.call("probe", node="es-1", do="write", size=65536, within=5) == {"ok": True, "errno": errno.ENOSPC}
    (ext4 / "root").write_bytes(b"x" * 65536)
    host.undone()
    assert "seconds" in host.call("probe", node="es-1", do="write", size=65536, within=5)


def test_a_disk_that_answers_nobody_keeps_no_measurement_from_answering(host: Host, ext4: Path) -> None:
    host.sh("fsfreeze", "--freeze", str(host.root / "data"))
    try:
        began = time.monotonic()
        assert host.call("probe", node="es-1", do="write", within=1) == {"ok": True, "blocked": True}
        assert 1 <= time.monotonic() - began < 4
    finally:
        host.sh("fsfreeze", "--unfreeze", str(host.root / "data"))
    assert "seconds" in host.call("probe", node="es-1", do="write", within=5)
    assert [file.name for file in ext4.iterdir()] == ["lost+found"]


def test_nothing_is_measured_where_no_fault_of_the_disk_may_be(host: Host) -> None:
    answer = host.call("probe", node="es-1", do="write", within=1)
    assert not answer["ok"] and "no file system of its own" in answer["why"]
    host.configure(intents=["node.kill"])
    answer = host.call("probe", node="es-1", do="write", within=1)
    assert not answer["ok"] and "allows no fault of the disk" in answer["why"]
    assert "names no node es-2" in host.call("probe", node="es-2", do="write", within=1)["why"]


def test_a_link_in_the_data_folder_leads_nowhere(host: Host, disk: Path) -> None:
    aim = host.folder / "home" / "victim"
    aim.write_text("precious")
    (disk / ".oschaos-r1_f1").symlink_to(aim)
    answer = host.begin("disk.full", leave_bytes=MIB)
    assert not answer["ok"] and aim.read_text() == "precious"


def test_a_disk_that_is_not_the_nodes_own_is_not_filled(host: Host) -> None:
    answer = host.begin("disk.full", leave_bytes=MIB)
    assert not answer["ok"] and "no file system of its own" in answer["why"]
    assert list((host.root / "data").iterdir()) == []


def test_a_filler_of_an_earlier_boot_is_swept(host: Host, disk: Path) -> None:
    (disk / ".oschaos-r0_x").write_bytes(b"x")
    (disk / "oschaos").write_bytes(b"x")
    swept = host.call("sweep")
    assert swept["strays"] == [f"filler {host.root}/data/.oschaos-r0_x"]
    assert [file.name for file in disk.iterdir()] == ["oschaos"]


def test_a_data_folder_that_somebody_unmounted_is_left(host: Host, disk: Path) -> None:
    host.begun("disk.full", leave_bytes=MIB)
    host.sh("umount", str(host.root / "data"))
    answer = host.undo()
    assert answer["ok"] and "somebody else mounted or removed" in answer["steps"][0]["left"]


def test_a_file_that_was_left_is_told_at_each_undo_until_it_is_gone(host: Host, disk: Path) -> None:
    """The volume goes elsewhere, and comes back: nothing is clean meanwhile, and then it is."""
    data, aside = str(host.root / "data"), host.folder / "aside"
    aside.mkdir()
    host.begun("disk.full", leave_bytes=MIB)
    host.sh("mount", "--bind", data, str(aside))
    host.sh("umount", data)
    for _ in range(3):
        answer = host.undo()
        assert answer["ok"] and ".oschaos-r1_f1 may be on that file system" in answer["steps"][0]["left"]
    host.sh("mount", "--bind", str(aside), data)
    assert "removed filler" in host.undo()["says"] and list(disk.iterdir()) == []
    assert host.undo()["steps"] == []


def test_a_file_that_was_left_is_gone_once_others_have_removed_it(host: Host, disk: Path) -> None:
    data, aside = str(host.root / "data"), host.folder / "aside"
    aside.mkdir()
    host.begun("disk.full", leave_bytes=MIB)
    host.sh("mount", "--bind", data, str(aside))
    host.sh("umount", data)
    assert "left" in host.undo()["steps"][0]
    host.sh("mount", "--bind", str(aside), data)
    (disk / ".oschaos-r1_f1").unlink()
    assert host.undo()["steps"] == [{"step": "filler", "gone": "no filler is there"}]
    assert host.undo()["steps"] == []


def test_read_only_where_nobody_writes_and_refused_else(host: Host, disk: Path) -> None:
    with (disk / "translog").open("w") as file:
        file.write("x")
        answer = host.begin("disk.read_only", "f0")
        assert not answer["ok"] and "busy" in answer["why"] and "undone" in answer["why"]
    host.begun("disk.read_only")
    with pytest.raises(OSError, match="Read-only"):
        (disk / "new").write_text("x")
    assert host.undo()["ok"]
    (disk / "new").write_text("x")


# --- control groups ---


@pytest.fixture
def group(host: Host) -> Iterator[dict[str, Path]]:
    folders = {}
    for controller in ("cpu", "cpuacct", "memory", "blkio"):
        mount = Path("/sys/fs/cgroup") / controller
        if not mount.is_dir():
            pytest.skip("this machine has no control groups of version 1")
        folders[controller] = mount / f"host-test-{host.folder.name[-8:]}"
        folders[controller].mkdir()
        (folders[controller] / "cgroup.procs").write_text(str(host.pid))
    yield folders
    for folder in folders.values():
        for pid in (folder / "cgroup.procs").read_text().split():
            (folder.parent / "cgroup.procs").write_text(pid)
        folder.rmdir()


def test_where_the_nodes_limits_are_is_told_and_what_is_shared_is_not(host: Host, group: dict[str, Path]) -> None:
    cpu = {"version": 1, "folder": str(group["cpu"]), "accounting": str(group["cpuacct"])}
    memory = {"version": 1, "folder": str(group["memory"])}
    assert host.call("facts")["nodes"]["es-1"]["groups"] == {"cpu": cpu, "memory": memory}
    other = subprocess.Popen(["sleep", "60"])
    (group["cpuacct"] / "cgroup.procs").write_text(str(other.pid))
    assert host.call("facts")["nodes"]["es-1"]["groups"] == {"memory": memory}
    other.kill()
    other.wait()


def test_limits_of_processors_and_memory_come_and_go(host: Host, group: dict[str, Path]) -> None:
    quota, limit = group["cpu"] / "cpu.cfs_quota_us", group["memory"] / "memory.limit_in_bytes"
    quota.write_text("180000")
    before = limit.read_text()
    host.begun("cpu.limit", "f1", processors=0.5)
    assert quota.read_text() == "50000\n"
    assert host.begin("memory.limit", "f2", bytes=512 * MIB)["ok"]
    assert limit.read_text() == f"{512 * MIB}\n"
    assert host.undo("f1")["ok"] and host.undo("f2")["ok"]
    assert quota.read_text() == "180000\n" and limit.read_text() == before


def test_a_value_that_somebody_else_changed_is_left_and_named(host: Host, group: dict[str, Path]) -> None:
    quota = group["cpu"] / "cpu.cfs_quota_us"
    host.begun("cpu.limit", processors=0.5)
    quota.write_text("70000")
    assert not host.state()["active"][0]["steps"][0]["there"]
    answer = host.undo()
    assert answer["ok"] and "somebody else changed" in answer["steps"][0]["left"], answer
    assert quota.read_text() == "70000\n" and host.state()["active"] == []


def test_a_control_group_with_others_in_it_is_refused(host: Host, group: dict[str, Path]) -> None:
    other = subprocess.Popen(["sleep", "60"])
    (group["cpu"] / "cgroup.procs").write_text(str(other.pid))
    answer = host.begin("cpu.limit", processors=0.5)
    assert not answer["ok"] and f"process {other.pid} is in the node's control group too" in answer["why"]
    other.kill()
    other.wait()


def test_a_processor_limit_is_felt(host: Host, group: dict[str, Path]) -> None:
    burner = subprocess.Popen([PYTHON, "-c", "while True: pass"])
    try:
        (group["cpu"] / "cgroup.procs").write_text(str(burner.pid))
        (group["cpu"].parent / "cgroup.procs").write_text(str(host.pid))
        # the burner is the node: its user is root's
        host.config["nodes"]["es-1"]["user"] = "root"
        host.configure()
        host.pidfile.write_text(str(burner.pid))

        def used() -> int:
            return sum(map(int, Path(f"/proc/{burner.pid}/stat").read_text().rpartition(")")[2].split()[11:13]))

        host.begun("cpu.limit", processors=0.1)
        before = used()
        time.sleep(2)
        assert used() - before <= 35  # 20 of 200 ticks
        host.undone()
    finally:
        burner.kill()
        burner.wait()


def test_a_slow_disk_is_slow_for_the_node_alone(host: Host, group: dict[str, Path], ext4: Path) -> None:
    limit = group["blkio"] / "blkio.throttle.write_bps_device"
    host.begun("disk.slow", rate=4 * MIB)
    assert limit.read_text().split()[1] == str(4 * MIB)

    def seconds(inside: bool) -> float:
        join = f"echo $$ > {group['blkio']}/cgroup.procs && " if inside else ""
        line = f"{join}exec dd if=/dev/zero of={host.root}/data/x bs=1M count=8 oflag=direct"
        began = time.monotonic()
        host.sh("sh", "-c", line)
        return time.monotonic() - began

    assert seconds(True) >= 1.5 > seconds(False)
    host.undone()
    assert limit.read_text() == "" and seconds(True) < 1.5


# --- the dead-man ---


def test_undone_at_the_deadline_though_the_caller_was_killed(host: Host) -> None:
    asked = {"run": "r1", "id": "f1", "token": 1, "ttl": 2, "node": "es-1", "intent": "network.drop", "peers": [PEER]}
    # a session of its own, as sshd makes one; all of it is killed
    caller = subprocess.Popen(host.command("begin"), stdin=-1, stdout=-1, start_new_session=True)
    assert caller.stdin and caller.stdout
    caller.stdin.write(json.dumps(asked).encode())
    caller.stdin.close()
    began = time.monotonic()
    assert json.loads(caller.stdout.readline())["ok"]
    with pytest.raises(ProcessLookupError):
        while True:
            os.killpg(caller.pid, signal.SIGKILL)
            caller.poll()
    assert host.ends(host.near, PEER, within=0.3) == "timeout"
    eventually(lambda: host.reaches(host.near, PEER, within=0.1), 5)
    assert 1.5 <= time.monotonic() - began <= 3.5  # ttl + 1 s, and half a second for the begin itself
    assert host.state()["ended"]["why"] == "its time was over"


@pytest.mark.parametrize("seed", some(map(str, range(8))))
def test_whenever_begin_is_killed_everything_ends(host: Host, seed: str) -> None:
    """At moments over all of its time: before the record, between record and dead-man, in the change, after it."""
    moments, begun = random.Random(seed), 0
    for k in range(5):
        caller = subprocess.Popen(host.command("begin"), stdin=-1, stdout=-1, start_new_session=True)
        assert caller.stdin and caller.stdout
        asked = {"run": "r1", "id": f"f{k}", "token": 1, "ttl": 2, "node": "es-1", "peers": [PEER]}
        caller.stdin.write(json.dumps({**asked, "intent": "network.drop"}).encode())
        caller.stdin.close()
        time.sleep(moments.uniform(0.1, 0.8))
        os.kill(caller.pid, signal.SIGKILL)
        caller.wait()
        begun += bool(caller.stdout.read())
        caller.stdout.close()
    time.sleep(3)  # the last one's ttl, and a second
    assert "oschaos_" not in host.sh("nft", "list", "tables"), begun
    for record in host.call("state")["active"]:  # killed before the dead-man was armed, so nothing was made
        assert not record["dead_man"]["alive"] and not any(step["there"] for step in record["steps"])
    assert host.call("sweep")["ok"] and host.call("state")["active"] == []
    assert host.reaches(host.near, PEER)


def test_undone_though_begin_was_killed_in_the_middle(host: Host) -> None:
    """SIGKILL after the dead-man was armed and while nft is at work."""
    slow = host.folder / "nft"
    slow.write_text("#!/bin/sh\ncase \"$*\" in '-f -') /usr/sbin/nft.real -f -; exec sleep 3;; esac\n"
                    'exec /usr/sbin/nft.real "$@"\n')  # fmt: skip
    slow.chmod(0o755)
    overlay = host.folder / "sbin"
    overlay.mkdir()
    host.sh("cp", "/usr/sbin/nft", str(overlay / "nft.real"))
    for tool in ("tc", "ip"):
        host.sh("cp", f"/usr/sbin/{tool}", str(overlay / tool))
    host.sh("cp", str(slow), str(overlay / "nft"))
    host.sh("mount", "--bind", str(overlay), "/usr/sbin")
    asked = {"run": "r1", "id": "f1", "token": 1, "ttl": 2, "node": "es-1", "intent": "network.drop", "peers": [PEER]}
    caller = subprocess.Popen(host.command("begin"), stdin=-1, stdout=-1, start_new_session=True)
    assert caller.stdin
    caller.stdin.write(json.dumps(asked).encode())
    caller.stdin.close()
    eventually(lambda: not host.reaches(host.near, PEER, within=0.2))
    os.killpg(caller.pid, signal.SIGKILL)
    caller.wait()
    assert caller.stdout and caller.stdout.read() == b""
    eventually(lambda: host.reaches(host.near, PEER, within=0.2), 5)
    eventually(lambda: not _record(host).exists())
    assert host.sh("nft.real", "list", "tables") == ""


def test_a_dead_man_that_was_killed_is_told_and_extend_makes_a_new_one(host: Host) -> None:
    first = _dead_man(host.begun("network.drop", peers=[PEER]))
    os.kill(first, signal.SIGKILL)
    eventually(lambda: not host.letter(first))
    assert host.state()["active"][0]["dead_man"]["alive"] is False
    answer = host.call("extend", run="r1", id="f1", token=1, ttl=2)
    assert answer["ok"] and answer["dead_man"]["alive"] and _dead_man(answer) != first
    eventually(lambda: host.reaches(host.near, PEER, within=0.2), 4)


def test_extend_moves_the_deadline_and_never_beyond_the_longest(host: Host) -> None:
    host.configure(longest=8)
    host.begun("network.drop", peers=[PEER], ttl=3)
    answer = host.call("extend", run="r1", id="f1", token=1, ttl=6)
    assert answer["ok"] and 5 < answer["left"] <= 6 and not answer["capped"]
    time.sleep(3)
    assert host.ends(host.near, PEER, within=0.3) == "timeout"  # beyond its first deadline
    answer = host.call("extend", run="r1", id="f1", token=1, ttl=500)
    assert answer["ok"] and answer["capped"] and answer["left"] < 5
    eventually(lambda: host.reaches(host.near, PEER, within=0.2), 6)
    eventually(lambda: not _record(host).exists())
    assert "not active" in host.call("extend", run="r1", id="f1", token=1, ttl=5)["why"]


def test_it_tries_again_until_it_can(host: Host) -> None:
    """The undo fails while the tool fails; nobody asks for it again."""
    host.begun("network.drop", peers=[PEER], ttl=2)
    host.sh("mount", "--bind", "/bin/false", "/usr/sbin/nft")
    time.sleep(3)
    assert _record(host).exists()
    answer = host.undo()
    assert not answer["ok"] and "not undone yet" in answer["why"]
    host.sh("umount", "/usr/sbin/nft")
    eventually(lambda: host.reaches(host.near, PEER, within=0.2), 10)
    eventually(lambda: not _record(host).exists())


def test_what_nobody_would_undo_is_undone_by_the_next_begin(host: Host) -> None:
    """Its dead-man was killed, and nobody asked: it must not stay, nor keep others from the same thing."""
    os.kill(_dead_man(host.begun("node.pause", ttl=2)), signal.SIGKILL)
    time.sleep(3)
    assert host.letter(host.pid) == "T"
    record = json.loads(_record(host).read_text())
    _record(host).write_text(json.dumps({**record, "deadline": record["deadline"] - 5}))
    host.begun("network.drop", "f2", peers=[PEER])
    assert host.letter(host.pid) != "T" and "dead-man gone" in host.state()["ended"]["why"]


def test_its_clock_is_one_that_nobody_can_set(host: Host) -> None:
    answer = host.begun("network.drop", peers=[PEER], ttl=30)
    record = json.loads(_record(host).read_text())
    boottime = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert 20 < record["deadline"] - boottime <= 30 and abs(answer["left"] - 30) < 5
    host.undone()


def _fill(host: Host) -> None:
    host.sh("sh", "-c", f"dd if=/dev/zero of={host.root}/run/filler bs=4k; echo x > {host.root}/run/y", check=False)


def test_no_room_for_the_record_and_nothing_is_begun(host: Host) -> None:
    host.sh("mount", "-t", "tmpfs", "-o", "size=64k,mode=0755", "run", str(host.root / "run"))
    host.call("state")
    _fill(host)
    answer = host.begin("network.drop", peers=[PEER])
    assert not answer["ok"] and "could not be written: No space left" in answer["why"], answer
    assert host.sh("nft", "list", "tables") == "" and host.reaches(host.near, PEER)


@pytest.mark.parametrize("by", ["undo", "deadline"])
def test_no_room_does_not_keep_an_undo(host: Host, by: str) -> None:
    host.sh("mount", "-t", "tmpfs", "-o", "size=64k,mode=0755", "run", str(host.root / "run"))
    host.begun("network.drop", peers=[PEER], ttl=4)
    _fill(host)
    extended = host.call("extend", run="r1", id="f1", token=1, ttl=60)
    assert not extended["ok"] and "No space left" in extended["why"]
    if by == "undo":
        assert host.undo()["ok"]
    eventually(lambda: host.reaches(host.near, PEER, within=0.2), 6)
    eventually(lambda: host.state()["active"] == [])


# --- tokens, ids, boots ---


def test_a_lower_token_is_refused_and_a_higher_one_is_kept(host: Host) -> None:
    host.begun("network.drop", peers=[PEER], token=7)
    assert (host.root / "var/lib/oschaos-host/token").read_text() == "7\n" and host.call("facts")["token"] == 7
    answer = host.begin("node.pause", "f2", token=6)
    assert not answer["ok"] and "token 6 is older than 7" in answer["why"] and host.letter(host.pid) != "T"
    answer = host.call("extend", run="r1", id="f1", token=6, ttl=30)
    assert not answer["ok"] and "older than 7" in answer["why"]
    assert not host.begin("node.upgrade", "f3", token=9)["ok"]  # no such intent: nothing is taken of it
    assert host.call("facts")["token"] == 7
    host.undone()  # without a token


def test_no_id_twice_and_none_after_its_undo(host: Host) -> None:
    host.begun("network.drop", peers=[PEER])
    assert "this id is active" in host.begin("network.drop", peers=[PEER])["why"]
    host.undone()
    assert host.undo()["ok"] and host.undo()["ok"]
    assert "has been undone" in host.begin("network.drop", peers=[PEER])["why"]
    assert host.undo("late")["says"] == "nothing of this id was active"
    assert "undone before it was begun" in host.begin("network.drop", "late", peers=[PEER])["why"]
    assert host.reaches(host.near, PEER)


def test_a_record_of_another_boot_is_ignored_and_said(host: Host) -> None:
    host.begun("node.pause")
    pid = host.pid
    record = {**json.loads(_record(host).read_text()), "boot": "another"}
    _record(host).write_text(json.dumps(record))
    assert host.state()["active"] == [] and host.state()["earlier_boot"] == [["r1", "f1"]]
    assert "earlier boot" in host.undo()["says"]
    assert host.letter(pid) == "T" and not _record(host).exists()  # not ours to judge any more
    os.kill(pid, signal.SIGCONT)


def test_sweep_of_a_run_leaves_other_runs(host: Host) -> None:
    host.begun("network.drop", peers=[PEER])
    other = host.call("begin", run="r2", id="f1", token=1, ttl=60, node="es-1", intent="node.pause")
    assert other["ok"], other
    assert [each["run"] for each in host.call("sweep", run="r1")["undone"]] == ["r1"]
    assert host.reaches(host.near, PEER) and host.letter(host.pid) == "T"
    assert [each["run"] for each in host.call("sweep")["undone"]] == ["r2"]
    assert host.letter(host.pid) != "T" and host.reaches(host.near, CONTROL)


# --- what state says of nodes ---


def test_state_says_which_process_is_whose_node(host: Host) -> None:
    pid = host.pid
    host.config["nodes"]["es-2"] = {**host.config["nodes"]["es-1"], "pidfile": str(host.folder / "none.pid")}
    host.configure()
    status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    nodes = host.call("state")["nodes"]
    assert nodes["es-1"].pop("state") in "SR" and nodes["es-2"] is None
    assert nodes == {"es-1": {"pid": pid, "start": int(status[19]), "user": 65534}, "es-2": None}
    host.begun("node.pause")
    assert host.state()["nodes"]["es-1"]["state"] == "T"
    host.undone()
    host.begun("node.kill", "f2")
    assert host.state("f2")["nodes"] == {"es-1": None, "es-2": None}
    assert host.undo("f2")["ok"]
    assert host.call("state")["nodes"]["es-1"]["pid"] == host.pid != pid


def test_state_names_no_process_of_another_user(host: Host) -> None:
    node = host.pidfile.read_text()
    host.pidfile.write_text(str(os.getpid()))
    assert host.call("state")["nodes"] == {"es-1": None}
    host.config["nodes"]["es-1"]["user"] = "nobody-of-that-name"
    host.configure()
    assert host.call("state")["nodes"] == {"es-1": None}
    host.pidfile.write_text(node)


def test_state_without_a_configuration_names_no_nodes_and_tells_the_rest(host: Host) -> None:
    host.begun("node.pause")
    (host.root / "etc" / "oschaos-host.json").unlink()
    answer = host.state()
    assert answer["ok"] and answer["nodes"] == {} and answer["active"][0]["steps"][0]["there"]
    assert host.undo()["ok"]


# --- what it refuses ---


def test_a_configuration_that_others_may_write_is_refused(host: Host) -> None:
    path = host.root / "etc" / "oschaos-host.json"
    path.chmod(0o666)
    assert "can be written by others than root" in host.begin("node.pause")["why"]
    path.chmod(0o644)
    os.chown(path, 65534, 0)
    assert "can be written by others than root" in host.begin("node.pause")["why"]
    os.chown(path, 0, 0)
    path.parent.chmod(0o777)
    assert "the folder of" in host.begin("node.pause")["why"]
    path.parent.chmod(0o755)
    path.rename(path.with_suffix(".real"))
    path.symlink_to(path.with_suffix(".real"))
    assert not host.begin("node.pause")["ok"]
    assert host.letter(host.pid) != "T"


def test_a_folder_of_records_that_others_may_write_is_refused(host: Host) -> None:
    """A record is what root will do at its undo."""
    host.call("state")
    (host.root / "run" / "oschaos-host").chmod(0o777)
    assert "is not ours alone" in host.call("state")["why"]


def test_what_is_not_allowed_or_too_long_is_refused(host: Host) -> None:
    host.configure(intents=["network.drop"], longest=30)
    assert "does not allow it" in host.begin("node.kill", ttl=30)["why"]
    assert "longer than 30 s" in host.begin("network.drop", peers=[PEER], ttl=31)["why"]
    assert "names no node es-2" in host.begin("network.drop", peers=[PEER], ttl=30, node="es-2")["why"]
    assert host.letter(host.pid) != ""


def test_what_is_no_request_is_refused(host: Host) -> None:
    def said(given: bytes, verb: str = "begin") -> str:
        done = subprocess.run(host.command(verb), input=given, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert answer["ok"] is False
        return str(answer["why"])

    assert said(b"{}", "explode") == "unknown verb"
    assert said(b'{"run": 1, "run": 2}') == "no JSON: a field stands there twice"
    assert said(b'{"ttl": NaN}', "extend") == "no JSON: NaN is no JSON"
    assert said(b"[" * 60000).startswith("no JSON")
    assert said(b"\xff") == "no UTF-8"
    assert said(b" " * 65537) == "more than 65536 bytes"
    assert said(b'{"all": true}', "sweep") == "unknown field 'all'"


def test_root_elsewhere_is_not_for_who_comes_by_sudo(host: Host) -> None:
    """Else the configuration would be theirs."""
    for change, environment in ((0o755, {"SUDO_UID": "1000"}), (0o777, {})):
        host.root.chmod(change)
        done = subprocess.run(host.command("state"), input="{}", env={**os.environ, **environment},
                              capture_output=True, text=True, check=False)  # fmt: skip
        assert done.returncode == 2 and "--root is for root itself" in done.stdout


def test_who_is_not_root_is_told(host: Host) -> None:
    readable = host.folder / "program"
    readable.write_text(PROGRAM.read_text())
    done = subprocess.run([PYTHON, "-IS", str(readable), "state"], input="{}", capture_output=True, text=True,
                          user="nobody", cwd="/", check=False)  # fmt: skip
    assert done.returncode == 2 and "must be run by root" in done.stdout
