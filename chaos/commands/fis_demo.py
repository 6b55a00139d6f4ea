"""``make fis-demo``: a lab, what passes for AWS before it, and three experiments by FIS from file to report."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from chaos.base.errors import ChaosError, Exit
from chaos.commands.common import say_error
from chaos.commands.fis_lab import fis_lab, words

EXPERIMENTS = Path("experiments") / "fis"
DONE = (Exit.PASS, Exit.WEAKNESS, Exit.INCONCLUSIVE)


def main() -> int:
    """The first exit code of the runs that is no verdict, 0 where each has one; the reports are below ``reports``."""
    experiments = sorted(EXPERIMENTS.glob("*.yaml"))
    if not experiments:
        print(f"there is no {EXPERIMENTS} here: run it in a checkout", file=sys.stderr)
        return int(Exit.USAGE)
    try:
        with fis_lab() as target:
            subprocess.check_call(words("fis", "preflight", "--on", str(target)))
            codes = [subprocess.call(words("run", str(each), "--on", str(target))) for each in experiments]
    except ChaosError as error:
        say_error(error)
        return int(Exit.ERROR)
    return next((code for code in codes if code not in DONE), 0)


if __name__ == "__main__":
    raise SystemExit(main())
