"""Operators' steps on indices of an experiment's own: in which order they make sense, and what they are refused for."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import ROOT

from chaos.base.errors import InvalidInput
from chaos.definitions import Experiment
from chaos.registry import GRAMMAR, PROVIDERS, load_experiment
from chaos.run import plan
from chaos.run.execution import offers_for

TEXT = f"""\
apiVersion: opensearch-chaos/v1
name: x
topology: {ROOT}/topologies/3az-standby.yaml
load: {{write: {{rate: 20/s, good: ok within 500ms}}}}
expect: [{{acknowledged.lost: 0}}]
phases:
"""
MAKE, CLOSE, OPEN, DELETE = (f"index_{what}: {{index: archive}}" for what in ("create", "close", "open", "delete"))


def load(folder: Path, *does: str) -> Experiment:
    path = folder / "x.yaml"
    path.write_text(TEXT + "".join(f"  p{n}: {{for: 5s, do: {{{each}}}}}\n" for n, each in enumerate(does)))
    return load_experiment(path)


def test_they_are_read_written_down_and_planned_with_what_takes_them_back(tmp_path: Path) -> None:
    experiment = load(tmp_path, f"{MAKE}, reroute: {{}}", CLOSE, OPEN, "retry_failed: {}", DELETE)
    assert GRAMMAR.experiment(experiment.to_json()) == experiment
    steps = list(plan.steps(experiment, 1, offers_for(experiment, PROVIDERS)))
    inverses = [step["inverse"] for step in steps if step["inverse"]]
    assert inverses == ["the index archive is deleted", "the index archive is opened"]


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ((CLOSE,), "no index archive is made here: expected index_create before"),
        ((DELETE,), "no index archive is made here"),
        ((MAKE, MAKE), "the index archive is made already"),
        ((MAKE, OPEN), "the index archive is open already"),
        ((MAKE, CLOSE, CLOSE), "the index archive is closed already"),
        ((MAKE, DELETE, CLOSE), "no index archive is made here"),
        (("index_create: {index: _all}",), "index"),
        (("index_create: {index: 'a*'}",), "index"),
        (("index_create: {index: archive, settings: {number_of_shards: 0}}",), "expected a whole number from 1, got 0"),
        (
            ("index_create: {index: archive, settings: {number_of_replicas: many}}",),
            "number_of_replicas: expected a whole number from 0, got 'many'",
        ),
        (("index_delete: {index: chaos}",), "the load's index, and others', are not touched"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(tmp_path: Path, does: tuple[str, ...], says: str) -> None:
    with pytest.raises(InvalidInput) as error:
        load(tmp_path, *does)
    assert says in error.value.message and f":{6 + len(does)}:" in error.value.message
    assert len(error.value.message.splitlines()) == 1


def test_one_that_was_deleted_may_be_made_again(tmp_path: Path) -> None:
    load(tmp_path, MAKE, DELETE, MAKE, CLOSE, DELETE)
