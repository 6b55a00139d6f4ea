"""The load's checks on data against a stub that keeps documents: what is recorded, and what the checks make of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from load_stub import REFRESH, Server, serving
from opensearchpy.exceptions import ConflictError, NotFoundError, TransportError
from programs.test_driver import config, wait_for

from chaos.checks import coverage, data
from chaos.checks.data import cas as cas_check
from chaos.checks.data import staleness, visibility
from chaos.checks.data.operations import by_key, operations
from chaos.checks.record import Record
from chaos.history import History
from chaos.history.format import Outcome
from chaos.load.cas import of_read, of_write
from chaos.load.config import CasConfig, ClientHost, OperationConfig, VisibilityConfig
from chaos.load.driver import Driver
from chaos.load.exchange import Answer
from chaos.load.outcomes import of_error
from chaos.load.visibility import hits_of
from chaos.observe.written import Written

KEYS = 2


@pytest.fixture
def run(tmp_path: Path) -> Path:
    plan = {"experiment": {"load": {"cas": {"rate": 20, "keys": KEYS}, "visibility": {"rate": 4}}}}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    return tmp_path


Drive = Callable[..., Driver]


@pytest.fixture
def drive(run: Path) -> Iterator[Drive]:
    drivers = []

    def start(*servers: Server, **more: Any) -> Driver:
        given = {"rate": 5, "cas": CasConfig(rate=20, keys=KEYS), "visibility": VisibilityConfig(rate=4, within_s=2)}
        driver = Driver(config(run, *servers, **{**given, **more}), run / "logs" / "driver.log")
        drivers.append(driver)
        driver.start()
        driver.go()
        return driver

    yield start
    for driver in drivers:
        driver.kill()


def lines(run: Path, name: str) -> list[dict[str, Any]]:
    path = run / "history" / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def count(run: Path, name: str, **wanted: Any) -> int:
    return sum(all(line.get(key) == value for key, value in wanted.items()) for line in lines(run, name))


def overlooked(run: Path) -> bool:
    """Whether two writes over one version have been acknowledged, which takes two that competed."""
    done = {each["op"] for each in lines(run, "cas.jsonl") if each["kind"] == "ok"}
    over = [
        (each["key"], each["if_seq_no"])
        for each in lines(run, "cas.jsonl")
        if each["kind"] == "invoke" and each["f"] == "cas" and each["op"] in done
    ]
    return len(over) > len(set(over))


class Told:
    """What the checks need of a record."""

    def __init__(self, **parts: Any) -> None:
        self.__dict__.update(parts)


def record(run: Path, readback: dict[str, Any] | None = None) -> Any:
    """A record, as far as the checks need it, from disk."""
    history = History.open(run)
    parts = {name: getattr(history, name) for name in ("plan", "cas", "probes", "stale")}
    return Told(
        **parts,
        readback=readback,
        arrivals={},
        readers=(),
        spans=(),
        expectations=(),
        segments=False,
        since_start=lambda t: t / 1e9,
    )


def held(run: Path) -> dict[str, Any]:
    """A read-back as it would be if every copy held what the last acknowledgement said."""
    keys = {}
    for key, ops in by_key(record(run)).items():
        last = max((each for each in ops if each.version), key=lambda each: each.version or (0, 0))
        version = {"seq_no": last.version[0], "primary_term": last.version[1]} if last.version else {}
        keys[key] = [{"node": "a-data", "primary": True, "value": last.value, **version}]
    return {"complete": True, "cas": keys, "watched": {"count": 0, "absent": [], "unknown": []}}


def test_a_cluster_that_keeps_its_promises_has_no_violation(run: Path, drive: Drive) -> None:
    with serving() as server:
        driver = drive(server, server)  # two nodes, one memory
        wait_for(
            lambda: (
                count(run, "cas.jsonl", kind="ok") > 60
                and count(run, "cas.jsonl", status=409) > 0
                and count(run, "probes.jsonl", kind="seen") > 9
            )
        )
        assert driver.stop()
    found = record(run, held(run))
    ops = operations(found.cas)
    writes = [each for each in ops if each.f == "cas"]
    assert {each.key for each in ops} == {"c-0", "c-1"}
    assert all(each.end is not None and each.end > each.begin for each in ops)
    assert len({each.value for each in writes}) == len(writes) and 0 not in {each.value for each in writes}
    assert any(each.status == 409 and each.kind == "info" for each in writes)  # two at once: they do compete
    measure = cas_check.measure(found)
    assert measure.value == 0 and measure.evidence["conflicts"] > 0 and measure.evidence["acknowledged"] > 10
    assert staleness.stale_measure(found).value == 0 and staleness.dirty_measure(found).value == 0

    looks = visibility.looks(found)
    assert {each.node for each in looks} == {"a-data", "b-data"} and all(each.seen for each in looks)
    assert all(REFRESH * 0.9 < each.seconds < REFRESH + 1 for each in looks)
    assert not lines(run, "stale.jsonl")
    arrivals = History.open(run).arrivals
    assert set(arrivals.outcome) == {"ok"} and set(arrivals.op) == {"read", "write"}  # the rows are what they were


def test_a_store_that_overlooks_the_condition_is_caught(run: Path, drive: Drive) -> None:
    with serving() as server:
        driver = drive(server, visibility=None)
        server.mode("lost_update")
        wait_for(lambda: count(run, "cas.jsonl", kind="ok") > 80 and overlooked(run))
        assert driver.stop()
    measure = cas_check.measure(record(run, held(run)))
    assert measure.value and measure.value > 0
    assert "were all acknowledged over seq_no" in measure.evidence["violations"][0]["says"]


def test_a_conflict_that_was_done_all_the_same_is_no_violation(run: Path, drive: Drive) -> None:
    """The write met its own first try: it took effect, and the client was told of a conflict."""
    with serving() as server:
        driver = drive(server, visibility=None)
        wait_for(lambda: count(run, "cas.jsonl", kind="ok") > 20)
        server.mode("forked")
        conflicts = count(run, "cas.jsonl", kind="info")
        wait_for(lambda: count(run, "cas.jsonl", kind="info") > conflicts + 20)
        server.mode("ok")
        done = count(run, "cas.jsonl", kind="ok")
        wait_for(lambda: count(run, "cas.jsonl", kind="ok") > done + 40)
        assert driver.stop()
    found = record(run, held(run))
    assert cas_check.measure(found).value == 0
    assert staleness.dirty_measure(found).value == 0  # what was read stayed


def test_a_garbled_answer_to_a_write_is_no_acknowledgement(run: Path, drive: Drive) -> None:
    """Under status 200, and the write was done: nobody can know that, so nothing was promised."""
    with serving() as server:
        driver = drive(server)
        wait_for(lambda: count(run, "cas.jsonl", kind="ok") > 20)
        server.mode("mumbling")
        wait_for(
            lambda: count(run, "cas.jsonl", outcome="garbled") > 9 and count(run, "probes.jsonl", outcome="garbled") > 2
        )
        server.mode("ok")
        done = count(run, "cas.jsonl", kind="ok")
        wait_for(lambda: count(run, "cas.jsonl", kind="ok") > done + 40)
        assert driver.stop()
    garbled = [line for line in lines(run, "cas.jsonl") if line.get("outcome") == "garbled"]
    assert {(line["kind"], line["status"], "seq_no" in line) for line in garbled} == {("info", 200, False)}
    written = [line for line in lines(run, "probes.jsonl") if line.get("outcome") == "garbled"]
    assert {(line["acknowledged"], line["sent"]) for line in written} == {(False, True)}
    fates = Written.of(History.open(run), documents=0)
    assert {f"v-{line['n']}" for line in written} <= fates.open - fates.acknowledged - fates.refused
    found = record(run, held(run))
    measure = cas_check.measure(found)
    assert measure.value == 0 and measure.evidence["indeterminate"] >= len(garbled)
    assert staleness.stale_measure(found).value == 0


def test_checks_on_data_take_nothing_from_what_cannot_be_read(run: Path, drive: Drive) -> None:
    """No value, no version, no document that was found or was not."""
    with serving() as server:
        server.mode("html")
        driver = drive(server)
        for mode in ("html", "mistyped", "list", "truncated", "nested", "invalid_utf8", "bad_gzip"):
            server.mode(mode)
            garbled = [count(run, file, outcome="garbled") for file in ("cas.jsonl", "probes.jsonl")]
            wait_for(
                lambda garbled=garbled: (  # the first may have been under way
                    count(run, "cas.jsonl", outcome="garbled") > garbled[0] + 6
                    and count(run, "probes.jsonl", outcome="garbled") > garbled[1] + 2
                )
            )
        assert driver.stop()
    assert count(run, "cas.jsonl", kind="ok") == 0 and {op.kind for op in operations(record(run).cas)} == {"fail"}
    assert {line["found"] for line in lines(run, "probes.jsonl") if line["kind"] == "get"} <= {None}
    assert count(run, "probes.jsonl", acknowledged=True) == count(run, "probes.jsonl", kind="seen") == 0


def test_stale_answers_are_seen_in_all_three_places(run: Path, drive: Drive) -> None:
    operations_ = (
        OperationConfig(name="read", kind="search", rate=10),
        OperationConfig(name="other", kind="get", rate=10),
        OperationConfig(name="write", kind="index", rate=5),
    )
    with serving(documents=1000) as server:
        driver = drive(server, operations=operations_, documents=1000)
        wait_for(lambda: count(run, "cas.jsonl", kind="ok") > 20)
        assert not lines(run, "stale.jsonl")
        server.mode("stale")
        wait_for(lambda: count(run, "stale.jsonl") > 5 and count(run, "probes.jsonl", kind="get", found=False) > 2)
        assert driver.stop()
    found = record(run, held(run))
    (last,) = [line for line in lines(run, "driver.jsonl") if line["kind"] == "driver.stop"]
    assert last["stale"] == count(run, "stale.jsonl")
    stale, looked = staleness.stale(found)
    said = {each.what for each in stale}
    assert said == {"get", "read", "other"} and looked > len([each for each in stale if each.what == "get"])
    assert any("had been acknowledged, and a-data did not find it" in each.says for each in stale)
    measure = staleness.stale_measure(found)
    assert measure.value == len(stale) and measure.evidence["nodes"] == {"a-data": len(stale)}
    arrivals = History.open(run).arrivals
    late = arrivals[arrivals.outcome == "partial"]
    assert {("read", 200), ("other", 404)} == set(zip(late.op, late.status, strict=True))
    assert not (arrivals.outcome == "client_error").any()


def test_a_write_that_was_seen_and_never_acknowledged_is_dirty_only_if_it_is_gone(run: Path, drive: Drive) -> None:
    with serving() as server:
        driver = drive(server, server, cas=None, rate=1, timeout=0.6)
        server.mode("silent")
        wait_for(lambda: count(run, "probes.jsonl", kind="get", found=True) >= 4)
        assert driver.stop()
    found = record(run)
    ids = {line["id"] for line in lines(run, "probes.jsonl") if line["kind"] == "write"}
    assert not any(line["acknowledged"] for line in lines(run, "probes.jsonl") if line["kind"] == "written")
    plan = {"load": {"visibility": {"rate": 4}}}
    found.plan = {"experiment": plan}
    found.readback = {"watched": {"count": len(ids), "absent": [], "unknown": []}}
    assert staleness.dirty_measure(found).value == 0
    found.readback["watched"]["absent"] = sorted(ids)
    measure = staleness.dirty_measure(found)
    assert measure.value and measure.value >= 4 and "on no copy in the end" in measure.says
    found.readback["watched"] = {"count": len(ids), "absent": [], "unknown": sorted(ids)}
    assert staleness.dirty_measure(found).value is None


def test_a_store_that_takes_no_writes_has_shown_nothing(run: Path, drive: Drive) -> None:
    with serving() as server:
        server.mode("shut")
        driver = drive(server, server)
        wait_for(lambda: count(run, "cas.jsonl", kind="info") > 9 and count(run, "probes.jsonl", kind="written") > 3)
        assert driver.stop()
    says = " ".join(gap.says for gap in data.gaps(Record(History.open(run))))
    assert "no compare-and-set was ever acknowledged" in says and "of visibility was ever acknowledged" in says
    measure = cas_check.measure(record(run, held(run)))
    assert measure.value is None and measure.evidence["acknowledged"] == 0


@pytest.mark.parametrize(("mode", "kind"), [("hidden", "unseen"), ("twice", "seen")])
def test_searches_that_find_nothing_or_too_much(run: Path, drive: Drive, mode: str, kind: str) -> None:
    with serving() as server:
        driver = drive(server, cas=None, rate=1, visibility=VisibilityConfig(rate=4, within_s=0.5))
        server.mode(mode)
        wait_for(lambda: count(run, "probes.jsonl", kind=kind) > 2)
        assert driver.stop()
    looks = visibility.looks(record(run))
    if mode == "hidden":
        given_up = [each for each in looks if not each.seen]
        assert given_up and all(each.seconds >= 0.3 for each in given_up[:2])
    else:
        assert {each.hits for each in looks} >= {2}


def test_documents_are_looked_for_no_oftener_than_is_allowed(run: Path, drive: Drive) -> None:
    most = 5.0  # of some 14 a second that there would be
    with serving() as server:
        given = VisibilityConfig(rate=4, within_s=1, most_looks=most)
        driver = drive(server, cas=None, rate=1, visibility=given)
        server.mode("hidden")
        wait_for(lambda: count(run, "probes.jsonl", kind="unseen") > 8)
        began, before = time.monotonic(), server.looks()
        wait_for(lambda: count(run, "probes.jsonl", kind="unseen") > 16)
        looks, lasted = server.looks() - before, time.monotonic() - began
        assert driver.stop()
    assert most * lasted / 2 < looks <= most * lasted + 2


def test_searches_of_a_node_do_not_grow_with_the_documents_that_it_hides(run: Path, drive: Drive) -> None:
    with serving() as server:
        driver = drive(server, cas=None, rate=1, visibility=VisibilityConfig(rate=20, within_s=30))
        server.mode("hidden")
        wait_for(lambda: count(run, "probes.jsonl", kind="written", acknowledged=True) > 30)
        began, before = time.monotonic(), server.looks()
        wait_for(lambda: count(run, "probes.jsonl", kind="written", acknowledged=True) > 70)
        looks, lasted = server.looks() - before, time.monotonic() - began
        server.mode("ok")
        wait_for(lambda: count(run, "probes.jsonl", kind="seen") > 60)
        assert driver.stop()
    assert looks < (10 + 2 * 20) * lasted + 20, "searches ten times a second, and gets of those that are written"


def test_where_some_shards_do_not_answer_each_document_is_asked_for_alone(run: Path, drive: Drive) -> None:
    with serving() as server:
        driver = drive(server, cas=None, rate=1, visibility=VisibilityConfig(rate=20, within_s=30))
        server.mode("partial")
        wait_for(lambda: count(run, "probes.jsonl", kind="seen") > 20)
        assert driver.stop()
    looks = visibility.looks(record(run))
    assert all(REFRESH * 0.9 < each.seconds < REFRESH + 2 for each in looks if each.seen)


def test_a_load_that_ceases_looks_for_nothing_any_more(run: Path, drive: Drive) -> None:
    with serving() as server:
        driver = drive(server, rate=1, visibility=VisibilityConfig(rate=4, within_s=3600))
        server.mode("hidden")
        wait_for(lambda: count(run, "probes.jsonl", kind="written", acknowledged=True) > 3)
        driver.cease()
        assert driver.stop(), "it ended in order, and waited for no document"
    assert count(run, "probes.jsonl", kind="unseen") == 0


def test_an_experiment_without_them_has_none_of_their_files(run: Path, drive: Drive) -> None:
    with serving() as server:
        driver = drive(server, cas=None, visibility=None)
        wait_for(lambda: driver.status.get("sent_total", 0) > 5)
        assert driver.stop()
    assert not {"cas.jsonl", "probes.jsonl", "stale.jsonl"} & {path.name for path in (run / "history").iterdir()}


def test_every_write_requires_the_alias_that_it_is_told_and_no_read_goes_there(run: Path, drive: Drive) -> None:
    """One that comes after the index was deleted must not make it anew; the stub takes no other writes in this mode."""
    with serving() as server:
        server.mode("aliased")
        driver = drive(server, rate=20, alias="chaos-writes")
        wait_for(lambda: count(run, "probes.jsonl", kind="seen") > 3 and count(run, "cas.jsonl", kind="ok") > 20)
        assert driver.stop()
    arrivals = History.open(run).arrivals
    assert set(arrivals.outcome) == {"ok"} and set(arrivals.op) == {"read", "write"}
    assert {each.status for each in operations(record(run).cas) if each.end} <= {200, 201, 409}


def test_operations_that_a_killed_driver_left_are_indeterminate(run: Path, drive: Drive) -> None:
    with serving() as server:
        driver = drive(server, visibility=None)
        wait_for(lambda: count(run, "cas.jsonl", kind="ok") > 5)
        server.freeze()
        open_ = lambda: [each for each in operations(History.open(run).cas) if each.end is None]  # noqa: E731
        wait_for(lambda: len(open_()) > 2)
        driver.kill()
    assert all(each.kind == "info" for each in open_())


def test_the_open_loop_does_not_wait_for_them(run: Path, drive: Drive) -> None:
    """A frozen server: the arrivals go on at their rate while every check on data hangs."""
    with serving() as server:
        driver = drive(server, rate=50, timeout=1.0)
        wait_for(lambda: driver.status.get("sent_total", 0) > 20)
        server.freeze()
        begin = time.monotonic_ns()
        wait_for(lambda: time.monotonic_ns() > begin + 1_500_000_000)
        end = time.monotonic_ns()
        server.thaw()
        assert driver.stop()
    frame = History.open(run).arrivals
    due = frame[(frame.intended >= begin) & (frame.intended < end)]
    assert abs(len(due) - 100 * (end - begin) / 1e9) <= 2
    assert (due.start - due.intended).quantile(0.5) < 20_000_000


# ---- answers ------------------------------------------------------------------------------------------------


def answer(status: int = 200, data: Any = None, outcome: Outcome = Outcome.OK, attempts: int = 1) -> Answer:
    return Answer(outcome, status, 0, attempts, data)


FOUND = {"found": True, "_seq_no": 4, "_primary_term": 2, "_source": {"seq": 9}}


@pytest.mark.parametrize(
    ("given", "kind", "value"),
    [
        (answer(data=FOUND), "ok", 9),
        (answer(404, {"found": False}, Outcome.PARTIAL), "ok", None),
        (answer(503, {"error": {}}, Outcome.SERVER_ERROR), "fail", None),
        (answer(0, None, Outcome.TIMEOUT), "fail", None),
        (answer(data="text"), "fail", None),
        (answer(data={**FOUND, "_source": {}}), "fail", None),
        (answer(data={**FOUND, "_source": {"seq": "9"}}), "fail", None),
        (answer(data={**FOUND, "_source": {"seq": 9.5}}), "fail", None),
        (answer(data={**FOUND, "_seq_no": None}), "fail", None),
        (answer(404, {"found": None}, Outcome.CLIENT_ERROR), "fail", None),
        (answer(404, {"found": 0}, Outcome.CLIENT_ERROR), "fail", None),
        (answer(200, None, Outcome.GARBLED), "fail", None),
    ],
)
def test_what_a_get_says(given: Answer, kind: str, value: int | None) -> None:
    assert of_read(given, "seq")[0] == kind and of_read(given, "seq")[1].get("value") == value


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (answer(201, {"_seq_no": 4, "_primary_term": 2}), "ok"),
        (answer(200, None), "info"),
        (answer(200, None, Outcome.GARBLED), "info"),
        (answer(200, {"_seq_no": "4", "_primary_term": 2}), "info"),
        (answer(200, {"_seq_no": True, "_primary_term": 2}), "info"),
        (answer(409, {"error": {}}, Outcome.UNKNOWN), "info"),
        (answer(429, {}, Outcome.REJECTED), "info"),
        (answer(503, {}, Outcome.SERVER_ERROR), "info"),
        (answer(0, None, Outcome.TIMEOUT), "info"),
        (answer(0, None, Outcome.REFUSED), "fail"),
        (answer(0, None, Outcome.REFUSED, attempts=2), "info"),
        (answer(0, None, Outcome.DROPPED), "fail"),
    ],
)
def test_what_a_conditional_write_says(given: Answer, kind: str) -> None:
    assert of_write(given)[0] == kind


def test_only_a_whole_search_can_say_how_many_there_are() -> None:
    shards = {"total": 1, "successful": 1, "failed": 0}
    whole = {"timed_out": False, "_shards": shards, "hits": {"total": {"value": 0}}}
    assert hits_of(whole) == 0
    for other in (
        None,
        {},
        {**whole, "timed_out": True},
        {**whole, "_shards": {**shards, "failed": 1}},
        {**whole, "_shards": {"total": 0, "successful": 0, "failed": 0}},
        {**whole, "hits": {}},
    ):
        assert hits_of(other) is None


def test_a_get_that_finds_nothing_is_partial_and_another_404_is_not() -> None:
    assert of_error(NotFoundError(404, "x", {"found": False})) == (Outcome.PARTIAL, 404)
    assert of_error(NotFoundError(404, "index_not_found_exception", {"error": {}})) == (Outcome.CLIENT_ERROR, 404)
    assert of_error(TransportError(404, "x", "text")) == (Outcome.CLIENT_ERROR, 404)
    assert of_error(ConflictError(409, "x", {})) == (Outcome.UNKNOWN, 409)


def test_the_driver_asks_every_node_in_service_for_everything_and_its_record_says_so(run: Path, drive: Drive) -> None:
    """Two client zones, two nodes in service, one whose health checks are refused, as that of a standby zone."""
    seconds = 5
    with serving() as server, serving() as standby:
        standby.mode("unhealthy")
        zones = (ClientHost(zone="a"), ClientHost(zone="b"))
        driver = drive(server, server, standby, rate=20, clients=zones)
        begun = time.monotonic_ns()
        wait_for(lambda: time.monotonic_ns() > begun + (seconds + 1) * 1_000_000_000, 60)
        assert driver.stop()
    load = {op: {"rate": 20, "good_within": 1.0} for op in ("read", "write")}
    plan = json.loads((run / "plan.json").read_text())
    plan["experiment"]["load"] |= load
    plan["client"] = driver.config.model_dump(mode="json", exclude={"out", "access"})
    (run / "plan.json").write_text(json.dumps(plan))
    phase = {"phase": "all", "wall": 0.0}
    events = [
        {"t": begun + 500_000_000, "kind": "phase.start", **phase, "index": 0, "scripted_wait": False},
        {"t": begun + 500_000_000 + seconds * 1_000_000_000, "kind": "phase.end", **phase, "reason": "elapsed"},
    ]
    (run / "history" / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    found = coverage.of(Record(History.open(run)))
    (span,) = found.record.spans
    assert found.known and set(found.total) == {
        "read",
        "write",
        *coverage.LOOKS,
        "compare-and-set write",
        "probe write",
    }
    for kind in found.total:
        assert found.short(kind, answers=kind in coverage.LOOKS) == [], kind
        rows = [found.row(kind, node, span, answers=False) for node in ("a-data", "b-data", "c-data")]
        assert rows[0].asked > 0 and rows[1].asked > 0 and (rows[2].asked > 0) == (kind in coverage.DIRECT), kind
        assert (rows[2].due > 0) == (kind in coverage.DIRECT), kind
    assert coverage.unread_keys(found.record) == []
