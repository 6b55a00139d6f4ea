"""A runner that is killed at any moment leaves nothing that `recover` cannot take away; see crash.py."""

from __future__ import annotations

import os

import crash
import pytest

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: network namespaces"),
]


def test_a_few_kills_leave_nothing(capsys):
    assert crash.main(["--seed", "1", "--kills", "3", "--stages", "inject,hold,undo"]) == 0, capsys.readouterr().out


@pytest.mark.full
def test_every_stage_and_every_family_survive_kills(capsys):
    assert crash.main(["--seed", "7", "--kills", "60"]) == 0, capsys.readouterr().out
