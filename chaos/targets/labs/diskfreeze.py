"""Holds one file system frozen, in a process of its own, for as long as its standard input stays open.

The dead man's thaw: whoever wants the freeze holds the other end of the pipe, and the kernel closes that however the
holder dies. Then this process thaws and ends. Without it the threads that wait for the disk would wait for ever, in a
sleep that no signal ends. Run by path and without site packages; it imports nothing of ours.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys

FIFREEZE, FITHAW = 0xC0045877, 0xC0045878
"""linux/fs.h"""


def freeze(mount: str) -> None:
    """Let no write through; nothing to do when it is frozen already. Raises OSError, also where nothing is mounted
    there: the file system would be that of the folder above."""
    if not _ioctl(mount, FIFREEZE, errno.EBUSY):
        raise OSError(errno.ENODEV, "nothing is mounted there", mount)


def thaw(mount: str) -> None:
    """Let writes through again; nothing to do when it is not frozen, or nothing is mounted there. Raises OSError."""
    _ioctl(mount, FITHAW, errno.EINVAL)


def is_mounted(descriptor: int) -> bool:
    """Whether an open folder is where a file system is mounted: the folder above is on another one."""
    return os.fstat(descriptor).st_dev != os.stat("..", dir_fd=descriptor).st_dev


def _ioctl(mount: str, request: int, already: int) -> bool:
    """False where nothing is mounted there, and nothing was done."""
    descriptor = os.open(mount, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not is_mounted(descriptor):
            return False
        fcntl.ioctl(descriptor, request, 0)
    except OSError as error:
        if error.errno != already:
            raise
    finally:
        os.close(descriptor)
    return True


def main() -> None:
    mount = sys.argv[1]
    try:
        freeze(mount)
        print("frozen", flush=True)
        sys.stdin.buffer.read()
    except OSError as error:  # also a holder who died before it could read the answer
        print(f"failed {error.errno}", file=sys.stderr, flush=True)
    finally:
        thaw(mount)


if __name__ == "__main__":
    main()
