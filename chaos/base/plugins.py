"""What other packages bring: found through entry points, ours first.

A package names what it adds in its own metadata (``[project.entry-points."opensearch_chaos.GROUP"]``), and it is there
as soon as the package is installed. Ours are modules in a folder, which works from a checkout too.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

from chaos.base.errors import InvalidInput

GROUPS = ("kinds", "providers", "checks", "workloads", "targets", "instruments")
"""What can be brought."""
OURS = "opensearch-chaos"


def modules(package: ModuleType) -> list[ModuleType]:
    """Those of a folder of ours, by name."""
    names = sorted(each.name for each in pkgutil.iter_modules(package.__path__))
    return [importlib.import_module(f"{package.__name__}.{name}") for name in names]


def brought(group: str) -> list[tuple[str, Any]]:
    """(name, object) of a group of :data:`GROUPS`, by name. Raises InvalidInput naming what cannot be loaded."""
    return [(point.name, loaded(point)) for point in named(group)]


def named(group: str) -> list[EntryPoint]:
    """What other packages name of a group, by name; nothing is loaded."""
    assert group in GROUPS
    return sorted(entry_points(group=f"opensearch_chaos.{group}"), key=lambda each: each.name)


def loaded(point: EntryPoint) -> Any:
    """What an entry point names. Raises InvalidInput: it is somebody else's code, and the user must know whose."""
    try:
        return point.load()
    except Exception as error:
        raise InvalidInput(
            f"{whose(point)}: '{point.name}' ({point.value}) cannot be loaded: {type(error).__name__}: {error}",
            remedy="mend or uninstall that package",
        ) from error


def whose(point: EntryPoint) -> str:
    """The package that brings it."""
    return f"package {point.dist.name} {point.dist.version}" if point.dist is not None else "a package without a name"


def refuse_twice(group: str, names: Iterable[str]) -> None:
    """Raises InvalidInput when two packages bring the same name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidInput(f"there are two {group} named '{name}'", remedy="uninstall the package with one of them")
        seen.add(name)
