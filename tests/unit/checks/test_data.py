"""Checks on data: each metric passes on a run that kept its promises, fails on every planted break, and needs data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import synthetic
from synthetic import T0, Compared, Probed, S, Story, expect

from chaos.base.errors import HistoryError, InvalidInput
from chaos.checks import Findings, Outcome, evaluate
from chaos.checks.data import cas, export, staleness, visibility
from chaos.checks.data.linearizability import Linearizable
from chaos.checks.data.operations import CasOperation, by_key, line_of_descent
from chaos.checks.measure import Bound
from chaos.checks.record import Record
from chaos.history.format import Outcome as Arrival

Lines = list[dict[str, Any]]
PHASES = ("healthy", "slow", "failover", "returned")
ALL = [
    expect("documents.unexpected", "==", 0),
    expect("cas.violations", "==", 0),
    expect("stale.reads", "==", 0),
    expect("dirty.reads", "==", 0),
    expect("visible.p99", "<=", 2, PHASES),
]


def kept(*expectations: dict[str, Any]) -> Story:
    """A run that kept every promise."""
    story = synthetic.slow_zone()
    story.cas, story.visibility = Compared(), Probed()
    story.expect = list(expectations or ALL)
    return story


def judged(story: Story) -> Findings:
    return evaluate(story.history())


def verdicts(findings: Findings) -> dict[str, str]:
    return {finding.id: finding.counts_as.value for finding in findings.findings}


def changed(which: Callable[[dict[str, Any]], bool], **values: Any) -> Callable[[Lines], Lines]:
    """Lines of which the first fitting one after a minute is changed."""

    def change(lines: Lines) -> Lines:
        hit = next(line for line in lines if line["t"] > T0 + 60 * S and which(line))
        hit |= {name: value(hit) if callable(value) else value for name, value in values.items()}
        return lines

    return change


def is_(kind: str, **fields: Any) -> Callable[[dict[str, Any]], bool]:
    return lambda line: line["kind"] == kind and all(line.get(name) == value for name, value in fields.items())


def test_a_run_that_kept_its_promises_passes_everything() -> None:
    findings = judged(kept())
    assert findings.outcome is Outcome.PASS, findings.reasons
    data = findings.tables["data"]
    assert data["compare_and_set"]["acknowledged"] == data["compare_and_set"]["conflicts"] == 760
    assert data["visibility"]["replication"] == "DOCUMENT" and set(data["visibility"]["phases"]) == set(PHASES)
    assert set(data["visibility"]["nodes"]) == set(synthetic.NODES)
    assert set(data["visibility"]["zones"]) == {"a", "b", "c"}
    assert data["staleness"]["text"] == "0 stale, 0 dirty" and data["copies"]["beyond"]["recovered_count"] == 12
    for part in data.values():
        assert {"value", "text", "bound", "says"} <= set(part)
    json.dumps(data, allow_nan=False)


def test_a_run_without_them_has_only_copies_in_its_table() -> None:
    story = synthetic.slow_zone()
    assert set(judged(story).tables["data"]) == {"copies"}


# -- compare-and-set ----------------------------------------------------------------------------------------


def _acknowledge_the_loser(lines: Lines) -> Lines:
    """Two acknowledged writes over one version: an update was lost."""
    lost = next(line for line in lines if line["kind"] == "info" and line["t"] > T0 + 60 * S)
    process = (lost["op"] - 1) // 2
    lost |= {"kind": "ok", "status": 200, "outcome": "ok", "seq_no": 100 + process // 2, "primary_term": 2}
    return lines


def _forget(lines: Lines) -> Lines:
    """An acknowledged write is followed by others over the version before it, as if it had never been."""
    done = [line for line in lines if line["kind"] == "invoke" and line["f"] == "cas" and line["process"] % 4 == 0]
    first, second = done[20], done[21]
    second["value"] = [first["value"][0], second["value"][1]]
    second |= {"if_seq_no": 5}
    return lines


LINES: list[tuple[str, Callable[[Lines], Lines]]] = [
    ("were all acknowledged over", _acknowledge_the_loser),
    ("is not above it", changed(is_("ok", f=None, status=200, node="a-data"), seq_no=3)),
    ("no order of its operations explains", _forget),
]


@pytest.mark.parametrize(("says", "change"), LINES, ids=[says for says, _ in LINES])
def test_a_broken_promise_of_compare_and_set_is_a_weakness(says: str, change: Callable[[Lines], Lines]) -> None:
    story = kept(expect("cas.violations", "==", 0))
    assert story.cas is not None
    story.cas.change = lambda lines: change(
        [line for line in lines if line["op"] % 2] if "above" in says else lines  # only writes have those ends
    )
    findings = judged(story)
    if "above" in says:  # without its reads nothing was read: that is a gap of its own
        assert any("was ever read" in reason.says for reason in findings.reasons)
    assert verdicts(findings)["cas.violations"] == "weakness"
    violations = [each["says"] for each in findings.findings[0].measure.evidence["violations"]]
    assert any(says in each for each in violations), violations


def test_an_acknowledged_write_that_no_copy_holds_in_the_end_is_a_violation() -> None:
    story = kept(expect("cas.violations", "==", 0))
    assert story.cas is not None
    held = story.cas.held(story.seconds)
    stale = {**held, "c-0": [{**copy, "value": 1, "seq_no": 100} for copy in held["c-0"]]}
    story.also_read = {"cas": stale}
    findings = judged(story)
    assert verdicts(findings)["cas.violations"] == "weakness"
    assert "c-0" in findings.findings[0].says and "the value 1 that was read" in findings.findings[0].says


def test_one_version_with_two_values_is_a_violation() -> None:
    story = kept(expect("cas.violations", "==", 0))
    assert story.cas is not None
    story.cas.change = changed(is_("ok", node="c-data"), value=77_777)
    findings = judged(story)
    assert verdicts(findings)["cas.violations"] == "weakness"
    assert "has 2 values" in findings.findings[0].says


@pytest.mark.parametrize("what", ["no lines", "no read-back", "not all keys", "an incomplete read-back"])
def test_without_data_compare_and_set_is_inconclusive(what: str) -> None:
    story = kept(expect("cas.violations", "==", 0))
    assert story.cas is not None
    if what == "no lines":
        story.cas.change = lambda lines: []
    elif what == "no read-back":
        story.readback = None
    elif what == "not all keys":
        story.also_read = {"cas": {"c-0": story.cas.held(story.seconds)["c-0"]}}
    else:
        story.also_read = {"cas": {}}
    findings = judged(story)
    assert verdicts(findings)["cas.violations"] == "inconclusive"
    assert findings.outcome is Outcome.INCONCLUSIVE


def test_a_history_that_the_search_does_not_finish_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = (Linearizable.UNKNOWN, "")
    monkeypatch.setattr(cas, "linearizable", lambda *_, **__: unknown)
    measure = cas.measure(Record(kept().history()))
    assert measure.value is None and "no verdict on c-0 and c-1" in measure.says


def test_a_violation_stands_even_when_the_fault_was_not_proven() -> None:
    story = synthetic.unproven()
    story.cas, story.expect = Compared(change=_acknowledge_the_loser), [expect("cas.violations", "==", 0)]
    assert verdicts(judged(story))["cas.violations"] == "weakness"


def test_a_long_history_with_competition_and_losers_is_decided_quickly() -> None:
    story = kept(expect("cas.violations", "==", 0))
    story.cas = Compared(rate=50.0, keys=1)
    record = Record(story.history())
    measure = cas.measure(record)
    assert measure.value == 0 and measure.evidence["attempts"] == 50 * 152


def operation(number: int, begin: int, end: int | None, before: int, value: int, **more: Any) -> CasOperation:
    given: dict[str, Any] = {
        "process": number,
        "key": "c-0",
        "f": "cas",
        "kind": "ok" if end is not None else "info",
        "zone": "a",
        "node": "a-data",
        "version": (number + 10, 1) if end is not None else None,
        "expected": (before, 1),
        "status": 200,
    }
    return CasOperation(number=number, begin=begin, end=end, before=before, value=value, **{**given, **more})


def test_an_indeterminate_write_may_take_effect_late_or_never_but_only_over_what_it_read() -> None:
    late = [operation(1, 0, None, 0, 1), operation(2, 100, 101, 1, 2)]
    assert cas.linearizable(late, 2)[0] is Linearizable.YES
    never = [operation(1, 0, None, 0, 1), operation(2, 100, 101, 0, 2)]
    assert cas.linearizable(never, 2)[0] is Linearizable.YES
    closed = [operation(1, 0, None, 0, 1), operation(2, 100, 101, 0, 2), operation(3, 200, 201, 1, 3)]
    assert cas.linearizable(closed, 3)[0] is Linearizable.NO  # an acknowledged one had come between
    assert cas.linearizable(late, 1)[0] is Linearizable.NO  # an acknowledged one is gone


def test_reads_can_be_taken_in_and_then_more_is_asked_than_is_promised() -> None:
    read = operation(5, 50, 51, 0, 1, f="read", kind="ok")
    ops = [operation(1, 0, None, 0, 1), read, operation(2, 100, 101, 0, 2)]
    assert cas.linearizable(ops, 2)[0] is Linearizable.YES
    assert cas.linearizable(ops, 2, reads=True)[0] is Linearizable.NO  # a dirty read


def test_the_line_of_descent_ends_where_nothing_is_known() -> None:
    ops = [operation(1, 0, 1, 0, 1), operation(2, 2, None, 1, 2), operation(3, 2, 3, 1, 3)]
    assert line_of_descent(ops, 3) == {3, 1, 0} and line_of_descent(ops, 99) == {99}


# -- stale and dirty reads ----------------------------------------------------------------------------------


STALE: list[tuple[str, Callable[[Story], None]]] = []


def stale(plant: Callable[[Story], None]) -> Callable[[Story], None]:
    STALE.append((plant.__name__, plant))
    return plant


@stale
def a_get_of_a_probe_finds_nothing(story: Story) -> None:
    assert story.visibility is not None
    story.visibility.change = changed(is_("get"), found=False)


@stale
def a_key_is_read_as_it_was_before(story: Story) -> None:
    assert story.cas is not None
    story.cas.change = changed(lambda line: "primary_term" in line and "value" in line, value=0, seq_no=0)


@stale
def a_key_is_not_there(story: Story) -> None:
    def plant(lines: Lines) -> Lines:
        hit = next(line for line in lines if line["t"] > T0 + 60 * S and "seq_no" in line and "value" in line)
        del hit["seq_no"], hit["primary_term"]
        hit["value"] = None
        return lines

    assert story.cas is not None
    story.cas.change = plant


@stale
def a_read_of_the_load_lacks_documents(story: Story) -> None:
    story.stale = [{"t": T0 + 40 * S, "kind": "stale", "k": 7, "op": "read", "node": "b-data"}]


@pytest.mark.parametrize(("name", "plant"), STALE, ids=[name for name, _ in STALE])
def test_every_kind_of_stale_read_is_counted(name: str, plant: Callable[[Story], None]) -> None:
    story = kept(expect("stale.reads", "==", 0))
    plant(story)
    findings = judged(story)
    assert verdicts(findings)["stale.reads"] == "weakness"
    measure = findings.findings[0].measure
    assert measure.value == 1 and measure.evidence["reads_shown"][0]["node"]
    assert sum(measure.evidence["phases"].values()) == 1
    assert findings.tables["data"]["staleness"]["text"] == "1 stale, 0 dirty"


def test_a_get_that_was_sent_before_the_acknowledgement_is_never_stale() -> None:
    story = kept(expect("stale.reads", "==", 0))
    assert story.visibility is not None
    story.visibility.change = changed(is_("get"), found=False, began=lambda line: line["began"] - 5_000_000)
    assert verdicts(judged(story))["stale.reads"] == "pass"


def test_a_get_without_an_answer_says_nothing() -> None:
    story = kept(expect("stale.reads", "==", 0))
    assert story.visibility is not None
    story.visibility.change = changed(is_("get"), found=None)
    assert verdicts(judged(story))["stale.reads"] == "pass"


def test_when_no_read_came_after_an_acknowledged_write_there_is_no_pass() -> None:
    story = kept(expect("stale.reads", "==", 0))
    story.cas = None
    assert story.visibility is not None
    story.visibility.change = lambda lines: [line for line in lines if line["kind"] != "get"]
    assert verdicts(judged(story))["stale.reads"] == "inconclusive"


def _dirty_value(lines: Lines) -> Lines:
    """Somebody reads the value of a conflict that did not stay."""
    hit = next(line for line in lines if line["t"] > T0 + 60 * S and line["kind"] == "info")
    asked = next(line for line in lines if line["op"] == hit["op"])
    read = next(line for line in lines if line["t"] > hit["t"] and line["kind"] == "ok" and "value" in line)
    read |= {"value": asked["value"][1], "seq_no": 800_000, "primary_term": 1}
    return lines


def test_a_value_that_was_read_and_did_not_stay_is_dirty() -> None:
    story = kept(expect("dirty.reads", "==", 0))
    story.cas = Compared(change=_dirty_value)
    findings = judged(story)
    assert verdicts(findings)["dirty.reads"] == "weakness"
    assert "which did not stay" in findings.findings[0].says


def _never_acknowledged(lines: Lines) -> Lines:
    return [line | {"acknowledged": False, "status": 0} if line["kind"] == "written" else line for line in lines]


@pytest.mark.parametrize(
    ("watched", "counts_as"),
    [
        ({"count": 304, "absent": ["v-3"], "unknown": []}, "weakness"),
        ({"count": 304, "absent": [], "unknown": []}, "pass"),
        ({"count": 304, "absent": [], "unknown": ["v-3"]}, "inconclusive"),
        (None, "inconclusive"),
    ],
)
def test_a_document_that_was_found_and_is_gone_is_dirty(watched: Any, counts_as: str) -> None:
    story = kept(expect("dirty.reads", "==", 0))
    assert story.visibility is not None
    story.visibility.change = lambda lines: [
        line | {"acknowledged": False} if line["kind"] == "written" and line["n"] == 3 else line for line in lines
    ]
    story.also_read = {"watched": watched}
    assert verdicts(judged(story))["dirty.reads"] == counts_as


def test_an_acknowledged_document_that_is_gone_is_lost_and_not_dirty() -> None:
    story = kept(expect("dirty.reads", "==", 0))
    story.also_read = {"watched": {"count": 304, "absent": ["v-3"], "unknown": []}}
    assert verdicts(judged(story))["dirty.reads"] == "pass"


# -- visibility ---------------------------------------------------------------------------------------------


def test_late_visibility_fails_in_the_phase_in_which_it_was_late() -> None:
    story = kept(expect("visible.p99", "<=", 2, PHASES))
    assert story.visibility is not None
    story.visibility.after = lambda seconds, node: 5.0 if 40 < seconds < 60 and node == "c-data" else 0.6
    found = verdicts(judged(story))
    assert found == {
        "visible.p99@healthy": "pass",
        "visible.p99@slow": "weakness",
        "visible.p99@failover": "pass",
        "visible.p99@returned": "pass",
        "until@returned": "pass",
    }


def test_what_was_never_found_is_known_from_below() -> None:
    story = kept(expect("visible.p99", "<=", 2, ("slow",)))
    assert story.visibility is not None
    story.visibility.after = lambda seconds, node: None if 40 < seconds < 60 else 0.6
    findings = judged(story)
    assert verdicts(findings)["visible.p99@slow"] == "weakness"
    measure = findings.findings[0].measure
    assert measure.bound is Bound.MORE_THAN and measure.value == pytest.approx(30)


def test_what_was_given_up_on_early_decides_nothing() -> None:
    """Watched for half a second without a hit: it may have been visible within two."""
    story = kept(expect("visible.p99", "<=", 2, ("slow",)))
    assert story.visibility is not None

    def cut(lines: Lines) -> Lines:
        for line in lines:
            if line["kind"] == "seen" and line["n"] % 10 == 0:
                line |= {"kind": "unseen", "missed": line["t"]}
        return lines

    story.visibility.change = cut
    assert verdicts(judged(story))["visible.p99@slow"] == "inconclusive"


def test_a_node_that_never_answered_says_nothing_and_too_few_looks_are_no_data() -> None:
    story = kept(expect("visible.p99", "<=", 2, ("slow",)))
    assert story.visibility is not None
    story.cas = None

    def silent(lines: Lines) -> Lines:
        ends = {"seen": {"kind": "unseen", "missed": None}, "get": {"found": None}}
        return [line | ends.get(line["kind"], {}) if line.get("node") == "c-data" else line for line in lines]

    story.visibility.change = silent
    findings = judged(story)
    assert verdicts(findings)["visible.p99@slow"] == "pass"
    assert "c-data" not in findings.tables["data"]["visibility"]["nodes"]
    story.visibility.rate = 0.5
    assert verdicts(judged(story))["visible.p99@slow"] == "inconclusive"


@pytest.mark.parametrize(("away", "verdict"), [(True, "pass"), (False, "inconclusive")])
def test_a_node_that_went_away_says_nothing_about_what_it_did_not_have_yet(away: bool, verdict: str) -> None:
    story = kept(expect("visible.p99", "<=", 2, ("slow",)))
    assert story.visibility is not None

    def gone(lines: Lines) -> Lines:
        for line in lines:
            if line["kind"] == "seen" and line["n"] % 10 == 0:
                line |= {"kind": "unseen", "missed": line["t"], "away": away}
        return lines

    story.visibility.change = gone
    assert verdicts(judged(story))["visible.p99@slow"] == verdict


@pytest.mark.parametrize(("silent", "verdict"), [(True, "pass"), (False, "weakness")])
def test_a_node_that_was_away_and_then_had_it_is_not_late_and_one_that_answered_all_the_time_is(
    silent: bool, verdict: str
) -> None:
    story = kept(expect("visible.p99", "<=", 2, ("slow",)))
    assert story.visibility is not None

    def later(lines: Lines) -> Lines:
        for line in lines:
            if line["kind"] == "seen" and line["node"] == "c-data":
                line |= {"t": line["t"] + 20 * S, "silent": line["t"] + 20 * S - S // 5 if silent else None}
        return lines

    story.visibility.change = later
    assert verdicts(judged(story))["visible.p99@slow"] == verdict


def test_what_only_the_machine_made_late_is_no_weakness() -> None:
    story = kept(expect("visible.p99", "<=", 2, ("slow",)))
    assert story.visibility is not None
    story.visibility.after = lambda seconds, node: 5.0 if 40 < seconds < 60 else 0.6
    assert verdicts(judged(story))["visible.p99@slow"] == "weakness"
    story.starved = ((38.0, 66.0),)
    findings = judged(story)
    assert verdicts(findings)["visible.p99@slow"] == "inconclusive"
    assert "none of this machine's processors was free" in findings.findings[0].says


def test_the_type_of_replication_is_named() -> None:
    history = kept().history()
    history.plan["topology"]["settings"]["index"]["index.replication.type"] = "SEGMENT"
    assert visibility.replication(Record(history)) == "SEGMENT"


# -- documents that should not be there ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["resurrected", "unexpected", "duplicated"])
@pytest.mark.parametrize("asked", [True, False])
def test_documents_that_should_not_be_there_are_a_weakness_asked_for_or_not(name: str, asked: bool) -> None:
    story = synthetic.slow_zone()
    if asked:
        story.expect = [expect("documents.unexpected", "==", 0)]
    assert story.readback is not None
    story.readback |= {name: ["w-5"], f"{name}_count": 1}
    findings = judged(story)
    assert findings.outcome is Outcome.WEAKNESS
    assert sum("Documents that should not be there" in reason.says for reason in findings.reasons) == (not asked)
    assert findings.tables["data"]["copies"]["beyond"]["value"] == 1


def test_a_search_for_one_id_that_finds_two_is_a_duplicate() -> None:
    story = kept(expect("documents.unexpected", "==", 0))
    assert story.visibility is not None
    story.visibility.change = changed(is_("seen"), hits=2)
    assert verdicts(judged(story))["documents.unexpected"] == "weakness"


@pytest.mark.parametrize(
    "changes",
    [
        {"complete": False, "reason": "a copy was silent"},
        {"unavailable_shards": [1]},
        {"copies": []},
        {"copies": [{"shard": 0, "node": "a-data", "docs": 0, "read": True}]},
    ],
)
def test_documents_that_nobody_looked_for_are_not_known_to_be_absent(changes: dict[str, Any]) -> None:
    story = kept(expect("documents.unexpected", "==", 0))
    story.also_read = changes
    assert verdicts(judged(story))["documents.unexpected"] == "inconclusive"


def test_a_read_back_of_an_earlier_version_did_not_look() -> None:
    story = kept(expect("documents.unexpected", "==", 0))
    assert story.readback is not None
    for name in ("recovered", "resurrected", "unexpected", "duplicated"):
        del story.readback[f"{name}_count"], story.readback[name]
    assert verdicts(judged(story))["documents.unexpected"] == "inconclusive"


def test_nothing_read_back_is_no_proof_that_nothing_was_lost() -> None:
    story = synthetic.slow_zone()
    story.expect = [expect("acknowledged.lost", "==", 0)]
    assert story.readback is not None
    story.readback["copies"] = []
    assert verdicts(judged(story))["acknowledged.lost"] == "inconclusive"


# -- vacuity ------------------------------------------------------------------------------------------------


VACUOUS: list[tuple[str, str, Callable[[Lines], Lines]]] = [
    ("cas", "no compare-and-set was ever acknowledged", lambda lines: [o for o in lines if o.get("status") != 200]),
    ("cas", "no key of compare-and-set was ever read", lambda lines: [o for o in lines if o["op"] % 2]),
    ("visibility", "no document of the probes of visibility was ever acknowledged", _never_acknowledged),
    ("visibility", "was ever found by a search", lambda lines: [o for o in lines if o["kind"] != "seen"]),
]


@pytest.mark.parametrize(("part", "says", "change"), VACUOUS, ids=[says for _, says, _ in VACUOUS])
def test_an_operation_that_never_succeeded_makes_no_run_pass(
    part: str, says: str, change: Callable[[Lines], Lines]
) -> None:
    story = kept(expect("read.good", ">=", 0.99, ("healthy",)))
    getattr(story, part).change = change
    findings = judged(story)
    assert findings.outcome is Outcome.INCONCLUSIVE
    assert any(says in reason.says for reason in findings.reasons)
    assert verdicts(findings)["read.good@healthy"] == "inconclusive"


# -- export -------------------------------------------------------------------------------------------------


def well_formed(path: Path) -> Lines:
    """What elle-cli expects of any history: indices, one operation at a time in a process, none after an info."""
    ops: Lines = json.loads(path.read_text())
    assert len(path.read_text().splitlines()) == len(ops) + 2  # one operation a line
    assert [op["index"] for op in ops] == list(range(len(ops)))
    assert [op["time"] for op in ops] == sorted(op["time"] for op in ops) and ops[0]["time"] == 0
    running: dict[int, str] = {}
    over = set()
    for op in ops:
        assert op["process"] not in over and op["type"] in ("invoke", "ok", "fail", "info")
        if op["type"] == "invoke":
            assert op["process"] not in running
            running[op["process"]] = op["f"]
        else:
            assert running.pop(op["process"]) == op["f"]
        if op["type"] == "info":
            over.add(op["process"])
    return ops


@pytest.mark.parametrize(("format", "reads"), [("elle", 1), ("elle-reads", 700)])
def test_the_export_is_what_elle_cli_reads(tmp_path: Path, format: str, reads: int) -> None:
    run = kept().write(tmp_path / "run")
    files = export.export(run, tmp_path / "out", format)
    assert [file.name for file in files] == ["cas-register-c-0.json", "cas-register-c-1.json", "set.json"]
    for file in files[:2]:
        ops = well_formed(file)
        assert {op["f"] for op in ops} == {"write", "cas", "read"}
        assert sum(op["f"] == "read" and op["type"] == "ok" for op in ops) >= reads
        assert (ops[-1]["f"], ops[-1]["type"]) == ("read", "ok")
        register = 0
        for op in ops:  # nobody overlaps in this run but the loser: the order of the ends is the order
            if (op["f"], op["type"]) == ("cas", "ok"):
                assert op["value"][0] == register
                register = op["value"][1]
        assert ops[-1]["value"] == register
    ops = well_formed(files[2])
    added = {op["value"] for op in ops if op["f"] == "add" and op["type"] == "ok"}
    assert added <= set(ops[-1]["value"]) and ops[-1]["f"] == "read"


def test_lost_and_indeterminate_writes_are_what_they_are_in_the_set(tmp_path: Path) -> None:
    story = synthetic.slow_zone()
    arrivals = story.history().arrivals
    writes = arrivals[(arrivals.op == "write") & (arrivals.outcome == "ok")].k.tolist()
    late = arrivals[(arrivals.op == "write") & (arrivals.outcome == "timeout")].k.tolist()
    assert story.readback is not None and late
    story.readback |= {"lost": [f"w-{writes[3]}"], "lost_count": 1, "recovered": [f"w-{late[0]}"], "recovered_count": 1}
    run = story.write(tmp_path / "run")
    (file,) = export.export(run, tmp_path / "out")
    ops = well_formed(file)
    there = set(ops[-1]["value"])
    assert writes[3] not in there and late[0] in there and late[1] not in there
    assert {op["type"] for op in ops if op["value"] == late[1]} == {"invoke", "info"}


def test_what_cannot_be_exported_says_so(tmp_path: Path) -> None:
    run = synthetic.lost_writes().write(tmp_path / "run")
    with pytest.raises(InvalidInput, match="unknown export format"):
        export.export(run, tmp_path / "out", "csv")
    with pytest.raises(HistoryError, match="not the folder of a run"):
        export.export(tmp_path, tmp_path / "out")
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="cannot write the export"):
        export.export(run, tmp_path / "file")
    many = synthetic.slow_zone()
    assert many.readback is not None
    many.readback |= {"lost": ["w-1"], "lost_count": 5000}
    with pytest.raises(HistoryError, match="more than it names"):
        export.export(many.write(tmp_path / "many"), tmp_path / "out")


def test_an_operation_without_an_end_stays_open_in_the_export(tmp_path: Path) -> None:
    story = kept()
    assert story.cas is not None
    story.cas.change = lambda lines: [line for line in lines if not (line["kind"] == "info" and line["op"] % 3 == 0)]
    files = export.export(story.write(tmp_path / "run"), tmp_path / "out")
    assert len(well_formed(files[0])) > 100
    assert any(each.end is None for ops in by_key(Record(story.history())).values() for each in ops)


def test_stale_reads_are_counted_even_where_nothing_else_is_checked() -> None:
    story = synthetic.slow_zone()
    story.stale = [{"t": T0 + 40 * S, "kind": "stale", "k": 7, "op": "read", "node": "b-data"}]
    assert judged(story).tables["data"]["staleness"]["text"] == "1 stale"
    assert staleness.stale_measure(Record(story.history())).value == 1
    assert Arrival.PARTIAL == 1


@pytest.mark.parametrize(("missed", "late"), [(0.1, 0.2), (9.0, 9.0)])
def test_a_node_that_was_away_is_as_late_as_it_answered_without_the_document(missed: float, late: float) -> None:
    """It missed the document when it was last asked before it went away for 20 s."""
    told = synthetic.slow_zone()
    told.visibility = Probed(rate=2.0)

    def change(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        written = {line["n"]: line["t"] for line in lines if line["kind"] == "written"}
        for line in lines:
            if line["kind"] == "seen" and line["node"] == "c-data" and line["n"] == 80:
                until = line["t"] + 20 * S
                line |= {"t": until, "began": until, "silent": until - S // 5}
                line |= {"missed": written[80] + round(missed * S)}
        return sorted(lines, key=lambda line: int(line["t"]))

    told.visibility.change = change
    (found,) = [each for each in visibility.looks(Record(told.history())) if (each.n, each.node) == (80, "c-data")]
    assert found.seconds == pytest.approx(late)


@pytest.mark.parametrize(
    ("by_phase", "since", "healthy", "slow"),
    [
        (True, 28.6, "pass", "weakness"),
        (False, 28.6, "weakness", "pass"),
        (True, 24.0, "weakness", "weakness"),  # some were late before the fault
    ],
)
def test_what_a_fault_met_while_it_was_looked_for_counts_for_its_phase(
    by_phase: bool, since: float, healthy: str, slow: str
) -> None:
    """Documents of the last seconds of the healthy phase are found 9 s later; the fault is commanded at 30.05 s."""
    story = kept(expect("visible.p99", "<=", 2, ("healthy", "slow")))
    assert story.visibility is not None
    story.visibility.after = lambda seconds, node: 9.0 if since < seconds < 30 else 0.6
    history = story.history()
    history.plan |= {visibility.BY_PHASE: by_phase}
    found = verdicts(evaluate(history))
    assert (found["visible.p99@healthy"], found["visible.p99@slow"]) == (healthy, slow)


@pytest.mark.parametrize(("comparison", "counts"), [("<=", "pass"), (">=", "weakness")])
def test_what_was_found_before_the_fault_counts_for_its_own_phase(comparison: str, counts: str) -> None:
    story = kept(expect("visible.p50", comparison, 2, ("healthy",)))
    history = story.history()
    history.plan |= {visibility.BY_PHASE: True}
    findings = evaluate(history)
    looks = findings.findings[0].measure.evidence["looks"]
    assert verdicts(findings)["visible.p50@healthy"] == counts
    assert looks == (180 if comparison == ">=" else 180 - 3)  # what was acknowledged at 29.5 s is found at 30.1 s
