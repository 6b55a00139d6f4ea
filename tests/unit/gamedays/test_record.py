"""The record of a day: whatever is changed in it is found, and what cannot be found is known."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import stat
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.base.errors import InvalidInput
from chaos.gamedays import record
from chaos.gamedays.record import START, Record, canonical, plain, problems, read, verify

NINE = datetime(2026, 11, 26, 9, 0, 0, 123000, tzinfo=UTC)


def made(path: Path, count: int = 5) -> str:
    """A record of so many lines; its head."""
    with Record(path, clock=lambda: NINE) as it:
        for number in range(count):
            it.add("gate", name=f"gate {number}", ok=number % 2 == 0, says="…", took=1.5)
        return it.head


# ---- writing ---------------------------------------------------------------------------------------------------


def test_a_line_is_canonical_and_holds_the_hash_of_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "days" / "record.jsonl"
    with Record(path, clock=lambda: NINE.astimezone(timezone(timedelta(hours=1)))) as it:
        assert it.head == START
        first = it.add("day.asked", gameday="staging", user="ä")
        second = it.add("hold", why="a gate")
        head = it.head
    one, two = path.read_bytes().splitlines()
    assert (
        one
        == (
            f'{{"gameday":"staging","kind":"day.asked","n":1,"prev":"{START}","t":"2026-11-26T09:00:00.123Z","user":"ä"}}'
        ).encode()
    )
    assert json.loads(two)["prev"] == hashlib.sha256(one).hexdigest()
    assert head == hashlib.sha256(two).hexdigest()
    assert read(path) == [first, second]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert verify(path, head) == verify(path) == []


def test_whether_it_is_open_is_the_kernel_s_word(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    assert not record.is_open(path)
    with Record(path) as it:
        assert record.is_open(path) and record.is_open(path)
        it.add("day.asked")
    assert not record.is_open(path)
    assert len(read(path)) == 1


def test_no_record_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    made(path)
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match=r"there is a record already: .*; none is overwritten"):
        Record(path)
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match="there is a record already"):
        Record(tmp_path / "link.jsonl")
    assert path.read_bytes() == before
    with pytest.raises(InvalidInput, match=r"cannot be made: (Not a directory|File exists)"):
        Record(path / "in" / "a" / "file.jsonl")


@pytest.mark.parametrize("name", ["n", "t", "prev"])
def test_fields_of_the_records_own_are_refused(tmp_path: Path, name: str) -> None:
    with Record(tmp_path / "r.jsonl") as it:
        with pytest.raises(ValueError, match=f"by the name {name}"):
            it.add("gate", **{name: 1})
        with pytest.raises(ValueError, match="by the name kind"):
            it.add("expectation", **{"kind": "alerts"})
        it.add("gate")
    assert verify(tmp_path / "r.jsonl") == []


def test_what_json_does_not_have_becomes_text(tmp_path: Path) -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd \ud800"

    with Record(tmp_path / "r.jsonl") as it:
        line = it.add(
            "guard", value=float("nan"), most=float("-inf"), labels={"a\udfff": (1, Odd())}, name="x\ny\u2028z"
        )
        assert (line["value"], line["most"], line["labels"]) == ("nan", "-inf", {"a?": [1, "odd ?"]})
        assert verify(tmp_path / "r.jsonl", it.head) == []
        assert read(tmp_path / "r.jsonl") == [line]


def test_many_threads_write_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with Record(path) as it:

        def write(name: str) -> None:
            for number in range(20):
                it.add("guard", name=name, number=number)

        threads = [threading.Thread(target=write, args=(f"g{n}",)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        head = it.head
    assert verify(path, head) == []
    assert sorted((line["name"], line["number"]) for line in read(path)) == [
        (f"g{n}", number) for n in range(6) for number in range(20)
    ]


def test_a_full_disk_is_told_once_and_the_hole_stands_in_the_record(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    told: list[str] = []
    with Record(path, broken=told.append) as it:
        it.add("gate", name="first")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 30, hard))
        try:
            for _ in range(2):
                with pytest.raises(OSError, match="File too large"):
                    it.add("gate", name="in vain")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert told == ["the record cannot be written: r.jsonl: File too large"]
        assert [line["name"] for line in read(path)] == ["first"]
        assert verify(path, it.head) == []  # no half line is left
        it.add("undone", seconds=3)
        assert [line["kind"] for line in read(path)] == ["gate", "record.lost", "undone"]
        assert read(path)[1]["lines"] == 2
        assert verify(path, it.head) == []


def test_a_line_that_is_not_on_the_disk_counts_as_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.jsonl"
    told: list[str] = []

    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    with Record(path, broken=told.append) as it:
        it.add("gate", name="first")
        with monkeypatch.context() as patched:
            patched.setattr(record.os, "fsync", fails)
            with pytest.raises(OSError, match="Input/output"):
                it.add("gate", name="in vain")
        assert len(told) == 1 and verify(path, it.head) == []
        with monkeypatch.context() as patched:
            patched.setattr(record.os, "fsync", fails)
            patched.setattr(record.os, "ftruncate", lambda *_: fails(0))
            with pytest.raises(OSError, match="Input/output"):
                it.add("gate", name="half")
        with pytest.raises(OSError, match="half a line is at its end"):  # and nothing may join it
            it.add("gate", name="never")


def test_whoever_is_told_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.jsonl"
    failing = iter([OSError(28, "No space left on device")])
    real = os.fsync

    def once(descriptor: int) -> None:
        for error in failing:
            raise error
        real(descriptor)

    it = Record(path, broken=lambda says: it.add("stop", by="record", why=says) and None)
    monkeypatch.setattr(record.os, "fsync", once)
    with it, pytest.raises(OSError, match="No space"):
        it.add("gate")
    assert [line["kind"] for line in read(path)] == ["record.lost", "stop"]


# ---- reading ---------------------------------------------------------------------------------------------------


def test_half_a_line_is_left_out_and_told(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    head = made(path, 3)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"kind":"ga')
    assert [line["n"] for line in read(path)] == [1, 2, 3]
    assert (
        verify(path)
        == verify(path, head)
        == ["line 4 is torn: its writer was killed while it wrote, or the record was cut"]
    )


def test_a_record_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read: No such file"):
        read(tmp_path / "none.jsonl")
    assert verify(tmp_path / "none.jsonl") == ["the record cannot be read: No such file or directory"]
    (tmp_path / "bad.jsonl").write_bytes(b"{}\n")
    with pytest.raises(InvalidInput, match=r"line 1 of .* is no line of a record"):
        read(tmp_path / "bad.jsonl")
    (tmp_path / "empty.jsonl").write_bytes(b"")
    assert verify(tmp_path / "empty.jsonl") == ["the record is empty"]


# ---- what is found -----------------------------------------------------------------------------------------------


def _edited(lines: list[bytes], at: int, old: bytes, new: bytes) -> list[bytes]:
    assert old in lines[at]
    return [line.replace(old, new) if number == at else line for number, line in enumerate(lines)]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda lines: _edited(lines, 1, b"false", b"true"),
            "line 3 does not follow from line 2: one of them was changed",
        ),
        (lambda lines: _edited(lines, 1, b"false", b"fals"), "line 2 is no JSON of a record"),
        (lambda lines: _edited(lines, 1, b'"ok":', b'"ok": '), "line 2 is not as a record writes it: it was changed"),
        (lambda lines: _edited(lines, 1, b'"ok":', b'"ok":true,"ok":'), "line 2 is not as a record writes it"),
        (lambda lines: lines[1:], "line 1 is number 2: 1 line before it is missing"),
        (lambda lines: [*lines[:1], *lines[3:]], "line 2 is number 4: 2 lines before it are missing"),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], "line 3 is number 2 and comes after number 3"),
        (lambda lines: [*lines, lines[-1]], "line 6 is number 5 and comes after number 5: it was repeated or moved"),
        (lambda lines: [*lines, b""], "line 6 is no JSON of a record"),
        (lambda lines: [*lines, b'{"a":1}'], "line 6 is no line of a record"),
        (lambda lines: _edited(lines, 0, START.encode(), b"1" * 64), "line 1 is not the beginning of a record"),
        (lambda lines: [*lines, b"[" * 100_000], "line 6 is no JSON of a record"),
    ],
)
def test_what_was_changed_is_told_by_its_line(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], says: str
) -> None:
    made(tmp_path / "r.jsonl")
    lines = change((tmp_path / "r.jsonl").read_bytes().splitlines())
    (tmp_path / "r.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    assert any(each.startswith(says) for each in verify(tmp_path / "r.jsonl")), verify(tmp_path / "r.jsonl")


def test_the_end_is_known_by_the_head_only(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    head = made(path)
    raw = path.read_bytes()
    lines = raw.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]))
    assert verify(path) == []  # that is what cannot be found
    (says,) = verify(path, head)
    assert says.startswith("no line has the hash that was kept")
    path.write_bytes(raw.replace(b'"name":"gate 4","ok":true', b'"name":"gate 4","ok":false'))
    assert verify(path) == [] and len(verify(path, head)) == 1


def test_a_chain_that_was_written_anew_is_known_by_the_head_only(tmp_path: Path) -> None:
    head = made(tmp_path / "true.jsonl")
    with Record(tmp_path / "false.jsonl", clock=lambda: NINE) as it:
        for line in read(tmp_path / "true.jsonl"):
            fields = {key: value for key, value in line.items() if key not in record.RESERVED}
            it.add(line["kind"], **{**fields, "ok": True})
    assert verify(tmp_path / "false.jsonl") == []
    assert len(verify(tmp_path / "false.jsonl", head)) == 1


def test_a_record_goes_on_after_a_head_that_was_announced(tmp_path: Path) -> None:
    """The announcement that carries a head is itself recorded after it."""
    with Record(tmp_path / "r.jsonl") as it:
        it.add("day.asked")
        head = it.head
        it.add("announced")
        it.add("day.end")
        last = it.head
    assert verify(tmp_path / "r.jsonl", head) == verify(tmp_path / "r.jsonl", last) == []
    assert record.after(tmp_path / "r.jsonl", head) == ["announced", "day.end"]
    assert record.after(tmp_path / "r.jsonl", last) == [] and record.after(tmp_path / "r.jsonl", "0" * 64) is None
    assert len(verify(tmp_path / "r.jsonl", record.START)) == 1


def test_lines_that_were_cut_off_after_a_head_are_known_by_a_later_head_alone(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    with Record(file) as it:
        it.add("day.asked")
        head = it.head
        it.add("day.end")
        last = it.head
    file.write_bytes(file.read_bytes().split(b"\n")[0] + b"\n")
    assert verify(file, head) == [] and len(verify(file, last)) == 1


Text = st.text(st.sampled_from('ab"\\{}:,\n\r\x00 ä\u2028\ud800😀'), max_size=5)
Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | Text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(Text, inner, max_size=2),
    max_leaves=3,
)
Fields = st.dictionaries(Text.filter(lambda name: name not in record.RESERVED), Json, max_size=2)
Lines = st.lists(st.tuples(Text, Fields), min_size=1, max_size=6)


def chain(lines: list[tuple[str, dict[str, Any]]]) -> bytes:
    """What a :class:`Record` writes of these, without a file."""
    out, before = b"", START
    for number, (kind, fields) in enumerate(lines, 1):
        own = {"n": number, "t": "2026-11-26T09:00:00.123Z", "kind": plain(kind), "prev": before}
        line = canonical({**plain(fields), **own})
        out, before = out + line + b"\n", hashlib.sha256(line).hexdigest()
    return out


def head_of(raw: bytes) -> str:
    return hashlib.sha256(raw.rstrip(b"\n").split(b"\n")[-1]).hexdigest()


@settings(max_examples=15, deadline=None)
@given(Lines)
def test_the_chain_of_these_tests_is_the_one_that_is_written(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[str, dict[str, Any]]]
) -> None:
    path = tmp_path_factory.mktemp("r") / "r.jsonl"
    with Record(path, clock=lambda: NINE) as it:
        for kind, fields in lines:
            it.add(kind, **fields)
        assert path.read_bytes() == chain(lines) and it.head == head_of(chain(lines))


@settings(max_examples=50, deadline=None)
@given(Lines)
def test_what_nobody_touched_is_right(lines: list[tuple[str, dict[str, Any]]]) -> None:
    raw = chain(lines)
    assert problems(raw) == problems(raw, head_of(raw)) == []


@st.composite
def mutated(draw: st.DrawFn) -> tuple[bytes, bytes, bool]:
    """A record, the same with one change, and whether that can be found without the head."""
    raw = chain(draw(Lines))
    lines = [each + b"\n" for each in raw.split(b"\n")[:-1]]
    at = draw(st.integers(0, len(lines) - 1))
    how = draw(st.sampled_from(["byte", "drop", "swap", "double", "cut", "append", "insert"]))
    inner = at < len(lines) - 1
    if how == "byte":
        place = draw(st.integers(0, len(raw) - 1))
        other = draw(st.integers(0, 255).filter(lambda byte: byte != raw[place]))
        return raw, raw[:place] + bytes([other]) + raw[place + 1 :], place < len(raw) - len(lines[-1])
    if how == "drop":
        return raw, b"".join(lines[:at] + lines[at + 1 :]), inner or len(lines) == 1
    if how == "swap":
        to = draw(st.integers(0, len(lines) - 1).filter(lambda other: other != at)) if len(lines) > 1 else at
        lines[at], lines[to] = lines[to], lines[at]
        return raw, b"".join(lines) if len(lines) > 1 else b"", True
    if how == "double":
        return raw, b"".join([*lines[: at + 1], *lines[at:]]), True
    if how == "cut":
        place = draw(st.integers(0, len(raw) - 1))
        return raw, raw[:place], place == 0 or raw[place - 1] != ord("\n")
    junk = draw(st.binary(min_size=1, max_size=30))
    if how == "append":
        return raw, raw + junk, True
    place = draw(st.integers(0, len(raw) - len(lines[-1])))
    return raw, raw[:place] + junk + raw[place:], len(lines) > 1


@settings(max_examples=200, deadline=None)
@given(mutated())
def test_every_single_change_is_found(case: tuple[bytes, bytes, bool]) -> None:
    raw, changed, without_head = case
    if raw == changed:  # what was put in makes the same again
        return
    assert problems(changed, head_of(raw))
    if without_head:
        assert problems(changed)
