"""Imported for what it does: benchmarks find what tests share, such as made-up runs and a stand-in of a server."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
