"""Text that others had a say in commands no terminal, no reader's eye and no stream, wherever it is shown."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
import synthetic
from hypothesis import given
from hypothesis import strategies as st

from chaos.base import logs, text
from chaos.base.console import Clean, Console, Reporter
from chaos.base.errors import Aborted, ChaosError, InvalidInput
from chaos.commands.common import print_verdict, say_error
from chaos.report import markdown, overview, page, render
from chaos.report.junit import _clean as of_junit

EVIL = "red \x1b[31m\x1b]0;title\x07 c1 \x9b2J bidi \u202egnp.exe\u202c \u2066x\u2069 gone \u200b\ufeff line\u2028"
FORBIDDEN = set(EVIL) - {letter for letter in EVIL if letter.isprintable()}


def harmless(shown: str) -> bool:
    return not FORBIDDEN & set(shown) and "title" in shown and "gnp.exe" in shown


@pytest.mark.parametrize(
    "kept",
    [
        "plain",
        "two\nlines\tand a tab",
        "12\u00a0345",
        "Größe, 日本語, עברית",
        "👩\u200d🔬",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "≤ “so” …",
    ],
)
def test_what_people_write_stays(kept: str) -> None:
    assert text.clean(kept) == kept


@given(st.text())
def test_nothing_that_commands_stays(given: str) -> None:
    cleaned = text.clean(given)
    for letter in cleaned:
        category = unicodedata.category(letter)
        assert category not in ("Cs", "Zl", "Zp") and (category != "Cc" or letter in "\n\t")
        assert unicodedata.bidirectional(letter) not in {
            *("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"),
        }
    assert text.clean(cleaned) == cleaned


def test_lines_of_windows_end_as_ours() -> None:
    assert text.clean("one\r\ntwo\rover") == "one\ntwo?over"


def test_an_error_is_clean_whoever_said_it() -> None:
    for error in (ChaosError(EVIL, remedy=EVIL), InvalidInput(EVIL), Aborted(EVIL)):
        assert harmless(str(error)) and harmless(error.message)


def test_a_terminal_is_told_nothing_but_by_us(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, color_system="truecolor", soft_wrap=True, highlight=False)
    console.print(f"[red]ours[/red] {text.clean(EVIL).replace('[', '(')}")
    assert "\x1b[31mours\x1b[0m" in stream.getvalue()
    for line in (Reporter(console=console).line, Reporter(console=console).demand):
        stream.seek(0)
        stream.truncate()
        line(EVIL)
        assert harmless(stream.getvalue())
    say_error(ChaosError(EVIL))
    assert harmless(capsys.readouterr().err)


def test_the_process_streams_pass_ours_alone() -> None:
    raw = io.StringIO()
    stream = Clean(raw)
    print(EVIL, file=stream)
    assert harmless(raw.getvalue()) and raw.getvalue().endswith("\n")
    console = Console(force_terminal=True, color_system="truecolor")
    console.file = stream  # type: ignore[assignment]
    console.print("[red]ours[/red]")
    assert "\x1b[31mours" in raw.getvalue()


def test_the_command_line_keeps_its_streams_clean(tmp_path: Path) -> None:
    """An option is echoed in an error of another package's, which we do not make."""
    done = subprocess.run(
        [sys.executable, "-m", "chaos.cli", "validate", "--no-\x1b[31m-such"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and "-such" in done.stderr and "\x1b" not in done.stderr


def test_a_log_is_clean(tmp_path: Path) -> None:
    with logs.kept(tmp_path / "runner.log"):
        logs.LOG.info("%s", EVIL)
    assert harmless((tmp_path / "runner.log").read_text())
    assert logging.getLogger("opensearch-chaos") is logs.LOG


def test_pages_summaries_and_junit_are_clean() -> None:
    for environment in (page._templates(), overview.environment()):
        shown = environment.from_string("<p title='{{ a }}'>{{ a | clip }}</p>{{ a | tojson }}").render(a=EVIL)
        assert harmless(shown)
    assert harmless(markdown.escaped(EVIL)) and harmless(markdown._code(EVIL)) and harmless(of_junit(EVIL))
    assert harmless(markdown._command("error", EVIL, EVIL, None))


def test_what_a_cluster_said_reaches_no_reader_of_a_report_as_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = synthetic.aborted()
    story.name = story.description = EVIL
    for chapter in story.chapters:
        for _, _, fields in chapter.events:
            fields |= {key: EVIL for key in ("says", "node", "leader") if isinstance(fields.get(key), str)}
    shown = render(story.write(tmp_path / "run"))
    for name in ("report.html", "summary.md", "junit.xml"):
        said = (shown.parent / name).read_text()
        assert "title" in said and not FORBIDDEN & set(said) - {"\u200b"}, name  # ours, against links
    findings = json.loads((shown.parent / "findings.json").read_text())
    print_verdict(EVIL, shown.parent, findings)
    assert harmless(capsys.readouterr().out)
