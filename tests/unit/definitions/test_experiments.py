"""Loading experiments: what is understood, and every way to be wrong with its place and its words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.base.errors import InvalidInput
from chaos.definitions import Experiment, load_topology, writing
from chaos.definitions.actions import Decommission, Recommission, Weights
from chaos.definitions.source import read_value
from chaos.faults.kinds.network import NetworkLatency
from chaos.faults.kinds.node import NodeKill
from chaos.registry import GRAMMAR, load_experiment

# The example of the design, word for word; line 1 is apiVersion.
EXAMPLE = """\
apiVersion: opensearch-chaos/v1
name: zone-network-slowdown
topology: 3az-standby
load:
  read:  {rate: 100/s, good: ok within 100ms}
  write: {rate: 100/s, good: ok within 100ms}
phases:
  healthy:  {for: 30s}
  slow:     {for: 60s, inject: {network.latency: {links: to zone c, delay: 300ms}}}
  failover: {for: 60s, do: {decommission: {zone: c, no_delay: true}}}
  returned: {undo: network.latency, do: {recommission: {zone: c}}, until: {green: true, stable: 20s, within: 180s}}
expect:
  - {phase: all, read.good: ">= 99.9%"}
  - {phase: slow, write.good: "< 10%"}                 # the fault bites
  - {phase: failover, write.regained: "<= 10s"}
  - {phase: [slow, failover], shards.moved: 0}
  - {acknowledged.lost: 0}
guards: {cluster.red: 10s, max: 8m}
"""

HEALTHY = "healthy:  {for: 30s"
LATENCY = "{network.latency: {links: to zone c, delay: 300ms}}"
LEVELS = "more than 100 levels of mappings and lists: expected fewer"
DECOMMISSION = "do: {decommission: {zone: c, no_delay: true}}"
RECOMMISSION = "do: {recommission: {zone: c}}, "
READ = "  read:  {rate: 100/s, good: ok within 100ms}\n"
WRITE = "  write: {rate: 100/s, good: ok within 100ms}\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def changed(*changes: tuple[str, str]) -> str:
    text = EXAMPLE
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def load(text: str) -> Experiment:
    Path("x.yaml").write_text(text)
    return load_experiment("x.yaml")


def says(text: str) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        load(text)
    return str(caught.value).splitlines()


# ------------------------------------------------------------------------------------------ understood


def test_the_design_example() -> None:
    experiment = load(EXAMPLE)
    assert experiment.name == "zone-network-slowdown"
    assert experiment.file == Path("x.yaml")
    assert (experiment.seed, experiment.tags) == (1, ())
    assert experiment.topology.name == "3az-standby"
    assert experiment.client_zones == ("a", "b")
    assert [(op.name, op.rate, op.good_within, op.operation) for op in experiment.load.operations] == [
        ("read", 100.0, 0.1, "search"),
        ("write", 100.0, 0.1, "index"),
    ]
    assert (experiment.load.arrivals, experiment.load.documents) == ("uniform", 2000)
    client = experiment.load.client
    assert (client.kind, client.timeout, client.zones, client.node) == ("load-balancer", 5.0, None, None)

    healthy, slow, failover, returned = experiment.phases
    assert [phase.name for phase in experiment.phases] == ["healthy", "slow", "failover", "returned"]
    assert (healthy.duration, healthy.until, healthy.inject, healthy.do) == (30.0, None, (), ())
    (latency,) = slow.inject
    assert isinstance(latency, NetworkLatency)
    assert latency.kind == "network.latency"
    assert (latency.links.text, latency.delay, latency.jitter) == ("to zone c", 0.3, 0)
    assert latency.describe() == "+300ms on links to zone c"
    (decommission,) = failover.do
    assert isinstance(decommission, Decommission)
    assert (decommission.zone, decommission.no_delay) == ("c", True)
    assert returned.undo == ("network.latency",)
    assert isinstance(returned.do[0], Recommission)
    assert returned.duration is None and returned.until is not None
    assert (returned.until.green, returned.until.stable, returned.until.within) == (True, 20.0, 180.0)

    every = ("healthy", "slow", "failover", "returned")
    assert [(e.op, e.quantity, e.unit, e.phases, e.comparison, e.value, e.text) for e in experiment.expect] == [
        ("read", "good", "percent", every, ">=", 0.999, "read.good >= 99.9%"),
        ("write", "good", "percent", ("slow",), "<", 0.1, "write.good < 10%"),
        ("write", "regained", "duration", ("failover",), "<=", 10.0, "write.regained <= 10s"),
        (None, "shards.moved", "count", ("slow", "failover"), "==", 0.0, "shards.moved = 0"),
        (None, "acknowledged.lost", "count", (), "==", 0.0, "acknowledged.lost = 0"),
    ]
    assert (experiment.guards.cluster_red, experiment.guards.max) == (10.0, 480.0)


def test_the_normal_form_is_json_and_reads_back() -> None:
    experiment = load(EXAMPLE)
    data = json.loads(json.dumps(experiment.to_json()))
    assert data["phases"][1]["inject"] == [
        {"kind": "network.latency", "name": None, "links": "to zone c", "flap": None, "delay": 0.3, "jitter": 0.0}
    ]
    assert GRAMMAR.experiment(data) == experiment
    assert isinstance(GRAMMAR.experiment(data).phases[1].inject[0], NetworkLatency)


def test_steps_keep_the_order_in_which_they_are_written() -> None:
    experiment = load(
        changed(
            (DECOMMISSION, "do: {weights: {a: 0, b: 1, c: 1}, decommission: {zone: a, no_delay: true}}"),
            (LATENCY, "{node.kill: [{target: node c-cm}, {target: node c-data}], network.latency: "
             "{links: to zone c, delay: 1s, jitter: 100ms}}"),
            (RECOMMISSION, "do: {recommission: {zone: a}}, "),
            ("undo: network.latency", "undo: [network.latency, node.kill]"),
        )
    )  # fmt: skip
    assert [step.describe() for step in experiment.phases[1].inject] == [
        "kill node c-cm",
        "kill node c-data",
        "+1s ± 100ms on links to zone c",
    ]
    weights, decommission = experiment.phases[2].do
    assert isinstance(weights, Weights)
    assert weights.weights == {"a": 0, "b": 1, "c": 1}
    assert weights.describe() == "set the zones' weights to a 0, b 1, c 1"
    assert decommission.describe() == "decommission zone a without delay"
    assert GRAMMAR.experiment(experiment.to_json()) == experiment


def test_the_same_kind_twice_is_told_apart_by_target_or_by_name() -> None:
    experiment = load(
        changed(
            (HEALTHY, HEALTHY + ", inject: {network.latency: {links: from zone a to zone c, delay: 1s, name: first}}"),
            (DECOMMISSION, "inject: {network.latency: {links: from zone a to zone b, delay: 1s, name: other}}"),
            (LATENCY, "{network.latency: [{links: from zone b to zone c, delay: 300ms, name: second}, "
             "{links: to zone a, delay: 300ms}]}"),
            (RECOMMISSION, ""),
            ("undo: network.latency", "undo: [other, second, network.latency]"),
        )
    )  # fmt: skip
    assert [fault.label for phase in experiment.phases for fault in phase.inject] == [
        "first",
        "second",
        "network.latency",
        "other",
    ]


def test_anchors_and_merges() -> None:
    experiment = load(
        changed(
            ("read:  {rate", "read: &op {rate"),
            ("write: {rate: 100/s, good: ok within 100ms}", "write: {<<: *op, rate: 6000/min}"),
        )
    )
    assert experiment.load.operation("write") is not None
    assert (experiment.load.operation("write").rate, experiment.load.operation("write").good_within) == (100.0, 0.1)


def test_an_error_inside_an_anchor_is_shown_where_it_is_written() -> None:
    text = changed(
        ("read:  {rate: 100/s", "read: &op {rate: 100"),
        ("write: {rate: 100/s, good: ok within 100ms}", "write: {<<: *op}"),
    )
    assert says(text) == [
        "x.yaml:5:20: rate: 100 has no unit: a rate is a number and /s or /min, for example 100/s or 6000/min"
    ]


def test_the_topology_can_be_replaced() -> None:
    Path("x.yaml").write_text(EXAMPLE)
    assert load_experiment("x.yaml", topology="3az-tuned").topology.name == "3az-tuned"
    tuned = load_topology("3az-tuned")
    assert load_experiment(Path("x.yaml"), topology=tuned).topology is tuned
    with pytest.raises(InvalidInput, match=r"^x\.yaml:10:50: topology 3az sets no weights"):
        load_experiment("x.yaml", topology="3az")
    with pytest.raises(InvalidInput, match=r"^there is no topology nope: looked in "):
        load_experiment("x.yaml", topology="nope")


def test_a_topology_beside_the_experiment_wins_over_those_of_the_package() -> None:
    shipped = Path(load_topology("3az-standby").file or "").read_text()
    Path("3az-standby.yaml").write_text(shipped.replace("384MiB", "512MiB"))
    assert load(EXAMPLE).topology.node("a-data").heap == 512 * 2**20


def test_recovered_is_judged_where_something_is_undone() -> None:
    experiment = load(changed(("acknowledged.lost: 0", 'cluster.recovered: "<= 2m"')))
    assert experiment.expect[-1].phases == ("returned",)


def test_steps_of_recovery_are_judged_where_something_is_commanded() -> None:
    experiment = load(changed(("acknowledged.lost: 0", 'recovery.node_left: "<= 10s"')))
    assert experiment.expect[-1].phases == ("slow", "failover", "returned")
    assert experiment.expect[-1].op is None and experiment.expect[-1].unit == "duration"


def test_stated_rates_are_times_a_year_and_none_are_none() -> None:
    assert load(EXAMPLE).rates == {}
    experiment = load(changed(("guards:", "rates: {network.latency: 1/month}\nguards:")))
    assert experiment.rates == {"network.latency": 12.0}
    assert GRAMMAR.experiment(experiment.to_json()).rates == experiment.rates
    assert "rates: {network.latency: 12/year}" in writing.experiment(experiment, "3az-standby")


def test_availability_by_slice_user_and_window_are_percentages() -> None:
    metrics = '{phase: slow, read.slices: ">= 99%"}\n  - {phase: slow, read.uptime: ">= 99%"}'
    metrics += '\n  - {phase: slow, read.worst_10s: ">= 50%"}'
    found = load(changed(("{acknowledged.lost: 0}", metrics))).expect[-3:]
    assert [(each.quantity, each.value) for each in found] == [("slices", 0.99), ("uptime", 0.99), ("worst_10s", 0.5)]


def test_holds() -> None:
    good, bites, regained, moved, _ = load(EXAMPLE).expect
    assert good.holds(0.999) and not good.holds(0.9989)
    assert bites.holds(0.0999) and not bites.holds(0.1)
    assert regained.holds(10) and not regained.holds(10.001)
    assert moved.holds(0) and not moved.holds(1)
    assert not any(expectation.holds(float("nan")) for expectation in (good, bites, regained, moved))


def test_a_step_can_be_made_in_python() -> None:
    assert NodeKill(target="role data and zone b").describe() == "kill zone b and role data"  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------------------- wrong

DURATION = "a duration is a number and ms, s, m or h, for example 300ms or 20s or 8m"
RATE = "a rate is a number and /s or /min, for example 100/s or 6000/min"

BULK = "rate: 100/s, good: ok within 100ms, operation: bulk, items: 9"
BY_LIBRARY = [("phases:", "  client: {kind: opensearch-py}\nphases:")]

SHAPE = {
    "no unit": ([("60s, inj", "60, inj")], [f"9:19: for: 60 has no unit: {DURATION}"]),
    "unknown key": ([(HEALTHY, "healthy:  {fro: 30s")], ['8:14: unknown key "fro": did you mean "for"?']),
    "unknown fault": (
        [("network.latency: {", "network.latncy: {")],
        ['9:33: unknown key "network.latncy": did you mean "network.latency"?'],
    ),
    "a fault as an action": (
        [(HEALTHY, "healthy:  {for: 30s, do: {restart: {target: role data}}")],
        ['8:29: unknown key "restart": node.restart is a fault, which is proven: expected it under inject'],
    ),
    "an action as a fault": (
        [(HEALTHY, "healthy:  {for: 30s, inject: {reroute: {}}")],
        ['8:33: unknown key "reroute": reroute is an action: expected it under do'],
    ),
    "unknown parameter": (
        [("delay: 300ms", "delay: 300ms, to: c")],
        ['9:83: unknown key "to": expected one of name, as, links, flap, delay, jitter'],
    ),
    "missing key": (
        [("name: zone-network-slowdown\n", "")],
        [
            '1:1: "name" is missing: expected small letters, digits and dashes, '
            "for example zone-network-slowdown"
        ],
    ),
    "missing parameter": (
        [("links: to zone c, ", "")],
        ["9:50: \"links\" is missing: expected which directed links, for example 'to zone c'"],
    ),
    "no value": (
        [("healthy:  {for: 30s}", "healthy:")],
        ['8:3: "healthy" has no value: expected one, or the key left out'],
    ),
    "wrong rate": (
        [("read:  {rate: 100/s", "read:  {rate: fast")],
        [f"5:17: rate: cannot read 'fast': {RATE}"],
    ),
    "nothing": ([(HEALTHY, "healthy:  {for: 0s")], ["8:19: for: 0s is nothing: expected more than zero"]),
    "good": (
        [("{rate: 100/s, good: ok within 100ms}\n  write", "{rate: 100/s, good: within 100ms}\n  write")],
        [
            "5:30: good: cannot read 'within 100ms': "
            "expected 'ok within' and a duration, for example 'ok within 100ms'"
        ],
    ),
    "both ends": (
        [(HEALTHY, HEALTHY + ", until: {green: true, within: 3s}")],
        [
            "8:13: healthy: a phase ends by time, by a condition, or when something else is over: expected one of for, "
            "until and during, got for and until"
        ],
    ),
    "no end": (
        [(HEALTHY, "healthy:  {scripted_wait: true")],
        [
            "8:13: healthy: a phase ends by time, by a condition, or when something else is over: expected one of for, "
            "until and during, got none"
        ],
    ),
    "not a mapping": ([("{for: 30s}", "3")], ["8:13: healthy: expected a mapping, got 3"]),
    "not a list": (
        [(HEALTHY, HEALTHY + ", inject: [1]")],
        ["8:32: inject: expected a mapping, got a list"],
    ),
    "nothing injected": (
        [(HEALTHY, HEALTHY + ", inject: {}")],
        ["8:32: inject: nothing is named here: expected at least one kind, or leave the key out"],
    ),
    "not a boolean": (
        [(HEALTHY, HEALTHY + ", scripted_wait: yes")],
        ["8:39: scripted_wait: expected true or false, got 'yes'"],
    ),
    "green false": ([("green: true", "green: false")], ["11:83: green: expected true, got false"]),
    "never stable": (
        [("stable: 20s", "stable: 200s")],
        ["11:75: until: stable 200s cannot be seen within 3m: expected a deadline that is longer"],
    ),
    "bad name": (
        [("name: zone-network-slowdown", "name: Zone Slowdown")],
        ["2:7: name: expected small letters, digits, dashes, dots and underscores, got 'Zone Slowdown'"],
    ),
    "name is a number": (
        [("name: zone-network-slowdown", "name: 3")],
        ["2:7: name: expected text, got 3 (put it in quotes)"],
    ),
    "bad phase name": (
        [("healthy: ", "Healthy: ")],
        ["8:3: Healthy: expected small letters, digits, dashes and underscores, a letter first, got 'Healthy'"],
    ),
    "version": (
        [("opensearch-chaos/v1", "opensearch-chaos/v2")],
        ["1:13: apiVersion: expected opensearch-chaos/v1, got 'opensearch-chaos/v2'"],
    ),
    "seed": ([("load:\n", "seed: 1.5\nload:\n")], ["4:7: seed: expected a whole number, got 1.5"]),
    "unknown metric": ([("read.good:", "read.god:")], ['13:18: unknown key "read.god": did you mean "read.good"?']),
    "unit of a percentage": (
        [(">= 99.9%", "<= 10s")],
        [
            "13:29: read.good: cannot compare with '10s': expected a percentage with a comparison, "
            "for example \">= 99.9%\" (unknown unit 's' in '10s': a percentage is a number and %, for example 99.9%)"
        ],
    ),
    "unit of a duration": (
        [('"<= 10s"', '"<= 10%"')],
        [
            "15:39: write.regained: cannot compare with '10%': expected a duration with a comparison, "
            f"for example \"<= 10s\" (unknown unit '%' in '10%': {DURATION})"
        ],
    ),
    "unit of a count": (
        [("acknowledged.lost: 0", 'acknowledged.lost: "<= 1%"')],
        [
            "17:25: acknowledged.lost: cannot compare with '1%': expected a count with a comparison, "
            'for example 0 or "<= 3" (a count is a whole number without a unit)'
        ],
    ),
    "no comparison": (
        [('">= 99.9%"', '"99.9%"')],
        [
            "13:29: read.good: '99.9%' has no comparison: "
            'expected a percentage with a comparison, for example ">= 99.9%"'
        ],
    ),
    "phase of the whole run": (
        [("acknowledged.lost: 0", "acknowledged.lost: 0, phase: slow")],
        ["17:5: expect: acknowledged.lost is of the whole run: expected no phase"],
    ),
    "a bulk of one document": (
        [(WRITE, "  write: {rate: 100/s, good: ok within 100ms, operation: bulk, items: 1}\n")],
        ["6:71: items: expected 2 or more, got 1"],
    ),
    "two operations less": (
        [("  read:  {rate: 100/s, good: ok within 100ms}\n", ""), (WRITE, "  documents: 3\n")],
        ["5:3: load: a load without operations: expected read, write or both, or streams"],
    ),
    "pinned to nothing": (
        [("phases:", "  client: {kind: pinned}\nphases:")],
        ["7:11: client: a pinned client talks to one node: expected node, for example a-data"],
    ),
    "a node for all": (
        [("phases:", "  client: {node: a-data}\nphases:")],
        ["7:11: client: only a pinned client has a node, and this one is a load-balancer"],
    ),
    "health checks of what has none": (
        [("phases:", "  client: {kind: pinned, node: a-data, verify_health_checks: false}\nphases:")],
        ["7:11: client: only a load balancer has health checks, and this one is pinned"],
    ),
    "delay for nothing": (
        [("no_delay: true", "no_delay: true, delay_timeout: 3s")],
        [
            "10:43: decommission: no_delay and delay_timeout exclude each other: OpenSearch answers 400 to both"
        ],
    ),
    "jitter": (
        [("delay: 300ms", "delay: 300ms, jitter: 1s")],
        [
            "9:50: network.latency: jitter 1s is more than the delay 300ms: a delay cannot become negative"
        ],
    ),
    "selector": (
        [("links: to zone c", "links: to the zone c")],
        [
            "9:58: links: cannot read 'the zone c' as a choice of nodes: expected nodes, for example 'zone c' "
            "or 'role data and zone b', or 'clients', 'clients of zone c', 'everything in zone c' or 'service store'"
        ],
    ),
    "a helper that there is none of": (
        [(WRITE, f"  write: {{{BULK}, client: {{kind: helpers.bulky}}}}\n")],
        ["6:89: kind: expected helpers.async_bulk, helpers.bulk or helpers.streaming_bulk, got 'helpers.bulky'"],
    ),
    "a helper's waits that shrink": (
        [(WRITE, f"  write: {{{BULK}, client: {{kind: helpers.bulk, max_backoff: 1s}}}}\n")],
        ["6:82: client: max_backoff 1s is less than initial_backoff 2s: expected as much or more"],
    ),
    "inside a list of faults": (
        [(LATENCY, "{node.kill: [{target: zone c}, {trget: 3}]}")],
        [
            "9:63: \"target\" is missing: expected which nodes, for example 'node c-data'",
            '9:64: unknown key "trget": did you mean "target"?',
        ],
    ),
    "several at once, in the file's order": (
        [
            ("cluster.red: 10s, max: 8m", "cluster.red: 10, mx: 8m"),
            ("for: 30s", "for: soon"),
            ("topology: 3az-standby", "topology: 4az"),
        ],
        [
            "3:11: there is no topology 4az: looked in ",
            f"8:19: for: cannot read 'soon': {DURATION}",
            f"18:23: cluster.red: 10 has no unit: {DURATION}",
            '18:27: unknown key "mx": did you mean "max"?',
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SHAPE)
def test_a_wrong_shape(case: str) -> None:
    changes, expected = SHAPE[case]
    found = says(changed(*changes))
    assert len(found) == len(expected), found
    for line, wanted in zip(found, expected, strict=True):
        if wanted.endswith("looked in "):
            assert line.startswith(f"x.yaml:{wanted}")
        else:
            assert line == f"x.yaml:{wanted}"


MEANING = {
    "a bulk of unknown size": (
        [(WRITE, "  write: {rate: 100/s, good: ok within 100ms, operation: bulk}\n")],
        ["6:3: a bulk has several documents: expected items, the number in each, for example items: 500"],
    ),
    "single writes of several documents": (
        [(WRITE, "  write: {rate: 100/s, good: ok within 100ms, items: 5}\n")],
        [
            "6:54: requests of the kind index write one document each: "
            "expected operation: bulk beside it, or no items"
        ],
    ),
    "ids of single writes": (
        [(WRITE, "  write: {rate: 100/s, good: ok within 100ms, ids: automatic}\n")],
        ["6:52: only bulks may leave ids to OpenSearch: expected operation: bulk, or no ids"],
    ),
    "changes by single writes": (
        [(WRITE, "  write: {rate: 100/s, good: ok within 100ms, actions: {create: 8, delete: 1}}\n")],
        ["6:56: only the items of bulks update and delete: expected operation: bulk, or no actions"],
    ),
    "changes of documents whose ids are OpenSearch's": (
        [
            (
                WRITE,
                "  write: {rate: 100/s, good: ok within 1s, operation: bulk, items: 5, ids: automatic, "
                "actions: {update: 1}}\n",
            )
        ],
        ["6:96: an item changes a document by its id, which only OpenSearch knows: expected no actions, or no ids"],
    ),
    "actions that change nothing": (
        [(WRITE, "  write: {rate: 100/s, good: ok within 1s, operation: bulk, items: 5, actions: {create: 8}}\n")],
        [
            "6:80: actions: actions that only create are what bulks do anyway: "
            "expected update or delete, or no actions"
        ],
    ),
    "pages of a search": (
        [(READ, "  read:  {rate: 100/s, good: ok within 100ms, pages: 5, size: 10}\n")],
        [
            "5:54: only a scroll or a point-in-time goes through pages: "
            "expected one of these as operation, or no pages"
        ],
    ),
    "a scroll without pages": (
        [(READ, "  read:  {rate: 100/s, good: ok within 100ms, operation: scroll, size: 10}\n")],
        ["5:3: a scroll goes through pages: expected pages and size, for example pages: 20, size: 100"],
    ),
    "more pages than can be remembered": (
        [(READ, "  read:  {rate: 9/s, good: ok within 1s, operation: point-in-time, pages: 900, size: 1000}\n")],
        ["5:75: 900 pages of 1000: expected 50000 documents a read at most"],
    ),
    "a scroll that updates": (
        [
            (
                READ,
                "  read:  {rate: 9/s, good: ok within 1s, operation: scroll, pages: 2, size: 10, "
                "actions: {update: 1}}\n",
            )
        ],
        ["5:90: only the items of bulks update and delete: expected operation: bulk, or no actions"],
    ),
    "a scroll by a helper of bulks": (
        [
            (
                READ,
                "  read:  {rate: 9/s, good: ok within 1s, operation: scroll, pages: 2, size: 10, "
                "client: {kind: helpers.bulk}}\n",
            ),
            *BY_LIBRARY,
        ],
        [
            "5:81: helpers.bulk sends bulks: expected operation: bulk and items, for example items: 500, "
            "or no client here"
        ],
    ),
    "searches in one request that has one": (
        [(READ, "  read:  {rate: 100/s, good: ok within 100ms, searches: 5}\n")],
        ["5:57: only an msearch has several searches: expected operation: msearch beside it, or no searches"],
    ),
    "an msearch without their number": (
        [(READ, "  read:  {rate: 100/s, good: ok within 100ms, operation: msearch}\n")],
        ["5:3: an msearch has several searches: expected searches, the number in each, for example searches: 5"],
    ),
    "a retry of single writes": (
        [(WRITE, "  write: {rate: 100/s, good: ok within 100ms, retry: {times: 3}}\n")],
        ["6:54: what is sent again is what was rejected of a bulk: expected operation: bulk, or no retry"],
    ),
    "a helper of single writes": (
        [(WRITE, "  write: {rate: 100/s, good: ok within 100ms, client: {kind: helpers.bulk}}\n"), *BY_LIBRARY],
        [
            "6:47: helpers.bulk sends bulks: expected operation: bulk and items, for example items: 500, "
            "or no client here"
        ],
    ),
    "a helper that sends again, beside a retry": (
        [
            (WRITE, f"  write: {{{BULK}, retry: {{times: 3}}, client: {{kind: helpers.bulk}}}}\n"),
            *BY_LIBRARY,
        ],
        ["6:74: helpers.bulk sends again by itself: expected max_retries in client, and no retry here"],
    ),
    "a helper that cannot stand behind a balancer": (
        [(WRITE, f"  write: {{{BULK}, client: {{kind: helpers.async_bulk}}}}\n")],
        [
            "6:74: helpers.async_bulk cannot run on a client of the kind load-balancer: "
            "expected load: {client: {kind: opensearch-py or pinned}}"
        ],
    ),
    "what a helper tells, without one": (
        [("  - {acknowledged.lost: 0}\n", "  - {documents.lost_untold: 0}\n")],
        [
            "17:6: documents.lost_untold is about what a helper of a client library tells, and no stream has one: "
            "expected client in a stream of bulks, for example {kind: helpers.bulk}"
        ],
    ),
    "reads of several documents": (
        [("100/s, good: ok within 100ms}\n  write", "100/s, good: ok within 100ms, items: 5}\n  write")],
        ["5:54: requests of the kind search write one document each: expected no items"],
    ),
    "documents without a writer": (
        [
            (WRITE, ""),
            ('write.good: "< 10%"} ', 'documents.acknowledged: ">= 99%"} '),
            ("write.regained", "read.regained"),
            ("  - {acknowledged.lost: 0}\n", ""),
        ],
        [
            "13:19: documents.acknowledged is about documents that the load writes, and it writes none: "
            "expected an operation that writes in load"
        ],
    ),
    "first writes of bulks": (
        [
            (WRITE, "  write: {rate: 100/s, good: ok within 100ms, operation: bulk, items: 9}\n"),
            ("write.regained", "recovery.first_writes"),
        ],
        [
            "15:23: recovery.first_writes is of requests that write one document each, for a bulk goes to all shards "
            "at once: expected documents.acknowledged, or no operation: bulk"
        ],
    ),
    "unknown phase": ([("phase: all", "phase: slwo")], ['13:13: there is no phase "slwo": did you mean "slow"?']),
    "unknown phase in a list": (
        [("phase: [slow, failover]", "phase: [slow, dark]")],
        ['16:20: there is no phase "dark": expected one of healthy, slow, failover, returned, all'],
    ),
    "operation without load": (
        [(WRITE, "")],
        [
            f"{line}: write.{metric} needs a write load, and there is none: "
            "expected load.write, or a metric of read"
            for line, metric in (("13:19", "good"), ("14:23", "regained"))
        ]
        + [
            "16:6: acknowledged.lost is about documents that the load writes, and it writes none: "
            "expected an operation that writes in load"
        ],
    ),
    "the same twice": (
        [("{acknowledged.lost: 0}", '{phase: slow, read.good: ">= 99.9%"}')],
        ["17:5: read.good >= 99.9% in phase slow is already expectation 1: expected it once"],
    ),
    "recovered without undo": (
        [("{acknowledged.lost: 0}", '{phase: slow, cluster.recovered: "<= 2m"}')],
        [
            "17:13: cluster.recovered counts from a phase's undo, and phase slow undoes nothing: "
            "expected a phase with undo"
        ],
    ),
    "recovered with no undo at all": (
        [("{acknowledged.lost: 0}", '{cluster.recovered: "<= 2m"}'), ("undo: network.latency, ", "")],
        [
            "17:5: cluster.recovered counts from a phase's undo, and no phase undoes anything: "
            "expected a phase with undo"
        ],
    ),
    "a step of recovery where nothing is commanded": (
        [("{acknowledged.lost: 0}", '{phase: [slow, healthy], recovery.node_left: "<= 10s"}')],
        [
            "17:5: recovery.node_left counts from a phase's first command, and phase healthy commands nothing: "
            "expected a phase with inject, undo, do or during"
        ],
    ),
    "first writes without writes": (
        [
            (WRITE, ""),
            ("{phase: slow, write.good: \"< 10%\"} ", '{phase: slow, read.p50: "> 10ms"} '),
            ("write.regained", "read.regained"),
            ("{acknowledged.lost: 0}", '{phase: slow, recovery.first_writes: "<= 10s"}'),
        ],
        ["16:19: recovery.first_writes needs a write load, and there is none: expected load.write"],
    ),
    "a rate of what is not injected": (
        [("guards:", "rates: {network.latncy: 2/year}\nguards:")],
        ['18:9: no phase injects network.latncy: did you mean "network.latency"?'],
    ),
    "two rates of one event": (
        [
            (LATENCY, "{network.latency: {links: to zone c, delay: 1s}, node.kill: {target: node a-cm}}"),
            ("undo: network.latency", "undo: all"),
            ("guards:", "rates: {network.latency: 2/year, node.kill: 1/month}\nguards:"),
        ],
        [
            "18:34: network.latency and node.kill begin together in phase slow, so they are one event: "
            "expected one rate"
        ],
    ),
    "undo of another kind": (
        [("undo: network.latency", "undo: network.drop")],
        ["11:20: network.drop is not active in phase returned: active here: network.latency"],
    ),
    "undo of nothing": (
        [("undo: network.latency", "undo: [network.latency, all]")],
        ["11:38: there is nothing to undo in phase returned: no fault is active here"],
    ),
    "undo before inject": (
        [(HEALTHY, HEALTHY + ", undo: network.latency")],
        ["8:30: network.latency is not active in phase healthy: no fault is active here"],
    ),
    "twice on the same": (
        [
            (DECOMMISSION, "inject: {network.latency: {links: to role data and zone c, delay: 1s}}"),
            ("links: to zone c", "links: to node c-data"),
            (RECOMMISSION, ""),
        ],
        [
            "10:50: network.latency is still active on the link a-cm → c-data and 4 more: expected it undone first"
        ],
    ),
    "twice at once": (
        [(LATENCY, "{node.kill: [{target: zone c}, {target: zone c}]}"), ("undo: network.latency", "undo: all")],
        ["9:63: node.kill is still active on the process of c-cm and 1 more: expected it undone first"],
    ),
    "a name that is taken": (
        [
            (LATENCY, "{node.kill: [{target: node a-cm, name: x}, {target: node b-cm, name: x}]}"),
            ("undo: network.latency", "undo: all"),
        ],
        ['9:101: the name "x" is taken by a fault that is still active'],
    ),
    "a name that means something": (
        [("delay: 300ms", "delay: 300ms, name: all")],
        ['9:89: the name "all" already means something to undo'],
    ),
    "no such zone": (
        [("links: to zone c", "links: to zone d")],
        ["9:58: zone d is not in topology 3az-standby: expected one of a, b, c"],
    ),
    "no such zone with everything in it": (
        [("links: to zone c", "links: around everything in zone d")],
        ["9:58: zone d is not in topology 3az-standby: expected one of a, b, c"],
    ),
    "no such node": (
        [("links: to zone c", "links: to node c-dta")],
        ['9:58: node c-dta is not in topology 3az-standby: did you mean "c-data"?'],
    ),
    "no such role": (
        [("links: to zone c", "links: to role search")],
        ["9:58: no node of topology 3az-standby has role search: expected one of cluster_manager, data, ingest"],
    ),
    "no such group": (
        [("links: to zone c", "links: to group dta")],
        ['9:58: no node of topology 3az-standby has group dta: did you mean "data"?'],
    ),
    "no node": (
        [("links: to zone c", "links: to zone c and node a-data")],
        ["9:58: 'zone c and node a-data' matches no node of topology 3az-standby"],
    ),
    "too few to draw from": (
        [("links: to zone c", "links: around 4 of role data")],
        ["9:58: '4 of role data' matches only 3 of topology 3az-standby: a-data, b-data, c-data"],
    ),
    "no link": (
        [("links: to zone c", "links: from node a-cm to node a-cm")],
        [
            "9:58: 'from node a-cm to node a-cm' matches no link of topology 3az-standby: "
            "expected hosts at both ends"
        ],
    ),
    "decommission of an active zone": (
        [("decommission: {zone: c", "decommission: {zone: b"), ("recommission: {zone: c", "recommission: {zone: b")],
        [
            "10:50: the weight of zone b is 1 here, and OpenSearch decommissions only a zone whose weight is 0: "
            "expected a weights action before that sets it to 0"
        ],
    ),
    "decommission of no zone": (
        [("decommission: {zone: c", "decommission: {zone: d"), (RECOMMISSION, "")],
        ["10:50: zone d is not in topology 3az-standby: expected one of a, b, c"],
    ),
    "two decommissions": (
        [(RECOMMISSION, ""), (HEALTHY, HEALTHY + ", do: {decommission: {zone: c}}")],
        [
            "10:50: zone c is already decommissioned here: "
            "OpenSearch takes one at a time, so expected a recommission before"
        ],
    ),
    "recommission of nothing": (
        [(DECOMMISSION, "scripted_wait: true")],
        ["11:63: zone c is not decommissioned here (no zone is): expected a decommission of it before"],
    ),
    "recommission of another": (
        [("recommission: {zone: c", "recommission: {zone: b")],
        ["11:63: zone b is not decommissioned here (zone c is): expected a decommission of it before"],
    ),
    "weights of a decommissioned zone": (
        [(DECOMMISSION, "do: {decommission: {zone: c}, weights: {a: 0, b: 1, c: 1}}")],
        [
            "10:79: zone c is decommissioned here, and OpenSearch keeps its weight at 0: "
            "expected a recommission before"
        ],
    ),
    "too many zeros": (
        [(HEALTHY, HEALTHY + ", do: {weights: {a: 1, b: 0, c: 0}}")],
        ["8:38: 2 of 3 zones have weight 0 (b, c): OpenSearch allows at most 1"],
    ),
    "a weight too few": (
        [(HEALTHY, HEALTHY + ", do: {weights: {a: 1, c: 0}}")],
        [
            "8:38: no weight for zone b: expected one for every zone that has data nodes or is a value of "
            "forced awareness, as OpenSearch wants it"
        ],
    ),
    "later than clients wait": (
        [(READ, READ.replace("100ms", "8s"))],
        [
            "5:30: nothing can be good after 8s: clients wait 5s for an answer. Expected at most 5s, or "
            "load.client.timeout of 8s or more"
        ],
    ),
    "later than clients wait four times": (
        [(READ, READ.replace("100ms", "21s")), ("phases:", "  client: {kind: opensearch-py}\nphases:")],
        [
            "5:30: nothing can be good after 21s: clients wait 5s 4 times for an answer. Expected at most 20s, or "
            "load.client.timeout of 5.25s or more"
        ],
    ),
    "zones of clients": (
        [("phases:", "  client: {kind: pinned, node: a-dtaa, zones: [a, q]}\nphases:")],
        [
            '7:32: node a-dtaa is not in topology 3az-standby: did you mean "a-data"?',
            "7:51: zone q is not in topology 3az-standby: expected one of a, b, c",
        ],
    ),
    "zones named twice": (
        [("phases:", "  client: {zones: [a, b, a]}\nphases:"), ("guards:", "controller: {zones: [a, a]}\nguards:")],
        [
            "7:26: zone a is named twice: expected each once",
            "19:25: zone a is named twice: expected each once",
        ],
    ),
    "certificates where there are none": (
        [("phases:", "  client: {verify_health_checks: false}\nphases:")],
        ["7:34: topology 3az-standby has no certificates: expected security there, or this left out"],
    ),
    "no weights in the topology": (
        [("3az-standby", "3az")],
        [
            "10:50: topology 3az sets no weights, and OpenSearch decommissions only a zone whose weight is 0: "
            "expected standby or weights there, or a weights action before that sets it to 0"
        ],
    ),
    "a guard that would always trip": (
        [("max: 8m", "max: 2m")],
        ["18:33: the phases with `for` take 150s, and guards.max ends the run after 2m: expected more than 150s"],
    ),
    "a floor for what the load does not do": (
        [("max: 8m", "max: 8m, get.good: {below: 50%, for: 10s}")],
        ['18:37: unknown key "get.good": did you mean "read.good"?'],
    ),
    "a floor that nothing is below": (
        [("max: 8m", "max: 8m, read.good: {below: 0%, for: 10s}")],
        ["18:48: read.good: nothing is below 0%: expected more, for example 50%"],
    ),
    "a command that is a shell's line": (
        [("max: 8m", "max: 8m, command: {run: 'curl x | grep y'}")],
        ["18:52: run: expected a list, got 'curl x | grep y'"],
    ),
    "the default guard": (
        [(", max: 8m", ""), ("for: 30s", "for: 30m")],
        ["8:3: the phases with `for` take 32m, and guards.max ends the run after 15m: expected more than 32m"],
    ),
    "tags that pytest acts on": (
        [("topology: 3az", "tags: [smoke, xfail, skip]\ntopology: 3az")],
        [
            "3:15: the tag xfail is a mark that pytest acts on: expected another word",
            "3:22: the tag skip is a mark that pytest acts on: expected another word",
        ],
    ),
    "a phase named all": (
        [("healthy: ", "all: ")],
        ['8:3: a phase cannot be named "all", which means every phase'],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MEANING)
def test_a_contradiction(case: str) -> None:
    changes, expected = MEANING[case]
    assert says(changed(*changes)) == [f"x.yaml:{line}" for line in expected]


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        (
            "acknowledged.lost: 0",
            "acknowledged.lost: 0, shards.moved: 0",
            "got 2: shards.moved, acknowledged.lost",
        ),
        ("acknowledged.lost: 0", "phase: slow", "got none"),
    ],
)
def test_exactly_one_metric(old: str, new: str, count: str) -> None:
    (line,) = says(changed((old, new)))
    assert line.startswith(f"x.yaml:17:5: expect: expected exactly one metric, {count}; the metrics are read.good, ")


def test_a_missing_topology_says_where_it_looked_and_which_there_are() -> None:
    Path("topologies").mkdir()
    Path("topologies/mine.yaml").write_text("kind: topology\n")
    (line,) = says(changed(("3az-standby", "3az-stanby")))
    assert line.startswith("x.yaml:3:11: there is no topology 3az-stanby: looked in ., ")
    assert "topologies, " in line
    known = line.partition("; there are ")[2].partition(";")[0].split(", ")
    assert {"2az", "3az", "3az-standby", "mine"} <= set(known)
    assert known == sorted(known)
    assert line.endswith('; did you mean "3az-standby"?')


def test_a_missing_topology_file() -> None:
    assert says(changed(("3az-standby", "../nope.yaml"))) == [
        "x.yaml:3:11: there is no topology file ../nope.yaml: looked at ../nope.yaml"
    ]


def test_a_home_that_there_is_not_and_a_name_that_no_file_can_have() -> None:
    assert says(changed(("3az-standby", "~oops/3az.yaml"))) == [
        "x.yaml:3:11: there is no topology file ~oops/3az.yaml: looked at ~oops/3az.yaml"
    ]
    long = "t" * 300
    (line,) = says(changed(("3az-standby", long)))
    assert line.startswith(f"x.yaml:3:11: there is no topology {long}: looked in ")
    for workload, expected in {
        "~nosuch/x.yaml": "~nosuch/x.yaml: there is no such file, nor a folder ~nosuch",
        f"{long}.yaml": f"{long}.yaml: cannot be read: File name too long",
        '"x\\0.yaml"': "no file can have this name, and a YAML file was expected",
    }.items():
        (line,) = says(changed(("  read:", f"  workload: {workload}\n  read:")))
        assert expected in line


def test_a_wrong_topology_is_reported_with_the_experiments_own_errors() -> None:
    Path("t.yaml").write_text("kind: topology\nzones: 3\n")
    found = says(changed(("3az-standby", "t.yaml"), ("for: 30s", "for: 30")))
    assert found[0] == f"x.yaml:8:19: for: 30 has no unit: {DURATION}"
    assert "t.yaml:2:8: zones: expected a list, got 3" in found


VERSION = "gives values another meaning: expected YAML 1.2, or no such line"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1:1: the file is empty, and a mapping of keys was expected"),
        ("# nothing\n", "1:1: the file is empty, and a mapping of keys was expected"),
        ("[1]", "1:1: this is a list, and a mapping of keys was expected"),
        ("hello", "1:1: this is a single value, and a mapping of keys was expected"),
        (
            "a: [",
            "1:5: not YAML: while parsing a flow node: expected the node content, but found '<stream end>'; "
            "well-formed YAML was expected",
        ),
        (
            "a:\n\tb: 1",
            "2:1: not YAML: while scanning for the next token: found character '\\t' that cannot start any token; "
            "indentation with spaces was expected",
        ),
        (
            "a: {b: >= 3%}",
            "1:8: not YAML: while scanning for the next token: found character '>' that cannot start any token; "
            'a comparison was perhaps meant: put it in quotes, as in ">= 99.9%"',
        ),
        ("a: *b", "1:4: not YAML: found undefined alias 'b'; well-formed YAML was expected"),
        ("name: &a {b: *a}", "1:7: this anchor contains itself, and a value that ends was expected"),
        (
            "a: 1\n---\nb: 1\n",
            "2:1: not YAML: expected a single document in the stream: but found another document; "
            "well-formed YAML was expected",
        ),
        ("a: 1\nb: 2\na: 3\n", '3:1: the key "a" is already in line 1, and each may stand once'),
        ("1: 2", "1:1: the key 1 is not text, and a name was expected (put it in quotes)"),
        ("a: !!foo 3", "1:4: the tag !!foo means nothing here, and plain YAML was expected"),
        ("<<: 3", "1:5: << takes in a single value, and a mapping was expected"),
        ("kind: topology", "1:7: this file is of kind topology, and of kind experiment was expected"),
        ("a: !!int abc", "1:4: cannot read 'abc' as a whole number: expected one, or text in quotes"),
        ("a: !!int ''", "1:4: cannot read '' as a whole number: expected one, or text in quotes"),
        ("a: 0x_", "1:4: cannot read '0x_' as a whole number: expected one, or text in quotes"),
        ("a: -_", "1:4: cannot read '-_' as a whole number: expected one, or text in quotes"),
        ("a: ._", "1:4: cannot read '._' as a number: expected one, or text in quotes"),
        ("a: !!bool maybe", "1:4: cannot read 'maybe' as true or false: expected one, or text in quotes"),
        (f"a: {'9' * 5000}", f"1:4: cannot read '{'9' * 40}…' as a whole number: expected one, or text in quotes"),
        ("%YAML 1.1\n---\na: 010\n", f"1:1: %YAML 1.1 {VERSION}"),
        ("# yes is true there\n\n%YAML 1.1\n--- {a: yes}\n", f"3:1: %YAML 1.1 {VERSION}"),
        ("%YAML 1.3\n--- {a: 1}\n", f"1:1: %YAML 1.3 {VERSION}"),
        ("%TAG ! tag:example.com,2026:\n%YAML 1.1 # old\n--- {a: 1}\n", f"2:1: %YAML 1.1 {VERSION}"),
        (f"a: {'[' * 99}1{']' * 99}\nb: {'[' * 100}1{']' * 100}", f"2:103: {LEVELS}"),
        (f"a: {'[' * 2000}{']' * 2000}", f"1:103: {LEVELS}"),
        (
            "\n".join(["m0: &a0 {a: 1}", *(f"m{n}: &a{n} {{<<: *a{n - 1}}}" for n in range(1, 100))]),
            f"1:5: {LEVELS}",
        ),
    ],
    ids=lambda text: text[:40],
)
def test_what_is_no_mapping_of_keys(text: str, expected: str) -> None:
    assert says(text) == [f"x.yaml:{expected}"]


def test_a_file_may_say_that_it_is_of_the_yaml_as_which_it_is_read() -> None:
    assert load(f"%YAML 1.2\n---\n{EXAMPLE}").name == load(EXAMPLE).name
    with pytest.raises(InvalidInput, match=f"^%YAML 1.1 {VERSION}$"):
        read_value("%YAML 1.1\n--- 010")


def test_a_list_whose_only_line_is_wrong_is_not_called_too_short() -> None:
    only = changed(*((line, "") for line in EXAMPLE.splitlines(keepends=True) if line.startswith("  - {phase")))
    assert says(only.replace("acknowledged.lost", "acknowledged.lots")) == [
        'x.yaml:13:6: unknown key "acknowledged.lots": did you mean "acknowledged.lost"?'
    ]
    assert says(only.replace("  - {acknowledged.lost: 0}\n", "").replace("expect:", "expect: []")) == [
        "x.yaml:12:9: expect: expected at least 1, got nothing"
    ]


def test_every_duplicate_and_every_empty_key_is_named_at_once() -> None:
    assert says("a: 1\na: 2\nb:\nc: {d: 1, d: 2}\n") == [
        'x.yaml:2:1: the key "a" is already in line 1, and each may stand once',
        'x.yaml:3:1: "b" has no value: expected one, or the key left out',
        'x.yaml:4:11: the key "d" is already in line 4, and each may stand once',
    ]


def test_what_is_no_file() -> None:
    Path("x.yaml").write_bytes(b"\xff\xfe\x00a")
    Path("folder").mkdir()
    for path, expected in {
        "x.yaml": "x.yaml: not UTF-8 text (byte 0), and a YAML file was expected",
        "y.yaml": "y.yaml: there is no such file; in . there is x.yaml",
        "xx.yaml": "xx.yaml: there is no such file; did you mean x.yaml?",
        "nowhere/y.yaml": "nowhere/y.yaml: there is no such file, nor a folder nowhere",
        "folder": "folder: this is a folder, and a YAML file was expected",
    }.items():
        with pytest.raises(InvalidInput) as caught:
            load_experiment(path)
        assert str(caught.value) == expected
