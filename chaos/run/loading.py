"""The load of a run: its index and documents, its driver, and the time until it is steady."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any

from chaos.base import text
from chaos.base.addresses import Address
from chaos.base.errors import ChaosError, LabError
from chaos.base.operations import ADMIN
from chaos.base.paths import ProcessIdentity
from chaos.checks import deciding
from chaos.checks.instrument import Begins, Child, ProcessorSets, Steering
from chaos.checks.record import Record
from chaos.definitions.actions import Weights
from chaos.definitions.experiment import ClosedLoop, Helper, Operation, Retry
from chaos.definitions.topology import NodeSpec
from chaos.faults.moves import Move, Reversible, is_open
from chaos.history import History
from chaos.history.events import IndexShape, LoadStart, MachineDecides, Warm
from chaos.history.writer import ECHO
from chaos.load import drivers
from chaos.load.config import (
    CasConfig,
    ClientConfig,
    ClientHost,
    ClosedConfig,
    DriverConfig,
    HelperConfig,
    Instrument,
    OperationConfig,
    ProbeConfig,
    RetryConfig,
    Target,
    VisibilityConfig,
)
from chaos.load.driver import DriverError
from chaos.observe.counted import Counted
from chaos.opensearch import replication
from chaos.opensearch.administration import new_owner, setting_in_force, settings_of_oldest
from chaos.opensearch.requests import first_index
from chaos.opensearch.rest import opensearch
from chaos.opensearch.views import administer, await_green, lacking, newest, views
from chaos.run import commanding, on_target, plan, shape, taking
from chaos.run.indices import RunIndex
from chaos.run.on_target import most_looks
from chaos.run.state import DRIVER, RunState
from chaos.targets.wiring import HTTP

GREEN_SECONDS = 60.0
"""How long the cluster may take to be green with the load's index in it."""
CAUGHT_UP_SECONDS = 60.0
"""How long replicas of segment replication may take to copy the documents that are there before the load."""
ALLOCATE_SECONDS = 5.0
"""How long OpenSearch may take to place that index by itself, before it is asked to try again."""
WARM_SECONDS = 5
"""The load runs unjudged until this many seconds in a row were good, so that cold code is not measured …"""
WARM_UP_LIMIT_SECONDS = 60.0
"""… and for this long at most: then the first phase begins as things are, and is judged so."""
DECIDED_BY_SECONDS = 10
"""How much of the warm-up's end says whether this machine can decide the objectives."""
TICK_SECONDS = 0.1
SECOND = 1_000_000_000
"""In ns."""
STEERED_SECONDS = 0.5
"""How often clients ask their zone's failover controller which nodes to use."""


def retry_config(given: Retry | None) -> RetryConfig | None:
    """What the driver is told of a retry as a definition has it."""
    if given is None:
        return None
    return RetryConfig(
        times=given.times,
        wait_s=float(given.wait),
        most_s=float(given.most),
        exponential=given.backoff == "exponential",
        jitter=given.jitter,
    )


def helper_config(given: Helper | None) -> HelperConfig | None:
    """What the driver is told of a helper as a definition has it."""
    if given is None:
        return None
    return HelperConfig(
        kind=given.kind,
        chunk_size=given.chunk_size,
        max_retries=given.max_retries,
        initial_backoff_s=float(given.initial_backoff),
        max_backoff_s=float(given.max_backoff),
        raise_on_error=given.raise_on_error,
        raise_on_exception=given.raise_on_exception,
    )


class Loading(RunState):
    """From a lab that is up to a load that is steady."""

    def driver_config(self, *, planned: bool = False) -> DriverConfig:
        """``planned``: before there is a lab, so that nobody knows where clients will reach nodes."""
        topology, load = self.experiment.topology, self.experiment.load
        updated = {each.index for each in load.every if each.actions is not None and each.actions.update}
        for index in self.indices:
            if index.place in updated:
                index.workload.refuse_updates()
        limits = self.instruments.provided(ProcessorSets)
        weighed = topology.weights or any(
            isinstance(action, Weights) for each in self.experiment.phases for action in each.do
        )
        probe = plan.WEIGHED_PROBE_PATH if weighed else plan.PROBE_PATH
        return DriverConfig(
            seed=self.seed,
            out=(self.folder / "history").absolute(),
            index=self.index,
            alias=self.indices.first.alias,
            operations=tuple(
                OperationConfig(
                    rate=each.most,
                    changes=each.changes,
                    times=each.times,
                    before=float(each.before),
                    good_within_s=float(each.good_within),
                    **self._requests(each),
                )
                for each in load.operations
            ),
            closed=tuple(ClosedConfig(clients=each.clients, **self._requests(each)) for each in load.closed),
            arrivals=load.arrivals,
            workload=load.workload,
            dataset=load.dataset.to_json() if load.dataset is not None else None,
            documents=load.documents,
            shards=self.indices.first.shards,
            copies=self.indices.first.shape.copies,
            visible_after_s=self.indices.first.shape.visible_after_s,
            rolled=self.indices.first.rolled.rolled,
            indices=tuple(each.config for each in self.indices.others),
            cas=CasConfig(rate=float(load.cas.rate), keys=load.cas.keys) if load.cas else None,
            visibility=VisibilityConfig(
                rate=float(load.visibility.rate),
                within_s=float(load.visibility.within),
                most_looks=None if self.there is None else most_looks(self.experiment, self.there.lab.target),
                primary_gets=self.indices.first.shape.segments,
            )
            if load.visibility
            else None,
            client=ClientConfig(
                kind=load.client.kind,
                timeout_s=float(load.client.timeout),
                compress=load.client.compress,
                node=load.client.node,
                probe=ProbeConfig(path=probe, verify=load.client.verify_health_checks),
                steered_s=STEERED_SECONDS if self.experiment.controller is not None else None,
            ),
            clients=tuple(
                ClientHost(zone=zone, through=self.through(zone)) if planned else self.client_host(zone)
                for zone in self.experiment.client_zones
            ),
            targets=self.load_targets,
            instruments=() if planned else tuple(map(self.instrument, self.pulsed)),
            usable=() if planned or limits is None else tuple(map(tuple, limits.sets())),
            access=self.lab.access,
            processes=load.processes,
        )

    def _requests(self, operation: Operation | ClosedLoop) -> dict[str, Any]:
        """What the driver is told of open and closed loops alike."""
        return {
            "name": operation.name,
            "kind": operation.operation,
            "answer": ADMIN
            if operation.operation == ADMIN
            else next(
                each.workload.answer(operation.name, operation.operation)
                for each in self.indices
                if each.place == operation.index
            ),
            "items": operation.items,
            "retry": retry_config(operation.retry),
            "automatic": operation.automatic,
            "helper": helper_config(operation.client),
            "queries": operation.queries,
            "place": operation.index,
            "calls": operation.calls,
            "actions": operation.actions.weights if operation.actions is not None else None,
            "searches": operation.searches,
            "pages": operation.pages or 1,
            "size": operation.size,
        }

    @property
    def load_targets(self) -> tuple[Target, ...]:
        """Whom clients ask: nodes, or the load balancers that a cluster has of its own."""
        if self.balancers:
            return tuple(
                Target(node=on_target.balancer(zone), zone=zone, host=at.host, port=at.port)
                for zone, at in self.balancers.items()
                if zone in self.experiment.client_zones
            )
        return tuple(
            Target(
                node=n.name,
                zone=n.zone,
                host=self.lab.wiring[n.name].loopback,
                port=HTTP,
                itself=self.there is not None,
            )
            for n in self.nodes_asked
        )

    @property
    def nodes_asked(self) -> tuple[NodeSpec, ...]:
        """The nodes that clients ask: those with data, and the one that they are pinned to, which may only
        coordinate."""
        pinned = self.experiment.load.client.node
        return tuple(node for node in self.experiment.topology.nodes if node.is_data or node.name == pinned)

    @property
    def balancers(self) -> Mapping[str, Address]:
        """Zone → its load balancer, where that is not ours to play."""
        return {} if self.there is None else self.there.lab.ways_in

    def through(self, zone: str) -> str | None:
        return on_target.balancer(zone) if zone in self.balancers else None

    @property
    def pulsed(self) -> dict[str, str | None]:
        """The hosts whose Toxiproxies the load passes, and for those of clients the zone (None: a node's)."""
        if self.there is not None:  # nobody's Toxiproxies are passed that we know of
            return {}
        wiring, zones = self.lab.wiring, self.experiment.client_zones
        return {host.name: None for host in wiring.nodes} | {h.name: h.zone for h in wiring.clients if h.zone in zones}

    def instrument(self, host: str) -> Instrument:
        """Where the Toxiproxy of a host is asked for signs of life."""
        server = self.lab.toxiproxy(host).endpoint
        netns = str(server.namespace.path) if server.namespace is not None else None
        return Instrument(name=host, client=self.pulsed[host], host=server.host, port=server.port, netns=netns)

    def client_host(self, zone: str) -> ClientHost:
        """Where a zone's clients are, and by which addresses they reach nodes where those differ."""
        if self.balancers:
            return ClientHost(zone=zone, through=self.through(zone))
        nodes = {node.name: self.lab.wiring[node.name].loopback for node in self.nodes_asked}
        ways = {node: self.lab.endpoint(f"client-{zone}", (address, HTTP)) for node, address in nodes.items()}
        space = next(iter(ways.values())).namespace
        steered = self.experiment.controller is not None and self.experiment.controller.steer
        steering = self.instruments.provided(Steering) if steered else None
        return ClientHost(
            zone=zone,
            netns=str(space.path) if space is not None else None,
            addresses={node: way.address for node, way in ways.items() if way.address != (nodes[node], HTTP)},
            controller=steering.ports.get(zone) if steering is not None else None,
        )

    def load_on(self) -> None:
        if self.identity is not None:
            self.identity.start()
        self.instruments.start(Begins.FIRST)
        if self.there is not None:
            self.stage("notes")
            keeper = self.there.begin(self.folder / "logs")
            kept = keeper.process
            assert kept is not None
            self.instruments.add(Child("keeper", "keeper", None, kept.pid, kept.poll, keeper.commanded, keeper.log))
        self.stage("preload")
        self.reporter.status("writing the documents that are there before the load")
        for each in self.indices:
            self.make_index(each)
        through = self.experiment.topology.data_nodes[0].name
        client = opensearch(self.lab.administration(through), access=self.lab.access_to(through))
        try:
            for each in self.indices:
                keys = self.cas_keys if each.place is None else 0
                each.workload.preload(client, each.documents, each.index, keys=keys, alias=each.alias)
        finally:
            client.close()
        began = time.monotonic()
        while not await_green(self.lab, ALLOCATE_SECONDS, stopped=self.stop.is_over)[0]:
            self.stop.check()
            if time.monotonic() - began > GREEN_SECONDS:
                raise LabError(
                    f"the cluster is not green before the load begins: {lacking(self.lab)}. "
                    "GET _cluster/allocation/explain says what keeps a copy from its place."
                )
            self.allocate_again()
        self.stop.check()
        taking.refuse_unknown(self.lab, self.experiment, self.index, ours=self.there is None)
        self.look_at_the_indices(through)
        self.await_replicas()
        if self.there is not None:
            if (first := newest(views(self.lab))) is None:
                raise LabError("the cluster has no elected manager that says which indices are there")
            self.counted = Counted(self.index, first, self.events)
        self.instruments.start(Begins.INDEX)
        self.driver = drivers.of(self.driver_config(), self.folder / "logs" / "driver.log", self.driver_failed)
        with self.unless_stopped():
            self.driver.start()
        for process in self.driver.processes:
            if process.pid is not None:
                if self.there is not None:
                    self.write_down(process.pid)
                self.lab.instrument(process.pid)
                self.instruments.add(Child("driver", process.name, None, process.pid, *process.ending, process.log))
        self.instruments.start(Begins.LOAD)
        self.stop.check()
        with self.unless_stopped():
            self.driver.go()
        LoadStart().write(self.events)
        self.reporter.line(
            "load on: "
            + ", ".join(
                [f"{each.name} {each.rate_text}" for each in self.experiment.load.operations]
                + [f"{each.name} by {each.clients} clients" for each in self.experiment.load.closed]
            )
            + f" from zones {', '.join(self.experiment.client_zones)}"
        )

    def allocate_again(self) -> None:
        """Where a fault before was, allocation may have given up, or shun a disk that was full for a minute more.

        A cluster that exists is not asked: it would try every copy again, of all indices, and no ledger could take that
        back.
        """
        if self.there is None:
            with suppress(LabError):
                administer(self.lab, "POST", "/_cluster/reroute?retry_failed=true&metric=none")

    def make_index(self, it: RunIndex) -> None:
        """Make an index of the load, which the ledger can take away. Raises as moves do."""
        owner = new_owner()
        made_of = {"owner": owner, "settings": dict(it.settings), "mapping": dict(it.workload.mapping)}
        if it.rolled.rolled is None:
            index = Reversible(
                Move("index.create", {"index": it.index, "alias": it.alias, **made_of}),
                Move("index.delete", {"index": it.index, "owner": owner}),
            )
        else:
            named = {"name": it.index, "kind": it.rolled.rolled}
            index = Reversible(
                Move("rolled.create", {**named, **made_of, "timestamp": it.rolled.data_stream}),
                Move("rolled.delete", {**named, "owner": owner}),
            )
        if self.there is not None:
            self.there.refuse_templates(it.index)
        made = [] if self.own_lab else self.ledger.intend("index", [index])
        try:
            index.move.apply(self.lab)
        except ChaosError as error:
            if not is_open(error):
                self.ledger.answered(made)
            raise
        self.ledger.answered(made)

    def look_at_the_indices(self, through: str) -> None:
        """Write down what answers are held against: the load's indices as they are before it begins. Raises
        LabError."""
        refresh = setting_in_force(self.lab, shape.CLUSTER_REFRESH, through=through) or shape.DEFAULT_REFRESH
        for each in self.indices:
            settings = settings_of_oldest(self.lab, each.index, through=through)
            if settings is None:
                raise LabError(f"the load's index {each.index} is gone before the load began")
            named = each.index if each.rolled.rolled is None else first_index(each.index, each.rolled.rolled)
            kind = replication.replication_type(self.lab, named, through=through)
            if kind is None:
                raise LabError(f"the load's index {each.index} is gone before the load began")
            if self.experiment.topology.remote_store is not None and settings.get(shape.REMOTE) != "true":
                raise LabError(
                    f"the load's index {each.index} is not kept in the service "
                    f"{self.experiment.topology.remote_store.service}, so nothing can be said of remote-backed storage"
                )
            each.shape = shape.of_index(settings, self.experiment, kind, cluster_refresh=refresh)
            IndexShape(index=named, **asdict(each.shape)).write(self.events)

    def await_replicas(self) -> None:
        """With segment replication replicas show the documents that are there before the load once they have copied
        them. Raises LabError where one has not in time."""
        for each in self.indices:
            written = each.documents + (self.cas_keys if each.place is None else 0)
            if not each.shape.segments or not written or (seen := newest(views(self.lab))) is None:
                continue
            wanted = replication.replicas_of(copy for copy in seen.copies if copy.index == each.index)
            behind = replication.not_caught_up(
                self.lab, each.index, wanted, CAUGHT_UP_SECONDS, stopped=self.stop.is_over
            )
            self.stop.check()
            late = [f"shard {shard} on {node}" for (shard, node), lag in behind.items() if lag is not None]
            if late:
                raise LabError(
                    f"replicas of {each.index} have not copied the documents from before the load within "
                    f"{CAUGHT_UP_SECONDS:g} s: {text.listed(late)}. GET _cat/segment_replication says how far they are."
                )

    def write_down(self, pid: int) -> None:
        """The driver, for whoever undoes on this machine while the runner stands still: a write that comes after the
        load's index was deleted would make that anew."""
        with suppress(ProcessLookupError):  # that it has ended is noticed by who watches it
            session = commanding.Session(ProcessIdentity.of(pid), commanding.new_token())
            self.ledger.intend(DRIVER, [commanding.ending(session, ["the load driver"])])

    @contextmanager
    def unless_stopped(self) -> Iterator[None]:
        """A stop may have told the driver to cease before it began: then that is what ended it."""
        try:
            yield
        except DriverError:
            self.stop.check()
            raise

    def warm_up(self) -> None:
        """Let the load run until it is steady. These arrivals belong to no phase."""
        assert self.driver is not None
        self.stage("warm-up")
        objectives = {o.name: float(o.good_within) * 1000 for o in self.experiment.load.operations}
        began = time.monotonic()
        good_since: int | None = None
        seen, steady = 0, False
        while not steady and time.monotonic() - began < WARM_UP_LIMIT_SECONDS:
            self.tick("warming up")
            status = self.driver.status
            if status.get("t", 0) > seen:
                seen = status["t"]
                now = status["operations"]
                good = all(
                    now.get(name, {}).get("ok", 0) > 0
                    and now[name]["bad"] == 0
                    and (now[name]["p99_ms"] or 0) <= objective
                    for name, objective in objectives.items()
                )
                if not good:
                    good_since = None
                elif good_since is None:
                    good_since = status.get("newest", seen) - SECOND  # each word is of the second before it
                # by time, not by words: several processes say several a second
                steady = good_since is not None and seen - good_since >= (WARM_SECONDS - TICK_SECONDS) * SECOND
            time.sleep(TICK_SECONDS)
        seconds = time.monotonic() - began
        Warm(seconds=round(seconds, 3), steady=steady).write(self.events)
        self.reporter.line(f"warm after {seconds:.0f} s" if steady else f"not steady after {seconds:.0f} s")
        self.say_what_can_be_decided()

    def say_what_can_be_decided(self) -> None:
        """By the echo's last seconds, with the load on and nothing done to the cluster yet."""
        objectives: dict[str, float] = {o.name: float(o.good_within) for o in self.experiment.load.operations}
        now = time.monotonic_ns()
        record = Record(History.open(self.folder))
        heard = deciding.Echoes.of(record.lines(ECHO), now - DECIDED_BY_SECONDS * SECOND, now)
        seen = deciding.Seen.of(record, now - WARM_SECONDS * SECOND, now)
        says = deciding.says(heard, objectives, seen)
        answers = {op: deciding.decides(heard, objective, seen, op) for op, objective in objectives.items()}
        MachineDecides(decides=answers, asked=heard.asked, says=says).write(self.events)
        self.reporter.line(says)
