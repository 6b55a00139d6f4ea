"""docs/controls.md is complete: every control, every test that it names, every mutation of every metric."""

from __future__ import annotations

import re

from controls import DOC, PLANTED, ROOT, markdown, tables
from negative.test_mutated import BREAKS, METRICS

from chaos.registry import load_experiment

TEXT = DOC.read_text()


def test_every_control_is_listed_and_every_listed_one_is_there() -> None:
    assert set(PLANTED) == {path.stem for path in (ROOT / "experiments" / "controls").glob("*.yaml")}
    rows = [row[-1] for row in tables(TEXT)[0]]
    assert len(rows) == len(set(rows))


def test_a_control_expects_the_finding_that_must_fire() -> None:
    for name, finding in PLANTED.items():
        experiment = load_experiment(ROOT / "experiments" / "controls" / f"{name}.yaml")
        metric, _, phase = finding.partition("@")
        found = [each for each in experiment.expect if each.metric == metric and phase in (*each.phases, "")]
        assert len(found) == 1, finding
        assert found[0].known_weakness is None


def test_every_test_and_topology_that_is_named_is_there() -> None:
    for path, test in re.findall(r"`(tests/[a-z_/]+\.py)(?:::(\w+))?`", TEXT):
        content = (ROOT / path).read_text()
        assert not test or re.search(rf"^def {test}\(", content, re.MULTILINE), f"{path}::{test}"
    for name in re.findall(r"topology `([^`]+)`", TEXT):
        assert (ROOT / "topologies" / f"{name}.yaml").is_file()


def test_every_planted_mode_of_the_stub_is_listed() -> None:
    modes = (ROOT / "tests" / "support" / "load_stub.py").read_text()
    planted = re.findall(r"``(\w+)``\s*\(", modes)
    assert len(planted) >= 7
    assert [mode for mode in planted if f"`{mode}`" not in TEXT] == []


def test_every_mutation_of_every_metric_is_listed() -> None:
    assert markdown(TEXT) == TEXT, "run: python tests/support/controls.py"
    listed = {
        metric: names.split("; ")
        for metrics, names in tables(TEXT)[2]
        for metric in re.findall(r"`([^`]+)`", metrics)
        if metric in METRICS
    }
    assert listed == {metric: [name.replace("_", " ") for name in BREAKS[metric]] for metric in METRICS}
