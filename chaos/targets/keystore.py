"""OpenSearch's keystore: secrets of a node that no settings file takes, such as credentials of an object store.

The format is OpenSearch's own, version 4, as ``KeyStoreWrapper`` of 3.8.0 writes and reads it: a header and a footer of
Lucene's around the entries, which are encrypted by AES-128-GCM under a key of the password. The password is empty, so
that nodes start without one: what protects the file is its mode.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
import zlib
from collections.abc import Mapping

NAME = "opensearch.keystore"
VERSION = 4
MAGIC = 0x3FD76C17
"""Of a header (``CodecUtil``); a footer begins with its complement."""
SALT, IV, KEY = 64, 12, 16
"""Bytes."""
ROUNDS = 10_000
SEED = "keystore.seed"
"""An entry that each keystore has; a node would write it itself."""
HEADER = struct.pack(">I", MAGIC) + bytes([len(NAME)]) + NAME.encode() + struct.pack(">IB", VERSION, 0)
"""The last byte says that there is no password."""


def keystore(entries: Mapping[str, str]) -> bytes:
    """The content of the file. Needs cryptography, which moto, of every S3 store here, brings."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    salt, iv = secrets.token_bytes(SALT), secrets.token_bytes(IV)
    found = {SEED: secrets.token_urlsafe(20), **entries}
    plain = struct.pack(">i", len(found)) + b"".join(
        struct.pack(">H", len(name)) + name.encode() + struct.pack(">i", len(value.encode())) + value.encode()
        for name, value in found.items()
    )
    sealed = AESGCM(_key(salt)).encrypt(iv, plain, salt)
    data = b"".join(struct.pack(">i", len(part)) + part for part in (salt, iv, sealed))
    body = HEADER + struct.pack(">i", len(data)) + data + struct.pack(">II", MAGIC ^ 0xFFFFFFFF, 0)
    return body + struct.pack(">Q", zlib.crc32(body))


def _key(salt: bytes) -> bytes:
    return hashlib.pbkdf2_hmac("sha512", b"", salt, ROUNDS, KEY)
