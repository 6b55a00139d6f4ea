"""The files of an image, from what this machine has, on no base at all.

The JVM with the shared libraries that it is linked to, the OpenSearch home, and nothing else; a single program
likewise. It needs no Docker: whatever runs images can take what is packed here.
"""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path, PurePath
from typing import NamedTuple

from chaos.base.errors import ProvisionError
from chaos.provision.java import JavaRuntime, ensure_java, runs_on
from chaos.provision.jvm import FAST, profile_flags
from chaos.provision.opensearch import LOG_CONFIG, OpenSearchHome, ensure_opensearch

HOME = "/usr/share/opensearch"
"""Where the official image has it, and ours."""
UID = 1000
"""The user of the official image, and of ours."""


@dataclass(frozen=True)
class Packed:
    """What was packed, and the command that starts it inside."""

    home: OpenSearchHome
    java: JavaRuntime
    command: list[str]


def opensearch(
    file: Path,
    version: str,
    plugins: Collection[str],
    says: Callable[[str], None],
    more: Mapping[str, Path] | None = None,
) -> Packed:
    """Pack OpenSearch and Java as a tar. ``more``: path in the image → a further file. Raises ProvisionError."""
    java = ensure_java(*runs_on(version))
    home = ensure_opensearch(version, without=java.without, plugins=plugins)
    java_home = java.java.resolve().parents[1]
    says(f"packing OpenSearch {home.version} and Java {java.full_version}")
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
        for place, source in (more or {}).items():
            archive.add(source.resolve(), place.lstrip("/"), filter=_of_root)
    return Packed(home, java, _command(home, java))


def program(file: Path, source: Path, place: str) -> None:
    """Pack one program with the shared libraries that it is linked to."""
    programs(file, {place: source}, {})


class Folder(NamedTuple):
    """A folder of this machine, ``without`` what has one of these names, at whatever depth."""

    source: Path
    without: Set[str] = frozenset()

    def keeps(self, inside: PurePath) -> bool:
        return not self.without & set(inside.parts)


def programs(
    file: Path, places: Mapping[str, Path], folders: Mapping[str, Folder], writable: Mapping[str, int] | None = None
) -> None:
    """Pack several programs, and folders of what they read, with the shared libraries that all are linked to.

    ``places``, ``folders``: path in the image → what lies here. ``writable``: empty folders, each with its user.
    """
    linked = list(places.values())
    with tarfile.open(file, "w") as archive:
        _skeleton(archive)
        for path, uid in (writable or {}).items():
            _folder(archive, path, uid)
        for place, source in places.items():
            archive.add(source.resolve(), place.lstrip("/"), filter=_of_root)
        for place, folder in folders.items():
            archive.add(folder.source.resolve(), place.lstrip("/"), filter=partial(_kept, folder, place.lstrip("/")))
            shared = (each.relative_to(folder.source) for each in folder.source.rglob("*.so"))
            linked += [folder.source / each for each in shared if folder.keeps(each)]
        _libraries(archive, linked, [folder.source for folder in folders.values()])


def _kept(folder: Folder, place: str, entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return _of_root(entry) if folder.keeps(PurePath(entry.name).relative_to(place)) else None


def _command(home: OpenSearchHome, java: JavaRuntime) -> list[str]:
    def place(path: str | Path) -> str:
        return f"{HOME}/{Path(path).relative_to(home.path)}"

    return [
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


def _libraries(archive: tarfile.TarFile, programs: list[Path], packed_with: Collection[Path] = ()) -> None:
    """Every shared library that these are linked to and do not bring along, at the path where the loader looks.

    ``packed_with``: folders that are in the image, at another place, with the libraries that are found beside them.
    """
    own = {program.name for program in programs}
    packed: set[str] = set()
    for program in programs:
        for path in _linked(program):
            beside = any(Path(os.path.normpath(path)).is_relative_to(folder) for folder in packed_with)
            if path not in packed and Path(path).name not in own and not beside:
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
