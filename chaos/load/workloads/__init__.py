"""Workloads by name: those of this folder, each the ``WORKLOAD`` of its module, and those of other packages."""

from __future__ import annotations

import functools
import sys

from chaos.base import plugins
from chaos.base.errors import InvalidInput
from chaos.load.workload import Workload

DEFAULT = "documents"


@functools.cache
def every() -> dict[str, Workload]:
    """All that there are, ours first. Raises InvalidInput for what a package brings and that is none, or is twice."""
    found = [module.WORKLOAD for module in plugins.modules(sys.modules[__name__])]
    for name, brought in plugins.brought("workloads"):
        if not isinstance(brought, Workload):
            raise InvalidInput(
                f"'{name}' brings {brought!r}, which is no workload",
                remedy="name an instance of chaos.api.workloads.Workload",
            )
        brought.refuse_unfit()
        found.append(brought)
    plugins.refuse_twice("workloads", (each.name for each in found))
    return {each.name: each for each in found}


def named(name: str) -> Workload:
    """The workload of this name. Raises InvalidInput when there is none."""
    if name not in every():
        raise InvalidInput(f"there is no workload '{name}'", remedy=f"choose one of: {', '.join(every())}")
    return every()[name]
