"""Hosts of nodes, reached by OpenSSH's own client, and the program for faults that their owners installed there.

The client goes by its user's configuration (bastions, certificates, agents), never asks anything, and takes no host key
that it does not know. On the host only fixed words are run, and files read that it has named itself; what is asked is
JSON on standard input (docs/hosts.md).
Before anything is begun the program's hash is the one of ours, and the process that it calls a node's is the one that
the cluster itself says.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shlex
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from chaos.base.errors import ChaosError, FaultError, LabError
from chaos.base.text import one_line
from chaos.hosts import oschaos_host

PROGRAM = "/usr/sbin/oschaos-host"
DRAWN_BITS = 40
"""Of a token, which the program takes up to 2⁶³. Higher than every token of versions that drew 16."""
CONNECT_SECONDS = 10
CALL_SECONDS = 60.0
"""For an answer of the program; what takes longer is given its own time."""
LOOK_SECONDS = 8.0
"""For what a process is now."""
PERSIST_SECONDS = 10
"""How long a connection stays for the next call. It ends by itself so long after this process has died, too."""
TTL_SECONDS = 45.0
"""After which a host undoes by itself what nobody has extended …"""
EXTEND_SECONDS = 5.0
"""… as is done this often while the runner lives."""
FRESH_SECONDS = 0.5
"""For so long the processes that a host has told are not asked for again."""
START_SECONDS = 60.0
"""Between the age of a process and that of its JVM, which are asked for one after the other. Neither is told by the
wall's clock: a host's may be set while the process lives."""
AHEAD_SECONDS = 5.0
"""So far ahead of the node's own clock its statistics may be."""
LONGEST_SOCKET = 80
"""Bytes of a path at which ssh can make a socket: 108 less what it puts behind it while it does."""
AGAIN = "-x"
"""Behind it stands how often something was begun, in the id of what comes and goes."""
UNASKED = "!"
"""Of a process whose host did not answer: neither gone nor there."""


@cache
def digest() -> str:
    """SHA-256 of the program as this version has it, in hex."""
    return hashlib.sha256(Path(oschaos_host.__file__).read_bytes()).hexdigest()


class Reach(Protocol):
    """A way to one host and to the program there."""

    destination: str

    @property
    def ready(self) -> bool:
        """Whether it can be asked without anything being made there first."""
        ...

    def join(self, run: str) -> None:
        """It is used for this run from here on."""
        ...

    def answers(self) -> bool: ...

    def digest(self, *, anew: bool = True) -> tuple[str | None, str]:
        """SHA-256 of the program there, in hex; None, and what was said, where it cannot be read. Without ``anew``
        nothing is made there for it."""
        ...

    def ask(self, verb: str, asked: bytes, within: float) -> subprocess.CompletedProcess[bytes]:
        """What the program there says to one request. For ``begin`` nothing is made there. Raises LabError where it
        could not be asked."""
        ...

    def read(self, paths: Collection[str]) -> dict[str, str]:
        """What is in each of these files that is there. Raises LabError."""
        ...

    def close(self) -> None: ...


READ = ("grep", "-sH", ".")
"""Prints each line that is not empty behind the name of its file; a file that is not there does not matter."""


def told(said: str, paths: Iterable[str]) -> dict[str, str]:
    """What is in each of these files that is there, of what :data:`READ` printed of them."""
    lines = said.splitlines()
    found = {path: [line[len(path) + 1 :] for line in lines if line.startswith(f"{path}:")] for path in paths}
    return {path: "\n".join(held).strip() for path, held in found.items() if held}


class Ssh:
    """One destination. ``control``: the socket of the connection that calls share."""

    ready = True

    def __init__(self, destination: str, config: str | None, control: Path) -> None:
        self.destination, self._control = destination, control
        configured = ["-F", config] if config is not None else []
        options = {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "yes",
            "ConnectTimeout": str(CONNECT_SECONDS),
            "ServerAliveInterval": "3",
            "ServerAliveCountMax": "3",
            "ControlMaster": "auto",
            "ControlPath": str(control),
            "ControlPersist": str(PERSIST_SECONDS),
            "ForwardX11": "no",
            "ForwardAgent": "no",
            "ClearAllForwardings": "yes",
        }
        self._client = ["ssh", "-T", *configured, *(f"-o{key}={value}" for key, value in options.items())]

    def run(self, *words: str, given: bytes = b"", within: float = CALL_SECONDS) -> subprocess.CompletedProcess[bytes]:
        """Run fixed words there. Raises LabError where ssh does not get there, or does not end in time."""
        try:
            done = subprocess.run(
                [*self._client, "--", self.destination, *words],
                input=given,
                capture_output=True,
                timeout=within,
                start_new_session=True,
                check=False,
            )
        except FileNotFoundError:
            raise LabError("ssh is not here", remedy="install it, on Debian: apt-get install openssh-client") from None
        except subprocess.TimeoutExpired:
            raise LabError(f"ssh {self.destination} {' '.join(words)}: no answer within {within:g} s") from None
        if done.returncode == 255:  # ssh's own
            said = last_line(done.stderr) or "no reason"
            raise LabError(f"ssh {self.destination}: {said}", remedy=_remedy(done.stderr.decode(errors="replace")))
        return done

    def join(self, run: str) -> None:
        return

    def answers(self) -> bool:
        """Whether it lets us in."""
        try:
            return self.run("true", within=LOOK_SECONDS).returncode == 0
        except ChaosError:
            return False

    def digest(self, *, anew: bool = True) -> tuple[str | None, str]:
        done = self.run("sha256sum", PROGRAM, within=LOOK_SECONDS * 2)
        found = done.stdout.decode(errors="replace").split()
        return (found[0] if done.returncode == 0 and found else None), last_line(done.stderr)

    def ask(self, verb: str, asked: bytes, within: float) -> subprocess.CompletedProcess[bytes]:
        return self.run("sudo", "-n", PROGRAM, verb, given=asked, within=within)

    def read(self, paths: Collection[str]) -> dict[str, str]:
        done = self.run(*READ, *map(shlex.quote, paths), within=LOOK_SECONDS)  # ssh gives them to a shell
        return told(done.stdout.decode(errors="replace"), paths)

    def connect(self, host: str, port: int, timeout: float) -> socket.socket:
        """A connection that the host opens to an address, as its own processes would (``ssh -W``). ``timeout`` s for
        each later wait. It succeeds before anybody was reached; a refusal comes as its end. Raises OSError."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                subprocess.Popen(
                    [*self._client, "-W", f"[{host}]:{port}", "--", self.destination],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
        except OSError:
            ours.close()
            raise
        ours.settimeout(timeout)
        return ours

    def close(self) -> None:
        """End the connection that calls share; fine where there is none."""
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [*self._client, "-O", "exit", "--", self.destination],
                capture_output=True,
                timeout=5.0,
                start_new_session=True,
                check=False,
            )


def last_line(said: bytes) -> str:
    lines = [line.strip() for line in said.decode(errors="replace").splitlines() if line.strip()]
    return one_line(lines[-1])[:300] if lines else ""


def _remedy(said: str) -> str | None:
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in said or "Host key verification failed" in said:
        return "find out whose key it is, by another way; only then correct known_hosts"
    if "Permission denied" in said:
        return "give this user a key that the host takes, or an agent that has one"
    return None


class Hosts:
    """The hosts of one target. ``of_nodes``: node → destination. ``config``: see :class:`Ssh`.

    ``folder``: where sockets are put that connections share, if its name is short enough; it is made. ``others``: makes
    the way to a destination that ssh does not lead to; None: it is ssh's.
    """

    def __init__(
        self,
        of_nodes: Mapping[str, str],
        config: str | None,
        folder: Path,
        others: Callable[[str], Reach | None] = lambda _: None,
    ) -> None:
        self.of_nodes = dict(of_nodes)
        self.run, self.token = "", 0
        self.may_begin: Callable[[], None] = lambda: None
        """Raises ChaosError where the run must begin nothing more."""
        self._config, self._wanted, self._others = config, folder, others
        self._folder: Path | None = None
        self._temporary: weakref.finalize[..., Hosts] | None = None
        self._ssh: dict[str, Ssh] = {}
        self._reached: dict[str, Reach] = {}
        self._active: dict[tuple[str, str], float] = {}
        """(node, id) → its ttl, of what is to be extended."""
        self._begun: dict[tuple[str, str], int] = {}
        """(node, id) → how often."""
        self._outranked: dict[str, int] = {}
        """Node → the token of a run that must make nothing more on its host."""
        self._seen: dict[str, tuple[float, dict[str, Any]]] = {}
        self._groups: dict[str, Mapping[str, Any]] = {}
        self._looking: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._extender: threading.Thread | None = None

    # ---- reaching them --------------------------------------------------------------------------

    def ssh(self, destination: str) -> Ssh:
        with self._lock:
            if destination not in self._ssh:
                if self._folder is None:
                    self._folder = self._made()
                control = self._folder / f"{os.getpid()}-{len(self._ssh)}"
                self._ssh[destination] = Ssh(destination, self._config, control)
            return self._ssh[destination]

    def _made(self) -> Path:
        if len(str(self._wanted)) + 16 <= LONGEST_SOCKET:
            with suppress(OSError):
                self._wanted.mkdir(parents=True, exist_ok=True, mode=0o700)
                return self._wanted
        made = Path(tempfile.mkdtemp(prefix="oschaos-ssh-"))
        self._temporary = weakref.finalize(self, shutil.rmtree, made, ignore_errors=True)
        return made

    def of(self, node: str) -> Reach:
        """Raises FaultError where the file names no host of this node."""
        if node not in self.of_nodes:
            raise FaultError(f"the file names no host of {node}", remedy=f"write ssh under nodes, {node}")
        destination = self.of_nodes[node]
        with self._lock:
            if destination not in self._reached and (other := self._others(destination)) is not None:
                self._reached[destination] = other
            found = self._reached.get(destination)
        return self.ssh(destination) if found is None else found

    def ready(self, node: str) -> bool:
        """Whether a node's host can be asked now, without anything being made for it."""
        return node in self.of_nodes and self.of(node).ready

    def close(self) -> None:
        """End what this process has open. What is active on hosts stays."""
        self._over.set()
        if self._extender is not None:
            self._extender.join()
            self._extender = None
        with self._lock:
            every: list[Reach] = [*self._ssh.values(), *self._reached.values()]
            self._ssh, self._reached = {}, {}
            self._folder = None
        if every:
            with ThreadPoolExecutor(min(len(every), 16)) as pool:
                list(pool.map(lambda each: each.close(), every))
        if self._temporary is not None:
            self._temporary()

    def any_reached(self) -> bool:
        """Whether any of them lets us in."""
        return any(_each(lambda node: self.of(node).answers(), self.one_each()))

    # ---- the program ----------------------------------------------------------------------------

    def verify(self, node: str, *, anew: bool = True) -> None:
        """Raises FaultError where the program on this node's host is not this version's. ``anew``: as for
        :meth:`Reach.digest`."""
        there = self.of(node)
        found, said = there.digest(anew=anew)
        if found is None:
            raise FaultError(
                f"{PROGRAM} cannot be read on {there.destination}: {said}",
                remedy="install the program for hosts there (docs/hosts.md)",
            )
        if found != digest():
            raise FaultError(
                f"{PROGRAM} on {there.destination} is another program than this version's (SHA-256 {found[:12]}…, "
                f"expected {digest()[:12]}…)",
                remedy="install the package of this version there: make host-deb",
            )

    def call(self, node: str, verb: str, asked: Mapping[str, Any], *, within: float = CALL_SECONDS) -> dict[str, Any]:
        """What the program on this node's host answers. Raises FaultError where it refuses, LabError where it could
        not be asked."""
        there = self.of(node)
        done = there.ask(verb, json.dumps(asked).encode(), within)
        try:
            answer = json.loads(done.stdout)
            if answer["ok"] is not True:
                raise FaultError(
                    f"{there.destination}: {one_line(str(answer['why']))}", remedy=answer.get("remedy") or None
                )
        except (ValueError, LookupError, TypeError):
            said = last_line(done.stderr) or f"exit code {done.returncode}"
            remedy = "let this user call it by sudo: adduser USER oschaos" if "sudo" in said else None
            raise LabError(f"{there.destination}: {PROGRAM} {verb} gave no answer: {said}", remedy=remedy) from None
        return dict(answer)

    def facts(self, node: str) -> dict[str, Any]:
        """What is there, by the program whose hash was looked at. Raises as :meth:`verify` and :meth:`call`."""
        self.verify(node)
        return self.call(node, "facts", {})

    # ---- one run ---------------------------------------------------------------------------------

    def take(self, run: str) -> None:
        """From here on this run has the hosts: whoever had them before is refused. Raises ChaosError.

        The token is above all that any host has seen, and each has seen it before this returns. Its last digits are
        drawn, so that two who read the same never have the same one.
        """
        self.run = named(run)
        nodes = self.one_each()
        highest = max(int(facts["token"]) for facts in _each(self.facts, nodes))
        self.token = ((highest >> DRAWN_BITS) + 1 << DRAWN_BITS) | secrets.randbelow(1 << DRAWN_BITS)

        _each(lambda node: self._show(node, self.run, self.token), nodes)

    def _show(self, node: str, run: str, token: int) -> None:
        """Let a node's host see a token. Raises as :meth:`call`, where it has seen a higher one too."""
        # of nothing that is active: what stays of it is the token
        asked = {"run": run, "id": "token", "token": token, "ttl": TTL_SECONDS}
        try:
            self.call(node, "extend", asked)
        except FaultError as error:
            if "not active" not in error.message:
                raise

    def outrank(self, node: str, token: int) -> None:
        """When next something is undone on this node's host, who has this token can begin and extend nothing more
        there: the host sees the next number, which is above no token that was taken since."""
        with self._lock:
            self._outranked[node] = token + 1

    def one_each(self) -> list[str]:
        """A node of each host that can be asked now."""
        every = {destination: node for node, destination in self.of_nodes.items() if self.ready(node)}
        return list(every.values())

    def begin(self, node: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Make a fault, and extend it from here on. A host takes each id once; what is made again gets one of its own.
        Where others may have ended what was there for this run, nothing is made for it. Raises as :meth:`call`."""
        self.may_begin()
        self.verify(node, anew=False)
        with self._lock:
            times = self._begun[node, asked["id"]] = self._begun.get((node, asked["id"]), 0) + 1
        id = _once_more(asked["id"], times)
        answer = self.call(node, "begin", {**asked, "id": id, "ttl": TTL_SECONDS}, within=CALL_SECONDS * 3)
        with self._lock:
            self._active[node, id] = TTL_SECONDS
            if self._extender is None and not self._over.is_set():
                self._extender = threading.Thread(target=self._extend, name="hosts", daemon=True)
                self._extender.start()
        self.forget(node)
        return answer

    def begun_as(self, node: str, id: str) -> str:
        """Under which id this process has begun a fault there last: what comes and goes gets a new one each time."""
        with self._lock:
            return _once_more(id, self._begun.get((node, id), 0))

    def undo(self, node: str, run: str, id: str) -> None:
        """Take a fault away; fine where it is not there. Raises as :meth:`call`, and FaultError where something of it
        was left because others changed it."""
        self.of(node).join(run)
        with self._lock:
            times = self._begun.get((node, id), 0)
            for number in range(1, times + 1):
                self._active.pop((node, _once_more(id, number)), None)
        left = self._undo(node, run, _once_more(id, times))
        if not times:  # another process has begun it, who knows how often: asked only once the first is told to end
            with self._lock:
                token = self._outranked.pop(node, None)
            if token is not None:
                with suppress(ChaosError):  # it has seen a higher one, or has no room for it: undoing needs none
                    self._show(node, run, token)
            active = self.call(node, "state", {"run": run})["active"]
            for each in active:
                if str(each["id"]).startswith(f"{id}{AGAIN}"):
                    left += self._undo(node, run, str(each["id"]))
        self.forget(node)
        if left:
            raise FaultError(f"{self.of_nodes[node]}: {'; '.join(left)}")

    def _undo(self, node: str, run: str, id: str) -> list[str]:
        """Take one fault away. What was left because others changed it. Raises as :meth:`call`."""
        answer = self.call(node, "undo", {"run": run, "id": id}, within=CALL_SECONDS * 4)
        return [str(step["left"]) for step in answer.get("steps", ()) if "left" in step]

    def standing(self) -> list[str]:
        """What of this run is still active on the hosts, in words; hosts that do not answer are named."""

        def ask(node: str) -> list[str]:
            try:
                active = self.call(node, "state", {"run": self.run})["active"]
                return [f"{each['intent']} of {each['node']} is still there" for each in active]
            except (ChaosError, LookupError, TypeError) as error:
                return [f"whether something is left on {self.of_nodes[node]} is not known: {error}"]

        return [line for found in _each(ask, self.one_each()) for line in found]

    def _extend(self) -> None:
        while not self._over.wait(EXTEND_SECONDS):
            with self._lock:
                due = dict(self._active)

            def extend(each: tuple[str, str], due: dict[tuple[str, str], float] = due) -> None:
                node, id = each
                asked = {"run": self.run, "id": id, "token": self.token, "ttl": due[each]}
                with suppress(ChaosError):  # what nobody extends ends, and is then looked for in vain
                    self.call(node, "extend", asked, within=TTL_SECONDS / 3)

            _each(extend, list(due))

    # ---- processes -------------------------------------------------------------------------------

    def process(self, node: str) -> dict[str, Any] | None:
        """The node's process (pid, start, state), None where there is none. Raises as :meth:`call`."""
        destination = self.of(node).destination
        with self._lock:
            looking = self._looking.setdefault(destination, threading.Lock())
        with looking:
            when, told = self._seen.get(destination, (float("-inf"), {}))
            if time.monotonic() - when > FRESH_SECONDS:
                began = time.monotonic()
                told = self.call(node, "state", {}, within=LOOK_SECONDS).get("nodes") or {}
                self._seen[destination] = began, told
        if node not in told:
            raise FaultError(f"{destination}: its configuration names no node {node}")
        found: dict[str, Any] | None = told[node]
        return found

    def group(self, node: str, controller: str) -> Mapping[str, Any] | None:
        """Where this node's control group is, as ``facts`` say it; None where it has none of its own. Raises as
        :meth:`facts`."""
        groups: Mapping[str, Any] = self._groups.get(node) or self.facts(node)["nodes"].get(node, {}).get("groups", {})
        self._groups[node] = groups
        return groups.get(controller)

    def forget(self, node: str) -> None:
        """What was told of this node's host is old."""
        self._seen.pop(self.of_nodes[node], None)
        self._groups.pop(node, None)


def named(run: str) -> str:
    """A run as the program takes it: the end of its id, in which no two are alike."""
    return re.sub("[^a-z0-9]+", "-", run.lower())[-40:].strip("-")


def _once_more(id: str, times: int) -> str:
    """The id of what is made for that time."""
    return id if times <= 1 else f"{id}{AGAIN}{times}"


def _each(work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """Several at once; the first error is raised once all are over."""
    every = list(items)
    if not every:
        return []
    with ThreadPoolExecutor(min(len(every), 16)) as pool:
        return [each.result() for each in [pool.submit(work, item) for item in every]]


def unlike(node: str, told: Mapping[str, Any], asked: Mapping[str, Any]) -> str | None:
    """Why the process that a host calls a node's is not the one that the cluster says; None: it is.

    ``told``: of the program's facts, the node. ``asked``: of ``GET /_nodes/NODE/process``, the node, and of
    ``GET /_nodes/NODE/stats/jvm`` its ``jvm`` and ``timestamp``. These statistics are kept until the wall's clock has
    passed their own time by a second (``JvmService`` of OpenSearch 3.8.0): where it was set back they stand still.
    """
    process = told.get("process")
    if not process:
        return told.get("why") or f"no process of {node} runs there"
    pid, age = asked["process"]["id"], asked["jvm"]["uptime_in_millis"] / 1000
    there = process.get("inside", process["pid"])  # in a container it has a number of its own
    if pid != there:
        return f"there {node} is process {there}, and the cluster says that it is {pid}"
    ahead = (asked["jvm"]["timestamp"] - asked["timestamp"]) / 1000
    if ahead > AHEAD_SECONDS:
        return (
            f"its clock was set back while {node} ran, so its statistics stand still for {ahead:.0f} s more, and its "
            f"age is not known: restart {node}, or wait"
        )
    if abs(age - process["age"]) > START_SECONDS:
        return f"process {pid} there began at another time than the cluster says of {node}"
    return None
