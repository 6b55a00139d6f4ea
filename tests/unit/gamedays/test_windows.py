"""Windows by the wall's clock: ordinary days, days on which a clock is set, and laws over many zones."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chaos.definitions.gameday import WEEKDAYS, Bounds, Window
from chaos.gamedays.stopping import WindowEnd
from chaos.gamedays.windows import (
    Held,
    Opening,
    changes,
    elapsed,
    firings,
    held,
    opening_of,
    shown,
)

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"
HAVANA, BEIRUT, LONDON, UTC_ZONE = "America/Havana", "Asia/Beirut", "Europe/London", "Etc/UTC"
ZONES = (BERLIN, NEW_YORK, LORD_HOWE, HAVANA, BEIRUT, LONDON, UTC_ZONE, "America/Sao_Paulo", "Pacific/Apia")
SPRING = {
    BERLIN: (date(2026, 3, 29), "02:30"),
    NEW_YORK: (date(2026, 3, 8), "02:30"),
    LORD_HOWE: (date(2026, 10, 4), "02:15"),
    LONDON: (date(2026, 3, 29), "01:30"),
    HAVANA: (date(2026, 3, 8), "00:00"),
    BEIRUT: (date(2026, 3, 29), "00:00"),
}
"""A time of day that the clock jumps over, and when."""
AUTUMN = {
    BERLIN: (date(2026, 10, 25), "02:30"),
    NEW_YORK: (date(2026, 11, 1), "01:30"),
    LORD_HOWE: (date(2026, 4, 5), "01:45"),
    LONDON: (date(2026, 10, 25), "01:30"),
    HAVANA: (date(2026, 11, 1), "00:30"),
    BEIRUT: (date(2026, 10, 24), "23:30"),
}
"""A time of day that the clock shows twice, and when."""


def window(zone: str = BERLIN, days: Any = WEEKDAYS, begins: str = "10:00", ends: str = "12:00", **more: Any) -> Window:
    return Window.model_validate({"zone": zone, "days": list(days), "from": begins, "to": ends, **more})


def bounds(day: str = "30m", abort: str = "2m") -> Bounds:
    return Bounds.model_validate({"day": day, "abort": abort})


def at(zone: str, text: str, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC)


def opened(made: Window, day: date) -> Opening:
    opening = opening_of(made, day)
    assert isinstance(opening, Opening), opening
    return opening


def why(said: Held) -> str:
    assert not said.ok and said.why is not None
    return said.why


# ------------------------------------------------------------------------------------------ an ordinary day


def test_a_day_may_begin_from_the_opening_until_it_no_longer_fits() -> None:
    made = window(days=["tue", "thu"])
    said = held(made, bounds(), at(BERLIN, "2026-07-07T10:00"))
    assert said.ok and said.why is None and said.day == date(2026, 7, 7)
    assert said.opened == at(BERLIN, "2026-07-07T10:00") and said.closes == at(BERLIN, "2026-07-07T12:00")
    assert said.latest == at(BERLIN, "2026-07-07T11:28")
    assert held(made, bounds(), at(BERLIN, "2026-07-07T11:28")).ok
    assert "until 11:28:00 only: 30m and an abort of 2m must be over at 12:00" in why(
        held(made, bounds(), at(BERLIN, "2026-07-07T11:28:01"))
    )


@pytest.mark.parametrize("moment", ["2026-07-07T09:59:59", "2026-07-07T12:00", "2026-07-08T10:30"])
def test_outside_it_is_said_when_it_opens_next(moment: str) -> None:
    said = held(window(days=["tue", "thu"]), bounds(), at(BERLIN, moment))
    assert "the window is on tue and thu from 10:00 to 12:00; it opens next on " in why(said)
    assert said.day is None and said.opened is None and said.latest is None


def test_last_start_ends_the_beginning() -> None:
    made = window(last_start="10:30")
    assert held(made, bounds(), at(BERLIN, "2026-07-07T10:30")).ok
    assert "until last_start, 10:30, only" in why(held(made, bounds(), at(BERLIN, "2026-07-07T10:31")))


def test_a_last_start_that_leaves_no_room_does_not_help() -> None:
    made = window(last_start="11:50")
    assert held(made, bounds(), at(BERLIN, "2026-07-07T11:28")).ok
    assert not held(made, bounds(), at(BERLIN, "2026-07-07T11:29")).ok


def test_a_window_over_midnight_is_of_the_day_on_which_it_opens() -> None:
    made = window(days=["fri"], begins="22:00", ends="02:00", last_start="00:30")
    for moment in ("2026-07-10T22:00", "2026-07-11T00:10"):
        said = held(made, bounds(), at(BERLIN, moment))
        assert said.ok and said.day == date(2026, 7, 10) and said.latest == at(BERLIN, "2026-07-11T00:30")
    assert not held(made, bounds(), at(BERLIN, "2026-07-11T22:30")).ok
    assert not held(made, bounds(), at(BERLIN, "2026-07-10T00:10")).ok


def test_a_window_without_room_is_never_held() -> None:
    said = held(window(), bounds("119m", "2m"), at(BERLIN, "2026-07-07T10:00"))
    assert "lasts 2 h, and there is no room in it for 119m and an abort of 2m" in why(said)


def test_in_mid_day_the_window_closes() -> None:
    """By its own end: that another window is open later is nothing to it."""
    said = held(window(), bounds(), at(BERLIN, "2026-07-07T10:00"))
    assert said.closes == at(BERLIN, "2026-07-07T12:00")
    now = [at(BERLIN, "2026-07-07T11:57:59")]
    end = WindowEnd(said.closes, 120.0, lambda: now[0])
    assert end.tripped(0.0) is None
    for later in ("2026-07-07T11:58", "2026-07-07T12:00", "2026-07-08T10:30"):
        now[0] = at(BERLIN, later)
        assert end.tripped(0.0) == "the window closes at 12:00"


def test_a_moment_without_zone_is_refused() -> None:
    naive = datetime(2026, 7, 7, 10)
    for asked in (
        lambda: held(window(), bounds(), naive),
        lambda: firings(window(), naive, 1),
        lambda: changes(BERLIN, naive, 1),
    ):
        with pytest.raises(ValueError, match="without a zone"):
            asked()


# --------------------------------------------------------------------------------------- clocks that are set


@pytest.mark.parametrize("zone", SPRING)
@pytest.mark.parametrize("edge", ["from", "to", "last_start"])
def test_where_an_edge_does_not_exist_there_is_no_window(zone: str, edge: str) -> None:
    day, missing = SPRING[zone]
    gone = datetime.combine(day, time.fromisoformat(missing))
    begins, ends = f"{gone - timedelta(hours=3):%H:%M}", f"{gone + timedelta(hours=3):%H:%M}"
    given = {"begins": begins, "ends": ends, "last_start": begins}
    given |= {"from": {"begins": missing, "last_start": missing}, "to": {"ends": missing}}.get(
        edge, {"last_start": missing}
    )
    made = window(zone, **given)
    opens_on = day if time.fromisoformat(given["begins"]) <= gone.time() else day - timedelta(days=1)
    assert opening_of(made, opens_on) == f"{missing} does not exist on {day} in {zone}"
    assert isinstance(opening_of(made, opens_on + timedelta(days=7)), Opening)
    for minutes in range(-26 * 60, 26 * 60, 15):  # no moment is held
        said = held(made, bounds(), at(zone, f"{day}T12:00") + timedelta(minutes=minutes))
        assert said.day != opens_on
    skipped = [each for each in firings(made, at(zone, f"{opens_on}T12:00") - timedelta(days=4), 9) if each.skipped]
    assert [each.day for each in skipped] == [opens_on]


def test_what_is_skipped_is_said() -> None:
    made = window(days=["sun"], begins="02:30", ends="04:00")
    skipped, following, third = firings(made, at(BERLIN, "2026-03-23T00:00"), 3)
    assert skipped.skipped and skipped.at is None and skipped.utc is None and skipped.closes is None
    assert skipped.says == "skipped: 02:30 does not exist on 2026-03-29 in Europe/Berlin"
    assert following.at == at(BERLIN, "2026-04-05T02:30") and following.says == "UTC+02:00 from now on"
    assert following.utc == datetime(2026, 4, 5, 0, 30, tzinfo=UTC) and third.says == ""
    assert "there is none today: 02:30 does not exist" in why(held(made, bounds(), at(BERLIN, "2026-03-29T03:30")))


@pytest.mark.parametrize("zone", AUTUMN)
def test_a_time_that_is_shown_twice_is_the_first_for_both_edges(zone: str) -> None:
    day, twice = AUTUMN[zone]
    both = datetime.combine(day, time.fromisoformat(twice))
    first, second = at(zone, f"{both:%Y-%m-%dT%H:%M}"), at(zone, f"{both:%Y-%m-%dT%H:%M}", 1)
    assert second > first
    opening = opened(window(zone, begins=twice, ends=f"{both + timedelta(hours=4):%H:%M}"), day)
    assert opening.opens == first
    early = both - timedelta(hours=2)
    assert opened(window(zone, begins=f"{early:%H:%M}", ends=twice), early.date()).closes == first


def test_a_window_over_the_repeated_hour_is_no_longer_than_by_the_clock() -> None:
    made = window(days=["sun"], begins="01:00", ends="04:00")
    opening = opened(made, date(2026, 10, 25))
    assert opening.seconds == 3 * 3600 and opening.closes == at(BERLIN, "2026-10-25T03:00")
    assert opening.latest(bounds()) == at(BERLIN, "2026-10-25T02:59:59")  # not 02:28, for the second time
    assert held(made, bounds(), at(BERLIN, "2026-10-25T02:59:59")).ok
    assert "for the second time" in why(held(made, bounds(), at(BERLIN, "2026-10-25T02:10", 1)))
    assert "closed at Sun 2026-10-25 03:00 in Europe/Berlin (UTC+01:00), for a repeated hour counts once" in why(
        held(made, bounds(), at(BERLIN, "2026-10-25T03:30"))
    )
    (firing,) = firings(made, at(BERLIN, "2026-10-24T12:00"), 1)
    assert firing.says.startswith("the clock goes back on 2026-10-25 from 03:00 to 02:00; the window closes at Sun")


def test_a_window_within_the_repeated_hour_is_open_once() -> None:
    made = window(days=["sun"], begins="02:10", ends="02:50")
    assert held(made, bounds("10m"), at(BERLIN, "2026-10-25T02:20")).ok
    assert not held(made, bounds("10m"), at(BERLIN, "2026-10-25T02:20", 1)).ok


def test_a_window_over_the_missing_hour_is_as_short_as_it_is() -> None:
    made = window(days=["sun"], begins="01:00", ends="04:00")
    assert opened(made, date(2026, 3, 29)).seconds == 2 * 3600
    assert held(made, bounds("118m"), at(BERLIN, "2026-03-29T01:00")).ok
    assert "lasts 2 h" in why(held(made, bounds("119m"), at(BERLIN, "2026-03-29T01:00")))
    assert held(made, bounds("178m"), at(BERLIN, "2026-03-22T01:00")).ok


def test_a_clock_that_is_set_back_over_midnight_keeps_the_window() -> None:
    made = window("America/St_Johns", days=["sun"], begins="00:00", ends="06:00")  # 2010-11-07: 00:01 to 23:01
    began = at("America/St_Johns", "2010-11-07T00:00")
    assert held(made, bounds(), began).ok
    assert held(made, bounds(), began).closes == at("America/St_Johns", "2010-11-07T05:00")
    assert not held(made, bounds(), began + timedelta(minutes=30)).ok  # 23:30 on Saturday, again


def test_a_date_that_a_zone_left_out_has_no_window() -> None:
    assert opening_of(window("Pacific/Apia"), date(2011, 12, 30)) == (
        "10:00 does not exist on 2011-12-30 in Pacific/Apia"
    )


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        (BERLIN, ["2026-03-29 from 02:00 to 03:00", "2026-10-25 from 03:00 to 02:00"]),
        (NEW_YORK, ["2026-03-08 from 02:00 to 03:00", "2026-11-01 from 02:00 to 01:00"]),
        (LORD_HOWE, ["2026-04-05 from 02:00 to 01:30", "2026-10-04 from 02:00 to 02:30"]),
        (HAVANA, ["2026-03-08 from 00:00 to 01:00", "2026-11-01 from 01:00 to 00:00"]),
        (BEIRUT, ["2026-03-29 from 00:00 to 01:00", "2026-10-25 from 00:00 to 2026-10-24 23:00"]),
        (LONDON, ["2026-03-29 from 01:00 to 02:00", "2026-10-25 from 02:00 to 01:00"]),
        (UTC_ZONE, []),
    ],
)
def test_changes_of_a_clock(zone: str, expected: list[str]) -> None:
    found = changes(zone, datetime(2026, 1, 1, tzinfo=UTC), 2)
    assert [each.says.partition(" on ")[2] for each in found] == expected
    for each in found:
        before = (each.at - timedelta(seconds=1)).astimezone(ZoneInfo(zone)).utcoffset()
        after = each.at.astimezone(ZoneInfo(zone)).utcoffset()
        assert before is not None and after is not None
        assert (each.before.utcoffset(), each.after.utcoffset(), each.by) == (before, after, after - before)


def test_a_moment_is_shown_with_its_offset() -> None:
    assert shown(at(NEW_YORK, "2026-07-07T10:00").astimezone(ZoneInfo(NEW_YORK))) == (
        "Tue 2026-07-07 10:00 in America/New_York (UTC-04:00)"
    )


# ----------------------------------------------------------------------------------------------------- laws


clocks = st.builds(time, st.integers(0, 23), st.sampled_from([0, 1, 15, 30, 45, 59]))
moments = st.datetimes(datetime(2009, 1, 1), datetime(2031, 1, 1), timezones=st.just(UTC))
near = st.sampled_from([day for day, _ in (*SPRING.values(), *AUTUMN.values())]).flatmap(
    lambda day: st.integers(-48 * 60, 48 * 60).map(
        lambda minutes: datetime(day.year, day.month, day.day, 12, tzinfo=UTC) + timedelta(minutes=minutes)
    )
)
asked = st.one_of(near, moments)


@st.composite
def windows(draw: st.DrawFn) -> Window:
    begins, ends = draw(clocks), draw(clocks)
    assume(begins != ends)
    days = draw(st.lists(st.sampled_from(WEEKDAYS), min_size=1, unique=True))
    made = window(draw(st.sampled_from(ZONES)), days, f"{begins:%H:%M}", f"{ends:%H:%M}")
    if draw(st.booleans()) and made.holds(last := draw(clocks)):
        made = made.model_copy(update={"last_start": last})
    return made


SHORT = bounds("10ms", "10ms")


@given(windows(), asked)
def test_every_moment_is_in_at_most_one_window(made: Window, now: datetime) -> None:
    today = now.astimezone(ZoneInfo(made.zone)).date()
    openings = [opening_of(made, today + timedelta(days=by)) for by in range(-3, 4)]
    within = [
        each
        for each in openings
        if isinstance(each, Opening) and elapsed(each.opens, now) >= 0 > elapsed(each.closes, now)
    ]
    assert len(within) <= 1
    said = held(made, SHORT, now)
    assert said.day == (within[0].day if within else None)
    if not within:
        assert not said.ok


@given(windows(), asked)
def test_what_is_held_fits_in_and_its_clock_time_is_in_the_window(made: Window, now: datetime) -> None:
    given_bounds = bounds("45m", "5m")
    said = held(made, given_bounds, now)
    assert said.ok == (said.why is None)
    if said.ok:
        local = now.astimezone(ZoneInfo(made.zone))
        assert made.holds(local.time()) and not local.fold
        assert said.day is not None and WEEKDAYS[said.day.weekday()] in made.days
        assert said.opened is not None and said.closes is not None and said.latest is not None
        assert elapsed(said.opened, now) >= 0 and elapsed(now, said.latest) >= 0
        assert elapsed(now, said.closes) >= 50 * 60


@given(windows(), asked)
def test_a_window_is_held_at_its_opening_and_not_at_its_closing(made: Window, now: datetime) -> None:
    opening = opening_of(made, now.date())
    assume(isinstance(opening, Opening))
    assert isinstance(opening, Opening)
    assert held(made, SHORT, opening.opens).ok
    assert not held(made, SHORT, opening.closes).ok
    minutes = (made.to.hour * 60 + made.to.minute - made.from_.hour * 60 - made.from_.minute) % 1440
    assert 0 < opening.seconds <= minutes * 60
    latest = opening.latest(SHORT)
    assert held(made, SHORT, latest).ok
    assert not held(made, SHORT, latest.astimezone(UTC) + timedelta(seconds=1)).ok


@given(windows(), st.sampled_from(sorted(AUTUMN)), st.integers(0, 3 * 60))
def test_a_clock_time_that_is_shown_twice_counts_once(made: Window, zone: str, minutes: int) -> None:
    made = made.model_copy(update={"zone": zone})
    day, twice = AUTUMN[zone]
    wall = datetime.combine(day, time.fromisoformat(twice)) + timedelta(minutes=minutes - 90)
    text = f"{wall:%Y-%m-%dT%H:%M}"
    both = {at(zone, text), at(zone, text, 1)}
    assert sum(held(made, SHORT, moment).ok for moment in both) <= 1


@given(windows(), asked)
def test_firings_increase_and_each_is_held(made: Window, after: datetime) -> None:
    found = firings(made, after, 12)
    assert len(found) == 12
    days = [each.day for each in found]
    assert days == sorted(set(days)) and all(WEEKDAYS[day.weekday()] in made.days for day in days)
    last = after
    for each in found:
        if each.at is None:
            assert each.skipped and each.says.startswith("skipped: ") and isinstance(opening_of(made, each.day), str)
            continue
        assert elapsed(last, each.at) > 0 and each.utc == each.at.astimezone(UTC)
        last = each.at
        said = held(made, SHORT, each.at)
        assert said.ok and said.day == each.day
        assert said.closes is not None and each.closes is not None and elapsed(said.closes, each.closes) == 0
