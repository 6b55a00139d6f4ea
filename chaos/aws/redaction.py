"""What AWS answered, with every name in it replaced by one that says nothing: for evidence that leaves its owner.

Within one :class:`Redaction` the same name is always replaced by the same one, so that it can still be told which
answers are about the same thing.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
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

_ARN = re.compile(r"arn:(?P<partition>aws[a-z-]*):(?P<service>[a-z0-9-]*):(?P<region>[a-z0-9-]*):"
                  r"(?P<account>[0-9A-Za-z-]*):(?P<rest>[^\s\"',;)\]}]+)")  # fmt: skip
_EC2_ID = re.compile(
    rf"\b({'|'.join(sorted((k for k in KINDS if k.islower()), key=len, reverse=True))})-[0-9a-f]{{8,}}\b"
)
_FIS_ID = re.compile(r"\b(EXP|EXT)[A-Za-z0-9]{8,}\b")
_ACCOUNT = re.compile(r"(?<![0-9A-Za-z])[0-9]{12}(?![0-9A-Za-z])")
_UUID = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
_MAIL = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b")
_HOST = re.compile(r"\b(?:[a-zA-Z0-9-]+\.)+(?:amazonaws\.com(?:\.cn)?|compute\.internal|ec2\.internal|aws)\b")
_IPV4 = re.compile(r"(?<![\w.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![\w.]*\d)")
_IPV6 = re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?![\w:])")
_KEY = re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA|ANPA|AGPA)[A-Z0-9]{8,}\b|[A-Za-z0-9+/=_-]{40,}")
_OF_AWS = re.compile(r"document/AWS|alarm:AWS")
OURS = re.compile(r"<[a-z]+-[0-9]+>")
"""How a replaced name looks, such as <instance-1>."""


class Redaction:
    """``names``: words that must not leave either, such as those of nodes, hosts, users; each whatever surrounds it,
    unless it is a part of a longer word."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._known: dict[tuple[str, str], str] = {}
        words = sorted({name for name in names if name}, key=lambda word: (-len(word), word))
        every = "|".join(map(re.escape, words))
        self._names = re.compile(rf"(?<![A-Za-z0-9])(?:{every})(?![A-Za-z0-9])") if words else None

    def __call__(self, value: Any) -> Any:
        """The same, in text, lists and mappings, with their keys."""
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
        if self._names is not None:
            text = self._outside(self._names, "name", text)
        text = _UUID.sub(lambda found: self._one("id", found[0].lower()), text)
        text = _EC2_ID.sub(lambda found: self._one(KINDS[found[1]], found[0]), text)
        text = _FIS_ID.sub(lambda found: self._one(KINDS[found[1]], found[0]), text)
        for kind, pattern in (
            ("mail", _MAIL),
            ("account", _ACCOUNT),
            ("host", _HOST),
            ("address", _IPV4),
            ("secret", _KEY),
        ):
            text = self._outside(pattern, kind, text)
        return _IPV6.sub(self._address, text)

    def _address(self, found: re.Match[str]) -> str:
        try:  # what looks so may be a time of day
            return self._one("address", str(ipaddress.IPv6Address(found[0])))
        except ValueError:
            return found[0]

    def _outside(self, pattern: re.Pattern[str], kind: str, text: str) -> str:
        """Replaced, but for what is a replacement already."""
        parts, at = [], 0
        for ours in OURS.finditer(text):
            parts += [pattern.sub(lambda found: self._one(kind, found[0]), text[at : ours.start()]), ours[0]]
            at = ours.end()
        return "".join([*parts, pattern.sub(lambda found: self._one(kind, found[0]), text[at:])])

    def _arn(self, found: re.Match[str]) -> str:
        """Partition, service, region and the type of the resource stay."""
        rest = found["rest"]
        account = self._one("account", found["account"]) if found["account"].isdigit() else found["account"]
        if not _OF_AWS.match(rest):
            kind, mark, name = re.fullmatch(r"([a-z-]*)([:/]?)(.*)", rest, re.DOTALL).groups()  # type: ignore[union-attr]
            ids = [pattern.fullmatch(name) for pattern in (_EC2_ID, _FIS_ID)]
            of_ec2 = next((each for each in ids if each is not None), None)
            if not mark:
                kind, name = "", rest
            shown = self._one(KINDS[of_ec2[1]], name) if of_ec2 else self._one("resource", name) if name else ""
            rest = f"{kind}{mark}{shown}"
        return f"arn:{found['partition']}:{found['service']}:{found['region']}:{account}:{rest}"
