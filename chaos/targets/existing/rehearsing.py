"""Faults by AWS FIS with every action skipped: FIS takes the template and says whom it would hit, and hits nobody."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaos.base.errors import ChaosError
from chaos.base.text import plural
from chaos.targets.existing.fis import FAULT, OVER, RUN, Fis
from chaos.targets.existing.fis_template import digest

PLAN, ACCEPTANCE = "plan-", "acceptance-"
"""What the names of our runs begin with that do nothing to anybody."""


@dataclass(frozen=True)
class Rehearsed:
    """What came of one fault's experiment. ``well``: FIS took it, chose whom it should, and nothing of it is left."""

    fault: str
    says: str
    well: bool

    def to_json(self) -> dict[str, Any]:
        return {"fault": self.fault, "says": self.says, "well": self.well}


def rehearsed(fis: Fis, run: str, fault: str, request: Mapping[str, Any]) -> Rehearsed:
    """Make the template of ``request``, start it with its actions skipped, compare whom FIS chose, delete it.

    ``run``: in the tags, by which another machine finds what is left. Raises nothing for what AWS says or does.
    """
    expected = {name: list(each["resourceArns"]) for name, each in request["targets"].items()}
    made = digest(request)
    count = sum(map(len, expected.values()))
    says, wrong = "", list[str]()
    try:
        fis.make_template(run, fault, {key: request[key] for key in ("targets", "actions")})
        says = fis.rehearse(run, fault, expected)
    except ChaosError as error:
        wrong.append(error.message)
    finally:
        wrong += _left(fis, run, fault, made)
    if wrong:
        return Rehearsed(fault, "; ".join(wrong), False)
    return Rehearsed(fault, f"chose exactly the {plural(count, 'resource')} that it should; {says}", True)


def named(kind: str) -> str:
    """The name of a new run of this kind, PLAN or ACCEPTANCE."""
    return f"{kind}{secrets.token_hex(4)}"


def swept(fis: Fis, run: str | None = None) -> list[str]:
    """End and delete what rehearsals left that died, or this one; found by tags. The runs that had left something.

    One that is under way elsewhere loses its template, and says so. Raises FaultError.
    """
    found = set[tuple[str, str]]()
    for each in (*fis.templates(run), *fis.experiments(run)):
        tags = each["tags"]
        over = "state" in each and each["state"]["status"] in OVER
        if tags[RUN].startswith((PLAN, ACCEPTANCE)) and not over:
            found.add((tags[RUN], tags.get(FAULT, "")))
    for name, fault in sorted(found):
        fis.end(name, fault, {})
        fis.drop_template(name, fault)
    return sorted({name for name, _ in found})


def _left(fis: Fis, run: str, fault: str, made: str) -> list[str]:
    """End and delete what there is of it. What could not be, in words. ``made``: the digest of its template."""
    try:
        fis.end(run, fault, {})
        fis.drop_template(run, fault, made)
        return fis.left(run)
    except ChaosError as error:
        return [f"it may be left: {error.message}"]
