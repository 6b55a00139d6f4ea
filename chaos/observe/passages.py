"""Watches what the Toxiproxies of a lab let pass, and says at once when an external actor changes it.

A proxy of one client zone that somebody switches off takes a share of the users' requests away, and nothing in the
answers tells that from a cluster that fails. So each second every Toxiproxy of the lab is asked for its proxies and
their toxics, over a connection that is kept; an answer that is the same as before, byte for byte, costs no more than
that. What differs is held against the ledger, where each move of ours stands before it is made: what a move names is
ours, whatever is said of it then. Whether a fault of ours still holds is looked at elsewhere
(:mod:`chaos.faults.holding`).

A Toxiproxy that does not answer is asked again later; that it hangs or died is noticed by those who watch that
(:mod:`chaos.load.pulse`, :mod:`chaos.observe.ends`). What is changed and taken back between two looks is not seen.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import urllib3

from chaos.faults.ledger import moves
from chaos.faults.moves import Events, Move
from chaos.history import passages
from chaos.opensearch.rest import UNREADABLE, NodeClient
from chaos.target.labs.base import BaseLab

LOOK_SECONDS = 1.0
TIMEOUT_SECONDS = 1.0
SILENT_LOOKS = 5
"""For so many looks a Toxiproxy that did not answer is left alone."""
PATIENCE_LOOKS = 3
"""Looks, at the beginning and at the end, that are given to one that does not answer."""

Fact = tuple[str, str, str]
"""(host, proxy, what), see :mod:`chaos.history.passages`."""
Facts = dict[Fact, str]
KNOWN = {"toxic.add": True, "toxic.remove": True, "proxy.disable": False, "proxy.enable": False}
"""Our own moves on proxies, and whether each is about one toxic. Any other may do anything to the proxy it names."""


def facts(host: str, said: Mapping[str, Any]) -> Facts:
    """What a Toxiproxy says of itself (``GET /proxies``). Raises one of UNREADABLE for another shape."""
    found: Facts = {}
    for name, proxy in said.items():
        found[host, name, passages.ENABLED] = passages.ON if proxy["enabled"] else passages.OFF
        for key in ("listen", "upstream"):
            found[host, name, key] = str(proxy[key])
        for toxic in proxy["toxics"]:
            attributes = ", ".join(f"{key} {value}" for key, value in sorted(toxic["attributes"].items()))
            shown = f"{toxic['type']} {toxic['stream']}" + (f", {attributes}" if attributes else "")
            found[host, name, f"{passages.TOXIC}{toxic['name']}"] = shown
    return found


def ours(made: Iterable[Move]) -> tuple[set[Fact], set[tuple[str, str]]]:
    """Facts that these moves steer, and whole proxies, by host, to which such a move may do anything."""
    steered: set[Fact] = set()
    whole: set[tuple[str, str]] = set()
    for move in made:
        given = move.arguments
        if "host" not in given or "proxy" not in given:
            continue
        place = str(given["host"]), str(given["proxy"])
        if move.operation not in KNOWN:
            whole.add(place)
        elif KNOWN[move.operation]:
            steered.add((*place, f"{passages.TOXIC}{given['toxic']}"))
        else:
            steered.add((*place, passages.ENABLED))
    return steered, whole


class Passages:
    """The watch, in a thread of its own. ``changed`` is told in words of each change that is not ours."""

    def __init__(self, lab: BaseLab, events: Events, ledger: Path, changed: Callable[[str], None]) -> None:
        self._lab, self._events, self._ledger, self._changed = lab, events, ledger, changed
        self._hosts = {host.name: None if host.kind == "node" else host.zone for host in lab.wiring.hosts}
        self._clients: dict[str, NodeClient] = {}
        self._said: dict[str, Any] = {}
        self._seen: dict[str, Facts] = {}
        self._last: dict[str, int] = {}
        self._silent: dict[str, int] = {}
        self._why: str | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="passages", daemon=True)

    def start(self) -> None:
        """From now on what is so has to stay so."""
        self._events.write(passages.WATCHED, hosts=list(self._hosts))
        self._patiently()
        self._thread.start()

    def stop(self) -> None:
        """Look once more and end; idempotent."""
        if self._over.is_set() or self._thread.ident is None:
            return
        self._over.set()
        self._thread.join()
        self._patiently()
        for client in self._clients.values():
            client.close()
        last = {host: self._last.get(host) for host in self._hosts}
        first = min(last, key=lambda host: last[host] or 0)
        with suppress(OSError):
            self._events.write(passages.UNWATCHED, host=first, last=last[first], because=self._why)

    def look(self) -> bool:
        """Ask every Toxiproxy once; whether all of those that were asked have answered. Never raises."""
        answered = True
        for host in self._hosts:
            if self._silent.get(host):
                self._silent[host] -= 1
                continue
            try:
                answered &= self._ask(host)
            except Exception as error:  # then it is not known, and the record says so
                self._why, answered = f"{type(error).__name__}: {error}", False
        return answered

    def _patiently(self) -> None:
        for _ in range(PATIENCE_LOOKS):
            self._silent.clear()
            if self.look():
                return

    def _run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self.look()

    def _ask(self, host: str) -> bool:
        began = time.monotonic_ns()
        kept = host in self._clients
        try:
            said = self._proxies(host)
            now = self._seen[host] if said == self._said.get(host) else facts(host, said)
        except (urllib3.exceptions.HTTPError, OSError, *UNREADABLE):
            if (client := self._clients.pop(host, None)) is not None:
                client.close()
            if kept:  # the other end may have closed a connection that was idle
                return self._ask(host)
            self._silent[host] = SILENT_LOOKS
            return False
        before, since = self._seen.get(host), self._last.get(host)
        self._said[host], self._seen[host], self._last[host] = said, now, began
        if before is not None and now != before:
            self._tell(host, before, now, since or began)
        return True

    def _proxies(self, host: str) -> Any:
        """Raises urllib3's HTTPError, OSError or one of UNREADABLE where the Toxiproxy of a host does not say them."""
        if host not in self._clients:
            self._clients[host] = NodeClient(self._lab.toxiproxy(host).endpoint, timeout=TIMEOUT_SECONDS)
        status, said = self._clients[host].request("GET", "/proxies", whole=TIMEOUT_SECONDS)
        if status != 200:
            raise ValueError(f"HTTP {status}")
        return said

    def _tell(self, host: str, before: Facts, now: Facts, since: int) -> None:
        """Say what of this is not ours. What a move of ours names is in the ledger before it is made."""
        steered, whole = ours(moves(self._ledger))
        gone = {fact[1] for fact in before} - {fact[1] for fact in now}
        new = {fact[1] for fact in now} - {fact[1] for fact in before}
        for fact in sorted({*before, *now}):
            _, proxy, what = fact
            if before.get(fact) == now.get(fact) or fact in steered or (host, proxy) in whole:
                continue
            if proxy in gone | new and what != passages.ENABLED:
                continue  # said once
            told: dict[str, Any] = {"host": host, "client": self._hosts[host], "proxy": proxy, "what": what}
            told |= {"before": before.get(fact), "now": now.get(fact)}
            self._events.write(passages.CHANGED, since=since, **told)
            self._changed(passages.sentence(told))
