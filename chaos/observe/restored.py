"""An empty cluster, restored from its remote store alone: what of all that was acknowledged comes back.

All nodes are killed and their data folders emptied. Where the cluster's state is not in the store, the cluster
managers' folders stay, which hold no document. Then all nodes are started, the indices are restored from the store,
and they are read back as ever. Nodes are killed, not stopped: one that ends in order could still put into the store
what it had only acknowledged.

The lab is spent only if that fails: a cluster that came back whole is as green and as clean as before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from chaos.base.errors import ChaosError, LabError
from chaos.base.waiting import wait_until
from chaos.observe import proof
from chaos.opensearch import remote_store
from chaos.opensearch.rest import UNREADABLE
from chaos.opensearch.views import View, await_green, newest, views
from chaos.targets.labs.base import BaseLab

BACK_SECONDS = 180.0
"""How long emptied nodes may take until all are in one cluster: as long as a lab may take to start."""
GREEN_SECONDS = 180.0
"""How long indices may take to be green once they are being restored."""
HOPELESS_SECONDS = 20.0
LOOK_SECONDS = 0.25


@dataclass
class Restored:
    """How an empty cluster came back. Times are seconds since the first node was killed, None: it never came so far.

    ``kept``: the nodes whose folders were not emptied. ``missing``: indices of which the cluster knows nothing any
    more. ``given_up``: by index the shards that the cluster gave up to restore, each with why. ``reason``: why nothing
    can be said of what is in the store.
    """

    emptied: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    empty_after_s: float | None = None
    back_after_s: float | None = None
    green_after_s: float | None = None
    missing: list[str] = field(default_factory=list)
    given_up: dict[str, dict[int, str]] = field(default_factory=dict)
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "emptied": self.emptied,
            "kept": self.kept,
            "empty_after_s": self.empty_after_s,
            "back_after_s": self.back_after_s,
            "green_after_s": self.green_after_s,
            "missing": self.missing,
            "given_up": {index: {str(shard): why for shard, why in of.items()} for index, of in self.given_up.items()},
            "reason": self.reason,
        }


def restore(
    lab: BaseLab,
    indices: Collection[str],
    says: Callable[[str], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Restored:
    """Empty a lab's cluster and restore these indices from its store. Never raises for what the cluster does."""
    found, began = Restored(), time.monotonic()

    def after() -> float:
        return round(time.monotonic() - began, 3)

    try:
        says("killing all nodes and emptying their folders: what the store alone gives back is read next")
        _empty(lab, found)
        found.empty_after_s = after()
        says(f"starting {len(lab.topology.nodes)} nodes on the store")
        _start(lab, stopped)
        found.back_after_s = after()
        found.missing = [index for index in indices if not remote_store.known(lab, index)]
        if there := [index for index in indices if index not in found.missing]:
            says("restoring from the store")
            if _restore(lab, there, found, stopped):
                found.green_after_s = after()
    except (ChaosError, *UNREADABLE) as error:
        found.reason = f"{type(error).__name__}: {error}"
    if gone := proof.services_gone(lab):  # then what is missing is not the cluster's loss
        found.reason = gone[0]
    return found


def _empty(lab: BaseLab, found: Restored) -> None:
    """Kill every node and empty its folder. Raises LabError where one is not empty afterwards."""
    state = lab.topology.remote_store is not None and lab.topology.remote_store.state
    found.kept = [] if state else [node.name for node in lab.topology.nodes if not node.is_data]
    names = [node.name for node in lab.topology.nodes]
    with ThreadPoolExecutor(len(names)) as pool:  # at one moment, as far as can be: none is to save what others had
        list(pool.map(lab.kill_node, names))
    for name in names:
        if name in found.kept:
            continue
        lab.wipe_node(name)
        if not lab.data_is_empty(name):
            raise LabError(f"the folder of {name} is not empty")
        found.emptied.append(name)


def _start(lab: BaseLab, stopped: Callable[[], bool]) -> None:
    """Start every node, and wait until all are in one cluster that has its state back. Raises LabError."""
    expected = {node.name for node in lab.topology.nodes}
    for name in expected:
        lab.start_node(name)

    def joined() -> bool:
        if stopped():
            return True
        if dead := [name for name in sorted(expected) if lab.process_state(name) is None]:
            raise LabError(f"node {dead[0]} died when it was started empty: {lab.last_error(dead[0])}")
        seen = newest(views(lab))
        return seen is not None and seen.nodes >= expected and remote_store.recovered(lab)

    if not wait_until(joined, BACK_SECONDS, every=LOOK_SECONDS):
        raise LabError(f"the emptied nodes were not one cluster with its state after {BACK_SECONDS:g} s")
    if stopped():
        raise LabError("it was stopped while nodes were started")


def _restore(lab: BaseLab, indices: Collection[str], found: Restored, stopped: Callable[[], bool]) -> bool:
    """Restore indices and wait until they are green, or their shards were given up. Whether they were green."""
    remote_store.restore(lab, indices)

    def ours(seen: View) -> View:
        copies = tuple(copy for copy in seen.copies if copy.index in indices)
        return View(seen.seen_by, seen.version, seen.leader, seen.nodes, copies)

    green, waited = await_green(lab, GREEN_SECONDS, stopped=stopped, hopeless=HOPELESS_SECONDS, counted=ours)
    if green:
        return True
    found.given_up = remote_store.given_up(lab, indices)
    seen = newest(views(lab))
    if seen is None:
        found.reason = "no node sees an elected cluster manager"
        return False
    standing = ("STARTED", "RELOCATING")
    open_ = [
        f"{copy.index} {copy.shard}"
        for copy in ours(seen).copies
        if copy.primary and copy.state not in standing and copy.shard not in found.given_up.get(copy.index, {})
    ]
    if open_:
        found.reason = f"shard {open_[0]} and {len(open_) - 1} more were not restored after {waited:.0f} s"
    return False


def held_against(result: Mapping[str, Any], restored: Restored, index: str) -> dict[str, Any]:
    """The read-back of a restored index with what was not restored of it: ``not_restored_count`` are documents that no
    waiting brings back, of shards that were given up."""
    given_up = restored.given_up.get(index, {})
    lacking = [shard for shard in result.get("unavailable_shards") or () if shard not in given_up]
    unavailable = int(result.get("unavailable_count") or 0)
    return {**result, "not_restored_count": 0 if lacking or not given_up else unavailable}


def without(result: Mapping[str, Any], restored: Restored) -> dict[str, Any]:
    """The read-back of an index that the restored cluster does not know, though it is whole: all of it is lost."""
    acknowledged = int(result.get("acknowledged") or 0)
    says = f"the restored cluster does not know {', '.join(restored.missing)}"
    return {**result, "complete": False, "reason": says, "lost_count": acknowledged}


def not_read(index: str, reason: str, restored: Restored) -> dict[str, Any]:
    """The read-back of a run where nothing can be said of what is in the store."""
    return {"format": 1, "complete": False, "reason": reason, "index": index, "restored": restored.to_json()}
