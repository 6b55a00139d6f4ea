"""Prints the plan of every shipped experiment, and of one on every topology, to hold two versions against each other.

    python tests/plans.py > after
    git worktree add /tmp/before COMMIT && (cd /tmp/before && PYTHONPATH=. python tests/plans.py) > before
    diff before after

It starts nothing. A plan that is refused is printed as its error. Run in the root of a checkout, whose code is taken.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path.cwd()))

from typer.testing import CliRunner

from chaos.cli import app

LEFT_OUT = ("upstream", "gamedays", "campaigns")
"""Folders with definitions that are no experiments."""


def main() -> None:
    files = sorted(path for path in Path("experiments").rglob("*.yaml") if path.parent.name not in LEFT_OUT)
    topologies = sorted(path.stem for path in Path("topologies").glob("*.yaml"))
    asked = [[str(file), *how] for file in files for how in ((), ("--json",))]
    asked += [["experiments/no-fault.yaml", "--topology", name, "--json"] for name in topologies]
    for words in asked:
        result = CliRunner().invoke(app, ["plan", *words])
        print(f"== {' '.join(words)}: {result.exit_code}")
        print(result.output, result.exception or "")


if __name__ == "__main__":
    main()
