"""Who an experiment hits: its targets, resolved once, before any action."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from chaos.fis_endpoint.doing import Failed, Resources

_MODE = re.compile(r"ALL|(COUNT|PERCENT)\(([1-9][0-9]{0,8})\)")
Choose = Callable[[Sequence[str], int], list[str]]
"""So many of these, at random."""


class Resolve(Protocol):
    """:func:`resolved`, or what stands for it in a test."""

    def __call__(
        self, targets: Mapping[str, Mapping[str, Any]], resources: Resources, *, skip: bool, most: int
    ) -> dict[str, list[str]]: ...


def by_chance(among: Sequence[str], number: int) -> list[str]:
    return random.SystemRandom().sample(among, number)


def mode_problem(selection: str) -> str | None:
    """Why a selection mode is none of ALL, COUNT(n), PERCENT(n); None where it is one."""
    found = _MODE.fullmatch(selection)
    if found is None or (found[1] == "PERCENT" and int(found[2]) > 100):
        return f"selectionMode is ALL, COUNT(n) or PERCENT(n) with n from 1 (at most 100 %), not {selection}"
    return None


def selected(selection: str, found: Sequence[str], choose: Choose) -> list[str]:
    """Of what was found as many as the selection mode says. PERCENT rounds down.

    Raises Failed with InvalidTarget where that is none of them, and where there are fewer than COUNT asks for.
    """
    mode = _MODE.fullmatch(selection)
    if mode is None:
        raise Failed("InvalidTarget", f"nobody knows the selection mode {selection}")
    if mode[1] is None:
        return list(found)
    number = int(mode[2]) if mode[1] == "COUNT" else len(found) * int(mode[2]) // 100
    if number == 0:
        raise Failed("InvalidTarget", f"{selection} of {len(found)} resources is none of them")
    if number > len(found):
        raise Failed("InvalidTarget", f"{selection} of {len(found)} resources is more than there are")
    return choose(found, number)


def resolved(
    targets: Mapping[str, Mapping[str, Any]], resources: Resources, *, skip: bool, most: int, choose: Choose = by_chance
) -> dict[str, list[str]]:
    """Name of each target → ARNs of its resources.

    ``skip``: a target that is not given by ARNs may be empty. ``most``: of a target that is not given by ARNs. Raises
    Failed with InvalidTarget or QuotaExceededFailure.
    """
    made = {}
    for name, target in targets.items():
        arns = list(dict.fromkeys(target.get("resourceArns", ())))
        found = resources.find(
            target["resourceType"],
            arns=arns,
            tags=target.get("resourceTags"),
            filters=target.get("filters", ()),
            parameters=target.get("parameters"),
        )
        found = list(dict.fromkeys(found))
        missing = [arn for arn in arns if arn not in found]
        if missing:
            raise Failed("InvalidTarget", f"target {name}: there is no {', '.join(missing)}")
        if not found and not skip:
            raise Failed("InvalidTarget", f"target {name} resolves to no resource")
        try:
            made[name] = selected(target["selectionMode"], found, choose) if found else []
        except Failed as failed:
            raise Failed(failed.code, f"target {name}: {failed.reason}") from None
        if not arns and len(made[name]) > most:
            has = f"target {name} has {len(made[name])} resources"
            raise Failed("QuotaExceededFailure", f"{has}, and a target that is not given by ARNs has {most} at most")
    return made
