"""A small program that a lab starts inside a node's control group: it takes memory, or it reads files.

Run by its path and with nothing but the standard library, so that it costs the group next to nothing of its own. It
does nothing before a line arrives on its standard input, because by then it is in the group: pages count where they
are touched first. It ends by itself when its standard input closes, so it never outlives a lab's owner for long.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import sys

STEP = 1 << 20


def take(size: int) -> None:
    """Take ``size`` bytes of memory, all of them touched, and keep them until the input closes."""
    held = []
    for _ in range(size // STEP):
        held.append(bytearray(STEP))
        held[-1][:: mmap.PAGESIZE] = b"x" * len(held[-1][:: mmap.PAGESIZE])
    print(json.dumps({"taken": len(held) * STEP}), flush=True)
    sys.stdin.readline()


def read(path: str, size: int) -> None:
    """Read ``size`` bytes of an empty file twice, page by page, and say how many major faults each time cost.

    Holes take pages of the cache like any other data and need neither disk space nor disk time.
    """
    faults = []
    with open(path, "w+b") as file:
        os.unlink(path)
        os.ftruncate(file.fileno(), size)
        with mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as view:
            view.madvise(mmap.MADV_RANDOM)  # reading ahead would make few faults of many misses
            for _ in range(2):
                before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
                for offset in range(0, size, mmap.PAGESIZE):
                    view[offset]
                faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_majflt - before)
    print(json.dumps({"first": faults[0], "second": faults[1]}), flush=True)


if __name__ == "__main__":
    if not sys.stdin.readline():
        sys.exit(0)
    if sys.argv[1] == "take":
        take(int(sys.argv[2]))
    else:
        read(sys.argv[2], int(sys.argv[3]))
