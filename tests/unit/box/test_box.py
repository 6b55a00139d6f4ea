"""What of a box is data: its ways, the target's file, the load balancers' nodes, and what a witness tells apart."""

from __future__ import annotations

import json
from datetime import date
from itertools import islice
from pathlib import Path

import pytest
from box import impostor, machine, plan, relay, team, traffic, witness
from box.making import TOPOLOGY
from cryptography import x509

from chaos.base.paths import write_json
from chaos.definitions import load_topology
from chaos.definitions.existing import ExistingFile, load_existing
from chaos.definitions.gameday import load_gameday
from chaos.registry import load_experiment
from chaos.targets.existing import passages, rights
from chaos.targets.security import make
from chaos.targets.wiring import HTTP, Wiring

BOX = load_topology(TOPOLOGY)
WIRING = Wiring.of("staging", BOX.nodes, BOX.zones)
WAYS = plan.Ways(WIRING, BOX)
IDENTITY = {"cluster_uuid": "wIIGSa4PQIyKYzcvn_m1Ag", "cluster_name": "oschaos-staging", "version": {}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "staging.yaml"
    made.write_text(plan.written(plan.target(BOX, WAYS, IDENTITY, date(2026, 11, 25))))
    return made


def test_the_file_is_one_that_runs_may_go_by(file: Path):
    target = load_existing(file)
    said = plan.target(BOX, WAYS, IDENTITY, date(2026, 11, 25))
    assert target.written == ExistingFile.model_validate(said)  # however it is written
    assert set(target.written.zones.names.values()) == set(BOX.zones)
    assert not set(target.written.zones.names) & set(BOX.zones)  # so nothing goes well by chance
    assert target.rung_on(date(2026, 12, 9)) == "zone" and target.rung_on(date(2026, 12, 10)) == "observe"
    assert set(target.written.of_nodes) == {node.name for node in BOX.nodes}
    assert set(target.written.load_balancers) == set(target.written.zones.names)
    assert "cluster:admin/decommission/awareness/put" in rights.role(target.written)["cluster_permissions"]


def test_the_file_says_by_which_host_each_node_is_reached_and_by_which_addresses_it_is_seen(file: Path):
    target = load_existing(file)
    assert target.ssh_config == str(file.parent / plan.SSH_CONFIG)
    for node in BOX.nodes:
        member = target.written.nodes[node.name]
        assert (member.ssh, member.addresses) == (node.name, (WIRING[node.name].bridge_address,))
    assert target.written.hosts is not None
    clients = {client.ssh: client.addresses for client in target.written.hosts.clients.values()}
    assert clients == {host.name: (host.bridge_address,) for host in WIRING.clients}


def test_ssh_comes_over_the_bridge_from_the_clients_of_its_zone():
    assert set(WAYS.hosts) == {host.name for host in WIRING.hosts}
    for host in WIRING.nodes:
        to = WAYS.hosts[host.name].to
        beside = next(client for client in WIRING.clients if client.zone == host.zone)
        assert to.address == (host.bridge_address, machine.SSH)
        assert to.namespace is not None and to.namespace.path == beside.namespace.path


def test_every_connection_between_hosts_passes_a_proxy_of_the_file_and_that_of_its_own_host(file: Path):
    target = load_existing(file).written
    named = {value: zone for zone, value in target.zones.names.items()}
    places = passages.places(target)
    expected = {
        (f"client-{named[a.zone]}" if a.kind == "client" else a.name, b.name): (
            f"127.0.0.1:{plan.API_PORT + n}",
            WIRING.toxified(a.name, b.name)[0].proxy,
        )
        for n, a in enumerate(WIRING.hosts)
        for b in WIRING.nodes
        if a != b and (a.kind == "node" or BOX.node(b.name).is_data)
    }
    assert places == expected


def test_no_two_ways_have_one_port_and_certificates_fit_every_address(tmp_path: Path):
    ways = list(WAYS)
    assert len({way.listen for way in ways}) == len(ways)
    assert {way.listen for way in WAYS.nodes.values()} == {(host.loopback, HTTP) for host in WIRING.nodes}
    assert {way.listen[0] for kind in (WAYS.balancers, WAYS.passages) for way in kind.values()} == {"127.0.0.1"}
    assert json.dumps([way.to_json() for way in ways])
    make(tmp_path, WIRING)
    for kind in (WAYS.nodes, WAYS.passages):
        for name, way in kind.items():
            assert way.listen[0] in shown_by(tmp_path, name if isinstance(name, str) else name[1])
    everywhere = set.intersection(*(shown_by(tmp_path, node.name) for node in BOX.data_nodes))
    assert {way.listen[0] for way in WAYS.balancers.values()} <= everywhere


def shown_by(lab: Path, node: str) -> set[str]:
    """The addresses that a node's certificate names."""
    certificate = x509.load_pem_x509_certificate((lab / "security" / node / "node.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return set(map(str, names.get_values_for_type(x509.IPAddress)))


def test_a_balancer_knows_every_data_node(tmp_path: Path):
    nodes = [(node.name, WIRING[node.name].loopback) for node in BOX.data_nodes]
    text = plan.balancer(nodes, 64251, tmp_path / "ca.pem", "checks", "secret")
    servers = [line.split()[1:] for line in text.splitlines() if line.strip().startswith("server ")]
    assert servers == [[name, f"{address}:9200"] for name, address in nodes]
    assert "secret" not in text and "mode tcp" in text


@pytest.mark.parametrize("name", sorted(plan.EXPERIMENTS))
def test_experiments_to_try_are_sound_and_within_the_files_caps(name: str, file: Path, tmp_path: Path):
    (tmp_path / f"{name}.yaml").write_text(plan.EXPERIMENTS[name])
    experiment = load_experiment(tmp_path / f"{name}.yaml")
    caps = load_existing(file).written.caps
    assert caps is not None
    assert experiment.name == name and sum(float(each.rate) for each in experiment.load.operations) <= caps.requests
    assert experiment.load.documents <= caps.documents
    assert experiment.topology.shards * (experiment.topology.replicas + 1) <= caps.copies


def test_arrivals_keep_their_rates_and_their_order():
    some = list(islice(traffic.arrivals(100.0, {"search": 2.0, "write": 1.0, "none": 0.0}), 300))
    assert [at for _, _, at in some] == sorted(at for _, _, at in some)
    assert sum(op == "search" for op, _, _ in some) == 200 and some[-1][2] == pytest.approx(199.5, abs=1.0)
    assert list(traffic.arrivals(0.0, {"search": 0.0})) == []


def test_what_was_acknowledged_is_the_largest_of_each_order(tmp_path: Path):
    log = traffic.Log(tmp_path / "a.jsonl")
    for n, ok in ((1, True), (3, True), (2, True), (9, False)):
        log.write(at=float(n), op="write", ok=ok, id="a-1", n=n)
    log.write(at=5.0, op="search", ok=True, whole=True)
    with open(tmp_path / "a.jsonl", "a") as file:
        file.write('{"at": 4.0, "op": "wri')
    assert traffic.acknowledged(traffic.lines(tmp_path)) == {"a-1": 3}
    assert [each["at"] for each in traffic.lines(tmp_path, since=3.0)] == [3.0, 5.0, 9.0]


def test_a_log_that_is_large_begins_anew_and_keeps_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(traffic, "LARGEST", 100)
    log = traffic.Log(tmp_path / "a.jsonl")
    for n in range(9):
        log.write(at=float(n), op="write", ok=True, id=f"a-{n}", n=n)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.1.jsonl", "a.jsonl"]
    assert [each["at"] for each in traffic.lines(tmp_path)][-2:] == [7.0, 8.0]


def test_what_differs_is_named_with_its_place():
    before = {"settings": {"persistent": {"a": "1"}}, "nodes": [["x"]], "weights": None}
    assert witness.differences(before, json.loads(json.dumps(before))) == []
    after = {"settings": {"persistent": {"a": "2", "b": "3"}}, "nodes": [], "weights": {"zone": {"a": 1}}}
    assert witness.differences(before, after) == [
        'settings / persistent / a was "1" and is "2"',
        'settings / persistent / b is new: "3"',
        'nodes was [["x"]] and is []',
        'weights was null and is {"zone": {"a": 1}}',
    ]
    assert witness.differences(before, {**before, "nodes": [["x"]], "proxies": {}}) == ["proxies is new: {}"]
    assert witness.is_ours("oschaos-12ab-load", None) and witness.is_ours(".notes", ".notes")
    assert not witness.is_ours("orders-000001", ".notes") and not witness.is_ours(".notes", None)


def test_a_way_leads_where_its_file_says_now(tmp_path: Path):
    def leads(port: int) -> None:
        said = [{"listen": ["127.0.0.1", 9401], "to": ["127.0.1.2", port], "namespace": "/run/netns/one"}]
        write_json(tmp_path / "ways.json", said)

    leads(9200)
    ways = relay.Ways(tmp_path / "ways.json")
    assert ways()["127.0.0.1", 9401].address == ("127.0.1.2", 9200)
    leads(impostor.PORT)
    assert ways()["127.0.0.1", 9401].address == ("127.0.1.2", impostor.PORT)


def test_the_game_day_to_try_is_whole_and_of_a_node_alone(file: Path, tmp_path: Path) -> None:
    approver, operator = machine.Key.made().public, machine.Key.made().public
    for name, text in plan.gameday(tmp_path, approver, operator).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "experiments" / "node-dead.yaml").write_text(plan.EXPERIMENTS["node-dead"])
    existing = tmp_path / "topologies" / "existing"
    existing.mkdir(parents=True)
    (existing / "staging.yaml").write_text(file.read_text())
    day = load_gameday(tmp_path / "experiments" / "gamedays" / "staging.yaml")
    assert [step.rung for step in day.written.experiments] == ["node"]
    assert load_existing(day.target).written.name == "staging"
    signers = (tmp_path / "experiments" / "gamedays" / "allowed_signers").read_text()
    assert signers == f"approver@example.com {approver}\n" and operator not in signers


def test_what_users_see_is_the_share_of_what_was_due_of_late(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    said = [{"at": 100.0 + n, "op": "search", "ok": n % 2 == 0, "ms": 3.0} for n in range(20)]
    log.write_text("".join(json.dumps(each) + "\n" for each in said) + '{"at": 119, "o')
    assert team.lines(log) == said and team.lines(tmp_path / "none") == []
    assert team.failing(said, 119.0) == pytest.approx(6 / 11)
    assert team.failing([{"at": 118.0, "ok": True, "ms": 5001.0}, {"at": 118.0, "ok": True, "ms": 10.0}], 119.0) == 0.5
    assert team.failing(said, 200.0) is None and team.failing([], 1.0) is None
