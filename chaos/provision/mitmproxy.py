"""mitmproxy: the proxy through which HTTP requests of a lab pass, where they are to be delayed, refused, hung or cut.

It pins older versions of packages that we and others have newer, so it is no dependency of ours: it lies in a folder of
the cache, with all that it needs, and runs in a Python that sees that folder alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

from chaos.provision import pypi

NAME, VERSION = "mitmproxy", "11.0.2"
"""As in ``requirements/mitmproxy.txt``."""
BEGIN = "from mitmproxy.tools.main import mitmdump; mitmdump()"


def ensure_mitmproxy(*, progress: bool = True) -> Path:
    """Its folder. Raises ProvisionError or MissingPrerequisite, with a remedy; offline once it is there."""
    return pypi.ensure_package(NAME, progress=progress)


def find_mitmproxy() -> Path | None:
    """In the cache; installs nothing."""
    folder = pypi.folder_of(NAME)
    return folder if folder.is_dir() else None


def command(*arguments: str) -> list[str]:
    """Starts it without a terminal. -S: without the packages of this Python, but for those that PYTHONPATH names."""
    return [sys.executable, "-S", "-P", "-c", BEGIN, *arguments]


def environment(folder: Path, home: Path) -> dict[str, str]:
    """``home``: where it may write what it makes at its first start (an authority of its own, which nobody uses)."""
    return {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONPATH": str(folder), "HOME": str(home)}
