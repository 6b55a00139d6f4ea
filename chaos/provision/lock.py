"""The lock file of an OpenSearch home: which jar goes where, with its SHA-256, and what each module is.

``python -m chaos.provision.lock [version]`` resolves the tree on Maven Central again and rewrites
``opensearch-<version>.lock.json``; everything else only reads it. The jars of modules carry neither
their descriptor nor their security policy (the official build adds both), so the lock holds their data.

A plugin that is published as a jar like a module has a lock file of its own, ``<plugin>-<version>.lock.json``
(``python -m chaos.provision.lock <version> <plugin>``): homes without it stay as they are when it changes.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chaos.base.errors import InvalidInput, ProvisionError
from chaos.provision import maven

FORMAT = 1
FOLDER = Path(__file__).parent
DEFAULT_VERSION = "3.8.0"


MACHINES = {"linux-x86_64": "x86_64", "linux-aarch_64": "aarch64"}
"""Classifiers of jars with native code, and the processors that they are for."""


@dataclass(frozen=True)
class LockedFile:
    """One jar, or a plugin as a zip: ``to`` is its folder in the home; ``size`` in bytes."""

    to: str
    coordinates: maven.Coordinates
    sha256: str
    size: int

    @property
    def plugin(self) -> str | None:
        """The plugin that this file is, which a home has only when it is asked for; None: it is part of every home."""
        folder, _, name = self.to.partition("/")
        return name if folder == "plugins" else None

    @property
    def machine(self) -> str | None:
        """The kind of processor that it is for, as :func:`platform.machine` says it; None: for all."""
        return MACHINES.get(self.coordinates.classifier)


@dataclass(frozen=True)
class Module:
    """A module's descriptor and policy. ``grants`` are Java policy permissions of all its jars."""

    name: str
    description: str
    classname: str
    extends: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()

    def descriptor(self, version: str, java: int) -> str:
        """``plugin-descriptor.properties``, as ``org.opensearch.plugins.PluginInfo`` reads it."""
        lines = {
            "name": self.name,
            "description": self.description,
            "version": version,
            "opensearch.version": version,
            "java.version": str(java),
            "classname": self.classname,
            "extended.plugins": ",".join(self.extends),
            "has.native.controller": "false",
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items())

    def policy(self) -> str | None:
        """``plugin-security.policy``; None when the module asks for nothing."""
        if not self.grants:
            return None
        return "grant {\n" + "".join(f"  permission {grant};\n" for grant in self.grants) + "};\n"


@dataclass(frozen=True)
class Lock:
    """A lock file in memory; ``digest`` names its content."""

    version: str
    java: int
    files: tuple[LockedFile, ...]
    modules: tuple[Module, ...]
    digest: str = field(compare=False)
    assembled: tuple[Module, ...] = ()
    """Plugins that are published as jars, so that descriptor and policy are written here."""
    digests: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Plugin → what names the content of its own lock file."""

    @property
    def plugins(self) -> frozenset[str]:
        """The plugins that can be had with this version."""
        return frozenset(file.plugin for file in self.files if file.plugin is not None)

    @property
    def size(self) -> int:
        """Bytes of what every home has."""
        return sum(file.size for file in self.files if file.plugin is None)

    def sized(self, plugin: str) -> int:
        """Bytes of a plugin on this machine."""
        return sum(file.size for file in self.files if file.plugin == plugin and file.machine in (None, machine()))


def machine() -> str:
    """The kind of processor here."""
    return platform.machine()


def lock_path(version: str, of: str = "opensearch") -> Path:
    return FOLDER / f"{of}-{version}.lock.json"


def versions() -> list[str]:
    """The versions that have a lock file here."""
    paths = FOLDER.glob(lock_path("*").name)
    return sorted(path.name.removeprefix("opensearch-").removesuffix(".lock.json") for path in paths)


def read(version: str) -> Lock:
    """Raises :class:`InvalidInput` for a version without a lock file."""
    try:
        raw = lock_path(version).read_bytes()
    except FileNotFoundError:
        raise InvalidInput(
            f"OpenSearch {version} has no lock file, only {', '.join(versions())} has",
            remedy="name a home or tarball of that version with OPENSEARCH_HOME",
        ) from None
    data = _content(raw, lock_path(version))
    files, assembled, digests = _files(data), [], {}
    for path in sorted(FOLDER.glob(f"*-{version}.lock.json")):
        if path != lock_path(version):
            more = _content(plugin := path.read_bytes(), path)
            files += _files(more)
            assembled += _modules(more)
            digests[assembled[-1].name] = hashlib.sha256(plugin).hexdigest()
    return Lock(
        version=data["opensearch"],
        java=data["java"],
        files=tuple(files),
        modules=tuple(_modules(data)),
        digest=hashlib.sha256(raw).hexdigest(),
        assembled=tuple(assembled),
        digests=digests,
    )


def _content(raw: bytes, path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(raw)
    if data.get("format") != FORMAT:
        raise ProvisionError(f"{path.name} has format {data.get('format')}, expected {FORMAT}")
    return data


def _files(data: Mapping[str, Any]) -> list[LockedFile]:
    return [
        LockedFile(f["to"], maven.Coordinates.parse(f["coordinates"]), f["sha256"], f["size"]) for f in data["files"]
    ]


def _modules(data: Mapping[str, Any]) -> list[Module]:
    return [
        Module(name, m["description"], m["classname"], tuple(m["extends"]), tuple(m["grants"]))
        for name, m in data["modules"].items()
    ]


# What follows makes the lock file and runs only by hand.

CORE = ("org.opensearch:opensearch", "org.opensearch:opensearch-cli", "org.opensearch:opensearch-plugin-classloader")
LAUNCHERS = "org.opensearch:opensearch-launchers:3.6.0"  # not published with later versions, and unchanged
SOCKETS = 'java.net.SocketPermission "*", "accept,connect"'
CONNECT = 'java.net.SocketPermission "*", "connect"'
CLASS_LOADERS = (
    'java.lang.RuntimePermission "createClassLoader"',
    'java.lang.RuntimePermission "getClassLoader"',
)

MODULES: tuple[tuple[str, Module], ...] = (
    (
        "transport-netty4-client",
        Module(
            "transport-netty4",
            "Transport and HTTP over Netty 4",
            "org.opensearch.transport.Netty4ModulePlugin",
            grants=(
                SOCKETS,
                'java.io.FilePermission "/proc/sys/net/core/somaxconn", "read"',
                'java.lang.RuntimePermission "*", "setContextClassLoader"',
                'java.lang.RuntimePermission "getClassLoader"',
                'java.util.PropertyPermission "sun.nio.ch.bugLevel", "write"',
            ),
        ),
    ),
    (
        "lang-painless",
        Module(
            "lang-painless",
            "The scripting language Painless",
            "org.opensearch.painless.PainlessModulePlugin",
            grants=CLASS_LOADERS,
        ),
    ),
    (
        "analysis-common",
        Module(
            "analysis-common",
            "Analyzers, tokenizers and filters",
            "org.opensearch.analysis.common.CommonAnalysisModulePlugin",
            extends=("lang-painless",),
        ),
    ),
    (
        "reindex-client",
        Module(
            "reindex",
            "Reindex, update and delete by query",
            "org.opensearch.index.reindex.ReindexModulePlugin",
            grants=(CONNECT, 'java.net.NetPermission "getProxySelector"'),
        ),
    ),
    (
        "aggs-matrix-stats-client",
        Module(
            "aggs-matrix-stats",
            "Matrix statistics aggregation",
            "org.opensearch.search.aggregations.matrix.MatrixAggregationModulePlugin",
        ),
    ),
    ("geo", Module("geo", "Geo aggregations", "org.opensearch.geo.GeoModulePlugin")),
    (
        "ingest-common",
        Module(
            "ingest-common",
            "Common ingest processors",
            "org.opensearch.ingest.common.IngestCommonModulePlugin",
            extends=("lang-painless",),
        ),
    ),
    (
        "lang-mustache-client",
        Module(
            "lang-mustache",
            "Search templates in Mustache",
            "org.opensearch.script.mustache.MustacheModulePlugin",
            grants=('java.lang.RuntimePermission "accessDeclaredMembers"',),
        ),
    ),
    (
        "mapper-extras-client",
        Module(
            "mapper-extras",
            "Further field types",
            "org.opensearch.index.mapper.MapperExtrasModulePlugin",
        ),
    ),
    (
        "parent-join-client",
        Module("parent-join", "Parent and child documents", "org.opensearch.join.ParentJoinModulePlugin"),
    ),
    (
        "percolator-client",
        Module("percolator", "Stored queries", "org.opensearch.percolator.PercolatorModulePlugin"),
    ),
    (
        "rank-eval-client",
        Module("rank-eval", "Ranking evaluation", "org.opensearch.index.rankeval.RankEvalModulePlugin"),
    ),
    (
        "repository-url",
        Module(
            "repository-url",
            "Snapshots read from an address",
            "org.opensearch.plugin.repository.url.URLRepositoryModulePlugin",
            grants=(CONNECT,),
        ),
    ),
    (
        "search-pipeline-common",
        Module(
            "search-pipeline-common",
            "Common search pipeline processors",
            "org.opensearch.search.pipeline.common.SearchPipelineCommonModulePlugin",
            extends=("lang-painless",),
        ),
    ),
)
"""Artifact in group ``org.opensearch.plugin`` and what it becomes."""

NOT_PUBLISHED = {
    "2.12.0": ("search-pipeline-common",),
    "3.4.0": ("search-pipeline-common",),
    "3.9.0": ("geo", "ingest-common", "percolator-client", "repository-url", "search-pipeline-common"),
}
"""Named, so that a repository that does not answer leaves nothing out."""
AGENT = {"3.9.0": "3.8.0"}
"""Versions whose own Java agent, which enforces what modules may do, is not published, and the one that is taken."""
PLUGINS = {
    "3.4.0": {
        "opensearch-security": (
            "org.opensearch.plugin:opensearch-security:3.4.0.0@zip",
            "org.apache.commons:commons-collections4:4.5.0",  # else found in what it extends, which is not published
        )
    }
}
"""Plugins and what they consist of. Most versions of the security plugin were never published there."""
REPOSITORY_S3 = Module(
    "repository-s3",
    "Snapshots and remote-backed storage in S3",
    "org.opensearch.repositories.s3.S3RepositoryPlugin",
    grants=(
        CONNECT,
        'java.net.NetPermission "setDefaultAuthenticator"',
        'java.lang.RuntimePermission "accessDeclaredMembers"',
        'java.lang.RuntimePermission "getClassLoader"',
        'java.lang.RuntimePermission "setContextClassLoader"',
        'java.lang.reflect.ReflectPermission "suppressAccessChecks"',
        'java.util.PropertyPermission "opensearch.path.conf", "read,write"',
        'java.util.PropertyPermission "aws.configFile", "read,write"',
        'java.util.PropertyPermission "aws.sharedCredentialsFile", "read,write"',
        'java.util.PropertyPermission "opensearch.allow_insecure_settings", "read,write"',
        'java.io.FilePermission "config", "read"',
    ),
)
ASSEMBLED: dict[str, Module] = {REPOSITORY_S3.name: REPOSITORY_S3}
"""Plugins that are published as jars. Of repository-s3 there is none for 2.19, 3.4.0 and 3.9.0."""
NATIVE = {"software.amazon.awssdk.crt:aws-crt": tuple(MACHINES)}
"""Projects whose whole jar has native code for every system, and the classifiers of the smaller ones that suffice."""


def _resolve(*roots: str) -> list[maven.Coordinates]:
    """The roots and what they need at run time."""
    context = maven.context()
    inputs, needed = context.resolver.resolve([context.create_dependency(root) for root in roots])
    return [
        maven.Coordinates(d.groupId, d.artifactId, d.version, d.classifier or "")
        for d in [*inputs, *needed]
        if d.scope not in ("test", "provided")
    ]


def _locked(to: str, coordinates: maven.Coordinates) -> dict[str, Any]:
    path = maven.download(coordinates)
    return {
        "to": to,
        "coordinates": str(coordinates),
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "size": path.stat().st_size,
    }


def _class_in(jar: Path, name: str) -> str:
    """The module's class; before 3.0 their names did not say that they are modules."""
    there = zipfile.ZipFile(jar).namelist()
    for each in (name, name.replace("ModulePlugin", "Plugin")):
        if each.replace(".", "/") + ".class" in there:
            return each
    raise ProvisionError(f"{jar.name} has no class {name}")


def make(version: str) -> dict[str, Any]:
    """Resolve ``version`` on Maven Central; the content of its lock file."""
    modern = int(version.partition(".")[0]) >= 3
    core = _resolve(*(f"{project}:{version}" for project in CORE), *([LAUNCHERS] if modern else ()))
    log4j = next(c.version for c in core if c.artifact == "log4j-api")
    lib = {c.project: c for c in [*core, *_resolve(f"org.apache.logging.log4j:log4j-core:{log4j}")]}
    files = [_locked("lib", c) for c in lib.values()]
    if modern:  # 2.x is sandboxed by the security manager instead
        agent = f"org.opensearch:opensearch-agent:{AGENT.get(version, version)}"
        files += [_locked("agent", c) for c in _resolve(agent)]
    jars: dict[str, set[str]] = {}
    modules: list[Module] = []
    for artifact, module in MODULES:
        if artifact in NOT_PUBLISHED.get(version, ()):
            continue
        # A jar twice on one class path is "jar hell" and stops the node: what lib/ or an extended module has stays out.
        above = set(lib).union(*(jars[name] for name in module.extends))
        needed = {
            c.project: c
            for c in _resolve(f"org.opensearch.plugin:{artifact}:{version}")
            # Classifiers are native libraries, here only those of QUIC (HTTP/3), which is off by default.
            if c.project not in above and not c.classifier
        }
        jars[module.name] = set(needed)
        files += [_locked(f"modules/{module.name}", c) for c in needed.values()]
        own = maven.download(maven.Coordinates("org.opensearch.plugin", artifact, version))
        module = replace(module, classname=_class_in(own, module.classname))
        modules.append(module)
    for plugin, parts in PLUGINS.get(version, {}).items():
        files += [_locked(f"plugins/{plugin}", maven.Coordinates.parse(part)) for part in parts]
    return {
        "format": FORMAT,
        "opensearch": version,
        "java": 21 if modern else 11,
        "modules": _written(modules),
        "files": sorted(files, key=lambda f: (f["to"], f["coordinates"])),
    }


def make_plugin(version: str, plugin: str) -> dict[str, Any]:
    """Resolve a plugin that is published as a jar; the content of its own lock file."""
    module, locked = ASSEMBLED[plugin], read(version)
    # a jar twice on one class path stops the node: what lib/ has stays out
    above = {file.coordinates.project for file in locked.files if file.to == "lib"}
    files = []
    for each in _resolve(f"org.opensearch.plugin:{plugin}:{version}"):
        if each.project in above:
            continue
        parts = [replace(each, classifier=classifier) for classifier in NATIVE.get(each.project, ("",))]
        files += [_locked(f"plugins/{plugin}", part) for part in parts]
    own = maven.download(maven.Coordinates("org.opensearch.plugin", plugin, version))
    return {
        "format": FORMAT,
        "opensearch": version,
        "java": locked.java,
        "modules": _written([replace(module, classname=_class_in(own, module.classname))]),
        "files": sorted(files, key=lambda f: f["coordinates"]),
    }


def _written(modules: Sequence[Module]) -> dict[str, Any]:
    return {
        module.name: {
            "description": module.description,
            "classname": module.classname,
            "extends": list(module.extends),
            "grants": list(module.grants),
        }
        for module in modules
    }


def dump(content: dict[str, Any]) -> str:
    """One file or module a line, so that a change of the lock is a readable diff."""
    lines = [f' "{key}": {json.dumps(content[key])}' for key in ("format", "opensearch", "java")]
    modules = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in content["modules"].items())
    files = ",\n".join(f"  {json.dumps(file)}" for file in content["files"])
    lines += [f' "modules": {{\n{modules}\n }}', f' "files": [\n{files}\n ]']
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    version = sys.argv[1] if len(sys.argv) > 1 else DEFAULT_VERSION
    plugin = sys.argv[2] if len(sys.argv) > 2 else None
    content, path = (
        (make(version), lock_path(version))
        if plugin is None
        else (make_plugin(version, plugin), lock_path(version, plugin))
    )
    path.write_text(dump(content))
    total = sum(file["size"] for file in content["files"])
    print(f"{path.name}: {len(content['files'])} files, {total / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
