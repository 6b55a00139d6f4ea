"""An experiment in Python: the fixtures `lab` and `load`, a fault as a context manager, plain asserts on phases."""

from pathlib import Path

import pytest

TINY = str(Path(__file__).parents[1] / "cluster" / "data" / "tiny.yaml")


@pytest.mark.chaos
@pytest.mark.topology(TINY)
def test_writes_wait_for_the_slow_zone(lab, load):
    with load(read="50/s", write="50/s", good="500ms") as running:
        with running.phase("healthy"):
            running.hold("3s")
        with lab.fault("network.latency", links="around zone c", delay="1500ms"), running.phase("slow"):
            running.hold("8s")
    slow = running.phases["slow"]
    assert slow.write.scheduled >= 350
    assert slow.write.good < 0.10
    assert slow.write.latency(0.5) > 1.5
    assert running.readback["lost_count"] == 0
