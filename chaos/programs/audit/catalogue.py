"""What a row of the audit is: a rule with its source and remedy, what it found of one cluster, and the engine.

The engine (:func:`audit`) sees to it that nothing missing passes: a rule whose part of the sheet could not be read is
never asked, and one that found nothing wrong in less than everything is unknown. The rules are in the files that
:data:`RULES` is filled by: :mod:`.rules`, :mod:`.leftovers`, :mod:`.indices`, :mod:`.keeping`, :mod:`.limits`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import quote

from chaos.base import text
from chaos.opensearch.checklist import Source, Status
from chaos.programs.audit.facts import GIB, Node, Sheet


class Workload(StrEnum):
    """What the cluster is for: how large its shards should be depends on it."""

    SEARCH = "search"
    LOGS = "logs"


class Found(NamedTuple):
    """``nodes``, ``indices``, ``others``: names that ``value`` speaks of. ``gap``: what could not be read, in words.

    ``others``: names of templates, repositories and the like. ``commands``: what mends it, for a shell in which
    ``URL`` is the cluster's address.
    """

    status: Status
    value: str
    nodes: tuple[str, ...] = ()
    indices: tuple[str, ...] = ()
    gap: str | None = None
    others: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """``needs``: parts of the sheet without which it cannot be asked."""

    id: str
    title: str
    says: str
    source: Source
    remedy: str
    needs: tuple[str, ...]
    look: Callable[[Sheet, Workload], Found]


@dataclass(frozen=True)
class Row:
    """What one rule says of one cluster."""

    rule: Rule
    status: Status
    value: str
    nodes: tuple[str, ...] = ()
    indices: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.rule.id,
            "title": self.rule.title,
            "status": self.status.value,
            "value": self.value,
            "rule": self.rule.says,
            "source": {"title": self.rule.source.title, "url": self.rule.source.url},
            "remedy": self.rule.remedy,
            "nodes": list(self.nodes),
            "indices": list(self.indices),
            **({"others": list(self.others)} if self.others else {}),
            **({"commands": list(self.commands)} if self.commands else {}),
        }


RULES: list[Rule] = []


def audit(sheet: Sheet, workload: Workload = Workload.SEARCH) -> list[Row]:
    """Every rule's row, in the order of :data:`RULES`."""
    return [_row(rule, sheet, workload) for rule in RULES]


def worst(rows: Iterable[Row]) -> Status:
    return max((row.status for row in rows), key=lambda status: status.badness, default=Status.UNKNOWN)


def _row(rule: Rule, sheet: Sheet, workload: Workload) -> Row:
    if rule.id in sheet.unasked:
        return Row(rule, Status.UNKNOWN, sheet.unasked[rule.id])
    missing = [sheet.why(part) for part in rule.needs if getattr(sheet, part) is None]
    if missing:
        return Row(rule, Status.UNKNOWN, "; ".join(dict.fromkeys(missing)))
    found = rule.look(sheet, workload)
    if found.status in (Status.OK, Status.INFO):
        found = found._replace(gap=joined(found.gap, sheet.gaps.get(rule.id)))
    names = (found.nodes, found.indices, found.others, found.commands)
    if found.gap is None or found.status is Status.FAIL:
        return Row(rule, found.status, found.value, *names)
    return Row(rule, Status.UNKNOWN, "; ".join(filter(None, (found.value, found.gap))), *names)


def rule(
    id: str, title: str, *, says: str, source: Source, remedy: str, needs: tuple[str, ...]
) -> Callable[[Callable[[Sheet, Workload], Found]], Callable[[Sheet, Workload], Found]]:
    def add(look: Callable[[Sheet, Workload], Found]) -> Callable[[Sheet, Workload], Found]:
        RULES.append(Rule(id, title, says, source, remedy, needs, look))
        return look

    return add


def curl(method: str, path: str, body: Mapping[str, Any] | None = None) -> str:
    """A request as a command for a shell."""
    request = f'curl -X {method} "$URL{_quoted(path)}"'
    if body is None:
        return request
    data = json.dumps(body, ensure_ascii=False).replace("'", r"'\''")
    return f"{request} -H 'content-type: application/json' -d '{data}'"


def _quoted(path: str) -> str:
    return quote(path, safe="/?&=,*:")


SHOWN = 3
"""So many names stand in a value; the rest is counted."""


def some(names: Sequence[str]) -> str:
    shown = [text.clip(name, 80) for name in names[:SHOWN]]
    return ", ".join(shown) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def told(sheet: Sheet, nodes: Sequence[Node], *facts: str) -> tuple[list[Node], str | None]:
    """The nodes that told all of these facts, and what is missing of the others."""
    if not nodes:
        return [], "there is no such node"
    have, gaps = list(nodes), []
    for fact in facts:
        lack = [node for node in nodes if getattr(node, fact) is None]
        have = [node for node in have if getattr(node, fact) is not None]
        if lack and fact in sheet.unread:
            gaps.append(f"{fact.replace('_', ' ')}: {sheet.unread[fact]}")
        elif lack:
            gaps.append(f"{fact.replace('_', ' ')} of {some([node.name for node in lack])}: not said")
    return have, "; ".join(dict.fromkeys(gaps)) or None


def joined(*gaps: str | None) -> str | None:
    """What is missing, in one line."""
    return "; ".join(gap for gap in gaps if gap) or None


def gib(size: float) -> str:
    """A size for people: ``371 MiB``, ``12.5 GiB``."""
    for unit, worth in (("GiB", GIB), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= worth:
            return f"{size / worth:.3g} {unit}"
    return f"{size:.0f} B"
