"""Exports: names that stay, samples and documents that say what the run says, and nothing where nothing is known."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import corpuskit
import pytest
import synthetic
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from typer.testing import CliRunner

from chaos.base.errors import HistoryError, InvalidInput
from chaos.cli import app
from chaos.history.failures import Failure
from chaos.history.format import Outcome
from chaos.report.exported import catalogue, ndjson, openmetrics, page
from chaos.report.exported.source import Run

ROOT = Path(__file__).parents[3]
NAMES = json.loads((Path(__file__).parent / "exported_names.json").read_text())
MS = 1000


def told(folder: Path, **more: Any) -> Path:
    """A run whose slow zone makes requests time out and be rejected."""
    story = synthetic.slow_zone()
    story.failures = {Outcome.TIMEOUT: Failure.TIMEOUT, Outcome.REJECTED: Failure.INDEXING_PRESSURE}
    for name, value in more.items():
        setattr(story, name, value)
    return story.write(folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(told(tmp_path_factory.mktemp("runs") / "one"))


def families(*runs: Run) -> dict[str, Any]:
    """What the parser of another project reads."""
    return {each.name: each for each in text_string_to_metric_families("".join(openmetrics.lines(runs)))}


def documents(run: Run) -> list[dict[str, Any]]:
    return [json.loads(json.dumps(each)) for each in ndjson.documents(run)]


def of_kind(run: Run, kind: str) -> list[dict[str, Any]]:
    return [each for each in documents(run) if each["kind"] == kind]


# -- names ------------------------------------------------------------------------------------------------------


def test_names_that_were_given_out_stay_as_they_were() -> None:
    """A name may be added (add it to the file), none may be changed or taken away."""
    assert NAMES["index"] == catalogue.INDEX
    assert NAMES["kinds"] == list(catalogue.KINDS)
    assert NAMES["fields"] == {each.name: each.type for each in catalogue.FIELDS}
    assert NAMES["metrics"] == {each.family: list(each.labels) for each in catalogue.METRICS}


def test_the_page_is_made_of_the_catalogue() -> None:
    assert (ROOT / "docs" / "export.md").read_text() == page.text(), f"run: {page.COMMAND} > docs/export.md"


def test_every_metric_has_samples_and_no_sample_is_of_another(run: Run) -> None:
    assert set(openmetrics.SAMPLES) == {each.name for each in catalogue.METRICS}
    for name, family in families(run).items():
        (metric,) = [each for each in catalogue.METRICS if each.family == name]
        for sample in family.samples:
            assert {"run"} <= set(sample.labels) <= {"run", *metric.labels}


def test_every_document_has_fields_of_its_kind_alone(run: Run) -> None:
    of = {each.name: each.kinds for each in catalogue.FIELDS}
    for document in documents(run):
        assert all(document["kind"] in of[name] for name in document), document


def test_the_template_has_every_field_and_no_other() -> None:
    made: Any = catalogue.template()
    mappings = made["template"]["mappings"]
    assert mappings["dynamic"] == "strict"
    assert set(mappings["properties"]) == {each.name for each in catalogue.FIELDS}


# -- what they say ----------------------------------------------------------------------------------------------


def test_seconds_add_up_to_what_was_scheduled_and_good(run: Run) -> None:
    for op, arrivals in run.record.arrivals.items():
        mine = [each for each in run.seconds if each.operation == op]
        assert sum(each.scheduled for each in mine) == len(arrivals) > 0
        assert sum(each.good for each in mine) == int(arrivals.good.sum())
        assert len({each.at for each in mine}) == len(mine)
        assert all(b.at - a.at == MS for a, b in itertools.pairwise(mine))


def test_failures_add_up_to_what_was_not_answered_in_full(run: Run) -> None:
    expected: Counter[tuple[str, str]] = Counter()
    for (op, _, outcome, _), number in run.record.failures.items():
        expected[op, "timeout" if outcome == Outcome.TIMEOUT else str(outcome)] += number
    found: Counter[tuple[str, str]] = Counter()
    for each in run.failed:
        found[each.operation, each.reason] += each.count
    assert found == expected and found
    sampled: Counter[tuple[str, str]] = Counter()
    for sample in families(run)["opensearch_chaos_requests_failed"].samples:
        sampled[sample.labels["operation"], sample.labels["reason"]] += int(sample.value)
    assert +sampled == found


def test_latency_is_that_of_the_arrivals_by_rank_and_absent_where_so_many_were_not_answered(run: Run) -> None:
    absent = 0
    for op, arrivals in run.record.arrivals.items():
        by_second: dict[int, list[float]] = defaultdict(list)
        seconds = (arrivals.intended - run.record.origin) // 1_000_000_000
        for second, latency in zip(seconds.tolist(), arrivals.latency.tolist(), strict=True):
            by_second[second].append(latency)
        mine = [each for each in run.seconds if each.operation == op]
        for found, second in zip(mine, sorted(by_second), strict=True):
            ranked = sorted(by_second[second])
            for percent, value in zip((50, 99), found.latency, strict=True):
                wanted = ranked[math.ceil(percent / 100 * len(ranked)) - 1]
                assert value == (wanted if math.isfinite(wanted) else None)
                absent += value is None
    assert absent


def test_times_are_those_of_the_wall_clock(run: Run) -> None:
    start = next(each for each in run.record.events if each["kind"] == "phase.start")
    (phase, *_) = of_kind(run, "phase")
    assert phase["@timestamp"].endswith("Z")
    assert abs(run.at(start["t"]) - start["wall"] * MS) <= 1
    sample = families(run)["opensearch_chaos_phase"].samples[0]
    assert abs(float(sample.timestamp) - start["wall"]) < 0.002


def test_verdicts_faults_and_the_outcome_are_those_of_the_findings(run: Run) -> None:
    found = run.findings
    rows = {each["finding"]: each for each in of_kind(run, "verdict")}
    assert set(rows) == {each.id for each in found.findings}
    for finding in found.findings:
        row = rows[finding.id]
        assert (row["verdict"], row.get("measured")) == (finding.verdict.value, finding.measure.value)
    assert [each["fault"] for each in of_kind(run, "fault")] == [each["fault"] for each in found.faults]
    (whole,) = of_kind(run, "run")
    assert (whole["outcome"], whole["exit_code"]) == (found.outcome.value, int(found.exit_code))
    (code,) = families(run)["opensearch_chaos_exit_code"].samples
    assert code.value == int(found.exit_code)


def test_annotations_are_phases_faults_and_actions_by_time(run: Run) -> None:
    kinds = Counter(each["annotation"] for each in of_kind(run, "annotation"))
    assert kinds["phase"] == len(run.record.spans)
    assert kinds["fault"] == kinds["undo"] == len(run.findings.faults) > 0
    times = [each["@timestamp"] for each in of_kind(run, "annotation")]
    assert times == sorted(times)


# -- nothing where nothing is known -----------------------------------------------------------------------------


def test_a_record_without_words_has_no_failures(tmp_path: Path) -> None:
    run = Run(told(tmp_path / "old", failures={}))
    assert run.failed == ()
    assert of_kind(run, "failure") == []
    assert families(run)["opensearch_chaos_requests_failed"].samples == []


def test_a_value_that_could_not_be_measured_is_absent(tmp_path: Path) -> None:
    run = Run(told(tmp_path / "dead", dies_at=20.0))
    missing = [each.id for each in run.findings.findings if each.measure.value is None]
    assert missing
    rows = {each["finding"]: each for each in of_kind(run, "verdict")}
    sampled = {each.labels["finding"] for each in families(run)["opensearch_chaos_measured"].samples}
    for id in missing:
        assert "measured" not in rows[id] and id not in sampled
    assert "clean" not in of_kind(run, "run")[0]
    assert "end" not in of_kind(run, "phase")[-1]


def test_an_sli_is_exported_where_it_had_a_value(tmp_path: Path) -> None:
    folder = told(tmp_path / "slis")
    start = next(each for each in Run(folder).record.events if each["kind"] == "phase.start")["t"]
    lines = [
        {"t": start + second * 10**9, "kind": "sli", "name": "errors", "value": value}
        for second, value in ((1, 0.5), (2, None), (3, 0.0))
    ]
    (folder / "history" / "slis.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    run = Run(folder)
    assert [each["value"] for each in of_kind(run, "sli")] == [0.5, 0.0]
    assert [each.value for each in families(run)["opensearch_chaos_sli"].samples] == [0.5, 0.0]


def test_a_fault_that_is_not_proven_is_not_in_effect(tmp_path: Path) -> None:
    def forgotten(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [each for each in events if each["kind"] != "fault.in_effect"]

    run = Run(told(tmp_path / "unproven", mutate=forgotten))
    assert families(run)["opensearch_chaos_fault_in_effect"].samples == []
    assert families(run)["opensearch_chaos_fault_commanded"].samples
    assert all("in_effect" not in each for each in of_kind(run, "fault"))


def test_a_run_without_wall_clock_times_is_refused(tmp_path: Path) -> None:
    folder = told(tmp_path / "x")
    file = folder / "history" / "events.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for each in lines:
        each.pop("wall", None)
    file.write_text("".join(json.dumps(each) + "\n" for each in lines))
    with pytest.raises(HistoryError, match="wall clock"):
        Run(folder)


# -- runs of every version --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", corpuskit.names())
def test_every_stored_run_exports(name: str) -> None:
    with corpuskit.unpacked(name) as folder:
        run = Run(folder)
        read = families(run)
        found = documents(run)
    assert set(read) == {each.family for each in catalogue.METRICS}
    assert len(read["opensearch_chaos_outcome"].samples) == 1
    assert sum(each["kind"] == "run" for each in found) == 1
    assert sum(each["kind"] == "second" for each in found) == len(run.seconds)
    series: dict[tuple[str, ...], float] = {}
    for family in read.values():
        for sample in family.samples:
            key = (sample.name, *sorted(f"{k}={v}" for k, v in sample.labels.items()))
            assert math.isfinite(sample.value)
            assert float(sample.timestamp) > series.get(key, 0.0)
            series[key] = float(sample.timestamp)


# -- the command ------------------------------------------------------------------------------------------------


def test_several_runs_are_one_file_with_each_family_once(tmp_path: Path) -> None:
    folders = [told(tmp_path / name, seed=seed) for name, seed in (("a", 1), ("b", 2))]
    for folder in folders:
        plan = json.loads((folder / "plan.json").read_text())
        (folder / "plan.json").write_text(json.dumps(plan | {"run": folder.name}))
    file, template = tmp_path / "out.om", tmp_path / "template.json"
    done = CliRunner().invoke(app, ["export", *map(str, folders), "--to", "openmetrics", "-o", str(file)])
    assert done.exit_code == 0, done.output
    read = list(text_string_to_metric_families(file.read_text()))
    assert len({each.name for each in read}) == len(read)
    assert {each.labels["run"] for each in read[0].samples} == {"a", "b"}
    lines = tmp_path / "out.ndjson"
    command = ["export", *map(str, folders), "--to", "ndjson", "-o", str(lines), "--template", str(template)]
    assert CliRunner().invoke(app, command).exit_code == 0
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    ids = [each["index"]["_id"] for each in rows[::2]]
    assert len(set(ids)) == len(ids)
    assert json.loads(template.read_text()) == catalogue.template()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--to", "csv"], "unknown export format 'csv'"),
        (["--to", "openmetrics", "--template", "x.json"], "--template goes with --to ndjson"),
        (["--to", "elle"], "writes several files"),
        (["--to", "ndjson", "--format", "elle"], "the same option"),
        (["TWICE", "--to", "ndjson"], "is named twice"),
        (["NOWHERE", "--to", "ndjson"], "is no run folder"),
    ],
)
def test_bad_input_is_refused(tmp_path: Path, more: list[str], says: str) -> None:
    folder = told(tmp_path / "run")
    names = {"TWICE": str(folder), "NOWHERE": str(tmp_path)}
    done = CliRunner().invoke(app, ["export", str(folder), *(names.get(each, each) for each in more)])
    assert isinstance(done.exception, InvalidInput) and says in str(done.exception)


def test_redacted_exports_have_no_names() -> None:
    with corpuskit.unpacked("rules-2-a-node-killed") as folder:
        plain, hidden = ("".join(ndjson.lines([Run(folder, redact=hides)])) for hides in (False, True))
    assert "b-data" in plain
    assert "b-data" not in hidden
