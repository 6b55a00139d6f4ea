"""The shape of findings.json, as the verdict writes it and everybody reads it. Runs of earlier versions lack keys."""

from __future__ import annotations

from typing import Any, TypedDict


class ReasonItem(TypedDict):
    """Why the outcome is not better. ``finding``: the id of the finding that it is."""

    outcome: str
    cause: str
    says: str
    finding: str | None


class FindingItem(TypedDict, total=False):
    """One expectation in one phase, judged. ``measured`` in ``unit``: share 0..1, seconds or count."""

    id: str
    title: str
    metric: str
    op: str | None
    phase: str | None
    target: str
    measured: float | None
    measured_text: str
    bound: str
    unit: str
    verdict: str
    counts_as: str
    known_weakness: str | None
    known_bound: str
    """How bad the known weakness may be; left out where no bound is given."""
    default: bool
    """Whether every run is held to it without a line of ``expect``; left out of findings of lines."""
    relaxed: str
    """Why a line allows more than every run promises; left out where it does not."""
    may_be_worse: bool
    """Whether it proves nothing because something was not seen, of which the truth may be worse than what was measured;
    left out where it is not so."""
    says: str
    because: str | None
    evidence: dict[str, Any]
    comparison: str | None
    """With ``target_value``: the target taken apart, which a report adds."""
    target_value: float | None


class FaultItem(TypedDict, total=False):
    """One fault as it went. Times in seconds on the run's axis."""

    fault: str
    kind: str
    says: str
    colour: str | None
    provider: str | None
    grade: str
    targets: list[str]
    links: list[str]
    phase: str | None
    command: float | None
    in_effect: float | None
    undo: float | None
    gone: float | None
    proven: bool
    gaps: list[str]
    vanished: list[float] | None
    failures: list[str]
    stages: dict[str, dict[str, Any]]


class ValidityItem(TypedDict, total=False):
    """Whether the instruments were good enough."""

    valid: bool
    checks: list[dict[str, Any]]
    windows_seconds: dict[str, Any]
    client_errors: int


class RulesItem(TypedDict, total=False):
    """By which rules a run was judged (:data:`chaos.history.format.RULES`), and what the newest would say."""

    judged_by: int
    newest: int
    would_be: str
    """The outcome under the newest rules; with ``would_add`` only where the run was judged by older ones."""
    would_add: list[ReasonItem]


class MadeBy(TypedDict, total=False):
    """Who made findings, and of what: digests of :mod:`chaos.checks.made`. ``findings``: of all but this."""

    rules: int
    code: str
    record: str
    findings: str


class FindingsFile(TypedDict, total=False):
    """findings.json."""

    format: int
    outcome: str
    headline: str
    summary: str
    clean: bool | None
    exit_code: int
    reasons: list[ReasonItem]
    findings: list[FindingItem]
    tables: dict[str, Any]
    validity: ValidityItem
    faults: list[FaultItem]
    run: dict[str, Any]
    abort: dict[str, Any] | None
    rules: RulesItem
    made_by: MadeBy
