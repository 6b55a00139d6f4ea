"""Ways from addresses on loopback into pods, through the API server: listeners here, a stream for each connection.

They are in a process of their own, one for each file of a target on this machine, which all that use it hold open by a
connection to its socket: a runner, its keeper, a person's ``observe``. The kernel ends a connection with its process,
so the last one's death ends the ways too, :data:`LINGER_SECONDS` later. A pod is found by its name at each connection:
once its controller has made it anew, the next connection comes to the new one.
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from chaos.base import paths
from chaos.base.errors import ChaosError, LabError
from chaos.base.logs import LOG
from chaos.kubernetes.client import Client

PROGRAM = "chaos.kubernetes.forwarding"
START_SECONDS = 20.0
LINGER_SECONDS = 3.0
"""How long it stays without users: one command follows another."""
FREED_SECONDS = LINGER_SECONDS + 2.0
"""Within which ways that a command before this one left behind have ended."""
TAKEN_SECONDS = 10.0
"""That an address is waited for which the last one for another version of the file still has."""
PIECE = 1 << 16
READY = b"ready\n"


@dataclass(frozen=True)
class Ways:
    """``pods``: address on loopback, as HOST:PORT → the pod to whose ``port`` it leads."""

    context: str | None
    kubeconfig: str | None
    namespace: str
    port: int
    pods: Mapping[str, str]

    @property
    def key(self) -> str:
        """Other ways have another one."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]

    def client(self) -> Client:
        return Client(self.context, None if self.kubeconfig is None else Path(self.kubeconfig))


def _listening(host: str, port: int) -> socket.socket:
    """A socket at an address, once an earlier command's ways there have ended. Raises OSError where it stays taken."""
    deadline = time.monotonic() + FREED_SECONDS
    while True:
        try:
            return socket.create_server((host, port), backlog=128)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


# ---- the listeners -----------------------------------------------------------------------------------------------


class Listeners:
    """Take connections at all addresses until :meth:`close`. Raises LabError where an address is taken."""

    def __init__(self, ways: Ways) -> None:
        self._ways, self._client = ways, ways.client()
        self._over = threading.Event()
        self._servers: list[socket.socket] = []
        for address, pod in ways.pods.items():
            host, _, port = address.rpartition(":")
            try:
                server = _listening(host, int(port))
            except OSError as error:
                self.close()
                raise LabError(
                    f"the way to pod {pod} cannot begin at {address}: {error.strerror}",
                    remedy="another program listens there: end it, or write another url of that node",
                ) from None
            self._servers.append(server)
            threading.Thread(target=self._accept, args=(server, pod), daemon=True).start()

    def _accept(self, server: socket.socket, pod: str) -> None:
        while not self._over.is_set():
            try:
                taken, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(taken, pod), daemon=True).start()

    def _carry(self, taken: socket.socket, pod: str) -> None:
        with taken:
            try:
                way = self._client.into(self._ways.namespace, pod, self._ways.port)
            except Exception as error:  # whatever the library raises: this connection ends, the others go on
                LOG.info("%s: %s", pod, error)
                return
            with way:
                carry(taken, way)

    def close(self) -> None:
        self._over.set()
        for server in self._servers:
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            server.close()


def carry(one: socket.socket, other: socket.socket) -> None:
    """Bytes both ways until either side ends. What one side says last reaches the other."""
    with suppress(OSError):
        while True:
            ready, _, _ = select.select([one, other], [], [])
            for source in ready:
                said = source.recv(PIECE)
                if not said:
                    return
                (other if source is one else one).sendall(said)


# ---- who uses them -----------------------------------------------------------------------------------------------

_held: dict[str, socket.socket] = {}
_holding = threading.Lock()


def hold(ways: Ways, folder: Path) -> None:
    """See to it that these ways are open until this process ends. ``folder``: of the target, for socket and log.

    Idempotent. Raises LabError where they cannot be opened, with what the process said.
    """
    with _holding:
        known = _held.get(ways.key)
        if known is not None and _lives(known):
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with paths.locked(folder / "forward.lock"):
                _held[ways.key] = _joined(ways, folder) or _started(ways, folder)
        except OSError as error:
            raise LabError(f"the ways into pods cannot be opened: {error.strerror or error}") from error


def _lives(held: socket.socket) -> bool:
    """Whether who listens is still there: it sends nothing after its first word."""
    try:
        return held.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def _socket(ways: Ways, folder: Path) -> Path:
    return folder / f"forward-{ways.key}.sock"


def _joined(ways: Ways, folder: Path) -> socket.socket | None:
    """A connection to the one that is there; None where there is none."""
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(START_SECONDS)
    try:
        with _at(_socket(ways, folder)) as place:
            made.connect(place)
        if made.recv(len(READY)) == READY:
            made.setblocking(False)  # with a timeout Python waits for it even where MSG_DONTWAIT says not to
            return made
    except OSError:
        pass
    made.close()
    return None


@contextmanager
def _at(path: Path) -> Iterator[str]:
    """A path for a Unix socket, of which the kernel takes 107 bytes: by this folder's descriptor where it is longer."""
    if len(os.fsencode(path)) <= 107:
        yield str(path)
        return
    descriptor = os.open(path.parent, os.O_PATH | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        os.close(descriptor)


def _started(ways: Ways, folder: Path) -> socket.socket:
    log = folder / "forward.log"
    file = folder / f"forward-{ways.key}.json"
    paths.write_json(file, asdict(ways))
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", PROGRAM, str(file), str(_socket(ways, folder))],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if (made := _joined(ways, folder)) is not None:
            return made
        time.sleep(0.05)
    with suppress(ProcessLookupError):
        process.kill()
    process.wait()
    said = log.read_text(errors="replace").strip().splitlines()
    raise LabError(f"the ways into pods cannot be opened: {said[-1] if said else 'no word'} (log: {log})")


def main(arguments: list[str]) -> int:
    """The process itself: open the ways, say ready to each user, end when the last has gone."""
    parser = argparse.ArgumentParser(prog=f"python -m {PROGRAM}")
    parser.add_argument("ways", type=Path)
    parser.add_argument("socket", type=Path)
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: it ends with its users
    ways = Ways(**json.loads(given.ways.read_text()))
    try:
        listeners = _opened(ways)
    except ChaosError as error:
        print(error, flush=True)
        return 1
    given.socket.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        with _at(given.socket) as place:
            server.bind(place)
        os.chmod(given.socket, 0o600)
        server.listen()
        try:
            _serve(server)
        finally:
            given.socket.unlink(missing_ok=True)
            given.ways.unlink(missing_ok=True)
            listeners.close()
    return 0


def _opened(ways: Ways) -> Listeners:
    deadline = time.monotonic() + TAKEN_SECONDS
    while True:
        try:
            return Listeners(ways)
        except LabError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _serve(server: socket.socket) -> None:
    users: list[socket.socket] = []
    empty_since = time.monotonic()
    while users or time.monotonic() - empty_since < LINGER_SECONDS:
        ready, _, _ = select.select([server, *users], [], [], 0.5)
        for each in ready:
            if each is server:
                user, _ = server.accept()
                user.sendall(READY)
                users.append(user)
                continue
            with suppress(OSError):
                if each.recv(64):
                    continue
            users.remove(each)
            each.close()
            empty_since = time.monotonic()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
