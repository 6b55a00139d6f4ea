"""Which process each node is, and what two looks come to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.base.errors import LabError
from chaos.observe.restarted import Process, read, shown
from chaos.opensearch import administration

ONE = {"name": "a-data", "ephemeral_id": "x"}
JVM = {"name": "a-data", "version": "3.8.0", "jvm": {"start_time_in_millis": 7}}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, Any]]:
    """Path before its query → answer."""
    given: dict[str, tuple[int, Any]] = {
        "/_cluster/state/cluster_manager_node,nodes": (200, {"cluster_manager_node": "n1", "nodes": {"n1": ONE}}),
        "/_nodes/jvm": (200, {"nodes": {"n1": JVM}}),
    }
    monkeypatch.setattr(administration, "administer", lambda c, method, path, **_: given[path.partition("?")[0]])
    return given


STATE, NODES = "/_cluster/state/cluster_manager_node,nodes", "/_nodes/jvm"


def test_a_node_is_known_by_its_id_and_its_start(answers: dict[str, tuple[int, Any]]) -> None:
    assert read(None) == {"a-data": Process("x", "3.8.0", 7)}  # type: ignore[arg-type]


@pytest.mark.parametrize("jvm", [{**JVM, "jvm": {}}, {**JVM, "name": "b-data"}])
def test_one_of_which_not_all_is_known_is_not_there(answers: dict[str, tuple[int, Any]], jvm: Any) -> None:
    answers[NODES] = (200, {"nodes": {"n1": jvm}})
    assert read(None) == {}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        (STATE, (200, {"nodes": {"n1": ONE}})),  # one that has just started, and knows itself alone
        (STATE, (403, "no")),
        (STATE, (200, {"cluster_manager_node": "n1", "nodes": {"n1": {}}})),
        (STATE, (200, {"cluster_manager_node": "n1", "nodes": [ONE]})),
        (NODES, (500, "no")),
        (NODES, (200, {"nodes": {"n1": {**JVM, "jvm": {"start_time_in_millis": "soon"}}}})),
    ],
)
def test_what_cannot_be_read_is_nobody_s_word(
    answers: dict[str, tuple[int, Any]], path: str, answer: tuple[int, Any]
) -> None:
    answers[path] = answer
    with pytest.raises(LabError):
        read(None)  # type: ignore[arg-type]


PROCESSES = st.builds(Process, st.sampled_from("xyz"), st.just("3.8.0"), st.integers(1, 3))
LOOKS = st.dictionaries(st.sampled_from("abcd"), PROCESSES)


@given(before=LOOKS, after=LOOKS, named=st.sets(st.sampled_from("abcd")), spared=st.sets(st.sampled_from("abcd")))
def test_it_is_proven_where_all_that_were_named_are_others_and_no_other_is(
    before: Any, after: Any, named: set[str], spared: set[str]
) -> None:
    found = shown(before, after, sorted(named), spared)
    both = {node for node in named if node in before and node in after}
    others = {n for n in before if n not in named | spared}
    wanted = both == named and all(before[n].id != after[n].id and before[n].started != after[n].started for n in both)
    kept = all(node in after and after[node].id == before[node].id for node in others)
    assert found.proven is (wanted and kept)
    assert not (found.proven and found.waits)
    assert found.proven or found.says()
