"""Watches what the Toxiproxies of a lab let pass, and says at once when an external actor changes it.

A proxy of one client zone that somebody switches off takes a share of the users' requests away, and nothing in the
answers tells that from a cluster that fails. So each second every Toxiproxy of the lab is asked for its proxies and
their toxics, over a connection that is kept; an answer that is the same as before, byte for byte, costs no more than
that. What differs is held against the ledger, where each move of ours stands before it is made: what a move names is
ours, whatever is said of it then. Whether a fault of ours still holds is looked at elsewhere
(:mod:`chaos.faults.holding`).

A Toxiproxy that does not answer is asked again later; that it hangs or died is noticed by those who watch that
(:mod:`chaos.load.pulse`, :mod:`chaos.instruments.process_exits`). What is changed and taken back between two looks is
not seen.

What was measured since such a change is not the cluster's. A broken promise about data stands: no cluster may lose what
it acknowledged because packets do not arrive. A record from before this was watched says nothing about it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import urllib3

from chaos.base import text
from chaos.base.netsock import Endpoint
from chaos.checks import outside
from chaos.checks.evidence import Gap, unwatched
from chaos.checks.instrument import Begins, Context, Ends, Instrument, Made, Observer
from chaos.checks.reasons import Cause
from chaos.checks.record import SECOND, Record
from chaos.history import passages
from chaos.history.events import PassageChanged, PassagesUnwatched, PassagesWatched
from chaos.history.writer import Events
from chaos.opensearch.rest import UNREADABLE, NodeClient

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


def ours(made: Iterable[Made]) -> tuple[set[Fact], set[tuple[str, str]]]:
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


class Host(Protocol):
    """One that has a Toxiproxy: a node's, or that of the clients of a zone."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def zone(self) -> str: ...


class Wiring(Protocol):
    @property
    def hosts(self) -> Iterable[Host]: ...


class Server(Protocol):
    @property
    def endpoint(self) -> Endpoint: ...


class Linked(Protocol):
    """A target whose links have Toxiproxies of ours."""

    @property
    def wiring(self) -> Wiring: ...
    def toxiproxy(self, host: str) -> Server: ...


class Passages(Observer):
    """The watch, in a thread of its own. ``changed`` is told in words of each change that is not ours."""

    def __init__(
        self, lab: Linked, events: Events, moves: Callable[[], Iterable[Made]], changed: Callable[[str], None]
    ) -> None:
        """``moves``: all that the run's ledger has so far."""
        self._lab, self._events, self._moves, self._changed = lab, events, moves, changed
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
        PassagesWatched(hosts=list(self._hosts)).write(self._events)
        self._patiently()
        self._thread.start()

    def stop(self, *, patient: bool = True) -> None:
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
            PassagesUnwatched(host=first, last=last[first], because=self._why).write(self._events)

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
        steered, whole = ours(self._moves())
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
            PassageChanged(since=since, **told).write(self._events)
            self._changed(passages.sentence(told))


# -- judging ---------------------------------------------------------------------------------------

WHAT = "whether somebody else changed the Toxiproxies' proxies and toxics"
SILENT = 10.0
"""Seconds before the end of the phases from which on a Toxiproxy must have been seen."""


def gaps(record: Record) -> tuple[Gap, ...]:
    """Each change of an external actor, from the last moment at which it was not there; and a watch that broke.

    Who slows a link between nodes keeps replicas from copying segments.
    """
    if record.rules < 2:
        return ()
    changed = (
        Gap(_says(record, event), int(event.since), excused=outside.COPIED if event.client is None else ())
        for event in record.seen(PassageChanged)
    )
    blind = unwatched(record, "passages_watched", passages.WATCHED, passages.UNWATCHED, WHAT)
    return (*changed, *(blind or _unseen(record)))


def _says(record: Record, event: PassageChanged) -> str:
    says = passages.sentence(event.keys())
    a, b = ((at - record.origin) / SECOND for at in (event.since, event.t))
    return f"{says[:1].upper()}{text.clip(says[1:], 200)}, between {a:.1f} s and {b:.1f} s of the run"


def _unseen(record: Record) -> list[Gap]:
    """A Toxiproxy that did not say what it lets pass: never, or not until the end of the phases."""
    over = next(iter(record.seen(PassagesUnwatched)), None)
    if over is None or not record.spans:
        return []
    last, host = over.last, over.host
    if last is None:
        return [Gap(f"The Toxiproxy of {host} never said what it lets pass", None)]
    if int(last) < record.spans[-1].end - SILENT * SECOND:
        return [Gap(f"From some time on the Toxiproxy of {host} did not say what it lets pass", int(last))]
    return []


def _observe(context: Context) -> Passages | None:
    """Only where Toxiproxies of ours are on the links; those of a cluster's owners are looked at before and after."""
    if context.existing is not None or context.lab.lacks("links") is not None:
        return None
    return Passages(context.lab, context.events, context.moves, context.cut)


INSTRUMENT = Instrument(
    name="passages",
    says="whether an external actor changes what a lab's Toxiproxies let pass",
    observe=_observe,
    begins=Begins.INDEX,
    ends=Ends.LOAD,
    order=60,
    due="passages_watched",
    gaps={Cause.SETTINGS: gaps},
)
