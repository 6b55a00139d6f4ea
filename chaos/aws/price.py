"""What AWS FIS will bill for an experiment, before it is made.

$0.10 per action-minute, in AWS GovCloud $0.12, however many resources an action has and whatever it is; an action is
paid from its start to its end, "rounded to the nearest minute" (https://aws.amazon.com/fis/pricing/, a stored copy read
on 2026-11-26). Target accounts beyond the first, reports, logs and what the resources themselves cost are extra.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.aws.catalogue import MINUTE, seconds

DOLLARS, DOLLARS_GOVCLOUD = 0.10, 0.12
"""Per action-minute."""
LASTS = ("duration", "startInstancesAfterDuration", "maxDuration")
"""Parameters that say how long an action lasts."""


@dataclass(frozen=True)
class Price:
    """US dollars, without taxes. ``open``: actions whose duration nobody says, counted as one minute each: they are
    paid until they end, so that the price may be higher."""

    action_minutes: int
    dollars: float
    open: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        least = "at least " if self.open else ""
        said = f"{least}{self.action_minutes} action-minutes, {least}${self.dollars:.2f}"
        names = ", ".join(self.open)
        return f"{said} ({names}: without a duration, one minute at least)" if self.open else said


def price(template: Mapping[str, Any], region: str) -> Price:
    """Of an experiment that runs to its end, from a template as CreateExperimentTemplate takes it.

    Each action counts with its duration rounded up to whole minutes, aws:fis:wait too. Raises InvalidInput for a
    malformed duration.
    """
    minutes, without = 0, []
    for name, action in sorted(template.get("actions", {}).items()):
        parameters = action.get("parameters", {})
        said = next((parameters[key] for key in LASTS if key in parameters), None)
        if said is None:
            without.append(name)
        minutes += 1 if said is None else max(1, -(-seconds(said) // MINUTE))
    each = DOLLARS_GOVCLOUD if region.startswith("us-gov-") else DOLLARS
    return Price(minutes, round(minutes * each, 2), tuple(without))


def total(prices: Iterable[Price]) -> Price:
    """Of several experiments."""
    prices = tuple(prices)
    names = tuple(dict.fromkeys(name for each in prices for name in each.open))
    return Price(sum(each.action_minutes for each in prices), round(sum(each.dollars for each in prices), 2), names)
