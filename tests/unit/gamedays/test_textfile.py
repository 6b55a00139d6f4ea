"""The file for node_exporter: its format, what is kept, and that it is replaced whole."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.gamedays import textfile
from chaos.gamedays.textfile import OUTCOMES, Facts, parsed, text, write

WHOLE = Facts("staging-tuesday", "staging", False, 1_764_147_603.25, 1_764_151_203.0, "weakness", True)
HOSTILE = 'a"} 1\nopensearch_chaos_gameday_running{x="\\'


def values(given: str) -> dict[tuple[str, str | None], float]:
    return {(name, labels.get("outcome")): value for name, labels, value in parsed(given)}


def test_everything_that_is_known_is_a_sample() -> None:
    said = text(WHOLE)
    assert values(said) == {
        ("running", None): 0,
        ("last_start_timestamp_seconds", None): 1_764_147_603.25,
        ("last_end_timestamp_seconds", None): 1_764_151_203,
        **{("last_outcome", name): float(name == "weakness") for name in OUTCOMES},
        ("held", None): 1,
    }
    first = 'opensearch_chaos_gameday_running{gameday="staging-tuesday",target="staging"} 0\n'
    assert first in said
    assert said.count("# TYPE") == said.count("# HELP") == 5


def test_what_is_not_known_has_no_sample() -> None:
    assert values(text(Facts("d", "t", True))) == {("running", None): 1}


def test_an_outcome_that_there_is_not_is_refused(tmp_path: Path) -> None:
    why = write(tmp_path / "a.prom", Facts("d", "t", False, outcome="fine"))
    assert why is not None and "there is no outcome fine" in why
    assert list(tmp_path.iterdir()) == []


@given(st.text(max_size=20), st.text(max_size=20), st.sampled_from(OUTCOMES), st.floats(0, 1e11))
def test_whatever_the_names_they_are_read_back(day: str, target: str, outcome: str, at: float) -> None:
    found = parsed(text(Facts(day, target, True, at, None, outcome)))
    expected = tuple(name.encode(errors="replace").decode() for name in (day, target))
    assert {(labels["gameday"], labels["target"]) for _, labels, _ in found} == {expected}
    assert len(found) == 2 + len(OUTCOMES)
    assert dict((name, value) for name, _, value in found)["last_start_timestamp_seconds"] == pytest.approx(at)


def test_promtool_finds_nothing_wrong() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no Prometheus is installed on this machine: apt-get install prometheus")

    def checked(given: str) -> tuple[int, bytes]:
        done = subprocess.run([promtool, "check", "metrics"], input=given.encode(), capture_output=True, check=False)
        return done.returncode, done.stdout + done.stderr

    for facts in (WHOLE, Facts(HOSTILE, HOSTILE, True), Facts("ü", "t", False, outcome="pass")):
        assert checked(text(facts)) == (0, b"")
    assert checked(text(WHOLE).replace('"} 0', "} 0"))[0] != 0


def test_it_is_there_for_others_to_read_and_nothing_lies_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "chaos.prom"
    before = os.umask(0o077)
    try:
        assert write(path, WHOLE) is None
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o644
    assert [each.name for each in tmp_path.iterdir()] == ["chaos.prom"]
    assert path.read_text() == text(WHOLE)


def test_a_reader_sees_the_old_or_the_new_and_the_temporary_is_no_prom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chaos.prom"
    write(path, WHOLE)
    seen: list[tuple[list[str], str]] = []
    replaced = os.replace

    def watched(source: Path, target: Path) -> None:
        seen.append((sorted(each.name for each in tmp_path.glob("*.prom")), path.read_text()))
        replaced(source, target)

    monkeypatch.setattr(textfile.os, "replace", watched)
    assert write(path, Facts("staging-tuesday", "staging", True)) is None
    assert seen == [(["chaos.prom"], text(WHOLE))]


def test_how_it_last_ended_is_kept_while_it_runs_again(tmp_path: Path) -> None:
    path = tmp_path / "chaos.prom"
    write(path, WHOLE)
    assert write(path, Facts("staging-tuesday", "staging", True, started=1_800_000_000.0)) is None
    known = values(text(WHOLE)) | {("running", None): 1, ("last_start_timestamp_seconds", None): 1_800_000_000}
    del known["held", None]  # a runner that dies now would leave it behind for good
    assert values(path.read_text()) == known


@pytest.mark.parametrize("held", [True, False])
def test_a_hold_is_kept_until_something_else_is_known_of_it(held: bool, tmp_path: Path) -> None:
    path = tmp_path / "chaos.prom"
    write(path, Facts("d", "t", False, held=held))
    write(path, Facts("d", "t", False))
    assert values(path.read_text())["held", None] == held
    write(path, Facts("d", "t", False, held=not held))
    assert values(path.read_text())["held", None] == (not held)


@pytest.mark.parametrize("there", [b"", b"nonsense", b"\xff\xfe", text(Facts("other", "staging", False, 5.0)).encode()])
def test_what_is_not_of_this_day_is_not_kept(there: bytes, tmp_path: Path) -> None:
    path = tmp_path / "chaos.prom"
    path.write_bytes(there)
    facts = Facts("staging-tuesday", "staging", True)
    assert write(path, facts) is None
    assert path.read_text() == text(facts)


@pytest.mark.parametrize("where", ["nowhere/chaos.prom", "file/chaos.prom", "folder.prom"])
def test_one_that_cannot_be_written_is_told(where: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.prom").mkdir()
    why = write(tmp_path / where, WHOLE)
    assert why is not None and "cannot be written" in why
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "folder.prom"]
