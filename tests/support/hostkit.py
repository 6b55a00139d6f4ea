"""A host of the tests' own for oschaos-host: a network and mount namespace, a node in it, and a peer beside it.

They end with the process that holds them. The program is run as it is installed, only below ``--root``.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from chaos.base.netsock import Namespace

PROGRAM = Path(__file__).parents[2] / "chaos" / "hosts" / "oschaos_host.py"
PYTHON = "/usr/bin/python3"
NEAR, PEER, CONTROL = "10.77.1.1", "10.77.1.2", "10.77.1.3"
NEAR6, PEER6 = "fd77::1", "fd77::2"
LACKING = (
    "needs root"
    if os.geteuid() != 0
    else next((f"no {tool} is installed" for tool in ("nft", "tc", "ip", "unshare", "nsenter")
               if shutil.which(tool) is None), "")
)  # fmt: skip
needs_a_host = pytest.mark.skipif(bool(LACKING), reason=LACKING or "never")

SERVER = """
import os, select, socket, sys, threading
ports = [int(each) for each in sys.argv[2].split(",")]
servers = []
for port in ports:
    server = socket.socket(socket.AF_INET6); server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("::", port)); server.listen(64); servers.append(server)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(("0.0.0.0", ports[0]))
udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
def echo(connection):
    try:
        while data := connection.recv(1 << 16):
            if data[:1] != b"S": connection.sendall(data)  # S: swallowed, to measure one way
    except OSError: pass
    connection.close()
def datagrams():
    while True:
        data, sender = udp.recvfrom(2048)
        try: udp.sendto(data, sender)
        except OSError: pass
threading.Thread(target=datagrams, daemon=True).start()
if sys.argv[1] != "-":
    with open(sys.argv[1] + ".new", "w") as file: file.write(str(os.getpid()))
    os.replace(sys.argv[1] + ".new", sys.argv[1])
while True:
    for server in select.select(servers, [], [])[0]:
        threading.Thread(target=echo, args=(server.accept()[0],), daemon=True).start()
"""
"""The node, and what answers at the peer: an echo on these ports, by TCP and UDP."""
SSHD = """
import socket, subprocess, sys
server = socket.create_server(("0.0.0.0", 2222)); print("up", flush=True)
connection = server.accept()[0]
for line in connection.makefile():
    verb, _, given = line.partition(" ")
    said = subprocess.run([*sys.argv[1:2], "-IS", sys.argv[2], verb, *sys.argv[3:]], input=given, text=True,
                          capture_output=True)
    connection.sendall((said.stdout.strip() or said.stderr.replace(chr(10), " ")).encode() + b"\\n")
"""
"""Run by a copy of Python with the name sshd: it is called as root's sshd calls, over a connection that it holds."""

# a mount namespace has copies of the handles of other labs' networks, and of their disks, and would keep those alive
HOLD = (
    "umount -R -l /run/netns 2>/dev/null || true && grep '^/dev/loop.*/labs/' /proc/self/mounts | cut -d' ' -f2 "
    "| xargs -r umount -l 2>/dev/null; echo up; exec sleep infinity"
)


def eventually(condition: Callable[[], Any], seconds: float = 10) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come in time"
        time.sleep(0.02)
    return found


class Ssh:
    """A connection from the peer to a process of the host that is called sshd, and calls the program."""

    def __init__(self, host: Host) -> None:
        fake = host.folder / "sshd"
        shutil.copy(os.path.realpath(PYTHON), fake)
        self._process = subprocess.Popen(
            [*host.inside, str(fake), "-c", SSHD, PYTHON, str(PROGRAM), "--root", str(host.root)],
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None and self._process.stdout.readline() == b"up\n"
        self.socket = host.peer.connect((NEAR, 2222), 5)
        self.socket.settimeout(30)
        self._lines = self.socket.makefile()
        host.closing.append(self.close)

    def __call__(self, verb: str, **given: Any) -> dict[str, Any]:
        self.socket.sendall(f"{verb} {json.dumps(given)}\n".encode())
        return dict(json.loads(self._lines.readline()))

    def close(self) -> None:
        self.socket.close()
        self._process.kill()
        self._process.wait()


class Host:
    """``call`` is the program on it; ``peer`` and ``near`` are the network namespaces of the peer and the host."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="oschaos-host-"))
        self.folder.chmod(0o755)
        self.closing: list[Callable[[], object]] = []
        self.root = self.folder / "root"
        for part in ("etc", "run", "var/lib", "data"):
            (self.root / part).mkdir(parents=True, exist_ok=True)
        for part in (self.root, *self.root.rglob("*")):
            part.chmod(0o755)
        self._holders = [self._hold("--net", "--mount"), self._hold("--net")]
        here, there = (holder.pid for holder in self._holders)
        self.near, self.peer = Namespace(f"/proc/{here}/ns/net"), Namespace(f"/proc/{there}/ns/net")
        self.inside = ["nsenter", "-t", str(here), "-n", "-m", "--"]
        self._beside = ["nsenter", "-t", str(there), "-n", "--"]
        self._wire(there)
        self.pidfile = self.folder / "home" / "node.pid"
        self.pidfile.parent.mkdir()
        self.pidfile.parent.chmod(0o777)
        (self.folder / "server.py").write_text(SERVER)
        self.start = [PYTHON, str(self.folder / "server.py"), str(self.pidfile), "9200,9300"]
        self.config: dict[str, Any] = {
            "nodes": {
                "es-1": {
                    "pidfile": str(self.pidfile), "start": self.start, "user": "nobody",
                    "ports": [9200, 9300], "data": str(self.root / "data"),
                }
            },
            "intents": ["node.kill", "node.stop", "node.restart", "node.pause", "network.drop", "network.refuse",
                        "network.reset", "network.loss", "network.latency", "network.bandwidth", "disk.full",
                        "disk.slow", "disk.read_only", "cpu.limit", "memory.limit"],
            "longest": 600, "peers": ["10.77.1.2/32", "10.77.1.4/32", "fd77::2/128"], "everything": True,
        }  # fmt: skip
        self.configure()
        beside = subprocess.Popen([*self._beside, PYTHON, str(self.folder / "server.py"), "-", "9200,9300,7000"])
        self.closing.append(beside.kill)
        self.start_node()
        eventually(lambda: self.reaches(self.near, PEER) and self.reaches(self.peer, NEAR))

    def _hold(self, *namespaces: str) -> subprocess.Popen[bytes]:
        script = HOLD if "--mount" in namespaces else HOLD.partition("; ")[2]
        holder = subprocess.Popen(["unshare", *namespaces, "sh", "-c", script], stdout=-1)
        assert holder.stdout is not None and holder.stdout.readline() == b"up\n"
        return holder

    def _wire(self, there: int) -> None:
        self.sh("ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(there))
        for side, device, addresses in (
            (self.inside, "near", [f"{NEAR}/24", f"{NEAR6}/64"]),
            (self._beside, "far", [f"{PEER}/24", f"{CONTROL}/24", f"{PEER6}/64"]),
        ):
            for each in addresses:
                more = ["nodad"] if ":" in each else []
                subprocess.run([*side, "ip", "addr", "add", each, "dev", device, *more], check=True)
            for each in (device, "lo"):
                subprocess.run([*side, "ip", "link", "set", each, "up"], check=True)

    def sh(self, *argv: str, check: bool = True) -> str:
        """Run a tool on the host; what it printed."""
        done = subprocess.run([*self.inside, *argv], capture_output=True, text=True, check=False)
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def configure(self, **changes: Any) -> None:
        self.config.update(changes)
        path = self.root / "etc" / "oschaos-host.json"
        path.write_text(json.dumps(self.config))
        path.chmod(0o644)

    def command(self, verb: str) -> list[str]:
        return [*self.inside, PYTHON, "-IS", str(PROGRAM), verb, "--root", str(self.root)]

    def call(self, verb: str, **given: Any) -> dict[str, Any]:
        done = subprocess.run(self.command(verb), input=json.dumps(given), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return dict(json.loads(done.stdout))

    def begin(self, intent: str, id: str = "f1", **given: Any) -> dict[str, Any]:
        ask = {"run": "r1", "id": id, "token": 1, "ttl": 60, "node": "es-1", "intent": intent, **given}
        return self.call("begin", **ask)

    def undo(self, id: str = "f1") -> dict[str, Any]:
        return self.call("undo", run="r1", id=id)

    def state(self, id: str = "f1") -> dict[str, Any]:
        return self.call("state", run="r1", id=id)

    def begun(self, intent: str, id: str = "f1", **given: Any) -> dict[str, Any]:
        answer = self.begin(intent, id, **given)
        assert answer["ok"] and answer["dead_man"]["alive"], answer
        assert all(step["there"] for step in answer["steps"]), answer
        return answer

    def undone(self, id: str = "f1") -> dict[str, Any]:
        answer = self.undo(id)
        assert answer["ok"] and answer["disarmed"] and all("gone" in step for step in answer["steps"]), answer
        assert self.state(id)["active"] == [] and self.files() == [f"r1_{id}.ended"]
        return answer

    def files(self) -> list[str]:
        return sorted(file.name for file in (self.root / "run" / "oschaos-host").iterdir())

    def start_node(self) -> None:
        self.pidfile.unlink(missing_ok=True)
        subprocess.run(
            [*self.inside, PYTHON, "-c", "import subprocess, sys\nsubprocess.Popen(sys.argv[1:], user='nobody', "
             "extra_groups=[], start_new_session=True, stdin=-3, stdout=-3, stderr=-3)", *self.start], check=True,
        )  # fmt: skip
        eventually(self.pidfile.exists)

    @property
    def pid(self) -> int:
        return int(self.pidfile.read_text())

    def letter(self, pid: int) -> str:
        """The state of a process; empty for one that is gone."""
        with suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0].replace("Z", "")
        return ""

    def reaches(self, source: Namespace, target: str, port: int = 9300, within: float = 0.7, own: str = "") -> str:
        """How a connection and an echo over it end: ``answered``, or why not (empty, so that it is false)."""
        return "answered" if self.ends(source, target, port, within, own) == "answered" else ""

    def ends(self, source: Namespace, target: str, port: int = 9300, within: float = 0.7, own: str = "") -> str:
        """``answered``, ``timeout``, ``refused`` or ``reset``."""
        family = socket.AF_INET6 if ":" in target else socket.AF_INET
        with source.socket(family) as connection:
            connection.settimeout(within)
            try:
                if own:
                    connection.bind((own, 0))
                connection.connect((target, port))
                connection.sendall(b"hello")
                return "answered" if connection.recv(10) == b"hello" else "closed"
            except TimeoutError:
                return "timeout"
            except ConnectionRefusedError:
                return "refused"
            except ConnectionResetError:
                return "reset"

    def close(self) -> None:
        for each in reversed(self.closing):
            each()
        with suppress(OSError, ValueError):
            if str(self.folder) in Path(f"/proc/{self.pid}/cmdline").read_text():
                os.kill(self.pid, signal.SIGKILL)
        for holder in self._holders:
            for pid in self._members(holder.pid):  # dead-men of ours that a test left
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            holder.kill()
            holder.wait()
            if holder.stdout:
                holder.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _members(self, holder: int) -> list[int]:
        """Processes in the holder's network namespace."""
        inode, found = os.stat(f"/proc/{holder}/ns/net").st_ino, []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and (entry / "ns/net").stat().st_ino == inode:
                    found.append(int(entry.name))
        return found
