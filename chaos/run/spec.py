"""What is to be run, as one value; and the one function that takes it to a run folder.

``run``, pytest, ``repeat``, the random mode, the hunt and game days all make a :class:`RunSpec` and call
:func:`carry_out`. A spec is data: written as JSON it means the same run in another process, or on another machine that
has the same files of labs and clusters. What is only there while a run lasts (a lab that is up, guards of a game day)
is handed to the function beside it.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from chaos.base.console import Reporter
from chaos.base.errors import InvalidInput
from chaos.definitions import Experiment, objectives, overriding
from chaos.faults.offers import Providers
from chaos.run import execution, plan
from chaos.run.execution import Execution
from chaos.run.guards import Guard
from chaos.run.options import Permits, RunOptions, RunResult, new_folder
from chaos.run.stopping import Stop
from chaos.targets.labs import kinds
from chaos.targets.labs.base import BaseLab
from chaos.targets.parts import Parts

FORMAT = 1


@dataclass(frozen=True)
class On:
    """What it runs on: a lab of this ``kind``, made for it or one that is up; or the cluster of a target's ``file``."""

    kind: str = kinds.DEFAULT
    file: str | None = None


@dataclass(frozen=True)
class OfSide:
    """Which side of an experiment with sides a run is of. ``among``: the names of all, the first is the baseline;
    ``changes``: what the side changes of the experiment, as it is written."""

    name: str
    among: tuple[str, ...]
    changes: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "among": list(self.among), "changes": dict(self.changes)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(str(data["name"]), tuple(data["among"]), dict(data["changes"]))


@dataclass(frozen=True)
class RunSpec:
    """One run. ``experiment`` is in normal form, with its topology; ``seed`` is the one that draws.

    ``versions``: of what carries it out (:func:`chaos.run.plan.versions`); OpenSearch's is the topology's. ``topology``
    and ``controlled``: the options ``--topology`` and ``--no-controller`` with which it was loaded, for the command
    that makes the run again. ``command``: that command where it is another than ``opensearch-chaos run``. ``side``: of
    an experiment with sides; ``experiment`` is then that side's.
    """

    experiment: Experiment
    seed: int
    on: On = On()
    versions: Mapping[str, str] = field(default_factory=plan.versions)
    topology: str | None = None
    controlled: bool = True
    command_given: str | None = None
    side: OfSide | None = None

    @classmethod
    def of(cls, experiment: Experiment, seed: int | None = None, **given: Any) -> Self:
        """``seed`` None: the experiment's own."""
        return cls(experiment, experiment.seed if seed is None else seed, **given)

    @property
    def command(self) -> str:
        """The command that makes the run again, for plan and report: never with a path of one machine only."""
        if self.command_given is not None:
            return self.command_given
        made = plan.again(
            self.experiment.file,
            self.seed,
            self.topology,
            controlled=self.controlled,
            good=objectives.options(self.experiment),
            given=overriding.options(self.experiment.overrides),
        )
        if self.side is not None:
            made += f" --side {shlex.quote(self.side.name)}"
        return made if self.on.file is None else f"{made} --on {shlex.quote(self.on.file)}"

    @property
    def digest(self) -> str:
        """SHA-256 over what decides what the run does: definition and topology in normal form, seed, target and
        versions; not over where the file lies, nor over the command."""
        decides = {
            "experiment": plan.digest(self.experiment),
            "seed": self.seed,
            "on": vars(self.on),
            "versions": dict(self.versions),
        }
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """JSON-able; :meth:`from_json` reads it back."""
        return {
            "format": FORMAT,
            "experiment": self.experiment.to_json(),
            "seed": self.seed,
            "on": dict(vars(self.on)),
            "versions": dict(self.versions),
            "topology": self.topology,
            "controlled": self.controlled,
            "command": self.command_given,
            **({} if self.side is None else {"side": self.side.to_json()}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], experiment: Callable[[Mapping[str, Any]], Experiment]) -> Self:
        """``experiment``: reads one from its normal form (:meth:`chaos.definitions.grammar.Grammar.experiment`).

        Raises InvalidInput for another format, or where something is missing.
        """
        try:
            if data["format"] != FORMAT:
                raise InvalidInput(
                    f"a run spec of format {data['format']}, and this version reads {FORMAT}",
                    remedy="use the version of opensearch-chaos that wrote it",
                )
            return cls(
                experiment(data["experiment"]),
                int(data["seed"]),
                On(**data["on"]),
                dict(data["versions"]),
                data["topology"],
                bool(data["controlled"]),
                data["command"],
                None if data.get("side") is None else OfSide.from_json(data["side"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"this is no run spec: {type(error).__name__} {error}") from error


def carry_out(
    spec: RunSpec,
    *,
    out: Path,
    providers: Providers,
    reporter: Reporter,
    lab: BaseLab | None = None,
    parts: Parts | None = None,
    opensearch_home: Path | None = None,
    second_of: dict[str, Any] | None = None,
    guards: Sequence[Guard] = (),
    permits: Permits | None = None,
) -> RunResult:
    """Carry out one run, into a new folder in ``out``, and close the reporter. The arguments are those of
    :class:`chaos.run.options.RunOptions`.

    Raises ChaosError before anything has been started, or when no report can be made (:func:`.execution.run`).
    """
    options = RunOptions(
        out=out,
        command=spec.command,
        providers=providers,
        seed=spec.seed,
        lab=lab,
        parts=parts,
        opensearch_home=opensearch_home,
        second_of=second_of,
        side=None if spec.side is None else spec.side.to_json(),
        guards=guards,
        permits=permits,
    )
    if lab is None:
        options.kind = spec.on.kind
    try:
        return execution.run(spec.experiment, options, reporter)
    finally:
        reporter.close()


def in_python(spec: RunSpec, *, out: Path, providers: Providers, reporter: Reporter, lab: BaseLab) -> Execution:
    """The run of a test in Python, with its folder in ``out``. The test makes the phases
    (:meth:`.Execution.in_python`), so its spec says what was asked for and cannot be carried out without the test.

    Raises InvalidInput where the folder cannot be made.
    """
    options = RunOptions(out, spec.command, providers, seed=spec.seed, lab=lab)
    folder = new_folder(out, spec.experiment.name)
    return execution.Execution(spec.experiment, options, lab.manifest.parts, folder, reporter, Stop())
