"""The runner and the failover controllers know when they stood still: in processes that are stopped."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from programs.test_pulse import stopped

SECOND = 1_000_000_000
RUNNER = """
from chaos.base.ticks import Ticks
ticks = Ticks()
ticks.start()
taken = lambda: ticks.taken().get("own", [])
"""
CONTROLLER = """
from chaos.programs.failover.watch import Pulse
pulse = Pulse()
pulse.start()
taken = lambda: [(round(start * 1e9), round(end * 1e9)) for start, end in pulse.stood_still()]
"""
ANSWER = """
import json
print("ready", flush=True)
while input():
    print(json.dumps(taken()), flush=True)
"""


@pytest.mark.parametrize("seconds", [0.3, 0.8, 3.0])
@pytest.mark.parametrize("program", [RUNNER, CONTROLLER], ids=["runner", "controller"])
def test_a_process_that_is_stopped_knows_it_afterwards_and_tells_it_once(program, seconds):
    child = subprocess.Popen(
        [sys.executable, "-c", program + ANSWER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None and child.stdout is not None
    with child:
        try:
            assert child.stdout.readline() == "ready\n"

            def told() -> list[list[int]]:
                child.stdin.write("go on\n")
                child.stdin.flush()
                return json.loads(child.stdout.readline())

            with stopped(child.pid, seconds) as moments:
                pass
            begin, end = moments
            found: list[list[int]] = []
            while not any(each[1] >= end for each in found):
                assert time.monotonic_ns() < end + 20 * SECOND, found
                found += told()
            assert any(each[0] <= begin and each[1] - each[0] >= seconds * SECOND for each in found), (
                begin,
                end,
                found,
            )
            assert not any(each[0] <= begin and each[1] >= end for each in told())
        finally:
            child.kill()
