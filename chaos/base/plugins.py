"""What other packages bring: found through entry points, ours first.

A package names what it adds in its own metadata (``[project.entry-points."opensearch_chaos.GROUP"]``), and it is there
as soon as the package is installed. Ours are modules in a folder, which works from a checkout too.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

from chaos.base.errors import InvalidInput

GROUPS = ("kinds", "providers", "checks", "workloads", "targets", "instruments")
"""What can be brought."""
OURS = "opensearch-chaos"
API = "opensearch_chaos.api"
"""The group in which a package names the version of :mod:`chaos.api` that it was written for."""
API_VERSIONS = frozenset({0})
"""Those that are here."""


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
    refuse_other_version(point)
    try:
        return point.load()
    except Exception as error:
        raise InvalidInput(
            f"{whose(point)}: '{point.name}' ({point.value}) cannot be loaded: {type(error).__name__}: {error}",
            remedy="mend or uninstall that package",
        ) from error


def refuse_other_version(point: EntryPoint) -> None:
    """Raises InvalidInput where the package of an entry point asks for a version of :mod:`chaos.api` that is not here.

    A package that names none was written for version 0.
    """
    if point.dist is None:
        return
    for asked in point.dist.entry_points.select(group=API):
        number = re.fullmatch(r"chaos\.api:V([0-9]+)", asked.value)
        if number is None or int(number[1]) not in API_VERSIONS:
            named = f"version {number[1]}" if number is not None else f"'{asked.value}', which is no version,"
            there = ", ".join(map(str, sorted(API_VERSIONS)))
            raise InvalidInput(
                f"{whose(point)} asks for {named} of chaos.api, and opensearch-chaos has {there}",
                remedy="install a version of that package that fits, or another one of opensearch-chaos",
            )


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
