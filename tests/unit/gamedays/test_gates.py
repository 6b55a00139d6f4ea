"""Every attempt at a gate: those that must be refused are, in words, and those that must pass do."""

from __future__ import annotations

from pathlib import Path

import gatetable
import pytest
from gatetable import PAGE, Attempt, all_attempts

from chaos.gamedays import preflight


@pytest.mark.parametrize("attempt", all_attempts(), ids=lambda each: f"{each.gate}: {each.what}")
def test_an_attempt_ends_as_it_must(attempt: Attempt, tmp_path: Path) -> None:
    found = list(attempt.make(tmp_path))
    assert found
    bad = [gate for gate in found if not gate.ok]
    if attempt.passes:
        assert bad == []
    else:
        assert attempt.says is not None and any(attempt.says in gate.says for gate in bad), found
        assert all("\n" not in str(gate) for gate in bad)


def test_each_gate_is_tried_both_ways() -> None:
    ways: dict[str, set[bool]] = {}
    for each in all_attempts():
        ways.setdefault(each.gate, set()).add(each.passes)
    whole = {name for name in preflight.GATES if name != "snapshot"}  # one attempt passes all of these
    assert all(found == {True, False} for name, found in ways.items() if name not in whole)
    assert set(preflight.GATES) <= set(ways) and len(all_attempts()) > 60


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == gatetable.page(all_attempts()), f"run: {gatetable.COMMAND}"
