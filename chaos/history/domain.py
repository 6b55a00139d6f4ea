"""What AWS says of a domain of Amazon OpenSearch Service while a run lasts, as an event: at first, and as it changes.

domain.health   ``said``: the words of DescribeDomainHealth (``ClusterHealth`` …), and ``zones``: zone → its words.
                None where nobody answered, and ``why`` says why.
"""

from __future__ import annotations

HEALTH = "domain.health"
