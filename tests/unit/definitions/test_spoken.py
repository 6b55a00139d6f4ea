"""A fault may be named for people: it is spoken of so, and experiments that name none keep their normal form."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.base.errors import InvalidInput
from chaos.definitions.writing import plain as plain_of
from chaos.registry import load_experiment
from chaos.run.plan import digest

FILE = """\
apiVersion: opensearch-chaos/v1
name: spoken
topology: 3az-standby
load: {{read: {{rate: 40/s, good: ok within 1s}}, write: {{rate: 20/s, good: ok within 1s}}}}
phases:
  healthy: {{for: 30s}}
  slow: {{for: 30s, inject: {{network.latency: {{links: to zone c, delay: 3s{more}}}}}}}
  back: {{for: 30s, undo: {undo}}}
expect: [{{phase: healthy, read.good: ">= 99%"}}]
"""


def loaded(folder: Path, more: str = "", undo: str = "network.latency"):  # type: ignore[no-untyped-def]
    file = folder / "spoken.yaml"
    file.write_text(FILE.format(more=more, undo=undo))
    return load_experiment(file, topology="3az-standby")


def test_a_fault_is_spoken_of_by_what_its_author_calls_it(tmp_path: Path) -> None:
    (fault,) = loaded(tmp_path, ", as: payment link slow").phases[1].inject
    assert fault.spoken(fault.describe()) == "payment link slow: +3s on links to zone c"
    assert fault.label == "network.latency"  # undo goes on by its kind
    (named,) = loaded(tmp_path, ", name: payments", "payments").phases[1].inject
    assert named.spoken("x") == "payments: x"
    (both,) = loaded(tmp_path, ", name: payments, as: payment link", "payments").phases[1].inject
    assert both.spoken("x") == "payment link: x" and both.label == "payments"


def test_the_normal_form_has_it_only_where_it_is_given(tmp_path: Path) -> None:
    plain, named = loaded(tmp_path), loaded(tmp_path, ", as: payment link slow")
    assert "as" not in plain.to_json()["phases"][1]["inject"][0]
    written = named.to_json()["phases"][1]["inject"][0]
    assert written["as"] == "payment link slow" and "as_" not in written
    assert digest(plain) != digest(named)
    assert plain_of(named.phases[1].inject[0])["as"] == "payment link slow"  # as it is written out as YAML again


def test_a_name_that_the_random_mode_gives_is_none_for_people(tmp_path: Path) -> None:
    (drawn,) = loaded(tmp_path, ", name: n3", "n3").phases[1].inject
    assert drawn.spoken("x") == "x" and drawn.label == "n3"


@pytest.mark.parametrize("given", ["''", "' '", "' led by a space'", "'" + 61 * "x" + "'"])
def test_a_name_without_a_word_or_too_long_is_refused_where_it_stands(tmp_path: Path, given: str) -> None:
    with pytest.raises(InvalidInput, match=r"spoken\.yaml:7"):
        loaded(tmp_path, f", as: {given}")
