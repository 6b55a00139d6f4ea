"""Negative controls: for every kind of expectation a history that passes, changed so that it must fail, or stay open.

One made-up run (``sound``) keeps every promise, and a real one is stored in ``data/zone-network-slowdown``. Each
mutation is the smallest change of the record that a broken cluster would have made; it must turn exactly that finding
into a weakness. Each loss of evidence must leave it open, and never a pass. docs/controls.md lists the other controls.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import synthetic
from apart import examples, some
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import Mutation, S, Stored, counts, verdicts
from screens import in_headline
from synthetic import READBACK, Chapter, Compared, Probed, Story, mixed

from chaos.base.errors import Exit, HistoryError
from chaos.base.operations import names
from chaos.checks import Findings, catalogue, evaluate, instruments
from chaos.checks import Outcome as Run
from chaos.checks.check import Rests
from chaos.checks.ladder import nobody_was_elected
from chaos.checks.measure import Verdict
from chaos.checks.movement import a_shard_moved
from chaos.checks.trial import Trial, nobody_answered_the_sampler_for_15_s, read_back
from chaos.checks.verdict import Counts
from chaos.checks.writes import (
    an_acknowledged_id_is_on_no_copy,
    lost_and_the_read_back_is_incomplete,
    the_sources_could_not_be_compared,
)
from chaos.definitions.expectations import Comparison
from chaos.history import History
from chaos.history.format import Outcome
from chaos.history.reader import compact
from chaos.registry import METRICS as ALL_METRICS
from chaos.registry import WORKLOADS

REAL = Path(__file__).parents[1] / "unit" / "data" / "zone-network-slowdown"
ORDER = list(Run)
WORK = {"a-data": 0.7, "b-data": 0.8, "c-data": 0.6}
"""Of two processors each: 40 % is the most."""


def sound() -> Story:
    """A node with the leader's zone is killed and comes back; for 1.4 s a third of the requests fail."""
    blip = mixed((0.06, 1.4, 0.3, Outcome.TIMEOUT, 5.0), base=synthetic.healthy())
    return Story(
        name="sound",
        chapters=[
            Chapter("healthy", 20),
            Chapter("dead", 30, read=blip, write=blip)
            .fault(kind="node.kill", says="kill c-cm and c-data", effect=0.4)
            .event(0.9, "cluster.leader", leader=None)
            .event(1.9, "cluster.leader", leader="a-cm")
            .event(1.9, "cluster.node_left", node="c-data", zone="c")
            .event(1.9, "cluster.node_left", node="c-cm", zone="c")
            .event(1.9, "cluster.primary", index="chaos", shard=2, node="a-data")
            .event(1.9, "cluster.status", status="yellow")
            .event(2.4, "failover.evidence", controller="controller-a", zone="c", evidence=[{"kind": "probe"}])
            .event(3.4, "failover.step", controller="controller-a", step="weights", zone="c", because="zone c is bad")
            .event(3.9, "failover.done", controller="controller-a", step="weights", zone="c", against="c", says="done"),
            Chapter("returned", 30, until={"green": True, "stable": 10.0, "within": 120.0})
            .lift()
            .event(6.9, "cluster.node_joined", node="c-cm", zone="c")
            .event(6.9, "cluster.node_joined", node="c-data", zone="c")
            .event(12.9, "cluster.status", status="green"),
        ],
        cas=Compared(),
        visibility=Probed(),
        controllers=("a", "b"),
        work=WORK,
        readback=told(),
    )


TOLD = {
    "fates": {"stored": {"documents": 2000, "there": 2000, "twice": 0, "absent": 0, "unknown": 0}},
    **{"lost_untold": [], "lost_untold_count": 0, "told_failed_but_stored": [], "told_failed_but_stored_count": 0},
}
"""What the helper of a client library told its caller of its documents: what is so."""


def told() -> dict[str, Any]:
    """The read-back of a run whose documents a helper sent."""
    return dict(json.loads(json.dumps({**READBACK, "told": TOLD})))


@cache
def _sound() -> Stored:
    return Stored.of(sound().history())


OWN = {check.metric for check in instruments.checks()}
"""What instruments let expectations ask: broken in ``test_mutated_instruments.py``, by what they bring."""
ELSEWHERE = {
    metric: check.trial
    for metric, _, check in catalogue.metrics(names(WORKLOADS))
    if check.trial is not None and check.trial.given
}
"""What the sound run cannot be asked as it stands: tried at the end of this file."""
METRICS = {metric: each for metric, each in ALL_METRICS.items() if metric not in OWN | set(ELSEWHERE)}

WHOLE_RUN = sorted(metric for metric, each in METRICS.items() if each.whole_run)


@cache
def _real() -> Stored:
    return Stored.of(History.open(REAL))


def wanted(metric: str, target: str, phase: str | None = None, known: str | None = None) -> dict[str, Any]:
    """An expectation in the plan's normal form."""
    comparison = Comparison.parse(target, ALL_METRICS[metric].unit)
    op, _, quantity = metric.partition(".")
    of_load = op in ("read", "write")
    return {
        "metric": metric,
        "op": op if of_load else None,
        "quantity": quantity if of_load else metric,
        "unit": comparison.unit,
        "phases": [phase] if phase else [],
        "comparison": comparison.comparison,
        "value": comparison.value,
        "text": f"{metric} {comparison.text}",
        "known_weakness": known,
    }


# -- no fault, no finding --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(examples(20)))
def test_a_run_without_a_fault_gives_no_finding(seed: int) -> None:
    """Real phase lengths, one late answer of ten thousand, everything expected that needs no command."""
    quiet = [Chapter(name, seconds, *_quiet()) for name, seconds in (("healthy", 30), ("dead", 60), ("returned", 45))]
    story = Story(chapters=quiet, seed=seed, cas=Compared(), visibility=Probed(), controllers=("a",))
    story.work, story.readback = WORK, told()
    story.expect = [
        wanted(metric, target, chapter.name if phase else None)
        for metric, (target, phase) in TARGETS.items()
        if not metric.startswith(("recovery.", "cluster."))
        for chapter in (quiet if phase else quiet[:1])
    ]
    story.expect += [wanted(f"{op}.good", ">= 99.9%", chapter.name) for op in ("read", "write") for chapter in quiet]
    story.expect += [wanted(f"{op}.regained", "<= 1s", chapter.name) for op in ("read", "write") for chapter in quiet]
    findings = evaluate(story.history())
    assert findings.outcome is Run.PASS and findings.reasons == ()
    assert set(counts(findings).values()) == {"pass"} and len(findings.findings) > 80


def _quiet() -> tuple[synthetic.Behaviour, synthetic.Behaviour]:
    return synthetic.healthy(9, late=0.0001), synthetic.healthy(13, late=0.0001)


# -- what a broken cluster leaves in the record ----------------------------------------------------

TRIALS: dict[str, tuple[str | None, Trial]] = {
    metric: (op, check.trial)
    for metric, op, check in catalogue.metrics(names(WORKLOADS))
    if check.trial is not None and metric in METRICS
}
"""Each metric with its operation, and how its check is tried: said in the check's own file."""
UNTRIED = sorted(metric for metric in METRICS if metric not in TRIALS or not TRIALS[metric][1].broken_by)
assert not UNTRIED, f"say in the file of each check how it is tried (chaos/checks/trial.py): {UNTRIED}"
TARGETS = {metric: (trial.wanted, trial.phase) for metric, (_, trial) in TRIALS.items()}
"""Each metric with what is wanted of the sound run, and in which phase."""


def bound(mutation: Mutation, op: str | None) -> Mutation:
    """The mutation of one operation, under its own name."""
    return mutation if op is None else wraps(mutation)(partial(mutation, op=op))


BREAKS: dict[str, dict[str, Mutation]] = {
    metric: {mutation.__name__: bound(mutation, op) for mutation in trial.broken_by}
    for metric, (op, trial) in TRIALS.items()
}
"""Changes after which the metric's finding must be a weakness."""
BLINDS: dict[str, dict[str, Mutation]] = {}


def blinds(*metrics: str) -> Callable[[Mutation], Mutation]:
    """A loss of evidence after which the metric's finding must be open."""

    def keep(mutation: Mutation) -> Mutation:
        for metric in metrics:
            BLINDS.setdefault(metric, {})[mutation.__name__] = mutation
        return mutation

    return keep


# -- what leaves a finding open ----------------------------------------------------------------------

OF_LOAD = tuple(metric for metric in METRICS if metric.partition(".")[0] in ("read", "write"))
OF_CLUSTER = (
    "shards.moved",
    "cpu.survivors",
    "recovery.node_left",
    "recovery.leader_elected",
    "recovery.primaries_promoted",
)
OF_CONTROLLERS = ("failovers", "recovery.noticed", "recovery.decided", "recovery.acted")
OF_DATA = ("acknowledged.lost", "documents.unexpected", "cas.violations", "dirty.reads")
ON_DATA = tuple(metric for metric in METRICS if catalogue.rests_on(metric, Rests.DATA))
SOLID = (*ON_DATA, *(metric for metric in METRICS if catalogue.rests_on(metric, Rests.COPIES)))
"""What stands however busy machine and instruments were."""
OF_TIME = tuple(metric for metric in METRICS if metric not in SOLID)


def _own_losses() -> None:
    """Those that a check's own file names."""
    for metric, (op, trial) in TRIALS.items():
        for mutation in trial.blinded_by:
            blinds(metric)(bound(mutation, op))


_own_losses()


def passed(findings: Findings) -> set[str]:
    """The metrics of which a finding passed."""
    return {each.metric for each in findings.findings if each.verdict is Verdict.PASS}


@blinds(*METRICS)
def no_proof_that_the_fault_was_in_effect(run: Stored) -> None:
    run.drop("fault.evidence", stage="effect")


@blinds(*METRICS)
def the_fault_did_not_bite(run: Stored) -> None:
    run.of_kind("fault.evidence", stage="effect")[-1] |= {"proven": False, "says": "it answered"}


@blinds(*METRICS)
def the_fault_is_proven_by_what_others_see_only(run: Stored) -> None:
    run.of_kind("fault.command")[0] |= {"provider": "hooks", "grade": "effect"}


@blinds(*METRICS)
def only_the_provider_says_that_the_fault_happened(run: Stored) -> None:
    run.of_kind("fault.command")[0] |= {"provider": "hooks", "grade": "reported"}
    run.plan["lab"]["accepts"] = ["effect", "reported"]  # no target can accept that


@blinds(*METRICS)
def the_fault_was_gone_before_its_time(run: Stored) -> None:
    window = {"since": run.moment("dead", 8.0), "first": run.moment("dead", 10.5), "spread": False}
    run.of_kind("fault.evidence", stage="held")[-1] |= {"proven": False, "says": "it runs again", **window}


@blinds(*METRICS)
def the_fault_spread(run: Stored) -> None:
    the_fault_was_gone_before_its_time(run)
    run.of_kind("fault.evidence", stage="held")[-1] |= {"spread": True, "says": "b-data is gone too"}


@blinds(*METRICS)
def nobody_looked_whether_the_fault_held(run: Stored) -> None:
    run.drop("fault.evidence", stage="held")


@blinds(*METRICS)
def the_last_look_at_the_fault_was_long_before_its_undo(run: Stored) -> None:
    run.of_kind("fault.evidence", stage="held")[-1]["t"] = run.moment("dead", 15.0)


@blinds(*(metric for metric in METRICS if TARGETS[metric][1] != "dead"))
def no_proof_that_the_fault_was_gone(run: Stored) -> None:
    run.drop("fault.evidence", stage="gone")


@blinds(*METRICS)
def half_of_the_outcomes_are_missing(run: Stored) -> None:
    """arrivals.bin was truncated: what was scheduled is known, what became of it is not."""
    k = run.arrivals["k"].to_numpy()
    run.answer(np.flatnonzero(k > np.median(k)), Outcome.UNKNOWN)


@blinds(*OF_TIME)
def the_driver_sent_late(run: Stored) -> None:
    run.arrivals["start"] = np.where(run.arrivals["start"] > 0, run.arrivals["start"] + S // 10, 0)


@blinds(*OF_TIME)
def the_driver_was_busy(run: Stored) -> None:
    for event in run.driver:
        event["cpu"] = 0.97


@blinds(*OF_TIME)
def the_driver_dropped_arrivals(run: Stored) -> None:
    for op in ("read", "write"):
        run.answer(run.rows(op, "healthy", share=0.01), Outcome.DROPPED)


@blinds(*METRICS)
def clients_never_asked_the_controller_of_their_zone(run: Stored) -> None:
    run.driver = [event for event in run.driver if event.get("client_zone") != "b"]


@blinds(*OF_TIME)
def half_of_the_lines_of_the_driver_are_missing(run: Stored) -> None:
    run.driver = run.driver[: len(run.driver) // 2]


@blinds(*OF_TIME)
def the_processors_were_not_measured(run: Stored) -> None:
    for event in run.driver:
        event["processors"] = []


@blinds(*OF_TIME)
def the_pulse_of_the_instruments_was_not_taken(run: Stored) -> None:
    for event in run.driver:
        event.pop("pulse", None)


@blinds(*OF_TIME)
def the_pulse_of_one_toxiproxy_was_not_taken(run: Stored) -> None:
    for event in run.driver:
        if "pulse" in event:
            event["pulse"]["of"] -= 1


@blinds(*METRICS)
def one_operation_never_succeeded(run: Stored) -> None:
    """Reads for the metrics of writes and of everything else; what holds for nothing proves nothing."""
    for phase in ("healthy", "dead", "returned"):
        run.hit("read", phase, outcome=Outcome.SERVER_ERROR, seconds=0.01)


@blinds(*METRICS)
def the_inject_step_left_no_trace(run: Stored) -> None:
    run.drop("fault.command", "fault.in_effect", "fault.evidence")


@blinds(*OF_TIME)
def there_was_no_healthy_phase(run: Stored) -> None:
    """Nothing to compare with: the first phase was as bad as an outage."""
    for op in ("read", "write"):
        run.hit(op, "healthy", share=0.2)


@blinds(*METRICS)
def a_stretch_of_the_load_is_missing(run: Stored) -> None:
    """No arrival was even scheduled for three seconds."""
    begin = run.moment("dead", 20)
    t = run.arrivals["intended"]
    run.arrivals = run.arrivals[(t < begin) | (t >= begin + 3 * S)].reset_index(drop=True)


@blinds(*OF_TIME)
def the_runner_was_starved(run: Stored) -> None:
    run.of_kind("sample")[30]["late_ms"] = 4000.0


@blinds(*OF_TIME)
def no_sample_at_all(run: Stored) -> None:
    run.drop("sample")


@blinds(*(metric for metric in METRICS if TARGETS[metric][1] is not None))
def its_phase_never_ended(run: Stored) -> None:
    run.drop("phase.end", phase="dead")
    run.drop("phase.end", phase="returned")


blinds(*OF_CLUSTER)(nobody_answered_the_sampler_for_15_s)


@blinds(*OF_CONTROLLERS)
def a_controller_never_saw_the_cluster(run: Stored) -> None:
    run.drop("failover.ready", controller="controller-b")


@blinds(*OF_CONTROLLERS)
def a_controller_died(run: Stored) -> None:
    run.drop("failover.stop", controller="controller-a")


@blinds(*OF_CONTROLLERS)
def there_were_no_controllers(run: Stored) -> None:
    del run.plan["experiment"]["controller"]


@blinds("shards.moved")
def a_node_left_after_the_machine_had_no_free_processor_for_two_seconds(run: Stored) -> None:
    """No fault's target, and it came back: what moved meanwhile is the machine's doing."""
    left = run.moment("dead", 12)
    for event in (event for event in run.driver if event["kind"] == "self"):
        event["processors"] = [
            [start, end, 1.0 if left - 2 * S <= end <= left else busy] for start, end, busy in event["processors"]
        ]
    run.add("dead", 12.0, "cluster.node_left", node="b-data", zone="b")
    run.add("dead", 14.0, "cluster.node_joined", node="b-data", zone="b")


@blinds(*ON_DATA)
def a_fifth_of_the_writes_of_a_phase_were_not_sent(run: Stored) -> None:
    run.answer(run.rows("write", "dead", share=0.2), Outcome.DROPPED)
    run.arrivals.loc[run.rows("write", "dead", share=0.2), ["start", "end"]] = 0


@blinds(*ON_DATA)
def hardly_a_write_was_acknowledged(run: Stored) -> None:
    rows = run.rows("write", "healthy")
    for phase in ("dead", "returned"):
        rows = np.concatenate([rows, run.rows("write", phase)])
    run.answer(rows[100:], Outcome.REJECTED)
    read_back(run, acknowledged=100)


@blinds("cpu.survivors")
def how_busy_nodes_were_was_not_recorded(run: Stored) -> None:
    run.drop("nodes.cpu")


@blinds("cpu.survivors")
def nobody_said_how_many_processors_there_are(run: Stored) -> None:
    run.drop("nodes.processors")


@blinds("cpu.survivors")
def a_survivor_did_not_say_how_busy_it_was(run: Stored) -> None:
    for event in run.of_kind("nodes.cpu"):
        del event["nodes"]["b-data"]


@blinds("cpu.survivors")
def how_busy_nodes_were_is_known_of_the_first_half_only(run: Stored) -> None:
    run.drop("nodes.cpu", since=run.moment("dead", 15))


@blinds("cpu.survivors")
def a_survivor_began_to_count_anew(run: Stored) -> None:
    for event in run.of_kind("nodes.cpu"):
        if event["t"] > run.moment("dead", 10):
            event["nodes"]["a-data"]["ms"] -= 20_000


@blinds("cpu.survivors")
def no_data_node_stayed(run: Stored) -> None:
    for node in ("a-data", "b-data"):
        run.add("dead", 9.0, "cluster.node_left", node=node, zone=node[0])


@blinds(*OF_DATA)
def noread_back(run: Stored) -> None:
    run.readback = None


@blinds("documents.lost_untold", "documents.told_failed_but_stored")
def no_helper_told_anything(run: Stored) -> None:
    assert run.readback is not None
    del run.readback["told"]


@blinds("documents.lost_untold", "documents.told_failed_but_stored")
def whether_some_documents_are_there_is_not_known(run: Stored) -> None:
    assert run.readback is not None
    run.readback["told"]["fates"]["stored"] |= {"there": 1999, "unknown": 1}


@blinds("acknowledged.lost", "documents.unexpected", "documents.lost_untold", "documents.told_failed_but_stored")
def an_incompleteread_back(run: Stored) -> None:
    read_back(run, complete=False, reason="c-data did not answer")


@blinds("acknowledged.lost", "documents.unexpected")
def a_shard_without_a_live_copy(run: Stored) -> None:
    read_back(run, unavailable_count=40, unavailable_shards=[{"shard": 1}])


@blinds("acknowledged.lost", "documents.unexpected")
def nothing_wasread_back(run: Stored) -> None:
    assert run.readback is not None
    for each in run.readback["copies"]:
        each["docs"] = 0


@blinds("acknowledged.lost")
def the_read_back_knew_of_half_of_the_writes(run: Stored) -> None:
    read_back(run, acknowledged=1000)


blinds("acknowledged.lost")(the_sources_could_not_be_compared)


@blinds("acknowledged.lost")
def one_copy_was_not_looked_into_to_its_end(run: Stored) -> None:
    assert run.readback is not None
    run.readback["copies"][4]["compared"] -= 1


@blinds("acknowledged.lost")
def no_source_was_compared(run: Stored) -> None:
    assert run.readback is not None
    run.readback["content"]["documents"] = 0
    for each in run.readback["copies"]:
        each |= {"compared": 0, "wanted": 0}


@blinds("acknowledged.lost")
def no_index_was_compared(run: Stored) -> None:
    assert run.readback is not None
    run.readback["content"]["indexed"] = 0


@blinds("cas.violations", "dirty.reads")
def a_key_was_notread_back(run: Stored) -> None:
    assert run.readback is not None
    del run.readback["cas"]["c-1"]


@blinds("cas.violations", "stale.reads", "dirty.reads")
def no_compare_and_set_was_recorded(run: Stored) -> None:
    run.cas = []


@blinds("cas.violations", "stale.reads", "dirty.reads")
def compare_and_set_was_recorded_for_ten_seconds_only(run: Stored) -> None:
    """In the end every key holds what was there then, so that nothing else is wrong."""
    kept = run.origin + 10 * S
    run.cas = [line for line in run.cas if line["t"] < kept]
    assert run.readback is not None
    for key, copies in run.readback["cas"].items():
        done = {line["op"]: line for line in run.cas if line["kind"] == "ok" and "value" not in line}
        begun = [
            line
            for line in run.cas
            if line["kind"] == "invoke" and line["f"] == "cas" and line["key"] == key and line["op"] in done
        ]
        last = {"value": begun[-1]["value"][1], "seq_no": done[begun[-1]["op"]]["seq_no"], "primary_term": 1}
        run.readback["cas"][key] = [{**copy, **last} for copy in copies]


@blinds("visible.p50", "visible.p90", "visible.p99", "stale.reads", "dirty.reads")
def no_probe_was_recorded(run: Stored) -> None:
    run.probes = []


@blinds("visible.p50", "visible.p90", "visible.p99", "stale.reads", "dirty.reads")
def probes_were_recorded_for_two_thirds_of_the_phase_only(run: Stored) -> None:
    kept = run.moment("dead", 20)
    run.probes = [line for line in run.probes if line["t"] < kept]


@blinds("cas.violations", "stale.reads", "dirty.reads")
def one_node_was_never_asked_for_a_key(run: Stored) -> None:
    """Every read of compare-and-set went to the one node, every write to the other."""
    reads = {line["op"] for line in run.cas if line["kind"] == "invoke" and line["f"] == "read"}
    for line in run.cas:
        if "node" in line:
            line["node"] = "a-data" if line["op"] in reads else "b-data"


def _never_asked(op: str, *metrics: str) -> None:
    def never(run: Stored) -> None:
        codes = run.arrivals["node"].cat.codes.to_numpy().copy()
        rows = np.concatenate([run.rows(op, phase) for phase in ("dead", "returned")])
        codes[rows] = list(run.arrivals["node"].cat.categories).index("a-data")
        run.arrivals["node"] = pd.Categorical.from_codes(codes, categories=run.arrivals["node"].cat.categories)

    never.__name__ = f"one_node_was_never_asked_for_a_{op}"
    blinds(*(metric for metric in METRICS if metric.partition(".")[0] == op), *metrics)(never)


_never_asked("read", "stale.reads", "wrong.answers", "recovery.regained", "recovery.latency")
_never_asked("write", "acknowledged.lost", "wrong.answers", "recovery.first_writes")


@blinds("visible.p50", "visible.p90", "visible.p99", "stale.reads", "dirty.reads")
def the_probes_never_asked_one_node(run: Stored) -> None:
    run.probes = [line for line in run.probes if line.get("node") != "c-data" or line["kind"] == "written"]


@blinds("acknowledged.lost", "documents.unexpected")
def no_copy_of_one_node_wasread_back(run: Stored) -> None:
    assert run.readback is not None
    for copy in run.readback["copies"]:
        copy["read"] = copy["node"] != "c-data"


# -- every kind of expectation -------------------------------------------------------------------------


def expected(metric: str) -> dict[str, Any]:
    return wanted(metric, *TARGETS[metric])


BYSTANDERS = {
    "read": ("write.good", ">= 99%", "healthy"),
    "write": ("read.good", ">= 99%", "healthy"),
}


def bystander(metric: str) -> dict[str, Any]:
    """An expectation that a change of this metric must leave as it is."""
    return wanted(*BYSTANDERS.get(metric.partition(".")[0], BYSTANDERS["read"]))


def cases() -> list[Any]:
    return [
        pytest.param(metric, mutation, id=f"{metric}-{name}")
        for metric, mutations in BREAKS.items()
        for name, mutation in mutations.items()
    ]


def test_every_metric_has_a_mutation_of_each_kind() -> None:
    assert UNTRIED == [] and set(BREAKS) == set(TRIALS) == set(METRICS)
    assert set(BLINDS) == set(METRICS)


def test_the_sound_run_passes_every_kind_of_expectation() -> None:
    findings = _sound().copy().judged(*map(expected, METRICS))
    assert {id: verdict for id, verdict in verdicts(findings).items() if verdict != "pass"} == {}
    assert findings.outcome is Run.PASS and findings.reasons == () and findings.exit_code is Exit.PASS


@pytest.mark.parametrize(("metric", "mutation"), cases())
def test_a_mutated_history_is_exactly_that_weakness(metric: str, mutation: Mutation) -> None:
    findings = _sound().changed(mutation).judged(expected(metric), bystander(metric))
    assert [finding.counts_as for finding in findings.findings] == [Counts.WEAKNESS, Counts.PASS, Counts.PASS]
    assert findings.outcome is Run.WEAKNESS and findings.exit_code is Exit.WEAKNESS
    own = [reason for reason in findings.reasons if not reason.says.startswith("Documents that should not be there")]
    assert [reason.outcome for reason in own] == [Run.WEAKNESS]
    assert own[0].says.startswith(findings.findings[0].title)
    in_headline(findings.to_json())


@pytest.mark.parametrize("spoil", [the_driver_was_busy, the_driver_sent_late, the_runner_was_starved])
def test_what_was_asked_of_data_alone_stands_however_busy_the_machine_was(spoil: Mutation) -> None:
    findings = _sound().changed(spoil).judged(*map(expected, SOLID))
    assert {id: verdict for id, verdict in verdicts(findings).items() if "until" not in id} == {
        each.id: "pass" for each in findings.findings if each.metric != "until"
    }
    assert findings.validity["valid"] is False


@pytest.mark.parametrize("name", sorted({name for mutations in BLINDS.values() for name in mutations}))
def test_a_history_that_lost_its_evidence_stays_open(name: str) -> None:
    """All metrics that the loss concerns at once; an outcome that is no pass even if only others were asked for."""
    concerned = [metric for metric in METRICS if name in BLINDS[metric]]
    blind = _sound().changed(BLINDS[concerned[0]][name])
    findings = blind.judged(*map(expected, concerned))
    left = {
        id: verdict for id, verdict in verdicts(findings).items() if verdict != "inconclusive" and "until" not in id
    }
    assert left == {}
    assert findings.outcome is Run.INCONCLUSIVE, findings.reasons
    in_headline(findings.to_json())


# -- the other kinds of finding ------------------------------------------------------------------------


def not_green_in_time(run: Stored) -> None:
    run.of_kind("phase.end", phase="returned")[0]["reason"] = "deadline"


def test_a_condition_of_a_phase_that_was_not_met_is_a_weakness() -> None:
    assert counts(_sound().copy().judged())["until@returned"] == "pass"
    findings = _sound().changed(not_green_in_time).judged(bystander("until"))
    assert counts(findings) == {"write.good@healthy": "pass", "until@returned": "weakness"}
    assert findings.outcome is Run.WEAKNESS


@pytest.mark.parametrize(
    "blind",
    [
        lambda run: run.drop("phase.end", phase="returned"),
        lambda run: run.drop("phase.start", phase="returned"),
        lambda run: run.drop("fault.evidence"),
        lambda run: run.driver.clear(),
    ],
    ids=["no end", "never ran", "no proof", "no driver"],
)
def test_a_condition_of_a_phase_without_evidence_stays_open(blind: Mutation) -> None:
    findings = _sound().changed(blind).judged(bystander("until"))
    assert counts(findings)["until@returned"] == "inconclusive" and findings.outcome is Run.INCONCLUSIVE


@pytest.mark.parametrize("metric", some(METRICS))
def test_a_known_weakness_of_any_kind_must_go_when_it_passes(metric: str) -> None:
    """On a sound run the note is wrong; after a break it is right; without evidence nobody knows."""
    note = {**expected(metric), "known_weakness": "issue 17"}
    if metric in some(METRICS)[::2]:
        findings = _sound().copy().judged(note)
        assert findings.findings[0].counts_as is Counts.UNEXPECTED_PASS and findings.outcome is Run.WEAKNESS
        findings = _sound().changed(the_fault_did_not_bite).judged(note)
        assert findings.findings[0].counts_as is Counts.INCONCLUSIVE and findings.outcome is Run.INCONCLUSIVE
    broken = next(iter(BREAKS[metric].values()))
    findings = _sound().changed(broken).judged(note)
    assert findings.findings[0].counts_as is Counts.KNOWN_WEAKNESS
    wanted_anyway = metric != "documents.unexpected" and findings.tables["data"]["copies"]["beyond"]["value"]
    assert findings.outcome is (Run.WEAKNESS if wanted_anyway else Run.PASS)


CONDITIONS: dict[str, Mutation] = {
    "lag": the_driver_sent_late,
    "cpu": the_driver_was_busy,
    "machine": the_processors_were_not_measured,
    "pulse": the_pulse_of_the_instruments_was_not_taken,
    "runner": the_runner_was_starved,
    "path": lambda run: [
        event["answers"].update({"b-data": 400.0})
        for event in run.of_kind("sample")
        if event["t"] > run.moment("dead", 1)
    ],
    "dropped": the_driver_dropped_arrivals,
    "unknown": half_of_the_outcomes_are_missing,
    "schedule.read": a_stretch_of_the_load_is_missing,
    "schedule.write": a_stretch_of_the_load_is_missing,
    "steady.read": there_was_no_healthy_phase,
    "steady.write": there_was_no_healthy_phase,
    "steered": clients_never_asked_the_controller_of_their_zone,
}


SPOIL_ALL = ("path", "unknown", "schedule.read", "schedule.write", "steered")
"""Conditions without which nobody knows what was asked of the cluster, or which fault it met."""


def test_every_condition_on_the_instruments_can_fail_and_then_leaves_no_pass_but_of_data() -> None:
    seen = {each["id"] for each in _sound().copy().judged().validity["checks"]}
    assert seen == set(CONDITIONS)
    for id, mutation in CONDITIONS.items():
        findings = _sound().changed(mutation).judged(*map(expected, METRICS))
        failed = {each["id"] for each in findings.validity["checks"] if not each["ok"]}
        assert id in failed and findings.validity["valid"] is False
        assert findings.outcome is Run.INCONCLUSIVE
        assert passed(findings) & set(METRICS) == (set() if id in SPOIL_ALL else set(SOLID)), id


# -- a real run ------------------------------------------------------------------------------------------

REAL_BREAKS: dict[str, Mutation] = {
    "read.good@slow": lambda run: run.hit("read", "slow", 10, 12, share=0.2, outcome=Outcome.OK, seconds=0.12),
    "write.good@slow": lambda run: run.hit("write", "slow", outcome=Outcome.OK, seconds=0.02, share=0.3),
    "write.regained@failover": lambda run: run.hit("write", "failover", 14, 16),
    "shards.moved@failover": lambda run: run.add(
        "failover", 9, "cluster.shard_moved", index="chaos", shard=0, node="x"
    ),
    "acknowledged.lost": an_acknowledged_id_is_on_no_copy,
    "until@returned": not_green_in_time,
}


def test_the_stored_real_run_passes() -> None:
    findings = _real().copy().judged()
    assert findings.outcome is Run.PASS and findings.reasons == ()
    assert {id.partition("@")[0] for id in verdicts(findings)} == {id.partition("@")[0] for id in REAL_BREAKS}


@pytest.mark.parametrize("id", REAL_BREAKS)
def test_a_mutation_of_the_real_run_is_exactly_that_weakness(id: str) -> None:
    findings = _real().changed(REAL_BREAKS[id]).judged()
    assert [name for name, verdict in counts(findings).items() if verdict != "pass"] == [id]
    assert counts(findings)[id] == "weakness" and findings.outcome is Run.WEAKNESS


# -- the files -------------------------------------------------------------------------------------------


def _folder(tmp_path: Path, name: str) -> Path:
    """A run that passes, as a folder: made up with the driver's rows, or the real one with its Parquet."""
    folder = tmp_path / "run"
    if name == "real":
        shutil.copytree(REAL, folder)
        return folder
    story = sound()
    story.expect = [wanted("read.good", ">= 98%", "dead"), wanted("recovery.leader_elected", "<= 5s", "dead")]
    if name == "data":
        story.expect += [wanted(metric, "0") for metric in WHOLE_RUN]
    else:
        story.cas = story.visibility = None
    return story.write(folder)


def _judged(folder: Path) -> Findings | None:
    """None: one clear error says that the folder cannot be read. Anything else that is raised fails the test."""
    try:
        return evaluate(History.open(folder))
    except HistoryError:
        return None


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", ["plain", "data", "real"])
def test_without_any_one_file_there_is_no_pass(tmp_path: Path, name: str) -> None:
    """Neither removed nor empty. ``arrivals.json`` holds the names behind numbers, which Parquet has in itself."""
    folder = _folder(tmp_path, name)
    whole = _judged(folder)
    assert whole is not None and whole.exit_code is Exit.PASS
    for path in _files(folder):
        if name == "real" and path.name == "arrivals.json":
            continue
        content = path.read_bytes()
        for spoil in (path.unlink, lambda path=path: path.write_bytes(b"")):
            spoil()
            findings = _judged(folder)
            assert findings is None or findings.exit_code is not Exit.PASS, path.name
        path.write_bytes(content)
    assert _judged(folder).exit_code is Exit.PASS


@pytest.mark.parametrize("name", ["data", "real"])
def test_a_file_that_holds_something_else_is_one_clear_error_or_no_pass(tmp_path: Path, name: str) -> None:
    folder = _folder(tmp_path, name)
    for path in _files(folder):
        if name == "real" and path.name == "arrivals.json":
            continue
        content = path.read_bytes()
        for other in (b"[]", b"null", b'{"t": "x", "kind": 7}\n[1]\n12\n', b"\xff\xfe\x00" * 100):
            path.write_bytes(other)
            findings = _judged(folder)
            assert findings is None or findings.exit_code is not Exit.PASS, (path.name, other)
        path.write_bytes(content)


@pytest.mark.parametrize("name", ["data", "real"])
def test_torn_shuffled_and_doubled_lines_raise_nothing_and_change_no_verdict_for_the_better(
    tmp_path: Path, name: str
) -> None:
    folder = _folder(tmp_path, name)
    whole = json.dumps(_judged(folder).to_json())
    for path in [path for path in _files(folder) if path.suffix == ".jsonl"]:
        content = path.read_bytes()
        lines = content.splitlines(keepends=True)
        shuffled = random.Random(1).sample(lines, len(lines))
        for other in (content + content[: len(lines[0]) // 2], b"".join(shuffled)):  # torn; another order
            path.write_bytes(other)
            assert json.dumps(_judged(folder).to_json()) == whole, path.name
        path.write_bytes(content + content)
        assert _judged(folder) is not None
        path.write_bytes(content)
    rows = folder / "history" / "arrivals.bin"
    if rows.exists():
        rows.write_bytes(rows.read_bytes() + b"\1" * 17)
        assert json.dumps(_judged(folder).to_json()) == whole


def test_a_step_that_is_recorded_twice_stands_for_no_other() -> None:
    """A fault command twice in the file does not count for the second fault of the plan, which never came."""

    def planned_twice(run: Stored) -> None:
        run.plan["experiment"]["phases"][1]["inject"] *= 2
        run.events.append(dict(run.of_kind("fault.command")[0]))

    findings = _sound().changed(planned_twice).judged(bystander("shards.moved"))
    assert findings.outcome is Run.INCONCLUSIVE


def test_a_proof_by_what_others_see_counts_where_the_target_accepts_it() -> None:
    def accepted(run: Stored) -> None:
        the_fault_is_proven_by_what_others_see_only(run)
        run.plan["lab"]["accepts"] = ["effect"]

    as_it_was, now = (_sound().changed(*some).judged(expected("read.good")) for some in ((), (accepted,)))
    assert now.outcome is as_it_was.outcome is Run.PASS
    assert (now.faults[0]["provider"], now.faults[0]["grade"]) == ("hooks", "effect")
    assert as_it_was.faults[0]["grade"] == "path"


def test_a_fault_that_came_and_went_without_proof_of_each_time_is_not_proven() -> None:
    def flaps(run: Stored) -> None:
        run.of_kind("fault.command")[0]["pulses"] = True

    assert _sound().changed(flaps).judged(expected("read.good")).outcome is Run.INCONCLUSIVE


def test_a_fault_that_was_gone_before_its_time_accuses_nobody_and_is_the_headline() -> None:
    """What was measured while it still held stands; afterwards neither a weakness nor a pass does, but lost data."""
    late = expected("write.good")
    run = _sound().changed(the_fault_was_gone_before_its_time, *BREAKS["write.good"].values())
    findings = run.judged(late, expected("acknowledged.lost"), wanted("read.good", ">= 99%", "healthy"))
    assert [each.counts_as for each in findings.findings] == [
        Counts.INCONCLUSIVE,
        Counts.INCONCLUSIVE,
        Counts.PASS,
        Counts.INCONCLUSIVE,
    ]
    assert findings.outcome is Run.INCONCLUSIVE and findings.exit_code is Exit.INCONCLUSIVE
    says = "kill c-cm and c-data: gone before its time, between 28.0 s and 30.5 s of the run (it runs again)"
    garbled = "100 writes were answered with something that cannot be read (garbled)"
    assert findings.summary == f"Nothing proven: {says}. {garbled}."
    assert findings.faults[0]["vanished"] == [28.0, 30.5] and not findings.faults[0]["proven"]
    spread = _sound().changed(the_fault_spread).judged(late)
    assert "kill c-cm and c-data: spread beyond what it names, between 28.0 s and 30.5 s" in spread.summary

    lost = next(iter(BREAKS["acknowledged.lost"].values()))
    findings = _sound().changed(the_fault_was_gone_before_its_time, lost).judged(expected("acknowledged.lost"))
    assert findings.outcome is Run.WEAKNESS


def test_what_has_ended_early_has_ended_whatever_is_seen_afterwards() -> None:
    def and_back_again(run: Stored) -> None:
        the_fault_was_gone_before_its_time(run)
        early = run.of_kind("fault.evidence", stage="held")[-1]
        run.events.append({**early, "proven": True, "says": "gone once more"})
        early["t"] = run.moment("dead", 15.0)

    findings = _sound().changed(and_back_again).judged(expected("write.good"))
    assert findings.outcome is Run.INCONCLUSIVE and "gone before its time" in findings.summary


def test_a_record_from_before_these_looks_and_a_run_that_was_aborted_need_none() -> None:
    def as_it_was_written_once(run: Stored) -> None:
        nobody_looked_whether_the_fault_held(run)
        run.of_kind("fault.command")[0].pop("held")

    assert _sound().changed(as_it_was_written_once).judged(expected("write.good")).outcome is Run.PASS

    def aborted(run: Stored) -> None:
        nobody_looked_whether_the_fault_held(run)
        run.add("returned", 1.0, "abort", says="stopped by SIGINT")
        run.of_kind("run.end")[0]["reason"] = "aborted"

    findings = _sound().changed(aborted).judged(expected("write.good"))
    assert findings.outcome is Run.ABORTED and findings.faults[0]["proven"]


def test_half_of_the_driver_s_samples_are_too_few_on_a_lab_elsewhere_too() -> None:
    """There the machine's processors are not judged, which would have noticed."""

    def elsewhere(run: Stored) -> None:
        run.plan["lab"]["kind"] = "docker"

    assert _sound().changed(elsewhere).judged(expected("read.good")).outcome is Run.PASS
    cut = _sound().changed(elsewhere, half_of_the_lines_of_the_driver_are_missing)
    assert cut.judged(expected("read.good")).outcome is Run.INCONCLUSIVE


@pytest.mark.parametrize("file", ["arrivals.bin", "scheduled.bin"])
@pytest.mark.parametrize("kept", [0.2, 0.5, 0.9])
def test_rows_that_end_early_are_no_pass(tmp_path: Path, file: str, kept: float) -> None:
    folder = _folder(tmp_path, "plain")
    path = folder / "history" / file
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept)])
    findings = _judged(folder)
    assert findings is None or findings.outcome is Run.INCONCLUSIVE
    if findings is not None:
        compact(folder)
        assert _judged(folder).outcome is Run.INCONCLUSIVE


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("name", ["events.jsonl", "driver.jsonl", "cas.jsonl", "probes.jsonl"])
def test_lines_that_end_early_are_no_pass(tmp_path: Path, name: str, kept: float) -> None:
    folder = _folder(tmp_path, "data")
    path = folder / "history" / name
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: int(len(lines) * kept)]))
    findings = _judged(folder)
    if name in ("events.jsonl", "cas.jsonl") or kept < 0.9:  # the last 3 s of the driver's samples are no loss
        assert findings is None or findings.outcome is not Run.PASS


def test_stale_reads_that_the_driver_counted_and_nobody_wrote_down_are_no_pass() -> None:
    def counted(run: Stored) -> None:
        last = run.driver[-1]["t"] + 2 * S
        run.driver.append({"t": last, "kind": "driver.stop", "reason": "stopped", "stopped_ns": last, "stale": 3})

    findings = _sound().changed(counted).judged(expected("stale.reads"))
    assert findings.outcome is Run.INCONCLUSIVE


def test_a_fault_does_not_bite_by_arrivals_of_which_nothing_is_known() -> None:
    """10.05 % good are no "< 10 %"; without the outcome of six more they would be 9.9 %."""
    rows = _sound().rows("write", "dead")

    def bitten(run: Stored) -> None:
        run.hit("write", "dead", outcome=Outcome.OK, seconds=0.3)
        run.answer(rows[:302], Outcome.OK, 0.01)

    def forgotten(run: Stored) -> None:
        run.answer(rows[:6], Outcome.UNKNOWN)

    bites = wanted("write.good", "< 10%", "dead")
    assert _sound().changed(bitten).judged(bites).outcome is Run.WEAKNESS
    assert _sound().changed(bitten, forgotten).judged(bites).outcome is Run.INCONCLUSIVE


# -- laws --------------------------------------------------------------------------------------------------

STARTS: dict[str, tuple[Mutation, ...]] = {
    "sound": (),
    "bad writes": (lambda run: run.hit("write", "dead", 5, 12, share=0.5),),
    "late reads": (lambda run: run.hit("read", "returned", share=0.4, outcome=Outcome.OK, seconds=0.2),),
    "not proven": (the_fault_did_not_bite,),
    "lost": (lost_and_the_read_back_is_incomplete, not_green_in_time),
    "moved, and nobody looked": (a_shard_moved, nobody_answered_the_sampler_for_15_s),
    "no leader": (nobody_was_elected, the_driver_was_busy),
}
ALL = [*map(expected, METRICS), wanted("write.good", "< 60%", "dead"), wanted("read.p50", ">= 5s", "dead")]


@cache
def _before(start: str) -> tuple[Stored, Run, dict[str, str]]:
    run = _sound().changed(*STARTS[start])
    findings = run.judged(*ALL)
    return run, findings.outcome, verdicts(findings)


@st.composite
def losses(draw: st.DrawFn) -> Mutation:
    """Evidence or outcomes that are not in the record any more."""
    stages = draw(st.sets(st.sampled_from(["before", "effect", "gone"])))
    gone = draw(st.sets(st.sampled_from(["phase.end", "phase.start", "fault.in_effect", "sample", "run.end"])))
    share = draw(st.sampled_from([0.0, 0.0005, 0.01, 0.3]))
    operations = draw(st.sets(st.sampled_from(["read", "write"])))
    phases = draw(st.sets(st.sampled_from(["healthy", "dead", "returned"])))
    driver = draw(st.sampled_from([1.0, 1.0, 0.6, 0.0]))
    data = draw(st.sets(st.sampled_from(["readback", "copies", "cas", "probes", "clean"])))

    def lose(run: Stored) -> None:
        for stage in stages:
            run.drop("fault.evidence", stage=stage)
        for op in operations:
            for phase in phases:
                run.answer(run.rows(op, phase, share=share), Outcome.UNKNOWN)
        run.drop(*gone)
        run.driver = run.driver[: int(len(run.driver) * driver)]
        if "copies" in data and run.readback is not None:
            run.readback["copies"] = []
        for name in {"readback", "clean"} & data:
            setattr(run, name, None)
        for name in {"cas", "probes"} & data:
            setattr(run, name, [])

    return lose


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(STARTS)), losses())
def test_lost_evidence_never_makes_a_pass_of_what_was_none(start: str, loss: Mutation) -> None:
    run, outcome, before = _before(start)
    findings = run.changed(loss).judged(*ALL)
    better = {id for id, verdict in verdicts(findings).items() if verdict == "pass" and before.get(id) != "pass"}
    assert better == set()
    assert findings.outcome is not Run.PASS or outcome is Run.PASS


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_random_lines_that_are_missing_from_a_sound_run_raise_nothing_and_blame_nobody_for_data(
    data: st.DataObject,
) -> None:
    """Any lines of any file: no traceback, no error of a check, and no document said to be lost."""
    run = _sound().copy()
    seed, share = data.draw(st.integers(0, 2**32 - 1)), data.draw(st.sampled_from([0.02, 0.3, 0.9]))
    names = data.draw(st.sets(st.sampled_from(["events", "driver", "probes"]), min_size=1))
    chosen = random.Random(seed)
    for name in sorted(names):
        setattr(run, name, [line for line in getattr(run, name) if chosen.random() >= share])
    findings = run.judged(*ALL)
    assert not [reason for reason in findings.reasons if "the check of" in reason.says]
    assert counts(findings)["acknowledged.lost"] != "weakness"


# -- what only some runs can be asked ------------------------------------------------------------------


@pytest.mark.parametrize("metric", ELSEWHERE)
def test_what_only_some_runs_can_be_asked_passes_and_is_broken_there_and_is_open_elsewhere(metric: str) -> None:
    trial = ELSEWHERE[metric]
    line = wanted(metric, trial.wanted, trial.phase)

    def outcome(*changes: Mutation) -> Run:
        return _sound().changed(*changes).judged(line).outcome

    def nothing_was_kept(run: Stored) -> None:
        run.readback, run.probes = None, []

    assert outcome(*trial.given) is Run.PASS
    for broken in trial.broken_by:
        assert outcome(*trial.given, broken) is Run.WEAKNESS, broken.__name__
    assert outcome() is Run.INCONCLUSIVE
    assert outcome(*trial.given, nothing_was_kept) is Run.INCONCLUSIVE
