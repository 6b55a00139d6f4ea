"""What a document of each workload costs to make: processor time, so that a busy machine changes little.

python benchmarks/workloads.py [FILE.yaml ...]

Printed are the bytes of a document, the time until the first one (tables of words are made), the time for one, for what
finds it, for a search, and the share of a core that 5,000 documents a second take.
"""

from __future__ import annotations

import sys
import timeit
from time import process_time

from chaos.base.ids import write_id
from chaos.definitions.loading import load_workload
from chaos.load import workloads
from chaos.load.dataset import Dataset
from chaos.load.workload import Workload

NUMBER = 2000
WANTED = 5000
"""Documents a second that one driver on one core is to make."""


def main() -> None:
    given: list[Workload] = [Dataset(load_workload(path)) for path in sys.argv[1:]]
    for workload in given or workloads.every().values():
        began = process_time()
        workload.body(write_id(0))
        requests = workload.requests("chaos", 1000)
        first = process_time() - began
        body = cost(lambda n, w=workload: w.body(write_id(n)))
        found = cost(lambda n, w=workload: w.found_by(write_id(n)))
        search = cost(lambda n, r=requests: r.of("search", n))
        print(
            f"{workload.name}: {workload.size} bytes; {body * 1e6:.1f} us a document ({body * WANTED:.0%} of a core "
            f"for {WANTED} a second), {found * 1e6:.1f} us what finds it, {search * 1e6:.1f} us a search; "
            f"{first:.2f} s before the first"
        )


def cost(make) -> float:  # type: ignore[no-untyped-def]
    """Seconds of processor time for one, the least of seven rounds."""

    def some() -> None:
        for n in range(NUMBER):
            make(n)

    return min(timeit.repeat(some, number=1, repeat=7, timer=process_time)) / NUMBER


if __name__ == "__main__":
    main()
