"""One measurement on one disk, in a process of its own: a probe that blocks in the kernel must not hold the runner.

Run by path and without site packages (it starts in milliseconds), so it imports nothing of ours. Its only argument is
a JSON object; it says ``started`` and then one line of JSON: what it found, or ``{"errno": …}``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

BLOCK = 4096


def _written(stat: str) -> int:
    """Bytes that the whole device has written so far: field 7 of its ``stat`` counts sectors of 512 bytes."""
    return int(Path(stat).read_text().split()[6]) * 512


def _overwrite(file: str, size: int, count: int, sync: bool) -> None:
    """In place, so that after the first time no block is allocated and no journal is needed: data alone."""
    descriptor = os.open(file, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        for _ in range(count):
            os.pwrite(descriptor, os.urandom(size), 0)
            if sync:
                os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def _sync(file: str) -> None:
    descriptor = os.open(file, os.O_WRONLY)
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def _grow(file: str, size: int) -> None:
    """A new file of this size, on disk; it is taken away again."""
    descriptor = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, os.urandom(size))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
        os.unlink(file)


def _mark(file: str, token: str) -> None:
    """Two parts: one that a power loss must leave, and one, never fsynced, that it must take.

    The second begins a block of its own: what is appended within a block gets on disk with any fsync of any file.
    """
    descriptor = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, f"synced {token}".encode().ljust(BLOCK - 1) + b"\n")
        os.fsync(descriptor)
        folder = os.open(os.path.dirname(file), os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(folder)
        os.close(folder)
        os.write(descriptor, f"unsynced {token}\n".encode())
    finally:
        os.close(descriptor)


def _tidy(folder: str) -> None:
    for each in Path(folder).glob("probe*"):
        each.unlink()


def measure(asked: dict[str, Any]) -> dict[str, Any]:
    """Do what is asked; ``seconds`` is how long that took, ``device_bytes`` what the whole disk wrote meanwhile."""
    if asked.get("procs"):
        Path(asked["procs"]).write_text("0")
    do, file = asked["do"], asked["file"]
    if do not in ("read", "tidy"):
        os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
    before = _written(asked["stat"])
    began = time.monotonic()
    found: dict[str, Any] = {}
    if do == "write":
        _overwrite(file, asked["size"], asked["count"], asked["sync"])
    elif do == "sync":
        _sync(file)
    elif do == "grow":
        _grow(file, asked["size"])
    elif do == "read":
        lines = Path(file).read_bytes()[: 2 * BLOCK].decode(errors="replace").splitlines()
        found["text"] = "".join(f"{line.rstrip()}\n" for line in lines[:2])[:200]
    elif do == "mark":
        _mark(file, asked["token"])
    elif do == "tidy":
        _tidy(os.path.dirname(file))
    found["seconds"] = time.monotonic() - began
    found["device_bytes"] = _written(asked["stat"]) - before
    return found


def main() -> None:
    print("started", flush=True)
    try:
        said = measure(json.loads(sys.argv[1]))
    except OSError as error:
        said = {"errno": error.errno}
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
