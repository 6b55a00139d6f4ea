"""What taking the pulse costs: the driver's processor time with and without it, in turn, and that of the Toxiproxies.

Nine real Toxiproxies (as many as a lab of three zones and six nodes has) are asked beside a load against a stub that
answers at once; each round measures the driver without instruments and with them.

    python benchmarks/pulse_cost.py [--rate 100] [--seconds 20] [--rounds 3] [--toxiproxies 9]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import beside  # noqa: F401
import psutil
from load_stub import Server, serving
from rich.console import Console
from rich.table import Table

from chaos.base.netsock import Endpoint
from chaos.history import History
from chaos.load.config import ClientConfig, ClientHost, DriverConfig, Instrument, OperationConfig, Target
from chaos.load.driver import Driver
from chaos.provision.toxiproxy import ensure_toxiproxy
from chaos.targets.labs.processes import wait_until

FIRST_PORT = 18_474


@contextmanager
def toxiproxies(number: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Running Toxiproxies on the loopback, their APIs on consecutive ports from FIRST_PORT on."""
    program = ensure_toxiproxy().path
    started = []
    try:
        for port in range(FIRST_PORT, FIRST_PORT + number):
            command = [str(program), "-host", "127.0.0.1", "-port", str(port)]
            quiet = {"LOG_LEVEL": "warn", "PATH": "/usr/bin:/bin"}
            started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=quiet))
            wait_until(lambda port=port: listens(port), 10)
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def listens(port: int) -> bool:
    try:
        Endpoint("127.0.0.1", port).connect(1.0).close()
    except OSError:
        return False
    return True


def measure(server: Server, rate: float, seconds: float, instruments: tuple[Instrument, ...]) -> tuple[float, float]:
    """(Driver's share of a core, microseconds of it for each request)."""
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
            clients=(ClientHost(zone="a"), ClientHost(zone="b")),
            targets=(Target(node="a-data", zone="a", host=server.host, port=server.port),),
            instruments=instruments,
        )
        with Driver(config, run / "driver.log") as driver:
            driver.go()
            time.sleep(seconds + 0.5)
        used = [event["cpu"] for event in History.open(run).driver if event["kind"] == "self"][1:]
        share = sum(used) / len(used)
        return share, share / rate * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=100.0, help="requests per second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--toxiproxies", type=int, default=9)
    options = parser.parse_args()
    busy = os.getloadavg()[0]
    asked = tuple(
        Instrument(name=f"host-{n}", host="127.0.0.1", port=FIRST_PORT + n) for n in range(options.toxiproxies)
    )
    table = Table("round", "driver without", "with", "taking the pulse", "us/request without", "with", "Toxiproxies")
    extra, theirs = [], []
    with serving() as server, toxiproxies(options.toxiproxies) as started:
        for number in range(1, options.rounds + 1):
            without, each = measure(server, options.rate, options.seconds, ())
            before = sum(sum(psutil.Process(process.pid).cpu_times()[:2]) for process in started)
            with_, each_with = measure(server, options.rate, options.seconds, asked)
            after = sum(sum(psutil.Process(process.pid).cpu_times()[:2]) for process in started)
            extra.append(with_ - without)
            theirs.append((after - before) / options.seconds)
            shares = [f"{share:.2%}" for share in (without, with_, extra[-1])]
            table.add_row(f"{number}", *shares, f"{each:.0f}", f"{each_with:.0f}", f"{theirs[-1]:.2%}")
    console = Console(width=120)
    console.print(table)
    console.print(f"median: {statistics.median(extra):.2%} and {statistics.median(theirs):.2%} of a core")
    console.print(f"load average before: {busy:.2f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
