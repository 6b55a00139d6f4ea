"""Acknowledged writes that an empty cluster did not get back from the remote store alone.

On experiments tagged ``durable`` a run empties its cluster after its read-back, restores it from the store and reads
everything back once more (``history/restored.json``). ``durable.lost``: value = lost (in no copy
of the restored cluster) + diverged + wrong content + returned (a delete had been acknowledged, and the document is
back) + not restored (on shards that the cluster gave up to restore). What is not known, because the cluster did not
come back or a shard was still being restored when time was up, is no loss, and never a pass.

The live copies had all that they could put into the store by then: a write that is lost only where all nodes die at one
moment is seen by an experiment that kills them under load, and by ``acknowledged.lost`` there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.base import text
from chaos.checks import contents, coverage
from chaos.checks.check import Check, Rests, Scope
from chaos.checks.measure import Measure
from chaos.checks.record import Record
from chaos.checks.trial import Altered, Trial
from chaos.checks.words import Words

TAG = "durable"
KEY = "store"
"""Where a record's read-back has that of the cluster that was restored from the store."""
SHOWN = 100


def planned(plan: Mapping[str, Any]) -> bool:
    """Whether a run with this plan is restored from the store."""
    tags = (plan.get("experiment") or {}).get("tags") or ()
    return TAG in tags and (plan.get("topology") or {}).get("remote_store") is not None


def measure(record: Record) -> Measure:
    """Acknowledged writes of the whole run that the store alone did not give back."""
    if not planned(record.plan):
        return Measure.missing("count", f"the experiment is not tagged {TAG}, so nothing was restored from the store")
    readback = record.readback
    if readback is None:
        return Measure.missing("count", "there is no read-back of the acknowledged writes")
    store = readback.get(KEY)
    if store is None:
        return Measure.missing("count", "no cluster was restored from the store alone, so nothing was read back there")
    names = ("lost", "diverged", "returned", "not_restored")
    counts = {name: int(store.get(f"{name}_count") or 0) for name in names}
    counts["wrong_content"] = contents.wrong_count(store)
    acknowledged, restored = int(store.get("acknowledged") or 0), dict(store.get("restored") or {})
    value = sum(counts.values())
    documents = sum(int(copy.get("docs") or 0) for copy in store.get("copies") or () if copy.get("read"))
    evidence = {
        "acknowledged": acknowledged,
        **{f"{name}_count": number for name, number in counts.items()},
        **{name: list(store.get(name) or [])[:SHOWN] for name in ("lost", "diverged", "returned", "wrong_content")},
        "unavailable_count": int(store.get("unavailable_count") or 0),
        "given_up": restored.get("given_up") or {},
        "emptied": restored.get("emptied") or [],
        "kept": restored.get("kept") or [],
        **{name: restored.get(name) for name in ("empty_after_s", "back_after_s", "green_after_s")},
        "read_s": store.get("seconds"),
    }
    said = _found(counts, acknowledged) if value or documents else "nothing is known of what the store alone gives back"
    gaps = _gaps(record, store, counts, acknowledged)
    if value == 0 and documents == 0:
        gaps.append("not one document was read back from the restored cluster")
    return Measure.seen(value, f"{said}; {_cost(restored, store)}", gaps, evidence)


def _found(counts: Mapping[str, int], acknowledged: int) -> str:
    if not any(counts.values()):
        return f"all {text.count(acknowledged)} acknowledged writes came back from the store alone"
    words = {
        "lost": "in no copy",
        "diverged": "missing on some copies",
        "wrong_content": "with other content",
        "returned": "back after their delete was acknowledged",
        "not_restored": "on shards that were not restored",
    }
    found = [f"{text.count(counts[name])} {says}" for name, says in words.items() if counts[name]]
    return f"from the store alone {text.listed(found)}; {text.count(acknowledged)} acknowledged"


def _cost(restored: Mapping[str, Any], store: Mapping[str, Any]) -> str:
    """What was emptied and what it took, in words."""
    kept, emptied = restored.get("kept") or (), restored.get("emptied") or ()
    what = "no node was emptied"
    if emptied:
        what = "all nodes were emptied" if not kept else f"{text.listed(list(emptied))} were emptied"
    if kept:
        what += f", and {text.listed(list(kept))} kept the cluster's state"
    if restored.get("green_after_s") is None:
        return what
    took = f"green {restored['green_after_s']:g} s after they were killed"
    read = store.get("seconds")
    return f"{what}: {took}" + (f", read back in {float(read):g} s" if read is not None else "")


def _gaps(record: Record, store: Mapping[str, Any], counts: Mapping[str, int], acknowledged: int) -> list[str]:
    """Why a loss may be hidden."""
    gaps = []
    if store.get("complete") is not True:
        gaps.append(f"the store was not read back completely ({store.get('reason') or 'no reason given'})")
    if unknown := int(store.get("unavailable_count") or 0) - counts["not_restored"]:
        gaps.append(f"{text.plural(unknown, 'write')} on shards without a live copy in the restored cluster")
    if acknowledged < record.acknowledged_writes:
        gaps.append(
            f"it looked for {text.count(acknowledged)} of {text.count(record.acknowledged_writes)} acknowledged writes"
        )
    if acknowledged == 0:
        gaps.append("no write was acknowledged, so none could be lost")
    lacking = [node for node, row in coverage.of_copies(store).items() if row["live"] and not row["read"]]
    gaps += [f"{node} was never asked for any of its copies in the restored cluster" for node in lacking]
    return gaps + contents.gaps(dict(store))


def table(record: Record) -> dict[str, Any] | None:
    """What the store alone gave back; None where nothing was to be restored from it."""
    if not planned(record.plan):
        return None
    found = measure(record)
    return found.to_json() | {name: found.evidence.get(name) for name in ("acknowledged", "green_after_s", "read_s")}


def the_cluster_came_back_from_the_store(run: Altered) -> None:
    """The same run on remote-backed storage, restored whole."""
    run.plan["experiment"] |= {"tags": [TAG]}
    run.plan["topology"] = {**run.plan.get("topology", {}), "remote_store": {"service": "store", "state": True}}
    assert run.readback is not None
    nodes = [node["name"] for node in run.plan["lab"]["nodes"]]
    restored: dict[str, Any] = {"emptied": nodes, "kept": [], "given_up": {}}
    restored |= {"empty_after_s": 1.2, "back_after_s": 14.5, "green_after_s": 19.0}
    run.readback[KEY] = {**run.readback, "restored": restored, "seconds": 2.0, "not_restored_count": 0}


def _store(run: Altered, **values: Any) -> None:
    assert run.readback is not None
    run.readback[KEY] |= values


def an_acknowledged_id_is_not_in_the_store(run: Altered) -> None:
    _store(run, lost=["w-5"], lost_count=1)


def a_shard_could_not_be_restored(run: Altered) -> None:
    _store(run, complete=False, reason="no live copy", unavailable_count=40, not_restored_count=40)


def the_store_gave_back_other_content(run: Altered) -> None:
    _store(run, wrong_content=["w-9"], wrong_content_count=1)


def the_store_gave_back_what_was_deleted(run: Altered) -> None:
    _store(run, returned=["w-5"], returned_count=1)


def no_cluster_was_restored(run: Altered) -> None:
    assert run.readback is not None
    del run.readback[KEY]


def the_restored_cluster_was_not_green_in_time(run: Altered) -> None:
    _store(run, complete=False, reason="a shard was still being restored after 180 s", lost=[], lost_count=0)


CHECKS = (
    Check(
        "durable.lost",
        "count",
        lambda record, *_: measure(record),
        Words.of(
            missed="{measured} acknowledged writes did not come back from the remote store alone; wanted was {want}",
            question="every acknowledged write came back from the remote store alone",
            promise="Acknowledged writes that the remote store alone does not give back: {want}",
            short="acknowledged writes not in the store",
        ),
        group="data",
        scope=Scope.RUN,
        rests=Rests.DATA,
        of_store=True,
        promise=True,
        meaning=(
            "Writes that OpenSearch said yes to and that were not there, or not as they were sent, in a cluster whose "
            "nodes had lost all their data and were restored from the remote store alone. That is what such a store is "
            "for: nothing else would bring them back."
        ),
        helps=("investigate", "durability"),
        tables={"durable": table},
        order=91,
        trial=Trial(
            "0",
            None,
            (
                an_acknowledged_id_is_not_in_the_store,
                a_shard_could_not_be_restored,
                the_store_gave_back_other_content,
                the_store_gave_back_what_was_deleted,
            ),
            blinded_by=(no_cluster_was_restored, the_restored_cluster_was_not_green_in_time),
            given=(the_cluster_came_back_from_the_store,),
        ),
    ),
)
