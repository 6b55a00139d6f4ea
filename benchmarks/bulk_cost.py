"""What bulks cost the load driver: processor time a document, and how well it keeps its schedule on one core.

Against the unit tests' stub, in a process of its own, which answers each bulk at once. Lag is the time from a bulk's
intended moment to its sending. The goal is 5,000 documents a second with a lag of at most 50 ms (99th percentile) on
one core. The stub's own share of a core is shown, and so is the machine's load before: both take processors away.

    python benchmarks/bulk_cost.py [--documents 5000] [--items 500] [--workload documents] [--seconds 10] [--rounds 3]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import beside  # noqa: F401
from driver_ceiling import LAG_MS
from driver_cost import stub_seconds
from load_stub import serving
from rich.console import Console
from rich.table import Table

from chaos.history import History
from chaos.load.config import ClientHost, DriverConfig, OperationConfig, Target
from chaos.load.driver import Driver


def measure(target: Target, workload: str, documents: float, items: int, seconds: float) -> dict[str, float]:
    """Drive bulks of ``items`` documents at ``documents`` a second, and read what the driver recorded of itself."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder)
        (run / "plan.json").write_text("{}")
        config = DriverConfig(
            seed=1,
            out=run / "history",
            workload=workload,
            operations=(OperationConfig(name="write", kind="bulk", rate=documents / items, items=items),),
            clients=(ClientHost(zone="a"),),
            targets=(target,),
        )
        with Driver(config, run / "driver.log") as driver:
            driver.go()
            time.sleep(seconds + 0.5)
        history = History.open(run)
        frame, counts = history.arrivals, history.items.counts()
        own = [event["cpu"] for event in history.driver if event["kind"] == "self"][1:]  # the first has the start
        lag = ((frame.start - frame.intended) / 1e6)[frame.start > 0]
        share = sum(own) / len(own)
        return {
            "cpu": share,
            "us": share / documents * 1e6,
            "lag_p50": float(lag.quantile(0.5)),
            "lag_p99": float(lag.quantile(0.99)),
            "created": counts.get("created", 0) / max(1, len(frame) * items),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=float, default=5000, help="a second")
    parser.add_argument("--items", type=int, default=500, help="documents of a bulk")
    parser.add_argument("--workload", default="documents")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    busy = os.getloadavg()[0]
    table = Table("CPU us/document", "of a core", "lag p50 ms", "p99 ms", f"within {LAG_MS:g} ms", "created", "stub")
    for _ in range(options.rounds):
        with serving() as server:
            before = stub_seconds(server)
            target = Target(node="a-data", zone="a", host=server.host, port=server.port)
            step = measure(target, options.workload, options.documents, options.items, options.seconds)
            stub = (stub_seconds(server) - before) / options.seconds
        table.add_row(
            f"{step['us']:.1f}",
            f"{step['cpu']:.0%}",
            f"{step['lag_p50']:.1f}",
            f"{step['lag_p99']:.1f}",
            "yes" if step["lag_p99"] <= LAG_MS else "no",
            f"{step['created']:.1%}",
            f"{stub:.0%}",
        )
    console = Console(width=120)
    console.print(table)
    console.print(
        f"{options.workload}, {options.documents:g} documents/s in bulks of {options.items}; "
        f"load average before: {busy:.2f} on {os.cpu_count()} cores"
    )


if __name__ == "__main__":
    main()
