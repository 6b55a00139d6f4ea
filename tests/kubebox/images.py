"""Images of the box, in the format of ``docker save``: one layer, no base, nothing from a registry."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

REGISTRY = "docker.io/opensearch-chaos"
PODS, OPENSEARCH, HELPER = f"{REGISTRY}/pods:1", f"{REGISTRY}/opensearch:{{version}}", f"{REGISTRY}/helper:1"
SUITE = f"{REGISTRY}/suite:1"
"""Names of images: the box's own small programs, OpenSearch, what helper pods need, and what holds game days. No
registry has them."""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def configuration(
    layer: str, machine: str, command: Sequence[str], user: str, work: str, path: str = "/"
) -> dict[str, Any]:
    """The configuration of an image whose only layer has this SHA-256. ``path``: where its programs are."""
    return {
        "architecture": ARCHITECTURES[machine],
        "os": "linux",
        "config": {"Entrypoint": list(command), "User": user, "WorkingDir": work, "Env": [f"PATH={path}"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}"]},
    }


def save(
    layer: Path, image: Path, name: str, machine: str, command: Sequence[str], user: str, work: str, path: str = "/"
) -> None:
    """Write an image of one layer, which is a tar of its files."""
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    text = json.dumps(configuration(digest, machine, command, user, work, path)).encode()
    config = f"{hashlib.sha256(text).hexdigest()}.json"
    inside = f"{digest}/layer.tar"
    manifest: list[Mapping[str, Any]] = [{"Config": config, "RepoTags": [name], "Layers": [inside]}]
    with tarfile.open(image, "w") as archive:
        _text(archive, config, text)
        archive.add(layer, inside)
        _text(archive, "manifest.json", json.dumps(manifest).encode())


def _text(archive: tarfile.TarFile, name: str, text: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(text)
    archive.addfile(entry, BytesIO(text))
