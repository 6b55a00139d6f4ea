"""What calls cost, by processes' own clocks: whose time it is, and what of it is not the call's."""

from __future__ import annotations

import os
import time
from typing import Any

import admin_cost as module
import pytest
from admin_cost import Asking, Nodes

from chaos.definitions import load_topology

MANAGERS = load_topology("managers", near=module.ROOT / "experiments" / "x.yaml")


class Lab:
    topology = MANAGERS


def nodes(used: dict[str, float] | None = None) -> Nodes:
    """``used``: seconds by node, which grow by as much at each look."""
    made = Nodes.__new__(Nodes)
    made.lab, made.leader, made.pids = Lab(), "b-cm", {}  # type: ignore[assignment]
    total = dict.fromkeys((node.name for node in MANAGERS.nodes), 0.0)

    def looked() -> dict[str, float]:
        for name, grown in (used or {}).items():
            total[name] += grown
        return dict(total)

    made.used = looked  # type: ignore[method-assign]
    return made


class Answers(Asking):
    """``statuses``: of each call, the last one for ever; ``seconds``: how long each takes."""

    def __init__(self, *statuses: int, seconds: float = 0.0) -> None:
        self._statuses, self._seconds, self.paths = list(statuses), seconds, []  # type: ignore[var-annotated]

    def get(self, path: str) -> tuple[int, bytes]:
        self.paths.append(path)
        time.sleep(self._seconds)
        return (self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]), b"12345"


def test_a_process_is_read_by_its_own_clock_from_outside() -> None:
    before, own = module.clock(os.getpid()), time.process_time()
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    assert module.clock(os.getpid()) - before == pytest.approx(time.process_time() - own, abs=0.02)
    with pytest.raises(OSError, match="argument"):
        module.clock(2**21 + 7)  # no such process


def test_each_node_s_time_is_somebody_s_and_counts_once() -> None:
    seconds = {node.name: 2.0**number for number, node in enumerate(MANAGERS.nodes)}
    found = nodes().shared(seconds, "a-coord")
    assert sum(found.values()) == sum(seconds.values())
    assert found["manager"] == seconds["b-cm"] and found["asked"] == seconds["a-coord"]
    assert found["managers"] == seconds["a-cm"] + seconds["c-cm"]
    assert found["data"] == sum(seconds[f"{zone}-data"] for zone in "abc")


def test_what_a_node_uses_when_idle_is_not_the_call_s() -> None:
    before = dict.fromkeys((node.name for node in MANAGERS.nodes), 0.0)
    asking = Answers(200, seconds=0.01)
    busy = module.once(nodes({"b-cm": 0.4}), asking, "a-coord", "state", 0.0, before, (1, 2000, 6))
    assert (busy.made, busy.failed, busy.bytes, busy.entries, busy.shards) == (2, 0, 5, 2000, 6)
    assert busy.manager == pytest.approx(0.4 * 1000 / 2) and busy.managers == busy.data == busy.asked == 0
    assert asking.paths == ["/_cluster/state"] * 2 and busy.wall >= 10
    idle = module.once(nodes({"b-cm": 0.4}), asking, "a-coord", "state", 0.0, before | {"b-cm": 10.0}, (1, 2000, 6))
    assert busy.manager - 200 < idle.manager < busy.manager - 50, "ten processors for as long as the calls took"


def test_calls_that_fail_are_counted() -> None:
    before = dict.fromkeys((node.name for node in MANAGERS.nodes), 0.0)
    found = module.once(nodes(), Answers(429, 200), "a-coord", "health", 0.0, before, (1, 0, 0))
    assert (found.made, found.failed) == (2, 1)


def test_calls_at_a_rate_that_are_late_or_fail_are_bad() -> None:
    _, made, bad = module.paced(nodes(), Answers(429, 200), "health", 50, 0.2)
    assert (made, bad) == (10, 1)
    assert module.paced(nodes(), Answers(200), "health", 0, 0.01)[1:] == (0, 0), "no calls: what is used at rest"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--calls", "state,nothing"], "there is no call nothing"),
        (["--entries", "2000,0"], "expected rising multiples"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr("sys.argv", ["admin_cost.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        module.parsed()
    assert ended.value.code == 2 and says in capsys.readouterr().err
