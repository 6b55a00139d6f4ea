"""The security plugin of a lab: certificates, one user, and the plugin's configuration, made anew for each lab.

All of it lies in ``security`` in the lab's folder, readable by its owner alone, and goes with the lab; nobody is given
more than the paths. The authority's own key is never written: what it has to sign is signed at once. Nodes are known
by certificates that name every address at which they are reached, so whoever connects knows to whom.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection
from datetime import timedelta
from pathlib import Path
from typing import Any

from chaos.base.access import Access
from chaos.base.errors import MissingPrerequisite
from chaos.base.extras import SECURE
from chaos.definitions import Topology
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
EXPIRES = timedelta(seconds=60)
"""How long after it was made a certificate that is to expire does so. The plugin does not start with one that has
(KeyStoreUtils.validateKeyStoreCertificates, 3.4.0), so its nodes must have read it by then; from there on nobody looks.
"""
BCRYPT_ROUNDS = 4
"""The least there is: what protects a password of 256 random bits is its length, and nodes pay for each round."""


def refuse_lacking(topology: Topology) -> None:
    """Raise MissingPrerequisite where a topology's nodes are secured, and this Python cannot make certificates."""
    if topology.security and (missing := SECURE.missing()):
        raise MissingPrerequisite(
            f"{topology.name} has security: true, and certificates need the Python package {missing[0]}",
            remedy=SECURE.install,
        )


def make(lab: Path, wiring: Wiring, expired: Collection[str] = ()) -> None:
    """Write everything into the lab's folder. What clients see of the nodes ``expired`` is good for EXPIRES only."""
    from chaos.targets.certificates import VALID, Authority

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
    import bcrypt

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
