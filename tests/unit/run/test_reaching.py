"""How far experiments reach on a cluster that exists, phase by phase."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from chaos.base.errors import InvalidInput, Lacking
from chaos.commands.fis import priced
from chaos.commands.planning_on import planned, show
from chaos.definitions import Topology
from chaos.definitions.existing import RUNGS, Existing, load_existing
from chaos.faults.fault import Fault
from chaos.faults.moves import Move, Reversible
from chaos.opensearch.views import ShardCopy
from chaos.registry import PROVIDERS, load_experiment
from chaos.run import on_target, reaching
from chaos.run import plan as run_plan
from chaos.run.execution import offers_for
from chaos.run.noted import NotedLedger
from chaos.run.on_target import OnTarget
from chaos.targets.existing import draft
from chaos.targets.existing.seen import Identity, Seen, SeenNode, SeenProxy
from chaos.targets.existing.target import ExistingTarget

TODAY = date(2026, 11, 25)
URL = "http://127.0.0.1:9200"
NODES = [f"{zone}-{what}" for what in ("cm", "data") for zone in "abc"]


def there() -> Seen:
    roles = {"cm": ("cluster_manager",), "data": ("data", "ingest")}
    return Seen(
        identities={URL: Identity("u", "staging", "3.8.0")},
        silent={},
        attribute="zone",
        nodes=tuple(SeenNode(name, roles[name[2:]], name[0], "3.8.0", {"zone": name[0]}) for name in NODES),
        awareness=("zone",),
        forced=("a", "b", "c"),
        status="green",
        relocating=0,
        unassigned=0,
        weights={"a": 1, "b": 1, "c": 0},
        decommissioned={},
        excluded=(),
        settings={},
        copies=tuple(ShardCopy("orders", 0, zone == "a", "STARTED", f"{zone}-data") for zone in "abc"),
        voting=("a-cm", "b-cm", "c-cm"),
    )


def target(folder: Path, more: str = "rung: zone\nuntil: 2027-01-31\n") -> Existing:
    text = draft.draft(there(), [URL], {}, "staging").replace("rung: observe\n", more)
    for name in NODES:
        text = text.replace(f"  {name}: {{", f'  {name}: {{url: "{URL}", ')
    text += "notes: .opensearch-chaos\ncaps: {requests: 100/s, documents: 5000, copies: 9}\n"
    (folder / "staging.yaml").write_text(text)
    return load_existing(folder / "staging.yaml")


def plan(
    folder: Path,
    phases: str,
    *,
    more: str = "rung: zone\nuntil: 2027-01-31\n",
    seen: Seen | None = None,
    topology: str = "3az-standby",
) -> Any:
    file = folder / "asked.yaml"
    over = "{undo: all, for: 5s}" if "inject" in phases else "{for: 5s}"
    file.write_text(
        f"apiVersion: opensearch-chaos/v1\nname: asked\ntopology: {topology}\n"
        "load:\n  read: {rate: 10/s, good: ok within 1s}\n  write: {rate: 10/s, good: ok within 1s}\n"
        f"phases:\n{phases}\n  over: {over}\nexpect:\n  - {{acknowledged.lost: 0}}\n"
    )
    made = target(folder, more)
    return planned(load_experiment(file), made, seen or there(), 1, reaching.offers_on(PROVIDERS, made.written), TODAY)


def refused(made: Any) -> list[str]:
    return [f"{where}: {row.what}" for where, row in made.refused]


def test_what_goes_by_rest_and_leaves_a_copy_of_everything_is_not_forbidden(tmp_path: Path) -> None:
    made = plan(tmp_path, "  out: {do: {decommission: {zone: c, no_delay: true}}, for: 5s}")
    assert made.refused == [] and made.needs == "zone"
    assert [each.hit for each in made.reached] == [("c-cm", "c-data"), ("c-cm", "c-data")]


@pytest.mark.parametrize(
    ("phases", "what"),
    [
        ("  p: {do: {reroute: {}}, for: 5s}", "reroute"),
        ("  p: {do: {retry_failed: {}}, for: 5s}", "retry_failed"),
        ("  p: {do: {index_create: {index: archive}}, for: 5s}", "index_create"),
        ("  p: {inject: {node.restart: {target: role data, rolling: {wait: ready}}}, for: 5s}", "node.restart"),
    ],
)
def test_what_cannot_be_computed_to_be_safe_is_refused_by_its_name(tmp_path: Path, phases: str, what: str) -> None:
    made = plan(tmp_path, phases)
    assert [row for _, row in made.refused if row.what == what and "cannot be computed" in row.says], made.refused


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("rung: observe\n", "zone is needed, and the file allows observe"),
        ("rung: node\nuntil: 2027-01-31\n", "zone is needed, and the file allows node"),
        ("rung: zone\nuntil: 2026-11-24\n", "zone is needed, and zone ended on 2026-11-24"),
    ],
)
def test_the_file_decides_how_far(tmp_path: Path, more: str, says: str) -> None:
    made = plan(tmp_path, "  out: {do: {decommission: {zone: c, no_delay: true}}, for: 5s}", more=more)
    ((where, row),) = made.refused
    assert (where, row.what, row.says) == ("the file", "rung", says)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("requests: 100/s", "requests: 10/s", "caps"),
        ("documents: 5000", "documents: 50", "caps"),
        ("copies: 9", "copies: 8", "caps"),
        ("notes: .opensearch-chaos\n", "", "notes"),
        (f'  c-data: {{url: "{URL}", ', "  c-data: {", "addresses"),
    ],
)
def test_a_run_needs_more_of_the_file_than_a_look(tmp_path: Path, old: str, new: str, what: str) -> None:
    made = target(tmp_path)
    text = (tmp_path / "staging.yaml").read_text()
    assert old in text
    (tmp_path / "staging.yaml").write_text(text.replace(old, new))
    file = tmp_path / "asked.yaml"
    made = plan(tmp_path, "  calm: {for: 5s}")  # writes both files
    (tmp_path / "staging.yaml").write_text(text.replace(old, new))
    made = load_existing(tmp_path / "staging.yaml")
    made = planned(load_experiment(file), made, there(), 1, reaching.offers_on(PROVIDERS, made.written), TODAY)
    assert refused(made) == [f"the file: {what}"], made.refused


BALANCERS = f"load_balancers: {{a: '{URL}', b: '{URL}', c: '{URL}'}}\n"


@pytest.mark.parametrize(
    ("load", "balancers", "says"),
    [
        ("  client: {kind: pinned, node: a-data}\n", BALANCERS, "pinned to a node goes past"),
        ("  visibility: {rate: 2/s}\n", BALANCERS, "visibility is looked for on each node"),
        ("", f"load_balancers: {{a: '{URL}'}}\n", "clients of zone b have no load balancer in the file"),
        ("  client: {zones: [b]}\n", f"load_balancers: {{b: '{URL}'}}\n", None),
        ("  cas: {rate: 2/s}\n", BALANCERS, None),
    ],
)
def test_what_goes_past_the_load_balancers_is_refused(
    tmp_path: Path, load: str, balancers: str, says: str | None
) -> None:
    plan(tmp_path, "  calm: {for: 5s}")  # writes both files
    for name, old, new in (("asked", "phases:\n", load + "phases:\n"), ("staging", "caps:", balancers + "caps:")):
        file = tmp_path / f"{name}.yaml"
        file.write_text(file.read_text().replace(old, new))
    there_ = load_existing(tmp_path / "staging.yaml")
    offers = reaching.offers_on(PROVIDERS, there_.written)
    made = planned(load_experiment(tmp_path / "asked.yaml"), there_, there(), 1, offers, TODAY)
    found = [row.says for _, row in made.refused if row.what == "load balancers"]
    assert len(found) == (says is not None) and all(says in each for each in found if says), made.refused


def controlled(
    folder: Path, controller: str, phases: str = "  calm: {for: 5s}", *, copies: int = 15, more: str = "", **now: Any
) -> Any:
    """``copies``: what the file allows; ``copies_seen`` and whatever else is so on the cluster."""
    plan(folder, phases)  # writes both files
    text = (folder / "staging.yaml").read_text().replace("copies: 9", f"copies: {copies}")
    (folder / "staging.yaml").write_text(text + more)
    with open(folder / "asked.yaml", "a") as file:
        file.write(f"controller: {controller}\n")
    made = load_existing(folder / "staging.yaml")
    offers = reaching.offers_on(PROVIDERS, made.written)
    seen = replace(there(), **{("copies" if key == "copies_seen" else key): value for key, value in now.items()})
    return planned(load_experiment(folder / "asked.yaml"), made, seen, 1, offers, TODAY)


@pytest.mark.parametrize(
    ("controller", "options", "says"),
    [
        ("{}", {}, None),
        ("{act: false}", {}, None),
        ("{}", {"copies": 14}, "copies of shards: 15, and the file allows 14"),
        ("{}", {"more": BALANCERS}, "no failover controller steers clients that go through the load balancers"),
        ("{steer: false}", {"more": BALANCERS}, None),
    ],
)
def test_controllers_are_allowed_where_the_file_has_room_for_them(
    tmp_path: Path, controller: str, options: dict[str, Any], says: str | None
) -> None:
    made = controlled(tmp_path, controller, **options)
    assert [row.says for _, row in made.refused if says is None or says not in row.says] == []
    assert bool(made.refused) == (says is not None)
    assert made.needs == ("node" if "act: false" in controller else "zone")


def test_whichever_zone_controllers_may_take_out_must_be_dispensable(tmp_path: Path) -> None:
    orders = tuple(ShardCopy("orders", 0, zone == "a", "STARTED", f"{zone}-data") for zone in "abc")
    made = controlled(tmp_path, "{}", copies_seen=orders)
    assert made.refused == [] and len({name[0] for name in made.reached[0].hit}) == 1
    single = (*orders, ShardCopy("single", 0, True, "STARTED", "b-data"))
    made = controlled(tmp_path, "{}", copies_seen=single)
    assert "phase calm: shards" in refused(made) and made.reached[0].hit == ("b-cm", "b-data")
    assert controlled(tmp_path, "{act: false}", copies_seen=single).refused == []


def test_of_a_node_that_is_hit_controllers_may_take_out_all_of_its_zone(tmp_path: Path) -> None:
    slow = "  slow: {inject: {network.latency: {links: between node a-data and node c-data, delay: 1s}}, for: 5s}"
    alone = controlled(tmp_path, "{act: false}", slow)
    assert alone.reached[0].hit in (("a-data",), ("c-data",))
    made = controlled(tmp_path, "{}", slow)
    assert made.reached[0].hit in (("a-cm", "a-data"), ("c-cm", "c-data"))
    calm = controlled(tmp_path, "{}", "  calm: {for: 5s}", decommissioned={"b": "SUCCESSFUL"})
    assert calm.reached[0].hit == ("b-cm", "b-data"), "two never go"


API = "http://10.0.0.9:8474"
PROXIES = {f"{a}-{b}": {"from": [a], "to": b} for a in NODES for b in NODES if a != b}
LINKS = "between role data and zone a and role data and zone c"
LATE = f"  late: {{inject: {{network.latency: {{links: {LINKS}, delay: 1s}}}}, for: 5s}}"


def proxied(folder: Path, proxies: dict[str, Any], seen: Seen) -> Any:
    plan(folder, LATE)
    file = folder / "staging.yaml"
    file.write_text(file.read_text() + f"toxiproxies: {json.dumps([{'api': API, 'proxies': proxies}])}\n")
    made = load_existing(file)
    offers = reaching.offers_on(PROVIDERS, made.written)
    return planned(load_experiment(folder / "asked.yaml"), made, seen, 1, offers, TODAY)


def with_proxies(**changes: SeenProxy) -> Seen:
    calm = {name: SeenProxy(True, ()) for name in PROXIES}
    return replace(there(), proxies={"10.0.0.9:8474": calm | changes})


def test_links_are_broken_by_the_proxies_that_the_file_names(tmp_path: Path) -> None:
    made = proxied(tmp_path, PROXIES, with_proxies())
    assert made.refused == [] and made.needs == "node"
    (step,) = [each for each in made.steps if each.get("fault")]
    assert (
        step["provider"] == "toxiproxy" and len(step["moves"]) == 4 and all("10.0.0.9:8474" in m for m in step["moves"])
    )


def test_a_link_that_passes_no_proxy_of_the_file_is_refused_before_anything(tmp_path: Path) -> None:
    made = proxied(tmp_path, {k: v for k, v in PROXIES.items() if k != "c-data-a-data"}, with_proxies())
    assert refused(made) == ["phase late: network.latency"]
    assert "c-data to a-data pass no Toxiproxy that the file names" in made.refused[0][1].says
    (step,) = [each for each in made.steps if each.get("fault")]
    assert step["provider"] is None and "moves" not in step


@pytest.mark.parametrize(("url", "shown"), [(None, False), (API, True)])
def test_what_could_not_be_seen_to_hold_with_its_zone_out_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str | None, shown: bool
) -> None:
    """Nobody in the cluster can ask nodes of a zone that is out; their proxies can be asked, where they are reached."""
    out = "\n  out: {do: {decommission: {zone: c, no_delay: true}}, for: 5s}"
    monkeypatch.setattr(sys.modules[__name__], "LATE", LATE + out)
    proxies = {name: {**each, **({"url": url} if url else {})} for name, each in PROXIES.items()}
    made = proxied(tmp_path, proxies, with_proxies())
    said = [row.says for where, row in made.refused if where == "phase out" and row.what == "network.latency"]
    assert said == ([] if shown else ["with zone c decommissioned nothing would show whether it still holds"])


def test_where_the_file_names_no_toxiproxies_that_is_told_once(tmp_path: Path) -> None:
    made = plan(tmp_path, LATE)
    assert refused(made) == ["faults: no provider"] * 4  # a reason each
    reasons = ("names no Toxiproxies", "names no hosts", "no image for helper pods", "says nothing of AWS FIS")
    assert all(why in row.says for why, (_, row) in zip(reasons, made.refused, strict=True))


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (with_proxies(**{"a-cm-b-cm": SeenProxy(False, ())}), "a-cm-b-cm is switched off"),
        (with_proxies(**{"a-cm-b-cm": SeenProxy(True, ("slow",))}), "a-cm-b-cm has the toxic slow"),
        (with_proxies(**{"a-cm-b-cm": SeenProxy(True, ("oschaos-f1-upstream",))}), "has the toxic oschaos-f1-upstream"),
        (replace(there(), proxies={"10.0.0.9:8474": "cannot be reached"}), "cannot be reached"),
        (replace(there(), proxies={"10.0.0.9:8474": {}}), "no proxy a-cm-a-data"),
    ],
)
def test_proxies_that_somebody_else_uses_or_that_are_not_there_keep_a_run_away(
    tmp_path: Path, seen: Seen, says: str
) -> None:
    made = proxied(tmp_path, PROXIES, seen)
    assert refused(made) == ["the cluster: Toxiproxy 10.0.0.9:8474"] and says in made.refused[0][1].says


def test_a_second_zone_while_one_is_out_is_forbidden(tmp_path: Path) -> None:
    out = "  out: {do: {decommission: {zone: c, no_delay: true}}, for: 5s}\n"
    made = plan(tmp_path, out + "  more: {inject: {node.kill: {target: node b-data}}, for: 5s}")
    assert "phase more: zones hit" in refused(made) and "phase out: zones hit" not in refused(made)
    assert made.reached[1].hit == ("b-data", "c-cm", "c-data")
    back = "  back: {do: {recommission: {zone: c}}, for: 5s}\n"
    made = plan(tmp_path, out + back + "  more: {inject: {node.kill: {target: node b-data}}, for: 5s}")
    assert not any("zones hit" in each for each in refused(made))
    now = replace(there(), decommissioned={"a": "SUCCESSFUL"})
    assert "phase out: zones hit" in refused(plan(tmp_path, out, seen=now)), "one that somebody else took out counts"


def test_faults_come_before_a_zone_comes_back(tmp_path: Path) -> None:
    out = "  out: {do: {decommission: {zone: c, no_delay: true}}, for: 5s}\n"
    back = "  back: {inject: {node.kill: {target: node b-data}}, do: {recommission: {zone: c}}, for: 5s}"
    made = plan(tmp_path, out + back)
    assert "phase back: zones hit" in refused(made) and made.reached[1].hit == ("b-data", "c-cm", "c-data")
    assert made.reached[2].hit == ()


def test_the_last_copy_and_the_majority_are_kept(tmp_path: Path) -> None:
    kill = "  gone: {inject: {node.kill: {target: node c-data}}, for: 5s}"
    lone = replace(there(), copies=(ShardCopy("orders", 0, True, "STARTED", "c-data"),))
    assert "phase gone: shards" in refused(plan(tmp_path, kill, seen=lone))
    file = "rung: zone\nuntil: 2027-01-31\naccept_unavailable:\n  - {index: orders, owner: us, until: 2027-01-01}\n"
    assert "phase gone: shards" not in refused(plan(tmp_path, kill, more=file, seen=lone))
    over = file.replace("2027-01-01", "2026-11-01")
    assert "phase gone: shards" in refused(plan(tmp_path, kill, more=over, seen=lone))
    made = plan(tmp_path, "  gone: {inject: {cluster_manager.quorum_loss: {}}, for: 5s}")
    assert "phase gone: votes" in refused(made)


@pytest.mark.parametrize(
    ("target", "to", "refusal"),
    [
        ("node c-data", "to: flood", "take no more writes, on any node: orders"),
        ("node c-data", "to: enospc", "take no more writes, on any node: orders"),
        ("node c-data", "to: high", "have copies that are moved away: orders"),
        ("node c-data", "fill: 89%", "have copies that are moved away: orders"),
        ("node c-data", "to: low", None),
        ("node c-data", "fill: 60%", None),
        ("node c-cm", "to: enospc", None),
        ("elected cluster manager", "to: enospc", None),
    ],
)
def test_a_disk_is_not_filled_to_where_indices_of_others_suffer(
    tmp_path: Path, target: str, to: str, refusal: str | None
) -> None:
    notes = tuple(ShardCopy(".opensearch-chaos", 0, zone == "a", "STARTED", f"{zone}-data") for zone in "ab")
    seen = replace(there(), copies=(*(there().copies or ()), *notes))
    phases = f"  full: {{inject: {{disk.full: {{target: {target}, {to}}}}}, for: 5s}}"
    made = plan(tmp_path, phases, seen=seen, topology="3az-disks")
    said = [row.says for where, row in made.refused if (where, row.what) == ("phase full", "disks")]
    assert len(said) == (refusal is not None) and all(each.endswith(str(refusal)) for each in said)
    accepted = "accept_unavailable:\n  - {index: orders, owner: us, until: 2027-01-01}\n"
    made = plan(tmp_path, phases, more=f"rung: node\nuntil: 2027-01-31\n{accepted}", seen=seen, topology="3az-disks")
    assert "phase full: disks" not in refused(made)


def test_a_run_s_own_index_is_none_of_others_on_a_disk_that_it_fills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tuple(ShardCopy(".opensearch-chaos", 0, zone == "a", "STARTED", f"{zone}-data") for zone in "ab")
    phases = "  calm: {for: 5s}\n  full: {inject: {disk.full: {target: node c-data, to: flood}}, for: 5s}"
    before = replace(there(), copies=notes)
    made = plan(tmp_path, phases, seen=before, topology="3az-disks")
    assert "phase full: disks" not in refused(made)
    beside = beside_run(tmp_path, made, monkeypatch)
    mine = on_target.index_of("run-1", "oschaos-")
    for index, says in ((mine, None), ("oschaos-2-load", "take no more writes, on any node: oschaos-2-load")):
        now = replace(
            before,
            copies=(
                *notes,
                ShardCopy(index, 0, True, "STARTED", "c-data"),
                ShardCopy(index, 0, False, "STARTED", "a-data"),
            ),
        )
        monkeypatch.setattr(on_target, "seen_of", lambda *_, now=now, **__: now)
        why = beside.forbids(1)
        assert why is None if says is None else says in str(why)


def test_whoever_may_be_elected_counts_at_worst(tmp_path: Path) -> None:
    kill = "  gone: {inject: {node.kill: {target: elected cluster manager}}, for: 5s}"
    assert refused(plan(tmp_path, kill)) == ["faults: no provider"] * 4  # neither a host, a pod nor a hook, nor FIS
    two = replace(there(), voting=("a-cm", "b-cm"))
    made = plan(tmp_path, kill, seen=two)
    assert "phase gone: votes" in refused(made) and made.reached[0].hit[0] in ("a-cm", "b-cm")


def test_links_around_a_zone_hit_that_zone_and_links_between_two_may_hit_either(tmp_path: Path) -> None:
    slow = "  slow: {inject: {network.latency: {links: %s, delay: 1s}}, for: 5s}"
    made = plan(tmp_path, slow % "around zone c")
    assert made.reached[0].hit == ("c-cm", "c-data") and made.reached[0].steps[0].rung == "zone"
    made = plan(tmp_path, slow % "between node a-data and node c-data")
    assert made.reached[0].steps[0].hits == (frozenset({"a-data"}), frozenset({"c-data"}))
    assert made.reached[0].steps[0].rung == "node"
    assert "phase slow: zones hit" in refused(plan(tmp_path, slow % "between role data and role data"))


@pytest.mark.parametrize(
    ("links", "hits"),
    [
        ("between node a-cm and role data", [{"a-cm", "a-data"}, {"a-data", "b-data", "c-data"}]),
        ("between node a-cm and (role data and zone c)", [{"a-cm"}, {"c-data"}]),
        ("between node a-cm and node b-cm", [{"a-cm"}, {"b-cm"}]),
        ("between zone a and zone c", [{"a-cm", "a-data"}, {"c-cm", "c-data"}]),
        ("around zone c", [{"c-cm", "c-data"}]),
        ("to zone c", [{"c-cm", "c-data"}]),
        ("around node a-cm", [{"a-cm", "a-data"}, {"a-cm"}]),
    ],
)
def test_an_elected_manager_that_keeps_its_majority_drops_all_that_it_cannot_reach(
    tmp_path: Path, links: str, hits: list[set[str]]
) -> None:
    made = plan(tmp_path, f'  cut: {{inject: {{network.drop: {{links: "{links}"}}}}, for: 5s}}')
    assert made.reached[0].steps[0].hits == tuple(map(frozenset, hits))
    assert ("phase cut: zones hit" in refused(made)) is (hits[-1] == {"a-data", "b-data", "c-data"})


def test_a_zone_that_is_cut_off_with_its_clients_is_one_zone(tmp_path: Path) -> None:
    made = plan(tmp_path, "  dark: {inject: {zone.isolation: {zone: c}}, for: 5s}")
    assert made.reached[0].hit == ("c-cm", "c-data") and not any("zones hit" in each for each in refused(made))
    cut = "  cut: {inject: {network.drop: {links: from clients of zone a to node b-data}}, for: 5s}"
    assert plan(tmp_path, cut).reached[0].hit == ("b-data",)  # at worst


def test_a_restart_is_over_when_it_has_been_made(tmp_path: Path) -> None:
    first = "  first: {inject: {node.restart: {target: zone a, name: one}}, for: 5s}\n"
    made = plan(tmp_path, first + "  second: {inject: {node.restart: {target: zone b, name: two}}, for: 5s}")
    assert not any("zones hit" in each for each in refused(made))
    assert [each.hit for each in made.reached] == [("a-cm", "a-data"), ("b-cm", "b-data"), ()]


TAKE = "  take: {do: {exclude_votes: {target: %s}}, for: 5s}\n"
GIVE = "  give: {do: {include_votes: {}}, for: 5s}\n"


def test_a_manager_without_a_vote_may_go_and_another_one_may_not(tmp_path: Path) -> None:
    made = plan(tmp_path, TAKE % "node a-cm" + WAITS % ", restarts: zone a")
    assert made.refused == [] and made.needs == "zone"
    assert [each.voteless for each in made.reached] == [("a-cm",)] * 3
    made = plan(tmp_path, TAKE % "node a-cm" + WAITS % ", restarts: node b-cm")
    assert refused(made) == ["phase roll: votes"]
    assert made.refused[0][1].says == "without a-cm 1 of 2 nodes of the voting configuration stay: no majority"
    assert refused(plan(tmp_path, TAKE % "node a-cm" + GIVE + WAITS % ", restarts: node b-cm")) == []
    together = (
        "  both: {do: {exclude_votes: {target: node a-cm}}, during: {manual: it, within: 1m, restarts: node b-cm}}"
    )
    assert refused(plan(tmp_path, together)) == ["phase both: votes"]


def test_an_index_is_not_copied_on_a_cluster_of_others(tmp_path: Path) -> None:
    made = plan(tmp_path, "  copy: {do: {reindex: {settings: {replication.type: SEGMENT}}}, for: 5s}")
    (row,) = [row for phase, row in made.refused if "reindex" in row.what]
    assert row.says == "a copy of an index of any size on a cluster of others is not there yet"


def test_faults_come_before_votes_are_given_back(tmp_path: Path) -> None:
    back = "  back: {inject: {node.kill: {target: node b-cm}}, do: {include_votes: {}}, for: 5s}"
    assert "phase back: votes" in refused(plan(tmp_path, TAKE % "node a-cm" + back))
    at_once = "  back: {inject: {node.kill: {target: node b-cm}}, do: {%s, include_votes: {}}, for: 5s}"
    assert "phase back: votes" in refused(plan(tmp_path, at_once % "exclude_votes: {target: node a-cm}"))
    later = "  then: {inject: {node.kill: {target: node b-cm}}, for: 5s}"
    made = plan(tmp_path, TAKE % "node a-cm" + GIVE + later)
    assert not any("votes" in each for each in refused(made)) and made.reached[1].voteless == ()


def test_whoever_may_be_elected_may_be_without_a_vote(tmp_path: Path) -> None:
    made = plan(tmp_path, TAKE % "elected cluster manager" + WAITS % ", restarts: node b-cm")
    assert refused(made) == ["phase roll: votes"] and made.reached[1].voteless != ("b-cm",)
    assert refused(plan(tmp_path, TAKE % "elected cluster manager" + WAITS % ", restarts: node b-data")) == []


def test_votes_are_the_whole_cluster_s_and_need_its_rung(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = plan(tmp_path, TAKE % "node a-cm" + GIVE, more="rung: node\nuntil: 2027-01-31\n")
    assert refused(made) == ["the file: rung"]
    assert list(made.rungs[1].refused) == [
        "phase take: take the votes of node a-cm away (zone)",
        "phase give: give the votes back (zone)",
    ]
    inverse = [step["inverse"] for step in made.steps if step["step"].startswith("do ")]
    assert inverse == ["votes are given back, if nobody else has taken any away since", None]
    show(made)
    shown = capsys.readouterr().out
    assert "hits at worst: no node, a-cm without a vote (rung zone)" in shown
    assert "without a-cm 2 of 2 nodes of the voting configuration stay" in shown


def test_votes_that_others_took_keep_a_plan_away(tmp_path: Path) -> None:
    made = plan(tmp_path, TAKE % "node a-cm", seen=replace(there(), excluded=("c-cm",)))
    assert refused(made) == ["the cluster: votes"]


def test_votes_that_others_take_or_give_back_meanwhile_end_the_run_before_its_next_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = beginning(
        tmp_path,
        "  calm: {for: 5s}\n" + TAKE % "node a-cm" + GIVE + TAKE.replace("take", "anew") % "node a-cm",
        monkeypatch,
    )

    def ask(number: int, *excluded: str, **more: Any) -> str | None:
        now = replace(there(), **{"excluded": excluded, **more})
        monkeypatch.setattr(on_target, "seen_of", lambda *_, **__: now)
        return beside.forbids(number)

    assert ask(1) is None
    assert ask(1, "c-cm") == "votes: c-cm has none, and that is none of our doing"
    assert ask(1, excluded=None, unread={"votes": "403"}) == "votes: 403"
    taken = {"nodes": ["a-cm"]}
    (entry,) = beside.ledger.intend("a1", [Reversible(Move("votes.exclude", taken), Move("votes.include", taken))])
    assert ask(2, "a-cm", voting=("b-cm",)) is None
    assert ask(2, "a-cm", "c-cm") == "votes: c-cm has none, and that is none of our doing"
    assert ask(2) == "votes: a-cm has its vote again, and that is none of our doing"
    beside.ledger.note(entry, "undone")
    assert ask(2, "c-cm") is None  # it changes none; the watch over the configuration says who did
    assert ask(3, "a-cm") == "votes: a-cm has none, and that is none of our doing"


SET = "  set: {inject: {settings.change: {scope: %s, settings: {%s}}}, for: 5s}"


def test_a_setting_of_the_cluster_is_changed_only_where_the_file_names_it(tmp_path: Path) -> None:
    made = plan(tmp_path, SET % ("cluster", "cluster.routing.allocation.enable: none"))
    assert refused(made) == ["phase set: settings.change"] and made.needs == "zone"
    allowed = "rung: zone\nuntil: 2027-01-31\nsettings: [cluster.routing.allocation.enable]\n"
    assert refused(plan(tmp_path, SET % ("cluster", "cluster.routing.allocation.enable: none"), more=allowed)) == []
    made = plan(tmp_path, SET % ("index", "translog.durability: async"), more="rung: node\nuntil: 2027-01-31\n")
    assert refused(made) == [] and made.needs == "node"
    other = SET.replace("scope: %s", "scope: %s, index: orders") % ("index", "translog.durability: async")
    made = plan(tmp_path, other)
    assert "not the run's own" in next(row.says for _, row in made.refused if row.what == "settings.change")


def test_what_nobody_can_do_there_is_told_without_the_moves_by_which_a_lab_does_it(tmp_path: Path) -> None:
    made = plan(tmp_path, "  gone: {inject: {node.kill: {target: node c-data}}, for: 5s}")
    step = next(step for step in made.steps if "inject" in step["step"])
    assert step["provider"] is None and "moves" not in step and step["targets"] == ["c-data"]
    assert [where for where, _ in made.refused] == ["faults"] * 4
    says = [row.says for _, row in made.refused]
    assert "no hosts" in says[0] and "no pods" in says[1] and "no hook" in says[2] and "nothing of AWS FIS" in says[3]


def test_a_cluster_that_is_not_as_its_file_says_is_planned_on_by_nobody(tmp_path: Path) -> None:
    yellow = plan(tmp_path, "  calm: {for: 5s}", seen=replace(there(), status="yellow"))
    assert refused(yellow) == ["the cluster: health"]
    other = {URL: Identity("another", "staging", "3.8.0")}
    assert refused(plan(tmp_path, "  calm: {for: 5s}", seen=replace(there(), identities=other))) == [
        f"the cluster: endpoint {URL}"
    ]
    unread = replace(there(), copies=None, voting=None, unread={"shards": "GET /_cluster/state answered 403"})
    made = plan(tmp_path, "  out: {do: {decommission: {zone: c, no_delay: true}}, for: 5s}", seen=unread)
    assert {"phase out: votes", "phase out: shards"} <= set(refused(made)) and made.to_json()["refused"]


# ---- what each rung would refuse ------------------------------------------------------------------------------


DECOMMISSION = "  out: {do: {decommission: {zone: c, no_delay: true}}, for: 5s}"
KILL = "  gone: {inject: {node.kill: {target: node c-data}}, for: 5s}"
OWN = "  set: {inject: {settings.change: {scope: index, settings: {translog.durability: async}}}, for: 5s}"


@pytest.mark.parametrize(
    ("phases", "at_node"),
    [
        ("  calm: {for: 5s}", []),
        (OWN, []),
        (KILL, []),
        (DECOMMISSION, ["phase out: decommission zone c without delay (zone)"]),
        (f"{KILL}\n{DECOMMISSION}", ["phase out: decommission zone c without delay (zone)"]),
        ("  dark: {inject: {node.kill: {target: zone c}}, for: 5s}", ["phase dark: kill zone c (zone)"]),
    ],
)
@pytest.mark.parametrize("rung", ["rung: observe\n", "rung: plan\n", "rung: zone\nuntil: 2027-01-31\n"])
def test_what_each_rung_would_refuse_is_said_whatever_the_file_s_is(
    tmp_path: Path, phases: str, at_node: list[str], rung: str
) -> None:
    made = plan(tmp_path, phases, more=rung)
    at = {each.rung: list(each.refused) for each in made.rungs}
    assert list(at) == ["plan", "node", "zone"]
    assert at["plan"][0] == "an index of the run's own (node)" and at["node"] == at_node and at["zone"] == []
    assert set(at["node"]) <= set(at["plan"])
    for name, refused in at.items():
        assert (refused == []) == (RUNGS.index(name) >= RUNGS.index(made.needs))
    assert made.to_json()["rungs"][1] == {"rung": "node", "refused": at_node}


def test_each_rung_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = "\n".join(f"  w{n}: {{do: {{weights: {{a: 1, b: {n + 1}, c: 0}}}}, for: 5s}}" for n in range(5))
    show(plan(tmp_path, out))
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if "at rung" in line]
    assert [line.split(":")[0] for line in lines] == ["at rung plan", "at rung node", "at rung zone"]
    assert lines[1].startswith(
        "at rung node: refused, phase w0: set the zones' weights to a 1, b 1, c 0 (zone); phase w1"
    )
    assert lines[1].endswith("; and 2 more") and lines[2] == "at rung zone: nothing is refused"
    show(plan(tmp_path, KILL))
    assert "at rung zone: nothing is refused for the rung; the other reasons stay" in capsys.readouterr().out


def test_a_name_of_production_and_strangers_are_refused_at_every_rung(tmp_path: Path) -> None:
    made = plan(tmp_path, DECOMMISSION)
    identity = made.target.written.identity.model_copy(update={"cluster_name": "search-prod"})
    named = made.target.model_copy(update={"written": made.target.written.model_copy(update={"identity": identity})})
    for found in (
        reaching.at_rungs(made.reached, made.experiment, named),
        reaching.at_rungs(None, made.experiment, named),
    ):
        assert all("search-prod is called prod, as production is" in each.refused[0] for each in found)
    unknown = reaching.at_rungs(None, made.experiment, made.target)
    assert [each.refused for each in unknown] == [("it is not known who is meant",)] * 3


# ---- what is lacking, and what is forbidden today ------------------------------------------------------------


@pytest.mark.parametrize(
    ("phases", "more", "change", "never"),
    [
        (DECOMMISSION, "rung: node\nuntil: 2027-01-31\n", {}, []),
        (DECOMMISSION, "rung: zone\nuntil: 2027-01-31\n", {"voting": ("c-cm", "a-cm")}, []),
        (KILL, "rung: observe\n", {}, ["no provider"]),
        (KILL, "rung: observe\n", {"status": "yellow"}, []),
        (DECOMMISSION, "rung: zone\nuntil: 2027-01-31\n", {"weights": {"a": 1, "b": 1, "c": 1}}, ["weights"]),
        (DECOMMISSION, "rung: zone\nuntil: 2027-01-31\n", {"weights": None, "unread": {"weights": "403"}}, []),
        (
            f"{DECOMMISSION}\n  two: {{inject: {{node.kill: {{target: node b-data}}}}, for: 5s}}",
            "rung: zone\nuntil: 2027-01-31\n",
            {},
            ["zones hit", "no provider"],
        ),
    ],
)
def test_what_the_cluster_lacks_is_told_apart_from_what_forbids_it_today(
    tmp_path: Path, phases: str, more: str, change: dict[str, Any], never: list[str]
) -> None:
    made = plan(tmp_path, phases, more=more, seen=replace(there(), **change))
    assert made.refused and list(dict.fromkeys(row.what for row in made.never)) == never


def test_nobody_is_named_where_it_is_not_known_who_is_meant(tmp_path: Path) -> None:
    fewer = replace(there(), nodes=there().nodes[:5])
    text = draft.draft(fewer, [URL], {}, "staging")
    (tmp_path / "staging.yaml").write_text(text)
    experiment = load_experiment(Path("experiments/zone-network-slowdown.yaml"))
    made = load_existing(tmp_path / "staging.yaml")
    made = planned(experiment, made, fewer, 1, reaching.offers_on(PROVIDERS, made.written), TODAY)
    assert made.steps == [] and made.reached == [] and "what the experiment needs: nodes" in refused(made)
    assert isinstance(made.experiment.topology, Topology)


ALLOCATION = "cluster.routing.allocation.enable"
SETTINGS = f"rung: zone\nuntil: 2027-01-31\nsettings: [{ALLOCATION}]\n"
WAITS = "  roll: {during: {command: [date], within: 1m%s}}"


def test_what_nobody_says_of_others_cannot_be_computed(tmp_path: Path) -> None:
    for phases in (WAITS % "", "  roll: {during: {manual: an upgrade, within: 1m}}"):
        ((where, row),) = plan(tmp_path, phases).refused
        assert (where, row.says) == ("phase roll", "what it does to the cluster cannot be computed")
        assert "restarts" in row.remedy and "changes" in row.remedy


@pytest.mark.parametrize(
    ("restarts", "rung", "hits"),
    [
        ("node c-data", "node", [{"c-data"}]),
        ("role data", "zone", [{"a-data"}, {"b-data"}, {"c-data"}]),
        ("zone c", "zone", [{"c-cm"}, {"c-data"}]),
    ],
)
def test_others_hit_any_one_of_the_nodes_that_they_restart(
    tmp_path: Path, restarts: str, rung: str, hits: list[set[str]]
) -> None:
    phases = WAITS % f", restarts: {restarts}"
    made = plan(tmp_path, phases)
    assert made.refused == [] and made.needs == rung
    (step,) = made.reached[0].steps
    assert step.hits == tuple(map(frozenset, hits)) and len(made.reached[0].hit) == 1
    assert made.reached[1].hit == ()  # they are back
    less = plan(tmp_path, phases, more="rung: node\nuntil: 2027-01-31\n")
    assert refused(less) == ([] if rung == "node" else ["the file: rung"])


def test_a_node_that_is_all_of_its_zone_is_a_zone(tmp_path: Path) -> None:
    made = plan(tmp_path, WAITS % ", restarts: node c-data")
    (c_data,) = (node for node in made.experiment.topology.nodes if node.name == "c-data")
    alone = made.experiment.topology.model_copy(
        update={"nodes": tuple(n for n in made.experiment.topology.nodes if n.zone != "c" or n is c_data)}
    )
    experiment = made.experiment.model_copy(update={"topology": alone})
    offers = reaching.offers_on(PROVIDERS, made.target.written)
    found = reaching.reached(experiment, made.target, there(), 1, offers, TODAY)
    assert found[0].steps[0].rung == "zone"


def test_others_count_beside_what_is_out_and_need_copies_and_votes_as_faults_do(tmp_path: Path) -> None:
    out = "  out: {do: {decommission: {zone: c, no_delay: true}}, for: 5s}\n"
    made = plan(tmp_path, out + WAITS % ", restarts: node b-data")
    assert "phase roll: zones hit" in refused(made)
    lone = replace(there(), copies=(ShardCopy("orders", 0, True, "STARTED", "c-data"),))
    assert "phase roll: shards" in refused(plan(tmp_path, WAITS % ", restarts: role data", seen=lone))
    two = replace(there(), voting=("a-cm", "b-cm"))
    assert "phase roll: votes" in refused(plan(tmp_path, WAITS % ", restarts: role cluster_manager", seen=two))


def test_others_change_settings_that_the_file_names_alone(tmp_path: Path) -> None:
    made = plan(tmp_path, WAITS % f", changes: [{ALLOCATION}]")
    assert (
        refused(made) == ["phase roll: during"] and f"does not allow to change {ALLOCATION}" in made.refused[0][1].says
    )
    made = plan(tmp_path, WAITS % f", changes: [{ALLOCATION}]", more=SETTINGS)
    assert made.refused == [] and made.needs == "zone"


# ---- asked again before each phase -------------------------------------------------------------------------


def test_nodes_that_others_restart_may_be_away_then_and_at_the_next_look(asking: Any) -> None:
    ask = asking(WAITS % ", restarts: role data" + "\n" + SET % ("index", "refresh_interval: 2s"))

    def without(*names: str) -> Seen:
        return replace(there(), nodes=tuple(node for node in there().nodes or () if node.name not in names))

    assert ask(there(), 0) is None and ask(without("b-data"), 0) is None
    assert ask(without("b-data"), 1) is None and ask(without("a-data"), 1) is None
    assert ask(without("b-cm"), 1) == "b-cm left, and that is none of our doing"


OUT = "  calm: {for: 5s}\n  out: {do: {decommission: {zone: c, no_delay: true}}, for: 5s}"


@pytest.fixture
def asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Phases → (what is seen now, the number of a phase) → why it is not allowed, of a run that began well."""

    def of(phases: str) -> Any:
        beside = beginning(tmp_path, phases, monkeypatch)

        def ask(seen: Seen, number: int) -> str | None:
            monkeypatch.setattr(on_target, "seen_of", lambda *_, **__: seen)
            return beside.forbids(number)

        return ask

    return of


def beginning(
    folder: Path, phases: str, monkeypatch: pytest.MonkeyPatch, *, more: str = "", seen: Seen | None = None
) -> OnTarget:
    """What is beside a run that nothing forbids."""
    made = plan(folder, phases, more=f"rung: zone\nuntil: 2027-01-31\n{more}", seen=seen)
    assert made.refused == [], made.refused
    return beside_run(folder, made, monkeypatch)


def beside_run(folder: Path, made: Any, monkeypatch: pytest.MonkeyPatch) -> OnTarget:
    """What is beside a run of a plan."""
    target = load_existing(folder / "staging.yaml")
    lab = ExistingTarget(target, made.experiment.topology)
    offers = reaching.offers_on(PROVIDERS, target.written)
    ledger = NotedLedger(folder / "ledger.jsonl", lambda says: None, "run-1")
    monkeypatch.setattr(on_target, "today", lambda: TODAY)
    return OnTarget(lab, made.experiment, 1, offers, ledger, lambda says: None)


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """(what is seen now, changes of the file) → why the phase “out” of a run that began well is not allowed."""
    beside = beginning(tmp_path, OUT, monkeypatch)

    def ask(seen: Seen | InvalidInput, *changes: tuple[str, str]) -> str | None:
        def look(*_: Any, **__: Any) -> Seen:
            if isinstance(seen, InvalidInput):
                raise seen
            return seen

        monkeypatch.setattr(on_target, "seen_of", look)
        text = (tmp_path / "staging.yaml").read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "staging.yaml").write_text(text)
        return beside.forbids(1)

    return ask


def test_what_has_not_changed_is_allowed_and_what_our_own_faults_did_is_no_reason(asked: Any) -> None:
    assert asked(there()) is None
    assert asked(replace(there(), status="yellow", relocating=3)) is None
    c_is_out = replace(there(), decommissioned={"c": "SUCCESSFUL"})
    gone = tuple(node for node in there().nodes or () if node.zone != "c")
    assert asked(replace(c_is_out, nodes=gone, voting=("a-cm", "b-cm", "an id"))) is None


def test_nodes_of_a_zone_that_controllers_took_out_may_be_on_their_way_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = beginning(tmp_path, OUT, monkeypatch)
    some = tuple(node for node in there().nodes or () if node.name != "b-data")
    monkeypatch.setattr(on_target, "seen_of", lambda *_, **__: replace(there(), nodes=some))
    assert "b-data left, and that is none of our doing" in str(beside.forbids(0))
    beside.taken_out = lambda: frozenset({"b"})
    assert beside.forbids(0) is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"identities": {URL: Identity("other", "staging", "3.8.0")}}, "is another cluster: staging, other"),
        (
            {"nodes": tuple(node for node in there().nodes if node.name != "a-data")},
            "a-data left, and that is none of our doing",
        ),
        ({"decommissioned": {"a": "SUCCESSFUL"}}, "zones a and c could be hit at the same time"),
        ({"voting": ("a-cm", "c-cm")}, "no majority"),
        (
            {"copies": (ShardCopy("orders", 0, True, "STARTED", "c-data"),)},
            "no active copy elsewhere of 1 shard of orders",
        ),
        ({"copies": None, "unread": {"shards": "GET /_cluster/state answered 403"}}, "answered 403"),
        ({"nodes": None, "unread": {"nodes": "GET /_nodes answered 403"}}, "answered 403"),
    ],
)
def test_what_is_so_now_and_forbids_it_is_named(asked: Any, change: dict[str, Any], says: str) -> None:
    assert says in asked(replace(there(), **change))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("rung: zone", "rung: node"), "the file allows node"),
        (("until: 2027-01-31", "until: 2026-11-24"), "zone ended on 2026-11-24"),
        (("cluster_uuid: u", "cluster_uuid: v"), "is another cluster"),
        (("zone: c, roles: [data, ingest]", "zone: b, roles: [data, ingest]"), "names other nodes"),
        (("rung: zone", "rang: zone"), "rang"),
    ],
)
def test_the_file_is_read_anew(asked: Any, change: tuple[str, str], says: str) -> None:
    assert says in asked(there(), change)


def test_a_cluster_that_cannot_be_looked_at_is_not_touched(asked: Any) -> None:
    assert asked(InvalidInput("http://127.0.0.1:9200 cannot be reached: refused")).startswith("http://127.0.0.1:9200")


def test_what_rest_could_do_and_nobody_may_do_there_yet_is_refused_by_name(tmp_path: Path) -> None:
    made = plan(tmp_path, "  busy: {inject: {cluster_manager.task_storm: {rate: 5/s, what: mappings}}, for: 5s}")
    assert made.refused and refused(made) == ["faults: no provider"]
    assert "what it takes from requests of others is not watched" in made.refused[0][1].says
    step = next(step for step in made.steps if "inject" in step["step"])
    assert step["provider"] is None and "moves" not in step
    offers = offers_for(made.experiment, PROVIDERS, kind="existing")
    assert offers.reasons("cluster_manager.task_storm") and not offers.reasons("settings.change")


# ---- by AWS FIS -------------------------------------------------------------------------------------------

FIS = """fis:
  region: eu-west-1
  account: "123456789012"
  role: arn:aws:iam::123456789012:role/chaos
  longest: 10m
"""


def by_fis(folder: Path, fault: str) -> Any:
    return plan(folder, f"  hit: {{inject: {{{fault}}}, for: 5s}}", more=f"rung: zone\nuntil: 2027-01-31\n{FIS}")


@pytest.mark.parametrize(
    ("fault", "minutes", "hit"),
    [
        ("network.latency: {links: to zone c, delay: 1s}", 12, {"c-cm", "c-data"}),
        ("network.drop: {links: between node a-data and node c-data}", 24, None),
        ("network.loss: {links: to zone c, share: 20%}", 12, {"c-cm", "c-data"}),
        ("zone.slowness: {zone: c, delay: 1s}", 24, {"c-cm", "c-data"}),
        ("node.restart: {target: node c-data}", 11, {"c-data"}),
    ],
)
def test_what_fis_makes_is_planned_with_whom_it_hits_and_its_price(
    tmp_path: Path, fault: str, minutes: int, hit: set[str] | None
) -> None:
    made = by_fis(tmp_path, fault)
    assert made.refused == []
    (step,) = [each for each in made.steps if each.get("fault")]
    assert (step["provider"], step["grade"]) == ("fis", "effect")
    assert not any("client" in link for link in step["links"])
    assert hit is None or set(made.reached[0].hit) == hit
    known = load_existing(tmp_path / "staging.yaml")
    experiment = load_experiment(tmp_path / "asked.yaml")
    assert f"{minutes} action-minutes" in str(priced(experiment, known))


@pytest.mark.parametrize("whom", ["elected cluster manager", "elected cluster manager and zone c", "node c-cm"])
def test_the_price_at_most_counts_faults_on_whoever_is_elected(tmp_path: Path, whom: str) -> None:
    """As many minutes as for a node that is named."""
    phases = "  one: {inject: {node.restart: {target: node c-data}}, for: 5s}\n  back: {undo: node.restart, for: 5s}\n"
    phases += f"  two: {{inject: {{node.restart: {{target: {whom}}}}}, for: 5s}}"
    plan(tmp_path, phases, more=f"rung: zone\nuntil: 2027-01-31\n{FIS}")
    said = priced(load_experiment(tmp_path / "asked.yaml"), load_existing(tmp_path / "staging.yaml"))
    assert "22 action-minutes, " in str(said), said


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("network.latency: {links: from clients of zone a to zone c, delay: 1s}", "what clients of zone a meet"),
        ("network.loss: {links: to zone c, share: 12.5%}", "FIS loses whole percents, and not 12.5%"),
        ("node.restart: {target: zone c}", "FIS reboots instances at once"),
        ("node.restart: {target: node c-data, how: kill}", "EC2 asks operating systems to reboot in order"),
    ],
)
def test_what_fis_cannot_make_or_nobody_could_see_has_no_plan(tmp_path: Path, fault: str, says: str) -> None:
    with pytest.raises(Lacking, match=says):
        by_fis(tmp_path, fault)


# ---- faults that are made: whom they have hit is known ------------------------------------------------------

NEXT = "  next: {inject: {settings.change: {scope: index, settings: {refresh_interval: 2s}}}, for: 5s}"
STOP = "  gone: {inject: {node.stop: {target: elected cluster manager}}, for: 5s}\n"
CUT = "  cut: {inject: {network.drop: {links: between node a-data and node c-data}}, for: 5s}\n"


def made_before(number: int, beside: OnTarget, elected: str | None = None) -> dict[str, Fault]:
    """The faults of the phases before this one, made while this node was the elected manager."""
    before = {phase.name for phase in beside.experiment.phases[:number]}
    wiring = reaching.wiring_of(beside.experiment, beside.lab.target.written)
    found = [
        run_plan.preview(each, beside.experiment, 1, wiring, beside.offers, elected)
        for each in run_plan.faults(beside.experiment)
        if each.phase in before
    ]
    return {fault.id: fault for fault in found if fault is not None}


def without(*names: str, seen: Seen | None = None) -> Seen:
    """The cluster once it has given these nodes up."""
    seen = seen or there()
    copies = [replace(c, node=None, state="UNASSIGNED") if c.node in names else c for c in seen.copies or ()]
    left = tuple(node for node in seen.nodes or () if node.name not in names)
    return replace(seen, nodes=left, status="yellow", copies=tuple(copies))


def asks(
    folder: Path, phases: str, monkeypatch: pytest.MonkeyPatch, *, elected: str | None = None, seen: Seen | None = None
) -> Any:
    """(nodes that are gone, the number of a phase) → why it is not allowed, once the faults before it were made."""
    beside = beginning(folder, phases, monkeypatch, more=FIS, seen=seen)

    def ask(*names: str, number: int = 1) -> str | None:
        monkeypatch.setattr(on_target, "seen_of", lambda *_, **__: without(*names, seen=seen))
        beside.made = lambda: made_before(number, beside, elected)
        return beside.forbids(number)

    return ask


@pytest.mark.parametrize("elected", ["a-cm", "b-cm", "c-cm"])
def test_of_a_fault_on_whoever_was_elected_that_one_counts_once_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elected: str
) -> None:
    ask = asks(tmp_path, STOP + NEXT, monkeypatch, elected=elected)
    assert ask(elected) is None and ask() is None
    (other, *_) = sorted({"a-cm", "b-cm", "c-cm"} - {elected})
    assert "no majority" in str(ask(elected, other))
    back = "  back: {undo: node.stop, for: 5s}\n"
    ask = asks(tmp_path, STOP + back + NEXT, monkeypatch, elected=elected)
    assert ask(elected, number=2) is None, "it may still be on its way"
    assert ask(other, number=2) == f"{other} left, and that is none of our doing"


def test_of_a_cut_either_side_may_have_been_dropped_and_no_other_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = asks(tmp_path, CUT + NEXT, monkeypatch)
    assert ask() is None and ask("a-data") is None and ask("c-data") is None
    assert ask("b-data") is not None and ask("a-data", "c-data") is not None
    calm = "  calm: {for: 5s}\n"
    ask = asks(tmp_path, calm + CUT + NEXT, monkeypatch)
    assert [name for name in ("a-data", "c-data") if ask(name) is None] == ["a-data"], "before it is made, as ever"
    assert ask("c-data", number=2) is None


def test_the_side_that_was_dropped_is_the_one_that_a_cut_has_hit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what has copies on both sides alone the other one is left, and it stays."""
    two = tuple(ShardCopy("orders", 0, zone == "a", "STARTED", f"{zone}-data") for zone in "ac")
    seen = replace(there(), copies=two)
    ask = asks(tmp_path, CUT + NEXT, monkeypatch, seen=seen)
    assert ask() is None and ask("a-data") is None and ask("c-data") is None
    stopped = "  stop: {inject: {node.stop: {target: node c-data}}, for: 5s}\n  back: {undo: node.stop, for: 5s}\n"
    ask = asks(tmp_path, stopped + CUT + NEXT, monkeypatch, seen=seen)
    assert "no active copy elsewhere" in str(ask("c-data", number=3)), "it may be gone because it was stopped"
    assert ask("a-data", number=3) is None
    zones = CUT.replace("node a-data", "zone a").replace("node c-data", "zone c")
    ask = asks(tmp_path, zones + NEXT, monkeypatch, seen=seen)
    assert ask("c-data", "c-cm") is None
    assert "no active copy elsewhere" in str(ask("c-data")), "a zone that was dropped is gone as a whole"
    given_back = "  out: {do: {decommission: {zone: c, no_delay: true}}, for: 5s}\n"
    given_back += "  in: {do: {recommission: {zone: c}}, for: 5s}\n"
    ask = asks(tmp_path, given_back + CUT + NEXT, monkeypatch, seen=seen)
    assert "no active copy elsewhere" in str(ask("c-data", number=3)), "it may be on its way back"


@pytest.mark.parametrize("elected", ["a-cm", "c-cm"])
def test_of_a_cut_around_whoever_was_elected_that_one_counts_once_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elected: str
) -> None:
    cut = "  cut: {inject: {network.drop: {links: around elected cluster manager}}, for: 5s}\n"
    ask = asks(tmp_path, cut + NEXT, monkeypatch, elected=elected)
    assert ask() is None and ask(elected) is None
    assert "no majority" in str(ask("b-cm"))


def test_nodes_that_are_gone_rule_out_the_sets_without_them() -> None:
    one, two = frozenset({"a"}), frozenset({"b", "c"})
    assert reaching.explaining((one, two), {"x"}) == (one, two)
    assert reaching.explaining((one, two), {"b"}) == (two,)
    assert reaching.explaining((one, two), {"a", "b"}) == ()
