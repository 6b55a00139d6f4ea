"""A campaign: the cells of a matrix of experiments, versions, topologies and seeds, each of which is one run.

``experiments/campaigns/NAME.yaml``, ``kind: campaign``. Which cells a file means is in :mod:`chaos.campaign.matrix`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, StrictInt, model_validator
from pydantic_core import core_schema

from chaos.base.errors import InvalidInput
from chaos.base.units import Malformed, PositiveDuration, Size
from chaos.definitions import shipped
from chaos.definitions.base import API_VERSION, Strict
from chaos.definitions.loading import validated
from chaos.definitions.source import Problem, Source, shown
from chaos.definitions.topology import Name, Version

FOLDER = Path("experiments") / "campaigns"
DEFAULT = "default"
"""The profile of an experiment that is not said to be another one's."""
ARTIFACTS = Size.parse("256MiB")


class EntryFile(Strict):
    """One experiment of a matrix."""

    file: str = Field(min_length=1, description="the experiment's file, relative to the campaign's")
    profile: Name = Field(default=DEFAULT, description="how the cluster is set up in it, for example tuned")
    of: Name | None = Field(
        default=None,
        description="the experiment beside which the scorecard shows it, for example zone-black-hole of "
        "zone-black-hole-tuned; default: its own name",
    )


def _entry(value: Any) -> Any:
    return {"file": value} if isinstance(value, str) else value


class _FileOrEntry:
    """Publishes "a file, or a mapping" instead of the mapping alone."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "minLength": 1}, handler(schema)]}


Entry = Annotated[EntryFile, BeforeValidator(_entry), _FileOrEntry]


class ExcludeFile(Strict):
    """Cells that are left out: those that fit all that is given."""

    experiment: Name | None = Field(default=None, description="the experiment's name")
    version: Version | None = Field(default=None, description="of OpenSearch")
    topology: Name | None = Field(default=None, description="the topology's name")
    because: str = Field(min_length=1, description="why; the plan and the scorecard show it")

    @property
    def given(self) -> dict[str, str]:
        """What a cell must have to be left out."""
        named = {"experiment": self.experiment, "version": self.version, "topology": self.topology}
        return {name: value for name, value in named.items() if value is not None}

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.given:
            raise Malformed("this leaves every cell out: expected experiment, version or topology beside because")
        return self


class MatrixFile(Strict):
    """What is combined with what."""

    experiments: tuple[Entry, ...] = Field(
        min_length=1,
        description="files, each alone or as {file: ../zone-black-hole-tuned.yaml, of: zone-black-hole, "
        "profile: tuned}",
    )
    versions: tuple[Version, ...] = Field(
        default=(), description="of OpenSearch, in place of the topology's own, for example [2.19.6, 3.8.0]"
    )
    topologies: tuple[Name, ...] = Field(
        default=(), description="names, in place of the one that each experiment names, for example [3az, 2az]"
    )
    exclude: tuple[ExcludeFile, ...] = Field(default=(), description="cells that are left out, each with its reason")


class BudgetFile(Strict):
    """How much a campaign may take."""

    wall: PositiveDuration | None = Field(
        default=None, description="no cell begins that would end later than this after a worker's start"
    )
    machines: StrictInt = Field(
        default=1,
        ge=1,
        le=1000,
        description="how many shards there may be at most, and how many workers of Dask are used at a time",
    )
    artifacts: Size = Field(
        default=ARTIFACTS,
        description="what a cell may keep in the store: beyond it logs are left out, largest first, and named",
    )


class RetryFile(Strict):
    """What is tried again. Weaknesses and inconclusive runs never are: else a bad run could be drawn again."""

    lost: StrictInt = Field(default=2, ge=0, le=10, description="so many times after a worker was lost in mid-run")
    error: StrictInt = Field(default=2, ge=0, le=10, description="so many times after an error of the suite's own")


class CampaignFile(Strict):
    """A campaign as written."""

    api_version: Literal["opensearch-chaos/v1"] = Field(alias="apiVersion", description=API_VERSION)
    kind: Literal["campaign"] = Field(description="campaign")
    name: Name = Field(description="the file's name without suffix")
    description: str = Field(default="", description="for people")
    store: str = Field(
        min_length=1,
        description="where runs are kept: a folder (relative to where the command runs), or s3://BUCKET/PREFIX",
    )
    matrix: MatrixFile
    repeats: StrictInt | None = Field(
        default=None, ge=1, le=1000, description="runs of each cell's experiment, with the seeds seed, seed + 1, …"
    )
    seed: StrictInt = Field(default=1, ge=0, description="of the first repeat")
    seeds: tuple[StrictInt, ...] = Field(default=(), description="in place of repeats and seed: one run for each")
    order: Literal["rounds", "experiments"] = Field(
        default="rounds",
        description="rounds: every experiment once, then again; experiments: all runs of one, then the next. Versions "
        "alternate in both, and stay on one machine",
    )
    budget: BudgetFile = BudgetFile()
    retry: RetryFile = RetryFile()

    @property
    def every_seed(self) -> tuple[int, ...]:
        """One for each repeat, in order."""
        return self.seeds or tuple(range(self.seed, self.seed + (self.repeats or 1)))

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.seeds and (self.repeats is not None or "seed" in self.model_fields_set):
            raise Malformed("seeds name each run: expected no repeats and no seed beside them")
        if not self.seeds and self.repeats is None:
            raise Malformed("how many runs are wanted is missing: expected repeats, or seeds")
        if any(seed < 0 for seed in self.seeds):
            raise Malformed("a seed is below 0: expected 0 or more")
        return self


class Campaign(Strict):
    """A campaign with its file."""

    file: str
    written: CampaignFile

    @property
    def name(self) -> str:
        return self.written.name


def load_campaign(path: Path) -> Campaign:
    """Read a campaign. Raises InvalidInput with file, line and column of every error; experiments are not read."""
    source = Source.read(path)
    file = validated(source, CampaignFile, "campaign")
    if file is not None:
        source.add(_check(file, path))
    source.raise_if_wrong()
    assert file is not None
    return Campaign(file=shown(path), written=file)


def _check(file: CampaignFile, path: Path) -> Iterator[Problem]:
    if file.name != path.stem:
        yield Problem(("name",), f"the name is {file.name} and the file is {path.name}: expected the same")
    for place, entry in enumerate(file.matrix.experiments):
        if not os.path.isfile(path.parent / entry.file):
            says = (
                f"there is no file {entry.file} (paths begin at this file's folder): expected an experiment's, such as "
            )
            yield Problem(("matrix", "experiments", place), f"{says}../no-fault.yaml{_copied(entry.file)}")
    several: dict[tuple[str, ...], tuple[Any, ...]] = {
        ("matrix", "experiments"): tuple((each.file, each.profile) for each in file.matrix.experiments),
        ("matrix", "versions"): file.matrix.versions,
        ("matrix", "topologies"): file.matrix.topologies,
        ("seeds",): file.seeds,
    }
    for loc, values in several.items():
        for value, times in Counter(values).items():
            if times > 1:
                name = value[0] if isinstance(value, tuple) else value
                yield Problem(loc, f"{name} is named {times} times: expected each once", at_key=True)


def _copied(file: str) -> str:
    """How the experiment of this name that comes with this package gets there; empty where there is none."""
    name = Path(file).stem
    try:
        shipped.named(name)
    except InvalidInput:
        return ""
    return f"; get the one that comes with this package by: opensearch-chaos experiments {name} --copy-to FOLDER"
