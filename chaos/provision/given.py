"""A home that the user brings: a folder, or the official tarball, checked before anything starts.

A tarball is extracted once into ``<cache>/given/<its SHA-256>``. What is missing in a folder is said
in words; a folder that a node under an unprivileged uid could not read is refused here rather than
failing later inside the node.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tarfile
import tempfile
from pathlib import Path

from chaos.base import paths
from chaos.base.errors import InvalidInput
from chaos.provision import fetch

CORE_JAR = re.compile(r"opensearch-(\d+\.\d+\.\d+(?:-[A-Za-z0-9]+)*)\.jar")


def given_home(path: Path, by: str) -> Path:
    """The home's folder for a folder or tarball. Raises :class:`InvalidInput` saying what is wrong."""
    path = path.expanduser().absolute()
    if path.is_file():
        folder = _extracted(path, by)
    elif path.is_dir():
        folder = path
    else:
        raise InvalidInput(f"{path} (given by {by}) does not exist", remedy="name a folder or a .tar.gz")
    if problems := missing_in(folder):
        raise InvalidInput(f"{path} (given by {by}) is no usable OpenSearch home: {', '.join(problems)}")
    if closed := unreadable_for_others(folder):
        raise InvalidInput(
            f"{closed} cannot be read by the unprivileged user that runs the nodes",
            remedy=f"chmod o+rX {closed}",
        )
    return folder


def refuse_unusable(path: Path, by: str) -> None:
    """Raises :class:`InvalidInput` as :func:`given_home` would, but looks at a tarball from outside only. Cheap."""
    if not path.expanduser().is_file():
        given_home(path, by)
    elif not tarfile.is_tarfile(path.expanduser()):
        raise InvalidInput(f"{path} (given by {by}) is neither a folder nor a tar archive")


def version_of(home: Path) -> str:
    """The version, from the name of ``lib/opensearch-<version>.jar``."""
    for jar in sorted((home / "lib").glob("opensearch-*.jar")):
        if match := CORE_JAR.fullmatch(jar.name):
            return match[1]
    raise InvalidInput(f"{home} has no lib/opensearch-<version>.jar")


def missing_in(home: Path) -> list[str]:
    """What a home needs and this folder lacks, in words; empty when it is usable."""
    problems = []
    version = next(
        (m[1] for j in sorted((home / "lib").glob("opensearch-*.jar")) if (m := CORE_JAR.fullmatch(j.name))), None
    )
    if version is None:
        problems.append("no lib/opensearch-<version>.jar")
    module = home / "modules" / "transport-netty4"
    if not (module / "plugin-descriptor.properties").is_file():
        problems.append("no modules/transport-netty4 with its plugin-descriptor.properties")
    if version and int(version.split(".")[0]) >= 3 and not list((home / "agent").glob("opensearch-agent-*.jar")):
        problems.append("no agent/opensearch-agent-<version>.jar")
    if not (home / "config" / "log4j2.properties").is_file():
        problems.append("no config/log4j2.properties")
    return problems


def unreadable_for_others(home: Path) -> Path | None:
    """The first folder on the way to, or thing in, the home that other users cannot read."""
    for folder in reversed(home.resolve().parents):
        if not folder.stat().st_mode & stat.S_IXOTH:
            return folder
    for root, _, names in os.walk(home):
        if root_mode := os.stat(root).st_mode:
            wanted = stat.S_IROTH | stat.S_IXOTH
            if root_mode & wanted != wanted:
                return Path(root)
        for name in names:
            # a node reads jars and configuration; a keystore may well be closed
            if name.endswith((".jar", ".policy")) and not os.stat(Path(root, name)).st_mode & stat.S_IROTH:
                return Path(root, name)
    return None


def _extracted(tarball: Path, by: str) -> Path:
    if not tarfile.is_tarfile(tarball):
        raise InvalidInput(f"{tarball} (given by {by}) is neither a folder nor a tar archive")
    store = paths.cache() / "given"
    with fetch.disk_errors(f"extracting {tarball.name}"):
        fetch.open_folder(store)
        target = store / fetch.sha256(tarball)
        with paths.locked(store / ".lock"):
            if not target.is_dir():
                _extract(tarball, store, target)
    inside = [path for path in target.iterdir() if path.is_dir()]
    return inside[0] if len(inside) == 1 and not (target / "lib").is_dir() else target


def _extract(tarball: Path, store: Path, target: Path) -> None:
    for stale in store.glob(".building-*"):
        shutil.rmtree(stale, ignore_errors=True)
    building = Path(tempfile.mkdtemp(prefix=".building-", dir=store))
    try:
        with tarfile.open(tarball) as archive:
            archive.extractall(building, filter="data")  # refuses paths and links that lead outside
        for root, _, names in os.walk(building):
            os.chmod(root, 0o755)
            for name in names:
                path = Path(root, name)
                if not path.is_symlink():
                    path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
        os.rename(building, target)
    except (tarfile.TarError, EOFError) as error:
        raise InvalidInput(f"{tarball} cannot be extracted safely: {error}") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
