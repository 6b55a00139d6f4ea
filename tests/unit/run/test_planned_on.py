"""What the plan of a run on a cluster that exists says of that cluster."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from fakes import a_fault
from unit.run.test_caps import made
from unit.run.test_reaching import there

from chaos.base.console import Reporter
from chaos.definitions.existing import load_existing
from chaos.registry import PROVIDERS, load_experiment
from chaos.run.execution import Execution
from chaos.run.options import RunOptions
from chaos.run.stopping import Stop
from chaos.targets.existing.target import ExistingTarget


def execution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Execution:
    """A run there that was not begun."""
    monkeypatch.setenv("OPENSEARCH_CHAOS_STATE", str(tmp_path / "state"))
    made(tmp_path)  # writes the target's file and the experiment
    experiment = load_experiment(tmp_path / "asked.yaml")
    target = ExistingTarget(load_existing(tmp_path / "staging.yaml"), experiment.topology)
    options = RunOptions(tmp_path, "run asked.yaml --on staging.yaml", PROVIDERS, seed=1, lab=target)
    folder = tmp_path / "asked-20261128T120000Z-abc123"
    folder.mkdir()
    return Execution(experiment, options, target.manifest.parts, folder, Reporter(quiet=True), Stop())


def test_before_each_phase_it_is_asked_with_the_faults_that_the_run_has_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = execution(tmp_path, monkeypatch)
    assert run.there is not None and run.there.made() == {}
    run.lifecycle.made["f1"] = fault = a_fault("f1", [])
    assert run.there.made() == {"f1": fault}


def test_a_plan_names_its_cluster_by_a_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = execution(tmp_path, monkeypatch)
    lab = run.planned_run([])["lab"]
    uuid = there().identity.cluster_uuid
    assert (lab["kind"], lab["id"]) == ("existing", "existing-staging")
    assert lab["cluster"] == hashlib.sha256(uuid.encode()).hexdigest()[:16]
