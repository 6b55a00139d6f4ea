"""What a run is asked for, where it is kept, and what comes of it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from chaos.base import paths
from chaos.base.errors import SEVERITY, ChaosError, Exit, InvalidInput
from chaos.checks.models import FindingsFile
from chaos.faults.offers import Providers
from chaos.run.guards import Guard
from chaos.targets.labs import kinds
from chaos.targets.labs.base import BaseLab
from chaos.targets.parts import Parts

Stage = Literal["before", "now", "made"]
"""When whoever had a run made is asked: before a phase begins, right before a change of it, once it is made."""
Permits = Callable[[str, Stage], str | None]
"""The name of a phase, and the stage → why not."""


@dataclass
class RunOptions:
    """``out``: the folder that run folders go to. ``lab``: a lab to run on; None builds one and takes it away.

    ``providers``: who may carry faults out. ``kind`` and ``opensearch_home``: of a lab of its own, what it is made of.
    """

    out: Path
    command: str
    providers: Providers
    seed: int | None = None
    lab: BaseLab | None = None
    parts: Parts | None = None
    opensearch_home: Path | None = None
    kind: str = kinds.DEFAULT
    second_of: dict[str, Any] | None = None
    """The run that this one repeats, and why (:mod:`.retrying`); it goes into the plan, and so into the report."""
    side: dict[str, Any] | None = None
    """Of an experiment with sides: which of them this run is of (:class:`.spec.OfSide`); it goes into the plan."""
    guards: Sequence[Guard] = ()
    """Of whoever has the run made, beside the experiment's own."""
    permits: Permits | None = None
    """Asked on a cluster that is not ours why a phase may not change what it is to; None: it may."""


@dataclass
class RunResult:
    """Where the run's record is, and how it ended. ``findings`` is the content of findings.json."""

    folder: Path
    findings: FindingsFile
    clean: bool
    stopped: bool = False
    """A signal came before its report was made, whatever had ended it: no other run may begin after it."""

    @property
    def exit_code(self) -> Exit:
        return Exit(self.findings["exit_code"])


class Unreported(ChaosError):
    """The run is over and undone, but its report cannot be made (a full disk, say)."""

    def __init__(self, folder: Path, why: Exception, dirt: list[str], failure: str | None = None) -> None:
        ended = f"; the run had ended early: {failure}" if failure else ""
        left = f"; left behind: {'; '.join(dirt)} (run: opensearch-chaos recover)" if dirt else ""
        super().__init__(f"no report of {folder} can be made: {why}{ended}{left}")
        found = why.exit_code if isinstance(why, ChaosError) else Exit.ERROR
        if found is Exit.USAGE:  # by which nothing would have been started
            found = Exit.ERROR
        self.exit_code = min([found, Exit.DIRTY] if dirt else [found], key=SEVERITY.index)


ID_BYTES = 8
"""Of a run's id, after which what it makes on clusters, hosts and accounts of others is named."""


def new_lab_id() -> str:
    """A name for a lab that belongs to a run."""
    return f"r{secrets.token_hex(2)}"


def new_folder(out: Path, name: str) -> Path:
    """``<UTC>-<experiment>-<id>`` in ``out``: new, and ours alone. Raises InvalidInput where it cannot be made."""
    folder = out / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{name}-{secrets.token_hex(ID_BYTES)}"
    try:
        paths.make_folder(folder, "history", "logs")
    except OSError as error:
        raise InvalidInput(
            f"cannot make the run folder {folder}: {error.strerror}", remedy="choose a folder with --out"
        ) from error
    return folder
