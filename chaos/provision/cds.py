"""An archive of loaded and verified classes (AppCDS), made once, that shortens every later start of a node.

One node is started alone, does what nodes do (an index, a document, a search) and writes the archive while it
ends on SIGTERM. The JVM accepts an archive only for the very same JVM build, class path (names, times and sizes
of the jars) and agent, which is what the key hashes. Shared pages also save memory when several nodes run.
Without an archive everything works, only slower, so no failure here is an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import urllib3

from chaos.base import paths
from chaos.base.errors import ChaosError, ProvisionError
from chaos.provision import fetch, jvm
from chaos.provision.java import JavaRuntime
from chaos.provision.opensearch import OpenSearchHome
from chaos.provision.say import say
from chaos.provision.unprivileged import node_uid, popen_user

START_WITHIN_S = 120.0
END_WITHIN_S = 120.0
HEAP = "384m"
KEPT = 4
"""Archives of 100 MB each."""
MAIN = "org.opensearch.bootstrap.OpenSearch"


def ensure_archive(
    home: OpenSearchHome,
    java: JavaRuntime,
    *,
    profile: str = "fast",
    extra_flags: Sequence[str] = (),
    progress: bool = True,
) -> Path | None:
    """The archive for this home, runtime and profile, made when it is not there yet (some 10 s).

    ``extra_flags`` are further JVM flags that the nodes will have. None, with one line said, when it
    cannot be made or is not accepted; a later call tries again.
    """
    flags = [*jvm.profile_flags(home, java, profile), *extra_flags]
    target = archives() / f"{_key(home, java, flags)}.jsa"
    if target.is_file():
        with suppress(OSError):
            os.utime(target)  # used now: the oldest go first
        return target
    try:
        with fetch.disk_errors("making the class data archive"):
            fetch.open_folder(archives())
            with paths.locked(archives() / ".lock"):
                if not target.is_file():
                    if progress:
                        say("class data archive: made once, it shortens every node's start (about 10 s)")
                    _make(home, java, flags, target)
        return target
    except ChaosError as error:
        say(f"no class data archive, nodes start more slowly: {error.message}")
        return None


def archives() -> Path:
    return paths.cache() / "cds"


def _key(home: OpenSearchHome, java: JavaRuntime, flags: Sequence[str]) -> str:
    jars = [Path(jar) for jar in home.classpath.split(os.pathsep)]
    times = [f"{jar} {jar.stat().st_mtime_ns}" for jar in jars]
    parts = [java.full_version, str(java.home), str(home.path), home.fingerprint, *times, *flags]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _make(home: OpenSearchHome, java: JavaRuntime, flags: Sequence[str], target: Path) -> None:
    """One training node. Raises :class:`ProvisionError`."""
    for stale in archives().glob(".training-*"):
        shutil.rmtree(stale, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=".training-", dir=archives()))
    try:
        http = _configure(home, folder)
        _own(folder)
        made = folder / "made.jsa"
        dump = [*jvm.ARCHIVE_WITH_AGENT, f"-XX:ArchiveClassesAtExit={made}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        _train([*_command(home, java, [*flags, *dump], folder), MAIN], folder, http)
        if not made.is_file():
            raise ProvisionError("the JVM wrote none")
        ready = target.with_name(f".{target.name}.new")
        os.replace(made, ready)
        if os.geteuid() == 0:
            os.chown(ready, 0, 0)
        ready.chmod(0o644)
        if not _accepted(home, java, flags, ready, folder):
            ready.unlink()
            raise ProvisionError("the JVM does not accept what it wrote")
        os.replace(ready, target)
        for old in sorted(archives().glob("*.jsa"), key=lambda path: path.stat().st_mtime)[:-KEPT]:
            old.unlink(missing_ok=True)  # a node that runs on it keeps its mapping
        paths.fsync_folder(target.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _configure(home: OpenSearchHome, folder: Path) -> int:
    """Write the training node's configuration; its HTTP port."""
    http, transport = _free_ports(2)
    settings: dict[str, Any] = {
        "cluster.name": "training",
        "node.name": "training",
        "network.host": "127.0.0.1",
        "http.port": http,
        "transport.port": transport,
        "discovery.type": "single-node",
        "path.data": str(folder / "data"),
        "path.logs": str(folder / "logs"),
        **({"plugins.security.disabled": True} if "opensearch-security" in home.plugins else {}),
    }
    for name in ("config", "data", "logs", "tmp"):
        (folder / name).mkdir()
    lines = [f"{key}: {json.dumps(value)}" for key, value in settings.items()]
    (folder / "config" / "opensearch.yml").write_text("\n".join(lines) + "\n")
    shutil.copyfile(home.path / "config" / "log4j2.properties", folder / "config" / "log4j2.properties")
    return http


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _own(folder: Path) -> None:
    """Give the folder to the uid that the node will have."""
    if os.geteuid() == 0:
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, node_uid(), node_uid())


def _command(home: OpenSearchHome, java: JavaRuntime, flags: Sequence[str], folder: Path) -> list[str]:
    agent = [f"-javaagent:{home.java_agent}"] if home.java_agent else []
    return [
        str(java.java),
        f"-Xms{HEAP}",
        f"-Xmx{HEAP}",
        *flags,
        *agent,
        f"-Dopensearch.path.home={home.path}",
        f"-Dopensearch.path.conf={folder / 'config'}",
        "-Dopensearch.distribution.type=tar",
        f"-Djava.io.tmpdir={folder / 'tmp'}",
        "-cp",
        home.classpath,
    ]


def _train(command: Sequence[str], folder: Path, port: int) -> None:
    log = folder / "node.log"
    with log.open("wb") as output:
        node = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
            **popen_user(),
        )
    try:
        _exercise(node, port, log)
        node.send_signal(signal.SIGTERM)
        node.wait(END_WITHIN_S)
    except subprocess.TimeoutExpired as error:
        raise ProvisionError(f"the training node did not end within {END_WITHIN_S:.0f} s") from error
    finally:
        if node.poll() is None:
            node.kill()
            node.wait()


def _exercise(node: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Wait for the node and use it a little, so that those classes are in the archive too."""
    pool = urllib3.PoolManager(timeout=urllib3.Timeout(10), retries=False)
    base = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + START_WITHIN_S
    while True:
        if node.poll() is not None:
            raise ProvisionError(f"the training node ended with code {node.returncode}: {_last_line(log)}")
        try:
            if pool.request("GET", f"{base}/_cluster/health").status == 200:
                break
        except urllib3.exceptions.HTTPError:
            pass
        if time.monotonic() > deadline:
            raise ProvisionError(f"the training node did not answer within {START_WITHIN_S:.0f} s")
        time.sleep(0.1)
    requests: list[tuple[str, str, Any]] = [
        ("PUT", "/training", {"settings": {"number_of_shards": 1, "number_of_replicas": 0}}),
        ("PUT", "/training/_doc/1?refresh=true", {"seq": 1, "text": "to have these classes loaded"}),
        (
            "POST",
            "/training/_search",
            {"query": {"match": {"text": "classes"}}, "aggs": {"n": {"sum": {"field": "seq"}}}},
        ),
        ("GET", "/training/_doc/1", None),
        ("GET", "/_cat/shards?format=json", None),
        ("GET", "/_nodes/stats", None),
    ]
    for method, path, body in requests:
        try:
            answer = pool.request(method, base + path, json=body) if body else pool.request(method, base + path)
        except urllib3.exceptions.HTTPError as error:
            raise ProvisionError(f"the training node failed on {method} {path}: {error}") from error
        if answer.status >= 300:
            raise ProvisionError(f"the training node answered {answer.status} to {method} {path}")


def _accepted(home: OpenSearchHome, java: JavaRuntime, flags: Sequence[str], archive: Path, folder: Path) -> bool:
    """Whether a JVM with the node's command line really takes classes from the archive."""
    command = _command(home, java, [*flags, *jvm.archive_flags(archive), "-Xlog:class+load:stdout"], folder)
    try:
        said = subprocess.run(
            [*command, MAIN, "--version"], capture_output=True, text=True, timeout=60, cwd=folder, **popen_user()
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "source: shared objects file (top)" in said.stdout


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"
