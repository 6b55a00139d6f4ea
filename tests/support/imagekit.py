"""What the image of the suite is built on where no registry can be reached: a base of Debian's own packages."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from chaos.base import paths

ROOT = Path(__file__).parents[2]
SUITE = "bookworm"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def packages() -> list[str]:
    """Those that the Dockerfile asks its base for."""
    (line,) = (line for line in (ROOT / "Dockerfile").read_text().splitlines() if line.startswith("ARG PACKAGES="))
    return line.partition("=")[2].strip('"').split()


def lacking() -> str | None:
    """Why no base can be made on this machine; None where one can."""
    if cached_base().is_file():
        return None
    if shutil.which("debootstrap") is None or not KEYRING.is_file():
        return "no debootstrap: apt-get install --no-install-recommends debootstrap debian-archive-keyring"
    return None


def cached_base() -> Path:
    key = hashlib.sha256(" ".join([SUITE, *packages()]).encode()).hexdigest()[:12]
    return paths.cache() / "tests" / f"base-{key}.tar"


def base() -> Path:
    """A root file system as a tar file, made once: Debian's smallest with what the Dockerfile asks for."""
    tar = cached_base()
    if tar.is_file():
        return tar
    tar.parent.mkdir(parents=True, exist_ok=True)
    root = tar.with_suffix(".root")
    shutil.rmtree(root, ignore_errors=True)
    try:
        said = f"--include={','.join(packages())}"
        subprocess.run(
            ["debootstrap", "--variant=minbase", said, f"--keyring={KEYRING}", SUITE, str(root), mirror()],
            check=True,
            capture_output=True,
        )
        made = tar.with_suffix(".made")
        subprocess.run(
            ["tar", "-C", str(root), "--exclude=./var/cache/apt/archives/*.deb", "-cf", str(made), "."], check=True
        )
        made.replace(tar)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return tar


def mirror() -> str:
    """Where this machine's own apt has the suite from."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return next(line.split()[0] for line in said.splitlines() if line.split()[1:] == [SUITE])
