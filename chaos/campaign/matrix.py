"""The cells of a campaign: which runs its file means, in their order, and which of them a shard makes.

A cell's key is a hash over what decides what the run does. It does not hold the machine: where a cell was made is said
in its commit, and statistics keep classes of machines apart.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import chaos
from chaos.base.errors import InvalidInput
from chaos.definitions import Experiment, load_topology
from chaos.definitions.campaign import Campaign, CampaignFile, EntryFile
from chaos.definitions.source import Problem, Source
from chaos.definitions.topology import Topology, spanned
from chaos.history.format import RULES
from chaos.provision import lock
from chaos.run import plan
from chaos.run.spec import RunSpec

FORMAT = 1
UPGRADE = "node.upgrade"
"""The kind of fault that gives nodes the version that their topology names for it."""
LoadExperiment = Callable[..., Experiment]
""":func:`chaos.registry.load_experiment`."""


@dataclass(frozen=True)
class Cell:
    """One run of a campaign. ``of``: the experiment beside which a scorecard shows it; ``version``: of OpenSearch;
    where nodes have several all of them (:func:`chaos.definitions.topology.spanned`)."""

    experiment: Experiment
    of: str
    profile: str
    version: str
    seed: int
    repeat: int
    """From 0."""
    block: int = 0
    """Cells of one block differ in their version alone, and are made on one machine."""

    @property
    def key(self) -> str:
        """32 hexadecimal digits of a SHA-256."""
        decides = {
            "format": FORMAT,
            "experiment": plan.digest(self.experiment),
            "topology": self.experiment.topology.name,
            "version": self.experiment.topology.version,
            "profile": self.profile,
            "of": self.of,
            "seed": self.seed,
            "tool": {"opensearch-chaos": chaos.__version__, "rules": RULES},
        }
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def place(self) -> tuple[str, str, str, str, str]:
        """What its runs are judged together with, over seeds: ``of``, experiment, profile, topology, version."""
        return self.of, self.experiment.name, self.profile, self.experiment.topology.name, self.version

    @property
    def compared(self) -> str:
        """A digest of what the run does, whatever the topology's version: runs of versions are compared where this is
        the same."""
        topology = self.experiment.topology.model_copy(update={"version": ""})
        return plan.digest(self.experiment.model_copy(update={"topology": topology}))

    @property
    def name(self) -> str:
        """For people: ``zone-black-hole-tuned 3az-tuned 3.8.0 seed 2``."""
        return f"{self.experiment.name} {self.experiment.topology.name} {self.version} seed {self.seed}"

    def to_json(self) -> dict[str, Any]:
        """What a commit says of it."""
        return {
            "experiment": self.experiment.name,
            "hash": plan.digest(self.experiment),
            "of": self.of,
            "profile": self.profile,
            "topology": self.experiment.topology.name,
            "version": self.version,
            "seed": self.seed,
        }

    def spec(self, campaign: str) -> RunSpec:
        """The run. ``campaign``: its file, for the command that makes the run again."""
        return RunSpec(
            self.experiment, self.seed, command_given=f"opensearch-chaos campaign rerun {campaign} {self.key}"
        )


@dataclass(frozen=True)
class Excluded:
    """A combination that the file leaves out, and why."""

    what: str
    because: str


@dataclass(frozen=True)
class Matrix:
    """A campaign with everything resolved. ``cells`` in the order in which one worker makes them."""

    campaign: Campaign
    cells: tuple[Cell, ...]
    excluded: tuple[Excluded, ...]

    @property
    def file(self) -> CampaignFile:
        return self.campaign.written

    def of_shard(self, shard: Shard) -> tuple[Cell, ...]:
        """Whole blocks, so that the versions that are compared run on one machine."""
        return tuple(cell for cell in self.cells if cell.block % shard.of == shard.number - 1)

    def cell(self, key: str) -> Cell:
        """By its key, or a beginning of it that is of one cell alone. Raises InvalidInput."""
        found = [cell for cell in self.cells if cell.key.startswith(key)]
        if len(found) != 1:
            raise InvalidInput(
                f"{len(found) or 'no'} cells of {self.campaign.file} have a key that begins with {key}",
                remedy=f"list them with: opensearch-chaos campaign status {shlex.quote(self.campaign.file)} --cells",
            )
        return found[0]


@dataclass(frozen=True)
class Shard:
    """The ``number``-th of ``of`` parts, from 1."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """``2/5``. Raises InvalidInput."""
        found = re.fullmatch(r"(\d+)/(\d+)", text, re.ASCII)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise InvalidInput(
                f"--shard {text}: expected I/N with I from 1 to N, such as 2/5",
                remedy="an index that begins with 0 (CI, Kubernetes) needs 1 added",
            )
        return cls(int(found[1]), int(found[2]))


def resolve(campaign: Campaign, load: LoadExperiment) -> Matrix:
    """Every cell of a campaign. Raises InvalidInput with every problem of every file, those of this one with line and
    column."""
    file, source = campaign.written, Source.read(Path(campaign.file))
    errors: list[str] = []
    lines: list[list[Cell]] = []
    excluded: list[Excluded] = []
    used: set[int] = set()
    for place, entry in enumerate(file.matrix.experiments):
        try:
            found = _of_entry(campaign, entry, load)
        except InvalidInput as error:
            errors.append(error.message)
            continue
        for combination in found:
            kept = []
            for cell in combination:
                if (rule := _excluding(file, cell)) is None:
                    kept.append(cell)
                    continue
                used.add(rule)
                what = f"{cell.experiment.name} on {cell.experiment.topology.name}, {cell.version}"
                excluded.append(Excluded(what, file.matrix.exclude[rule].because))
            if kept:
                source.add(_unmade(kept, place))
                lines.append(kept)
    source.add(
        Problem(("matrix", "exclude", number), "no cell fits this: expected one of the matrix, or the line left out")
        for number in range(len(file.matrix.exclude))
        if number not in used and not errors
    )
    cells = _ordered(file, lines)
    if not cells and not errors and not source.lines:
        source.add([Problem(("matrix",), "every cell is left out: expected at least one", at_key=True)])
    source.add(_twice(cells))
    source.add(_of_one_name(cells))
    if errors := source.errors() + errors:
        raise InvalidInput("\n".join(errors))
    return Matrix(campaign, cells, tuple(excluded))


def _of_entry(campaign: Campaign, entry: EntryFile, load: LoadExperiment) -> Iterator[list[Cell]]:
    """A line for each topology: its cells of all versions, with the first seed."""
    path = Path(campaign.file).parent / entry.file
    matrix = campaign.written.matrix
    own = load(path)
    for topology in [load_topology(name, near=path) for name in matrix.topologies] or [own.topology]:
        line = []
        for each in [_with_version(topology, version, path) for version in matrix.versions] or [topology]:
            made = load(path, topology=each)
            version = spanned(_versions(made))
            line.append(Cell(made, entry.of or made.name, entry.profile, version, campaign.written.every_seed[0], 0))
        yield line


def _versions(experiment: Experiment) -> tuple[str, ...]:
    """Those that its nodes have, and the one that a fault upgrades them to."""
    topology = experiment.topology
    if any(each.params.kind == UPGRADE for each in plan.faults(experiment)):
        return topology.versions
    return topology.model_copy(update={"upgrade": None}).versions


def _with_version(topology: Topology, version: str, path: Path) -> Topology:
    """Every node of that version. Raises InvalidInput where the topology itself has several."""
    if len(topology.versions) > 1:
        raise InvalidInput(
            f"{path}: its topology {topology.name} has nodes of {', '.join(topology.versions)}, so a campaign cannot "
            f"set version {version}",
            remedy="leave it out of a matrix with versions, or give it a campaign of its own",
        )
    return topology.model_copy(update={"version": version})


def _excluding(file: CampaignFile, cell: Cell) -> int | None:
    """The number of the first line of ``exclude`` that a cell fits: of its versions any."""
    made = cell.experiment
    has = {"experiment": (made.name,), "version": _versions(made), "topology": (made.topology.name,)}
    for number, rule in enumerate(file.matrix.exclude):
        if all(value in has[name] for name, value in rule.given.items()):
            return number
    return None


def _unmade(cells: Sequence[Cell], place: int) -> Iterator[Problem]:
    """Versions that no lab can be made of."""
    known = lock.versions()
    for cell in cells:
        for version in cell.experiment.topology.versions:
            if version not in known:
                says = f"{cell.experiment.name}: OpenSearch {version} is not locked here: expected one of "
                yield Problem(("matrix", "experiments", place), f"{says}{', '.join(known)}")


def _ordered(file: CampaignFile, lines: Sequence[Sequence[Cell]]) -> tuple[Cell, ...]:
    """Every cell with its seed and block. Versions follow each other in a block, and every second repeat in reverse, so
    that what drifts steadily with time favours no version."""
    repeats = list(enumerate(file.every_seed))
    if file.order == "rounds":
        blocks = [(line, repeat, seed) for repeat, seed in repeats for line in lines]
    else:
        blocks = [(line, repeat, seed) for line in lines for repeat, seed in repeats]
    return tuple(
        replace(cell, seed=seed, repeat=repeat, block=block)
        for block, (line, repeat, seed) in enumerate(blocks)
        for cell in (line if repeat % 2 == 0 else tuple(reversed(line)))
    )


def _of_one_name(cells: Sequence[Cell]) -> Iterator[Problem]:
    """Two experiments of one name: their runs would be judged together or compared, as if they were of one."""
    seen: dict[tuple[str, ...], str] = {}
    for cell in (each for each in cells if each.repeat == 0):
        if seen.setdefault(cell.place[:-1], cell.compared) != cell.compared:
            says = f"two experiments are named {cell.experiment.name}: expected another name, or another profile"
            yield Problem(("matrix", "experiments"), says, at_key=True)
            return


def _twice(cells: Sequence[Cell]) -> Iterator[Problem]:
    """Two entries that mean the same run: its commit would stand for both."""
    seen: set[str] = set()
    for cell in cells:
        if cell.key in seen:
            says = f"{cell.name} is in the matrix twice: expected each run once"
            yield Problem(("matrix", "experiments"), says, at_key=True)
            return
        seen.add(cell.key)
