"""What the pages show is valid: every whole experiment, target and workload in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chaos.definitions.existing import load_existing
from chaos.definitions.loading import load_workload
from chaos.load.dataset import Dataset
from chaos.registry import load_experiment

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN = [
    pytest.param(text, id=f"{page.name}-{number}")
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    for number, text in enumerate(BLOCK.findall(page.read_text()))
    if "apiVersion:" in text and ("phases:" in text or "kind: existing" in text or "kind: workload" in text)
]


@pytest.mark.parametrize("text", SHOWN)
def test_it_can_be_used_as_it_stands(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (name,) = re.findall(r"^name: *([a-z0-9-]+)", text, re.MULTILINE)
    file = tmp_path / f"{name}.yaml"
    file.write_text(text)
    monkeypatch.chdir(ROOT)
    if "kind: existing" in text:
        assert load_existing(file).written.name == name
    elif "kind: workload" in text:
        Dataset(load_workload(file)).refuse_unfit()
    else:
        assert load_experiment(file).phases


def test_there_is_something_to_look_at() -> None:
    assert len(SHOWN) >= 3
