"""What experiments that hold on a Kubernetes whose cluster is well do not bear: writes that want every copy while a
machine is away, and a node that starts while no name is resolved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusterkit import ROOT, cli, findings
from kubebox import images
from kubebox.making import Box
from kubekit import brought_up
from podruns import counted, target, whole

from chaos.base.errors import Exit
from chaos.base.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.kubernetes]
EVERY_COPY = ("number_of_replicas: 2}", "number_of_replicas: 2, write.wait_for_active_shards: all}")
STARTS = """\
apiVersion: opensearch-chaos/v1
name: starts-without-names
description: A node starts while the nodes of its zone resolve no name.
topology: 3az
load:
  read:  {rate: 10/s, good: ok within 2s}
  write: {rate: 10/s, good: ok within 2s}
  documents: 500
phases:
  healthy:  {for: 12s}
  nameless: {for: 15s, inject: {node.dns_outage: {target: zone b}}}
  stopped:  {for: 15s, inject: {node.stop: {target: node b-data}}}
  started:  {undo: node.stop, until: {green: true, stable: 5s, within: 90s}}
  returned: {undo: node.dns_outage, until: {green: true, stable: 5s, within: 150s}}
expect:
  - {phase: healthy, read.good: ">= 90%"}
  - {acknowledged.lost: 0}
guards: {cluster.red: 20s, max: 8m}
"""


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    with brought_up() as made:
        yield made


def on(box: Box, folder: Path) -> Path:
    """A target on which a zone may be hit, by helper pods too."""
    file = target(box, folder)
    text = file.read_text().replace("rung: node\n", "rung: zone\n")
    file.write_text(text.replace("\n  forward:", f"\n  helper: {images.HELPER}\n  forward:", 1))
    return file


@pytest.mark.parametrize("every_copy", [False, True], ids=["one copy", "every copy"])
def test_while_a_machine_is_away_writes_go_on_where_they_do_not_want_every_copy(
    box: Box, tmp_path: Path, every_copy: bool
) -> None:
    assert wait_until(lambda: whole(box.api()), 240, every=0.5)
    asked = (ROOT / "experiments" / "kubernetes" / "machine-lost.yaml").read_text()
    asked = asked.replace("{target: zone b}", "{target: zone b, others: [others, shop]}")
    if every_copy:
        made = (ROOT / "topologies" / "3az.yaml").read_text()
        assert EVERY_COPY[0] in made
        (tmp_path / "3az-every-copy.yaml").write_text(
            made.replace("name: 3az\n", "name: 3az-every-copy\n").replace(*EVERY_COPY)
        )
        asked = asked.replace("topology: 3az\n", f"topology: {tmp_path / '3az-every-copy.yaml'}\n")
    (tmp_path / "machine-lost.yaml").write_text(asked)
    code, output = cli("run", tmp_path / "machine-lost.yaml", "--on", on(box, tmp_path), "--out", tmp_path / "run",
                       "--yes", timeout=1200)  # fmt: skip
    print(output)
    assert code in (Exit.PASS, Exit.WEAKNESS, Exit.INCONCLUSIVE) and "clean-up: clean" in output, output
    assert "proven" in output and "not proven" not in output, output
    found = findings(tmp_path / "run")
    reads, writes = counted(found, "read.regained"), counted(found, "write.regained")
    assert reads["lost"] == "pass", found["findings"]
    assert writes["lost"] == ("weakness" if every_copy else "pass"), found["findings"]
    assert wait_until(lambda: whole(box.api()), 300, every=0.5)


def test_a_node_that_starts_while_no_name_is_resolved_stays_out_until_they_are(box: Box, tmp_path: Path) -> None:
    assert wait_until(lambda: whole(box.api()), 240, every=0.5)
    (tmp_path / "starts.yaml").write_text(STARTS)
    code, output = cli("run", tmp_path / "starts.yaml", "--on", on(box, tmp_path), "--out", tmp_path / "run", "--yes",
                       timeout=900)  # fmt: skip
    print(output)
    # its return is the undo of a fault, whose end cannot be proven then: nothing is laid at the cluster's door
    assert code == Exit.INCONCLUSIVE and "clean-up: clean" in output, output
    assert "not proven to be gone (1 of 2 signs of life)" in output, output
    until = {each["phase"]: each for each in findings(tmp_path / "run")["findings"] if each["metric"] == "until"}
    assert until["started"]["bound"] == "more_than" and until["started"]["measured"] >= 90
    assert until["returned"]["bound"] == "exact"
    assert wait_until(lambda: whole(box.api()), 150, every=0.5)
