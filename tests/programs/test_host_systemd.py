"""oschaos-host where systemd is PID 1: a systemd of the tests' own, in namespaces of its own, with one unit."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostkit import HOLD, PROGRAM, PYTHON, eventually

SYSTEMD = Path("/lib/systemd/systemd")
TREES = [path for path in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")) if (path / "cgroup.procs").exists()]
LACKING = (
    "needs root"
    if os.geteuid() != 0
    else "no systemd is installed"
    if not SYSTEMD.exists() or shutil.which("systemd-run") is None
    else ""
    if TREES
    else "no control groups of version 2 are mounted"
)
pytestmark = [pytest.mark.full, pytest.mark.skipif(bool(LACKING), reason=LACKING or "never")]

BOOT = f"""
set -e
mount --make-rprivate /
{HOLD.partition("; echo")[0]} || true
mount -t tmpfs -o mode=0755 run /run
umount -l /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
mount -o remount,bind,ro /
mkdir -p /run/systemd/system /run/host/etc /run/host/run /run/host/var/lib
echo 0123456789abcdef0123456789abcdef > /run/machine-id
mount --bind /run/machine-id /etc/machine-id
printf '[Unit]\\nDefaultDependencies=no\\n' > /run/systemd/system/nothing.target
cat > /run/systemd/system/es.service <<E
[Unit]
DefaultDependencies=no
[Service]
ExecStart=/bin/sleep infinity
Restart=always
RestartSec=100ms
E
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \\
    /lib/systemd/systemd --system --unit=nothing.target --log-target=console --log-level=warning --show-status=0
"""
"""The root is read-only for it, and no unit of this machine's is started."""


class Systemd:
    def __init__(self, group: Path) -> None:
        self._group = group
        group.mkdir()
        join = 'echo $$ > "$1/cgroup.procs"; shift; exec "$@"'
        namespaces = ["--pid", "--fork", "--mount", "--cgroup", "--uts", "--ipc", "--net", "--mount-proc"]
        self._holder = subprocess.Popen(
            ["sh", "-c", join, "sh", str(group), "unshare", *namespaces, "--kill-child", "bash", "-c", BOOT],
            stdin=subprocess.DEVNULL,
        )
        self.pid = 0
        try:
            eventually(self._up, 20)
        except AssertionError:
            self.close()
            pytest.skip("systemd does not run here in namespaces of its own")
        self.run = Path(f"/proc/{self.pid}/root/run")
        config = {"nodes": {"es-1": {"unit": "es.service"}}, "longest": 600,
                  "intents": ["node.kill", "node.stop", "node.restart", "node.pause", "cpu.limit"]}  # fmt: skip
        (self.run / "host/etc/oschaos-host.json").write_text(json.dumps(config))
        self.sh("systemctl", "start", "es")

    def _up(self) -> bool:
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children").read_text().split()
        self.pid = int(children[0]) if children else 0
        return bool(children) and self.sh("systemctl", "is-system-running").strip() in ("running", "degraded")

    def sh(self, *argv: str, given: str = "") -> str:
        inside = ["nsenter", "-t", str(self.pid), "-p", "-m", "-n", "-C", "-i", "-u", "--"]
        return subprocess.run([*inside, *argv], input=given, capture_output=True, text=True, check=False).stdout

    def call(self, verb: str, **given: Any) -> dict[str, Any]:
        said = self.sh(PYTHON, "-IS", str(PROGRAM), verb, "--root", "/run/host", given=json.dumps(given))
        return dict(json.loads(said))

    def begin(self, intent: str, ttl: float = 60, id: str = "f1") -> dict[str, Any]:
        return self.call("begin", run="r1", id=id, token=1, ttl=ttl, node="es-1", intent=intent)

    def shows(self, name: str, unit: str = "es.service") -> str:
        return self.sh("systemctl", "show", "--value", f"--property={name}", unit).strip()

    def timers(self) -> list[str]:
        listed = self.sh("systemctl", "list-units", "--all", "--plain", "--no-legend", "oschaos-undo-*.timer")
        return [line.split()[0] for line in listed.splitlines()]

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
        self._holder.kill()
        self._holder.wait()
        for _ in range(100):
            for folder in [
                *sorted((path for path in self._group.rglob("*") if path.is_dir()), reverse=True),
                self._group,
            ]:
                try:
                    folder.rmdir()
                except OSError:
                    time.sleep(0.02)
            if not self._group.exists():
                return


@pytest.fixture(scope="module")
def _systemd() -> Iterator[Systemd]:
    systemd = Systemd(TREES[0] / f"oschaos-systemd-{os.getpid()}")
    yield systemd
    systemd.close()


@pytest.fixture
def systemd(_systemd: Systemd) -> Iterator[Systemd]:
    yield _systemd
    assert _systemd.call("sweep")["ok"]
    for ended in (_systemd.run / "host/run/oschaos-host").glob("*.ended"):
        ended.unlink()
    eventually(lambda: _systemd.timers() == [])
    eventually(lambda: _systemd.shows("ActiveState") == "active")
    assert not (_systemd.run / "systemd/system/es.service.d").exists() and _systemd.shows("Restart") == "always"


def test_facts_say_what_arms(systemd: Systemd) -> None:
    facts = systemd.call("facts")
    assert facts["systemd"] and facts["dead_man"] == "systemd"
    assert str(facts["nodes"]["es-1"]["process"]["pid"]) == systemd.shows("MainPID")
    assert systemd.call("state")["nodes"]["es-1"]["pid"] == facts["nodes"]["es-1"]["process"]["pid"]


def test_kill_is_not_restarted_by_systemd_until_its_undo(systemd: Systemd) -> None:
    before = systemd.shows("MainPID")
    answer = systemd.begin("node.kill")
    assert answer["ok"] and answer["dead_man"] == {"by": "systemd timer oschaos-undo-r1_f1-1", "alive": True}, answer
    time.sleep(1)  # RestartSec is 100 ms
    assert systemd.shows("ActiveState") == "failed" and systemd.shows("MainPID") == "0"
    answer = systemd.call("undo", run="r1", id="f1")
    assert (
        answer["ok"]
        and answer["disarmed"]
        and [each["gone"] for each in answer["steps"]]
        == [
            "it was started",
            "systemd restarts it as before",
        ]
    )
    assert systemd.shows("MainPID") not in ("0", before)


def test_a_stop_is_undone_by_its_timer(systemd: Systemd) -> None:
    answer = systemd.begin("node.stop", ttl=3)
    assert answer["ok"], answer
    eventually(lambda: systemd.shows("ActiveState") == "inactive", 2)
    began = time.monotonic()
    eventually(lambda: systemd.shows("ActiveState") == "active", 6)
    assert time.monotonic() - began < 4.5
    eventually(lambda: systemd.call("state", run="r1", id="f1").get("ended", {}).get("why") == "its time was over")


def test_a_restart_gives_another_process(systemd: Systemd) -> None:
    before = systemd.shows("MainPID")
    answer = systemd.begin("node.restart", ttl=20)
    assert answer["ok"] and str(answer["pid"]) == systemd.shows("MainPID") != before, answer


def test_pause_and_extend_replace_the_timer(systemd: Systemd) -> None:
    assert systemd.begin("node.pause", ttl=3)["ok"]
    assert systemd.timers() == ["oschaos-undo-r1_f1-1.timer"]
    answer = systemd.call("extend", run="r1", id="f1", token=1, ttl=6)
    assert answer["ok"] and answer["dead_man"] == {"by": "systemd timer oschaos-undo-r1_f1-2", "alive": True}
    assert systemd.timers() == ["oschaos-undo-r1_f1-2.timer"]
    time.sleep(4)  # beyond the first deadline
    paused = systemd.call("state", run="r1", id="f1")["active"][0]["steps"][0]
    assert paused == {"step": "pause", "there": True, "state": "T"}
    eventually(lambda: systemd.call("state")["active"] == [], 5)


def test_a_timer_that_somebody_stopped_is_told(systemd: Systemd) -> None:
    assert systemd.begin("node.pause")["ok"]
    systemd.sh("systemctl", "stop", "oschaos-undo-r1_f1-1.timer")
    assert systemd.call("state")["active"][0]["dead_man"]["alive"] is False
    assert systemd.call("undo", run="r1", id="f1")["ok"]


def test_a_limit_that_the_unit_has_no_controller_for_is_said(systemd: Systemd) -> None:
    why = systemd.call("facts")["nodes"]["es-1"]["intents"]["cpu.limit"]
    answer = systemd.begin("cpu.limit")  # without its parameter, first
    assert not answer["ok"] and answer["why"] == "processors is missing"
    answer = systemd.call("begin", run="r1", id="f1", token=1, ttl=9, node="es-1", intent="cpu.limit", processors=1)
    if (systemd.run.parent / "sys/fs/cgroup/system.slice/es.service/cpu.max").exists():
        assert answer["ok"] and why is None
    else:
        assert not answer["ok"] and why is not None and why in answer["why"]
        assert "is not there" in why or "no controller cpu" in why
