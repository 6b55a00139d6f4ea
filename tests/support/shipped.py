"""The definitions that come with the package."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
CASES = sorted((ROOT / "experiments" / "upstream").glob("*.yaml"))
"""Bugs of OpenSearch as steps: no experiments."""
SIDES = sorted((ROOT / "experiments" / "ab").glob("*.yaml"))
"""Experiments with sides: several plans each."""
EXPERIMENTS = sorted(path for path in (ROOT / "experiments").rglob("*.yaml") if path not in (*CASES, *SIDES))
TOPOLOGIES = sorted((ROOT / "topologies").glob("*.yaml"))
