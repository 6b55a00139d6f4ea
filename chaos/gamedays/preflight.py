"""What must hold on a cluster before it is touched, beside what its file and each experiment's plan already ask for.

Looking (:func:`looked`) and judging (:func:`gates`) are apart; judging is pure. What cannot be read refuses.
APIs: OpenSearch 3.8.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

from chaos.base.errors import ChaosError
from chaos.base.text import plural, printable
from chaos.definitions.gameday import Preflight
from chaos.gamedays.gate import Gate
from chaos.opensearch.administration import reading
from chaos.opensearch.checklist import Status
from chaos.opensearch.views import administer
from chaos.programs.audit import audit
from chaos.programs.audit.cluster import of_lab
from chaos.run.noted import Notes
from chaos.targets.existing.target import ExistingTarget

HEALTH = (
    "/_cluster/health?filter_path=status,relocating_shards,initializing_shards,unassigned_shards,"
    "number_of_pending_tasks,number_of_nodes"
)
ALLOCATION = ("cluster.routing.allocation.enable", "cluster.routing.rebalance.enable")
SETTINGS = "/_cluster/settings?include_defaults=true&flat_settings=true"
ASK_SECONDS = 20.0
GATES = ("health", "pending tasks", "allocation", "another run", "snapshot", "headroom")


@dataclass(frozen=True)
class Looked:
    """A cluster at one moment. None is a fact that is missing; ``unread`` says why, by the gate's name.

    ``snapshots``: of the repository, each with its state and when it ended (epoch ms). ``headroom``: rule of the audit
    → its status and value. ``others``: runs that are under way or left notes.
    """

    health: Mapping[str, Any] | None = None
    settings: Mapping[str, str] | None = None
    others: Sequence[str] | None = None
    snapshots: Sequence[Mapping[str, Any]] | None = None
    headroom: Mapping[str, tuple[str, str]] | None = None
    unread: Mapping[str, str] = field(default_factory=dict)


def looked(target: ExistingTarget, wanted: Preflight) -> Looked:
    """Ask for all of it. Never raises for what a cluster may do."""
    unread: dict[str, str] = {}

    def part(name: str, ask: Any) -> Any:
        try:
            return ask()
        except ChaosError as error:
            unread[name] = error.message
            return None

    def get(path: str, what: str) -> Any:
        status, answer = administer(target, "GET", path, timeout=ASK_SECONDS)
        with reading(what):
            if status != 200:
                raise ChaosError(f"{what} answered {status}: {str(answer)[:200]}")
            return answer

    def settings() -> dict[str, str]:
        answer = get(SETTINGS, "the cluster's settings")
        with reading("the cluster's settings"):
            every = {**answer["defaults"], **answer["persistent"], **answer["transient"]}
            return {name: str(every.get(name, "?")) for name in ALLOCATION}

    def others() -> list[str]:
        index = target.target.written.notes
        if index is None:
            return []
        notes = Notes(target, index)
        if not notes.exists():
            return []
        held = notes.lock()
        return [
            *([f"run {held.run} of {held.host} is under way"] if held else []),
            *map("run {} left something".format, notes.standing()),
        ]

    def snapshots() -> list[Any]:
        assert wanted.snapshot is not None
        path = f"/_snapshot/{quote(wanted.snapshot.repository, safe='')}/_all"
        answer = get(path, f"the snapshots of {wanted.snapshot.repository}")
        with reading("the list of snapshots"):
            return [
                {
                    "name": str(each["snapshot"]),
                    "state": str(each["state"]),
                    "ended": int(each.get("end_time_in_millis", 0)),
                }
                for each in answer["snapshots"]
            ]

    def headroom() -> dict[str, tuple[str, str]]:
        sheet = of_lab(target, where=f"cluster {target.target.written.name}")
        return {row.rule.id: (row.status.value, row.value) for row in audit(sheet)}

    return Looked(
        part("health", lambda: get(HEALTH, "the cluster's health")),
        part("allocation", settings),
        part("another run", others),
        part("snapshot", snapshots) if wanted.snapshot is not None else None,
        part("headroom", headroom),
        unread,
    )


def gates(seen: Looked, wanted: Preflight, now: datetime) -> list[Gate]:
    """Each gate of :data:`GATES`, in this order. Pure. ``now``: by the wall's clock, for the age of a snapshot."""
    return [
        *_calm(seen),
        _allocation(seen),
        _others(seen),
        _snapshot(seen, wanted, now),
        _headroom(seen, wanted),
    ]


def _unread(seen: Looked, name: str, right: str) -> Gate:
    return Gate(name, False, f"it could not be read: {seen.unread.get(name, 'nobody asked')}", right)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _calm(seen: Looked) -> Iterator[Gate]:
    right = "give this user the right cluster:monitor/health"
    if seen.health is None:
        yield _unread(seen, "health", right)
        yield Gate("pending tasks", False, "the cluster's health could not be read", right)
        return
    status, moving, coming, missing = (
        seen.health.get(key) for key in ("status", "relocating_shards", "initializing_shards", "unassigned_shards")
    )
    counts = [_whole(each) for each in (moving, coming, missing)]
    busy = [f"it is {printable(str(status))}"] if status != "green" else []
    if None in counts:
        busy.append("it does not say how many shards move")
    words = ("on the move", "being built", "without a node")
    busy += [f"{plural(count, 'shard')} {what}" for count, what in zip(counts, words, strict=True) if count]
    yield Gate("health", not busy, ", ".join(busy) or "green, nothing on its way", "wait until it is green and still")
    pending = _whole(seen.health.get("number_of_pending_tasks"))
    if pending is None:
        yield Gate("pending tasks", False, "the cluster does not say how many tasks its manager has", right)
    else:
        says = f"{plural(pending, 'task')} wait for the cluster manager" if pending else "the cluster manager is idle"
        yield Gate("pending tasks", pending == 0, says, "wait: GET _cluster/pending_tasks")


def _allocation(seen: Looked) -> Gate:
    if seen.settings is None:
        return _unread(seen, "allocation", "give this user the right cluster:monitor/settings")
    odd = [f"{name} is {printable(value)}" for name, value in seen.settings.items() if value != "all"]
    return Gate("allocation", not odd, "; ".join(odd) or "copies may go everywhere", "somebody works there: ask who")


def _others(seen: Looked) -> Gate:
    if seen.others is None:
        return _unread(seen, "another run", "let this user read the index of notes")
    said = "; ".join(map(printable, seen.others))
    return Gate("another run", not seen.others, said or "none is under way", "wait for its end, or recover --on FILE")


def _snapshot(seen: Looked, wanted: Preflight, now: datetime) -> Gate:
    if wanted.snapshot is None:
        return Gate("snapshot", True, "not asked for: the file names no repository")
    if seen.snapshots is None:
        return _unread(seen, "snapshot", "give this user the right cluster:admin/snapshot/get")
    good = [each for each in seen.snapshots if each["state"] == "SUCCESS" and each["ended"] > 0]
    remedy = "take one, or find out why none succeeds"
    if not good:
        return Gate("snapshot", False, f"{wanted.snapshot.repository} has no successful snapshot", remedy)
    newest = max(good, key=lambda each: int(each["ended"]))
    age = now.timestamp() - newest["ended"] / 1000
    says = f"{printable(newest['name'])} ended {age / 3600:.1f} h ago"
    if age < -60:
        return Gate(
            "snapshot", False, f"{says.split(' ended')[0]} ended in the future: clocks differ", "set the clocks"
        )
    return Gate("snapshot", age <= wanted.snapshot.newest_within, says, remedy)


def _headroom(seen: Looked, wanted: Preflight) -> Gate:
    if seen.headroom is None:
        return _unread(seen, "headroom", "see: opensearch-chaos audit")
    said = {rule: seen.headroom.get(rule, (Status.UNKNOWN.value, "no such rule")) for rule in wanted.headroom}
    bad = [
        f"{rule}: {value}"
        for rule, (status, value) in said.items()
        if status in (Status.FAIL.value, Status.UNKNOWN.value)
    ]
    well = "; ".join(f"{rule}: {value}" for rule, (_, value) in said.items())
    return Gate("headroom", not bad, "; ".join(bad) or well, "see: opensearch-chaos audit")
