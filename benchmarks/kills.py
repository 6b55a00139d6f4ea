"""Runs that were killed or stopped at random moments: how long until nothing of them was active, by how it happened.

    pytest -m "" -v -s tests/cluster/test_on_hosts.py -k killed_at | tee kills.log
    python benchmarks/kills.py record kills.log --of hosts   # keeps each in reports/results/kills-on-hosts.json
    python benchmarks/kills.py page --of hosts               # writes the table into docs/hosts.md

``--of kubernetes``: tests/cluster/test_on_kubernetes.py -k killed_at. ``--of fis``: tests/cluster/test_fis.py -k
runner_killed_at. ``--of gamedays``: tests/cluster/test_gameday.py -k stopped_at. ``--of store``:
tests/cluster/test_store_kills.py -k killed_at. One that was recorded stays, whether its test passed or failed. Needs
root, and the packages of the staging box (docs/existing.md); for ``store`` the extra ``[s3]`` in their place.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- kills: made by benchmarks/kills.py page -->", "<!-- kills end -->"
SAID = re.compile(r"seed (\d+), (.+), ([^,]+ of [^\s,]+): nothing of it active after ([0-9.]+) s")
TEST = re.compile(r"::test_\w*(?:killed|stopped)_at_a_random_moment\w*\[(\d+)\]")
ENDED = re.compile(r"exit -?\d+, ended after ([0-9.]+) s")
VERDICT = re.compile(r"\b(PASSED|FAILED|ERROR)\b")
Kill = dict[str, Any]


@dataclass(frozen=True)
class Series:
    """``kept``: the file of its results. ``page``: where its table is. ``what``: how one is called."""

    kept: Path
    page: Path
    what: str = "kill"
    who: str = "who died"


SERIES = {
    "hosts": Series(ROOT / "reports" / "results" / "kills-on-hosts.json", ROOT / "docs" / "hosts.md"),
    "kubernetes": Series(ROOT / "reports" / "results" / "kills-on-kubernetes.json", ROOT / "docs" / "kubernetes.md"),
    "fis": Series(ROOT / "reports" / "results" / "kills-by-fis.json", ROOT / "docs" / "fis.md"),
    "gamedays": Series(
        ROOT / "reports" / "results" / "stops-of-gamedays.json", ROOT / "docs" / "gamedays.md", "stop", "stopped by"
    ),
    "store": Series(
        ROOT / "reports" / "results" / "kills-with-store.json", ROOT / "docs" / "remote-store.md", who="what was killed"
    ),
}


def read(log: str, commit: str) -> list[Kill]:
    """The kills of a log that have a verdict. Pure."""
    found: list[Kill] = []
    seed: int | None = None
    told: Kill = {}
    for line in log.splitlines():
        if begun := TEST.search(line):
            seed, told = int(begun[1]), {}
        if said := SAID.search(line):
            told |= {"way": said[2], "moment": said[3], "undone_after": float(said[4])}
        if ended := ENDED.search(line):
            told["ended_after"] = float(ended[1])
        if begun and found and found[-1]["seed"] == seed and "ERROR" in line:  # it passed, and then something was left
            found[-1]["passed"], seed = False, None
        if seed is not None and (verdict := VERDICT.search(line)):
            found.append({"seed": seed, "commit": commit, "passed": verdict[1] == "PASSED", **told})
            seed, told = None, {}
    return found


def merged(kept: list[Kill], new: list[Kill]) -> list[Kill]:
    """All of them, in the order of their seeds; the same once. Pure."""
    every = {(each["seed"], each["commit"], each["passed"]): each for each in (*new, *kept)}
    return [every[key] for key in sorted(every)]


def table(kills: list[Kill], series: Series = SERIES["hosts"]) -> str:
    """The distribution, by who died. Pure."""
    if not kills:
        return "Not recorded yet."
    good = [each for each in kills if each["passed"]]
    passed = {each["seed"] for each in good}
    bad = [each for each in kills if not each["passed"]]
    open_ = sorted({each["seed"] for each in bad} - passed)
    later = sorted({each["seed"] for each in bad} & passed)
    ended = any("ended_after" in each for each in good)
    lines = [
        f"{series.what.capitalize()}s passed at {len(passed)} moments, {len(good)} in all, on commits "
        f"{', '.join(sorted({each['commit'] for each in good}))}. "
        + (f"Failed at first and passed later: seeds {', '.join(map(str, later))}. " if later else "")
        + (f"Failed and not passed since: seeds {', '.join(map(str, open_))}." if open_ else "None is open."),
        "",
        f"| {series.who} | {series.what}s | seconds until nothing was active: median | longest |"
        + (" until its process had ended: longest |" if ended else ""),
        "|---|---|---|---|" + ("---|" if ended else ""),
    ]
    for way in dict.fromkeys(each["way"] for each in sorted(good, key=lambda each: each["seed"])):
        those = [each for each in good if each["way"] == way]
        took = [each["undone_after"] for each in those]
        last = f" {max(each['ended_after'] for each in those):.0f} |" if ended else ""
        lines.append(f"| {way} | {len(took)} | {median(took):.0f} | {max(took):.0f} |{last}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("record", "page"))
    parser.add_argument("logs", nargs="*", type=Path)
    parser.add_argument("--of", choices=SERIES, default="hosts", help="which series; default hosts")
    parser.add_argument("--commit", help="of which the logs are; default the one that is checked out")
    given = parser.parse_args()
    series = SERIES[given.of]
    kept = json.loads(series.kept.read_text()) if series.kept.exists() else []
    if given.do == "record":
        head = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
        commit = given.commit or subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()
        for log in given.logs:
            kept = merged(kept, read(log.read_text(), commit))
        series.kept.parent.mkdir(parents=True, exist_ok=True)
        series.kept.write_text("[\n" + ",\n".join(json.dumps(each, sort_keys=True) for each in kept) + "\n]\n")
    else:
        text = series.page.read_text()
        begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
        series.page.write_text(f"{text[:begin]}\n{table(kept, series)}\n{text[end:]}")
    print(table(kept, series))


if __name__ == "__main__":
    main()
