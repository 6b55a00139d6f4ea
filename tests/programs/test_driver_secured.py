"""The driver against servers over TLS, one of which shows a certificate that expired."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from load_stub import serving
from unit.targets.labs import test_security

from chaos.history import History
from chaos.load.config import ClientConfig, ClientHost, DriverConfig, OperationConfig, ProbeConfig, Target
from chaos.load.driver import Driver
from chaos.targets import security

stale = test_security.stale  # a fixture


@pytest.mark.parametrize("verify", [True, False])
def test_health_checks_that_take_any_certificate_lead_clients_to_a_node_that_they_do_not_speak_to(
    stale: Path, tmp_path: Path, verify: bool
) -> None:
    def pem(node: str, shows: str) -> str:
        files = [stale / security.FOLDER / node / f"{shows}{end}.pem" for end in ("", "-key")]
        (both := tmp_path / f"{node}.pem").write_text("".join(file.read_text() for file in files))
        return str(both)

    (tmp_path / "plan.json").write_text("{}")
    probe = ProbeConfig(interval_s=0.2, timeout_s=2.0, verify=verify)
    with serving(pem=pem("a-data", security.NODE)) as good, serving(pem=pem("c-data", security.CLIENTS)) as bad:
        config = DriverConfig(
            seed=1,
            out=tmp_path / "history",
            operations=(OperationConfig(name="write", kind="index", rate=50),),
            client=ClientConfig(probe=probe),
            clients=(ClientHost(zone="a"),),
            targets=tuple(
                Target(node=f"{zone}-data", zone=zone, host=server.host, port=server.port)
                for zone, server in (("a", good), ("c", bad))
            ),
            access=security.access(stale),
        )
        with Driver(config, tmp_path / "driver.log") as driver:
            driver.go()
            time.sleep(1.5)
    frame = History.open(tmp_path).arrivals
    assert len(frame) > 40
    assert set(zip(frame.node, frame.outcome, strict=True)) == {("a-data", "ok")} | (
        set() if verify else {("c-data", "refused")}
    )
    if verify:
        events = [each for each in History.open(tmp_path).driver if each["kind"] == "balancer"]
        assert [each["node"] for each in events if "certificate has expired" in each["says"]] == ["c-data"]
