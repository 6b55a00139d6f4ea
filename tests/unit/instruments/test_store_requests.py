"""What nodes ask of a store: the two records, the keys that must be there, and what is not known of them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import synthetic
from hypothesis import given
from hypothesis import strategies as st

from chaos.checks.measure import Bound, Verdict, judge
from chaos.checks.reasons import Cause
from chaos.checks.record import SECOND
from chaos.checks.record import Record as Run
from chaos.instruments import store_requests
from chaos.instruments.store_requests import FILE, INSTRUMENT
from chaos.targets.services.record import Expected, Record, of_store


def row(
    verb: str, key: str, status: int | None = 200, how: str = "answered", keys: tuple[str, ...] = ()
) -> dict[str, Any]:
    return {"verb": verb, "path": f"/store/{key}", "status": status, "how": how, "keys": list(keys)}


def test_a_key_must_be_there_from_its_acknowledgement_until_somebody_asked_to_take_it_away() -> None:
    expected = Expected("store")
    expected.add([row("PUT", "a"), row("PUT", "b", 500), row("PUT", "c", None, "hung"), row("PUT", "d%20e")])
    assert expected.keys == {"a", "d e"}
    expected.add([row("DELETE", "a", None, "left")])  # it may have been carried out
    expected.add([row("POST", "", 200, keys=("d e",))])
    assert expected.keys == set() and expected.taken == {"a", "d e"}
    expected.mark()
    expected.add([row("GET", "x"), row("HEAD", "x"), row("PUT", "y")])
    assert expected.keys == {"y"} and expected.taken == set()


@given(st.lists(st.tuples(st.sampled_from(["PUT", "DELETE"]), st.sampled_from("abc")), max_size=30))
def test_of_each_key_the_last_word_counts(said: list[tuple[str, str]]) -> None:
    expected = Expected("store")
    expected.add(row(verb, key) for verb, key in said)
    assert expected.keys == {key for key, verb in {key: verb for verb, key in said}.items() if verb == "PUT"}


def test_the_record_of_a_layer_is_read_as_it_grows_without_ours_and_half_lines(tmp_path: Path) -> None:
    file = tmp_path / "http-store.log"
    record = Record(file, layered=True)
    assert record.more() == [] and record.ticked is None
    one, ours = ({**row("PUT", "a"), "t": 1, "end": 2}, {**row("PUT", "b"), "t": 1, "end": 2, "probe": True})
    tick = {"kind": "tick", "t": 5, "waiting": 2, "oldest": 3}
    lines = [json.dumps(each) + "\n" for each in (one, ours, tick, {**one, "kind": "hangs"})]
    file.write_text("".join(lines) + json.dumps(one)[:20])
    assert record.more() == [one]
    assert (record.ticked, record.waiting) == (5, (2, 3))
    with open(file, "a") as more:
        more.write(json.dumps(one)[20:] + "\n")
    assert record.more() == [one] and record.more() == []


def test_the_log_of_a_store_says_the_same_with_our_clock() -> None:
    now = time.strftime("%H:%M:%S", time.gmtime()) + ".000"
    put = of_store(f"{now} PUT 200 900 0 12.5 /store/a b".encode())
    assert (
        put is not None and put["path"] == "/store/a b" and put["status"] == 200 and put["end"] - put["t"] == 12_500_000
    )
    assert abs(time.monotonic_ns() - put["end"]) < 3 * SECOND
    gone = of_store(f"{now} GONE 204 0 0 0.0 b/c".encode())
    assert gone is not None and gone["keys"] == ["b/c"] and gone["path"] == ""
    assert of_store(b"Traceback (most recent call last):") is None


first = synthetic.slow_zone().history().phases[0].start_ns
"""When the first phase begins."""


def run(lines: Any) -> Run:
    history = synthetic.slow_zone().history()
    history.give(FILE, [line for span in history.phases for line in lines(span.start_ns, span.end_ns)])
    return Run(history)


def test_a_phase_of_which_too_little_is_known_has_no_figures() -> None:
    sound = INSTRUMENT.trials[0].sound

    def half(start: int, end: int) -> list[dict[str, Any]]:
        middle = (start + end) // 2
        return [line for line in sound(start, end) if line["t"] < middle]

    record = run(half)
    for measure in (store_requests.number, store_requests.refused, store_requests.slow):
        assert measure(record, record.spans[0]).value is None


def test_a_layer_that_is_gone_makes_nothing_known() -> None:
    def without(start: int, end: int) -> list[dict[str, Any]]:
        return [
            {**line, "layer": False} if line["kind"] == "look" else line
            for line in INSTRUMENT.trials[0].sound(start, end)
        ]

    record = run(without)
    assert store_requests.number(record, record.spans[0]).value is None


def test_a_store_that_did_not_answer_in_its_own_host_is_named_and_takes_the_worth_from_what_follows() -> None:
    def stopped(start: int, end: int) -> list[dict[str, Any]]:
        lines = INSTRUMENT.trials[0].sound(start, end)
        looks = [line for line in lines if line["kind"] == "look"]
        for line in looks[5:17]:
            line["ms"] = None
        return lines

    record = run(stopped)
    found = list(INSTRUMENT.gaps[Cause.SETTINGS](record))
    assert len(found) == len(record.spans) and "did not answer for" in found[0].says
    assert list(INSTRUMENT.gaps[Cause.SETTINGS](run(INSTRUMENT.trials[0].sound))) == []


def test_not_there_is_an_answer_and_no_answer_is_none() -> None:
    assert not store_requests.failed(row("HEAD", "a", 404))
    assert store_requests.failed(row("PUT", "a", 503, "status")) and store_requests.failed(
        row("PUT", "a", None, "hung")
    )
    assert store_requests.failed(row("PUT", "a", 200, "cut")) and store_requests.failed(row("PUT", "a", 500))


def some_hang(share: float, *, waits: float = 1.0, later: float = 0.0) -> Any:
    """This share of a phase's requests get no answer, after ``waits`` seconds; ``later``: so many seconds after the
    phase, where given."""

    def lines(start: int, end: int) -> list[dict[str, Any]]:
        found = INSTRUMENT.trials[0].sound(start, end)
        asked = [line for line in found if line["kind"] == "request"]
        for line in asked[: int(share * len(asked))]:
            line |= {"status": None, "how": "hung", "ms": waits * 1000}
            line |= {"at": end + round(later * SECOND)} if later else {}
        return found

    return lines


def test_unanswered_requests_are_later_than_any() -> None:
    """Over the answered ones alone a store that answers no request would look fast."""
    few, many = run(some_hang(0.01)), run(some_hang(0.5))
    span = few.spans[0]
    fast, found = store_requests.slow(few, span), store_requests.slow(many, span)
    assert fast.value == 0.008 and fast.bound is Bound.EXACT
    assert (found.value, found.bound) == (1.0, Bound.MORE_THAN) and "answered of" in found.says
    assert judge(found, "<=", 0.1) is Verdict.FAIL and judge(found, "<=", 5.0) is Verdict.INCONCLUSIVE
    assert store_requests.slow(run(some_hang(1.0)), span).value is None


def test_a_request_that_hangs_beyond_its_phase_counts_there_too() -> None:
    """It ends when the fault does, in the next phase. One that a fault met in flight is of no phase before it."""
    record = run(lambda start, end: some_hang(0.5, waits=20.0, later=5.0)(start, end) if start == first else [])
    (span, after) = record.spans[:2]
    assert store_requests.refused(record, span).value == 0.5
    assert store_requests.slow(record, span).bound is Bound.MORE_THAN
    assert {line["status"] for line in store_requests.requests(record, after)} == {None}
    flight = run(lambda start, end: some_hang(0.5, waits=2.0, later=0.5)(start, end) if start == first else [])
    assert store_requests.refused(flight, span).value == 0.0


def test_what_was_asked_is_drawn() -> None:
    record = run(INSTRUMENT.trials[0].sound)
    tables = {"store_requests": store_requests.table(record)}
    section = store_requests.section(record, tables)
    assert section is not None and any(": translog" in each.head for each in section.rows)
    assert section.curves[0].pieces and max(value for _, _, value in section.curves[0].pieces) == 4.0
    assert store_requests.section(run(lambda start, end: []), {"store_requests": {}}) is None


def test_a_request_that_waits_in_one_phase_and_is_answered_in_the_next_was_slow_in_the_first() -> None:
    def late(start: int, end: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = INSTRUMENT.trials[0].sound(start, end)
        if start == first:
            for line in (line for line in found if line["kind"] == "request"):
                line |= {"at": end + SECOND, "ms": (end + SECOND - line["at"]) / 1e6 + 4000}
        return found

    record = run(late)
    span, after = record.spans[:2]
    slow, well = store_requests.slow(record, span), store_requests.slow(record, after)
    assert slow.value is not None and slow.value > 20 and judge(slow, "<=", 0.1) is Verdict.FAIL
    assert well.value == 0.008 and judge(well, "<=", 0.1) is Verdict.PASS


def test_a_request_that_goes_on_waiting_is_slow_in_the_next_phase_too() -> None:
    def later(start: int, end: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = INSTRUMENT.trials[0].sound(start, end)
        if start == first:
            for line in (line for line in found if line["kind"] == "request"):
                line |= {"at": end + 10 * SECOND, "ms": 20_000.0}
        return found

    record = run(later)
    for span in record.spans[:2]:
        assert judge(store_requests.slow(record, span), "<=", 0.1) is Verdict.FAIL
