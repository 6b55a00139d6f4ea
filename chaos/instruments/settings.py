"""Watches what steers the cluster, and says at once when an external actor changes it.

Somebody who sets ``cluster.routing.allocation.enable: none`` in mid-run has decided that no shard moves: what the run
shows of it then says nothing. So every few seconds the settings that are set, those of the load's index, the zones'
weights, what is decommissioned and who has no vote are held against what they were when the load began.

What this run changes stands in its ledger before it is changed: a setting may have each value that a move of ours gives
it, and what zones are told is left alone where moves or failover controllers of ours steer them. Whether a fault of
ours still holds is looked at elsewhere (:mod:`chaos.faults.holding`). What OpenSearch sets by itself is no news.

What is changed and changed back between two looks is seen of the index alone, by the version of its settings: an index
that was closed for a moment has another one. Where a move of ours changes settings of an index, it tells nothing.

What was measured since such a change says nothing of the cluster. A record from before this was watched says nothing
about it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from chaos.base import text
from chaos.base.errors import LabError
from chaos.base.waiting import wait_until
from chaos.checks import outside
from chaos.checks.evidence import Gap, unwatched
from chaos.checks.instrument import Begins, Context, Ends, Instrument, Made, Observer, Permission
from chaos.checks.reasons import Cause
from chaos.checks.record import SECOND, Record
from chaos.history import affects, configuration
from chaos.history.events import (
    ClusterLeader,
    ConfigurationChanged,
    ConfigurationUnwatched,
    ConfigurationWatched,
    DuringSetting,
    Sample,
)
from chaos.history.writer import Events
from chaos.opensearch import administration
from chaos.opensearch.administration import Text
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.reused import Reused
from chaos.opensearch.views import elected

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
STEERING = ("zone.weights", "zone.weights.restore", "zone.decommission", "zone.recommission", "failover.away")
"""Moves after which zones are steered by us; a decommission takes votes too."""
RESTORE = "failover.restore"
"""Takes back what failover controllers may do to a cluster that is not ours, which it names."""

UUID = ("index", configuration.UUID)
"""Which index it is: one that was deleted and made anew has another."""

Fact = tuple[str, str]
"""(scope, name), see :mod:`chaos.history.configuration`."""
Facts = dict[Fact, str | None]
VERSION: Fact = ("index", configuration.SETTINGS_VERSION)
BY_ITSELF: Fact = ("opensearch", "settings")
"""What OpenSearch has set by itself: no news, but it changes the version of the settings."""


def read(lab: Cluster, index: str, through: str) -> Facts:
    """How things are, by the word of one node; an index that is not there has no facts. Of a name with several indices
    the oldest is looked at.

    Raises LabError when nobody says it in time.
    """
    way: Any = {"through": through, "timeout": TIMEOUT_SECONDS}
    layers = administration.cluster_settings(lab, **way)
    of_cluster = layers["persistent"] | layers["transient"]
    settings: dict[Fact, Text] = {("cluster", key): value for key, value in of_cluster.items()}
    name, of_index = administration.oldest(lab, index, **way) or (None, {})
    settings |= {("index", key): value for key, value in of_index.items()}
    found: Facts = {fact: _said(value) for fact, value in settings.items() if fact[1] not in OWN}
    found[BY_ITSELF] = ", ".join(sorted(f"{key} {value}" for key, value in of_index.items() if key in OWN)) or None
    version = None if name is None else administration.settings_version(lab, name, **way)
    found[VERSION] = None if version is None else str(version)
    found["zones", "votes"] = ", ".join(sorted(administration.excluded(lab, **way))) or None
    if lab.topology.zone_aware:
        weights, _ = administration.weights(lab, **way)
        found["zones", "weights"] = _weights(weights)
        found["zones", "decommissioned"] = ", ".join(sorted(administration.decommission_status(lab, **way))) or None
    return found


def _different(one: Facts, other: Facts) -> list[Fact]:
    return [fact for fact in sorted({*one, *other}) if one.get(fact) != other.get(fact)]


def _explained(different: Collection[Fact], before: Facts, now: Facts, given: Collection[tuple[Fact, Any]]) -> bool:
    """Whether the version of the index's settings changed by what is known: a setting that is another one now, whoever
    changed it, or a move of ours, which may have been taken back since the last look. An index that is gone has none.
    """
    ours_too = any(fact[0] == VERSION[0] for fact, _ in given)
    return bool(_of_index(different)) or ours_too or before.get(VERSION) is None or now.get(VERSION) is None


def _of_index(different: Collection[Fact]) -> set[Fact]:
    """Of these the settings of the index, also those that OpenSearch sets by itself."""
    return {fact for fact in different if fact[0] in (VERSION[0], BY_ITSELF[0])} - {VERSION}


def _weights(weights: Mapping[str, int] | None) -> str | None:
    return ", ".join(f"{zone} {n}" for zone, n in sorted((weights or {}).items())) or None


def _said(value: Text) -> str | None:
    return ", ".join(value) if isinstance(value, list) else value


def ours(made: Iterable[Made]) -> tuple[set[tuple[Fact, str | None]], set[Fact]]:
    """What these moves set, as facts with their values; and facts that they steer, whatever is said of them then."""
    given: set[tuple[Fact, str | None]] = set()
    steered: set[Fact] = set()
    for move in made:
        given |= {(setting, _said(value)) for setting, value in move.sets.items()}
        if move.operation == RESTORE:  # which names all weights that controllers set
            weights = [*move.arguments["made"], move.arguments["before"]]
            given |= {(("zones", "weights"), _weights(each)) for each in weights}
            steered |= {("zones", name) for name in configuration.ZONES if name != "weights"}
        if move.operation in STEERING:
            steered |= {("zones", name) for name in configuration.ZONES}
    return given, steered


class Configuration(Observer):
    """The watch, in a thread of its own. ``changed`` is told in words of each change that is not ours and that can
    have caused a finding; any other is written down alone (:mod:`chaos.history.affects`)."""

    def __init__(
        self,
        lab: Cluster,
        events: Events,
        index: str,
        moves: Callable[[], Iterable[Made]],
        changed: Callable[[str], None],
    ) -> None:
        """``moves``: all that the run's ledger has so far."""
        self._events, self._index, self._moves, self._changed = events, index, moves, changed
        self._lab = Reused(lab)
        self._cluster: str | None = None
        self._before: Facts = {}
        self._last: int | None = None
        self._why: str | None = None
        self._over = threading.Event()
        self._looking = threading.Lock()
        self._allowed: tuple[str, frozenset[Fact]] | None = None
        """(phase, facts that others may change in it)."""
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="configuration", daemon=True)

    def start(self) -> None:
        """From now on what is so has to stay so."""
        ConfigurationWatched().write(self._events)
        wait_until(self.look, PATIENCE_SECONDS)
        self._thread.start()

    def stop(self, *, patient: bool = True) -> None:
        """Look once more and end; idempotent. ``patient``: where nobody answers, look again for a while."""
        if self._over.is_set() or self._thread.ident is None:
            return
        self._over.set()
        self._thread.join()
        wait_until(self.look, PATIENCE_SECONDS if patient else 0.0)
        self._lab.end()
        with suppress(OSError):
            ConfigurationUnwatched(last=self._last, because=self._why).write(self._events)

    def look(self) -> bool:
        """Compare once; False when no node answered. Never raises."""
        with self._looking:
            try:
                return self._look()
            except Exception as error:  # then nobody knows, and the record says so
                self._why = f"{type(error).__name__}: {error}"
                return False

    def permit(self, permission: Permission) -> None:
        self.allow(permission.phase, permission.settings)

    def permit_no_more(self, *, patient: bool = True) -> None:
        self.allow_no_more(patient=patient)

    def allow(self, phase: str, settings: Collection[str]) -> None:
        """Others may change these settings of the cluster, until :meth:`allow_no_more`. What they did before is not
        let pass: so there is a look first."""
        if not settings:
            return
        wait_until(self.look, PATIENCE_SECONDS)
        with self._looking:
            self._allowed, self._closing = (phase, frozenset(("cluster", name) for name in settings)), False

    def allow_no_more(self, *, patient: bool = True) -> None:
        """The last look that lets such changes pass is taken now, or as soon as one is answered; idempotent."""
        if self._allowed is None:
            return
        with self._looking:
            self._closing = True
        wait_until(self.look, PATIENCE_SECONDS if patient else 0.0)

    def _run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self.look()

    def _look(self) -> bool:
        began = time.monotonic_ns()
        through = elected(self._lab)
        if through is None:
            return False
        way: Any = {"through": through, "timeout": TIMEOUT_SECONDS}
        try:
            different: list[Fact] = []
            if self._cluster is None:
                now = administration.certain(self._lab, lambda: read(self._lab, self._index, through), **way)
                self._cluster = administration.cluster_uuid(self._lab, **way)
            elif (now := read(self._lab, self._index, through)) != self._before:
                now, different = administration.certain(self._lab, lambda: self._compared(through), **way)
        except LabError:
            return False
        before, since = self._before, self._last
        self._before, self._last = now, began
        given, steered = ours(self._moves()) if different else (set(), set())
        for fact in different:
            if fact in steered or (fact, now.get(fact)) in given or fact == BY_ITSELF:
                continue
            if fact == VERSION and _explained(different, before, now, given):
                continue
            scope, name = fact
            told: dict[str, Any] = {"scope": scope, "name": name, "before": before.get(fact), "now": now.get(fact)}
            if self._allowed is not None and fact in self._allowed[1]:
                DuringSetting(phase=self._allowed[0], since=since, **told).write(self._events)
                continue
            ConfigurationChanged(since=since, **told).write(self._events)
            if affects.of(told) is not affects.Affects.NOTHING:
                self._changed(configuration.sentence(told))
        if self._closing:
            self._allowed, self._closing = None, False
        return True

    def _compared(self, through: str) -> tuple[Facts, list[Fact]]:
        """How things are, and the facts that are not as they were, by somebody's doing. Raises LabError.

        Another index, or none, is one fact where somebody deleted it. An index that the cluster lost is none, nor is
        anything of a cluster that formed anew: what it forgot is its own doing.
        """
        way: Any = {"through": through, "timeout": TIMEOUT_SECONDS}
        before, now = self._before, read(self._lab, self._index, through)
        different = _different(before, now)
        if VERSION in different and not _of_index(different):  # two requests: one may have changed between them
            different = sorted({*different, *_different(before, read(self._lab, self._index, through))})
        if different and administration.cluster_uuid(self._lab, **way) != self._cluster:
            return now, []
        if UUID not in different:
            return now, different
        different = [fact for fact in different if fact[0] != UUID[0]]
        uuid = before.get(UUID)
        return now, [*different, *([UUID] if uuid and administration.deleted(self._lab, uuid, **way) else [])]


# -- judging ---------------------------------------------------------------------------------------

WHAT = "whether somebody else changed the cluster's settings"


def gaps(record: Record) -> tuple[Gap, ...]:
    """Each change of an external actor that can have caused a finding, from the last moment at which it was not there;
    and a watch that broke.

    Who deletes the index, or has its writes confirmed before they are on disk, loses documents that were acknowledged.
    """
    changed = (
        Gap(
            _says(record, event),
            int(event["since"]),
            third_hand=True,
            may_break=outside.may_break(record, event),
        )
        for event in outside.changes(record)
    )
    nobody = unwatched(record, "configuration_watched", configuration.WATCHED, configuration.UNWATCHED, WHAT)
    return (*changed, *(nobody or _unseen(record)))


def _says(record: Record, event: dict[str, Any]) -> str:
    says = configuration.sentence(event)
    a, b = ((int(event[key]) - record.origin) / SECOND for key in ("since", "t"))
    return f"{says[:1].upper()}{text.clip(says[1:], 200)}, between {a:.1f} s and {b:.1f} s of the run"


def _unseen(record: Record) -> list[Gap]:
    """Somebody watched, and saw nothing: at all, or after the phases, though the cluster was led."""
    over = next(iter(record.seen(ConfigurationUnwatched)), None)
    if over is None:
        return []
    last, leaders, looks = over.last, record.seen(ClusterLeader), record.seen(Sample)
    if last is None:
        return [Gap(f"Nobody could look {WHAT}", None)]
    led = bool(leaders and leaders[-1].leader) and not (looks and looks[-1].ok == 0)
    if led and record.spans and int(last) < record.spans[-1].end:
        return [Gap(f"Nobody looked again, after the phases, {WHAT}", int(last))]
    return []


def _observe(context: Context) -> Configuration:
    return Configuration(context.lab, context.events, context.index, context.moves, context.cut)


INSTRUMENT = Instrument(
    name="settings",
    says="whether an external actor changes settings, weights or votes",
    observe=_observe,
    begins=Begins.INDEX,
    ends=Ends.LOAD,
    order=40,
    due="configuration_watched",
    gaps={Cause.SETTINGS: gaps},
)
