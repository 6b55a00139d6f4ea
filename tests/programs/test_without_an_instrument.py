"""A file of ``chaos/instruments`` can be taken away: what is left starts, judges and draws a stored run without it."""

from __future__ import annotations

import json
from pathlib import Path

import corpuskit as kit
import pytest
import without

RUN = next(name for name in kit.names() if kit.verdicts()[name]["rules"] == 2)
JUDGE = """
import json, pathlib, sys
import chaos, chaos.registry, chaos.cli, chaos.run.execution
from chaos.checks import instruments
from chaos.report import render
folder = pathlib.Path(sys.argv[1])
page = render(folder)
render(folder, redact=True)
found = json.loads((folder / "findings.json").read_text())
print(json.dumps({
    "package": chaos.__file__,
    "instruments": [each.observe.__module__.rpartition(".")[2] for each in instruments.every()],
    "outcome": found["outcome"],
    "broken": [each["says"] for each in found["reasons"] if each["cause"] == "check_broken"],
    "page": len(page.read_text()),
}))
"""
FIRST = ("sampler", "process_exits")
"""Of which most is asked; the others are for the long tests."""


def judged(folder: Path, *taken: str) -> dict[str, object]:
    copy = without.copy(folder, *taken)
    with kit.unpacked(RUN) as run:
        ran = without.python(copy, "-c", JUDGE, str(run))
    assert ran.returncode == 0, ran.stderr
    found: dict[str, object] = json.loads(ran.stdout.splitlines()[-1])
    assert str(found["package"]).startswith(str(copy)), "the copy was used"
    return found


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FIRST else pytest.mark.full) for name in without.NINE]
)
def test_a_stored_run_is_judged_and_drawn_without_it(tmp_path: Path, name: str) -> None:
    found = judged(tmp_path, name)
    assert name not in found["instruments"] and len(found["instruments"]) >= len(without.NINE) - 1  # type: ignore[operator,arg-type]
    assert found["broken"] == [] and found["page"] > 10_000  # type: ignore[operator]


@pytest.mark.full
def test_without_any_of_them_too_and_with_all_of_them_as_ever(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "all").mkdir()
    rooms = [file.stem for file in (without.ROOT / "chaos" / "instruments").glob("*.py") if file.stem != "__init__"]
    assert set(without.NINE) < set(rooms)
    assert judged(tmp_path / "none", *rooms)["instruments"] == []
    assert judged(tmp_path / "all")["outcome"] == kit.verdicts()[RUN]["outcome"]


BARE = """
import json, pathlib, sys
from chaos.report import render
render(pathlib.Path(sys.argv[1]))
print(json.dumps(sorted({name.split(".")[1] for name in sys.modules if name.startswith("chaos.")})))
"""


def test_a_stored_run_is_judged_and_drawn_without_labs_faults_and_clusters(tmp_path: Path) -> None:
    """By what Python has loaded then, and not only by what modules say: the observing half of an instrument is in the
    same file as its judging half."""
    with kit.unpacked(RUN) as run:
        ran = without.python(without.ROOT, "-c", BARE, str(run))
    assert ran.returncode == 0, ran.stderr
    rooms = set(json.loads(ran.stdout.splitlines()[-1]))
    assert {"checks", "instruments", "report"} <= rooms
    assert not rooms & {"target", "targets", "faults", "observe", "load", "programs", "run", "providers", "campaign"}
