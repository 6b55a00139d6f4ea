from __future__ import annotations

import json
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.base.errors import HistoryError
from chaos.history import EventWriter, History, Outcome, compact
from chaos.history.format import ARRIVAL, NO_INDEX, SCHEDULED
from chaos.history.items import entry
from chaos.history.reader import OUTCOMES
from chaos.history.writer import RowWriter, write_tables

MS = 1_000_000
SECOND = 1000 * MS


@pytest.fixture
def run(tmp_path):
    plan = {"experiment": {"load": {"read": {"good_within": 0.1}, "write": {"good_within": 0.1}}}}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    write_tables(tmp_path / "history", operations=["read", "write"], clients=["a", "b"], nodes=["a-data", "b-data"])
    return tmp_path


def schedule(run, count, *, every=10 * MS, first=0):
    rows = np.zeros(count, SCHEDULED)
    rows["k"] = np.arange(first, first + count)
    rows["op"] = rows["k"] % 2
    rows["intended"] = rows["k"] * every
    append(run / "history" / "scheduled.bin", rows.tobytes())
    return rows


def finish(run, scheduled, *, latency=5 * MS, **columns):
    rows = np.zeros(len(scheduled), ARRIVAL)
    for name in ("k", "op", "intended"):
        rows[name] = scheduled[name]
    rows["start"] = rows["intended"] + MS
    rows["end"] = rows["intended"] + latency
    rows["status"], rows["attempts"] = 200, 1
    for name, value in columns.items():
        rows[name] = value
    append(run / "history" / "arrivals.bin", rows.tobytes())


def append(path, data):
    writer = RowWriter(path)
    writer.add(data)
    writer.close()


def events(run, *given):
    with EventWriter(run / "history" / "events.jsonl") as writer:
        for t, kind, fields in given:
            writer.write(kind, t=t, **fields)


def test_the_records_of_several_driver_processes_are_one(run):
    """Arrival k is of process k modulo their number, and each process has its own end."""
    other = run / "history" / "driver-1"
    for process, folder in enumerate((run / "history", other)):
        rows = np.zeros(10, SCHEDULED)
        rows["k"], rows["intended"] = np.arange(10) * 2 + process, np.arange(10) * 10 * MS
        append(folder / "scheduled.bin", rows.tobytes())
        done = np.zeros(4, ARRIVAL)
        for name in ("k", "op", "intended"):
            done[name] = rows[:4][name]
        append(folder / "arrivals.bin", done.tobytes())
        append(folder / "items.bin", entry(int(rows["k"][0]), bytes([process, 0])))
        with EventWriter(folder / "driver.jsonl") as writer:
            writer.write("driver.start", t=process, process=process, processes=2)
            writer.write("driver.stop", t=100 * MS, stopped_ns=(50 + 20 * process) * MS)
    history = History.open(run)
    assert history.processes == 2
    assert [event.get("process") for event in history.driver if event["kind"] == "driver.stop"] == [None, 1]
    frame = history.arrivals
    known = frame[frame.outcome == "ok"]
    assert sorted(known.k) == list(range(8))
    unknown = frame[frame.outcome == "unknown"]  # due before that process had stopped, and without an outcome
    assert sorted(unknown.k) == [8, 9, 10, 11, 13, 15]
    assert history.items.k.tolist() == [0, 1] and history.items.outcome.tolist() == [0, 0, 1, 0]
    compact(run)
    assert not list(run.glob("history/**/*d.bin")) and not list(run.glob("history/**/arrivals.bin"))
    assert History.open(run).arrivals.equals(frame)


def test_arrivals_are_joined_with_the_schedule(run):
    rows = schedule(run, 10)
    finish(run, rows[[0, 2, 1]])
    finish(run, rows[3:4], outcome=Outcome.DROPPED, node=NO_INDEX, status=0)
    frame = History.open(run).arrivals
    assert list(frame.k) == list(range(10))
    assert list(frame.outcome) == ["ok"] * 3 + ["dropped"] + ["unknown"] * 6
    assert list(frame.op[:3]) == ["read", "write", "read"]
    assert frame.latency_ms[:3].tolist() == [5.0] * 3
    assert frame.latency_ms[3:].isna().all()
    assert frame.node[0] == "a-data" and pd.isna(frame.node[3]) and pd.isna(frame.client[9])
    assert frame.intended[9] == 90 * MS and frame.end[9] == 0


def test_what_was_planned_for_after_the_stop_was_never_due(run):
    rows = schedule(run, 20)
    finish(run, rows[:8])
    events(run, (100 * MS, "load.stop", {}))
    assert len(History.open(run).arrivals) == 11
    with EventWriter(run / "history" / "driver.jsonl") as writer:
        writer.write("driver.stop", reason="stopped", stopped_ns=75 * MS)
    assert list(History.open(run).arrivals.outcome) == ["ok"] * 8


def test_half_a_row_at_the_end_is_left_out(run):
    rows = schedule(run, 4)
    finish(run, rows[:3])
    for name in ("scheduled.bin", "arrivals.bin"):
        path = run / "history" / name
        path.write_bytes(path.read_bytes()[:-3])
    assert list(History.open(run).arrivals.outcome) == ["ok", "ok", "unknown"]


def test_a_run_without_any_arrival(run):
    frame = History.open(run).arrivals
    assert len(frame) == 0 and list(frame.op.cat.categories) == ["read", "write"]
    assert len(History.open(run).phase_of_arrivals()) == 0


def test_compacting_keeps_every_arrival_and_can_be_repeated(run):
    rows = schedule(run, 1000)
    finish(run, rows[:990], outcome=rows["k"][:990] % 4)
    before = History.open(run).arrivals
    target = compact(run)
    assert compact(run) == target
    assert not (run / "history" / "arrivals.bin").exists()
    pd.testing.assert_frame_equal(History.open(run).arrivals, before)


def test_why_arrivals_failed_is_kept_and_a_file_of_before_says_of_none(run):
    rows = schedule(run, 100)
    finish(run, rows, outcome=rows["k"] % 4, failure=rows["k"] % 4)
    before = History.open(run).arrivals
    assert before.failure.tolist() == (before.k % 4).tolist()
    target = compact(run)
    pd.testing.assert_frame_equal(History.open(run).arrivals, before)
    table = pq.read_table(target)
    pq.write_table(table.drop_columns(["failure"]), target)
    old = History.open(run)
    assert not old.arrivals.failure.any()
    assert list(old.arrivals.columns) == list(before.columns)
    (batch,) = History.open(run).batches(("k", "failure", "op"))
    assert list(batch.columns) == ["k", "failure", "op"] and not batch.failure.any()
    pd.testing.assert_frame_equal(old.arrivals.drop(columns="failure"), before.drop(columns="failure"))


def test_a_file_that_is_older_than_an_outcome_is_read_as_before(run):
    """Outcomes are appended and never numbered anew."""
    assert OUTCOMES[:10] == (
        *("ok", "partial", "rejected", "server_error", "refused", "reset", "timeout", "dropped", "unknown"),
        "client_error",
    )
    rows = schedule(run, 100)
    finish(run, rows, outcome=rows["k"] % 8)
    before = History.open(run).arrivals
    target = compact(run)
    table = pq.read_table(target)
    frame = table.to_pandas()
    frame["outcome"] = frame["outcome"].cat.set_categories(OUTCOMES[:8])  # all that it ever heard of
    old = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(old.replace_schema_metadata({**old.schema.metadata, **_own(table.schema.metadata)}), target)
    assert pq.read_table(target).schema.field("outcome").type == table.schema.field("outcome").type
    pd.testing.assert_frame_equal(History.open(run).arrivals, before)
    for batch in History.open(run).batches(("k", "outcome")):
        assert tuple(batch.outcome.cat.categories) == OUTCOMES
        assert (batch.outcome.cat.codes == batch.k % 8).all()


def _own(metadata):
    return {key: value for key, value in metadata.items() if key != b"pandas"}


def test_folders_that_are_no_history(tmp_path, run):
    with pytest.raises(HistoryError, match=r"plan\.json"):
        History.open(tmp_path / "nowhere")
    tables = run / "history" / "arrivals.json"
    tables.write_text(json.dumps({**json.loads(tables.read_text()), "format": 99}))
    with pytest.raises(HistoryError, match="99"):
        History.open(run)


def test_events_survive_threads_torn_lines_and_a_second_writer(tmp_path):
    path = tmp_path / "history" / "events.jsonl"
    with EventWriter(path) as writer:
        threads = [
            threading.Thread(target=lambda: [writer.write("note", says="x" * 200) for _ in range(100)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with open(path, "ab") as file:
        file.write(b'{"t": 1, "wall": 2, "ki')
    with EventWriter(path) as writer:
        t = writer.write("clock")
    (tmp_path / "plan.json").write_text("{}")
    found = History.open(tmp_path).events
    assert len(found) == 401
    assert found[-1]["kind"] == "clock" and found[-1]["t"] == t
    assert [e["t"] for e in found] == sorted(e["t"] for e in found)


PHASES = (
    (0, "phase.start", {"phase": "healthy", "index": 0, "scripted_wait": False}),
    (1 * SECOND, "phase.end", {"phase": "healthy", "reason": "elapsed"}),
    (1 * SECOND, "phase.start", {"phase": "slow", "index": 1, "scripted_wait": True}),
    (1 * SECOND + 20 * MS, "fault.command", {"fault": "f1", "fault_kind": "network.latency", "says": "slow"}),
    (1 * SECOND + 30 * MS, "fault.in_effect", {"fault": "f1"}),
)


@contextmanager
def room(size: int) -> Iterator[None]:
    """Regular files may grow to ``size`` bytes, as on a full disk. For moments only: pytest writes to a file too."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_event_that_does_not_fit_is_told_and_leaves_no_half_line(tmp_path):
    told: list[str] = []
    path = tmp_path / "events.jsonl"
    writer = EventWriter(path, told.append)
    writer.write("first")
    whole = path.read_bytes()
    with room(len(whole) + 10), pytest.raises(OSError):  # the kernel takes ten bytes of the second
        writer.write("second")
    assert told == ["the record cannot be written: events.jsonl: File too large"]
    assert path.read_bytes() == whole
    writer.write("third")
    assert [json.loads(line)["kind"] for line in path.read_text().splitlines()] == ["first", "third"]


def test_rows_that_do_not_fit_are_told_and_leave_no_half_row(tmp_path):
    told: list[str] = []
    path = tmp_path / "arrivals.bin"
    writer = RowWriter(path, told.append)
    writer.add(b"a" * 40)
    writer.flush()
    writer.add(b"b" * 40)
    with room(60), pytest.raises(OSError):
        writer.flush()
    assert told == ["the record cannot be written: arrivals.bin: File too large"]
    writer.add(b"c" * 40)
    writer.close()
    assert path.read_bytes() == b"a" * 40 + b"c" * 40


def test_phases(run):
    events(run, *PHASES, (3 * SECOND, "note", {"says": "cut short"}))
    history = History.open(run)
    healthy, slow = history.phases
    assert (healthy.name, healthy.seconds, healthy.reason) == ("healthy", 1.0, "elapsed")
    assert (slow.scripted_wait, slow.end_ns, slow.reason) == (True, 3 * SECOND, None)


def test_the_phase_of_an_arrival(run):
    rows = schedule(run, 300)
    finish(run, rows[:90])
    finish(run, rows[90:98], latency=5 * MS)
    finish(run, rows[98:100], latency=400 * MS)
    finish(run, rows[100:])
    events(run, *PHASES, (2 * SECOND, "phase.end", {"phase": "slow", "reason": "elapsed"}))
    phase = History.open(run).phase_of_arrivals()
    assert set(phase[:98]) == {"healthy"}
    # intended in the healthy phase, but still within 100 ms when the fault came, and hit by it
    assert set(phase[98:100]) == {"slow"}
    assert set(phase[100:200]) == {"slow"}
    assert phase[200:].isna().all()
    strict = History.open(run).phase_of_arrivals({"read": 0.0, "write": 0.0})
    assert set(strict[98:100]) == {"healthy"}


@pytest.mark.parametrize("form", ["rows", "parquet", "memory"])
def test_batches_are_the_arrivals_in_pieces(run, form, monkeypatch):
    monkeypatch.setattr("chaos.history.reader.BATCH", 70)
    monkeypatch.setattr("chaos.history.parquet.ROW_GROUP", 300)
    monkeypatch.setattr("chaos.history.reader._Rows.BLOCK", 64)
    rows = schedule(run, 1000)
    rng = np.random.default_rng(1)
    order = np.argsort(np.arange(990) + rng.integers(0, 300, 990), kind="stable")  # answered in another order
    finish(run, rows[order], outcome=rng.integers(0, 8, 990), node=rng.integers(0, 2, 990))
    finish(run, rows[500:510], status=503)  # what was written last about an arrival counts
    events(run, (9800 * MS, "load.stop", {}))
    whole = History.open(run).arrivals
    assert len(whole) == 990 and (whole.status[500:510] == 503).all()
    if form == "parquet":
        compact(run)
        pd.testing.assert_frame_equal(History.open(run).arrivals, whole)
    history = History.open(run)
    if form == "memory":
        _ = history.arrivals
    batches = list(history.batches())
    assert len(batches) >= 990 // 70
    pd.testing.assert_frame_equal(pd.concat(batches, ignore_index=True), whole.drop(columns="latency_ms"))
    assert list(next(history.batches(("end", "op"))).columns) == ["end", "op"]
    assert np.array_equal(
        np.concatenate([history.span_of(batch) for batch in batches]), history.span_of(history.arrivals)
    )


def test_a_number_far_beyond_the_schedule_is_damage(run):
    rows = schedule(run, 10)
    rows["k"][9] = 10**9
    finish(run, rows)
    with pytest.raises(HistoryError, match="damaged"):
        list(History.open(run).batches())


def test_the_drivers_slices_read_as_they_were_written(run):
    given = [[10**18 + 1, 10**18 + 2, 0.5], [10**18 + 2, 10**18 + 3, None]]
    with EventWriter(run / "history" / "driver.jsonl") as writer:
        writer.write("self", cpu=0.1, processors=given)
        writer.write("self", cpu=0.1, processors=[])
        writer.write("self", cpu=0.1, processors="what is this")
    first, second, third = (event["processors"] for event in History.open(run).driver)
    assert [list(each) for each in first] == given and first[1] == tuple(given[1]) and len(first) == 2
    assert second == [] and third == "what is this"
