"""What an S3 store of a lab needs on this machine: a plugin of OpenSearch, and moto, which answers as S3 does."""

from __future__ import annotations

from chaos.base.extras import S3

PLUGIN = "repository-s3"
REMEDY = f"{S3.install}, or use a store of kind fs"


def lacking() -> str | None:
    """Why no store can be started with this Python, in words; None when one can. moto's own needs come with Locust."""
    return None if not S3.missing() else "the Python package moto is missing"
