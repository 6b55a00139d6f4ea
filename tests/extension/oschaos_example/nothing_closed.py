"""A check that asks the living cluster: no index is closed. ``expect: [{command: [python, -m, THIS_MODULE]}]``."""

from __future__ import annotations

from chaos.api.commands import Asked, Unknown, answer


def nothing_closed(asked: Asked) -> str | None:
    """None where every index is open; else which are not."""
    rows = asked.get("/_cat/indices?format=json&h=index,status&expand_wildcards=all")
    if not rows:
        raise Unknown("the cluster says that it has no index at all, not even the load's")
    closed = sorted(row["index"] for row in rows if row["status"] != "open")
    return f"closed: {', '.join(closed)}" if closed else None


if __name__ == "__main__":
    answer(nothing_closed)
