"""Published limits that the audit and the report hold a cluster against, and grades of values against them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """Best first. ``info`` is worth knowing and no risk; ``warn`` is a risk that does not fail an audit."""

    OK = "ok"
    INFO = "info"
    WARN = "warn"
    UNKNOWN = "unknown"
    FAIL = "fail"

    @property
    def badness(self) -> int:
        return list(Status).index(self)


@dataclass(frozen=True)
class Source:
    """Where a rule is published."""

    title: str
    url: str


AVAILABILITY = Source(
    "AWS Big Data Blog: Configure Amazon OpenSearch Service for high availability",
    "https://aws.amazon.com/blogs/big-data/configure-amazon-opensearch-service-for-high-availability/",
)
CPU_OK, CPU_MOST = 80.0, 90.0
"""Percent of a survivor's processors after the loss of a zone."""


def grade(value: float, warn: float, fail: float) -> Status:
    """Ok up to and with ``warn``, a warning up to and with ``fail``."""
    return Status.OK if value <= warn else Status.WARN if value <= fail else Status.FAIL
