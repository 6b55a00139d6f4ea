"""Addresses of clusters as people write them: ``https://HOST:PORT``, and nothing else in it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from chaos.base.sigv4 import is_serverless, serverless
from chaos.base.units import Malformed

PORTS = {"http": 80, "https": 443}
REMEDY = "write http://HOST:PORT or https://HOST:PORT"


@dataclass(frozen=True)
class Address:
    """Where a REST API listens."""

    tls: bool
    host: str
    port: int

    def __str__(self) -> str:
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{shown}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """Raises InvalidInput, which never repeats a password that stands in the text."""
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise Malformed("the address cannot be read", remedy=REMEDY) from None
        if "@" in parts.netloc:
            raise Malformed(
                "no user and password in the address: it is written down", remedy="give them beside it, by reference"
            )
        whole = parts.path in ("", "/") and not parts.query and not parts.fragment
        if parts.scheme not in PORTS or not host or not whole or port == 0:
            raise Malformed(f"{text} is no address of a cluster", remedy=REMEDY)
        if is_serverless(host):
            raise serverless(host)
        return cls(parts.scheme == "https", host, port if port is not None else PORTS[parts.scheme])
