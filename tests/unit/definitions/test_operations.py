"""Operations are those of the workloads: in files, in normal forms, and what cannot be one is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.base import operations
from chaos.base.errors import InvalidInput
from chaos.base.operations import READ, USUAL, WRITE, OperationKind
from chaos.checks import catalogue
from chaos.checks.check import Scope
from chaos.definitions import loading, writing
from chaos.definitions.expectations import Metric
from chaos.history import models
from chaos.registry import GRAMMAR, TAKEN
from chaos.run import plan

LOOKUP = OperationKind("lookup", "one by its key", {"by-key": "get"})
TAIL = OperationKind("read", "the newest", {"tail": "search"})
LOGS = {**GRAMMAR.workloads, "logs": (LOOKUP, TAIL, OperationKind("ship", "a batch", {"put": "index"}))}
THEIRS = replace(
    GRAMMAR,
    workloads=LOGS,
    metrics={
        metric: Metric(metric, check.unit, check.scope is Scope.RUN, check.needs, operation)  # type: ignore[arg-type]
        for metric, operation, check in catalogue.metrics(operations.names(LOGS))
    },
)
FILE = """\
apiVersion: opensearch-chaos/v1
name: logs
topology: 3az
load:
  lookup: {rate: 10/s, good: ok within 1s}
  ship: {rate: 20/s, good: ok within 2s}
  workload: logs
phases:
  healthy: {for: 60s}
expect:
  - {lookup.good: ">= 99%"}
  - {ship.p99: "<= 1s"}
guards: {ship.good: {below: 50%, for: 10s}}
"""


def file(folder: Path, text: str = FILE) -> Path:
    path = folder / "logs.yaml"
    path.write_text(text)
    return path


def test_names_are_the_usual_ones_first_and_then_as_they_come() -> None:
    assert THEIRS.operations == ("read", "write", "lookup", "ship")
    assert operations.requests_of("read", LOGS) == ("search", "get", "msearch", "scroll", "point-in-time", "tail")


def test_a_load_of_own_operations_goes_there_and_back(tmp_path: Path) -> None:
    loaded = loading.load_experiment(file(tmp_path), THEIRS)
    lookup, ship = loaded.load.operations
    assert (lookup.name, lookup.operation, lookup.writes) == ("lookup", "by-key", False)
    assert (ship.name, ship.operation, ship.writes) == ("ship", "put", True) and loaded.load.writers == (ship,)
    assert [(each.op, each.quantity) for each in loaded.expect] == [("lookup", "good"), ("ship", "p99")]
    assert list(loaded.guards.floors) == ["ship"]
    assert "lookup_good" not in loaded.to_json()["guards"]
    normal = json.loads(json.dumps(loaded.to_json()))
    assert THEIRS.experiment(normal) == loaded
    assert (normal["load"]["read"], normal["load"]["write"]) == (None, None)  # as every normal form had them
    recorded = models.operations(normal["load"])
    assert list(recorded) == ["lookup", "ship"]
    assert [models.writes(name, each) for name, each in recorded.items()] == [False, True]
    again = file(tmp_path, writing.experiment(loaded, "3az"))
    assert loading.load_experiment(again, THEIRS).to_json() | {"file": ""} == loaded.to_json() | {"file": ""}


def test_the_usual_operations_are_written_as_they_always_were() -> None:
    data = {"name": "write", "rate": 5.0, "good_within": 1.0, "operation": "index"}
    load = THEIRS.experiment(json.loads(json.dumps(GRAMMAR_NORMAL | {"load": {"read": None, "write": data}}))).load
    assert load.writers and load.model_dump(mode="json")["write"] == data


GRAMMAR_NORMAL = loading.load_experiment(Path(__file__).parents[3] / "experiments" / "no-fault.yaml", GRAMMAR).to_json()


def test_a_package_that_is_installed_and_not_used_changes_no_plan(tmp_path: Path) -> None:
    path = Path(__file__).parents[3] / "experiments" / "zone-network-slowdown.yaml"
    theirs, ours = (loading.load_experiment(path, grammar) for grammar in (THEIRS, GRAMMAR))
    assert theirs.to_json() == ours.to_json() and plan.digest(theirs) == plan.digest(ours)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("workload: logs", "workload: documents", '5:3: the workload documents has no operation "lookup"'),
        ("lookup: {", "read: {operation: get, ", '5:21: in the workload logs a read is no "get": expected tail'),
        ("lookup: {", "lookup: {operation: search, ", "5:23: operation: expected by-key, got 'search'"),
        ("workload: logs", "workload: logs\n  documents: 0", "8:14: a lookup gets documents that are there before"),
        ("{lookup.good", "{read.good", "11:6: read.good needs a read load, and there is none"),
        ("{ship.good", "{read.good", "the load has no reads to guard: expected load.read"),
        ("{ship.good", "{shop.good", '13:10: unknown key "shop.good": did you mean "ship.good"?'),
    ],
)
def test_what_a_workload_does_not_declare_is_refused_where_it_stands(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    assert old in FILE
    with pytest.raises(InvalidInput) as caught:
        loading.load_experiment(file(tmp_path, FILE.replace(old, new, 1)), THEIRS)
    assert says in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    ("kinds", "says"),
    [
        ((), "none at all: nothing"),
        ((LOOKUP, LOOKUP), "one name twice: lookup"),
        ((replace(LOOKUP, name="cas"),), "means something else: cas"),
        ((replace(LOOKUP, name="recovery"),), "means something else: recovery"),
        ((replace(LOOKUP, name="by.key"),), "a name that is none"),
        ((replace(WRITE, name="read"),), "a read that writes, or a write that does not: read"),
        ((replace(READ, name="write"),), "a read that writes, or a write that does not: write"),
        ((WRITE, replace(WRITE, name="ship")), "two that write documents, whose ids would be the same: ship"),
    ],
)
def test_operations_that_cannot_stand_in_a_definition_are_refused(kinds: tuple[OperationKind, ...], says: str) -> None:
    with pytest.raises(InvalidInput, match="the workload 'theirs' declares") as caught:
        operations.refuse_wrong("theirs", kinds, TAKEN)
    assert says in str(caught.value)


def test_an_operation_writes_or_does_not() -> None:
    for requests in ({}, {"a": "index", "b": "get"}):
        with pytest.raises(InvalidInput, match="either all of them write documents or none"):
            OperationKind("mixed", "", requests)  # type: ignore[arg-type]
    operations.refuse_wrong("documents", USUAL, TAKEN)
