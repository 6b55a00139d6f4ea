"""An OpenSearch home: given by the user, or assembled from Maven Central by the lock file.

The official tarball and images live on hosts that many closed networks do not reach; every jar of a
node is on Maven Central. A home is a folder ``<cache>/opensearch/<version>-<key>``, where the key is a
hash of all that goes into it. It is assembled beside its place and renamed into it, so it is either
whole or not there; a file ``complete.json`` in it says what it holds, and as long as that is true no
network is touched.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.base import paths
from chaos.base.errors import InvalidInput, ProvisionError
from chaos.provision import fetch, lock, maven
from chaos.provision.given import given_home, version_of
from chaos.provision.say import say

ASSEMBLED = "assembled from Maven Central"
COMPLETE = "complete.json"
LOG_CONFIG = Path(__file__).parent / "home" / "log4j2.properties"
LAYOUT = "uncompressed jars"
"""Part of the key: homes that are laid out differently lie in different folders."""
EMPTY_FOLDERS = ("bin", "plugins")
"""The node makes these when they are missing, and fails when it may not."""
VARIABLE = "OPENSEARCH_HOME"
SECURITY = "opensearch-security"


@dataclass(frozen=True)
class OpenSearchHome:
    """A home that a node can be started from; everything in it is readable by any uid."""

    path: Path
    version: str
    source: str
    """``assembled from Maven Central`` or ``given by …``."""
    without: frozenset[str] = frozenset()
    """Modules left out on purpose."""

    @property
    def classpath(self) -> str:
        """Absolute, in a fixed order (a class data archive belongs to one class path).

        Spelled out rather than ``lib/*``: the JVM expands the star in directory order, which differs
        from one copy of a home to the next. The largest first, because every look-up of a class file
        goes through the jars in order, and the agent looks up some ten thousand while a node starts.
        """
        jars = sorted((self.path / "lib").glob("*.jar"), key=lambda jar: (-jar.stat().st_size, jar.name))
        return os.pathsep.join(map(str, jars))

    @property
    def java_agent(self) -> Path | None:
        """OpenSearch's own sandbox (3.x); None for 2.x, which uses the security manager."""
        return next(iter(sorted((self.path / "agent").glob("opensearch-agent-[0-9]*.jar"))), None)

    @property
    def modules(self) -> tuple[str, ...]:
        return tuple(sorted(path.name for path in (self.path / "modules").iterdir() if path.is_dir()))

    @property
    def plugins(self) -> tuple[str, ...]:
        return tuple(sorted(path.parent.name for path in self.path.glob("plugins/*/plugin-descriptor.properties")))

    @property
    def distribution_note(self) -> str:
        """How this differs from the official distribution, for plans and reports."""
        if self.source != ASSEMBLED:
            return f"OpenSearch {self.version} {self.source}"
        left_out = f", without {', '.join(sorted(self.without))}" if self.without else ""
        plugins = f"plugin {', '.join(self.plugins)}" if self.plugins else "no plugins (so no security)"
        if SECURITY in self.plugins:
            plugins += " without its tie to workload management"
        return (
            f"OpenSearch {self.version} {ASSEMBLED}: the published jars, stored uncompressed, "
            f"{len(self.modules)} modules{left_out}; {plugins}, module policies written by this tool"
        )

    @property
    def fingerprint(self) -> str:
        """A hash of what is in it: names, sizes of the jars."""
        jars = sorted(self.path.glob("lib/*.jar")) + sorted(self.path.glob("agent/*.jar"))
        jars += sorted(self.path.glob("modules/*/*.jar")) + sorted(self.path.glob("plugins/*/*.jar"))
        text = "\n".join(f"{jar.relative_to(self.path)} {jar.stat().st_size}" for jar in jars)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def homes() -> Path:
    return paths.cache() / "opensearch"


def ensure_opensearch(
    version: str = lock.DEFAULT_VERSION,
    *,
    given: Path | None = None,
    without: Collection[str] = (),
    plugins: Collection[str] = (),
    progress: bool = True,
) -> OpenSearchHome:
    """The home of ``version``: ``given`` or ``$OPENSEARCH_HOME`` (folder or .tar.gz), else assembled.

    ``without`` names modules to leave out of an assembled home (a runtime that cannot run them), ``plugins`` those
    that it must have. Raises :class:`InvalidInput` for an unusable given home or an unknown version, module or
    plugin, :class:`ProvisionError` when something cannot be fetched, verified or stored.
    """
    if given is None and (value := os.environ.get(VARIABLE)):
        given, by = Path(value), VARIABLE
    else:
        by = "option"
    if given is not None:
        home = _given(Path(given), by, version, without)
        if lacking := set(plugins) - set(home.plugins):
            raise InvalidInput(
                f"{given} (given by {by}) has no plugin {', '.join(sorted(lacking))}", remedy="name a home that has it"
            )
        return home
    locked = lock.read(version)
    if lacking := set(plugins) - locked.plugins:
        have = [each for each in lock.versions() if set(plugins) <= lock.read(each).plugins]
        raise InvalidInput(
            f"OpenSearch {version} has no plugin {', '.join(sorted(lacking))} in its lock file",
            remedy=(f"ask for one of {', '.join(have)}, or " if have else "")
            + f"name a home that has {'it' if len(set(plugins)) == 1 else 'all of them'} with {VARIABLE}",
        )
    if unknown := set(without) - {module.name for module in locked.modules}:
        raise InvalidInput(f"OpenSearch {version} has no module {', '.join(sorted(unknown))}")
    left_out = frozenset(without)
    place = homes() / f"{version}-{_key(locked, left_out, plugins)}"
    home = OpenSearchHome(place, version, ASSEMBLED, left_out)
    if _complete(home.path):
        return home
    with fetch.disk_errors(f"preparing {homes()}"):
        fetch.open_folder(homes())
    with paths.locked(homes() / f".{version}.lock"):
        if not _complete(home.path):  # another process may have made it meanwhile
            _assemble(locked, home, plugins, progress=progress)
    return home


def cached_opensearch(version: str = lock.DEFAULT_VERSION, *, plugins: Collection[str] = ()) -> OpenSearchHome | None:
    """The assembled home if it is here and whole; fetches and changes nothing."""
    key = _key(lock.read(version), frozenset(), plugins)
    home = OpenSearchHome(homes() / f"{version}-{key}", version, ASSEMBLED)
    return home if _complete(home.path, quiet=True) else None


def _given(path: Path, by: str, version: str, without: Collection[str]) -> OpenSearchHome:
    folder = given_home(path, by)
    found = version_of(folder)
    if found != version:
        raise InvalidInput(
            f"{path} (given by {by}) is OpenSearch {found}, but {version} is asked for",
            remedy=f"unset {VARIABLE} to have {version} assembled, or ask for {found} in the topology",
        )
    if present := {name for name in without if (folder / "modules" / name).is_dir()}:
        raise InvalidInput(
            f"{path} has the module {', '.join(sorted(present))}, which the Java at hand cannot run",
            remedy="install a full JDK of version 21 or newer and name it with OPENSEARCH_JAVA_HOME",
        )
    return OpenSearchHome(folder, found, f"given by {by} ({path})", frozenset(without))


def _key(locked: lock.Lock, without: Iterable[str], plugins: Iterable[str] = ()) -> str:
    parts = [locked.digest, LOG_CONFIG.read_text(), LAYOUT, *EMPTY_FOLDERS, *sorted(without)]
    for name in sorted(plugins):
        own = [locked.digests[name], lock.machine()] if name in locked.digests else []
        parts += [" ".join(["plugin", name, *own])]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _complete(home: Path, *, quiet: bool = False) -> bool:
    """Whether the home is whole: every file has the size and time that were noted, or else the hash."""
    try:
        noted: dict[str, dict[str, Any]] = json.loads((home / COMPLETE).read_text())["files"]
    except FileNotFoundError:
        return False
    except (ValueError, KeyError):
        noted = {}
    for name, facts in noted.items():
        path = home / name
        try:
            stat = path.stat()
            same = stat.st_size == facts["size"] and (
                stat.st_mtime_ns == facts["mtime_ns"] or fetch.sha256(path) == facts["sha256"]
            )
        except OSError:
            same = False
        if not same:
            if not quiet:
                say(f"{name} in {home} is damaged; the home is assembled anew")
            return False
    return bool(noted)


def _assemble(locked: lock.Lock, home: OpenSearchHome, plugins: Collection[str], *, progress: bool) -> None:
    modules = [module for module in locked.modules if module.name not in home.without]
    left_out = {f"modules/{name}" for name in home.without}
    files = [file for file in locked.files if file.to not in left_out and file.plugin in (None, *plugins)]
    files = [file for file in files if file.machine in (None, lock.machine())]
    wanted = {file: _wanted(file) for file in files}
    fetch.fetch_all(f"OpenSearch {locked.version}", list(wanted.values()), progress=progress)
    # one lock for all versions: what is being made has no name that says of which version it is
    with fetch.disk_errors("assembling the OpenSearch home"), paths.locked(homes() / ".assembling.lock"):
        _sweep()
        building = Path(tempfile.mkdtemp(prefix=".building-", dir=homes()))
        placed: list[Path] = []
        try:
            building.chmod(0o755)
            for file in files:
                if file.coordinates.packaging == "zip":
                    names = {module.name for module in modules}
                    placed += _unpack(fetch.stored(wanted[file]), building / file.to, names)
                else:
                    placed.append(building / file.to / file.coordinates.file_name)
                    _place(fetch.stored(wanted[file]), placed[-1])
            added = [(building / "plugins" / each.name, each) for each in locked.assembled if each.name in plugins]
            config = building / "config"
            texts = {config / "log4j2.properties": LOG_CONFIG.read_text(), config / "opensearch.yml": ""}
            for folder, module in [*((building / "modules" / each.name, each) for each in modules), *added]:
                texts[folder / "plugin-descriptor.properties"] = module.descriptor(locked.version, locked.java)
                if policy := module.policy():
                    texts[folder / "plugin-security.policy"] = policy
            for path, text in texts.items():
                _write(path, text)
            for folder_name in EMPTY_FOLDERS:
                fetch.open_folder(building / folder_name)
            _note(building, {*placed, *texts})
            if home.path.exists():
                shutil.rmtree(home.path)
            os.rename(building, home.path)
            paths.fsync_folder(homes())
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise


def _wanted(file: lock.LockedFile) -> fetch.Wanted:
    coordinates = file.coordinates
    return fetch.Wanted(
        coordinates.file_name,
        file.sha256,
        file.size,
        lambda: maven.addresses(coordinates),
        lambda: maven.local_copy(coordinates),
    )


def _sweep() -> None:
    """Remove what a killed assembly left, of any version; only called under the lock of all."""
    for stale in homes().glob(".building-*"):
        shutil.rmtree(stale, ignore_errors=True)


def _place(source: Path, target: Path) -> None:
    fetch.open_folder(target.parent)
    if target.exists():
        raise ProvisionError(f"the lock file names {target.name} twice")
    if target.suffix == ".jar":
        _uncompress(source, target)
    else:
        shutil.copyfile(source, target)
    target.chmod(0o644)


def _unpack(source: Path, target: Path, modules: Collection[str]) -> list[Path]:
    """A plugin's zip without its configuration, which belongs to a node, and without ties to what is not here. Returns
    its files.

    The security plugin extends ``rule-framework``, to let workload management see users; neither was ever published.
    """
    places = []
    with zipfile.ZipFile(source) as packed, tempfile.TemporaryDirectory(prefix=".building-", dir=homes()) as folder:
        for entry in packed.infolist():
            if entry.is_dir() or entry.filename.startswith("config/"):
                continue
            place = target / entry.filename
            if not place.resolve().is_relative_to(target.resolve()):
                raise ProvisionError(f"{source.name} has an entry outside of its folder: {entry.filename}")
            _place(Path(packed.extract(entry, folder)), place)
            places.append(place)
    descriptor = target / "plugin-descriptor.properties"
    lines = descriptor.read_text().splitlines()
    for number, line in enumerate(lines):
        key, _, value = line.partition("=")
        if key == "extended.plugins":
            ties = [tie for tie in value.split(",") if tie.endswith("optional=true") or tie in modules]
            lines[number] = f"{key}={','.join(ties)}"
    descriptor.write_text("\n".join(lines) + "\n")
    return places


def _uncompress(source: Path, target: Path) -> None:
    """The same jar, entry for entry, without compression.

    The Java agent reads every class file a second time, past the class data archive; with stored entries a
    node starts with 0.3 s (11 %) less CPU and 20 MB less memory. The verified original stays in the store.
    """
    with zipfile.ZipFile(source) as packed, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as unpacked:
        seen: set[str] = set()
        for entry in packed.infolist():
            if entry.filename not in seen:  # a few published jars have an entry twice; Java takes the first
                seen.add(entry.filename)
                plain = zipfile.ZipInfo(entry.filename, entry.date_time)
                plain.external_attr = entry.external_attr
                unpacked.writestr(plain, packed.read(entry))


def _write(path: Path, text: str) -> None:
    fetch.open_folder(path.parent)
    path.write_text(text)
    path.chmod(0o644)


def _note(home: Path, expected: Collection[Path]) -> None:
    """Write down what the home holds. Raises ProvisionError where something that was put there has gone."""
    if lost := sorted(str(path.relative_to(home)) for path in expected if not path.is_file()):
        raise ProvisionError(f"{lost[0]} has gone from {home} while the home was assembled", remedy="try again")
    files = {}
    for path in sorted(home.rglob("*")):
        if path.is_file():
            stat = path.stat()
            files[path.relative_to(home).as_posix()] = {
                "size": stat.st_size,
                "mtime_ns": stat.st_mtime_ns,
                "sha256": fetch.sha256(path),
            }
    _write(home / COMPLETE, json.dumps({"files": files}, indent=1) + "\n")
