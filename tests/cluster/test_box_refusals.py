"""What must not be done, and what ends a run, as a user without rights meets it from an office: each with its sentence
and its exit code, and with nothing changed on the cluster.

What only the cluster's owner can do (a zone out, a manager away, an index without copies, a template) the tests do as
he would, on the lab itself.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from box import witness
from box.office import give
from boxkit import Boxed, Program
from clusterkit import await_event, events, findings, in_effect

from chaos.opensearch.administration import create_index, decommission, delete_index, recommission, set_weights
from chaos.opensearch.requests import EXCLUSIONS, GIVE_BACK
from chaos.opensearch.views import administer, await_green, elected, newest, views
from chaos.targets.labs.processes import wait_until

pytestmark = pytest.mark.full
ALLOCATION = "cluster.routing.allocation.enable"
HEAD = """apiVersion: opensearch-chaos/v1
name: held
topology: 3az
load:
  read:  {rate: 10/s, good: ok within 4s}
  write: {rate: 10/s, good: ok within 4s}
  documents: 50
phases:
  healthy: {for: 2s}
"""
CHANGED = "settings.change: {scope: cluster, settings: {cluster.routing.allocation.enable: none}}"
SLOW = "network.latency: {links: to zone c, delay: 1s}"
HELD = HEAD + "  held: {for: %s, inject: {" + f"{CHANGED}, {SLOW}" + "}}\n"
LAST = "expect:\n  - {acknowledged.lost: 0}\n"
LONG = HELD % "10m" + LAST
Tell = Callable[..., None]


@pytest.fixture
def out(boxed: Boxed, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    with boxed.reports(request.node.name, tmp_path) as folder:
        yield folder


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Tell:
    """Keep what was said, or measured."""

    def kept(**said: Any) -> None:
        for name, value in said.items():
            record_property(name, value)
            print(f"{name}: {value}")

    return kept


@contextmanager
def agreed(boxed: Boxed, *changes: tuple[str, str], more: str = "") -> Iterator[None]:
    """The target's file of the first office, otherwise than it is."""
    before = text = boxed.box.file.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    try:
        give(boxed.box.file, text + more, 1)
        yield
    finally:
        give(boxed.box.file, before, 1)


def line(boxed: Boxed, key: str) -> str:
    """A key of the target's file, as it stands there."""
    return next(each for each in boxed.box.file.read_text().splitlines() if each.startswith(f"{key}: "))


def asked(boxed: Boxed, out: Path, text: str = LONG, target: Path | None = None) -> tuple[str | Path, ...]:
    """The command of a run."""
    return "run", boxed.written("held", text), "--on", target or boxed.target, "--out", out


def refused(boxed: Boxed, out: Path, tell: Tell, *says: str, text: str = LONG, target: Path | None = None) -> str:
    """A run that is refused with exit code 2, says all of this, and changes nothing; what it said."""
    now = boxed.seen()
    code, output = boxed.chaos(*asked(boxed, out, text, target))
    tell(refused=output.strip())
    assert code == 2 and "Traceback" not in output, (code, output)
    plain = " ".join(output.split())
    assert [each for each in says if each not in plain] == [], output
    assert witness.differences(now, boxed.seen()) == [] and not out.exists()
    return output


def planned(boxed: Boxed, text: str = LONG) -> tuple[int, str]:
    return boxed.chaos("plan", boxed.written("held", text), "--on", boxed.target)


def begun(boxed: Boxed, out: Path, text: str = LONG) -> Program:
    """A run that has changed a setting and a proxy, and holds both."""
    running = boxed.inside("opensearch-chaos", "run", boxed.written("held", text), "--on", boxed.target, "--out", out)
    await_event(running, out, lambda event: in_effect(event) and event["fault"] == "f2", 180)
    return running


def aborted(out: Path, guard: str | None, tell: Tell) -> dict[str, Any]:
    """The verdict of a run that was ended by a guard, or by a signal (None), and is clean."""
    found = findings(out)
    assert found["outcome"] == "aborted" and found["abort"]["guard"] == guard, found["headline"]
    assert found["clean"] is True and found["abort"]["complete"], found["reasons"]
    tell(headline=found["headline"], seconds_until_all_was_undone=found["abort"]["seconds"])
    return found


# ---- what the file forbids -----------------------------------------------------------------------------


def test_a_rung_that_is_over_or_too_low(boxed: Boxed, before: Path, out: Path, tell: Tell):
    with agreed(boxed, (line(boxed, "until"), "until: 2020-01-01")):
        refused(boxed, out, tell, "rung: zone is needed, and zone ended on 2020-01-01", "agree with")
    for rung in ("observe", "plan", "node"):
        with agreed(boxed, (line(boxed, "rung"), f"rung: {rung}")):
            refused(boxed, out, tell, f"rung: zone is needed, and the file allows {rung}", "agree with")
            code, output = planned(boxed)
        assert code == 2 and f"zone is needed, and the file allows {rung}" in output, output
        plain = " ".join(output.split())
        assert "at rung node: refused, phase held" in plain and "at rung zone: nothing is refused" in plain, output


def test_more_than_the_caps_is_refused(boxed: Boxed, before: Path, out: Path, tell: Tell):
    capped = "requests: 10/s, documents: 49, copies: 8"
    with agreed(boxed, ("requests: 100/s, documents: 1000, copies: 9", capped)):
        refused(
            boxed,
            out,
            tell,
            "requests per second: 20, and the file allows 10",
            "documents: 50, and the file allows 49",
            "copies of shards: 9, and the file allows 8",
            "ask for less, or agree on more",
        )


def production(boxed: Boxed) -> dict[str, tuple[str, str]]:
    """What a file is made of that is called as production is: by what, an old text and a new one."""
    said = boxed.box.file.read_text()
    node = next(each for each in said.splitlines() if each.startswith("  eu-west-1c-data:"))
    proxy = next(each for each in said.splitlines() if "to: eu-west-1c-data" in each)
    name = said.split("cluster_name: ")[1].split("}")[0]
    return {
        "cluster": (f"cluster_name: {name}", "cluster_name: shop-live"),
        "endpoint": ("endpoints: [", "endpoints: [https://search.prod.example:9200, "),
        "load balancer": ("load_balancers: {a: https://127.0.0.1", "load_balancers: {a: https://lb-prd"),
        "node": (node, node.replace("https://127", "https://production-127")),
        "Toxiproxy": ("api: http://127.0.0.1:8501", "api: http://prod-tp:8501"),
        "proxy": (proxy, proxy.replace("https://127.0.0.1", "https://tp.live")),
    }


def test_what_is_called_as_production_is_not_touched(boxed: Boxed, before: Path, out: Path, tell: Tell):
    says = "as production is: expected rung observe, and nothing above"
    for change in production(boxed).values():
        with agreed(boxed, change):
            refused(boxed, out, tell, says)
    file = boxed.box.file.with_name("shop-prod.yaml")
    give(file, boxed.box.file.read_text().replace("name: staging", "name: shop-prod", 1), 1)
    there = boxed.target.with_name(file.name)
    try:
        refused(boxed, out, tell, "the target shop-prod is called prod, as production is", target=there)
        code, output = boxed.chaos("recover", "--on", there)
        assert code == 2 and says in " ".join(output.split()), output
    finally:
        file.unlink()


# ---- what the cluster forbids ----------------------------------------------------------------------------


def test_two_zones_at_a_time_are_never_hit(boxed: Boxed, before: Path, out: Path, tell: Tell):
    more = "  both: {for: 5s, inject: {network.hang: {links: to zone b}}}\n"
    refused(
        boxed,
        out,
        tell,
        "phase both, zones hit: zones b and c could be hit at the same time: one at most",
        text=HELD % "5s" + more + LAST,
    )


def test_a_template_of_others_that_would_catch_our_index(boxed: Boxed, before: Path, out: Path, tell: Tell):
    settings = {"index": {"refresh_interval": "7s"}}
    new, old, empty = "/_index_template/greedy", "/_template/greedy", "/_index_template/nothing"
    for path, body in (
        (new, {"index_patterns": ["oschaos-*"], "template": {"settings": settings}}),
        (new, {"index_patterns": ["os*"], "template": {"mappings": {"dynamic": "false"}}}),
        (new, {"index_patterns": ["oschaos-*"], "data_stream": {}}),
        (new, {"index_patterns": ["*"], "priority": 1, "template": {"settings": settings}}),
        (old, {"index_patterns": ["*"], "order": 0, "settings": settings}),
    ):
        with boxed.owned() as lab:
            status, answer = administer(lab, "PUT", path, body)
            assert status == 200, answer
        try:
            says = "templates: a template of yours would catch oschaos-*: greedy (keep it from indices whose names"
            refused(boxed, out, tell, says)
            if "*" in body["index_patterns"]:  # the remedy that is told
                with boxed.owned() as lab:
                    nothing = {"index_patterns": ["oschaos-*"], "priority": 7}
                    assert administer(lab, "PUT", empty, nothing)[0] == 200
                code, output = boxed.chaos(*asked(boxed, out), "--dry-run")
                assert code == 0, output
        finally:
            with boxed.owned() as lab:
                administer(lab, "DELETE", empty)
                assert administer(lab, "DELETE", path)[0] == 200


def test_the_last_copies_of_others_are_spared_unless_their_owner_accepts(
    boxed: Boxed, before: Path, out: Path, tell: Tell
):
    only_there = {"number_of_shards": 1, "number_of_replicas": 0, "routing.allocation.include._name": "eu-west-1c-data"}
    bare = "no active copy elsewhere of 1 shard of archive"
    accepted = "accept_unavailable: [{index: archive, owner: team-search, until: %s}]\n"
    with boxed.owned() as lab:
        create_index(lab, "archive", only_there)
    try:
        with boxed.owned() as lab:
            assert await_green(lab, 60)[0]
        refused(boxed, out, tell, f"phase held, shards: {bare}", "or have their owners accept it: accept_unavailable")
        code, output = planned(boxed)
        assert code == 2 and bare in output, output
        with agreed(boxed, more=accepted % "2099-01-01"):
            code, output = planned(boxed)
            tell(accepted=output)
            assert code == 0 and "of archive none, which the file accepts" in output, output
        with agreed(boxed, more=accepted % "2020-01-01"):
            refused(boxed, out, tell, f"phase held, shards: {bare}")
            code, output = planned(boxed)
            assert code == 2 and bare in output, output
    finally:
        with boxed.owned() as lab:
            delete_index(lab, "archive")


def test_where_the_owner_has_taken_a_zone_out_no_other_is_hit(boxed: Boxed, before: Path, out: Path, tell: Tell):
    try:
        with boxed.owned() as lab:
            set_weights(lab, {"eu-west-1a": 1, "eu-west-1b": 0, "eu-west-1c": 1})
            decommission(lab, "eu-west-1b", no_delay=True)
        refused(
            boxed,
            out,
            tell,
            "decommission: eu-west-1b is decommissioned (SUCCESSFUL) (recommission it, or wait)",
            "zones b and c could be hit at the same time: one at most",
        )
    finally:
        with boxed.owned() as lab:
            recommission(lab, "eu-west-1b")
            set_weights(lab, None)
            assert await_green(lab, 180, stable=2.0)[0]


def test_where_a_cluster_manager_is_away_no_second_one_is_hit(boxed: Boxed, before: Path, out: Path, tell: Tell):
    with boxed.owned() as lab:
        leader = elected(lab)
        away = next(name for name in ("eu-west-1a-manager", "eu-west-1b-manager") if name != leader)
        status, answer = administer(lab, "POST", f"{EXCLUSIONS}?node_names={away}")
        assert status == 200, answer
    try:
        refused(boxed, out, tell, f"votes: {away} is without a vote (give it back: DELETE _cluster")
    finally:
        with boxed.owned() as lab:
            assert administer(lab, "DELETE", GIVE_BACK)[0] == 200
            lab.kill_node(away)

    def known_gone() -> bool:
        with boxed.owned() as lab:
            seen = newest(views(lab))
        return seen is not None and away not in seen.nodes

    try:
        assert wait_until(known_gone, 60)
        refused(
            boxed,
            out,
            tell,
            f"nodes: {away} is not there",
            "votes: 1 of 3 nodes of the voting configuration stay: no majority",
        )
    finally:
        with boxed.owned() as lab:
            lab.start_node(away)
            assert await_green(lab, 180)[0]


# ---- another cluster ----------------------------------------------------------------------------------------


@contextmanager
def swapped(boxed: Boxed, node: str) -> Iterator[None]:
    """Another cluster answers at a node's address, and takes whatever it is asked to do; nobody has asked any."""
    try:
        assert boxed.does("swap", node) == (0, "")
        yield
        assert boxed.does("swapped") == (0, "")
    finally:
        assert boxed.does("unswap", node) == (0, "")


def test_another_cluster_behind_an_address_is_left_alone(boxed: Boxed, before: Path, out: Path, tell: Tell):
    """An endpoint of the file, and an address that is a node's alone."""
    for node in ("eu-west-1a-data", "eu-west-1b-manager"):
        with swapped(boxed, node):
            output = refused(boxed, out, tell, "another-cluster-behind", "nothing may be done to it by this file")
            assert "is not there" not in output, "what another cluster says of its nodes is none of ours"
            code, output = boxed.chaos("recover", "--on", boxed.target)
            tell(recover=output.strip())
            assert code == 2 and "is another cluster: oschaos-another, another-cluster-behind" in output, output
    assert boxed.chaos("target", "check", boxed.target)[0] == 0


def test_another_cluster_that_comes_in_mid_run_ends_it(boxed: Boxed, before: Path, out: Path, tell: Tell):
    """At the elected manager's own address, through which all that a run changes and takes back goes."""
    more = "  more: {for: 2s, do: {weights: {a: 1, b: 2, c: 0}}}\n"
    with boxed.owned() as lab:
        leader = elected(lab)
    assert leader is not None
    running = begun(boxed, out, HELD % "60s" + more + LAST)
    with swapped(boxed, leader):
        code, output = running.end(240)
        tell(ended=output.strip())
        assert code == 4 and "Traceback" not in output, (code, output)
        assert "aborted: at https://" in output and "phase more" not in output, output
        assert "another cluster answers there: oschaos-another, another-cluster-behind" in output, output
        assert boxed.differs(before) == "", "it is undone through the other nodes, while the address still lies"
    aborted(out, "target", tell)


# ---- others ------------------------------------------------------------------------------------------------------


def test_one_run_at_a_time_whoever_begins_it_from_wherever(boxed: Boxed, before: Path, out: Path, tell: Tell):
    running = begun(boxed, out)
    held = boxed.seen()
    second = boxed.box.home(2) / "experiments" / "zone-out.yaml"
    code, output = boxed.chaos("run", second, "--on", boxed.target, office=2)
    tell(second=output.strip())
    assert code == 2 and "another run: run " in output and "is under way" in output, output
    assert "recover --on" in output and "Traceback" not in output, output
    code, output = boxed.chaos("recover", "--on", boxed.target, office=2)
    tell(recover=output.strip())
    assert code == 2 and "is alive" in output and "undone of run" not in output, output
    assert witness.differences(held, boxed.seen()) == [] and running.process.poll() is None
    running.signal(signal.SIGINT)
    code, output = running.end(240)
    assert code == 4, output
    assert boxed.differs(before) == ""
    aborted(out, None, tell)


def test_what_somebody_else_has_set_meanwhile_is_left_and_named(boxed: Boxed, before: Path, out: Path, tell: Tell):
    running = begun(boxed, out)
    with boxed.owned() as lab:
        assert administer(lab, "PUT", "/_cluster/settings", {"persistent": {ALLOCATION: "primaries"}})[0] == 200
    try:
        code, output = running.end(240)
        tell(left=output.strip())
        assert code == 6 and "left behind: " in output and "Traceback" not in output, (code, output)
        assert "somebody else has changed it since" in output and "primaries" in output, output
        assert findings(out)["clean"] is False
        with boxed.owned() as lab:
            _, now = administer(lab, "GET", "/_cluster/settings?flat_settings=true")
        assert now["persistent"][ALLOCATION] == "primaries"
    finally:
        with boxed.owned() as lab:
            administer(lab, "PUT", "/_cluster/settings", {"persistent": {ALLOCATION: None}})
        code, output = boxed.chaos("recover")
    assert code == 0 and "could not" not in output, output
    assert wait_until(lambda: boxed.differs(before) == "", 60, every=1.0), boxed.differs(before)


def traffic_of(boxed: Boxed) -> list[int]:
    noted = json.loads((boxed.box.folder / "box.json").read_text())["processes"]
    return [each["pid"] for name, each in noted.items() if name.startswith("traffic-")]


def test_others_who_starve_end_the_run_and_the_load_first(boxed: Boxed, before: Path, out: Path, tell: Tell):
    """Their traffic stops, and nobody says why: the run goes first."""
    limits = "foreign: {search: {slower: 50x, fewer: 60%}, indexing: {slower: 50x, fewer: 60%}, for: 4s}\n"
    with agreed(boxed, more=limits):
        running = begun(boxed, out)
        try:
            for pid in traffic_of(boxed):
                os.kill(pid, signal.SIGSTOP)
            code, output = running.end(240)
        finally:
            for pid in traffic_of(boxed):
                os.kill(pid, signal.SIGCONT)
    tell(ended=output.strip())
    assert code == 4 and "others had" in output and "and the file allows 60%" in output, (code, output)
    assert boxed.differs(before) == ""
    found = aborted(out, "foreign", tell)
    tell(seconds_until_the_load_had_stopped=found["abort"]["load_seconds"])
    (ceased,) = [event["t"] for event in events(out) if event["kind"] == "load.ceased"]
    (undone, *_) = [event["t"] for event in events(out) if event["kind"] == "fault.undo"]
    assert ceased < undone and found["abort"]["load_seconds"] < found["abort"]["seconds"]
