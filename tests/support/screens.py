"""What the first line of a report must say, for the tests that make runs of many kinds."""

from __future__ import annotations

import html
import re
from typing import Any

from chaos.checks import plainly
from chaos.checks.reasons import deciding


def flat(words: str) -> str:
    """Words alone: no markup of Markdown, no kind of space, no zero-width signs."""
    return re.sub(r"\s+", " ", re.sub(r"[\\\u200b]", "", html.unescape(words))).strip()


def in_headline(findings: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Assert that what decides is in the headline, in plain words; returns the reason, and the words."""
    decides = deciding(findings)
    assert decides is not None
    says = flat(plainly.reason(decides, findings["findings"], findings["tables"]))
    assert len(says) > 10 and says[1:-1].lower() in flat(findings["headline"]).lower()
    return decides, says
