"""SLIs in a definition: what is understood, and every way to be wrong with its place and its words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.definitions.test_experiments import EXAMPLE, changed, here, load, says  # noqa: F401 ("here" is a fixture)
from unit.definitions.test_shipped import read, validator

from chaos.base.units import Malformed, Number
from chaos.definitions import load_topology, writing
from chaos.registry import GRAMMAR, load_experiment
from chaos.run.plan import digest

SLI = "checkout_errors: {prometheus: http://prom.example:9090/mimir, query: 'sum(rate(errors[30s]))', every: 5s}"
EXPECTED = '{phase: slow, sli.checkout_errors.max: "<= 1%"}'
LOST = "  - {acknowledged.lost: 0}\n"
GUARDS = "guards: {cluster.red: 10s, max: 8m}"


def with_(slis: str | None = SLI, expected: str | None = EXPECTED, guard: str | None = None) -> str:
    text = changed((LOST, LOST + (f"  - {expected}\n" if expected else "")))
    if slis is not None:
        text = text.replace("phases:\n", f"slis:\n  {slis}\nphases:\n")
    return text.replace(GUARDS, f"guards: {{cluster.red: 10s, sli: {guard}, max: 8m}}") if guard else text


def test_they_are_read_and_written_back() -> None:
    experiment = load(with_(guard="{checkout_errors: {above: 5%, for: 30s}}"))
    sli = experiment.slis["checkout_errors"]
    assert (sli.query, sli.every, sli.oldest, sli.fresh) == ("sum(rate(errors[30s]))", 5.0, 60.0, None)
    assert sli.server == ("prom.example", 9090, "/mimir") and not sli.tls
    last = experiment.expect[-1]
    assert (last.metric, last.op, last.unit, last.phases) == ("sli.checkout_errors.max", None, "number", ("slow",))
    assert (last.comparison, last.value, last.text) == ("<=", 0.01, "sli.checkout_errors.max <= 1%")
    limit = experiment.guards.sli["checkout_errors"]
    assert (limit.says, limit.for_, limit.beyond(0.05), limit.beyond(0.051)) == ("above 0.05", 30.0, False, True)
    assert GRAMMAR.experiment(json.loads(json.dumps(experiment.to_json()))) == experiment
    again = Path("again.yaml")
    again.write_text(writing.experiment(experiment, "3az-standby"))
    read_again = load_experiment(again, topology=load_topology("3az-standby"))
    assert read_again.to_json() | {"file": None, "topology": None} == experiment.to_json() | {
        "file": None,
        "topology": None,
    }


def test_without_them_the_normal_form_and_the_hash_are_what_they_were() -> None:
    data = load(EXAMPLE).to_json()
    assert "slis" not in data and "sli" not in data["guards"]
    assert digest(load(EXAMPLE)) != digest(load(with_()))


def test_all_stands_for_every_phase_and_the_schema_knows_it() -> None:
    text = with_(expected='{sli.checkout_errors.last: "< 0.01", phase: all}')
    assert load(text).expect[-1].phases == ("healthy", "slow", "failover", "returned")
    validator("experiment").validate(read(text, Path()))


@pytest.mark.parametrize(
    ("given", "at", "message"),
    [
        (with_(slis=None), "", 'unknown key "sli.checkout_errors.max"'),
        (with_(expected='{sli.checkout_error.max: "< 1%"}'), "", 'did you mean "sli.checkout_errors.max"?'),
        (with_(expected='{sli.checkout_errors.p99: "< 1%"}'), "", 'unknown key "sli.checkout_errors.p99"'),
        (with_(expected="{sli.checkout_errors.max: 0.01}"), "", '"< 0.01", "< 1%" or "<= 250ms"'),
        (with_(expected='{sli.checkout_errors.max: "1%"}'), "", "'1%' has no comparison"),
        (with_(expected='{sli.checkout_errors.max: "< 3 apples"}'), "", "cannot compare with '3 apples'"),
        (with_(expected='{sli.checkout_errors.max: "< 1%", sli.checkout_errors.min: "> 0"}'), "", "got 2"),
        (with_(expected=None), "8:3", "nobody asks for the SLI checkout_errors: expected sli.checkout_errors.max in"),
        (with_(slis="Big-Name: {prometheus: http://p:9090, query: up}"), "", "small letters, digits and underscores"),
        (with_(SLI.replace("http://prom", "prom")), "", "prom.example:9090/mimir is no address of a Prometheus"),
        (with_(SLI.replace("//prom", "//me:secret@prom")), "", "no user and password in the address"),
        (with_(SLI.replace("/mimir", "/api/v1/query")), "", "/api/v1 is asked for anyway"),
        (with_(SLI.replace("sum(rate(errors[30s]))", " ")), "", "the query is empty"),
        (with_(SLI.replace("5s}", "500ms}")), "", "500ms is too often: expected 1s or more"),
        (with_(SLI.replace("5s}", "5s, access: {user: me}}")), "", "user and password belong together"),
        (with_(SLI.replace("5s}", "5s, access: {token: abc}}")), "", "by reference only: expected env:NAME"),
        (with_(SLI.replace("5s}", "5s, access: {ca: ca.pem}}")), "", "certificates mean TLS: expected https"),
        (
            with_(SLI.replace("5s}", "5s, access: {user: me, password: 'env:P', token: 'env:T'}}")),
            "",
            "expected user or token",
        ),
        (
            with_(SLI.replace("every: 5s", "every: 21s")),
            "",
            "phase slow lasts 1m, and sli.checkout_errors.max needs 3 answers, one every 21s: expected 63s or more",
        ),
        (with_(guard="{checkout: {above: 1, for: 5s}}"), "", 'did you mean "checkout_errors"?'),
        (with_(guard="{checkout_errors: {for: 5s}}"), "", "expected above or below, got neither"),
        (with_(guard="{checkout_errors: {above: 1, below: 0, for: 5s}}"), "", "expected above or below, got both"),
        (with_(guard="{checkout_errors: {above: much, for: 5s}}"), "", "cannot read 'much'"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(given: str, at: str, message: str) -> None:
    said = says(given)
    assert any(message in each and each.startswith(f"x.yaml:{at}") for each in said), said
    assert "secret" not in " ".join(said).replace("a secret is given", "")


def test_only_a_guard_is_enough() -> None:
    experiment = load(with_(expected=None, guard="{checkout_errors: {below: 0.9, for: 5s}}"))
    assert experiment.guards.sli["checkout_errors"].says == "below 0.9"


@pytest.mark.parametrize(
    ("text", "value"), [("0.05", 0.05), ("5%", 0.05), ("250ms", 0.25), ("-3", -3.0), ("2 m", 120.0), ("0", 0.0)]
)
def test_numbers_are_in_base_units(text: str, value: float) -> None:
    assert Number.parse(text) == value


@pytest.mark.parametrize("text", ["", "5 %%", "1e3", "nan", "inf", "5 apples", "--3"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(Malformed, match="a number stands alone"):
        Number.parse(text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_the_same_after_writing_and_reading(value: Any) -> None:
    assert Number.parse(Number(value).text) == value
