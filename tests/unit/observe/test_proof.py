"""What is not as it was when a lab had just come up; the cluster's answers are made up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from fakes import FakeLab

from chaos.base.errors import LabError
from chaos.observe import proof
from chaos.opensearch import administration


def answers(
    monkeypatch: pytest.MonkeyPatch,
    lab: FakeLab,
    weights: dict[str, int] | None,
    transient: Mapping[str, str] | None = None,
) -> None:
    """A green cluster with the settings of its topology. OpenSearch answers 400 where it does not know the zones."""

    def of_zones(_: Any) -> tuple[dict[str, int] | None, int]:
        if not lab.topology.zone_aware:
            raise LabError("reading the weights answered 400: invalid awareness attribute zone requested")
        return weights, 1

    monkeypatch.setattr(proof, "marks", lambda _: [])
    monkeypatch.setattr(proof, "await_green", lambda *_: (True, 0.0))
    monkeypatch.setattr(administration, "weights", of_zones)
    monkeypatch.setattr(administration, "decommission_status", lambda _: {})
    settings = {key: administration.as_text(value) for key, value in lab.topology.settings.cluster.items()}
    layers = {"persistent": settings, "transient": transient or {}}
    monkeypatch.setattr(administration, "cluster_settings", lambda *_: layers)


def test_a_lab_without_awareness_has_no_weights_to_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = FakeLab("planted-no-awareness")
    answers(monkeypatch, lab, None)
    assert proof.problems(lab) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(("weights", "clean"), [({"a": 1, "b": 1, "c": 0}, True), ({"a": 0, "b": 1, "c": 1}, False)])
def test_weights_are_those_of_the_topology(
    monkeypatch: pytest.MonkeyPatch, weights: dict[str, int], clean: bool
) -> None:
    lab = FakeLab("3az-standby")
    answers(monkeypatch, lab, weights)
    assert (proof.problems(lab) == []) is clean  # type: ignore[arg-type]


def test_a_lab_with_a_transient_setting_is_not_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = FakeLab("3az-standby")
    answers(monkeypatch, lab, lab.topology.weights, {"cluster.routing.allocation.enable": "none"})
    (found,) = proof.problems(lab)  # type: ignore[arg-type]
    assert "transient" in found and "allocation.enable" in found
