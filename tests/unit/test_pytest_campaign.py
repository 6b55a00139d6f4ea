"""``pytest -m chaos --chaos-campaign FILE``: its cells as tests, by runs that are committed already."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from unit.commands.test_campaign import NEW, filled  # noqa: F401

import chaos.registry  # noqa: F401 - pytester forgets what a session inside a test is the first to load

pytest_plugins = ["pytester"]
Filled = Callable[..., Path]
SLOWED = ("zone-network-slowdown",)


def collected(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if "::" in line]


def test_each_cell_is_collected_with_its_expectations(filled: Filled, pytester: pytest.Pytester) -> None:  # noqa: F811
    file = filled(2, skip=lambda cell: True)
    result = pytester.runpytest_inprocess("-m", "chaos", "--chaos-campaign", str(file), "--collect-only", "-q")
    lines = collected(result)
    assert result.ret == 0
    assert sum("the run itself is valid and clean" in line for line in lines) == 2 * 2 * 2  # without the control
    assert any("zone-network-slowdown-tuned 3az-tuned 3.8.0 seed 2::" in line for line in lines), lines[:3]
    result = pytester.runpytest_inprocess(
        "-m", "chaos and control", "--chaos-campaign", str(file), "--collect-only", "-q"
    )
    assert {line.split("::")[1].split()[0] for line in collected(result)} == {"planted-data-loss"}


def test_committed_cells_are_judged_and_not_run_again(filled: Filled, pytester: pytest.Pytester) -> None:  # noqa: F811
    file = filled(1, names=SLOWED)
    result = pytester.runpytest_inprocess("-m", "chaos", "--chaos-campaign", str(file), "-q", "-rf")
    found = result.parseoutcomes()
    assert found.get("failed", 0) >= 1 and found["passed"] > 10, result.outlines
    failed = [line for line in result.outlines if line.startswith("FAILED")]
    assert all(f" {NEW} seed 1::" in line for line in failed) and any("read.good" in line for line in failed)


def test_what_cannot_be_made_is_an_error_and_no_pass(
    filled: Filled,  # noqa: F811
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from chaos.campaign.worker import Worker

    def fails(self: Worker, **_: object) -> None:
        return None

    monkeypatch.setattr(Worker, "work", fails)
    file = filled(1, skip=lambda cell: cell.version == NEW, names=SLOWED)
    result = pytester.runpytest_inprocess("-m", "chaos", "--chaos-campaign", str(file), "-q")
    found = result.parseoutcomes()
    assert found["errors"] == found["passed"] and "failed" not in found


def test_the_budget_of_time_is_of_all_cells_together(
    filled: Filled,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from chaos.base.errors import ChaosError
    from chaos.campaign.worker import Worker
    from chaos.commands.campaign_cells import CampaignCells

    ends: list[float | None] = []
    monkeypatch.setattr(Worker, "work", lambda self, **_: ends.append(self.ends_at))
    file = filled(1, skip=lambda cell: True, names=SLOWED)
    file.write_text(f"{file.read_text()}budget: {{wall: 1h}}\n")
    cells = CampaignCells(file, lambda text: None)
    for cell in cells.cells:
        with pytest.raises(ChaosError, match="the budget of time has ended"):
            cells.result(cell)
    assert len(ends) == 2 and ends[0] == ends[1] is not None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("-m", "chaos", "--chaos-seed", "3"), "--chaos-seed: the campaign's file says what is run"),
        (("-m", "chaos", "--chaos-objective", "1s"), "--chaos-objective: the campaign's file"),
        (("-m", "chaos", "--chaos-set", "load.read.rate=1/s"), "--chaos-set: the campaign's file"),
        ((), "--chaos-campaign: no experiment is asked for; add -m chaos"),
    ],
)
def test_what_means_nothing_beside_it_is_refused(
    arguments: tuple[str, ...],
    says: str,
    filled: Filled,  # noqa: F811
    pytester: pytest.Pytester,
) -> None:
    result = pytester.runpytest_inprocess("--chaos-campaign", str(filled(1, skip=lambda cell: True)), *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{says}*"])


def test_a_wrong_campaign_is_a_usage_error(tmp_path: Path, pytester: pytest.Pytester) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("apiVersion: opensearch-chaos/v1\nkind: campaign\n")
    result = pytester.runpytest_inprocess("-m", "chaos", "--chaos-campaign", str(file))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--chaos-campaign: *c.yaml:*missing*"])
