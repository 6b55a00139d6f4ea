"""The table of docs/effects.md: what each fault did, as measured by the conformance suite in each kind of lab.

``OPENSEARCH_CHAOS_EFFECTS=FILE pytest tests/cluster/test_conformance.py tests/docker/test_docker_conformance.py`` adds
a line to FILE for every example that was proven; ``python tests/support/effects.py FILE > docs/effects.md`` makes the
page.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HEAD = """# The same fault in both labs

What the conformance suite measured, example by example, while the fault was in effect.
That nothing else was touched, and that it was wholly gone afterwards, is part of the same tests.
One measurement of each is shown beside what was expected of it.
"none": that lab cannot have it yet, see [docker.md](docker.md).

Made by `tests/support/effects.py`; not written by hand.

| fault | expected | local lab | Docker lab |
|---|---|---|---|
"""


def table(lines: list[dict[str, Any]]) -> str:
    """The page's text. The last line of an example in a lab counts."""
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for line in lines:
        example = ", ".join(f"{key}: {_plain(value)}" for key, value in line["example"].items())
        found.setdefault((line["kind"], example), {})[line["lab"]] = line
    rows = []
    for (kind, example), labs in sorted(found.items()):
        expected = next(_first(each)["expected"] for each in labs.values())
        cells = [f"`{kind}` {example}", expected, *(_cell(labs.get(lab)) for lab in ("local", "docker"))]
        rows.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n")
    return HEAD + "".join(rows)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_plain(each)}" for key, each in value.items()) + "}"
    return str(value)


def _first(line: dict[str, Any]) -> dict[str, Any]:
    return next(iter(line["probes"]), {"what": "", "expected": "", "measured": line["says"]})


def _cell(line: dict[str, Any] | None) -> str:
    if line is None:
        return "none"
    first = _first(line)
    return f"{first['measured']} ({first['what']}); {line['says']}" if first["what"] else line["says"]


if __name__ == "__main__":
    print(table([json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]), end="")
