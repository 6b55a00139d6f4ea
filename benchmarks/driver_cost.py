"""What the load driver costs, and how well it keeps its schedule: processor time per request, lag at two rates.

Against a stub that answers at once, in a process of its own (that of the unit tests). Lag is the time from an arrival's
intended moment to its sending. The stub's own share of a core is shown, so that it can be seen that not the stub was
measured. Several rounds, because one burst of something else on the machine decides a maximum.

    python benchmarks/driver_cost.py [--rates 500,1000] [--seconds 10] [--rounds 3]
"""

from __future__ import annotations

import argparse
import os

import beside  # noqa: F401
import psutil
from driver_ceiling import measure, valid
from load_stub import Server, serving
from rich.console import Console
from rich.table import Table

from chaos.load.config import Target


def stub_seconds(server: Server) -> float:
    """Processor seconds that the stub has used."""
    times = psutil.Process(server.process.pid).cpu_times()
    return float(times.user + times.system)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", default="500,1000", help="requests per second, comma-separated")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=2, help="client hosts")
    options = parser.parse_args()
    busy = os.getloadavg()[0]
    columns = (
        "req/s",
        "CPU us/request",
        "of a core",
        "lag p50 ms",
        "p99 ms",
        "max ms",
        "dropped",
        "ok",
        "stub",
        "valid",
    )
    table = Table(*columns)
    for rate in map(float, options.rates.split(",")):
        for _ in range(options.rounds):
            with serving() as server:
                targets = tuple(
                    Target(node=f"{zone}-data", zone=zone, host=server.host, port=server.port) for zone in "ab"
                )
                before = stub_seconds(server)
                step = measure(rate, options.seconds, options.clients, targets)
                stub = (stub_seconds(server) - before) / options.seconds
            table.add_row(
                f"{rate:.0f}",
                f"{step['cpu_us_per_request']:.0f}",
                f"{step['cpu']:.0%}",
                f"{step['lag_p50_ms']:.2f}",
                f"{step['lag_p99_ms']:.1f}",
                f"{step['lag_max_ms']:.1f}",
                f"{step['dropped']:.2%}",
                f"{step['ok']:.2%}",
                f"{stub:.0%}",
                "yes" if valid(step) else "no",
            )
    console = Console(width=120)
    console.print(table)
    console.print(f"load average before: {busy:.2f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
