"""A lab with a stand-in for AWS FIS before it, for as long as a block lasts: for ``make fis-demo`` and for pytest."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.base.errors import LabError
from chaos.targets.labs.processes import wait_until

TOPOLOGY, SCALE = "3az-tuned", "20"
START_SECONDS, END_SECONDS = 120.0, 120.0


def words(*given: str) -> list[str]:
    """The arguments of a command of ours as a process of its own."""
    return [sys.executable, "-m", "chaos", *given]


@contextmanager
def fis_lab() -> Iterator[Path]:
    """The file of a target whose faults are made by the stand-in, with durations divided by 20.

    The lab and the endpoint are ended afterwards, and what they print is the terminal's. Raises LabError where one of
    them does not start, or where the lab is not ended.
    """
    name = f"fis-{secrets.token_hex(2)}"
    if subprocess.call(words("lab", "up", TOPOLOGY, "--name", name)):
        raise LabError(f"the lab {name} did not start", remedy="see what it says above")
    try:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / f"{name}.yaml"
            given = ("fis-endpoint", name, "--target", str(target), "--time-scale", SCALE, "--with-stdin")
            # a terminal's Ctrl-C is for the run, whose undo needs the endpoint
            endpoint = subprocess.Popen(words(*given), stdin=subprocess.PIPE, start_new_session=True)
            try:
                wait_until(lambda: target.exists() or endpoint.poll() is not None, START_SECONDS, every=0.2)
                if not target.exists():
                    raise LabError("the stand-in for AWS FIS did not start", remedy="see what it says above")
                yield target
            finally:
                endpoint.send_signal(signal.SIGTERM)
                endpoint.wait(END_SECONDS)
    finally:
        down = subprocess.call(words("lab", "down", name))
    if down:
        raise LabError(f"the lab {name} was not ended", remedy="opensearch-chaos recover")
