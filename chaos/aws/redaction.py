"""What AWS said, with every id, account, ARN and key in it replaced by a name that says nothing.

The same one is always replaced by the same name, so that it can still be told which answers are about the same thing.
Names of hosts, people and nodes, and addresses, are no names of AWS's: :mod:`chaos.report.redact` replaces those.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

KINDS: Mapping[str, str] = {
    "i": "instance",
    "vol": "volume",
    "subnet": "subnet",
    "acl": "acl",
    "aclassoc": "association",
    "vpc": "vpc",
    "eni": "interface",
    "ami": "image",
    "sg": "group",
    "snap": "snapshot",
    "EXP": "experiment",
    "EXT": "template",
}
"""What an id of EC2 or of FIS begins with → what it is of."""

_ARN = re.compile(r"arn:(aws[a-z-]*):([a-z0-9-]*):([a-z0-9-]*):([0-9A-Za-z-]*):([^\s\"',;)\]}]+)")
_ID = re.compile(r"\b(?:(i|vol|subnet|aclassoc|acl|vpc|eni|ami|sg|snap)-[0-9a-f]{8,}|(EXP|EXT)[A-Za-z0-9]{8,})\b")
_UUID = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
_ACCOUNT = re.compile(r"(?<![0-9A-Za-z])[0-9]{12}(?![0-9A-Za-z])")
_KEY = re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA|ANPA|AGPA)[A-Z0-9]{8,}\b|[A-Za-z0-9+/=_-]{40,}")
_OF_AWS = re.compile(r"document/AWS|alarm:AWS")
_RESOURCE = re.compile(r"(?:([a-z-]+)([:/]))?(.*)", re.DOTALL)
OURS = re.compile(r"<[a-z]+-[0-9]+>")
"""How a replaced name looks, such as <instance-1>."""


class Redaction:
    """Replaces in text, and in lists and mappings with their keys."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    def __call__(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return {self._text(str(key)): self(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self(each) for each in value]
        return value

    def _one(self, kind: str, name: str) -> str:
        of_it = sum(known == kind for known, _ in self._known)
        return self._known.setdefault((kind, name), f"<{kind}-{of_it + 1}>")

    def _text(self, text: str) -> str:
        text = _ARN.sub(self._arn, text)
        text = _UUID.sub(lambda found: self._one("id", found[0].lower()), text)
        text = _ID.sub(self._id, text)
        for kind, pattern in (("account", _ACCOUNT), ("secret", _KEY)):
            text = self._outside(pattern, kind, text)
        return text

    def _id(self, found: re.Match[str]) -> str:
        return self._one(KINDS[found[1] or found[2]], found[0])

    def _outside(self, pattern: re.Pattern[str], kind: str, text: str) -> str:
        """Replaced, but for what is a replacement already."""
        parts, at = [], 0
        for ours in OURS.finditer(text):
            parts += [pattern.sub(lambda found: self._one(kind, found[0]), text[at : ours.start()]), ours[0]]
            at = ours.end()
        return "".join([*parts, pattern.sub(lambda found: self._one(kind, found[0]), text[at:])])

    def _arn(self, found: re.Match[str]) -> str:
        """Partition, service, region and the type of the resource stay."""
        partition, service, region, account, rest = found.groups()
        if account.isdigit():
            account = self._one("account", account)
        if not _OF_AWS.match(rest):
            parts = _RESOURCE.fullmatch(rest)
            assert parts is not None
            kind, mark, name = parts.groups(default="")
            id = _ID.fullmatch(name)
            rest = f"{kind}{mark}{self._id(id) if id is not None else self._one('resource', name)}"
        return f"arn:{partition}:{service}:{region}:{account}:{rest}"
