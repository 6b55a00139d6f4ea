"""Reading a run's folder as a history, whole or cut short by a crash.

Nothing here needs the machine, the lab or the driver that made the run. Work over arrivals is vectorised:
10 million rows (a day at 115 arrivals per second) are read in seconds. :attr:`History.arrivals` is all of them at once,
61 bytes each; :meth:`History.batches` needs a few megabytes for any number.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import numpy.typing as npt

from chaos.base.errors import HistoryError
from chaos.base.paths import fsync_folder
from chaos.history import parquet, seal
from chaos.history.changes import Changes
from chaos.history.format import ARRIVAL, DRIVERS, HISTORY_VERSION, NO_INDEX, SCHEDULED, Outcome
from chaos.history.items import Items
from chaos.history.models import Plan
from chaos.history.writer import (
    ARRIVALS,
    AUDIT,
    CAS,
    CHANGES,
    CONTROLLER_EVENTS,
    DRIVER_EVENTS,
    EVENTS,
    ITEMS,
    PARQUET,
    PARTS,
    PROBES,
    RESTORED,
    STALE,
    TABLES,
    TOLD,
    WRONG,
)
from chaos.history.writer import SCHEDULED as SCHEDULED_FILE

if TYPE_CHECKING:  # they take 0.4 s of a processor and 60 MB, and most that import this file read no arrivals
    import pandas as pd

OUTCOMES: tuple[str, ...] = tuple(outcome.name.lower() for outcome in Outcome)
"""The names of the outcomes, as in the column ``outcome``; the position is the number."""
BATCH = 1 << 18
"""Arrivals that are in memory at once where they need not be all there."""
COLUMNS = ("k", "op", "outcome", "status", "client", "node", "attempts", "failure", "intended", "start", "end")


@dataclass(frozen=True)
class PhaseSpan:
    """One phase as it really ran. Times are CLOCK_MONOTONIC ns; ``reason`` is None for a run cut short."""

    name: str
    index: int
    start_ns: int
    end_ns: int
    scripted_wait: bool
    reason: str | None

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9


class History:
    """Everything that one run left behind. Parts are read when they are first asked for."""

    def __init__(self, folder: Path, plan: Plan | None = None) -> None:
        """``plan``: to be taken instead of the one in the folder, whose file stays as it is."""
        self.folder, self._plan = folder, plan
        self._lines: dict[str, list[dict[str, Any]]] = {}

    @classmethod
    def open(cls, run_folder: Path | str) -> Self:
        """Open a run's folder. Raises :class:`HistoryError` when it is none, or of another version."""
        folder = Path(run_folder)
        if not (folder / "plan.json").is_file():
            raise HistoryError(f"{folder} is not the folder of a run: it has no plan.json")
        history = cls(folder)
        tables = history._tables
        if tables is not None and tables.get("format") != HISTORY_VERSION:
            raise HistoryError(f"{folder} holds history format {tables.get('format')!r}; this reads {HISTORY_VERSION}")
        return history

    def planned_as(self, plan: Plan) -> Self:
        """The same history, as if this had been its plan."""
        return type(self)(self.folder, plan)

    @cached_property
    def plan(self) -> Plan:
        return cast(Plan, _object(self.folder / "plan.json")) if self._plan is None else self._plan

    @cached_property
    def recorded_rules(self) -> int:
        """The rules under which the run was recorded, whatever plan it is judged by."""
        file = self.folder / "plan.json"
        own = cast(Plan, _object(file)) if self._plan is not None and file.is_file() else self.plan
        return int(own.get("rules", 1))

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """The runner's events, and those of failover controllers, in the order of their times."""
        folder = self.folder / "history"
        events = _json_lines(folder / EVENTS)
        for file in sorted(folder.glob(CONTROLLER_EVENTS)):
            events += _json_lines(file)
        return sorted(events, key=lambda event: float(event["t"]))

    @cached_property
    def driver(self) -> list[dict[str, Any]]:
        """The load driver's events in the order of their times; ``processors`` are :class:`Slices`.

        Where there are several processes, those of the others say which: ``process`` (from 1).
        """
        events = _json_lines(self.folder / "history" / DRIVER_EVENTS)
        others = [_json_lines(folder / DRIVER_EVENTS) for folder in self._others]
        for place, theirs in enumerate(others, 1):
            process = next((int(e["process"]) for e in theirs if e["kind"] == "driver.start" and "process" in e), place)
            events += [{**event, "process": process} for event in theirs]
        return sorted(events, key=lambda event: float(event["t"])) if others else events

    @cached_property
    def _others(self) -> list[Path]:
        """The folders of further driver processes."""
        return sorted(folder for folder in (self.folder / "history").glob(DRIVERS) if folder.is_dir())

    @cached_property
    def processes(self) -> int:
        """How many driver processes shared the load. Arrival ``k`` is of process ``k % processes``."""
        return 1 + len(self._others)

    def _files(self, name: str) -> list[Path]:
        """The files of this name of all driver processes, the first one's first."""
        return [folder / name for folder in (self.folder / "history", *self._others)]

    def _lines_of_all(self, name: str) -> list[dict[str, Any]]:
        lines = [line for file in self._files(name) for line in _json_lines(file)]
        return sorted(lines, key=lambda event: float(event["t"]))

    @cached_property
    def cas(self) -> list[dict[str, Any]]:
        """Compare-and-set: invocations and answers as in :mod:`chaos.load.cas`; empty where the load had none."""
        return _json_lines(self.folder / "history" / CAS)

    @cached_property
    def probes(self) -> list[dict[str, Any]]:
        """Probes of visibility as in :mod:`chaos.load.visibility`; empty where the load had none."""
        return _json_lines(self.folder / "history" / PROBES)

    @cached_property
    def stale(self) -> list[dict[str, Any]]:
        """Reads of the load whose answer was whole and lacked documents that must be there, one line each."""
        return self._lines_of_all(STALE)

    @cached_property
    def wrong(self) -> list[dict[str, Any]]:
        """Examples of answers that were not what was asked for, as in :mod:`chaos.load.examples`."""
        return self._lines_of_all(WRONG)

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The events of a file in ``history/`` by time, of an instrument for example; empty where there is none."""
        if name not in self._lines:
            self._lines[name] = _json_lines(self.folder / "history" / name)
        return self._lines[name]

    def give(self, name: str, lines: list[dict[str, Any]]) -> None:
        """Take these instead of what the file has, which stays as it is."""
        self._lines[name] = lines

    @cached_property
    def seal(self) -> seal.Look | None:
        """The folder held against the run's seal; None for a history that is in no folder."""
        return seal.look(self.folder) if (self.folder / "plan.json").is_file() else None

    @cached_property
    def items(self) -> Items:
        """What became of each document of bulks; of none where no request wrote several."""
        return Items.read(*self._files(ITEMS))

    @cached_property
    def told(self) -> Items:
        """What helpers of client libraries told their callers of each document
        (:class:`~chaos.history.format.CallerTold` in the place of outcomes); of none where none sent bulks."""
        return Items.read(*self._files(TOLD))

    @cached_property
    def parts(self) -> Items:
        """What became of each search of requests that have several (codes of :class:`Outcome`); of none elsewhere."""
        return Items.read(*self._files(PARTS))

    @cached_property
    def changes(self) -> Changes:
        """Which items of bulks update or delete which documents; none where bulks only write new ones."""
        return Changes.read(*self._files(CHANGES))

    @cached_property
    def readback(self) -> dict[str, Any] | None:
        """What was read back; under ``store`` what was once more, of a cluster that was restored from its store."""
        live = _json_or_none(self.folder / "history" / "readback.json")
        store = _json_or_none(self.folder / "history" / RESTORED)
        return live if live is None or store is None else {**live, "store": store}

    @cached_property
    def clean(self) -> dict[str, Any] | None:
        return _json_or_none(self.folder / "clean.json")

    @cached_property
    def audit(self) -> dict[str, Any] | None:
        """The rows of the availability audit before the first phase; runs of earlier versions have none."""
        return _json_or_none(self.folder / AUDIT)

    @cached_property
    def _tables(self) -> dict[str, Any] | None:
        return _json_or_none(self.folder / "history" / TABLES)

    @cached_property
    def arrivals(self) -> pd.DataFrame:
        """One row for every arrival that was scheduled until the load was stopped, ordered by ``k``.

        Columns: ``k`` · ``op``, ``outcome``, ``client``, ``node`` (categoricals of names; ``client`` and
        ``node`` are missing where there was none) · ``status`` (HTTP, 0 = none) · ``attempts`` · ``failure``
        (:class:`~chaos.history.failures.Failure`; 0 in records of earlier versions) ·
        ``intended``, ``start``, ``end`` (CLOCK_MONOTONIC ns; ``start`` and ``end`` are 0 where there was
        none) · ``latency_ms`` (end - intended; NaN for arrivals that were never sent or never answered:
        dropped and unknown).
        """
        import pandas as pd

        file = self.folder / "history" / PARQUET
        if file.exists():
            frame = _complete(parquet.read(file, BATCH, self._names), COLUMNS)
        else:
            frame = pd.concat(list(self._joined(BATCH)), ignore_index=True)
        latency = (frame["end"].to_numpy() - frame["intended"].to_numpy()) / 1e6
        codes = frame["outcome"].cat.codes.to_numpy()
        latency[(codes == Outcome.UNKNOWN) | (codes == Outcome.DROPPED)] = np.nan
        frame["latency_ms"] = latency
        return frame

    def batches(self, columns: tuple[str, ...] = COLUMNS) -> Iterator[pd.DataFrame]:
        """The rows of :attr:`arrivals` in the same order, some at a time, of some ``columns`` (never ``latency_ms``).

        ``outcome`` has the same codes in each, those of :class:`Outcome`; the other categoricals may number their names
        differently from batch to batch.
        """
        file = self.folder / "history" / PARQUET
        if "arrivals" in self.__dict__:
            frame = self.arrivals
            for at in range(0, len(frame), BATCH):
                yield frame.iloc[at : at + BATCH][list(columns)]
        elif file.exists():
            for frame in parquet.read_batches(file, columns, BATCH, self._names):
                yield _complete(frame, columns)
        else:
            for frame in self._joined(BATCH):
                yield frame[list(columns)]

    @cached_property
    def phases(self) -> list[PhaseSpan]:
        """The phases that were begun, in order. One that was never ended lasts to the last known moment."""
        spans: list[PhaseSpan] = []
        starts = [event for event in self.events if event["kind"] == "phase.start"]
        ends = [event for event in self.events if event["kind"] == "phase.end"]
        for number, start in enumerate(starts):
            limit = starts[number + 1]["t"] if number + 1 < len(starts) else None
            end = next(
                (
                    event
                    for event in ends
                    if event["phase"] == start["phase"]
                    and event["t"] >= start["t"]
                    and (limit is None or event["t"] <= limit)
                ),
                None,
            )
            until = end["t"] if end is not None else limit if limit is not None else self._last_moment()
            spans.append(
                PhaseSpan(
                    name=start["phase"],
                    index=int(start.get("index", number)),
                    start_ns=start["t"],
                    end_ns=max(until, start["t"]),
                    scripted_wait=bool(start.get("scripted_wait", False)),
                    reason=end.get("reason") if end is not None else None,
                )
            )
        return spans

    def phase_of_arrivals(self, objectives: Mapping[str, float] | None = None) -> pd.Series:
        """The phase that each row of :attr:`arrivals` counts for: a categorical of phase names.

        An arrival counts for the phase in which it was intended. One that was still within its latency
        objective when the next phase's first fault was commanded (intended > command - objective, and
        answered after the command) counts for that next phase: the fault hit it, not the phase before.
        Missing outside all phases.

        ``objectives``: operation -> seconds; default ``experiment.load.<op>.good_within`` of the plan.
        """
        import pandas as pd

        frame = self.arrivals
        names = list(dict.fromkeys(span.name for span in self.phases))
        code_of = np.array([names.index(span.name) for span in self.phases] + [-1], dtype=np.int16)
        codes = code_of[self.span_of(frame, objectives)]  # position -1 picks the -1 at the end
        return pd.Series(pd.Categorical.from_codes(codes, categories=names), index=frame.index, name="phase")

    def span_of(self, arrivals: pd.DataFrame, objectives: Mapping[str, float] | None = None) -> npt.NDArray[np.int16]:
        """For each row of a frame or batch of arrivals the place in :attr:`phases` of the one that it counts for.

        The rule is that of :meth:`phase_of_arrivals`; -1 outside all phases.
        """
        spans = self.phases
        if not spans:
            return np.full(len(arrivals), -1, np.int16)
        intended, end = arrivals["intended"].to_numpy(), arrivals["end"].to_numpy()
        starts = np.array([span.start_ns for span in spans], dtype=np.int64)
        ends = np.array([span.end_ns for span in spans], dtype=np.int64)
        position: np.ndarray = (np.searchsorted(starts, intended, side="right") - 1).astype(np.int16)
        position[(position < 0) | (intended >= ends[np.maximum(position, 0)])] = -1
        within = None
        for number, command in self._first_commands:
            before = position == number - 1
            if not before.any():
                continue
            within = self._objective_ns(arrivals, objectives) if within is None else within
            position[before & (intended > command - within) & (end > command)] = number
        return position

    @cached_property
    def _first_commands(self) -> list[tuple[int, int]]:
        """(phase's number, when its first fault was commanded) for each phase but the first that has one."""
        commands = [event["t"] for event in self.events if event["kind"] == "fault.command"]
        firsts = [next((t for t in commands if span.start_ns <= t <= span.end_ns), None) for span in self.phases]
        return [(number, t) for number, t in enumerate(firsts) if number and t is not None]

    def _objective_ns(self, arrivals: pd.DataFrame, objectives: Mapping[str, float] | None) -> np.ndarray:
        """For every row the latency objective of its operation in ns."""
        if objectives is None:
            objectives = objectives_of(self.plan)
        op = arrivals["op"].cat
        table = np.array([int(objectives.get(name, 0.0) * 1e9) for name in op.categories] + [0], dtype=np.int64)
        by_row: np.ndarray = table[op.codes.to_numpy()]
        return by_row

    def _last_moment(self) -> int:
        times = [event["t"] for event in self.events[-1:]] + [event["t"] for event in self.driver[-1:]]
        for frame in self.batches(("end", "intended")):
            if len(frame):
                times.append(int(max(frame["end"].max(), frame["intended"].max())))
        return max(times, default=0)

    def _load_stopped_ns(self) -> list[int] | None:
        """When each driver process stopped sending; None when neither they nor the runner could say so."""
        told = next((int(event["t"]) for event in reversed(self.events) if event["kind"] == "load.stop"), None)
        found: dict[int, int] = {}
        for event in self.driver:
            if event["kind"] == "driver.stop" and "stopped_ns" in event:
                found[int(event.get("process", 0))] = int(event["stopped_ns"])
        rest = told if told is not None else max(found.values(), default=None)
        return None if rest is None else [found.get(process, rest) for process in range(self.processes)]

    @property
    def _names(self) -> dict[str, Sequence[str]]:
        """What the columns of names can hold, in the order of the driver's numbers."""
        tables = self._tables or {"operations": [], "clients": [], "nodes": []}
        return {"op": tables["operations"], "outcome": OUTCOMES, "client": tables["clients"], "node": tables["nodes"]}

    def _joined(self, most: int) -> Iterator[pd.DataFrame]:
        """The arrivals from the driver's rows, those of ``most`` numbers at a time; at least one frame.

        Rows lie about in the order in which they were written, so those of a stretch of numbers are few blocks of the
        file; the files are read block by block and never held.
        """
        import pandas as pd

        folder = self.folder / "history"
        names = self._names
        scheduled = _AllRows([_Rows(file, SCHEDULED) for file in self._files(SCHEDULED_FILE)])
        finished = _AllRows([_Rows(file, ARRIVAL) for file in self._files(ARRIVALS)])
        count = max(scheduled.highest, finished.highest) + 1
        if count > self.processes * (2 * (len(scheduled) + len(finished)) + 1000):
            raise HistoryError(f"{folder} is damaged: arrival {count - 1}, but {len(scheduled)} were scheduled")
        stopped = self._load_stopped_ns()
        for first in range(0, max(count, 1), most):
            columns = _join(scheduled, finished, first, min(first + most, count), stopped)
            series: dict[str, Any] = {
                name: _named(column, names[name]) if name in names else column for name, column in columns.items()
            }
            yield pd.DataFrame(series, copy=False)


def _join(
    scheduled: _AllRows, finished: _AllRows, first: int, end: int, stopped: list[int] | None
) -> dict[str, np.ndarray]:
    """The columns of the arrivals whose numbers lie in [first, end): what was scheduled with what became of it.

    ``stopped``: when each process that sent them did (ns).
    """
    count = max(0, end - first)
    known = np.zeros(count, dtype=bool)
    done = np.zeros(count, dtype=bool)
    columns: dict[str, np.ndarray] = {
        "op": np.zeros(count, "u1"),
        "outcome": np.full(count, Outcome.UNKNOWN, "u1"),
        "status": np.zeros(count, "u2"),
        "client": np.full(count, NO_INDEX, "u1"),
        "node": np.full(count, NO_INDEX, "u1"),
        "attempts": np.zeros(count, "u1"),
        "failure": np.zeros(count, "u1"),
        "intended": np.zeros(count, "i8"),
        "start": np.zeros(count, "i8"),
        "end": np.zeros(count, "i8"),
    }
    for rows in scheduled.between(first, end):
        where = (rows["k"] - np.uint64(first)).astype(np.intp)
        known[where] = True
        columns["op"][where] = rows["op"]
        columns["intended"][where] = rows["intended"]
    for rows in finished.between(first, end):
        where = (rows["k"] - np.uint64(first)).astype(np.intp)
        done[where] = True
        for name, column in columns.items():
            column[where] = rows[name]
    columns["outcome"][done & ~known] = Outcome.UNKNOWN  # the schedule is written first: it is damaged there
    keep = known | done
    if stopped is not None:  # what was planned ahead for after the stop was never due
        of_each = np.array(stopped, "i8")[np.arange(first, first + count) % len(stopped)]
        keep &= done | (columns["intended"] <= of_each)
    columns = {"k": np.arange(first, first + count, dtype="u8"), **columns}
    return columns if keep.all() else {name: column[keep] for name, column in columns.items()}


def objectives_of(plan: Plan) -> dict[str, float]:
    """The latency objective of each operation in seconds, from a plan's ``experiment.load``."""
    load = plan.get("experiment", {}).get("load", {})
    return {
        name: float(value["good_within"])
        for name, value in load.items()
        if isinstance(value, dict) and isinstance(value.get("good_within"), int | float)
    }


def compact(run_folder: Path | str) -> Path:
    """Turn the rows into ``history/arrivals.parquet`` (zstd) and remove them; about 12 bytes per arrival.

    The rows go only after the new file is whole and on disk. Does nothing when that has been done before. Memory is
    that of a million arrivals, however many there are. Where the run is sealed, the seal says so, and rows that are not
    as sealed are left as they are (HistoryError).
    """
    folder = Path(run_folder)
    history = folder / "history"
    target = history / PARQUET
    whole = History(folder)
    rows = [*whole._files(ARRIVALS), *whole._files(SCHEDULED_FILE)]
    names = [str(file.relative_to(folder)) for file in (target, *rows)]
    if target.exists() and not any(row.exists() for row in rows):
        return target
    seal.refuse_broken(folder, names)
    if not target.exists():
        temporary = target.with_name(f".{target.name}.tmp")
        try:
            written = parquet.write(History(folder)._joined(parquet.ROW_GROUP), temporary)
            if parquet.count(temporary) != written:
                raise HistoryError(f"{temporary} does not hold the {written} arrivals that were written")
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            temporary.replace(target)
            fsync_folder(history)
        finally:
            temporary.unlink(missing_ok=True)
    for row in rows:
        row.unlink(missing_ok=True)
    seal.add(folder, names, "opensearch-chaos", "the arrivals' rows were made Parquet")
    return target


def _complete(frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """With what a file of an earlier version lacks: why requests failed, and outcomes that came later."""
    if "failure" in columns and "failure" not in frame:
        frame["failure"] = np.zeros(len(frame), "u1")
    if list(frame.columns) != list(columns):
        frame = frame[list(columns)]
    if "outcome" in frame and tuple(frame["outcome"].cat.categories) != OUTCOMES:
        frame["outcome"] = frame["outcome"].cat.set_categories(OUTCOMES)
    return frame


def _named(codes: np.ndarray, names: Any) -> pd.Categorical:
    """One-byte codes as a categorical; a code without a name (255 = none) is missing."""
    import pandas as pd

    categories = list(names)
    signed = codes.astype(np.int16)
    signed[signed >= len(categories)] = -1
    if len(categories) < 127:
        signed = signed.astype(np.int8)
    return pd.Categorical.from_codes(signed, categories=categories)


class _Rows:
    """The packed rows of a file, read a block at a time. Half a row at its end (the writer was killed) is left out."""

    BLOCK = 1 << 16

    def __init__(self, path: Path, dtype: np.dtype) -> None:
        self._path, self._dtype = path, dtype
        try:
            self._length = path.stat().st_size // dtype.itemsize
        except FileNotFoundError:
            self._length = 0
        blocks = (self._block(at)["k"] for at in range(0, self._length, self.BLOCK))
        self._edges = np.array([(int(k.min()), int(k.max())) for k in blocks], np.uint64).reshape(-1, 2)

    def __len__(self) -> int:
        return self._length

    @property
    def highest(self) -> int:
        """The highest number of an arrival, -1 when there is none."""
        return int(self._edges[:, 1].max()) if len(self._edges) else -1

    def between(self, first: int, end: int) -> Iterator[np.ndarray]:
        """The rows of the arrivals with numbers in [first, end), in the file's order."""
        for block in np.flatnonzero((self._edges[:, 1] >= first) & (self._edges[:, 0] < end)):
            rows = self._block(int(block) * self.BLOCK)
            yield rows[(rows["k"] >= first) & (rows["k"] < end)]

    def _block(self, at: int) -> np.ndarray:
        with open(self._path, "rb") as file:
            file.seek(at * self._dtype.itemsize)
            return np.fromfile(file, self._dtype, count=min(self.BLOCK, self._length - at))


class _AllRows:
    """The rows of several files as one: of each driver process. Each arrival is in one of them."""

    def __init__(self, files: list[_Rows]) -> None:
        self._files = files

    def __len__(self) -> int:
        return sum(map(len, self._files))

    @property
    def highest(self) -> int:
        return max(each.highest for each in self._files)

    def between(self, first: int, end: int) -> Iterator[np.ndarray]:
        for each in self._files:
            yield from each.between(first, end)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise HistoryError(f"{path} cannot be read: {error}") from error


def _json_or_none(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    return _object(path)


def _object(path: Path) -> dict[str, Any]:
    data = _json(path)
    if not isinstance(data, dict):
        raise HistoryError(f"{path} cannot be read: expected a JSON object")
    return data


class Slices(Sequence[Any]):
    """The driver's ``processors``: (start ns, end ns, busy share or None) of consecutive moments, 24 bytes each.

    ``table`` has them as columns ``start``, ``end`` and ``busy`` (NaN for None).
    """

    __slots__ = ("table",)
    TABLE = np.dtype([("start", "<i8"), ("end", "<i8"), ("busy", "<f8")])

    def __init__(self, rows: Sequence[Sequence[Any]]) -> None:
        """Raises ``TypeError`` or ``ValueError`` when ``rows`` are something else."""
        plain = [(start, end, math.nan if busy is None else busy) for start, end, busy in rows]
        self.table = np.array(plain, self.TABLE)

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: Any) -> Any:
        rows = [(start, end, None if math.isnan(busy) else busy) for start, end, busy in self.table.tolist()]
        return rows[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self[:])


def _json_lines(path: Path) -> list[dict[str, Any]]:
    """The events of a file by time. A torn line (its writer was killed) is left out."""
    events = []
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed below
    except FileNotFoundError:
        return []
    with file:
        for line in file:
            try:
                event = json.loads(line, object_hook=_compact)
            except ValueError:
                continue
            if isinstance(event, dict) and isinstance(event.get("t"), int | float) and "kind" in event:
                events.append(event)
    return sorted(events, key=lambda event: event["t"])


def _compact(event: dict[str, Any]) -> dict[str, Any]:
    """The same in less memory: a long run has hundreds of thousands of samples with the same keys."""
    if event.get("processors"):
        with suppress(TypeError, ValueError):
            event["processors"] = Slices(event["processors"])
    apart = event.get("usable")
    for each in apart if isinstance(apart, list) else ():
        with suppress(TypeError, ValueError, KeyError):
            each["slices"] = Slices(each["slices"])
    return {sys.intern(key): value for key, value in event.items()}
