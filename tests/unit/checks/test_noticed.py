"""Green of a cluster that had not noticed the fault yet is no pass, and no weakness where it could not be green."""

from __future__ import annotations

from typing import Any

import pytest
from synthetic import T0, Chapter, S, Story, expect

from chaos.checks import Findings, Outcome, evaluate
from chaos.checks.verdict import Finding
from chaos.statistics.facts import metrics

BOUND = 34.0
AT = 20.0
"""When the phase that waits for green begins (s)."""


def dark(seconds: float, *, reason: str | None = None, **end: Any) -> Story:
    """A drop around zone c whose own phase waits for green, and ends after ``seconds``."""
    found = Story(rules=2, expect=[expect("read.good", ">=", 0.9, ("healthy", "dark"))])
    found.chapters = [
        Chapter("healthy", AT),
        Chapter("dark", seconds, until={"green": True, "stable": 0.0, "within": 180.0}, reason=reason, end=end).fault(
            kind="network.drop", says="packets vanish"
        ),
        Chapter("returned", 30.0).lift(),
    ]
    return found


def notice(made: float = 1.3, seconds: float = BOUND, fault: str = "f1") -> dict[str, Any]:
    since = T0 + round((AT + 0.01) * S)
    return {
        "notices": [{"fault": fault, "since": since, "made": since + round(made * S), "seconds": seconds}],
        "away": {},
    }


def finding(story: Story) -> Finding:
    found: Findings = evaluate(story.history())
    (until,) = [each for each in found.findings if each.metric == "until"]
    return until


def until(story: Story) -> tuple[str, str]:
    return finding(story).counts_as.value, finding(story).says


def test_a_drop_that_is_green_after_a_second_and_a_half_is_no_pass() -> None:
    """As found: ``inject: network.drop`` with ``until: {green: true}`` passed after 1.6 s."""
    counts, says = until(dark(1.6, **notice()))
    assert counts == "inconclusive"
    assert "no node was seen to leave and no copy to be missing after “packets vanish”" in says
    assert "may take 34 s to notice" in says
    assert evaluate(dark(1.6, **notice()).history()).outcome is Outcome.INCONCLUSIVE


def test_green_that_came_before_it_was_noticed_may_be_worse_than_it_was_measured() -> None:
    found = dark(1.6, **notice())
    assert finding(found).may_be_worse and "until@dark" not in metrics(evaluate(found.history()).to_json())
    assert not finding(dark(36, **notice())).may_be_worse


def test_runs_of_before_are_judged_as_before() -> None:
    story = dark(1.6)
    story.rules = 1
    assert until(story)[0] == "pass"


def test_green_after_the_time_in_which_it_must_have_been_noticed_counts() -> None:
    assert until(dark(36, **notice()))[0] == "pass"
    assert until(dark(34, **notice()))[0] == "inconclusive"


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("cluster.node_left", {"node": "c-data", "zone": "c"}),
        ("cluster.status", {"status": "yellow"}),
        ("cluster.status", {"status": "red"}),
    ],
)
def test_green_after_the_cluster_was_seen_to_notice_counts(kind: str, fields: dict[str, Any]) -> None:
    story = dark(10, **notice())
    story.chapters[1].event(4.0, kind, **fields)
    assert until(story)[0] == "pass"


@pytest.mark.parametrize(
    ("at", "kind", "fields"),
    [
        (-3.0, "cluster.node_left", {"node": "c-data", "zone": "c"}),  # before the fault
        (4.0, "cluster.node_joined", {"node": "c-data", "zone": "c"}),
        (4.0, "cluster.status", {"status": "green"}),
        (4.0, "cluster.status", {"status": "unknown"}),
        (4.0, "cluster.leader", {"leader": "c-cm"}),  # the same as before
        (4.0, "cluster.leader", {"leader": "b-cm"}),  # its first state still has all nodes
        (4.0, "sample", {"ok": 0, "led": 0}),  # nobody answered
    ],
)
def test_what_is_no_sign_of_it_is_none(at: float, kind: str, fields: dict[str, Any]) -> None:
    story = dark(10, **notice())
    story.chapters[1].event(at, kind, **fields)
    assert until(story)[0] == "inconclusive"


@pytest.mark.parametrize(
    ("end", "seconds"),
    [
        ({}, 100.0),
        ({"notices": [], "away": {}}, 100.0),
        (notice(fault="f9"), 100.0),
        (notice(seconds=0.0), 100.0),
        (notice(made=-30.0, seconds=1.0), 0.9),  # said to be made before its command
    ],
    ids=["no record", "emptied", "another fault", "no time at all", "too early"],
)
def test_a_record_that_does_not_say_it_passes_nothing(end: dict[str, Any], seconds: float) -> None:
    """The fault's own command is in the record as well."""
    assert until(dark(seconds, **end))[0] == "inconclusive"


def test_a_drop_that_was_undone_before_it_was_noticed_lingers() -> None:
    story = dark(8.0)
    story.chapters[1].until = None
    story.chapters[2].until = {"green": True, "stable": 0.0, "within": 180.0}
    for seconds, counts in ((10.0, "inconclusive"), (30.0, "pass")):
        story.chapters[2].seconds, story.chapters[2].end = seconds, notice()
        assert until(story)[0] == counts


def test_where_our_own_fault_kept_nodes_out_a_deadline_is_no_weakness() -> None:
    end = {**notice(), "away": {"f1": ["c-cm", "c-data"]}}
    story = dark(180, reason="deadline", **end)
    story.chapters[1].event(33.0, "cluster.node_left", node="c-data", zone="c")
    story.chapters[1].event(33.0, "cluster.status", status="yellow")
    counts, says = until(story)
    assert counts == "inconclusive"
    assert "“packets vanish” kept c-cm and c-data out of the cluster all the time" in says


def test_green_while_a_fault_of_ours_keeps_nodes_out_is_a_stale_view() -> None:
    """As seen: the leader applies a state last, and showed the nodes that had left for up to 30 s."""
    end = {**notice(), "away": {"f1": ["c-cm", "c-data"]}}
    story = dark(40, **end)
    story.chapters[1].event(36.0, "cluster.node_left", node="c-data", zone="c")
    story.chapters[1].event(36.0, "cluster.status", status="yellow")
    story.chapters[1].event(36.6, "cluster.status", status="green")
    counts, says = until(story)
    assert counts == "inconclusive" and "so what was green was not this cluster as it was" in says


def test_where_nothing_of_ours_did_it_is_one() -> None:
    story = dark(180, reason="deadline", **notice())
    story.chapters[1].event(33.0, "cluster.status", status="yellow")
    assert until(story)[0] == "weakness"


def test_what_had_no_node_at_a_deadline_is_said_with_why() -> None:
    why = ["replica of chaos 0: its last attempt to start failed (lock held)", "replica of chaos 1: NODE_LEFT"]
    why += ["x", "y"]
    story = dark(180, reason="deadline", **notice(), unplaced=why)
    story.chapters[1].event(33.0, "cluster.status", status="yellow")
    counts, says = until(story)
    assert counts == "weakness" and f"4 copies without a node: {why[0]}; {why[1]}" in says and "; x" not in says


def test_a_deadline_before_it_could_be_noticed_is_no_weakness_while_all_is_green() -> None:
    counts, says = until(dark(20, reason="deadline", **notice()))
    assert counts == "inconclusive" and "the cluster was green at the end" in says


# ----------------------------------------------------------------------------------- no phase before the fault


def steady(story: Story) -> list[dict[str, Any]]:
    return [each for each in evaluate(story.history()).validity["checks"] if each["id"].startswith("steady.")]


def at_once() -> Story:
    """A fault in the first phase."""
    found = Story(rules=2, expect=[expect("read.good", ">=", 0.9, ("dark",))])
    found.chapters = [Chapter("dark", 30.0).fault(kind="node.kill", says="kill"), Chapter("returned", 30.0).lift()]
    return found


def test_a_steady_state_that_was_not_measured_is_shown_and_spoils_nothing() -> None:
    found = steady(at_once())
    assert [each["id"] for each in found] == ["steady.read", "steady.write"]
    for each in found:
        assert each["measured"] == "not measured: no phase before the first fault"
        assert each["ok"] is True and each["due"] is False
    judged = evaluate(at_once().history())
    assert judged.outcome is Outcome.PASS and judged.validity["valid"]


def test_under_the_rules_of_before_it_is_not_shown() -> None:
    story = at_once()
    story.rules = 1
    assert steady(story) == []


def test_one_that_was_measured_is_as_ever() -> None:
    for each in steady(dark(36, **notice())):
        assert each["ok"] is True and "due" not in each and each["measured"].endswith("%")
