"""A real log shipper beside a disk beyond the flood stage: its defaults lose lines, and the run says how many; settings
that send again lose none. rsyslog is of Debian's packages (docs/writing.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from clusterkit import ROOT, cli, findings, nothing_left, run_folder

from chaos.base.errors import InvalidInput
from chaos.programs.shipping import rsyslog

pytestmark = [pytest.mark.cluster, pytest.mark.full]


@pytest.fixture(autouse=True)
def _there() -> None:
    try:
        rsyslog.installed()
    except InvalidInput as error:
        pytest.skip(str(error))


def shipped(name: str, out: Path) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Exit code, findings and the account of the lines."""
    code, output = cli("run", ROOT / "experiments" / "clients" / f"{name}.yaml", "--out", out, timeout=500)
    folder = run_folder(out)
    assert folder is not None, output
    account = json.loads((folder / "shipper" / "account.json").read_text())
    found = findings(out)
    assert found["clean"] is True and [fault["proven"] for fault in found["faults"]] == [True], (output, found)
    assert nothing_left() == []
    return code, found, account


def test_by_its_defaults_lines_are_lost_and_the_verdict_is_a_weakness_with_their_number(out: Path) -> None:
    code, found, account = shipped("rsyslog", out)
    lost = account["sent"] - account["found"]
    assert code == 1 and found["outcome"] == "weakness", found["reasons"]
    assert lost > 300 and account["gave_up"] >= lost, account
    (line,) = [each for each in found["findings"] if "judge" in each["title"]]
    assert line["verdict"] == "fail" and f"rsyslog lost {lost} of {account['sent']} lines" in line["says"], line
    assert any(f"rsyslog lost {lost} of" in reason["says"] for reason in found["reasons"]), found["reasons"]


def test_sent_again_none_is_lost_and_none_is_there_twice(out: Path) -> None:
    code, found, account = shipped("rsyslog-retrying", out)
    assert (account["sent"] - account["found"], account["again"], account["drained"]) == (0, 0, True), account
    assert code == 0 and found["outcome"] == "pass", found["reasons"]
