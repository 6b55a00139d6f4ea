"""Clients of the load and helpers of streams, a file each: the ``CLIENT`` or the ``HELPER`` of a module."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping

from chaos.base import plugins
from chaos.load.client import Client, Helper


@functools.cache
def clients() -> Mapping[str, Client]:
    """How requests find a node, by name."""
    found = [getattr(module, "CLIENT", None) for module in plugins.modules(sys.modules[__name__])]
    return {each.name: each for each in found if isinstance(each, Client)}


@functools.cache
def helpers() -> Mapping[str, Helper]:
    """By which call bulks are sent, by name."""
    found = [getattr(module, "HELPER", None) for module in plugins.modules(sys.modules[__name__])]
    return {each.name: each for each in found if isinstance(each, Helper)}
