"""The audit as data, and the rules as the page docs/audit.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from chaos.base.errors import Exit
from chaos.opensearch.checklist import Status
from chaos.programs.audit.facts import Sheet
from chaos.programs.audit.rules import RULES, Row, Workload, worst

FILE = Path(__file__).parents[3] / "docs" / "audit.md"
COMMAND = "opensearch-chaos audit --markdown"
VERSION = 1
OUTCOMES = {
    Status.FAIL: ("weakness", Exit.WEAKNESS),
    Status.UNKNOWN: ("inconclusive", Exit.INCONCLUSIVE),
    Status.WARN: ("pass", Exit.PASS),
    Status.OK: ("pass", Exit.PASS),
}
"""What the worst row means. A warning is a risk that the checklist allows; unknown is never a pass."""


INTRODUCTION = """\
- `opensearch-chaos audit http(s)://HOST:PORT` holds a cluster against these rules, `audit TOPOLOGY` a definition,
  `audit --lab NAME` a lab. A cluster is sent a handful of GETs and nothing else, however many indices it has.
- Every run audits its cluster before its first phase, and its report has the rows; they do not change its verdict.
- `--user` with `--password env:NAME` or `file:PATH`, `--ca`, `--insecure`, `--certificate` and `--key` say how to reach
  a cluster. The user must be allowed to monitor the cluster and its indices, and to read settings.
- `--sigv4 REGION` signs each request for a domain of Amazon OpenSearch Service, with the credentials that boto3 finds
  (environment, profile, role) or those of `--aws-profile NAME`; needs `opensearch-chaos[aws]`. OpenSearch Serverless
  has neither nodes nor health and is refused.
- `--zone-attribute` names the node attribute with the zone, `--workload search|logs` what decides the size of shards.
  `--json` and `--html FILE` give the same rows to programs and people.

| row | means | exit code |
|---|---|---|
| ok | every fact that the rule needs was read, and it holds | 0 |
| warn | a risk that fails no audit | 0 |
| unknown | a fact could not be read, and the row says which and why: never a pass | 3 |
| fail | the rule is broken | 1 |

The worst row decides. Exit code 2 is bad input: nobody answers, a wrong password, no OpenSearch.

Rows that need a living cluster are unknown of a topology. Processors, heap and storage are one sample, as told;
nodes that share a machine, as those of a lab do, each tell the whole machine's processors, memory and storage.
"""


def to_json(sheet: Sheet, workload: Workload, rows: Sequence[Row]) -> dict[str, Any]:
    """What is printed with --json, and lies in a run's folder as audit.json."""
    outcome, code = OUTCOMES[worst(rows)]
    counted = Counter(row.status for row in rows)
    tally = ", ".join(f"{counted[status]} {status}" for status in reversed(Status) if counted[status])
    return {
        "format": VERSION,
        "of": sheet.origin,
        "version": sheet.version,
        "workload": workload.value,
        "outcome": outcome,
        "exit_code": int(code),
        "summary": f"{len(rows)} rules: {tally}",
        "rows": [row.to_json() for row in rows],
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
    for rule in RULES:
        yield ""
        yield f"## {rule.title}"
        yield ""
        yield f"`{rule.id}`: {rule.says}"
        yield ""
        yield f"- Remedy: {rule.remedy}"
        yield f"- Source: [{rule.source.title}]({rule.source.url})"
        yield f"- Needs: {', '.join(rule.needs)}"
