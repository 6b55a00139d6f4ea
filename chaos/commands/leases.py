"""What ``opensearch-chaos lab`` does: labs that stay after the command that started them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import urllib3

from chaos.base.access import Access
from chaos.base.console import Reporter
from chaos.base.errors import InvalidInput, LabError
from chaos.base.netsock import Endpoint
from chaos.base.paths import ProcessIdentity, write_json
from chaos.definitions import Topology
from chaos.faults.ledger import registrations
from chaos.opensearch.rest import NodeClient
from chaos.targets.labs import base, kinds, sweep
from chaos.targets.labs.base import BaseLab
from chaos.targets.labs.processes import wait_until
from chaos.targets.parts import Parts

GATEWAY_SECONDS = 20.0


@dataclass(frozen=True)
class Shown:
    """A lab as ``lab status`` shows it. ``nodes``: name, zone, roles, process, address."""

    id: str
    state: str
    url: str | None
    nodes: list[tuple[str, str, str, str, str]]
    login: str | None = None
    """With what its URL is used, in words and references; None: with nothing."""


def listen(port: int | None) -> socket.socket:
    """A listening socket on loopback. Raises InvalidInput when the port is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port or 0))
    except OSError as error:
        listener.close()
        raise InvalidInput(
            f"port {port} of 127.0.0.1 cannot be used: {error.strerror}", remedy="choose another with --port"
        ) from None
    listener.listen(64)
    return listener


def refuse(id: str, port: int | None, kind: str) -> None:
    """Raises InvalidInput for what :func:`up` would refuse; asked before parts are fetched for it."""
    base.refuse_name(id)
    if port is not None and not kinds.of_kind(kind).gateway:
        raise InvalidInput(f"the ports of a {kind} lab are chosen by its engine", remedy="leave --port out")
    if port is not None:
        listen(port).close()


def up(
    topology: Topology, parts: Parts, *, id: str, port: int | None, reporter: Reporter, kind: str = kinds.DEFAULT
) -> Shown:
    """Start a lab and its loopback port. On any failure, or a signal, nothing is left."""
    from chaos.observe import disks
    from chaos.run.leftovers import refuse_leftovers
    from chaos.run.stopping import Stop, signals

    refuse_leftovers()
    refuse(id, port, kind)
    lab_kind = kinds.of_kind(kind)
    listener = listen(port) if lab_kind.gateway else None
    stop = Stop()
    try:
        lab = lab_kind.create(topology, parts, id=id, lease=True)
        with signals(stop, reporter):
            try:
                with disks.named(lab):
                    lab.up(reporter.line, stop.check)
                front = _front(lab, listener)
                url = f"{lab.access.scheme}://{front.host}:{front.port}"
                if not wait_until(lambda: _answers(lab, front), GATEWAY_SECONDS):
                    raise LabError(f"the lab's port {url} does not answer: see {lab.folder / 'logs' / 'gateway.log'}")
                write_json(lab.folder / "gateway.json", {"url": url})
                stop.check()
                (lab.folder / "leased").touch()  # from here on it may outlive us
            except BaseException as error:
                reporter.status("taking the lab away again")
                problems = lab.down()
                if problems:
                    raise LabError("; ".join(problems), remedy="run: opensearch-chaos recover") from error
                raise
    finally:
        if listener is not None:
            listener.close()
    return Shown(lab.id, "green", url, [], _login(lab.access))


def _front(lab: BaseLab, listener: socket.socket | None) -> Endpoint:
    """Where the user reaches the lab: a gateway's port, or what a node publishes itself."""
    if listener is None:
        return lab.administration(lab.topology.data_nodes[0].name)
    _start_gateway(lab, listener)
    return Endpoint("127.0.0.1", listener.getsockname()[1])


def _answers(lab: BaseLab, front: Endpoint) -> bool:
    first = lab.topology.data_nodes[0].name
    client = NodeClient(front, access=lab.access_to(first), timeout=2.0)
    try:
        return client.request("GET", "/")[0] == 200
    except urllib3.exceptions.HTTPError:
        return False
    finally:
        client.close()


def _login(access: Access) -> str | None:
    return f"user {access.user}, password {access.password}, CA {access.ca}" if access.tls else None


def _start_gateway(lab: BaseLab, listener: socket.socket) -> None:
    with open(lab.folder / "logs" / "gateway.log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "chaos.targets.labs.gateway", lab.id, str(listener.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=[listener.fileno()],
            start_new_session=True,
            cwd="/",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)},
        )
    write_json(lab.folder / "run" / "gateway.json", ProcessIdentity.of(process.pid).to_json())


def _ids(name: str | None) -> list[str]:
    known = [record.id for record in sweep.known()]
    if name is not None:
        if name not in known:
            raise InvalidInput(f"there is no lab named '{name}' (labs here: {', '.join(known) or 'none'})")
        return [name]
    return known


def status(name: str | None) -> list[Shown]:
    """All labs, or one. Asks the kernel and the cluster."""
    from chaos.opensearch.views import newest, views

    shown = []
    for id in _ids(name):
        try:
            lab = kinds.attach(id)
        except InvalidInput:
            shown.append(Shown(id, "a leftover without a manifest (run: opensearch-chaos recover)", None, []))
            continue
        record = next((r for r in sweep.known() if r.id == id), None)
        if record is None:
            continue  # it went away while we looked
        if record.orphaned:
            state = "a leftover of a dead run (run: opensearch-chaos recover)"
        else:
            seen = newest(views(lab, 2.0))
            state = f"{seen.status}, led by {seen.leader}" if seen else "no node sees a cluster manager"
        rows = [
            (
                node.name,
                node.zone,
                ",".join(node.roles),
                _process(lab, node.name),
                f"{lab.wiring[node.name].loopback}:9200",
            )
            for node in lab.topology.nodes
        ]
        shown.append(Shown(id, state, _url(lab.folder), rows, _login(lab.access)))
    return shown


def _process(lab: BaseLab, node: str) -> str:
    state = lab.process_state(node)
    identity = lab.identity(node)
    if state is None or identity is None:
        return "gone"
    return f"stopped ({identity.pid})" if state in ("T", "t") else f"runs ({identity.pid})"


def _url(folder: Path) -> str | None:
    try:
        return str(json.loads((folder / "gateway.json").read_text())["url"])
    except (OSError, ValueError, KeyError):
        return None


def execute(name: str, host: str, command: Sequence[str]) -> int:
    """Run a command in one of the lab's hosts; its exit code."""
    lab = kinds.attach(name)
    hosts = {each.name: each for each in lab.wiring.hosts}
    if host not in hosts:
        raise InvalidInput(f"lab '{name}' has no host '{host}'", remedy=f"choose one of: {', '.join(hosts)}")
    return lab.execute(host, command)


def down(name: str | None) -> tuple[str, Path, list[str]]:
    """Take a lab away: its id, where its logs are now, and what would not go. Refused while a run is under way."""
    from chaos.run import commanding

    ids = _ids(name)
    if not ids:
        raise InvalidInput("there is no lab to take down")
    if len(ids) > 1:
        raise InvalidInput(f"which lab? there are {', '.join(ids)}")
    record = next((r for r in sweep.known() if r.id == ids[0]), None)
    owned = record is not None and record.owner_alive and not record.lease
    if owned or any(each.lab == ids[0] and each.owner.alive() for each in registrations()):
        raise InvalidInput(f"lab '{ids[0]}' belongs to a run that is under way")
    problems = sweep.destroy(ids[0])
    for each in registrations():  # of dead runs: what they did to the lab has gone with it
        if each.lab == ids[0] and not each.owner.alive() and not problems:
            problems += commanding.end_commands(each.ledger, lambda says: None)
            if not problems:
                each.remove()
    return ids[0], sweep.logs() / ids[0], problems
