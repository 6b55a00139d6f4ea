"""A Kubernetes box for tests: by its commands, as readers use it, and a picture of the machine that it leaves alone."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from clusterkit import ROOT, Cli
from kubebox.making import Box
from kubebox.plan import KERNEL
from pyroute2 import IPRoute

from chaos.base.paths import PREFIX

UP_SECONDS, DOWN_SECONDS = 900, 120
FOLDERS = ("/run", "/run/netns", "/var/lib", "/var/lib/cni", "/var/log", "/opt", "/usr/libexec", "/etc", "/etc/cni")
"""Where the programs of a Kubernetes cluster write by themselves."""
PROGRAMS = ("kubernetes", "coredns", "etcd", "containerd", "runc", "pods", "java", "unshare")


class Command(Cli):
    """``python tests/kubebox --name NAME ...`` in a process of its own."""

    def __init__(self, name: str, *arguments: str) -> None:
        self.started.append(self)
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "kubebox"), "--name", name, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )


def named() -> Box:
    """A box of its own name; nothing of it exists."""
    return Box(f"test-{secrets.token_hex(3)}")


@contextmanager
def brought_up(*options: str) -> Iterator[Box]:
    """A box of its own name with these options of ``up``; taken away whatever happens."""
    made = named()
    try:
        code, output = Command(made.name, "up", *options).end(UP_SECONDS)
        assert code == 0, output
        yield made
    finally:
        code, output = Command(made.name, "down").end(DOWN_SECONDS)
        assert code == 0, output


def picture() -> dict[str, set[str]]:
    """What a box could leave on this machine: processes, mounts, networks, control groups, settings, files."""
    with IPRoute() as route:
        links = {str(link.get_attr("IFLA_IFNAME")) for link in route.get_links()}
        routes = {str(each.get_attr("RTA_DST")) for each in route.get_routes(family=socket.AF_INET)}
    return {
        "processes": {f"{name} {pid}" for pid, name in _processes().items()},
        "mounts": set(Path("/proc/mounts").read_text().splitlines()),
        "links": links,
        "routes": routes,
        "groups": {top for top, _, _ in os.walk("/sys/fs/cgroup")},
        "kernel": {f"{name} {Path('/proc/sys', name).read_text().strip()}" for name in KERNEL},
        "files": {f"{folder}/{name}" for folder in FOLDERS for name in _names(folder)},
    }


def left(before: dict[str, set[str]]) -> dict[str, set[str]]:
    """What is there now and was not: empty where nothing was left.

    Not counted: the lock of boxes, which stays as it says; the folder of network namespaces, which the first one on a
    machine makes, whoever's it is; and namespaces of labs, which other tests may have made meanwhile.
    """
    now = picture()
    found = {what: now[what] - before[what] for what in now}
    found["files"] -= {"/run/opensearch-chaos-kubernetes.lock", "/run/netns"}
    found["mounts"] = {line for line in found["mounts"] if line.split()[1] != "/run/netns"}
    lab = f"/run/netns/{PREFIX}"
    found = {what: {name for name in names if lab not in name} for what, names in found.items()}
    return {what: names for what, names in found.items() if names}


def _processes() -> dict[int, str]:
    found = {}
    for process in psutil.process_iter(["name", "status"]):
        name = process.info["name"] or ""
        if name.startswith(PROGRAMS) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found[process.pid] = name
    return found


def _names(folder: str) -> list[str]:
    return os.listdir(folder) if Path(folder).is_dir() else []
