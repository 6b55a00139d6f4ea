"""What a game day tells node_exporter's textfile collector: a file in Prometheus' text format.

The collector reads ``*.prom`` of its folder at any time: so the file is replaced whole, and its temporary name ends
otherwise (prometheus/node_exporter, README, "Textfile Collector"). It takes no timestamps of samples.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.base.paths import fsync_folder

PREFIX = "opensearch_chaos_gameday_"
OUTCOMES = ("pass", "weakness", "inconclusive", "aborted", "error", "dirty", "refused", "held")
HELP = {
    "running": "Whether this game day is under way.",
    "last_start_timestamp_seconds": "When it last began, seconds since the epoch.",
    "last_end_timestamp_seconds": "When it last ended, seconds since the epoch.",
    "last_outcome": "How it last ended: 1 for that outcome, 0 for the others.",
    "held": "Whether a person must clear a hold before it may begin again. While it runs that is not known.",
}
MODE = 0o644
"""node_exporter is another user."""
_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[^\"}]|\"(?:[^\"\\]|\\.)*\")*)\} (\S+)$")
_LABEL = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)=\"((?:[^\"\\]|\\.)*)\",?")


@dataclass(frozen=True)
class Facts:
    """``started`` and ``ended``: seconds since the epoch. None: not known, and no sample is written for it."""

    gameday: str
    target: str
    running: bool
    started: float | None = None
    ended: float | None = None
    outcome: str | None = None
    held: bool | None = None


def write(path: Path, facts: Facts) -> str | None:
    """Replace the file; why that could not be done, None where it was. Never raises.

    What is not known now is kept from the file that is there, where that is of the same game day and target: how it
    last ended is still to be seen while it runs again. ``held`` is not kept then: a runner may die while it runs, and
    would leave a no that is none.
    """
    try:
        _replace(path, text(_kept(path, facts)).encode())
    except (OSError, ValueError) as error:
        return f"{path} cannot be written: {getattr(error, 'strerror', None) or error}"
    return None


def text(facts: Facts) -> str:
    """In Prometheus' text format. Raises ValueError for an outcome that there is not."""
    if facts.outcome is not None and facts.outcome not in OUTCOMES:
        raise ValueError(f"there is no outcome {facts.outcome}: expected one of {', '.join(OUTCOMES)}")
    return "".join(f"{line}\n" for line in _lines(facts))


def _lines(facts: Facts) -> Iterator[str]:
    labels = f'gameday="{_escaped(facts.gameday)}",target="{_escaped(facts.target)}"'
    outcomes: list[tuple[str, float | None]] = [
        (f',outcome="{name}"', float(name == facts.outcome)) for name in OUTCOMES if facts.outcome is not None
    ]
    values: dict[str, list[tuple[str, float | None]]] = {
        "running": [("", float(facts.running))],
        "last_start_timestamp_seconds": [("", facts.started)],
        "last_end_timestamp_seconds": [("", facts.ended)],
        "last_outcome": outcomes,
        "held": [("", None if facts.held is None else float(facts.held))],
    }
    for name, samples in values.items():
        known = [(more, value) for more, value in samples if value is not None]
        if known:
            yield f"# HELP {PREFIX}{name} {HELP[name]}"
            yield f"# TYPE {PREFIX}{name} gauge"
            yield from (f"{PREFIX}{name}{{{labels}{more}}} {value:.15g}" for more, value in known)


def _escaped(value: str) -> str:
    whole = value.encode(errors="replace").decode()
    return whole.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def parsed(given: str) -> list[tuple[str, dict[str, str], float]]:
    """The samples of a text: name without our prefix, labels, value. Raises ValueError for what is no sample."""
    found = []
    for line in given.split("\n"):
        if not line or line.startswith("#"):
            continue
        match = _SAMPLE.match(line)
        if match is None or not match[1].startswith(PREFIX):
            raise ValueError("no sample of ours")
        labels = {name: _unescaped(value) for name, value in _LABEL.findall(match[2])}
        found.append((match[1].removeprefix(PREFIX), labels, float(match[3])))
    return found


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), value)


def _kept(path: Path, facts: Facts) -> Facts:
    known: dict[str, float] = {}
    outcome = None
    with suppress(OSError, ValueError):
        for name, labels, value in parsed(path.read_text() if path.is_file() else ""):
            if (labels.get("gameday"), labels.get("target")) != (facts.gameday, facts.target):
                continue
            if name != "last_outcome":
                known[name] = value
            elif value == 1 and labels.get("outcome") in OUTCOMES:
                outcome = labels["outcome"]
    held = known.get("held")
    return replace(
        facts,
        started=facts.started if facts.started is not None else known.get("last_start_timestamp_seconds"),
        ended=facts.ended if facts.ended is not None else known.get("last_end_timestamp_seconds"),
        outcome=facts.outcome or outcome,
        held=facts.held if facts.held is not None or held is None or facts.running else held == 1,
    )


def _replace(path: Path, data: bytes) -> None:
    """Whole or not at all, also after a crash. The folder must be there: it is node_exporter's."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), MODE)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    fsync_folder(path.parent)
