"""The load driver as its parent sees it: a process that is told *go* and *stop*, and dies with us.

The driver is locust, in a process of its own: importing locust patches the standard library, which breaks the
TLS of everything that was imported before (locust #2250). Neither locust nor gevent is imported here.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from chaos.base.errors import ChaosError
from chaos.base.paths import ProcessIdentity
from chaos.load.config import DriverConfig
from chaos.load.control import CONTROL

_READY_S = 30.0
AHEAD_S = 4.0
"""How long before rates begin to change a driver must hear of it: it has planned up to two seconds ahead, and may be
late itself."""
SILENT_SECONDS = 10.0
"""The driver speaks every second, from the control group that comes first of all. Ten words missed in a row are no
busy moment any more: it stands still, and what would be recorded from now on is nothing."""
_LISTEN_S = 0.5
_KILLED_S = 10.0
_SCRUBBED = ("LOCUST_", "OTEL_")
"""Environment by which the user's own locust would be configured."""


class DriverError(ChaosError):
    """The load driver did not start, or ended when it should not have."""


class Driver:
    """One load driver process.

    ``config``: what it does. ``log``: the file for what it prints; its last lines go into errors. ``failed`` is told
    once, from a thread, when a driver that was ready cannot write its record, ends unasked, or has given no sign of
    life for ``SILENT_SECONDS``; it must not raise.
    """

    def __init__(self, config: DriverConfig, log: Path, failed: Callable[[str], None] = lambda says: None) -> None:
        self.config = config
        self.log = log
        self._failed: Callable[[str], None] | None = failed
        self._ending = self._mute = False
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._told = threading.Condition()
        self._ready = self._stopped = self._silent = self._to_end = False
        self._error: str | None = None
        self._status: dict[str, Any] = {}

    def start(self, timeout: float = _READY_S) -> None:
        """Start the process and wait until it has probed its targets and stands ready. Seconds.

        Raises :class:`DriverError` with the driver's own words.
        """
        if self._process is not None:
            raise DriverError("this driver has been started before")
        out = Path(self.config.out).absolute()
        out.mkdir(parents=True, exist_ok=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        ours, theirs = socket.socketpair()
        with theirs, open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                cwd=out,  # away from a locust.conf or pyproject.toml of the user
                env=_environment(theirs.fileno(), home=out),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # the terminal's Ctrl-C is for the runner, which then stops us
            )
        self._control = ours
        threading.Thread(target=self._listen, args=(ours.dup(),), name="load-driver", daemon=True).start()
        parent = {
            "pid": os.getpid(),
            "main_thread": threading.current_thread() is threading.main_thread(),
        }
        config = self.config.model_copy(update={"out": out})
        self._tell({"config": config.model_dump(mode="json"), "parent": parent})
        with self._told:
            self._told.wait_for(lambda: self._ready or self._silent or self._error, timeout)
        if not self._ready:
            self.kill()
            raise DriverError(f"the load driver did not get ready: {self._why(f'no word in {timeout:g} s')}")

    def go(self, start_ns: int | None = None) -> int:
        """Let arrivals begin at ``start_ns`` (CLOCK_MONOTONIC; default a tenth of a second from now).

        Returns that time. Raises :class:`DriverError` when the driver is dead.
        """
        start = time.monotonic_ns() + 100_000_000 if start_ns is None else start_ns
        self._tell({"do": "go", "start_ns": start})
        return start

    def begin(self, at_ns: int) -> None:
        """Let rates that change begin to at ``at_ns`` (CLOCK_MONOTONIC), which must be :data:`AHEAD_S` ahead.

        Raises :class:`DriverError` when the driver is dead.
        """
        self._tell({"do": "begin", "at_ns": at_ns})

    @property
    def status(self) -> dict[str, Any]:
        """The driver's last word of itself, at most about a second old; empty before the first.

        ``t`` (ns), ``cpu`` (fraction of a core), ``lag_p99_ms``, ``in_flight``, ``dropped`` (that second),
        ``sent_total``, ``dropped_total``, ``operations`` (name -> ``ok``, ``bad``, ``good``, ``p50_ms``, ``p99_ms`` of
        that second, and ``waiting``, its requests under way), ``in_use`` (client zone -> nodes that its balancer sends
        to).
        """
        return self._status

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def name(self) -> str:
        """Of this process, for people."""
        return self.config.part.name or "driver"

    @property
    def processes(self) -> tuple[Driver, ...]:
        """Every process of this driver: itself."""
        return (self,)

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def ending(self) -> tuple[Callable[[], int | None], Callable[[], bool]]:
        """(Its exit code, None while it lives; whether its end has been asked for), each when it is called."""
        process = self._process
        assert process is not None
        return process.poll, lambda: self._to_end

    @property
    def error(self) -> str | None:
        """Why a driver that ended by itself did so; None while it lives or when it was stopped."""
        if self._process is None or self.alive or self._stopped:
            return None
        return self._why("it ended")

    @property
    def mute(self) -> bool:
        """Whether it has given no sign of life for ``SILENT_SECONDS`` at some time: it will not hear us either."""
        return self._mute

    def cease(self) -> None:
        """Begin no request any more, of checks on data neither, and return at once.

        :meth:`stop` waits for what is sent.
        """
        if self._process is not None and self.alive and not self._stopped:
            self._to_end = self._ending = True
            with suppress(DriverError):
                self._tell({"do": "stop", "at_once": True})

    def stop(self, timeout: float | None = None) -> bool:
        """Stop the load, wait for what is under way and for the end of the process. Idempotent.

        ``timeout`` in seconds; the default leaves every request its own timeout and ten seconds more. True
        when the driver ended in order and its record is whole, False when it was dead or had to be killed:
        arrivals without an outcome are then ``unknown`` in the history.
        """
        if self._process is None:
            return True
        self._to_end |= self.alive  # one that is dead was not asked to
        if timeout is None:
            timeout = self.config.patience_s + 10
        self._ending = True
        if self._mute and not self._stopped:
            self.kill()
            return False
        if self.alive and not self._stopped:
            with suppress(DriverError):
                self._tell({"do": "stop"})
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
        with self._told:  # what it said last may not have been heard yet
            self._told.wait_for(lambda: self._silent, 2)
        self._close()
        return self._stopped

    def kill(self) -> None:
        """End the process at once, one that stands still too. Idempotent. ``alive`` says when the kernel does not."""
        self._ending = True
        if self._process is None:
            return
        self._to_end |= self.alive
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):  # one that waits for a disk dies when the disk answers
            self._process.wait(_KILLED_S)
        self._close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()

    def _command(self) -> list[str]:
        if self.config.part.program == "asyncio":
            return [sys.executable, "-m", "chaos.load.in_asyncio"]
        locustfile = Path(__file__).with_name("locustfile.py")
        grace = str(int(self.config.client.timeout_s) + 2)
        return [
            *(sys.executable, "-m", "locust", "-f", str(locustfile)),
            *("--headless", "--users", "1", "--spawn-rate", "1", "--only-summary"),
            *("--stop-timeout", grace),  # locust's 0 would end requests under way unrecorded
            *("--exit-code-on-error", "0"),  # failed requests are what we are here for
            *("--loglevel", "WARNING"),
        ]

    def _listen(self, control: socket.socket) -> None:
        """Hear every line, count how long there is none, and tell whoever wants to know of the end."""
        idle, rest = 0, b""
        ears = select.poll()
        ears.register(control, select.POLLIN)
        with control, suppress(OSError, ValueError):
            while True:
                # counted in waits of ours, not by the clock: a runner that stood still itself has missed nothing
                if not ears.poll(_LISTEN_S * 1000):
                    idle += self._ready  # until then ``start`` waits, with a limit of its own
                    if idle * _LISTEN_S >= SILENT_SECONDS and not self._mute:
                        self._mute = True
                        self._fail(f"the load driver has given no sign of life for {SILENT_SECONDS:g} s{self._state()}")
                    continue
                if not (heard := control.recv(65536)):
                    break
                idle = 0
                *lines, rest = (rest + heard).split(b"\n")
                for line in lines:
                    self._hear(json.loads(line))
        with self._told:
            self._silent = True
            self._told.notify_all()
        if not self._stopped:
            with suppress(subprocess.TimeoutExpired):  # its exit code is part of why
                if self._process is not None:
                    self._process.wait(_LISTEN_S)
            self._fail(f"the load driver died: {self._why('it ended')}")

    def _fail(self, says: str) -> None:
        """Tell, once, what ended a load that should go on."""
        with self._told:
            if not self._ready or self._ending:
                return
            failed, self._failed = self._failed, None
        if failed is not None:
            failed(says)

    def _state(self) -> str:
        """What the kernel says of a process that says nothing itself."""
        with suppress(OSError, ValueError):
            state = ProcessIdentity.of(self.pid or 0).state()
            return {"T": " (its process is stopped)", "D": " (its process waits for a disk)"}.get(state or "", "")
        return ""

    def _hear(self, message: dict[str, Any]) -> None:
        says = message.pop("says")
        with self._told:
            if says == "status":
                self._status = message
            elif says == "ready":
                self._ready = True
            elif says == "stopped":
                self._stopped = True
            elif says == "error":
                self._error = str(message["error"])
            self._told.notify_all()
        if says == "error":
            self._fail(f"the load driver ended: {message['error']}")

    def _tell(self, message: dict[str, Any]) -> None:
        if self._control is None:
            raise DriverError("the load driver is not running")
        try:
            self._control.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise DriverError(f"the load driver is gone: {self._why('it ended')}") from error

    def _why(self, otherwise: str) -> str:
        if self._error is not None:
            return self._error
        code = self._process.poll() if self._process is not None else None
        try:
            tail = " | ".join(self.log.read_text(errors="replace").strip().splitlines()[-3:])
        except OSError:
            tail = ""
        ended = otherwise if code is None else f"exit code {code}"
        return f"{ended}{': ' + tail if tail else ''} (log: {self.log})"

    def _close(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            with suppress(OSError):
                control.shutdown(socket.SHUT_RDWR)  # wakes the listening thread, which holds a copy
            control.close()


def _environment(control: int, *, home: Path) -> dict[str, str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(_SCRUBBED)}
    environment[CONTROL] = str(control)
    environment["HOME"] = str(home)  # away from ~/.locust.conf; imports do not depend on it, see below
    environment["PYTHONPATH"] = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path if entry)
    return environment
