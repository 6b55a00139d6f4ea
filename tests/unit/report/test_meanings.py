"""Every metric and kind of fault has a meaning, what helps and a price; docs/findings.md says the same."""

from __future__ import annotations

import itertools

import pytest

from chaos.checks import instruments
from chaos.definitions.actions import ACTIONS
from chaos.registry import FAULTS, METRICS
from chaos.report import meanings as module
from chaos.report.meanings import GROUPS, group_of, meanings

OF_INSTRUMENTS = {
    "partial-results",
    "explicit-ids",
    "replication-type",
    "segment-pressure",
    "explain-allocation",
    "take-the-block-away",
}
"""Remedies that checks of instruments name, and others do not."""


@pytest.mark.parametrize("metric", [*METRICS, "until"])
def test_every_metric_has_a_meaning_and_something_that_helps(metric: str) -> None:
    assert meanings().metric(metric) is not None, f"write what {metric} means into {module.FILE.name}"
    assert group_of(metric) in GROUPS, f"say in {module.__name__} which group {metric} belongs to"
    assert meanings().advice(metric, ())


@pytest.mark.parametrize("metric", METRICS)
def test_every_fault_has_a_meaning_and_advice_for_every_metric(metric: str) -> None:
    of_services = {f"{kind} of a service" for kind in ("disk.full", "disk.stall", "disk.read_only", "disk.errors")}
    assert set(meanings().faults) == set(FAULTS) | of_services | {"network of a service"}
    assert set(meanings().actions) == set(ACTIONS)
    for kind in FAULTS:
        assert meanings().advice(metric, [kind])


def test_every_remedy_exists_is_named_and_has_a_price() -> None:
    all_ = meanings()
    parts = (all_.metrics, all_.actions, all_.faults)
    named = set(itertools.chain.from_iterable(item.helps for part in parts for item in part.values()))
    unknown = named - set(all_.remedies)
    assert not unknown
    for id, remedy in all_.remedies.items():
        assert remedy.price and remedy.does and remedy.settings and remedy.groups, id
        assert set(remedy.groups) <= set(GROUPS), id
    assert all(item.shows for item in all_.faults.values())


def test_no_remedy_is_there_for_nothing() -> None:
    all_ = meanings()
    parts = (all_.metrics, all_.actions, all_.faults)
    named = set(itertools.chain.from_iterable(item.helps for part in parts for item in part.values()))
    assert set(all_.remedies) - named <= OF_INSTRUMENTS
    by_instruments = {id for check in instruments.checks() for id in check.helps}
    assert by_instruments >= OF_INSTRUMENTS - {"partial-results", "explicit-ids"}


def test_advice_fits_the_finding() -> None:
    advice = meanings().advice("write.regained", ["network.drop"])
    assert advice[0].id == "failure-detection"
    assert all("writes" in remedy.groups for remedy in advice)
    assert meanings().advice("write.good", ["network.latency"])[0].id == "zone-failover"
    assert meanings().advice("acknowledged.lost", ["disk.power_loss"])[0].id == "investigate"
    assert {remedy.id for remedy in meanings().advice("shards.moved", ["node.kill"])} >= {"forced-awareness"}
    assert len({remedy.id for remedy in advice}) == len(advice)


def test_the_document_is_current() -> None:
    assert module.DOCUMENT.read_text() == module.markdown(), f"run: {module.COMMAND} > docs/findings.md"
