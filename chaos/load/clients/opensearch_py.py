"""opensearch-py's own client over all nodes, with that library's default policy: three retries on another node after
an error of the connection or 502, 503 or 504, none after a timeout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chaos.load.client import Client, Send, Way


class OpenSearchPy(Client):
    """One client for each kind of request: one counter for two that alternate ties each to every other node."""

    name = "opensearch-py"
    whole = False

    def sender(self, way: Way) -> Callable[[int], Send]:
        made: dict[int, Send] = {}

        def of(op: int) -> Send:
            if op not in made:
                made[op] = way.by_default_policy()
            return made[op]

        return of

    def helped(self, way: Way, op: int) -> Any:
        return way.for_helper(way.numbers)


CLIENT = OpenSearchPy()
