"""An external actor steers the cluster, its links or its tasks in mid-run: on a real cluster he is seen and named."""

from __future__ import annotations

import time

import pytest
from clusterkit import DATA, Cli, await_event, events, findings, in_effect, nothing_left

from chaos.history import configuration, passages
from chaos.observe.proof import problems
from chaos.opensearch.requests import weights_path
from chaos.opensearch.views import administer, await_green
from chaos.targets.labs.processes import wait_until

SLOW = DATA / "slow.yaml"
VOTES = "/_cluster/voting_config_exclusions"
ANEW = ", and there is a new one of its name"
"""After a deleted index, once the load has written again."""
MOMENT = "closed and opened the load's index, or changed a setting of it for a moment"
"""Where no look falls into that moment."""
CLOSED = "changed the load's index's setting index.verified_before_close from unset to true"
HANDS = {
    "cluster": (
        [("PUT", "/_cluster/settings", {"persistent": {"cluster.routing.allocation.enable": "none"}})],
        ("PUT", "/_cluster/settings", {"persistent": {"cluster.routing.allocation.enable": None}}),
        "changed the cluster's setting cluster.routing.allocation.enable from unset to none",
    ),
    "index": (
        [("PUT", "/{index}/_settings", {"index.refresh_interval": "30s"})],
        None,
        "changed the load's index's setting index.refresh_interval from unset to 30s",
    ),
    "closed": (  # from then on each request of the load is refused as wrong
        [("POST", "/{index}/_close", None)],
        None,
        CLOSED,
    ),
    "closed for a moment": (
        [("POST", "/{index}/_close", None), ("POST", "/{index}/_open", None)],
        None,
        MOMENT,
    ),
    "deleted": (  # and the load's next write makes one anew
        [("DELETE", "/{index}", None)],
        None,
        "deleted the load's index",
    ),
    "weights": (
        [("PUT", weights_path(), {"weights": {"a": "1", "b": "1", "c": "0"}, "_version": -1})],
        ("DELETE", weights_path(), {"_version": 0}),
        "changed the zones' weights from unset to a 1, b 1, c 0",
    ),
    "votes": (
        [("POST", f"{VOTES}?node_names=b-all", None)],
        ("DELETE", f"{VOTES}?wait_for_removal=false", None),
        "changed which nodes have no vote from unset to b-all",
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("hand", HANDS)
def test_who_steers_the_cluster_in_mid_run_is_found(tiny, out, hand):
    there, back, says = HANDS[hand]
    running = Cli("run", SLOW, "--out", out, "--on", tiny.id)
    try:
        await_event(running, out, in_effect)
        (made,) = [event["index"] for event in events(out) if event["kind"] == "index.routing"]
        for method, path, body in there:
            assert administer(tiny, method, path.format(index=made), body)[0] == 200
        code, output = running.end()
    finally:
        if back is not None:
            assert administer(tiny, *back)[0] == 200
    assert code == 3, output
    found = findings(out)
    assert found["outcome"] == "inconclusive" and found["clean"] is True
    seen = [says, CLOSED] if says is MOMENT else [says]
    assert any(f"omebody else {each}, between " in found["summary"].replace(ANEW, "") for each in seen), found[
        "summary"
    ]
    changed = [event for event in events(out) if event["kind"] == configuration.CHANGED]
    assert len(changed) == 1 or says is MOMENT  # a look fell into it: changed, and back again
    assert 0 < changed[0]["t"] - changed[0]["since"] < 30e9
    assert await_green(tiny, 60)[0] and problems(tiny) == [] and nothing_left() == []


@pytest.mark.full
def test_a_proxy_of_a_client_zone_that_is_switched_off_while_a_fault_holds_elsewhere_is_named(tiny, out):
    running = Cli("run", SLOW, "--out", out, "--on", tiny.id)
    await_event(running, out, in_effect)
    proxy = sorted(name for name, each in tiny.proxies("client-a").items() if each["enabled"])[0]
    tiny.set_proxy("client-a", proxy, enabled=False)
    try:
        await_event(running, out, lambda event: event["kind"] == passages.CHANGED)
    finally:
        tiny.set_proxy("client-a", proxy, enabled=True)
    code, output = running.end()
    assert code == 3, output
    found = findings(out)
    assert found["outcome"] == "inconclusive" and found["clean"] is True
    says = f"omebody else switched off the proxy {proxy} of client zone a, between "
    assert says in found["summary"], found["summary"]
    first = next(event for event in events(out) if event["kind"] == passages.CHANGED)
    assert 0 < event_seconds(first) < 10
    assert problems(tiny) == [] and nothing_left() == []


@pytest.mark.full
def test_a_harmless_setting_ends_no_run_and_erases_nothing(tiny, out):
    """What the run says is what it says without it; the change is on its record."""
    running = Cli("run", SLOW, "--out", out, "--on", tiny.id)
    await_event(running, out, in_effect)
    changed = {"persistent": {"cluster.info.update.interval": "17s"}}
    assert administer(tiny, "PUT", "/_cluster/settings", changed)[0] == 200
    try:
        running.end()
    finally:
        changed = {"persistent": {"cluster.info.update.interval": None}}
        assert administer(tiny, "PUT", "/_cluster/settings", changed)[0] == 200
    found = findings(out)
    assert len([event for event in events(out) if event["kind"] == configuration.CHANGED]) == 1
    assert not [reason for reason in found["reasons"] if reason["cause"] in ("settings", "step")], found["reasons"]
    assert next(event for event in events(out) if event["kind"] == "run.end")["reason"] == "finished"


@pytest.mark.full
def test_searches_that_are_cancelled_in_a_loop_are_counted_and_are_not_laid_at_the_cluster_s_door(tiny, out):
    running = Cli("run", SLOW, "--out", out, "--on", tiny.id)
    await_event(running, out, in_effect)
    end = time.monotonic() + 20

    def again() -> bool:
        administer(tiny, "POST", "/_tasks/_cancel?actions=indices:data/read/search*")
        return time.monotonic() > end

    wait_until(again, 60, every=0.002)
    code, output = running.end()
    found = findings(out)
    assert code == 3 and found["outcome"] == "inconclusive", output
    # OpenSearch 3.8.0 mostly says "request has been terminated", which does not tell by whom
    told = ("omebody else cancelled tasks of the cluster", "asks of the cluster were cancelled, and it cannot be told")
    assert any(words in found["summary"] for words in told), found["summary"]
    assert "answers to reads said so" in found["summary"]


def event_seconds(event):
    """Between the last look at which it was not so and the one that saw it."""
    return (event["t"] - event["since"]) / 1e9
