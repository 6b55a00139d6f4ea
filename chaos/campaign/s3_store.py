"""A store in a bucket of S3, or of a server that speaks its protocol.

A create is a PutObject with ``If-None-Match: *``. Servers that do not know the header ignore it and overwrite: the
proof of :mod:`chaos.campaign.stores` finds them. botocore sends a create again whose answer was lost, and the second is
refused because of the first: so each bears a token, and one that was refused is ours where the object bears it.

Credentials, region and endpoint are boto3's own (``AWS_PROFILE``, ``AWS_ENDPOINT_URL_S3`` …). boto3 is the extra
``opensearch-chaos[aws]``.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chaos.base.errors import InvalidInput, MissingPrerequisite
from chaos.base.extras import AWS
from chaos.campaign.stores import Absent, StoreError, safe

CONNECT_TIMEOUT, READ_TIMEOUT, ATTEMPTS = 10, 60, 5
"""Seconds, seconds, and tries of each request in botocore's standard mode."""
CONFLICTS = 5
"""A create that S3 refuses because another is under way (409) is asked again so many times: the other may fail."""
SCHEME = "s3://"
CREATOR = "creator"
"""Metadata of an object that was created: a token of that create alone."""


class S3Store:
    """Raises StoreError as :class:`.stores.Store` says. ``client``: boto3's, of S3; None makes one."""

    def __init__(self, address: str, client: Any = None) -> None:
        """``address``: ``s3://BUCKET`` or ``s3://BUCKET/PREFIX``. Raises InvalidInput."""
        found = re.fullmatch(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*))?", address)
        if found is None:
            raise InvalidInput(f"{address} is no address of a store: expected s3://BUCKET/PREFIX")
        self.address = address
        self._bucket = found[1]
        prefix = (found[2] or "").strip("/")
        self._prefix = f"{safe(prefix)}/" if prefix else ""
        self._client = _client() if client is None else client

    def create(self, name: str, data: bytes) -> bool:
        where = {"Bucket": self._bucket, "Key": self._key(name)}
        mark = {CREATOR: secrets.token_hex(16)}
        for _ in range(CONFLICTS):
            with self._told(f"write {name}", creates=True) as refused:
                self._client.put_object(**where, Body=data, IfNoneMatch="*", Metadata=mark)
                return True
            if refused == ["412"]:
                return self._bears(name, mark)
        raise StoreError(f"store {self.address}: cannot write {name}: others were writing it at the same time")

    def _bears(self, name: str, mark: dict[str, str]) -> bool:
        """Whether the stored object bears this mark. Servers may change the case of names of metadata."""
        try:
            with self._told(f"read {name}"):
                found = self._client.head_object(Bucket=self._bucket, Key=self._key(name)).get("Metadata") or {}
        except Absent:  # the object existed and was deleted since: it is not ours
            return False
        return {str(key).lower(): value for key, value in found.items()}.get(CREATOR) == mark[CREATOR]

    def put(self, name: str, file: Path) -> None:
        with self._told(f"write {name}"), open(file, "rb") as body:
            self._client.put_object(Bucket=self._bucket, Key=self._key(name), Body=body)

    def read(self, name: str) -> bytes:
        with self._told(f"read {name}"):
            answer = self._client.get_object(Bucket=self._bucket, Key=self._key(name))
            return bytes(answer["Body"].read())
        raise AssertionError  # _told raises or lets pass

    def fetch(self, name: str, file: Path) -> None:
        with self._told(f"read {name}"):
            self._client.download_file(self._bucket, self._key(name), str(file))

    def names(self, prefix: str) -> Iterator[str]:
        found: list[str] = []
        with self._told(f"list {prefix}"):
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix + prefix):
                found += [item["Key"].removeprefix(self._prefix) for item in page.get("Contents") or []]
        yield from sorted(found)

    def delete(self, name: str) -> None:
        with self._told(f"delete {name}"):
            self._client.delete_object(Bucket=self._bucket, Key=self._key(name))

    def local(self, name: str) -> Path | None:
        return None

    def _key(self, name: str) -> str:
        return self._prefix + safe(name)

    @contextmanager
    def _told(self, what: str, *, creates: bool = False) -> Iterator[list[str]]:
        """Yields a list that has the HTTP status of a create that was refused: "412" or "409". Of anything else these
        are errors: an upload that was refused has not been made."""
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError

        refused: list[str] = []
        try:
            yield refused
        except ClientError as error:
            status = str((error.response.get("ResponseMetadata") or {}).get("HTTPStatusCode"))
            code = (error.response.get("Error") or {}).get("Code")
            if creates and status in ("412", "409"):
                refused.append(status)
                return
            kind = Absent if status == "404" and code != "NoSuchBucket" else StoreError
            raise kind(f"store {self.address}: cannot {what}: {code} ({status})") from error
        except (BotoCoreError, Boto3Error, OSError) as error:
            raise StoreError(f"store {self.address}: cannot {what}: {type(error).__name__}: {error}") from error


def _client() -> Any:
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise MissingPrerequisite("a store in S3 needs boto3, which is not installed", remedy=AWS.install) from None
    config = Config(
        connect_timeout=CONNECT_TIMEOUT,
        read_timeout=READ_TIMEOUT,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        user_agent_extra="opensearch-chaos",
    )
    try:
        return boto3.client("s3", config=config)
    except Exception as error:  # botocore's own: no region, a profile that does not exist
        raise InvalidInput(f"no client for S3 can be made: {type(error).__name__}: {error}") from error
