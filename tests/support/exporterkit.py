"""A stand-in for the exporter plugin of OpenSearch and for the exporter of Elasticsearch: what they would say of a lab.

A few of their metrics under their names, made of ``_cluster/health`` and ``_nodes/stats`` at each scrape. The plugin
itself runs inside OpenSearch and is not to be had here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

STATUS = {"green": 0, "yellow": 1, "red": 2}


class Asks(Protocol):
    def request(self, method: str, path: str) -> tuple[int, Any]: ...


def page(health: Mapping[str, Any], stats: Mapping[str, Any]) -> str:
    """The page of metrics that these two answers come to."""
    return "".join(f"{name}{{{_labels(labels)}}} {value}\n" for name, labels, value in _metrics(health, stats))


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{value}"' for name, value in labels.items())


def _metrics(health: Mapping[str, Any], stats: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str], float]]:
    cluster = {"cluster": str(health["cluster_name"])}
    yield "opensearch_cluster_status", cluster, STATUS[health["status"]]
    yield "opensearch_cluster_shards_active_percent", cluster, health["active_shards_percent_as_number"]
    yield "opensearch_cluster_pending_tasks_number", cluster, health["number_of_pending_tasks"]
    for identity, node in stats["nodes"].items():
        of = {**cluster, "node": str(node["name"]), "nodeid": str(identity)}
        yield "opensearch_jvm_mem_heap_used_percent", of, node["jvm"]["mem"]["heap_used_percent"]
        yield "opensearch_process_cpu_percent", of, node["process"]["cpu"]["percent"]
        for disk in node["fs"]["data"]:
            path = {**of, "path": str(disk["path"])}
            for exporter in ("opensearch_fs_path_{}_bytes", "elasticsearch_filesystem_data_{}_bytes"):
                size = "total" if exporter.startswith("opensearch") else "size"
                yield exporter.format("available"), path, disk["available_in_bytes"]
                yield exporter.format(size), path, disk["total_in_bytes"]


@contextmanager
def exporting(client: Callable[[], Asks]) -> Iterator[int]:
    """Its port on loopback; ``client``: of a node. Where the cluster does not answer, a scrape fails."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                asks = client()
                _, health = asks.request("GET", "/_cluster/health")
                _, stats = asks.request("GET", "/_nodes/stats/fs,jvm,process?timeout=1s")
                status, body = 200, page(health, stats).encode()
            except Exception as error:  # whatever it is, there are no metrics
                status, body = 503, f"{type(error).__name__}\n".encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
