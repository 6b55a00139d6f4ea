"""The page for those who decide: whatever decides is on it, and its figures are those of what keeps them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from apart import some
from fakes import ROOT
from hypothesis import given
from hypothesis import strategies as st
from staging import PLACES, file, seen

from chaos.commands.for_change import page, words
from chaos.commands.planned import Planned
from chaos.commands.planning_on import carries_out, planned
from chaos.definitions.existing import Existing, ExistingFile
from chaos.opensearch.views import ShardCopy
from chaos.registry import PROVIDERS, load_experiment
from chaos.run import closing, keeper, plan, reaching, recovering_on
from chaos.targets.existing.compare import Row, Sign
from chaos.targets.existing.seen import Seen

TODAY = date(2026, 11, 25)
OFFERS = reaching.offers_on(PROVIDERS, file())
ALLOCATION = "cluster.routing.allocation.enable"
PHASES = """
  healthy: {for: 30s}
  out: {do: {decommission: {zone: c, no_delay: true}}, for: 90s}
  back: {do: {recommission: {zone: c}}, until: {green: true, stable: 10s, within: 3m}}
  held: {for: 1s, inject: {settings.change: {scope: cluster, settings: {cluster.routing.allocation.enable: none}}}}
  over: {undo: all, for: 500ms}
"""


def target(**more: Any) -> Existing:
    """One that allows it all, with names of its own."""
    data = file().model_dump(mode="json", by_alias=True, exclude_none=True) | {
        "endpoints": ["http://search.example:9200"],
        "rung": "zone",
        "until": "2027-01-31",
        "notes": ".opensearch-chaos",
        "caps": {"requests": "100/s", "documents": 5000, "copies": 9},
        "settings": [ALLOCATION],
    }
    for name, node in data["nodes"].items():
        node["url"] = f"http://{name}.example:9200"
    data = {key: value for key, value in (data | more).items() if value is not None}
    return Existing(file="topologies/existing/staging.yaml", folder=Path(), written=ExistingFile.model_validate(data))


def made(
    folder: Path, phases: str = PHASES, *, guards: str = "{}", more: str = "", there: Existing | None = None, **now: Any
) -> Planned:
    asked = folder / "asked.yaml"
    asked.write_text(
        "apiVersion: opensearch-chaos/v1\nname: asked\ndescription: >-\n  Zone c is taken out,\n  and taken in again.\n"
        "topology: 3az-standby\n"
        "load:\n  read: {rate: 10/s, good: ok within 1s}\n  write: {rate: 10/s, good: ok within 300ms}\n"
        f"phases: {phases}\n"
        "expect:\n  - {phase: all, read.good: '>= 99.9%'}\n"
        "  - {phase: healthy, write.good: '>= 99%', known_weakness: a slow disk}\n  - {acknowledged.lost: 0}\n"
        f"guards: {guards}\n{more}"
    )
    there = there or target()
    return planned(load_experiment(asked), there, looked(there, **now), 7, OFFERS, TODAY)


def looked(there: Existing, **now: Any) -> Seen:
    """A calm cluster that is as its file says, but for ``now``."""
    copies = tuple(ShardCopy("orders", 0, zone == "a", "STARTED", f"es-d-{zone}1") for zone in PLACES)
    calm = {"status": "green", "relocating": 0, "unassigned": 0, "excluded": (), "copies": copies}
    found: Seen = replace(seen(there.written), voting=tuple(f"es-m-{zone}" for zone in PLACES), **calm)
    found = replace(found, identities=dict.fromkeys(map(str, there.written.addresses), found.identity))
    return replace(found, **now)


def told(plan: Planned) -> str:
    return page(plan, carries_out(plan))


def inverses(plan: Planned) -> list[str]:
    each = [step["inverse"] for step in plan.steps if step.get("inverse")]
    return [one for given in each for one in (given if isinstance(given, list) else [given])]


def test_what_where_and_until_when(tmp_path: Path) -> None:
    asked = made(tmp_path)
    text = told(asked)
    assert asked.refused == [] and "nothing forbids it" in text and "Nothing forbids it today." in text
    assert text.startswith("# Change: asked on staging\n\nZone c is taken out, and taken in again.\n")
    file = asked.target.written
    for said in (file.identity.cluster_uuid, file.identity.cluster_name, "http://search.example:9200", "2027-01-31"):
        assert said in text
    for zone, theirs in file.zones.names.items():
        names = ", ".join(name for name, node in file.nodes.items() if node.zone == zone)
        assert f"| zone {zone} ({theirs}) | {names} |" in text
    assert "5 minutes 2 seconds at most" in text and "the test ends itself after 15 minutes" in text
    assert "Reads are good: 99.9 % or more (in healthy, out, back, held and over)" in text
    assert "(in healthy). Known to fail today: a slow disk" in text
    assert "Worst case: es-d-c1, es-d-c2, es-m-c hit;" in text
    assert "2 of 3 nodes of the voting configuration stay" in text


def test_the_command_has_the_topology_that_was_asked_for(tmp_path: Path) -> None:
    assert "--topology" not in carries_out(made(tmp_path))
    assert " --topology 3az " in carries_out(made(tmp_path), topology="3az")


def test_every_change_stands_with_what_takes_it_back(tmp_path: Path) -> None:
    asked = made(tmp_path)
    text = told(asked)
    assert len(inverses(asked)) == 2 and all(each in text for each in inverses(asked))
    places = [text.index(f"**{phase.name}**") for phase in asked.experiment.phases]
    assert places == sorted(places)
    assert "Decommission zone c without delay. Taken back by: recommission zone c." in text
    assert "`oschaos-RUN-load`: 9 copies of shards, 2 000 documents" in text
    assert "at most 100/s, 5 000 documents" in text


def test_controllers_stand_there_with_what_they_may_do_and_what_takes_it_back(tmp_path: Path) -> None:
    room = {"requests": "100/s", "documents": 5000, "copies": 15}
    controlled = "controller: {zones: [a, b], rotate_every: 90s, lead_from_standby: true}\n"
    asked = made(tmp_path, more=controlled, there=target(caps=room))
    text = told(asked)
    assert asked.refused == [] and all(each in text for each in inverses(asked))
    for said in (
        "Failover controllers of the test's own, in zones a and b",
        "set weights so that another zone stands by (every 1 minute 30 seconds)",
        "decommission a zone that is not well, one at most",
        "have a cluster manager of the standby zone elected",
        "`.failover-canary-0`, `.failover-canary-1`, `.failover-canary-2`; 6 copies of shards",
        "1 minute of watching that the test is dead",
        "Failover controllers end before anything is taken back",
    ):
        assert said in text, said
    calm = told(made(tmp_path, more="controller: {act: false}\n", there=target(caps=room)))
    assert "They change nothing else. Taken back by: they end, these indices are deleted." in calm
    assert "Failover controllers" not in told(made(tmp_path))


def test_votes_that_are_taken_away_stand_with_what_gives_them_back(tmp_path: Path) -> None:
    phases = (
        "\n  healthy: {for: 9s}\n  take: {do: {exclude_votes: {target: node a-cm}}, for: 1m}\n"
        "  give: {do: {include_votes: {}}, for: 1m}\n"
    )
    text = told(made(tmp_path, phases))
    assert "Take the votes of node a-cm away. Taken back by: votes are given back, if nobody else has taken any" in text
    assert "Worst case: no node hit, es-m-a without a vote; " in text
    assert "without es-m-a 2 of 2 nodes of the voting configuration stay" in text
    assert "Give the votes back. Taken back by: nothing, it takes something back itself." in text
    assert "needed is rung zone" in text


def test_the_figures_are_those_of_what_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = made(tmp_path)
    monkeypatch.setattr(keeper, "SILENCE_SECONDS", 7.0)
    monkeypatch.setattr(keeper, "PATIENCE_SECONDS", 11 * 60.0)
    monkeypatch.setattr(recovering_on, "WATCHED_SECONDS", 23.0)
    monkeypatch.setattr(closing, "SETTLE_SECONDS", 301.0)
    text = told(asked)
    for said in (
        "7 seconds after it last heard",
        "tries for 11 minutes",
        "23 seconds of watching",
        "5 minutes 1 second",
    ):
        assert said in text


def test_who_may_stop_it_and_what_stops_it(tmp_path: Path) -> None:
    guards = (
        "{max: 4m, cluster.red: 20s, read.good: {below: 50%, for: 10s}, stop_file: /tmp/stop-it, "
        "command: {run: [./may-go-on, now], every: 5s, timeout: 2s}}"
    )
    text = told(made(tmp_path, guards=guards))
    for said in (
        "4 minutes at most",  # the phases may take longer than the guard
        "phases take longer than 4 minutes",
        "red for longer than 20 seconds",
        "less than 50% of its reads are good for 10 seconds",
        "Whoever may make the file `/tmp/stop-it`",
        "`./may-go-on now` ends with an exit code other than 0, or gives no answer within 2 seconds",
        "SIGINT, SIGTERM and SIGHUP",
        "recover --on topologies/existing/staging.yaml",
        "with `rung: observe`",
    ):
        assert said in text
    assert "Whoever may make the file" not in told(made(tmp_path))


def test_what_it_does_not_see_is_what_the_report_will_say(tmp_path: Path) -> None:
    asked = made(tmp_path)
    assert all(f"* {each}\n" in told(asked) for each in plan.there(asked.target)) and plan.there(asked.target)


def test_the_digest_is_the_one_that_the_run_will_have_and_the_command_is_the_run_s(tmp_path: Path) -> None:
    asked = made(tmp_path)
    text = told(asked)
    assert plan.digest(asked.experiment) in text
    assert text.endswith("    opensearch-chaos run asked.yaml --seed 7 --on topologies/existing/staging.yaml\n")
    other = made(tmp_path, PHASES.replace("90s", "91s"))
    assert plan.digest(asked.experiment) not in told(other)


def test_indices_that_somebody_accepts_are_named_with_who_does_and_only_while_it_holds(tmp_path: Path) -> None:
    accepted = [
        {"index": "orders", "owner": "team-orders", "until": "2027-01-01"},
        {"index": "old", "owner": "team-old", "until": "2026-11-24"},
    ]
    lone = (ShardCopy("orders", 0, True, "STARTED", "es-d-c1"),)
    asked = made(tmp_path, there=target(accept_unavailable=accepted), copies=lone)
    text = told(asked)
    assert asked.refused == [] and "`orders`, by team-orders, until 2027-01-01" in text and "team-old" not in text
    text = told(made(tmp_path, copies=lone))
    assert "**forbidden**, shards: no active copy elsewhere of 1 shard of orders" in text


@pytest.mark.parametrize(
    ("phases", "more", "now"),
    [
        (PHASES, {"rung": "node"}, {}),
        (PHASES, {"rung": "observe", "until": None}, {"status": "yellow"}),
        (PHASES, {"caps": None, "notes": None, "settings": []}, {}),
        ("\n  gone: {for: 5s, inject: {node.kill: {target: elected cluster manager}}}", {}, {}),
        ("\n  gone: {for: 5s, inject: {node.kill: {target: zone c, name: x}, node.pause: {target: zone a}}}", {}, {}),
        (PHASES, {}, {"nodes": None, "unread": {"nodes": "GET /_nodes answered 403"}}),
        (PHASES, {"nodes": {"one": {"zone": "a", "roles": ["data"]}}}, {}),
    ],
)
def test_whatever_forbids_it_is_on_the_page(
    tmp_path: Path, phases: str, more: dict[str, Any], now: dict[str, Any]
) -> None:
    if "over" not in phases:
        phases = f"\n  healthy: {{for: 1s}}{phases}\n  over: {{undo: all, for: 5s}}"
    asked = made(tmp_path, phases, there=target(**more), **now)
    text = told(asked)
    assert asked.refused and "Nothing forbids it" not in text and "nothing forbids it" not in text
    assert all(row.says in text and row.remedy in text for _, row in asked.refused)


lines = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1).map(str.strip).filter(bool)
refusals = st.lists(st.tuples(lines, st.builds(Row, lines, st.sampled_from(list(Sign)[1:]), lines, lines)), min_size=1)


@pytest.fixture(scope="module")
def allowed(tmp_path_factory: pytest.TempPathFactory) -> Planned:
    return made(tmp_path_factory.mktemp("asked"))


@given(refused=refusals)
def test_no_refusal_is_left_out(allowed: Planned, refused: list[tuple[str, Row]]) -> None:
    text = told(replace(allowed, refused=refused))
    assert all(f"* {where}, {row.what}: {row.says}. Remedy: {row.remedy}" in text for where, row in refused)
    assert f"forbidden, for {len(refused)} reason" in text


def test_it_is_a_page_and_nothing_in_it_moves_a_terminal_s_cursor(tmp_path: Path) -> None:
    asked = made(tmp_path)
    file = asked.target.written
    nasty = file.model_copy(update={"identity": file.identity.model_copy(update={"cluster_name": "n\x1b[2J"})})
    text = told(replace(asked, target=asked.target.model_copy(update={"written": nasty})))
    assert all(line.isprintable() for line in text.splitlines()) and len(text.splitlines()) < 90


@pytest.mark.parametrize(
    ("seconds", "says"),
    [
        (0, "0 seconds"),
        (0.3, "300 milliseconds"),
        (1, "1 second"),
        (60, "1 minute"),
        (90, "1 minute 30 seconds"),
        (600.0, "10 minutes"),
        (3601, "1 hour 1 second"),
        (7325, "2 hours 2 minutes 5 seconds"),
    ],
)
def test_durations_are_told_in_words(seconds: float, says: str) -> None:
    assert words(seconds) == says


def test_what_others_do_and_what_is_measured_elsewhere_stands_there_too(tmp_path: Path) -> None:
    waits = "\n  healthy: {for: 5s}\n  theirs: {during: {manual: restart es-d-c1, within: 20m, restarts: node c-data}}"
    slis = "slis: {errors: {prometheus: 'http://prom.example:9090', query: vector(1)}}\n"
    plan = made(tmp_path, waits, guards="{max: 1h, sli: {errors: {above: 5%, for: 30s}}}", more=slis)
    said = told(plan)
    assert "until somebody else is done with it, at most 20 minutes" in said
    assert "by hand: restart es-d-c1. Taken back by: none: what a person does is not ours to undo" in said
    assert "`errors`, as your Prometheus measures it, is above 0.05 for 30 seconds, or has no value 3 times" in said


@pytest.mark.parametrize("asked", some(sorted(str(file) for file in (ROOT / "experiments").glob("*.yaml"))))
def test_every_experiment_of_ours_has_its_page(asked: str) -> None:
    there = target()
    experiment = load_experiment(Path(asked))
    asked_of = planned(experiment, there, looked(there), 1, OFFERS, TODAY)
    text = told(asked_of)
    assert all(f"**{phase.name}**" in text for phase in experiment.phases)
    assert all(each in text for each in inverses(asked_of))
    assert all(row.says in text for _, row in asked_of.refused)
