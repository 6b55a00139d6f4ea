"""What one gate says: it lets a game day pass, or refuses it in one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Gate:
    """``name``: which gate. ``says``: what it saw. ``remedy``: what to do about a refusal."""

    name: str
    ok: bool
    says: str
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "ok": self.ok, "says": self.says, "remedy": self.remedy}

    def __str__(self) -> str:
        return f"{self.name}: {self.says}" + (f" ({self.remedy})" if self.remedy and not self.ok else "")


def refused(gates: Iterable[Gate]) -> list[Gate]:
    return [gate for gate in gates if not gate.ok]
