"""What a host of the box is made of, as pure data: users, sshd, sudo, the program for faults, how its node is started.

As docs/hosts.md says to set up a host: the program, its configuration and the sudoers line are those that owners of a
cluster install.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from chaos.hosts import oschaos_host
from chaos.provision.unprivileged import NODE_UID
from chaos.target.wiring import HTTP, NETNS_FOLDER, OFFSET, TRANSPORT

SSH = 22
USER, GROUP, NODE_USER = "chaos", "oschaos", "opensearch"
"""Who logs in, the group that sudoers names, and the node's user."""
USER_ID, SSHD_ID = 64270, 64280
"""Of nobody on this machine. The group has the user's number too."""
SSHD = "/usr/sbin/sshd"
PROGRAM = "/usr/sbin/oschaos-host"
START = "/usr/sbin/start-opensearch"
STATE = "/var/lib/oschaos-host"
PACKAGES = {
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "sudo": "sudo",
    "nft": "nftables",
    "unshare": "util-linux",
    "python3": "python3-minimal",
}
"""What a host needs of this machine, in the folders that the program looks into, and the packages that bring it."""
LONGEST = 900
PEERS = "198.18.0.0/15"
"""Where all hosts of a lab are (``chaos.target.wiring``)."""
PORTS = [HTTP, TRANSPORT, HTTP + OFFSET, TRANSPORT + OFFSET]
"""A node's own, and those at which its host takes bytes from other hosts."""
Files = dict[str, tuple[int, str]]
"""Path → mode and content."""


@dataclass(frozen=True)
class Key:
    """An ed25519 key as OpenSSH has it; ``public`` is a line without a comment."""

    private: str
    public: str

    @classmethod
    def made(cls) -> Key:
        key = Ed25519PrivateKey.generate()
        return cls(
            key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode(),
            key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode(),
        )


@dataclass(frozen=True)
class Node:
    """A host's node: what the program for faults is told of it, and how it is started again."""

    name: str
    pidfile: Path
    data: Path | None
    """Its data folder, where that has a file system of its own."""
    command: Sequence[str]
    folder: Path
    log: Path
    environment: Mapping[str, str]
    groups: Sequence[Path]
    """Its control groups, one in each hierarchy."""


@dataclass(frozen=True)
class Machine:
    """What :func:`box.host.become` needs to know."""

    name: str
    command: list[str]
    files: dict[str, Files]
    """Folder → what is the host's own in it; all else is this machine's."""
    folders: list[str]
    """Folders of the host's own, empty."""
    same: list[str]
    """Folders in those that must be found at their own place, and by no link."""
    detached: list[str]
    """Mounts that it must not keep."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def machine(name: str, address: str, key: Key, may_log_in: Sequence[str], folder: Path, node: Node | None) -> Machine:
    """A host. ``may_log_in``: public keys; ``folder``: the box's, in which its node lives; no node: no program."""
    etc = {**_accounts(), **_sshd(address, key, may_log_in), "hostname": (0o644, f"{name}\n")}
    etc["hosts"] = (0o644, f"127.0.0.1 localhost\n127.0.1.1 {name}\n")
    etc["resolv.conf"] = (0o644, "")
    sbin: Files = {}
    if node is not None:
        etc |= _program(node)
        sbin["oschaos-host"] = (0o755, Path(oschaos_host.__file__).read_text())
        sbin["start-opensearch"] = (0o755, start(node))
    return Machine(
        name,
        [SSHD, "-D", "-e", "-f", "/etc/ssh/sshd_config"],
        {"/etc": etc, "/usr/sbin": sbin, "/var/lib": {}},
        [] if node is None else [STATE],
        [str(folder)],
        [str(NETNS_FOLDER)],
    )


def _accounts() -> Files:
    """``*`` for a password: none fits, and none is needed."""
    users = {
        "root": (0, "/root", "/bin/bash"),
        "sshd": (SSHD_ID, "/run/sshd", "/usr/sbin/nologin"),
        USER: (USER_ID, "/", "/bin/sh"),
        NODE_USER: (NODE_UID, "/", "/usr/sbin/nologin"),
    }
    groups = {"root": (0, ""), "sshd": (SSHD_ID, ""), GROUP: (USER_ID, USER), NODE_USER: (NODE_UID, "")}
    return {
        "passwd": (0o644, "".join(f"{n}:x:{id}:{id}::{home}:{shell}\n" for n, (id, home, shell) in users.items())),
        "group": (0o644, "".join(f"{name}:x:{id}:{members}\n" for name, (id, members) in groups.items())),
        "shadow": (0o640, "".join(f"{name}:*:19000:0:99999:7:::\n" for name in users)),
        "sudoers": (0o440, "Defaults env_reset\nroot ALL=(ALL:ALL) ALL\n@includedir /etc/sudoers.d\n"),
        "sudoers.d/README": (0o440, "# sudo reads what is in this folder.\n"),
    }


def _sshd(address: str, key: Key, may_log_in: Sequence[str]) -> Files:
    config = f"""\
ListenAddress {address}:{SSH}
HostKey /etc/ssh/host_key
AuthorizedKeysFile /etc/ssh/authorized_keys
AuthenticationMethods publickey
AllowUsers {USER}
PermitRootLogin no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
AllowTcpForwarding yes
PidFile none
"""
    return {
        "ssh/sshd_config": (0o644, config),
        "ssh/host_key": (0o600, key.private),
        "ssh/authorized_keys": (0o644, "".join(f"{each}\n" for each in may_log_in)),
    }


def _program(node: Node) -> Files:
    packaged = Path(oschaos_host.__file__).with_name("packaging") / "sudoers"
    return {
        "sudoers.d/oschaos-host": (0o440, packaged.read_text()),
        "oschaos-host.json": (0o644, json.dumps(configuration(node), indent=1) + "\n"),
    }


def configuration(node: Node) -> dict[str, Any]:
    """What may be done there: all that its node can have done to it."""
    here: dict[str, Any] = {"pidfile": str(node.pidfile), "start": [START], "user": NODE_USER, "ports": PORTS}
    if node.data is not None:
        here["data"] = str(node.data)
    intents = [each for each in oschaos_host.INTENTS if node.data is not None or not each.startswith("disk.")]
    return {"nodes": {node.name: here}, "intents": intents, "longest": LONGEST, "peers": [PEERS], "everything": True}


def start(node: Node) -> str:
    """A script by which the node's user starts it as the lab does."""
    words = [f"{key}={value}" for key, value in node.environment.items()]
    return f"""\
#!/bin/sh
# Starts {node.name} as its lab does: the same command, environment, folder, log and control groups.
for group in {shlex.join(map(str, node.groups))}; do
    echo $$ >"$group/cgroup.procs" || exit
done
umask 022
ulimit -n "$(ulimit -Hn)"
cd {shlex.quote(str(node.folder))} || exit
echo $$ >{shlex.quote(str(node.pidfile))} || exit
exec env -i {shlex.join([*words, *node.command])} </dev/null >>{shlex.quote(str(node.log))} 2>&1
"""


def known_hosts(keys: Mapping[str, Key]) -> str:
    """``keys``: those of hosts, by name."""
    return "".join(f"{name} {key.public}\n" for name, key in keys.items())


def ssh_config(ports: Mapping[str, int], key: Path, known: Path) -> str:
    """As an office has it. ``ports``: of 127.0.0.1, by host; ``key`` and ``known``: files there."""
    hosts = "".join(
        f"Host {name}\n  HostName 127.0.0.1\n  Port {port}\n  HostKeyAlias {name}\n" for name, port in ports.items()
    )
    return f"""\
{hosts}Host *
  User {USER}
  IdentityFile {key}
  IdentitiesOnly yes
  UserKnownHostsFile {known}
  GlobalKnownHostsFile none
  StrictHostKeyChecking yes
"""
