"""A machine of a campaign: when it is retired, and what brings it back."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from chaos.base.errors import Exit
from chaos.campaign import machine as module
from chaos.campaign.machine import RETIRED, Machine, Retired


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[SimpleNamespace]]:
    """What `recover` would undo, and what `doctor` says."""
    said: dict[str, list[SimpleNamespace]] = {"leftovers": [], "doctor": []}
    monkeypatch.setattr(module.recovery, "leftovers", lambda: said["leftovers"])
    monkeypatch.setattr(module.doctor, "examine", lambda: said["doctor"])
    return said


def item(ok: bool, optional: bool = False) -> SimpleNamespace:
    return SimpleNamespace(name="java", found="none", ok=ok, optional=optional)


def test_a_machine_comes_back_once_recover_and_doctor_agree(
    tmp_path: Path, found: dict[str, list[SimpleNamespace]]
) -> None:
    machine = Machine(folder=tmp_path)
    machine.refuse_dirty()
    assert isinstance(machine.retire("a run left it dirty"), Retired)
    found["leftovers"] = [SimpleNamespace(what="namespace oschaos-x")]
    with pytest.raises(Retired, match="a run left it dirty; still wrong: namespace oschaos-x") as refused:
        machine.refuse_dirty()
    assert refused.value.exit_code is Exit.DIRTY
    found["leftovers"], found["doctor"] = [], [item(ok=False)]
    with pytest.raises(Retired, match="java: none"):
        Machine(folder=tmp_path).refuse_dirty()
    found["doctor"] = [item(ok=True), item(ok=False, optional=True)]
    Machine(folder=tmp_path).refuse_dirty()
    assert not (tmp_path / RETIRED).exists()


def test_a_note_that_cannot_be_read_keeps_it_retired(tmp_path: Path, found: dict[str, list[SimpleNamespace]]) -> None:
    (tmp_path / RETIRED).write_text("{")
    found["leftovers"] = [SimpleNamespace(what="a lab")]
    with pytest.raises(Retired, match="cannot be read"):
        Machine(folder=tmp_path).refuse_dirty()


def test_a_machine_says_what_it_is(tmp_path: Path) -> None:
    about = Machine(folder=tmp_path).about
    assert about["processors"] >= 1 and about["memory_gb"] >= 1 and about["kernel"]
    now = Machine(folder=tmp_path).now
    assert {*now} == {"busy", "memory_bytes"} and now["busy"] >= 0
    assert round(now["memory_bytes"] / 1e9) == about["memory_gb"]
