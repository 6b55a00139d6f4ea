#!/usr/bin/python3 -IS
"""oschaos-host: faults on this host, each with a deadline. Called by root as ``oschaos-host VERB``, JSON in, JSON out.

For the reviewer. It reads one JSON object (64 KiB at most) and runs no shell: tools are found in four fixed folders and
get lists of arguments. What may be done, and to which nodes, says /etc/oschaos-host.json, which root alone may write.
A fault is a list of steps. Each kind of step has three functions: make, undo, measure (``STEPS``). ``begin`` writes the
steps down, arms a dead-man, sees that it is armed, and only then makes them. Whatever happens to the caller, the
dead-man undoes the steps at the deadline. Undo needs no token, no configuration and no room on any disk. Read from the
end: ``main``, ``VERBS``, ``begin``, ``finish``, ``INTENTS``, ``STEPS``. Docs: docs/hosts.md. Python 3.9, no packages.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import ipaddress
import json
import math
import os
import pwd
import re
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

VERSION = "0.1.0"
PROTOCOL = 1
Data = dict[str, Any]
Check = Callable[[Any], Any]
PLACES = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
MOST_INPUT = 64 * 1024
PREFIX = ".oschaos-"
"""Fillers begin with it; tables of nftables with ``oschaos_``, drop-ins with ``zz-oschaos-``."""
ROOT = ""
"""Put before /etc, /run and /var/lib by tests (``--root``); see ``main`` for who may."""
MAIN_CLASS = "org.opensearch.bootstrap.OpenSearch"
"""Of the node's process, in its command line."""
CLONE_NEWNET = 0x40000000
STOPPING = 180
"""Seconds after which a process that was asked to end is taken for one that will not."""


class Refused(Exception):
    """Not done, and why; and what helps."""

    def __init__(self, why: str, remedy: str = "") -> None:
        super().__init__(why)
        self.why, self.remedy = why, remedy


# --- Small things -----------------------------------------------------------------------------------------------------


def now() -> float:
    """Seconds since boot, suspended ones too. Nobody can set this clock, so no deadline moves with the wall's."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def text_of(path: str, most: int = 1 << 20) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(most).strip()


def put(path: str, text: str) -> None:
    """Write into a file of the kernel."""
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def boot() -> str:
    return text_of("/proc/sys/kernel/random/boot_id")


def tool(name: str) -> str | None:
    return next((f"{place}/{name}" for place in PLACES if os.access(f"{place}/{name}", os.X_OK)), None)


def run(name: str, *arguments: str, given: str = "") -> str:
    """What a tool prints, which comes through pipes: a full disk does not matter. Raises ``Refused`` where it fails."""
    path = tool(name)
    if path is None:
        raise Refused(f"{name} is not on this host", f"install the package that brings {name}")
    try:
        done = subprocess.run([path, *arguments], input=given, capture_output=True, text=True, timeout=20, cwd="/")
    except (subprocess.TimeoutExpired, OSError) as error:
        raise Refused(f"{name} {' '.join(arguments)}: {error}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Refused(f"{name} {' '.join(arguments)} failed: {said[0] if said else done.returncode}")
    return done.stdout


def until(condition: Callable[[], object], seconds: float) -> bool:
    end = now() + seconds
    while not condition():
        if now() > end:
            return False
        time.sleep(0.02)
    return True


@contextlib.contextmanager
def held(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


# --- Files of ours ----------------------------------------------------------------------------------------------------


def folder(path: str) -> str:
    """A folder of ours (0700), made if need be. One that others may write to is refused: they could plant an undo."""
    path = ROOT + path
    with contextlib.suppress(FileExistsError):
        os.makedirs(path, 0o700)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise Refused(f"{path} is not ours alone", f"remove {path}; it is made anew")
    return path


def ours(file: str = "", within: str = "/run") -> str:
    """A file of ours. A reboot empties /run, and takes away nearly all that we do."""
    return f"{folder(f'{within}/oschaos-host')}/{file}"


def write(path: str, content: str) -> None:
    """All of it and on disk, or nothing: who reads sees the old content or the new. Raises ``Refused`` (no room)."""
    new = f"{path}.new"
    try:
        with open(new, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
        with held(os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)) as directory:
            os.fsync(directory)
    except OSError as error:
        remove(new)
        raise Refused(f"{path} could not be written: {error.strerror}", "make room there") from error


def remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


@contextlib.contextmanager
def locked(path: str, record: str | None = None) -> Iterator[None]:
    """Hold flock(2) on a file, which the kernel drops with its holder. It goes with the ``record`` that it is for."""
    end = now() + 30
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise Refused(f"{path} could not be made: {error.strerror}", "make room there") from error
        with contextlib.suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_ino == os.stat(path).st_ino:  # else its last holder took it away meanwhile
                break
        os.close(descriptor)
        if now() > end:
            raise Refused(f"somebody else has held {path} for 30 s", "try again; see state")
        time.sleep(0.02)
    try:
        yield
    finally:
        if record is not None and not os.path.exists(record):
            remove(path)
        os.close(descriptor)


def record_lock(name: str) -> contextlib.AbstractContextManager[None]:
    return locked(ours(f"{name}.lock"), ours(f"{name}.json"))


def load(name: str) -> Data | None:
    try:
        return dict(json.loads(text_of(ours(f"{name}.json"))))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise Refused(f"{ours(name)}.json is no record: {error}", "see by nft, tc and ps what is there") from error


def active(name: str) -> Data | None:
    """The record of a fault of this boot; what an earlier one left is nobody's."""
    record = load(name)
    return record if record is not None and record["boot"] == boot() else None


def names() -> list[str]:
    return sorted(file[:-5] for file in os.listdir(ours()) if file.endswith(".json"))


def every(boots: bool = False) -> list[Data]:
    """All records of this boot, or of all ``boots``."""
    return [record for name in names() if (record := load(name) if boots else active(name)) is not None]


def note_end(name: str, why: str, results: list[Data], astray: list[Data]) -> None:
    """For ``state``, and so that a request that comes late begins nothing. As well as it can be: undo needs no room.
    ``astray``: steps of which something of ours is still somewhere."""
    said = {"why": why, "at": now(), "boot": boot(), "steps": results, "astray": astray}
    with contextlib.suppress(OSError, Refused):
        write(ours(f"{name}.ended"), json.dumps(said))
        ended = [ours(file) for file in os.listdir(ours()) if file.endswith(".ended")]
        for path in sorted(ended, key=os.path.getmtime)[:-200]:
            remove(path)


def end_of(name: str) -> Data:
    """How a fault ended; nothing where that is not known."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        return dict(json.loads(text_of(ours(f"{name}.ended"))))
    return {}


def highest_token() -> int:
    path = ours("token", "/var/lib")
    try:
        return int(text_of(path, 40))
    except FileNotFoundError:
        return 0
    except ValueError as error:
        raise Refused(f"{path} holds no number", "find out who wrote it; write the highest token there") from error


def accept_token(token: int) -> None:
    """The fencing law: no token below one that was seen. A new highest one is on disk before anything else is done."""
    seen = highest_token()
    if token < seen:
        raise Refused(f"token {token} is older than {seen}: somebody else has the lock", "take the lock again")
    if token > seen:
        write(ours("token", "/var/lib"), f"{token}\n")


# --- What may be asked: every field by type and range, no unknown ones ------------------------------------------------


def that(expected: str, good: Callable[[Any], object]) -> Check:
    def check(value: Any) -> Any:
        if not good(value):
            raise ValueError(expected)
        return value

    return check


def matching(pattern: str) -> Check:
    return that(f"a text like {pattern}", lambda value: isinstance(value, str) and re.fullmatch(pattern, value))


def whole(least: int, most: int) -> Check:  # True is a bool, and no int here
    return that(f"a whole number from {least} to {most}", lambda value: type(value) is int and least <= value <= most)


def number(least: float, most: float) -> Check:
    numbers = (int, float)
    return that(f"a number from {least} to {most}",
                lambda value: type(value) in numbers and math.isfinite(value) and least <= value <= most)  # fmt: skip


def one_of(*values: Any) -> Check:
    expected = f"one of {', '.join(map(json.dumps, values))}"
    return that(expected, lambda value: any(type(value) is type(each) and value == each for each in values))


def some(check: Check, most: int, least: int = 1) -> Check:
    def all_of(value: Any) -> list[Any]:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise ValueError(f"a list of {least} to {most}")
        return sorted({check(each): None for each in value})

    return all_of


def address(value: Any) -> str:
    if not isinstance(value, str) or "%" in value:
        raise ValueError("an address")
    return plain(value)


def plain(value: str | bytes) -> str:
    found = ipaddress.ip_address(value)
    return str(getattr(found, "ipv4_mapped", None) or found)


def network(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a network such as 10.0.0.0/16")
    return str(ipaddress.ip_network(value))


YES_OR_NO = one_of(True, False)
NAME = matching(r"[a-z0-9-]{1,40}")
NODE = matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
PORTS = some(whole(1, 65535), 16)
PATH = matching(r"/[A-Za-z0-9._/-]{0,200}")
TOKEN = whole(0, 2**63 - 1)
TTL = number(2, 86400)
SHARED = {"ports": PORTS, "data": PATH}
BY_UNIT = {"unit": matching(r"[A-Za-z0-9@._-]{1,120}\.service")}
ARGV = that("a list of arguments, the first an absolute path",
            lambda value: isinstance(value, list) and value and all(isinstance(each, str) for each in value)
            and "\0" not in "".join(value) and os.path.isabs(value[0]))  # fmt: skip
BY_PID = {"pidfile": PATH, "start": ARGV, "user": matching(r"[a-z_][a-z0-9_-]{0,31}")}
BY_POD = {"pod": matching(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")}
"""By the uid of a pod of Kubernetes: where this program runs in a pod itself, beside that of the node."""


def checked(given: Any, needed: dict[str, Check], optional: dict[str, Check] | None = None, what: str = "") -> Data:
    """``given``, if it has exactly these fields. Raises ``Refused``, which names the first that is wrong."""
    checks = {**needed, **(optional or {})}
    if not isinstance(given, dict):
        raise Refused(f"{what or 'the request'} is no JSON object")
    where = f"{what}: " if what else ""
    for field in [*given, *needed]:
        if field not in checks:
            raise Refused(f"{where}unknown field {field!r:.60}", f"fields are: {', '.join(checks) or 'none'}")
        if field not in given:
            raise Refused(f"{where}{field} is missing")
    result = {}
    for field, value in given.items():
        try:
            result[field] = checks[field](value)
        except (ValueError, OverflowError, TypeError) as error:
            raise Refused(f"{where}{field}: {error}") from error
    return result


def parsed(text: str) -> Any:
    """JSON without the liberties that two readers could take differently."""

    def once(pairs: list[tuple[str, Any]]) -> Data:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a field stands there twice")
        return dict(pairs)

    def never(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    if len(text) > MOST_INPUT:
        raise Refused(f"more than {MOST_INPUT} bytes")
    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=never)
    except (ValueError, RecursionError) as error:
        raise Refused(f"no JSON: {error}") from error


def configuration() -> Data:
    """/etc/oschaos-host.json, if nobody but root can have written it."""
    path = f"{ROOT}/etc/oschaos-host.json"
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="utf-8") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
                remedy = f"chown root:root {path}; chmod 0644 {path}"
                raise Refused(f"{path} can be written by others than root", remedy)
            given = parsed(file.read(MOST_INPUT + 1))
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}", "write it; docs/hosts.md has an example") from error
    if os.stat(os.path.dirname(path)).st_mode & 0o022:
        raise Refused(f"the folder of {path} can be written by others than root", "chmod 0755 it")
    by_name = that("nodes by name", lambda value: isinstance(value, dict) and value and all(map(NODE, value)))
    needed = {"nodes": by_name, "intents": some(one_of(*INTENTS), len(INTENTS), 0), "longest": whole(2, 86400)}
    config = checked(given, needed, {"peers": some(network, 256), "everything": YES_OR_NO}, path)
    for name, node in config["nodes"].items():
        ways = (("unit", BY_UNIT), ("pod", BY_POD))
        needed = next((fields for key, fields in ways if isinstance(node, dict) and key in node), BY_PID)
        config["nodes"][name] = checked(node, needed, SHARED, f"{path}: node {name}")
    return config


# --- Processes --------------------------------------------------------------------------------------------------------


def process(pid: int) -> Data | None:
    """Who it is: a pid is given again to others, pid and start time are not. A zombie is nobody."""
    try:
        fields = text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()
        user = int(re.search(r"^Uid:\s+\d+\s+(\d+)", text_of(f"/proc/{pid}/status"), re.M)[1])  # type: ignore[index]
    except (OSError, IndexError, TypeError):
        return None
    if fields[0] in "ZX":
        return None
    return {"pid": pid, "parent": int(fields[1]), "start": int(fields[19]), "state": fields[0], "user": user}


def pid_inside(pid: int) -> int:
    """The number that a process has for itself, where it is in a namespace of processes of its own (NSpid)."""
    with contextlib.suppress(OSError, TypeError):
        return int(re.search(r"^NSpid:.*?(\d+)\s*$", text_of(f"/proc/{pid}/status"), re.M)[1])  # type: ignore[index]
    return pid


def same(step: Data) -> Data | None:
    found = process(step["pid"])
    return found if found is not None and found["start"] == step["start"] else None


def send(step: Data, number: int) -> bool:
    """Signal exactly this process, by pidfd: nobody else who has got its pid meanwhile. False: it is gone."""
    with contextlib.suppress(ProcessLookupError), held(os.pidfd_open(step["pid"])) as descriptor:
        if same(step) is not None:
            signal.pidfd_send_signal(descriptor, number)
            return True
    return False


def user_of(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except KeyError as error:
        raise Refused(f"there is no user {name} on this host", "correct the configuration") from error


def unit_shows(unit: str, name: str) -> str:
    return run("systemctl", "show", unit, f"--property={name}").strip().partition("=")[2]


def members(pod: str) -> Iterator[int]:
    """The processes of a pod."""
    for pid in sorted(int(each) for each in os.listdir("/proc") if each.isdigit()):
        with contextlib.suppress(OSError):
            if is_of_pod(pod, text_of(f"/proc/{pid}/cgroup")):
                yield pid


def is_of_pod(pod: str, group: str) -> bool:
    """Whether a control group's name is that of a pod: a kubelet names it by the pod's uid, in which systemd's names
    take no hyphen."""
    return f"pod{pod}" in group or f"pod{pod.replace('-', '_')}" in group


def node_process(node: Data, strict: bool = False) -> Data | None:
    """The node's process; None while there is none. ``strict`` raises ``Refused`` where its pid is somebody else's."""
    if "unit" in node:
        return process(int(unit_shows(node["unit"], "MainPID") or 0))
    if "pod" in node:
        for pid in members(node["pod"]):
            with contextlib.suppress(OSError):
                if MAIN_CLASS in text_of(f"/proc/{pid}/cmdline"):
                    return process(pid)
        return None
    try:
        with open(os.open(node["pidfile"], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), encoding="ascii") as file:
            found = process(int(file.read(20)))
    except (OSError, ValueError):
        return None
    # Whoever may write the pid file must not choose whom root signals: only processes of the node's own user count.
    if found is not None and found["user"] != user_of(node["user"]).pw_uid:
        if strict:
            raise Refused(f"{node['pidfile']} names process {found['pid']}, which is not of user {node['user']}")
        return None  # at an undo: the file is stale, and others have got the pid
    return found


def start_node(node: Data) -> None:
    """Start it as its owners do, and see a process of it. Raises ``Refused`` where none came."""
    if "pod" in node:
        raise Refused("a pod's containers are started by its kubelet", "wait for it")
    if "unit" in node:
        with contextlib.suppress(Refused):  # so that a limit of starts does not stop us
            run("systemctl", "reset-failed", node["unit"])
        run("systemctl", "start", "--no-block", node["unit"])
        if not until(lambda: node_process(node), 20):
            raise Refused(f"{node['unit']} did not start", f"systemctl status {node['unit']}")
        return
    user = user_of(node["user"])
    oom_score("0")  # a dead-man has lowered its own score, and the node must not inherit that
    started = subprocess.Popen(
        node["start"], cwd="/", user=user.pw_uid, group=user.pw_gid, umask=0o022, start_new_session=True,
        extra_groups=os.getgrouplist(user.pw_name, user.pw_gid), env={**os.environ, "HOME": user.pw_dir},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    if not until(lambda: node_process(node) or started.poll(), 120) or node_process(node) is None:
        raise Refused(f"no process came of {' '.join(node['start'])} (exit code {started.poll()})")


def oom_score(score: str) -> None:
    with contextlib.suppress(OSError):
        put("/proc/self/oom_score_adj", score)


# --- Steps: make, undo, measure. Undo is idempotent, whether the step was made or not, and writes nothing -------------
# Undo returns {"gone": ...} in words, or {"left": ...} where somebody else has changed it. Raising means: try again.


def seen_gone(step: Data, says: str) -> Data:
    if STEPS[step["step"]].measure(step)["there"]:
        raise Refused(f"it is still there after its undo ({says})")
    return {"gone": says}


def make_pause(step: Data) -> None:
    if not send(step, signal.SIGSTOP) or not until(lambda: measure_pause(step)["there"], 5):
        raise Refused(f"process {step['pid']} did not stop")


def undo_pause(step: Data) -> Data:
    if same(step) is None:
        return {"gone": "the process is gone, so nothing was to be continued"}
    if not measure_pause(step)["there"]:
        return {"gone": "it runs"}
    send(step, signal.SIGCONT)
    if not until(lambda: not measure_pause(step)["there"], 5):
        raise Refused(f"process {step['pid']} does not go on")
    return {"gone": "it was continued, and runs"}


def measure_pause(step: Data) -> Data:
    state = (same(step) or {"state": None})["state"]
    return {"there": state in ("T", "t"), "state": state}


def make_down(step: Data) -> None:
    kill, unit = step["how"] == "kill", step["node"].get("unit")
    if unit is not None:
        run("systemctl", *(("kill", "--signal=SIGKILL") if kill else ("stop", "--no-block")), unit)
    elif not send(step, signal.SIGKILL if kill else signal.SIGTERM):
        raise Refused(f"process {step['pid']} was gone already")
    if kill and not until(lambda: same(step) is None, 10):
        raise Refused(f"process {step['pid']} did not die")


def undo_down(step: Data) -> Data:
    killed, left = step["how"] == "kill", step["began"] + STOPPING - now()
    if not until(lambda: same(step) is None, 5 if killed else min(30.0, max(0.0, left))):
        if killed:
            return {"gone": f"process {step['pid']} was never killed"}
        if now() < step["began"] + STOPPING:
            raise Refused(f"process {step['pid']} has not ended yet")
        return {"left": f"process {step['pid']} never ended, and goes on"}
    if node_process(step["node"]) is not None:
        return {"gone": "somebody has started it already"}
    start_node(step["node"])
    return {"gone": "it was started"}


def measure_down(step: Data) -> Data:
    found = node_process(step["node"])
    return {"there": found is None, "stopping": same(step) is not None, "pid": found["pid"] if found else None}


def make_dropin(step: Data) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(os.path.dirname(step["path"]))
        os.chmod(os.path.dirname(step["path"]), 0o755)
    write(step["path"], step["text"])
    os.chmod(step["path"], 0o644)
    run("systemctl", "daemon-reload")
    if unit_shows(step["unit"], "Restart") != "no":
        raise Refused(f"{step['unit']} is still restarted by systemd", "look for drop-ins that come after ours")


def undo_dropin(step: Data) -> Data:
    remove(step["path"])
    with contextlib.suppress(OSError):  # others may have drop-ins there
        os.rmdir(os.path.dirname(step["path"]))
    run("systemctl", "daemon-reload")
    return {"gone": "systemd restarts it as before"}


def tables() -> list[str]:
    """The tables of nftables that are ours by name."""
    listed = [each["table"] for each in json.loads(run("nft", "-j", "list", "tables"))["nftables"] if "table" in each]
    return [each["name"] for each in listed if each["family"] == "inet" and each["name"].startswith("oschaos_")]


def written_here(table: str) -> bool:
    """Whether a table has what ``rules`` writes and nothing else: its name alone may be somebody else's too."""
    parts = json.loads(run("nft", "-j", "list", "table", "inet", table))["nftables"]
    comments = {part["rule"].get("comment") for part in parts if "rule" in part}
    chains = {part["chain"]["name"] for part in parts if "chain" in part}
    return chains <= {"in", "out", "through"} and "hit" in comments and comments <= COMMENTS


COMMENTS = {"met", "hit", "spared"}


def undo_table(step: Data) -> Data:
    if step["table"] in tables():
        run("nft", "delete", "table", "inet", step["table"])
    return seen_gone(step, f"no table {step['table']}")


def measure_table(step: Data) -> Data:
    if step["table"] not in tables():
        return {"there": False}
    listed = json.loads(run("nft", "-j", "list", "table", "inet", step["table"]))["nftables"]
    packets = {"hit": 0, "spared": 0}
    for rule in (each["rule"] for each in listed if "rule" in each):
        packets.setdefault(rule["comment"], 0)
        packets[rule["comment"]] += sum(part["counter"]["packets"] for part in rule["expr"] if "counter" in part)
    return {"there": True, **packets}


@contextlib.contextmanager
def on_machine() -> Iterator[None]:
    """Be in the network namespace of the machine's first process, and then in ours again. Raises ``Refused``."""
    try:
        first = os.open("/proc/1/ns/net", os.O_RDONLY)
    except OSError as error:
        raise Refused(f"the network of the machine cannot be entered: {error.strerror}") from error
    with held(first) as theirs, held(os.open("/proc/self/ns/net", os.O_RDONLY)) as mine:
        set_network(theirs)
        try:
            yield
        finally:
            set_network(mine)


def of_machine(does: Callable[[Data], Any]) -> Callable[[Data], Any]:
    """The same, done in the network of the machine."""

    def done(step: Data) -> Any:
        with on_machine():
            return does(step)

    return done


def relay_file(step: Data) -> str:
    """Where the process that passes questions on says who it is and at which ports it listens."""
    return ours(f"{step['name']}.relay")


def make_relay(step: Data) -> None:
    start_apart(calling("relay", step["name"]), lambda: os.path.exists(relay_file(step)),
                "the process that passes questions on")  # fmt: skip
    ports = parsed(text_of(relay_file(step)))["ports"]
    lines = [f"table inet {step['table']} {{", "  chain out {"]
    lines.append("    type nat hook output priority -100; policy accept;")
    lines.append(f'    meta mark {RELAYED} accept comment "spared"')
    for server in step["servers"]:
        to = f"{'ip6' if ':' in server else 'ip'} daddr {server}"
        lines.append(f'    {to} udp dport {DNS_PORT} counter redirect to :{ports[server]} comment "hit"')
    run("nft", "-f", "-", given="\n".join([*lines, "  }", "}", ""]))


def relaying(step: Data) -> Data | None:
    with contextlib.suppress(OSError, Refused, KeyError):
        return same(parsed(text_of(relay_file(step))))
    return None


def undo_relay(step: Data) -> Data:
    undone = undo_table(step)
    if relaying(step) is not None:
        send(parsed(text_of(relay_file(step))), signal.SIGKILL)
    remove(relay_file(step))
    return undone


def measure_relay(step: Data) -> Data:
    told = measure_table(step)
    return {**told, "there": told["there"] and relaying(step) is not None}


def root_qdisc(device: str) -> tuple[str, str]:
    """Kind and handle of what queues on a device. Those that the kernel puts there itself have the handle ``0:``."""
    # not by /sys, which may show another network namespace than the one that we are in
    if device not in (line.partition(":")[0].strip() for line in text_of("/proc/self/net/dev").splitlines()):
        return "gone", "0:"
    listed = json.loads(run("tc", "-j", "qdisc", "show", "dev", device) or "[]")
    return next(((each["kind"], each["handle"]) for each in listed if each.get("root")), ("none", "0:"))


def undo_qdisc(step: Data) -> Data:
    device, found = step["device"], root_qdisc(step["device"])
    if found == ("htb", step["handle"]):
        run("tc", "qdisc", "del", "dev", device, "root", "handle", step["handle"])
    elif found[1] != "0:":
        return {"left": f"somebody else changed the queueing of {device} to {found[0]} {found[1]}"}
    return seen_gone(step, f"{device} queues as before")


def measure_qdisc(step: Data) -> Data:
    there = root_qdisc(step["device"]) == ("htb", step["handle"])
    classes = run("tc", "-s", "-j", "class", "show", "dev", step["device"]).strip()[:2000] if there else ""
    return {"there": there, "device": step["device"], "handle": step["handle"], "classes": classes}


@contextlib.contextmanager
def inside(step: Data) -> Iterator[int]:
    """The data folder, opened; raises ``FileNotFoundError`` where it is not the same file system any more."""
    with held(os.open(step["path"], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)) as directory:
        if os.fstat(directory).st_dev != step["device"]:
            raise FileNotFoundError(step["path"])
        yield directory


def room(where: int | str) -> Data:
    """Bytes of a file system: in all, and free to who is not root."""
    found = os.statvfs(where)
    return {"bytes": found.f_blocks * found.f_frsize, "free": found.f_bavail * found.f_frsize}


def make_filler(step: Data) -> None:
    # EXCL and NOFOLLOW: whoever owns the folder cannot lead us elsewhere by a link of this name
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with inside(step) as directory, held(os.open(step["file"], flags, 0o600, dir_fd=directory)) as descriptor:
        most = 2**63
        while (size := min(room(descriptor)["free"] - step["leave"], most)) >= 4096:
            try:
                os.posix_fallocate(descriptor, os.fstat(descriptor).st_size, size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                most = size // 2  # others write meanwhile, and what describes the blocks needs blocks too
        if os.fstat(descriptor).st_blocks == 0:
            raise Refused(f"no more than {step['leave']} bytes are free already")


def undo_filler(step: Data) -> Data:
    try:
        with inside(step) as directory, contextlib.suppress(FileNotFoundError):
            os.unlink(step["file"], dir_fd=directory)
    except FileNotFoundError:
        return {"left": f"somebody else mounted or removed {step['path']}; {step['file']} may be on that file system"}
    return seen_gone(step, "no filler is there")


def measure_filler(step: Data) -> Data:
    with contextlib.suppress(OSError), inside(step) as directory:
        found = os.stat(step["file"], dir_fd=directory, follow_symlinks=False)
        return {"there": True, "bytes": found.st_blocks * 512, "free": room(directory)["free"]}
    return {"there": False}


def value_of(step: Data) -> str | None:
    """What a file of a control group holds, or its line of a device; None where the group is gone."""
    try:
        held = text_of(step["path"])
    except FileNotFoundError:
        return None
    if step["device"] is None:
        return held
    lines = (line.partition(" ") for line in held.splitlines())
    return next((value.strip() for key, _, value in lines if key == step["device"]), step["unset"])


def set_value(step: Data, value: str) -> None:
    try:
        put(step["path"], value if step["device"] is None else f"{step['device']} {value}")
    except OSError as error:
        raise Refused(f"the kernel takes no {value} in {step['path']}: {error.strerror}") from error


def make_value(step: Data) -> None:
    set_value(step, step["ours"])
    if value_of(step) != step["ours"]:
        raise Refused(f"{step['path']} became {value_of(step)} instead of {step['ours']}")


def undo_value(step: Data) -> Data:
    held = value_of(step)
    if held is None:
        return {"gone": "the control group is gone, and its limit with it"}
    if held not in (step["ours"], step["before"]):
        return {"left": f"somebody else changed {step['path']} to {held}; it was {step['before']} before"}
    if held == step["ours"]:
        set_value(step, step["before"])
    if value_of(step) not in (step["before"], None):
        raise Refused(f"{step['path']} is {value_of(step)}, and not {step['before']} as before")
    return {"gone": f"{os.path.basename(step['path'])} is {step['before']} as before"}


def measure_value(step: Data) -> Data:
    held = value_of(step)
    return {"there": held == step["ours"], "value": held, "before": step["before"]}


def make_exhaustion(step: Data) -> None:
    """A limit of version 2 that is below what is used ends the node's process itself. One of version 1 is not taken
    then: so the limit is first a bit above it, and a process of ours in the node's group takes the rest."""
    if step["version"] == 2:
        set_value(step, step["ours"])
    else:
        set_value(step, step["first"])
        if (eater := os.fork()) == 0:
            with contextlib.suppress(OSError, MemoryError):
                eat(step)
            os._exit(0)
        until(lambda: same(step) is None, EATING_SECONDS)
        os.kill(eater, signal.SIGKILL)
        os.waitpid(eater, 0)
    if not until(lambda: same(step) is None, EATING_SECONDS):
        raise Refused("the kernel did not end the node's process")
    if not until(lambda: lowered(step), EATING_SECONDS):
        raise Refused(f"{step['path']} became {value_of(step)} instead of {step['ours']}")


def eat(step: Data) -> None:
    """Take memory in the node's control group until its process is gone, and never so much that the pod would lack any
    without it. The kernel chooses whom it ends, and by this score not us."""
    put(f"{step['group']}/cgroup.procs", str(os.getpid()))
    oom_score("-1000")
    taken: list[bytes] = []
    while same(step) is not None and len(taken) << 20 < step["eaten"]:
        taken.append(b"x" * (1 << 20))
    time.sleep(EATING_SECONDS)  # hold it: the process that wants more now may be the node's


def lowered(step: Data) -> bool:
    with contextlib.suppress(Refused):  # as long as more is used than that, which is freed now
        set_value(step, step["ours"])
    return bool(value_of(step) == step["ours"])


def undo_exhaustion(step: Data) -> Data:
    first = step["version"] == 1 and value_of(step) == step["first"]  # we were ended in between
    return undo_value({**step, "ours": step["first"]} if first else step)


class Mount(NamedTuple):
    """``root``: which folder of the file system is mounted ``at`` which place; ``kind`` and ``options``: of the file
    system, with those of the mount before (proc_pid_mountinfo(5))."""

    device: str
    root: str
    at: str
    kind: str
    options: list[str]


def mounts_of(whose: int | str) -> list[Mount]:
    """All mounts that a process sees, an older one at the same place before a newer one."""
    found = []
    for line in text_of(f"/proc/{whose}/mountinfo", 1 << 24).splitlines():
        of_mount, _, of_system = line.partition(" - ")
        _, _, device, root, at, options, *_ = of_mount.split()
        kind, _, own = of_system.split(" ", 2)
        found.append(Mount(device, root, at, kind, [*options.split(","), *own.split(",")]))
    return found


def mounted(path: str) -> list[str]:
    """The options of a mount and of its file system; nothing where none is there."""
    return next((mount.options for mount in reversed(mounts_of("self")) if mount.at == path), [])


def undo_mount(step: Data) -> Data:
    if not mounted(step["path"]) or os.stat(step["path"]).st_dev != step["device"]:
        return {"left": f"somebody else mounted or unmounted {step['path']}"}
    if "ro" in mounted(step["path"]):
        run("mount", "-o", "remount,rw", step["path"])
    return seen_gone(step, f"{step['path']} takes writes")


class Step(NamedTuple):
    make: Callable[[Data], object]
    undo: Callable[[Data], Data]
    measure: Callable[[Data], Data]


# one transaction: all rules or none
TABLE = Step(lambda step: run("nft", "-f", "-", given=step["text"]), undo_table, measure_table)
STEPS = {
    "pause": Step(make_pause, undo_pause, measure_pause),
    "down": Step(make_down, undo_down, measure_down),
    "dropin": Step(make_dropin, undo_dropin, lambda step: {"there": os.path.exists(step["path"])}),
    "table": TABLE,
    "isolation": Step(*map(of_machine, TABLE)),
    "relay": Step(make_relay, undo_relay, measure_relay),
    "qdisc": Step(lambda step: run("tc", "-batch", "-", given=step["text"]), undo_qdisc, measure_qdisc),
    "filler": Step(make_filler, undo_filler, measure_filler),
    "value": Step(make_value, undo_value, measure_value),
    "exhaustion": Step(make_exhaustion, undo_exhaustion, measure_value),
    # the kernel refuses while files are open for writing
    "mount": Step(lambda step: run("mount", "-o", "remount,ro", step["path"]), undo_mount,
                  lambda step: {"there": "ro" in mounted(step["path"])}),
}  # fmt: skip


# --- Plans: what an intent needs, as steps. They look, and change nothing ---------------------------------------------
# A plan gets the checked request (with its name), the node as configured, and the configuration.


def running(node: Data) -> Data:
    found = node_process(node, strict=True)
    if found is None:
        raise Refused("the node does not run", "start it first")
    return {"pid": found["pid"], "start": found["start"]}


def plan_down(ask: Data, node: Data, config: Data) -> list[Data]:
    how = "kill" if ask["intent"] == "node.kill" else "stop"
    down = {"step": "down", "how": how, "node": node, "began": now(), **running(node)}
    if how == "stop" or "unit" not in node:
        return [down]
    # Else systemd starts it again by Restart=. A drop-in in /run is the least that keeps it from that: a mask in /run
    # is ignored where the unit's file is in /etc. It is written first and taken away last, after the start.
    path = f"/run/systemd/system/{node['unit']}.d/zz-oschaos-{ask['name']}.conf"
    return [{"step": "dropin", "unit": node["unit"], "path": path, "text": "[Service]\nRestart=no\n"}, down]


def volume_of_pod(node: Data) -> tuple[str, int]:
    """Where the machine has the volume that a pod's data folder is on, below the kubelet's folder of that pod. There it
    stays while containers come and go. Refuses what is only a part of a file system, or another pod's too."""
    held_there = ((each["path"], each["device"]) for record in every() for each in record["steps"]
                  if each["step"] == "filler")  # fmt: skip
    found = node_process(node)
    if found is None and (known := next(held_there, None)) is not None:
        return known  # its container has ended: where its volume is, is written down
    device = next((mount.device for mount in mounts_of(running(node)["pid"]) if mount.at == node["data"]), None)
    if device is None:
        raise Refused(f"{node['data']} is no volume of the pod")
    whose, before = machine()
    whole = [mount.at for mount in mounts_of(whose) if mount.device == device and mount.root == "/"]
    mine = [at for at in whole if f"/{node['pod']}/" in at]
    if not mine:
        raise Refused(f"{node['data']} has no file system of its own: others would be hit too")
    if others := [at for at in whole if "/pods/" in at and at not in mine]:
        raise Refused(f"another pod has the same volume, and would be hit too: {others[0]}")
    path = before + mine[0]
    if (number := os.lstat(path).st_dev) != os.makedev(*map(int, device.split(":"))):
        raise Refused(f"{path} is another file system than {node['data']} of the pod")
    return path, number


def own_file_system(node: Data) -> tuple[str, int]:
    path = node.get("data")
    if path is None:
        raise Refused("the configuration names no data folder of this node")
    if "pod" in node:
        return volume_of_pod(node)
    try:
        device = os.lstat(path).st_dev
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    if os.path.realpath(path) != path:
        raise Refused(f"{path} leads over a link", "name the folder itself in the configuration")
    if device in (os.stat("/").st_dev, os.stat(os.path.dirname(path)).st_dev):
        raise Refused(f"{path} has no file system of its own: others would be hit too")
    return path, device


def plan_filler(ask: Data, node: Data, config: Data) -> list[Data]:
    path, device = own_file_system(node)
    leave = ask.get("leave_bytes", 0)
    if "share" in ask:
        leave = max(leave, int(room(path)["bytes"] * (1 - ask["share"])))
    return [{"step": "filler", "path": path, "file": f"{PREFIX}{ask['name']}", "device": device, "leave": leave}]


def plan_mount(ask: Data, node: Data, config: Data) -> list[Data]:
    path, device = own_file_system(node)
    if "ro" in mounted(path):
        raise Refused(f"{path} is read-only already")
    return [{"step": "mount", "path": path, "device": device}]


def machine() -> tuple[str, str]:
    """Whose mounts in /proc are the machine's, and what is before their paths: its first process's, else our own."""
    return ("1", "/proc/1/root") if os.path.exists("/proc/1/root/proc") else ("self", "")


def seen_by(node: Data) -> tuple[str, str]:
    """The same for the control group of a node: in a pod only a part of them is mounted."""
    return machine() if "pod" in node else ("self", "")


def of_groups(whose: int | str) -> list[Mount]:
    """Where whole hierarchies of control groups are mounted."""
    return [mount for mount in mounts_of(whose) if mount.kind in ("cgroup", "cgroup2") and mount.root == "/"]


def control_group(node: Data, controller: str) -> tuple[int, str]:
    """Version and folder of the node's control group, if nobody else is in it."""
    pid = running(node)["pid"]
    groups = dict(line.split(":", 2)[1:] for line in text_of(f"/proc/{pid}/cgroup").splitlines())
    whose, root = seen_by(node)
    # version 1 first: where both are mounted, it has the controllers
    for mount in sorted(of_groups(whose), key=lambda mount: mount.kind):
        first = mount.kind == "cgroup"
        owner = next((key for key in groups if controller in key.split(",")), None) if first else ""
        if owner is None or (first and controller not in mount.options):
            continue
        group = root + os.path.normpath(mount.at + "/" + groups.get(owner, "/"))
        if groups.get(owner, "/") == "/":
            if not first:
                continue  # version 1 has the controller
            raise Refused(f"the node has no control group of its own for {controller}", "run it in a unit of its own")
        for other in map(int, text_of(f"{group}/cgroup.procs").split()):
            if "pod" in node or measures(other):  # what else is in a node's container is the node's
                continue
            if not descends(other, pid):
                raise Refused(f"process {other} is in the node's control group too, and would be hit")
        return (1 if first else 2), group
    raise Refused(f"there is no controller {controller} for the node", "run it in a unit of its own")


def groups(node: Data) -> Data:
    """Where the node's limits are and what the kernel counts, by controller; what is not the node's alone is left out.

    ``accounting``: in version 1 the processor time that was used is counted apart.
    """
    told: Data = {}
    for controller in ("cpu", "memory"):
        with contextlib.suppress(Refused, OSError):
            version, group = control_group(node, controller)
            found = {"version": version, "folder": group}
            if (version, controller) == (1, "cpu"):
                found["accounting"] = control_group(node, "cpuacct")[1]
            told[controller] = found
    return told


MEASURES = "oschaos-measure"
"""What a process of ours is called (comm, 15 characters) that measures in a node's control group for a moment."""


def measures(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return text_of(f"/proc/{pid}/comm") == MEASURES
    return False


def descends(pid: int, ancestor: int) -> bool:
    while pid > 1 and pid != ancestor:
        pid = (process(pid) or {"parent": 0})["parent"]
    return pid == ancestor


def value(path: str, ours: str, device: str | None = None, unset: str = "") -> Data:
    step = {"step": "value", "path": path, "device": device, "unset": unset, "ours": ours}
    before = value_of(step)
    if before is None:
        raise Refused(f"{path} is not there", "switch the controller on for the node's unit, e.g. by CPUAccounting=yes")
    if before == ours:
        raise Refused(f"{path} is {ours} already")
    return {**step, "before": before}


def plan_cpu(ask: Data, node: Data, config: Data) -> list[Data]:
    version, group = control_group(node, "cpu")
    if version == 1:
        period = int(text_of(f"{group}/cpu.cfs_period_us"))
        return [value(f"{group}/cpu.cfs_quota_us", str(max(1000, int(ask["processors"] * period))))]
    return [value(f"{group}/cpu.max", f"{int(ask['processors'] * 100000)} 100000")]


def plan_memory(ask: Data, node: Data, config: Data) -> list[Data]:
    version, group = control_group(node, "memory")
    slow = ask.get("beyond") == "slow"
    if version == 1 and slow:
        raise Refused("control groups of version 1 only kill beyond a limit", "ask for beyond: kill")
    file = "memory.limit_in_bytes" if version == 1 else "memory.high" if slow else "memory.max"
    page = os.sysconf("SC_PAGE_SIZE")
    return [value(f"{group}/{file}", str(ask["bytes"] // page * page))]


def io_group(node: Data) -> tuple[int, str]:
    """Version and folder of the control group by which what a node reads and writes is limited."""
    first = any("blkio" in mount.options for mount in of_groups(seen_by(node)[0]))
    return control_group(node, "blkio" if first else "io")


def disk_of(device: int) -> str:
    """Where the kernel tells of the whole disk that a file system is on: limits are of whole disks."""
    disk = os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if not os.path.exists(disk):
        raise Refused("the data folder is on no block device")
    return os.path.dirname(disk) if os.path.exists(f"{disk}/partition") else disk


NO_IO_LIMIT = "rbps=max wbps=max riops=max wiops=max"


def plan_disk_slow(ask: Data, node: Data, config: Data) -> list[Data]:
    """Only this node's control group is limited."""
    _, device = own_file_system(node)
    version, group = io_group(node)
    key, rate = text_of(f"{disk_of(device)}/dev"), ask["rate"]
    ways = ("read", "write") if ask.get("reads", True) else ("write",)
    if version == 1:
        return [value(f"{group}/blkio.throttle.{way}_bps_device", str(rate), key, "0") for way in ways]
    before = value(f"{group}/io.max", "", key, NO_IO_LIMIT)["before"]
    ours = re.sub(rf"\b([{''.join(way[0] for way in ways)}])bps=\w+", rf"\1bps={rate}", before)
    return [value(f"{group}/io.max", ours, key, NO_IO_LIMIT)]


def write_limit(node: Data, device: int) -> int | None:
    """Bytes per second that a node may write to its disk; None: as many as it can, or nothing is known of it."""
    with contextlib.suppress(Refused, OSError):
        version, group = io_group(node)
        key = text_of(f"{disk_of(device)}/dev")
        if version == 1:
            file = f"{group}/blkio.throttle.write_bps_device"
            return int(value_of({"path": file, "device": key, "unset": "0"}) or 0) or None
        held = value_of({"path": f"{group}/io.max", "device": key, "unset": NO_IO_LIMIT}) or ""
        found = re.search(r"\bwbps=(\d+)", held)
        return int(found[1]) if found else None
    return None


NO_START = 64 << 20
"""Bytes in which a container begins, and no node of OpenSearch can start."""
SPARE = 64 << 20
"""What a node may take between the look at it and its limit."""
EATING_SECONDS = 15


def plan_exhaustion(ask: Data, node: Data, config: Data) -> list[Data]:
    """The limit is the pod's: its kubelet starts the container again, in a control group of its own, and it must lack
    memory there too."""
    if "pod" not in node:
        raise Refused("memory is taken from a pod alone", "ask for memory.limit")
    if len(text_of("/proc/swaps").splitlines()) > 1:
        raise Refused("the machine has swap: what a node lacks would be swapped out", "swapoff -a")
    version, group = control_group(node, "memory")
    above = os.path.dirname(group)
    if not is_of_pod(node["pod"], os.path.basename(above)):
        raise Refused(f"{above} is not the control group of the pod")
    step = value(f"{above}/{'memory.limit_in_bytes' if version == 1 else 'memory.max'}", str(NO_START))
    held = 0
    if version == 1:
        counts = dict(line.split() for line in text_of(f"{above}/memory.stat").splitlines())
        held = int(text_of(f"{above}/memory.usage_in_bytes"))
        held -= int(counts["total_active_file"]) + int(counts["total_inactive_file"])
        if held < 4 * SPARE:
            raise Refused(f"the pod holds {held >> 20} MiB only: what is not a node that has started is left alone")
    page = os.sysconf("SC_PAGE_SIZE")
    first, eaten = (held + SPARE) // page * page, SPARE + held // 4
    return [{**step, **running(node), "step": "exhaustion", "version": version, "group": group, "first": str(first),
             "eaten": eaten}]  # fmt: skip


def sockets(pid: int | str) -> Iterator[tuple[str, int, str, int, str, str]]:
    """Of TCP there, by /proc/PID/net: local and remote address and port, state, inode."""
    for path in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in text_of(f"/proc/{pid}/net/{path}", 1 << 26).splitlines()[1:]:
                fields, ends = line.split(), []
                for words, _, port in (end.partition(":") for end in fields[1:3]):
                    raw = b"".join(bytes.fromhex(words[at : at + 8])[::-1] for at in range(0, len(words), 8))
                    ends += [plain(raw), int(port, 16)]
                yield (*ends, fields[3], fields[9])  # type: ignore[misc]


def socket_inodes(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found


def listens(pid: int) -> list[int]:
    """The TCP ports at which a process takes connections."""
    inodes = socket_inodes(pid)
    return sorted({near for _, near, _, _, how, inode in sockets(pid) if how == "0A" and inode in inodes})


def ways_in() -> list[tuple[str, int]]:
    """(client's address, our port) of the ssh connection that we were called through.

    sudo clears SSH_CONNECTION, and a variable is only what its caller says. So we ask the kernel: which established
    connections are held by an ancestor of ours that is root's sshd.
    """
    inodes: set[str] = set()
    pid = os.getpid()
    while (found := process(pid)) is not None and pid > 1:
        with contextlib.suppress(OSError):
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("sshd") and found["user"] == 0:
                inodes |= socket_inodes(pid)
        pid = found["parent"]
    return sorted({(far, near) for _, near, far, _, how, inode in sockets("self") if how == "01" and inode in inodes})


def braces(values: list[Any]) -> str:
    return "{ " + ", ".join(map(str, values)) + " }"


def by_family(addresses: list[str]) -> list[tuple[str, list[str]]]:
    four, six = [each for each in addresses if ":" not in each], [each for each in addresses if ":" in each]
    return [(family, found) for family, found in (("ip", four), ("ip6", six)) if found]


WHICH = {  # which packets, and what becomes of them
    "network.drop": ("", "counter drop"),
    # the first packet of a connection
    "network.refuse": ("tcp flags & (fin | syn | rst | ack) == syn", "counter reject with tcp reset"),
    # not the handshake; nor resets, since those that we send to ourselves pass here too
    "network.reset": ("tcp flags & (syn | rst) == 0x0", "counter reject with tcp reset"),
    "network.loss": ("", "numgen random mod 1000 < {share} counter drop"),
}


def rules(ask: Data, spared: list[tuple[str, int]]) -> str:
    """The table's text: what comes by our ssh passes first; then what is between these peers and these ports is hit.

    ``accept`` only ends this table's look at a packet: the firewall of the host still decides about it.
    """
    which, verdict = WHICH[ask["intent"]]
    verdict = verdict.format(share=max(1, round(ask.get("share", 0) * 1000)))
    local, remote = ask["local_ports"], ask["remote_ports"]
    lines = []
    for way, hook, far, near_port, far_port in (
        ("in", "input", "saddr", "dport", "sport"),
        ("out", "output", "daddr", "sport", "dport"),
    ):
        if ask["direction"] not in ("both", way):
            continue
        lines += [f"  chain {way} {{", f"    type filter hook {hook} priority -300; policy accept;"]
        for client, port in spared:
            family = by_family([client])[0][0]
            lines.append(f'    {family} {far} {client} tcp {near_port} {port} counter accept comment "spared"')
        if ask["everything"]:
            ports = ["meta l4proto tcp" if which else ""]
        else:
            ports = [f"tcp {near_port} {braces(local)}"] if local else []
            but = f"tcp {near_port} != {braces(local)} " if local else ""  # what it had is not rolled for twice
            ports += [f"{but}tcp {far_port} {braces(remote)}"] if remote else []
        for family, peers in by_family(ask["peers"]):
            for each in ports:
                these = " ".join(word for word in (family, far, braces(peers), each, which) if word)
                if ask["intent"] == "network.loss":  # of how many the share is drawn
                    lines.append(f'    {these} counter comment "met"')
                lines.append(f'    {these} {verdict} comment "hit"')
        lines.append("  }")
    return "\n".join([f"table inet oschaos_{ask['name']} {{", *lines, "}", ""])


def aimed(ask: Data, node: Data, config: Data) -> list[tuple[str, int]]:
    """Complete and check whom a network fault hits; return the way in that it spares."""
    allowed = [ipaddress.ip_network(each) for each in config.get("peers", [])]
    for peer in map(ipaddress.ip_address, ask["peers"]):
        if not any(peer in each for each in allowed if each.version == peer.version):
            raise Refused(f"the configuration allows no fault towards {peer}", "add its network to peers")
    found = node_process(node)
    if found is None and "pod" in node:
        raise Refused("the node does not run, so what it listens on is not known", "start it first")
    if found is not None and os.stat(f"/proc/{found['pid']}/ns/net").st_ino != os.stat("/proc/self/ns/net").st_ino:
        raise Refused("the node has a network namespace of its own, which rules of the host do not see")
    ports = node.get("ports") or (listens(found["pid"]) if found is not None and "pod" in node else [])
    named = "local_ports" in ask or "remote_ports" in ask
    everything = ask.setdefault("everything", False)
    if everything and not config.get("everything", False):
        raise Refused("the configuration does not allow faults on everything between hosts", "everything: true")
    if everything and named:
        raise Refused("everything takes no ports")
    for field in ("local_ports", "remote_ports"):
        ask.setdefault(field, [] if everything or named else ports)
        if not set(ask[field]) <= set(ports):
            raise Refused(f"{field}: only the node's own ports can be hit: {ports}", "add them to the configuration")
    if not everything and not ask["local_ports"] and not ask["remote_ports"]:
        raise Refused("the node has no ports in the configuration")
    spared = ways_in()
    if not spared and (everything or 22 in ask["local_ports"]):
        raise Refused("this would cut our own way in: it cannot be seen by which ssh connection we were called",
                      "call it through sshd, or leave everything out")  # fmt: skip
    return spared


def new_table(name: str) -> str:
    """The name of a fault's table. Refuses one that is there: nft would add ours to it, and undo would delete both."""
    table = f"oschaos_{name}"
    if table in tables():
        raise Refused(f"there is a table {table} already, which is none of this fault's", "take another id")
    return table


def plan_table(ask: Data, node: Data, config: Data) -> list[Data]:
    ask.setdefault("direction", "both")
    spared, table = aimed(ask, node, config), new_table(ask["name"])
    return [{"step": "table", "table": table, "text": rules(ask, spared)}]


def uplinks() -> list[str]:
    """The devices by which a machine reaches others: where its default routes lead, and cards that no software made."""
    routes = [json.loads(run("ip", "-j", family, "route", "show", "default") or "[]") for family in ("-4", "-6")]
    links = json.loads(run("ip", "-j", "-d", "link", "show") or "[]")
    cards = [each["ifname"] for each in links if each.get("link_type") == "ether" and "linkinfo" not in each]
    return sorted({*(each["dev"] for found in routes for each in found if "dev" in each), *cards} - {"lo"})


def refuse_names_of_a_host(node: Data) -> None:
    if "pod" not in node:
        raise Refused("the names of a host are everybody's on it, ssh's too", "ask beside a pod")


def plan_dns(ask: Data, node: Data, config: Data) -> list[Data]:
    refuse_names_of_a_host(node)
    lines = [f"table inet {(table := new_table(ask['name']))} {{", "  chain out {"]
    lines.append("    type filter hook output priority -300; policy accept;")
    for protocol, refused in (("udp", "reject with icmpx type port-unreachable"), ("tcp", "reject with tcp reset")):
        verdict = "drop" if ask["how"] == "drop" else refused
        lines.append(f'    {protocol} dport {DNS_PORT} counter {verdict} comment "hit"')
    return [{"step": "table", "table": table, "text": "\n".join([*lines, "  }", "}", ""])}]


def plan_dns_slow(ask: Data, node: Data, config: Data) -> list[Data]:
    refuse_names_of_a_host(node)
    servers, _ = resolver(node)
    return [{"step": "relay", "table": new_table(ask["name"]), "name": ask["name"], "servers": servers,
             "delay": ask["delay_ms"] / 1000}]  # fmt: skip


def plan_isolation(ask: Data, node: Data, config: Data) -> list[Data]:
    """What comes to the spared ports of the machine passes: by them the kubelet is asked, and so is this undone."""
    if "pod" not in node:
        raise Refused("a host that is reached over its network cannot be cut off from it", "ask beside a pod")
    with on_machine():
        devices, table = uplinks(), new_table(ask["name"])
    if not devices:
        raise Refused("it is not known by which devices this machine reaches others: it has no default route")
    cards, ports = braces([f'"{each}"' for each in devices]), braces(ask["spare"])
    lines = [f"table inet {table} {{"]
    for chain, hook, hit in (
        ("in", "input", [f"iifname {cards}"]),
        ("out", "output", [f"oifname {cards}"]),
        ("through", "forward", [f"iifname {cards}", f"oifname {cards}"]),
    ):
        lines += [f"  chain {chain} {{", f"    type filter hook {hook} priority -300; policy accept;"]
        if hook != "forward":
            end = "dport" if hook == "input" else "sport"
            lines.append(f'    {hit[0]} tcp {end} {ports} counter accept comment "spared"')
        lines += [f'    {each} counter drop comment "hit"' for each in hit] + ["  }"]
    return [{"step": "isolation", "table": table, "text": "\n".join([*lines, "}", ""])}]


def handle_of(name: str) -> int:
    """A number of our own for queues, which follows from the fault's name."""
    return 0x1000 + zlib.crc32(name.encode()) % 0xE000


def queues(ask: Data, device: str, peers: list[str], spared: list[tuple[str, int]]) -> list[str]:
    """Lines for tc: what leaves for these peers gets a class of its own; all else passes as if there were none."""
    handle = handle_of(ask["name"])
    major, rate = f"{handle:x}", f"{ask['rate'] * 8}bit" if "rate" in ask else "100gbit"
    lines = [
        f"qdisc add dev {device} root handle {major}: htb default 0",  # 0: what no filter takes is sent directly
        f"class add dev {device} parent {major}: classid {major}:1 htb rate {rate} ceil {rate} quantum 60000",
    ]
    if "delay_ms" in ask:
        delay = f"delay {ask['delay_ms']}ms {ask.get('jitter_ms', 0)}ms limit 100000"
        lines.append(f"qdisc add dev {device} parent {major}:1 handle {handle + 1:x}: netem {delay}")
    matches = [""] if ask["everything"] else [f"sport {port}" for port in ask["local_ports"]]
    matches += [f"dport {port}" for port in ask["remote_ports"]]
    wanted = [(10, client, f"sport {port}", 0) for client, port in spared]  # asked first
    wanted += [(20, peer, match, 1) for peer in peers for match in matches]
    for preference, peer, match, minor in wanted:
        family, protocol, bits, own = ("ip6", "ipv6", 128, 1) if ":" in peer else ("ip", "ip", 32, 0)
        ports = f" match {family} {match} 0xffff" if match else ""
        lines.append(
            f"filter add dev {device} parent {major}: protocol {protocol} prio {preference + own} u32 "
            f"match {family} dst {peer}/{bits}{ports} flowid {major}:{minor}"
        )
    return lines


def plan_queues(ask: Data, node: Data, config: Data) -> list[Data]:
    spared = aimed(ask, node, config)
    devices: dict[str, list[str]] = {}
    for peer in ask["peers"]:
        device = json.loads(run("ip", "-j", "route", "get", peer))[0]["dev"]
        devices.setdefault(device, []).append(peer)
    steps = []
    for device, peers in devices.items():
        kind, handle = root_qdisc(device)
        if handle != "0:":
            raise Refused(f"{device} has queueing of somebody else ({kind} {handle})", "ask who set it up")
        text = "\n".join([*queues(ask, device, peers, spared), ""])
        steps.append({"step": "qdisc", "device": device, "handle": f"{handle_of(ask['name']):x}:", "text": text})
    return steps


# --- Intents ----------------------------------------------------------------------------------------------------------


class Intent(NamedTuple):
    """``trial``: parameters with which its plan says whether it can be had at all; None where that says nothing."""

    does: str
    undone: str
    plan: Callable[[Data, Data, Data], list[Data]]
    needed: dict[str, Check]
    optional: dict[str, Check]
    tools: tuple[str, ...] = ()
    kernel: tuple[str, ...] = ()
    trial: Data | None = {}  # noqa: RUF012


PEERS: dict[str, Check] = {"peers": some(address, 64)}
WHERE: dict[str, Check] = {"local_ports": PORTS, "remote_ports": PORTS, "everything": YES_OR_NO}
DIRECTED: dict[str, Check] = {**WHERE, "direction": one_of("in", "out", "both")}
NFT = (("nft",), ("nf_tables",), None)
RATE = whole(1024, 10**11)
INTENTS = {
    "node.kill": Intent(
        "SIGKILL to the node's process, or to all of its unit; systemd is kept from restarting it by a drop-in in /run",
        "it is started as its owners do (systemctl start, or start), unless it runs; then the drop-in goes",
        plan_down, {}, {}),
    "node.stop": Intent(
        "systemctl stop, or SIGTERM to the node's process",
        "once the process is gone it is started as its owners do, unless somebody has", plan_down, {}, {}),
    "node.restart": Intent(
        "as node.stop, and started at once; refused where it does not come back. No fault stays",
        "nothing is left to be undone", plan_down, {}, {}),
    "node.pause": Intent("SIGSTOP to the node's process", "SIGCONT to the same process",
                         lambda ask, node, config: [{"step": "pause", **running(node)}], {}, {}),
    "network.drop": Intent(
        "a table of nftables of its own: packets between this host and the peers vanish",
        "the table is deleted", plan_table, PEERS, DIRECTED, *NFT),
    "network.refuse": Intent(
        "the same; new TCP connections are answered by a reset, others go on",
        "the table is deleted", plan_table, PEERS, DIRECTED, *NFT),
    "network.reset": Intent(
        "the same; TCP connections are made, and reset at their next packet, existing ones too",
        "the table is deleted", plan_table, PEERS, DIRECTED, *NFT),
    "network.loss": Intent(
        "the same; this share of the packets vanishes, drawn for each", "the table is deleted",
        plan_table, {**PEERS, "share": number(0.001, 1)}, DIRECTED, *NFT),
    "node.dns_outage": Intent(
        "a table of nftables in the network of the pod: questions to DNS servers vanish (drop) or are refused (refuse)",
        "the table is deleted", plan_dns, {"how": one_of("drop", "refuse")}, {}, ("nft",), ("nf_tables",),
        {"how": "drop"}),
    "node.dns_slowness": Intent(
        "a table of nftables in the network of the pod: questions to DNS servers by UDP go to a process of the "
        "program, which passes each on so much later", "the table is deleted, and the process ended",
        plan_dns_slow, {"delay_ms": whole(10, 8000)}, {}, ("nft",), ("nf_tables", "nft_redir"), {"delay_ms": 1000}),
    "node.isolation": Intent(
        "a table of nftables in the network of the machine, from beside a pod on it: packets by which it and its pods "
        "reach other machines vanish, but those of the spared ports", "the table is deleted",
        plan_isolation, {"spare": PORTS}, {}, ("nft", "ip"), ("nf_tables",), {"spare": [10250]}),
    "network.latency": Intent(
        "netem under a class of htb: what leaves this host for the peers waits; other traffic does not",
        "the queueing is deleted if it is still ours", plan_queues, {**PEERS, "delay_ms": whole(1, 60000)},
        {**WHERE, "jitter_ms": whole(0, 60000)}, ("tc", "ip"), ("htb", "netem"), None),
    "network.bandwidth": Intent(
        "a class of htb: what leaves this host for the peers shares this many bytes per second",
        "the queueing is deleted if it is still ours",
        plan_queues, {**PEERS, "rate": RATE}, WHERE, ("tc", "ip"), ("htb",), None),
    "disk.full": Intent(
        "a file fills the data folder's file system until leave_bytes are free, or this share of it is used",
        "the file is removed", plan_filler, {}, {"leave_bytes": whole(0, 2**50), "share": number(0.01, 1)}),
    "disk.slow": Intent(
        "reads (unless reads is false) and writes of the node's control group to its disk: bytes per second each "
        "(version 1: not what is written back later by the kernel)",
        "the limits that were there, if they are still ours",
        plan_disk_slow, {"rate": RATE}, {"reads": YES_OR_NO}, trial={"rate": 1024}),
    "disk.read_only": Intent(
        "mount -o remount,ro; the kernel refuses while a file is open for writing, as it is while a node runs",
        "mount -o remount,rw", plan_mount, {}, {}, ("mount",)),
    "cpu.limit": Intent(
        "quota of the node's control group", "the quota that was there, if it is still ours",
        plan_cpu, {"processors": number(0.02, 1024)}, {}, trial={"processors": 0.02}),
    "memory.limit": Intent(
        "limit of the node's control group; beyond it the kernel kills (kill) or slows (slow, version 2 only)",
        "the limit that was there, if it is still ours", plan_memory, {"bytes": whole(1 << 20, 2**50)},
        {"beyond": one_of("kill", "slow")}, trial={"bytes": 1 << 20}),
    "node.out_of_memory": Intent(
        "limit of the pod's control group, so low that the kernel ends the node's process, and that of each container "
        "which its kubelet starts", "the limit that was there, if it is still ours", plan_exhaustion, {}, {}),
}  # fmt: skip
PROBES = {  # each is tried in a network namespace that ends with it
    "nf_tables": ("nft", "add", "table", "inet", "probe"),
    "htb": ("tc", "qdisc", "add", "dev", "lo", "root", "htb", "default", "0"),
    "netem": ("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"),
    "nft_redir": (
        "nft",
        "add table inet probe; add chain inet probe out { type nat hook output priority -100; }; "
        "add rule inet probe out udp dport 53 redirect to :53",
    ),
    "tbf": ("tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", "1mbit", "burst", "10k", "latency", "9ms"),
}


@functools.lru_cache(None)
def lacks(feature: str) -> str | None:
    """Some 10 ms each, and the longest that ``facts`` takes."""
    name, *arguments = PROBES[feature]
    path = tool(name)
    if path is None:
        return f"{name} is not on this host"
    try:
        run("unshare", "--net", "--", path, *arguments)
    except Refused as error:
        return f"the kernel has no {feature} ({error.why})"
    return None


def cannot(intent: str, node: Data, config: Data) -> str | None:
    """Why an intent cannot be had for a node here, whatever its parameters are; None if nothing is against it."""
    if intent not in config["intents"]:
        return "the configuration does not allow it"
    needed = INTENTS[intent]
    for name in (*needed.tools, *(("systemctl",) if "unit" in node else ())):
        if tool(name) is None:
            return f"{name} is not on this host"
    for feature in needed.kernel:
        if (why := lacks(feature)) is not None:
            return why
    if needed.trial is None:
        return None if config.get("peers") else "the configuration names no peers"
    try:
        needed.plan({"intent": intent, "name": "", **needed.trial}, node, config)
    except Refused as error:
        return error.why
    return None


# --- The dead-man -----------------------------------------------------------------------------------------------------


def by_systemd() -> bool:
    return os.path.isdir("/run/systemd/system") and tool("systemd-run") is not None


def timer(record: Data) -> str:
    return f"oschaos-undo-{record['name']}-{record['armed']}"


def calling(what: str, name: str) -> list[str]:
    """How this program runs itself for a record."""
    root = ("--root", ROOT) if ROOT else ()
    return [sys.executable, "-IS", os.path.abspath(__file__), what, *root, name]


def undoing(name: str) -> list[str]:
    """What is run to undo a record when its time is over."""
    return calling("expire", name)


def arm(record: Data) -> None:
    """Have it undone at its deadline. Raises ``Refused`` where that cannot be; see ``armed`` whether it will."""
    if not by_systemd():
        sleeper(record["name"])
        return
    run(
        "systemd-run", f"--on-active={max(1, round((record['deadline'] - now()) * 1000))}ms",
        "--timer-property=AccuracySec=100ms", f"--unit={timer(record)}", "--property=Restart=on-failure",
        "--property=RestartSec=1", "--collect", "--", *undoing(record["name"]),
    )  # fmt: skip


def armed(record: Data) -> Data:
    """What would undo it, and whether it is seen alive."""
    if by_systemd():
        state = unit_shows(f"{timer(record)}.timer", "ActiveState")
        return {"by": f"systemd timer {timer(record)}", "alive": state == "active"}
    path = ours(f"{record['name']}.armed")
    with contextlib.suppress(OSError, ValueError), held(os.open(path, os.O_RDWR)) as mark:
        who = json.loads(os.read(mark, 4096))
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # whoever wrote this still holds it
            return {"by": f"process {who['pid']}", "alive": same(who) is not None}
    return {"by": "process", "alive": False}


def disarm(record: Data) -> None:
    """After the record is gone a sleeper ends by itself, and a timer that fires finds nothing to do."""
    if by_systemd():
        with contextlib.suppress(Refused):
            run("systemctl", "stop", f"{timer(record)}.timer")


def sleeper(name: str) -> None:
    """A process of its own that outlives ssh, sshd and us; returns when it has said that it is there.

    It holds a lock on NAME.armed, which it has from us, as long as it lives: the kernel's word that it does.
    """
    with held(os.open(ours(f"{name}.armed"), os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)) as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        start_apart(undoing(name), lambda: os.fstat(mark).st_size, "the dead-man", (mark,))


def start_apart(command: list[str], there: Callable[[], object], what: str, kept: tuple[int, ...] = ()) -> None:
    """Start a process of this program that outlives us, with these descriptors ``kept``, and wait until it is
    ``there``. Raises ``Refused``."""
    nothing = subprocess.DEVNULL
    child = subprocess.Popen(command, cwd="/", start_new_session=True, pass_fds=kept,
                             stdin=nothing, stdout=nothing, stderr=nothing)  # fmt: skip
    if not until(lambda: there() or child.poll() is not None, 10) or child.poll() is not None:
        child.kill()
        raise Refused(f"{what} did not come up", "make room in /run")


def outlive_pod() -> None:
    """Leave the control groups of the pod that we run in, for those of the machine's first process: all that is in the
    pod's is killed when it ends. Raises ``OSError``, and then the dead-man does not come up."""
    first = dict(line.split(":", 2)[1:] for line in text_of("/proc/1/cgroup").splitlines())
    whose, root = machine()
    for mount in of_groups(whose):
        these = (each for each in first if each and set(each.split(",")) <= set(mount.options))
        group = first.get("" if mount.kind == "cgroup2" else next(these, "none"), "/")
        put(f"{root}{mount.at}{group}/cgroup.procs", "0")


def watch(name: str) -> None:
    """Wait for a record's deadline, which may be moved, and undo it then; again and again until it is undone."""
    if (load(name) or {}).get("beside"):
        outlive_pod()
    with contextlib.suppress(FileNotFoundError), open(ours(f"{name}.armed"), "r+", encoding="ascii") as mark:
        json.dump(process(os.getpid()), mark)  # we are the sleeper, and there
        oom_score("-1000")  # a fault that takes memory must not take its own undo
    pause = 0.5
    while True:
        with contextlib.suppress(Exception):  # nobody hears it, and giving up is the one thing that must not be
            record = active(name)
            if record is not None and record["deadline"] > now():
                time.sleep(min(0.1, max(0.0, record["deadline"] - now())))
                continue
            with record_lock(name):
                record = load(name)
                if record is None or (record["deadline"] <= now() and not failed(finish(record, "its time was over"))):
                    break
        time.sleep(pause)
        pause = min(30, pause * 2)
    remove(ours(f"{name}.armed"))


# --- Verbs ------------------------------------------------------------------------------------------------------------


def failed(results: list[Data]) -> list[str]:
    return [each["failed"] for each in results if "failed" in each]


def undone(step: Data) -> Data:
    """A step's undo, whatever becomes of it."""
    try:
        return {"step": step["step"], **STEPS[step["step"]].undo(step)}
    except Exception as error:
        said = error.why if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
        return {"step": step["step"], "failed": said}


def finish(record: Data, why: str) -> list[Data]:
    """Undo a record, whose lock is held: last step first, each whatever became of the others. Then forget it."""
    results = [undone(step) for step in reversed(record["steps"])]
    if not failed(results):
        note_end(record["name"], why, results, astray(record["steps"][::-1], results))
        remove(ours(f"{record['name']}.json"))
        disarm(record)
    return results


def astray(steps: list[Data], results: list[Data]) -> list[Data]:
    """The steps whose undo has left a file of ours: what others have changed is theirs, but that file is not."""
    return [step for k, step in enumerate(steps) if step["step"] == "filler" and "left" in results[k]]


def looked_for(name: str, elsewhere: bool) -> list[Data]:
    """What is said once more of a file that was left, until it is gone: undoing twice is no proof of that.
    ``elsewhere``: it was found, and removed, where its volume is now."""
    last = end_of(name)
    steps = last.get("astray", []) if last.get("boot") == boot() else []
    results = [] if elsewhere else [undone(step) for step in steps]
    if failed(results):
        raise Refused(f"not undone yet: {'; '.join(failed(results))}", "ask again")
    if steps:
        note_end(name, last["why"], last["steps"], [] if elsewhere else astray(steps, results))
    return results


def holds(step: Data) -> str:
    """What no two faults may have at a time."""
    by = {"pause": "pid", "down": "pid", "dropin": "unit", "qdisc": "device", "table": "table", "isolation": "table",
          "relay": "servers"}  # fmt: skip
    return f"{step['step']}:{step[by.get(step['step'], 'path')]}"


def shown(record: Data) -> Data:
    """A record as callers see it, with everything measured anew."""
    steps = []
    for step in record["steps"]:
        try:
            steps.append({"step": step["step"], **STEPS[step["step"]].measure(step)})
        except Exception as error:
            steps.append({"step": step["step"], "there": None, "why": f"not measured: {error}"})
    told = {field: record[field] for field in ("run", "id", "intent", "node", "token")}
    return {**told, "left": round(record["deadline"] - now(), 3), "dead_man": armed(record), "steps": steps}


def named(name: str, config: Data) -> Data:
    if name not in config["nodes"]:
        raise Refused(f"the configuration names no node {name}", f"it names {', '.join(config['nodes'])}")
    return dict(config["nodes"][name])


ID: dict[str, Check] = {"run": NAME, "id": NAME}
COMMON: dict[str, Check] = {**ID, "token": TOKEN, "ttl": TTL, "intent": one_of(*INTENTS)}


def begin(given: Any) -> Data:
    asked = given.get("intent") if isinstance(given, dict) else None
    intent = INTENTS.get(asked) if isinstance(asked, str) else None
    if intent is None:
        raise Refused("intent: none of those that there are", ", ".join(INTENTS))
    ask = checked(given, {**COMMON, "node": NODE, **intent.needed}, intent.optional)
    ask["name"] = name = f"{ask['run']}_{ask['id']}"
    if ask["intent"] == "disk.full" and "share" not in ask and "leave_bytes" not in ask:
        raise Refused("disk.full needs leave_bytes or share")
    with locked(ours("lock", "/var/lib")):  # one begin at a time
        accept_token(ask["token"])
        config = configuration()
        node = named(ask["node"], config)
        if ask["ttl"] > config["longest"]:
            raise Refused(f"ttl: {ask['ttl']} s is longer than {config['longest']} s, which is allowed", "take less")
        if (why := cannot(ask["intent"], node, config)) is not None:
            raise Refused(f"{ask['intent']} of {ask['node']}: {why}", "see facts")
        overdue()
        with record_lock(name):
            fresh(name)
            steps = intent.plan(ask, node, config)
            for other in every():
                for step in steps:
                    if holds(step) in map(holds, other["steps"]):
                        raise Refused(f"{other['run']} {other['id']} holds the same ({holds(step)})", "undo that first")
            record = {"protocol": PROTOCOL, "boot": boot(), "began": now(), "deadline": now() + ask["ttl"], "armed": 1,
                      "longest": config["longest"], "beside": "pod" in node, "steps": steps}  # fmt: skip
            record.update({field: ask[field] for field in ("name", "run", "id", "intent", "node", "token")})
            write(ours(f"{name}.json"), json.dumps(record))
            return made(record, ask)


def overdue() -> None:
    """Undo what nobody will: its time is over and its dead-man gone, killed by root or never armed."""
    for record in every():
        if record["deadline"] + 5 < now() and not armed(record)["alive"]:
            with contextlib.suppress(Refused):
                ended(record["name"], "its time was over and its dead-man gone")


def fresh(name: str) -> None:
    """No id twice in a boot: a request that comes again, or after its own undo, must begin nothing."""
    if active(name) is not None:
        raise Refused("this id is active", "undo it, or take another id")
    remove(ours(f"{name}.json"))
    last = end_of(name)
    if last.get("boot") == boot():
        raise Refused(f"this id has been undone: {last['why']}", "take another id")


def made(record: Data, ask: Data) -> Data:
    """Arm, see it armed, make. Whatever goes wrong: undo at once, and say so."""
    try:
        arm(record)
        if not armed(record)["alive"]:
            raise Refused("the dead-man was not seen armed, so nothing was done")
        for step in record["steps"]:
            STEPS[step["step"]].make(step)
        if ask["intent"] == "node.restart":
            return restarted(record, ask)
        if now() >= record["deadline"]:
            raise Refused(f"it took longer than its ttl of {ask['ttl']} s", "give it a longer ttl")
        return {"ok": True, **shown(record)}
    except Exception as error:
        problems = failed(finish(record, f"it could not be made: {error}"))
        remains = f"; not undone yet: {'; '.join(problems)}; the dead-man tries again" if problems else "; undone"
        raise Refused(f"{error}{remains}", getattr(error, "remedy", "")) from error


def restarted(record: Data, ask: Data) -> Data:
    down = record["steps"][-1]
    if not until(lambda: same(down) is None, record["deadline"] - now()):
        raise Refused(f"process {down['pid']} did not end within {ask['ttl']} s")
    results = finish(record, "it was restarted")
    if failed(results):
        raise Refused(f"it did not come back: {'; '.join(failed(results))}")
    pid = (node_process(down["node"]) or {}).get("pid")
    return {"ok": True, "run": ask["run"], "id": ask["id"], "active": False, "steps": results, "pid": pid}


def extend(given: Any) -> Data:
    ask = checked(given, {**ID, "token": TOKEN, "ttl": TTL})
    name, timers = f"{ask['run']}_{ask['id']}", by_systemd()
    with locked(ours("lock", "/var/lib")):
        accept_token(ask["token"])
        with record_lock(name):
            record = active(name)
            if record is None:
                raise Refused("this id is not active", "it was undone, or never begun; see state")
            if record["deadline"] <= now():
                raise Refused("its time is over: it is being undone")
            old = dict(record)
            record["deadline"] = min(now() + ask["ttl"], record["began"] + record["longest"])
            if timers:  # a second one first, so that there is no moment without one
                record["armed"] += 1
                arm(record)
                if not armed(record)["alive"]:
                    raise Refused("the new dead-man was not seen armed; the old one stays")
            elif not armed(old)["alive"]:
                sleeper(name)  # its dead-man was killed: a new one. Else it reads the new deadline
            try:
                write(ours(f"{name}.json"), json.dumps(record))
            except Refused:
                if timers:
                    disarm(record)
                raise
            if timers:
                disarm(old)
            return {"ok": True, "capped": record["deadline"] < now() + ask["ttl"] - 0.5, **shown(record)}


def undo(given: Any) -> Data:
    ask = checked(given, ID)
    return ended(f"{ask['run']}_{ask['id']}", "it was asked for")


def ended(name: str, why: str) -> Data:
    with record_lock(name):
        record, left = active(name), load(name)
        if record is None:
            remove(ours(f"{name}.json"))
            if not os.path.exists(ours(f"{name}.ended")):
                note_end(name, "it was undone before it was begun", [], [])
            says = "its record is of an earlier boot, which took it away" if left else "nothing of this id was active"
            if unlinked := fillers(volumes, lambda file: file == f"{PREFIX}{name}", remove_them=True):
                says = f"{says}; removed {', '.join(unlinked)}"
            return {"ok": True, "active": False, "steps": looked_for(name, bool(unlinked)), "says": says}
        results = finish(record, why)
        if failed(results):
            raise Refused(f"not undone yet: {'; '.join(failed(results))}", "the dead-man tries again; ask again")
    disarmed = until(lambda: not armed(record)["alive"], 1)
    remove(ours(f"{name}.armed"))
    return {"ok": True, "active": False, "steps": results, "disarmed": disarmed}


def state(given: Any) -> Data:
    ask = checked(given, {}, ID)
    if "id" in ask and "run" not in ask:
        raise Refused("run is missing")
    found = [each for each in every(boots=True) if all(each[field] == ask[field] for field in ask)]
    answer: Data = {"ok": True, "active": [shown(each) for each in found if each["boot"] == boot()]}
    answer["earlier_boot"] = [[each["run"], each["id"]] for each in found if each["boot"] != boot()]
    answer["nodes"] = processes()
    if "id" in ask and (last := end_of(f"{ask['run']}_{ask['id']}")):
        answer["ended"] = last
    return answer


def processes() -> Data:
    """Each node's process, without a probe of anything; no nodes where the configuration cannot be read."""
    told: Data = {}
    with contextlib.suppress(Refused):
        for name, node in configuration()["nodes"].items():
            told[name] = None
            with contextlib.suppress(Refused):
                if (found := node_process(node)) is not None:
                    told[name] = {field: found[field] for field in ("pid", "start", "state", "user")}
    return told


def strays(remove_them: bool) -> list[str]:
    """What is ours by name and in no record: fillers outlive a reboot, and somebody may have emptied /run."""
    known, found = set(names()), []
    for table in tables() if lacks("nf_tables") is None else ():
        if table[len("oschaos_") :] not in known and written_here(table):
            found.append(f"table {table}")
            if remove_them:
                run("nft", "delete", "table", "inet", table)
    return found + fillers(data_folders, lambda file: file[len(PREFIX) :] not in known, remove_them)


def fillers(folders: Callable[[Data], list[str]], meant: Callable[[str], bool], remove_them: bool) -> list[str]:
    """Fillers in these folders of the nodes that are meant by their names. A volume takes its filler along to where the
    next pod has it, and there is no record of it there."""
    found = []
    with contextlib.suppress(Refused):  # without a configuration there is no folder to look into
        for path in {folder for node in configuration()["nodes"].values() for folder in folders(node)}:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            with contextlib.suppress(OSError), held(os.open(path, flags)) as directory:
                for file in os.listdir(directory):
                    if file.startswith(PREFIX) and meant(file):
                        found.append(f"filler {path}/{file}")
                        if remove_them:
                            os.unlink(file, dir_fd=directory)
    return found


def data_folders(node: Data) -> list[str]:
    """Where fillers of a node are; of a pod where the machine has its volume. Empty: that is not known."""
    if "pod" not in node:
        return [node["data"]] if "data" in node else []
    with contextlib.suppress(Refused, OSError):
        return [own_file_system(node)[0]]
    return []


def volumes(node: Data) -> list[str]:
    """The same, and of a pod all file systems below its kubelet's folder of it: a node that does not start, as on a
    full volume, does not tell which it is."""
    if "pod" not in node:
        return data_folders(node)
    with contextlib.suppress(OSError):
        whose, before = machine()
        return [before + mount.at for mount in mounts_of(whose) if mount.root == "/" and f"/{node['pod']}/" in mount.at]
    return []


def sweep(given: Any) -> Data:
    ask = checked(given, {}, {"run": NAME})
    results, problems = [], []
    for record in every(boots=True):
        if ask.get("run", record["run"]) == record["run"]:
            try:
                results.append({"run": record["run"], "id": record["id"], **ended(record["name"], "it was swept")})
            except Refused as error:
                problems.append(f"{record['run']} {record['id']}: {error.why}")
    found = [] if ask else strays(remove_them=True)
    if problems:
        raise Refused("; ".join(problems), "the dead-men try again; ask again")
    return {"ok": True, "undone": results, "strays": found}


def facts(given: Any) -> Data:
    checked(given, {})
    config = configuration()
    return {
        "ok": True, "version": VERSION, "protocol": PROTOCOL, "boot": boot(), "kernel": os.uname().release,
        "monotonic": time.monotonic(), "boottime": now(), "wall": time.time(),
        "systemd": os.path.isdir("/run/systemd/system"),
        "dead_man": "systemd" if by_systemd() else "process",
        "cgroups": 2 if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else 1,
        "tools": {name: tool(name) for name in ("nft", "tc", "ip", "unshare", "mount", "systemctl", "systemd-run")},
        "kernel_lacks": {feature: lacks(feature) for feature in PROBES}, "longest": config["longest"],
        "token": highest_token(), "came_by": ways_in(),
        "nodes": {name: node_facts(node, config) for name, node in config["nodes"].items()},
        "active": state({})["active"], "strays": strays(remove_them=False),
    }  # fmt: skip


def node_facts(node: Data, config: Data) -> Data:
    told: Data = {"process": None, "data": None}
    try:
        if (found := node_process(node, strict=True)) is not None:
            pid, ticks = found["pid"], os.sysconf("SC_CLK_TCK")
            age = round(now() - found["start"] / ticks, 2)  # not by the wall, which may be set meanwhile
            told["process"] = {**found, "inside": pid_inside(pid), "ticks_per_second": ticks, "age": age,
                               "listens": listens(pid)}  # fmt: skip
    except Refused as error:
        told["why"] = error.why
    if "data" in node:
        with contextlib.suppress(OSError):
            folder, why = node["data"], {}
            try:
                folder, _ = own_file_system(node)
            except Refused as error:
                why = {"why": error.why}
            device = os.stat(folder).st_dev
            told["data"] = {"device": f"{os.major(device)}:{os.minor(device)}", **room(folder),
                            "own_file_system": not why, **why}  # fmt: skip
    told["groups"] = groups(node)
    told["intents"] = {intent: cannot(intent, node, config) for intent in INTENTS}
    return told


def probe(given: Any) -> Data:
    """Measure on the node's disk, by a process of its own: one that the disk keeps waiting ends by no signal."""
    ask = checked(given, {"node": NODE, "do": one_of("look", "write"), "within": number(0.1, 60)},
                  {"size": whole(1, 1 << 24), "count": whole(1, 64), "as_node": YES_OR_NO})  # fmt: skip
    config = configuration()
    node = named(ask["node"], config)
    if not any(intent.startswith("disk.") for intent in config["intents"]):
        raise Refused("the configuration allows no fault of the disk, and so no measurement on it")
    path, device = own_file_system(node)
    user = (node_process(node) or {"user": os.stat(path).st_uid})["user"]
    where = {"path": path, "device": device, "group": io_group(node)[1] if ask.get("as_node") else None}
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):  # else ssh would wait for it
                os.dup2(nothing, descriptor)
            os.write(writing, json.dumps(measured(ask, where, user)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    if not select.select([reading], [], [], ask["within"])[0]:
        os.kill(child, signal.SIGKILL)  # it takes effect when the kernel lets it go
        return {"ok": True, "blocked": True}
    said = os.read(reading, 4096)
    os.waitpid(child, 0)
    if not said:
        raise Refused("the measurement ended without a word")
    limited = {"write_limit": write_limit(node, device)} if ask["do"] == "look" else {}
    return {"ok": True, **json.loads(said), **limited}


def measured(ask: Data, step: Data, user: int) -> Data:
    """``look``: what is used, and by fillers of ours. ``write``: seconds for so many writes of so many bytes, each on
    disk before the next, into a new file without a name: it ends with us. As the node's user, since root may have more
    room, and where a ``group`` is given in that, with its limits; ``device_bytes``: all that was written to the disk
    meanwhile, by others too. ``errno`` of what was refused."""
    try:
        if step["group"] is not None:
            put("/proc/self/comm", MEASURES)
            put(f"{step['group']}/cgroup.procs", str(os.getpid()))
        with inside(step) as directory:
            if ask["do"] == "look":
                fillers = [file for file in os.listdir(directory) if file.startswith(PREFIX)]
                sizes = [os.stat(file, dir_fd=directory, follow_symlinks=False).st_blocks * 512 for file in fillers]
                return {**room(directory), "filled": sum(sizes)}
            os.setgroups([])
            os.setgid(os.fstat(directory).st_gid)
            os.setuid(user)
            began, before = time.monotonic(), written_to(step["device"])
            file = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600, dir_fd=directory)
        for _ in range(ask.get("count", 1)):
            left = os.urandom(ask.get("size", 4096))
            while left:
                left = left[os.pwrite(file, left, ask.get("size", 4096) - len(left)) :]
            os.fsync(file)
        return {"seconds": time.monotonic() - began, "device_bytes": written_to(step["device"]) - before}
    except OSError as error:
        return {"errno": error.errno or errno.ENOENT}


def written_to(device: int) -> int:
    """Bytes that were written to a block device since it is there (its sectors are of 512 bytes); of what is none, 0.
    Kernel documentation, block/stat."""
    with contextlib.suppress(OSError):
        return 512 * int(text_of(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat").split()[6])
    return 0


DNS_PORT = 53


def resolver(node: Data) -> tuple[list[str], str]:
    """The DNS servers of a pod, and the first of the domains that it searches, as its own resolv.conf has them."""
    for pid in members(node["pod"]):
        with contextlib.suppress(OSError):
            lines = [line.split() for line in text_of(f"/proc/{pid}/root/etc/resolv.conf").splitlines()]
            servers = [plain(words[1]) for words in lines if words[:1] == ["nameserver"] and len(words) > 1]
            domains = [word for words in lines if words[:1] in (["search"], ["domain"]) for word in words[1:]]
            if servers:
                return servers, next(iter(domains), "localhost")
    raise Refused("no process of the pod has a resolv.conf that names a DNS server")


def lookup(given: Any) -> Data:
    """Ask each DNS server of a node's pod from within the pod's network, up to ``times``: seconds until one answered,
    whatever it said; null where none did."""
    ask = checked(given, {"node": NODE, "within": number(0.1, 10), "times": whole(1, 10)})
    node = named(ask["node"], configuration())
    if "pod" not in node:
        raise Refused("names are asked for beside a pod alone")
    servers, domain = resolver(node)
    answers = {each: asked_of(each, domain, ask["within"], ask["times"]) for each in servers}
    return {"ok": True, "asked_for": domain, "answers": answers}


def asked_of(server: str, domain: str, within: float, times: int) -> float | None:
    """Seconds until a server answered a question for the address of a domain (RFC 1035, 4.1); None: never."""
    labels = b"".join(bytes([len(each)]) + each for each in domain.encode("idna").strip(b".").split(b"."))
    for _ in range(times):
        id = os.urandom(2)
        with socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM) as asking:
            began = time.monotonic()
            with contextlib.suppress(OSError):  # refused, or none within the time
                asking.connect((server, DNS_PORT))
                asking.settimeout(within)
                asking.send(id + struct.pack(">5H", 0x0100, 1, 0, 0, 0) + labels + struct.pack(">x2H", 1, 1))
                while asking.recv(4096)[:2] != id:
                    asking.settimeout(max(0.001, began + within - time.monotonic()))
                return round(time.monotonic() - began, 4)
            time.sleep(max(0.0, min(0.2, began + within - time.monotonic())))  # one that is refused is refused at once
    return None


RELAYED = 0x6F736368
"""The mark of packets that the process which passes questions on sends itself. Its table lets them pass."""
MOST_QUESTIONS = 256
"""That wait at a time; what more comes is dropped, as a server under load does."""
ANSWER_SECONDS = 10
"""How long an answer is waited for."""


def relay(name: str) -> None:
    """Pass questions on to the servers of a record, each so much later, as long as that record is there."""
    record = load(name)
    step = next((each for each in (record or {"steps": []})["steps"] if each["step"] == "relay"), None)
    if record is None or step is None:
        return
    if record.get("beside"):
        outlive_pod()
    servers: dict[socket.socket, str] = {}
    for server in step["servers"]:
        local = socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM)
        local.bind(("::1" if ":" in server else "127.0.0.1", 0))
        servers[local] = server
    ports = {server: local.getsockname()[1] for local, server in servers.items()}
    write(relay_file(step), json.dumps({**(process(os.getpid()) or {}), "ports": ports}))
    waiting: list[tuple[float, bytes, Any, socket.socket]] = []
    asked: dict[socket.socket, tuple[float, Any, socket.socket]] = {}
    while os.path.exists(ours(f"{name}.json")):
        soon = min(0.5, max(0.0, waiting[0][0] - now())) if waiting else 0.5
        for ready in select.select([*servers, *asked], [], [], soon)[0]:
            with contextlib.suppress(OSError):  # no server listens there, so none answers
                said, whose = ready.recvfrom(4096)
                if ready in servers:
                    waiting += [(now() + step["delay"], said, whose, ready)] if len(waiting) < MOST_QUESTIONS else []
                else:
                    _, client, local = asked[ready]
                    local.sendto(said, client)
                    asked[ready] = (0.0, client, local)  # it has its answer
        while waiting and waiting[0][0] <= now():
            _, question, client, local = waiting.pop(0)
            with contextlib.suppress(OSError):
                asked[passed_on(question, servers[local])] = (now() + ANSWER_SECONDS, client, local)
        for each in [each for each, (end, *_) in asked.items() if end <= now()] + list(asked)[:-MOST_QUESTIONS]:
            each.close()
            asked.pop(each, None)


def passed_on(question: bytes, server: str) -> socket.socket:
    """A socket on which a server's answer to a question comes. Raises ``OSError``."""
    asking = socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM)
    try:
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, RELAYED)
        asking.connect((server, DNS_PORT))
        asking.send(question)
    except OSError:
        asking.close()
        raise
    return asking


VERBS: dict[str, Callable[[Any], Data]] = {
    "facts": facts, "begin": begin, "extend": extend, "undo": undo, "state": state, "sweep": sweep,
    "probe": probe, "lookup": lookup,
}  # fmt: skip


def main(arguments: list[str]) -> int:
    global ROOT
    by_sudo = any(name.startswith(("SUDO_", "DOAS_")) for name in os.environ)
    os.environ.clear()
    os.environ.update(PATH=":".join(PLACES), LC_ALL="C.UTF-8")
    os.umask(0o077)
    # When ssh ends, what was begun is ended in order. Not SIG_IGN, which a node that we start would inherit.
    signal.signal(signal.SIGHUP, lambda *_: None)
    try:
        if os.geteuid() != 0:
            raise PermissionError("oschaos-host must be run by root")
        if "--root" in arguments[1:2]:
            # For tests. Who is root anyway gains nothing by it; who comes by sudo must not have it: the configuration
            # would be theirs. sudoers allows no argument after the verb, and sudo is refused here too.
            ROOT, arguments = os.path.realpath(arguments[2]), [arguments[0], *arguments[3:]]
            found = os.stat(ROOT)
            if by_sudo or found.st_uid != os.geteuid() or found.st_mode & 0o022:
                raise PermissionError("--root is for root itself, and a folder of root's alone")
        by_itself = {"expire": watch, "relay": relay}
        if arguments[0] in by_itself and len(arguments) == 2 and re.fullmatch(r"[a-z0-9-]+_[a-z0-9-]+", arguments[1]):
            by_itself[arguments[0]](arguments[1])
            return 0
        answer = answered(arguments)
    except (OSError, IndexError) as error:
        print(json.dumps({"ok": False, "why": f"unusable: {error}", "remedy": "docs/hosts.md"}))
        return 2
    print(json.dumps(answer))
    return 0


def enter_pod() -> None:
    """Where the configuration names a node by its pod, be in that pod's network namespace from here on, and whatever we
    start too. Nothing to do where the pod is gone: its namespace, and all rules in it, went with it."""
    with contextlib.suppress(Refused):  # who undoes something needs no configuration
        for node in configuration()["nodes"].values():
            pid = next(members(node["pod"]), None) if "pod" in node else None
            if pid is not None:
                with held(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)) as namespace:
                    set_network(namespace)


def set_network(namespace: int) -> None:
    if hasattr(os, "setns"):  # Python 3.12
        os.setns(namespace, CLONE_NEWNET)
        return
    import ctypes

    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def answered(arguments: list[str]) -> Data:
    try:
        if len(arguments) != 1 or arguments[0] not in VERBS:
            raise Refused("unknown verb", f"one of {', '.join(VERBS)}")
        enter_pod()
        raw = sys.stdin.buffer.read(MOST_INPUT + 1)
        if len(raw) > MOST_INPUT:
            raise Refused(f"more than {MOST_INPUT} bytes")
        return VERBS[arguments[0]](parsed(raw.decode("utf-8", "strict").strip() or "{}"))
    except (OSError, UnicodeDecodeError) as error:
        why = "no UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        return {"ok": False, "why": why, "remedy": ""}
    except Refused as error:
        return {"ok": False, "why": error.why, "remedy": error.remedy}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
