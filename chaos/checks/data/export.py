"""A run's histories in the form that elle-cli (and so Knossos and Jepsen's checkers) reads: a second opinion.

``export(run, out)`` writes into the folder ``out``:

* ``cas-register-<key>.json`` for each key of compare-and-set: ``elle-cli --model cas-register``. It begins with the
  write of 0 that was there before the load and ends with a read of what the primary held in the end. The format
  ``elle`` leaves other reads out, as our own check does, because OpenSearch does not promise that they are
  linearizable; ``elle-reads`` takes them in.
* ``set.json``: ``elle-cli --model set``. Every write of the load is the addition of its arrival's number, and one read
  at the end holds what the copies had.

The files are JSON arrays with one operation a line, because elle-cli reads one JSON value from a file. Operations have
``index``, ``time`` (ns since the first), ``process``, ``type`` (invoke, ok, fail, info), ``f`` and ``value``. An
attempt without a clear answer is ``info``. Each arrival is a process of its own: a process that once did not know
what became of its operation may not go on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from chaos.base import ids
from chaos.base.errors import HistoryError, InvalidInput
from chaos.checks.data.operations import CasOperation, by_key, final
from chaos.checks.record import Record
from chaos.history.reader import History

Format = Literal["elle", "elle-reads"]
FORMATS: tuple[str, ...] = ("elle", "elle-reads")

_TYPES = {"ok": "ok", "partial": "ok"}
_FAILED = ("refused", "dropped")
"""Outcomes by which nothing was done, if it was the first try."""


def export(run_folder: Path | str, out: Path | str, format: str = "elle") -> list[Path]:
    """Write the histories of a run and return the files; an empty list when there is nothing to export.

    Raises InvalidInput for an unknown format or a folder that cannot be written, HistoryError when ``run_folder`` is
    no run's folder.
    """
    if format not in FORMATS:
        raise InvalidInput(f"unknown export format {format!r}: expected one of {', '.join(FORMATS)}")
    history = History.open(run_folder)
    record = Record(history)
    files: dict[str, list[dict[str, Any]]] = {}
    for key, ops in by_key(record).items():
        if ops:
            last = final(record, key)
            value = None if last is None else int(last["value"])
            files[f"cas-register-{key}.json"] = list(register(ops, value, reads=format == "elle-reads"))
    if record.writers and record.stride == 1:  # of bulks each document would be an operation
        files["set.json"] = list(additions(history, [op.name for op in record.writers]))
    folder = Path(out)
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, ops_of_file in files.items():
            (folder / name).write_text(_array(ops_of_file))
            written.append(folder / name)
    except OSError as error:
        raise InvalidInput(f"cannot write the export to {folder}: {error.strerror}") from error
    return written


def register(ops: Iterable[CasOperation], last: int | None, *, reads: bool) -> Iterator[dict[str, Any]]:
    """One key as a compare-and-set register. ``last``: what it held in the end, None: not read."""
    taken = [each for each in ops if reads or each.f == "cas"]
    moments: list[tuple[int, bool, int, dict[str, Any]]] = []
    for each in taken:
        process = 2 * each.process + (each.f == "read")
        said = {"process": process, "f": each.f}
        value: Any = [each.before, each.value] if each.f == "cas" else None
        moments.append((each.begin, False, process, {"type": "invoke", **said, "value": value}))
        if each.end is not None:
            value = [each.before, each.value] if each.f == "cas" else each.value
            moments.append((each.end, True, process, {"type": each.kind, **said, "value": value}))
    moments.sort(key=lambda moment: moment[:3])
    first = moments[0][0] if moments else 0
    over = max((process for *_, process, _ in moments), default=0)
    before = {"process": over + 1, "f": "write", "value": 0}
    rows: list[tuple[int, dict[str, Any]]] = [(first, {"type": kind, **before}) for kind in ("invoke", "ok")]
    rows += [(t, row) for t, _, _, row in moments]
    if last is not None:
        end = rows[-1][0]
        read = {"process": over + 2, "f": "read"}
        rows += [(end, {"type": "invoke", **read, "value": None}), (end, {"type": "ok", **read, "value": last})]
    return _numbered(rows)


def additions(history: History, writers: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The writes of the load as additions to a set, and the read-back as its last read.

    ``writers``: the operations that they are of.
    Raises HistoryError when the read-back lost more than it names, because the set would not be whole.
    """
    frame = history.arrivals
    writes = frame[frame["op"].isin(writers)]
    readback = history.readback
    moments: list[tuple[int, bool, int, dict[str, Any]]] = []
    acknowledged = set()
    columns = (writes[name].tolist() for name in ("k", "outcome", "attempts", "intended", "start", "end"))
    for k, outcome, attempts, intended, start, end in zip(*columns, strict=True):
        said = {"process": int(k), "f": "add", "value": int(k)}
        moments.append((int(start or intended), False, int(k), {"type": "invoke", **said}))
        kind = _TYPES.get(outcome, "fail" if outcome in _FAILED and attempts <= 1 else "info")
        if kind == "ok":
            acknowledged.add(int(k))
        if end or outcome == "dropped":
            moments.append((int(end or intended), True, int(k), {"type": kind, **said}))
    moments.sort(key=lambda moment: moment[:3])
    rows = [(t, row) for t, _, _, row in moments]
    if readback is not None and readback.get("complete"):
        names = ("lost", "recovered", "resurrected", "unexpected")
        lists = {name: readback.get(name) or [] for name in names}
        if any(len(lists[name]) < int(readback.get(f"{name}_count") or 0) for name in names):
            raise HistoryError(f"{history.folder} has lost or found more than it names: the set would not be whole")
        numbers = {name: {ids.number_of(id) for id in listed if ids.is_write(id)} for name, listed in lists.items()}
        there = acknowledged - numbers["lost"] | numbers["recovered"] | numbers["resurrected"] | numbers["unexpected"]
        process = max((moment[2] for moment in moments), default=0) + 1
        end = rows[-1][0] if rows else 0
        read = {"process": process, "f": "read"}
        rows += [
            (end, {"type": "invoke", **read, "value": None}),
            (end, {"type": "ok", **read, "value": sorted(there)}),
        ]
    return _numbered(rows)


def _numbered(rows: list[tuple[int, dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    first = rows[0][0] if rows else 0
    for index, (t, row) in enumerate(rows):
        yield {"index": index, "time": t - first, **row}


def _array(rows: list[dict[str, Any]]) -> str:
    return "[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n"
