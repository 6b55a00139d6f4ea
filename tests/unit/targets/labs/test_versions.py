"""Nodes of several versions in one lab: what they are made of, how one is upgraded, what shows that it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fakes import FakeLab
from making import built

from chaos.base.errors import LabError
from chaos.definitions import Scene
from chaos.faults.kinds.node import UpgradeEvidence
from chaos.observe.proof import upgraded
from chaos.registry import FAULTS
from chaos.targets.parts import Parts

OLD = Parts("/old", "2.19.6", "there", "a.jar", "/java17", "17", (), None, "/toxiproxy", "2.12.0")
NEW = replace(OLD, home="/new", opensearch_version="3.8.0", java="/java25")


def test_parts_of_every_version_are_written_down_and_read_back() -> None:
    parts = replace(OLD, others=(NEW,))
    assert Parts.from_json(parts.to_json()) == parts
    assert parts.of("3.8.0") == NEW and parts.of("2.19.6") is parts
    with pytest.raises(LabError, match=r"made without OpenSearch 3\.9\.0"):
        parts.of("3.9.0")
    earlier = {key: value for key, value in OLD.to_json().items() if key != "others"}
    assert Parts.from_json(earlier) == OLD  # a manifest from before there were others


def test_data_nodes_go_first_and_each_is_stopped_changed_started_and_awaited() -> None:
    lab = FakeLab("3az-upgrade")
    params = FAULTS["node.upgrade"](target="zone a")
    fault = built(params, Scene.of(lab.topology, 1, "f1"), lab.wiring)
    assert fault.in_order and fault.targets == ("a-data", "a-cm")
    moves = [str(each.move).split(" nodes=")[0] for each in fault.moves]
    assert moves[:4] == [
        "node.stop node=a-data",
        "node.version node=a-data version=3.8.0",
        "node.start node=a-data",
        "node.await node=a-data",
    ]
    inverses = [each.inverse and each.inverse.operation for each in fault.moves[:4]]
    assert inverses == ["node.start", None, "nothing", "nothing"]


def test_a_topology_that_names_no_later_version_has_no_upgrades() -> None:
    params = FAULTS["node.upgrade"](target="zone a")
    assert params.check(FakeLab("3az").topology) != [] and params.check(FakeLab("3az-upgrade").topology) == []


class Telling(FakeLab):
    """Its nodes say what ``told`` holds; None: no answer that means anything."""

    told: str | None = "2.19.6"

    def client(self, node: str, timeout: float = 5.0) -> Any:
        lab = self

        class Client:
            def request(self, method: str, path: str) -> tuple[int, Any]:
                return (200, {"version": {"number": lab.told}}) if lab.told else (503, "starting")

            def close(self) -> None:
                return

        return Client()


@pytest.mark.parametrize(
    ("before", "after", "well"),
    [("2.19.6", "3.8.0", True), ("2.19.6", "2.19.6", False), ("3.8.0", "3.8.0", False), ("2.19.6", None, False)],
)
def test_only_a_node_that_says_the_new_version_and_did_not_before_was_upgraded(
    before: str, after: str | None, well: bool
) -> None:
    lab, evidence = Telling("3az-upgrade"), UpgradeEvidence(["a-data"], "3.8.0")
    lab.told = before
    first = evidence._asked(lab, "a-data", new=False)
    lab.told = after
    assert (first.ok and evidence._asked(lab, "a-data", new=True).ok) is well


def test_an_upgraded_lab_is_another_one() -> None:
    lab = FakeLab("3az-upgrade")
    assert upgraded(lab) == []  # type: ignore[arg-type]
    lab.set_version("a-data", "3.8.0")
    assert upgraded(lab) == ["node a-data was upgraded from 2.19.6 to 3.8.0"]  # type: ignore[arg-type]
