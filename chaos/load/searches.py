"""Several searches in one request (``_msearch``), made from the number of its arrival.

Each is one of the workload's own mix, goes to the same index, and is judged as it would be alone
(:mod:`chaos.load.right`). HTTP 200 says only that the request was read: what became of each search stands in
``responses``, one for each in their order, with a status of its own.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode

from chaos.load.workload import Request, Requests

FILTER = "filter_path"
_OF_EACH = ("status", "error")
"""What is asked of each answer beside what its search asks for."""


class Searches:
    """Makes the requests of one operation. ``number``: searches in each."""

    def __init__(self, requests: Requests, number: int) -> None:
        self._number = number
        self._one: Any = getattr(requests, "search", None)
        self._requests = requests

    def of(self, k: int) -> tuple[Request, tuple[Request, ...]]:
        """The request of arrival ``k``, and the searches in it."""
        parts = tuple(self._search(k, place) for place in range(self._number))
        path, _, query = parts[0].path.partition("?")
        named = dict(parse_qsl(query))
        if FILTER in named:
            fields = [*named[FILTER].split(","), *_OF_EACH]
            named[FILTER] = ",".join(f"responses.{field}" for field in fields)
        together = f"{path.removesuffix('/_search')}/_msearch"
        lines = "".join(f"{{}}\n{part.body or '{}'}\n" for part in parts)
        return Request("POST", f"{together}?{urlencode(named, safe=',*')}" if named else together, lines), parts

    def _search(self, k: int, place: int) -> Request:
        """Requests that know no places are asked for so many arrivals more."""
        found: Request = (
            self._one(k, place) if self._one is not None else self._requests.of("search", k * self._number + place)
        )
        return found
