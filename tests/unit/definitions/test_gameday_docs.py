"""The game day that docs/gamedays.md tells its readers to write is one."""

from __future__ import annotations

import re
from pathlib import Path

from daykit import KEY, TARGET
from fakes import ROOT

from chaos.definitions.gameday import load_gameday


def test_the_day_of_the_docs_can_be_read(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "gamedays.md").read_text()
    (text,) = re.findall(r"```yaml\n(apiVersion.*?)```", page, re.DOTALL)
    folder = tmp_path / "experiments" / "gamedays"
    folder.mkdir(parents=True)
    (tmp_path / "topologies" / "existing").mkdir(parents=True)
    (tmp_path / "topologies" / "existing" / "staging.yaml").write_text(TARGET)
    (tmp_path / "experiments" / "data-node-kill.yaml").write_text(
        (ROOT / "experiments" / "data-node-kill.yaml").read_text()
    )
    (folder / "allowed_signers").write_text(f"ann@example.com {KEY}\n")
    (folder / "operators").write_text(f"ops@example.com {KEY}\n")
    (folder / "staging.yaml").write_text(text)
    day = load_gameday(folder / "staging.yaml")
    assert day.written.people == 1 and next(iter(day.written.guards.values())).counts == "outcome"
    named = set(re.findall(r"`?opensearch-chaos gameday ([a-z]+)", page))
    from chaos.commands.gameday import COMMANDS

    assert named <= set(COMMANDS) and {"validate", "plan", "approve", "run", "stop", "schedule"} <= named
