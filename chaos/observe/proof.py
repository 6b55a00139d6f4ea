"""Proof that a lab is as its topology says: what a lab must show before another run may use it."""

from __future__ import annotations

import urllib3

from chaos.base.errors import ChaosError
from chaos.opensearch import administration, rollover
from chaos.opensearch.views import administer, await_green, lacking
from chaos.targets.labs.base import BaseLab

GREEN_SECONDS = 20.0


def marks(lab: BaseLab) -> list[str]:
    """What faults leave on a lab's links and processes, asked of the kernel and of every Toxiproxy; empty: nothing.

    A node that is gone is none: it may have died of itself.
    """
    found = []
    for node in lab.topology.nodes:
        if lab.process_state(node.name) in ("T", "t"):
            found.append(f"node {node.name} is stopped")
        if limits := lab.limited(node.name):
            found.append(f"node {node.name} is limited: {', '.join(f'{k} {v}' for k, v in limits.items())}")
    for host in lab.wiring.hosts:
        try:
            for name, proxy in lab.toxiproxy(host.name).proxies().items():
                if not proxy["enabled"] or proxy["toxics"]:
                    found.append(f"proxy {name} of {host.name} is {'toxic' if proxy['toxics'] else 'off'}")
            for peer in lab.wiring.hosts:
                if peer != host and not lab.reaches_neighbour(host.name, peer.name):
                    found.append(f"packets {host.name} → {peer.name} go nowhere")
        except ChaosError as error:
            found.append(str(error))
    try:
        found += lab.disks.problems()
    except ChaosError as error:
        found.append(str(error))
    return found


def index_there(lab: BaseLab, index: str) -> list[str]:
    """Says so when a run's own index is still there; a cluster that does not answer cannot be asked."""
    try:
        status, _ = administer(
            lab, "GET", f"/{index}/_settings?local=true&filter_path=*.settings.index.uuid", timeout=5
        )
    except ChaosError:
        return []
    return [f"index {index} is still there"] if status == 200 else []


def name_there(lab: BaseLab, name: str) -> list[str]:
    """The same of a name with several indices, and of its template."""
    try:
        return rollover.left(lab, name)
    except ChaosError:
        return []


def upgraded(lab: BaseLab) -> list[str]:
    """Nodes that run another version than the topology says: no problem of the lab, but it is another one now."""
    made = {node.name: node.version or lab.topology.version for node in lab.topology.nodes}
    return [
        f"node {name} was upgraded from {version} to {runs}"
        for name, version in made.items()
        if (runs := lab.version(name)) != version
    ]


def kept_out(lab: BaseLab) -> list[str]:
    """Says of which nodes of a secured lab we are not let in, or should not go in; who does not answer refuses nobody.

    Raises InvalidInput when our own credentials cannot be read.
    """
    found = []
    for node in lab.topology.nodes if lab.topology.security else ():
        client = lab.client(node.name, timeout=2.0)
        try:
            status, _ = client.request("GET", "/")
        except urllib3.exceptions.SSLError as error:
            found.append(f"node {node.name} is not to be trusted by {lab.access.ca}: {error}")
        except urllib3.exceptions.HTTPError:
            continue
        else:
            if status in (401, 403):
                found.append(f"node {node.name} does not let {lab.access.user} in: HTTP {status}")
        finally:
            client.close()
    return found


def services_gone(lab: BaseLab) -> list[str]:
    """Services whose process is gone, and what they kept with it; and layers for HTTP."""
    wanted = [("service", name) for name in lab.topology.service_hosts]
    wanted += [("http", name) for name in lab.topology.http_hosts]
    there = {(each.what, each.name) for each in (lab.residents() if wanted else ()) if lab.lives(each)}
    words = {"service": "service {} is gone", "http": "the HTTP layer of {} is gone"}
    gone = [words[what].format(name) for what, name in wanted if (what, name) not in there]
    held = [(name, rule) for name in lab.topology.http_hosts for rule in lab.http_layer(name).rules()]
    return gone + [f"the HTTP layer of {name} still has the rule {rule['id']}" for name, rule in held]


def services_ended(lab: BaseLab) -> list[str]:
    """The names of services whose process was started and has ended."""
    there = lab.residents() if lab.topology.service_hosts else []
    return [each.name for each in there if each.what == "service" and not lab.lives(each)]


def problems(lab: BaseLab) -> list[str]:
    """Everything that is not as it was when the lab had just come up; empty: clean and green."""
    dead = [node.name for node in lab.topology.nodes if lab.process_state(node.name) is None]
    found = [f"node {name} is gone" for name in dead] + services_gone(lab) + marks(lab)
    if found:
        return found
    try:
        if found := kept_out(lab):
            return found
        green, _ = await_green(lab, GREEN_SECONDS)
        if not green:
            return [f"the cluster is not green: {lacking(lab)}"]
        if lab.topology.zone_aware:
            weights, _ = administration.weights(lab)
            if weights != lab.topology.weights:
                found.append(f"the zones' weights are {weights}, not {lab.topology.weights}")
        if lab.topology.awareness() and (gone := administration.decommission_status(lab)):
            found.append(f"decommissioned: {gone}")
        wanted = {key: administration.as_text(value) for key, value in lab.topology.settings.cluster.items()}
        have = administration.cluster_settings(lab)
        if have["persistent"] != wanted:
            found.append(f"the cluster's settings are {have['persistent']}, not {wanted}")
        if have["transient"]:
            found.append(f"the cluster has transient settings: {have['transient']}")
    except ChaosError as error:
        found.append(str(error))
    return found
