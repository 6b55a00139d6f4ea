"""A real Prometheus on loopback, which scrapes an exporter of ours every second."""

from __future__ import annotations

import math
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from chaos.definitions.experiment import Experiment
from chaos.definitions.slis import Sli
from chaos.opensearch.prometheus import Asker
from chaos.registry import load_experiment
from chaos.targets.labs.processes import wait_until

PROMETHEUS = shutil.which("prometheus")
needed = pytest.mark.skipif(
    PROMETHEUS is None, reason="no Prometheus is installed on this machine: apt-get install prometheus"
)
"""Of tests that ask a real one."""
PATIENCE = 60.0
PROMTOOL = shutil.which("promtool")
ALERTMANAGER = shutil.which("prometheus-alertmanager")
alertmanager_needed = pytest.mark.skipif(
    ALERTMANAGER is None,
    reason="no Alertmanager is installed on this machine: apt-get install prometheus-alertmanager",
)


def stand_still(pid: int) -> None:
    """SIGSTOP, and wait until all of its threads have stopped: until then one may still answer."""
    os.kill(pid, signal.SIGSTOP)

    def stopped() -> bool:
        states = [task.read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").glob("*/stat")]
        return bool(states) and set(states) == {"T"}

    assert wait_until(stopped, PATIENCE, every=0.01)


CONFIGURATION = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
scrape_configs: [{{job_name: checkout, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]
"""
RULES = """\
groups: [{name: ours, rules: [{alert: CheckoutErrors, expr: checkout_errors_ratio > 0.01, labels: {severity: page}}]}]
"""
TOLD = """\
rule_files: [rules.yml]
alerting: {{alertmanagers: [{{static_configs: [{{targets: [{}]}}]}}]}}
"""
FRESH = "time() - max(timestamp(checkout_errors_ratio))"
EXPERIMENT = """\
apiVersion: opensearch-chaos/v1
name: with-slis
topology: 3az-standby
load: {{read: {{rate: 10/s, good: ok within 1s}}}}
slis:
  checkout_errors: {{prometheus: '{url}', query: checkout_errors_ratio, every: 1s, oldest: 5s{more}}}
  kept: {{prometheus: '{url}', query: 'last_over_time(checkout_errors_ratio[10m])', every: 1s, oldest: 5s{more}}}
phases: {{healthy: {{for: 30s}}}}
expect: [{{sli.checkout_errors.max: "< 1%"}}, {{sli.kept.max: "< 1%"}}]
"""


@dataclass
class Exporter:
    """A page of metrics with one gauge, until it is shut."""

    ratio: float = 0.001
    server: ThreadingHTTPServer = field(init=False)

    def __post_init__(self) -> None:
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = f"checkout_errors_ratio {exporter.ratio}\ncheckout_requests 1\n".encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, *_: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = int(self.server.server_address[1])
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self._thread.start()

    def shut(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@dataclass
class Monitoring:
    exporter: Exporter
    url: str
    process: subprocess.Popen[bytes]

    def experiment(self, folder: Path, *, fresh: bool = True) -> Experiment:
        file = folder / "with-slis.yaml"
        more = f", fresh: '{FRESH}'" if fresh else ""
        file.write_text(EXPERIMENT.format(url=self.url, more=more))
        return load_experiment(file)

    def sli(self, query: str, **more: Any) -> Sli:
        return Sli.model_validate({"prometheus": self.url, "query": query, "every": "5s", "fresh": "0"} | more)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


PROMTOOL = shutil.which("promtool")


@contextmanager
def stored(folder: Path, metrics: Path) -> Iterator[str]:
    """A Prometheus that scrapes nothing and has what a file of time-stamped metrics holds; its address."""
    port = free_port()
    _take(folder, metrics)
    with started(folder, port, "--storage.tsdb.retention.time=50y"):
        yield f"http://127.0.0.1:{port}"


def _take(folder: Path, metrics: Path) -> None:
    """Make the folder that of a Prometheus which scrapes nothing, with blocks of what a file of metrics holds."""
    command = [str(PROMTOOL), "tsdb", "create-blocks-from", "openmetrics", str(metrics), str(folder / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (folder / "prometheus.yml").write_text("global: {}\n")


@contextmanager
def alertmanager(folder: Path) -> Iterator[str]:
    """An Alertmanager that tells nobody; its address."""
    port = free_port()
    (folder / "alertmanager.yml").write_text("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n")
    command = [
        str(ALERTMANAGER),
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    with open(folder / "alertmanager.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@contextmanager
def monitored(folder: Path, *, tells: str | None = None) -> Iterator[Monitoring]:
    """With one rule, CheckoutErrors; ``tells``: the Alertmanager that is told of its alerts."""
    exporter, port = Exporter(), free_port()
    (folder / "rules.yml").write_text(RULES)
    told = TOLD.format("" if tells is None else repr(tells.removeprefix("http://")))
    (folder / "prometheus.yml").write_text(CONFIGURATION.format(port=exporter.port) + told)
    try:
        with started(folder, port) as process:
            made = Monitoring(exporter, f"http://127.0.0.1:{port}", process)
            asker = Asker(made.sli("checkout_errors_ratio"), folder)
            assert wait_until(lambda: asker.ask().value is not None, PATIENCE, every=0.5), (
                folder / "prometheus.log"
            ).read_text()[-2000:]
            asker.close()
            yield made
    finally:
        exporter.shut()


@dataclass
class Backfilled:
    """A Prometheus that scrapes nothing: what it knows was there before it began."""

    url: str
    began: float
    """Epoch seconds: the moment that ages of samples count from."""


@contextmanager
def backfilled(
    folder: Path, series: Mapping[str, Callable[[float], float]], *, back: float, on: float, every: float
) -> Iterator[Backfilled]:
    """With these series, each given as its value by a sample's age (s), NaN where there is none; samples reach from
    ``back`` seconds before now to ``on`` seconds after it, one each ``every`` seconds."""
    now, port = time.time(), free_port()
    ages = [back - every * n for n in range(int((back + on) / every) + 1)]
    pages = [
        f"{name} {value} {now - age:.3f}"
        for name, make in sorted(series.items())
        for age in ages
        if not math.isnan(value := make(age))
    ]
    (folder / "series.om").write_text("\n".join([*pages, "# EOF", ""]))
    _take(folder, folder / "series.om")
    with started(folder, port) as process:
        assert process.poll() is None
        yield Backfilled(f"http://127.0.0.1:{port}", now)


@contextmanager
def started(folder: Path, port: int, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Prometheus with the folder's prometheus.yml, once it is ready; killed at the end, also where it is stopped."""
    command = [
        str(PROMETHEUS),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        *options,
    ]
    with open(folder / "prometheus.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        assert wait_until(lambda: _ready(port), PATIENCE, every=0.1), (folder / "prometheus.log").read_text()[-2000:]
        yield process
    finally:
        process.kill()
        process.wait()


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
