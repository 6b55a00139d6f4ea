"""``helpers.async_bulk`` of opensearch-py, in an event loop: what it tells is what ``helpers.bulk`` tells.

It runs over the library's asynchronous client, whose connections are aiohttp's, in a driver process of its own. That
process makes no health checks, so it stands behind no load balancer of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from opensearchpy import helpers
from opensearchpy.helpers import BulkIndexError

from chaos.load.client import Helper, Listener


class AsyncBulk(Helper):
    name = "helpers.async_bulk"
    says = "one call of opensearch-py's helpers.async_bulk a request, in a process of its own with an event loop"
    in_asyncio = True
    clients = ("opensearch-py", "pinned")

    async def send(self, client: Any, documents: Iterable[int], options: Mapping[str, Any], listener: Listener) -> None:
        try:
            stored, failed = await helpers.async_bulk(client, documents, **options)
        except BulkIndexError as error:
            for item in error.errors:
                listener.told(False, item)
            raise
        for item in failed if isinstance(failed, list) else ():
            listener.told(False, item)
        listener.counted(stored)


HELPER = AsyncBulk()
