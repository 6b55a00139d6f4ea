"""A check that never asked a node says nothing about it: who was asked how often, who is due, and what is left open."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd
import pytest
import synthetic
from hypothesis import given
from hypothesis import strategies as st
from mutations import Mutation, S, Stored, counts
from synthetic import NODES, Chapter, Compared, Probed, Story, expect

from chaos.checks import Outcome as Run
from chaos.checks import coverage
from chaos.checks.record import Record
from chaos.load.balancer import Balancer
from chaos.report import asked
from chaos.report.page import render_html
from chaos.statistics.facts import metrics

EXPECTED = [
    expect("read.good", ">=", 0.99, ("healthy", "slow")),
    expect("write.good", ">=", 0.99, ("healthy", "slow")),
    expect("visible.p99", "<=", 2, ("slow",)),
    *(expect(metric, "==", 0) for metric in ("acknowledged.lost", "cas.violations", "stale.reads", "dirty.reads")),
]
ALL = ["read.good@healthy", "read.good@slow", "write.good@healthy", "write.good@slow", "visible.p99@slow"]
ALL += ["acknowledged.lost", "cas.violations", "stale.reads", "dirty.reads"]


@cache
def _stored() -> Stored:
    story = Story(
        chapters=[Chapter("healthy", 20), Chapter("slow", 30).fault().lift(at=29)],
        expect=list(EXPECTED),
        cas=Compared(),
        visibility=Probed(),
    )
    return Stored.of(story.history())


def left_open(*mutations: Mutation) -> dict[str, str]:
    """The findings that are no pass after some changes, with what they say."""
    findings = _stored().changed(*mutations).judged()
    assert findings.outcome in (Run.PASS, Run.INCONCLUSIVE)
    wrong = {each.id: each.says for each in findings.findings if each.counts_as.value != "pass"}
    assert set(counts(findings)) == set(ALL)
    # what leaves one finding open is in the reasons of the run by that finding's name, and leaves no other one open
    assert {reason.says.partition(": ")[0].split(" ")[0] for reason in findings.reasons} == {
        id.partition("@")[0] for id in wrong
    }
    return wrong


def moved(f: str, since: float, *, to: str = "a-data", until: float = 1e6) -> Mutation:
    """All reads, or all writes, of compare-and-set in a stretch of the run went to one node."""

    def change(run: Stored) -> None:
        mine = {line["op"] for line in run.cas if line["kind"] == "invoke" and line["f"] == f}
        for line in run.cas:
            if line["op"] in mine and "node" in line and since <= (line["t"] - run.origin) / S < until:
                line["node"] = to

    return change


def served_by(op: str, phase: str, node: str) -> Mutation:
    """All requests of an operation of the load in a phase went to one node."""

    def change(run: Stored) -> None:
        codes = run.arrivals["node"].cat.codes.to_numpy().copy()
        codes[run.rows(op, phase)] = NODES.index(node)
        run.arrivals["node"] = pd.Categorical.from_codes(codes, categories=list(NODES))

    return change


def test_a_run_that_asked_everybody_passes_and_says_who_was_asked():
    findings = _stored().copy().judged()
    assert findings.outcome is Run.PASS and findings.reasons == ()
    table = findings.tables["coverage"]
    reads = table["operations"]["read"]
    assert reads["healthy"]["a-data"] == {"asked": 1000, "answered": 1000, "share": 1000.0, "due": 29, "enough": True}
    assert reads["slow"]["c-data"] == {"asked": 0, "answered": 0, "share": 0.0, "due": 0, "enough": True}
    assert set(table["operations"]) == {
        *("read", "write", "compare-and-set read", "compare-and-set write"),
        *("probe write", "probe get", "probe search"),
    }
    assert table["copies"]["c-data"]["live"] == table["copies"]["c-data"]["read"] == 3
    stale = next(each for each in findings.findings if each.id == "stale.reads")
    assert "95 % to see one" in stale.says
    shown = asked.section(findings.tables)
    assert shown["few"] == "none with too few" and shown["nodes"] == list(NODES)
    assert {cell["text"] for row in shown["rows"] for cell in row["cells"][2:] if row["kind"] == "read"} == {"-"}


# -- the history that passed ----------------------------------------------------------------------


def test_reads_that_all_went_to_one_node_leave_open_what_hangs_on_them():
    """What the load did before its turns were its own: 395 of 398 reads of one node, every write of the other."""
    wrong = left_open(moved("read", 0), moved("cas", 0, to="b-data"))
    assert set(wrong) == {"stale.reads", "dirty.reads", "cas.violations"}
    assert wrong["stale.reads"].startswith("b-data was never asked in healthy (compare-and-set read; ")
    assert "a-data was never asked in healthy (compare-and-set write; " in wrong["cas.violations"]


def test_in_one_phase_is_enough_to_leave_it_open():
    wrong = left_open(moved("read", 20))
    assert set(wrong) == {"stale.reads", "dirty.reads", "cas.violations"}
    assert "b-data was never asked in slow" in wrong["stale.reads"] and "in healthy" not in wrong["stale.reads"]


def test_a_few_reads_are_too_few():
    wrong = left_open(moved("read", 20.6))
    assert "b-data was asked 2 times in slow and gave 2 answers that count" in wrong["stale.reads"]


def test_a_stale_read_that_was_seen_stands_whoever_was_not_asked():
    def stale(run: Stored) -> None:
        get = next(line for line in run.probes if line["kind"] == "get" and line["n"] == 60)
        get["found"] = False

    findings = _stored().changed(moved("read", 0), stale).judged()
    assert counts(findings)["stale.reads"] == "weakness" and findings.outcome is Run.WEAKNESS
    measure = next(each.measure for each in findings.findings if each.id == "stale.reads")
    assert measure.text == "≥ 1" and "b-data was never asked" in measure.says


@pytest.mark.parametrize("op", ["read", "write"])
def test_an_operation_that_never_asked_a_node_in_a_phase_shows_nothing_there(op: str):
    wrong = left_open(served_by(op, "slow", "b-data"))
    also = {"read": {"stale.reads"}, "write": {"acknowledged.lost"}}[op]
    assert set(wrong) == {f"{op}.good@slow"} | also
    assert all("a-data was never asked in slow" in says for says in wrong.values())


def test_of_a_node_that_was_not_asked_the_truth_may_be_worse_than_what_was_measured():
    findings = _stored().changed(served_by("read", "slow", "b-data")).judged()
    assert {each.id for each in findings.findings if each.may_be_worse} == {"read.good@slow"}
    items = {item["id"]: item for item in findings.to_json()["findings"]}
    assert items["read.good@slow"]["may_be_worse"] is True and "may_be_worse" not in items["read.good@healthy"]
    found = metrics(findings.to_json())
    assert "read.good@slow" not in found and found["read.good@healthy"].low == 1.0


def test_a_weakness_of_an_operation_stands_whoever_was_not_asked():
    def late(run: Stored) -> None:
        run.hit("read", "slow", share=0.2)

    findings = _stored().changed(served_by("read", "slow", "b-data"), late).judged()
    assert counts(findings)["read.good@slow"] == "weakness"
    assert not any(each.may_be_worse for each in findings.findings)


def test_a_node_that_the_probes_never_asked_is_named():
    def forgotten(run: Stored) -> None:
        run.probes = [line for line in run.probes if line.get("node") != "c-data"]

    wrong = left_open(forgotten)
    assert set(wrong) == {"stale.reads", "dirty.reads", "visible.p99@slow"}
    assert "c-data was never asked in slow (probe get" in wrong["stale.reads"]
    assert "c-data was never asked in slow (probe search" in wrong["visible.p99@slow"]


def test_a_node_that_answers_gets_and_no_search_leaves_searches_open():
    def silent(run: Stored) -> None:
        for line in run.probes:
            if line["kind"] == "seen" and line["node"] == "c-data":
                line |= {"kind": "unseen", "missed": None}

    wrong = left_open(silent)
    assert set(wrong) == {"visible.p99@slow", "dirty.reads"} and "gave 0 answers that count" in wrong["dirty.reads"]


def test_a_node_that_acknowledges_no_write_leaves_nothing_open():
    """A fault may keep one node from it while it answers reads; it was asked, and owes no acknowledgement."""

    def stuck(run: Stored) -> None:
        rows = run.rows("write", "slow")
        run.answer(rows[(run.arrivals["node"] == "b-data").to_numpy()[rows]], synthetic.Outcome.TIMEOUT, 5.0)
        for line in run.cas:
            if line.get("node") == "b-data" and line.get("status") == 409:
                line |= {"status": 0, "outcome": "timeout"}

    findings = _stored().changed(stuck).judged()
    assert counts(findings)["write.good@slow"] == "weakness"
    assert {id for id, counted in counts(findings).items() if counted != "pass"} == {"write.good@slow"}


def test_a_key_that_was_never_read_through_a_node_is_named():
    """Keys and client zones in step: each node is asked often, and for half of the keys only."""

    def in_step(run: Stored) -> None:
        keys = {line["op"]: line["key"] for line in run.cas if line["kind"] == "invoke" and line["f"] == "read"}
        for line in run.cas:
            if line["op"] in keys and "node" in line:
                line["node"] = "a-data" if keys[line["op"]] == "c-0" else "b-data"

    wrong = left_open(in_step)
    assert set(wrong) == {"stale.reads"}
    assert "a-data was never asked for c-1" in wrong["stale.reads"]


def test_copies_that_nobody_read_back_are_named():
    def unread(run: Stored) -> None:
        assert run.readback is not None
        for copy in run.readback["copies"]:
            if copy["node"] == "c-data":
                copy["read"] = False

    wrong = left_open(unread)
    assert set(wrong) == {"acknowledged.lost"} and "c-data was never asked for any of its copies" in str(wrong)


def test_the_page_shows_who_was_asked_and_marks_who_was_not():
    run = _stored().changed(moved("read", 20))
    page = render_html(run.history(), run.judged().to_json())
    assert "Who was asked how often (1 cell with too few)" in page
    assert ">never; 29 are needed</td>" in page and "Due is every node that the load balancers had in use." in page
    assert "b-data was never asked in slow" in page.partition("Who was asked how often")[0]  # in the headline already
    page = render_html(_stored().history(), _stored().copy().judged().to_json())
    assert "Who was asked how often (none with too few)" in page and "are needed</td>" not in page


# -- who is due --------------------------------------------------------------------------------------


def told(phase: str, at: float, node: str, healthy: bool) -> Mutation:
    def change(run: Stored) -> None:
        for zone in "ab":
            event = {"t": run.moment(phase, at), "kind": "balancer", "client_zone": zone, "node": node}
            run.driver.append({**event, "healthy": healthy, "says": "HTTP 200"})

    return change


def only(phase: str, node: str) -> list[Mutation]:
    """In a phase everything that clients send goes to one node."""
    since, until = {"healthy": (0, 20), "slow": (20, 1e6)}[phase]
    return [
        *(moved(f, since, to=node, until=until) for f in ("read", "cas")),
        *(served_by(op, phase, node) for op in ("read", "write")),
        lambda run: [
            line.update(node=node)
            for line in run.probes
            if line["kind"] == "written" and since <= (line["t"] - run.origin) / S < until
        ],
    ]


def test_a_node_that_was_out_of_service_is_not_due():
    assert left_open(*only("slow", "a-data")) != {}
    assert left_open(*only("slow", "a-data"), told("healthy", 19.9, "b-data", False)) == {}


def test_a_node_that_came_into_service_is_due():
    wrong = left_open(told("slow", 1, "c-data", True))
    assert {"read.good@slow", "write.good@slow", "acknowledged.lost"} <= set(wrong)
    assert "c-data was never asked in slow" in wrong["read.good@slow"]


def test_a_moment_of_service_is_no_phase():
    wrong = left_open(told("slow", 29.99, "c-data", True))
    assert wrong == {}


def test_who_is_named_by_a_controller_is_due_and_nobody_else():
    def named(run: Stored) -> None:
        for zone in "ab":
            run.driver.append({"t": run.origin, "kind": "steered", "client_zone": zone, "nodes": ["a-data"]})

    assert left_open(*only("healthy", "a-data"), *only("slow", "a-data"), named) == {}


@pytest.mark.parametrize("back", [False, True])
def test_a_dead_node_that_a_balancer_still_asks_is_due_for_requests_and_not_for_answers(back: bool):
    """It answers nobody, so it has given no wrong answer either. Nor when searches find it once it is ``back``."""

    def dead(run: Stored) -> None:
        for line in run.cas:
            if line.get("node") == "b-data" and (line["t"] - run.origin) / S >= 20:
                for name in ("value", "seq_no", "primary_term"):
                    line.pop(name, None)
                line |= {"kind": "info", "outcome": "timeout", "status": 0}
        for line in run.probes:
            if line.get("node") == "b-data" and (line["t"] - run.origin) / S >= 20:
                seen = {"t": run.span("slow")[1] + S} if back else {"kind": "unseen", "missed": None}
                line |= {"get": {"found": None}, "seen": seen}.get(line["kind"], {})
        rows = np.flatnonzero((run.arrivals["node"] == "b-data") & (run.arrivals["intended"] >= run.span("slow")[0]))
        run.answer(rows, synthetic.Outcome.REFUSED, 0.001)

    record = Record(_stored().changed(dead).history())
    found = coverage.of(record)
    slow = record.spans[1]
    assert found.row(coverage.CAS_READ, "b-data", slow, answers=True).due < 5
    assert found.row("read", "b-data", slow, answers=False).due == 29
    assert found.short(coverage.PROBE_GET, span=slow, answers=True) == []
    assert found.row(coverage.PROBE_GET, "b-data", slow, answers=True).share < 1  # of 60
    if back:
        assert found.row(coverage.PROBE_SEARCH, "b-data", slow, answers=True).answered > 10


def client(kind: str, node: str | None = None) -> Mutation:
    def change(run: Stored) -> None:
        run.plan["client"]["client"] |= {"kind": kind, "node": node}
        run.driver = [event for event in run.driver if event["kind"] != "balancer"]

    return change


def test_of_a_pinned_client_its_own_node_alone_is_due():
    pinned = [*only("healthy", "a-data"), *only("slow", "a-data")]
    findings = _stored().changed(*pinned, client("pinned", "a-data")).judged()
    assert findings.outcome is Run.PASS
    assert findings.tables["coverage"]["says"].startswith("The client is pinned")
    assert set(left_open(client("pinned", "c-data"))) >= {"read.good@slow", "stale.reads"}


def test_of_a_library_that_chooses_all_are_due_until_something_is_changed():
    third = [each for f in ("read", "cas") for each in (moved(f, 3, to="c-data", until=8),)]

    def spread(run: Stored) -> None:
        codes = run.arrivals["node"].cat.codes.to_numpy().copy()
        rows = np.concatenate([run.rows(op, "healthy", 3, 8) for op in ("read", "write")])
        codes[rows] = 2
        run.arrivals["node"] = pd.Categorical.from_codes(codes, categories=list(NODES))
        for line in run.probes:
            if line["kind"] == "written" and line["n"] % 3 == 2:
                line["node"] = "c-data"

    chosen = [client("opensearch-py"), *third, spread]
    assert left_open(*chosen) == {}
    assert left_open(*chosen, *only("slow", "a-data")) == {}
    assert "c-data was never asked in healthy" in left_open(client("opensearch-py"))["read.good@healthy"]


def test_a_balancer_of_which_nothing_is_recorded_lets_nobody_off():
    def forgotten(run: Stored) -> None:
        run.driver = [event for event in run.driver if event["kind"] != "balancer"]

    assert "c-data was never asked" in left_open(forgotten)["read.good@slow"]


def test_a_history_that_does_not_say_who_the_targets_were_is_judged_as_before():
    def old(run: Stored) -> None:
        run.plan["client"] = {"kind": "load-balancer", "timeout_s": 5.0}

    findings = _stored().changed(old, moved("read", 0)).judged()
    assert findings.outcome is Run.PASS and "coverage" not in findings.tables and asked.section(findings.tables) is None


# -- how many it takes -------------------------------------------------------------------------------


def counted(rate: float, seconds: float) -> coverage.Counts:
    story = Story(chapters=[Chapter("healthy", seconds), Chapter("rest", 30)], cas=Compared(rate=rate))
    return coverage.of(Record(story.history()))


@pytest.mark.parametrize(
    ("rate", "seconds", "due"),
    [(10, 60, 29), (10, 10, 17), (10, 3, 5), (10, 1, 0), (1, 30, 5), (1, 10, 0)],
)
def test_a_short_phase_or_a_low_rate_takes_a_third_of_what_could_be_asked(rate: float, seconds: float, due: int):
    found = counted(rate, seconds)
    assert found.row(coverage.CAS_READ, "a-data", found.record.spans[0], answers=False).due == due


def test_over_the_whole_run_nothing_is_let_off():
    found = counted(0.02, 30)  # 0.6 reads of each node in a minute
    assert found.row(coverage.CAS_READ, "a-data", found.record.spans[0], answers=False).due == 0
    assert found.row(coverage.CAS_READ, "a-data", None, answers=False).due == 1
    assert found.row(coverage.CAS_READ, "c-data", None, answers=False).due == 0
    short = found.short(coverage.CAS_READ, answers=False)
    assert any("a-data was never asked in the whole run" in each for each in short), short


def test_of_one_wrong_answer_in_ten_one_is_seen_with_95_percent():
    assert 1 - 0.9**coverage.ENOUGH > 0.95 > 1 - 0.9 ** (coverage.ENOUGH - 1)


# -- laws ----------------------------------------------------------------------------------------------

happenings = st.lists(
    st.one_of(
        st.tuples(st.just("probe"), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("steer"), st.none() | st.lists(st.integers(0, 3), max_size=4), st.none()),
    ),
    max_size=30,
)


@given(st.integers(1, 4), happenings)
def test_what_was_in_use_is_replayed_as_the_balancer_has_it(nodes: int, happened):
    names = [f"n{number}" for number in range(nodes)]
    balancer = Balancer(range(nodes), up=2, down=2)
    healthy = dict.fromkeys(names, False)
    steered: list[str] | None = None
    for kind, what, ok in happened:
        if kind == "probe":
            number = what % nodes
            if balancer.observe(number, ok):
                healthy[names[number]] = ok
        else:
            numbers = None if what is None else [number for number in what if number < nodes]
            balancer.steer(numbers)
            steered = None if numbers is None else [names[number] for number in numbers]
        assert tuple(names[number] for number in balancer.in_use) == coverage.in_use(names, healthy, steered)


PASSING: list[Callable[[int], Mutation]] = [
    lambda share: lambda run: setattr(run, "cas", [e for e in run.cas if e["op"] // 2 % share]),
    lambda share: lambda run: setattr(run, "probes", [e for e in run.probes if e["n"] % share]),
    lambda share: lambda run: setattr(run, "driver", [e for n, e in enumerate(run.driver) if n % share]),
]


@pytest.mark.parametrize("loses", PASSING)
@pytest.mark.parametrize("share", [2, 3, 7])
def test_lines_that_are_missing_never_cover_a_node_that_was_not_asked(loses, share: int):
    findings = _stored().changed(moved("read", 0), loses(share)).judged()
    assert counts(findings)["stale.reads"] != "pass"
