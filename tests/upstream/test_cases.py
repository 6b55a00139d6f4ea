"""Every shipped case on every version that it names: ``always`` and ``never`` are held to, and its control too.

A version that mends a bug fails here until the case's row is changed.
"""

from __future__ import annotations

import os

import pytest
from shipped import CASES

from chaos.base.console import Reporter
from chaos.campaign.upstream import attempt
from chaos.definitions.upstream import DECIDES_NOTHING, KEPT, REPRODUCED, load_case
from chaos.run.pool import LabPool
from chaos.run.stopping import Stop

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.full,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: network namespaces"),
]
LOADED = [load_case(path) for path in CASES]
TOLD = [(case, version) for case in LOADED for version in case.written.versions]
WANTED = {"always": REPRODUCED, "never": KEPT}


@pytest.mark.parametrize(("case", "version"), TOLD, ids=[f"{case.written.name}-{version}" for case, version in TOLD])
def test_a_case_shows_what_its_file_says(case, version: str) -> None:
    if (declared := case.written.reproduces[version]) == DECIDES_NOTHING:
        pytest.skip("found in some of n attempts: decides nothing")
    reporter = Reporter(quiet=True)
    record = attempt(case, version, LabPool(print), reporter, Stop())
    assert record["outcome"] == WANTED[declared], record["steps"]


@pytest.mark.parametrize("case", LOADED, ids=[case.written.name for case in LOADED])
def test_its_control_shows_what_is_expected(case) -> None:
    version = max(case.written.versions, key=lambda text: [int(part) for part in text.split(".")])
    record = attempt(case, version, LabPool(print), Reporter(quiet=True), Stop(), control=True)
    assert record["outcome"] == KEPT, record["steps"]
