"""A run on a cluster that exists that somebody stops, or whose fault somebody else takes away."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster.test_on_existing import EVERYTHING, SLOW, STANDBY, There, taken_for_theirs
from clusterkit import await_event, events, findings, in_effect

from chaos.targets.labs.local import LocalLab

pytestmark = pytest.mark.full
MOMENTS: dict[str, Callable[[dict[str, Any]], bool]] = {
    **{
        name: lambda event, name=name: event["kind"] == "stage" and event["name"] == name
        for name in ("notes", "preload", "warm-up")
    },
    "a fault": in_effect,
    "an action": lambda event: event["kind"] in ("action.command", "action.done"),
}


@pytest.fixture
def with_links(playground: LocalLab, tmp_path: Path) -> Iterator[There]:
    with taken_for_theirs(playground, tmp_path, STANDBY, links=True) as made:
        yield made


@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_undoes_everything(with_links: There, moment: str) -> None:
    there = with_links
    running = there.begin(EVERYTHING)
    await_event(running, there.out, MOMENTS[moment])
    running.signal(signal.SIGINT)
    code, output = running.end(240)
    assert code == 4, output
    assert findings(there.out)["clean"] is True and there.as_before()


def test_a_fault_that_somebody_takes_away_is_no_proof_and_ends_the_run(with_links: There) -> None:
    there = with_links
    running = there.begin("  healthy: {for: 3s}\n" + SLOW % "1m" + "  over: {undo: all, for: 3s}\n")
    await_event(running, there.out, in_effect)
    for host in there.lab.wiring.hosts:
        for name, proxy in there.lab.proxies(host.name).items():
            for toxic in proxy["toxics"]:
                there.lab.remove_toxic(host.name, name, toxic["name"])
    code, output = running.end(240)
    found = findings(there.out)
    assert code == 3 and found["outcome"] == "inconclusive", output
    assert [fault["proven"] for fault in found["faults"]] == [False]
    assert not [event for event in events(there.out) if event["kind"] == "phase.start" and event["phase"] == "over"]
    assert found["clean"] is True and there.as_before()
