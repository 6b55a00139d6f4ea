"""The file of a cluster that exists: what it must say, and that an error names its place."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from chaos.base.errors import InvalidInput
from chaos.definitions.existing import is_existing, load_existing

TARGET = """\
apiVersion: opensearch-chaos/v1
kind: existing
name: staging
endpoints: [https://search.staging.example:9200]
access: {user: chaos, password: env:STAGING_PASSWORD, ca: ca.pem}
identity: {cluster_uuid: wIIGSa4PQIyKYzcvn_m1Ag, cluster_name: search-staging}
opensearch: 3.8.0
zones: {attribute: zone, names: {a: eu-west-1a, b: eu-west-1b}}
nodes:
  es-1: {zone: a, roles: [cluster_manager, data]}
  es-2: {zone: b, roles: [data]}
rung: node
until: 2027-01-31
"""


def written(folder: Path, *changes: tuple[str, str], name: str = "staging") -> Path:
    text = TARGET
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = folder / f"{name}.yaml"
    file.write_text(text)
    return file


def test_a_target_knows_how_it_is_reached_and_files_are_beside_it(tmp_path: Path) -> None:
    target = load_existing(written(tmp_path))
    assert [str(each) for each in target.written.addresses] == ["https://search.staging.example:9200"]
    assert target.access.tls and target.access.ca == str(tmp_path / "ca.pem")
    assert target.access.password == "env:STAGING_PASSWORD" and is_existing(tmp_path / "staging.yaml")
    (tmp_path / "other").mkdir()
    relative = load_existing(written(tmp_path / "other", ("env:STAGING_PASSWORD", "file:secret")))
    assert relative.access.password == f"file:{tmp_path / 'other' / 'secret'}"


def test_whoever_stands_in_another_folder_finds_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, ("env:STAGING_PASSWORD", "file:secret"))
    monkeypatch.chdir(tmp_path)
    target = load_existing("staging.yaml")
    monkeypatch.chdir("/")
    assert target.access.password == f"file:{tmp_path / 'secret'}" and target.access.ca == str(tmp_path / "ca.pem")


def test_a_rung_ends_with_its_last_day(tmp_path: Path) -> None:
    target = load_existing(written(tmp_path))
    assert target.rung_on(date(2027, 1, 31)) == "node" and target.rung_on(date(2027, 2, 1)) == "observe"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("name: staging", "name: other"), "3:7: the name is other and the file is staging.yaml"),
        (("https://search.staging.example:9200", "search.staging.example"), "4:13: .*is no address of a cluster"),
        (("https://search", "https://me:secret@search"), "4:13: .*no user and password in the address"),
        (("https://search", "http://search"), "5:55: ca means TLS: expected https endpoints"),
        (("env:STAGING_PASSWORD", "hunter2"), "5:33: .*a secret is given by reference only"),
        (("user: chaos, ", ""), "5:9: .*user and password belong together"),
        (("ca: ca.pem", "sigv4: {region: eu-west-1}"), "5:9: .*a request is a user's or signed for AWS"),
        (("search.staging.example", "x.eu-west-1.aoss.amazonaws.com"), "4:13: .*is OpenSearch Serverless"),
        (("user: chaos, password: env:STAGING_PASSWORD", "sigv4: {region: EU}"), "5:17: .*no region of AWS"),
        (("ca: ca.pem", "ca: ca.pem, verify: false"), "5:9: .*checks no certificate"),
        (("ca: ca.pem", "tls_name: search, verify: false"), "5:9: .*tls_name says whose: expected one of them"),
        (("b: eu-west-1b", "b: eu-west-1a"), "8:52: eu-west-1a is zone a already"),
        (("es-2: {zone: b", "es-2: {zone: c"), "11:16: zone c is not in zones.names"),
        (("until: 2027-01-31\n", ""), "12:7: rung node has no end: expected until"),
        (("until: 2027-01-31", "until: soon"), "13:8: .*expected a day such as 2027-01-31"),
        (("search-staging", "search-prod"), "12:7: the cluster search-prod is called prod, as production is"),
        (("search.staging.example", "live.example"), "12:7: the host live.example is called live"),
        (("es-2: {", "es-prod: {"), "12:7: the node es-prod is called prod"),
        (("es-2: {", "es-2: {url: 'https://es-2.live.example:9200', "), "12:7: the host es-2.live.example is called"),
        (("rung: node", "rung: cluster"), "12:7: rung: expected observe, plan, node or zone"),
        (("rung: node", "rungs: node"), '12:1: unknown key "rungs": did you mean "rung"?'),
        (("identity: {cluster_uuid: wIIGSa4PQIyKYzcvn_m1Ag, ", "identity: {"), '"cluster_uuid" is missing'),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    with pytest.raises(InvalidInput, match=f"staging.yaml:{says}" if says[0].isdigit() else says) as error:
        load_existing(written(tmp_path, change))
    assert "secret@" not in str(error.value) and "hunter2" not in str(error.value)


@pytest.mark.parametrize("name", ["preprod", "delivery", "reproduce", "staging-1"])
def test_names_in_which_production_is_only_a_part_of_a_word_are_taken(tmp_path: Path, name: str) -> None:
    assert load_existing(written(tmp_path, ("search-staging", name))).written.identity.cluster_name == name


def test_production_may_be_observed(tmp_path: Path) -> None:
    file = written(tmp_path, ("search-staging", "search-prod"), ("rung: node", "rung: observe"))
    assert load_existing(file).written.rung == "observe"


def test_requests_to_a_domain_are_signed(tmp_path: Path) -> None:
    user = "user: chaos, password: env:STAGING_PASSWORD"
    found = load_existing(written(tmp_path, (user, "sigv4: {region: eu-west-1, profile: staging}"))).access.sigv4
    assert found is not None and (found.region, found.service, found.profile) == ("eu-west-1", "es", "staging")


WAYS = """\
load_balancers: {a: https://lb-a.example, b: https://lb-b.example:9443}
toxiproxies:
  - api: http://10.0.1.9:8474
    proxies:
      a-to-2: {from: es-1, to: es-2}
      clients: {from: [clients of zone a, clients of zone b], to: es-2, url: https://10.0.1.9:9300}
"""
UNTIL = "until: 2027-01-31\n"


def test_load_balancers_and_toxiproxies_are_named_with_what_passes_them(tmp_path: Path) -> None:
    made = load_existing(written(tmp_path, (UNTIL, UNTIL + WAYS))).written
    assert {zone: str(at) for zone, at in made.of_balancers.items()} == {
        "a": "https://lb-a.example:443",
        "b": "https://lb-b.example:9443",
    }
    (server,) = made.toxiproxies
    assert server.label == "10.0.1.9:8474" and server.proxies["a-to-2"].nodes == ("es-1",)
    assert server.proxies["clients"].clients == ("a", "b") and not server.proxies["clients"].nodes


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("{a: https://lb-a", "{c: https://lb-a"), "14:18: zone c is not in zones.names"),
        (("https://lb-a", "http://lb-a"), "14:21: the endpoints are https: expected https here too"),
        (("10.0.1.9:8474", "10.0.1.9:8474/x"), "16:10: .*is no address"),
        (("from: es-1", "from: es-3"), '18:22: es-3 is not in nodes: did you mean "es-'),
        (("from: es-1", "from: es-2"), "18:22: es-2 is where it leads to"),
        (("to: es-2}", "to: es-4}"), "18:32: es-4 is not in nodes"),
        (("clients of zone b", "clients of zone d"), "19:23: zone d is not in zones.names"),
        (("clients of zone b", "es-1"), "19:7: connections of es-1 to es-2 pass a-to-2 of 10.0.1.9:8474 already"),
        (("url: https", "url: http"), "19:78: the endpoints are https"),
        (("lb-a.example", "lb-prod.example"), "12:7: the host lb-prod.example is called prod"),
    ],
)
def test_what_is_wrong_with_a_way_is_told_at_its_place(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        load_existing(written(tmp_path, (UNTIL, UNTIL + WAYS.replace(*change, 1))))


def test_a_toxiproxy_is_named_once(tmp_path: Path) -> None:
    twice = WAYS + "  - {api: 'http://10.0.1.9:8474', proxies: {other: {from: es-2, to: es-1}}}\n"
    with pytest.raises(InvalidInput, match=r"20:11: this Toxiproxy is toxiproxies.0 already"):
        load_existing(written(tmp_path, (UNTIL, UNTIL + twice)))


def with_foreign(folder: Path, foreign: str) -> Path:
    return written(folder, ("rung: node", f"foreign: {foreign}\nrung: node"))


def test_what_others_may_suffer_is_written_with_its_units(tmp_path: Path) -> None:
    file = with_foreign(tmp_path, "{search: {slower: 3x, fewer: 50%}, indexing: {slower: 1.5x, fewer: 20%}}")
    found = load_existing(file).written.foreign
    assert found is not None and list(found.limits) == ["search", "indexing"] and found.for_ == 10.0
    assert found.says == "search 3x slower or 50% fewer, indexing 1.5x slower or 20% fewer, for 10s"
    assert load_existing(written(tmp_path)).written.foreign is None


@pytest.mark.parametrize(
    ("foreign", "says"),
    [
        ("{search: {slower: 3, fewer: 50%}}", "12:28: .*3 has no unit: a factor is a number and x, for example 3x"),
        ("{search: {slower: 1x, fewer: 50%}}", "12:28: .*1x is what chance makes of any traffic: expected 1.2x"),
        ("{search: {slower: 3x, fewer: 100%}}", "12:39: .*100% is all of it.*: expected less, such as 50%"),
        ("{search: {slower: 3x, fewer: 0%}}", "12:39: .*0% is nothing: expected more than zero"),
        ("{search: {slower: 3x}}", '"fewer" is missing'),
        ("{search: {slower: 3x, fewer: 50%}, for: 1s}", "12:50: .*1s is less than two samples take: expected 4s"),
        ("{search: {slower: 3x, fewer: 50%}, for: 5m}", "12:50: .*5m is long for those who wait: expected 60s or less"),
        ("{for: 10s}", "12:10: .*it limits nothing: expected search, indexing, or both"),
        ("{searches: {slower: 3x, fewer: 50%}}", '12:11: unknown key "searches": did you mean "search"?'),
    ],
)
def test_what_is_wrong_with_it_is_told_with_its_place(tmp_path: Path, foreign: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=f"staging.yaml:{says}" if says[0].isdigit() else says):
        load_existing(with_foreign(tmp_path, foreign))


HOSTS = "hosts: {config: ssh_config, clients: {a: {addresses: 10.0.9.4, ssh: app-a}}}\n"
ON_HOST = "ssh: chaos@es-2, addresses: [10.0.0.2], "


def test_hosts_are_named_as_ssh_takes_them(tmp_path: Path) -> None:
    made = load_existing(written(tmp_path, (UNTIL, UNTIL + HOSTS), ("es-2: {", f"es-2: {{{ON_HOST}")))
    assert made.ssh_config == str(tmp_path / "ssh_config")
    assert made.written.nodes["es-2"].ssh == "chaos@es-2" and made.written.nodes["es-2"].addresses == ("10.0.0.2",)
    assert made.written.hosts is not None and made.written.hosts.clients["a"].addresses == ("10.0.9.4",)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("", ""), "14:1: no node says which host is its own"),
        (("es-2: {", "es-2: {ssh: -oProxyCommand=x, "), "11:15: ssh: expected text like .*-oProxyCommand=x"),
        (("es-2: {", "es-2: {ssh: es-2, addresses: [10.0.0], "), "cannot read '10.0.0': expected an address"),
        (("es-2: {", "es-2: {ssh: chaos@es-2.live.example, "), "the host chaos@es-2.live.example is called live"),
        (("clients: {a", "clients: {c"), "14:39: zone c is not in zones.names"),
        ((HOSTS, ""), "11:10: ssh is of hosts, and the file says not how they are reached"),
    ],
)
def test_what_is_wrong_with_hosts_is_told(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    more = [] if change[0] in ("", "es-2: {") else [("es-2: {", "es-2: {ssh: es-2, ")]
    with pytest.raises(InvalidInput, match=says):
        load_existing(written(tmp_path, (UNTIL, UNTIL + HOSTS), *more, change))
