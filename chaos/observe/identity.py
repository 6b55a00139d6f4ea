"""Asks every address of a cluster that is not ours, each second, whether the right cluster and node still answer there.

A connection is asked once whose it is, when it is made (:func:`chaos.opensearch.rest.only_of`). A balancer that reads
HTTP sends each request on by itself, so another cluster can come to stand behind a connection that lives. OpenSearch's
answers name no cluster in their headers (``X-OpenSearch-Version`` is all that 3.8.0 sends), so the load cannot hear it
by itself, and ``GET /`` before each of its requests would double them. Instead this watch asks beside the load:

* ``GET /`` once a second on a connection that is kept, and every fifth time on a new one, since a balancer may send
  old connections elsewhere than new ones;
* and it reads in the driver's words whether any request was told that there is no such index. The run's index has a
  name of its own and was there when the load began: where it is not known, another cluster answers (a balancer that
  goes by path, or one that takes turns), or somebody has deleted it.

Silence is no reason: who cannot be reached cannot be harmed. It costs the driver nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import urllib3

from chaos.base.access import Access, Whose
from chaos.base.addresses import Address
from chaos.base.errors import ChaosError
from chaos.base.logs import LOG
from chaos.base.netsock import Endpoint
from chaos.opensearch.rest import NodeClient

PERIOD_SECONDS = 1.0
"""Between two questions at one address …"""
MOST_PER_SECOND = 25
"""… and where there are more addresses than that, so many questions a second together, but for …"""
LONGEST_SECONDS = 4.0
"""… the longest time between two."""
ANSWER_SECONDS = 2.0
NEW_EVERY = 5
UNKNOWN_USER = 401
STRANGERS = 3
"""So many refusals of our user in a row are another cluster's. At the first one the password is read anew."""
NO_INDEX = "index_not_found_exception"
HEARD_SECONDS = 0.2

Status = Callable[[], Mapping[str, Any]]


class Identity:
    """Runs from :meth:`start` to :meth:`stop`. ``wanted``: address → who must answer there. ``says`` is told once, in
    words, from a thread, that somebody else does. ``status``: the load driver's last word; ``index``: the run's.
    """

    def __init__(
        self,
        wanted: Mapping[Address, Whose],
        access: Access,
        says: Callable[[str], None],
        status: Status = dict,
        index: str = "",
    ) -> None:
        """``access`` must be for whoever answers, so that it can be told who that is."""
        self._wanted, self._access, self._says, self._status, self._index = dict(wanted), access, says, status, index
        self._every = min(LONGEST_SECONDS, max(PERIOD_SECONDS, len(self._wanted) / MOST_PER_SECOND))
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self.asked = self.answered = 0

    def start(self) -> None:
        for address, whose in self._wanted.items():
            self._threads.append(threading.Thread(target=self._guarded, args=(self._watch, address, whose)))
        self._threads.append(threading.Thread(target=self._guarded, args=(self._listen,)))
        for number, thread in enumerate(self._threads):
            thread.daemon, thread.name = True, f"identity {number}"
            thread.start()

    def stop(self) -> None:
        """Idempotent. A question that is under way is waited for, for as long as one may take."""
        self._over.set()
        end = time.monotonic() + ANSWER_SECONDS
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, end - time.monotonic()))
        if self._threads:
            LOG.info("identity: %d addresses, asked %d times, %d answers", len(self._wanted), self.asked, self.answered)
        self._threads = []

    def _guarded(self, work: Callable[..., None], *given: Any) -> None:
        """One that died in silence would look as if all were well."""
        try:
            work(*given)
        except Exception as error:
            LOG.exception("identity")
            self._tell(f"whether the right cluster answers cannot be watched: {type(error).__name__}: {error}")

    def _tell(self, says: str) -> None:
        with self._lock:
            if self._over.is_set():
                return
            self._over.set()
        self._says(says)

    def _watch(self, address: Address, whose: Whose) -> None:
        client, turn, strangers = self._client(address), 0, 0
        try:
            while not self._over.is_set():
                began = time.monotonic()
                status, said = self._ask(client)
                strangers = strangers + 1 if status == UNKNOWN_USER else 0
                why = whose.refuses(status, said) if status is not None else None
                if why is not None and strangers in (0, STRANGERS):
                    self._tell(f"at {address}: {why}")
                    return
                turn += 1
                if turn % NEW_EVERY == 0 or strangers or status is None:
                    client.close()
                    client = self._client(address)
                self._over.wait(max(0.0, self._every - (time.monotonic() - began)))
        finally:
            client.close()

    def _client(self, address: Address) -> NodeClient:
        return NodeClient(Endpoint(address.host, address.port), access=self._access, timeout=ANSWER_SECONDS)

    def _ask(self, client: NodeClient) -> tuple[int | None, Any]:
        """Status and body; None where there was no answer."""
        self.asked += 1
        try:
            answer = client.request("GET", "/")
        except (urllib3.exceptions.HTTPError, ChaosError):  # nobody there; a password that cannot be read just now
            return None, None
        self.answered += 1
        return answer

    def _listen(self) -> None:
        """Hear what the load was told."""
        last = None
        while not self._over.wait(HEARD_SECONDS):
            status = self._status()
            said = (status.get("t"), status.get("newest"))  # of several processes the oldest word may stay the same
            if said == last:
                continue
            last = said
            if any(kind == NO_INDEX for _, _, kind, *_ in status.get("errors", ())):
                self._tell(
                    f"the load was told that there is no index {self._index}: another cluster answers, or somebody "
                    "has deleted it"
                )
                return
