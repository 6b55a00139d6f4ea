"""The load's drivers as one: each a process with a share of the same load, together what :class:`Driver` is alone.

Two things make several. What cannot live in the first driver (a helper in asyncio) has a process of its own for its
streams. And one process is held to one core, so ``processes`` of the first driver share its streams. Each writes a
record of its own in the same form, which the history reads as one. Compare-and-set, probes of visibility, health checks
of the machine and signs of life from Toxiproxies are the first process's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from chaos.base.errors import MissingPrerequisite
from chaos.base.extras import ASYNC
from chaos.definitions.experiment import Load
from chaos.load.clients import helpers
from chaos.load.config import DriverConfig, Part
from chaos.load.driver import Driver, DriverError

BEGIN_NS = 200_000_000
"""From the word *go* to the first arrival, where several must hear it."""


def apart(load: Load) -> list[str]:
    """The operations of a load that have a driver of their own, in asyncio."""
    known = helpers()
    return [each.name for each in load.every if each.client is not None and known[each.client.kind].in_asyncio]


def need_package(load: Load) -> None:
    """Raises MissingPrerequisite where a load needs a package that is an extra, and it is not installed."""
    if (names := apart(load)) and ASYNC.missing():
        raise MissingPrerequisite(
            f"the helper of load.{names[0]} needs the Python package aiohttp", remedy=ASYNC.install
        )


def parts(config: DriverConfig) -> tuple[DriverConfig, ...]:
    """What each process of a load is told; the load itself where one is enough."""
    known = helpers()
    away = tuple(n for n, each in enumerate(config.every) if each.helper and known[each.helper.kind].in_asyncio)
    here = tuple(n for n in range(len(config.every)) if n not in away)
    made = [
        Part(name=f"driver-{n}" if n else "", first=n, of=config.processes, operations=here if away else None)
        for n in range(config.processes)
    ]
    if away:
        made.append(Part(name="driver-asyncio", program="asyncio", operations=away))
    if len(made) == 1:
        return (config,)
    numbered = [part.model_copy(update={"process": n, "processes": len(made)}) for n, part in enumerate(made)]
    return tuple(_of(config, part) for part in numbered)


def _of(config: DriverConfig, part: Part) -> DriverConfig:
    if part.process == 0:
        return config.model_copy(update={"part": part})
    theirs = {"out": config.out / part.name, "cas": None, "visibility": None, "instruments": (), "usable": ()}
    return config.model_copy(update={"part": part, **theirs})


def of(config: DriverConfig, log: Path, failed: Callable[[str], None] = lambda says: None) -> Driver | Drivers:
    """What sends this load. ``log``, ``failed``: as of :class:`Driver`; other processes have logs beside that."""
    shares = parts(config)
    if len(shares) == 1:
        return Driver(config, log, failed)
    logs = [log, *(log.with_name(f"{each.part.name}.log") for each in shares[1:])]
    return Drivers(list(zip(shares, logs, strict=True)), failed)


class Drivers:
    """Several driver processes that begin and end together. Its methods are those of :class:`Driver`."""

    def __init__(self, shares: Sequence[tuple[DriverConfig, Path]], failed: Callable[[str], None]) -> None:
        self._failed: Callable[[str], None] | None = failed
        self._lock = threading.Lock()
        self.processes = tuple(Driver(config, log, self._fail) for config, log in shares)
        self.config, self.log = shares[0]

    def _fail(self, says: str) -> None:
        """One of them has failed: that is told once."""
        with self._lock:
            failed, self._failed = self._failed, None
        if failed is not None:
            failed(says)

    def start(self, **options: Any) -> None:
        """Start every process. Raises :class:`DriverError`, and none is left then."""
        try:
            for each in self.processes:
                each.start(**options)
        except BaseException:
            self.kill()
            raise

    def go(self, start_ns: int | None = None) -> int:
        """Let arrivals begin, of all processes at the same moment."""
        start = time.monotonic_ns() + BEGIN_NS if start_ns is None else start_ns
        for each in self.processes:
            each.go(start)
        return start

    def begin(self, at_ns: int) -> None:
        """Let rates that change begin to, of all processes at the same moment."""
        for each in self.processes:
            each.begin(at_ns)

    @property
    def status(self) -> dict[str, Any]:
        """The last words of all as one; empty until each has spoken."""
        return merged([each.status for each in self.processes])

    @property
    def pid(self) -> int | None:
        """Of the first."""
        return self.processes[0].pid

    @property
    def alive(self) -> bool:
        """Whether all are."""
        return all(each.alive for each in self.processes)

    @property
    def error(self) -> str | None:
        return next((each.error for each in self.processes if each.error is not None), None)

    @property
    def mute(self) -> bool:
        return any(each.mute for each in self.processes)

    def cease(self) -> None:
        for each in self.processes:
            each.cease()

    def stop(self, timeout: float | None = None) -> bool:
        """Stop all at once and wait for each; whether every record is whole."""
        with ThreadPoolExecutor(len(self.processes)) as pool:
            return all(list(pool.map(lambda each: each.stop(timeout), self.processes)))

    def kill(self) -> None:
        for each in self.processes:
            each.kill()


SUMS = ("in_flight", "dropped", "sent_total", "dropped_total")
WORST = ("cpu", "lag_p99_ms")


def merged(said: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The words of several processes as those of one: counts are added, of what must be small the worst stands. ``t``
    is that of the oldest word, and ``newest`` that of the newest (ns). ``errors``: of all; left out where none was
    told, as in the words of one."""
    if not all(said):
        return {}
    errors = [row for each in said for row in each.get("errors", ())]
    names = list(dict.fromkeys(name for each in said for name in each["operations"]))
    return {
        **{key: value for key, value in said[0].items() if key != "errors"},
        **({"errors": errors} if errors else {}),
        "t": min(each["t"] for each in said),
        "newest": max(each["t"] for each in said),
        **{key: sum(each[key] for each in said) for key in SUMS},
        **{key: _worst(each[key] for each in said) for key in WORST},
        "operations": {name: _together([each["operations"][name] for each in said]) for name in names},
    }


def _together(figures: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        **{key: sum(each[key] for each in figures) for key in ("ok", "bad", "good", "waiting")},
        **{key: _worst(each[key] for each in figures) for key in ("p50_ms", "p99_ms")},
    }


def _worst(values: Iterator[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


__all__ = ["Driver", "DriverError", "Drivers", "merged", "of", "parts"]
