"""How full this machine's disks are while a run lasts, and the events that say so.

The plan's ``disks_watched`` says that they are due. They are written by :mod:`chaos.instruments.disks`:

    disks.watched    ``places``: each disk that matters once: ``what`` lies there, in words, ``path``, ``size`` and
                     ``need`` (bytes; below so many free ones nothing that is measured is the cluster's), ``remedy``
    disks.free       ``free``: path → free bytes; ``since``: the look before this one (monotonic ns), None for the first
    disks.blocked    the load's index was given, or lost (``blocked``), ``index.blocks.read_only_allow_delete``, which
                     OpenSearch sets beyond the flood stage; ``since``: when it was last seen as it was (monotonic ns)
    disks.unwatched  ``last``: the last look (monotonic ns), ``because``: why, if the watch broke
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WATCHED, FREE, BLOCKED, UNWATCHED = "disks.watched", "disks.free", "disks.blocked", "disks.unwatched"
BLOCK = "index.blocks.read_only_allow_delete"
MIB = 2**20


def sentence(place: Mapping[str, Any], free: int) -> str:
    """``the disk of /var/lib/x (data of the lab) has 93 MiB free, and 200 MiB are needed: make room there``."""
    return (
        f"the disk of {place.get('path')} ({place.get('what')}) has {free // MIB} MiB free, and "
        f"{int(place.get('need') or 0) // MIB} MiB are needed: {place.get('remedy')}"
    )
