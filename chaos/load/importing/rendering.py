"""A workload of OpenSearch Benchmark, rendered in a process of its own, within bounds (:mod:`.render_child`)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos.base.errors import InvalidInput
from chaos.definitions.source import shown

PROCESSOR_SECONDS = 0.6
"""All templates of a workload together. The largest of OpenSearch's own takes a third of it."""
WALL_SECONDS = 20.0
"""On a machine that has no time for it."""
CHILD = Path(__file__).with_name("render_child.py")


def render(file: Path, parameters: Mapping[str, Any], also: Sequence[Path]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The workload of a file as JSON, and the bodies of its indices by the names of their files.

    ``parameters``: of the user; ``also``: folders whose files may be read beside those of the workload's own folder.
    Raises InvalidInput for one that cannot be rendered within its bounds.
    """
    told = {
        "root": str(file.parent),
        "file": file.name,
        "also": list(map(str, also)),
        "parameters": dict(parameters),
        "seconds": PROCESSOR_SECONDS,
    }
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(CHILD)],
            input=json.dumps(told),
            capture_output=True,
            text=True,
            timeout=WALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InvalidInput(f"{file}: rendering it took more than {WALL_SECONDS:g} s, and was ended") from None
    if done.returncode == -signal.SIGPROF:
        raise InvalidInput(
            f"{shown(file)}: rendering it takes more than {PROCESSOR_SECONDS:g} s of processor time, and was ended",
            remedy="look for a loop in its templates",
        )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise InvalidInput(f"{file}: rendering it ended with {done.returncode}: {last}")
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise InvalidInput(f"{shown(file.parent)}: {answer['error']}", remedy=answer["remedy"] or None)
    return answer["made"]["workload"], answer["made"]["bodies"]
