"""What asking other people's servers takes: an address, whom to trust, a bearer token; and what their answers say.

For guards, alerts, calendars, tickets and announcements alike.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel

from chaos.base.access import Access, secret
from chaos.base.addresses import PORTS
from chaos.base.errors import InvalidInput
from chaos.definitions.gameday import GameDay, is_reference

# ---- whom -----------------------------------------------------------------------------------------------------------


def address_of(day: GameDay, given: str) -> str:
    """An address, or the one that a reference stands for. Raises InvalidInput, which never holds that one."""
    if not is_reference(given):
        return given
    address = secret(str(day.resolved(given))).strip()
    if not address or not address.isascii() or not address.isprintable():
        raise InvalidInput(f"{given} is empty, or is not one line of ASCII", remedy="put an address there")
    parts_of(address)
    return address


def parts_of(address: str) -> SplitResult:
    """Raises InvalidInput, which never holds the address."""
    remedy = "expected http(s)://HOST/PATH"
    if not address.isascii() or not address.isprintable() or " " in address:
        raise InvalidInput(f"its address holds characters that no address has: {remedy}")
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        raise InvalidInput(f"its address cannot be read: {remedy}") from None
    if parts.scheme not in PORTS or not parts.hostname or "@" in parts.netloc:
        raise InvalidInput(f"what stands for its address is none: {remedy}, without a user")
    return parts


def access_of(day: GameDay, address: str, ca: str | None) -> Access:
    """How an address is spoken to; ``ca`` is a file beside the day's own. Raises InvalidInput where that cannot be used
    or the address is not spoken to over TLS."""
    try:
        file = None if ca is None else str(day.beside(ca))
        access = Access(tls=urlsplit(address).scheme == "https", ca=file)
        _ = access.context
    except (ValueError, TypeError, RuntimeError):  # a byte that no path has, a home of nobody
        raise InvalidInput(f"cannot use {ca!r} as CA certificates: it names no file", remedy="name a file") from None
    return access


def wrong_authorities(day: GameDay) -> list[str]:
    """Which files of certificate authorities (``ca``) cannot be used, a sentence each."""
    found = []
    for where, ca in _authorities(day.written):
        try:
            access_of(day, "https://", ca)
        except InvalidInput as error:
            found.append(f"{where}: {error.message}")
    return found


def _authorities(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Every ``ca`` of a file, with its place in it."""
    if isinstance(value, BaseModel):
        value = {name: getattr(value, name) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        for name, each in value.items():
            place = f"{where}.{name}" if where else str(name)
            if name == "ca" and isinstance(each, str):
                yield place, each
            else:
                yield from _authorities(each, place)
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            yield from _authorities(each, f"{where}[{number}]")


# ---- as whom --------------------------------------------------------------------------------------------------------


def token_of(reference: str) -> str:
    """A bearer token. Raises InvalidInput, which never holds it."""
    token = secret(reference).strip()
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise InvalidInput(
            f"what stands in {reference} is no bearer token: it is empty, or has a space or a line end in it",
            remedy="put the token there, and nothing else",
        )
    return token


def bearer(reference: str | None) -> dict[str, str]:
    """The header of a bearer token. Raises InvalidInput, which never holds it."""
    return {} if reference is None else {"authorization": f"Bearer {token_of(reference)}"}


# ---- what is answered -----------------------------------------------------------------------------------------------


def pointed(document: Any, pointer: str) -> Any:
    """What a JSON pointer (RFC 6901) names. Raises LookupError where there is nothing, or it is no pointer."""
    if pointer and not pointer.startswith("/"):
        raise LookupError(pointer)
    for part in pointer.split("/")[1:]:
        if re.search(r"~(?![01])", part):
            raise LookupError(pointer)
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict):
            document = document[key]
        elif isinstance(document, list) and re.fullmatch(r"0|[1-9][0-9]{0,8}", key):
            document = document[int(key)]
        else:
            raise LookupError(pointer)
    return document


def number_of(found: Any) -> float | None:
    """A finite number; None for all else: texts, true, NaN, what no float holds."""
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    try:
        value = float(found)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def moment_of(found: Any) -> datetime | None:
    """The moment, in UTC, of epoch seconds, or of a text of ISO 8601 with its offset; None for all else."""
    try:
        if isinstance(found, str):
            said = datetime.fromisoformat(found)
            return said.astimezone(UTC) if said.tzinfo is not None else None
        seconds = number_of(found)
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
