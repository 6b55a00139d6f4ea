"""All checks by the metrics that expectations name: those of this room, found in its files, then other packages'."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Iterator, Mapping

from chaos.base import plugins
from chaos.base.errors import InvalidInput
from chaos.checks import instruments
from chaos.checks.check import Check, Rests, Scope

FOLDERS = ("chaos.checks", "chaos.checks.data")
"""A file in one of these brings the checks of its ``CHECKS``, if it has any."""


def ours() -> Iterator[Check]:
    """The checks of this room, by their order."""
    modules = (module for name in FOLDERS for module in plugins.modules(importlib.import_module(name)))
    found: list[Check] = [check for module in modules for check in vars(module).get("CHECKS", ())]
    yield from sorted(found, key=lambda check: check.order)


def discover() -> dict[str, Check]:
    """Metric → check, those of the load's operations first and without the operation (``good``). Instruments' own come
    after those of this room.

    Raises InvalidInput for what a package brings and that is no check, or whose metric is there already.
    """
    found = list(ours())
    for name, brought in plugins.brought("checks"):
        if not isinstance(brought, Check):
            raise InvalidInput(
                f"'{name}' brings {brought!r}, which is no check",
                remedy="name an instance of chaos.checks.check.Check",
            )
        found.append(brought)
    found += instruments.checks()
    of_operations = [check for check in found if check.scope is Scope.OPERATION]
    others = [check for check in found if check.scope is not Scope.OPERATION]
    named = [*of_operations, *others]
    plugins.refuse_twice("metrics", (check.metric for check in named))
    return {check.metric: check for check in named}


@functools.cache
def checks() -> Mapping[str, Check]:
    """:func:`discover`, once: when they are first asked for, since files of this room, and instruments, import this
    one."""
    return discover()


def __getattr__(name: str) -> Mapping[str, Check]:
    if name == "CHECKS":
        return checks()
    raise AttributeError(name)


def metrics(operations: Iterable[str]) -> Iterator[tuple[str, str | None, Check]]:
    """Each metric as an expectation names it, the operation that it is of (None: of no one), its check."""
    of_operations = [check for check in checks().values() if check.scope is Scope.OPERATION]
    yield from ((f"{op}.{check.metric}", op, check) for op in operations for check in of_operations)
    yield from ((metric, None, check) for metric, check in checks().items() if check.scope is not Scope.OPERATION)


def of(metric: str) -> Check | None:
    """The check of a metric as an expectation names it; None for one that nobody here knows.

    Which operations there are is up to workloads: any may stand before a metric that is of one. What an
    instrument is asked may be up to experiments (SLIs): such checks are made when they are asked for, and in no list.
    """
    if (own := instruments.check_of(metric)) is not None:
        return own
    check = checks().get(metric)
    if check is not None:
        return None if check.scope is Scope.OPERATION else check
    check = checks().get(metric.partition(".")[2])
    return check if check is not None and check.scope is Scope.OPERATION else None


def rests_on(metric: str, *what: Rests) -> bool:
    """Whether a metric rests on one of these. One that nobody here knows rests on time, which is spoiled soonest."""
    check = of(metric)
    return (Rests.TIME if check is None else check.rests) in what


def group_of(metric: str) -> str | None:
    """What kind of finding it is: reads, writes, data, movement or recovery; None when nobody knows."""
    check = of(metric)
    if check is None:
        return None
    if check.group != "users":
        return check.group
    found = f"{metric.partition('.')[0]}s"
    return found if found in ("reads", "writes") else None


def of_scope(scope: Scope) -> Iterable[str]:
    """The metrics of a scope."""
    return (metric for metric, check in checks().items() if check.scope is scope)
