"""Failover controllers of a run: how they are told to get in, what they may do, and when they are left to end."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_cluster import FakeCluster
from fakes import ROOT
from typer.main import get_command
from unit.run.test_reaching import target

from chaos.base.access import PLAIN, Access, Whose
from chaos.cli import app
from chaos.definitions.experiment import Controller
from chaos.instruments import controllers
from chaos.instruments.controllers import Controllers, options, rotations
from chaos.opensearch.cluster import Zoning
from chaos.programs.failover.decide import Cluster, _stand_by
from chaos.registry import load_experiment
from chaos.run import commanding, on_target
from chaos.targets import wiring

SECURE = Access(
    tls=True, ca="/k/ca.pem", user="chaos", password="file:/k/password", certificate="/k/c.pem", key="/k/c.key"
)


@pytest.mark.parametrize(
    ("access", "zoning", "told"),
    [
        (PLAIN, Zoning(), {}),
        (
            SECURE,
            Zoning(),
            {
                "--user": "chaos",
                "--password": "file:/k/password",
                "--ca": "/k/ca.pem",
                "--certificate": "/k/c.pem",
                "--key": "/k/c.key",
            },
        ),
        (Access(tls=True, verify=False), Zoning("rack"), {"--insecure": None, "--zone-attribute": "rack"}),
        (
            replace(SECURE, verify=False, certificate=None, key=None, user=None, password=None),
            Zoning(),
            {"--insecure": None},
        ),
        (
            Access(whose=Whose("u", "search staging")),
            Zoning(),
            {"--cluster-uuid": "u", "--cluster-name": "search staging"},
        ),
        (PLAIN, Zoning("zone", {"a": "eu-1a"}), {"--zone-attribute": "zone", "--zone-name": "a=eu-1a"}),
    ],
)
def test_controllers_get_in_as_the_run_does_and_call_zones_as_it_does(
    access: Access, zoning: Zoning, told: dict[str, str | None]
) -> None:
    words = options(access, zoning)
    assert sorted(words) == sorted(word for pair in told.items() for word in pair if word is not None)
    assert all(words[words.index(name) + 1] == value for name, value in told.items() if value is not None)
    known = {option for parameter in get_command(app).commands["failover"].params for option in parameter.opts}  # type: ignore[attr-defined]
    assert {word for word in words if word.startswith("--")} == set(told) <= known


def test_files_of_an_access_are_named_from_anywhere(tmp_path: Path) -> None:
    """Controllers stand in the run's folder, and the file's paths are beside the file."""
    made = target(tmp_path)
    text = (tmp_path / "staging.yaml").read_text().replace("http://", "https://")
    (tmp_path / "staging.yaml").write_text(text + "access: {user: chaos, password: 'file:secret', ca: ca.pem}\n")
    words = options(on_target.load_existing(tmp_path / "staging.yaml").access, Zoning())
    assert made and f"file:{tmp_path}/secret" in words and f"{tmp_path}/ca.pem" in words


@pytest.mark.parametrize("zones", ["ab", "abc", "abcd"])
def test_all_weights_that_a_controller_may_set_are_known_beforehand(zones: str) -> None:
    cluster = Cluster(tuple(zones), {}, 1, {}, {}, {}, frozenset(), True)
    assert [dict(_stand_by(zone, "", cluster).weights) for zone in zones] == rotations(zones)


class Theirs(FakeCluster):
    def answer(self, node: str, method: str, path: str, body: Any) -> tuple[int, Any]:
        if path.endswith("/weights"):
            return 200, {"weights": {"a": "1.0", "b": "1.0", "c": "0.0"}, "_version": 0}
        return super().answer(node, method, path, body)


def made(folder: Path, controller: str, *, there: bool, **given: Any) -> Controllers:
    experiment = load_experiment(ROOT / "experiments" / "standby" / "rotation.yaml")
    wanted = Controller.model_validate(json.loads(controller))
    lab: Any = Theirs("3az-standby")
    holds = given.pop("holds", lambda: True) if there else None
    return Controllers(experiment.model_copy(update={"controller": wanted}), lab, folder, holds=holds, **given)


@pytest.mark.parametrize(
    ("controller", "there", "back"),
    [
        ("{}", False, ["failover.away"]),
        ("{}", True, ["failover.restore"]),
        ('{"act": false}', True, ["index.delete"] * 3),
    ],
)
def test_what_takes_it_back_goes_by_whose_cluster_it_is(
    tmp_path: Path, controller: str, there: bool, back: list[str]
) -> None:
    mine = made(tmp_path, controller, there=there)
    assert [operation for operation, _ in mine._back(mine._wanted)] == back  # type: ignore[arg-type]


def test_the_weights_before_are_those_that_a_new_manager_of_a_lab_hides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.opensearch.administration.time.sleep", lambda _: None)
    mine = made(tmp_path, "{}", there=False)
    lab: Any = mine._lab
    monkeypatch.setattr(lab, "answer", partial(FakeCluster.answer, lab))
    lab.weights = {"a": "1.0", "b": "1.0", "c": "0.0"}
    lab.forgetful = range(0, 2)
    ((_, arguments),) = mine._back(mine._wanted)  # type: ignore[arg-type]
    assert arguments["weights"] == {"a": 1, "b": 1, "c": 0}


def test_votes_that_may_be_taken_are_named_where_some_are(tmp_path: Path) -> None:
    for lead, votes in (("true", [["b-cm", "c-cm"], ["a-cm", "c-cm"], ["a-cm", "b-cm"]]), ("false", [])):
        mine = made(tmp_path, f'{{"lead_from_standby": {lead}}}', there=True)
        ((_, arguments),) = mine._back(mine._wanted)  # type: ignore[arg-type]
        assert arguments["votes"] == votes and arguments["before"] == {"a": 1, "b": 1, "c": 0}


def test_which_zones_they_took_out_is_read_from_what_they_say(tmp_path: Path) -> None:
    mine = made(tmp_path, "{}", there=True)
    assert mine.taken_out() == frozenset()
    (tmp_path / "history").mkdir()
    steps = [
        {"kind": "failover.step", "step": step, "zone": zone}
        for step, zone in (("weights", "a"), ("decommission", "b"))
    ]
    (tmp_path / "history" / "failover-a.jsonl").write_text("".join(json.dumps(each) + "\n" for each in steps) + '{"ki')
    assert mine.taken_out() == {"b"}


def test_they_are_left_to_end_once_the_run_may_be_taken_for_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controllers, "BEAT_SECONDS", 0.01)
    holds, lost = iter([True, True, False]), list[str]()
    mine = made(tmp_path, "{}", there=True, lost=lost.append)
    here, there = os.pipe()
    mine._running["a"] = SimpleNamespace(stdin=os.fdopen(there, "wb"))  # type: ignore[assignment]
    mine._beat(lambda: next(holds))
    assert os.read(here, 100) == commanding.GO * 2
    assert len(lost) == 1 and "controllers end" in lost[0]


def test_the_port_is_that_of_a_lab_s_nodes() -> None:
    assert controllers.HTTP == wiring.HTTP
