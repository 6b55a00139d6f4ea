"""Watches what steers the cluster, and says at once when a third hand changes it.

Somebody who sets ``cluster.routing.allocation.enable: none`` in mid-run has decided that no shard moves: what the run
shows of it then says nothing. So every few seconds the settings that are set, those of the load's index, the zones'
weights, what is decommissioned and who has no vote are held against what they were when the load began.

What this run changes stands in its ledger before it is changed: a setting may have each value that a move of ours gives
it, and what zones are told is left alone where moves or failover controllers of ours steer them. Whether a fault of
ours still holds is looked at elsewhere (:mod:`chaos.faults.holding`). What OpenSearch sets by itself is no news.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import urllib3

from chaos.faults.ledger import moves
from chaos.faults.moves import Events, Move
from chaos.history import configuration
from chaos.lab.processes import wait_until
from chaos.lab.protocol import Lab
from chaos.netsock import UNREADABLE
from chaos.observe.administration import DECOMMISSION, WEIGHTS, as_text
from chaos.observe.cluster import elected

LOOK_SECONDS = 5.0
TIMEOUT_SECONDS = 2.0
PATIENCE_SECONDS = 10.0
"""For the first look and the last one."""
OWN = frozenset(
    {
        "index.blocks.read_only_allow_delete",  # a disk over the flood stage
        "cluster.blocks.create_index",  # every disk over the high watermark
        "index.version.upgraded",
    }
)
"""Settings that OpenSearch sets by itself (``DiskThresholdMonitor``, ``IndexMetadataUpgrader``)."""
STEERING = ("zone.weights", "zone.decommission", "zone.recommission", "failover.away")
"""Moves after which zones are steered by us; a decommission takes votes too."""

Fact = tuple[str, str]
"""(scope, name), see :mod:`chaos.history.configuration`."""
Facts = dict[Fact, str | None]


def read(lab: Lab, index: str, through: str) -> Facts | None:
    """What one node says; None when it does not answer, or knows no elected cluster manager."""
    client = lab.client(through, timeout=TIMEOUT_SECONDS)

    def ask(path: str) -> Any:
        status, answer = client.request("GET", path)
        if status != 200:
            raise LookupError(f"{path} answered {status}")
        return answer

    try:
        found: Facts = {}
        settings = ask("/_cluster/settings?flat_settings=true&local=true")
        for layer in ("persistent", "transient"):  # a transient one outweighs its persistent twin
            found |= {("cluster", key): _text(value) for key, value in settings[layer].items()}
        parts = "metadata.indices.*.settings,metadata.cluster_coordination.voting_config_exclusions.node_name"
        metadata = ask(f"/_cluster/state/metadata/{index}?local=true&flat_settings=true&filter_path={parts}")[
            "metadata"
        ]
        own = metadata["indices"][index]["settings"]
        found |= {("index", key): _text(value) for key, value in own.items()}
        excluded = metadata.get("cluster_coordination", {}).get("voting_config_exclusions", ())
        found["zones", "votes"] = ", ".join(sorted(str(each["node_name"]) for each in excluded)) or None
        if lab.topology.zone_aware:
            weights = ask(f"{WEIGHTS}?local=true").get("weights", {})
            out = ask(f"{DECOMMISSION}/zone/_status")
            found["zones", "weights"] = _said({zone: f"{float(weight):g}" for zone, weight in weights.items()})
            found["zones", "decommissioned"] = ", ".join(sorted(map(str, out))) or None
        return {fact: value for fact, value in found.items() if fact[1] not in OWN}
    except (urllib3.exceptions.HTTPError, *UNREADABLE):
        return None
    finally:
        client.close()


def _text(value: Any) -> str:
    text = as_text(value)
    return ", ".join(text) if isinstance(text, list) else str(text)


def _said(values: dict[str, str]) -> str | None:
    return ", ".join(f"{key} {value}" for key, value in sorted(values.items())) or None


def ours(made: Iterable[Move]) -> dict[Fact, set[str | None] | None]:
    """Facts that these moves change, with the values that they give them; None: whatever is said."""
    found: dict[Fact, set[str | None] | None] = {}
    for move in made:
        if move.operation in ("settings.change", "settings.restore"):
            scope = "cluster" if move.arguments["index"] is None else "index"
            values = move.arguments["settings" if move.operation == "settings.change" else "before"]
            for key, value in values.items():
                allowed = found.setdefault((scope, key), set())
                if allowed is not None:
                    allowed.add(None if value is None else _text(value))
        elif move.operation in STEERING:
            found |= {("zones", name): None for name in configuration.ZONES}
    return found


class Configuration:
    """The watch, in a thread of its own. ``changed`` is told in words of each change that is not ours."""

    def __init__(self, lab: Lab, events: Events, index: str, ledger: Path, changed: Callable[[str], None]) -> None:
        self._lab, self._events, self._index, self._ledger, self._changed = lab, events, index, ledger, changed
        self._before: Facts | None = None
        self._last: int | None = None
        self._why: str | None = None
        self._over = threading.Event()
        self._looking = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="configuration", daemon=True)

    def start(self) -> None:
        """From now on what is so has to stay so."""
        self._events.write(configuration.WATCHED)
        wait_until(self.look, PATIENCE_SECONDS)
        self._thread.start()

    def stop(self, *, patient: bool = True) -> None:
        """Look once more and end; idempotent. ``patient``: where nobody answers, look again for a while."""
        if self._over.is_set() or self._thread.ident is None:
            return
        self._over.set()
        self._thread.join()
        wait_until(self.look, PATIENCE_SECONDS if patient else 0.0)
        with suppress(OSError):
            self._events.write(configuration.UNWATCHED, last=self._last, because=self._why)

    def look(self) -> bool:
        """Compare once; False when no node answered. Never raises."""
        with self._looking:
            try:
                return self._look()
            except Exception as error:  # then nobody knows, and the record says so
                self._why = f"{type(error).__name__}: {error}"
                return False

    def _run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self.look()

    def _look(self) -> bool:
        began = time.monotonic_ns()
        through = elected(self._lab)
        now = read(self._lab, self._index, through) if through is not None else None
        if now is None:
            return False
        before, since = self._before, self._last
        self._before, self._last = now, began
        if before is None or since is None:
            return True
        different = [fact for fact in sorted({*before, *now}) if before.get(fact) != now.get(fact)]
        allowed = ours(moves(self._ledger)) if different else {}
        for fact in different:
            if fact in allowed and ((values := allowed[fact]) is None or now.get(fact) in values):
                continue
            scope, name = fact
            told: dict[str, Any] = {"scope": scope, "name": name, "before": before.get(fact), "now": now.get(fact)}
            self._events.write(configuration.CHANGED, since=since, **told)
            self._changed(configuration.sentence(told))
        return True
