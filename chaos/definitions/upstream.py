"""A case: a suspected or confirmed bug of OpenSearch as steps that anybody can follow, and what each step must show.

``experiments/upstream/NAME.yaml``, ``kind: upstream``. The steps are the very shell lines that the report prints: what
is run is what a maintainer reads.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from chaos.base.errors import InvalidInput
from chaos.base.units import Duration, Malformed, PositiveDuration
from chaos.definitions.base import API_VERSION, Strict
from chaos.definitions.loading import load_topology, validated
from chaos.definitions.source import Problem, Source, did_you_mean, shown
from chaos.definitions.topology import Name, Topology, Version

ACTIONS = ("run", "wait", "pause", "resume", "kill", "start", "cut")
ALL = "all"
"""Instead of a node's name: every node."""
NEW = "new"
"""Instead of a thread: no thread was found."""
DECIDES_NOTHING = "sometimes"
LATER = ("cut",)
"""Keys of a step that came after results had been recorded: where they are not used they are not in its hash."""
PATIENCE = Duration(60)
REPRODUCED, KEPT, UNCLEAR = "reproduced", "not reproduced", "inconclusive"
"""What an attempt at a case says."""


def _expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise Malformed(f"{text!r} is no regular expression: {error}") from None
    return text


def _thread(text: str) -> str:
    if text != NEW and not text.startswith("https://"):
        raise Malformed(f"{text!r}: expected an https address, or {NEW}")
    return text


Expression = Annotated[str, AfterValidator(_expression)]
Node = Annotated[str, Field(description="a node of the topology, or all")]


class StepFile(Strict):
    """One thing that is done, and what it must print."""

    says: str | None = Field(default=None, description="a line for the reader, above the step")
    run: str | None = Field(default=None, description="shell lines; $a_data is the URL of node a-data")
    wait: PositiveDuration | None = Field(default=None, description="for example 30s")
    pause: Node | None = Field(default=None, description="SIGSTOP to this node's process")
    resume: Node | None = Field(default=None, description="SIGCONT")
    kill: Node | None = Field(default=None, description="SIGKILL")
    start: Node | None = Field(default=None, description="start it, and wait until it answers HTTP")
    cut: tuple[Node, Node] | None = Field(default=None, description="drop all packets between these two nodes")
    within: PositiveDuration = Field(default=PATIENCE, description="a command is ended after so long")
    must: Expression | None = Field(
        default=None, description="a regular expression in what is printed; without it the attempt shows nothing"
    )
    expected: Expression | None = Field(default=None, description="what is printed where the promise is kept")
    seen: Expression | None = Field(default=None, description="what is printed where it is broken")

    @property
    def action(self) -> tuple[str, Any]:
        """What is done, and its argument."""
        return next((name, value) for name in ACTIONS if (value := getattr(self, name)) is not None)

    @property
    def decides(self) -> bool:
        return self.seen is not None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        given = [name for name in ACTIONS if getattr(self, name) is not None]
        if len(given) != 1:
            raise Malformed(f"a step does one thing: expected one of {', '.join(ACTIONS)}, got {len(given) or 'none'}")
        if (self.expected is None) != (self.seen is None):
            raise Malformed("expected and seen belong together: without both a step can only have one outcome")
        if given != ["run"] and (self.must or self.seen):
            raise Malformed(f"{given[0]} prints nothing: expected must, expected and seen beside run alone")
        return self


class Promise(Strict):
    """What the documentation says."""

    says: str = Field(description="in our own words")
    source: Annotated[str, AfterValidator(_thread)] = Field(description="the address of the page")


class Control(Strict):
    """What differs, and then the promise is kept. Run in a lab of its own."""

    says: str = Field(description="what differs, for example the workaround")
    steps: tuple[StepFile, ...] = Field(min_length=1, description="they must show what is expected")


class CaseFile(Strict):
    """A case as written."""

    api_version: Literal["opensearch-chaos/v1"] = Field(alias="apiVersion", description=API_VERSION)
    kind: Literal["upstream"] = Field(description="upstream")
    name: Name = Field(description="the file's name without suffix")
    title: str = Field(description="as the issue would be called: the symptom first")
    thread: Annotated[str, AfterValidator(_thread)] = Field(description="the issue's address, or new")
    topology: str = Field(description="a topology's name, which gives the nodes")
    mixed: bool = Field(
        default=False, description="nodes to which the topology gives a version of their own keep it, in all attempts"
    )
    reproduces: dict[Version, Literal["always", "sometimes", "never"]] = Field(
        min_length=1, description="version to always, sometimes or never; always and never are held to"
    )
    promise: Promise
    expected: str = Field(description="what should happen, a sentence")
    seen: str = Field(description="what happens, a sentence or two")
    cause: str = Field(description="class, method, and what it does")
    workaround: str = Field(default="None known.", description="what helps")
    log: Expression | None = Field(default=None, description="lines of the nodes' logs that belong to it")
    steps: tuple[StepFile, ...] = Field(min_length=1, description="in a fresh lab")
    restart: tuple[StepFile, ...] = Field(
        default=(), description="after all nodes were stopped and started: seen here means that it outlives a restart"
    )
    control: Control

    @property
    def versions(self) -> tuple[str, ...]:
        return tuple(self.reproduces)

    @property
    def fingerprint(self) -> str:
        """Of what is run. Results of other steps do not count."""
        parts = self.model_dump(mode="json", include={"topology", "steps", "restart", "control"})
        parts["control"].pop("says")
        for steps in (parts["steps"], parts["restart"], parts["control"]["steps"]):
            for step in steps:
                step.pop("says")
                for key in LATER:
                    if step[key] is None:
                        del step[key]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


class Case(Strict):
    """A case with its topology and file."""

    file: str
    written: CaseFile
    topology: Topology

    def on(self, version: str) -> Topology:
        """The topology with every node of that version; of a mixed case those without a version of their own."""
        nodes = self.topology.nodes
        if not self.written.mixed:
            nodes = tuple(node.model_copy(update={"version": None}) for node in nodes)
        return self.topology.model_copy(update={"version": version, "upgrade": None, "nodes": nodes})


def load_case(path: Path) -> Case:
    """Read a case with its topology. Raises InvalidInput with file, line and column of every error."""
    source = Source.read(path)
    file = validated(source, CaseFile, "upstream")
    topology = None
    if isinstance(named := source.data.get("topology"), str):
        try:
            topology = load_topology(named, near=path)
        except InvalidInput as error:
            source.add([Problem(("topology",), error.message)])
    if file is not None and topology is not None:
        source.add(_check(file, topology, path))
    source.raise_if_wrong()
    assert file is not None and topology is not None
    return Case(file=shown(path), written=file, topology=topology)


def _check(file: CaseFile, topology: Topology, path: Path) -> Iterator[Problem]:
    if file.name != path.stem:
        yield Problem(("name",), f"the name is {file.name} and the file is {path.name}: expected the same")
    if topology.security:
        yield Problem(("topology",), f"{topology.name} is secured: expected one whose nodes take plain curl")
    if file.mixed and not any(node.version for node in topology.nodes):
        yield Problem(("mixed",), f"no node of {topology.name} has a version of its own: expected one that has")
    names = [node.name for node in topology.nodes]
    parts: dict[tuple[str, ...], tuple[StepFile, ...]] = {("steps",): file.steps, ("restart",): file.restart}
    parts["control", "steps"] = file.control.steps
    for loc, steps in parts.items():
        if steps and not any(step.decides for step in steps):
            yield Problem(loc, "no step decides: expected one with expected and seen", at_key=True)
        for index, step in enumerate(steps):
            action, value = step.action
            if action in ("run", "wait"):
                continue
            for node in value if action == "cut" else (value,):
                if node not in names and (node != ALL or action == "cut"):
                    says = f"node {node} is not in topology {topology.name}: {did_you_mean(node, [*names, ALL])}"
                    yield Problem((*loc, index, action), says)
