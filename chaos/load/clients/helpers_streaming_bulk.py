"""``helpers.streaming_bulk`` of opensearch-py: it tells its caller of each document as soon as its bulk was answered.

Its defaults and its retries are those of ``helpers.bulk``, which is made of it; a caller that looks at what it yields
has been told what was stored before an exception came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from opensearchpy import helpers
from opensearchpy.helpers import BulkIndexError

from chaos.load.client import Helper, Listener


class StreamingBulk(Helper):
    name = "helpers.streaming_bulk"
    says = "one call of opensearch-py's helpers.streaming_bulk a request, which tells the caller of each document"

    def send(self, client: Any, documents: Iterable[int], options: Mapping[str, Any], listener: Listener) -> None:
        try:
            for ok, item in helpers.streaming_bulk(client, documents, **options):
                listener.told(ok, item)
        except BulkIndexError as error:
            for item in error.errors:
                listener.told(False, item)
            raise


HELPER = StreamingBulk()
