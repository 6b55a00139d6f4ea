"""What a file may name: kinds of faults and actions, metrics, workloads; and the models that are made from them.

Loading takes a grammar; who knows the kinds composes it (:mod:`chaos.registry`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field, WithJsonSchema, create_model

from chaos.base.operations import ADMIN, READ, STREAM, USUAL, OperationKind, names, requests_of, stream
from chaos.base.units import Malformed
from chaos.definitions import slis
from chaos.definitions.actions import ActionParams
from chaos.definitions.base import OneOrMore, Strict
from chaos.definitions.expectations import Metric, Unit, expectation_file
from chaos.definitions.experiment import (
    WORKLOAD_FILE,
    Experiment,
    ExperimentFile,
    GoodFloor,
    Guards,
    Helper,
    IndexFile,
    Load,
    LoadFile,
    OperationFile,
    Ordered,
    PhaseFile,
    StreamFile,
    StreamName,
    Word,
)
from chaos.definitions.steps import FaultParams, Step

AT_LEAST_ONE: dict[str, Any] = {"minProperties": 1}


def no_settings(workload: str) -> Mapping[str, Any]:
    """Those of a workload that leaves all to the topology."""
    return {}


def no_queries(workload: str) -> tuple[str, ...]:
    """Those of a workload whose searches have no names."""
    return ()


class Stream(NamedTuple):
    """``request``: the kind of its requests. ``workload``: of its index; None: the load's own."""

    request: str
    workload: str | None = None


def streams_in(data: Any) -> dict[str, Stream]:
    """The streams of a file by name, as far as it can be read: what is wrong is said elsewhere."""
    load = _mapping(_mapping(data).get("load"))
    found: dict[str, Stream] = {}
    for name, each in _mapping(load.get("streams")).items():
        request, index = _mapping(each).get("operation"), _mapping(each).get("index")
        workload = None if index is None else _mapping(_mapping(load.get("indices")).get(str(index))).get("workload")
        if isinstance(name, str) and isinstance(request, str) and re.match(STREAM, name):
            found[name] = Stream(request, str(workload) if workload is not None else None)
    return found


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


@dataclass(frozen=True)
class HelperKind:
    """A helper of a client library. ``says``: what it is; ``clients``: the kinds of client that it can run on."""

    says: str
    clients: tuple[str, ...]


@dataclass(frozen=True)
class Grammar:
    """Kinds by their names. ``workloads``: name → the operations that it declares; those of a file are the usual.

    ``settings``: what the workload of a name says of its index, where the topology says nothing else; ``queries``: the
    names of its searches; ``mapping``: of its documents, as far as it is known. ``helpers``: of client libraries, by
    which streams of bulks can be sent, by name.
    ``streams``: those of one experiment.
    """

    faults: Mapping[str, type[FaultParams]]
    actions: Mapping[str, type[ActionParams]]
    metrics: Mapping[str, Metric]
    workloads: Mapping[str, tuple[OperationKind, ...]]
    settings: Callable[[str], Mapping[str, Any]] = no_settings
    queries: Callable[[str], tuple[str, ...]] = no_queries
    mapping: Callable[[str], Mapping[str, Any]] = no_settings
    helpers: Mapping[str, HelperKind] = field(default_factory=dict)
    streams: Mapping[str, Stream] = field(default_factory=dict)

    def with_slis(self, names: Iterable[str]) -> Grammar:
        """The same with the metrics of an experiment's own SLIs."""
        more = slis.metrics(names)
        return replace(self, metrics={**self.metrics, **more}) if more else self

    def with_streams(self, streams: Mapping[str, Stream]) -> Grammar:
        """The same with the streams of an experiment, and the metrics of each; without those whose name means something
        else (:meth:`means_else`)."""
        new = {name: each for name, each in streams.items() if not self.means_else(name)}
        if not new:
            return self
        more = {
            (metric := f"{name}.{quantity}"): replace(each, name=metric, operation=name)
            for name in new
            for quantity, each in self._of_operations.items()
        }
        return replace(self, metrics={**more, **self.metrics}, streams=new)

    @cached_property
    def _of_operations(self) -> dict[str, Metric]:
        """The metrics that every operation has, without its name."""
        of = READ.name
        return {each.name.removeprefix(f"{of}."): each for each in self.metrics.values() if each.operation == of}

    @cached_property
    def _taken(self) -> frozenset[str]:
        """Keys of a load, and first words of metrics, of guards and of others' operations."""
        words = {name.partition(".")[0] for name in self.metrics if name.partition(".")[0] not in self.streams}
        guards = {(each.alias or name).partition(".")[0] for name, each in Guards.model_fields.items()}
        return frozenset({*LoadFile.model_fields, *Load.model_fields, *self.operations, *words, *guards, "sli"})

    def means_else(self, name: str) -> bool:
        """Whether a stream cannot have this name, since it means something else already."""
        return name in self._taken

    @cached_property
    def kinds(self) -> dict[str, type[Step]]:
        """Every step that a phase may have."""
        return {**self.faults, **self.actions}

    @cached_property
    def operations(self) -> tuple[str, ...]:
        """The names of operations that some workload declares, the usual ones first."""
        return names(self.workloads)

    def declared(self, workload: str) -> dict[str, OperationKind]:
        """The operations of a workload (its name, or its file), by name, and the streams that can be made of it, or of
        the workload of their index."""
        streams = [
            stream(name, each.request, self.workloads.get(each.workload or workload, USUAL))
            for name, each in self.streams.items()
        ]
        return {kind.name: kind for kind in (*self.workloads.get(workload, USUAL), *streams) if kind is not None}

    def experiment(self, data: Mapping[str, Any]) -> Experiment:
        """An experiment from its normal form, as it stands in a run's ``plan.json``."""
        load = data.get("load") or {}
        every = [each for each in (*load.values(), *(load.get("closed") or ())) if isinstance(each, Mapping)]
        named = {each["name"]: Stream(each["operation"]) for each in every if each.get("stream") is True}
        return Experiment.from_json(data, self.kinds, self.with_streams(named).guards)

    @cached_property
    def guards(self) -> type[Guards]:
        """The model of the guards: a floor for each operation that is not one of the usual, which have theirs."""
        usual = {kind.name for kind in USUAL}
        return _guards(tuple(name for name in (*self.operations, *self.streams) if name not in usual))

    @cached_property
    def load_file(self) -> type[LoadFile]:
        """The model of the load: an optional key for each operation, and the workloads by name."""
        fields: dict[str, Any] = {
            name: (self._operation(name) | None, Field(default=None, description=self._first(name).says))
            for name in self.operations
        }
        operations = create_model("Operations", __base__=Strict, **fields)
        own: dict[str, Any] = {
            "workload": (self._workload(), LoadFile.model_fields["workload"]),
            "indices": (dict[StreamName, self._index()], LoadFile.model_fields["indices"]),  # type: ignore[misc]
            "streams": (dict[self._stream_name(), self._stream()], LoadFile.model_fields["streams"]),  # type: ignore[misc]
        }
        # the last base's fields come first, so that people read of operations before anything else of the load
        bases: Any = (LoadFile, operations)
        made: type[LoadFile] = create_model("LoadFile", __base__=bases, __doc__=LoadFile.__doc__, **own)
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

    def _index(self) -> type[IndexFile]:
        workload: Any = (self._workload(), IndexFile.model_fields["workload"])
        return create_model("IndexFile", __base__=IndexFile, __doc__=IndexFile.__doc__, workload=workload)

    def _stream_name(self) -> Any:
        """A name that means nothing else yet."""

        def own(name: str) -> str:
            if self.means_else(name):
                raise Malformed("this name means something else in a load or in metrics: expected another one")
            return name

        taken = "|".join(map(re.escape, sorted(self._taken)))
        schema = {"type": "string", "pattern": rf"^(?!(?:{taken})$){STREAM.removeprefix('^')}"}
        return Annotated[StreamName, AfterValidator(own), WithJsonSchema(schema)]

    def _stream(self) -> type[StreamFile]:
        requests = tuple(dict.fromkeys(each for name in self.operations for each in requests_of(name, self.workloads)))
        kind: Any = (Literal[(*requests, ADMIN)], StreamFile.model_fields["operation"])
        made: type[StreamFile] = create_model(
            "StreamFile",
            __base__=StreamFile,
            __doc__=StreamFile.__doc__,
            operation=kind,
            client=(self._helper | None, OperationFile.model_fields["client"]),
        )
        return made

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
        units = {quantity: each.unit for quantity, each in self._of_operations.items()}
        expect = expectation_file(self.metrics, {**slis.METRICS, **_of_streams(units, self._taken)})
        made: type[ExperimentFile] = _like(
            ExperimentFile,
            phases=dict[Word, phase],  # type: ignore[valid-type]
            expect=tuple[expect, ...],  # type: ignore[valid-type]
            load=self.load_file,
            guards=self.guards,
        )
        if self.guards is Guards:
            return made
        says = ExperimentFile.model_fields["guards"].description
        guards: Any = (self.guards, Field(default_factory=self.guards, description=says))  # also where none are given
        return create_model(made.__name__, __base__=made, __doc__=made.__doc__, guards=guards)


@functools.lru_cache(64)
def _guards(names: tuple[str, ...]) -> type[Guards]:
    """The guards with a floor for each of these operations; for the same ones always the same class, as equality of
    experiments wants it."""
    fields: dict[str, Any] = {
        f"{name.replace('-', '_')}_good": (
            GoodFloor | None,
            Field(default=None, alias=f"{name}.good", description=f"a floor for {name}s, as read.good is"),
        )
        for name in names
    }
    return create_model("Guards", __base__=Guards, __doc__=Guards.__doc__, **fields) if fields else Guards


def _of_streams(quantities: Mapping[str, Unit], taken: Iterable[str]) -> dict[str, Unit]:
    """Patterns of metrics of some stream, as the published schema knows them. ``taken``: names that no stream has."""
    not_taken = "".join([f"(?!{re.escape(each)}\\.)" for each in sorted(taken)])
    by: dict[Unit, list[str]] = {}
    for quantity, unit in quantities.items():
        by.setdefault(unit, []).append(re.escape(quantity))
    return {rf"^{not_taken}[a-z][a-z0-9-]*\.(?:{'|'.join(names)})$": unit for unit, names in by.items()}


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
