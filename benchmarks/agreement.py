"""Does our driver see the same outage as an independent open-loop load generator? Both against one frozen server.

For 30 s our driver and k6 (executor `constant-arrival-rate`) drive the same stub (a process of its own) at the same
rate with the same timeout, at the same time; for 5 of these seconds it is frozen (SIGSTOP). Printed for both: the share
answered in full within the timeout, and the share good (within 100 ms of sending: k6 does not tell an iteration's
intended time), of all scheduled arrivals; their difference in percentage points (goal: at most 0.2); and what
arithmetic says. Of arrivals at a constant rate, those of the first F - w of F frozen seconds wait for longer than w:

    share within w = 1 - (F - w) / 30        w: the timeout, or 100 ms.

A closed loop with a few users would miss nearly all of it. The arithmetic leaves out that a thawed server first works
through what has piled up. The third line is what our reports call good: from the intended time, so that a driver that
is itself late (a busy machine) shows.

k6 is found on PATH or in the cache, else built there once from its Go module (needs Go 1.24 or newer, about a minute).

    python benchmarks/agreement.py [--rate 80] [--timeout 1] [--rounds 3] [--k6 PATH]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import beside  # noqa: F401
import pandas as pd
from load_stub import Server, serving
from rich.console import Console
from rich.table import Table

from chaos.base import paths
from chaos.history import History
from chaos.load.config import ClientConfig, ClientHost, DriverConfig, OperationConfig, Target
from chaos.load.driver import Driver
from chaos.provision.toxiproxy import find_go

K6 = "1.8.1"
MODULE = f"go.k6.io/k6@v{K6}"
SECONDS, FROZEN, FREEZE_AT = 30.0, 5.0, 12.0
GOOD = 0.1
GOAL = 0.2

SCRIPT = """
import http from "k6/http";
import { Counter } from "k6/metrics";

const answered = new Counter("answered");
const good = new Counter("good");
const rate = Number(__ENV.RATE), timeout = Number(__ENV.TIMEOUT);

export const options = {
  discardResponseBodies: false,
  scenarios: { open: {
    executor: "constant-arrival-rate", rate: rate, timeUnit: "1s", duration: `${__ENV.SECONDS}s`,
    preAllocatedVUs: Math.ceil(rate * (timeout + 1)), gracefulStop: "20s",
  } },
};

export default function () {
  const began = Date.now();
  const answer = http.post(__ENV.URL, "{}", {
    headers: { "content-type": "application/json" }, timeout: `${timeout * 1000}ms`,
  });
  if (answer.status === 200 && answer.json("_shards.failed") === 0 && answer.json("timed_out") === false) {
    answered.add(1);
    if (Date.now() - began <= Number(__ENV.GOOD) * 1000) good.add(1);
  }
}

export function handleSummary(data) {
  const count = (name) => (data.metrics[name] ? data.metrics[name].values.count : 0);
  return { stdout: JSON.stringify({
    done: count("iterations"), dropped: count("dropped_iterations"), answered: count("answered"), good: count("good"),
  }) };
}
"""


@dataclass(frozen=True)
class Seen:
    """What one tool saw: arrivals, and shares of them. ``users``: good from the intended time, which k6 cannot tell."""

    scheduled: int
    answered: float
    good: float
    users: float | None = None


def ours(server: Server, rate: int, timeout: float) -> Seen:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder)
        (run / "plan.json").write_text("{}")
        config = DriverConfig(
            seed=1,
            out=run / "history",
            operations=(OperationConfig(name="read", kind="search", rate=rate),),
            client=ClientConfig(kind="pinned", node="stub", timeout_s=timeout),
            clients=(ClientHost(zone="a"),),
            targets=(Target(node="stub", zone="a", host=server.host, port=server.port),),
        )
        with Driver(config, run / "driver.log") as driver:
            driver.go()
            time.sleep(SECONDS + 0.5)
        frame: pd.DataFrame = History.open(run).arrivals
        frame = frame[frame.intended < frame.intended.min() + SECONDS * 1e9]
        ok = frame.outcome == "ok"
        good, users = (ok & (frame.end - since <= GOOD * 1e9) for since in (frame.start, frame.intended))
        return Seen(len(frame), ok.mean(), good.mean(), users.mean())


def k6(program: Path, server: Server, rate: int, timeout: float) -> Seen:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "open.js")
        script.write_text(SCRIPT)
        given = {"RATE": rate, "TIMEOUT": timeout, "SECONDS": int(SECONDS), "GOOD": GOOD}
        given["URL"] = f"http://{server.host}:{server.port}/chaos/_search"
        quiet = {"K6_NO_USAGE_REPORT": "true", "K6_AUTO_EXTENSION_RESOLUTION": "false"}
        environment = os.environ | quiet | {name: str(value) for name, value in given.items()}
        command = [str(program), "run", "--quiet", "--log-output=none", str(script)]
        done = subprocess.run(command, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
        counted = json.loads(done.stdout[done.stdout.index("{") :])
        scheduled = counted["done"] + counted["dropped"]
        return Seen(scheduled, counted["answered"] / scheduled, counted["good"] / scheduled)


def both(program: Path, rate: int, timeout: float) -> tuple[Seen, Seen, float]:
    """What both saw of one server at the same time, and for how many seconds it was frozen."""
    with serving() as server, ThreadPoolExecutor() as threads:
        mine = threads.submit(ours, server, rate, timeout)
        other = threads.submit(k6, program, server, rate, timeout)
        time.sleep(FREEZE_AT)
        server.freeze()
        began = time.monotonic()
        time.sleep(FROZEN)
        server.thaw()
        frozen = time.monotonic() - began
        return mine.result(), other.result(), frozen


def find_k6() -> Path:
    """On PATH, in the cache, or built into it. Ends the program with one line when it cannot be had."""
    if on_path := shutil.which("k6"):
        return Path(on_path)
    target = paths.cache() / "k6" / K6 / "k6"
    if target.is_file():
        return target
    remedy = f"put k6 {K6} on PATH: `go install {MODULE}` with Go 1.24 or newer, or name it with --k6"
    go = find_go()
    if go is None:
        raise SystemExit(f"k6 is not here, and neither is Go to build it: {remedy}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        environment = os.environ | {
            "GOPATH": f"{scratch}/path",
            "GOCACHE": f"{scratch}/cache",
            "GOFLAGS": "-modcacherw",
        }
        environment["GOBIN"] = scratch
        print(f"building k6 {K6} with {go}, once", flush=True)
        built = subprocess.run(
            [str(go), "install", MODULE], env=environment, cwd=scratch, capture_output=True, text=True
        )
        if built.returncode:
            last = (built.stderr.strip().splitlines() or ["go said nothing"])[-1]
            raise SystemExit(f"k6 could not be built ({last}): {remedy}")
        Path(scratch, "k6").replace(target)
    return target


def truth(frozen: float, within: float) -> float:
    """The share answered within so many seconds of a constant rate, with the server frozen for ``frozen`` seconds."""
    return 1 - max(0.0, frozen - within) / SECONDS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=80, help="of each; more than 100 overflow the backlog")
    parser.add_argument("--timeout", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--k6", type=Path, help="the program to compare with")
    options = parser.parse_args()
    program = options.k6 or find_k6()
    table = Table("share of arrivals", "round", "our driver", "k6", "difference, points", "arithmetic")
    worst = 0.0
    for number in range(1, options.rounds + 1):
        us, it, frozen = both(program, options.rate, options.timeout)
        for what, our, their, within in (
            (f"answered within {options.timeout:g} s", us.answered, it.answered, options.timeout),
            (f"good, within {GOOD:g} s of sending", us.good, it.good, GOOD),
        ):
            difference = (our - their) * 100
            worst = max(worst, abs(difference))
            true = f"{truth(frozen, within):.3%}"
            table.add_row(what, f"{number}", f"{our:.3%}", f"{their:.3%}", f"{difference:+.3f}", true)
        table.add_row(f"good, within {GOOD:g} s of the intended time", f"{number}", f"{us.users:.3%}", "", "", true)
        print(f"round {number}: {us.scheduled} arrivals of ours, {it.scheduled} of k6", flush=True)
    console = Console(width=120)
    console.print(table)
    agree = "agree" if worst <= GOAL else "do not agree"
    console.print(
        f"{options.rate}/s each, frozen for {FROZEN:g} of {SECONDS:g} s; load average {os.getloadavg()[0]:.2f}"
    )
    console.print(f"largest difference {worst:.3f} points, goal {GOAL}: they {agree}")


if __name__ == "__main__":
    main()
