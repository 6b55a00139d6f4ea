"""Alert rules as Prometheus reads them: a file of ``groups``, or a ``PrometheusRule`` of its Kubernetes operator.

Only rules that alert are taken. Rules that record are their server's: what they make is asked for like any metric.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal, Self

import promql_parser as promql
from pydantic import BeforeValidator, Field, model_validator

from chaos.base.units import Malformed
from chaos.definitions import promql as expressions
from chaos.definitions.base import Strict


def _seconds(given: Any) -> float:
    """A duration of Prometheus (``1h30m``, ``0``) in seconds."""
    if isinstance(given, float):
        return given
    if str(given) == "0":
        return 0.0
    try:
        found = promql.parse_duration(str(given))
    except ValueError:
        raise Malformed(f"cannot read {given!r}: expected a duration of Prometheus, for example 5m") from None
    assert isinstance(found, timedelta)
    return found.total_seconds()


def _expression(given: Any) -> str:
    text = str(given)
    expressions.needs(text)
    return text.strip()


Seconds = Annotated[float, BeforeValidator(_seconds), Field(ge=0)]
Expression = Annotated[str, BeforeValidator(_expression)]
Text = Annotated[str, BeforeValidator(lambda given: given if given is None else str(given))]


class AlertRule(Strict):
    """A rule that alerts. ``for_`` and ``keep_firing_for`` in seconds; ``labels``: as written, templates unread."""

    alert: str
    expr: str
    for_: float = 0.0
    keep_firing_for: float = 0.0
    labels: dict[str, str] = Field(default_factory=dict)

    @property
    def needs(self) -> expressions.Needs:
        return expressions.needs(self.expr)


class RuleInFile(Strict):
    """A rule of a group: one that alerts, or one that records."""

    alert: str | None = Field(default=None, min_length=1, description="the alert's name")
    record: str | None = Field(default=None, min_length=1, description="the metric that it records")
    expr: Expression = Field(description="PromQL")
    for_: Seconds = Field(default=0.0, alias="for", description="pending for so long before it fires, for example 5m")
    keep_firing_for: Seconds = Field(default=0.0, description="firing for so long after it held last")
    labels: dict[str, Text] | None = Field(default=None, description="labels of the alert")
    annotations: dict[str, Any] | None = Field(default=None, description="texts for people")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.alert is None) == (self.record is None):
            raise Malformed("a rule alerts or records: expected alert or record, with its name")
        return self


class GroupInFile(Strict):
    """A group of rules."""

    name: str = Field(description="the group's name")
    interval: Seconds | None = Field(default=None, description="how often Prometheus evaluates it; an SLI has `every`")
    limit: int | None = Field(default=None, description="alerts at most")
    query_offset: Seconds = Field(default=0.0, description="how far in the past it is evaluated")
    labels: dict[str, Text] | None = Field(default=None, description="labels of all of its alerts")
    partial_response_strategy: str | None = Field(default=None, description="of Thanos")
    rules: tuple[RuleInFile, ...] | None = Field(default=None, description="its rules")

    @model_validator(mode="after")
    def _now(self) -> Self:
        if self.query_offset:
            raise Malformed("query_offset evaluates in the past, which is not done here: expected none")
        if self.limit:
            raise Malformed("limit drops all alerts of a rule that has more, which is not done here: expected none")
        return self


class RulesFile(Strict):
    """A file of rules."""

    groups: tuple[GroupInFile, ...] = Field(description="groups of rules, as in Prometheus")

    @property
    def alerts(self) -> tuple[AlertRule, ...]:
        """Its rules that alert, in order."""
        return tuple(
            AlertRule(
                alert=rule.alert,
                expr=rule.expr,
                for_=rule.for_,
                keep_firing_for=rule.keep_firing_for,
                labels={**(group.labels or {}), **(rule.labels or {})},
            )
            for group in self.groups
            for rule in group.rules or ()
            if rule.alert is not None
        )


class PrometheusRule(Strict):
    """The same as a resource of Prometheus's operator."""

    api_version: str = Field(alias="apiVersion", description="of the resource")
    kind: Literal["PrometheusRule"] = Field(description="PrometheusRule")
    metadata: dict[str, Any] | None = Field(default=None, description="its name and labels")
    spec: RulesFile = Field(description="its groups")

    @property
    def alerts(self) -> tuple[AlertRule, ...]:
        return self.spec.alerts


def chosen(
    rules: Iterable[AlertRule], names: Iterable[str] | None, labels: Mapping[str, str] | None
) -> tuple[AlertRule, ...]:
    """Those of these names (None: of any) that have all of these labels."""
    wanted = None if names is None else set(names)
    return tuple(
        rule
        for rule in rules
        if (wanted is None or rule.alert in wanted) and (labels or {}).items() <= rule.labels.items()
    )
