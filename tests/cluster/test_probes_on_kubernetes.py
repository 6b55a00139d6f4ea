"""Kubelets that ask each node how the whole cluster is, and end those that say: not green. One node that is away then
takes the others with it. Without such a probe the same fault passes (test_on_kubernetes.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusterkit import cli
from kubebox.making import Box
from kubekit import Command, named
from podruns import experiment, pods, target, whole

from chaos.base.errors import Exit
from chaos.base.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.full]
UP_SECONDS = 900
LIVENESS = "/_cluster/health?wait_for_status=green&timeout=1s"
"""Every 10 s; after three that are not well the container is ended."""


@pytest.fixture
def box() -> Iterator[Box]:
    made = named()
    try:
        code, output = Command(made.name, "up", "--liveness", LIVENESS).end(UP_SECONDS)
        assert code == 0, output
        yield made
    finally:
        code, output = Command(made.name, "down").end(120)
        assert code == 0, output


def test_probes_that_ask_how_the_cluster_is_end_nodes_that_are_well_and_the_run_says_so(
    box: Box, tmp_path: Path
) -> None:
    api = box.api()
    assert wait_until(lambda: whole(api), 240, every=0.5)
    asked = experiment(tmp_path, "node.stop: {target: node b-data}")
    asked.write_text(asked.read_text().replace("for: 15s", "for: 90s"))
    code, output = cli("run", asked, "--on", target(box, tmp_path), "--out", tmp_path / "run", "--yes", timeout=400)
    assert code == Exit.ABORTED and "clean-up: clean" in output, output
    assert "the container of pod" in output and "no fault hits that pod" in output, output
    assert wait_until(lambda: whole(api), 300, every=0.5), pods(api)
