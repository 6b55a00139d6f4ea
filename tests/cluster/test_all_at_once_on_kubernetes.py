"""All pods of a StatefulSet are deleted at once. Made in order, each once the one before is ready, they come back too
late where ready waits for the whole cluster. All made at once, or with a probe of the port, they come back in time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusterkit import cli, events, findings
from kubebox.making import Box
from kubebox.manifests import DATA, ORDERED, PARALLEL
from kubekit import brought_up
from podruns import target, uids, whole

from chaos.base.errors import Exit
from chaos.base.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.kubernetes]
WHOLE = ("--startup", "/_cluster/health?wait_for_status=green&timeout=1s")
SHIPPED = "experiments/kubernetes/all-at-once.yaml"
OVER = {"kind": "phase.end", "phase": "deleted"}


@pytest.fixture
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    """With a StatefulSet of data nodes for each zone, and the options that the test names."""
    with brought_up("--zonal", "--management", *request.param) as made:
        yield made


def deleted(box: Box, folder: Path) -> tuple[str, set[str]]:
    """How the phase ended in which the pods of a zone were deleted, and the metrics that are a weakness in it."""
    api = box.api()
    assert wait_until(lambda: whole(api, 9), 240, every=0.5)
    on, before = target(box, folder), uids(api)
    on.write_text(on.read_text().replace("rung: node\n", "rung: zone\n"))
    code, output = cli("run", SHIPPED, "--on", on, "--out", folder / "run", "--yes", timeout=1200)
    print(output)
    # a busy machine may take the worth from what depends on time, and not from where copies were built
    assert code in (Exit.PASS, Exit.WEAKNESS, Exit.INCONCLUSIVE) and "clean-up: clean" in output, output
    assert "proven" in output and "not proven" not in output, output
    after = uids(api)
    assert {name for name in before if after[name] != before[name]} == {f"{DATA.full_name}-b-{n}" for n in (0, 1)}
    assert wait_until(lambda: whole(api, 9), 150, every=0.5)
    (reason,) = [each["reason"] for each in events(folder / "run") if OVER.items() <= each.items()]
    found = findings(folder / "run")["findings"]
    return reason, {e["metric"] for e in found if e["phase"] == OVER["phase"] and e["counts_as"] == "weakness"}


@pytest.mark.parametrize("box", [(ORDERED, *WHOLE)], indirect=True, ids=["ordered, green"])
def test_in_order_and_with_a_probe_that_waits_for_green_a_zone_does_not_come_back_in_time(
    box: Box, tmp_path: Path
) -> None:
    reason, weak = deleted(box, tmp_path)
    assert reason == "deadline" and "shards.moved" in weak


@pytest.mark.parametrize(
    "box", [(PARALLEL, *WHOLE), (ORDERED,)], indirect=True, ids=["at once, green", "ordered, port"]
)
def test_at_once_or_with_a_probe_of_the_port_it_does(box: Box, tmp_path: Path) -> None:
    reason, weak = deleted(box, tmp_path)
    assert reason == "condition met" and "shards.moved" not in weak
