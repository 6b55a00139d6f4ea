"""What an attempt says of a case: nothing but what its steps showed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from unit.definitions.test_upstream_files import case

from chaos.base.errors import Exit
from chaos.campaign.upstream import judge, verdict
from chaos.commands import upstream as command
from chaos.definitions.upstream import KEPT, REPRODUCED, UNCLEAR, StepFile, load_case


def step(**keys: Any) -> StepFile:
    return StepFile.model_validate({"run": "true", **keys})


@pytest.mark.parametrize(
    ("printed", "shows"),
    [("deaf", "seen"), ("well", "expected"), ("deaf and well", "both"), ("", "neither"), ("curl: (7)", "neither")],
)
def test_a_step_shows_one_or_the_other_or_nothing(printed: str, shows: str) -> None:
    assert judge(step(seen="deaf", expected="well"), printed) == {"shows": shows}


def test_what_must_be_printed_is_missed() -> None:
    assert judge(step(must="ack"), "ack") == {}
    assert "lacks" in judge(step(must="ack"), "no answer")


@pytest.mark.parametrize(
    ("steps", "outcome"),
    [
        ([{"shows": "seen"}], REPRODUCED),
        ([{"shows": "expected"}], KEPT),
        ([{"shows": "seen"}, {}, {"shows": "seen"}], REPRODUCED),
        ([{"shows": "seen"}, {"shows": "expected"}], UNCLEAR),
        ([{"shows": "neither"}], UNCLEAR),
        ([{"shows": "both"}], UNCLEAR),
        ([{"lacks": "x"}], UNCLEAR),
        ([{"shows": "seen"}, {"lacks": "x"}], UNCLEAR),
        ([], UNCLEAR),
        ([{}], UNCLEAR),
    ],
)
def test_only_steps_that_all_say_the_same_decide(steps: list[dict[str, Any]], outcome: str) -> None:
    assert verdict(steps) == outcome


@pytest.mark.parametrize(
    ("declared", "control", "outcome", "code"),
    [
        ("always", False, REPRODUCED, Exit.PASS),
        ("always", False, KEPT, Exit.WEAKNESS),  # a version that mends it fails until the row is changed
        ("never", False, REPRODUCED, Exit.WEAKNESS),
        ("never", False, KEPT, Exit.PASS),
        ("sometimes", False, REPRODUCED, Exit.PASS),
        ("sometimes", False, KEPT, Exit.PASS),
        ("always", True, REPRODUCED, Exit.WEAKNESS),
        ("always", True, KEPT, Exit.PASS),
        ("always", False, UNCLEAR, Exit.INCONCLUSIVE),
        ("sometimes", True, UNCLEAR, Exit.INCONCLUSIVE),
    ],
)
def test_always_and_never_are_held_to(declared: str, control: bool, outcome: str, code: Exit) -> None:
    assert command._code(declared, outcome, control=control) is code


def test_a_record_is_kept_beside_the_others_and_found_again(tmp_path: Path) -> None:
    written = load_case(case(tmp_path)).file
    record = {"what": written, "began": "2026-11-25T01:02:03+00:00", "series": "upstream"}
    kept = command.keep(tmp_path / "results", record)
    assert kept.name == "20261125T010203Z-upstream.json" and kept.parent.name == "deaf"
    assert command.recorded(tmp_path / "results") == [json.loads(kept.read_text())] == [record]
