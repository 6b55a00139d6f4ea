"""Faults by AWS FIS, on nodes that are instances of EC2 (docs/fis.md).

A fault is an experiment of FIS of its own: a template, written into the ledger before it is made, and its start. FIS
ends it after ``longest`` of the target's file, whoever is dead by then; the runner stops it before. What FIS says of
its success counts for nothing: a fault is proven by its effect (:mod:`chaos.faults.effects`) while FIS says that the
experiment runs and that no action of it failed or was skipped.

Which of our intents FIS can have, and how what it does differs from what is meant, is :data:`INTENTS`; sources are the
FIS User Guide (Actions reference, Systems Manager documents).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from chaos.aws.catalogue import DOCUMENTS, MARGIN, document_parameters, iso
from chaos.base.errors import FaultError, Lacking
from chaos.base.text import listed
from chaos.base.units import Duration
from chaos.definitions.fis import LONGEST, FisFile
from chaos.faults.corroboration import Corroborated
from chaos.faults.effects import CutOff, NodeEffects, Restarted
from chaos.faults.evidence import Evidence
from chaos.faults.fault import Grade, Link
from chaos.faults.kind import Kind
from chaos.faults.kinds.cluster_manager import QuorumLoss
from chaos.faults.kinds.network import NetworkDrop, NetworkLatency, NetworkLoss, OnLinks
from chaos.faults.kinds.node import NodeKill, NodeRestart, NodeStop
from chaos.faults.kinds.zone import ZoneIsolation, ZonePartition, ZonePowerLoss, ZoneSlowness
from chaos.faults.moves import Move, Reversible, operation, signed
from chaos.faults.offers import Aim, Means, Provider
from chaos.opensearch.views import administer
from chaos.targets.existing.fis import SHELL, Ask, Fis
from chaos.targets.existing.fis_template import digest
from chaos.targets.existing.target import ExistingTarget
from chaos.targets.protocol import Lab

PROVIDER = Provider("fis", "AWS FIS, on instances of EC2; never run on AWS", grade=Grade.EFFECT, of_others=True)
NEEDS = ("fis",)
MOST_ARNS = 5
"""Resources of one target of a template by their ARNs (API reference: resourceArns)."""
DROPPED_SECONDS = 15.0
"""That an experiment is waited for once its template is gone: its own undo has had its time by then."""
MOST_AT_ONCE = 10
"""Actions of an experiment that run in parallel (Quotas for AWS FIS)."""
COMMAND_SECONDS = 120
"""For a document that is over at once."""
DOCUMENT_SECONDS = 120.0
"""Within which a document's effect is there, and after a cancel gone: it may install packages first."""
NETWORK = tuple(sorted(document.name for document in DOCUMENTS.values() if document.network))
"""Documents of which no two may run on an instance at once (FIS User Guide, Systems Manager documents)."""
DELAYS, LOSES = "AWSFIS-Run-Network-Latency-Sources", "AWSFIS-Run-Network-Packet-Loss-Sources"
LATER = "(the run's)"
"""What a plan cannot know of a move."""
Verdict = Literal["exact", "approximate", "impossible", "not offered yet"]


@dataclass(frozen=True)
class Intent:
    """What FIS can have of one of our kinds. ``how``: the action, and how it differs; or why it cannot be had."""

    verdict: Verdict
    how: str


INTENTS: Mapping[str, Intent] = {
    "node.stop": Intent(
        "approximate",
        "aws:ec2:stop-instances: the whole instance is shut down in order, and its address falls silent, where a "
        "stopped process would refuse connections",
    ),
    "node.kill": Intent(
        "approximate",
        "aws:ssm:send-command with AWSFIS-Run-Kill-Process java SIGKILL: every JVM of the instance dies, and a unit of "
        "systemd that restarts would start it at once, so that nothing is proven",
    ),
    "node.restart": Intent(
        "approximate",
        "aws:ec2:reboot-instances: whole machines, with cold caches, and all of them at once: how: kill, start: "
        "in_order, and rolling over several nodes, cannot be had",
    ),
    "node.pause": Intent("impossible", "no document of AWS sends SIGSTOP; it needs a document of your own"),
    "node.loss": Intent("impossible", "aws:ec2:terminate-instances has no undo of ours or of FIS's"),
    "node.drain": Intent("impossible", "no action drains a machine"),
    "node.isolation": Intent("impossible", "aws:network:disrupt-connectivity cuts off subnets, and no single instance"),
    "node.dns_outage": Intent("impossible", "no action stops DNS for an instance"),
    "node.dns_slowness": Intent("impossible", "no action makes DNS late for an instance"),
    "node.upgrade": Intent("impossible", "no action installs another version"),
    "node.heap_pressure": Intent("impossible", "no action reaches into a JVM"),
    "node.cpu_starvation": Intent(
        "not offered yet",
        "AWSFIS-Run-CPU-Stress competes for processors and caps nobody (approximate at best), and nothing competes so "
        "in a lab, so nothing of it could be tried",
    ),
    "node.page_cache_squeeze": Intent("impossible", "AWSFIS-Run-Memory-Stress takes memory, and sets no limit"),
    "node.out_of_memory": Intent("impossible", "AWSFIS-Run-Memory-Stress lets the kernel choose whom it kills"),
    "cluster_manager.quorum_loss": Intent(
        "approximate", "as node.kill, on the instances of a majority; how: pause cannot be had"
    ),
    "cluster_manager.leader_flap": Intent("impossible", "FIS's actions last a minute at least"),
    "zone.power_loss": Intent(
        "approximate",
        "aws:ec2:stop-instances of all nodes of the zone: the operating systems shut down in order, so what was not "
        "fsynced is not lost",
    ),
    "zone.isolation": Intent(
        "approximate",
        "aws:network:disrupt-connectivity, scope all, on the subnets of the zone's nodes: what is within one subnet "
        "goes on, and clients are cut off only where they are in those subnets too",
    ),
    "zone.partition": Intent(
        "approximate",
        "aws:network:disrupt-connectivity, scope availability-zone: clients in other zones of the VPC are cut off too",
    ),
    "zone.slowness": Intent(
        "approximate",
        "AWSFIS-Run-Network-Latency-Sources on the instances of its nodes and of all others, each by the addresses of "
        "the other side: what clients get is as fast as before",
    ),
    "network.latency": Intent(
        "exact",
        "AWSFIS-Run-Network-Latency-Sources on instances of nodes, by the addresses of their peers; links of clients "
        "cannot be had",
    ),
    "network.drop": Intent(
        "exact",
        "AWSFIS-Run-Network-Packet-Loss-Sources with 100 % on instances of nodes, by the addresses of their peers; "
        "links of clients cannot be had",
    ),
    "network.loss": Intent(
        "exact",
        "AWSFIS-Run-Network-Packet-Loss-Sources on instances of nodes, by the addresses of their peers, in whole "
        "percents; links of clients cannot be had",
    ),
    "network.refuse": Intent("impossible", "FIS drops packets and refuses none"),
    "network.reset": Intent("impossible", "FIS drops packets and resets no connection"),
    "network.hang": Intent("impossible", "FIS drops packets below TCP"),
    "network.slicer": Intent("impossible", "FIS touches no stream"),
    "network.slow_close": Intent("impossible", "FIS touches no stream"),
    "network.bandwidth": Intent("impossible", "no action limits a rate"),
    **{
        f"http.{kind}": Intent("impossible", "FIS touches no HTTP request between clients and nodes")
        for kind in ("delay", "status", "hang", "cut")
    },
    **{
        f"store.{kind}": Intent("impossible", "no action is about what nodes ask of an object store")
        for kind in ("slow", "errors", "throttle", "hang")
    },
    "disk.full": Intent(
        "not offered yet",
        "AWSFIS-Run-Disk-Fill fills the root volume only, and a lab's hosts have none, so nothing of it could be tried",
    ),
    "disk.slow": Intent(
        "not offered yet",
        "aws:ebs:volume-io-latency delays each read and write and limits no rate (approximate), and a lab limits the "
        "rate of a disk's writes alone, so nothing of it could be tried",
    ),
    "disk.stall": Intent(
        "not offered yet",
        "aws:ebs:pause-volume-io stops reads too (approximate), and a lab stops a disk's writes alone, so nothing of "
        "it could be tried",
    ),
    "disk.read_only": Intent("impossible", "no action makes a volume read-only"),
    "disk.errors": Intent("impossible", "a paused volume makes I/O errors only beyond nvme_core.io_timeout"),
    "disk.power_loss": Intent("impossible", "no action loses what was not fsynced"),
}
"""Kind of fault → what FIS can have of it; kinds that the cluster itself is asked for are no faults of FIS's."""


# ---- moves --------------------------------------------------------------------------------------------------


def there(lab: Lab) -> Fis:
    """FIS of the target, if it is one with it."""
    if not isinstance(lab, ExistingTarget) or lab.fis is None:
        raise FaultError("only a cluster that exists, and whose file says so, has AWS FIS")
    return lab.fis


@operation("fis.template", late=signed)
def _template(lab: Lab, host: str, run: str, id: str, template: Mapping[str, Any]) -> None:
    there(lab).make_template(run, id, template)


@operation("fis.template.drop")
def _drop(lab: Lab, host: str, run: str, id: str, made: str | None = None) -> None:
    """Also what a start whose answer was lost began meanwhile is ended: without its template none comes after.

    ``made``: the digest of the template's content; ledgers of before have none.
    """
    fis = there(lab)
    try:
        fis.drop_template(run, id, made)
    finally:
        fis.end(run, id, {}, within=DROPPED_SECONDS)


@operation("fis.start", late=signed)
def _start(lab: Lab, host: str, run: str, id: str, expected: Mapping[str, Sequence[str]]) -> None:
    there(lab).start(run, id, expected)


@operation("fis.end")
def _end(lab: Lab, host: str, run: str, id: str, snapshot: Mapping[str, Any]) -> None:
    there(lab).end(run, id, snapshot)


@dataclass(frozen=True)
class Drafted:
    """A template's targets and actions, with what must be there again when it is over."""

    template: dict[str, Any]
    expected: dict[str, list[str]]
    snapshot: dict[str, Any]


Draft = Callable[[FisFile, Fis, ExistingTarget], Drafted]


def means(aim: Aim, draft: Draft, evidence: Evidence | None, *, patience: float = 0.0) -> Means:
    """One experiment. Whom it hits is found when it is about to be written down; a plan knows the nodes alone.

    ``evidence`` None: the kind's own. ``patience``: seconds that its effect and its end are waited for at the least.
    """
    host = f"AWS FIS, {aim.id}"

    def both(run: str, drafted: Drafted) -> tuple[Reversible, ...]:
        what = {"host": host, "run": run, "id": aim.id}
        made = {"made": digest(drafted.template)} if drafted.template else {}
        return (
            Reversible(
                Move("fis.template", {**what, "template": drafted.template}),
                Move("fis.template.drop", {**what, **made}),
            ),
            Reversible(
                Move("fis.start", {**what, "expected": drafted.expected}),
                Move("fis.end", {**what, "snapshot": drafted.snapshot}),
            ),
        )

    def read(lab: Lab) -> tuple[Reversible, ...]:
        fis = there(lab)
        assert isinstance(lab, ExistingTarget)
        return both(lab.run, draft(fis.file, fis, lab))

    return Means(
        both(LATER, Drafted({}, {"nodes": list(aim.nodes)}, {})),
        in_order=True,
        read=read,
        evidence=lambda own: Running(own if evidence is None else evidence, aim.id, patience),
    )


def asking(lab: ExistingTarget) -> Ask:
    """GETs of whichever node answers."""
    return lambda path: administer(lab, "GET", path)


def chunks(name: str, kind: str, arns: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Targets of a template for these resources, as many as they need."""
    every = sorted(arns)
    return {
        f"{name}-{number}": {"resourceType": kind, "resourceArns": every[at : at + MOST_ARNS], "selectionMode": "ALL"}
        for number, at in enumerate(range(0, len(every), MOST_ARNS))
    }


def drafted(targets: dict[str, Any], actions: dict[str, Any], snapshot: dict[str, Any]) -> Drafted:
    """``snapshot``: with whom it should hit (``asked``), so that another process knows who is foreign."""
    expected = {name: list(target["resourceArns"]) for name, target in targets.items()}
    asked = sorted(arn for arns in expected.values() for arn in arns)
    return Drafted({"targets": targets, "actions": actions}, expected, {**snapshot, "asked": asked})


def stop_instances(nodes: Sequence[str]) -> Draft:
    """Shut down in order; started again by FIS after ``longest``, or when the experiment is stopped."""

    def make(file: FisFile, fis: Fis, lab: ExistingTarget) -> Drafted:
        found = running(fis, lab, nodes)
        targets = chunks("nodes", "aws:ec2:instance", (each.arn for each in found.values()))
        actions = {
            f"stop-{name}": {
                "actionId": "aws:ec2:stop-instances",
                "parameters": {"startInstancesAfterDuration": iso(round(file.longest))},
                "targets": {"Instances": name},
            }
            for name in targets
        }
        return drafted(targets, actions, {"instances": {each.id: each.state for each in found.values()}})

    return make


def kill_process(nodes: Sequence[str], signal: str) -> Draft:
    """A signal to every JVM of these instances, once; the service is started by FIS after ``longest``."""

    def make(file: FisFile, fis: Fis, lab: ExistingTarget) -> Drafted:
        found = running(fis, lab, nodes)
        targets = chunks("nodes", "aws:ec2:instance", (each.arn for each in found.values()))

        def command(document: str, parameters: Mapping[str, Any], target: str) -> dict[str, Any]:
            return send(file, document, parameters, target, COMMAND_SECONDS)

        killing = {"ProcessName": "java", "Signal": signal}
        actions = {f"kill-{name}": command("AWSFIS-Run-Kill-Process", killing, name) for name in targets}
        starting = {"commands": [f"systemctl start {file.unit}"]}
        actions["wait"] = waiting(file, sorted(actions))
        actions |= {f"start-{name}": {**command(SHELL, starting, name), "startAfter": ["wait"]} for name in targets}
        services = sorted(each.id for each in found.values())
        states = {each.id: each.state for each in found.values()}
        return drafted(targets, actions, {"services": services, "instances": states})

    return make


def reboot(nodes: Sequence[str]) -> Draft:
    """Rebooted in order, all at once. The experiment goes on for ``longest``, so that it says what became of it until
    it is stopped."""

    def make(file: FisFile, fis: Fis, lab: ExistingTarget) -> Drafted:
        found = running(fis, lab, nodes)
        targets = chunks("nodes", "aws:ec2:instance", (each.arn for each in found.values()))
        actions: dict[str, Any] = {
            f"reboot-{name}": {
                "actionId": "aws:ec2:reboot-instances",
                "parameters": {},
                "targets": {"Instances": name},
            }
            for name in targets
        }
        actions["wait"] = waiting(file, sorted(actions))
        services = sorted(each.id for each in found.values())
        return drafted(targets, actions, {"services": services, "instances": dict.fromkeys(services, "running")})

    return make


def waiting(file: FisFile, after: list[str]) -> dict[str, Any]:
    """The action that lasts ``longest`` once these are over; less where an experiment could not last so long with all
    its actions (Quotas for AWS FIS: 12 h)."""
    lasting = min(round(file.longest), round(LONGEST) - 2 * COMMAND_SECONDS)
    return {"actionId": "aws:fis:wait", "parameters": {"duration": iso(lasting)}, "startAfter": after}


def send(file: FisFile, document: str, parameters: Mapping[str, Any], target: str, seconds: int) -> dict[str, Any]:
    """The action that has a document of AWS's run on the instances of a target. ``seconds``: its own duration."""
    return {
        "actionId": "aws:ssm:send-command",
        "parameters": {
            "documentArn": f"arn:{file.partition}:ssm:{file.region}::document/{document}",
            "documentParameters": document_parameters(parameters),
            "duration": iso(seconds),
        },
        "targets": {"Instances": target},
    }


def ends(links: Collection[Link]) -> tuple[str, dict[tuple[str, ...], list[str]]]:
    """At which end each link is hit: the direction of its packets there, and peers → the nodes that have exactly these.

    An instance has one network document at a time, which is of one direction. So it is the same one everywhere: the
    one that needs fewer instances.
    """
    found: dict[str, dict[str, set[str]]] = {"egress": {}, "ingress": {}}
    for a, b in links:
        found["egress"].setdefault(a, set()).add(b)
        found["ingress"].setdefault(b, set()).add(a)
    traffic = min(found, key=lambda each: len(found[each]))
    groups: dict[tuple[str, ...], list[str]] = {}
    for node, peers in sorted(found[traffic].items()):
        groups.setdefault(tuple(sorted(peers)), []).append(node)
    return traffic, groups


def impair(links: Collection[Link], document: str, **parameters: str) -> Draft:
    """A network document with ``Sources`` on instances of nodes, which the packets of exactly these links meet.

    It ends after ``longest`` by itself. The action lasts longer than it, so that FIS cancels it where it is stopped.
    """

    def make(file: FisFile, fis: Fis, lab: ExistingTarget) -> Drafted:
        found = running(fis, lab, sorted({node for link in links for node in link}))
        traffic, groups = ends(links)
        ids = [found[node].id for nodes in groups.values() for node in nodes]
        if deaf := sorted(set(ids) - fis.agents(ids)):
            raise FaultError(f"the agent of Systems Manager is not online on {', '.join(deaf)}")
        if begun := fis.begun(ids, NETWORK):
            raise FaultError(f"no two network documents of FIS's may run on an instance: {', '.join(begun)} does")
        lasting = min(round(file.longest), round(LONGEST) - MARGIN)
        targets: dict[str, Any] = {}
        actions: dict[str, Any] = {}
        commands = []
        for number, (peers, nodes) in enumerate(groups.items()):
            if silent := [peer for peer in peers if not found[peer].addresses]:
                raise FaultError(f"EC2 does not say which private addresses {listed(silent)} have")
            sources = ",".join(dict.fromkeys(address for peer in peers for address in found[peer].addresses))
            given = {"DurationSeconds": str(lasting), "Sources": sources, "TrafficType": traffic, "FlowsPercent": "100"}
            given |= parameters
            mine = chunks(f"nodes-{number}", "aws:ec2:instance", (found[node].arn for node in nodes))
            targets |= mine
            actions |= {f"impair-{name}": send(file, document, given, name, lasting + MARGIN) for name in mine}
            instances = [found[node].id for node in nodes]
            commands.append({"document": document, "parameters": given, "instances": instances})
        if len(actions) > MOST_AT_ONCE:
            raise FaultError(
                f"it takes {len(actions)} actions at once, and FIS runs {MOST_AT_ONCE}",
                remedy="choose links of fewer nodes",
            )
        return drafted(targets, actions, {"commands": commands})

    return make


def disrupt(zone_nodes: Sequence[str], scope: str) -> Draft:
    """Packets into and out of the subnets of a zone's nodes vanish."""

    def make(file: FisFile, fis: Fis, lab: ExistingTarget) -> Drafted:
        every = [node.name for node in lab.topology.nodes]
        subnets = fis.subnets(asking(lab), zone_nodes, every)
        targets = chunks("subnets", "aws:ec2:subnet", subnets.values())
        actions = {
            f"disrupt-{name}": {
                "actionId": "aws:network:disrupt-connectivity",
                "parameters": {"scope": scope, "duration": iso(round(file.longest))},
                "targets": {"Subnets": name},
            }
            for name in targets
        }
        return drafted(targets, actions, fis.before(subnets))

    return make


def running(fis: Fis, lab: ExistingTarget, nodes: Sequence[str]) -> dict[str, Any]:
    """The instances of these nodes, each of which runs. Raises FaultError."""
    found = fis.instances(asking(lab), nodes)
    if idle := [f"{each.id} of {each.node} is {each.state}" for each in found.values() if each.state != "running"]:
        raise FaultError(f"{listed(idle)}: expected running")
    return found


# ---- what is offered ----------------------------------------------------------------------------------------

DEAD = "none of them answers, and the others have none as a member, while FIS says that its experiment runs; later "
DEAD += "they answer and are members"
CUT = "the others get no answer from them and have none as a member, while FIS says that its experiment runs; later "
CUT += "they answer and are members"
STARTED = "the experiment is stopped; instances that FIS leaves stopped are started"


def offered(kind: str, undoing: str, proof: str) -> dict[str, Any]:
    intent = INTENTS[kind]
    differs = intent.how if intent.verdict == "approximate" else ""
    said = {"mechanism": f"{intent.verdict}: {intent.how}", "undoing": undoing, "proof": proof}
    return {**said, "differs": differs, "needs": NEEDS}


def refuse_flap(fault: Kind) -> None:
    """Raises Lacking where it is to come and go."""
    if fault.flapping is not None:
        raise Lacking("FIS's actions last a minute at least, so nothing flaps by them", remedy="leave flap out")


@PROVIDER.carries_out(NodeStop, **offered("node.stop", STARTED, DEAD))
def stop(fault: NodeStop, aim: Aim) -> Means:
    return means(aim, stop_instances(aim.nodes), NodeEffects(aim.nodes))


@PROVIDER.carries_out(ZonePowerLoss, **offered("zone.power_loss", STARTED, DEAD))
def power_loss(fault: ZonePowerLoss, aim: Aim) -> Means:
    if fault.return_order is not None or fault.return_gap:
        raise Lacking("FIS starts all instances at once", remedy="leave return_order and return_gap out")
    return means(aim, stop_instances(aim.nodes), NodeEffects(aim.nodes))


SERVICE = "the experiment is stopped, and Systems Manager starts the unit of OpenSearch on the instances"


@PROVIDER.carries_out(NodeKill, **offered("node.kill", SERVICE, DEAD))
def kill(fault: NodeKill, aim: Aim) -> Means:
    refuse_flap(fault)
    return means(aim, kill_process(aim.nodes, "SIGKILL"), NodeEffects(aim.nodes))


@PROVIDER.carries_out(QuorumLoss, **offered("cluster_manager.quorum_loss", SERVICE, DEAD))
def quorum_loss(fault: QuorumLoss, aim: Aim) -> Means:
    if fault.how == "pause":
        raise Lacking(INTENTS["node.pause"].how, remedy="how: kill")
    return means(aim, kill_process(aim.nodes, "SIGKILL"), NodeEffects(aim.nodes))


BOOTED = "the experiment is stopped; Systems Manager starts the unit of OpenSearch on the instances, should it not run"
ANOTHER = "each node says another start of its process, the others have it as a member under another ephemeral id, and "
ANOTHER += "it sees a whole and green cluster, while FIS says that its experiment runs"


@PROVIDER.carries_out(NodeRestart, **offered("node.restart", BOOTED, ANOTHER))
def restart(fault: NodeRestart, aim: Aim) -> Means:
    if fault.how == "kill":
        raise Lacking("EC2 asks operating systems to reboot in order", remedy="how: orderly")
    if fault.start == "in_order":
        raise Lacking("FIS reboots instances at once, and each starts when it has ended", remedy="leave start out")
    if fault.rolling and len(aim.nodes) > 1:
        raise Lacking(
            "FIS reboots instances at once, and waits for none until the next one",
            remedy="rolling: false, or one node at a time",
        )
    return means(aim, reboot(aim.nodes), Restarted(aim.nodes, within=float(fault.within)))


def cut(fault: ZoneIsolation, aim: Aim, scope: str) -> Means:
    refuse_flap(fault)
    inside = [node.name for node in aim.scene.topology.nodes if node.zone == fault.zone]
    return replace(means(aim, disrupt(inside, scope), CutOff(inside)), silences=tuple(inside))


RESTORED = "the experiment is stopped; subnets that FIS leaves with its network ACL get their own again"


@PROVIDER.carries_out(ZoneIsolation, **offered("zone.isolation", RESTORED, CUT))
def isolation(fault: ZoneIsolation, aim: Aim) -> Means:
    return cut(fault, aim, "all")


@PROVIDER.carries_out(ZonePartition, **offered("zone.partition", RESTORED, CUT))
def partition(fault: ZonePartition, aim: Aim) -> Means:
    return cut(fault, aim, "availability-zone")


# ---- links ------------------------------------------------------------------------------------------------

CANCELLED = "the experiment is stopped; commands of Systems Manager that outlive it are cancelled, and waited for"
LATE = "what nodes get from each other over these links takes as much longer as asked, and over others it does not, "
LATE += "while FIS says that its experiment runs; later it takes what it took before"


def between_nodes(aim: Aim) -> frozenset[Link]:
    """Its links of which both ends are nodes."""
    return frozenset(link for link in aim.links if all(aim.wiring[end].kind == "node" for end in link))


def on_links(fault: OnLinks, aim: Aim, document: str, **parameters: str) -> Means:
    """A network document for exactly these links. Raises Lacking where a client is at one of them: it is no instance
    that FIS knows, and nothing would show what it meets."""
    refuse_flap(fault)
    hosts = {aim.wiring[end] for link in aim.links for end in link}
    if clients := sorted(host.zone for host in hosts if host.kind == "client"):
        raise Lacking(
            f"FIS's documents run on the instances of nodes, and nothing would show what clients of zone "
            f"{listed(clients)} meet",
            remedy="choose links between nodes, for example to zone c",
        )
    return impaired(aim, aim.links, document, parameters)


def impaired(aim: Aim, links: frozenset[Link], document: str, parameters: Mapping[str, str]) -> Means:
    """``links``: of the aim's those that are hit. It holds the instances on which its document runs: two faults of a
    run never have one there at once."""
    made = means(aim, impair(links, document, **parameters), None, patience=DOCUMENT_SECONDS)
    held = frozenset(f"the network document of {node}" for nodes in ends(links)[1].values() for node in nodes)
    return replace(made, links=links, claims=held)


def delays(delay: Duration, jitter: Duration) -> dict[str, str]:
    """Parameters of a delay, in whole milliseconds. AWS takes 10 ms of jitter where none are given."""
    return {"DelayMilliseconds": f"{delay * 1000:.0f}", "JitterMilliseconds": f"{jitter * 1000:.0f}"}


@PROVIDER.carries_out(NetworkLatency, **offered("network.latency", CANCELLED, LATE))
def latency(fault: NetworkLatency, aim: Aim) -> Means:
    return on_links(fault, aim, DELAYS, **delays(fault.delay, fault.jitter))


@PROVIDER.carries_out(ZoneSlowness, **offered("zone.slowness", CANCELLED, LATE))
def slowness(fault: ZoneSlowness, aim: Aim) -> Means:
    refuse_flap(fault)
    return impaired(aim, between_nodes(aim), DELAYS, delays(fault.delay, fault.jitter))


SILENT = "nodes that are asked for each other over these links get no answer, and over others they do, while FIS says "
SILENT += "that its experiment runs; later they get it as before"
OFTEN_LATE = "what nodes get from each other over these links is late as often as this loss makes it, and over others "
OFTEN_LATE += "hardly ever, while FIS says that its experiment runs; later it is late no more"


@PROVIDER.carries_out(NetworkDrop, **offered("network.drop", CANCELLED, SILENT))
def drop(fault: NetworkDrop, aim: Aim) -> Means:
    return on_links(fault, aim, LOSES, LossPercent="100")


@PROVIDER.carries_out(NetworkLoss, **offered("network.loss", CANCELLED, OFTEN_LATE))
def loss(fault: NetworkLoss, aim: Aim) -> Means:
    percent = round(fault.share * 100)
    if abs(fault.share * 100 - percent) > 1e-6:
        raise Lacking(f"FIS loses whole percents, and not {fault.share.text}", remedy=f"share: {percent}%")
    return on_links(fault, aim, LOSES, LossPercent=str(percent))


# ---- what is believed ---------------------------------------------------------------------------------------


class Running(Corroborated):
    """The evidence ``own``, and beside it what FIS says of the experiment.

    An experiment that is over, or an action that failed or was skipped, is no fault of ours, whatever is seen.
    """

    what, expected = "reported by FIS: the experiment", "running"

    def __init__(self, own: Evidence, fault: str, patience: float = 0.0) -> None:
        super().__init__(own, patience=patience)
        self._fault = fault

    def word(self, lab: Lab, *, over: bool) -> tuple[str, bool]:
        assert isinstance(lab, ExistingTarget)
        word = there(lab).word(lab.run, self._fault)
        return word.says, word.over if over else word.running
