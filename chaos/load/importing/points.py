"""Points on earth, as documents and searches write them, and the area in which they lie."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Point = tuple[float, float]
"""Degrees north, and degrees east."""


def point(value: Any) -> Point | None:
    """The point of an object with ``lat`` and ``lon``, of a text ``lat,lon`` or of a list ``[lon, lat]``; None for a
    geohash, for WKT and for what is no point."""
    lat: Any
    lon: Any
    if isinstance(value, Mapping):
        lat, lon = value.get("lat"), value.get("lon")
    elif isinstance(value, list):
        lon, lat = value[:2] if len(value) in (2, 3) else (None, None)
    else:
        lat, _, lon = value.partition(",") if isinstance(value, str) else (None, "", None)
    try:
        found = float(lat), float(lon)
    except (TypeError, ValueError):
        return None
    return found if abs(found[0]) <= 90 and abs(found[1]) <= 180 else None


def corners(said: Any) -> list[Point]:
    """Points between which the box or the polygon of a query lies; empty where they cannot be read, and for a box
    across the date line."""
    if not isinstance(said, Mapping):
        return []
    if isinstance(polygon := said.get("points"), list):
        found = [point(each) for each in polygon]
    elif {"top", "left", "bottom", "right"} <= set(said):
        found = [point([said["left"], said["bottom"]]), point([said["right"], said["top"]])]
    elif "top_left" in said:
        found = [point(said["top_left"]), point(said.get("bottom_right"))]
    else:
        found = [point(said.get("bottom_left")), point(said.get("top_right"))]
    known = [each for each in found if each is not None]
    across = "points" not in said and len(known) == 2 and known[0][1] > known[1][1]
    return known if len(known) == len(found) and not across else []


def area(points: Iterable[Point]) -> list[float]:
    """South, west, north and east of them, to a hundredth of a degree; empty where there is none."""
    known = list(points)
    if not known:
        return []
    lats, lons = zip(*known, strict=True)
    return [_low(min(lats)), _low(min(lons)), _high(max(lats)), _high(max(lons))]


def of_sample(values: Iterable[Any], lats: Iterable[Any], lons: Iterable[Any]) -> Iterator[Point]:
    """The points of a sample. ``values``: texts, and the numbers of lists one after the other; ``lats`` and ``lons``:
    those of objects. Nothing where one of them cannot be read: then no area is known."""
    given: list[Any] = [{"lat": lat, "lon": lon} for lat, lon in zip(lats, lons, strict=False)]
    values = list(values)
    given += [each for each in values if isinstance(each, str)]
    numbers = [each for each in values if not isinstance(each, str)]
    given += [list(pair) for pair in zip(numbers[::2], numbers[1::2], strict=False)]
    found = [point(each) for each in given]
    return iter([] if None in found else [each for each in found if each is not None])


def _low(degrees: float) -> float:
    return math.floor(degrees * 100) / 100


def _high(degrees: float) -> float:
    return math.ceil(degrees * 100) / 100
