"""Kubelets that ask each node how the whole cluster is, and end those that say: not green. One node that is away then
takes the others with it. With a probe that asks a node for itself the same run goes through."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusterkit import cli
from kubebox.making import Box
from kubekit import brought_up
from podruns import pods, target, whole

from chaos.base.errors import Exit
from chaos.base.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.kubernetes]
WHOLE = "/_cluster/health?wait_for_status=green&timeout=1s"
"""Every 10 s; after three that are not well the container is ended."""
ITSELF = "/_cluster/health?local=true"
SHIPPED = "experiments/kubernetes/probes.yaml"


@pytest.fixture
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    """With the liveness probe that the test names."""
    with brought_up("--liveness", request.param) as made:
        yield made


@pytest.mark.parametrize("box", [WHOLE], indirect=True)
def test_probes_that_ask_how_the_cluster_is_end_nodes_that_are_well_and_the_run_says_so(
    box: Box, tmp_path: Path
) -> None:
    api = box.api()
    assert wait_until(lambda: whole(api), 240, every=0.5)
    code, output = cli("run", SHIPPED, "--on", target(box, tmp_path), "--out", tmp_path / "run", "--yes", timeout=600)
    assert code == Exit.ABORTED and "clean-up: clean" in output, output
    assert "the container of pod" in output and "no fault hits that pod" in output, output
    assert wait_until(lambda: whole(api), 300, every=0.5), pods(api)


@pytest.mark.parametrize("box", [ITSELF], indirect=True)
def test_probes_that_ask_a_node_for_itself_end_no_node(box: Box, tmp_path: Path) -> None:
    api = box.api()
    assert wait_until(lambda: whole(api), 240, every=0.5)
    code, output = cli("run", SHIPPED, "--on", target(box, tmp_path), "--out", tmp_path / "run", "--yes", timeout=600)
    assert code in (Exit.PASS, Exit.WEAKNESS) and "clean-up: clean" in output, output
    assert "proven" in output and "not proven" not in output, output
    assert wait_until(lambda: whole(api), 150, every=0.5)
    ended = [each["metadata"]["name"] for each in pods(api) if restarts(each)]
    assert len(ended) <= 1, "but for the one that the fault held down"


def restarts(pod: dict) -> int:
    return sum(each["restartCount"] for each in pod["status"]["containerStatuses"])
