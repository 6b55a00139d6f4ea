"""What an S3 store of a lab needs on this machine: a plugin of OpenSearch, and moto, which answers as S3 does."""

from __future__ import annotations

import importlib.util

PLUGIN = "repository-s3"
REMEDY = "pip install 'opensearch-chaos[s3]', or use a store of kind fs"


def lacking() -> str | None:
    """Why no store can be started with this Python, in words; None when one can. moto's own needs come with Locust."""
    return None if importlib.util.find_spec("moto") is not None else "the Python package moto is missing"
