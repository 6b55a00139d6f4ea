"""docs/hosts.md says what the program says of itself."""

from __future__ import annotations

import json
import re
from pathlib import Path

from fakes import ROOT

from chaos.hosts import __main__ as printing
from chaos.hosts import deb, oschaos_host

PAGE = ROOT / "docs" / "hosts.md"


def test_the_table_of_intents_is_the_programs() -> None:
    text = PAGE.read_text()
    shown = text[text.index(printing.BEGIN) : text.index(printing.END) + len(printing.END)]
    assert shown == printing.table(), "python -m chaos.hosts prints it anew"


def test_every_verb_is_told_and_no_other() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|]*\| [^|]*\|$", PAGE.read_text(), re.MULTILINE)
    assert rows == list(oschaos_host.VERBS)


def test_the_configurations_that_are_shown_are_taken(tmp_path: Path) -> None:
    shown = re.search(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert shown is not None
    for k, text in enumerate((shown[1], (deb.PACKAGING / "oschaos-host.json.example").read_text())):
        path = tmp_path / str(k) / "etc" / "oschaos-host.json"
        path.parent.mkdir(parents=True, mode=0o755)
        path.write_text(text)
        path.chmod(0o644)
        oschaos_host.ROOT = str(tmp_path / str(k))
        try:
            assert oschaos_host.configuration()["nodes"] == json.loads(text)["nodes"]
        finally:
            oschaos_host.ROOT = ""
