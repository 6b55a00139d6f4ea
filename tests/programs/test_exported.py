"""Exported metrics in a real Prometheus, loaded by promtool, and asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests
import synthetic
from prometheuskit import PATIENCE, needed, stored
from typer.testing import CliRunner

from chaos.cli import app
from chaos.history.failures import Failure
from chaos.history.format import Outcome
from chaos.report.exported.source import Run

pytestmark = needed


class Loaded:
    """Two runs, and the Prometheus that has them."""

    def __init__(self, url: str, runs: list[Run]) -> None:
        self.url, self.runs = url, runs

    def ask(self, query: str, at: int) -> dict[tuple[str, ...], float]:
        """The answer to an instant query at a moment (ms): label values in the order of their names → value."""
        answer = requests.get(
            f"{self.url}/api/v1/query", params={"query": query, "time": f"{at / 1000:.3f}"}, timeout=PATIENCE
        ).json()
        assert answer["status"] == "success", answer
        return {
            tuple(value for name, value in sorted(row["metric"].items()) if name != "__name__"): float(row["value"][1])
            for row in answer["data"]["result"]
        }


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    folder = tmp_path_factory.mktemp("exported")
    folders = []
    for name, seed in (("first", 1), ("second", 2)):
        story = synthetic.slow_zone()
        story.seed, story.failures = seed, {Outcome.TIMEOUT: Failure.NO_SHARD}
        made = story.write(folder / name)
        plan = made / "plan.json"
        plan.write_text(plan.read_text().replace('"run": "', f'"run": "{name}-'))
        folders.append(made)
    file = folder / "runs.om"
    done = CliRunner().invoke(app, ["export", *map(str, folders), "--to", "openmetrics", "-o", str(file)])
    assert done.exit_code == 0, done.output
    with stored(folder, file) as url:
        yield Loaded(url, [Run(each) for each in folders])


def test_counts_of_seconds_add_up_to_those_of_each_run(loaded: Loaded) -> None:
    end = max(run.end for run in loaded.runs)
    for name, column in (("scheduled", 0), ("good", 1)):
        found = loaded.ask(f"sum_over_time(opensearch_chaos_requests_{name}[1d])", end)
        assert found == {
            (op, run.name): float(len(arrivals) if column == 0 else arrivals.good.sum())
            for run in loaded.runs
            for op, arrivals in run.record.arrivals.items()
        }


def test_why_requests_failed_is_asked_by_reason(loaded: Loaded) -> None:
    end = max(run.end for run in loaded.runs)
    found = loaded.ask("sum by (run, reason) (sum_over_time(opensearch_chaos_requests_failed[1d])) > 0", end)
    expected: dict[tuple[str, ...], float] = {}
    for run in loaded.runs:
        for each in run.failed:
            key = (each.reason, run.name)
            expected[key] = expected.get(key, 0) + each.count
    assert found == expected
    assert {reason for reason, _ in found} == {"no_shard"}


def test_the_worst_second_lies_where_the_fault_was_in_effect(loaded: Loaded) -> None:
    run = loaded.runs[0]
    worst = min(run.seconds, key=lambda each: each.availability)
    query = f'opensearch_chaos_availability_ratio{{run="{run.name}",operation="{worst.operation}"}}'
    assert list(loaded.ask(query, worst.at).values()) == [pytest.approx(worst.availability)]
    joined = f'{query} and on (run) opensearch_chaos_fault_in_effect{{run="{run.name}"}}'
    assert loaded.ask(joined, worst.at + 999)
    assert not loaded.ask(joined, run.begin)  # nothing before the fault


def test_verdicts_annotations_and_the_exit_code_are_found(loaded: Loaded) -> None:
    for run in loaded.runs:
        only = f'{{run="{run.name}"}}'
        end = run.end
        verdicts = loaded.ask(f"last_over_time(opensearch_chaos_verdict{only}[1d])", end)
        assert len(verdicts) == len(run.findings.findings) > 0
        found = loaded.ask(f"last_over_time(opensearch_chaos_exit_code{only}[1d])", end)
        assert list(found.values()) == [float(run.findings.exit_code)]
        noted = loaded.ask(f"count_over_time(opensearch_chaos_annotation{only}[1d])", end)
        assert sum(noted.values()) == len(run.annotations())
