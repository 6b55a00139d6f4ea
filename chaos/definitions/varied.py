"""An experiment with sides, resolved: what each side's runs are planned from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, Field

from chaos.base.errors import InvalidInput
from chaos.definitions.base import Strict
from chaos.definitions.experiment import Experiment
from chaos.definitions.source import Loc, Problem, Source
from chaos.definitions.vary import KEY


class Side(Strict):
    """One side. ``changes``: the overlay as it is written; ``experiment``: the experiment with it, without sides."""

    name: str
    changes: dict[str, Any]
    experiment: Experiment


class Varied(Experiment):
    """An experiment with sides. As an experiment it is that of its file without them, which is what normal form and
    hash are of; no run is made of it, but of its sides."""

    sides: tuple[Side, ...] = Field(exclude=True)
    times: int = Field(exclude=True)
    new_labs: bool = Field(default=False, exclude=True)
    """Each run in a lab of its own, also where one lab could serve all sides."""
    decide: tuple[str, ...] = Field(default=(), exclude=True)
    tolerance: dict[str, str] = Field(default_factory=dict, exclude=True)
    protection: dict[str, Any] | None = Field(default=None, exclude=True)
    """What the sides are of, where they are a protection off, (monitoring,) and on."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(side.name for side in self.sides)

    @property
    def rivals(self) -> tuple[Side, ...]:
        """The sides that are compared with the first."""
        return self.sides[1:]

    def side(self, name: str) -> Side:
        """The side of that name. Raises InvalidInput."""
        for side in self.sides:
            if side.name == name:
                return side
        raise InvalidInput(f"{self.file} has no side {name}", remedy=f"choose among: {', '.join(self.names)}")

    @classmethod
    def of(cls, base: Experiment, sides: tuple[Side, ...], **given: Any) -> Varied:
        """``base``: the experiment of the file without its sides."""
        fields = {name: getattr(base, name) for name in Experiment.model_fields}
        return cls.model_construct(**fields, sides=sides, **given)


@dataclass
class SideSource(Source):
    """A side's overlay merged into a file: problems of what comes of it are shown where the overlay stands."""

    within: Source | None = None
    prefix: Loc = field(default=())

    @classmethod
    def made(cls, within: Source, prefix: Loc, data: dict[str, Any]) -> SideSource:
        """``within``: the experiment's file, which has the overlay at ``prefix``."""
        return cls(within.path, data, within.root, given=within.given, within=within, prefix=prefix)

    def position(self, loc: Any, *, at_key: bool = False) -> tuple[int, int]:
        assert self.within is not None
        return self.within.position((*self.prefix, *loc), at_key=at_key)


def lines(source: SideSource, name: str) -> Iterator[tuple[int, int, str]]:
    """The problems of a side, to be added to those of its file."""
    for line, column, says in source.lines:
        yield line, column, f"side {name}: {says}"


def alike(sides: tuple[Side, ...]) -> Iterator[Problem]:
    """Sides that come to the same experiment as one before them."""
    seen: list[tuple[str, Mapping[str, Any]]] = []
    for side in sides:
        means = _means(side.experiment)
        same = next((name for name, before in seen if before == means), None)
        if same is not None:
            says = f"side {side.name} comes to the same experiment as side {same}: expected a difference to compare"
            yield Problem((KEY, "sides", side.name), says, at_key=True)
        seen.append((side.name, means))


def _means(experiment: Experiment) -> Mapping[str, Any]:
    data = experiment.to_json()
    data["topology"] = {**data["topology"], "name": None, "file": None, "description": None}
    for each in (data["load"], *data["load"].get("indices", ())):
        (each.get("dataset") or {}).pop("file", None)
    return data


def difference(baseline: Side, side: Side) -> list[str]:
    """In what a side's experiment differs from the first's, in words: ``topology.settings.index.refresh_interval``: 1s
    → 30s."""
    found = _differs("", _spoken(baseline.experiment), _spoken(side.experiment))
    unsaid = ("topology.name:", "topology.description:", "topology.file:")
    return [_as_written(each) for each in found if not each.startswith(unsaid)]


def _as_written(line: str) -> str:
    """A line of the normal form by the names that files have."""
    said = line.replace("load.operations.", "load.", 1)
    return re.sub(r"^(topology(?:\.nodes\.[^.]+)?)\.version:", r"\1.opensearch:", said)


def _spoken(value: Any) -> Any:
    """Models as mappings, and quantities as they were written."""
    if hasattr(value, "text"):
        return value.text
    if isinstance(value, BaseModel):
        return {name: _spoken(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {key: _spoken(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        said = [_spoken(each) for each in value]
        named = value and all(isinstance(each, BaseModel) and hasattr(each, "name") for each in value)
        return {each["name"]: each for each in said} if named else said
    return value


def _differs(where: str, a: Any, b: Any) -> Iterator[str]:
    if a == b:
        return
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in dict.fromkeys((*a, *b)):
            yield from _differs(f"{where}.{key}" if where else str(key), a.get(key), b.get(key))
        return
    yield f"{where}: {_brief(a)} → {_brief(b)}"


def _brief(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, Mapping):
        return "there" if "name" in value else ", ".join(f"{key} {_brief(each)}" for key, each in value.items())
    return ", ".join(map(_brief, value)) if isinstance(value, list) else str(value)
