"""How long, and with how much memory, a history of 10 million arrivals is read and judged.

Writes a synthetic run (100 reads and 100 writes per second for 14 hours), then measures in a process of its
own: turning rows into Parquet, reading them, assigning phases, good arrivals per second and operation,
percentiles by phase and operation, and the whole verdict. Seconds, and the peak of resident memory so far.

    python benchmarks/history_analysis.py [--rows 10000000]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

SECOND = 1_000_000_000


def write(folder: Path, rows: int) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import synthetic

    story = synthetic.slow_zone()
    seconds = rows / (2 * story.rate)
    for chapter, share in zip(story.chapters, (0.4, 0.2, 0.2, 0.2), strict=True):
        chapter.seconds = round(share * seconds)
    story.write(folder)


@contextmanager
def timed(what: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    took = time.perf_counter() - begin
    status = Path("/proc/self/status").read_text()  # not getrusage: its peak begins with the parent's
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    print(f"{what:45} {took:7.2f} s   {peak:7.0f} MiB")


def analyse(folder: Path) -> None:
    with timed("import"):
        from chaos.checks.verdict import evaluate
        from chaos.history import History, compact
    with timed("rows to Parquet"):
        parquet = compact(folder)
    size = parquet.stat().st_size
    with timed("read Parquet"):
        history = History.open(folder)
        frame = history.arrivals
    print(f"{'':45} {len(frame):,} rows, {size / len(frame):.1f} bytes each")
    with timed("phase of every arrival"):
        phase = history.phase_of_arrivals()
    with timed("good per second and operation"):
        second = (frame["intended"].to_numpy() - frame["intended"].iloc[0]) // SECOND
        good = (frame["outcome"] == "ok").to_numpy() & (frame["latency_ms"].to_numpy() <= 100)
        for code, _ in enumerate(frame["op"].cat.categories):
            of_op = (frame["op"].cat.codes == code).to_numpy()
            np.bincount(second[of_op], weights=good[of_op])
    with timed("percentiles by phase and operation"):
        latency = frame["latency_ms"].groupby([phase, frame["op"]], observed=True)
        latency.quantile([0.5, 0.9, 0.99, 0.999])
    with timed("the whole verdict"):
        evaluate(history)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--analyse", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.analyse:
        analyse(options.analyse)
        return
    with tempfile.TemporaryDirectory() as folder:
        with timed("(making up the run)"):
            write(Path(folder), options.rows)
        subprocess.run([sys.executable, __file__, "--analyse", folder], check=True)


if __name__ == "__main__":
    main()
