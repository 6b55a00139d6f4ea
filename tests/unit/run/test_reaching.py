"""How far experiments reach on a cluster that exists, phase by phase."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from chaos.commands.planning_on import planned
from chaos.definitions import Topology
from chaos.definitions.existing import Existing, load_existing
from chaos.opensearch.views import ShardCopy
from chaos.registry import PROVIDERS, load_experiment
from chaos.target.existing import draft, offered
from chaos.target.existing.seen import Identity, Seen, SeenNode

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
    (folder / "staging.yaml").write_text(text)
    return load_existing(folder / "staging.yaml")


def plan(folder: Path, phases: str, *, more: str = "rung: zone\nuntil: 2027-01-31\n", seen: Seen | None = None) -> Any:
    file = folder / "asked.yaml"
    over = "{undo: all, for: 5s}" if "inject" in phases else "{for: 5s}"
    file.write_text(
        "apiVersion: opensearch-chaos/v1\nname: asked\ntopology: 3az-standby\n"
        "load:\n  read: {rate: 10/s, good: ok within 1s}\n  write: {rate: 10/s, good: ok within 1s}\n"
        f"phases:\n{phases}\n  over: {over}\nexpect:\n  - {{acknowledged.lost: 0}}\n"
    )
    offers = PROVIDERS.on(offered.lacks, offered.ORDER)
    return planned(load_experiment(file), target(folder, more), seen or there(), 1, offers, TODAY)


def refused(made: Any) -> list[str]:
    return [f"{where}: {row.what}" for where, row in made.refused]


def test_what_goes_by_rest_and_leaves_a_copy_of_everything_is_not_forbidden(tmp_path: Path) -> None:
    made = plan(tmp_path, "  out: {do: {decommission: {zone: c, no_delay: true}}, for: 5s}")
    assert made.refused == [] and made.needs == "zone"
    assert [each.hit for each in made.reached] == [("c-cm", "c-data"), ("c-cm", "c-data")]


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


def test_whoever_may_be_elected_counts_at_worst(tmp_path: Path) -> None:
    kill = "  gone: {inject: {node.kill: {target: elected cluster manager}}, for: 5s}"
    assert refused(plan(tmp_path, kill)) == ["faults: no provider"]
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


def test_a_restart_is_over_when_it_has_been_made(tmp_path: Path) -> None:
    first = "  first: {inject: {node.restart: {target: zone a, name: one}}, for: 5s}\n"
    made = plan(tmp_path, first + "  second: {inject: {node.restart: {target: zone b, name: two}}, for: 5s}")
    assert not any("zones hit" in each for each in refused(made))
    assert [each.hit for each in made.reached] == [("a-cm", "a-data"), ("b-cm", "b-data"), ()]


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
    ((where, row),) = made.refused
    assert where == "faults" and "reached by REST alone" in row.says


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


def test_nobody_is_named_where_it_is_not_known_who_is_meant(tmp_path: Path) -> None:
    fewer = replace(there(), nodes=there().nodes[:5])
    text = draft.draft(fewer, [URL], {}, "staging")
    (tmp_path / "staging.yaml").write_text(text)
    experiment = load_experiment(Path("experiments/zone-network-slowdown.yaml"))
    offers = PROVIDERS.on(offered.lacks, offered.ORDER)
    made = planned(experiment, load_existing(tmp_path / "staging.yaml"), fewer, 1, offers, TODAY)
    assert made.steps == [] and made.reached == [] and "what the experiment needs: nodes" in refused(made)
    assert isinstance(made.experiment.topology, Topology)
