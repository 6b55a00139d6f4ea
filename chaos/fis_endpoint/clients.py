"""Clients of AWS's services that can reach nothing but this machine, whatever the environment says."""

from __future__ import annotations

import ipaddress
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from chaos.aws.clients import deaf_session
from chaos.base.errors import InvalidInput

ACCOUNT = "123456789012"
"""The account that moto has by default; no real one."""
REGION = "eu-central-1"
READ_SECONDS = 60.0


def is_loopback(url: str) -> bool:
    """Whether a URL leads to a loopback address, given as a number; names can be resolved to anything."""
    try:
        return ipaddress.ip_address(urlsplit(url).hostname or "").is_loopback
    except ValueError:
        return False


@cache
def client(service: str, url: str, region: str = REGION) -> Any:
    """A botocore client of a service at ``url``: thread-safe, one try for each call, no proxies, no profile.

    Raises InvalidInput when the URL does not lead to a loopback address, MissingPrerequisite without botocore.
    """
    if not is_loopback(url):
        raise InvalidInput(f"{url} is not on this machine", remedy="give the URL of a server on 127.0.0.1")
    session = deaf_session(region)
    from botocore.config import Config

    config = Config(
        connect_timeout=5.0,
        read_timeout=READ_SECONDS,
        retries={"total_max_attempts": 1},
        proxies={},
        use_fips_endpoint=False,
        use_dualstack_endpoint=False,
    )
    return session.client(service, endpoint_url=url, config=config)


def error_code(error: Exception) -> str | None:
    """The code of an AWS error answer (``InvalidInstanceID.NotFound``), None for any other exception."""
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code")) if isinstance(response, dict) else None
