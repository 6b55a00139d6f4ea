"""The security plugin of a lab: certificates, one user, and the plugin's configuration, made anew for each lab.

All of it lies in ``security`` in the lab's folder, readable by its owner alone, and goes with the lab; nobody is given
more than the paths. The authority's own key is never written: what it has to sign is signed at once. Nodes are known
by certificates that name every address at which they are reached, so whoever connects knows to whom.
"""

from __future__ import annotations

import ipaddress
import json
import secrets
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bcrypt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from chaos.base.access import Access
from chaos.targets.wiring import Wiring

PLUGIN = "opensearch-security"
FOLDER = "security"
CONFIG = "opensearch-security"
"""Where the plugin looks for its configuration, in a node's configuration folder."""
NODE, CLIENTS = "node", "clients"
"""A node's certificate, and the one that it shows to clients where that is another."""
USER = "admin"
PROBE = "probe"
"""A certificate like a node's, for what speaks the transport protocol and is none."""
VALID = timedelta(days=14)
EXPIRES = timedelta(seconds=60)
"""How long after it was made a certificate that is to expire does so. The plugin does not start with one that has
(KeyStoreUtils.validateKeyStoreCertificates, 3.4.0), so its nodes must have read it by then; from there on nobody looks.
"""
SKEW = timedelta(hours=1)
"""How far clocks may differ between who makes a certificate and who reads it."""
BCRYPT_ROUNDS = 4
"""The least there is: what protects a password of 256 random bits is its length, and nodes pay for each round."""


class Authority:
    """Signs certificates of one lab, for as long as this object lives."""

    def __init__(self, lab: str) -> None:
        self._lab = lab
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = self._named("authority", "authority")
        usage = _usage(key_cert_sign=True, crl_sign=True)
        self._certificate = (
            self._begun(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> str:
        return _pem(self._certificate)

    def issue(
        self,
        name: str,
        unit: str,
        addresses: Sequence[str] = (),
        names: Sequence[str] = (),
        valid: timedelta = VALID,
    ) -> tuple[str, str]:
        """A certificate for ``addresses`` (IP) and ``names`` (DNS), and its key in PKCS#8; both as PEM.

        A certificate with neither is a client's.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = self._begun(self._named(name, unit), key.public_key(), valid)
        known = [
            *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses),
            *map(x509.DNSName, names),
        ]
        if known:
            purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
            builder = builder.add_extension(x509.SubjectAlternativeName(known), critical=False)
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return _pem(certificate), secret.decode()

    def _named(self, name: str, unit: str) -> x509.Name:
        parts = ((NameOID.ORGANIZATION_NAME, f"oschaos-{self._lab}"), (NameOID.ORGANIZATIONAL_UNIT_NAME, unit))
        return x509.Name([x509.NameAttribute(oid, text) for oid, text in (*parts, (NameOID.COMMON_NAME, name))])

    def _begun(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, valid: timedelta = VALID
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder(self._name, subject, key, x509.random_serial_number(), now - SKEW, now + valid)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )


def _usage(**allowed: bool) -> x509.KeyUsage:
    every = [
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
        *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    ]
    return x509.KeyUsage(**{name: allowed.get(name, False) for name in every})


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def make(lab: Path, wiring: Wiring, expired: Collection[str] = ()) -> None:
    """Write everything into the lab's folder. What clients see of the nodes ``expired`` is good for EXPIRES only."""
    authority = Authority(wiring.lab)
    password = secrets.token_urlsafe(32)
    written = {"ca.pem": authority.pem, "password": password + "\n"}
    for name, unit in ((USER, USER), (PROBE, "node")):
        written[f"{name}.pem"], written[f"{name}-key.pem"] = authority.issue(name, unit)
    for host in wiring.nodes:
        addresses = (host.loopback, host.bridge_address, "127.0.0.1")
        names = (host.name, "localhost")
        for shown, valid in [(NODE, VALID), *([(CLIENTS, EXPIRES)] if host.name in expired else [])]:
            certificate, key = authority.issue(host.name, "node", addresses, names, valid)
            written |= {f"{host.name}/{shown}.pem": certificate, f"{host.name}/{shown}-key.pem": key}
    written |= {f"{CONFIG}/{name}.yml": json.dumps(content) for name, content in _configuration(password).items()}
    folder = lab / FOLDER
    folder.mkdir(mode=0o700)
    for path, text in written.items():
        file = folder / path
        file.parent.mkdir(mode=0o700, exist_ok=True)
        file.touch(mode=0o600)
        file.write_text(text)


def _configuration(password: str) -> dict[str, dict[str, Any]]:
    """The plugin's own files, by name without suffix (JSON is YAML): basic authentication and one user, who may all."""
    digest = bcrypt.hashpw(password.encode(), bcrypt.gensalt(BCRYPT_ROUNDS)).decode()
    basic = {
        "http_enabled": True,
        "order": 0,
        "http_authenticator": {"type": "basic", "challenge": True},
        "authentication_backend": {"type": "intern"},
    }
    contents: dict[str, tuple[str, dict[str, Any]]] = {
        "config": ("config", {"config": {"dynamic": {"authc": {"basic_internal_auth_domain": basic}}}}),
        "internal_users": ("internalusers", {USER: {"hash": digest, "reserved": True, "backend_roles": [USER]}}),
        "roles": ("roles", {}),
        "roles_mapping": ("rolesmapping", {"all_access": {"backend_roles": [USER]}}),
        "action_groups": ("actiongroups", {}),
        "tenants": ("tenants", {}),
        "nodes_dn": ("nodesdn", {}),
        "allowlist": ("allowlist", {"config": {"enabled": False, "requests": {}}}),
        "audit": ("audit", {"config": {"enabled": False}}),
    }
    return {
        name: {"_meta": {"type": kind, "config_version": 2}} | content for name, (kind, content) in contents.items()
    }


def settings(lab: str, *, expired: bool = False) -> dict[str, Any]:
    """What a node's opensearch.yml says of it. ``expired``: it has another certificate for clients."""
    found: dict[str, Any] = {"plugins.security.ssl.http.enabled": True}
    for layer, file in {"transport": NODE, "http": CLIENTS if expired else NODE}.items():
        found |= {
            f"plugins.security.ssl.{layer}.pemcert_filepath": f"{file}.pem",
            f"plugins.security.ssl.{layer}.pemkey_filepath": f"{file}-key.pem",
            f"plugins.security.ssl.{layer}.pemtrustedcas_filepath": "ca.pem",
        }
    return found | {
        "plugins.security.ssl.transport.resolve_hostname": False,
        "plugins.security.nodes_dn": [f"CN=*,OU=node,O=oschaos-{lab}"],
        "plugins.security.authcz.admin_dn": [f"CN={USER},OU={USER},O=oschaos-{lab}"],
        "plugins.security.allow_default_init_securityindex": True,
    }


OFF = {"plugins.security.disabled": True}
"""What a node's opensearch.yml says where the plugin is there and nobody asked for it."""


def files(lab: Path, node: str) -> dict[str, str]:
    """What goes into a node's configuration folder, by path in it. Holds secrets."""
    folder = lab / FOLDER
    sources = {path.name: path for path in [folder / "ca.pem", *(folder / node).iterdir()]}
    sources |= {f"{CONFIG}/{path.name}": path for path in (folder / CONFIG).iterdir()}
    return {name: path.read_text() for name, path in sources.items()}


def access(lab: Path) -> Access:
    """How the REST API of its nodes is spoken to."""
    folder = lab / FOLDER
    return Access(tls=True, ca=str(folder / "ca.pem"), user=USER, password=f"file:{folder / 'password'}")


def transport(lab: Path, certificate: str = PROBE) -> Access:
    """How a node's transport protocol is spoken; with the certificate of USER, its REST API as who may all."""
    folder = lab / FOLDER
    return Access(
        tls=True,
        ca=str(folder / "ca.pem"),
        certificate=str(folder / f"{certificate}.pem"),
        key=str(folder / f"{certificate}-key.pem"),
    )
