"""``programs``: programs of the user's own that run beside the load, from before the first phase to the last one's end.

They are clients that no load of ours is: a log shipper, a job that writes. What they did the experiment judges by a
command (``expect: {command: …}``).
"""

from __future__ import annotations

import shlex
from typing import Annotated

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from chaos.base.units import Duration, PositiveDuration
from chaos.definitions.base import Strict

Words = tuple[Annotated[str, Field(min_length=1)], ...]
TO_END = Duration(60)
"""How long one may take to end where the file does not say."""


class Program(Strict):
    """A program beside the load. It is sent SIGTERM once the last phase is over, and has ``within`` seconds to end."""

    command: Words = Field(
        min_length=1,
        description="program and arguments, run without a shell; one that fails ends the run as inconclusive",
    )
    ready: Words | None = Field(
        default=None,
        min_length=1,
        description="a command that is asked before anything starts: any exit code but 0 refuses the run, and the last "
        "line that it prints says why",
    )
    within: PositiveDuration = Field(default=TO_END, description="how long it may take to end, for example 2m")

    @model_serializer(mode="wrap")
    def _without_what_is_off(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        data: dict[str, object] = handler(self)
        return {key: value for key, value in data.items() if value is not None}

    def describe(self) -> str:
        """One English line for plan, report and log."""
        return f"command: {shlex.join(self.command)}"
