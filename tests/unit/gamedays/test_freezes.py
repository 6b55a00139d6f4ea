"""Freezes: what they freeze, and that one which cannot be read or understood freezes too."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from calendarkit import Answer, answering, gameday
from hypothesis import given
from hypothesis import strategies as st
from tlskit import authority

from chaos.base.errors import InvalidInput
from chaos.definitions.gameday import Freeze
from chaos.gamedays.freezes import (
    MOST_BYTES,
    Span,
    Unclear,
    frozen,
    frozen_by,
    load_freezes,
    read,
    read_calendar,
)

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 7, 7, 8, 0, tzinfo=UTC)
NOBODY = "nobody can say whether it freezes: "


def at(text: str, zone: ZoneInfo = BERLIN) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)


def asked(begins: str, minutes: float = 120, zone: ZoneInfo = BERLIN) -> Span:
    return Span(at(begins, zone), at(begins, zone) + timedelta(minutes=minutes))


def calendar(*lines: str, end: str = "\r\n") -> bytes:
    """Events, each of the lines up to an empty one."""
    written = ["BEGIN:VCALENDAR", "VERSION:2.0", "BEGIN:VEVENT"]
    for line in lines:
        written += [line] if line else ["END:VEVENT", "BEGIN:VEVENT"]
    return (end.join([*written, "END:VEVENT", "END:VCALENDAR"]) + end).encode()


def freezes(content: bytes, begins: str, minutes: float = 120, zone: ZoneInfo = BERLIN) -> str | None:
    return read_calendar(content, asked(begins, minutes, zone), zone)


def unclear(content: bytes) -> str:
    with pytest.raises(Unclear) as raised:
        freezes(content, "2026-07-07T10:00")
    return str(raised.value)


def said(
    folder: Path, freeze: dict[str, Any], begins: str = "2026-07-07T10:00", *, now: datetime = NOW, **more: Any
) -> str | None:
    span = asked(begins)
    return frozen(gameday(folder), Freeze.model_validate(freeze), span.begins, span.ends, now, **more)


SOON = calendar("UID:1", "DTSTART:20260707T100000", "DTEND:20260707T110000", "SUMMARY:release")
LATER = calendar("UID:1", "DTSTART:20260708T100000", "DTEND:20260708T110000", "SUMMARY:release")


# ------------------------------------------------------------------------------------------ YAML of ours


def ours(folder: Path, text: str) -> dict[str, str]:
    (folder / "freezes.yaml").write_text(text)
    return {"yaml": "freezes.yaml"}


def test_days_freeze_as_a_whole_the_last_too(tmp_path: Path) -> None:
    freeze = ours(tmp_path, "freezes: [{from: 2026-12-18, to: 2027-01-04, why: end of year}]")
    assert said(tmp_path, freeze, "2026-12-17T21:59") is None
    assert said(tmp_path, freeze, "2026-12-17T22:01") == (
        "frozen from Fri 2026-12-18 00:00 in Europe/Berlin (UTC+01:00) to Tue 2027-01-05 00:00 in Europe/Berlin "
        "(UTC+01:00): end of year"
    )
    assert said(tmp_path, freeze, "2027-01-04T23:59") is not None
    assert said(tmp_path, freeze, "2027-01-05T00:00") is None


def test_moments_freeze_in_their_zone_or_by_their_offset(tmp_path: Path) -> None:
    freeze = ours(
        tmp_path,
        "freezes:\n"
        "  - {from: 2026-11-27T00:00, to: '2026-11-28 00:00', zone: America/New_York, why: sale}\n"
        "  - {from: '2026-07-07T12:00', to: '2026-07-07T13:00', why: ours}\n"
        "  - {from: '2026-07-08T12:00Z', to: '2026-07-08T15:00+02:00', why: theirs}\n",
    )
    assert said(tmp_path, freeze, "2026-11-27T03:59") is None
    assert "sale" in str(said(tmp_path, freeze, "2026-11-27T04:01"))
    assert said(tmp_path, freeze, "2026-11-28T06:00") is None
    assert said(tmp_path, freeze, "2026-07-07T10:00") is None
    assert "ours" in str(said(tmp_path, freeze, "2026-07-07T10:01"))
    assert said(tmp_path, freeze, "2026-07-08T12:00") is None
    assert "theirs" in str(said(tmp_path, freeze, "2026-07-08T14:59"))
    assert said(tmp_path, freeze, "2026-07-08T15:00") is None


def test_what_never_ends_freezes(tmp_path: Path) -> None:
    freeze = ours(tmp_path, "freezes: [{from: 2026-01-01, to: 9999-12-31, zone: America/New_York, why: sold}]")
    assert "to 9999-12-31: sold" in str(said(tmp_path, freeze))


def test_a_time_in_doubt_freezes_longer(tmp_path: Path) -> None:
    spring = ours(tmp_path, "freezes: [{from: '2026-03-29T02:30', to: '2026-03-29T12:00', why: x}]")
    assert said(tmp_path, spring, "2026-03-28T23:45") is not None  # until 02:45 by elapsed time: 03:45
    (tmp_path / "freezes.yaml").write_text("freezes: [{from: '2026-10-24T00:00', to: '2026-10-25T02:30', why: x}]")
    late = at("2026-10-25T02:20") + timedelta(hours=1)  # for the second time
    assert frozen(gameday(tmp_path), Freeze(yaml="freezes.yaml"), late, late + timedelta(minutes=1), NOW) is not None


def test_an_empty_list_freezes_nothing(tmp_path: Path) -> None:
    assert said(tmp_path, ours(tmp_path, "freezes: []")) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "freezes.yaml:1:1: the file is empty"),
        ("freezes: [", "not YAML"),
        ("- 1", "this is a list, and a mapping of keys was expected"),
        ("{}", '"freezes" is missing'),
        ("freezes: [{from: 2026-12-18, to: 2027-01-04}]", '"why" is missing'),
        ("frezes: []\nfreezes: []", 'unknown key "frezes": did you mean "freezes"?'),
        ("freezes: [{from: 18.12.2026, to: 2027-01-04, why: x}]", "cannot read '18.12.2026': expected a day, such as"),
        ("freezes: [{from: 2026-02-30, to: 2027-01-04, why: x}]", "cannot read '2026-02-30'"),
        ("freezes: [{from: 2027-01-04, to: 2026-12-18, why: x}]", "to 2026-12-18 is before from 2027-01-04"),
        ("freezes: [{from: 2026-12-18, to: '2027-01-04T10:00', why: x}]", "a day and a moment"),
        ("freezes: [{from: '2026-12-18T10:00', to: '2026-12-18T10:00', why: x}]", "is not after from"),
        ("freezes: [{from: '2026-12-18T10:00Z', to: '2026-12-18T11:00', why: x}]", "only one has an offset"),
        ("freezes: [{from: 2026-12-18, to: 2027-01-04, zone: CET2, why: x}]", "there is no time zone CET2"),
        ("kind: gameday\nfreezes: []", "this file is of kind gameday, and of kind freezes was expected"),
    ],
)
def test_a_calendar_of_ours_that_is_wrong_freezes_and_says_where(tmp_path: Path, text: str, says: str) -> None:
    answer = said(tmp_path, ours(tmp_path, text))
    assert answer is not None and answer.startswith(NOBODY) and says in answer


def test_errors_of_ours_have_their_place(tmp_path: Path) -> None:
    ours(tmp_path, "freezes:\n  - from: 2026-12-18\n    to: never\n    why: x\n")
    with pytest.raises(InvalidInput, match=r"freezes\.yaml:3:9: to: cannot read 'never'"):
        load_freezes(tmp_path / "freezes.yaml")


# ---------------------------------------------------------------------------------------------- iCalendar


@pytest.mark.parametrize(
    ("lines", "first", "after"),
    [
        (["DTSTART:20260707T100000", "DTEND:20260707T110000"], "2026-07-07T10:00", "2026-07-07T11:00"),
        (["DTSTART:20260707T080000Z", "DTEND:20260707T090000Z"], "2026-07-07T10:00", "2026-07-07T11:00"),
        (
            ["DTSTART;TZID=America/New_York:20260707T040000", "DTEND;TZID=America/New_York:20260707T050000"],
            "2026-07-07T10:00",
            "2026-07-07T11:00",
        ),
        (['dtstart;tzid="Europe/London":20260707T090000', "DURATION:PT1H"], "2026-07-07T10:00", "2026-07-07T11:00"),
        (["DTSTART:20260707T100000", "DURATION:P1DT2H"], "2026-07-07T10:00", "2026-07-08T12:00"),
        (["DTSTART:20260707T100000", "DURATION:P2W"], "2026-07-07T10:00", "2026-07-21T10:00"),
        (["DTSTART;VALUE=DATE:20260707"], "2026-07-07T00:00", "2026-07-08T00:00"),
        (["DTSTART:20260707"], "2026-07-07T00:00", "2026-07-08T00:00"),
        (["DTSTART;VALUE=DATE:20260707", "DTEND;VALUE=DATE:20260707"], "2026-07-07T00:00", "2026-07-08T00:00"),
        (["DTSTART;VALUE=DATE:20260707", "DTEND;VALUE=DATE:20260709"], "2026-07-07T00:00", "2026-07-09T00:00"),
        (["DTSTART;VALUE=DATE:20260707", "DURATION:P3D"], "2026-07-07T00:00", "2026-07-10T00:00"),
        (["DTSTART;VALUE=DATE-TIME:20260707T100000", "DTEND:20260707T110060"], "2026-07-07T10:00", "2026-07-07T11:01"),
    ],
)
@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_when_an_event_is(lines: list[str], first: str, after: str, end: str) -> None:
    content = calendar(*lines, "SUMMARY:release", end=end)
    assert freezes(content, first, 1) is not None
    assert read_calendar(content, Span(at(first) - timedelta(hours=1), at(first)), BERLIN) is None
    assert freezes(content, after, 60) is None
    assert read_calendar(content, Span(at(after) - timedelta(minutes=1), at(after)), BERLIN) is not None


def test_an_event_without_length_is_a_moment() -> None:
    content = calendar("DTSTART:20260707T100000")
    assert freezes(content, "2026-07-07T10:00") is not None
    assert freezes(content, "2026-07-07T08:00") is None  # it ends there
    assert freezes(content, "2026-07-07T08:01") is not None
    assert freezes(content, "2026-07-07T10:01") is None


def test_days_and_floating_times_are_those_of_the_window() -> None:
    content = calendar("DTSTART;VALUE=DATE:20260707", "", "DTSTART:20260709T100000", "DURATION:PT1H")
    new_york = ZoneInfo("America/New_York")
    assert freezes(content, "2026-07-07T23:00", zone=new_york) is not None
    assert freezes(content, "2026-07-08T00:00", zone=new_york) is None
    assert freezes(content, "2026-07-09T10:30", zone=new_york) is not None
    assert freezes(content, "2026-07-09T10:30", zone=BERLIN) is not None


def test_folds_and_escapes_are_undone() -> None:
    content = calendar("DTSTART:202607", " 07T100000", "DURATION:PT1H", "SUMMARY:Black Friday\\, no\\nchange", "\ts")
    assert str(freezes(content, "2026-07-07T10:00")).endswith("): Black Friday, no changes")


def test_a_fold_within_a_character_is_undone() -> None:
    content = calendar("DTSTART:20260707T100000", "SUMMARY:Rüste").replace("ü".encode(), b"\xc3\r\n \xbc")
    assert str(freezes(content, "2026-07-07T10:00")).endswith("): Rüste")


def test_what_is_cancelled_or_no_event_does_not_freeze() -> None:
    content = calendar(
        "DTSTART:20260707T100000", "DURATION:PT1H", "STATUS:CANCELLED", "", "DTSTART:20260101T000000"
    ).replace(
        b"BEGIN:VEVENT",
        b"BEGIN:VTODO\r\nDTSTART:20260707T100000\r\nDURATION:PT9H\r\nEND:VTODO\r\nBEGIN:VEVENT",
        1,
    )
    assert freezes(content, "2026-07-07T10:00") is None
    assert freezes(content.replace(b"CANCELLED", b"TENTATIVE"), "2026-07-07T10:00") is not None


def test_alarms_and_free_time_change_nothing() -> None:
    content = calendar(
        *("BEGIN:VALARM", "TRIGGER:-PT15M", "DURATION:PT15M", "DTSTART:x", "END:VALARM"),
        *("TRANSP:TRANSPARENT", "DTSTART:20260707T100000", "DURATION:PT1H"),
    )
    assert freezes(content, "2026-07-07T10:30") is not None and freezes(content, "2026-07-07T11:00") is None


@pytest.mark.parametrize(
    ("rule", "hits", "misses"),
    [
        ("FREQ=WEEKLY", ["2026-07-07", "2026-07-14", "2030-01-01"], ["2026-06-30", "2026-07-08"]),
        ("FREQ=WEEKLY;INTERVAL=2", ["2026-07-21"], ["2026-07-14"]),
        ("FREQ=WEEKLY;COUNT=2", ["2026-07-14"], ["2026-07-21"]),
        ("FREQ=WEEKLY;UNTIL=20260714T080000Z", ["2026-07-14"], ["2026-07-21"]),
        ("FREQ=WEEKLY;UNTIL=20260714T075959Z", ["2026-07-07"], ["2026-07-14"]),
        ("FREQ=WEEKLY;UNTIL=20260714T100000", ["2026-07-14"], ["2026-07-21"]),
        ("FREQ=WEEKLY;UNTIL=20260714", ["2026-07-14"], ["2026-07-21"]),
        ("FREQ=MONTHLY;BYDAY=-1FR", ["2026-07-07", "2026-07-31"], ["2026-07-24"]),  # its beginning counts, too
        ("FREQ=YEARLY;BYMONTH=11;BYDAY=4TH", ["2026-11-26"], ["2026-11-19"]),
        ("FREQ=DAILY;BYDAY=MO,TU;WKST=SU", ["2026-07-13"], ["2026-07-15"]),
    ],
)
def test_what_repeats(rule: str, hits: list[str], misses: list[str]) -> None:
    content = calendar("DTSTART;TZID=Europe/Berlin:20260707T100000", "DURATION:PT1H", f"RRULE:{rule}")
    for day in hits:
        assert freezes(content, f"{day}T10:30", 10) is not None, day
        assert freezes(content, f"{day}T11:00", 10) is None, day
    for day in misses:
        assert freezes(content, f"{day}T10:30", 10) is None, day


def test_what_repeats_keeps_the_clock_of_its_zone() -> None:
    content = calendar("DTSTART;TZID=Europe/Berlin:20260707T100000", "DURATION:PT1H", "RRULE:FREQ=WEEKLY")
    assert freezes(content, "2026-12-01T10:00", 1) is not None and freezes(content, "2026-12-01T09:59", 1) is None


@pytest.mark.parametrize("until", ["20261225", "20261225T000000Z", "20261224T230000Z", "20261225T235959Z"])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_days_repeat_until_a_day_however_it_is_written(until: str, zone: str) -> None:
    content = calendar("DTSTART;VALUE=DATE:20261223", f"RRULE:FREQ=DAILY;UNTIL={until}")
    last = "2026-12-24" if until.startswith("20261224") and zone == "America/New_York" else "2026-12-25"
    assert freezes(content, f"{last}T12:00", zone=ZoneInfo(zone)) is not None
    assert freezes(content, "2026-12-27T12:00", zone=ZoneInfo(zone)) is None


@pytest.mark.parametrize(
    "without",
    [
        "EXDATE;TZID=Europe/Berlin:20260714T100000",
        "EXDATE:20260714T080000Z",
        "EXDATE:20260721T080000Z,20260714T080000Z",
        "EXDATE;TZID=America/New_York:20260714T040000",
    ],
)
def test_an_occurrence_that_is_left_out(without: str) -> None:
    written = ["DTSTART;TZID=Europe/Berlin:20260707T100000", "DURATION:PT1H", "RRULE:FREQ=WEEKLY"]
    assert freezes(calendar(*written), "2026-07-14T10:00") is not None
    assert freezes(calendar(*written, without), "2026-07-14T10:00") is None
    assert freezes(calendar(*written, without), "2026-07-07T10:00") is not None


@pytest.mark.parametrize("without", ["EXDATE:20260714T090000Z", "EXDATE;VALUE=DATE:20260714"])
def test_what_leaves_out_no_occurrence_leaves_out_none(without: str) -> None:
    content = calendar("DTSTART:20260707T080000Z", "DURATION:PT1H", "RRULE:FREQ=WEEKLY", without)
    assert freezes(content, "2026-07-14T10:00") is not None


def test_more_occurrences() -> None:
    content = calendar("DTSTART:20260707T080000Z", "DURATION:PT1H", "RDATE:20260709T080000Z,20260710T080000Z")
    for day, hit in (("07", True), ("08", False), ("09", True), ("10", True)):
        assert (freezes(content, f"2026-07-{day}T10:00") is not None) == hit


def test_an_occurrence_that_was_moved_or_cancelled() -> None:
    master = ("UID:1", "DTSTART;TZID=Europe/Berlin:20260707T100000", "DURATION:PT1H", "RRULE:FREQ=WEEKLY", "")
    moved = ("UID:1", "RECURRENCE-ID:20260714T080000Z", "DTSTART:20260715T080000Z", "DURATION:PT1H")
    content = calendar(*master, *moved)
    assert freezes(content, "2026-07-14T10:00") is None
    assert freezes(content, "2026-07-15T10:00") is not None and freezes(content, "2026-07-21T10:00") is not None
    content = calendar(*master, *moved, "STATUS:CANCELLED")
    assert freezes(content, "2026-07-14T10:00") is None and freezes(content, "2026-07-15T10:00") is None
    content = calendar(*master, "UID:2", *moved[1:])  # of another series
    assert freezes(content, "2026-07-14T10:00") is not None


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["SUMMARY:x"], "the event “x” does not say when it begins"),
        (["DURATION:PT1H"], "an event without summary does not say when it begins"),
        (["DTSTART:tomorrow"], "DTSTART tomorrow is not understood"),
        (["DTSTART:20260231"], "DTSTART 20260231 does not exist"),
        (["DTSTART;VALUE=DATE:20260707T100000"], "is not understood"),
        (["DTSTART;VALUE=DATE-TIME:20260707"], "is not understood"),
        (["DTSTART;VALUE=PERIOD:20260707T100000"], "of the kind PERIOD is not understood"),
        (["DTSTART:20260707T100000", "DTSTART:20260708T100000"], "has 2 DTSTART"),
        (["DTSTART;TZID=W. Europe Standard Time:20260101T100000"], "there is no time zone W. Europe Standard Time"),
        (["DTSTART;TZID=/etc/passwd:20260101T100000"], "there is no time zone /etc/passwd"),
        (["DTSTART:20260101T100000", "DTEND:20260101T090000"], "ends before it begins"),
        (["DTSTART;VALUE=DATE:20260102", "DTEND;VALUE=DATE:20260101"], "ends before it begins"),
        (["DTSTART:20260101T100000", "DTEND;VALUE=DATE:20260102"], "a day and a moment"),
        (["DTSTART:20260101T100000", "DTEND:20260101T110000", "DURATION:PT1H"], "both DTEND and DURATION"),
        (["DTSTART:20260101T100000", "DURATION:1 hour"], "DURATION 1 hour is not understood"),
        (["DTSTART:20260101T100000", "DURATION:-PT1H"], "DURATION -PT1H is not understood"),
        (["DTSTART:20260101T100000", "DURATION:PT"], "DURATION PT is not understood"),
        (["DTSTART:20260101T100000", "DURATION:P"], "DURATION P is not understood"),
        (["DTSTART:20260101T100000", "EXDATE:x"], "EXDATE x is not understood"),
        (["DTSTART:20260101T100000", "RDATE;VALUE=PERIOD:20260102T100000/PT1H"], "RDATE of the kind PERIOD"),
        (["no line"], "a line of an event cannot be read: no line"),
        (
            [
                "UID:1",
                "DTSTART:20260101",
                "",
                "UID:1",
                "DTSTART:20260102",
                "RECURRENCE-ID;RANGE=THISANDFUTURE:20260102",
            ],
            "changes itself and all that follow",
        ),
        *(
            (["DTSTART:20260101T100000", f"RRULE:{rule}"], "RRULE")
            for rule in (
                *("", "x", "FREQ=SECONDLY", "FREQ=MINUTELY", "FREQ=HOURLY", "FREQ=NEVER", "COUNT=3"),
                *("FREQ=DAILY;INTERVAL=0", "FREQ=DAILY;COUNT=0", "FREQ=DAILY;FREQ=WEEKLY", "FREQ=DAILY;BYEASTER=0"),
                *("FREQ=YEARLY;BYMONTH=13", "FREQ=MONTHLY;BYMONTHDAY=32", "FREQ=MONTHLY;BYMONTHDAY=0"),
                *("FREQ=WEEKLY;BYDAY=XX", "FREQ=WEEKLY;BYDAY=1MO", "FREQ=YEARLY;BYDAY=99MO", "FREQ=DAILY;WKST=1"),
                *("FREQ=DAILY;COUNT=1;UNTIL=20270101", "RSCALE=CHINESE;FREQ=YEARLY", "FREQ=DAILY;BYSECOND=60"),
            )
        ),
        (["DTSTART:20260101T100000", "RRULE:FREQ=DAILY;UNTIL=x"], "UNTIL X is not understood"),
        (["DTSTART:20260101T100000", "RRULE:FREQ=DAILY;BYMINUTE=" + ",".join(map(str, range(60)))], None),
        (
            [
                "DTSTART:19000101T000000",
                f"RRULE:FREQ=DAILY;BYHOUR={','.join(map(str, range(24)))};BYMINUTE={','.join(map(str, range(60)))}",
            ],
            "repeats too often",
        ),
    ],
)
def test_what_is_not_understood(lines: list[str], says: str | None) -> None:
    content = calendar(*lines)
    if says is None:
        assert freezes(content, "2026-07-07T10:30") is not None
    else:
        assert says in unclear(content)


def test_what_is_not_understood_freezes_beside_what_is() -> None:
    assert "no time zone X" in unclear(calendar("DTSTART:20200101", "", "DTSTART;TZID=X:20200101T100000"))


def test_a_cancelled_event_need_not_be_understood() -> None:
    content = calendar("DTSTART;TZID=X:20200101T100000", "STATUS:CANCELLED", "", "DTSTART:20200101")
    assert freezes(content, "2026-07-07T10:00") is None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "it is empty"),
        (b" \r\n", "it is empty"),
        (b"<html><body>Sign in</body></html>", "it is no calendar"),
        (b'{"error": "no"}', "it is no calendar"),
        (b"\x00\x01", "it is no calendar"),
        (LATER.decode().encode("utf-16"), "it is not UTF-8 text"),
        (LATER.replace(b"release", b"Caf\xe9"), "it is not UTF-8 text"),
        (LATER[:-17], "it is cut off: END:VCALENDAR was expected"),
        (LATER[:-20], "a component ends that did not begin"),
        (LATER[:60], "it is cut off: END:VEVENT was expected"),
        (LATER + b"<p>", "it is no calendar"),
        (b"BEGIN:VEVENT\r\n" + LATER, "it is no calendar"),
        (LATER.replace(b"END:VEVENT\r\n", b""), "a component ends that did not begin"),
        (LATER.replace(b"BEGIN:VEVENT", b"BEGIN:VTODO\r\nBEGIN:VEVENT"), "an event is within another component"),
        (b"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nEND:VCALENDAR\r\n", "it has no event, not even an old one"),
        (b"BEGIN:VCALENDAR\nBEGIN:VFREEBUSY\nEND:VFREEBUSY\nEND:VCALENDAR\n", "it says when somebody is busy"),
    ],
)
def test_what_is_no_calendar(content: bytes, says: str) -> None:
    assert says in unclear(content)


def test_a_byte_order_mark_and_two_calendars_are_read() -> None:
    assert freezes(b"\xef\xbb\xbf" + LATER, "2026-07-07T10:00") is None
    assert freezes(LATER + SOON, "2026-07-07T10:00") is not None


@given(st.integers(0, len(LATER) - 3))
def test_law_whatever_is_cut_off_freezes(length: int) -> None:
    unclear(LATER[:length])


NAMES = [
    "DTSTART",
    "DTEND",
    "RRULE",
    "EXDATE",
    "UID",
    "STATUS",
    "TZID",
    "VALUE=DATE",
    "FREQ=DAILY",
    "COUNT=3",
    "UNTIL=",
    "BYDAY=",
    "MO",
]
VALUES = ["20260707", "T100000", "Z", "99991231", "00010101", "P1D", "é", ":", ";", "=", ","]
pieces = st.sampled_from([*NAMES, *VALUES, '"', " ", "\r\n"])


@given(st.lists(pieces, max_size=30).map("".join), st.lists(pieces, max_size=12).map("".join))
def test_law_a_calendar_is_read_or_refused_in_words(lines: str, value: str) -> None:
    content = calendar("DTSTART:20260101T100000", f"RRULE:FREQ=WEEKLY;{value}", lines)
    try:
        freezes(content, "2026-07-07T10:00")
    except Unclear as error:
        assert str(error)


# --------------------------------------------------------------------------------------------------- files


def test_a_file_that_does_not_freeze(tmp_path: Path) -> None:
    (tmp_path / "c.ics").write_bytes(LATER)
    assert said(tmp_path, {"ics": "c.ics"}) is None
    (tmp_path / "c.ics").write_bytes(SOON)
    assert str(said(tmp_path, {"ics": "c.ics"})).endswith(": release")


def test_files_that_cannot_be_read_freeze(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(LATER + b"\r\n" * MOST_BYTES)
    for name, says in (
        ("missing", "the file cannot be read: No such file or directory"),
        ("folder", "it is a folder"),
        ("pipe", "it is no regular file"),
        ("large", "it has more than 5 MB"),
    ):
        for kind in ("ics", "yaml"):
            assert said(tmp_path, {kind: name}) == f"{NOBODY}{says}"


@pytest.mark.parametrize("kind", ["ics", "yaml"])
def test_a_file_may_be_so_old_and_no_older(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "calendar"
    file.write_bytes(LATER if kind == "ics" else b"freezes: []")
    freeze = {kind: "calendar", "oldest": "24h"}
    for age, says in ((0, None), (86400, None), (86401, "was last written at"), (-60, None), (-301, "clocks is wrong")):
        os.utime(file, (NOW.timestamp() - age,) * 2)
        answer = said(tmp_path, freeze)
        assert answer is None if says is None else says in str(answer), age
    assert said(tmp_path, {kind: "calendar"}) is None


def test_a_span_that_is_over_is_its_moment(tmp_path: Path) -> None:
    (tmp_path / "c.ics").write_bytes(SOON)
    for begins, ends, hit in (("10:30", "10:30", True), ("10:30", "09:00", True), ("11:00", "10:30", False)):
        answer = frozen(
            gameday(tmp_path), Freeze(ics="c.ics"), at(f"2026-07-07T{begins}"), at(f"2026-07-07T{ends}"), NOW
        )
        assert (answer is not None) == hit


def test_moments_need_a_zone(tmp_path: Path) -> None:
    day, freeze, naive = gameday(tmp_path), Freeze(yaml="x"), NOW.replace(tzinfo=None)
    later = NOW + timedelta(hours=1)
    for moments in ((naive, later, NOW), (NOW, naive, NOW), (NOW, later, naive)):
        with pytest.raises(ValueError, match="a moment without a zone"):
            frozen(day, freeze, *moments)


def test_each_calendar_is_asked(tmp_path: Path) -> None:
    (tmp_path / "a.ics").write_bytes(LATER)
    (tmp_path / "b.ics").write_bytes(SOON)
    day = gameday(tmp_path, freezes=[{"ics": "a.ics"}, {"yaml": "c.yaml"}, {"ics": "b.ics"}])
    (a, no), (c, missing), (b, yes) = frozen_by(day, at("2026-07-07T10:00"), at("2026-07-07T11:00"), NOW)
    assert (a, b, c) == ("a.ics", "b.ics", "c.yaml") and no is None
    assert "cannot be read" in str(missing) and "release" in str(yes)


# --------------------------------------------------------------------------------------------- addresses


@pytest.fixture
def server() -> Iterator[Answer]:
    with answering() as answer:
        answer.date = http_date(NOW)
        yield answer


def http_date(moment: datetime) -> str:
    return format_datetime(moment, usegmt=True)


def test_an_address_is_asked_with_its_token(tmp_path: Path, server: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALENDAR_TOKEN", "s3cret")
    (tmp_path / "token").write_text("fr0m-file\n")
    server.body = LATER
    assert said(tmp_path, {"ics": server.url}) is None
    assert said(tmp_path, {"ics": server.url, "token": "env:CALENDAR_TOKEN"}) is None
    assert said(tmp_path, {"ics": server.url, "token": "file:token"}) is None
    assert [each.get("authorization") for each in server.asked] == [None, "Bearer s3cret", "Bearer fr0m-file"]
    server.body = SOON
    assert str(said(tmp_path, {"ics": server.url})).endswith(": release")


@pytest.mark.parametrize("token", ["two\nlines", "", "schlüssel", "with blank"])
def test_a_token_that_cannot_be_sent_freezes_and_is_not_said(
    tmp_path: Path, server: Answer, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("CALENDAR_TOKEN", token)
    answer = str(said(tmp_path, {"ics": server.url, "token": "env:CALENDAR_TOKEN"}))
    assert answer.startswith(f"{NOBODY}what stands in env:CALENDAR_TOKEN is no bearer token: ")
    assert not token or token not in answer
    assert not server.asked


def test_a_token_that_is_not_there_freezes(tmp_path: Path, server: Answer) -> None:
    answer = said(tmp_path, {"ics": server.url, "token": "env:NOT_THERE"})
    assert answer == f"{NOBODY}the environment has no NOT_THERE"
    assert not server.asked


@pytest.mark.parametrize("status", [204, 301, 302, 304, 307, 401, 403, 404, 500, 503])
def test_an_answer_that_is_not_200_freezes(tmp_path: Path, server: Answer, status: int) -> None:
    server.status, server.headers = status, {"Location": "/elsewhere?token=s3cret"}
    answer = str(said(tmp_path, {"ics": server.url}))
    assert answer.startswith(NOBODY) and str(status) in answer and "s3cret" not in answer
    assert len(server.asked) == 1 and ("redirects are not followed" in answer) == (300 <= status < 400)


@pytest.mark.parametrize("body", [b"", b"<html></html>", LATER[:-20], LATER.replace(b"release", b"\xff")])
def test_an_answer_that_is_no_calendar_freezes(tmp_path: Path, server: Answer, body: bytes) -> None:
    server.body = body
    assert str(said(tmp_path, {"ics": server.url})).startswith(NOBODY)


def test_an_answer_that_is_cut_off_large_or_compressed_freezes(tmp_path: Path, server: Answer) -> None:
    server.body, server.length = LATER, len(LATER) + 1
    assert said(tmp_path, {"ics": server.url}) == f"{NOBODY}the address does not answer: the answer was cut off"
    server.body, server.length = LATER + b"\r\n" * MOST_BYTES, None
    assert said(tmp_path, {"ics": server.url}) == f"{NOBODY}it has more than 5 MB"
    server.body, server.headers = LATER, {"Content-Encoding": "gzip"}
    assert said(tmp_path, {"ics": server.url}) == f"{NOBODY}the answer is compressed, which was not asked for"


def test_an_address_that_never_answers_freezes(tmp_path: Path, server: Answer) -> None:
    over = threading.Event()
    server.body, server.before = LATER, over.wait
    try:
        answer = said(tmp_path, {"ics": server.url}, deadline=0.2)
    finally:
        over.set()
    assert answer in (
        f"{NOBODY}the address does not answer: too slow",
        f"{NOBODY}it could not be read within 0.2 s",
    )


def test_an_answer_that_drips_freezes(tmp_path: Path, server: Answer) -> None:
    server.drips, server.length = threading.Event(), 1_000_000
    try:
        answer = said(tmp_path, {"ics": server.url}, deadline=0.2)
    finally:
        server.drips.set()
    assert answer in (f"{NOBODY}the answer takes too long", f"{NOBODY}it could not be read within 0.2 s")


def test_an_address_where_nobody_listens_freezes(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert said(tmp_path, {"ics": f"http://127.0.0.1:{port}/x?key=s3cret"}) == (
        f"{NOBODY}the address does not answer: nothing listens there"
    )


def test_an_address_without_tls_where_it_is_expected_freezes(tmp_path: Path, server: Answer) -> None:
    answer = said(tmp_path, {"ics": server.url.replace("http:", "https:")})
    assert answer == f"{NOBODY}the address does not answer: TLS failed"


def test_a_calendar_is_fetched_once_and_judged_for_each_question(tmp_path: Path, server: Answer) -> None:
    server.body = SOON
    judge = read(gameday(tmp_path), Freeze(ics=server.url), NOW)
    answers = [judge(at(f"2026-07-{day:02}T10:00"), at(f"2026-07-{day:02}T11:00")) for day in range(1, 15)]
    assert [number for number, each in enumerate(answers, 1) if each is not None] == [7]
    assert len(server.asked) == 1
    server.status = 500
    unread = read(gameday(tmp_path), Freeze(ics=server.url), NOW)
    assert {unread(at("2026-07-01T10:00"), at("2026-07-01T11:00")) for _ in range(9)} == {
        f"{NOBODY}the address answers 500"
    }
    assert len(server.asked) == 2


# ---- an address that is secret -------------------------------------------------------------------------


@pytest.mark.parametrize("reference", ["env:CALENDAR", "file:calendar.url"])
def test_an_address_may_be_a_secret(
    tmp_path: Path, server: Answer, monkeypatch: pytest.MonkeyPatch, reference: str
) -> None:
    address = f"{server.url}?private-hidden"
    monkeypatch.setenv("CALENDAR", address)
    (tmp_path / "calendar.url").write_text(f"{address}\n")
    day = gameday(tmp_path, freezes=[{"ics": reference}])

    def answer() -> str | None:
        ((label, why),) = frozen_by(day, at("2026-07-07T10:00"), at("2026-07-07T11:00"), NOW)
        assert label == reference and "hidden" not in str(why) and "127.0.0.1" not in str(why)
        return why

    server.body = LATER
    assert answer() is None and len(server.asked) == 1
    server.body = SOON.replace(b"release", f"release of {address}".encode())
    assert str(answer()).endswith(f"release of {reference}")
    server.body = LATER.replace(b"SUMMARY", f"?{address} SUMMARY".encode())
    assert "a line of an event cannot be read" in str(answer())
    server.status = 404
    assert answer() == f"{NOBODY}the address answers 404"
    monkeypatch.setenv("CALENDAR", address.replace("http:", "https:"))
    (tmp_path / "calendar.url").write_text(address.replace("http:", "https:"))
    assert answer() == f"{NOBODY}the address does not answer: TLS failed"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "the environment has no CALENDAR"),
        ("", "env:CALENDAR is empty"),
        ("webcal://calendar.example/hidden", "what stands for its address is none"),
        ("hidden.ics", "what stands for its address is none"),
        ("https://user:hidden@calendar.example/", "what stands for its address is none"),
        ("https://calendar.example:hidden/", "its address cannot be read"),
        ("https://calendar.example/hid den", "its address holds characters"),
        ("https://calendar.example/hid\nden", "is not one line"),
    ],
)
def test_what_is_no_address_freezes_and_is_not_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None, says: str
) -> None:
    monkeypatch.delenv("CALENDAR", raising=False) if value is None else monkeypatch.setenv("CALENDAR", value)
    answer = str(said(tmp_path, {"ics": "env:CALENDAR"}))
    assert answer.startswith(NOBODY) and says in answer and "hid" not in answer


# ---- whom to trust -------------------------------------------------------------------------------------


def test_over_tls_only_one_with_a_certificate_that_holds_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = authority(tmp_path)
    monkeypatch.setenv("TOKEN", "s3cret")
    with answering(known.served) as server:
        server.date = http_date(NOW)
        server.body = LATER
        freeze = {"ics": server.url, "token": "env:TOKEN"}
        assert str(said(tmp_path, freeze)).startswith(f"{NOBODY}the address does not answer: its certificate is not")
        assert not server.asked
        assert said(tmp_path, {**freeze, "ca": "security/ca.pem"}) is None
        assert said(tmp_path / "elsewhere", {**freeze, "ca": str(known.ca)}) is None
        monkeypatch.setenv("CALENDAR", server.url)
        assert said(tmp_path, {**freeze, "ics": "env:CALENDAR", "ca": "security/ca.pem"}) is None
        assert len(server.asked) == 3


def test_a_certificate_of_another_host_does_not_tell_the_host_that_is_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, resolve = authority(tmp_path), socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *more, **how: resolve("127.0.0.1", *more, **how))
    with answering(known.served) as server:
        server.date = http_date(NOW)
        address = server.url.replace("127.0.0.1", "hidden.example")
        monkeypatch.setenv("CALENDAR", address)
        secret = str(said(tmp_path, {"ics": "env:CALENDAR", "ca": "security/ca.pem"}))
        assert "hidden" not in secret and "not valid for its host" in secret
        assert "not valid for 'hidden.example'" in str(said(tmp_path, {"ics": address, "ca": "security/ca.pem"}))
        assert not server.asked


@pytest.mark.parametrize("ca", ["nowhere.pem", "text.pem", ".", "a\0b", "~nobody-has-this-name/ca.pem"])
def test_a_file_of_whom_to_trust_that_is_none_freezes(tmp_path: Path, server: Answer, ca: str) -> None:
    (tmp_path / "text.pem").write_text("trust me\n")
    answer = str(said(tmp_path, {"ics": server.url.replace("http:", "https:"), "ca": ca}))
    assert answer.startswith(f"{NOBODY}cannot use ") and "as CA certificates" in answer and not server.asked


def test_whom_to_trust_is_asked_of_tls_only(tmp_path: Path, server: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALENDAR", server.url)
    assert said(tmp_path, {"ics": "env:CALENDAR", "ca": "ca.pem"}) == f"{NOBODY}certificates mean TLS"
    assert not server.asked


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"Date": 0}, None),
        ({"Date": 0, "Last-Modified": 86400}, None),
        ({"Date": 0, "Last-Modified": 86401}, "it was last changed at 2026-07-06 07:59 UTC, and may be 24h old"),
        ({"Last-Modified": 5}, None),
        ({"Date": 90000}, "it was made at"),
        ({"Date": 0, "Age": "86400"}, None),
        ({"Date": 0, "Age": "86401"}, "it was taken into a cache at"),
        ({"Date": -200}, None),
        ({"Date": -400}, "one of two clocks is wrong"),
        ({}, "it does not say how old it is"),
        ({"Age": "1"}, "it does not say how old it is"),
        ({"Date": "yesterday"}, "its date is no date"),
        ({"Date": 0, "Last-Modified": "0"}, "its last-modified is no date"),
        ({"Date": 0, "Age": "-1"}, "its age is no number of seconds"),
    ],
)
def test_how_old_an_address_is(tmp_path: Path, server: Answer, headers: dict[str, Any], says: str | None) -> None:
    server.body, server.date = LATER, None
    server.headers = {
        name: value if isinstance(value, str) else http_date(NOW - timedelta(seconds=value))
        for name, value in headers.items()
    }
    answer = said(tmp_path, {"ics": server.url, "oldest": "24h"})
    assert answer is None if says is None else says in str(answer)
    timely = "Date" in headers and headers["Date"] == 0 and headers.get("Age") is None
    anyhow = said(tmp_path, {"ics": server.url})  # any content's age, and an answer of the last hour
    assert (anyhow is None) is timely, anyhow


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"Date": 3600}, None),
        ({"Date": 3601}, "it says that it answered 3601 s ago"),
        ({"Date": -61}, "it says that it answered 61 s from now"),
        ({"Date": 0, "Age": "3600"}, None),
        ({"Date": 0, "Age": "3601"}, "a cache answered with what is 3601 s old"),
        ({}, "it does not say when it answered"),
    ],
)
def test_an_address_answers_of_now_whatever_the_file_says(
    tmp_path: Path, server: Answer, headers: dict[str, Any], says: str | None
) -> None:
    server.body, server.date = LATER, None
    server.headers = {
        name: value if isinstance(value, str) else http_date(NOW - timedelta(seconds=value))
        for name, value in headers.items()
    }
    answer = said(tmp_path, {"ics": server.url})
    assert answer is None if says is None else says in str(answer)
