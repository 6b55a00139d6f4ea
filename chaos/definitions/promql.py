"""What an alert's PromQL reads: the series that must be there before an empty answer means that all is well.

An alert's expression is a filter: ``disk_used > 0.9`` answers nothing while the disk has room, and nothing as well
where no exporter knows ``disk_used``. So two things are taken from its tree (parsed by ``promql-parser``, which knows
the language of Prometheus 2.45):

* its *selectors*, without ``offset`` and ``@``: each must name series that exist;
* its *operands*: the largest parts below its filters (comparisons, ``and``, ``or``, ``unless``), each of which answers
  something while data is there. ``a / b > 1`` has ``a / b``, so labels that do not match, and a ``rate`` over too short
  a window, are found out too.

Not among them: what ``absent()`` and ``absent_over_time()`` ask for, and the right side of ``unless``, whose absence is
an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import promql_parser as promql

from chaos.base.units import Malformed

ABSENCE = ("absent", "absent_over_time")
COMPARISONS = ("==", "!=", "<", ">", "<=", ">=")
SETS = ("and", "or", "unless")
_OPERATORS = {"MatchOp.Equal": "=", "MatchOp.NotEqual": "!=", "MatchOp.Re": "=~", "MatchOp.NotRe": "!~"}


@dataclass(frozen=True)
class Needs:
    """What an expression needs: ``selectors`` that name series, ``operands`` that answer something; as PromQL."""

    selectors: tuple[str, ...]
    operands: tuple[str, ...]


@lru_cache(maxsize=1024)
def needs(text: str) -> Needs:
    """Of an alert's expression. Raises Malformed where it is none."""
    try:
        tree = promql.parse(text)
    except ValueError as error:
        raise Malformed(f"cannot be read as PromQL ({error}): expected an expression as in Prometheus") from None
    if isinstance(tree, promql.MatrixSelector | promql.SubqueryExpr | promql.StringLiteral):
        raise Malformed("this is no vector and no number: expected an expression that filters, for example up == 0")
    selectors = tuple(dict.fromkeys(_selectors(tree)))
    operands = (each for each in _operands(tree) if each not in selectors)
    return Needs(selectors, tuple(dict.fromkeys(operands)))


def _selectors(tree: promql.Expr) -> Iterator[str]:
    if isinstance(tree, promql.VectorSelector):
        yield _plain(tree)
    elif isinstance(tree, promql.MatrixSelector):
        yield _plain(tree.vector_selector)
    else:
        for part in _parts(tree):
            yield from _selectors(part)


def _operands(tree: promql.Expr) -> Iterator[str]:
    if not _filters(tree):
        if any(_selectors(tree)) and not isinstance(tree, promql.MatrixSelector):
            yield tree.prettify()
        return
    for part in _parts(tree):
        yield from _operands(part)


def _filters(tree: promql.Expr) -> bool:
    """Whether anything in it may answer nothing although its data is there."""
    if isinstance(tree, promql.Call) and tree.func.name in ABSENCE:
        return True
    if isinstance(tree, promql.BinaryExpr):
        plain = tree.modifier is None or not tree.modifier.return_bool
        if str(tree.op) in SETS or (str(tree.op) in COMPARISONS and plain):
            return True
    return any(_filters(part) for part in _parts(tree))


def _parts(tree: promql.Expr) -> tuple[promql.Expr, ...]:
    """What an expression is made of and needs."""
    if isinstance(tree, promql.BinaryExpr):
        return (tree.lhs,) if str(tree.op) == "unless" else (tree.lhs, tree.rhs)
    if isinstance(tree, promql.Call):
        return () if tree.func.name in ABSENCE else tuple(tree.args)
    if isinstance(tree, promql.AggregateExpr):
        return (tree.expr,) if tree.param is None else (tree.expr, tree.param)
    if isinstance(tree, promql.ParenExpr | promql.UnaryExpr | promql.SubqueryExpr):
        return (tree.expr,)
    return ()


def _plain(selector: promql.VectorSelector) -> str:
    """A selector without ``offset`` and ``@``, which say when and not what."""
    groups = [selector.matchers.matchers, *selector.matchers.or_matchers]
    inside = " or ".join(",".join(map(_matcher, group)) for group in groups if group)
    return f"{selector.name or ''}{{{inside}}}" if inside else str(selector.name)


def _matcher(given: promql.Matcher) -> str:
    value = given.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{given.name}{_OPERATORS[str(given.op)]}"{value}"'
