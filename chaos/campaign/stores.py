"""Where a campaign keeps its runs: what a store must do, and the proof that it does.

A store is a flat set of names with bytes. All correctness of a campaign rests on one operation, :meth:`Store.create`:
of any number of writers of one name exactly one succeeds. A store that cannot do that is refused before the first run.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Protocol

from chaos.base.errors import ChaosError, InvalidInput

PROBES = "probes"
WRITERS = 8
"""Writers of one name at once in the proof."""


class StoreError(ChaosError):
    """A store could not be read or written: full, read-only, out of reach."""


class Absent(StoreError):
    """There is nothing of that name."""


class Store(Protocol):
    """Names are relative, with ``/`` between their parts. All methods raise StoreError."""

    address: str

    def create(self, name: str, data: bytes) -> bool:
        """Write a name that must not exist yet, whole or not at all. False: it exists, and is as it was."""
        ...

    def put(self, name: str, file: Path) -> None:
        """Upload a file."""
        ...

    def read(self, name: str) -> bytes:
        """Raises Absent."""
        ...

    def fetch(self, name: str, file: Path) -> None:
        """Download into a file, whose folder exists. Raises Absent."""
        ...

    def names(self, prefix: str) -> Iterator[str]:
        """All names that begin with ``prefix``, which ends in ``/``, sorted."""
        ...

    def delete(self, name: str) -> None:
        """Nothing where it does not exist."""
        ...

    def local(self, name: str) -> Path | None:
        """Where a name is a file of this machine; None: it must be fetched."""
        ...


def safe(name: str) -> str:
    """A name that stays inside a store and inside a folder. Raises StoreError: manifests are written by others."""
    parts = PurePosixPath(name).parts
    if not name or name.startswith("/") or "\\" in name or "\0" in name or any(each in ("..", ".") for each in parts):
        raise StoreError(f"{name!r} is no name of a store")
    return name


def prove(store: Store) -> None:
    """Prove that this store refuses a second create. Raises InvalidInput with what it did instead, or with why it
    cannot be written."""
    try:
        _prove_in_turn(store)
        _prove_at_once(store)
    except StoreError as error:
        raise InvalidInput(
            error.message, remedy="nothing was started: see that this machine can write there"
        ) from error


@contextmanager
def _probe(store: Store) -> Iterator[str]:
    """A name of its own, gone afterwards where the store lets it go."""
    name = f"{PROBES}/{secrets.token_hex(8)}"
    try:
        yield name
    finally:
        with suppress(StoreError):
            store.delete(name)


def _prove_in_turn(store: Store) -> None:
    first, second = b"first", b"second"
    with _probe(store) as name:
        if not store.create(name, first):
            raise _refused(store, "it says of a new name that it exists already")
        if store.create(name, second):
            raise _refused(store, "it created the same name twice")
        if (found := store.read(name)) != first:
            raise _refused(store, f"a second create was refused, and yet the content became {found[:20]!r}")


def _prove_at_once(store: Store) -> None:
    """Several writers of one name at the same time: one wins."""

    def write(number: int) -> bool:
        return store.create(name, b"%d" % number)

    with _probe(store) as name:
        with ThreadPoolExecutor(WRITERS) as pool:
            won = [number for number, wins in enumerate(pool.map(write, range(WRITERS))) if wins]
        if len(won) != 1:
            raise _refused(store, f"of {WRITERS} creates of one name at once {len(won)} succeeded")
        if (found := store.read(name)) != b"%d" % won[0]:
            raise _refused(store, f"writer {won[0]} was told that it won, and {found[:20]!r} is there")


def _refused(store: Store, why: str) -> InvalidInput:
    return InvalidInput(
        f"{store.address} cannot keep a campaign: {why}",
        remedy="use a store whose creates are exclusive: a folder on a file system with hard links, or an S3 that "
        "keeps If-None-Match (AWS S3 does)",
    )
