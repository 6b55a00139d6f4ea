"""What an action of an experiment does, as data, and whom the endpoint has for it.

The endpoint's service (templates, experiments, states) and its hands (what happens in the lab and in moto) meet here
alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Doing:
    """One action of one experiment on what its targets resolved to. JSON values throughout.

    ``id``: of the experiment and its action, unique. ``targets``: target key of the action (``Instances``, ``Subnets``,
    ``Volumes`` …) → ARNs. ``seconds``: how long it lasts by the wall, after scaling; None for what has no duration.
    """

    id: str
    experiment: str
    action: str
    parameters: Mapping[str, str]
    targets: Mapping[str, Sequence[str]]
    seconds: float | None


class Failed(Exception):
    """An action that cannot be done, or broke. ``code``: of FIS's ``state.error.code`` (ConfigurationFailure,
    DependentServiceFailure, InternalFailure, AuthorizationFailure, InvalidTarget)."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


class Hands(Protocol):
    """Who carries actions out. Each call is made by one thread for one action; several actions may be under way."""

    def unable(self, doing: Doing) -> str | None:
        """Why this cannot be done here at all, since the lab has no counterpart; None: it can. Changes nothing."""

    def begin(self, doing: Doing) -> None:
        """Make it, and update moto. Raises Failed; what was made by then is taken back by ``end``."""

    def still(self, doing: Doing) -> str | None:
        """While it lasts: why it has failed meanwhile (an instance terminated, a command ended); None: it has not."""

    def end(self, doing: Doing) -> None:
        """Take it back as AWS does at the end of an action or at a stop, and no more than that. Idempotent, also in
        another process after the one that began died. Raises Failed."""


class Resources(Protocol):
    """What there is to be hit: EC2 as moto has it, by DescribeInstances and its like."""

    def find(
        self,
        kind: str,
        *,
        arns: Sequence[str] = (),
        tags: Mapping[str, str] | None = None,
        filters: Sequence[Mapping[str, Any]] = (),
        parameters: Mapping[str, str] | None = None,
    ) -> list[str]:
        """ARNs of resources of a type of FIS (``aws:ec2:instance``, ``aws:ec2:subnet``, ``aws:ec2:ebs-volume``).

        By ARNs (those that exist), or by tags (all of them), filters (``path``, ``values``) and parameters. Raises
        Failed with InvalidTarget for what cannot be read, such as a filter's path that is not there.
        """
