"""A cluster that exists, looked at, held against its file, and the draft of such a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
from apart import examples
from hypothesis import given, settings
from hypothesis import strategies as some

from chaos.base.access import Access
from chaos.base.errors import InvalidInput
from chaos.commands.targets import drafted
from chaos.definitions.existing import load_existing
from chaos.run import reaching
from chaos.targets.existing import compare, draft
from chaos.targets.existing import seen as seen_module
from chaos.targets.existing.seen import Identity, Seen, SeenNode, identity_of, read

TODAY = date(2026, 11, 25)
URL = "http://127.0.0.1:9200"
WHO = Identity("wIIGSa4PQIyKYzcvn_m1Ag", "search-staging", "3.8.0")
NODES = tuple(
    SeenNode(f"{zone}-data", ("data", "ingest"), f"eu-west-1{zone}", "3.8.0", {"zone": f"eu-west-1{zone}"})
    for zone in "abc"
)
SEEN = Seen(
    identities={URL: WHO},
    silent={},
    attribute="zone",
    nodes=NODES,
    awareness=("zone",),
    forced=("eu-west-1a", "eu-west-1b", "eu-west-1c"),
    status="green",
    relocating=0,
    unassigned=0,
    weights={},
    decommissioned={},
    excluded=(),
)


def rows(folder: Path, seen: Seen = SEEN, *changes: tuple[str, str]) -> dict[str, compare.Row]:
    """A draft of the cluster as it was, changed, held against how it is now."""
    text = draft.draft(SEEN, [URL], {}, "staging")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "staging.yaml").write_text(text)
    target = load_existing(folder / "staging.yaml")
    return {row.what: row for row in compare.rows(target, seen, TODAY)}


def test_a_draft_is_true_and_allows_nothing_but_to_look(tmp_path: Path) -> None:
    found = rows(tmp_path)
    assert {row.sign for row in found.values() if row.what != "foreign"} == {compare.Sign.SAME}
    assert found["rung"].says == "observe: observe may be done"
    assert load_existing(tmp_path / "staging.yaml").written.zones.names == {
        "a": "eu-west-1a",
        "b": "eu-west-1b",
        "c": "eu-west-1c",
    }


names = some.text(
    some.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp", "Cn", "Co", "Cf")), min_size=1
)


@settings(max_examples=examples(60))
@given(some.sets(names, min_size=1, max_size=4), names, names, some.sets(names, min_size=1, max_size=3))
def test_a_draft_says_what_was_seen_whatever_names_somebody_chose(
    tmp_path_factory: pytest.TempPathFactory, nodes: set[str], cluster: str, attribute: str, places: set[str]
) -> None:
    folder = tmp_path_factory.mktemp("draft")
    spread = sorted(places)
    there = tuple(SeenNode(name, ("data",), spread[n % len(spread)], "3.8.0") for n, name in enumerate(sorted(nodes)))
    seen = replace(
        SEEN,
        identities={URL: Identity("uuid", cluster, "3.8.0")},
        nodes=there,
        attribute=attribute,
        awareness=(attribute,),
    )
    file = folder / "x.yaml"
    file.write_text(draft.draft(seen, [URL], {}, "x"))
    signs = {row.sign for row in compare.rows(load_existing(file), seen, TODAY)}
    assert signs == {compare.Sign.SAME, compare.Sign.WARNING}


@pytest.mark.parametrize(
    ("change", "row", "sign", "says"),
    [
        ({"identities": {URL: replace(WHO, cluster_uuid="other")}}, f"endpoint {URL}", "differs", "cluster_uuid is"),
        ({"identities": {URL: replace(WHO, cluster_name="other")}}, f"endpoint {URL}", "differs", "cluster_name is"),
        ({"silent": {URL: "cannot be reached"}}, f"endpoint {URL}", "differs", "cannot be reached"),
        ({"nodes": NODES[:2]}, "nodes", "differs", "c-data is not there"),
        ({"nodes": (*NODES, replace(NODES[0], name="new"))}, "nodes", "differs", "new is not in the file"),
        ({"nodes": (*NODES[:2], replace(NODES[2], roles=("data",)))}, "nodes", "differs", "has the roles data"),
        ({"nodes": (*NODES[:2], replace(NODES[2], version="3.9.0"))}, "version", "differs", "c-data runs 3.9.0"),
        ({"nodes": (*NODES[:2], replace(NODES[2], zone="eu-west-1a"))}, "zones", "differs", "is in a"),
        ({"nodes": (*NODES[:2], replace(NODES[2], zone=None))}, "zones", "differs", "is in no zone"),
        ({"nodes": None, "unread": {"nodes": "403"}}, "nodes", "unknown", "403"),
        ({"awareness": ()}, "awareness", "differs", "aware of no attribute"),
        ({"awareness": None, "unread": {"awareness": "403"}}, "awareness", "unknown", "403"),
        ({"status": "yellow"}, "health", "blocks", "it is yellow"),
        ({"relocating": 3}, "health", "blocks", "3 shards move"),
        ({"status": None, "unread": {"health": "403"}}, "health", "unknown", "403"),
        (
            {"decommissioned": {"eu-west-1c": "SUCCESSFUL"}},
            "decommission",
            "blocks",
            "eu-west-1c is decommissioned (SUCCESSFUL)",
        ),
        ({"excluded": ("a-data",)}, "votes", "blocks", "a-data"),
        ({"excluded": None, "unread": {"votes": "403"}}, "votes", "unknown", "403"),
    ],
)
def test_each_thing_that_is_not_as_the_file_says_has_its_row(
    tmp_path: Path, change: dict[str, Any], row: str, sign: str, says: str
) -> None:
    found = rows(tmp_path, replace(SEEN, **change))[row]
    assert found.sign.value == sign and says in found.says and found.remedy


def test_what_blocks_refuses_only_what_would_change_something(tmp_path: Path) -> None:
    yellow = replace(SEEN, status="yellow")
    found = rows(tmp_path, yellow)
    target = load_existing(tmp_path / "staging.yaml")
    assert compare.refused(target, list(found.values())) == []
    found = rows(tmp_path, yellow, ("rung: observe", "rung: node\nuntil: 2026-12-31"))
    target = load_existing(tmp_path / "staging.yaml")
    assert [each.what for each in compare.refused(target, list(found.values()))] == ["health"]


def test_an_expired_rung_leaves_only_looking(tmp_path: Path) -> None:
    found = rows(tmp_path, SEEN, ("rung: observe", "rung: zone\nuntil: 2026-11-24"))["rung"]
    assert found.sign is compare.Sign.BLOCKS and "only observe is left" in found.says


@pytest.mark.parametrize(
    ("rung", "until", "far"),
    [
        ("zone", "2027-11-26", False),
        ("zone", "2027-11-27", True),
        ("zone", "2099-01-01", True),
        ("node", "2099-01-01", False),
    ],
)
def test_a_rung_above_one_node_lasts_a_year_at_most(tmp_path: Path, rung: str, until: str, far: bool) -> None:
    found = rows(tmp_path, SEEN, ("rung: observe", f"rung: {rung}\nuntil: {until}"))["rung"]
    assert found.forbids is far
    target = load_existing(tmp_path / "staging.yaml")
    for needed in ("node", rung):
        assert reaching.rung_row(target, needed, TODAY).forbids is far
    if far:
        assert found.says == f"zone until {until} is more than a year away"
        assert "write a day that is nearer under until, in " in found.remedy and "staging.yaml" in found.remedy


def test_a_file_without_a_limit_for_others_is_warned_of_and_forbids_nothing(tmp_path: Path) -> None:
    found = rows(tmp_path, SEEN, ("rung: observe", "rung: zone\nuntil: 2026-12-31"))
    target = load_existing(tmp_path / "staging.yaml")
    assert found["foreign"].sign is compare.Sign.WARNING and "agree on foreign:" in found["foreign"].remedy
    assert compare.refused(target, list(found.values())) == []
    limited = "rung: zone\nuntil: 2026-12-31\nforeign: {search: {slower: 3x, fewer: 50%}}"
    assert rows(tmp_path, SEEN, ("rung: observe", limited))["foreign"].sign is compare.Sign.SAME


def test_a_draft_names_files_as_it_will_read_them_and_no_path_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the folder in which it lies, wherever the repository is; a home's own files by ``~``."""
    home, work = tmp_path / "home", tmp_path / "work"
    repository = work / "chaos"
    for folder in (home, repository / "certs", work / "shared"):
        folder.mkdir(parents=True)
    for file in (home / "key.pem", repository / "certs" / "ca.pem", work / "shared" / "password"):
        file.touch()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(work)
    monkeypatch.setattr("chaos.commands.access.reached", lambda url, **_: ("search.example", 9200, Access(tls=True)))
    monkeypatch.setattr("chaos.targets.existing.seen.look", lambda *_: SEEN)
    options = {
        "user": "chaos",
        "password": "file:shared/password",
        "ca": Path("chaos/certs/ca.pem"),
        "certificate": str(repository / "certs" / "ca.pem"),
        "key": str(home / "key.pem"),
    }
    made = drafted("https://search.example:9200", Path("chaos"), "staging", None, options)
    text = made.read_text()
    assert str(tmp_path) not in text
    access = load_existing(made).access
    assert (access.ca, access.key) == (
        str(repository / "topologies" / "existing" / "../../certs/ca.pem"),
        str(home / "key.pem"),
    )
    assert Path(str(access.password).removeprefix("file:")).resolve() == work / "shared" / "password"


def test_zones_keep_their_own_names_where_these_are_letters(tmp_path: Path) -> None:
    seen = replace(SEEN, nodes=tuple(replace(node, zone=node.name[0]) for node in NODES))
    assert draft.zones(seen) == {"a": "a", "b": "b", "c": "c"}


def test_no_draft_without_zones() -> None:
    seen = replace(SEEN, nodes=(*NODES[:2], replace(NODES[2], zone=None, attributes={"rack": "r1"})))
    with pytest.raises(InvalidInput, match=r"1 of 3 nodes have no attribute 'zone'.*there are: rack, zone"):
        draft.zones(seen)


def test_no_draft_of_what_is_no_release() -> None:
    with pytest.raises(InvalidInput, match=r"run 3\.9\.0-SNAPSHOT, which is no release"):
        draft.draft(replace(SEEN, nodes=(replace(NODES[0], version="3.9.0-SNAPSHOT"),)), [URL], {}, "x")


@pytest.mark.parametrize("name", ["../x", "A b", ""])
def test_what_cannot_name_a_target_is_refused_before_anybody_is_asked(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="cannot name a target"):
        drafted("http://127.0.0.1:1", tmp_path, name, None, {})
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "staging.yaml"
    file.write_text("mine")
    with pytest.raises(InvalidInput, match="is there already, and nothing was written"):
        draft.write("x", file)
    assert file.read_text() == "mine"


# -- what is read ---------------------------------------------------------------------------------

ANSWERS: Mapping[str, Any] = {
    "/": {
        "cluster_name": "c",
        "cluster_uuid": "u",
        "version": {"number": "3.8.0", "distribution": "opensearch"},
        "tagline": "",
    },
    "/_nodes": {
        "_nodes": {"failed": 0},
        "nodes": {"1": {"name": "n\x1b[2J", "roles": ["data"], "version": "3.8.0", "attributes": {"zone": "a"}}},
    },
    "/_cluster/settings": {
        "persistent": {"cluster.routing.allocation.awareness.force.zone.values": "a,b"},
        "transient": {},
        "defaults": {"cluster.routing.allocation.awareness.attributes": ["zone"]},
    },
    "/_cluster/health": {"status": "green", "relocating_shards": 0, "unassigned_shards": 1},
    "/_cluster/routing/awareness/zone/weights": {"weights": {"a": "1.0"}, "_version": 2},
    "/_cluster/decommission/awareness/zone/_status": {},
    "/_cluster/state/metadata": {},
}


def answers(path: str) -> tuple[int, Any]:
    return 200, ANSWERS[path.partition("?")[0]]


def test_facts_are_read_and_foreign_names_move_no_cursor() -> None:
    seen = read(answers, {URL: identity_of(answers, URL)}, {}, None)
    assert seen.nodes is not None and seen.nodes[0].name == "n?[2J" and seen.nodes[0].zone == "a"
    assert (seen.awareness, seen.forced, seen.weights) == (("zone",), ("a", "b"), {"a": 1})
    assert (seen.status, seen.unassigned, seen.decommissioned, seen.excluded, seen.unread) == ("green", 1, {}, (), {})


@pytest.mark.parametrize("wrong", [(403, {"error": {"reason": "no permissions"}}), (200, {"nodes": 3}), None])
def test_what_is_refused_or_garbled_is_missing_with_its_reason(wrong: Any) -> None:
    def some_answers(path: str) -> tuple[int, Any]:
        if path.startswith("/_nodes"):
            if wrong is None:
                raise urllib3.exceptions.HTTPError("no answer")
            return wrong
        return answers(path)

    seen = read(some_answers, {URL: WHO}, {}, None)
    assert seen.nodes is None and "GET /_nodes" in seen.unread["nodes"] and seen.status == "green"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((401, None), "refuses this user"),
        ((200, {"version": {"number": "8.1.0"}, "tagline": "You Know, for Search"}), "is no OpenSearch"),
        ((200, ["x"]), "is no OpenSearch"),
        ((503, "busy"), "is no OpenSearch"),
    ],
)
def test_who_is_no_opensearch_is_told_so(answer: tuple[int, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        identity_of(lambda path: answer, URL)


# ---- whether somebody else answers by now ------------------------------------------------------------------------


class Answers:
    """Stands for clients: by address what ``GET /`` and ``/_nodes/_local`` are answered; None: nobody is there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, said: dict[str, tuple[str, ...] | None]) -> None:
        """``said``: address → (cluster_uuid, the node's name), and the cluster's name where that is another."""

        def client(address: Any, access: Any) -> Any:
            def request(method: str, path: str) -> tuple[int, Any]:
                found = said[str(address)]
                if found is None:
                    raise urllib3.exceptions.NewConnectionError(None, "refused")  # type: ignore[arg-type]
                if path.startswith("/_nodes/_local"):
                    return 200, {"nodes": {"id": {"name": found[1]}}}
                if path.startswith("/_cluster/health"):
                    return 200, {"discovered_cluster_manager": True}
                if path == "/":
                    who = {"cluster_uuid": found[0], "cluster_name": ([*found, WHO.cluster_name])[2]}
                    return 200, who | {"version": {"number": "3.8.0", "distribution": "opensearch"}}
                return 404, {}

            return SimpleNamespace(request=request, close=lambda: None)

        monkeypatch.setattr(seen_module, "_client", client)


NODE = "http://127.0.0.1:9301"


def with_an_address(folder: Path) -> Any:
    text = draft.draft(SEEN, [URL], {}, "staging").replace("  a-data: {", f'  a-data: {{url: "{NODE}", ')
    (folder / "staging.yaml").write_text(text)
    return load_existing(folder / "staging.yaml")


@pytest.mark.parametrize(
    ("node", "says", "another"),
    [
        ((WHO.cluster_uuid, "a-data"), None, False),
        (None, "cannot be reached", False),
        ((WHO.cluster_uuid, "b-data"), f"at {NODE} answers b-data", False),
        (("other", "a-data"), f"at {NODE} is another cluster: {WHO.cluster_name}, other", True),
        ((WHO.cluster_uuid, "a-data", "a copy"), f"at {NODE} is another cluster: a copy, {WHO.cluster_uuid}", True),
    ],
)
def test_a_nodes_own_address_must_lead_to_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    node: tuple[str, ...] | None,
    says: str | None,
    another: bool,
) -> None:
    Answers(monkeypatch, {URL: (WHO.cluster_uuid, "b-data"), NODE: node})
    target = with_an_address(tmp_path)
    astray = seen_module.seen_of(target).astray
    assert (astray == {}) if says is None else (says in astray["a-data"])
    assert seen_module.elsewhere(astray.get("a-data", seen_module.UNREACHED)) is (says is not None and node is not None)
    if another:
        with pytest.raises(InvalidInput, match=f"at {NODE} is another cluster"):
            seen_module.refuse_another(target)
    else:
        seen_module.refuse_another(target)


def test_what_leads_nowhere_is_told_by_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Answers(monkeypatch, {URL: (WHO.cluster_uuid, "b-data"), NODE: None})
    target = with_an_address(tmp_path)
    seen = replace(SEEN, astray=seen_module.seen_of(target).astray)
    row = next(row for row in compare.rows(target, seen, TODAY) if row.what == "addresses")
    assert row.sign is compare.Sign.DIFFERS and "a-data: " in row.says
