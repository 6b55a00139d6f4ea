"""The definitions that come with the package."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
CASES = sorted((ROOT / "experiments" / "upstream").glob("*.yaml"))
"""Bugs of OpenSearch as steps: no experiments."""
SIDES = sorted(path for path in (ROOT / "experiments").rglob("*.yaml") if "\nvary:" in path.read_text())
"""Experiments with sides: several plans each."""
INGESTION = [path for path in SIDES if "ingestion" in path.parts]
"""Those that ask an advice on ingestion (docs/ingestion.md)."""
REPLICATION = [path for path in SIDES if "replication" in path.parts]
"""Those that compare kinds of replication (docs/replication.md)."""
GRAVITON = [path for path in SIDES if "graviton" in path.parts]
"""Those with the load of AWS's comparison of instances with Graviton2 (docs/graviton.md)."""
WORKLOADS = sorted(path for path in (ROOT / "experiments").rglob("*.yaml") if "\nkind: workload" in path.read_text())
"""Workloads of experiments that stand beside them."""
CAMPAIGNS = sorted((ROOT / "experiments" / "campaigns").glob("*.yaml"))
"""Matrices of experiments: no experiments themselves."""
EXPERIMENTS = sorted(set((ROOT / "experiments").rglob("*.yaml")) - {*CASES, *SIDES, *WORKLOADS, *CAMPAIGNS})
TOPOLOGIES = sorted((ROOT / "topologies").glob("*.yaml"))
