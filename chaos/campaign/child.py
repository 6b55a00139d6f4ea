"""The process that makes one run of a campaign: told by a file, watched by its worker, and gone with it.

It ends in order when its worker dies, by two signs: the kernel's (PR_SET_PDEATHSIG) and the end of its standard
input, which the worker holds open. Either is a SIGTERM to itself, so the run undoes what it did. It inherits the
machine's lock (:mod:`.machine`) and holds it until then.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from chaos.base.errors import ChaosError, Exit
from chaos.base.paths import ProcessIdentity, write_json

if TYPE_CHECKING:
    from chaos.run.options import RunResult

REQUEST, RESULT, LOG = "request.json", "result.json", "child.log"
_PR_SET_PDEATHSIG = 1
Carry = Callable[[Mapping[str, Any], Path], "RunResult"]
"""A run spec as JSON, and the folder that the run's folder goes into → how it ended."""


@dataclass(frozen=True)
class Result:
    """How a child ended. ``run``: the name of the run's folder; None: there is none, and ``why`` says why."""

    run: str | None
    outcome: str
    exit_code: Exit
    clean: bool
    stopped: bool
    why: str
    kind: str = ""
    """The class of the error, where there was one."""

    def write(self, folder: Path) -> None:
        write_json(folder / RESULT, vars(self))

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """None where the child died before it could write one."""
        try:
            data = json.loads((folder / RESULT).read_bytes())
        except (OSError, ValueError):
            return None
        return cls(**{**data, "exit_code": Exit(data["exit_code"])})


def write_request(folder: Path, spec: Mapping[str, Any]) -> None:
    """What a child is told. ``spec``: a run spec as JSON."""
    write_json(folder / REQUEST, {"worker": ProcessIdentity.me().to_json(), "spec": spec})


def serve(carry: Carry) -> int:
    """The child's program: ``PROGRAM FOLDER LOCK``, of which the folder has a request, and LOCK is the descriptor."""
    folder, lock = Path(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(lock, False)  # nodes of a lab that outlive us must not hold it
    request = json.loads((folder / REQUEST).read_bytes())
    _end_with(ProcessIdentity.from_json(request["worker"]))
    try:
        done = carry(request["spec"], folder)
    except ChaosError as error:
        dirty = error.exit_code is Exit.DIRTY
        kind = type(error).__name__
        Result(None, "error", error.exit_code, not dirty, _asked.is_set(), str(error), kind).write(folder)
        return int(error.exit_code)
    Result(
        done.folder.name,
        str(done.findings["outcome"]),
        done.exit_code,
        done.clean,
        done.stopped,
        str(done.findings["summary"]),
    ).write(folder)
    return int(done.exit_code)


_asked = threading.Event()
"""Set when the worker's end was noticed."""


def _end_with(worker: ProcessIdentity) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

    def end() -> None:
        _asked.set()
        os.kill(os.getpid(), signal.SIGTERM)

    def watch() -> None:
        while os.read(0, 1024):
            pass
        end()

    threading.Thread(target=watch, name="worker's end", daemon=True).start()
    if not worker.alive() or os.getppid() != worker.pid:  # it died before the kernel was told
        end()


def worker_of(folder: Path) -> ProcessIdentity:
    """Whose child was told to make a run in a folder. Raises OSError, ValueError and KeyError."""
    return ProcessIdentity.from_json(json.loads((folder / REQUEST).read_bytes())["worker"])
