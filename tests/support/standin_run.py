"""A stand-in for a run: the child of a campaign's worker by the same path, which starts no cluster.

``python standin_run.py MACHINE FOLDER LOCK``; ``MACHINE/behaviour.json`` says how it behaves
(:func:`campaignkit.behave`). Its plan says that it is a stand-in.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from chaos.base import errors
from chaos.campaign import child


def carry(spec: Mapping[str, Any], out: Path) -> Any:
    file = MACHINE / "behaviour.json"
    how = json.loads(file.read_text()) if file.is_file() else {}
    with open(MACHINE / "runs.jsonl", "a") as told:
        told.write(json.dumps({"begun": out.name, "seed": spec["seed"], "pid": os.getpid()}) + "\n")
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    if "error" in how:
        kind, says = how["error"]
        raise getattr(errors, kind)(says)
    end = time.monotonic() + float(how.get("seconds", 0))
    while time.monotonic() < end and not asked:
        time.sleep(0.02)
    if "dies" in how and not asked:
        os.kill(os.getpid(), how["dies"])
    folder = out / f"stand-in-{out.name}"
    (folder / "history").mkdir(parents=True)
    (folder / "logs").mkdir()
    (folder / "plan.json").write_text(json.dumps({"stand_in": True, "seed": spec["seed"], "command": spec["command"]}))
    (folder / "history" / "events.jsonl").write_text(f'{{"stand_in": {os.getpid()}}}\n')
    (folder / "logs" / "big.log").write_bytes(b"x" * int(how.get("bytes", 10)))
    outcome = "aborted" if asked else how.get("outcome", "pass")
    clean = bool(how.get("clean", True))
    code = errors.Exit.ABORTED if asked else errors.Exit.PASS
    with open(MACHINE / "runs.jsonl", "a") as told:
        told.write(json.dumps({"ended": out.name, "outcome": outcome, "asked": bool(asked)}) + "\n")
    findings: Any = {"outcome": outcome, "summary": "a stand-in", "exit_code": int(code)}
    return SimpleNamespace(folder=folder, findings=findings, clean=clean, exit_code=code, stopped=bool(asked))


if __name__ == "__main__":
    MACHINE = Path(sys.argv.pop(1))
    sys.exit(child.serve(carry))
