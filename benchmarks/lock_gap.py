"""How long after the last look at a game day's lock its changes were made: a gap in which a frozen runner could act.

    python benchmarks/lock_gap.py gamedays/NAME/DAY...

OpenSearch checks no fencing token, so this gap cannot be closed for changes by REST; hosts check theirs. Per phase that
changed something: milliseconds from the gate's line in the record to the first command of a fault or action.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from statistics import median

FIRST = ("fault.command", "action.command")


def gaps(day: Path) -> Iterator[tuple[str, float]]:
    """Phase and seconds."""
    lines = [json.loads(line) for line in (day / "record.jsonl").read_text().splitlines()]
    looked = [
        (line["before"], datetime.fromisoformat(line["t"].replace("Z", "+00:00")).timestamp())
        for line in lines
        if line["kind"] == "gate" and line["name"] == "lock" and line["before"].startswith("phase ")
    ]
    for file in sorted((day / "runs").glob("*/history/events.jsonl")):
        name = json.loads((file.parents[1] / "plan.json").read_text())["experiment"]["name"]
        phase, seen = "", set[str]()
        for event in map(json.loads, file.read_text().splitlines()):
            if event["kind"] == "phase.start":
                phase = event["phase"]
            if event["kind"] in FIRST and phase not in seen:
                seen.add(phase)
                before = [
                    at for what, at in looked if what.startswith(f"phase {phase} of {name}") and at <= event["wall"]
                ]
                if before:
                    yield f"{phase} of {name}", event["wall"] - before[-1]


def main() -> None:
    found = [each for day in sys.argv[1:] for each in gaps(Path(day))]
    for what, seconds in found:
        print(f"{what}: {seconds * 1000:.0f} ms")
    if found:
        print(f"median of {len(found)}: {median(seconds for _, seconds in found) * 1000:.0f} ms")


if __name__ == "__main__":
    main()
