"""Shrinking: a minimal subset that fails, never one that does not, and an experiment without the rest."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import synthetic
from fakes import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from making import OFFERS

from chaos.base.errors import InvalidInput
from chaos.campaign.shrink import failures, fixed, opened, reduced, shrink, smallest
from chaos.definitions import Experiment, writing
from chaos.registry import GRAMMAR, load_experiment
from chaos.run import plan

ENOUGH = 10_000


class Asked:
    """A predicate that remembers. ``causes``: it fails when one of these is wholly there."""

    def __init__(self, causes: list[frozenset[int]]) -> None:
        self.causes = causes
        self.asked: list[tuple[int, ...]] = []

    def __call__(self, chosen: tuple[int, ...]) -> bool:
        self.asked.append(chosen)
        return self.fails(chosen)

    def fails(self, chosen: tuple[int, ...]) -> bool:
        return any(cause <= set(chosen) for cause in self.causes)


@st.composite
def failing(draw: st.DrawFn) -> tuple[tuple[int, ...], Asked]:
    items = tuple(range(draw(st.integers(0, 12))))
    some = st.frozensets(st.sampled_from(items)) if items else st.just(frozenset())
    return items, Asked(draw(st.lists(some, min_size=1, max_size=3)))


@given(failing())
def test_what_is_kept_fails_and_nothing_of_it_can_be_left_out(case: tuple[tuple[int, ...], Asked]) -> None:
    items, predicate = case
    found = shrink(items, predicate, ENOUGH)
    assert found.minimal and predicate.fails(found.kept)
    assert list(found.kept) == sorted(found.kept)
    for left_out in found.kept:
        assert not predicate.fails(tuple(item for item in found.kept if item != left_out))
    assert found.asked == len(predicate.asked) == len(set(predicate.asked))


@given(failing(), st.integers(0, 10))
def test_a_budget_that_ends_leaves_something_that_fails(case: tuple[tuple[int, ...], Asked], budget: int) -> None:
    items, predicate = case
    found = shrink(items, predicate, budget)
    assert predicate.fails(found.kept) and set(found.kept) <= set(items)
    assert len(predicate.asked) == found.asked <= budget


@given(st.integers(1, 12), st.randoms(use_true_random=False))
def test_a_predicate_that_holds_to_no_law_is_believed_only_for_what_it_said(count: int, rng: Any) -> None:
    said: dict[tuple[int, ...], bool] = {}

    def fails(chosen: tuple[int, ...]) -> bool:
        said[chosen] = rng.random() < 0.4
        return said[chosen]

    items = tuple(range(count))
    found = shrink(items, fails, ENOUGH)
    assert found.kept == items or said[found.kept]
    for left_out in found.kept:
        assert not said[tuple(item for item in found.kept if item != left_out)]


# ---- experiments -----------------------------------------------------------------------------------------

DEFINITION = f"""\
apiVersion: opensearch-chaos/v1
name: x
seed: 3
topology: {ROOT / "topologies" / "3az-standby.yaml"}
load: {{write: {{rate: 100/s, good: ok within 100ms}}}}
phases:
  healthy: {{for: 5s}}
  one:     {{for: 5s, inject: {{node.pause: {{target: one of role data, name: n1}}, node.kill: {{target: node c-cm}}}}}}
  two:     {{for: 5s, undo: node.kill, inject: {{network.drop: {{links: from clients to node a-data, name: n3}}}}}}
  three:   {{for: 5s, undo: n1}}
  back:    {{undo: all, until: {{green: true, within: 60s}}}}
expect:
  - {{phase: all, write.good: ">= 99%"}}
  - {{phase: [two, back], cluster.recovered: "<= 30s"}}
  - {{acknowledged.lost: 0}}
"""


@pytest.fixture
def whole(tmp_path: Path) -> Experiment:
    file = tmp_path / "x.yaml"
    file.write_text(DEFINITION)
    return load_experiment(file)


def kinds(experiment: Experiment) -> list[str]:
    return [each.params.kind for each in plan.faults(experiment)]


@given(keep=st.frozensets(st.sampled_from(["f1", "f2", "f3"])))
@settings(max_examples=8, deadline=None)
def test_less_is_a_valid_experiment_at_the_same_times(tmp_path_factory: Any, keep: frozenset[str]) -> None:
    folder = tmp_path_factory.mktemp("less")
    (folder / "x.yaml").write_text(DEFINITION)
    whole = load_experiment(folder / "x.yaml")
    less = reduced(whole, keep)
    assert less is not None
    assert kinds(less) == [each.params.kind for each in plan.faults(whole) if each.id in keep]
    assert [(p.name, p.duration, p.until) for p in less.phases] == [(p.name, p.duration, p.until) for p in whole.phases]
    file = folder / "less.yaml"
    file.write_text(writing.experiment(less, str(ROOT / "topologies" / "3az-standby.yaml")))
    again = load_experiment(file)
    assert again.phases == less.phases and again.expect == less.expect


def test_an_undo_of_nothing_goes_and_what_counts_from_it(whole: Experiment) -> None:
    less = reduced(whole, frozenset({"f1"}))
    assert less is not None
    assert [phase.undo for phase in less.phases] == [(), (), (), ("n1",), ()]
    assert [each.metric for each in less.expect] == ["write.good", "acknowledged.lost"]


def test_a_draw_is_made_before_ids_change(whole: Experiment) -> None:
    (before,) = [each for each in plan.faults(whole) if each.params.kind == "node.pause"]
    wiring = plan.Wiring.of("plan", whole.topology.nodes, whole.topology.zones)
    meant = plan.preview(before, whole, 7, wiring, OFFERS)
    made = fixed(whole, 7)
    (after,) = [each for each in plan.faults(made) if each.params.kind == "node.pause"]
    assert meant is not None and after.params.fixed and made.seed == 7
    now = plan.preview(after, made, 99, wiring, OFFERS)
    assert now is not None and now.targets == meant.targets


def findings(outcome: str, *weak: str) -> dict[str, Any]:
    found = [{"id": id, "counts_as": "weakness"} for id in weak] + [{"id": "read.good@one", "counts_as": "pass"}]
    return {"outcome": outcome, "findings": found}


def test_the_same_failure_is_looked_for_and_no_other(whole: Experiment) -> None:
    """f2 alone loses data; f1 alone is slow, which is another failure; f3 alone is inconclusive."""
    ran: list[list[str]] = []

    def run(experiment: Experiment) -> dict[str, Any]:
        ran.append(kinds(experiment))
        if "node.kill" in ran[-1]:
            return findings("weakness", "acknowledged.lost", "write.good@one")
        return findings("weakness", "write.regained@one") if "node.pause" in ran[-1] else findings("inconclusive")

    less, found, failed = smallest(whole, frozenset({"acknowledged.lost"}), run, 20, lambda _: None)
    assert kinds(less) == ["node.kill"] and less.name == "x-shrunk"
    assert found.minimal and failed == {"acknowledged.lost"} and ran[-1] == []
    less, found, failed = smallest(whole, frozenset(), run, 20, lambda _: None)
    assert kinds(less) == ["node.kill"] and failed == {"acknowledged.lost", "write.good"}


def test_a_node_that_ended_by_itself_is_a_failure_to_be_looked_for() -> None:
    findings: dict[str, Any] = {"outcome": "weakness", "findings": [], "tables": {"ends": [{"weakness": True}]}}
    assert failures(findings) == {"process.ended"}
    findings["tables"]["ends"] = [{"weakness": False}]
    assert failures(findings) == set()


def test_what_does_not_fail_cannot_be_shrunk(whole: Experiment) -> None:
    with pytest.raises(InvalidInput, match="x did not end in a weakness"):
        smallest(whole, frozenset(), lambda _: findings("pass"), 20, lambda _: None)


def test_a_run_is_opened_from_its_folder_alone(whole: Experiment, tmp_path: Path) -> None:
    story = synthetic.slow_zone()
    story.expect = [synthetic.expect("write.good", ">=", 0.9, ("slow",))]
    run = story.write(tmp_path / "run")
    planned = json.loads((run / "plan.json").read_text())
    (run / "findings.json").write_text(json.dumps(findings("pass")))  # what somebody wrote there is no finding
    grammar = SimpleNamespace(experiment=lambda given: whole if given == planned["experiment"] else None)
    experiment, failed = opened(run, grammar)  # type: ignore[arg-type]
    assert failed == {"write.good"} and experiment.seed == planned["seed"] and kinds(experiment) == kinds(whole)
    planned["experiment"]["expect"] = []
    (run / "plan.json").write_text(json.dumps(planned))
    with pytest.raises(InvalidInput, match="ended as pass: only a weakness can be shrunk"):
        opened(run, grammar)  # type: ignore[arg-type]
    (run / "plan.json").unlink()
    with pytest.raises(InvalidInput, match="no run that can be shrunk"):
        opened(run, GRAMMAR)
