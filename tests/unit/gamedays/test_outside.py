"""Guards from outside: each source dead, slow, stale, empty, NaN, mistyped and flapping, and what comes of it."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from answering import answering
from gamedaykit import Clock, Lines, with_guards
from hypothesis import given
from hypothesis import strategies as st
from promlike import error, promlike, vector

from chaos.base.errors import InvalidInput, MissingPrerequisite
from chaos.base.units import Duration
from chaos.definitions.gameday import Guard
from chaos.gamedays import outside
from chaos.gamedays.asking import bearer, moment_of, number_of, pointed
from chaos.gamedays.outside import Answer, Outside, Runs, Watched, asked
from chaos.run import guards
from chaos.targets.labs.processes import wait_until

NOW = 1_790_000_000.0
"""Epoch seconds, of clocks that are injected."""
GOOD, BAD, NONE = Answer("good"), Answer("bad", why="it is bad"), Answer("none", why="nobody knows")


def a_guard(**given: Any) -> Guard:
    return Guard.model_validate({"counts": "outcome", "program": {"run": "true"}, **given})


def of(source: str, *, slow: bool = False, **given: Any) -> Guard:
    """A guard of one source, ``given`` to it; numbers are bad above 5 %. ``slow``: whose answer is not waited for."""
    numbers = source == "prometheus" or "number" in given
    more: dict[str, Any] = {"above": "5%"} if numbers else {}
    return Guard.model_validate({"counts": "blocking", source: given, "timeout": "300ms" if slow else "10s", **more})


# ------------------------------------------------------------------------------- one answer after the other


def heard(answers: list[Answer], clock: Clock | None = None, **given: Any) -> tuple[list[str | None], Lines]:
    """What the guard says after each answer, one every ten seconds."""
    lines, clock = Lines(), clock or Clock()
    guard = Watched("users", a_guard(**given), lines, clock)
    guard.begin()
    said = []
    for answer in answers:
        clock.at += 10
        guard.hear(answer)
        said.append(guard.tripped(clock.at))
    return said, lines


@pytest.mark.parametrize(
    ("answers", "trips"),
    [
        ([GOOD] * 9, None),
        ([BAD], None),
        ([BAD, BAD], "users was bad 2 times in a row (it is bad)"),
        ([BAD, GOOD, BAD, GOOD, BAD], None),  # it flaps
        ([BAD, NONE, BAD], "users was bad 2 times in a row (it is bad)"),
        ([BAD, NONE, NONE, GOOD, BAD], None),
        ([NONE, NONE], None),
        ([NONE, NONE, NONE], "it cannot be evaluated: users said nothing 3 times in a row (nobody knows)"),
        ([NONE, NONE, GOOD, NONE, NONE], None),
        ([NONE, BAD, NONE, NONE], None),
        ([GOOD, NONE, NONE, NONE], "it cannot be evaluated: users said nothing 3 times in a row (nobody knows)"),
    ],
)
def test_it_trips_after_so_many_bad_ones_and_after_three_that_say_nothing(
    answers: list[Answer], trips: str | None
) -> None:
    said, lines = heard(answers)
    assert said[-1] == trips and not any(said[:-1])
    if trips is not None:
        assert lines.told[-1]["state"] == answers[-1].state and lines.told[-1]["number"] == len(answers)


def test_how_many_is_asked_for_in_the_file() -> None:
    assert heard([BAD], times=1)[0] == ["users was bad (it is bad)"]
    assert heard([BAD] * 3, times=4)[0] == [None] * 3
    assert heard([BAD] * 4, times=4)[0][-1] is not None


def test_once_it_has_tripped_it_stays_so() -> None:
    said, _ = heard([BAD, BAD, GOOD, GOOD])
    assert said[1] is not None and said[1:] == [said[1]] * 3


def test_silence_trips_after_four_intervals_from_the_beginning_and_from_the_last_answer() -> None:
    clock, lines = Clock(), Lines()
    guard = Watched("users", a_guard(every="10s"), lines, clock)
    assert guard.tripped(clock.at) == "it cannot be evaluated: nobody asks users"
    guard.begin()
    assert guard.tripped(clock.at + 40) is None
    guard.hear(GOOD)
    assert guard.tripped(clock.at + 40) is None
    assert guard.tripped(clock.at + 40.1) == "it cannot be evaluated: nothing was heard of users for 40 s"
    assert [line["state"] for line in lines.told] == ["good", "none"]
    guard = Watched("users", a_guard(every="10s"), lines, clock)
    guard.begin()
    assert guard.tripped(clock.at + 40.1) is not None


def test_a_dead_thread_trips_at_once() -> None:
    guard = Watched("users", a_guard(), Lines(), Clock())
    guard.begin()
    guard.alive = lambda: False
    assert guard.tripped(1000.0) == "it cannot be evaluated: the thread that asks users ended"


def test_what_is_told_is_what_changes_and_one_line_a_minute() -> None:
    _, lines = heard([GOOD] * 13 + [BAD, GOOD, NONE, BAD, BAD], counts="blocking")
    assert [(line["number"], line["state"]) for line in lines.told] == [
        (1, "good"),
        (6, "good"),
        (12, "good"),
        (14, "bad"),
        (15, "good"),
        (16, "none"),
        (17, "bad"),
        (18, "bad"),
    ]
    assert lines.told[3] == {
        "kind": "guard",
        "name": "users",
        "counts": "blocking",
        "value": None,
        "state": "bad",
        "why": "it is bad",
        "number": 14,
    }


def test_a_record_that_cannot_be_written_trips() -> None:
    def full(kind: str, **_: Any) -> None:
        raise OSError(28, "No space left on device")

    guard = Watched("users", a_guard(), full, Clock())
    guard.begin()
    guard.hear(GOOD)
    assert guard.tripped(1000.0) == "it cannot be evaluated: its record is not written: OSError"


states = st.lists(st.sampled_from([GOOD, BAD, NONE]), max_size=30)


@given(states, st.integers(1, 4))
def test_to_take_a_good_answer_away_never_keeps_a_day_going(answers: list[Answer], times: int) -> None:
    """No data is never better than good data: a day that ends goes on for none of its answers being lost."""
    before = heard(answers, times=times)[0]
    if not answers or before[-1] is None:
        return
    for number, answer in enumerate(answers):
        if answer.state == "good":
            lost = [*answers[:number], NONE, *answers[number + 1 :]]
            assert heard(lost, times=times)[0][-1] is not None


# ------------------------------------------------------------------------------------------- what is read


@pytest.mark.parametrize("found", ["1", True, False, None, [], {}, float("nan"), float("inf"), -float("inf"), 10**400])
def test_what_is_no_finite_number_is_none(found: Any) -> None:
    assert number_of(found) is None


@pytest.mark.parametrize(
    ("found", "at"),
    [
        (NOW, datetime.fromtimestamp(NOW, UTC)),
        (int(NOW), datetime.fromtimestamp(int(NOW), UTC)),
        ("2026-09-21T15:33:20+02:00", datetime(2026, 9, 21, 13, 33, 20, tzinfo=UTC)),
        ("2026-09-21T13:33:20Z", datetime(2026, 9, 21, 13, 33, 20, tzinfo=UTC)),
        ("2026-09-21T13:33:20", None),  # of no zone
        ("1790000000", None),
        (True, None),
        (float("nan"), None),
        (1e30, None),  # no calendar has it
        (10**400, None),
        ("9999-12-31T23:59:59-10:00", None),
        ("yesterday", None),
        (None, None),
    ],
)
def test_moments_are_iso_8601_with_an_offset_or_epoch_seconds(found: Any, at: datetime | None) -> None:
    assert moment_of(found) == at


def test_pointers() -> None:
    document = {"a/b": [{"~": 1}, 2], "": 3}
    assert [pointed(document, each) for each in ("/a~1b/0/~0", "/a~1b/1", "/")] == [1, 2, 3]
    for wrong in ("/x", "/a~1b/2", "/a~1b/-1", "/a~1b/01", "/a~1b/0/~0/x", "/a~1b/x"):
        with pytest.raises(LookupError):
            pointed(document, wrong)


@pytest.mark.parametrize("text", ["", "se cret", "secret\nX-Evil: 1", "sécret"])
def test_what_is_no_token_is_refused_and_not_repeated(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", text)
    with pytest.raises(InvalidInput, match="env:TOKEN") as caught:
        bearer("env:TOKEN")
    assert not text or text not in str(caught.value)


def test_what_surrounds_a_token_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", " secret\n")
    assert bearer("env:TOKEN") == {"authorization": "Bearer secret"} and bearer(None) == {}


# ----------------------------------------------------------------------------------- every source in trouble


class Asking:
    """One source that is in trouble or well, as a test says."""

    def __init__(self, ask: Callable[[], Answer]) -> None:
        self.ask = ask


Begin = Callable[[ExitStack, str, Path], Callable[[], Answer]]


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def source_of(
    guard: Guard, folder: Path, stack: ExitStack, clock: Callable[[], float] = time.time, **more: Any
) -> Callable[[], Answer]:
    """Asks a source of this guard, as its thread would."""
    made = Outside(with_guards(folder, users=guard), Lines(), clock=clock, **more)
    source = made._source("users", threading.Event())
    stack.callback(source.close)
    return lambda: asked(source)


def prometheus(stack: ExitStack, trouble: str, folder: Path) -> Callable[[], Answer]:
    flips = iter(range(10**6))
    replies: dict[str, Any] = {
        "well": lambda it, params: vector(0.01),
        "bad": lambda it, params: vector(0.07),
        "slow": lambda it, params: (200, None),
        "stale": lambda it, params: vector(0.01) if params["query"] == "q" else vector(61),
        "hour": lambda it, params: vector(0.01, at=time.time() - 3600),
        "tomorrow": lambda it, params: vector(0.01, at=time.time() + 86400),
        "hour of age": lambda it, params: vector(0.01, at=time.time() - (params["query"] == "age") * 3600),
        "data of tomorrow": lambda it, params: vector(0.01 if params["query"] == "q" else -86400),
        "empty": lambda it, params: vector(),
        "NaN": lambda it, params: vector("NaN"),
        "mistyped": lambda it, params: vector("much"),
        "flapping": lambda it, params: vector(0.07 if next(flips) % 2 == 0 else 0.01),
        "wrong": lambda it, params: error(503, "overloaded"),
    }
    if trouble == "dead":
        url = f"http://127.0.0.1:{closed_port()}"
    else:
        url = stack.enter_context(promlike(replies[trouble])).url
    more = {"fresh": "age"} if trouble in ("stale", "hour of age", "data of tomorrow") else {}
    guard = of("prometheus", slow=trouble == "slow", url=url, query="q", **more)
    ask = source_of(guard, folder, stack)
    if trouble == "flapping":  # whether it looks back is asked beside the first answer
        ask()
        next(flips)
    return ask


RULES = """groups:
  - name: ours
    rules:
      - {alert: Red, expr: status == 2, labels: {severity: critical}}
      - {alert: Slow, expr: latency > 1, labels: {severity: warning}}
"""


def alert_rules(stack: ExitStack, trouble: str, folder: Path) -> Callable[[], Answer]:
    """Of two alerts the critical one counts; the other's metric is nowhere, and is not asked for."""
    flips = iter(range(10**6))

    def reply(it: Any, params: dict[str, str]) -> tuple[int, Any]:
        now, query = time.time(), params["query"]
        assert "latency" not in query
        if query == "time()":
            now += {"hour": -3600, "tomorrow": 86400}.get(trouble, 0)
            return 200, {"status": "success", "data": {"resultType": "scalar", "result": [now, str(now)]}}
        if trouble == "mistyped":
            return vector("much")
        if trouble in ("slow", "wrong"):
            return (200, None) if trouble == "slow" else error(503, "overloaded")
        if query.startswith("max(timestamp("):
            return vector() if trouble == "empty" else vector(now - (61 if trouble == "stale" else 0))
        fires = trouble == "bad" or (trouble == "flapping" and query == "status == 2" and next(flips) % 2 == 0)
        return vector(2.0) if fires else vector() if query == "status == 2" else vector(0.0)

    (folder / "alerts.yml").write_text(RULES)
    url = f"http://127.0.0.1:{closed_port()}" if trouble == "dead" else stack.enter_context(promlike(reply)).url
    given = {"url": url, "rules": "alerts.yml", "labels": {"severity": "critical"}}
    timeout = "300ms" if trouble == "slow" else "10s"
    guard = Guard.model_validate({"counts": "blocking", "prometheus": given, "timeout": timeout})
    return source_of(guard, folder, stack)


def http(stack: ExitStack, trouble: str, folder: Path) -> Callable[[], Answer]:
    flips = iter(range(10**6))

    def said(value: Any = 0.01, off: float = 0.0) -> tuple[int, Any]:
        return 200, {"data": {"errors": value, "at": time.time() + off}}

    replies: dict[str, Any] = {
        "well": lambda path: said(),
        "bad": lambda path: said(0.07),
        "slow": lambda path: (200, None),
        "stale": lambda path: said(off=-61),
        "future": lambda path: said(off=61),
        "undated": lambda path: (200, {"data": {"errors": 0.01}}),
        "empty": lambda path: (200, {}),
        "nothing": lambda path: (200, b""),
        "NaN": lambda path: (200, b'{"data": {"errors": NaN, "at": %d}}' % time.time()),
        "mistyped": lambda path: said("0.01"),
        "boolean": lambda path: said(True),
        "page": lambda path: (200, b"<html>"),
        "flapping": lambda path: said(0.07 if next(flips) % 2 == 0 else 0.01),
        "wrong": lambda path: (503, b"overloaded"),
        "refused": lambda path: (401, b"who?"),
        "elsewhere": lambda path: (302, b""),
    }
    if trouble == "dead":
        url = f"http://127.0.0.1:{closed_port()}"
    else:
        url = stack.enter_context(answering(replies[trouble])).url
    guard = of("http", slow=trouble == "slow", url=f"{url}/health", number="/data/errors", at="/data/at")
    return source_of(guard, folder, stack)


def program(stack: ExitStack, trouble: str, folder: Path) -> Callable[[], Answer]:
    flag = folder / "flag"
    scripts = {
        "well": "exit 0",
        "bad": "echo all is lost; exit 2",
        "slow": "sleep 600",
        "empty": "exit 3",  # as Nagios has it: unknown
        "mistyped": "exit 127",
        "killed": "kill -9 $$",
        "flapping": f"if [ -e {flag} ]; then rm {flag}; exit 0; fi; touch {flag}; exit 1",
    }
    run = [str(folder / "gone")] if trouble == "dead" else ["/bin/sh", "-c", scripts[trouble]]
    return source_of(of("program", slow=trouble == "slow", run=run), folder, stack)


def cloudwatch(stack: ExitStack, trouble: str, folder: Path) -> Callable[[], Answer]:
    pytest.importorskip("boto3")
    from botocore.stub import Stubber

    patch = stack.enter_context(pytest.MonkeyPatch.context())
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        patch.setenv(name, "test")
    patch.setenv("AWS_CONFIG_FILE", str(folder / "none"))
    patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "none"))
    if trouble == "dead":
        patch.setenv("AWS_ENDPOINT_URL_CLOUDWATCH", f"http://127.0.0.1:{closed_port()}")
    elif trouble in ("slow", "mistyped"):
        reply = (200, None) if trouble == "slow" else (200, b"<html>")
        server = stack.enter_context(answering(lambda path: reply))
        server.reply = lambda path: reply
        patch.setenv("AWS_ENDPOINT_URL_CLOUDWATCH", server.url)
    guard = of("cloudwatch", slow=trouble == "slow", alarm="Checkout", region="eu-west-1")
    made = outside.CloudWatch(guard, guard.cloudwatch)  # type: ignore[arg-type]
    stack.callback(made.close)
    if trouble in ("dead", "slow", "mistyped"):
        return made.ask
    stub = stack.enter_context(Stubber(made.client))
    wanted = {"AlarmNames": ["Checkout"], "AlarmTypes": ["MetricAlarm", "CompositeAlarm"]}

    def answer(state: str | None, composite: bool = False, **more: Any) -> None:
        kind = "CompositeAlarms" if composite else "MetricAlarms"
        dated = {"HTTPHeaders": {"date": formatdate(time.time() + more.pop("off", 0.0), usegmt=True)}}
        found = [] if state is None else [{"AlarmName": "Checkout", "StateValue": state, **more}]
        stub.add_response("describe_alarms", {kind: found, "ResponseMetadata": dated}, wanted)

    for turn in range(4):
        if trouble == "well":
            answer("OK", composite=turn % 2 == 1, ActionsEnabled=False)
        elif trouble == "bad":
            answer("ALARM", composite=turn % 2 == 1)
        elif trouble == "stale":
            answer("INSUFFICIENT_DATA")
        elif trouble == "partly":
            answer("OK", EvaluationState="PARTIAL_DATA")
        elif trouble == "hour":
            answer("OK", off=-3600.0)
        elif trouble == "tomorrow":
            answer("OK", StateUpdatedTimestamp=datetime.fromtimestamp(time.time() + 86400, UTC))
        elif trouble == "empty":
            answer(None)
        elif trouble == "refused":
            stub.add_client_error("describe_alarms", "AccessDenied", "arn:aws:iam::secret", 403)
        elif trouble == "flapping":
            answer("ALARM" if turn % 2 == 0 else "OK")
    return made.ask


MONITOR = {
    "_id": "m 1",
    "_version": 1,
    "_seq_no": 3,
    "_primary_term": 1,
    "monitor": {
        "type": "monitor",
        "name": "checkout",
        "monitor_type": "query_level_monitor",
        "enabled": True,
        "schedule": {"period": {"interval": 1, "unit": "MINUTES"}},
    },
}
"""As RestGetMonitorAction of the plugin answers; what is not read is left out."""


def stats(last: Any = 1_790_000_000_000, on_time: bool = True, job: str = "m 1") -> dict[str, Any]:
    """As RestScheduledJobStatsHandler answers."""
    said = {} if last is None else {"last_execution_time": last}
    return {
        "_nodes": {"total": 2, "successful": 2, "failed": 0},
        "cluster_name": "staging",
        "plugins.scheduled_jobs.enabled": True,
        "nodes": {
            "n1": {"name": "a-data", "schedule_status": "green", "jobs_info": {}},
            "n2": {"name": "b-data", "jobs_info": {job: {**said, "running_on_time": on_time}}},
        },
    }


class Target:
    """A cluster with alerting: what it answers by path, as the plugin does."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.monitor: tuple[int, Any] = (200, MONITOR)
        self.stats: tuple[int, Any] = (200, stats())
        self.alerts: dict[str, Any] = {}

    def __call__(self, path: str) -> tuple[int, Any]:
        self.asked.append(path)
        if path == "/_plugins/_alerting/monitors/m%201":
            return self.monitor
        if path == "/_plugins/_alerting/stats":
            return self.stats
        assert path.startswith("/_plugins/_alerting/monitors/alerts?monitorId=m%201&alertState=")
        state = path.partition("alertState=")[2].partition("&")[0]
        found = self.alerts.get(state, [])
        return 200, found if isinstance(found, dict) else {"alerts": found, "totalAlerts": len(found)}


def an_alert(state: str, end: int | None = None) -> dict[str, Any]:
    return {"id": "a1", "monitor_id": "m 1", "state": state, "severity": "1", "end_time": end}


def monitored(stack: ExitStack, target: Callable[[str], tuple[int, Any]], clock: Clock, folder: Path) -> Any:
    guard, since = of("monitor", slow=True, monitor="m 1"), clock.at
    return source_of(guard, folder, stack, lambda: NOW + clock.at - since, get=target, now=clock)


def monitor(stack: ExitStack, trouble: str, folder: Path) -> Callable[[], Answer]:
    target, clock = Target(), Clock()
    if trouble in ("dead", "slow"):

        def gone(path: str) -> tuple[int, Any]:
            if trouble == "dead":
                raise OSError("no route to host")
            clock.at += 1.0
            return target(path)

        return monitored(stack, gone, clock, folder)
    ask = monitored(stack, target, clock, folder)
    flips = iter(range(10**6))
    if trouble == "bad":
        target.alerts["ACTIVE"] = [an_alert("ACTIVE")]
    elif trouble == "stale":
        target.stats = (200, stats(on_time=False))
    elif trouble in ("hour", "tomorrow"):  # and it says that it runs on time
        target.stats = (200, stats(last=1_790_000_000_000 + {"hour": -3_600_000, "tomorrow": 86_400_000}[trouble]))
    elif trouble == "empty":
        target.monitor = (404, {"error": {"reason": "Monitor not found."}})
    elif trouble == "mistyped":
        target.alerts["ACTIVE"] = {"alerts": [], "totalAlerts": "0"}
    elif trouble == "flapping":

        def flipping() -> Answer:
            target.alerts["ACTIVE"] = [an_alert("ACTIVE")] if next(flips) % 2 == 0 else []
            return ask()

        return flipping
    return ask


SOURCES: dict[str, Begin] = {
    "prometheus": prometheus,
    "alert rules": alert_rules,
    "http": http,
    "program": program,
    "cloudwatch": cloudwatch,
    "monitor": monitor,
}
BAD_AS, NONE_AS = "was bad 2 times in a row", "said nothing 3 times in a row"
TROUBLES: list[tuple[str, str, str | None, str]] = [
    ("prometheus", "well", None, ""),
    ("prometheus", "bad", BAD_AS, "0.07 is above 0.05"),
    ("prometheus", "dead", NONE_AS, "it cannot be reached"),
    ("prometheus", "slow", NONE_AS, "no answer in time"),
    ("prometheus", "stale", NONE_AS, "its data is older than 1m"),
    ("prometheus", "hour", NONE_AS, "it was evaluated 36"),
    ("prometheus", "tomorrow", NONE_AS, "it was evaluated 86"),
    ("prometheus", "hour of age", NONE_AS, "nobody knows how old its data is: it was evaluated 36"),
    ("prometheus", "data of tomorrow", NONE_AS, "its data is of the future: 86400 s from now"),
    ("prometheus", "empty", NONE_AS, "no series"),
    ("prometheus", "NaN", NONE_AS, "the value is NaN"),
    ("prometheus", "mistyped", NONE_AS, "its answer cannot be read"),
    ("prometheus", "wrong", NONE_AS, "it answers 503"),
    ("prometheus", "flapping", None, ""),
    ("alert rules", "well", None, ""),
    ("alert rules", "bad", BAD_AS, "Red fires"),
    ("alert rules", "dead", NONE_AS, "it cannot be reached"),
    ("alert rules", "slow", NONE_AS, "no answer in time"),
    ("alert rules", "stale", NONE_AS, "Red: status is older than 1m: 61 s"),
    ("alert rules", "hour", NONE_AS, "it was evaluated 36"),
    ("alert rules", "tomorrow", NONE_AS, "it was evaluated 86"),
    ("alert rules", "empty", NONE_AS, "Red: nothing there is status"),
    ("alert rules", "mistyped", NONE_AS, "its answer cannot be read"),
    ("alert rules", "wrong", NONE_AS, "it answers 503"),
    ("alert rules", "flapping", None, ""),
    ("http", "well", None, ""),
    ("http", "bad", BAD_AS, "0.07 is above 0.05"),
    ("http", "dead", NONE_AS, "it cannot be reached"),
    ("http", "slow", NONE_AS, "no answer in time"),
    ("http", "stale", NONE_AS, "it is older than 1m: 61 s"),
    ("http", "future", NONE_AS, "61 s from now"),
    ("http", "undated", NONE_AS, "does not say when it was measured"),
    ("http", "empty", NONE_AS, "there is no /data/at"),
    ("http", "nothing", NONE_AS, "its answer is no JSON"),
    ("http", "NaN", NONE_AS, "/data/errors is no finite number"),
    ("http", "mistyped", NONE_AS, "/data/errors is no finite number"),
    ("http", "boolean", NONE_AS, "/data/errors is no finite number"),
    ("http", "page", NONE_AS, "its answer is no JSON"),
    ("http", "wrong", BAD_AS, "it answers 503"),
    ("http", "refused", NONE_AS, "this user is refused (401)"),
    ("http", "elsewhere", NONE_AS, "it sends elsewhere (302)"),
    ("http", "flapping", None, ""),
    ("program", "well", None, ""),
    ("program", "bad", BAD_AS, "ended with exit code 2: all is lost"),
    ("program", "dead", NONE_AS, "No such file or directory"),
    ("program", "slow", NONE_AS, "gave no answer within 300ms"),
    ("program", "empty", NONE_AS, "ended with exit code 3"),
    ("program", "mistyped", NONE_AS, "ended with exit code 127"),
    ("program", "killed", NONE_AS, "was ended by signal 9"),
    ("program", "flapping", None, ""),
    ("cloudwatch", "well", None, ""),
    ("cloudwatch", "bad", BAD_AS, "Checkout is in ALARM"),
    ("cloudwatch", "dead", NONE_AS, "EndpointConnectionError"),
    ("cloudwatch", "slow", NONE_AS, "ReadTimeoutError"),
    ("cloudwatch", "stale", NONE_AS, "Checkout is in INSUFFICIENT_DATA"),
    ("cloudwatch", "partly", NONE_AS, "not evaluated wholly: PARTIAL_DATA"),
    ("cloudwatch", "hour", NONE_AS, "it says that it answered 36"),
    ("cloudwatch", "tomorrow", NONE_AS, "Checkout is OK since a moment 86"),
    ("cloudwatch", "empty", NONE_AS, "there is no alarm Checkout"),
    ("cloudwatch", "mistyped", NONE_AS, ""),
    ("cloudwatch", "refused", NONE_AS, "DescribeAlarms answered AccessDenied"),
    ("cloudwatch", "flapping", None, ""),
    ("monitor", "well", None, ""),
    ("monitor", "bad", BAD_AS, "it has 1 alerts that are ACTIVE"),
    ("monitor", "dead", NONE_AS, "asking failed: OSError"),
    ("monitor", "slow", NONE_AS, "no answer in time"),
    ("monitor", "stale", NONE_AS, "the monitor m 1 does not run on time"),
    ("monitor", "hour", NONE_AS, "the monitor m 1 says that it ran 3600 s ago"),
    ("monitor", "tomorrow", NONE_AS, "the monitor m 1 says that it ran 86400 s from now"),
    ("monitor", "empty", NONE_AS, "there is no monitor m 1"),
    ("monitor", "mistyped", NONE_AS, "an answer of the target cannot be read: TypeError"),
    ("monitor", "flapping", None, ""),
]
"""Source, trouble, as what it trips (None: it does not), and why. Rules, programs, alarms and monitors have no numbers;
a program is as fresh as its answer."""


@pytest.mark.parametrize(("source", "trouble", "trips", "why"), TROUBLES)
def test_each_source_in_each_trouble(source: str, trouble: str, trips: str | None, why: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        ask = SOURCES[source](stack, trouble, tmp_path)
        clock = Clock()
        guard = Watched("users", a_guard(), Lines(), clock)
        guard.begin()
        said: str | None = None
        states = []
        for _ in range(3):
            clock.at += 10
            answer = ask()
            states.append(answer.state)
            guard.hear(answer)
            said = said or guard.tripped(clock.at)
    assert trouble != "flapping" or set(states) == {"good", "bad"}
    if trips is None:
        assert said is None
    else:
        assert said is not None and trips in said and why in said


def test_every_trouble_of_the_list_is_tried_of_every_source_that_can_have_it() -> None:
    tried = {(source, trouble) for source, trouble, *_ in TROUBLES}
    wanted = {"well", "bad", "dead", "slow", "stale", "empty", "NaN", "mistyped", "flapping"}
    numberless = ("alert rules", "program", "cloudwatch", "monitor")
    cannot = {("program", "stale"), *((source, "NaN") for source in numberless)}
    assert {(source, trouble) for source in SOURCES for trouble in wanted} - cannot <= tried


# ------------------------------------------------------------------------------------------ single sources


def test_http_sends_its_token_and_follows_no_redirect(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    with ExitStack() as stack:
        server = stack.enter_context(answering(lambda path: (204, b"")))
        guard = of("http", url=f"{server.url}/a/?b=c", token="file:token", status=[200, 204])
        assert source_of(guard, tmp_path, stack)() == Answer("good")
        path, headers = server.asked[0]
        assert (path, headers["authorization"]) == ("/a/?b=c", "Bearer s3cret")
        server.reply = lambda path: (301, b"")
        assert source_of(guard, tmp_path, stack)().state == "none"
        assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("headers", "status", "state", "why"),
    [
        ({}, 200, "good", None),
        ({"Date": -3600}, 200, "none", "it says that it answered 36"),
        ({"Date": 86400}, 200, "none", "it says that it answered 86"),
        ({"Age": "61"}, 200, "none", "a cache answered with what is 61 s old"),
        ({"Date": None}, 200, "none", "it does not say when it answered: there is no Date in its headers"),
        ({"Date": None}, 503, "bad", "it answers 503"),
        ({"Date": -3600}, 503, "none", "it says that it answered 36"),
    ],
)
def test_an_answer_without_a_measurement_s_time_has_that_of_its_headers(
    headers: dict[str, Any], status: int, state: str, why: str | None, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(answering(lambda path: (status, b"")))
        for name, value in headers.items():
            off = isinstance(value, int)
            server.headers[name] = formatdate(time.time() + value, usegmt=True) if off else value
        found = source_of(of("http", url=server.url), tmp_path, stack)()
    assert found.state == state and str(found.why).startswith(str(why))


def test_a_status_that_is_called_good_is_good_whatever_it_is(tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(answering(lambda path: (401, b"who?")))
        assert source_of(of("http", url=server.url, status=401), tmp_path, stack)() == Answer("good")


def test_a_program_and_all_that_it_started_are_gone_after_its_answer(tmp_path: Path) -> None:
    child = tmp_path / "child"
    script = f"sleep 600 & echo $! > {child}; echo looked; exit 1"
    with ExitStack() as stack:
        guard = of("program", run=["/bin/sh", "-c", script])
        answer = source_of(guard, tmp_path, stack)()
    assert answer == Answer("bad", why="/bin/sh ended with exit code 1: looked")  # its child holds its output open
    number = int(child.read_text())

    def gone() -> bool:
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return True
        return "State:\tZ" in Path(f"/proc/{number}/status").read_text()

    assert wait_until(gone, 20)


def test_a_program_that_prints_without_end_fills_no_memory(tmp_path: Path) -> None:
    with ExitStack() as stack:
        guard = of("program", run=["/bin/sh", "-c", "yes lost | head -c 3000000; echo; echo at last; exit 1"])
        assert source_of(guard, tmp_path, stack)().why == "/bin/sh ended with exit code 1: at last"


def test_without_boto3_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    guard = of("cloudwatch", alarm="Checkout", region="eu-west-1")
    with pytest.raises(MissingPrerequisite, match=r"opensearch-chaos\[aws\]"):
        outside.CloudWatch(guard, guard.cloudwatch)  # type: ignore[arg-type]


def test_a_profile_that_is_not_there_is_the_users_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("boto3")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    guard = of("cloudwatch", alarm="Checkout", region="eu-west-1", profile="nobody")
    with pytest.raises(InvalidInput, match="no profile nobody"):
        outside.CloudWatch(guard, guard.cloudwatch)  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------------------- a monitor


@pytest.fixture
def target() -> Target:
    return Target()


def test_an_acknowledged_alert_is_not_over(target: Target, tmp_path: Path) -> None:
    target.alerts["ACKNOWLEDGED"] = [an_alert("ACKNOWLEDGED")]
    with ExitStack() as stack:
        ask = monitored(stack, target, Clock(), tmp_path)
        assert ask() == Answer("bad", why="it has 1 alerts that are ACKNOWLEDGED")
        target.monitor = (200, {**MONITOR, "monitor": MONITOR["monitor"] | {"monitor_type": "doc_level_monitor"}})  # type: ignore[operator]
        assert ask() == Answer("good")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"enabled": False}, "is not enabled"),
        ({"enabled": "true"}, "is not enabled"),
        ({"schedule": {"period": {"interval": 1, "unit": "FORTNIGHTS"}}}, "cannot be read: KeyError"),
        ({"schedule": {}}, "does not run on time"),
    ],
)
def test_a_monitor_that_does_not_run_says_nothing(
    change: dict[str, Any], why: str, target: Target, tmp_path: Path
) -> None:
    target.monitor = (200, {**MONITOR, "monitor": MONITOR["monitor"] | change})  # type: ignore[operator]
    if not change.get("schedule", True):
        target.stats = (200, stats(on_time=False))
    with ExitStack() as stack:
        answer = monitored(stack, target, Clock(), tmp_path)()
    assert answer.state == "none" and why in str(answer.why)


def test_a_failing_monitor_says_nothing_until_it_has_run_well_again(target: Target, tmp_path: Path) -> None:
    with ExitStack() as stack:
        ask = monitored(stack, target, Clock(), tmp_path)
        target.alerts["ERROR"] = [an_alert("ERROR", end=1), an_alert("ERROR")]
        assert "fails" in str(ask().why)
        target.alerts["ERROR"] = [an_alert("ERROR", end=1)]  # over, and its state stays
        assert ask() == Answer("good")
        target.alerts["ERROR"] = {"alerts": [], "totalAlerts": 1}
        assert ask().state == "none"


def test_a_monitor_that_moves_to_another_node_is_remembered_for_two_of_its_periods(
    target: Target, tmp_path: Path
) -> None:
    clock = Clock()
    with ExitStack() as stack:
        ask = monitored(stack, target, clock, tmp_path)
        assert ask() == Answer("good")
        target.stats = (200, stats(last=None))  # its node is gone, and another has it and has not run it yet
        clock.at += 120
        assert ask() == Answer("good")
        clock.at += 1
        assert "was not seen to run for 121 s" in str(ask().why)
        target.stats = (200, stats(last=1_790_000_120_000, on_time=False))
        assert ask() == Answer("good")
        clock.at += 121
        assert ask().state == "none"  # the same run again


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ((200, stats(last=None)), "has not run yet where it is scheduled"),
        ((200, stats(job="another")), "has not run yet where it is scheduled"),
        ((200, stats(last="soon")), "has not run yet where it is scheduled"),
        ((200, {"nodes": {}}), "has not run yet where it is scheduled"),
        ((200, {}), "cannot be read: KeyError"),
        ((403, {}), "asking whether the monitor runs answered 403"),
    ],
)
def test_at_first_opensearch_must_say_that_it_runs(
    said: tuple[int, Any], why: str, target: Target, tmp_path: Path
) -> None:
    target.stats = said
    with ExitStack() as stack:
        answer = monitored(stack, target, Clock(), tmp_path)()
    assert answer.state == "none" and why in str(answer.why)


json_like = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["monitor", "enabled", "nodes", "alerts", "totalAlerts"]), inner)
    ),
    max_leaves=8,
)


@given(st.sampled_from([200, 404, 500]), json_like)
def test_whatever_a_target_answers_is_never_good(status: int, body: Any) -> None:
    guard = of("monitor", monitor="m 1")
    made = outside.Monitor(guard, "m 1", lambda path: (status, body), Runs(), Clock())
    assert asked(made).state == "none"


# ------------------------------------------------------------------------------------------------ all of them


FAR_AHEAD = 1e12
"""A clock that stands there is never silent for the one that a watch goes by, however busy the machine is."""


def quick(guard: Guard, every: float = 0.01) -> Guard:
    return guard.model_copy(update={"every": Duration(every)})


def outside_of(folder: Path, lines: Lines, **guards_: Guard) -> Outside:
    return Outside(with_guards(folder, **guards_), lines, now=Clock(FAR_AHEAD))


@pytest.fixture
def running() -> Iterator[list[Outside]]:
    made: list[Outside] = []
    yield made
    for each in made:
        each.stop()


def test_a_day_is_ended_by_the_guard_that_trips_and_by_no_other(tmp_path: Path, running: list[Outside]) -> None:
    flag, lines = tmp_path / "bad", Lines()
    of_users = quick(of("program", run=["/bin/sh", "-c", f"test ! -e {flag}"]))
    well = quick(of("program", run=["/bin/true"]))
    made = outside_of(tmp_path, lines, users=of_users, others=well)
    running.append(made)
    assert made.ready() == [("users", Answer("good")), ("others", Answer("good"))]
    made.start()
    made.start()
    asked_for: list[tuple[str, str]] = []
    with guards.Watch(made.trips, lambda why, name: asked_for.append((why, name))):
        assert wait_until(lambda: len({line["name"] for line in lines.told}) == 2, 60)
        assert not asked_for
        flag.touch()
        assert wait_until(lambda: bool(asked_for), 60)
    assert asked_for[0][1] == "guard.users" and "exit code 1" in asked_for[0][0]
    assert [each.counts for each in made.trips] == ["blocking", "blocking"]
    made.stop()
    made.stop()
    assert not any(thread.is_alive() for thread in made._threads)


def test_stopping_does_not_wait_for_a_program_that_hangs(tmp_path: Path, running: list[Outside]) -> None:
    begun, lines = tmp_path / "begun", Lines()
    hangs = quick(of("program", run=["/bin/sh", "-c", f"touch {begun}; sleep 600"]), every=600)
    made = outside_of(tmp_path, lines, users=hangs.model_copy(update={"timeout": Duration(600)}))
    running.append(made)
    made.start()
    assert wait_until(begun.exists, 60)
    made.stop()
    assert not made._threads[0].is_alive() and not lines.told


def test_a_source_that_breaks_is_no_data_and_its_words_are_not_repeated(
    tmp_path: Path, running: list[Outside], monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(self: Any) -> Answer:
        raise RuntimeError("Bearer s3cret")

    monkeypatch.setattr(outside.Program, "ask", breaks)
    lines = Lines()
    made = outside_of(tmp_path, lines, users=quick(of("program", run=["/bin/true"])))
    running.append(made)
    assert made.ready() == [("users", Answer("none", why="asking failed: RuntimeError"))]
    made.start()
    assert wait_until(lambda: made.trips[0].tripped(0.0) is not None, 60)
    assert "s3cret" not in json.dumps(lines.told)


def test_what_cannot_be_asked_is_refused_before_anything_begins(tmp_path: Path) -> None:
    lines = Lines()
    secret = of("http", url="http://127.0.0.1:1", token="env:NOT_SET_ANYWHERE")
    made = outside_of(tmp_path, lines, users=secret, cluster=of("monitor", monitor="m1"))
    said = dict(made.ready())
    assert said["users"].state == "none" and "the environment has no NOT_SET_ANYWHERE" in str(said["users"].why)
    assert said["cluster"].state == "none" and "monitor on the target" in str(said["cluster"].why)
    with pytest.raises(InvalidInput):
        made.start()
    assert not made._threads and made.trips[0].tripped(0.0) is not None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_trips_its_guard(tmp_path: Path, running: list[Outside]) -> None:
    made = outside_of(tmp_path, Lines(), users=quick(of("program", run=["/bin/true"])))
    running.append(made)

    def dies(answer: Answer) -> None:
        raise SystemExit

    made.trips[0].hear = dies  # type: ignore[method-assign]
    made.start()
    assert wait_until(lambda: not made._threads[0].is_alive(), 60)
    assert "the thread that asks users ended" in str(made.trips[0].tripped(0.0))


# ---------------------------------------------------------------------------------------------- the grammar


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"http": {"url": "http://a", "number": "errors"}, "above": "1%"}, "errors is no JSON pointer"),
        ({"http": {"url": "http://a", "at": "/a~2"}}, "/a~2 is no JSON pointer"),
        ({"http": {"url": "http://a", "ca": "ca.pem"}}, "certificates mean TLS"),
        ({"prometheus": {"url": "http://a/api/v1", "query": "q"}, "above": "1%"}, "/api/v1 is asked for anyway"),
        (
            {"prometheus": {"url": "http://a", "query": "q", "access": {"ca": "x"}}, "above": "1%"},
            "certificates mean TLS",
        ),
    ],
)
def test_what_could_never_be_asked_is_refused_with_the_file(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Guard.model_validate({"counts": "outcome", **given})
