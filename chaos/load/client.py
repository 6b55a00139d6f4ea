"""What a client of the load is: how its requests find a node, and by which call of its library bulks are sent.

A *client* (``load.client.kind``) finds a node for each request. A *helper* (a stream's ``client``) is a call of a
library that sends documents in bulks of its own making, with retries of its own, and tells its caller what became of
them. Each is a file in :mod:`chaos.load.clients`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

Send = Callable[..., Any]
"""``perform_request`` of a client's transport."""


class Way(Protocol):
    """The nodes as one client zone reaches them."""

    @property
    def pinned(self) -> int:
        """The number of the node that a pinned client talks to."""

    @property
    def numbers(self) -> Sequence[int]:
        """The nodes that are asked from this zone."""

    def choose(self, op: int) -> int:
        """The node whose turn it is for an operation, among those that health checks have found healthy."""

    def single(self, number: int) -> Send:
        """A client of one node, without retries."""

    def by_default_policy(self) -> Send:
        """A client of opensearch-py over all nodes, as that library makes it."""

    def for_helper(self, numbers: Sequence[int]) -> Any:
        """The same over some nodes, for a helper of that library."""

    def for_helper_behind(self, choose: Callable[[], int]) -> Any:
        """A client of opensearch-py, for a helper, of the one address that a load balancer has; ``choose`` says for
        each request to which node the balancer hands it."""


class Client:
    """How requests find a node. ``name``: as definitions have it. ``probed``: by health checks of ours, once a zone.

    ``whole``: the load's timeout is for a request as a whole; else the library has it for each of its attempts.
    """

    name: str
    probed = False
    whole = True

    def sender(self, way: Way) -> Callable[[int], Send]:
        """What gives the sender of the next request of an operation (its number)."""
        raise NotImplementedError

    def helped(self, way: Way, op: int) -> Any:
        """The library's client that the helper of an operation is given: its retries are the library's."""
        raise NotImplementedError


class Listener(Protocol):
    """Hears what a helper tells its caller of documents, in the words of opensearch-py."""

    def told(self, ok: bool, item: Mapping[str, Any]) -> None:
        """Of one document, as ``{action: details}``."""

    def counted(self, stored: int) -> None:
        """Of all that were not named: how many were stored."""


class Helper:
    """By which call of a library a stream of bulks is sent. ``name``: as definitions have it; ``says``: in one line.

    ``in_asyncio``: the call lives in an event loop, and so in a driver process of its own. ``clients``: the kinds of
    client that it can run on.
    """

    name: str
    says: str
    in_asyncio = False
    clients: tuple[str, ...] = ("opensearch-py", "load-balancer", "pinned")

    def send(self, client: Any, documents: Iterable[int], options: Mapping[str, Any], listener: Listener) -> Any:
        """Send these documents (their numbers) by one call of the helper, and say what it tells; of one in asyncio a
        coroutine that does. Raises what the helper raises.

        ``client``: of the library. ``options``: for the helper, by its own names.
        """
        raise NotImplementedError
