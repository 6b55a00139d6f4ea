"""The catalogue of faults: one file a family, and in it everything about its kinds.

A kind of fault is a class: its fields are its parameters, its docstring says what it is, and ``build`` makes it. A
module that is put into this folder is in the catalogue: definitions, JSON Schema, plan, ``opensearch-chaos faults``
and the generated documentation all read it from here.
"""

from __future__ import annotations

import importlib
import pkgutil

from chaos.definitions.steps import FaultParams

FAMILIES = ("network", "node", "disk", "cluster manager", "zone", "settings")
"""In the order in which they are shown; others come after."""


def discover() -> dict[str, type[FaultParams]]:
    """Every kind in this folder, by family and in the order in which its file has them."""
    found: list[type[FaultParams]] = []
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda each: each.name):
        loaded = importlib.import_module(f"{__name__}.{module.name}")
        found += [
            each
            for each in vars(loaded).values()
            if isinstance(each, type)
            and issubclass(each, FaultParams)
            and each.__module__ == loaded.__name__
            and "kind" in vars(each)
        ]

    def place(kind: type[FaultParams]) -> int:
        return FAMILIES.index(kind.family) if kind.family in FAMILIES else len(FAMILIES)

    return {kind.kind: kind for kind in sorted(found, key=place)}
