"""Alert rules against a real Prometheus with made-up series: each well, firing, and without its metric.

The series reach back 20 minutes (blocks that promtool makes), so that every ``for`` of the rules is waited out, and on
beyond now, so that they are fresh while the tests last.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from exporterkit import exporting
from prometheuskit import PATIENCE, PROMTOOL, Backfilled, backfilled, free_port, needed, started

from chaos.definitions.loading import load_rules
from chaos.definitions.slis import ResolvedSli
from chaos.opensearch.alerts import NO_DATA, AlertAsker
from chaos.opensearch.prometheus import Answer
from chaos.registry import load_experiment
from chaos.targets.labs.processes import wait_until

pytestmark = [needed, pytest.mark.skipif(PROMTOOL is None, reason="no promtool here: apt-get install prometheus")]
RULES = Path(__file__).parents[1] / "support" / "rules" / "opensearch-alerts.yml"
NEVER = "OpensearchHighBulkRejectionRate"
"""Divides series of one `type` by those of another without `ignoring(type)`, so it never has an answer, and never
fires: found out by these tests. And no pool of OpenSearch is called bulk."""
MENDED = """\
groups:
  - name: mended
    rules:
      - alert: WriteRejections
        expr: |
          100 * rate(opensearch_threadpool_threads_count{name="write",type="rejected"}[5m])
            / ignoring(type) rate(opensearch_threadpool_threads_count{name="write",type="completed"}[5m]) > 5
        for: 5m
"""
NAMES = [rule.alert for rule in load_rules(RULES) if rule.alert != NEVER]
BACK, ON, EVERY = 1200.0, 240.0, 15.0
"""Seconds of series before and after now, and between two samples."""
NODE = '{cluster="c",node="n1",nodeid="1"}'
Series = dict[str, Callable[[float], float]]
"""A series to its value by its age: seconds before now, negative after it."""


def level(value: float) -> Callable[[float], float]:
    return lambda age: value


def growing(per_second: float) -> Callable[[float], float]:
    return lambda age: max(0.0, (BACK - age) * per_second)


def of(bad: bool, *, pool: str = "bulk") -> Series:
    """What the exporter of a node would say, ``bad`` by every rule."""
    threads = f'opensearch_threadpool_threads_count{{cluster="c",node="n1",name="{pool}",type='
    return {
        'opensearch_cluster_status{cluster="c"}': level(2 if bad else 0),
        'opensearch_cluster_shards_active_percent{cluster="c"}': level(80 if bad else 100),
        'opensearch_cluster_pending_tasks_number{cluster="c"}': level(4 if bad else 0),
        f"opensearch_fs_path_available_bytes{NODE}": level(5e9 if bad else 60e9),
        f"opensearch_fs_path_total_bytes{NODE}": level(100e9),
        f"opensearch_os_cpu_percent{NODE}": level(99 if bad else 20),
        f"opensearch_process_cpu_percent{NODE}": level(98 if bad else 15),
        f"opensearch_jvm_mem_heap_used_percent{NODE}": level(90 if bad else 40),
        f"opensearch_circuitbreaker_tripped_count{NODE}": growing(0.1) if bad else level(3),
        f"opensearch_indices_indexing_is_throttled_bool{NODE}": level(1 if bad else 0),
        f'{threads}"rejected"}}': growing(10) if bad else growing(0),
        f'{threads}"completed"}}': growing(100),
    }


def yellow() -> Series:
    return {'opensearch_cluster_status{cluster="c"}': level(1)}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Backfilled]]:
    """One for each state; that without the metrics has the thread pools as OpenSearch calls them, and ``up``."""
    without: Series = {name: make for name, make in of(False, pool="write").items() if "threadpool" in name}
    recent = {'opensearch_cluster_status{cluster="c"}': lambda age: 2.0 if age < 60 else 0.0}
    gone = {'opensearch_cluster_status{cluster="c"}': lambda age: 0.0 if age > 120 else float("nan")}
    states = {"well": of(False), "firing": of(True), "yellow": yellow(), "without": without}
    states["rejecting"] = of(True, pool="write")
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(backfilled(tmp_path_factory.mktemp(name), series, back=BACK, on=ON, every=EVERY))
            for name, series in (states | {"recent": recent, "gone": gone}).items()
        }


def asked(server: Backfilled, *names: str, rules: Path = RULES, times: int = 1, **more: str) -> Answer:
    given = {"prometheus": server.url, "rules": str(rules), "every": "1s", **more}
    alerts = [rule for rule in load_rules(rules) if (rule.alert in names if names else rule.alert != NEVER)]
    sli = ResolvedSli.model_validate(given | {"alerts": alerts})
    asker = AlertAsker(sli, Path())
    try:
        for _ in range(times - 1):
            asker.ask()
        return asker.ask()
    finally:
        asker.close()


@pytest.mark.parametrize("name", NAMES)
def test_each_rule_is_well_fires_and_has_no_data_without_its_metric(servers: dict[str, Backfilled], name: str) -> None:
    well = asked(servers["well"], name)
    assert (well.value, well.alerts) == (0.0, ()), well.sentence
    bad = asked(servers["yellow" if name == "OpensearchIsYellow" else "firing"], name)
    assert (bad.value, bad.alerts) == (1.0, (name,)), bad.sentence
    none = asked(servers["without"], name)
    assert (none.value, none.why, none.wrong) == (None, NO_DATA, False)
    assert str(none.said).startswith(f"{name}: nothing there is opensearch_")


def test_all_of_them_at_once(servers: dict[str, Backfilled]) -> None:
    assert asked(servers["well"]).value == 0
    bad = asked(servers["firing"])
    assert bad.value == len(NAMES) - 1 and set(bad.alerts) == {*NAMES} - {"OpensearchIsYellow"}
    none = asked(servers["without"])
    assert none.value is None and str(none.said).startswith(f"{len(NAMES)} rules, one of them OpensearchIsRed: nothing")


def test_the_bulk_rule_has_no_data_where_the_pool_is_called_write_and_where_it_is_there(
    servers: dict[str, Backfilled], tmp_path: Path
) -> None:
    none = asked(servers["without"], NEVER)
    said = 'nothing there is opensearch_threadpool_threads_count{name="bulk",type="rejected"}'
    assert none.said == f"{NEVER}: {said}"
    never = asked(servers["firing"], NEVER)
    assert never.value is None and "there are series, and this has no answer: round(" in str(never.said)
    rules = tmp_path / "mended.yml"
    rules.write_text(MENDED)
    assert asked(servers["without"], rules=rules).value == 0.0
    assert asked(servers["rejecting"], rules=rules).alerts == ("WriteRejections",)
    assert asked(servers["well"], rules=rules).value is None


def test_for_is_honoured(servers: dict[str, Backfilled]) -> None:
    """Red since a minute: pending by the rule's 2 minutes."""
    assert asked(servers["recent"], "OpensearchIsRed").value == 0.0


def test_series_that_ended_are_no_data_and_absent_fires(servers: dict[str, Backfilled], tmp_path: Path) -> None:
    old = asked(servers["gone"], "OpensearchIsRed")
    assert old.value is None and "is older than 1m" in str(old.said), old
    rules = tmp_path / "absent.yml"
    rules.write_text("groups: [{name: a, rules: [{alert: Gone, expr: 'absent(opensearch_nothing)', for: 1m}]}]\n")
    assert asked(servers["well"], rules=rules).value == 1.0  # it has been absent for as long as was recorded
    rules.write_text("groups: [{name: a, rules: [{alert: Here, expr: 'absent(opensearch_cluster_status)'}]}]\n")
    assert asked(servers["well"], rules=rules).value == 0.0
    assert asked(servers["without"], rules=rules).value == 1.0


def test_labels_that_do_not_match_are_no_data(servers: dict[str, Backfilled], tmp_path: Path) -> None:
    rules = tmp_path / "labels.yml"
    text = (
        "opensearch_fs_path_available_bytes / on(cluster, node, nodeid, instance, name) opensearch_cluster_status > 1"
    )
    rules.write_text(f"groups: [{{name: a, rules: [{{alert: Wrong, expr: '{text}'}}]}}]\n")
    none = asked(servers["well"], rules=rules)
    assert none.value is None and "there are series, and this has no answer" in str(none.said)


DRY = """\
apiVersion: opensearch-chaos/v1
name: with-alerts
topology: 3az-standby
load: {{read: {{rate: 10/s, good: ok within 1s}}}}
slis:
  bulk: {{prometheus: '{url}', rules: {rules}, alert: OpensearchHighBulkRejectionRate}}
  critical: {{prometheus: '{url}', rules: {rules}, labels: {{severity: critical}}}}
phases: {{healthy: {{for: 30s}}}}
expect: [{{sli.bulk.firing: 0}}, {{sli.critical.firing: 0}}]
guards: {{sli: {{critical: {{firing: true}}}}, max: 3m}}
"""


def dry_run(folder: Path, url: str) -> subprocess.CompletedProcess[str]:
    file = folder / "with-alerts.yaml"
    file.write_text(DRY.format(url=url, rules=RULES))
    load_experiment(file)
    command = [sys.executable, "-m", "chaos", "run", str(file), "--dry-run"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_dry_run_asks_the_rules_and_says_no_data(servers: dict[str, Backfilled], tmp_path: Path) -> None:
    well = dry_run(tmp_path, servers["well"].url)
    assert well.stdout.count("no data yet") == 1
    assert well.returncode == 0 and "no data yet for the SLI bulk" in well.stdout, well.stdout + well.stderr
    assert "alerts: critical is 2 alerts of" in well.stdout and "guard: it stops when" in well.stdout
    assert "note: sli.critical.firing = 0 in healthy can only fail by what began before" in well.stdout, well.stdout
    none = dry_run(tmp_path, servers["without"].url)
    assert none.returncode == 2, none.stdout + none.stderr
    said = " ".join((none.stdout + none.stderr).split())
    assert "no data yet for the SLI bulk: no data of a rule: OpensearchHighBulkRejectionRate: nothing there is" in said
    assert "a guard that has no data cannot be evaluated" in said
    bad = dry_run(tmp_path, servers["firing"].url)
    assert bad.returncode == 2 and "OpensearchIsRed" in bad.stderr and "fires already" in bad.stderr


class Lab:
    """What a lab's node would answer to the stand-in for the exporter."""

    status = "green"
    available = 60e6

    def request(self, method: str, path: str) -> tuple[int, Any]:
        if path.startswith("/_cluster/health"):
            health = {"cluster_name": "c", "status": self.status, "number_of_pending_tasks": 0}
            return 200, health | {"active_shards_percent_as_number": 100.0}
        disk = {"path": "/data", "available_in_bytes": self.available, "total_in_bytes": 100e6}
        node = {"name": "b-data", "jvm": {"mem": {"heap_used_percent": 40}}, "process": {"cpu": {"percent": 3}}}
        return 200, {"nodes": {"1": node | {"fs": {"data": [disk]}}}}


LIVE = """\
groups:
  - name: live
    rules:
      - {alert: Red, expr: opensearch_cluster_status == 2, for: 5s}
      - alert: DiskLow
        expr: elasticsearch_filesystem_data_available_bytes / elasticsearch_filesystem_data_size_bytes * 100 < 20
        for: 5s
"""
SCRAPES = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs: [{{job_name: exporter, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]
"""


def test_alerts_fire_after_their_for_on_what_is_scraped_and_resolve(tmp_path: Path) -> None:
    lab, port = Lab(), free_port()
    with exporting(lambda: lab) as scraped:
        (tmp_path / "prometheus.yml").write_text(SCRAPES.format(port=scraped))
        (tmp_path / "live.yml").write_text(LIVE)
        with started(tmp_path, port):
            given = {"prometheus": f"http://127.0.0.1:{port}", "rules": "live.yml", "every": "1s", "oldest": "20s"}
            sli = ResolvedSli.model_validate(given | {"alerts": load_rules(tmp_path / "live.yml")})
            asker = AlertAsker(sli, tmp_path)
            answers: list[tuple[float, Answer]] = []

            def answered(value: float) -> bool:
                answers.append((time.monotonic(), asker.ask()))
                return answers[-1][1].value == value

            assert wait_until(lambda: answered(0.0), PATIENCE, every=0.5), answers[-1]
            began = time.monotonic()
            lab.status, lab.available = "red", 10e6
            assert wait_until(lambda: answered(2.0), PATIENCE, every=0.5), answers[-1]
            assert answers[-1][1].alerts == ("Red", "DiskLow")
            assert answers[-1][0] - began >= 5.0, answers
            lab.status, lab.available = "green", 60e6
            assert wait_until(lambda: answered(0.0), PATIENCE, every=0.5), answers[-1]
            asker.close()
