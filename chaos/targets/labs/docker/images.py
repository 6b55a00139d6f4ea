"""The images that a Docker lab runs: the official ones, or equivalent ones built here from the provisioned parts.

A closed network reaches no registry. So an image can be built from what this machine has, on no base at all: the JVM
with the shared libraries that it is linked to, the OpenSearch home, and nothing else; Toxiproxy likewise.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

from chaos.base.errors import InvalidInput, LabError, MissingPrerequisite, ProvisionError
from chaos.definitions import Topology
from chaos.definitions.loading import located
from chaos.provision import lock
from chaos.provision.java import ensure_java, runs_on
from chaos.provision.jvm import FAITHFUL, FAST, profile_flags
from chaos.provision.opensearch import LOG_CONFIG, ensure_opensearch
from chaos.provision.toxiproxy import VERSION as TOXIPROXY_VERSION
from chaos.provision.toxiproxy import ensure_toxiproxy
from chaos.targets.labs.docker.engine import Engine
from chaos.targets.parts import Parts
from chaos.targets.security import PLUGIN

HOME = "/usr/share/opensearch"
"""Where the official image has it, and ours."""
UID = 1000
"""The user of the official image, and of ours."""
OPENSEARCH_VARIABLE, TOXIPROXY_VARIABLE = "OPENSEARCH_CHAOS_OPENSEARCH_IMAGE", "OPENSEARCH_CHAOS_TOXIPROXY_IMAGE"
BUILT, PLUGINS = "opensearch-chaos.built", "opensearch-chaos.plugins"
"""Labels of an image that was built here: its version of Java, and its plugins."""


@dataclass(frozen=True)
class Choice:
    """The image of one part: what the user named, else the official one, else the one built here."""

    variable: str
    official: str
    built: str

    @property
    def names(self) -> tuple[str, ...]:
        given = os.environ.get(self.variable)
        return (given,) if given else (self.official, self.built)


def opensearch(version: str) -> Choice:
    return Choice(
        OPENSEARCH_VARIABLE, f"opensearchproject/opensearch:{version}", f"opensearch-chaos/opensearch:{version}"
    )


def toxiproxy(version: str = TOXIPROXY_VERSION) -> Choice:
    return Choice(TOXIPROXY_VARIABLE, f"ghcr.io/shopify/toxiproxy:{version}", f"opensearch-chaos/toxiproxy:{version}")


def found(engine: Engine, choice: Choice, says: Callable[[str], None]) -> tuple[str, dict[str, str]]:
    """An image that the engine has, or pulls, and its labels. Raises MissingPrerequisite."""
    for name in choice.names:
        if (image := engine.image(name)) is not None:
            return name, dict(image["Config"].get("Labels") or {})
    says(f"pulling {choice.names[0]}")
    try:
        image = engine.pull(choice.names[0])
    except LabError as error:
        raise MissingPrerequisite(
            f"image {choice.names[0]} is not here and cannot be pulled: {error.message}",
            remedy="build an equivalent one with: opensearch-chaos docker-image",
        ) from error
    return choice.names[0], dict(image["Config"].get("Labels") or {})


def parts(topology: Topology, says: Callable[[str], None] = lambda _: None) -> Parts:
    """What a Docker lab of this topology is made of. Raises MissingPrerequisite without an engine or an image."""
    engine = Engine.open()
    first, *others = (_parts(engine, version, topology, says) for version in topology.versions)
    return replace(first, others=tuple(others))


def _parts(engine: Engine, version: str, topology: Topology, says: Callable[[str], None]) -> Parts:
    node, labels = found(engine, opensearch(version), says)
    proxy, _ = found(engine, toxiproxy(), says)
    says(f"images {node} and {proxy}")
    built, plugins = labels.get(BUILT), labels.get(PLUGINS) or ""
    security = PLUGIN in plugins
    if topology.security and built is not None and not security:
        raise located(
            topology, ("security",), InvalidInput(f"image {node} has no plugin {PLUGIN}", remedy=_remedy(version))
        )
    notes = ["zones are containers on one engine"]
    if built is not None:
        notes.append(f"the image was built here from the published jars: {plugins or 'no plugins (so no security)'}")
    if not topology.security and (built is None or security):
        notes.append("the security plugin of the image is switched off")
    if topology.profile == "fast":
        notes.append("C1 compiler only, serial garbage collector (profile fast)")
    return Parts(
        home=node,
        opensearch_version=version,
        opensearch_source=f"image {node}",
        classpath="",
        java="",
        java_version=built or "of the image",
        java_flags=tuple(FAST if topology.profile == "fast" else FAITHFUL),
        agent=None,
        toxiproxy=proxy,
        toxiproxy_version=TOXIPROXY_VERSION,
        notes=tuple(notes),
        security=security,
    )


def _remedy(version: str) -> str:
    if version in lock.versions() and PLUGIN in lock.read(version).plugins:
        return f"build it anew with: opensearch-chaos docker-image --opensearch {version}"
    return f"name one that has it with {OPENSEARCH_VARIABLE}"


# ---- building -------------------------------------------------------------------------------------------


def build(version: str, says: Callable[[str], None]) -> list[str]:
    """Build both images from this machine's parts, without a registry; their names."""
    engine = Engine.open()
    java = ensure_java(*runs_on(version))
    home = ensure_opensearch(version, without=java.without, plugins=lock.read(version).plugins)
    proxy = ensure_toxiproxy()
    java_home = java.java.resolve().parents[1]

    def place(path: str | Path) -> str:
        return f"{HOME}/{Path(path).relative_to(home.path)}"

    command = [
        f"{HOME}/jdk/bin/java",
        *[flag for flag in profile_flags(home, java, "fast") if flag not in FAST],
        *([f"-javaagent:{place(home.java_agent)}"] if home.java_agent else []),
        f"-Dopensearch.path.home={HOME}",
        f"-Dopensearch.path.conf={HOME}/config",
        "-Dopensearch.distribution.type=docker",
        f"-Djava.io.tmpdir={HOME}/tmp",
        "-cp",
        ":".join(place(each) for each in home.classpath.split(os.pathsep)),
        "org.opensearch.bootstrap.OpenSearch",
    ]
    with tempfile.TemporaryDirectory() as folder:
        says(f"packing OpenSearch {home.version} and Java {java.full_version}")
        file = Path(folder) / "opensearch.tar"
        with tarfile.open(file, "w") as archive:
            _skeleton(archive)
            _tree(archive, java_home, f"{HOME}/jdk")
            for part in ("lib", "modules", "agent", "plugins", "bin"):
                if (home.path / part).is_dir():
                    archive.add((home.path / part).resolve(), f"{HOME}/{part}"[1:], filter=_of_root)
            for part in ("config", "data", "logs", "tmp"):
                _folder(archive, f"{HOME}/{part}", UID)
            _text(archive, f"{HOME}/config/log4j2.properties", LOG_CONFIG.read_text(), UID)
            _libraries(archive, [java_home / "bin" / "java", *java_home.glob("lib/**/*.so")])
        node = opensearch(home.version).built
        _import(
            engine,
            file,
            node,
            entry=command,
            user=str(UID),
            work=HOME,
            labels={BUILT: java.full_version, PLUGINS: ",".join(home.plugins)},
        )
        says(f"packing Toxiproxy {proxy.version}")
        file = Path(folder) / "toxiproxy.tar"
        with tarfile.open(file, "w") as archive:
            _skeleton(archive)
            archive.add(proxy.path.resolve(), "toxiproxy", filter=_of_root)
            _libraries(archive, [proxy.path])
        other = toxiproxy(proxy.version).built
        _import(engine, file, other, entry=["/toxiproxy"], user=str(UID), work="/", labels={BUILT: "none"})
    return [node, other]


def _import(
    engine: Engine, file: Path, name: str, *, entry: list[str], user: str, work: str, labels: dict[str, str]
) -> None:
    repository, _, tag = name.rpartition(":")
    changes = [
        f"ENTRYPOINT {json.dumps(entry)}",
        f"USER {user}",
        f"WORKDIR {work}",
        *(f'LABEL "{key}"="{value}"' for key, value in labels.items()),
    ]
    engine.load(file, repository, tag, changes)


def _of_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mode |= 0o444 | (0o111 if entry.isdir() else 0)
    return entry


def _tree(archive: tarfile.TarFile, source: Path, target: str) -> None:
    """A folder with what its links lead to: Debian's runtimes have their configuration in /etc, and dead links."""
    for top, _, files in os.walk(source, followlinks=True):
        place = f"{target}/{Path(top).relative_to(source)}".removesuffix("/.")
        _folder(archive, place, 0)
        for name in files:
            if (file := Path(top) / name).exists():
                archive.add(file.resolve(), f"{place}/{name}"[1:], filter=_of_root)


def _folder(archive: tarfile.TarFile, path: str, uid: int, mode: int = 0o755) -> None:
    entry = tarfile.TarInfo(path[1:])
    entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, mode, uid, uid
    archive.addfile(entry)


def _text(archive: tarfile.TarFile, path: str, text: str, uid: int = 0) -> None:
    entry = tarfile.TarInfo(path[1:])
    entry.size, entry.mode, entry.uid, entry.gid = len(text.encode()), 0o644, uid, uid
    archive.addfile(entry, BytesIO(text.encode()))


def _skeleton(archive: tarfile.TarFile) -> None:
    """What a C library expects of a system."""
    for path, mode in (("/etc", 0o755), ("/tmp", 0o1777), ("/proc", 0o555), ("/sys", 0o555), ("/dev", 0o755)):
        _folder(archive, path, 0, mode)
    _text(archive, "/etc/passwd", f"root:x:0:0::/root:/none\nopensearch:x:{UID}:{UID}::{HOME}:/none\n")
    _text(archive, "/etc/group", f"root:x:0:\nopensearch:x:{UID}:\n")
    _text(archive, "/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")


def _libraries(archive: tarfile.TarFile, programs: list[Path]) -> None:
    """Every shared library that these are linked to and do not bring along, at the path where the loader looks."""
    own = {program.name for program in programs}
    packed: set[str] = set()
    for program in programs:
        for path in _linked(program):
            if path not in packed and Path(path).name not in own:
                packed.add(path)
                with open(path, "rb") as file:
                    entry = _of_root(archive.gettarinfo(arcname=path[1:], fileobj=file))
                    archive.addfile(entry, file)


def _linked(program: Path) -> Iterator[str]:
    try:
        said = subprocess.run(["ldd", program], capture_output=True, text=True, timeout=30, check=False).stdout
    except OSError as error:
        raise ProvisionError(
            f"ldd cannot be run: {error.strerror}", remedy="install it: it belongs to glibc"
        ) from error
    for line in said.splitlines():
        match = re.search(r"(?:=> )?(/\S+) \(0x", line)
        if match:
            yield match[1]
