"""How a cluster's REST API is spoken to: plainly or over TLS, trusting whom, and as whom.

The one place for it: administration, sampling, checks, load, audit and failover controller all take an
:class:`Access`. Secrets stay references (``env:NAME``, ``file:PATH``) and are read when a connection is made, so that
what is written down of an access, in a manifest or a run's folder, never holds one. Of AWS credentials there is not
even a reference: :mod:`chaos.base.sigv4`.
"""

from __future__ import annotations

import base64
import os
import socket
import ssl
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from chaos.base.errors import InvalidInput
from chaos.base.sigv4 import Signer, SigV4, on_wire
from chaos.base.text import one_line

REFERENCES = "env:NAME or file:PATH"
NO_CHECK_TIME = ssl.VerifyFlags(0x200000)
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL (x509_vfy.h), which Python does not name."""


def secret(reference: str) -> str:
    """What a reference stands for. Raises InvalidInput, which never holds the secret."""
    kind, _, name = reference.partition(":")
    if kind == "env" and name:
        value = os.environ.get(name)
        if value is None:
            raise InvalidInput(f"the environment has no {name}", remedy="set it, or name another reference")
        return value
    if kind == "file" and name:
        try:
            return Path(name).read_text().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not text"
            raise InvalidInput(f"cannot read the secret in {name}: {reason}", remedy="name a file with it") from error
    raise InvalidInput("a secret is given by reference only", remedy=f"write {REFERENCES}")


def distrust(error: BaseException) -> str | None:
    """Why a server's certificate was not taken, in OpenSSL's words ("certificate has expired"); None: that was not it.

    Understands the standard library's error, alone or in urllib3's.
    """
    for each in (error, error.__cause__, *error.args):
        if isinstance(each, ssl.SSLCertVerificationError):
            return str(getattr(each, "verify_message", each))  # only OpenSSL's own have one
    return None


def mend(why: str) -> str:
    """What to do about a certificate that was not taken for this reason (:func:`distrust`)."""
    if "mismatch" in why:
        return "give the name that is in the certificate: --tls-name, or access.tls_name in a target's file"
    return "name its authority: --ca, or access.ca in a target's file"


NO_CLUSTER = "_na_"
"""The UUID that a node says which is in no cluster yet."""


@dataclass(frozen=True)
class Whose:
    """Which cluster is meant, and which of its nodes. A copied machine keeps its UUID, so all must be right.

    ``node``: the only one that may answer; None: any of them, as behind a load balancer.
    """

    uuid: str
    name: str
    node: str | None = None

    def refuses(self, status: int, said: Any) -> str | None:
        """Why what was answered to ``GET /`` is the word of another cluster, or of another node; None where that is not
        known to be so. A node that is in no cluster yet has its cluster's name and its own all the same."""
        if status == 401:
            return "who answers there knows neither this user nor this password"
        if status != 200 or not isinstance(said, dict):
            return None
        uuid, name, node = (said.get(key) for key in ("cluster_uuid", "cluster_name", "name"))
        if name != self.name or uuid not in (self.uuid, NO_CLUSTER):
            return f"another cluster answers there: {one_line(str(name))}, {one_line(str(uuid))}"
        if self.node is not None and node != self.node:
            return f"another node answers there: {one_line(str(node))}, and not {one_line(self.node)}"
        return None


@dataclass(frozen=True)
class Access:
    """``password`` is a reference. ``ca``, ``certificate`` and ``key`` are PEM files; without ``ca`` the system's.

    ``tls_name``: the name that certificates must have, whatever address is spoken to; None: the address's own.
    ``dates`` False: a server's certificate may have expired; who signed it and whose it is must be right all the same.
    ``sigv4``: every request is signed for AWS, instead of a user's name. ``whose``: the only cluster, or node of it,
    that is spoken to; where another one answers, that is as if nobody took a connection. None: whoever answers.
    """

    tls: bool = False
    ca: str | None = None
    verify: bool = True
    dates: bool = True
    tls_name: str | None = None
    user: str | None = None
    password: str | None = None
    certificate: str | None = None
    key: str | None = None
    sigv4: SigV4 | None = None
    whose: Whose | None = None

    def __post_init__(self) -> None:
        if (self.user is None) != (self.password is None):
            raise InvalidInput("a user and the reference to a password belong together", remedy="give both")
        if self.user is not None and self.sigv4 is not None:
            raise InvalidInput("a request is a user's or signed for AWS, not both", remedy="leave one out")
        if self.key is not None and self.certificate is None:
            raise InvalidInput("a key without its certificate", remedy="give the certificate too")
        named = [each for each in (self.ca, self.certificate, self.tls_name) if each is not None]
        if not self.tls and (named or not (self.verify and self.dates)):
            raise InvalidInput("certificates mean TLS", remedy="use https")
        if self.tls_name is not None and not self.verify:
            raise InvalidInput("a name that no certificate is checked for", remedy="leave one of them out")
        if self.password is not None and self.password.partition(":")[0] not in ("env", "file"):
            raise InvalidInput("a password is given by reference only", remedy=f"write {REFERENCES}")

    @property
    def scheme(self) -> str:
        return "https" if self.tls else "http"

    def headers(self) -> dict[str, str]:
        """Those that every request carries alike; a signature is none of them (:meth:`signed`).

        Raises InvalidInput when the password cannot be read.
        """
        if self.user is None or self.password is None:
            return {}
        both = f"{self.user}:{secret(self.password)}".encode()  # UTF-8, as the security plugin reads it
        return {"authorization": f"Basic {base64.b64encode(both).decode()}"}

    def only(self, node: str) -> Access:
        """The same, for one node of the cluster that it is for; where it is for whoever answers, it stays so.

        Credentials and TLS context are shared: each context reads the CA certificates, 28 ms of processor time.
        """
        if self.whose is None:
            return self
        made = replace(self, whose=replace(self.whose, node=node))
        made.__dict__.update(context=self.context, signer=self.signer)
        return made

    @cached_property
    def signer(self) -> Signer | None:
        """What signs the requests, with one set of credentials for all of them."""
        return None if self.sigv4 is None else Signer(self.sigv4)

    def signed(
        self, method: str, server: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[str, dict[str, str]]:
        """The target and the headers with which one request is sent to ``server`` (``https://host:port``), and to
        nobody else: what was given, or with ``sigv4`` as it is signed. ``target``: path and query.

        Raises InvalidInput when there are no credentials, MissingPrerequisite without boto3.
        """
        if self.signer is None:
            return target, dict(headers or {})
        target = on_wire(target)
        return target, self.signer(method, server + target, body, headers)

    def check(self) -> None:
        """Read all that it takes, before anything is asked. Raises InvalidInput when that cannot be."""
        self.headers()
        _ = self.context
        if self.signer is not None:
            self.signer.check()

    @cached_property
    def context(self) -> ssl.SSLContext | None:
        """The TLS context of all its connections; None without TLS. Made when it is first asked for, because one that
        is made before gevent patches the standard library never works after. Raises InvalidInput when a file of it
        cannot be used."""
        if not self.tls:
            return None
        context = ssl.create_default_context()
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if not self.dates:
            context.verify_flags |= NO_CHECK_TIME
        self._use("CA certificates", self.ca, lambda file: context.load_verify_locations(cafile=file))
        self._use("client certificate", self.certificate, lambda file: context.load_cert_chain(file, self.key))
        return context if self.tls_name is None else _asking_for(self.tls_name, context)

    def of_pool(self) -> dict[str, Any]:
        """What urllib3's connections and pools of them are told beside the address."""
        return {"ssl_context": self.context} if self.tls else {}

    def of_client(self) -> dict[str, Any]:
        """What opensearch-py's clients are told beside their hosts."""
        known: dict[str, Any] = {"headers": self.headers()} if self.user is not None else {}
        if self.signer is not None:
            known["http_auth"] = self.signer  # of our own connections, which send what it signs
        return {**known, "use_ssl": True, **self.of_pool()} if self.tls else known

    def secured(self, sock: socket.socket, server: str) -> socket.socket:
        """A connection as this access speaks over it: as it is, or TLS once the other side has proven to be ``server``.

        The handshake has the socket's own timeout. Raises OSError, and the connection is closed then.
        """
        return sock if self.context is None else self.context.wrap_socket(sock, server_hostname=server)

    @staticmethod
    def _use(what: str, file: str | None, load: Any) -> None:
        if file is None:
            return
        try:
            load(file)
        except (OSError, ssl.SSLError) as error:
            raise InvalidInput(f"cannot use {file} as {what}: {error}", remedy="name PEM files that fit") from error

    def to_json(self) -> dict[str, Any]:
        """Without a secret in it; only what differs from the default."""
        default = asdict(PLAIN)
        return {name: value for name, value in asdict(self).items() if value != default[name]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Access:
        sigv4, whose = data.get("sigv4"), data.get("whose")
        made = {"sigv4": sigv4 and SigV4(**sigv4), "whose": whose and Whose(**whose)}
        return cls(**{**data, **made})


def _asking_for(name: str, context: ssl.SSLContext) -> ssl.SSLContext:
    """The same context, which asks each server for the certificate of this name, and takes no other, whatever address
    was connected to: urllib3, http.client and asyncio all hand the address over as the name."""
    own: Any = type(context)  # gevent's, where it has patched the standard library

    class Asking(own):  # type: ignore[misc]
        def wrap_socket(self, *given: Any, server_hostname: Any = None, **more: Any) -> Any:
            return super().wrap_socket(*given, server_hostname=name, **more)

        def wrap_bio(self, *given: Any, server_hostname: Any = None, **more: Any) -> Any:
            return super().wrap_bio(*given, server_hostname=name, **more)

    context.__class__ = Asking
    return context


PLAIN = Access()
