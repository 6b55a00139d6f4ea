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
import ipaddress
import json
import math
import os
import pwd
import re
import select
import signal
import stat
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


def boot() -> str:
    return text_of("/proc/sys/kernel/random/boot_id")


def tool(name: str) -> str | None:
    return next((f"{place}/{name}" for place in PLACES if os.access(f"{place}/{name}", os.X_OK)), None)


def run(name: str, *arguments: str, given: str = "", within: float = 20) -> subprocess.CompletedProcess[str]:
    """Run a tool; what it says comes through pipes, so that a full disk does not matter."""
    path = tool(name)
    if path is None:
        raise Refused(f"{name} is not on this host", f"install the package that brings {name}")
    try:
        return subprocess.run([path, *arguments], input=given, capture_output=True, text=True, timeout=within, cwd="/")
    except (subprocess.TimeoutExpired, OSError) as error:
        raise Refused(f"{name} {' '.join(arguments)}: {error}") from error


def must(name: str, *arguments: str, given: str = "") -> str:
    done = run(name, *arguments, given=given)
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


def records() -> str:
    return folder("/run/oschaos-host")  # /run is emptied by a reboot, which also takes away nearly all that we do


def write(path: str, content: str) -> None:
    """All of it and on disk, or nothing: who reads sees the old content or the new. Raises ``Refused`` (no room)."""
    new = f"{path}.new"
    try:
        with open(new, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
        directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(directory)
        os.close(directory)
    except OSError as error:
        remove(new)
        raise Refused(f"{path} could not be written: {error.strerror}", "make room there") from error


def remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


@contextlib.contextmanager
def locked(path: str, seconds: float = 30, kept: str | None = None) -> Iterator[None]:
    """Hold flock(2) on a file, which the kernel drops with its holder. It goes at the end if ``kept`` is not there."""
    end = now() + seconds
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise Refused(f"{path} could not be made: {error.strerror}", "make room there") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_ino == os.stat(path).st_ino:  # else its last holder took it away meanwhile
                break
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(descriptor)
        if now() > end:
            raise Refused(f"somebody else has held {path} for {seconds:.0f} s", "try again; see state")
        time.sleep(0.02)
    try:
        yield
    finally:
        if kept is not None and not os.path.exists(kept):
            remove(path)
        os.close(descriptor)


def record_path(name: str) -> str:
    return f"{records()}/{name}.json"


def load(name: str) -> Data | None:
    try:
        return dict(json.loads(text_of(record_path(name))))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise Refused(f"{record_path(name)} is no record: {error}", "see by nft, tc and ps what is there") from error


def names() -> list[str]:
    return sorted(file[:-5] for file in os.listdir(records()) if file.endswith(".json"))


def every() -> list[Data]:
    return [record for name in names() if (record := load(name)) is not None]


def record_lock(name: str) -> contextlib.AbstractContextManager[None]:
    return locked(f"{records()}/{name}.lock", kept=record_path(name))


def note_end(name: str, why: str, results: list[Data]) -> None:
    """For ``state``, and so that a request that comes late begins nothing. As well as it can be: undo needs no room."""
    with contextlib.suppress(OSError, Refused):
        write(f"{records()}/{name}.ended", json.dumps({"why": why, "at": now(), "boot": boot(), "steps": results}))
        ended = sorted((os.stat(f"{records()}/{file}").st_mtime, file) for file in os.listdir(records())
                       if file.endswith(".ended"))  # fmt: skip
        for _, file in ended[:-200]:
            remove(f"{records()}/{file}")


def accept_token(token: int) -> None:
    """The fencing law: no token below one that was seen. A new highest one is on disk before anything else is done."""
    path = f"{folder('/var/lib/oschaos-host')}/token"
    seen = highest_token()
    if token < seen:
        raise Refused(f"token {token} is older than {seen}: somebody else has the lock", "take the lock again")
    if token > seen:
        write(path, f"{token}\n")


def highest_token() -> int:
    path = f"{folder('/var/lib/oschaos-host')}/token"
    try:
        return int(text_of(path, 40))
    except FileNotFoundError:
        return 0
    except ValueError as error:
        raise Refused(f"{path} holds no number", "find out who wrote it; write the highest token there") from error


# --- What may be asked: every field by type and range, no unknown ones ------------------------------------------------


def matching(pattern: str) -> Check:
    def check(value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise ValueError(f"a text like {pattern}")
        return value

    return check


def whole(least: int, most: int) -> Check:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return value

    return check


def number(least: float, most: float) -> Check:
    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError("a number")
        if not least <= value <= most:
            raise ValueError(f"a number from {least} to {most}")
        return value

    return check


def some(check: Check, most: int, least: int = 1) -> Check:
    def all_of(value: Any) -> list[Any]:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise ValueError(f"a list of {least} to {most}")
        return sorted({check(each): None for each in value})

    return all_of


def address(value: Any) -> str:
    if not isinstance(value, str) or "%" in value:
        raise ValueError("an address")
    found = ipaddress.ip_address(value)
    return str(getattr(found, "ipv4_mapped", None) or found)


def network(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a network such as 10.0.0.0/16")
    return str(ipaddress.ip_network(value))


def one_of(*values: Any) -> Check:
    def check(value: Any) -> Any:
        if not any(value is each or (isinstance(value, str) and value == each) for each in values):
            raise ValueError(f"one of {', '.join(map(json.dumps, values))}")
        return value

    return check


def by_node(value: Any) -> Data:
    if not isinstance(value, dict) or not value:
        raise ValueError("nodes by name")
    return {NODE(name): node for name, node in value.items()}


def argv(value: Any) -> list[str]:
    texts = isinstance(value, list) and all(isinstance(each, str) and "\0" not in each for each in value)
    if not texts or not value or not os.path.isabs(value[0]):
        raise ValueError("a list of arguments, the first an absolute path")
    return list(value)


NAME = matching(r"[a-z0-9-]{1,40}")
NODE = matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
PORTS = some(whole(1, 65535), 16)
PATH = matching(r"/[A-Za-z0-9._/-]{0,200}")
TOKEN = whole(0, 2**63 - 1)
TTL = number(2, 86400)


def checked(given: Any, needed: dict[str, Check], optional: dict[str, Check] | None = None, what: str = "") -> Data:
    """``given``, if it has exactly these fields. Raises ``Refused``, which names the first that is wrong."""
    optional = optional or {}
    if not isinstance(given, dict):
        raise Refused(f"{what or 'the request'} is no JSON object")
    where = f"{what}: " if what else ""
    for field in given:
        if field not in needed and field not in optional:
            takes = ", ".join([*needed, *optional]) or "none"
            raise Refused(f"{where}unknown field {field!r:.60}", f"fields are: {takes}")
    for field in needed:
        if field not in given:
            raise Refused(f"{where}{field} is missing")
    result = {}
    for field, value in given.items():
        try:
            result[field] = {**needed, **optional}[field](value)
        except (ValueError, OverflowError, TypeError) as error:
            raise Refused(f"{where}{field}: {error}") from error
    return result


def configuration() -> Data:
    """/etc/oschaos-host.json, if nobody but root can have written it."""
    path = f"{ROOT}/etc/oschaos-host.json"
    remedy = f"chown root:root {path}; chmod 0644 {path}"
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="utf-8") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
                raise Refused(f"{path} can be written by others than root", remedy)
            given = parsed(file.read(MOST_INPUT + 1))
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}", "write it; docs/hosts.md has an example") from error
    if os.stat(os.path.dirname(path)).st_mode & 0o022:
        raise Refused(f"the folder of {path} can be written by others than root", "chmod 0755 it")
    config = checked(
        given,
        {"nodes": by_node, "intents": some(one_of(*INTENTS), len(INTENTS), 0), "longest": whole(2, 86400)},
        {"peers": some(network, 256), "everything": one_of(True, False)},
        path,
    )
    for name, node in config["nodes"].items():
        shared: dict[str, Check] = {"ports": PORTS, "data": PATH}
        if isinstance(node, dict) and "unit" in node:
            unit = matching(r"[A-Za-z0-9@._-]{1,120}\.service")
            config["nodes"][name] = checked(node, {"unit": unit}, shared, f"{path}: node {name}")
        else:
            user = matching(r"[a-z_][a-z0-9_-]{0,31}")
            by_pid: dict[str, Check] = {"pidfile": PATH, "start": argv, "user": user}
            config["nodes"][name] = checked(node, by_pid, shared, f"{path}: node {name}")
    return config


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


def same(step: Data) -> Data | None:
    found = process(step["pid"])
    return found if found is not None and found["start"] == step["start"] else None


def send(step: Data, number: int) -> bool:
    """Signal exactly this process, by pidfd: nobody else who has got its pid meanwhile. False: it is gone."""
    try:
        descriptor = os.pidfd_open(step["pid"])
    except ProcessLookupError:
        return False
    try:
        if same(step) is None:
            return False
        signal.pidfd_send_signal(descriptor, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)


def user_of(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except KeyError as error:
        raise Refused(f"there is no user {name} on this host", "correct the configuration") from error


def unit_shows(unit: str, *properties: str) -> Data:
    said = must("systemctl", "show", unit, *(f"--property={each}" for each in properties))
    return dict(line.partition("=")[::2] for line in said.splitlines())


def node_process(node: Data, strict: bool = False) -> Data | None:
    """The node's process; None while there is none. ``strict`` raises ``Refused`` where its pid is somebody else's."""
    if "unit" in node:
        return process(int(unit_shows(node["unit"], "MainPID").get("MainPID") or 0))
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
    if "unit" in node:
        run("systemctl", "reset-failed", node["unit"])  # so that a limit of starts does not stop us
        must("systemctl", "start", "--no-block", node["unit"])
        if not until(lambda: node_process(node), 20):
            raise Refused(f"{node['unit']} did not start", f"systemctl status {node['unit']}")
        return
    user = user_of(node["user"])
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("0")  # a dead-man has lowered its own, and the node must not inherit that
    started = subprocess.Popen(
        node["start"], cwd="/", user=user.pw_uid, group=user.pw_gid, umask=0o022, start_new_session=True,
        extra_groups=os.getgrouplist(user.pw_name, user.pw_gid), env={**os.environ, "HOME": user.pw_dir},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    if not until(lambda: node_process(node) or started.poll(), 120) or node_process(node) is None:
        raise Refused(f"no process came of {' '.join(node['start'])} (exit code {started.poll()})")


# --- Steps: make, undo, measure. Undo is idempotent, whether the step was made or not, and writes nothing -------------
# Undo returns {"gone": ...} in words, or {"left": ...} where somebody else has changed it. Raising means: try again.


def make_pause(step: Data) -> None:
    if not send(step, signal.SIGSTOP) or not until(lambda: (same(step) or {}).get("state") in ("T", "t"), 5):
        raise Refused(f"process {step['pid']} did not stop")


def undo_pause(step: Data) -> Data:
    found = same(step)
    if found is None:
        return {"gone": "the process is gone, so nothing was to be continued"}
    if found["state"] not in "Tt":
        return {"gone": "it runs"}
    send(step, signal.SIGCONT)
    if not until(lambda: (same(step) or {"state": "gone"})["state"] not in "Tt", 5):
        raise Refused(f"process {step['pid']} does not go on")
    return {"gone": "it was continued, and runs"}


def measure_pause(step: Data) -> Data:
    found = same(step)
    return {"there": found is not None and found["state"] in "Tt", "state": found["state"] if found else None}


def make_down(step: Data) -> None:
    node = step["node"]
    if step["how"] == "kill":
        if "unit" in node:
            must("systemctl", "kill", "--signal=SIGKILL", node["unit"])
        elif not send(step, signal.SIGKILL):
            raise Refused(f"process {step['pid']} was gone already")
        if not until(lambda: same(step) is None, 10):
            raise Refused(f"process {step['pid']} did not die")
    elif "unit" in node:
        must("systemctl", "stop", "--no-block", node["unit"])
    elif not send(step, signal.SIGTERM):
        raise Refused(f"process {step['pid']} was gone already")


def undo_down(step: Data) -> Data:
    patience = 5 if step["how"] == "kill" else min(30.0, max(0.0, step["began"] + STOPPING - now()))
    if not until(lambda: same(step) is None, patience):
        if step["how"] == "stop" and now() < step["began"] + STOPPING:
            raise Refused(f"process {step['pid']} has not ended yet")
        if step["how"] == "kill":
            return {"gone": f"process {step['pid']} was never killed"}
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
    must("systemctl", "daemon-reload")
    if unit_shows(step["unit"], "Restart").get("Restart") != "no":
        raise Refused(f"{step['unit']} is still restarted by systemd", "look for drop-ins that come after ours")


def undo_dropin(step: Data) -> Data:
    remove(step["path"])
    with contextlib.suppress(OSError):  # others may have drop-ins there
        os.rmdir(os.path.dirname(step["path"]))
    must("systemctl", "daemon-reload")
    return {"gone": "systemd restarts it as before"}


def measure_dropin(step: Data) -> Data:
    return {"there": os.path.exists(step["path"])}


def tables() -> list[str]:
    """The tables of nftables that are ours by name."""
    listed = json.loads(must("nft", "-j", "list", "tables"))["nftables"]
    found = (each["table"] for each in listed if "table" in each)
    return [each["name"] for each in found if each["family"] == "inet" and each["name"].startswith("oschaos_")]


def make_table(step: Data) -> None:
    must("nft", "-f", "-", given=step["text"])  # one transaction: all rules or none


def undo_table(step: Data) -> Data:
    if step["table"] in tables():
        must("nft", "delete", "table", "inet", step["table"])
    if step["table"] in tables():
        raise Refused(f"the table {step['table']} is still there")
    return {"gone": f"no table {step['table']}"}


def measure_table(step: Data) -> Data:
    if step["table"] not in tables():
        return {"there": False}
    listed = json.loads(must("nft", "-j", "list", "table", "inet", step["table"]))["nftables"]
    packets = {"hit": 0, "spared": 0}
    for rule in (each["rule"] for each in listed if "rule" in each):
        packets[rule["comment"]] += sum(part["counter"]["packets"] for part in rule["expr"] if "counter" in part)
    return {"there": True, **packets}


def root_qdisc(device: str) -> tuple[str, str]:
    """Kind and handle of what queues on a device. Those that the kernel puts there itself have the handle ``0:``."""
    listed = json.loads(must("tc", "-j", "qdisc", "show", "dev", device) or "[]")
    return next(((each["kind"], each["handle"]) for each in listed if each.get("root")), ("none", "0:"))


def make_qdisc(step: Data) -> None:
    must("tc", "-batch", "-", given="\n".join(step["lines"]) + "\n")


def undo_qdisc(step: Data) -> Data:
    # not by /sys, which may show another network namespace than the one that we are in
    if step["device"] not in {line.partition(":")[0].strip() for line in text_of("/proc/self/net/dev").splitlines()}:
        return {"gone": f"{step['device']} is gone"}
    found = root_qdisc(step["device"])
    if found == ("htb", step["handle"]):
        must("tc", "qdisc", "del", "dev", step["device"], "root", "handle", step["handle"])
    elif found[1] != "0:":
        return {"left": f"somebody else changed the queueing of {step['device']} to {found[0]} {found[1]}"}
    if root_qdisc(step["device"]) == ("htb", step["handle"]):
        raise Refused(f"{step['device']} still has {step['handle']}")
    return {"gone": f"{step['device']} queues as before"}


def measure_qdisc(step: Data) -> Data:
    there = root_qdisc(step["device"]) == ("htb", step["handle"])
    shown = run("tc", "-s", "-j", "class", "show", "dev", step["device"]).stdout if there else ""
    return {"there": there, "device": step["device"], "handle": step["handle"], "classes": shown.strip()[:2000]}


def inside(step: Data) -> int:
    """The data folder, opened; raises ``OSError`` where it is not the same file system any more."""
    descriptor = os.open(step["path"], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    if os.fstat(descriptor).st_dev != step["device"]:
        os.close(descriptor)
        raise FileNotFoundError(step["path"])
    return descriptor


def room(where: int | str) -> Data:
    """Bytes of a file system: in all, and free to who is not root."""
    found = os.statvfs(where)
    return {"bytes": found.f_blocks * found.f_frsize, "free": found.f_bavail * found.f_frsize}


def make_filler(step: Data) -> None:
    directory = inside(step)
    # EXCL and NOFOLLOW: whoever owns the folder cannot lead us elsewhere by a link of this name
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        descriptor = os.open(step["file"], flags, 0o600, dir_fd=directory)
        try:
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
        finally:
            os.close(descriptor)
    finally:
        os.close(directory)


def undo_filler(step: Data) -> Data:
    try:
        directory = inside(step)
    except FileNotFoundError:
        return {"left": f"somebody else mounted or removed {step['path']}; {step['file']} may be on that file system"}
    try:
        os.unlink(step["file"], dir_fd=directory)
    except FileNotFoundError:
        return {"gone": "no filler"}
    finally:
        os.close(directory)
    return {"gone": "the filler was removed"}


def measure_filler(step: Data) -> Data:
    with contextlib.suppress(OSError):
        directory = inside(step)
        try:
            found = os.stat(step["file"], dir_fd=directory, follow_symlinks=False)
            return {"there": True, "bytes": found.st_blocks * 512, "free": room(directory)["free"]}
        finally:
            os.close(directory)
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
        with open(step["path"], "w", encoding="ascii") as file:
            file.write(value if step["device"] is None else f"{step['device']} {value}")
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


def mounted(path: str) -> list[str]:
    """The options of a mount and of its file system; nothing where none is there."""
    for line in reversed(text_of("/proc/self/mountinfo").splitlines()):
        fields = line.split()
        if fields[4] == path:
            return [*fields[5].split(","), *fields[-1].split(",")]
    return []


def make_mount(step: Data) -> None:
    must("mount", "-o", "remount,ro", step["path"])  # the kernel refuses while files are open for writing


def undo_mount(step: Data) -> Data:
    if not mounted(step["path"]) or os.stat(step["path"]).st_dev != step["device"]:
        return {"left": f"somebody else mounted or unmounted {step['path']}"}
    if "ro" in mounted(step["path"]):
        must("mount", "-o", "remount,rw", step["path"])
    if "ro" in mounted(step["path"]):
        raise Refused(f"{step['path']} is still read-only")
    return {"gone": f"{step['path']} takes writes"}


def measure_mount(step: Data) -> Data:
    return {"there": "ro" in mounted(step["path"])}


class Step(NamedTuple):
    make: Callable[[Data], None]
    undo: Callable[[Data], Data]
    measure: Callable[[Data], Data]


STEPS = {
    "pause": Step(make_pause, undo_pause, measure_pause),
    "down": Step(make_down, undo_down, measure_down),
    "dropin": Step(make_dropin, undo_dropin, measure_dropin),
    "table": Step(make_table, undo_table, measure_table),
    "qdisc": Step(make_qdisc, undo_qdisc, measure_qdisc),
    "filler": Step(make_filler, undo_filler, measure_filler),
    "value": Step(make_value, undo_value, measure_value),
    "mount": Step(make_mount, undo_mount, measure_mount),
}


# --- Plans: what an intent needs, as steps. They look, and change nothing ---------------------------------------------
# A plan gets the checked request (with its name), the node as configured, and the configuration.


def running(node: Data) -> Data:
    found = node_process(node, strict=True)
    if found is None:
        raise Refused("the node does not run", "start it first")
    return {"pid": found["pid"], "start": found["start"]}


def plan_pause(ask: Data, node: Data, config: Data) -> list[Data]:
    return [{"step": "pause", **running(node)}]


def plan_down(ask: Data, node: Data, config: Data) -> list[Data]:
    how = "kill" if ask["intent"] == "node.kill" else "stop"
    down = {"step": "down", "how": how, "node": node, "began": now(), **running(node)}
    if how == "stop" or "unit" not in node:
        return [down]
    # Else systemd starts it again by Restart=. A drop-in in /run is the least that keeps it from that: a mask in /run
    # is ignored where the unit's file is in /etc. It is written first and taken away last, after the start.
    path = f"/run/systemd/system/{node['unit']}.d/zz-oschaos-{ask['name']}.conf"
    return [{"step": "dropin", "unit": node["unit"], "path": path, "text": "[Service]\nRestart=no\n"}, down]


def own_file_system(node: Data) -> tuple[str, int]:
    path = node.get("data")
    if path is None:
        raise Refused("the configuration names no data folder of this node")
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


def control_group(node: Data, controller: str) -> tuple[int, str]:
    """Version and folder of the node's control group, if nobody else is in it."""
    pid = running(node)["pid"]
    inside = dict(line.split(":", 2)[1:] for line in text_of(f"/proc/{pid}/cgroup").splitlines())
    mounts = [line.partition(" - ") for line in text_of("/proc/self/mountinfo").splitlines()]
    # version 1 first: where both are mounted, it has the controllers
    for before, _, after in sorted(mounts, key=lambda mount: mount[2].startswith("cgroup2")):
        kind, _, options = after.split(" ", 2)
        if before.split()[3] != "/" or kind not in ("cgroup", "cgroup2"):
            continue
        owner = next((key for key in inside if controller in key.split(",")), None) if kind == "cgroup" else ""
        if owner is None or (kind == "cgroup" and controller not in options.split(",")):
            continue
        group = os.path.normpath(before.split()[4] + "/" + inside.get(owner, "/"))
        if inside.get(owner, "/") == "/":
            if kind == "cgroup2":
                continue  # version 1 has the controller
            raise Refused(f"the node has no control group of its own for {controller}", "run it in a unit of its own")
        for other in map(int, text_of(f"{group}/cgroup.procs").split()):
            if not descends(other, pid):
                raise Refused(f"process {other} is in the node's control group too, and would be hit")
        return (1 if kind == "cgroup" else 2), group
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
    size = str(ask["bytes"] // os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PAGE_SIZE"))
    if version == 1 and ask.get("beyond", "kill") == "slow":
        raise Refused("control groups of version 1 only kill beyond a limit", "ask for beyond: kill")
    if version == 1:
        return [value(f"{group}/memory.limit_in_bytes", size)]
    return [value(f"{group}/memory.{'high' if ask.get('beyond') == 'slow' else 'max'}", size)]


def plan_disk_slow(ask: Data, node: Data, config: Data) -> list[Data]:
    _, device = own_file_system(node)
    version, group = control_group(node, "blkio" if os.path.exists("/sys/fs/cgroup/blkio") else "io")
    disk = os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if not os.path.exists(disk):
        raise Refused("the data folder is on no block device")
    if os.path.exists(f"{disk}/partition"):
        disk = os.path.dirname(disk)  # limits are of whole disks; only this node's control group is limited
    key, rate = text_of(f"{disk}/dev"), ask["rate"]
    if version == 1:
        return [value(f"{group}/blkio.throttle.{way}_bps_device", str(rate), key, "0") for way in ("read", "write")]
    unlimited = "rbps=max wbps=max riops=max wiops=max"
    before = value(f"{group}/io.max", "", key, unlimited)["before"]
    ours = re.sub(r"\b([rw])bps=\w+", rf"\1bps={rate}", before)
    return [value(f"{group}/io.max", ours, key, unlimited)]


def sockets(pid: int | str, path: str) -> Iterator[tuple[str, int, str, int, str, str]]:
    """Lines of /proc/PID/net/tcp: local and remote address and port, state, inode."""
    with contextlib.suppress(OSError):
        for line in text_of(f"/proc/{pid}/net/{path}", 1 << 26).splitlines()[1:]:
            fields = line.split()
            ends: list[Any] = []
            for end in fields[1:3]:
                words, _, port = end.partition(":")
                raw = b"".join(bytes.fromhex(words[at : at + 8])[::-1] for at in range(0, len(words), 8))
                found = ipaddress.ip_address(raw)
                ends += [str(getattr(found, "ipv4_mapped", None) or found), int(port, 16)]
            yield (*ends, fields[3], fields[9])


def socket_inodes(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found


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
    return sorted(
        {(far, near_port) for path in ("tcp", "tcp6") for _, near_port, far, _, state, inode in sockets("self", path)
         if state == "01" and inode in inodes}
    )  # fmt: skip


def braces(values: list[Any]) -> str:
    return "{ " + ", ".join(map(str, values)) + " }"


def by_family(addresses: list[str]) -> list[tuple[str, list[str]]]:
    four = [each for each in addresses if ":" not in each]
    six = [each for each in addresses if ":" in each]
    return [(family, found) for family, found in (("ip", four), ("ip6", six)) if found]


WHICH = {  # which packets, and what becomes of them
    "network.drop": ("", "counter drop"),
    # the first packet of a connection
    "network.refuse": ("tcp flags & (fin | syn | rst | ack) == syn", "counter reject with tcp reset"),
    # not the handshake; nor resets, since those that we send to ourselves pass here too
    "network.reset": ("tcp flags & (syn | rst) == 0x0", "counter reject with tcp reset"),
}


def rules(ask: Data, spared: list[tuple[str, int]]) -> str:
    """The table's text: what comes by our ssh passes first; then what is between these peers and these ports is hit.

    ``accept`` only ends this table's look at a packet: the firewall of the host still decides about it.
    """
    which, verdict = WHICH.get(ask["intent"], ("", ""))
    if ask["intent"] == "network.loss":
        verdict = f"numgen random mod 1000 < {max(1, round(ask['share'] * 1000))} counter drop"
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
        for family, peers in by_family(ask["peers"]):
            if ask["everything"]:
                ports = ["" if not which else "meta l4proto tcp"]
            else:
                local, remote = ask["local_ports"], ask["remote_ports"]
                ports = [f"tcp {near_port} {braces(local)}"] if local else []
                if remote:  # what the first rule had is not rolled for twice
                    but = f"tcp {near_port} != {braces(local)} " if local else ""
                    ports.append(f"{but}tcp {far_port} {braces(remote)}")
            for each in ports:
                words = [family, far, braces(peers), each, which, verdict, 'comment "hit"']
                lines.append("    " + " ".join(word for word in words if word))
        lines.append("  }")
    return "\n".join([f"table inet {table_name(ask['name'])} {{", *lines, "}", ""])


def table_name(name: str) -> str:
    return f"oschaos_{name}"


def aimed(ask: Data, node: Data, config: Data) -> list[tuple[str, int]]:
    """Complete and check whom a network fault hits; return the way in that it spares."""
    allowed = [ipaddress.ip_network(each) for each in config.get("peers", [])]
    for peer in map(ipaddress.ip_address, ask["peers"]):
        if not any(peer in each for each in allowed if each.version == peer.version):
            raise Refused(f"the configuration allows no fault towards {peer}", "add its network to peers")
    found = node_process(node)
    if found is not None and os.stat(f"/proc/{found['pid']}/ns/net").st_ino != os.stat("/proc/self/ns/net").st_ino:
        raise Refused("the node has a network namespace of its own, which rules of the host do not see")
    ports = node.get("ports", [])
    ask.setdefault("everything", False)
    if ask["everything"]:
        if not config.get("everything", False):
            raise Refused("the configuration does not allow faults on everything between hosts", "everything: true")
        if "local_ports" in ask or "remote_ports" in ask:
            raise Refused("everything takes no ports")
    elif "local_ports" not in ask and "remote_ports" not in ask:
        ask["local_ports"] = ask["remote_ports"] = ports
    for field in ("local_ports", "remote_ports"):
        ask.setdefault(field, [])
        if not set(ask[field]) <= set(ports):
            raise Refused(f"{field}: only the node's own ports can be hit: {ports}", "add them to the configuration")
    if not ask["everything"] and not ask["local_ports"] and not ask["remote_ports"]:
        raise Refused("the node has no ports in the configuration")
    spared = ways_in()
    if not spared and (ask["everything"] or 22 in ask["local_ports"]):
        raise Refused("this would cut our own way in: it cannot be seen by which ssh connection we were called",
                      "call it through sshd, or leave everything out")  # fmt: skip
    return spared


def plan_table(ask: Data, node: Data, config: Data) -> list[Data]:
    ask.setdefault("direction", "both")
    spared = aimed(ask, node, config)
    return [{"step": "table", "table": table_name(ask["name"]), "text": rules(ask, spared)}]


def handle_of(name: str) -> int:
    """A number of our own for queues, which follows from the fault's name."""
    return 0x1000 + zlib.crc32(name.encode()) % 0xE000


def queues(ask: Data, device: str, peers: list[str], spared: list[tuple[str, int]]) -> list[str]:
    """Lines for tc: what leaves for these peers gets a class of its own; all else passes as if there were none."""
    major, filters = f"{handle_of(ask['name']):x}", []
    rate = f"{ask['rate'] * 8}bit" if "rate" in ask else "100gbit"

    def sorted_by(preference: int, family: str, peer: str, match: str, minor: str) -> str:
        protocol, bits = ("ip", 32) if family == "ip" else ("ipv6", 128)
        short = "ip" if family == "ip" else "ip6"
        ports = f" match {short} {match} 0xffff" if match else ""
        return (f"filter add dev {device} parent {major}: protocol {protocol} prio {preference} u32 "
                f"match {short} dst {peer}/{bits}{ports} flowid {major}:{minor}")  # fmt: skip

    for client, port in spared:
        family = by_family([client])[0][0]
        filters.append(sorted_by(10 if family == "ip" else 11, family, client, f"sport {port}", "0"))
    for family, found in by_family(peers):
        matches = [""] if ask["everything"] else [f"sport {port}" for port in ask["local_ports"]]
        matches += [f"dport {port}" for port in ask["remote_ports"]]
        preference = 20 if family == "ip" else 21
        filters += [sorted_by(preference, family, peer, each, "1") for peer in found for each in matches]
    lines = [
        f"qdisc add dev {device} root handle {major}: htb default 0",  # 0: what no filter takes is sent directly
        f"class add dev {device} parent {major}: classid {major}:1 htb rate {rate} ceil {rate} quantum 60000",
    ]
    if "delay_ms" in ask:
        delay = f"delay {ask['delay_ms']}ms {ask.get('jitter_ms', 0)}ms limit 100000"
        lines.append(f"qdisc add dev {device} parent {major}:1 handle {handle_of(ask['name']) + 1:x}: netem {delay}")
    return lines + filters


def plan_queues(ask: Data, node: Data, config: Data) -> list[Data]:
    spared = aimed(ask, node, config)
    devices: dict[str, list[str]] = {}
    for peer in ask["peers"]:
        routes = json.loads(must("ip", "-j", "route", "get", peer))
        devices.setdefault(routes[0]["dev"], []).append(peer)
    steps = []
    for device, peers in devices.items():
        kind, handle = root_qdisc(device)
        if handle != "0:":
            raise Refused(f"{device} has queueing of somebody else ({kind} {handle})", "ask who set it up")
        lines = queues(ask, device, peers, spared)
        steps.append({"step": "qdisc", "device": device, "handle": f"{handle_of(ask['name']):x}:", "lines": lines})
    return steps


# --- Intents ----------------------------------------------------------------------------------------------------------


class Intent(NamedTuple):
    does: str
    undone: str
    plan: Callable[[Data, Data, Data], list[Data]]
    needed: dict[str, Check]
    optional: dict[str, Check]
    tools: tuple[str, ...] = ()
    kernel: tuple[str, ...] = ()


PEERS: dict[str, Check] = {"peers": some(address, 64)}
WHERE: dict[str, Check] = {"local_ports": PORTS, "remote_ports": PORTS, "everything": one_of(True, False)}
DIRECTED: dict[str, Check] = {**WHERE, "direction": one_of("in", "out", "both")}
NFT = (("nft",), ("nf_tables",))
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
    "node.pause": Intent(
        "SIGSTOP to the node's process", "SIGCONT to the same process", plan_pause, {}, {}),
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
    "network.latency": Intent(
        "netem under a class of htb: what leaves this host for the peers waits; other traffic does not",
        "the queueing is deleted if it is still ours", plan_queues,
        {**PEERS, "delay_ms": whole(1, 60000)}, {**WHERE, "jitter_ms": whole(0, 60000)},
        ("tc", "ip"), ("htb", "netem")),
    "network.bandwidth": Intent(
        "a class of htb: what leaves this host for the peers shares this many bytes per second",
        "the queueing is deleted if it is still ours", plan_queues,
        {**PEERS, "rate": RATE}, WHERE, ("tc", "ip"), ("htb",)),
    "disk.full": Intent(
        "a file fills the data folder's file system until leave_bytes are free, or this share of it is used",
        "the file is removed", plan_filler, {}, {"leave_bytes": whole(0, 2**50), "share": number(0.01, 1)}),
    "disk.slow": Intent(
        "reads and writes of the node's control group to its disk: bytes per second each (version 1: not what is "
        "written back later by the kernel)",
        "the limits that were there, if they are still ours", plan_disk_slow, {"rate": RATE}, {}),
    "disk.read_only": Intent(
        "mount -o remount,ro; the kernel refuses while a file is open for writing, as it is while a node runs",
        "mount -o remount,rw", plan_mount, {}, {}, ("mount",)),
    "cpu.limit": Intent(
        "quota of the node's control group", "the quota that was there, if it is still ours",
        plan_cpu, {"processors": number(0.02, 1024)}, {}),
    "memory.limit": Intent(
        "limit of the node's control group; beyond it the kernel kills (kill) or slows (slow, version 2 only)",
        "the limit that was there, if it is still ours", plan_memory,
        {"bytes": whole(1 << 20, 2**50)}, {"beyond": one_of("kill", "slow")}),
}  # fmt: skip
PROBES = {  # each is tried in a network namespace that ends with it
    "nf_tables": ("nft", "add", "table", "inet", "probe"),
    "htb": ("tc", "qdisc", "add", "dev", "lo", "root", "htb", "default", "0"),
    "netem": ("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"),
    "tbf": ("tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", "1mbit", "burst", "10k", "latency", "9ms"),
}


def lacks(feature: str) -> str | None:
    name, *arguments = PROBES[feature]
    path = tool(name)
    if path is None:
        return f"{name} is not on this host"
    try:
        done = run("unshare", "--net", "--", path, *arguments)
    except Refused as error:
        return error.why
    said = done.stderr.strip().splitlines()
    return None if done.returncode == 0 else f"the kernel has no {feature} ({said[0] if said else done.returncode})"


def cannot(intent: str, node: Data, config: Data, lacking: Callable[[str], str | None] = lacks) -> str | None:
    """Why an intent cannot be had for a node here, whatever its parameters are; None if nothing is against it."""
    if intent not in config["intents"]:
        return "the configuration does not allow it"
    needed = INTENTS[intent]
    for name in (*needed.tools, *(("systemctl",) if "unit" in node else ())):
        if tool(name) is None:
            return f"{name} is not on this host"
    for feature in needed.kernel:
        if (why := lacking(feature)) is not None:
            return why
    try:
        if needed.kernel and not config.get("peers"):
            return "the configuration names no peers"
        if intent.startswith("disk."):
            own_file_system(node)
        if intent == "cpu.limit":
            plan_cpu({"processors": 0.02}, node, config)
        if intent == "memory.limit":
            plan_memory({"bytes": 1 << 20}, node, config)
        if intent == "disk.slow":
            plan_disk_slow({"rate": 1024}, node, config)
        if intent.startswith("node."):
            running(node)
    except Refused as error:
        return error.why
    return None


# --- The dead-man -----------------------------------------------------------------------------------------------------


def by_systemd() -> bool:
    return os.path.isdir("/run/systemd/system") and tool("systemd-run") is not None


def timer(record: Data) -> str:
    return f"oschaos-undo-{record['name']}-{record['armed']}"


def arm(record: Data) -> None:
    if not by_systemd():
        sleeper(record["name"])
        return
    must(
        "systemd-run", f"--on-active={max(1, round((record['deadline'] - now()) * 1000))}ms",
        "--timer-property=AccuracySec=100ms", f"--unit={timer(record)}", "--property=Restart=on-failure",
        "--property=RestartSec=1", "--collect", "--", sys.executable, "-IS", os.path.abspath(__file__), "expire",
        *(("--root", ROOT) if ROOT else ()), record["name"],
    )  # fmt: skip


def armed(record: Data) -> Data:
    """What would undo it, and whether it is seen alive."""
    if by_systemd():
        state = unit_shows(f"{timer(record)}.timer", "ActiveState").get("ActiveState", "")
        return {"by": f"systemd timer {timer(record)}", "alive": state == "active"}
    path = f"{records()}/{record['name']}.armed"
    with contextlib.suppress(OSError, ValueError):
        who = json.loads(text_of(path))
        descriptor = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # whoever wrote this still holds it
            return {"by": f"process {who['pid']}", "alive": same(who) is not None}
        finally:
            os.close(descriptor)
    return {"by": "process", "alive": False}


def disarm(record: Data) -> None:
    """After the record is gone a sleeper ends by itself, and a timer that fires finds nothing to do."""
    if by_systemd():
        run("systemctl", "stop", f"{timer(record)}.timer")


def sleeper(name: str) -> None:
    """A process of its own that outlives ssh, sshd and us; returns when it has said that it is there.

    It holds a lock on NAME.armed as long as it lives. What it needs for the undo is in memory and in /run.
    """
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                os.chdir("/")
                nothing = os.open(os.devnull, os.O_RDWR)
                for descriptor in (0, 1, 2):
                    os.dup2(nothing, descriptor)
                mark = os.open(f"{records()}/{name}.armed", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
                fcntl.flock(mark, fcntl.LOCK_EX)
                os.write(mark, json.dumps(process(os.getpid())).encode())
                with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
                    file.write("-1000")  # a fault that takes memory must not take its own undo
                for descriptor in map(int, os.listdir("/proc/self/fd")):
                    if descriptor > 2 and descriptor not in (mark, writing):
                        with contextlib.suppress(OSError):
                            os.close(descriptor)
                os.write(writing, b"1")
                os.close(writing)
                watch(name)
                remove(f"{records()}/{name}.armed")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        if pipe.read(1) != b"1":
            raise Refused("the dead-man did not come up", "make room in /run")


def watch(name: str) -> None:
    """Wait for a record's deadline, which may be moved, and undo it then; again and again until it is undone."""
    pause = 0.5
    while True:
        try:
            record = load(name)
            if record is None or record["boot"] != boot():
                return
            if record["deadline"] > now():
                time.sleep(min(0.1, max(0.0, record["deadline"] - now())))
                continue
            with record_lock(name):
                record = load(name)
                if record is None or (record["deadline"] <= now() and not failed(finish(record, "its time was over"))):
                    return
        except Exception:
            pass  # nobody hears it, and giving up is the one thing that must not be
        time.sleep(pause)
        pause = min(30, pause * 2)


# --- Verbs ------------------------------------------------------------------------------------------------------------


def failed(results: list[Data]) -> list[str]:
    return [each["failed"] for each in results if "failed" in each]


def finish(record: Data, why: str) -> list[Data]:
    """Undo a record, whose lock is held: last step first, each whatever became of the others. Then forget it."""
    results = []
    for step in reversed(record["steps"]):
        try:
            results.append({"step": step["step"], **STEPS[step["step"]].undo(step)})
        except Refused as error:
            results.append({"step": step["step"], "failed": error.why})
        except Exception as error:
            results.append({"step": step["step"], "failed": f"{type(error).__name__}: {error}"})
    if not failed(results):
        note_end(record["name"], why, results)
        remove(record_path(record["name"]))
        disarm(record)
    return results


def holds(step: Data) -> str:
    """What no two faults may have at a time."""
    by = {"pause": "pid", "down": "pid", "dropin": "unit", "qdisc": "device", "table": "table"}
    return f"{step['step']}:{step[by.get(step['step'], 'path')]}"


def shown(record: Data) -> Data:
    """A record as callers see it, with everything measured anew."""
    steps = []
    for step in record["steps"]:
        try:
            steps.append({"step": step["step"], **STEPS[step["step"]].measure(step)})
        except Exception as error:
            steps.append({"step": step["step"], "there": None, "why": f"not measured: {error}"})
    left = round(record["deadline"] - now(), 3)
    return {**{field: record[field] for field in ("run", "id", "intent", "node", "token")}, "left": left,
            "dead_man": armed(record), "steps": steps}  # fmt: skip


def named(name: str, config: Data) -> Data:
    if name not in config["nodes"]:
        raise Refused(f"the configuration names no node {name}", f"it names {', '.join(config['nodes'])}")
    return dict(config["nodes"][name])


COMMON: dict[str, Check] = {"run": NAME, "id": NAME, "token": TOKEN, "ttl": TTL, "intent": one_of(*INTENTS)}


def begin(given: Any) -> Data:
    asked = given.get("intent") if isinstance(given, dict) else None
    intent = INTENTS.get(asked) if isinstance(asked, str) else None
    if intent is None:
        raise Refused("intent: none of those that there are", ", ".join(INTENTS))
    ask = checked(given, {**COMMON, "node": NODE, **intent.needed}, intent.optional)
    ask["name"] = name = f"{ask['run']}_{ask['id']}"
    if ask["intent"] == "disk.full" and "share" not in ask and "leave_bytes" not in ask:
        raise Refused("disk.full needs leave_bytes or share")
    with locked(f"{folder('/var/lib/oschaos-host')}/lock"):  # one begin at a time
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
                    if other["boot"] == boot() and holds(step) in map(holds, other["steps"]):
                        raise Refused(f"{other['run']} {other['id']} holds the same ({holds(step)})", "undo that first")
            record = {"protocol": PROTOCOL, "boot": boot(), "began": now(), "deadline": now() + ask["ttl"], "armed": 1,
                      "longest": config["longest"], "steps": steps}  # fmt: skip
            record.update({field: ask[field] for field in ("name", "run", "id", "intent", "node", "token")})
            write(record_path(name), json.dumps(record))
            return made(record, ask)


def overdue() -> None:
    """Undo what nobody will: its time is over and its dead-man gone, killed by root or never armed."""
    for record in every():
        if record["boot"] == boot() and record["deadline"] + 5 < now() and not armed(record)["alive"]:
            with contextlib.suppress(Refused):
                ended(record["name"], "its time was over and its dead-man gone")


def fresh(name: str) -> None:
    """No id twice in a boot: a request that comes again, or after its own undo, must begin nothing."""
    found = load(name)
    if found is not None and found["boot"] == boot():
        raise Refused("this id is active", "undo it, or take another id")
    remove(record_path(name))
    with contextlib.suppress(FileNotFoundError, ValueError):
        ended = json.loads(text_of(f"{records()}/{name}.ended"))
        if ended.get("boot") == boot():
            raise Refused(f"this id has been undone: {ended['why']}", "take another id")


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
    return {"ok": True, "run": ask["run"], "id": ask["id"], "active": False, "steps": results,
            "pid": (node_process(down["node"]) or {}).get("pid")}  # fmt: skip


def extend(given: Any) -> Data:
    ask = checked(given, {"run": NAME, "id": NAME, "token": TOKEN, "ttl": TTL})
    name = f"{ask['run']}_{ask['id']}"
    with locked(f"{folder('/var/lib/oschaos-host')}/lock"):
        accept_token(ask["token"])
        with record_lock(name):
            record = load(name)
            if record is None or record["boot"] != boot():
                raise Refused("this id is not active", "it was undone, or never begun; see state")
            if record["deadline"] <= now():
                raise Refused("its time is over: it is being undone")
            old = dict(record)
            record["deadline"] = min(now() + ask["ttl"], record["began"] + record["longest"])
            if by_systemd():  # a second timer first, so that there is no moment without one
                record["armed"] += 1
                arm(record)
                if not armed(record)["alive"]:
                    raise Refused("the new dead-man was not seen armed; the old one stays")
            elif not armed(old)["alive"]:
                sleeper(name)  # its dead-man was killed: a new one
            try:
                write(record_path(name), json.dumps(record))
            except Refused:
                if by_systemd():
                    run("systemctl", "stop", f"{timer(record)}.timer")
                raise
            if by_systemd():
                run("systemctl", "stop", f"{timer(old)}.timer")
            return {"ok": True, "capped": record["deadline"] < now() + ask["ttl"] - 0.5, **shown(record)}


def undo(given: Any) -> Data:
    ask = checked(given, {"run": NAME, "id": NAME})
    return ended(f"{ask['run']}_{ask['id']}", "it was asked for")


def ended(name: str, why: str) -> Data:
    with record_lock(name):
        record = load(name)
        if record is None or record["boot"] != boot():
            stale = record is not None
            remove(record_path(name))
            if not os.path.exists(f"{records()}/{name}.ended"):
                note_end(name, "it was undone before it was begun", [])
            return {"ok": True, "active": False, "steps": [], "says": "its record is of an earlier boot, which took it "
                    "away" if stale else "nothing of this id was active"}  # fmt: skip
        results = finish(record, why)
        if failed(results):
            raise Refused(f"not undone yet: {'; '.join(failed(results))}", "the dead-man tries again; ask again")
    disarmed = until(lambda: not armed(record)["alive"], 1)
    remove(f"{records()}/{name}.armed")
    return {"ok": True, "active": False, "steps": results, "disarmed": disarmed}


def state(given: Any) -> Data:
    ask = checked(given, {}, {"run": NAME, "id": NAME})
    if "id" in ask and "run" not in ask:
        raise Refused("run is missing")
    found = [each for each in every() if all(each[field] == ask[field] for field in ask)]
    answer: Data = {"ok": True, "active": [shown(each) for each in found if each["boot"] == boot()]}
    answer["earlier_boot"] = [[each["run"], each["id"]] for each in found if each["boot"] != boot()]
    answer["nodes"] = processes()
    if "id" in ask:
        with contextlib.suppress(FileNotFoundError, ValueError):
            answer["ended"] = json.loads(text_of(f"{records()}/{ask['run']}_{ask['id']}.ended"))
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
    if lacks("nf_tables") is None:
        for table in tables():
            if table[len("oschaos_") :] not in known:
                found.append(f"table {table}")
                if remove_them:
                    must("nft", "delete", "table", "inet", table)
    with contextlib.suppress(Refused):  # without a configuration there is no folder to look into
        for path in {node["data"] for node in configuration()["nodes"].values() if "data" in node}:
            with contextlib.suppress(OSError):
                directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                for file in os.listdir(directory):
                    if file.startswith(PREFIX) and file[len(PREFIX) :] not in known:
                        found.append(f"filler {path}/{file}")
                        if remove_them:
                            os.unlink(file, dir_fd=directory)
                os.close(directory)
    return found


def sweep(given: Any) -> Data:
    ask = checked(given, {}, {"run": NAME})
    results, problems = [], []
    for record in every():
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
    config, wall = configuration(), time.time()
    lacking = {feature: lacks(feature) for feature in PROBES}
    version = 2 if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else 1
    return {
        "ok": True, "version": VERSION, "protocol": PROTOCOL, "boot": boot(), "kernel": os.uname().release,
        "monotonic": time.monotonic(), "boottime": now(), "wall": wall, "systemd": os.path.isdir("/run/systemd/system"),
        "dead_man": "systemd" if by_systemd() else "process", "cgroups": version,
        "tools": {name: tool(name) for name in ("nft", "tc", "ip", "unshare", "mount", "systemctl", "systemd-run")},
        "kernel_lacks": lacking, "longest": config["longest"], "token": highest_token(), "came_by": ways_in(),
        "nodes": {name: node_facts(node, config, lacking) for name, node in config["nodes"].items()},
        "active": state({})["active"], "strays": strays(remove_them=False),
    }  # fmt: skip


def node_facts(node: Data, config: Data, lacking: Data) -> Data:
    told: Data = {"process": None, "data": None}
    try:
        if (found := node_process(node, strict=True)) is not None:
            ticks = os.sysconf("SC_CLK_TCK")
            # by the wall, so that it can be compared with what OpenSearch says of its JVM
            started = round((time.time() - now() + found["start"] / ticks) * 1000)
            inodes = socket_inodes(found["pid"])
            ports = {near for path in ("tcp", "tcp6") for _, near, _, _, how, inode in sockets(found["pid"], path)
                     if how == "0A" and inode in inodes}  # fmt: skip
            told["process"] = {**found, "ticks_per_second": ticks, "started_ms": started, "listens": sorted(ports)}
    except Refused as error:
        told["why"] = error.why
    if "data" in node:
        with contextlib.suppress(OSError):
            device = os.stat(node["data"]).st_dev
            told["data"] = {"device": f"{os.major(device)}:{os.minor(device)}", **room(node["data"]),
                            "own_file_system": True}  # fmt: skip
            try:
                own_file_system(node)
            except Refused as error:
                told["data"].update(own_file_system=False, why=error.why)
    told["groups"] = groups(node)
    told["intents"] = {intent: cannot(intent, node, config, lacking.get) for intent in INTENTS}
    return told


def probe(given: Any) -> Data:
    """Measure on the node's disk, by a process of its own: one that the disk keeps waiting ends by no signal."""
    ask = checked(given, {"node": NODE, "do": one_of("look", "write"), "within": number(0.1, 60)},
                  {"size": whole(1, 1 << 24), "count": whole(1, 64)})  # fmt: skip
    config = configuration()
    node = named(ask["node"], config)
    if not any(intent.startswith("disk.") for intent in config["intents"]):
        raise Refused("the configuration allows no fault of the disk, and so no measurement on it")
    path, device = own_file_system(node)
    user = (node_process(node) or {"user": os.stat(path).st_uid})["user"]
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):  # else ssh would wait for it
                os.dup2(nothing, descriptor)
            os.write(writing, json.dumps(measured(ask, {"path": path, "device": device}, user)).encode())
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
    return {"ok": True, **json.loads(said)}


def measured(ask: Data, step: Data, user: int) -> Data:
    """``look``: what is used, and by fillers of ours. ``write``: seconds for so many writes of so many bytes, each on
    disk before the next, into a new file without a name: it ends with us. As the node's user, since root may have more
    room. ``errno`` of what was refused."""
    try:
        directory = inside(step)
        if ask["do"] == "look":
            ours = [file for file in os.listdir(directory) if file.startswith(PREFIX)]
            held = [os.stat(file, dir_fd=directory, follow_symlinks=False).st_blocks * 512 for file in ours]
            return {**room(directory), "filled": sum(held)}
        os.setgroups([])
        os.setgid(os.fstat(directory).st_gid)
        os.setuid(user)
        began = time.monotonic()
        file = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600, dir_fd=directory)
        for _ in range(ask.get("count", 1)):
            left = os.urandom(ask.get("size", 4096))
            while left:
                left = left[os.pwrite(file, left, ask.get("size", 4096) - len(left)) :]
            os.fsync(file)
        return {"seconds": time.monotonic() - began}
    except OSError as error:
        return {"errno": error.errno or errno.ENOENT}


VERBS: dict[str, Callable[[Any], Data]] = {
    "facts": facts, "begin": begin, "extend": extend, "undo": undo, "state": state, "sweep": sweep,
    "probe": probe,
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
        if arguments[:1] == ["expire"] and len(arguments) == 2 and re.fullmatch(r"[a-z0-9-]+_[a-z0-9-]+", arguments[1]):
            watch(arguments[1])
            return 0
        answer = answered(arguments)
    except (OSError, IndexError) as error:
        print(json.dumps({"ok": False, "why": f"unusable: {error}", "remedy": "docs/hosts.md"}))
        return 2
    print(json.dumps(answer))
    return 0


def answered(arguments: list[str]) -> Data:
    try:
        if len(arguments) != 1 or arguments[0] not in VERBS:
            raise Refused("unknown verb", f"one of {', '.join(VERBS)}")
        raw = sys.stdin.buffer.read(MOST_INPUT + 1)
        if len(raw) > MOST_INPUT:
            raise Refused(f"more than {MOST_INPUT} bytes")
        return VERBS[arguments[0]](parsed(raw.decode("utf-8", "strict").strip() or "{}"))
    except UnicodeDecodeError:
        return {"ok": False, "why": "no UTF-8", "remedy": ""}
    except OSError as error:
        return {"ok": False, "why": str(error), "remedy": ""}
    except Refused as error:
        return {"ok": False, "why": error.why, "remedy": error.remedy}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
