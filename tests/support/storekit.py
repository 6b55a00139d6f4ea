"""What is a secret of a lab's store, and what an object of it: learnt while the lab lives, looked for when it is gone.

A store of kind ``s3`` has credentials, which are drawn for each lab and are in the keystores of its nodes alone. Stores
of all kinds have objects. Neither may be in the folder of a run, and nowhere when the lab is gone.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from chaos.base.errors import ChaosError
from chaos.history import parquet
from chaos.load.importing.reading import zstd
from chaos.targets import keystore
from chaos.targets.labs.local import LocalLab

OF_A_STORE = "s3.client."
"""How entries of a keystore begin that are a store's credentials."""
BEGINS = struct.pack(">IB", 0x3FD76C17, 19) + b"opensearch.keystore"
"""Of the file: what Lucene begins with, and the name of the format. Not taken from our writer, which it is to judge."""
LIST_SECONDS = 3.0
"""How long a store may take to list its keys."""


def opened(data: bytes) -> dict[str, str]:
    """The entries of a keystore as ``KeyStoreWrapper`` of 3.8.0 reads them: header, checksum, key of an empty password.

    Raises ValueError where it is none, or is not whole.
    """
    try:
        return _entries(_plain(data))
    except (struct.error, InvalidTag, IndexError) as error:
        raise ValueError(f"no keystore: {type(error).__name__}") from error


def _plain(data: bytes) -> bytes:
    """What is sealed in it."""
    _must(data[:24] == BEGINS, "the beginning")
    version, has_password, length = struct.unpack(">IBi", data[24:33])
    _must((version, has_password) == (4, 0), "the version")
    at, end = 33, 33 + length
    _must(data[end : end + 8] == struct.pack(">II", 0xC02893E8, 0) and len(data) == end + 16, "the footer")
    _must(struct.unpack(">Q", data[-8:])[0] == zlib.crc32(data[:-8]), "the checksum")
    parts = []
    for _ in range(3):
        (size,) = struct.unpack(">i", data[at : at + 4])
        parts.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    _must(at == end, "the length")
    salt, iv, sealed = parts
    return AESGCM(keystore._key(salt)).decrypt(iv, sealed, salt)


def _entries(plain: bytes) -> dict[str, str]:
    (count,) = struct.unpack(">i", plain[:4])
    found, at = {}, 4
    for _ in range(count):
        (size,) = struct.unpack(">H", plain[at : at + 2])
        name, at = plain[at + 2 : at + 2 + size].decode(), at + 2 + size
        (size,) = struct.unpack(">i", plain[at : at + 4])
        found[name], at = plain[at + 4 : at + 4 + size].decode(), at + 4 + size
    _must(at == len(plain), "the entries")
    return found


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"no keystore: {what} is another")


@dataclass
class Known:
    """What was learnt of one store.

    ``secrets``: entry of the keystores → its value. ``objects``: their names, which are the last part of their keys.
    ``digests``: of their content (SHA-256), where the store keeps files.
    """

    secrets: dict[str, str] = field(default_factory=dict)
    objects: set[str] = field(default_factory=set)
    digests: set[str] = field(default_factory=set)

    def learn(self, lab: LocalLab) -> None:
        """What the lab's store has now. A lab that is half there teaches what is there."""
        for file in (lab.folder / "config").glob(f"*/{keystore.NAME}"):
            with suppress(OSError, ValueError):  # it is being written, or taken away
                entries = opened(file.read_bytes())
                self.secrets |= {name: value for name, value in entries.items() if name.startswith(OF_A_STORE)}
        for name in lab.topology.services:
            for file in _files(lab.service(name).folder):
                with suppress(OSError):
                    if data := file.read_bytes():
                        self.objects.add(file.name)
                        self.digests.add(hashlib.sha256(data).hexdigest())
        for name in lab.topology.service_hosts:
            with suppress(ChaosError, OSError):
                self.objects |= {key.rpartition("/")[2] for key in lab.keys(name, LIST_SECONDS)}

    def found_in(self, *folders: Path) -> list[str]:
        """Every file there that is an object or a keystore, or holds a secret; compressed files are unpacked for it."""
        found = []
        for file in (file for folder in folders for file in _files(folder)):
            held = list(contents(file))
            if file.name in self.objects or any(hashlib.sha256(data).hexdigest() in self.digests for data in held):
                found.append(f"an object of the store: {file}")
            if file.name == keystore.NAME or any(BEGINS in data for data in held):
                found.append(f"a keystore: {file}")
            secrets = {name: value.encode() for name, value in self.secrets.items()}
            found += [f"{name} is in {file}" for name, value in secrets.items() if any(value in data for data in held)]
        return found

    def named_in(self, *folders: Path) -> list[str]:
        """Every file there that has the name of an object: for folders that are too large to be read."""
        files = (file for folder in folders for file in _files(folder))
        return [f"an object of the store: {file}" for file in files if file.name in self.objects]


def _files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        for file in sorted(Path(place, name) for name in names):
            if file.is_file() and not file.is_symlink():
                yield file


UNPACK: Mapping[bytes, Callable[[bytes], bytes]] = {
    b"\x1f\x8b": gzip.decompress,
    b"BZh": bz2.decompress,
    b"\xfd7zXZ\x00": lzma.decompress,
    b"\x28\xb5\x2f\xfd": lambda data: bytes(zstd().decompress(data)),
    b"PK\x03\x04": lambda data: b"".join(_members(data)),
}
"""By which bytes a compressed file begins, and what it is without that."""
PARQUET = b"PAR1"


def contents(file: Path) -> Iterator[bytes]:
    """What a file holds, and what it holds when it is unpacked. Raises where it says that it is packed and is not."""
    data = file.read_bytes()
    yield data
    for begin, unpack in UNPACK.items():
        if data.startswith(begin):
            yield unpack(data)
    if data.startswith(PARQUET):
        yield parquet.read(file, parquet.ROW_GROUP, {}).to_csv().encode()


def _members(data: bytes) -> Iterator[bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            yield name.encode()
            yield archive.read(name)
