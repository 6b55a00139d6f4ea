"""``gameday validate`` and ``gameday resume``, without a cluster: its documents are in memory."""

from __future__ import annotations

import errno
import os
import re
import subprocess
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from calendarkit import answering
from daykit import TARGET, written
from documents import INDEX, WithDocuments
from tlskit import authority

from chaos.base.errors import ChaosError, Exit, InvalidInput
from chaos.commands import gameday, gameday_hands, gameday_page
from chaos.definitions.existing import load_existing
from chaos.definitions.gameday import load_gameday
from chaos.gamedays import board, drill, textfile
from chaos.gamedays.board import LOCK, Board, day_id, hold_id
from chaos.gamedays.day import Day
from chaos.gamedays.record import Record, read
from chaos.run.options import RunResult

AT = datetime(2026, 11, 20, 6, 0)  # a Friday
NOW = datetime(2026, 11, 26, 10, 0, tzinfo=UTC)
FREEZE = b"""\
BEGIN:VCALENDAR
BEGIN:VEVENT
DTSTART;VALUE=DATE:20261124
SUMMARY:black friday
END:VEVENT
END:VCALENDAR
"""


def test_validate_fetches_each_calendar_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering() as one, answering() as other:
        one.date = other.date = formatdate(usegmt=True)
        one.body = other.body = FREEZE
        monkeypatch.setenv("CALENDAR", f"{other.url}?private-hidden")
        consent = {"index": "operators"}
        file = written(tmp_path, freezes=[{"ics": one.url}, {"ics": "env:CALENDAR"}], consent=consent)
        gameday.gameday_validate(file, AT)
        assert len(one.asked) == len(other.asked) == 1
        output = " ".join(capsys.readouterr().out.split())
        assert output.count(" UTC ") >= 10 and output.count("blocked: ") == 1, output
        assert output.count(": black friday") == 2 and "Tue 2026-11-24 10:00" in output
        assert "validate: OK" in output and "hidden" not in output
        one.status = 500
        with pytest.raises(InvalidInput, match="each of its next 10 firings is blocked"):
            gameday.gameday_validate(file, AT)
        assert len(one.asked) == 2 and len(other.asked) == 2
        assert " ".join(capsys.readouterr().out.split()).count("the address answers 500") == 10


def test_a_day_that_nobody_consents_to_is_not_called_ok(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidInput, match=r"names no consent .* each firing is refused"):
        gameday.gameday_validate(written(tmp_path), AT)
    assert "validate: OK" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("abort", "undone", "all_of_it", "proven"),
    [
        ({"seconds": 2.0, "load_seconds": 0.5, "complete": True, "proven": True}, 2.0, True, True),
        (
            {"seconds": 0.0, "load_seconds": 0.7, "complete": True, "proven": False},
            0.7,
            True,
            False,
        ),  # load is of it too
        ({"seconds": 2.0, "complete": False}, 2.0, False, False),
        ({"seconds": 2.0}, 2.0, False, False),
        (None, None, False, False),
    ],
)
def test_a_stop_is_over_when_the_load_is_and_what_nobody_wrote_down_was_not_undone(
    tmp_path: Path, abort: dict[str, Any] | None, undone: float | None, all_of_it: bool, proven: bool
) -> None:
    findings: Any = {"exit_code": 4, "headline": "Stopped early.", "abort": abort, "faults": []}
    found = gameday_hands.ran("zone", RunResult(tmp_path, findings, clean=True))
    assert (found.undone, found.undone_all, found.proven_gone) == (undone, all_of_it, proven)


@pytest.mark.parametrize(("cause", "improved"), [("note", True), ("measured", False)])
def test_a_run_improved_where_nothing_but_a_note_makes_a_weakness_of_it(
    tmp_path: Path, cause: str, improved: bool
) -> None:
    reasons = [{"outcome": "weakness", "says": "x", "cause": cause}]
    findings: Any = {"outcome": "weakness", "exit_code": 1, "headline": "so", "faults": [], "reasons": reasons}
    assert gameday_hands.ran("zone", RunResult(tmp_path, findings, clean=True)).improved is improved


@pytest.mark.parametrize(
    ("part", "place"),
    [
        ({"freezes": [{"ics": "https://c.example/x", "ca": "CA"}]}, "freezes[0].ca"),
        ({"announce": [{"slack": "env:SLACK", "ca": "CA"}]}, "announce[0].ca"),
    ],
)
@pytest.mark.parametrize("ca", ["nowhere.pem", "text.pem"])
def test_validate_refuses_a_file_of_whom_to_trust_that_is_none(
    tmp_path: Path, ca: str, part: dict[str, list[dict[str, str]]], place: str
) -> None:
    (tmp_path / "text.pem").write_text("trust me\n")
    changes: dict[str, Any] = {key: [{**each, "ca": ca} for each in value] for key, value in part.items()}
    file = written(tmp_path, **changes)
    with pytest.raises(InvalidInput) as refused:
        gameday.gameday_validate(file, AT)
    message = refused.value.message
    assert "\n" not in message and f"{place}: cannot use {tmp_path / ca} as CA certificates: " in message
    assert refused.value.remedy == "name PEM files that fit"


def test_validate_reads_a_calendar_by_a_private_authority(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = authority(tmp_path)
    with answering(known.served) as server:
        server.date = formatdate(usegmt=True)
        server.body = FREEZE
        freezes = [{"ics": server.url, "ca": "security/ca.pem"}]
        gameday.gameday_validate(written(tmp_path, freezes=freezes, consent={"index": "operators"}), AT)
        assert len(server.asked) == 1
    output = capsys.readouterr().out
    assert output.count("blocked: ") == 1 and "validate: OK" in output


@pytest.mark.parametrize(
    ("experiment", "phase", "says"),
    [
        ("onne", "dead", 'the day has no experiment onne: did you mean "one"?'),
        ("one", "healthy", "no fault of one begins in a phase healthy: expected dead"),
        ("one", "deadd", 'no fault of one begins in a phase deadd: did you mean "dead"?'),
    ],
)
def test_an_alert_is_expected_of_an_experiment_and_a_phase_that_the_day_has(
    tmp_path: Path, experiment: str, phase: str, says: str
) -> None:
    expected = {"name": "Down", "fires_within": "1m", "resolves_within": "5m"}
    good = {**expected, "experiment": "one", "phase": "dead"}

    def day(*alerts: dict[str, str]) -> Path:
        alerting = {"prometheus": "http://p:9090", "expect": list(alerts)}
        return written(tmp_path, alerts=alerting, consent={"index": "operators"})

    gameday.gameday_validate(day(good), AT)
    file = day(good, {**expected, "experiment": experiment, "phase": phase})
    with pytest.raises(InvalidInput) as refused:
        gameday.gameday_validate(file, AT)
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if text.startswith("alerts:"))
    message = refused.value.message
    assert says in message and re.search(rf"staging\.yaml:{line}:\d+: ", message), message
    with pytest.raises(InvalidInput, match=r"the day has no experiment|no fault of one begins"):
        gameday_hands.TargetHands(load_gameday(file), tmp_path / "reports").plans()  # before the cluster is asked


# ---- resume ----------------------------------------------------------------------------------------------


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> WithDocuments:
    made = WithDocuments()
    Board(made, INDEX).make()  # type: ignore[arg-type]
    monkeypatch.setattr(gameday, "_board", lambda day: Board(made, INDEX))  # type: ignore[arg-type]
    monkeypatch.setattr(board, "TTL_SECONDS", 0.05)
    monkeypatch.setattr(board, "LOOK_SECONDS", 0.05)
    monkeypatch.chdir(tmp_path)
    return made


def drilled(file: Path, lock: str | None = None) -> Path:
    """The stop file of a drill whose runner was killed."""
    day = load_gameday(file)
    stop = Path(day.written.stop.file)
    drill.made(stop, drill.drill_of(day.name, lock or drill.lock_of(load_existing(day.target)), NOW))
    return stop


def test_resume_takes_the_stop_file_of_a_dead_drill_away(
    tmp_path: Path, cluster: WithDocuments, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path)
    stop = drilled(file)
    cluster._keep(LOCK, {"who": "vm-1-ab", "gameday": "staging", "host": "vm"})
    cluster._keep(day_id("staging", "2026-11-26"), {"state": "under way", "host": "vm"})
    gameday.gameday_resume(file, "the runner was killed")
    said = " ".join(capsys.readouterr().out.split())
    assert "day 2026-11-26, which never ended" in said and "which the drill of game day staging on " in said
    assert not stop.exists() and LOCK not in cluster.documents
    (record,) = tmp_path.glob("gamedays/staging/*-resumed/record.jsonl")
    assert any(str(stop) in each for each in read(record)[-1]["cleared"])
    with pytest.raises(InvalidInput, match="nothing is on hold"):
        gameday.gameday_resume(file, "once more")


def test_resume_takes_it_away_where_nothing_else_is_left(tmp_path: Path, cluster: WithDocuments) -> None:
    file = written(tmp_path)
    stop = drilled(file)
    gameday.gameday_resume(file, "the runner was killed")
    assert not stop.exists() and LOCK not in cluster.documents


@pytest.mark.parametrize("what", ["touched", "of another lock"])
def test_resume_leaves_a_person_s_and_one_of_another_lock(tmp_path: Path, cluster: WithDocuments, what: str) -> None:
    file = written(tmp_path)
    stop = drilled(file, "another-cluster/.opensearch-chaos" if what == "of another lock" else None)
    if what == "touched":
        subprocess.run(["touch", stop], check=True)
    with pytest.raises(InvalidInput, match="nothing is on hold"):
        gameday.gameday_resume(file, "may it go on?")
    cluster._keep(hold_id("staging"), {"why": "dirty", "day": "2026-11-19"})
    cluster._keep(day_id("staging", "2026-11-26"), {"state": "under way", "host": "vm"})
    gameday.gameday_resume(file, "the runner was killed")
    assert os.path.lexists(stop)


def test_resume_takes_nothing_of_a_drill_that_is_under_way(
    tmp_path: Path, cluster: WithDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path)
    stop = drilled(file)
    cluster._keep(LOCK, {"who": "vm-1-ab", "gameday": "staging", "host": "vm"})
    monkeypatch.setattr(gameday, "say", lambda words: cluster._keep(LOCK, dict(cluster.documents[LOCK])))
    with pytest.raises(board.Held, match="is under way on this cluster"):
        gameday.gameday_resume(file, "is it dead?")
    assert drill.left(stop) is not None


HELD = {"why": "dirty", "day": "2026-11-19"}


@pytest.mark.parametrize(
    ("ended", "code"), [(Exit.PASS, Exit.ERROR), (Exit.ABORTED, Exit.ERROR), (Exit.DIRTY, Exit.DIRTY)]
)
def test_a_hole_in_the_record_is_an_error_and_hides_no_dirt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: Exit, code: Exit
) -> None:
    def go(day: Day, command: str) -> Exit:
        assert day.record._broken is not None
        day.record._broken("No space left on device")
        return ended

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Day, "go", go)
    monkeypatch.setattr(gameday, "_hands", lambda *_, **__: None)
    monkeypatch.setattr(gameday_page, "finish", lambda *_, **__: None)
    with pytest.raises(ChaosError, match="the record of the day has a hole: No space left") as raised:
        gameday.gameday_run(written(tmp_path))
    assert raised.value.exit_code is code


@pytest.mark.parametrize("what", ["no folder", "a full disk"])
def test_resume_clears_nothing_without_a_record_of_why(
    tmp_path: Path, cluster: WithDocuments, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    file = written(tmp_path, record="/proc/nowhere") if what == "no folder" else written(tmp_path)
    stop = drilled(file)
    cluster._keep(hold_id("staging"), HELD)
    cluster._keep(day_id("staging", "2026-11-19"), {"state": "under way", "host": "vm"})

    def full(record: Record, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        if what == "a full disk":
            patch.setattr(Record, "_put", full)
        with pytest.raises(InvalidInput, match=r"cannot be (made|written)"):
            gameday.gameday_resume(file, "it was looked at")
    assert cluster.documents[hold_id("staging")] == HELD and stop.exists() and LOCK not in cluster.documents
    assert cluster.documents[day_id("staging", "2026-11-19")]["state"] == "under way"
    assert list(tmp_path.glob("gamedays/staging/*")) == []


@pytest.mark.parametrize("there", [True, False], ids=["on the runner", "on another machine"])
def test_resume_tells_node_exporter_where_its_file_is(tmp_path: Path, cluster: WithDocuments, there: bool) -> None:
    prom = tmp_path / "x.prom"
    file = written(tmp_path, textfile=str(prom))
    if there:
        target = load_gameday(file).written.target
        textfile.write(prom, textfile.Facts("staging", target, False, outcome="aborted", held=True))
    cluster._keep(hold_id("staging"), HELD)
    gameday.gameday_resume(file, "it was looked at")
    assert prom.exists() is there
    if there:
        found = {labels.get("outcome", name): value for name, labels, value in textfile.parsed(prom.read_text())}
        assert (found["held"], found["aborted"], found["running"]) == (0.0, 1.0, 0.0)


def test_two_resumes_of_one_second_have_a_record_each(
    tmp_path: Path, cluster: WithDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path)
    monkeypatch.setattr(gameday, "_now", lambda: NOW)
    for _ in range(2):
        cluster._keep(hold_id("staging"), HELD)
        gameday.gameday_resume(file, "it was looked at")
    assert len(list(tmp_path.glob("gamedays/staging/20261126T100000Z-*-resumed/record.jsonl"))) == 2


def test_resume_and_status_leave_another_game_day_whose_name_begins_alike(
    tmp_path: Path, cluster: WithDocuments, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path)
    other = day_id("staging-zone", "2026-11-19")
    cluster._keep(other, {"state": "under way", "host": "vm"})
    with pytest.raises(InvalidInput, match="nothing is on hold"):
        gameday.gameday_resume(file, "may it go on?")
    cluster._keep(day_id("staging", "2026-11-26"), {"state": "under way", "host": "vm"})
    gameday.gameday_status(file)
    said = capsys.readouterr().out
    assert "day 2026-11-26: under way on vm" in said and "2026-11-19" not in said
    gameday.gameday_resume(file, "the runner was killed")
    assert cluster.documents[other]["state"] == "under way", "no reason was given why that one may go on"


def test_the_lock_of_a_drill_is_that_of_a_cluster_and_an_index(tmp_path: Path) -> None:
    target = load_existing(load_gameday(written(tmp_path)).target)
    assert drill.lock_of(target) == "abcdefghijklmnopqrstuv/.opensearch-chaos"
    other = load_existing(
        load_gameday(written(tmp_path / "b", cluster=TARGET.replace("notes: .o", "notes: .p"))).target
    )
    assert drill.lock_of(other) == "abcdefghijklmnopqrstuv/.ppensearch-chaos"


def test_a_file_that_is_wrong_elsewhere_keeps_nobody_from_stopping(
    tmp_path: Path, cluster: WithDocuments, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path)
    asked: list[Path] = []
    monkeypatch.setattr(gameday, "_board_of", lambda target: asked.append(target) or Board(cluster, INDEX))
    (tmp_path / "allowed_signers").unlink()
    file.write_text(file.read_text().replace("hypothesis:", "hypotesis:"))
    with pytest.raises(InvalidInput):
        load_gameday(file)
    gameday.gameday_stop(file, "an incident elsewhere")
    assert asked == [tmp_path / "target" / "staging.yaml"]
    assert cluster.documents["gameday-stop"]["why"] == "an incident elsewhere"
    output = " ".join(capsys.readouterr().out.split())
    assert "hypotesis" in output and "keeps nobody from stopping it" in output and "asked to stop" in output
    file.write_text("name: staging\n")
    with pytest.raises(InvalidInput):
        gameday.gameday_stop(file, "an incident elsewhere")


def test_where_the_cluster_is_out_of_reach_stop_says_the_other_way(tmp_path: Path) -> None:
    file = written(tmp_path)  # nobody listens there
    with pytest.raises(ChaosError) as caught:
        gameday.gameday_stop(file, "an incident elsewhere")
    assert caught.value.remedy == f"stop it without: ssh RUNNER touch {tmp_path}/stop"
    assert "did not take the wish to stop" in caught.value.message
