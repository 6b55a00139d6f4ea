"""Numbers and foreign names as people read them. Nothing here rounds a value over the target that it missed."""

from __future__ import annotations

import math
import re
from typing import Any

NO_VALUE = "no data"


def percent(share: float) -> str:
    """A share 0..1 as percent, cut (never rounded up): 0.99896 is ``99.89 %``, only 1 is ``100 %``."""
    if share >= 1:
        return "100 %"
    if share <= 0:
        return "0 %"
    digits = 1 if 0.01 <= share < 0.99 else 2 if share < 0.9999 else 4
    scale = 10 ** (digits + 2)
    cut = math.floor(share * scale + 1e-9) / scale
    if cut == 0:
        return f"< {1 / scale:.{digits}%}".replace("%", " %")
    return f"{cut * 100:.{digits}f} %"


def seconds(value: float) -> str:
    """A duration in seconds: ``0 s``, ``87 ms``, ``3.4 s``, ``62 s``, ``12 min 5 s``."""
    if value == 0:
        return "0 s"
    if abs(value) < 0.9995:
        milli = value * 1000
        return f"{milli:.0f} ms" if abs(milli) >= 10 else f"{milli:.2g} ms"
    if abs(value) < 9.95:
        return f"{value:.1f} s".replace(".0 s", " s")
    if abs(value) < 600:
        return f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def count(value: float) -> str:
    """A count with no-break spaces between thousands: ``12 345``."""
    return f"{value:,.0f}".replace(",", "\u00a0")


def number(value: float) -> str:
    """A plain number, four digits of it: ``0.0123``, ``17``, ``165 900``, ``1.2e+12``."""
    short = f"{value:.4g}"
    return count(float(short)) if "e+" in short and abs(value) < 1e12 else short


def ratio(value: float) -> str:
    """A share of which nobody knows whether more is better, as percent, four digits of it: ``1.234 %``, ``150 %``."""
    return f"{value * 100:.4g} %"


def plural(number: int, one: str, many: str | None = None) -> str:
    """``1 write``, ``3 writes``."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def listed(words: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""


def clip(text: str, limit: int = 240) -> str:
    """At most ``limit`` characters; names in a definition may be any length."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


_COMMANDS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # of terminals
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # which way is read: what is shown need not be what is there
    "\u180e\u200b\u2028\u2029\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # not seen
    "\ud800-\udfff]"  # half of a letter, which no stream takes
)


def clean(given: str) -> str:
    """Text in which others may have had a say, as it may be shown: letters that command a terminal, a reader's eye or a
    stream are ``?``. Line feeds, tabs and what joins letters of a script stay.

    Everything that is printed or drawn passes here: terminals (:mod:`.console`), errors (:class:`.errors.ChaosError`),
    logs, reports. What is stored is what was said.
    """
    return given if given.isprintable() else _COMMANDS.sub("?", given.replace("\r\n", "\n"))


def printable(value: Any) -> str:
    """A name that somebody else chose, without what would move a terminal's cursor."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(value))


def one_line(text: str) -> str:
    """What somebody else said, in one line of at most 200 characters."""
    return printable(" ".join(text.split()))[:200]
