"""Sockets that live in another network namespace.

A socket belongs to the network namespace of the thread that *created* it, for good. So a process reaches into
a lab's hosts without running there: enter, create the socket, leave; connecting happens afterwards and needs
no privilege. This is the one way in which runner, sampler and load driver reach nodes, and it adds no hop
that a fault could touch. See ``setns(2)``: the call changes the calling thread only.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

Socket = socket.socket  # inside Namespace the name `socket` is its method
CLONE_NEWNET = 0x40000000
MS_BIND, MS_REC, MS_SHARED = 4096, 16384, 1 << 20
"""sys/mount.h"""
_libc = ctypes.CDLL(None, use_errno=True)


def discards(at_once: bool) -> tuple[int, int, bytes]:
    """A socket's option: whether its end, its process's too, is a reset that takes back what was not delivered.

    Else the kernel goes on delivering the requests of a process that is dead, minutes later, when a cut network is
    whole again. ``socket(7)``, SO_LINGER.
    """
    return socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", int(at_once), 0)


def _setns(descriptor: int) -> None:
    if _libc.setns(descriptor, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")


def create_namespace(path: Path) -> None:
    """Make a new network namespace and keep it under ``path`` (a bind mount, as iproute2 does it).

    Without a fork: the runner has threads, and a forked child would run its signal handlers. A namespace is made by
    a thread that leaves its own, so a fresh thread does it and ends. Raises ``OSError``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:  # shared, so that other mount namespaces see what is made here; fails while it is no mount of its own
        _mount(None, path.parent, MS_SHARED | MS_REC)
    except OSError:
        _mount(path.parent, path.parent, MS_BIND)  # once: binding it again would double all that is mounted below
        _mount(None, path.parent, MS_SHARED | MS_REC)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))
    failures: list[OSError] = []

    def work() -> None:
        try:
            if _libc.unshare(CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            _mount(Path(f"/proc/self/task/{threading.get_native_id()}/ns/net"), path, MS_BIND)
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=work, name="namespace")
    thread.start()
    thread.join()
    if failures:
        with suppress(OSError):
            path.unlink()
        raise failures[0]


def _mount(source: Path | None, target: Path, flags: int) -> None:
    if _libc.mount(str(source or "none").encode(), str(target).encode(), b"none", flags, None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {target}: {os.strerror(number)}")


class Namespace:
    """A network namespace by the path of its handle, e.g. ``/run/netns/oschaos-ab12-a-data``."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Run the block with the calling *thread* in this namespace. Do not yield to other greenlets inside.

        Raises ``FileNotFoundError`` when the namespace is gone.
        """
        home = os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            there = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _setns(there)
            finally:
                os.close(there)
            try:
                yield
            finally:
                _setns(home)
        finally:
            os.close(home)

    def join(self) -> None:
        """Move the calling *thread* there for good, and with the only one its process. As :meth:`entered` else."""
        there = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _setns(there)
        finally:
            os.close(there)

    def socket(self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> Socket:
        """A new socket in this namespace."""
        with self.entered():
            return socket.socket(family, kind, protocol)

    def connect(self, address: tuple[str, int], timeout: float) -> Socket:
        """A TCP connection from this namespace. ``timeout`` in seconds; raises ``OSError``."""
        return Endpoint(*address, self).connect(timeout)

    @property
    def inode(self) -> int:
        """What ``/proc/<pid>/ns/net`` shows for processes that live here."""
        return self.path.stat().st_ino


@dataclass(frozen=True)
class Endpoint:
    """Where a server is reached from this process: an address, in a network namespace (None: our own)."""

    host: str
    port: int
    namespace: Namespace | None = None

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Run the block where sockets to the address belong. Do not yield to other greenlets inside."""
        if self.namespace is None:
            yield
            return
        with self.namespace.entered():
            yield

    def connect(self, timeout: float) -> Socket:
        """A TCP connection. ``timeout`` in seconds; raises ``OSError``."""
        with self.entered():
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.settimeout(timeout)
            sock.connect(self.address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            with suppress(OSError):
                sock.close()
            raise
        return sock
