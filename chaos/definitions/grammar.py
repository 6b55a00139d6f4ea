"""What a file may name: kinds of faults and actions, metrics of expectations; and the models that are made from them.

Loading takes a grammar; who knows the kinds composes it (:mod:`chaos.registry`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from pydantic import Field, create_model

from chaos.definitions.actions import ActionParams
from chaos.definitions.base import OneOrMore
from chaos.definitions.expectations import Metric, expectation_file
from chaos.definitions.experiment import ExperimentFile, LoadFile, Ordered, PhaseFile, Word
from chaos.definitions.steps import FaultParams, Step

AT_LEAST_ONE: dict[str, Any] = {"minProperties": 1}


@dataclass(frozen=True)
class Grammar:
    """Kinds by their names."""

    faults: Mapping[str, type[FaultParams]]
    actions: Mapping[str, type[ActionParams]]
    metrics: Mapping[str, Metric]
    workloads: tuple[str, ...]

    @cached_property
    def kinds(self) -> dict[str, type[Step]]:
        """Every step that a phase may have."""
        return {**self.faults, **self.actions}

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
        expect = expectation_file(self.metrics)
        made: type[ExperimentFile] = _like(
            ExperimentFile,
            phases=dict[Word, phase],  # type: ignore[valid-type]
            expect=tuple[expect, ...],  # type: ignore[valid-type]
            load=_like(LoadFile, workload=Literal[self.workloads]),
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
