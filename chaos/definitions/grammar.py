"""What a file may name: kinds of faults and actions, metrics, workloads; and the models that are made from them.

Loading takes a grammar; who knows the kinds composes it (:mod:`chaos.registry`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, create_model

from chaos.base.operations import USUAL, OperationKind, names, requests_of
from chaos.base.units import Malformed
from chaos.definitions import slis
from chaos.definitions.actions import ActionParams
from chaos.definitions.base import OneOrMore, Strict
from chaos.definitions.expectations import Metric, expectation_file
from chaos.definitions.experiment import (
    WORKLOAD_FILE,
    Experiment,
    ExperimentFile,
    GoodFloor,
    Guards,
    Helper,
    LoadFile,
    OperationFile,
    Ordered,
    PhaseFile,
    Word,
)
from chaos.definitions.steps import FaultParams, Step

AT_LEAST_ONE: dict[str, Any] = {"minProperties": 1}


def no_settings(workload: str) -> Mapping[str, Any]:
    """Those of a workload that leaves all to the topology."""
    return {}


@dataclass(frozen=True)
class HelperKind:
    """A helper of a client library. ``says``: what it is; ``clients``: the kinds of client that it can run on."""

    says: str
    clients: tuple[str, ...]


@dataclass(frozen=True)
class Grammar:
    """Kinds by their names. ``workloads``: name → the operations that it declares; those of a file are the usual.

    ``settings``: what the workload of a name says of its index, where the topology says nothing else. ``helpers``: of
    client libraries, by which streams of bulks can be sent, by name.
    """

    faults: Mapping[str, type[FaultParams]]
    actions: Mapping[str, type[ActionParams]]
    metrics: Mapping[str, Metric]
    workloads: Mapping[str, tuple[OperationKind, ...]]
    settings: Callable[[str], Mapping[str, Any]] = no_settings
    helpers: Mapping[str, HelperKind] = field(default_factory=dict)

    def with_slis(self, names: Iterable[str]) -> Grammar:
        """The same with the metrics of an experiment's own SLIs."""
        more = slis.metrics(names)
        return replace(self, metrics={**self.metrics, **more}) if more else self

    @cached_property
    def kinds(self) -> dict[str, type[Step]]:
        """Every step that a phase may have."""
        return {**self.faults, **self.actions}

    @cached_property
    def operations(self) -> tuple[str, ...]:
        """The names of operations that some workload declares, the usual ones first."""
        return names(self.workloads)

    def declared(self, workload: str) -> dict[str, OperationKind]:
        """The operations of a workload (its name, or its file), by name."""
        return {kind.name: kind for kind in self.workloads.get(workload, USUAL)}

    def experiment(self, data: Mapping[str, Any]) -> Experiment:
        """An experiment from its normal form, as it stands in a run's ``plan.json``."""
        return Experiment.from_json(data, self.kinds, self.guards)

    @cached_property
    def guards(self) -> type[Guards]:
        """The model of the guards: a floor for each operation that is not one of the usual, which have theirs."""
        fields: dict[str, Any] = {
            f"{name}_good": (
                GoodFloor | None,
                Field(default=None, alias=f"{name}.good", description=f"a floor for {name}s, as read.good is"),
            )
            for name in self.operations
            if name not in {kind.name for kind in USUAL}
        }
        return create_model("Guards", __base__=Guards, __doc__=Guards.__doc__, **fields) if fields else Guards

    @cached_property
    def load_file(self) -> type[LoadFile]:
        """The model of the load: an optional key for each operation, and the workloads by name."""
        fields: dict[str, Any] = {
            name: (self._operation(name) | None, Field(default=None, description=self._first(name).says))
            for name in self.operations
        }
        operations = create_model("Operations", __base__=Strict, **fields)
        named: Any = (self._workload(), LoadFile.model_fields["workload"])
        # the last base's fields come first, so that people read of operations before anything else of the load
        bases: Any = (LoadFile, operations)
        made: type[LoadFile] = create_model("LoadFile", __base__=bases, __doc__=LoadFile.__doc__, workload=named)
        return made

    def _workload(self) -> Any:
        """The name of a workload, or the path of a file."""
        known = list(self.workloads)

        def known_or_file(value: str) -> str:
            if value not in known and re.search(WORKLOAD_FILE, value) is None:
                raise Malformed(f"expected {', '.join(known)}, or the path of a file (x.yaml), got {value!r}")
            return value

        schema = {"anyOf": [{"enum": known}, {"type": "string", "pattern": WORKLOAD_FILE}]}
        return Annotated[str, AfterValidator(known_or_file), WithJsonSchema(schema)]

    def _operation(self, name: str) -> type[OperationFile]:
        requests = requests_of(name, self.workloads)
        says = f"the kind of request; by default {self._first(name).usual}, or what the workload says"
        kind: Any = (Literal[requests] | None, Field(default=None, description=says))
        of_it = f"The operation {name} of the load."
        made: type[OperationFile] = create_model(
            f"{name.capitalize()}File",
            __base__=OperationFile,
            __doc__=of_it,
            operation=kind,
            client=(self._helper | None, OperationFile.model_fields["client"]),
        )
        return made

    @cached_property
    def _helper(self) -> Any:
        """The model of a stream's helper: those that there are, by name."""
        says = "; ".join(f"{name}: {each.says}" for name, each in self.helpers.items())
        kind: Any = (Literal[tuple(self.helpers)], Field(description=says)) if self.helpers else (str, Field())
        return create_model("HelperFile", __base__=Helper, __doc__=Helper.__doc__, kind=kind)

    def _first(self, name: str) -> OperationKind:
        """The operation of this name as the first workload declares it that does."""
        return next(kind for kinds in self.workloads.values() for kind in kinds if kind.name == name)

    @cached_property
    def experiment_file(self) -> type[ExperimentFile]:
        """The model of an experiment as people write it."""
        inject = _steps(
            "InjectFile",
            "Faults to inject: kind to parameters, or to a list of them.",
            {kind: OneOrMore[model] | None for kind, model in self.faults.items()},  # type: ignore[valid-type]
        )
        do = _steps(
            "DoFile",
            "Actions to take: kind to parameters.",
            {kind: model | None for kind, model in self.actions.items()},
        )
        phase = _like(PhaseFile, inject=inject | None, do=do | None)
        expect = expectation_file(self.metrics, slis.METRIC)
        made: type[ExperimentFile] = _like(
            ExperimentFile,
            phases=dict[Word, phase],  # type: ignore[valid-type]
            expect=tuple[expect, ...],  # type: ignore[valid-type]
            load=self.load_file,
            guards=self.guards,
        )
        return made


def _steps(name: str, says: str, kinds: Mapping[str, Any]) -> type[Ordered]:
    fields: dict[str, Any] = {
        kind.replace(".", "_"): (model, Field(default=None, alias=kind)) for kind, model in kinds.items()
    }
    made = create_model(name, __base__=Ordered, __doc__=says, **fields)
    made.model_config["json_schema_extra"] = AT_LEAST_ONE
    return made


def _like(base: Any, **annotations: Any) -> Any:
    """The same model with fields of narrower types."""
    fields: dict[str, Any] = {name: (kind, base.model_fields[name]) for name, kind in annotations.items()}
    return create_model(base.__name__, __base__=base, __doc__=base.__doc__, **fields)
