"""What the layer for HTTP costs a request: milliseconds, and processor time of the proxy.

One client with one kept connection asks a small server, on this machine's loopback: directly, through mitmproxy as a
lab starts it, and through HAProxy with rules for status and cut, where one is on PATH. Requests are GETs of 2 KiB and
PUTs of 64 KiB, in turn. Prints and judges nothing.

    python benchmarks/http_layer_cost.py [--requests 1500]
"""

from __future__ import annotations

import argparse
import http.client
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil

from chaos.base.waiting import wait_until
from chaos.definitions import load_topology
from chaos.provision.mitmproxy import VERSION, ensure_mitmproxy
from chaos.targets.labs.http_layer import HttpLayer
from chaos.targets.wiring import LAYER, SERVICE, Wiring

SERVER = """
import sys
from gevent import monkey
monkey.patch_all()
import socket
from gevent.pywsgi import WSGIHandler, WSGIServer
class Handler(WSGIHandler):
    def handle(self):
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().handle()
def answer(environ, start_response):
    environ["wsgi.input"].read()
    body = b"" if environ["REQUEST_METHOD"] == "PUT" else b"x" * 2048
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
WSGIServer((sys.argv[1], int(sys.argv[2])), answer, handler_class=Handler, log=None).serve_forever()
"""
HAPROXY = """
defaults
  mode http
  timeout connect 5s
  timeout client 10m
  timeout server 10m
frontend requests
  bind {address}:{port}
  acl met rand(100) lt 0
  http-request return status 503 if met {{ method PUT }} {{ path_sub /segments/ }}
  http-request reject if met {{ path_sub /translog/ }}
  default_backend server
backend server
  server only {server}:{server_port}
"""
BODY = b"x" * 65536


@contextmanager
def process(command: list[str], address: tuple[str, int], env: dict[str, str]) -> Iterator[psutil.Process]:
    """A process that listens there."""
    began = time.monotonic()
    started = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def listens() -> bool:
        try:
            socket.create_connection(address, 1.0).close()
        except OSError:
            return False
        return True

    try:
        if not wait_until(listens, 60):
            raise SystemExit(f"{command[0]} does not listen at {address[0]}:{address[1]}")
        about = psutil.Process(started.pid)
        spent, held = sum(about.cpu_times()[:2]), about.memory_info().rss / 2**20
        print(f"  listens after {time.monotonic() - began:.1f} s, {spent:.1f} s of processor, {held:.0f} MB")
        yield about
    finally:
        started.kill()
        started.wait()


def measured(name: str, address: tuple[str, int], proxy: psutil.Process | None, number: int) -> None:
    connection = http.client.HTTPConnection(*address, timeout=10)
    times: dict[str, list[float]] = {"GET": [], "PUT": []}
    for warm in (True, False):
        before = sum(proxy.cpu_times()[:2]) if proxy else 0.0
        for n in range(number // 10 if warm else number):
            verb = ("GET", "PUT")[n % 2]
            began = time.perf_counter()
            connection.request(verb, "/store/a/0/other/x", BODY if verb == "PUT" else None)
            connection.getresponse().read()
            if not warm:
                times[verb].append((time.perf_counter() - began) * 1000)
    spent = (sum(proxy.cpu_times()[:2]) - before) / number * 1000 if proxy else 0.0
    for verb, took in times.items():
        took.sort()
        print(
            f"{name:34} {verb}  median {statistics.median(took):6.2f} ms   p99 {took[int(0.99 * len(took))]:6.2f} ms"
            + (f"   processor {spent:5.2f} ms a request" if proxy else "")
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=1500)
    number = parser.parse_args().requests
    folder = Path(tempfile.mkdtemp(prefix="oschaos-http-layer-"))
    plain = Wiring.of_topology("benchmark", load_topology("3az-remote-store-http"))
    hosts = tuple(replace(host, index=host.index + 150, network="127.97.0") for host in plain.hosts)
    wiring = replace(plain, hosts=hosts)
    (folder / "run").mkdir()
    (folder / "logs").mkdir()
    layer = HttpLayer(folder, wiring, "store")
    layer.prepare()
    server = (wiring["store"].loopback, SERVICE)
    entrance = (wiring["store"].bridge_address, LAYER + wiring["a-data"].index)
    print("server")
    with process([sys.executable, "-c", SERVER, server[0], str(server[1])], server, dict(os.environ)):
        measured("direct", server, None, number)
        print(f"mitmproxy {VERSION}")
        with process(layer.command(), entrance, layer.environment(str(ensure_mitmproxy()))) as proxy:
            measured("through mitmproxy, no rule", entrance, proxy, number)
            peers = ["b-data"]
            layer.add({"id": "x", "peers": peers, "share": 0.5, "effect": "cut", "where": "before", "paths": ["*/y/*"]})
            measured("through mitmproxy, a rule not met", entrance, proxy, number)
        if (haproxy := shutil.which("haproxy")) is None:
            print("HAProxy is not on PATH: apt install haproxy")
        else:
            print(subprocess.run([haproxy, "-v"], capture_output=True, text=True, check=True).stdout.splitlines()[0])
            file = folder / "haproxy.cfg"
            file.write_text(HAPROXY.format(address=entrance[0], port=25000, server=server[0], server_port=server[1]))
            with process([haproxy, "-db", "-f", str(file)], (entrance[0], 25000), dict(os.environ)) as proxy:
                measured("through HAProxy", (entrance[0], 25000), proxy, number)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
