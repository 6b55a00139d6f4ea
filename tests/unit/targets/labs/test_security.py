"""A secured lab's certificates and files, and clients that know whom they speak to, on real TLS connections."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import urllib3
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from fakes import PARTS, FakeLab, topology

from chaos.base import extras
from chaos.base.access import PLAIN, Access, distrust
from chaos.base.errors import InvalidInput, MissingPrerequisite
from chaos.base.netsock import Endpoint
from chaos.definitions import load_topology
from chaos.faults.probes import PING, Line, Reply
from chaos.opensearch.rest import NodeClient, opensearch
from chaos.programs.failover.rest import Api
from chaos.registry import FAULTS
from chaos.targets import certificates, security
from chaos.targets.labs import config, provisioning
from chaos.targets.labs.base import BaseLab
from chaos.targets.labs.docker import images
from chaos.targets.wiring import Wiring

TOPOLOGY = topology("3az-secure")
WIRING = Wiring.of("t", TOPOLOGY.nodes, TOPOLOGY.zones)
HERE = "127.0.0.1"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    security.make(folder, WIRING)
    return folder


@pytest.fixture(scope="module")
def stale(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lab's folder in which c-data's certificate for clients expired a second before it was made."""
    folder = tmp_path_factory.mktemp("stale")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(security, "EXPIRES", timedelta(seconds=-1))
        security.make(folder, WIRING, ["c-data"])
    return folder


def certificate(made: Path, path: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((made / security.FOLDER / path).read_bytes())


def names(made: Path, path: str) -> set[str]:
    known = certificate(made, path).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(each.value) for each in known}


def test_a_nodes_certificate_names_every_address_at_which_it_is_reached(made: Path) -> None:
    host = WIRING["c-data"]
    assert names(made, "c-data/node.pem") == {host.loopback, host.bridge_address, HERE, "c-data", "localhost"}
    for path in ("c-data/node.pem", "probe.pem", "admin.pem"):
        certificate(made, path).verify_directly_issued_by(certificate(made, "ca.pem"))
    assert (
        certificate(made, "admin.pem").subject.rfc4514_string()
        in security.settings("t")["plugins.security.authcz.admin_dn"]
    )
    assert (
        certificate(made, "ca.pem").not_valid_after_utc - certificate(made, "ca.pem").not_valid_before_utc
        <= certificates.VALID + 2 * certificates.SKEW
    )


def test_only_the_owner_can_read_any_of_it_and_nobody_has_the_authoritys_key(made: Path) -> None:
    folder = made / security.FOLDER
    for path in [folder, *folder.rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
    keys = [path for path in folder.rglob("*") if path.is_file() and "PRIVATE KEY" in path.read_text()]
    assert len(keys) == len(WIRING.nodes) + 2
    assert all(path.read_text().startswith("-----BEGIN PRIVATE KEY") for path in keys)  # PKCS#8
    authority = certificate(made, "ca.pem").public_key()
    assert authority not in [load_pem_private_key(path.read_bytes(), None).public_key() for path in keys]


def test_the_user_is_known_by_a_hash_and_the_password_is_another_one_each_time(made: Path, tmp_path: Path) -> None:
    files = security.files(made, "a-cm")
    assert {"node.pem", "node-key.pem", "ca.pem", "opensearch-security/config.yml"} <= set(files)
    password = (made / security.FOLDER / "password").read_text().strip()
    user = json.loads(files["opensearch-security/internal_users.yml"])["admin"]
    assert bcrypt.checkpw(password.encode(), user["hash"].encode())
    assert not any(password in text for text in files.values())
    security.make(tmp_path, WIRING)
    assert (tmp_path / security.FOLDER / "password").read_text().strip() != password


def test_what_a_node_is_told() -> None:
    def told(name: str, **parts: Any) -> dict[str, Any]:
        spec = topology(name)
        return config.node_settings(spec, spec.nodes[0], WIRING, replace(PARTS, **parts), Path("d"), Path("l"))

    secured = told("3az-secure", security=True)
    assert secured["plugins.security.ssl.http.enabled"] and "plugins.security.disabled" not in secured
    assert told("3az", security=True)["plugins.security.disabled"] is True
    layers = {layer: f"plugins.security.ssl.{layer}.pemcert_filepath" for layer in ("transport", "http")}
    assert {secured[key] for key in layers.values()} == {"node.pem"}
    spec = topology("3az-secure-expired")
    for node in spec.nodes:
        settings = config.node_settings(spec, node, WIRING, replace(PARTS, security=True), Path("d"), Path("l"))
        assert settings[layers["transport"]] == "node.pem"
        assert settings[layers["http"]] == ("clients.pem" if node.name == "c-data" else "node.pem")
    assert not [key for key in told("3az") if key.startswith("plugins.")]


def test_a_version_without_the_plugin_is_refused_where_the_file_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENSEARCH_HOME", raising=False)
    text = (Path(__file__).parents[4] / "topologies" / "3az-secure.yaml").read_text()
    Path("mine.yaml").write_text(text.replace("3az-secure", "mine").replace("3.4.0", "3.8.0"))
    line = next(number for number, each in enumerate(text.splitlines(), 1) if each.startswith("security:"))
    with pytest.raises(
        InvalidInput, match=rf"mine\.yaml:{line}:1: .*3\.8\.0 has no plugin opensearch-security"
    ) as caught:
        provisioning.parts(load_topology("mine.yaml"))
    assert "3.4.0" in str(caught.value) and caught.value.exit_code == 2


# ---- over TLS -------------------------------------------------------------------------------------------


@contextmanager
def served(
    made: Path, node: str, answer: Callable[[ssl.SSLSocket], None], *, client: bool = False, shows: str = security.NODE
) -> Iterator[int]:
    """A server on loopback with a node's certificate; its port. ``client``: clients need a certificate too."""
    folder = made / security.FOLDER
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / node / f"{shows}.pem", folder / node / f"{shows}-key.pem")
    if client:
        context.load_verify_locations(folder / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED

    def one(raw: socket.socket) -> None:
        with suppress(OSError), context.wrap_socket(raw, server_side=True) as sock:
            answer(sock)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=one, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server((HERE, 0)) as server:
        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def http(seen: list[str]) -> Callable[[ssl.SSLSocket], None]:
    """401 unless there is a password."""

    def answer(sock: ssl.SSLSocket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            if not (more := sock.recv(65536)):
                return
            head += more
        seen.append(head.decode())
        if seen[-1].startswith("POST"):
            sock.recv(65536)
        status = "200 OK" if b"authorization: Basic" in head else "401 Unauthorized"
        body = b'{"version": {"number": "3.4.0", "distribution": "opensearch"}}'
        sock.sendall(
            f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )

    return answer


def test_clients_know_the_node_and_the_node_knows_them(made: Path) -> None:
    seen: list[str] = []
    access = security.access(made)
    password = (made / security.FOLDER / "password").read_text().strip()
    with served(made, "a-data", http(seen)) as port:
        there = Endpoint(HERE, port)
        assert NodeClient(there, access=access).request("GET", "/")[0] == 200
        assert base64.b64encode(f"admin:{password}".encode()).decode() in seen[-1]
        assert (
            NodeClient(there, access=access).request("POST", "/_bulk", body="{}\n")[0] == 200
        )  # has headers of its own
        assert opensearch(there, access=access).info()["version"]["number"] == "3.4.0"
        assert NodeClient(there, access=Access(tls=True, ca=access.ca)).request("GET", "/")[0] == 401
        for stranger in (Access(tls=True), PLAIN):
            with pytest.raises(urllib3.exceptions.HTTPError):
                NodeClient(there, access=stranger, timeout=1).request("GET", "/")
    assert not any(password in repr(each) for each in (access, access.to_json(), access.context))


def test_a_password_that_cannot_be_read_is_said_in_words(made: Path, tmp_path: Path) -> None:
    access = Access(tls=True, ca=security.access(made).ca, user="admin", password=f"file:{tmp_path / 'gone'}")
    with pytest.raises(InvalidInput, match="cannot read the secret"):
        NodeClient(Endpoint(HERE, 1), access=access)


class SecuredLab(FakeLab):
    def __init__(self, made: Path, port: int) -> None:
        super().__init__("3az-secure-expired", "t")
        self.port, self.access, self.transport = port, security.access(made), security.transport(made)

    access_to, connect = BaseLab.access_to, BaseLab.connect
    _dateless = property(BaseLab._dateless.func)

    def endpoint(self, host: str, address: tuple[str, int]) -> Endpoint:
        return Endpoint(HERE, self.port)


def transport(sock: ssl.SSLSocket) -> None:
    """Returns pings and messages as they are."""
    held = b""
    while data := sock.recv(65536):
        held += data
        while held.startswith(PING):
            held = held[len(PING) :]
            sock.sendall(PING)
        while len(held) >= 6 and len(held) >= (length := 6 + int.from_bytes(held[2:6], "big")):
            sock.sendall(held[:length])
            held = held[length:]


def test_a_line_is_answered_by_that_very_node_over_transport_tls(made: Path) -> None:
    with served(made, "c-data", transport, client=True) as port:
        lab = SecuredLab(made, port)
        line = Line(lab, ("a-data", "c-data"))
        echoes = [line.ping(2.0) for _ in range(3)]
        assert [echo.reply for echo in echoes] == [Reply.ANSWERED] * 3
        assert line.flood(100_000, 10.0) is not None
        another = Line(lab, ("a-data", "b-data"))  # the certificate is not b-data's
        assert another.ping(1.0).reply is Reply.UNREACHABLE
        lab.transport = Access(tls=True, ca=lab.access.ca)
        assert Line(lab, ("a-data", "c-data")).ping(1.0).reply is not Reply.ANSWERED


def test_what_ends_or_holds_up_a_handshake_is_told_apart(made: Path) -> None:
    with socket.create_server((HERE, 0)) as server:
        line = Line(SecuredLab(made, server.getsockname()[1]), ("a-data", "c-data"))
        assert line.ping(0.1).reply is Reply.SILENT  # accepted by the kernel, and nobody speaks
        server.accept()[0].close()
        threading.Thread(target=lambda: server.accept()[0].close(), daemon=True).start()
        assert line.ping(1.0).reply in (Reply.CLOSED, Reply.RESET)


def test_a_client_host_asks_over_http_with_the_password(made: Path) -> None:
    seen: list[str] = []
    with served(made, "c-data", http(seen)) as port:
        assert Line(SecuredLab(made, port), ("client-a", "c-data")).ping(2.0).reply is Reply.ANSWERED
    assert "authorization: Basic" in seen[0]


def test_slices_that_would_cut_the_pings_that_prove_them_are_refused_over_tls() -> None:
    params = FAULTS["network.slicer"](links="from node a-data to node c-data", size="64B", delay="10ms")
    assert params.check(topology("3az")) == []
    assert "256B or more" in params.check(TOPOLOGY)[0]


# ---- a certificate that has expired ---------------------------------------------------------------------


def test_only_what_clients_see_of_that_node_expires(stale: Path) -> None:
    shown, other = certificate(stale, "c-data/clients.pem"), certificate(stale, "c-data/node.pem")
    assert other.not_valid_after_utc - shown.not_valid_after_utc >= certificates.VALID
    assert shown.subject == other.subject and names(stale, "c-data/clients.pem") == names(stale, "c-data/node.pem")
    shown.verify_directly_issued_by(certificate(stale, "ca.pem"))
    assert [path.parent.name for path in stale.rglob("clients.pem")] == ["c-data"]
    assert {"clients.pem", "clients-key.pem", "node.pem"} <= set(security.files(stale, "c-data"))


def test_clients_are_told_and_the_lab_still_knows_whom_it_speaks_to(stale: Path) -> None:
    lab = SecuredLab(stale, 0)
    assert lab.access_to("a-data") is lab.access and "dates" not in lab.access.to_json()
    with served(stale, "c-data", http([]), shows=security.CLIENTS) as port:
        lab.port = port
        with pytest.raises(urllib3.exceptions.SSLError) as caught:
            NodeClient(Endpoint(HERE, port), access=lab.access).request("GET", "/")
        assert distrust(caught.value) == "certificate has expired"
        answer = Api(lab.access).ask_at(f"{HERE}:{port}", "GET", "/", timeout=2.0)
        assert (answer.status, answer.says) == (0, "not to be trusted, certificate has expired")
        assert NodeClient(Endpoint(HERE, port), access=lab.access_to("c-data")).request("GET", "/")[0] == 200
        assert Line(lab, ("client-a", "c-data")).ping(2.0).reply is Reply.ANSWERED
        assert Line(lab, ("client-a", "b-data")).ping(2.0).reply is Reply.UNREACHABLE  # dates are all that is spared
        stranger = replace(lab.access_to("c-data"), ca=None)
        with pytest.raises(urllib3.exceptions.SSLError):
            NodeClient(Endpoint(HERE, port), access=stranger).request("GET", "/")
    assert distrust(OSError("something else")) is None


def test_a_secured_lab_without_its_packages_is_refused_before_anything_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    has = extras.find_spec
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "cryptography" else has(name))
    for parts in (provisioning.parts, images.parts):
        with pytest.raises(MissingPrerequisite, match="certificates need the Python package cryptography") as refused:
            parts(load_topology("3az-secure"))
        assert "opensearch-chaos[secure]" in str(refused.value.remedy)
    security.refuse_lacking(load_topology("3az-standby"))  # a lab without security needs none of it
