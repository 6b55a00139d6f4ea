"""A server's certificate for loopback, by an authority that no machine trusts: one of a secured lab's."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from chaos.definitions import load_topology
from chaos.targets import security
from chaos.targets.wiring import Wiring


@dataclass(frozen=True)
class Authority:
    """``folder`` holds ``ca.pem``. ``served``: for a server on 127.0.0.1, with a certificate of that authority."""

    folder: Path
    served: ssl.SSLContext

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"


def authority(folder: Path) -> Authority:
    """A new one each time."""
    topology = load_topology("3az-secure")
    security.make(folder, Wiring.of("t", topology.nodes, topology.zones))
    made = folder / security.FOLDER
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made / "c-data" / "node.pem", made / "c-data" / "node-key.pem")
    return Authority(made, context)
