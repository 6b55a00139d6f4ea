"""Ends of processes that nobody had asked for: what they are, what they do to a verdict, and that they are told."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import synthetic
from mutations import Stored
from synthetic import T0, Chapter, S, Story, expect

from chaos.checks import evaluate
from chaos.checks.record import Record
from chaos.history import ends
from chaos.instruments.process_exits import table
from chaos.report import render

LINES = [f"[2026-11-21T02:15:{second:02}][INFO ][o.o.n.Node] [a-data] line {second}" for second in range(20)]
FATAL = "[ERROR][o.o.b.OpenSearchUncaughtExceptionHandler] [a-data] fatal error in thread [search], exiting"


def fact(**given: Any) -> dict[str, Any]:
    """An end of a node's process; by default SIGKILL from outside."""
    return {
        "what": "node",
        "name": "a-data",
        "node": "a-data",
        "zone": "a",
        "pid": 4711,
        "exit_code": None,
        "signal": "SIGKILL",
        "oom_kill": False,
        "fatal": None,
        "sent": False,
        "report": None,
        "log_tail": LINES,
        "commanded": False,
        **given,
    }


ITSELF = {"signal": None, "exit_code": 127, "fatal": FATAL, "log_tail": [*LINES[:19], FATAL]}
CRASHED = {"signal": "SIGABRT", "fatal": "SIGSEGV (0xb) at pc=0x00007f", "report": "hs_err-a-data.log"}


def story(*facts: dict[str, Any], kind: str = "network.latency", at: float = 9.0, watched: bool = True) -> Story:
    """A slow zone that everything bears, and ends of processes in its second phase."""
    slow = Chapter("slow", 30).fault(kind=kind, targets=("a-data", "c-data"))
    for number, each in enumerate(facts):
        slow.event(at + number, ends.KIND, **each)
    told = Story(
        name="ends",
        chapters=[Chapter("healthy", 20), slow, Chapter("returned", 20).lift()],
        expect=[
            expect("read.good", ">=", 0.9, ("healthy",)),
            expect("read.good", ">=", 0.9, ("slow",)),
            expect("acknowledged.lost", "==", 0),
        ],
    )
    if not watched:
        told.mutate = lambda events: [e for e in events if not str(e["kind"]).startswith("processes.")]
    return told


def test_nothing_ended_and_the_run_passes() -> None:
    findings = evaluate(story().history())
    assert findings.outcome == "pass", findings.reasons
    assert "ends" not in findings.tables


def test_an_end_that_a_move_asked_for_is_none() -> None:
    assert evaluate(story(fact(commanded=True)).history()).outcome == "pass"


@pytest.mark.parametrize("given", [ITSELF, CRASHED, {"signal": None, "exit_code": 1}, {"signal": None, "exit_code": 0}])
def test_a_node_that_ended_by_itself_is_a_weakness_and_the_headline(given: dict[str, Any]) -> None:
    findings = evaluate(story(fact(**given)).history())
    assert findings.outcome == "weakness"
    assert findings.summary.startswith("Node a-data ended by itself (")
    assert "9 s into “slow”, under “+300ms on links to zone c”" in findings.summary
    first = next(reason for reason in findings.reasons if reason.outcome == "weakness")
    assert first.says in findings.summary


OUTSIDE = [
    {},
    {"signal": "SIGTERM"},
    {"oom_kill": True},
    {"signal": "SIGABRT", "sent": True, "report": "hs_err-a-data.log", "fatal": "SIGSEGV (0xb) sent by kill"},
    {"signal": "SIGABRT"},  # nobody knows: neither a report nor a last word
    {"signal": None},
    {"what": "toxiproxy", "name": "client-a", "node": None, "signal": None, "exit_code": 2},
    {"what": "driver", "name": "driver", "node": None, "zone": None},
    {"what": "driver", "name": "driver", "node": None, "zone": None, "signal": None, "exit_code": 0},
    {"what": "controller", "name": "a", "node": None},
]


@pytest.mark.parametrize("given", OUTSIDE)
def test_what_was_ended_from_outside_spoils_what_came_after_and_is_the_headline(given: dict[str, Any]) -> None:
    findings = evaluate(story(fact(**given)).history())
    assert findings.outcome == "inconclusive"
    assert findings.summary.lower().startswith("nothing proven: " + table_of(fact(**given))[0]["says"].lower())
    counts = {(finding.metric, finding.phase): finding.counts_as for finding in findings.findings}
    assert counts["read.good", "healthy"] == "pass"  # it was over before
    assert counts["read.good", "slow"] == counts["acknowledged.lost", None] == "inconclusive"


def table_of(*facts: dict[str, Any]) -> list[dict[str, Any]]:
    return table(Record(story(*facts).history()))


def test_a_write_that_was_lost_stands_whoever_ended_what() -> None:
    told = story(fact())
    told.readback = {**synthetic.READBACK, "lost": ["w-7"], "lost_count": 1}
    findings = evaluate(told.history())
    assert findings.outcome == "weakness"
    assert "was ended from outside (SIGKILL)" in findings.summary and "1 acknowledged write" in findings.summary


@pytest.mark.parametrize("missing", [{"lost": ["w-7"], "lost_count": 1}, {"diverged": ["w-7"], "diverged_count": 1}])
def test_what_is_missing_after_a_service_ended_is_not_the_clusters_loss(missing: dict[str, Any]) -> None:
    """What it kept went with it."""
    gone = fact(what="service", name="store", node=None, zone="")
    told = story(gone)
    told.readback = {**synthetic.READBACK, **missing}
    findings = evaluate(told.history())
    assert findings.outcome == "inconclusive", findings.reasons
    assert findings.summary.startswith("Nothing proven: the service store was ended from outside (SIGKILL)")


def test_a_weakness_wins_over_what_was_ended_from_outside() -> None:
    findings = evaluate(story(fact(name="b-data", node="b-data"), fact(**ITSELF)).history())
    assert findings.outcome == "weakness"
    assert (
        "Node a-data ended by itself" in findings.summary and "Node b-data was ended from outside" in findings.summary
    )


def test_a_pressure_that_ends_its_node_has_overshot() -> None:
    findings = evaluate(story(fact(**ITSELF), kind="node.heap_pressure").history())
    assert findings.outcome == "inconclusive" and "which was to fill its heap and not to end it" in findings.summary
    elsewhere = evaluate(
        story(fact(**ITSELF | {"name": "b-data", "node": "b-data"}), kind="node.heap_pressure").history()
    )
    assert elsewhere.outcome == "weakness"


def test_a_load_driver_that_failed_by_itself_is_the_run_s_own_error() -> None:
    """The run says so by an event of its own; here it is no gap of the cluster's beside."""
    given = fact(what="driver", name="driver", node=None, zone=None, signal=None, exit_code=1)
    assert not any("load driver" in reason.says for reason in evaluate(story(given).history()).reasons)
    assert table_of(given)


def test_a_record_from_before_ends_were_watched_is_judged_as_it_was() -> None:
    old = Stored.of(story(watched=False).history())
    del old.plan["watched"]
    assert old.judged().outcome == "pass"


@pytest.mark.parametrize(
    "change",
    [
        lambda events: [e for e in events if e["kind"] != ends.WATCHED],
        lambda events: [e for e in events if e["kind"] != ends.UNWATCHED],
        lambda events: [e | {"because": "OSError: x"} if e["kind"] == ends.UNWATCHED else e for e in events],
    ],
)
def test_without_a_watch_nothing_passes(change: Callable[[list[Any]], list[Any]]) -> None:
    told = story()
    told.mutate = change
    findings = evaluate(told.history())
    assert findings.outcome == "inconclusive" and "watched whether a process ended" in findings.summary


@pytest.mark.parametrize("given", [ITSELF, {}])
def test_it_is_told_in_every_file_with_the_last_lines_and_without_names_when_asked(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    nasty = "<script>alert(1)</script> at 198.51.100.7 ]]> \x1b[31m"
    folder = story(fact(**given) | {"log_tail": [*LINES, nasty]}).write(tmp_path / "run")
    page = render(folder)
    found = json.loads((folder / "findings.json").read_text())
    says = found["tables"]["ends"][0]["says"]
    assert says in found["summary"] or says[:1].lower() + says[1:] in found["summary"]
    shown = page.read_text()
    assert "Read what node a-data said last" in shown and "line 19" in shown and "<script>alert" not in shown
    assert 'id="ends"' in shown and 'id="means-process.ended"' in shown
    assert "a-data" in (folder / "summary.md").read_text()
    suite = ET.parse(folder / "junit.xml").getroot().find("testsuite")
    assert suite is not None
    (case,) = [c for c in suite.findall("testcase") if c.get("name") == "no process ended that nobody had asked to"]
    assert [child.tag for child in case] == ["failure" if given else "error"]

    render(folder, redact=True)
    for file in (folder / "redacted").iterdir():
        assert "a-data" not in file.read_text() and "198.51.100.7" not in file.read_text(), file.name


def test_the_timeline_shows_it() -> None:
    from chaos.report import render_html

    history = story(fact()).history()
    assert "node a-data was ended from outside (SIGKILL)" in render_html(history, evaluate(history).to_json())


# -- the words of the event ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "parted"),
    [
        (None, (None, None)),
        (0, (0, None)),
        (127, (127, None)),
        (128, (128, None)),  # OpenSearch's own, after an InternalError
        (137, (None, "SIGKILL")),
        (143, (None, "SIGTERM")),
        (134, (None, "SIGABRT")),
        (-9, (None, "SIGKILL")),
        (255, (255, None)),
    ],
)
def test_exit_codes_and_signals(code: int | None, parted: tuple[int | None, str | None]) -> None:
    assert ends.parted(code) == parted


SENT = """#
# A fatal error has been detected by the Java Runtime Environment:
#
#  SIGSEGV (0xb) at pc=0x00007ff15cccff14 (sent by kill), pid=4711, tid=4711
#
siginfo: si_signo: 11 (SIGSEGV), si_code: 0 (SI_USER), si_pid: 8171, si_uid: 0
"""
"""As OpenJDK 17 wrote it after ``kill -SEGV``; what it raised itself has an address."""
RAISED = SENT.replace(
    "si_code: 0 (SI_USER), si_pid: 8171, si_uid: 0", "si_code: 1 (SEGV_MAPERR), si_addr: 0x10"
).replace(" (sent by kill)", "")
NO_HEAP = """#
# A fatal error has been detected by the Java Runtime Environment:
#
#  Internal Error (debug.cpp:271), pid=4711, tid=4750
#  fatal error: OutOfMemory encountered: Java heap space
#
"""


def test_the_report_of_a_jvm() -> None:
    assert ends.reported(SENT) == ("SIGSEGV (0xb) at pc=0x00007ff15cccff14 (sent by kill), pid=4711, tid=4711", True)
    assert ends.reported(SENT.replace(" (sent by kill)", ""))[1] is True
    assert ends.reported(RAISED) == ("SIGSEGV (0xb) at pc=0x00007ff15cccff14, pid=4711, tid=4711", False)
    assert ends.reported(NO_HEAP) == (
        "Internal Error (debug.cpp:271), pid=4711, tid=4750; fatal error: OutOfMemory encountered: Java heap space",
        False,
    )
    assert ends.reported("") == (None, False)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (FATAL, "fatal error in thread [search], exiting: java.lang.OutOfMemoryError: Java heap space"),
        (
            "Terminating due to java.lang.OutOfMemoryError: too many",
            "Terminating due to java.lang.OutOfMemoryError: too many: java.lang.OutOfMemoryError: Java heap space",
        ),
        ("[WARN][o.o.i.b.x] [a-data] java.lang.OutOfMemoryError: caught and borne", None),
        ("[INFO][o.o.n.Node] [a-data] started", None),
    ],
)
def test_lines_after_which_nothing_lives_on(line: str, said: str | None) -> None:
    assert ends.first_fatal(["a line", line, "java.lang.OutOfMemoryError: Java heap space"]) == said
    if said:
        assert ends.first_fatal(["a line", line]) == line[line.index(said[:20]) :]


def test_of_threads_that_die_together_one_is_heard_that_names_its_error() -> None:
    named = [FATAL.replace("[search]", "[write]"), "java.lang.OutOfMemoryError: Java heap space"]
    said = "fatal error in thread [write], exiting: java.lang.OutOfMemoryError: Java heap space"
    assert ends.first_fatal(["fatal error in thread [search], exiting", *named]) == said
    mixed = [FATAL, "[INFO ] a line", "\tat a.frame(Of.java)", "java.lang.OutOfMemoryError: Java heap space"]
    assert ends.first_fatal(mixed) == said.replace("[write]", "[search]")
    assert ends.first_fatal([FATAL, FATAL, "[INFO ] a line"]) == "fatal error in thread [search], exiting"


def test_a_tail_is_clipped_and_keeps_what_a_process_died_of() -> None:
    kept = ends.tail(["x" * 5000] * 50)
    assert len(kept) == ends.LINES and max(map(len, kept)) == ends.CHARACTERS
    stack = [FATAL, "java.lang.OutOfMemoryError: Java heap space", *(f"\tat a.b.C.d{n}" for n in range(90))]
    kept = ends.tail(["before", *stack])
    assert kept[:2] == stack[:2] and kept[-1] == stack[-1] and "…" in kept and len(kept) == ends.LINES
    assert ends.tail(["before", *stack[:5]]) == ["before", *stack[:5]]


def test_the_clock_of_an_end_is_the_run_s() -> None:
    assert table_of(fact())[0]["at"] == pytest.approx(29.0)
    told = story()
    told.mutate = lambda events: [*events, {"t": T0 - S, "wall": 0.0, "kind": ends.KIND, **fact()}]
    assert "1 s before the start of the load, in no phase" in evaluate(told.history()).summary


def test_a_long_reason_is_cut_where_it_is_told() -> None:
    said = "uncaught exception in thread [main]: " + "nested: RepositoryVerificationException " * 30
    words = ends.sentence({"what": "node", "name": "c-data", "exit_code": 1, "fatal": said})
    assert words.startswith("node c-data ended by itself (exit code 1; uncaught exception") and words.endswith("…)")
    assert len(words) < 320
