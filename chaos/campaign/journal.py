"""What a hunt drew and what became of it, a line each: by it a hunt goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import chaos
from chaos.base.errors import InvalidInput
from chaos.definitions import Topology
from chaos.history.format import RULES

DIGITS = 16


def plan_of(over: str, topology: Topology, **drawing: Any) -> str:
    """The first hexadecimal digits of a SHA-256 over what decides what a draw is and what becomes of it: the topology
    with its version of OpenSearch, this suite's version and rules, and what is drawn from (JSON-able)."""
    lab = topology.to_json() | {"file": None, "description": None}
    decides = {"over": over, "topology": lab, "tool": [chaos.__version__, RULES], **drawing}
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:DIGITS]


class Journal:
    """Lines of JSON, written at once; a draw that was cut off has none, and is made again."""

    def __init__(self, file: Path, plan: str | None = None) -> None:
        """``plan``: what the hunt draws (:func:`plan_of`), which each of its lines says; None: it is read alone.

        Raises InvalidInput for a journal with lines of another plan, or that do not say theirs.
        """
        self.file, self._plan = file, plan
        text = file.read_text() if file.exists() else ""
        self.lines: list[dict[str, Any]] = [
            json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("}\n")
        ]
        self._torn = bool(text) and not text.endswith("\n")
        plans = {line.get("plan") for line in self.lines} - {plan}
        if plan is not None and plans:
            says = "does not say what its draws are of" if plans == {None} else "is of another hunt"
            raise InvalidInput(
                f"the journal {file} {says}: a hunt goes on with its own topology, version of OpenSearch and of this "
                "suite, and options of drawing alone",
                remedy="name another file with --journal",
            )

    def write(self, line: dict[str, Any]) -> None:
        if self._plan is not None:
            line = {**line, "plan": self._plan}
        self.lines.append(line)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with open(self.file, "a") as file:
            if self._torn:
                file.write("\n")
                self._torn = False
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
