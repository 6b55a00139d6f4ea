"""``python -m chaos.commands.keeping LEDGER TARGET``: the keeper of a run on a cluster that is not ours.

:mod:`chaos.run.keeper` starts it and says what it does. It is no command for people.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from chaos import registry
from chaos.run import commanding, keeper, noted

KNOWN = (registry.PROVIDERS, noted.OPEN, commanding.END)
"""With them every move that a ledger may name is known here."""


def says(text: str) -> None:
    """Into its log."""
    print(f"{time.strftime('%H:%M:%S', time.gmtime())} {text}", file=sys.stderr, flush=True)


def main(ledger: Path, target: str) -> None:
    """Keep until the farewell, or undo."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # they are the runner's to answer
        signal.signal(number, signal.SIG_IGN)
    print("ready", flush=True)
    if keeper.heard(sys.stdin.fileno(), keeper.SILENCE_SECONDS):
        return
    says("the runner is silent: undoing")
    says("undone" if keeper.undo(ledger, target, says) else "not all could be undone")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
