"""Lines of ``expect`` that no history could fulfil or none could miss are refused, with file, line and column."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.base.errors import InvalidInput
from chaos.definitions import domains
from chaos.definitions.expectations import _COMPARE, Comparison, Unit
from chaos.registry import load_experiment

EXPERIMENT = """\
apiVersion: opensearch-chaos/v1
name: x
topology: 3az-standby
load:
  read:  {{rate: 100/s, good: ok within 1s}}
  write: {{rate: 100/s, good: ok within 1s}}
phases:
  healthy:  {{for: 30s}}
  dark:     {{for: 60s, inject: {{network.drop: {{links: around everything in zone c}}}}}}
  returned: {{undo: all, until: {{green: true, stable: 20s, within: 180s}}}}
expect:
{lines}
"""


def refused(tmp_path: Path, *lines: str, without: str = "") -> list[str]:
    """What is said of these lines of ``expect``, each from its line:column on; the first stands on line 12."""
    file = tmp_path / "x.yaml"
    text = EXPERIMENT.format(lines="\n".join(f"  - {line}" for line in lines))
    file.write_text("\n".join(line for line in text.splitlines() if not without or without not in line))
    try:
        load_experiment(file)
    except InvalidInput as error:
        return [line.partition("x.yaml:")[2] for line in str(error).splitlines()]
    return []


SHARE = "a share lies between 0% and 100%"
COUNT = "a count is 0 or more"
TIME = "a time is 0s or more"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{read.good: ">= 0%"}', f"12:17: read.good >= 0% can never fail, because {SHARE}"),
        ('{read.good: "<= 100%"}', f"12:17: read.good <= 100% can never fail, because {SHARE}"),
        ('{read.good: "> 100%"}', f"12:17: read.good > 100% can never hold, because {SHARE}"),
        ('{read.good: "< 0%"}', f"12:17: read.good < 0% can never hold, because {SHARE}"),
        ('{acknowledged.lost: ">= 0"}', f"12:25: acknowledged.lost >= 0 can never fail, because {COUNT}"),
        ('{acknowledged.lost: "< 0"}', f"12:25: acknowledged.lost < 0 can never hold, because {COUNT}"),
        ('{shards.moved: ">= 0"}', f"12:20: shards.moved >= 0 can never fail, because {COUNT}"),
        ('{write.regained: ">= 0s"}', f"12:22: write.regained >= 0s can never fail, because {TIME}"),
        ('{read.p99: "< 0ms"}', f"12:16: read.p99 < 0s can never hold, because {TIME}"),
        ('{cpu.survivors: "> 100%"}', f"12:21: cpu.survivors > 100% can never hold, because {SHARE}"),
        # a note of a known weakness makes nothing decidable
        ('{read.good: ">= 0%", known_weakness: so it is}', "12:17: read.good >= 0% can never fail"),
    ],
)
def test_a_line_that_decides_nothing_is_refused(tmp_path: Path, line: str, says: str) -> None:
    (found,) = refused(tmp_path, line)
    assert found.startswith(says)
    assert "expected a bound that can be" in found


@pytest.mark.parametrize(
    "line",
    [
        '{read.good: "= 100%"}',
        '{read.good: "<= 0%"}',
        '{read.good: ">= 100%"}',
        '{read.good: "> 0%"}',
        "{acknowledged.lost: 0}",
        '{acknowledged.lost: "<= 0"}',
        '{acknowledged.lost: "< 1"}',
        '{phase: dark, shards.moved: "> 0"}',
        '{write.regained: "<= 0s"}',
        '{write.regained: "> 0s"}',
    ],
)
def test_a_line_on_the_edge_of_its_domain_is_not(tmp_path: Path, line: str) -> None:
    assert refused(tmp_path, line) == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "{store.upload_failures: 0}",
            "12:6: store.upload_failures is of a remote store, and topology 3az-standby has",
        ),
        ('{store.refresh_lag: "<= 9s"}', "12:6: store.refresh_lag is of a remote store"),
        ("{store.rejected: 0}", "12:6: store.rejected is of a remote store"),
        ("{store.retries: 0}", "12:6: store.retries is of a remote store"),
        ("{store.missing: 0}", "12:6: store.missing is of an object store, and topology 3az-standby has none"),
        ('{store.requests: ">= 20"}', "12:6: store.requests is of an object store"),
        ('{store.failed: "<= 1%"}', "12:6: store.failed is of an object store"),
        ('{store.p99: "<= 1s"}', "12:6: store.p99 is of an object store"),
        ('{costs.store: "< 1"}', "12:6: costs.store is of an object store"),
        ('{rollovers.done: ">= 2"}', "12:6: rollovers.done is of rollovers, and no index of the load has any"),
        (
            '{phase: dark, recovery.acted: "<= 9s"}',
            "12:19: recovery.acted is of what failover controllers do, and none",
        ),
    ],
)
def test_a_metric_of_what_is_not_in_the_run_is_refused(tmp_path: Path, line: str, says: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(EXPERIMENT.format(lines=f"  - {line}") + "controller: {act: false}\n")
    with pytest.raises(InvalidInput) as caught:
        load_experiment(file)
    (found,) = str(caught.value).splitlines()
    assert found.partition("x.yaml:")[2].startswith(says) and "expected " in found


def test_a_metric_of_what_is_in_the_run_is_not(tmp_path: Path) -> None:
    of_store = ["store.upload_failures: 0", "store.retries: 0", "store.missing: 0", 'store.p99: "<= 1s"']
    lines = "\n".join(f"  - {{{each}}}" for each in [*of_store, 'costs.store: "< 1"'])
    file = tmp_path / "x.yaml"
    file.write_text(EXPERIMENT.format(lines=lines).replace("3az-standby", "3az-remote-store"))
    load_experiment(file)
    text = EXPERIMENT.format(lines='  - {rollovers.done: ">= 1"}')
    file.write_text(text.replace("load:\n", "load:\n  alias: true\n  rollover: {every: 60s}\n"))
    load_experiment(file)
    file.write_text(EXPERIMENT.format(lines='  - {phase: dark, recovery.acted: "<= 9s"}') + "controller: {act: true}\n")
    load_experiment(file)


def test_of_a_store_that_is_a_folder_nodes_count_no_request(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(EXPERIMENT.format(lines="  - {store.upload_failures: 0}").replace("3az-standby", "3az-remote-fs"))
    load_experiment(file)
    file.write_text(EXPERIMENT.format(lines="  - {store.retries: 0}").replace("3az-standby", "3az-remote-fs"))
    with pytest.raises(
        InvalidInput, match=r"store\.retries is of an object store, and topology 3az-remote-fs has none"
    ):
        load_experiment(file)


def test_no_phase_is_refused(tmp_path: Path) -> None:
    says = "12:13: phase: no phase is named, so nothing would be judged: expected a phase, a list of phases, or all"
    assert refused(tmp_path, '{phase: [], read.good: ">= 99%"}') == [says]


@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        (
            '{phase: dark, read.good: ">= 99%"}',
            '{phase: [healthy, dark], read.good: "< 50%"}',
            "13:41: read.good < 50% contradicts >= 99% in phase dark, expectation 1: no value is both",
        ),
        (
            '{read.good: ">= 99%"}',
            '{phase: returned, read.good: "< 99%"}',
            "13:34: read.good < 99% contradicts >= 99% in phase returned, expectation 1",
        ),
        (
            '{phase: dark, shards.moved: "> 3"}',
            '{phase: dark, shards.moved: "< 4"}',
            "13:33: shards.moved < 4 contradicts > 3 in phase dark, expectation 1",
        ),
        (
            "{acknowledged.lost: 0}",
            '{acknowledged.lost: "> 0", because: "the disk is taken away"}',
            "13:25: acknowledged.lost > 0 contradicts = 0",
        ),
        (
            '{phase: dark, write.regained: "<= 10s"}',
            '{phase: dark, write.regained: "> 10s"}',
            "13:35: write.regained > 10s contradicts <= 10s in phase dark",
        ),
    ],
)
def test_lines_that_contradict_each_other_are_refused(tmp_path: Path, one: str, other: str, says: str) -> None:
    (found,) = refused(tmp_path, one, other)
    assert found.startswith(says)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{phase: healthy, read.good: ">= 99%"}', '{phase: dark, read.good: "< 50%"}'),
        ('{phase: dark, read.good: ">= 99%"}', '{phase: dark, write.good: "< 50%"}'),
        ('{phase: dark, shards.moved: "> 2"}', '{phase: dark, shards.moved: "< 4"}'),
        ('{phase: dark, read.good: ">= 90%"}', '{phase: dark, read.good: "<= 90%"}'),
        # what is known to fail and what holds instead may stand beside each other
        ('{phase: dark, read.good: ">= 99%", known_weakness: so it is}', '{phase: dark, read.good: "< 50%"}'),
    ],
)
def test_lines_that_can_both_be_judged_are_not(tmp_path: Path, one: str, other: str) -> None:
    assert refused(tmp_path, one, other) == []


def test_what_is_said_of_writes_needs_writes(tmp_path: Path) -> None:
    """The judge leaves it open for ever where the load wrote nothing (:mod:`chaos.checks.enough`)."""
    (found,) = refused(tmp_path, "{acknowledged.lost: 0}", without="write:")
    assert found.startswith("11:6: acknowledged.lost is about documents that the load writes, and it writes none")


def test_what_is_said_of_controllers_needs_controllers(tmp_path: Path) -> None:
    found = refused(tmp_path, "{failovers: 0}", '{phase: dark, recovery.acted: "<= 10s"}')
    assert [line.partition(" is of failover controllers, and there are none")[0] for line in found] == [
        "12:6: failovers",
        "13:19: recovery.acted",
    ]


# ---------------------------------------------------------------------------------------------------- the law

BOUNDS: dict[Unit, st.SearchStrategy[float]] = {
    "percent": st.floats(0, 1),
    "duration": st.floats(0, 1e6),
    "count": st.integers(0, 1000).map(float),
    "number": st.floats(-1e6, 1e6),
}
UNITS: tuple[Unit, ...] = ("percent", "duration", "count", "number")
WANTED = st.sampled_from(UNITS).flatmap(
    lambda unit: st.builds(
        lambda sign, value: Comparison(unit=unit, comparison=sign, value=value, text=f"{sign} {value}"),
        st.sampled_from(list(_COMPARE)),
        BOUNDS[unit] | st.sampled_from([0.0, 1.0]),
    )
)


def values(unit: Unit, *bounds: float) -> list[float]:
    """Values of a domain between which no comparison with these bounds changes, and so all that matter."""
    if unit == "count":
        return [float(n) for n in range(1003)]
    ends = {"percent": (0.0, 1.0), "duration": (0.0, 1e9), "number": (-1e9, 1e9)}[unit]
    near = [math.nextafter(bound, way) for bound in bounds for way in (-math.inf, math.inf)]
    return [each for each in (*ends, *bounds, *near) if ends[0] <= each <= ends[1]]


@given(WANTED)
def test_a_line_is_refused_iff_no_value_fails_it_or_none_passes(wanted: Comparison) -> None:
    outcomes = {_COMPARE[wanted.comparison](value, wanted.value) for value in values(wanted.unit, wanted.value)}
    assert (domains.why_not(wanted) is not None) == (len(outcomes) == 1)


def test_a_line_about_restores_is_refused_where_nothing_is_restored(tmp_path: Path) -> None:
    assert refused(tmp_path, "{restores.incomplete: 0}") == [
        "12:6: restores.incomplete is about the action restore, and no phase has one: expected restore under do of a "
        "phase"
    ]


@given(WANTED, st.sampled_from(list(_COMPARE)), st.data())
def test_two_lines_contradict_iff_no_value_fulfils_both(one: Comparison, sign: str, data: st.DataObject) -> None:
    value = data.draw(BOUNDS[one.unit] | st.just(one.value))
    other = Comparison(unit=one.unit, comparison=sign, value=value, text="")  # type: ignore[arg-type]
    between = [(one.value + value) / 2]
    both = [
        each
        for each in (*values(one.unit, one.value, value), *(between if one.unit != "count" else ()))
        if all(_COMPARE[w.comparison](each, w.value) for w in (one, other))
    ]
    assert domains.contradict(one, other) == (not both)


@given(st.lists(st.tuples(st.sampled_from(list(_COMPARE)), st.integers(0, 20)), min_size=3, max_size=3))
def test_pairs_are_enough(lines: list[tuple[str, int]]) -> None:
    """Three lines of which each two have a value in common have one together."""
    wanted = [Comparison(unit="count", comparison=s, value=float(v), text="") for s, v in lines]  # type: ignore[arg-type]
    together = any(all(_COMPARE[w.comparison](n, w.value) for w in wanted) for n in range(30))
    pairs = [domains.contradict(a, b) for a, b in itertools.combinations(wanted, 2)]
    alone = ["never hold" in (domains.why_not(each) or "") for each in wanted]
    assert together != (any(pairs) or any(alone))


@pytest.mark.parametrize(
    "line",
    [
        "{replicas.stale: 0}",
        '{phase: healthy, replicas.visible.p99: "<= 2s"}',
        '{phase: healthy, replication.lag: "<= 2s"}',
        '{phase: healthy, replication.bytes_behind: "<= 1000"}',
    ],
    ids=["stale", "visible", "lag", "bytes"],
)
def test_what_is_of_replicas_that_copy_segments_is_refused_where_none_does(tmp_path: Path, line: str) -> None:
    topology = (Path(__file__).parents[3] / "topologies" / "3az.yaml").read_text()
    file = tmp_path / "x.yaml"

    def says(changed: str) -> str:
        (tmp_path / "ours.yaml").write_text(changed.replace("name: 3az", "name: ours"))
        text = EXPERIMENT.format(lines=f"  - {line}").replace("3az-standby", "./ours.yaml")
        file.write_text(text.replace("phases:", "  visibility: {rate: 2/s}\nphases:"))
        try:
            load_experiment(file)
        except InvalidInput as error:
            return str(error)
        return ""

    assert "no index of the load has any: expected cluster.indices.replication.strategy" in says(topology)
    one = topology.replace("number_of_shards: 3", "number_of_shards: 3, replication.type: SEGMENT")
    every = topology.replace("  node:\n", "  node:\n    cluster.indices.replication.strategy: SEGMENT\n")
    assert says(one) == says(every) == ""
    assert "these indices have none" in says(every.replace("number_of_replicas: 2", "number_of_replicas: 0"))
    back = every.replace("number_of_shards: 3", "number_of_shards: 3, replication.type: DOCUMENT")
    assert "no index of the load has any" in says(back)
    wrong = topology.replace("  index: {", "  cluster: {cluster.indices.replication.strategy: SEGMENT}\n  index: {")
    assert "expected it under settings.node" in says(wrong)
