"""What the audit says of a cluster that is not ours before a run changes anything there: shown, recorded, or refused.

A row that fails is critical. The target's file may name rows that must not fail (``audit: {refuse: [...]}``): then a
run does not start where one does, nor where such a row is unknown, since missing data is never a pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chaos.base.errors import InvalidInput
from chaos.definitions.existing import ANY_ROW, Existing
from chaos.definitions.source import did_you_mean
from chaos.opensearch.checklist import Status
from chaos.programs.audit import RULES, Row

REMEDY = "mend it, or take the row out of audit.refuse in the target's file"


def refuse_unknown_rows(target: Existing) -> None:
    """Raises InvalidInput where the target's file names a row that the audit has not."""
    known = [rule.id for rule in RULES]
    for name in _named(target):
        if name != ANY_ROW and name not in known:
            raise InvalidInput(
                f"{target.file}: audit.refuse names {name}, and the audit has no such row: {did_you_mean(name, known)}",
                remedy="the rows are in docs/audit.md",
            )


def _named(target: Existing) -> tuple[str, ...]:
    return () if target.written.audit is None else target.written.audit.refuse


def critical(rows: Iterable[Row]) -> list[str]:
    """What fails, a line each, with the command that mends it where there is one."""
    return [
        f"audit: {row.rule.title}: {row.value}" + (f" (mends it: {row.commands[0]})" if row.commands else "")
        for row in rows
        if row.status is Status.FAIL
    ]


def refuse(target: Existing, rows: Sequence[Row]) -> None:
    """Raises InvalidInput where a row that the file names fails or is unknown; with ``any`` where any row fails."""
    named = _named(target)
    bad = [
        row
        for row in rows
        if (row.status is Status.FAIL and (ANY_ROW in named or row.rule.id in named))
        or (row.status is Status.UNKNOWN and row.rule.id in named)
    ]
    if bad:
        said = "; ".join(f"{row.rule.id} is {row.status.value} ({row.value})" for row in bad)
        raise InvalidInput(f"the file {target.file} refuses runs where rows of the audit fail: {said}", remedy=REMEDY)


def refuse_unread(target: Existing, why: str) -> None:
    """Raises InvalidInput where the audit could not be made, and the file asks for rows of it."""
    if _named(target):
        raise InvalidInput(
            f"the file {target.file} refuses runs where rows of the audit fail, and there was none: {why}",
            remedy="see: opensearch-chaos audit",
        )
