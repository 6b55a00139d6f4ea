"""``helpers.bulk`` of opensearch-py: a count of what was stored and a list of what was not, or an exception.

By default it raises after the first bulk in which a document failed (``raise_on_error``), and sends none of those
after it. An exception names the documents that failed in that bulk and none that were stored. With ``max_retries`` what
was rejected (429) is sent again, but single documents of a bulk only without ``raise_on_error``: with it the exception
comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from opensearchpy import helpers
from opensearchpy.helpers import BulkIndexError

from chaos.load.client import Helper, Listener


class Bulk(Helper):
    name = "helpers.bulk"
    says = "one call of opensearch-py's helpers.bulk a request, which tells the caller a count and what failed"

    def send(self, client: Any, documents: Iterable[int], options: Mapping[str, Any], listener: Listener) -> None:
        try:
            stored, failed = helpers.bulk(client, documents, **options)
        except BulkIndexError as error:
            for item in error.errors:
                listener.told(False, item)
            raise
        for item in failed:
            listener.told(False, item)
        listener.counted(stored)


HELPER = Bulk()
