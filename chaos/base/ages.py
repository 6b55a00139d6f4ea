"""How old a reading is by the clock of its source, and whether it speaks of now.

A source's clock and ours may differ by :data:`CLOCKS_SECONDS`; what differs by more is a reading of another time, or
one of two clocks is wrong. Either way nothing is known of now.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

CLOCKS_SECONDS = 60.0
"""By how much two clocks may differ."""


def untimely(at: float, now: float, oldest: float = CLOCKS_SECONDS) -> str | None:
    """Why a reading of the moment ``at`` says nothing of ``now``, both in epoch seconds; None: it does.

    ``oldest``: seconds that it may lie back. It follows "it was measured" and the like.
    """
    if at - now > CLOCKS_SECONDS:
        return f"{at - now:.0f} s from now"
    if now - at > oldest:
        return f"{now - at:.0f} s ago"
    return None


def answered(
    headers: Mapping[str, str], now: float, oldest: float = CLOCKS_SECONDS, *, must: bool = True
) -> str | None:
    """Why an HTTP answer is not known to be of ``now``, by its ``Date`` and ``Age`` (RFC 9110, RFC 9111); None: it is.

    ``oldest``: seconds that it may have lain in a cache. ``must``: whether one without Date is none.
    """
    given = {name.lower(): value for name, value in headers.items()}
    if "age" in given:
        if not re.fullmatch(r"[0-9]{1,9}", given["age"].strip(), re.ASCII):
            return "its Age is no number of seconds"
        if int(given["age"]) > oldest:
            return f"a cache answered with what is {int(given['age'])} s old"
    if "date" not in given:
        return "it does not say when it answered: there is no Date in its headers" if must else None
    try:
        said = parsedate_to_datetime(given["date"])
        at = (said if said.tzinfo is not None else said.replace(tzinfo=UTC)).timestamp()
    except (ValueError, IndexError, OverflowError, TypeError):
        return "its Date is no date"
    when = untimely(at, now, max(oldest, CLOCKS_SECONDS))
    return None if when is None else f"it says that it answered {when}"
