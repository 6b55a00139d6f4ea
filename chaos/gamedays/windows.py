"""When a game day may begin and must be over, by the wall's clock of a place (``window``).

A window opens when its zone's clock first shows ``from`` on one of its weekdays, and closes when it first shows ``to``.
A repeated hour counts once: no window lasts longer than its clock times say, and nothing begins while the clock shows
an hour for the second time. Where the clock never shows ``from``, ``last_start`` or ``to``, there is no window that
day. A day that was missed is not made up. Time differences are elapsed seconds; zones are those of :mod:`zoneinfo`.

Moments that are returned have the fixed offset that the zone has then, under the zone's name: those of a
:class:`ZoneInfo` compare and subtract by their wall clocks (PEP 495).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from itertools import islice
from zoneinfo import ZoneInfo

from chaos.base.text import listed
from chaos.definitions.gameday import WEEKDAYS, Bounds, Window

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
AHEAD = timedelta(days=5 * 366)
"""How far changes of a clock are looked for."""


@dataclass(frozen=True)
class Opening:
    """The window of one date, which is the date on which it opens. ``last_start``: None where the file names none."""

    zone: ZoneInfo
    day: date
    opens: datetime
    closes: datetime
    last_start: datetime | None

    @property
    def seconds(self) -> float:
        """How long it is open, in elapsed seconds."""
        return elapsed(self.opens, self.closes)

    def latest(self, bounds: Bounds) -> datetime:
        """Until when a day may begin, that moment included. Before ``opens`` where a day does not fit."""
        latest = self.closes - timedelta(seconds=float(bounds.day) + float(bounds.abort))
        if self.last_start is not None:
            latest = min(latest, self.last_start)
        if latest > self.opens and latest.astimezone(self.zone).fold:  # nothing begins in an hour that is shown again
            latest = _change_between(self.opens, latest, self.zone) - SECOND
        return local(latest, self.zone)


@dataclass(frozen=True)
class Held:
    """Whether a day may begin now; ``why`` not, in one sentence.

    The rest is None outside of all windows. ``day``: the date on which the window opened.
    """

    ok: bool
    why: str | None
    day: date | None = None
    opened: datetime | None = None
    closes: datetime | None = None
    latest: datetime | None = None


@dataclass(frozen=True)
class Firing:
    """A date on which the window opens, or should. ``at`` and ``closes`` are None where it is skipped.

    ``says``: what is special about it; empty where nothing is.
    """

    day: date
    at: datetime | None
    closes: datetime | None
    says: str

    @property
    def utc(self) -> datetime | None:
        return None if self.at is None else self.at.astimezone(UTC)

    @property
    def skipped(self) -> bool:
        return self.at is None


@dataclass(frozen=True)
class Change:
    """A zone's clock is set. ``at`` is in UTC; ``before`` and ``after`` are that moment by the old and new offset."""

    at: datetime
    before: datetime
    after: datetime

    @property
    def by(self) -> timedelta:
        """By how much it is set; forward is positive."""
        return self.after.replace(tzinfo=None) - self.before.replace(tzinfo=None)

    @property
    def says(self) -> str:
        way = "forward" if self.by > timedelta(0) else "back"
        same = self.before.date() == self.after.date()
        after = f"{self.after:%H:%M}" if same else f"{self.after:%Y-%m-%d %H:%M}"
        return f"the clock goes {way} on {self.before:%Y-%m-%d} from {self.before:%H:%M} to {after}"


def held(window: Window, bounds: Bounds, now: datetime) -> Held:
    """Whether a day may begin at ``now``. Raises ValueError where that has no zone."""
    zone = ZoneInfo(window.zone)
    opening = _open_at(window, now)
    if opening is None:
        return Held(False, _outside(window, now))
    latest = opening.latest(bounds)
    why = None
    if elapsed(opening.opens, latest) < 0:
        why = (
            f"the window of {opening.day} lasts {_span(opening.seconds)}, and there is no room in it for "
            f"{bounds.day.text} and an abort of {bounds.abort.text}"
        )
    elif now.astimezone(zone).fold:
        why = f"the clock shows {shown(local(now, zone))} for the second time, and a repeated hour counts once"
    elif elapsed(latest, now) > 0:
        why = (
            f"it is {shown(local(now, zone))}, and a day may begin until {latest:%H:%M:%S} only: {bounds.day.text} "
            f"and an abort of {bounds.abort.text} must be over at {opening.closes:%H:%M}"
        )
        if latest == opening.last_start:
            why = f"it is {shown(local(now, zone))}, and a day may begin until last_start, {latest:%H:%M}, only"
    return Held(why is None, why, opening.day, opening.opens, opening.closes, latest)


def opening_of(window: Window, day: date) -> Opening | str:
    """The window that opens on this date, or why there is none."""
    if WEEKDAYS[day.weekday()] not in window.days:
        return f"{day} is a {WEEKDAYS[day.weekday()]}, and the window is on {listed(list(window.days))}"
    zone = ZoneInfo(window.zone)
    moments = []
    for clock in (window.from_, window.to, window.last_start):
        if clock is None:
            continue
        wall = datetime.combine(day if clock >= window.from_ else day + DAY, clock)
        moment = first(wall, zone)
        if moment is None:
            return f"{clock:%H:%M} does not exist on {wall:%Y-%m-%d} in {window.zone}"
        moments.append(moment)
    opens, shows, *last_start = moments
    ends = local(min(shows, opens + timedelta(minutes=_minutes(window))), zone)
    return Opening(zone, day, opens, ends, last_start[0] if last_start else None)


def firings(window: Window, after: datetime, count: int) -> list[Firing]:
    """The next ``count`` dates on which the window opens after ``after``, in order, with those that are skipped."""
    return list(islice(_firings(window, _aware(after)), count))


def changes(zone: str, after: datetime, count: int) -> list[Change]:
    """The next changes of a zone's clock after ``after``; fewer than ``count`` where none come within five years."""
    return list(islice(_changes(ZoneInfo(zone), _aware(after), after.astimezone(UTC) + AHEAD), count))


def first(wall: datetime, zone: ZoneInfo) -> datetime | None:
    """The moment at which a zone's clock first shows this; None: it never does."""
    wall = wall.replace(tzinfo=None, fold=0)
    moment = local(wall.replace(tzinfo=zone).astimezone(UTC), zone)
    return moment if moment.replace(tzinfo=None) == wall else None


def local(moment: datetime, zone: ZoneInfo) -> datetime:
    """The same moment with the offset that a zone has then, and the zone's name."""
    return _offset_of(moment.astimezone(UTC), moment, zone)


def shown(moment: datetime) -> str:
    """``Tue 2026-03-24 10:00 in Europe/Berlin (UTC+01:00)``."""
    return f"{moment:%a %Y-%m-%d %H:%M} in {moment.tzinfo} ({_offset(moment)})"


def elapsed(start: datetime, end: datetime) -> float:
    """Seconds from one moment to another."""
    return (end.astimezone(UTC) - start.astimezone(UTC)).total_seconds()


def _aware(moment: datetime) -> datetime:
    if moment.utcoffset() is None:
        raise ValueError("a moment without a zone")
    return moment


def _minutes(window: Window) -> int:
    """From ``from`` to ``to`` by the clock."""

    def of(clock: time) -> int:
        return clock.hour * 60 + clock.minute

    return (of(window.to) - of(window.from_)) % 1440


def _span(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"


def _offset(moment: datetime) -> str:
    offset = f"{moment:%z}"
    return f"UTC{offset[:3]}:{offset[3:5]}"


def _offset_of(moment: datetime, when: datetime, zone: ZoneInfo) -> datetime:
    """A moment by the offset that a zone has at ``when``."""
    offset = when.astimezone(UTC).astimezone(zone).utcoffset()
    assert offset is not None
    return moment.astimezone(timezone(offset, zone.key))


def _open_at(window: Window, now: datetime) -> Opening | None:
    """The window that is open. A clock that is set back over midnight shows the date before that of its window."""
    today = _aware(now).astimezone(ZoneInfo(window.zone)).date()
    for day in (today - DAY, today, today + DAY):
        opening = opening_of(window, day)
        if isinstance(opening, Opening) and elapsed(opening.opens, now) >= 0 > elapsed(opening.closes, now):
            return opening
    return None


def _outside(window: Window, now: datetime) -> str:
    here = local(now, ZoneInfo(window.zone))
    says = (
        f"it is {shown(here)}, and the window is on {listed(list(window.days))} from {window.from_:%H:%M} "
        f"to {window.to:%H:%M}"
    )
    today = here.date()
    if WEEKDAYS[here.weekday()] in window.days and isinstance(none := opening_of(window, today), str):
        says += f"; there is none today: {none}"
    for day in (today - DAY, today, today + DAY):
        opening = opening_of(window, day)
        if not isinstance(opening, Opening) or not window.holds(here.time()):
            continue
        if now > opening.opens and elapsed(opening.closes, now) < _minutes(window) * 60:
            says += f"; that of {day} closed at {shown(opening.closes)}, for a repeated hour counts once"
    following = next((each.at for each in firings(window, now, 20) if each.at is not None), None)
    return f"{says}; it opens next on {shown(following)}" if following is not None else says


def _firings(window: Window, after: datetime) -> Iterator[Firing]:
    zone = ZoneInfo(window.zone)
    here = local(after, zone)
    day, known = here.date() - DAY, here.utcoffset()
    while True:
        day += DAY
        if WEEKDAYS[day.weekday()] not in window.days:
            continue
        opening = opening_of(window, day)
        if isinstance(opening, str):
            if datetime.combine(day, window.from_) > here.replace(tzinfo=None):
                yield Firing(day, None, None, f"skipped: {opening}")
            continue
        if opening.opens <= after:
            continue
        says = [change.says for change in _changes(zone, opening.opens, opening.closes)]
        if says:
            says.append(f"the window closes at {shown(opening.closes)}")
        elif opening.opens.utcoffset() != known:
            says.append(f"{_offset(opening.opens)} from now on")
        known = opening.closes.utcoffset()
        yield Firing(day, opening.opens, opening.closes, "; ".join(says))


def _changes(zone: ZoneInfo, after: datetime, until: datetime) -> Iterator[Change]:
    """Those after ``after`` and not after ``until``. Two within one day are taken for none."""
    start, until = after.astimezone(UTC), until.astimezone(UTC)
    while start < until:
        end = min(start + DAY, until)
        if local(start, zone).utcoffset() != local(end, zone).utcoffset():
            at = _change_between(start, end, zone)
            yield Change(at, _offset_of(at, at - SECOND, zone), local(at, zone))
        start = end


def _change_between(start: datetime, end: datetime, zone: ZoneInfo) -> datetime:
    """When a zone's clock is set, in UTC: the first second with another offset than that of ``start``."""
    low, high = start.astimezone(UTC), end.astimezone(UTC)
    before = local(low, zone).utcoffset()
    while high - low > SECOND:
        middle = low + (high - low) / 2
        if local(middle, zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high.replace(microsecond=0)
