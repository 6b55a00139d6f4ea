"""The driver against servers over TLS, one of which shows a certificate that expired."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from load_stub import serving
from unit.targets.labs import test_security

from chaos.base.waiting import wait_until
from chaos.history import History
from chaos.load import drivers
from chaos.load.config import (
    ClientConfig,
    ClientHost,
    DriverConfig,
    HelperConfig,
    OperationConfig,
    ProbeConfig,
    Target,
)
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


@pytest.mark.full
@pytest.mark.parametrize("kind", ["helpers.bulk", "helpers.async_bulk"])
def test_a_helper_speaks_tls_and_tells_a_node_whose_certificate_expired_nothing(
    stale: Path, tmp_path: Path, kind: str
) -> None:
    def pem(node: str, shows: str) -> str:
        files = [stale / security.FOLDER / node / f"{shows}{end}.pem" for end in ("", "-key")]
        (both := tmp_path / f"{node}.pem").write_text("".join(file.read_text() for file in files))
        return str(both)

    outcomes = {}
    for name, shows in (("a-data", security.NODE), ("c-data", security.CLIENTS)):
        (folder := tmp_path / name).mkdir()
        (folder / "plan.json").write_text("{}")
        with serving(pem=pem(name, shows)) as server:
            write = OperationConfig(name="write", kind="bulk", rate=10, items=10, helper=HelperConfig(kind=kind))
            config = DriverConfig(
                seed=1,
                out=folder / "history",
                operations=(write,),
                client=ClientConfig(kind="opensearch-py", timeout_s=2.0),
                clients=(ClientHost(zone="a"),),
                targets=(Target(node=name, zone="a", host=server.host, port=server.port),),
                access=security.access(stale),
            )
            driver = drivers.of(config, folder / "driver.log")
            try:
                driver.start()
                driver.go()
                wait_until(lambda driver=driver: driver.status.get("sent_total", 0) > 5, 20)
                assert driver.stop()
            finally:
                driver.kill()
        frame = History.open(folder).arrivals
        outcomes[name] = set(frame.outcome[frame.attempts > 0])
    assert outcomes == {"a-data": {"ok"}, "c-data": {"refused"}}
