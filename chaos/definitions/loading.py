"""From a file to a definition, or to every reason why not, each with its file, line and column."""

from __future__ import annotations

import json
import os
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

import chaos
from chaos.base.errors import InvalidInput
from chaos.base.operations import SEARCHING, STREAM
from chaos.base.units import Duration
from chaos.definitions import crosschecks, objectives, overriding, slis, varied, vary
from chaos.definitions import experiment as experiments
from chaos.definitions import topology as topologies
from chaos.definitions import workload as workloads
from chaos.definitions.expectations import SAYS_SOMETHING
from chaos.definitions.experiment import WORD, WORKLOAD_FILE, Experiment, ExperimentFile, LoadIndex
from chaos.definitions.grammar import Grammar, streams_in
from chaos.definitions.overriding import Override
from chaos.definitions.rates import ChangingRate, read_times
from chaos.definitions.rules import AlertRule, PrometheusRule, RulesFile, chosen
from chaos.definitions.selectors import NAME
from chaos.definitions.source import Loc, Problem, Source, beside, did_you_mean, shown
from chaos.definitions.topology import VERSION, Topology, TopologyFile
from chaos.definitions.varied import Side, SideSource, Varied
from chaos.definitions.workload import FieldFile, Template, WorkloadDefinition, WorkloadFile

_M = TypeVar("_M", bound=BaseModel)
_T = TypeVar("_T", Topology, Topology | None)
SUFFIXES = (".yaml", ".yml")
KINDS = ("experiment", "topology", "upstream", "existing", "gameday", "workload", "campaign")
"""What a definition may be; a file that does not say is an experiment."""


def load_experiment(
    path: str | Path,
    grammar: Grammar,
    *,
    topology: str | Path | Topology | None = None,
    controlled: bool = True,
    good: Mapping[str, Duration] | None = None,
    sides: bool = False,
    overrides: Sequence[Override] = (),
) -> Experiment:
    """Read an experiment with its topology. ``grammar``: what it may name.

    ``topology`` (a name, a path, or one that is already loaded) replaces the one that the file names. ``controlled``
    False: without its failover controllers. ``good``: objectives that replace the file's
    (:func:`chaos.definitions.objectives.parse`). ``sides``: the caller can make the runs of an experiment with sides,
    and gets a :class:`.Varied` of one; else such a file is refused. ``overrides``: values that replace the file's
    (:func:`chaos.definitions.overriding.parse`).
    Raises :class:`InvalidInput`, whose message has one line ``file:line:column: …`` per error.
    """
    path = Path(path)
    source = Source.read(path)
    own, below = overriding.parted(overrides)
    if own:
        overriding.override(source, own, grammar.with_streams(streams_in(source.data)).experiment_file)
    without = grammar.with_slis(slis.written_in(source.data))
    grammar = without.with_streams(streams_in(source.data))
    file = validated(source, grammar.experiment_file, "experiment")
    errors: list[str] = []
    found: Topology | None = None
    where: Path | None = None
    named = topology if topology is not None else source.data.get("topology")
    if isinstance(named, Topology):
        found = named
        errors += [f"{each.says}: the topology is that of a cluster which is there" for each in below]
    elif isinstance(named, str | Path) and str(named):
        try:
            where = _find(named, near=path)
        except InvalidInput as error:
            if topology is not None:
                errors.append(error.message)
            else:
                source.add([Problem(("topology",), error.message)])
        else:
            try:
                found = _topology(where, below)
            except InvalidInput as error:
                errors.append(error.message)
    dataset: WorkloadDefinition | None = None
    indices: tuple[LoadIndex, ...] = ()
    if file is not None:
        indices = _indices(file, found, source, grammar, errors)
        dataset, found = _with_workload(file, found, source, grammar, errors)
    if file is not None and found is not None:
        source.add(crosschecks.check(file, found, grammar, indices))
        if file.vary is not None:
            source.add(vary.check(file.vary, file.phases, file.load.every, grammar.metrics))
    times = {} if file is None else _listed_times(file, source)
    alerts = {} if file is None else _alerts(file, source, errors)
    errors = source.errors() + errors
    if errors or file is None or found is None:
        raise InvalidInput("\n".join(errors))
    if file.vary is not None:
        _refuse_sides(source, sides=sides, controlled=controlled, where=where)
    if not controlled:
        if file.controller is None:
            raise InvalidInput(f"{path}: there are no controllers to leave out", remedy="leave out --no-controller")
        file = file.model_copy(update={"controller": None})
    resolved = experiments.resolve(
        file, found, path, grammar.declared(file.load.workload), dataset, indices, times, alerts
    )
    resolved = resolved.model_copy(update={"overrides": overriding.written(overrides)})
    experiment = objectives.override(resolved, good or {})
    if file.vary is None or where is None:
        return experiment
    of_option = topology is not None or bool(below)
    return _varied(source, file.vary, experiment, where, without, given=of_option, good=good or {}, of_topology=below)


def _listed_times(file: ExperimentFile, source: Source) -> dict[str, tuple[float, ...]]:
    """The times of each operation whose rate names a file of them, which stands beside the experiment's."""
    found: dict[str, tuple[float, ...]] = {}
    for name, given in file.load.operations.items():
        if isinstance(given.rate, ChangingRate) and isinstance(given.rate.times, str):
            try:
                found[name] = read_times(beside(source.path.parent, given.rate.times))
            except InvalidInput as error:
                source.add([Problem((*file.load.place(name), "rate", "times"), error.message)])
    return found


def _alerts(file: ExperimentFile, source: Source, errors: list[str]) -> dict[str, tuple[AlertRule, ...]]:
    """The alert rules of each SLI that has some, from their files beside the experiment's own."""
    given = {name: sli for name, sli in file.slis.items() if sli.rules is not None}
    return {name: alerts_of(sli, ("slis", name), source, errors) for name, sli in given.items()}


class OfRules(Protocol):
    """What names a file of alert rules and chooses among them."""

    @property
    def rules(self) -> str | None: ...
    @property
    def alert(self) -> tuple[str, ...] | None: ...
    @property
    def labels(self) -> dict[str, str] | None: ...


def alerts_of(given: OfRules, place: Loc, source: Source, errors: list[str]) -> tuple[AlertRule, ...]:
    """The alert rules that are chosen of a file beside the one that names it at ``place``. ``source`` is told of names
    and labels that choose none, ``errors`` of what is wrong in the file itself, each a line."""
    assert given.rules is not None
    try:
        every = load_rules(beside(source.path.parent, given.rules))
    except InvalidInput as error:
        errors += [each for each in error.message.splitlines() if each not in errors]
        return ()
    found = chosen(every, given.alert, given.labels)
    known = list(dict.fromkeys(rule.alert for rule in every))
    for index, alert in enumerate(given.alert or ()):
        if alert not in known:
            says = f"{given.rules} has no alert {alert}: {did_you_mean(alert, known)}"
            source.add([Problem((*place, "alert", index), says)])
    if not found and set(given.alert or ()) <= set(known):
        which = ", ".join(f"{label}: {value}" for label, value in (given.labels or {}).items())
        says = f"no alert of {given.rules} has {which}: expected labels that one has" if which else ""
        source.add([Problem((*place, "labels" if which else "rules"), says or f"{given.rules} has no alert")])
    return found


def load_rules(path: Path) -> tuple[AlertRule, ...]:
    """The alert rules of a file as Prometheus reads it. Raises InvalidInput with a line for each error."""
    source = Source.read(path, nulls=True)
    model: type[RulesFile] | type[PrometheusRule]
    model = PrometheusRule if source.data.get("kind") == "PrometheusRule" else RulesFile
    file = validated(source, model, "experiment")
    source.raise_if_wrong()
    assert file is not None
    return file.alerts


def _refuse_sides(source: Source, *, sides: bool, controlled: bool, where: Path | None) -> None:
    """Raises InvalidInput for a file with sides where one plan is wanted, or an option would change all sides alike."""
    line, column = source.position((vary.KEY,), at_key=True)
    at = f"{shown(source.path)}:{line}:{column}"
    if not sides or where is None:
        raise InvalidInput(
            f"{at}: this experiment has sides, and an experiment that is one plan was expected",
            remedy="run it with: opensearch-chaos run, on labs; or take `vary` out",
        )
    if not controlled:
        raise InvalidInput(f"{at}: the sides say which controllers there are", remedy="leave out --no-controller")


def _varied(
    source: Source,
    file: vary.VaryFile,
    base: Experiment,
    where: Path,
    grammar: Grammar,
    *,
    given: bool,
    good: Mapping[str, Duration],
    of_topology: Sequence[Override],
) -> Varied:
    """The experiment with its sides. ``where``: the file of its topology; ``given``: an option names it, or changes it
    by the values ``of_topology``.

    Raises InvalidInput with every problem of every side.
    """
    errors: list[str] = []
    made = []
    for name, side in file.sides.items():
        prefix = (vary.KEY, "sides", name)
        topology: Topology
        if isinstance(side.topology, str):
            if given:
                says = f"side {name} names its topology, so none can be given on the command line"
                source.add([Problem((*prefix, "topology"), says)])
                continue
            try:
                named = _find(side.topology, near=source.path)
            except InvalidInput as error:
                source.add([Problem((*prefix, "topology"), f"side {name}: {error.message}")])
                continue
            try:
                topology = _topology(named)
            except InvalidInput as error:
                errors.append(error.message)
                continue
        else:
            data = vary.merged(_of_topology(where, of_topology).data, side.topology or {})
            below = SideSource.made(source, (*prefix, "topology"), data)
            written = validated(below, TopologyFile, "topology")
            if written is not None:
                below.add(topologies.check(written))
            source.lines += varied.lines(below, name)
            if written is None or below.lines:
                continue
            topology = topologies.resolve(written, shown(where))
        plain = {key: value for key, value in source.data.items() if key != vary.KEY}
        overlay = {key: value for key, value in side.changes().items() if key != "topology"}
        over = SideSource.made(source, prefix, vary.merged(plain, overlay))
        own = grammar.with_streams(streams_in(over.data))
        whole = validated(over, own.experiment_file, "experiment")
        if whole is not None:
            indices = _indices(whole, topology, over, own, errors)
            dataset, topology = _with_workload(whole, topology, over, own, errors)
            over.add(crosschecks.check(whole, topology, own, indices))
        times = {} if whole is None else _listed_times(whole, over)
        alerts = {} if whole is None else _alerts(whole, over, errors)
        source.lines += varied.lines(over, name)
        if whole is None or over.lines:
            continue
        declared = own.declared(whole.load.workload)
        resolved = experiments.resolve(whole, topology, source.path, declared, dataset, indices, times, alerts)
        resolved = resolved.model_copy(update={"overrides": base.overrides})
        made.append(Side(name=name, changes=side.changes(), experiment=objectives.override(resolved, good)))
    source.add(varied.alike(tuple(made)))
    if errors := source.errors() + errors:
        raise InvalidInput("\n".join(errors))
    return Varied.of(
        base,
        tuple(made),
        times=file.times,
        new_labs=file.new_labs,
        decide=file.decide,
        tolerance=dict(file.tolerance),
        protection=_protection(file),
    )


def _protection(file: vary.VaryFile) -> dict[str, Any] | None:
    """As data: it is only carried to the judgement of the sides."""
    return None if file.protection is None else file.protection.model_dump(mode="json")


def load_topology(name_or_path: str | Path, near: str | Path | None = None) -> Topology:
    """Read a topology by its name (a file without suffix) or its path.

    ``near`` is the experiment file from which it is named. A name is looked for beside that file, in
    ``topologies`` beside and above its folder, in ``./topologies`` and in those that come with this
    package. Raises :class:`InvalidInput` as :func:`load_experiment`.
    """
    return _topology(_find(name_or_path, near=Path(near) if near is not None else None))


def _of_topology(path: Path, given: Sequence[Override]) -> Source:
    """A topology's file with values in place of its own."""
    source = Source.read(path)
    overriding.override(source, given, TopologyFile)
    return source


def _topology(path: Path, given: Sequence[Override] = ()) -> Topology:
    source = _of_topology(path, given)
    file = validated(source, TopologyFile, "topology")
    if file is not None:
        source.add(topologies.check(file))
    source.raise_if_wrong()
    assert file is not None  # validated has added at least one problem otherwise
    return topologies.resolve(file, shown(path))


def located_in(file: Path, loc: Loc, error: InvalidInput) -> InvalidInput:
    """The same error with file, line and column of ``loc`` in an experiment's file."""
    line, column = Source.read(file).position(loc, at_key=True)
    return InvalidInput(f"{shown(file)}:{line}:{column}: {error.message}", remedy=error.remedy)


# ------------------------------------------------------------------------------------------- workloads


def load_workload(path: str | Path, near: str | Path | None = None) -> WorkloadDefinition:
    """Read a workload's file, with the index template that it names. ``near``: the experiment that names it.

    Raises :class:`InvalidInput` as :func:`load_experiment`.
    """
    tried = _places(path, None if near is None else Path(near))
    where = next((each for each in tried if os.path.isfile(each)), tried[0])
    source = Source.read(where)
    file = validated(source, WorkloadFile, "workload")
    template: Template | None = None
    if file is not None:
        mapping = file.mapping
        if file.template is not None:
            template, wrong = _template(where.parent / file.template)
            mapping = template.mapping
            source.add(Problem(("template",), f"{file.template}: {says}") for says in wrong)
        source.add(workloads.check(file, mapping))
    source.raise_if_wrong()
    assert file is not None
    return workloads.resolve(file, shown(where), template)


def _template(path: Path) -> tuple[Template, list[str]]:
    """An index template and what is wrong with it."""
    nothing = Template({}, {})
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return nothing, [f"cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}"]
    if path.suffix in SUFFIXES:
        try:
            data = Source.read(path).data
        except InvalidInput as error:
            return nothing, error.message.splitlines()
    else:
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            return nothing, [f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}"]
        except RecursionError:
            return nothing, ["not JSON: too many levels"]
    if not isinstance(data, dict):
        return nothing, ["expected an object with settings and mappings"]
    return workloads.read_template(data)


def _with_workload(
    file: ExperimentFile, topology: _T, source: Source, grammar: Grammar, errors: list[str]
) -> tuple[WorkloadDefinition | None, _T]:
    """The workload of an experiment where it is a file, and the topology with what the workload says of its index.

    What is wrong with the file goes to ``errors``, what is wrong with naming it to the ``source``.
    """
    dataset, wanted = _workload(file, None, file.load.workload, source, grammar, errors)
    if topology is None or not wanted:
        return dataset, topology
    whole = topologies.with_defaults(topology, wanted)
    source.add(Problem(("load", "workload"), each.says) for each in topologies.check_copies(whole))
    return dataset, whole


def _workload(
    file: ExperimentFile, index: str | None, workload: str, source: Source, grammar: Grammar, errors: list[str]
) -> tuple[WorkloadDefinition | None, Mapping[str, Any]]:
    """The workload of an index (None: the load's first) where it is a file, and what it says of its index. Problems go
    where those of :func:`_with_workload` do."""
    if not re.search(WORKLOAD_FILE, workload):
        source.add(_queries(file, index, workload, grammar.queries(workload), grammar))
        source.add(_untimed(file, index, workload, grammar.mapping(workload)))
        return None, grammar.settings(workload)
    try:
        dataset = load_workload(workload, near=source.path)
    except InvalidInput as error:
        errors.append(error.message)
        return None, {}
    source.add(_unlike(file, index, dataset, grammar))
    source.add(_untimed(file, index, dataset.name, dataset.mapping, dataset.fields))
    return dataset, dataset.settings


def _untimed(
    file: ExperimentFile,
    index: str | None,
    workload: str,
    mapping: Mapping[str, Any],
    fields: Mapping[str, FieldFile] | None = None,
) -> Iterator[Problem]:
    """A data stream whose documents have no time, or not each one. ``fields``: how they are made, if that is known."""
    given = file.load.of_place(index)
    field = experiments.rolled(given)["data_stream"]
    if field is None or not mapping:
        return
    found = ((mapping.get("properties") or {}).get(field) or {}).get("type")
    made = (fields or {}).get(field)
    what = ""
    if found not in ("date", "date_nanos"):
        what = f"no field {field}" if found is None else f"{field} as a {found}"
    elif made is not None and (made.nulls is not None or made.array is not None):
        what = f"documents with none, or several, of {field}"
    if what:
        says = f"the workload {workload} has {what}, and a data stream needs one date there: expected a workload that "
        yield Problem((*_index_at(index), "data_stream"), f"{says}has it, or data_stream: {{timestamp_field: NAME}}")


def _index_at(index: str | None) -> tuple[str, ...]:
    """Where an index of the load stands in a file; None: the first."""
    return ("load",) if index is None else ("load", "indices", index)


def _indices(
    file: ExperimentFile, topology: Topology | None, source: Source, grammar: Grammar, errors: list[str]
) -> tuple[LoadIndex, ...]:
    """The indices of a load beside its first. ``topology``: without what the load's own workload says of its index."""
    found = []
    for name, given in file.load.indices.items():
        dataset, wanted = _workload(file, name, given.workload, source, grammar, errors)
        source.add(topologies.check_index(given.settings, ("load", "indices", name, "settings")))
        if topology is None:
            continue
        settings = topologies.short_names(given.settings)
        whole = topologies.with_settings(topologies.with_defaults(topology, wanted), settings)
        for each in topologies.check_copies(whole):
            source.add([Problem(("load", "indices", name), each.says, at_key=True)])
        found.append(
            LoadIndex(
                name=name,
                workload=given.workload if dataset is None else dataset.name,
                dataset=dataset,
                documents=given.documents,
                settings=dict(whole.settings.index),
                **experiments.rolled(given),
            )
        )
    return tuple(found)


def _unlike(
    file: ExperimentFile, index: str | None, dataset: WorkloadDefinition, grammar: Grammar
) -> Iterator[Problem]:
    """What an experiment cannot ask of the workload of a file, which is that of an index (None: the load's first)."""
    if dataset.name in grammar.workloads:
        says = f"{dataset.name} is the name of a workload that comes with a package: expected another name in the file"
        yield Problem((*_index_at(index), "workload"), says)
    declared = grammar.declared(file.load.workload)
    for name, given in file.load.every.items():
        kind = declared.get(name) if file.load.index_of(name) == index else None
        if kind and kind.requests.get(given.operation or kind.usual) in SEARCHING and not dataset.queries:
            says = f"the workload {dataset.name} has no queries: expected some there, or operation: get"
            yield Problem(file.load.place(name), says, at_key=True)
    yield from _queries(file, index, dataset.name, tuple(dataset.queries), grammar)


def _queries(
    file: ExperimentFile, index: str | None, workload: str, known: tuple[str, ...], grammar: Grammar
) -> Iterator[Problem]:
    """Searches are chosen from those of the workload of their index, by operations that search. ``known``: their
    names."""
    declared = grammar.declared(file.load.workload)
    for name, given in file.load.every.items():
        kind = declared.get(name)
        if given.queries is None or kind is None or file.load.index_of(name) != index:
            continue
        where: Loc = (*file.load.place(name), "queries")
        if kind.requests.get(given.operation or kind.usual) not in SEARCHING:
            says = f"queries are of searches, and {name} sends none: expected operation: search, or no queries"
            yield Problem(where, says)
        elif not known:
            yield Problem(where, f"the searches of the workload {workload} have no names: expected no queries")
        for place, query in enumerate(given.queries if known else ()):
            if query not in known:
                yield Problem((*where, place), f'there is no query "{query}": {did_you_mean(query, known)}')
            elif query in given.queries[:place]:
                yield Problem((*where, place), f"the query {query} is named twice")


def located(topology: Topology, loc: Loc, error: InvalidInput) -> InvalidInput:
    """The same error with file, line and column of ``loc``, for what turns out to be wrong after loading."""
    if topology.file is None or not Path(topology.file).is_file():
        return error
    line, column = Source.read(Path(topology.file)).position(loc, at_key=True)
    return InvalidInput(f"{topology.file}:{line}:{column}: {error.message}", remedy=error.remedy)


# ------------------------------------------------------------------------------------ where things are


def topology_folders(near: Path | None = None) -> list[Path]:
    """Where a topology's name is looked for, first to last."""
    folders: list[Path] = []
    if near is not None:
        here = near.parent
        # experiments/controls/x.yaml finds topologies/ beside experiments/, too
        folders += [here, here.parent / "topologies", here.parent.parent / "topologies"]
    folders.append(Path("topologies"))
    package = Path(chaos.__file__).parent
    folders += [package / "topologies", package.parent / "topologies"]
    return list({folder.resolve(): folder for folder in folders}.values())


def _find(name_or_path: str | Path, near: Path | None) -> Path:
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or "/" in text or text.endswith(SUFFIXES):
        tried = _places(text, near)
        for path in tried:
            if os.path.isfile(path):
                return path
        looked = " and ".join(dict.fromkeys(shown(path) for path in tried))
        raise InvalidInput(f"there is no topology file {text}: looked at {looked}")
    folders = topology_folders(near)
    for folder in folders:
        for suffix in SUFFIXES:
            if os.path.isfile(folder / f"{text}{suffix}"):
                return folder / f"{text}{suffix}"
    known = sorted({path.stem for folder in folders for path in _topologies_in(folder)})
    looked = ", ".join(shown(folder) for folder in folders)
    exist = f"there {'is' if len(known) == 1 else 'are'} {', '.join(known)}" if known else "there are none"
    near_by = did_you_mean(text, known)
    guess = f"; {near_by}" if near_by.startswith("did") else ""
    raise InvalidInput(f"there is no topology {text}: looked in {looked}; {exist}{guess}")


def _places(given: str | Path, near: Path | None) -> list[Path]:
    """Where a file may be that is named by its path: beside the one that names it, then from here."""
    here = beside(Path(), str(given))
    return [here] if here.is_absolute() or near is None else [near.parent / here, here]


def _topologies_in(folder: Path) -> Iterator[Path]:
    """Topology files of a folder; beside an experiment there are other definitions, too."""
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.suffix not in SUFFIXES:
            continue
        try:
            if Source.read(path).data.get("kind") == "topology":
                yield path
        except InvalidInput:
            continue


# -------------------------------------------------------------------------- pydantic's errors, located


def validated(source: Source, model: type[_M], kind: str) -> _M | None:
    """The model, or None with the reasons added to the source."""
    given = source.data.get("kind", "experiment")
    if given in KINDS and given != kind:
        source.add([Problem(("kind",), f"this file is of kind {given}, and of kind {kind} was expected")])
        source.raise_if_wrong()
    try:
        return model.model_validate(source.data)
    except ValidationError as error:
        source.add(_problems(error, model))
        return None


MEANT = {"version": "opensearch"}
"""Keys by which people ask for what another key is for, where that one is known."""


def _problems(error: ValidationError, model: type[BaseModel]) -> Iterator[Problem]:
    for detail in error.errors(include_url=False):
        loc: Loc = tuple(detail["loc"])
        if detail["type"] == "too_short" and len(detail["input"]) >= detail["ctx"]["min_length"]:
            continue  # as many as there must be: it is short of those that are wrong, each of which is told
        if loc and loc[-1] == "[key]":  # a mapping's key that does not fit
            yield Problem(loc[:-1], f"{_name(loc[:-1])}{_says(detail)}", at_key=True)
        elif detail["type"] == "extra_forbidden" and (why := vary.why_fixed(loc)) is not None:
            yield Problem(loc, why, at_key=True)
        elif detail["type"] == "extra_forbidden":
            known, key = _keys(model, loc[:-1]), str(loc[-1])
            meant = MEANT[key] if MEANT.get(key) in known else key
            hint = _elsewhere(model, loc) or did_you_mean(meant, known)
            yield Problem(loc, f'unknown key "{key}": {hint}', at_key=True)
        elif detail["type"] == "missing":
            expected = _description(model, loc)
            yield Problem(loc, f'"{loc[-1]}" is missing{f": expected {expected}" if expected else ""}')
        else:
            yield Problem(loc, f"{_name(loc)}{_says(detail)}")


STEPS = {"do": "inject", "inject": "do"}
"""Where a phase's steps stand that somebody may have written under the other key."""


def _elsewhere(model: type[BaseModel], loc: Loc) -> str | None:
    """For a step under the wrong key of a phase: under which one it belongs. ``restart`` is ``node.restart``, too."""
    if len(loc) < 2 or (other := STEPS.get(str(loc[-2]))) is None:
        return None
    key = str(loc[-1])
    found = [each for each in _keys(model, (*loc[:-2], other)) if each == key or each.endswith(f".{key}")]
    what = "a fault, which is proven" if other == "inject" else "an action"
    return f"{found[0]} is {what}: expected it under {other}" if found else None


def _name(loc: Loc) -> str:
    """The last named part of a path, as the beginning of a sentence about it."""
    names = [part for part in loc if isinstance(part, str)]
    return f"{names[-1]}: " if names else ""


_EXPECTED: dict[str, str] = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_PATTERNS = {
    slis.SLI_NAME: "small letters, digits and underscores, a letter first",
    f"^{NAME}$": "small letters, digits, dashes, dots and underscores",
    WORD: "small letters, digits, dashes and underscores, a letter first",
    STREAM: "small letters, digits and dashes, a letter first",
    VERSION: "a full version such as 3.8.0",
    SAYS_SOMETHING: "some text",
}
_BOUNDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "greater_than_equal": lambda ctx: f"{ctx['ge']} or more",
    "greater_than": lambda ctx: f"more than {ctx['gt']}",
    "less_than_equal": lambda ctx: f"{ctx['le']} or less",
    "literal_error": lambda ctx: str(ctx["expected"]).replace("'", "").replace("True", "true"),
    "string_pattern_mismatch": lambda ctx: _PATTERNS.get(ctx["pattern"], f"text like {ctx['pattern']}"),
    "string_too_short": lambda ctx: "some text",
    "too_short": lambda ctx: f"at least {ctx['min_length']}",
    "too_long": lambda ctx: f"at most {ctx['max_length']}",
}


def _says(detail: Any) -> str:
    context = detail.get("ctx") or {}
    if detail["type"] == "value_error":
        return str(context["error"])
    given = detail["input"]
    if isinstance(given, dict | list | tuple):
        got = "nothing" if not given else "a mapping" if isinstance(given, dict) else "a list"
        quotes = ""
    else:
        got = str(given).lower() if isinstance(given, bool) else repr(given)
        quotes = " (put it in quotes)" if detail["type"] == "string_type" else ""
    if detail["type"] in _EXPECTED:
        return f"expected {_EXPECTED[detail['type']]}, got {got}{quotes}"
    if detail["type"] in _BOUNDS:
        return f"expected {_BOUNDS[detail['type']](context)}, got {got}"
    return f"{detail['msg']}, got {got}"


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models inside an annotation, through Optional, Annotated, tuple and dict."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in typing.get_args(annotation):
        yield from _models(inner)


def _walk(model: type[BaseModel], loc: Iterable[str | int]) -> type[BaseModel] | None:
    """The model that stands at ``loc`` below ``model``."""
    current: type[BaseModel] | None = model
    for part in loc:
        if current is None:
            return None
        for name, info in current.model_fields.items():
            if part == (info.alias or name):
                current = next(_models(info.annotation), None)
                break
    return current


def _keys(model: type[BaseModel], loc: Loc) -> list[str]:
    found = _walk(model, loc)
    return [info.alias or name for name, info in found.model_fields.items()] if found else []


def _description(model: type[BaseModel], loc: Loc) -> str | None:
    found = _walk(model, loc[:-1])
    for name, info in found.model_fields.items() if found else ():
        if loc[-1] == (info.alias or name):
            return info.description
    return None
