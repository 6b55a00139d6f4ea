"""The user that nodes run as, and whether it can reach a file.

OpenSearch refuses to run as root, so as root a node gets a numeric uid that owns nothing else and
needs no entry in passwd; otherwise it runs as the user who started us.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

NODE_UID = int(os.environ.get("OPENSEARCH_CHAOS_UID", "64251"))


def popen_user() -> dict[str, Any]:
    """Arguments of ``subprocess`` that drop root; empty for anyone else."""
    return {"user": NODE_UID, "group": NODE_UID, "extra_groups": []} if os.geteuid() == 0 else {}


def node_uid() -> int:
    """The uid that a node will have."""
    return NODE_UID if os.geteuid() == 0 else os.getuid()


def obstacle(path: Path) -> Path | None:
    """What keeps :data:`NODE_UID` from executing ``path``: it, or a folder on the way; None when nothing does."""
    if os.geteuid() != 0:
        return None if os.access(path, os.X_OK) else path
    real = path.resolve()
    for place in [*reversed(real.parents), real]:
        if not place.stat().st_mode & stat.S_IXOTH:
            return place
    return None
