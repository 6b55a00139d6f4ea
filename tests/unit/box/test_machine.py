"""What a host of the box is made of: the program's configuration, users, sudo, sshd, how a node is started again."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from box import hosts, machine
from box.machine import Key
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from chaos.base.errors import MissingPrerequisite
from chaos.hosts import oschaos_host
from chaos.provision.unprivileged import NODE_UID

NODE = machine.Node(
    "es-1",
    Path("/lab/run/es-1/pid"),
    None,
    ["/jvm/bin/java", "-Dsaid=it's $HOME", "-cp", "a:b", "Main"],
    Path("/lab/run/es 1"),
    Path("/lab/logs/es-1.log"),
    {"PATH": "/usr/bin:/bin", "HOME": "/lab/run/es 1"},
    [Path("/sys/fs/cgroup/cpu/lab/es-1"), Path("/sys/fs/cgroup/memory/lab/es-1")],
)
KEY, OTHER = Key.made(), Key.made()


def read(root: Path, node: machine.Node, monkeypatch: pytest.MonkeyPatch, group: Path | None = None) -> dict:
    """The configuration as the program itself reads it."""
    (root / "etc").mkdir(mode=0o755, parents=True)
    file = root / "etc" / "oschaos-host.json"
    mode, text = machine.machine("es-1", "198.18.0.1", KEY, [], root, node, group).files["/etc"]["oschaos-host.json"]
    file.write_text(text)
    file.chmod(mode)
    monkeypatch.setattr(oschaos_host, "ROOT", str(root))
    return oschaos_host.configuration()


def test_the_program_takes_its_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    said = read(tmp_path, NODE, monkeypatch)
    node = said["nodes"]["es-1"]
    assert node["ports"] == [9200, 9300, 19200, 19300] and node["pidfile"] == str(NODE.pidfile)
    assert node["start"] == ["/usr/sbin/start-opensearch"] and "data" not in node
    assert said["longest"] == 900 and said["peers"] == ["198.18.0.0/15"] and said["everything"] is True
    assert {"node.kill", "network.drop", "cpu.limit"} <= set(said["intents"])
    assert not [each for each in said["intents"] if each.startswith("disk.")]


def test_disks_may_be_touched_where_a_node_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    said = read(tmp_path, replace(NODE, data=Path("/lab/data/es-1")), monkeypatch)
    assert said["nodes"]["es-1"]["data"] == "/lab/data/es-1" and set(said["intents"]) == set(oschaos_host.INTENTS)


def test_a_node_is_started_by_its_very_command_whatever_is_in_it():
    lines = machine.start(NODE).splitlines()
    environment = ["PATH=/usr/bin:/bin", "HOME=/lab/run/es 1"]
    assert shlex.split(lines[-1].partition(" </dev/null")[0]) == ["exec", "env", "-i", *environment, *NODE.command]
    assert lines[-1].endswith(">>/lab/logs/es-1.log 2>&1") and "cd '/lab/run/es 1' || exit" in lines
    assert all(str(group) in machine.start(NODE) for group in NODE.groups)
    assert "/sys/fs/cgroup" not in machine.start(replace(NODE, groups=[]))


def test_who_logs_in_may_call_the_program_and_nobody_has_a_password():
    etc = machine.machine("es-1", "198.18.0.1", KEY, [OTHER.public], Path("/box"), NODE).files["/etc"]
    users = [line.split(":") for line in etc["passwd"][1].splitlines()]
    assert {user[0]: int(user[2]) for user in users}["opensearch"] == NODE_UID
    assert len({user[2] for user in users}) == len(users) == 4
    assert [line.split(":")[:2] for line in etc["shadow"][1].splitlines()] == [[user[0], "*"] for user in users]
    assert f"oschaos:x:{machine.USER_ID}:chaos" in etc["group"][1].splitlines()
    mode, sudoers = etc["sudoers.d/oschaos-host"]
    assert mode == 0o440 and "%oschaos ALL=(root) NOPASSWD: OSCHAOS_HOST" in sudoers
    assert etc["ssh/authorized_keys"][1] == f"{OTHER.public}\n" and etc["ssh/host_key"] == (0o600, KEY.private)
    assert "AllowUsers chaos" in etc["ssh/sshd_config"][1] and "PermitRootLogin no" in etc["ssh/sshd_config"][1]


def test_a_node_that_systemd_starts_is_a_unit_and_no_unit_of_this_machine_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert "unit" not in read(tmp_path / "without", NODE, monkeypatch)["nodes"]["es-1"]
    group = Path("/sys/fs/cgroup/unified/lab-es-1")
    made = machine.machine("es-1", "198.18.0.1", KEY, [], Path("/box"), NODE, group)
    node = read(tmp_path / "with", NODE, monkeypatch, group)["nodes"]["es-1"]
    assert node == {"unit": "opensearch.service", "ports": machine.PORTS}
    assert made.command[0] == machine.SYSTEMD and made.group == str(group)
    assert not [each for each in made.environment["SYSTEMD_UNIT_PATH"].split(":") if "/lib" in each or not each]
    units = {name: text for name, (_, text) in made.files["/etc"].items() if name.startswith("systemd/")}
    wanted = units["systemd/system/box.target"].partition("Wants=")[2].split()
    assert wanted and all("DefaultDependencies=no" in units[f"systemd/system/{each}"] for each in wanted)
    assert f"User={machine.NODE_USER}\nExecStart={machine.START}\n" in units["systemd/system/opensearch.service"]


def test_a_host_of_clients_has_no_program():
    made = machine.machine("client-a", "198.18.0.7", KEY, [OTHER.public], Path("/box"), None)
    assert made.files["/usr/sbin"] == {} and made.folders == []
    assert not [name for name in made.files["/etc"] if "oschaos-host" in name]
    assert json.loads(json.dumps(made.to_json()))["name"] == "client-a"


def test_what_this_machine_lacks_is_named_with_what_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hosts, "PATH", str(tmp_path))
    for name in machine.PACKAGES:
        (tmp_path / name).touch(mode=0o755)
    hosts.refuse_unready()
    for name in ("sshd", "nft"):
        (tmp_path / name).unlink()
    with pytest.raises(MissingPrerequisite, match="need sshd, nft in") as raised:
        hosts.refuse_unready()
    assert raised.value.remedy is not None and raised.value.remedy.endswith("recommends openssh-server nftables")


def test_keys_are_openssh_s_and_no_two_alike():
    private = load_ssh_private_key(KEY.private.encode(), None)
    assert private.public_key() == load_ssh_public_key(KEY.public.encode())
    assert KEY != OTHER and KEY.public.startswith("ssh-ed25519 ")


def test_an_office_knows_each_host_by_its_own_name_and_trusts_no_other_key():
    text = machine.ssh_config({"es-1": 2201, "es-2": 2202}, Path("/office/ssh_key"), Path("/office/known_hosts"))
    first, _, rest = text.partition("Host es-2\n")
    assert [line.strip() for line in first.splitlines()] == [
        "Host es-1",
        "HostName 127.0.0.1",
        "Port 2201",
        "HostKeyAlias es-1",
    ]
    given = dict(line.split() for line in rest.partition("Host *\n")[2].splitlines())
    assert given["StrictHostKeyChecking"] == given["IdentitiesOnly"] == "yes" and given["User"] == "chaos"
    assert given["IdentityFile"] == "/office/ssh_key" and given["UserKnownHostsFile"] == "/office/known_hosts"
    known = machine.known_hosts({"es-1": KEY, "es-2": OTHER}).splitlines()
    assert known == [f"es-1 {KEY.public}", f"es-2 {OTHER.public}"]
