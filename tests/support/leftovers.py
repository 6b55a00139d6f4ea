"""What operators leave behind, planted all at once on a cluster of ours, and the rows of the audit that must say so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Do = Callable[..., Any]
"""``do(method, path, body)`` → the decoded answer; raises where the request is refused."""

ONE = {"number_of_shards": 1, "number_of_replicas": 1}
INDICES: Mapping[str, Mapping[str, Any]] = {
    "flooded": {"blocks.read_only_allow_delete": True},
    "frozen-writes": {"blocks.write": True},
    "async": {"translog.durability": "async"},
    "hasty": {"unassigned.node_left.delayed_timeout": 0},
    "cramped": {"number_of_shards": 3, "routing.allocation.total_shards_per_node": 2},
    "bound": {"routing.allocation.require._name": "a-data"},
    "warm": {"routing.allocation.require.temp": "warm"},
    "segments": {"replication.type": "SEGMENT"},
    "shut": {},
}
BROKEN = "broken"
"""An index whose one copy cannot be read, and is tried once only."""
PERSISTENT = {
    "cluster.routing.rebalance.enable": "none",
    "cluster.routing.allocation.disk.threshold_enabled": False,
    "cluster.routing.allocation.disk.watermark.low": "97%",
    "cluster.routing.allocation.disk.watermark.high": "98%",
    "cluster.routing.allocation.disk.watermark.flood_stage": "99%",
    "indices.recovery.max_bytes_per_sec": "1mb",
}
TRANSIENT = {"cluster.routing.allocation.enable": "primaries", "cluster.routing.allocation.exclude._name": "c-data"}
TEMPLATES: Mapping[str, Mapping[str, Any]] = {
    "/_component_template/bare-part": {"template": {"settings": {"index.number_of_replicas": 0}}},
    "/_component_template/unused-part": {"template": {"settings": {"number_of_replicas": "0"}}},
    "/_index_template/bare": {"index_patterns": ["bare-*"], "template": {"settings": {"number_of_replicas": 0}}},
    "/_index_template/bare-logs": {
        "index_patterns": ["logs-*"],
        "data_stream": {},
        "composed_of": ["bare-part"],
        "priority": 200,
    },
    "/_index_template/good": {
        "index_patterns": ["good-*"],
        "composed_of": ["bare-part"],
        "template": {"settings": {"number_of_replicas": 2}},
        "priority": 7,
    },
    "/_template/old-bare": {"index_patterns": ["old-*"], "settings": {"number_of_replicas": 0}, "order": 3},
}
STREAM = "logs-app"

ROWS: Mapping[str, tuple[str, str]] = {
    # row: (status, what its value must speak of)
    "managers.zones": ("fail", "without a vote"),
    "managers.votes": ("fail", "excluded: b-cm"),
    "left.allocation": ("fail", "primaries (transient)"),
    "left.rebalance": ("warn", "none (persistent)"),
    "left.excludes": ("fail", "keeps copies off c-data"),
    "left.disk-threshold": ("fail", "false (persistent)"),
    "left.watermarks": ("warn", "flood_stage: 99%"),
    "left.transient": ("warn", "2: "),
    "left.recovery": ("info", "1mb"),
    "blocks.index": ("fail", "flooded, frozen-writes"),
    "durability": ("warn", "async"),
    "delayed": ("warn", "hasty"),
    "shards.limit": ("warn", "cramped"),
    "index.filters": ("fail", "bound"),
    "tiers.copies": ("fail", "temp warm (no node)"),
    "indices.closed": ("warn", "shut"),
    "templates": ("fail", "bare-logs of data stream logs-app"),
    "replication": ("info", "segrep.pressure.enabled"),
    "unassigned": ("warn", "INDEX_CREATED"),
    "unassigned.given-up": ("fail", BROKEN),
    "replicas": ("fail", BROKEN),
    "copies.started": ("fail", "started"),
}


def plant(do: Do, data: Path) -> None:
    """Leave all of it behind. ``data``: the folder of the lab that holds the nodes' data."""
    _break(do, data)
    do("PUT", "/_cluster/settings", {"transient": TRANSIENT, "persistent": PERSISTENT})
    do("POST", "/_cluster/voting_config_exclusions?node_names=b-cm", None)
    for name, settings in INDICES.items():
        do("PUT", f"/{name}?wait_for_active_shards=0", {"settings": {**ONE, **settings}})
    do("POST", "/shut/_close", None)
    for path, body in TEMPLATES.items():
        do("PUT", path, body)
    do("PUT", f"/_data_stream/{STREAM}", None)


def _break(do: Do, data: Path) -> None:
    """Write over what the index has on disk while it is closed."""
    settings = {"number_of_shards": 1, "number_of_replicas": 0, "allocation.max_retries": 1}
    do("PUT", f"/{BROKEN}", {"settings": settings})
    do("PUT", f"/{BROKEN}/_doc/1?refresh=true", {"field": 1})
    uuid = do("GET", f"/{BROKEN}/_settings", None)[BROKEN]["settings"]["index"]["uuid"]
    do("POST", f"/{BROKEN}/_close", None)
    commits = list(data.glob(f"*/nodes/0/indices/{uuid}/0/index/segments_*"))
    assert commits, f"no commit of {BROKEN} under {data}"
    for file in commits:
        file.write_bytes(b"no commit of Lucene's")
    do("POST", f"/{BROKEN}/_open?wait_for_active_shards=0", None)


def uproot(do: Do) -> None:
    """Take all of it away again."""
    everything = {"*": None}
    do("PUT", "/_cluster/settings", {"transient": everything, "persistent": everything})
    do("DELETE", "/_cluster/voting_config_exclusions?wait_for_removal=false", None)
    do("DELETE", f"/_data_stream/{STREAM}", None)
    for path in reversed(list(TEMPLATES)):
        do("DELETE", path, None)
    do("DELETE", f"/{','.join([*INDICES, BROKEN])}", None)
