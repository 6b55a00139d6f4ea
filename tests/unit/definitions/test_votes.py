"""Votes that an experiment takes away: whose, and when not."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.base.errors import InvalidInput
from chaos.definitions import Experiment
from chaos.definitions.actions import ExcludeVotes, IncludeVotes
from chaos.registry import GRAMMAR, load_experiment

HEAD = """apiVersion: opensearch-chaos/v1
name: votes
topology: 3az-standby
load: {read: {rate: 10/s, good: ok within 1s}}
expect: [{phase: all, read.good: ">= 99%"}]
"""
TAKE = "exclude_votes: {target: %s}"
OUT = "decommission: {zone: c, no_delay: true}"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(*does: str, more: str = "") -> Experiment:
    """With a phase for each of what is done, in line 7 and those after it."""
    phases = "".join(f"  p{number}: {{for: 5s, do: {{{each}}}}}\n" for number, each in enumerate(does))
    Path("x.yaml").write_text(f"{HEAD}phases:\n{phases}{more}")
    return load_experiment("x.yaml")


def test_they_are_read_and_written_back() -> None:
    experiment = load(TAKE % "zone a and role cluster_manager", "include_votes: {}", TAKE % "elected cluster manager")
    first, second, third = (phase.do[0] for phase in experiment.phases)
    assert isinstance(first, ExcludeVotes) and isinstance(second, IncludeVotes) and isinstance(third, ExcludeVotes)
    assert [each.describe() for each in (first, second, third)] == [
        "take the votes of zone a and role cluster_manager away",
        "give the votes back",
        "take the votes of elected cluster manager away",
    ]
    assert GRAMMAR.experiment(experiment.to_json()) == experiment


def test_a_zone_goes_out_once_votes_are_given_back() -> None:
    load(TAKE % "node a-cm", "include_votes: {}", OUT, "recommission: {zone: c}", TAKE % "node b-cm")


WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "of nobody": ((TAKE % "node d-cm",), '7:46: node d-cm is not in topology 3az-standby: did you mean "c-cm"?'),
    "of what has none": (
        (TAKE % "zone a",),
        "7:46: a-data is no cluster manager and has no vote: expected cluster managers alone, for example 'node a-cm'",
    ),
    "of all": (
        (TAKE % "role cluster_manager",),
        "7:46: 'role cluster_manager' names every cluster manager: expected one at least that votes",
    ),
    "drawn": (
        (TAKE % "one of role cluster_manager",),
        "7:37: exclude_votes: 'one of role cluster_manager' draws, and whose vote it is must be known: "
        "expected cluster managers by name, zone or role, or the elected one",
    ),
    "given back before they are taken": (
        ("include_votes: {}",),
        "7:22: no vote is taken away here: expected exclude_votes before",
    ),
    "given back twice": (
        (TAKE % "node a-cm", "include_votes: {}", "include_votes: {}"),
        "9:22: no vote is taken away here: expected exclude_votes before",
    ),
    "taken twice": (
        (TAKE % "node a-cm", TAKE % "elected cluster manager"),
        "8:22: the votes of node a-cm are taken away already here, and votes are given back all at once: "
        "expected include_votes before",
    ),
    "before a decommission": (
        (TAKE % "node a-cm", OUT),
        "8:43: the votes of node a-cm are taken away here, and a decommission takes and gives back votes by the same "
        "list: expected include_votes before",
    ),
    "while a zone is out": (
        (OUT, TAKE % "node a-cm"),
        "8:22: zone c is decommissioned here, and its recommission gives all votes back: "
        "expected a recommission before",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said_where_it_stands(what: str) -> None:
    does, says = WRONG[what]
    with pytest.raises(InvalidInput) as caught:
        load(*does)
    assert str(caught.value).splitlines() == [f"x.yaml:{says}"]


@pytest.mark.parametrize(("controller", "refused"), [("{}", True), ("{act: false}", False)])
def test_controllers_that_act_give_votes_back_of_which_they_know_nothing(controller: str, refused: bool) -> None:
    does, more = (TAKE % "node a-cm", "include_votes: {}"), f"controller: {controller}\n"
    if not refused:
        load(*does, more=more)
        return
    with pytest.raises(InvalidInput, match=r"^x\.yaml:7:22: failover controllers decommission zones, and what they"):
        load(*does, more=more)


def test_the_only_manager_that_may_be_elected_keeps_its_vote() -> None:
    lone = HEAD.replace("3az-standby", "lone.yaml")
    Path("lone.yaml").write_text(
        "apiVersion: opensearch-chaos/v1\nkind: topology\nname: lone\nopensearch: 3.8.0\nzones: [a]\n"
        "nodes:\n  all: {roles: [cluster_manager, data], per_zone: 1, heap: 256MiB}\n"
        "settings: {index: {number_of_shards: 1, number_of_replicas: 0}}\n"
    )
    Path("x.yaml").write_text(f"{lone}phases:\n  p0: {{for: 5s, do: {{{TAKE % 'elected cluster manager'}}}}}\n")
    with pytest.raises(InvalidInput, match="names every cluster manager"):
        load_experiment("x.yaml")
