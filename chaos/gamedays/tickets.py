"""The change ticket of a game day, asked whether it permits exactly this, now, and until the window's end.

One GET with a bearer token by reference. No redirect is followed, an answer is bounded in bytes and all of it in time.
Whatever is not a clear yes refuses, in one sentence that never holds the token.
"""

from __future__ import annotations

import json
import queue
import re
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

import urllib3

from chaos.base.access import Access, distrust
from chaos.base.ages import answered
from chaos.base.errors import InvalidInput
from chaos.base.text import one_line
from chaos.definitions.gameday import GameDay, Ticket
from chaos.gamedays.asking import access_of, moment_of, pointed, token_of
from chaos.opensearch.rest import short

DEADLINE_SECONDS = 10.0
"""For all of it: finding the host, connecting, and the whole answer."""
LARGEST = 1 << 20
"""Bytes of an answer at most."""
CHANGE = "{change}"
_PIECE = 1 << 16


@dataclass(frozen=True)
class Asked:
    """What a ticket came to. ``state``: what it says of itself, None where that is not known."""

    ok: bool
    says: str
    state: str | None
    url: str


class Refused(Exception):
    """Why a ticket does not permit it, in words that follow "the change"; ``state`` as of :class:`Asked`."""

    def __init__(self, says: str, state: str | None = None) -> None:
        super().__init__(says)
        self.state = state


def ask(
    ticket: Ticket,
    day: GameDay,
    change: str | None,
    digest: str,
    now: datetime,
    closes: datetime,
    *,
    deadline: float = DEADLINE_SECONDS,
) -> Asked:
    """Whether the change permits the plan with this ``digest`` from ``now`` until ``closes``, the window's end.

    ``change``: what --change gives. ``deadline`` in seconds. Never raises what a server or the environment may cause.
    """
    url, token, state = ticket.url, None, None
    try:
        url = address(ticket.url, change)
        token = None if ticket.token is None else token_of(str(day.resolved(ticket.token)))
        access = access_of(day, url, ticket.ca)
        says, state = judged(ticket, _in_time(url, token, access, deadline, now), digest, now, closes)
        ok = True
    except Refused as error:
        ok, says, state = False, str(error), error.state
    except InvalidInput as error:  # its token, or whom to trust
        ok, says = False, f"cannot be asked: {error}"
    return Asked(ok, _without(token, f"the change {says}"), _without(token, state), url)


def _without(token: str | None, text: Any) -> Any:
    return text.replace(token, "[token]") if token and text is not None else text


def address(url: str, change: str | None) -> str:
    """The address of one change. Raises Refused where there would be another's, or none."""
    if CHANGE not in url:
        return url
    if CHANGE in urlsplit(url).netloc:
        raise Refused(f"cannot be asked: {CHANGE} stands in the host's name, where its token could go anywhere")
    if not change or change in (".", ".."):
        raise Refused("is not named: give it with --change")
    return url.replace(CHANGE, quote(change, safe="", errors="replace"))


def _in_time(url: str, token: str | None, access: Access, deadline: float, now: datetime) -> Any:
    """The document, when all of it is there within the deadline. Raises Refused.

    Asked in a thread of its own: neither the look-up of a name nor a head that comes byte by byte has a deadline.
    """
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def work() -> None:
        try:
            answers.put(_get(url, token, access, deadline, now))
        except Refused as error:
            answers.put(error)
        except Exception as error:
            answers.put(Refused(f"cannot be asked: {type(error).__name__}"))

    threading.Thread(target=work, name="ticket", daemon=True).start()
    try:
        answer = answers.get(timeout=deadline)
    except queue.Empty:
        raise Refused(f"gave no answer within {deadline:g} s") from None
    if isinstance(answer, Refused):
        raise answer
    return answer


def _get(url: str, token: str | None, access: Access, deadline: float, now: datetime) -> Any:
    headers = {"accept": "application/json", "accept-encoding": "identity"}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    with urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(total=deadline), **access.of_pool()) as pool:
        try:
            answer = pool.request("GET", url, headers=headers, redirect=False, preload_content=False)
            try:
                body = bytearray()
                while len(body) <= LARGEST and (piece := answer.read(_PIECE, decode_content=False)):
                    body += piece
            finally:
                answer.close()
        except urllib3.exceptions.NewConnectionError as error:
            raise Refused(f"cannot be asked: {short(error)}") from None
        except urllib3.exceptions.TimeoutError:
            raise Refused(f"gave no answer within {deadline:g} s") from None
        except urllib3.exceptions.HTTPError as error:
            why = distrust(error)
            why = f"the server's certificate is not trusted ({why})" if why else short(error)
            raise Refused(f"cannot be asked: {why}") from None
    if why := _status(answer.status) or answered(answer.headers, now.timestamp()):
        raise Refused(why if answer.status != 200 else f"cannot be believed: {why}")
    if len(body) > LARGEST:
        raise Refused(f"cannot be read: its answer has more than {LARGEST} bytes")
    try:
        return json.loads(bytes(body))
    except (ValueError, RecursionError):
        raise Refused("cannot be read: its answer is no JSON") from None


def _status(status: int) -> str | None:
    """Why a status is no answer."""
    if status == 200:
        return None
    if status in (401, 403):
        return f"cannot be read: the token is refused ({status})"
    if status in (404, 410):
        return f"is not there ({status})"
    if 300 <= status < 400:
        return f"cannot be read: the server sends elsewhere ({status}), and redirects are not followed"
    return f"cannot be read: the server answers {status}"


def judged(ticket: Ticket, document: Any, digest: str, now: datetime, closes: datetime) -> tuple[str, str]:
    """What a change says that permits it, and its state. Raises Refused with why another one does not. Pure."""
    state = _text(document, "state", ticket.state)
    shown = one_line(state)
    if state not in ticket.approved:
        raise Refused(f"is in state {shown!r}: expected {' or '.join(map(repr, ticket.approved))}", shown)
    begins = _time(document, "beginning", ticket.begins, shown)
    ends = _time(document, "end", ticket.ends, shown)
    if now < begins:
        raise Refused(f"begins at {_shown(begins)} only", shown)
    if now >= ends:
        raise Refused(f"ended at {_shown(ends)}", shown)
    if closes > ends:
        raise Refused(f"ends at {_shown(ends)}, before the window does ({_shown(closes)})", shown)
    text = _text(document, "digest", ticket.digest, shown)
    if not re.fullmatch(r"[0-9a-f]{64}", digest) or not re.search(rf"(?<![0-9A-Za-z]){digest}(?![0-9A-Za-z])", text):
        other = re.search(r"(?<![0-9A-Za-z])[0-9a-f]{64}(?![0-9A-Za-z])", text)
        has = f"is for another plan, {other[0][:12]}…" if other else "does not hold the plan's digest"
        raise Refused(f"{has}: expected {digest}", shown)
    return f"is in state {shown!r}, holds until {_shown(ends)}, and is for this plan", shown


def _shown(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _part(document: Any, name: str, pointer: str, state: str | None) -> Any:
    try:
        return pointed(document, pointer)
    except LookupError:
        raise Refused(f"has nothing at {one_line(pointer)}, where its {name} should be", state) from None


def _text(document: Any, name: str, pointer: str, state: str | None = None) -> str:
    value = _part(document, name, pointer, state)
    if not isinstance(value, str):
        raise Refused(f"has no text at {one_line(pointer)}, where its {name} should be", state)
    return value


def _time(document: Any, name: str, pointer: str, state: str) -> datetime:
    found = moment_of(_part(document, name, pointer, state))
    if found is None:
        raise Refused(
            f"has at {one_line(pointer)} no time that is ISO 8601 with an offset, or epoch seconds ({name})", state
        )
    return found
