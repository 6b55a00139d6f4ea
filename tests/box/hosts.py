"""The hosts of a box: each made a machine of its own, awaited, and found again."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from box import machine
from box.host import PATH
from box.machine import Key
from chaos.base import paths
from chaos.base.errors import LabError, MissingPrerequisite
from chaos.base.netsock import Endpoint, Namespace
from chaos.base.paths import ProcessIdentity
from chaos.opensearch.views import await_green
from chaos.provision.unprivileged import NODE_UID
from chaos.run.stopping import Stop
from chaos.targets.labs import cgroups
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until
from chaos.targets.wiring import Host

PROGRAM = Path(__file__).parent
READY_SECONDS = 30.0
GREEN_SECONDS = 120.0
Start = Callable[[str, Namespace, Sequence[str]], ProcessIdentity]
"""Starts a program in a namespace of the lab; its name is that of its log too."""


def process(host: str) -> str:
    """How a host's sshd, or the parent of its systemd, is called among the box's processes."""
    return f"sshd-{host}"


class Hosts:
    """Of one box's lab, whose folder this is."""

    def __init__(self, folder: Path, lab: LocalLab, start: Start) -> None:
        self._folder, self._lab, self._start = folder, lab, start

    def make(
        self, keys: Mapping[str, Key], may_log_in: Sequence[str], systemd: Collection[str], stop: Stop
    ) -> dict[str, ProcessIdentity]:
        """Make them, and wait until each answers. Raises LabError.

        ``keys``: each host's own; ``may_log_in``: public keys; ``systemd``: whose node a systemd starts.
        """
        started = {}
        for host in self._lab.wiring.hosts:
            started[process(host.name)] = self._make(host, keys[host.name], may_log_in, host.name in systemd)
        self._await(started, stop)
        if systemd:
            self._await_units(systemd, stop)
        return started

    def _make(self, host: Host, key: Key, may_log_in: Sequence[str], systemd: bool) -> ProcessIdentity:
        node = self._node(host.name) if host.kind == "node" else None
        group = None
        if systemd and node is not None:
            group = groups_of_systemd() / f"{_beginning(self._lab.id)}{host.name}"
            node = replace(node, groups=())  # its unit has its own; whoever adopts it places it in the lab's
            self._lab.stop_node(host.name)
        made = machine.machine(host.name, host.bridge_address, key, may_log_in, self._folder, node, group)
        name = process(host.name)
        file = self._folder / f"{name}.json"
        file.touch(mode=0o600)  # it holds the host's key
        file.write_text(json.dumps(made.to_json()))
        return self._start(name, host.namespace, [sys.executable, str(PROGRAM), "_host", str(file)])

    def _node(self, name: str) -> machine.Node:
        """What a host is told of its node; whoever is its user may start it as the lab does."""
        lab = self._lab
        how, groups = lab.launch(name), lab.admit(name)
        os.chown(how.log, NODE_UID, NODE_UID)
        note_pid(lab, name)
        data = lab.folder / "data" / name if lab.topology.disks is not None else None
        return machine.Node(name, _pidfile(lab, name), data, how.command, how.cwd, how.log, how.env, groups)

    def _await(self, started: Mapping[str, ProcessIdentity], stop: Stop) -> None:
        waiting = {host.name: host for host in self._lab.wiring.hosts}

        def greeting() -> bool:
            stop.check()
            for name, host in list(waiting.items()):
                if greets(Endpoint(host.bridge_address, machine.SSH, host.namespace)):
                    del waiting[name]
                elif not started[process(name)].alive():
                    raise LabError(f"the sshd of {name} ended: see {self._folder / f'{process(name)}.log'}")
            return not waiting

        if not wait_until(greeting, READY_SECONDS, every=0.1):
            raise LabError(f"no sshd answers in {', '.join(sorted(waiting))}: see logs in {self._folder}")

    def _await_units(self, systemd: Collection[str], stop: Stop) -> None:
        """Wait until nodes that systemd starts are the lab's own again, and in the cluster."""
        names = ", ".join(systemd)

        def adopted() -> bool:
            stop.check()
            self._lab.adopt()
            return all(self._lab.process_state(name) is not None for name in systemd)

        if not wait_until(adopted, READY_SECONDS, every=0.2):
            raise LabError(f"no systemd has started {names}: see logs in {self._folder}")
        if not await_green(self._lab, GREEN_SECONDS, stopped=stop.is_over)[0]:
            stop.check()
            raise LabError(f"{names} did not come back, started by systemd")


def _pidfile(lab: LocalLab, node: str) -> Path:
    return lab.folder / "run" / node / "pid"


def note_pid(lab: LocalLab, node: str) -> None:
    """Write a node's pid where its host looks for it, unless it stands there, as it does after its own start."""
    identity, file = lab.identity(node), _pidfile(lab, node)
    if identity is None or not identity.alive():
        return
    with suppress(OSError, ValueError):
        if int(file.read_text()) == identity.pid:
            return
    file.write_text(f"{identity.pid}\n")
    os.chown(file, NODE_UID, NODE_UID)


def greets(server: Endpoint) -> bool:
    """Whether an sshd is there."""
    try:
        with server.connect(1.0) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def refuse_unready() -> None:
    """Raises MissingPrerequisite for what this machine lacks for hosts."""
    lacking = [name for name in machine.PACKAGES if shutil.which(name, path=PATH) is None]
    if lacking:
        packages = " ".join(machine.PACKAGES[name] for name in lacking)
        raise MissingPrerequisite(
            f"the box's hosts need {', '.join(lacking)} in {PATH}",
            remedy=f"install it, on Debian: apt-get install --no-install-recommends {packages}",
        )


# ---- control groups of systemds ------------------------------------------------------------------------


def _beginning(lab: str) -> str:
    """How the names of control groups begin that systemds in a lab's hosts have."""
    return f"{paths.PREFIX}{lab}-systemd-"


def _unified() -> Path | None:
    """Where control groups of version 2 are, on a machine whose controllers are all of version 1."""
    if any(found.version == 2 for found in cgroups.hierarchies().values()):
        return None
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return next((Path(mount[1]) for mount in mounts if mount[2] == "cgroup2"), None)


def groups_of_systemd() -> Path:
    """Raises MissingPrerequisite where no host could have a systemd."""
    where = _unified()
    if where is None or not Path(machine.SYSTEMD).exists():
        lacks = f"{machine.SYSTEMD} is not here" if where else "here all controllers are not of version 1 beside it"
        raise MissingPrerequisite(
            f"a host's systemd needs control groups of version 2, and {lacks}", remedy="leave --systemd out"
        )
    return where


def groups_left(lab: str) -> list[Path]:
    """Control groups that systemds in a lab's hosts have, or had."""
    where = _unified()
    return [] if where is None else sorted(where.glob(f"{_beginning(lab)}*"))


def remove_groups(lab: str) -> list[str]:
    """Take these away, once their processes are dead. Returns what would not go."""
    problems = []
    for group in groups_left(lab):
        where = cgroups.Hierarchy(group.parent, 2)
        problems += cgroups.Groups(group.name.removeprefix(paths.PREFIX), {"": where}).remove()
    return problems
