"""The audit as data, and the rules as the page docs/audit.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from chaos.base.errors import Exit
from chaos.opensearch.checklist import Status
from chaos.programs.audit.catalogue import RULES, Row, Workload, worst
from chaos.programs.audit.facts import Sheet
from chaos.programs.audit.questions import QUESTIONS
from chaos.programs.audit.script import COMMAND as COMMAND_OF_SCRIPT

FILE = Path(__file__).parents[3] / "docs" / "audit.md"
COMMAND = "opensearch-chaos audit --markdown"
VERSION = 1
OUTCOMES = {
    Status.FAIL: ("weakness", Exit.WEAKNESS),
    Status.UNKNOWN: ("inconclusive", Exit.INCONCLUSIVE),
    Status.WARN: ("pass", Exit.PASS),
    Status.INFO: ("pass", Exit.PASS),
    Status.OK: ("pass", Exit.PASS),
}
"""What the worst row means. A warning is a risk that the checklist allows; unknown is never a pass."""
HEADINGS = {
    "rules": "The published checklist",
    "leftovers": "What is left set for the cluster",
    "indices": "Indices, templates and tiers",
    "keeping": "What has to be looked after",
    "limits": "What monitoring may cost",
}
"""File with rules → how its part of the page is headed."""
SHOWN = (Status.FAIL, Status.WARN, Status.UNKNOWN, Status.INFO, Status.OK)
"""The order of rows, for people and programs."""

INTRODUCTION = f"""\
- `opensearch-chaos audit http(s)://HOST:PORT` holds a cluster against these rules, `audit TOPOLOGY` a definition,
  `audit --lab NAME` a lab. A cluster is sent {len(QUESTIONS)} GETs, one more for each repository, and nothing else.
- `audit FILE` reads an `opensearch.yml` (of one node) or a resource of the OpenSearch Kubernetes operator
  (`kind: OpenSearchCluster`) as a topology: nested YAML is flattened, old names (the role `master`, `node.master`,
  `cluster.initial_master_nodes`) are read as the new ones. What such a file cannot tell is unknown, with the reason.
- Every run audits its cluster before its first phase, and its report has the rows; they do not change its verdict.
  Before a run on a cluster that exists changes anything, rows that fail are shown and recorded; the target's file may
  make them refuse it (`audit: {{refuse: [left.allocation]}}`, [how](existing.md#run-it-there)).
- `--user` with `--password env:NAME` or `file:PATH`, `--ca`, `--tls-name` (the name that is in the server's
  certificate, where its address is another), `--insecure`, `--certificate` and `--key` say how to reach a cluster.
- `--sigv4 REGION` signs each request for a domain of Amazon OpenSearch Service, with the credentials that boto3 finds
  (environment, profile, role) or those of `--aws-profile NAME`; needs `opensearch-chaos[aws]`. OpenSearch Serverless
  has neither nodes nor health and is refused.
- `--zone-attribute` names the node attribute with the zone, `--workload search|logs` what decides the size of shards.
  `--json` and `--html FILE` give the same rows to programs and people.

## Where no tool may go

```
{COMMAND_OF_SCRIPT} > collect.sh          # on any machine: the same GETs, for curl
sh collect.sh https://HOST:9200 answers -u admin --cacert ca.pem    # where the cluster is reached
opensearch-chaos audit --from answers                               # wherever the folder was taken to
```

The script changes nothing. Look at what it saved before you send it: it names nodes, indices and settings.

## Rights

The user must be allowed to monitor the cluster and its indices, and to read settings. What is refused is unknown, and
the row says by which request. With the security plugin these actions are needed:

| rows | actions |
|---|---|
| all but these | `cluster:monitor/main`, `cluster:monitor/state`, `cluster:monitor/shards`, \
`cluster:monitor/nodes/info`, `cluster:monitor/nodes/stats`, `indices:monitor/settings/get` on all indices |
| what monitoring asks | `cluster:monitor/nodes/usage` |
| copies that wait for a place | `cluster:monitor/allocation/explain` |
| templates | `indices:admin/index_template/get`, `cluster:admin/component_template/get`, \
`indices:admin/template/get`, `indices:admin/data_stream/get` on all indices |
| snapshots | `cluster:admin/repository/get`, `cluster:admin/snapshot/get` |
| policies | `cluster:admin/opensearch/snapshot_management/policy/explain`, \
`cluster:admin/opendistro/ism/managedindex/explain` |
| certificates | a super admin's certificate, or `restapi:admin/ssl/certs/info` |

## What a row says

| row | means | exit code |
|---|---|---|
| ok | every fact that the rule needs was read, and it holds | 0 |
| info | worth knowing, and no risk by itself; also that a cluster has nothing of that kind | 0 |
| warn | a risk that fails no audit | 0 |
| unknown | a fact could not be read, and the row says which and why: never a pass | 3 |
| fail | the rule is broken | 1 |

The worst row decides. Rows are sorted, failures first; those that are unknown are one line, `--json` has each. Exit
code 2 is bad input: no answer, a wrong password, no OpenSearch. Where a row can name it, the command that mends
it stands below, for a shell in which `URL` is the cluster's address: read it before you run it.

Rows that need a living cluster are unknown of a topology. Processors, heap and storage are one sample, as told;
nodes that share a machine, as those of a lab do, each tell the whole machine's processors, memory and storage.
"""


def to_json(sheet: Sheet, workload: Workload, rows: Sequence[Row]) -> dict[str, Any]:
    """What is printed with --json, and lies in a run's folder as audit.json."""
    outcome, code = OUTCOMES[worst(rows)]
    counted = Counter(row.status for row in rows)
    ordered = sorted(rows, key=lambda row: SHOWN.index(row.status))
    tally = ", ".join(f"{counted[status]} {status}" for status in SHOWN if counted[status])
    return {
        "format": VERSION,
        "of": sheet.origin,
        "version": sheet.version,
        "workload": workload.value,
        "outcome": outcome,
        "exit_code": int(code),
        **({"notes": list(sheet.notes)} if sheet.notes else {}),
        "summary": f"{len(rows)} rules: {tally}",
        "rows": [row.to_json() for row in ordered],
    }


def markdown() -> str:
    """The content of docs/audit.md."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield "# The availability checklist"
    yield ""
    yield f"Made by `{COMMAND}` from the rules; a test fails when it is not current."
    yield ""
    yield from INTRODUCTION.splitlines()
    headed = ""
    for rule in RULES:
        if headed != (headed := HEADINGS[rule.look.__module__.rpartition(".")[2]]):
            yield ""
            yield f"## {headed}"
        yield ""
        yield f"### {rule.title}"
        yield ""
        yield f"`{rule.id}`: {rule.says}"
        yield ""
        yield f"- Remedy: {rule.remedy}"
        yield f"- Source: [{rule.source.title}]({rule.source.url})"
        yield f"- Needs: {', '.join(rule.needs)}"
