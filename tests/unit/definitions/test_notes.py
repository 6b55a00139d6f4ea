"""Notes of `expect`: a known weakness with and without a bound, a promise about data relaxed, and every wrong one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.definitions.test_experiments import EXAMPLE, changed, here, load, says  # noqa: F401 ("here" is a fixture)
from unit.definitions.test_shipped import read, validator

from chaos.definitions import load_topology, notes, writing
from chaos.definitions.expectations import Comparison, Expectation, WeaknessBound
from chaos.registry import GRAMMAR, METRICS, load_experiment
from chaos.run.plan import digest

LOST = "  - {acknowledged.lost: 0}\n"


def line(text: str) -> str:
    return changed((LOST, f"  - {text}\n"))


def last(text: str) -> Expectation:
    return load(line(text)).expect[-1]


def test_a_bound_is_read_written_back_and_in_the_hash() -> None:
    text = line('{phase: failover, write.outage: "<= 5s", known_weakness: {bound: "<= 15s", why: 12 s were seen}}')
    experiment = load(text)
    other = digest(load(text.replace("<= 15s", "<= 16s")))
    found = experiment.expect[-1]
    assert (found.known_weakness, found.known_bound) == (
        "12 s were seen",
        WeaknessBound(comparison="<=", value=15.0, text="<= 15s"),
    )
    assert found.note == "known weakness, bound <= 15s: 12 s were seen"
    assert GRAMMAR.experiment(json.loads(json.dumps(experiment.to_json()))) == experiment
    again = Path("again.yaml")
    again.write_text(writing.experiment(experiment, "3az-standby"))
    assert load_experiment(again, topology=load_topology("3az-standby")).expect == experiment.expect
    assert digest(experiment) != other
    assert validator("experiment").is_valid(read(text, Path.cwd()))


def test_text_alone_stays_a_note_without_a_bound_and_keeps_the_normal_form() -> None:
    found = last('{phase: failover, write.outage: "<= 5s", known_weakness: 12 s were seen}')
    assert (found.known_weakness, found.known_bound) == ("12 s were seen", None)
    assert found.note == "known weakness, unbounded: 12 s were seen"
    assert not {"known_bound", "because"} & set(found.model_dump(mode="json"))


def test_a_promise_may_be_relaxed_with_its_reason() -> None:
    text = line('{acknowledged.lost: "<= 5", because: replication is asynchronous here}')
    experiment = load(text)
    assert experiment.expect[-1].because == "replication is asynchronous here"
    assert GRAMMAR.experiment(json.loads(json.dumps(experiment.to_json()))) == experiment
    again = Path("again.yaml")
    again.write_text(writing.experiment(experiment, "3az-standby"))
    assert load_experiment(again, topology=load_topology("3az-standby")).expect == experiment.expect


WRONG = {
    '{phase: failover, write.outage: "<= 5s", known_weakness: " "}': "known_weakness: expected some text",
    '{phase: failover, write.outage: "<= 5s", known_weakness: ""}': "known_weakness: expected some text",
    '{phase: failover, write.outage: "<= 5s", known_weakness: 12}': "expected text, or a mapping with why and bound",
    '{phase: failover, write.outage: "<= 5s", known_weakness: {bound: "<= 9s"}}': '"why" is missing',
    '{phase: failover, write.outage: "<= 5s", known_weakness: {why: " ", bound: "<= 9s"}}': "why: expected some text",
    '{phase: failover, write.outage: "<= 5s", known_weakness: {why: x, bound: bad}}': "bound: 'bad' has no comparison",
    '{phase: failover, write.outage: "<= 5s", known_weakness: {why: x, bound: "<= 5s"}}': "<= and more than 5s",
    '{phase: failover, write.outage: "<= 5s", known_weakness: {why: x, bound: "<= 2s"}}': "<= and more than 5s",
    '{phase: failover, write.outage: "<= 5s", known_weakness: {why: x, bound: ">= 9s"}}': "<= and more than 5s",
    '{phase: failover, write.good: ">= 99%", known_weakness: {why: x, bound: ">= 99.9%"}}': ">= and less than 99%",
    '{phase: failover, write.good: ">= 99%", known_weakness: {why: x, bound: ">= 0%"}}': "holds whatever happens",
    '{phase: slow, elections: ">= 1", known_weakness: {why: x, bound: ">= 0"}}': "bound >= 0 holds whatever happens",
    '{phase: slow, write.outage: ">= 5s", known_weakness: {why: x, bound: ">= 0s"}}': "holds whatever happens",
    "{acknowledged.lost: 0, known_weakness: 75 are lost}": "a promise about data, which takes no known_weakness",
    '{documents.unexpected: 0, known_weakness: {why: x, bound: "<= 9"}}': "takes no known_weakness",
    '{acknowledged.lost: "<= 3"}': 'expected because: "why" in this line, or acknowledged.lost: 0',
    '{acknowledged.lost: ">= 1"}': "allows what every run promises not to happen",
    '{acknowledged.lost: "== 2"}': "allows what every run promises not to happen",
    '{documents.unexpected: "< 2"}': 'because: "why"',
    '{acknowledged.lost: "<= 3", because: " "}': "because: expected some text",
    "{acknowledged.lost: 0, because: it is so}": "allows no more than every run promises; leave it out",
    '{acknowledged.lost: "< 1", because: it is so}': "allows no more than every run promises; leave it out",
    '{phase: failover, write.outage: "<= 5s", because: it is so}': "no run promises anything about write.outage",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_note_is_refused_with_its_line(wrong: str) -> None:
    text = line(wrong)
    number = next(n for n, each in enumerate(text.splitlines(), 1) if each.strip() == f"- {wrong}")
    (said,) = says(text)
    assert f":{number}:" in said and WRONG[wrong] in said


@given(st.sampled_from([">=", "<=", "<", ">", "=="]), st.integers(0, 5))
def test_a_bound_allows_more_exactly_where_some_count_above_none_is_as_wanted(sign: str, value: int) -> None:
    wanted = Comparison.parse(f"{sign} {value}", "count")
    holds = {">=": int.__ge__, "<=": int.__le__, "<": int.__lt__, ">": int.__gt__, "==": int.__eq__}[sign]
    assert notes.allows_more(wanted) is any(holds(count, value) for count in range(1, 8))


def test_what_is_promised_without_a_line_is_about_data_and_the_whole_run() -> None:
    promised = {name for name, metric in METRICS.items() if metric.promise}
    assert promised >= {"acknowledged.lost", "documents.unexpected", "cas.violations", "stale.reads", "dirty.reads"}
    assert all(METRICS[name].whole_run and METRICS[name].unit == "count" for name in promised)
