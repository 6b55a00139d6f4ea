"""What a hunt drew and what became of it, a line each: by it a hunt goes on where it stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Journal:
    """Lines of JSON, written at once; a draw that was cut off has none, and is made again."""

    def __init__(self, file: Path) -> None:
        self.file = file
        text = file.read_text() if file.exists() else ""
        self.lines: list[dict[str, Any]] = [
            json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("}\n")
        ]
        self._torn = bool(text) and not text.endswith("\n")

    def write(self, line: dict[str, Any]) -> None:
        self.lines.append(line)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with open(self.file, "a") as file:
            if self._torn:
                file.write("\n")
                self._torn = False
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
