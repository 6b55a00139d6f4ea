"""What a worker of Dask is told and what it answers: data alone, so that both sides check it before anything is done.

What a machine is told to run is a :class:`~chaos.run.spec.RunSpec`, and the worker there computes each cell's key anew:
where its suite or its rules differ from the client's, the keys do, and the order is refused; so it is where its code
does (:mod:`.code`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import chaos
from chaos.base.errors import Exit, InvalidInput
from chaos.campaign import code
from chaos.campaign.matrix import Cell, Matrix
from chaos.definitions import Experiment
from chaos.definitions.campaign import Campaign, CampaignFile
from chaos.history.format import RULES
from chaos.run.spec import RunSpec

RESOURCE = "lab"
"""The resource of Dask of which a worker has one: one lab a machine."""
ReadExperiment = Callable[[Mapping[str, Any]], Experiment]
""":meth:`chaos.definitions.grammar.Grammar.experiment`."""


@dataclass(frozen=True)
class Token:
    """A name in the store, and a content that was drawn for this session: who reads it there sees the same store."""

    name: str
    content: str


@dataclass(frozen=True)
class Order:
    """Cells of one block for one worker. ``store``: an address as the worker is to open it; ``out``: a folder of the
    worker's machine; ``until``: seconds since the epoch after which no run may end; ``expected``: key → seconds."""

    matrix: Matrix
    store: str
    token: Token
    session: str
    out: str
    keep: bool = False
    until: float | None = None
    expected: Mapping[str, float] = field(default_factory=dict)

    @property
    def cells(self) -> tuple[Cell, ...]:
        return self.matrix.cells

    def to_json(self) -> dict[str, Any]:
        """JSON-able; :meth:`from_json` reads it back."""
        file = self.matrix.file
        written = file.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"budget"})
        return {
            "tool": _tool(),
            "file": self.matrix.campaign.file,
            "campaign": {**written, "budget": {"artifacts": f"{int(file.budget.artifacts)}B"}},
            "cells": [_cell(cell, self.matrix.campaign.file) for cell in self.cells],
            "store": self.store,
            "token": dict(vars(self.token)),
            "session": self.session,
            "out": self.out,
            "keep": self.keep,
            "until": self.until,
            "expected": dict(self.expected),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], experiment: ReadExperiment) -> Self:
        """Raises InvalidInput where this machine's suite is another than the client's."""
        if data.get("tool") != _tool():
            raise _differs(f"the client's is {_said(data.get('tool'))}, and this one's {_said(_tool())}")
        campaign = Campaign(file=data["file"], written=CampaignFile.model_validate(data["campaign"]))
        cells = tuple(_of_cell(each, experiment) for each in data["cells"])
        return cls(
            Matrix(campaign, cells, ()),
            str(data["store"]),
            Token(**data["token"]),
            str(data["session"]),
            str(data["out"]),
            bool(data["keep"]),
            data["until"],
            dict(data["expected"]),
        )


def _tool() -> dict[str, Any]:
    return {"version": chaos.__version__, "rules": RULES, "code": code.digest()}


def _said(tool: Any) -> str:
    if not isinstance(tool, dict):
        return "another"
    return f"{tool.get('version')} with rules {tool.get('rules')} and the code {tool.get('code')}"


def _differs(why: str) -> InvalidInput:
    return InvalidInput(
        f"opensearch-chaos is another there: {why}", remedy="install the same version, and the same definitions"
    )


def _cell(cell: Cell, file: str) -> dict[str, Any]:
    return {
        "key": cell.key,
        "of": cell.of,
        "profile": cell.profile,
        "version": cell.version,
        "repeat": cell.repeat,
        "spec": cell.spec(file).to_json(),
    }


def _of_cell(data: Mapping[str, Any], experiment: ReadExperiment) -> Cell:
    spec = RunSpec.from_json(data["spec"], experiment)
    cell = Cell(spec.experiment, data["of"], data["profile"], data["version"], spec.seed, int(data["repeat"]))
    if cell.key != data["key"]:
        raise _differs(f"{cell.name} has the key {cell.key[:8]} there, and {str(data['key'])[:8]} here")
    return cell


@dataclass(frozen=True)
class Unfit:
    """Why a worker can make no run. ``everywhere``: not its machine is wrong but the campaign (another version,
    another store), so nothing is started anywhere."""

    why: str
    code: Exit
    everywhere: bool = False

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "code": int(self.code)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(str(data["why"]), Exit(data["code"]), bool(data["everywhere"]))


@dataclass(frozen=True)
class Answer:
    """How an order ended. ``made``: keys that were committed; ``refused``: those for which the machine lacks something;
    ``unfit``: why that worker is to get no more; ``failed_store``: why the campaign cannot go on."""

    worker: str
    made: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    failed: int = 0
    surplus: int = 0
    unfit: Unfit | None = None
    failed_store: str = ""

    def to_json(self) -> dict[str, Any]:
        unfit = None if self.unfit is None else self.unfit.to_json()
        return {**vars(self), "made": [*self.made], "refused": [*self.refused], "unfit": unfit}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        unfit = None if data["unfit"] is None else Unfit.from_json(data["unfit"])
        return cls(**{**data, "made": tuple(data["made"]), "refused": tuple(data["refused"]), "unfit": unfit})
