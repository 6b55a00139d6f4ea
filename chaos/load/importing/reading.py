"""Reads files that others wrote, within bounds: lines of plain and compressed files, JSON objects of them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from chaos.base.errors import InvalidInput
from chaos.definitions.source import shown

MOST_LINE = 2**20
"""Bytes of a line."""
MOST_BYTES = 16 * 2**20
"""Of a file, decompressed: what comes after is not read."""
MOST_COMPRESSED = 2 * 2**20
"""Of a compressed file, that become no more than a chunk of content."""
LEVELS = 20
"""Objects in objects: OpenSearch's index.mapping.depth.limit."""
COMPRESSED = (".gz", ".bz2", ".zst")
_BROKEN = (EOFError, zlib.error, OSError, ValueError)
"""What is raised where a compressed file is none, or ends too early."""
_CHUNK = 2**16
_LONELY = re.compile("[\ud800-\udfff]")


class _Counted(io.RawIOBase):
    """A compressed file. There are some whose bytes never become content: :meth:`went_on` says that these did."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path, self._left = file, path, MOST_COMPRESSED

    def went_on(self) -> None:
        self._left = MOST_COMPRESSED

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(min(len(buffer), _CHUNK))
        self._left -= len(data)
        if self._left < 0:
            raise InvalidInput(f"{shown(self._path)}: {MOST_COMPRESSED >> 20} MiB of it hold hardly any content")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, from 1, without empty ones, of the first 16 MiB of a file's content.

    Raises InvalidInput for a file that cannot be read, and for a line of more than 1 MiB.
    """
    file, counted = _opened(path)
    broken = (*_BROKEN, zstd().ZstdError) if path.suffix == ".zst" else _BROKEN
    with file:
        rest, number, left = b"", 0, MOST_BYTES
        while left > 0:
            try:
                data = file.read(_CHUNK)
            except broken as error:
                raise InvalidInput(f"{shown(path)}: cannot be read: {error}") from None
            left -= len(data)
            if counted is not None:
                counted.went_on()
            *whole, rest = (rest + data).split(b"\n")
            if not data and rest:
                whole, rest = [rest], b""
            for line in whole:
                number += 1
                _not_too_long(path, number, line)
                if line.strip():
                    yield number, _decoded(path, number, line)
            if not data:
                return
            _not_too_long(path, number + 1, rest)


def _not_too_long(path: Path, number: int, line: bytes) -> None:
    if len(line) > MOST_LINE:
        raise InvalidInput(
            f"{shown(path)}:{number}: the line has more than {MOST_LINE >> 20} MiB",
            remedy="bring a file with one document or search a line",
        )


def _decoded(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise InvalidInput(f"{shown(path)}:{number}: it is not UTF-8 text") from None


def _opened(path: Path) -> tuple[IO[bytes], _Counted | None]:
    try:
        raw = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")  # a pipe would keep us waiting
    except OSError as error:
        raise InvalidInput(f"{shown(path)}: cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
        raw.close()
        raise InvalidInput(f"{shown(path)}: it is no file", remedy="name a file, or a folder with workload.json")
    if path.suffix not in COMPRESSED:
        return raw, None
    counted = _Counted(raw, path)
    buffered = io.BufferedReader(counted, _CHUNK)
    if path.suffix == ".gz":
        return gzip.GzipFile(fileobj=buffered), counted  # type: ignore[return-value]
    if path.suffix == ".bz2":
        return bz2.BZ2File(buffered), counted
    return zstd().ZstdFile(buffered), counted


def zstd() -> Any:
    """The standard library's module (Python 3.14), or the same one for those before."""
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def parsed(where: str, text: str) -> dict[str, Any]:
    """The JSON object of a text. Raises InvalidInput with ``where`` for anything else, and for one that is too deep."""
    try:
        found = json.loads(text, parse_constant=refuse_constant)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{where}: not JSON: {error.msg} (character {error.pos + 1})") from None
    except RecursionError:
        raise InvalidInput(f"{where}: more than {LEVELS} levels, and OpenSearch takes no more") from None
    except ValueError as error:
        raise InvalidInput(f"{where}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidInput(f"{where}: this is no JSON object")
    if "\\ud" in text.lower() and _LONELY.search(json.dumps(found, ensure_ascii=False)):
        raise InvalidInput(f"{where}: half of a character that needs two (a lone surrogate) is no text")
    return found


def refuse_deep(where: str, value: Any, most: int = LEVELS) -> None:
    """Raises InvalidInput for objects and lists in more than so many levels."""
    waiting = [(value, 1)]
    while waiting:
        each, level = waiting.pop()
        if not isinstance(each, dict | list):
            continue
        if level > most:
            raise InvalidInput(f"{where}: more than {most} levels, and OpenSearch takes no more")
        waiting.extend((it, level + 1) for it in (each.values() if isinstance(each, dict) else each))


def refuse_constant(text: str) -> Any:
    """Raises ValueError: infinity and not-a-number are no JSON."""
    raise ValueError(f"{text} is no number")
