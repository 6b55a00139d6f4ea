"""Tables of findings as the measuring and data checks fill them, made up, to draw pages with."""

from __future__ import annotations

from typing import Any

STEPS = (
    ("in_effect", 0.4, "exact", True),
    ("impact", 0.6, "exact", True),
    ("node_left", 31.2, "exact", True),
    ("leader_elected", 33.4, "exact", True),
    ("primaries_promoted", 34.1, "at_least", True),
    ("first_writes", 35.9, "exact", True),
    ("regained", 62.0, "exact", True),
    ("green", 90.0, "more_than", False),
    ("latency", None, "exact", False),
)


def tables(evil: str = "") -> dict[str, Any]:
    """Every optional table of findings.json; ``evil`` goes into every text."""
    operations = {
        op: {
            "request": {"good": 16_000, "scheduled": 16_500, "share": 0.9697},
            "slices": {"theta": 0.99, "seconds": 1.0, "good": 150, "total": 165, "share": 150 / 165},
            "user_uptime": {"share": 0.978, "users": 200, "says": f"200 routing keys{evil}"},
            "minimum": [{"window": w, "availability": min(1.0, w / 70)} for w in (1, 2, 5, 10, 30, 60, 120)],
            "zones": {
                f"{zone}{evil}": {f"dark{evil}": {"good": 900, "scheduled": 1000, "share": 0.9}} for zone in ("a", "b")
            },
            "semantics": {f"dark{evil}": {"full": 900, "partial": 60, "timed_out": 40}},
            "semantics_by_zone": {f"a{evil}": {f"dark{evil}": {"full": 450, "partial": 30, "timed_out": 20}}},
        }
        for op in ("read", "write")
    }
    return {
        "availability": operations,
        "projection": {
            "write": {
                "availability": 0.99987,
                "says": f"at the stated rates{evil}",
                "faults": [{"fault": f"zone.isolation{evil}", "per_year": 2, "lost_seconds": 62.0}],
            }
        },
        "ladder": {
            f"dark{evil}": {
                "trigger": f"packets vanish{evil}",
                "trigger_at": 30.05,
                "steps": [
                    {
                        "name": name,
                        "title": name,
                        "at": None if after is None else 30.05 + after,
                        "after": after,
                        "bound": bound,
                        "reached": reached,
                        "says": "" if after is None else f"from the events{evil}",
                    }
                    for name, after, bound, reached in STEPS
                ],
            }
        },
        "cpu": {
            "machine": 2,
            "shared": True,
            "zones": {f"a{evil}": {f"dark{evil}": 0.412, "dark": 0.412}, f"c{evil}": {"dark": None}},
            "loss": {"healthy": None, "dark": {"share": 0.85, "measured": True}},
            "idle": {"dark": 0.123},
        },
        "swaps": [
            {
                "at": 42.04,
                "says": f"weights a 1, b 0, c 1{evil}",
                "requests": {
                    f"read{evil}": {
                        "before": {"scheduled": 500, "not_good": 0, "p50": 0.004, "p99": 0.012},
                        "after": {"scheduled": 498, "not_good": 37, "p50": 0.006, "p99": None},
                    }
                },
            }
        ],
        "returned": [
            {
                "index": f"chaos{evil}",
                "shard": shard,
                "node": f"b-data{evil}",
                "zone": "b",
                "kind": kind,
                "bytes_total": 4_200_000,
                "bytes_reused": 4_000_000,
                "bytes_copied": 200_000,
                "operations": 1200,
                "seconds": 3.4,
                "shard_bytes": 4_200_000,
            }
            for shard, kind in enumerate(("operations", "files reused", "full copy"))
        ],
        "data": {
            "copies": {"value": 0, "text": "0", "bound": "exact", "says": f"all copies agree{evil}", "read": 21480},
            "compare_and_set": {
                "value": 0,
                "text": "0",
                "bound": "exact",
                "says": "linearizable",
                "keys": 20,
                "unknown": [f"k-1{evil}"],
            },
            "visibility": {"value": 1.1, "text": "1.1 s", "bound": "exact", "says": "p99 of acknowledged writes"},
            "staleness": {"value": 3, "text": "3", "bound": "exact", "says": "reads that went back"},
        },
    }
