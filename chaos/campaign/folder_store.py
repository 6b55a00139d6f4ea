"""A store in a folder of this machine, or of a file system that several machines share.

A create writes a file of another name, syncs it, and gives it its name by link(2), which fails where the name exists:
so a name is never seen half written, also after a crash. A file system without hard links is refused by
:func:`chaos.campaign.stores.prove`, because O_EXCL alone would leave an empty commit behind a crash.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.base.paths import fsync_folder
from chaos.campaign.stores import Absent, StoreError, safe

TEMPORARY = ".new-"


class FolderStore:
    """Raises StoreError as :class:`.stores.Store` says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = str(folder)

    def create(self, name: str, data: bytes) -> bool:
        target = self._at(name)
        with self._told(f"write {name}"), self._temporary(target) as temporary:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(temporary, target)
            except FileExistsError:
                return False
            fsync_folder(target.parent)
            return True

    def put(self, name: str, file: Path) -> None:
        target = self._at(name)
        with self._told(f"write {name}"), self._temporary(target) as temporary:
            shutil.copyfile(file, temporary)
            with open(temporary, "rb") as copied:
                os.fsync(copied.fileno())
            os.replace(temporary, target)
            fsync_folder(target.parent)

    def read(self, name: str) -> bytes:
        with self._told(f"read {name}"):
            return self._at(name).read_bytes()

    def fetch(self, name: str, file: Path) -> None:
        with self._told(f"read {name}"):
            shutil.copyfile(self._at(name), file)

    def names(self, prefix: str) -> Iterator[str]:
        with self._told(f"list {prefix}"):
            found = sorted(
                str(file.relative_to(self.folder))
                for file in (self.folder / prefix).rglob("*")
                if file.is_file() and not file.name.startswith(TEMPORARY)
            )
        yield from found

    def delete(self, name: str) -> None:
        with self._told(f"delete {name}"):
            self._at(name).unlink(missing_ok=True)

    def local(self, name: str) -> Path | None:
        return self._at(name)

    def _at(self, name: str) -> Path:
        return self.folder / safe(name)

    @contextmanager
    def _temporary(self, target: Path) -> Iterator[Path]:
        """A name beside the target for what is not whole yet; gone afterwards, unless the process dies."""
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.parent / f"{TEMPORARY}{secrets.token_hex(8)}"
        try:
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise Absent(f"store {self.address}: cannot {what}: there is no such file") from error
        except OSError as error:
            raise StoreError(f"store {self.address}: cannot {what}: {error.strerror or error}") from error
