"""Debian's own cron, in namespaces of its own, fires the very file that ``gameday schedule --for cron`` writes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from daykit import written
from receivers import receiver, says

from chaos.base.paths import STATE_VARIABLE
from chaos.definitions.gameday import WEEKDAYS
from chaos.gamedays import record
from chaos.targets.labs.processes import wait_until

CRON = shutil.which("cron", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
LACKING = (
    "needs root"
    if os.geteuid() != 0
    else "no unshare is installed"
    if shutil.which("unshare") is None
    else "no cron is installed on this machine: apt-get install --no-install-recommends cron"
    if CRON is None
    else ""
)
pytestmark = pytest.mark.skipif(bool(LACKING), reason=LACKING or "never")
ROOT = Path(__file__).parents[2]
READY_SECONDS = 15
"""Cron looks at the clock once a minute, and must have been started by then."""
PATIENCE = 240.0
BOOT = """\
mount --make-rprivate / && mount --bind "$1" /etc/cron.d && mount --bind "$2" /etc/crontab &&
mount -t tmpfs tmpfs /var/spool/cron && mount -t tmpfs tmpfs /run && exec env TZ=UTC "$3" -f
"""
"""All that cron reads or writes is in mounts of its own; its own is also the clock's zone."""
PROGRAM = """\
#!/bin/sh
export PYTHONPATH='{root}' {state}='{folder}/state'
'{python}' -m chaos "$@"
code=$?
echo "$1 $code" >> '{folder}/codes'
exit $code
"""


@contextmanager
def cron(folder: Path, jobs: Path) -> Iterator[psutil.Process]:
    """The daemon, which knows these jobs and no others; with its end everything ends that it started."""
    empty = folder / "crontab"
    empty.touch(mode=0o644)
    namespaces = ("--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    with open(folder / "cron.log", "wb") as log:
        process = subprocess.Popen(
            ["unshare", *namespaces, "sh", "-c", BOOT, "sh", str(jobs), str(empty), str(CRON)],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    mine = psutil.Process(process.pid)
    try:
        yield mine
    finally:
        started = mine.children(recursive=True)
        process.send_signal(signal.SIGKILL)  # it takes no other while it waits
        process.wait()
        assert psutil.wait_procs(started, 30)[1] == []


def next_minute() -> datetime:
    """One that is far enough away."""
    soon = datetime.now(UTC) + timedelta(seconds=READY_SECONDS)
    return soon.replace(second=0, microsecond=0) + timedelta(minutes=1)


@pytest.mark.full
def test_cron_fires_what_is_printed_for_it_and_a_gate_refuses_the_day(tmp_path: Path) -> None:
    folder = tmp_path / "it's 100% ours"
    folder.mkdir()
    program = tmp_path / "opensearch-chaos"
    program.write_text(PROGRAM.format(root=ROOT, state=STATE_VARIABLE, folder=tmp_path, python=sys.executable))
    program.chmod(0o755)
    opens = next_minute()
    window = {
        "zone": "UTC",
        "days": list(WEEKDAYS),
        "from": f"{opens:%H:%M}",
        "to": f"{opens + timedelta(hours=6):%H:%M}",
    }
    before = sorted(os.listdir("/etc/cron.d")), Path("/etc/crontab").exists()
    with receiver(says(200)) as chat:
        file = written(folder, window=window, announce=[{"webhook": f"{chat.address}/hook"}])
        (folder / "stop").write_text("")
        jobs = tmp_path / "jobs"
        given = ("--for", "cron", "--user", "root", "--in", str(folder), "--program", str(program))
        asked = [str(program), "gameday", "schedule", str(file), *given, "--write", str(jobs)]
        subprocess.run(asked, cwd=folder, check=True, capture_output=True, timeout=120)
        (job,) = jobs.iterdir()
        assert f"\n{opens.minute} {opens.hour} * * " in job.read_text()
        codes = tmp_path / "codes"
        assert codes.read_text() == "gameday 0\n"
        with cron(tmp_path, jobs) as daemon:

            def recovered() -> bool:
                assert daemon.status() != psutil.STATUS_ZOMBIE, (tmp_path / "cron.log").read_text()
                return "recover " in codes.read_text()

            assert wait_until(recovered, PATIENCE, every=0.5), (tmp_path / "cron.log").read_text()
            assert not [each for each in folder.glob("gamedays/staging/*") if each.stat().st_mtime < opens.timestamp()]
    assert codes.read_text().splitlines()[1] == "gameday 2"
    assert codes.read_text().splitlines()[2].startswith("recover "), "whatever a dead runner left is undone after it"
    (day,) = folder.glob("gamedays/staging/*/record.jsonl")
    lines = record.read(day)
    assert record.verify(day) == [] and lines[-1]["kind"] != "experiment.begin"
    (gate,) = [line for line in lines if line["kind"] == "gate" and not line["ok"]]
    assert gate["name"] == "stop file" and "somebody wants no game day" in gate["says"]
    assert (day.parent / "gameday.html").is_file()
    (told,) = chat.asked
    assert told.method == "POST" and told.body["event"] == "refused", told.body
    assert "stop file" in told.body["says"], told.body
    assert before == (sorted(os.listdir("/etc/cron.d")), Path("/etc/crontab").exists())
