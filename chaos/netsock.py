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
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
from opensearchpy import OpenSearch
from opensearchpy.connection import Urllib3HttpConnection
from urllib3.connection import HTTPConnection, HTTPSConnection

from chaos.access import PLAIN, Access

Socket = socket.socket  # inside Namespace the name `socket` is its method
CLONE_NEWNET = 0x40000000
MS_BIND, MS_REC, MS_SHARED = 4096, 16384, 1 << 20
"""sys/mount.h"""
_libc = ctypes.CDLL(None, use_errno=True)


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


def connection_class(namespace: Namespace | None, *, tls: bool = False) -> type[HTTPConnection]:
    """An urllib3 connection class whose sockets are created in ``namespace`` (None: where we are)."""
    kind: type[HTTPConnection] = HTTPSConnection if tls else HTTPConnection
    if namespace is None:
        return kind
    there: Namespace = namespace

    class NamespacedConnection(kind):  # type: ignore[misc, valid-type]
        def _new_conn(self) -> Socket:
            # the same translation of errors as urllib3's own, which this overrides
            try:
                with there.entered():
                    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                timeout = self.timeout
                if isinstance(timeout, int | float):
                    sock.settimeout(timeout)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                try:
                    sock.connect((self._dns_host, self.port))
                except BaseException:
                    sock.close()
                    raise
                return sock
            except TimeoutError as error:
                raise urllib3.exceptions.ConnectTimeoutError(
                    self, f"connecting to {self.host} timed out after {self.timeout} s"
                ) from error
            except OSError as error:
                raise urllib3.exceptions.NewConnectionError(self, f"cannot connect: {error}") from error

    return NamespacedConnection


class Client:
    """A small JSON-over-HTTP client of one server, each request with a deadline of its own, no retries.

    For probes, sampling and administration over the direct path; load goes through opensearch-py.
    Thread-safe. ``timeout`` is for each connect and read, in seconds. Raises InvalidInput when secrets or files of
    ``access`` cannot be read.
    """

    def __init__(self, server: Endpoint, *, access: Access = PLAIN, timeout: float = 5.0) -> None:
        self._headers = access.headers()
        kind = urllib3.HTTPSConnectionPool if access.tls else urllib3.HTTPConnectionPool
        self._pool = kind(
            *server.address,
            maxsize=4,
            retries=False,
            timeout=urllib3.Timeout(connect=timeout, read=timeout),
            headers=self._headers,
            **access.of_pool(),
        )
        self._pool.ConnectionCls = connection_class(server.namespace, tls=access.tls)  # type: ignore[assignment]

    def request(self, method: str, path: str, *, body: Any = None, timeout: float | None = None) -> tuple[int, Any]:
        """Status and decoded JSON body (text when it is none). Raises ``urllib3.exceptions.HTTPError``."""
        options: dict[str, Any] = {} if body is None else {"json": body}
        if isinstance(body, bytes | str):
            options = {"body": body, "headers": {**self._headers, "Content-Type": "application/x-ndjson"}}
        if timeout is not None:
            options["timeout"] = urllib3.Timeout(connect=timeout, read=timeout)
        answer = self._pool.request(method, path, **options)
        try:
            return answer.status, answer.json() if answer.data else None
        except ValueError:
            return answer.status, answer.data.decode(errors="replace")

    def close(self) -> None:
        self._pool.close()


def opensearch(server: Endpoint, *, access: Access = PLAIN, timeout: float = 60.0) -> OpenSearch:
    """An opensearch-py client of one node, over the same direct path; no retries."""

    class DirectConnection(Urllib3HttpConnection):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.pool.ConnectionCls = connection_class(server.namespace, tls=access.tls)

    return OpenSearch(
        hosts=[{"host": server.host, "port": server.port}],
        connection_class=DirectConnection,
        timeout=timeout,
        max_retries=0,
        **access.of_client(),
    )


__all__ = ["Client", "Endpoint", "Namespace", "connection_class", "opensearch"]
