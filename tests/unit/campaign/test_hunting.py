"""The hunt over settings: what counts as deaf, what is drawn, and that it goes on where it stopped."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.campaign import settings_hunt
from chaos.campaign.settings_hunt import (
    DEAF,
    ONCE,
    REFUSED,
    UNDONE,
    Draw,
    Hunt,
    Journal,
    pairs,
    singles,
    tried,
    values_for,
)
from chaos.run.stopping import Stop

DEFAULTS = {"a.delay": "5s", "a.size": "10mb", "a.count": "3", "b.on": "false", "b.share": "0.5", "logger.x": "info"}


class FakeSettings:
    """A cluster's settings; ``deadly``: changes after which nothing that changes the state is answered."""

    def __init__(self, deadly: tuple[str, ...] = (), static: tuple[str, ...] = (), stuck: tuple[str, ...] = ()) -> None:
        self.deadly, self.static, self.stuck = deadly, static, stuck
        self.held: dict[str, Any] = {}
        self.asked = 0

    def __call__(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        self.asked += 1
        dead = any(name in self.held for name in self.deadly)
        if path.startswith("/_cluster/settings") and method == "PUT":
            ((name, value),) = list(body["persistent"].items())[:1]
            if name in self.static:
                return 400, {"error": f"setting [{name}], not dynamically updateable"}
            if value == "-1":
                return 400, {"error": "must be >= 0"}
            if dead:
                return 503, {"error": "cluster_manager_not_discovered_exception"}
            for key, each in body["persistent"].items():
                if each is None and key not in self.stuck:
                    self.held.pop(key, None)
                elif each is not None:
                    self.held[key] = each
            return 200, {"acknowledged": True}
        if path.startswith("/_cluster/settings"):
            return 200, {"persistent": dict(self.held)}
        if method != "GET" and dead:
            return 503, {}
        return 200, {}


def test_what_is_refused_or_undone_is_well() -> None:
    ask = FakeSettings(static=("b.on",))
    assert tried(Draw((("a.delay", "-1"),)), ask) == {"outcome": REFUSED}
    assert tried(Draw((("b.on", "true"),)), ask) == {"outcome": REFUSED, "static": True}
    assert tried(Draw((("a.delay", "0ms"),)), ask) == {"outcome": UNDONE}
    assert ask.held == {}


def test_what_cannot_be_undone_is_deaf() -> None:
    told = tried(Draw((("a.delay", "0ms"),)), FakeSettings(deadly=("a.delay",)))
    assert told["outcome"] == DEAF
    assert {"the undo", "an index after the undo"} <= {each["what"] for each in told["deaf"]}


def test_an_undo_that_says_yes_and_changes_nothing_is_deaf() -> None:
    told = tried(Draw((("a.size", "0b"),)), FakeSettings(stuck=("a.size",)))
    assert told["outcome"] == DEAF and "still set" in told["deaf"][-1]["what"]


def test_an_index_that_is_not_made_while_a_value_holds_is_told_and_not_deaf() -> None:
    def read_only(method: str, path: str, body: Any) -> tuple[int, Any]:
        held = cluster.held
        answer = cluster(method, path, body)
        return (503, {}) if method == "PUT" and not path.startswith("/_cluster") and held else answer

    cluster = FakeSettings()
    told = tried(Draw((("b.on", "true"),)), read_only)
    assert told["outcome"] == UNDONE and [each["what"] for each in told["deaf"]] == ["a new index"]


@given(st.sampled_from([*DEFAULTS.values(), "", "a,b", "10%", "-1", "1e5", "[]"]))
def test_a_default_is_never_tried_and_there_is_always_something_else(default: str) -> None:
    assert values_for(default) and default not in values_for(default)


def test_every_setting_is_drawn_in_an_order_of_the_seeds() -> None:
    first = singles(DEFAULTS, 1)
    assert first == singles(DEFAULTS, 1) != singles(DEFAULTS, 2) and set(first) == set(singles(DEFAULTS, 2))
    assert {draw.changes[0][0] for draw in first} == {name for name in DEFAULTS if not name.startswith("logger.")}


def test_pairs_are_of_settings_that_belong_together() -> None:
    drawn = list(islice(pairs([("a.b.c.x", "1"), ("a.b.c.y", "2"), ("z.b.c", "3")], 1), 5))
    assert all({key for key, _ in draw.changes} <= {"a.b.c.x", "a.b.c.y"} for draw in drawn)
    assert list(pairs([("a.b.c", "1"), ("z.b.c", "3")], 1)) == []


class FakePool:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def hunting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Any) -> tuple[Hunt, FakePool]:
    pool = FakePool()
    hunt = Hunt(pool, None, Journal(tmp_path / "j" / "settings.jsonl"), 1, Stop(), lambda _: None)  # type: ignore[arg-type]
    clusters = {}

    def on(draw: Draw) -> dict[str, Any]:
        return tried(draw, clusters.setdefault(pool.closed, make(pool.closed)))

    monkeypatch.setattr(hunt, "_tried", on)
    monkeypatch.setattr(hunt, "_lab", lambda: None)
    monkeypatch.setattr(settings_hunt, "dynamic", lambda _: {"a.delay": "5s", "a.size": "10mb", "b.on": "false"})
    return hunt, pool


def alone(hunt: Hunt) -> list[dict[str, Any]]:
    return [line for line in hunt.journal.lines if len(line["changes"]) == 1]


def test_a_hunt_finds_what_is_deadly_each_time_in_a_new_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_hunt, "pairs", lambda *_: iter(()))
    hunt, pool = hunting(tmp_path, monkeypatch, lambda _: FakeSettings(deadly=("a.size",), static=("b.on",)))
    found = hunt.run(60)
    assert {draw["changes"][0][0] for draw in found} == {"a.size"} and {draw["outcome"] for draw in found} == {DEAF}
    assert pool.closed == 2 * len(found)  # a new one to see it again, and one for the next draw
    assert sum(line["changes"][0][0] == "b.on" for line in alone(hunt)) == 1  # static, so no more of it


def test_a_hunt_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_hunt, "pairs", lambda *_: iter(()))
    hunt, _ = hunting(tmp_path, monkeypatch, lambda _: FakeSettings())
    hunt.run(60)
    lines = hunt.journal.file.read_text().splitlines()
    hunt.journal.file.write_text("\n".join([*lines[:3], lines[3][:20]]))  # cut off in the midst of a line
    again, _ = hunting(tmp_path, monkeypatch, lambda _: FakeSettings())
    again.run(60)
    assert len(alone(again)) == len(lines) and len(again.journal.done()) == len(lines)


def test_what_is_not_seen_again_in_a_new_lab_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_hunt, "pairs", lambda *_: iter(()))
    hunt, _ = hunting(tmp_path, monkeypatch, lambda n: FakeSettings(deadly=("b.on",) if n == 0 else ()))
    assert [each["outcome"] for each in hunt.run(60)] == [ONCE]


def test_a_pair_is_shrunk_to_the_one_that_suffices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Draw((("b.on", "true"), ("a.size", "1b")))
    monkeypatch.setattr(settings_hunt, "singles", lambda *_: [])
    monkeypatch.setattr(settings_hunt, "pairs", lambda *_: iter([pair]))
    hunt, _ = hunting(tmp_path, monkeypatch, lambda _: FakeSettings(deadly=("a.size",)))
    assert [each["changes"] for each in hunt.run(60)] == [(("a.size", "1b"),)]
