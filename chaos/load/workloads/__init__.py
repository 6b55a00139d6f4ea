"""Workloads by name: those of this folder, and those of other packages. One of an experiment's own is a file.

In this folder a workload is the ``WORKLOAD`` of a module, or a YAML file that bears its name.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaos.base import plugins
from chaos.base.errors import InvalidInput
from chaos.base.operations import USUAL, OperationKind
from chaos.definitions.loading import load_workload
from chaos.definitions.workload import WorkloadDefinition
from chaos.load.dataset import Dataset
from chaos.load.workload import Workload

DEFAULT = "documents"
FILES = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.yaml"))}
"""Those that are written in YAML; each is read when somebody asks for it."""


@functools.cache
def _in_python() -> dict[str, Workload]:
    found = [module.WORKLOAD for module in plugins.modules(sys.modules[__name__])]
    for name, brought in plugins.brought("workloads"):
        if not isinstance(brought, Workload):
            raise InvalidInput(
                f"'{name}' brings {brought!r}, which is no workload",
                remedy="name an instance of chaos.api.workloads.Workload",
            )
        brought.refuse_unfit()
        found.append(brought)
    plugins.refuse_twice("workloads", (*FILES, *(each.name for each in found)))
    return {each.name: each for each in found}


def declared() -> dict[str, tuple[OperationKind, ...]]:
    """Name → operations of all that there are, ours first.

    Raises InvalidInput for what a package brings and that is none, or is twice.
    """
    ours = {name: each.operations for name, each in _in_python().items()}
    return {DEFAULT: ours[DEFAULT], **dict.fromkeys(FILES, USUAL), **ours}


def every() -> dict[str, Workload]:
    """All that there are, ours first. Raises InvalidInput as :func:`declared`."""
    return {name: named(name) for name in declared()}


@functools.cache
def _in_yaml(name: str) -> Dataset:
    return Dataset(load_workload(FILES[name]))


def named(name: str) -> Workload:
    """The workload of this name. Raises InvalidInput when there is none."""
    if name in FILES:
        return _in_yaml(name)
    if name not in _in_python():
        raise InvalidInput(f"there is no workload '{name}'", remedy=f"choose one of: {', '.join(declared())}")
    return _in_python()[name]


def settings_of(name: str) -> Mapping[str, Any]:
    """What the workload of this name says of its index, where the topology says nothing else; nothing where there is
    no such workload."""
    return named(name).settings if name in declared() else {}


def mapping_of(name: str) -> Mapping[str, Any]:
    """The mapping of the workload of this name; nothing where there is no such workload."""
    return named(name).mapping if name in declared() else {}


def queries_of(name: str) -> tuple[str, ...]:
    """The names of the searches of the workload of this name; none where it is not written in YAML."""
    return tuple(_in_yaml(name).definition.queries) if name in FILES else ()


def of(name: str, dataset: WorkloadDefinition | Mapping[str, Any] | None = None) -> Workload:
    """The workload of a load. ``dataset``: its definition where it is a file, or that in normal form.

    Raises InvalidInput when there is none of that name, or when the read-back could not rest on it.
    """
    if dataset is None:
        return named(name)
    data = dataset.to_json() if isinstance(dataset, WorkloadDefinition) else dataset
    return _of_text(json.dumps(data))


@functools.lru_cache(8)
def _of_text(text: str) -> Dataset:
    """A plan asks several times, and tables of words take their time."""
    made = Dataset(WorkloadDefinition.from_json(json.loads(text)))
    made.refuse_unfit()
    return made
