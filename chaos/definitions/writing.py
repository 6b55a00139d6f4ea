"""From data to a definition as a person would write it: the way back from a loaded experiment to YAML.

The same input gives the same bytes. Only what was set is written, so that defaults stay where they are decided.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from chaos.base.operations import USUAL
from chaos.definitions.base import API_VERSION
from chaos.definitions.expectations import Expectation
from chaos.definitions.experiment import TIMESTAMP, ClosedLoop, Experiment, Load, Operation, Phase, Rolled
from chaos.definitions.rates import written as written_rate
from chaos.definitions.rates import written_times
from chaos.definitions.steps import Step

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./%-]*(?: [A-Za-z0-9_./%()-]+)*|[0-9]+(?:\.[0-9]+)?[A-Za-z%/]+")
"""Text that YAML reads as text without quotes, also inside braces."""
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def plain(value: Any) -> Any:
    """Plain data as a definition holds it: quantities and selectors as text, models as mappings of what was set.

    What is None is left out: a key without a value is an error.
    """
    if hasattr(value, "text"):
        return value.text
    if isinstance(value, BaseModel):
        return {
            field.alias or name: plain(given)
            for name, field in type(value).model_fields.items()
            if name in value.model_fields_set and (given := getattr(value, name)) is not None
        }
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def flow(value: Any) -> str:
    """A value on one line, as YAML."""
    value = plain(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    """YAML's double quotes, which know more escapes than JSON's; what can be seen stays as it is."""
    seen = "".join(
        f"\\{char}" if char in '"\\' else char if char.isprintable() else f"\\U{ord(char):08x}" for char in text
    )
    return f'"{seen}"'


def experiment(given: Experiment, topology: str, comments: Iterable[str] = ()) -> str:
    """A definition that loads as ``given`` on the topology of that name or path."""
    return "\n".join(_lines(given, topology, comments)) + "\n"


def _lines(given: Experiment, topology: str, comments: Iterable[str]) -> Iterator[str]:
    for comment in comments:
        yield f"# {comment}"
    yield f"apiVersion: {API_VERSION}"
    yield f"name: {given.name}"
    if given.description:
        yield f"description: {_quoted(given.description)}"
    if given.tags:
        yield f"tags: {flow(given.tags)}"
    yield f"seed: {given.seed}"
    yield f"topology: {flow(topology)}"
    yield "load:"
    yield from _load(given.load)
    if given.controller is not None:
        yield f"controller: {flow(given.controller)}"
    if given.programs:
        yield "programs:"
        yield from (f"  {name}: {flow(program)}" for name, program in given.programs.items())
    if given.slis:
        yield "slis:"
        yield from (f"  {name}: {flow(sli.written)}" for name, sli in given.slis.items())
    yield "phases:"
    width = max(len(phase.name) for phase in given.phases) + 1
    for phase in given.phases:
        yield f"  {(phase.name + ':').ljust(width)} {flow(_phase(phase))}"
    yield "expect:"
    for expectation in given.expect:
        yield f"  - {flow(_expectation(expectation))}"
    if guards := plain(given.guards):
        yield f"guards: {flow(guards)}"
    if given.rates:
        yield f"rates: {flow(given.rates)}"


def _load(load: Load) -> Iterator[str]:
    every = [(each, _operation(each)) for each in load.every]
    yield from (f"  {each.name}: {flow(written)}" for each, written in every if not each.stream)
    if any(each.stream for each, _ in every):
        yield "  streams:"
        yield from (f"    {each.name}: {flow(written)}" for each, written in every if each.stream)
    if load.indices:
        yield "  indices:"
        for each in load.indices:
            own = {"workload": each.dataset.file if each.dataset else each.workload, "documents": each.documents}
            yield f"    {each.name}: {flow(own | {'settings': each.settings} | _rolled(each))}"
    yield from (f"  {key}: {flow(value)}" for key, value in _rolled(load).items())
    for name, check in (("cas", load.cas), ("visibility", load.visibility)):
        if check is not None:
            yield f"  {name}: {flow(check)}"
    for name in ("arrivals", "workload", "documents", "client", "processes"):
        if name in load.model_fields_set and getattr(load, name) != type(load).model_fields[name].get_default(
            call_default_factory=True
        ):
            value = getattr(load, name)
            yield f"  {name}: {flow(load.dataset.file if name == 'workload' and load.dataset else value)}"


def _rolled(given: Rolled) -> dict[str, Any]:
    """How an index is rolled over, as people write it."""
    written: dict[str, Any] = {}
    if given.data_stream is not None:
        written["data_stream"] = True if given.data_stream == TIMESTAMP else {"timestamp_field": given.data_stream}
    if given.alias:
        written["alias"] = True
    if given.rollover is not None:
        written["rollover"] = plain(given.rollover)
    return written


def _operation(given: Operation | ClosedLoop) -> dict[str, Any]:
    if isinstance(given, ClosedLoop):
        return {"clients": given.clients} | _requests(given)
    rate: Any = given.rate
    if given.times:
        rate = written_times(given.times, given.before)
    elif given.changes:
        rate = written_rate(given.changes)
    return {"rate": rate, "good": f"ok within {given.good_within.text}"} | _requests(given)


def _requests(operation: Operation | ClosedLoop) -> dict[str, Any]:
    """What of an operation's requests is not as it is by default."""
    usual = {kind.name: kind.usual for kind in USUAL}
    written: dict[str, Any] = {}
    if operation.operation != usual.get(operation.name):
        written["operation"] = operation.operation
    if operation.items != 1:
        written["items"] = operation.items
    if operation.automatic:
        written["ids"] = "automatic"
    if operation.index is not None:
        written["index"] = operation.index
    if operation.calls:
        written["calls"] = list(operation.calls)
    if operation.queries:
        written["queries"] = list(operation.queries)
    if operation.pages:
        written |= {"pages": operation.pages, "size": operation.size}
    if operation.searches != 1:
        written["searches"] = operation.searches
    if operation.actions is not None:
        written["actions"] = plain(operation.actions)
    if operation.retry is not None:
        written["retry"] = plain(operation.retry)
    if operation.client is not None:
        written["client"] = plain(operation.client)
    return written


def _phase(phase: Phase) -> dict[str, Any]:
    written: dict[str, Any] = {}
    if phase.duration is not None:
        written["for"] = phase.duration
    if phase.undo:
        written["undo"] = list(phase.undo) if len(phase.undo) > 1 else phase.undo[0]
    if phase.inject:
        written["inject"] = _by_kind(phase.inject)
    if phase.do:
        written["do"] = _by_kind(phase.do)
    if phase.until is not None:
        written["until"] = {"green": True, **plain(phase.until)}
    if phase.during is not None:
        written["during"] = plain(phase.during)
    if phase.scripted_wait:
        written["scripted_wait"] = True
    return written


def _by_kind(steps: Iterable[Step]) -> dict[str, Any]:
    kinds: dict[str, list[Any]] = {}
    for step in steps:
        kinds.setdefault(step.kind, []).append(plain(step))
    return {kind: listed if len(listed) > 1 else listed[0] for kind, listed in kinds.items()}


def _expectation(expectation: Expectation) -> dict[str, Any]:
    written: dict[str, Any] = {}
    if expectation.phases:
        written["phase"] = list(expectation.phases) if len(expectation.phases) > 1 else expectation.phases[0]
    wanted = expectation.text.removeprefix(expectation.metric).strip()
    exact = wanted.removeprefix("= ")
    written[expectation.metric] = int(exact) if expectation.unit == "count" and exact.isdigit() else wanted
    if expectation.command is not None:
        written |= {expectation.metric: list(expectation.command), "within": plain(expectation.within)}
    if expectation.known_bound is not None:
        written["known_weakness"] = {"bound": expectation.known_bound.text, "why": expectation.known_weakness}
    elif expectation.known_weakness is not None:
        written["known_weakness"] = expectation.known_weakness
    if expectation.because is not None:
        written["because"] = expectation.because
    return written
