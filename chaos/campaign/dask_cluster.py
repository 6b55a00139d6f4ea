"""A client of a Dask cluster: one in this process, or the one behind an address.

Any program that reaches a scheduler makes its workers run what it likes, and ours are root. So the cluster in this
process opens no port but those of its dashboard, on loopback, which show and take nothing. A scheduler on another
machine is reached by TLS in which both sides have certificates, unless the user says that it is not wanted.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dask
from distributed import Client, LocalCluster, Security

from chaos.base.errors import ChaosError, InvalidInput
from chaos.campaign.dask_order import RESOURCE

LOOPBACK = "127.0.0.1"
DASHBOARD = f"{LOOPBACK}:8787"
"""Of the cluster in this process; where the port is taken, Dask draws another."""
CONNECT_SECONDS = 30
TCP, TLS = "tcp", "tls"


@dataclass(frozen=True)
class Tls:
    """Files of a client of a scheduler. ``off``: the user wants none."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    off: bool = False

    @property
    def given(self) -> dict[str, Path]:
        named = {"--tls-ca": self.ca, "--tls-cert": self.cert, "--tls-key": self.key}
        return {name: file for name, file in named.items() if file is not None}


def check(address: str | None, tls: Tls) -> None:
    """Refuse what is half given, or would let others in. ``address`` None: there is no scheduler elsewhere. Raises
    InvalidInput."""
    if address is None:
        if tls.given or tls.off:
            raise InvalidInput(
                f"{', '.join(tls.given) or '--no-tls'} is for a scheduler that runs elsewhere",
                remedy="give --scheduler tls://HOST:8786 as well, or leave it out",
            )
        return
    scheme, host = _parts(address)
    if scheme == TLS:
        _check_files(tls)
        return
    if tls.given:
        raise InvalidInput(f"{', '.join(tls.given)} beside {address}", remedy=f"write {TLS}://, or leave them out")
    if not tls.off and not _is_loopback(host):
        raise InvalidInput(
            f"{address} is not encrypted, and anybody on its way can run programs as root on its workers",
            remedy=f"use {TLS}:// with --tls-ca, --tls-cert and --tls-key, or --no-tls where you trust that network",
        )


def _parts(address: str) -> tuple[str, str]:
    wrong = InvalidInput(f"--scheduler {address}: expected tls://HOST:PORT, tcp://HOST:PORT or none")
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise wrong from error
    if parts.scheme not in (TCP, TLS) or not parts.hostname or port is None or parts.path or parts.query:
        raise wrong
    return parts.scheme, parts.hostname


def _check_files(tls: Tls) -> None:
    if tls.off:
        raise InvalidInput("--no-tls beside an address of tls://", remedy="leave one of them out")
    wanted = ("--tls-ca", "--tls-cert", "--tls-key")
    if missing := [name for name in wanted if name not in tls.given]:
        raise InvalidInput(
            f"{TLS}:// needs {', '.join(missing)} too: both sides show a certificate",
            remedy="name the authority's certificate, and the client's certificate and key, as PEM",
        )
    for name, file in tls.given.items():
        if not file.is_file():
            raise InvalidInput(f"{name} {file}: there is no such file")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Reached:
    """A cluster in use. ``dashboard``: of Dask, as a link; None: it has none."""

    client: Client
    dashboard: str | None


@contextmanager
def local(name: str) -> Iterator[Reached]:
    """A LocalCluster in this process: one worker with one lab, and a dashboard."""
    settings = {"distributed.scheduler.worker-ttl": None}  # the worker is this process: it cannot be gone alone
    with dask.config.set(settings), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the dashboard's port is taken: its address is printed
        cluster = LocalCluster(
            name=f"{name}-{RESOURCE}",
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            resources={RESOURCE: 1},
            memory_limit=0,
            dashboard_address=DASHBOARD,
            worker_dashboard_address=f"{LOOPBACK}:0",  # without it a worker serves its metrics to everybody
        )
    with cluster, Client(cluster) as client:
        # Dask's own link names this machine's address, where the dashboard does not listen
        dashboard = cluster.scheduler.services.get("dashboard") if cluster.scheduler is not None else None
        link = None if dashboard is None else f"http://{LOOPBACK}:{dashboard.port}/status"
        yield Reached(client, link)


@contextmanager
def at(address: str, tls: Tls) -> Iterator[Reached]:
    """A client of the scheduler at an address that was checked (:func:`check`). Raises ChaosError where it cannot be
    reached, InvalidInput for files that are no certificates."""
    try:
        client = Client(address, timeout=CONNECT_SECONDS, security=_security(tls))
    except (OSError, TimeoutError) as error:
        raise ChaosError(
            f"the scheduler at {address} cannot be reached: {str(error).splitlines()[0]}",
            remedy="see that it runs, and that its certificates are of the same authority",
        ) from error
    with client:
        yield Reached(client, client.dashboard_link)


def _security(tls: Tls) -> Any:
    if not tls.given:
        return None
    made = Security(
        require_encryption=True,
        tls_ca_file=str(tls.ca),
        tls_client_cert=str(tls.cert),
        tls_client_key=str(tls.key),
    )
    try:
        made.get_connection_args("client")
    except OSError as error:
        files = ", ".join(map(str, tls.given.values()))
        raise InvalidInput(f"{files}: no certificates and key as PEM that fit: {error}") from error
    return made
