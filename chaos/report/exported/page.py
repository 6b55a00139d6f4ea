"""docs/export.md, made of the catalogue: ``python -m chaos.report.exported > docs/export.md``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chaos.checks import failures
from chaos.history.failures import WORDS, Failure
from chaos.report.exported.catalogue import FIELDS, INDEX, KINDS, METRICS

COMMAND = "python -m chaos.report.exported"
HEAD = f"""# Results where people look

<!-- Made by `{COMMAND} > docs/export.md`; edit chaos/report/exported/. -->

`opensearch-chaos export` writes runs in the forms that dashboards read: their phases, faults, verdicts and annotations,
and availability, latency, failures and SLIs per second.

```
opensearch-chaos export RUN... --to ndjson -o runs.ndjson --template template.json   # OpenSearch Dashboards
opensearch-chaos export RUN... --to openmetrics -o runs.om                           # Prometheus and Grafana
```

Both take any number of runs, of any version of this tool. Each run is judged again from its history. What is not known
is absent, never zero: an SLI without an answer, a value that could not be measured, the latency of requests without
an answer, a fault that is not proven to be in effect. Closed loops have no availability, so they have no seconds. Times
are those of the wall clock of the machine that ran. `--redact` replaces names, addresses and paths as `report --redact`
does. Without `-o` the text goes to standard output.
`--to elle` and `--to elle-reads` write histories for elle-cli into a folder ([statistics](statistics.md)).

## Into OpenSearch
The file has an action line before each document, because that is what `_bulk` takes. The index template is a file of
its own, because it is loaded once, by somebody who may, and documents are loaded after each run.

```
curl -X PUT https://SEARCH/_index_template/opensearch-chaos \\
     -H 'Content-Type: application/json' --data-binary @template.json
curl -X POST https://SEARCH/_bulk -H 'Content-Type: application/x-ndjson' --data-binary @runs.ndjson
```

The documents go to the index `{INDEX}`. Their ids follow from the run's name, so loading a run again replaces its
documents. A long run's file may be larger than a node takes at once (`http.max_content_length`, 100 MB): cut it at an
even number of lines (`split -l 20000`). In Dashboards make an index pattern `{INDEX}*` with the time field
`@timestamp`, and filter by `kind` and `run`.
"""
METRICS_HEAD = """
## Into Prometheus
Samples carry their times, and Prometheus scrapes none that are old; so they are made into blocks of its database:

```
promtool tsdb create-blocks-from openmetrics runs.om /var/lib/prometheus/metrics2
```

Prometheus finds the blocks within a minute or so, or when it starts. Its retention counts
(`--storage.tsdb.retention.time`): blocks older than that are deleted at once. Every series has the label `run`, and no
two runs share one. In Grafana `opensearch_chaos_annotation{run="$run"}` is a query for annotations (title
`{{annotation}}`, text `{{text}}`), and `label_values(opensearch_chaos_run_info, run)` is the variable. Every metric is
a gauge: `requests_*` are counts of one second, so they are summed with `sum_over_time`, never with `rate`. Labels are
cut at 200 characters.
"""
REASONS_HEAD = f"""
## Why requests failed
`reason` is one of these words; the report has the same table by phase (*Why requests failed*), and so has the evidence
of a target that was missed. The word stands beside each request in the history; records of earlier versions have none,
so their exports have no failures. Of a bulk it is the reason of its first failed document, of a request that was sent
several times that of the last try. `{failures.NO_OUTCOME}`: {failures.NO_OUTCOME_WORDS}.
"""


def text() -> str:
    """The page."""
    kinds = _table(("kind", "documents"), ((f"`{name}`", says) for name, says in KINDS.items()))
    fields = _table(
        ("field", "type", "of", "meaning"),
        (
            (
                f"`{each.name}`",
                each.type,
                "all" if len(each.kinds) == len(KINDS) else ", ".join(each.kinds),
                each.meaning,
            )
            for each in FIELDS
        ),
    )
    metrics = _table(
        ("metric", "labels beside `run`", "has a value at", "meaning"),
        (
            (f"`{each.family}`", ", ".join(f"`{name}`" for name in each.labels), each.sampled, each.meaning)
            for each in METRICS
        ),
    )
    reasons = _table(
        ("reason", "meaning"),
        ((f"`{each.label}`", WORDS[each]) for each in Failure if each is not Failure.NONE),
    )
    return f"{HEAD}\n{kinds}\n{fields}{METRICS_HEAD}\n{metrics}{REASONS_HEAD}\n{reasons}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
