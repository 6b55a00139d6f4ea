"""Programs of a cluster's owners that carry faults out there: ``hooks`` of a target's file. Contract: docs/hooks.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from chaos.base.units import Duration, Malformed, PositiveDuration
from chaos.definitions.base import OneOrMore, Strict
from chaos.definitions.source import Problem, beside, did_you_mean

KINDS = (
    "node.kill",
    "node.stop",
    "node.pause",
    "zone.power_loss",
    "network.drop",
    "network.hang",
    "network.refuse",
)
"""The kinds whose effect others see, so that nobody has to believe the program."""
MADE_OF = {"zone.isolation": "network.drop", "zone.partition": "network.drop"}
"""Kinds that are others on the links of a zone: the program of that kind carries them out."""
CALLS = ("inject", "in_effect", "undo", "gone")
LONGEST = Duration(300)
"""A run that is stopped waits for a call that is under way."""


def _soon(value: Duration) -> Duration:
    if value > LONGEST:
        raise Malformed(f"{value.text} is long for a run that is stopped meanwhile: expected {LONGEST.text} or less")
    return value


Words = Annotated[OneOrMore[Annotated[str, Field(min_length=1)]], Field(min_length=1)]


class Hook(Strict):
    """The programs of one kind of fault, each with its arguments. No shell reads them."""

    inject: Words = Field(description="makes the fault, for example [./hooks/kill, inject]; a path is beside this file")
    in_effect: Words = Field(description="says whether it is in effect: exit code 0 yes, 1 no")
    undo: Words = Field(description="takes it back; it may be called twice, and where nothing was made")
    gone: Words = Field(description="says whether it is gone: exit code 0 yes, 1 no")
    within: Annotated[PositiveDuration, AfterValidator(_soon)] = Field(
        default=Duration(30), description="the deadline of each call, 5m at most"
    )
    ttl: PositiveDuration = Field(
        description="after this time the program undoes the fault by itself, whoever is dead by then, for example 5m"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.ttl <= self.within:
            raise Malformed(f"the ttl of {self.ttl.text} is over before a call has to be: expected more than within")
        return self

    def words(self, call: str) -> tuple[str, ...]:
        """Program and arguments of one of :data:`CALLS`."""
        found: tuple[str, ...] = getattr(self, call)
        return found

    def beside(self, folder: Path) -> Self:
        """The same with each program that is a path where it is: beside a file in ``folder``."""
        return self.model_copy(update={call: _placed(self.words(call), folder) for call in CALLS})


def _placed(words: tuple[str, ...], folder: Path) -> tuple[str, ...]:
    """A program without a slash is looked for as a shell does."""
    program = str(beside(folder, words[0])) if "/" in words[0] else words[0]
    return (program, *words[1:])


def check(hooks: Mapping[str, Hook]) -> Iterator[Problem]:
    """Kinds that nobody can have by a program."""
    for kind in hooks:
        if kind in MADE_OF:
            says = f"{kind} is {MADE_OF[kind]} on the links of a zone: expected a hook for {MADE_OF[kind]}"
            yield Problem(("hooks", kind), says, at_key=True)
        elif kind not in KINDS:
            says = f"{kind} is no kind of fault that a hook may carry out: {did_you_mean(kind, KINDS)}"
            yield Problem(("hooks", kind), says, at_key=True)
