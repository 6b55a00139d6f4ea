"""Maven Central through jgo, a client that knows it.

Coordinates go in, addresses come out; no host name is written anywhere in this project. A mirror is
set where jgo's users set it: in jgo's settings file, section ``[repositories]``, name ``central``
(further repositories there are asked after it), and ``$M2_REPO`` or the settings' ``repo_cache`` is
looked into before the network is.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import requests
from jgo.config import GlobalSettings
from jgo.maven import Artifact, MavenContext

from chaos.base.errors import InvalidInput, ProvisionError


@dataclass(frozen=True)
class Coordinates:
    """``group:artifact:version[:classifier]`` of a jar, or with ``@zip`` of a zip."""

    group: str
    artifact: str
    version: str
    classifier: str = ""
    packaging: str = "jar"

    @classmethod
    def parse(cls, text: str) -> Coordinates:
        """Raises :class:`InvalidInput` unless there are three or four parts."""
        name, _, packaging = text.partition("@")
        parts = name.split(":")
        if len(parts) not in (3, 4) or not all(parts):
            raise InvalidInput(f"not Maven coordinates: {text!r}, expected group:artifact:version[:classifier][@zip]")
        group, artifact, version, *classifier = parts
        return cls(group, artifact, version, "".join(classifier), packaging or "jar")

    def __str__(self) -> str:
        name = ":".join(filter(None, (self.group, self.artifact, self.version, self.classifier)))
        return name if self.packaging == "jar" else f"{name}@{self.packaging}"

    @property
    def project(self) -> str:
        """Group and artifact; what two versions of one jar share."""
        return f"{self.group}:{self.artifact}:{self.classifier}".rstrip(":")

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}{'-' + self.classifier if self.classifier else ''}.{self.packaging}"


@lru_cache(maxsize=1)
def context() -> MavenContext:
    """jgo's context as its own settings make it; ``central`` is always among the repositories."""
    settings = GlobalSettings.load()
    known = MavenContext()
    return MavenContext(
        repo_cache=settings.repo_cache, remote_repos=known.remote_repos | settings.repositories, timeout=30
    )


def _artifact(coordinates: Coordinates) -> Artifact:
    component = context().project(coordinates.group, coordinates.artifact).at_version(coordinates.version)
    return component.artifact(coordinates.classifier, coordinates.packaging)


def addresses(coordinates: Coordinates) -> list[str]:
    """Where the file may be fetched from, in order."""
    artifact = _artifact(coordinates)
    path = f"{artifact.component.path_prefix.as_posix()}/{artifact.filename}"
    return [f"{base.rstrip('/')}/{path}" for base in context().remote_repos.values()]


def local_copy(coordinates: Coordinates) -> Path | None:
    """The jar in this machine's Maven repository, unverified; None when it is not there."""
    path = _artifact(coordinates).cached_path
    return path if path and path.is_file() else None


def download(coordinates: Coordinates) -> Path:
    """The jar through jgo itself, checked against the repository's own SHA-1; only to make a lock file."""
    try:
        path = _artifact(coordinates).resolve()
        published = requests.get(addresses(coordinates)[0] + ".sha1", timeout=30)
        published.raise_for_status()
    except (requests.RequestException, RuntimeError) as error:
        raise ProvisionError(f"{coordinates} could not be resolved: {error}") from error
    if published.text.split()[0] != hashlib.sha1(path.read_bytes()).hexdigest():
        raise ProvisionError(f"{coordinates} differs from the SHA-1 that the repository publishes")
    return path
