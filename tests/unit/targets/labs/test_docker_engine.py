"""One Docker engine of two users: what is of the other's lab of the same id stays, whatever it is called."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import PARTS, topology

from chaos.base import paths
from chaos.base.errors import InvalidInput
from chaos.run import recovery
from chaos.targets.kinds import docker as kind
from chaos.targets.labs.docker import engine as module
from chaos.targets.labs.docker.engine import HOST, LAB, MACHINE, PART, STATE, Engine
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


@pytest.fixture
def shared(engine: Engine, states: dict[str, Path]) -> Engine:
    """The same engine, by TCP: a second machine has a lab of the same id, and one of its own, in its state folder of
    the same path."""
    client: Any = engine.client
    labels = {STATE: str(states["ours"]), PART: "node"}
    client.made["new"] = {LAB: "play", **labels, HOST: "new", MACHINE: paths.machine()}
    client.made["far"] = {LAB: "play", **labels, HOST: "far", MACHINE: "0" * 32 + "," + "1" * 32}
    client.made["farther"] = {LAB: "theirs", **labels, HOST: "farther", MACHINE: "0" * 32 + "," + "1" * 32}
    return engine


def test_what_another_machine_made_on_a_shared_engine_stays_and_is_named(shared: Engine, tmp_path: Path) -> None:
    """What was made before there was such a label counts as this machine's, as it did."""
    assert kind.TARGET.known() == {"play"} and kind.TARGET.of_other_machines() == {"play", "theirs"}
    assert kind.TARGET.held("play") == ["container ours", "container gone", "container new"]
    assert kind.TARGET.remove("play") == [] and kind.TARGET.remove("theirs") == []
    assert [each.what for each in shared.owned()] == ["container theirs", "container far", "container farther"]
    said: list[str] = []
    recovery._name_others(said.append)
    assert [line.partition(" of kind")[0] for line in said] == ["lab play", "lab theirs"]


def test_logs_of_another_machine_s_lab_are_not_kept(
    shared: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.Engine, "logs", lambda self, container, lines=None: container.name)
    (tmp_path / "logs").mkdir()
    shared.keep_logs("play", tmp_path / "logs")
    assert sorted(each.name for each in (tmp_path / "logs").iterdir()) == [
        "gone-data.log", "new.log", "ours-data.log"
    ]  # fmt: skip


def test_no_lab_is_made_of_a_name_that_another_machine_has(shared: Engine, states: dict[str, Path]) -> None:
    with pytest.raises(InvalidInput, match="a lab named 'theirs' of another machine is on this Docker engine already"):
        DockerLab.create(topology("3az"), PARTS, id="theirs")
    assert not (states["ours"] / "labs" / "theirs").exists()


def test_what_is_made_says_of_which_machine_it_is(engine: Engine) -> None:
    labels = engine.labels("play", "node", "a-data")
    assert paths.is_this_machine(labels[MACHINE]) and labels[MACHINE]
