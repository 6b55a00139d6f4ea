"""What a host of the box is made of, as pure data: users, sshd, sudo, the program for faults, how its node is started.

As docs/hosts.md says to set up a host: the program, its configuration and the sudoers line are those that owners of a
cluster install.
"""

from __future__ import annotations

import json
import shlex
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from box.host import PATH
from chaos.hosts import oschaos_host
from chaos.provision.unprivileged import NODE_UID
from chaos.targets.wiring import HTTP, NETNS_FOLDER, OFFSET, TRANSPORT

SSH = 22
USER, GROUP, NODE_USER = "chaos", "oschaos", "opensearch"
"""Who logs in, the group that sudoers names, and the node's user."""
USER_ID, SSHD_ID = 64270, 64280
"""Of nobody on this machine. The group has the user's number too."""
SSHD_COMMAND = ["/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/sshd_config"]
SYSTEMD = "/lib/systemd/systemd"
TARGET, UNIT = "box.target", "opensearch.service"
NEEDED = ("sysinit", "basic", "timers", "shutdown")
"""Targets that units depend on by themselves; this machine's would start what belongs to it alone."""
UNITS = Path("/etc/systemd/system")
UNIT_PATH = f"{UNITS}:/run/systemd/transient:/run/systemd/control:/run/systemd/system"
"""Where systemd finds units: nowhere where this machine's are."""
SAYS_LITTLE = ["--log-target=console", "--log-level=warning", "--show-status=0"]
SYSTEMD_COMMAND = [SYSTEMD, "--system", f"--unit={TARGET}", *SAYS_LITTLE]
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
"""Where all hosts of a lab are (``chaos.targets.wiring``)."""
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
    environment: dict[str, str]
    files: dict[str, Files]
    """Folder → what is the host's own in it; all else is this machine's."""
    folders: list[str]
    """Folders of the host's own, empty."""
    same: list[str]
    """Folders in those that must be found at their own place, and by no link."""
    detached: list[str]
    """Mounts that it must not keep."""
    group: str | None = None
    """The control group of version 2 for a systemd, where ``command`` is one."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def machine(
    name: str,
    address: str,
    key: Key,
    may_log_in: Sequence[str],
    folder: Path,
    node: Node | None,
    group: Path | None = None,
) -> Machine:
    """A host. ``may_log_in``: public keys; ``folder``: the box's, in which its node lives; no node: no program.

    ``group``: where there is one, a systemd starts sshd and node as its units, and has this control group.
    """
    etc = {**_accounts(), **_sshd(address, key, may_log_in), "hostname": (0o644, f"{name}\n")}
    etc["hosts"] = (0o644, f"127.0.0.1 localhost\n127.0.1.1 {name}\n")
    etc["resolv.conf"] = (0o644, "")
    sbin: Files = {}
    if node is not None:
        etc |= _program(node, by_systemd=group is not None)
        sbin["oschaos-host"] = (0o755, Path(oschaos_host.__file__).read_text())
        sbin["start-opensearch"] = (0o755, start(node))
    if group is not None and node is not None:
        etc |= _units(node, folder / f"sshd-{name}.log")
    return Machine(
        name,
        SSHD_COMMAND if group is None else SYSTEMD_COMMAND,
        {"PATH": PATH} if group is None else {"PATH": PATH, "container": "other", "SYSTEMD_UNIT_PATH": UNIT_PATH},
        {"/etc": etc, "/usr/sbin": sbin, "/var/lib": {}},
        [] if node is None else [STATE],
        [str(folder)],
        [str(NETNS_FOLDER)],
        None if group is None else str(group),
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


def _units(node: Node, log: Path) -> Files:
    """What systemd starts; ``log``: sshd's."""
    empty = "[Unit]\nDefaultDependencies=no\n"
    sshd = f"""\
[Service]
ExecStart={" ".join(SSHD_COMMAND)}
KillMode=process
Restart=on-failure
StandardOutput=null
StandardError=append:{log}
"""
    service = f"""\
[Service]
User={NODE_USER}
ExecStart={START}
LimitNOFILE=infinity
SuccessExitStatus=143
Restart=on-failure
RestartSec=1
StandardOutput=null
StandardError=append:{node.log}
"""
    units = {
        **{f"{name}.target": empty for name in NEEDED},
        TARGET: f"{empty}Wants=ssh.service {UNIT}\n",
        "ssh.service": f"{empty}{sshd}",
        UNIT: f"{empty}{service}",
    }
    files = {f"{UNITS.relative_to('/etc')}/{name}": (0o644, text) for name, text in units.items()}
    return {"machine-id": (0o444, f"{uuid.uuid4().hex}\n"), **files}


def _program(node: Node, *, by_systemd: bool) -> Files:
    packaged = Path(oschaos_host.__file__).with_name("packaging") / "sudoers"
    return {
        "sudoers.d/oschaos-host": (0o440, packaged.read_text()),
        "oschaos-host.json": (0o644, json.dumps(configuration(node, by_systemd=by_systemd), indent=1) + "\n"),
    }


def configuration(node: Node, *, by_systemd: bool) -> dict[str, Any]:
    """What may be done there: all that its node can have done to it."""
    by_pid = {"pidfile": str(node.pidfile), "start": [START], "user": NODE_USER}
    here: dict[str, Any] = {**({"unit": UNIT} if by_systemd else by_pid), "ports": PORTS}
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
