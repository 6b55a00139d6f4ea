"""The program that makes one run of a campaign, for its worker (:mod:`chaos.campaign.child`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaos.base.console import Reporter, keep_clean
from chaos.campaign import child
from chaos.registry import GRAMMAR, PROVIDERS
from chaos.run.options import RunResult
from chaos.run.spec import RunSpec, carry_out


def _carry(spec: Mapping[str, Any], out: Path) -> RunResult:
    return carry_out(RunSpec.from_json(spec, GRAMMAR.experiment), out=out, providers=PROVIDERS, reporter=Reporter())


if __name__ == "__main__":
    keep_clean()
    os.umask(os.umask(0o022) | 0o002)  # as the command line does: its worker may be another program's
    sys.exit(child.serve(_carry))
