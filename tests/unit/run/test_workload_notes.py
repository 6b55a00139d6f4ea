"""What cannot be verified of documents is said before a run, and room is reckoned by their size."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from fakes import ROOT
from unit.definitions.test_workload_files import experiment, written

from chaos.commands.running import _serves
from chaos.definitions import load_topology
from chaos.load.config import DriverConfig
from chaos.registry import PROVIDERS, load_experiment
from chaos.run import notes, space


def said(found: object) -> list[str]:
    return [each for each in notes.of(found, 1, PROVIDERS.on({}, ())) if "not compared" in each]  # type: ignore[arg-type]


def test_it_is_said_of_documents_without_a_text_that_can_be_compared(tmp_path: Path) -> None:
    written(tmp_path)
    (note,) = said(load_experiment(experiment(tmp_path)))
    assert note.startswith("documents of the workload orders are read back by id") and "seq and check" in note
    assert said(load_experiment(ROOT / "experiments" / "no-fault.yaml")) == []


def test_larger_documents_need_more_room() -> None:
    plain = load_experiment(ROOT / "experiments" / "no-fault.yaml")
    logs = load_experiment(ROOT / "experiments" / "workload-logs.yaml")
    assert space.document_bytes(plain) == space.DOCUMENT_BYTES
    assert 6000 < space.document_bytes(logs) < 8000
    more = plain.model_copy(update={"load": plain.load.model_copy(update={"workload": "logs"})})
    assert space.of_lab(more).bytes > 2 * space.of_lab(plain).bytes
    assert space.of_record(more) == space.of_record(plain)


def test_the_driver_is_told_of_a_file_and_of_none_where_there_is_none() -> None:
    config = {"seed": 1, "out": "/x", "operations": [{"name": "read", "kind": "search", "rate": 1}]}
    config |= {"clients": [{"zone": "a"}], "targets": [{"node": "n", "zone": "a", "host": "h", "port": 1}]}
    assert "dataset" not in DriverConfig.model_validate(config).model_dump(mode="json")
    told = DriverConfig.model_validate({**config, "workload": "x", "dataset": {"name": "x"}})
    assert DriverConfig.model_validate_json(told.model_dump_json()).dataset == {"name": "x"}


def test_a_lab_that_is_up_serves_what_differs_from_it_by_the_workload_s_settings_alone(tmp_path: Path) -> None:
    written(tmp_path)
    found = load_experiment(experiment(tmp_path))
    lab = SimpleNamespace(topology=load_topology("3az", near=ROOT / "experiments" / "x.yaml"))
    assert found.topology.settings.index != lab.topology.settings.index
    assert _serves(lab, found, alone=True)
    settings = found.topology.settings.model_copy(update={"index": {**found.topology.settings.index, "codec": "zlib"}})
    other = found.topology.model_copy(update={"settings": settings})
    assert not _serves(lab, found.model_copy(update={"topology": other}), alone=True)
    assert not _serves(SimpleNamespace(topology=other), found, alone=True)
