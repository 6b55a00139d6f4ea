"""The runner's log: everything of the block, nothing of others, and no trouble of its own."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from fakes import FakeLab

from chaos.base.console import Reporter
from chaos.base.logs import LOG, kept
from chaos.faults.moves import Move


class Seen(logging.Handler):
    """What a root logger gets."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def test_lines_moves_and_failures_are_kept_while_the_block_lasts(tmp_path: Path) -> None:
    file, reporter, theirs = tmp_path / "runner.log", Reporter(quiet=True), Seen()
    handlers = list(LOG.handlers)
    logging.getLogger().addHandler(theirs)
    reporter.line("before")
    with kept(file):
        reporter.line("[red] is no colour here")
        Move("nothing", {"node": "a-data"}).apply(FakeLab())
        with pytest.raises(Exception, match="nobody here"):
            Move("their.move").apply(FakeLab())
        logging.getLogger("urllib3").warning("somebody else's")
    reporter.line("after")
    text = file.read_text()
    assert "[red] is no colour here" in text and "nothing node=a-data" in text and "their.move : failed after" in text
    assert "before" not in text and "\n".join(text.splitlines()[1:]).count("after") == 1
    assert "somebody else's" not in text
    logging.getLogger().removeHandler(theirs)
    assert theirs.lines == ["somebody else's"]  # a team's own root logger gets nothing of ours
    assert LOG.handlers == handlers


def test_a_log_that_cannot_be_written_disturbs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with kept(tmp_path / "no" / "such" / "folder" / "runner.log"):
        LOG.info("x")
    with kept(Path("/dev/full")):
        LOG.info("x")
    assert capsys.readouterr().err == ""
