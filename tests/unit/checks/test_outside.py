"""Who is to blame, and what stands beside it (rules 2): requests refused as wrong, settings that somebody changes,
documents that are not ours, links that somebody switches off, searches that somebody cancels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from mutations import Event, Mutation, S, Stored, counts
from synthetic import Chapter, Compared, Probed, Story, expect

from chaos.base.errors import Exit
from chaos.checks import Findings, Outcome, evaluate
from chaos.checks import cancelled as cancelled_check
from chaos.checks.stale_replicas import one_replica_never_copied_what_its_primary_has, replicas_were_awaited
from chaos.checks.trial import read_back
from chaos.history import affects, cancelled, configuration, passages
from chaos.history.affects import TABLE, Affects
from chaos.history.format import Outcome as Arrival

REFUSED = Arrival.CLIENT_ERROR
WINDOW = (
    "Result window is too large, from + size must be less than or equal to: [5] but was [10]. This limit can be set by "
    "changing the [index.max_result_window] index level setting."
)
INTERVAL = "cluster.info.update.interval"


@cache
def _kept(rules: int) -> Stored:
    """A run under which a zone is slow, and that kept every promise."""
    story = Story(
        name="outside",
        rules=rules,
        chapters=[
            Chapter("healthy", 20),
            Chapter("slow", 30).fault(targets=("a-data", "c-data")),
            Chapter("returned", 20).lift(),
        ],
        expect=[
            *(expect("read.good", ">=", 0.9, (phase,)) for phase in ("healthy", "slow", "returned")),
            *(expect("write.good", ">=", 0.9, (phase,)) for phase in ("healthy", "slow", "returned")),
            expect("acknowledged.lost", "==", 0),
            expect("documents.unexpected", "==", 0),
            expect("cas.violations", "==", 0),
            expect("stale.reads", "==", 0),
        ],
        cas=Compared(),
        visibility=Probed(),
    )
    run = Stored.of(story.history())
    first, last = run.origin, max(int(event["t"]) for event in run.events)
    run.plan |= {"configuration_watched": True, "passages_watched": rules >= 2}
    run.events += [
        {"t": first, "kind": configuration.WATCHED},
        {"t": last, "kind": configuration.UNWATCHED, "last": last, "because": None},
    ]
    if rules >= 2:
        run.events += [
            {"t": first, "kind": passages.WATCHED},
            {"t": last, "kind": passages.UNWATCHED, "host": "client-a", "last": last, "because": None},
        ]
    return run


def judged(*mutations: Mutation, rules: int = 2) -> Findings:
    return _kept(rules).changed(*mutations).judged()


def says(findings: Findings, outcome: Outcome) -> list[str]:
    return [reason.says for reason in findings.reasons if reason.outcome is outcome]


def test_a_run_that_kept_its_promises_passes_under_both_rules() -> None:
    assert [judged(rules=rules).outcome for rules in (1, 2)] == [Outcome.PASS] * 2


# ---- 4xx ----------------------------------------------------------------------------------------------------


def some_searches(number: int, first: int = 500) -> Mutation:
    """So many reads got 404 after others had been accepted."""
    return lambda run: run.answer(run.rows("read", "healthy")[first : first + number], REFUSED, 0.01)


def every_search(run: Stored) -> None:
    for phase in ("healthy", "slow", "returned"):
        run.answer(run.rows("read", phase), REFUSED, 0.01)


def said_so(run: Stored, status: int = 400, type_: str = "illegal_argument_exception", reason: str = WINDOW) -> None:
    event = {"t": run.origin + S, "kind": "answer.error", "op": "read", "status": status, "node": "a-data"}
    run.driver.append({**event, "type": type_, "reason": reason})
    whole = {"type": "search_phase_execution_exception", "reason": "all shards failed"}
    run.driver.append({**event, "t": run.origin + S, **whole})


def forged(run: Stored) -> None:
    """Thirty-six acknowledged writes are on no copy."""
    assert run.readback is not None
    run.readback |= {"lost": [f"w-{2 * n + 401}" for n in range(36)], "lost_count": 36}


def test_one_search_answered_404_does_not_hide_36_lost_writes() -> None:
    assert judged(forged, some_searches(1), rules=1).outcome is Outcome.ERROR
    findings = judged(forged, some_searches(1))
    assert (findings.outcome, findings.exit_code) == (Outcome.WEAKNESS, Exit.WEAKNESS)
    assert "36 acknowledged writes were lost" in findings.headline
    assert findings.validity["client_errors"] == 0


@pytest.mark.parametrize("first", [0, 500, 1999])
def test_a_stray_refusal_among_thousands_is_a_request_that_was_not_good(first: int) -> None:
    findings = judged(some_searches(1, first))
    assert findings.outcome is Outcome.PASS
    assert findings.tables["availability"]["read"]["semantics"]["healthy"]["client_error"] == 1


def test_a_setting_of_the_user_s_own_that_refuses_every_search_is_an_error_that_names_it() -> None:
    findings = judged(every_search, said_so)
    assert (findings.outcome, findings.exit_code) == (Outcome.ERROR, Exit.ERROR)
    (error,) = says(findings, Outcome.ERROR)
    assert error.startswith("All 7\u00a0000 reads of the load were refused as wrong from the start")
    assert "because of index.max_result_window" in error and "HTTP 400, illegal_argument_exception" in error
    assert "index.max_result_window" in findings.headline and "all shards failed" not in error


def test_what_was_found_about_data_stands_beside_an_error_and_in_its_headline() -> None:
    findings = judged(every_search, said_so, forged)
    assert findings.outcome is Outcome.ERROR
    assert "36 acknowledged writes were lost" in findings.headline
    assert counts(findings)["acknowledged.lost"] == "weakness"
    assert any("acknowledged.lost" in each for each in says(findings, Outcome.WEAKNESS))


def test_searches_that_are_refused_after_they_had_been_accepted_are_the_cluster_s() -> None:
    def refused(run: Stored) -> None:
        run.hit("read", "slow", 2, 28, outcome=REFUSED, seconds=0.01)

    assert judged(refused, rules=1).outcome is Outcome.ERROR
    findings = judged(refused)
    assert findings.outcome is Outcome.WEAKNESS and counts(findings)["read.good@slow"] == "weakness"
    assert says(findings, Outcome.ERROR) == []


def test_refused_until_the_warm_up_s_end_and_then_accepted_is_an_error_of_those() -> None:
    def late(run: Stored) -> None:
        run.hit("read", "healthy", 0, 10, outcome=REFUSED, seconds=0.01)

    (error,) = says(judged(late), Outcome.ERROR)
    assert (
        error == "1\u00a0000 of 7\u00a0000 reads of the load were refused as wrong before the first was accepted (4xx)"
    )


def test_writes_are_judged_by_writes_and_not_by_reads() -> None:
    def no_write(run: Stored) -> None:
        for phase in ("healthy", "slow", "returned"):
            run.answer(run.rows("write", phase), REFUSED, 0.01)

    (error,) = says(judged(no_write), Outcome.ERROR)
    assert error.startswith("All 7\u00a0000 writes of the load were refused as wrong from the start")


def test_a_refusal_while_an_instrument_was_paused_is_forgivable_as_any_other_failure() -> None:
    """A verdict that hangs on it is inconclusive; under rules 1 it was never a failure."""

    def paused(run: Stored) -> None:
        start, end = run.moment("slow", 5.0), run.moment("slow", 9.0)
        next(e for e in run.driver if e["kind"] == "self" and e["t"] > end)["pulse"]["own"] = [[start, end]]
        run.hit("read", "slow", 5, 9, outcome=REFUSED, seconds=0.02)

    assert counts(judged(paused))["read.good@slow"] == "inconclusive"


@pytest.mark.parametrize("how", ["a check broke", "the runner failed", "a guard"])
def test_no_other_end_of_a_run_hides_lost_writes(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(run: Stored) -> None:
        if how == "the runner failed":
            run.add("returned", 19, "error", says="the disk is full")
        elif how == "a guard":
            run.add("returned", 19, "guard.tripped", guard="max", says="too long")

    if how == "a check broke":
        broken = lambda *_: 1 / 0  # noqa: E731
        monkeypatch.setattr("chaos.checks.availability.measure_slices", broken)
    run = _kept(2).changed(forged, end)
    if how == "a check broke":
        run.plan["experiment"]["expect"].append(expect("read.slices", ">=", 0.9, ("slow",)))
    findings = evaluate(run.history())
    assert findings.outcome is (Outcome.ABORTED if how == "a guard" else Outcome.ERROR)
    assert "36 acknowledged writes were lost" in findings.headline


# ---- settings -----------------------------------------------------------------------------------------------


def changed(name: str, scope: str = "cluster", phase: str = "returned", at: float = 14.0) -> Mutation:
    def change(run: Stored) -> None:
        since = run.moment(phase, at - 1)
        told = {"scope": scope, "name": name, "before": None, "now": "10s", "since": since}
        run.add(phase, at, configuration.CHANGED, **told)

    return change


def violated(begin: float, end: float) -> Mutation:
    """Compare-and-set: two acknowledged over one version, for each loser of a pair in that time (s)."""

    def violate(run: Stored) -> None:
        asked = {line["op"]: line for line in run.cas if line["kind"] == "invoke"}
        for line in run.cas:
            if line.get("status") == 409 and begin <= (line["t"] - run.origin) / S < end:
                version = {"seq_no": 101 + (line["op"] - 1) // 4, "primary_term": 1}
                line |= {"kind": "ok", "outcome": "ok", "status": 200, **version}
                assert asked[line["op"]]["f"] == "cas"

    return violate


def test_a_harmless_change_six_seconds_before_the_end_erases_nothing() -> None:
    """27 lost writes and 38 violations, and then somebody changes how often disks are looked at."""

    def lost(run: Stored) -> None:
        assert run.readback is not None
        run.readback |= {"lost": [f"w-{2 * n + 1}" for n in range(27)], "lost_count": 27}

    hand = changed(INTERVAL)
    assert judged(lost, violated(5, 12.6), hand, rules=1).outcome is Outcome.INCONCLUSIVE
    findings = judged(lost, violated(5, 12.6), hand)
    assert findings.outcome is Outcome.WEAKNESS and findings.reasons[0].outcome is Outcome.WEAKNESS
    assert says(findings, Outcome.INCONCLUSIVE) == []
    found = {finding.metric: finding for finding in findings.findings}
    assert found["acknowledged.lost"].measure.value == 27
    assert found["cas.violations"].measure.value == 38
    assert "into the run" in found["acknowledged.lost"].says  # when they were acknowledged


def test_a_harmless_change_spoils_no_pass_either() -> None:
    assert judged(changed("logger.org.opensearch.cluster")).outcome is Outcome.PASS
    assert judged(changed("index.search.slowlog.threshold.query.warn", "index")).outcome is Outcome.PASS


@pytest.mark.parametrize("name", ["cluster.routing.allocation.enable", "index.translog.durability", "who.knows.what"])
def test_what_was_seen_before_a_change_stands_and_a_loss_that_it_may_have_caused_does_not(name: str) -> None:
    findings = judged(violated(5, 12.6), forged, changed(name))
    counted = counts(findings)
    assert counted["cas.violations"] == "weakness" and findings.outcome is Outcome.WEAKNESS
    assert counted["acknowledged.lost"] == "inconclusive"
    assert counted["read.good@slow"] == "pass" and counted["read.good@returned"] == "inconclusive"
    (violations,) = [finding for finding in findings.findings if finding.metric == "cas.violations"]
    assert violations.says.startswith("≥ 38 were seen by 63.0 s of the run, before this: Somebody else changed")


def test_violations_after_the_change_are_not_laid_at_the_cluster_s_door() -> None:
    findings = judged(violated(64, 68), changed("who.knows.what", at=1.0))
    assert counts(findings)["cas.violations"] == "inconclusive" and findings.outcome is Outcome.INCONCLUSIVE


def test_of_violations_on_both_sides_of_a_change_those_before_it_count() -> None:
    both = judged(violated(5, 7), violated(64, 68), changed("who.knows.what", at=1.0))
    before = judged(violated(5, 7))
    values = {f.metric: f.measure.value for f in both.findings}, {f.metric: f.measure.value for f in before.findings}
    assert values[0]["cas.violations"] == values[1]["cas.violations"] == 10


def test_a_change_of_how_searches_are_answered_loses_no_document() -> None:
    findings = judged(forged, changed("search.max_buckets"))
    counted = counts(findings)
    assert counted["acknowledged.lost"] == "weakness" and counted["read.good@returned"] == "inconclusive"
    assert counted["documents.unexpected"] == counted["cas.violations"] == "pass"
    assert "acknowledged writes were lost" in findings.headline
    weights = judged(forged, changed("weights", "zones"))
    assert counts(weights)["acknowledged.lost"] == "weakness"


def test_an_index_that_somebody_deletes_excuses_its_lost_documents_whatever_else_was_harmless() -> None:
    findings = judged(forged, changed(INTERVAL, at=2.0), changed(configuration.UUID, "index"))
    assert counts(findings)["acknowledged.lost"] == "inconclusive"
    assert "deleted the load's index" in findings.headline


def test_stale_reads_that_were_seen_before_a_change_stand() -> None:
    def stale(run: Stored) -> None:
        at = run.moment("slow", 4)
        run.stale += [{"t": at + n, "kind": "stale", "k": n, "op": "read", "node": "a-data"} for n in range(3)]

    found = {f.metric: f for f in judged(stale, changed("who.knows.what")).findings}
    assert found["stale.reads"].counts_as.value == "weakness" and found["stale.reads"].measure.value == 3


@pytest.mark.parametrize(
    ("replicas", "read", "promised"), [(0, 0, False), (0, 3, True), (1, 0, True), ("0", 0, False), (None, 0, True)]
)
def test_where_no_replica_was_wanted_nothing_is_promised_of_replicas(replicas: Any, read: int, promised: bool) -> None:
    def planned(run: Stored) -> None:
        index = run.plan["topology"]["settings"].setdefault("index", {})
        index.pop("number_of_replicas", None)
        index |= {} if replicas is None else {"number_of_replicas": replicas}
        read_back(run, replicas_count=read)

    findings = judged(replicas_were_awaited, planned)
    assert ("replicas.stale" in counts(findings)) is promised


def cut_between(client: str | None) -> Mutation:
    def cut(run: Stored) -> None:
        told = {"host": "b-data", "client": client, "proxy": "in-b-data", "what": "enabled"}
        since = run.moment("slow", 3)
        run.add("slow", 4, passages.CHANGED, **told, before="on", now="off", since=since)

    return cut


@pytest.mark.parametrize(
    ("doing", "stale"),
    [
        (changed("indices.replication.max_bytes_per_sec"), "inconclusive"),
        (changed("who.knows.what"), "inconclusive"),
        (cut_between(None), "inconclusive"),
        (cut_between("a"), "weakness"),  # who keeps clients from the cluster keeps no replica from copying
        (changed("search.max_buckets"), "weakness"),
        (lambda run: None, "weakness"),
    ],
)
def test_whose_doing_replicas_are_that_stay_behind(doing: Mutation, stale: str) -> None:
    """Who stops copying by a setting, or on a link between nodes, has them stay behind; lost writes are none of his."""
    findings = judged(replicas_were_awaited, one_replica_never_copied_what_its_primary_has, doing)
    assert counts(findings)["replicas.stale"] == stale
    assert (findings.outcome is Outcome.WEAKNESS) == (stale == "weakness")
    lost = judged(forged, replicas_were_awaited, changed("indices.replication.max_bytes_per_sec"))
    assert counts(lost)["acknowledged.lost"] == "weakness"


def test_the_table_says_what_each_setting_affects_and_where_that_is_written() -> None:
    begins = [row.begins for row in TABLE]
    assert len(set(begins)) == len(begins) and all(row.source for row in TABLE)
    told: Callable[[str, str], Affects] = lambda scope, name: affects.of({"scope": scope, "name": name})  # noqa: E731
    assert told("cluster", INTERVAL) is told("cluster", "logger.level") is Affects.NOTHING
    assert told("cluster", "search.phase_took_enabled") is Affects.NOTHING
    assert told("cluster", "search.max_buckets") is Affects.AVAILABILITY
    assert told("cluster", "cluster.routing.allocation.enable") is Affects.PLACEMENT
    assert told("zones", "votes") is told("zones", "decommissioned") is Affects.PLACEMENT
    assert told("index", "index.translog.durability") is told("index", configuration.UUID) is affects.ANYTHING
    assert told("elsewhere", INTERVAL) is told("cluster", "who.knows") is affects.ANYTHING


# ---- documents that are not ours ----------------------------------------------------------------------------


def unexpected(*ids: str, **more: Any) -> Mutation:
    def there(run: Stored) -> None:
        assert run.readback is not None
        run.readback |= {"unexpected": list(ids), "unexpected_count": len(ids), **more}

    return there


@pytest.mark.parametrize("asked", [True, False])
def test_three_documents_with_ids_that_are_not_ours_are_somebody_else_s(asked: bool) -> None:
    def not_asked(run: Stored) -> None:
        expected = run.plan["experiment"]["expect"]
        run.plan["experiment"]["expect"] = [e for e in expected if asked or e["metric"] != "documents.unexpected"]

    three = unexpected("abc", "1", "w-01")
    assert judged(three, not_asked, rules=1).outcome is Outcome.WEAKNESS
    findings = judged(three, not_asked)
    assert findings.outcome is Outcome.INCONCLUSIVE
    assert "3 documents with ids that are not ours (abc, 1 and w-01)" in findings.headline
    assert counts(findings)["acknowledged.lost"] == "pass"


def test_searches_that_find_what_an_external_actor_wrote_are_not_the_cluster_s() -> None:
    def found(run: Stored) -> None:
        run.answer(run.rows("read", "slow", share=0.5), Arrival.WRONG, 0.01)

    clean = judged(found)
    assert clean.outcome is Outcome.WEAKNESS and counts(clean)["wrong.answers"] == "weakness"
    assert counts(clean)["read.good@slow"] == "weakness"
    findings = judged(found, unexpected("abc"))
    assert findings.outcome is Outcome.INCONCLUSIVE
    assert counts(findings)["read.good@slow"] == counts(findings)["wrong.answers"] == "inconclusive"
    assert "1 document with an id that is not ours (abc)" in findings.headline

    def failed(run: Stored) -> None:
        run.hit("read", "slow", share=0.5)

    assert counts(judged(failed, unexpected("abc")))["read.good@slow"] == "weakness"  # no document does that


@pytest.mark.parametrize("id", ["w-999999", "p-5000", "v-77777", "c-9"])
def test_ids_that_are_ours_and_were_never_sent_stay_the_cluster_s(id: str) -> None:
    findings = judged(unexpected(id, "abc"))
    assert findings.outcome is Outcome.WEAKNESS and counts(findings)["documents.unexpected"] == "weakness"
    (finding,) = [finding for finding in findings.findings if finding.metric == "documents.unexpected"]
    assert finding.measure.value == 1 and "1 document with an id that is not ours (abc)" in finding.says


def test_a_resurrected_document_and_lost_ones_stand_beside_those_of_somebody_else() -> None:
    both = unexpected("abc", resurrected=["w-3"], resurrected_count=1)
    assert counts(judged(both))["documents.unexpected"] == "weakness"
    assert counts(judged(unexpected("abc"), forged))["acknowledged.lost"] == "weakness"


def test_of_more_than_are_named_the_read_back_s_own_count_decides() -> None:
    many = [f"x-{n}" for n in range(1000)]
    assert judged(unexpected(*many, unexpected_count=5000)).outcome is Outcome.INCONCLUSIVE
    mixed = judged(unexpected(*many, unexpected_count=5000, strangers_count=4998))
    (finding,) = [finding for finding in mixed.findings if finding.metric == "documents.unexpected"]
    assert finding.measure.value == 2 and mixed.outcome is Outcome.WEAKNESS


# ---- links --------------------------------------------------------------------------------------------------


def switched_off(phase: str = "slow", at: float = 10.0) -> Mutation:
    """A proxy of zone a's clients, for five seconds, while a fault of ours holds elsewhere: half the requests fail."""

    def hand(run: Stored) -> None:
        told = {"host": "client-a", "client": "a", "proxy": "in-a-data", "what": "enabled"}
        run.add(phase, at, passages.CHANGED, **told, before="on", now="off", since=run.moment(phase, at - 1))
        run.add(phase, at + 5, passages.CHANGED, **told, before="off", now="on", since=run.moment(phase, at + 4))
        for op in ("read", "write"):
            run.hit(op, phase, at, at + 5, client="client-a", outcome=Arrival.REFUSED, seconds=0.005)
            run.hit(op, phase, at, at + 5, client="client-b", outcome=Arrival.REFUSED, seconds=0.005)

    return hand


def test_a_proxy_that_somebody_switches_off_while_a_fault_of_ours_holds_elsewhere_is_named() -> None:
    assert judged(switched_off(), rules=1).outcome is Outcome.WEAKNESS
    findings = judged(switched_off())
    counted = counts(findings)
    assert findings.outcome is Outcome.INCONCLUSIVE
    assert "Nothing proven: somebody else switched off the proxy in-a-data of client zone a" in findings.headline
    assert counted["read.good@healthy"] == "pass" and counted["read.good@slow"] == "inconclusive"


def test_writes_that_are_lost_then_are_lost_all_the_same() -> None:
    assert counts(judged(switched_off(), forged))["acknowledged.lost"] == "weakness"


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({"because": "RuntimeError: broken"}, "From some time on nobody watched whether somebody else"),
        ({"last": None}, "The Toxiproxy of client-a never said what it lets pass"),
        ({"last": 1}, "From some time on the Toxiproxy of client-a did not say what it lets pass"),
    ],
)
def test_a_watch_over_links_that_saw_nothing_proves_nothing(over: dict[str, Any], words: str) -> None:
    findings = judged(lambda run: run.of_kind(passages.UNWATCHED)[0].update(over))
    assert findings.outcome is Outcome.INCONCLUSIVE and findings.reasons[0].says.startswith(words)
    assert judged(lambda run: run.drop(passages.WATCHED)).outcome is Outcome.INCONCLUSIVE


# ---- cancelled searches ---------------------------------------------------------------------------------------

BY_REQUEST = "cancelled task with reason: by user request"


def cancelled_searches(reason: str | None, phase: str = "slow", type_: str = cancelled.TYPE) -> Mutation:
    """For ten seconds four in five of the reads are answered by an error, and the driver counts of which type."""

    def cancel(run: Stored) -> None:
        run.hit("read", phase, 10, 20, share=0.8, outcome=Arrival.SERVER_ERROR, seconds=0.02)
        for event in run.driver:
            if event["kind"] == "self" and run.moment(phase, 10) < event["t"] <= run.moment(phase, 20):
                event["errors"] = [["read", 500, type_, reason, 80]]

    return cancel


def test_searches_that_somebody_cancels_in_a_loop_are_neither_a_weakness_nor_a_pass() -> None:
    assert judged(cancelled_searches(BY_REQUEST), rules=1).outcome is Outcome.WEAKNESS
    findings = judged(cancelled_searches(BY_REQUEST))
    assert findings.outcome is Outcome.INCONCLUSIVE
    assert "Nothing proven: somebody else cancelled tasks of the cluster (_tasks/_cancel): 800 answers to reads" in (
        findings.headline
    )
    assert counts(findings)["read.good@healthy"] == "pass"


def test_what_the_cluster_cancels_of_itself_is_its_own() -> None:
    own = judged(cancelled_searches("cancelled task with reason: cpu usage exceeded [#s >= #s]"))
    assert own.outcome is Outcome.WEAKNESS and says(own, Outcome.INCONCLUSIVE) == []
    other = judged(cancelled_searches(None, type_="circuit_breaking_exception"))
    assert other.outcome is Outcome.WEAKNESS and says(other, Outcome.INCONCLUSIVE) == []


def test_an_unknown_reason_leaves_open_who_it_was() -> None:
    findings = judged(cancelled_searches("The query has been cancelled"))
    assert findings.outcome is Outcome.INCONCLUSIVE and "it cannot be told by whom" in findings.headline


TERMINATED = cancelled_searches("request has been terminated")


def beside_backpressure(number: int, second: float, *mutations: Mutation) -> Findings:
    """Judged where a node counted so many searches that backpressure cancelled, in the five seconds until then."""
    run = _kept(2).changed(*mutations)
    grew = {"search_backpressure.search_shard_task": number, "search_backpressure.limit_reached.search_task": 9000}
    line = {"t": run.moment("slow", second), "kind": "counted", "node": "a-data", "seconds": 5.0, "grew": grew}
    history = run.history()
    history.give(cancelled_check.COUNTERS, [line])
    return evaluate(history)


@pytest.mark.parametrize(
    ("number", "second", "outcome"),
    [
        (800, 14.0, Outcome.WEAKNESS),
        (799, 14.0, Outcome.INCONCLUSIVE),
        (800, 3.0, Outcome.INCONCLUSIVE),
        (800, 26.0, Outcome.INCONCLUSIVE),
    ],
)
def test_an_unknown_reason_is_the_clusters_own_where_backpressure_counted_as_many_then(
    number: int, second: float, outcome: Outcome
) -> None:
    assert beside_backpressure(number, second, TERMINATED).outcome is outcome


def test_counters_explain_nothing_where_an_answer_names_a_request() -> None:
    def named(run: Stored) -> None:
        event = next(e for e in run.driver if e.get("errors"))
        event["errors"] = [*event["errors"], ["read", 500, cancelled.TYPE, BY_REQUEST, 1]]

    assert beside_backpressure(8000, 14.0, cancelled_searches(BY_REQUEST)).outcome is Outcome.INCONCLUSIVE
    assert beside_backpressure(8000, 14.0, TERMINATED, named).outcome is Outcome.INCONCLUSIVE


def test_a_few_cancellations_that_cost_no_target_are_no_pass_and_lost_writes_stand_beside_them() -> None:
    def few(run: Stored) -> None:
        event: Event = next(e for e in run.driver if e["kind"] == "self" and e["t"] > run.moment("slow", 3))
        event["errors"] = [["read", 500, cancelled.TYPE, BY_REQUEST, 2]]

    assert judged(few).outcome is Outcome.INCONCLUSIVE
    assert counts(judged(few, forged))["acknowledged.lost"] == "weakness"


def test_cancellations_before_the_first_phase_touch_nothing_that_is_judged() -> None:
    def early(run: Stored) -> None:
        errors = [["read", 500, cancelled.TYPE, BY_REQUEST, 9]]
        run.driver.append({"t": run.origin - S, "kind": "self", "cpu": 0.1, "processors": [], "errors": errors})

    assert judged(early).outcome is Outcome.PASS


def test_lost_writes_are_dated_by_their_own_acknowledgement() -> None:
    run = _kept(2).changed(forged)
    (lost,) = [finding for finding in run.judged().findings if finding.metric == "acknowledged.lost"]
    ends = run.arrivals.loc[np.isin(run.arrivals["k"], [2 * n + 401 for n in range(36)]), "end"]
    first, last = lost.measure.evidence["acknowledged_at"]
    assert first == pytest.approx((ends.min() - run.origin) / S) and last == pytest.approx(
        (ends.max() - run.origin) / S
    )
