"""Which runs a campaign's file means, in which order, and which of them a shard makes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shipped import CAMPAIGNS, ROOT

from chaos.base.errors import InvalidInput
from chaos.campaign.matrix import Shard
from chaos.commands.campaign_runs import loaded
from chaos.definitions.campaign import load_campaign
from chaos.definitions.schema import path_of
from chaos.definitions.source import Source
from chaos.registry import GRAMMAR
from chaos.run.spec import RunSpec

HEAD = "apiVersion: opensearch-chaos/v1\nkind: campaign\nname: c\nstore: s\n"
NO_FAULT = str(ROOT / "experiments" / "no-fault.yaml")
DARK = str(ROOT / "experiments" / "zone-black-hole.yaml")
TUNED = str(ROOT / "experiments" / "zone-black-hole-tuned.yaml")
STILL = """apiVersion: opensearch-chaos/v1
name: still
topology: 3az
load: {read: {rate: 40/s, good: ok within 1s}, write: {rate: 20/s, good: ok within 1s}}
phases: {healthy: {for: 30s}}
expect: [{acknowledged.lost: 0}]
"""


def write(folder: Path, body: str, head: str = HEAD) -> Path:
    file = folder / "c.yaml"
    file.write_text(head + body)
    return file


def two(folder: Path, more: str = "repeats: 3\n") -> Any:
    body = f"matrix:\n  experiments: [{NO_FAULT}, {DARK}]\n  versions: [2.19.6, 3.8.0]\n{more}"
    return loaded(write(folder, body))


def test_every_combination_is_a_cell_of_its_own(tmp_path: Path) -> None:
    matrix = two(tmp_path)
    assert len(matrix.cells) == 2 * 2 * 3 == len({cell.key for cell in matrix.cells})
    assert {cell.experiment.topology.version for cell in matrix.cells} == {"2.19.6", "3.8.0"}
    for cell in matrix.cells:
        assert cell.version == cell.experiment.topology.version
        assert all(node.version is None for node in cell.experiment.topology.nodes)


def test_versions_follow_each_other_and_turn_round_with_every_repeat(tmp_path: Path) -> None:
    said = [(cell.experiment.name, cell.version, cell.seed) for cell in two(tmp_path).cells]
    assert said[:4] == [
        ("no-fault", "2.19.6", 1),
        ("no-fault", "3.8.0", 1),
        ("zone-black-hole", "2.19.6", 1),
        ("zone-black-hole", "3.8.0", 1),
    ]
    assert [version for _, version, seed in said if seed == 2] == ["3.8.0", "2.19.6"] * 2


def test_order_by_experiments(tmp_path: Path) -> None:
    names = [cell.experiment.name for cell in two(tmp_path, "repeats: 2\norder: experiments\n").cells]
    assert names == ["no-fault"] * 4 + ["zone-black-hole"] * 4


@given(st.integers(1, 9))
def test_shards_share_all_cells_and_keep_versions_on_one_machine(shards: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        matrix = two(Path(folder))
    parts = [matrix.of_shard(Shard(number, shards)) for number in range(1, shards + 1)]
    keys = [cell.key for part in parts for cell in part]
    assert sorted(keys) == sorted(cell.key for cell in matrix.cells)
    for part in parts:
        for cell in part:
            assert {other.version for other in part if other.block == cell.block} == {"2.19.6", "3.8.0"}


def test_a_key_is_of_what_the_run_does_and_of_nothing_else(tmp_path: Path) -> None:
    one, again = two(tmp_path), two(tmp_path, "repeats: 5\nbudget: {machines: 7}\nretry: {lost: 0}\n")
    assert {cell.key for cell in one.cells} <= {cell.key for cell in again.cells}
    other = two(tmp_path, "repeats: 3\nseed: 100\n")
    assert not {cell.key for cell in one.cells} & {cell.key for cell in other.cells}


def test_a_spec_goes_to_another_machine_and_comes_back(tmp_path: Path) -> None:
    for cell in two(tmp_path).cells[:2]:
        spec = cell.spec("c.yaml")
        back = RunSpec.from_json(spec.to_json(), GRAMMAR.experiment)
        assert back.digest == spec.digest and back.experiment.topology.version == cell.version
        assert back.command == f"opensearch-chaos campaign rerun c.yaml {cell.key}"


def test_a_tuned_experiment_stands_beside_the_one_that_it_is_of(tmp_path: Path) -> None:
    body = f"matrix: {{experiments: [{DARK}, {{file: {TUNED}, of: zone-black-hole, profile: tuned}}]}}\nseeds: [4, 9]\n"
    cells = loaded(write(tmp_path, body)).cells
    assert [(cell.of, cell.profile, cell.seed) for cell in cells] == [
        ("zone-black-hole", "default", 4),
        ("zone-black-hole", "tuned", 4),
        ("zone-black-hole", "default", 9),
        ("zone-black-hole", "tuned", 9),
    ]


def test_what_is_left_out_is_named_with_its_reason(tmp_path: Path) -> None:
    body = (
        f"matrix:\n  experiments: [{NO_FAULT}, {DARK}]\n  versions: [2.19.6, 3.8.0]\n"
        "  exclude: [{experiment: no-fault, version: 2.19.6, because: known}]\nrepeats: 1\n"
    )
    matrix = loaded(write(tmp_path, body))
    assert len(matrix.cells) == 3
    assert [(each.what, each.because) for each in matrix.excluded] == [("no-fault on 3az-standby, 2.19.6", "known")]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (f"matrix: {{experiments: [{NO_FAULT}]}}\n", r"how many runs are wanted is missing"),
        (f"matrix: {{experiments: [{NO_FAULT}]}}\nrepeats: 2\nseeds: [1]\n", r"expected no repeats and no seed"),
        (f"matrix: {{experiments: [{NO_FAULT}, {NO_FAULT}]}}\nrepeats: 1\n", r"c.yaml:5:\d+: .* is named 2 times"),
        (f"matrix: {{experiments: [{'x' * 300}.yaml]}}\nrepeats: 1\n", r"c.yaml:5:\d+: there is no file x{300}.yaml"),
        (
            "matrix: {experiments: [absent.yaml]}\nrepeats: 1\n",
            r"c.yaml:5:\d+: there is no file absent.yaml \(paths begin at this file's folder\): .*no-fault.yaml$",
        ),
        (
            "matrix: {experiments: [data-node-kill.yaml]}\nrepeats: 1\n",
            r"no file data-node-kill.yaml .* by: opensearch-chaos experiments data-node-kill --copy-to FOLDER$",
        ),
        (f"matrix: {{experiments: [{NO_FAULT}], versions: [9.9.9]}}\nrepeats: 1\n", r"OpenSearch 9.9.9 is not locked"),
        (
            f"matrix: {{experiments: [{NO_FAULT}], topologies: [nowhere]}}\nrepeats: 1\n",
            r"there is no topology nowhere",
        ),
        (
            f"matrix: {{experiments: [{NO_FAULT}], exclude: [{{version: 1.1.1, because: x}}]}}\nrepeats: 1\n",
            r"c.yaml:5:\d+: no cell fits this",
        ),
        (
            f"matrix: {{experiments: [{NO_FAULT}], exclude: [{{experiment: no-fault, because: x}}]}}\nrepeats: 1\n",
            r"every cell is left out",
        ),
        (f"matrix: {{experiments: [{NO_FAULT}], exclude: [{{because: x}}]}}\nrepeats: 1\n", r"leaves every cell out"),
        (f"matrix: {{experiments: [{NO_FAULT}]}}\nrepeats: 0\n", r"expected 1 or more"),
        (f"matrix: {{experiments: [{NO_FAULT}]}}\nrepeats: 1\nretry: {{weakness: 1}}\n", r"weakness"),
        (
            f"matrix: {{experiments: [{NO_FAULT}]}}\nseeds: [1, 1]\n",
            r"1 is named 2 times",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(body: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        loaded(write(tmp_path, body))
    assert re.search(says, str(refused.value)), refused.value


def test_two_experiments_of_one_name_are_refused(tmp_path: Path) -> None:
    """Their runs would be judged together."""
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "no-fault.yaml"
    other.write_text(Path(NO_FAULT).read_text().replace("rate: 40/s", "rate: 41/s"))
    assert other.read_text() != Path(NO_FAULT).read_text()
    entries = f"matrix: {{experiments: [{NO_FAULT}, {{file: {other}}}]}}\nrepeats: 2\n"
    with pytest.raises(InvalidInput, match=r"c\.yaml:5:\d+: two experiments are named no-fault"):
        loaded(write(tmp_path, entries))
    apart = entries.replace(f"{{file: {other}}}", f"{{file: {other}, profile: busy}}")
    assert len(loaded(write(tmp_path, apart)).cells) == 4


UPGRADE = ROOT / "experiments" / "rolling-upgrade.yaml"


def test_a_topology_of_several_versions_takes_none(tmp_path: Path) -> None:
    """Not even its own: its nodes do not stay there."""
    for versions in ("2.19.6, 3.8.0", "2.19.6"):
        body = f"matrix: {{experiments: [{UPGRADE}], versions: [{versions}]}}\nrepeats: 1\n"
        with pytest.raises(InvalidInput, match="a campaign cannot set version 2"):
            loaded(write(tmp_path, body))


def test_a_cell_is_labelled_with_all_versions_of_its_nodes(tmp_path: Path) -> None:
    (cell,) = loaded(write(tmp_path, f"matrix: {{experiments: [{UPGRADE}]}}\nrepeats: 1\n")).cells
    assert cell.version == cell.to_json()["version"] == cell.place[-1] == "2.19.6 to 3.8.0"
    assert cell.key == replace(cell, version="2.19.6").key  # a commit of before still stands for it


@pytest.mark.parametrize(("topology", "label"), [("mixed-versions", "2.19.6 to 3.8.0"), ("3az-upgrade", "2.19.6")])
def test_an_upgrade_counts_only_where_a_fault_makes_it(topology: str, label: str, tmp_path: Path) -> None:
    file = tmp_path / "still.yaml"
    file.write_text(STILL)
    body = f"matrix: {{experiments: [{file}], topologies: [{topology}]}}\nrepeats: 1\n"
    (cell,) = loaded(write(tmp_path, body)).cells
    assert cell.version == label


def test_a_version_that_nodes_come_to_is_left_out_by_exclude(tmp_path: Path) -> None:
    body = (
        f"matrix:\n  experiments: [{UPGRADE}, {NO_FAULT}]\n"
        "  exclude: [{experiment: rolling-upgrade, version: 3.8.0, because: not there}]\nrepeats: 1\n"
    )
    matrix = loaded(write(tmp_path, body))
    assert [each.what for each in matrix.excluded] == ["rolling-upgrade on 3az-upgrade, 2.19.6 to 3.8.0"]


def test_two_experiments_of_one_name_are_refused_in_versions_of_their_own_too(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    text = Path(NO_FAULT).read_text()
    topology = re.search(r"^topology: (\S+)$", text, re.M)
    assert topology is not None
    other = tmp_path / "other" / "no-fault.yaml"
    own = (ROOT / "topologies" / f"{topology[1]}.yaml").read_text()
    (tmp_path / "other" / f"{topology[1]}.yaml").write_text(own.replace("opensearch: 3.8.0", "opensearch: 2.19.6"))
    entries = f"matrix: {{experiments: [{NO_FAULT}, {{file: {other}}}]}}\nrepeats: 1\n"
    other.write_text(text)
    assert {cell.version for cell in loaded(write(tmp_path, entries)).cells} == {"2.19.6", "3.8.0"}
    other.write_text(text.replace("rate: 40/s", "rate: 41/s"))
    with pytest.raises(InvalidInput, match="two experiments are named no-fault"):
        loaded(write(tmp_path, entries))


def test_an_experiment_with_sides_is_refused(tmp_path: Path) -> None:
    sides = next((ROOT / "experiments" / "ab").glob("*.yaml"))
    with pytest.raises(InvalidInput, match="has sides"):
        loaded(write(tmp_path, f"matrix: {{experiments: [{sides}]}}\nrepeats: 1\n"))


@pytest.mark.parametrize("given_text", ["0/3", "4/3", "1", "a/b", "1/0", "-1/2", "1/2/3", "1/\u0662"])
def test_shards_that_are_none_are_refused(given_text: str) -> None:
    with pytest.raises(InvalidInput, match="expected I/N"):
        Shard.parse(given_text)


def test_a_cell_is_found_by_the_beginning_of_its_key(tmp_path: Path) -> None:
    matrix = two(tmp_path)
    assert matrix.cell(matrix.cells[3].key[:10]) is matrix.cells[3]
    with pytest.raises(InvalidInput, match="12 cells"):
        matrix.cell("")
    with pytest.raises(InvalidInput, match="no cells"):
        matrix.cell("zz")


@pytest.mark.parametrize("file", CAMPAIGNS, ids=lambda file: file.stem)
def test_shipped_campaigns_are_whole(file: Path) -> None:
    assert load_campaign(file).written.description
    assert loaded(file).cells


@pytest.mark.parametrize("file", CAMPAIGNS, ids=lambda file: file.stem)
def test_the_published_schema_accepts_what_is_shipped(file: Path) -> None:
    schema = jsonschema.Draft202012Validator(json.loads(path_of("campaign").read_text()))
    data = Source.read(file).data
    assert list(schema.iter_errors(data)) == []
    for wrong in (
        data | {"repeats": 0},
        data | {"retry": {"weakness": 1}},
        data | {"matrix": {**data["matrix"], "experiments": []}},
        data | {"matrix": {**data["matrix"], "versions": "3.8.0"}},
        {key: value for key, value in data.items() if key != "store"},
    ):
        assert list(schema.iter_errors(wrong)), wrong
