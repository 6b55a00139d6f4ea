"""Builds the Debian package of oschaos-host: ``python -m chaos.hosts.deb [FOLDER]`` (``make host-deb``).

With dpkg-deb alone, and the same bytes each time: every file has the time SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from chaos.hosts import oschaos_host

HERE = Path(__file__).parent
PACKAGING = HERE / "packaging"
EPOCH = 1767225600
"""2026-01-01: the time of all files where SOURCE_DATE_EPOCH says no other."""
DOC = "usr/share/doc/oschaos-host"
UNITS = "usr/lib/systemd/system"
FILES = {
    "usr/sbin/oschaos-host": (HERE / "oschaos_host.py", 0o755),
    "etc/sudoers.d/oschaos-host": (PACKAGING / "sudoers", 0o440),
    f"{UNITS}/oschaos-host-sweep.service": (PACKAGING / "oschaos-host-sweep.service", 0o644),
    f"{DOC}/oschaos-host.json.example": (PACKAGING / "oschaos-host.json.example", 0o644),
    **{f"DEBIAN/{name}": (PACKAGING / name, 0o755) for name in ("postinst", "prerm", "postrm")},
}
CONTROL = f"""\
Package: oschaos-host
Version: {oschaos_host.VERSION}
Section: admin
Priority: optional
Architecture: all
Depends: python3 (>= 3.9), sudo, adduser, util-linux
Recommends: nftables, iproute2, openssh-server
Maintainer: opensearch-chaos contributors <opensearch-chaos@localhost>
Description: faults on this host, each with a deadline
 Called through sudo by opensearch-chaos. What it may do stands in
 /etc/oschaos-host.json; without that file it does nothing.
"""
COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: opensearch-chaos contributors
License: Apache-2.0
 See /usr/share/common-licenses/Apache-2.0.
"""


def build(folder: Path) -> Path:
    """Write the package into ``folder``; its path. Raises ``CalledProcessError`` and ``FileNotFoundError``."""
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", EPOCH))
    folder.mkdir(parents=True, exist_ok=True)
    package = folder / f"oschaos-host_{oschaos_host.VERSION}_all.deb"
    with tempfile.TemporaryDirectory() as temporary:
        tree = Path(temporary) / "tree"
        contents = {name: (source.read_bytes(), mode) for name, (source, mode) in FILES.items()}
        contents["DEBIAN/control"] = (CONTROL.encode(), 0o644)
        contents["DEBIAN/conffiles"] = (b"/etc/sudoers.d/oschaos-host\n", 0o644)
        contents[f"{DOC}/copyright"] = (COPYRIGHT.encode(), 0o644)
        for name, (content, mode) in contents.items():
            path = tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(mode)
        wants = tree / UNITS / "multi-user.target.wants"
        wants.mkdir()
        (wants / "oschaos-host-sweep.service").symlink_to("../oschaos-host-sweep.service")
        for path in (*tree.rglob("*"), tree):
            if path.is_dir():
                path.chmod(0o755)
            os.utime(path, (epoch, epoch), follow_symlinks=False)
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(tree), str(package)],
            check=True, capture_output=True, env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "LC_ALL": "C"},
        )  # fmt: skip
    return package


if __name__ == "__main__":
    print(build(Path(sys.argv[1] if len(sys.argv) > 1 else "build")))
