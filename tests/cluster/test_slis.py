"""SLIs in runs on a real cluster, from a real Prometheus: met and missed, a guard that trips, one that goes blind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.test_on_existing import CALLED, taken_for_theirs
from clusterkit import DATA, Cli, await_event, cli, findings, run_folder
from prometheuskit import FRESH, Monitoring, monitored, needed

from chaos.observe.proof import problems

pytestmark = [needed, pytest.mark.full]
EXPERIMENT = """\
apiVersion: opensearch-chaos/v1
name: checkout
topology: {topology}
load: {{read: {{rate: 50/s, good: ok within 1s}}, documents: 200}}
slis:
  errors: {{prometheus: '{url}', query: "{query}", every: 1s, oldest: 5s, fresh: '{fresh}'}}
phases: {{healthy: {{for: 15s}}, later: {{for: 15s}}}}
expect:
  - {{phase: healthy, sli.errors.max: "< 1%"}}
  - {{phase: later, sli.errors.max: "< 1%"}}
guards: {{{guard}max: 3m}}
"""
GUARD = "sli: {errors: {above: 5%, for: 3s}}, "


@pytest.fixture
def monitoring(tmp_path: Path) -> Iterator[Monitoring]:
    with monitored(tmp_path) as made:
        yield made


def written(folder: Path, url: str, guard: str = "", query: str = "checkout_errors_ratio") -> Path:
    file = folder / "checkout.yaml"
    given = {"topology": DATA / "tiny.yaml", "url": url, "query": query, "fresh": FRESH, "guard": guard}
    file.write_text(EXPERIMENT.format(**given))
    return file


def begun(phase: str):
    return lambda event: event["kind"] == "phase.start" and event["phase"] == phase


def test_one_that_is_met_passes_and_one_that_is_not_is_a_weakness(tiny, out, tmp_path, monitoring):
    running = Cli("run", written(tmp_path, monitoring.url), "--out", out, "--on", tiny.id)
    await_event(running, out, begun("later"))
    monitoring.exporter.ratio = 0.02
    code, output = running.end()
    found = findings(out)
    slis = {each["phase"]: each for each in found["findings"]}
    assert (slis["healthy"]["counts_as"], slis["healthy"]["measured_text"]) == ("pass", "0.1 %"), output
    assert (slis["later"]["counts_as"], slis["later"]["measured_text"]) == ("weakness", "2 %"), output
    assert code == 1 and found["outcome"] == "weakness" and found["clean"] is True, output
    lines = [json.loads(line) for line in (run_folder(out) / "history" / "slis.jsonl").read_text().splitlines()]
    assert {line["value"] for line in lines} == {0.001, 0.02}
    assert problems(tiny) == []


@pytest.mark.parametrize("dead", [False, True], ids=["above", "no data"])
def test_a_guard_ends_the_run_above_its_limit_and_without_data(tiny, out, tmp_path, monitoring, dead):
    running = Cli("run", written(tmp_path, monitoring.url, GUARD), "--out", out, "--on", tiny.id)
    await_event(running, out, begun("healthy"))
    if dead:
        monitoring.exporter.shut()
    else:
        monitoring.exporter.ratio = 0.5
    code, output = running.end()
    assert code == 4, output
    says = "it cannot be evaluated: errors had no value 3 times in a row" if dead else "errors was above 0.05 for 3s"
    assert f"The guard sli.errors tripped: {says}" in json.dumps(findings(out)["reasons"])
    assert problems(tiny) == []


def test_on_a_cluster_that_exists_it_is_the_same(tiny, tmp_path, monitoring):
    with taken_for_theirs(tiny, tmp_path, CALLED) as there:
        file = written(tmp_path, monitoring.url, GUARD)
        running = Cli("run", file, "--on", there.file, "--out", there.out)
        await_event(running, there.out, begun("later"))
        monitoring.exporter.ratio = 0.5
        code, output = running.end()
        assert code == 4 and there.as_before(), output
        assert "The guard sli.errors tripped: errors was above 0.05 for 3s" in json.dumps(findings(there.out))
        slis = {each["phase"]: each["counts_as"] for each in findings(there.out)["findings"]}
        assert slis == {"healthy": "pass", "later": "inconclusive"}, output
    assert problems(tiny) == []


def test_a_query_that_is_wrong_and_a_server_that_is_away_start_nothing(tiny, out, tmp_path, monitoring):
    for url, query, says in (
        (monitoring.url, "sum(checkout_errors_ratio", "the query is refused: invalid parameter"),
        ("http://127.0.0.1:9", "1", "it cannot be reached"),
    ):
        code, output = cli("run", written(tmp_path, url, query=query), "--out", out, "--on", tiny.id)
        assert code == 2 and says in " ".join(output.split()) and "Traceback" not in output, output
        assert run_folder(out) is None
