"""Sides of an experiment: what is merged, what each side comes to, and every way to be wrong with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.base.errors import InvalidInput
from chaos.definitions import varied, vary
from chaos.definitions.varied import Varied
from chaos.registry import GRAMMAR, load_experiment
from chaos.run import plan

EXAMPLE = """\
apiVersion: opensearch-chaos/v1
name: ab
topology: 3az
load:
  read:  {rate: 40/s, good: ok within 1s}
  write: {rate: 20/s, good: ok within 1s}
phases:
  steady: {for: 20s}
expect:
  - {phase: all, write.good: ">= 99%"}
vary:
  sides:
    default: {}
    slow: {topology: {settings: {index: {refresh_interval: 30s}}}}
  times: 4
"""
SLOW = "    slow: {topology: {settings: {index: {refresh_interval: 30s}}}}\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(text: str, **options: object) -> Varied:
    Path("x.yaml").write_text(text)
    found = load_experiment("x.yaml", sides=True, **options)
    assert isinstance(found, Varied)
    return found


def side(overlay: str) -> str:
    return EXAMPLE.replace(SLOW, f"    slow: {overlay}\n")


def says(text: str, **options: object) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        load(text, **options)
    return str(caught.value).splitlines()


def test_mappings_are_merged_deeply_and_all_else_is_replaced() -> None:
    base = {"a": {"b": 1, "c": [1, 2]}, "d": 4}
    assert vary.merged(base, {"a": {"c": [3]}, "e": {"f": 5}}) == {"a": {"b": 1, "c": [3]}, "d": 4, "e": {"f": 5}}
    assert vary.merged(base, {"a": 7}) == {"a": 7, "d": 4}
    assert base == {"a": {"b": 1, "c": [1, 2]}, "d": 4}


def test_each_side_is_an_experiment_of_its_own() -> None:
    found = load(EXAMPLE)
    default, slow = found.sides
    assert (found.names, found.times) == (("default", "slow"), 4)
    assert slow.experiment.topology.settings.index == {
        "number_of_shards": 3,
        "number_of_replicas": 2,
        "refresh_interval": "30s",
    }
    assert default.experiment.topology.settings.index == {"number_of_shards": 3, "number_of_replicas": 2}
    assert varied.difference(default, slow) == ["topology.settings.index.refresh_interval: not set → 30s"]
    assert slow.experiment.file == Path("x.yaml") and slow.experiment.topology.name == "3az"


def test_a_side_is_in_normal_form_and_knows_no_sides() -> None:
    """The baseline that changes nothing is, byte for byte, the experiment without sides."""
    found = load(EXAMPLE)
    Path("x.yaml").write_text(EXAMPLE.partition("vary:")[0])
    plain = load_experiment("x.yaml")
    assert json.dumps(found.to_json()) == json.dumps(plain.to_json())
    assert plan.digest(found.sides[0].experiment) == plan.digest(found) == plan.digest(plain)
    assert plan.digest(found.sides[1].experiment) != plan.digest(plain)
    for each in found.sides:
        assert GRAMMAR.experiment(each.experiment.to_json()) == each.experiment


@pytest.mark.parametrize(
    ("overlay", "differs"),
    [
        ("{load: {client: {kind: opensearch-py}}}", ["load.client.kind: load-balancer → opensearch-py"]),
        ("{load: {write: {rate: 50/s}}}", ["load.write.rate: 20/s → 50/s"]),
        ("{controller: {act: false}}", None),
        ("{topology: {opensearch: 2.19.6}}", ["topology.opensearch: 3.8.0 → 2.19.6"]),
        (
            "{topology: {nodes: {data: {opensearch: 3.9.0}}}}",
            [f"topology.nodes.{z}-data.opensearch: not set → 3.9.0" for z in "abc"],
        ),
        ("{topology: {nodes: {cm: {heap: 512MiB}}}}", [f"topology.nodes.{z}-cm.heap: 256MiB → 512MiB" for z in "abc"]),
        ("{topology: 3az-tuned}", None),
    ],
)
def test_what_a_side_may_change(overlay: str, differs: list[str] | None) -> None:
    found = load(side(overlay))
    said = varied.difference(*found.sides)
    assert said == differs if differs else said


WORKLOAD = """\
apiVersion: opensearch-chaos/v1
kind: workload
name: orders
fields: {customer: {type: keyword, pool: 50}}
"""
OTHERS = """\
  indices: {others: {workload: ./one.yaml}}
  streams: {theirs: {operation: index, rate: 5/s, good: ok within 1s, index: others}}
phases:
"""


@pytest.mark.parametrize(
    "overlay", ["{load: {workload: ./two.yaml}}", "{load: {indices: {others: {workload: ./two.yaml}}}}"]
)
def test_where_the_file_of_a_workload_lies_makes_no_side(overlay: str) -> None:
    Path("one.yaml").write_text(WORKLOAD)
    Path("two.yaml").write_text(WORKLOAD)
    text = side(overlay).replace("load:\n  read:  {", "load:\n  workload: ./one.yaml\n  read:  {operation: get, ", 1)
    text = text.replace("phases:\n", OTHERS, 1)
    (line,) = says(text)
    assert "side slow comes to the same experiment as side default: expected a difference" in line
    Path("two.yaml").write_text(WORKLOAD.replace("50", "60"))
    assert load(text).names == ("default", "slow")


def test_objectives_of_the_command_line_hold_on_all_sides() -> None:
    from chaos.base.units import Duration

    found = load(EXAMPLE, good={"write": Duration(2)})
    assert [each.experiment.load.operation("write").good_within for each in found.sides] == [2, 2]  # type: ignore[union-attr]
    assert found.load.operation("write").good_within == 2  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (side("{phases: {steady: {for: 5s}}}"), "x.yaml:14:12: a side cannot change phases: every side has"),
        (side("{name: other}"), "x.yaml:14:12: a side cannot change name: the side has a name"),
        (side("{expect: []}"), "x.yaml:14:12: a side cannot change expect"),
        (side("{lod: {}}"), 'x.yaml:14:12: unknown key "lod": did you mean "load"?'),
        (side("{load: {}}"), "x.yaml:14:18: load: nothing is changed here"),
        (side("{topology: 3}"), "x.yaml:14:22: topology: expected another topology's name"),
        (side("{topology: nowhere}"), "x.yaml:14:22: side slow: there is no topology nowhere"),
        (
            side("{topology: {version: 2.19.6}}"),
            'x.yaml:14:23: side slow: unknown key "version": did you mean "opensearch"?',
        ),
        (
            side("{topology: {opensearch: 3.8}}"),
            "x.yaml:14:35: side slow: opensearch: 3.8 is a number: expected a full version such as 3.8.0",
        ),
        (
            side("{topology: {opensearch: 3.8.0}}"),
            "x.yaml:14:5: side slow comes to the same experiment as side default",
        ),
        (
            side("{topology: {opensearch: 3.8.0}}").replace("topology: 3az\n", "topology: 3az-upgrade\n"),
            "x.yaml:14:35: side slow: 3.8.0 cannot be upgraded to 3.8.0: expected an earlier version",
        ),
        (side("{topology: {name: other}}"), "x.yaml:14:23: a side cannot change a topology's name"),
        (
            side("{load: {write: {good: ok within 5s}}}"),
            "x.yaml:14:27: a side cannot change what is good: shares of other objectives cannot be compared",
        ),
        (side("{load: {write: {rate: fast}}}"), "x.yaml:14:33: side slow: rate: cannot read 'fast'"),
        (
            side("{load: {client: {kind: pinned}}}"),
            "x.yaml:14:27: side slow: client: a pinned client talks to one node",
        ),
        (side("{topology: {zones: [a, b]}}"), "x.yaml:14:"),
        (
            side("{topology: {settings: {index: {number_of_replicas: 9}}}}"),
            "x.yaml:14:62: side slow: number_of_replicas 9 makes 10 copies of a shard",
        ),
        (
            side("{topology: {nodes: {data: {heap: 1MiB}}}}"),
            "x.yaml:14:44: side slow: heap: a heap of 1MiB is too small",
        ),
        (side("{}"), "x.yaml:14:5: side slow comes to the same experiment as side default: expected a difference"),
        (
            side("{load: {write: {rate: 20/s}}}"),
            "x.yaml:14:5: side slow comes to the same experiment as side default",
        ),
        (
            EXAMPLE.replace(SLOW, SLOW + SLOW.replace("slow:", "late:").replace("refresh", "index.refresh")),
            "x.yaml:15:5: side late comes to the same experiment as side slow",
        ),
        (EXAMPLE.replace(SLOW, ""), "x.yaml:13:5: sides: expected at least 2, got a mapping"),
        (
            EXAMPLE.replace(SLOW, "".join(SLOW.replace("slow", f"s{i}").replace("30s", f"{i}s") for i in range(2, 6))),
            "x.yaml:13:5: sides: expected at most 4, got a mapping",
        ),
        (EXAMPLE.replace("times: 4", "times: 0"), "x.yaml:15:10: times: expected 1 or more, got 0"),
        (
            EXAMPLE.replace("times: 4", "decide: [write.p99@dark]"),
            "x.yaml:15:12: write.p99@dark: there is no phase dark",
        ),
        (EXAMPLE.replace("times: 4", "tolerance: {read.p99@x: 5ms}"), "x.yaml:15:15: read.p99@x: there is no phase x"),
        (
            EXAMPLE.replace("times: 4", "decide: [acknowledged.lost, nonsense.metric]"),
            "x.yaml:15:31: nonsense.metric: no metric begins with nonsense",
        ),
        (
            EXAMPLE.replace("times: 4", "tolerance: {wriet.p99@steady: 5ms}"),
            'x.yaml:15:15: wriet.p99@steady: no metric begins with wriet: did you mean "write"?',
        ),
        (EXAMPLE.replace("times: 4", "runs: 4"), 'x.yaml:15:3: unknown key "runs"'),
    ],
)
def test_every_way_to_be_wrong_has_its_place(text: str, wanted: str) -> None:
    assert any(line.startswith(wanted) for line in says(text)), says(text)


def test_what_decides_may_be_in_a_table_alone_or_of_a_stream_that_a_side_brings() -> None:
    stream = "{load: {streams: {extra: {operation: search, rate: 5/s, good: ok within 1s}}}}"
    names = "costs.goodput, ladder.green@steady, data.cas, extra.p99, elections, read.minimum.10s"
    assert load(side(stream).replace("times: 4", f"decide: [{names}]")).decide == tuple(names.split(", "))


def test_problems_of_the_file_itself_are_told_once_and_not_for_each_side() -> None:
    found = says(EXAMPLE.replace("rate: 20/s", "rate: fast"))
    assert len(found) == 1 and found[0].startswith("x.yaml:6:17: rate:")


def test_where_one_plan_is_wanted_a_file_with_sides_is_refused() -> None:
    load(EXAMPLE)
    with pytest.raises(
        InvalidInput, match=r"x\.yaml:11:1: this experiment has sides, and an experiment that is one plan"
    ):
        load_experiment("x.yaml")


def test_options_that_would_change_all_sides_alike() -> None:
    assert "leave out --no-controller" in says(EXAMPLE, controlled=False)[0]
    assert says(side("{topology: 3az-tuned}"), topology="3az-standby") == [
        "x.yaml:14:22: side slow names its topology, so none can be given on the command line"
    ]
    assert load(EXAMPLE, topology="3az-standby").sides[1].experiment.topology.name == "3az-standby"


PROTECTION = "  protection: {counter: thread_pools.rejected, provoked: steady, protects: [read.good]}\n"
LATER = EXAMPLE.replace("  steady: {for: 20s}\n", "  steady: {for: 20s}\n  after: {for: 20s}\n")


def test_a_protection_is_carried_along_and_is_no_part_of_what_is_run() -> None:
    found = load(LATER + PROTECTION.replace("provoked", "answers: {write: 429}, provoked"))
    assert found.protection == {
        "counter": "thread_pools.rejected",
        "provoked": ["steady"],
        "answers": {"write": "429"},
        "protects": ["read.good"],
    }
    bare = load(LATER)
    assert bare.protection is None and bare.to_json() == found.to_json()
    assert [plan.digest(each.experiment) for each in bare.sides] == [
        plan.digest(each.experiment) for each in found.sides
    ]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (EXAMPLE + PROTECTION, "steady is the last phase, so nothing would show whether it lets go"),
        (LATER + PROTECTION.replace("provoked: steady", "provoked: stormy"), "there is no phase stormy"),
        (LATER + PROTECTION.replace("read.good", "read.p99"), "read.p99: expected the good share of an operation"),
        (LATER + PROTECTION.replace("read.good", "note.good"), "note.good: expected the good share of an operation"),
        (LATER + PROTECTION.replace("provoked", "answers: {note: 429}, provoked"), "the load has no operation note"),
        (LATER + PROTECTION.replace("provoked", "answers: {write: 418}, provoked"), "429"),
        (LATER + PROTECTION.replace("thread_pools.rejected", "shards.moved"), "search_backpressure.cancelled"),
        (LATER + PROTECTION.replace("[read.good]", "[]"), "protects"),
        (
            LATER.replace(SLOW, SLOW + "".join(SLOW.replace("slow", f"n{n}").replace("30", f"3{n}") for n in (1, 2)))
            + PROTECTION,
            "expected two or three sides, got 4",
        ),
    ],
)
def test_a_protection_that_could_not_be_judged_is_refused_with_its_place(text: str, wrong: str) -> None:
    (said,) = says(text)
    assert wrong in said and said.startswith("x.yaml:")
