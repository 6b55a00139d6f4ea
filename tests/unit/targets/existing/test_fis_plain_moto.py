"""moto alone as the endpoint, which says of every experiment that it is completed and does nothing: never green.

On a lab that only remembers; a run on real nodes is refused before it begins (tests/cluster/test_fis.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fishands import TinyLab, started

from chaos.base.errors import FaultError
from chaos.definitions.fis import FisFile
from chaos.fis_endpoint import mirror, standing
from chaos.fis_endpoint.clients import ACCOUNT, REGION
from chaos.providers.fis import Drafted, disrupt, stop_instances
from chaos.targets.existing.fis import Fis

RUN, FAULT, NODE = "run-1", "f1", "c-data"


def nobody(path: str) -> tuple[int, Any]:
    raise AssertionError("by tags the cluster is not asked")


@dataclass
class There:
    lab: Any
    fis: Fis
    moto: str


@pytest.fixture
def there(tmp_path: Path) -> Iterator[There]:
    with started() as moto:
        lab: Any = TinyLab("plain-moto")
        mirror.fill(lab, moto.url, tmp_path)
        file = FisFile.model_validate(
            {
                "region": REGION,
                "account": ACCOUNT,
                "role": standing.ROLE,
                "instances": {"tag": mirror.NODE},
                "longest": "12h",
                "endpoint": moto.url,
            }
        )
        yield There(lab, Fis(file, "staging"), moto.url)


def test_a_token_that_brings_back_another_template_is_no_template_of_ours(there: There) -> None:
    """moto answers a token that it knows with what it made before, whatever is asked for now."""
    fis, lab = there.fis, there.lab
    theirs: Drafted = stop_instances(["b-data"])(fis.file, fis, lab)
    fis.make_template(RUN, FAULT, theirs.template)
    mine: Drafted = stop_instances([NODE])(fis.file, fis, lab)
    with pytest.raises(FaultError, match=r"which is not what was asked for: targets\.nodes-0"):
        Fis(fis.file, "staging").make_template(RUN, FAULT, mine.template)
    fis.drop_template(RUN, FAULT)


@pytest.mark.parametrize("draft", [stop_instances([NODE]), disrupt(["c-cm", "c-data"], "all")], ids=["stop", "disrupt"])
def test_what_plain_moto_completes_is_no_fault_and_nothing_is_left(there: There, draft: Any) -> None:
    fis, lab = there.fis, there.lab
    with pytest.raises(FaultError, match="get_safety_lever"):  # a run is refused before it begins
        fis.not_ready(nobody, [NODE])
    drafted: Drafted = draft(fis.file, fis, lab)
    fis.make_template(RUN, FAULT, drafted.template)
    with suppress(FaultError):
        fis.start(RUN, FAULT, drafted.expected)
    for _ in range(10):
        word = fis.word(RUN, FAULT, fresh=0.0)
    assert word.status == "completed" and word.over and not word.running  # proves nothing (test_by_fis.py)
    assert "is over, and we did not stop it" in str(fis.ended_early())
    assert lab.calls == [] and not lab.dead and not lab.blocked
    assert {each.state for each in mirror.Mirror(lab.id, there.moto).instances().values()} == {"running"}
    fis.end(RUN, FAULT, drafted.snapshot)
    fis.drop_template(RUN, FAULT)
    assert fis.left() == []
