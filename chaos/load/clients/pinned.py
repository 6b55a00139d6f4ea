"""A client that is pinned to one node; nothing is sent again."""

from __future__ import annotations

from collections.abc import Callable

from chaos.load.client import Client, Send, Way


class Pinned(Client):
    name = "pinned"

    def sender(self, way: Way) -> Callable[[int], Send]:
        send = way.single(way.pinned)
        return lambda op: send


CLIENT = Pinned()
