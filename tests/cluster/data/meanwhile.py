"""What somebody else does to a cluster while a phase waits: an index that no node may hold, for eight seconds, and one
that is blocked for six. ``python meanwhile.py`` finds the nodes in its environment, as every command of a run does."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from typing import Any

RED_SECONDS, BLOCKED_SECONDS = 8, 6
NOWHERE = {"index.routing.allocation.require._name": "no-such-node"}


def ask(method: str, path: str, body: Any = None) -> None:
    url = next(iter(json.loads(os.environ["OPENSEARCH_CHAOS_NODES"]).values()))
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        print(method, path, answer.status, flush=True)


def main() -> None:
    ask("PUT", "/kept?wait_for_active_shards=all", {"settings": {"number_of_shards": 1, "number_of_replicas": 2}})
    ask("PUT", "/homeless?wait_for_active_shards=0", {"settings": {"number_of_replicas": 0, **NOWHERE}})
    ask("PUT", "/kept/_settings", {"index.blocks.write": True})
    time.sleep(BLOCKED_SECONDS)
    ask("PUT", "/kept/_settings", {"index.blocks.write": None})
    time.sleep(RED_SECONDS - BLOCKED_SECONDS)
    ask("DELETE", "/homeless,kept")


if __name__ == "__main__":
    main()
