"""The layer through which HTTP requests to one host of a lab pass: mitmproxy, its rules, and its record of them.

Rules are a file in the lab's folder that is replaced as a whole under a lock, so a move is one atomic write, the same
from any process, whatever has died; :mod:`chaos.targets.http_addon` says what is in it, and in the record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from chaos.base import paths
from chaos.base.errors import FaultError
from chaos.provision import mitmproxy
from chaos.targets import http_addon
from chaos.targets.wiring import HTTP, SERVICE, Wiring

ADDON = Path(http_addon.__file__)
WHAT = "http"
"""As processes, logs and files of a lab name it."""


class HttpLayer:
    """One host's. It knows no process: a lab starts :meth:`command` in the host."""

    def __init__(self, lab: Path, wiring: Wiring, host: str, tls: Path | None = None) -> None:
        """``tls``: the folder with authority and certificates of a secured lab; None where nodes speak without."""
        self._wiring, self._host = wiring, wiring[host]
        self._secured = None if tls is None or self._host.kind == "service" else tls
        self._folder = lab / "run" / f"{WHAT}-{host}"
        self._rules, self._lock = self._folder / "rules.json", self._folder / ".rules.lock"
        self.record = lab / "logs" / f"{WHAT}-{host}.log"

    def prepare(self) -> None:
        """Write down what it reads when it begins. Rules that are there already stay: it may be started anew."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        if not self._rules.exists():
            paths.write_atomically(self._rules, "[]")
        told = {"rules": str(self._rules), "record": str(self.record), "peers": self._wiring.entrances(self._host.name)}
        paths.write_atomically(self._folder / "configuration.json", json.dumps(told))
        if self._secured is not None:
            shown = self._secured / self._host.name
            both = (shown / "node.pem").read_text() + (shown / "node-key.pem").read_text()
            paths.write_atomically(self._folder / "certificate.pem", both)
            (self._folder / "certificate.pem").chmod(0o600)

    def command(self) -> list[str]:
        """Each opener has a port of its own; the host's own process is asked at its loopback address."""
        port = SERVICE if self._host.kind == "service" else HTTP
        scheme = "https" if self._secured is not None else "http"
        server = f"reverse:{scheme}://{self._host.loopback}:{port}"
        words = ["--quiet", "--scripts", str(ADDON)]
        for entrance in self._wiring.entrances(self._host.name):
            words += ["--mode", f"{server}@{self._host.bridge_address}:{entrance}"]
        options = {"keep_host_header": "true", "connection_strategy": "lazy", "http2": "false"}
        options |= {"confdir": str(self._folder), "flow_detail": "0"}
        if self._secured is not None:
            words += ["--certs", f"*={self._folder / 'certificate.pem'}"]
            options["ssl_verify_upstream_trusted_ca"] = str(self._secured / "ca.pem")
        return mitmproxy.command(
            *words, *(word for name, value in options.items() for word in ("--set", f"{name}={value}"))
        )

    def environment(self, folder: str) -> dict[str, str]:
        """``folder``: where mitmproxy is."""
        told = {http_addon.CONFIGURATION: str(self._folder / "configuration.json")}
        return mitmproxy.environment(Path(folder), self._folder) | told

    # ---- rules ----------------------------------------------------------------------------------

    def rules(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self._rules.read_text())
        return found

    def add(self, rule: Mapping[str, Any]) -> None:
        """From now on requests that begin meet this rule. Fine where exactly it is there already.

        Raises FaultError where another one has its id, or where there is no layer.
        """

        def with_it(rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
            same = [each for each in rules if each["id"] == rule["id"]]
            if same and same != [rule]:
                raise FaultError(f"the HTTP layer of {self._host.name} has another rule {rule['id']} already")
            return rules if same else [*rules, dict(rule)]

        self._change(with_it)

    def remove(self, id: str) -> bool:
        """No request meets it any more, and those that hang by it end; whether it was there."""
        before = self._change(lambda rules: [each for each in rules if each["id"] != id])
        return any(each["id"] == id for each in before)

    def _change(self, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> list[dict[str, Any]]:
        """The rules before it."""
        try:
            with paths.locked(self._lock):
                before = self.rules()
                if (after := change(before)) != before:
                    paths.write_atomically(self._rules, json.dumps(after))
                return before
        except (OSError, ValueError) as error:
            raise FaultError(f"the rules of the HTTP layer of {self._host.name} cannot be changed: {error}") from error
