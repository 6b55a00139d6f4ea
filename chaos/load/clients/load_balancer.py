"""A load balancer: rounds over the nodes that its health checks find healthy; only a helper sends anything again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chaos.load.client import Client, Send, Way


class LoadBalancer(Client):
    name = "load-balancer"
    probed = True

    def sender(self, way: Way) -> Callable[[int], Send]:
        senders = {number: way.single(number) for number in way.numbers}
        return lambda op: senders[way.choose(op)]

    def helped(self, way: Way, op: int) -> Any:
        return way.for_helper_behind(lambda: way.choose(op))


CLIENT = LoadBalancer()
