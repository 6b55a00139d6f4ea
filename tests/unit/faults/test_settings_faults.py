"""settings.change: what was before comes back, unless it is no longer ours to put back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster
from fakes import ROOT, Log, topology
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.base.errors import FaultError, InvalidInput
from chaos.definitions.crosschecks import _both_hold
from chaos.definitions.steps import FaultParams
from chaos.faults.fault import Fault
from chaos.faults.kinds.settings import STATIC_INDEX
from chaos.faults.ledger import Ledger, standing
from chaos.faults.lifecycle import Lifecycle
from chaos.providers.rest import restore, taken_over, to_restore
from chaos.registry import FAULTS, load_experiment, ready

FAIL_OPEN = "cluster.routing.weighted.fail_open"


def params(scope: str, settings: dict[str, Any], **more: Any) -> FaultParams:
    return FAULTS["settings.change"].model_validate({"scope": scope, "settings": settings, **more})


def fault(lab: FakeCluster, scope: str, settings: dict[str, Any], index: str = "chaos", **more: Any) -> Fault:
    return ready("f1", params(scope, settings, **more), lab, seed=1, elected=None, index=index)


@pytest.fixture
def lab() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def lifecycle(lab: FakeCluster, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lifecycle:
    monkeypatch.setattr("chaos.faults.kinds.settings.SettingsEvidence.effect_deadline", 0.0)
    monkeypatch.setattr("chaos.faults.kinds.settings.SettingsEvidence.gone_deadline", 0.0)
    return Lifecycle(lab, Ledger(tmp_path / "ledger.jsonl"), log)


# ---- the law: restored only if unchanged since ---------------------------------------------------------

keys = st.sampled_from(["one", "two", "three"])
values = st.none() | st.sampled_from(["0", "1", "async"]) | st.just(["a", "b"])
states = st.dictionaries(keys, values.filter(lambda value: value is not None))


def put(state: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**state, **changes}.items() if value is not None}


@given(states, st.dictionaries(keys, values, min_size=1))
@settings(deadline=None)
def test_a_change_and_its_restore_leave_everything_as_it_was(state: Any, changed: Any) -> None:
    before = {key: state.get(key) for key in changed}
    now = put(state, changed)
    assert put(now, to_restore(now, changed, before)) == state
    assert taken_over(now, changed, before) == {}
    assert to_restore(state, changed, before) == {}  # run twice, or for a change that never came through


@given(states, st.dictionaries(keys, values, min_size=1), st.dictionaries(keys, values))
@settings(deadline=None)
def test_what_somebody_else_changed_stays_theirs_and_the_rest_comes_back(state: Any, changed: Any, theirs: Any) -> None:
    before = {key: state.get(key) for key in changed}
    now = put(put(state, changed), theirs)
    after = put(now, to_restore(now, changed, before))
    for key in {*state, *changed, *theirs}:
        foreign = key in theirs and (key not in changed or theirs[key] not in (changed[key], before[key]))
        assert after.get(key) == (theirs[key] if foreign else state.get(key))
        assert (key in taken_over(now, changed, before)) == (foreign and key in changed)


# ---- through the lifecycle ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "settings", "stored"),
    [
        ("cluster", {FAIL_OPEN: False}, {FAIL_OPEN: "false"}),
        ("cluster", {"known": None}, {"known": None}),
        ("cluster", {"a.list": ["x", 1]}, {"a.list": ["x", "1"]}),
        ("index", {"number_of_replicas": 0}, {"index.number_of_replicas": "0"}),
        ("index", {"index.translog.durability": "async"}, {"index.translog.durability": "async"}),
    ],
)
def test_the_value_before_is_in_the_ledger_and_comes_back(
    lab: FakeCluster, lifecycle: Lifecycle, tmp_path: Path, scope: str, settings: dict[str, Any], stored: dict[str, Any]
) -> None:
    lab.persistent = {"known": "7"}
    held = lab.persistent if scope == "cluster" else lab.indices["chaos"]
    before = dict(held)
    assert lifecycle.inject(fault(lab, scope, settings))
    assert {key: held.get(key) for key in stored} == stored
    (entry,) = standing(tmp_path / "ledger.jsonl")
    assert entry.inverse is not None
    assert entry.inverse.arguments["before"] == {key: before.get(key) for key in stored}
    assert lifecycle.undo("f1")
    assert held == before and standing(tmp_path / "ledger.jsonl") == []


@pytest.mark.parametrize("hidden", [range(0, 1), range(0, 3), range(1, 2), range(1, 4), range(2, 3)], ids=str)
@pytest.mark.parametrize("scope", ["cluster", "index"])
def test_the_value_before_is_the_one_that_a_new_manager_hides(
    lab: FakeCluster, monkeypatch: pytest.MonkeyPatch, scope: str, hidden: range
) -> None:
    """Taken for what was before, nothing would be put back at the undo: the owners' value would be deleted."""
    monkeypatch.setattr("chaos.opensearch.administration.time.sleep", lambda _: None)
    name = "known" if scope == "cluster" else "index.number_of_replicas"
    lab.persistent = {"known": "2"}
    made = fault(lab, scope, {name: 1})
    assert made.read is not None
    lab.forgetful = hidden
    (both,) = made.read(lab)
    assert both.inverse is not None and both.inverse.arguments["before"] == {name: "2"}


@pytest.mark.parametrize("settings", [{"known": 7}, {"unknown": None}])
def test_what_is_so_already_is_no_change(
    lab: FakeCluster, lifecycle: Lifecycle, log: Log, settings: dict[str, Any]
) -> None:
    lab.persistent = {"known": "7"}
    assert lifecycle.inject(fault(lab, "cluster", settings)) is False
    assert "so already" in log.of("fault.evidence")[0]["says"] and log.of("fault.in_effect") == []
    assert lifecycle.undo("f1") and lab.persistent == {"known": "7"}


def test_an_index_setting_is_of_the_loads_index_whatever_its_name(lab: FakeCluster, lifecycle: Lifecycle) -> None:
    lab.indices["chaos-4f2a"] = {"index.number_of_replicas": "1"}
    assert lifecycle.inject(fault(lab, "index", {"number_of_replicas": 0}, index="chaos-4f2a"))
    assert lab.indices["chaos"] == {"index.number_of_replicas": "2"}
    assert lab.indices["chaos-4f2a"] == {"index.number_of_replicas": "0"}
    assert lifecycle.inject(
        ready("f2", params("index", {"number_of_replicas": 1}, index="chaos"), lab, seed=1, elected=None, index="x")
    )
    assert lab.indices["chaos"] == {"index.number_of_replicas": "1"}


def test_undo_says_so_when_somebody_else_changed_it_and_goes_on_saying_so(
    lab: FakeCluster, lifecycle: Lifecycle, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.faults.kinds.settings.SettingsEvidence.held_deadline", 0.0)
    assert lifecycle.inject(fault(lab, "cluster", {"one": "1", "two": "2"}))
    lab.persistent["one"] = "mine"
    assert lifecycle.undo("f1") is False
    assert lab.persistent == {"one": "mine"}  # two is back at its default
    (failed,) = log.of("fault.failed")
    assert failed["stage"] == "undo" and "one: mine" in failed["says"] and "somebody else" in failed["says"]
    (entry,) = standing(tmp_path / "ledger.jsonl")
    assert entry.inverse is not None
    with pytest.raises(FaultError, match="set what it was before"):
        entry.inverse.apply(lab)
    del lab.persistent["one"]  # as the remedy says
    entry.inverse.apply(lab)


def test_nothing_is_left_to_restore_on_an_index_that_is_gone(lab: FakeCluster) -> None:
    restore(lab, "gone", {"index.number_of_replicas": "0"}, {"index.number_of_replicas": "2"})


def test_what_opensearch_refuses_is_said_in_its_words_and_leaves_nothing(
    lab: FakeCluster, lifecycle: Lifecycle, tmp_path: Path
) -> None:
    lab.refused = {"static.one"}
    with pytest.raises(FaultError, match="not dynamically updateable"):
        lifecycle.inject(fault(lab, "cluster", {"static.one": 1}))
    assert lab.persistent == {} and standing(tmp_path / "ledger.jsonl") == []


def test_a_missing_index_is_said_before_anything_is_written(
    lab: FakeCluster, lifecycle: Lifecycle, tmp_path: Path
) -> None:
    with pytest.raises(FaultError, match="there is no index nope"):
        lifecycle.inject(fault(lab, "index", {"number_of_replicas": 0}, index="nope"))
    assert standing(tmp_path / "ledger.jsonl") == []


@pytest.mark.parametrize(
    "wrong", ["a node that still has the old value", "a transient setting above it", "a silent node"]
)
def test_it_is_not_proven_while_one_node_does_not_hold_it(
    lab: FakeCluster, lifecycle: Lifecycle, log: Log, wrong: str
) -> None:
    if wrong.startswith("a transient"):
        lab.transient = {FAIL_OPEN: "true"}
    if wrong.startswith("a node"):
        lab.stale = {"c-data": {}}
    if wrong.startswith("a silent"):
        lab.dead = {"c-data"}
    assert lifecycle.inject(fault(lab, "cluster", {FAIL_OPEN: False})) is False
    (look,) = [event for event in log.of("fault.evidence") if event["stage"] == "effect"]
    assert [probe["ok"] for probe in look["probes"]].count(False) >= 1


def test_replicas_are_not_proven_by_the_setting_alone(
    lab: FakeCluster, lifecycle: Lifecycle, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = lab._state()
    monkeypatch.setattr(lab, "_state", lambda: three)
    assert lifecycle.inject(fault(lab, "index", {"number_of_replicas": 0})) is False
    (look,) = [event for event in log.of("fault.evidence") if event["stage"] == "effect"]
    assert [probe["measured"] for probe in look["probes"] if not probe["ok"]] == ["shard 0: 3"]


def test_a_null_means_that_nothing_is_set(lab: FakeCluster, lifecycle: Lifecycle) -> None:
    lab.persistent = {"one": "set"}
    assert lifecycle.inject(fault(lab, "cluster", {"one": None}))
    assert lifecycle.undo("f1") and lab.persistent == {"one": "set"}


# ---- at plan time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "key", "says"),
    [
        ("cluster", "discovery.find_peers_interval", "under settings.node"),
        ("cluster", "path.data", "set by the lab"),
        ("cluster", "index.number_of_replicas", "expected scope: index"),
        ("index", "cluster.routing.allocation.enable", "expected scope: cluster"),
        *(("index", key.removeprefix("index."), "under settings.index") for key in sorted(STATIC_INDEX)),
    ],
)
def test_what_the_topology_takes_is_refused_at_plan_time(scope: str, key: str, says: str) -> None:
    (problem,) = params(scope, {key: 1}).check(topology())
    assert key in problem and says in problem


def test_the_refusal_says_where_it_stands(tmp_path: Path) -> None:
    text = (ROOT / "experiments" / "controls" / "planted-no-replicas-setting.yaml").read_text()
    text = text.replace("scope: index, settings: {number_of_replicas: 0}", "scope: cluster, settings: {path.data: x}")
    text = text.replace("topology: 3az", f"topology: {ROOT / 'topologies' / '3az.yaml'}")
    (tmp_path / "x.yaml").write_text(text)
    line = next(n for n, each in enumerate(text.splitlines(), 1) if "path.data" in each)
    with pytest.raises(InvalidInput, match=rf"x\.yaml:{line}:\d+.*path\.data is set by the lab"):
        load_experiment(tmp_path / "x.yaml")


def test_every_example_is_fine_on_its_topology() -> None:
    kind = FAULTS["settings.change"]
    assert [kind.model_validate(example).check(topology(kind.example_topology)) for example in kind.examples] == [
        [] for _ in kind.examples
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"scope": "cluster", "settings": {}},
        {"scope": "cluster", "settings": {"cluster.*": 1}},
        {"scope": "cluster", "index": "x", "settings": {"a": 1}},
        {"scope": "index", "index": "a*", "settings": {"a": 1}},
        {"scope": "cluster", "settings": {"a": {"b": 1}}},
        {"scope": "node", "settings": {"a": 1}},
    ],
)
def test_a_wrong_definition_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        FAULTS["settings.change"].model_validate(wrong)


def test_two_hold_one_setting_at_most_but_different_ones_together() -> None:
    one, other = params("cluster", {"one": 1}), params("cluster", {"other": 1})
    assert _both_hold(one, params("cluster", {"one": 2, "x": 1}), topology()) == "the setting one of the cluster"
    assert _both_hold(one, other, topology()) is None
    replicas = params("index", {"number_of_replicas": 0})
    assert _both_hold(replicas, params("index", {"index.number_of_replicas": 1}), topology())
    assert _both_hold(replicas, params("index", {"number_of_replicas": 1}, index="other"), topology()) is None
