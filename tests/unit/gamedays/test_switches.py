"""The ConfigMap that stops a game day, by the official client against an API server on loopback."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from apiserver import Server, serving

from chaos.base.errors import FaultError
from chaos.base.waiting import wait_until
from chaos.gamedays import switches
from chaos.gamedays.drill import Drill, drill_of, text
from chaos.gamedays.switches import KEY, MapSwitch, object_name
from chaos.kubernetes.client import Client, Refused

LOCK = "a-cluster/.opensearch-chaos"
NAME = object_name("staging")


@pytest.fixture
def there() -> Iterator[Server]:
    with serving() as server:
        server.write_map(NAME, {})
        yield server


@pytest.fixture
def switch(there: Server, tmp_path: Path) -> Iterator[MapSwitch]:
    made = MapSwitch(Client(None, there.kubeconfig(tmp_path)), there.namespace, "staging")
    yield made
    made.stop()


@pytest.fixture
def ours() -> Drill:
    return drill_of("staging", LOCK, datetime.now(UTC))


def test_whoever_writes_into_it_stops_the_day(there: Server, switch: MapSwitch) -> None:
    assert switch.gate().ok and switch.tripped(0.0) is None
    there.write_map(NAME, {KEY: "the\x1b[2J shop is slow"})
    gate = switch.gate()
    assert not gate.ok and "shop is slow" in gate.says and "\x1b" not in gate.says
    assert f"patch configmap {NAME}" in gate.remedy and '{"data":{"stop":null}}' in gate.remedy
    assert "says stop: the" in str(switch.tripped(0.0))
    there.write_map(NAME, {KEY: None})
    assert switch.gate().ok and switch.tripped(0.0) is None


@pytest.mark.parametrize("written", ["", "no", "{}"])
def test_any_word_is_a_stop(there: Server, switch: MapSwitch, written: str) -> None:
    there.write_map(NAME, {KEY: written})
    assert not switch.gate(unlocked=True).ok and switch.tripped(0.0) is not None


def test_one_that_is_not_there_or_cannot_be_read_lets_nothing_begin(there: Server, switch: MapSwitch) -> None:
    del there.maps[NAME]
    gate = switch.gate()
    assert not gate.ok and "nobody could stop it" in gate.says and "gameday schedule" in gate.remedy
    assert "is gone" in str(switch.tripped(0.0))
    there.write_map(NAME, {})
    there.denied.add(("get", "configmaps"))
    other = MapSwitch(switch._client, there.namespace, "staging")
    gate = other.gate()
    assert not gate.ok and "forbidden" in gate.says


def test_it_is_watched_and_one_that_is_silent_for_long_ends_the_day(
    there: Server, switch: MapSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switches, "LOOK_SECONDS", 0.02)
    assert switch.gate().ok
    switch.start()
    there.write_map(NAME, {KEY: "now"})
    assert wait_until(lambda: switch.tripped(time.monotonic()) is not None, 10)
    there.write_map(NAME, {KEY: None})
    assert wait_until(lambda: switch.gate().ok, 10)
    there.answers["GET"] = 503
    monkeypatch.setattr(switches, "UNSEEN_SECONDS", 0.2)
    assert wait_until(lambda: "could not be read" in (switch.tripped(time.monotonic()) or ""), 10)
    assert not switch.gate().ok


def test_a_drill_goes_through_it_and_leaves_it_as_it_was(there: Server, switch: MapSwitch, ours: Drill) -> None:
    switch.made(ours)
    assert there.maps[NAME]["data"] == {KEY: text(ours)} and switch.left() == ours
    assert switch.gate(unlocked=True).ok and not switch.gate().ok
    with pytest.raises(FileExistsError):
        switch.made(ours)
    assert switch.taken_away(ours) and there.maps[NAME]["data"] == {} and switch.tripped(0.0) is None
    assert not switch.taken_away(ours)


def test_what_a_person_wrote_into_a_drill_stays(there: Server, switch: MapSwitch, ours: Drill) -> None:
    switch.made(ours)
    there.write_map(NAME, {KEY: "stop all the same"})
    assert not switch.taken_away(ours) and switch.dead_taken_away(LOCK) is None
    assert there.maps[NAME]["data"][KEY] == "stop all the same"


def test_what_is_written_between_the_look_and_the_change_is_not_lost(
    there: Server, switch: MapSwitch, ours: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch.made(ours)
    write = MapSwitch._write

    def later(self: MapSwitch, what: str | None, version: str) -> None:
        there.write_map(NAME, {KEY: "wait!"})
        write(self, what, version)

    monkeypatch.setattr(MapSwitch, "_write", later)
    assert not switch.taken_away(ours) and there.maps[NAME]["data"][KEY] == "wait!"


def test_a_dead_drill_is_taken_away_under_its_own_lock_alone(there: Server, switch: MapSwitch, ours: Drill) -> None:
    switch.made(ours)
    assert switch.dead_taken_away("another/.notes") is None and switch.left() == ours
    assert switch.dead_taken_away(LOCK) == ours and there.maps[NAME]["data"] == {}


def test_a_drill_that_may_not_write_says_so(there: Server, switch: MapSwitch, ours: Drill) -> None:
    there.denied.add(("patch", "configmaps"))
    with pytest.raises(Refused, match="forbidden"):
        switch.made(ours)
    del there.maps[NAME]
    with pytest.raises(FaultError, match="is not there"):
        switch.made(ours)
