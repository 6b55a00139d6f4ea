"""Words of a run's failover controllers in its ledger and its record, by which it is undone and judged without them.

Their events are in ``history/failover-ZONE.jsonl``; the kinds begin with ``failover.``.
"""

from __future__ import annotations

LEDGER = "failover"
"""Under which the ledger has what takes back what they do."""
NOTHING = "nothing"
"""The move of that entry."""
SILENT_SECONDS = 5.0
"""After so long without a word of its runner a controller ends, on a cluster that is not ours."""
