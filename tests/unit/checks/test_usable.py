"""Under ``taskset -c 0`` half of the machine is not free: what waits for processor 0 is late for the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import synthetic
from hypothesis import given
from hypothesis import strategies as st
from mutations import Stored
from synthetic import T0, S, Story, expect, mixed

from chaos.checks import evaluate, usable
from chaos.checks.deciding import Echoes, Seen, decides, says
from chaos.checks.forgiving import MACHINE
from chaos.checks.leaving import pushed
from chaos.checks.record import Record
from chaos.checks.starved import Clock, share
from chaos.history.format import Outcome as Arrival

LATE = mixed((3.0, 3.2, 1.0, Arrival.OK, 0.25))
"""A fifth of a second of reads at 250 ms, the objective being 100 ms: 20 of 3000."""
TIMED_OUT = mixed((3.0, 3.2, 1.0, Arrival.TIMEOUT, 0.5))
EVERYBODY = ("runner", "load driver", "a-data", "b-data", "c-data")


def made(
    behaviour: Any = LATE,
    *,
    full: tuple[float, float] | None = (2.0, 4.0),
    sets: tuple[tuple[int, ...], ...] = ((0,),),
    by: str = "affinity",
    unknown: tuple[str, ...] = (),
    rules: int = 2,
    apart: bool = True,
) -> Stored:
    """A run whose processes are held to ``sets`` of two processors; ``full``: when those had nothing free (s).

    The machine as a whole is at 40 % all the time.
    """
    story = synthetic.slow_zone()
    story.rules = rules
    story.expect = [expect("read.good", ">=", 0.999, ("healthy",))]
    story.chapters[0].read = behaviour
    stored = Stored.of(story.history())
    stored.plan["machine"] = {"processors": 2, "usable": {"processors": [0], "of": 2, "quota": None}}
    limits = {"sets": [list(each) for each in sets], "by": by, "quota": None}
    who = dict.fromkeys(EVERYBODY, limits) if sets else {}
    said = {"of": 2, "sets": [list(each) for each in sets], "who": who, "unknown": list(unknown)}
    stored.events.append({"t": T0 - S, "wall": 0.0, "kind": "machine.usable", **said})
    for event in stored.driver if apart else ():
        if event["kind"] == "self":
            event["usable"] = [{"of": list(each), "slices": _slices(event["t"], full)} for each in sets]
    return stored


def _slices(t: int, full: tuple[float, float] | None) -> list[list[Any]]:
    found = []
    for tenth in range(10):
        start = t + tenth * S // 10
        busy = full is not None and full[0] <= (start - T0) / S < full[1]
        found.append([start, start + S // 10, 1.0 if busy else 0.2])
    return found


def verdict(stored: Stored) -> Mapping[str, Any]:
    return evaluate(stored.history()).findings[0].to_json()


def test_late_while_processor_0_was_full_is_no_weakness_and_names_the_affinity() -> None:
    found = evaluate(made().history())
    assert found.outcome == "inconclusive"
    assert "may use processor 0 of 2 alone, by their affinity" in str(found.findings[0].because)


def test_rules_1_count_the_whole_machine_as_they_did() -> None:
    assert verdict(made(rules=1))["verdict"] == "fail"


def test_a_cpuset_is_named_as_one() -> None:
    assert "by a cpuset" in str(verdict(made(by="cpuset"))["because"])


def test_late_while_processor_0_was_free_is_late() -> None:
    assert verdict(made(full=None))["verdict"] == "fail"
    assert verdict(made(full=(10.0, 12.0)))["verdict"] == "fail"


def test_where_node_and_driver_differ_either_may_be_waited_for() -> None:
    stored = made(full=None, sets=((0,), (1,)))
    for event in stored.driver:
        for each in event.get("usable") or ():
            if each["of"] == [1]:
                each["slices"] = _slices(event["t"], (2.0, 4.0))
    assert verdict(stored)["verdict"] == "inconclusive"


def test_a_set_that_nobody_measured_does_not_count_as_free() -> None:
    """Somebody narrows a node in mid-run: the driver has no slices of that set."""
    found = evaluate(made(mixed(), full=None, apart=False).history())
    assert found.outcome == "inconclusive"
    assert [check["id"] for check in found.validity["checks"] if not check["ok"]] == ["machine"]


def test_what_is_not_known_is_said_and_does_not_count_as_free() -> None:
    found = evaluate(made(mixed(), full=None, sets=(), unknown=("b-data",)).history())
    assert found.outcome == "inconclusive"
    machine = next(check for check in found.validity["checks"] if check["id"] == "machine")
    assert "which processors b-data may use is not known" in machine["measured"]


def test_a_watch_that_never_said_anything_measured_nothing() -> None:
    stored = made(mixed(), full=None)
    stored.drop("machine.usable")
    assert evaluate(stored.history()).outcome == "inconclusive"


def test_a_watch_that_broke_measured_nothing() -> None:
    stored = made(mixed(), full=None)
    stored.events.append({"t": T0 + 60 * S, "wall": 0.0, "kind": "machine.unwatched", "last": 1, "because": "OSError"})
    assert evaluate(stored.history()).outcome == "inconclusive"


def test_a_whole_machine_is_judged_as_it_was() -> None:
    assert verdict(made(sets=()))["verdict"] == "fail"
    assert evaluate(made(mixed(), sets=()).history()).outcome == "pass"


def throttled(stored: Stored, since: float, until: float, seconds: float, who: tuple[str, ...]) -> None:
    groups = {"/sys/fs/cgroup/cpu/box": {"seconds": seconds, "who": list(who)}}
    at = {"since": T0 + round(since * S), "until": T0 + round(until * S)}
    stored.events.append({"t": at["until"], "wall": 0.0, "kind": "machine.throttled", **at, "groups": groups})


def test_waiting_for_a_quota_is_time_without_a_processor() -> None:
    stored = made(sets=())
    assert verdict(stored)["verdict"] == "fail"
    throttled(stored, 2.5, 3.5, 1.0, ("load driver", "runner"))
    found = verdict(stored)
    assert found["verdict"] == "inconclusive"
    assert "quota" in str(found["because"])


def test_a_quota_that_made_nobody_wait_is_no_excuse() -> None:
    stored = made(TIMED_OUT, sets=())
    limit = {"sets": [], "by": "affinity", "quota": 1.5}
    stored.of_kind("machine.usable")[0]["who"] = {"runner": limit}
    assert usable.words(Record(stored.history())) is None
    throttled(stored, 2.5, 3.5, 1.0, ("runner",))
    assert usable.words(Record(stored.history())) == "runner may use 1.5 processors' worth of time, by a quota"


def test_a_quota_of_our_own_fault_is_that_fault() -> None:
    stored = made(sets=())
    throttled(stored, 2.5, 3.5, 1.0, ("c-data",))
    command = {"fault": "f9", "fault_kind": "node.cpu_starvation", "says": "c-data starves", "targets": ["c-data"]}
    stored.add("healthy", 0.5, "fault.command", **command)
    record = Record(stored.history())
    assert usable.waits(record) == []
    assert not usable.limited(record) and usable.words(record) is None
    throttled(stored, 2.5, 3.5, 0.5, ("b-data", "c-data"))  # a group above both is not that fault's
    assert [round(share, 3) for _, _, share in usable.waits(Record(stored.history()))] == [0.5]


def test_a_timeout_of_a_client_is_lateness_where_processors_are_limited() -> None:
    assert verdict(made(TIMED_OUT))["verdict"] == "inconclusive"
    whole = made(TIMED_OUT, sets=())
    for event in whole.driver:
        if event["kind"] == "self":
            event["processors"] = _slices(event["t"], (2.0, 4.0))
    assert verdict(whole)["verdict"] == "fail"


def test_a_node_that_left_after_a_second_without_a_processor_of_its_own_was_pushed() -> None:
    stored = made(mixed())
    stored.add("healthy", 5.0, "cluster.node_left", node="b-data", zone="b")
    record = Record(stored.history())
    assert "b-data left the cluster" in str(pushed(record, record.spans[0]))
    free = made(mixed(), full=None)
    free.add("healthy", 5.0, "cluster.node_left", node="b-data", zone="b")
    record = Record(free.history())
    assert pushed(record, record.spans[0]) is None


def test_the_share_without_a_processor_is_that_of_the_usable_ones() -> None:
    found, known = share(Record(made(full=(0.0, 76.0)).history()))
    assert found == pytest.approx(0.5, abs=0.01)
    assert known == pytest.approx(1.0, abs=0.01)
    assert Clock(Record(made().history())).share.max() == pytest.approx(1.0)
    assert usable.number(Record(made().history())) == 1
    assert usable.number(Record(made(sets=()).history())) == 2
    assert MACHINE in str(verdict(_busy_machine())["because"])


def _busy_machine() -> Stored:
    stored = made(sets=())
    for event in stored.driver:
        if event["kind"] == "self":
            event["processors"] = _slices(event["t"], (2.0, 4.0))
    return stored


QUICK = Echoes(tuple([9.0] * 200))


@pytest.mark.parametrize(
    ("seen", "answer"),
    [
        (Seen(), "yes"),
        (Seen(full=0.49), "yes"),
        (Seen(full=0.5), "doubtful"),
        (Seen(full=0.5, late={"read": (20, 200)}), "no"),
        (Seen(late={"read": (0, 200)}), "yes"),
        (Seen(late={"read": (20, 200)}), "doubtful"),
        (Seen(late={"write": (20, 200)}), "yes"),
    ],
)
def test_what_a_machine_can_decide_contradicts_nothing_that_was_seen(seen: Seen, answer: str) -> None:
    """ "this machine can decide 250 ms" was said while answers took 5 s."""
    assert decides(QUICK, 0.25, seen, "read") == answer
    assert ("this machine can decide 250 ms" in says(QUICK, {"read": 0.25}, seen)) == (answer == "yes")


def test_what_was_promised_is_taken_back_where_it_did_not_stay_so() -> None:
    stored = made()
    promise = {"decides": {"read": "yes", "write": "yes"}, "asked": 200, "says": "this machine can decide 100 ms"}
    stored.events.append({"t": T0 - S, "wall": 0.0, "kind": "machine.decides", **promise})
    told = evaluate(stored.history()).tables["echo"]["says"]
    assert told.startswith("before the first phase: this machine can decide 100 ms")
    assert "in healthy answers were late before anything was done to the cluster" in told


def test_what_was_under_way_when_something_was_done_was_not_late_before() -> None:
    length = synthetic.slow_zone().chapters[0].seconds
    stored = made(mixed((length - 0.09, length, 1.0, Arrival.TIMEOUT, 0.5)), full=None)
    promise = {"decides": {"read": "yes", "write": "yes"}, "asked": 200, "says": "this machine can decide 100 ms"}
    stored.events.append({"t": T0 - S, "wall": 0.0, "kind": "machine.decides", **promise})
    assert "before anything was done" not in evaluate(stored.history()).tables["echo"]["says"]
    stored.plan["rules"] = 1
    assert evaluate(stored.history()).tables["echo"]["says"] == "this machine can decide 100 ms"


def test_a_story_without_limits_is_a_story_of_before() -> None:
    assert usable.words(Record(Story(chapters=synthetic.slow_zone().chapters).history())) is None


@given(st.lists(st.floats(0.0, 1.0), min_size=4, max_size=12))
def test_a_limit_never_makes_more_time_free(busy: list[float]) -> None:
    """Whatever the sets of processors did, the time without a free one is no less than that of the whole machine."""
    story = Story(chapters=[synthetic.Chapter("healthy", 4)], rules=2, starved=((0.5, 1.5),), rate=5.0)
    stored = Stored.of(story.history())
    stored.plan["machine"] = {"processors": 2, "usable": {"processors": [0], "of": 2, "quota": None}}
    alone = Clock(Record(stored.history()))
    slices = [[T0 + n * S // 10, T0 + (n + 1) * S // 10, share] for n, share in enumerate(busy)]
    stored.driver[-1]["usable"] = [{"of": [0], "slices": slices}]
    both = Clock(Record(stored.history()))
    edges = np.arange(T0, T0 + 4 * S, S // 10)
    assert (both.between(edges[:-1], edges[1:]) >= alone.between(edges[:-1], edges[1:]) - 1e-9).all()
