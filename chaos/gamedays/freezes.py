"""Calendars of days on which nothing may be touched (``freezes``): YAML of ours, or iCalendar (RFC 5545).

A calendar that cannot be read, is too old, or says something that is not understood freezes. Times that are in doubt
freeze longer: a wall's time that occurs twice or never begins at its earliest and ends at its latest meaning.

How old an address is: since its ``Last-Modified`` where it says one, as a file is since it was last written; and since
it was made (``Date``, ``Age``), which tells a cache's copy. Where it says neither, that is too old. Without ``oldest``
an answer may be of any content's age, and was made within the last hour.
"""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar
from zoneinfo import ZoneInfo

import urllib3
from dateutil.rrule import rrulestr
from pydantic import AfterValidator, Field, model_validator

from chaos.base.access import distrust
from chaos.base.ages import answered
from chaos.base.errors import InvalidInput
from chaos.base.text import clip, one_line
from chaos.base.units import Malformed
from chaos.definitions.base import API_VERSION, Strict
from chaos.definitions.gameday import Freeze, GameDay, TimeZone, Words, is_reference
from chaos.definitions.loading import validated
from chaos.definitions.source import Source
from chaos.gamedays.asking import access_of, address_of, bearer
from chaos.gamedays.windows import local, shown

SECONDS = 20.0
"""For one calendar, from the first connection to the answer."""
MOST_BYTES = 5_000_000
MOST_OCCURRENCES = 200_000
"""Of all that repeats in one calendar; a daily event of 500 years has fewer."""
A_DAY = timedelta(days=1)
ANSWERED_SECONDS = 3600.0
"""How long an answer may have lain in a cache where the file says nothing of its age."""
SKEW = timedelta(minutes=5)
"""How far another machine's clock may be ahead."""
Judge = Callable[[datetime, datetime], str | None]
"""Why nothing may be touched from a moment until before another, in one sentence; None: it may. Where the second is not
after the first, that moment is meant."""
_T = TypeVar("_T")


class Unclear(Exception):
    """A calendar does not say whether it freezes; the text says why."""


def frozen_by(
    day: GameDay, begins: datetime, ends: datetime, now: datetime, *, deadline: float = SECONDS
) -> list[tuple[str, str | None]]:
    """Every calendar of a day by its label, with why it freezes these moments; None: it does not."""
    return [(freeze.label, frozen(day, freeze, begins, ends, now, deadline=deadline)) for freeze in day.written.freezes]


def frozen(
    day: GameDay, freeze: Freeze, begins: datetime, ends: datetime, now: datetime, *, deadline: float = SECONDS
) -> str | None:
    """What :func:`read` makes, for one question."""
    return read(day, freeze, now, deadline=deadline)(begins, ends)


def read(day: GameDay, freeze: Freeze, now: datetime, *, deadline: float = SECONDS) -> Judge:
    """Read a calendar once, for any number of questions.

    ``now``: against which its age is held. ``deadline``: seconds for reading it, and as many for each question. Raises
    ValueError where a moment has no zone; whatever is wrong with the calendar is the answer to each question.
    """
    if now.utcoffset() is None:
        raise ValueError("a moment without a zone")
    zone = ZoneInfo(day.written.window.zone)
    look: Callable[[Span], str | None] | None = None
    try:
        look = _within(deadline, lambda: _read(day, freeze, now.astimezone(UTC), zone, deadline))
    except Exception as error:
        unread = _nobody(error)

    def judge(begins: datetime, ends: datetime) -> str | None:
        if None in (begins.utcoffset(), ends.utcoffset()):
            raise ValueError("a moment without a zone")
        if look is None:
            return unread
        begins, ends = begins.astimezone(UTC), ends.astimezone(UTC)
        asked = Span(begins, max(ends, begins + timedelta(seconds=1)))
        try:
            return _within(deadline, lambda: look(asked))
        except Exception as error:
            return _nobody(error)

    return judge


def _nobody(error: Exception) -> str:
    return f"nobody can say whether it freezes: {error if isinstance(error, Unclear) else type(error).__name__}"


@dataclass(frozen=True)
class Span:
    """From ``begins`` until before ``ends``, in UTC. One without length is a moment."""

    begins: datetime
    ends: datetime

    def meets(self, other: Span) -> bool:
        return other.begins < self.ends and (self.begins < other.ends or self.begins == other.begins)


def _within(deadline: float, work: Callable[[], _T]) -> _T:
    """What ``work`` gives. Raises Unclear where that takes longer; its thread is left behind then."""
    made: list[_T] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            made.append(work())
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="freeze", daemon=True)
    thread.start()
    thread.join(deadline)
    if failed:
        raise failed[0]
    if not made:
        raise Unclear(f"it could not be read within {deadline:g} s")
    return made[0]


def _read(day: GameDay, freeze: Freeze, now: datetime, zone: ZoneInfo, deadline: float) -> Callable[[Span], str | None]:
    if freeze.yaml is not None:
        path = day.beside(freeze.yaml)
        _ = _stored(path, freeze, now)
        file = _ours(path)
        return lambda asked: _hit_by_ours(file, asked, zone)
    assert freeze.ics is not None
    remote = freeze.remote
    events = parsed(_fetched(day, freeze, now, deadline) if remote else _stored(day.beside(freeze.ics), freeze, now))
    return lambda asked: _hit_by(events, asked, zone)


def _hit(span: Span, zone: ZoneInfo, why: str) -> str:
    said = one_line(why) or "no reason is given"
    return f"frozen from {_said(span.begins, zone)} to {_said(span.ends, zone)}: {said}"


def _said(moment: datetime, zone: ZoneInfo) -> str:
    try:
        return shown(local(moment, zone))
    except OverflowError:
        return f"{moment:%Y-%m-%d}"


# ------------------------------------------------------------------------------------------- from where


def _stored(path: Path, freeze: Freeze, now: datetime) -> bytes:
    """A file's content. Raises Unclear where it cannot be read, or was last written too long ago."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise Unclear("it is a folder" if stat.S_ISDIR(mode) else "it is no regular file")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
            written = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
    except OSError as error:
        raise Unclear(f"the file cannot be read: {error.strerror}") from None
    _refuse_large(len(content))
    _refuse_old(freeze, now, {"last written": written})
    return content


def _refuse_large(size: int) -> None:
    if size > MOST_BYTES:
        raise Unclear(f"it has more than {MOST_BYTES // 1_000_000} MB")


def _refuse_old(freeze: Freeze, now: datetime, since: Mapping[str, datetime]) -> None:
    """Raises Unclear where one of these moments is too long ago, or is yet to come."""
    if freeze.oldest is None:
        return
    for what, moment in since.items():
        age = now - moment
        if age < -SKEW:
            raise Unclear(f"it was {what} in {round(-age.total_seconds())} s: one of two clocks is wrong")
        if age.total_seconds() > float(freeze.oldest):
            raise Unclear(f"it was {what} at {moment:%Y-%m-%d %H:%M} UTC, and may be {freeze.oldest.text} old")


def _fetched(day: GameDay, freeze: Freeze, now: datetime, deadline: float) -> bytes:
    """What the address answers. Neither the address nor the token is in what is raised."""
    assert freeze.ics is not None
    hidden = is_reference(freeze.ics)
    try:
        address = address_of(day, freeze.ics)
        access = access_of(day, address, freeze.ca)
        token = bearer(day.resolved(freeze.token))
    except InvalidInput as error:
        raise Unclear(error.message) from None
    headers = {"accept": "text/calendar", "cache-control": "no-cache", "accept-encoding": "identity", **token}
    end = time.monotonic() + deadline
    try:
        with urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(deadline), **access.of_pool()) as pool:
            answer = pool.request("GET", address, headers=headers, redirect=False, preload_content=False)
            try:
                content = _answered(answer, freeze, now, end)
            finally:
                answer.close()
    except urllib3.exceptions.HTTPError as error:
        why = distrust(error)
        if why and hidden:
            why = re.sub("'.*'", "its host", why)  # OpenSSL says for whom a certificate is not valid
        says = f"its certificate is not trusted: {one_line(why)}" if why else _short(error)
        raise Unclear(f"the address does not answer: {says}") from None
    return content.replace(address.encode(), freeze.ics.encode()) if hidden else content


def _answered(answer: urllib3.BaseHTTPResponse, freeze: Freeze, now: datetime, end: float) -> bytes:
    if 300 <= answer.status < 400:
        raise Unclear(f"the address sends elsewhere ({answer.status}), and redirects are not followed")
    if answer.status != 200:
        raise Unclear(f"the address answers {answer.status}")
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        raise Unclear("the answer is compressed, which was not asked for")
    content = b""
    while piece := answer.read1(65_536):
        content += piece
        _refuse_large(len(content))
        if time.monotonic() > end:
            raise Unclear("the answer takes too long")
    if freeze.oldest is not None:
        _refuse_old(freeze, now, _moments(answer.headers, now))
    elif (elsewhen := answered(answer.headers, now.timestamp(), ANSWERED_SECONDS)) is not None:
        raise Unclear(elsewhen)
    return content


def _moments(headers: Mapping[str, str], now: datetime) -> dict[str, datetime]:
    """Since when an answer is what it is. Raises Unclear where it does not say, or a header cannot be read."""
    found: dict[str, datetime] = {}
    for name, what in (("last-modified", "last changed"), ("date", "made")):
        if name in headers:
            try:
                said = parsedate_to_datetime(headers[name])
                found[what] = said.astimezone(UTC) if said.tzinfo is not None else said.replace(tzinfo=UTC)
            except (ValueError, IndexError, OverflowError):
                raise Unclear(f"its {name} is no date") from None
    if not found:
        raise Unclear("it does not say how old it is, by neither Last-Modified nor Date")
    if "age" in headers:
        if not re.fullmatch(r"[0-9]{1,9}", headers["age"], re.ASCII):
            raise Unclear("its age is no number of seconds")
        found["taken into a cache"] = now - timedelta(seconds=int(headers["age"]))
    return found


def _short(error: urllib3.exceptions.HTTPError) -> str:
    """The kind of an error without its text, in which the address is."""
    kinds = {
        urllib3.exceptions.NameResolutionError: "its name is not known",
        urllib3.exceptions.NewConnectionError: "nothing listens there",
        urllib3.exceptions.TimeoutError: "too slow",
        urllib3.exceptions.IncompleteRead: "the answer was cut off",
        urllib3.exceptions.SSLError: "TLS failed",
    }
    errors = (error, *error.args)  # what was cut off is an argument of a ProtocolError
    return next((says for kind, says in kinds.items() for each in errors if isinstance(each, kind)), "it broke off")


# ------------------------------------------------------------------------------------------ YAML of ours

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?)?", re.ASCII)


def _moment(text: str) -> str:
    says = f"cannot read {text!r}: expected a day, such as 2026-12-18, or a moment, such as '2026-12-18T17:00'"
    if _MOMENT.fullmatch(text) is None:
        raise Malformed(says)
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise Malformed(says) from None
    return text


def _offset_in(text: str) -> bool:
    return datetime.fromisoformat(text).tzinfo is not None


Moment = Annotated[str, AfterValidator(_moment)]


class FrozenSpan(Strict):
    """One freeze."""

    from_: Moment = Field(alias="from", description="first day, for example 2026-12-18, or a moment")
    to: Moment = Field(description="last day, which is frozen too, or the moment at which it ends")
    zone: TimeZone | None = Field(default=None, description="whose clock; default the window's")
    why: Words = Field(description="for people, for example end of year")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.whole_days != (len(self.to) == 10):
            raise Malformed("a day and a moment: expected two days, or two moments")
        if self.whole_days and self.to < self.from_:
            raise Malformed(f"to {self.to} is before from {self.from_}: expected the other way round")
        if not self.whole_days and (_offset_in(self.from_) != _offset_in(self.to)):
            raise Malformed("only one has an offset: expected it for both, or for none")
        span = self.span(ZoneInfo("UTC"))
        if not self.whole_days and span.ends <= span.begins:
            raise Malformed(f"to {self.to} is not after from {self.from_}: expected the other way round")
        return self

    @property
    def whole_days(self) -> bool:
        return len(self.from_) == 10

    def span(self, zone: ZoneInfo) -> Span:
        """``zone``: the window's."""
        zone = ZoneInfo(self.zone) if self.zone is not None else zone
        if self.whole_days:
            return days(datetime.fromisoformat(self.from_), _plus(datetime.fromisoformat(self.to), A_DAY), zone)
        begins, ends = datetime.fromisoformat(self.from_), datetime.fromisoformat(self.to)
        return Span(
            earliest(begins, zone) if begins.tzinfo is None else begins.astimezone(UTC),
            latest(ends, zone) if ends.tzinfo is None else ends.astimezone(UTC),
        )


class FreezesFile(Strict):
    """A calendar of ours as written."""

    api_version: Literal["opensearch-chaos/v1"] = Field(
        default="opensearch-chaos/v1", alias="apiVersion", description=API_VERSION
    )
    kind: Literal["freezes"] = Field(default="freezes", description="freezes")
    freezes: tuple[FrozenSpan, ...] = Field(description="an empty list freezes nothing")


def load_freezes(path: Path) -> FreezesFile:
    """Read a calendar of ours. Raises InvalidInput with file, line and column of every error."""
    source = Source.read(path)
    source.data.setdefault("kind", "freezes")
    file = validated(source, FreezesFile, "freezes")
    source.raise_if_wrong()
    assert file is not None
    return file


def _ours(path: Path) -> FreezesFile:
    """A calendar of ours. Raises Unclear."""
    try:
        return load_freezes(path)
    except InvalidInput as error:
        lines = error.message.splitlines()
        more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
        raise Unclear(f"{clip(lines[0])}{more}") from None


def _hit_by_ours(file: FreezesFile, asked: Span, zone: ZoneInfo) -> str | None:
    for each in file.freezes:
        if asked.meets(span := each.span(zone)):
            return _hit(span, zone, each.why)
    return None


def earliest(wall: datetime, zone: ZoneInfo) -> datetime:
    """The earliest moment, in UTC, that a wall's time may mean."""
    try:
        return min(wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    except OverflowError:
        return wall.replace(tzinfo=UTC)


def latest(wall: datetime, zone: ZoneInfo) -> datetime:
    """The latest moment, in UTC, that a wall's time may mean."""
    try:
        return max(wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    except OverflowError:
        return wall.replace(tzinfo=UTC)


def days(first: datetime, after: datetime, zone: ZoneInfo) -> Span:
    """Whole days of a zone, until before ``after``; both are midnights."""
    return Span(earliest(first, zone), latest(after, zone))


def _plus(moment: datetime, length: timedelta) -> datetime:
    """A sum; what is behind the year 9999 is its end."""
    try:
        return moment + length
    except OverflowError:
        return datetime.max.replace(tzinfo=moment.tzinfo)


# --------------------------------------------------------------------------------------------- iCalendar

_NAME = r"[A-Za-z0-9-]+"
_LINE = re.compile(rf'({_NAME})((?:;{_NAME}=(?:"[^"]*"|[^";:,]*)(?:,(?:"[^"]*"|[^";:,]*))*)*):(.*)', re.DOTALL)
_PARAMETER = re.compile(rf'({_NAME})=((?:"[^"]*"|[^";:,]*)(?:,(?:"[^"]*"|[^";:,]*))*)')
_DURATION = re.compile(r"\+?P(?:(\d+)W|(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?)", re.ASCII)
ONCE = ("DTSTART", "DTEND", "DURATION", "RRULE", "RECURRENCE-ID", "STATUS", "UID")
READ = (*ONCE, "EXDATE", "RDATE", "SUMMARY")


@dataclass(frozen=True)
class Property:
    """One line: its name and its parameters' names in capitals."""

    name: str
    parameters: Mapping[str, str]
    value: str


@dataclass
class Event:
    """The properties of one VEVENT that are read."""

    properties: dict[str, list[Property]] = field(default_factory=dict)

    def one(self, name: str) -> Property | None:
        found = self.properties.get(name, [])
        if len(found) > 1:
            raise Unclear(f"{self} has {len(found)} {name}, and one was expected")
        return found[0] if found else None

    @property
    def cancelled(self) -> bool:
        status = self.one("STATUS")
        return status is not None and status.value.strip().upper() == "CANCELLED"

    @property
    def uid(self) -> str | None:
        found = self.one("UID")
        return None if found is None else found.value

    @property
    def summary(self) -> str:
        return _text(found[0].value) if (found := self.properties.get("SUMMARY")) else ""

    def __str__(self) -> str:
        return f"the event “{clip(one_line(self.summary), 80)}”" if self.summary.strip() else "an event without summary"


@dataclass(frozen=True)
class When:
    """A date, or a wall's time in a zone."""

    wall: datetime
    zone: ZoneInfo
    whole_day: bool

    def seen(self, other: When) -> datetime:
        """This moment on the wall of another's zone."""
        if self.whole_day or other.whole_day or self.zone.key == other.zone.key:
            return self.wall
        return earliest(self.wall, self.zone).astimezone(other.zone).replace(tzinfo=None, fold=0)


def read_calendar(content: bytes, asked: Span, zone: ZoneInfo) -> str | None:
    """Why a calendar freezes; None: it does not. ``zone``: of floating times, and of days. Raises Unclear."""
    return _hit_by(parsed(content), asked, zone)


def _hit_by(every: Sequence[Event], asked: Span, zone: ZoneInfo) -> str | None:
    events = [event for event in every if not _leaves_out(event)]
    moved: dict[str, list[Event]] = {}
    for event in events:
        if event.one("RECURRENCE-ID") is not None and event.uid is not None:
            moved.setdefault(event.uid, []).append(event)
    left = [MOST_OCCURRENCES]
    for event in events:
        if event.cancelled:
            continue
        mine = moved.get(event.uid or "", []) if event.one("RECURRENCE-ID") is None else []
        for span in _spans(event, mine, asked, zone, left):
            if asked.meets(span):
                return _hit(span, zone, event.summary)
    return None


def _leaves_out(event: Event) -> bool:
    """Whether it is cancelled as a whole; a cancelled occurrence is still needed, to leave it out."""
    return event.cancelled and event.one("RECURRENCE-ID") is None


def parsed(content: bytes) -> list[Event]:
    """The events of a calendar. Raises Unclear where it is none, is cut off, or holds none."""
    if not content.strip():
        raise Unclear("it is empty")
    unfolded = re.sub(rb"\r?\n[ \t]", b"", content.removeprefix(b"\xef\xbb\xbf"))  # a fold may be within a character
    try:
        text = unfolded.decode("utf-8")
    except UnicodeDecodeError:
        raise Unclear("it is not UTF-8 text") from None
    events: list[Event] = []
    stack: list[str] = []
    for line in re.split(r"\r?\n", text):
        if not line.strip():
            continue
        if not stack and line.strip().upper() != "BEGIN:VCALENDAR":
            raise Unclear("it is no calendar: BEGIN:VCALENDAR was expected")
        if stack and stack[-1] != "VEVENT" and not re.match(r"(BEGIN|END)\s*:", line, re.IGNORECASE):
            continue  # of a time zone, an alarm or another component
        read = _property(line)
        if read.name == "BEGIN":
            component = read.value.strip().upper()
            if component == "VFREEBUSY":
                raise Unclear("it says when somebody is busy, and events were expected")
            if component == "VEVENT":
                if stack != ["VCALENDAR"]:
                    raise Unclear("an event is within another component")
                events.append(Event())
            stack.append(component)
        elif read.name == "END":
            if not stack or stack.pop() != read.value.strip().upper():
                raise Unclear("a component ends that did not begin")
        elif read.name in READ:
            events[-1].properties.setdefault(read.name, []).append(read)
    if stack:
        raise Unclear(f"it is cut off: END:{one_line(stack[-1])} was expected")
    if not events:
        raise Unclear("it has no event, not even an old one, which is also what is seen without the right to see any")
    return events


def _property(line: str) -> Property:
    found = _LINE.fullmatch(line)
    if found is None:
        raise Unclear(f"a line of an event cannot be read: {clip(one_line(line), 60)}")
    parameters = {name.upper(): value for name, value in _PARAMETER.findall(found[2])}
    return Property(found[1].upper(), parameters, found[3])


def _text(value: str) -> str:
    r"""What ``\,``, ``\;``, ``\\`` and ``\n`` stand for."""
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] in "nN" else found[1], value)


def _spans(event: Event, moved: Sequence[Event], asked: Span, zone: ZoneInfo, left: list[int]) -> Iterator[Span]:
    """When an event is, as far as it may meet what is asked. ``moved``: single occurrences that are told apart.

    ``left``: how many occurrences may still be looked at.
    """
    begins = event.one("DTSTART")
    if begins is None:
        raise Unclear(f"{event} does not say when it begins")
    start = _when(event, begins, begins.value, zone)
    length, exact = _length(event, start, zone)
    without = {_key(each, start) for each in _listed(event, "EXDATE", zone)}
    for each in moved:
        which = each.one("RECURRENCE-ID")
        assert which is not None
        if "RANGE" in which.parameters:
            raise Unclear(f"{each} changes itself and all that follow (RANGE), which is not understood")
        without.add(_key(_when(each, which, which.value, zone), start))
    walls = [start.wall, *(each.seen(start) for each in _listed(event, "RDATE", zone))]
    rule = event.one("RRULE")
    for wall in (*walls, *(_repeated(event, rule, start, asked, left, zone) if rule is not None else ())):
        if (wall, start.whole_day) in without:
            continue
        if start.whole_day:
            yield days(wall, _plus(wall, length), start.zone)
        else:
            first = earliest(wall, start.zone)
            yield Span(first, max(latest(_plus(wall, length), start.zone), _plus(first, exact)))


def _key(when: When, start: When) -> tuple[datetime, bool]:
    """What an occurrence is known by. A day never is one of an event with a time."""
    return when.seen(start), when.whole_day


def _when(event: Event, of: Property, value: str, zone: ZoneInfo) -> When:
    """One value of DTSTART and its like."""
    value = value.strip()
    kind = of.parameters.get("VALUE", "").upper()
    if kind not in ("", "DATE", "DATE-TIME"):
        raise Unclear(f"{event}: {of.name} of the kind {one_line(kind)} is not understood")
    named = of.parameters.get("TZID", "").strip('"')
    found = re.fullmatch(r"(\d{8})(?:T(\d{4}(?:[0-5]\d|60))(Z?))?", value, re.ASCII)
    if found is None or (found[2] is None) != (kind == "DATE" or (kind == "" and len(value) == 8)):
        raise Unclear(f"{event}: {of.name} {clip(one_line(value), 40)} is not understood")
    try:
        wall = datetime.strptime(found[1] + re.sub("60$", "59", found[2] or "000000"), "%Y%m%d%H%M%S")
    except ValueError:
        raise Unclear(f"{event}: {of.name} {value} does not exist") from None
    if found[2] is None:
        return When(wall, zone, True)
    if found[3]:
        return When(wall, ZoneInfo("UTC"), False)
    if not named:
        return When(wall, zone, False)
    try:
        return When(wall, ZoneInfo(named), False)
    except (ValueError, OSError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        says = f"{event}: there is no time zone {clip(one_line(named), 60)}: expected a name of IANA's"
        raise Unclear(says) from None


def _length(event: Event, start: When, zone: ZoneInfo) -> tuple[timedelta, timedelta]:
    """How long an event is by the wall's clock, and elapsed. They differ where a clock is set in it."""
    ends, lasts = event.one("DTEND"), event.one("DURATION")
    if ends is not None and lasts is not None:
        raise Unclear(f"{event} has both DTEND and DURATION")
    if lasts is not None:
        length = _duration(event, lasts.value.strip())
        if start.whole_day:
            length = max(1, -(-length // A_DAY)) * A_DAY
        return length, length
    if ends is None:
        return (A_DAY if start.whole_day else timedelta(0),) * 2
    end = _when(event, ends, ends.value, zone)
    if end.whole_day != start.whole_day:
        raise Unclear(f"{event} has a day and a moment for its ends")
    length = end.seen(start) - start.wall
    if start.whole_day:
        if length < timedelta(0):
            raise Unclear(f"{event} ends before it begins")
        return (max(length, A_DAY),) * 2
    exact = latest(end.wall, end.zone) - earliest(start.wall, start.zone)
    if exact < timedelta(0):
        raise Unclear(f"{event} ends before it begins")
    return max(length, timedelta(0)), exact


def _duration(event: Event, value: str) -> timedelta:
    found = _DURATION.fullmatch(value)
    if found is None or not any(found.groups()):
        raise Unclear(f"{event}: DURATION {clip(one_line(value), 40)} is not understood")
    weeks, of_days, hours, minutes, seconds = (int(each or 0) for each in found.groups())
    try:
        return timedelta(weeks=weeks, days=of_days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        raise Unclear(f"{event}: DURATION {clip(one_line(value), 40)} is not understood") from None


def _listed(event: Event, name: str, zone: ZoneInfo) -> Iterator[When]:
    """The values of all EXDATE or RDATE."""
    for each in event.properties.get(name, []):
        for value in each.value.split(","):
            yield _when(event, each, value, zone)


# ------------------------------------------------------------------------------------------------- rules

_NUMBERS = {
    "BYMONTH": (1, 12),
    "BYMONTHDAY": (-31, 31),
    "BYYEARDAY": (-366, 366),
    "BYWEEKNO": (-53, 53),
    "BYSETPOS": (-366, 366),
    "BYHOUR": (0, 23),
    "BYMINUTE": (0, 59),
    "BYSECOND": (0, 59),
    "INTERVAL": (1, 10_000),
    "COUNT": (1, 1_000_000),
}
_WEEKDAY = "MO|TU|WE|TH|FR|SA|SU"


def _repeated(
    event: Event, rule: Property, start: When, asked: Span, left: list[int], zone: ZoneInfo
) -> Iterator[datetime]:
    """The wall's times of a rule, up to the first that is behind all that is asked."""
    parts = _parts(event, rule)
    until = parts.pop("UNTIL", None)
    end = None if until is None else _until(event, rule, until, start, zone)
    written = ";".join(f"{name}={value}" for name, value in parts.items())
    try:
        repeated = rrulestr(written, dtstart=start.wall)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
        raise Unclear(f"{event}: RRULE {clip(one_line(rule.value), 80)} is not understood") from None
    behind = _plus(asked.ends, 2 * A_DAY).replace(tzinfo=None)  # no zone is two days ahead
    for wall in repeated:
        if wall > behind or (end is not None and wall > end):
            return
        left[0] -= 1
        if left[0] < 0:
            raise Unclear(f"{event}: it repeats too often to be followed until then")
        yield wall


def _parts(event: Event, rule: Property) -> dict[str, str]:
    """A rule's parts, each looked at: what dateutil does not refuse may never occur, or never end."""
    unclear = Unclear(f"{event}: RRULE {clip(one_line(rule.value), 80)} is not understood")
    parts: dict[str, str] = {}
    for part in rule.value.strip().upper().split(";"):
        name, is_there, value = part.partition("=")
        if not is_there or name in parts:
            raise unclear
        parts[name] = value
    if parts.get("FREQ") not in ("DAILY", "WEEKLY", "MONTHLY", "YEARLY") or {"COUNT", "UNTIL"} <= parts.keys():
        raise unclear
    for name, value in parts.items():
        if name in _NUMBERS:
            low, high = _NUMBERS[name]
            if not re.fullmatch(r"[+-]?\d{1,7}(,[+-]?\d{1,7})*", value, re.ASCII):
                raise unclear
            numbers = [int(each) for each in value.split(",")]
            if any(not low <= each <= high or (each == 0 and low < 0) for each in numbers):
                raise unclear
        elif name == "BYDAY":
            ordinal = r"(?:[+-]?(?:[1-9]|[1-4]\d|5[0-3]))?" if parts["FREQ"] in ("MONTHLY", "YEARLY") else ""
            if not re.fullmatch(rf"{ordinal}(?:{_WEEKDAY})(?:,{ordinal}(?:{_WEEKDAY}))*", value, re.ASCII):
                raise unclear
        elif name == "WKST":
            if not re.fullmatch(_WEEKDAY, value):
                raise unclear
        elif name not in ("FREQ", "UNTIL"):
            raise unclear
    return parts


def _until(event: Event, rule: Property, value: str, start: When, zone: ZoneInfo) -> datetime:
    """The last moment of a rule on the event's wall; that of a day is its end."""
    end = _when(event, Property("UNTIL", {}, value), value, zone)
    last = datetime.combine(end.wall.date(), datetime.max.time())
    if end.whole_day:
        return last
    if not value.endswith("Z"):  # as the event's own clock shows it
        return last if start.whole_day else end.wall
    seen = end.seen(When(start.wall, start.zone, False))
    return max(last, seen) if start.whole_day else seen
