"""Services of a lab: what a topology says of them, what nodes are told, and over which links they are reached."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import PARTS, FakeLab, topology
from storekit import opened

from chaos.base.errors import InvalidInput, MissingPrerequisite
from chaos.base.units import Malformed
from chaos.definitions import LinkSelector, Topology, load_topology, resolve_links
from chaos.definitions.topology import Service
from chaos.faults.kinds.network import NetworkBandwidth, NetworkLatency, pairs_both, pairs_opened, spoken, untouched
from chaos.faults.probes import Line
from chaos.observe import proof
from chaos.provision import s3
from chaos.targets import keystore, services
from chaos.targets.labs import config, kinds, provisioning
from chaos.targets.labs.base import BaseLab
from chaos.targets.wiring import Wiring

REMOTE, SHARED = topology("3az-remote-store"), topology("3az-remote-fs")
WIRING = Wiring.of("t", REMOTE.nodes, REMOTE.zones, REMOTE.service_hosts)


def test_a_keystore_holds_its_entries_and_a_seed_and_no_secret_in_plain_text() -> None:
    entries = {"s3.client.default.access_key": "AKIA", "s3.client.default.secret_key": "schlüssel"}
    made = keystore.keystore(entries)
    found = opened(made)
    assert found.pop("keystore.seed") and found == entries
    assert b"AKIA" not in made and keystore.keystore(entries) != made


def test_a_service_is_named_by_its_kind_alone_or_in_full_and_stands_in_the_normal_form_where_there_is_one() -> None:
    assert REMOTE.services == {"store": Service(kind="s3")} and REMOTE.service_hosts == ("store",)
    assert SHARED.services == {"store": Service(kind="fs")} and SHARED.service_hosts == ()
    assert REMOTE.remote_store is not None and (REMOTE.remote_store.service, REMOTE.remote_store.state) == (
        "store",
        False,
    )
    assert Topology.from_json(REMOTE.to_json()) == REMOTE
    assert not {"services", "remote_store"} & set(topology("3az").to_json())


def test_indices_of_remote_backed_storage_copy_segments_whatever_is_said_of_them() -> None:
    assert REMOTE.segments({}) and SHARED.segments({"replication.type": "DOCUMENT"})


def written(tmp_path: Path, old: str, new: str) -> Path:
    text = Path(REMOTE.file or "").read_text()
    assert old in text
    file = tmp_path / "3az-remote-store.yaml"
    file.write_text(text.replace(old, new))
    return file


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("services: {store: s3}", "services: {store: gcs}", r":13:.*gcs"),
        (
            "services: {store: s3}",
            "services: {a-data: s3}",
            r"the name a-data would mean this and a node of group data",
        ),
        ("services: {store: s3}", "services: {store: s3, other: s3}", r":13:.*other is a second service of kind s3"),
        ("remote_store: store", "remote_store: stor", r":14:.*there is no service stor.*store"),
        ("services: {store: s3}\n", "", r"there is no service store: expected services: {store: s3}"),
        ("refresh_interval: 1s", "replication.type: DOCUMENT", r"DOCUMENT: on remote-backed storage .* SEGMENT"),
        ("remote_store: store", "remote_store: {service: store, cluster: true}", r'unknown key "cluster"'),
        ("remote_store: store", "remote_store: {service: store, publication: true}", r"expected state: true beside it"),
    ],
)
def test_what_no_lab_could_be_made_of_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        load_topology(written(tmp_path, old, new))


def settings_of(of: Topology, node: str = "a-data") -> dict[str, object]:
    wiring = Wiring.of("t", of.nodes, of.zones, of.service_hosts)
    address = f"{wiring['store'].loopback}:9000" if of.service_hosts else ""
    places = [services.Place("store", address, Path("/lab/services/store"))]
    return config.node_settings(of, of.node(node), wiring, PARTS, Path("/data"), Path("/logs"), places)


def test_nodes_are_told_where_an_object_store_is_and_no_secret() -> None:
    made = settings_of(REMOTE)
    store = "node.attr.remote_store"
    assert {made[f"{store}.{part}.repository"] for part in ("segment", "translog", "state")} == {"store"}
    assert made[f"{store}.repository.store.type"] == "s3"
    assert made[f"{store}.repository.store.settings.bucket"] == "store"
    assert made[f"{store}.repository.store.settings.server_side_encryption_type"] == "bucket_default"
    assert made["s3.client.default.endpoint"] == "http://127.0.10.2:9000"
    assert not [key for key in made if "secret" in key or "access_key" in key]
    assert "cluster.remote_store.state.enabled" not in made and "path.repo" not in made
    assert (
        made == settings_of(REMOTE, "a-data") and settings_of(REMOTE, "b-cm")[f"{store}.repository.store.type"] == "s3"
    )


def test_nodes_are_told_of_a_folder_and_of_the_state_where_it_is_asked_for(tmp_path: Path) -> None:
    made = settings_of(SHARED)
    assert made["path.repo"] == ["/lab/services/store"]
    assert made["node.attr.remote_store.repository.store.settings.location"] == "/lab/services/store"
    assert not [key for key in made if key.startswith("s3.")]
    file = written(tmp_path, "remote_store: store", "remote_store: {service: store, state: true}")
    made = settings_of(load_topology(file))
    assert made["cluster.remote_store.state.enabled"] is True
    assert not [key for key in made if "publication" in key or "routing_table" in key]


def test_nodes_are_told_to_fetch_states_where_it_is_asked_for() -> None:
    made = settings_of(load_topology("3az-remote-publication"))
    assert made["cluster.remote_store.publication.enabled"] is made["cluster.remote_store.state.enabled"] is True
    assert made["node.attr.remote_store.routing_table.repository"] == "store"


def test_a_service_without_remote_backed_storage_is_no_repository_yet(tmp_path: Path) -> None:
    made = settings_of(load_topology(written(tmp_path, "remote_store: store\n", "")))
    assert "s3.client.default.endpoint" in made and not [key for key in made if "remote_store" in key]


def test_credentials_are_alike_on_all_nodes_and_in_their_keystores_alone(tmp_path: Path) -> None:
    class Bare(BaseLab):
        def __init__(self) -> None:
            self.topology, self.wiring, self.folder = REMOTE, WIRING, tmp_path

        manifest = type("Manifest", (), {"parts": type("Parts", (), {"of": staticmethod(lambda version: PARTS)})})()

    Bare.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
    lab = Bare()  # type: ignore[abstract]
    files = [lab._configuration(REMOTE.node(name), tmp_path, tmp_path) for name in ("a-data", "b-cm")]
    kept = [opened(bytes(each["opensearch.keystore"])) for each in files]  # type: ignore[arg-type]
    secret = kept[0]["s3.client.default.secret_key"]
    assert len(secret) >= 30 and kept[1]["s3.client.default.secret_key"] == secret
    assert all(secret not in str(each["opensearch.yml"]) for each in files)
    config.write(tmp_path / "config", files[0], 0)
    assert (tmp_path / "config" / "opensearch.keystore").stat().st_mode & 0o777 == 0o600


def test_nodes_speak_to_a_service_over_links_of_their_own_and_clients_do_not() -> None:
    assert {host.name: host.zone for host in WIRING.services} == {"store": ""}
    for node in WIRING.nodes:
        assert [place.stream for place in WIRING.toxified(node.name, "store")] == ["upstream"]
        assert [(place.host, place.stream) for place in WIRING.toxified("store", node.name)] == [
            (node.name, "downstream")
        ]
        assert WIRING.carried(node.name, "to-store-service") == [(node.name, "store")]
    assert WIRING.toxified("client-a", "store") == [] and WIRING.toxified("store", "client-a") == []
    assert WIRING.carried("store", "in-service") == [(node.name, "store") for node in WIRING.nodes]
    (listens,) = WIRING.proxies(WIRING["store"])
    assert listens.upstream == f"{WIRING['store'].loopback}:9000"
    assert [proxy.upstream for proxy in WIRING.proxies(WIRING["a-data"]) if proxy.name == "to-store-service"] == [
        listens.listen
    ]


def links(text: str) -> frozenset[tuple[str, str]]:
    found = resolve_links(LinkSelector.parse(text), REMOTE.nodes, REMOTE.zones, REMOTE.service_hosts)
    return spoken(WIRING, found)


def test_links_name_a_service_as_they_name_nodes() -> None:
    assert links("from node a-data to service store") == {("a-data", "store")}
    assert links("between zone c and service store") == {
        *(("c-cm", "store"), ("c-data", "store"), ("store", "c-cm"), ("store", "c-data"))
    }
    assert len(links("to service store")) == 6 and all(b == "store" for _, b in links("to service store"))
    assert LinkSelector.parse("between role data and service store").text == "between role data and service store"
    with pytest.raises(InvalidInput, match="'service stor' matches no host"):
        links("to service stor")
    with pytest.raises(Malformed, match="service store"):
        LinkSelector.parse("to the store")


def test_a_zone_that_is_cut_off_is_cut_off_from_services_and_nodes_alone_are_not() -> None:
    around = links("around everything in zone c")
    assert {link for link in around if "store" in link} == links("between zone c and service store")
    assert not any("store" in link for link in links("around zone c"))


def test_what_is_asked_over_a_link_is_a_connection_that_a_node_opens() -> None:
    both = links("between node a-data and service store")
    assert pairs_both(WIRING, both) == pairs_opened(WIRING, both) == [("a-data", "store")]
    assert pairs_opened(WIRING, links("from service store to node a-data")) == []
    others = untouched(WIRING, [("a-data", "store")])
    assert ("b-data", "store") in others and not any(opener == "store" for opener, _ in others)
    assert ("client-a", "store") not in others


@pytest.mark.parametrize(
    ("links", "refused"),
    [
        ("between role data and service store", True),
        ("around everything in zone c", True),
        ("around zone c", False),
        ("from everything in zone a to zone c", False),
    ],
)
def test_what_a_service_could_not_show_is_refused_on_its_links(links: str, refused: bool) -> None:
    fault = NetworkBandwidth.model_validate({"links": links, "rate": "64KiB/s"})
    assert bool(fault.check(REMOTE)) is refused and fault.check(SHARED) == []
    assert NetworkLatency.model_validate({"links": links, "delay": "300ms"}).check(REMOTE) == []


def test_a_service_is_asked_by_http_without_a_password() -> None:
    lab = FakeLab("3az-remote-store")
    line = Line(lab, ("a-data", "store"))  # type: ignore[arg-type]
    assert line._http is not None and line._http.request(line._path) == b"GET /_ping HTTP/1.1\r\nHost: probe\r\n\r\n"
    assert WIRING.port("a-data", "store") == 9000 and WIRING.port("a-data", "b-data") == 9300
    assert WIRING.port("client-a", "b-data") == 9200


def test_a_lab_whose_store_is_gone_is_no_longer_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was in its memory is gone with it, so no other run may have the lab."""
    lab = FakeLab("3az-remote-store")
    monkeypatch.setattr(lab, "residents", lambda: [], raising=False)
    monkeypatch.setattr(proof, "marks", lambda lab: [])
    assert proof.problems(lab) == ["service store is gone"]  # type: ignore[arg-type]


def test_a_lab_without_the_server_or_of_containers_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(InvalidInput, match=r"3az-remote-store.yaml:\d+:\d+: a docker lab has no services yet"):
        kinds.parts("docker", REMOTE)
    monkeypatch.setattr(s3, "lacking", lambda: "the Python package moto is missing")
    with pytest.raises(MissingPrerequisite, match="service store of 3az-remote-store") as refused:
        provisioning._of_services(REMOTE)
    assert "opensearch-chaos[s3]" in str(refused.value.remedy)
    assert provisioning._of_services(SHARED) == {}


@pytest.mark.parametrize("kind", ["fs", "reloadable-fs"])
def test_a_folder_is_a_repository_of_the_type_that_it_is_named_by(tmp_path: Path, kind: str) -> None:
    text = Path(SHARED.file or "").read_text().replace("{store: fs}", f"{{store: {kind}}}")
    file = tmp_path / "3az-remote-fs.yaml"
    file.write_text(text)
    made = settings_of(load_topology(file))
    assert made["node.attr.remote_store.repository.store.type"] == kind
    assert made["node.attr.remote_store.repository.store.settings.location"] == "/lab/services/store"
    assert made["path.repo"] == ["/lab/services/store"]
