"""What others do with indices of theirs while a run lasts on their cluster, as an event.

others.index   ``index``, ``how`` (``gone``: deleted; ``copies``: another number of copies or shards), ``status``:
               its colour when it was last seen as it had been. From then on it does not count any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

INDEX = "others.index"
GONE, COPIES = "gone", "copies"


def sentence(event: Mapping[str, Any]) -> str:
    did = "was deleted by others" if event.get("how") == GONE else "got another number of copies from others"
    return f"the index {event.get('index')} {did}"
