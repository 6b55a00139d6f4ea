"""One Toxiproxy server, spoken to through toxiproxy-python's API consumer from inside its host.

toxiproxy-python 0.1.1 keeps host and port in class attributes, has no timeout and takes HTTP 500 for success. This
adapter adds an address for each server and the namespace that it is reached in, a hard timeout (deleting a toxic can
hang: Toxiproxy issue 558) and the check of every status. A server that let a deadline pass gets a far shorter one for a
while: an undo of many moves on a host whose Toxiproxy hangs must end, and say so, in seconds.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from toxiproxy.api import APIConsumer, validate_response
from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists
from urllib3.connection import HTTPConnection

from chaos.base.errors import FaultError, Unanswered
from chaos.base.netsock import Endpoint, discards
from chaos.targets.labs import usable
from chaos.targets.wiring import Proxy

TIMEOUT_SECONDS = 4.0
HUNG_TIMEOUT_SECONDS = 0.3
"""The deadline of a server that has just let one pass …"""
HUNG_SECONDS = 30.0
"""… for this long."""
_hung: dict[str, float] = {}
"""Where a server is → until when its server counts as hung (monotonic)."""


def _cause(error: BaseException) -> str:
    """The kernel's own word for it, from under the layers of requests and urllib3."""
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, OSError) and at.strerror:
            return at.strerror.lower()
        at = at.__cause__ or at.__context__
    return type(error).__name__


class _TakenBack(HTTPAdapter):
    """What was not delivered when its process ends is not delivered by the kernel afterwards either."""

    def init_poolmanager(self, *args: Any, **options: Any) -> Any:
        options["socket_options"] = [*HTTPConnection.default_socket_options, discards(True)]
        return super().init_poolmanager(*args, **options)


class _Remote(APIConsumer):  # type: ignore[misc]
    """A server that others run, over a network that may be cut."""

    @classmethod
    def _sent(cls, verb: str, url: str, **options: Any) -> requests.Response:
        with requests.Session() as session:
            session.mount("http://", _TakenBack())
            answer: requests.Response = validate_response(
                session.request(verb, f"http://{cls.host}:{cls.port}{url}", **options)
            )
            return answer

    @classmethod
    def get(cls, url: str, params: Any = None, **options: Any) -> requests.Response:
        return cls._sent("GET", url, params=params, **options)

    @classmethod
    def delete(cls, url: str, **options: Any) -> requests.Response:
        return cls._sent("DELETE", url, **options)

    @classmethod
    def post(cls, url: str, data: Any = None, json: Any = None, **options: Any) -> requests.Response:
        return cls._sent("POST", url, data=data, json=json, **options)


@cache
def _consumer(host: str, port: int, remote: bool) -> type[APIConsumer]:
    """The library keeps its address in class attributes: a class of its own for each address."""
    return type("Consumer", (_Remote if remote else APIConsumer,), {"host": host, "port": port})


def environment(servers: int) -> dict[str, str]:
    """Variables of each of so many Toxiproxies that share this machine.

    A Go program has a scheduler for each processor, and those without work look for some: on few processors that is
    time which the nodes need.
    """
    share = usable.here() // max(1, servers)
    return {"LOG_LEVEL": "warn", "GOMAXPROCS": str(max(1, share))}


class ToxiproxyServer:
    """The Toxiproxy of one host. Every method raises FaultError when the server does not do as told."""

    def __init__(self, host: str, server: Endpoint) -> None:
        self._host, self._server = host, server
        self._consumer = _consumer(*server.address, server.namespace is None)

    def _call(self, verb: str, path: str, **options: Any) -> requests.Response:
        timeout = HUNG_TIMEOUT_SECONDS if _hung.get(self._place, 0.0) > time.monotonic() else TIMEOUT_SECONDS
        try:
            with self._server.entered():
                answer: requests.Response = getattr(self._consumer, verb)(path, timeout=timeout, **options)
        except (NotFound, InvalidToxic, ProxyExists) as error:
            raise FaultError(f"Toxiproxy of {self._host} refused {path}: {error}") from error
        except requests.Timeout as error:
            _hung[self._place] = time.monotonic() + HUNG_SECONDS
            unsent = verb == "get" or isinstance(error, requests.ConnectTimeout)
            raise (FaultError if unsent else Unanswered)(
                f"Toxiproxy of {self._host} does not answer {path} within {timeout:g} s: it hangs"
            ) from error
        except (requests.RequestException, OSError) as error:
            refused = _cause(error) == os.strerror(errno.ECONNREFUSED).lower()
            kind = FaultError if verb == "get" or refused else Unanswered
            raise kind(f"Toxiproxy of {self._host} cannot be reached for {path}: {_cause(error)}") from error
        _hung.pop(self._place, None)
        if answer.status_code >= 400:
            kind = Unanswered if verb != "get" and answer.status_code in (502, 503, 504) else FaultError
            raise kind(f"Toxiproxy of {self._host} answered {answer.status_code} to {path}: {answer.text[:200]}")
        return answer

    def _said(self, path: str, kind: type) -> Any:
        """What a GET is answered: JSON of this kind. Raises FaultError for anything else."""
        answer = self._call("get", path)
        with suppress(ValueError, RecursionError):
            if isinstance(said := answer.json(), kind):
                return said
        raise FaultError(f"Toxiproxy of {self._host} answered {path} with what cannot be read: {answer.text[:100]!r}")

    @property
    def _place(self) -> str:
        space = self._server.namespace
        return f"{space.path if space else ''} {self._server.host}:{self._server.port}"

    @property
    def endpoint(self) -> Endpoint:
        """Where its API listens."""
        return self._server

    def started(self) -> None:
        """It is a new one: nothing is held against it."""
        _hung.pop(self._place, None)

    def serves(self) -> bool:
        """Whether it can still be told what to do: each of its proxies answers, whatever was before.

        Removing a toxic while the other end of a connection dies can lock that proxy for good (issue 558): its link
        waits for the lock that the removal holds, and the removal for the link. All else goes on, ``/version`` too.
        """
        _hung.pop(self._place, None)
        try:
            self.proxies()
        except FaultError:
            return False
        return True

    def version(self) -> str:
        return str(self._said("/version", dict)["version"])

    def populate(self, proxies: list[Proxy]) -> None:
        """Create all these proxies in one request."""
        self._call("post", "/populate", json=[{**asdict(proxy), "enabled": True} for proxy in proxies])

    def proxies(self) -> dict[str, Any]:
        """Name → proxy with its toxics, as the server sees them. Proves nothing about the data path."""
        found: dict[str, Any] = self._said("/proxies", dict)
        return found

    def add_toxic(self, proxy: str, name: str, kind: str, stream: str, attributes: dict[str, Any]) -> None:
        """Add a toxic that holds for every connection (toxicity 1); fine where exactly that one is there already.

        Raises FaultError where another one has its name: that is somebody else's, and is left as it is.
        """
        toxic = {"name": name, "type": kind, "stream": stream, "toxicity": 1.0, "attributes": attributes}
        there = self._toxics(proxy).get(name)
        if there is None:
            self._call("post", f"/proxies/{proxy}/toxics", json=toxic)
        elif not _same(there, toxic):
            raise FaultError(
                f"Toxiproxy of {self._host}: {proxy} has another toxic {name} already: it is left as it is",
                remedy="find out whose it is; names of ours begin with oschaos-",
            )

    def remove_toxic(self, proxy: str, name: str) -> bool:
        """Remove a toxic; whether it was there."""
        if name not in self._toxics(proxy):
            return False
        self._call("delete", f"/proxies/{proxy}/toxics/{name}")
        return True

    def _toxics(self, proxy: str) -> dict[str, dict[str, Any]]:
        return {toxic["name"]: toxic for toxic in self._said(f"/proxies/{proxy}/toxics", list)}

    def set_enabled(self, proxy: str, enabled: bool) -> bool:
        """A disabled proxy refuses new connections and has closed the ones it had. Whether it was otherwise."""
        was = bool(self._said(f"/proxies/{proxy}", dict).get("enabled"))
        self._call("post", f"/proxies/{proxy}", json={"enabled": enabled})
        return was != enabled


def _same(there: dict[str, Any], toxic: dict[str, Any]) -> bool:
    """Toxiproxy adds attributes that were not named, with their defaults."""
    if any(there.get(key) != toxic[key] for key in ("type", "stream")):
        return False
    given = there.get("attributes") or {}
    return all(given.get(key) == value for key, value in toxic["attributes"].items())
