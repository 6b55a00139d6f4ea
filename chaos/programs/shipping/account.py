"""What became of the lines that were shipped: sent, found once, found twice, given up. Pure, but for its file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from chaos.base import text
from chaos.base.paths import write_json
from chaos.programs.checking import Unknown

FILE = "account.json"


@dataclass(frozen=True)
class Account:
    """``sent``: lines that the shipper took; ``found``: those that are in the index; ``again``: documents beyond the
    first of a line; ``gave_up``: documents that the shipper wrote into its error file; ``drained``: whether it had
    nothing more to send, nor to send again, when it had to end."""

    index: str
    settings: str
    sent: int
    found: int
    again: int
    gave_up: int
    drained: bool

    @classmethod
    def of(cls, index: str, settings: str, sent: int, documents: Iterable[int], gave_up: int, drained: bool) -> Account:
        """``documents``: the line of each document of the index."""
        lines = Counter(line for line in documents if 0 <= line < sent)
        return cls(index, settings, sent, len(lines), lines.total() - len(lines), gave_up, drained)

    @property
    def lost(self) -> int:
        return self.sent - self.found

    def write(self, folder: Path) -> None:
        write_json(folder / FILE, asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Account:
        """Raises :class:`Unknown` where there is none."""
        try:
            return cls(**json.loads((folder / FILE).read_text()))
        except (OSError, ValueError, TypeError) as error:
            raise Unknown("the shipper left no account: it did not come to its end") from error

    def judged(self, least: int) -> str | None:
        """What is wrong; None: every line is there, once. ``least``: so many lines must have been sent to say that.

        Raises :class:`Unknown` where too few were, or where the shipper still had some.
        """
        if self.sent < least:
            raise Unknown(f"{text.plural(self.sent, 'line')} were shipped, and {least} are needed to say anything")
        if self.lost and not self.drained:
            raise Unknown(f"{self.lost} of {self.sent} lines are not there, and rsyslog was still sending at its end")
        if self.lost:
            told = f"{self.gave_up} in its error file" if self.gave_up else "none in its error file"
            return f"rsyslog lost {self.lost} of {self.sent} lines: {self.found} found, {told}"
        return f"{self.again} documents are there a second time" if self.again else None

    def says(self) -> str:
        """In one line."""
        return f"{self.sent} lines shipped, {self.found} found, {self.again} twice, {self.gave_up} given up"
