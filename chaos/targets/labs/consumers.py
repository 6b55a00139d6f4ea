"""Processes that take memory or read files beside a node, in its control group: each runs :mod:`.consumer`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from chaos.base.errors import LabError
from chaos.targets.labs import consumer

EXHAUSTED_ROOM = 32 << 20
"""Bytes between what a node holds and the limit that kills it; a process beside it takes twice as much."""


class Consumers:
    """``place`` puts a process (its pid) into the node's group, before it takes anything."""

    def __init__(self, place: Callable[[int], None]) -> None:
        self._place = place

    @contextmanager
    def take(self, size: int) -> Iterator[None]:
        """So many bytes of memory are taken, for the time of the block."""
        with self._running("take", str(size)):
            yield

    def read(self, path: Path, size: int) -> int:
        """Read ``size`` bytes of a file that does not exist twice; major faults of the second time."""
        with self._running("read", str(path), str(size)) as child:
            assert child.stdout is not None
            answer = child.stdout.readline()
        try:
            return int(json.loads(answer)["second"])
        except (ValueError, KeyError) as error:
            raise LabError(f"reading files beside a node failed: {answer[:200]!r}") from error

    @contextmanager
    def _running(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """A process in the node's group; the kernel is asked to spare it.

        As root: the interpreter of a virtual environment may lie where others cannot read.
        """
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", consumer.__file__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            start_new_session=True,
        )
        assert child.stdin is not None and child.stdout is not None
        try:
            self._place(child.pid)
            with suppress(OSError):  # needs CAP_SYS_RESOURCE; without, it is spared for being the smaller one
                Path(f"/proc/{child.pid}/oom_score_adj").write_text("-1000")
            with suppress(BrokenPipeError):
                child.stdin.write(b"go\n")
                child.stdin.flush()
            yield child
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
            with suppress(BrokenPipeError):
                child.stdin.close()
