"""Whoever reads our lines may go away, and nothing ends for that."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from chaos.base.console import Console, Reporter

PROGRAM = """
import sys
from chaos.base.console import Console, Reporter
reporter = Reporter()
reporter.line("one")
sys.stdin.readline()
for _ in range(3):
    reporter.line("nobody reads this")
    reporter.status("nor this")
reporter.close()
Console().print("to the end")
sys.exit(3)
"""


@pytest.mark.parametrize("both", [False, True], ids=["errors alone", "output too"])
def test_a_reader_that_goes_away_changes_neither_what_is_done_nor_the_exit_code(both: bool) -> None:
    """As ``| head`` does, and Ctrl-C to ``| tee``."""
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if both else subprocess.PIPE,
    )
    assert program.stdin and program.stdout
    lines = program.stderr or program.stdout
    assert b"one" in lines.readline()
    lines.close()
    program.stdin.write(b"go on\n")
    program.stdin.close()
    if not both:
        assert program.stdout.read() == b"to the end\n"
    assert program.wait(20) == 3


def test_a_full_disk_below_our_lines_is_no_failure() -> None:
    full = open("/dev/full", "w", buffering=1)  # noqa: SIM115 - what is left in it cannot be written when it is closed
    reporter = Reporter(console=Console(file=full, soft_wrap=True))
    reporter.line("one")
    reporter.status("two")
    with suppress(OSError):
        full.close()


def test_lines_come_out_while_somebody_reads(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    with open(file, "w") as opened:
        Reporter(console=Console(file=opened, soft_wrap=True)).line("one [not markup]")
    assert file.read_text().endswith("s  one [not markup]\n")
