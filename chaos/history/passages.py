"""What the Toxiproxies of a lab let pass, and the events that say whether an external actor changed it in mid-run.

By the watch over them (:mod:`chaos.instruments.passages`)::

    passages.watched    from when on they are looked at
    passage.changed     one fact that no move of ours has changed: ``host`` whose Toxiproxy it is (``client``: the zone
                        whose clients it serves, None: a node's), ``proxy``, ``what`` (``enabled``, ``listen``,
                        ``upstream``, or ``toxic NAME``), ``before`` and ``now`` (None: not there), ``since``: when it
                        was last seen as it was (monotonic ns)
    passages.unwatched  ``last``: when the host that was not seen for longest was seen last, ``host`` which that was,
                        ``because``: why if the watch broke
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.history.configuration import HAND

WATCHED, CHANGED, UNWATCHED = "passages.watched", "passage.changed", "passages.unwatched"
ENABLED, TOXIC = "enabled", "toxic "
ON, OFF = "on", "off"


def sentence(event: Mapping[str, Any]) -> str:
    """``somebody else switched off the proxy in-a-data of client zone a``."""
    what, before, now = str(event.get("what")), event.get("before"), event.get("now")
    zone = event.get("client")
    whose = f"client zone {zone}" if zone is not None else f"node {event.get('host')}"
    proxy = f"the proxy {event.get('proxy')} of {whose}"
    if what == ENABLED:
        done = {ON: "switched on" if before == OFF else "made", OFF: "switched off"}.get(str(now), "removed")
        return f"{HAND} {done} {proxy}"
    if what.startswith(TOXIC):
        done = "removed" if now is None else "added" if before is None else "changed"
        return f"{HAND} {done} the {what} ({before if now is None else now}) on {proxy}"
    return f"{HAND} changed {what} of {proxy} from {before} to {now}"
