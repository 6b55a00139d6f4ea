"""A report of very many documents: what judging and drawing a long run of bulks costs, and the page as a picture.

Makes up a run whose writes are bulks (healthy, rejections, a failover with timeouts, returned), in the formats of the
driver: rows of arrivals, and an entry of items.bin for each bulk that was answered. Then each step in a process of its
own, as benchmarks/analysis.py has it: judged and drawn from the rows as a killed run leaves them, made Parquet, judged
and drawn again. With --picture a Chromium draws the page into a PNG file.

    python benchmarks/large_report.py [--documents 10000000] [--items 500] [--rate 5000] [--keep DIR] [--picture FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import analysis
import beside  # noqa: F401
import numpy as np
import synthetic
from rich.console import Console
from rich.table import Table
from synthetic import Outcome, Story, expect, healthy, mixed

from chaos.history.format import ARRIVAL, ItemOutcome
from chaos.history.items import entry

WIDTH, HEIGHT = 1280, 5200
"""Of the picture, in pixels."""
REFUSED = 0.25
"""Of the documents of a bulk of which some are refused."""


class Bulks(Story):
    """A story whose writes are bulks of ``items`` documents."""

    items = 500

    def plan(self) -> dict[str, Any]:
        made = super().plan()
        made["experiment"]["load"]["write"] |= {"operation": "bulk", "items": self.items}
        return made


def story(documents: int, items: int, rate: float) -> Bulks:
    """A run of about so many documents at so many a second, and as many reads as bulks."""
    chapters = synthetic.slow_zone().chapters
    made = Bulks(name="many-bulks", description="Bulks through rejections and a failover.", chapters=chapters)
    made.items, made.rate = items, rate / items
    for chapter, share in zip(chapters, (0.4, 0.2, 0.2, 0.2), strict=True):
        chapter.seconds = max(20.0, round(share * documents / rate))
        chapter.read = healthy(late=0.0005)
        chapter.write = healthy(120, late=0.001)
    rejected, outage = chapters[1].seconds, 0.1 * chapters[2].seconds
    chapters[1].write = mixed((0, rejected, 0.3, Outcome.PARTIAL, 0.2), base=healthy(120))
    chapters[2].write = mixed(
        (0, outage, 0.6, Outcome.TIMEOUT, 5.0),
        (outage, 2 * outage, 0.1, Outcome.REJECTED, 0.01),
        base=healthy(120, late=0.001),
    )
    phases = tuple(chapter.name for chapter in chapters)
    made.expect = [
        expect("read.good", ">=", 0.99, phases),
        expect("documents.acknowledged", ">=", 0.999, ("healthy", "returned")),
        expect("documents.acknowledged", ">=", 0.9, ("slow", "failover")),
        expect("acknowledged.lost", "==", 0),
    ]
    return made


def write(made: Bulks, folder: Path) -> tuple[int, int]:
    """Leave the run's folder on disk; how many documents its bulks had that were answered, and were acknowledged."""
    made.write(folder)
    rng = np.random.default_rng(made.seed)
    whole, documents, acknowledged = bytes([ItemOutcome.CREATED]) * made.items, 0, 0
    rows = np.fromfile(folder / "history" / "arrivals.bin", ARRIVAL)
    bulks = rows[rows["op"] == made.ops.index("write")]
    with open(folder / "history" / "items.bin", "wb") as target:
        for k, outcome in zip(bulks["k"].tolist(), bulks["outcome"].tolist(), strict=True):
            of_each = whole
            if outcome == Outcome.PARTIAL:
                refused = rng.random(made.items) < REFUSED
                of_each = bytes(np.where(refused, ItemOutcome.REJECTED, ItemOutcome.CREATED).tolist())
            elif outcome != Outcome.OK:
                continue
            target.write(entry(k, of_each))
            documents += made.items
            acknowledged += of_each.count(ItemOutcome.CREATED)
    there, shards = acknowledged + 2000, 3
    read = made.readback | {"acknowledged": acknowledged} if made.readback is not None else {}
    read["content"] |= {"documents": there, "indexed": there, "of": there, "sources": there}
    for copy in read["copies"]:
        copy |= dict.fromkeys(("docs", "wanted", "compared", "indexed"), there // shards)
    (folder / "history" / "readback.json").write_text(json.dumps(read))
    return documents, acknowledged


def picture(page: Path, file: Path) -> float:
    """Draw the page by a headless Chromium; seconds."""
    browser = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
    if browser is None:
        raise SystemExit("no Chromium on this machine: apt-get install chromium")
    began = time.perf_counter()
    options = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--window-size={WIDTH},{HEIGHT}",
    ]
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                browser,
                *options,
                f"--user-data-dir={profile}",
                f"--screenshot={file.absolute()}",
                page.absolute().as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=300,
        )
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", default="10000000", help="how many, for example 1e7")
    parser.add_argument("--items", type=int, default=500, help="documents of a bulk")
    parser.add_argument("--rate", type=float, default=5000.0, help="documents a second")
    parser.add_argument("--keep", type=Path, help="make the run folder here, and leave it there")
    parser.add_argument("--picture", type=Path, help="draw the page into this PNG file")
    options = parser.parse_args()
    made = story(int(float(options.documents)), options.items, options.rate)
    table = Table("step", "wall s", "CPU s", "peak MB")
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep / "many-bulks" if options.keep else Path(scratch)
        began = time.perf_counter(), time.process_time()
        documents, acknowledged = write(made, folder)
        now = time.perf_counter(), time.process_time()
        table.add_row("made up", f"{now[0] - began[0]:.1f}", f"{now[1] - began[1]:.1f}", f"{analysis.peak_mb():.0f}")
        for form, what in (("rows", "analyse"), ("rows", "compact"), ("Parquet", "analyse")):
            for step, (wall, cpu, peak) in analysis.measured(what, folder, False).items():
                table.add_row(f"{step} ({form})", f"{wall:.2f}", f"{cpu:.2f}", f"{peak:.0f}")
        page = folder / "report.html"
        if options.picture:
            table.add_row("picture", f"{picture(page, options.picture):.1f}", "", "")
        sizes = {each.name: os.path.getsize(each) for each in (page, *sorted((folder / "history").glob("*")))}
    console = Console(width=120)
    console.print(table)
    console.print(
        f"{documents:,} documents in bulks of {options.items}, {acknowledged:,} acknowledged; in kB: ", end=""
    )
    console.print(", ".join(f"{name} {size / 1000:,.0f}" for name, size in sizes.items()))
    console.print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
