"""The catalogue of faults: one file a family, and in it everything about its kinds.

A kind of fault is a class: its fields are its parameters, its docstring says what it is, ``aim`` says whom it hits
and ``evidence`` what must then be seen. A module that is put into this folder, or that another package names as an
entry point of ``opensearch_chaos.kinds``, is in the catalogue: definitions, JSON Schema, plan, ``opensearch-chaos
faults`` and the generated documentation all read it from there.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from chaos.base import plugins
from chaos.base.errors import InvalidInput
from chaos.definitions.steps import FaultParams
from chaos.faults.kind import Kind

FAMILIES = ("network", "http", "store", "node", "disk", "cluster manager", "query", "zone", "settings")
"""In the order in which they are shown; others come after."""


def discover() -> dict[str, type[FaultParams]]:
    """Every kind, by family and in the order in which its file has them: those of this folder, and other packages'.

    Raises InvalidInput for what a package brings and that is no kind, and for a kind that is there twice.
    """
    found = [kind for module in plugins.modules(sys.modules[__name__]) for kind in kinds_of(module)]
    found += [kind for name, brought in plugins.brought("kinds") for kind in map(complete, kinds_of(brought, name))]
    plugins.refuse_twice("kinds of fault", (kind.kind for kind in found))

    def place(kind: type[FaultParams]) -> int:
        return FAMILIES.index(kind.family) if kind.family in FAMILIES else len(FAMILIES)

    return {kind.kind: kind for kind in sorted(found, key=place)}


def kinds_of(brought: Any, name: str = "") -> list[type[FaultParams]]:
    """The kinds of a module, in its order; or the one that was named."""
    if isinstance(brought, ModuleType):
        return [each for each in vars(brought).values() if _is_kind(each) and each.__module__ == brought.__name__]
    if not _is_kind(brought):
        raise InvalidInput(
            f"'{name}' brings {brought!r}, which is no kind of fault",
            remedy="name a module with kinds, or a subclass of chaos.faults.kind.Kind that has a kind",
        )
    return [brought]


REQUIRED = ("family", "proof", "holding", "examples")
"""What a class must say of its kind, beside its fields."""


def complete(kind: type[FaultParams]) -> type[FaultParams]:
    """The kind. Raises InvalidInput where it does not say all that the catalogue tells of it."""
    if lacking := [name for name in REQUIRED if not hasattr(kind, name)]:
        raise InvalidInput(
            f"the kind of fault '{kind.kind}' ({kind.__module__}) does not say its {', '.join(lacking)}",
            remedy="see 'Add a kind of fault' in CONTRIBUTING.md",
        )
    return kind


def _is_kind(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, Kind) and "kind" in vars(thing)
