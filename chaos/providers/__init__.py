"""Providers: each carries kinds of fault out by one means, and is the ``PROVIDER`` of a module.

A provider makes the moves, and holds the operations that apply them to a target. It knows the kinds that it carries
out; they do not know it. A module that is put into this folder is found, and so is what another package names as an
entry point of ``opensearch_chaos.providers``.
"""

from __future__ import annotations

import sys

from chaos.base import plugins
from chaos.base.errors import InvalidInput
from chaos.faults.offers import Provider


def discover() -> list[Provider]:
    """Every provider, ours first. Raises InvalidInput for what a package brings and that is none, or is there twice."""
    found = [module.PROVIDER for module in plugins.modules(sys.modules[__name__])]
    for name, brought in plugins.brought("providers"):
        if not isinstance(brought, Provider):
            raise InvalidInput(
                f"'{name}' brings {brought!r}, which is no provider",
                remedy="name an instance of chaos.faults.offers.Provider",
            )
        found.append(brought)
    plugins.refuse_twice("providers", (each.name for each in found))
    return found
