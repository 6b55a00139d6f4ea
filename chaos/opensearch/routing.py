"""Which shard a document belongs to: OpenSearch's routing formula, shared by the read-back and the checks.

``OperationRouting.generateShardId``: Murmur3 (x86, 32 bit, seed 0) of the id in UTF-16LE, floor-modulo the number of
routing shards, divided by the routing factor.
"""

from __future__ import annotations

import mmh3


def shard_of(id: str, shards: int, routing_shards: int) -> int:
    """The shard to which OpenSearch routes a document id."""
    return (mmh3.hash(id.encode("utf-16-le"), 0, signed=True) % routing_shards) // (routing_shards // shards)


def default_routing_shards(shards: int) -> int:
    """Routing shards of an index that does not set them: the most splits by two that stay within 1024 shards, at
    least one (``MetadataCreateIndexService.calculateNumRoutingShards``)."""
    return shards << max(1, 10 - (shards - 1).bit_length())
