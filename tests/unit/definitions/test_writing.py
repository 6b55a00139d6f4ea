"""From data back to YAML: what was loaded is written so that it loads as the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from shipped import EXPERIMENTS, ROOT

from chaos.definitions import writing
from chaos.registry import GRAMMAR, load_experiment


@pytest.mark.parametrize("file", EXPERIMENTS, ids=lambda file: file.stem)
def test_a_shipped_experiment_is_the_same_after_writing_and_reading(file: Path, tmp_path: Path) -> None:
    loaded = load_experiment(file)
    for given_ in (loaded, GRAMMAR.experiment(loaded.to_json())):
        again = tmp_path / "again.yaml"
        again.write_text(writing.experiment(given_, loaded.topology.name, ["a comment"]))
        read = load_experiment(again, topology=loaded.topology)
        assert read.to_json() | {"file": None} == loaded.to_json() | {"file": None}


@pytest.mark.parametrize(
    "write",
    [
        "{rate: 5/s, good: ok within 1s, operation: bulk, items: 7, ids: automatic, retry: {}}",
        "{clients: 3}",
        "{rate: 5/s, good: ok within 1s, operation: bulk, items: 7, client: {kind: helpers.bulk, max_retries: 2}}",
        "{clients: 3, operation: bulk, items: 7, client: {kind: helpers.async_bulk, raise_on_error: false}}",
        "{clients: 3, operation: bulk, items: 7, ids: automatic, retry: {times: 2, backoff: fixed, jitter: true}}",
    ],
)
def test_bulks_and_closed_loops_are_the_same_after_writing_and_reading(write: str, tmp_path: Path) -> None:
    file = tmp_path / "first.yaml"
    given_ = (ROOT / "experiments" / "no-fault.yaml").read_text()
    line = next(each for each in given_.splitlines() if each.lstrip().startswith("write:"))
    more = "\n  client: {kind: opensearch-py, compress: true}\n  processes: 2" if "client:" in write else ""
    lines = [each for each in given_.replace(line, f"  write: {write}{more}").splitlines() if "write." not in each]
    file.write_text("\n".join(lines) + "\n")
    loaded = load_experiment(file)
    again = tmp_path / "again.yaml"
    again.write_text(writing.experiment(loaded, loaded.topology.name, []))
    read = load_experiment(again, topology=loaded.topology)
    assert read.to_json() | {"file": None} == loaded.to_json() | {"file": None}
    assert GRAMMAR.experiment(loaded.to_json()).to_json() == loaded.to_json()


plain = st.recursive(
    st.booleans() | st.integers() | st.text() | st.from_regex(r"[a-z0-9 .:#,{}'\"%/-]{1,12}", fullmatch=True),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1), inner, max_size=3),
    max_leaves=6,
)


@given(plain)
def test_whatever_is_written_on_one_line_is_read_as_the_same(value: Any) -> None:
    text = writing.flow(value)
    assert "\n" not in text
    yaml = YAML(typ="safe", pure=True)
    assert yaml.load(f"x: {text}")["x"] == value
