"""The compact arrivals say exactly what plain arrays say: piece by piece, and in whole verdicts and drawings."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import synthetic
from hypothesis import given
from hypothesis import strategies as st

from chaos.checks import evaluate
from chaos.checks.arrivals import SECOND, UNANSWERED, Arrivals, binned, per_window, ranked
from chaos.checks.record import Record, windows
from chaos.history import History, Outcome, compact, parquet, reader
from chaos.report import render_html

COLUMNS = ("intended", "start", "end", "latency", "outcome", "good", "phase", "k", "client", "node")
WITHIN = 0.1


@dataclasses.dataclass(frozen=True)
class Plain:
    """The same as :class:`Arrivals` in the plainest way: whole columns, and everything from those."""

    intended: np.ndarray
    start: np.ndarray
    end: np.ndarray
    latency: np.ndarray
    outcome: np.ndarray
    good: np.ndarray
    phase: np.ndarray
    k: np.ndarray
    client: np.ndarray
    node: np.ndarray

    @classmethod
    def of(cls, rows: dict[str, np.ndarray], within: float) -> Plain:
        rows = {name: column[np.argsort(rows["intended"], kind="stable")] for name, column in rows.items()}
        answered = ~np.isin(rows["outcome"], [int(item) for item in UNANSWERED]) & (rows["end"] > 0)
        latency = np.where(answered, (rows["end"] - rows["intended"]) / SECOND, np.inf)
        return cls(**rows, latency=latency, good=(rows["outcome"] == Outcome.OK) & (latency <= within))

    def __len__(self) -> int:
        return len(self.intended)

    def where(self, mask: np.ndarray) -> Plain:
        return Plain(*(getattr(self, field.name)[mask] for field in dataclasses.fields(self)))

    def pieces(self) -> list[Plain]:
        return [self]

    def between(self, start: int, end: int) -> Plain:
        return self.where((self.intended >= start) & (self.intended < end))

    def in_phase(self, index: int) -> Plain:
        return self.where(self.phase == index)

    @property
    def counts(self) -> np.ndarray:
        return np.array([[np.sum((self.outcome == o) & (self.good == g)) for g in (False, True)] for o in Outcome])

    @property
    def answered(self) -> int:
        return int(np.isfinite(self.latency).sum())

    @property
    def last(self) -> int | None:
        return int(self.intended[-1]) if len(self) else None

    def ranked(self, ranks: list[int]) -> list[float]:
        return [float(np.sort(self.latency)[rank - 1]) for rank in ranks]

    def with_good(self, good: np.ndarray) -> Plain:
        return dataclasses.replace(self, good=good)

    def forgiving(self, forgivable: Any, latency: float) -> Plain:
        mask = forgivable(self)
        return dataclasses.replace(self, good=self.good | mask, latency=np.where(mask, latency, self.latency))


def plain_per_window(
    arrivals: Plain, frames: list[tuple[int, int]], *, clip: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    edges = np.array([start for start, _ in frames] + [frames[-1][1]], np.int64)
    at = np.searchsorted(edges, arrivals.intended, side="right") - 1
    if clip:
        at = np.clip(at, 0, len(frames) - 1)
    inside = (at >= 0) & (at < len(frames))
    scheduled = np.bincount(at[inside], minlength=len(frames))
    return scheduled, np.bincount(at[inside & ~arrivals.good], minlength=len(frames))


def plain_binned(arrivals: Plain | Arrivals, edges: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Bin by bin, each looked up by itself."""
    parts = [arrivals.between(start, end) for start, end in itertools.pairwise(edges.tolist())]
    return np.array([part.counts for part in parts]), [part.latency for part in parts]


def plain_read(self: Record, history: History) -> dict[str, Plain]:
    """In place of ``Record._read``: from the one big frame."""
    frame = history.arrivals
    place = {span.name: span.index for span in self.spans}
    phase = history.phase_of_arrivals().map(place, na_action="ignore").astype(float).fillna(-1).to_numpy(np.int64)
    self.last_seen = max([self.last_seen, *(int(frame[name].max()) for name in ("intended", "end") if len(frame))])
    columns = {name: frame[name].to_numpy(np.int64) for name in ("k", "intended", "start", "end")}
    columns |= {"outcome": frame["outcome"].cat.codes.to_numpy(np.int64), "phase": phase}
    self.clients, self.nodes = (tuple(frame[name].cat.categories) for name in ("client", "node"))
    for name in ("client", "node"):
        columns[name] = frame[name].cat.codes.to_numpy(np.int64)
    found = {}
    for op in self.operations:
        mask = (frame["op"] == op.name).to_numpy()
        found[op.name] = Plain.of({name: column[mask] for name, column in columns.items()}, op.good_within)
    return found


def judged_and_drawn(folder: Path) -> tuple[str, str]:
    findings = evaluate(History.open(folder)).to_json()
    return json.dumps(findings), render_html(History.open(folder), findings)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("slow_zone", "rows"),
        pytest.param("black_hole", "parquet", marks=pytest.mark.full),
        pytest.param("killed", "rows", marks=pytest.mark.full),
        ("starved", "parquet"),
        pytest.param("dropped", "rows", marks=pytest.mark.full),
    ],
)
def test_findings_and_report_are_those_of_the_plain_way(name: str, form: str, tmp_path: Path, monkeypatch) -> None:
    story = synthetic.STORIES.get(name, synthetic.slow_zone)()
    if name == "starved":  # late answers that are forgiven
        story.chapters[0].read = synthetic.mixed((3, 3.2, 1, Outcome.OK, 0.25), (8, 9, 1, Outcome.OK, 0.15))
        story.starved = ((3.0, 3.5), (8.0, 8.5))
    if name == "dropped":
        story.chapters[2].write = synthetic.mixed((1, 2, 0.3, Outcome.DROPPED, 0), (2, 9, 0.1, Outcome.UNKNOWN, 0))
    monkeypatch.setattr(reader, "BATCH", 777)  # many small parts
    monkeypatch.setattr(parquet, "ROW_GROUP", 5000)
    folder = story.write(tmp_path / "run")
    if form == "parquet":
        compact(folder)
    found = judged_and_drawn(folder)
    monkeypatch.setattr(Record, "_read", plain_read)
    for module in [module for path, module in sys.modules.items() if path.startswith("chaos.")]:
        if getattr(module, "per_window", None) is per_window:
            monkeypatch.setattr(module, "per_window", plain_per_window)
        if getattr(module, "binned", None) is binned:
            monkeypatch.setattr(module, "binned", plain_binned)
    assert found == judged_and_drawn(folder)


# -- piece by piece --------------------------------------------------------------------------------------


@st.composite
def rows(draw: st.DrawFn, most: int = 40) -> dict[str, np.ndarray]:
    """Columns of some arrivals: ties, gaps and answers too long for four bytes, missing moments, any order."""
    count = draw(st.integers(0, most))

    def column(values: st.SearchStrategy[int]) -> np.ndarray:
        return np.array(draw(st.lists(values, min_size=count, max_size=count)), np.int64)

    steps = column(st.sampled_from([0, 1, 10**6, 10**9, 5 * 10**9]))
    intended = 10**15 + np.cumsum(steps)
    if draw(st.booleans()):
        intended = intended[np.argsort(column(st.integers(0, 3)), kind="stable")]
    after = column(st.sampled_from([0, 1, 10**6, 10**8, 2**32 - 2, 2**32 - 1, 2**32, 5 * 10**9, -1]))
    lag = column(st.sampled_from([0, 1000, 2**32]))
    start, end = intended + lag, intended + after
    start[column(st.integers(0, 5)) == 0], end[column(st.integers(0, 5)) == 0] = 0, 0
    return {
        "intended": intended,
        "start": start,
        "end": end,
        "outcome": column(st.sampled_from([int(outcome) for outcome in Outcome])),
        "phase": column(st.sampled_from([-1, 0, 1, 2, 300])),
        "k": np.cumsum(column(st.sampled_from([1, 2, 255, 256, 10**10]))),
        "client": column(st.integers(-1, 1)),
        "node": column(st.sampled_from([-1, 0, 200])),
    }


def made(given: dict[str, np.ndarray], size: int) -> tuple[Arrivals, Plain]:
    """The same arrivals in parts of ``size`` and plain."""
    several = [
        Arrivals.of(**{name: column[at : at + size] for name, column in given.items()}, good_within=WITHIN)
        for at in range(0, len(given["k"]), size)
    ]
    return Arrivals.joined(several), Plain.of(given, WITHIN)


def same(found: Arrivals, plain: Plain) -> None:
    assert len(found) == len(plain)
    for name in COLUMNS:
        column = getattr(found, name)
        assert column.dtype == getattr(plain, name).dtype, name
        np.testing.assert_array_equal(column, getattr(plain, name), name)
    np.testing.assert_array_equal(found.counts, plain.counts)
    assert (found.answered, found.last) == (plain.answered, plain.last)


@given(rows(), st.integers(1, 12), st.data())
def test_selections_are_those_of_plain_arrays(given_rows, size: int, data: st.DataObject) -> None:
    found, plain = made(given_rows, size)
    same(found, plain)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(plain), max_size=len(plain))), bool)
    same(found.where(mask), plain.where(mask))
    edges = sorted(data.draw(st.tuples(*[st.integers(10**15 - 5, 10**15 + 6 * 10**10)] * 2)))
    same(found.between(*edges), plain.between(*edges))
    for index in (-1, 0, 1, 2, 3, 300):
        same(found.in_phase(index), plain.in_phase(index))
        same(
            found.in_phase(index).where(mask[: len(found.in_phase(index))]),
            plain.in_phase(index).where(mask[: len(found.in_phase(index))]),
        )
    same(found.with_good(mask), plain.with_good(mask))
    pieces = list(found.pieces())
    assert sum(map(len, pieces)) == len(plain)
    np.testing.assert_array_equal(np.concatenate([np.zeros(0, np.int64), *(piece.k for piece in pieces)]), plain.k)


@given(rows(), st.integers(1, 12), st.data())
def test_what_is_forgiven_is_good_after_the_given_time(given_rows, size: int, data: st.DataObject) -> None:
    found, plain = made(given_rows, size)
    chosen = set(data.draw(st.lists(st.sampled_from(plain.k.tolist()))) if len(plain) else [])
    pick = lambda part: np.isin(part.k, list(chosen))  # noqa: E731
    after, plain_after = found.forgiving(pick, 0.1), plain.forgiving(pick, 0.1)
    same(after, plain_after)
    same(after.between(10**15, 10**15 + 10**9), plain_after.between(10**15, 10**15 + 10**9))
    same(found, plain)


@given(
    st.lists(st.floats(allow_nan=False) | st.just(np.inf) | st.sampled_from([0.25, 0.2500001, -0.0])),
    st.integers(1, 5),
    st.sampled_from([0, 3, 10**6]),
    st.data(),
)
def test_ranks_are_those_of_the_sorted_values(values, size: int, few: int, data: st.DataObject) -> None:
    parts = [np.array(values[at : at + size]) for at in range(0, len(values), size)]
    ranks = data.draw(st.lists(st.integers(1, len(values)))) if values else []
    assert ranked(lambda: parts, ranks, few) == [sorted(values)[rank - 1] for rank in ranks]
    for beyond in (0, len(values) + 1):
        with pytest.raises(IndexError):
            ranked(lambda: parts, [beyond], few)


@given(rows(), st.integers(1, 12), st.integers(-3, 30), st.integers(1, 30), st.sampled_from([0.5, 1.0, 7.0]))
def test_windows_hold_what_they_hold_in_plain_arrays(given_rows, size, start, length, width) -> None:
    found, plain = made(given_rows, size)
    frames = windows(10**15 + start * SECOND, 10**15 + (start + length) * SECOND, width)
    for clip in (False, True):
        for one, other in zip(
            per_window(found, frames, clip=clip), plain_per_window(plain, frames, clip=clip), strict=True
        ):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == np.int64


@given(rows(), st.integers(1, 12), st.integers(-3, 30), st.integers(1, 30), st.sampled_from([0.5, 1.0, 7.0]))
def test_bins_hold_what_they_hold_in_plain_arrays(given_rows, size, start, number, width) -> None:
    given_rows = {
        name: column[np.argsort(given_rows["intended"], kind="stable")] for name, column in given_rows.items()
    }
    found, plain = made(given_rows, size)
    edges = 10**15 + start * SECOND + np.arange(number + 1) * int(width * SECOND)
    (counts, latencies), (plain_counts, plain_latencies) = binned(found, edges), plain_binned(plain, edges)
    np.testing.assert_array_equal(counts, plain_counts)
    for one, other in zip(latencies, plain_latencies, strict=True):
        np.testing.assert_array_equal(one, other)


def test_ordinary_arrivals_take_eighteen_bytes_each(tmp_path: Path) -> None:
    record = Record(synthetic.slow_zone().history())
    part = record.arrivals["read"]._parts[0]
    columns = [part.spaced.steps, part.numbered.steps, part.start, part.end, part.outcome, part.good]
    assert sum(column.itemsize for column in [*columns, part.phase, part.client, part.node]) == 18


def test_names_of_clients_and_nodes_are_found_whatever_their_codes_in_a_batch(tmp_path: Path, monkeypatch) -> None:
    folder = synthetic.slow_zone().write(tmp_path)
    frame = History.open(folder).arrivals
    frame.loc[5:9, "node"] = None

    def batches(self: History, columns: tuple[str, ...]) -> Any:
        for at in range(0, len(frame), 4000):
            batch = frame.iloc[at : at + 4000].copy()
            order = list(batch["node"].cat.categories)[:: -1 if at else 1]
            batch["node"] = batch["node"].cat.set_categories(order)
            yield batch[list(columns)]

    monkeypatch.setattr(History, "batches", batches)
    record = Record(History.open(folder))
    assert (record.clients, record.nodes) == (synthetic.CLIENTS, synthetic.NODES)
    for op, part in record.arrivals.items():
        of_op = frame[frame["op"] == op]
        named = [None if code < 0 else record.nodes[code] for code in part.node]
        assert named == [None if pd.isna(name) else name for name in of_op["node"]]
        assert part.k.tolist() == of_op["k"].tolist()
