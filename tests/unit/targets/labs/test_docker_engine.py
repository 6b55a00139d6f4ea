"""One Docker engine of two users: what is of the other's lab of the same id stays, whatever it is called."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import PARTS, topology

from chaos.base import paths
from chaos.base.errors import InvalidInput
from chaos.targets.kinds import docker as kind
from chaos.targets.labs.docker import engine as module
from chaos.targets.labs.docker.engine import HOST, LAB, PART, STATE, Engine
from chaos.targets.labs.docker.lab import DockerLab


class Client:
    """Of docker-py what lists and removes; containers alone, each with the labels of its maker."""

    def __init__(self, containers: dict[str, dict[str, str]]) -> None:
        self.made, self.api, self.containers = containers, self, self

    def __call__(self, filters: dict[str, str], **more: Any) -> list[dict[str, Any]]:
        key, _, value = filters["label"].partition("=")
        return [
            {"Names": [f"/{name}"], "Labels": labels}
            for name, labels in self.made.items()
            if key in labels and value in ("", labels[key])
        ]

    def list(self, filters: dict[str, str], **more: Any) -> list[Any]:
        return [SimpleNamespace(name=each["Names"][0], labels=each["Labels"]) for each in self(filters)]

    def networks(self, **more: Any) -> list[Any]:
        return []

    def volumes(self, **more: Any) -> dict[str, Any]:
        return {"Volumes": None}

    def remove_container(self, name: str, **more: Any) -> None:
        del self.made[name]


@pytest.fixture
def states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """State folders by whose they are, all but the one that is gone with a lab ``play``; the environment names ours."""
    found = {whose: tmp_path / whose for whose in ("ours", "theirs", "gone")}
    for whose in ("ours", "theirs"):
        (found[whose] / "labs" / "play").mkdir(parents=True)
    monkeypatch.setenv("OPENSEARCH_CHAOS_STATE", str(found["ours"]))
    return found


@pytest.fixture
def engine(states: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Engine:
    labels = {
        whose: {LAB: "play", STATE: str(state), PART: "node", HOST: f"{whose}-data"} for whose, state in states.items()
    }
    made = Engine(Client(labels))  # type: ignore[arg-type]
    monkeypatch.setattr(Engine, "if_any", classmethod(lambda cls: made))
    monkeypatch.setattr(kind, "likely", lambda: True)
    return made


def test_a_lab_of_another_user_is_not_removed_and_one_whose_state_folder_is_gone_is(engine: Engine) -> None:
    assert engine.remove("play") == []
    assert [each.what for each in engine.owned()] == ["container theirs"]


def test_what_is_held_is_ours(engine: Engine) -> None:
    assert kind.TARGET.held("play") == ["container ours", "container gone"]


def test_a_lab_of_another_user_is_not_known_even_where_its_folder_may_not_be_looked_into(
    engine: Engine, states: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    client: Any = engine.client
    del client.made["ours"], client.made["gone"]
    assert kind.TARGET.known() == set()

    def closed(path: Any, **more: Any) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(paths.os, "stat", closed)
    assert kind.TARGET.known() == set()


def test_logs_of_another_user_s_lab_are_not_kept(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.Engine, "logs", lambda self, container, lines=None: container.name)
    (tmp_path / "logs").mkdir()
    engine.keep_logs("play", tmp_path / "logs")
    assert sorted(each.name for each in (tmp_path / "logs").iterdir()) == ["gone-data.log", "ours-data.log"]


def test_no_lab_is_made_of_a_name_that_another_user_of_the_engine_has(engine: Engine, states: dict[str, Path]) -> None:
    (states["ours"] / "labs" / "play").rmdir()
    with pytest.raises(InvalidInput, match=f"already on this machine, of the state folder {states['theirs']}"):
        DockerLab.create(topology("3az"), PARTS, id="play")
    assert not (states["ours"] / "labs" / "play").exists()
