"""Which shard a document belongs to: OpenSearch's routing formula, shared by the read-back and the checks.

``OperationRouting.generateShardId``: Murmur3 (x86, 32 bit, seed 0) of the id in UTF-16LE, floor-modulo the number of
routing shards, divided by the routing factor.
"""

from __future__ import annotations

from typing import Any

import mmh3
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint32]

CHUNK = 1 << 18
"""Numbers that are hashed at once: a few megabytes of columns, which stay in the processor's cache."""


def shard_of(id: str, shards: int, routing_shards: int) -> int:
    """The shard to which OpenSearch routes a document id."""
    return (mmh3.hash(id.encode("utf-16-le"), 0, signed=True) % routing_shards) // (routing_shards // shards)


def shards_of(prefix: str, numbers: npt.NDArray[Any], shards: int, routing_shards: int) -> npt.NDArray[np.uint16]:
    """The shards of the ids ``<prefix><number>``, the same as :func:`shard_of` says of each.

    ``numbers``: none is negative. ``prefix``: of characters that are one unit in UTF-16 each.
    """
    found = np.zeros(len(numbers), np.uint16)  # an index has 1024 shards at most
    if shards == 1:
        return found
    for first in range(0, len(numbers), CHUNK):
        part = numbers[first : first + CHUNK].astype(np.int64)
        hashes = np.empty(len(part), np.uint32)
        digits = _digits(part)
        for length in np.unique(digits).tolist():
            rows = digits == length
            hashes[rows] = _murmur3(_units(prefix, part[rows], length))
        routed = hashes.view(np.int32).astype(np.int64) % routing_shards
        found[first : first + CHUNK] = routed // (routing_shards // shards)
    return found


def _digits(numbers: Ints) -> Ints:
    """How many digits each has."""
    found = np.ones(len(numbers), np.int64)
    for power in range(1, 19):
        more = numbers >= 10**power
        if not more.any():
            break
        found += more
    return found


def _units(prefix: str, numbers: Ints, digits: int) -> list[_Words]:
    """The ids as columns of UTF-16 units. ``digits``: how many each of the numbers has."""
    columns: list[_Words] = []
    for _ in range(digits):
        rest = numbers // 10
        columns.append((numbers - rest * 10 + ord("0")).astype(np.uint32))
        numbers = rest
    columns += [np.full(len(numbers), ord(letter), np.uint32) for letter in reversed(prefix)]
    return columns[::-1]


def _murmur3(units: list[_Words]) -> _Words:
    """Murmur3 of texts of one length, given as columns of 16 bit units in the order of the text."""
    found = np.zeros(len(units[0]), np.uint32)
    for low, high in zip(units[::2], units[1::2], strict=False):
        found ^= _mixed(low | (high << np.uint32(16)))
        found = _rotated(found, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    if len(units) % 2:
        found ^= _mixed(units[-1])
    found ^= np.uint32(2 * len(units))
    found ^= found >> np.uint32(16)
    found *= np.uint32(0x85EBCA6B)
    found ^= found >> np.uint32(13)
    found *= np.uint32(0xC2B2AE35)
    found ^= found >> np.uint32(16)
    return found


def _mixed(block: _Words) -> _Words:
    return _rotated(block * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)


def _rotated(words: _Words, bits: int) -> _Words:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def default_routing_shards(shards: int) -> int:
    """Routing shards of an index that does not set them: the most splits by two that stay within 1024 shards, at
    least one (``MetadataCreateIndexService.calculateNumRoutingShards``)."""
    return shards << max(1, 10 - (shards - 1).bit_length())
