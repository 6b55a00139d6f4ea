"""Compare-and-set as it was recorded, operation by operation; see :mod:`chaos.load.cas` for the lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from chaos.base.ids import cas_id
from chaos.checks.record import Record


class CasOperation(NamedTuple):
    """One read or compare-and-set of one key. Times in ns; ``end`` None: it never came back.

    ``kind``: ok, fail (changed nothing for sure) or info (nobody knows). ``before``: the value that a
    compare-and-set had read; ``value``: what it wrote, or what a read found (None: no document). ``version``:
    (seq_no, primary term) that was answered; ``expected``: the one that was asked for.
    """

    number: int
    process: int
    key: str
    f: str
    kind: str
    begin: int
    end: int | None
    zone: str | None
    node: str | None
    before: int | None
    value: int | None
    version: tuple[int, int] | None
    expected: tuple[int, int] | None
    status: int

    @property
    def acknowledged(self) -> bool:
        return self.f == "cas" and self.kind == "ok" and self.version is not None

    @property
    def says(self) -> str:
        """For people: ``op 17, 3 → 18 at seq_no 5``."""
        what = f"{self.before} → {self.value}" if self.f == "cas" else f"read {self.value}"
        at = f" at seq_no {self.version[0]}, term {self.version[1]}" if self.version else ""
        return f"op {self.number}, {what}{at}"


_KNOWN: WeakKeyDictionary[Record, list[CasOperation]] = WeakKeyDictionary()


def of(record: Record) -> list[CasOperation]:
    """The operations of a record, see :func:`operations`; read from its lines once."""
    if record not in _KNOWN:
        _KNOWN[record] = operations(record.cas)
    return _KNOWN[record]


def operations(events: Iterable[Mapping[str, Any]]) -> list[CasOperation]:
    """Operations in the order of their invocation. One that was never answered is info."""
    begun = {int(event["op"]): event for event in events if event["kind"] == "invoke"}
    ended = {int(event["op"]): event for event in events if event["kind"] in ("ok", "fail", "info")}
    found = []
    for number, event in begun.items():
        end = ended.get(number, {"kind": "info"})
        value = event.get("value") or (None, None)
        is_read = event["f"] == "read"
        found.append(
            CasOperation(
                number=number,
                process=int(event["process"]),
                key=str(event["key"]),
                f=str(event["f"]),
                kind=str(end["kind"]),
                begin=int(event["t"]),
                end=int(end["t"]) if "t" in end else None,
                zone=event.get("zone"),
                node=end.get("node"),
                before=None if is_read else value[0],
                value=end.get("value") if is_read else value[1],
                version=_version(end, "seq_no", "primary_term"),
                expected=_version(event, "if_seq_no", "if_primary_term"),
                status=int(end.get("status") or 0),
            )
        )
    return sorted(found, key=lambda each: each.begin)


def by_key(record: Record) -> dict[str, list[CasOperation]]:
    """Operations by key: every key of the plan, whether anything was done to it or not."""
    keys = int((planned(record, "cas") or {}).get("keys") or 0)
    found: dict[str, list[CasOperation]] = {cas_id(n): [] for n in range(keys)}
    for each in of(record):
        found.setdefault(each.key, []).append(each)
    return found


def planned(record: Record, name: str) -> dict[str, Any] | None:
    """``cas`` or ``visibility`` of the plan's load; None: it has none."""
    load = (record.plan.get("experiment") or {}).get("load") or {}
    given = load.get(name)
    return given if isinstance(given, dict) else None


def final(record: Record, key: str) -> Mapping[str, Any] | None:
    """What the primary (or else any copy) held of a key in the end; None: nobody read it."""
    copies = ((record.readback or {}).get("cas") or {}).get(key) or []
    return copies[0] if copies else None


def line_of_descent(ops: Iterable[CasOperation], last: int) -> set[int]:
    """The values that led to ``last``: values are written once, so each has one predecessor. 0 was there before."""
    before = {each.value: each.before for each in ops if each.f == "cas" and each.value is not None}
    found: set[int] = set()
    value: int | None = last
    while value is not None and value not in found:
        found.add(value)
        value = before.get(value)
    return found


def _version(event: Mapping[str, Any], seq_no: str, term: str) -> tuple[int, int] | None:
    return (int(event[seq_no]), int(event[term])) if event.get(seq_no) is not None else None
