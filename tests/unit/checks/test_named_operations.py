"""A workload's own operations are judged as read and write are: the same run under other names, the same verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import synthetic

from chaos.checks import evaluate
from chaos.history import History

NAMES = {"read": "qread", "write": "qwrite"}


def renamed(folder: Path) -> Path:
    """The run's record, as a workload with operations of these names would have left it."""
    plan = json.loads((folder / "plan.json").read_text())
    load = plan["experiment"]["load"]
    for old, new in NAMES.items():
        load[new] = load.pop(old) | {"name": new} | ({"writes": True} if old == "write" else {})
    for item in plan["experiment"]["expect"]:
        if item["op"] in NAMES:
            new = NAMES[item["op"]]
            item |= {key: item[key].replace(item["op"], new, 1) for key in ("metric", "op", "text")}
    (folder / "plan.json").write_text(json.dumps(plan))
    tables = folder / "history" / "arrivals.json"
    known = json.loads(tables.read_text())
    tables.write_text(json.dumps(known | {"operations": [NAMES[name] for name in known["operations"]]}))
    return folder


def back(data: Any) -> Any:
    """The same findings with the usual names."""
    text = json.dumps(data)
    for old, new in NAMES.items():
        text = text.replace(new, old).replace(new.capitalize(), old.capitalize())
    return json.loads(text)


@pytest.mark.parametrize("name", ["slow_zone", "black_hole", "lost_writes", "killed", "vanished"])
def test_other_names_change_nothing_but_names(tmp_path: Path, name: str) -> None:
    usual = evaluate(History.open(synthetic.STORIES[name]().write(tmp_path / "a"))).to_json()
    theirs = evaluate(History.open(renamed(synthetic.STORIES[name]().write(tmp_path / "b")))).to_json()
    assert NAMES["write"] in json.dumps(theirs)
    assert back(theirs) == json.loads(json.dumps(usual))


def test_a_load_that_writes_nothing_proves_nothing_about_writes(tmp_path: Path) -> None:
    """Were the name believed and not what it does, nothing would have been looked for and nothing found lost."""
    folder = renamed(synthetic.slow_zone().write(tmp_path))
    plan = json.loads((folder / "plan.json").read_text())
    del plan["experiment"]["load"]["qwrite"]["writes"]
    (folder / "plan.json").write_text(json.dumps(plan))
    found = evaluate(History.open(folder)).to_json()
    (lost,) = [each for each in found["findings"] if each["metric"] == "acknowledged.lost"]
    assert lost["verdict"] == "inconclusive" and "the load wrote nothing" in json.dumps(lost)
