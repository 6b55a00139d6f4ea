"""Tells people of a game day: by a webhook, in Slack's form, as an annotation of Grafana.

All announcements of an event go out at the same time, each within its own timeout, whatever the other side does. None
raises, and each is told to the day's record as ``announced``.

A webhook gets a POST of one JSON object, UTF-8. Every field is always there; one that is not known is null::

    {"format": 1, "event": "begin", "at": "2026-11-26T09:00:03Z", "gameday": "staging-tuesday", "target": "staging",
     "owner": "team-search", "hypothesis": "One zone may go dark and nobody notices.",
     "says": "All gates let it begin.", "text": "Game day staging-tuesday has begun on staging. …",
     "experiments": ["zone-black-hole (zone)"], "window": "10:00 to 12:00 Europe/Berlin",
     "stop": "ssh chaos@runner touch /run/opensearch-chaos/staging.stop", "outcome": null,
     "record": "gamedays/staging-tuesday-20261126T090000Z", "head": "9f2c…", "digest": "1b7a…", "more": {}}

``event`` is one of before, begin, end, abort, refused. ``at`` is our clock's, UTC. ``text`` is the sentences for
people. ``head`` is the SHA-256 of the record's last line when this was sent, ``digest`` that of the plan. ``more``
holds further facts by name, as text. Receivers must take fields that they do not know.

Slack's form is ``{"text": …, "mrkdwn": false, "unfurl_links": false, "unfurl_media": false}`` with ``&``, ``<`` and
``>`` escaped, so that no name can mention people, link or format (docs.slack.dev, formatting message text).

Grafana gets ``POST /api/annotations`` at begin, and ``PATCH`` with ``timeEnd`` at abort and end, which makes it a
region; other events are annotations of one moment. Its panels show the text as HTML, so it is escaped
(grafana.com, Annotations HTTP API; 12.4).

Redirects are not followed, proxies of the environment are not used. Certificates are verified by the system's trust, or
by the day's own file (``ca``).
"""

from __future__ import annotations

import html
import json
import re
import shlex
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath
from string import Formatter
from typing import Any
from urllib.parse import SplitResult, urlsplit

import urllib3
from pydantic import BaseModel

from chaos.base.access import Access, distrust, secret
from chaos.base.addresses import PORTS
from chaos.base.errors import InvalidInput
from chaos.base.text import NO_VALUE, clip, listed, one_line, printable
from chaos.definitions.gameday import Announcement, Event, GameDay, is_reference
from chaos.gamedays.asking import access_of, address_of, bearer, parts_of
from chaos.gamedays.switches import object_name, thrown
from chaos.opensearch.rest import Garbled, connection_class

FORMAT = 1
NAMES = ("name", "target", "owner", "hypothesis", "says", "experiments", "window", "stop", "record", "head")
"""What a template may name."""
FURTHER = ("digest", "outcome")
"""Facts of a webhook's JSON that no template names."""
STOPPABLE: tuple[Event, ...] = ("before", "begin")
"""Events whose text always says how to stop the day."""
LONGEST_FACT, LONGEST_TEXT, BODY_CHARACTERS = 400, 2500, 80
SHORTEST_SECRET = 6
"""Shorter values are not looked for in messages: they would be found in ordinary words."""
GRACE_SECONDS = 1.0
TEXTS: Mapping[Event, str] = {
    "before": "Game day {name} will begin on {target} now: {experiments}. It is to show: {hypothesis} "
    "Window: {window}. Owner: {owner}. To stop it: {stop}",
    "begin": "Game day {name} has begun on {target}: {experiments}. Faults are made on purpose from now on. "
    "Owner: {owner}. To stop it: {stop}",
    "end": "Game day {name} on {target} is over. {says} Record: {record}, head {head}.",
    "abort": "Game day {name} on {target} was ended early and is over. {says} Owner: {owner}. Record: {record}, "
    "head {head}.",
    "refused": "Game day {name} on {target} did not begin, and nothing was changed. {says} Owner: {owner}.",
}


@dataclass(frozen=True)
class Told:
    """One announcement's fate. ``label`` names the receiver without a secret. ``why``: in words, where not ``ok``."""

    way: str
    label: str
    ok: bool
    why: str | None
    took_ms: float


def stop_line(day: GameDay, host: str) -> str:
    """One line of shell that stops the day from anywhere. ``host``: the runner's name, for where the file names no ssh.

    The remote shell takes the words apart once more, so a path that needs quotes is quoted twice. A pod has another
    name each time, and one of ours has no program but its own, so a day in Kubernetes is stopped by its ConfigMap.
    """
    stop = day.written.stop
    if stop.kubernetes is not None:
        return thrown(stop.kubernetes, object_name(day.name))
    where = stop.ssh or host
    ending = "-- " if where.startswith("-") else ""
    path = shlex.quote(stop.file)
    command = f"touch {stop.file}" if path == stop.file else shlex.quote(f"touch {path}")
    return f"ssh {ending}{shlex.quote(where)} {command}"


def wrong_templates(day: GameDay) -> list[str]:
    """What is wrong with the day's own texts, a sentence each."""
    found = []
    for number, announcement in enumerate(day.written.announce):
        for event, template in announcement.templates.items():
            if (why := _wrong(template)) is not None:
                found.append(f"announce[{number}].templates.{event}: {why}")
    return found


def _wrong(template: str) -> str | None:
    known = ", ".join(f"{{{name}}}" for name in NAMES)
    try:
        for _, name, form, conversion in Formatter().parse(template):
            if name is None:
                continue
            if name not in NAMES:
                return f"there is no {{{one_line(name)}}}: expected one of {known}"
            if form or conversion:
                return f"{{{name}}} takes no format and no conversion: expected {{{name}}} alone"
    except ValueError:
        return f"its braces do not match: expected {{NAME}} of {known}, and {{{{ or }}}} for a brace"
    return None


def label_of(announcement: Announcement) -> str:
    """A reference as it stands in the file, or an address's host."""
    given = announcement.address
    return one_line(given if is_reference(given) else urlsplit(given).hostname or "unknown")


class Announcer:
    """All announcements of one day. Thread-safe. No method raises what a receiver, or a wrong secret, may cause.

    ``stop_line``: see :func:`stop_line`. ``record`` is called once for each, from any thread, as
    ``record("announced", event=, way=, label=, ok=, why=, took_ms=)``. ``now``: seconds since the epoch.

    Facts, all optional: ``says`` (what happened, in a sentence), ``target``, ``experiments`` (their names), ``window``,
    ``record`` (where it is), ``head``, ``digest``, ``outcome``. Others go into a webhook's ``more``.
    """

    def __init__(
        self,
        day: GameDay,
        stop_line: str,
        record: Callable[..., Any],
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._day, self._stop, self._record, self._now = day, stop_line, record, now
        self._lock = threading.Lock()
        self._under_way: list[_Delivery] = []
        self._annotations: dict[int, tuple[int | None, int]] = {}
        """By the announcement's place in the file: the annotation's id where Grafana gave one, and its beginning."""

    def tell(self, event: Event, **facts: Any) -> list[Told]:
        """Tell all that want to know of it; returns within their longest timeout. Not one ok: for "before" refuse."""
        return [each.result(each.timeout + GRACE_SECONDS) for each in self._sent(event, facts)]

    def tell_later(self, event: Event, **facts: Any) -> None:
        """The same, without waiting for any."""
        started = self._sent(event, facts)
        with self._lock:
            self._under_way += started

    def settle(self, within: float) -> list[Told]:
        """What became of all that :meth:`tell_later` sent. Those without an answer ``within`` seconds are not ok."""
        with self._lock:
            waited, self._under_way = self._under_way, []
        until = time.monotonic() + within
        return [each.result(until - time.monotonic()) for each in waited]

    def _sent(self, event: Event, facts: Mapping[str, Any]) -> list[_Delivery]:
        at = self._now()
        made = []
        for number, announcement in enumerate(self._day.written.announce):
            if event in announcement.on:
                delivery = _Delivery(event, announcement, self._record)
                delivery.start(self._work(delivery, number, announcement, event, dict(facts), at))
                made.append(delivery)
        return made

    def _work(
        self,
        delivery: _Delivery,
        number: int,
        announcement: Announcement,
        event: Event,
        facts: dict[str, Any],
        at: float,
    ) -> Callable[[], str | None]:
        def work() -> str | None:
            hidden = _secrets(self._day)
            known = self._facts(facts, hidden)
            text = _text(event, announcement, known)
            address = address_of(self._day, announcement.address)
            token = bearer(self._day.resolved(announcement.token))
            headers = {"Content-Type": "application/json", "User-Agent": "opensearch-chaos", **token}
            access = access_of(self._day, address, announcement.ca)
            send = _Sender(delivery, parts_of(address), access, headers, hidden)
            if announcement.grafana is not None:
                return self._annotate(send, number, announcement, event, text, round(at * 1000))
            body = _slack(text, str(known["stop"])) if announcement.slack is not None else _json(event, text, known, at)
            return send("POST", "", body).why

        return work

    def _facts(self, given: Mapping[str, Any], hidden: Sequence[str]) -> dict[str, Any]:
        """Everything that is said, as text without control characters and secrets; None: not known."""
        written, window = self._day.written, self._day.written.window
        known: dict[str, Any] = {
            **dict.fromkeys((*NAMES, *FURTHER)),
            "target": PurePath(written.target).stem,
            "experiments": [f"{PurePath(step.experiment).stem} ({step.rung})" for step in written.experiments],
            "window": f"{window.from_:%H:%M} to {window.to:%H:%M} {window.zone}",
            **{name: value for name, value in given.items() if value is not None},
            "name": written.name,
            "owner": written.owner,
            "hypothesis": written.hypothesis,
        }

        def plain(value: Any) -> str:
            return clip(_without(one_spaced(value), hidden), LONGEST_FACT)

        said: dict[str, Any] = {
            name: None if known[name] is None else plain(known[name]) for name in (*NAMES, *FURTHER)
        }
        several = known["experiments"]
        many = [several] if isinstance(several, str) or not isinstance(several, Sequence) else several
        said["experiments"] = [plain(each) for each in many[:50]]
        said["stop"] = _without(printable(self._stop), hidden)
        said["more"] = {plain(name): plain(value) for name, value in given.items() if name not in said}
        return said

    def _annotate(
        self, send: _Sender, number: int, announcement: Announcement, event: Event, text: str, at: int
    ) -> str | None:
        """``at``: milliseconds since the epoch. Ends the region of begin where Grafana knows it, else makes one."""
        tags = [*dict.fromkeys((*announcement.tags, "opensearch-chaos", self._day.name, event))]
        said = html.escape(text, quote=False)
        made: dict[str, Any] = {"time": at, "tags": tags, "text": said}
        with self._lock:
            begun = self._annotations.get(number)
            if event == "begin":
                self._annotations[number] = (None, at)
        if event in ("end", "abort") and begun is not None:
            identity, since = begun
            if identity is not None:
                return send("PATCH", f"/api/annotations/{identity}", {"timeEnd": at, "text": said}).why
            made |= {"time": since, "timeEnd": at}
        answer = send("POST", "/api/annotations", made)
        if event != "begin" or answer.why is not None:
            return answer.why
        identity = answer.id
        if identity is None:
            return "it gave no id of the annotation, so that its region cannot be ended"
        with self._lock:
            self._annotations[number] = (identity, at)
        return None


def one_spaced(value: Any) -> str:
    """Any value as one printable line."""
    try:
        return printable(" ".join(str(value).split()))
    except Exception:
        return "?"


class _Delivery:
    """One announcement on its way: ends once, by its answer, by its timeout, or when nobody waits any longer."""

    def __init__(self, event: Event, announcement: Announcement, record: Callable[..., Any]) -> None:
        self.timeout = float(announcement.timeout)
        self._limit = announcement.timeout.text
        self._event, self._record = event, record
        self._way, self._label = announcement.way, label_of(announcement)
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._told: Told | None = None
        self._over = threading.Event()
        self._connection: Any = None
        self._timer = threading.Timer(self.timeout, self._end, (f"no answer within {self._limit}",))
        self._timer.daemon = True

    def start(self, work: Callable[[], str | None]) -> None:
        """``work`` returns why it failed, None where it did not; what it raises is a failure."""

        def run() -> None:
            try:
                why = work()
            except Exception as error:
                why = self._words(error)
            self._end(why)

        try:
            self._timer.start()
            threading.Thread(target=run, name=f"announce {self._event}", daemon=True).start()
        except RuntimeError:  # no more threads
            self._end("this machine starts no more threads")

    def result(self, within: float) -> Told:
        """Waits for its end for so many seconds at most, and then ends it."""
        if not self._over.wait(max(0.0, within)):
            self._end("no answer by the time that nobody waited any longer")
        assert self._told is not None
        return self._told

    def connected(self, connection: Any) -> None:
        """Take a connection, which is closed when the time is over. Raises TimeoutError when it is already."""
        with self._lock:
            if self._told is not None:
                raise TimeoutError
            self._connection = connection

    def _end(self, why: str | None) -> None:
        took = round((time.monotonic() - self._began) * 1000, 1)
        with self._lock:
            if self._told is not None:
                return
            told = self._told = Told(self._way, self._label, why is None, why, took)
            connection, self._connection = self._connection, None
        self._timer.cancel()
        with suppress(Exception):  # the record's owner is told by the record itself
            self._record(
                "announced",
                event=self._event,
                way=told.way,
                label=told.label,
                ok=told.ok,
                why=told.why,
                took_ms=told.took_ms,
            )
        self._over.set()
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def _words(self, error: Exception) -> str:
        """Why, in our own words: those of others may hold the address, which may be a secret."""
        if isinstance(error, InvalidInput):
            return error.message
        if isinstance(error, Garbled):
            return "its answer is no HTTP, or was cut short"
        if isinstance(error, urllib3.exceptions.NameResolutionError):
            return "its host's name cannot be resolved"
        if isinstance(error, urllib3.exceptions.NewConnectionError):
            cause = error.__cause__ or error.__context__
            reason = getattr(cause, "strerror", None)
            return f"it cannot be reached: {reason}" if reason else "it cannot be reached"
        if isinstance(error, urllib3.exceptions.TimeoutError | TimeoutError):
            return f"no answer within {self._limit}"
        if distrust(error) is not None:
            return "its certificate is not trusted"
        if isinstance(error, ssl.SSLError):
            return "it speaks no TLS that we take"
        if isinstance(error, OSError | urllib3.exceptions.ProtocolError):
            return "it closed the connection before an answer"
        return f"sending failed: {type(error).__name__}"


@dataclass(frozen=True)
class _Answer:
    why: str | None
    id: int | None = None


@dataclass(frozen=True)
class _Sender:
    """Sends JSON to one address, each time over a connection of its own."""

    delivery: _Delivery
    parts: SplitResult
    access: Access
    headers: Mapping[str, str]
    hidden: Sequence[str]

    def __call__(self, method: str, below: str, body: Mapping[str, Any]) -> _Answer:
        """``below`` is put after the address's path. Raises what a connection raises."""
        port = self.parts.port or PORTS[self.parts.scheme]
        host = str(self.parts.hostname)
        connection = connection_class(None, tls=self.access.tls)(
            host, port, timeout=self.delivery.timeout, **self.access.of_pool()
        )
        path = f"{self.parts.path.rstrip('/')}{below}" if below else self.parts.path or "/"
        target = f"{path}?{self.parts.query}" if self.parts.query and not below else path
        data = json.dumps(body, ensure_ascii=False).encode(errors="replace")
        try:
            self.delivery.connected(connection)
            connection.connect()
            self.delivery.connected(connection)
            connection.request(method, target, body=data, headers=dict(self.headers))
            answer = connection.getresponse()
            return self._read(answer.status, answer.data)
        finally:
            connection.close()

    def _read(self, status: int, body: bytes) -> _Answer:
        if 200 <= status < 300:
            identity: Any = None
            with suppress(ValueError, RecursionError):
                said = json.loads(body)
                identity = said.get("id") if isinstance(said, dict) else None
            return _Answer(None, identity if type(identity) is int else None)
        if 300 <= status < 400:
            return _Answer(f"it sends elsewhere ({status}), and redirects are not followed")
        said = one_line(body[:4096].decode(errors="replace"))
        address = f"{self.parts.netloc}{self.parts.path}?{self.parts.query}"
        if not said or _echoes(body.decode(errors="replace"), (*self.hidden, address)):
            return _Answer(f"it answers {status}")
        return _Answer(f"it answers {status}: {said[:BODY_CHARACTERS]}")


def _secrets(day: GameDay) -> list[str]:
    """The values of all secrets that the day's file refers to, longest first; those that can be read."""
    found = set()
    for reference in set(_references(day.written)):
        with suppress(InvalidInput, OSError, ValueError):
            found.add(secret(str(day.resolved(reference))).strip())
    return sorted((each for each in found if len(each) >= SHORTEST_SECRET), key=len, reverse=True)


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _references(getattr(value, name))
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _references(each)
    elif isinstance(value, str) and is_reference(value):
        yield value


def _without(text: str, hidden: Sequence[str]) -> str:
    for value in hidden:
        text = text.replace(value, "***")
    return text


def _echoes(text: str, hidden: Sequence[str]) -> bool:
    """Whether a text holds a piece of a secret, 8 characters of it, or all of a shorter one."""
    return any(value[at : at + 8] in text for value in hidden if value for at in range(max(1, len(value) - 7)))


def _text(event: Event, announcement: Announcement, known: Mapping[str, Any]) -> str:
    """Our sentences, or the day's own. One with a mistake in it, which is found at load, is replaced by ours."""
    template = announcement.templates.get(event, TEXTS[event])
    if _wrong(template) is not None:
        template = TEXTS[event]
    words = {name: known[name] if known[name] is not None else NO_VALUE for name in NAMES}
    words["experiments"] = listed(list(known["experiments"])) or NO_VALUE
    words["says"] = known["says"] or ""
    made = "".join(f"{literal}{words[name] if name else ''}" for literal, name, _, _ in Formatter().parse(template))
    made = clip(re.sub(r"[^\S\n]+", " ", made).strip(), LONGEST_TEXT)
    made = "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in made)
    if event in STOPPABLE and words["stop"] not in made:
        made += f"\nTo stop it: {words['stop']}"
    return made


def _json(event: Event, text: str, known: Mapping[str, Any], at: float) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "event": event,
        "at": f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}",
        "gameday": known["name"],
        "text": text,
        **{name: known[name] for name in (*NAMES, *FURTHER, "more") if name != "name"},
    }


def _slack(text: str, stop: str) -> dict[str, Any]:
    """The stop line stays as it is, so that it can be copied; in the rest no backtick and no mention is left."""

    def tame(part: str) -> str:
        return re.sub(r"@(?=\w)", "@\u200b", part.replace("`", "'"))

    said = stop.join(map(tame, text.split(stop))) if stop else tame(text)
    escaped = said.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": escaped, "mrkdwn": False, "unfurl_links": False, "unfurl_media": False}
