"""The settings that are accepted and deadly: each as its case sets it, and no neighbour of it."""

from __future__ import annotations

import json
import re

import pytest
from shipped import CASES, ROOT

from chaos.commands.upstream import recorded
from chaos.definitions.upstream import StepFile, load_case
from chaos.programs.audit.accepted import ACCEPTED, deadly
from chaos.report.upstream import counted

BY_NAME = {path.stem: path for path in CASES}
RECORDS = recorded(ROOT / "reports" / "results")


def sent(steps: tuple[StepFile, ...]) -> dict[str, str]:
    """What the steps set at first."""
    (first, *_) = [step.run for step in steps if step.run is not None and "_cluster/settings" in step.run]
    bodies = [json.loads(body) for body in re.findall(r"-d '(\{.*?\})'(?:\n|;|$)", first)]
    return {
        key: str(value).lower() for body in bodies for key, value in body["persistent"].items() if value is not None
    }


@pytest.mark.parametrize("each", ACCEPTED, ids=lambda each: each.case)
def test_what_a_case_sets_is_deadly_and_its_control_is_not(each) -> None:
    loaded = load_case(BY_NAME[each.case])
    case = loaded.written
    seen = {version for version in case.versions if counted(loaded, RECORDS, version)[0]}
    assert set(each.versions) == seen, "say the versions on which it was seen, and no others"
    bad = sent(case.steps)
    if each.unless is not None:
        bad = {key: value for key, value in bad.items() if not key.endswith(f".{each.unless}")}
    assert any(each.ends_in in line for line in deadly(bad)), bad
    good = {} if each.unless else sent(case.control.steps)
    assert deadly(good) == []


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"cluster.publish.timeout": "3s"},
        {"cluster.thread_pool.snapshot.core": "8", "cluster.thread_pool.snapshot.max": "10"},
        {"cluster.routing.allocation.awareness.force.zone.values": "a,b,c"},
        {"node.resource.tracker.global_cpu_usage.window_duration": "2s"},
        {"indices.fielddata.cache.size": "10mb"},
        {"cluster_manager.throttling.thresholds.put-mapping.value": "0"},
    ],
)
def test_what_is_harmless_is_not_found(settings: dict[str, str]) -> None:
    assert deadly(settings) == []
