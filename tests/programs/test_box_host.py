"""A host as the box makes them, with a process that stands for a node: with an sshd alone, and with a systemd."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from box import hosts, machine
from hostkit import eventually

from chaos.base.errors import MissingPrerequisite
from chaos.base.netsock import Endpoint, Namespace
from chaos.provision.unprivileged import NODE_UID
from chaos.targets.labs import cgroups

pytestmark = pytest.mark.full
ADDRESS = "198.18.7.1"
HOST_KEY, KEY = machine.Key.made(), machine.Key.made()
ENTER = "import sys; from box import host; host.enter(int(sys.argv[1]), sys.argv[2:])"
WIRING = f"""
ip link set lo up; ip link add eth0 type bridge; ip addr add {ADDRESS}/24 dev eth0; ip link set eth0 up
"""


class Made:
    """A host in a network of its own, made in a folder; ``es-1`` is its node."""

    def __init__(self, folder: Path, *, systemd: bool) -> None:
        self.folder, self.group = folder, hosts.groups_of_systemd() / f"oschaos-{folder.name}" if systemd else None
        self._host: subprocess.Popen[bytes] | None = None
        self._holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self._network = Path(f"/proc/{self._holder.pid}/ns/net")
        eventually(lambda: self._network.stat().st_ino != Path("/proc/self/ns/net").stat().st_ino)
        self.node = machine.Node(
            "es-1",
            folder / "pid",
            None,
            ["/bin/sleep", "100000"],
            folder,
            folder / "log",
            {"PATH": "/usr/bin:/bin", "SAID": "it's $HOME"},
            [],
        )

    def up(self) -> None:
        self.beside("sh", "-e", "-c", WIRING)
        folder = self.folder
        self.node.log.touch()
        for each in (folder, self.node.log):
            os.chown(each, NODE_UID, NODE_UID)
        made = machine.machine("es-1", ADDRESS, HOST_KEY, [KEY.public], folder, self.node, self.group)
        config = machine.ssh_config({"es-1": machine.SSH}, folder / "key", folder / "known")
        for name, text in {
            "machine.json": json.dumps(made.to_json()),
            "key": KEY.private,
            "known": machine.known_hosts({"es-1": HOST_KEY}),
            "config": config.replace("127.0.0.1", ADDRESS),
        }.items():
            (folder / name).touch(mode=0o600)
            (folder / name).write_text(text)
        with Namespace(self._network).entered():
            self._host = subprocess.Popen([sys.executable, str(hosts.PROGRAM), "_host", str(folder / "machine.json")])
        eventually(self._greets, 30)
        if self.group is None:
            self.on(f"setpriv --reuid {NODE_UID} --clear-groups {machine.START} &")
        eventually(lambda: self.facts()["nodes"]["es-1"]["process"], 20)

    def _greets(self) -> bool:
        assert self._host is not None and self._host.poll() is None
        return hosts.greets(Endpoint(ADDRESS, machine.SSH, Namespace(self._network)))

    def beside(self, *command: str, given: str = "") -> str:
        """In its network, with this machine's files; what was printed."""
        inside = ["nsenter", f"--net={self._network}", "--", *command]
        done = subprocess.run(inside, input=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def on(self, script: str) -> str:
        """By root, in the host; what was printed."""
        assert self._host is not None
        there = [sys.executable, "-c", ENTER, str(self._host.pid), "sh", "-c", script]
        path = os.pathsep.join([str(hosts.PROGRAM.parent), *sys.path])
        with open(self.folder / "printed", "w+") as printed:
            subprocess.run(there, stdout=printed, stderr=printed, env={**os.environ, "PYTHONPATH": path}, check=True)
            printed.seek(0)
            return printed.read()

    def asks(self, verb: str, **given: Any) -> dict[str, Any]:
        ssh = ["ssh", "-F", str(self.folder / "config"), "es-1", "sudo", "-n", machine.PROGRAM, verb]
        return dict(json.loads(self.beside(*ssh, given=json.dumps(given))))

    def facts(self) -> dict[str, Any]:
        return self.asks("facts")

    def processes(self) -> list[psutil.Process]:
        inode, found = self._network.stat().st_ino, []
        for each in psutil.process_iter():
            with suppress(OSError):
                if os.stat(f"/proc/{each.pid}/ns/net").st_ino == inode and each.pid != self._holder.pid:
                    found.append(each)
        return found

    def close(self) -> None:
        for each in self.processes():
            with suppress(psutil.NoSuchProcess):
                each.send_signal(signal.SIGKILL)
        if self._host is not None:
            self._host.wait()
        eventually(lambda: not self.processes())
        self._holder.kill()
        self._holder.wait()
        if self.group is not None:
            where = cgroups.Hierarchy(self.group.parent, 2)
            assert cgroups.Groups(self.group.name.removeprefix("oschaos-"), {"": where}).remove() == []


def lacking(systemd: bool) -> str:
    if os.geteuid() != 0:
        return "needs root"
    try:
        hosts.refuse_unready()
        if systemd:
            hosts.groups_of_systemd()
    except MissingPrerequisite as error:
        return str(error)
    return ""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk as labs mount them; its loop device goes with the last mount of it."""
    image, point = tmp_path / "image", tmp_path / "labs" / "other" / "data" / "a"
    point.mkdir(parents=True)
    with open(image, "wb") as file:
        file.truncate(16 << 20)
    for command in (["mkfs.ext4", "-q", str(image)], ["mount", "-o", "loop", str(image), str(point)]):
        subprocess.run(command, check=True)
    yield image
    subprocess.run(["umount", str(point)], check=False)


def test_a_host_keeps_no_disk_of_a_lab_that_is_not_its_own(disk: Path) -> None:
    if why := lacking(False):
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="oschaos-box-host-", dir="/var/lib"))
    folder.chmod(0o755)
    host = Made(folder, systemd=False)
    try:
        host.up()
        assert held(disk) and str(disk.parent) not in host.on("cat /proc/self/mounts")
        subprocess.run(["umount", str(disk.parent / "labs" / "other" / "data" / "a")], check=True)
        eventually(lambda: not held(disk))
    finally:
        host.close()
        shutil.rmtree(folder)


def held(image: Path) -> bool:
    """Whether a loop device has this image."""
    return str(image) in subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module", params=[False, True], ids=["sshd", "systemd"])
def made(request: pytest.FixtureRequest) -> Iterator[Made]:
    if why := lacking(request.param):
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="oschaos-box-host-", dir="/var/lib"))
    folder.chmod(0o755)
    host = Made(folder, systemd=request.param)
    try:
        host.up()
        yield host
    finally:
        host.close()
        shutil.rmtree(folder)


def test_a_caller_by_ssh_is_told_what_is_there(made: Made) -> None:
    facts = made.facts()
    assert facts["ok"] and facts["came_by"] == [[ADDRESS, machine.SSH]] and facts["strays"] == []
    assert facts["dead_man"] == ("process" if made.group is None else "systemd")
    pid = facts["nodes"]["es-1"]["process"]["pid"]
    assert made.on(f"tr '\\0' ' ' </proc/{pid}/cmdline; hostname; id -un") == "/bin/sleep 100000 es-1\nroot\n"


def test_its_files_are_its_own_and_this_machine_keeps_its(made: Made) -> None:
    places = ["/run/was-here", "/etc/was-here", "/usr/sbin/was-here", "/var/lib/was-here", "/var/log/was-here"]
    made.on(f"touch {' '.join(places)}")
    assert made.on(f"ls {' '.join(places)}").split() == sorted(places)
    assert not [each for each in places if Path(each).exists()]
    assert made.on("getent passwd chaos").startswith(f"chaos:x:{machine.USER_ID}:")
    assert made.on("cat /proc/self/mountinfo").count(" /run/netns") == 0
    assert made.on("readlink -f /etc/ld.so.cache /etc/passwd").split() == [
        "/run/machine/etc/ld.so.cache",
        "/etc/passwd",
    ]


def test_who_may_not_write_may_not_by_systemd(made: Made) -> None:
    """Where systemd is process 1 this machine's files are read-only, for units may come that nobody thought of."""
    folder = Path("/usr/local") / f"box-{os.getpid()}"
    written = made.on(f"mkdir {folder} 2>/dev/null && rmdir {folder} && echo written || echo refused")
    assert written == ("written\n" if made.group is None else "refused\n")


def test_a_killed_node_comes_back_as_it_was_by_the_dead_man_alone(made: Made) -> None:
    old = made.facts()["nodes"]["es-1"]["process"]
    begun = made.asks("begin", run="r1", id="k1", token=1, ttl=6, intent="node.kill", node="es-1")
    assert begun["ok"] and begun["dead_man"]["alive"] and begun["steps"][-1]["there"], begun
    assert made.facts()["nodes"]["es-1"]["process"] is None
    eventually(lambda: made.facts()["nodes"]["es-1"]["process"], 30)
    new = made.facts()["nodes"]["es-1"]["process"]
    assert new["pid"] != old["pid"] and new["user"] == NODE_UID
    assert made.on(f"tr '\\0' '\\n' </proc/{new['pid']}/environ").splitlines() == [
        "PATH=/usr/bin:/bin",
        "SAID=it's $HOME",
    ]
    assert made.on(f"readlink /proc/{new['pid']}/cwd") == f"{made.folder}\n"
    assert made.on(f"readlink /proc/{new['pid']}/fd/1") == f"{made.node.log}\n"
    assert made.asks("state", run="r1", id="k1")["ended"]["why"] == "its time was over"


def test_a_systemd_finds_no_unit_of_this_machine(made: Made) -> None:
    if made.group is None:
        assert "systemd" not in made.on("ls /run").split()
        return
    assert made.on("systemctl is-system-running") == "running\n"
    services = made.on("systemctl list-units --plain --no-legend --type=service").splitlines()
    assert [line.split()[0] for line in services] == ["opensearch.service", "ssh.service"]
    assert (
        made.on("systemctl show --property=LoadState cron.service sshd.service dbus.service").split()
        == ["LoadState=not-found"] * 3
    )
