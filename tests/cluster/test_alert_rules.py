"""Public alert rules, as they are written, on a run that lasts longer than their ``for``: red, and a disk that fills.

Their metrics come from a stand-in for the exporters (``exporterkit.py``), scraped by a real Prometheus that has none of
the rules loaded.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusterkit import DATA, cli, findings, kept_lab_id, run_folder
from exporterkit import exporting
from prometheuskit import free_port, needed, started

from chaos.provision import loops
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

pytestmark = [
    needed,
    pytest.mark.full,  # 150 s of a phase
    pytest.mark.skipif(loops.lacking() is not None, reason=loops.lacking() or ""),
]
RULES = Path(__file__).parents[1] / "support" / "rules"
EXPERIMENT = """\
apiVersion: opensearch-chaos/v1
name: alerts
topology: {topology}
load: {{read: {{rate: 20/s, good: ok within 1s}}, write: {{rate: 5/s, good: ok within 1s}}, documents: 200}}
slis:
  red: {{prometheus: '{url}', rules: {rules}/opensearch-alerts.yml, alert: OpensearchIsRed, every: 2s}}
  disk: {{prometheus: '{url}', rules: {rules}/elasticsearch-alerts.yml, alert: ElasticsearchDiskSpaceLow, every: 2s}}
  bulk: {{prometheus: '{url}', rules: {rules}/opensearch-alerts.yml, alert: OpensearchHighBulkRejectionRate, every: 2s}}
  gone: {{prometheus: '{url}', rules: {rules}/elasticsearch-alerts.yml, alert: ExporterGone, every: 2s}}
phases:
  healthy: {{for: 15s}}
  broken:
    for: 150s
    inject: {{disk.full: {{target: node b-data, to: high}}, node.kill: {{target: node c-data}}}}
  returned: {{undo: all, until: {{green: true, stable: 15s, within: 120s}}}}
expect:
  - {{phase: [healthy], sli.red.firing: 0}}
  - {{phase: [healthy], sli.disk.firing: 0}}
  - {{phase: broken, sli.red.fires: "<= 145s"}}
  - {{phase: broken, sli.disk.fires: "<= 145s"}}
  - {{phase: returned, sli.red.last: "< 1"}}
  - {{phase: healthy, sli.bulk.firing: 0}}
guards: {{sli: {{gone: {{firing: true}}}}, max: 8m}}
"""
SCRAPES = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs: [{{job_name: exporter, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]
"""


SCRAPED = ("opensearch_cluster_status", "elasticsearch_filesystem_data_available_bytes")


def _has(port: int, name: str) -> bool:
    """Whether the Prometheus knows a metric."""
    url = f"http://127.0.0.1:{port}/api/v1/query?query={name}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return bool(json.load(answer)["data"]["result"])


@pytest.fixture
def lab() -> Iterator[LocalLab]:
    name = kept_lab_id()
    code, output = cli("lab", "up", DATA / "few-single.yaml", "--name", name)
    assert code == 0, output
    try:
        yield LocalLab.attach(name)
    finally:
        code, output = cli("lab", "down", name)
        assert code == 0, output


def test_two_public_rules_fire_on_a_run_that_outlasts_them(lab: LocalLab, tmp_path: Path, out: Path) -> None:
    with exporting(lambda: lab.client("a-cm")) as scraped:
        port = free_port()
        (tmp_path / "prometheus.yml").write_text(SCRAPES.format(port=scraped))
        with started(tmp_path, port):
            # a guard that fires at the start is refused, and the one on the exporter fires until it was scraped
            assert wait_until(lambda: all(_has(port, name) for name in SCRAPED), 60)
            file = tmp_path / "alerts.yaml"
            given = {"url": f"http://127.0.0.1:{port}", "rules": RULES, "topology": DATA / "few-single.yaml"}
            file.write_text(EXPERIMENT.format(**given))
            code, output = cli("run", file, "--out", out, "--on", lab.id, timeout=480)
    assert code in (0, 1, 3), output
    found = findings(out)
    said = {(each["metric"], each["phase"]): each for each in found["findings"] if each["metric"].startswith("sli.")}
    counts = {key: each["counts_as"] for key, each in said.items()}
    whole = json.dumps(list(said.values()), indent=1) + output
    assert counts.pop(("sli.bulk.firing", "healthy")) == "inconclusive", whole
    assert counts and set(counts.values()) == {"pass"}, whole
    for name in ("red", "disk"):  # its `for` was waited out
        assert 120 <= said[(f"sli.{name}.fires", "broken")]["measured"] <= 145, whole
    assert code == 3, output  # of the bulk rule nothing is known
    lines = [json.loads(line) for line in (run_folder(out) / "history" / "slis.jsonl").read_text().splitlines()]
    assert {name for line in lines for name in line.get("alerts", ())} == {
        "OpensearchIsRed",
        "ElasticsearchDiskSpaceLow",
    }
