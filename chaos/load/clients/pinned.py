"""A client that is pinned to one node; only a helper sends anything again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chaos.load.client import Client, Send, Way


class Pinned(Client):
    name = "pinned"

    def sender(self, way: Way) -> Callable[[int], Send]:
        send = way.single(way.pinned)
        return lambda op: send

    def helped(self, way: Way, op: int) -> Any:
        return way.for_helper([way.pinned])


CLIENT = Pinned()
