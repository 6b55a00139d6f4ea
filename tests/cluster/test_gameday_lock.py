"""The lock of a cluster's game days, on the staging box's real cluster: of several who want it one has it, whoever
fires at once, dies, sleeps, or cannot reach it; and undo never needs it."""

# ruff: noqa: F811 - fixtures that are imported
from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from box.office import give
from box.plan import NOTES
from boxkit import Boxed, Program
from cluster.test_gameday import BACK, HEAD, TAIL, Team, consent, one_experiment, team  # noqa: F401 - two are fixtures
from cluster.test_on_hosts import BOUND, active
from clusterkit import await_event, events, in_effect

from chaos.faults.ledger import moves
from chaos.gamedays import board, record
from chaos.gamedays.board import LOCK, TTL_SECONDS, Board, Busy, Lock
from chaos.opensearch.views import administer, await_green
from chaos.targets.labs.processes import wait_until

pytestmark = pytest.mark.full
KILLED = "inject: {node.kill: {target: node c-data}}"
LONG = f"  dead: {{for: 5m, {KILLED}}}\n  back: {{undo: all, {BACK}}}\n"
"""Nothing but a stop ends its fault soon."""
AGAIN = (
    f"  dead:  {{for: 20s, {KILLED}}}\n  back:  {{undo: all, {BACK}}}\n"
    f"  again: {{for: 5s, {KILLED}}}\n  over:  {{undo: all, {BACK}}}\n"
)
"""Whoever goes on with it makes another move."""
TAKERS = 6
ROUNDS = 10
DEAD_SECONDS = 20.0
"""A short time for a lock, where the test itself takes it."""


@pytest.fixture(scope="module")
def others(boxed: Boxed) -> Iterator[Team]:
    """The same team's other office."""
    made = Team(boxed, office=2)
    made.furnish()
    yield made
    made.end()


@pytest.fixture(scope="module")
def strangers(boxed: Boxed, others: Team) -> Team:
    """Who have a game day of another name on the same cluster, in the other office, and its chat."""
    made = Team(boxed, office=2, name="second")
    made.programs = others.programs
    made.furnish()
    return made


def ready(team: Team, name: str, phases: str | None = None, **changes: Any) -> None:
    """A day of one experiment; ``phases``: its, where it is none of the whole day's."""
    team.serve()
    if phases is not None:
        give(team.folder / f"{name}.yaml", HEAD.replace("NAME", name) + phases + TAIL, team.office)
    guards = {"shop": {"counts": "outcome", "program": {"run": ["true"]}}}
    steps = {"experiments": [{"experiment": f"{name}.yaml", "rung": "node"}]}
    one_experiment(team, name, **{"guards": guards, **steps, **changes})


def fired(team: Team) -> Program:
    return team.boxed.inside("opensearch-chaos", "gameday", "run", team.file, office=team.office)


def hitting(team: Team) -> Program:
    """A day that was fired, once its first fault is in effect."""
    had, running = len(team.days()), fired(team)

    def begun() -> bool:
        assert running.process.poll() is None, running.end(10)
        return len(team.days()) > had and any(line["kind"] == "experiment.begin" for line in team.lines())

    assert wait_until(begun, 600, every=0.5)
    await_event(running, runs(team), in_effect, 300)
    return running


def runs(team: Team) -> Path:
    newest: Path = team.days()[-1]
    return newest.parent / "runs"


def ledger(team: Team) -> Path:
    return next(runs(team).glob("*/ledger.jsonl"))


def of(lines: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["kind"] == kind]


def flat(output: str) -> str:
    return " ".join(output.split())


def seconds(line: dict[str, Any]) -> float:
    return datetime.fromisoformat(line["t"]).timestamp()


def undone_by_the_keeper(team: Team) -> bool:
    """Of a dead, or frozen, runner's: all of its run."""
    return any(re.search(r"^[0-9:]+ undone$", file.read_text(), re.M) for file in runs(team).glob("*/logs/keeper.log"))


def green(boxed: Boxed) -> None:
    with boxed.owned() as lab:
        administer(lab, "POST", "/_cluster/reroute?retry_failed=true&metric=none")
        assert await_green(lab, 300)[0]


# ---- of several one ------------------------------------------------------------------------------------------


def tried(lock: Lock, together: threading.Barrier) -> str | None:
    """Why it was not had; None: it was, and is renewed from then on."""
    together.wait()
    try:
        lock.take()
    except Busy as error:
        return error.message
    lock.keep()
    return None


def test_of_takers_at_the_same_moment_one_has_it(
    boxed: Boxed,
    before: Path,
    consent: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """OpenSearch's own compare-and-set, asked by several connections at once: a lock that is free, and a dead one's."""
    monkeypatch.setattr(board, "RENEW_SECONDS", 0.5)
    tokens = [0]
    with boxed.owned() as lab:

        def round_of() -> None:
            together = threading.Barrier(TAKERS)
            takers = [Lock(Board(lab, NOTES), f"day-{number}") for number in range(TAKERS)]
            with ThreadPoolExecutor(TAKERS) as pool:
                said = list(pool.map(lambda each: tried(each, together), takers))
            had = [lock for lock, why in zip(takers, said, strict=True) if why is None]
            try:
                assert len(had) == 1, said
                assert all("is under way" in why or "has just taken" in why for why in said if why is not None), said
                assert had[0].held(10.0) is None and had[0].token > tokens[-1]
                tokens.append(had[0].token)
            finally:
                for lock in had:
                    lock.release()
            assert administer(lab, "GET", f"/{NOTES}/_doc/{LOCK}")[0] == 404

        for _ in range(ROUNDS):
            round_of()
        monkeypatch.setattr(board, "TTL_SECONDS", DEAD_SECONDS)
        dead = Lock(Board(lab, NOTES), "dead")
        dead.take()
        tokens.append(dead.token)
        round_of()
        assert dead.held(10.0) is not None


def test_a_day_that_is_fired_twice_from_each_of_two_machines_is_held_once(
    boxed: Boxed,
    before: Path,
    team: Team,
    others: Team,
    consent: None,
) -> None:
    others.serve()
    stop = {"file": "/tmp/staging.stop"}  # each machine has its own /tmp
    ready(team, "node-dead", stop=stop, textfile=None)
    for file in sorted(each for each in team.folder.rglob("*") if each.is_file()):  # as by git
        give(others.home / file.relative_to(team.home), file.read_text(), 2)
    had = [len(each.told()) for each in (team, others)]
    known = {*team.days(), *others.days()}
    firings = [fired(each) for each in (team, others, team, others)]
    ends = [each.end(1800) for each in firings]
    days = [record.read(day) for day in sorted({*team.days(), *others.days()} - known)]
    print("\n\n".join(f"exit {code}\n{output}" for code, output in ends))
    assert len(days) == 4 and all(of(lines, "day.end") for lines in days)
    held = [lines for lines in days if of(lines, "experiment.begin")]
    assert len(held) == 1 and [line["name"] for line in of(held[0], "experiment.begin")] == ["node-dead"]
    assert len([lines for lines in days if of(lines, "announced")]) == 1
    already = [code for code, output in ends if "already held" in flat(output)]
    assert already == [0, 0, 0]
    assert of(held[0], "day.end")[0]["exit_code"] in (0, 1, 3), held[0][-1]
    assert of(held[0], "experiment.end")[0]["clean"] is True
    told = [
        each["event"] for one, before_it in zip((team, others), had, strict=True) for each in one.told()[before_it:]
    ]
    assert sorted(told) == ["before", "begin", "end"], told
    for each in (team, others):
        code, output = each.chaos("history", each.file, "--verify")
        assert code == 0 and "BROKEN" not in output, output
        code, output = each.chaos("status", each.file)
        assert code == 0 and "lock: none" in output, output


# ---- a holder that dies, and one that sleeps ------------------------------------------------------------------


def test_a_dead_holders_lock_is_taken_after_its_whole_time_and_not_before(
    boxed: Boxed,
    before: Path,
    team: Team,
    others: Team,
    consent: None,
) -> None:
    ready(team, "node-dead")
    ready(others, "node-dead")
    running = hitting(team)
    (taken,) = of(team.lines(), "lock.taken")
    running.process.kill()
    running.process.wait()
    assert wait_until(lambda: undone_by_the_keeper(team), 240, every=0.5), "the keeper needs no lock"
    assert active(boxed) == []
    green(boxed)
    code, output = others.chaos("status", others.file)
    assert code == 0 and "lock: gameday staging" in flat(output) and "under way" in output, output
    code, output = others.chaos("run", others.file, timeout=900)
    lines = others.lines()
    assert code == 7 and "never ended" in flat(output), output
    assert f"holds this cluster: watching for {TTL_SECONDS:g} s" in flat(output), output
    (asked,), (later,) = of(lines, "day.asked"), of(lines, "lock.taken")
    assert seconds(later) - seconds(asked) >= TTL_SECONDS - 1.0  # that clock is the wall's, and may be set by a little
    assert later["token"] > taken["token"]
    assert not of(lines, "experiment.begin")
    code, output = boxed.chaos("recover", "--on", boxed.target, office=2)
    assert code == 0, output
    code, output = others.chaos("resume", others.file, "--reason", "a test killed its runner", timeout=600)
    assert code == 0 and "which never ended" in flat(output), output
    code, output = others.chaos("run", others.file, timeout=900)
    assert code == 7 and "this day ended as error" in flat(output), output
    assert record.verify(team.days()[-1]) == [] and record.verify(others.days()[-1]) == []


def test_who_was_frozen_past_its_time_makes_no_move_beside_the_next_day(
    boxed: Boxed,
    before: Path,
    team: Team,
    strangers: Team,
    consent: None,
) -> None:
    steps = [
        {"experiment": "node-twice.yaml", "rung": "node", "on_weakness": "go on"},
        {"experiment": "zone-out.yaml", "rung": "zone", "on_weakness": "go on"},
    ]
    ready(team, "node-twice", AGAIN, experiments=steps)
    ready(strangers, "node-dead")
    running = hitting(team)
    (taken,) = of(team.lines(), "lock.taken")
    running.signal(signal.SIGSTOP)
    try:
        assert wait_until(lambda: undone_by_the_keeper(team), 240, every=0.5)
        assert active(boxed) == []
        green(boxed)
        made = moves(ledger(team))
        next_one = hitting(strangers)  # its lock is the dead-looking one's, after its whole time
        (later,) = of(strangers.lines(), "lock.taken")
        assert later["token"] > taken["token"]
    finally:
        running.signal(signal.SIGCONT)
    code, output = running.end(900)
    lines = team.lines()
    print(output)
    assert code in (4, 5), output  # 5: it noticed first that its load, or its keeper, was gone
    assert "lock of this cluster" in of(lines, "lock.lost")[0]["says"]
    assert [line["name"] for line in of(lines, "experiment.begin")] == ["node-twice"]
    assert moves(ledger(team)) == made, "it made a move without the lock"
    assert of(lines, "hold") and record.verify(team.days()[-1]) == []
    assert team.told()[-1]["event"] in ("abort", "end"), team.told()
    code, output = next_one.end(1200)
    assert code in (0, 1, 3), output
    (ended,) = of(strangers.lines(), "experiment.end")
    assert ended["clean"] is True and not of(strangers.lines(), "lock.lost"), ended
    (found,) = runs(strangers).glob("*/findings.json")
    assert [fault["proven"] for fault in json.loads(found.read_text())["faults"]] == [True], "somebody disturbed it"
    code, output = team.chaos("resume", team.file, "--reason", "a test froze it", timeout=600)
    assert code == 0, output


# ---- a lock that cannot be reached ----------------------------------------------------------------------------


@contextmanager
def red(boxed: Boxed) -> Iterator[None]:
    """The cluster is red, by the very index that the lock is in: nobody can read or write it.

    A filter would not do: a primary that no node may hold is put where it was all the same."""

    def starting(most: int | None) -> int:
        setting = "cluster.routing.allocation.node_initial_primaries_recoveries"
        return int(administer(lab, "PUT", "/_cluster/settings", {"persistent": {setting: most}})[0])

    with boxed.owned() as lab:
        assert starting(0) == 200
        assert administer(lab, "POST", f"/{NOTES}/_close")[0] == 200
        assert administer(lab, "POST", f"/{NOTES}/_open?wait_for_active_shards=0")[0] == 200
    try:
        yield
    finally:
        with boxed.owned() as lab:
            assert starting(None) == 200


def red_now(boxed: Boxed) -> bool:
    with boxed.owned() as lab:
        status, health = administer(lab, "GET", "/_cluster/health")
        return status == 200 and health["status"] == "red" and administer(lab, "GET", f"/{NOTES}/_doc/{LOCK}")[0] >= 500


def over(boxed: Boxed, team: Team, running: Program, *codes: int) -> None:
    """The day ends with one of these, and nothing of it stays, whoever undid it."""
    code, output = running.end(1200)
    lines = team.lines()
    print(output)
    assert code in codes, output
    assert bool(of(lines, "hold")) is (code != 3) and record.verify(team.days()[-1]) == []
    assert len(of(lines, "experiment.begin")) == 1
    with boxed.owned() as lab:
        assert wait_until(lambda: administer(lab, "GET", f"/{NOTES}/_doc/run")[0] == 404, 240, every=1.0)
    assert active(boxed) == []
    for given in (("recover",), ("recover", "--on", boxed.target)):
        code, output = boxed.chaos(*given)
        assert code == 0 and "could not" not in output, output


def test_while_the_cluster_is_red_all_is_undone_without_the_lock(
    boxed: Boxed,
    before: Path,
    team: Team,
    consent: None,
) -> None:
    """Nobody asks for the stop. That somebody limits what may start on the cluster is one, and so is that the day's
    notes cannot be reached; whatever comes first, the undo finds no lock."""
    ready(team, "node-long", LONG)
    running = hitting(team)
    with red(boxed):
        assert wait_until(lambda: red_now(boxed), 60, every=0.5)

        def undone() -> bool:
            return any(event["kind"] == "fault.undone" for event in events(runs(team)))

        assert wait_until(lambda: undone() or running.process.poll() is not None, 400, every=0.5)
        assert undone() and active(boxed) == []
        assert red_now(boxed), "the lock was there after all"
    # 3: that somebody steered the cluster ended it. 6: what it keeps there could not be taken away before that was back
    over(boxed, team, running, 3, 4, 6)


def test_a_runner_that_is_cut_off_holds_nothing_and_hosts_undo_without_the_lock(
    boxed: Boxed,
    before: Path,
    team: Team,
    consent: None,
) -> None:
    ready(team, "node-long", LONG)
    running = hitting(team)
    assert boxed.does("cut") == (0, "")
    try:
        assert wait_until(lambda: active(boxed) == [], BOUND + 60.0, every=0.5), active(boxed)
    finally:
        assert boxed.does("mend") == (0, "")
    # 3: it noticed first that it could not see its fault any more
    over(boxed, team, running, 3, 4, 5, 6)
