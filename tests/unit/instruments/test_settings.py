"""Somebody else changes settings, weights or votes in mid-run: seen, told from our own changes, and what it spoils."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster
from fakes import Log
from synthetic import Behaviour, Chapter, Story, expect, healthy, mixed

from chaos.base.errors import LabError
from chaos.checks import evaluate, validity
from chaos.checks.record import Record
from chaos.faults.ledger import Ledger, moves
from chaos.faults.moves import Move, Reversible
from chaos.history import affects, during
from chaos.history import configuration as events
from chaos.history.format import Outcome
from chaos.instruments import settings as module
from chaos.instruments.controllers import rotations
from chaos.instruments.settings import OWN, Configuration
from chaos.opensearch import administration
from chaos.report.answers import answers

ENABLE = "cluster.routing.allocation.enable"


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster("3az-standby")
    made.indices["chaos"][events.UUID] = "one"
    return made


@pytest.fixture
def watch(cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One that has seen how things are; ``told``: what it says, ``log``: its events, ``ledger``: of the run."""
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.1)
    log, told, ledger = Log(), [], Ledger(tmp_path / "ledger.jsonl")
    made: Any = Configuration(cluster, log, "chaos", partial(moves, ledger.path), told.append)  # type: ignore[arg-type]
    assert made.look()
    made.log, made.told, made.ledger = log, told, ledger
    return made


def intend(watch: Any, operation: str, **arguments: Any) -> None:
    watch.ledger.intend("f1", [Reversible(Move(operation, arguments), None)])


def test_weights_that_controllers_of_ours_never_set_are_somebody_else_s(cluster: FakeCluster, watch: Any) -> None:
    """On a cluster that is not ours the ledger names all that they set; on a lab whatever is set then is theirs."""
    before = {"a": 1, "b": 1, "c": 0}
    intend(watch, "failover.restore", before=before, made=rotations("abc"), canaries=[], votes=[])
    for weights in ({"a": "0", "b": "1", "c": "1"}, {"a": "1", "b": "1", "c": "0"}):
        cluster.weights = weights
        assert watch.look() and watch.told == []
    cluster.decommissioned = {"c": "SUCCESSFUL"}
    assert watch.look() and watch.told == []
    cluster.weights = {"a": "5", "b": "1", "c": "0"}
    assert watch.look() and len(watch.told) == 1 and "weights" in watch.told[0]
    intend(watch, "failover.away", weights=before, canaries=[])
    cluster.weights = {"a": "7", "b": "1", "c": "0"}
    assert watch.look() and len(watch.told) == 1


CHANGES: dict[str, tuple[Callable[[FakeCluster], Any], str]] = {
    "persistent": (
        lambda c: c.persistent.update({ENABLE: "none"}),
        f"somebody else changed the cluster's setting {ENABLE} from unset to none",
    ),
    "transient": (
        lambda c: c.transient.update({ENABLE: "none"}),
        f"somebody else changed the cluster's setting {ENABLE} from unset to none",
    ),
    "index": (
        lambda c: c.indices["chaos"].update({"index.number_of_replicas": "0"}),
        "somebody else changed the load's index's setting index.number_of_replicas from 2 to 0",
    ),
    "unset": (
        lambda c: c.indices["chaos"].pop("index.number_of_replicas"),
        "somebody else changed the load's index's setting index.number_of_replicas from 2 to unset",
    ),
    "weights": (
        lambda c: c.weights.update({"a": "1.0", "b": "0.0"}),
        "somebody else changed the zones' weights from unset to a 1, b 0",
    ),
    "decommission": (
        lambda c: c.decommissioned.update({"c": "SUCCESSFUL"}),
        "somebody else changed which zone is decommissioned from unset to c",
    ),
    "votes": (
        lambda c: c.votes.append("c-cm"),
        "somebody else changed which nodes have no vote from unset to c-cm",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_third_hand_changes_is_told_once(watch: Any, cluster: FakeCluster, change: str) -> None:
    hand, says = CHANGES[change]
    assert watch.look() and watch.told == []
    hand(cluster)
    assert watch.look() and watch.told == [says]
    (event,) = watch.log.of(events.CHANGED)
    assert events.sentence(event) == says and event["since"] > 0
    assert watch.look() and watch.told == [says]


def test_what_a_fault_of_ours_sets_and_restores_is_no_news_and_another_value_is(
    watch: Any, cluster: FakeCluster
) -> None:
    intend(watch, "settings.change", index=None, settings={ENABLE: "primaries"})
    intend(watch, "settings.restore", index=None, changed={ENABLE: "primaries"}, before={ENABLE: None})
    for value in ("primaries", None):
        cluster.persistent = {ENABLE: value} if value else {}
        assert watch.look() and watch.told == []
    cluster.persistent = {ENABLE: "none"}
    assert watch.look() and len(watch.told) == 1
    cluster.indices["chaos"][ENABLE] = "primaries"  # ours is the cluster's, not the index's
    assert watch.look() and len(watch.told) == 2


def test_what_a_phase_lets_others_change_is_written_down_and_ends_nothing(watch: Any, cluster: FakeCluster) -> None:
    watch.allow("roll", [ENABLE])
    for value in ("primaries", None):
        cluster.persistent = {ENABLE: value} if value else {}
        assert watch.look() and watch.told == [] and watch.log.of(events.CHANGED) == []
    seen = [(each["phase"], each["name"], each["before"], each["now"]) for each in watch.log.of(during.SETTING)]
    assert seen == [("roll", ENABLE, None, "primaries"), ("roll", ENABLE, "primaries", None)]
    cluster.persistent = {"other.setting": "1"}
    assert watch.look() and len(watch.told) == 1
    cluster.indices["chaos"][ENABLE] = "primaries"  # the index's is another one
    assert watch.look() and len(watch.told) == 2


def test_what_was_changed_before_the_phase_or_after_it_is_a_third_hand_s(watch: Any, cluster: FakeCluster) -> None:
    cluster.persistent = {ENABLE: "none"}
    watch.allow("roll", [ENABLE])
    assert len(watch.told) == 1
    cluster.persistent = {}
    watch.allow_no_more()  # put back at the end of the phase, and seen before it is over
    assert len(watch.told) == 1 and len(watch.log.of(during.SETTING)) == 1
    cluster.persistent = {ENABLE: "none"}
    assert watch.look() and len(watch.told) == 2


def test_while_nobody_answers_the_last_look_of_the_phase_is_still_to_come(watch: Any, cluster: FakeCluster) -> None:
    watch.allow("roll", [ENABLE])
    cluster.persistent, cluster.dead = {ENABLE: "none"}, {node.name for node in cluster.topology.nodes}
    watch.allow_no_more()
    cluster.dead = set()
    assert watch.look() and watch.told == []
    cluster.persistent = {}
    assert watch.look() and len(watch.told) == 1


@pytest.mark.parametrize("anew", [False, True])
def test_an_index_that_somebody_deletes_is_told_once_whatever_its_successor_is_like(
    watch: Any, cluster: FakeCluster, anew: bool
) -> None:
    successor = {"chaos": {events.UUID: "two", "index.number_of_replicas": "1"}}
    cluster.indices, cluster.tombstones = (successor if anew else {}), ["zero", "one"]
    assert watch.look()
    there = ", and there is a new one of its name" if anew else ""
    assert watch.told == [f"somebody else deleted the load's index{there}"]
    cluster.indices = successor
    assert watch.look() and len(watch.told) == 1
    successor["chaos"]["index.number_of_replicas"] = "0"
    assert watch.look() and len(watch.told) == 2


@pytest.mark.parametrize("anew", [False, True])
def test_an_index_that_the_cluster_lost_is_no_third_hands_doing(watch: Any, cluster: FakeCluster, anew: bool) -> None:
    cluster.indices = {"chaos": {events.UUID: "two"}} if anew else {}
    cluster.tombstones = ["zero"]
    assert watch.look() and watch.told == []


def test_what_a_cluster_forgot_that_formed_anew_is_no_third_hands_doing(watch: Any, cluster: FakeCluster) -> None:
    CHANGES["persistent"][0](cluster)
    assert watch.look() and len(watch.told) == 1
    cluster.uuid, cluster.persistent, cluster.indices, cluster.tombstones = "another", {}, {}, ["one"]
    assert watch.look() and len(watch.told) == 1


def test_while_nobody_says_who_deleted_an_index_it_is_asked_again(
    watch: Any, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: Any, **__: Any) -> bool:
        raise LabError("no answer")

    cluster.indices, cluster.tombstones = {}, ["one"]
    with monkeypatch.context() as patch:
        patch.setattr(administration, "deleted", silent)
        assert not watch.look() and watch.told == []
    assert watch.look() and watch.told == ["somebody else deleted the load's index"]


@pytest.mark.parametrize("operation", ["zone.weights", "zone.recommission", "failover.away"])
def test_zones_that_we_steer_are_left_alone_and_settings_are_not(
    watch: Any, cluster: FakeCluster, operation: str
) -> None:
    intend(watch, operation)
    for change in ("weights", "decommission", "votes"):
        CHANGES[change][0](cluster)
    assert watch.look() and watch.told == []
    CHANGES["persistent"][0](cluster)
    assert watch.look() and len(watch.told) == 1


CLOSED = "somebody else closed and opened the load's index, or changed a setting of it for a moment"


def shut_for_a_moment(cluster: FakeCluster) -> None:
    for verb in ("_close", "_open"):
        assert cluster.answer("b-data", "POST", f"/chaos/{verb}", None)[0] == 200


def test_an_index_that_is_closed_and_opened_between_two_looks_is_told_once(watch: Any, cluster: FakeCluster) -> None:
    shut_for_a_moment(cluster)
    assert watch.look() and watch.told == [CLOSED]
    (event,) = watch.log.of(events.CHANGED)
    assert events.sentence(event) == CLOSED and affects.of(event) is affects.ANYTHING
    assert watch.look() and watch.told == [CLOSED]


def test_a_setting_that_is_changed_and_put_back_between_two_looks_is_told(watch: Any, cluster: FakeCluster) -> None:
    for value in ("0", "2"):
        cluster.answer("b-data", "PUT", "/chaos/_settings", {"index.number_of_replicas": value})
    assert watch.look() and watch.told == [CLOSED]


def test_a_version_that_rose_with_a_setting_is_told_by_the_setting_alone(watch: Any, cluster: FakeCluster) -> None:
    cluster.answer("b-data", "PUT", "/chaos/_settings", {"index.number_of_replicas": "0"})
    assert watch.look() and watch.told == [CHANGES["index"][1]]
    cluster.answer("b-data", "PUT", "/chaos/_settings", {"index.blocks.read_only_allow_delete": "true"})
    assert watch.look() and len(watch.told) == 1


def test_what_a_move_of_ours_set_and_took_back_between_two_looks_is_no_news(watch: Any, cluster: FakeCluster) -> None:
    setting = "index.refresh_interval"
    intend(watch, "settings.change", index="chaos", settings={setting: "30s"})
    intend(watch, "settings.restore", index="chaos", changed={setting: "30s"}, before={setting: None})
    for value in ("30s", None):
        cluster.answer("b-data", "PUT", "/chaos/_settings", {setting: value})
    assert watch.look() and watch.told == []


def test_a_setting_that_changes_between_the_two_requests_of_a_look_explains_the_version(
    watch: Any, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSearch sets one by itself after the settings were read and before their version is."""
    asked = administration.settings_version
    reads = 0

    def version(*how: Any, **options: Any) -> int | None:
        nonlocal reads
        reads += 1
        if reads == 2:  # the first finds the logger, the second is compared
            cluster.answer("b-data", "PUT", "/chaos/_settings", {"index.version.upgraded": "1"})
        return asked(*how, **options)

    monkeypatch.setattr(administration, "settings_version", version)
    cluster.persistent = {"logger.a": "debug"}
    assert watch.look() and [event["name"] for event in watch.log.of(events.CHANGED)] == ["logger.a"]
    assert reads == 3
    assert watch.look() and watch.told == []


@pytest.mark.parametrize("key", sorted(OWN))
def test_what_opensearch_sets_by_itself_is_no_news(watch: Any, cluster: FakeCluster, key: str) -> None:
    (cluster.indices["chaos"] if key.startswith("index.") else cluster.persistent)[key] = "true"
    assert watch.look() and watch.told == []


def test_while_nobody_answers_nothing_is_known_and_afterwards_it_is_seen(watch: Any, cluster: FakeCluster) -> None:
    cluster.dead = {node.name for node in cluster.topology.nodes}
    CHANGES["persistent"][0](cluster)
    assert not watch.look() and watch.told == []
    cluster.dead = set()
    assert watch.look() and len(watch.told) == 1


def test_the_watch_looks_as_it_begins_and_as_it_ends_and_says_how_far_it_saw(watch: Any, cluster: FakeCluster) -> None:
    watch.start()
    CHANGES["votes"][0](cluster)
    watch.stop()
    watch.stop()
    assert len(watch.told) == 1
    (over,) = watch.log.of(events.UNWATCHED)
    assert over["last"] > 0 and over["because"] is None


def test_a_watch_that_breaks_says_so(watch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(module, "read", broken)
    watch.start()
    watch.stop()
    (over,) = watch.log.of(events.UNWATCHED)
    assert over["because"] == "RuntimeError: broken"


# ---- the verdict ------------------------------------------------------------------------------------------

SECOND = 1_000_000_000


def story(
    *mutations: Callable[[list[dict[str, Any]]], None], watched: bool = True, reads: Behaviour | None = None
) -> Story:
    """A slow zone that everything bears, and somebody's hand in its second phase. ``reads``: how they fare then."""
    told = Story(
        name="configuration",
        chapters=[
            Chapter("healthy", 20),
            Chapter("slow", 30, read=reads or healthy()).fault(targets=("a-data", "c-data")),
            Chapter("returned", 20).lift(),
        ],
        expect=[
            expect("read.good", ">=", 0.9, ("healthy",)),
            expect("read.good", ">=", 0.9, ("slow",)),
            expect("shards.moved", "==", 0, ("slow",)),
            expect("acknowledged.lost", "==", 0),
        ],
    )

    def mutate(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
        first = next(int(event["t"]) for event in history if event["kind"] == "load.start")
        last = max(int(event["t"]) for event in history)
        if watched:
            history.append({"t": first, "kind": events.WATCHED})
            history.append({"t": last, "kind": events.UNWATCHED, "last": last, "because": None})
        for each in mutations:
            each(history)
        return sorted(history, key=lambda event: int(event["t"]))

    told.mutate = mutate
    return told


def changed(history: list[dict[str, Any]]) -> None:
    start = next(int(event["t"]) for event in history if event.get("phase") == "slow")
    told = {"scope": "cluster", "name": ENABLE, "before": None, "now": "none"}
    history.append({"t": start + 8 * SECOND, "kind": events.CHANGED, "since": start + 3 * SECOND, **told})


def over(**given: Any) -> Callable[[list[dict[str, Any]]], None]:
    def mutation(history: list[dict[str, Any]]) -> None:
        next(event for event in history if event["kind"] == events.UNWATCHED).update(given)

    return mutation


def recorded(
    *mutations: Callable[[list[dict[str, Any]]], None],
    watched: bool = True,
    reads: Behaviour | None = None,
    readback: Mapping[str, Any] | None = None,
) -> Any:
    """The history of :func:`story`, whose plan says that the watch must be there. ``readback``: what it says else."""
    told = story(*mutations, watched=watched, reads=reads)
    assert told.readback is not None
    told.readback |= readback or {}
    history = told.history()
    history.plan["configuration_watched"] = True
    return history


def test_nobody_changed_anything_and_the_run_passes() -> None:
    findings = evaluate(recorded())
    assert findings.outcome == "pass", findings.reasons


def test_a_third_hand_spoils_what_came_after_and_is_the_headline() -> None:
    history = recorded(changed)
    findings = evaluate(history)
    assert findings.outcome == "inconclusive"
    assert f"somebody else changed the cluster's setting {ENABLE} from unset to none" in findings.summary
    assert "between 23.0 s and 28.0 s of the run" in findings.summary
    (do,) = [each for each in answers(Record(history), findings.to_json()) if each.question == "What to do?"]
    assert do.answer == "Find out who else works on the cluster, then run it again"
    counts = {(finding.metric, finding.phase): finding.counts_as for finding in findings.findings}
    assert counts["read.good", "healthy"] == "pass"  # it was over before
    assert counts["read.good", "slow"] == counts["shards.moved", "slow"] == "inconclusive"


LOSING = {"lost": ["w-1"], "lost_count": 1, "unexpected": ["w-999999"], "unexpected_count": 1}


@pytest.mark.parametrize(("hand", "outcome"), [((), "weakness"), ((changed,), "inconclusive")])
def test_a_broken_promise_is_the_clusters_unless_a_third_hand_may_have_broken_it(
    hand: tuple[Any, ...], outcome: str
) -> None:
    findings = evaluate(recorded(*hand, readback=LOSING))
    (lost,) = [finding for finding in findings.findings if finding.metric == "acknowledged.lost"]
    assert (findings.outcome, lost.counts_as, lost.measure.value) == (outcome, outcome, 1)
    said = [reason for reason in findings.reasons if "should not be there" in reason.says]
    assert len(said) == (not hand)


REFUSED = Outcome.CLIENT_ERROR


def test_requests_that_are_refused_since_a_third_hand_are_not_our_mistake() -> None:
    history = recorded(changed, reads=mixed((4, 30, 1.0, REFUSED, 0.01)))
    findings = evaluate(history)
    assert validity.client_errors(Record(history)) == 0
    assert findings.outcome == "inconclusive" and findings.validity["client_errors"] == 0
    assert f"somebody else changed the cluster's setting {ENABLE}" in findings.summary


@pytest.mark.parametrize("hand", [(), (changed,)])
def test_requests_that_are_refused_before_any_third_hand_are_our_mistake(hand: tuple[Any, ...]) -> None:
    history = recorded(*hand, reads=mixed((1, 2, 1.0, REFUSED, 0.01), (4, 30, 1.0 if hand else 0.0, REFUSED, 0.01)))
    findings = evaluate(history)
    assert findings.outcome == "error"
    assert 0 < findings.validity["client_errors"] < 2 * 100
    assert "refused as wrong (4xx)" in findings.summary


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"because": "RuntimeError: broken"}, "nobody watched whether somebody else"),
        ({"last": None}, "Nobody could look whether somebody else"),
        ({"last": 1}, "Nobody looked again"),
    ],
)
def test_a_watch_that_saw_nothing_proves_nothing(given: dict[str, Any], says: str) -> None:
    findings = evaluate(recorded(over(**given)))
    assert findings.outcome == "inconclusive"
    assert any(says in reason.says for reason in findings.reasons)


def test_where_no_node_answers_in_the_end_nobody_could_have_looked_again() -> None:
    history = recorded(over(last=1))
    assert [gap.says for gap in module.gaps(Record(history))]
    [event for event in history.events if event["kind"] == "sample"][-1]["ok"] = 0
    assert module.gaps(Record(history)) == ()


def test_without_a_watch_nothing_passes_and_old_records_are_as_they_were() -> None:
    assert evaluate(story(watched=False).history()).outcome == "pass"
    findings = evaluate(recorded(watched=False))
    assert findings.outcome == "inconclusive"
    assert any("Nobody watched whether somebody else" in reason.says for reason in findings.reasons)
