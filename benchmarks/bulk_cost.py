"""What bulks cost the load driver: processor time a document, and how well it keeps its schedule on one core.

Against the unit tests' stub, in a process of its own, which answers each bulk at once. Lag is the time from a bulk's
intended moment to its sending. The goal is 5,000 documents a second with a lag of at most 50 ms (99th percentile) on
one core. The stub's own share of a core is shown, and so is the machine's load before: both take processors away.
``--processes``: so many share the load; a document then costs what all take, and share of a core and lag are those of
the worst. ``--helper``: each bulk is one call of a helper of opensearch-py, ``--compress``: with gzip.

    python benchmarks/bulk_cost.py [--documents 5000] [--items 500] [--workload documents] [--seconds 10] [--rounds 3]
        [--processes 1] [--helper helpers.bulk] [--compress]
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
from chaos.load import drivers
from chaos.load.config import ClientConfig, ClientHost, DriverConfig, HelperConfig, OperationConfig, Target


def measure(
    target: Target,
    workload: str,
    documents: float,
    items: int,
    seconds: float,
    *,
    processes: int = 1,
    helper: str | None = None,
    compress: bool = False,
) -> dict[str, float]:
    """Drive bulks of ``items`` documents at ``documents`` a second, and read what the driver recorded of itself."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder)
        (run / "plan.json").write_text("{}")
        config = DriverConfig(
            seed=1,
            out=run / "history",
            workload=workload,
            operations=(
                OperationConfig(
                    name="write",
                    kind="bulk",
                    rate=documents / items,
                    items=items,
                    helper=HelperConfig(kind=helper, chunk_size=items) if helper is not None else None,
                ),
            ),
            client=ClientConfig(kind="opensearch-py" if helper is not None else "load-balancer", compress=compress),
            clients=(ClientHost(zone="a"),),
            targets=(target,),
            processes=processes,
        )
        driver = drivers.of(config, run / "driver.log")
        try:
            driver.start()
            driver.go()
            time.sleep(seconds + 0.5)
            driver.stop()
        finally:
            driver.kill()
        history = History.open(run)
        frame, counts = history.arrivals, history.items.counts()
        said = [event for event in history.driver if event["kind"] == "self"]
        of_each = [[e["cpu"] for e in said if e.get("process", 0) == n][1:] for n in range(history.processes)]
        shares = [sum(own) / len(own) for own in of_each]  # without the first, which has the start
        sent = frame[frame.start > 0]
        lag = ((sent.start - sent.intended) / 1e6).groupby(sent.k % history.processes)
        return {
            "cpu": max(shares),
            "us": sum(shares) / documents * 1e6,
            "lag_p50": float(lag.quantile(0.5).max()),
            "lag_p99": float(lag.quantile(0.99).max()),
            "created": counts.get("created", 0) / max(1, len(frame) * items),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=float, default=5000, help="a second")
    parser.add_argument("--items", type=int, default=500, help="documents of a bulk")
    parser.add_argument("--workload", default="documents")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=1, help="that share the load")
    parser.add_argument("--helper", help="of opensearch-py, for example helpers.bulk")
    parser.add_argument("--compress", action="store_true", help="with gzip")
    options = parser.parse_args()
    busy = os.getloadavg()[0]
    table = Table("CPU us/document", "of a core", "lag p50 ms", "p99 ms", f"within {LAG_MS:g} ms", "created", "stub")
    for _ in range(options.rounds):
        with serving() as server:
            before = stub_seconds(server)
            target = Target(node="a-data", zone="a", host=server.host, port=server.port)
            step = measure(
                target,
                options.workload,
                options.documents,
                options.items,
                options.seconds,
                processes=options.processes,
                helper=options.helper,
                compress=options.compress,
            )
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
        f"{options.workload}, {options.documents:g} documents/s in bulks of {options.items}"
        f"{f' by {options.processes} processes' if options.processes > 1 else ''}"
        f"{f', each a call of {options.helper}' if options.helper else ''}"
        f"{', compressed' if options.compress else ''}; "
        f"load average before: {busy:.2f} on {os.cpu_count()} cores"
    )


if __name__ == "__main__":
    main()
