"""What a template of FIS holds, spelled one way: to compare what was made with what was asked for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from chaos.aws.catalogue import seconds
from chaos.base.errors import InvalidInput

SETS = frozenset({"resourceArns", "startAfter"})
"""Lists whose order means nothing."""
PARTS = ("targets", "actions")
NOTHING: tuple[Any, ...] = (None, "", [], {})


def digest(template: Mapping[str, Any]) -> str:
    """Of its targets and actions: what it would do to whom."""
    held = {part: _spelled(template.get(part) or {}) for part in PARTS}
    return hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()


def unlike(asked: Mapping[str, Any], made: Mapping[str, Any]) -> list[str]:
    """In which members a template is not what was asked for, in words; more than that it has nothing to do or to hit.

    Tags and options that were not asked for are AWS's own.
    """
    found = []
    for part in PARTS:
        wanted, has = (_spelled(each.get(part) or {}) for each in (asked, made))
        found += [f"{part}.{name}" for name in sorted({*wanted, *has}) if wanted.get(name) != has.get(name)]
    if asked["roleArn"] != made.get("roleArn"):
        found.append("roleArn")
    if _conditions(asked) != _conditions(made):
        found.append("stopConditions")
    for part in ("tags", "experimentOptions"):
        has = made.get(part) or {}
        found += [f"{part}.{name}" for name, value in (asked.get(part) or {}).items() if has.get(name) != value]
    return found


def _conditions(template: Mapping[str, Any]) -> list[str]:
    return sorted(json.dumps(_spelled(each), sort_keys=True) for each in template.get("stopConditions") or [])


def _spelled(value: Any, name: str = "") -> Any:
    """Without what is empty, lists that are sets in order, durations in seconds, the parameters of a document read."""
    if isinstance(value, Mapping):
        return {key: _spelled(each, key) for key, each in value.items() if each not in NOTHING}
    if isinstance(value, list):
        return sorted(value) if name in SETS else [_spelled(each) for each in value]
    if name == "documentParameters":
        try:
            return json.loads(value)
        except ValueError:
            return value
    if isinstance(value, str) and value.startswith("P"):
        try:
            return seconds(value)
        except InvalidInput:
            return value
    return value
