"""``make fis-demo``: a lab, what passes for AWS before it, and three experiments by FIS from file to report."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from chaos.base.errors import Exit

EXPERIMENTS = Path("experiments") / "fis"
LAB, SCALE = "fis-demo", "20"
START_SECONDS = 120.0
END_SECONDS = 120.0
DONE = (Exit.PASS, Exit.WEAKNESS, Exit.INCONCLUSIVE)


def _chaos(*words: str) -> list[str]:
    return [sys.executable, "-m", "chaos", *words]


def main() -> int:
    """The worst exit code of the runs, 0 where each has a verdict; the reports are below ``reports``."""
    experiments = sorted(EXPERIMENTS.glob("*.yaml"))
    if not experiments:
        print(f"there is no {EXPERIMENTS} here: run it in a checkout", file=sys.stderr)
        return int(Exit.USAGE)
    if code := subprocess.call(_chaos("lab", "up", "3az-tuned", "--name", LAB)):
        return code
    codes: list[int] = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "fis-demo.yaml"
            words = ("fis-endpoint", LAB, "--target", str(target), "--time-scale", SCALE)
            endpoint = subprocess.Popen(_chaos(*words))
            try:
                if not _there(target, endpoint):
                    return int(Exit.ERROR)
                subprocess.check_call(_chaos("fis", "preflight", "--on", str(target)))
                codes = [subprocess.call(_chaos("run", str(each), "--on", str(target))) for each in experiments]
            finally:
                endpoint.send_signal(signal.SIGTERM)
                endpoint.wait(END_SECONDS)
    finally:
        down = subprocess.call(_chaos("lab", "down", LAB))
    wrong = [code for code in (*codes, down) if code not in DONE]
    return wrong[0] if wrong else 0


def _there(target: Path, endpoint: subprocess.Popen[bytes]) -> bool:
    until = time.monotonic() + START_SECONDS
    while not target.exists() and time.monotonic() < until and endpoint.poll() is None:
        time.sleep(0.2)
    return target.exists()


if __name__ == "__main__":
    raise SystemExit(main())
