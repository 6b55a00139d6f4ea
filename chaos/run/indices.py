"""The indices of a run's load: its first one, and those that its streams name (``load.indices``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos.definitions.experiment import Experiment, Rolled
from chaos.definitions.workload import WorkloadDefinition
from chaos.load import workloads
from chaos.load.config import IndexConfig
from chaos.load.workload import Workload
from chaos.opensearch.requests import write_alias
from chaos.run.shape import Shape


@dataclass
class RunIndex:
    """One index. ``place``: its name in the experiment, None of the first; ``index``: in the cluster.

    ``documents``: how many are there before the load. ``shape``: once it was looked at. ``rolled``: whether it is a
    name with several indices, a data stream or an alias.
    """

    place: str | None
    index: str
    named: str
    dataset: WorkloadDefinition | None
    documents: int
    settings: Mapping[str, Any]
    shape: Shape = field(default_factory=Shape)
    rolled: Rolled = field(default_factory=Rolled)

    @property
    def workload(self) -> Workload:
        return workloads.of(self.named, self.dataset)

    @property
    def alias(self) -> str | None:
        """By which writes go, which must not make it anew; None: a data stream has no alias."""
        if self.rolled.rolled == "data_stream":
            return None
        return write_alias(self.index) if self.rolled.rolled is None else self.index

    @property
    def config(self) -> IndexConfig:
        """What the driver is told of it."""
        return IndexConfig(
            place=self.place,
            index=self.index,
            alias=self.alias,
            workload=self.named,
            dataset=self.dataset.to_json() if self.dataset is not None else None,
            documents=self.documents,
            shards=self.shards,
            copies=self.shape.copies,
            visible_after_s=self.shape.visible_after_s,
            rolled=self.rolled.rolled,
        )

    @property
    def shards(self) -> int | None:
        """Shards that a search must ask; None where that changes, because it is rolled over."""
        return self.shape.shards if self.rolled.rolled is None else None


class Indices:
    """All of a run. ``index``: the first one's name in the cluster, with which those of the others begin."""

    def __init__(self, index: str, experiment: Experiment) -> None:
        load, topology = experiment.load, experiment.topology
        self.first = RunIndex(
            None, index, load.workload, load.dataset, load.documents, topology.settings.index, rolled=load
        )
        self.others = tuple(
            RunIndex(
                each.name,
                f"{index}-{each.name}",
                each.workload,
                each.dataset,
                each.documents,
                each.settings,
                rolled=each,
            )
            for each in load.indices
        )

    def __iter__(self) -> Iterator[RunIndex]:
        return iter((self.first, *self.others))

    @property
    def names(self) -> tuple[str, ...]:
        """In the cluster."""
        return tuple(each.index for each in self)
