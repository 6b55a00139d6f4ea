"""What steers a cluster beside its requests, and the events that say whether somebody else changed it in mid-run.

Facts have a scope and a name: ``cluster`` (a setting that is set, persistent or transient), ``index`` (one of the
load's index) and ``zones`` (``weights``, ``decommissioned``, ``votes``). The events, by the watch over them
(:mod:`chaos.instruments.settings`):

    configuration.watched    from when on it is looked at
    configuration.changed    one fact that nobody of ours has changed: ``scope``, ``name``, ``before`` and ``now``
                             (None: not set), ``since``: when it was last seen as it was (monotonic ns)
    configuration.unwatched  ``last``: the last look that was answered, ``because``: why if the watch broke
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WATCHED, CHANGED, UNWATCHED = "configuration.watched", "configuration.changed", "configuration.unwatched"
HAND = "somebody else"
UUID = "index.uuid"
"""Another one, or none: the index that was meant was deleted."""
SETTINGS_VERSION = "settings_version"
"""How often the settings of the load's index were changed, where none is other than it was at the look before."""
SCOPES = {
    "cluster": "the cluster's setting {name}",
    "index": "the load's index's setting {name}",
    "zones": "{name}",
}
ZONES = {
    "weights": "the zones' weights",
    "decommissioned": "which zone is decommissioned",
    "votes": "which nodes have no vote",
}


def sentence(event: Mapping[str, Any]) -> str:
    """``somebody else changed the cluster's setting X from unset to none``."""
    scope, name = str(event.get("scope")), str(event.get("name"))
    if name == UUID:
        return f"{HAND} deleted the load's index" + (", and there is a new one of its name" if event.get("now") else "")
    if name == SETTINGS_VERSION:
        return f"{HAND} closed and opened the load's index, or changed a setting of it for a moment"
    what = SCOPES.get(scope, "{name}").format(name=ZONES.get(name, name) if scope == "zones" else name)
    before, now = ("unset" if event.get(key) is None else str(event[key]) for key in ("before", "now"))
    return f"{HAND} changed {what} from {before} to {now}"
