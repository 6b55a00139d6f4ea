"""Providers: each carries kinds of fault out by one means. A module that is put into this folder is in the catalogue.

A provider makes the moves, and holds the operations that apply them to a target. It knows the kinds that it carries
out; they do not know it.
"""

from __future__ import annotations

import importlib
import pkgutil

from chaos.faults.offers import Provider


def discover() -> list[Provider]:
    """Every provider in this folder, by the name of its file."""
    modules = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return [importlib.import_module(f"{__name__}.{name}").PROVIDER for name in modules]
