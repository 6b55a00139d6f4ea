"""The life of experiments, turned by hand: no thread, no time that passes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from apart import examples
from fiskit import (
    INSTANCE,
    Stepped,
    World,
    alarm,
    arn,
    journal_in,
    rows,
    stop_action,
    wait_action,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaos.fis_endpoint import journal as journals
from chaos.fis_endpoint.doing import Doing, Failed
from chaos.fis_endpoint.engine import ACTION_MOVES, EXPERIMENT_MOVES, OVER, TERMINAL, recover

ALARMED = [{"source": "aws:cloudwatch:alarm", "value": alarm("slow")}]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def stepped(tmp_path: Path, world: World) -> Iterator[Stepped]:
    journal = journal_in(tmp_path)
    yield Stepped(journal, world)
    journal.close()


def two_nodes(**actions: Any) -> dict[str, Any]:
    targets = {
        name: {"resourceType": INSTANCE, "resourceArns": [arn(n)], "selectionMode": "ALL"}
        for n, name in enumerate(("nodes", "others"))
    }
    return {"targets": targets, "actions": actions}


def test_an_action_lasts_its_duration_and_is_ended(stepped: Stepped, world: World) -> None:
    name = stepped.start()
    assert stepped.status(name) == "pending"
    stepped.advance()
    assert (stepped.status(name), stepped.actions(name)) == ("running", {"stop": "running"})
    stepped.advance(3599.5)
    assert world.hands.of("end") == [] and len(world.hands.of("still")) == 3599
    stepped.advance(0.5)
    assert (stepped.status(name), stepped.actions(name)) == ("completed", {"stop": "completed"})
    assert world.hands.of("end") == ["stop"] and world.hands.effect == {}
    action = stepped.document(name)["actions"]["stop"]
    assert action["endTime"] - action["startTime"] == 3600


def test_the_time_scale_divides_durations_and_no_look(tmp_path: Path, world: World) -> None:
    stepped = Stepped(journal_in(tmp_path), world, time_scale=60)
    name = stepped.start()
    stepped.advance(59)
    assert stepped.status(name) == "running" and len(world.hands.of("still")) == 59
    stepped.advance(1)
    assert stepped.status(name) == "completed"
    assert stepped.document(name)["actions"]["stop"]["parameters"] == {"startInstancesAfterDuration": "PT1H"}


def test_an_action_without_a_duration_is_over_once_it_has_begun(stepped: Stepped, world: World) -> None:
    name = stepped.start(actions={"stop": stop_action(lasts=None)})
    stepped.advance()
    assert stepped.status(name) == "completed" and world.hands.calls == [("begin", "stop"), ("end", "stop")]


def test_actions_follow_each_other_and_run_side_by_side(stepped: Stepped, world: World) -> None:
    name = stepped.start(
        **two_nodes(
            last=stop_action("others", "PT1M", after=("first", "pause")),
            first=stop_action("nodes", "PT2M"),
            pause=wait_action("PT1M"),
        )
    )
    stepped.advance(119)
    assert stepped.actions(name) == {"last": "pending", "first": "running", "pause": "completed"}
    stepped.advance(1)
    assert stepped.actions(name)["last"] == "running"
    stepped.advance(60)
    assert stepped.status(name) == "completed"
    assert [call for call in world.hands.calls if call[0] != "still"] == [
        ("begin", "first"),
        ("end", "first"),
        ("begin", "last"),
        ("end", "last"),
    ]


def test_a_stop_ends_what_began_last_first_and_cancels_the_rest(stepped: Stepped, world: World) -> None:
    actions = {"a": stop_action(), "b": stop_action("others"), "c": stop_action("others", after=("b",))}
    name = stepped.start(**two_nodes(**actions))
    stepped.advance(10)
    stepped.engine.stop(name, "enough")
    assert (stepped.status(name), stepped.actions(name)) == (
        "stopping",
        {"a": "stopping", "b": "stopping", "c": "cancelled"},
    )
    assert world.hands.of("end") == [], "a stop is shown before it is done"
    stepped.advance()
    assert (stepped.status(name), stepped.actions(name)) == (
        "stopped",
        {"a": "stopped", "b": "stopped", "c": "cancelled"},
    )
    assert world.hands.of("end") == ["b", "a"]


def test_a_stop_waits_for_a_begin_that_is_under_way(tmp_path: Path, world: World) -> None:
    stepped = Stepped(journal_in(tmp_path), world, later=True)
    name = stepped.start()
    stepped.advance()
    stepped.spawned.pop()()
    stepped.advance()
    begin = stepped.spawned.pop()
    stepped.engine.stop(name, "enough")
    stepped.advance()
    assert stepped.status(name) == "stopping" and stepped.spawned == []
    begin()
    stepped.advance()
    stepped.spawned.pop()()
    stepped.advance()
    assert stepped.status(name) == "stopped" and world.hands.calls == [("begin", "stop"), ("end", "stop")]


def test_a_failure_of_one_action_ends_the_others_and_the_experiment_has_failed(stepped: Stepped, world: World) -> None:
    name = stepped.start(**two_nodes(a=stop_action(), b=stop_action("others")))
    stepped.advance(10)
    world.hands.broken["a"] = "the instance terminated"
    stepped.advance(1)
    assert stepped.status(name) == "failed" and stepped.actions(name) == {"a": "failed", "b": "stopped"}
    assert world.hands.of("end") == ["b", "a"]
    state = stepped.document(name)["state"]
    assert state["error"] == {"code": "DependentServiceFailure"} and "the instance terminated" in state["reason"]


def test_what_was_made_of_a_begin_that_failed_is_taken_back(stepped: Stepped, world: World) -> None:
    world.hands.begin_fails["stop"] = Failed("AuthorizationFailure", "not allowed")
    name = stepped.start()
    stepped.advance()
    assert (
        stepped.status(name) == "failed" and stepped.document(name)["state"]["error"]["code"] == "AuthorizationFailure"
    )
    assert world.hands.calls == [("begin", "stop"), ("end", "stop")] and world.hands.effect == {}


def test_what_has_no_counterpart_fails_before_anything_begins(stepped: Stepped, world: World) -> None:
    world.hands.cannot["b"] = "15 % loss has no counterpart in the lab"
    name = stepped.start(**two_nodes(a=stop_action(), b=stop_action("others")))
    stepped.advance()
    assert stepped.status(name) == "failed" and stepped.actions(name) == {"a": "cancelled", "b": "failed"}
    document = stepped.document(name)
    assert document["state"]["error"]["code"] == "ConfigurationFailure" and world.hands.calls == []
    assert document["actions"]["b"]["state"]["reason"] == "15 % loss has no counterpart in the lab"


def test_an_end_that_fails_is_no_completion_and_the_others_are_ended_all_the_same(
    stepped: Stepped, world: World
) -> None:
    world.hands.end_fails["b"] = Failed("DependentServiceFailure", "the node does not start")
    name = stepped.start(**two_nodes(a=stop_action(), b=stop_action("others")))
    stepped.advance(10)
    stepped.engine.stop(name, "enough")
    stepped.advance()
    assert stepped.status(name) == "failed" and stepped.actions(name) == {"a": "stopped", "b": "failed"}
    assert world.hands.of("end") == ["b", "a"]
    assert [doing.id for doing in stepped.journal.unended()] == [f"{name}/b"]
    world.hands.end_fails.clear()
    assert stepped.engine.close() == [] and world.hands.effect == {}, "it is tried again when the endpoint is closed"


def test_any_other_exception_of_hands_is_an_internal_failure(stepped: Stepped, world: World) -> None:
    world.hands.begin_fails["stop"] = RuntimeError("x" * 2000)  # type: ignore[assignment]
    name = stepped.start()
    stepped.advance()
    state = stepped.document(name)["state"]
    assert state["status"] == "failed" and state["error"]["code"] == "InternalFailure" and len(state["reason"]) <= 512


@pytest.mark.parametrize("state", ["ALARM", "INSUFFICIENT_DATA", "NONSENSE", None])
def test_nothing_begins_while_a_stop_condition_is_not_ok(stepped: Stepped, world: World, state: str | None) -> None:
    if state is not None:
        world.alarms.states[alarm("slow")] = state
    name = stepped.start(stopConditions=ALARMED)
    stepped.advance()
    assert stepped.status(name) == "failed" and world.hands.calls == [] and world.resources.asked == 0
    assert alarm("slow") in stepped.document(name)["state"]["reason"]


def test_an_alarm_stops_what_runs(stepped: Stepped, world: World) -> None:
    world.alarms.states[alarm("slow")] = "OK"
    name = stepped.start(stopConditions=ALARMED)
    stepped.advance(5)
    assert stepped.status(name) == "running"
    world.alarms.states[alarm("slow")] = "INSUFFICIENT_DATA"
    stepped.advance(5)
    assert stepped.status(name) == "running", "only ALARM stops, once it runs"
    world.alarms.states[alarm("slow")] = "ALARM"
    stepped.advance(1)
    assert stepped.status(name) == "stopped" and world.hands.effect == {}
    assert "is in ALARM" in stepped.document(name)["state"]["reason"]


def test_an_alarm_that_cannot_be_asked_any_more_stops_too(stepped: Stepped, world: World) -> None:
    world.alarms.states[alarm("slow")] = "OK"
    name = stepped.start(stopConditions=ALARMED)
    stepped.advance(5)
    world.alarms.states.clear()
    stepped.advance(1)
    assert stepped.status(name) == "stopped" and "cannot be asked" in stepped.document(name)["state"]["reason"]


def test_skip_all_resolves_and_does_nothing(stepped: Stepped, world: World) -> None:
    world.hands.cannot["stop"] = "never asked"
    name = stepped.start(options={"actionsMode": "skip-all"})
    stepped.advance()
    assert (stepped.status(name), stepped.actions(name)) == ("completed", {"stop": "skipped"})
    assert world.hands.calls == [] and [each["arn"] for each in stepped.document(name)["resolved"]] == [arn(0)]


def tagged(selection: str = "ALL", value: str = "allowed") -> dict[str, Any]:
    return {"resourceType": INSTANCE, "resourceTags": {"chaos": value}, "selectionMode": selection}


@pytest.mark.parametrize(("selection", "number"), [("ALL", 5), ("COUNT(2)", 2), ("PERCENT(50)", 2), ("PERCENT(99)", 4)])
def test_so_many_are_selected(stepped: Stepped, world: World, selection: str, number: int) -> None:
    name = stepped.start(targets={"nodes": tagged(selection)})
    stepped.advance()
    hit = next(iter(world.hands.effect.values())).targets["Instances"]
    assert len(set(hit)) == len(hit) == number
    assert sorted(hit) == sorted(each["arn"] for each in stepped.document(name)["resolved"])
    assert world.resources.asked == 1


@pytest.mark.parametrize(
    ("target", "code"),
    [
        (tagged("PERCENT(19)"), "InvalidTarget"),
        (tagged("COUNT(6)"), "InvalidTarget"),
        (tagged(value="nobody"), "InvalidTarget"),
        ({"resourceType": INSTANCE, "resourceArns": [arn(0), arn(99)], "selectionMode": "ALL"}, "InvalidTarget"),
    ],
)
def test_targets_that_are_not_there_fail_the_experiment(
    stepped: Stepped, world: World, target: dict[str, Any], code: str
) -> None:
    name = stepped.start(targets={"nodes": target})
    stepped.advance()
    state = stepped.document(name)["state"]
    assert (state["status"], state["error"]) == ("failed", {"code": code}) and world.hands.calls == []


def test_more_by_tag_than_the_quota_fails(stepped: Stepped, world: World) -> None:
    world.resources.there[arn(5)] = {"chaos": "allowed"}
    name = stepped.start(targets={"nodes": tagged()})
    stepped.advance()
    assert stepped.document(name)["state"]["error"] == {"code": "QuotaExceededFailure"}


def test_empty_targets_are_skipped_where_that_is_asked_for_and_never_arns(stepped: Stepped, world: World) -> None:
    options = {"experimentOptions": {"emptyTargetResolutionMode": "skip"}}
    actions = {"stop": stop_action(), "then": stop_action("others", after=("stop",))}
    there = {"resourceType": INSTANCE, "resourceArns": [arn(1)], "selectionMode": "ALL"}
    name = stepped.start("a", targets={"nodes": tagged(value="nobody"), "others": there}, actions=actions, **options)
    stepped.advance()
    assert stepped.actions(name) == {"stop": "skipped", "then": "running"}
    stepped.advance(3600)
    assert stepped.status(name) == "completed" and world.hands.of("begin") == ["then"]
    gone = {"resourceType": INSTANCE, "resourceArns": [arn(99)], "selectionMode": "ALL"}
    second = stepped.start("b", targets={"nodes": gone}, **options)
    stepped.advance()
    assert stepped.document(second)["state"]["error"] == {"code": "InvalidTarget"}


def test_asserting_an_alarms_state(stepped: Stepped, world: World) -> None:
    parameters = {"alarmArns": f"{alarm('a')},{alarm('b')}", "alarmStates": "OK"}
    action = {"actionId": "aws:cloudwatch:assert-alarm-state", "parameters": parameters}
    world.alarms.states.update({alarm("a"): "OK", alarm("b"): "OK"})
    first = stepped.start("a", targets={}, actions={"check": action})
    stepped.advance()
    assert stepped.status(first) == "completed"
    world.alarms.states[alarm("b")] = "ALARM"
    second = stepped.start("b", targets={}, actions={"check": action})
    stepped.advance()
    assert stepped.status(second) == "failed"


def test_a_disk_that_takes_no_line_begins_nothing(
    stepped: Stepped, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = stepped.start()

    def full(self: Any, row: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journals.Journal, "_append", full)
    stepped.advance()
    assert stepped.status(name) == "failed" and world.hands.calls == []
    assert "No space left" in stepped.document(name)["state"]["reason"]


def test_a_disk_that_is_full_meanwhile_does_not_keep_a_fault_alive(
    stepped: Stepped, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = stepped.start()
    stepped.advance(5)

    def full(self: Any, row: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journals.Journal, "_append", full)
    stepped.engine.stop(name, "enough")
    stepped.advance()
    assert stepped.status(name) == "failed" and world.hands.effect == {}


def test_an_error_of_the_engine_itself_ends_what_began(
    stepped: Stepped, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, other = stepped.start("a"), stepped.start("b")
    stepped.advance(5)
    monkeypatch.setattr(stepped.engine, "_watch", lambda run, *rest: 1 / 0)
    stepped.advance(1)
    assert stepped.status(name) == stepped.status(other) == "failed" and world.hands.effect == {}


EVENTS = st.lists(
    st.one_of(
        st.sampled_from(["stop", "lever", "alarm", "no alarm", "broken", "end fails", "begin fails", "cannot", "tag"]),
        st.floats(0.0, 200.0),
        st.integers(0, 7),
    ),
    max_size=25,
)


@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=EVENTS, after=st.sampled_from([(), ("a",)]), selection=st.sampled_from(["ALL", "PERCENT(50)"]))
def test_every_path_of_states_is_legal_and_leaves_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    without_fsync: None,
    events: list[Any],
    after: tuple[str, ...],
    selection: str,
) -> None:
    """Whatever happens in whatever order: by the journal, each change of state is one that AWS knows; what is over
    stays as it is; all that began was ended, once where no end failed; a completed experiment did all its actions."""
    world = World()
    world.alarms.states[alarm("slow")] = "OK"
    journal = journal_in(tmp_path_factory.mktemp("fis"))
    stepped = Stepped(journal, world, later=True)
    targets = {
        "nodes": {"resourceType": INSTANCE, "resourceArns": [arn(0)], "selectionMode": selection},
        "others": {"resourceType": INSTANCE, "resourceArns": [arn(1)], "selectionMode": "ALL"},
    }
    actions = {"a": stop_action("nodes", "PT1M"), "b": stop_action("others", "PT2M", after)}
    able, asked = world.hands.unable, list[str]()

    def unable(doing: Doing) -> str | None:
        asked.append(doing.id)
        return able(doing)

    world.hands.unable = unable  # type: ignore[method-assign]
    name = stepped.start(targets=targets, actions=actions, stopConditions=ALARMED)
    failing: set[str] = set()
    for event in events:
        if isinstance(event, float):
            stepped.advance(event)
        elif isinstance(event, int):
            if stepped.spawned:
                stepped.spawned.pop(event % len(stepped.spawned))()
            stepped.advance()
        elif event == "stop":
            stepped.engine.stop(name, "enough")
        elif event == "lever":
            state = {"status": "engaged", "reason": "now"}
            lever = stepped.service.call("GetSafetyLever", {"id": "default"})["safetyLever"]["state"]["status"]
            if lever != "engaging":
                stepped.service.call("UpdateSafetyLeverState", {"id": "default", "state": state})
        elif event in ("alarm", "no alarm"):
            world.alarms.states[alarm("slow")] = "ALARM" if event == "alarm" else "OK"
        elif event == "tag":
            stepped.engine.tag(name, {"k": "v"})
        else:
            over = {"cannot": bool(asked), "begin fails": "b" in world.hands.of("begin")}
            if not over.get(event):  # each is asked for once: what comes later meets nothing
                failing.add(event)
            failed = Failed("DependentServiceFailure", "it failed")
            if event == "broken":
                world.hands.broken["a"] = "it broke"
            elif event == "cannot":
                world.hands.cannot["b"] = "no counterpart"
            else:
                {"end fails": world.hands.end_fails, "begin fails": world.hands.begin_fails}[event]["b"] = failed
    for _ in range(60):
        stepped.advance(60)
        while stepped.spawned:
            stepped.spawned.pop(0)()
            stepped.advance()
    assert stepped.status(name) in TERMINAL
    assert set(stepped.actions(name).values()) <= OVER
    seen = [row["experiment"] for row in rows(journal.file) if row["kind"] == "experiment"]
    for before, now in pairwise(seen):
        status, then = before["state"]["status"], now["state"]["status"]
        assert then == status or then in EXPERIMENT_MOVES[status]
        for action in actions:
            was, became = (each["actions"][action]["state"]["status"] for each in (before, now))
            assert became == was or became in ACTION_MOVES[was]
    assert seen[-1]["state"] == stepped.document(name)["state"]
    if "end fails" not in failing:
        assert world.hands.effect == {}
        assert sorted(world.hands.of("end")) == sorted(world.hands.of("begin"))
    if stepped.status(name) == "completed":
        assert set(stepped.actions(name).values()) == {"completed"} and not failing & {"begin fails", "cannot"}
        assert sorted(world.hands.of("begin")) == ["a", "b"]
    journal.close()


class Killed(BaseException):
    """The process dies here."""


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.integers(0, 60),
    torn=st.integers(0, 400),
    again=st.integers(0, 6),
    stop_after=st.one_of(st.none(), st.floats(0, 200)),
)
def test_after_a_kill_at_any_line_a_restart_ends_exactly_what_began(
    tmp_path_factory: pytest.TempPathFactory,
    without_fsync: None,
    lines: int,
    torn: int,
    again: int,
    stop_after: float | None,
) -> None:
    """``lines`` are whole when the process dies, of the next one ``torn`` bytes; the restart dies ``again`` lines later
    itself, and another one follows."""
    world, folder = World(), tmp_path_factory.mktemp("fis")
    journal = journal_in(folder)
    dies_after(journal, lines, torn)
    with suppress(Killed):
        stepped = Stepped(journal, world)
        actions = {"a": stop_action("nodes", "PT1M"), "b": stop_action("others", "PT2M")}
        stepped.start("one", **two_nodes(**actions, c=stop_action("others", "PT1M", after=("a",))))
        stepped.start("two", actions={"stop": stop_action(lasts="PT3M")})
        stepped.advance(stop_after or 0)
        if stop_after is not None:
            stepped.engine.stop_all("enough")
        stepped.advance(300)
    journal.close()

    second = journal_in(folder)
    began = [doing.id for doing in second.unended()]
    assert began == unended_by(rows(journal.file)) and set(world.hands.effect) <= set(began)
    world.hands.calls.clear()
    dies_after(second, again, torn)
    with suppress(Killed):
        assert recover(second, world.hands) == []
    second.close()

    third = journal_in(folder)
    left = [doing.id for doing in third.unended()]
    first_ends = world.hands.of("end")
    world.hands.calls.clear()
    assert recover(third, world.hands) == []
    assert world.hands.effect == {} and third.unended() == []
    assert [name.partition("/")[2] for name in left] == world.hands.of("end"), "what was ended is not ended again"
    assert [name.partition("/")[2] for name in began][: len(first_ends)] == first_ends, "last first"
    for experiment in third.past.experiments.values():
        assert experiment["state"]["status"] in TERMINAL
        assert {action["state"]["status"] for action in experiment["actions"].values()} <= OVER
    third.close()


def dies_after(journal: Any, lines: int, torn: int) -> None:
    """Its process dies in the middle of the line after so many."""
    append, left = journal._append, [lines]

    def dying(row: Any) -> None:
        if left[0] == 0:
            data = json.dumps(row).encode()
            journal._file.write(data[:torn])
            raise Killed
        left[0] -= 1
        append(row)

    journal._append = dying


def unended_by(lines: list[dict[str, Any]]) -> list[str]:
    """By the file alone, last first."""
    found: list[str] = []
    for row in lines:
        if row["kind"] == "begin":
            found.append(row["doing"]["id"])
        elif row["kind"] == "end":
            found.remove(row["id"])
    return found[::-1]


def test_what_was_under_way_is_told_as_failed_after_a_restart(tmp_path: Path, world: World) -> None:
    journal = journal_in(tmp_path)
    stepped = Stepped(journal, world)
    actions = {"a": stop_action("nodes", "PT1M"), "b": stop_action("others", "PT2M"), "c": wait_action(after=("b",))}
    name = stepped.start(**two_nodes(**actions))
    stepped.advance(90)
    journal.close()
    journal = journal_in(tmp_path)
    assert recover(journal, world.hands) == []
    again = Stepped(journal, world)
    assert again.status(name) == "failed" and world.hands.effect == {}
    assert again.actions(name) == {"a": "completed", "b": "failed", "c": "cancelled"}
    assert again.document(name)["state"]["error"] == {"code": "InternalFailure"}
    assert again.engine.active() == 0


def test_what_cannot_be_ended_at_a_restart_is_named_and_tried_at_the_next(tmp_path: Path, world: World) -> None:
    journal = journal_in(tmp_path)
    stepped = Stepped(journal, world)
    name = stepped.start()
    stepped.advance(5)
    journal.close()
    world.hands.end_fails["stop"] = Failed("DependentServiceFailure", "the lab does not answer")
    journal = journal_in(tmp_path)
    [left] = recover(journal, world.hands)
    assert f"{name}/stop" in left and "the lab does not answer" in left
    assert "not ended: stop" in journal.past.experiments[name]["state"]["reason"]
    journal.close()
    world.hands.end_fails.clear()
    journal = journal_in(tmp_path)
    assert recover(journal, world.hands) == [] and world.hands.effect == {}
