"""A box from nothing to a file, and away again.

It is a lab in a state folder of its own, so that the suite under test knows nothing of it. All else that the box has
(load balancers, traffic, relays, offices) lives in namespaces that carry the lab's name, so whoever takes the lab away
takes it all, whatever died when.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import urllib3

from box import hosts, impostor, machine, office, plan
from box.machine import Key
from chaos.base import paths
from chaos.base.access import Access
from chaos.base.console import Reporter
from chaos.base.errors import InvalidInput, LabError, MissingPrerequisite
from chaos.base.netsock import Endpoint, Namespace, create_namespace
from chaos.base.paths import ProcessIdentity, write_json
from chaos.definitions import load_topology
from chaos.definitions.existing import load_existing, today
from chaos.opensearch.administration import create_index
from chaos.opensearch.rest import NodeClient
from chaos.opensearch.views import administer, await_green
from chaos.provision.unprivileged import NODE_UID, obstacle
from chaos.run import space
from chaos.run.stopping import Stop, signals
from chaos.targets import security
from chaos.targets.existing import rights
from chaos.targets.labs import kinds, network, sweep
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until
from chaos.targets.wiring import HTTP, NETNS_FOLDER

TOPOLOGY = Path(__file__).with_name("topology.yaml")
PROGRAM = Path(__file__).parent
READY_SECONDS = 30.0
BALANCER = "haproxy"
INSTALL = "install it, on Debian: apt-get install --no-install-recommends haproxy"


class Box:
    """One box, by its name. Whoever works on its cluster has its state folder for his own: :meth:`mine`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = Path("/var/lib") / f"{paths.APP}-{name}"
        self.file = self.home(plan.OFFICES[0]) / "topologies" / "existing" / "staging.yaml"

    def mine(self) -> None:
        """From here on this process knows the box's lab, and no others."""
        os.environ[paths.STATE_VARIABLE] = str(self.folder / "state")

    def home(self, number: int) -> Path:
        """The folder of an office."""
        return self.folder / f"office-{number}"

    def space(self, number: int) -> Namespace:
        """An office's namespace. Raises InvalidInput where there is no such office."""
        there = Namespace(plan.office_path(self.name, number))
        if not there.path.exists():
            raise InvalidInput(f"box '{self.name}' has no office {number}", remedy="bring it up: make staging")
        return there

    @property
    def traffic(self) -> Path:
        """The folder of what the foreign traffic logged."""
        return self.folder / "traffic"

    def lab(self) -> LocalLab:
        """Its cluster. Raises InvalidInput where there is none."""
        if not (self.folder / "box.json").exists():
            raise InvalidInput(f"there is no box '{self.name}'", remedy="bring it up: make staging")
        lab = LocalLab.attach(self.name)
        for node in lab.topology.nodes:
            hosts.note_pid(lab, node.name)
        return lab

    def sshd(self, host: str) -> ProcessIdentity:
        """Of a host. Raises InvalidInput where there is no such host, or it has died."""
        there = [each.name for each in self.lab().wiring.hosts]
        if host not in there:
            raise InvalidInput(f"there is no host {host}", remedy=", ".join(there))
        noted = json.loads((self.folder / "box.json").read_text())["processes"]
        found = ProcessIdentity.from_json(noted[hosts.process(host)])
        if not found.alive():
            raise InvalidInput(f"the sshd of {host} has died", remedy="bring the box up again: make staging")
        return found

    @property
    def swapped(self) -> Path:
        """The log of what was asked of clusters that stood in a node's place."""
        return self.folder / "swapped.jsonl"

    def lock(self) -> Path:
        """Held while it comes up or goes. It stays until the machine is started anew: somebody may wait for it."""
        return Path("/run") / f"{paths.APP}-{self.name}.lock"

    # ---- is it there ---------------------------------------------------------------------------------

    def is_up(self) -> bool:
        """Whether all of its processes live. Its cluster may be anything but green: somebody may be trying things."""
        try:
            noted = json.loads((self.folder / "box.json").read_text())["processes"]
            lab = LocalLab.attach(self.name)
            processes = [ProcessIdentity.from_json(each) for each in noted.values()]
            processes += [each.identity for each in lab.residents()]
        except (OSError, ValueError, KeyError, InvalidInput):
            return False
        return all(each.alive() for each in processes)

    def is_left(self) -> bool:
        """Whether anything of it is here."""
        named = network.namespaces(f"{paths.PREFIX}{self.name}-")
        return self.folder.exists() or bool(named) or bool(hosts.groups_left(self.name))

    def working(self) -> list[int]:
        """The processes in its offices: somebody's runs, and their keepers."""
        return sorted(network.processes_in([plan.office_namespace(self.name, number) for number in plan.OFFICES]))

    # ---- up and away ---------------------------------------------------------------------------------

    def up(
        self,
        reporter: Reporter,
        *,
        topology: Path = TOPOLOGY,
        searches: float = 20.0,
        writes: float = 10.0,
        systemd: Collection[str] = (),
    ) -> bool:
        """Bring it up; False where it was there. On any failure, or a signal, nothing is left.

        ``systemd``: nodes that are units of a systemd in their hosts.
        """
        refuse_unready(self.folder)
        spec = load_topology(topology)
        if not spec.security:
            raise InvalidInput(f"{topology} has no security", remedy="give it: security: true")
        for name in systemd:
            if name not in {node.name for node in spec.nodes}:
                there = ", ".join(node.name for node in spec.nodes)
                raise InvalidInput(f"there is no node {name}", remedy=f"--systemd takes one of {there}")
        if systemd:
            hosts.groups_of_systemd()
        with paths.locked(self.lock()):
            if self.is_up():
                return False
            if working := self.working():
                raise InvalidInput(
                    f"something of box '{self.name}' has died, and processes {', '.join(map(str, working))} are in its "
                    "offices",
                    remedy="end them, or take it away with them: make staging-down",
                )
            if self.is_left():
                reporter.line("taking away what is left of an earlier one")
                _raise_if(self._away())
            space.refuse_scarce([space.in_state(f"box '{self.name}'", space.of_topology(spec))])
            parts = kinds.parts(kinds.DEFAULT, spec, reporter.line)
            stop = Stop()
            with signals(stop, reporter):
                try:
                    lab = LocalLab.create(spec, parts, id=self.name, lease=True)
                    self._up(lab, reporter, stop, searches, writes, systemd)
                except BaseException:
                    reporter.status("taking the box away again")
                    _raise_if(self._away())
                    raise
        return True

    def _up(
        self,
        lab: LocalLab,
        reporter: Reporter,
        stop: Stop,
        searches: float,
        writes: float,
        systemd: Collection[str],
    ) -> None:
        lab.up(reporter.line, stop.check)
        ways = plan.Ways(lab.wiring, lab.topology)
        reporter.line("starting an sshd in each host")
        keys = {number: Key.made() for number in plan.OFFICES}
        keys_of_hosts = {host.name: Key.made() for host in lab.wiring.hosts}
        public = [key.public for key in keys.values()]
        started = hosts.Hosts(self.folder, lab, self._start).make(keys_of_hosts, public, systemd, stop)
        reporter.line("making offices, users and the index of others")
        for number in plan.OFFICES:
            create_namespace(plan.office_path(self.name, number))
            office.link(self.space(number), up=True)
        passwords = {user: secrets.token_urlsafe(24) for user in (plan.CHAOS, plan.SHOP, plan.CHECKS)}
        self._furnish(lab, ways, passwords[plan.CHAOS], keys, keys_of_hosts)
        self._users(lab, passwords, stop)
        self._orders(lab)
        stop.check()
        reporter.line("starting load balancers, relays and foreign traffic")
        for host in lab.wiring.clients:
            started[f"balancer-{host.zone}"] = self._balancer(lab, host.zone, passwords[plan.CHECKS])
        for number in plan.OFFICES:
            started[f"relay-{number}"] = self._relay(lab, number, ways)
            started[f"team-{number}"] = self._team(lab, number)
        self._await_balancers(lab, stop)
        (self.folder / "shop-password").touch(mode=0o600)
        (self.folder / "shop-password").write_text(passwords[plan.SHOP] + "\n")
        self.traffic.mkdir(exist_ok=True)
        for host in lab.wiring.clients:
            share = len(lab.wiring.clients)
            given = [host.zone, str(searches / share), str(writes / share), *self._shop(lab, host.zone)]
            started[f"traffic-{host.zone}"] = self._program("traffic", host.zone, host.namespace, *given)
        stop.check()
        if not await_green(lab, 60, stopped=stop.is_over)[0]:
            stop.check()
            raise LabError("the cluster is not green with the foreign index in it")
        for each in started.values():
            lab.instrument(each.pid)  # what is no node is elsewhere in a real one, and takes its time there
        write_json(self.folder / "box.json", {"processes": {name: each.to_json() for name, each in started.items()}})
        stop.check()
        (lab.folder / "leased").touch()  # from here on it may outlive us

    def down(self) -> list[str]:
        """Take all of it away, a half-made one too; what would not go."""
        network.require_root()
        with paths.locked(self.lock()):
            return self._away()

    def _away(self) -> list[str]:
        problems = sweep.destroy(self.name) or hosts.remove_groups(self.name)
        if not problems:
            shutil.rmtree(self.folder, ignore_errors=True)
            if self.folder.exists():
                problems.append(f"folder {self.folder} cannot be removed")
        return problems

    # ---- another cluster in a node's place --------------------------------------------------------------

    def swap(self, node: str) -> None:
        """A node's URL leads to another cluster, from either office, until :meth:`unswap`."""
        lab = self.lab()
        if node not in {each.name for each in lab.topology.nodes}:
            raise InvalidInput(f"there is no node {node}", remedy=", ".join(each.name for each in lab.topology.nodes))
        host, certificates = lab.wiring[node], lab.folder / security.FOLDER / node
        given = [host.loopback, node, lab.topology.version, str(certificates), str(self.swapped)]
        started = self._program("impostor", node, host.namespace, *given)
        lab.instrument(started.pid)
        write_json(self._impostor(node), started.to_json())
        self._lead(host.loopback, impostor.PORT)

    def unswap(self, node: str) -> None:
        """It leads to the node again; fine where it does."""
        self._lead(self.lab().wiring[node].loopback, HTTP)
        with suppress(OSError, ValueError):
            started = ProcessIdentity.from_json(json.loads(self._impostor(node).read_text()))
            if started.alive():
                os.kill(started.pid, signal.SIGKILL)
            self._impostor(node).unlink()

    def _impostor(self, node: str) -> Path:
        return self.folder / f"impostor-{node}.json"

    def _lead(self, listen: str, port: int) -> None:
        """The way to a node, from each office, leads to this port of its host."""
        for number in plan.OFFICES:
            ways = json.loads(self._ways(number).read_text())
            for way in ways:
                if way["listen"] == [listen, HTTP]:
                    way["to"][1] = port
            write_json(self._ways(number), ways)

    def _ways(self, number: int) -> Path:
        return self.folder / f"ways-{number}.json"

    # ---- its parts -----------------------------------------------------------------------------------

    def _furnish(
        self,
        lab: LocalLab,
        ways: plan.Ways,
        password: str,
        keys: Mapping[int, Key],
        keys_of_hosts: Mapping[str, Key],
    ) -> None:
        """Give each office the target's file and what that names, and experiments to try."""
        status, who = administer(lab, "GET", "/")
        if status != 200:
            raise LabError(f"GET / answered {status}: {str(who)[:300]}")
        text = plan.written(plan.target(lab.topology, ways, who, today()))
        assert lab.access.ca is not None
        files = {
            "topologies/existing/staging.yaml": text,
            "topologies/existing/ca.pem": Path(lab.access.ca).read_text(),
            "topologies/existing/password": password + "\n",
            f"topologies/existing/{plan.KNOWN_HOSTS}": machine.known_hosts(keys_of_hosts),
            **{f"experiments/{name}.yaml": content for name, content in plan.EXPERIMENTS.items()},
        }
        ports = {name: way.listen[1] for name, way in ways.hosts.items()}
        people = {plan.OFFICES[0]: (plan.APPROVER, Key.made()), plan.OFFICES[1]: (plan.OPERATOR, Key.made())}
        approver, operator = (key.public for _, key in people.values())
        for number in plan.OFFICES:
            name, key = people[number]
            own = {name: key.private, f"{name}.pub": f"{key.public}\n"}
            own |= plan.gameday(self.home(number), approver, operator)
            beside = self.home(number) / "topologies" / "existing"
            ssh = {
                plan.SSH_CONFIG: machine.ssh_config(ports, beside / plan.SSH_KEY, beside / plan.KNOWN_HOSTS),
                plan.SSH_KEY: keys[number].private,
            }
            more = {f"topologies/existing/{name}": text for name, text in ssh.items()}
            office.furnish(self.home(number), number, files | more | own)

    def _users(self, lab: LocalLab, passwords: dict[str, str], stop: Stop) -> None:
        """Make the users, each with the least that it needs, and wait until every node knows them."""
        admin = security.transport(lab.folder, security.USER)
        client = NodeClient(lab.administration(lab.topology.nodes[0].name), access=admin, timeout=20.0)
        roles = plan.ROLES | {plan.CHAOS: rights.role(load_existing(self.file).written)}
        for user, password in passwords.items():
            bodies = {"roles": roles[user], "internalusers": {"password": password}, "rolesmapping": {"users": [user]}}
            for what, body in bodies.items():
                status, answer = client.request("PUT", f"/_plugins/_security/api/{what}/{user}", body=body)
                if status not in (200, 201):
                    raise LabError(f"making the user {user} answered {status}: {str(answer)[:300]}")
        client.close()
        secret = self.folder / "checks-password"
        secret.touch(mode=0o600)
        secret.write_text(passwords[plan.CHECKS] + "\n")
        checks = Access(tls=True, ca=lab.access.ca, user=plan.CHECKS, password=f"file:{secret}")
        waiting = {node.name for node in lab.topology.nodes}

        def known() -> bool:
            stop.check()
            for name in list(waiting):
                if _answers(lab.administration(name), checks, plan.HEALTHY):
                    waiting.discard(name)
            return not waiting

        if not wait_until(known, READY_SECONDS, every=0.2):
            raise LabError(f"users are not known at {', '.join(sorted(waiting))}")

    @staticmethod
    def _orders(lab: LocalLab) -> None:
        status, answer = administer(lab, "PUT", f"/_index_template/{plan.ORDERS}", plan.TEMPLATE)
        if status != 200:
            raise LabError(f"making the template of {plan.ORDERS} answered {status}: {str(answer)[:300]}")
        create_index(lab, plan.FIRST, {})
        alias = {"add": {"index": plan.FIRST, "alias": plan.ORDERS, "is_write_index": True}}
        status, answer = administer(lab, "POST", "/_aliases", {"actions": [alias]})
        if status != 200:
            raise LabError(f"making the alias {plan.ORDERS} answered {status}: {str(answer)[:300]}")

    def _balancer(self, lab: LocalLab, zone: str, password: str) -> ProcessIdentity:
        host = lab.wiring[f"client-{zone}"]
        nodes = [(node.name, lab.wiring[node.name].loopback) for node in lab.topology.data_nodes]
        file = self.folder / f"{BALANCER}-{zone}.cfg"
        file.touch(mode=0o600)
        file.write_text(plan.balancer(nodes, NODE_UID, Path(str(lab.access.ca)), plan.CHECKS, password))
        return self._start(f"balancer-{zone}", host.namespace, [balancer_program(), "-db", "-q", "-f", str(file)])

    def _await_balancers(self, lab: LocalLab, stop: Stop) -> None:
        waiting = {host.zone: host.namespace for host in lab.wiring.clients}

        def passing() -> bool:
            stop.check()
            for zone, there in list(waiting.items()):
                if _answers(Endpoint(*plan.BALANCED, there), lab.access, "/"):
                    del waiting[zone]
            return not waiting

        if not wait_until(passing, READY_SECONDS, every=0.2):
            logs = ", ".join(str(self.folder / f"balancer-{zone}.log") for zone in waiting)
            raise LabError(f"load balancers do not answer: see {logs}")

    def _relay(self, lab: LocalLab, number: int, ways: plan.Ways) -> ProcessIdentity:
        file = self._ways(number)
        write_json(file, [way.to_json() for way in ways])
        beside = Namespace(NETNS_FOLDER / lab.wiring.bridge_namespace)
        return self._program("relay", str(number), beside, str(plan.office_path(self.name, number)), str(file))

    def _team(self, lab: LocalLab, number: int) -> ProcessIdentity:
        beside = Namespace(NETNS_FOLDER / lab.wiring.bridge_namespace)
        space, chat = plan.office_path(self.name, number), self.home(number) / plan.CHAT
        return self._program(
            "team", str(number), beside, str(space), str(self.traffic), str(chat), str(office.uid(number))
        )

    def _shop(self, lab: LocalLab, zone: str) -> list[str]:
        access = Access(tls=True, ca=lab.access.ca, user=plan.SHOP, password=f"file:{self.folder / 'shop-password'}")
        return [json.dumps(access.to_json()), str(self.traffic / f"{zone}.jsonl")]

    def _program(self, what: str, which: str, there: Namespace, *given: str) -> ProcessIdentity:
        """Start a program of the box's own, and wait until it says that it is ready."""
        name = f"{what}-{which}"
        command = [sys.executable, str(PROGRAM), f"_{what}", *given]
        process = self._spawn(name, there, command, subprocess.PIPE)
        assert process.stdout is not None
        with process.stdout as told:
            if told.readline().strip() != b"ready":
                raise LabError(f"{name} did not start: {_last_line(self.folder / f'{name}.log')}")
        return ProcessIdentity.of(process.pid)

    def _start(self, name: str, there: Namespace, command: Sequence[str]) -> ProcessIdentity:
        process = self._spawn(name, there, command, None)
        try:
            return ProcessIdentity.of(process.pid)
        except ProcessLookupError:
            raise LabError(f"{name} did not start: {_last_line(self.folder / f'{name}.log')}") from None

    def _spawn(
        self, name: str, there: Namespace, command: Sequence[str], stdout: int | None
    ) -> subprocess.Popen[bytes]:
        """In a namespace of the lab from its first moment on, so that it is found there whatever dies when."""
        with open(self.folder / f"{name}.log", "ab") as log:
            options: dict[str, Any] = {
                "stdin": subprocess.DEVNULL,
                "stdout": log if stdout is None else stdout,
                "stderr": log,
                "start_new_session": True,
                "cwd": "/",
                "env": {**os.environ, "PYTHONPATH": str(office.SUITE)},
            }
            with there.entered():
                return subprocess.Popen(list(command), **options)


def balancer_program() -> str:
    """Raises MissingPrerequisite where there is none."""
    found = shutil.which(BALANCER, path=f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin")
    if found is None:
        raise MissingPrerequisite("the zones' load balancers are HAProxy, which is not here", remedy=INSTALL)
    return found


def refuse_unready(folder: Path) -> None:
    """Raises MissingPrerequisite for what this machine lacks for a box; nothing has been started."""
    if os.geteuid() != 0:
        raise MissingPrerequisite("a box needs root, for network namespaces", remedy="run it as root (sudo)")
    balancer_program()
    hosts.refuse_unready()
    if blocked := obstacle(folder.parent):
        raise MissingPrerequisite(f"nodes of a box could not enter {blocked}", remedy=f"chmod o+x {blocked}")


def _answers(server: Endpoint, access: Access, path: str) -> bool:
    client = NodeClient(server, access=access, timeout=2.0)
    try:
        return client.request("GET", path)[0] == 200
    except (urllib3.exceptions.HTTPError, OSError):
        return False
    finally:
        client.close()


def _last_line(log: Path) -> str:
    with suppress(OSError):
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1][:300] if lines else "it wrote nothing"
    return "it wrote nothing"


def _raise_if(problems: Sequence[str]) -> None:
    if problems:
        raise LabError("; ".join(problems), remedy="try again: make staging-down")
