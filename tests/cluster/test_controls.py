"""Planted weaknesses that no setting can plant: somebody on the way between client and cluster who lies.

A check that cannot fail is none: each lie must be a weakness, found by the check that is there for it. The planted
weaknesses that are definitions are in experiments/controls; docs/controls.md lists all.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from clusterkit import DATA, ROOT, Cli, await_event, cli, findings, impostors, in_effect, run_folder
from controls import PLANTED

from chaos.history import History
from chaos.observe.proof import problems

LIED = DATA / "lied.yaml"
BEGAN = "lied-since"
"""A file beside the run's folder: since when it was lied (CLOCK_MONOTONIC ns)."""


def lied_to(
    tiny, out: Path, lie: str, experiment: Path = LIED, about: str | None = None, hosts=None
) -> dict[str, dict]:
    """The findings of a run in whose last phase somebody lies on the way, by metric: before the cluster, or on hosts
    of its own."""
    with impostors(tiny, hosts or tiny.wiring.clients, lie, about) as switch:
        running = Cli("run", experiment, "--out", out, "--on", tiny.id)
        await_event(running, out, in_effect)
        switch.touch()
        (out / BEGAN).write_text(str(time.monotonic_ns()))
        code, output = running.end()
    assert code == 1, output
    found = findings(out)
    assert found["outcome"] == "weakness" and found["clean"] is True
    assert problems(tiny) == []
    return {finding["metric"]: finding for finding in found["findings"]}


@pytest.mark.full
def test_honest_go_betweens_are_no_weakness(tiny, out):
    """The control of the controls: the same proxies, telling the truth."""
    with impostors(tiny, tiny.wiring.clients, ""):
        code, output = cli("run", LIED, "--out", out, "--on", tiny.id)
    assert code in (0, 3), output
    assert not [each for each in findings(out)["findings"] if each["counts_as"] == "weakness"], output


@pytest.mark.full
def test_a_write_that_somebody_else_acknowledged_is_lost(tiny, out):
    found = lied_to(tiny, out, "acknowledge")
    arrivals = History.open(run_folder(out)).arrivals
    begun = int((out / BEGAN).read_text())
    swallowed = ((arrivals["op"] == "write") & (arrivals["intended"] >= begun)).sum() / 20
    assert found["acknowledged.lost"]["counts_as"] == "weakness"
    assert abs(found["acknowledged.lost"]["measured"] - swallowed) <= 3  # three liars, each with a count of its own
    assert found["read.good"]["counts_as"] != "weakness"


def changed(tiny, out: Path) -> tuple[set[str], dict]:
    """The ids of the documents that were changed on their way, and what the read-back found."""
    told = (tiny.folder / "run" / "told").read_text().split()
    assert len(told) == len(set(told)) >= 5
    return set(told), json.loads((run_folder(out) / "history" / "readback.json").read_text())


@pytest.mark.full
def test_a_letter_that_is_changed_on_the_way_to_the_cluster_is_found_on_every_copy(tiny, out):
    """Both numbers of the documents are right, and so are their ids: only the source and what was indexed is not."""
    found = lied_to(tiny, out, "letter")["acknowledged.lost"]
    told, readback = changed(tiny, out)
    assert found["counts_as"] == "weakness" and found["measured"] == len(told)
    assert set(readback["wrong_content"]) == told and readback["lost_count"] == readback["diverged_count"] == 0
    for way in ("source", "index"):
        named = readback[f"wrong_{way}"]
        assert {each["id"] for each in named} == told
        assert all(len(each["on"]) == 3 and each["right_on"] == [] for each in named)
    assert readback["wrong_doc_values"] == []
    assert readback["content"]["documents"] == readback["content"]["of"] == readback["documents"]


@pytest.mark.full
def test_a_letter_that_is_changed_on_the_way_to_one_copy_is_found_on_that_copy_alone(tiny, out):
    (there,) = [host for host in tiny.wiring.nodes if host.zone == "c"]
    found = lied_to(tiny, out, "replica", hosts=[there])["acknowledged.lost"]
    told, readback = changed(tiny, out)
    assert found["counts_as"] == "weakness" and found["measured"] == len(told)
    assert f"on {there.name} alone" in found["says"]
    for way in ("source", "index"):
        named = readback[f"wrong_{way}"]
        assert {each["id"] for each in named} == told
        assert all(each["on"] == [there.name] and len(each["right_on"]) == 2 for each in named)


@pytest.mark.parametrize("lie", ["partial", "none found"])
@pytest.mark.full
def test_an_answer_with_status_200_and_less_than_everything_is_not_good(tiny, out, lie):
    found = lied_to(tiny, out, lie)
    assert found["read.good"]["counts_as"] == "weakness" and 0.9 < found["read.good"]["measured"] < 0.97
    assert found["acknowledged.lost"]["counts_as"] == "pass"


@pytest.mark.parametrize(
    ("lie", "operation", "says"),
    [("hollow", "search", " answered with 0 hits of "), ("elsewhere", "get", ' answered with the _index "orders"')],
)
@pytest.mark.full
def test_answers_that_are_whole_by_their_own_word_and_not_what_was_asked_for_are_not_good(
    tiny, out, tmp_path, lie, operation, says
):
    """A total and no hits; another index's document: "whole" was a counter, and every one of these was good."""
    experiment = tmp_path / "asked.yaml"
    lied = LIED.read_text().replace("read:  {rate: 50/s,", f"read:  {{operation: {operation}, rate: 50/s,")
    experiment.write_text(lied.replace("topology: tiny", f"topology: {DATA / 'tiny.yaml'}"))
    found = lied_to(tiny, out, lie, experiment)
    assert found["read.good"]["counts_as"] == "weakness" and found["read.good"]["measured"] < 0.2
    assert f"{operation}" in found["read.good"]["says"] and says in found["read.good"]["says"]
    assert found["acknowledged.lost"]["counts_as"] == "pass"
    told = findings(out)
    lied_about = told["tables"]["good"]["read"]["lied"]["outcomes"]
    assert set(lied_about) == {"ok", "wrong"} and says in told["tables"]["data"]["wrong_answers"]["says"]
    assert all(each["ok"] for each in told["validity"]["checks"]), told["validity"]


@pytest.mark.full
def test_garbled_answers_of_one_node_are_named_and_not_good(tiny, out):
    """One in a hundred of its answers. No instrument is blamed for them, and no write was promised by them."""
    found = lied_to(tiny, out, "garble", DATA / "garbled.yaml", about="b-all")
    assert found["read.good"]["counts_as"] == found["write.good"]["counts_as"] == "weakness"
    assert found["acknowledged.lost"]["counts_as"] == "pass"
    arrivals = History.open(run_folder(out)).arrivals
    garbled = arrivals[arrivals["outcome"] == "garbled"]
    assert len(garbled) >= 6 and set(garbled["node"]) == {"b-all"} and set(garbled["op"]) == {"read", "write"}
    of_node = arrivals[(arrivals["node"] == "b-all") & (arrivals["intended"] >= garbled["intended"].min())]
    assert len(garbled) / len(of_node) < 0.02
    assert not (arrivals["outcome"] == "unknown").any()
    told = findings(out)
    assert all(each["ok"] for each in told["validity"]["checks"]), told["validity"]
    named = {
        (op, phase): row["outcomes"]["garbled"]
        for op, phases in told["tables"]["good"].items()
        for phase, row in phases.items()
        if "garbled" in row["outcomes"]
    }
    assert {phase for _, phase in named} == {"garbled"} and sum(named.values()) == len(garbled)


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.full
def test_a_planted_weakness_is_found(out, spotless, name):
    """Every control of experiments/controls, by the finding that docs/controls.md names for it."""
    code, output = cli("run", ROOT / "experiments" / "controls" / f"{name}.yaml", "--out", out, timeout=900)
    assert code == 1, output
    found = findings(out)
    assert found["outcome"] == "weakness" and found["clean"] is True
    assert {each["id"]: each["counts_as"] for each in found["findings"]}[PLANTED[name]] == "weakness"
