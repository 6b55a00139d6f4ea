"""Samples what others do on a cluster that is not ours while a run lasts: searches and indexing of all other indices.

Every two seconds one address that has a cluster manager is asked for the counters of every copy of a shard
(:mod:`chaos.opensearch.foreign`). Lines of ``history/foreign.jsonl``, ``t`` in CLOCK_MONOTONIC ns when the answer was
there; no line names a node or an index:

* ``grown``: what was done since the answer before, ``seconds`` ago: ``searches`` (of shards) with ``search_ms`` of all
  of them together, ``documents`` (each once), ``indexed`` (on every copy) with ``index_ms``, ``failed``; by how many
  ``copies`` and ``nodes``; ``unheard``: nodes that did not answer; ``ms``: what the question took;
* ``missing``: nobody answered, and ``says`` why. The next ``grown`` reaches back over it;
* ``baseline``: before the run did anything, from ``since`` to ``t``: see :mod:`chaos.run.suffering`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import urllib3

from chaos.base.errors import InvalidInput
from chaos.base.netsock import Endpoint
from chaos.definitions.existing import Existing
from chaos.history import EventWriter
from chaos.history.writer import Broken
from chaos.opensearch.foreign import COUNTERS, WHO, Counted, Grown, counted, grown, not_of
from chaos.opensearch.rest import UNREADABLE, NodeClient, short

PERIOD_SECONDS = 2.0
"""Between two questions. An answer has some 170 bytes for each copy of a shard, see ``benchmarks/foreign_cost.py``."""
WHO_SECONDS, COUNTERS_SECONDS = 1.5, 3.0
"""How long one may take; nodes are waited for by OpenSearch for one second."""
AT_ONCE = 8
ALONE = "has no cluster manager"
Get = Callable[[str, float], tuple[int, Any]]
"""(path, seconds) → status and decoded body. Raises ``urllib3.exceptions.HTTPError``."""


@dataclass(frozen=True)
class Way:
    """One address: its name for people, and how it is asked."""

    address: str
    get: Get


class Unheard(Exception):
    """Nobody says what others do."""


@contextmanager
def ways_to(target: Existing) -> Iterator[tuple[Way, ...]]:
    """Every address of a file, its endpoints first."""
    addresses = dict.fromkeys((*target.written.addresses, *target.written.of_nodes.values()))
    nodes = {address: node for node, address in target.written.of_nodes.items()}
    bound = target.bound
    clients = [
        (str(each), NodeClient(Endpoint(each.host, each.port), access=access, timeout=COUNTERS_SECONDS))
        for each in addresses
        for access in [bound.only(nodes[each]) if each in nodes else bound]
    ]
    try:
        yield tuple(Way(address, _get(client)) for address, client in clients)
    finally:
        for _, client in clients:
            client.close()


def _get(client: NodeClient) -> Get:
    return lambda path, seconds: client.request("GET", path, timeout=seconds)


def why_not(target: Existing) -> str | None:
    """Why what others do there cannot be sampled now; None where it can."""
    with ways_to(target) as ways, closing(Asking(ways, target)) as asking:
        try:
            asking.ask()
        except Unheard as error:
            return str(error)
    return None


class Asking:
    """Finds the address to ask, and remembers it."""

    def __init__(self, ways: Sequence[Way], target: Existing) -> None:
        self._ways, self._uuid = list(ways), target.written.identity.cluster_uuid
        self._foreign = not_of(target.written.prefix, target.written.notes)
        self._pool = ThreadPoolExecutor(AT_ONCE, "foreign")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def ask(self) -> Counted:
        """Whoever answered last is asked first, and where it does not all others at the same time. Raises Unheard.

        Where no node at all has a cluster manager, whoever answered last still knows who was in the cluster.
        """
        first, *others = self._ways
        why = self._not_led(first)
        if why is not None:
            asked: dict[Future[str | None], Way] = {self._pool.submit(self._not_led, way): way for way in others}
            led = next((asked[done] for done in as_completed(asked) if done.result() is None), None)
            if led is None and not why.endswith(ALONE):
                raise Unheard(why)
            led = led or first
            self._ways = [led, *(way for way in self._ways if way is not led)]
        return self._counted(self._ways[0])

    def _not_led(self, way: Way) -> str | None:
        """Why this address is not to be asked."""
        try:
            status, state = way.get(WHO, WHO_SECONDS)
            if status != 200:
                return f"{way.address} answered {status}"
            if state["cluster_uuid"] != self._uuid:
                return f"at {way.address} is another cluster"
            led = state.get("cluster_manager_node") or state.get("master_node")
        except urllib3.exceptions.HTTPError as error:
            return f"{way.address}: {short(error)}"
        except UNREADABLE:
            return f"{way.address} answered something that cannot be read"
        return None if led else f"{way.address} {ALONE}"

    def _counted(self, way: Way) -> Counted:
        try:
            status, answer = way.get(COUNTERS, COUNTERS_SECONDS)
            if status == 200:
                return counted(answer, self._foreign)
            why = f"answered {status}"
        except urllib3.exceptions.HTTPError as error:
            why = short(error)
        except UNREADABLE:
            why = "answered something that cannot be read"
        self._ways = [*self._ways[1:], way]
        raise Unheard(f"{way.address}, for the counters of its shards: {why}")


class Sampled:
    """Runs in a thread of its own from :meth:`start` to :meth:`stop`.

    ``grown``: what was seen so far, each with when it ended (``time.monotonic``); it only gets longer.
    """

    def __init__(self, target: Existing, file: Path, broken: Broken) -> None:
        self._target, self._file, self._broken = target, file, broken
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="foreign", daemon=True)
        self._writer: EventWriter | None = None
        self.grown: list[tuple[float, Grown]] = []
        self.heard = 0.0
        """When it was last answered (``time.monotonic``); before the first answer when it began."""
        self.why: str | None = None
        """Why the last question was not answered; None where it was."""

    def start(self) -> None:
        self._writer = EventWriter(self._file, self._broken)
        self.heard = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Idempotent."""
        if self._thread.ident is None or self._over.is_set():
            return
        self._over.set()
        self._thread.join()
        assert self._writer is not None
        self._writer.close()

    def alive(self) -> bool:
        return self._thread.is_alive()

    def note(self, kind: str, **fields: Any) -> None:
        """A line of somebody else in the same file."""
        assert self._writer is not None
        self._writer.write(kind, **fields)

    def _run(self) -> None:
        with suppress(OSError), ways_to(self._target) as ways, closing(Asking(ways, self._target)) as asking:
            before: tuple[float, Counted] | None = None
            while not self._over.is_set():
                began = time.monotonic()
                before = self._once(asking, before) or before
                self._over.wait(max(0.1, PERIOD_SECONDS - (time.monotonic() - began)))

    def _once(self, asking: Asking, before: tuple[float, Counted] | None) -> tuple[float, Counted] | None:
        began = time.monotonic()
        try:
            now = asking.ask()
        except (Unheard, InvalidInput) as error:
            self._missing(str(error))
            return None
        except Exception as error:  # one that dies in silence would look like calm
            self._missing(f"{type(error).__name__}: {error}")
            return None
        at = time.monotonic()
        if before is not None:
            more = grown(before[1], now, round(at - before[0], 3))
            took = round((at - began) * 1000, 1)
            self.note("grown", **asdict(more), nodes=now.nodes, unheard=now.unheard, ms=took)
            self.grown.append((at, more))
        self.why, self.heard = None, at
        return at, now

    def _missing(self, says: str) -> None:
        self.why = says
        self.note("missing", says=says)
