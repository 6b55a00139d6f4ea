"""How much load one driver process can be trusted with on this machine.

Ramps the arrival rate against a stub that answers at once (the one of the unit tests) or, with ``--url``,
against a real cluster's node, and prints for each step what decides the driver's validity: schedule lag,
drops and CPU. The ceiling is the highest rate up to which all three hold: lag p99 <= 50 ms, drops <= 0.1 %,
CPU <= 85 % of a core.

    python benchmarks/driver_ceiling.py [--rates 200,400,800,1600] [--seconds 5] [--clients 2] [--url http://…]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import beside  # noqa: F401
from load_stub import serving
from rich.console import Console
from rich.table import Table

from chaos.history import History
from chaos.load.config import ClientConfig, ClientHost, DriverConfig, OperationConfig, Target
from chaos.load.driver import Driver

LAG_MS, DROPS, CPU = 50.0, 0.001, 0.85


def measure(rate: float, seconds: float, clients: int, targets: tuple[Target, ...]) -> dict[str, float]:
    """Drive ``rate`` arrivals per second, half reads and half writes, and judge the driver by its record."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder)
        (run / "plan.json").write_text("{}")
        config = DriverConfig(
            seed=1,
            out=run / "history",
            operations=(
                OperationConfig(name="read", kind="search", rate=rate / 2),
                OperationConfig(name="write", kind="index", rate=rate / 2),
            ),
            client=ClientConfig(),
            clients=tuple(ClientHost(zone=zone) for zone in "abcdef"[:clients]),
            targets=targets,
        )
        with Driver(config, run / "driver.log") as driver:
            driver.go()
            time.sleep(seconds + 0.5)
        history = History.open(run)
        frame = history.arrivals
        own = [event["cpu"] for event in history.driver if event["kind"] == "self"][1:]  # the first has the start
        sent = frame[frame.outcome != "dropped"]
        lag = (sent.start - sent.intended) / 1e6
        share = sum(own) / len(own)
        return {
            "rate": rate,
            "lag_p50_ms": float(lag.quantile(0.5)),
            "lag_p99_ms": float(lag.quantile(0.99)),
            "lag_max_ms": float(lag.max()),
            "latency_p50_ms": float(sent.latency_ms.quantile(0.5)),
            "cpu": share,
            "cpu_us_per_request": share / rate * 1e6,
            "dropped": float((frame.outcome == "dropped").mean()),
            "ok": float((frame.outcome == "ok").mean()),
        }


def valid(step: dict[str, float]) -> bool:
    return step["lag_p99_ms"] <= LAG_MS and step["dropped"] <= DROPS and step["cpu"] <= CPU


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rates", default="200,400,800,1600", help="arrivals per second, comma-separated")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--clients", type=int, default=2, help="client hosts")
    parser.add_argument("--url", help="a real node instead of the stub; its index `chaos` must exist")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    options = parser.parse_args()
    busy = os.getloadavg()[0]
    table = Table("req/s", "lag p50 ms", "lag p99 ms", "latency p50 ms", "CPU", "µs/request", "dropped", "ok", "valid")
    steps = []
    with ExitStack() as stack:
        if options.url:
            url = urlsplit(options.url)
            host, port = url.hostname or "localhost", url.port or 9200
        else:
            server = stack.enter_context(serving())
            host, port = server.host, server.port
        targets = tuple(Target(node=f"{zone}-data", zone=zone, host=host, port=port) for zone in "ab")
        for rate in map(float, options.rates.split(",")):
            step = measure(rate, options.seconds, options.clients, targets)
            steps.append(step)
            table.add_row(
                f"{rate:.0f}",
                f"{step['lag_p50_ms']:.2f}",
                f"{step['lag_p99_ms']:.1f}",
                f"{step['latency_p50_ms']:.2f}",
                f"{step['cpu']:.0%}",
                f"{step['cpu_us_per_request']:.0f}",
                f"{step['dropped']:.2%}",
                f"{step['ok']:.2%}",
                "yes" if valid(step) else "no",
            )
            if not valid(step):
                break
    console = Console()
    console.print(table)
    console.print(f"load average before: {busy:.2f} on {os.cpu_count()} cores")
    ceiling = max((step["rate"] for step in steps if valid(step)), default=None)
    console.print(f"valid up to {ceiling:.0f} requests/s" if ceiling else "not valid at any of these rates")
    if options.json:
        options.json.write_text(json.dumps({"steps": steps, "ceiling": ceiling}, indent=1))


if __name__ == "__main__":
    main()
