"""Alert rules in a definition: what of their PromQL must be there, which are chosen, and every way to be wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.definitions.test_experiments import changed, here, load, says  # noqa: F401 ("here" is a fixture)
from unit.definitions.test_shipped import read, validator

from chaos.base.errors import InvalidInput
from chaos.base.units import Malformed
from chaos.definitions import load_topology, promql, writing
from chaos.definitions.loading import load_rules
from chaos.registry import GRAMMAR, load_experiment
from chaos.run import notes

RULES = """\
groups:
  - name: cluster
    labels: {team: search}
    rules:
      - {alert: IsRed, expr: cluster_status == 2, for: 2m, labels: {severity: critical}, annotations: {summary: Red}}
      - alert: Slow
        expr: rate(took_sum[5m]) / rate(took_count[5m]) > 0.5
        for: 1h30m
        keep_firing_for: 5m
        labels: {severity: warning}
      - {record: "job:took:rate5m", expr: "sum by (job) (rate(took_sum[5m]))"}
"""
SLI = "red: {prometheus: http://p:9090, rules: alerts.yml, alert: IsRed}"
EXPECTED = '{phase: slow, sli.red.fires: "<= 5m"}'
LOST = "  - {acknowledged.lost: 0}\n"
GUARDS = "guards: {cluster.red: 10s, max: 8m}"


def with_(sli: str = SLI, *expected: str, guard: str | None = None) -> str:
    lines = "".join(f"  - {each}\n" for each in expected or (EXPECTED,))
    text = changed((LOST, LOST + lines)).replace("phases:\n", f"slis:\n  {sli}\nphases:\n")
    return text.replace(GUARDS, f"guards: {{cluster.red: 10s, sli: {guard}, max: 8m}}") if guard else text


@pytest.fixture(autouse=True)
def rules(here: None) -> Path:  # noqa: F811
    file = Path("alerts.yml")
    file.write_text(RULES)
    return file


@pytest.mark.parametrize(
    ("text", "selectors", "operands"),
    [
        ("up == 0", ["up"], []),
        ('absent(up{job="a"})', [], []),
        ("absent_over_time(up[5m]) or errors > 1", ["errors"], []),
        ("sum by (c) (status == 2) > 0", ["status"], []),
        ("a / b * 100 > 90", ["a", "b"], ["a / b * 100"]),
        ('increase(a{n="x"}[5m] offset 1h) > 0', ['a{n="x"}'], ['increase(a{n="x"}[5m] offset 1h)']),
        ("a > 1 unless on(x) silenced", ["a"], []),
        ("a > 1 and on(x) b < 2", ["a", "b"], []),
        ("100 < bool a", ["a"], ["100 < bool a"]),
        ("time() - last > 60", ["last"], ["time() - last"]),
        ("max_over_time((a > 1)[5m:1m]) > 3", ["a"], []),
        ("vector(1)", [], []),
        ('{__name__=~"x.*",p!="\\\\d"} > 1', ['{__name__=~"x.*",p!="\\\\d"}'], []),
        ('a{b="x" or c="d"} > 1', ['a{b="x" or c="d"}'], []),
        ("topk(scalar(n), a) > 1", ["a", "n"], ["topk(scalar(n), a)"]),
    ],
)
def test_what_must_be_there(text: str, selectors: list[str], operands: list[str]) -> None:
    found = promql.needs(text)
    assert (list(found.selectors), list(found.operands)) == (selectors, operands)
    for each in (*found.selectors, *found.operands):
        promql.needs(each)  # what is asked can be read


@pytest.mark.parametrize("text", ["sum(a", "a >", "nonsense(a)", "a[5m]", '"text"', "(a > 1)[5m:1m]", ""])
def test_what_is_no_expression_of_an_alert(text: str) -> None:
    with pytest.raises(Malformed, match=r"cannot be read as PromQL|no vector"):
        promql.needs(text)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20))
def test_a_label_s_value_is_the_same_after_writing(value: str) -> None:
    quoted = json.dumps(value, ensure_ascii=False)
    try:
        (first,) = promql.needs(f"a{{b={quoted}}} > 1").selectors
    except Malformed:
        return  # no string of PromQL
    assert promql.needs(f"{first} > 1").selectors == (first,)


def test_a_file_is_read_and_carried_by_the_plan() -> None:
    experiment = load(with_(guard="{red: {firing: true}}"))
    (rule,) = experiment.slis["red"].alerts
    assert (rule.alert, rule.for_, rule.labels) == ("IsRed", 120.0, {"team": "search", "severity": "critical"})
    slow = load_rules(Path("alerts.yml"))[1]
    assert (slow.for_, slow.keep_firing_for) == (5400.0, 300.0)
    limit = experiment.guards.sli["red"]
    assert (limit.says, limit.seconds, limit.beyond(0), limit.beyond(1)) == ("firing", 0.0, False, True)
    last = experiment.expect[-1]
    assert (last.unit, last.value, last.text) == ("duration", 300.0, "sli.red.fires <= 5m")
    assert GRAMMAR.experiment(json.loads(json.dumps(experiment.to_json()))) == experiment
    again = Path("again.yaml")
    again.write_text(writing.experiment(experiment, "3az-standby"))
    read_again = load_experiment(again, topology=load_topology("3az-standby"))
    leave_out = {"file": None, "topology": None}
    assert read_again.to_json() | leave_out == experiment.to_json() | leave_out
    validator("experiment").validate(read(with_(), Path()))


def test_they_are_chosen_by_name_and_label() -> None:
    def chosen(more: str) -> list[str]:
        return [rule.alert for rule in load(with_(SLI.replace(", alert: IsRed", more))).slis["red"].alerts]

    assert chosen("") == ["IsRed", "Slow"]
    assert chosen(", alert: [Slow, IsRed]") == ["IsRed", "Slow"]
    assert chosen(", labels: {severity: critical}") == ["IsRed"]
    assert chosen(", labels: {team: search, severity: warning}") == ["Slow"]


def test_a_resource_of_the_operator_is_read_too(rules: Path) -> None:
    inside = "".join(f"  {line}\n" for line in RULES.splitlines())
    head = "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: x}\nspec:\n"
    rules.write_text(head + inside)
    assert [rule.alert for rule in load_rules(rules)] == ["IsRed", "Slow"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (with_(SLI.replace("alerts.yml", "nowhere.yml")), "nowhere.yml: there is no such file"),
        (with_(SLI.replace("IsRed", "IsRad")), 'alerts.yml has no alert IsRad: did you mean "IsRed"?'),
        (with_(SLI.replace("alert: IsRed", "labels: {severity: page}")), "no alert of alerts.yml has severity: page"),
        (with_(SLI.replace("alert: IsRed", "query: up")), "expected query or rules"),
        (with_("red: {prometheus: http://p:9090, query: up, alert: IsRed}"), "expected rules too, or neither here"),
        (with_(SLI.replace("alert: IsRed", "fresh: up")), "expected no fresh"),
        (with_("red: {prometheus: http://p:9090, query: up}"), "is of alert rules, and this SLI has a query"),
        (with_(SLI, '{phase: slow, sli.red.fires: "> 5m"}'), "sets no latest moment: expected <= with a time, or sli"),
        (with_(guard="{red: {firing: true, for: 5s}}"), "an alert has its own for: expected no for beside firing"),
        (with_(guard="{red: {firing: true, above: 0, for: 5s}}"), "a limit has one side"),
        (with_(guard="{red: {above: 0}}"), '"for" is missing'),
    ],
)
def test_what_is_wrong_is_told(given: str, message: str) -> None:
    assert any(message in each for each in says(given)), says(given)


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ("cluster_status == 2", "'cluster_status =='", "alerts.yml:5:30: expr: cannot be read as PromQL"),
        ("for: 2m", "for: soon", "alerts.yml:5:56: for: cannot read 'soon': expected a duration of Prometheus"),
        ("alert: Slow", "alarm: Slow", 'unknown key "alarm": did you mean "alert"?'),
        ("alert: Slow", "annotations: {}", "a rule alerts or records: expected alert or record"),
        ("    labels: {team: search}", "    query_offset: 1m", "query_offset evaluates in the past"),
        ("    labels: {team: search}", "    limit: 5", "limit drops all alerts of a rule that has more"),
        ("groups:", "groups", "alerts.yml:"),
    ],
)
def test_a_bad_file_is_told_with_its_own_line(rules: Path, wrong: str, right: str, message: str) -> None:
    rules.write_text(RULES.replace(wrong, right, 1))
    with pytest.raises(InvalidInput) as caught:
        load(with_())
    assert message in caught.value.message, caught.value.message
    assert int(caught.value.exit_code) == 2


def test_bounds_that_the_alert_cannot_keep_are_noted() -> None:
    text = with_(
        SLI,
        '{phase: slow, sli.red.fires: "<= 90s"}',
        "{phase: healthy, sli.red.firing: 0}",
        '{phase: failover, sli.red.fires: "<= 10m"}',
    )
    experiment = load(text)
    said = list(notes._alerts(experiment))
    assert said == [
        "sli.red.fires <= 90s in slow can only hold by what began before: IsRed has for: 120 s; expected a bound of "
        "120 s or more",
        "sli.red.firing = 0 in healthy can only fail by what began before: the phase lasts 30 s, and IsRed has for: "
        "120 s",
        "sli.red.fires <= 10m in failover can never fail: the phase lasts 60 s; expected a longer phase",
    ]
