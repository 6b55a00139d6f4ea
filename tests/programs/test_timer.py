"""A systemd, in namespaces of its own, fires the very timer that ``gameday schedule --for systemd`` writes."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import psutil
import pytest
from daykit import written
from programs.test_cron import PATIENCE, PROGRAM, ROOT, next_minute
from receivers import receiver, says
from systemdkit import lacking, systemd

from chaos.base.paths import STATE_VARIABLE
from chaos.definitions.gameday import WEEKDAYS
from chaos.gamedays import record
from chaos.targets.labs.processes import wait_until

LACKING = "needs root" if os.geteuid() != 0 else lacking()
pytestmark = [pytest.mark.skipif(bool(LACKING), reason=LACKING or "never"), pytest.mark.full]


def test_a_timer_fires_the_service_that_is_printed_for_it_and_a_gate_refuses_the_day(tmp_path: Path) -> None:
    folder, units = tmp_path / "it's 100% ours", tmp_path / "units"
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
    (folder / "frozen.yaml").write_text(
        f"freezes: [{{from: {opens:%Y-%m-%d}, to: 2099-12-31, why: the end of time}}]\n"
    )
    with receiver(says(200)) as chat:
        announce = [{"webhook": f"{chat.address}/hook"}]
        file = written(folder, window=window, announce=announce, freezes=[{"yaml": "frozen.yaml"}])
        given = ("--for", "systemd", "--user", "root", "--in", str(folder), "--program", str(program))
        asked = [str(program), "gameday", "schedule", str(file), *given, "--write", str(units)]
        subprocess.run(asked, cwd=folder, check=True, capture_output=True, timeout=120)
        (timer,) = units.glob("*.timer")
        assert f"*-*-* {opens:%H:%M}:00 UTC" in timer.read_text()
        codes = tmp_path / "codes"
        assert codes.read_text() == "gameday 0\n"
        with systemd(f"timer{os.getpid()}", units, timer.name, tmp_path) as daemon:

            def recovered() -> bool:
                assert daemon.status() != psutil.STATUS_ZOMBIE, (tmp_path / "systemd.log").read_text()
                return "recover " in codes.read_text()

            assert wait_until(recovered, PATIENCE, every=0.5), (tmp_path / "systemd.log").read_text()
    assert codes.read_text().splitlines()[1] == "gameday 2"
    assert codes.read_text().splitlines()[2].startswith("recover "), "whatever a dead runner left is undone after it"
    (day,) = folder.glob("gamedays/staging/*/record.jsonl")
    lines = record.read(day)
    assert record.verify(day) == [] and lines[-1]["kind"] != "experiment.begin"
    began = datetime.fromisoformat(lines[0]["t"])
    assert began >= opens, "by the timer, and not before"
    (gate,) = [line for line in lines if line["kind"] == "gate" and not line["ok"]]
    assert gate["name"] == "freeze frozen.yaml" and "the end of time" in gate["says"], gate
    assert (day.parent / "gameday.html").is_file()
    (told,) = chat.asked
    assert told.method == "POST" and told.body["event"] == "refused", told.body
