"""What other packages import: kinds of fault, providers, checks, workloads and targets of your own are made of this.

A module for each thing that can be added (:mod:`~chaos.api.faults`, :mod:`~chaos.api.providers`,
:mod:`~chaos.api.checks`, :mod:`~chaos.api.workloads`, :mod:`~chaos.api.targets`), and :mod:`~chaos.api.errors`.
Everything else in ``chaos`` may change at any time. CONTRIBUTING.md has a recipe for each; ``tests/extension`` is a
package that imports nothing else.

Version 0 may still change, in any release, with a line in CHANGELOG.md. A package says which version it was written for
in its metadata; where that is not here it is refused by name, before anything of it is loaded::

    [project.entry-points."opensearch_chaos.api"]
    version = "chaos.api:V0"
"""

from __future__ import annotations

from chaos.base.plugins import API_VERSIONS

VERSION = max(API_VERSIONS)
"""The newest version of this face."""
V0 = 0
"""What the metadata of a package for version 0 names."""

__all__ = ["V0", "VERSION"]
