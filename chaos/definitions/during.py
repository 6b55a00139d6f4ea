"""``during``: a phase that lasts until something is over that is not ours: a command, or what a person does."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from chaos.base.units import Duration, Malformed, PositiveDuration
from chaos.definitions.base import Setting, Strict
from chaos.definitions.selectors import NodeSelector

MANUAL = "manual"
BY_DEFAULT = Duration(30 * 60)
"""How long it may take where nobody says."""
PATH, REPORTED = "path", "reported"
"""Grades: nodes are seen to have another process; nothing proves what was done."""


def _forms(schema: dict[str, Any]) -> None:
    schema["oneOf"] = [{"required": ["command"]}, {"required": [MANUAL]}]


class During(Strict, json_schema_extra=_forms):
    """What a phase waits for, where that is not ours: exactly one of ``command`` and ``manual``.

    It is judged like a fault. What it does to the cluster stands in ``restarts`` and ``changes``; whatever else
    happens is as unasked as in any other phase.
    """

    command: tuple[Annotated[str, Field(min_length=1)], ...] | None = Field(
        default=None,
        min_length=1,
        description="program and arguments, run without a shell; any exit code but 0 ends the run as inconclusive",
    )
    manual: Annotated[str, Field(min_length=1, pattern=r"^[^\n]+$")] | None = Field(
        default=None, description="what a person does, in one line; `opensearch-chaos done` says that it is done"
    )
    within: PositiveDuration = Field(default=BY_DEFAULT, description="the deadline, for example 30m")
    restarts: NodeSelector | None = Field(
        default=None, description="the nodes whose processes it replaces, each of which must be seen to be another one"
    )
    changes: tuple[Setting, ...] = Field(
        default=(), description="settings of the cluster that it may change, by their full names"
    )

    @model_validator(mode="after")
    def _fits(self) -> During:
        if (self.command is None) == (self.manual is None):
            got = "got both" if self.command else "got neither"
            raise ValueError(f"a phase waits for a command or for a person: expected one of command and manual, {got}")
        if self.restarts is not None and (self.restarts.pick is not None or self.restarts.elected):
            raise ValueError(
                f"restarts: {self.restarts.text}: who that is only the moment tells, and it is not ours to tell others:"
                " expected nodes that the file alone names, for example 'role data' or 'node c-data'"
            )
        if repeated := [name for name in self.changes if self.changes.count(name) > 1]:
            raise ValueError(f"changes names {repeated[0]} twice: expected it once")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_off(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        return {key: value for key, value in data.items() if value}

    @property
    def grade(self) -> str:
        """How sure it is that it happened."""
        return REPORTED if self.restarts is None else PATH

    def describe(self) -> str:
        """One English line for plan, report and log."""
        return f"by hand: {self.manual}" if self.command is None else f"command: {shlex.join(self.command)}"

    def claims(self) -> str:
        """What must be seen of it, and what may be, in words."""
        must = (
            "nothing proves what it does"
            if self.restarts is None
            else f"each of {self.restarts.text} must be seen to have another process afterwards"
        )
        return f"{must}; it may change {', '.join(self.changes)}" if self.changes else must


def _short(value: Any) -> Any:
    """``during: manual`` alone."""
    if value == MANUAL:
        return {MANUAL: "what this phase waits for"}
    if isinstance(value, str):
        raise Malformed(
            f"cannot read {value!r} as what a phase waits for: expected manual, {{manual: what a person does}} or "
            "{command: [program, argument]}"
        )
    return value


class _Schema:
    """Publishes the short form too."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        return {"anyOf": [{"const": MANUAL}, handler(schema)]}


WaitsFor = Annotated[During, BeforeValidator(_short), _Schema]
"""A :class:`During`, or ``manual`` alone."""
